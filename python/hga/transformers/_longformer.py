"""The attention of Longformer's layers, and of LED's encoder: the same weights over hga's graphs."""

from __future__ import annotations

import functools
from typing import Any, Tuple

import numpy as np
import torch

from .._core.values import refuse
from .._graphs.graph import Builder
from .._graphs.hierarchy import Hierarchy
from ._masked import GRAPHS_CACHED, attended, each_alike, runs
from .._core.plans import left_to_others
from .._graphs.registry import variants
from .._graphs.variants import make

Tensor = torch.Tensor
MASKED, LOCAL, GLOBAL = -1, 0, 1  # what the sign of the layers' mask says of a token


@functools.lru_cache(maxsize=GRAPHS_CACHED)
def _local(kinds: bytes, side: int) -> Hierarchy:
    """Local tokens see those up to `side` away, and the global ones; the rows of others see none."""
    kind = np.frombuffer(kinds, np.int8)
    local, others = runs(kind == LOCAL), runs(kind == GLOBAL)
    b = Builder()
    b.level(len(kind))
    near = b.relation("near")
    for row, row_end in local:
        for first, end in local:
            if first < row_end + side and row < end + side:
                distance = first - row
                b.block(near, (row, row_end - row), (first, end - first), shape="band", band_first=-side - distance, band_last=side - distance)
        for first, end in others:
            b.block(near, (row, row_end - row), (first, end - first))
    return left_to_others(b.finish().hierarchy())


@functools.lru_cache(maxsize=GRAPHS_CACHED)
def _across(queries: int, keys: int) -> Hierarchy:
    made: Hierarchy = make(variants()["dense"], queries, {}, keys)
    return left_to_others(made)


class Slides:
    """In place of a layer's own forward()."""

    def forward(
        self, hidden_states: Tensor, attention_mask: Any = None, is_index_masked: Any = None, is_index_global_attn: Any = None,
        is_global_attn: Any = None, output_attentions: bool = False,
    ) -> Tuple[Tensor]:  # fmt: skip
        """[batch, tokens, width] in and out. The mask's sign: below 0 padding, above 0 global."""
        if output_attentions:
            raise refuse(f"{type(self).__name__}: output_attentions=True asks for a matrix of weights that hga never has")
        return (self._attend(hidden_states, attention_mask),)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # which graph it is depends on the mask's numbers
    def _attend(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.shape != x.shape[:2]:
            raise refuse(f"{type(self).__name__}: attention_mask has shape {tuple(mask.shape)} with what is added to fill windows, the tokens {tuple(x.shape[:2])}")
        kinds = mask.detach().sign().to(torch.int8).cpu().numpy()
        return each_alike(kinds, lambda samples, kind: self._alike(x[samples], kind))

    def _alike(self: Any, x: Tensor, kind: Any) -> Tensor:
        """Samples with padding and global tokens at the same positions."""
        dropout = self.dropout if self.training else 0.0
        q, k, v = (self._heads(f, x) for f in (self.query, self.key, self.value))
        y = attended(_local(kind.tobytes(), self.one_sided_attn_window_size), q, k, v, dropout)
        if (kind == GLOBAL).any():
            whole, seen = (torch.from_numpy(np.flatnonzero(of)) for of in (kind == GLOBAL, kind != MASKED))
            keys = x if len(seen) == len(kind) else x[:, seen]
            q, k, v = self._heads(self.query_global, x[:, whole]), self._heads(self.key_global, keys), self._heads(self.value_global, keys)
            y = y.index_copy(1, whole, attended(_across(len(whole), len(seen)), q, k, v, dropout))
        return y.flatten(2)

    def _heads(self: Any, project: Any, x: Tensor) -> Tensor:
        y: Tensor = project(x)
        return y.view(*y.shape[:2], self.num_heads, self.head_dim)
