"""A hierarchy over other edges takes over the plans of the one before it, unless a call or a backward pass needs these;
results and gradients are those of hierarchies made anew, in threads, layers and compiled functions, too. And of a graph
with a part for each key/value head no tensor is copied."""

import copy
import pickle
import unittest
from unittest.mock import patch

import hga
import numpy as np
from hga._core import plans as _plans
from hga._core.library import lib
from shared import at_once, needs, refused, torch

N = 40


def edges(seed, n=N, each=6):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, n, n * each), np.repeat(np.arange(n), each)])


def hierarchy(seed, n=N):
    return hga.Graph.from_edge_index(edges(seed, n), n, repeated="sum").hierarchy()


def tensors(seed=1, n=N, heads=2, dim=8, batch=()):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*batch, heads, n, dim)).astype(np.float32) for _ in range(3)]


class Made:
    """How many plans are made meanwhile."""

    def __enter__(self):
        self.n, self._new_plan = 0, _plans.new_plan
        self._patch = patch.object(_plans, "new_plan", self.made)
        self._patch.start()
        return self

    def made(self, *arguments):
        self.n += 1
        return self._new_plan(*arguments)

    def __exit__(self, *what):
        self._patch.stop()


class Updates(unittest.TestCase):
    def test_an_updated_hierarchy_is_one_made_anew_and_takes_over_the_plan(self):
        q, k, v = tensors()
        h = hierarchy(1)
        was = h.attention(q, k, v, threads=1)
        with Made() as made:
            for seed in range(2, 8):
                h = h.update(edges(seed), repeated="sum")
                want = hierarchy(seed)
                self.assertEqual(h, want)
                got = h.attention(q, k, v, threads=1)
                made.n -= 1  # of `want`
                self.assertTrue(np.array_equal(got, want.attention(q, k, v, threads=1)))
        self.assertEqual(made.n, 0)
        self.assertFalse(np.array_equal(was, got))

    def test_the_one_before_stays_what_it_is(self):
        q, k, v = tensors()
        old = hierarchy(1)
        want = old.attention(q, k, v)
        new = old.update(hierarchy(2).graph)
        new.attention(q, k, v)
        self.assertEqual(old, hierarchy(1))
        self.assertTrue(np.array_equal(old.attention(q, k, v), want))
        self.assertEqual(pickle.loads(pickle.dumps(new)), new)

    def test_sizes_may_change(self):
        h = hierarchy(1)
        h.attention(*tensors())
        for n in (7, 300, 2, 65):
            h = h.update(edges(n, n), n, repeated="sum")
            q, k, v = tensors(3, n)
            with Made() as made:
                got = h.attention(q, k, v)
            self.assertEqual(made.n, 0)
            self.assertTrue(np.array_equal(got, hierarchy(n, n).attention(q, k, v)))

    def test_normalisers_scores_and_strict_rows_stay(self):
        q, k, v = tensors()
        for of in (lambda h: h.strict_rows(), lambda h: h.additive_scores(0.1)):
            h = of(hierarchy(1))
            h.attention(q, k, v, normaliser="sigmoid")
            with Made() as made:
                got = h.update(edges(2), repeated="sum").attention(q, k, v, normaliser="sigmoid")
            self.assertEqual(made.n, 0)
            self.assertTrue(np.array_equal(got, of(hierarchy(2)).attention(q, k, v, normaliser="sigmoid")))

    def test_levels_of_a_hierarchy_may_change_too(self):
        h, other = hga.htransformer(64, block=4), hga.htransformer(96, block=4)
        h.attention(*tensors(1, 64))
        q, k, v = tensors(2, 96)
        self.assertTrue(np.array_equal(h.update(other.graph).attention(q, k, v), other.attention(q, k, v)))

    def test_what_cannot_be_updated_is_refused(self):
        h = hierarchy(1)
        with self.assertRaisesRegex(hga.Error, "the graph has relations .*, the hierarchy's near"):
            h.update(hga.treeformer_fine(40, query_leaf=np.zeros(40, int)).graph)
        refused(self, "nodes are 0 .. 39", lambda: h.update([[0], [40]]))
        refused(self, "make it anew", lambda: h.order("rcm").update(edges(2)))
        refused(self, "make it anew", lambda: hga.hsa(parent=[2, 2, -1]).update(hga.hsa(parent=[2, 2, -1]).graph))

    def test_a_plan_that_a_gradient_of_numpy_used_is_free_again(self):
        q, k, v = tensors()
        h = hierarchy(1)
        h.gradient(q, k, v, q)
        with Made() as made:
            got = h.update(edges(2), repeated="sum").gradient(q, k, v, q)
        self.assertEqual(made.n, 0)
        for name, x in hierarchy(2).gradient(q, k, v, q).items():
            self.assertTrue(np.array_equal(got[name], x), name)

    def test_threads_may_call_the_one_before_meanwhile(self):
        q, k, v = tensors()
        want = [hierarchy(seed).attention(q, k, v, threads=1) for seed in range(4)]
        h = hierarchy(0)
        for turn in range(12):
            seed = (turn + 1) % 4
            new = h.update(edges(seed), repeated="sum")

            def call(i, of=((h, turn % 4), (new, seed))):
                one, seed = of[i // 2]
                for _ in range(30):
                    np.testing.assert_array_equal(one.attention(q, k, v, threads=1), want[seed])

            at_once(call, 4)
            h = new


@needs("torch")
class Torch(unittest.TestCase):
    def leaves(self, seed=1, **more):
        return [torch.from_numpy(x).requires_grad_() for x in tensors(seed, **more)]

    def gradients(self, h, x):
        return torch.autograd.grad(h.attention(*x).square().sum(), x)

    def same(self, got, want):
        for a, b in zip(got, want):
            self.assertTrue(torch.equal(a, b))

    def test_an_update_between_forward_and_backward_changes_no_gradient(self):
        x, y = self.leaves(), self.leaves(2)
        first = hierarchy(1)
        loss = first.attention(*x).square().sum()
        second = first.update(edges(2), repeated="sum")
        other = second.attention(*y).square().sum()
        self.same(torch.autograd.grad(loss, x), self.gradients(hierarchy(1), x))
        self.same(torch.autograd.grad(other, y), self.gradients(hierarchy(2), y))

    def test_a_backward_pass_whose_plan_was_taken_runs_forward_again(self):
        for watched in (False, True):
            x = self.leaves()
            first = hierarchy(1)
            out = first.attention(*x)
            if watched:  # by the operators
                out = torch.func.vmap(lambda *t: first.attention(*t))(*(t[None] for t in x))[0]
            loss = out.square().sum()
            want = torch.autograd.grad(loss, x, retain_graph=True)
            first.update(edges(2), repeated="sum").attention(*(t.detach() for t in x))
            second = first.update(edges(2), repeated="sum")
            with Made() as made:
                second.attention(*self.leaves(2)).square().sum().backward()
            self.assertLessEqual(made.n, 1 if watched else 0)
            self.same(torch.autograd.grad(loss, x), want)
        self.same(want, self.gradients(hierarchy(1), x))

    def test_a_plan_is_taken_once_its_backward_pass_has_been(self):
        x = self.leaves()
        h = hierarchy(1)
        loss = h.attention(*x).square().sum()
        loss.backward()  # and the loss stays
        with Made() as made:
            for seed in range(2, 5):
                h = h.update(edges(seed), repeated="sum")
                loss = h.attention(*x).square().sum()
                loss.backward()
        self.assertEqual(made.n, 0)

    def test_compiled_functions_update(self):
        x = [torch.from_numpy(t) for t in tensors()]
        h = hierarchy(1)
        run = torch.compile(lambda e, *t: h.update(e, repeated="sum").attention(*t), fullgraph=True)
        made = []
        for seed in (2, 3, 4, 5):
            with Made() as count:
                got = run(torch.from_numpy(edges(seed)), *x)
            made.append(count.n)
            self.assertTrue(torch.equal(got, hierarchy(seed).attention(*x)))
        self.assertEqual(made[1:], [0, 0, 0])

    def test_layers_take_over_their_plans(self):
        torch.manual_seed(3)
        for name in ("GATConv", "GATv2Conv", "TransformerConv"):
            layer = getattr(hga.torch, name)(5, 4, heads=2)
            loss = got = None
            for step, n in enumerate((30, 30, 50, 20)):
                e, x = torch.from_numpy(edges(step, n)), torch.randn(n, 5, requires_grad=True)
                before, loss = lib.hga_py_cached_all(), None
                with Made() as made:
                    loss = layer(x, e).square().sum()
                self.assertEqual(made.n, 0, name)
                if step:
                    self.assertEqual(lib.hga_py_cached_all().plans, before.plans, name)
                got = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True)
                fresh = copy.deepcopy(layer)
                want = torch.autograd.grad(fresh(x, e).square().sum(), [x, *fresh.parameters()], allow_unused=True)
                for a, b in zip(got, want):
                    self.assertTrue((a is b is None) or torch.equal(a, b), name)
            pickle.loads(pickle.dumps(layer))

    def test_a_block_mask_takes_over_the_plans_of_those_that_are_gone(self):
        from torch.nn.attention.flex_attention import BlockMask

        x, made_by_step = [torch.from_numpy(t) for t in tensors(1, 64, batch=(1,))], []
        for step in range(4):
            n, rng = torch.full((1, 2, 4), 2, dtype=torch.int32), np.random.default_rng(step)
            at = torch.from_numpy(np.argsort(rng.random((1, 2, 4, 4)), -1).astype(np.int32))
            at[:, 1] = at[:, step % 2]  # heads that see the same have one hierarchy
            mask = BlockMask.from_kv_blocks(torch.zeros_like(n), at, n, at, 16, None, (64, 64))
            for call in range(2):
                with Made() as made:
                    got = hga.torch.flex_attention(*x, block_mask=mask)
                made_by_step.append(made.n)
            seen = torch.zeros(2, 4, 4, dtype=torch.bool).scatter_(-1, at[0, :, :, :2].long(), True)
            seen = seen.repeat_interleave(16, 1).repeat_interleave(16, 2)
            torch.testing.assert_close(got, torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=seen[None]))
            del mask
        self.assertEqual(made_by_step, [1, 0, 2, 0, 0, 0, 0, 0])  # of both heads, then of one each

    def test_a_hierarchy_of_several_masks_keeps_its_plans_until_the_last_is_gone(self):
        from torch.nn.attention.flex_attention import BlockMask

        def mask(step):
            n, rng = torch.full((1, 1, 4), 2, dtype=torch.int32), np.random.default_rng(step)
            at = torch.from_numpy(np.argsort(rng.random((1, 1, 4, 4)), -1).astype(np.int32))
            return BlockMask.from_kv_blocks(torch.zeros_like(n), at, n, at, 16, None, (64, 64))

        def made_by(mask):
            with Made() as made:
                hga.torch.flex_attention(*x, block_mask=mask)
            return made.n

        hga.plans_clear()
        x = [torch.from_numpy(t) for t in tensors(1, 64, batch=(1,))]
        one, other = mask(1), mask(1)
        self.assertEqual([made_by(one), made_by(other)], [1, 0])
        self.assertIs(*(hga.torch.flex_hierarchy(*x[:2], block_mask=m) for m in (one, other)))
        del one
        self.assertEqual([made_by(mask(2)), made_by(other)], [1, 0])
        del other  # two plans are there to be taken
        kept = [mask(step) for step in (3, 4, 5)]
        self.assertEqual([made_by(m) for m in kept], [0, 0, 1])
        q = x[0].clone().requires_grad_()
        loss = hga.torch.flex_attention(q, *x[1:], block_mask=kept[0]).square().sum()
        kept.clear()  # but the backward pass has one of the three hierarchies
        kept = [mask(step) for step in (6, 7, 8)]
        self.assertEqual([made_by(m) for m in kept], [0, 0, 1])
        loss.backward()
        again = x[0].clone().requires_grad_()
        hga.torch.flex_attention(again, *x[1:], block_mask=mask(3)).square().sum().backward()
        self.assertTrue(torch.equal(q.grad, again.grad))

    def test_treeformers_take_over_their_plans(self):
        torch.manual_seed(4)
        layer = hga.torch.Treeformer(16, 2, height=2)
        for step in range(3):
            x = torch.randn(2, 24, 16)
            with Made() as made:
                out = layer(x)
            self.assertEqual(made.n, 1 if step == 0 else 0)
            out.sum().backward()
            self.assertTrue(torch.equal(out, copy.deepcopy(layer)(x)))

    def test_routed_treeformers_take_over_their_plans(self):
        rng = np.random.default_rng(5)
        weights, bias = rng.standard_normal((2, 3, 8)).astype(np.float32), rng.standard_normal((2, 3)).astype(np.float32)
        for batch, plans in (((), 1), ((1,), 1), ((3,), 3), ((2, 2), 4)):
            r = hga.treeformer_fine(N, height=2, weights=weights, bias=bias)
            for step in range(3):
                x = self.leaves(step, batch=batch)
                with self.subTest(batch=batch, step=step), Made() as made:
                    loss = r.attention(*x).square().sum()
                self.assertLessEqual(made.n, plans if step == 0 else 0)
                got = torch.autograd.grad(loss, x)
                self.same(got, self.gradients(hga.treeformer_fine(N, height=2, weights=weights, bias=bias), x))


