"""Caches of transformers over hga's decoders: each layer has an ``hga.Cache`` for every sample of the batch. A model hands its
new keys to the cache, then attends; the cache gives them back as they are, with a mark by which attention finds its layer.
Some models hand it latents, of which they make keys and values; some attend several times, each time with other values."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._core.arguments import whole
from ._cache_base import CacheBase, LayerBase
from .._core.values import Error, refuse
from .._graphs.decoder import Cache as Rows
from .._graphs.decoder import Decoder
from ..torch._documents import Document, is_numbered, visible
from .._core.precision import is_bf16
from ..torch._ragged import in_window
from .._core.releases import crops_to_length
from .._graphs.spec import hierarchy_of, spec_of

Tensor = torch.Tensor
Segment = Tuple[int, int]  # the first of a sample's new columns that are tokens, and their number
MARK = "hga_layer"
ROLLBACK = 64  # tokens that may be taken back by default


# ---- padding ----


class _Columns:
    """Which columns of a batch are tokens and which are padding, for all layers of a cache."""

    def __init__(self) -> None:
        self.tokens: Optional[Tensor] = None  # [batch][columns] bool
        self._last: Tuple[Any, ...] = ()

    def read(self, mask: Optional[Tensor], batch: int, past: int, new: int, window: Optional[int]) -> List[Segment]:
        """The tokens among `new` columns behind `past` ones. A mask that says anything else than causal attention (in a window)
        to every token of a sample is refused. Layers of one pass have one mask, which is read once."""
        if self._last and self._last[0] is mask and self._last[1:-1] == (batch, past, new, window):
            found: List[Segment] = self._last[-1]
            return found
        before = torch.zeros(batch, 0, dtype=torch.bool) if past == 0 or self.tokens is None else self.tokens[:, :past]
        own = _own(mask, before, batch, new, window)
        found = [_segment(before[b], own[b], b) for b in range(batch)]
        self.tokens = torch.cat([before, own], 1)
        self._last = (mask, batch, past, new, window, found)
        return found

    def select(self, samples: Tensor) -> None:
        self._last = ()
        if self.tokens is not None:
            self.tokens = self.tokens[samples]

    def among_last(self, n: int) -> List[int]:
        """How many tokens of each sample are among the last n columns."""
        if self.tokens is None:
            return []
        found: List[int] = self.tokens[:, max(0, self.tokens.shape[1] - n) :].sum(1).tolist()
        return found

    def crop(self, n: int) -> None:
        """The last n columns go."""
        self._last = ()
        if self.tokens is not None:
            self.tokens = self.tokens[:, : max(0, self.tokens.shape[1] - n)]


def _own(mask: Optional[Tensor], before: Tensor, batch: int, new: int, window: Optional[int]) -> Tensor:
    """[batch][new]: which new columns are tokens."""
    past = before.shape[1]
    if mask is None:
        return torch.ones(batch, new, dtype=torch.bool)
    if mask.dim() == 4 and mask.shape[0] in (1, batch) and mask.shape[-2:] == (new, past + new) and mask.dtype != torch.int32:
        return _own_of_pairs(mask, before, batch, new, window)
    if is_numbered(mask):
        mask = _tokens_of(mask)
    elif mask.dim() == 2:
        mask = visible(mask)
    if mask.dim() != 2 or mask.shape[0] not in (1, batch) or mask.shape[1] != past + new:
        raise refuse(f"an attention mask of shape {tuple(mask.shape)} is not understood: the batch has {batch} samples of {past} tokens "
                     f"in the cache and {new} new ones")  # fmt: skip
    mask = mask.expand(batch, past + new)
    if not torch.equal(mask[:, :past], before):
        b, j = (mask[:, :past] != before).nonzero()[0].tolist()
        raise refuse(f"the mask says that token {j} of sample {b} is {'padding' if before[b, j] else 'none'}, and said otherwise when it came")
    return mask[:, past:]


def _tokens_of(mask: Tensor) -> Tensor:
    """[batch][columns]: which are tokens, by what _documents.numbered made."""
    number = mask[:, 0, 0]
    if bool((number < 0).any()) or bool((number > 1).any()):
        raise refuse("a cache is of one causal text a sample: packed texts, and attention both ways, need use_cache=False")
    return number > 0


def _own_of_pairs(mask: Tensor, before: Tensor, batch: int, new: int, window: Optional[int]) -> Tensor:
    seen, past = visible(mask), before.shape[1]
    if bool((seen != seen[:, :1]).any()):
        raise refuse("masks by head are not supported")
    seen = seen[:, 0].expand(batch, new, past + new)
    own = seen[:, :, past:].diagonal(dim1=1, dim2=2)
    back = torch.arange(past, past + new)[:, None] - torch.arange(past + new)
    expected = torch.cat([before, own], 1)[:, None] & (back >= 0)
    if window is not None:
        expected &= back < window
    wrong = ((seen != expected) & own[:, :, None]).nonzero()
    if len(wrong):
        b, i, j = wrong[0].tolist()
        raise refuse(f"the mask {'lets' if seen[b, i, j] else 'does not let'} token {past + i} of sample {b} see token {j}: a cache is of "
                     "one causal text a sample")  # fmt: skip
    return own


def _segment(before: Tensor, own: Tensor, sample: int) -> Segment:
    at = own.nonzero()[:, 0]
    if len(at) == 0:
        return 0, 0
    first, n = int(at[0]), len(at)
    goes_on = bool(before.any())
    hole = int(at[-1]) - first + 1 != n or (goes_on and (first > 0 or not bool(before[-1])))
    if hole:
        raise refuse(f"sample {sample} has padding between tokens of one text: pad on the left")
    return first, n


# ---- layers ----


@dataclass(frozen=True)
class _Settings:
    tokens: int
    rollback: Optional[int]
    same: bool
    page_type: str


DECODERS: "weakref.WeakValueDictionary[Tuple[Any, ...], Decoder]" = weakref.WeakValueDictionary()


def _decoder(words: str, s: _Settings, rollback: int, q: Tensor, k: Tensor, v: Tensor, tables: Dict[str, Any]) -> Decoder:
    """One for all layers that ask for the same numbers, as long as there are caches of it; tensors are a layer's own."""
    shape = dict(heads=q.shape[1], kv_heads=k.shape[1], dim=q.shape[3], dim_v=v.shape[3])
    row_type = "bf16" if is_bf16(q, k, v) else "f32"
    options = dict(same=s.same, rollback=rollback, row_type=row_type, page_type=s.page_type, threads=torch.get_num_threads())
    key = (words, s.tokens, *shape.values(), *options.values(), *tables.items())
    own = any(isinstance(x, torch.Tensor) for x in tables.values())
    detached = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in tables.items()}
    found = None if own else DECODERS.get(key)
    if found is None:
        found = hierarchy_of(words, s.tokens, True).decoder(**shape, **options, **detached)  # type: ignore[arg-type]
        if not own:
            DECODERS[key] = found
    return found


