"""A hierarchy ready to attend: a graph, its program, and plans for the shapes that came by."""

from __future__ import annotations

import math
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union, cast, overload

import numpy as np

from .._core.arguments import BEYOND, answered, flag, listed, meant, threads as whole_threads, whole
from .._core.call import LAYOUTS, Problem
from .._core.copies import copied, identity, reduced, settle
from .._core.values import BF16, as_numpy, check, encoded_path, extern, ffi, is_torch, lib, number, path_of, record_raised, refuse, take_text, unrepeated, widened
from .decoder import TYPES, Decoder, one_of
from .._core.deferred import begin_names, compiling, new_name
from .graph import Graph
from .looking import Page, Weighed, view
from .._core.normalisers import normalised, spelt
from .._core.plans import LEFT, USES, Plan, Taken, Tape, alive_tape, leave, plan_of, tape_bytes
from .._core.precision import AUTO, RowType, is_bf16, resolved
from .._core.renamed import Former
from .._core.prepared import Prepared, address
from .._core.rows import lifted, lowered
from .._core.tables import (
    ALWAYS_THERE, INPUTS, ROWS, WITHOUT_EDGES, Tables, as_returned, check_names, features_of, gradients_of, in_memory, of_callers, parted,
    takes_tables, traits,
)  # fmt: skip
from .._core.threads import Threaded

if TYPE_CHECKING:
    import torch
    from typing_extensions import Literal, Unpack

    from .._core.keywords import CallTables, DecoderTables

    Array = TypeVar("Array", torch.Tensor, np.ndarray)  # in this order numpy is known where torch is not installed

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


T = TypeVar("T")
PLANS_CACHED = 8  # of a hierarchy: those that were used last
CALLS_CACHED = 64  # of a hierarchy: kinds of calls of these plans
_FLOAT32 = np.dtype(np.float32)

KNOWN: "weakref.WeakValueDictionary[str, Hierarchy]" = weakref.WeakValueDictionary()


OF_TORCH: List[Callable[..., Any]] = []  # attention of tensors, once hga.torch is there: to import it at each call takes a while


def _of_torch() -> Callable[..., Any]:
    from .. import torch as binding

    return binding._of_tensors


def _begin_child() -> None:
    """After a fork: locks that other threads of the parent may have held are free."""
    begin_names()
    known: List[Any] = [*KNOWN.values(), *LEFT]
    for one in known:
        one._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def _as_callers(x: np.ndarray, like: Any) -> np.ndarray:
    """bfloat16 in the caller's own type for it."""
    return x.view(like.dtype) if x.dtype == BF16 and isinstance(like, np.ndarray) else x


def _with_features(d_out: Any, d_edge_out: Any, out: np.ndarray, features: int) -> Any:
    """The output's gradient and, behind its columns, that of what edges' features come to."""
    if not features:
        if d_edge_out is not None:
            raise refuse("d_edge_out is given, but no edge_value")
        return d_out
    grads = [None if x is None else as_numpy(x, name) for x, name in ((d_out, "d_out"), (d_edge_out, "d_edge_out"))]
    for x, like, name in zip(grads, parted(out, features), ("d_out", "d_edge_out")):
        if x is not None and x.shape != like.shape:
            raise refuse(f"{name} has shape {x.shape}, not {like.shape}")
    columns = [np.zeros_like(like) if x is None else x for x, like in zip(grads, parted(out, features))]
    return None if grads[0] is grads[1] is None else np.concatenate(columns, -1)


def _array(x: Any, what: str) -> np.ndarray:
    """as_numpy without repeated heads or rows, soon of float32 that need not be looked at."""
    if type(x) is np.ndarray and x.dtype is _FLOAT32 and x.flags.aligned:
        return unrepeated(x) if 0 in x.strides else x
    return unrepeated(as_numpy(x, what))


