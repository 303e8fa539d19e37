"""Hostile cases: arrays that lie oddly, in-place changes, autograd's corners, torch.func, torch.compile, forks, threads, memory.
Each ends in the right numbers or in one clear hga.Error."""

import gc
import multiprocessing
import os
import re
import signal
import threading
import time
import unittest
import weakref

import hga
import numpy as np
from hga._core.arrays import BF16
from hga._graphs.calls import KNOWN, PLANS_CACHED
from hga._core.plans import PLANS
from shared import at_once, grown, needs, package, refused, torch

forward_ad = package("torch.autograd.forward_ad")
by_operator = package("hga.torch._by_operator")

RNG = np.random.default_rng(11)
N, HEADS, DIM = 24, 2, 8


def arrays(n=N, heads=HEADS, dim=DIM, batch=(2,), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(batch + (heads, n, dim)).astype(np.float32) for _ in range(3)]


def tensors(n=N, heads=HEADS, dim=DIM, batch=(2,), seed=0, grad=True):
    return [torch.from_numpy(x).requires_grad_(grad) for x in arrays(n, heads, dim, batch, seed)]


def window(n=N):
    return hga.window(n, left=4, right=4)


def exit_of(pid, seconds=60):
    """How a child ended; one that hangs is ended and said to hang."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def in_child(function):
    """What a forked child says: 0 where function is true."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if function() else 1
        finally:
            os._exit(code)
    return exit_of(pid)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.h, self.x = window(), arrays()
        self.want = self.h.attention(*self.x)
        self.grads = self.h.gradient(*self.x, self.x[0])

    def equal(self, x, layout="bhnd"):
        """The same bits out of arrays of the same numbers, forwards and backwards."""
        back = (lambda a: a) if layout == "bhnd" else (lambda a: a.swapaxes(-2, -3))
        self.assertTrue(np.array_equal(back(self.h.attention(*x, layout=layout)), self.want))
        grads = self.h.gradient(*x, back(self.x[0]), layout=layout)
        for name, want in self.grads.items():
            self.assertTrue(np.array_equal(back(grads[name]), want), name)

    def test_01_both_layouts_give_equal_bits(self):
        self.equal([np.ascontiguousarray(x.swapaxes(1, 2)) for x in self.x], "bnhd")

    def test_02_arrays_are_read_where_they_lie(self):
        for name, lying in {
            "transposed": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2), "wide": lambda x: np.concatenate([x, x], -1)[..., :DIM],
            "every other": lambda x: x.repeat(2, 1).repeat(2, 2)[:, ::2, ::2], "backwards": lambda x: np.flip(np.flip(x, (1, 2)).copy(), (1, 2)),
        }.items():  # fmt: skip
            with self.subTest(name):
                self.equal([lying(x) for x in self.x])

    def test_03_one_array_of_queries_keys_and_values_may_be_sliced(self):
        packed = np.stack(self.x, axis=3)  # [b][h][n][3][d]
        self.equal([packed[..., i, :] for i in range(3)])

    def test_07_samples_may_be_one_sample_again_and_again(self):
        one = [np.broadcast_to(x[:1], (5,) + x.shape[1:]) for x in self.x]
        got = self.h.attention(*one)
        self.assertTrue(all(np.array_equal(got[i], self.want[0]) for i in range(5)))

    def test_08_heads_or_rows_of_stride_0_are_taken(self):
        for axis in (1, 2):
            v = np.broadcast_to(self.x[2].take([0], axis), self.x[2].shape)
            found = self.h.attention(self.x[0], self.x[1], v)
            self.assertTrue(np.array_equal(found, self.h.attention(self.x[0], self.x[1], v.copy())))

    def test_09_fortran_order_is_refused_or_right(self):
        with self.assertRaisesRegex(hga.Error, "contiguous in the last dimension"):
            self.h.attention(*(np.asfortranarray(x) for x in self.x))
        self.equal([np.asfortranarray(x.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0).copy() for x in self.x])

    def test_10_arrays_at_odd_addresses_are_refused(self):
        for type_, ends in ((np.float32, "4 bytes"), (np.float16, "2 bytes")):
            q = np.frombuffer(bytearray(self.x[0].size * np.dtype(type_).itemsize + 1), np.uint8)[1:].view(type_)
            refused(self, ends, lambda: self.h.attention(q.reshape(self.x[0].shape), *self.x[1:]))
            with self.assertRaisesRegex(hga.Error, "2 bytes"):
                self.h.attention(q.view(np.uint8)[: 2 * self.x[0].size].view(BF16).reshape(self.x[0].shape), *self.x[1:])

    def test_11_read_only_arrays_are_read(self):
        for x in self.x:
            x.flags.writeable = False
        self.equal(self.x)

    def test_12_inputs_are_not_written(self):
        before = [x.copy() for x in self.x]
        self.h.gradient(*self.x, self.x[0])
        self.assertTrue(all(np.array_equal(x, y) for x, y in zip(self.x, before)))

    def test_13_query_key_and_value_may_be_one_array(self):
        q = self.x[0]
        self.assertTrue(np.array_equal(self.h.attention(q, q, q), self.h.attention(q, q.copy(), q.copy())))
        g, apart = self.h.gradient(q, q, q, q), self.h.gradient(q, q.copy(), q.copy(), q)
        self.assertTrue(all(np.array_equal(g[name], apart[name]) for name in g))

    def test_14_one_column_may_have_any_stride(self):
        wide = [np.ascontiguousarray(x) for x in self.x]
        one = [x[..., 3:4] for x in wide]
        self.assertTrue(np.array_equal(self.h.attention(*one), self.h.attention(*(x.copy() for x in one))))

    def test_15_no_heads_no_columns_no_samples(self):
        q, k, v = self.x
        for bad, words in (
            ((q[:, :0], k[:, :0], v[:, :0]), "no heads"), ((q, k[:, :0], v[:, :0]), "no heads"),
            ((q[..., :0], k[..., :0], v), "0 columns"), ((q, k, v[..., :0]), "0"), ((q[..., :0, :], k, v), "0 rows"),
        ):  # fmt: skip
            refused(self, words, lambda: self.h.attention(*bad))
        self.assertEqual(self.h.attention(q[:0], k[:0], v[:0]).shape, (0,) + q.shape[1:])
        grads = self.h.gradient(q[:0], k[:0], v[:0], q[:0])
        self.assertEqual({x.shape for x in grads.values()}, {(0,) + q.shape[1:]})

    def test_16_what_is_no_array_is_refused(self):
        q, k, v = self.x
        for bad in (None, 1.0, "q", [1.0], np.float32(1), np.array(1, np.float32), np.float32, q.tolist(), memoryview(q)):
            refused(self, "query", lambda: self.h.attention(bad, k, v))

    def test_17_wrong_types_are_refused_by_name(self):
        q, k, v = self.x
        for bad in ("float64", "int32", "uint16", "complex64", "bool", "object", "<M8[s]", ">f4", ">f2", "longdouble"):
            with self.assertRaisesRegex(hga.Error, f"key has dtype {re.escape(str(np.dtype(bad)))}"):
                self.h.attention(q, np.zeros(k.shape, bad), v)

    def test_18_batches_that_differ_are_refused(self):
        q, k, v = self.x
        for bad in ((q, k[:1], v), (q, k, v[:1]), (q, k[0], v[0]), (q[None], k, v)):
            refused(self, "batch|axes", lambda: self.h.attention(*bad))

    def test_19_numbers_that_are_none_are_refused(self):
        for name, bad in (("scale", "x"), ("scale", float("nan")), ("scale", float("inf")), ("dropout", "x"), ("dropout", -0.1),
                          ("dropout", 1.5), ("seed", -1), ("seed", 2**64), ("seed", 1.5), ("layer", -1), ("layer", 2**24)):  # fmt: skip
            with self.subTest(name=name, bad=bad), self.assertRaisesRegex(hga.Error, name):
                self.h.attention(*self.x, **{"dropout": 0.1, name: bad})

    def test_20_what_is_not_finite_stays_where_it_is_seen(self):
        for bad in (np.nan, np.inf, -np.inf):
            for which in range(3):
                x = [a.copy() for a in self.x]
                x[which][0, 1, 12, 3] = bad
                out = self.h.attention(*x)
                seen = [12] if which == 0 else range(8, 17)
                for i in range(N):
                    same = np.array_equal(out[0, 1, i], self.want[0, 1, i])
                    self.assertTrue(same or i in seen, (bad, which, i))
                self.assertTrue(np.array_equal(out[1], self.want[1]) and np.array_equal(out[0, 0], self.want[0, 0]))
                self.assertFalse(np.isfinite(out[0, 1, 12]).all() and bad is np.nan)

    def test_21_dlpack_is_taken_and_refusals_of_it_are_said(self):
        class Lent:
            def __init__(self, x):
                self.__dlpack__, self.__dlpack_device__ = x.__dlpack__, x.__dlpack_device__

        class Broken:
            def __dlpack__(self, **_):
                raise BufferError("lent to nobody")

            def __dlpack_device__(self):
                return (1, 0)

        class NumpysOwn:
            """As libraries do it: numpy looks these up on the class."""

            def __init__(self, x):
                self.x = x

            def __dlpack__(self, **more):
                return self.x.__dlpack__(**more)

            def __dlpack_device__(self):
                return self.x.__dlpack_device__()

        if not hasattr(np, "from_dlpack"):
            with self.assertRaisesRegex(hga.Error, "query is a NumpysOwn, which needs numpy 1.23 or newer, and .* is installed: give a numpy array"):
                self.h.attention(NumpysOwn(self.x[0]), *self.x[1:])
            return
        self.equal([NumpysOwn(x) for x in self.x[:1]] + self.x[1:])
        refused(self, "lent to nobody", lambda: self.h.attention(Broken(), *self.x[1:]))


