"""torch outside of torch.compile, of plain tensors: no operator, one autograd.Function, and C. What torch watches (modes,
transforms, tracing), subclasses of tensors and trees by head go by the registered operator instead."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from .._core.call import Prepared, Problem, address
from .._core.arrays import as_numpy
from .._core.arguments import number
from .._graphs.calls import How, draws
from .._graphs.hierarchy import Hierarchy
from .._core.plans import USES, Taken
from .._core.releases import in_forward_mode, perhaps
from .._core.tables import Tables, in_memory, of_callers
from ._by_operator import Operation, inputs_of
from ._operators import PLAIN as PLAIN, signed

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


# Where this torch does not say, a mode may be watching.
transforms_active = perhaps("_are_functorch_transforms_active")
_DISPATCH = perhaps("_len_torch_dispatch_stack")
_FUNCTIONS = perhaps("_is_torch_function_mode_enabled")
_TRACING = perhaps("_get_tracing_state")
_PROFILED = perhaps("_autograd._profiler_enabled")


def watched() -> bool:
    """Is there anyone who wants to see an operator? A profiler is one: what it lists has the operators' names."""
    return bool(transforms_active() or _DISPATCH() or in_forward_mode() or _FUNCTIONS() or _TRACING() is not None or _PROFILED())


def is_plain(x: Any) -> bool:
    """Memory of the processor's, and nothing else."""
    return type(x) in PLAIN and x.is_cpu and x.layout is torch.strided and not (x.is_neg() or x.is_nested or x._is_zerotensor())


def are_plain(tables: Mapping[str, Any]) -> bool:
    for x in tables.values():
        if isinstance(x, torch.Tensor) and not is_plain(x):
            return False
    return True


def address_of(x: Tensor) -> int:
    """Where a tensor's memory begins; 0 of what has none: a stand-in of torch's older vmap, by which it maps gradients."""
    try:
        return x.data_ptr()
    except RuntimeError:
        return 0


def _packed(x: Tensor) -> Tensor:
    """For its gradient."""
    return torch.empty_like(x) if x.is_contiguous() else x.new_empty(x.shape)


def _like(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Any, ...]:
    return q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(), v.dtype


def _unrepeated(x: Tensor) -> Tensor:
    """The tensor itself, or a copy where heads or rows repeat (stride 0); samples may."""
    step = x.stride()
    return x if 0 not in step or all(n == 1 for n, s in zip(x.shape[-3:-1], step[-3:-1]) if s == 0) else x.contiguous()


class Call(NamedTuple):
    """What a call that is recorded has besides tensors."""

    h: Hierarchy
    kind: Prepared
    like: Tuple[Any, ...]
    how: How
    lse: bool
    names: Tuple[str, ...]  # of the tables that are tensors
    numbers: Dict[str, float]


def _new_out(kind: Prepared, q: Tensor) -> Tensor:
    """For the output."""
    if not kind.clear_here:
        return torch.empty_like(q) if kind.is_like_query else q.new_empty(kind.shape)
    return torch.from_numpy(kind.new_out()) if q.dtype is torch.float32 else q.new_empty(kind.shape).zero_()


def _run(
    kind: Prepared, how: How, want_lse: bool, q: Tensor, k: Tensor, v: Tensor, tables: Optional[Tables], tape: int
) -> Tuple[Tensor, Optional_]:  # fmt: skip
    """out and lse; the tape at that address is filled."""
    _, _, seed, layer, _, _, _ = how
    out = _new_out(kind, q)
    lse = q.new_empty(kind.shape[:-1], dtype=torch.float32) if want_lse else None
    kind.execute(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), 0 if lse is None else lse.data_ptr(), tape, tables, seed, layer
    )  # fmt: skip
    return out, lse


class _Attend(torch.autograd.Function):
    """out, or out and lse, of (call, its tables, q, k, v, those that are tensors ..)."""

    @staticmethod
    def forward(ctx: Any, call: Call, described: Optional[Tables], q: Tensor, k: Tensor, v: Tensor, *tables: Tensor) -> Any:
        kind = call.kind
        tape = kind.new_tape()
        ctx.call, ctx.tape, ctx.tape_at, ctx.waits = call, tape, address(tape), kind.plan.awaited()
        out, lse = _run(kind, call.how, call.lse, q, k, v, described, ctx.tape_at)
        ctx.save_for_backward(q, k, v, out, *tables)
        ctx.set_materialize_grads(False)
        return out if lse is None else (out, lse)

    @staticmethod
    def backward(ctx: Any, d_out: Optional_, d_lse: Optional_ = None) -> Any:
        call, (_, _, *needs) = ctx.call, ctx.needs_input_grad
        q, k, v, out, *tables = ctx.saved_tensors
        if d_out is None and d_lse is None:
            return (None, None, *(None for _ in needs))
        upstream, ctx.waits = torch.zeros_like(out) if d_out is None else d_out, None
        if _as_forward(call, upstream, q, k, v, out):
            try:
                return (None, None, *_back(call, needs, upstream, d_lse, q, k, v, out, ctx.tape_at, tables))
            except Taken:
                pass
        return (None, None, *_operation(call).gradients(needs, upstream, d_lse, out, torch.from_numpy(ctx.tape), (q, k, v, *tables)))