class ByHead(unittest.TestCase):
    """A graph with a part for each of three key/value heads."""

    HEADS = 3

    def graph(self):
        b = hga.Builder()
        b.level(self.HEADS * N)
        near = b.relation("near")
        for h, shape in enumerate(("lower", "all", "upper")):
            b.block(near, (h * N, N), (h * N, N), shape=shape)
        return b.finish()

    def want(self, q, k, v):
        """Head by head."""
        t = np.arange(N)
        masks = (t[None] <= t[:, None], np.ones((N, N), bool), t[None] >= t[:, None])
        group = q.shape[-3] // self.HEADS
        each = [hga.Graph.from_mask(m).hierarchy() for m in masks]
        return np.concatenate([
            h.attention(q[..., i * group : (i + 1) * group, :, :], k[..., i : i + 1, :, :], v[..., i : i + 1, :, :]) for i, h in enumerate(each)
        ], -3)  # fmt: skip

    def test_heads_see_their_parts(self):
        h = self.graph().hierarchy().by_head(self.HEADS)
        self.assertEqual(h.rows, N)
        for group in (1, 2):
            for batch in ((), (2,)):
                q, (k, v, _) = tensors(1, heads=group * self.HEADS, batch=batch)[0], tensors(2, heads=self.HEADS, batch=batch)
                want = self.want(q, k, v)
                got = h.attention(q, k, v)
                self.assertLess(abs(got - want).max(), 2e-6)
                turned = [np.ascontiguousarray(np.swapaxes(x, -3, -2)) for x in (q, k, v)]
                self.assertTrue(np.array_equal(np.swapaxes(h.attention(*turned, layout="bnhd"), -3, -2), got))
                views = [np.swapaxes(x, -3, -2) for x in turned]
                self.assertTrue(np.array_equal(h.attention(*views), got))

    def test_values_are_values(self):
        h = self.graph().hierarchy().by_head(self.HEADS)
        q, k, v = tensors(1, heads=self.HEADS)
        want = h.attention(q, k, v)
        for same in (copy.copy(h), copy.deepcopy(h), pickle.loads(pickle.dumps(h)), h.strict_rows(False)):
            self.assertEqual(same, h)
            self.assertTrue(np.array_equal(same.attention(q, k, v), want))
        self.assertNotEqual(h, self.graph().hierarchy())
        self.assertEqual(h.additive_scores().n_graphs, self.HEADS)
        sigmoid = h.attention(q, k, v, normaliser="sigmoid")
        self.assertEqual(sigmoid.shape, want.shape)

    def test_wrong_heads_are_refused(self):
        h = self.graph().hierarchy()
        refused(self, "120 rows of query do not divide into graphs for 7 heads", lambda: h.by_head(7))
        h = h.by_head(self.HEADS)
        q, (k, v, _) = tensors(1, heads=4)[0], tensors(2, heads=self.HEADS)
        refused(self, "query has 4 heads, the hierarchy has graphs for 3", lambda: h.attention(q, k, v))
        refused(self, "query of shape .* has 39 rows .*the hierarchy has 40", lambda: h.attention(v[:, 1:], k, v))
        for call in (lambda: h.weights(v, k, 0), lambda: h.decoder(heads=1, dim=8), lambda: h.order("rcm"), lambda: h.by_head(3)):
            self.assertRaises(hga.Error, call)

    def test_parts_share_a_table_that_has_numbers_for_their_heads(self):
        h = self.graph().hierarchy().by_head(self.HEADS)
        q, (k, v, _) = tensors(1, heads=2 * self.HEADS)[0], tensors(2, heads=self.HEADS)
        edges, many = h.graph.n_edges("near"), "heads is 2 in each of the hierarchy's 3 graphs, which share a table, dim 8$"
        alike, one = h.attention(q, k, v, edge_bias=np.ones((edges, 2), np.float32)), h.attention(q, k, v)
        self.assertLess(abs(alike - one).max(), 2e-6)
        sink = np.array([1, 2], np.float32)
        want = [h.attention(q, k, v, sink=np.full(2, x, np.float32))[i::2] for i, x in enumerate(sink)]
        np.testing.assert_array_equal(h.attention(q, k, v, sink=sink), np.stack(want, 1).reshape(q.shape))
        for bad, says in (
            (dict(sink=np.ones(6, np.float32)), r"sink has shape \(6,\), not \[heads\]: " + many),
            (dict(slopes=np.ones(3, np.float32)), r"slopes has shape \(3,\), not \[heads\]: " + many),
            (dict(slopes=np.ones(0, np.float32)), r"slopes has shape \(0,\), not \[heads\]: " + many),
            (dict(rel_bias=np.ones((4, 6), np.float32)), r"rel_bias has shape \(4, 6\), not \[types\]\[heads\]: " + many),
            (dict(edge_bias=np.ones((edges, 6), np.float32)), r"edge_bias has shape \(3240, 6\), not \[edges\] or \[edges\]\[heads\]: " + many),
            (dict(edge_bias=np.ones((edges - 1, 2), np.float32)), "edge_bias has 3239 rows but the relation has 3240 edges"),
            (dict(sink=np.ones((3, 2), np.float32)), r"sink has shape \(3, 2\), not \[heads\]$"),
            (dict(sink=np.array([1, np.nan], np.float32)), "sink.* nan|NaN"),
            (dict(sink=[1.0, 2.0]), "sink is a list, not a numpy array or a torch tensor"),
            (dict(sink=np.ones(2, complex)), "sink has dtype complex128, not float32"),
        ):
            refused(self, says, lambda: h.attention(q, k, v, **bad))
        with self.assertRaisesRegex(hga.Error, r"edge_bias has shape \(3240, 3\), .*: heads is 1 in each of"):
            h.attention(k, k, v, edge_bias=np.ones((edges, 3), np.float32))
        for heads, says in ((0, "heads is 0; it must be at least 1"), (2.5, "heads is 2.5, not a whole number"), (None, "heads is None, not")):
            refused(self, says, lambda: self.graph().hierarchy().by_head(heads))

    @needs("torch")
    def test_torch_goes_back_without_copies(self):
        h = self.graph().hierarchy().by_head(self.HEADS)
        for group, dtype in ((1, torch.float32), (2, torch.float32), (2, torch.bfloat16)):
            q = torch.from_numpy(tensors(1, heads=group * self.HEADS, batch=(2,))[0]).to(dtype).requires_grad_()
            k, v = (torch.from_numpy(x).to(dtype).requires_grad_() for x in tensors(2, heads=self.HEADS, batch=(2,))[:2])
            g = torch.randn(2, group * self.HEADS, N, 8, dtype=dtype)
            got = torch.autograd.grad(h.attention(q, k, v), (q, k, v), g)
            mask = [torch.ones(N, N).tril(), torch.ones(N, N), torch.ones(N, N).triu()]
            mask = torch.stack(mask).bool().repeat_interleave(group, 0)
            x = [t.detach().float().requires_grad_() for t in (q, k, v)]
            wide = [t if i == 0 else t.repeat_interleave(group, 1) for i, t in enumerate(x)]
            out = torch.nn.functional.scaled_dot_product_attention(*wide, attn_mask=mask)
            for a, b in zip(got, torch.autograd.grad(out, x, g.float())):
                torch.testing.assert_close(a.float(), b, rtol=3e-2 if dtype != torch.float32 else 1e-4, atol=3e-2 if dtype != torch.float32 else 1e-5)
