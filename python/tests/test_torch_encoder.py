"""Nodes keep their kinds, and the hierarchical transformer encoder reads them as its formula says."""

import contextlib
import io
import os
import pathlib
import pickle
import sys
import tempfile
import unittest
from unittest import mock

import hga
import numpy as np
from shared import ROOT, needs, package, torch

sys.path.insert(0, str(ROOT / "examples" / "python"))
ht = package("hga.torch")

PARENT = [4, 5, 4, 5, 6, 6, -1]  # rows depth-first: leaves 0 and 2, then 1 and 3


def of_two_kinds():
    return hga.hsa(parent=PARENT).with_kinds(["word", "patch", "word", "patch", None, None, "page"])


class Kinds(unittest.TestCase):
    def test_nodes_have_kinds_by_the_callers_numbers(self):
        h = of_two_kinds()
        self.assertEqual(h.graph.kind_names, ["word", "patch", "page"])
        self.assertEqual(h.kinds.tolist(), [0, 1, 0, 1, -1, -1, 2])
        self.assertEqual(h.graph.kinds().tolist(), [0, 0, 1, 1, -1, -1, 2])
        self.assertEqual(h.with_kinds([None, "sound"]).kinds.tolist(), [0, 3, 0, 1, -1, -1, 2])
        self.assertEqual(hga.dense(3).kinds.tolist(), [-1, -1, -1])

    def test_files_copies_and_batches_keep_them_and_graphs_with_others_are_others(self):
        h = of_two_kinds()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "h.json")
            h.write(path)
            self.assertEqual(hga.read(path).graph, h.graph)
        self.assertEqual(pickle.loads(pickle.dumps(h)).kinds.tolist(), h.kinds.tolist())
        self.assertEqual(hga.concatenated([h, h]).kinds.tolist(), 2 * h.kinds.tolist())
        self.assertNotEqual(hga.hsa(parent=PARENT).graph, h.graph)
        q, k, v = np.random.default_rng(1).standard_normal((3, 2, 4, 8)).astype(np.float32)
        self.assertTrue(np.array_equal(hga.hsa(parent=PARENT).attention(q, k, v), h.attention(q, k, v)))

    def test_a_builder_takes_them_and_pages_have_their_colours(self):
        b = hga.Builder()
        tokens = b.level(5)
        b.block(b.relation("near"), (tokens, 5), (tokens, 5))
        b.kinds(1, 2, "patch")
        h = b.finish().hierarchy()
        self.assertEqual(h.kinds.tolist(), [-1, 0, 0, -1, -1])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "h.html")
            h.view(path)
            page = pathlib.Path(path).read_text(encoding="utf-8")
        self.assertIn('"kinds": {"names": ["patch"], "colours": ["#3b7dd8"]', page)

    def test_what_is_no_kind_is_refused(self):
        h = hga.hsa(parent=PARENT)
        for error, text, kinds in ((TypeError, "not a list of names", "word"), (TypeError, "a kind is 3, not a name", [3]), (hga.Error, "1 to 63 bytes", [""]),
                                   (ValueError, "8 kinds for 7 nodes", 8 * ["word"])):  # fmt: skip
            with self.assertRaisesRegex(error, text):
                h.with_kinds(kinds)


