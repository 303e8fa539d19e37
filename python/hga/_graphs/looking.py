"""Looking at a hierarchy: its pairs, rows and plans in numbers, pages and pictures of it, and of one text's weights in it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._core.arguments import flag, path_of, whole
from .._core.call import Problem
from .._core.tables import Tables
from .._core.library import check, extern, ffi, lib, record_raised, refuse, refuse_type, take_text
from .viewer import Weights, page

if TYPE_CHECKING:
    from .hierarchy import Hierarchy

MOST_WEIGHTS = 1 << 20  # of a page, as the tool's
COLOURS = ("#1b6ca8", "#e07b39", "#3a9679", "#b0413e", "#7b5ea7", "#8a6d3b", "#c06c84", "#4f6d7a")
MOST_RECTANGLES = 2000  # of a picture


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


class Page(str):
    """A page of HTML, as text; a notebook shows the page itself."""

    def __repr__(self) -> str:
        title = self.split("<title>", 1)[-1].split("</title>", 1)[0]
        return f"<hga.Page of {html.unescape(title)}: {len(self)} characters of HTML; write(path) makes a file>"

    def write(self, path: Any) -> None:
        """The page as a file: one, which needs no network."""
        with open(path_of(path), "w", encoding="utf-8") as file:
            file.write(self)

    def _repr_html_(self) -> str:
        style = "width:100%;height:620px;border:1px solid #8884"
        return f'<iframe srcdoc="{html.escape(str(self))}" style="{style}" title="hga view"></iframe>'


# ---- weights ----


class Weighed:
    """The queries and keys of one sample, on which the plain definition of the stages runs."""

    def __init__(self, h: "Hierarchy", q: np.ndarray, k: np.ndarray, layout: str, tables: Mapping[str, Any]) -> None:
        p = self._problem = Problem(h, q, k, k, layout, Tables(h, tables))
        if p.batch:
            raise refuse(f"query has shape {p.q.shape}: weights are those of one sample")
        self._io, self._shape = ffi.new("hga_io *"), ffi.new("hga_shape *")
        self._shape.n_heads, self._shape.n_kv_heads, self._shape.dim, self._shape.dim_v = p.heads, p.kv_heads, p.dim, p.dim_v
        self._shape.pos_dim, _ = p.tables.traits
        p.describe(self._io, ())
        self._io.value.data = ffi.NULL
        self._of, self.heads, self._nodes = h, p.heads, lib.hga_graph_nodes(h.graph._g)

    def _weigh(self, token: int, head: int, visit: Any, context: Any, shares: Any) -> None:
        h = self._of
        check(lib.hga_program_weights(h._program, h.graph._g, self._shape, self._io, token, head, visit, context, shares))

    def shares(self, token: int, head: int) -> np.ndarray:
        """[key tokens] what each has of the output of a token and head."""
        found = np.zeros(self._nodes.n_keys, np.float64)
        self._weigh(token, head, ffi.NULL, ffi.NULL, ffi.cast("double *", found.ctypes.data))
        return found

    def _edges(self, token: int, head: int) -> List[Tuple[bytes, float]]:
        found: List[Tuple[bytes, float]] = []

        def visit(weight: Any) -> None:
            found.append((bytes(ffi.buffer(ffi.addressof(weight, "edge"))), float(weight.weight)))

        self._weigh(token, head, lib.hga_py_weighed, ffi.new_handle(visit), ffi.NULL)
        return found

    def of_page(self, head: Optional[int]) -> Weights:
        """The edges of all tokens in turn, and what the heads give them."""
        heads = range(self.heads) if head is None else range(head, head + 1)
        self._check_weights(len(heads))
        count: List[int] = []
        ends: List[bytes] = []
        weight: List[float] = []
        for token in range(self._nodes.n_queries):
            each = [self._edges(token, i) for i in heads]  # every head has the same edges in the same order
            if not np.isfinite([e[1] for edges in each for e in edges]).all():
                raise refuse(f"the weights of token {token} are not finite: its query, or a key that it sees, is not, or scores overflow")
            count.append(len(each[0]))
            ends += [end for end, _ in each[0]]
            weight += [e[1] for edge in zip(*each) for e in edge]
        seen = ffi.from_buffer("hga_seen[]", b"".join(ends))
        return Weights(len(heads), heads[0], ffi.new("hga_id[]", count), seen, ffi.new("double[]", weight))

    def _check_weights(self, heads: int) -> None:
        n, queries = 0, int(self._nodes.n_queries)
        for token in range(queries):
            n += heads * len(self._of.row(token))
            if n > MOST_WEIGHTS:
                one = ": head= takes one of them" if heads > 1 else ""
                raise refuse(f"the edges of {queries} tokens in {heads} head{'s'[: heads > 1]} are more than the {MOST_WEIGHTS} weights of a page{one}")


def words_of_tokens(h: "Hierarchy", words: Optional[Sequence[str]]) -> Optional[List[str]]:
    """Names of all tokens, in place of those that the graph has."""
    if words is None:
        return None
    text = [*words] if isinstance(words, Iterable) else [words]
    for i, word in enumerate(text):
        if not isinstance(word, str):
            raise refuse_type(f"words: {word!r}, of token {i}, is not a text")
    if len(text) != h.graph.n_tokens:
        raise refuse(f"{len(text)} words of {h.graph.n_tokens} tokens")
    return text


def view(h: "Hierarchy", max_edges: int, words: Optional[Sequence[str]], weighed: Optional[Weighed], head: Optional[int]) -> Page:
    if head is not None:
        if weighed is None:
            raise refuse("head is of weights: give q and k")
        head = whole(head, "head", beyond=weighed.heads)
    weights = weighed.of_page(head) if weighed else None
    return Page(page(h, whole(max_edges, "max_edges", beyond=1 << 63), words_of_tokens(h, words), weights))


# ---- in numbers ----


def coverage(h: "Hierarchy", causal: bool) -> Coverage:
    c = ffi.new("hga_coverage *")
    check(lib.hga_program_coverage(h._program, h.graph._g, int(flag(causal, "causal")), c))
    return Coverage(c.pairs, c.none, c.once, c.more, c.none_diagonal, c.later)


def rules(h: "Hierarchy") -> Dict[str, bool]:
    rows, result, i = lib.hga_graph_rules(), {}, 0
    while rows[i].name != ffi.NULL:
        result[ffi.string(rows[i].name).decode()] = rows[i].check(h.graph._g) == lib.HGA_OK
        i += 1
    nodes = lib.hga_graph_nodes(h.graph._g)
    if nodes.query_first == nodes.key_first:
        result["causal"] = h.is_causal()
    return result


def row(h: "Hierarchy", token: int) -> List[Row]:
    found: List[Row] = []

    def visit(s: Any) -> None:
        found.append(Row(s.stage, s.destination, s.source, s.level, s.source_level, s.type, s.key_first, s.key_last))

    handle = ffi.new_handle(visit)
    check(lib.hga_program_row(h._program, h.graph._g, whole(token, "token"), lib.hga_py_seen, handle))
    return found


def patches(h: "Hierarchy") -> List[Dict[str, int]]:
    names = ("query", "n_queries", "key", "n_keys", "level", "source_level", "stage", "times")
    found: List[Dict[str, int]] = []
    handle = ffi.new_handle(lambda patch: found.append({name: int(getattr(patch, name)) for name in names}))
    check(lib.hga_program_pattern(h._program, h.graph._g, lib.hga_py_patch, handle))
    return found


def _visited(found: Any, context: Any) -> int:
    ffi.from_handle(context)(found)
    return int(lib.HGA_OK)


for _name in ("hga_py_seen", "hga_py_patch", "hga_py_weighed"):
    extern(name=_name, error=lib.HGA_EINVAL, onerror=record_raised)(_visited)


def _plain(h: "Hierarchy", heads: int, dim: int, threads: int, gradient: int) -> Tuple[Any, ...]:
    """The key of a plan of nothing special."""
    heads, dim = whole(heads, "heads", least=1), whole(dim, "dim", least=1)
    return heads, heads, dim, dim, (0, 0), h._threads_for(threads), "f32", None, 0.0, gradient


def explained(h: "Hierarchy", heads: int, dim: int, threads: int, gradient: bool) -> str:
    text, key = ffi.new("char **"), _plain(h, heads, dim, threads, int(flag(gradient, "gradient")))
    h._look(key, lambda plan: check(lib.hga_plan_explain(plan, ffi.NULL, lib.HGA_TEXT, text)))
    return take_text(text[0])


def costs(h: "Hierarchy", heads: int, dim: int, threads: int) -> Dict[str, float]:
    def look(plan: Any) -> Dict[str, float]:
        cost = lib.hga_plan_cost(plan)
        more = {"workspace_bytes": lib.hga_plan_workspace_bytes(plan), "threads": lib.hga_plan_threads(plan)}
        return {"flops": cost.flops, "edges": cost.edges, "bytes_min": cost.bytes_min, **more}

    return h._look(_plain(h, heads, dim, threads, 0), look)


# ---- as a picture ----


def svg(h: "Hierarchy", size: int = 360) -> str:
    """Query tokens go down, key tokens across; a colour for each level of sources. The largest rectangles."""
    patches = sorted(h.patches(), key=lambda p: -p["n_queries"] * p["n_keys"])
    n = max(1, h.n_tokens)
    unit = size / n
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size + 22}" viewBox="0 0 {size} {size + 22}">',
        f'<rect width="{size}" height="{size}" fill="#8881"/>',
    ]
    for p in patches[:MOST_RECTANGLES]:
        x, y, w, d = (p[name] * unit for name in ("key", "query", "n_keys", "n_queries"))
        colour = COLOURS[p["source_level"] % len(COLOURS)]
        lines.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{d:.2f}" fill="{colour}" fill-opacity=".75"/>')
    left = f", {len(patches) - MOST_RECTANGLES} small rectangles left out" if len(patches) > MOST_RECTANGLES else ""
    text = f"{h.n_tokens} tokens, {h.graph.n_nodes} nodes{left}"
    lines.append(f'<text x="0" y="{size + 16}" font-family="sans-serif" font-size="12" fill="#888">{text}</text></svg>')
    return "\n".join(lines)