@needs("torch")
class InTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.h, self.x = window(), tensors()
        self.out = self.h.attention(*self.x)
        self.grads = torch.autograd.grad(self.out.pow(2).sum(), self.x, retain_graph=True)

    def assert_grads(self, found):
        for x, want in zip(found, self.grads):
            self.assertTrue(torch.equal(x, want))


class Views(InTorch):
    def test_22_views_of_tensors_give_equal_bits_forwards_and_backwards(self):
        turned = [x.detach().transpose(1, 2).contiguous() for x in self.x]
        for of in (lambda x: x.transpose(1, 2), lambda x: x.permute(0, 2, 1, 3), lambda x: x[:, :, :, :].swapaxes(1, 2)):
            leaves = [x.requires_grad_() for x in turned]
            out = self.h.attention(*(of(x) for x in leaves))
            self.assertTrue(torch.equal(out, self.out))
            self.assert_grads([x.transpose(1, 2) for x in torch.autograd.grad(out.pow(2).sum(), leaves)])

    def test_23_slices_of_one_projection_get_its_gradient(self):
        packed = torch.stack([x.detach() for x in self.x], 3).requires_grad_()
        out = self.h.attention(*packed.unbind(3))
        self.assertTrue(torch.equal(out, self.out))
        (g,) = torch.autograd.grad(out.pow(2).sum(), packed)
        self.assert_grads(g.unbind(3))

    def test_24_expanded_samples_get_the_sum_of_their_gradients(self):
        q, k, v = (x.detach()[:1].requires_grad_() for x in self.x)
        out = self.h.attention(*(x.expand(3, -1, -1, -1) for x in (q, k, v)))
        found = torch.autograd.grad(out.pow(2).sum(), (q, k, v))
        for x, want in zip(found, self.grads):
            self.assertLess((x - 3 * want[:1]).abs().max(), 1e-4)

    def test_25_expanded_heads_and_gradients_are_taken(self):
        q, k, v = self.x
        expanded = v[:, :1].expand(-1, HEADS, -1, -1)
        a, b = (self.h.attention(q, k, x) for x in (expanded, expanded.contiguous()))
        self.assertTrue(torch.equal(a, b))
        self.assertTrue(torch.equal(*(torch.autograd.grad(x.sin().sum(), v)[0] for x in (a, b))))
        a = torch.autograd.grad(self.out.sum(), q, retain_graph=True)[0]  # d_out is one number, expanded
        self.assertTrue(torch.equal(a, torch.autograd.grad(self.out, q, torch.ones_like(self.out), retain_graph=True)[0]))

    def test_26_other_layouts_devices_and_types_are_refused_in_words(self):
        q, k, v = self.x
        nested = torch.nested.nested_tensor([torch.randn(HEADS, N, DIM)] * 2, layout=torch.jagged)
        for bad, words in ((q.detach().to_sparse(), "sparse"), (nested, "nested"), (q.double(), "float64"), (q.long(), "int64"),
                           (q > 0, "dtype"), (q.to(torch.complex64), "dtype"), (q.to("meta"), "meta"), (q[0], "axes"), (None, "None"),
                           (3.0, "float")):  # fmt: skip
            refused(self, words, lambda: self.h.attention(bad, k, v))

    def test_27_numpy_and_torch_may_meet_in_a_call(self):
        q, k, v = self.x
        out = self.h.attention(q, k.detach().numpy(), v.detach().numpy())
        self.assertTrue(torch.equal(out, self.out))
        self.assertTrue(torch.equal(torch.autograd.grad(out.pow(2).sum(), q)[0], self.grads[0]))

    def test_28_meta_tensors_have_shapes_and_types(self):
        out, lse = self.h.attention(*(x.detach().bfloat16().to("meta") for x in self.x), lse=True)
        self.assertEqual((out.shape, out.dtype, out.device.type), (self.out.shape, torch.bfloat16, "meta"))
        self.assertEqual((lse.shape, lse.dtype), (self.out.shape[:-1], torch.float32))


