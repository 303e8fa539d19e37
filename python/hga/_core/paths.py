"""Of these modules: the names go where they are now once all who import them follow."""

from .library import cmake_dir as cmake_dir, include_dir as include_dir, library as library
