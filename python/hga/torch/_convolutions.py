"""Graph attention as modules of torch, with the names, arguments and parameters that PyTorch Geometric's layers have: GATConv,
GATv2Conv, TransformerConv. Where its edge_index goes a Graph or a Hierarchy may, too: nodes above the tokens are seen then."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union, get_type_hints

import torch

from .._core.arguments import flag, number, unknown, whole
from .._core.library import Error, refuse
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from ._edge_index import edge_list, edges_of, graph_of, is_graph, is_sparse_tensor, looped, once, sizes_of, softmax, summed, with_loops, with_weights
from ._edge_lists import How, Sizes, along, rows_of
from ._messages import LATER, GlorotLinear, Linear, Messages, glorot
from ._module_arguments import attended, drop_of
from ._one_pass import drawn, unseen

Tensor = torch.Tensor
Optional_ = Optional[Tensor]
Edges = Union[Tensor, Graph, Hierarchy]
Nodes = Union[Tensor, Tuple[Tensor, Optional_]]


class _Call(NamedTuple):
    """What a layer is called with, checked: rows of sources and of destinations, which may be the same tensor (without rows
    destinations are counted alone), edges with their features, and how many nodes get a self-loop, whose features are ``fill``."""

    source: Tensor
    destination: Optional_
    sizes: Sizes
    edges: Any
    features: Optional_
    loops: int
    fill: Any


def _along(call: _Call, slope: Optional[float], dropout: float, to_values: bool, q: Tensor, k: Tensor, v: Tensor, additive: Optional_,
           edge: Optional_) -> Tensor:  # fmt: skip
    if torch.compiler.is_compiling():  # torch.compile leaves this function out
        raise Error("HGA_EUNSUPPORTED", "torch.export of a graph layer with features of edges is not offered")
    edges = edge_list(call.edges, call.sizes, call.loops, call.features is not None)
    return along(edges, How(slope, dropout, drawn(dropout), to_values), q, k, v, additive, edge)


# torch.compile does not see what C does.
_along_apart = unseen(_along)


# What MessagePassing takes beside a layer's own arguments, as these layers have it.
_OF_MESSAGES = {"aggr": "add", "flow": "source_to_target", "node_dim": 0}


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
            if whole(size, f"{name}: {argument}", least=-(2**63)) < 1 and size != LATER:
                raise refuse(f"{name}: {argument} is {size}; it must be at least 1, or {LATER}: as many as the first rows have")
        for size, argument in (out_channels, "out_channels"), (heads, "heads"):
            whole(size, f"{name}: {argument}", least=1)
        for argument, value in more.items():
            if argument not in _OF_MESSAGES:
                ours = next(c for c in type(self).__mro__ if c.__module__ == __name__)  # and no class of the caller's
                raise unknown(name, argument, [x for x in inspect.signature(ours).parameters if x != "kwargs"])
            if value != _OF_MESSAGES[argument]:
                raise refuse(f"{name}: {argument}={value!r} is not offered")
        self.in_channels, self.out_channels, self.heads = in_channels, out_channels, heads
        self.concat = flag(concat, f"{name}: concat")
        self.dropout, self.edge_dim = dropout, edge_dim
        self._last: Optional[Tuple[Any, Optional[float], Hierarchy]] = None  # of a graph: itself, the slope, what attends

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for layer in self._modules.values():  # one that has two names is drawn twice, as in PyG
            if isinstance(layer, torch.nn.Linear):
                layer.reset_parameters()
        glorot(*(p for name, p in self.named_parameters(recurse=False) if name.startswith("att")))  # tools add others

    # ---- edges ----

    def _slope(self) -> Optional[float]:
        """Of additive scores."""
        return None

    def _attended(self, call: _Call, q: Tensor, k: Tensor, v: Tensor, additive: Optional_ = None, edge: Optional_ = None,
                  to_values: bool = False) -> Tensor:  # fmt: skip
        """The heads' outputs; edge: rows that are added to keys, and perhaps to values."""
        compiling = torch.compiler.is_compiling()
        if is_graph(call.edges) or (compiling and call.features is None):
            more: Dict[str, Any] = {} if additive is None else {"additive": additive}
            q, k = rows_of(q, k, v)
            found: Tensor = attended(self, self._hierarchy(call, compiling), q, k, v, **more)
            return found
        return (_along_apart if compiling else _along)(call, self._slope(), self._drop(), to_values, q, k, v, additive, edge)

    def _drop(self) -> float:
        drop = drop_of(self)
        return 0.0 if drop is None else number(drop, "dropout")

    def _hierarchy(self, call: _Call, compiling: bool) -> Hierarchy:
        """Of a graph, that of the last call where it is the same one: it has plans."""
        slope = self._slope()
        if not compiling and self._last and self._last[0] is call.edges and self._last[1] == slope:
            return self._last[2]
        edges = call.edges if is_graph(call.edges) else graph_of(edges_of(call.edges).ends, call.sizes, call.loops)
        h: Hierarchy = edges if isinstance(edges, Hierarchy) else edges.hierarchy()
        h = h if slope is None else h.additive_scores(slope)
        if not compiling:
            self._last = call.edges, slope, h
        return h

    def _features_of(self, call: _Call) -> Optional_:
        """Of the edges that came, and of loops behind them."""
        return None if call.features is None else with_loops(call.features, edges_of(call.edges).ends, call.loops, call.fill)

    # ---- what comes ----

    def _called(self, x: Any, layers: Tuple[Optional[Linear], Optional[Linear]], edges: Any, edge_attr: Any, size: Any = None,
                loops: bool = False, fill: Any = None) -> _Call:  # fmt: skip
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
        return _Call(source, destination, (sizes[0], sizes[1]), edges, self._features(edges, edge_attr), min(sizes) if loops else 0, fill)

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
        return rows if rows.is_floating_point() else rows.to(self.lin_edge.weight.dtype)

    # ---- attention: what the three do in their own ways ----

    _outputs: Callable[[_Call, Tensor, Tensor, Tensor], Tensor]  # the heads' outputs
    _weighed: Callable[..., Tuple[Optional_, Tensor]]  # these, where they are others with weights, and the weights of edges
    _end: Callable[[_Call, Tensor], Tensor]  # from these to the layer's

    def _run(self, call: _Call, q: Tensor, k: Tensor, v: Tensor, returns: Any) -> Any:
        """The output, and the weights of edges where they are asked for."""
        watched = self._is_watched()
        if not (returns or watched):
            return self._end(call, self._outputs(call, q, k, v))
        if is_graph(call.edges):
            what = "an explanation" if watched else "return_attention_weights"
            raise refuse(f"{type(self).__name__}: {what} goes with an edge_index; h.weights(q, k, token) gives a row")
        ends, order = looped(edges_of(call.edges).ends, call.sizes, call.loops)
        each = self._features_of(call)
        each = each if each is None or order is None else each.index_select(0, order)
        q, k = rows_of(q, k, v)
        out, weights = self._weighed(call, q, k, v, ends.long(), each)
        out = self._end(call, self._outputs(call, q, k, v) if out is None else out)
        return (out, with_weights(call.edges, ends, weights)) if returns else out

    def _joined(self, out: Tensor) -> Tensor:
        return out.flatten(-2) if self.concat else out.mean(-2)

    def _to_change(self, out: Tensor) -> Tensor:
        """Outputs that nothing is added to, as a copy where the backward pass reads them: callers may change theirs in place."""
        return out.clone() if self.concat and out.requires_grad else out

    def _by_head(self, x: Tensor) -> Tensor:
        return x.view(-1, self.heads, self.out_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"

    def _columns(self) -> int:
        return self.heads * self.out_channels if self.concat else self.out_channels

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "_last": None}


