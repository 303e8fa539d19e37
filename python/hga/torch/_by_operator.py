"""Attention of a hierarchy by torch's operator: a pass inside torch.compile, and functions that torch.func can transform."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, cast

import torch

from .._core.call import LAYOUTS
from .._core.normalisers import normalised
from .._core.tables import INPUTS, features_of
from .._core.arrays import as_numpy
from .._core.library import refuse
from .._graphs.calls import KNOWN, How
from .._graphs.hierarchy import Hierarchy
from ._one_pass import PASSES, Inputs, Pass, refuse_second, wanted
from ._operators import refuse_forward, tensor_of, unsigned

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


def inputs_of(
    h: Hierarchy, how: How, lse: bool, tensors: Sequence[Tensor], names: str, numbers: Sequence[float], normaliser: Optional[str] = None,
) -> Inputs:  # fmt: skip
    """A call, as the operator takes it; the seed is signed."""
    layout, dropout, seed, layer, precision, threads, isa = how
    words = f"{h._name}|{'lse' if lse else ''}|{layout}|{precision}|{isa or ''}|{normaliser or ''}"
    return Inputs(words, [seed, layer, threads], [dropout, *numbers], tensors, names)


def _call(inputs: Inputs) -> Tuple[Hierarchy, How, bool]:
    """Is the log-sum-exp requested, as the third?"""
    name, lse, layout, precision, isa, normaliser = inputs.words.split("|", 5)
    h, (seed, layer, threads) = KNOWN.get(name), inputs.whole
    if h is None:
        raise refuse("the hierarchy of this operator is gone")
    h = normalised(h, normaliser or None)
    threads = threads or h.threads or torch.get_num_threads()
    return h, (layout, inputs.floats[0], unsigned(seed), layer, precision, threads, isa or None), bool(lse)


def _run(inputs: Inputs) -> Tuple[Tensor, Optional_, Tensor]:
    (h, how, want_lse), (q, k, v, *_) = _call(inputs), inputs.tensors
    out, lse, tape = h._forward(q, k, v, inputs.named(), how, want_lse, "g" in inputs.wants)
    none = torch.empty(0, dtype=torch.uint8)
    return tensor_of(out), None if lse is None else tensor_of(lse), none if tape is None else tensor_of(tape)


def _shapes(inputs: Inputs) -> Tuple[Tensor, Optional_, Tensor]:
    (h, how, want_lse), (q, k, v, *_), tables = _call(inputs), inputs.tensors, inputs.named()
    out = q.new_empty(q.shape[:-1] + (v.shape[-1] + features_of(tables),))
    lse = q.new_empty(q.shape[:-1], dtype=torch.float32) if want_lse else None
    size = q.shape[:-3] + (h._tape_bytes(q, k, v, tables, how),) if "g" in inputs.wants else (0,)
    return out, lse, q.new_empty(size, dtype=torch.uint8)


def _back(inputs: Inputs, kept: Sequence[Tensor], d_out: Optional_, d_lse: Optional_) -> List[Tensor]:
    (h, how, want_lse), (q, k, v, *_), (out, tape) = _call(inputs), inputs.tensors, kept
    requested = [name for name, want in zip((*INPUTS, *inputs.names.split()), inputs.wants) if want == "g"]
    upstream = as_numpy((torch.zeros_like(out) if d_out is None else d_out).contiguous(), "d_out")
    lse = as_numpy(d_lse.contiguous(), "d_lse") if want_lse and d_lse is not None else None
    grads = h._backward(q, k, v, as_numpy(out, "out"), tape.numpy(), upstream, lse, inputs.named(), how, requested)
    return [tensor_of(grads[name]) for name in requested]


def _attends_by(inputs: Inputs) -> Iterable[Tuple[Hierarchy, int, int]]:
    (h, (layout, *_), _), q = _call(inputs), inputs.tensors[0]
    return [(h, q.shape[LAYOUTS[layout][0]] if q.dim() > 2 else 1, math.prod(q.shape[:-3]))]


PASSES["hierarchy"] = Pass(_run, _shapes, _back, True, _attends_by)


# ---- outside of torch.compile: functions, which torch.func can transform ----


class Operation:
    """What a call has besides tensors: one object, so that torch.func does not look into it. It keeps the hierarchy alive."""

    def __init__(self, h: Hierarchy, inputs: Inputs, lse: bool) -> None:
        self.h, self.inputs, self.lse, self.taped = h, inputs, lse, "g" in inputs.wants

    def _with(self, tensors: Sequence[Optional_], wants: str) -> Tuple[Any, ...]:
        words, numbers, floats, _, names, _ = self.inputs
        return "hierarchy", words, numbers, floats, tensors, names, wants

    def attended(self, *tensors: Optional_) -> Tuple[Tensor, Tensor, Tensor]:
        return cast(Tuple[Tensor, Tensor, Tensor], _Attend.apply(self, *tensors))

    def forth(self, *tensors: Optional_) -> Tuple[Tensor, Tensor, Tensor]:
        return cast(Tuple[Tensor, Tensor, Tensor], torch.ops.hga.attention(*self._with(tensors, self.inputs.wants)))

    def back(self, wants: str, d_out: Tensor, d_lse: Optional_, out: Tensor, tape: Tensor, *tensors: Tensor) -> List[Tensor]:
        return cast(List[Tensor], torch.ops.hga.attention_backward(d_out, d_lse, [out, tape], *self._with(tensors, wants)))

    def gradients(
        self, needs: Sequence[bool], d_out: Optional_, d_lse: Optional_, out: Tensor, tape: Tensor, tensors: Sequence[Tensor]
    ) -> List[Optional_]:  # fmt: skip
        """Of query, key, value and the tables that are tensors, where they are needed."""
        if d_out is None and d_lse is None:
            return [None for _ in needs]
        d_out = torch.zeros_like(out) if d_out is None else d_out
        found = iter(_AttendBackward.apply(self, wanted(needs), d_out, d_lse if self.lse else None, out, tape, *tensors))
        return [next(found) if need else None for need in needs]


def _each(run: Callable[..., Sequence[Tensor]], n: int, in_dims: Sequence[Optional[int]], tensors: Sequence[Any]) -> Any:
    """vmap by a loop, where samples share no call."""
    found = [run(*(x if d is None else x.select(d, i) for x, d in zip(tensors, in_dims))) for i in range(n)]
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
    """(out, lse, tape) of (operation, q, k, v, tables ..)."""

    @staticmethod
    def forward(call: Operation, *tensors: Optional_) -> Tuple[Tensor, Tensor, Tensor]:
        return call.forth(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.call, *tensors = inputs
        out, _, tape = output
        ctx.save_for_backward(out, tape, *tensors)
        ctx.mark_non_differentiable(tape)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, d_out: Optional_, d_lse: Optional_, d_tape: Any) -> Any:
        (_, *needs), (out, tape, *tensors) = ctx.needs_input_grad, ctx.saved_tensors
        return None, *ctx.call.gradients(needs, d_out, d_lse, out, tape, tensors)

    @staticmethod
    def jvp(ctx: Any, *d: Any) -> Any:
        refuse_forward(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: Tuple[Any, ...], call: Operation, *tensors: Optional_) -> Any:
        n, (_, *dims), (q, k, v, *tables) = info.batch_size, in_dims, tensors
        of_q, of_k, of_v, *of_tables = dims
        if any(d is not None for d in of_tables):  # a table for each
            return _each(call.attended, n, dims, tensors), (0, 0, 0)
        flat = cast(Tensor, q).dim() - (of_q is not None) == 2
        out, lse, tape = call.attended(*_first(n, (of_q, of_k, of_v), (q, k, v), flat), *tables)
        if flat:
            out, lse = out.squeeze(1), lse.squeeze(1) if call.lse else lse
        return (out, lse, tape), (0, 0 if call.lse else None, 0 if call.taped else None)


class _AttendBackward(torch.autograd.Function):
    """The gradients that are needed, of (operation, which they are, d_out, d_lse, out, tape, q, k, v, tables ..)."""

    @staticmethod
    def forward(call: Operation, wants: str, *tensors: Optional_) -> Tuple[Tensor, ...]:
        return tuple(call.back(wants, *tensors))  # type: ignore[arg-type]

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
    def vmap(info: Any, in_dims: Tuple[Any, ...], call: Operation, wants: str, *tensors: Optional_) -> Any:
        n, (_, _, *dims), out_dims = info.batch_size, in_dims, (0,) * wants.count("g")
        (d_out, d_lse, out, tape, q, k, v, *tables), (*of_outputs, of_tape, of_q, of_k, of_v) = tensors, dims[:7]
        if any(d is not None for d in dims[7:]) or "g" in wants[3:]:  # a gradient for each
            return _each(lambda *x: _AttendBackward.apply(call, wants, *x), n, dims, tensors), out_dims
        flat = cast(Tensor, q).dim() - (of_q is not None) == 2
        moved = _first(n, (*of_outputs, of_q, of_k, of_v), (d_out, d_lse, out, q, k, v), flat)
        tape = cast(Tensor, tape)
        tape = tape.movedim(of_tape, 0) if of_tape is not None else tape.new_empty(0)
        found = _AttendBackward.apply(call, wants, *moved[:3], tape, *moved[3:], *tables)
        return tuple(x.squeeze(1) if flat else x for x in found), out_dims
