"""The hierarchical transformer encoder of HSA's paper (Amizadeh et al. 2025, appendix F): documents whose leaves are of several kinds."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch

from .._core.arguments import answering, whole
from .._core.library import refuse, refuse_type
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from .._graphs.registry import variants
from .._graphs.variants import make
from ._module_arguments import attended, check_rows, dropout_of, heads_of, normaliser_in

Tensor = torch.Tensor


# ---- kinds ----


def _names(kinds: Sequence[str]) -> Tuple[str, ...]:
    if isinstance(kinds, str) or not all(isinstance(k, str) for k in kinds):
        raise refuse_type(f"kinds is {kinds!r}, not a list of names")
    if not kinds or len(set(kinds)) < len(kinds):
        raise refuse(f"kinds is {list(kinds)!r}: at least one, and each once")
    return tuple(kinds)


def _tokens_by_kind(h: Hierarchy, kinds: Sequence[str]) -> Iterator[Tuple[int, Tensor]]:
    """Each kind that some token is of, as its index in ``kinds``, with those tokens. Of one kind all tokens are."""
    n, names, of = h.graph.n_tokens, h.graph.kind_names, h.graph.kinds()
    if len(kinds) == 1:
        yield 0, torch.arange(n)
        return
    if (of[:n] < 0).any():
        raise refuse(f"token {int(np.argmax(of[:n] < 0))} is of no kind: with_kinds tells which of {', '.join(kinds)} it is")
    for k in np.unique(of[:n]):
        if names[k] not in kinds:
            raise refuse(f"tokens are of kind {names[k]!r}, projections were made for {', '.join(kinds)}")
        yield kinds.index(names[k]), torch.from_numpy(np.flatnonzero(of[:n] == k))


class KindLinear(torch.nn.Module):
    """A linear map of its own for each kind of token: [batch, tokens, width] to [batch, tokens, out]. ``kinds`` are the names
    that ``with_kinds`` gave nodes; with one kind all tokens are of it."""

    @answering
    def __init__(self, width: int, out: int, kinds: Sequence[str], bias: bool = True) -> None:
        super().__init__()
        self.kinds = _names(kinds)
        self.width, self.out = whole(width, "width", least=1), whole(out, "out", least=1)
        self.each = torch.nn.ModuleList(torch.nn.Linear(self.width, self.out, bias=bias) for _ in self.kinds)

    def extra_repr(self) -> str:
        return f"{self.width}, {self.out}, kinds={list(self.kinds)!r}"

    def forward(self, x: Tensor, hierarchy: Hierarchy) -> Tensor:
        check_rows(x, "x", "tokens", self.width)
        if x.shape[1] != hierarchy.graph.n_tokens:
            raise refuse(f"x has {x.shape[1]} tokens, {hierarchy!r} {hierarchy.graph.n_tokens}")
        y = x.new_empty(*x.shape[:2], self.out)
        for k, tokens in _tokens_by_kind(hierarchy, self.kinds):
            y = y.index_copy(1, tokens.to(x.device), self.each[k](x[:, tokens]))
        return y


# ---- a layer ----


class HierarchicalEncoderLayer(torch.nn.Module):
    """A layer of the hierarchical transformer encoder: [batch, tokens, width] in and out, over a hierarchy that each call
    brings, ``layer(x, h)``: ``hga.hsa(parent=..).with_kinds(..)``, of which several roots are several documents. Queries, keys
    and values come from a projection for each of ``kinds``, and a LayerNorm behind it makes queries and keys of one length; HSA
    moves queries against the gradient of the tree's energy, by a projection that is learned; a network of ``hidden`` units
    works on each token. HSA itself knows no kinds. positions: so many columns of position embeddings of the hierarchy's nodes
    are taken, ``layer(x, h, node_pos)``, each through a projection of this layer. normaliser: "entmax:1.5" and the like."""

    @answering
    def __init__(self, width: int, heads: int, kinds: Sequence[str] = ("token",), *, hidden: Optional[int] = None, positions: int = 0,
                 dropout: float = 0.0, normaliser: Optional[str] = None, normalizer: Optional[str] = None) -> None:  # fmt: skip
        super().__init__()
        heads_of(width, heads, None)
        self.width, self.heads, self.dropout = width, heads, dropout_of(dropout)
        self.normaliser = normaliser_in(normaliser, normalizer)
        self.project = KindLinear(width, 3 * width, kinds)
        self.query_norm, self.key_norm = torch.nn.LayerNorm(width // heads), torch.nn.LayerNorm(width // heads)
        columns = whole(positions, "positions")
        self.position = torch.nn.Linear(columns, columns, bias=False) if columns else None
        self.out = torch.nn.Linear(width, width)
        hidden = 4 * width if hidden is None else whole(hidden, "hidden", least=1)
        self.network = torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, width))

    def extra_repr(self) -> str:
        return f"heads={self.heads}" + (f", normaliser={self.normaliser!r}" if self.normaliser else "")

    def forward(self, x: Tensor, hierarchy: Hierarchy, node_pos: Optional[Tensor] = None) -> Tensor:
        if (node_pos is None) != (self.position is None):
            raise refuse(f"node_pos is {'missing' if node_pos is None else 'given'}, positions={0 if self.position is None else self.position.in_features}")
        q, k, v = self.project(x, hierarchy).view(*x.shape[:2], 3, self.heads, self.width // self.heads).unbind(2)
        q, k = self.query_norm(q), self.key_norm(k)
        if self.position is not None:
            node_pos = self.position(node_pos)
        o = attended(self, hierarchy, q, k, v, node_pos=node_pos, normaliser=self.normaliser)
        y = q.reshape(x.shape) + self.out(o.reshape(x.shape))
        return cast(Tensor, y + self.network(y))


# ---- pooling ----


# Of a tree the coarser one, and which of its rows each token goes to.
_COARSER: "WeakKeyDictionary[Graph, Tuple[Hierarchy, Tensor]]" = WeakKeyDictionary()


def _means(x: Tensor, row_of: Tensor) -> Tensor:
    """[batch, rows, width]: of the tokens that go to each row."""
    row_of = row_of.to(x.device)
    tokens = torch.bincount(row_of)
    return x.new_zeros(x.shape[0], len(tokens), x.shape[2]).index_add(1, row_of, x) / tokens[:, None]


def _kinds_of(h: Hierarchy, goes: np.ndarray) -> List[Optional[str]]:
    """Each node's own kind, or the one that all of those that go into it are of."""
    names, of, parent, leaves = h.graph.kind_names, h.graph.kinds(), h.graph.parents(), np.flatnonzero(goes)
    least, most = np.full(len(of), len(names)), np.full(len(of), -1)
    np.minimum.at(least, parent[leaves], of[leaves])
    np.maximum.at(most, parent[leaves], of[leaves])
    kind = np.where(of >= 0, of, np.where(least == most, most, -1))
    return [names[k] if k >= 0 else None for k in kind]


