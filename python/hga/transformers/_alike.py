"""Samples whose tokens are seen alike, and the graphs of rows and of the columns that they see."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Iterable, List, Tuple

import numpy as np
import torch

from .._core.plans import left_to_others
from .._graphs.graph import Builder
from .._graphs.hierarchy import Hierarchy

Tensor = torch.Tensor
Run = Tuple[int, int]  # the first of neighbours, and their number
Block = Tuple[Run, Run, Dict[str, Any]]  # rows, the columns that they see, and the shape of what they see


def runs(of: Any, first: int = 0) -> List[Run]:
    """Neighbours that are true; the first of all is number `first`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], of, [False]]).astype(np.int8)))
    return [(first + int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2])]


def graph_of(n: int, blocks: Iterable[Block], heads: int = 1) -> Hierarchy:
    """Rows see columns: all of them, or those of a shape."""
    b = Builder()
    b.level(heads * n)
    near = b.relation("near")
    for rows, columns, shape in blocks:
        b.block(near, rows, columns, **shape)
    h = b.finish().hierarchy()
    return left_to_others(h if heads == 1 else h.by_head(heads))


class Named:
    """Before a layer's class of transformers: what its own forward() calls its arguments, which differs by release."""

    hga_parameters: Tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        own = next((c.__dict__["forward"] for c in cls.__mro__ if "forward" in c.__dict__ and not issubclass(c, Named)), None)
        cls.hga_parameters = () if own is None else tuple(inspect.signature(own).parameters)[1:]


def each_alike(kinds: Any, run: Callable[[Any, Any], Tensor]) -> Tensor:
    """run(samples, kind) for each row of kinds [samples][tokens] that differs, put together again: samples with padding,
    and more, at the same positions run together."""
    found, group = np.unique(kinds, axis=0, return_inverse=True)
    if len(found) == 1:
        return run(slice(None), found[0])
    samples = [np.flatnonzero(group.reshape(-1) == i) for i in range(len(found))]
    out = torch.cat([run(own, kind) for own, kind in zip(samples, found)])
    return out[torch.from_numpy(np.argsort(np.concatenate(samples)))]
