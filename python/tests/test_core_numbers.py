"""Types of 16 bits, scales and rows that nobody writes give what a model in double gives."""

import itertools
import unittest

import hga
import numpy as np
from hga._core.arrays import BF16, narrowed, widened
from hga._core.library import ffi, lib
from hga._core.precision import multiplies_pairs
from shared import losses_of, needs, normal, torch

NAMES = ("query", "key", "value", "rel_key", "rel_bias", "edge_bias", "node_pos")


class Double:
    """Attention over explicit edges with everything that adds to scores, forwards and backwards: [heads][n][dim], float64."""

    def __init__(self, h, relation, n):
        self.n, edges = n, h.edges(relation)
        self.src, self.dst, self.type = edges[:, 0], edges[:, 1], edges[:, 2]

    def spread(self, x):
        """[edges][heads] -> [heads][n][n], -inf where there is no edge."""
        s = np.full((x.shape[1], self.n, self.n), -np.inf)
        s[:, self.dst, self.src] = x.T
        return s

    def forward(self, scale, query, key, value, rel_key, rel_bias, edge_bias, node_pos):
        q, k = query[:, self.dst], key[:, self.src] + rel_key[self.type]
        s = scale * (q * k).sum(-1).T + rel_bias[self.type] + edge_bias
        s = self.spread(s + (node_pos[self.dst] * node_pos[self.src]).sum(-1)[:, None])
        top = s.max(-1, keepdims=True)
        e = np.exp(s - top)
        self.p = e / e.sum(-1, keepdims=True)
        self.out = self.p @ value
        return self.out, (top + np.log(e.sum(-1, keepdims=True)))[..., 0]

    def backward(self, scale, d_out, d_lse, query, key, value, rel_key, rel_bias, edge_bias, node_pos):
        dp = d_out @ np.swapaxes(value, -1, -2)
        ds = self.p * (dp - (d_out * self.out).sum(-1, keepdims=True) + d_lse[..., None])
        e = ds[:, self.dst, self.src]
        by_type = lambda shape, x: np.add.at(g := np.zeros(shape), self.type, x) or g  # noqa: E731
        k = key[:, self.src] + rel_key[self.type]
        found = {name: np.zeros(x.shape) for name, x in (("query", query), ("key", key), ("node_pos", node_pos))}
        for h in range(len(query)):
            np.add.at(found["query"][h], self.dst, scale * e[h][:, None] * k[h])
            np.add.at(found["key"][h], self.src, scale * e[h][:, None] * query[h, self.dst])
            np.add.at(found["node_pos"], self.dst, e[h][:, None] * node_pos[self.src])
            np.add.at(found["node_pos"], self.src, e[h][:, None] * node_pos[self.dst])
        found["value"] = np.swapaxes(self.p, -1, -2) @ d_out
        found["rel_key"] = by_type(rel_key.shape, scale * np.einsum("he,hed->ed", e, query[:, self.dst]))
        found["rel_bias"], found["edge_bias"] = by_type(rel_bias.shape, e.T), e.T
        return found


class Case:
    """One hierarchy of explicit edges with relative positions, and random operands, in the layout and type that is asked."""

    def __init__(self, n=24, heads=2, dim=8, dim_v=6, seed=3):
        rng = np.random.default_rng(seed)
        draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
        self.h = hga.htransformer(n, block=n, relative=True)
        edges = self.h.edges("near")
        self.model = Double(self.h, "near", n)
        self.tensors = [draw(heads, n, dim), draw(heads, n, dim), draw(heads, n, dim_v)]
        types = int(edges[:, 2].max()) + 1
        self.tables = dict(rel_key=draw(types, dim), rel_bias=draw(types, heads), edge_bias=draw(len(edges), heads),
                           node_pos=draw(self.h.graph.n_nodes, 3))  # fmt: skip
        self.d_out, self.d_lse = draw(heads, n, dim_v), draw(heads, n)

    def want(self, scale, tensors, d_out):
        """(out, lse, gradients) of the model."""
        given = [x.astype(np.float64) for x in (*tensors, *self.tables.values())]
        out, lse = self.model.forward(scale, *given)
        return out, lse, self.model.backward(scale, d_out.astype(np.float64), self.d_lse.astype(np.float64), *given)


