"""Of these modules: the names go where they are now once all who import them follow."""

from .arguments import RENAMED as RENAMED, Former as Former, new_name as new_name, former_names as former_names, with_new_names as with_new_names