def _operation(call: Call) -> Operation:
    """For a backward pass that torch watches, or whose saved tensors have come back otherwise."""
    layout, dropout, seed, layer, precision, threads, isa = call.how
    how = layout, dropout, signed(seed), layer, precision, threads, isa
    names, numbers = " ".join([*call.names, *call.numbers]), list(call.numbers.values())
    return Operation(call.h, inputs_of(call.h, how, call.lse, (), names, numbers), call.lse)


def _as_forward(call: Call, upstream: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> bool:
    """Is no mode watching, and are the plan and the tensors those of the forward pass? Hooks on saved tensors may return others."""
    if torch.is_grad_enabled() or watched() or not (is_plain(upstream) and address_of(upstream)):
        return False
    alike = upstream.dtype is out.dtype and _like(q, k, v) == call.like
    return alike and is_plain(q) and is_plain(k) and is_plain(v) and is_plain(out)


def _back(
    call: Call, needs: Sequence[bool], d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: int,
    tables: Sequence[Tensor],
) -> List[Optional_]:  # fmt: skip
    kind, h, (_, _, seed, layer, _, _, _) = call.kind, call.h, call.how
    taken = in_memory(h, {**call.numbers, **dict(zip(call.names, tables))}) if call.names or h._own else None
    d_out, out = d_out.contiguous(), out.contiguous()
    d_lse = None if d_lse is None else d_lse.contiguous()
    d_q, d_k, d_v = _packed(q) if needs[0] else None, _packed(k) if needs[1] else None, _packed(v) if needs[2] else None
    d_tables: Dict[str, np.ndarray] = {}
    for name, need in zip(call.names, needs[3:]):
        if need and taken is not None:
            d_tables[name] = kind.plan.spares.empty(taken.arrays[name].shape, taken.arrays[name].dtype)
    kind.gradient(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), tape, d_out.data_ptr(), 0 if d_lse is None else d_lse.data_ptr(),
        0 if d_q is None else d_q.data_ptr(), 0 if d_k is None else d_k.data_ptr(), 0 if d_v is None else d_v.data_ptr(),
        taken, d_tables, seed, layer,
    )  # fmt: skip
    if not call.names:
        return [d_q, d_k, d_v]
    d_tables = of_callers(h, d_tables)
    return [d_q, d_k, d_v] + [torch.from_numpy(d_tables[name]) if name in d_tables else None for name in call.names]


def _needs_grad(tables: Mapping[str, Any]) -> bool:
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in tables.values())


def attention(h: Hierarchy, q: Tensor, k: Tensor, v: Tensor, by_name: Mapping[str, Any], how: How, lse: bool) -> Any:
    """Hierarchy.attention of plain tensors that no mode watches."""
    layout, dropout, seed, layer, precision, threads, isa = how
    tables = in_memory(h, by_name) if by_name or h._own else None
    taped = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or bool(by_name) and _needs_grad(by_name))
    if type(dropout) is not float:
        dropout = number(dropout, "dropout")
    threads = threads or h._threads or torch.get_num_threads()
    if type(threads) is not int:
        threads = h._threads_for(threads)
    seed, layer = draws(seed, layer)
    how, like = (layout, dropout, seed, layer, precision, threads, isa), _like(q, k, v)
    key = (layout, dropout, precision, threads, isa, taped, tables.key if tables else tuple(by_name.items()), like)
    while True:
        kind = h._known(key)
        if kind is None:
            packed = _unrepeated(q), _unrepeated(k), _unrepeated(v)
            if packed[0] is not q or packed[1] is not k or packed[2] is not v:
                return attention(h, *packed, by_name, how, lse)
            p = Problem(h, q, k, v, layout, tables or Tables(h, by_name))
            kind = h._prepare(key, h._plan(p.plan_key(h._threads_for(threads), precision, isa, dropout, taped)), p)
        kind.plan.used = next(USES)
        if (q.data_ptr() | k.data_ptr() | v.data_ptr()) & kind.odd:
            as_numpy(q, "query"), as_numpy(k, "key"), as_numpy(v, "value")
        try:
            if taped:
                tensors = {name: x for name, x in by_name.items() if isinstance(x, torch.Tensor)} if by_name else {}
                numbers = {name: x for name, x in by_name.items() if type(x) is float} if by_name else {}
                return _Attend.apply(Call(h, kind, like, how, lse, tuple(tensors), numbers), tables, q, k, v, *tensors.values())
            out, lses = _run(kind, how, lse, q, k, v, tables, 0)
            return (out, lses) if lse else out
        except Taken:
            continue
