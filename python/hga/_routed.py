"""Attention chosen by content: each query block attends to the blocks of keys that score best (``hga_select.h``)."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from ._arguments import flag, meant, whole
from ._by_content import ByContent
from ._call import LAYOUTS
from ._core import as_floats, check, ffi, lib, number, refuse
from ._deferred import deferred
from ._graph import Graph
from ._hierarchy import Hierarchy
from ._variants import FoldedHierarchy

SHARES = {"head": lib.HGA_SELECT_HEAD, "group": lib.HGA_SELECT_GROUP, "all": lib.HGA_SELECT_ALL}
BEYOND = 2**31  # numbers of blocks and tokens are 32 bits
SCORES = {"mean": lib.HGA_SELECT_MEAN, "minmax": lib.HGA_SELECT_MINMAX}


def _word(value: Any, name: str, words: Mapping[str, Any]) -> str:
    if value not in words:
        raise refuse(f"{name} is {value!r}, none of {', '.join(words)}{meant(value, words)}")
    return str(value)


class ChosenHierarchy(ByContent):
    """Blocks of keys that each query block chooses in the call (``hga.routed``)."""

    def __init__(self, n_tokens: Optional[int], settings: Dict[str, Any]) -> None:
        self.n_tokens, self.settings = n_tokens, settings

    def _again(self) -> Any:
        return rerouted(self.n_tokens, self.settings)

    def _how(self) -> Any:
        how, s = ffi.new("hga_selection *"), self.settings
        how.block, how.query_block, how.k, how.threshold = s["block"], s["query_block"], s["k"] or 0, s["threshold"] or 0
        how.sinks, how.local, how.causal = s["sinks"], s["local"], s["causal"]
        how.share, how.score = SHARES[s["share"]], SCORES[s["score"]]
        return how

    def _chosen(self, q: Any, k: Any, layout: str, scale: Any, precision: str) -> Tuple[Any, int, Any]:
        """What hga_select_blocks says, to be cleared; how many tokens, and how they were chosen."""
        _word(layout, "layout", LAYOUTS)
        rows = [as_floats(x, n) for x, n in ((q, "query"), (k, "key"))]
        for x, name in zip(rows, ("query", "key")):
            if x.ndim != 3:
                raise refuse(f"{name} has shape {np.shape(x)}: a choice is of one sample, [heads][n][dim]")
        rows = [np.moveaxis(x, 0, 1) if layout == "bhnd" else x for x in rows]
        for x, name in zip(rows, ("query", "key")):
            if self.n_tokens is not None and len(x) != self.n_tokens:
                raise refuse(f"{name} has {len(x)} rows, the hierarchy {self.n_tokens}")
        n, heads, dim = rows[0].shape
        if rows[1].shape[0] != n or rows[1].shape[2] != dim:
            raise refuse(f"query {rows[0].shape} and key {rows[1].shape}, as [tokens][heads][dim]: tokens and columns are the same")
        how, given, out = self._how(), ffi.new("hga_select_input *"), ffi.new("hga_chosen *")
        given.n_tokens, given.threads = n, self._threads
        given.shape.n_heads, given.shape.n_kv_heads, given.shape.dim = heads, rows[1].shape[1], dim
        alive = []
        for tensor, x in ((given.query, rows[0]), (given.key, rows[1])):
            if x.strides[2] != x.itemsize and x.size:
                x = np.ascontiguousarray(x)
            alive.append(x)
            tensor.data, tensor.rows = ffi.cast("void *", x.ctypes.data), n
            tensor.row_stride, tensor.head_stride = (s // x.itemsize for s in x.strides[:2])
        if scale is not None:
            alive.append(ffi.new("float *", number(scale, "scale")))
            given.scale = alive[-1]
        given.precision = lib.HGA_PRECISION_BF16 if precision == "bf16" else lib.HGA_PRECISION_F32
        check(lib.hga_select_blocks(how, given, out))
        return out, n, how

    def choice(self, q: Any, k: Any, *, layout: str = "bhnd", scale: Optional[float] = None, precision: str = "f32") -> np.ndarray:
        """Who chose which blocks: int32 [choosers][query blocks][slots], ascending, own blocks among them, -1 behind the last."""
        out, _, _ = self._chosen(q, k, layout, scale, precision)
        try:
            table = np.empty((out.n_choosers, out.n_query_blocks, out.slots), np.int32)
            lib.hga_chosen_table(out, ffi.cast("int32_t *", table.ctypes.data))
        finally:
            lib.hga_chosen_clear(out)
        return table

    def hierarchy(self, q: Any, k: Any, layout: str = "bhnd", scale: Optional[float] = None, precision: str = "f32") -> Hierarchy:
        """The hierarchy of one input, [heads][n][dim] (or [n][heads][dim] with layout "bnhd"): the blocks that it chose."""
        out, n, how = self._chosen(q, k, layout, scale, precision)
        graph, program, p = ffi.new("hga_graph **"), ffi.new("hga_program *"), ffi.new("hga_routed *", lib.hga_routed_defaults())
        p.n_tokens, p.block, p.query_block, p.causal = n, how.block, how.query_block, how.causal
        p.n_choosers, p.choice, p.choice_first = out.n_choosers, out.block, out.first
        try:
            check(lib.hga_build_routed(p, graph, program))
        finally:
            parts = int(out.n_choosers)
            lib.hga_chosen_clear(out)
        made = Hierarchy(Graph(graph[0]), program, repr(self))
        made._threads, made._bind = self._threads, self._bind
        return FoldedHierarchy.of(made, parts) if parts > 1 else made

    def _of_call(self, q: Any, k: Any, layout: str, more: Dict[str, Any]) -> Hierarchy:
        return self.hierarchy(q, k, layout, more.get("scale"), more.get("precision") or "f32")

    def decoder(self, **more: Any) -> Any:
        """Refused: blocks are chosen by whole inputs. ``hierarchy(q, k)`` of all tokens says which."""
        raise refuse("routed: blocks are chosen by whole inputs, not token by token")

    def order(self, how: str) -> Any:
        """Refused: an order is of one graph."""
        raise refuse("routed: every input chooses for itself; an order is of one graph")

    def __repr__(self) -> str:
        return "routed " + " ".join(f"{n.replace('_', '-')}={int(x) if isinstance(x, bool) else x}" for n, x in self.settings.items() if x is not None)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, ChosenHierarchy):
            return NotImplemented
        return (self.n_tokens, self.settings) == (other.n_tokens, other.settings)

    def __hash__(self) -> int:
        return hash((self.n_tokens, tuple(self.settings.items())))


@deferred
def rerouted(n_tokens: Optional[int], settings: Dict[str, Any]) -> ChosenHierarchy:
    """The same again."""
    return ChosenHierarchy(n_tokens, settings)


def routed(n_tokens: Optional[int] = None, *, block: int = 64, k: Optional[int] = None, threshold: Optional[float] = None,
           query_block: int = 1, sinks: int = 1, local: int = 1, share: str = "head", score: str = "mean", causal: bool = False) -> ChosenHierarchy:  # fmt: skip
    """Attention chosen by content: keys are cut into blocks, and each query block attends to its own, to those that are forced, and
    to those that score best by the queries and keys of the call (MoBA, Quest, XAttention). Gradients hold the choice.

    n_tokens: tokens, or None: as many as the input has.
    block, query_block: tokens in a block of keys, and of queries that choose together (1: each for itself). With more than one a
    causal choice reads queries up to query_block - 1 tokens ahead; its edges look at no later token.
    k: blocks that are chosen, own and forced counted (16); or threshold: the fewest whose probabilities sum to it.
    sinks, local: the first blocks, and those next before own, are chosen whatever their scores.
    share: who chooses together: "head", the heads of a "group" that share a key/value head, or "all".
    score: of a block by its "mean" key, or by "minmax", a bound of its products (query_block 1)."""
    if k is not None and threshold is not None:
        raise refuse(f"k={k} and threshold={threshold}: blocks are chosen by one of them")
    settings = {
        "block": whole(block, "block", least=1, beyond=BEYOND), "k": None if threshold is not None else whole(16 if k is None else k, "k", least=1, beyond=BEYOND),
        "threshold": None if threshold is None else number(threshold, "threshold"), "query_block": whole(query_block, "query_block", least=1, beyond=BEYOND),
        "sinks": whole(sinks, "sinks", least=0, beyond=BEYOND), "local": whole(local, "local", least=0, beyond=BEYOND), "share": _word(share, "share", SHARES),
        "score": _word(score, "score", SCORES), "causal": flag(causal, "causal"),
    }  # fmt: skip
    return rerouted(None if n_tokens is None else whole(n_tokens, "n_tokens", least=1), settings)
