"""Which tokens attend together: a mask read as consecutive documents, or refused with what was seen in it.

A model gives its attention a mask; hga wants documents: runs of tokens of which each run attends within itself, causally or
both ways, with one hierarchy of the run's length. A mask is compared with that entry by entry. What differs is refused: a
hierarchy that ignores what a mask says would compute something else, unnoticed."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

import torch

from .._core.library import Error, refuse

Tensor = torch.Tensor
HIDDEN = -1e4  # what is added to a score so that its weight is 0


class Document(NamedTuple):
    """Tokens first .. first + n of a sample. A token sees the document's tokens at most ``left`` back, ``right`` ahead."""

    sample: int
    first: int
    n: int
    causal: bool
    left: int
    right: int


class _Pattern(NamedTuple):
    """A mask of one sample that is consecutive documents: the document of each token (0: padding), and the window."""

    number: Tensor
    causal: bool
    left: int
    right: int


def numbered(mask: Tensor, causal: bool, left: Optional[int] = None, right: Optional[int] = None) -> Tensor:
    """A padding mask [batch][keys] as transformers passes it from layer to layer, [batch][1][1][keys]: the number of every
    token's document, 0 for padding, negative where the document's tokens see one another both ways. Of a window
    [batch][1][3][keys]: two more rows, of how many tokens before and behind it a token sees."""
    number = (mask.to(torch.int32) if causal else -mask.to(torch.int32))[:, None, None, :]
    if left is None or right is None:
        return number
    return torch.cat([number, *(torch.full_like(number, side) for side in (left, right))], 2)


def is_numbered(mask: Tensor) -> bool:
    return mask.dim() == 4 and mask.dtype == torch.int32 and mask.shape[1] == 1 and mask.shape[2] in (1, 3)


def sides_in(mask: Tensor) -> Optional[Tuple[int, int]]:
    """The window that ``numbered`` was called with."""
    if mask.shape[2] == 1 or not mask.numel():
        return None
    left, right = mask[0, 0, 1:, 0].tolist()
    return left, right


def documents(mask: Optional[Tensor], offsets: Optional[Tensor], batch: int, tokens: int, causal: bool, heads: Optional[int] = None) -> List[Document]:
    """The documents of every sample. mask: None, [batch][tokens] (padding), what ``numbered`` makes, or bool or float
    [batch or 1][heads or 1][tokens or 1][tokens] (heads None: of any number). offsets: cumulated lengths of a batch of one, or a row of
    them for queries and a row for keys."""
    if mask is None:
        found = [Document(b, 0, tokens, causal, tokens, 0 if causal else tokens) for b in range(batch if tokens else 0)]
    elif mask.dim() == 2 and mask.shape[-1] == tokens:
        found = _of_numbers(visible(mask).to(torch.int32), batch, causal)
    elif is_numbered(mask) and mask.shape[-1] == tokens:
        found = _of_signed(mask[:, 0, 0], batch)
        sides = sides_in(mask)
        if sides is not None:
            found = [d._replace(left=sides[0], right=0 if d.causal else sides[1]) for d in found]
    elif mask.dim() == 4 and mask.shape[-1] == tokens and mask.shape[2] in (1, tokens) and mask.shape[0] in (1, batch) and (
        heads is None or mask.shape[1] in (1, heads)
    ):
        found = _of_pairs(mask, batch, tokens, causal)
    else:
        raise refuse(f"an attention mask of shape {tuple(mask.shape)} is not understood: the batch has {batch} samples of "
                     f"{tokens} tokens" + (f", in {heads} heads" if heads else ""))  # fmt: skip
    return found if offsets is None else _split(found, offsets, batch, tokens)


# ---- documents by their numbers ----


def _runs(sample: int, p: _Pattern) -> List[Document]:
    """Runs of equal numbers. A number that comes back is a document with a hole."""
    values, counts = torch.unique_consecutive(p.number, return_counts=True)
    found, first, known = [], 0, set()
    for value, n in zip(values.tolist(), counts.tolist()):
        if value:
            if value in known:
                raise refuse(f"token {first - 1} of sample {sample} is padding between tokens of one text: not understood")
            known.add(value)
            found.append(Document(sample, first, n, p.causal, p.left, 0 if p.causal else p.right))
        first += n
    return found


