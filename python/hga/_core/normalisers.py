"""From scores to weights, in words: "softmax", "sigmoid", "sigmoid:B", "entmax:ALPHA", as the tool has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Tuple

from .copies import copied
from .library import check, error_detail, ffi, lib, refuse, refuse_type
from .arguments import encoded, shown

if TYPE_CHECKING:
    from .._graphs.hierarchy import Hierarchy


SOFTMAX = "softmax"  # what hierarchies have by themselves as a rule
MOST = 16  # normalisers of a hierarchy that are cached with their plans; the oldest go


def normaliser_of(words: str) -> Tuple[int, float, float]:
    """What the words mean, checked: the library's number, which a program holds with an alpha, and a bias, which a call has."""
    if not isinstance(words, str):
        raise refuse_type(f"normaliser is {shown(words)}, not a text such as 'entmax:1.5'")
    kind, alpha, bias = ffi.new("hga_normaliser *"), ffi.new("double *"), ffi.new("float *")
    if lib.hga_normaliser_named(encoded(words, "normaliser"), kind, alpha, bias):
        raise refuse(f"normaliser {error_detail()}")
    return int(kind[0]), alpha[0], bias[0]


def spelt(normaliser: Optional[str], normalizer: Optional[str]) -> Optional[str]:
    """The one that is given, in either spelling."""
    if normaliser is not None and normalizer is not None:
        raise refuse("normaliser= and normalizer= are one argument: give it once")
    return normalizer if normaliser is None else normaliser


def _are_softmax(h: "Hierarchy") -> bool:
    """Are the weights a softmax, or are there none?"""
    return all(s.normaliser == lib.HGA_NORMALISER_SOFTMAX for s in h._program.stage[0 : h._program.n_stages])


def normalised(h: "Hierarchy", words: Optional[str]) -> "Hierarchy":
    """The same hierarchy with weights made otherwise; h caches it, with its plans. h itself where they are made so, or nothing is said."""
    if words is None or (isinstance(words, str) and words == SOFTMAX and _are_softmax(h)):
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
