"""FlexAttention's BlockMask as graphs, and graphs as BlockMasks. A mask_mod is read as runs of keys where it can be;
of what is left, pairs are evaluated, in tiles."""

from __future__ import annotations

import inspect
import math
import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, cast

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, noop_mask

from .._core.arguments import whole
from .._core.values import refuse, refuse_type, shown
from .known import Between, between, exactly, truth
from .trace import NAMES, Score, Traced, not_offered
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from .._graphs.masks import Rows, graph_of_runs
from .._core.plans import left_to_others
from .._graphs.runs import Array, Runs

Tensor = torch.Tensor
MOST_CACHED = 64  # hierarchies of one mask, for its samples, heads and score_mods
BYTES_CACHED = 1 << 26  # of its runs, together
TILE = (128, 2048)  # pairs that are evaluated at once
MOST_BLOCKS = 1 << 31  # of a BlockMask's table, which takes 13 bytes for each
MOST_PAIRS = 1 << 26  # of a block whose pattern is cached, a byte for each
_HAVE_LENGTHS = "seq_lengths" in inspect.signature(BlockMask.from_kv_blocks).parameters  # not before torch 2.6


def _all(*conditions: Tensor) -> Tensor:
    found = conditions[0]
    for c in conditions[1:]:
        found = found & c
    return found


class Condition:
    """A traced condition, or several that must all hold."""

    def __init__(self, traced: Traced, conditions: Sequence[Tuple[Any, bool]]) -> None:
        self.traced, self.conditions = traced, list(conditions)
        self.reads = frozenset().union(*(traced.reads(x) for x, _ in conditions))
        self._last: Tuple[Any, Optional[Between]] = None, None  # heads often ask for the same, one after the other

    def pairs(self, b: int, h: int, q: Tensor, k: Tensor) -> Tensor:
        """[queries][keys] truth values."""
        expected = [w for _, w in self.conditions]

        def holds(*values: Any) -> Tensor:
            truths = [truth(x, self.traced.what) for x in values]
            return _all(*(x if w else ~x for x, w in zip(truths, expected)))

        indices = dict(zip(NAMES, (torch.tensor(b), torch.tensor(h), q, k)))
        with torch.no_grad():
            return self.traced.over([x for x, _ in self.conditions], holds, indices, "q", "k")

    def fingerprint(self, alive: List[Any]) -> Any:
        return tuple((self.traced.fingerprint(x, alive), expected) for x, expected in self.conditions)

    def within(self, seen: Runs, b: int, h: int) -> Runs:
        """The pairs among some for which it holds."""
        if seen.is_empty():
            return seen
        at = b if "b" in self.reads else 0, h if "h" in self.reads else 0
        found = exactly(seen) & self._between(*at, seen.n_queries, seen.n_keys)
        return found.least if found.is_known else self._evaluated(found, b, h)

    def _between(self, *at: int) -> Between:
        last, found = self._last
        if found is None or last != at:
            found = between(self.traced, self.conditions, *at)
            self._last = at, found
        return found

    def _evaluated(self, found: Between, b: int, h: int) -> Runs:
        unknown = found.most & ~found.least
        tiles = unknown.in_blocks(*TILE) > 0
        bands = []
        for row, first in enumerate(range(0, unknown.n_queries, TILE[0])):
            n = min(TILE[0], unknown.n_queries - first)
            least = found.least.rows(first, n)
            columns = np.flatnonzero(tiles[row])
            if len(columns):
                evaluated = self._tiles(columns, b, h, torch.arange(first, first + n), unknown.n_keys)
                least = least | (found.most.rows(first, n) & evaluated)
            bands.append(least)
        return Runs.stacked(bands)

    def _tiles(self, columns: Array, b: int, h: int, q: Tensor, n_keys: int) -> Runs:
        """Some queries, evaluated with the keys of some tiles."""
        low, high = int(columns[0]) * TILE[1], min((int(columns[-1]) + 1) * TILE[1], n_keys)
        seen = torch.zeros(len(q), high - low, dtype=torch.bool)
        for c in columns.tolist():
            k = torch.arange(c * TILE[1], min((c + 1) * TILE[1], n_keys))
            seen[:, int(k[0]) - low : int(k[-1]) + 1 - low] = self.pairs(b, h, q, k)
        return Runs.of_pairs(seen, low, n_keys)


def of_function(mask_mod: Any) -> Optional[Condition]:
    """None: everything is seen."""
    if mask_mod is noop_mask:
        return None
    traced = Traced(mask_mod, "mask_mod", False)
    return Condition(traced, [(traced.out, True)])


