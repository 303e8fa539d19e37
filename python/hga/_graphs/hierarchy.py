"""A hierarchy ready to attend: a graph, its program, and calls of arrays. What is not attention its methods name alone."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, overload

import numpy as np

from .._core.arguments import Former, answered, encoded_path, flag, listed, meant, number, path_of, whole
from .._core.copies import copied, identity, reduced, settle
from .._core.deferred import step
from .._core.later import later
from .._core.normalisers import normalised, spelt
from .._core.call import IO, lifted, lowered
from .._core.tables import ALWAYS_THERE, WITHOUT_EDGES, as_returned, check_names, features_of, gradients_of, takes_tables
from .._core.library import check, ffi, lib, refuse
from .._core.arrays import FLOAT32, is_torch
from . import looking
from .calls import ByHead, Calls, array_of, as_callers, how_of
from .decoder import Decoder
from .looking import Coverage, Page, Row, Weighed
from .orders import InOrder

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .._core.arrays import Array
    from .._core.keywords import CallTables, DecoderTables
    from .graph import Graph

    class CallOptions(CallTables, total=False):
        """What ``attention`` takes by keyword beside ``lse``."""

        layout: str
        normaliser: Optional[str]
        normalizer: Optional[str]
        dropout: float
        seed: int
        layer: int
        precision: str
        threads: int
        isa: Optional[str]


OF_TORCH: List[Callable[..., Any]] = []  # attention of tensors, once hga.torch is there: to ask for it at each call takes a while


class Hierarchy(Calls):
    """A graph and the program that attends over it. Made by the functions named after the variants (``hga.bpt``, ..), by
    ``hga.read`` or from a ``Graph`` and a ``Program``. Any number of threads may call at once."""

    parts, key_parts = Former(), Former()

    @step
    def additive_scores(self, negative_slope: float = 0.2) -> "Hierarchy":
        """The same hierarchy with the additive scores of GAT and GATv2: additive . LeakyReLU(q + k) instead of q . k, where
        ``attention`` takes additive [heads][dim] (default: ones). Their scale is 1 unless one is given."""
        h = copied(self)
        p, h._recipe = h._program, None
        p.scores, p.negative_slope = lib.HGA_SCORES_ADDITIVE, number(negative_slope, "negative_slope")
        if not math.isfinite(p.negative_slope):
            raise refuse(f"negative_slope is {negative_slope!r}, no finite number of float32")
        return h

    def strict_rows(self, strict: bool = True) -> "Hierarchy":
        """The same hierarchy with rows whose bits depend only on their own edges and on what they read, not on the rows beside
        them: for graphs of blocks and edges that change (masks, ``Graph.from_edges``). In causal variants rows keep their
        bits in longer texts anyway. Slower where few rows share columns. Nothing is promised of gradients."""
        h = copied(self)
        h._strict = flag(strict, "strict")
        return h

    @property
    def kinds(self) -> np.ndarray:
        """[nodes] int32: each node's kind, a number of ``graph.kind_names``, -1: of none; of a tree that was brought by its own
        numbers, else by the graph's, tokens first."""
        kinds: np.ndarray = self.graph.kinds()
        return kinds if self._node_of is None else kinds[self._node_of]

    def with_kinds(self, kinds: Sequence[Optional[str]]) -> "Hierarchy":
        """The same hierarchy with nodes of these kinds, names like "text" and "picture", numbered as in ``kinds``; None, and
        nodes after the last, keep their kind. Kinds do not change attention: a hierarchical transformer has a projection
        for each (``hga.torch.HierarchicalEncoderLayer``), and pictures have a colour."""
        named: List[Optional[str]] = listed(kinds, "kinds", "names")
        if self._node_of is not None:
            by_graph: List[Optional[str]] = [None] * self.graph.n_nodes
            if len(named) > len(self._node_of):
                raise refuse(f"{len(named)} kinds for {len(self._node_of)} nodes")
            for node, kind in zip(self._node_of, named):
                by_graph[node] = kind
            named = by_graph
        h = copied(self)
        h.graph, h._recipe = self.graph.with_kinds(named), None
        return h

    def by_head(self, heads: int) -> "Hierarchy":
        """The graph consists of disjoint graphs, one for each of ``heads`` key/value heads in order: row h * n + t of its
        queries, and of its keys, is token t of head h. Tensors are [.., heads, n, dim] as always, and are not copied; query
        heads that share a key/value head attend by its graph."""
        return FoldedHierarchy.of(self, whole(heads, "heads", least=1))

    def order(self, how: str) -> "Hierarchy":
        """The same hierarchy, run in an order of its nodes in which neighbours are near each other: "rcm" (reverse
        Cuthill-McKee, for meshes), "metis" (parts with few edges between them) or "degree" (hubs first). Tensors keep your
        numbers: hga moves their rows to the order, and results back. Results differ in the last bits only, and in dropout,
        which draws by position. ``gain`` says what the order gains, ``permutation`` which node is at each position."""
        return OrderedHierarchy(self, how)

    @step
    @answered
    def update(self, edges: Any, n_nodes: Optional[int] = None, *, repeated: Optional[str] = None) -> "Hierarchy":
        """The same hierarchy over other edges: a Graph with relations of the same names, or an edge_index [2][edges], as
        ``Graph.from_edge_index`` takes it, of as many nodes as before or of n_nodes. The result takes over the plans that
        no call and no backward pass needs, with their memory, and computes only what depends on the edges. This hierarchy
        does not change, and neither do its tapes: a backward pass uses the edges of its forward pass."""
        if self._in_order is not None or self._node_of is not None:
            raise refuse(f"{self!r} numbers its nodes by its own graph: make it anew")
        kind, n_nodes = type(self.graph), self.graph.n_nodes if n_nodes is None else n_nodes
        graph = edges if isinstance(edges, kind) else kind.from_edge_index(edges, n_nodes, repeated=repeated)
        if graph.relations != self.graph.relations:
            raise refuse(f"the graph has relations {', '.join(graph.relations)}, the hierarchy's {', '.join(self.graph.relations)}")
        new = copied(self)
        new.graph, new._recipe = graph, None
        new._follows(self, self._latest() if self._latest is not None else None)
        self._latest = weakref.ref(new)
        return new


    # ---- attention ----

    @overload
    def attention(self, q: Array, k: Array, v: Array, *, lse: Literal[False] = ..., **more: Unpack[CallOptions]) -> Array: ...

    @overload
    def attention(self, q: Array, k: Array, v: Array, *, lse: Literal[True], **more: Unpack[CallOptions]) -> Tuple[Array, Array]: ...

    @overload
    def attention(
        self, q: Array, k: Array, v: Array, *, lse: bool, **more: Unpack[CallOptions]
    ) -> Union[Array, Tuple[Array, Array]]: ...

    @takes_tables()
    def attention(
        self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, normaliser: Optional[str] = None,
        normalizer: Optional[str] = None, dropout: float = 0.0, seed: int = 0, layer: int = 0, precision: str = "auto",
        threads: int = 0, isa: Optional[str] = None, **tables: Unpack[CallTables],
    ) -> Any:  # fmt: skip
        """Attend. q, k, v: [batch.., heads, rows, dim] (layout "bhnd") or [batch.., rows, heads, dim] ("bnhd"); two
        axes are one head. Rows are tokens, or nodes where the hierarchy says so. Query head h reads key/value head
        h // (heads / key heads). numpy in, numpy out; torch in, torch out, differentiable. Inputs are read where they lie:
        float32, float16 or bfloat16, each its own; the output has the query's type. precision: "f32"; "bf16", products of
        operands that are rounded to bfloat16; "auto": "bf16" where query, key and value are of bfloat16, the processor
        multiplies pairs of these, and weights are a softmax of products; where it goes level by level and a gradient will be
        asked for, and in all else, "f32".

        Tables and numbers, None where a call has none of them. TABLES.
        normaliser (or normalizer): "softmax", the hierarchy's own as a rule; "sigmoid" or "sigmoid:B", each weight by itself,
        1 / (1 + e^-(score + B)); "entmax:ALPHA", from 1.05 to 2, most weights exact zeros, 2 is sparsemax.
        scale is 1 unless one is given where scores are additive; 0: weights are uniform where no table adds to scores.
        lse: return (out, log-sum-exp in float32) too; with edge_value (out, edge_out) or (out, edge_out, log-sum-exp), where edge_out
        has the output's axes and the columns of edge_value. Raises hga.Error."""
        if tables:
            check_names(Hierarchy.attention, tables)
        lse = lse if type(lse) is bool else flag(False if lse is None else lse, "lse")
        words = None if normaliser is normalizer is None else spelt(normaliser, normalizer)
        how = how_of(layout, dropout, seed, layer, precision, threads, isa)
        if not type(q) is type(k) is type(v) is np.ndarray and (is_torch(q) or is_torch(k) or is_torch(v)):
            return (OF_TORCH[0] if OF_TORCH else later("torch").OF_TORCH[0])(self, q, k, v, tables, how, lse, words)
        h = self if words is None else normalised(self, words)
        out, lses, _ = h._forward(q, k, v, tables, how, lse, False)
        if out.dtype is not FLOAT32:
            out = as_callers(out, q)
        return as_returned(out, lses, lse, features_of(tables))

    def __call__(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        """``attention``, as one calls a layer."""
        return self.attention(q, k, v, **options)

    @answered
    @takes_tables()
    def gradient(
        self, q: Any, k: Any, v: Any, d_out: Any, *, d_lse: Any = None, d_edge_out: Any = None, needs_grad: Optional[Sequence[str]] = None,
        layout: str = "bhnd", normaliser: Optional[str] = None, normalizer: Optional[str] = None, dropout: float = 0.0,
        seed: int = 0, layer: int = 0, precision: str = "auto", threads: int = 0, isa: Optional[str] = None,
        **tables: Unpack[CallTables],
    ) -> Dict[str, np.ndarray]:  # fmt: skip
        """Gradients of sum(d_out * out) + sum(d_lse * lse) + sum(d_edge_out * edge_out) by name: "query", "key", "value" and every table that was
        given, or those in ``needs_grad``, which may name "scale" and the graph's "log_mass" too; of query, key and value in their
        type, of tables in float32. For numpy; torch tensors have their autograd. Runs forward, then backward. Keywords are those
        of ``attention``."""
        check_names(Hierarchy.gradient, tables)
        h = normalised(self, spelt(normaliser, normalizer))
        names = gradients_of(h, tables)
        requested = names if needs_grad is None else listed(needs_grad, "needs_grad", "names")
        for name in requested:
            if name not in names and name not in ALWAYS_THERE:
                known = names + ALWAYS_THERE
                raise refuse(f"no gradient of {name!r}{meant(name, known) or ': there are ' + ', '.join(known)}")
        how = how_of(layout, dropout, seed, layer, precision, threads, isa)
        return h._gradient(q, k, v, (d_out, d_lse, d_edge_out), tables, how, list(requested))


    # ---- token by token ----

    @answered
    @takes_tables(WITHOUT_EDGES)
    def decoder(
        self, *, heads: int, dim: int, kv_heads: Optional[int] = None, dim_v: Optional[int] = None, same: bool = False,
        rollback: int = 0, row_type: Optional[str] = None, page_type: str = "f32", page_rows: int = 0, max_bytes: int = 0, normaliser: Optional[str] = None,
        normalizer: Optional[str] = None, precision: str = "auto", threads: int = 0, isa: Optional[str] = None,
        **tables: Unpack[DecoderTables],
    ) -> Decoder:  # fmt: skip
        """A decoder of sequences of at most as many tokens as the hierarchy has: ``h.decoder(heads=, dim=).cache()`` takes
        ``append(q, k, v)``, and gives the rows of ``attention`` over all tokens so far. Tables, numbers and normaliser are those of
        ``attention``, for all appends.

        same: rows have the bits of ``attention`` on all tokens, however they were cut into appends; otherwise they are within
        2e-6. rollback: tokens that ``Cache.cut`` may take back at least. row_type: the type of rows, which precision "auto" follows:
        "bf16" is bfloat16, "f32" float32 or float16; None: that of the first rows, of any of its caches. Rows of the other type are then
        refused, as they are with same; a precision that is said takes rows of any type. page_type: "f32", or "bf16", by which keys, values and
        queries are kept, and computed with, in 16 bits. page_rows: rows of a page, a power of two up to 64; 0: 16. max_bytes:
        the most bytes of all its caches' pages; 0: no limit. A hierarchy of which a token sees a later one is refused with both."""
        check_names(Hierarchy.decoder, tables, WITHOUT_EDGES)
        h = normalised(self, spelt(normaliser, normalizer))
        h._choosing = self._choosing
        return Decoder(h, heads, dim, kv_heads, dim_v, same, rollback, page_type, page_rows, max_bytes, row_type, precision, threads, isa,
                       tables)  # fmt: skip

    # ---- rows that are nodes ----

    @answered
    def lift(self, x: Any, *, layout: str = "bhnd", which: str = "query") -> Any:
        """Make the hierarchy's rows from rows of tokens: where these are nodes (bpt), spans get zeros, as BP-Transformer
        starts them; elsewhere x itself. numpy or torch, differentiable; which: "query", "key" or "value"."""
        return lifted(self, x, layout, which)

    def lower(self, y: Any, *, layout: str = "bhnd") -> Any:
        """The tokens' rows of an output whose rows are nodes, as a view; elsewhere y itself."""
        return lowered(self, y, layout)

    # ---- looking at it ----

    @property
    def n_tokens(self) -> int:
        return self.graph.n_tokens

    @property
    def rows(self) -> int:
        """Rows of the query, or of the output where the program reads no query."""
        n = self._rows("query")
        return (n if n >= 0 else self._rows("out")) // self.n_graphs

    def edges(self, relation: Optional[str] = None) -> np.ndarray:
        return self.graph.edges(relation)

    def to_scipy(self, relation: Optional[str] = None) -> Any:
        return self.graph.to_scipy(relation)

    def to_networkx(self, relation: Optional[str] = None, *, progress: Optional[bool] = None) -> Any:
        return self.graph.to_networkx(relation, progress=progress)

    def to_igraph(self, relation: Optional[str] = None) -> Any:
        return self.graph.to_igraph(relation)

    def to_block_mask(self, BLOCK_SIZE: Any = 128) -> Any:
        """torch's BlockMask of a graph of one relation, for FlexAttention elsewhere: rows and columns are tokens, or nodes where
        there are more than tokens. It is the mask alone: masses and the stages of a program are not in it."""
        return later("_flex.masks").block_mask_of(self, BLOCK_SIZE)

    @answered
    def coverage(self, causal: bool = False) -> Coverage:
        """Exact counts of token pairs, for any graph."""
        return looking.coverage(self, causal)

    def is_causal(self) -> bool:
        """Does no output depend on a later token? Followed through the whole program."""
        token, sees = ffi.new("hga_id *"), ffi.new("hga_id *")
        check(lib.hga_program_influence(self._program, self.graph._g, token, sees))
        return int(token[0]) < 0

    def check(self) -> Dict[str, bool]:
        """The rules of graphs, by name, which all hold of a graph that is read or built; and ``causal``: no query token's
        output depends on a later token (``is_causal``). Cross-attention has no later tokens, and no ``causal``."""
        return looking.rules(self)

    def inspect(self) -> Dict[str, Any]:
        """Nodes, levels, edges and coverage in numbers."""
        return {
            "nodes": self.graph.n_nodes,
            "levels": self.graph.level_sizes,
            "edges": {name: self.graph.n_edges(name) for name in self.graph.relations},
            "coverage": self.coverage()._asdict(),
            "bytes": int(lib.hga_graph_bytes(self.graph._g)),
        }

    def row(self, token: int) -> List[Row]:
        """Everything that a query token attends to, directly and through the nodes whose states reach it."""
        return looking.row(self, token)

    @answered
    @takes_tables()
    def weights(self, q: Any, k: Any, token: int, head: int = 0, *, layout: str = "bhnd", normaliser: Optional[str] = None,
                normalizer: Optional[str] = None, **tables: Unpack[CallTables]) -> np.ndarray:  # fmt: skip
        """[key tokens] float64: how much of each key token's value is in query ``token``'s output under a head, a node's
        share evenly among the tokens it stands for. Tables and normaliser as for ``attention``. q, k: one sample, [heads, rows, dim]."""
        check_names(Hierarchy.weights, tables)
        token, head = whole(token, "token"), whole(head, "head")
        h = normalised(self, spelt(normaliser, normalizer))
        return Weighed(h, array_of(q, "query"), array_of(k, "key"), layout, tables).shares(token, head)

    def patches(self) -> List[Dict[str, int]]:
        """The attention pattern as rectangles of query and key tokens."""
        return looking.patches(self)

    @answered
    def explain(self, heads: int = 8, dim: int = 64, threads: int = 0, *, gradient: bool = False) -> str:
        """The plan for a shape in words: which kernel each stage gets, threads, workspace; gradient: also how gradients run,
        and why no other."""
        return looking.explained(self, heads, dim, threads, gradient)

    @answered
    def plan(self, heads: int = 8, dim: int = 64, threads: int = 0) -> Dict[str, float]:
        """What an execution costs: useful FLOPs, attended edges, bytes that must move, workspace."""
        return looking.costs(self, heads, dim, threads)

    def write(self, path: str) -> None:
        """A file by the end of its name: .json, the graph and its program, which ``hga.read`` and the tool's graph=FILE
        read; .svg, the attention pattern as a picture; .html, the page of ``view``. ``h.graph.write`` has edges for others."""
        name = path_of(path)
        if name.endswith(".json"):
            check(lib.hga_program_write_file(self._program, self.graph._g, encoded_path(name)))
        elif name.endswith(".svg"):
            with open(name, "w", encoding="utf-8") as file:
                file.write(self._repr_svg_())
        elif name.endswith(".html"):
            self.view(name)
        else:
            raise refuse(f"{name}: the name must end in .json, .svg or .html; h.graph.write writes edges for other programs")

    _repr_svg_ = looking.svg

    @answered
    @takes_tables()
    def view(self, path: Any = None, max_edges: int = 200000, q: Any = None, k: Any = None, *, head: Optional[int] = None,
             words: Optional[Sequence[str]] = None, layout: str = "bhnd", normaliser: Optional[str] = None, normalizer: Optional[str] = None,
             **tables: Unpack[CallTables]) -> Page:  # fmt: skip
        """The interactive page of the tool's ``hga view``, written to ``path`` where one is given: one file, no network. It is a
        str that notebooks show. Relations with more than max_edges explicit edges are shown without these. words: names of the
        tokens. q, k: one sample, [heads, rows, dim]: what each edge weighs, of all heads or of one; tables and normaliser as for
        ``attention``."""
        check_names(Hierarchy.view, tables)
        if (q is None) != (k is None):
            raise refuse("q and k go together")
        h = normalised(self, spelt(normaliser, normalizer))
        if q is None and (h is not self or any(x is not None for x in tables.values())):
            raise refuse("tables and normalisers are of weights: give q and k")
        text = looking.view(self, max_edges, words, None if q is None else Weighed(h, array_of(q, "query"), array_of(k, "key"), layout, tables), head)
        if path is not None:
            text.write(path)
        return text

    def _repr_html_(self) -> str:
        """In a notebook: the viewer in a frame; of large graphs the picture alone."""
        return self._repr_svg_() if self.graph.n_nodes > 100000 else self.view(max_edges=20000)._repr_html_()

    # ---- as a value ----

    def __eq__(self, other: Any) -> Any:
        """Equal graphs and equal programs, and so equal results. The first time this reads everything the graph stores
        (blocks, explicit edges, names), afterwards 32 bytes; so does ``hash``."""
        return identity(self) == identity(other) if isinstance(other, Hierarchy) else NotImplemented

    def __hash__(self) -> int:
        return hash(identity(self))

    def __copy__(self) -> "Hierarchy":
        return copied(self)

    def __deepcopy__(self, memo: Any) -> "Hierarchy":
        return self.__copy__()

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduced(self, Hierarchy)

    def __repr__(self) -> str:
        return f"<hga.Hierarchy {self.words or 'of a graph'}: {self.graph!r}>"


class OrderedHierarchy(InOrder, Hierarchy):
    """A hierarchy whose attention runs in an order; its inputs and outputs have the caller's rows."""


class FoldedHierarchy(ByHead, Hierarchy):
    """Key/value heads that differ in structure, as by a tree for each: the graph's rows are those of all heads, and tensors are
    read where they lie. A Treeformer's trees may be more than the key has heads: a head is then copied for each that reads it; what
    heads choose reads a key head that several share where it lies (key_heads)."""

    def __init__(self, graph: Graph, program: Any, words: str, heads: int, by_token: bool = True) -> None:
        super().__init__(graph, program, words)
        self.n_graphs, self.n_key_graphs, self.by_token = heads, heads, by_token

    @staticmethod
    def of(h: Hierarchy, heads: int, key_heads: Optional[int] = None) -> "FoldedHierarchy":
        if type(h) is not Hierarchy:
            raise refuse(f"{h!r} does not have a disjoint graph for each head")
        for which in IO:
            if h._rows(which) % (heads if key_heads is None or which in ("query", "out") else key_heads):
                raise refuse(f"{h._rows(which)} rows of {which} do not divide into graphs for {heads} heads")
        made = settle(FoldedHierarchy(h.graph, h._program, h.words, heads, by_token=False), h)
        made.n_key_graphs, made._functions = key_heads or heads, h._functions
        return made

    def __reduce__(self) -> Tuple[Any, ...]:
        if self._recipe is not None:
            return super().__reduce__()
        return FoldedHierarchy.of, (settle(Hierarchy(self.graph, self._program, self.words), self), self.n_graphs, self.n_key_graphs)
