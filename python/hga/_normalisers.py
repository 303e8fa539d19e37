"""From scores to weights, in words: "softmax", "sigmoid", "sigmoid:B", "entmax:ALPHA", as the tool has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Optional

from ._copies import copied
from ._core import check, lib, number, refuse, refuse_type, shown

if TYPE_CHECKING:
    from ._hierarchy import Hierarchy


MOST = 16  # normalisers of a hierarchy that are kept with their plans; the oldest go


class Normaliser(NamedTuple):
    """What the words mean: the library's number, which a program holds with an alpha, and a bias, which a call brings."""

    kind: int
    alpha: float
    bias: float


def normaliser_of(words: str) -> Normaliser:
    """What is meant, checked."""
    if not isinstance(words, str):
        raise refuse_type(f"normaliser is {shown(words)}, not a text such as 'entmax:1.5'")
    name, colon, text = words.partition(":")
    if words == "softmax":
        return Normaliser(int(lib.HGA_NORMALISER_SOFTMAX), 0.0, 0.0)
    if name not in ("sigmoid", "entmax") or bool(colon) != bool(text) or (name == "entmax" and not text):
        raise refuse(f"normaliser {words!r} is not one of: softmax sigmoid sigmoid:B entmax:ALPHA")
    x = number(text, f"the number of normaliser {words!r}") if text else 0.0
    if name == "sigmoid":
        if not math.isfinite(x) or abs(x) > 3.4028234e38:
            raise refuse(f"normaliser {words!r}: {text} is no finite number of float32")
        return Normaliser(int(lib.HGA_NORMALISER_SIGMOID), 0.0, x)
    if x != 1 and not 1.05 <= x <= 2:
        raise refuse(f"normaliser {words!r}: entmax's alpha {text} is not 1 and not from 1.05 to 2")
    return Normaliser(int(lib.HGA_NORMALISER_ENTMAX), x, 0.0)


def spelt(normaliser: Optional[str], normalizer: Optional[str]) -> Optional[str]:
    """The one that is given, in either spelling."""
    if normaliser is not None and normalizer is not None:
        raise refuse("normaliser= and normalizer= are one argument: give it once")
    return normalizer if normaliser is None else normaliser


def normalised(h: "Hierarchy", words: Optional[str]) -> "Hierarchy":
    """The same hierarchy with weights made otherwise; h keeps it, with its plans. None: h itself."""
    if words is None:
        return h
    found = h._normalised.get(words) if isinstance(words, str) else None
    if found is None:
        kind, alpha, bias = normaliser_of(words)
        found = copied(h)
        found._recipe, found._own = None, {**h._own, "normaliser_bias": bias} if bias else h._own
        check(lib.hga_program_normalise(found._program, kind, alpha))
        found = h._normalised.setdefault(words, found)
        while len(h._normalised) > MOST:
            h._normalised.pop(next(iter(h._normalised)), None)
    found._threads = h._threads
    return found
