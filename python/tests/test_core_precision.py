"""Tensors of 16 bits get bfloat16's products where the processor multiplies pairs of it, float32's everywhere else: one
answer for numpy and torch, eager and compiled, calls and modules and decoders."""

import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import hga
import numpy as np
from hga._core.arrays import BF16, narrowed
from hga._core.precision import multiplies_pairs, resolved
from shared import needs, refused, torch

HERE = hga.isa_list().split()
PAIRS = "bf16" if multiplies_pairs(None) else "f32"


class OfProcessors(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(1)
        self.h, self.wide = hga.dense(70), [rng.standard_normal((2, 70, 16)).astype(np.float32) for _ in range(3)]
        self.x = [narrowed(x, BF16) for x in self.wide]

    def out(self, x, **more):
        out = self.h.attention(*x, **more)
        return out.view(np.uint16) if out.dtype == BF16 else out

    def test_which_instruction_sets_multiply_pairs(self):
        for isa in HERE:
            self.assertEqual(multiplies_pairs(isa), isa.endswith("bf16"), isa)
        forced = os.environ.get("HGA_ISA")
        self.assertEqual(multiplies_pairs(None), (forced or HERE[-1]).endswith("bf16"))
        refused(self, "abacus", lambda: multiplies_pairs("abacus"))

    def test_the_default_is_bf16_where_they_do_and_f32_elsewhere(self):
        for isa in HERE:
            f32, bf16 = (self.out(self.x, isa=isa, precision=p) for p in ("f32", "bf16"))
            got = self.out(self.x, isa=isa)
            self.assertTrue(np.array_equal(got, bf16 if isa.endswith("bf16") else f32), isa)
            if isa.endswith("bf16"):
                self.assertFalse(np.array_equal(f32, bf16))

    def test_so_it_is_where_the_environment_names_the_instruction_set(self):
        code = ("import hga, os; got = hga.dense(9, causal=True).decoder(heads=1, dim=8, row_type='bf16').precision;"
                "assert got == ('bf16' if os.environ['HGA_ISA'].endswith('bf16') else 'f32'), got")  # fmt: skip
        for isa in HERE:
            subprocess.run([sys.executable, "-c", code], env={**os.environ, "HGA_ISA": isa}, check=True)

    def test_other_types_and_mixed_ones_stay_in_f32(self):
        half = [x.astype(np.float16) for x in self.wide]
        q, k, v = self.x
        for x in (self.wide, half, (q, k, self.wide[2]), (half[0], k, v)):
            self.assertTrue(np.array_equal(self.out(x), self.out(x, precision="f32")))

    def test_a_gradient_is_that_of_the_same_precision(self):
        got, f32 = (self.h.gradient(*self.x, self.x[0], **more) for more in ({}, {"precision": PAIRS}))
        for name in got:
            self.assertTrue(np.array_equal(got[name].view(np.uint16), f32[name].view(np.uint16)), name)

    def test_what_is_no_softmax_of_products_and_trees_with_a_gradient_stay_in_f32(self):
        tree, plain = hga.htransformer(70, block=8), self.h
        for h, gradient, want in ((plain, False, PAIRS), (plain, True, PAIRS), (tree, False, PAIRS), (tree, True, "f32")):
            self.assertEqual(resolved("auto", h, True, None, gradient), want, (h, gradient))
        for words in ("sigmoid", "entmax:1.5"):
            got, f32 = (plain.attention(*self.x, normaliser=words, **more) for more in ({}, {"precision": "f32"}))
            self.assertEqual(got.tobytes(), f32.tobytes())
        got, f32 = (tree.gradient(*self.x, self.x[0], **more) for more in ({}, {"precision": "f32"}))
        for name in got:
            self.assertEqual(got[name].tobytes(), f32[name].tobytes(), name)

    def test_a_wrong_word_is_refused_by_name(self):
        for wrong in ("f61", "f16", "", 3):
            with self.assertRaisesRegex(hga.Error, f"precision is {wrong!r}, not one of auto, f32, bf16"):
                self.h.attention(*self.x, precision=wrong)
        h = hga.dense(70, causal=True)
        with self.assertRaisesRegex(hga.Error, "precision is 'bf61', .*: did you mean 'bf16'"):
            h.decoder(heads=1, dim=8, precision="bf61")
        refused(self, "row_type 'f16' is neither 'f32' nor 'bf16'", lambda: h.decoder(heads=1, dim=8, row_type="f16"))

    def test_decoders_follow_the_type_of_their_rows(self):
        h = hga.window(70, left=9, right=0)
        half = [x.astype(np.float16) for x in self.wide]
        for row_type, x, precision in (("bf16", self.x, PAIRS), (None, self.x, PAIRS), ("f32", self.wide, "f32"), (None, self.wide, "f32"), (None, half, "f32")):
            decoder = h.decoder(heads=2, dim=16, same=True, row_type=row_type)
            self.assertIn(decoder.precision, (precision, "auto"))
            cache = decoder.cache()
            got = np.concatenate([cache.append(*(a[:, i : i + 7] for a in x)) for i in range(0, 70, 7)], 1)
            want = h.attention(*x, precision=precision)
            self.assertEqual(got.tobytes(), want.tobytes())
            self.assertEqual(decoder.precision, precision)
        self.assertEqual(h.decoder(heads=2, dim=16, row_type="bf16", precision="f32").precision, "f32")
        self.assertEqual(h.decoder(heads=2, dim=16, row_type="bf16", isa="ref").precision, "f32")


class OfDecodersRows(unittest.TestCase):
    """The first rows say what type a decoder's are of; where pairs are multiplied, which is pretended, bits depend on it."""

    def setUp(self):
        rng = np.random.default_rng(6)
        self.wide = [rng.standard_normal((2, 64, 16)).astype(np.float32) for _ in range(3)]
        self.x, self.half = [narrowed(a, BF16) for a in self.wide], [a.astype(np.float16) for a in self.wide]
        where = unittest.mock.patch("hga._core.precision.multiplies_pairs", lambda isa: True)
        where.start()
        self.addCleanup(where.stop)

    def hierarchies(self):
        return [hga.fenwick(64), hga.htransformer(64, block=4, causal=True), hga.dense(64, causal=True), hga.routed(64, block=8, k=3, causal=True)]

    @staticmethod
    def part(x, first, end):
        return [a[:, first:end] for a in x]

    def test_every_hierarchy_and_type_has_the_bits_of_attention(self):
        for h in self.hierarchies():
            for x, precision in ((self.x, "bf16"), (self.wide, "f32"), (self.half, "f32")):
                decoder = h.decoder(heads=2, dim=16, same=True)
                self.assertEqual(decoder.precision, "auto")
                cache, twin = decoder.cache(), decoder.cache()  # both are empty when the type is told
                empty = twin.fork()
                got = np.concatenate([cache.append(*self.part(x, i, i + 5)) for i in range(0, 60, 5)], 1)
                self.assertEqual(decoder.precision, precision)
                want = h.attention(*self.part(x, 0, 64)) if isinstance(h, hga.Hierarchy) else hga.routed(60, block=8, k=3, causal=True).attention(*self.part(x, 0, 60))
                self.assertEqual(got.tobytes(), np.ascontiguousarray(want[:, :60]).tobytes(), (h, precision))
                for one in (twin, empty, cache.fork()):
                    if not len(one):
                        one.append(*self.part(x, 0, 60))
                    self.assertEqual(one.append(*self.part(x, 60, 64)).tobytes(), cache.fork().append(*self.part(x, 60, 64)).tobytes())

    def test_rows_of_the_other_type_are_refused_and_nothing_has_changed(self):
        q, k, v = self.x
        for same in (False, True):
            for first, other, says in ((self.x, self.wide, "rows of float32 come to a decoder of rows of bfloat16"), (self.wide, self.x, "rows of bfloat16 come to a decoder of rows of float32 or float16"),
                                       (self.x, self.half, "rows of float16"), (self.x, (q, k, self.wide[2]), "rows of bfloat16 and float32")):  # fmt: skip
                decoder = hga.fenwick(64).decoder(heads=2, dim=16, same=same, rollback=64)
                cache = decoder.cache()
                cache.append(*self.part(first, 0, 9))
                other_cache = decoder.cache()
                for one in (cache, cache.fork(), other_cache):
                    refused(self, says + ".*precision='f32' or 'bf16'", lambda: one.append(*self.part(other, 9, 10)))
                cache.cut(0)
                with self.assertRaisesRegex(hga.Error, says):
                    decoder.append([other_cache, cache], *([a, b] for a, b in zip(self.part(first, 0, 1), self.part(other, 0, 1))))
                self.assertEqual((len(cache), len(other_cache)), (0, 0))
                cache.append(*self.part(first, 0, 9))

    def test_a_type_that_is_told_and_a_precision_that_is_said(self):
        h = hga.fenwick(64)
        for told, wrong in (("bf16", self.wide), ("f32", self.x)):
            with self.assertRaisesRegex(hga.Error, "come to a decoder"):
                h.decoder(heads=2, dim=16, same=True, row_type=told).cache().append(*wrong)
            h.decoder(heads=2, dim=16, row_type=told).cache().append(*wrong)
        for precision in ("f32", "bf16"):
            cache = h.decoder(heads=2, dim=16, same=True, precision=precision).cache()
            got = [cache.append(*self.part(x, i, i + 20)) for x, i in ((self.x, 0), (self.half, 20), (self.wide, 40))]
            x = [np.concatenate([(a[:, :20].view(np.uint16).astype(np.uint32) << 16).view(np.float32), b[:, 20:40].astype(np.float32), c[:, 40:]], 1) for a, b, c in zip(self.x, self.half, self.wide)]
            want = h.attention(*x, precision=precision)
            self.assertEqual(got[2].tobytes(), np.ascontiguousarray(want[:, 40:60]).tobytes())
        cache = h.decoder(heads=2, dim=16, normaliser="sigmoid", same=True).cache()  # whose products are float32's anyway
        cache.append(*self.part(self.x, 0, 9))
        cache.append(*self.part(self.wide, 9, 20))

    def test_float16_and_float32_are_one_type(self):
        h = hga.fenwick(64)
        cache = h.decoder(heads=2, dim=16, same=True).cache()
        cache.append(*self.part(self.half, 0, 30))
        got = cache.append(*self.part(self.wide, 30, 64))
        want = h.attention(*(np.concatenate([a[:, :30].astype(np.float32), b[:, 30:]], 1) for a, b in zip(self.half, self.wide)))
        self.assertEqual(got.tobytes(), np.ascontiguousarray(want[:, 30:]).tobytes())

    def test_a_file_tells_the_type_too(self):
        h = hga.fenwick(64)
        want = {"bf16": h.attention(*self.x), "f32": h.attention(*self.wide)}
        with tempfile.TemporaryDirectory() as folder:
            for of, x, other in (("bf16", self.x, self.wide), ("f32", self.wide, self.x)):
                path = os.path.join(folder, of)
                cache = h.decoder(heads=2, dim=16, same=True).cache()
                cache.append(*self.part(x, 0, 33))
                cache.write(path)
                decoder = h.decoder(heads=2, dim=16, same=True)
                early = decoder.cache()
                read = decoder.read(path)
                self.assertEqual(decoder.precision, of)
                self.assertEqual(read.append(*self.part(x, 33, 64)).tobytes(), np.ascontiguousarray(want[of][:, 33:]).tobytes())
                refused(self, "come to a decoder", lambda: decoder.read(path).append(*self.part(other, 33, 34)))
                self.assertEqual(early.append(*self.part(x, 0, 64)).tobytes(), want[of].tobytes())
            decoder = h.decoder(heads=2, dim=16, same=True)
            for wrong in ("nothing", "bf16.cut"):
                with open(os.path.join(folder, "bf16"), "rb") as file, open(os.path.join(folder, "bf16.cut"), "wb") as cut:
                    cut.write(file.read()[:-9])
                with self.assertRaises(hga.Error):
                    decoder.read(os.path.join(folder, wrong))
                self.assertEqual(decoder.precision, "auto")
            early = decoder.cache()
            decoder.read(os.path.join(folder, "f32"))
            refused(self, "precision", lambda: decoder.read(os.path.join(folder, "bf16")))
            self.assertEqual(early.append(*self.wide).tobytes(), want["f32"].tobytes())

    def test_a_decoder_that_chooses_takes_values_of_the_type_that_it_chooses_by(self):
        q, k, v = self.x
        decoder = hga.routed(64, block=8, k=3, causal=True).decoder(heads=2, dim=16, same=True)
        with self.assertRaisesRegex(hga.Error, "query and key are bfloat16, value is float32"):
            decoder.cache().append(q, k, self.wide[2])
        decoder.cache().append(q, k, v)


@needs("torch")
class InTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def test_the_error_is_that_of_sdpa_in_bf16(self):
        """Forwards and backwards, against double, on scores of ordinary size and on large ones."""
        sdpa = torch.nn.functional.scaled_dot_product_attention
        for n, dim, size in ((333, 80, 1.0), (512, 64, 1.0), (512, 64, 3.0)):
            x = [(torch.randn(1, 4, n, dim) * size).bfloat16() for _ in range(4)]

            def results(attend, to):
                leaves = [a.to(to).requires_grad_() for a in x[:3]]
                out = attend(*leaves)
                return [out.detach(), *torch.autograd.grad(out, leaves, x[3].to(to))]

            right = results(sdpa, torch.double)
            ours, theirs = (results(f, torch.bfloat16) for f in (hga.dense(n).attention, sdpa))
            for name, a, b, r in zip(("out", "query", "key", "value"), ours, theirs, right):
                a, b = (x.double() - r for x in (a, b))
                with self.subTest(n=n, dim=dim, size=size, of=name):
                    self.assertLess(a.pow(2).mean().sqrt(), 1.5 * b.pow(2).mean().sqrt())
                    self.assertLess(a.abs().max(), 2 * b.abs().max())

    def test_f16_rounded_to_bf16_would_not_be_within_the_error_of_sdpa_in_f16(self):
        """Which is why it stays in products of float32."""
        x = [torch.randn(1, 4, 512, 64).half() for _ in range(3)]
        right = torch.nn.functional.scaled_dot_product_attention(*(a.double() for a in x))
        theirs = (torch.nn.functional.scaled_dot_product_attention(*x).double() - right).abs().max()
        h = hga.dense(512)
        self.assertLess((h.attention(*x).double() - right).abs().max(), 1.5 * theirs)
        self.assertGreater((h.attention(*x, precision="bf16").double() - right).abs().max(), 5 * theirs)

    def test_eager_compiled_watched_and_autocast_are_one(self):
        h = hga.window(70, left=9, right=3)
        x = [torch.randn(2, 4, 70, 16).bfloat16() for _ in range(3)]
        want = h.attention(*x, precision=PAIRS)

        def called(*x):
            return h.attention(*x)

        self.assertTrue(torch.equal(called(*x), want))
        self.assertTrue(torch.equal(torch.compile(called, backend="aot_eager", fullgraph=True)(*x), want))
        self.assertTrue(torch.equal(torch.func.vmap(called)(*x), want))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(torch.equal(called(*(a.float() for a in x)), want))

        def gradients(f, **more):
            leaves = [a.clone().requires_grad_() for a in x]
            return torch.autograd.grad(f(*leaves, **more).float().pow(2).sum(), leaves)

        right = gradients(h.attention, precision=PAIRS)
        for f in (called, torch.compile(called, backend="aot_eager", fullgraph=True)):
            for got, its in zip(gradients(f), right):
                self.assertTrue(torch.equal(got, its))

    def test_modules_and_flex_attention_follow(self):
        m = hga.torch.Attention(hga.dense(32), 64, 4).bfloat16()
        x = torch.randn(2, 32, 64).bfloat16()
        taken = []
        plans = hga.Hierarchy._plan

        def plan(h, key):
            taken.append(key[6])
            return plans(h, key)

        hga.Hierarchy._plan = plan
        try:
            with torch.no_grad():
                m(x)
                hga.torch.MultiheadAttention(64, 4, batch_first=True).bfloat16()(x, x, x, need_weights=False)
                hga.torch.BPT(64, 4).bfloat16()(torch.randn(2, 63, 64).bfloat16())
                hga.torch.flex_attention(*(torch.randn(2, 4, 32, 16).bfloat16() for _ in range(3)))
        finally:
            hga.Hierarchy._plan = plans
        self.assertEqual(taken, [PAIRS] * 4)
