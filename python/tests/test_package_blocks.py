"""Every block of Python on a page of docs/ runs as it is pasted: by itself, in an empty folder. README's are for test_package_readme.py."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from shared import ROOT

OUTSIDE = ("torch", "transformers", "scipy", "networkx", "igraph", "ml_dtypes", "onnx", "jax")
# One process runs all of them: what a block leaves behind would be no name in a new namespace, and importing torch again takes seconds.
RUN = """
import os, sys, traceback
for path in sys.argv[1:]:
    os.makedirs(path + ".run")
    os.chdir(path + ".run")
    try:
        exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
    except BaseException:
        print("FAILED", path)
        traceback.print_exc(file=sys.stdout)
print("ran to the end")
"""


def blocks():
    """(page:line, code) of every page a reader may paste from."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        said = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^( *)```python\n(.*?)^ *```", said, re.S | re.M):
            yield f"{page.name}:{said[: match.start()].count(chr(10)) + 1}", textwrap.dedent(match.group(2))


def missing(code):
    """What a block imports that is not here."""
    named = [name for line in re.findall(r"^ *(?:import|from) (.*)$", code, re.M) for name in re.findall(r"\w+", line)]
    return sorted(n for n in set(named) & set(OUTSIDE) if importlib.util.find_spec(n) is None)


class Blocks(unittest.TestCase):
    def run_all(self, given):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for i, (_, code) in enumerate(given):
                paths.append(os.path.join(folder, f"block{i}.py"))
                pathlib.Path(paths[-1]).write_text(code, encoding="utf-8")
            done = subprocess.run([sys.executable, "-c", RUN, *paths], capture_output=True, text=True)
        said = done.stdout
        for i, (where, _) in enumerate(given):
            said = said.replace(os.path.join(folder, f"block{i}.py"), where)
        return said, done

    def test_every_block_runs(self):
        here = [(where, code) for where, code in blocks() if not missing(code)]
        self.assertGreater(len(here), 12)
        said, done = self.run_all(here)
        self.assertNotIn("FAILED", said, said[-2000:])
        self.assertIn("ran to the end", said, done.stderr)

    def test_those_of_torch_and_transformers_ran(self):
        left = {name for _, code in blocks() for name in missing(code)}
        if left:
            self.skipTest(f"{', '.join(sorted(left))} not installed: blocks that import it did not run")

    def test_a_block_that_fails_is_noticed(self):
        said, _ = self.run_all([("here:1", "x = 1"), ("here:2", "print(x)"), ("here:3", "raise SystemExit")])
        self.assertNotIn("FAILED here:1", said)
        self.assertIn("FAILED here:2", said)
        self.assertIn("FAILED here:3", said)
