"""FlexAttention's BlockMask as graphs, and graphs as BlockMasks. Masks are evaluated a row of blocks at a time, once."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask

from ._core import refuse, refuse_type
from ._flex_trace import NAMES, Score, Traced, not_offered
from ._graph import Builder
from ._hierarchy import Hierarchy
from ._plans import LEFT, leave
from ._masks import Rows, graph_of_rows

Tensor = torch.Tensor
KEPT = 64  # hierarchies of one mask, for its samples, heads and score_mods


def _all(*conditions: Tensor) -> Tensor:
    found = conditions[0]
    for c in conditions[1:]:
        found = found & c
    return found


class Condition:
    """A traced condition, or several that must all hold."""

    def __init__(self, traced: Traced, parts: Sequence[Tuple[Any, bool]]) -> None:
        self.traced, self.parts = traced, list(parts)
        self.reads = frozenset().union(*(traced.reads(x) for x, _ in parts))

    def rows(self, b: int, h: int, q: Tensor, k: Tensor) -> np.ndarray:
        """[queries][keys] truth values."""
        wanted = [w for _, w in self.parts]

        def holds(*values: Any) -> Tensor:
            given = []
            for x in values:
                x = torch.as_tensor(x)
                if x.dtype != torch.bool:
                    raise refuse_type(f"{self.traced.what} gives {x.dtype}, not truth values")
                given.append(x)
            return _all(*(x if w else ~x for x, w in zip(given, wanted)))

        places = dict(zip(NAMES, (torch.tensor(b), torch.tensor(h), q, k)))
        with torch.no_grad():
            found = self.traced.over([x for x, _ in self.parts], holds, places, "q", "k")
        return found.bool().numpy()


def _blocks_of(counts: Optional[Tensor], indices: Optional[Tensor], b: int, h: int) -> List[List[int]]:
    """Of every row of blocks the columns of blocks, ascending."""
    if counts is None or indices is None:
        return []
    b, h = min(b, counts.shape[0] - 1), min(h, counts.shape[1] - 1)
    return [sorted(row[:n]) for n, row in zip(counts[b, h].tolist(), indices[b, h].tolist())]


class Mask:
    """A BlockMask, or none, over so many queries and keys; keeps the hierarchies made of it."""

    def __init__(self, block_mask: Optional[BlockMask], n_queries: int, n_keys: int) -> None:
        self.n_queries, self.n_keys = n_queries, n_keys
        self.kept: "OrderedDict[Any, Tuple[Hierarchy, List[Any]]]" = OrderedDict()
        self.condition: Optional[Condition] = None
        self.versions: List[Tuple[Tensor, int]] = []
        self.samples = self.heads = 1
        self._blocks = weakref.ref(block_mask) if block_mask is not None else None
        if block_mask is None:
            return
        if block_mask.kv_num_blocks.dim() != 3 or block_mask.kv_num_blocks.device.type != "cpu":
            raise refuse(f"block_mask has kv_num_blocks of shape {tuple(block_mask.kv_num_blocks.shape)} on "
                         f"{block_mask.kv_num_blocks.device}, not [B][H][rows of blocks] on the CPU")  # fmt: skip
        self.samples, self.heads = block_mask.kv_num_blocks.shape[:2]
        traced = Traced(block_mask.mask_mod, "mask_mod", False)
        self.condition = Condition(traced, [(traced.out, True)])
        self.versions = [(c, -1 if c.is_inference() else c._version) for c in traced.constants()]

    def __del__(self) -> None:
        leave([h for h, _ in self.kept.values()])

    def is_current(self) -> bool:
        """Are the captured tensors as they were? Those of torch.inference_mode do not say."""
        return all(not x.is_inference() and x._version == version for x, version in self.versions)

    def check(self, name: str, n: int) -> None:
        """Does it serve n samples, or query heads?"""
        own, letter = (self.samples, "b") if name == "batch" else (self.heads, "h")
        if own not in (1, n):
            raise refuse(f"block_mask has {own} of axis {letter.upper()}, query {n}: one, or as many, are needed")
        if own == 1 < n and self.condition is not None and letter in self.condition.reads:
            raise not_offered(f"mask_mod reads {letter}, but block_mask was made for all of {letter.upper()} at once: give {letter.upper()}={n}")

    def _rows(self, b: int, h: int, more: Optional[Condition]) -> Rows:
        block_mask = self._blocks() if self._blocks is not None else None
        key = torch.arange(self.n_keys)
        if block_mask is None:
            some, full, height, width = [], [], 1, 1
        else:
            height, width = block_mask.BLOCK_SIZE
            some = _blocks_of(block_mask.kv_num_blocks, block_mask.kv_indices, b, h)
            full = _blocks_of(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, b, h)

        def of_blocks(first: int, n: int, seen: np.ndarray) -> None:
            for row in range(first // height, (first + n - 1) // height + 1):
                q0, q1 = max(first, row * height), min(first + n, (row + 1) * height)
                for column in full[row] if row < len(full) else ():
                    seen[q0 - first : q1 - first, column * width : (column + 1) * width] = True
                columns = some[row] if row < len(some) else []
                if columns and self.condition is not None:
                    k = torch.cat([key[c * width : (c + 1) * width] for c in columns])
                    found = self.condition.rows(b, h, torch.arange(q0, q1), k)
                    at = 0
                    for c in columns:
                        size = min(width, self.n_keys - c * width)
                        seen[q0 - first : q1 - first, c * width : c * width + size] = found[:, at : at + size]
                        at += size

        def rows(first: int, n: int) -> np.ndarray:
            seen = np.full((n, self.n_keys), block_mask is None)
            if block_mask is not None:
                of_blocks(first, n, seen)
            if more is not None:
                seen &= more.rows(b, h, torch.arange(first, first + n), key)
            return seen

        return rows

    def hierarchy(self, b: int, h: int, score: Optional[Condition], relative: bool) -> Hierarchy:
        """What query head h of sample b attends over; `score`: what a score_mod masks besides."""
        alive: List[Any] = []
        more = None if score is None else tuple((score.traced.fingerprint(x, alive), wanted) for x, wanted in score.parts)
        reads = score.reads if score is not None else frozenset()
        by_b, by_h = self.samples > 1 or "b" in reads, self.heads > 1 or "h" in reads
        key = (b if by_b else None, h if by_h else None, more, relative)
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key][0]
        if self._blocks is None and score is None:
            found = _everything(self.n_queries, self.n_keys, relative)
        else:
            graph = graph_of_rows(self._rows(b, h, score), self.n_queries, self.n_keys, relative)
            found = next((old for old, _ in self.kept.values() if old.graph == graph), None) or graph.hierarchy()._follows(*LEFT)
        self.kept[key] = found, alive
        while len(self.kept) > max(KEPT, self.samples * self.heads * 2):
            self.kept.popitem(last=False)
        return found


def _everything(n_queries: int, n_keys: int, relative: bool) -> Hierarchy:
    """Every query sees every key."""
    b = Builder()
    first = 0 if n_queries == n_keys else n_queries
    b.level(first + n_keys)
    if first:
        b.tokens(0, n_queries, first, n_keys)
    types = dict(type=n_keys - 1, type_dst=1, type_src=-1) if relative else {}
    b.block(b.relation("edges"), (0, n_queries), (first, n_keys), **types)
    return b.finish().hierarchy()


_MASKS: "weakref.WeakKeyDictionary[BlockMask, Mask]" = weakref.WeakKeyDictionary()
_WITHOUT: "OrderedDict[Tuple[int, int], Mask]" = OrderedDict()


def mask_of(block_mask: Optional[BlockMask], n_queries: int, n_keys: int) -> Mask:
    """The mask of a call, from an earlier one where the BlockMask is the same object."""
    if block_mask is None:
        found = _WITHOUT.pop((n_queries, n_keys), None) or Mask(None, n_queries, n_keys)
        _WITHOUT[n_queries, n_keys] = found
        while len(_WITHOUT) > 16:
            _WITHOUT.popitem(last=False)
        return found
    if not isinstance(block_mask, BlockMask):
        raise refuse_type(f"block_mask is a {type(block_mask).__name__}, not a BlockMask")
    sizes = tuple(int(n) for n in block_mask.seq_lengths)
    if sizes != (n_queries, n_keys):
        raise refuse(f"block_mask is of {sizes[0]} queries and {sizes[1]} keys, not of {n_queries} and {n_keys}")
    known = _MASKS.get(block_mask)
    if known is None or not known.is_current():
        known = _MASKS[block_mask] = Mask(block_mask, n_queries, n_keys)
    return known


# ---- BlockMasks made here ----


def _sizes(block_size: Any) -> Tuple[int, int]:
    height, width = block_size if isinstance(block_size, tuple) else (block_size, block_size)
    if not all(isinstance(n, int) and n > 0 for n in (height, width)):
        raise refuse(f"BLOCK_SIZE is {block_size!r}, not a size or two")
    return height, width


class _Blocks:
    """Which blocks are full, and which partly, found row of blocks by row of blocks."""

    def __init__(self, n_queries: int, n_keys: int, block_size: Any, samples: int = 1, heads: int = 1) -> None:
        self.n_queries, self.n_keys = n_queries, n_keys
        self.height, self.width = _sizes(block_size)
        self.starts = np.arange(0, n_keys, self.width)
        shape = (samples, heads, -(-n_queries // self.height), len(self.starts))
        self.some, self.full = np.zeros(shape, bool), np.zeros(shape, bool)

    def find(self, b: int, h: int, rows: Rows, keep: Optional[Callable[[int, int, np.ndarray], None]] = None) -> None:
        widths = np.minimum(self.width, self.n_keys - self.starts)
        for r in range(self.some.shape[2]):
            first = r * self.height
            n = min(self.height, self.n_queries - first)
            seen = rows(first, n)
            count = np.add.reduceat(seen, self.starts, axis=1, dtype=np.int64).sum(0)
            self.full[b, h, r] = count == self.height * self.width  # short ones at the ends never are, as torch has it
            self.some[b, h, r] = (count > 0) & ~self.full[b, h, r]
            for c in np.flatnonzero(self.some[b, h, r]) if keep is not None else ():
                keep(r, int(c), seen[:, c * self.width : c * self.width + int(widths[c])])  # type: ignore[misc]

    def finish(self, mask_mod: Callable[..., Tensor]) -> BlockMask:
        def ordered(dense: np.ndarray) -> Tuple[Tensor, Tensor]:
            x = torch.from_numpy(dense.astype(np.int32))
            return x.sum(-1).to(torch.int32), torch.argsort(x, dim=-1, descending=True, stable=True).to(torch.int32)

        (n, at), (full_n, full_at) = ordered(self.some), ordered(self.full)
        return BlockMask.from_kv_blocks(n, at, full_n, full_at, (self.height, self.width), mask_mod, (self.n_queries, self.n_keys))


def create_block_mask(mask_mod: Callable[..., Tensor], B: Optional[int], H: Optional[int], Q_LEN: int, KV_LEN: int,
                      BLOCK_SIZE: Any = 128) -> BlockMask:  # fmt: skip
    """torch's create_block_mask on the CPU, a row of blocks at a time: memory grows with the blocks, not with the pairs."""
    traced = Traced(mask_mod, "mask_mod", False)
    condition = Condition(traced, [(traced.out, True)])
    key = torch.arange(KV_LEN)
    samples, heads = (1 if n is None else n for n in (B, H))
    blocks = _Blocks(Q_LEN, KV_LEN, BLOCK_SIZE, samples, heads)
    for b in range(samples):
        for h in range(heads):
            blocks.find(b, h, lambda first, n: condition.rows(b, h, torch.arange(first, first + n), key))
    return blocks.finish(mask_mod)


