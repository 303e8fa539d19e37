"""Queries, keys and values of a model's layer, as its attention gets them."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional

import torch

from ._arguments import whole
from ._core import refuse

NAME = "hga_capture"


class Captured(NamedTuple):
    """What attention got of one text: q, k, v [heads][tokens][dim] in float32, the factor of q . k, whether nothing sees what comes later,
    and the words of the tokens where there was a tokenizer."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    causal: bool
    words: Optional[List[str]]


class _Enough(Exception):
    """The layer has been seen; the layers behind it need not run."""


class _Watch:
    """Stands where the model attends, and counts."""

    def __init__(self, layer: int) -> None:
        self.layer, self.calls = layer, 0
        self.found: Optional[Any] = None

    def __call__(self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: Optional[float] = None, **more: Any) -> Any:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if self.calls == self.layer:
            q, k, v = (x[0].float().clone() for x in (query, key, value))
            self.found = q, k, v, query.shape[-1] ** -0.5 if scaling is None else float(scaling), bool(getattr(module, "is_causal", False))
            raise _Enough
        self.calls += 1
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)


def _inputs(text: Any, tokenizer: Any) -> Mapping[str, Any]:
    if isinstance(text, str):
        if tokenizer is None:
            raise refuse("text is a str: give tokenizer=, or the tokens' ids")
        found: Mapping[str, Any] = tokenizer(text, return_tensors="pt")
        return found
    if isinstance(text, Mapping):
        return text
    ids = torch.as_tensor(text)
    return {"input_ids": ids[None] if ids.dim() == 1 else ids}


def _run(model: Any, watch: _Watch, inputs: Mapping[str, Any]) -> None:
    """A pass of the model in which ``watch`` attends."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, watch)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        with torch.no_grad():
            model(**inputs)
    except _Enough:
        pass
    finally:
        model.set_attn_implementation(before)


def capture(model: Any, layer: int, text: Any, tokenizer: Any = None) -> Captured:
    """What a layer's attention gets of one text: ``c = capture(model, 9, "In the beginning ..", tokenizer)``, and then
    ``hga.choose(c.q, c.k, c.v, causal=c.causal, scale=c.scale)`` or ``h.view(q=c.q, k=c.k, words=c.words, scale=c.scale)``.
    text: a str, which the tokenizer takes, ids of tokens, or what the model takes by name. Layers are counted from 0, in the
    order in which the model attends; those behind this one do not run. Positions are in queries and keys as the model puts them."""
    watch, inputs = _Watch(whole(layer, "layer")), _inputs(text, tokenizer)
    ids = inputs.get("input_ids")
    if ids is not None and len(ids) != 1:
        raise refuse(f"input_ids has shape {tuple(ids.shape)}: capture takes one text")
    _run(model, watch, inputs)
    if watch.found is None:
        raise refuse(f"{type(model).__name__} attends {watch.calls} times through transformers' attention interface: there is no layer {layer}")
    words = None if tokenizer is None or ids is None else [tokenizer.decode([int(i)]) for i in ids[0]]
    q, k, v, scale, causal = watch.found
    return Captured(q, k, v, scale, causal, words)
