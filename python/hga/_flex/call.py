"""torch's FlexAttention on CPUs: what a call may be given, and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Literal, Optional, Tuple, Union, overload

import torch
from torch.nn.attention import flex_attention as theirs

from .._core.arguments import flag, number, whole
from .._core.library import refuse, refuse_type
from .attend import Pairs, ScoreMod, attend, understood
from .compiled import compiled
from .trace import not_offered
from .._graphs.hierarchy import Hierarchy

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import AuxOutput, AuxRequest, BlockMask

Tensor = torch.Tensor
Options = Optional[Dict[str, Any]]


def _refuse_nested(x: Tensor, name: str) -> None:
    if x.is_nested:
        raise refuse(f"{name} is a nested tensor: give the rows of all samples one after the other, [1][heads][rows][dim], with a block_mask of "
                     "documents, or a padded batch")  # fmt: skip


def _check(query: Any, key: Any, value: Any, enable_gqa: Any) -> None:
    for x, name in ((query, "query"), (key, "key"), (value, "value")):
        if not isinstance(x, torch.Tensor):
            raise refuse_type(f"{name} is a {type(x).__name__}, not a tensor")
        _refuse_nested(x, name)
        if x.dim() != 4:
            raise refuse(f"{name} has shape {tuple(x.shape)}, not [batch][heads][tokens][dim]")
    (samples, heads, _, dim), (k_samples, kv_heads, keys, k_dim), of_value = query.shape, key.shape, value.shape
    v_samples, v_heads, values, dim_v = of_value
    for n, x, name in ((dim, query, "query"), (k_dim, key, "key"), (dim_v, value, "value")):
        if not n:
            raise refuse(f"{name} has shape {tuple(x.shape)}: at least one column is needed")
    if k_dim != dim:
        raise refuse(f"key has {k_dim} columns, query has {dim}")
    if v_heads != kv_heads or values != keys:
        raise refuse(f"value has shape {tuple(of_value)}, key {tuple(key.shape)}")
    if heads and not kv_heads:
        raise refuse(f"key has shape {tuple(key.shape)}: no heads")
    if flag(enable_gqa, "enable_gqa"):
        if kv_heads and heads % kv_heads:
            raise refuse(f"{kv_heads} key heads do not divide {heads} query heads")
    elif heads != kv_heads:
        raise refuse(f"query has {heads} heads, key {kv_heads}: enable_gqa=True lets query heads share one")
    for n, name in ((k_samples, "key"), (v_samples, "value")):
        if n not in (1, samples):
            raise refuse(f"query has {samples} samples, {name} {n}")


def _wants_lse(return_lse: Any, return_aux: Any) -> bool:
    lse = flag(return_lse, "return_lse")
    if return_aux is None:
        return lse
    known: Any = getattr(theirs, "AuxRequest", ())  # torch has it since 2.9
    if not isinstance(return_aux, known):
        raise refuse_type(f"return_aux is {return_aux!r}, not an AuxRequest")
    if lse:
        raise refuse("return_lse and return_aux are given: one of them is enough")
    if return_aux.max_scores:
        raise not_offered("return_aux: max_scores are not known, log-sum-exps are")
    return flag(return_aux.lse, "AuxRequest.lse")


@overload
def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod = ..., block_mask: Optional[BlockMask] = ...,
    scale: Optional[float] = ..., enable_gqa: bool = ..., return_lse: Literal[False] = ..., kernel_options: Options = ..., *,
    return_aux: None = ...,
) -> Tensor: ...  # fmt: skip


@overload
def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod = ..., block_mask: Optional[BlockMask] = ...,
    scale: Optional[float] = ..., enable_gqa: bool = ..., *, return_lse: Literal[True], kernel_options: Options = ...,
    return_aux: None = ...,
) -> Pairs: ...  # fmt: skip


@overload
def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod = ..., block_mask: Optional[BlockMask] = ...,
    scale: Optional[float] = ..., enable_gqa: bool = ..., return_lse: Literal[False] = ..., kernel_options: Options = ..., *,
    return_aux: AuxRequest,
) -> Tuple[Tensor, AuxOutput]: ...  # fmt: skip


@overload
def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod = ..., block_mask: Optional[BlockMask] = ...,
    scale: Optional[float] = ..., enable_gqa: bool = ..., return_lse: bool = ..., kernel_options: Options = ..., *,
    return_aux: Optional[AuxRequest] = ...,
) -> Union[Tensor, Pairs, Tuple[Tensor, AuxOutput]]: ...  # fmt: skip


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod = None, block_mask: Optional[BlockMask] = None,
                   scale: Optional[float] = None, enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options: Options = None, *, return_aux: Optional[AuxRequest] = None) -> Any:  # fmt: skip
    """torch's FlexAttention on CPUs, with a backward pass. query [batch][heads][queries][dim], key and value [batch][kv heads]
    [keys][..], in float32, float16 or bfloat16.

    block_mask: torch's BlockMask; its full blocks are blocks of a graph, its partial ones are evaluated by mask_mod once, and what
    comes of it is cached as long as the BlockMask lives. score_mod(score, b, h, q, k) is traced: the score may be scaled (also by what
    depends on batch, head and query), masked by -inf, and have anything added that is computed from the indices and captured
    tensors, which get gradients. Whatever else it does is refused, naming the operation. return_lse: (out, log-sum-exp), and
    return_aux=AuxRequest(lse=True): (out, AuxOutput). kernel_options say how torch's own kernels run, and nothing here."""
    _check(query, key, value, enable_gqa)
    lse = _wants_lse(return_lse, return_aux)
    if kernel_options is not None and not isinstance(kernel_options, dict):
        raise refuse_type(f"kernel_options is {kernel_options!r}, not a dictionary")
    if isinstance(scale, Tensor) and scale.requires_grad and torch.is_grad_enabled():
        raise refuse("there is no gradient of flex_attention's scale: detach() it, or multiply the score by it in the score_mod")
    scale = None if scale is None else number(scale, "scale")
    run = compiled if torch.compiler.is_compiling() else attend
    out, lses = run(query, key, value, score_mod, block_mask, scale, lse)
    if return_aux is not None:
        return out, theirs.AuxOutput(lse=lses if lse else None)
    return (out, lses) if lse else out


def flex_hierarchy(query: Tensor, key: Tensor, score_mod: ScoreMod = None, block_mask: Optional[BlockMask] = None,
                   batch: int = 0, head: int = 0) -> Hierarchy:  # fmt: skip
    """The hierarchy over which flex_attention of these arguments attends, of one sample and query head: to look at, explain or
    write. Of query and key only the shapes count."""
    for x, name in ((query, "query"), (key, "key")):
        _refuse_nested(x, name)
    plan = understood(query, key, score_mod, block_mask)
    batch = whole(batch, "batch", beyond=query.shape[0])
    head = whole(head, "head", beyond=query.shape[1])
    return plan.hierarchy(batch, head)
