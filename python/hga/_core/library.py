"""The compiled module. Where a shared library that it needs is missing, the error is one line with the command that installs it."""

from __future__ import annotations

import re
import shutil

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
