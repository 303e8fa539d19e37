"""Every variant of the registry as a function. For type checkers the build makes functions.pyi of the same table."""

from typing import List

from .registry import variants
from .variants import function_of

__all__: List[str] = []

for _name, _variant in variants().items():
    _function = function_of(_variant)
    globals()[_function.__name__] = _function
    __all__.append(_function.__name__)

neighborhood = globals()["neighbourhood"]
__all__.append("neighborhood")
