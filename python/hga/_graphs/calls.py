"""Calls of arrays: plans for the shapes that came by, what was checked of a call for the next of its kind, and what a hierarchy
takes over of those before it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, cast

import numpy as np

from .._core.arguments import BEYOND, Threaded, number, threads as whole_threads, whole
from .._core.call import IO, LAYOUTS, Prepared, Problem, address
from .._core.deferred import begin_names, new_name
from .._core.normalisers import normalised
from .._core.plans import LEFT, USES, Plan, Taken, Tape, alive_tape, leave, plan_of, tape_bytes
from .._core.precision import AUTO, is_bf16, resolved
from .._core.tables import INPUTS, ROWS, Tables, features_of, in_memory, of_callers, parted, traits
from .._core.arrays import BF16, FLOAT32, as_numpy, narrowed, unrepeated, widened
from .._core.library import ffi, lib, refuse

if TYPE_CHECKING:
    from .graph import Graph
    from .hierarchy import Hierarchy

T = TypeVar("T")
C = TypeVar("C", bound="Calls")
PLANS_CACHED = 8  # of a hierarchy: those that were used last
CALLS_CACHED = 64  # of a hierarchy: kinds of calls of these plans

KNOWN: "weakref.WeakValueDictionary[str, Hierarchy]" = weakref.WeakValueDictionary()


def _begin_child() -> None:
    """After a fork: locks that other threads of the parent may have held are free."""
    begin_names()
    known: List[Any] = [*KNOWN.values(), *LEFT]
    for one in known:
        one._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def array_of(x: Any, what: str) -> np.ndarray:
    """as_numpy without repeated heads or rows, soon of float32 that need not be looked at."""
    if type(x) is np.ndarray and x.dtype is FLOAT32 and x.flags.aligned:
        return unrepeated(x) if 0 in x.strides else x
    return unrepeated(as_numpy(x, what))


def draws(seed: Any, layer: Any) -> Tuple[int, int]:
    """What dropout is drawn by, as the library takes it."""
    if type(seed) is not int or not 0 <= seed < 2**64:
        seed = whole(seed, "seed", beyond=2**64)
    if type(layer) is not int or not 0 <= layer < 2**24:
        layer = whole(layer, "layer", beyond=2**24)
    return seed, layer


def as_callers(x: np.ndarray, like: Any) -> np.ndarray:
    """bfloat16 in the caller's own type for it."""
    return x.view(like.dtype) if x.dtype == BF16 and isinstance(like, np.ndarray) else x


def _with_features(d_out: Any, d_edge_out: Any, out: np.ndarray, features: int) -> Any:
    """The output's gradient and, behind its columns, that of what edges' features come to."""
    if not features:
        if d_edge_out is not None:
            raise refuse("d_edge_out is given, but no edge_value")
        return d_out
    own, edges = parted(out, features)
    grads = _packed(d_out, "d_out", own), _packed(d_edge_out, "d_edge_out", edges)
    columns = [np.zeros_like(like) if x is None else x for x, like in zip(grads, (own, edges))]
    return None if grads[0] is grads[1] is None else np.concatenate(columns, -1)


def _packed(x: Any, what: str, like: Optional[np.ndarray]) -> Optional[np.ndarray]:
    """The gradient of a result."""
    if x is None or like is None:
        return None
    x = as_numpy(x, what)
    if x.shape != like.shape:
        raise refuse(f"{what} has shape {x.shape}, not {like.shape}")
    return np.ascontiguousarray(x)


# How a call runs: layout, dropout, seed, layer, precision, threads and isa.
How = Tuple[str, float, int, int, str, int, Optional[str]]
LEFT_OUT: How = ("bhnd", 0.0, 0, 0, AUTO, 0, None)


def how_of(*values: Any) -> How:
    """What is None is left out."""
    for x in values[:-1]:
        if x is None:
            return cast(How, tuple(default if x is None else x for x, default in zip(values, LEFT_OUT)))
    return cast(How, values)