class Autograd(InTorch):
    def test_29_queries_changed_before_backward_are_torchs_version_error(self):
        for i in range(3):
            x = [y.detach().clone().requires_grad_() for y in self.x]
            out = self.h.attention(*(y * 1 for y in x[:i]), (changed := x[i] * 1), *(y * 1 for y in x[i + 1 :]))
            changed.add_(1)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                out.sum().backward()

    def test_30_an_output_changed_before_backward_is_too(self):
        out = self.h.attention(*self.x)
        with torch.no_grad():
            out.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            out.sum().backward()

    def test_31_a_graph_that_is_retained_goes_back_again(self):
        loss = self.h.attention(*self.x).pow(2).sum()
        self.assert_grads(torch.autograd.grad(loss, self.x, retain_graph=True))
        self.assert_grads(torch.autograd.grad(loss, self.x))
        with self.assertRaisesRegex(RuntimeError, "second time"):
            torch.autograd.grad(loss, self.x)

    def test_32_gradients_accumulate_in_leaves(self):
        for _ in range(2):
            self.h.attention(*self.x).pow(2).sum().backward()
        for x, want in zip(self.x, self.grads):
            self.assertTrue(torch.equal(x.grad, 2 * want))

    def test_33_second_derivatives_are_refused(self):
        (g,) = torch.autograd.grad(self.h.attention(*self.x).pow(2).sum(), self.x[0], create_graph=True)
        refused(self, "second derivative", g.sum().backward)
        with self.assertRaisesRegex(hga.Error, "second derivative"):
            torch.func.grad(lambda a: torch.func.grad(lambda b: self.h.attention(b, *self.x[1:]).pow(2).sum())(a).sum())(self.x[0])

    def test_35_without_gradients_nothing_is_kept(self):
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                out = self.h.attention(*self.x)
            self.assertFalse(out.requires_grad)
            self.assertTrue(torch.equal(out, self.out))

    def test_36_a_table_alone_may_want_a_gradient(self):
        h = hga.htransformer(N, block=4, relative=True)
        q, k, v = (x.detach() for x in self.x)
        bias = torch.zeros(16, HEADS, requires_grad=True)
        h.attention(q, k, v, rel_bias=bias).pow(2).sum().backward()
        want = h.gradient(*(x.numpy() for x in (q, k, v)), 2 * h.attention(q, k, v).numpy(), rel_bias=np.zeros((16, HEADS), np.float32))
        self.assertLess((bias.grad - torch.from_numpy(want["rel_bias"])).abs().max(), 1e-5)

    def test_37_the_log_sum_exp_alone_may_be_gone_back_from(self):
        dense = hga.dense(N)
        _, lse = dense.attention(*self.x, lse=True)
        found = torch.autograd.grad(lse.pow(2).sum(), self.x)
        d = [x.detach().double().requires_grad_() for x in self.x]
        want = torch.autograd.grad(((d[0] @ d[1].mT) / DIM**0.5).logsumexp(-1).pow(2).sum(), d[:2])
        for x, y in zip(found, want):
            self.assertLess((x - y).abs().max(), 1e-4)
        self.assertFalse(found[2].any())

    def test_38_an_output_is_the_next_calls_query(self):
        q, k, v = self.x
        found = torch.autograd.grad(self.h.attention(self.h.attention(q, k, v), k, v).pow(2).sum(), self.x)
        inner = self.h.attention(q, k, v).detach().requires_grad_()
        outer = torch.autograd.grad(self.h.attention(inner, k, v).pow(2).sum(), (inner, k, v))
        below = torch.autograd.grad(self.h.attention(q, k, v), self.x, outer[0])
        for x, y in zip(found, (below[0], below[1] + outer[1], below[2] + outer[2])):
            self.assertLess((x - y).abs().max(), 1e-5)

    def test_39_hooks_see_and_change_gradients(self):
        out, seen = self.h.attention(*self.x), []
        out.register_hook(lambda g: seen.append(g.clone()) or 2 * g)
        found = torch.autograd.grad(out.pow(2).sum(), self.x)
        self.assertTrue(torch.equal(seen[0], 2 * self.out))
        for x, want in zip(found, self.grads):
            self.assertLess((x - 2 * want).abs().max(), 1e-5)

    def test_40_saved_tensors_may_be_packed_and_plans_go_meanwhile(self):
        """Copies of tapes do not keep their plan: then the forward pass is run again."""
        h = window()
        with torch.autograd.graph.save_on_cpu():
            out = h.attention(*self.x)
        for dim in range(1, PLANS_CACHED + 3):
            h.attention(*tensors(dim=DIM + dim))
        self.assert_grads(torch.autograd.grad(out.pow(2).sum(), self.x))

    def test_41_plans_may_be_evicted_between_forward_and_backward(self):
        h = window()
        outs = [h.attention(*tensors(dim=dim, seed=dim)) for dim in range(1, 2 * PLANS_CACHED)]
        wants = [window().attention(*tensors(dim=dim, seed=dim)) for dim in range(1, 2 * PLANS_CACHED)]
        self.assertEqual(len(h._plans), PLANS_CACHED)
        for out, want in zip(outs, wants):
            self.assertTrue(torch.equal(out, want))
            out.sum().backward()

    def test_42_hierarchies_may_be_dropped_between_forward_and_backward(self):
        h = window()
        out, gone = h.attention(*self.x), weakref.ref(h)
        del h
        gc.collect()
        self.assertIsNotNone(gone())
        self.assert_grads(torch.autograd.grad(out.pow(2).sum(), self.x))
        del out
        gc.collect()
        self.assertIsNone(gone())

    def test_43_threads_may_change_between_forward_and_backward(self):
        before = torch.get_num_threads()
        try:
            for first, then in ((1, 2), (2, 1)):
                torch.set_num_threads(first)
                out = self.h.attention(*self.x)
                torch.set_num_threads(then)
                self.assert_grads(torch.autograd.grad(out.pow(2).sum(), self.x))
            h = window()
            h.threads = 2
            h.attention(*self.x)
            self.assertEqual([key[5] for key in h._plans], [2])  # a hierarchy's own threads are not torch's
        finally:
            torch.set_num_threads(before)

    def test_44_gradcheck_in_double_is_refused_by_type(self):
        with self.assertRaisesRegex(hga.Error, "float64"):
            torch.autograd.gradcheck(self.h.attention, [x.detach().double().requires_grad_() for x in self.x])

    def test_45_empty_batches_go_forwards_and_backwards(self):
        bias = torch.zeros(16, HEADS, requires_grad=True)
        for h, tables in ((self.h, {}), (hga.htransformer(N, block=4, relative=True), {"rel_bias": bias})):
            leaves = [x.detach()[:0].requires_grad_() for x in self.x]
            out, lse = h.attention(*leaves, lse=True, **tables)
            self.assertEqual((out.shape, lse.shape), ((0, HEADS, N, DIM), (0, HEADS, N)))
            found = torch.autograd.grad(out.sum() + lse.sum(), leaves + list(tables.values()))
            self.assertEqual([x.shape for x in found[:3]], [(0, HEADS, N, DIM)] * 3)
            self.assertFalse(any(x.any() for x in found))

    def test_46_backward_in_another_thread_is_the_same(self):
        found = []
        loss = self.h.attention(*self.x).pow(2).sum()
        t = threading.Thread(target=lambda: found.extend(torch.autograd.grad(loss, self.x)))
        t.start()
        t.join()
        self.assert_grads(found)

    def test_47_seeds_of_64_bits_are_those_of_numpy(self):
        for seed in (2**63 - 1, 2**63, 2**64 - 1):
            out = self.h.attention(*self.x, dropout=0.3, seed=seed)
            want = self.h.attention(*(x.detach().numpy() for x in self.x), dropout=0.3, seed=seed)
            self.assertTrue(np.array_equal(out.detach().numpy(), want))
            out.sum().backward()
        refused(self, "seed", lambda: self.h.attention(*self.x, dropout=0.3, seed=2**64))


