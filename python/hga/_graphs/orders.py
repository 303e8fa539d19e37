"""Hierarchies that run in an order of their nodes in which neighbours are near each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._core.arguments import answered, one_of
from .._core.call import LAYOUTS
from .._core.copies import settle
from .._core.values import check, ffi, is_torch, lib
from .._core.deferred import compiling
from .hierarchy import Hierarchy
from .._core.renamed import Former
from .._core.tables import ROWS

if TYPE_CHECKING:
    from .graph import Graph

ORDERS = {"rcm": lib.HGA_ORDERING_RCM, "metis": lib.HGA_ORDERING_METIS, "degree": lib.HGA_ORDERING_DEGREE}


class Locality(NamedTuple):
    """How near the nodes are that edges join, over all relations."""

    edges: int
    cut: int  # edges between different ones of `parts` runs of nodes with equally many edges
    gathered: int  # rows of sources read when 128 rows at a time read each of theirs once
    bandwidth: int  # the largest difference of an edge's ends
    distance: float  # the mean one


def find_order(graph: "Graph", how: str) -> np.ndarray:
    which = ORDERS[one_of(how, "order", ORDERS)]
    order = np.empty(graph.n_nodes, np.int32)
    check(lib.hga_graph_order(graph._g, which, ffi.cast("hga_id *", order.ctypes.data)))
    return order


def find_locality(graph: "Graph", parts: int) -> Locality:
    found = ffi.new("hga_locality *")
    check(lib.hga_graph_locality(graph._g, parts, found))
    return Locality(int(found.edges), int(found.cut), int(found.gathered), int(found.bandwidth), float(found.distance))


def _taken(x: Any, index: np.ndarray, axis: int) -> Any:
    """Rows of an array of numpy or JAX, or of a tensor; these two stay differentiable."""
    if is_torch(x):
        import torch

        return x.index_select(axis, torch.from_numpy(index.astype(np.int64)).to(x.device))
    return (x if hasattr(x, "take") else np.asarray(x)).take(index, axis=axis)


class _Rows:
    """How the rows of one tensor move: there, and back."""

    def __init__(self, h: Hierarchy, binding: int, order: np.ndarray) -> None:
        first, n = ffi.new("hga_id *"), ffi.new("hga_id *")
        check(lib.hga_program_rows(h._program, h.graph._g, lib.hga_program_field(h._program, binding), first, n))
        self.there = order[first[0] : first[0] + n[0]] - first[0]
        self.back = np.argsort(self.there)


class OrderedHierarchy(Hierarchy):
    """A hierarchy whose attention runs in an order; its inputs and outputs have the caller's rows."""

    def __init__(self, of: Hierarchy, how: str) -> None:
        super().__init__(of.graph, of._program, of.words)
        self._of, self.how = of, how
        self.permutation = order = find_order(of.graph, how)
        self._in_order: Hierarchy = Hierarchy(of.graph.renumber(order), of._program, of.words)
        for h in (self, self._in_order):
            settle(h, of)
            h._functions = of._functions
        position = np.argsort(order).astype(np.int32)
        self._in_order._node_of = position if of._node_of is None else position[of._node_of]
        names = {"query": lib.HGA_IO_QUERY, "key": lib.HGA_IO_KEY, "value": lib.HGA_IO_VALUE, "out": lib.HGA_IO_OUT}
        self._moves = {name: _Rows(of, binding, order) for name, binding in names.items()}
        self._edges: Optional[np.ndarray] = None
        self._gain: Optional[Tuple[Locality, Locality]] = None

    def _others(self) -> List[Hierarchy]:
        return [*super()._others(), self._in_order]

    def strict_rows(self, strict: bool = True) -> Hierarchy:
        """As ``Hierarchy.strict_rows``, in the same order."""
        return OrderedHierarchy(self._of.strict_rows(strict), self.how)

    places = Former()

    @property
    def gain(self) -> Tuple[Locality, Locality]:
        """The graph's locality as it is, and in order; ``cut`` is of two halves."""
        if self._gain is None:
            self._gain = self.graph.locality(), self._in_order.graph.locality()
        return self._gain

    def _moved(self, x: Any, name: str, layout: str) -> Any:
        """[.., rows, ..] of the caller's in order. What is no tensor of rows goes on as it is, and is refused there."""
        shape = getattr(x, "shape", np.shape(x))
        axis = -2 if len(shape) == 2 else LAYOUTS.get(layout, (0, 0))[1]
        rows = self._moves[name].there
        return _taken(x, rows, axis % len(shape)) if axis and len(shape) >= 2 and shape[axis] == len(rows) else x

    def _back(self, x: Any, name: str, layout: str, lacks: int = 0) -> Any:
        """Rows of a result in the caller's order; lacks: 1 where the last axis is gone, as of log-sum-exps."""
        axis = (-2 if len(x.shape) + lacks == 2 else LAYOUTS[layout][1]) + lacks
        return _taken(x, self._moves[name].back, axis % len(x.shape))

    def _edge_order(self) -> np.ndarray:
        """[edges]: where the caller's edge biases have each edge of the order's."""
        if self._edges is None:
            relation = next(s.relation for s in self._program.stage[0 : self._program.n_stages] if s.message == lib.HGA_SCORE)
            edge = np.empty(lib.hga_graph_relation(self.graph._g, relation).n_edges, np.int64)
            order, position = ffi.cast("hga_id *", self.permutation.ctypes.data), ffi.cast("hga_pos *", edge.ctypes.data)
            check(lib.hga_graph_renumbered_edges(self.graph._g, relation, order, position))
            self._edges = edge
        return self._edges

    def _tables_moved(self, tables: Dict[str, Any]) -> Dict[str, Any]:
        for name, x in tables.items():
            if name in ROWS and ROWS[name].by_edge and x is not None and tuple(np.shape(x))[:1] == (len(self._edge_order()),):
                tables[name] = _taken(x, self._edge_order(), 0)
        tables["threads"] = tables.get("threads") or self._threads
        return tables

    @answered
    def attention(self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, **more: Any) -> Any:
        """As ``Hierarchy.attention``: rows go in and come out by the caller's numbers."""
        if compiling():
            from ..torch._compiled import known

            return known(self).attention(q, k, v, layout=layout, lse=lse, **more)
        q, k, v = self._moved(q, "query", layout), self._moved(k, "key", layout), self._moved(v, "value", layout)
        found = self._in_order.attention(q, k, v, layout=layout, lse=lse, **self._tables_moved(more))
        if not isinstance(found, tuple):
            return self._back(found, "out", layout)
        return tuple(self._back(x, "out", layout, lacks=int(lse and x is found[-1])) for x in found)

    @answered
    def gradient(
        self, q: Any, k: Any, v: Any, d_out: Any, *, d_lse: Any = None, d_edge_out: Any = None,
        needs_grad: Optional[Sequence[str]] = None, layout: str = "bhnd", **more: Any,
    ) -> Dict[str, np.ndarray]:  # fmt: skip
        """As ``Hierarchy.gradient``."""
        q, k, v = self._moved(q, "query", layout), self._moved(k, "key", layout), self._moved(v, "value", layout)
        if d_lse is not None:
            d_lse = np.asarray(d_lse)[..., None]
            d_lse = self._moved(d_lse, "out", layout)[..., 0]
        d_out, d_edge_out = (None if x is None else self._moved(x, "out", layout) for x in (d_out, d_edge_out))
        found = self._in_order.gradient(
            q, k, v, d_out, d_lse=d_lse, d_edge_out=d_edge_out, needs_grad=needs_grad, layout=layout, **self._tables_moved(more)
        )  # fmt: skip
        for name in ("query", "key", "value"):
            if name in found:
                found[name] = self._back(found[name], name, layout)
        for name, x in found.items():
            if name in ROWS and ROWS[name].by_edge:
                found[name] = np.empty_like(x)
                found[name][self._edge_order()] = x
        return found

    def additive_scores(self, negative_slope: float = 0.2) -> Hierarchy:
        return OrderedHierarchy(self._of.additive_scores(negative_slope), self.how)

    def order(self, how: str) -> Hierarchy:
        return self._of.order(how)

    @answered
    def explain(self, heads: int = 8, dim: int = 64, threads: int = 0, *, gradient: bool = False) -> str:
        """The plan that runs, over the graph in order."""
        return self._in_order.explain(heads, dim, threads or self._threads, gradient=gradient)

    @answered
    def plan(self, heads: int = 8, dim: int = 64, threads: int = 0) -> Dict[str, float]:
        return self._in_order.plan(heads, dim, threads or self._threads)

    def __copy__(self) -> Hierarchy:
        return ordered_again(self._of, self.how, self.threads, self.bind)

    def __deepcopy__(self, memo: Any) -> Hierarchy:
        return self.__copy__()

    def __reduce__(self) -> Tuple[Any, ...]:
        return ordered_again, (self._of, self.how, self.threads, self.bind)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, OrderedHierarchy):
            return False if isinstance(other, Hierarchy) else NotImplemented
        return self.how == other.how and self._of == other._of

    def __hash__(self) -> int:
        return hash((self.how, self._of))

    def __repr__(self) -> str:
        return f"{self._of!r} in order {self.how}"


def ordered_again(of: Hierarchy, how: str, threads: int, bind: str) -> Hierarchy:
    """As it was when it was copied, whatever was said of it since it was ordered."""
    h = OrderedHierarchy(of, how)
    h.threads, h.bind = threads, bind
    return h
