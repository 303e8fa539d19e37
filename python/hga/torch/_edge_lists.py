"""Attention along a list of edges that may be new in every call: C checks and sorts the list, takes a plan of its pool, and attends.
One call goes there and one comes back. What torch watches, other types than float32 and torch.compile go by a hierarchy."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from .._core.library import check, ffi, lib, refuse
from .._core.plans import left_to_others
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from ._eager import address_of, is_plain, transforms_active, watched
from ._one_pass import PASSES, Inputs, Pass, whole

Tensor = torch.Tensor
Optional_ = Optional[Tensor]
Sizes = Tuple[int, int]  # sources and destinations
# Bytes of a node's number, for C; -1: one without a sign.
WHOLE = {torch.int64: 8, torch.int32: 4, torch.int16: 2, torch.int8: 1, torch.uint8: -1}


def _index_of(index: Tensor, sizes: Sizes) -> Any:
    """Where a list is, for C."""
    if index.dim() != 2 or len(index) != 2:
        raise refuse(f"edge_index has shape {tuple(index.shape)}, not [2, edges]")
    c, size = ffi.new("hga_py_edge_index *"), index.element_size()
    c.ends, c.n, c.number = index.data_ptr(), index.shape[1], WHOLE[index.dtype]
    c.row_stride, c.edge_stride = index.stride(0) * size, index.stride(1) * size
    c.sources, c.destinations = sizes
    c.is_bipartite = sizes[0] != sizes[1]
    return c


def check_edges(index: Tensor, sizes: Sizes) -> None:
    """Are all nodes there?"""
    at = index.detach().cpu()
    check(lib.hga_py_edge_index_check(_index_of(at, sizes)))


def hash_of(index: Tensor, sizes: Sizes) -> Tuple[int, int, int]:
    """Of what a list holds: another list's is another one."""
    at = index.detach().cpu()
    c, found = _index_of(at, sizes), ffi.new("uint64_t[2]")
    lib.hga_py_edge_index_hash(c, found)
    return found[0], found[1], c.n


class EdgeList:
    """Edges, checked and sorted. With ``by_itself`` every edge has a row of tables, also where it occurs several times; else edges
    that repeat count as often."""

    def __init__(self, index: Tensor, sizes: Sizes, loops: int, by_itself: bool) -> None:
        at = index.detach().cpu()
        c, out = _index_of(at, sizes), ffi.new("hga_py_edges **")
        c.loops, c.by_itself = loops, by_itself
        check(lib.hga_py_edges_create(c, out))
        self.c = ffi.gc(out[0], lib.hga_py_edges_destroy)
        self.n, self.rows = int(lib.hga_py_edges_n(self.c)), index.shape[1] + loops  # of tables: of edges as they came, and of loops
        self._hierarchies: Dict[Optional[float], Hierarchy] = {}

    def graph(self) -> Graph:
        return Graph(lib.hga_py_edges_graph(self.c))

    def hierarchy(self, slope: Optional[float]) -> Hierarchy:
        """For calls that do not go to C at once; slope: of additive scores."""
        if slope not in self._hierarchies:
            h = self.graph().hierarchy()
            self._hierarchies[slope] = left_to_others(h if slope is None else h.additive_scores(slope))
        return self._hierarchies[slope]

    def order(self) -> Tensor:
        """Which edge is where in the graph, of those by themselves: those that were given, then loops."""
        return torch.from_numpy(np.frombuffer(ffi.buffer(lib.hga_py_edges_order(self.c), 8 * self.n), np.int64).copy())


# ---- a call ----

_KINDS: Dict[Tuple[Any, ...], Any] = {}  # hga_py_edge_kind, by what they hold
_KEYS = itertools.count(1)
MOST_KINDS = 256


def _kind(*values: Any) -> Any:
    found = _KINDS.get(values)
    if found is None:
        if len(_KINDS) >= MOST_KINDS:  # a dropout may be another one in each step
            _KINDS.pop(next(iter(_KINDS)), None)
        found = _KINDS.setdefault(values, ffi.new("hga_py_edge_kind *", (next(_KEYS), *values)))
    return found