def draws(seed: Any, layer: Any) -> Tuple[int, int]:
    """What dropout is drawn by, as the library takes it."""
    if type(seed) is not int or not 0 <= seed < 2**64:
        seed = whole(seed, "seed", beyond=2**64)
    if type(layer) is not int or not 0 <= layer < 2**24:
        layer = whole(layer, "layer", beyond=2**24)
    return seed, layer


# How a call runs: layout, dropout, seed, layer, precision, threads and isa.
How = Tuple[str, float, int, int, str, int, Optional[str]]
LEFT_OUT: How = ("bhnd", 0.0, 0, 0, AUTO, 0, None)


def how_of(*values: Any) -> How:
    """What is None is left out."""
    for x in values[:-1]:
        if x is None:
            return cast(How, tuple(default if x is None else x for x, default in zip(values, LEFT_OUT)))
    return cast(How, values)


class Row(NamedTuple):
    """One source that a query token attends to."""

    stage: int
    destination: int
    source: int
    level: int
    source_level: int
    type: int
    key_first: int
    key_last: int


class Coverage(NamedTuple):
    """How many (query, key) pairs the attention covers never, once, more often; and pairs that see later tokens."""

    pairs: int
    none: int
    once: int
    more: int
    none_diagonal: int
    later: int


class Hierarchy(Threaded):
    """A graph and the program that attends over it. Made by the functions named after the variants (``hga.bpt``, ..), by
    ``hga.read`` or from a ``Graph`` and a ``Program``. Any number of threads may call at once."""

    _in_order: Optional["Hierarchy"] = None  # the one that runs in this one's place, its rows in another order
    _leaves_plans = False  # to others, when it goes
    _choosing: Any = None  # hga_selection and prefill, of a decoder whose tokens choose
    _first_head = 0  # of all heads, where a call is of some: dropout draws by it
    n_graphs, n_key_graphs = 1, 1  # disjoint graphs of equal shape, one for each key/value head
    by_token = True  # a token's rows of all graphs are contiguous; False: a graph's rows are
    parts, key_parts = Former(), Former()

    def __init__(self, graph: Graph, program: Any, words: str = "") -> None:
        self.graph = graph
        self._program = program
        self.words = words
        self._own: Dict[str, Any] = {}  # tables that every call has: a variant's, or a normaliser's bias
        self._node_of: Optional[np.ndarray] = None  # the graph's id of each of the caller's nodes
        self._normalised: Dict[str, "Hierarchy"] = {}  # the same with other normalisers, by their words
        self._plans: Dict[Tuple[Any, ...], Plan] = {}
        self._calls: Dict[Tuple[Any, ...], Prepared] = {}
        self._of_jax: Dict[Any, Any] = {}  # kinds of calls, and the hierarchy as text, that hga.jax has met
        self._before: Tuple[Any, ...] = ()  # whose plans it takes over
        self._latest: Optional["weakref.ref[Hierarchy]"] = None  # what its last update gave
        self._lock = threading.Lock()
        self._strict = False  # options.strict_rows
        self._functions: List[Any] = []  # of stages written in Python
        self._recipe: Optional[Tuple[Any, ...]] = None  # how to make it again: a function's name and its arguments
        self._name = new_name()
        KNOWN[self._name] = self

    def __del__(self) -> None:
        if self._leaves_plans:
            leave(self)

    def _bound(self) -> None:
        with self._lock:
            for plan in list(self._plans.values()):
                self._forget(plan)
        for other in self._others():
            other.bind = self._bind

    def _others(self) -> List["Hierarchy"]:
        """Those that run in this one's place."""
        return list(self._normalised.values())

    def _threads_for(self, threads: int) -> int:
        """One where functions written in Python run, which take turns anyway."""
        n = threads if type(threads) is int and 0 <= threads < BEYOND else whole_threads(threads)
        return 1 if self._functions else n or self._threads

    def additive_scores(self, negative_slope: float = 0.2) -> "Hierarchy":
        """The same hierarchy with the additive scores of GAT and GATv2: additive . LeakyReLU(q + k) instead of q . k, where
        ``attention`` takes additive [heads][dim] (default: ones). Their scale is 1 unless one is given."""
        if compiling():
            from ..torch._compiled import known

            return cast(Hierarchy, known(self).additive_scores(negative_slope))
        program = ffi.new("hga_program *", self._program[0])
        program.scores, program.negative_slope = lib.HGA_SCORES_ADDITIVE, number(negative_slope, "negative_slope")
        if not math.isfinite(program.negative_slope):
            raise refuse(f"negative_slope is {negative_slope!r}, no finite number of float32")
        h = copied(self)
        h._program, h._recipe = program, None
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
        from .folded import FoldedHierarchy

        return FoldedHierarchy.of(self, whole(heads, "heads", least=1))

    def _reads_heads(self, k: Any, layout: str) -> bool:
        """Are keys and values read where they lie, by this class's own call?"""
        return type(self) is Hierarchy

    def order(self, how: str) -> "Hierarchy":
        """The same hierarchy, run in an order of its nodes in which neighbours are near each other: "rcm" (reverse
        Cuthill-McKee, for meshes), "metis" (parts with few edges between them) or "degree" (hubs first). Tensors keep your
        numbers: hga moves their rows to the order, and results back. Results differ in the last bits only, and in dropout,
        which draws by position. ``gain`` says what the order gains, ``permutation`` which node is at each position."""
        from .orders import OrderedHierarchy

        return OrderedHierarchy(self, how)

    # ---- attention ----

    def _rows(self, which: str) -> int:
        """Rows that the tensor of ``which`` has; -1 where the program has no such tensor."""
        binding = {"query": lib.HGA_IO_QUERY, "key": lib.HGA_IO_KEY, "value": lib.HGA_IO_VALUE, "out": lib.HGA_IO_OUT}
        for f in range(1, self._program.n_fields + 1):
            field = self._program.field[f]
            if field.binding == binding[which]:
                return self._rows_of(field.io)
        return -1

    def _rows_of(self, rows: int) -> int:
        nodes = lib.hga_graph_nodes(self.graph._g)
        if rows == lib.HGA_ROWS_QUERIES:
            return int(nodes.n_queries)
        if rows == lib.HGA_ROWS_KEYS:
            return int(nodes.n_keys)
        return int(nodes.n)

    def _plan(self, key: Tuple[Any, ...]) -> Plan:
        with self._lock:
            if key in self._plans:
                self._plans[key].used = next(USES)
                return self._plans[key]
        plan = self._taken(key) or Plan(self, key)
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > PLANS_CACHED:
                self._forget(min(self._plans.values(), key=lambda plan: plan.used))
        return plan

    def _look(self, key: Tuple[Any, ...], look: Callable[[Any], T]) -> T:
        """What one finds out of a plan of the library's."""
        while True:
            try:
                with self._plan(key).held() as plan:
                    return look(plan)
            except Taken:
                continue

    def update(self, edges: Any, n_nodes: Optional[int] = None, *, repeated: Optional[str] = None) -> "Hierarchy":
        """The same hierarchy over other edges: a Graph with relations of the same names, or an edge_index [2][edges], as
        ``Graph.from_edge_index`` takes it, of as many nodes as before or of n_nodes. The result takes over the plans that
        no call and no backward pass needs, with their memory, and computes only what depends on the edges. This hierarchy
        does not change, and neither do its tapes: a backward pass uses the edges of its forward pass."""
        if compiling():
            from ..torch._compiled import known

            return cast(Hierarchy, known(self).update(edges, n_nodes, repeated=repeated))
        if type(self)._rows is not Hierarchy._rows or self._in_order is not None or self._node_of is not None:
            raise refuse(f"{self!r} numbers its nodes by its own graph: make it anew")
        n_nodes = self.graph.n_nodes if n_nodes is None else n_nodes
        graph = edges if isinstance(edges, Graph) else Graph.from_edge_index(edges, n_nodes, repeated=repeated)
        if graph.relations != self.graph.relations:
            raise refuse(f"the graph has relations {', '.join(graph.relations)}, the hierarchy's {', '.join(self.graph.relations)}")
        new = copied(self)
        new.graph, new._recipe = graph, None
        new._follows(self, self._latest() if self._latest is not None else None)
        self._latest = weakref.ref(new)
        return new

    def _follows(self, *others: Any) -> "Hierarchy":
        """Plans of the others, which run the same program, are to be taken over, first to last."""
        for h in others:
            if h is not None:  # one that has no plans yet passes on those that it would have had
                self._before += (h,) if h._plans or h._normalised else h._before
                h._before = ()
                for words, normal in h._normalised.items():
                    normalised(self, words)._follows(normal)
        return self

    def _runs_like(self, h: Any) -> bool:
        """Does a plan of h's say what one of this hierarchy's would, but for the graph?"""
        said = [(x._strict, x._bind, x.n_graphs, ffi.buffer(x._program)[:]) for x in (self, h)]
        return said[0] == said[1]

    def _taken(self, key: Tuple[Any, ...]) -> Optional[Plan]:
        for h in self._before:
            with h._lock:
                plan = h._plans.get(key) if self._runs_like(h) else None
                if plan is not None:
                    h._forget(plan)
            if plan is None:
                continue
            taken: Optional[Plan] = plan.taken_by(self)
            if taken is not None:
                self._before = (h,) if h._plans else ()
                return taken
            with h._lock:
                h._plans.setdefault(key, plan)
        return None

    def _forget(self, plan: Plan) -> None:
        """Let a plan go, and the calls that it serves."""
        del self._plans[plan.key]
        for key in [key for key, call in self._calls.items() if call.plan is plan]:
            del self._calls[key]

    def _prepare(self, key: Tuple[Any, ...], plan: Plan, p: Problem, d_out: Optional[np.dtype] = None) -> Prepared:
        """Cache what was checked of a call for the next one of its kind."""
        call = Prepared(plan, p, d_out)
        with self._lock:
            if self._plans.get(plan.key) is plan:
                while len(self._calls) >= CALLS_CACHED:
                    del self._calls[next(iter(self._calls))]
                self._calls[key] = call
        return call

    def _call(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, by_name: Mapping[str, Any], tables: Optional[Tables], how: How, grad: bool
    ) -> Prepared:
        """The call of arrays like these. Of tables their shapes are looked at."""
        layout, dropout, _, _, precision, threads, isa = how
        if type(dropout) is not float:
            dropout = number(dropout, "dropout")
        threads = self._threads_for(threads)
        key = (
            layout, dropout, precision, threads, isa, grad, tables.key if tables else tuple(by_name.items()), q.shape, q.strides,
            q.dtype, k.shape, k.strides, k.dtype, v.shape, v.strides, v.dtype,
        )  # fmt: skip
        try:
            call = self._calls[key]
        except (KeyError, TypeError):
            p = Problem(self, q, k, v, layout, tables or Tables(self, by_name))
            return self._prepare(key, self._plan(p.plan_key(threads, precision, isa, dropout, grad)), p)
        call.plan.used = next(USES)
        return call

    def _call_back(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, layout: str, by_name: Mapping[str, Any], tables: Optional[Tables], plan: Plan,
        d_out: np.dtype,
    ) -> Prepared:  # fmt: skip
        """The backward call of the plan that ran forward."""
        key = (
            layout, plan.number, tables.key if tables else tuple(by_name.items()), q.shape, q.strides, q.dtype, k.shape, k.strides,
            k.dtype, v.shape, v.strides, v.dtype, d_out,
        )  # fmt: skip
        call = self._calls.get(key)
        if call is None:
            return self._prepare(key, plan, Problem(self, q, k, v, layout, tables or Tables(self, by_name)), d_out)
        plan.used = next(USES)
        return call

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
            return (OF_TORCH[0] if OF_TORCH else _of_torch())(self, q, k, v, tables, how, lse, words)
        h = self if words is None else normalised(self, words)
        out, lses, _ = h._forward(q, k, v, tables, how, lse, False)
        if out.dtype is not _FLOAT32:
            out = _as_callers(out, q)
        return as_returned(out, lses, lse, features_of(tables))

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
        out, lse, tape = h._forward(q, k, v, tables, how, d_lse is not None, True)
        d_out = _with_features(d_out, d_edge_out, out, features_of(tables))
        upstream = []
        for x, what, like in ((d_out, "d_out", out), (d_lse, "d_lse", lse)):
            x = as_numpy(x, what) if x is not None and like is not None else None
            x = widened(x) if x is not None and like is lse else x
            if x is not None and like is not None and x.shape != like.shape:
                raise refuse(f"{what} has shape {x.shape}, not {like.shape}")
            upstream.append(None if x is None else np.ascontiguousarray(x))
        if upstream[0] is None or tape is None:
            raise refuse("d_out is missing")
        grads = h._backward(q, k, v, out, tape, upstream[0], upstream[1], tables, how, list(requested))
        for name, x in (("query", q), ("key", k), ("value", v)):
            if name in grads:
                grads[name] = _as_callers(grads[name], x)
        return grads

    def _forward(
        self, q: Any, k: Any, v: Any, tables: Mapping[str, Any], how: How, lse: bool, grad: bool
    ) -> Tuple[np.ndarray, Optional[np.ndarray], Optional[np.ndarray]]:  # fmt: skip
        q, k, v, described = _array(q, "query"), _array(k, "key"), _array(v, "value"), in_memory(self, tables)
        _, _, seed, layer, _, _, _ = how
        seed, layer = draws(seed, layer)
        while True:
            call = self._call(q, k, v, tables, described, how, grad)
            out, tape = call.new_out(), alive_tape(self, call.plan, call.new_tape()) if grad else None
            lses = np.empty(call.shape[:-1], np.float32) if lse else None
            try:
                if call.samples:
                    call.execute(address(q), address(k), address(v), address(out), address(lses), address(tape), described, seed, layer)
                return out, lses, tape
            except Taken:
                continue

    def _backward(
        self, q: Any, k: Any, v: Any, out: np.ndarray, tape: Optional[np.ndarray], d_out: np.ndarray, d_lse: Optional[np.ndarray],
        tables: Mapping[str, Any], how: How, requested: Sequence[str],
    ) -> Dict[str, np.ndarray]:  # fmt: skip
        """The requested gradients among query, key, value and the tables, over all samples. A program that has no use
        for one leaves its zeros. out, d_out and d_lse are packed."""
        q, k, v, described = _array(q, "query"), _array(k, "key"), _array(v, "value"), in_memory(self, tables)
        plan = plan_of(tape)
        if plan is None and out.size:  # no tape, or one whose plan is gone or another graph's: the forward pass leaves another
            _, _, tape = Hierarchy._forward(self, q, k, v, tables, how, False, True)
            plan = plan_of(tape)
        if isinstance(tape, Tape):
            tape.waits = None
        inputs = dict(zip(INPUTS, (q, k, v)))
        of = {**inputs, **(described.arrays if described is not None else {})}
        like = [of[name] if name in of else self._no_array(name) for name in requested]
        if plan is None:  # no samples
            return {name: np.zeros(x.shape, x.dtype) for name, x in zip(requested, like)}
        layout, _, seed, layer, _, _, _ = how
        call = self._call_back(q, k, v, layout, tables, described, plan, d_out.dtype)
        grads = {name: plan.spares.empty(x.shape, x.dtype) for name, x in zip(requested, like)}
        d_tables = {name: x for name, x in grads.items() if name not in inputs}
        d_q, d_k, d_v = (address(grads.get(name)) for name in inputs)
        assert tape is not None
        out, tape, d_out = np.ascontiguousarray(out), np.ascontiguousarray(tape), np.ascontiguousarray(d_out)
        d_lse = None if d_lse is None else np.ascontiguousarray(d_lse)
        seed, layer = draws(seed, layer)
        try:
            call.gradient(
                address(q), address(k), address(v), address(out), address(tape), address(d_out), address(d_lse), d_q, d_k, d_v, described,
                d_tables, seed, layer,
            )  # fmt: skip
        except Taken:
            return Hierarchy._backward(self, q, k, v, out, None, d_out, d_lse, tables, how, requested)
        return of_callers(self, grads)

    def _no_array(self, name: str) -> np.ndarray:
        """The shape of a gradient of what no array is given for: a number, or a row of every node."""
        return np.empty(() if ROWS[name].is_number else self.graph.n_nodes, np.float32)

    def _tape_bytes(self, q: Any, k: Any, v: Any, tables: Mapping[str, Any], how: How) -> int:
        """Bytes of the tape of one sample, from shapes alone."""
        layout, dropout, _, _, precision, threads, isa = how
        heads_axis = LAYOUTS[layout][0] if len(q.shape) > 2 else None
        heads, kv_heads = (max(1, int(x.shape[heads_axis]) // self.n_graphs) if heads_axis is not None else 1 for x in (q, k))
        shape = (heads, kv_heads, int(q.shape[-1]), int(v.shape[-1]), traits(tables))
        precision = resolved(precision, self, is_bf16(q, k, v), isa, True)
        return self._look((*shape, self._threads_for(threads), precision, isa, float(dropout), 1), tape_bytes)

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
        declared = None if row_type is None else ("f32", "bf16")[one_of(row_type, "row_type", TYPES) == lib.HGA_BF16]
        rows = RowType(precision, h, declared, isa, flag(same, "same"))
        return Decoder(h, heads, dim, kv_heads, dim_v, same, rollback, page_type, page_rows, max_bytes, rows, threads, isa,
                       tables)  # fmt: skip

    # ---- rows that are nodes ----

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
        from .._flex.masks import block_mask_of

        return block_mask_of(self, BLOCK_SIZE)

    @answered
    def coverage(self, causal: bool = False) -> Coverage:
        """Exact counts of token pairs, for any graph."""
        c = ffi.new("hga_coverage *")
        check(lib.hga_program_coverage(self._program, self.graph._g, int(flag(causal, "causal")), c))
        return Coverage(c.pairs, c.none, c.once, c.more, c.none_diagonal, c.later)

    def is_causal(self) -> bool:
        """Does no output depend on a later token? Followed through the whole program."""
        token, sees = ffi.new("hga_id *"), ffi.new("hga_id *")
        check(lib.hga_program_influence(self._program, self.graph._g, token, sees))
        return int(token[0]) < 0

    def check(self) -> Dict[str, bool]:
        """The rules of graphs, by name, which all hold of a graph that is read or built; and ``causal``: no query token's
        output depends on a later token (``is_causal``). Cross-attention has no later tokens, and no ``causal``."""
        rules, result = lib.hga_graph_rules(), {}
        i = 0
        while rules[i].name != ffi.NULL:
            result[ffi.string(rules[i].name).decode()] = rules[i].check(self.graph._g) == lib.HGA_OK
            i += 1
        nodes = lib.hga_graph_nodes(self.graph._g)
        if nodes.query_first == nodes.key_first:
            result["causal"] = self.is_causal()
        return result

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
        token = whole(token, "token")
        found: List[Row] = []
        handle = ffi.new_handle(found)
        check(lib.hga_program_row(self._program, self.graph._g, token, lib.hga_py_seen, handle))
        return found

    @answered
    @takes_tables()
    def weights(self, q: Any, k: Any, token: int, head: int = 0, *, layout: str = "bhnd", normaliser: Optional[str] = None,
                normalizer: Optional[str] = None, **tables: Unpack[CallTables]) -> np.ndarray:  # fmt: skip
        """[key tokens] float64: how much of each key token's value is in query ``token``'s output under a head, a node's
        share evenly among the tokens it stands for. Tables and normaliser as for ``attention``. q, k: one sample, [heads, rows, dim]."""
        check_names(Hierarchy.weights, tables)
        token, head = whole(token, "token"), whole(head, "head")
        h = normalised(self, spelt(normaliser, normalizer))
        return Weighed(h, _array(q, "query"), _array(k, "key"), layout, tables).shares(token, head)

    def patches(self) -> List[Dict[str, int]]:
        """The attention pattern as rectangles of query and key tokens."""
        found: List[Dict[str, int]] = []
        handle = ffi.new_handle(found)
        check(lib.hga_program_pattern(self._program, self.graph._g, lib.hga_py_patch, handle))
        return found

    @answered
    def explain(self, heads: int = 8, dim: int = 64, threads: int = 0, *, gradient: bool = False) -> str:
        """The plan for a shape in words: which kernel each stage gets, threads, workspace; gradient: also how gradients run,
        and why no other."""
        text = ffi.new("char **")
        self._look((*self._shape_of(heads, dim, threads)[:-1], int(flag(gradient, "gradient"))),
                   lambda plan: check(lib.hga_plan_explain(plan, ffi.NULL, text)))  # fmt: skip
        return take_text(text[0])

    def _shape_of(self, heads: int, dim: int, threads: int) -> Tuple[Any, ...]:
        """The key of a plan of nothing special."""
        heads, dim = whole(heads, "heads", least=1), whole(dim, "dim", least=1)
        return (heads, heads, dim, dim, (0, 0), self._threads_for(threads), "f32", None, 0.0, 0)

    @answered
    def plan(self, heads: int = 8, dim: int = 64, threads: int = 0) -> Dict[str, float]:
        """What an execution costs: useful FLOPs, attended edges, bytes that must move, workspace."""
        def look(plan: Any) -> Dict[str, float]:
            cost = lib.hga_plan_cost(plan)
            return {
                "flops": cost.flops,
                "edges": cost.edges,
                "bytes_min": cost.bytes_min,
                "workspace_bytes": lib.hga_plan_workspace_bytes(plan),
                "threads": lib.hga_plan_threads(plan),
            }

        return self._look(self._shape_of(heads, dim, threads), look)

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
            raise refuse(f"{name}: the name ends in none of .json, .svg, .html; h.graph.write writes edges for other programs")

    def _repr_svg_(self) -> str:
        from .picture import svg

        return svg(self)

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
        text = view(self, max_edges, words, None if q is None else Weighed(h, _array(q, "query"), _array(k, "key"), layout, tables), head)
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
        return copied(self)

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduced(self)

    def __repr__(self) -> str:
        return f"<hga.Hierarchy {self.words or 'of a graph'}: {self.graph!r}>"


@extern(error=lib.HGA_EINVAL, onerror=record_raised)
def hga_py_seen(seen: Any, context: Any) -> int:
    s = seen
    ffi.from_handle(context).append(
        Row(s.stage, s.destination, s.source, s.level, s.source_level, s.type, s.key_first, s.key_last)
    )
    return int(lib.HGA_OK)


@extern(error=lib.HGA_EINVAL, onerror=record_raised)
def hga_py_patch(patch: Any, context: Any) -> int:
    names = ("query", "n_queries", "key", "n_keys", "level", "source_level", "stage", "times")
    ffi.from_handle(context).append({name: int(getattr(patch, name)) for name in names})
    return int(lib.HGA_OK)
