"""Score_mods that were traced: a function that reads the same as before is traced once.

What a function reads is looked up, never guessed: its code, defaults, closure and globals, those of functions that it calls, and
attributes of objects by the names that stand in its code. Numbers count by value, tensors by identity and version. A function that
may read anything else, such as a counter or a file, is traced in every call."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
import types
import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

import torch
from torch.fx import GraphModule

from ..torch._eager import PLAIN, watched
from .trace import Matcher, Score, Traced

Tensor = torch.Tensor
MOST_CACHED = 64  # traces, of those that were used last
_FIXED = ("torch", "math", "operator", "builtins", "functools", "typing")  # packages whose functions give the same for the same
_VALUES = (type(None), bool, int, str, bytes, complex, torch.dtype, torch.device, torch.layout, type(Ellipsis))
_BUILTINS = (types.BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
# Names by which code reads what no look at it finds.
_HIDDEN = frozenset("getattr setattr eval exec globals locals vars open input next __dict__ __import__ import_module".split())


class _Unknown(Exception):
    """Something that a look does not understand."""


def _is_fixed(module: Optional[str]) -> bool:
    return (module or "builtins").partition(".")[0] in _FIXED


def _names(code: types.CodeType) -> FrozenSet[str]:
    """Of globals and attributes, in functions inside it, too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return frozenset(found)


def _method_names(of: type, names: FrozenSet[str]) -> FrozenSet[str]:
    """Names with those in the code of methods that they name, of these, and so on."""
    known: Set[str] = set()
    new = set(names)
    while new:
        known |= new
        called = [inspect.getattr_static(of, name, None) for name in new]
        new = {name for f in called if isinstance(f, types.FunctionType) for name in _names(f.__code__)} - known
    return frozenset(known)


