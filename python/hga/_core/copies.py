"""Hierarchies as values: what makes two of them equal, copies, and what pickle takes along.

A graph is its stored structure: levels, tree, sides, masses, names, claims and every relation's blocks, orders and explicit
edges. A program is its fields and stages. Where a variant's function made the hierarchy, pickle keeps the variant's
parameters, and making it anew is what unpickling does; everything else goes as the graph's JSON and the program's numbers."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, Tuple, TypeVar

import numpy as np

from .tables import ROWS
from .library import check, ffi, lib, refuse

if TYPE_CHECKING:
    from .._graphs.calls import Calls
    from .._graphs.graph import Graph
    from .._graphs.hierarchy import Hierarchy

H = TypeVar("H", bound="Calls")

FIELD = ("width", "binding", "io", "rows")
STAGE = (
    "relation", "order", "message", "reduce", "update", "by_mass", "query", "key", "value", "gate", "keep", "out", "reads",
    "writes", "normaliser",
)  # fmt: skip


# ---- graphs ----


def _raw(pointer: Any, bytes_: int) -> bytes:
    return b"" if pointer == ffi.NULL or bytes_ == 0 else bytes(ffi.buffer(pointer, bytes_))


def _stored(g: Any) -> Iterator[bytes]:
    """Everything a graph stores, array by array."""
    n = lib.hga_graph_nodes(g)
    yield repr((n.n, n.n_levels, n.n_relations, n.query_first, n.n_queries, n.key_first, n.n_keys, n.claims)).encode()
    yield _raw(n.level_ptr, 4 * (n.n_levels + 1))
    yield _raw(n.parent, 4 * n.n)
    yield _raw(n.side, n.n)
    yield _raw(n.mass, 4 * n.n)
    names = ((i, lib.hga_graph_name(g, i)) for i in range(n.n))
    yield repr([(i, ffi.string(name)) for i, name in names if name != ffi.NULL]).encode()
    kinds = lib.hga_graph_kinds(g)
    if kinds.n:
        yield repr([ffi.string(kinds.name[k]) for k in range(kinds.n)]).encode()
        yield _raw(kinds.of, 4 * n.n)
    for number in range(n.n_relations):
        r = lib.hga_graph_relation(g, number)
        yield repr((ffi.string(r.name), r.n_edges, r.n_blocks, r.n_explicit, r.n_src_order)).encode()
        yield _raw(r.blocks, 0 if r.n_choices else ffi.sizeof("hga_block") * r.n_blocks)
        for i in range(r.n_choices):
            c = r.choices[i]
            yield repr((c.dst, c.n_dst, c.src, c.n_src, c.row_block, c.block, c.causal)).encode()
            lists = -(-c.n_dst // c.row_block)
            yield _raw(c.first, 8 * (lists + 1))
            yield _raw(c.chosen + c.first[0], 4 * (c.first[lists] - c.first[0]))
        yield _raw(r.dst_order, 4 * n.n)
        yield _raw(r.src_order, 4 * r.n_src_order)
        yield _raw(r.ptr, 8 * (n.n + 1))
        for edges in (r.src, r.type, r.weight):
            yield _raw(edges, 4 * r.n_explicit)


def digest(g: Any) -> bytes:
    """256 bits of what a graph stores: equal for equal graphs, and for no others that anyone will find."""
    found = hashlib.blake2b(digest_size=32)
    for chunk in _stored(g):
        found.update(len(chunk).to_bytes(8, "little"))
        found.update(chunk)
    return found.digest()


def graph_data(graph: "Graph") -> bytes:
    """A graph as its JSON, compressed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.json")
        check(lib.hga_graph_write_json(graph._g, ffi.NULL, path.encode()))
        with open(path, "rb") as file:
            return zlib.compress(file.read(), 1)


