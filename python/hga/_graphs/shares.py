"""Numbers of blocks as shares of a call's blocks, ``routed:block=16:k-shares=0.25,1,..``: a number for each chooser, for texts of any
length. Files of ``hga.transformers.calibrate`` become such words."""

from __future__ import annotations

import math
import re
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from .._core.library import refuse

_SHARES = re.compile(r"[\s:]+k[-_]shares=([^\s:]*)")


def shares_in(words: str) -> Tuple[str, Optional[Tuple[float, ...]]]:
    """The words without their shares, and these."""
    found = _SHARES.findall(words)
    if not found:
        return words, None
    if len(found) > 1:
        raise refuse(f"{words}: k-shares is given twice")
    try:
        shares = tuple(map(float, found[0].split(",")))
    except ValueError:
        raise refuse(f"k-shares is {found[0]!r}: numbers with commas between them") from None
    wrong = [s for s in shares if not 0 < s <= 1]
    if wrong:
        raise refuse(f"k-shares: {wrong[0]:g} is not a share: shares are above 0 and at most 1")
    return _SHARES.sub("", words), shares


def tokens_at_once(settings: Mapping[str, Any]) -> int:
    """Tokens that choose together in a call of several."""
    return int(settings["prefill"] if settings["prefill"] > 1 else settings["query_block"])


def fewest(settings: Mapping[str, Any]) -> int:
    """The most blocks that a query block has whatever is chosen: its own, and those that are forced."""
    together, block = tokens_at_once(settings), int(settings["block"])
    own = max(1, together // block) if together % block == 0 or block % together == 0 else (together + block - 2) // block + 1
    return own + int(settings["sinks"]) + int(settings["local"])


def blocks_of(shares: Sequence[float], n: int, settings: Mapping[str, Any]) -> List[int]:
    """The k of each chooser in a call of n tokens: its share of the blocks, and at least what it has anyway. All of them are dense."""
    n_blocks, least = -(-n // int(settings["block"])), fewest(settings)
    return [max(least, math.ceil(s * n_blocks - 1e-9)) for s in shares]
