"""Every row of ``compare.py --table goals`` and ``--calls`` can be missed: on a clock of our own what a row measures is made
too fast and too slow for its goal; the figure is what that makes it, and the verdict turns."""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
HAS_TORCH = importlib.util.find_spec("torch") is not None
if BENCH.exists():
    sys.path.insert(0, str(BENCH))
    import compare
    import goals

    if HAS_TORCH:
        import calls


class Clock:
    """Time that passes where a test says so; both kinds of it."""

    now = 1.0

    def __getattr__(self, name):
        import time

        return getattr(time, name)

    def process_time(self):
        return self.now

    perf_counter = process_time

    def takes(self, seconds, f=lambda: None):
        """f, so many seconds long."""

        def run(*a, **k):
            self.now += seconds() if callable(seconds) else seconds
            return f(*a, **k)

        return run


@unittest.skipUnless(BENCH.exists(), "the benches are not here")
class Goals(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.ratios = [1, 1]  # peers over hga in each pass

    def contenders(self, p, direction, wanted, skipped):
        self.passes[p.case, p.tokens, direction, *wanted] = which = self.passes.get((p.case, p.tokens, direction, *wanted), -1) + 1
        return [(name, self.clock.takes(1 if name == "hga" else self.ratios[which]), 0.0) for name in wanted]

    def rows(self, goal, ratios, isa):
        """The row, whose passes come to these ratios."""
        self.ratios, self.passes = ratios, {}
        problem = lambda g, a: types.SimpleNamespace(case=g.case, words=g.case, tokens=g.tokens, threads=1, q=np.zeros((1, 1, 1, 1)))  # noqa: E731
        a = argparse.Namespace(only=None, tokens=None, threads=1, heads=1, dim=1, repetitions=3, peers=",".join(compare.PEERS), json=None)
        patch, out = unittest.mock.patch, io.StringIO()
        with tempfile.TemporaryDirectory() as folder, patch.object(goals, "GOALS", [goal]), patch.object(goals, "problem", problem), \
                patch.object(compare, "contenders", self.contenders), patch.object(compare, "time", self.clock), \
                patch.object(compare, "isa_in_use", lambda: isa), contextlib.redirect_stdout(out):  # fmt: skip
            a.json = os.path.join(folder, "run.json")
            goals.table(a)
            return json.loads(pathlib.Path(a.json).read_text()), out.getvalue()

    def test_the_verdict_of_every_row_turns(self):
        self.assertGreater(len(goals.GOALS), 10)
        for goal in goals.GOALS:
            for isa, bound in (("avx512", goal.at_least), ("avx2", goal.narrow)):
                for ratio, met in ((1.1 * bound, True), (bound / 1.1, False)):
                    row = self.rows(goal, [ratio, ratio], isa)[0]["goals"][0]
                    self.assertAlmostEqual(row["reached"], ratio)
                    self.assertEqual((row["met"], row["differs"], row["goal"]), (met, False, bound), goals.name_of(goal))

    def test_a_row_is_measured_twice_and_marked_where_the_two_differ(self):
        goal = goals.Goal("dense", 64, "forward", ("torch-sdpa",), 1.5, 1.5)
        for ratios, reached, met, differs in (([2, 1.95], 2, True, False), ([1.8, 2], 2, True, True), ([2, 1.2], 2, None, True), ([1, 1.3], 1.3, False, True)):
            document, out = self.rows(goal, ratios, "avx512")
            row = document["goals"][0]
            self.assertEqual((row["met"], row["differs"]), (met, differs))
            np.testing.assert_allclose([row["reached"], *row["reached_in_passes"]], [reached, *ratios])
            self.assertEqual(f"! {ratios[0]:.2f}, then {ratios[1]:.2f}" in out, differs)
            self.assertEqual(compare.APART in out, differs)
            self.assertEqual(sum(r["peer"] == "hga" for r in document["benchmarks"]), 6)  # three repetitions of each pass


@unittest.skipUnless(BENCH.exists() and HAS_TORCH, "the benches or torch are not here")
class Calls(unittest.TestCase):
    """Of the functions of a row the first is what ours are measured by, where there are two and more."""

    def setUp(self):
        self.clock, self.slow = Clock(), 1.0
        self.in_turns = calls.in_turns

    def timed(self, functions, rounds=9):
        ours = [len(functions) == 1 or i > 0 for i in range(len(functions))]
        return self.in_turns([self.clock.takes(1e-2 * (self.slow if own else 1)) for own in ours], rounds)

    def process(self, command, **_):
        """The program of a process of its own, in this one, whose imports and calls take their time by our clock."""
        import hga

        out, imports = io.StringIO(), __import__

        def importing(name, *a, **k):
            self.clock.now += 1e-2 * self.slow if name == "hga" else 0
            return imports(name, *a, **k)

        attention = self.clock.takes(2e-2 * self.slow, hga.Hierarchy.attention)
        with unittest.mock.patch("time.process_time", self.clock.process_time), unittest.mock.patch("builtins.__import__", importing), \
                unittest.mock.patch.object(hga.Hierarchy, "attention", attention), contextlib.redirect_stdout(out):  # fmt: skip
            exec(command[2], {})
        return subprocess.CompletedProcess(command, 0, out.getvalue())

    @contextlib.contextmanager
    def by_our_clock(self, slow):
        self.slow = slow
        patch = unittest.mock.patch
        with patch.object(calls, "in_turns", self.timed), patch.object(calls, "time", self.clock), patch.object(calls.subprocess, "run", self.process):
            yield

    def rows(self, slow):
        with self.by_our_clock(slow):
            return {row.name: row for part in calls.PARTS for row in part()}

    def test_the_table_has_every_row(self):
        out, words = io.StringIO(), ["compare.py", "--calls", "--rounds", "2"]
        with self.by_our_clock(0.8), unittest.mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out):
            compare.main()
        for row in (
            "one token: hga from numpy", "one token: hga from torch", "one token, forward and backward: hga", "64 tokens, dense",
            "128 tokens, dense", "256 tokens, dense", "first call of a process", "32 x 64 tokens, forward and backward",
            "one row by ranges, window 256 at 65536", "one row by ranges, dense at 16384", "dropout 0.1, dense", "dropout 0.1, window",
            "dropout 0.1, H-Transformer", "dropout 0.1, HSA", "dropout 0.1, BPT", "create_block_mask of 16 documents", "a new BlockMask",
        ):  # fmt: skip
            self.assertIn(row, out.getvalue())
        if importlib.util.find_spec("transformers"):
            self.assertIn("BERT", out.getvalue())
            self.assertIn("Gemma 3", out.getvalue())
        if importlib.util.find_spec("jax"):
            self.assertIn("JAX, tokens 64: hga", out.getvalue())
        self.assertNotIn("!", out.getvalue())

    def test_the_verdict_of_every_row_turns(self):
        fast, slow, far = self.rows(0.8), self.rows(4.8), self.rows(0.04)  # far: of rows that are to be many times as fast
        self.assertEqual(list(fast), list(slow))
        self.assertGreaterEqual(sum(row.goal is not None for row in fast.values()), 8)
        for name, row in fast.items():
            with self.subTest(name):
                self.assertAlmostEqual(slow[name].seconds / row.seconds, 1 if row.compared else 6)
                if row.compared:
                    self.assertIsNone(row.goal)
                    continue
                for share, figure in ((0.8, row.figure), (4.8, slow[name].figure)):
                    if figure is not None:
                        more = 10 * (share - 1)  # in ms
                        self.assertAlmostEqual(figure, more if row.unit == "ms more" else 1 / share if row.at_least else share)
                good = far[name] if row.goal is not None and row.figure is not None and row.goal < 0.5 else row
                self.assertEqual((good.met, slow[name].met), (None, None) if row.goal is None else (True, False))

    def test_rows_that_differ_are_marked(self):
        row = calls.Row("a", 1e-3, 1.9, "x SDPA", 2)
        for other, ending in ((1.95, "goal 2 yes"), (2.1, "goal 2 - ! 1.90, then 2.10"), (1.5, "goal 2 yes ! 1.90, then 1.50")):
            said = " ".join(calls.line_of(row, row._replace(figure=other)).split())
            self.assertTrue(said.endswith(ending), said)


if __name__ == "__main__":
    unittest.main()
