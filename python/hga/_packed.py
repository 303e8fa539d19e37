"""Packed texts as transformers knows them: a mask as a function of two positions, which holds the number of every token's
text. Looking at that number costs one step a token; asking the function about every pair, as whoever does not know it must,
costs their product."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch

Tensor = torch.Tensor


def _kept(function: Any) -> Dict[str, Any]:
    """The variables that a function inside another one holds, by name."""
    cells = getattr(function, "__closure__", None) or ()
    return dict(zip(function.__code__.co_freevars, (c.cell_contents for c in cells)))


def _made_by(function: Any, maker: Any) -> bool:
    """Is it the function that ``maker`` defines inside itself and returns?"""
    code = getattr(function, "__code__", None)
    return code is not None and code in getattr(getattr(maker, "__code__", None), "co_consts", ())


def packed_documents(mask_function: Any, tokens: int) -> Optional[Tensor]:
    """[samples][tokens]: numbers from 1 on of consecutive causal texts, if the function is the one by which transformers
    keeps such texts apart and nothing else; or None, and then all pairs must be asked for."""
    from transformers import masking_utils as m

    if torch.compiler.is_compiling():
        return None
    if not _made_by(mask_function, m.and_masks):
        return None
    parts = list(_kept(mask_function).get("mask_functions", ()))
    packed = [part for part in parts if _made_by(part, m.packed_sequence_mask_function)]
    others = [part for part in parts if part not in packed]
    if len(packed) != 1 or len(others) != 1:
        return None
    # positions that begin anew in every text, where the release has them
    moved = _made_by(others[0], getattr(m, "remap_positions_for_packed_sequence", None))
    if (_kept(others[0]).get("mask_function") if moved else others[0]) is not m.causal_mask_function:
        return None
    number = _kept(packed[0]).get("packed_sequence_mask")
    if not isinstance(number, torch.Tensor) or number.dim() != 2 or number.shape[1] != tokens:
        return None
    # where positions go up one by one within a text, as they do in runs of equal numbers, positions are causal as tokens are
    return number + 1
