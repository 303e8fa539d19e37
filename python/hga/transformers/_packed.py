"""Masks as transformers knows them: a function of two positions, which holds the window of a layer that slides, and the
number of every token's text where texts are packed. Looking at these costs one step a token; asking the function about every
pair, which is all that is left without it, costs their product."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import torch
from transformers import masking_utils

Tensor = torch.Tensor


class Sides(NamedTuple):
    """Whom a token sees within its text: so many tokens before it, so many behind it; None: all."""

    causal: bool
    left: Optional[int] = None
    right: Optional[int] = None


def _captured(function: Any) -> Dict[str, Any]:
    """The variables that a function inside another one holds, by name."""
    cells = getattr(function, "__closure__", None) or ()
    return dict(zip(function.__code__.co_freevars, (c.cell_contents for c in cells)))


def _made_by(function: Any, maker: Any) -> bool:
    """Is it the function that ``maker`` defines inside itself and returns?"""
    code = getattr(function, "__code__", None)
    return code is not None and code in getattr(getattr(maker, "__code__", None), "co_consts", ())


def _known(name: str) -> Any:
    """A function of transformers' masks. Of what another release calls or makes otherwise, all pairs are evaluated."""
    return getattr(masking_utils, name, _known)


def _terms(function: Any) -> List[Any]:
    """The masks of an "and"; the function itself where it is none."""
    return list(_captured(function).get("mask_functions", ())) if _made_by(function, _known("and_masks")) else [function]


def sides_of(mask_function: Any) -> Optional[Sides]:
    """What a layer's mask is, packing aside, if it is causal, both ways, or one of these in a window, and nothing else."""
    if torch.compiler.is_compiling():
        return None
    terms = _terms(mask_function)
    causal = _known("causal_mask_function") in terms
    if not causal and _known("bidirectional_mask_function") not in terms:
        return None
    overlay = _known("sliding_window_overlay" if causal else "sliding_window_bidirectional_overlay")
    windows = [_captured(term).get("sliding_window") for term in terms if _made_by(term, overlay)]
    if len(terms) - len(windows) != 1 or len(windows) > 1:
        return None
    if not windows:
        return Sides(causal)
    size = windows[0]
    if not isinstance(size, int):
        return None
    return Sides(True, size - 1, 0) if causal else Sides(False, size, size)


class Packed(NamedTuple):
    number: Tensor  # [samples][tokens], from 1 on
    sides: Sides


def packed_documents(mask_function: Any, tokens: int) -> Optional[Packed]:
    """Consecutive causal texts, if the function is the one by which transformers separates such texts, perhaps in a
    window, and nothing else; or None, and then all pairs must be evaluated."""
    if torch.compiler.is_compiling():
        return None
    terms = _terms(mask_function)
    packed = [term for term in terms if _made_by(term, _known("packed_sequence_mask_function"))]
    others = [term for term in terms if term not in packed]
    if len(packed) != 1 or len(others) != 1:
        return None
    moved = _made_by(others[0], _known("remap_positions_for_packed_sequence"))  # positions that begin anew in every text
    sides = sides_of(_captured(others[0]).get("mask_function") if moved else others[0])
    if sides is None or not sides.causal:
        return None
    number = _captured(packed[0]).get("packed_sequence_mask")
    if not isinstance(number, torch.Tensor) or number.dim() != 2 or number.shape[1] != tokens:
        return None
    # where positions go up one by one within a text, as they do in runs of equal numbers, positions are causal as tokens are
    return Packed(number + 1, sides)
