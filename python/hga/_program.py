"""Programs: what attention does on a graph, stage by stage."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np

from ._core import check, extern, ffi, lib, refuse
from ._graph import Graph
from ._hierarchy import Hierarchy

TREE_UP, TREE_DOWN = int(lib.HGA_TREE_UP), int(lib.HGA_TREE_DOWN)


class Program:
    """Fields (values of nodes) and stages (message passing) over a graph; ``hierarchy()`` makes it attend.

    Widths: "key" (dim, query heads), "kv_key" (dim), "value" (dim_v), "state" (dim_v and a log-sum-exp), "out", "scalar".
    Bindings: "internal", "query", "key", "value", "out". Rows: "queries", "keys", "nodes", "query_side", "key_side", "above"."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._p = ffi.new("hga_program *")
        lib.hga_program_init(self._p)
        self._alive: List[Any] = []

    @staticmethod
    def _constant(prefix: str, name: str) -> int:
        value = getattr(lib, prefix + name.upper(), None)
        if value is None:
            raise refuse(f"{name!r} is no {prefix.lower()[4:-1]}")
        return int(value)

    def field(self, name: str, width: str, binding: str = "internal", io: str = "nodes", rows: str = "nodes") -> int:
        """A field: its number, from 1 on."""
        out = ffi.new("hga_id *")
        bound = lib.HGA_INTERNAL if binding == "internal" else self._constant("HGA_IO_", binding)
        check(lib.hga_program_add_field(self._p, name.encode(), self._constant("HGA_WIDTH_", width), bound,
                                        self._constant("HGA_ROWS_", io), self._constant("HGA_ROWS_", rows), out))  # fmt: skip
        return int(out[0])

    def _relation(self, relation: Any) -> int:
        return self.graph._relation(relation) if isinstance(relation, str) else int(relation)

    def coarsen(self, x: int) -> None:
        """x[parent] = mean of x[child] by mass, level by level."""
        check(lib.hga_program_coarsen(self._p, x))

    def attend(self, relation: Any, query: int, key: int, value: int, out: int, by_mass: bool = False, more: bool = False) -> None:
        """out = the softmax state over a relation's edges; ``more``: merged with the state that is there."""
        f = lib.hga_program_attend_more if more else lib.hga_program_attend
        check(f(self._p, self._relation(relation), query, key, value, out, int(by_mass)))

    def spread(self, state: int, relation: Any = TREE_DOWN) -> None:
        """Merge every node's state into its children's."""
        check(lib.hga_program_spread(self._p, self._relation(relation), state))

    def mean(self, relation: Any, x: int, out: int, by_mass: bool = False) -> None:
        check(lib.hga_program_mean(self._p, self._relation(relation), x, out, int(by_mass)))

    def weighted_sum(self, relation: Any, x: int, out: int) -> None:
        check(lib.hga_program_weighted_sum(self._p, self._relation(relation), x, out))

    def attention(self, relation: Any = 0) -> None:
        """A whole program, in place of what was here: fields query, key, value, out on tokens and one attend stage."""
        check(lib.hga_program_attention(self._p, self._relation(relation)))

    def has_lse(self) -> None:
        """The output's log-sum-exp may be asked for."""
        self._p.has_lse = 1

    def user(
        self, name: str, relation: Any, reads: List[int], writes: List[int],
        begin: Callable[[], Any], edge: Callable[[Any, "Edge"], Any], finish: Callable[[Any, "End"], None],
    ) -> None:  # fmt: skip
        """A stage of your own in Python: ``state = begin()``, ``state = edge(state, e)`` for every in-edge,
        ``finish(state, v)``, which writes v[field]. Row by row and head by head: slow, for trying ideas."""
        stage = ffi.new("hga_stage *")
        ffi.memmove(stage.name, name.encode()[:31] + b"\0", min(len(name.encode()), 31) + 1)
        stage.relation = self._relation(relation)
        stage.message, stage.reduce, stage.update = lib.HGA_MESSAGE_USER, lib.HGA_REDUCE_USER, lib.HGA_UPDATE_USER
        stage.out = writes[0] if writes else 0
        stage.reads, stage.writes = sum(1 << f for f in reads), sum(1 << f for f in writes)
        functions = _Functions(begin, edge, finish)
        handle = ffi.new_handle(functions)
        self._alive += [functions, handle]
        stage.udf.state_bytes = 8
        stage.udf.begin, stage.udf.edge, stage.udf.finish = lib.hga_py_begin, lib.hga_py_edge, lib.hga_py_finish
        stage.udf.ctx = handle
        check(lib.hga_program_add_stage(self._p, stage))

    def hierarchy(self) -> Hierarchy:
        """Ready to attend. Programs with Python functions run on one thread."""
        program = ffi.new("hga_program *", self._p[0])
        h = Hierarchy(self.graph, program)
        h._alive = list(self._alive)  # type: ignore[attr-defined]
        if self._alive:
            h.threads = 1
        return h


class End:
    """One end of an edge: e.source[field] is that node's row of a field for this head, None where it has none."""

    def __init__(self, end: Any) -> None:
        self._end = end
        self.node, self.level, self.mass = int(end.node), int(end.level), float(end.mass)

    def __getitem__(self, field: int) -> Optional[np.ndarray]:
        pointer = self._end.field[field]
        if pointer == ffi.NULL:
            return None
        return np.frombuffer(ffi.buffer(pointer, 4 * int(self._end.columns[field])), np.float32)


class Edge:
    def __init__(self, edge: Any) -> None:
        self.type, self.weight, self.score = int(edge.type), float(edge.weight), float(edge.score)
        self.source, self.destination = End(edge.source), End(edge.destination)


class _Functions:
    def __init__(self, begin: Any, edge: Any, finish: Any) -> None:
        self.begin, self.edge, self.finish = begin, edge, finish
        self.states: Dict[int, Any] = {}
        self.next = 1


def _number(state: Any) -> Any:
    return ffi.cast("int64_t *", state)


@extern()
def hga_py_begin(state: Any, v: Any, head: int, context: Any) -> None:
    f = ffi.from_handle(context)
    _number(state)[0] = f.next
    f.states[f.next] = f.begin()
    f.next += 1


@extern()
def hga_py_edge(state: Any, edge: Any, head: int, context: Any) -> None:
    f, n = ffi.from_handle(context), int(_number(state)[0])
    f.states[n] = f.edge(f.states[n], Edge(edge))


@extern()
def hga_py_finish(state: Any, v: Any, head: int, context: Any) -> None:
    f = ffi.from_handle(context)
    f.finish(f.states.pop(int(_number(state)[0])), End(v))
