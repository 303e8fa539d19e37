"""Attention as a layer of transformers asks for it: what it passes becomes hga's arguments, or is refused."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

import torch

from .._core.releases import before_five, cache_argument, has, look_up_early, private
from .._core.library import Error, refuse
from ..torch._documents import is_numbered, sides_in
from ..torch._ragged import attend as attend_documents, looks_no_further
from ._generation import layer_of, windowed

Tensor = torch.Tensor
PREFIX = "hga:"
_COLLECTOR = "transformers.utils.output_capturing._active_collector"
look_up_early(_COLLECTOR)
_OLD = before_five()

# What models ask of their attention beside queries, keys, values, a mask and a scale, and hga's does not do, in words.
_REFUSED = {
    "position_bias": "adds a bias by relative position to the scores",
    "sinks": "gives the softmax a sink",
    "indices": "picks keys for every query",
    "block_indices": "picks blocks of keys for every query",
    "head_mask": "scales heads by a mask",
    "layer_head_mask": "scales heads by a mask",
    "cache": "keeps keys in pages",
}


def refuse_besides(what: str, more: Mapping[str, Any]) -> None:
    for keyword, does in _REFUSED.items():
        if more.get(keyword) is not None:
            raise refuse(f"{what}: it {does} ({keyword})")


def tables_of(more: Mapping[str, Any]) -> Dict[str, Any]:
    """The tables of ``Hierarchy.attention`` that say it: of Gemma 2, and of GPT-OSS."""
    return {"softcap": more.get("softcap"), "sink": more.get("s_aux")}


def collects_weights(module: Any) -> bool:
    """Does the model's caller collect weights? Some models do not say so to their attention."""
    if has(_COLLECTOR):
        return "attentions" in (private(_COLLECTOR).get() or ())
    return bool(getattr(getattr(module, "config", None), "output_attentions", False))


def no_weights(who: str, instead: str = "") -> Error:
    return refuse(f"{who}: output_attentions=True asks for a matrix of weights that hga never has{instead}")


def _check_texts(who: str, module: Any, queries: int, keys: int, causal: bool) -> None:
    """Queries are those of the keys' own text."""
    what = "it attends from one text to another"
    across = getattr(module, "is_cross_attention", False) or "Cross" in type(module).__name__
    if not causal and (across or getattr(module, "is_decoder", False)):
        raise refuse(f"{who}: {what}")
    if queries != keys:
        if causal or getattr(module, "is_causal", False):
            what = f"keys of a cache that is not hga's: pass {cache_argument()}=hga.transformers.Cache(tokens), or use_cache=False"
        raise refuse(f"{who}: {queries} queries and {keys} keys; {what}")


def _check_cached(who: str, module: Any, query: Tensor, offsets: Any, causal: bool, dropout: float) -> None:
    """What is not defined token by token."""
    reasons = (
        (not causal, "its attention looks ahead"), (offsets is not None, "packed texts (cu_seq_lens) have no cache"),
        (bool(dropout) and module.training, "dropout has no cache: call model.eval()"),
        (torch.is_grad_enabled() and query.requires_grad, "a cache has no gradients: call it under torch.no_grad()"),
    )  # fmt: skip
    for wrong, why in reasons:
        if wrong:
            raise refuse(f"{who} with a cache: {why}, or pass use_cache=False")


def window_of(mask: Optional[Tensor], more: Dict[str, Any]) -> Optional[int]:
    """Of a layer that slides: a token sees so many of those before it, itself among them. A mask that says so is asked
    first: some models tell their attention a window that their masks do not have, others tell it nothing."""
    if mask is not None and is_numbered(mask) and not torch.compiler.is_compiling():
        sides = sides_in(mask)
        return None if sides is None else sides[0] + 1
    found = more.get("sliding_window")
    return None if found is None else int(found)


def layer_number(module: Any) -> int:
    """-1 where a layer has none, as ESM's."""
    found = getattr(module, "layer_idx", None)
    return -1 if found is None else int(found)


def words_of(name: str) -> str:
    return name[len(PREFIX) :]


def _words_of_layer(name: str, module: Any, window: Optional[int], causal: bool) -> str:
    """In a model of layers that slide and layers that do not a hierarchy is for the latter: the others keep their window,
    which dense attention does, unless the hierarchy looks no further."""
    words, types = words_of(name), getattr(getattr(module, "config", None), "layer_types", None) or ()
    if window is None or "sliding_attention" not in types or all(t == "sliding_attention" for t in types):
        return words
    return words if looks_no_further(words, windowed(2**31 - 1, window, causal)) else "dense"


def _offsets(who: str, more: Dict[str, Any]) -> Optional[Tensor]:
    """Cumulated lengths of packed texts; two rows where keys have theirs."""
    offsets: Optional[Tensor] = more.get("cu_seq_lens_q")
    others = more.get("cu_seq_lens_k")
    if offsets is None or others is None or offsets is others:
        return offsets
    if offsets.shape != others.shape:
        raise refuse(f"{who}: queries and keys are cut differently (cu_seq_lens)")
    return torch.stack((offsets, others))


def attend(
    name: str, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor], dropout: float = 0.0,
    scaling: Optional[float] = None, is_causal: Optional[bool] = None, **more: Any,
) -> Tuple[Tensor, None]:  # fmt: skip
    """[batch, heads, tokens, dim] as the model has them; [batch, tokens, heads, dim] back."""
    who, layer = f"{name} cannot serve {type(module).__name__}", layer_of(key, more)
    if _OLD and attention_mask is not None:  # whose layers may cut columns off, and pass is_causal=False with a causal mask
        is_causal = is_causal or None
        if attention_mask.dim() == 4 and not is_numbered(attention_mask):
            attention_mask = attention_mask[..., : key.shape[2] + (0 if layer is None else layer.length)]
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    refuse_besides(who, more)
    if more.get("output_attentions") or collects_weights(module):
        raise no_weights(name, "; weights(q, k, token) of a hierarchy gives those of one query, attn_implementation='eager' the model's own")
    _check_texts(who, module, query.shape[2], key.shape[2], causal)
    window = window_of(attention_mask, more)
    words = _words_of_layer(name, module, window, causal)
    if attention_mask is None and window is not None and window < key.shape[2] and layer is None:
        raise refuse(f"{who}: sliding_window={window}, and no mask of it")
    offsets, tables = _offsets(who, more), {"scale": scaling, **tables_of(more)}
    if layer is not None:
        _check_cached(who, module, query, offsets, causal, dropout)
        return layer.attend(words, query, key, value, attention_mask, window, tables), None
    drops, number = dropout if module.training else 0.0, int(getattr(module, "layer_idx", 0) or 0)
    return attend_documents(words, query, key, value, mask=attention_mask, offsets=offsets, causal=causal,
                            dropout=drops, layer=number, **tables), None  # fmt: skip
