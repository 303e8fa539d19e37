"""Nested tensors of torch, whose samples have lengths of their own: their rows one behind the other, and back."""

from __future__ import annotations

from typing import Any, List, NamedTuple

import torch

from .._core.values import refuse

Tensor = torch.Tensor


class Rows(NamedTuple):
    """The rows of all samples as those of one, [1, rows, width], and where each sample begins and the last ends."""

    x: Tensor
    offsets: Tensor


def is_nested(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and bool(x.is_nested)


def refuse_nested(x: Any, what: str, who: str) -> None:
    """By who takes samples of one length."""
    if is_nested(x):
        raise refuse(f"{what} is a nested tensor, and {who} takes samples of one length: {what}.to_padded_tensor(0), or sample by sample")


def rows_of(x: Tensor, what: str, width: int) -> Rows:
    """[samples, rows of each, width]."""
    if x.layout == torch.jagged:
        return _rows_of_jagged(x, what, width)
    each: List[Tensor] = list(x.unbind())
    for i, one in enumerate(each):
        if one.dim() != 2 or one.shape[-1] != width:
            raise refuse(f"{what} is nested, and sample {i} has shape {tuple(one.shape)}, not [tokens, {width}]")
    if not each:
        raise refuse(f"{what} is nested, and has no sample")
    ends = torch.tensor([0, *(len(one) for one in each)]).cumsum(0)
    return Rows(torch.cat(each)[None], ends)


def _rows_of_jagged(x: Tensor, what: str, width: int) -> Rows:
    if x.dim() != 3 or x.shape[-1] != width:
        raise refuse(f"{what} has shape {tuple(x.shape)}, not [batch, tokens, {width}]")
    jagged: Any = x
    if jagged._ragged_idx != 1 or jagged.lengths() is not None:
        raise refuse(f"{what} is nested with holes between its samples, or transposed: give {what}.contiguous()")
    return Rows(jagged.values()[None], jagged.offsets())


def nested_like(y: Tensor, x: Tensor, offsets: Tensor) -> Tensor:
    """[1, rows, width] with the samples of x, so that both can be added."""
    if x.layout == torch.jagged:
        jagged: Any = x
        found: Tensor = torch.nested.nested_tensor_from_jagged(y[0], offsets, min_seqlen=jagged._maybe_min_seqlen, max_seqlen=jagged._maybe_max_seqlen)
        return found
    return torch.nested.as_nested_tensor(list(torch.split(y[0], offsets.diff().tolist())), layout=torch.strided)
