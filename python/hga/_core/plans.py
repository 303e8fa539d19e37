"""Plans, with the memory that is free at the moment, and the tapes that their executions leave."""

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
from .library import check, ffi, lib
from .precision import PRECISIONS

if TYPE_CHECKING:
    from .._graphs.calls import Calls

H = TypeVar("H", bound="Calls")

# Plans by number, which a tape has at its end: what a plan's execution left goes back by that plan, whatever came since.
PLANS: "weakref.WeakValueDictionary[int, Plan]" = weakref.WeakValueDictionary()
_PLAN_NUMBERS = itertools.count(1)
# Ticks of a clock that says which plan was used last.
USES = itertools.count(1)


class Waiting:
    """Held by those whose backward pass may come, all of a plan the same one."""

    __slots__ = ("__weakref__",)


class Taken(Exception):
    """The plan went to another hierarchy's graph before the call began: it is made anew, or another forward pass is."""


class Workspaces:
    """Workspaces for as many samples as run at once, and the memory to describe these."""

    def __init__(self, plan: "Plan") -> None:
        self._plan, self.n = plan.plan, 0  # not the plan itself, which holds workspaces: a circle would wait for the collector
        self._workspaces: List[Any] = []
        self._memory: Tuple[Any, ...] = ()
        self.c = ffi.new("hga_py_workspaces *")

    def fit(self, n: int) -> int:
        """Serve n samples at once; how many workspaces that made."""
        before = len(self._workspaces)
        if n > len(self._workspaces):
            while len(self._workspaces) < n:
                out = ffi.new("hga_workspace **")
                check(lib.hga_workspace_create(self._plan, out))
                self._workspaces.append(ffi.gc(out[0], lib.hga_workspace_destroy))
            listed = ffi.new("hga_workspace *[]", self._workspaces)
            self._memory = (listed, ffi.new("hga_io[]", n), ffi.new("hga_grad_io[]", n))
            self.c.workspaces, self.c.ios, self.c.grads = self._memory
        self.n = self.c.n = n
        return len(self._workspaces) - before


def new_plan(h: "Calls", key: Tuple[Any, ...], ranks: Any = ffi.NULL) -> Any:
    """The library's plan."""
    heads, kv_heads, dim, dim_v, (pos_dim, generic), threads, precision, isa, dropout, gradient = key
    shape, options, out = ffi.new("hga_shape *"), ffi.new("hga_options *"), ffi.new("hga_plan **")
    shape.n_heads, shape.n_kv_heads, shape.dim, shape.dim_v, shape.pos_dim = heads, kv_heads, dim, dim_v, pos_dim
    options.threads, options.bind, options.strict_rows = threads, BINDINGS[h._bind], h._strict
    name = ffi.new("char[]", encoded(isa, "isa")) if isa else ffi.NULL
    options.isa, options.ranks = name, ranks
    options.precision = PRECISIONS[precision]
    options.dropout, options.gradient, options.generic = dropout, gradient, generic
    check(lib.hga_plan_create(h.graph._g, h._program, shape, options, out))
    return ffi.gc(out[0], lib.hga_plan_destroy)


# ---- memory that calls had ----

LARGE = 4 << 20  # bytes from which the system clears fresh pages one by one, which takes longer than to cache them
MOST_CACHED = 4  # blocks of a size: an output and the gradients of query, key and value
MOST = 8  # blocks in all; those of a size that has not come for longest go first


class _Lease:
    """A block in use: it goes back when the last array on it is gone."""

    def __init__(self, spares: "Spares", block: np.ndarray) -> None:
        self._spares, self._block = spares, block
        self.__array_interface__: Any = block.__array_interface__

    def __del__(self) -> None:
        self._spares._take_back(self._block)


