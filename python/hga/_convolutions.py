"""Graph attention as modules of torch, with the names, arguments and parameters that PyTorch Geometric's layers have: GATConv,
GATv2Conv, TransformerConv. Where its edge_index goes a Graph or a Hierarchy may, too: nodes above the tokens are seen then."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple, Union

import numpy as np
import torch

from ._core import refuse
from ._graph import Graph
from ._hierarchy import Hierarchy

Tensor = torch.Tensor
Edges = Union[Tensor, Graph, Hierarchy]
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _graph_of(edge_index: Tensor, nodes: int, self_loops: bool) -> Graph:
    """Row 0 sends to row 1. Edges that are given several times count as often."""
    pairs = edge_index.detach().cpu().numpy().astype(np.int64)
    if pairs.ndim != 2 or len(pairs) != 2:
        raise refuse(f"edge_index has shape {tuple(edge_index.shape)}, not [2, edges]")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < nodes:
        raise refuse(f"edge_index has node {pairs.max() if pairs.min() >= 0 else pairs.min()} of {nodes}")
    if self_loops:  # one for each node, in place of those that there are
        own = np.arange(nodes)
        pairs = np.concatenate([pairs[:, pairs[0] != pairs[1]], [own, own]], 1)
    return Graph.from_edges(pairs[0], pairs[1], nodes, repeated="sum")


class _Convolution(torch.nn.Module):
    """What the three have in common."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, dropout: float, edge_dim: Optional[int],
                 more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        if not isinstance(in_channels, int):
            raise refuse(f"{name}: in_channels {in_channels!r}: sources and destinations of two kinds are not offered")
        if in_channels < 1 or out_channels < 1 or heads < 1:
            raise refuse(f"{name}: {in_channels} in_channels, {out_channels} out_channels, {heads} heads: 1 or more are needed")
        if edge_dim is not None:
            raise refuse(f"{name}: edge_dim: features of edges are not offered")
        for argument, value in more.items():
            if (argument, value) not in (("aggr", "add"), ("flow", "source_to_target"), ("node_dim", 0)):
                raise refuse(f"{name}: {argument}={value!r} is not offered")
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.dropout = dropout
        self._last: Optional[Tuple[Any, int, int, Hierarchy]] = None

    def _made(self, h: Hierarchy) -> Hierarchy:
        """With the scores of the layer."""
        return h

    def _hierarchy(self, edges: Edges, nodes: int, self_loops: bool) -> Hierarchy:
        """That of the last call where the edges are the same tensor, unchanged."""
        changes = isinstance(edges, torch.Tensor) and not edges.is_inference()  # which have no version: they are not kept
        version = edges._version if changes else 0  # type: ignore[union-attr]
        if self._last and self._last[0] is edges and self._last[1:3] == (version, nodes):
            return self._last[3]
        if isinstance(edges, torch.Tensor):
            if edges.layout != torch.strided or edges.dtype not in WHOLE:
                raise refuse(f"edge_index of layout {edges.layout} and dtype {edges.dtype}: whole numbers [2, edges] are needed")
            h = _graph_of(edges, nodes, self_loops).hierarchy()
        elif isinstance(edges, (Graph, Hierarchy)):
            h = edges.hierarchy() if isinstance(edges, Graph) else edges
        else:
            raise refuse(f"edge_index is a {type(edges).__name__}, not a tensor, a Graph or a Hierarchy")
        made = self._made(h)
        self._last = (edges, version, nodes, made) if changes or not isinstance(edges, torch.Tensor) else None
        return made

    def _refuse(self, x: Any, edge_attr: Any, size: Any, weights: Any) -> None:
        name = type(self).__name__
        if not isinstance(x, torch.Tensor) or x.dim() != 2 or x.shape[1] != self.in_channels:
            what = f"shape {tuple(x.shape)}" if isinstance(x, torch.Tensor) else f"type {type(x).__name__}"
            raise refuse(f"{name}: x has {what}, not [nodes, {self.in_channels}]")
        if edge_attr is not None:
            raise refuse(f"{name}: edge_attr: features of edges are not offered")
        if size is not None and tuple(size) != (len(x), len(x)):
            raise refuse(f"{name}: size {tuple(size)}: sources and destinations of two kinds are not offered")
        if weights is not None:
            raise refuse(f"{name}: return_attention_weights: hga never has them all; h.weights(q, k, token) gives a row")

    def _attend(self, h: Hierarchy, q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Tensor:
        drop = self.dropout if self.training else 0.0
        seed = int(torch.randint(2**62, ())) if drop else 0
        out: Tensor = h.attention(q, k, v, layout="bnhd", dropout=drop, seed=seed, **more)
        return out.flatten(-2) if self.concat else out.mean(-2)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"

    def _columns(self) -> int:
        return self.heads * self.out_channels if self.concat else self.out_channels

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_last": None}


def _glorot(*parameters: Optional[Tensor]) -> None:
    for p in parameters:
        if p is not None:
            bound = (6 / (p.shape[-2] + p.shape[-1])) ** 0.5
            torch.nn.init.uniform_(p, -bound, bound)


def _linear(in_columns: int, out_columns: int, bias: bool) -> torch.nn.Linear:
    linear = torch.nn.Linear(in_columns, out_columns, bias=bias)
    _glorot(linear.weight)
    if bias:
        torch.nn.init.zeros_(linear.bias)
    return linear


class _Gat(_Convolution):
    """GAT and GATv2 have self-loops, a bias of the output and perhaps a residual."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, negative_slope: float, dropout: float,
                 add_self_loops: bool, edge_dim: Optional[int], bias: bool, residual: bool, more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, more)
        self.negative_slope, self.add_self_loops, self.residual = negative_slope, add_self_loops, residual
        self.res = _linear(in_channels, self._columns(), False) if residual else None
        self.bias: Optional[torch.nn.Parameter] = torch.nn.Parameter(torch.zeros(self._columns())) if bias else None

    def _made(self, h: Hierarchy) -> Hierarchy:
        return h.additive_scores(self.negative_slope)

    def _end(self, x: Tensor, out: Tensor) -> Tensor:
        if self.res is not None:
            out = out + self.res(x)
        return out if self.bias is None else out + self.bias


class GATConv(_Gat):
    """Graph attention (Velickovic et al. 2018): scores LeakyReLU(a_src . W x_u + a_dst . W x_v) of edges u -> v.
    x [nodes, in_channels] to [nodes, heads * out_channels], or the heads' mean with concat=False."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True, negative_slope: float = 0.2,
                 dropout: float = 0.0, add_self_loops: bool = True, edge_dim: Optional[int] = None, fill_value: Any = "mean",
                 bias: bool = True, residual: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, bias,
                         residual, kwargs)  # fmt: skip
        self.lin = _linear(in_channels, heads * out_channels, False)
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        _glorot(self.att_src, self.att_dst)

    def forward(self, x: Tensor, edge_index: Edges, edge_attr: Any = None, size: Any = None,
                return_attention_weights: Any = None) -> Tensor:  # fmt: skip
        self._refuse(x, edge_attr, size, return_attention_weights)
        v = self.lin(x).view(-1, self.heads, self.out_channels)
        w = self.lin.weight.view(self.heads, self.out_channels, -1)  # a . (W x) = (a W) x: no pass over all of W x
        k, q = ((x @ torch.einsum("hoi,ho->ih", w, a[0])).unsqueeze(-1) for a in (self.att_src, self.att_dst))
        return self._end(x, self._attend(self._hierarchy(edge_index, len(x), self.add_self_loops), q, k, v))


