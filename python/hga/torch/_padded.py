"""Attention of modules under torch's masks: what these say depends on their numbers, and torch.compile takes it as one pass."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from .._core.library import Error
from ._documents import numbered
from ._module_arguments import by_name, padding_of, with_key_bias
from ._one_pass import PASSES, Inputs, Outputs, Pass, drawn, whole
from ._ragged import attend

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


def _read(seen: Optional_, pairs: Optional_, causal: bool) -> Tuple[bool, Optional_]:
    """Both masks, of tokens that are there and of pairs in which True hides, as one: whether it is causal, and what else it says."""
    if pairs is None:
        return causal, None if seen is None else numbered(seen, causal)
    found = ~pairs if pairs.dtype == torch.bool else pairs
    if seen is not None:
        hidden = ~seen[:, None, None, :]
        found = found & ~hidden if found.dtype == torch.bool else found.masked_fill(hidden, float("-inf"))
    later = found[..., 0, -1] if pairs.shape[-1] > 1 else None  # causal attention hides the last token from the first
    causal = causal or bool(later is not None and (later != 0 if found.dtype != torch.bool else ~later).any())
    return causal, found


def _masked(
    words: str, q: Tensor, k: Tensor, v: Tensor, padding: Optional_, pairs: Optional_, offsets: Optional_, causal: bool, drop: float,
    tables: Dict[str, Any], seed: Optional_ = None,
) -> Tensor:  # fmt: skip
    seen, added = (None, None) if padding is None else padding_of(padding)
    causal, mask = _read(seen, pairs, causal)
    if added is not None:
        q, k, tables = with_key_bias(words, q, k, added, causal, tables)
    try:
        return attend(words, q, k, v, mask=mask, offsets=offsets, causal=causal, dropout=drop, seed=seed, **tables)
    except Error as e:
        raise by_name(e, [name for name, x in (("key_padding_mask", padding), ("attn_mask", pairs)) if x is not None]) from None


def masked(
    words: str, q: Tensor, k: Tensor, v: Tensor, padding: Optional_, pairs: Optional_, offsets: Optional_, causal: bool, drop: float,
    tables: Dict[str, Any],
) -> Tensor:  # fmt: skip
    """[batch, heads, tokens, dim] in, [batch, tokens, heads, dim] out. padding: [batch, tokens], pairs: [batch or 1, heads or 1, tokens,
    tokens], of truth values or numbers, as modules of torch take them; offsets: where the texts of one sample begin."""
    is_number = padding is not None and padding.dtype != torch.bool
    if not torch.compiler.is_compiling() or not (is_number or pairs is not None):
        return _masked(words, q, k, v, padding, pairs, offsets, causal, drop, tables)
    more = {"padding": padding, "pairs": pairs, "seed": torch.as_tensor(drawn(drop)) if drop else None, **tables}
    there: List[Any] = [(name, x) for name, x in more.items() if x is not None]  # what the masks say is seen when it runs
    tensors = [q, k, v, *(x for _, x in there)]
    return whole("masked", Inputs(words, [int(causal)], [drop], tensors, " ".join([name for name, _ in there])))[0]


def _run(inputs: Inputs) -> Outputs:
    (q, k, v, *_), tables = inputs.tensors, inputs.named()
    padding, pairs, seed = (tables.pop(name, None) for name in ("padding", "pairs", "seed"))
    return _masked(inputs.words, q, k, v, padding, pairs, None, bool(inputs.whole[0]), inputs.floats[0], tables, seed), None


def _shapes(inputs: Inputs) -> Outputs:
    batch, heads, tokens, _ = inputs.tensors[0].shape
    v = inputs.tensors[2]
    return v.new_empty(batch, tokens, heads, v.shape[-1]), None


PASSES["masked"] = Pass(_run, _shapes)
