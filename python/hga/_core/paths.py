"""Where the C library of the package lies, for extensions that are built against it."""

from __future__ import annotations

import pathlib

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
