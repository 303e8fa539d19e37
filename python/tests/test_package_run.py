"""run.py's exit status tells whether facts ran."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).with_name("run.py")
FACTS = {
    "good": "def test_a(self): pass",
    "bad": "def test_a(self): self.fail()",
    "skipped": "@unittest.skip('torch or transformers is not installed')\n    def test_a(self): pass",
    "some": "@unittest.skip('torch is not installed')\n    def test_a(self): pass\n    def test_b(self): pass",
    "browser": "@unittest.skip('Chromium is not installed')\n    def test_a(self): pass\n    def test_b(self): pass",
    "empty": "def no_fact(self): pass",
    "parts": "def test_a(self):\n        with self.subTest(): self.skipTest('torch is not installed')\n        with self.subTest(): pass",
    "whole": "@classmethod\n    def setUpClass(cls): raise unittest.SkipTest('torch is not installed')\n    def test_a(self): pass",
}


class Run(unittest.TestCase):
    def status(self, facts, require=""):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "test_it.py")
            path.write_text(f"import unittest\n\n\nclass Facts(unittest.TestCase):\n    {FACTS[facts]}\n")
            r = subprocess.run([sys.executable, RUN, "test_it"], cwd=folder, env={**os.environ, "HGA_REQUIRE": require},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        return r.returncode

    def test_good_facts_are_0_and_others_1(self):
        self.assertEqual(self.status("good"), 0)
        self.assertEqual(self.status("bad"), 1)

    def test_where_nothing_ran_it_is_skipped(self):
        self.assertEqual(self.status("skipped"), 77)
        self.assertEqual(self.status("whole"), 77)
        self.assertEqual(self.status("some"), 0)
        self.assertEqual(self.status("parts"), 0)

    def test_a_module_without_facts_is_no_success(self):
        self.assertEqual(self.status("empty"), 1)

    def test_what_must_be_here_may_not_be_skipped(self):
        self.assertEqual(self.status("skipped", "transformers"), 1)
        self.assertEqual(self.status("some", "torch,transformers"), 1)
        self.assertEqual(self.status("whole", "torch"), 1)
        self.assertEqual(self.status("some", "transformers"), 0)
        self.assertEqual(self.status("browser", "torch,transformers"), 0)

    def test_a_module_that_is_not_there_is_1(self):
        with tempfile.TemporaryDirectory() as folder:
            r = subprocess.run([sys.executable, RUN, "test_gone"], cwd=folder, stdout=subprocess.DEVNULL)
            self.assertEqual(r.returncode, 1)
