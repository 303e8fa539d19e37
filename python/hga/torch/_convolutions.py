"""Graph attention as modules of torch, with the names, arguments and parameters that PyTorch Geometric's layers have: GATConv,
GATv2Conv, TransformerConv. Where its edge_index goes a Graph or a Hierarchy may, too: nodes above the tokens are seen then."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union, get_type_hints

import torch

from .._core.arguments import flag, whole
from ._columns import LATER, GlorotLinear, Linear, columns, glorot
from .._core.values import Error, refuse
from ._edge_index import (
    Featured, Looped, Sizes, Weights, checked, featured, edges_of, graph_of, is_graph, is_sparse_tensor, looped, sizes_of, softmax,
    with_weights,
)  # fmt: skip
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from ._compiled import Made
from ._messages import Messages
from ._one_pass import drawn

Tensor = torch.Tensor
Optional_ = Optional[Tensor]
Edges = Union[Tensor, Graph, Hierarchy]
Nodes = Union[Tensor, Tuple[Tensor, Optional_]]


class _Rows(NamedTuple):
    """Rows of sources and of destinations, which may be the same tensor; without rows destinations are counted alone."""

    source: Tensor
    destination: Optional_
    sizes: Sizes


class _Convolution(Messages):
    """What the three have in common."""

    lin_edge: Optional[Linear]
    _alpha: Optional_ = None  # weights, inside a call alone: PyTorch Geometric's tools read them here

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, dropout: float, edge_dim: Optional[int],
                 more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        pair = isinstance(in_channels, (tuple, list))
        if pair and len(in_channels) != 2:
            raise refuse(f"{name}: in_channels {in_channels!r}: a number, or one for sources and one for destinations")
        self._channels: Tuple[int, int] = tuple(in_channels) if pair else (in_channels, in_channels)
        for size, argument in [(x, "in_channels") for x in self._channels] + [(edge_dim, "edge_dim")] * (edge_dim is not None):
            columns(size, f"{name}: {argument}")
        for size, argument in (out_channels, "out_channels"), (heads, "heads"):
            whole(size, f"{name}: {argument}", least=1)
        for argument, value in more.items():
            if (argument, value) not in (("aggr", "add"), ("flow", "source_to_target"), ("node_dim", 0)):
                raise refuse(f"{name}: {argument}={value!r} is not offered")
        self.in_channels, self.out_channels, self.heads = in_channels, out_channels, heads
        self.concat = flag(concat, f"{name}: concat")
        self.dropout, self.edge_dim = dropout, edge_dim
        self._last: Optional[Tuple[Any, Any, Any]] = None
        self._before: Optional[Hierarchy] = None  # of the tensor that came last

    # ---- edges ----

    def _made(self, h: Hierarchy) -> Hierarchy:
        """With the scores of the layer."""
        return h

    def _once(self, edges: Any, key: Tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """That of the last call where the edges are the same tensor, unchanged."""
        is_tensor = isinstance(edges, torch.Tensor)
        if torch.compiler.is_compiling():
            return make()
        changes = is_tensor and not edges.is_inference()  # which have no version: they are not cached
        key = (edges._version if changes else 0, *key)
        if self._last and self._last[0] is edges and self._last[1] == key:
            return self._last[2]
        made = make()
        self._last = (edges, key, made) if changes or not is_tensor else None
        return made

    def _followed(self, h: Hierarchy) -> Hierarchy:
        """Of other edges than before: plans go on."""
        if torch.compiler.is_compiling():
            return self._made(h)
        self._before = self._made(h)._follows(self._before)
        return self._before

    def _hierarchy(self, edges: Any, sizes: Sizes, loops: bool) -> Hierarchy:
        if is_graph(edges):
            h: Any = edges if isinstance(edges, Hierarchy) else None
            found: Hierarchy = self._once(edges, (sizes,), lambda: self._made(h if h is not None else edges.hierarchy()))
            return found
        found = self._once(edges, (sizes, loops), lambda: self._followed(graph_of(edges_of(edges).ends, sizes, loops).hierarchy()))
        return found

    def _featured(self, edges: Any, sizes: Sizes, loops: int) -> Featured:
        def made() -> Featured:
            found = featured(edges_of(edges).ends, sizes, loops)
            return found._replace(hierarchy=self._followed(found.hierarchy))

        found: Featured = self._once(edges, (sizes, loops, "features"), made)
        return found

    # ---- what comes ----

    def _rows(self, x: Any, edges: Any, layers: Tuple[Optional[Linear], Optional[Linear]], size: Any = None) -> _Rows:
        name, sides = type(self).__name__, tuple(x) if isinstance(x, (tuple, list)) else (x, x)
        if len(sides) != 2:
            raise refuse(f"{name}: x has {len(sides)} parts, not sources and destinations")
        for side, layer in zip(sides, layers):
            if side is None and side is not sides[0]:
                continue
            n = LATER if layer is None else layer.in_features
            if not isinstance(side, torch.Tensor) or side.dim() != 2 or (n != LATER and n != side.shape[1]):  # `in` has no trace in torch 2.9
                what = f"shape {tuple(side.shape)}" if isinstance(side, torch.Tensor) else f"type {type(side).__name__}"
                raise refuse(f"{name}: x has {what}, not [nodes, {'columns' if n == LATER else n}]")
        source, destination = sides
        sizes = [len(source), len(source) if destination is None else len(destination)]
        size = sizes_of(edges) if size is None else size
        if size is not None:
            for i, n in enumerate(size):
                if n is not None and n != sizes[i] and (i == 0 or destination is not None):
                    raise refuse(f"{name}: size {tuple(size)}, but x has {sizes[i]} {('sources', 'destinations')[i]}")
            sizes[1] = sizes[1] if size[1] is None else size[1]
        return _Rows(source, destination, (sizes[0], sizes[1]))

    def _features(self, edges: Any, edge_attr: Any) -> Optional_:
        """[edges, edge_dim], of the call or of a matrix."""
        name = type(self).__name__
        if edge_attr is None and not is_graph(edges) and self.edge_dim is not None:
            edge_attr = edges_of(edges).features
        if edge_attr is None:
            return None
        if self.lin_edge is None:
            raise refuse(f"{name}: edge_attr: the layer was made without edge_dim")
        if is_graph(edges):
            raise refuse(f"{name}: edge_attr goes with an edge_index, not with a {type(edges).__name__}")
        if not isinstance(edge_attr, torch.Tensor):
            raise refuse(f"{name}: edge_attr has type {type(edge_attr).__name__}")
        rows, n = edge_attr.view(-1, 1) if edge_attr.dim() == 1 else edge_attr, edges_of(edges).ends.shape[-1]
        if rows.dim() != 2 or len(rows) != n or self.lin_edge.in_features not in (LATER, rows.shape[1]):
            raise refuse(f"{name}: edge_attr has shape {tuple(edge_attr.shape)}, not [{n}, {self.lin_edge.in_features}]")
        return rows

    def _index(self, edges: Any, sizes: Sizes, loops: int) -> Looped:
        """Every edge, one by one, as weights and messages are."""
        if is_graph(edges):
            what = "an explanation" if self._is_watched() else "return_attention_weights"
            raise refuse(f"{type(self).__name__}: {what} goes with an edge_index; h.weights(q, k, token) gives a row")
        return looped(checked(edges_of(edges).ends, sizes), loops)

    # ---- attention ----

    def _drop(self) -> float:
        return self.dropout if self.training else 0.0

    def _attend(self, h: Hierarchy, q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Any:
        drop = self._drop()
        return h.attention(q, k, v, layout="bnhd", dropout=drop, seed=drawn(drop), **more)

    def _joined(self, out: Tensor) -> Tensor:
        return out.flatten(-2) if self.concat else out.mean(-2)

    def _by_head(self, x: Tensor) -> Tensor:
        return x.view(-1, self.heads, self.out_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"

    def _columns(self) -> int:
        return self.heads * self.out_channels if self.concat else self.out_channels

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "_last": None, "_before": None}


class _Gat(_Convolution):
    """GAT and GATv2 have self-loops, a bias of the output and perhaps a residual; features of edges are in what goes through
    the leak. Parameters are made and drawn in PyG's order, so that one seed gives both packages the same ones."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, negative_slope: float, dropout: float,
                 add_self_loops: bool, edge_dim: Optional[int], fill_value: Any, residual: bool, more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, more)
        self.negative_slope, self.add_self_loops, self.residual = negative_slope, flag(add_self_loops, "add_self_loops"), flag(residual, "residual")
        self.fill_value = fill_value

    def _edge_layer(self) -> Optional[Linear]:
        return None if self.edge_dim is None else GlorotLinear(self.edge_dim, self.heads * self.out_channels, bias=False)

    def _finish(self, bias: bool) -> None:
        self.bias: Optional[torch.nn.Parameter] = torch.nn.Parameter(torch.empty(self._columns())) if bias else None
        self.res = GlorotLinear(self._channels[1], self._columns(), bias=False) if self.residual else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        raise NotImplementedError

    def _reset(self, *layers: Optional[Linear]) -> None:
        for linear in filter(None, (*layers, self.lin_edge, self.res)):
            linear.reset_parameters()
        glorot(*(p for name, p in self.named_parameters(recurse=False) if name.startswith("att")))  # tools add others
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def _made(self, h: Hierarchy) -> Hierarchy:
        return h.additive_scores(self.negative_slope)

    def _ready(self, rows: _Rows) -> None:
        """PyG draws the residual's columns before all others."""
        if self.res is not None and rows.destination is not None:
            self.res.ready(rows.destination)

    def _score(self, z: Tensor) -> Tensor:
        """[edges, heads], of what goes through the leak: [edges, heads, columns]."""
        raise NotImplementedError

    def _edge_keys(self, features: Tensor) -> Tensor:
        """[edges, heads * columns of keys]: what features add there."""
        raise NotImplementedError

    def _run(self, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, edges: Any, edge_attr: Any, returns: Any, more: Dict[str, Any]) -> Any:
        features = self._features(edges, edge_attr)
        loops = min(rows.sizes) if self.add_self_loops else 0
        if self.edge_dim is not None and loops and is_sparse_tensor(edges):  # as in PyG
            raise Error("HGA_EUNSUPPORTED", f"{type(self).__name__}: add_self_loops and edge_dim do not go with a SparseTensor")
        if not (returns or self._is_watched()):
            return self._end(rows, self._attended(rows, q, k, v, edges, features, loops, more)), None
        found = self._index(edges, rows.sizes, loops)
        each, index = None if features is None else found.of_each(features, self.fill_value), torch.from_numpy(found.ends)
        if self._is_watched():
            weights, out = self._gathered(rows, q, k, v, index.long(), each)
        else:
            source, destination = index.long()
            weights = self.edge_update(q.index_select(0, destination), k.index_select(0, source), each, destination, rows.sizes[1])
            out = (Weights(index, weights).sums(v.index_select(0, source), rows.sizes[1]) if self._drop()
                   else self._attended(rows, q, k, v, edges, features, loops, more))  # fmt: skip
        return self._end(rows, out), with_weights(edges, index, weights) if returns else None

    def _attended(self, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, edges: Any, features: Optional_, loops: int,
                  more: Dict[str, Any]) -> Any:  # fmt: skip
        if features is None:
            return self._attend(self._hierarchy(edges, rows.sizes, self.add_self_loops), q, k, v, **more)
        found = self._featured(edges, rows.sizes, loops)
        more["edge_key"] = self._edge_keys(found.ordered(features, self.fill_value))
        return self._attend(found.hierarchy, q, k, v, **more)

    # ---- along edges, by PyTorch Geometric's steps ----

    def _gathered(self, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, index: Tensor, features: Optional_) -> Tuple[Tensor, Tensor]:
        """Weights and outputs."""
        weights = self.edge_updater(index, query=(None, q), key=(k, None), edge_attr=features)
        return weights, self.propagate(index, size=rows.sizes, x=(v, self._of_destinations(rows, q)), alpha=weights)

    def _of_destinations(self, rows: _Rows, q: Tensor) -> Optional_:
        """What explanations may want of them beside weights."""
        return q

    def edge_update(self, query_i: Tensor, key_j: Tensor, edge_attr: Optional_, index: Tensor, dim_size: int) -> Tensor:
        """Weights of edges, after some are dropped."""
        z = query_i + key_j
        if edge_attr is not None:
            z = z + self._edge_keys(edge_attr).view(z.shape)
        weights = softmax(self._score(torch.nn.functional.leaky_relu(z, self.negative_slope)), index, dim_size)
        return torch.nn.functional.dropout(weights, self.dropout, self.training)

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        return alpha.unsqueeze(-1) * x_j

    def _end(self, rows: _Rows, out: Tensor) -> Tensor:
        out = self._joined(out)
        if self.res is not None and rows.destination is not None:
            out = out + self.res(rows.destination)
        return out if self.bias is None else out + self.bias


