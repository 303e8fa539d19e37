"""Graph.from_mask of an array and of a predicate is one graph, and attends as the mask says."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import hga
import numpy as np
from shared import TOOL, attention, needs_tool

RNG = np.random.default_rng(5)


def pairs(graph):
    """[queries][keys]: which are edges, by the list of edges."""
    n = graph.n_nodes
    found = np.zeros((n, n), bool)
    e = graph.edges()
    found[e[:, 1], e[:, 0]] = True
    return found


def images(q, k, width=8):
    return (abs(q // width - k // width) <= 1) & (abs(q % width - k % width) <= 1)


PREDICATES = {
    "all": lambda q, k: (q >= 0) & (k >= 0),
    "causal": lambda q, k: k <= q,
    "window": lambda q, k: (k <= q) & (q - k < 7),
    "prefix": lambda q, k: (k < 9) | (k <= q),
    "documents": lambda q, k: (q // 11 == k // 11) & (k <= q),
    "dilated": lambda q, k: (q - k) % 5 == 0,
    "images": images,
    "anything": lambda q, k: (q * 7 + k * k * 3) % 11 < 4,
}


class Masks(unittest.TestCase):
    def test_predicates_and_arrays_are_one_graph(self):
        q, k = np.arange(56)[:, None], np.arange(56)[None, :]
        for name, sees in PREDICATES.items():
            with self.subTest(name):
                mask = sees(q, k)
                g = hga.Graph.from_mask(sees, n=56)
                self.assertEqual(g, hga.Graph.from_mask(mask))
                self.assertEqual(g, hga.Graph.from_mask(np.asfortranarray(mask)))
                wide = np.ones((56, 70), bool)
                wide[:, :56] = mask
                self.assertEqual(g, hga.Graph.from_mask(wide[:, :56]))
                np.testing.assert_array_equal(pairs(g), mask)

    def test_attention_over_any_mask(self):
        q, k, v = (RNG.standard_normal((2, 56, 5)).astype(np.float32) for _ in range(3))
        d_out = RNG.standard_normal((2, 56, 5)).astype(np.float32)
        for name, sees in PREDICATES.items():
            with self.subTest(name):
                h = hga.Graph.from_mask(sees, n=56).hierarchy()
                mask = sees(np.arange(56)[:, None], np.arange(56)[None, :])
                np.testing.assert_allclose(h.attention(q, k, v), attention(q, k, v, mask), atol=3e-6)
                # finite differences along the value, of which the output is a linear function
                grad = h.gradient(q, k, v, d_out)["value"]
                step = RNG.standard_normal(v.shape).astype(np.float32)
                moved = (attention(q, k, step, mask) * d_out).sum()
                self.assertAlmostEqual(float((grad * step).sum()), float(moved), delta=1e-4)

    def test_crossed_masks(self):
        mask = RNG.random((7, 19)) < 0.5
        mask[3] = False
        g = hga.Graph.from_mask(mask)
        self.assertEqual(g, hga.Graph.from_mask(lambda q, k: mask[q, k], n=(7, 19)))
        q, k, v = (RNG.standard_normal((2, n, 4)).astype(np.float32) for n in (7, 19, 19))
        out = g.hierarchy().attention(q, k, v)
        np.testing.assert_allclose(out, attention(q, k, v, mask), atol=3e-6)
        np.testing.assert_array_equal(out[:, 3], 0)
        self.assertEqual(hga.Graph.from_mask(np.ones((6, 6), bool), cross=True).n_nodes, 12)

    def test_types_by_distance(self):
        g = hga.Graph.from_mask(lambda q, k: k <= q, n=(20, 30), relative=True)
        e = g.edges()
        np.testing.assert_array_equal(e[:, 2], e[:, 1] - (e[:, 0] - 20) + 29)

    def test_what_is_regular_takes_no_room(self):
        n = 4096
        g = hga.Graph.from_mask(lambda q, k: (k <= q) & (q - k < 256), n=n)
        self.assertEqual(g.n_edges(), 256 * n - 256 * 255 // 2)
        self.assertLess(g.hierarchy().inspect()["bytes"], 100 * n)
        image = hga.Graph.from_mask(lambda q, k: images(q, k, 64), n=n)
        self.assertLess(image.hierarchy().inspect()["bytes"], 100 * n)

    def test_claims_are_true(self):
        self.assertTrue(hga.Graph.from_mask(PREDICATES["window"], n=40).hierarchy().check()["causal"])
        self.assertFalse(hga.Graph.from_mask(PREDICATES["prefix"], n=40).hierarchy().check()["causal"])
        h = hga.Graph.from_mask(PREDICATES["documents"], n=40).hierarchy()
        self.assertEqual(h.coverage(causal=True).later, 0)
        self.assertEqual(h.coverage().once, h.graph.n_edges())
        self.assertIn("<svg", h._repr_svg_())
        self.assertIn("<html", h.view())

    def test_refused(self):
        for error, words, call in (
            (TypeError, "float64", lambda: hga.Graph.from_mask(np.ones((3, 3)))),
            (ValueError, r"\(3,\)", lambda: hga.Graph.from_mask(np.ones(3, bool))),
            (ValueError, "needs n=", lambda: hga.Graph.from_mask(PREDICATES["all"])),
            (ValueError, "sizes are its own", lambda: hga.Graph.from_mask(np.ones((3, 3), bool), n=3)),
            (TypeError, "n is 3.5", lambda: hga.Graph.from_mask(PREDICATES["all"], n=3.5)),
            (TypeError, "int64", lambda: hga.Graph.from_mask(lambda q, k: q - k, n=3)),
            (TypeError, "relative", lambda: hga.Graph.from_mask(PREDICATES["all"], n=3, relative="yes")),
            (ZeroDivisionError, "", lambda: hga.Graph.from_mask(lambda q, k: 1 // 0, n=3)),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()


@needs_tool
class Files(unittest.TestCase):
    def test_the_tool_reads_masks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "mask.npy"))
            mask = PREDICATES["documents"](np.arange(44)[:, None], np.arange(44)[None, :])
            np.save(path, mask)
            self.assertEqual(hga.Graph.read(path), hga.Graph.from_mask(mask))
            q = RNG.standard_normal((44, 2, 8)).astype(np.float32)
            np.save(folder + "/q.npy", q)
            run = lambda *words: subprocess.run([TOOL, *words], capture_output=True, text=True, check=True, cwd=folder).stdout  # noqa: E731
            self.assertIn(str(int(mask.sum())), run("inspect", "mask.npy"))
            run("check", "mask.npy")
            run("export", "mask.npy", "--format", "dot", "-o", "mask.dot")
            run("view", "mask.npy", "-o", "mask.html")
            self.assertGreater(os.path.getsize(folder + "/mask.html"), 10000)
            run("attend", "graph=mask.npy", "--query", "q.npy", "--key", "q.npy", "--value", "q.npy", "--out", "o.npy")
            rows = q.transpose(1, 0, 2)
            want = attention(rows, rows, rows, mask).transpose(1, 0, 2)
            np.testing.assert_allclose(np.load(folder + "/o.npy"), want, atol=3e-6)