def _first_tokens(parent: np.ndarray, n: int) -> np.ndarray:
    """[nodes]: the first of n tokens that each node stands for."""
    first = np.where(np.arange(len(parent)) < n, np.arange(len(parent)), len(parent))
    for v, p in enumerate(parent):  # parents come behind their children
        if p >= 0:
            first[p] = min(first[p], first[v])
    return first


def _without_leaves(h: Hierarchy) -> Tuple[Hierarchy, Tensor]:
    """The tree in which families of leaves alone are their parent, and which of its rows each token goes to."""
    parent, n, nodes = h.graph.parents(), h.graph.n_tokens, h.graph.n_nodes
    above = np.flatnonzero(parent >= 0)
    inner = np.zeros(nodes, bool)  # has a child that is no leaf
    inner[parent[above[above >= n]]] = True
    goes = np.zeros(nodes, bool)
    goes[:n] = (parent[:n] >= 0) & ~inner[parent[:n]]
    if not goes.any():
        raise refuse(f"{h!r}: no family of leaves alone is left to pool")
    stays = np.flatnonzero(~goes)
    is_inner = (stays >= n) & (inner[stays] | ~np.isin(stays, parent[:n][goes[:n]]))
    stays = stays[np.lexsort((_first_tokens(parent, n)[stays], is_inner))]  # leaves along the text, then the others
    number = np.empty(nodes, np.int64)
    number[stays] = np.arange(len(stays))
    new_parent = np.where(parent[stays] < 0, -1, number[parent[stays]]).astype(np.int32)
    coarser = cast(Hierarchy, make(variants()["hsa"], None, {"parent": new_parent, "leaves": "id"}))
    kinds = _kinds_of(h, goes)
    coarser = coarser.with_kinds([kinds[v] for v in stays])
    leaf = np.where(goes[:n], parent[:n], np.arange(n))
    return coarser, torch.from_numpy(cast(np.ndarray, coarser._node_of)[number[leaf]].astype(np.int64))


