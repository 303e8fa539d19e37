"""BigBird's attention, of blocks and of all pairs: the same weights over hga's graphs."""

from __future__ import annotations

import functools
from typing import Any, List, Tuple

import numpy as np
import torch

from .._core.values import refuse
from .._graphs.graph import Builder
from .._graphs.hierarchy import Hierarchy
from ._masked import GRAPHS_CACHED, attended, each_alike, runs
from .._core.plans import left_to_others

Tensor = torch.Tensor


def _refuse_weights(layer: Any) -> None:
    from . import _collects_weights

    if _collects_weights(layer):
        raise refuse(f"{type(layer).__name__}: output_attentions=True asks for a matrix of weights that hga never has")


def _spans(i: int, blocks: int, chosen: Any) -> List[Tuple[int, int]]:
    """The blocks of keys, [first, end), that the i-th block of queries sees: those that are chosen, though they be among the others."""
    if i in (0, blocks - 1):
        return [(0, blocks)]
    near = (max(i - 1, 1), min(i + 2, blocks - 1))
    return [(0, 1), near, (blocks - 1, blocks), *((int(j), int(j) + 1) for j in chosen)]


@functools.lru_cache(maxsize=GRAPHS_CACHED)
def _sparse(kinds: bytes, size: int, plan: bytes, heads: int) -> Hierarchy:
    """A plan of blocks that are chosen, [heads][blocks - 2][each], or one head for all. What is chosen
    again counts again. Tokens of padding neither see nor are seen."""
    seen = np.frombuffer(kinds, np.bool_)
    n, blocks = len(seen), len(seen) // size
    chosen = np.frombuffer(plan, np.int64).reshape(heads, blocks - 2, -1)
    b = Builder()
    b.level(heads * n)
    near = b.relation("near")
    for head in range(heads):
        for i in range(blocks):
            for first, end in _spans(i, blocks, chosen[head, min(max(i - 1, 0), blocks - 3)]):
                for row, row_end in runs(seen[i * size : (i + 1) * size], head * n + i * size):
                    for key, key_end in runs(seen[first * size : end * size], head * n + first * size):
                        b.block(near, (row, row_end - row), (key, key_end - key))
    h = b.finish().hierarchy()
    return left_to_others(h if heads == 1 else h.by_head(heads))


@functools.lru_cache(maxsize=GRAPHS_CACHED)
def _full(kinds: bytes) -> Hierarchy:
    """All tokens see those that are no padding."""
    seen = np.frombuffer(kinds, np.bool_)
    b = Builder()
    b.level(len(seen))
    near = b.relation("near")
    for key, end in runs(seen):
        b.block(near, (0, len(seen)), (key, end - key))
    return left_to_others(b.finish().hierarchy())


def _tokens_of(layer: Any, mask: Tensor, query: Tensor) -> Any:
    """[batch][tokens]: which are tokens. Of other numbers than 0 and 1 the layer makes biases, which hga would not add."""
    batch, _, tokens, _ = query.shape
    if mask.numel() != batch * tokens or len(mask) != batch:
        raise refuse(f"{type(layer).__name__}: attention_mask is of {len(mask)} samples, {mask.numel()} tokens in all; the batch has {batch} of {tokens}")
    other = mask[(mask != 0) & (mask != 1)]
    if other.numel():
        raise refuse(f"{type(layer).__name__}: attention_mask holds {other.flatten()[0].item():g}: 1 is a token, 0 is padding, and nothing else is understood")
    return mask.reshape(batch, tokens).cpu().numpy() != 0


