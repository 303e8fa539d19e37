"""Masks as transformers knows them: a function of two positions, which holds the window of a layer that slides, and the
number of every token's text where texts are packed. Looking at these costs one step a token; asking the function about every
pair, which is all that is left without it, costs their product."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

import torch
from transformers import masking_utils

from .._core.releases import look_up_early, private
from .._core.library import refuse
from ..torch._documents import is_numbered, numbered, visible

Tensor = torch.Tensor
Segment = Tuple[int, int]  # the first of a sample's new columns that are tokens, and their number
_SDPA_MASK = "transformers.masking_utils.sdpa_mask"
look_up_early(_SDPA_MASK)

# ---- of a pass ----


class Sides(NamedTuple):
    """Whom a token sees within its text: so many tokens before it, so many behind it; None: all."""

    causal: bool
    left: Optional[int] = None
    right: Optional[int] = None


def _known(name: str) -> Any:
    """A function of transformers' masks. Of what another release calls or makes otherwise, all pairs are evaluated."""
    return getattr(masking_utils, name, _known)


def _held(function: Any, maker: str) -> Optional[Dict[str, Any]]:
    """The variables that a function holds, by name, if ``maker`` defines it inside itself and returns it."""
    code = getattr(function, "__code__", None)
    if code is None or code not in getattr(getattr(_known(maker), "__code__", None), "co_consts", ()):
        return None
    return dict(zip(code.co_freevars, (c.cell_contents for c in function.__closure__ or ())))


def _terms(function: Any) -> List[Any]:
    """The masks of an "and"; the function itself where it is none; nothing where torch.compile cannot look into it."""
    if torch.compiler.is_compiling():
        return []
    held = _held(function, "and_masks")
    return [function] if held is None else list(held.get("mask_functions", ()))


def _sides_of(mask_function: Any) -> Optional[Sides]:
    """What a layer's mask is, packing aside, if it is causal, both ways, or one of these in a window, and nothing else."""
    terms = _terms(mask_function)
    causal = _known("causal_mask_function") in terms
    if not causal and _known("bidirectional_mask_function") not in terms:
        return None
    if len(terms) == 1:
        return Sides(causal)
    overlay = "sliding_window_overlay" if causal else "sliding_window_bidirectional_overlay"
    windows = [held.get("sliding_window") for held in (_held(term, overlay) for term in terms) if held is not None]
    if len(terms) != 2 or len(windows) != 1 or not isinstance(windows[0], int):
        return None
    return Sides(True, windows[0] - 1, 0) if causal else Sides(False, windows[0], windows[0])


class _Packed(NamedTuple):
    number: Tensor  # [samples][tokens], from 1 on
    sides: Sides


def packed_documents(mask_function: Any, tokens: int) -> Optional[_Packed]:
    """Consecutive causal texts, if the function is the one by which transformers separates such texts, perhaps in a
    window, and nothing else; or None, and then all pairs must be evaluated."""
    terms = [(term, _held(term, "packed_sequence_mask_function")) for term in _terms(mask_function)]
    packed, others = [held for _, held in terms if held is not None], [term for term, held in terms if held is None]
    if len(packed) != 1 or len(others) != 1:
        return None
    moved = _held(others[0], "remap_positions_for_packed_sequence")  # positions that begin anew in every text
    sides = _sides_of(others[0] if moved is None else moved.get("mask_function"))
    number = packed[0].get("packed_sequence_mask")
    if sides is None or not sides.causal or not isinstance(number, Tensor) or number.shape[1:] != (tokens,):
        return None
    # where positions go up one by one within a text, as they do in runs of equal numbers, positions are causal as tokens are
    return _Packed(number + 1, sides)


def _padding(mask: Optional[Tensor], batch: int, first: int, n: int, device: Any) -> Tensor:
    """[batch][n]: which keys from ``first`` on are tokens; those behind the mask's end are none."""
    if mask is None:
        return torch.ones(batch, n, dtype=torch.bool, device=device)
    if mask.dim() != 2 or mask.shape[0] not in (1, batch):
        raise refuse(f"attention_mask has shape {tuple(mask.shape)}, the batch {batch} samples of {n} tokens: give [{batch}, {n}], or [{batch}, 1, {n}, {n}]")
    missing = first + n - mask.shape[-1]
    return (torch.nn.functional.pad(mask, (0, missing)) if missing > 0 else mask)[:, first : first + n]


