"""Graph attention as modules of torch, with the names, arguments and parameters that PyTorch Geometric's layers have: GATConv,
GATv2Conv, TransformerConv. Where its edge_index goes a Graph or a Hierarchy may, too: nodes above the tokens are seen then."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

import numpy as np
import torch

from ._arguments import whole
from ._core import refuse
from ._deferred import deferred
from ._graph import Graph
from ._hierarchy import Hierarchy
from ._made import Made
from ._one_pass import drawn

Tensor = torch.Tensor
Edges = Union[Tensor, Graph, Hierarchy]
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@deferred
def _graph_of(edge_index: Tensor, nodes: int, self_loops: bool) -> Graph:
    """Row 0 sends to row 1. Edges that are given several times count as often."""
    pairs = edge_index.detach().cpu().numpy()
    if pairs.ndim != 2 or len(pairs) != 2:
        raise refuse(f"edge_index has shape {tuple(edge_index.shape)}, not [2, edges]")
    least, most = (int(pairs.min()), int(pairs.max())) if pairs.size else (0, -1)
    if least < 0 or most >= nodes:
        raise refuse(f"edge_index has node {most if least >= 0 else least} of {nodes}")
    source, destination = (row.astype(np.int32) for row in pairs)
    if self_loops:
        source, destination = _with_loops(source, destination, nodes)
    return Graph.from_edges(source, destination, nodes, repeated="sum")


def _with_loops(source: np.ndarray, destination: np.ndarray, nodes: int) -> Tuple[np.ndarray, np.ndarray]:
    """One for each node, in place of those that there are."""
    there, without = np.flatnonzero(source == destination), np.ones(nodes, bool)
    own, once = np.unique(source[there], return_index=True)
    again = np.delete(there, once)
    if len(again):
        source, destination = np.delete(source, again), np.delete(destination, again)
    without[own] = False
    more = np.flatnonzero(without).astype(np.int32)
    return np.concatenate([source, more]), np.concatenate([destination, more])


class _Convolution(torch.nn.Module):
    """What the three have in common."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, dropout: float, edge_dim: Optional[int],
                 more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        if not isinstance(in_channels, int):
            raise refuse(f"{name}: in_channels {in_channels!r}: sources and destinations of two kinds are not offered")
        for given, argument in ((in_channels, "in_channels"), (out_channels, "out_channels"), (heads, "heads")):
            whole(given, f"{name}: {argument}", least=1)
        if edge_dim is not None:
            raise refuse(f"{name}: edge_dim: features of edges are not offered")
        for argument, value in more.items():
            if (argument, value) not in (("aggr", "add"), ("flow", "source_to_target"), ("node_dim", 0)):
                raise refuse(f"{name}: {argument}={value!r} is not offered")
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.dropout = dropout
        self._last: Optional[Tuple[Any, int, int, Hierarchy]] = None
        self._before: Optional[Hierarchy] = None  # of the tensor that came last

    def _made(self, h: Hierarchy) -> Hierarchy:
        """With the scores of the layer."""
        return h

    def _hierarchy(self, edges: Edges, nodes: int, self_loops: bool) -> Hierarchy:
        """That of the last call where the edges are the same tensor, unchanged."""
        if torch.compiler.is_compiling():
            return self._made(self._of(edges, nodes, self_loops))
        changes = isinstance(edges, torch.Tensor) and not edges.is_inference()  # which have no version: they are not kept
        version = edges._version if changes else 0  # type: ignore[union-attr]
        if self._last and self._last[0] is edges and self._last[1:3] == (version, nodes):
            return self._last[3]
        made = self._made(self._of(edges, nodes, self_loops))
        if isinstance(edges, torch.Tensor):
            self._before = made._follows(self._before)
        self._last = (edges, version, nodes, made) if changes or not isinstance(edges, torch.Tensor) else None
        return made

    @staticmethod
    def _of(edges: Edges, nodes: int, self_loops: bool) -> Hierarchy:
        if isinstance(edges, torch.Tensor):
            if edges.layout != torch.strided or edges.dtype not in WHOLE:
                raise refuse(f"edge_index of layout {edges.layout} and dtype {edges.dtype}: whole numbers [2, edges] are needed")
            return _graph_of(edges, nodes, self_loops).hierarchy()
        if not isinstance(edges, (Graph, Hierarchy, Made)):
            raise refuse(f"edge_index is a {type(edges).__name__}, not a tensor, a Graph or a Hierarchy")
        return edges if isinstance(edges, Hierarchy) else edges.hierarchy()

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
        out: Tensor = h.attention(q, k, v, layout="bnhd", dropout=drop, seed=drawn(drop), **more)
        return out.flatten(-2) if self.concat else out.mean(-2)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"

    def _columns(self) -> int:
        return self.heads * self.out_channels if self.concat else self.out_channels

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_last": None, "_before": None}


