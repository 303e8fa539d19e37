"""hga in torch: attention as a custom operator, differentiable and opaque to torch.compile."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from .._core.needs import needs

needs("torch", "torch")

import torch
import torch.autograd.forward_ad as forward_ad

from . import _eager as eager
from .._core.arguments import flag, meant, whole
from .._core.values import as_numpy, number, refuse
from ._flops import count
from .._graphs.hierarchy import KNOWN, OF_TORCH, Hierarchy, How, how_of
from ._compiled import Made, attention as made_attention
from .._core.normalisers import normalised, spelt
from ._operators import flattened, named, operator, query, refuse_forward, refuse_second, save_nothing, signed, Tables_, tables_of, tensor_of, unsigned
from .._core.releases import in_forward_mode
from .._core.tables import INPUTS, as_returned, check_names, features_of, takes_tables

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._core.keywords import CallTables

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


def _hierarchy(name: str) -> Hierarchy:
    """By its name; behind a bar, its normaliser."""
    name, bar, words = name.partition("|")
    h = KNOWN.get(name)
    if h is None:
        raise refuse("the hierarchy of this operator is gone")
    return normalised(h, words if bar else None)


def _threads(h: Hierarchy, threads: int) -> int:
    return threads or h.threads or torch.get_num_threads()


# ---- the operators: what torch.compile sees, and what runs ----


def _attention(
    name: str, q: Tensor, k: Tensor, v: Tensor, names: str, tables: Tables_, numbers: Sequence[float], layout: str,
    dropout: float, seed: int, layer: int, precision: str, threads: int, isa: str, want_lse: bool, taped: bool,
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    h = _hierarchy(name)
    how = (layout, dropout, unsigned(seed), layer, precision, _threads(h, threads), isa or None)
    out, lse, tape = h._forward(q, k, v, named(names, tables, numbers), how, want_lse, taped)
    return (
        tensor_of(out),
        tensor_of(lse) if lse is not None else torch.empty(0),
        tensor_of(tape) if tape is not None else torch.empty(0, dtype=torch.uint8),
    )


def _attention_shapes(name: str, q: Tensor, k: Tensor, v: Tensor, names: str, tables: Any, numbers: Any, *how: Any) -> Any:
    *how_, threads, isa, want_lse, taped = how
    out = q.new_empty(q.shape[:-1] + (v.shape[-1] + features_of(named(names, tables, numbers)),))
    lse = q.new_empty(q.shape[:-1] if want_lse else (0,), dtype=torch.float32)
    if not taped:
        return out, lse, q.new_empty(0, dtype=torch.uint8)
    h = _hierarchy(name)
    n = h._tape_bytes(q, k, v, named(names, tables, numbers), (*how_, _threads(h, threads), isa or None))
    return out, lse, q.new_empty(q.shape[:-3] + (n,), dtype=torch.uint8)


def _attention_backward(
    name: str, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor, names: str,
    tables: Tables_, numbers: Sequence[float], layout: str, dropout: float, seed: int, layer: int, precision: str,
    threads: int, isa: str, requested: str,
) -> List[Tensor]:  # fmt: skip
    h = _hierarchy(name)
    how = (layout, dropout, unsigned(seed), layer, precision, _threads(h, threads), isa or None)
    upstream, lse = as_numpy(d_out.contiguous(), "d_out"), None if d_lse is None else as_numpy(d_lse.contiguous(), "d_lse")
    grads = h._backward(
        q, k, v, as_numpy(out, "out"), tape.numpy(), upstream, lse, named(names, tables, numbers), how, requested.split()
    )  # fmt: skip
    return [tensor_of(grads[name]) for name in requested.split()]


def _attention_backward_shapes(
    name: str, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor, names: str, tables: Any,
    numbers: Any, *how: Any,
) -> List[Tensor]:  # fmt: skip
    (*_, requested), inputs = how, {**dict(zip(INPUTS, (q, k, v))), **named(names, tables, numbers)}
    return [inputs[name].new_empty(inputs[name].shape) for name in requested.split()]


class _Call:
    """What a call has besides tensors: one object, so that torch.func does not look into it."""

    def __init__(self, h: Hierarchy, names: str, numbers: Sequence[float], rest: Tuple[Any, ...], lse: bool, taped: bool) -> None:
        self.h, self.names, self.numbers, self.rest, self.lse, self.taped = h, names, list(numbers), rest, lse, taped

    def forth(self, q: Optional_, k: Optional_, v: Optional_, *tables: Optional_) -> Tuple[Tensor, Tensor, Tensor]:
        found = torch.ops.hga.attention(
            self.h._name, q, k, v, self.names, tables, self.numbers, *self.rest, self.lse, self.taped
        )  # fmt: skip
        return cast(Tuple[Tensor, Tensor, Tensor], found)

    def back(self, requested: str, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor,
             *tables: Tensor) -> List[Tensor]:  # fmt: skip
        found = torch.ops.hga.attention_backward(
            self.h._name, d_out, d_lse, q, k, v, out, tape, self.names, tables, self.numbers, *self.rest, requested
        )  # fmt: skip
        return cast(List[Tensor], found)

    def gradients(self, needs: Sequence[bool], d_out: Optional_, d_lse: Optional_, saved: Sequence[Tensor], back: Any) -> List[Optional_]:
        """Of query, key, value and the tables that are tensors, where they are needed, by `back`."""
        q, k, v, *tables, out, tape = saved
        if d_out is None and d_lse is None:
            return [None for _ in needs]
        names = (*INPUTS, *self.names.split())
        requested = [name for name, need in zip(names, needs) if need]
        upstream = torch.zeros_like(out) if d_out is None else d_out
        found = dict(zip(requested, back(" ".join(requested), upstream, d_lse if self.lse else None, q, k, v, out, tape, *tables)))
        return [found.get(name) for name, _ in zip(names, needs)]


def _setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
    name, q, k, v, names, tables, numbers, *rest, want_lse, taped = inputs
    out, _, tape = output
    ctx.call = _Call(_hierarchy(name), names, numbers, tuple(rest), want_lse, taped)  # keeps the hierarchy alive
    ctx.save_for_backward(q, k, v, *(tables or ()), out, tape)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_out: Optional_, d_lse: Optional_, d_tape: Any) -> Tuple[Any, ...]:
    call, (_, q, k, v, _, tables, _, *rest) = ctx.call, ctx.needs_input_grad
    d_q, d_k, d_v, *d_tables = call.gradients((q, k, v, *(tables or ())), d_out, d_lse, ctx.saved_tensors, call.back)
    no_numbers: Any = None if call.numbers else []  # torch takes an empty list for one of tensors
    return None, d_q, d_k, d_v, None, d_tables, no_numbers, *(None for _ in rest)


operator(_attention, _attention_shapes, _backward, _setup)
operator(_attention_backward, _attention_backward_shapes, refuse_second, save_nothing)


# ---- outside of torch.compile: functions, which torch.func can transform ----


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
        return call.forth(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.call, *tensors = inputs
        out, _, tape = output
        ctx.save_for_backward(*tensors, out, tape)
        ctx.mark_non_differentiable(tape)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, d_out: Optional_, d_lse: Optional_, d_tape: Any) -> Any:
        _, *needs = ctx.needs_input_grad
        return None, *ctx.call.gradients(needs, d_out, d_lse, ctx.saved_tensors, partial(_AttendBackward.apply, ctx.call))

    @staticmethod
    def jvp(ctx: Any, *d: Any) -> Any:
        refuse_forward(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: Tuple[Any, ...], call: _Call, *tensors: Optional_) -> Any:
        n, (_, *dims), (q, k, v, *tables) = info.batch_size, in_dims, tensors
        of_q, of_k, of_v, *of_tables = dims
        if any(d is not None for d in of_tables):  # a table for each
            return _each(lambda *x: _Attend.apply(call, *x), n, dims, tensors), (0, 0, 0)
        flat = cast(Tensor, q).dim() - (of_q is not None) == 2
        out, lse, tape = _Attend.apply(call, *_first(n, (of_q, of_k, of_v), (q, k, v), flat), *tables)
        if flat:
            out, lse = out.squeeze(1), lse.squeeze(1) if call.lse else lse
        return (out, lse, tape), (0, 0 if call.lse else None, 0 if call.taped else None)


class _AttendBackward(torch.autograd.Function):
    """The requested gradients of (call, requested, d_out, d_lse, q, k, v, out, tape, tables ..)."""

    @staticmethod
    def forward(call: _Call, requested: str, *tensors: Optional_) -> Tuple[Tensor, ...]:
        return tuple(call.back(requested, *tensors))  # type: ignore[arg-type]

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
    def vmap(info: Any, in_dims: Tuple[Any, ...], call: _Call, requested: str, *tensors: Optional_) -> Any:
        n, (_, _, *dims), names = info.batch_size, in_dims, requested.split()
        (d_out, d_lse, q, k, v, out, tape, *tables), out_dims = tensors, (0,) * len(names)
        of_tables, of_tape, of_rows = [dims.pop() for _ in tables], dims.pop(), dims
        _, _, of_q, *_ = of_rows
        if any(d is not None for d in of_tables) or any(name not in INPUTS for name in names):  # a gradient for each
            return _each(lambda *x: _AttendBackward.apply(call, requested, *x), n, [*of_rows, of_tape, *of_tables[::-1]], tensors), out_dims
        flat = cast(Tensor, q).dim() - (of_q is not None) == 2
        tape = cast(Tensor, tape)
        tape = tape.movedim(of_tape, 0) if of_tape is not None else tape.new_empty(0)
        moved = _first(n, of_rows, (d_out, d_lse, q, k, v, out), flat)
        found = _AttendBackward.apply(call, requested, *moved, tape, *tables)
        return tuple(x.squeeze(1) if flat else x for x in found), out_dims


def back_by_operators(
    call: eager.Call, needs: Sequence[bool], d_out: Tensor, d_lse: Optional_, inputs: Tuple[Tensor, ...], out: Tensor, tape: Tensor,
    tables: Sequence[Tensor],
) -> List[Optional_]:  # fmt: skip
    """Back from an eager call where torch watches, or where saved tensors have come back otherwise."""
    layout, dropout, seed, layer, precision, threads, isa = call.how
    rest = (layout, dropout, signed(seed), layer, precision, threads, isa or "")
    its = _Call(call.h, " ".join([*call.names, *call.numbers]), list(call.numbers.values()), rest, call.lse, True)
    return its.gradients(needs, d_out, d_lse, (*inputs, *tables, out, tape), partial(_AttendBackward.apply, its))


# ---- what is called ----


def _has_tangent(x: Optional_) -> bool:
    return x is not None and forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


@takes_tables()
def attention(h: Hierarchy, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, normaliser: Optional[str] = None,
              normalizer: Optional[str] = None, dropout: float = 0.0, seed: int = 0, layer: int = 0, precision: str = "auto",
              threads: int = 0, isa: Optional[str] = None, **tables: Unpack[CallTables]) -> Any:  # fmt: skip
    """Hierarchy.attention for tensors, with gradients of q, k, v and of every table that requires one."""
    if tables:
        check_names(attention, tables)
    lse, words = lse if type(lse) is bool else flag(False if lse is None else lse, "lse"), spelt(normaliser, normalizer)
    return _of_tensors(h, q, k, v, tables, how_of(layout, dropout, seed, layer, precision, threads, isa), lse, words)


def _of_tensors(h: Hierarchy, q: Any, k: Any, v: Any, tables: Mapping[str, Any], how: How, lse: bool, words: Optional[str]) -> Any:
    """The same of what was looked at: words are a normaliser's."""
    layout, dropout, seed, layer, precision, threads, isa = how
    compiling = torch.compiler.is_compiling()
    later = compiling and (isinstance(h, Made) or isinstance(seed, torch.Tensor))
    if later or h._in_order is not None:
        more: Dict[str, Any] = dict(layout=layout, lse=lse, normaliser=words, dropout=dropout, seed=seed, layer=layer,
                                    precision=precision, threads=threads, isa=isa, **tables)  # fmt: skip
        if not later:
            return h.attention(q, k, v, **more)
        return made_attention(h, query(q, "query"), query(k, "key"), query(v, "value"), more)
    h = h if compiling or words is None else normalised(h, words)
    if not compiling and not eager.watched() and h._reads_heads(k, layout):
        if torch.is_autocast_enabled("cpu"):
            q, k, v = query(q, "query"), query(k, "key"), query(v, "value")
        if eager.is_plain(q) and eager.is_plain(k) and eager.is_plain(v):
            if not tables:
                return eager.attention(h, q, k, v, tables, how, lse)
            by_name = tables_of(tables)
            if eager.are_plain(by_name):
                found = eager.attention(h, q, k, v, by_name, how, lse)
                out, lses = found if lse else (found, None)
                return as_returned(out, lses, lse, features_of(tables))
    inputs = [query(x, n) for x, n in zip((q, k, v), INPUTS)]
    its = flattened(tables_of(tables))
    tensors = [*inputs, *its.tables]
    if len({x.device for x in tensors}) > 1:
        raise refuse("some tensors are on meta, others are not")
    taped = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if not compiling:
        if in_forward_mode() and any(_has_tangent(x) for x in tensors):
            refuse_forward(None)
        dropout = number(dropout, "dropout")
        seed, layer = signed(whole(seed, "seed", beyond=2**64)), whole(layer, "layer", beyond=2**24)
    rest = (layout, dropout, seed, layer, precision, threads, isa or "")
    if compiling or not (taped or eager.transforms_active()):
        name = f"{h._name}|{words}" if compiling and words is not None else h._name
        out, lses, _ = torch.ops.hga.attention(name, *inputs, *its, *rest, lse, taped)
    else:
        out, lses, _ = _Attend.apply(_Call(h, its.names, its.numbers, rest, lse, taped), *tensors)
    return as_returned(out, lses, lse, features_of(tables))


