"""Layers of transformers that compute their attention by themselves, and attend by hga once a model is in ``use``: those
of Longformer, of LED's encoder, of BigBird, of MPNet, of Bloom and of Falcon. The same weights over hga's graphs."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Dict, Iterable, List, Tuple

import numpy as np
import torch

from .._core.plans import left_to_others
from .._core.library import refuse, refuse_type
from .._graphs.hierarchy import Hierarchy
from .._graphs.registry import variants
from .._graphs.variants import make
from ..torch._one_pass import drawn
from ._alibi import OfBloom, OfFalcon
from ._alike import Block, Named, Run, each_alike, graph_of, runs
from ._attention import collects_weights, no_weights, refuse_besides
from ._mpnet import Attends, Encodes

Tensor = torch.Tensor
_GRAPHS_CACHED = 16  # of each kind of layer


# ---- graphs ----


MASKED, LOCAL, GLOBAL = -1, 0, 1  # what the sign of Longformer's mask says of a token


@functools.lru_cache(maxsize=_GRAPHS_CACHED)
def _local(kinds: bytes, side: int) -> Hierarchy:
    """Local tokens see those up to `side` away, and the global ones; the rows of others see none."""
    kind = np.frombuffer(kinds, np.int8)
    local, others = runs(kind == LOCAL), runs(kind == GLOBAL)

    def blocks() -> Iterable[Block]:
        for row, n in local:
            for first, m in local:
                if first < row + n + side and row < first + m + side:
                    ahead = row - first
                    yield (row, n), (first, m), {"shape": "band", "band_first": ahead - side, "band_last": ahead + side}
            for columns in others:
                yield (row, n), columns, {}

    return graph_of(len(kind), blocks())


@functools.lru_cache(maxsize=_GRAPHS_CACHED)
def _across(queries: int, keys: int) -> Hierarchy:
    made: Hierarchy = make(variants()["dense"], queries, {}, keys)
    return left_to_others(made)


@functools.lru_cache(maxsize=_GRAPHS_CACHED)
def _full(kinds: bytes) -> Hierarchy:
    """All tokens see those that are no padding."""
    seen = np.frombuffer(kinds, np.bool_)
    return graph_of(len(seen), (((0, len(seen)), columns, {}) for columns in runs(seen)))


def _spans(i: int, blocks: int, chosen: Any) -> List[Tuple[int, int]]:
    """The blocks of keys, [first, end), that the i-th block of queries sees: those that are chosen, though they be among the others."""
    if i in (0, blocks - 1):
        return [(0, blocks)]
    near = (max(i - 1, 1), min(i + 2, blocks - 1))
    return [(0, 1), near, (blocks - 1, blocks), *((int(j), int(j) + 1) for j in chosen)]


@functools.lru_cache(maxsize=_GRAPHS_CACHED)
def _sparse(kinds: bytes, size: int, plan: bytes, heads: int) -> Hierarchy:
    """A plan of blocks that are chosen, [heads][blocks - 2][each], or one head for all. What is chosen
    again counts again. Tokens of padding neither see nor are seen."""
    seen = np.frombuffer(kinds, np.bool_)
    n, blocks = len(seen), len(seen) // size
    chosen = np.frombuffer(plan, np.int64).reshape(heads, blocks - 2, -1)

    def own(head: int, first: int, end: int) -> List[Run]:
        return runs(seen[first * size : end * size], head * n + first * size)

    found: Iterable[Block] = (
        (rows, columns, {})
        for head in range(heads) for i in range(blocks)
        for first, end in _spans(i, blocks, chosen[head, min(max(i - 1, 0), blocks - 3)])
        for rows in own(head, i, i + 1) for columns in own(head, first, end)
    )  # fmt: skip
    return graph_of(n, found, heads)


def _attended(h: Hierarchy, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
    """[batch, tokens, heads, dim] in and out; dropout of weights is drawn from torch's generator."""
    y: Tensor = h.attention(q, k, v, layout="bnhd", dropout=dropout, seed=drawn(dropout))
    return y


@torch.compiler.disable  # type: ignore[untyped-decorator]  # which graph it is depends on the mask's numbers
def _attended_over(graph: Callable[[bytes], Hierarchy], seen: Any, tensors: List[Tensor], dropout: float = 0.0) -> Tensor:
    """Each sample over the graph of which of its tokens are seen."""

    def run(samples: Any, kind: Any) -> Tensor:
        q, k, v = (x[samples] for x in tensors)
        return _attended(graph(kind.tobytes()), q, k, v, dropout)

    return each_alike(seen, run)


