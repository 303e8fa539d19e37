"""Biases by relative position, which T5 and its kin add to scores, as a table: a number for every distance and head. Edges of hga
read it by their types, and it has a gradient; nobody makes the matrix of all pairs.

A model passes the table from layer to layer where it passes that matrix otherwise. The table has three axes, [1][heads][distances],
the matrix has four, so whoever reads it knows which it is. Distances are those of the key from the query: 1 - tokens .. tokens - 1."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import torch

from .._core.library import Error
from .._core.releases import has
from .._graphs.hierarchy import Hierarchy
from ..torch import _sdpa
from ..torch._documents import is_numbered, sides_in
from ..torch._one_pass import drawn
from ._alike import Block, each_alike, graph_of, runs
from ._attention import collects_weights, refuse_besides

Tensor = torch.Tensor
Seen = Optional[Any]  # [samples][tokens] of truth values: which keys all queries see; None: all of them
_GRAPHS_CACHED = 64  # of batches of texts of different lengths
_PAIRS = "hga_pairs"
_KNOWN_TYPES = (torch.float32, *_sdpa.SIXTEEN)

# ---- tables ----


def is_table(bias: Optional[Tensor]) -> bool:
    return bias is not None and bias.dim() == 3


def table_in(module: Any, more: Mapping[str, Any]) -> Optional[Tensor]:
    """The table that a layer of a kind that makes tables hands to its attention."""
    bias: Optional[Tensor] = more.get("position_bias")
    makes = getattr(getattr(type(module), "compute_bias", None), "_hga", False)
    return bias if makes and is_table(bias) else None


def pairs_of(table: Tensor) -> Tensor:
    """[1][heads][queries][keys], as the model has it. The table remembers it, since layers of one pass have one table."""
    if torch.compiler.is_compiling():
        return _pairs_of(table)
    grad = torch.is_grad_enabled() and table.requires_grad
    known: Optional[Tensor] = getattr(table, _PAIRS, None)
    if known is None or known.requires_grad != grad:
        known = _pairs_of(table)
        setattr(table, _PAIRS, known)
    return known


def _pairs_of(table: Tensor) -> Tensor:
    return table.unfold(2, (table.shape[2] + 1) // 2, 1).flip(2)


def _is_compiled() -> bool:
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def why_no_table(tokens: int, weight: Tensor, beside: str) -> Optional[str]:
    """Before it is known what the table will be added to: why does the model make a matrix? None: it makes a table."""
    if weight.device.type != "cpu":
        return f"tensors on {weight.device.type}"
    if _is_compiled():
        return "it is compiled"
    if tokens < _sdpa.fewest_by_distance(beside, weight.dtype, torch.is_grad_enabled()):
        return f"{tokens} tokens are few"
    return None


# ---- modules that ask for attention by its name ----

_COMPUTES = "transformers.models.t5.modeling_t5.T5Attention.compute_bias"
_TAKES = ("query_length", "key_length", "past_seen_tokens")


def _asks_with_bias(layer: Any) -> bool:
    """Does the class make a bias of two lengths, and pass it on to the attention that was named?"""
    made, forward = layer.__dict__.get("compute_bias"), layer.__dict__.get("forward")
    if made is None or forward is None or not set(_TAKES) <= set(inspect.signature(made).parameters):
        return False
    code = getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names and "position_bias" in code.co_varnames


@functools.lru_cache(maxsize=None)
def layers_with_bias(model: type) -> Tuple[type, ...]:
    """The classes of such layers in transformers' files of the model's classes."""
    files = {cls.__module__ for cls in model.__mro__ if cls.__module__.startswith("transformers.models.")}
    found = (x for name in sorted(files) for x in vars(sys.modules[name]).values() if isinstance(x, type) and x.__module__ == name)
    return tuple(x for x in found if issubclass(x, torch.nn.Module) and _asks_with_bias(x)) if has(_COMPUTES) else ()


def compute_bias(name: str, layer: type) -> Callable[..., Tensor]:
    """What is put around the method of that name in a class of layers. Another class's forward() may do more with the matrix."""

    forward = layer.__dict__["forward"]

    def around(inner: Callable[..., Tensor], self: Any, query_length: int, key_length: int, device: Any = None, past_seen_tokens: Any = 0) -> Tensor:
        named = getattr(self.config, "_attn_implementation", None) == name and type(self).forward is forward
        starts = isinstance(past_seen_tokens, int) and past_seen_tokens == 0 and query_length == key_length
        if not named or not starts or why_no_table(key_length, self.relative_attention_bias.weight, "sdpa") is not None:
            return inner(self, query_length, key_length, device, past_seen_tokens)
        back, ahead = inner(self, query_length, 1, device), inner(self, 1, key_length, device)
        return torch.cat([back[:, :, 1:, 0].flip(2), ahead[:, :, 0]], 2)

    return around