class Functions(InTorch):
    """torch.func."""

    def test_48_grad_vjp_and_jacrev_are_autograds(self):
        loss = lambda *x: self.h.attention(*x).pow(2).sum()  # noqa: E731
        self.assert_grads(torch.func.grad(loss, argnums=(0, 1, 2))(*self.x))
        out, back = torch.func.vjp(self.h.attention, *self.x)
        self.assert_grads(back(2 * out))
        few = [x.detach()[0, :1] for x in tensors(n=6)]
        h = hga.dense(6)
        jacobian = torch.func.jacrev(lambda a: h.attention(a, *few[1:]))(few[0])
        leaf = few[0].clone().requires_grad_()
        out = h.attention(leaf, *few[1:])
        for at in ((0, 0, 0), (0, 5, 7), (0, 2, 3)):
            (row,) = torch.autograd.grad(out[at], leaf, retain_graph=True)
            self.assertLess((jacobian[at] - row).abs().max(), 1e-6)

    def test_49_vmap_is_a_batch_axis(self):
        q, k, v = (x.detach() for x in self.x)
        for lse in (False, True):
            got = torch.func.vmap(lambda *x: self.h.attention(*x, lse=lse))(q, k, v)
            want = self.h.attention(q, k, v, lse=lse)
            for a, b in zip(got if lse else [got], want if lse else [want]):
                self.assertTrue(torch.equal(a, b))
        moved = torch.func.vmap(self.h.attention, in_dims=(2, None, 0), out_dims=1)(q.movedim(0, 2), k[0], v)
        self.assertTrue(torch.equal(moved.movedim(1, 0), self.h.attention(q, k[:1].expand_as(k), v)))
        heads = torch.func.vmap(torch.func.vmap(self.h.attention))(q, k, v)  # two axes are one head
        self.assertTrue(torch.equal(heads, self.h.attention(q, k, v)))

    def test_50_vmap_of_grad_and_grad_of_vmap_are_sample_by_sample(self):
        h = hga.htransformer(N, block=4, relative=True)
        bias = torch.randn(16, HEADS)
        loss = lambda b, *x: h.attention(*x, rel_bias=b).pow(2).sum()  # noqa: E731
        each = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 0, 0, 0))(bias, *self.x)
        both = torch.func.grad(lambda b: torch.func.vmap(loss, in_dims=(None, 0, 0, 0))(b, *self.x).sum())(bias)
        for i in range(2):
            want = torch.func.grad(loss, argnums=(0, 1))(bias, *(x[i] for x in self.x))
            self.assertLess((each[0][i] - want[0]).abs().max(), 1e-5)
            self.assertLess((each[1][i] - want[1]).abs().max(), 1e-5)
        self.assertLess((each[0].sum(0) - both).abs().max(), 1e-4)
        tables = torch.randn(2, 16, HEADS)
        got = torch.func.vmap(lambda b, *x: h.attention(*x, rel_bias=b))(tables, *self.x)
        for i in range(2):
            self.assertTrue(torch.equal(got[i], h.attention(*(x[i] for x in self.x), rel_bias=tables[i])))

    def test_51_forward_mode_is_refused_wherever_the_tangent_is(self):
        q, k, v = (x.detach() for x in self.x)
        ones = torch.ones_like(q)
        table = torch.zeros(16, HEADS)
        h = hga.htransformer(N, block=4, relative=True)
        for f in (lambda a: self.h.attention(a, k, v), lambda a: self.h.attention(q, a, v), lambda a: self.h.attention(q, k, a)):
            for call in (lambda: torch.func.jvp(f, (q,), (ones,)), lambda: torch.func.jacfwd(f)(q)):
                refused(self, "forward-mode", call)
            with torch.no_grad(), self.assertRaisesRegex(hga.Error, "forward-mode"):
                torch.func.jvp(f, (q,), (ones,))
            with forward_ad.dual_level(), self.assertRaisesRegex(hga.Error, "forward-mode"):
                f(forward_ad.make_dual(q, ones))
        with self.assertRaisesRegex(hga.Error, "forward-mode"):
            torch.func.jvp(lambda b: h.attention(q, k, v, rel_bias=b), (table,), (table,))
        with self.assertRaisesRegex(hga.Error, "forward-mode|second derivative"):
            torch.func.hessian(lambda a: self.h.attention(a, k, v).sum())(q)
        with forward_ad.dual_level():
            self.assertTrue(torch.equal(self.h.attention(q, k, v), self.out))  # no tangent, no refusal