# ---- Longformer, and LED's encoder ----


class Slides:
    """In place of a layer's own forward()."""

    def forward(
        self, hidden_states: Tensor, attention_mask: Any = None, is_index_masked: Any = None, is_index_global_attn: Any = None,
        is_global_attn: Any = None, output_attentions: bool = False, *, layer_head_mask: Any = None,
    ) -> Tuple[Tensor]:  # fmt: skip
        """[batch, tokens, width] in and out. The mask's sign: below 0 padding, above 0 global. layer_head_mask: of transformers before 5."""
        if output_attentions:
            raise no_weights(type(self).__name__)
        refuse_besides(type(self).__name__, {"layer_head_mask": layer_head_mask})
        return (self._attend(hidden_states, attention_mask),)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _attend(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.shape != x.shape[:2]:
            raise refuse(f"{type(self).__name__}: attention_mask has shape {tuple(mask.shape)} with what is added to fill windows, the tokens {tuple(x.shape[:2])}")
        kinds = mask.detach().sign().to(torch.int8).cpu().numpy()
        return each_alike(kinds, lambda samples, kind: self._alike(x[samples], kind))

    def _alike(self: Any, x: Tensor, kind: Any) -> Tensor:
        """Samples with padding and global tokens at the same positions."""
        dropout = self.dropout if self.training else 0.0
        q, k, v = (self._heads(f, x) for f in (self.query, self.key, self.value))
        y = _attended(_local(kind.tobytes(), self.one_sided_attn_window_size), q, k, v, dropout)
        if (kind == GLOBAL).any():
            whole, seen = (torch.from_numpy(np.flatnonzero(of)) for of in (kind == GLOBAL, kind != MASKED))
            keys = x if len(seen) == len(kind) else x[:, seen]
            q, k, v = self._heads(self.query_global, x[:, whole]), self._heads(self.key_global, keys), self._heads(self.value_global, keys)
            y = y.index_copy(1, whole, _attended(_across(len(whole), len(seen)), q, k, v, dropout))
        return y.flatten(2)

    def _heads(self: Any, project: Any, x: Tensor) -> Tensor:
        y: Tensor = project(x)
        return y.view(*y.shape[:2], self.num_heads, self.head_dim)


# ---- BigBird ----


def _tokens_of(who: str, mask: Tensor, batch: int, tokens: int) -> Any:
    """[batch][tokens]: which are tokens. Of other numbers than 0 and 1 the layer makes biases, which hga would not add."""
    if mask.numel() != batch * tokens or len(mask) != batch:
        raise refuse(f"{who}: attention_mask is of {len(mask)} samples, {mask.numel()} tokens in all; the batch has {batch} of {tokens}")
    other = mask[(mask != 0) & (mask != 1)]
    if other.numel():
        raise refuse(f"{who}: attention_mask holds {other.flatten()[0].item():g}: 1 is a token, 0 is padding, and nothing else is understood")
    return mask.reshape(batch, tokens).cpu().numpy() != 0


class Sparse:
    """In place of a layer's attention to blocks."""

    def bigbird_block_sparse_attention(
        self: Any, query: Tensor, key: Tensor, value: Tensor, band_mask: Any, from_mask: Any, to_mask: Tensor, from_blocked_mask: Any,
        to_blocked_mask: Any, n_heads: int, n_rand_blocks: int, head_size: int, from_block_size: int, *more: Any, seed: Any = None,
        **others: Any,
    ) -> Tuple[Tensor, None]:  # fmt: skip
        """[batch, heads, tokens, dim] in, [batch, tokens, heads, dim] out."""
        if others.get("output_attentions") or collects_weights(self):
            raise no_weights(type(self).__name__)
        plan = self._plan(query.shape[2], from_block_size, n_heads, n_rand_blocks, seed)
        seen = _tokens_of(type(self).__name__, to_mask.detach(), len(query), query.shape[2])
        tensors = [x.transpose(1, 2) for x in (query, key, value)]
        graph = functools.partial(_sparse, size=from_block_size, plan=plan.tobytes(), heads=len(plan))
        return _attended_over(graph, seen, tensors), None

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


# Another text, a cache by its name in any release, and heads that are left out.
_ELSEWHERE = "encoder_hidden_states", "cache", "past_key_values", "past_key_value", "head_mask"


class Full(Named):
    """In place of a layer's attention to all tokens but those of padding. With a cache, another text or another mask it is the
    layer's own."""

    def forward(self: Any, hidden_states: Tensor, *arguments: Any, **more: Any) -> Any:
        given = {**dict(zip(self.hga_parameters[1:], arguments)), **more}
        seen = self._seen(hidden_states, **given)
        if seen is None:
            return super().forward(hidden_states, **given)  # type: ignore[misc]
        if given.get("output_attentions") or collects_weights(self):
            raise no_weights(type(self).__name__)
        shape = (*hidden_states.shape[:2], self.num_attention_heads, self.attention_head_size)
        tensors = [project(hidden_states).view(shape) for project in (self.query, self.key, self.value)]
        return _attended_over(_full, seen, tensors, self.dropout.p if self.training else 0.0).flatten(2), None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _seen(self: Any, x: Tensor, attention_mask: Any = None, **more: Any) -> Any:
        """[batch][tokens]: whom a mask that is added to scores lets all queries and heads see; None where it says more."""
        if self.is_decoder or any(more.get(name) is not None for name in _ELSEWHERE):
            return None
        (batch, tokens), mask = x.shape[:2], attention_mask
        if mask is None:
            return np.ones((batch, tokens), np.bool_)
        mask = mask.detach()
        first = mask[:, :1, :1]
        known = (first == 0) | (first <= torch.finfo(mask.dtype).min)
        same = mask.shape[0] == batch and mask.shape[-1] == tokens and bool(known.all()) and bool((mask == first).all())
        return first.reshape(batch, tokens).cpu().numpy() == 0 if same else None


class Chooses:
    """A layer that a short text changes from blocks to all pairs, by a new layer inside."""

    def set_attention_type(self: Any, *arguments: Any, **more: Any) -> None:
        super().set_attention_type(*arguments, **more)  # type: ignore[misc]
        _serve(self.self)


# Classes of layers by name: the module that they are in, and what stands before their own methods.
_BIGBIRD = "transformers.models.big_bird.modeling_big_bird"
_MPNET = "transformers.models.mpnet.modeling_mpnet"
LAYERS: Dict[str, Tuple[str, Any]] = {
    "LongformerSelfAttention": ("transformers.models.longformer.modeling_longformer", Slides),
    "LEDEncoderSelfAttention": ("transformers.models.led.modeling_led", Slides),
    "BigBirdAttention": (_BIGBIRD, Chooses),
    "BigBirdBlockSparseAttention": (_BIGBIRD, Sparse),
    "BigBirdSelfAttention": (_BIGBIRD, Full),
    "BloomAttention": ("transformers.models.bloom.modeling_bloom", OfBloom),
    "FalconAttention": ("transformers.models.falcon.modeling_falcon", OfFalcon),
    "MPNetEncoder": (_MPNET, Encodes),
    "MPNetSelfAttention": (_MPNET, Attends),
}


@functools.lru_cache(maxsize=None)
def __getattr__(name: str) -> Any:
    """A layer's class that attends by hga, under the layer's own name: pickles find it here."""
    if name not in LAYERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where, before = LAYERS[name]
    return type(name, (before, getattr(importlib.import_module(where), name)), {"__module__": __name__})


def _serve(layer: Any) -> bool:
    """Let it attend by hga, its weights as they are, if it is one of transformers' own, or was it."""
    name, where = type(layer).__name__, type(layer).__module__
    known = name in LAYERS and where in (LAYERS[name][0], __name__)
    if known:
        layer.__class__ = __getattr__(name)
    return known


def serves_layers_of(config: Any) -> bool:
    """Are there such layers in models of that configuration?"""
    return any(f".{config.model_type}." in where for where, _ in LAYERS.values())


def use(model: Any) -> Any:
    """Let layers that compute their attention by themselves attend by hga: those of Longformer, of LED's encoder, of BigBird, and,
    where hga is faster, of MPNet, Bloom and Falcon with ALiBi. Windows, global tokens, blocks, biases and padding are the layers' own, and so are the weights, which stay where they are. It is the
    model that comes back. Other models take attn_implementation="hga:..". Weights of attention are refused."""
    if not isinstance(model, torch.nn.Module):
        raise refuse_type(f"model is a {type(model).__name__}, not a model of transformers")
    if not any([_serve(layer) for layer in model.modules()]):
        raise refuse(f"{type(model).__name__} has no layer of Longformer, LED, BigBird, MPNet, Bloom or Falcon that attends by itself")
    return model
