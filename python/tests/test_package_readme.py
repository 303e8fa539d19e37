"""README's Python runs as pasted, one block after the other, and prints what stands below it."""

import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest

import architectures
from shared import ROOT

README = pathlib.Path(os.environ.get("HGA_SOURCE", ROOT), "README.md")
sys.path.insert(0, str(README.parent / "docs" / "site"))
import c_pages  # noqa: E402

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)


def missing(code):
    """A module that the code imports and that is not here."""
    for name in ("jax", "torch", "transformers"):
        if re.search(rf"\b{name}\b", code):
            try:
                __import__(name)
            except ImportError:
                return name
    return None


class Readme(unittest.TestCase):
    def test_its_blocks_run_and_print_what_they_say(self):
        blocks = BLOCK.findall(README.read_text())
        self.assertGreaterEqual(len(blocks), 3)
        names = {"__name__": "readme"}
        exec("import hga", names)  # the first block does, where torch is
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for code, says in blocks:
                    with self.subTest(code=code.splitlines()[0]):
                        if missing(code):
                            self.skipTest(f"{missing(code)} is not installed")
                        out = io.StringIO()
                        with contextlib.redirect_stdout(out):
                            exec(compile(code, "README.md", "exec"), names)
                        if says:
                            self.assertEqual(out.getvalue(), says)
            finally:
                os.chdir(here)

    def test_it_is_one_page(self):
        prose = re.sub(r"^```.*?^```$|^\|.*?$|^<!--.*?$|^\*Processor time.*?$", "", README.read_text(), flags=re.S | re.M)  # nor tables and their caption
        self.assertLess(len(prose.split()), 520)

    def test_it_counts_the_types_of_models(self):
        """Those that the tests run."""
        n = len(architectures.SERVED) + sum(map(len, architectures.kinds().values()))
        self.assertEqual(re.search(r"\[(\d+) types\]\(docs/models.md#which-architectures-run\)", README.read_text()).group(1), str(n))

    def test_its_first_table_is_of_a_run(self):
        """bench/front.py wrote it: its head, times whose ratio is the one that is shown, and what the others reached in the same run."""
        program = (README.parent / "bench" / "front.py").read_text()
        begin, end, head = (re.search(rf'^.*?{name}.*?"({first}.*?)\\n', program, re.M).group(1) for name, first in (("BEGIN, END", "<!-- bench"), ("BEGIN, END", "<!-- to"), ("HEAD", "\\|")))
        table = README.read_text().split(begin)[1].split(end)[0].strip()
        self.assertTrue(table.startswith(head), table[:100])
        rows = [row.split("|")[1:-1] for row in table.splitlines()[2:] if row.startswith("|")]
        self.assertGreater(len(rows), 5)
        seconds = lambda said: float(said.split()[0]) / (1000 if said.split()[1] == "ms" else 1)  # noqa: E731
        for name, _, theirs, ours, ratio, apart in rows:
            self.assertAlmostEqual(seconds(theirs) / seconds(ours) / float(ratio.strip(" *")), 1, delta=0.06, msg=name)
            self.assertLess(float(apart), 1e-4)
        self.assertRegex(table.splitlines()[-1], r"^\*Processor time of one thread .* GFLOP a second .* sdpa \d+, hga \d+, onnxruntime \d+")

    def test_it_counts_the_functions_of_c(self):
        """Those of the headers, and of the first two parts of the reference in C."""
        found = re.search(r"Of (\d+) functions (\d+) run a published hierarchy and (\d+) make one of your own", README.read_text())
        headers = [*README.parent.glob("*/public/*.h"), *README.parent.glob("*/*/public/*.h"), README.parent / "graph" / "base" / "hga_base.h"]
        declared = sum(len(re.findall("^HGA_API ", header.read_text(), re.M)) for header in headers)
        self.assertEqual([int(n) for n in found.groups()], [declared, *(len(names) for _, _, names in c_pages.PARTS)])
