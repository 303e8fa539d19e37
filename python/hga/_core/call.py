"""One call of attention: its arrays, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import numpy as np

from .arguments import meant, one_of, shown
from .arrays import as_numpy, fill_rows, fill_tensor, fold_tensor, is_torch
from .library import lib, refuse, refuse_type
from .precision import is_bf16, resolved
from .tables import Tables

if TYPE_CHECKING:
    from .._graphs.hierarchy import Hierarchy

LAYOUTS = {"bhnd": (-3, -2), "bnhd": (-2, -3)}  # axes of heads and of rows
_BINDINGS = {"query": lib.HGA_IO_QUERY, "key": lib.HGA_IO_KEY, "value": lib.HGA_IO_VALUE, "out": lib.HGA_IO_OUT}


def require_layout(layout: Any) -> None:
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise refuse(f"layout {shown(layout)} is neither 'bhnd' nor 'bnhd'{meant(layout, LAYOUTS)}")


def are_nodes(h: "Hierarchy", which: str) -> bool:
    """Has the tensor of that name a row a node?"""
    field = lib.hga_program_field(h._program, _BINDINGS[which])
    return bool(field and h._program.field[field].io == lib.HGA_ROWS_NODES)


def _tokens(h: "Hierarchy") -> int:
    return int(lib.hga_graph_nodes(h.graph._g).level_ptr[1])


def in_words(h: "Hierarchy", which: str) -> str:
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
        self, h: "Hierarchy", q: Any, k: Any, v: Any, layout: str, tables: Tables, rows: Optional[Callable[[str], int]] = None,
        who: str = "the hierarchy",
    ) -> None:  # fmt: skip
        """rows: how many rows of a tensor ``who`` has, if it is not the hierarchy; -1: there is no such tensor."""
        require_layout(layout)
        self.q, self.k, self.v = (as_numpy(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value")))
        axes = self.q.ndim
        for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value")):
            if x.ndim != axes:
                raise refuse(f"{name} has {x.ndim} axes, query {axes}")
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
        for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value")):
            n, found = (rows or h._rows)(name), x.shape[self.rows_axis]
            n = n // (h.n_graphs if name == "query" else h.n_key_graphs) if n > 0 and not rows else n
            if n >= 0 and found != n:
                words = "" if rows else in_words(h, name)
                raise refuse(f"{name} of shape {x.shape} has {found} rows in layout {layout!r}, {who} {n}{words}")
        if self.v.shape[self.heads_axis] != self.kv_heads or self.v.shape[self.rows_axis] != self.k.shape[self.rows_axis]:
            raise refuse(f"value has shape {self.v.shape}, key {self.k.shape}")
        if h.n_graphs > 1:
            self._by_graph(h.n_graphs, h.n_key_graphs)
        tables.check(self.heads, self.dim, h.n_graphs)
        self.h, self.tables = h, tables
        self.features = tables.features
        if self.features and (self.q.dtype != np.float32 or h.n_graphs > 1):
            raise refuse("features of edges go with a query of float32" if h.n_graphs == 1 else "features of edges: each head has a graph of its own")

    def _by_graph(self, n_graphs: int, n_key_graphs: int) -> None:
        """Heads become those of a row of the graph."""
        if self.heads % n_graphs:
            raise refuse(f"query has {self.heads} heads, the hierarchy has graphs for {n_graphs}")
        if self.kv_heads != n_key_graphs:
            raise refuse(f"key has {self.kv_heads} heads, the hierarchy has graphs for {n_key_graphs}")
        self.heads, self.kv_heads = self.heads // n_graphs, 1

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
        if self.h.n_graphs > 1:
            fold_tensor(t, heads, self.h.n_graphs if heads >= self.h.n_graphs else self.h.n_key_graphs, self.h.by_token)


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


def lifted(h: "Hierarchy", x: Any, layout: str, which: str) -> Any:
    """Tokens' rows followed by zeros for the spans."""
    axis = _axis(x, layout, which)
    one_of(which, "which", _BINDINGS)
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


def lowered(h: "Hierarchy", y: Any, layout: str) -> Any:
    """The tokens' rows: a view, without the spans'."""
    axis = _axis(y, layout, "out")
    if not are_nodes(h, "out"):
        return y
    _expect(y, axis, layout, "out", h.graph.n_nodes, "one a node")
    at = [slice(None)] * y.ndim
    at[axis] = slice(0, _tokens(h))
    return y[tuple(at)]
