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
import models_budgets  # noqa: E402
import models_recall  # noqa: E402


def read(*path):
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def logs_of(name, at=0):
    """The logs that docs/models.md says it is made of; of one language model budgets are first, and then what is the same in all heads."""
    return RESULTS / re.findall(f"bench/results/([0-9-]+-{name})`", read("docs", "models.md"))[at]


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
    def test_choose_says_what_the_study_found(self):
        """What loses least with a quarter of the keys; without budgets, what loses least of what all heads have alike."""
        logs = models_budgets.logs_of(logs_of("smollm.json"))
        n = int(models_budgets.tokens_of(logs))
        found = {name: models_budgets.mean_lost(logs, name) for name in logs["lost"]["by name"] if name not in (models_budgets.DENSE, models_budgets.SIXTH)}
        found = {name: loss for name, loss in found.items() if loss is not None}
        best = min(found, key=found.get)
        log = json.loads(logs_of("smollm.json", 1).read_text(encoding="utf-8"))
        lost = {name: loss for name, loss in language_model.losses(language_model.alike(log), n).items() if "prefill" not in name}
        with tempfile.TemporaryDirectory() as folder:
            tensors = [pathlib.Path(folder) / f"{x}.npy" for x in "qkv"]
            for path in tensors:
                np.save(path, np.random.default_rng(1).standard_normal((n, 1, 4), np.float32))
            asked = [word for x, path in zip(("--query", "--key", "--value"), tensors) for word in (x, path)]
            done = subprocess.run([TOOL, "choose", "--causal", "--quiet", "--seconds", "0", "--variants", "hsa", *asked], capture_output=True, text=True, check=True)
        self.assertIn(f" hga:{re.sub('keys=[0-9.]+', 'budgets=@FILE', best)}: ", done.stdout)
        self.assertIn(f" begin with {min(lost, key=lost.get)} (", done.stdout)

    def test_the_page_of_models_and_the_front_page_are_made_of_the_logs(self):
        logs = [logs_of("smollm.json", 1), logs_of("smollm.json"), logs_of("models")]
        with tempfile.TemporaryDirectory() as folder:
            page, front = (pathlib.Path(folder) / name for name in ("models.md", "README.md"))
            table = models_budgets.FRONT.search(read("README.md")).group(0)
            front.write_text(read("README.md").replace(table, "| SmolLM2, old |\n|---|\n"), encoding="utf-8")
            subprocess.run([sys.executable, ROOT / "docs" / "models.py", *logs, page, folder, front], check=True)
            self.assertEqual(page.read_text(encoding="utf-8"), read("docs", "models.md"))
            self.assertEqual(front.read_text(encoding="utf-8"), read("README.md"))
            for name in ("characters", "listops", "recall", "distill", "smollm"):
                self.assertEqual((pathlib.Path(folder) / f"models-{name}.svg").read_text(encoding="utf-8"), read("docs", "pictures", f"models-{name}.svg"))

    def study(self, **changes):
        """A study of two texts: dense attention, a quarter of the keys, and rows that are cut short."""
        piece = lambda loss, n: {"lost": loss, "error": None, "tokens": n}  # noqa: E731
        paired = {"a": {**piece(0.5, 8), "copies": piece(1.0, 1)}, "b": {**piece(-2.0, 8), "copies": piece(4.0, 3)}}
        depths = lambda *found: {"found": sum(found), "of": len(found), "depths": [{"depth": i, "found": x} for i, x in enumerate(found)]}  # noqa: E731
        row = {"paired": {**paired, **changes.get("paired", {})}, "keys": 2, "needles": depths(*changes.get("found", (True, True, False)))}
        rows = {models_budgets.DENSE: {"needles": depths(True, False, True), "keys": 8}, models_budgets.QUARTER: row, models_budgets.SIXTH: {"paired": {"a": paired["a"]}}}
        time = lambda seconds: {"prefill": {"seconds": seconds, "sdpa": 27.0}}  # noqa: E731
        return {"lost": {"settings": {"texts": "a,b", "tokens": "8"}, "by name": rows},
                "bfloat16": {"by name": {"dense": time(12.0), models_budgets.QUARTER: time(changes.get("seconds", 10.0))}}}  # fmt: skip

    def test_goals_of_budgets_are_judged(self):
        said = models_budgets.goals_said(self.study())
        self.assertIn("at most 1 % is lost on each text; a loses most, 0.50 %: **met**.", said)
        self.assertIn("copied passages; it is 3.24 %: **missed**.", said)  # of four tokens, three of them in b
        self.assertIn("dense attention finds; it is 1 of 2: **missed**.", said)  # what dense attention misses does not count
        self.assertIn("at most 1.5 % is lost on average, and 2.5 % on each text: not measured.", said)  # one text is missing
        self.assertIn("in bfloat16 is at least 2.7 times as fast as with sdpa; it is 2.70 times: **met**.", said)
        self.assertIn("in float32 is at least 1.65 times as fast as with sdpa: not measured.", said)
        self.assertIn("times as fast as with `hga:dense`; it is 1.20 times: **met**.", said)
        said = models_budgets.goals_said(self.study(found=(True, False, True), seconds=11.0, paired={"a": {"lost": 1.01}}))
        self.assertIn("a loses most, 1.01 %: **missed**.", said)
        self.assertIn("copied passages; it is 4.00 %: **missed**.", said)
        self.assertIn("it is 2 of 2: **met**.", said)
        self.assertIn("it is 2.45 times: **missed**.", said)
        self.assertIn("it is 1.09 times: **missed**.", said)

    def test_a_study_may_be_incomplete(self):
        logs = self.study()
        lines = models_budgets.front_table(logs).splitlines()
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines[3], "| `routed`, a quarter of the keys | 2 | -0.8 (0.5) | 2 of 3 | -, 2.70 |")
        self.assertEqual(lines[5].count("|  "), 4)  # the control has no row
        self.assertIn("It is not measured.", models_budgets.control_said(logs))
        self.assertIn("| dense, by hga: `dense` |", models_budgets.study_table(logs))
        for name in ("sdpa", models_budgets.QUARTER, models_budgets.SIXTH, models_budgets.WINDOW):
            for change in (lambda logs, name: logs.pop("bfloat16"), lambda logs, name: logs["lost"]["by name"].pop(name, None)):
                logs = self.study()
                change(logs, name)
                for say in (models_budgets.study_table, models_budgets.front_table, models_budgets.goals_said, models_budgets.control_said):
                    say(logs)

    def test_rows_by_layer_are_not_shown(self):
        rows = [{"attention": name, "tokens": 8, "perplexity": {}} for name in ("sdpa", "0+3-5=dense,rest=fenwick", "rest=fenwick", "window:left=2")]
        self.assertEqual([row["attention"] for row in language_model.alike({"rows": rows})["rows"]], ["sdpa", "window:left=2"])
        self.assertNotIn("dense,", read("docs", "models.md").split("## MiniLM, without")[0].replace("dense, by", ""))

    def test_the_front_page_has_the_figures_of_the_pages(self):
        """ListOps on the expression's tree, by the log."""
        runs = {row["name"]: row.get("runs") for row in models_recall.load(logs_of("models") / "listops.json")["rows"]}
        tree, dense = (models_recall.mean(runs[name], "accuracy") for name in ("tree", "dense"))
        front = read("README.md")
        self.assertIn(f"HSA solves {tree:.0f} % of ListOps, dense attention {dense:.0f} %", front)

    def test_controls_that_recall_are_told(self):
        log = models_recall.load(logs_of("models") / "recall-512.json")
        self.assertIn("the controls do not: ", models_recall.controls_said(log))
        for row in log["rows"]:
            for run in row["runs"] if row["name"] == "mean" else ():
                run["accuracy"] = 99.0
        self.assertIn("the controls do as well: `mean` 99.0 %", models_recall.controls_said(log))