def _of_numbers(numbers: Tensor, batch: int, causal: bool) -> List[Document]:
    n = numbers.shape[-1]
    numbers = numbers.expand(batch, n)
    return [d for b in range(batch) for d in _runs(b, _Pattern(numbers[b], causal, n, n))]


def _of_signed(numbers: Tensor, batch: int) -> List[Document]:
    ahead = bool((numbers < 0).any())
    if ahead and bool((numbers > 0).any()):
        raise refuse("a mask of causal and of other documents is not understood")
    return _of_numbers(numbers, batch, not ahead)


def _split(found: List[Document], offsets: Tensor, batch: int, tokens: int) -> List[Document]:
    """Documents by cumulated lengths, as models hand them to flash attention."""
    if offsets.dim() == 2 and bool((offsets[0] != offsets[1]).any()):
        raise refuse("queries and keys are cut differently (cu_seq_lens_q, cu_seq_lens_k): not texts that attend to themselves")
    at = (offsets[0] if offsets.dim() == 2 else offsets).tolist()
    if batch != 1:
        raise refuse(f"cumulated lengths (cu_seq_lens) are those of one packed sample, the batch has {batch}")
    if not at or at[0] != 0 or sorted(at) != at or at[-1] > tokens:
        raise refuse(f"cumulated lengths (cu_seq_lens) are {at[:8]}: they do not go up from 0 to {tokens}")
    expected = [(a, b - a) for a, b in zip(at, at[1:]) if b > a]
    if len(found) == 1 and (found[0].first, found[0].n) == (0, tokens):
        whole = found[0]
        if at[-1] != tokens:
            raise refuse(f"cumulated lengths (cu_seq_lens) end at {at[-1]} of {tokens} tokens: end them at {tokens}, or give a mask that hides the others")
        return [whole._replace(first=first, n=n) for first, n in expected]
    if [(d.first, d.n) for d in found] != expected:
        raise refuse(f"the mask has {len(found)} documents, cumulated lengths (cu_seq_lens) {len(expected)} or others")
    return found


# ---- masks of pairs ----


def visible(mask: Tensor) -> Tensor:
    """Booleans. A mask that adds anything else than 0 or "never" to a score is a bias, which hga would not add."""
    if not mask.is_floating_point():
        return mask if mask.dtype == torch.bool else mask != 0
    seen = mask == 0
    other = ~(seen | (mask <= HIDDEN))
    if bool(other.any()):
        at = other.nonzero()[0].tolist()
        where = f"token {at[-2]} for token {at[-1]}" if len(at) == 4 and mask.shape[2] > 1 else f"token {at[-1]}"
        added = f"{mask[tuple(at)].item():g}"
        raise refuse(f"the mask adds {added} to the score of {where}: a bias in a mask (ALiBi?) is not supported; "
                     "hga.torch.flex_attention adds numbers to scores by a score_mod")  # fmt: skip
    return seen


def _of_pairs(mask: Tensor, batch: int, tokens: int, causal: bool) -> List[Document]:
    if not mask.is_floating_point() and mask.dtype != torch.bool:
        raise refuse(f"a mask of pairs has type {mask.dtype}, neither bool nor float")
    seen = visible(mask[:1] if mask.stride(0) == 0 else mask)
    heads = (seen != seen[:, :1]).any(-1).any(-1).any(0)
    if bool(heads.any()):
        raise refuse(f"the mask of head {int(heads.nonzero()[0])} is not that of head 0: masks by head are not supported")
    patterns: List[_Pattern] = []
    for b in range(seen.shape[0]):
        try:
            patterns.append(_pattern(seen[b, 0].expand(tokens, tokens), causal))
        except Error as e:
            raise refuse(e.detail + (f" (sample {b})" if batch > 1 else "")) from None
    return [d for b in range(batch) for d in _runs(b, patterns[b if len(patterns) > 1 else 0])]


