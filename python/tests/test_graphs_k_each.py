"""hga.routed with a number of blocks for each chooser: what one number for all gives, head by head, with every option beside others."""

import itertools
import pickle
import random
import re
import unittest

import hga
import numpy as np
from shared import needs, refused, torch

N, HEADS, KV, DIM, BLOCK = 150, 4, 2, 16, 16
SHARES = ("head", "group", "all")
TOGETHER = ({}, {"query_block": 16}, {"prefill": 16})  # who chooses at once


def tensors(seed=1, n=N):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((heads, n, DIM)).astype(np.float32) for heads in (HEADS, KV, KV)]


def choosers(share):
    return {"head": HEADS, "group": KV, "all": 1}[share]


def alone(k, h, **settings):
    """The k of query head h for all."""
    return {**settings, "k": int(k[h * len(k) // HEADS])}


def typed(x, kind):
    return [a.astype(np.float16) if kind == "float16" else a for a in x]


class EachTakesItsOwn(unittest.TestCase):
    def test_one_number_for_all_is_that_number_for_each(self):
        q, k, v = tensors()
        for share, more, causal in itertools.product(SHARES, TOGETHER, (False, True)):
            settings = dict(block=BLOCK, share=share, causal=causal, **more)
            one, each = hga.routed(N, k=5, **settings), hga.routed(N, k=[5] * choosers(share), **settings)
            np.testing.assert_array_equal(each.choice(q, k), one.choice(q, k))
            for a, b in zip(each.attention(q, k, v, return_block_weights=True), one.attention(q, k, v, return_block_weights=True)):
                np.testing.assert_array_equal(a, b)

    def test_heads_are_those_of_their_own_number_whatever_is_beside(self):
        r = random.Random(3)
        for i, (share, more, kind, causal) in enumerate(itertools.product(SHARES, TOGETHER, ("float32", "float16"), (False, True))):
            x = typed(tensors(i), kind)
            each = [r.choice((1, 2, 4, 6, 99)) for _ in range(choosers(share))]
            settings = dict(block=BLOCK, share=share, causal=causal, **more)
            h = hga.routed(N, k=each, **settings)
            choice, out = h.choice(*x[:2]), h.attention(*x)
            h.threads = 1 + 2 * (i % 2)
            np.testing.assert_array_equal(h.choice(*x[:2]), choice)
            np.testing.assert_array_equal(h.attention(*x), out)
            for head in range(HEADS):
                own = hga.routed(N, **alone(each, head, **settings))
                want, bits = own.attention(*x)[head], causal and not more  # which rows of query blocks do not promise
                near = 0 if bits else 2e-6 if kind == "float32" else 2e-3
                np.testing.assert_allclose(out[head], want, rtol=0, atol=near, err_msg=str((share, more, kind, causal, each)))
                mine, its = choice[head * len(choice) // HEADS], own.choice(*x[:2])[head * len(choice) // HEADS]
                np.testing.assert_array_equal(mine[:, : its.shape[1]], its)
                self.assertTrue((mine[:, its.shape[1] :] == -1).all())

    def test_a_head_that_takes_all_is_dense(self):
        q, k, v = tensors(2)
        for more, causal in itertools.product(TOGETHER, (False, True)):
            out = hga.routed(N, block=BLOCK, k=[10, 3, 1000, 4], causal=causal, **more).attention(q, k, v)
            dense = hga.dense(N, causal=causal).attention(q, k, v)
            np.testing.assert_allclose(out[[0, 2]], dense[[0, 2]], rtol=0, atol=2e-6)
            self.assertGreater(np.abs(out[[1, 3]] - dense[[1, 3]]).max(), 1e-2)

    def test_samples_and_ragged_batches_have_the_same_numbers(self):
        each = np.array([99, 2, 5, 3], np.int64)
        h = hga.routed(block=BLOCK, k=each, causal=True)
        q, k, v = (np.stack([a, b]) for a, b in zip(tensors(3), tensors(4)))
        out = h.attention(q, k, v)
        for i in range(2):
            np.testing.assert_array_equal(out[i], h.attention(q[i], k[i], v[i]))
        rows = [np.concatenate([a[0], a[1][:, :37]], 1) for a in (q, k, v)]
        ragged = hga.routed([N, 37], block=BLOCK, k=each, causal=True).attention(*rows)
        np.testing.assert_allclose(ragged[:, :N], out[0], rtol=0, atol=2e-6)
        np.testing.assert_allclose(ragged[:, N:], out[1][:, :37], rtol=0, atol=2e-6)

    def test_decoders_have_the_bits_of_attention(self):
        for i, (share, more) in enumerate(itertools.product(SHARES, ({}, {"score": "minmax"}, {"coarse": 32, "coarse_k": 2}))):
            h = hga.routed(N, block=BLOCK, k=[99, 2, 3, 5][: choosers(share)], share=share, causal=True, **more)
            x = tensors(i)
            cache = h.decoder(heads=HEADS, kv_heads=KV, dim=DIM, same=True, rollback=20).cache()
            at, want = 0, h.attention(*x)
            for n in (1, 40, 9, 80):
                np.testing.assert_array_equal(cache.append(*(a[:, at : at + n] for a in x)), want[:, at : at + n])
                at += n
            fork = cache.fork()
            fork.cut(at - 15)
            np.testing.assert_array_equal(fork.append(*(a[:, at - 15 : at] for a in x)), want[:, at - 15 : at])

    def test_a_prompt_chooses_by_query_blocks(self):
        h, x = hga.routed(N, block=BLOCK, k=[99, 2, 3, 5], prefill=16, causal=True), tensors(6)
        cache = h.decoder(heads=HEADS, kv_heads=KV, dim=DIM, same=True).cache()
        np.testing.assert_allclose(cache.append(*x), h.attention(*x), rtol=0, atol=2e-6)

    def test_gradients_hold_the_choice(self):
        h, (q, k, v) = hga.routed(N, block=BLOCK, k=[99, 2, 3, 5], causal=True), tensors(7)
        d = np.random.default_rng(8).standard_normal(q.shape).astype(np.float32)
        found = h.gradient(q, k, v, d)
        wide = hga.routed(N, block=BLOCK, k=99, causal=True)
        for name, x in wide.gradient(q, k, v, d, choice=h.choice(q, k)).items():
            np.testing.assert_array_equal(found[name], x)
        dense = hga.dense(N, causal=True).gradient(q, k, v, d)
        np.testing.assert_allclose(found["query"][0], dense["query"][0], rtol=0, atol=1e-5)

    @needs("torch")
    def test_modules_take_them_by_name(self):
        words = "routed:block=8:k=99,2,3,5"
        torch.manual_seed(0)
        m = hga.torch.Attention(words, 32, 4, causal=True).eval()
        x = torch.randn(2, 60, 32, requires_grad=True)
        m(x).square().sum().backward()
        self.assertTrue(torch.isfinite(x.grad).all())
        h = hga.build(words + ":causal=1", N)
        q, k, v = (torch.tensor(a).bfloat16() for a in tensors(9))
        want = h.attention(q, k, v)
        cache = h.decoder(heads=HEADS, kv_heads=KV, dim=DIM, same=True, row_type="bf16").cache()
        self.assertTrue(torch.equal(torch.cat([cache.append(*(a[:, i : i + 30] for a in (q, k, v))) for i in range(0, N, 30)], 1), want))
        compiled = torch.compile(lambda q, k, v: h.attention(q, k, v), backend="eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(q, k, v), want))

    def test_it_is_a_value(self):
        h = hga.routed(N, block=8, k=(3, 4, 5, 6))
        self.assertEqual(pickle.loads(pickle.dumps(h)), h)
        self.assertEqual(h, hga.routed(N, block=8, k=np.array([3, 4, 5, 6])))
        self.assertEqual(hash(h), hash(hga.routed(N, block=8, k=[3, 4, 5, 6])))
        self.assertNotEqual(h, hga.routed(N, block=8, k=[3, 4, 5, 7]))
        self.assertIn(" k=3,4,5,6 ", repr(h))
        self.assertEqual(hga.build(repr(h).replace(" causal=0", ""), N), h)

    def test_what_is_no_number_for_each_is_named(self):
        q, k, v = tensors(8)
        for says, wrong in (
            ("k has 3 numbers, and there are 4 choosers", {"k": [3, 4, 5]}),
            ("k has 1 numbers, and there are 4 choosers", {"k": [3]}),
            ("k has 4 numbers, and there are 2 choosers", {"k": [3, 4, 5, 6], "share": "group"}),
            ("k has 4 numbers, and there are 1 choosers", {"k": [3, 4, 5, 6], "share": "all"}),
            ("k: number 1 is 0, at least 1 is needed", {"k": [3, 0, 5, 6]}),
            ("k: number 2 is -4, at least 1 is needed", {"k": np.array([3, 4, -4, 6])}),
            ("k: 0 numbers, at least 1 is needed", {"k": []}),
            ("k holds float64, not whole numbers", {"k": [3.0, 4, 5, 6]}),
            ("k holds bool, not whole numbers", {"k": [True, True, True, True]}),
            ("k has shape (2, 2): one axis", {"k": [[3, 4], [5, 6]]}),
            ("k has shape (4, 1): one axis", {"k": np.full((4, 1), 3)}),
            ("k holds numbers beyond 32 bits", {"k": [3, 4, 5, 2**40]}),
            ("k=3,4,5,6 and threshold=0.5: blocks are chosen by one of them", {"k": [3, 4, 5, 6], "threshold": 0.5}),
        ):  # fmt: skip
            with self.subTest(says):
                refused(self, re.escape(says), lambda wrong=wrong: hga.routed(N, block=BLOCK, **wrong).attention(q, k, v))
        with self.assertRaisesRegex(hga.Error, "k has 3 numbers, and there are 4 choosers"):
            hga.routed(N, k=[3, 4, 5], causal=True).decoder(heads=HEADS, kv_heads=KV, dim=DIM)


if __name__ == "__main__":
    unittest.main()