class Calls(Threaded):
    """What ``Hierarchy`` is to arrays."""

    _in_order: Any = None  # the one that runs in this one's place, its rows in another order
    _leaves_plans = False  # to others, when it goes
    _choosing: Any = None  # hga_selection and prefill, of a decoder whose tokens choose
    _first_head = 0  # of all heads, where a call is of some: dropout draws by it
    n_graphs, n_key_graphs = 1, 1  # disjoint graphs of equal shape, one for each key/value head
    by_token = True  # a token's rows of all graphs are contiguous; False: a graph's rows are

    def __init__(self, graph: "Graph", program: Any, words: str = "") -> None:
        self.graph = graph
        self._program = program
        self.words = words
        self._own: Dict[str, Any] = {}  # tables that every call has: a variant's, or a normaliser's bias
        self._node_of: Optional[np.ndarray] = None  # the graph's id of each of the caller's nodes
        self._strict = False  # options.strict_rows
        self._functions: List[Any] = []  # of stages written in Python
        self._recipe: Optional[Tuple[Any, ...]] = None  # how to make it again: a function and its arguments
        self._begin()

    def _begin(self) -> None:
        """Nothing has been called."""
        self._normalised: Dict[str, "Hierarchy"] = {}  # the same with other normalisers, by their words
        self._plans: Dict[Tuple[Any, ...], Plan] = {}
        self._calls: Dict[Tuple[Any, ...], Prepared] = {}
        self._of_jax: Dict[Any, Any] = {}  # kinds of calls, and the hierarchy as text, that hga.jax has met
        self._before: Tuple[Any, ...] = ()  # whose plans it takes over
        self._latest: Optional["weakref.ref[Any]"] = None  # what its last update gave
        self._lock = threading.Lock()
        self._name = new_name()
        KNOWN[self._name] = cast("Hierarchy", self)

    def __del__(self) -> None:
        if self._leaves_plans:
            leave(self)

    def _bound(self) -> None:
        with self._lock:
            for plan in list(self._plans.values()):
                self._forget(plan)
        for other in self._others():
            other.bind = self._bind

    def _reads_heads(self, k: Any, layout: str) -> bool:
        """Are keys and values read where they lie?"""
        return True

    def _others(self) -> List[Any]:
        """Those that run in this one's place."""
        return list(self._normalised.values())

    def _threads_for(self, threads: int) -> int:
        """One where functions written in Python run, which take turns anyway."""
        n = threads if type(threads) is int and 0 <= threads < BEYOND else whole_threads(threads)
        return 1 if self._functions else n or self._threads

    def _rows(self, which: str) -> int:
        """Rows that the tensor of ``which`` has; -1 where the program has no such tensor."""
        field = lib.hga_program_field(self._program, IO[which])
        if not field:
            return -1
        nodes = lib.hga_graph_nodes(self.graph._g)
        n = {lib.HGA_ROWS_QUERIES: nodes.n_queries, lib.HGA_ROWS_KEYS: nodes.n_keys}
        return int(n.get(self._program.field[field].io, nodes.n))

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

    def _follows(self: C, *others: Any) -> C:
        """Plans of the others, which run the same program, are to be taken over, first to last."""
        for h in others:
            if h is not None:  # one that has no plans yet passes on those that it would have had
                self._before += (h,) if h._plans or h._normalised else h._before
                h._before = ()
                for words, normal in h._normalised.items():
                    normalised(cast("Hierarchy", self), words)._follows(normal)
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

    def _known(self, key: Tuple[Any, ...]) -> Optional[Prepared]:
        """What was checked of an earlier call like it; None, too, where a key has what cannot be hashed, which is refused later."""
        try:
            return self._calls.get(key)
        except TypeError:
            return None

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
        call = self._known(key)
        if call is None:
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

    def _forward(
        self, q: Any, k: Any, v: Any, tables: Mapping[str, Any], how: How, lse: bool, grad: bool
    ) -> Tuple[np.ndarray, Optional[np.ndarray], Optional[np.ndarray]]:  # fmt: skip
        q, k, v, described = array_of(q, "query"), array_of(k, "key"), array_of(v, "value"), in_memory(self, tables)
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
        q, k, v, described = array_of(q, "query"), array_of(k, "key"), array_of(v, "value"), in_memory(self, tables)
        plan = plan_of(tape)
        if plan is None and out.size:  # no tape, or one whose plan is gone or another graph's: the forward pass leaves another
            _, _, tape = Calls._forward(self, q, k, v, tables, how, False, True)
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
            return Calls._backward(self, q, k, v, out, None, d_out, d_lse, tables, how, requested)
        return of_callers(self, grads)

    def _gradient(
        self, q: Any, k: Any, v: Any, upstream: Tuple[Any, Any, Any], tables: Mapping[str, Any], how: How, requested: Sequence[str]
    ) -> Dict[str, np.ndarray]:  # fmt: skip
        """Forward, then back from the gradients of the output, of log-sum-exps and of what edges' features come to."""
        d_out, d_lse, d_edge_out = upstream
        out, lse, tape = self._forward(q, k, v, tables, how, d_lse is not None, True)
        d_out = _with_features(d_out, d_edge_out, out, features_of(tables))
        d_out, d_lse = _packed(d_out, "d_out", out), _packed(d_lse, "d_lse", lse)
        if d_out is None or tape is None:
            raise refuse("d_out is missing")
        grads = self._backward(q, k, v, out, tape, d_out, None if d_lse is None else widened(d_lse), tables, how, requested)
        for name, x in (("query", q), ("key", k), ("value", v)):
            if name in grads:
                grads[name] = as_callers(grads[name], x)
        return grads

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


class ByHead(Calls):
    """What ``FoldedHierarchy`` does otherwise than ``Hierarchy``: key/value heads differ in structure."""

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
