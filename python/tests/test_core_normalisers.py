"""Facts about normaliser=: against weights written out in double, forward and backward, against the tool, and in every way that a
call may go; and what is refused."""

import importlib.util
import os
import subprocess
import tempfile
import unittest

import hga
import numpy as np

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import hga.torch
    import torch

N, HEADS, KV, D = 40, 4, 2, 9
WORDS = ("sigmoid", "sigmoid:-1.5", "entmax:1.05", "entmax:1.3", "entmax:1.5", "entmax:2")


def made(seed=5):
    r = np.random.default_rng(seed)
    q, k, v = (r.standard_normal((h, N, D)).astype("f4") for h in (HEADS, KV, KV))
    return q, k, v, np.array([0.5, 0.25, 0.0, 0.1], "f4"), r.standard_normal((HEADS, N, D)).astype("f4")


def weights_of(s, words):
    """Of rows of scores in double, -inf: not seen."""
    name, _, x = words.partition(":")
    if name == "softmax":
        w = np.exp(s - s.max(-1, keepdims=True))
        return w / w.sum(-1, keepdims=True)
    if name == "sigmoid":
        return 1 / (1 + np.exp(-(s + float(x or 0))))
    a = float(x) - 1
    below, above = a * s.max(-1, keepdims=True) - 1, a * s.max(-1, keepdims=True)
    p = lambda tau: np.maximum(a * s - tau, 0) ** (1 / a)  # noqa: E731
    for _ in range(200):  # tau by halving
        middle = (below + above) / 2
        more = p(middle).sum(-1, keepdims=True) > 1
        below, above = np.where(more, middle, below), np.where(more, above, middle)
    return p(below)


