"""Plans of the pool (python/pool.c) that hierarchies have, and the tapes that their executions leave."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

import numpy as np

from .arguments import BINDINGS, encoded
from .library import RAISED, check, ffi, lib
from .precision import PRECISIONS

if TYPE_CHECKING:
    from .._graphs.calls import Calls

H = TypeVar("H", bound="Calls")

# Plans by number, which a tape has at its end: what a plan's execution left goes back by that plan, whatever came since.
PLANS: "weakref.WeakValueDictionary[int, Plan]" = weakref.WeakValueDictionary()
# Ticks of a clock that says which plan was used last.
USES = itertools.count(1)


class Waiting:
    """Held by those whose backward pass may come, all of a plan the same one."""

    __slots__ = ("__weakref__",)


class Taken(Exception):
    """The plan went to another hierarchy's graph before the call began: it is made anew, or another forward pass is."""


def new_plan(h: "Calls", key: Tuple[Any, ...], ranks: Any = ffi.NULL) -> Any:
    """The library's plan, the caller's."""
    heads, kv_heads, dim, dim_v, (pos_dim, generic), threads, precision, isa, dropout, gradient = key
    shape, options, out = ffi.new("hga_shape *"), ffi.new("hga_options *"), ffi.new("hga_plan **")
    shape.n_heads, shape.n_kv_heads, shape.dim, shape.dim_v, shape.pos_dim = heads, kv_heads, dim, dim_v, pos_dim
    options.threads, options.bind, options.strict_rows = threads, BINDINGS[h._bind], h._strict
    name = ffi.new("char[]", encoded(isa, "isa")) if isa else ffi.NULL
    options.isa, options.ranks = name, ranks
    options.precision = PRECISIONS[precision]
    options.dropout, options.gradient, options.generic = dropout, gradient, generic
    check(lib.hga_plan_create(h.graph._g, h._program, shape, options, out))
    return out[0]


# ---- memory that calls had ----

LARGE = 4 << 20  # bytes from which the system clears fresh pages one by one, which takes longer than to cache them


