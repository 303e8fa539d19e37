"""Of call: the names go there once all who import them follow."""

from .call import Prepared as Prepared, address as address
