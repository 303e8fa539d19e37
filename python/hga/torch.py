"""hga in torch: attention as a custom operator, differentiable and opaque to torch.compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, cast

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

from . import _eager as eager
from ._arguments import answered, whole
from ._call import Tables
from ._core import BF16, as_numpy, is_torch, number, refuse
from ._hierarchy import KNOWN, Hierarchy
from ._made import Made, attention as made_attention
from ._normalisers import normalised, spelt
from ._operators import keep_nothing, operator, refuse_forward, refuse_second

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]
SIXTEEN = (torch.float16, torch.bfloat16)


def _hierarchy(name: str) -> Hierarchy:
    """By its name; behind a bar, its normaliser."""
    name, bar, words = name.partition("|")
    h = KNOWN.get(name)
    if h is None:
        raise refuse("the hierarchy of this operator is gone")
    return normalised(h, words if bar else None)


def _tensor(x: np.ndarray) -> Tensor:
    """An array of the package's as a tensor, the same memory."""
    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype == BF16 else torch.from_numpy(x)


def _tables(*given: Optional_) -> Dict[str, Any]:
    return {name: x for name, x in zip(Tables.NAMES, given) if x is not None}


# ---- the operators: what torch.compile sees, and what runs ----


def _attention(
    name: str, q: Tensor, k: Tensor, v: Tensor, rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_,
    node_pos: Optional_, type_scale: Optional_, sink: Optional_, slopes: Optional_, additive: Optional_,
    softcap: Optional_, layout: str, scale: Optional[float], dropout: float, seed: int, layer: int,
    precision: str, threads: int, isa: str, want_lse: bool, taped: bool,
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    h = _hierarchy(name)
    out, lse, tape = h._forward(
        q, k, v, layout, _tables(rel_key, rel_bias, edge_bias, node_pos, type_scale, sink, slopes, additive, softcap),
        scale, dropout, _unsigned(seed), layer,
        precision, threads or h.threads or torch.get_num_threads(), isa or None, want_lse, taped,
    )  # fmt: skip
    return (
        _tensor(out),
        _tensor(lse) if lse is not None else torch.empty(0),
        _tensor(tape) if tape is not None else torch.empty(0, dtype=torch.uint8),
    )


def _attention_shapes(
    name: str, q: Tensor, k: Tensor, v: Tensor, rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_,
    node_pos: Optional_, type_scale: Optional_, sink: Optional_, slopes: Optional_, additive: Optional_,
    softcap: Optional_, layout: str, scale: Optional[float], dropout: float, seed: int, layer: int,
    precision: str, threads: int, isa: str, want_lse: bool, taped: bool,
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out = q.new_empty(q.shape[:-1] + (v.shape[-1],))
    lse = q.new_empty(q.shape[:-1] if want_lse else (0,), dtype=torch.float32)
    if not taped:
        return out, lse, q.new_empty(0, dtype=torch.uint8)
    h = _hierarchy(name)
    n = h._tape_bytes(q, k, v, layout, precision, threads or h.threads or torch.get_num_threads(), isa or None, dropout,
                      node_pos)  # fmt: skip
    return out, lse, q.new_empty(q.shape[:-3] + (n,), dtype=torch.uint8)


def _attention_backward(
    name: str, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor,
    rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_, node_pos: Optional_, type_scale: Optional_,
    sink: Optional_, slopes: Optional_, additive: Optional_,
    softcap: Optional_, layout: str, scale: Optional[float], dropout: float, seed: int, layer: int, precision: str,
    threads: int, isa: str, wanted: str,
) -> List[Tensor]:  # fmt: skip
    h = _hierarchy(name)
    grads = h._backward(
        q, k, v, as_numpy(out, "out"), tape.numpy(), as_numpy(d_out.contiguous(), "d_out"),
        None if d_lse is None else as_numpy(d_lse.contiguous(), "d_lse"), layout,
        _tables(rel_key, rel_bias, edge_bias, node_pos, type_scale, sink, slopes, additive, softcap),
        scale, dropout, _unsigned(seed), layer, precision,
        threads or h.threads or torch.get_num_threads(), isa or None, wanted.split(),
    )  # fmt: skip
    return [_tensor(grads[name]) for name in wanted.split()]


def _attention_backward_shapes(
    name: str, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor,
    rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_, node_pos: Optional_, type_scale: Optional_,
    sink: Optional_, slopes: Optional_, additive: Optional_,
    softcap: Optional_, layout: str, scale: Optional[float], dropout: float, seed: int, layer: int, precision: str,
    threads: int, isa: str, wanted: str,
) -> List[Tensor]:  # fmt: skip
    given = dict(query=q, key=k, value=v, rel_key=rel_key, rel_bias=rel_bias, edge_bias=edge_bias, node_pos=node_pos,
                 type_scale=type_scale, sink=sink, slopes=slopes, additive=additive)  # fmt: skip
    return [given[name].new_empty(given[name].shape) for name in wanted.split()]  # type: ignore[union-attr]


def _unsigned(seed: int) -> int:
    """A seed of 64 bits as it was given: operators' numbers have a sign."""
    return seed & (2**64 - 1)


_DIFFERENTIABLE = ("query", "key", "value") + Tables.NAMES


def _setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
    name, tensors, ctx.rest, ctx.want_lse = inputs[0], inputs[1:13], inputs[13:21], inputs[21]
    out, _, tape = output
    ctx.h = _hierarchy(name)  # keeps it alive
    ctx.save_for_backward(*tensors, out, tape)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_out: Optional_, d_lse: Optional_, d_tape: Any) -> Tuple[Any, ...]:
    found = _go_back(ctx, ctx.needs_input_grad[1:13], d_out, d_lse if ctx.want_lse else None, _operator_back)
    return (None,) + found + (None,) * 10


def _go_back(ctx: Any, needs: Sequence[bool], d_out: Optional_, d_lse: Optional_, back: Any) -> Tuple[Optional_, ...]:
    """The gradients of the tensors that need one, by `back`."""
    *tensors, out, tape = ctx.saved_tensors
    wanted = [name for name, need, x in zip(_DIFFERENTIABLE, needs, tensors) if need and x is not None]
    if d_out is None and d_lse is None:
        return (None,) * len(_DIFFERENTIABLE)
    given = torch.zeros_like(out) if d_out is None else d_out
    found = back(ctx, " ".join(wanted), given, d_lse, *tensors[:3], out, tape, *tensors[3:])
    by_name = dict(zip(wanted, found))
    return tuple(by_name.get(name) for name in _DIFFERENTIABLE)


def _operator_back(ctx: Any, wanted: str, *tensors: Optional_) -> List[Tensor]:
    return cast(List[Tensor], torch.ops.hga.attention_backward(ctx.h._name, *tensors, *ctx.rest, wanted))


operator(_attention, _attention_shapes, _backward, _setup)
operator(_attention_backward, _attention_backward_shapes, refuse_second, keep_nothing)


# ---- outside of torch.compile: functions, which torch.func can transform ----


class _Call:
    """What a call has besides tensors: one object, so that torch.func does not look into it."""

    def __init__(self, h: Hierarchy, rest: Tuple[Any, ...], lse: bool, taped: bool) -> None:
        self.h, self.rest, self.lse, self.taped = h, rest, lse, taped


def _each(run: Callable[..., Sequence[Tensor]], n: int, in_dims: Sequence[Optional[int]], tensors: Sequence[Any]) -> Any:
    """vmap by a loop, where samples share no call."""
    found = [
        run(*(x if d is None else x.select(d, i) for x, d in zip(tensors, in_dims))) for i in range(n)
    ]  # fmt: skip
    return tuple(torch.stack([one[j] for one in found]) for j in range(len(found[0])))


def _first(n: int, in_dims: Sequence[Optional[int]], tensors: Sequence[Any], flat: bool) -> List[Optional_]:
    """The mapped axis as a batch axis in front, of tensors that have it and of those that do not; two axes get a head's."""
    moved: List[Optional_] = []
    for x, d in zip(tensors, in_dims):
        if x is not None:
            x = x.expand(n, *x.shape) if d is None else x.movedim(d, 0)
            x = x.unsqueeze(1) if flat else x
        moved.append(x)
    return moved


class _Attend(torch.autograd.Function):
    """(out, lse, tape) of (call, q, k, v, tables ..)."""

    @staticmethod
    def forward(call: _Call, *tensors: Optional_) -> Tuple[Tensor, Tensor, Tensor]:
        found = torch.ops.hga.attention(call.h._name, *tensors, *call.rest, call.lse, call.taped)
        return cast(Tuple[Tensor, Tensor, Tensor], found)

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.call, tensors = inputs[0], inputs[1:]
        ctx.save_for_backward(*tensors, output[0], output[2])
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *d: Optional_) -> Any:
        lse = d[1] if ctx.call.lse else None
        return (None,) + _go_back(ctx, ctx.needs_input_grad[1:], d[0], lse, _function_back)

    @staticmethod
    def jvp(ctx: Any, *d: Any) -> Any:
        refuse_forward(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: Tuple[Any, ...], call: _Call, *tensors: Optional_) -> Any:
        n, dims = info.batch_size, in_dims[1:]
        if any(d is not None for d in dims[3:]):  # a table for each
            return _each(lambda *x: _Attend.apply(call, *x), n, dims, tensors), (0, 0, 0)
        q, d = tensors[0], dims[0]
        flat = cast(Tensor, q).dim() - (d is not None) == 2
        out, lse, tape = _Attend.apply(call, *_first(n, dims[:3], tensors[:3], flat), *tensors[3:])
        if flat:
            out, lse = out.squeeze(1), lse.squeeze(1) if call.lse else lse
        return (out, lse, tape), (0, 0 if call.lse else None, 0 if call.taped else None)