def pool_leaves(x: Tensor, hierarchy: Hierarchy) -> Tuple[Tensor, Hierarchy]:
    """Local pooling: each family of leaves alone becomes its parent, whose row is the mean of theirs: rows of [batch, tokens,
    width] and the coarser hierarchy. A parent that is of no kind is of the one that all of its leaves are of."""
    said = hierarchy.words.split()
    if "hsa" not in said or any(word.split("=")[0] in ("causal", "mode", "self") for word in said):  # the coarser one's is hsa as it begins
        raise refuse(f"{hierarchy!r}: leaves are pooled of hsa without causal, mode and self")
    if hierarchy.graph not in _COARSER:
        _COARSER[hierarchy.graph] = _without_leaves(hierarchy)
    coarser, row_of = _COARSER[hierarchy.graph]
    if (coarser._threads, coarser._bind, coarser._strict) != (hierarchy._threads, hierarchy._bind, hierarchy._strict):
        coarser = coarser.strict_rows(hierarchy._strict)
        coarser.threads, coarser.bind = hierarchy.threads, hierarchy.bind
    return _means(x, row_of), coarser


def pool_samples(x: Tensor, hierarchy: Hierarchy) -> Tensor:
    """Global pooling: the mean of each tree's tokens, [batch, trees, width], trees in the order of their first tokens."""
    parent, root = hierarchy.graph.parents(), np.arange(hierarchy.graph.n_tokens)
    while (parent[root] >= 0).any():
        root = np.where(parent[root] >= 0, parent[root], root)
    first: Dict[int, int] = {}
    return _means(x, torch.tensor([first.setdefault(r, len(first)) for r in root.tolist()]))


class HierarchicalEncoder(torch.nn.Module):
    """Layers of the hierarchical transformer encoder, one after the other, ``encoder(x, h)``: [batch, tokens, width] to
    [batch, trees, width], a row for each document. Behind each layer whose number is in ``pool``, 0 the first, families of
    leaves become their parents. What else there is, is the layers'."""

    @answering
    def __init__(self, width: int, heads: int, layers: int, kinds: Sequence[str] = ("token",), *, pool: Sequence[int] = (),
                 hidden: Optional[int] = None, dropout: float = 0.0, normaliser: Optional[str] = None,
                 normalizer: Optional[str] = None) -> None:  # fmt: skip
        super().__init__()
        normaliser = normaliser_in(normaliser, normalizer)
        self.pool = tuple(whole(i, "pool") for i in pool)
        for i in self.pool:
            if i >= layers:
                raise refuse(f"pool names layer {i} of {layers}")
        made = (HierarchicalEncoderLayer(width, heads, kinds, hidden=hidden, dropout=dropout, normaliser=normaliser) for _ in range(whole(layers, "layers", least=1)))
        self.layers = torch.nn.ModuleList(made)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: Tensor, hierarchy: Hierarchy) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x, hierarchy)
            if i in self.pool:
                x, hierarchy = pool_leaves(x, hierarchy)
        return pool_samples(self.norm(x), hierarchy)
