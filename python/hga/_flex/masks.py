"""FlexAttention's BlockMask as graphs, and graphs as BlockMasks. A mask_mod is read as runs of keys where it can be;
of what is left, pairs are evaluated, in tiles."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, cast

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, noop_mask

from .._core.arguments import shown, whole
from .._core.library import refuse, refuse_type
from .known import Between, between, exactly, truth
from .trace import Traced, not_offered
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from .._graphs.masks import graph_of_runs
from .._core.plans import left_to_others
from .._graphs.runs import Array, Runs

Tensor = torch.Tensor
MOST_CACHED = 64  # hierarchies of one mask, for its samples, heads and score_mods
BYTES_CACHED = 1 << 26  # of its runs, together
TILE = (128, 2048)  # pairs that are evaluated at once
MOST_BLOCKS = 1 << 31  # of a BlockMask's table, which takes 13 bytes for each
MOST_PAIRS = 1 << 26  # of a block whose pattern is cached, a byte for each
_HAVE_LENGTHS = "seq_lengths" in inspect.signature(BlockMask.from_kv_blocks).parameters  # not before torch 2.6


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
            return functools.reduce(operator.and_, (x if w else ~x for x, w in zip(truths, expected)))

        with torch.no_grad():
            return self.traced.over([x for x, _ in self.conditions], holds, (b, h, q, k), "q", "k")

    def fingerprint(self, alive: List[Any]) -> Any:
        return tuple((self.traced.fingerprint(x, alive), expected) for x, expected in self.conditions)

    def within(self, seen: Runs, b: int, h: int) -> Runs:
        """The pairs among some for which it holds."""
        if seen.is_empty():
            return seen
        at = b if "b" in self.reads else 0, h if "h" in self.reads else 0
        found = exactly(seen).joined(operator.and_, self._between(*at, seen.n_queries, seen.n_keys))
        return found.least if found.is_known else self._evaluated(found, b, h)

    def _between(self, *at: int) -> Between:
        last, found = self._last
        if found is None or last != at:
            found = between(self.traced, self.conditions, *at)
            self._last = at, found
        return found

    def _evaluated(self, found: Between, b: int, h: int) -> Runs:
        """Of tiles that are not known."""
        bands, n = [], found.most.n_queries
        for row, tiles in enumerate(found.most.in_blocks(*TILE) != found.least.in_blocks(*TILE)):
            q = torch.arange(row * TILE[0], min((row + 1) * TILE[0], n))
            bands.append(self._tiles(np.flatnonzero(tiles), b, h, q, found.most.n_keys))
        return found.least | (found.most & Runs.stacked(bands))

    def _tiles(self, columns: Array, b: int, h: int, q: Tensor, n_keys: int) -> Runs:
        """Some queries, evaluated with the keys of some tiles."""
        if not len(columns):
            return Runs.whole(len(q), n_keys, False)
        low, high = int(columns[0]) * TILE[1], min((int(columns[-1]) + 1) * TILE[1], n_keys)
        seen = np.zeros((len(q), high - low), bool)
        for first in (columns * TILE[1]).tolist():
            end = min(first + TILE[1], n_keys)
            seen[:, first - low : end - low] = self.pairs(b, h, q, torch.arange(first, end)).numpy()
        return Runs.of_pairs(seen, low, n_keys)


def of_function(mask_mod: Callable[..., Tensor]) -> Optional[Condition]:
    """None: everything is seen."""
    if mask_mod is noop_mask:
        return None
    traced = Traced(mask_mod, "mask_mod", False)
    return Condition(traced, [(traced.out, True)])


def _sees(counts: Tensor, indices: Tensor, columns: int, name: str) -> Array:
    """[samples][heads][rows of blocks][columns of blocks]: which blocks are listed."""
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
        self.alike: Dict[bytes, int] = {}  # samples and heads that have the same blocks
        self.condition = condition
        self.versions: List[Tuple[Tensor, int]] = []
        self.height, self.width = max(n_queries, 1), max(n_keys, 1)
        self.full = np.ones((1, 1, 1, 1), bool)
        self.some = ~self.full
        if block_mask is not None:
            self._take(block_mask)
        self.samples, self.heads = self.some.shape[:2]

    def _take(self, block_mask: BlockMask) -> None:
        number = block_mask.kv_num_blocks
        if number.dim() != 3 or number.device.type != "cpu":
            raise refuse(f"block_mask has kv_num_blocks of shape {tuple(number.shape)} on {number.device}, not [B][H][rows of "
                         "blocks] on the CPU")  # fmt: skip
        self.height, self.width = (int(n) for n in block_mask.BLOCK_SIZE)
        columns = -(-self.n_keys // self.width)
        listed = [number, block_mask.kv_indices]
        self.some = _sees(number, block_mask.kv_indices, columns, "kv_indices")
        self.full = np.zeros_like(self.some)
        if block_mask.full_kv_num_blocks is not None and block_mask.full_kv_indices is not None:
            listed += block_mask.full_kv_num_blocks, block_mask.full_kv_indices
            self.full = _sees(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, columns, "full_kv_indices")
            self.some &= ~self.full
        self.condition = self.condition or of_function(block_mask.mask_mod)
        tensors = listed + (self.condition.traced.constants() if self.condition is not None else [])
        self.versions = [(x, -1 if x.is_inference() else x._version) for x in tensors]

    def is_current(self) -> bool:
        """Are the tensors as they were? Those of torch.inference_mode do not say."""
        return all(not x.is_inference() and x._version == version for x, version in self.versions)

    def check(self, samples: int, heads: int) -> None:
        """Does it serve so many samples, and query heads?"""
        for own, n, axis in ((self.samples, samples, "B"), (self.heads, heads, "H")):
            if own not in (1, n):
                raise refuse(f"block_mask has {own} of axis {axis}, query {n}: one, or as many, are needed")
            if own == 1 < n and self.condition is not None and axis.lower() in self.condition.reads:
                raise not_offered(f"mask_mod reads {axis.lower()}, but block_mask was made for all of {axis} at once: give {axis}={n}")

    def _key(self, b: int, h: int) -> Tuple[Any, ...]:
        """Samples and heads with one key see the same."""
        reads = self.condition.reads if self.condition is not None else frozenset()
        blocks = b"".join(np.packbits(x[self._at(b, h)]).tobytes() for x in (self.some, self.full))
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
        if found is not None:
            return found
        sizes = self.height, self.width, self.n_queries, self.n_keys
        some, full = (Runs.of_blocks(x[self._at(b, h)], *sizes) for x in (self.some, self.full))
        return self.store(b, h, full | (some if self.condition is None else self.condition.within(some, b, h)))

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


_FORGETS = "; before torch 2.6 torch's create_block_mask forgets BLOCK_SIZE, and hga.torch.create_block_mask keeps it"
_MASKS: "weakref.WeakKeyDictionary[BlockMask, Mask]" = weakref.WeakKeyDictionary()


@functools.lru_cache(maxsize=16)
def _of_all_pairs(n_queries: int, n_keys: int) -> Mask:
    return Mask(None, n_queries, n_keys)


def mask_of(block_mask: Optional[BlockMask], n_queries: int, n_keys: int) -> Mask:
    """The mask of a call, from an earlier one where the BlockMask is the same object."""
    if block_mask is None:
        return _of_all_pairs(n_queries, n_keys)
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


def _blocks(n_queries: int, n_keys: int, block_size: Any, samples: int = 1, heads: int = 1) -> Tuple[int, int, Tuple[int, ...]]:
    """Rows and columns of a block, and [samples][heads][rows of blocks][columns of blocks]."""
    height, width = block_size if isinstance(block_size, tuple) and len(block_size) == 2 else (block_size, block_size)
    height, width = whole(height, "BLOCK_SIZE", least=1), whole(width, "BLOCK_SIZE", least=1)
    shape = (samples, heads, -(-n_queries // height), -(-n_keys // width))
    if math.prod(shape) > MOST_BLOCKS:
        raise refuse(f"a BlockMask of {' x '.join(map(str, shape))} blocks is more than {MOST_BLOCKS}: a larger BLOCK_SIZE has fewer")
    return height, width, shape


def _of_blocks(some: Array, full: Array, size: Tuple[int, int], mask_mod: Callable[..., Tensor], lengths: Tuple[int, int]) -> BlockMask:
    """A BlockMask of the blocks that are seen partly, and whole."""
    lists: List[Tensor] = []
    for seen in (some, full):
        x = torch.from_numpy(seen.astype(np.int32))
        lists += x.sum(-1).to(torch.int32), torch.argsort(x, dim=-1, descending=True, stable=True).to(torch.int32)
    make: Any = BlockMask.from_kv_blocks
    if _HAVE_LENGTHS:
        return cast(BlockMask, make(*lists, size, mask_mod, lengths))
    made: BlockMask = make(*lists, size, mask_mod)
    made.seq_lengths = lengths
    return made


def _require_cpu(device: Any) -> None:
    try:
        if device is None or (not isinstance(device, int) and torch.device(device).type == "cpu"):
            return
    except (RuntimeError, TypeError):
        pass
    raise refuse(f"device is {shown(device)}, not 'cpu': hga computes on the CPU")


def create_block_mask(mask_mod: Callable[..., Tensor], B: Optional[int], H: Optional[int], Q_LEN: int, KV_LEN: int,
                      device: Optional[Union[str, torch.device]] = None, BLOCK_SIZE: Union[int, Tuple[int, int]] = 128) -> BlockMask:  # fmt: skip
    """torch's create_block_mask on the CPU, which is the only ``device``. A mask_mod of documents, causal, of a window, a prefix
    or sinks, or of several of these with & and |, is read without evaluating pairs, and others are evaluated in tiles; once for
    all heads and samples where it reads neither."""
    _require_cpu(device)
    if torch.compiler.is_compiling():
        raise refuse("create_block_mask: inside torch.compile and torch.export a mask is not looked at: make it outside, or by torch's own create_block_mask")
    condition = of_function(mask_mod)
    samples, heads = (1 if n is None else whole(n, what) for n, what in ((B, "B"), (H, "H")))
    Q_LEN, KV_LEN = whole(Q_LEN, "Q_LEN"), whole(KV_LEN, "KV_LEN")
    height, width, shape = _blocks(Q_LEN, KV_LEN, BLOCK_SIZE, samples, heads)
    some, full = np.zeros(shape, bool), np.zeros(shape, bool)
    everything, found = Runs.whole(Q_LEN, KV_LEN, True), {}
    captured = condition.traced.constants() if condition is not None else []
    versions = [x._version for x in captured if not x.is_inference()]
    reads = condition.reads if condition is not None else frozenset()
    for b, h in np.ndindex(samples if "b" in reads else min(samples, 1), heads if "h" in reads else min(heads, 1)):
        found[b, h] = everything if condition is None else condition.within(everything, b, h)
        at = (b if "b" in reads else slice(None), h if "h" in reads else slice(None))
        count = found[b, h].in_blocks(height, width)
        full[at] = count == height * width  # short ones at the ends never are, as torch has it
        some[at] = (count > 0) & ~full[at]
    made = _of_blocks(some, full, (height, width), mask_mod, (Q_LEN, KV_LEN))
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

    height, width, shape = _blocks(n_queries, n_keys, block_size)
    if height * width > MOST_PAIRS:
        raise refuse(f"BLOCK_SIZE is {height} x {width}: a block may have at most {MOST_PAIRS} pairs")
    pattern = np.zeros(shape[2:], np.int64)
    patterns = {bytes(height * width): 0}  # equal blocks share one
    for r, first in enumerate(range(0, n_queries, height)):
        at = slice(ends[first], ends[min(first + height, n_queries)])
        columns, own = np.unique(k[at] // width, return_inverse=True)
        seen = np.zeros((len(columns), height, width), bool)
        seen[own, q[at] - first, k[at] % width] = True
        pattern[r, columns] = [patterns.setdefault(x.tobytes(), len(patterns)) for x in seen]
    number = torch.from_numpy(pattern)
    table = torch.from_numpy(np.frombuffer(b"".join(patterns), bool).reshape(-1, height, width).copy())
    full = pattern == patterns.get(b"\1" * (height * width), -1)
    some = (pattern > 0) & ~full

    def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        return table[number[q_idx // height, kv_idx // width], q_idx % height, kv_idx % width]

    return _of_blocks(some[None, None], full[None, None], (height, width), mask_mod, (n_queries, n_keys))
