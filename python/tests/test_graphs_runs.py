"""Facts about masks as runs of keys (hga/_graphs/runs.py): unions and intersections are those of arrays of truth values, however neighbouring queries are grouped."""

import unittest

import numpy as np
from hga._graphs.runs import Runs

RNG = np.random.default_rng(1)


def drawn(n, n_keys):
    """[queries][keys]."""
    q, k = np.arange(n)[:, None], np.arange(n_keys)[None, :]
    some = RNG.random((n, n_keys)) < RNG.random()
    return (some, some[q // 4 * 4 % max(n, 1), k], q >= k, q < 0 * k, q >= 0 * k, abs(q // 3 - k // 3) < 2)[RNG.integers(6)]


def told(seen, joined):
    found = Runs.of_pairs(seen, 0, seen.shape[1])
    return found.joined() if joined else found


class Drawn(unittest.TestCase):
    def assert_is(self, runs, want):
        self.assertEqual((runs.n_queries, runs.n_keys, runs.row[0], runs.ptr[0], runs.ptr[-1]), (*want.shape, 0, 0, len(runs.first)))
        self.assertTrue((np.diff(runs.row) > 0).all() and (runs.first < runs.end).all())
        found = np.zeros(want.shape, bool)
        for i, j in ((i, j) for i in range(len(runs.row) - 1) for j in range(runs.ptr[i], runs.ptr[i + 1])):
            self.assertTrue(j == runs.ptr[i] or runs.first[j] > runs.end[j - 1])
            found[runs.row[i] : runs.row[i + 1], runs.first[j] : runs.end[j]] = True
        np.testing.assert_array_equal(found, want)

    def test_sets_of_pairs(self):
        for _ in range(600):
            n, n_keys = RNG.integers(0, 20, 2)
            a, b = drawn(n, n_keys), drawn(n, n_keys)
            x, y = told(a, RNG.random() < 0.5), told(b, RNG.random() < 0.5)
            for found, want in ((x, a), (x & y, a & b), (x | y, a | b)):
                self.assert_is(found, want)
                self.assert_is(found.joined(), want)
                self.assertEqual(found.joined().name(), told(want, True).name())
                self.assertEqual((found.is_empty(), found.is_all()), (not want.any(), bool(want.all()) and (n_keys > 0 or n == 0)))

    def test_parts_and_blocks(self):
        for _ in range(300):
            n, n_keys = RNG.integers(1, 20, 2)
            seen = drawn(n, n_keys)
            x = told(seen, RNG.random() < 0.5)
            first = int(RNG.integers(n))
            self.assert_is(Runs.stacked([told(part, RNG.random() < 0.5) for part in (seen[:first], seen[first:]) if len(part)]), seen)
            height, width = (int(i) for i in RNG.integers(1, 9, 2))
            sums = np.add.reduceat(np.add.reduceat(seen.astype(int), np.arange(0, n_keys, width), 1), np.arange(0, n, height), 0)
            np.testing.assert_array_equal(x.in_blocks(height, width), sums)
            blocks = RNG.random(sums.shape) < 0.5
            self.assert_is(Runs.of_blocks(blocks, height, width, n, n_keys), np.kron(blocks, np.ones((height, width), bool))[:n, :n_keys])
            self.assert_is(Runs.of_pairs(seen, 5, n_keys + 9), np.pad(seen, ((0, 0), (5, 4))))
            self.assert_is(Runs.of_queries(n_keys, seen[:, 0]), seen[:, :1].repeat(n_keys, 1))
            self.assert_is(Runs.of_keys(n, seen[0]), seen[:1].repeat(n, 0))