def laid(x, layout):
    """[heads][n].. as the layout has it, and back: in place of a copy a view."""
    return x if layout == "bhnd" else x.swapaxes(0, 1)


class Scale(unittest.TestCase):
    def test_every_scale_is_the_models_and_0_is_one_of_them(self):
        case = Case()
        for scale in (None, 0.0, -0.0, 0, 1e-30, 0.3, -0.7):
            for layout in ("bhnd", "bnhd"):
                for type_, most in ((np.float32, 1e-5), (np.float16, 8e-3)):
                    tensors = [x.astype(type_) for x in case.tensors]
                    d_out = case.d_out.astype(type_)
                    out, lse, grads = case.want(8**-0.5 if scale is None else scale, tensors, d_out)
                    given = [laid(x, layout) for x in tensors]
                    options = dict(layout=layout, scale=scale, **case.tables)
                    with self.subTest(scale=scale, layout=layout, type=type_.__name__):
                        got, got_lse = case.h.attention(*given, lse=True, **options)
                        self.assertLess(abs(laid(got, layout) - out).max(), most)
                        self.assertLess(abs(laid(got_lse[..., None], layout)[..., 0] - lse).max(), 1e-5)
                        found = case.h.gradient(*given, laid(d_out, layout), d_lse=np.ascontiguousarray(
                            laid(case.d_lse[..., None], layout)[..., 0]), **options)  # fmt: skip
                        for name in NAMES:
                            got = found[name] if name in case.tables else laid(found[name], layout)
                            self.assertLess(abs(got - grads[name]).max(), 6 * most * max(1, abs(grads[name]).max()), name)
                        if scale is not None and scale == 0:
                            self.assertTrue(all(not found[name].any() for name in ("query", "key", "rel_key")))
                            self.assertTrue(found["node_pos"].any())

    def test_sums_of_many_keys_lose_no_more_than_sums_of_few(self):
        """A tile's sum is added to those before it: one sum of all keys would err by 8e-7."""
        rng = np.random.default_rng(4)
        q, k, v = (rng.standard_normal((1, 2048, 64)).astype(np.float32) for _ in range(3))
        s = q[0].astype(np.float64) @ k[0].T / 8
        p = np.exp(s - s.max(1, keepdims=True))
        want = p @ v[0] / p.sum(1, keepdims=True)
        for isa in hga.isa_list().split():
            out = hga.build("dense", 2048).attention(q, k, v, isa=isa)[0]
            self.assertLess(np.sqrt(((out - want) ** 2).mean() / (want**2).mean()), 6e-7, isa)

    def test_at_scale_0_huge_queries_are_nothing(self):
        case = Case()
        huge = [np.full_like(case.tensors[0], 3e38), np.full_like(case.tensors[1], 3e38), case.tensors[2]]
        out = case.h.attention(*huge, scale=0.0)
        self.assertLess(abs(out - case.tensors[2].mean(1, keepdims=True)).max(), 1e-6)

    def test_at_scale_0_hierarchies_with_coarse_keys_are_means(self):
        q, k, v = (np.random.default_rng(5).standard_normal((2, 3, 96, 8)).astype(np.float32) for _ in range(3))
        for h, want in (
            (hga.htransformer(96, block=4), v.mean(-2, keepdims=True)),
            (hga.htransformer(96, block=4, causal=True), np.cumsum(v, -2) / np.arange(1, 97)[:, None]),
            (hga.dense([96]), v.mean(-2, keepdims=True)),
        ):
            for options in ({}, {"precision": "bf16"}):
                out = h.attention(q, k, v, scale=0.0, **options)
                self.assertLess(abs(out - want).max(), 3e-2 if options else 1e-6, h)
        w = hga.htransformer(96, block=4).weights(q[0], k[0], 7, scale=0.0)
        self.assertLess(abs(w - 1 / 96).max(), 1e-12)

    def test_at_scale_0_dropout_drops_what_it_always_drops(self):
        h, ones = hga.dense(32), np.ones((1, 32, 8), np.float32)
        q = np.random.default_rng(1).standard_normal((1, 32, 8)).astype(np.float32)
        unit = np.eye(32, dtype=np.float32)[None]
        dropped = h.attention(0 * ones, q, unit, dropout=0.4, seed=5) == 0
        self.assertTrue(np.array_equal(h.attention(q, q, unit, dropout=0.4, seed=5, scale=0.0) == 0, dropped))


