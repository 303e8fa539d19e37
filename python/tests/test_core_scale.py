"""Facts about scale=: a scale that is given is the number that it is, 0 too, in every way that a call may go. Weights are written
out in double; gradients are compared with differences of what is written out."""

import importlib.util
import itertools
import unittest

import hga
import numpy as np

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import hga.torch
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

N, HEADS, KV, DIM, DIM_V, SLOPE = 13, 4, 2, 6, 5, 0.2
SCALES = (None, 0.0, -1.0, 0.7)
NORMALISERS = ("softmax", "sigmoid:-0.5", "entmax:1.5")
SEEN = np.tril(np.ones((N, N), bool))


def made(batch=()):
    r = np.random.default_rng(4)
    shapes = dict(query=(*batch, HEADS, N, DIM), key=(*batch, KV, N, DIM), value=(*batch, KV, N, DIM_V), additive=(HEADS, DIM))
    return {name: r.standard_normal(shape).astype("f4") for name, shape in shapes.items()}


def weights_of(s, words):
    """Of rows of scores in double; -inf: not seen."""
    if words == "softmax":
        w = np.exp(s - s.max(-1, keepdims=True))
        return w / w.sum(-1, keepdims=True)
    if words.startswith("sigmoid"):
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-(s + float(words.split(":")[1]))))
    a = float(words.split(":")[1]) - 1
    below, above = a * s.max(-1, keepdims=True) - 1, a * s.max(-1, keepdims=True)
    for _ in range(100):  # the threshold, by halving
        middle = (below + above) / 2
        more = (np.maximum(a * s - middle, 0) ** (1 / a)).sum(-1, keepdims=True) > 1
        below, above = np.where(more, middle, below), np.where(more, above, middle)
    return np.maximum(a * s - below, 0) ** (1 / a)


