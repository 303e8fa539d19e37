"""Score_mods that were traced: a function that reads the same as before is traced once.

What a function reads is looked up, never guessed: its code, defaults, closure and globals, and those of functions that it calls.
Numbers, strings, and lists and dictionaries of them count by value, tensors by identity and version. A function that may read
anything else, such as an attribute of an object, a counter or a file, is traced in every call."""

from __future__ import annotations

import copy
import functools
import math
import sys
import threading
import types
import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

import torch
from torch.fx import GraphModule

from ..torch._operators import PLAIN
from ..torch._eager import watched
from .trace import Matcher, Score, Traced

Tensor = torch.Tensor
MOST_CACHED = 64  # traces, of those that were used last
GRAPHS: "weakref.WeakSet[GraphModule]" = weakref.WeakSet()  # torch.compile's, which nobody changes

_FIXED = ("torch", "math", "operator")  # packages whose functions give the same for the same
_VALUES = (type(None), bool, int, str, bytes, torch.dtype, torch.device, torch.layout, type(Ellipsis))
_WITH_ATTRIBUTES = (*PLAIN, types.FunctionType, functools.partial)
# What code may name that is no global: builtins that read their arguments alone, and attributes of packages and tensors.
_BUILTINS = "dict divmod enumerate isinstance len list map reversed sorted tuple zip".split()
_ATTRIBUTES = [name for x in (torch, torch.nn.functional, torch.special, torch.Tensor, math) for name in dir(x) if name[0] != "_"]
_NAMES = frozenset(_BUILTINS + _ATTRIBUTES) - {"from_file", "grad", "load"}


def _is_fixed(x: Any) -> bool:
    """Is it a package, or what stands in one by its own name?"""
    module = x if isinstance(x, types.ModuleType) else sys.modules.get(str(getattr(x, "__module__", "")))
    if module is None or module.__name__.partition(".")[0] not in _FIXED:
        return False
    return module is x or getattr(module, getattr(x, "__name__", ""), None) is x


def _names(code: types.CodeType) -> FrozenSet[str]:
    """Of globals and attributes, in functions inside it, too."""
    return frozenset(code.co_names).union(*(_names(x) for x in code.co_consts if isinstance(x, types.CodeType)))


class _Look:
    """What a function reads, as a key, and the objects that are in it by identity; a LookupError where it cannot be known."""

    def __init__(self) -> None:
        self.same: List[Any] = []
        self.seen: Dict[int, int] = {}

    def of(self, x: Any) -> Any:
        kind = type(x)
        if kind in _VALUES:
            return kind, x
        if kind is float:
            return kind, x.hex()
        if kind in _WITH_ATTRIBUTES and not _NAMES.isdisjoint(vars(x)):  # which somebody gave it
            raise LookupError
        if kind in PLAIN and not x.is_inference():
            self.same.append(x)
            return "tensor", id(x), x._version, x.data_ptr(), x.requires_grad, x.dtype, tuple(x.shape), x.stride()
        if id(x) in self.seen:
            return "again", self.seen[id(x)]
        self.seen[id(x)] = len(self.seen)
        if kind in (tuple, list):
            return (kind, *map(self.of, x))
        if kind is dict:
            return (kind, *((self.of(k), self.of(v)) for k, v in x.items()))
        if kind is functools.partial:
            return kind, self.of(x.func), self.of(x.args), self.of(x.keywords)
        if _is_fixed(x):
            return x
        if kind is types.FunctionType:
            return self._function(x)
        if x not in GRAPHS:
            raise LookupError
        self.same.append(x)
        return "graph", id(x)

    def _function(self, f: types.FunctionType) -> Any:
        """Its code, what it has of its own, and the globals that it names, where it is no package's."""
        found = [f.__code__, *map(self.of, (f.__defaults__, f.__kwdefaults__))]
        found += [self.of(cell.cell_contents) for cell in f.__closure__ or ()]
        own, names = f.__globals__, _names(f.__code__)
        if str(own.get("__name__")).partition(".")[0] not in _FIXED:
            others = names - own.keys()
            if not others <= _NAMES or any(name in sys.modules and not _is_fixed(sys.modules[name]) for name in others):
                raise LookupError
            found += [(name, self.of(own[name])) for name in sorted(names & own.keys())]
        return "function", tuple(found)


def _look(function: Callable[..., Any]) -> Optional[Tuple[Any, List[Any]]]:
    """What a trace of the function comes of, and the objects that must be the same ones; None: it cannot be known."""
    if watched():
        return None
    look = _Look()
    try:
        key = look.of(function)
        hash(key)
    except (LookupError, RecursionError, TypeError, ValueError):  # an empty cell, or what has no hash
        return None
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
    return (key, autocast, torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()), look.same


class _Cached(NamedTuple):
    same: List[Any]  # weak: reading tensors does not extend their lives
    traced: Traced  # whose tensors are weak, where the caller has them
    score: Score


_CACHE: "OrderedDict[Any, _Cached]" = OrderedDict()
_LOCK = threading.Lock()


def _with(traced: Traced, tensors: Dict[str, Any]) -> Traced:
    other = copy.copy(traced)
    other.tensors = tensors
    return other


def _again(key: Any, same: List[Any]) -> Optional[Tuple[Traced, Score]]:
    with _LOCK:
        found = _CACHE.get(key)
        if found is None or any(weak() is not x for weak, x in zip(found.same, same)):
            return None
        _CACHE.move_to_end(key)
    tensors = {name: x() if isinstance(x, weakref.ref) else x for name, x in found.traced.tensors.items()}
    return _with(found.traced, tensors), found.score


def _store(key: Any, same: List[Any], traced: Traced, score: Score) -> None:
    theirs = {id(x) for x in same}
    tensors = {name: weakref.ref(x) if id(x) in theirs else x for name, x in traced.tensors.items()}
    with _LOCK:
        _CACHE[key] = _Cached([weakref.ref(x) for x in same], _with(traced, tensors), score)
        while len(_CACHE) > MOST_CACHED:
            _CACHE.popitem(last=False)


def traced_score(score_mod: Callable[..., Any]) -> Tuple[Traced, Score]:
    """What a score_mod computes, from an earlier call where it reads the same."""
    looked = _look(score_mod)
    found = _again(*looked) if looked is not None else None
    if found is None:
        traced = Traced(score_mod, "score_mod", True)
        found = traced, Matcher(traced).match()
        if looked is not None:
            _store(*looked, *found)
    return found
