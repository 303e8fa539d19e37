"""One call of attention: its arrays, checked, and as C takes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

import numpy as np

from .arguments import either, one_of
from .arrays import as_numpy, fill_rows, fill_tensor, is_torch
from .library import ffi, lib, refuse, refuse_type
from .plans import Plan, ran, tape_bytes
from .precision import is_bf16, resolved
from .tables import ROWS, Tables, features_of, parted

if TYPE_CHECKING:
    from .._graphs.calls import Calls

LAYOUTS = {"bhnd": (-3, -2), "bnhd": (-2, -3)}  # axes of heads and of rows
IO = {"query": lib.HGA_IO_QUERY, "key": lib.HGA_IO_KEY, "value": lib.HGA_IO_VALUE, "out": lib.HGA_IO_OUT}


def require_layout(layout: Any) -> None:
    either(layout, "layout", LAYOUTS)


def are_nodes(h: "Calls", which: str) -> bool:
    """Has the tensor of that name a row a node?"""
    field = lib.hga_program_field(h._program, IO[which])
    return bool(field and h._program.field[field].io == lib.HGA_ROWS_NODES)


def _tokens(h: "Calls") -> int:
    return int(lib.hga_graph_nodes(h.graph._g).level_ptr[1])


def in_words(h: "Calls", which: str) -> str:
    """What a message about a wrong number of rows adds where rows are nodes."""
    if not are_nodes(h, which):
        return ""
    spans = h.graph.n_nodes - _tokens(h)
    name = h.words.split(" x ")[-1].split()[0] if h.words else "this hierarchy"
    says = f": rows of {name} are nodes: {_tokens(h)} tokens and {spans} spans"
    return says + "; h.lift(x) makes them of tokens' rows, h.lower(out) takes the tokens' out"


class Problem:
    """The arrays of one call, checked, with their axes named."""

    def __init__(
        self, h: "Calls", q: Any, k: Any, v: Any, layout: str, tables: Tables, rows: Optional[Callable[[str], int]] = None,
        who: str = "the hierarchy",
    ) -> None:  # fmt: skip
        """rows: how many rows of a tensor ``who`` has, if it is not the hierarchy; -1: there is no such tensor."""
        require_layout(layout)
        self.q, self.k, self.v = (as_numpy(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value")))
        axes = self.q.ndim
        for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value")):
            if x.ndim != axes:
                raise refuse(f"{name} has {x.ndim} axes, query has {axes}")
            if x.ndim < 2:
                raise refuse(f"{name} has shape {x.shape}: at least [tokens][dim] is needed")
            if x.shape[-1] > 1 and x.size and x.strides[-1] != x.itemsize:
                raise refuse(f"{name} is not contiguous in the last dimension (strides {x.strides})")
        if axes == 2:
            self.q, self.k, self.v = self.q[None], self.k[None], self.v[None]
            layout = "bhnd"
        self.flat = axes == 2
        self.heads_axis, self.rows_axis = LAYOUTS[layout]
        self.batch = self.q.shape[:-3]
        for x, name in ((self.k, "key"), (self.v, "value")):
            if x.shape[:-3] != self.batch:
                raise refuse(f"{name} has shape {x.shape}, query has {self.q.shape}: the batch axes differ")
        self.heads, self.kv_heads = self.q.shape[self.heads_axis], self.k.shape[self.heads_axis]
        self.dim, self.dim_v = self.q.shape[-1], self.v.shape[-1]
        for n, what in ((self.heads, "query"), (self.kv_heads, "key")):
            if n == 0:
                raise refuse(f"{what} has shape {(self.q if what == 'query' else self.k).shape}: no heads")
        if self.dim == 0 or self.dim_v == 0:
            raise refuse(f"query has {self.dim} columns, value {self.dim_v}: at least one is needed")
        if self.k.shape[-1] != self.dim:
            raise refuse(f"key has {self.k.shape[-1]} columns, query has {self.dim}")
        for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value")):
            n, found = (rows or h._rows)(name), x.shape[self.rows_axis]
            n = n // (h.n_graphs if name == "query" else h.n_key_graphs) if n > 0 and not rows else n
            if n >= 0 and found != n:
                words = "" if rows else in_words(h, name)
                raise refuse(f"{name} of shape {x.shape} has {found} rows in layout {layout!r}, {who} has {n}{words}")
        if self.v.shape[self.heads_axis] != self.kv_heads or self.v.shape[self.rows_axis] != self.k.shape[self.rows_axis]:
            raise refuse(f"value has shape {self.v.shape}, key {self.k.shape}")
        if h.n_graphs > 1:
            if self.heads % h.n_graphs:
                raise refuse(f"query has {self.heads} heads, the hierarchy has graphs for {h.n_graphs}")
            if self.kv_heads != h.n_key_graphs:
                raise refuse(f"key has {self.kv_heads} heads, the hierarchy has graphs for {h.n_key_graphs}")
            self.heads, self.kv_heads = self.heads // h.n_graphs, 1  # those of a row of the graph
        tables.check(self.heads, self.dim, h.n_graphs)
        self.h, self.tables = h, tables
        self.features = features_of(tables.arrays)
        if self.features and (self.q.dtype != np.float32 or h.n_graphs > 1):
            raise refuse("features of edges go with a query of float32" if h.n_graphs == 1 else "features of edges: each head has a graph of its own")

    def plan_key(self, threads: int, precision: str, isa: Optional[str], dropout: float, grad: bool) -> Tuple[Any, ...]:
        precision = resolved(precision, self.h, is_bf16(self.q, self.k, self.v), isa, grad)
        return (self.heads, self.kv_heads, self.dim, self.dim_v, self.tables.traits, threads, precision, isa, dropout, int(grad))

    def describe(self, io: Any, at: Tuple[int, ...]) -> None:
        """A sample's arrays and tables, to the library."""
        for t, x in ((io.query, self.q), (io.key, self.k), (io.value, self.v)):
            self.fill(t, x[at])
        self.tables.describe(io)

    def fill(self, t: Any, x: np.ndarray) -> None:
        """A sample's array to the library, its rows as the graph has them."""
        fill_tensor(t, x, self.rows_axis, self.heads_axis)
        self._fold(t, x.shape[self.heads_axis])

    def fill_rows(self, t: Any, x: np.ndarray) -> None:
        """The same of one number for each row and head."""
        fill_rows(t, x, self.rows_axis + 1, self.heads_axis + 1)
        self._fold(t, x.shape[self.heads_axis + 1])

    def _fold(self, t: Any, heads: int) -> None:
        """Of so many heads those of each graph in one row: rows are a token's, or a graph's, one after the other."""
        h = self.h
        if h.n_graphs > 1:
            graphs = h.n_graphs if heads >= h.n_graphs else h.n_key_graphs
            each, tokens = heads // graphs * t.head_stride, t.row_stride
            t.fold, t.row_stride, t.fold_stride = (graphs, each, tokens) if h.by_token else (t.rows, tokens, each)
            t.rows *= graphs