def written_out(x, words, additive, scale):
    q, k, v, a = (x[name].astype("f8") for name in ("query", "key", "value", "additive"))
    k, v = (np.repeat(x, HEADS // KV, -3) for x in (k, v))
    if additive:
        sums = q[..., :, None, :] + k[..., None, :, :]
        s = np.einsum("...hqkd,hd->...hqk", np.where(sums > 0, sums, SLOPE * sums), a) * (1 if scale is None else scale)
    else:
        s = q @ np.swapaxes(k, -1, -2) * (DIM**-0.5 if scale is None else scale)
    return weights_of(np.where(SEEN, s, -np.inf), words) @ v


def cases():
    """(hierarchy, what a call is given besides query, key and value, the arguments of written_out)."""
    for words, additive, scale in itertools.product(NORMALISERS, (False, True), SCALES):
        h = hga.dense(N, causal=True)
        yield h.additive_scores(SLOPE) if additive else h, dict(normaliser=words, scale=scale), (words, additive, scale)


def tables(x, additive):
    return dict(additive=x["additive"]) if additive else {}


class Numbers(unittest.TestCase):
    def assert_near(self, got, want, what, most=4e-6):
        self.assertLess(np.abs(np.asarray(got, "f8") - want).max(), most * max(1, np.abs(want).max()), what)

    def test_forward(self):
        for batch in ((), (3,), (0,)):
            x = made(batch)
            for h, options, given in cases():
                out = h.attention(x["query"], x["key"], x["value"], **options, **tables(x, given[1]))
                self.assertEqual(out.shape, (*batch, HEADS, N, DIM_V))
                if out.size:
                    self.assert_near(out, written_out(x, *given), (batch, given))

    def test_a_scale_of_0_is_not_a_query_of_zeros(self):
        x = made()
        h = hga.dense(N, causal=True).additive_scores(SLOPE)
        none = h.attention(0 * x["query"], x["key"], x["value"], additive=x["additive"])
        means = np.repeat(np.cumsum(x["value"], 1) / np.arange(1, N + 1)[:, None], HEADS // KV, 0)
        self.assert_near(h.attention(x["query"], x["key"], x["value"], additive=x["additive"], scale=0.0), means, "means")
        self.assertGreater(np.abs(none - means).max(), 0.1)

    def test_a_scale_that_float32_has_as_0_is_0(self):
        x = made()
        for h in (hga.dense(N), hga.dense(N).additive_scores()):
            at = [h.attention(x["query"], x["key"], x["value"], scale=scale) for scale in (0.0, 1e-60, -0.0)]
            self.assertTrue(all(np.array_equal(at[0], other) for other in at))

    def test_gradients_are_slopes_of_what_is_written_out(self):
        r, batch = np.random.default_rng(8), (2,)
        x = made(batch)
        d = r.standard_normal((*batch, HEADS, N, DIM_V)).astype("f4")
        for h, options, given in cases():
            grads = h.gradient(x["query"], x["key"], x["value"], d, **options, **tables(x, given[1]))
            for name, found in grads.items():
                way, eps = r.standard_normal(x[name].shape), 1e-6
                there, back = ({**x, name: x[name] + sign * eps * way} for sign in (1, -1))
                want = ((written_out(there, *given) - written_out(back, *given)) * d).sum() / (2 * eps)
                self.assertLess(abs((found * way).sum() - want), 2e-4 * max(1, abs(want)), (name, given))
                if given[2] == 0 and name != "value":
                    self.assertFalse(found.any(), (name, given))

    def test_weights(self):
        x = made()
        for h, options, given in cases():
            if options["normaliser"] == "softmax":
                want = written_out({**x, "value": np.broadcast_to(np.eye(N), (KV, N, N))}, *given)
                for token, head in ((0, 1), (9, 3)):
                    got = h.weights(x["query"], x["key"], token, head, **options, **tables(x, given[1]))
                    self.assert_near(got, want[head, token], given)

    def test_decoders(self):
        x = made()
        for h, options, given in cases():
            more = {**options, **tables(x, given[1])}
            cache = h.decoder(heads=HEADS, dim=DIM, kv_heads=KV, dim_v=DIM_V, **more).cache()
            rows = [cache.append(*(x[name][:, at] for name in ("query", "key", "value"))) for at in (slice(0, 5), slice(5, N))]
            self.assert_near(np.concatenate(rows, 1), written_out(x, *given), given)

    def test_orders_and_ragged_batches(self):
        x = made()
        for h, options, given in cases():
            out = h.order("degree").attention(x["query"], x["key"], x["value"], **options, **tables(x, given[1]))
            self.assert_near(out, written_out(x, *given), given)
            pair = hga.dense([N, N], causal=True)
            pair = pair.additive_scores(SLOPE) if given[1] else pair
            twice = [np.concatenate([x[name]] * 2, 1) for name in ("query", "key", "value")]
            out = pair.attention(*twice, **options, **tables(x, given[1]))
            self.assert_near(out, np.concatenate([written_out(x, *given)] * 2, 1), given)

    def test_functions_that_read_queries_see_them(self):
        h = hga.dense(4)
        p = hga.Program(h.graph)
        p.field("query", "key", "query", "queries", "queries")
        value = p.field("value", "value", "value", "queries", "queries")
        out = p.field("out", "out", "out", "queries", "queries")
        query = 1
        p.user("look", 0, [query, value], [out], lambda: 0.0, lambda s, e: s + e.source[query].sum(),
               lambda s, v: v[out].__setitem__(slice(None), s))  # fmt: skip
        x = np.ones((1, 4, 3), np.float32)
        for scale in (None, 0.0, 2.0):
            self.assertTrue((p.hierarchy().attention(x, x, x, scale=scale) == 12).all(), scale)


@unittest.skipUnless(TORCH, "torch is not installed")
class InTorch(unittest.TestCase):
    def compare(self, run):
        """run(h, tensors by name, options): the output; its gradients are numpy's."""
        x = made((2,))
        d = np.random.default_rng(9).standard_normal((2, HEADS, N, DIM_V)).astype("f4")
        for h, options, given in cases():
            t = {name: torch.from_numpy(a).requires_grad_() for name, a in x.items() if name != "additive" or given[1]}
            out = run(h, t, options)
            with self.subTest(given):
                np.testing.assert_allclose(out.detach(), written_out(x, *given), atol=1e-5)
                want = h.gradient(x["query"], x["key"], x["value"], d, **options, **tables(x, given[1]))
                for name, found in zip(t, torch.autograd.grad(out, list(t.values()), torch.from_numpy(d))):
                    np.testing.assert_allclose(found, want[name], atol=1e-6, err_msg=name)

    def test_at_once(self):
        self.compare(lambda h, t, options: h.attention(t["query"], t["key"], t["value"], **options, **tables(t, "additive" in t)))

    def test_where_torch_watches(self):
        def run(h, t, options):
            with torch.overrides.BaseTorchFunctionMode():
                return h.attention(t["query"], t["key"], t["value"], **options, **tables(t, "additive" in t))

        self.compare(run)

    def test_mapped(self):
        def run(h, t, options):
            one = lambda q, k, v: h.attention(q, k, v, **options, **tables(t, "additive" in t))  # noqa: E731
            return torch.vmap(one)(t["query"], t["key"], t["value"])

        self.compare(run)

    def test_documents(self):
        from hga.torch._ragged import attend

        x = {name: torch.from_numpy(a) for name, a in made((2,)).items()}
        for scale in SCALES:
            out = attend("dense", x["query"], x["key"], x["value"], causal=True, scale=scale).transpose(1, 2)
            np.testing.assert_allclose(out, written_out(made((2,)), "softmax", False, scale), atol=1e-5)

    def test_flex_attention(self):
        q, k, v = (torch.from_numpy(made((2,))[name]) for name in ("query", "key", "value"))
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, N, N, device="cpu")
        for scale in SCALES:
            out = hga.torch.flex_attention(q, k, v, None, mask, scale=scale, enable_gqa=True)
            np.testing.assert_allclose(out, written_out(made((2,)), "softmax", False, scale), atol=1e-5)
        out = hga.torch.flex_attention(q, k, v, lambda s, b, h, i, j: s * 0, mask, enable_gqa=True)
        np.testing.assert_allclose(out, written_out(made((2,)), "softmax", False, 0.0), atol=1e-5)