class Compiled(InTorch):
    def test_52_a_call_is_one_graph_with_equal_bits(self):
        q = self.h.attention
        f = torch.compile(lambda *x: q(*x) * 2, fullgraph=True)
        out = f(*self.x)
        self.assertTrue(torch.equal(out, 2 * self.out))
        want = torch.autograd.grad((2 * self.h.attention(*self.x)).pow(2).sum(), self.x)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(out.pow(2).sum(), self.x), want)))

    def test_53_one_compiled_function_serves_several_hierarchies_and_seeds(self):
        f = torch.compile(lambda h, s, *x: h.attention(*x, dropout=0.2, seed=s) * 2, fullgraph=True, backend="aot_eager")
        for left in range(1, 5):
            h = hga.window(N, left=left)
            out = f(h, left, *self.x)
            want = 2 * h.attention(*self.x, dropout=0.2, seed=left)
            self.assertTrue(torch.equal(out, want))
            out.sum().backward()

    def test_54_what_changes_between_compiled_forward_and_backward_is_survived(self):
        def made():
            h = window()
            return torch.compile(lambda *x: h.attention(*x), fullgraph=True, backend="aot_eager"), weakref.ref(h)

        before = torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            f, h = made()
            out = f(*self.x)
            torch.set_num_threads(1)
            for dim in range(1, PLANS_CACHED + 3):
                h().attention(*tensors(dim=DIM + dim))
            del f
            torch._dynamo.reset()
            gc.collect()
            self.assert_grads(torch.autograd.grad(out.pow(2).sum(), self.x))
        finally:
            torch.set_num_threads(before)

    def test_55_autocast_and_bfloat16_compile_with_equal_bits(self):
        f = torch.compile(self.h.attention, fullgraph=True, backend="aot_eager")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, want = f(*self.x), self.h.attention(*self.x)
        self.assertEqual(out.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(out, want))
        found, wants = (torch.autograd.grad(y.float().pow(2).sum(), self.x) for y in (out, want))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(found, wants)))

    def test_56_operators_are_as_torch_wants_them_in_every_type(self):
        for type_, scale, lse in ((torch.bfloat16, None, False), (torch.float16, 0.0, True), (torch.float32, 0.5, True)):
            x = [y.detach().to(type_).requires_grad_() for y in self.x]
            sink, given = torch.randn(HEADS, requires_grad=True), [] if scale is None else [scale]
            names = " ".join(["sink"] + ["scale"] * len(given))
            inputs = by_operator.inputs_of(self.h, ("bhnd", 0.0, 0, 0, "f32", 1, None), lse, [*x, sink], names, given)._replace(wants="gggg")
            self.assertEqual(set(torch.library.opcheck(torch.ops.hga.attention, ("hierarchy", *inputs)).values()), {"SUCCESS"})

    def test_57_names_of_hierarchies_are_of_one_process(self):
        """torch keeps compiled graphs in files: a name in one must not be another process's hierarchy."""
        ours = self.h._name
        said, say = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(say, window()._name.encode())
            os._exit(0)
        self.assertEqual(exit_of(pid), 0)
        theirs = os.read(said, 100).decode()
        os.close(said), os.close(say)
        self.assertNotEqual(ours.split("-")[0], theirs.split("-")[0])