class GATConv(_Gat):
    """Graph attention (Velickovic et al. 2018): scores LeakyReLU(a_src . W x_u + a_dst . W x_v + a_edge . W_edge e) of edges u -> v.
    x [nodes, in_channels], or (sources, destinations), to [nodes, heads * out_channels], or the heads' mean with concat=False."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int = 1, concat: bool = True, negative_slope: float = 0.2,
                 dropout: float = 0.0, add_self_loops: bool = True, edge_dim: Optional[int] = None, fill_value: Any = "mean",
                 bias: bool = True, residual: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, fill_value,
                         residual, kwargs)  # fmt: skip
        self.lin = self.lin_src = self.lin_dst = None
        if isinstance(in_channels, int):
            self.lin = GlorotLinear(in_channels, heads * out_channels, bias=False)
        else:
            self.lin_src, self.lin_dst = (GlorotLinear(n, heads * out_channels, bias=False) for n in in_channels)
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = self._edge_layer()
        self.att_edge = None if edge_dim is None else torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self._finish(bias)

    def reset_parameters(self) -> None:
        self._reset(self.lin, self.lin_src, self.lin_dst)

    def _contracted(self, x: Tensor, linear: Optional[Linear], a: Optional_) -> Tensor:
        """[rows, heads]: a . (W x) = (a W) x: no pass over all of W x."""
        assert linear is not None and a is not None
        return x @ torch.einsum("hoi,ho->ih", linear.ready(x).weight.view(self.heads, self.out_channels, -1), a[0])

    def _of_destinations(self, rows: _Rows, q: Tensor) -> Optional_:
        linear = self.lin_dst or self.lin
        assert linear is not None
        return None if rows.destination is None else self._by_head(linear(rows.destination))

    def _score(self, z: Tensor) -> Tensor:
        return z.squeeze(-1)

    def _edge_keys(self, features: Tensor) -> Tensor:
        return self._contracted(features, self.lin_edge, self.att_edge)

    def forward(self, x: Nodes, edge_index: Edges, edge_attr: Any = None, size: Any = None,
                return_attention_weights: Any = None) -> Any:  # fmt: skip
        of_source, of_destination = self.lin_src or self.lin, self.lin_dst or self.lin
        assert of_source is not None
        rows = self._rows(x, edge_index, (of_source, of_destination), size)
        self._ready(rows)
        v = self._by_head(of_source(rows.source))
        k = self._contracted(rows.source, of_source, self.att_src).unsqueeze(-1)
        if rows.destination is None:
            q = k.new_zeros(rows.sizes[1], self.heads, 1)
        else:
            q = self._contracted(rows.destination, of_destination, self.att_dst).unsqueeze(-1)
        out, weights = self._run(rows, q, k, v, edge_index, edge_attr, return_attention_weights, {})
        return (out, weights) if return_attention_weights else out


class GATv2Conv(_Gat):
    """Graph attention (Brody et al. 2022): scores a . LeakyReLU(W_l x_u + W_r x_v + W_edge e) of edges u -> v, values W_l x_u."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int = 1, concat: bool = True, negative_slope: float = 0.2,
                 dropout: float = 0.0, add_self_loops: bool = True, edge_dim: Optional[int] = None, fill_value: Any = "mean",
                 bias: bool = True, share_weights: bool = False, residual: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, fill_value,
                         residual, kwargs)  # fmt: skip
        self.share_weights = share_weights
        self.lin_l = GlorotLinear(self._channels[0], heads * out_channels, bias=bias)
        self.lin_r = self.lin_l if share_weights else GlorotLinear(self._channels[1], heads * out_channels, bias=bias)
        self.att = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = self._edge_layer()
        self._finish(bias)

    def reset_parameters(self) -> None:
        self._reset(self.lin_l, self.lin_r)

    def _score(self, z: Tensor) -> Tensor:
        return (z * self.att).sum(-1)

    def _edge_keys(self, features: Tensor) -> Tensor:
        assert self.lin_edge is not None
        keys: Tensor = self.lin_edge(features)
        return keys

    def forward(self, x: Nodes, edge_index: Edges, edge_attr: Any = None, return_attention_weights: Any = None) -> Any:
        rows = self._rows(x, edge_index, (self.lin_l, self.lin_r))
        if rows.destination is None:
            raise refuse("GATv2Conv: x has no destinations, whose rows scores need")
        self._ready(rows)
        k = self._by_head(self.lin_l(rows.source))
        same = self.share_weights and rows.destination is rows.source
        q = k if same else self._by_head(self.lin_r(rows.destination))
        out, weights = self._run(rows, q, k, k, edge_index, edge_attr, return_attention_weights, {"additive": self.att[0]})
        return (out, weights) if return_attention_weights else out


