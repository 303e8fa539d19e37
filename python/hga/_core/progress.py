"""Bars of tqdm for what takes longer than two seconds."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Callable, Iterable, Iterator, Optional, TypeVar

from .arguments import flag
from .library import extern, ffi, lib, record_raised

T = TypeVar("T")
SECONDS = 2  # what is done sooner shows no bar
CHUNK = 4096  # items between two looks at the clock
FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
Tell = Callable[[float], None]  # takes the share that is done, from 0 to 1


def silent(share: float) -> None:
    """No bar."""


@contextmanager
def bar(what: str, progress: Optional[bool]) -> Iterator[Tell]:
    """A bar for the body, which tells what share of its work is done. progress: None shows it in notebooks and on terminals,
    where tqdm is installed; True always; False never."""
    requested = progress is not None and flag(progress, "progress")
    installed = find_spec("tqdm") is not None
    if requested and not installed:
        raise ModuleNotFoundError("progress=True shows a bar of tqdm, which is not installed: pip install tqdm", name="tqdm")
    if not installed or (progress is not None and not requested):
        yield silent
        return
    from tqdm.auto import tqdm

    disable = False if requested else None  # None: tqdm looks whether it writes to a terminal or a notebook
    with tqdm(total=1, desc=what, disable=disable, delay=SECONDS, bar_format=FORMAT, leave=False) as drawn:

        def tell(share: float) -> None:
            drawn.update(share - drawn.n)

        yield silent if drawn.disable else tell


def each(items: Iterable[T], n: int, tell: Tell, first: float = 0, last: float = 1) -> Iterator[T]:
    """The items, of which there are ``n``: together they are the work from ``first`` to ``last``."""
    for i, item in enumerate(items):
        if i % CHUNK == 0:
            tell(first + (last - first) * i / n)
        yield item
    tell(last)


@contextmanager
def reported_by_c(what: str, progress: Optional[bool]) -> Iterator[Any]:
    """The two arguments hga_progress and context of a function of the library that shows a bar."""
    with bar(what, progress) as tell:
        yield (ffi.NULL, ffi.NULL) if tell is silent else (lib.hga_py_progress, ffi.new_handle(tell))


@extern(onerror=record_raised)
def hga_py_progress(done: float, context: Any) -> None:
    ffi.from_handle(context)(done)
