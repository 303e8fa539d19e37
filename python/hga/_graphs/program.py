"""Programs: what attention does on a graph, stage by stage."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from .._core.arguments import encoded, int32, meant, whole
from .._core.copies import program_data, program_of, refuse_functions
from .._core.normalisers import normaliser_of
from .._core.library import RAISED, check, extern, ffi, lib, record_raised, refuse, refuse_type
from .builder import array_at
from .graph import Graph
from .hierarchy import Hierarchy

TREE_UP, TREE_DOWN = int(lib.HGA_TREE_UP), int(lib.HGA_TREE_DOWN)


class Program:
    """Fields (values of nodes) and stages (message passing) over a graph; ``hierarchy()`` makes it attend.

    Widths: "key" (dim, query heads), "kv_key" (dim), "value" (dim_v), "state" (dim_v and a log-sum-exp), "out", "scalar".
    Bindings: "internal", "query", "key", "value", "out". Rows: "queries", "keys", "nodes", "query_side", "key_side", "above"."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._p = ffi.new("hga_program *")
        lib.hga_program_init(self._p)
        self._functions: Dict[int, Functions] = {}  # of stages in Python

    def __copy__(self) -> "Program":
        new = Program(self.graph)
        new._p[0], new._functions = self._p[0], dict(self._functions)
        return new

    def __deepcopy__(self, memo: Any) -> "Program":
        return self.__copy__()

    def __reduce__(self) -> Tuple[Any, ...]:
        refuse_functions(self._p)
        return _made_again, (self.graph, program_data(self._p))

    @staticmethod
    def _constant(prefix: str, name: str) -> int:
        value = getattr(lib, prefix + name.upper(), None) if isinstance(name, str) else None
        if value is None:
            known = [n[len(prefix) :].lower() for n in dir(lib) if n.startswith(prefix) and n != "HGA_ROWS_ARE_NODES"]
            raise refuse(f"{name!r} is not a {prefix.lower()[4:-1]}{meant(name, known) or '; there are ' + ', '.join(known)}")
        return int(value)

    def field(self, name: str, width: str, binding: str = "internal", io: str = "nodes", rows: str = "nodes") -> int:
        """A field: its number, from 1 on."""
        out = ffi.new("hga_id *")
        bound = lib.HGA_INTERNAL if binding == "internal" else self._constant("HGA_IO_", binding)
        check(lib.hga_program_add_field(self._p, encoded(name, "field"), self._constant("HGA_WIDTH_", width), bound,
                                        self._constant("HGA_ROWS_", io), self._constant("HGA_ROWS_", rows), out))  # fmt: skip
        return int(out[0])

    def _relation(self, relation: Any) -> int:
        return self.graph._relation(relation) if isinstance(relation, str) else whole(relation, "relation", least=TREE_DOWN)

    def coarsen(self, x: int) -> None:
        """x[parent] = mean of x[child] by mass, level by level."""
        check(lib.hga_program_coarsen(self._p, int32(x, "x")))

    def attend(self, relation: Any, query: int, key: int, value: int, out: int, by_mass: bool = False, more: bool = False) -> None:
        """out = the softmax state over a relation's edges; ``more``: merged with the state that is there."""
        f = lib.hga_program_attend_more if more else lib.hga_program_attend
        fields = (int32(x, name) for name, x in (("query", query), ("key", key), ("value", value), ("out", out)))
        check(f(self._p, self._relation(relation), *fields, int(by_mass)))

    def normalise(self, normaliser: str) -> None:
        """All stages that attend make weights in this way: "softmax", "sigmoid" or "entmax:ALPHA". A sigmoid's bias belongs to
        calls: ``attention`` takes it. Only softmax has a log-sum-exp."""
        kind, alpha, bias = normaliser_of(normaliser)
        if bias:
            raise refuse(f"normaliser {normaliser!r}: a program has no bias, attention(.., normaliser=) brings it")
        check(lib.hga_program_normalise(self._p, kind, alpha))

    def spread(self, state: int, relation: Any = TREE_DOWN) -> None:
        """Merge every node's state into its children's."""
        check(lib.hga_program_spread(self._p, self._relation(relation), int32(state, "state")))

    def mean(self, relation: Any, x: int, out: int, by_mass: bool = False) -> None:
        check(lib.hga_program_mean(self._p, self._relation(relation), int32(x, "x"), int32(out, "out"), int(by_mass)))

    def weighted_sum(self, relation: Any, x: int, out: int) -> None:
        check(lib.hga_program_weighted_sum(self._p, self._relation(relation), int32(x, "x"), int32(out, "out")))

    def attention(self, relation: Any = 0) -> None:
        """A whole program, in place of what was here: fields query, key, value, out on tokens and one attend stage."""
        check(lib.hga_program_attention(self._p, self._relation(relation)))

    def has_lse(self) -> None:
        """Whether the output has a log-sum-exp."""
        self._p.has_lse = 1

    def user(
        self, name: str, relation: Any, reads: List[int], writes: List[int],
        begin: Callable[[], Any], edge: Callable[[Any, "Edge"], Any], finish: Callable[[Any, "End"], None],
    ) -> None:  # fmt: skip
        """A stage of your own in Python: ``state = begin()``, ``state = edge(state, e)`` for every in-edge,
        ``finish(state, v)``, which writes v[field]. Row by row and head by head, on one thread: slow, for trying ideas.
        What a function raises, the call raises; a hierarchy with functions of your own can be copied but not pickled."""
        for what, f in (("begin", begin), ("edge", edge), ("finish", finish)):
            if not callable(f):
                raise refuse_type(f"{what} is {f!r}, not a function")
        for n in list(reads) + list(writes):
            if not 1 <= whole(n, "field") <= self._p.n_fields:
                raise refuse(f"field {n}: fields are 1 .. {self._p.n_fields}")
        stage = ffi.new("hga_stage *")
        short = encoded(name, "stage")[:31].decode(errors="ignore").encode()
        ffi.memmove(stage.name, short + b"\0", len(short) + 1)
        stage.relation = self._relation(relation)
        stage.message, stage.reduce, stage.update = lib.HGA_MESSAGE_USER, lib.HGA_REDUCE_USER, lib.HGA_UPDATE_USER
        stage.out = writes[0] if writes else 0
        stage.reads, stage.writes = sum(1 << f for f in reads), sum(1 << f for f in writes)
        stage.udf.state_bytes = 8
        stage.udf.begin, stage.udf.edge, stage.udf.finish = lib.hga_py_begin, lib.hga_py_edge, lib.hga_py_finish
        check(lib.hga_program_add_stage(self._p, stage))
        self._functions[int(self._p.n_stages) - 1] = Functions(begin, edge, finish)

    def hierarchy(self) -> Hierarchy:
        """Ready to attend. Programs with Python functions run on one thread."""
        h = Hierarchy(self.graph, ffi.new("hga_program *", self._p[0]))
        h._functions = [functions.bound(h._program, stage) for stage, functions in self._functions.items()]
        return h


