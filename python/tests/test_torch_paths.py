"""Nested tensors, torch.export, packages of AOTInductor, lazily negated tensors, the profiler and the FLOP counter give
what a plain call gives, or are refused in hga's words."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import hga
import numpy as np
from shared import needs, package, refused, torch

ht = package("hga.torch")
LENGTHS = (5, 9, 1)


def lists(width=16, lengths=LENGTHS):
    return [torch.randn(n, width) for n in lengths]


def nested(rows, layout):
    return torch.nested.nested_tensor(rows, layout=layout)


def layouts():
    return torch.strided, torch.jagged


def lazily(x):
    """Tensors whose memory does not hold their numbers, each with these numbers."""
    yield "negative", torch._neg_view(x), -x
    yield "imaginary part of a conjugate", torch.complex(x, x).conj().imag, -x
    yield "zero", torch._efficientzerotensor(x.shape), torch.zeros_like(x)


@needs("torch")
class Nested(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        warnings.simplefilter("ignore")

    def each_is(self, out, wanted, what):
        for a, b in zip(out.unbind(), wanted):
            self.assertEqual(a.shape, b.shape, what)
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, msg=str(what))

    def test_each_sample_is_its_own(self):
        modules = {f"Attention {spec}": (ht.Attention(spec, 16, 2, causal=causal), lambda m, x: m(x)) for spec, causal in
                   (("dense", False), ("dense", True), ("htransformer:block=2", False), ("fenwick", True), ("routed:block=2:k=1", False))}  # fmt: skip
        modules["tables"] = ht.Attention("htransformer:block=4:relative=1", 16, 2, relative_keys=True, tokens=9), lambda m, x: m(x)
        mha = ht.MultiheadAttention(16, 2, batch_first=True)
        modules["MultiheadAttention"] = mha, lambda m, x: m(x, x, x)[0]
        modules["MultiheadAttention, causal"] = mha, lambda m, x: m(x, x, x, is_causal=True)[0]
        for name, (module, call) in modules.items():
            for layout in layouts():
                rows = lists()
                wanted = [call(module, x[None])[0] for x in rows]
                leaves = [x.clone().requires_grad_() for x in rows]
                x = torch.nested.as_nested_tensor(leaves, layout=layout)
                out = call(module, x)
                self.assertTrue(out.is_nested and out.layout == layout)
                self.each_is(out, wanted, (name, layout))
                self.each_is(x + out, [x + y for x, y in zip(rows, wanted)], (name, layout))  # the same samples
                grads = torch.autograd.grad(sum(y.square().sum() for y in out.unbind()), leaves)
                for one, x, grad in zip(wanted, rows, grads):
                    again = x.clone().requires_grad_()
                    (want,) = torch.autograd.grad(call(module, again[None]).square().sum(), again)
                    self.assertLess(float((want - grad).abs().max()), 1e-4, (name, layout))

    def test_samples_may_be_empty(self):
        m = ht.Attention("dense", 16, 2)
        rows = [torch.randn(4, 16), torch.randn(0, 16), torch.randn(2, 16)]
        for layout in layouts():
            out = m(nested(rows, layout)).unbind()
            self.assertEqual([len(y) for y in out], [4, 0, 2])
            self.each_is(m(nested(rows, layout)), [m(x[None])[0] for x in rows], layout)

    def test_dropout_draws_and_compiled_jagged_tensors(self):
        m = ht.Attention("dense", 16, 2, dropout=0.5)
        x = nested(lists(), torch.jagged)
        torch.manual_seed(1)
        a = m(x).values()
        self.assertFalse(torch.equal(a, m(x).values()))
        torch.manual_seed(1)
        self.assertTrue(torch.equal(a, m(x).values()))
        m.eval()
        run = torch.compile(m, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(run(x).values(), m(x).values()))
        torch._dynamo.reset()

    def test_torchs_encoder_in_evaluation_leaves_padding_out(self):
        def encoder(attention):
            torch.manual_seed(2)
            made = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
            for layer in made.layers:
                own = attention(16, 2, batch_first=True)
                own.load_state_dict(layer.self_attn.state_dict())
                layer.self_attn = own
            return made.eval()

        theirs, ours = encoder(torch.nn.MultiheadAttention), encoder(ht.MultiheadAttention)
        x = torch.randn(3, 9, 16)
        there = torch.arange(9) < torch.tensor(LENGTHS)[:, None]
        lowest = torch.randn(3, 9).masked_fill(~there, float("-inf"))  # of which torch's encoder itself makes no nested tensor
        for mask in (~there, torch.zeros(3, 9).masked_fill(~there, float("-inf")), lowest):
            for grad in (True,) if mask is lowest else (False, True):
                with torch.set_grad_enabled(grad):
                    found = [e(x, src_key_padding_mask=mask) for e in (theirs, ours)]
                self.assertLess(float((found[0] - found[1])[there].abs().max()), 1e-5, mask.dtype)

    def test_what_takes_no_nested_tensors_says_so(self):
        for layout in layouts():
            x, rows = nested(lists(), layout), nested([torch.randn(2, 7, 8), torch.randn(2, 9, 8)], layout)
            jagged = nested([torch.randn(n, 2, 8) for n in LENGTHS], torch.jagged).transpose(1, 2)
            q, h = torch.randn(1, 2, 9, 8), hga.dense(9)
            m, mha, mask = ht.Attention("dense", 16, 2), ht.MultiheadAttention(16, 2, batch_first=True), torch.zeros(3, 9, dtype=torch.bool)
            tree = hga.hsa(9, branching=3)
            calls = [
                ("query has layout nested.*hga.dense", lambda h=h, r=r: h.attention(r, r, r)) for r in (rows, jagged)
            ] + [
                ("query is a nested tensor.*block_mask", lambda r=r: ht.flex_attention(r, r, r)) for r in (rows, jagged)
            ] + [
                ("query is a nested tensor", lambda: ht.flex_hierarchy(jagged, jagged)),
                ("query has layout nested", lambda: hga.routed(9, block=3, k=1).attention(rows, rows, rows)),
                ("query has layout nested", lambda: h.gradient(rows, rows, rows, rows)), ("rel_bias has layout nested", lambda: h.attention(q, q, q, rel_bias=rows)),
                ("a Hierarchy has one length", lambda: ht.Attention(h, 16, 2)(x)), ("lengths and key_padding_mask go with padding", lambda: m(x, lengths=[5, 9, 1])),
                ("lengths and key_padding_mask go with padding", lambda: m(x, key_padding_mask=mask)),
                ("a nested x does not go with cross-attention", lambda: ht.Attention("dense", 16, 2, cross=16)(x, x)),
                ("a nested x does not go with a normaliser", lambda: ht.Attention("dense", 16, 2, normaliser="sigmoid")(x)),
                ("memory is a nested tensor", lambda: ht.Attention("dense", 16, 2, cross=16)(torch.randn(3, 9, 16), x)),
                ("not .*8\\]", lambda: ht.Attention("dense", 8, 2)(x)), ("batch_first=True", lambda: ht.MultiheadAttention(16, 2)(x, x, x)),
                ("the same one", lambda: mha(x, x, nested(lists(), layout))), ("key_padding_mask goes with samples of one length", lambda: mha(x, x, x, mask)),
                ("attn_mask goes with", lambda: mha(x, x, x, attn_mask=torch.zeros(9, 9))),
                ("x is a nested tensor", lambda: ht.BPT(16, 2)(x)), ("x is a nested tensor", lambda: ht.NodeRows()(x)),
                ("x is a nested tensor", lambda: ht.Treeformer(16, 2, 2)(x)), ("x is a nested tensor", lambda: ht.HierarchicalEncoderLayer(16, 2)(x, tree)),
            ]  # fmt: skip
            for says, call in calls:
                with self.subTest(f"{says} {layout}"), self.assertRaisesRegex(hga.Error, says):
                    call()
        held = torch.nested.nested_tensor_from_jagged(torch.randn(9, 16), torch.tensor([0, 4, 9]), torch.tensor([3, 5]))
        refused(self, "holes between its samples.*contiguous", lambda: ht.Attention("dense", 16, 2)(held))


@needs("torch")
class Exported(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        warnings.simplefilter("ignore")
        self.x = torch.randn(1, 2, 64, 16)

    def tearDown(self):
        torch._dynamo.reset()

    def flexes(self):
        documents = torch.arange(64) // 20
        mask = ht.create_block_mask(lambda b, h, i, j: (i >= j) & (documents[i] == documents[j]), None, None, 64, 64)

        class Scored(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.slopes = torch.nn.Parameter(torch.rand(2))

            def forward(self, q):
                return ht.flex_attention(q, q, q, lambda s, b, h, i, j: s - self.slopes[h] * (i - j).abs(), mask, return_lse=True)

        class Plain(torch.nn.Module):
            def forward(self, q):
                return ht.flex_attention(q, q, q, scale=0.3), q

        return Plain(), Scored()

    def test_flex_attention_strict_or_not(self):
        for module in self.flexes():
            for strict in (True, False):
                made = torch.export.export(module, (self.x,), strict=strict).module()
                for a, b in zip(made(self.x), module(self.x)):
                    self.assertTrue(torch.equal(a, b), (module, strict))
                if hasattr(module, "slopes"):
                    (a,), (b,) = (torch.autograd.grad(m(self.x)[0].square().sum(), m.slopes) for m in (made, module))
                    self.assertTrue(torch.equal(a, b), strict)

    def test_a_block_mask_is_made_outside(self):
        class Masked(torch.nn.Module):
            def forward(self, q):
                return ht.flex_attention(q, q, q, None, ht.create_block_mask(lambda b, h, i, j: i >= j, None, None, 64, 64))

        for strict in (True, False):
            with self.assertRaisesRegex(Exception, "create_block_mask: inside torch.compile .*make it outside"):
                torch.export.export(Masked(), (self.x,), strict=strict)

    def test_modules_and_masks(self):
        rows, mask = torch.randn(2, 12, 16), torch.randn(2, 12)
        hidden = torch.arange(12) >= torch.tensor([[12], [9]])
        for module, given in ((ht.Attention("dense", 16, 2), (rows, None)), (ht.MultiheadAttention(16, 2, batch_first=True), (rows, rows, rows, mask)),
                              (ht.MultiheadAttention(16, 2, batch_first=True), (rows, rows, rows, hidden))):  # fmt: skip
            for strict in (True, False):
                made = torch.export.export(module, given, strict=strict).module()
                a, b = made(*given), module(*given)
                a, b = (a[0], b[0]) if isinstance(b, tuple) else (a, b)
                self.assertTrue(torch.equal(a, b), (module, strict))

    def test_packages_of_aotinductor(self):
        """What has no table, and so an empty list: attention, named hierarchies, and passes that are one operator."""
        h, module = hga.htransformer(64, block=8, causal=True), ht.Attention("dense", 32, 2)
        relative = hga.htransformer(64, block=8, relative=True)

        class All(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.named = module
                self.bias = torch.nn.Parameter(torch.randn(lib_types(relative), 2))

            def forward(self, q):
                rows = q.transpose(1, 2).reshape(1, 64, 32)
                return (h.attention(q, q, q), relative.attention(q, q, q, rel_bias=self.bias), self.named(rows), ht.flex_attention(q, q, q),
                        h.attention(q, q, q, softcap=5.0, lse=True)[1])  # fmt: skip

        made = All()
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = torch._inductor.aoti_compile_and_package(torch.export.export(made, (self.x,)), package_path=os.path.join(folder, "m.pt2"))
            for x in (self.x, torch.randn_like(self.x)):
                for a, b in zip(torch._inductor.aoti_load_package(path)(x), made(x)):
                    self.assertLess(float((a - b).abs().max()), 1e-5)


def lib_types(h):
    from hga.torch._modules import _types

    return _types(h)


@needs("torch")
class Watched(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)
        warnings.simplefilter("ignore")

    def test_lazily_negated_tensors_are_their_numbers(self):
        x = torch.randn(1, 2, 24, 8)
        for h in (hga.dense(24), hga.routed(24, block=4, k=2), hga.htransformer(24, block=4)):
            for name, lazy, plain in lazily(x):
                for at in range(3):
                    given, same = ([y if i == at else x for i in range(3)] for y in (lazy, plain))
                    self.assertTrue(torch.equal(h.attention(*given), h.attention(*same)), (h, name))
                    for a, b in zip(h.gradient(*given, x).values(), h.gradient(*same, x).values()):
                        self.assertTrue(np.array_equal(a, b), (h, name))
                (a,), (b,) = (torch.autograd.grad(h.attention(y, x, x), y, lazy) for y in (lazy.detach().requires_grad_(), plain.clone().requires_grad_()))
                self.assertTrue(torch.equal(a, b), (h, name))
        routed = hga.routed(24, block=4, k=2)
        for name, lazy, plain in lazily(x[0]):
            self.assertTrue(np.array_equal(routed.choice(lazy, x[0]), routed.choice(plain, x[0])), name)
            self.assertEqual(routed.hierarchy(lazy, x[0]), routed.hierarchy(plain, x[0]))
            self.assertEqual(hga.dense(24).weights(lazy, x[0], 3).tolist(), hga.dense(24).weights(plain, x[0], 3).tolist())
        score = torch._neg_view(torch.rand(24))
        same = score.resolve_neg()
        flex = [ht.flex_attention(x, x, x, lambda s, b, h, i, j, t=t: s + t[j]) for t in (score, same)]
        self.assertTrue(torch.equal(*flex))
        masks = [ht.create_block_mask(lambda b, h, i, j, t=t: t[j] < -0.5, None, None, 24, 24) for t in (score, same)]
        self.assertTrue(torch.equal(*(ht.flex_attention(x, x, x, None, mask) for mask in masks)))

    def test_profilers_list_operators_by_name(self):
        from torch.profiler import profile

        q, rows = torch.randn(1, 2, 24, 8), torch.randn(1, 24, 16)
        module, h, routed = ht.Attention("dense", 16, 2), hga.dense(24), hga.routed(24, block=4, k=2)
        for call, given in ((lambda q: h.attention(q, q, q), q), (lambda q: routed.attention(q, q, q), q),
                            (lambda q: ht.flex_attention(q, q, q), q), (module, rows)):  # fmt: skip
            for grad in (False, True):
                x = given.clone().requires_grad_(grad)
                with profile() as p:
                    y = call(x)
                    if grad:
                        y.sum().backward()
                names = {e.key for e in p.key_averages()}
                self.assertIn("hga::attention", names)
                self.assertEqual("hga::attention_backward" in names, grad)
                self.assertTrue(torch.equal(y, call(x)))

    def test_flops_are_counted_by_edges(self):
        from torch.utils.flop_counter import FlopCounterMode

        def counted(call, *given):
            with FlopCounterMode(display=False) as counter:
                out = call(*given)
                forth = counter.get_total_flops()
                if isinstance(out, torch.Tensor) and out.requires_grad:
                    out.sum().backward()
            return forth, counter.get_total_flops() - forth

        q = torch.randn(3, 2, 24, 8, requires_grad=True)
        sdpa = counted(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
        edges = 24 * 24
        self.assertEqual(sdpa, (3 * 2 * edges * 4 * 8, 3 * 2 * edges * 10 * 8))
        self.assertEqual(counted(lambda: hga.dense(24).attention(q, q, q)), sdpa)
        self.assertEqual(counted(lambda: hga.dense(24).attention(q.detach(), q.detach(), q.detach())), (sdpa[0], 0))
        wide = torch.randn(3, 2, 24, 16)
        self.assertEqual(counted(lambda: hga.dense(24).attention(q, q, wide)), (3 * 2 * edges * 2 * (8 + 16), 3 * 2 * edges * (6 * 8 + 4 * 16)))
        for h in (hga.window(24, left=2, right=1), hga.htransformer(24, block=4), hga.dense(24, causal=True)):
            edges = int(h.plan(2, 8)["edges"])
            self.assertLess(edges, 24 * 24)
            self.assertEqual(counted(lambda h=h: h.attention(q, q, q)), (3 * 2 * edges * 32, 3 * 2 * edges * 80), h)
            self.assertEqual(counted(lambda h=h: h.attention(q.transpose(1, 2), q.transpose(1, 2), q.transpose(1, 2), layout="bnhd")), (3 * 2 * edges * 32, 3 * 2 * edges * 80))
        pairs = sum(1 for i in range(24) for j in range(24) if j <= i)
        self.assertEqual(counted(lambda: hga.dense(24, causal=True).attention(q[0, 0], q[0, 0], q[0, 0])), (pairs * 32, pairs * 80))
        self.assertEqual(counted(lambda: ht.flex_attention(q, q, q, lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")))), (3 * 2 * pairs * 32, 3 * 2 * pairs * 80))
        m, x = ht.Attention("dense", 16, 2), torch.randn(3, 24, 16, requires_grad=True)
        of_linear = counted(lambda: m.out(m.project(x)[..., :16]))
        for lengths in ([24, 24, 24], [24, 5, 1]):
            edges = sum(n * n for n in lengths)
            self.assertEqual(counted(lambda: m(x, lengths=lengths)), (of_linear[0] + 2 * edges * 32, of_linear[1] + 2 * edges * 80))
        self.assertEqual(counted(m, x), (of_linear[0] + 2 * 3 * 576 * 32, of_linear[1] + 2 * 3 * 576 * 80))
        self.assertEqual(counted(hga.routed(24, block=4, k=1, score="mean").attention, q, q, q)[1] % 80, 0)

    def test_exported_passes_are_counted(self):
        from torch.utils.flop_counter import FlopCounterMode

        q = torch.randn(1, 2, 24, 8, requires_grad=True)

        class Flex(torch.nn.Module):
            def forward(self, q):
                return ht.flex_attention(q, q, q)

        run = torch.export.export(Flex(), (q,)).module()
        with FlopCounterMode(display=False) as counter:
            out = run(q)
            forth = counter.get_total_flops()
            out.sum().backward()
        self.assertEqual((forth, counter.get_total_flops() - forth), (2 * 576 * 32, 2 * 576 * 80))
        torch._dynamo.reset()

    def test_formulas_wait_for_torchs_counter(self):
        says = """
import sys, hga, hga.torch, torch
assert "torch.utils.flop_counter" not in sys.modules
before = len(sys.meta_path)
from torch.utils.flop_counter import FlopCounterMode, flop_registry
assert torch.ops.hga.attention in flop_registry and len(sys.meta_path) == before - 1
import importlib
importlib.reload(sys.modules["torch.utils.flop_counter"])
"""
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", says], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