def written_out(q, k, v, words, slopes=None, softcap=None, left=6):
    q, k, v = (x.astype("f8") for x in (q, k, v))
    k, v = (np.repeat(x, HEADS // KV, 0) for x in (k, v))
    i = np.arange(N)
    s = q @ np.swapaxes(k, -1, -2) / D**0.5
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = s if slopes is None else s - np.asarray(slopes, "f8")[:, None, None] * np.abs(i[:, None] - i)
    seen = (i[:, None] >= i) & (i[:, None] - i <= left)
    with np.errstate(over="ignore"):
        return weights_of(np.where(seen, s, -np.inf), words) @ v


class Normalised(unittest.TestCase):
    def setUp(self):
        self.h = hga.window(N, left=6, right=0, causal=True)

    def test_weights_are_those_written_out(self):
        q, k, v, slopes, _ = made()
        for words in WORDS + ("softmax", "entmax:1"):
            for more in ({}, dict(slopes=slopes, softcap=0.75)):
                out = self.h.attention(q, k, v, normaliser=words, **more)
                want = written_out(q, k, v, "softmax" if words == "entmax:1" else words, **more)
                self.assertLess(np.abs(out - want).max(), 2e-6, (words, more))

    def test_gradients_are_slopes_of_what_is_written_out(self):
        q, k, v, slopes, d = made()
        r = np.random.default_rng(1)
        for words in WORDS:
            for more in ({}, dict(slopes=slopes, softcap=0.75)):
                grads = self.h.gradient(q, k, v, d, normaliser=words, **more)
                inputs = {"query": q, "key": k, "value": v, **({"slopes": slopes} if more else {})}
                self.assertEqual(set(grads), set(inputs))
                for name in inputs:
                    way = r.standard_normal(inputs[name].shape)

                    def loss(x, name=name, way=way, inputs=inputs, words=words, more=more):
                        at = {n: a.astype("f8") + (x * way if n == name else 0) for n, a in inputs.items()}
                        given = {**more, **({"slopes": at["slopes"]} if more else {})}
                        return (written_out(at["query"], at["key"], at["value"], words, **given) * d).sum()

                    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
                    self.assertLess(abs(slope - (grads[name] * way).sum()), 2e-4 * max(1, abs(slope)), (words, name, more))

    def test_zeros_are_exact_and_their_values_are_not_read(self):
        q, k, v, _, _ = made()
        row = self.h.weights(q, k, 20, 1, normaliser="entmax:2")
        self.assertAlmostEqual(row.sum(), 1, places=12)
        zeros = np.flatnonzero(row[14:21] == 0) + 14
        self.assertTrue(len(zeros))
        v[:, zeros] = np.nan
        self.assertTrue(np.isfinite(self.h.attention(q, k, v, normaliser="entmax:2")[0:2, 20]).any())
        self.assertTrue(np.isfinite(self.h.attention(q, k, v, normaliser="entmax:2")[1, 20]).all())

    def test_both_spellings_are_one_argument(self):
        q, k, v, _, d = made()
        out = self.h.attention(q, k, v, normaliser="entmax:1.5")
        self.assertTrue(np.array_equal(self.h.attention(q, k, v, normalizer="entmax:1.5"), out))
        one, other = (self.h.gradient(q, k, v, d, **{name: "sigmoid:-1"}) for name in ("normaliser", "normalizer"))
        self.assertTrue(all(np.array_equal(one[name], other[name]) for name in one))
        with self.assertRaisesRegex(hga.Error, "are one argument"):
            self.h.attention(q, k, v, normaliser="softmax", normalizer="softmax")

    def test_bits_are_those_of_the_tool(self):
        tool = os.environ.get("HGA_TOOL")
        if not tool:
            self.skipTest("HGA_TOOL names no hga")
        q, k, v, slopes, d = made()
        cases = [("window", ["-p", "left=6", "-p", "right=0", "-p", "causal=1"], self.h, w) for w in WORDS]
        cases += [("htransformer", ["-p", "block=4"], hga.htransformer(N, block=4), w) for w in WORDS[:2]]
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name + ".npy")  # noqa: E731
            for name, x in (("q", q), ("k", k), ("v", v), ("d", d)):
                np.save(at(name), np.ascontiguousarray(x.swapaxes(0, 1)))
            np.save(at("slopes"), slopes)
            given = [f"--{name}={at(name[0])}" for name in ("query", "key", "value")]
            grads = [f"--grad-out={at('d')}"] + [f"--grad-{n}={at('d' + n)}" for n in ("query", "key", "value", "slopes")]
            for variant, settings, h, words in cases:
                more = ["--threads=1", f"--normaliser={words}", f"--slopes={at('slopes')}", f"--out={at('out')}"]
                subprocess.run([tool, "attend", variant, *settings, *given, *more, *grads, "--quiet"], check=True)
                out = h.attention(q, k, v, normaliser=words, slopes=slopes, threads=1)
                self.assertTrue(np.array_equal(np.load(at("out")).swapaxes(0, 1), out), (variant, words))
                found = h.gradient(q, k, v, d, normaliser=words, slopes=slopes, threads=1)
                for name, x in found.items():
                    x = x.swapaxes(0, 1) if x.ndim == 3 else x
                    self.assertTrue(np.array_equal(np.load(at("d" + name)), x), (variant, words, name))

    def test_what_means_nothing_is_refused(self):
        q, k, v, slopes, _ = made()
        levels, hsa = hga.htransformer(N, block=4), hga.hsa(N, branching=[2, 4])
        paper = hga.hsa(N, branching=[2, 4], causal=True, mode="self")
        for text, h, more in (
            ("normaliser 'entmax' is not one of: softmax sigmoid", self.h, dict(normaliser="entmax")),
            ("normaliser 'softmax:1' is not one of", self.h, dict(normaliser="softmax:1")),
            ("normaliser 'sigmoid:' is not one of", self.h, dict(normaliser="sigmoid:")),
            ("normaliser 'relu' is not one of", self.h, dict(normaliser="relu")),
            ("alpha 3 is not 1 and not from 1.05 to 2", self.h, dict(normaliser="entmax:3")),
            ("alpha nan is not 1 and not", self.h, dict(normaliser="entmax:nan")),
            ("normaliser 'sigmoid:x': 'x' is not a number", self.h, dict(normaliser="sigmoid:x")),
            ("inf does not fit float32", self.h, dict(normaliser="sigmoid:inf")),
            ("1e39 does not fit float32", self.h, dict(normaliser="sigmoid:1e39")),
            ("normaliser is 1.5, not a text", self.h, dict(normaliser=1.5)),
            ("merges states, which entmax's rows cannot be", levels, dict(normaliser="entmax:1.5")),
            ("entmax of energies is not defined on causal graphs", paper, dict(normaliser="entmax:1.5")),
            ("dropout: entmax of energies has none", hsa, dict(normaliser="entmax:1.5", dropout=0.1)),
            ("softcap: the program.s scores are those of an energy", hsa, dict(normaliser="entmax:1.5", softcap=2.0)),
            ("reads log-sum-exps, which normaliser sigmoid has not", hsa, dict(normaliser="sigmoid")),
            ("sink: the program's output has no log-sum-exp", self.h, dict(normaliser="sigmoid", sink=slopes)),
            ("this program.s output has no log-sum-exp", self.h, dict(normaliser="entmax:2", lse=True)),
        ):
            with self.assertRaisesRegex(hga.Error, text):
                h.attention(q, k, v, **more)
        with self.assertRaisesRegex(hga.Error, "weights has no normalise= *: did you mean 'normaliser'"):
            self.h.weights(q, k, 1, normalise="softmax")

    def test_trees_by_head_have_normalisers(self):
        q, k, v, _, _ = made()
        leaf = np.random.default_rng(0).integers(0, 4, (N, HEADS)).astype("i4")
        h = hga.treeformer_fine(N, query_leaf=leaf, key_leaf=leaf)
        out = h.attention(q, k, v, normaliser="entmax:1.5")
        for head in range(HEADS):
            one = hga.treeformer_fine(N, query_leaf=leaf[:, head].copy(), key_leaf=leaf[:, head].copy())
            want = one.attention(q[head], k[head // 2], v[head // 2], normaliser="entmax:1.5")
            self.assertLess(np.abs(out[head] - want).max(), 1e-6)

    def test_a_program_keeps_its_normaliser_in_json(self):
        q, k, v, _, _ = made()
        p = hga.Program(self.h.graph)
        p.attention()
        p.normalise("entmax:1.5")
        out = self.h.attention(q, k, v, normaliser="entmax:1.5")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "h.json")
            p.hierarchy().write(path)
            again = hga.read(path)
        self.assertTrue(np.array_equal(again.attention(q, k, v), out))
        self.assertTrue(np.array_equal(again.attention(q, k, v, normaliser="softmax"), self.h.attention(q, k, v)))
        with self.assertRaisesRegex(hga.Error, "a program has no bias"):
            p.normalise("sigmoid:-2")


@unittest.skipUnless(TORCH, "torch is not installed")
class InTorch(unittest.TestCase):
    def setUp(self):
        self.h = hga.window(N, left=6, right=0, causal=True)
        self.q, self.k, self.v, self.slopes, self.d = made()

    def tensors(self):
        return [torch.from_numpy(x.copy()).requires_grad_() for x in (self.q, self.k, self.v, self.slopes)]

    def test_gradients_are_those_of_numpy_in_every_way(self):
        for words in ("sigmoid:-1.5", "entmax:1.5"):
            want = self.h.gradient(self.q, self.k, self.v, self.d, normaliser=words, slopes=self.slopes, threads=1)
            out = self.h.attention(self.q, self.k, self.v, normaliser=words, slopes=self.slopes, threads=1)

            def run(q, k, v, slopes, words=words):
                return self.h.attention(q, k, v, slopes=slopes, normaliser=words, threads=1)

            compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
            for way in (run, compiled):
                given = self.tensors()
                y = way(*given)
                self.assertTrue(np.array_equal(y.detach().numpy(), out), words)
                y.backward(torch.from_numpy(self.d))
                for x, name in zip(given, ("query", "key", "value", "slopes")):
                    self.assertTrue(np.array_equal(x.grad.numpy(), want[name]), (words, name))
            plain = [x.detach() for x in self.tensors()]
            pairs = [torch.stack([x, 2 * x]) for x in plain[:3]]
            mapped = torch.vmap(lambda q, k, v, words=words, s=plain[3]: run(q, k, v, s, words))(*pairs)
            self.assertTrue(np.array_equal(mapped[0].numpy(), out))
            without = self.h.attention(*plain[:3], normaliser=words)
            self.assertTrue(np.array_equal(without.numpy(), self.h.attention(self.q, self.k, self.v, normaliser=words)))

    def test_sixteen_bits_and_threads_go_along(self):
        q, k, v = (torch.from_numpy(x).bfloat16() for x in (self.q, self.k, self.v))
        for words in ("sigmoid:-1.5", "entmax:1.5"):
            want = written_out(*(x.float().numpy() for x in (q, k, v)), words)
            out = self.h.attention(q, k, v, normaliser=words, threads=2)
            self.assertEqual(out.dtype, torch.bfloat16)
            self.assertLess(np.abs(out.float().numpy() - want).max(), 2e-2)

    def test_modules_take_them(self):
        for spec in ("window:left=6:right=6", hga.window(N, left=6, right=6)):
            torch.manual_seed(0)
            m = hga.torch.Attention(spec, 36, 4, kv_heads=2, normaliser="entmax:1.5")
            x = torch.randn(2, N, 36)
            q, k, v = m.project(x).view(2, N, 8, 9).split((4, 2, 2), 2)
            h = hga.window(N, left=6, right=6)
            y = h.attention(*(t.transpose(1, 2) for t in (q, k, v)), normaliser="entmax:1.5")
            self.assertLess((m(x) - m.out(y.transpose(1, 2).reshape(2, N, 36))).abs().max(), 1e-6)
            m(x).sum().backward()
            self.assertGreater(m.project.weight.grad.abs().max(), 0)
        with self.assertRaisesRegex(hga.Error, "alpha 5 is not 1"):
            hga.torch.Attention("dense", 36, 4, normalizer="entmax:5")
