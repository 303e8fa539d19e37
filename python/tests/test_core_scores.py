"""Weights are those of their definition, written out in double, whatever a call says of its scores: normaliser=, scale=,
softcap=, sink=, slopes= and additive scores; forward and backward, against the tool, in every way that a call may go; what
means nothing is refused."""

import itertools
import os
import pickle
import subprocess
import tempfile
import unittest

import hga
import numpy as np
from shared import TOOL, as_numpy, attention, log_sum_exp, needs, needs_tool, normal, package, refused, torch

N, HEADS, KV, DIM, DIM_V, LEAK = 24, 4, 2, 6, 5, 0.2
SEEN = (lambda back: (back >= 0) & (back <= 6))(np.arange(N)[:, None] - np.arange(N))  # of a window
WORDS = ("sigmoid", "sigmoid:-1.5", "entmax:1.05", "entmax:1.3", "entmax:1.5", "entmax:2")
SINK, SLOPES = np.array([0.5, -1.0, 2.0, -np.inf], "f4"), np.array([0.5, 0.25, 0.0, 0.1], "f4")
(ADDITIVE,) = normal(5, (HEADS, DIM))
MODIFIERS = dict(sink=SINK, slopes=SLOPES, softcap=0.75)
SCALES = (None, 0.0, -1.0, 0.7)
INPUTS = ("query", "key", "value")


def window(n=N):
    return hga.window(n, left=6, right=0, causal=True)


def made(batch=()):
    return dict(zip(INPUTS, normal(4, (*batch, HEADS, N, DIM), (*batch, KV, N, DIM), (*batch, KV, N, DIM_V))))


def cases():
    """(hierarchy, the options of a call, its tables by name)"""
    for words in ("softmax", "entmax:1", *WORDS):
        yield window(), dict(normaliser=words), {}
        yield window(), dict(normaliser=words, softcap=0.75), dict(slopes=SLOPES)
    for names in ("sink",), ("slopes",), ("softcap",), ("sink", "slopes", "softcap"):
        more = {name: MODIFIERS[name] for name in names}
        yield window(), {name: more.pop(name) for name in ("softcap",) if name in more}, more
    for words, additive, scale in itertools.product(("softmax", "sigmoid:-0.5", "entmax:1.5"), (False, True), SCALES):
        h = window().additive_scores(LEAK) if additive else window()
        yield h, dict(normaliser=words, scale=scale), dict(additive=ADDITIVE) if additive else {}


def written_out(x, options, tables, seen=SEEN, of=attention):
    """The output, or what `of` gives; tables may be others than `tables`, by name in x."""
    more = {"words" if name == "normaliser" else name: value for name, value in options.items()}
    more = {name: value for name, value in more.items() if of is attention or name != "words"}
    given = [x[name] for name in INPUTS[: 3 if of is attention else 2]]
    return of(*given, seen=seen, **more, **{name: x.get(name, table) for name, table in tables.items()})


def has_lse(options):
    return options.get("normaliser", "softmax") in ("softmax", "entmax:1")


def arrays(x):
    return [x[name] for name in INPUTS]