def graph_of_data(data: bytes) -> Any:
    """The library's graph of ``graph_data``."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.json")
        with open(path, "wb") as file:
            file.write(zlib.decompress(data))
        out = ffi.new("hga_graph **")
        check(lib.hga_graph_read_json(ffi.NULL, path.encode(), out, ffi.NULL))
        return out[0]


# ---- programs ----


def program_data(p: Any) -> Tuple[Any, ...]:
    """A program in numbers and names, without functions written in Python."""
    fields = [p.field[f] for f in range(1, p.n_fields + 1)]
    stages = [p.stage[s] for s in range(p.n_stages)]
    return (
        tuple((ffi.string(f.name),) + tuple(int(getattr(f, member)) for member in FIELD) for f in fields),
        tuple((ffi.string(s.name),) + tuple(int(getattr(s, member)) for member in STAGE) + (float(s.alpha),) for s in stages),
        int(p.has_lse),
        int(p.scores),
        float(p.negative_slope),
        tuple((row.member, float(getattr(p, row.member))) for row in ROWS.values() if row.member is not None),
    )


def _fill(row: Any, members: Tuple[str, ...], name: bytes, values: Tuple[int, ...]) -> None:
    ffi.memmove(row.name, name + b"\0", len(name) + 1)
    for member, value in zip(members, values):
        setattr(row, member, value)


def program_of(data: Tuple[Any, ...]) -> Any:
    fields, stages, has_lse, scores, negative_slope, numbers = data
    p = ffi.new("hga_program *")
    lib.hga_program_init(p)
    if len(fields) > lib.HGA_MAX_FIELDS or len(stages) > lib.HGA_MAX_STAGES:
        raise refuse(f"a program of {len(fields)} fields and {len(stages)} stages")
    p.n_fields, p.n_stages, p.has_lse, p.scores, p.negative_slope = len(fields), len(stages), has_lse, scores, negative_slope
    for member, x in numbers:
        setattr(p, member, x)
    for f, (name, *values) in enumerate(fields):
        _fill(p.field[f + 1], FIELD, name, values)
    for s, (name, *values) in enumerate(stages):
        _fill(p.stage[s], STAGE + ("alpha",), name, values)
    return p


def refuse_functions(p: Any) -> None:
    """What a stage calls cannot go to another process."""
    for s in range(p.n_stages):
        if p.stage[s].message == lib.HGA_MESSAGE_USER:
            name = ffi.string(p.stage[s].name).decode()
            says = "runs functions of your own, which cannot be pickled: pickle the graph, and make its program anew"
            raise refuse(f"stage {name!r} {says}")


# ---- hierarchies ----


def _runs(h: "Hierarchy") -> Tuple[Any, ...]:
    functions = tuple((stage, id(f.begin), id(f.edge), id(f.finish)) for stage, f, _ in h._functions)
    own = {name: np.asarray(x, np.float32).tobytes() for name, x in h._own.items()}
    return program_data(h._program), functions, tuple(sorted(own.items())), h._strict


def runs_as(h: "Hierarchy", other: "Hierarchy") -> bool:
    """Do both run the same program, whatever their graphs?"""
    return _runs(h) == _runs(other)


def identity(h: "Hierarchy") -> Tuple[Any, ...]:
    """What equal hierarchies have in common; that is, all that a result depends on."""
    return (h.graph._identity(), h.n_graphs, h.by_token, None if h._node_of is None else h._node_of.tobytes()) + _runs(h)


# What is said of a hierarchy beside its graph, its program and its words; without the functions of its stages, which belong to
# a program.
SETTINGS = ("_own", "_node_of", "_threads", "_bind", "_strict")


def settle(h: H, of: "Hierarchy") -> H:
    """h, with all that was said of `of`."""
    for name in SETTINGS:
        setattr(h, name, getattr(of, name))
    return h


def copied(h: H) -> H:
    """One with plans of its own; the graph, which is immutable, is shared."""
    new = type(h).__new__(type(h))
    new.__dict__.update(h.__dict__)
    new._begin()
    new._program = ffi.new("hga_program *", h._program[0])
    new._functions = [functions.bound(new._program, stage) for stage, functions, _ in h._functions]
    return new


def made_again(recipe: Tuple[Any, ...], words: str, threads: int, bind: str = "auto", strict: bool = False) -> "Hierarchy":
    """By its recipe, for pickle."""
    make, arguments = recipe
    h: "Hierarchy" = make(*arguments)
    h.words, h.threads, h.bind, h._strict = words, threads, bind, strict
    return h


def put_together(kind: Any, graph: "Graph", program: Tuple[Any, ...], words: str, settings: Dict[str, Any]) -> "Hierarchy":
    """Of its parts, for pickle."""
    h: "Hierarchy" = kind(graph, program_of(program), words)
    for name, setting in settings.items():
        setattr(h, name, setting)
    return h


def reduced(h: "Hierarchy", kind: Any) -> Tuple[Any, ...]:
    """For pickle; kind: the class that puts it together where no function made it."""
    if h._recipe is not None:
        return made_again, (h._recipe, h.words, h._threads, h._bind, h._strict)
    refuse_functions(h._program)
    return put_together, (kind, h.graph, program_data(h._program), h.words, {name: getattr(h, name) for name in SETTINGS})
