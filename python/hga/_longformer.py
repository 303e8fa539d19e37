"""The attention of Longformer's layers, and of LED's encoder, which compute it by themselves: the same weights over hga's graphs."""

from __future__ import annotations

import functools
import sys
from typing import Any, Dict, List, Tuple

import numpy as np
import torch

from ._core import refuse
from ._graph import Builder
from ._hierarchy import Hierarchy
from ._one_pass import drawn
from ._plans import left_to_others
from ._registry import variants
from ._variants import make

Tensor = torch.Tensor
MASKED, LOCAL, GLOBAL = -1, 0, 1  # what the sign of the layers' mask says of a token
GRAPHS_KEPT = 16


def _runs(of: np.ndarray) -> List[Tuple[int, int]]:
    """[first, end) of neighbours that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], of, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


@functools.lru_cache(maxsize=GRAPHS_KEPT)
def _local(kinds: bytes, side: int) -> Hierarchy:
    """Local tokens see those up to `side` away, and the global ones; the rows of others see none."""
    kind = np.frombuffer(kinds, np.int8)
    local, others = _runs(kind == LOCAL), _runs(kind == GLOBAL)
    b = Builder()
    b.level(len(kind))
    near = b.relation("near")
    for row, row_end in local:
        for first, end in local:
            if first < row_end + side and row < end + side:
                apart = first - row
                b.block(near, (row, row_end - row), (first, end - first), shape="band", band_first=-side - apart, band_last=side - apart)
        for first, end in others:
            b.block(near, (row, row_end - row), (first, end - first))
    return left_to_others(b.finish().hierarchy())


@functools.lru_cache(maxsize=GRAPHS_KEPT)
def _across(queries: int, keys: int) -> Hierarchy:
    made: Hierarchy = make(variants()["dense"], queries, {}, keys)
    return left_to_others(made)


class _Attends:
    """In place of a layer's own forward()."""

    def forward(
        self, hidden_states: Tensor, attention_mask: Any = None, is_index_masked: Any = None, is_index_global_attn: Any = None,
        is_global_attn: Any = None, output_attentions: bool = False,
    ) -> Tuple[Tensor]:  # fmt: skip
        """[batch, tokens, width] in and out. The mask's sign: below 0 padding, above 0 global."""
        if output_attentions:
            raise refuse(f"{type(self).__name__}: output_attentions=True asks for a matrix of weights that hga never has")
        return (self._attend(hidden_states, attention_mask),)

    @torch.compiler.disable  # which graph it is depends on the mask's numbers
    def _attend(self, x: Tensor, mask: Tensor) -> Tensor:
        kinds = mask.detach().sign().to(torch.int8).cpu().numpy()
        found, group = np.unique(kinds, axis=0, return_inverse=True)
        if len(found) == 1:
            return self._alike(x, found[0])
        parts = [np.flatnonzero(group.reshape(-1) == i) for i in range(len(found))]
        out = torch.cat([self._alike(x[part], kind) for part, kind in zip(parts, found)])
        return out[torch.from_numpy(np.argsort(np.concatenate(parts)))]

    def _alike(self: Any, x: Tensor, kind: np.ndarray) -> Tensor:
        """Samples with padding and global tokens in the same places."""
        q, k, v = (self._heads(f, x) for f in (self.query, self.key, self.value))
        y = self._run(_local(kind.tobytes(), self.one_sided_attn_window_size), q, k, v)
        if (kind == GLOBAL).any():
            whole, seen = (torch.from_numpy(np.flatnonzero(of)) for of in (kind == GLOBAL, kind != MASKED))
            keys = x if len(seen) == len(kind) else x[:, seen]
            q, k, v = self._heads(self.query_global, x[:, whole]), self._heads(self.key_global, keys), self._heads(self.value_global, keys)
            y = y.index_copy(1, whole, self._run(_across(len(whole), len(seen)), q, k, v))
        return y.flatten(2)

    def _heads(self: Any, project: Any, x: Tensor) -> Tensor:
        y: Tensor = project(x)
        return y.unflatten(-1, (self.num_heads, self.head_dim))

    def _run(self: Any, h: Hierarchy, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        y: Tensor = h.attention(q, k, v, layout="bnhd", dropout=dropout, seed=drawn(dropout))
        return y


# Classes of layers by name, and where they are.
LAYERS = {"LongformerSelfAttention": "transformers.models.longformer.modeling_longformer",
          "LEDEncoderSelfAttention": "transformers.models.led.modeling_led"}  # fmt: skip
_OURS: Dict[str, Any] = {}


def __getattr__(name: str) -> Any:
    """A layer's class that attends by hga, under the layer's own name: pickles find it here."""
    if name not in LAYERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _OURS:
        __import__(LAYERS[name])
        theirs = getattr(sys.modules[LAYERS[name]], name)
        _OURS[name] = type(name, (_Attends, theirs), {"__module__": __name__})
    return _OURS[name]


def is_served(layer: Any) -> bool:
    """Is it one of transformers' own?"""
    return LAYERS.get(type(layer).__name__) == type(layer).__module__


def serve(layer: Any) -> None:
    """Let it attend by hga, its weights as they are."""
    layer.__class__ = __getattr__(type(layer).__name__)