class Sixteen(unittest.TestCase):
    def test_bits_of_16_are_those_of_32_rounded(self):
        x = normal(2, *[(2, 4, 70, 16)] * 3)
        kinds = [(lambda a: a.astype(np.float16), lambda a: a.astype(np.float32), np.array_equal)]
        if torch:
            kinds.append((lambda a: torch.as_tensor(a).bfloat16(), lambda a: a.float(), torch.equal))
        for h in (hga.dense(70), hga.htransformer(70, block=8), hga.hsa(70, branching=[2, 4]), hga.window(70, left=3), hga.fenwick(70)):
            for precision, (rounded, widened, equal) in itertools.product(("f32", "bf16"), kinds):
                half = [rounded(a) for a in x]
                out, wide = (h.attention(*a, precision=precision) for a in (half, [widened(a) for a in half]))
                self.assertEqual(out.dtype, half[0].dtype)
                self.assertTrue(equal(out, rounded(wide)), (h, precision))

    def test_gradients_have_the_types_of_what_they_are_of(self):
        q, k, v = (np.random.default_rng(2).standard_normal((2, 20, 8)).astype(t) for t in (np.float16, np.float32, np.float16))
        bias = np.zeros((16, 2), np.float16)
        h = hga.htransformer(20, block=4, relative=True)
        found = h.gradient(q, k, v, q, rel_bias=bias)
        self.assertEqual([found[n].dtype for n in ("query", "key", "value", "rel_bias")], [q.dtype, k.dtype, v.dtype, np.float32])
        wide = h.gradient(*(x.astype(np.float32) for x in (q, k, v, q)), rel_bias=bias.astype(np.float32))
        for name, x in found.items():
            self.assertLess(abs(x - wide[name]).max(), 4e-3 * abs(wide[name]).max() + 1e-5, name)

    def test_rounding_is_to_nearest_even(self):
        x = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8 - 2**-20, 3.4e38, 1e-40, np.inf, -np.inf, 0, -0.0], np.float32)
        want = np.array([1, 1, 1 + 2**-6, -1 - 2**-7, np.inf, 1e-40, np.inf, -np.inf, 0, -0.0], np.float32)
        got = widened(narrowed(x, BF16))
        self.assertLess(abs(got[5] - want[5]), 1e-41)
        got[5] = want[5]
        self.assertTrue(np.array_equal(got, want) and np.array_equal(np.signbit(got), np.signbit(want)))
        nan = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
        self.assertTrue(np.isnan(widened(narrowed(nan, BF16))).all())

    def test_trees_by_head_take_16_bits(self):
        rng = np.random.default_rng(9)
        h = hga.treeformer_fine(20, query_leaf=rng.integers(0, 4, (20, 4)))
        q, k, v = (rng.standard_normal((1, n, 20, 8)).astype(np.float16) for n in (4, 2, 2))
        wide = [x.astype(np.float32) for x in (q, k, v)]
        out, lse = h.attention(q, k, v, lse=True)
        self.assertTrue(np.array_equal(out, h.attention(*wide).astype(np.float16)) and lse.shape == (1, 4, 20))
        d_lse = np.ones_like(lse)
        found, want = h.gradient(q, k, v, out, d_lse=d_lse), h.gradient(*wide, out.astype(np.float32), d_lse=d_lse)
        for name, x in found.items():
            self.assertEqual((x.dtype, x.shape), (np.float16, want[name].shape))
            self.assertLess(abs(x - want[name]).max(), 2e-2)

    def test_routed_trees_take_16_bits_and_nothing(self):
        rng = np.random.default_rng(9)
        q, k, v = (rng.standard_normal((2, 4, 20, 8)).astype(np.float16) for _ in range(3))
        h = hga.treeformer_fine(20, height=2, weights=rng.standard_normal((3, 8)).astype(np.float16), bias=np.zeros(3, np.float16))
        out = h.attention(q, k, v)
        self.assertEqual((out.dtype, out.shape), (np.float16, q.shape))
        self.assertEqual(h.attention(q[:0], k[:0], v[:0]).shape, (0, 4, 20, 8))

    def test_bfloat16_of_ml_dtypes_comes_back_as_such(self):
        try:
            from ml_dtypes import bfloat16
        except (ImportError, AttributeError) as e:  # one that is too new for this numpy says the latter
            self.skipTest(str(e))
        q, k, v = (np.random.default_rng(2).standard_normal((2, 20, 8)).astype(bfloat16) for _ in range(3))
        h, precision = hga.dense(20), "bf16" if multiplies_pairs(None) else "f32"
        out = h.attention(q, k, v)
        self.assertEqual(out.dtype, np.dtype(bfloat16))
        self.assertTrue(np.array_equal(out, h.attention(*(x.astype(np.float32) for x in (q, k, v)), precision=precision).astype(bfloat16)))
        self.assertEqual(h.gradient(q, k, v, q)["key"].dtype, np.dtype(bfloat16))


