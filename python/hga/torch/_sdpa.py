"""Dense attention by hga where that is faster than torch's, and by torch where it is not."""

from __future__ import annotations

import os
from typing import Any, Optional

import torch

from .._core.library import ffi, lib
from .._core.releases import private
from ._operators import has_tangent
from ._ragged import attend

Tensor = torch.Tensor

# The least work of a call, in millions of products (batch * heads * tokens^2 * columns of keys and values), from which no model takes
# longer by hga: of an instruction set, in 16 bits or not, with gradients or forward alone. bench/crossings.py measures it in whole
# models, beside torch with the same instructions. A set without rows has those of AVX2, where hga's lead is the smallest.
LEAST_WORK = {
    ("avx512bf16", False, False): 80.0, ("avx512bf16", False, True): 40.0, ("avx512bf16", True, False): 34.0, ("avx512bf16", True, True): 30.0,
    ("avx2", False, False): 400.0, ("avx2", False, True): 45.0, ("avx2", True, False): 130.0, ("avx2", True, True): 60.0,
}  # fmt: skip
FEWEST = 96  # tokens: calls of many short samples take longest
SIXTEEN = (torch.float16, torch.bfloat16)

# The fewest tokens from which hga is faster where scores have biases by distance: beside sdpa, which has them as a mask of pairs, and
# beside attention step by step; in 16 bits; with gradients. bench/crossings.py
# measures them in whole models. Heads of fewer columns than NARROWEST are slower up to some 500 tokens.
BY_DISTANCE = {
    ("sdpa", False, False): 256, ("sdpa", False, True): 192, ("sdpa", True, False): 192, ("sdpa", True, True): 128,
    ("eager", False, False): 192, ("eager", False, True): 192, ("eager", True, False): 1024, ("eager", True, True): 2048,
}  # fmt: skip
NARROWEST = 64


def work_of(batch: int, heads: int, tokens: int, columns: int) -> float:
    """Of keys and values together."""
    return batch * heads * tokens * tokens * columns / 1e6


def _measured() -> str:
    """Whose rows are for what hga computes with here?"""
    best = os.environ.get("HGA_ISA") or ffi.string(lib.hga_isa_list()).decode().split()[-1]
    return best if (best, False, False) in LEAST_WORK else "avx2"


SET = _measured()


def is_little(work: float, tokens: int, dtype: Any, trains: bool) -> bool:
    return tokens < FEWEST or work < LEAST_WORK[SET, dtype in SIXTEEN, trains]


def call_is_little(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """[batch][heads][tokens][dim] each."""
    batch, heads, tokens, dim = query.shape
    trains = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    return is_little(work_of(batch, heads, tokens, dim + value.shape[3]), tokens, query.dtype, trains)


def fewest_by_distance(beside: str, dtype: Any, trains: bool) -> int:
    return BY_DISTANCE[beside, dtype in SIXTEEN, trains]


def is_transformed(*tensors: Tensor) -> bool:
    """Do they have tangents, or are they inside a transform of torch.func, in which the operator of texts does not run?"""
    if torch.compiler.is_compiling():
        return False
    wrapped = private("torch._C._functorch").is_functorch_wrapped_tensor
    return any(has_tangent(x) or wrapped(x) for x in tensors)


def _is_ours(query: Tensor, key: Tensor, value: Tensor, grouped: bool) -> bool:
    if torch.is_autocast_enabled("cpu") or is_transformed(query, key, value):
        return False
    same_type = query.dtype == key.dtype == value.dtype and (query.dtype == torch.float32 or query.dtype in SIXTEEN)
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4 or query.device.type != "cpu" or not same_type:
        return False
    batch, heads, tokens, dim = query.shape
    heads_fit = key.shape[1] == heads or (grouped and heads % max(1, key.shape[1]) == 0)
    shapes_fit = key.shape == (batch, key.shape[1], tokens, dim) and value.shape[:3] == key.shape[:3]
    return heads_fit and shapes_fit and not call_is_little(query, key, value)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: Optional[float] = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """``torch.nn.functional.scaled_dot_product_attention``, with its arguments, its results up to rounding, and gradients: by hga
    where that is faster, which is on the CPU, without a mask and dropout, of as many queries as keys, from some work on; else by
    torch. Where hga attends there is no second derivative."""
    if attn_mask is None and not dropout_p and _is_ours(query, key, value, enable_gqa):
        return attend("dense", query, key, value, causal=is_causal, scale=scale).transpose(1, 2).contiguous()
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
