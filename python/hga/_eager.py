"""torch outside of torch.compile, of plain tensors: no operator, one autograd.Function, and C. What torch watches (modes,
transforms, tracing), subclasses of tensors and trees by head go by the registered operators instead."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

from ._call import Problem
from ._core import as_numpy, number
from ._hierarchy import Hierarchy, How, draws
from ._plans import USES, Taken
from ._prepared import Prepared, address
from ._tables import Tables, in_memory, of_callers

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]
PLAIN = (torch.Tensor, torch.nn.Parameter)


def _perhaps() -> bool:
    return True


# Of torch's own, not its public interface: where this torch has one no longer, somebody may be watching.
transforms_active = getattr(torch._C, "_are_functorch_transforms_active", _perhaps)
_DISPATCH = getattr(torch._C, "_len_torch_dispatch_stack", _perhaps)
_FUNCTIONS = getattr(torch._C, "_is_torch_function_mode_enabled", _perhaps)
_TRACING = getattr(torch._C, "_get_tracing_state", _perhaps)


def watched() -> bool:
    """Is there anyone who wants to see an operator?"""
    return bool(transforms_active() or _DISPATCH() or forward_ad._current_level >= 0 or _FUNCTIONS() or _TRACING() is not None)


def is_plain(x: Any) -> bool:
    """Memory of the processor's, and nothing else."""
    return type(x) in PLAIN and x.is_cpu and x.layout is torch.strided and not (x.is_neg() or x.is_nested)


def are_plain(given: Mapping[str, Any]) -> bool:
    for x in given.values():
        if isinstance(x, torch.Tensor) and not is_plain(x):
            return False
    return True


def _address(x: Tensor) -> int:
    """Where a tensor's memory begins; 0 of what has none: a stand-in of torch's older vmap, by which it maps gradients."""
    try:
        return x.data_ptr()
    except RuntimeError:
        return 0


def _packed(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _like(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Any, ...]:
    return q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(), v.dtype


def _apart(x: Tensor) -> Tensor:
    """The tensor itself, or a copy where heads or rows repeat (stride 0); samples may."""
    step = x.stride()
    return x if 0 not in step or all(n == 1 for n, s in zip(x.shape[-3:-1], step[-3:-1]) if s == 0) else x.contiguous()


class Call(NamedTuple):
    """What a call has besides tensors."""

    h: Hierarchy
    kind: Prepared
    like: Tuple[Any, ...]
    how: How
    lse: bool
    names: List[str]  # of the tables that are tensors
    numbers: Dict[str, float]


def _run(
    kind: Prepared, how: How, want_lse: bool, q: Tensor, k: Tensor, v: Tensor, tables: Optional[Tables]
) -> Tuple[Tensor, Optional_, Optional[np.ndarray]]:  # fmt: skip
    """out, lse and tape."""
    _, _, seed, layer, _, _, _ = how
    out = torch.from_numpy(kind.new_out()) if kind.clear_here and q.dtype is torch.float32 else q.new_empty(kind.shape)
    if kind.clear_here and q.dtype is not torch.float32:
        out.zero_()
    lse = q.new_empty(kind.shape[:-1], dtype=torch.float32) if want_lse else None
    tape = kind.plan.spares.empty(kind.batch + (kind.tape_bytes,), np.uint8) if kind.taped else None
    if tape is not None:
        kind.plan.note_tape(tape)
    kind.execute(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), 0 if lse is None else lse.data_ptr(),
        address(tape), tables, seed, layer,
    )  # fmt: skip
    return out, lse, tape


class _Attend(torch.autograd.Function):
    """out, or out and lse, of (call, its tables, q, k, v, those that are tensors ..)."""

    @staticmethod
    def forward(ctx: Any, call: Call, brought: Optional[Tables], q: Tensor, k: Tensor, v: Tensor, *tables: Tensor) -> Any:
        out, lse, ctx.tape = _run(call.kind, call.how, call.lse, q, k, v, brought)
        ctx.call = call
        ctx.save_for_backward(q, k, v, out, *tables)
        ctx.set_materialize_grads(False)
        return out if lse is None else (out, lse)

    @staticmethod
    def backward(ctx: Any, d_out: Optional_, d_lse: Optional_ = None) -> Any:
        call, tape, (_, _, *needs) = ctx.call, ctx.tape, ctx.needs_input_grad
        q, k, v, out, *tables = ctx.saved_tensors
        if d_out is None and d_lse is None:
            return (None, None, *(None for _ in needs))
        given = torch.zeros_like(out) if d_out is None else d_out
        call.kind.plan.spend_tape(tape)
        seen = call.kind.plan.taken or torch.is_grad_enabled() or watched() or not is_plain(given) or not _address(given) or given.dtype != out.dtype
        # hooks on saved tensors may give back others
        if seen or _like(q, k, v) != call.like or not all(is_plain(x) for x in (q, k, v, out)):
            from . import torch as binding

            found = binding.back_by_operators(call, needs, given, d_lse, (q, k, v), out, torch.from_numpy(tape), tables)
            return (None, None, *found)
        try:
            return (None, None, *_back(call, needs, given, d_lse, (q, k, v), out, tape, tables))
        except Taken:
            from . import torch as binding

            return (None, None, *binding.back_by_operators(call, needs, given, d_lse, (q, k, v), out, torch.from_numpy(tape), tables))