@needs("torch")
class Encoder(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.h, self.x = of_two_kinds(), torch.randn(2, 4, 16)

    def test_each_kind_has_its_projection(self):
        m = ht.KindLinear(16, 5, ["patch", "word"])
        y = m(self.x, self.h)
        torch.testing.assert_close(y[:, :2], m.each[1](self.x[:, :2]))
        torch.testing.assert_close(y[:, 2:], m.each[0](self.x[:, 2:]))
        one = ht.KindLinear(16, 5, ["token"])
        torch.testing.assert_close(one(self.x, self.h), one.each[0](self.x))

    def test_a_layer_is_its_formula(self):
        for normaliser in (None, "entmax:1.5"):
            m = ht.HierarchicalEncoderLayer(16, 4, ["word", "patch"], normaliser=normaliser)
            q, k, v = m.project(self.x, self.h).view(2, 4, 3, 4, 4).unbind(2)
            q, k = m.query_norm(q), m.key_norm(k)
            o = self.h.attention(*(t.transpose(1, 2) for t in (q, k, v)), normaliser=normaliser).transpose(1, 2)
            y = q.reshape(2, 4, 16) + m.out(o.reshape(2, 4, 16))
            torch.testing.assert_close(m(self.x, self.h), y + m.network(y))
            torch.testing.assert_close(q.square().sum(-1), torch.full((2, 4, 4), 4.0), rtol=1e-3, atol=1e-3)

    def test_positions_go_through_a_projection_of_the_layer(self):
        m, at = ht.HierarchicalEncoderLayer(16, 4, ["word", "patch"], positions=3), torch.randn(7, 3, requires_grad=True)
        m(self.x, self.h, at).sum().backward()
        self.assertGreater(float(at.grad.abs().sum()), 0)
        self.assertGreater(float(m.position.weight.grad.abs().sum()), 0)
        with self.assertRaisesRegex(ValueError, "node_pos is missing, positions=3"):
            m(self.x, self.h)

    def test_families_of_leaves_are_pooled_and_documents(self):
        p, c = ht.pool_leaves(self.x, self.h)
        torch.testing.assert_close(p, torch.stack([self.x[:, :2].mean(1), self.x[:, 2:].mean(1)], 1))
        self.assertEqual([c.graph.kind_names[k] for k in c.kinds], ["word", "patch", "page"])
        p, c = ht.pool_leaves(p, c)
        torch.testing.assert_close(p[:, 0], self.x.mean(1))
        with self.assertRaisesRegex(ValueError, "no family of leaves alone is left"):
            ht.pool_leaves(p, c)
        ragged = hga.hsa(parent=[3, 3, 4, 4, 7, 6, 7, -1])  # a leaf beside an inner node stays
        p, c = ht.pool_leaves(torch.arange(4.0).view(1, 4, 1), ragged)
        self.assertEqual((p.flatten().tolist(), c.graph.n_tokens), ([0.0, 1.5, 3.0], 3))
        settled = hga.hsa(parent=PARENT).strict_rows()
        settled.threads = 3
        c = ht.pool_leaves(self.x, settled)[1]
        self.assertEqual((c.threads, c._strict), (3, settled._strict))
        self.assertEqual(ht.pool_leaves(self.x, hga.hsa(parent=PARENT))[1].threads, self.h.threads)
        two = hga.concatenated([self.h, self.h])
        both = ht.pool_samples(torch.cat([self.x[:1], self.x[1:]], 1), two)
        torch.testing.assert_close(both[0], self.x.mean(1))

    def test_a_batch_of_documents_is_each_by_itself(self):
        m = ht.HierarchicalEncoder(16, 4, 2, ["word", "patch"], pool=[0]).eval()
        two = hga.concatenated([self.h, self.h])
        together = m(torch.cat([self.x[:1], self.x[1:]], 1), two)[0]
        torch.testing.assert_close(together, m(self.x, self.h)[:, 0], rtol=1e-4, atol=1e-5)

    def test_what_cannot_be_is_refused(self):
        layer = lambda kinds, **more: ht.HierarchicalEncoderLayer(16, 4, kinds, **more)  # noqa: E731
        for error, text, f in (
            (ValueError, "tokens are of kind 'patch', projections were made for word, sound", lambda: layer(["word", "sound"])(self.x, self.h)),
            (ValueError, "token 0 is of no kind: with_kinds tells which of a, b it is", lambda: layer(["a", "b"])(self.x, hga.hsa(parent=PARENT))),
            (ValueError, "at least one, and each once", lambda: layer(["a", "a"])),
            (TypeError, "not a list of names", lambda: layer("word")),
            (ValueError, "x has 4 tokens", lambda: layer(["word"])(self.x, hga.hsa(9, branching=[3]))),
            (ValueError, "leaves are pooled of hsa without causal", lambda: ht.pool_leaves(self.x, hga.hsa(4, branching=[2, 2], causal=True))),
            (ValueError, "leaves are pooled of hsa", lambda: ht.pool_leaves(self.x, hga.htransformer(4, block=2))),
            (ValueError, "layers is 0", lambda: ht.HierarchicalEncoder(16, 4, 0)),
            (ValueError, "pool names layer 2 of 2", lambda: ht.HierarchicalEncoder(16, 4, 2, pool=[2])),
        ):
            with self.assertRaisesRegex(error, text):
                f()

    def test_the_example_learns(self):
        import documents

        right, losses = documents.learn(documents.KINDS, 60, 1, batch=8, check=30)
        self.assertLess(np.mean(losses[-10:]), 0.8 * np.mean(losses[:10]))
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["documents.py", "--steps", "2"]), contextlib.redirect_stdout(out):
            documents.main()
        self.assertEqual(out.getvalue().count("% right"), 3)