OF_TORCH.append(_of_tensors)

count(_hierarchy)

# Modules, which call what is above by the hierarchies' method.
from ._modules import (  # noqa: E402
    BPT as BPT,
    Attention as Attention,
    MultiheadAttention as MultiheadAttention,
    NodeRows as NodeRows,
)
from ._encoder import (  # noqa: E402
    HierarchicalEncoder as HierarchicalEncoder, HierarchicalEncoderLayer as HierarchicalEncoderLayer, KindLinear as KindLinear,
    pool_leaves as pool_leaves, pool_samples as pool_samples,
)  # fmt: skip
from ._treeformer import Treeformer as Treeformer, bootstrap as bootstrap  # noqa: E402
from ._convolutions import GATConv as GATConv, GATv2Conv as GATv2Conv, TransformerConv as TransformerConv  # noqa: E402

# FlexAttention's half of torch takes a while to import, and that of several processes is not everywhere, so they wait until
# somebody asks.
if TYPE_CHECKING:
    from ._distributed import distributed as distributed
    from .._flex.call import flex_attention as flex_attention, flex_hierarchy as flex_hierarchy
    from .._flex.masks import create_block_mask as create_block_mask
else:
    _LATER = {
        "distributed": "._distributed", "flex_attention": ".._flex.call", "flex_hierarchy": ".._flex.call", "create_block_mask": ".._flex.masks",
    }  # fmt: skip

    def __getattr__(name):
        if name in _LATER:
            found = globals()[name] = getattr(import_module(_LATER[name], __package__), name)
            return found
        raise AttributeError(f"module 'hga.torch' has no attribute {name!r}{meant(name, __all__)}")


__all__ = [
    "Attention", "BPT", "GATConv", "GATv2Conv", "HierarchicalEncoder", "HierarchicalEncoderLayer", "KindLinear", "MultiheadAttention",
    "NodeRows", "TransformerConv", "Treeformer", "attention", "bootstrap", "create_block_mask", "distributed", "flex_attention",
    "flex_hierarchy", "pool_leaves", "pool_samples",
]  # fmt: skip


def __dir__() -> List[str]:
    return __all__
