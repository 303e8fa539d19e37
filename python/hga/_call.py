"""One call of attention: its arrays checked, its tables, the plan and the workspaces that serve it."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from ._arguments import meant
from ._core import as_floats, as_numpy, check, ffi, floats_at, lib, number, refuse, table
from ._rows import in_words

if TYPE_CHECKING:
    from ._hierarchy import Hierarchy

LAYOUTS = {"bhnd": (-3, -2), "bnhd": (-2, -3)}


# Plans by number, which a tape has at its end: what a plan's execution left goes back by that plan, whatever came since.
PLANS: "weakref.WeakValueDictionary[int, Plan]" = weakref.WeakValueDictionary()
_PLAN_NUMBERS = itertools.count(1)


class Tape(np.ndarray):
    """[batch..][bytes]: tapes of the samples of a call. They keep their hierarchy and their plan alive."""

    keeps: Tuple["Hierarchy", "Plan"]


def tape_bytes(plan: "Plan") -> int:
    """Of a sample: what the library asks for, then the plan's number, to the end of a whole line."""
    return (int(lib.hga_plan_tape_bytes(plan.plan)) + 8 + 63) // 64 * 64


def new_tape(h: "Hierarchy", plan: "Plan", batch: Tuple[int, ...]) -> Tape:
    tape = np.zeros(batch + (tape_bytes(plan),), np.uint8).view(Tape)
    tape.view(np.int64)[..., -1] = plan.number
    tape.keeps = (h, plan)
    return tape


def plan_of(tape: Optional[np.ndarray]) -> Optional["Plan"]:
    """The plan whose tapes these are; none where it is gone, or where there are no tapes."""
    if tape is None or tape.size == 0:
        return None
    return PLANS.get(int(np.ascontiguousarray(tape).view(np.int64).flat[-1]))


class Plan:
    """A plan and the workspaces that are free at the moment."""

    def __init__(self, h: "Hierarchy", key: Tuple[Any, ...]) -> None:
        heads, kv_heads, dim, dim_v, pos_dim, threads, precision, isa, edge_bias, dropout, gradient = key
        shape = ffi.new("hga_shape *")
        shape.n_heads, shape.n_kv_heads, shape.dim, shape.dim_v, shape.pos_dim = heads, kv_heads, dim, dim_v, pos_dim
        options = ffi.new("hga_options *")
        options.threads = threads
        name = ffi.new("char[]", isa.encode()) if isa else ffi.NULL
        options.isa = name
        options.precision = lib.HGA_PRECISION_BF16 if precision == "bf16" else lib.HGA_PRECISION_F32
        options.edge_bias, options.dropout, options.gradient = edge_bias, dropout, gradient
        out = ffi.new("hga_plan **")
        check(lib.hga_plan_create(h.graph._g, h._program, shape, options, out))
        self.plan = ffi.gc(out[0], lib.hga_plan_destroy)
        self._free: List[Any] = []
        self._lock = threading.Lock()
        self.number = next(_PLAN_NUMBERS)
        PLANS[self.number] = self

    def workspace(self) -> Any:
        with self._lock:
            if self._free:
                return self._free.pop()
        out = ffi.new("hga_workspace **")
        check(lib.hga_workspace_create(self.plan, out))
        return ffi.gc(out[0], lib.hga_workspace_destroy)

    def give_back(self, workspace: Any) -> None:
        with self._lock:
            self._free.append(workspace)

    def gradient(self, io: Any, g: Any) -> None:
        workspace = self.workspace()
        try:
            check(lib.hga_plan_gradient(self.plan, workspace, io, g))
        finally:
            self.give_back(workspace)

    def execute(self, ios: Any, n: int) -> None:
        """Run n samples, as many at once as there are threads: each thread has one to itself as long as there is one."""
        at_once = max(1, min(n, lib.hga_plan_threads(self.plan)))
        workspaces = []
        try:
            for _ in range(at_once):
                workspaces.append(self.workspace())
            if at_once == 1:
                for i in range(n):
                    check(lib.hga_plan_execute(self.plan, workspaces[0], ios + i))
                return
            listed = ffi.new("hga_workspace *[]", workspaces)
            for first in range(0, n, at_once):
                check(lib.hga_plan_execute_batch(self.plan, listed, ios + first, min(at_once, n - first)))
        finally:
            for workspace in workspaces:
                self.give_back(workspace)


class Tables:
    """What a call may bring besides query, key and value, described to the library; keeps the arrays alive."""

    NAMES = ("rel_key", "rel_bias", "edge_bias", "node_pos", "type_scale")

    def __init__(self, h: "Hierarchy", given: Dict[str, Any], scale: Optional[float], heads: int, dim: int) -> None:
        self.arrays: Dict[str, np.ndarray] = {}
        for name in self.NAMES:
            value = given.get(name)
            if value is None and name == "type_scale":
                value = h._type_scale
            if value is None:
                continue
            x = as_floats(value, name)
            self.arrays[name] = table(x, name, 1 if name == "type_scale" or (name == "edge_bias" and x.ndim == 1) else 2)
            if name == "node_pos" and h._node_of is not None:
                if len(x) != len(h._node_of):
                    raise refuse(f"node_pos has {len(x)} rows, the tree {len(h._node_of)} nodes")
                own = np.empty_like(self.arrays[name])
                own[h._node_of] = self.arrays[name]
                self.arrays[name] = own
        self.scale = 0.0 if scale is None else number(scale, "scale")  # the library's 0 is its default
        expect = {"rel_key": dim, "rel_bias": heads}
        for name, columns in expect.items():
            if name in self.arrays and self.arrays[name].shape[1] != columns:
                raise refuse(f"{name} has shape {self.arrays[name].shape}: its rows need {columns} columns")

    @property
    def pos_dim(self) -> int:
        return self.arrays["node_pos"].shape[1] if "node_pos" in self.arrays else 0

    def describe(self, io: Any) -> None:
        a = self.arrays
        io.scale = self.scale
        for name in a:
            setattr(io, name, floats_at(a[name]))
        io.n_rel_key = len(a.get("rel_key", ()))
        io.n_rel_bias = len(a.get("rel_bias", ()))
        io.n_type_scale = len(a.get("type_scale", ()))
        io.n_node_pos = len(a.get("node_pos", ()))
        if "edge_bias" in a:
            io.n_edge_bias = len(a["edge_bias"])
            io.edge_bias_heads = 1 if a["edge_bias"].ndim == 1 else a["edge_bias"].shape[1]


