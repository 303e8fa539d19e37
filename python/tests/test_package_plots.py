"""The plots, tables and numbers of README, docs/benchmarks.md and docs/models.md are those of the dated runs."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from shared import ROOT, TOOL

RESULTS = ROOT / "bench" / "results"
sys.path.append(str(ROOT / "docs"))
import language_model  # noqa: E402
import models_recall  # noqa: E402


def read(*path):
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def logs_of(name):
    """The logs that docs/models.md says it is made of."""
    return RESULTS / re.search(f"bench/results/([0-9-]+-{name})`", read("docs", "models.md")).group(1)


class Plots(unittest.TestCase):
    def made(self, run, picture):
        """What docs/benchmarks.py prints of a run, whose plot is the one that is kept."""
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder) / "plot.svg"
            done = subprocess.run([sys.executable, ROOT / "docs" / "benchmarks.py", run, plot], capture_output=True, text=True, check=True)
            self.assertEqual(plot.read_text(encoding="utf-8"), read("docs", "pictures", picture))
        return done.stdout

    def test_the_page_shows_the_run(self):
        page = read("docs", "benchmarks.md")
        date = re.search(r"^## (\d{4}-\d\d-\d\d)$", page, re.M).group(1)
        table = self.made(RESULTS / f"{date}.json", "benchmarks.svg")
        self.assertGreater(len(table.splitlines()), 8)
        self.assertIn(table, page)

    def test_a_case_beyond_the_peak_has_no_share(self):
        """What did more than the machine was found to allow is left out of the plot, and has no figure in the table."""
        run = json.loads(read("bench", "results", "2026-11-21.json"))
        rows = [r for r in run["benchmarks"] if r["threads"] == 1]
        last = max(r["tokens"] for r in rows)
        for row, share in zip([r for r in rows if r["tokens"] == last], (None, 1.2)):
            row["share_of_peak"] = share
        with tempfile.TemporaryDirectory() as folder:
            record, plot = pathlib.Path(folder) / "run.json", pathlib.Path(folder) / "plot.svg"
            record.write_text(json.dumps(run), encoding="utf-8")
            done = subprocess.run([sys.executable, ROOT / "docs" / "benchmarks.py", record, plot], capture_output=True, text=True, check=True)
            self.assertEqual(len(re.findall(r"\| - \|$", done.stdout, re.M)), 2)
            self.assertNotIn("120 %", done.stdout)
            self.assertEqual(plot.read_text(encoding="utf-8").count("<circle"), read("docs", "pictures", "benchmarks.svg").count("<circle") - 2)

    def test_a_step_against_the_length(self):
        page = read("docs", "benchmarks.md")
        date = re.search(r"^## A training step beside torch, (.*)$", page, re.M).group(1)
        table = self.made(RESULTS / f"{date}-lengths.json", "lengths.svg")
        self.assertEqual(len(table.splitlines()), 7)
        self.assertIn(table, page)

    @unittest.skipUnless(TOOL, "HGA_TOOL names no hga")
    def test_the_front_page_and_choose_say_what_the_study_found(self):
        """What loses least with a quarter of the keys, and a window of as many: losses and time at the longest context, needles at both."""
        log = json.loads(logs_of("smollm.json").read_text(encoding="utf-8"))
        lengths = language_model.read_lengths(log)
        n, paragraph = lengths[-1], re.search(r"^.*SmolLM2.*$", read("README.md"), re.M).group(0)
        best = language_model.best(log, n)
        self.assertIn(f"{1 / language_model.share(language_model.at_length(log, n)[best]):.1f} times", paragraph)
        for which in (language_model.best, language_model.control):
            self.assertIn(f"{language_model.losses(log, n)[which(log, n)]:.0f} %", paragraph)
        # What is chosen may miss at the longest what it finds at the shortest.
        for which, length in ((language_model.best, lengths[0]), (language_model.best, n), (language_model.control, lengths[0])):
            needles = language_model.at_length(log, length)[which(log, length)]["needles"]
            self.assertIn(f"{needles['found']} of {needles['of']}", paragraph)
        for length in (lengths[0], n):
            self.assertIn(f"{length} tokens", paragraph)
        with tempfile.TemporaryDirectory() as folder:
            tensors = [pathlib.Path(folder) / f"{x}.npy" for x in "qkv"]
            for path in tensors:
                np.save(path, np.random.default_rng(1).standard_normal((n, 1, 4), np.float32))
            asked = [word for x, path in zip(("--query", "--key", "--value"), tensors) for word in (x, path)]
            done = subprocess.run([TOOL, "choose", "--causal", "--quiet", "--seconds", "0", "--variants", "hsa", *asked], capture_output=True, text=True, check=True)
        self.assertIn(f" begin with {language_model.best(log, n, alike=True)}: ", done.stdout)

    def test_what_nothing_beats_in_both(self):
        found = language_model.front({"cheap": (1, 9.0), "dear": (3, 5.0), "worse": (4, 6.0), "beaten": (2, 9.0), "equal": (3, 7.0), "best": (5, 4.0)})
        self.assertEqual(list(found), ["cheap", "dear", "best"])
        row = lambda name, keys, x, y: {"attention": name, "tokens": 8, "keys": keys, "perplexity": {"a": x, "b": y}}  # noqa: E731
        rows = [row("sdpa", 8, 10, 10), row("0=dense,rest=fenwick", 2, 11, 10.5), row("rest=fenwick", 2, 10.1, 10.1),
                row("window:left=1:global=1", 2, 12, 12), row("bpt", 3, 10, 10)]  # fmt: skip
        self.assertEqual([language_model.best({"rows": rows}, 8, alike=a) for a in (False, True)], ["rest=fenwick", "window:left=1:global=1"])
        self.assertIn("The goal was 3.5 % of each text: met.", language_model.goals_said({"rows": rows}, 8))
        rows[2] = row("rest=fenwick", 2, 9, 10.4)  # less on the mean, but one text loses more than the goal
        self.assertIn("(a -10.0, b 4.0). The goal was 3.5 % of each text: missed.", language_model.goals_said({"rows": rows}, 8))

    def test_the_page_of_models_is_made_of_the_logs(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "models.md"
            subprocess.run([sys.executable, ROOT / "docs" / "models.py", logs_of("smollm.json"), logs_of("models"), page, folder], check=True)
            self.assertEqual(page.read_text(encoding="utf-8"), read("docs", "models.md"))
            for name in ("characters", "listops", "recall", "distill", "smollm"):
                self.assertEqual((pathlib.Path(folder) / f"models-{name}.svg").read_text(encoding="utf-8"), read("docs", "pictures", f"models-{name}.svg"))

    def test_the_front_page_has_the_figures_of_the_pages(self):
        """ListOps on the expression's tree, by the log; GATConv, by the page of graphs."""
        runs = {row["name"]: row.get("runs") for row in models_recall.load(logs_of("models") / "listops.json")["rows"]}
        tree, dense = (models_recall.mean(runs[name], "accuracy") for name in ("tree", "dense"))
        front = read("README.md")
        self.assertIn(f"HSA solves {tree:.0f} % of ListOps, dense attention {dense:.0f} %", front)
        times = re.search(r"^\| uniform: 20,000 nodes, 300,000 random edges.*?\| PyTorch Geometric \| ([0-9.]+) \|", read("docs", "graphs.md"), re.M).group(1)
        self.assertIn(f"On 300,000 random edges PyTorch Geometric's GATConv takes {times} times as long", front)

    def test_controls_that_recall_are_told(self):
        log = models_recall.load(logs_of("models") / "recall-512.json")
        self.assertIn("the controls do not: ", models_recall.controls_said(log))
        for row in log["rows"]:
            for run in row["runs"] if row["name"] == "mean" else ():
                run["accuracy"] = 99.0
        self.assertIn("the controls do as well: `mean` 99.0 %", models_recall.controls_said(log))
