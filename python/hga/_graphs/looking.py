"""Pages and pictures of a hierarchy, and of one text's weights in it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .._core.arguments import whole
from .._core.call import Problem
from .._core.values import check, extern, ffi, lib, path_of, record_raised, refuse, refuse_type
from .._core.tables import Tables
from .viewer import page, series

if TYPE_CHECKING:
    from .hierarchy import Hierarchy

MOST_WEIGHTS = 1 << 20  # of a page, as the tool's


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

    def _edges(self, token: int, head: int) -> List[Tuple[int, int, int, float]]:
        found: List[Tuple[int, int, int, float]] = []
        handle = ffi.new_handle(found)
        self._weigh(token, head, lib.hga_py_weighed, handle, ffi.NULL)
        return found

    def of_page(self, head: Optional[int]) -> Dict[str, Any]:
        """The page's input: the edges of all tokens in turn, and what the heads give them."""
        heads = range(self.heads) if head is None else [head]
        self._check_weights(len(heads))
        count: List[int] = []
        ends: List[List[int]] = [[], [], []]
        value: List[float] = []
        for token in range(self._nodes.n_queries):
            each = [self._edges(token, i) for i in heads]  # every head has the same edges in the same order
            if not np.isfinite([e[3] for edges in each for e in edges]).all():
                raise refuse(f"the weights of token {token} are not finite: its query, or a key that it sees, is not, or scores overflow")
            count.append(len(each[0]))
            for e in each[0]:
                for end, node in zip(ends, e[:3]):
                    end.append(node)
            value += [float(f"{e[3]:.4g}") for edge in zip(*each) for e in edge]
        stage, destination, source = (series(end) for end in ends)
        return {"weights": {"heads": list(heads), "count": series(count), "stage": stage, "destination": destination, "source": source,
                            "value": value}}  # fmt: skip

    def _check_weights(self, heads: int) -> None:
        n, queries = 0, int(self._nodes.n_queries)
        for token in range(queries):
            n += heads * len(self._of.row(token))
            if n > MOST_WEIGHTS:
                one = ": head= takes one of them" if heads > 1 else ""
                raise refuse(f"the edges of {queries} tokens in {heads} head{'s'[: heads > 1]} are more than the {MOST_WEIGHTS} weights of a page{one}")


@extern(error=lib.HGA_EINVAL, onerror=record_raised)
def hga_py_weighed(weight: Any, context: Any) -> int:
    edge = weight.edge
    ffi.from_handle(context).append((int(edge.stage), int(edge.destination), int(edge.source), float(weight.weight)))
    return int(lib.HGA_OK)


def words_of_tokens(h: "Hierarchy", words: Optional[Sequence[str]]) -> Dict[str, Any]:
    """Names of all tokens, in place of those that the graph has."""
    if words is None:
        return {}
    text = [*words] if isinstance(words, Iterable) else [words]
    for i, word in enumerate(text):
        if not isinstance(word, str):
            raise refuse_type(f"words: {word!r}, of token {i}, is not a text")
    if len(text) != h.graph.n_tokens:
        raise refuse(f"{len(text)} words of {h.graph.n_tokens} tokens")
    return {"names": {"nodes": series(range(len(text))), "text": text}}


def view(h: "Hierarchy", max_edges: int, words: Optional[Sequence[str]], weighed: Optional[Weighed], head: Optional[int]) -> Page:
    if head is not None:
        if weighed is None:
            raise refuse("head is of weights: give q and k")
        head = whole(head, "head", beyond=weighed.heads)
    more = {**words_of_tokens(h, words), **(weighed.of_page(head) if weighed else {})}
    return Page(page(h, whole(max_edges, "max_edges", beyond=1 << 63), more))
