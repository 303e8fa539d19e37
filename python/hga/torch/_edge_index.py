"""The edges that layers of graphs take: PyTorch Geometric's edge_index, sparse matrices of torch and of torch_sparse, a Graph or a
Hierarchy; with features of edges, self-loops, and sources and destinations of two kinds."""

from __future__ import annotations

import weakref
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
import torch

from .._core.library import refuse
from .._core.arrays import is_edge_index
from .._core.deferred import deferred
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from ._compiled import Made
from ._edge_lists import WHOLE, EdgeList, Sizes, check_edges, hash_of

Tensor = torch.Tensor


# ---- what comes ----


def _is_torch_sparse(x: Any) -> bool:  # which torch.compile reads
    return isinstance(x, torch.Tensor) and x.layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def _plain(edges: Any) -> Any:
    """What an EdgeIndex holds; all else is plain."""
    return edges.as_tensor() if is_edge_index(edges) else edges


def _is_list(x: Any) -> bool:
    """A plain tensor of torch's own: what nearly every call brings."""
    return type(x) is torch.Tensor and x.layout is torch.strided


def once(edges: Any) -> Any:
    """A matrix in which entries that stand twice are one, as PyTorch Geometric has it before it adds self-loops."""
    return edges.coalesce() if isinstance(edges, torch.Tensor) and edges.layout is torch.sparse_coo else edges


def is_sparse_tensor(x: Any) -> bool:
    """torch_sparse's SparseTensor, recognized without importing its package."""
    return not isinstance(x, torch.Tensor) and all(hasattr(x, name) for name in ("coo", "from_edge_index", "sparse_sizes"))


def is_graph(x: Any) -> bool:
    return isinstance(x, (Graph, Hierarchy, Made))


def sizes_of(x: Any) -> Optional[Tuple[Optional[int], Optional[int]]]:
    """How many sources and destinations a matrix has, and perhaps an EdgeIndex; other edges do not say."""
    if _is_list(x):
        return None
    if is_edge_index(x):
        sources, destinations = x.sparse_size()
        return sources, destinations
    if not (_is_torch_sparse(x) or is_sparse_tensor(x)):
        return None
    destinations, sources, *_ = x.shape if isinstance(x, torch.Tensor) else x.sparse_sizes()
    return int(sources), int(destinations)


class Edges(NamedTuple):
    """Row 0 sends to row 1; features that a matrix has itself."""

    ends: Tensor
    features: Optional[Tensor]


def edges_of(edges: Any) -> Edges:
    """Edges of any kind but graphs. Matrices have a row for each destination, as PyTorch Geometric has them."""
    if _is_list(edges) and edges.dtype in WHOLE:
        return Edges(edges, None)
    if is_sparse_tensor(edges):
        row, column, value = edges.coo()
        return Edges(torch.stack([column, row]), value)
    if _is_torch_sparse(edges):
        coo = edges if edges.layout is torch.sparse_coo else edges.to_sparse_coo()
        index, value = (coo.indices(), coo.values()) if coo.is_coalesced() else (coo._indices(), coo._values())
        return Edges(index.flip(0), value if value.dim() > 1 else None)
    if not isinstance(edges, torch.Tensor):
        raise refuse(f"edge_index is a {type(edges).__name__}, not a tensor, a Graph or a Hierarchy")
    if edges.layout != torch.strided or edges.dtype not in WHOLE:
        raise refuse(f"edge_index of layout {edges.layout} and dtype {edges.dtype}: whole numbers [2, edges] are needed")
    return Edges(_plain(edges), None)


def with_weights(edges: Any, index: Tensor, weights: Tensor) -> Any:
    """What return_attention_weights gives beside the output, in the kind that the edges came in."""
    if is_sparse_tensor(edges):
        return edges.from_edge_index(index.flip(0).long(), weights, edges.sparse_sizes())  # which has the loops, too
    if _is_torch_sparse(edges):
        return _matrix(edges, index.flip(0).long(), weights), weights
    return index, weights