class _Held:
    """What one call of attention holds between passes."""

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings
        self.decoder: Optional[Decoder] = None
        self.rows: List[Rows] = []
        self.words = ""

    def check(self, words: str, batch: int) -> None:
        if self.rows and (self.words, len(self.rows)) != (words, batch):
            raise refuse(f"{words}: the cache has {len(self.rows)} samples of {self.words}, the model has {batch}")

    def begin(self, words: str, rollback: int, q: Tensor, k: Tensor, v: Tensor, tables: Dict[str, Any]) -> None:
        if not self.rows:
            self.decoder, self.words = _decoder(words, self.settings, rollback, q, k, v, tables), words
            self.rows = [self.decoder.cache() for _ in range(q.shape[0])]

    def take(self, samples: Sequence[int]) -> None:
        taken: List[Rows] = []
        for i in samples:
            taken.append(self.rows[i].fork() if any(r is self.rows[i] for r in taken) else self.rows[i])
        self.rows = taken

    def without(self, tokens: Sequence[int]) -> List[Rows]:
        """What the samples would hold without their last so many tokens."""
        found = [r.fork() for r in self.rows]
        for r, n in zip(found, tokens):
            r.cut(len(r) - n)
        return found

    def append(self, segments: List[Segment], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The new tokens' rows, [batch][new][heads][dim]; 0 where they are padding."""
        out = v.new_zeros(q.shape[0], q.shape[2], q.shape[1], v.shape[3])
        listed = [(b, first, first + n) for b, (first, n) in enumerate(segments) if n]
        if not listed:
            return out
        assert self.decoder is not None
        orders = [_row_order(self.decoder, len(self.rows[b]), end - first) for b, first, end in listed]
        inputs = ([order.rows_of(x[b, :, first:end].detach()) for order, (b, first, end) in zip(orders, listed)] for x in (q, k, v))
        try:
            found = self.decoder.append([self.rows[b] for b, _, _ in listed], *inputs)
        except Error as e:
            more = f"; hga.transformers.Cache({self.settings.tokens}) is for so many" if "beyond" in e.detail else ""
            raise type(e)(e.status, f"{self.words}: {e.detail}{more}") from None
        for order, (b, first, end), rows in zip(orders, listed, found):
            out[b, first:end].copy_(order.tokens_of(rows).transpose(0, 1))
        return out


class Layer(LayerBase):  # type: ignore[misc]
    """What one layer of a model holds: as much as its first pass called attention for."""

    is_sliding = False
    is_croppable = True

    def __init__(self, settings: _Settings, columns: _Columns, number: int) -> None:
        super().__init__()
        self.settings, self.columns, self.number = settings, columns, number
        self.record_past = False
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
        if self.calls < max(1, len(self.held)):
            came = f"came {self.calls} times, not {len(self.held)}," if self.calls else "did not come"
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

    def activate_past_recording(self) -> None:
        self.record_past = True

    def reset(self) -> None:
        self.held: List[_Held] = []
        self.length, self.past, self.calls = 0, 0, 1  # calls of attention for the keys that came last

    @property
    def rows(self) -> List[Rows]:
        return [r for held in self.held for r in held.rows]

    def take(self, samples: Sequence[int]) -> None:
        """Samples in another order, some perhaps left out, some more than once: these are forked."""
        for held in self.held:
            held.take(samples)

    def without(self, tokens: Sequence[int]) -> List[List[Rows]]:
        return [held.without(tokens) for held in self.held]

    def take_back(self, columns: int, rows: List[List[Rows]]) -> None:
        self.length = max(0, self.length - columns)
        for held, own in zip(self.held, rows):
            held.rows = own

    # hga's half

    def attend(self, words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], window: Optional[int],
               tables: Dict[str, Any]) -> Tensor:  # fmt: skip
        batch, new = q.shape[0], q.shape[2]
        if window is not None:
            words = self._in_window(words, window)
        held = self._next()
        held.check(words, batch)
        segments = self.columns.read(mask, batch, self.past, new, window)
        held.begin(words, self._rollback(), q, k, v, tables)
        if window is not None:
            longest = max(len(r) + n for r, (_, n) in zip(held.rows, segments))
            in_window(words, Document(0, 0, longest, True, window - 1, 0))
        out = held.append(segments, q, k, v)
        self.length = self.past + new
        return out

    def _next(self) -> _Held:
        if self.calls == len(self.held):
            if self.past:
                raise refuse(f"hga.transformers.Cache: layer {self.number} attended {self.calls} times with the keys of a pass, and now does again")
            self.held.append(_Held(self.settings))
        self.calls += 1
        return self.held[self.calls - 1]

    def _rollback(self) -> int:
        if self.settings.rollback is not None:
            return self.settings.rollback
        return self.settings.tokens if self.record_past else min(ROLLBACK, self.settings.tokens)

    def _in_window(self, words: str, window: int) -> str:
        """Of dense attention the window, unless there is never capacity for more tokens: the text may outgrow it."""
        most = Document(0, 0, self.settings.tokens, True, window - 1, 0)
        return in_window(words, most) if spec_of(words).is_dense else words


