"""An order gains what it says, and what runs in one is what runs without."""

import copy
import pickle
import unittest

import hga
import numpy as np
from shared import needs, refused, torch

ORDERS = ("rcm", "metis", "degree")


def mesh(side, seed):
    """Neighbours along both axes and a diagonal, and each node itself, under shuffled numbers."""
    at = np.arange(side * side).reshape(side, side)
    pairs = [(at, at)]
    for dy, dx in ((0, 1), (1, 0), (1, 1)):
        a, b = at[: side - dy, : side - dx], at[dy:, dx:]
        pairs += [(a, b), (b, a)]
    src, dst = (np.concatenate([p[i].ravel() for p in pairs]) for i in (0, 1))
    number = np.random.default_rng(seed).permutation(side * side)
    return hga.Graph.from_edges(number[src], number[dst], side * side)


def hubs(n, seed, parents=None):
    """A power of degrees, types and weights, nodes without an edge."""
    rng = np.random.default_rng(seed)
    src, dst = (rng.random((2, 6 * n)) ** 3 * n * 0.9).astype(np.int32)
    pairs = np.unique(np.stack([src, dst], 1), axis=0)
    weight = (1 + pairs.sum(1) % 3) / 2
    return hga.Graph.from_edges(pairs[:, 0], pairs[:, 1], n, type=pairs.sum(1) % 4, weight=weight, parents=parents)


def tensors(h, heads=2, dim=8, batch=(), layout="bhnd", seed=1):
    rng = np.random.default_rng(seed)
    shape = batch + ((heads, h.rows, dim) if layout == "bhnd" else (h.rows, heads, dim))
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]


