"""Caches of transformers over hga's decoders: each layer has an ``hga.Cache`` for every sample of the batch. A model hands its
new keys to the cache, then attends; the cache gives them back as they are, with a mark by which attention finds its layer.
Some models hand it latents, of which they make keys and values; some attend several times, each time with other values."""

from __future__ import annotations

import inspect
import itertools
import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from transformers import cache_utils

from .._core.arguments import answering, whole
from .._core.precision import is_bf16
from .._core.releases import crops_to_length
from .._core.library import Error, refuse
from .._graphs.decoder import Cache as Rows, Decoder
from .._graphs.spec import hierarchy_of, spec_of
from ..torch._documents import Document
from ..torch._ragged import in_window
from ._masks import Columns, Segment

Tensor = torch.Tensor
MARK = "hga_layer"
ROLLBACK = 64  # tokens that may be taken back by default


@dataclass
class _Settings:
    """Of all layers of a cache."""

    tokens: int
    rollback: Optional[int]
    same: bool
    page_type: str
    records: bool = False  # will more be taken back than the usual?


DECODERS: "weakref.WeakValueDictionary[Tuple[Any, ...], Decoder]" = weakref.WeakValueDictionary()


def _decoder(words: str, s: _Settings, rollback: int, q: Tensor, k: Tensor, v: Tensor, tables: Dict[str, Any]) -> Decoder:
    """One for all layers that ask for the same numbers, as long as there are caches of it; tensors are a layer's own."""
    options: Dict[str, Any] = dict(
        heads=q.shape[1], kv_heads=k.shape[1], dim=q.shape[3], dim_v=v.shape[3], same=s.same, rollback=rollback,
        row_type="bf16" if is_bf16(q, k, v) else "f32", page_type=s.page_type, threads=torch.get_num_threads(),
    )  # fmt: skip
    key = (words, s.tokens, *options.values(), *tables.items())
    own = {name: x.detach() for name, x in tables.items() if isinstance(x, Tensor)}
    found = None if own else DECODERS.get(key)
    if found is None:
        found = hierarchy_of(words, s.tokens, True).decoder(**options, **{**tables, **own})
        if not own:
            DECODERS[key] = found
    return found


class _Part(NamedTuple):
    """New columns of a sample that are tokens, and where these are among the rows that a decoder takes: all of them (None),
    or some, where rows are nodes."""

    sample: int
    first: int
    end: int
    rows: int
    tokens: Optional[Tensor]

    def rows_of(self, x: Tensor) -> Tensor:
        """[heads][rows][dim] with zeros for the spans that the tokens complete."""
        own = x[self.sample, :, self.first : self.end].detach()
        if self.tokens is None:
            return own
        rows = own.new_zeros(own.shape[0], self.rows, own.shape[2])
        rows[:, self.tokens] = own
        return rows

    def tokens_of(self, rows: Tensor) -> Tensor:
        return (rows if self.tokens is None else rows[:, self.tokens]).transpose(0, 1)


def _part(decoder: Decoder, held: int, sample: int, first: int, n: int) -> _Part:
    if held + n > decoder.n_tokens or not decoder._rows_are_nodes:
        return _Part(sample, first, first + n, n, None)  # which append refuses, or takes
    rows = decoder.rows(held, n)
    return _Part(sample, first, first + n, len(rows), torch.from_numpy((rows < decoder.n_tokens).nonzero()[0]))


def _append(
    words: str, decoder: Decoder, caches: List[Rows], segments: List[Segment], q: Tensor, k: Tensor, v: Tensor
) -> Tensor:  # fmt: skip
    """The new tokens' rows, [batch][new][heads][dim]; 0 where they are padding."""
    out = v.new_zeros(q.shape[0], q.shape[2], q.shape[1], v.shape[3])
    parts = [_part(decoder, len(caches[b]), b, first, n) for b, (first, n) in enumerate(segments) if n]
    if not parts:
        return out
    try:
        rows_of = ([part.rows_of(x) for part in parts] for x in (q, k, v))
        found = decoder.append([caches[part.sample] for part in parts], *rows_of)
    except Error as e:
        more = f"; hga.transformers.Cache({decoder.n_tokens}) is for so many" if "beyond" in e.detail else ""
        raise type(e)(e.status, f"{words}: {e.detail}{more}") from None
    for part, rows in zip(parts, found):
        out[part.sample, part.first : part.end].copy_(part.tokens_of(rows))
    return out