class Spares:
    """Arrays of the pool's memory: large outputs, tapes and gradients stay with their plan until the next."""

    def __init__(self, plan: Any) -> None:
        self._memory = ffi.gc(lib.hga_py_memory_retain(lib.hga_py_cached_memory(plan)), lib.hga_py_memory_release)

    def empty(self, shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
        return self.maker(shape, dtype)()

    def maker(self, shape: Tuple[int, ...], dtype: Any, cleared: bool = False) -> Callable[[], np.ndarray]:
        """Of arrays that are alike, each new."""
        kind = np.dtype(dtype)
        if math.prod(shape) * kind.itemsize < LARGE:
            return functools.partial(np.zeros if cleared else np.empty, shape, kind)
        return functools.partial(self._array, shape, kind, cleared)

    def _array(self, shape: Tuple[int, ...], kind: "np.dtype[Any]", cleared: bool) -> np.ndarray:
        """Its block goes back when the last array on it is gone."""
        size, out = math.prod(shape) * kind.itemsize, ffi.new("void **")
        check(lib.hga_py_take_memory(self._memory, size, cleared, out))
        block = ffi.gc(out[0], lib.hga_py_give_memory)
        return np.frombuffer(ffi.buffer(block, size), kind).reshape(shape)


# ---- plans ----


class Plan:
    """A plan of the pool's that a hierarchy has."""

    def __init__(self, h: "Calls", key: Tuple[Any, ...], of: Optional["Plan"] = None) -> None:
        """of: one that is not used any more, which was updated to this hierarchy."""
        self.cached: Any = _owned(new_plan(h, key)) if of is None else of.cached
        self.key = key
        self.calls_python = bool(h._functions)
        self._waiting: Callable[[], Optional[Waiting]] = lambda: None  # a weak reference
        self.spares: Spares = Spares(self.cached) if of is None else of.spares
        self.number = int(lib.hga_py_cached_number(self.cached))
        self.used = next(USES)
        PLANS[self.number] = self

    @property
    def plan(self) -> Any:
        """The library's."""
        return lib.hga_py_cached_plan(self.cached)

    @contextlib.contextmanager
    def held(self) -> Iterator[Any]:
        """The library's plan, to be read: no thread takes it meanwhile."""
        out = ffi.new("hga_py_workspaces **")
        ran(lib.hga_py_take_workspaces(self.cached, self.number, 0, out))
        try:
            yield self.plan
        finally:
            lib.hga_py_give_workspaces(self.cached, out[0])

    def awaited(self) -> Waiting:
        """To be held until the backward pass has come: no thread takes the plan before. (Another backward pass would run forward
        again, if the plan is taken.)"""
        found = self._waiting()
        if found is None:
            found = Waiting()
            self._waiting = weakref.ref(found)
        return found

    def taken_by(self, h: "Calls") -> Optional["Plan"]:
        """The plan for another graph; None where a call uses it, or will."""
        if self.calls_python or self._waiting() is not None:
            return None
        if lib.hga_py_cached_number(self.cached) != self.number or lib.hga_py_move(self.cached, h.graph._g) != lib.HGA_OK:
            return None
        PLANS.pop(self.number, None)
        return Plan(h, self.key, self)

    @property
    def sizes(self) -> Any:
        """hga_py_cached_sizes."""
        return lib.hga_py_cached_one(self.cached)


def _owned(plan: Any) -> Any:
    """The library's plan in the pool, as long as anything here has it."""
    out = ffi.new("hga_py_cached **")
    check(lib.hga_py_own(plan, out))
    return ffi.gc(out[0], lib.hga_py_release)


def ran(status: int) -> None:
    """Raise what a call of the pool's refused."""
    if status == lib.HGA_PY_TAKEN:
        raise Taken
    if status or RAISED.error is not None:
        check(status)


class Tape(np.ndarray):
    """[batch..][bytes]: tapes of the samples of a call. They keep their hierarchy and their plan alive."""

    alive: Tuple["Calls", "Plan"]
    waits: Optional[Waiting]


def tape_bytes(plan: Any) -> int:
    """Of a sample: what the library's plan asks for, then the plan's number."""
    return int(lib.hga_py_tape_of(plan))


def alive_tape(h: "Calls", plan: "Plan", memory: np.ndarray) -> Tape:
    """Memory that the call fills."""
    tape = memory.view(Tape)
    tape.alive, tape.waits = (h, plan), plan.awaited()
    return tape


def plan_of(tape: Optional[np.ndarray]) -> Optional["Plan"]:
    """The plan whose tapes these are; none where it is gone, or where there are no tapes."""
    if tape is None or tape.size == 0:
        return None
    return PLANS.get(int(np.ascontiguousarray(tape).view(np.int64).flat[-1]))


class Left:
    """The plans of a hierarchy that is gone, for others to take over. It looks like one to them."""

    def __init__(self, h: "Calls") -> None:
        self._plans, self._lock = h._plans, threading.Lock()
        self._program, self._strict, self._bind, self.n_graphs = h._program, h._strict, h._bind, h.n_graphs
        self._before: Tuple[Any, ...] = ()
        self._normalised: Dict[str, Any] = {}
        for plan in self._plans.values():
            lib.hga_py_rest(plan.cached)

    def _forget(self, plan: Plan) -> None:
        del self._plans[plan.key]


LEFT: List[Left] = []
MOST_LEFT = 16


def leave(h: "Calls") -> None:
    """Neither caller nor tape has it any more, and its plans stay for a while."""
    if LEFT is not None and h._plans:  # None at the interpreter's end
        LEFT[:] = [x for x in [*LEFT, Left(h)] if x._plans][-MOST_LEFT:]


def left_to_others(h: H) -> H:
    """It takes over the plans of those that are gone, and leaves its own when it goes."""
    h._leaves_plans = True
    return h._follows(*LEFT)