class Items:
    """A dataset whose items attend: run in the workers of a DataLoader."""

    def __init__(self, h):
        self.h = h

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.h.attention(*tensors(seed=i, grad=False))


def attended(seed):
    """In a spawned process."""
    return window().attention(*arrays(seed=seed))


class Processes(unittest.TestCase):
    def setUp(self):
        self.h, self.x = hga.window(600, left=32, right=32), arrays(600, 4, 16)
        self.want = self.h.attention(*self.x, threads=2)
        self.grads = self.h.gradient(*self.x, self.x[0], threads=2)

    def same(self):
        for threads in (0, 1, 2):
            grads = self.h.gradient(*self.x, self.x[0], threads=threads)
            if not all(np.array_equal(grads[name], x) for name, x in self.grads.items()):
                return False
        return np.array_equal(self.h.attention(*self.x, threads=2), self.want)

    def test_58_a_forked_child_attends_with_equal_bits(self):
        self.assertEqual(in_child(self.same), 0)
        self.assertTrue(self.same())

    def test_59_a_child_of_a_child_does_and_one_may_build_anew(self):
        self.assertEqual(in_child(lambda: in_child(self.same) == 0 and self.same()), 0)
        self.assertEqual(in_child(lambda: np.array_equal(hga.window(600, left=32, right=32).attention(*self.x), self.want)), 0)

    def test_60_a_fork_while_other_threads_call_does_not_hang(self):
        stop, errors = threading.Event(), []

        def call():
            try:
                while not stop.is_set():
                    self.h.attention(*self.x, threads=1)
            except Exception as e:  # noqa: BLE001
                errors.append(e)

        threads = [threading.Thread(target=call) for _ in range(3)]
        [t.start() for t in threads]
        try:
            found = [in_child(self.same) for _ in range(5)]
        finally:
            stop.set()
            [t.join() for t in threads]
        self.assertEqual((found, errors), ([0] * 5, []))

    def test_61_locks_that_were_held_at_a_fork_are_free_in_the_child(self):
        with self.h._lock:
            found = in_child(self.same)
        self.assertEqual(found, 0)

    def test_62_pools_of_processes_attend(self):
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                found = pool.map_async(attended, range(4)).get(120)
            self.assertTrue(all(np.array_equal(x, attended(i)) for i, x in enumerate(found)), method)

    @needs("torch")
    def test_63_workers_of_a_data_loader_attend(self):
        h = window()
        h.attention(*tensors())
        loader = torch.utils.data.DataLoader(Items(h), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=60)
        found = torch.cat(list(loader))
        want = torch.stack([Items(h)[i] for i in range(8)])
        self.assertTrue(torch.equal(found, want))


