"""The plots, tables and losses of README and docs/benchmarks.md are those of the dated runs."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"


def read(*path):
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


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

    def test_the_losses_of_the_front_page(self):
        """Three decimals, by the attention's name, of the run that the page of losses holds, with its command; README points there."""
        run = read("bench", "results", "2026-11-24-characters.md")
        readme = read("README.md")
        self.assertRegex(run, r"(?m)^python3 examples/python/characters\.py --context \d+ --attention .*$")
        self.assertIn("(bench/results/2026-11-24-characters.md)", readme)
        losses = dict(re.findall(r"^(\w[\w:=]*) +(\d\.\d\d\d) +\d\.\d\d\d +\d\.\d\d\d +\d+$", run, re.M))
        self.assertEqual(len(losses), 5)
        line = re.search(r"^.*nats.*$", readme, re.M | re.I).group(0)
        self.assertEqual(sorted(re.findall(r"\d\.\d\d\d", line)), sorted(set(losses.values())))

    def test_the_page_of_models_is_made_of_the_logs(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "models.md"
            logs = RESULTS / re.search(r"bench/results/([0-9-]+-models)", read("docs", "models.md")).group(1)
            subprocess.run([sys.executable, ROOT / "docs" / "models.py", logs, page, folder], check=True)
            self.assertEqual(page.read_text(encoding="utf-8"), read("docs", "models.md"))
            for name in ("characters", "listops", "distill"):
                self.assertEqual((pathlib.Path(folder) / f"models-{name}.svg").read_text(encoding="utf-8"), read("docs", "pictures", f"models-{name}.svg"))


if __name__ == "__main__":
    unittest.main()
