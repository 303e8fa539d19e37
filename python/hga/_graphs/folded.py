"""Hierarchies whose graph has the rows of several heads."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from .._core.call import LAYOUTS
from .._core.copies import settle
from .._core.values import as_numpy, narrowed, refuse, widened
from .graph import Graph
from .hierarchy import Hierarchy


class FoldedHierarchy(Hierarchy):
    """Key/value heads that differ in structure, as by a tree for each: the graph's rows are those of all heads, and tensors are
    read where they lie. A Treeformer's trees may be more than the key has heads: a head is then copied for each that reads it; what
    heads choose reads a key head that several share where it lies (key_heads)."""

    @staticmethod
    def of(h: Hierarchy, heads: int, key_heads: Optional[int] = None) -> "FoldedHierarchy":
        if type(h) is not Hierarchy:
            raise refuse(f"{h!r} does not have a disjoint graph for each head")
        for which in ("query", "key", "value", "out"):
            if h._rows(which) % (heads if key_heads is None or which in ("query", "out") else key_heads):
                raise refuse(f"{h._rows(which)} rows of {which} do not divide into graphs for {heads} heads")
        made = FoldedHierarchy(h.graph, h._program, h.words, heads, by_token=False)
        made.n_key_graphs = key_heads or heads
        settle(made, h)
        made._functions, made._strict = h._functions, h._strict
        return made

    def __init__(self, graph: Graph, program: Any, words: str, heads: int, by_token: bool = True) -> None:
        super().__init__(graph, program, words)
        self.n_graphs, self.n_key_graphs, self.by_token = heads, heads, by_token

    def order(self, how: str) -> Any:
        raise refuse(f"{self.words}: an order has no trees per head, whose heads the graph has as rows")

    def decoder(self, **more: Any) -> Any:
        raise refuse(f"{self.words}: decoding has no trees per head, whose heads the graph has as rows")

    def weights(self, *arrays: Any, **more: Any) -> Any:
        raise refuse(f"{self.words}: weights of a row have no trees per head, whose heads the graph has as rows")

    def _reads_heads(self, k: Any, layout: str) -> bool:
        return k.ndim < 3 or layout not in LAYOUTS or bool(k.shape[LAYOUTS[layout][0]] == self.n_key_graphs)

    def _shared(self, x: Any, what: str, layout: str) -> np.ndarray:
        """A key or value with a head for each graph; gradients of copies are summed in float32."""
        a = as_numpy(x, what)
        heads = self.n_key_graphs if self._reads_heads(a, layout) else a.shape[LAYOUTS[layout][0]]
        if heads == self.n_key_graphs or self.n_key_graphs < self.n_graphs or not heads or self.n_graphs % heads:
            return a
        return np.repeat(widened(a), self.n_graphs // heads, axis=LAYOUTS[layout][0])

    def _forward(self, q: Any, k: Any, v: Any, tables: Any, how: Any, *more: Any) -> Any:
        layout, *_ = how
        return super()._forward(q, self._shared(k, "key", layout), self._shared(v, "value", layout), tables, how, *more)

    def _backward(self, q: Any, k: Any, v: Any, out: Any, tape: Any, d_out: Any, d_lse: Any, tables: Any, how: Any, requested: Any) -> Any:
        layout, *_ = how
        of_k, of_v = self._shared(k, "key", layout), self._shared(v, "value", layout)
        grads = super()._backward(q, of_k, of_v, out, tape, d_out, d_lse, tables, how, requested)
        for name, like in (("key", k), ("value", v)):
            if name in grads and grads[name].shape != tuple(like.shape):
                grads[name] = self._summed(grads[name], as_numpy(like, name), LAYOUTS[layout][0])
        return grads

    def _summed(self, g: np.ndarray, like: np.ndarray, axis: int) -> np.ndarray:
        """Of the copies of each head."""
        heads = like.shape[axis]
        g = np.moveaxis(g, axis, 0)
        g = g.reshape((heads, self.n_graphs // heads) + g.shape[1:]).sum(1)
        return narrowed(np.ascontiguousarray(np.moveaxis(g, 0, axis)), like.dtype)

    def __reduce__(self) -> Tuple[Any, ...]:
        if self._recipe is not None:
            return super().__reduce__()
        return FoldedHierarchy.of, (settle(Hierarchy(self.graph, self._program, self.words), self), self.n_graphs, self.n_key_graphs)
