"""A model's dense pass, and pieces of its rows run again with gradients: what each layer's attention has there, and the gradient of the loss
by each head's output."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import cache_utils

from .._core.releases import cache_argument
from .._core.library import refuse
from ._attention import PREFIX, attend, layer_number, tables_of, window_of
from ._capture import Watch, watched_by
from ._generation import CacheBase

Tensor = torch.Tensor


# ---- keys and values of the dense pass, of which a piece sees those before it ----


class _PastLayer(getattr(cache_utils, "CacheLayerMixin", object)):  # type: ignore[misc]
    """One layer's keys and values of all tokens."""

    is_sliding = False
    is_initialized = True

    def __init__(self, past: "_Past") -> None:
        super().__init__()
        self.past = past
        self.kept: Optional[Tuple[Tensor, Tensor]] = None

    def lazy_initialization(self, *arguments: Any) -> None:
        """There is nothing to do."""

    def update(self, key_states: Tensor, value_states: Tensor, *arguments: Any, **more: Any) -> Tuple[Tensor, Tensor]:
        start = self.past.start
        if start is None:
            self.kept = (key_states.detach(), value_states.detach())
            return key_states, value_states
        assert self.kept is not None
        key, value = (torch.cat([x[:, :, :start], new], 2) for x, new in zip(self.kept, (key_states, value_states)))
        return key, value

    def get_seq_length(self, *arguments: Any) -> int:
        return self.past.start or 0

    def get_mask_sizes(self, query_length: Any, *arguments: Any) -> Tuple[int, int]:
        new = len(query_length) if isinstance(query_length, Tensor) and query_length.dim() else int(query_length)
        return self.get_seq_length() + new, 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length

    def reset(self) -> None:
        self.kept = None


class _Past(CacheBase):  # type: ignore[misc]
    """Of all layers. start None: they are filled; else a piece begins there."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.start: Optional[int] = None

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *arguments: Any, **more: Any) -> Tuple[Tensor, Tensor]:
        while len(self.layers) <= layer_idx:
            self.layers.append(_PastLayer(self))
        found: Tuple[Tensor, Tensor] = self.layers[layer_idx].update(key_states, value_states)
        return found


# ---- attention of a piece ----


class Seen(NamedTuple):
    """What a layer's attention has of a piece: q and out [heads][rows][columns], k and v [heads of keys][tokens][columns] of the piece and
    all before it."""

    layer: int
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor  # with its gradient
    scale: float
    tables: Dict[str, Any]
    window: Optional[int]

    @property
    def gradient(self) -> Tensor:
        """Of the sum of the rows' losses, by out."""
        assert self.out.grad is not None
        return self.out.grad[0].float()


def weights_of(q: Tensor, k: Tensor, scale: float, tables: Dict[str, Any], window: Optional[int]) -> Tuple[Tensor, Tensor]:
    """[heads][rows][tokens] of the last rows' weights, before they are divided by their sums, and what a sink adds to these, in float32."""
    (heads, rows, dim), (shared, n, _) = q.shape, k.shape
    s = (scale * q.float().reshape(shared, -1, dim) @ k.float().transpose(1, 2)).view(heads, rows, n)
    if tables.get("softcap"):
        s = tables["softcap"] * torch.tanh(s / tables["softcap"])
    back = torch.arange(n - rows, n)[:, None] - torch.arange(n)
    s = s.masked_fill((back < 0) | (back >= (window or n)), -torch.inf)
    sink = tables.get("sink")
    sink = s.new_full((heads, 1, 1), -torch.inf) if sink is None else sink.float().reshape(-1, 1, 1)
    top = torch.maximum(s.amax(-1, keepdim=True), sink).detach()
    return torch.exp(s - top), torch.exp(sink - top)


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, tables: Dict[str, Any], window: Optional[int]) -> Tensor:
    """[1][heads][rows][columns]."""
    w, more = weights_of(q[0], k[0], scale, tables, window)
    w = (w / (w.sum(-1, keepdim=True) + more)).view(k.shape[1], -1, k.shape[2])
    return (w @ v[0].float()).view(1, *q.shape[1:3], v.shape[3]).to(v.dtype)


class _Pass(Watch):
    """Attends densely, whatever the model has been set to, and holds what was seen of a piece."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Optional[List[Seen]] = None  # of a piece

    def before(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def watched(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, *rest: Any, **more: Any) -> Tuple[Tensor, None]:
            if self.seen is None:
                return attend(f"{PREFIX}dense", module, query, key, value, mask, **{**more, "dropout": 0.0})
            window, scale = window_of(mask, more), more.get("scaling")
            scale, tables = query.shape[-1] ** -0.5 if scale is None else float(scale), {n: x for n, x in tables_of(more).items() if x is not None}
            out = checkpoint(_attend, query, key, value, scale, tables, window, use_reentrant=False)
            out = out if out.requires_grad else out.requires_grad_()
            out.retain_grad()
            q, k, v = (x[0].detach() for x in (query, key, value))
            self.seen.append(Seen(layer_number(module), q, k, v, out, scale, tables, window))
            return out.transpose(1, 2), None

        return watched


# ---- the passes ----


def starts_of(n: int, pieces: int, rows: int, step: int) -> List[int]:
    """Where pieces of rows begin: spread over the last half, at multiples of `step`."""
    stride = n // 2 // pieces
    found = [(n // 2 + stride // 8 + i * stride) // step * step for i in range(pieces)]
    if stride < rows + step or found[-1] + rows >= n:
        raise refuse(f"calibrate: {pieces} pieces of {rows} rows do not fit into the last half of {n} tokens: give a longer text")
    return found


def run(model: Any, ids: Tensor, starts: Sequence[int], rows: int) -> Iterator[Tuple[int, List[Seen]]]:
    """One dense pass over ids [1][n], then piece after piece with what its layers saw."""
    past, watch, name = _Past(), _Pass(), cache_argument()
    with watched_by(watch, model):
        with torch.no_grad():
            model.base_model(input_ids=ids, use_cache=True, **{name: past})
        for start in starts:
            past.start, watch.seen = start, []
            with torch.enable_grad():
                logits = model(input_ids=ids[:, start : start + rows], use_cache=True, **{name: past}).logits
                loss = cross_entropy(logits[0].float(), ids[0, start + 1 : start + rows + 1], reduction="sum")
                torch.autograd.backward(loss)
            if not watch.seen:
                raise refuse(f"calibrate: {type(model).__name__} attends by nothing that hga serves")
            yield start, watch.seen
