"""Every row of ``goals.py`` and of ``compare.py --calls`` can be missed: on a clock of our own what a row measures is made
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
from shared import ROOT, TOOL, scratch

BENCH = ROOT / "bench"
HAS_TORCH = importlib.util.find_spec("torch") is not None
if BENCH.exists():
    sys.path.insert(0, str(BENCH))
    import compare
    import figures
    import goals
    import machine_goals
    import peers

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
        problem = lambda g, a: types.SimpleNamespace(case=g.case, words=g.case, tokens=g.tokens, threads=1, heads=1, dim=1)  # noqa: E731
        a = argparse.Namespace(only=None, tokens=None, threads=1, heads=1, dim=1, repetitions=3, peers=",".join(goals.PEERS), json=None)
        patch, out = unittest.mock.patch, io.StringIO()
        with tempfile.TemporaryDirectory() as folder, patch.object(goals, "GOALS", [goal]), patch.object(goals, "problem", problem), \
                patch.object(compare, "contenders", self.contenders), patch.object(compare, "time", self.clock), \
                patch.object(goals.layers, "contenders", lambda p, wanted, skipped: self.contenders(p, "epoch", wanted, skipped)), \
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


class Fake:
    """`hga bench` whose rows come to what a goal is made to come to. Of a sum of keys one has it all; of a ratio the upper
    row, of lengths the last."""

    dry_run, most_tokens, part = False, None, 0

    def __init__(self, goal, figure, longer=1):
        self.goal, self.figure, self.longer, self.first, self.calls = goal, figure, longer, True, 0
        self.disturbed, self.busy = False, 1.0

    def begin(self, first=True):
        self.first = first

    def own(self, case):
        """What the row of this case is to come to."""
        whole = self.figure * (1 if self.first else self.longer) / case.get("times", 1)
        if "lengths" in case:
            return self.figure if case["tokens"] == case["lengths"][-1] else 1
        over = case.get("over")
        below = over and all(case.get(k) == v for k, v in over.items()) and case is not self.upper
        return 1 if below else whole

    def measure(self, case):
        self.calls += 1
        key = case.get("key", "seconds")
        keys = [key] if isinstance(key, str) else key
        row = {"name": "a", "variant": "dense", "tokens": case.get("tokens"), "bytes_tensors": 1.0, "threads": 1, "bytes": 8, "cpu_over_wall": self.busy,
               "disturbed": self.disturbed, "limit_disturbed": False, "execute_seconds": 1.0, "seconds": 1.0}  # fmt: skip
        by = case.get("by")
        each = 1 if by is None or by == "execute_seconds" or by == "seconds" else case["tokens"] * (1 if by == "tokens" else np.log2(case["tokens"]))
        row |= dict.fromkeys(keys, 0.0) | {keys[self.part % len(keys)]: self.own(case) * each}
        return [row, row]


@unittest.skipUnless(BENCH.exists(), "the benches are not here")
class Machine(unittest.TestCase):
    def bound(self, goal):
        bound = machine_goals.bound_of(goal)
        return sum(bound.values()) if isinstance(bound, dict) else bound

    def row(self, fake, goal):
        evaluate = machine_goals.evaluate

        def remembered(bench, one):  # the upper row of a ratio is the goal's own
            fake.upper = one
            return evaluate(bench, one)

        with unittest.mock.patch.object(machine_goals, "evaluate", remembered):
            return machine_goals.measured(fake, [goal], True)[0]

    def test_the_verdict_of_every_row_turns(self):
        self.assertGreater(len(machine_goals.GOALS), 40)
        for goal in machine_goals.GOALS:
            bound, better = self.bound(goal), 1 if "at_least" in goal else -1
            for part in range(len(goal["key"]) if isinstance(goal.get("key"), list) else 1):
                for factor in (1.1, 1 / 1.1):
                    fake = Fake(goal, bound * factor)
                    fake.part = part
                    row = self.row(fake, goal)
                    with self.subTest(goal["case"], factor=factor, part=part):
                        np.testing.assert_allclose([row["reached"], row["goal"]], [bound * factor, bound], rtol=1e-9)
                        self.assertEqual((row["met"], row["mark"]), ((factor > 1) == (better > 0), ""))

    def test_a_row_is_measured_twice_and_marked_where_the_two_differ(self):
        goal = next(g for g in machine_goals.GOALS if g["case"] == "dense n=2048")
        for first, longer, met, mark in ((95, 1.04, True, ""), (95, 0.94, True, "!"), (95, 0.8, None, "!"), (70, 0.8, False, "!"), (76, 1.2, None, "!")):
            row = self.row(Fake(goal, first, longer), goal)
            np.testing.assert_allclose(row["reached_in_passes"], [first, first * longer])
            self.assertEqual((row["reached"], row["met"], row["mark"]), (max(row["reached_in_passes"]), met, mark))
            self.assertEqual(row["note"] == "no verdict: met in one of two passes", met is None)
            text = "\n".join(machine_goals.table([row], False))
            self.assertEqual((", then " in text, "came out a twentieth apart" in text), (mark == "!",) * 2)

    def test_disturbed_rows_are_marked_and_scaling_is_not_judged(self):
        goal = next(g for g in machine_goals.GOALS if g.get("scaling"))
        fake = Fake(goal, 2)
        fake.disturbed, fake.busy = True, 0.8
        row = self.row(fake, goal)
        self.assertEqual((row["met"], row["mark"], row["note"]), (None, "!", "no verdict below 0.95 of the processor"))

    def test_members_are_read_and_told(self):
        code, told = (BENCH / "machine_goals.py").read_text(), (BENCH / "README.md").read_text()
        for goal in machine_goals.GOALS:
            self.assertNotIn(goal["unit"].split("/")[0], ("ns", "ms", "s"))  # goals are ratios
            for part in (goal, *goal.get("each", ()), goal.get("over", {})):
                for member in part:
                    self.assertIn(f'"{member}"', code)
                    self.assertIn(f"`{member}`", told)

    def test_what_a_case_is_measured_by(self):
        bench = machine_goals.Bench("hga", "avx2", 0.5, None, False)
        goal = next(g for g in machine_goals.GOALS if g["case"] == "dense n=512")
        self.assertEqual(" ".join(bench.words(goal)), "--variants dense --tokens 512 --threads 1 --isa avx2 --seconds 0.5 --heads 8 --dim 64 --peers all")
        bench.begin(first=False)
        words = " ".join(bench.words({**goal, "precision": "bf16", "rel_key": True, "by_memory": True, "kv_heads": 1, "dim_v": 17}))
        self.assertTrue(words.endswith("--kv-heads 1 --dim-v 17 --precision bf16 --rel-key --by-memory"), words)

    def test_a_program_that_was_not_built_is_named(self):
        goal = next(g for g in machine_goals.GOALS if "routed" in g)
        with tempfile.TemporaryDirectory() as folder:
            bench = machine_goals.Bench(pathlib.Path(folder) / "cli" / "hga", None, None, None, False)
            found = machine_goals.reach(bench, goal, True)
        self.assertIsNone(found.reached)
        self.assertIn("bench_routed_times is not built", found.note)
        row = machine_goals.judged(bench, goal, (found, found))
        self.assertIn(found.note, "\n".join(machine_goals.table([row], False)))

    @unittest.skipUnless(os.environ.get("HGA_TOOL"), "no tool to measure")
    def test_the_machines_goals_need_no_package(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.json")
            words = ("--tokens", "96", "--seconds", "0.01", "--only", "n=8192", "--tool", TOOL, "--json", path)
            done = subprocess.run([sys.executable, "-I", "-S", BENCH / "machine_goals.py", *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            run = json.loads(pathlib.Path(path).read_text())
        self.assertTrue(run["context"]["peaks"] and run["goals"] and run["benchmarks"])

    def test_a_run_that_fails_leaves_the_file_of_another(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.json")
            path.write_text("of another")
            for file, says in ((path, "no hga"), (path.parent / "none" / "run.json", "No such file")):
                done = subprocess.run([sys.executable, BENCH / "machine_goals.py", "--only", "a token behind", "--tool", "/bin/echo", "--json", file],
                                      capture_output=True, text=True, check=False)  # fmt: skip
                self.assertEqual((done.returncode, says in done.stderr), (1, True), done.stderr)
            self.assertEqual((path.read_text(), os.listdir(folder)), ("of another", ["run.json"]))

    def run_goals(self, *words):
        return subprocess.run([sys.executable, BENCH / "goals.py", "--tokens", "96", "--seconds", "0.01", *words], capture_output=True, text=True, check=False)

    @unittest.skipUnless(os.environ.get("HGA_TOOL"), "no tool to measure")
    def test_the_tool_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.json")
            done = self.run_goals("--only", "n=8192", "--tool", TOOL, "--json", path)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            run = json.loads(pathlib.Path(path).read_text())
        self.assertRegex(done.stdout, r"(?m)^case +goal +reached +peer +met +cpu/wall +note$")
        self.assertRegex(done.stdout, r"(?m)^dense n=8192 +>= 84 % of peak ")
        self.assertEqual({row["met"] for row in run["goals"]}, {None})  # shorter cases are not judged
        self.assertIn("peer:openblas", {row["variant"] for row in run["benchmarks"]})
        self.assertTrue(all(row["run_name"] for row in run["benchmarks"]))
        self.assertTrue(run["context"]["peaks"])

    def test_wrong_words(self):
        self.assertIn("no goal has 'nothing' in its name", self.run_goals("--only", "nothing").stderr)
        self.assertIn("no_such_tool: No such file or directory; build it, or name it by --tool", self.run_goals("--only", "dense n=512", "--tool", "no_such_tool").stderr)


@unittest.skipUnless(BENCH.exists(), "the benches are not here")
@unittest.skipUnless(BENCH.exists(), "no sources")
class Figures(unittest.TestCase):
    """figures.py: rows name pages and programs that exist; a run keeps what it has, and tells what failed."""

    def test_rows_name_pages_that_name_their_program(self):
        for name, minutes, pages, command in figures.ROWS:
            script = next((word for word in command.split() if word.endswith(".py")), None)
            words = [script] if script else ["hga run", "run.sh"] if name == "run" else ["hga bench", "bench_options"]
            for page in set(pages.split(", ")) - {"README.md"}:
                with self.subTest(name, page=page):
                    text = (ROOT / page).read_text()
                    self.assertTrue(any(pathlib.Path(word).name in text for word in words), f"{page} does not say {words}")
                    self.assertGreater(minutes, 0)
            if script:
                self.assertTrue((ROOT / script).exists(), script)

    def test_options_are_those_of_the_programs(self):
        for name, _, _, command in figures.ROWS:
            program, *words = command.split()
            if program == "{hga}":
                known = subprocess.run([TOOL, words[0], "--help"], capture_output=True, text=True, check=True).stdout
            elif program == "{python}":
                known = (ROOT / words[0]).read_text() + "".join(p.read_text() for p in (BENCH / "compare.py", BENCH / "machine_goals.py"))
            else:
                continue
            for option in (word for word in words if word.startswith("--")):
                with self.subTest(name, option=option):
                    self.assertIn(option, known)

    def run_rows(self, folder, rows, *names):
        said = io.StringIO()
        with unittest.mock.patch.object(figures, "ROWS", rows), contextlib.redirect_stdout(said):
            with unittest.mock.patch.object(sys, "argv", ["figures.py", str(folder), *names]):
                return figures.main(), said.getvalue()

    def test_a_run_keeps_what_it_has_and_goes_on_behind_a_failure(self):
        folder = scratch(self)
        rows = (("bad", 1, "", "false"), ("good", 1, "", "echo 7 >{out}.json; echo printed"))
        status, said = self.run_rows(folder, rows)
        self.assertEqual(status, 1)
        self.assertIn("bad: failed, status 1", said)
        self.assertEqual((folder / "good.txt").read_text(), "$ echo 7 >good.json; echo printed\nprinted\n")
        self.assertEqual((folder / "good.json").read_text(), "7\n")
        self.assertFalse((folder / "bad.txt").exists())
        status, said = self.run_rows(folder, (("bad", 1, "", "true"), rows[1]))
        self.assertEqual((status, said.count("done"), "good" in said), (0, 1, False))

    def test_no_row_is_taken_for_done_before_it_ran(self):
        folder = scratch(self)
        rows = tuple((name, 1, "", f"echo {name}") for name, *_ in figures.ROWS)
        self.assertEqual(self.run_rows(folder, rows)[1].count("done"), len(rows))
        self.assertTrue(all((folder / f"{name}.txt").exists() for name, *_ in rows))

    def test_a_folder_is_of_one_commit_and_may_have_blanks(self):
        folder = scratch(self) / "a b"
        self.assertEqual(self.run_rows(folder, (("good", 1, "", "echo 7 >{out}.json"),))[0], 0)
        self.assertEqual((folder / "good.json").read_text(), "7\n")
        (folder / "README.txt").write_text("2026-11-30 0123456789ab a processor\n")
        with self.assertRaisesRegex(SystemExit, "has figures of commit 0123456789ab, and this is .*: name another folder"):
            self.run_rows(folder, (("good", 1, "", "true"),))

    @unittest.skipIf(importlib.util.find_spec("dgl") or "pandas" in sys.modules, "needs neither DGL nor pandas")
    def test_a_missing_dgl_leaves_no_stand_in_behind(self):
        self.assertRaises(peers.Missing, peers.import_dgl)
        self.assertNotIn("pandas", sys.modules)

    def test_a_wrong_name_is_told_with_those_that_there_are(self):
        with self.assertRaisesRegex(SystemExit, "speed: no such row; there are run, hierarchies"):
            self.run_rows(scratch(self), figures.ROWS, "speed")


class Runs(unittest.TestCase):
    """compare_runs.py on runs as Google Benchmark writes them."""

    def setUp(self):
        self.folder = scratch(self)

    def google(self, name, *times, **more):
        row = {"name": "BM/a", "run_name": "BM/a", "run_type": "iteration", "time_unit": "ms", **more}
        path = os.path.join(self.folder, name)
        pathlib.Path(path).write_text(json.dumps({"context": {}, "benchmarks": [{**row, "real_time": ms, "cpu_time": ms} for ms in times]}))
        return path

    def compare(self, *words, status=0):
        done = subprocess.run([sys.executable, BENCH / "compare_runs.py", *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_verdicts(self):
        quiet, slower, noisy = self.google("a", 10, 10.1, 9.9, 10, 10.05), self.google("b", 12, 12.1, 11.9, 12, 12.05), self.google("c", 8, 16, 9, 14, 12)
        self.assertRegex(self.compare(quiet, quiet), r"\+0\.0 %.*same within noise")
        self.assertRegex(self.compare(quiet, slower), r"\+20\.0 % .*slower")
        self.assertRegex(self.compare(slower, quiet), "faster")
        self.assertRegex(self.compare(quiet, noisy), "same within noise")
        self.assertIn("1 case is more than 10 % slower", self.compare(quiet, slower, "--fail-above", "10", status=1))
        self.compare(quiet, slower, "--fail-above", "25")
        self.compare(quiet, noisy, "--fail-above", "10")
        self.assertIn("disturbed: no verdict", self.compare(quiet, self.google("d", 20, disturbed=True, seconds_q1=0.02, seconds_q3=0.02)))

    def test_medians_and_deviations_alone(self):
        a = self.google("a", 10)
        rows = [{"name": "BM/a_x", "run_name": "BM/a", "run_type": "aggregate", "aggregate_name": kind, "real_time": t, "time_unit": "ms"} for kind, t in (("mean", 12), ("stddev", 3))]
        b = os.path.join(self.folder, "b")
        pathlib.Path(b).write_text(json.dumps({"benchmarks": rows}))
        row = json.loads(self.compare(a, b, "--json"))["rows"][0]
        np.testing.assert_allclose([row["change"], row["noise"]], [0.2, 0.674 * 3 / 12])
        self.assertEqual(row["verdict"], "same within noise")

    def test_bad_runs(self):
        a, bad = self.google("a", 10), os.path.join(self.folder, "bad")
        pathlib.Path(bad).write_text("[]")
        self.assertIn("bad: has no list of benchmarks", self.compare(a, bad, status=3))
        self.assertIn("has no time above 0", self.compare(a, self.google("b", 0), status=3))
        self.assertIn("the following arguments are required", self.compare(status=2))


@unittest.skipUnless(BENCH.exists() and HAS_TORCH, "the benches or torch are not here")
class Calls(unittest.TestCase):
    """Of the functions of a row the first is what ours are measured by, where there are two and more."""

    def setUp(self):
        self.clock, self.slow = Clock(), 1.0
        self.in_turns = calls.in_turns

    def timed(self, functions, rounds=9, most=None):
        ours = [len(functions) == 1 or i > 0 for i in range(len(functions))]
        return self.in_turns([self.clock.takes(1e-2 * (self.slow if own else 1)) for own in ours], rounds, most)

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
            "one token: hga from numpy", "one token: hga from torch", "one token, forward and backward: hga",
            "16 tokens, forward and backward: hga", "64 tokens, forward and backward: hga", "64 tokens, dense",
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
                good = far[name] if row.goal is not None and row.figure is not None and row.goal < 0.8 else row
                self.assertEqual((good.met, slow[name].met), (None, None) if row.goal is None else (True, False))

    def test_rows_that_differ_are_marked(self):
        row = calls.Row("a", 1e-3, 1.9, "x SDPA", 2)
        for other, ending in ((1.95, "goal 2 yes"), (2.1, "goal 2 - ! 1.90, then 2.10"), (1.5, "goal 2 yes ! 1.90, then 1.50")):
            said = " ".join(calls.line_of(row, row._replace(figure=other)).split())
            self.assertTrue(said.endswith(ending), said)