class _Look:
    """What a function reads, as a key, and the objects that are in it by identity."""

    def __init__(self) -> None:
        self.same: List[Any] = []
        self.seen: Dict[int, int] = {}

    def of(self, x: Any, names: FrozenSet[str]) -> Any:
        kind = type(x)
        if kind in _VALUES:
            return kind, x
        if kind is float:
            return kind, x.hex()
        if isinstance(x, Tensor):
            return self._tensor(x)
        if id(x) in self.seen:
            return "again", self.seen[id(x)]
        self.seen[id(x)] = len(self.seen)
        if kind in (tuple, list):
            return (kind, *(self.of(i, names) for i in x))
        if kind is dict:
            return (kind, *((self.of(k, names), self.of(v, names)) for k, v in x.items()))
        return self._called(x, names)

    def _tensor(self, x: Tensor) -> Any:
        if type(x) not in PLAIN or x.is_inference():
            raise _Unknown
        self.same.append(x)
        return "tensor", id(x), x._version, x.data_ptr(), x.requires_grad, x.dtype, tuple(x.shape), x.stride()

    def _called(self, x: Any, names: FrozenSet[str]) -> Any:
        if isinstance(x, types.FunctionType):
            return ("fixed", id(x)) if _is_fixed(x.__module__) else self._function(x)
        if isinstance(x, types.MethodType):
            return "method", self.of(x.__func__, names), self.of(x.__self__, _names(getattr(x.__func__, "__code__", _NO_CODE)))
        if isinstance(x, functools.partial):
            return "partial", self.of(x.func, names), self.of(x.args, names), self.of(x.keywords, names)
        if isinstance(x, types.ModuleType):
            return self._module(x, names)
        if isinstance(x, (type, *_BUILTINS)):
            if not _is_fixed(x.__module__) or not isinstance(getattr(x, "__self__", None), (type(None), types.ModuleType)):
                raise _Unknown
            return "fixed", id(x)
        if isinstance(x, GraphModule):
            self.same.append(x)
            return "graph", id(x)
        return self._object(x, names)

    def _function(self, f: types.FunctionType) -> Any:
        names = _names(f.__code__)
        if names & _HIDDEN or any(name in sys.modules and not _is_fixed(name) and name not in f.__globals__ for name in names):
            raise _Unknown
        try:
            cells = [self.of(cell.cell_contents, names) for cell in f.__closure__ or ()]
        except ValueError as e:  # an empty one
            raise _Unknown from e
        read = [(name, self.of(f.__globals__[name], names)) for name in sorted(names) if name in f.__globals__]
        defaults = self.of(f.__defaults__, names), self.of(f.__kwdefaults__, names)
        return "function", f.__code__, defaults, tuple(cells), tuple(read)

    def _module(self, x: types.ModuleType, names: FrozenSet[str]) -> Any:
        if _is_fixed(x.__name__):
            return "module", x.__name__
        return "module", x.__name__, tuple((name, self.of(vars(x)[name], names)) for name in sorted(names) if name in vars(x))

    def _object(self, x: Any, names: FrozenSet[str]) -> Any:
        """One with attributes of its own, and of its class, by name."""
        of, is_module = type(x), isinstance(x, torch.nn.Module)
        call = type(x).forward if is_module else inspect.getattr_static(of, "__call__", None)
        if isinstance(call, types.FunctionType):
            names = names | _names(call.__code__)
        if getattr(of, "__getattribute__", None) is not object.__getattribute__ or not hasattr(x, "__dict__"):
            raise _Unknown
        if is_module:
            if x._forward_hooks or x._forward_pre_hooks or of.__getattr__ is not torch.nn.Module.__getattr__:
                raise _Unknown
            own = {**vars(x), **x._parameters, **x._buffers, **x._modules}
        elif hasattr(of, "__getattr__"):
            raise _Unknown
        else:
            own = vars(x)
        names = _method_names(of, names)
        return "object", self._class(of, call, own, names), tuple((n, self.of(own[n], names)) for n in sorted(names) if n in own)

    def _class(self, of: type, call: Any, own: Dict[str, Any], names: FrozenSet[str]) -> Any:
        """What a class has by these names, and how its objects are called."""
        found = [("()", call)] if isinstance(call, types.FunctionType) else []
        found += [(n, inspect.getattr_static(of, n)) for n in sorted(names - own.keys()) if hasattr(of, n)]
        plain = [(n, f.__func__ if isinstance(f, staticmethod) else f) for n, f in found]
        return tuple((n, self.of(f, names)) for n, f in plain)


_NO_CODE = compile("", "", "exec")


def _look(function: Callable[..., Any]) -> Optional[Tuple[Any, List[Any]]]:
    """What a trace of the function comes of, and the objects that must be the same ones; None: it cannot be known."""
    if watched():
        return None
    look = _Look()
    try:
        key = look.of(function, frozenset())
        hash(key)
    except (_Unknown, TypeError, RecursionError):
        return None
    return (key, torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()), look.same


class _Cached(NamedTuple):
    same: List[Any]  # weak: reading tensors does not extend their lives
    traced: Traced
    tensors: Dict[str, Any]  # weak, where the caller has them
    score: Score


_CACHE: "OrderedDict[Any, _Cached]" = OrderedDict()
_LOCK = threading.Lock()


def _again(key: Any, same: List[Any]) -> Optional[Tuple[Traced, Score]]:
    with _LOCK:
        found = _CACHE.get(key)
        if found is None or any(weak() is not x for weak, x in zip(found.same, same)):
            return None
        _CACHE.move_to_end(key)
    traced = copy.copy(found.traced)
    traced.tensors = {name: x() if isinstance(x, weakref.ref) else x for name, x in found.tensors.items()}
    return traced, found.score


def _store(key: Any, same: List[Any], traced: Traced, score: Score) -> None:
    theirs = {id(x) for x in same}
    tensors = {name: weakref.ref(x) if id(x) in theirs else x for name, x in traced.tensors.items()}
    alone = copy.copy(traced)
    alone.tensors = {}
    with _LOCK:
        _CACHE[key] = _Cached([weakref.ref(x) for x in same], alone, tensors, score)
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