class _Gat(_Convolution):
    """GAT and GATv2 have self-loops, a bias of the output and perhaps a residual; features of edges are in what goes through
    the leak. Parameters are made and drawn in PyG's order, so that one seed gives both packages the same ones."""

    def __init__(self, in_channels: Any, out_channels: int, heads: int, concat: bool, negative_slope: float, dropout: float,
                 add_self_loops: bool, edge_dim: Optional[int], fill_value: Any, residual: bool, more: Dict[str, Any]) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, more)
        self.negative_slope, self.add_self_loops, self.residual = negative_slope, flag(add_self_loops, "add_self_loops"), flag(residual, "residual")
        self.fill_value = fill_value

    def _finish(self, bias: bool) -> None:
        self.lin_edge = None if self.edge_dim is None else GlorotLinear(self.edge_dim, self.heads * self.out_channels, bias=False)
        self.bias: Optional[torch.nn.Parameter] = torch.nn.Parameter(torch.empty(self._columns())) if bias else None
        self.res = GlorotLinear(self._channels[1], self._columns(), bias=False) if self.residual else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def _slope(self) -> Optional[float]:
        return number(self.negative_slope, "negative_slope")

    def _called_with_loops(self, x: Any, layers: Tuple[Optional[Linear], Optional[Linear]], edges: Any, edge_attr: Any, size: Any = None) -> _Call:
        edges = once(edges) if self.add_self_loops and edge_attr is None else edges
        call = self._called(x, layers, edges, edge_attr, size, self.add_self_loops, self.fill_value)
        if self.edge_dim is not None and call.loops and is_sparse_tensor(edges):  # as in PyG
            raise Error("HGA_EUNSUPPORTED", f"{type(self).__name__}: add_self_loops and edge_dim do not go with a SparseTensor")
        if self.res is not None and call.destination is not None:
            self.res.ready(call.destination)  # PyG draws the residual's columns before all others
        return call

    _score: Callable[[Tensor], Tensor]  # [edges, heads], of what goes through the leak: [edges, heads, columns]
    _edge_keys: Callable[[Tensor], Tensor]  # [edges, heads * columns of keys]: what features add there

    def _additive(self) -> Optional_:
        return None

    def _outputs(self, call: _Call, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        features = self._features_of(call)
        return self._attended(call, q, k, v, self._additive(), None if features is None else self._edge_keys(features))

    # ---- along edges, by PyTorch Geometric's steps where it watches ----

    def _weighed(self, call: _Call, q: Tensor, k: Tensor, v: Tensor, index: Tensor, features: Optional_) -> Tuple[Optional_, Tensor]:
        if self._is_watched():
            weights = self.edge_updater(index, query=(None, q), key=(k, None), edge_attr=features)
            return self.propagate(index, size=call.sizes, x=(v, self._of_destinations(call, q)), alpha=weights), weights
        (source, destination), n = index, call.sizes[1]
        weights = self.edge_update(q.index_select(0, destination), k.index_select(0, source), features, destination, n)
        return summed(self.message(v.index_select(0, source), weights), destination, n) if drop_of(self) else None, weights

    def _of_destinations(self, call: _Call, q: Tensor) -> Optional_:
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

    def _end(self, call: _Call, out: Tensor) -> Tensor:
        out = self._joined(out)
        more = None if self.res is None or call.destination is None else self.res(call.destination)
        out = out if more is None else out + more
        if self.bias is None:
            return self._to_change(out) if more is None else out
        return out + self.bias


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
        self.att_edge = None if edge_dim is None else torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self._finish(bias)

    def _contracted(self, x: Tensor, linear: Optional[Linear], a: Optional_) -> Tensor:
        """[rows, heads]: a . (W x) = (a W) x: no pass over all of W x."""
        assert linear is not None and a is not None
        return x @ torch.einsum("hoi,ho->ih", linear.ready(x).weight.view(self.heads, self.out_channels, -1), a[0])

    def _of_destinations(self, call: _Call, q: Tensor) -> Optional_:
        linear = self.lin_dst or self.lin
        assert linear is not None
        return None if call.destination is None else self._by_head(linear(call.destination))

    def _score(self, z: Tensor) -> Tensor:
        return z.squeeze(-1)

    def _edge_keys(self, features: Tensor) -> Tensor:
        return self._contracted(features, self.lin_edge, self.att_edge)

    def forward(self, x: Nodes, edge_index: Edges, edge_attr: Any = None, size: Any = None,
                return_attention_weights: Any = None) -> Any:  # fmt: skip
        of_source, of_destination = self.lin_src or self.lin, self.lin_dst or self.lin
        assert of_source is not None
        call = self._called_with_loops(x, (of_source, of_destination), edge_index, edge_attr, size)
        v = self._by_head(of_source(call.source))
        if call.destination is call.source and self.lin is not None:
            return self._run(call, self.att_dst[0], self.att_src[0], v, return_attention_weights)
        k = self._contracted(call.source, of_source, self.att_src).unsqueeze(-1)
        if call.destination is None:
            q = k.new_zeros(call.sizes[1], self.heads, 1)
        else:
            q = self._contracted(call.destination, of_destination, self.att_dst).unsqueeze(-1)
        return self._run(call, q, k, v, return_attention_weights)


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
        self._finish(bias)

    def _additive(self) -> Optional_:
        return self.att[0]

    def _score(self, z: Tensor) -> Tensor:
        return (z * self.att).sum(-1)

    def _edge_keys(self, features: Tensor) -> Tensor:
        assert self.lin_edge is not None
        keys: Tensor = self.lin_edge(features)
        return keys

    def forward(self, x: Nodes, edge_index: Edges, edge_attr: Any = None, return_attention_weights: Any = None) -> Any:
        call = self._called_with_loops(x, (self.lin_l, self.lin_r), edge_index, edge_attr)
        if call.destination is None:
            raise refuse("GATv2Conv: x has no destinations, whose rows scores need")
        k = self._by_head(self.lin_l(call.source))
        same = self.share_weights and call.destination is call.source
        q = k if same else self._by_head(self.lin_r(call.destination))
        return self._run(call, q, k, k, return_attention_weights)


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

    def _outputs(self, call: _Call, q: Tensor, k: Tensor, v: Tensor) -> Any:
        features = self._features_of(call)
        edge = None if features is None or self.lin_edge is None else self.lin_edge(features)
        return self._attended(call, q, k, v, None, edge, to_values=True)

    def _weighed(self, call: _Call, q: Tensor, k: Tensor, v: Tensor, index: Tensor, features: Optional_) -> Tuple[Optional_, Tensor]:
        """Weights are those before any is dropped."""
        (source, destination), n, out = index, call.sizes[1], None
        if self._is_watched():
            out = self.propagate(index, size=call.sizes, query=(None, q), key=(k, None), value=(v, None), edge_attr=features)
        else:
            sent = self.message(q.index_select(0, destination), k.index_select(0, source), v.index_select(0, source), features, destination, n)
            out = summed(sent, destination, n) if drop_of(self) else None
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
        call = self._called(x, (self.lin_key, self.lin_query), edge_index, edge_attr)
        if call.destination is None:
            raise refuse("TransformerConv: x has no destinations, which have the queries")
        if call.features is None and self.edge_dim is not None:
            raise refuse("TransformerConv: the layer was made with edge_dim, and edge_attr is missing")
        q = self._by_head(self.lin_query(call.destination))
        k, v = (self._by_head(lin(call.source)) for lin in (self.lin_key, self.lin_value))
        return self._run(call, q, k, v, isinstance(return_attention_weights, bool))

    def _end(self, call: _Call, out: Tensor) -> Tensor:
        out = self._joined(out)
        if not self.root_weight:
            return self._to_change(out)
        own: Tensor = self.lin_skip(call.destination)
        if self.lin_beta is None:
            return out + own
        share = torch.sigmoid(self.lin_beta(torch.cat([out, own, out - own], -1)))
        return torch.lerp(out, own, share)


# PyTorch Geometric before 2.6 reads the types of these where a layer's own class is, which may be another module than this one.
for _method in (_Gat.edge_update, _Gat.message, TransformerConv.message):
    _method.__annotations__ = get_type_hints(_method)
