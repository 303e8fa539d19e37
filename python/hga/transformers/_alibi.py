"""Layers of Bloom and Falcon, which add ALiBi's biases and compute their attention by themselves, with hga's attention in its place. A
bias by key is an edge's type, so hga adds the numbers that the model made, and nobody makes the matrix of scores."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional, Tuple

import torch

from .._graphs.hierarchy import Hierarchy
from ..torch import _sdpa
from ..torch._one_pass import drawn
from ._alike import Named, graph_of
from ._attention import collects_weights
from ._masks import remembered
from ._own import note

Tensor = torch.Tensor
_BESIDE = "eager"
_GRAPHS_CACHED = 64


@functools.lru_cache(maxsize=_GRAPHS_CACHED)
def _graph(tokens: int) -> Hierarchy:
    """All tokens see those before them; an edge's type is its key."""
    return graph_of(tokens, [((0, tokens), (0, tokens), {"shape": "lower", "type": 0, "type_dst": 0, "type_src": 1})])


def _found(mask: Tensor, tokens: int) -> Optional[Tensor]:
    if mask.dim() != 4 or mask.shape[2:] != (tokens, tokens):
        return None
    floats = torch.zeros(mask.shape).masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else mask.detach()
    bias, later = floats[:1, :, -1:], torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    hidden = floats <= torch.finfo(mask.dtype).min / 2 if mask.dtype != torch.bool else ~mask
    alike = bool((hidden == later).all()) and bool(((floats == bias) | later).all())
    return bias[0, :, 0].float() if alike else None


def bias_of(mask: Optional[Tensor], tokens: int) -> Optional[Tensor]:
    """[heads or 1][keys]: what a mask adds to scores, if it hides later keys, and no others, and adds the same in all rows and
    samples; else None."""
    return None if mask is None else remembered(mask, "biases", lambda: _found(mask, tokens))


def _alike_in_samples(alibi: Tensor, heads: int) -> Optional[Tensor]:
    """[heads][keys] of [samples * heads][1][keys], or of [samples][heads][1][keys]."""
    by_sample = alibi.detach().reshape(-1, heads, alibi.shape[-1]).float()
    return by_sample[0] if bool((by_sample == by_sample[:1]).all()) else None


class _Attends(Named):
    """In place of a layer's own forward(), which it calls where hga does not attend. Behind the output stands the cache, which older
    releases read there, in the place of weights, which newer ones read if they are asked for."""

    hga_says = True  # what it takes, to explain()

    def forward(self: Any, *arguments: Any, **more: Any) -> Any:
        given = {**dict(zip(self.hga_parameters, arguments)), **more}
        why, bias = self._why_not(**given)
        note(self, "hga" if why is None else "transformers", why or "it is faster")
        return super().forward(**given) if why is not None else self._served(bias, **given)  # type: ignore[misc]

    def _why_not(
        self: Any, hidden_states: Tensor, alibi: Optional[Tensor], attention_mask: Optional[Tensor], layer_past: Any = None, **more: Any
    ) -> Tuple[Optional[str], Optional[Tensor]]:  # fmt: skip
        x, tokens = hidden_states, hidden_states.shape[1]
        if torch.compiler.is_compiling() or x.device.type != "cpu" or alibi is None:
            return "it is compiled, on another device or without biases", None
        if tokens < _sdpa.fewest_by_distance(_BESIDE, x.dtype, torch.is_grad_enabled()) or self.head_dim < _sdpa.NARROWEST:
            return f"{tokens} tokens of {self.head_dim} columns are few", None
        if layer_past is not None and (type(layer_past).__name__ != "DynamicCache" or layer_past.get_seq_length(self.layer_idx)):
            return "tokens behind a cache", None
        if more.get("output_attentions") or more.get("head_mask") is not None or collects_weights(self):
            return "weights of attention are asked for, or masked", None
        if x.dtype not in (torch.float32, *_sdpa.SIXTEEN) or torch.is_autocast_enabled("cpu") or _sdpa.is_transformed(x):
            return f"tensors of {x.dtype}, autocast or a transform of torch.func", None
        by_mask, by_alibi = bias_of(attention_mask, tokens), _alike_in_samples(alibi, self.num_heads)
        if by_mask is None or by_alibi is None or by_alibi.shape[1] != tokens:
            return "a mask of pairs, or of padding", None
        return None, self._bias(by_mask, by_alibi)

    def _attended(self: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float) -> Tensor:
        """[batch][heads][tokens][dim] in, [batch][tokens][width] out."""
        rows, drops = [x.transpose(1, 2) for x in (q, k, v)], dropout if self.training else 0.0
        more: Dict[str, Any] = {"scale": self.inv_norm_factor, "rel_bias": bias.t().contiguous(), "dropout": drops, "seed": drawn(drops)}
        y: Tensor = _graph(q.shape[2]).attention(*rows, layout="bnhd", **more)
        return y.flatten(2)


class OfBloom(_Attends):
    def _bias(self, by_mask: Tensor, by_alibi: Tensor) -> Tensor:
        return by_alibi + by_mask

    def _served(self: Any, bias: Tensor, hidden_states: Tensor, residual: Tensor, layer_past: Any = None, **more: Any) -> Any:
        q, k, v = self._reshape(self.query_key_value(hidden_states))
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        y = self.dense(self._attended(q, k, v, bias, self.attention_dropout.p))
        return residual + torch.nn.functional.dropout(y, self.hidden_dropout, self.training), layer_past


class OfFalcon(_Attends):
    def _bias(self: Any, by_mask: Tensor, by_alibi: Tensor) -> Tensor:
        """Masks have the biases. Its eager attention adds them once more."""
        return by_mask.expand_as(by_alibi) if self.config._attn_implementation == "sdpa" else by_mask + by_alibi * self.inv_norm_factor

    def _served(self: Any, bias: Tensor, hidden_states: Tensor, layer_past: Any = None, **more: Any) -> Any:
        q, k, v = (x.transpose(1, 2) for x in self._split_heads(self.query_key_value(hidden_states)))
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        return self.dense(self._attended(q, k, v, bias, self.attention_dropout.p)), layer_past
