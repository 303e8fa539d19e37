"""The compiled library: how it is found, its errors, and what it calls in Python."""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple, Type, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# What a library's file is called -> Debian's, Fedora's and Arch's package.
PACKAGES = {
    "libcxsparse": ("libcxsparse3", "suitesparse", "suitesparse"),
    "libgomp": ("libgomp1", "libgomp", "gcc-libs"),
    "libhwloc": ("libhwloc15", "hwloc-libs", "hwloc"),
    "libicuuc": ("libicu72", "libicu", "icu"),
    "libjansson": ("libjansson4", "jansson", "jansson"),
    "libmd4c": ("libmd4c0", "md4c", "md4c"),
    "libmetis": ("libmetis5", "metis", "metis"),
    "libxml2": ("libxml2", "libxml2", "libxml2"),
    "libzip": ("libzip4", "libzip", "libzip"),
}
INSTALLERS = (("apt-get", "sudo apt-get install"), ("dnf", "sudo dnf install"), ("pacman", "sudo pacman -S"))


def what_is_missing(said: str) -> str:
    """The dynamic loader's words, and how to get what it did not find."""
    found = re.match(r"((lib\w+)\.so[.\d]*): cannot open shared object file", said)
    if not found or found.group(2) not in PACKAGES:
        return said
    packages = PACKAGES[found.group(2)]
    for i, (program, command) in enumerate(INSTALLERS):
        if shutil.which(program):
            return f"hga needs {found.group(1)}: {command} {packages[i]}"
    return f"hga needs {found.group(1)}: Debian's package is {packages[0]}, Fedora's {packages[1]}, Arch's {packages[2]}"


try:
    from .._hga import ffi as ffi, lib as lib
except ImportError as e:
    raise ImportError(what_is_missing(str(e)), name=e.name, path=e.path) from None


def take_text(pointer: Any) -> str:
    """A text of the library's, given back to it."""
    text: str = ffi.string(pointer).decode()
    lib.hga_text_free(pointer)
    return text


def version() -> str:
    return str(ffi.string(lib.hga_version()).decode())


# ---- for extensions that are built against it ----

_PACKAGE = pathlib.Path(__file__).resolve().parent.parent


def include_dir() -> str:
    """The folder of the C headers: ``cc -I $(python3 -c 'import hga; print(hga.include_dir())')``, and ``#include <hga.h>``."""
    return str(_PACKAGE / "include" / "hga")


def library() -> str:
    """The shared library that the package itself runs with, a file to link. What is linked to it shares one libhga with the package
    in a process; it is found where ``import hga`` came first, or by an rpath to its folder."""
    (found,) = _PACKAGE.glob("libhga.so.*")
    return str(found)


def cmake_dir() -> str:
    """The folder for ``cmake -Dhga_DIR=..``: there ``find_package(hga)`` gives ``hga::hga`` and, with COMPONENTS files,
    ``hga::files``, both the package's own."""
    return str(_PACKAGE / "cmake")


# ---- errors ----


class Error(Exception):
    """A refusal of the library: ``status`` is its name ("HGA_EINVAL"), ``detail`` what was wrong. It is a ValueError as well
    where an argument, a graph, a program or a file's content is wrong (and a TypeError for a wrong type or keyword), an
    OSError for files that cannot be read or written, a MemoryError where an allocation failed, and a NotImplementedError
    and a ValueError where the combination is not offered."""

    def __new__(cls, status: str, detail: str) -> "Error":
        kind = _KINDS.get(status, cls) if cls is Error else cls
        return (OSError if issubclass(kind, OSError) else Exception).__new__(kind, detail)

    def __init__(self, status: str, detail: str) -> None:
        Exception.__init__(self, detail)
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> Tuple[Any, ...]:
        """So that a worker can hand it to who waits for it."""
        return type(self), (self.status, self.detail)


class WrongValue(Error, ValueError):
    """An argument, or what a graph, a program or a file is made of, is wrong."""


class WrongType(WrongValue, TypeError):
    """An argument of a wrong type, or an unknown one."""


class NotOffered(WrongValue, NotImplementedError):
    """The combination has no meaning, or this machine or build lacks what it needs."""


class NoFile(Error, OSError):
    """A file cannot be opened, read or written."""


class NoMemory(Error, MemoryError):
    """An allocation failed."""


_KINDS: Dict[str, Type[Error]] = {
    "HGA_EINVAL": WrongValue, "HGA_EGRAPH": WrongValue, "HGA_EPROGRAM": WrongValue, "HGA_EFORMAT": WrongValue,
    "HGA_EOVERFLOW": WrongValue, "HGA_EUNSUPPORTED": NotOffered, "HGA_EIO": NoFile, "HGA_ENOMEM": NoMemory,
}  # fmt: skip


class _Raised(threading.local):
    """What a Python function raised that C called on this thread: C goes on, and `check` raises it when C is back."""

    error: Optional[BaseException] = None


RAISED = _Raised()


def record_raised(kind: Any, error: BaseException, trace: Any) -> None:
    """For ``extern(onerror=..)``: the first exception is stored, nothing is printed."""
    if RAISED.error is None:
        RAISED.error = error.with_traceback(trace)


def error_detail() -> str:
    """What the library says of the last refusal, which may have bytes of a file that is no UTF-8."""
    return str(ffi.string(lib.hga_error_detail()).decode(errors="backslashreplace"))


def check(status: int) -> None:
    """Raise what a call of the library refused, or what a Python function raised that it called."""
    error, RAISED.error = RAISED.error, None
    if error is not None:
        raise error
    if status != lib.HGA_OK:
        name = ffi.string(lib.hga_status_name(status)).decode()
        raise Error(name, error_detail())


def refuse(text: str) -> Error:
    """An error of this package's own, in the library's words."""
    return Error("HGA_EINVAL", text) if not _traced() else cast(Error, ValueError(text))


def refuse_type(text: str) -> Error:
    """The same where the type is wrong, or where the word is unknown."""
    return WrongType("HGA_EINVAL", text) if not _traced() else cast(Error, TypeError(text))


def _traced() -> bool:
    """Is it dynamo that runs? It repeats the text of exceptions of Python's own, and knows no others."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


# ---- Python that it calls ----


def extern(**options: Any) -> Callable[[F], F]:
    """Python's half of a callback that C knows by the function's name."""
    return cast(Callable[[F], F], ffi.def_extern(**options))


@extern(error=lib.HGA_EEXTERNAL, onerror=record_raised)
def hga_py_interrupt(context: Any) -> int:
    """Handlers run as this function begins; what they raise ends the call, and ``check`` raises it."""
    return int(lib.HGA_OK if RAISED.error is None else lib.HGA_EEXTERNAL)


if threading.current_thread() is threading.main_thread():
    lib.hga_set_interrupt(lib.hga_py_interrupt, ffi.NULL)
