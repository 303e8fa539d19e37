"""Neighbourhood attention with the arguments of NATTEN's functions, over the hierarchies of ``hga.neighbourhood``."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import torch

from .._core.arguments import flag, whole
from .._core.library import refuse, refuse_type
from .._graphs import functions
from ._attention import attention

Tensor = torch.Tensor
Each = Union[int, Sequence[int]]  # one number, or one for each axis

# How NATTEN's kernels for GPUs compute, not what: nothing of it means anything here.
_KERNELS = (
    "attention_kwargs", "backend", "q_tile_shape", "kv_tile_shape", "backward_q_tile_shape", "backward_kv_tile_shape", "backward_kv_splits",
    "backward_use_pt_reduction", "run_persistent_kernel", "kernel_schedule", "torch_compile",
)  # fmt: skip


def _each(who: str, name: str, given: Any, axes: int) -> Tuple[int, ...]:
    found = given if isinstance(given, (tuple, list)) else (given,) * axes
    if len(found) != axes:
        raise refuse(f"{who}: {name} has {len(found)} numbers, the grid {axes} axes")
    if name == "is_causal":
        return tuple(int(flag(x, f"{who}: {name}")) for x in found)
    return tuple(whole(x, f"{who}: {name}") for x in found)


def _attend(
    who: str, axes: int, query: Tensor, key: Tensor, value: Tensor, kernel_size: Each, stride: Each, dilation: Each, is_causal: Any,
    scale: Optional[float], additional: Sequence[Any], kernels: Sequence[str],
) -> Tensor:  # fmt: skip
    for x, name in ((query, "query"), (key, "key"), (value, "value")):
        if not isinstance(x, torch.Tensor):
            raise refuse_type(f"{who}: {name} is a {type(x).__name__}, not a tensor")
    shape = tuple(query.shape[1 : 1 + axes])
    if query.dim() != axes + 3 or key.shape[: axes + 1] != query.shape[: axes + 1] or value.shape[:-1] != key.shape[:-1]:
        grid = ", ".join("XYZ"[:axes])
        found = "; ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise refuse(f"{who}: query, key and value are [batch, {grid}, heads, head_dim], of one grid; they have the shapes {found}")
    unknown = [name for name in kernels if name not in _KERNELS]
    if unknown:
        raise refuse_type(f"{who}: unknown argument {unknown[0]!r}")
    if any(x is not None for x in additional):
        raise refuse(f"{who}: additional_keys and additional_values are not offered: make a graph with a second relation")
    kernel, step, causal = _each(who, "kernel_size", kernel_size, axes), _each(who, "dilation", dilation, axes), _each(who, "is_causal", False if is_causal is None else is_causal, axes)
    if any(s != 1 for s in _each(who, "stride", stride, axes)):
        raise refuse(f"{who}: stride={stride!r} is not offered: every token has a window of its own, stride=1")
    for length, k, d in zip(shape, kernel, step):
        if k < 1 or d < 1 or k * d > length:
            raise refuse(f"{who}: a kernel of {k} with dilation {d} does not fit into an axis of {length} tokens")
    h = functions.neighbourhood(shape=shape, kernel=kernel, dilation=step, causal=causal)
    rows = [x.flatten(1, axes) for x in (query, key, value)]
    y: Tensor = attention(h, *rows, layout="bnhd", scale=scale)
    out: Tensor = y.unflatten(1, shape)  # type: ignore[no-untyped-call]
    return out


def na1d(
    query: Tensor, key: Tensor, value: Tensor, kernel_size: Each, stride: Each = 1, dilation: Each = 1, is_causal: Any = False,
    scale: Optional[float] = None, additional_keys: Optional[Tensor] = None, additional_values: Optional[Tensor] = None, **kernels: Any,
) -> Tensor:  # fmt: skip
    """``natten.na1d`` on the CPU, with gradients: [batch, X, heads, head_dim], each token over the nearest ``kernel_size`` ones.
    stride is 1, and there are no additional keys; options of NATTEN's kernels say nothing here."""
    return _attend("na1d", 1, query, key, value, kernel_size, stride, dilation, is_causal, scale, (additional_keys, additional_values), tuple(kernels))


def na2d(
    query: Tensor, key: Tensor, value: Tensor, kernel_size: Each, stride: Each = 1, dilation: Each = 1, is_causal: Any = False,
    scale: Optional[float] = None, additional_keys: Optional[Tensor] = None, additional_values: Optional[Tensor] = None, **kernels: Any,
) -> Tensor:  # fmt: skip
    """The same of images, [batch, X, Y, heads, head_dim]; one number is for both axes."""
    return _attend("na2d", 2, query, key, value, kernel_size, stride, dilation, is_causal, scale, (additional_keys, additional_values), tuple(kernels))


def na3d(
    query: Tensor, key: Tensor, value: Tensor, kernel_size: Each, stride: Each = 1, dilation: Each = 1, is_causal: Any = False,
    scale: Optional[float] = None, additional_keys: Optional[Tensor] = None, additional_values: Optional[Tensor] = None, **kernels: Any,
) -> Tensor:  # fmt: skip
    """The same of videos, [batch, X, Y, Z, heads, head_dim]."""
    return _attend("na3d", 3, query, key, value, kernel_size, stride, dilation, is_causal, scale, (additional_keys, additional_values), tuple(kernels))
