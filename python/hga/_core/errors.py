"""The errors of this package: refusals of the library, and its own."""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type


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
