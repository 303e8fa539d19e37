"""Layers of MPNet, which adds biases by relative position and computes its attention by itself, with hga's attention in its place."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from ._alike import Named
from ._own import note
from ._positions import attend_by_distance, is_table, pairs_of, why_no_table

Tensor = torch.Tensor
_BESIDE = "eager"


class Encodes:
    """In place of the encoder's matrix of biases, where all of its layers read a table."""

    def compute_position_bias(self: Any, x: Tensor, position_ids: Any = None, num_buckets: int = 32) -> Tensor:
        tokens, layers = x.shape[1], (layer.attention.attn for layer in self.layer)
        own = position_ids is not None or not all(isinstance(layer, Attends) for layer in layers)
        if own or why_no_table(tokens, self.relative_attention_bias.weight, _BESIDE) is not None:
            made: Tensor = super().compute_position_bias(x, position_ids, num_buckets)  # type: ignore[misc]
            return made
        distances = torch.arange(1 - tokens, tokens)
        table: Tensor = self.relative_attention_bias(self.relative_position_bucket(distances, num_buckets=num_buckets))
        return table.t()[None]


class Attends(Named):
    """In place of a layer's own forward(), which it calls where hga does not attend."""

    hga_says = True  # what it takes, to explain()

    def forward(self: Any, hidden_states: Tensor, *arguments: Any, **more: Any) -> Any:
        given = {**dict(zip(self.hga_parameters[1:], arguments)), **more}
        bias: Any = given.get("position_bias")
        found, why = self._found(hidden_states, **given) if is_table(bias) else (None, self._why(hidden_states))
        note(self, "transformers" if found is None else "hga", why)
        if found is not None:
            return (self.o(found.flatten(2)),)
        if is_table(bias):
            given["position_bias"] = pairs_of(bias)
        return super().forward(hidden_states, **given)  # type: ignore[misc]

    def _why(self: Any, x: Tensor) -> str:
        return why_no_table(x.shape[1], self.q.weight, _BESIDE) or "it has no table of distances"

    def _found(self: Any, x: Tensor, attention_mask: Any = None, position_bias: Any = None, **more: Any) -> Tuple[Any, str]:
        shape = (*x.shape[:2], self.num_attention_heads, self.attention_head_size)
        q, k, v = (project(x).view(shape).transpose(1, 2) for project in (self.q, self.k, self.v))
        return attend_by_distance(self, q, k, v, attention_mask, position_bias, beside=_BESIDE, dropout=self.dropout.p, **more)
