"""Memory that large calls would take anew each time: outputs, tapes and gradients stay with their plan until the next."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

LARGE = 4 << 20  # bytes from which the system clears fresh pages one by one, which takes longer than to cache them
MOST_CACHED = 4  # blocks of a size: an output and the gradients of query, key and value
MOST = 8  # blocks in all; those of a size that has not come for longest go first


class _Lease:
    """A block in use: it goes back when the last array on it is gone."""

    def __init__(self, spares: "Spares", block: np.ndarray) -> None:
        self._spares, self._block = spares, block
        self.__array_interface__: Any = block.__array_interface__

    def __del__(self) -> None:
        self._spares._take_back(self._block)


class Spares:
    """Free blocks, by size. Taking one and giving it back are each one step of the interpreter's, so that threads
    need no lock."""

    def __init__(self) -> None:
        self._free: Dict[int, List[np.ndarray]] = {}

    def empty(self, shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
        """Memory that holds anything."""
        return self.maker(shape, dtype)()

    def maker(self, shape: Tuple[int, ...], dtype: Any, cleared: bool = False) -> Callable[[], np.ndarray]:
        """Of arrays that are alike, each new."""
        kind = np.dtype(dtype)
        if math.prod(shape) * kind.itemsize < LARGE:
            return functools.partial(np.zeros if cleared else np.empty, shape, kind)
        return functools.partial(self._array, shape, kind, cleared)

    def _array(self, shape: Tuple[int, ...], kind: "np.dtype[Any]", cleared: bool) -> np.ndarray:
        size = math.prod(shape) * kind.itemsize
        block = self._find(size)
        if block is None:  # fresh pages are clear, and are near the thread that writes them first
            block = (np.zeros if cleared else np.empty)(size, np.uint8)
        elif cleared:
            block.fill(0)
        return np.asarray(_Lease(self, block)).view(kind).reshape(shape)

    def _find(self, size: int) -> Any:
        try:
            return self._free[size].pop()
        except (KeyError, IndexError):
            return None

    def _take_back(self, block: np.ndarray) -> None:
        size = block.size
        free = self._free.pop(size, [])  # the last size is the last one in the table
        if len(free) < MOST_CACHED:
            free.append(block)
        self._free[size] = free
        if self._blocks > MOST:
            self._free.pop(next(iter(self._free)), None)

    @property
    def _blocks(self) -> int:
        return sum(len(free) for free in list(self._free.values()))

    @property
    def bytes(self) -> int:
        """Of the free blocks."""
        return sum(size * len(free) for size, free in list(self._free.items()))