class Unread(unittest.TestCase):
    def dirty(self, shape):
        """Memory of that size that an allocation may find again, full of something."""
        for _ in range(9):
            np.full(shape, 7.0, np.float32)

    def test_a_wanted_gradient_that_nothing_writes_is_zero(self):
        n, leaf = 64, np.arange(64, dtype=np.int32) % 8
        x = [np.random.default_rng(i).standard_normal((2, 3, n, 8)).astype(np.float32) for i in range(4)]
        h = hga.treeformer_coarse(n, height=3, query_leaf=leaf, key_leaf=leaf, alpha=np.ones(4, np.float32))
        for _ in range(20):
            self.dirty((2, 3, n, 8))
            found = h.gradient(*x)
            self.assertTrue(not found["query"].any() and not found["key"].any() and found["value"].any())

    def test_rows_that_no_stage_writes_are_zero(self):
        """An output on nodes of a stage that writes tokens alone."""
        g = hga.Graph.from_edges([0, 1, 2, 3], [1, 1, 3, 3], 4)
        x = np.ones((1, 4, 2048), np.float32)
        p = hga.Program(g)
        value = p.field("value", "value", "value", "queries", "queries")
        out = p.field("out", "out", "out", "queries", "queries")
        p.user("some", 0, [value], [out], lambda: 0, lambda s, e: s + 1, lambda s, v: s and v[out].__setitem__(slice(None), s))
        for _ in range(20):
            self.dirty((1, 4, 2048))
            got = p.hierarchy().attention(x, x, x)
            self.assertEqual(got[0, :, 0].tolist(), [0, 2, 0, 2])


