"""Hierarchies that run in an order of their nodes in which neighbours are near each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, cast

import numpy as np

from .._core.arguments import Former, answered, one_of
from .._core.call import IO, LAYOUTS
from .._core.copies import copied, settle
from .._core.deferred import compiling
from .._core.later import later
from .._core.tables import INPUTS, ROWS
from .._core.library import check, ffi, lib
from .._core.arrays import is_torch
from .calls import Calls, T

if TYPE_CHECKING:
    from .graph import Graph
    from .hierarchy import Hierarchy

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


def _moves(h: "Hierarchy", binding: int, order: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """How the rows of one tensor move: there, and back."""
    first, n = ffi.new("hga_id *"), ffi.new("hga_id *")
    check(lib.hga_program_rows(h._program, h.graph._g, lib.hga_program_field(h._program, binding), first, n))
    there = order[first[0] : first[0] + n[0]] - first[0]
    return there, np.argsort(there)


class InOrder(Calls):
    """What ``OrderedHierarchy`` does otherwise than ``Hierarchy``: its attention runs in an order, its inputs and outputs have the
    caller's rows."""

    def __init__(self, of: "Hierarchy", how: str) -> None:
        super().__init__(of.graph, of._program, of.words)
        settle(self, of)._functions = of._functions
        self._of, self.how = of, how
        self.permutation = order = find_order(of.graph, how)
        self._in_order = ordered = copied(of)
        ordered.graph, ordered._recipe = of.graph.renumber(order), None
        position = np.argsort(order).astype(np.int32)
        ordered._node_of = position if of._node_of is None else position[of._node_of]
        self._moves = {name: _moves(of, binding, order) for name, binding in IO.items()}
        self._edges: Optional[np.ndarray] = None
        self._gain: Optional[Tuple[Locality, Locality]] = None

    def _others(self) -> List[Any]:
        return [*super()._others(), self._in_order]

    def strict_rows(self, strict: bool = True) -> "Hierarchy":
        """As ``Hierarchy.strict_rows``, in the same order."""
        return self._of.strict_rows(strict).order(self.how)

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
        rows, _ = self._moves[name]
        return _taken(x, rows, axis % len(shape)) if axis and len(shape) >= 2 and shape[axis] == len(rows) else x

    def _inputs(self, layout: str, *arrays: Any) -> List[Any]:
        return [self._moved(x, name, layout) for x, name in zip(arrays, INPUTS)]

    def _back(self, x: Any, name: str, layout: str, lacks: int = 0) -> Any:
        """Rows of a result in the caller's order; lacks: 1 where the last axis is gone, as of log-sum-exps."""
        axis = (-2 if len(x.shape) + lacks == 2 else LAYOUTS[layout][1]) + lacks
        _, rows = self._moves[name]
        return _taken(x, rows, axis % len(x.shape))

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
            return later("torch._compiled").known(self).attention(q, k, v, layout=layout, lse=lse, **more)
        found = self._in_order.attention(*self._inputs(layout, q, k, v), layout=layout, lse=lse, **self._tables_moved(more))
        if not isinstance(found, tuple):
            return self._back(found, "out", layout)
        return tuple(self._back(x, "out", layout, lacks=int(lse and x is found[-1])) for x in found)

    @answered
    def gradient(
        self, q: Any, k: Any, v: Any, d_out: Any, *, d_lse: Any = None, d_edge_out: Any = None,
        needs_grad: Optional[Sequence[str]] = None, layout: str = "bhnd", **more: Any,
    ) -> Dict[str, np.ndarray]:  # fmt: skip
        """As ``Hierarchy.gradient``."""
        if d_lse is not None:
            d_lse = self._moved(np.asarray(d_lse)[..., None], "out", layout)[..., 0]
        d_out, d_edge_out = (None if x is None else self._moved(x, "out", layout) for x in (d_out, d_edge_out))
        found: Dict[str, np.ndarray] = self._in_order.gradient(
            *self._inputs(layout, q, k, v), d_out, d_lse=d_lse, d_edge_out=d_edge_out, needs_grad=needs_grad, layout=layout,
            **self._tables_moved(more),
        )  # fmt: skip
        for name, x in found.items():
            if name in INPUTS:
                found[name] = self._back(x, name, layout)
            elif name in ROWS and ROWS[name].by_edge:
                found[name] = np.empty_like(x)
                found[name][self._edge_order()] = x
        return found

    def additive_scores(self, negative_slope: float = 0.2) -> "Hierarchy":
        return self._of.additive_scores(negative_slope).order(self.how)

    def order(self, how: str) -> "Hierarchy":
        return self._of.order(how)

    def _look(self, key: Tuple[Any, ...], look: Callable[[Any], T]) -> T:
        """Of the plan that runs, over the graph in order."""
        return cast(T, self._in_order._look(key, look))

    def __copy__(self) -> "Hierarchy":
        return ordered_again(self._of, self.how, self.threads, self.bind)

    def __reduce__(self) -> Tuple[Any, ...]:
        return ordered_again, (self._of, self.how, self.threads, self.bind)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, InOrder):
            return False if isinstance(other, Calls) else NotImplemented
        return self.how == other.how and self._of == other._of

    def __hash__(self) -> int:
        return hash((self.how, self._of))

    def __repr__(self) -> str:
        return f"{self._of!r} in order {self.how}"


def ordered_again(of: "Hierarchy", how: str, threads: int, bind: str) -> "Hierarchy":
    """As it was when it was copied, whatever was said of it since it was ordered."""
    h = of.order(how)
    h.threads, h.bind = threads, bind
    return h