class _RowOrder(NamedTuple):
    """Where new tokens are among the rows that a decoder takes; None: they are all of them."""

    n: int
    tokens: Optional[Tensor]

    def rows_of(self, x: Tensor) -> Tensor:
        """[heads][tokens][dim] with zeros for the spans that the tokens complete, where rows are nodes."""
        if self.tokens is None:
            return x
        rows = x.new_zeros(x.shape[0], self.n, x.shape[2])
        rows[:, self.tokens] = x
        return rows

    def tokens_of(self, rows: Tensor) -> Tensor:
        return rows if self.tokens is None else rows[:, self.tokens]


def _row_order(decoder: Decoder, first: int, n: int) -> _RowOrder:
    if first + n > decoder.n_tokens or not decoder._rows_are_nodes:
        return _RowOrder(n, None)  # which append refuses, or takes
    rows = decoder.rows(first, n)
    return _RowOrder(len(rows), torch.from_numpy((rows < decoder.n_tokens).nonzero()[0]))


def layer_of(key: Tensor, more: Dict[str, Any]) -> Optional[Layer]:
    """The layer of a cache of ours whose new keys these are, or are made of."""
    found: Optional[Layer] = more[MARK] if MARK in more else getattr(key, MARK, None)
    return found


# ---- the cache ----


