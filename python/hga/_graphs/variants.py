"""Variants by name: one function for every row of the library's registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Set
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .._core.arguments import answered, flag, int32, listed, meant, one_of, whole
from .by_content import ByContent
from .._core.copies import runs_as, settle
from .._core.values import as_floats, check, encoded, ffi, ids, is_torch, lib, refuse, refuse_type, unmasked
from .._core.deferred import compiling, deferred
from .graph import Graph
from .hierarchy import FoldedHierarchy, Hierarchy
from .registry import KINDS, Parameter, Variant, cut, variant_named, variants
from .._core.renamed import Former


class _Settings:
    """The structure that a variant's builder takes, filled by name; keeps the arrays alive."""

    def __init__(self, v: Variant) -> None:
        self.variant = v
        self.memory = ffi.new("double[]", (int(v._row.bytes) + 7) // 8)
        self.alive: List[Any] = []
        lib.hga_variant_defaults(self._v(), self.memory)

    def _v(self) -> Any:
        return ffi.addressof(self.variant._row)

    def set(self, name: str, value: str) -> None:
        check(lib.hga_variant_set(self._v(), self.memory, name.encode(), encoded(value, name)))

    def set_array(self, name: str, value: Any) -> None:
        if name == "causal":  # an axis each, true or not
            value = [int(flag(x, name)) for x in np.asarray(unmasked(value, name)).reshape(-1)]
        x = ids(value, name)
        if x.ndim not in (1, 2):
            raise refuse(f"{name} has shape {x.shape}: one axis, or [n][heads]")
        data = ffi.cast("int32_t *", x.ctypes.data)
        self.alive.append(x)
        check(lib.hga_variant_set_array(self._v(), self.memory, name.encode(), data, len(x), x.shape[1] if x.ndim == 2 else 0))

    def fill(self, p: Parameter, value: Any) -> None:
        if p.kind == KINDS["flag"]:
            self.set(p.name, str(int(flag(value, p.python_name))))
        elif p.kind == KINDS["whole"]:
            self.set(p.name, str(int32(value, p.python_name)))
        elif p.kind == KINDS["word"]:
            self.set(p.name, one_of(value, p.python_name, (p.words or "").split()))
        else:
            unmasked(value, p.python_name)
            numbers = np.asarray(_listed([value] if isinstance(value, (int, np.integer, np.bool_)) else value))
            self.set_array(p.name, numbers.astype(np.int32) if numbers.dtype == bool else numbers)

    def build(self) -> Tuple[Graph, Any]:
        graph, program = ffi.new("hga_graph **"), ffi.new("hga_program *")
        check(self.variant._row.build(self.memory, graph, program))
        return Graph(graph[0]), program


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
                raise refuse(f"{name} has {len(x)} rows, the hierarchy {n}")
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
        made._threads, made._bind, made._strict = self._threads, self._bind, self._strict
        return made

    def decoder(self, **more: Any) -> Any:
        """Refused: leaves are found by the input. ``hierarchy(q, k)`` of all tokens has a decoder."""
        raise refuse(f"{self.variant.name}: weights= and bias= route whole inputs; hierarchy(q, k) of all tokens has a decoder")

    def _numbers(self) -> Dict[str, Any]:
        return {n: np.asarray(_listed(x)) for n, x in self.arguments.items()}

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
    if n_tokens is not None and _is_one(n_tokens):
        n_tokens = whole(n_tokens, "n_tokens", least=1)
    elif n_tokens is not None:
        lengths = _lengths(n_tokens)
        if n_keys is not None:
            raise refuse("n_keys goes with one length, not with a ragged batch")
        if int(v._row.can) & lib.HGA_NEEDS_CHOICE:
            return _chosen(lengths, arguments, None)
        h = concatenated([make(v, n, arguments) for n in lengths if n])  # a sample of no tokens has no rows
        h._recipe = remade, (v.name, lengths, _copied(arguments), None)
        return h
    if int(v._row.can) & lib.HGA_NEEDS_CHOICE:
        return _chosen(n_tokens, arguments, n_keys)
    if "weights" in arguments or "bias" in arguments:
        return RoutedHierarchy(v, n_tokens, arguments, None if n_keys is None else whole(n_keys, "n_keys", least=1))
    _require(v, n_tokens, arguments)
    s = _Settings(v)
    alpha = arguments.get("alpha")
    if n_tokens is not None:
        s.set("tokens", str(n_tokens))
    if n_keys is not None:
        if not v.can_cross:
            raise refuse_type(f"{v.name} has no n_keys: its queries and keys are the same tokens")
        n_keys = whole(n_keys, "n_keys", least=0 if "key_leaf" in arguments else 1)
        if n_keys:
            s.set("keys", str(n_keys))
    fold = 1
    for name, value in arguments.items():
        if value is None or name == "alpha":
            continue
        p = v.parameter(name)
        s.fill(p, value)
        if name == "query_leaf" and np.ndim(value) == 2:
            fold = np.shape(value)[1]
    if n_keys == 0:  # key_leaf= declared as many
        ffi.cast("hga_treeformer *", s.memory).n_keys = 0
    node_of = None
    if v.name == "hsa" and arguments.get("parent") is not None:
        node_of = np.empty(len(arguments["parent"]), np.int32)
        ffi.cast("hga_hsa *", s.memory).node_of = ffi.cast("hga_id *", node_of.ctypes.data)
    graph, program = s.build()
    words = " ".join([v.name] + [f"{v.parameter(n).name}={_typed(x)}" for n, x in arguments.items() if _typed(x)])
    h = FoldedHierarchy(graph, program, words, fold) if fold > 1 else Hierarchy(graph, program, words)
    h._node_of = node_of
    h._recipe = remade, (v.name, n_tokens, _copied(arguments, fresh), n_keys)
    if alpha is not None:
        h._own = {"type_scale": np.ascontiguousarray(np.asarray(unmasked(_listed(alpha), "alpha"), np.float32))}
    return h


def _chosen(n_tokens: Any, arguments: Dict[str, Any], n_keys: Any) -> Any:
    from .routed import chosen

    return chosen(n_tokens, arguments, n_keys)


def _require(v: Variant, n_tokens: Optional[int], arguments: Dict[str, Any]) -> None:
    """What a variant cannot be made without, in words."""
    can = int(v._row.can)
    if can & lib.HGA_NEEDS_LEAVES and "query_leaf" not in arguments:
        raise refuse(f"{v.name} needs query_leaf=, or height=, weights= and bias=")
    for need, name, says in (
        (lib.HGA_NEEDS_SEGMENTS, "query_segment", "the segment of each query token"),
        (lib.HGA_NEEDS_DRAFTS, "parent", "the draft that each draft follows, -1 for the prefix"),
    ):
        if can & need and name not in arguments:
            raise refuse(f"{v.name} needs {name}=, {says}")
    if can & lib.HGA_NEEDS_TYPE_SCALE and "alpha" not in arguments:
        raise refuse(f"{v.name} needs alpha=, a weight for each level")
    if can & lib.HGA_TAKES_TREE and "parent" not in arguments and "branching" not in arguments:
        raise refuse(f"{v.name} needs branching=, or parent=")
    if n_tokens is None and not (_by_data(v) and any(name in arguments for name in ("parent", "query_leaf", "query_segment", "shape"))):
        raise refuse_type(f"{v.name} needs n_tokens, how many tokens there are")


def _by_data(v: Variant) -> bool:
    """May data say how many tokens there are?"""
    can = lib.HGA_TAKES_TREE | lib.HGA_NEEDS_LEAVES | lib.HGA_NEEDS_SEGMENTS | lib.HGA_TAKES_SHAPE | lib.HGA_NEEDS_DRAFTS | lib.HGA_NEEDS_CHOICE
    return bool(int(v._row.can) & can)


def _typed(x: Any) -> str:
    """A parameter as it is typed in words; nothing for arrays."""
    if isinstance(x, (bool, np.bool_)):
        return str(int(x))
    return str(x) if isinstance(x, (int, np.integer, str)) else ""


def _copied(arguments: Dict[str, Any], fresh: Sequence[str] = ()) -> Dict[str, Any]:
    """Parameters as they are now, whatever becomes of the caller's arrays."""
    return {n: x if n in fresh or isinstance(x, (int, str, np.generic)) else np.array(_listed(x)) for n, x in arguments.items()}


def _listed(x: Any) -> Any:
    """A tensor's numbers, or a list's."""
    return x.detach().cpu().numpy() if is_torch(x) else x


@deferred
def built(words: str, n_tokens: int) -> Hierarchy:
    """A variant in words (``hga.build``)."""
    n_tokens = whole(n_tokens, "n_tokens")
    name, *settings = cut(words)
    variant = variant_named(name)
    if variant is None and meant(name, variants()):
        raise refuse(f"no variant {name!r}{meant(name, variants())}")
    for word in settings:
        parameter = word.split("=")[0]
        if variant is not None and parameter not in ("tokens", "keys"):
            variant.parameter(parameter.replace("-", "_"))
    if variant is not None and int(variant._row.can) & lib.HGA_NEEDS_CHOICE:
        from .spec import Spec

        return Spec(words).build(n_tokens, False)
    graph, program = ffi.new("hga_graph **"), ffi.new("hga_program *")
    check(lib.hga_build(encoded(words, "variant"), n_tokens, graph, program))
    h = Hierarchy(Graph(graph[0]), program, words)
    h._recipe = built, (words, n_tokens)
    return h


@deferred
def remade(name: str, n_tokens: Any, arguments: Dict[str, Any], n_keys: Optional[int]) -> Any:
    """A variant's hierarchy by its recipe."""
    return make(variants()[name], n_tokens, arguments, n_keys)


def function_of(v: Variant) -> Callable[..., Any]:
    """The Python function of a variant, with the registry's parameters as its own."""

    def build(n_tokens: Any = None, *, n_keys: Any = None, **parameters: Any) -> Any:
        named = {n: x for n, x in parameters.items() if x is not None}
        return remade(v.name, n_tokens, named, n_keys) if compiling() else make(v, n_tokens, named, n_keys)

    build.__name__ = build.__qualname__ = v.name.replace("-", "_")
    build.__module__ = "hga"
    lines = [f"{v.says} ({v.paper}).", "", "n_tokens: tokens, or a list of lengths for a ragged batch."]
    if v.can_cross:
        own = any(p.name == "key-leaf" for p in v.parameters)
        lines.append("n_keys: key tokens, for cross-attention" + ("; 0: the queries' tokens, by the leaves of key_leaf." if own else "."))
    first = None if _by_data(v) else inspect.Parameter.empty
    arguments = [inspect.Parameter("n_tokens", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=first)]
    for p in v.parameters:
        standard = f", default {p.standard}" if p.standard else ""
        study = f" ({p.study} is for study)" if p.study else ""
        lines.append(f"{p.python_name} ({p.type}{standard}): {p.says}{study}.")
        arguments.append(inspect.Parameter(p.python_name, inspect.Parameter.KEYWORD_ONLY, default=p.default))
    if v.can_cross:
        arguments.append(inspect.Parameter("n_keys", inspect.Parameter.KEYWORD_ONLY, default=None))
    build.__doc__ = "\n".join(lines)
    build.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    return build