class _AttendBackward(torch.autograd.Function):
    """The wanted gradients of (call, wanted, d_out, d_lse, q, k, v, out, tape, tables ..)."""

    @staticmethod
    def forward(call: _Call, wanted: str, *tensors: Optional_) -> Tuple[Tensor, ...]:
        return tuple(torch.ops.hga.attention_backward(call.h._name, *tensors, *call.rest, wanted))

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *d: Any) -> Any:
        refuse_second(ctx)

    @staticmethod
    def jvp(ctx: Any, *d: Any) -> Any:
        refuse_forward(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: Tuple[Any, ...], call: _Call, wanted: str, *tensors: Optional_) -> Any:
        n, dims, names = info.batch_size, in_dims[2:], wanted.split()
        out_dims = (0,) * len(names)
        if any(d is not None for d in dims[7:]) or any(name in Tables.NAMES for name in names):  # a gradient for each
            return _each(lambda *x: _AttendBackward.apply(call, wanted, *x), n, dims, tensors), out_dims
        flat = cast(Tensor, tensors[2]).dim() - (dims[2] is not None) == 2
        tape = cast(Tensor, tensors[6])
        tape = tape.movedim(dims[6], 0) if dims[6] is not None else tape.new_empty(0)
        moved = _first(n, dims[:6], tensors[:6], flat)
        found = _AttendBackward.apply(call, wanted, *moved, tape, *tensors[7:])
        return tuple(x.squeeze(1) if flat else x for x in found), out_dims