def _sees(counts: Optional[Tensor], indices: Optional[Tensor], columns: int, name: str) -> Optional[Array]:
    """[samples][heads][rows of blocks][columns of blocks]: which blocks are listed."""
    if counts is None or indices is None:
        return None
    listed = torch.arange(indices.shape[-1]) < counts[..., None]
    at = indices[listed].long()
    if bool(((at < 0) | (at >= columns)).any()):
        raise refuse(f"block_mask.{name} lists block {int(at[(at < 0) | (at >= columns)][0])} of {columns}")
    found = torch.zeros(*counts.shape, columns, dtype=torch.bool)
    found[(*listed.nonzero(as_tuple=True)[:3], at)] = True
    return found.numpy()


class Mask:
    """A BlockMask, or none, over so many queries and keys; caches the hierarchies made of it."""

    def __init__(self, block_mask: Optional[BlockMask], n_queries: int, n_keys: int,
                 condition: Optional[Condition] = None) -> None:  # fmt: skip
        self.n_queries, self.n_keys = n_queries, n_keys
        self.cache: "OrderedDict[Any, Tuple[Hierarchy, List[Any]]]" = OrderedDict()
        self.runs: "OrderedDict[Any, Runs]" = OrderedDict()
        self.condition = condition
        self.versions: List[Tuple[Tensor, int]] = []
        self.samples = self.heads = 1
        self.some: Optional[Array] = None
        self.full: Optional[Array] = None
        self.alike: Dict[bytes, int] = {}  # samples and heads that have the same blocks
        if block_mask is not None:
            self._take(block_mask)

    def _take(self, block_mask: BlockMask) -> None:
        number = block_mask.kv_num_blocks
        if number.dim() != 3 or number.device.type != "cpu":
            raise refuse(f"block_mask has kv_num_blocks of shape {tuple(number.shape)} on {number.device}, not [B][H][rows of "
                         "blocks] on the CPU")  # fmt: skip
        self.samples, self.heads = number.shape[:2]
        self.height, self.width = (int(n) for n in block_mask.BLOCK_SIZE)
        columns = -(-self.n_keys // self.width)
        self.some = _sees(number, block_mask.kv_indices, columns, "kv_indices")
        self.full = _sees(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, columns, "full_kv_indices")
        self.condition = self.condition or of_function(block_mask.mask_mod)
        listed = (number, block_mask.kv_indices, block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
        captured = self.condition.traced.constants() if self.condition is not None else []
        tensors = [x for x in listed if x is not None] + captured
        self.versions = [(x, -1 if x.is_inference() else x._version) for x in tensors]

    def is_current(self) -> bool:
        """Are the tensors as they were? Those of torch.inference_mode do not say."""
        return all(not x.is_inference() and x._version == version for x, version in self.versions)

    def check(self, name: str, n: int) -> None:
        """Does it serve n samples, or query heads?"""
        own, letter = (self.samples, "b") if name == "batch" else (self.heads, "h")
        if own not in (1, n):
            raise refuse(f"block_mask has {own} of axis {letter.upper()}, query {n}: one, or as many, are needed")
        if own == 1 < n and self.condition is not None and letter in self.condition.reads:
            raise not_offered(f"mask_mod reads {letter}, but block_mask was made for all of {letter.upper()} at once: give {letter.upper()}={n}")

    def _key(self, b: int, h: int) -> Tuple[Any, ...]:
        """Samples and heads with one key see the same."""
        reads = self.condition.reads if self.condition is not None else frozenset()
        blocks = b"".join(np.packbits(x[self._at(b, h)]).tobytes() for x in (self.some, self.full) if x is not None)
        return self.alike.setdefault(blocks, len(self.alike)), b if "b" in reads else 0, h if "h" in reads else 0

    def _at(self, b: int, h: int) -> Tuple[int, int]:
        return min(b, self.samples - 1), min(h, self.heads - 1)

    def store(self, b: int, h: int, runs: Runs) -> Runs:
        """What a head is known to see, score_mods aside."""
        self.runs[self._key(b, h)] = runs
        while len(self.runs) > 1 and sum(x.nbytes for x in self.runs.values()) > BYTES_CACHED:
            self.runs.popitem(last=False)
        return runs

    def _seen(self, b: int, h: int) -> Runs:
        """What query head h of sample b sees where no score_mod masks."""
        found = self.runs.get(self._key(b, h))
        return found if found is not None else self.store(b, h, self._found(b, h))

    def _found(self, b: int, h: int) -> Runs:
        if self.some is None:
            return Runs.whole(self.n_queries, self.n_keys, True)
        some, full = (self._blocks(x, b, h) for x in (self.some, self.full))
        some = some & ~full
        return full | (some if self.condition is None else self.condition.within(some, b, h))

    def _blocks(self, seen: Optional[Array], b: int, h: int) -> Runs:
        if seen is None:
            return Runs.whole(self.n_queries, self.n_keys, False)
        return Runs.of_blocks(seen[self._at(b, h)], self.height, self.width, self.n_queries, self.n_keys)

    def hierarchy(self, b: int, h: int, score: Optional[Condition], relative: bool) -> Hierarchy:
        """What query head h of sample b attends over; `score`: what a score_mod masks besides."""
        alive: List[Any] = []
        more = score.fingerprint(alive) if score is not None else None
        reads = score.reads if score is not None else frozenset()
        by_b, by_h = self.samples > 1 or "b" in reads, self.heads > 1 or "h" in reads
        key = (b if by_b else None, h if by_h else None, more, relative)
        if key in self.cache:
            self.cache.move_to_end(key)
            return self.cache[key][0]
        seen = self._seen(b, h)
        found = _hierarchy_of(seen if score is None else score.within(seen, b, h), relative)
        self.cache[key] = found, alive
        while len(self.cache) > max(MOST_CACHED, self.samples * self.heads * 2):
            self.cache.popitem(last=False)
        return found


_HIERARCHIES: "weakref.WeakValueDictionary[Tuple[bytes, bool], Hierarchy]" = weakref.WeakValueDictionary()


def _hierarchy_of(seen: Runs, relative: bool) -> Hierarchy:
    """One for all masks that see the same; it takes over the plans of those that no mask has any more."""
    seen = seen.joined()
    key = seen.name(), relative
    found = _HIERARCHIES.get(key)
    return found if found is not None else _HIERARCHIES.setdefault(key, left_to_others(Graph(graph_of_runs(seen, relative)).hierarchy()))


def _lengths_of(block_mask: BlockMask, n_queries: int, n_keys: int) -> Tuple[int, int]:
    """Queries and keys that it is of. Torch before 2.6 knows them in whole blocks, and takes whatever ends in the last ones."""
    if hasattr(block_mask, "seq_lengths"):
        return int(block_mask.seq_lengths[0]), int(block_mask.seq_lengths[1])
    most = block_mask.shape[-2:]
    queries, keys = (n if -(-n // size) * size == end else end for n, size, end in zip((n_queries, n_keys), block_mask.BLOCK_SIZE, most))
    return queries, keys


def _block_mask_of(blocks: Sequence[Any], size: Tuple[int, int], mask_mod: Callable[..., Tensor], lengths: Tuple[int, int]) -> BlockMask:
    make: Any = BlockMask.from_kv_blocks
    if _HAVE_LENGTHS:
        return cast(BlockMask, make(*blocks, size, mask_mod, lengths))
    made: BlockMask = make(*blocks, size, mask_mod)
    made.seq_lengths = lengths
    return made


_FORGETS = "; before torch 2.6 torch's create_block_mask forgets BLOCK_SIZE, and hga.torch.create_block_mask keeps it"
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
    sizes = _lengths_of(block_mask, n_queries, n_keys)
    if sizes != (n_queries, n_keys):
        forgot = "" if hasattr(block_mask, "seq_lengths") else _FORGETS
        raise refuse(f"block_mask is of {sizes[0]} queries and {sizes[1]} keys, not of {n_queries} and {n_keys}{forgot}")
    known = _MASKS.get(block_mask)
    if known is None or (known.n_queries, known.n_keys) != sizes or not known.is_current():
        known = _MASKS[block_mask] = Mask(block_mask, n_queries, n_keys)
    return known


# ---- BlockMasks made here ----


def _sizes(block_size: Any) -> Tuple[int, int]:
    height, width = block_size if isinstance(block_size, tuple) and len(block_size) == 2 else (block_size, block_size)
    return whole(height, "BLOCK_SIZE", least=1), whole(width, "BLOCK_SIZE", least=1)


class _Blocks:
    """Which blocks are full, and which partly."""

    def __init__(self, n_queries: int, n_keys: int, block_size: Any, samples: int = 1, heads: int = 1) -> None:
        self.n_queries, self.n_keys = n_queries, n_keys
        self.height, self.width = _sizes(block_size)
        shape = (samples, heads, -(-n_queries // self.height), -(-n_keys // self.width))
        if math.prod(shape) > MOST_BLOCKS:
            raise refuse(f"a BlockMask of {' x '.join(map(str, shape))} blocks is more than {MOST_BLOCKS}: a larger BLOCK_SIZE has fewer")
        self.some, self.full = np.zeros(shape, bool), np.zeros(shape, bool)

    def tell(self, at: Any, count: Array) -> None:
        """How many pairs of some blocks are seen."""
        self.full[at] = count == self.height * self.width  # short ones at the ends never are, as torch has it
        self.some[at] = (count > 0) & ~self.full[at]

    def find(self, rows: Rows, store: Callable[[int, int, Array], None]) -> None:
        """Row of blocks by row of blocks, of one sample and head."""
        starts = np.arange(0, self.n_keys, self.width)
        for r, first in enumerate(range(0, self.n_queries, self.height)):
            seen = rows(first, min(self.height, self.n_queries - first))
            self.tell((0, 0, r), np.add.reduceat(seen, starts, axis=1, dtype=np.int64).sum(0))
            for c in np.flatnonzero(self.some[0, 0, r]).tolist():
                store(r, c, seen[:, c * self.width : (c + 1) * self.width])

    def finish(self, mask_mod: Callable[..., Tensor]) -> BlockMask:
        def ordered(dense: np.ndarray) -> Tuple[Tensor, Tensor]:
            x = torch.from_numpy(dense.astype(np.int32))
            return x.sum(-1).to(torch.int32), torch.argsort(x, dim=-1, descending=True, stable=True).to(torch.int32)

        (n, at), (full_n, full_at) = ordered(self.some), ordered(self.full)
        size, lengths = (self.height, self.width), (self.n_queries, self.n_keys)
        return _block_mask_of((n, at, full_n, full_at), size, mask_mod, lengths)


def _require_cpu(device: Any) -> None:
    try:
        if device is None or (not isinstance(device, int) and torch.device(device).type == "cpu"):
            return
    except (RuntimeError, TypeError):
        pass
    raise refuse(f"device is {shown(device)}, not 'cpu': hga computes on the CPU")


def create_block_mask(mask_mod: Callable[..., Tensor], B: Optional[int], H: Optional[int], Q_LEN: int, KV_LEN: int,
                      device: Any = None, BLOCK_SIZE: Any = 128) -> BlockMask:  # fmt: skip
    """torch's create_block_mask on the CPU, which is the only ``device``. A mask_mod of documents, causal, of a window, a prefix or sinks, or of several
    of these with & and |, is read without evaluating pairs, and others are evaluated in tiles; once for all heads and samples
    where it reads neither."""
    _require_cpu(device)
    if torch.compiler.is_compiling():
        raise refuse("create_block_mask: inside torch.compile and torch.export a mask is not looked at: make it outside, or by torch's own create_block_mask")
    condition = of_function(mask_mod)
    samples, heads = (1 if n is None else whole(n, what) for n, what in ((B, "B"), (H, "H")))
    Q_LEN, KV_LEN = whole(Q_LEN, "Q_LEN"), whole(KV_LEN, "KV_LEN")
    blocks = _Blocks(Q_LEN, KV_LEN, BLOCK_SIZE, samples, heads)
    everything, found = Runs.whole(Q_LEN, KV_LEN, True), {}
    captured = condition.traced.constants() if condition is not None else []
    versions = [x._version for x in captured if not x.is_inference()]
    reads = condition.reads if condition is not None else frozenset()
    for b, h in np.ndindex(samples if "b" in reads else min(samples, 1), heads if "h" in reads else min(heads, 1)):
        found[b, h] = everything if condition is None else condition.within(everything, b, h)
        at = (b if "b" in reads else slice(None), h if "h" in reads else slice(None))
        blocks.tell(at, found[b, h].in_blocks(blocks.height, blocks.width))
    made = blocks.finish(mask_mod)
    own = Mask(made, Q_LEN, KV_LEN, condition)
    if versions == [x._version for x in captured if not x.is_inference()]:
        _MASKS[made] = own
        for at, runs in found.items():
            own.store(*at, runs)
    return made


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
    if blocks.height * blocks.width > MOST_PAIRS:
        raise refuse(f"BLOCK_SIZE is {blocks.height} x {blocks.width}: a block may have at most {MOST_PAIRS} pairs")
    patterns: Dict[bytes, int] = {}
    stored: List[np.ndarray] = []
    pattern_of = np.zeros(blocks.some.shape[2:], np.int64)

    def store(r: int, c: int, seen: np.ndarray) -> None:
        filled = np.zeros((blocks.height, blocks.width), bool)
        filled[: seen.shape[0], : seen.shape[1]] = seen
        number = patterns.setdefault(filled.tobytes(), len(stored))
        if number == len(stored):
            stored.append(filled)
        pattern_of[r, c] = 1 + number

    blocks.find(rows, store)
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