def _back(
    call: Call, needs: Sequence[bool], d_out: Tensor, d_lse: Optional_, inputs: Tuple[Tensor, ...], out: Tensor,
    tape: np.ndarray, tables: Sequence[Tensor],
) -> List[Optional_]:  # fmt: skip
    kind, h, (_, _, seed, layer, _, _, _) = call.kind, call.h, call.how
    taken = in_memory(h, {**call.numbers, **dict(zip(call.names, tables))} if call.names else call.numbers)
    d_out, out = d_out.contiguous(), out.contiguous()
    d_lse = None if d_lse is None else d_lse.contiguous()
    wanted = iter(needs)  # those of the inputs, then those of tables
    grads: List[Optional_] = []
    for tensor, need in zip(inputs, wanted):
        new = torch.empty_like if tensor.is_contiguous() else _packed
        grads.append(new(tensor) if need else None)
    def room(name: str) -> np.ndarray:
        like = taken.arrays[name]  # type: ignore[union-attr]
        return kind.plan.spares.empty(like.shape, like.dtype)

    d_tables = {name: room(name) for name, need in zip(call.names, wanted) if need and taken is not None}
    d_q, d_k, d_v = [0 if x is None else x.data_ptr() for x in grads]
    q, k, v = inputs
    kind.gradient(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), address(tape), d_out.data_ptr(),
        0 if d_lse is None else d_lse.data_ptr(), d_q, d_k, d_v, taken, d_tables, seed, layer,
    )  # fmt: skip
    d_tables = of_callers(h, d_tables) if d_tables else d_tables
    return grads + [torch.from_numpy(d_tables[name]) if name in d_tables else None for name in call.names]


def attention(h: Hierarchy, q: Tensor, k: Tensor, v: Tensor, given: Mapping[str, Any], how: How, lse: bool) -> Any:
    """Hierarchy.attention of plain tensors that nobody watches."""
    layout, dropout, seed, layer, precision, threads, isa = how
    q, k, v = _apart(q), _apart(k), _apart(v)
    tables = in_memory(h, given)
    taped = torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad
        or (tables is not None and any(isinstance(x, torch.Tensor) and x.requires_grad for x in given.values()))
    )  # fmt: skip
    if type(dropout) is not float:
        dropout = number(dropout, "dropout")
    threads = h._threads_for(threads or h._threads or torch.get_num_threads())
    seed, layer = draws(seed, layer)
    how = (layout, dropout, seed, layer, precision, threads, isa)
    like = _like(q, k, v)
    key = (layout, dropout, precision, threads, isa, taped, tables.key if tables else tuple(given.items()), like)
    def prepared() -> Prepared:
        try:
            kind = h._calls[key]
        except (KeyError, TypeError):
            p = Problem(h, q, k, v, layout, tables or Tables(h, given))
            kind = h._prepare(key, h._plan(p.plan_key(threads, precision, isa, dropout, taped)), p)
        kind.plan.used = next(USES)
        return kind

    kind = prepared()
    if (q.data_ptr() | k.data_ptr() | v.data_ptr()) & kind.odd:
        as_numpy(q, "query"), as_numpy(k, "key"), as_numpy(v, "value")
    if not taped:
        while True:
            try:
                out, lses, _ = _run(kind, how, lse, q, k, v, tables)
                return (out, lses) if lse else out
            except Taken:
                kind = prepared()
    tensors = {name: x for name, x in given.items() if isinstance(x, torch.Tensor)}
    numbers = {name: x for name, x in given.items() if type(x) is float}
    while True:
        try:
            return _Attend.apply(Call(h, kind, like, how, lse, list(tensors), numbers), tables, q, k, v, *tensors.values())
        except Taken:
            kind = prepared()
