"""Graphs by hand: levels, families, relations, blocks and edges."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Sequence, Tuple, cast

import numpy as np

from .._core.arguments import encoded, flag, int32, meant, number
from .._core.library import check, ffi, lib, refuse, refuse_type
from .._core.arrays import ids

SHAPES = ("all", "lower", "strict_lower", "upper", "strict_upper", "off_diagonal", "band")


def _member(name: str, value: Any) -> Any:
    """Of hga_block; shape: which pairs are edges, by name or as C's hga_shape_kind."""
    if name == "weight":
        return number(value, name)
    if name != "shape" or not isinstance(value, str):
        return int32(value, name)
    if value not in SHAPES:
        raise refuse(f"{value!r} is not the shape of a block{meant(value, SHAPES) or '; there are ' + ', '.join(SHAPES)}")
    return int(getattr(lib, "HGA_" + value.upper()))


def _span(span: Any, what: str) -> Tuple[int, int]:
    if np.shape(span) != (2,):
        raise refuse(f"{what} is {span!r}, not (first, n)")
    first, n = span
    return int32(first, f"{what}: first"), int32(n, f"{what}: n")


def kind_name(name: Any) -> bytes:
    if not isinstance(name, str):
        raise refuse_type(f"a kind is {name!r}, not a name")
    return encoded(name, "kind")


def array_at(pointer: Any, n: int, kind: Any) -> np.ndarray:
    """A copy of n numbers of the library's; none where it has no array."""
    if not n or pointer == ffi.NULL:
        return np.empty(0, kind)
    return np.frombuffer(ffi.buffer(pointer, n * np.dtype(kind).itemsize), kind).copy()


def new_graph(make: Any, *arguments: Any) -> Any:
    """What a function of the library makes."""
    out = ffi.new("hga_graph **")
    check(make(*arguments, out))
    return out[0]


def ends(source: Any, destination: Any) -> Tuple[np.ndarray, np.ndarray]:
    """Of edges."""
    src, dst = ids(source, "source"), ids(destination, "destination")
    if src.shape != dst.shape or src.ndim != 1:
        raise refuse(f"source has shape {src.shape}, destination {dst.shape}: two lists of one length are needed")
    return src, dst