def _glorot(*parameters: Tensor) -> None:
    for p in parameters:
        bound = (6 / (p.shape[-2] + p.shape[-1])) ** 0.5
        torch.nn.init.uniform_(p, -bound, bound)


class _Gat(_Convolution):
    """GAT and GATv2 have self-loops, a bias of the output and perhaps a residual. Parameters are made and drawn in PyG's order,
    so that one seed gives both packages the same ones."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, negative_slope: float, dropout: float,
                 add_self_loops: bool, edge_dim: Optional[int], residual: bool, more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, more)
        self.negative_slope, self.add_self_loops, self.residual = negative_slope, add_self_loops, residual

    def _finish(self, bias: bool) -> None:
        self.bias: Optional[torch.nn.Parameter] = torch.nn.Parameter(torch.empty(self._columns())) if bias else None
        self.res = torch.nn.Linear(self.in_channels, self._columns(), bias=False) if self.residual else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        raise NotImplementedError

    def _reset(self, *layers: Optional[torch.nn.Linear]) -> None:
        for linear in filter(None, layers):
            _glorot(linear.weight)
            if linear.bias is not None:
                torch.nn.init.uniform_(linear.bias, -(linear.in_features**-0.5), linear.in_features**-0.5)
        _glorot(*(p for name, p in self.named_parameters(recurse=False) if name != "bias"))
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

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
        super().__init__(in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, residual,
                         kwargs)  # fmt: skip
        self.lin = torch.nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self._finish(bias)

    def reset_parameters(self) -> None:
        self._reset(self.lin, self.res)

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
        super().__init__(in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, residual,
                         kwargs)  # fmt: skip
        self.share_weights = share_weights
        self.lin_l = torch.nn.Linear(in_channels, heads * out_channels, bias=bias)
        self.lin_r = self.lin_l if share_weights else torch.nn.Linear(in_channels, heads * out_channels, bias=bias)
        self.att = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self._finish(bias)

    def reset_parameters(self) -> None:
        self._reset(self.lin_l, self.lin_r, self.res)

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
        self.lin_key = torch.nn.Linear(in_channels, heads * out_channels, bias=bias)
        self.lin_query = torch.nn.Linear(in_channels, heads * out_channels, bias=bias)
        self.lin_value = torch.nn.Linear(in_channels, heads * out_channels, bias=bias)
        self.lin_skip = torch.nn.Linear(in_channels, self._columns(), bias=bias)  # kept without root_weight, too, as PyG does
        self.lin_beta = torch.nn.Linear(3 * self._columns(), 1, bias=False) if self.beta else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in filter(None, (self.lin_key, self.lin_query, self.lin_value, self.lin_skip, self.lin_beta)):
            linear.reset_parameters()

    def forward(self, x: Tensor, edge_index: Edges, edge_attr: Any = None, return_attention_weights: Any = None) -> Tensor:
        self._refuse(x, edge_attr, None, return_attention_weights)
        q, k, v = (
            lin(x).view(-1, self.heads, self.out_channels) for lin in (self.lin_query, self.lin_key, self.lin_value)
        )  # fmt: skip
        out = self._attend(self._hierarchy(edge_index, len(x), False), q, k, v)
        if not self.root_weight:
            return out
        own: Tensor = self.lin_skip(x)
        if self.lin_beta is None:
            return out + own
        share = torch.sigmoid(self.lin_beta(torch.cat([out, own, out - own], -1)))
        return torch.lerp(out, own, share)


__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]
