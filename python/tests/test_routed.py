"""Facts about attention chosen by content: the choice is that of the definition, written in double; outputs and gradients are those
of dense attention over the chosen pairs."""

import importlib.util
import itertools
import pickle
import unittest

import hga
import numpy as np

TORCH = importlib.util.find_spec("torch") is not None

if TORCH:
    import torch

N, HEADS, KV, DIM, BLOCK = 150, 4, 2, 16, 16


def tensors(seed=1, heads=HEADS, kv=KV, n=N):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((h, n, DIM)).astype(np.float32) for h in (heads, kv, kv)]


def blocks_of(x, size):
    return [x[:, i : i + size].mean(1) for i in range(0, x.shape[1], size)]


def scores(q, k, settings):
    """[choosers][query blocks][blocks], in double."""
    q, k = q.astype(np.float64), np.repeat(k.astype(np.float64), HEADS // KV, 0)
    blocks = [slice(j, j + BLOCK) for j in range(0, N, BLOCK)]
    if settings.get("score") == "minmax":
        bound = [np.maximum(q * k[:, None, b].max(2), q * k[:, None, b].min(2)).sum(-1) for b in blocks]
        each = np.stack(bound, -1)
    else:
        means = np.stack([k[:, b].mean(1) for b in blocks], 1)
        rows = np.stack(blocks_of(q, settings.get("query_block", 1)), 1)
        each = rows @ means.transpose(0, 2, 1)
    each = each / np.sqrt(DIM)
    share = settings.get("share", "head")
    return each if share == "head" else each.reshape((KV if share == "group" else 1, -1) + each.shape[1:]).sum(1)


def chosen(row, first, last, settings):
    """The blocks of a query block of tokens first .. last, and whether that hangs on little."""
    causal, n = settings.get("causal", False), len(row)
    own = set(range(first // BLOCK, last // BLOCK + 1))
    candidates = [j for j in range(n) if ((j + 1) * BLOCK <= first if causal else j not in own)]
    before = [j for j in candidates if j < first // BLOCK]
    forced = own | {j for j in candidates if j < settings.get("sinks", 1)} | set(before[len(before) - settings.get("local", 1) :])
    ranked = sorted(candidates, key=lambda j: (-row[j], j))
    rest = [j for j in ranked if j not in forced]
    if settings.get("threshold") is None:
        places = max(0, settings.get("k", 16) - len(forced))
        close = 0 < places < len(rest) and row[rest[places - 1]] - row[rest[places]] < 1e-4
        return sorted(forced | set(rest[:places])), close
    p = np.exp(row[ranked] - row[ranked].max()) if ranked else np.zeros(0)
    total = np.cumsum(p / p.sum()) if ranked else p
    enough = int(np.searchsorted(total, settings["threshold"])) + 1
    close = bool(len(total)) and np.abs(total - settings["threshold"]).min() < 1e-5
    return sorted(forced | set(ranked[:enough])), close


def pairs(table, settings):
    """[heads][n][n]: who sees whom."""
    seen = np.zeros((HEADS, N, N), bool)
    for h, t in itertools.product(range(HEADS), range(N)):
        for j in table[h * len(table) // HEADS, t // settings.get("query_block", 1)]:
            seen[h, t, j * BLOCK : (j + 1) * BLOCK] |= j >= 0
    return seen & np.tri(N, dtype=bool) if settings.get("causal") else seen


def dense(q, k, v, seen):
    q, k, v = q.astype(np.float64), *(np.repeat(x.astype(np.float64), HEADS // KV, 0) for x in (k, v))
    s = np.where(seen, q @ k.transpose(0, 2, 1) / np.sqrt(DIM), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v


SETTINGS = [
    {"block": BLOCK, "causal": causal, "share": share, **more}
    for causal in (False, True)
    for share in ("head", "group", "all")
    for more in ({"k": 5}, {"k": 4, "query_block": 16, "sinks": 2}, {"threshold": 0.6, "query_block": 4, "local": 0}, {"k": 6, "score": "minmax"})
]


class Routed(unittest.TestCase):
    def test_choices_are_those_of_the_definition(self):
        q, k, _ = tensors()
        compared = rows = 0
        for settings in SETTINGS:
            h, step = hga.routed(N, **settings), settings.get("query_block", 1)
            table, want = h.choice(q, k), scores(q, k, settings)
            self.assertEqual(table.shape[:2], want.shape[:2])
            for c, i in itertools.product(range(len(table)), range(len(table[0]))):
                blocks, close = chosen(want[c, i], i * step, min((i + 1) * step, N) - 1, settings)
                rows += 1
                if not close:
                    compared += 1
                    self.assertEqual([j for j in table[c, i] if j >= 0], blocks, (settings, c, i))
        self.assertGreater(compared, 0.9 * rows)

    def test_outputs_are_those_of_the_chosen_pairs(self):
        q, k, v = tensors(2)
        for settings in SETTINGS:
            h = hga.routed(**settings)
            want = dense(q, k, v, pairs(h.choice(q, k), settings))
            np.testing.assert_allclose(h.attention(q, k, v), want, rtol=0, atol=3e-6, err_msg=str(settings))

    def test_samples_choose_for_themselves_and_layouts_agree(self):
        q, k, v = (np.stack([a, b]) for a, b in zip(tensors(3), tensors(4)))
        h = hga.routed(block=BLOCK, k=4, causal=True)
        out = h.attention(q, k, v)
        for i in range(2):
            np.testing.assert_array_equal(out[i], h.attention(q[i], k[i], v[i]))
        turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
        np.testing.assert_array_equal(h.attention(*turned, layout="bnhd").transpose(0, 2, 1, 3), out)

    def test_limits_are_dense_and_segments(self):
        q, k, v = tensors(5)
        for causal in (False, True):
            want = hga.dense(N, causal=causal).attention(q, k, v)
            for more in ({"k": 99}, {"threshold": 1.0}):
                np.testing.assert_allclose(hga.routed(block=BLOCK, causal=causal, **more).attention(q, k, v), want, rtol=0, atol=3e-6)
            alone = hga.routed(block=BLOCK, causal=causal, k=1, sinks=0, local=0)
            want = hga.segments(query_segment=np.arange(N) // BLOCK, causal=causal).attention(q, k, v)
            np.testing.assert_allclose(alone.attention(q, k, v), want, rtol=0, atol=3e-6)

    def test_later_tokens_change_no_earlier_row(self):
        q, k, v = tensors(6)
        h = hga.routed(block=BLOCK, k=4, causal=True)
        before, table = h.attention(q, k, v), h.choice(q, k)
        for x in (q, k, v):
            x[:, 100:] = -2 * x[:, 100:] + 1
        np.testing.assert_array_equal(h.choice(q, k)[:, :100], table[:, :100])
        np.testing.assert_allclose(h.attention(q, k, v)[:, :100], before[:, :100], rtol=0, atol=2e-6)

    def test_the_scale_is_that_of_the_call(self):
        q, k, v = tensors(7)
        h = hga.routed(block=BLOCK, threshold=0.5)
        self.assertFalse(np.array_equal(h.choice(q, k, scale=2.0)[..., :3], h.choice(q, k, scale=0.1)[..., :3]))
        want = h.hierarchy(q, k, scale=2.0).attention(q, k, v, scale=2.0)
        np.testing.assert_array_equal(h.attention(q, k, v, scale=2.0), want)

    def test_it_is_a_value(self):
        h = hga.routed(N, block=8, threshold=0.9)
        self.assertEqual(pickle.loads(pickle.dumps(h)), h)
        self.assertEqual(hash(h), hash(hga.routed(N, block=8, threshold=0.9)))
        self.assertNotEqual(h, hga.routed(N, block=8))
        self.assertEqual(repr(hga.routed(block=8)), "routed block=8 k=16 query-block=1 sinks=1 local=1 share=head score=mean coarse=0 coarse-k=6 prefill=1 causal=0")

    def test_what_cannot_be_chosen_is_named(self):
        q, k, v = tensors(8)
        for says, wrong in (
            ("k=3 and threshold=0.5: blocks are chosen by one of them", {"k": 3, "threshold": 0.5}),
            ("share is 'heads', none of head, group, all: did you mean 'head'", {"share": "heads"}),
            ("threshold is 1.5; it must be above 0 and at most 1", {"threshold": 1.5}),
            ("minmax bounds the products of one query, and query_block is 4", {"score": "minmax", "query_block": 4}),
            ("query has 150 rows, the hierarchy 149", {"n_tokens": 149}),
            ("block is 0, not at least 1", {"block": 0}),
            ("k is 1099511627776, not at least 1 and less than 2147483648", {"k": 2**40}),
        ):
            with self.assertRaises(hga.Error, msg=says) as caught:
                hga.routed(**wrong).attention(q, k, v)
            self.assertIn(says, str(caught.exception))
        for says, given in (("query has shape (1, 4, 150, 16): a choice is of one sample", (q[None], k[None])), ("layout is 'hnd'", (q, k, "hnd"))):
            with self.assertRaises(hga.Error, msg=says) as caught:
                hga.routed(N).hierarchy(*given)
            self.assertIn(says, str(caught.exception))
        q[1, 40, 3] = np.nan
        with self.assertRaisesRegex(hga.Error, "query block 40, chooser 1, is not a number"):
            hga.routed(N, block=BLOCK).attention(q, k, v)
        with self.assertRaisesRegex(hga.Error, "not token by token"):
            hga.routed().decoder()


@unittest.skipUnless(TORCH, "torch is not installed")
class Gradients(unittest.TestCase):
    def test_they_hold_the_choice(self):
        for settings in SETTINGS[::3]:
            q, k, v = (torch.tensor(x).requires_grad_() for x in tensors(9))
            h = hga.routed(**settings)
            seen = torch.tensor(pairs(h.choice(q.detach(), k.detach()), settings))
            out = h.attention(q, k, v)
            wide = [x.double().repeat_interleave(HEADS // KV, 0) for x in (k, v)]
            want = torch.nn.functional.scaled_dot_product_attention(q.double(), *wide, attn_mask=seen)
            given = torch.randn_like(out)
            for a, b in zip(torch.autograd.grad(out, (q, k, v), given), torch.autograd.grad(want, (q, k, v), given.double())):
                torch.testing.assert_close(a, b.to(a.dtype), rtol=0, atol=1e-5)

    def test_a_plan_is_taken_over(self):
        h = hga.routed(block=BLOCK, k=4, query_block=16, causal=True)
        for seed in range(4):
            q, k, v = (torch.tensor(x).requires_grad_() for x in tensors(seed))
            out = h.attention(q, k, v)
            out.sum().backward()
            want = h.hierarchy(q.detach(), k.detach()).attention(q.detach(), k.detach(), v.detach())
            self.assertTrue(torch.equal(out.detach(), want))
        self.assertEqual(sum(bool(x._plans) for x in h._made), 1)

    def test_compiled_functions_choose_anew(self):
        h = hga.routed(block=BLOCK, k=4, causal=True)
        run = torch.compile(lambda q, k, v: h.attention(q, k, v), fullgraph=True, backend="aot_eager")
        for seed in range(2):
            given = [torch.tensor(x) for x in tensors(seed)]
            self.assertTrue(torch.equal(run(*given), h.attention(*given)))


if __name__ == "__main__":
    unittest.main()
