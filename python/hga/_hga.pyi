# The extension module that cffi makes of the public headers: the library's functions and constants, and memory for them.
from typing import Any

ffi: Any
lib: Any