@needs("torch")
class InTorch(unittest.TestCase):
    TYPES = ("float32", "float16", "bfloat16")

    def test_every_type_and_scale_is_the_models_forwards_and_backwards(self):
        case = Case()
        for type_, most in zip(self.TYPES, (1e-5, 8e-3, 5e-2)):
            to = getattr(torch, type_)
            rounded = [torch.from_numpy(x).to(to) for x in case.tensors]
            d_out = torch.from_numpy(case.d_out).to(to)
            for scale in (None, 0.0, 0.3):
                wide = [x.float().numpy() for x in rounded]
                out, lse, grads = case.want(8**-0.5 if scale is None else scale, wide, d_out.float().numpy())
                for layout in ("bhnd", "bnhd"):
                    leaves = [laid(x, layout).detach().requires_grad_() for x in rounded]
                    tables = {n: torch.from_numpy(x).requires_grad_() for n, x in case.tables.items()}
                    with self.subTest(type=type_, scale=scale, layout=layout):
                        got, its = case.h.attention(*leaves, layout=layout, scale=scale, lse=True, **tables)
                        self.assertEqual((got.dtype, its.dtype), (to, torch.float32))
                        self.assertLess(abs(laid(got, layout).detach().float().numpy() - out).max(), most)
                        d_lse = torch.from_numpy(laid(case.d_lse[..., None], layout)[..., 0])
                        found = torch.autograd.grad((got, its), [*leaves, *tables.values()], (laid(d_out, layout), d_lse))
                        for name, x, leaf in zip(NAMES, found, [*leaves, *tables.values()]):
                            self.assertEqual(x.dtype, leaf.dtype)
                            x = (x if name in tables else laid(x, layout)).float().numpy()
                            self.assertLess(abs(x - grads[name]).max(), 6 * most * max(1, abs(grads[name]).max()), name)

    def test_tensors_of_16_bits_are_read_where_they_lie(self):
        from hga._core.call import Problem, Tables

        h = hga.dense(30)
        for type_, name in (("bfloat16", lib.HGA_BF16), ("float16", lib.HGA_F16)):
            q, k, v = (torch.randn(2, 30, 4, 16).to(getattr(torch, type_)).transpose(1, 2) for _ in range(3))
            p, io = Problem(h, q, k, v, "bhnd", Tables(h, {})), ffi.new("hga_io *")
            p.describe(io, (1,))
            for x, t in ((q, io.query), (k, io.key), (v, io.value)):
                self.assertEqual(int(ffi.cast("uintptr_t", t.data)), x[1].data_ptr())
                self.assertEqual((t.dtype, t.row_stride, t.head_stride), (name, 64, 16))

    def test_mixed_types_are_each_their_own_and_the_output_has_the_querys(self):
        q, k, v = torch.randn(2, 20, 8).bfloat16(), torch.randn(2, 20, 8).half(), torch.randn(2, 20, 8)
        leaves = [x.requires_grad_() for x in (q, k, v)]
        out = hga.dense(20).attention(*leaves)
        self.assertEqual(out.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(out, hga.dense(20).attention(q.float(), k.float(), v).bfloat16()))
        found = torch.autograd.grad(out.float().sum(), leaves)
        self.assertEqual([x.dtype for x in found], [torch.bfloat16, torch.float16, torch.float32])

    def test_tables_of_16_bits_are_taken_and_so_are_their_gradients(self):
        h = hga.htransformer(20, block=4, relative=True)
        q, k, v = (torch.randn(2, 20, 8) for _ in range(3))
        bias = torch.randn(16, 2).bfloat16().requires_grad_()
        (found,) = torch.autograd.grad(h.attention(q, k, v, rel_bias=bias).pow(2).sum(), bias)
        wide = bias.detach().float().requires_grad_()
        (want,) = torch.autograd.grad(h.attention(q, k, v, rel_bias=wide).pow(2).sum(), wide)
        self.assertTrue(torch.equal(found, want.bfloat16()))

    def test_a_model_in_bfloat16_learns_and_its_checkpoint_comes_back(self):
        import io

        torch.manual_seed(1)
        m = hga.torch.Attention(hga.htransformer(32, block=4), 16, 2).bfloat16()
        x, y = torch.randn(4, 32, 16).bfloat16(), torch.randn(4, 32, 16).bfloat16()
        losses = losses_of(m, x, y)
        self.assertLess(losses[-1], losses[0])
        file = io.BytesIO()
        torch.save(m.state_dict(), file)
        file.seek(0)
        again = hga.torch.Attention(hga.htransformer(32, block=4), 16, 2).bfloat16()
        again.load_state_dict(torch.load(file))
        self.assertTrue(torch.equal(again(x), m(x)) and m(x).dtype == torch.bfloat16)

    def test_autocast_runs_in_its_type_and_gradients_come_in_the_leaves(self):
        h = hga.window(20, left=4, right=4)
        q, k, v = (torch.randn(2, 4, 20, 8, requires_grad=True) for _ in range(3))
        for to in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype=to):
                out = h.attention(q, k, v)
            self.assertEqual(out.dtype, to)
            self.assertTrue(torch.equal(out, h.attention(q.to(to), k.to(to), v.to(to))))
            found = torch.autograd.grad(out.float().sum(), (q, k, v))
            self.assertEqual({x.dtype for x in found}, {torch.float32})
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", enabled=False):
            self.assertEqual(h.attention(q, k, v).dtype, torch.float32)

    def test_a_module_under_autocast_is_near_the_one_without(self):
        m, x = hga.torch.Attention(hga.htransformer(32, block=4), 16, 2), torch.randn(4, 32, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m(x)
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertLess((y - m(x)).abs().max(), 3e-2)