class Cache(CacheBase):  # type: ignore[misc]
    """What ``generate()`` makes by itself, and ``model(.., cache=hga.transformers.Cache(tokens))`` takes (past_key_values= before
    transformers 5.24): a cache of up to ``tokens`` tokens a sample, for models with attn_implementation="hga:..". It holds what
    the hierarchies' later tokens read.

    rollback: tokens that ``crop`` may take back at least; None: 64, or all where assisted generation says beforehand that it will.
    same: the bits of a pass over all tokens, whatever the chunks (the model's own products aside); page_type: "f32" or "bf16"."""

    def __init__(self, tokens: int, *, rollback: Optional[int] = None, same: bool = False, page_type: str = "f32") -> None:
        super().__init__(layers=[])
        back = None if rollback is None else whole(rollback, "rollback", beyond=2**31)
        self.settings = _Settings(whole(tokens, "tokens", least=1, beyond=2**31), back, same, page_type)
        self.columns = _Columns()
        self._records = False

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *arguments: Any, kwargs: Optional[Dict[str, Any]] = None,
               **more: Any) -> Tuple[Tensor, Tensor]:  # fmt: skip
        while len(self.layers) <= layer_idx:
            layer = Layer(self.settings, self.columns, len(self.layers))
            layer.record_past = self._records
            self.layers.append(layer)
        found: Tuple[Tensor, Tensor] = self.layers[layer_idx].update(key_states, value_states, kwargs)
        return found

    def activate_past_recording(self) -> None:
        self._records = True
        for layer in self.layers:
            layer.activate_past_recording()

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
        if tokens_to_remove:
            gone = self.columns.among_last(-tokens_to_remove)
            shortened = [layer.without(gone) for layer in self.layers]  # one that refuses leaves all as they are
            for layer, rows in zip(self.layers, shortened):
                layer.take_back(-tokens_to_remove, rows)
            self.columns.crop(-tokens_to_remove)

    @property
    def bytes(self) -> int:
        """Of the pages of all layers and samples; those that samples share count for each."""
        return sum(r.bytes for layer in self.layers for r in layer.rows)