class Numbers(unittest.TestCase):
    def near(self, got, want, what, most=4e-6):
        self.assertLess(np.abs(np.asarray(got, "f8") - want).max(), most * max(1, np.abs(want).max()), what)

    def test_forward(self):
        for batch in ((), (3,), (0,)):
            x = made(batch)
            for h, options, tables in cases():
                out = h.attention(*arrays(x), **options, **tables)
                self.assertEqual(out.shape, (*batch, HEADS, N, DIM_V))
                if out.size:
                    self.near(out, written_out(x, options, tables), (batch, options, [*tables]))
                    if has_lse(options):
                        lse = h.attention(*arrays(x), lse=True, **options, **tables)[1]
                        self.near(lse, written_out(x, options, tables, of=log_sum_exp), (batch, options, [*tables]))

    def test_gradients_are_slopes_of_what_is_written_out(self):
        r, x = np.random.default_rng(8), made((2,))
        d, d_lse = normal(9, (2, HEADS, N, DIM_V), (2, HEADS, N))
        for h, options, tables in cases():
            more = dict(d_lse=d_lse) if has_lse(options) else {}
            grads = h.gradient(*arrays(x), d, **more, **options, **tables)
            self.assertEqual(set(grads), {*INPUTS, *tables})

            def loss(at, options=options, tables=tables, more=more):
                of_lse = (written_out(at, options, tables, of=log_sum_exp) * d_lse).sum() if more else 0
                return (written_out(at, options, tables) * d).sum() + of_lse

            for name, found in grads.items():
                of, eps = tables.get(name, x.get(name)), 1e-6
                way = np.where(np.isfinite(of), r.standard_normal(of.shape), 0)
                ends = [loss({**x, name: of + sign * eps * way}) for sign in (1, -1)]
                want = (ends[0] - ends[1]) / (2 * eps)
                self.assertLess(abs((found * way).sum() - want), 2e-4 * max(1, abs(want)), (name, options, [*tables]))
                if options.get("scale") == 0 and name != "value":
                    self.assertFalse(found.any(), (name, options))

    def test_weights(self):
        x = made()
        unit = {**x, "value": np.broadcast_to(np.eye(N), (KV, N, N))}
        for h, options, tables in cases():
            want = written_out(unit, options, tables)
            for token, head in ((0, 1), (20, 3)):
                found = h.weights(x["query"], x["key"], token, head, **options, **tables)
                self.near(found, want[head, token], (options, [*tables]))

    def test_decoders(self):
        x = made()
        for h, options, tables in cases():
            cache = h.decoder(heads=HEADS, dim=DIM, kv_heads=KV, dim_v=DIM_V, **options, **tables).cache()
            rows = [cache.append(*(a[:, at] for a in arrays(x))) for at in (slice(0, 5), slice(5, N))]
            self.near(np.concatenate(rows, 1), written_out(x, options, tables), (options, [*tables]))

    def test_orders_and_ragged_batches(self):
        x = made()
        twice = [np.concatenate([a] * 2, 1) for a in arrays(x)]
        for h, options, tables in cases():
            want = written_out(x, options, tables)
            if "slopes" not in tables:
                self.near(h.order("degree").attention(*arrays(x), **options, **tables), want, (options, [*tables]))
            pair = window([N, N])
            pair = pair.additive_scores(LEAK) if "additive" in tables else pair
            self.near(pair.attention(*twice, **options, **tables), np.concatenate([want] * 2, 1), (options, [*tables]))

    def test_copies_have_the_bits(self):
        x = made()
        for h, options, tables in cases():
            out = h.attention(*arrays(x), **options, **tables)
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(h)).attention(*arrays(x), **options, **tables), out)

    def test_a_scale_of_0_is_not_a_query_of_zeros(self):
        x = made()
        h = hga.dense(N, causal=True).additive_scores(LEAK)
        none = h.attention(0 * x["query"], x["key"], x["value"], additive=ADDITIVE)
        means = np.repeat(np.cumsum(x["value"], 1) / np.arange(1, N + 1)[:, None], HEADS // KV, 0)
        self.near(h.attention(*arrays(x), additive=ADDITIVE, scale=0.0), means, "means")
        self.assertGreater(np.abs(none - means).max(), 0.1)

    def test_a_scale_that_float32_has_as_0_is_0(self):
        for h in (hga.dense(N), hga.dense(N).additive_scores()):
            at = [h.attention(*arrays(made()), scale=scale) for scale in (0.0, 1e-60, -0.0)]
            self.assertTrue(all(np.array_equal(at[0], other) for other in at))

    def test_functions_that_read_queries_see_a_scale(self):
        p = hga.Program(hga.dense(4).graph)
        p.field("query", "key", "query", "queries", "queries")
        value = p.field("value", "value", "value", "queries", "queries")
        out = p.field("out", "out", "out", "queries", "queries")
        query = 1
        p.user("look", 0, [query, value], [out], lambda: 0.0, lambda s, e: s + e.source[query].sum(),
               lambda s, v: v[out].__setitem__(slice(None), s))  # fmt: skip
        x = np.ones((1, 4, 3), np.float32)
        for scale in (None, 0.0, 2.0):
            self.assertTrue((p.hierarchy().attention(x, x, x, scale=scale) == 12).all(), scale)

    def test_zeros_are_exact_and_their_values_are_not_read(self):
        q, k, v = arrays(made())
        row = window().weights(q, k, 20, 1, normaliser="entmax:2")
        self.assertAlmostEqual(row.sum(), 1, places=12)
        zeros = np.flatnonzero(row[14:21] == 0) + 14
        self.assertTrue(len(zeros))
        v[:, zeros] = np.nan
        self.assertTrue(np.isfinite(window().attention(q, k, v, normaliser="entmax:2")[1, 20]).all())

    def test_a_sink_takes_a_share(self):
        x = made()
        self.assertLess(window().weights(x["query"], x["key"], 20, 1, **MODIFIERS).sum(), 0.99)

    def test_both_spellings_are_one_argument(self):
        x = arrays(made())
        d = np.ones((HEADS, N, DIM_V), "f4")
        out = window().attention(*x, normaliser="entmax:1.5")
        np.testing.assert_array_equal(window().attention(*x, normalizer="entmax:1.5"), out)
        one, other = (window().gradient(*x, d, **{name: "sigmoid:-1"}) for name in ("normaliser", "normalizer"))
        self.assertTrue(all(np.array_equal(one[name], other[name]) for name in one))
        refused(self, "are one argument", lambda: window().attention(*x, normaliser="softmax", normalizer="softmax"))

    @needs_tool
    def test_bits_are_those_of_the_tool(self):
        q, k, v = arrays(made())
        (d,) = normal(5, (HEADS, N, DIM_V))
        runs = [("window", ["-p", "left=6", "-p", "right=0", "-p", "causal=1"], window(), words) for words in WORDS]
        runs += [("htransformer", ["-p", "block=4"], hga.htransformer(N, block=4), words) for words in WORDS[:2]]
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name + ".npy")  # noqa: E731
            for name, x in (("q", q), ("k", k), ("v", v), ("d", d)):
                np.save(at(name), np.ascontiguousarray(x.swapaxes(0, 1)))
            np.save(at("slopes"), SLOPES)
            given = [f"--{name}={at(name[0])}" for name in INPUTS]
            grads = [f"--grad-out={at('d')}"] + [f"--grad-{n}={at('d' + n)}" for n in (*INPUTS, "slopes")]
            for variant, settings, h, words in runs:
                more = ["--threads=1", f"--normaliser={words}", f"--slopes={at('slopes')}", f"--out={at('out')}"]
                subprocess.run([TOOL, "attend", variant, *settings, *given, *more, *grads, "--quiet"], check=True)
                out = h.attention(q, k, v, normaliser=words, slopes=SLOPES, threads=1)
                self.assertTrue(np.array_equal(np.load(at("out")).swapaxes(0, 1), out), (variant, words))
                for name, x in h.gradient(q, k, v, d, normaliser=words, slopes=SLOPES, threads=1).items():
                    x = x.swapaxes(0, 1) if x.ndim == 3 else x
                    self.assertTrue(np.array_equal(np.load(at("d" + name)), x), (variant, words, name))

    def test_what_means_nothing_is_refused(self):
        x, h = arrays(made()), window()
        levels, hsa = hga.htransformer(N, block=4), hga.hsa(N, branching=[2, 4])
        paper = hga.hsa(N, branching=[2, 4], causal=True, mode="self")
        for text, h, more in (
            ("normaliser 'entmax' is not one of: softmax sigmoid", h, dict(normaliser="entmax")),
            ("normaliser 'softmax:1' is not one of", h, dict(normaliser="softmax:1")),
            ("normaliser 'sigmoid:' is not one of", h, dict(normaliser="sigmoid:")),
            ("normaliser 'relu' is not one of", h, dict(normaliser="relu")),
            ("alpha 3 is not 1 and not from 1.05 to 2", h, dict(normaliser="entmax:3")),
            ("alpha nan is not 1 and not", h, dict(normaliser="entmax:nan")),
            ("normaliser 'sigmoid:x': 'x' is not a number", h, dict(normaliser="sigmoid:x")),
            ("inf does not fit float32", h, dict(normaliser="sigmoid:inf")),
            ("1e39 does not fit float32", h, dict(normaliser="sigmoid:1e39")),
            ("normaliser is 1.5, not a text", h, dict(normaliser=1.5)),
            ("merges states, and those of entmax cannot be merged", levels, dict(normaliser="entmax:1.5")),
            ("entmax of energies is not defined on causal graphs", paper, dict(normaliser="entmax:1.5")),
            ("dropout: entmax of energies has none", hsa, dict(normaliser="entmax:1.5", dropout=0.1)),
            ("softcap: the program.s scores are those of an energy", hsa, dict(normaliser="entmax:1.5", softcap=2.0)),
            ("reads log-sum-exps, which normaliser sigmoid has not", hsa, dict(normaliser="sigmoid")),
            ("sink: the program's output has no log-sum-exp", h, dict(normaliser="sigmoid", sink=SLOPES)),
            ("this program.s output has no log-sum-exp", h, dict(normaliser="entmax:2", lse=True)),
            ("softcap -1 is not from 1e-30 to 1e30, or 0 for none", h, dict(softcap=-1)),
            (r"sink has shape \(2,\), not \[heads\]: heads is 4", h, dict(sink=SINK[:2])),
            ("slopes of head 1 is -0.5", h, dict(slopes=np.array([0.5, -0.5, 0, 0.1], "f4"))),
            ("sink of head 0 is nan", h, dict(sink=SINK * np.float32("nan"))),
            ("those of an energy", hsa, dict(softcap=2.0)),
            ("no log-sum-exp", hsa, dict(sink=SINK)),
        ):
            with self.subTest(text), self.assertRaisesRegex(hga.Error, text):
                h.attention(*x, **more)
        with self.assertRaisesRegex(hga.Error, "weights has no normalise= *: did you mean 'normaliser'"):
            h.weights(*x[:2], 1, normalise="softmax")

    def test_trees_by_head_have_normalisers(self):
        q, k, v = arrays(made())
        leaf = np.random.default_rng(0).integers(0, 4, (N, HEADS)).astype("i4")
        out = hga.treeformer_fine(N, query_leaf=leaf, key_leaf=leaf).attention(q, k, v, normaliser="entmax:1.5")
        for head in range(HEADS):
            one = hga.treeformer_fine(N, query_leaf=leaf[:, head].copy(), key_leaf=leaf[:, head].copy())
            want = one.attention(q[head], k[head // 2], v[head // 2], normaliser="entmax:1.5")
            self.near(out[head], want, head, 1e-6)

    def test_a_program_keeps_its_normaliser_in_json(self):
        x = arrays(made())
        p = hga.Program(window().graph)
        p.attention()
        p.normalise("entmax:1.5")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "h.json")
            p.hierarchy().write(path)
            again = hga.read(path)
        np.testing.assert_array_equal(again.attention(*x), window().attention(*x, normaliser="entmax:1.5"))
        np.testing.assert_array_equal(again.attention(*x, normaliser="softmax"), window().attention(*x))
        refused(self, "a program has no bias", lambda: p.normalise("sigmoid:-2"))


@needs("torch")
class InTorch(unittest.TestCase):
    """Numpy's bits and gradients."""

    def compare(self, run, some=slice(None)):
        """run(h, tensors by name, options and tables): the output."""
        x = made((2,))
        (d,) = normal(9, (2, HEADS, N, DIM_V))
        for h, options, tables in [*cases()][some]:
            t = {name: torch.tensor(a).requires_grad_() for name, a in {**x, **tables}.items()}
            out = run(h, [t[name] for name in INPUTS], {**options, **{name: t[name] for name in tables}, "threads": 1})
            with self.subTest(options=options, tables=[*tables]):
                np.testing.assert_array_equal(out.detach(), h.attention(*arrays(x), **options, **tables, threads=1))
                want = h.gradient(*arrays(x), d, **options, **tables, threads=1)
                for name, found in zip(t, torch.autograd.grad(out, list(t.values()), torch.from_numpy(d))):
                    np.testing.assert_allclose(found, want[name], atol=1e-6, err_msg=name)

    def test_at_once(self):
        self.compare(lambda h, x, more: h.attention(*x, **more))

    def test_where_torch_watches(self):
        def run(h, x, more):
            with torch.overrides.BaseTorchFunctionMode():
                return h.attention(*x, **more)

        self.compare(run)

    def test_mapped(self):
        self.compare(lambda h, x, more: torch.vmap(lambda *one: h.attention(*one, **more))(*x))

    def test_compiled(self):
        def run(h, x, more):
            torch._dynamo.reset()
            called = torch.compile(lambda *x, **more: h.attention(*x, **more), fullgraph=True, backend="aot_eager")
            return called(*x, **more)

        self.compare(run, slice(5, None, 4))

    def test_sixteen_bits_and_threads_go_along(self):
        q, k, v = (torch.from_numpy(x).bfloat16() for x in arrays(made()))
        for words in ("sigmoid:-1.5", "entmax:1.5"):
            want = attention(*(as_numpy(x.float()) for x in (q, k, v)), SEEN, words)
            out = window().attention(q, k, v, normaliser=words, threads=2)
            self.assertEqual(out.dtype, torch.bfloat16)
            self.assertLess(np.abs(out.float().numpy() - want).max(), 2e-2)

    def test_modules_take_normalisers(self):
        for spec in ("window:left=6:right=6", hga.window(N, left=6, right=6)):
            torch.manual_seed(0)
            m = hga.torch.Attention(spec, 36, 4, kv_heads=2, normaliser="entmax:1.5")
            x = torch.randn(2, N, 36)
            q, k, v = m.project(x).view(2, N, 8, 9).split((4, 2, 2), 2)
            h, x_ = hga.window(N, left=6, right=6), [t.transpose(1, 2) for t in (q, k, v)]
            y = h.attention(*x_, normaliser="entmax:1.5")
            self.assertLess((m(x) - m.out(y.transpose(1, 2).reshape(2, N, 36))).abs().max(), 1e-6)
            m(x).sum().backward()
            self.assertGreater(m.project.weight.grad.abs().max(), 0)
        refused(self, "alpha 5 is not 1", lambda: hga.torch.Attention("dense", 36, 4, normalizer="entmax:5"))

    def test_documents_and_flex_attention_take_scales(self):
        from hga.torch._ragged import attend

        x, causal = made((2,)), np.tri(N, dtype=bool)
        q, k, v = map(torch.from_numpy, arrays(x))
        flex = package("torch.nn.attention.flex_attention")
        mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, N, N, device="cpu")
        for scale in SCALES:
            want = attention(*arrays(x), causal, scale=scale)
            for out in (attend("dense", q, k, v, causal=True, scale=scale).transpose(1, 2),
                        hga.torch.flex_attention(q, k, v, None, mask, scale=scale, enable_gqa=True)):  # fmt: skip
                np.testing.assert_allclose(out, want, atol=1e-5)
        out = hga.torch.flex_attention(q, k, v, lambda s, b, h, i, j: s * 0, mask, enable_gqa=True)
        np.testing.assert_allclose(out, attention(*arrays(x), causal, scale=0.0), atol=1e-5)