class GATv2Conv(_Gat):
    """Graph attention (Brody et al. 2022): scores a . LeakyReLU(W_l x_u + W_r x_v) of edges u -> v, values W_l x_u."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True, negative_slope: float = 0.2,
                 dropout: float = 0.0, add_self_loops: bool = True, edge_dim: Optional[int] = None, fill_value: Any = "mean",
                 bias: bool = True, share_weights: bool = False, residual: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, bias,
                         residual, kwargs)  # fmt: skip
        self.share_weights = share_weights
        self.lin_l = _linear(in_channels, heads * out_channels, bias)
        self.lin_r = self.lin_l if share_weights else _linear(in_channels, heads * out_channels, bias)
        self.att = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        _glorot(self.att)

    def forward(self, x: Tensor, edge_index: Edges, edge_attr: Any = None, return_attention_weights: Any = None) -> Tensor:
        self._refuse(x, edge_attr, None, return_attention_weights)
        k = self.lin_l(x).view(-1, self.heads, self.out_channels)
        q = k if self.share_weights else self.lin_r(x).view(-1, self.heads, self.out_channels)
        h = self._hierarchy(edge_index, len(x), self.add_self_loops)
        return self._end(x, self._attend(h, q, k, k, additive=self.att[0]))


class TransformerConv(_Convolution):
    """Scaled products of queries and keys along edges (Shi et al. 2021), with a skip connection that ``beta`` gates."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True, beta: bool = False,
                 dropout: float = 0.0, edge_dim: Optional[int] = None, bias: bool = True, root_weight: bool = True,
                 **kwargs: Any) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, kwargs)
        self.beta, self.root_weight = beta and root_weight, root_weight
        make: Callable[[int, int, bool], torch.nn.Linear] = lambda i, o, b: torch.nn.Linear(i, o, bias=b)  # noqa: E731
        self.lin_key, self.lin_query, self.lin_value = (make(in_channels, heads * out_channels, bias_) for bias_ in (True,) * 3)
        self.lin_skip = make(in_channels, self._columns(), bias) if root_weight else None
        self.lin_beta = make(3 * self._columns(), 1, False) if self.beta else None

    def forward(self, x: Tensor, edge_index: Edges, edge_attr: Any = None, return_attention_weights: Any = None) -> Tensor:
        self._refuse(x, edge_attr, None, return_attention_weights)
        q, k, v = (
            lin(x).view(-1, self.heads, self.out_channels) for lin in (self.lin_query, self.lin_key, self.lin_value)
        )  # fmt: skip
        out = self._attend(self._hierarchy(edge_index, len(x), False), q, k, v)
        if self.lin_skip is None:
            return out
        own: Tensor = self.lin_skip(x)
        if self.lin_beta is None:
            return out + own
        share = torch.sigmoid(self.lin_beta(torch.cat([out, own, out - own], -1)))
        return torch.lerp(out, own, share)


__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]