def _pattern(seen: Tensor, causal: bool) -> _Pattern:
    """[tokens][tokens]: whom each token sees. Causal documents or others, whichever it is; exactly, or refused."""
    for windowed in (False, True):
        for kind in (causal, not causal):
            found = _as_documents(seen, kind, windowed)
            if found is not None:
                return found
    raise refuse(_difference(seen, causal))


def _numbers_of(seen: Tensor) -> Tensor:
    """A token that does not see itself is padding; one that sees the token before it continues its document."""
    own = seen.diagonal()
    starts = own.clone()
    starts[1:] &= ~(own[:-1] & seen.diagonal(-1))
    return torch.where(own, starts.cumsum(0), torch.zeros_like(starts, dtype=torch.long))


def _as_documents(seen: Tensor, causal: bool, windowed: bool) -> Optional[_Pattern]:
    n = seen.shape[0]
    number = _numbers_of(seen)
    own = number > 0
    expected = _expected(number, causal)
    left, right = _window(seen, own) if windowed else (n, n)
    if windowed:
        expected &= _band(n, left, right)
    if not bool((seen == expected)[own].all()) or (windowed and not causal and right == 0):
        return None
    if not bool(own.all()) and not _is_padding(seen, number, causal, left, right):
        return None
    return _Pattern(number, causal, left, right)


def _band(n: int, left: int, right: int) -> Tensor:
    at = torch.arange(n)
    back = at[:, None] - at[None, :]
    return (back <= left) & (back >= -right)


def _expected(number: Tensor, causal: bool) -> Tensor:
    same = (number[:, None] == number[None, :]) & (number > 0)[:, None]
    return same.tril_() if causal else same


def _window(seen: Tensor, own: Tensor) -> Tuple[int, int]:
    """How far back and ahead anybody sees."""
    pairs = (seen & own[:, None]).nonzero()
    if len(pairs) == 0:
        return 0, 0
    back = pairs[:, 0] - pairs[:, 1]
    return int(back.max().clamp(min=0)), int((-back).max().clamp(min=0))


def _is_padding(seen: Tensor, number: Tensor, causal: bool, left: int, right: int) -> bool:
    """Is what does not see itself seen by none, and does it see nothing, all texts or one of them, as padding does?"""
    rows = number == 0
    if bool(seen[:, rows].any()):
        return False
    s, n = seen[rows], len(number)
    within = torch.ones(n, n, dtype=torch.bool)
    within = (within.tril_() if causal else within)[rows] & _band(n, left, right)[rows]
    everything = within & (number > 0)
    one = everything & (number == number[s.to(torch.uint8).argmax(1)][:, None])
    return bool((~s.any(1) | (s == everything).all(1) | (s == one).all(1)).all())


def _difference(seen: Tensor, causal: bool) -> str:
    """In words: the first pair in which a mask is none of consecutive documents."""
    n = seen.shape[0]
    number = _numbers_of(seen)
    own = number > 0
    usual = "causal attention" if causal else "attention both ways"
    if not bool(own.all()):
        pad = int((~own).nonzero()[0])
        if not bool(own.any()) or bool(seen[:, ~own].any()):
            i, j = (seen & ~own[None, :]).nonzero()[0].tolist()
            return f"the mask lets token {i} see token {j}, which does not see itself: not a mask of padding or of documents"
        if not _is_padding(seen, number, causal, n, n) and bool((seen == _expected(number, causal))[own].all()):
            return f"the mask lets token {pad}, which does not see itself, see some of the others: not a mask of padding"
    differ = (seen != _expected(number, causal)) & own[:, None]
    i, j = differ.nonzero()[0].tolist()
    if not bool(seen[i, j]):
        guess = "a causal mask" if not causal and j > i else "a window, or a draft tree"
        return f"the mask hides token {j} from token {i}, which {usual} lets it see: {guess}?"
    if causal and j > i:
        return f"the mask lets token {i} see token {j}, which {usual} does not: a prefix mask?"
    k = next((k for k in range(min(i, j) + 1, max(i, j)) if not bool(seen[i, k])), None)
    hidden = f", but not token {k} between them" if k is not None else ", which belong to different documents"
    return f"the mask lets token {i} see token {j}{hidden}: a draft tree, or sparse attention?"
