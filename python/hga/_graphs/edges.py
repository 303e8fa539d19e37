"""Graphs as others have them: lists of edges, matrices and files, and the weights that their owners say."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._core.arguments import encoded, encoded_path, one_of, path_of, unmasked, whole
from .._core.progress import reported_by_c
from .._core.library import check, ffi, lib, refuse, refuse_type
from .._core.arrays import floats, ids, is_edge_index, is_torch_sparse
from .builder import Unfinished, array_at, ends

if TYPE_CHECKING:
    from .graph import Graph


class Index(NamedTuple):
    """[2][edges], sources and destinations, and how many nodes these are of, where it is said: sources and destinations."""

    ends: Any
    sizes: Tuple[Optional[int], Optional[int]]


def index_of(x: Any) -> Index:
    """Of what PyTorch Geometric takes: a tensor, its EdgeIndex, or a sparse matrix of torch's, whose rows are destinations."""
    if is_torch_sparse(x):
        coo = x.detach().cpu().to_sparse_coo()
        return Index((coo.indices() if coo.is_coalesced() else coo._indices()).flip(0), (x.shape[1], x.shape[0]))
    return Index(x.as_tensor(), x.sparse_size()) if is_edge_index(x) else Index(x, (None, None))


def n_nodes_of(ends: np.ndarray, sizes: Tuple[Optional[int], Optional[int]]) -> Any:
    """As ``Graph.from_edges`` takes it; what is not said is what edges need, and as many as the other."""
    sources, destinations = sizes
    if sources is not None and destinations is not None and sources != destinations:
        return sources, destinations
    return max(int(ends.max()) + 1 if ends.size else 0, sources or 0, destinations or 0)


def unfinished(
    source: Any, destination: Any, n_nodes: Any, type: Any, weight: Any, parents: Any, repeated: Optional[str]
) -> Tuple[Unfinished, int]:  # fmt: skip
    """What ``Graph.from_edges`` finishes, and how many edges it was given."""
    if repeated is not None:
        one_of(repeated, "repeated", ("once", "sum"))
    two = isinstance(n_nodes, (tuple, list))
    if two and (len(n_nodes) != 2 or parents is not None):
        raise refuse(f"n_nodes {tuple(n_nodes)!r}: a number, or sources and destinations, which have no tree")
    sources, destinations = (whole(n, "n_nodes") for n in (n_nodes if two else (n_nodes, n_nodes)))
    if two:
        whole(sources + destinations, "n_nodes: the sum")
    src, dst = ends(source, destination)
    types = None if type is None else ids(type, "type")
    weights = None if weight is None else floats(weight, "weight")
    for x, what in ((types, "types"), (weights, "weights")):
        if x is not None and x.shape != src.shape:
            raise refuse(f"{len(src)} edges, but {what} {x.shape}")
    out = (src < 0) | (src >= sources) | (dst < 0) | (dst >= destinations)
    if out.any():
        nodes = f"nodes are 0 .. {sources - 1}" if sources == destinations else f"there are {sources} sources, {destinations} destinations"
        raise refuse(f"edge {src[out][0]} -> {dst[out][0]}: {nodes}")
    b = Unfinished()
    if two:
        b.level(sources + destinations)
        b.tokens(0, destinations, destinations, sources)
        src = src + np.int32(destinations)
    else:
        node = b._add_tree(sources, parents)
    near = b.relation("near")
    if repeated == "sum":
        check(lib.hga_builder_sum_edges(b._b, near))
    if parents is not None:
        src, dst = (node.astype(np.int32)[x] for x in (src, dst))
    b._add_edges(near, src, dst, types, weights)
    return b, len(src)


class Pairs(NamedTuple):
    """Edges as other libraries have them: undirected ones are two, a self loop one."""

    source: np.ndarray
    destination: np.ndarray
    types: Optional[np.ndarray]
    weights: Optional[np.ndarray]