class How(NamedTuple):
    """slope: of additive scores. to_values: rows of edges are added to values, too."""

    slope: Optional[float]
    dropout: float
    seed: int
    to_values: bool = False


def _are_ready(*tensors: Optional_) -> bool:
    for x in tensors:
        if x is not None and not (x.dtype is torch.float32 and x.is_contiguous() and is_plain(x)):
            return False
    return True


def along(edges: EdgeList, how: How, q: Tensor, k: Tensor, v: Tensor, additive: Optional_ = None, edge: Optional_ = None) -> Tensor:
    """[destinations, heads, columns], of q [destinations, heads, dim], k [sources, heads, dim] and v [sources, heads, columns]. Of the
    same nodes q and k may be weights [heads, columns], with which rows of v are multiplied: one number a head. additive: a of
    additive scores [heads, dim]. edge: rows [edges, heads * dim] that are added to keys, in the order in which edges came, loops last."""
    if edge is not None and len(edge) != edges.rows:
        raise refuse(f"{len(edge)} rows of edges are given, and there are {edges.rows} edges")
    ready = edges.n and q.numel() and v.numel() and not torch.is_autocast_enabled("cpu") and not watched()
    if not (ready and _are_ready(q, k, v, additive, edge)):
        return _by_hierarchy(edges, how, q, k, v, additive, edge)
    return _Along.apply(edges, how, torch.is_grad_enabled(), q, k, v, additive, edge)  # type: ignore[no-any-return]


# ---- queries and keys that are products of values ----


