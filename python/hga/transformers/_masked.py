"""Batches whose samples have padding, and more, at positions of their own: samples that are alike run together."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import numpy as np
import torch

from .._graphs.hierarchy import Hierarchy
from ..torch._one_pass import drawn

GRAPHS_CACHED = 16  # of each kind of layer


def runs(of: Any, first: int = 0) -> List[Tuple[int, int]]:
    """[first, end) of neighbours that are true; the first of all is number `first`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], of, [False]]).astype(np.int8))) + first
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


def each_alike(kinds: Any, run: Callable[[Any, Any], torch.Tensor]) -> torch.Tensor:
    """run(samples, kind) for each row of kinds [samples][tokens] that differs, put together again."""
    found, group = np.unique(kinds, axis=0, return_inverse=True)
    if len(found) == 1:
        return run(slice(None), found[0])
    samples = [np.flatnonzero(group.reshape(-1) == i) for i in range(len(found))]
    out = torch.cat([run(own, kind) for own, kind in zip(samples, found)])
    return out[torch.from_numpy(np.argsort(np.concatenate(samples)))]


def attended(h: Hierarchy, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float) -> torch.Tensor:
    """[batch, tokens, heads, dim] in and out; dropout of weights is drawn from torch's generator."""
    y: torch.Tensor = h.attention(q, k, v, layout="bnhd", dropout=dropout, seed=drawn(dropout))
    return y