def pairs(
    edges: np.ndarray, directed: bool, repeated: Optional[str], weight: Optional[np.ndarray], types: Optional[np.ndarray] = None,
    names: Optional[Sequence[Any]] = None,
) -> Pairs:  # fmt: skip
    """Of [edges][2]. ``names`` of nodes, in errors."""
    if weight is not None and repeated in (None, "once"):
        _refuse_other_weights(edges, directed, weight, types, names)
    if not directed:
        other = edges[:, 0] != edges[:, 1]
        edges = np.concatenate([edges, edges[other, ::-1]])
        weight, types = (None if x is None else np.concatenate([x, x[other]]) for x in (weight, types))
    return Pairs(edges[:, 0], edges[:, 1], types, weight)


def in_matrix(matrix: Any, repeated: Optional[str], weights: Optional[str]) -> Tuple[Pairs, Any]:
    """The edges of a sparse matrix, and n_nodes."""
    if not hasattr(matrix, "tocoo"):
        raise refuse_type(f"a {type(matrix).__name__} is not a sparse matrix of scipy: Graph.from_mask takes arrays of truth values, "
                          "Graph.from_edge_index matrices of torch")  # fmt: skip
    m = matrix.tocoo()
    if len(m.shape) != 2:
        raise refuse(f"a sparse array of shape {m.shape} is not a matrix: row i attends to column j, so two axes are needed")
    if repeated is None and not getattr(matrix, "has_canonical_format", False):
        numbers = m.data.astype(np.float64) if m.data.dtype.kind in "iu" else m.data  # whose sums wrap in few bits
        m = type(m)((numbers, (m.row, m.col)), shape=m.shape, copy=True)
        m.sum_duplicates()
    weight = None if (m.data == 1).all() else weights_of(m.data, weights)
    return Pairs(m.col, m.row, None, weight), m.shape[0] if m.shape[0] == m.shape[1] else (m.shape[1], m.shape[0])


def into(graph: "Graph", relation: Optional[str]) -> Tuple[np.ndarray, np.ndarray]:
    """[edges][3] by destination, and their weights."""
    csr, n = ffi.new("hga_csr *"), graph.n_nodes
    check(lib.hga_graph_rows(graph._g, graph._relation(relation), 0, n, csr))
    try:
        ptr = array_at(csr.ptr, n + 1, np.int64)
        n_edges = int(ptr[-1])
        edges = np.empty((n_edges, 3), np.int32)
        edges[:, 0], edges[:, 2] = array_at(csr.src, n_edges, np.int32), array_at(csr.type, n_edges, np.int32)
        edges[:, 1] = np.repeat(np.arange(n, dtype=np.int32), np.diff(ptr))
        return edges, array_at(csr.weight, n_edges, np.float32)
    finally:
        lib.hga_csr_clear(csr)


# ---- files ----

WRITERS = {
    ".npy": lib.hga_graph_write_npy, ".mtx": lib.hga_graph_write_mtx, ".csv": lib.hga_graph_write_csv,
    ".graphml": lib.hga_graph_write_graphml, ".gexf": lib.hga_graph_write_gexf, ".graph": lib.hga_graph_write_metis,
}  # fmt: skip
NO_WEIGHTS = (".npy", ".dot", ".graph")


def read(path: Any, parents: Any, relation: Optional[str], weights: Optional[str]) -> Tuple[Any, List[str]]:
    """The library's graph of a file, and warnings."""
    check_weights(weights)
    name = path_of(path)
    options, attributes, out = ffi.new("hga_import *"), ffi.new("char **"), ffi.new("hga_graph **")
    options.attributes, options.pattern = attributes, weights is not None
    relation_name = ffi.NULL if relation is None else ffi.new("char[]", encoded(relation, "relation"))
    options.relation = relation_name
    if parents is not None:
        tree = ids(parents, "parents")
        options.parents, options.n_parents = ffi.cast("hga_id *", tree.ctypes.data), len(tree)
    check(lib.hga_graph_read(ffi.NULL, encoded_path(name), options, out, ffi.NULL))
    said = ffi.string(attributes[0]).decode() if attributes[0] else ""
    lib.hga_text_free(attributes[0])
    warnings = [f"{name}: {said}"] if "passed over: " in said else []
    relations = 0 if lib.hga_graph_is_json(encoded_path(name)) else lib.hga_graph_nodes(out[0]).n_relations
    again = sum(lib.hga_graph_repeated(out[0], r) for r in range(relations))
    return out[0], [*warnings, f"{name}: {again} edges repeat another and count once more"] if again else warnings