class Spares:
    """Memory that large calls would take anew each time: outputs, tapes and gradients stay with their plan until the next. Free
    blocks, by size. Taking one and giving it back are each one step of the interpreter's, so that threads
    need no lock."""

    def __init__(self) -> None:
        self._free: Dict[int, List[np.ndarray]] = {}

    def empty(self, shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
        return self.maker(shape, dtype)()

    def maker(self, shape: Tuple[int, ...], dtype: Any, cleared: bool = False) -> Callable[[], np.ndarray]:
        """Of arrays that are alike, each new."""
        kind = np.dtype(dtype)
        if math.prod(shape) * kind.itemsize < LARGE:
            return functools.partial(np.zeros if cleared else np.empty, shape, kind)
        return functools.partial(self._array, shape, kind, cleared)

    def _array(self, shape: Tuple[int, ...], kind: "np.dtype[Any]", cleared: bool) -> np.ndarray:
        size = math.prod(shape) * kind.itemsize
        try:
            block = self._free[size].pop()
            if cleared:
                block.fill(0)
        except (KeyError, IndexError):  # fresh pages are clear, and are near the thread that writes them first
            block = (np.zeros if cleared else np.empty)(size, np.uint8)
        return np.asarray(_Lease(self, block)).view(kind).reshape(shape)

    def _take_back(self, block: np.ndarray) -> None:
        size = block.size
        free = self._free.pop(size, [])  # the last size is the last one in the table
        if len(free) < MOST_CACHED:
            free.append(block)
        self._free[size] = free
        if sum(map(len, list(self._free.values()))) > MOST:
            self._free.pop(next(iter(self._free)), None)

    @property
    def bytes(self) -> int:
        """Of the free blocks."""
        return sum(size * len(free) for size, free in list(self._free.items()))


# ---- plans ----


class Plan:
    """A plan and the workspaces that are free. Taking one and giving it back are each one step of the interpreter's, so that
    threads need no lock."""

    def __init__(self, h: "Calls", key: Tuple[Any, ...], of: Optional["Plan"] = None) -> None:
        """of: one that is not used any more, whose memory this one has."""
        self.plan: Any = new_plan(h, key) if of is None else of.plan
        self.key = key
        self.threads = max(1, int(lib.hga_plan_threads(self.plan)))
        self.calls_python = bool(h._functions)
        self._free: List[Workspaces] = []
        self._made: List[None] = []  # as many as there are workspaces; while all are free no call runs
        self._waiting: Callable[[], Optional[Waiting]] = lambda: None  # a weak reference
        self.taken = False
        self.spares: Spares = Spares() if of is None else of.spares
        self.n_workspaces = 0
        self.number = next(_PLAN_NUMBERS)
        self.used = next(USES)
        PLANS[self.number] = self

    def workspaces(self, samples: int) -> Workspaces:
        """For `samples` at once. A thread that needs the plan for another graph says so before it counts the workspaces, and who takes
        one looks after he has it: one of the two sees the other."""
        try:
            workspaces: Optional[Workspaces] = self._free.pop()
        except IndexError:
            workspaces = None
            self._made.append(None)
        if self.taken:
            if workspaces is not None:
                self._free.append(workspaces)
            else:
                self._made.pop()
            raise Taken
        try:
            workspaces = workspaces or Workspaces(self)
            if workspaces.n != samples:
                self.n_workspaces += workspaces.fit(samples)
        except BaseException:
            self._made.pop()
            raise
        return workspaces

    def give_back(self, workspaces: Workspaces) -> None:
        self._free.append(workspaces)

    @contextlib.contextmanager
    def held(self) -> Iterator[Any]:
        """The library's plan, to be read: no thread takes it meanwhile."""
        self._made.append(None)
        try:
            if self.taken:
                raise Taken
            yield self.plan
        finally:
            self._made.pop()

    def rest(self) -> None:
        """No call comes for a while: workspaces are freed."""
        if len(self._free) == len(self._made):
            self._free.clear()
            self._made.clear()

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
        if self.taken or self.calls_python or self._waiting() is not None:
            return None
        self.taken = True
        if len(self._free) < len(self._made) or lib.hga_plan_update(self.plan, h.graph._g) != lib.HGA_OK:
            self.taken = False
            return None
        PLANS.pop(self.number, None)
        self._free.clear()  # workspaces are as large as the graph makes them
        self._made.clear()
        return Plan(h, self.key, self)

    @property
    def bytes(self) -> int:
        return int(lib.hga_plan_bytes(self.plan))

    @property
    def workspace_bytes(self) -> int:
        """Of all its workspaces, as they were made."""
        return self.n_workspaces * int(lib.hga_plan_workspace_bytes(self.plan))


class Tape(np.ndarray):
    """[batch..][bytes]: tapes of the samples of a call. They keep their hierarchy and their plan alive."""

    alive: Tuple["Calls", "Plan"]
    waits: Optional[Waiting]


def tape_bytes(plan: Any) -> int:
    """Of a sample: what the library's plan asks for, then the plan's number, to the end of a whole line."""
    return (int(lib.hga_plan_tape_bytes(plan)) + 8 + 63) // 64 * 64


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
            plan.rest()

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