class Sparse:
    """In place of a layer's attention to blocks."""

    def bigbird_block_sparse_attention(
        self: Any, query: Tensor, key: Tensor, value: Tensor, band_mask: Any, from_mask: Any, to_mask: Tensor, from_blocked_mask: Any,
        to_blocked_mask: Any, n_heads: int, n_rand_blocks: int, head_size: int, from_block_size: int, *more: Any, seed: Any = None,
        **others: Any,
    ) -> Tuple[Tensor, None]:  # fmt: skip
        """[batch, heads, tokens, dim] in, [batch, tokens, heads, dim] out."""
        _refuse_weights(self)
        plan = self._plan(query.shape[2], from_block_size, n_heads, n_rand_blocks, seed)
        seen = _tokens_of(self, to_mask.detach(), query)
        tensors = [x.transpose(1, 2) for x in (query, key, value)]
        return self._attend(tensors, seen, from_block_size, plan), None

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # which graph it is depends on the mask's numbers
    def _attend(self, tensors: List[Tensor], seen: Any, size: int, plan: Any) -> Tensor:
        def run(samples: Any, kind: Any) -> Tensor:
            h = _sparse(kind.tobytes(), size, plan.tobytes(), len(plan))
            q, k, v = (x[samples] for x in tensors)
            return attended(h, q, k, v, 0.0)

        return each_alike(seen, run)

    def _plan(self: Any, tokens: int, size: int, heads: int, each: int, seed: Any) -> Any:
        """[heads][blocks - 2][each], the layer's own choice; [1][..] where it is all heads'."""
        if self.training:
            np.random.seed(seed)
        if tokens in (1024, 3072, 4096):  # plans of the paper
            most = self.max_seqlen
            found = [self._bigbird_block_rand_mask(most, most, size, size, each, last_idx=1024)[: tokens // size - 2] for _ in range(heads)]
        else:
            length, numbers = self._get_rand_attn_plan(tokens, size, each)
            found = self._bigbird_block_rand_mask_with_head(
                from_seq_length=tokens, to_seq_length=tokens, from_block_size=size, to_block_size=size, num_heads=heads,
                plan_from_length=length, plan_num_rand_blocks=numbers)  # fmt: skip
        plan = np.stack(found).astype(np.int64)
        return plan[:1] if (plan == plan[:1]).all() else plan


def _padding(mask: Any, batch: int, tokens: int) -> Any:
    """[batch][tokens]: whom a mask that is added to scores lets all queries and heads see; None where it says something else."""
    if mask is None:
        return np.ones((batch, tokens), np.bool_)
    first = mask[:, :1, :1]
    known = (first == 0) | (first <= torch.finfo(mask.dtype).min)
    same = mask.shape[0] == batch and mask.shape[-1] == tokens and bool(known.all()) and bool((mask == first).all())
    return first.reshape(batch, tokens).cpu().numpy() == 0 if same else None


class Full:
    """In place of a layer's attention to all tokens but those of padding. With a cache, another text or another mask it is the
    layer's own."""

    def forward(self: Any, hidden_states: Tensor, attention_mask: Any = None, encoder_hidden_states: Any = None, **more: Any) -> Any:
        seen = self._seen(hidden_states, attention_mask, encoder_hidden_states, **more)
        if seen is None:
            return super().forward(hidden_states, attention_mask, encoder_hidden_states, **more)  # type: ignore[misc]
        _refuse_weights(self)
        shape = (*hidden_states.shape[:2], self.num_attention_heads, self.attention_head_size)
        tensors = [project(hidden_states).view(shape) for project in (self.query, self.key, self.value)]
        return self._attend(tensors, seen).flatten(2), None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _seen(self: Any, x: Tensor, mask: Any, others: Any, cache: Any = None, past_key_values: Any = None, **more: Any) -> Any:
        if self.is_decoder or others is not None or cache is not None or past_key_values is not None:
            return None
        return _padding(None if mask is None else mask.detach(), len(x), x.shape[1])

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _attend(self: Any, tensors: List[Tensor], seen: Any) -> Tensor:
        def run(samples: Any, kind: Any) -> Tensor:
            q, k, v = (x[samples] for x in tensors)
            return attended(_full(kind.tobytes()), q, k, v, self.dropout.p if self.training else 0.0)

        return each_alike(seen, run)


class Chooses:
    """A layer that a short text changes from blocks to all pairs, by a new layer inside."""

    def set_attention_type(self: Any, *arguments: Any, **more: Any) -> None:
        from ._served import serve

        super().set_attention_type(*arguments, **more)  # type: ignore[misc]
        serve(self.self)