def _function_back(ctx: Any, wanted: str, *tensors: Optional_) -> Tuple[Tensor, ...]:
    return cast(Tuple[Tensor, ...], _AttendBackward.apply(ctx.call, wanted, *tensors))


def back_by_operators(
    call: eager.Call, needs: Sequence[bool], d_out: Tensor, d_lse: Optional_, inputs: Tuple[Tensor, ...], out: Tensor, tape: Tensor,
    tables: Sequence[Optional_],
) -> Tuple[Optional_, ...]:  # fmt: skip
    """Back from an eager call where torch watches, or where saved tensors have come back otherwise."""
    layout, scale, dropout, precision, threads, isa = call.rest
    seed = call.seed - 2**64 if call.seed >= 2**63 else call.seed
    given = list(tables) or [None] * len(Tables.NAMES)
    wanted = [name for name, need, x in zip(_DIFFERENTIABLE, needs, [*inputs, *given]) if need and x is not None]
    rest = (layout, scale, dropout, seed, call.layer, precision, threads, isa)
    found = _AttendBackward.apply(
        _Call(call.h, rest, call.lse, True), " ".join(wanted), d_out, d_lse, *inputs, out, tape, *given
    )
    by_name = dict(zip(wanted, found))
    return tuple(by_name.get(name) for name in _DIFFERENTIABLE[: 3 + len(tables)])