class Threads(unittest.TestCase):
    def test_64_eight_threads_share_one_hierarchy_with_equal_bits(self):
        h, x = hga.htransformer(300), arrays(300)
        want, grads = h.attention(*x), h.gradient(*x, x[0])

        def run(i):
            for _ in range(4):
                assert np.array_equal(h.attention(*x, threads=1 + i % 2), want)
                found = h.gradient(*x, x[0], threads=1 + i % 2)
                assert all(np.array_equal(found[name], y) for name, y in grads.items())

        at_once(run)

    def test_65_plans_are_evicted_while_they_are_in_use(self):
        h = hga.htransformer(100, block=8)
        cases = [arrays(100, dim=dim, seed=dim) for dim in range(1, 2 * PLANS_CACHED)]
        wants = [hga.htransformer(100, block=8).gradient(*x, x[0]) for x in cases]

        def run(i):
            for j in np.random.default_rng(i).permutation(len(cases)):
                found = h.gradient(*cases[j], cases[j][0])
                assert all(np.array_equal(found[name], y) for name, y in wants[j].items())

        at_once(run)

    @needs("torch")
    def test_66_eight_threads_go_back_at_once(self):
        h, x = hga.htransformer(100, block=8), tensors(100)
        want = torch.autograd.grad(h.attention(*x).pow(2).sum(), x)

        def run(i):
            for _ in range(5):
                leaves = [y.detach().clone().requires_grad_() for y in x]
                h.attention(*leaves).pow(2).sum().backward()
                assert all(torch.equal(y.grad, g) for y, g in zip(leaves, want))

        at_once(run)