def mask(batch_size: int, kv_length: int, kv_offset: Any = 0, mask_function: Any = None, attention_mask: Any = None,
         local_size: Optional[int] = None, allow_is_causal_skip: bool = True, allow_is_bidirectional_skip: bool = False,
         **more: Any) -> Tensor:  # fmt: skip
    """What transformers asks for once a pass: the documents' numbers where they are known without looking at every pair,
    which is where transformers itself would leave a mask to "is_causal", and all pairs otherwise."""
    queries = more["q_length"] if "q_length" in more else len(more["cache_position"])  # transformers before 5
    sides = None
    if allow_is_causal_skip != allow_is_bidirectional_skip:
        sides = _sides_of(mask_function)
        if sides is None and (local_size is None or kv_length <= local_size):
            sides = Sides(allow_is_causal_skip)  # a window or a chunk as long as the text hides nothing
    behind = allow_is_causal_skip and queries < kv_length and kv_offset == 0  # new tokens behind those of a cache
    if sides is not None and (queries == kv_length or behind):
        return numbered(_padding(attention_mask, batch_size, kv_offset, kv_length, more.get("device", "cpu")), *sides)
    if attention_mask is None and queries == kv_length:
        packed = packed_documents(mask_function, kv_length)
        if packed is not None:
            return numbered(packed.number.expand(batch_size, -1), *packed.sides)
    found: Tensor = private(_SDPA_MASK)(
        batch_size=batch_size, kv_length=kv_length, kv_offset=kv_offset, mask_function=mask_function,
        attention_mask=attention_mask, local_size=local_size, allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False, **more,
    )  # fmt: skip
    return found


# ---- of layers that have one mask ----

T = TypeVar("T")
_FOUND = "hga_found"  # the attribute of a mask: its version, and what was found


def remembered(mask: Tensor, what: Any, make: Callable[[], T]) -> T:
    """What ``make`` finds out of a mask, once for all layers of a pass. A mask of the caller's may change in place: then it is looked at anew,
    and always where torch counts no changes."""
    own = is_numbered(mask)
    if torch.compiler.is_compiling() or (mask.is_inference() and not own):
        return make()
    version = 0 if own else mask._version
    known: Optional[Tuple[int, Dict[Any, Any]]] = getattr(mask, _FOUND, None)
    if known is None or known[0] != version:
        known = version, {}
        setattr(mask, _FOUND, known)
    if what not in known[1]:
        known[1][what] = make()
    found: T = known[1][what]
    return found


# ---- of a cache ----


class Columns:
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
        assert self.tokens is not None
        found: List[int] = self.tokens[:, max(0, self.tokens.shape[1] - n) :].sum(1).tolist()
        return found

    def crop(self, n: int) -> None:
        """The last n columns go."""
        assert self.tokens is not None
        self._last = ()
        self.tokens = self.tokens[:, : max(0, self.tokens.shape[1] - n)]


def _own(mask: Optional[Tensor], before: Tensor, batch: int, new: int, window: Optional[int]) -> Tensor:
    """[batch][new]: which new columns are tokens."""
    past = before.shape[1]
    if mask is None:
        return torch.ones(batch, new, dtype=torch.bool)
    if mask.dim() == 4 and mask.shape[0] in (1, batch) and mask.shape[-2:] == (new, past + new) and mask.dtype != torch.int32:
        return _own_of_pairs(mask, before, batch, new, window)
    if is_numbered(mask):
        number = mask[:, 0, 0]
        if bool((number < 0).any()) or bool((number > 1).any()):
            raise refuse("a cache is of one causal text a sample: packed texts, and attention both ways, need use_cache=False")
        mask = number > 0
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
    behind_padding = bool(before.any()) and (first > 0 or not bool(before[-1]))
    if behind_padding or int(at[-1]) - first + 1 != n:
        raise refuse(f"sample {sample} has padding between tokens of one text: pad on the left")
    return first, n
