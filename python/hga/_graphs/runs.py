"""Masks as runs: which intervals of keys a query sees, and which neighbouring queries see the same. Unions and
intersections of them cost a step a run, where truth values cost one a pair."""

from __future__ import annotations

import hashlib
from typing import Any, Optional, Sequence, Tuple

import numpy as np

Array = np.ndarray


def spread(counts: Array) -> Tuple[Array, Array]:
    """Of concatenated lists: each entry's list, and its offset there."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - (np.cumsum(counts) - counts)[of]


def changes(*values: Array) -> Array:
    """Where a list begins, where one of its values differs from the one before, and its end."""
    n = len(values[0])
    differs = np.ones(n, bool)
    differs[1:] = False
    for x in values:
        differs[1:] |= x[1:] != x[:-1]
    return np.append(np.flatnonzero(differs), n)


class Runs:
    """Queries row[i] .. row[i + 1] see keys first[j] .. end[j] of every j from ptr[i] to ptr[i + 1], in order; no two touch,
    and none is empty."""

    def __init__(self, n_keys: int, row: Array, ptr: Array, first: Array, end: Array) -> None:
        self.n_keys, self.row, self.ptr, self.first, self.end = n_keys, row, ptr, first, end

    # ---- made of what is known otherwise ----

    @staticmethod
    def of(n_keys: int, row: Array, first: Array, end: Array, group: Optional[Array] = None) -> "Runs":
        """Run j, cut to the keys that there are, is of group[j], which does not go down: of group j where nothing is told."""
        group = np.arange(len(row) - 1) if group is None else group
        first, end = np.maximum(first, 0), np.minimum(end, n_keys)
        nonempty = end > first
        if not nonempty.all():
            group, first, end = group[nonempty], first[nonempty], end[nonempty]
        ptr = np.zeros(len(row), np.int64)
        np.cumsum(np.bincount(group, minlength=len(row) - 1), out=ptr[1:])
        return Runs(n_keys, row, ptr, first, end)

    @staticmethod
    def of_queries(n_keys: int, seen: Array) -> "Runs":
        """[queries]: who sees all keys."""
        row = changes(seen)
        n = np.where(seen[row[:-1]], n_keys, 0)
        return Runs.of(n_keys, row, np.zeros_like(n), n)

    @staticmethod
    def whole(n_queries: int, n_keys: int, seen: bool) -> "Runs":
        """All pairs, or none."""
        return Runs.of_queries(n_keys, np.full(n_queries, seen))

    @staticmethod
    def of_pairs(seen: Array, first_key: int, n_keys: int) -> "Runs":
        """[queries][keys] truth values, column j those of key first_key + j."""
        n, columns = seen.shape
        edge = np.diff(np.pad(seen, ((0, 0), (1, 1))))
        group, at = np.divmod(np.flatnonzero(edge), columns + 1)
        return Runs.of(n_keys, np.arange(n + 1), at[::2] + first_key, at[1::2] + first_key, group[::2])

    @staticmethod
    def of_keys(n_queries: int, seen: Array) -> "Runs":
        """[keys]: which all queries see."""
        one = Runs.of_pairs(seen[None], 0, len(seen))
        return Runs(one.n_keys, np.array([0, n_queries]), one.ptr, one.first, one.end)

    @staticmethod
    def of_blocks(seen: Array, height: int, width: int, n_queries: int, n_keys: int) -> "Runs":
        """[rows of blocks][columns of blocks], each block seen or not."""
        row = np.append(np.arange(0, n_queries, height), n_queries)
        x = Runs.of_pairs(seen[: len(row) - 1], 0, seen.shape[1])
        return Runs.of(n_keys, row, x.first * width, x.end * width, x.group())

    @staticmethod
    def stacked(blocks: Sequence["Runs"]) -> "Runs":
        """Those of queries, and of the queries behind them."""
        row, ptr = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        for x in blocks:
            row.append(row[-1][-1] + x.row[1:])
            ptr.append(ptr[-1][-1] + x.ptr[1:])
        first, end = (np.concatenate([getattr(x, name) for x in blocks]) for name in ("first", "end"))
        return Runs(blocks[0].n_keys, np.concatenate(row), np.concatenate(ptr), first, end)

    # ---- as a set of pairs ----

    @property
    def n_queries(self) -> int:
        return int(self.row[-1])

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (self.row, self.ptr, self.first, self.end))

    def is_empty(self) -> bool:
        return len(self.first) == 0

    def is_all(self) -> bool:
        return len(self.first) == len(self.row) - 1 and bool((self.end - self.first == self.n_keys).all())

    def group(self) -> Array:
        """Whose each run is."""
        return np.repeat(np.arange(len(self.row) - 1), np.diff(self.ptr))

    def by(self, row: Array) -> "Runs":
        """The same in groups of `row`, each of which lies in one of these."""
        if len(row) == len(self.row):
            return self
        own = np.searchsorted(self.row, row[:-1], side="right") - 1
        counts = np.diff(self.ptr)[own]
        group, offset = spread(counts)
        j = self.ptr[own][group] + offset
        ptr = np.zeros(len(row), np.int64)
        np.cumsum(counts, out=ptr[1:])
        return Runs(self.n_keys, row, ptr, self.first[j], self.end[j])

    def __and__(self, other: "Runs") -> "Runs":
        if self.is_all() or other.is_empty():
            return other
        if other.is_all() or self.is_empty():
            return self
        for x, y in ((self, other), (other, self)):
            if (np.diff(y.ptr) <= 1).all():
                return _cut(x, y)
        return _swept(self, other, 2)

    def __or__(self, other: "Runs") -> "Runs":
        if self.is_empty() or other.is_all():
            return other
        if other.is_empty() or self.is_all():
            return self
        return _swept(self, other, 1)

    def joined(self) -> "Runs":
        """The same with neighbouring groups that see the same as one."""
        counts, group = np.diff(self.ptr), self.group()
        if len(counts) < 2:
            return self
        before = np.arange(len(group)) - counts[group]  # the same run of the group before, where it has as many
        distinct = np.append(True, counts[1:] != counts[:-1])
        distinct[group[(self.first != self.first[before]) | (self.end != self.end[before])]] = True
        if distinct.all():
            return self
        ptr = np.append(0, np.cumsum(counts[distinct]))
        runs = distinct[group]
        return Runs(self.n_keys, np.append(self.row[:-1][distinct], self.row[-1]), ptr, self.first[runs], self.end[runs])

    def name(self) -> bytes:
        """32 bytes that equal masks have in common once they are joined()."""
        found = hashlib.blake2b(repr((self.n_keys, len(self.row), len(self.first))).encode(), digest_size=32)
        for x in (self.row, self.ptr, self.first, self.end):
            found.update(np.ascontiguousarray(x, np.int64).data)
        return found.digest()

    def keys(self) -> Array:
        """[runs][2] int32: first and end."""
        found: Array = np.stack((self.first, self.end), axis=1).astype(np.int32)
        return found

    # ---- blocks of it ----

    def in_blocks(self, height: int, width: int) -> Array:
        """[rows of blocks][columns of blocks]: how many pairs of a block are seen."""
        rows, columns = -(-self.n_queries // height), -(-self.n_keys // width)
        x = self.by(np.union1d(self.row, np.append(np.arange(0, self.n_queries, height), self.n_queries)))
        group = x.group()
        times, at = np.diff(x.row)[group], x.row[group] // height * (columns + 1)
        a, b = x.first // width, (x.end - 1) // width
        # as if a run filled its blocks, by differences from block to block; then what its first and last do not have
        full = _sums((rows, columns + 1), (at + a, times * width), (at + b + 1, -times * width))
        less = (at + a, times * (x.first - a * width)), (at + b, times * ((b + 1) * width - x.end))
        found: Array = np.cumsum(full, axis=1) - _sums((rows, columns + 1), *less)
        return found[:, :columns]


def _sums(shape: Tuple[int, int], *terms: Tuple[Array, Array]) -> Array:
    """Of values at indices, which are whole numbers below 2^53."""
    total = np.zeros(shape[0] * shape[1], np.int64)
    for at, values in terms:
        total += np.bincount(at, weights=values, minlength=len(total)).astype(np.int64)
    return total.reshape(shape)


def _limits(b: Runs) -> Tuple[Array, Array]:
    """Where the only run of a group begins and ends; 0 and 0 where there is none."""
    low, high = np.zeros(len(b.row) - 1, np.int64), np.zeros(len(b.row) - 1, np.int64)
    own = b.group()
    low[own], high[own] = b.first, b.end
    return low, high


def _rows_cut(a: Runs, b: Runs) -> Array:
    """a's groups, and b's where these cut a run of a's differently: most are within b's in all queries, or in none."""
    low, high = _limits(b)
    first, end = np.searchsorted(b.row, a.row[:-1], "right") - 1, np.searchsorted(b.row, a.row[1:], "left")
    at = np.stack((first, end), axis=1).reshape(-1)

    def over(f: Any, x: Array) -> Any:
        return f.reduceat(np.append(x, x[-1]), at)[::2][group]

    group = a.group()
    inside = (over(np.maximum, low) <= a.first) & (over(np.minimum, high) >= a.end)
    outside = (over(np.maximum, high) <= a.first) | (over(np.minimum, low) >= a.end)
    differs = np.zeros(len(a.row) - 1, bool)
    differs[group[~(inside | outside)]] = True
    of = np.searchsorted(a.row, b.row[:-1], "right") - 1
    return np.union1d(a.row, b.row[:-1][differs[of]])


def _cut(a: Runs, b: Runs) -> Runs:
    """a's runs within b's, of which a group has one at most."""
    row = _rows_cut(a, b)
    a, (low, high) = a.by(row), _limits(b)
    own = np.searchsorted(b.row, row[:-1], "right") - 1
    group = own[a.group()]
    return Runs.of(a.n_keys, row, np.maximum(a.first, low[group]), np.minimum(a.end, high[group]), a.group())


def _swept(a: Runs, b: Runs, depth: int) -> Runs:
    """Where as many of the two see a key: all beginnings and ends in order, beginnings before ends at one key."""
    row = a.row if np.array_equal(a.row, b.row) else np.union1d(a.row, b.row)
    a, b = a.by(row), b.by(row)
    base = [2 * (a.n_keys + 1) * x.group() for x in (a, b)]
    ends = [(at + 2 * x.first, at + 2 * x.end + 1) for at, x in zip(base, (a, b))]
    events = np.concatenate([*ends[0], *ends[1]])
    events.sort(kind="stable")
    step = 1 - 2 * (events & 1)
    level = np.cumsum(step)
    first = events[(step > 0) & (level == depth)] >> 1
    end = events[(step < 0) & (level == depth - 1)] >> 1
    group, at = np.divmod(first, a.n_keys + 1)
    return Runs.of(a.n_keys, a.row, at, end - group * (a.n_keys + 1), group)