def _made_again(graph: Graph, data: Tuple[Any, ...]) -> Program:
    new = Program(graph)
    new._p = program_of(data)
    return new


class End:
    """One end of an edge: e.source[field] is that node's row of a field for this head, None where it has none. What is read
    is a copy that cannot be written; only ``finish`` writes, v[field][:] = .. of the fields in ``writes``."""

    def __init__(self, end: Any, n_fields: int, writes: int = 0) -> None:
        self._end, self._n_fields, self._writes = end, n_fields, writes
        self._written: Dict[int, np.ndarray] = {}
        self.node, self.level, self.mass = int(end.node), int(end.level), float(end.mass)

    def __getitem__(self, field: int) -> Optional[np.ndarray]:
        f = whole(field, "field", least=-(2**63), beyond=2**63)  # an IndexError for all that are no field's
        if not 1 <= f <= self._n_fields:
            raise IndexError(f"field {f}: fields are 1 .. {self._n_fields}")
        if self._end is None:
            raise refuse("this end of an edge is gone: its values are there while the function runs that it was given to")
        if f in self._written:
            return self._written[f]
        pointer = self._end.field[f]
        if pointer == ffi.NULL:
            return None
        row = array_at(pointer, int(self._end.columns[f]), np.float32)
        if self._writes >> f & 1:
            self._written[f] = row
        else:
            row.flags.writeable = False
        return row

    def _leave(self, write: bool) -> None:
        """The function has returned: what it wrote goes to the library, and nothing is read any more."""
        for f, row in self._written.items() if write else ():
            ffi.memmove(self._end.field[f], row, row.nbytes)
        self._end = None


class Edge:
    """An in-edge as a function of your own sees it: type, weight, score and its two ends."""

    def __init__(self, edge: Any, n_fields: int) -> None:
        self.type, self.weight, self.score = int(edge.type), float(edge.weight), float(edge.score)
        self.source, self.destination = End(edge.source, n_fields), End(edge.destination, n_fields)


class Functions:
    """Three functions of a stage and, of a hierarchy's, the states of the rows in progress by number."""

    n_fields, writes = 0, 0

    def __init__(self, begin: Callable[[], Any], edge: Callable[[Any, Edge], Any], finish: Callable[[Any, End], None]) -> None:
        self.begin, self.edge, self.finish = begin, edge, finish
        self.states: Dict[int, Any] = {}
        self.numbers = itertools.count(1)

    def bound(self, program: Any, stage: int) -> Tuple[int, "Functions", Any]:
        """A hierarchy's own program calls them as well: the stage, and what must live as long as the program."""
        its, of = Functions(self.begin, self.edge, self.finish), program.stage[stage]
        its.n_fields, its.writes = int(program.n_fields), int(of.writes)
        of.udf.ctx = handle = ffi.new_handle(its)
        return stage, its, handle


def _number(state: Any) -> Any:
    return ffi.cast("int64_t *", state)


# What a function raises is stored, the functions of later rows are not called, and the call of the library raises it.


@extern(onerror=record_raised)
def hga_py_begin(state: Any, v: Any, head: int, context: Any) -> None:
    _number(state)[0] = 0
    if RAISED.error is None:
        f = ffi.from_handle(context)
        n = next(f.numbers)
        f.states[n] = f.begin()
        _number(state)[0] = n


@extern(onerror=record_raised)
def hga_py_edge(state: Any, edge: Any, head: int, context: Any) -> None:
    if RAISED.error is None:
        f, n = ffi.from_handle(context), int(_number(state)[0])
        e = Edge(edge, f.n_fields)
        try:
            f.states[n] = f.edge(f.states[n], e)
        finally:
            e.source._leave(False)
            e.destination._leave(False)


@extern(onerror=record_raised)
def hga_py_finish(state: Any, v: Any, head: int, context: Any) -> None:
    f = ffi.from_handle(context)
    its = f.states.pop(int(_number(state)[0]), None)
    if RAISED.error is None:
        end, done = End(v, f.n_fields, f.writes), False
        try:
            f.finish(its, end)
            done = True
        finally:
            end._leave(done)
