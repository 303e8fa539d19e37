"""Variants by name: hierarchies of the registry's rows, by the values of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .._core.arguments import Former, answered, flag, listed, whole
from .by_content import ByContent
from .._core.copies import runs_as, settle
from .._core.arrays import as_floats, floats, ids
from .._core.library import check, ffi, lib, refuse, refuse_type
from .._core.deferred import deferred
from .graph import Graph
from .hierarchy import FoldedHierarchy, Hierarchy
from .registry import Variant, variant_named
from .routed import chosen
from .settings import Settings, plain

# What a variant cannot be made without: one of these parameters, in words.
NEEDS = (
    (lib.HGA_NEEDS_LEAVES, ("query_leaf",), "query_leaf=, or height=, weights= and bias="),
    (lib.HGA_NEEDS_SEGMENTS, ("query_segment",), "query_segment=, the segment of each query token"),
    (lib.HGA_NEEDS_DRAFTS, ("parent",), "parent=, the draft that each draft follows, -1 for the prefix"),
    (lib.HGA_NEEDS_TYPE_SCALE, ("alpha",), "alpha=, a weight for each level"),
    (lib.HGA_TAKES_TREE, ("branching", "parent"), "branching=, or parent="),
)
# Parameters that say how many tokens there are.
COUNTED = {"tokens", "parent", "query_leaf", "query_segment", "shape"}


class RoutedHierarchy(ByContent):
    """Treeformer with hyperplanes: every input is routed down the trees, and attends in the leaves it fell into."""

    given = Former()

    def __init__(self, v: Variant, n_tokens: Optional[int], arguments: Dict[str, Any], n_keys: Optional[int] = None) -> None:
        self.variant, self.n_tokens, self.n_keys, self.arguments = v, n_tokens, n_keys, arguments
        for name, other in (("weights", "bias"), ("bias", "weights")):
            if name not in arguments:
                raise refuse(f"{v.name}: {other}= needs {name}=: hyperplanes have both")
        if "query_leaf" in arguments or "key_leaf" in arguments:
            raise refuse(f"{v.name}: weights= and bias= find the leaves, which query_leaf= or key_leaf= would give")
        if ("key_weights" in arguments) != ("key_bias" in arguments):
            raise refuse(f"{v.name}: key_weights and key_bias go together")
        self.branching = ids(arguments["branching"], "branching") if "branching" in arguments else None
        self.height = len(self.branching) if self.branching is not None else arguments.get("height")
        if self.height is None:
            raise refuse(f"{v.name}: weights= and bias= need height= or branching=")
        self._strict = False

    def strict_rows(self, strict: bool = True) -> "RoutedHierarchy":
        """As Hierarchy.strict_rows."""
        new = RoutedHierarchy(self.variant, self.n_tokens, self.arguments, self.n_keys)
        new._threads, new._bind, new._strict = self._threads, self._bind, flag(strict, "strict")
        return new

    def order(self, how: str) -> Any:
        """Refused: an order is of one graph. ``hierarchy(q, k).order(how)`` is of one input's."""
        raise refuse(f"{self.variant.name}: weights= and bias= route whole inputs; hierarchy(q, k) of one has an order")

    def _leaves(self, x: np.ndarray, weights: Any, bias: Any, heads: int) -> np.ndarray:
        """[n] or [n][heads]: the leaf of every row of x, [n][heads][dim]."""
        w = np.ascontiguousarray(as_floats(weights, "weights"))
        b = np.ascontiguousarray(as_floats(bias, "bias"))
        branching = ffi.NULL if self.branching is None else ffi.cast("hga_id *", self.branching.ctypes.data)
        rows = lib.hga_route_rows(self.height, branching)
        if w.ndim not in (2, 3) or w.shape[-2] != rows or b.shape != w.shape[:-1]:
            raise refuse(f"weights {w.shape} and bias {b.shape}: a tree of height {self.height} has {rows} hyperplanes")
        n, own, dim = x.shape
        if w.ndim == 3 and w.shape[0] not in (1, heads):
            raise refuse(f"weights have trees for {w.shape[0]} heads, the query has {heads}")
        whole = w.shape[-1] == own * dim and w.shape[-1] != dim
        if not whole and w.shape[-1] != dim:
            raise refuse(f"weights have {w.shape[-1]} columns, a head has {dim}")
        if whole or x.strides[-1] != x.itemsize:
            x = np.ascontiguousarray(x)
        leaf = np.empty((n, 1 if whole else heads), np.int32)
        each = w.ndim == 3 and w.shape[0] > 1 and own == heads and not whole  # head t goes down tree t
        for t in range(1 if each else leaf.shape[1]):
            tree = t if w.ndim == 3 and w.shape[0] > 1 else 0
            r = ffi.new("hga_router *")
            r.height, r.dim, r.n_heads, r.branching = self.height, w.shape[-1], heads if each else 1, branching
            wt, bt = (w[tree], b[tree]) if w.ndim == 3 else (w, b)
            r.weights, r.bias = (ffi.cast("float *", a.ctypes.data) for a in (wt, bt))
            column = leaf if each else np.empty(n, np.int32)
            start = x.ctypes.data + (0 if whole else (t // (heads // own)) * x.strides[1])
            row, head = x.strides[0] // x.itemsize, x.strides[1] // x.itemsize
            check(lib.hga_route(r, ffi.cast("float *", start), n, row, head, ffi.cast("int32_t *", column.ctypes.data)))
            if not each:
                leaf[:, t] = column
        return leaf[:, 0].copy() if leaf.shape[1] == 1 else leaf

    @answered
    def hierarchy(self, q: Any, k: Any, layout: str = "bhnd") -> Hierarchy:
        """The hierarchy of one input, [heads][n][dim] (or [n][heads][dim] with layout "bnhd")."""
        rows = [np.moveaxis(as_floats(x, n), -3, -2) if layout == "bhnd" else as_floats(x, n) for x, n in ((q, "query"), (k, "key"))]
        for x, name, n in ((rows[0], "query", self.n_tokens), (rows[1], "key", self.n_keys)):
            if n is not None and len(x) != n:
                raise refuse(f"{name} has {len(x)} rows, the hierarchy has {n}")
        heads = rows[0].shape[1]
        more = {n: x for n, x in self.arguments.items() if n not in ("weights", "bias", "key_weights", "key_bias")}
        more["query_leaf"] = self._leaves(rows[0], self.arguments["weights"], self.arguments["bias"], heads)
        w = self.arguments.get("key_weights", self.arguments["weights"])
        b = self.arguments.get("key_bias", self.arguments["bias"])
        more["key_leaf"] = self._leaves(rows[1], w, b, heads)
        if self.branching is None:
            more["height"] = self.height
        own = self.n_keys is None and len(rows[0]) == len(rows[1])  # the keys are the queries' tokens
        made: Hierarchy = make(self.variant, None, more, 0 if own else None, ("query_leaf", "key_leaf"))
        made._strict = self._strict
        return self._told(made)

    def decoder(self, **more: Any) -> Any:
        """Refused: leaves are found by the input. ``hierarchy(q, k)`` of all tokens has a decoder."""
        raise refuse(f"{self.variant.name}: weights= and bias= route whole inputs; hierarchy(q, k) of all tokens has a decoder")

    def _numbers(self) -> Dict[str, Any]:
        return {n: np.asarray(plain(x)) for n, x in self.arguments.items()}

    def __eq__(self, other: Any) -> Any:
        """The same variant with equal parameters, hyperplanes among them, as they are now."""
        if not isinstance(other, RoutedHierarchy):
            return NotImplemented
        a, b = self._numbers(), other._numbers()
        mine, theirs = ((h.variant.name, h.n_tokens, h.n_keys, h._strict, set(h.arguments)) for h in (self, other))
        return mine == theirs and all(np.array_equal(x, b[n]) for n, x in a.items())

    def __hash__(self) -> int:
        """Of what training does not change: the variant, the tokens, the shapes."""
        return hash((self.variant.name, self.n_tokens, tuple(sorted((n, np.shape(x)) for n, x in self.arguments.items()))))

    def _again(self) -> Any:
        return remade(self.variant.name, self.n_tokens, self.arguments, self.n_keys).strict_rows(self._strict)


def concatenated(parts: Sequence[Hierarchy]) -> Hierarchy:
    """One hierarchy over several texts (a ragged batch): rows are all samples' tokens, one after the other,
    then all nodes of level 1, and so on. None sees another's. All parts run the same program."""
    parts = listed(parts, "parts", "hierarchies")
    if not parts:
        raise refuse("nothing to concatenate")
    for i, h in enumerate(parts):
        if not isinstance(h, Hierarchy) or isinstance(h, FoldedHierarchy):
            raise refuse_type(f"part {i} is {h!r}, which has no graph of its own rows" if isinstance(h, Hierarchy) else
                              f"part {i} is a {type(h).__name__}, not a hierarchy")  # fmt: skip
        if not runs_as(h, parts[0]):
            raise refuse(f"part {i} ({h.words}) runs another program than part 0 ({parts[0].words}), or other weights of types")
    graphs = ffi.new("hga_graph *[]", [h.graph._g for h in parts])
    out, node_map = ffi.new("hga_graph **"), ffi.new("hga_node_map *")
    check(lib.hga_graph_concat(ffi.cast("hga_graph * const *", graphs), len(parts), out, node_map))
    made = Hierarchy(Graph(out[0]), parts[0]._program, f"{len(parts)} x {parts[0].words}")
    settle(made, parts[0])
    made._functions, made._node_of = parts[0]._functions, None
    try:
        if any(h._node_of is not None for h in parts):
            made._node_of = np.concatenate([_renumbered(h, node_map.id[i], int(node_map.n[i])) for i, h in enumerate(parts)])
    finally:
        lib.hga_node_map_clear(node_map)
    return made


def _renumbered(h: Hierarchy, ids_of: Any, n: int) -> np.ndarray:
    """The new ids of one hierarchy's nodes, in its caller's order."""
    new = np.frombuffer(ffi.buffer(ids_of, 4 * n), np.int32).copy()
    return new if h._node_of is None else new[h._node_of]


def _is_one(n_tokens: Any) -> bool:
    """Is that meant as one number?"""
    return bool(np.ndim(n_tokens) == 0 and (hasattr(n_tokens, "__index__") or not isinstance(n_tokens, Iterable)))


def _lengths(n_tokens: Any) -> List[int]:
    """The lengths of a ragged batch."""
    if isinstance(n_tokens, (str, bytes, Mapping, Set)) or np.ndim(n_tokens) != 1:
        raise refuse_type(f"n_tokens is {n_tokens!r}, neither a whole number nor a list of them")
    lengths = [whole(n, "n_tokens") for n in n_tokens]
    whole(sum(lengths), "n_tokens: the sum")
    if not any(lengths):
        raise refuse("n_tokens is an empty list" if not lengths else f"n_tokens: all {len(lengths)} lengths are 0")
    return lengths


def make(v: Variant, n_tokens: Any, arguments: Dict[str, Any], n_keys: Optional[int] = None, fresh: Sequence[str] = ()) -> Any:
    """A hierarchy of a variant: n_tokens, or a list of lengths for a ragged batch. The arrays named `fresh` have no other owner."""
    for name in arguments:
        v.parameter(name)
    ragged = n_tokens is not None and not _is_one(n_tokens)
    if n_tokens is not None:
        n_tokens = _lengths(n_tokens) if ragged else whole(n_tokens, "n_tokens", least=1)
    if ragged and n_keys is not None:
        raise refuse("n_keys goes with one length, not with a ragged batch")
    if not v.needs_choice and ragged:
        h = concatenated([make(v, n, arguments) for n in n_tokens if n])  # a sample of no tokens has no rows
        h._recipe = remade, (v.name, n_tokens, _copied(arguments), None)
        return h
    if "weights" in arguments or "bias" in arguments:
        return RoutedHierarchy(v, n_tokens, arguments, None if n_keys is None else whole(n_keys, "n_keys", least=1))
    s = Settings(v)
    for name, value in arguments.items():
        s.fill(name, value)
    if v.needs_choice:
        return chosen(s, n_tokens, n_keys)
    heads = (*np.shape(arguments.get("query_leaf", 0)), 1, 1)[1]  # [n][heads]
    words = " ".join([v.name] + [f"{v.parameter(n).name}={_typed(x)}" for n, x in arguments.items() if _typed(x)])
    h = of_settings(s, words, n_tokens, n_keys, heads)
    h._recipe = remade, (v.name, n_tokens, _copied(arguments, fresh), n_keys)
    if "alpha" in arguments:
        h._own = {"type_scale": np.ascontiguousarray(floats(plain(arguments["alpha"]), "alpha"))}
    return h


def of_settings(s: Settings, words: str, n_tokens: Optional[int], n_keys: Optional[int], heads: int = 1) -> Hierarchy:
    """The hierarchy that the library builds of a filled structure, whose leaves are of so many heads."""
    v = s.variant
    for need, names, says in NEEDS:
        if v._can(need) and not s.declared.intersection(names):
            raise refuse(f"{v.name} needs {says}")
    if n_tokens is None and not s.declared & COUNTED:
        raise refuse_type(f"{v.name} needs n_tokens, how many tokens there are")
    if n_tokens is not None:
        s.set("tokens", str(n_tokens))
    if n_keys is not None:
        if not v.can_cross:
            raise refuse_type(f"{v.name} has no n_keys: its queries and keys are the same tokens")
        n_keys = whole(n_keys, "n_keys", least=0 if "key_leaf" in s.declared else 1)
        if n_keys:
            s.set("keys", str(n_keys))
        else:  # key_leaf= declared as many
            ffi.cast("hga_treeformer *", s.memory).n_keys = 0
    node_of = None
    if v.name == "hsa" and "parent" in s.declared:
        node_of = np.empty(s.value("parent"), np.int32)
        ffi.cast("hga_hsa *", s.memory).node_of = ffi.cast("hga_id *", node_of.ctypes.data)
    graph, program = ffi.new("hga_graph **"), ffi.new("hga_program *")
    check(v._row.build(s.memory, graph, program))
    h = FoldedHierarchy(Graph(graph[0]), program, words, heads) if heads > 1 else Hierarchy(Graph(graph[0]), program, words)
    h._node_of = node_of
    return h


def _typed(x: Any) -> str:
    """A parameter as it is typed in words; nothing for arrays."""
    if isinstance(x, (bool, np.bool_)):
        return str(int(x))
    return str(x) if isinstance(x, (int, np.integer, str)) else ""


def _copied(arguments: Dict[str, Any], fresh: Sequence[str] = ()) -> Dict[str, Any]:
    """Parameters as they are now, whatever becomes of the caller's arrays."""
    return {n: x if n in fresh or isinstance(x, (int, str, np.generic)) else np.array(plain(x)) for n, x in arguments.items()}


@deferred
def remade(name: str, n_tokens: Any, arguments: Dict[str, Any], n_keys: Optional[int]) -> Any:
    """A variant's hierarchy by its recipe."""
    return make(variant_named(name), n_tokens, arguments, n_keys)
