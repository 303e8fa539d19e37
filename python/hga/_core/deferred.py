"""What makes graphs and hierarchies: inside torch.compile it is written down and done when the pass runs (``torch/_compiled.py``)."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from typing import Any, Callable, Dict, cast

from .later import later
from .library import F

# Graphs, hierarchies and functions have names that no other process gives: they stand for them in the arguments of torch's
# operators, and so in what torch.compile caches in files.
_NUMBERS = itertools.count(1)
_PROCESS = [os.urandom(6).hex()]

STARTS: Dict[str, Callable[..., Any]] = {}  # by names


def begin_names() -> None:
    """After a fork."""
    _PROCESS[0] = os.urandom(6).hex()


def new_name() -> str:
    return f"{_PROCESS[0]}-{next(_NUMBERS)}"


def compiling() -> bool:
    """Does torch.compile look at what runs?"""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def deferred(function: F) -> F:
    """A function that makes a graph or a hierarchy."""
    name = f"{function.__module__}.{function.__qualname__}"
    STARTS[name] = function

    @functools.wraps(function)
    def call(*arguments: Any, **more: Any) -> Any:
        if compiling():
            return later("torch._compiled").made(name, *arguments, **more)
        return function(*arguments, **more)

    return cast(F, call)


def step(method: F) -> F:
    """A method that makes a hierarchy of a graph or of another one, which may have been made outside."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **more: Any) -> Any:
        if compiling():
            return getattr(later("torch._compiled").known(self), name)(*arguments, **more)
        return method(self, *arguments, **more)

    return cast(F, call)
