"""Attention chosen by content: each query block attends to the blocks of keys that score best (``hga_select.h``)."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from .._core.arguments import answered, encoded, flag, number, unmasked, whole
from .by_content import ByContent, by_sample, check_call, require_samples, stacked
from .choice import Chosen, block_weights
from .._core.call import LAYOUTS, require_layout
from .._core.arrays import as_floats, as_numpy, ids, is_torch, narrowed, widened, written_out
from .._core.library import check, ffi, lib, refuse, refuse_type
from .decoder import Decoder
from .._core.deferred import compiling, deferred
from .graph import Graph
from .hierarchy import FoldedHierarchy, Hierarchy
from .looking import Page
from .._core.precision import AUTO, PRECISIONS, of_choice
from .registry import variant_named
from .settings import Settings, values_of
from .._core.tables import ROWS

BY_HEAD = (lib.HGA_EXTENT_HEADS, lib.HGA_EXTENT_HEADS_OR_ONE)
# Numbers by head, node or edge, which a graph of all heads' rows would have others of.
PER_HEAD = (*BY_HEAD, lib.HGA_EXTENT_NODES, lib.HGA_EXTENT_EDGES)


@functools.lru_cache(maxsize=128)
def _structure(*settings: Tuple[str, Any]) -> Settings:
    """hga_routed, as the settings fill it."""
    s = Settings(variant_named("routed"))
    for name, x in settings:
        s.fill(name, x)
    return s


_FILLED: "WeakKeyDictionary[Any, Settings]" = WeakKeyDictionary()  # whose arrays an hga_selection points to


class ChosenHierarchy(ByContent):
    """Blocks of keys that each query block chooses in the call (``hga.routed``)."""

    _of_samples = frozenset(("choice", "block_scores"))

    def __init__(self, n_tokens: Any, settings: Dict[str, Any]) -> None:
        self.lengths: Optional[Tuple[int, ...]] = (n_tokens,) if isinstance(n_tokens, int) else n_tokens and tuple(n for n in n_tokens if n)
        self.settings: Dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items()}

    @property
    def n_tokens(self) -> Optional[int]:
        """Of all samples; None: as many as the input has."""
        return None if self.lengths is None else sum(self.lengths)

    @property
    def rows(self) -> Optional[int]:
        """Rows of the query: tokens."""
        return self.n_tokens

    def _again(self) -> Any:
        return rerouted(self.lengths and list(self.lengths), self.settings)

    # ---- choosing ----

    def _how(self, n: int) -> Tuple[Any, Any]:
        """hga_routed and hga_selection of a call of n tokens; 0: of a decoder."""
        filled, how = _structure(*(s for s in self.settings.items() if s[1] is not None)), ffi.new("hga_selection *")
        p = ffi.new("hga_routed *", ffi.cast("hga_routed *", filled.memory)[0])
        p.n_tokens = n
        check(lib.hga_routed_selection(p, how))
        _FILLED[how] = filled
        return p, how

    def _rows(self, x: Any, name: str, layout: str) -> np.ndarray:
        """[tokens][heads][dim] of one sample."""
        require_layout(layout)
        a = as_floats(x, name)
        a = a[None] if a.ndim == 2 else a
        if a.ndim != 3:
            raise refuse(f"{name} has shape {np.shape(x)}: a choice is of one sample, [heads][n][dim]")
        a = np.moveaxis(a, 0, 1) if layout == "bhnd" or np.ndim(x) == 2 else a
        if self.n_tokens is not None and len(a) != self.n_tokens:
            raise refuse(f"{name} has {len(a)} rows, the hierarchy has {self.n_tokens}")
        return a if a.strides[2] == a.itemsize or not a.size else np.ascontiguousarray(a)

    def _chosen(self, q: Any, k: Any, layout: str, choice: Any, block_scores: Any, *, scale: Any = None, precision: Any = AUTO,
                isa: Optional[str] = None, **more: Any) -> Chosen:  # fmt: skip
        """more: what a call has that no choice depends on."""
        by = PRECISIONS[of_choice(precision, isa, q, k)], isa
        rows = [self._rows(x, name, layout) for x, name in ((q, "query"), (k, "key"))]
        n, heads, dim = rows[0].shape
        if rows[1].shape[0] != n or rows[1].shape[2] != dim:
            raise refuse(f"query {rows[0].shape} and key {rows[1].shape}, as [tokens][heads][dim]: tokens and columns are the same")
        if n == 0:
            raise refuse(f"query has shape {np.shape(q)}: there is no token to choose for")
        p, how = self._how(n)
        query_input = ffi.new("hga_select_input *")
        query_input.shape.n_heads, query_input.shape.n_kv_heads, query_input.shape.dim = heads, rows[1].shape[1], dim
        choosers = int(lib.hga_select_choosers(how, ffi.addressof(query_input.shape)))
        offsets = np.cumsum((0, *(self.lengths or (n,))), dtype=np.int32)
        keys = min(choosers, rows[1].shape[1])
        shape = (choosers, int((-(-np.diff(offsets) // how.query_block)).sum()))
        if block_scores is not None and self.settings["score"] != "given" or choice is block_scores is None and self.settings["score"] == "given":
            raise refuse("score='given' and block_scores= go together")
        by_call = (how, query_input, rows, offsets, shape, scale, by, block_scores)
        first, block = self._select(*by_call) if choice is None else _listed(choice, shape)
        return Chosen(p, how.block, how.query_block, offsets, choosers, keys, first, block)

    def _select(self, how: Any, query_input: Any, rows: Sequence[np.ndarray], offsets: np.ndarray, shape: Tuple[int, int], scale: Any,
                by: Tuple[int, Optional[str]], block_scores: Any) -> Tuple[np.ndarray, np.ndarray]:  # fmt: skip
        alive: List[Any] = [*rows]
        query_input.n_tokens, query_input.threads, query_input.n_samples = len(rows[0]), self._threads, len(offsets) - 1
        query_input.offsets = ffi.cast("hga_id *", offsets.ctypes.data)
        for tensor, x in ((query_input.query, rows[0]), (query_input.key, rows[1])):
            tensor.data, tensor.rows = ffi.cast("void *", x.ctypes.data), len(x)
            tensor.row_stride, tensor.head_stride = (s // x.itemsize for s in x.strides[:2])
        if block_scores is not None:
            scores = np.ascontiguousarray(as_floats(block_scores, "block_scores"))
            want = (*shape, int((-(-np.diff(offsets) // how.block)).max(initial=0)))
            if scores.shape != want:
                raise refuse(f"block_scores have shape {scores.shape}, not [choosers][query blocks][blocks] = {want}")
            alive.append(scores)
            query_input.scores = ffi.cast("float *", scores.ctypes.data)
        if scale is not None:
            alive.append(ffi.new("float *", number(scale, "scale")))
            query_input.scale = alive[-1]
        query_input.precision, isa = by
        if isa:
            alive.append(ffi.new("char[]", encoded(isa, "isa")))
            query_input.isa = alive[-1]
        out = ffi.new("hga_chosen *")
        check(lib.hga_select_blocks(how, query_input, out))
        try:
            first = np.frombuffer(ffi.buffer(out.first, 8 * (shape[0] * shape[1] + 1)), np.int64).copy()
            return first, np.frombuffer(ffi.buffer(out.block, 4 * int(first[-1])), np.int32).copy()
        finally:
            lib.hga_chosen_clear(out)

    @answered
    def choice(self, q: Any, k: Any, *, layout: str = "bhnd", scale: Optional[float] = None, precision: Optional[str] = AUTO,
               isa: Optional[str] = None, block_scores: Any = None) -> np.ndarray:  # fmt: skip
        """Who chose which blocks: int32 [choosers][query blocks][slots], ascending, own blocks among them, -1 behind the last; of a
        batch with its axis in front, of a ragged one the query blocks of all samples in a row. block_scores: with score="given". It is
        the choice of ``attention`` with the same scale, precision and isa."""
        check_call(q, k)
        more: Dict[str, Any] = dict(scale=scale, precision=precision, isa=isa)
        if q.ndim <= 3:
            return self._chosen(q, k, layout, None, block_scores, **more).table()
        require_samples(q)
        each = [self.choice(q[i], k[i], layout=layout, **more, **x) for i, x in enumerate(by_sample(q, block_scores=block_scores))]
        return cast(np.ndarray, stacked(each, np.int32(-1)))

    # ---- one input ----

    @answered
    def hierarchy(self, q: Any, k: Any, layout: str = "bhnd", scale: Optional[float] = None, precision: Optional[str] = AUTO, *,
                  isa: Optional[str] = None, head: Optional[int] = None, choice: Any = None, block_scores: Any = None) -> Hierarchy:  # fmt: skip
        """The hierarchy of one input, [heads][n][dim] (or [n][heads][dim] with layout "bnhd"): the blocks that it chose. head: the graph of
        tokens that this query head sees, to be looked at (``view``, ``write``, ``row``), or attended by the heads that chose it."""
        c = self._chosen(q, k, layout, choice, block_scores, scale=scale, precision=precision, isa=isa)
        if head is None:
            return self._made_of(c, None)
        heads = self._rows(q, "query", layout).shape[1]
        head = whole(head, "head", beyond=heads)
        return self._made_of(c, head * c.choosers // heads)

    def _made_of(self, c: Chosen, chooser: Optional[int]) -> Hierarchy:
        made = self._told(Hierarchy(*c.graph(chooser), repr(self)))
        return FoldedHierarchy.of(made, c.choosers, c.key_heads) if chooser is None and c.choosers > 1 else made

    @answered
    def view(self, q: Any, k: Any, path: Any = None, *, head: int = 0, layout: str = "bhnd", max_edges: int = 200000,
             words: Optional[Sequence[str]] = None, scale: Optional[float] = None, precision: Optional[str] = AUTO, isa: Optional[str] = None,
             choice: Any = None, block_scores: Any = None) -> Page:  # fmt: skip
        """The interactive page of what a head chose, as ``Hierarchy.view`` has it. What it chooses by is said as to ``hierarchy``."""
        return self.hierarchy(q, k, layout, scale, precision, isa=isa, head=head, choice=choice, block_scores=block_scores).view(path, max_edges, words=words)

    def is_causal(self) -> bool:
        """Does no output depend on a later token? Not where query blocks choose together: their choice reads queries ahead."""
        s = self.settings
        return bool(s["causal"]) and s["query_block"] == 1 and s["prefill"] == 1

    # ---- attention ----

    @answered
    def attention(self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", choice: Any = None, block_scores: Any = None,
                  return_block_weights: bool = False, **more: Any) -> Any:  # fmt: skip
        """As Hierarchy.attention; every sample of a batch chooses for itself. Gradients hold the choice.

        choice: what ``choice`` gave, to be attended again instead of choosing. block_scores: with score="given", float32 [choosers]
        [query blocks][blocks], of a batch with its axis in front. return_block_weights: also, as the last of a tuple, float32 [query
        heads][tokens][slots], the sum of a row's weights over each chosen block; differentiable in torch."""
        own = {name: x for name, x in (("choice", choice), ("block_scores", block_scores)) if x is not None}
        if flag(return_block_weights, "return_block_weights"):
            own["return_block_weights"] = True
        if own and compiling():
            raise refuse("routed: choice=, block_scores= and return_block_weights= do not go into torch.compile")
        return super().attention(q, k, v, layout=layout, **own, **more)

    def _attend(self, q: Any, k: Any, v: Any, layout: str, choice: Any = None, block_scores: Any = None, return_block_weights: bool = False,
                **more: Any) -> Any:  # fmt: skip
        flat, more = q.ndim == 2, {name: x for name, x in more.items() if x is not None}
        c = self._chosen(q, k, layout, choice, block_scores, **more)
        per_head = any(extent in PER_HEAD for name in more if name in ROWS for extent in ROWS[name].extents)
        separate = c.choosers > 1 and (per_head or number(more.get("dropout", 0.0), "dropout") != 0)
        made = self._next([self._made_of(c, i) for i in (range(c.choosers) if separate else [None])])
        axis = 0 if flat else LAYOUTS[layout][0]

        def attend(q: Any, k: Any, v: Any, **more: Any) -> Any:
            if not separate:
                return made[0].attention(q, k, v, layout=layout, **more)
            return _joined([h.attention(*_cut(q, k, v, i, c.choosers, axis), layout=layout, **_tables_of(more, i, c.choosers, q.shape[axis]))
                            for i, h in _numbered(made, q.shape[axis] // c.choosers)], axis)  # fmt: skip

        out = attend(q, k, v, **more)
        if not return_block_weights:
            return out
        scored = {name: x for name, x in more.items() if name != "edge_value"} | {"lse": False, "dropout": 0.0}
        weights = block_weights(c, q, k, 0 if flat else axis, attend, scored, any(map(is_torch, (q, k, v))))
        return (*out, weights) if isinstance(out, tuple) else (out, weights)

    @answered
    def gradient(self, q: Any, k: Any, v: Any, d_out: Any, *, d_lse: Any = None, d_edge_out: Any = None, needs_grad: Optional[Sequence[str]] = None,
                 layout: str = "bhnd", choice: Any = None, block_scores: Any = None, **more: Any) -> Dict[str, np.ndarray]:  # fmt: skip
        """As Hierarchy.gradient, with the choice held; numbers of tables are summed over a batch."""
        arrays = [as_numpy(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value"), (d_out, "d_out"))]
        check_call(q, k, v, d_out, d_lse)
        if arrays[0].ndim > 3:
            require_samples(q)
            each = by_sample(q, d_lse=d_lse, d_edge_out=d_edge_out, choice=choice, block_scores=block_scores)
            grads = [self.gradient(q[i], k[i], v[i], d_out[i], needs_grad=needs_grad, layout=layout, **own, **more) for i, own in enumerate(each)]
            own = ("query", "key", "value")
            return {n: np.stack([p[n] for p in grads]) if n in own else np.sum([p[n] for p in grads], 0, np.float32) for n in grads[0]}
        c = self._chosen(q, k, layout, choice, block_scores, **more)
        if d_edge_out is not None:
            more["d_edge_out"] = d_edge_out
        return _gradients(c, self, arrays, d_lse, needs_grad, layout, more)

    def decoder(self, **more: Any) -> Decoder:
        """As ``Hierarchy.decoder``, of n_tokens at most: a token chooses when it comes, among the blocks that are complete. With same=True
        outputs have the bits of ``attention``. prefill: an append of several tokens chooses by query blocks of so many, which reads
        queries ahead; single tokens choose by themselves. No normaliser but softmax, and no positions."""
        if self.lengths is None or len(self.lengths) != 1:
            raise refuse(f"{self!r} has n_tokens={self.lengths and list(self.lengths)}: a decoder is of one text of at most so many tokens")
        _, how = self._how(0)
        graph, program = ffi.new("hga_graph **"), ffi.new("hga_program *")
        check(lib.hga_build_routed_decoder(self.n_tokens, ffi.NULL, graph, program))
        made = self._told(Hierarchy(Graph(graph[0]), program, repr(self)))
        made._choosing = (how, self.settings["prefill"])
        return made.decoder(**more)

    def order(self, how: str) -> Any:
        """Refused: an order is of one graph."""
        raise refuse("routed: every input chooses for itself; an order is of one graph")

    def strict_rows(self, strict: bool = True) -> "ChosenHierarchy":
        """Refused where query blocks choose together: their choice reads queries ahead."""
        s = self.settings
        ahead = max(s["query_block"], s["prefill"]) - 1
        if flag(strict, "strict") and ahead:
            raise refuse(f"routed: a choice reads queries up to {ahead} tokens ahead, which no strict row does")
        return self

    def __repr__(self) -> str:
        return "routed " + " ".join(f"{n.replace('_', '-')}={_typed(x)}" for n, x in self.settings.items() if x is not None)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, ChosenHierarchy):
            return NotImplemented
        return (self.lengths, self.settings) == (other.lengths, other.settings)

    def __hash__(self) -> int:
        return hash((self.lengths, tuple(self.settings.items())))


def _typed(x: Any) -> str:
    """A setting as words have it."""
    return ",".join(map(str, x)) if isinstance(x, tuple) else str(int(x) if isinstance(x, bool) else x)


def _listed(choice: Any, shape: Tuple[int, int]) -> Tuple[np.ndarray, np.ndarray]:
    """A table as rows one behind the other."""
    table = np.asarray(written_out(choice.detach().cpu()) if is_torch(choice) else unmasked(choice, "choice"))
    if table.ndim != 3 or table.shape[:2] != shape or not table.size or table.dtype.kind not in "iu":
        raise refuse(f"choice is {table.dtype} of shape {table.shape}, not whole numbers [choosers][query blocks][slots] = [{shape[0]}][{shape[1]}][..]")
    table = ids(table, "choice")
    there = table != -1
    if (np.diff(there.astype(np.int8), axis=-1) > 0).any():
        raise refuse("choice: after a row's last block only -1 may stand")
    first = np.concatenate([[0], np.cumsum(there.reshape(-1, table.shape[2]).sum(-1))]).astype(np.int64)
    return first, table[there]


# ---- heads that choose for themselves, in calls of their own ----


def _numbered(made: Sequence[Hierarchy], heads: int) -> Sequence[Tuple[int, Hierarchy]]:
    """Dropout draws for heads by their numbers among all."""
    for i, h in enumerate(made):
        h._first_head = i * heads
    return list(enumerate(made))


def _slice(x: Any, axis: int, first: int, n: int) -> Any:
    at = [slice(None)] * x.ndim
    at[axis] = slice(first, first + n)
    return x[tuple(at)]


def _cut(q: Any, k: Any, v: Any, i: int, choosers: int, axis: int) -> Tuple[Any, Any, Any]:
    """Heads of chooser i."""
    heads, share = q.shape[axis] // choosers, q.shape[axis] // k.shape[axis]
    first = i * heads // share
    n = (i * heads + heads - 1) // share + 1 - first
    return _slice(q, axis, i * heads, heads), _slice(k, axis, first, n), _slice(v, axis, first, n)


def _tables_of(more: Mapping[str, Any], i: int, choosers: int, heads: int) -> Dict[str, Any]:
    found = dict(more)
    n = heads // choosers
    for name, x in more.items():
        if x is None or name not in ROWS:
            continue
        extents = ROWS[name].extents
        if lib.HGA_EXTENT_EDGES in extents:
            raise refuse(f"{name}: each of {choosers} choosers has edges of its own")
        if not any(extent in BY_HEAD for extent in extents):
            continue
        shape = x.shape if hasattr(x, "shape") else as_numpy(x, name).shape
        for axis in range(2):
            if extents[axis] in BY_HEAD and len(shape) > axis and not (shape[axis] == 1 and heads > 1):
                if shape[axis] != heads:
                    raise refuse(f"{name} has shape {tuple(shape)}: numbers of {heads} heads are needed")
                found[name] = _slice(x, axis, i * n, n)
    return found


def _joined(results: Sequence[Any], axis: int) -> Any:
    """Outputs, or outputs with their log-sum-exps."""
    if isinstance(results[0], tuple):
        outs, lses = zip(*results)
        return _joined(outs, axis), _joined(lses, axis + 1)
    if is_torch(results[0]):
        import torch

        return torch.cat(list(results), axis)
    return np.concatenate(list(results), axis)


def _gradients(c: Chosen, h: ChosenHierarchy, arrays: Sequence[np.ndarray], d_lse: Any, needs_grad: Any, layout: str, more: Dict[str, Any]) -> Dict[str, np.ndarray]:
    """Chooser by chooser, each head's at its index."""
    q, k, v, d_out = arrays
    axis = 0 if q.ndim == 2 else LAYOUTS[layout][0]
    found: Dict[str, np.ndarray] = {}
    if c.choosers == 1:
        return h._made_of(c, None).gradient(q, k, v, d_out, d_lse=d_lse, needs_grad=needs_grad, layout=layout, **more)
    share, heads = q.shape[axis] // k.shape[axis], q.shape[axis] // c.choosers
    for i, one in _numbered([h._made_of(c, i) for i in range(c.choosers)], heads):
        lse = None if d_lse is None else _slice(d_lse, axis + 1, i * heads, heads)
        tables = _tables_of(more, i, c.choosers, q.shape[axis])
        grads = one.gradient(*_cut(q, k, v, i, c.choosers, axis), _slice(d_out, axis, i * heads, heads), d_lse=lse, needs_grad=needs_grad, layout=layout, **tables)
        for name, x in grads.items():
            like = {"query": q, "key": k, "value": v}.get(name, more.get(name))
            full = found.setdefault(name, np.zeros(x.shape if like is None or np.ndim(like) == 0 else np.shape(like), np.float32))
            start = i * heads // (share if name in ("key", "value") else 1)
            at = [slice(None) if n == of_all else slice(start, start + n) for n, of_all in zip(x.shape, full.shape)]
            full[tuple(at)] += widened(x)
    return {name: narrowed(x, grads[name].dtype) for name, x in found.items()}


@deferred
def rerouted(n_tokens: Any, settings: Dict[str, Any]) -> ChosenHierarchy:
    """The same again."""
    return ChosenHierarchy(n_tokens, settings)


def chosen(s: Settings, n_tokens: Any, n_keys: Any = None) -> ChosenHierarchy:
    """``hga.routed``, as its parameters fill the structure."""
    if n_keys is not None:
        raise refuse_type("routed has no n_keys: its queries and keys are the same tokens")
    settings = values_of(s)
    k, threshold = settings["k"], settings["threshold"]
    if {"k", "threshold"} <= s.declared:
        raise refuse(f"k={_typed(k)} and threshold={threshold:g}: blocks are chosen by one of them")
    if "threshold" in s.declared and not 0 < threshold <= 1:
        raise refuse(f"threshold is {threshold:g}; it must be above 0 and at most 1")
    settings.update({"k": None} if "threshold" in s.declared else {"threshold": None})
    return ChosenHierarchy(n_tokens, settings)