class Orders(unittest.TestCase):
    def near(self, a, b, tolerance=2e-6):
        self.assertEqual(a.shape, b.shape)
        self.assertEqual(a.dtype, b.dtype)
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=0, atol=tolerance)

    def test_an_order_has_every_node_once(self):
        g = hubs(200, 3)
        for how in ORDERS:
            self.assertEqual(sorted(g.order(how)), list(range(200)))

    def test_renumbered_edges_are_the_edges(self):
        g = hubs(100, 4)
        order = g.order("metis")
        e = g.renumber(order).edges()
        was = np.stack([order[e[:, 0]], order[e[:, 1]], e[:, 2]], 1)
        self.assertEqual(sorted(map(tuple, was.tolist())), sorted(map(tuple, g.edges().tolist())))

    def test_a_mesh_in_a_bad_order_is_cut_in_two_by_few_edges_in_a_good_one(self):
        h = mesh(64, 2).hierarchy()
        for how in ("rcm", "metis"):
            was, now = h.order(how).gain
            self.assertEqual(was.edges, now.edges)
            self.assertGreater(was.cut, 0.4 * was.edges)
            self.assertLess(now.cut, 0.02 * now.edges)
            self.assertLess(now.gathered, was.gathered / 2)
        self.assertEqual(was, h.graph.locality())
        self.assertGreater(h.graph.locality(8).cut, was.cut)

    def test_attention_in_order_is_attention(self):
        for g in (mesh(20, 1), hubs(300, 5)):
            h = g.hierarchy()
            for how in ORDERS:
                for layout, batch in (("bhnd", ()), ("bnhd", ()), ("bhnd", (3,)), ("bnhd", (2, 2))):
                    q, k, v, _ = tensors(h, batch=batch, layout=layout)
                    want, want_lse = h.attention(q, k, v, layout=layout, lse=True)
                    out, lse = h.order(how).attention(q, k, v, layout=layout, lse=True)
                    self.near(out, want)
                    self.near(lse, want_lse, 1e-5)
        q, k, v, _ = (x[0] for x in tensors(h))
        self.near(h.order("rcm").attention(q, k, v), h.attention(q, k, v))
        half = [x.astype(np.float16) for x in (q, k, v)]
        self.near(h.order("rcm").attention(*half), h.attention(*half), 2e-3)

    def test_gradients_and_tables_go_along(self):
        h = hubs(150, 6).hierarchy()
        q, k, v, d = tensors(h)
        rng = np.random.default_rng(2)
        tables = {
            "edge_bias": rng.standard_normal((h.graph.n_edges(), 2)).astype(np.float32),
            "node_pos": rng.standard_normal((150, 3)).astype(np.float32),
            "rel_key": rng.standard_normal((4, 8)).astype(np.float32),
            "rel_bias": rng.standard_normal((4, 2)).astype(np.float32),
            "sink": np.ones(2, np.float32), "slopes": np.full(2, 0.01, np.float32), "softcap": 3.0,
        }  # fmt: skip
        d_lse = rng.standard_normal((2, 150)).astype(np.float32)
        want = h.gradient(q, k, v, d, d_lse=d_lse, **tables)
        for how in ORDERS:
            found = h.order(how).gradient(q, k, v, d, d_lse=d_lse, **tables)
            self.assertEqual(set(found), set(want))
            for name in want:
                self.near(found[name], want[name], 2e-4 if name in ("rel_bias", "sink", "slopes", "rel_key") else 2e-5)
        found = h.order("rcm").gradient(q, k, v, d, needs_grad=["key"])
        self.assertEqual(list(found), ["key"])

    def test_trees_go_along(self):
        parents = np.concatenate([120 + np.random.default_rng(1).permutation(120) % 30, np.full(30, 150), [-1]]).astype(np.int32)
        h = hubs(151, 7, parents).hierarchy()
        q, k, v, d = tensors(h)
        pos = np.random.default_rng(3).standard_normal((151, 2)).astype(np.float32)
        for how in ORDERS:
            o = h.order(how)
            self.near(o.attention(q, k, v, node_pos=pos), h.attention(q, k, v, node_pos=pos))
            want = h.gradient(q, k, v, d, node_pos=pos)
            for name, x in o.gradient(q, k, v, d, node_pos=pos).items():
                self.near(x, want[name], 1e-5)

    def test_clusters_are_levels_over_a_graph(self):
        """Each node in one cluster of about the size; edges above are those of what is below; attention is that of numpy."""
        g = hubs(600, 3)
        h = g.coarsen([8, 5])
        self.assertEqual(h.level_sizes, [600, 75, 15])
        parents, e, below = h.parents(), h.edges(), g.edges()
        inside = e[:, 1] < 600
        self.assertTrue(np.array_equal(e[inside], below))
        for level in ((600, 675), (675, 690)):
            below = np.unique(np.concatenate([parents[below[:, :2]], below[:, 2:]], 1), axis=0)
            mine = e[(e[:, 1] >= level[0]) & (e[:, 1] < level[1])]
            self.assertTrue(np.array_equal(np.unique(mine, axis=0), below))
        self.assertTrue(4 <= np.bincount(parents[:600])[600:].min() <= np.bincount(parents[:600]).max() <= 16)
        refused(self, "3 levels", lambda: h.coarsen([8]))
        refused(self, "clusters of 1 nodes", lambda: g.coarsen([1]))
        refused(self, "no sizes", lambda: g.coarsen([]))
        refused(self, "a list of whole numbers is needed", lambda: g.coarsen([[8, 5]]))

    def test_tokens_see_the_clusters_beside_their_own(self):
        """A ring in four clusters: with equal scores a token's output is the mean of its neighbours and of what the clusters
        hold that its own has edges from, each weighing as many edges as a token of its own has from it in the mean."""
        n = 32
        at = np.arange(n)
        h = hga.Graph.from_edges(np.concatenate([at, at]), np.concatenate([(at + 1) % n, (at - 1) % n]), n).coarsen([8])
        v = np.random.default_rng(1).standard_normal((1, n, 8)).astype(np.float32)
        e, parents, zero = h.edges(), h.parents(), np.zeros_like(v)
        out = h.hierarchy().attention(zero, zero, v)
        for i in range(n):
            seen, weights = [v[0, j] for j in e[e[:, 1] == i, 0]], [1, 1]
            own = parents[e[:, 0][(e[:, 1] < n) & (parents[e[:, 1]] == parents[i])]]  # where the cluster's edges come from
            for c in e[e[:, 1] == parents[i], 0]:
                seen.append(v[0, parents[:n] == c].mean(0))
                weights.append((own == c).sum() / (parents == parents[i]).sum())
            self.assertLess(abs(out[0, i] - np.average(seen, 0, weights)).max(), 1e-6)

    def test_additive_scores_go_along(self):
        h = mesh(12, 3).hierarchy()
        q, k, v, _ = tensors(h)
        a = np.random.default_rng(4).standard_normal((2, 8)).astype(np.float32)
        want = h.additive_scores().attention(q, k, v, additive=a)
        self.near(h.order("metis").additive_scores().attention(q, k, v, additive=a), want)
        self.near(h.additive_scores().order("metis").attention(q, k, v, additive=a), want)

    def test_what_is_asked_has_the_callers_numbers(self):
        h = hubs(80, 8).hierarchy()
        o = h.order("degree")
        q, k, _, _ = tensors(h)
        np.testing.assert_array_equal(o.edges(), h.edges())
        self.assertEqual(o.row(17), h.row(17))
        np.testing.assert_array_equal(o.weights(q, k, 17), h.weights(q, k, 17))
        self.assertIn("in order degree", repr(o))
        self.assertIs(type(h.graph.hierarchy(order="rcm")), type(o))

    def test_copies_and_pickles_run_in_order(self):
        o = mesh(9, 4).hierarchy().order("rcm")
        q, k, v, _ = tensors(o)
        for other in (copy.copy(o), copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
            self.assertEqual(other, o)
            self.assertEqual(hash(other), hash(o))
            np.testing.assert_array_equal(other.permutation, o.permutation)
            np.testing.assert_array_equal(other.attention(q, k, v), o.attention(q, k, v))
        self.assertNotEqual(o, mesh(9, 4).hierarchy())
        self.assertNotEqual(mesh(9, 4).hierarchy(), o)

    def test_what_is_no_order_is_refused(self):
        g = mesh(4, 1)
        for call, text in (
            (lambda: g.order("rmc"), "did you mean 'rcm'"),
            (lambda: g.hierarchy().order("best"), "not one of rcm, metis, degree"),
            (lambda: g.renumber(np.arange(15)), "there are 16 nodes"),
            (lambda: g.renumber(np.zeros(16, np.int32)), "is the same node"),
            (lambda: g.locality(0), "parts"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                call()
        o = g.hierarchy().order("rcm")
        q, k, v, _ = tensors(o)
        with self.assertRaisesRegex(ValueError, "rows"):
            o.attention(q[:, 1:], k, v)
        with self.assertRaisesRegex(TypeError, "softcp"):
            o.attention(q, k, v, softcp=1.0)
        with self.assertRaisesRegex(ValueError, "bhnd"):
            o.attention(q, k, v, layout="nhd")

    def test_inner_nodes_have_features_of_their_own(self):
        parent = np.array([4, 4, 5, 5, 6, 6, -1])
        node, child = np.arange(7), np.flatnonzero(parent >= 0)
        src, dst = np.concatenate([node, child, parent[child]]), np.concatenate([node, parent[child], child])
        p = hga.Program(hga.Graph.from_edges(src, dst, 7, parents=parent))
        names = (("query", "key", "query"), ("key", "kv_key", "key"), ("value", "value", "value"), ("out", "state", "out"))
        p.attend("near", *(p.field(*names_of) for names_of in names))
        h, flat = p.hierarchy(), hga.Graph.from_edges(src, dst, 7).hierarchy()
        q, k, v, d = tensors(flat)
        self.assertEqual(h.graph.level_sizes, [4, 2, 1])
        self.near(h.attention(q, k, v), flat.attention(q, k, v))
        got, want = h.gradient(q, k, v, d), flat.gradient(q, k, v, d)
        for name in ("query", "key", "value"):
            self.assertGreater(np.abs(got[name][:, 4:]).min(), 0)
            self.near(got[name], want[name], 1e-5)

    def test_copies_have_the_threads_and_the_binding_of_the_ordered(self):
        h = hga.window(64, left=4).order("rcm")
        h.threads, h.bind = 2, "off"
        for again in (copy.copy(h), copy.deepcopy(h), pickle.loads(pickle.dumps(h))):
            self.assertEqual((again.threads, again.bind, again._in_order.bind, again), (2, "off", "off", h))

    @needs("torch")
    def test_torchs_function_runs_in_order(self):
        import hga.torch

        h = hubs(200, 3).hierarchy()
        ordered = h.order("metis")
        q, k, v, _ = (torch.from_numpy(x) for x in tensors(h))
        out = hga.torch.attention(ordered, q, k, v)
        self.assertTrue(torch.equal(out, ordered.attention(q, k, v)))
        self.assertFalse(torch.equal(out, h.attention(q, k, v)), "an order changes the last bits, so it did not run in order")

    @needs("torch")
    def test_torch_tensors_are_differentiable_in_order(self):
        h = hubs(120, 9).hierarchy()
        for layout in ("bhnd", "bnhd"):
            want, found = [], []
            for which, to in ((h, want), (h.order("metis"), found)):
                q, k, v, d = (torch.from_numpy(x).requires_grad_() for x in tensors(h, layout=layout))
                bias = torch.linspace(-1, 1, h.graph.n_edges()).requires_grad_()
                out = which.attention(q, k, v, layout=layout, edge_bias=bias)
                (out * d.detach()).sum().backward()
                to.extend(x.detach().numpy() for x in (out, q.grad, k.grad, v.grad, bias.grad))
            for a, b in zip(found, want):
                self.near(a, b, 2e-5)