# ---- calls that were checked ----

CLEARED_IN_C = 4 << 20  # bytes of an output beyond which fresh pages, which are zeros, cost less than setting it to zero
_ADDRESS, _BUFFER = lib.hga_py_address, ffi.from_buffer


def address(x: Optional[np.ndarray]) -> int:
    """Where an array begins; 0 of none."""
    if x is None:
        return 0
    try:
        return int(_ADDRESS(_BUFFER(x)))
    except ValueError:  # strided
        return int(x.ctypes.data)


class Prepared:
    """A kind of call, as C takes it: what the next one of the same shapes, strides, types and options need not check again. A call
    passes addresses, and the samples of a batch are described in C."""

    def __init__(self, plan: Plan, p: Problem, d_out: Optional[np.dtype] = None) -> None:
        """d_out: the type of the output's gradient, where it is not the query's."""
        self.plan = plan
        columns, q = p.dim_v + p.features, p.q[0] if p.flat else p.q
        self.shape = q.shape[:-1] + (columns,)  # of the output
        packed = tuple(math.prod(q.shape[i + 1 :]) * q.itemsize for i in range(q.ndim))
        self.is_like_query = (self.shape, packed) == (q.shape, q.strides)
        self.samples = int(np.prod(p.batch, dtype=np.int64))
        self.odd = max(p.q.itemsize, p.k.itemsize, p.v.itemsize) - 1  # bits of an address that are 0, with the last axis packed
        tape = p.batch + (tape_bytes(plan.plan),)  # [batch..][bytes]
        self.new_tape = plan.spares.maker(tape, np.uint8)
        self.c = c = ffi.new("hga_py_call *")
        c.cached, c.number, c.n_samples, c.n_axes = plan.cached, plan.number, self.samples, len(p.batch)
        strides = np.zeros((len(p.batch), 3), np.int64)
        for i, x in enumerate((p.q, p.k, p.v)):
            strides[:, i] = x.strides[: len(p.batch)]
        shape, steps = ffi.new("int64_t[]", list(p.batch)), ffi.new("int64_t[]", strides.ravel().tolist())
        c.shape, c.strides = shape, steps
        rows = p.q.shape[-3:-1]
        out_bytes = rows[0] * rows[1] * columns * p.q.itemsize
        d_out = d_out or p.q.dtype
        c.features_at = p.dim_v * p.q.itemsize if p.features else 0
        if p.features and d_out != np.float32:
            raise refuse(f"features of edges go with an output's gradient of float32, not {d_out}")
        c.d_out_bytes = out_bytes // p.q.itemsize * d_out.itemsize
        c.out_bytes, c.lse_bytes, c.tape_bytes = out_bytes, rows[0] * rows[1] * 4, tape[-1]
        self.clear_here = self.samples * out_bytes > CLEARED_IN_C
        c.clear = not self.clear_here
        self.new_out = plan.spares.maker(self.shape, p.q.dtype, self.clear_here)  # a program may leave rows alone, which are zeros
        for i, x in enumerate((p.q, p.k, p.v)):
            c.grad_bytes[i] = int(np.prod(x.shape[-3:], dtype=np.int64)) * x.itemsize
        if self.samples:
            self._describe(p, d_out)
        self._memory = shape, steps, p.tables.memory

    def _describe(self, p: Problem, d_out: np.dtype) -> None:
        """A sample's strides and types, without addresses."""
        io, g = self.c.io, self.c.grad
        p.describe(io, (0,) * len(p.batch))
        io.first_head = p.h._first_head
        p.tables.release(io)
        rows = p.q.shape[-3:-1]
        lse, columns = np.empty(rows, np.float32), rows + (p.dim_v + p.features,)
        for ts, x in (((io.out, io.edge_out), np.empty(columns, p.q.dtype)), ((g.d_out, g.d_edge_out), np.empty(columns, d_out))):
            for t, own in zip(ts, parted(x, p.features)):
                p.fill(t, own)
                t.data = ffi.NULL
        for t in (io.lse, g.d_lse):
            p.fill_rows(t, lse)
        for t, x in ((g.d_query, p.q), (g.d_key, p.k), (g.d_value, p.v)):
            p.fill(t, np.empty(x.shape[-3:], x.dtype))
        for t in (io.query, io.key, io.value, io.lse, g.d_lse, g.d_query, g.d_key, g.d_value):
            t.data = ffi.NULL

    def execute(
        self, q: int, k: int, v: int, out: int, lse: int, tape: int, tables: Optional[Tables], seed: int, layer: int
    ) -> None:  # fmt: skip
        """Forward: addresses in, out, lse and tape written; of lse and tape, 0: not requested."""
        c_tables = ffi.NULL if tables is None or not tables.arrays else _c_tables(tables, {})
        ran(lib.hga_py_execute(self.c, q, k, v, out, lse, tape, c_tables, seed, layer))

    def gradient(
        self, q: int, k: int, v: int, out: int, tape: int, d_out: int, d_lse: int, d_q: int, d_k: int, d_v: int,
        tables: Optional[Tables], d_tables: Dict[str, np.ndarray], seed: int, layer: int,
    ) -> None:  # fmt: skip
        """Back: the gradients with an address, and those of ``d_tables``, are written."""
        c_tables = ffi.NULL if tables is None and not d_tables else _c_tables(tables, d_tables)
        ran(lib.hga_py_gradient(self.c, q, k, v, out, tape, d_out, d_lse, d_q, d_k, d_v, c_tables, seed, layer))