class Memory(unittest.TestCase):
    def flat(self, call, times=2000, most=6 << 20):
        """The process holds no more after many calls than after a few."""
        self.assertLess(grown(call, 200, 0), most)
        known, plans = len(KNOWN), len(PLANS)
        self.assertLess(grown(call, 0, times), most)
        self.assertEqual((len(KNOWN), len(PLANS)), (known, plans))

    def test_67_two_thousand_calls_keep_no_memory(self):
        h = window()
        cases = [arrays(dim=dim) for dim in range(1, PLANS_CACHED)]
        self.flat(lambda i: h.attention(*cases[i % len(cases)], dropout=0.1, seed=i))
        tree, x = hga.htransformer(200, block=4), arrays(200)
        self.flat(lambda i: (tree.attention(*x), tree.gradient(*x, x[0])), 400)

    @needs("torch")
    def test_68_nor_do_two_thousand_gradients_in_torch(self):
        h, cases = window(), [tensors(dim=dim) for dim in (4, 8)]

        def call(i):
            x = cases[i % len(cases)]
            torch.autograd.grad(h.attention(*x, lse=True)[0].sum(), x)

        self.flat(call)

    def test_69_nor_do_two_thousand_hierarchies_and_refusals(self):
        x = arrays()

        def call(i):
            h = hga.window(N, left=i % 7)
            h.attention(*x)
            with self.assertRaises(hga.Error):
                h.attention(x[0][:1], *x[1:])

        self.flat(call)
