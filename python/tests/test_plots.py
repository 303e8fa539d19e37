"""The plot and the table of docs/benchmarks.md are those of the dated run."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Plots(unittest.TestCase):
    def test_the_page_shows_the_run(self):
        page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
        date = re.search(r"^## (\d{4}-\d\d-\d\d)$", page, re.M).group(1)
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder) / "plot.svg"
            done = subprocess.run([sys.executable, ROOT / "docs" / "benchmarks.py", ROOT / "bench" / "results" / f"{date}.json", plot], capture_output=True, text=True, check=True)
            self.assertEqual(plot.read_text(encoding="utf-8"), (ROOT / "docs" / "pictures" / "benchmarks.svg").read_text(encoding="utf-8"))
        self.assertGreater(len(done.stdout.splitlines()), 8)
        self.assertIn(done.stdout, page)


if __name__ == "__main__":
    unittest.main()
