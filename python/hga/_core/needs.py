"""Of these modules: the names go where they are now once all who import them follow."""

from .releases import needs as needs