class Layer(getattr(cache_utils, "CacheLayerMixin", object)):  # type: ignore[misc]
    """What one layer of a model holds: as many caches a sample as its first pass called attention."""

    is_sliding = False
    is_croppable = True

    def __init__(self, settings: _Settings, columns: Columns, number: int) -> None:
        super().__init__()
        self.settings, self.columns, self.number, self.record_past = settings, columns, number, settings.records
        self.reset()

    # transformers' half

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, kwargs: Optional[Dict[str, Any]] = None) -> Tuple[Tensor, Tensor]:
        """kwargs: what the model gives to attention beside keys, which may be others than these."""
        self._expect_nothing()
        self.lazy_initialization(key_states, value_states)
        self.past, self.calls = self.length, 0
        setattr(key_states, MARK, self)
        if kwargs is not None:
            kwargs[MARK] = self
        return key_states, value_states

    def _expect_nothing(self) -> None:
        if self.calls < max(1, len(self.decoders)):
            came = f"came {self.calls} times, not {len(self.decoders)}," if self.calls else "did not come"
            raise refuse(f"hga.transformers.Cache: keys came to layer {self.number}, and attention by hga {came} for them: this cache is for "
                         "models with attn_implementation='hga:..'; pass use_cache=False where that is set")  # fmt: skip

    def get_seq_length(self) -> int:
        self._expect_nothing()
        return self.length

    def get_mask_sizes(self, query_length: Any) -> Tuple[int, int]:
        new = len(query_length) if isinstance(query_length, Tensor) and query_length.dim() else int(query_length)  # positions before 5
        return self.get_seq_length() + new, 0

    def get_max_length(self) -> int:
        return self.settings.tokens

    get_max_cache_shape = get_max_length  # transformers before 5

    def reset(self) -> None:
        self.decoders: List[Tuple[str, Decoder]] = []  # of each call of attention, by its words
        self.rows: List[Rows] = []  # of the samples of the first call, of the second, ..
        self.length, self.past, self.calls = 0, 0, 1  # calls of attention for the keys that came last

    def take(self, samples: Sequence[int]) -> None:
        """Samples in another order, some perhaps left out, some more than once: these are forked."""
        held, self.rows = self.rows, []
        batch = len(held) // max(1, len(self.decoders))
        for first in range(0, len(held), batch or 1):
            for i in samples:
                own = held[first : first + batch][i]
                self.rows.append(own.fork() if any(r is own for r in self.rows) else own)

    def without(self, tokens: Sequence[int]) -> List[Rows]:
        """What the samples would hold without their last so many tokens."""
        found = [r.fork() for r in self.rows]
        for r, n in zip(found, itertools.cycle(tokens)):
            r.cut(len(r) - n)
        return found

    def take_back(self, columns: int, rows: List[Rows]) -> None:
        self.length, self.rows = max(0, self.length - columns), rows

    # hga's half

    def attend(self, words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], window: Optional[int],
               tables: Dict[str, Any]) -> Tensor:  # fmt: skip
        (batch, _, new, _), call, begins = q.shape, self.calls, self.calls == len(self.decoders)
        if begins and self.past:
            raise refuse(f"hga.transformers.Cache: layer {self.number} attended {call} times with the keys of a pass, and now does again")
        self.calls += 1
        if window is not None and spec_of(words).is_dense:  # the window, unless the text can never outgrow it
            words = in_window(words, windowed(self.settings.tokens, window))
        held = len(self.rows) // max(1, len(self.decoders))
        if not begins and (self.decoders[call][0], held) != (words, batch):
            raise refuse(f"{words}: the cache has {held} samples of {self.decoders[call][0]}, the model has {batch}")
        segments = self.columns.read(mask, batch, self.past, new, window)
        if begins:
            decoder = _decoder(words, self.settings, self._rollback(), q, k, v, tables)
            self.decoders.append((words, decoder))
            self.rows += [decoder.cache() for _ in range(batch)]
        caches = self.rows[call * batch : (call + 1) * batch]
        if window is not None:
            longest = max(len(r) + n for r, (_, n) in zip(caches, segments))
            in_window(words, windowed(longest, window))
        out = _append(words, self.decoders[call][1], caches, segments, q, k, v)
        self.length = self.past + new
        return out

    def _rollback(self) -> int:
        if self.settings.rollback is not None:
            return self.settings.rollback
        return self.settings.tokens if self.record_past else min(ROLLBACK, self.settings.tokens)


