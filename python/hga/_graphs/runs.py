"""Masks as runs: which intervals of keys a query sees, and which neighbouring queries see the same. Unions and
intersections of them cost a step a run, where truth values cost one a pair."""

from __future__ import annotations

import hashlib
from typing import Any, List, Sequence, Tuple

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


def true_runs(seen: Array) -> Tuple[Array, Array]:
    """Beginnings and ends of the true ones of a list."""
    edge = np.diff(np.pad(seen, 1).astype(np.int8))
    return np.flatnonzero(edge > 0), np.flatnonzero(edge < 0)


def _rows(n_queries: int) -> Array:
    """All in one group."""
    return np.array([0, n_queries] if n_queries else [0])


class Runs:
    """Queries row[i] .. row[i + 1] see keys first[j] .. end[j] of every j from ptr[i] to ptr[i + 1], in order; no two touch,
    and none is empty."""

    def __init__(self, n_keys: int, row: Array, ptr: Array, first: Array, end: Array) -> None:
        self.n_keys, self.row, self.ptr, self.first, self.end = n_keys, row, ptr, first, end

    # ---- made of what is known otherwise ----

    @staticmethod
    def of(n_keys: int, row: Array, group: Array, first: Array, end: Array) -> "Runs":
        """Run j is of group[j], which does not go down. Empty ones are left out."""
        nonempty = end > first
        if not nonempty.all():
            group, first, end = group[nonempty], first[nonempty], end[nonempty]
        ptr = np.zeros(len(row), np.int64)
        np.cumsum(np.bincount(group, minlength=len(row) - 1), out=ptr[1:])
        return Runs(n_keys, row, ptr, first, end)

    @staticmethod
    def one(n_keys: int, row: Array, first: Array, end: Array) -> "Runs":
        """At most one run a group, cut to the keys that there are."""
        return Runs.of(n_keys, row, np.arange(len(row) - 1), np.clip(first, 0, n_keys), np.clip(end, 0, n_keys))

    @staticmethod
    def whole(n_queries: int, n_keys: int, seen: bool) -> "Runs":
        """All pairs, or none."""
        n = np.full(len(_rows(n_queries)) - 1, n_keys if seen else 0)
        return Runs.one(n_keys, _rows(n_queries), np.zeros_like(n), n)

    @staticmethod
    def of_queries(n_keys: int, seen: Array) -> "Runs":
        """[queries]: who sees all keys."""
        row = changes(seen)
        n = np.where(seen[row[:-1]], n_keys, 0)
        return Runs.one(n_keys, row, np.zeros_like(n), n)

    @staticmethod
    def of_keys(n_queries: int, seen: Array) -> "Runs":
        """[keys]: which all queries see."""
        first, end = true_runs(seen) if n_queries else (np.zeros(0, np.int64),) * 2
        return Runs.of(len(seen), _rows(n_queries), np.zeros(len(first), np.int64), first, end)

    @staticmethod
    def of_blocks(seen: Array, height: int, width: int, n_queries: int, n_keys: int) -> "Runs":
        """[rows of blocks][columns of blocks], each block seen or not."""
        row = np.append(np.arange(0, n_queries, height), n_queries)
        edge = np.diff(np.pad(seen[: len(row) - 1], ((0, 0), (1, 1))).astype(np.int8), axis=1)
        (group, first), (_, end) = np.nonzero(edge > 0), np.nonzero(edge < 0)
        return Runs.of(n_keys, row, group, np.minimum(first * width, n_keys), np.minimum(end * width, n_keys))

    @staticmethod
    def of_pairs(seen: Any, first_key: int, n_keys: int) -> "Runs":
        """A torch tensor [queries][keys] of truth values, column j that of key first_key + j."""
        edge = seen.new_zeros(seen.shape[0], seen.shape[1] + 1)
        edge[:, 0], edge[:, -1] = seen[:, 0], seen[:, -1]
        edge[:, 1:-1] = seen[:, 1:] != seen[:, :-1]
        at = edge.nonzero().numpy()
        (group, first), end = at[::2].T, at[1::2, 1]
        return Runs.of(n_keys, np.arange(seen.shape[0] + 1), group, first + first_key, end + first_key)

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

    def rows(self, first: int, n: int) -> "Runs":
        """Those of n queries."""
        i0, i1 = np.searchsorted(self.row, first, side="right") - 1, np.searchsorted(self.row, first + n)
        row = np.clip(self.row[i0 : i1 + 1], first, first + n) - first
        runs = slice(self.ptr[i0], self.ptr[i1])
        return Runs(self.n_keys, row, self.ptr[i0 : i1 + 1] - self.ptr[i0], self.first[runs], self.end[runs])

    def __invert__(self) -> "Runs":
        """What lies between the runs, and before and behind them: one more in every group."""
        n = len(self.row) - 1
        at = self.ptr[:-1] + np.arange(n)
        first, end = np.zeros(len(self.first) + n, np.int64), np.full(len(self.first) + n, self.n_keys)
        inner = np.arange(len(self.first)) + self.group()
        first[inner + 1], end[inner] = self.end, self.first
        first[at] = 0
        return Runs.of(self.n_keys, self.row, np.repeat(np.arange(n), np.diff(self.ptr) + 1), first, end)

    def __and__(self, other: "Runs") -> "Runs":
        if self.is_all() or other.is_empty():
            return other
        if other.is_all() or self.is_empty():
            return self
        for x, y in ((self, other), (other, self)):
            if (np.diff(y.ptr) <= 1).all():
                return _cut(x, y)
        a, b = _together(self, other)
        return _swept(a, b, 2)

    def __or__(self, other: "Runs") -> "Runs":
        if self.is_empty() or other.is_all():
            return other
        if other.is_empty() or self.is_all():
            return self
        a, b = _together(self, other)
        return _swept(a, b, 1)

    def joined(self) -> "Runs":
        """The same with neighbouring groups that see the same as one."""
        counts = np.diff(self.ptr)
        if len(counts) < 2:
            return self
        differs = counts[1:] != counts[:-1]
        alike = np.flatnonzero(~differs & (counts[1:] > 0))
        of, offset = spread(counts[alike])
        j = self.ptr[alike][of] + offset
        step = counts[alike][of]
        other = (self.first[j] != self.first[j + step]) | (self.end[j] != self.end[j + step])
        differs[alike[of[other]]] = True
        if differs.all():
            return self
        distinct = np.append(True, differs)
        runs = np.repeat(distinct, counts)
        ptr = np.append(0, np.cumsum(counts[distinct]))
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


def _together(a: Runs, b: Runs) -> List[Runs]:
    """In groups that both have."""
    row = a.row if len(a.row) == len(b.row) and (a.row == b.row).all() else np.union1d(a.row, b.row)
    return [a.by(row), b.by(row)]


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
    return Runs.of(a.n_keys, row, a.group(), np.maximum(a.first, low[group]), np.minimum(a.end, high[group]))


def _swept(a: Runs, b: Runs, depth: int) -> Runs:
    """Where as many of the two see a key: all beginnings and ends in order, beginnings before ends at one key."""
    base = [2 * (a.n_keys + 1) * x.group() for x in (a, b)]
    ends = [(at + 2 * x.first, at + 2 * x.end + 1) for at, x in zip(base, (a, b))]
    events = np.concatenate([*ends[0], *ends[1]])
    events.sort(kind="stable")
    step = 1 - 2 * (events & 1)
    level = np.cumsum(step)
    first = events[(step > 0) & (level == depth)] >> 1
    end = events[(step < 0) & (level == depth - 1)] >> 1
    group, at = np.divmod(first, a.n_keys + 1)
    return Runs.of(a.n_keys, a.row, group, at, end - group * (a.n_keys + 1))