# ---- masks ----


def seen_in(mask: Optional[Tensor], batch: int, tokens: int, causal: bool) -> Tuple[Seen, Optional[str]]:
    """Which keys a mask lets all queries see; or why it says more than that."""
    more = "a mask of pairs, or of padding"
    if mask is None:
        return None, None
    if is_numbered(mask):
        plain = sides_in(mask) is None and bool((mask == (1 if causal else -1)).all())
        return None, None if plain else more
    if causal or mask.dim() != 4 or mask.shape[1] != 1 or mask.shape[0] not in (1, batch) or mask.shape[3] != tokens:
        return None, more
    if mask.dtype != torch.bool and not mask.is_floating_point():
        return None, more
    first = mask.detach()[:, :, :1]
    known = first if mask.dtype == torch.bool else first == 0
    hidden = ~known if mask.dtype == torch.bool else first <= torch.finfo(mask.dtype).min
    if not bool((known | hidden).all()) or not bool((mask == first).all()) or not bool(known.any(-1).all()):
        return None, more
    return (None if bool(known.all()) else known[:, 0, 0].expand(batch, tokens).numpy()), None


# ---- attention ----


@functools.lru_cache(maxsize=_GRAPHS_CACHED)
def _graph(tokens: int, causal: bool, kind: bytes) -> Hierarchy:
    """All tokens see those that are no padding; an edge's type is its distance."""

    def blocks() -> Iterator[Block]:
        types = {"type_dst": -1, "type_src": 1}
        if causal:
            yield (0, tokens), (0, tokens), {"shape": "lower", "type": tokens - 1, **types}
            return
        for first, n in runs(np.frombuffer(kind, np.bool_)) if kind else [(0, tokens)]:
            yield (0, tokens), (first, n), {"type": tokens - 1 + first, **types}

    return graph_of(tokens, blocks())


def _why_not(module: Any, query: Tensor, key: Tensor, value: Tensor, table: Tensor, beside: str, more: Mapping[str, Any]) -> Optional[str]:
    """Why does hga not attend?"""
    tokens, heads = query.shape[2], query.shape[1]
    if _is_compiled():
        return "it is compiled"
    if any(x.device.type != "cpu" or x.dtype != query.dtype for x in (query, key, value)) or query.dtype not in _KNOWN_TYPES:
        return f"tensors of {query.dtype} on {query.device}"
    if not tokens == key.shape[2] == (table.shape[2] + 1) // 2 or not heads == key.shape[1] == table.shape[1]:
        return f"{tokens} queries of {key.shape[2]} keys"
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value, table))
    if tokens < _sdpa.fewest_by_distance(beside, query.dtype, trains):
        return f"{tokens} tokens are few"
    if min(query.shape[3], value.shape[3]) < _sdpa.NARROWEST:
        return f"{query.shape[3]} columns are few"
    if _sdpa.is_transformed(query, key, value, table):
        return "a transform of torch.func"
    if more.get("output_attentions") or collects_weights(module):
        return "weights of attention are asked for"
    besides = [x for x in ("softcap", "s_aux", "sliding_window", "cu_seq_lens_q") if more.get(x) is not None]
    return f"it asks for {besides[0]}" if besides else None


def attend_by_distance(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], table: Tensor, *, beside: str, dropout: float = 0.0,
    scaling: Optional[float] = None, causal: bool = False, **more: Any,
) -> Tuple[Optional[Tensor], str]:  # fmt: skip
    """[batch][heads][tokens][dim] in, [batch][tokens][heads][dim] out; or None, and why."""
    try:
        refuse_besides("", more)
    except Error as e:
        return None, e.detail.partition(": ")[2]
    why = _why_not(module, query, key, value, table, beside, more)
    if why is not None:
        return None, why
    batch, _, tokens, _ = query.shape
    seen, why = seen_in(mask, batch, tokens, causal)
    if why is not None:
        return None, why
    rel_bias, drops = table[0].t().float().contiguous(), dropout if module.training else 0.0
    tensors: List[Tensor] = [x.transpose(1, 2) for x in (query, key, value)]

    def run(samples: Any, kind: Any) -> Tensor:
        h = _graph(tokens, causal, b"" if kind is None else kind.tobytes())
        q, k, v = (x[samples] for x in tensors)
        y: Tensor = h.attention(q, k, v, layout="bnhd", scale=scaling, rel_bias=rel_bias, dropout=drops, seed=drawn(drops))
        return y

    return (run(slice(None), None) if seen is None else each_alike(seen, run)), "it is faster"