def windowed(tokens: int, window: int, causal: bool = True) -> Document:
    """A text of which a token sees so many, itself among them, to either side."""
    return Document(0, 0, tokens, causal, window - 1, 0 if causal else window - 1)


def layer_of(key: Tensor, more: Dict[str, Any]) -> Optional[Layer]:
    """The layer of a cache of ours whose new keys these are, or are made of."""
    found: Optional[Layer] = more[MARK] if MARK in more else getattr(key, MARK, None)
    return found


# ---- the cache ----


class _OfLayers(cache_utils.Cache):  # type: ignore[misc]
    """What transformers asks of a cache, said by its layers: before 4.56, where its own caches do not take any."""

    is_compileable = False

    def __init__(self, layers: List[Any]) -> None:
        super().__init__()
        self.layers = layers

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def is_sliding(self) -> List[bool]:
        return [layer.is_sliding for layer in self.layers]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return int(self.layers[layer_idx].get_seq_length()) if layer_idx < len(self.layers) else 0

    def get_mask_sizes(self, cache_position: Any, layer_idx: int) -> Tuple[int, int]:
        return self.get_seq_length(layer_idx) + len(cache_position), 0

    def get_max_cache_shape(self, layer_idx: int = 0) -> Any:
        return self.layers[layer_idx].get_max_length() if layer_idx < len(self.layers) else None

    def reset(self) -> None:
        for layer in self.layers:
            layer.reset()


_TAKES_LAYERS = "layers" in inspect.signature(cache_utils.Cache.__init__).parameters
CacheBase: Any = cache_utils.Cache if _TAKES_LAYERS else _OfLayers


class Cache(CacheBase):  # type: ignore[misc]
    """What ``generate()`` makes by itself, and ``model(.., cache=hga.transformers.Cache(tokens))`` takes (past_key_values= before
    transformers 5.24): a cache of up to ``tokens`` tokens a sample, for models with attn_implementation="hga:..". It holds what
    the hierarchies' later tokens read.

    rollback: tokens that ``crop`` may take back at least; None: 64, or all where assisted generation says beforehand that it will.
    same: the bits of a pass over all tokens, whatever the chunks (the model's own products aside); page_type: "f32" or "bf16"."""

    @answering
    def __init__(self, tokens: int, *, rollback: Optional[int] = None, same: bool = False, page_type: str = "f32") -> None:
        super().__init__(layers=[])
        back = None if rollback is None else whole(rollback, "rollback", beyond=2**31)
        self.settings = _Settings(whole(tokens, "tokens", least=1, beyond=2**31), back, same, page_type)
        self.columns = Columns()

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *arguments: Any, kwargs: Optional[Dict[str, Any]] = None,
               **more: Any) -> Tuple[Tensor, Tensor]:  # fmt: skip
        while len(self.layers) <= layer_idx:
            self.layers.append(Layer(self.settings, self.columns, len(self.layers)))
        found: Tuple[Tensor, Tensor] = self.layers[layer_idx].update(key_states, value_states, kwargs)
        return found

    def activate_past_recording(self) -> None:
        self.settings.records = True
        for layer in self.layers:
            layer.record_past = True

    def reset(self) -> None:
        super().reset()
        self.columns.__init__()  # type: ignore[misc]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        indices = torch.as_tensor(indices)
        samples = indices.nonzero()[:, 0] if indices.dtype == torch.bool else indices
        for layer in self.layers:
            layer.take(samples.tolist())
        self.columns.select(samples)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.columns.tokens is not None:
            self.batch_select_indices(torch.arange(len(self.columns.tokens)).repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        """Take back the last tokens, whose number is given as a negative one, as transformers does. Its older releases give
        the number of tokens to keep as well, a positive one."""
        if crops_to_length() and tokens_to_remove > 0:
            tokens_to_remove = min(0, tokens_to_remove - self.get_seq_length())
        if tokens_to_remove > 0:
            raise ValueError(f"crop({tokens_to_remove}): the number of tokens to take back is given as a negative one")
        if tokens_to_remove and self.columns.tokens is not None:
            gone = self.columns.among_last(-tokens_to_remove)
            shortened = [layer.without(gone) for layer in self.layers]  # one that refuses leaves all as they are
            for layer, rows in zip(self.layers, shortened):
                layer.take_back(-tokens_to_remove, rows)
            self.columns.crop(-tokens_to_remove)

    @property
    def bytes(self) -> int:
        """Of the pages of all layers and samples; those that samples share count for each."""
        return sum(r.bytes for layer in self.layers for r in layer.rows)