def _refuse_other_readers(program: Any) -> None:
    """Scores of scale 0 are those of queries that are 0: as long as nothing but scores looks at queries."""
    queries: Set[int] = set()
    for f in range(1, program.n_fields + 1):
        if program.field[f].binding == lib.HGA_IO_QUERY:
            queries.add(f)
    known = -1
    while known != len(queries):  # means and sums of queries are queries
        known = len(queries)
        for s in (program.stage[i] for i in range(program.n_stages)):
            if s.message in (lib.HGA_COPY, lib.HGA_SCALED) and s.value in queries:
                queries.add(int(s.out))
    for s in (program.stage[i] for i in range(program.n_stages)):
        read = {s.key, s.gate, s.keep} | {f for f in range(1, program.n_fields + 1) if s.reads >> f & 1}
        if s.message not in (lib.HGA_COPY, lib.HGA_SCALED):
            read.add(s.value)
        elif s.value in queries:
            read.discard(s.value)
        if s.message == lib.HGA_SCORE:
            read.discard(s.query)
        if read & queries:
            raise refuse(f"scale 0: stage {ffi.string(s.name).decode()} reads queries otherwise than by scores")
    if any(program.field[f].binding == lib.HGA_IO_OUT for f in queries):
        raise refuse("scale 0: this program's output is made of queries")


class Problem:
    """The arrays of one call, checked, with their axes named."""

    def __init__(self, h: "Hierarchy", q: Any, k: Any, v: Any, layout: str, given: Dict[str, Any],
                 scale: Optional[float]) -> None:  # fmt: skip
        if layout not in LAYOUTS:
            raise refuse(f"layout {layout!r} is neither 'bhnd' nor 'bnhd'{meant(layout, LAYOUTS)}")
        self.q, self.k, self.v = (as_numpy(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value")))
        axes = self.q.ndim
        for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value")):
            if x.ndim != axes:
                raise refuse(f"{name} has {x.ndim} axes, query {axes}")
            if x.ndim < 2:
                raise refuse(f"{name} has shape {x.shape}: at least [tokens][dim] is needed")
            if x.shape[-1] > 1 and x.size and x.strides[-1] != x.itemsize:
                raise refuse(f"the last axis of {name} does not lie side by side (strides {x.strides})")
        if axes == 2:
            self.q, self.k, self.v = self.q[None], self.k[None], self.v[None]
            layout = "bhnd"
        self.flat = axes == 2
        self.heads_axis, self.rows_axis = LAYOUTS[layout]
        self.batch = self.q.shape[:-3]
        for x, name in ((self.k, "key"), (self.v, "value")):
            if x.shape[:-3] != self.batch:
                raise refuse(f"{name} has shape {x.shape}, query {self.q.shape}: the batch axes differ")
        self.heads, self.kv_heads = self.q.shape[self.heads_axis], self.k.shape[self.heads_axis]
        self.dim, self.dim_v = self.q.shape[-1], self.v.shape[-1]
        for n, what in ((self.heads, "query"), (self.kv_heads, "key")):
            if n == 0:
                raise refuse(f"{what} has shape {(self.q if what == 'query' else self.k).shape}: no heads")
        if self.dim == 0 or self.dim_v == 0:
            raise refuse(f"query has {self.dim} columns, value {self.dim_v}: at least one is needed")
        if self.k.shape[-1] != self.dim:
            raise refuse(f"key has {self.k.shape[-1]} columns, query {self.dim}")
        if self.v.shape[self.heads_axis] != self.kv_heads or self.v.shape[self.rows_axis] != self.k.shape[self.rows_axis]:
            raise refuse(f"value has shape {self.v.shape}, key {self.k.shape}")
        for x, name, n in ((x, name, h._rows(name)) for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value"))):
            if n >= 0 and x.shape[self.rows_axis] != n:
                raise refuse(
                    f"{name} of shape {x.shape} has {x.shape[self.rows_axis]} rows in layout {layout!r}, the hierarchy {n}"
                    + in_words(h, name)
                )
        self.tables = Tables(h, given, scale, self.heads, self.dim)
        self.zero_queries: Optional[np.ndarray] = None
        if scale is not None and self.tables.scale == 0:
            _refuse_other_readers(h._program)
            self.zero_queries = np.zeros(self.q.shape[-3:], np.float32)

    def query(self, at: Tuple[int, ...]) -> np.ndarray:
        """The queries of a sample; zeros where scores have scale 0."""
        return self.q[at] if self.zero_queries is None else self.zero_queries

    def new_out(self) -> np.ndarray:
        """In the query's type; zeros, since a program may leave rows alone."""
        return np.zeros(self.q.shape[:-1] + (self.dim_v,), self.q.dtype)

    def samples(self) -> List[Tuple[int, ...]]:
        return list(np.ndindex(*self.batch))

    def lse_shape(self) -> Tuple[int, ...]:
        return self.q.shape[:-1]
