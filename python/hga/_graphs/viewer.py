"""The tool's interactive page (``hga view``) of a hierarchy: the same data, which the library writes, in the same page."""

from __future__ import annotations

import html
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from .._core.library import check, ffi, lib, take_text, version

if TYPE_CHECKING:
    from .hierarchy import Hierarchy


class Weights(NamedTuple):
    """What heads give the edges of every query token, one token after the other."""

    heads: int
    first_head: int
    count: Any  # hga_id[n_queries]: how many edges each token has
    edge: Any  # hga_seen[]
    weight: Any  # double[][heads]


def _data(h: "Hierarchy", title: str, max_edges: int, words: Optional[Sequence[str]], weights: Optional[Weights]) -> str:
    view, text = ffi.new("hga_view *"), ffi.new("char **")
    keep = [ffi.new("char[]", x.replace("\0", " ").encode("utf-8", "replace")) for x in (title, f"hga {version()} (Python)", *(words or ()))]
    view.title, view.tool, view.program, view.max_edges = keep[0], keep[1], h._program, max_edges
    named = ffi.new("char *[]", keep[2:] or [ffi.NULL])
    if words is not None:
        view.word, view.n_words = named, len(words)
    if weights is not None:
        view.heads, view.first_head, view.n_edges = weights.heads, weights.first_head, len(weights.edge)
        view.count, view.edge, view.weight = weights.count, weights.edge, weights.weight
    check(lib.hga_graph_view(h.graph._g, view, text))
    return take_text(text[0])


def page(h: "Hierarchy", max_edges: int, words: Optional[Sequence[str]], weights: Optional[Weights]) -> str:
    """The whole page as text: the tool's page (made by CMake, scripts and all) with the title and the graph filled in. Words, where they
    are given, are the names of tokens in place of the graph's."""
    title = h.words or "graph"
    marks = {"title": html.escape(title), "graph": _data(h, title, max_edges, words, weights)}
    chunks = (pathlib.Path(__file__).parent.parent / "view.html").read_text(encoding="utf-8").split("{{")
    return chunks[0] + "".join(marks[p.split("}}", 1)[0]] + p.split("}}", 1)[1] for p in chunks[1:])
