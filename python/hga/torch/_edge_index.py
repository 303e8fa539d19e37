"""The edges that layers of graphs take: PyTorch Geometric's edge_index, sparse matrices of torch and of torch_sparse, a Graph or a
Hierarchy; with features of edges, self-loops, and sources and destinations of two kinds."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch

from .._core.library import refuse
from .._core.deferred import deferred
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from ._compiled import Made

Tensor = torch.Tensor
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
Sizes = Tuple[int, int]  # sources and destinations


# ---- what comes ----


def _is_torch_sparse(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def is_sparse_tensor(x: Any) -> bool:
    """torch_sparse's SparseTensor, recognized without importing its package."""
    return not isinstance(x, torch.Tensor) and all(hasattr(x, name) for name in ("coo", "from_edge_index", "sparse_sizes"))


def is_graph(x: Any) -> bool:
    return isinstance(x, (Graph, Hierarchy, Made))


def sizes_of(x: Any) -> Optional[Sizes]:
    """How many sources and destinations a matrix has; other edges do not say."""
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
    return Edges(edges, None)


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


def checked(index: Tensor, sizes: Sizes) -> np.ndarray:
    pairs: np.ndarray = index.detach().cpu().numpy()
    if pairs.ndim != 2 or len(pairs) != 2:
        raise refuse(f"edge_index has shape {tuple(index.shape)}, not [2, edges]")
    for row, n, what in zip(pairs, sizes, ("", "") if sizes[0] == sizes[1] else (" sources", " destinations")):
        least, most = (int(row.min()), int(row.max())) if row.size else (0, -1)
        if least < 0 or most >= n:
            raise refuse(f"edge_index has node {most if least >= 0 else least} of {n}{what}")
    return pairs


def _with_loops(pairs: np.ndarray, loops: int) -> Tuple[np.ndarray, np.ndarray]:
    """Edges with a loop for each of so many nodes behind them, in place of those that there were; and which edges are left."""
    left = np.flatnonzero(pairs[0] != pairs[1])
    own = np.arange(loops, dtype=pairs.dtype)
    return np.concatenate([pairs if len(left) == pairs.shape[1] else pairs[:, left], np.stack([own, own])], 1), left


class Looped(NamedTuple):
    """Edges, perhaps with self-loops; and where they are among those that were given, behind which loops lie."""

    ends: Tensor
    order: Optional[Tensor]  # None: they are those that were given
    destination: Tensor  # of each that was given; of one that a loop replaces, a row that is never read
    loops: int

    def of_each(self, features: Tensor, fill: Any) -> Tensor:
        """Features of the edges, those of loops among them."""
        if self.loops:
            features = torch.cat([features, loop_features(features, self.destination, self.loops, fill)])
        return features if self.order is None else features.index_select(0, self.order)


def looped(index: Tensor, sizes: Sizes, loops: int) -> Looped:
    """loops: nodes that are sources and destinations; 0: none gets a loop."""
    pairs = checked(index, sizes)
    if not loops:
        return Looped(index, None, index[1], 0)
    ends, left = _with_loops(pairs, loops)
    order = np.concatenate([left, np.arange(loops) + pairs.shape[1]])
    destination = torch.where(index[0] == index[1], loops, index[1].long())
    return Looped(torch.from_numpy(ends), torch.from_numpy(order), destination, loops)


FILLS = {"add": "sum", "sum": "sum", "mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}


def loop_features(features: Tensor, destination: Tensor, loops: int, fill: Any) -> Tensor:
    """Those of loops: a number, a row, or what the features of edges into a node come to."""
    if isinstance(fill, str):
        if fill not in FILLS:
            raise refuse(f"fill_value {fill!r} is none of {', '.join(FILLS)}")
        n = max(loops, int(destination.max()) + 1 if len(destination) else 0)
        index = destination.unsqueeze(-1).expand_as(features)
        to = features.new_full((n, features.shape[-1]), float(fill == "mul"))  # of no edges a product is 1, all else 0
        return to.scatter_reduce(0, index, features, FILLS[fill], include_self=False)[:loops]
    if isinstance(fill, torch.Tensor):
        row = fill.to(features.dtype).reshape(-1, features.shape[-1])
        return row.expand(loops, -1)
    return features.new_full((loops, features.shape[-1]), float(fill))


# ---- graphs ----


@deferred
def graph_of(index: Tensor, sizes: Sizes, loops: int) -> Graph:
    """Edges that occur several times count as often."""
    pairs = checked(index, (sizes[0], sizes[1])).astype(np.int32)
    if loops:
        pairs, _ = _with_loops(pairs, loops)
    source, destination = pairs
    return Graph.from_edges(source, destination, _nodes(sizes), repeated="sum")


def _nodes(sizes: Sizes) -> Union[int, Sizes]:
    return sizes[0] if len(set(sizes)) == 1 else (sizes[0], sizes[1])


def featured(index: Tensor, sizes: Sizes, loops: int) -> Tuple[Hierarchy, Looped]:
    """The hierarchy of edges that have features, each by itself, also where it occurs several times; and its edges."""
    found = looped(index, sizes, loops)
    ends = found.ends.detach().cpu().numpy().astype(np.int32)
    order = np.lexsort(ends)
    source, destination = ends = ends[:, order]
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(source) != 0) | (np.diff(destination) != 0)
    position = np.arange(len(order))
    again = (position - np.maximum.accumulate(np.where(begins, position, 0))).astype(np.int32)  # how often it came before
    graph = Graph.from_edges(source, destination, _nodes(sizes), type=again if again.any() else None)
    at = torch.from_numpy(order)
    return graph.hierarchy(), found._replace(ends=torch.from_numpy(ends), order=at if found.order is None else found.order[at])


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