def _c_tables(tables: Optional[Tables], grads: Dict[str, np.ndarray]) -> Any:
    """Where the tables are, and where their gradients go."""
    c = ffi.new("hga_py_tables *")
    for name, x in (tables.arrays if tables is not None else {}).items():
        c.input[ROWS[name].index] = address(x)
    for name, x in grads.items():
        index = ROWS[name].index
        c.gradients[index], c.floats[index] = address(x), x.size
    return c


# ---- rows that are nodes: tokens' rows scattered to them, and gathered from them ----


def _axis(x: Any, layout: str, what: str) -> int:
    require_layout(layout)
    if not (is_torch(x) or isinstance(x, np.ndarray)):
        raise refuse_type(f"{what} is a {type(x).__name__}, not a numpy array or a torch tensor")
    if x.ndim < 2:
        raise refuse(f"{what} has shape {tuple(x.shape)}: at least [tokens][dim] is needed")
    return -2 if x.ndim == 2 else LAYOUTS[layout][1]


def _expect(x: Any, axis: int, layout: str, what: str, n: int, rows: str) -> None:
    if x.shape[axis] != n:
        raise refuse(f"{what} of shape {tuple(x.shape)} has {x.shape[axis]} rows in layout {layout!r}, not {n}, {rows}")


def lifted(h: "Calls", x: Any, layout: str, which: str) -> Any:
    """Tokens' rows followed by zeros for the spans."""
    axis = _axis(x, layout, which)
    one_of(which, "which", IO)
    if not are_nodes(h, which):
        return x
    tokens = _tokens(h)
    _expect(x, axis, layout, which, tokens, "one a token")
    shape = list(x.shape)
    shape[axis] = h.graph.n_nodes - tokens
    if is_torch(x):
        import torch

        return torch.cat([x, x.new_zeros(shape)], axis)
    return np.concatenate([x, np.zeros(shape, x.dtype)], axis)


def lowered(h: "Calls", y: Any, layout: str) -> Any:
    """The tokens' rows: a view, without the spans'."""
    axis = _axis(y, layout, "out")
    if not are_nodes(h, "out"):
        return y
    _expect(y, axis, layout, "out", h.graph.n_nodes, "one a node")
    at = [slice(None)] * y.ndim
    at[axis] = slice(0, _tokens(h))
    return y[tuple(at)]