class Unfinished:
    """A graph while it is made: ``Builder`` without its end."""

    def __init__(self) -> None:
        out = ffi.new("hga_builder **")
        check(lib.hga_builder_create(ffi.NULL, out))
        self._b = ffi.gc(out[0], lib.hga_builder_destroy)
        self._levels: List[Tuple[int, int]] = []

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise refuse_type("a Builder can neither be copied nor pickled: the graph that finish() gives can")

    def level(self, n: int) -> int:
        """Append a level of n nodes; the id of its first."""
        first = ffi.new("hga_id *")
        check(lib.hga_builder_add_level(self._b, int32(n, "n"), first))
        self._levels.append((int(first[0]), n))
        return int(first[0])

    def tokens(self, query_first: int, n_queries: int, key_first: int, n_keys: int) -> None:
        """Which level-0 nodes are queries, which are keys; without a call all are both."""
        numbers = {"query_first": query_first, "n_queries": n_queries, "key_first": key_first, "n_keys": n_keys}
        check(lib.hga_builder_set_tokens(self._b, *(int32(n, name) for name, n in numbers.items())))

    def children(self, parent: int, first: int, n: int) -> None:
        check(lib.hga_builder_set_children(self._b, int32(parent, "parent"), int32(first, "first"), int32(n, "n")))

    def families(self, parent: int, child: int, each: int, n: Optional[int] = None) -> None:
        """Children from ``child`` on go, ``each`` at a time, to the nodes from ``parent`` on; n: the rest of the level."""
        parent, child, each = int32(parent, "parent"), int32(child, "child"), int32(each, "each")
        rest = [first + size - child for first, size in self._levels if first <= child < first + size]
        if n is None and not rest:
            raise refuse(f"child is {child}: there are {sum(size for _, size in self._levels)} nodes")
        check(lib.hga_builder_set_families(self._b, parent, child, rest[0] if n is None else int32(n, "n"), each))

    def kinds(self, first: int, n: int, kind: str) -> None:
        """Nodes from ``first`` on, so many, are of the kind of that name, such as "text" and "picture"."""
        check(lib.hga_builder_set_kinds(self._b, int32(first, "first"), int32(n, "n"), kind_name(kind)))

    def mass(self, node: int, mass: float) -> None:
        check(lib.hga_builder_set_mass(self._b, int32(node, "node"), number(mass, "mass")))

    def relation(self, name: str) -> int:
        r = ffi.new("hga_id *")
        check(lib.hga_builder_add_relation(self._b, encoded(name, "relation"), r))
        return int(r[0])

    def edge(self, relation: int, source: int, destination: int, type: int = 0, weight: float = 1.0) -> None:
        numbers = {"relation": relation, "source": source, "destination": destination, "type": type}
        check(lib.hga_builder_add_edge(self._b, *(int32(n, name) for name, n in numbers.items()), number(weight, "weight")))

    def edges(self, relation: int, source: Iterable[int], destination: Iterable[int]) -> None:
        self._add_edges(relation, *ends(source, destination), None, None)

    def _add_edges(self, relation: int, *arrays: Optional[np.ndarray]) -> None:
        """Sources, destinations, types and weights (None: 0 and 1 each) in one call."""
        held = [None if a is None else np.ascontiguousarray(a) for a in arrays]
        s, d, t, w = (
            ffi.NULL if a is None else ffi.cast(kind, a.ctypes.data) for a, kind in zip(held, ("int32_t *",) * 3 + ("float *",))
        )  # fmt: skip
        check(lib.hga_builder_add_edges(self._b, int32(relation, "relation"), len(cast(np.ndarray, held[0])), s, d, t, w))

    def block(self, relation: int, dst: Sequence[int], src: Sequence[int], type: int = 0, **more: Any) -> None:
        """Every row of dst = (first, n) to every column of src = (first, n); ``more``: members of hga_block (count,
        dst_step, src_step, type_dst, type_src, weight, band_first, band_last, ..). ``shape``: "all", "lower", "strict_lower",
        "upper", "strict_upper", "off_diagonal", "band"."""
        b = ffi.new("hga_block *")
        b.dst, b.n_dst = _span(dst, "dst")
        b.src, b.n_src = _span(src, "src")
        b.type = int32(type, "type")
        for name, value in more.items():
            if not hasattr(b, name):
                raise refuse_type(f"hga_block has no member {name!r}{meant(name, dir(b[0]))}")
            setattr(b, name, _member(name, value))
        check(lib.hga_builder_add_blocks(self._b, int32(relation, "relation"), b))

    def choice(
        self, relation: int, dst: Sequence[int], src: Sequence[int], lists: Sequence[Sequence[int]], *, row_block: int = 1, block: int = 1,
        causal: bool = False,
    ) -> None:  # fmt: skip
        """Rows that choose blocks of columns: dst = (first, n) in blocks of ``row_block`` rows, src = (first, n) in blocks of ``block``
        columns; ``lists``: for each block of rows the numbers of the blocks that it sees, ascending. ``causal``: row dst + r sees no
        column behind src + r. A relation of choices has nothing else, and their rows ascend."""
        c = ffi.new("hga_choice *")
        c.dst, c.n_dst = _span(dst, "dst")
        c.src, c.n_src = _span(src, "src")
        row_block = int32(row_block, "row_block")
        c.row_block, c.block, c.causal = row_block, int32(block, "block"), flag(causal, "causal")
        expected = -(-c.n_dst // row_block) if row_block > 0 else len(lists)
        if len(lists) != expected:
            raise refuse(f"lists: {len(lists)} for {expected} blocks of rows")
        first = np.concatenate([[0], np.cumsum([len(x) for x in lists], dtype=np.int64)]).astype(np.int64)
        chosen = np.concatenate([ids(x, "lists") for x in lists if len(x)] or [np.zeros(1, np.int32)])
        c.first, c.chosen = ffi.cast("int64_t *", first.ctypes.data), ffi.cast("int32_t *", chosen.ctypes.data)
        check(lib.hga_builder_add_choice(self._b, int32(relation, "relation"), c))

    def _finished(self) -> Any:
        """The library's graph."""
        return new_graph(lib.hga_builder_finish, self._b)

    def _add_tree(self, n: int, parents: Any, names: Sequence[Optional[str]] = ()) -> np.ndarray:
        """Nodes of a tree in levels by height, each level by id; [n]: where each node went."""
        if parents is None and n:
            self.level(n)
            return np.arange(n)
        parent = np.full(n, -1, np.int32) if parents is None else ids(parents, "parents")
        if parent.shape != (n,):
            raise refuse(f"parents have shape {parent.shape}: one list is needed, of {n} nodes")
        if n and (parent.min() < -1 or parent.max() >= n):
            raise refuse(f"parents are -1 or 0 .. {n - 1}")
        height, waiting = np.zeros(n, np.int64), np.bincount(parent[parent >= 0], minlength=n)
        ready, seen = [v for v in range(n) if waiting[v] == 0], 0
        while ready:
            v = ready.pop()
            seen += 1
            p = int(parent[v])
            if p >= 0:
                height[p] = max(height[p], height[v] + 1)
                waiting[p] -= 1
                if waiting[p] == 0:
                    ready.append(p)
        if seen < n:
            ring = int(np.flatnonzero(waiting)[0])
            raise refuse(f"parents: node {repr(names[ring]) if names else ring} is its own ancestor")
        order = np.argsort(height, kind="stable")
        position = np.empty(n, np.int64)
        position[order] = np.arange(n)
        for level in range(int(height.max(initial=0)) + 1):
            self.level(int((height == level).sum()))
        for v in order.tolist():
            if parent[v] >= 0:
                self.children(int(position[parent[v]]), int(position[v]), 1)
        return position
