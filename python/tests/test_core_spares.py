"""The memory of large calls stays with the plan between them, and what a caller keeps is never written again."""

import gc
import unittest

import hga
import numpy as np
from shared import at_once, needs, torch

N, HEADS, DIM = 3000, 8, 64  # 6 MB a tensor


def case(seed=1):
    rng = np.random.default_rng(seed)
    h = hga.Graph.from_edges(rng.integers(0, N, 2 * N), rng.integers(0, N, 2 * N), N).hierarchy()
    return h, [rng.standard_normal((N, HEADS, DIM)).astype(np.float32) for _ in range(4)]


def place(x):
    return x.__array_interface__["data"][0]


class Spares(unittest.TestCase):
    def setUp(self):
        hga.plans_clear()
        gc.collect()

    def test_what_is_gone_is_used_again(self):
        h, (q, k, v, d) = case()
        out = h.attention(q, k, v, layout="bnhd")
        was, right = place(out), out.copy()
        self.assertEqual(hga.plans_info().spare_bytes, 0)
        out.fill(np.nan)
        del out
        self.assertEqual(hga.plans_info().spare_bytes, right.nbytes)
        out = h.attention(q, k, v, layout="bnhd")
        self.assertEqual(place(out), was)
        np.testing.assert_array_equal(out, right)
        self.assertEqual(hga.plans_info().spare_bytes, 0)

    def test_sizes_that_no_longer_come_are_let_go(self):
        h, (q, k, v, d) = case()
        for samples in range(1, 12):
            h.attention(*(np.broadcast_to(x, (samples, *x.shape)) for x in (q, k, v)), layout="bnhd")
        self.assertLessEqual(hga.plans_info().spare_bytes, 8 * 11 * q.nbytes)
        self.assertGreaterEqual(hga.plans_info().spare_bytes, 11 * q.nbytes)
        for _ in range(12):  # all sizes again: none is kept for long
            for samples in (1, 2):
                h.attention(*(np.broadcast_to(x, (samples, *x.shape)) for x in (q, k, v)), layout="bnhd")
        self.assertLessEqual(hga.plans_info().spare_bytes, sum(range(4, 12)) * q.nbytes)  # eight blocks at most

    def test_what_is_kept_is_never_written_again(self):
        h, (q, k, v, d) = case()
        first = h.attention(q, k, v, layout="bnhd")
        right, part = first.copy(), first[5:7, 3]
        del first  # a view of it remains
        for _ in range(3):
            other = h.attention(2 * q, k, v, layout="bnhd")
            self.assertFalse(np.shares_memory(part, other))
        np.testing.assert_array_equal(part, right[5:7, 3])

    def test_gradients_are_those_of_fresh_memory(self):
        h, (q, k, v, d) = case()
        want = {name: x.copy() for name, x in h.gradient(q, k, v, d, layout="bnhd").items()}
        bytes_kept = hga.plans_info().spare_bytes
        self.assertGreaterEqual(bytes_kept, 4 * q.nbytes)  # the output inside, and the three that are gone
        for _ in range(3):
            found = h.gradient(q, k, v, d, layout="bnhd")
            for name, x in found.items():
                np.testing.assert_array_equal(x, want[name])
                x.fill(np.nan)
            del found, x
        self.assertEqual(hga.plans_info().spare_bytes, bytes_kept)
        hga.plans_clear()
        gc.collect()
        self.assertEqual(hga.plans_info().spare_bytes, 0)

    def test_small_results_are_numpys_own(self):
        h = hga.dense(32)
        out = h.attention(*(np.ones((1, 32, 8), np.float32) for _ in range(3)))
        self.assertTrue(out.flags.owndata or out.base.flags.owndata)
        del out
        self.assertEqual(hga.plans_info().spare_bytes, 0)

    def test_rows_that_a_program_leaves_alone_are_zeros_in_used_memory(self):
        h = hga.bpt(N, k=4)
        rng = np.random.default_rng(2)
        q, k, v = (rng.standard_normal((h.rows, HEADS, DIM)).astype(np.float32) for _ in range(3))
        want = h.attention(q, k, v, layout="bnhd").copy()
        for _ in range(2):
            out = h.attention(q, k, v, layout="bnhd")
            np.testing.assert_array_equal(out, want)
            out.fill(np.nan)
            del out

    def test_threads_get_memory_of_their_own(self):
        h, (q, k, v, _) = case()
        right = {s: h.attention(s * q, k, v, layout="bnhd", threads=1).copy() for s in range(4)}

        def work(s):
            for _ in range(5):
                np.testing.assert_array_equal(h.attention(s * q, k, v, layout="bnhd", threads=1), right[s])

        at_once(work, 4)

    @needs("torch")
    def test_training_steps_keep_their_tapes(self):
        h, arrays = case()
        q, k, v, d = (torch.from_numpy(x).transpose(0, 1).contiguous() for x in arrays)
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        grads = []
        for _ in range(3):
            for x in leaves:
                x.grad = None
            (h.attention(*leaves) * d).sum().backward()
            grads.append([x.grad.clone() for x in leaves])
        for step in grads[1:]:
            for a, b in zip(grads[0], step):
                self.assertTrue(torch.equal(a, b))
