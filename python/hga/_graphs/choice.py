"""What was chosen by content, the graph of it, and what each chosen block weighs."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import numpy as np

from .._core.arrays import as_floats, is_torch
from .._core.library import check, ffi, lib
from .graph import Graph

COLUMNS = 128  # blocks that are weighed in one pass


class Chosen(NamedTuple):
    """Who chose which blocks, of one sample or of several in a row: row c * query_blocks + i has block[first[r] : first[r + 1]]."""

    how: Any  # hga_routed, filled
    block_tokens: int
    query_block: int
    offsets: np.ndarray
    choosers: int
    key_heads: int  # that they read: a head each, or one for several
    first: np.ndarray
    block: np.ndarray

    @property
    def query_blocks(self) -> int:
        return (len(self.first) - 1) // self.choosers

    def table(self) -> np.ndarray:
        """[choosers][query blocks][slots], -1 after a row's last block."""
        counts = np.diff(self.first)
        table = np.full((len(counts), int(counts.max(initial=0))), -1, np.int32)
        table[np.arange(table.shape[1]) < counts[:, None]] = self.block
        return table.reshape(self.choosers, self.query_blocks, -1)

    def block_and_row(self) -> Tuple[np.ndarray, np.ndarray]:
        """Of every token the block of its key in its sample, and the row of its query."""
        lengths = np.diff(self.offsets)
        within = np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], lengths)
        rows = -(-lengths // self.query_block)
        return within // self.block_tokens, within // self.query_block + np.repeat(np.cumsum(rows) - rows, lengths)

    def graph(self, chooser: Optional[int]) -> Tuple[Any, Any]:
        """The graph and program of one chooser, or (None) of all, whose rows lie behind each other."""
        p, graph, program = self.how, ffi.new("hga_graph **"), ffi.new("hga_program *")
        n = self.query_blocks
        first = self.first if chooser is None else self.first[chooser * n : (chooser + 1) * n + 1]
        p.n_choosers, p.n_key_heads = (self.choosers, self.key_heads) if chooser is None else (1, 1)
        p.choice, p.choice_first = (ffi.cast(t, x.ctypes.data) for t, x in (("int32_t *", self.block), ("hga_pos *", first)))
        offsets = np.ascontiguousarray(self.offsets, np.int32)
        p.n_samples, p.offsets = len(offsets) - 1, ffi.cast("hga_id *", offsets.ctypes.data)
        check(lib.hga_build_routed(p, graph, program))
        return Graph(graph[0]), program


def block_weights(c: Chosen, q: Any, k: Any, axis: int, attend: Callable[..., Any], more: Dict[str, Any], ours: bool) -> Any:
    """The output is linear in values: where a value is 1 in the column of its block, a row of it is what each block weighs. Nothing is
    dropped, so that a row sums to 1. ours: a tensor of torch."""
    block_of, row_of = c.block_and_row()
    n_blocks, kv = int(block_of.max(initial=-1)) + 1, k.shape[axis] if k.ndim > 2 else 1
    heads = q.shape[axis] if q.ndim > 2 else 1
    where = c.table()[np.arange(heads)[:, None] * c.choosers // heads, row_of]  # [heads][tokens][slots]
    q, k = (x.float() if is_torch(x) else as_floats(x, "query or key") for x in (q, k))
    if ours:
        import torch
    outputs = []
    for first in range(0, n_blocks, COLUMNS):
        value = (block_of[:, None] == np.arange(first, min(first + COLUMNS, n_blocks))).astype(np.float32)
        value = value if k.ndim == 2 else np.repeat(np.expand_dims(value, axis), kv, axis)
        output = attend(q, k, torch.from_numpy(value) if ours else value, **more)
        outputs.append(output[None] if output.ndim == 2 else output if axis in (0, -3) else output.swapaxes(0, 1))
    if ours:
        at = torch.from_numpy(np.maximum(where, 0)).long()
        return torch.cat(outputs, -1).gather(-1, at) * torch.from_numpy(where >= 0)
    return np.take_along_axis(np.concatenate(outputs, -1), np.maximum(where, 0), -1) * (where >= 0).astype(np.float32)
