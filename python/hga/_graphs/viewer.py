"""The tool's interactive page (``hga view``) of a hierarchy: the same file, the structure as it is stored.
cli/view.c writes the same; a test compares the two."""

from __future__ import annotations

import html
import json
import pathlib
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

import numpy as np

from .._core.library import ffi, lib, version
from .builder import array_at

if TYPE_CHECKING:
    from .hierarchy import Hierarchy

SCHEMA, MOST_BLOCKS, MOST_NAMES = 1, 500000, 200000
RAMP = (0x3D4FC4, 0x9A3FB5, 0xD9487D, 0xF0803C, 0xF2B92E)
MEMBERS = ("dst", "n_dst", "src", "n_src", "count", "dst_step", "src_step", "type", "type_dst", "type_src", "band_first", "band_last")
CLAIMS = ("causal", "single", "complete")


def series(value: Any) -> List[Any]:
    """Numbers as differences, runs of equal differences as [difference, how many]."""
    steps = np.diff(np.asarray(value, np.int64), prepend=0)
    starts = np.flatnonzero(np.diff(steps, prepend=steps[:1] + 1)) if len(steps) else steps
    runs = np.diff(np.append(starts, len(steps)))
    return [s if n == 1 else [s, n] for s, n in zip(steps[starts].tolist(), runs.tolist())]


def colour(level: int, n_levels: int) -> str:
    """On the ramp of levels, as the tool's pictures are."""
    at = 4 * level / (n_levels - 1) if n_levels > 1 else 0.0
    i = min(int(at), 3)
    channels = [((RAMP[i] >> s & 255), (RAMP[i + 1] >> s & 255)) for s in (16, 8, 0)]
    return "#" + "".join(f"{int(a + (b - a) * (at - i) + 0.5):02x}" for a, b in channels)


def _ids(pointer: Any, n: int) -> List[Any]:
    return series(array_at(pointer, n, np.int32))


def _order(pointer: Any, n: int) -> Optional[List[Any]]:
    return None if pointer == ffi.NULL else _ids(pointer, n)


def _reals(values: Any) -> List[float]:
    return [float(f"{x:.9g}") for x in values]


def _rows_of_choices(r: Any) -> bytes:
    """The blocks that rows chose, as the structures that other relations store."""
    walk, here = ffi.new("hga_block_walk *"), ffi.new("hga_relation *", r)
    blocks = []
    while lib.hga_relation_next(here, walk):
        blocks.append(bytes(ffi.buffer(ffi.addressof(walk, "block"))))
    return b"".join(blocks)


def _blocks(r: Any) -> Dict[str, Any]:
    bytes_each = ffi.sizeof("hga_block")
    raw = _rows_of_choices(r) if r.n_choices else ffi.buffer(r.blocks, bytes_each * r.n_blocks)
    raw = np.frombuffer(raw, np.uint8).reshape(r.n_blocks, bytes_each)
    offsets = {name: field.offset for name, field in ffi.typeof("hga_block").fields}

    def column(name: str, kind: Any) -> Any:
        return np.ascontiguousarray(raw[:, offsets[name] : offsets[name] + 4]).view(kind)[:, 0]

    blocks: Dict[str, Any] = {name: series(column(name, np.int32)) for name in MEMBERS}
    blocks["shape"] = series(column("shape", np.int32))
    if r.weighted:
        blocks["weight"] = _reals(column("weight", np.float32))
    return blocks


def _explicit(r: Any, n: int) -> Dict[str, Any]:
    edges: Dict[str, Any] = {"degree": series(np.diff(array_at(r.ptr, n + 1, np.int64))), "src": _ids(r.src, r.n_explicit)}
    if r.type != ffi.NULL:
        edges["type"] = _ids(r.type, r.n_explicit)
    if r.weight != ffi.NULL:
        edges["weight"] = _reals(array_at(r.weight, r.n_explicit, np.float32))
    return edges