# ---- what is called ----


def _checked(x: Any, what: str) -> Optional_:
    if x is None:
        return None
    if not is_torch(x):
        x = _tensor(as_numpy(x, what))
    if not isinstance(x, torch.Tensor):
        raise refuse(f"{what} is a {type(x).__name__}, not a tensor")
    if x.device.type not in ("cpu", "meta"):
        raise refuse(f"{what} is on {x.device}: hga computes on the CPU")
    if x.layout != torch.strided or x.is_nested:
        raise refuse(f"{what} has layout {'nested' if x.is_nested else x.layout}: hga takes dense tensors")
    if x.dtype != torch.float32 and x.dtype not in SIXTEEN:
        raise refuse(f"{what} has dtype {x.dtype}, not torch.float32, float16 or bfloat16: convert it with .float()")
    return x


def _query(x: Any, what: str) -> Tensor:
    """A query, key or value; under autocast of CPUs in its type, as torch's own attention has it."""
    if x is None:
        raise refuse(f"{what} is None, not a tensor")
    if isinstance(x, torch.Tensor) and x.is_floating_point() and torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu")) if x.dtype != torch.float64 else x
    return cast(Tensor, _checked(x, what))


def _table(x: Any, what: str) -> Optional_:
    """A table, in float32: of 16 bits it is copied, and its gradient is rounded."""
    x = _checked(x, what)
    return cast(Tensor, x.float()) if x is not None and x.dtype in SIXTEEN else x


def _cap(softcap: Any) -> Any:
    """A number that goes with the tables, of which no gradient is asked."""
    return None if softcap is None else torch.tensor(number(softcap, "softcap"), dtype=torch.float32)


def _has_tangent(x: Optional_) -> bool:
    return x is not None and forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