def rows_of(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    """Queries and keys, of weights where they are that: with the bits that C gives them in a call."""
    if q.dim() == 3:
        return q, k
    if v.dtype is torch.float32 is q.dtype is k.dtype and (torch.compiler.is_compiling() or not transforms_active()):
        found = whole("products", Inputs("", [0], [0.0], [v.contiguous(), q.contiguous(), k.contiguous()]))
    else:
        found = (v * q).sum(-1), (v * k).sum(-1)
    return found[0].unsqueeze(-1), found[1].unsqueeze(-1)


def _described(tensors: Sequence[Tensor]) -> Any:
    v, q, k = tensors
    c = ffi.new("hga_py_products *")
    c.nodes, c.heads, c.columns = v.shape
    c.values, c.weights[0], c.weights[1] = _floats(v), _floats(q), _floats(k)
    return c


def _floats(x: Optional_) -> Any:
    return ffi.NULL if x is None else ffi.cast("float *", x.data_ptr())


def _multiplied(inputs: Inputs) -> Tuple[Tensor, Tensor, Tensor]:
    v = inputs.tensors[0]
    found = v.new_empty(v.shape[:2]), v.new_empty(v.shape[:2])
    lib.hga_py_multiply(_described(inputs.tensors), *map(_floats, found))
    return (*found, torch.empty(0, dtype=torch.uint8))


def _shapes(inputs: Inputs) -> Tuple[Tensor, Tensor, Tensor]:
    v = inputs.tensors[0]
    return v.new_empty(v.shape[:2]), v.new_empty(v.shape[:2]), v.new_empty(0, dtype=torch.uint8)


def _multiplied_back(inputs: Inputs, kept: Sequence[Tensor], d_query: Optional_, d_key: Optional_) -> List[Tensor]:
    v = inputs.tensors[0]
    upstream = [v.new_zeros(v.shape[:2]) if d is None else d.contiguous() for d in (d_query, d_key)]
    grads = [torch.zeros_like(x) if want == "g" else None for want, x in zip(inputs.wants, inputs.tensors)]
    lib.hga_py_multiply_back(_described(inputs.tensors), *map(_floats, (*upstream, *grads)))
    return [x for x in grads if x is not None]


PASSES["products"] = Pass(_multiplied, _shapes, _multiplied_back)


# ---- by a hierarchy ----


def _by_hierarchy(edges: EdgeList, how: How, q: Tensor, k: Tensor, v: Tensor, additive: Optional_, edge: Optional_) -> Tensor:
    if edge is not None and q.dtype in (torch.bfloat16, torch.float16):  # features of edges go with float32 alone
        with torch.autocast("cpu", enabled=False):
            wide = (x if x is None else x.float() for x in (additive, edge))
            return _by_hierarchy(edges, how, q.float(), k.float(), v.float(), *wide).to(q.dtype)
    more: Dict[str, Any] = {} if additive is None else {"additive": additive}
    if edge is not None:
        more["edge_key"] = edge.index_select(0, edges.order())
        if how.to_values:
            more["edge_value"] = more["edge_key"]
    q, k = rows_of(q, k, v)
    found = edges.hierarchy(how.slope).attention(q, k, v, layout="bnhd", dropout=how.dropout, seed=how.seed, **more)
    if not isinstance(found, tuple):
        return found  # type: ignore[no-any-return]
    out, sums = found  # every head has those of all heads' columns
    n, heads, columns = out.shape
    return out + sums.view(n, heads, heads, columns).diagonal(dim1=1, dim2=2).transpose(1, 2)  # type: ignore[no-any-return]


def _addresses(tensors: Sequence[Optional_]) -> List[int]:
    """0 of what is not there."""
    return [0 if x is None else x.data_ptr() for x in tensors]


class _Along(torch.autograd.Function):
    """out of (edges, how, whether a backward pass may follow, q, k, v, additive, edge)."""

    @staticmethod
    def forward(ctx: Any, edges: EdgeList, how: How, taped: bool, *tensors: Optional_) -> Tensor:
        q, k, v, additive, edge = tensors
        nodes, heads, columns = v.shape  # type: ignore[union-attr]
        of_values = q.dim() == 2  # type: ignore[union-attr]
        taped = taped and any(ctx.needs_input_grad)
        kind = _kind(
            heads, 1 if of_values else q.shape[2], columns, torch.get_num_threads(), how.slope is not None, taped,  # type: ignore[union-attr]
            how.slope or 0.0, how.dropout, of_values, 0 if edge is None else 1 + how.to_values,
        )  # fmt: skip
        out = v.new_empty(nodes if of_values else len(q), heads, columns)  # type: ignore[union-attr, arg-type]
        call = _call(tensors, out, how)
        kept = ffi.new("hga_py_pass **") if taped else ffi.NULL
        check(lib.hga_py_attend_along(kind, edges.c, call, kept))
        if taped:
            ctx.pass_ = ffi.gc(kept[0], lib.hga_py_pass_end)
            ctx.edges, ctx.how = edges, how
            ctx.save_for_backward(out, *tensors)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        out, *tensors = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        known = address_of(d_out) and not (torch.is_grad_enabled() or watched())  # torch's older vmap has a tensor of no memory
        d_out = d_out.contiguous() if known else d_out
        if not (known and _are_ready(d_out, out, *tensors)):
            return (None, None, None, *_again(ctx.edges, ctx.how, needs, tensors, d_out))
        grads = [torch.empty_like(x) if need else None for x, need in zip(tensors, needs)]
        to = ffi.new("hga_py_edge_gradients *", _addresses(grads))
        check(lib.hga_py_gradient_along(ctx.pass_, _call(tensors, out, ctx.how), d_out.data_ptr(), to))
        return (None, None, None, *grads)


def _call(tensors: Sequence[Optional_], out: Tensor, how: How) -> Any:
    return ffi.new("hga_py_edge_call *", [*_addresses(tensors), out.data_ptr(), how.seed])


def _again(edges: EdgeList, how: How, needs: Sequence[bool], tensors: Sequence[Optional_], d_out: Tensor) -> List[Optional_]:
    """Gradients by a hierarchy, for a backward pass that torch watches, or whose saved tensors have come back otherwise."""
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        # Each a tensor of its own: one that comes twice would get the sum of its gradients twice.
        its = [x if x is None else x.view_as(x) if further else x.detach().requires_grad_(need) for x, need in zip(tensors, needs)]
        q, k, v, additive, edge = its
        assert q is not None and k is not None and v is not None
        out = _by_hierarchy(edges, how, q, k, v, additive, edge)
        wanted = [x for x, need in zip(its, needs) if need and x is not None]
        found = iter(torch.autograd.grad(out, wanted, d_out, create_graph=further))
    return [next(found) if need else None for need in needs]