def block_mask_of(h: Hierarchy, block_size: Any = 128) -> BlockMask:
    """Hierarchy.to_block_mask: rows and columns are tokens, or nodes where a graph has more than tokens."""
    graph = h.graph
    if len(graph.relations) != 1:
        raise not_offered(f"a BlockMask is one relation, the graph has {', '.join(graph.relations)}")
    n = graph.n_nodes
    edges = graph.edges()
    flat = len(graph.level_sizes) == 1
    first_query, n_queries, first_key, n_keys = graph._sides() if flat else (0, n, 0, n)
    q, k = edges[:, 1] - first_query, edges[:, 0] - first_key
    ends = np.searchsorted(q, np.arange(n_queries + 1))
    if len(edges) and ((np.diff(q) == 0) & (np.diff(k) == 0)).any():
        raise not_offered("a pair of nodes has more than one edge: a BlockMask has each once")
    if graph._is_weighted():
        raise not_offered("edges have weights: a BlockMask has none")

    def rows(first: int, n: int) -> np.ndarray:
        seen = np.zeros((n, n_keys), bool)
        at = slice(ends[first], ends[first + n])
        seen[q[at] - first, k[at]] = True
        return seen

    blocks = _Blocks(n_queries, n_keys, block_size)
    patterns: Dict[bytes, int] = {}
    stored: List[np.ndarray] = []
    pattern_of = np.zeros(blocks.some.shape[2:], np.int64)

    def keep(r: int, c: int, seen: np.ndarray) -> None:
        whole = np.zeros((blocks.height, blocks.width), bool)
        whole[: seen.shape[0], : seen.shape[1]] = seen
        number = patterns.setdefault(whole.tobytes(), len(stored))
        if number == len(stored):
            stored.append(whole)
        pattern_of[r, c] = 1 + number

    blocks.find(0, 0, rows, keep)
    # Pattern 0 is empty, the last full; equal partial blocks share one.
    all_ = [np.zeros((blocks.height, blocks.width), bool), *stored, np.ones((blocks.height, blocks.width), bool)]
    pattern_of[blocks.full[0, 0]] = len(all_) - 1
    table, number = torch.from_numpy(np.stack(all_)), torch.from_numpy(pattern_of)
    height, width = blocks.height, blocks.width

    def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        return table[number[q_idx // height, kv_idx // width], q_idx % height, kv_idx % width]

    return blocks.finish(mask_mod)


def seen_by(traced: Traced, score: Score) -> Optional[Condition]:
    """What a score_mod masks by -inf."""
    return Condition(traced, score.seen) if score.seen else None