def _matrix(like: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Of the layout and the size of another, with other values."""
    size = (*like.shape[:2], *values.shape[1:])
    if like.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(index, values, size)
    by_row = like.layout is torch.sparse_csr
    major, minor = index if by_row else index.flip(0)
    order = torch.from_numpy(np.lexsort((minor.numpy(), major.numpy())))
    ends = torch.bincount(major, minlength=size[0 if by_row else 1]).cumsum(0)
    make = torch.sparse_csr_tensor if by_row else torch.sparse_csc_tensor
    return make(torch.cat([ends.new_zeros(1), ends]), minor[order], values.index_select(0, order), size)


# ---- edges of a call, with self-loops ----


def looped(index: Tensor, sizes: Sizes, loops: int) -> Tuple[Tensor, Optional[Tensor]]:
    """Edges, those that a loop replaces left out and loops behind them; and which they are of those that were given and of loops."""
    check_edges(index, sizes)
    if not loops:
        return index, None
    left = (index[0] != index[1]).nonzero().squeeze(-1)
    own = torch.arange(loops, dtype=index.dtype)
    ends = torch.cat([index.index_select(1, left), own.expand(2, -1)], 1)
    return ends, torch.cat([left, torch.arange(loops) + index.shape[1]])


FILLS = {"add": "sum", "sum": "sum", "mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}


def loop_features(features: Tensor, destination: Tensor, loops: int, fill: Any) -> Tensor:
    """Those of loops: a number, a row, or what the features of edges into a node come to."""
    if isinstance(fill, str):
        if fill not in FILLS:
            raise refuse(f"fill_value {fill!r} is not one of {', '.join(FILLS)}")
        index = destination.clamp(0, loops).unsqueeze(-1).expand_as(features)  # those of other nodes are never read
        to = features.new_full((loops + 1, features.shape[-1]), float(fill == "mul"))  # of no edges a product is 1, all else 0
        return to.scatter_reduce(0, index, features, FILLS[fill], include_self=False)[:loops]
    if isinstance(fill, torch.Tensor):
        row = fill.to(features.dtype).reshape(-1, features.shape[-1])
        return row.expand(loops, -1)
    return features.new_full((loops, features.shape[-1]), float(fill))


# ---- graphs ----


@deferred
def graph_of(index: Tensor, sizes: Sizes, loops: int) -> Graph:
    """Edges that occur several times count as often."""
    return EdgeList(index, sizes, loops, False).graph()


MOST_KNOWN = 8
_KNOWN: List[Tuple["weakref.ref[Any]", Any, EdgeList]] = []  # the last first; replaced, never changed: threads need no lock


def edge_list(edges: Any, sizes: Sizes, loops: int, by_itself: bool) -> EdgeList:
    """That of one of the last calls, of the same nodes in the same order. A matrix is known by itself and by its version."""
    is_list = _is_list(edges) or (isinstance(edges, torch.Tensor) and not _is_torch_sparse(edges))
    ends = edges_of(edges).ends if is_list else None
    if ends is None and isinstance(edges, torch.Tensor) and edges.is_inference():  # it has no version
        return EdgeList(edges_of(edges).ends, sizes, loops, by_itself)
    what = getattr(edges, "_version", 0) if ends is None else hash_of(ends, sizes)
    key = what, sizes, loops, by_itself
    for known, its, found in _KNOWN:
        if its == key and (ends is not None or known() is edges):
            return found
    found = EdgeList(edges_of(edges).ends if ends is None else ends, sizes, loops, by_itself)
    _KNOWN[:] = [(weakref.ref(edges), key, found), *(x for x in _KNOWN if x[0]() is not None)][:MOST_KNOWN]
    return found


def with_loops(features: Tensor, index: Tensor, loops: int, fill: Any) -> Tensor:
    """Features of edges, and behind them those of loops."""
    if not loops:
        return features
    destination = torch.where(index[0] == index[1], loops, index[1].long())  # of an edge that a loop replaces a row that is never read
    return torch.cat([features, loop_features(features, destination, loops, fill)])


# ---- weights, one by one ----


def summed(messages: Tensor, destination: Tensor, n: int) -> Tensor:
    """[n, ..]: of [edges, ..], those into each destination."""
    return messages.new_zeros(n, *messages.shape[1:]).index_add(0, destination, messages)


def softmax(scores: Tensor, destination: Tensor, n: int) -> Tensor:
    """[edges, heads]: of the edges into each destination."""
    index = destination.unsqueeze(-1).expand_as(scores)
    most = scores.detach().new_full((n, scores.shape[1]), -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
    weights = (scores - most.index_select(0, destination)).exp()
    return weights / summed(weights, destination, n).index_select(0, destination)