@answered
def attention(h: Hierarchy, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False,
              scale: Optional[float] = None, rel_key: Any = None, rel_bias: Any = None, edge_bias: Any = None,
              node_pos: Any = None, type_scale: Any = None, sink: Any = None, slopes: Any = None,
              additive: Any = None, softcap: Optional[float] = None, normaliser: Optional[str] = None,
              normalizer: Optional[str] = None, dropout: float = 0.0, seed: int = 0, layer: int = 0,
              precision: str = "f32", threads: int = 0, isa: Optional[str] = None) -> Any:  # fmt: skip
    """Hierarchy.attention for tensors, with gradients of q, k, v and of every table that requires one."""
    if h._in_order is not None:
        return h.attention(q, k, v, layout=layout, lse=lse, scale=scale, rel_key=rel_key, rel_bias=rel_bias, edge_bias=edge_bias,
                           node_pos=node_pos, type_scale=type_scale, sink=sink, slopes=slopes, additive=additive, softcap=softcap,
                           normaliser=normaliser, normalizer=normalizer, dropout=dropout, seed=seed, layer=layer,
                           precision=precision, threads=threads, isa=isa)  # fmt: skip
    compiling, words = torch.compiler.is_compiling(), spelt(normaliser, normalizer)
    if compiling and (isinstance(h, Made) or isinstance(seed, torch.Tensor)):
        more = dict(layout=layout, lse=lse, scale=scale, rel_key=rel_key, rel_bias=rel_bias, edge_bias=edge_bias, node_pos=node_pos,
                    type_scale=type_scale, sink=sink, slopes=slopes, additive=additive, softcap=softcap, normaliser=words,
                    dropout=dropout, seed=seed, layer=layer, precision=precision, threads=threads, isa=isa)  # fmt: skip
        return made_attention(h, _query(q, "query"), _query(k, "key"), _query(v, "value"), more)
    h = h if compiling else normalised(h, words)
    if not compiling and type(h) is Hierarchy and not eager.watched():
        if torch.is_autocast_enabled("cpu"):
            q, k, v = _query(q, "query"), _query(k, "key"), _query(v, "value")
        if eager.is_plain(q) and eager.is_plain(k) and eager.is_plain(v):
            given: Sequence[Optional_] = eager.NO_TABLES
            if not (rel_key is rel_bias is edge_bias is node_pos is type_scale is sink is slopes is additive is softcap is None):
                all_ = (rel_key, rel_bias, edge_bias, node_pos, type_scale, sink, slopes, additive, _cap(softcap))
                named = zip(all_, Tables.NAMES)
                given = [x if x is None else _table(x, n) for x, n in named]
            if given is eager.NO_TABLES or all(x is None or eager.is_plain(x) for x in given):
                return eager.attention(h, q, k, v, given, layout, lse, scale, dropout, seed, layer, precision, threads, isa)
    named = zip((rel_key, rel_bias, edge_bias, node_pos, type_scale, sink, slopes, additive, _cap(softcap)), Tables.NAMES)
    tables = [_table(x, n) for x, n in named]
    tensors: List[Optional_] = [_query(x, n) for x, n in ((q, "query"), (k, "key"), (v, "value"))]
    tensors += tables
    if len({x.device for x in tensors if x is not None}) > 1:
        raise refuse("some tensors are on meta, others are not")
    taped = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    if not compiling:
        if forward_ad._current_level >= 0 and any(_has_tangent(x) for x in tensors):
            refuse_forward(None)
        scale = None if scale is None else number(scale, "scale")
        dropout = number(dropout, "dropout")
        seed, layer = whole(seed, "seed", beyond=2**64), whole(layer, "layer", beyond=2**24)
        seed = seed - 2**64 if seed >= 2**63 else seed
    rest = (layout, scale, dropout, seed, layer, precision, threads, isa or "")
    if compiling or not (taped or torch._C._are_functorch_transforms_active()):
        name = f"{h._name}|{words}" if compiling and words is not None else h._name
        out, lses, _ = torch.ops.hga.attention(name, *tensors, *rest, lse, taped)
    else:
        out, lses, _ = _Attend.apply(_Call(h, rest, lse, taped), *tensors)
    return (out, lses) if lse else out


# Modules, which call what is above by the hierarchies' method.
from ._modules import (  # noqa: E402
    BPT as BPT,
    Attention as Attention,
    MultiheadAttention as MultiheadAttention,
    NodeRows as NodeRows,
)
from ._treeformer import Treeformer as Treeformer, bootstrap as bootstrap  # noqa: E402
from ._convolutions import GATConv as GATConv, GATv2Conv as GATv2Conv, TransformerConv as TransformerConv  # noqa: E402

# FlexAttention's half of torch takes a while to import, and that of several processes is not everywhere, so they wait until
# somebody asks.
if TYPE_CHECKING:
    from ._distributed import distributed as distributed
    from ._flex import flex_attention as flex_attention, flex_hierarchy as flex_hierarchy
    from ._flex_masks import create_block_mask as create_block_mask
else:

    def __getattr__(name):
        if name == "distributed":
            from ._distributed import distributed

            return distributed
        if name in ("flex_attention", "flex_hierarchy", "create_block_mask"):
            from . import _flex, _flex_masks

            return getattr(_flex_masks if name == "create_block_mask" else _flex, name)
        raise AttributeError(f"module 'hga.torch' has no attribute {name!r}")