def _relation(g: Any, number: int, n: int, max_edges: int) -> Dict[str, Any]:
    r = lib.hga_graph_relation(g, number)
    found: Dict[str, Any] = {
        "name": ffi.string(r.name).decode(), "n_edges": int(r.n_edges), "n_blocks": int(r.n_blocks),
        "n_explicit": int(r.n_explicit), "dst_order": _order(r.dst_order, n), "src_order": _order(r.src_order, r.n_src_order),
    }  # fmt: skip
    if 0 < r.n_blocks <= MOST_BLOCKS:
        found["blocks"] = _blocks(r)
    if 0 < r.n_explicit <= max_edges:
        found["explicit"] = _explicit(r, n)
    return found


def _text(array: Any) -> str:
    return str(ffi.string(array).decode())


def _program(p: Any) -> Dict[str, Any]:
    fields = [p.field[f] for f in range(1, p.n_fields + 1)]
    stages = [p.stage[i] for i in range(p.n_stages)]
    return {
        "fields": [
            {"name": _text(f.name), "width": int(f.width), "binding": int(f.binding), "io": int(f.io), "rows": int(f.rows)}
            for f in fields
        ],
        "stages": [
            {"name": _text(s.name), "relation": int(s.relation), "order": int(s.order), "message": int(s.message),
             "reduce": int(s.reduce), "update": int(s.update), "by_mass": int(s.by_mass != 0), "value": int(s.value) - 1,
             "out": int(s.out) - 1, "reads": int(s.reads) >> 1}
            for s in stages
        ],
    }  # fmt: skip


def _names(h: "Hierarchy") -> Dict[str, Any]:
    named = [(i, h.graph.name(i)) for i in range(h.graph.n_nodes)]
    named = [x for x in named if x[1] is not None][:MOST_NAMES]
    return {"names": {"nodes": series([i for i, _ in named]), "text": [t for _, t in named]}} if named else {}


KIND_COLOURS = ("#3b7dd8", "#e0812b", "#2fa36b", "#d1495b", "#8a63d2", "#94a11f", "#2aa5b5", "#8a8f98")  # the tool's


def _kinds(h: "Hierarchy") -> Dict[str, Any]:
    names = h.graph.kind_names
    colours = [KIND_COLOURS[k % len(KIND_COLOURS)] for k in range(len(names))]
    return {"kinds": {"names": names, "colours": colours, "of": series(h.graph.kinds())}} if names else {}


def structure(h: "Hierarchy", max_edges: int) -> Dict[str, Any]:
    """The page's input."""
    g = h.graph._g
    n = lib.hga_graph_nodes(g)
    levels = h.graph.level_sizes
    first = int(n.level_ptr[1])
    above = int(n.n) - first
    tree: Dict[str, Any] = {name: series(array_at(getattr(n, name), n.n, np.int32)[first:]) for name in ("span_first", "span_last")}
    if n.parent != ffi.NULL:
        tree["child_ptr"] = _ids(n.child_ptr, above + 1)
        tree["child_list"] = _order(n.child_list, int(n.child_ptr[above]))
    return {
        "schema": SCHEMA, "tool": f"hga {version()} (Python)", "file": h.words or "graph", "levels": levels,
        "queries": [int(n.query_first), int(n.n_queries)], "keys": [int(n.key_first), int(n.n_keys)],
        "claims": [name for i, name in enumerate(CLAIMS) if n.claims >> i & 1],
        "colours": [colour(level, len(levels)) for level in range(len(levels))], **tree, **_names(h), **_kinds(h),
        "relations": [_relation(g, r, int(n.n), max_edges) for r in range(n.n_relations)], "program": _program(h._program),
    }  # fmt: skip


def page(h: "Hierarchy", max_edges: int, more: Mapping[str, Any] = {}) -> str:
    """The whole page as text: the tool's page (made by CMake, scripts and all) with the title and the graph filled in;
    more: what stands beside the graph, or in place of a part of it."""
    marks = {
        "title": html.escape(h.words or "graph"),
        "graph": json.dumps({**structure(h, max_edges), **more}).replace("<", "\\u003c"),
    }
    chunks = (pathlib.Path(__file__).parent.parent / "view.html").read_text(encoding="utf-8").split("{{")
    return chunks[0] + "".join(marks[p.split("}}", 1)[0]] + p.split("}}", 1)[1] for p in chunks[1:])