def write(graph: "Graph", path: Any, relation: Optional[str], progress: Optional[bool]) -> None:
    name, r = path_of(path), graph._relation(relation)
    end = name[name.rfind(".") :]
    if end == ".json":
        check(lib.hga_graph_write_json(graph._g, ffi.NULL, encoded_path(name)))
        return
    if end == ".dot":
        check(lib.hga_graph_write_dot(graph._g, r, encoded_path(name), 1000000))
    elif end in WRITERS:
        with reported_by_c(f"writing {end}", progress) as report:
            check(WRITERS[end](graph._g, r, encoded_path(name), *report))
    else:
        drawn = "; a hierarchy's write draws: graph.hierarchy().write(path)" if end in (".svg", ".html") else ""
        raise refuse(f"{name}: the name must end in one of .json, .dot, {', '.join(WRITERS)}{drawn}")
    loops = ffi.new("hga_pos *")
    if end == ".graph":
        check(lib.hga_graph_loops(graph._g, r, loops))
    if loops[0]:
        say(f"{name}: {loops[0]} edges from a node to itself are left out, which METIS's files cannot hold")
    if end in NO_WEIGHTS and graph._is_weighted(relation):
        say(f"{name}: weights of edges are left out, which {end} files cannot hold")


# ---- weights ----


def check_weights(weights: Optional[str]) -> None:
    if weights not in (None, "ignore"):
        raise refuse(f"weights={weights!r} is neither None nor 'ignore'")


WITHOUT_WEIGHTS = "weights='ignore' takes edges without weights"


def _is_number(weight: Any) -> bool:
    return isinstance(weight, (int, float)) or (np.ndim(weight) == 0 and np.asarray(weight).dtype.kind in "biuf")


def weights_of(declared: Any, weights: Optional[str], edge: Callable[[int], str] = "edge {}".format) -> Optional[np.ndarray]:
    """[edges] of what the edges' owner says, None where one says nothing; None: no edge has a weight. ``edge``: what one is
    called by its number."""
    check_weights(weights)
    if weights or all(w is None for w in declared):
        return None
    unmasked(declared, "weight")
    values = declared if isinstance(declared, np.ndarray) else [1 if w is None else w for w in declared]
    known = isinstance(declared, np.ndarray) and declared.dtype.kind in "biuf"
    strange = None if known else next((i for i, w in enumerate(values) if not _is_number(w)), None)
    if strange is not None:
        what = "a text, not a number" if isinstance(values[strange], str) else "not a number"
        raise refuse(f"{edge(strange)}: weight {values[strange]!r} is {what}; {WITHOUT_WEIGHTS}")
    found = np.asarray(values, np.float32 if known else np.float64)
    wrong = np.flatnonzero(~(np.isfinite(found) & (found > 0)))  # type: ignore[operator]
    if len(wrong):
        raise refuse(f"{edge(int(wrong[0]))}: weight {values[wrong[0]]} is not positive and finite; {WITHOUT_WEIGHTS}")
    return found.astype(np.float32)


def _refuse_other_weights(pairs: np.ndarray, directed: bool, weight: np.ndarray, types: Optional[np.ndarray], names: Optional[Sequence[Any]]) -> None:
    """An edge that is given twice has one weight."""
    pairs = pairs if directed else np.sort(pairs, 1)
    kind = np.zeros(len(pairs), np.int32) if types is None else types
    order = np.lexsort((kind, pairs[:, 1], pairs[:, 0]))
    pairs, kind, weight = pairs[order], kind[order], weight[order]
    differ = np.flatnonzero((pairs[1:] == pairs[:-1]).all(1) & (kind[1:] == kind[:-1]) & (weight[1:] != weight[:-1]))
    if len(differ):
        i = int(differ[0])
        u, v = (repr(names[x]) if names is not None else str(x) for x in pairs[i].tolist())
        raise refuse(f"edges {f'from {u} to {v}' if directed else f'between {u} and {v}'} have the weights {weight[i]:g} and "
                     f"{weight[i + 1]:g}: repeated='sum' counts each, {WITHOUT_WEIGHTS}")  # fmt: skip


def say(what: str) -> None:
    """A warning at the line of the caller's that called into this package."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("hga."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(what, UserWarning, stacklevel=depth)
