"""A call that has been made before is not checked anew, and none is taken for another; batches have the bits of their
samples."""

import unittest
from unittest import mock

import hga
import numpy as np
from hga._core import call as _call
from hga._graphs import calls as _calls
from hga._graphs import spec as _spec
from shared import grown, needs, package, refused_each, torch

TorchDispatchMode = getattr(package("torch.utils._python_dispatch"), "TorchDispatchMode", object)

N, HEADS, DIM = 24, 2, 8


def arrays(batch=(2,), n=N, heads=HEADS, dim=DIM, type_=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(batch + (heads, n, dim)).astype(type_) for _ in range(3)]


def refuses_to_check():
    """Whoever checks a call again while this holds, fails."""
    return mock.patch.object(_call.Problem, "__init__", side_effect=AssertionError("checked again"))


class Again(unittest.TestCase):
    def setUp(self):
        self.h, self.x = hga.window(N, left=4, right=4), arrays()

    def test_a_call_is_checked_once(self):
        out, grads = self.h.attention(*self.x), self.h.gradient(*self.x, self.x[0])
        other = arrays(seed=1)
        want = hga.window(N, left=4, right=4).attention(*other)
        with refuses_to_check():
            self.assertTrue(np.array_equal(self.h.attention(*self.x), out))
            self.assertTrue(np.array_equal(self.h.attention(*other), want))
            found = self.h.gradient(*self.x, self.x[0])
        self.assertTrue(all(np.array_equal(found[name], x) for name, x in grads.items()))

    def test_whatever_differs_is_another_call(self):
        q, k, v = self.x
        wide = np.concatenate([q, q], -1)[..., :DIM]
        for changed in (
            lambda: self.h.attention(wide, k, v), lambda: self.h.attention(q.astype(np.float16), k, v),
            lambda: self.h.attention(q[:1], k[:1], v[:1]), lambda: self.h.attention(q[:, :1], k[:, :1], v[:, :1]),
            lambda: self.h.attention(q, k, v, scale=0.5), lambda: self.h.attention(q, k, v, scale=0.0),
            lambda: self.h.attention(q, k, v, dropout=0.5), lambda: self.h.attention(q, k, v, precision="bf16"),
            lambda: self.h.attention(q, k, v, isa="ref"), lambda: self.h.attention(q, k[:, :1], v[:, :1]),
            lambda: self.h.attention(*(x.swapaxes(1, 2) for x in self.x), layout="bnhd"),
        ):  # fmt: skip
            self.h.attention(q, k, v)
            with self.subTest(changed), refuses_to_check(), self.assertRaisesRegex(AssertionError, "checked again"):
                changed()

    def test_what_is_wrong_is_told_after_a_call_that_was_right(self):
        q, k, v = self.x
        self.h.attention(q, k, v, threads=1)
        odd = np.frombuffer(bytearray(q.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(q.shape)
        refused_each(self, (
            ("rows", lambda: self.h.attention(q[:, :, 1:], k, v)), ("multiple of 4 bytes", lambda: self.h.attention(odd, k, v, threads=1)),
            ("threads", lambda: self.h.attention(q, k, v, threads=True)), ("seed", lambda: self.h.attention(q, k, v, seed=-1)),
            ("layer", lambda: self.h.attention(q, k, v, layer=2**24)), ("seed", lambda: self.h.attention(q, k, v, seed=True)),
            ("attn_mask", lambda: self.h.attention(q, k, v, attn_mask=None)), ("dtype", lambda: self.h.attention(q.astype(">f4"), k, v)),
        ))  # fmt: skip

    def test_batches_of_any_axes_are_their_samples(self):
        """Three axes, none of which lies as the others do, on more threads than one, tables' gradients summed in order."""
        h = hga.htransformer(N, block=4, relative=True)
        bias = np.random.default_rng(3).standard_normal((16, HEADS)).astype(np.float32)
        q, k, v = arrays((2, 3, 2))
        q = np.ascontiguousarray(q.transpose(2, 1, 0, 4, 3, 5)).transpose(2, 1, 0, 4, 3, 5)
        k = np.broadcast_to(k[:, :1], k.shape)
        v = v[::-1]
        for threads in (1, 2, 5):
            out, lse = h.attention(q, k, v, rel_bias=bias, lse=True, threads=threads)
            grads = h.gradient(q, k, v, q, rel_bias=bias, threads=threads)
            total = np.zeros_like(bias)
            for at in np.ndindex(2, 3, 2):
                one = [x[at] for x in (q, k, v)]
                want, its = h.attention(*one, rel_bias=bias, lse=True, threads=1)
                self.assertTrue(np.array_equal(out[at], want) and np.array_equal(lse[at], its))
                found = h.gradient(*one, np.ascontiguousarray(q[at]), rel_bias=bias, threads=1)
                total += found["rel_bias"]
                self.assertTrue(all(np.array_equal(grads[name][at], found[name]) for name in ("query", "key", "value")))
            self.assertTrue(np.array_equal(grads["rel_bias"], total))

    def test_calls_that_are_kept_are_bounded_and_go_with_their_plans(self):
        for dim in range(1, 2 * _calls.PLANS_CACHED):
            for batch in range(1, 9):
                self.h.attention(*arrays((batch,), dim=dim))
        self.assertEqual(len(self.h._plans), _calls.PLANS_CACHED)
        self.assertLessEqual(len(self.h._calls), _calls.CALLS_CACHED)
        self.assertLessEqual({id(call.plan) for call in self.h._calls.values()}, {id(plan) for plan in self.h._plans.values()})

    def test_the_plan_that_is_used_stays(self):
        self.h.attention(*self.x)
        (plan,) = self.h._plans.values()
        for dim in range(DIM + 1, DIM + 3 * _calls.PLANS_CACHED):
            self.h.attention(*arrays(dim=dim))
            self.h.attention(*self.x)
        self.assertIn(plan, self.h._plans.values())

    def test_what_is_kept_is_told_and_let_go(self):
        hga.plans_clear()
        before = hga.plans_info()
        self.assertEqual(before.hierarchies, 0)
        self.h.attention(*self.x, threads=2)
        info = hga.plans_info()
        self.assertEqual((info.plans - before.plans, info.workspaces - before.workspaces), (1, 2))
        (plan,) = self.h._plans.values()
        sizes = plan.sizes
        self.assertEqual(info.plan_bytes - before.plan_bytes, sizes.plan_bytes)
        self.assertGreater(sizes.plan_bytes, 0)
        self.assertEqual(sizes.workspaces, 2)
        self.assertEqual(info.workspace_bytes - before.workspace_bytes, sizes.workspace_bytes)
        del plan
        hga.plans_clear()
        self.assertEqual(hga.plans_info(), before)
        self.h.attention(*self.x)

    def test_hierarchies_by_name_are_kept_by_number_and_bytes(self):
        def lengths():
            return [n for _, n, *_ in _spec._BUILT]

        hga.plans_clear()
        for n in range(1, _spec.MOST_CACHED + 10):
            _spec.hierarchy_of("window:left=2", n, False)
        _spec.hierarchy_of("window:left=2", 12, False)
        _spec.hierarchy_of("window:left=2", 1000, False)
        self.assertEqual(lengths(), [*range(11, 12), *range(13, _spec.MOST_CACHED + 10), 12, 1000][-_spec.MOST_CACHED :])
        self.assertEqual(hga.plans_info().hierarchies, _spec.MOST_CACHED)
        one = _spec._bytes(_spec.hierarchy_of("window:left=2", 1000, False))
        with mock.patch.object(_spec, "BYTES_CACHED", 3 * one):
            for n in (1001, 1002, 1003, 1004):
                _spec.hierarchy_of("window:left=2", n, False).attention(*arrays((), n))
            self.assertLess(len(lengths()), 4)
            self.assertEqual(lengths()[-1], 1004)
            _spec.hierarchy_of("window:left=2", 50000, False)
            self.assertEqual(lengths()[-1], 50000)
        hga.plans_clear()

    def test_two_thousand_calls_of_changing_lengths_keep_no_memory(self):
        def call(i):
            n = 1 + i * 7 % 500
            hga.window(n, left=3).attention(*arrays((), n, 1, 4))
            self.h.attention(*arrays((1 + i % 9,), dim=1 + i % 23))

        self.assertLess(grown(call, 500, 2000), 24 << 20)  # plans that are kept meanwhile differ in size


@needs("torch")
class InTorch(unittest.TestCase):
    def setUp(self):
        self.h = hga.window(N, left=4, right=4)
        self.x = [torch.from_numpy(x).requires_grad_() for x in arrays()]
        self.out = self.h.attention(*self.x)
        self.grads = torch.autograd.grad(self.out.pow(2).sum(), self.x, retain_graph=True)

    def assert_same(self, out, x=None):
        self.assertTrue(torch.equal(out, self.out))
        for a, b in zip(torch.autograd.grad(out.pow(2).sum(), x or self.x), self.grads):
            self.assertTrue(torch.equal(a, b))

    def test_a_call_is_checked_once(self):
        with refuses_to_check():
            self.assert_same(self.h.attention(*self.x))
            with self.assertRaisesRegex(AssertionError, "checked again"):
                self.h.attention(*(x[:1] for x in self.x))

    def test_modes_see_the_operator(self):
        seen = []

        class See(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                seen.append(str(function))
                return function(*arguments, **(named or {}))

        with See():
            out = self.h.attention(*self.x)
        self.assertIn("hga.attention.default", seen)
        self.assert_same(out)
        out = self.h.attention(*self.x)
        with See():
            torch.autograd.grad(out.sum(), self.x)
        self.assertIn("hga.attention_backward.default", seen)

    def test_tensors_that_were_saved_may_come_back_otherwise(self):
        """Copies lie packed, whatever the tensors did."""
        x = [y.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for y in self.x]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.clone(memory_format=torch.contiguous_format)):
            out = self.h.attention(*x)
        self.assert_same(out, x)

    def test_gradients_in_batches_are_refused_in_torchs_words(self):
        """torch's older vmap, which has no rule for an operator."""
        directions = torch.stack([torch.ones_like(self.out), 2 * self.out.detach()])
        with self.assertRaisesRegex(RuntimeError, "Batching rule not implemented for hga::attention_backward"):
            torch.autograd.grad(self.out, self.x, directions, is_grads_batched=True)

    def test_only_what_needs_a_gradient_gets_one(self):
        for which in range(3):
            x = [y.detach().requires_grad_(i == which) for i, y in enumerate(self.x)]
            (found,) = torch.autograd.grad(self.h.attention(*x).pow(2).sum(), x[which])
            self.assertTrue(torch.equal(found, self.grads[which]))

    def test_parameters_and_default_devices_are_as_ever(self):
        x = [torch.nn.Parameter(y.detach()) for y in self.x]
        self.assert_same(self.h.attention(*x), x)
        with torch.device("meta"):
            out = self.h.attention(*self.x)
        self.assert_same(out)