class TransformerConv(_Convolution):
    """Scaled products of queries and keys along edges (Shi et al. 2021), with a skip connection that ``beta`` gates. Features of
    edges are added to keys and to values."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int = 1, concat: bool = True, beta: bool = False,
                 dropout: float = 0.0, edge_dim: Optional[int] = None, bias: bool = True, root_weight: bool = True,
                 **kwargs: Any) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, kwargs)
        self.root_weight = flag(root_weight, "root_weight")
        self.beta = flag(beta, "beta") and self.root_weight
        of_source, of_destination = self._channels
        self.lin_key = Linear(of_source, heads * out_channels, bias=bias)
        self.lin_query = Linear(of_destination, heads * out_channels, bias=bias)
        self.lin_value = Linear(of_source, heads * out_channels, bias=bias)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, heads * out_channels, bias=False)
        self.lin_skip = Linear(of_destination, self._columns(), bias=bias)  # kept without root_weight, too, as PyG does
        self.lin_beta = Linear(3 * self._columns(), 1, bias=False) if self.beta else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        layers = (self.lin_key, self.lin_query, self.lin_value, self.lin_edge, self.lin_skip, self.lin_beta)
        for linear in filter(None, layers):
            linear.reset_parameters()

    def _run(self, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, edges: Any, features: Optional_) -> Tensor:
        if features is None:
            out: Tensor = self._attend(self._hierarchy(edges, rows.sizes, False), q, k, v)
            return out
        found = self._featured(edges, rows.sizes, 0)
        features = found.ordered(features, None)
        assert self.lin_edge is not None
        out, more = self._attend(found.hierarchy, q, k, v, edge_key=self.lin_edge(features), edge_value=features)
        w = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
        return out + torch.einsum("nhf,hcf->nhc", more, w)

    def _weighed(self, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, edges: Any, features: Optional_) -> Tuple[Tensor, Tensor]:
        """The output, and the weight of every edge before any is dropped."""
        index = torch.from_numpy(self._index(edges, rows.sizes, 0).ends).long()
        if self._is_watched():
            out = self.propagate(index, size=rows.sizes, query=(None, q), key=(k, None), value=(v, None), edge_attr=features)
        else:
            (source, destination), n = index, rows.sizes[1]
            each = (x.index_select(0, at) for x, at in ((q, destination), (k, source), (v, source)))
            sent = self.message(*each, features, destination, n)  # type: ignore[arg-type, call-arg]
            out = v.new_zeros(n, *v.shape[1:]).index_add(0, destination, sent) if self._drop() else self._run(rows, q, k, v, edges, features)
        weights, self._alpha = self._alpha, None
        assert weights is not None
        return out, weights

    def message(self, query_i: Tensor, key_j: Tensor, value_j: Tensor, edge_attr: Optional_, index: Tensor, size_i: int) -> Tensor:
        """What PyTorch Geometric's steps, too, send along edges."""
        if edge_attr is not None and self.lin_edge is not None:
            more = self._by_head(self.lin_edge(edge_attr))
            key_j, value_j = key_j + more, value_j + more
        self._alpha = softmax((query_i * key_j).sum(-1) / self.out_channels**0.5, index, size_i)
        return torch.nn.functional.dropout(self._alpha, self.dropout, self.training).unsqueeze(-1) * value_j

    def forward(self, x: Nodes, edge_index: Edges, edge_attr: Any = None, return_attention_weights: Any = None) -> Any:
        rows = self._rows(x, edge_index, (self.lin_key, self.lin_query))
        returns = isinstance(return_attention_weights, bool)
        if rows.destination is None:
            raise refuse("TransformerConv: x has no destinations, which have the queries")
        features = self._features(edge_index, edge_attr)
        if features is None and self.edge_dim is not None:
            raise refuse("TransformerConv: the layer was made with edge_dim, and edge_attr is missing")
        q = self._by_head(self.lin_query(rows.destination))
        k, v = (self._by_head(lin(rows.source)) for lin in (self.lin_key, self.lin_value))
        if not (returns or self._is_watched()):
            return self._skipped(self._joined(self._run(rows, q, k, v, edge_index, features)), rows.destination)
        out, weights = self._weighed(rows, q, k, v, edge_index, features)
        out = self._skipped(self._joined(out), rows.destination)
        return (out, with_weights(edge_index, edges_of(edge_index).ends, weights)) if returns else out  # type: ignore[arg-type]

    def _skipped(self, out: Tensor, x: Tensor) -> Tensor:
        if not self.root_weight:
            return out
        own: Tensor = self.lin_skip(x)
        if self.lin_beta is None:
            return out + own
        share = torch.sigmoid(self.lin_beta(torch.cat([out, own, out - own], -1)))
        return torch.lerp(out, own, share)


# PyTorch Geometric before 2.6 reads the types of these where a layer's own class is, which may be another module than this one.
for _method in (_Gat.edge_update, _Gat.message, TransformerConv.message):
    _method.__annotations__ = get_type_hints(_method)


__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]
