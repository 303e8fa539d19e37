"""Facts about additive scores in Python and hga.torch's GATConv, GATv2Conv and TransformerConv: against the same written out edge by
edge in torch's double, forward and backward; over graphs with hubs, isolated nodes and edges given twice; and what is refused."""

import copy
import importlib.util
import pickle
import unittest

import hga
import numpy as np

TORCH = importlib.util.find_spec("torch") is not None

if TORCH:
    import hga.torch
    import torch
    from torch.nn.functional import leaky_relu

    N, IN, OUT = 30, 7, 5

    def some_edges():
        """Node 3 is everybody's source and sees nobody else; 29 has no edges; some edges are given twice, some are loops."""
        rng = np.random.default_rng(5)
        a, b = rng.integers(0, N - 1, 90), rng.integers(0, N - 1, 90)
        keep = b != 3
        a, b = a[keep], b[keep]
        hub = np.arange(N - 1)
        a = np.concatenate([a, a[:9], np.full(N - 1, 3), [4, 5]])
        b = np.concatenate([b, b[:9], hub, [4, 5]])
        return torch.from_numpy(np.stack([a, b]))

    def with_loops(edges):
        own = torch.arange(N)
        return torch.cat([edges[:, edges[0] != edges[1]], torch.stack([own, own])], 1)

    def along(edges, score, value):
        """out[v] = sum over edges u -> v of softmax(score) value[u]; score [edges, heads], value [nodes, heads, columns]."""
        u, v = edges
        heads = score.shape[1]
        most = torch.full((N, heads), -float("inf"), dtype=score.dtype).index_reduce(0, v, score.detach(), "amax")
        weight = torch.exp(score - most[v])
        total = torch.zeros(N, heads, dtype=score.dtype).index_add(0, v, weight)
        weighed = (weight / total[v])[..., None] * value[u]
        return torch.zeros_like(value).index_add(0, v, weighed)

    def end(layer, x, out):
        out = out.flatten(1) if layer.concat else out.mean(1)
        if layer.res is not None:
            out = out + layer.res(x)
        return out if layer.bias is None else out + layer.bias

    def gat(layer, x, edges):
        edges = with_loops(edges) if layer.add_self_loops else edges
        y = layer.lin(x).view(N, layer.heads, -1)
        source, own = (y * layer.att_src).sum(-1), (y * layer.att_dst).sum(-1)
        return end(layer, x, along(edges, leaky_relu(source[edges[0]] + own[edges[1]], layer.negative_slope), y))

    def gatv2(layer, x, edges):
        edges = with_loops(edges) if layer.add_self_loops else edges
        left, right = (lin(x).view(N, layer.heads, -1) for lin in (layer.lin_l, layer.lin_r))
        score = (leaky_relu(left[edges[0]] + right[edges[1]], layer.negative_slope) * layer.att).sum(-1)
        return end(layer, x, along(edges, score, left))

    def transformer(layer, x, edges):
        q, k, v = (lin(x).view(N, layer.heads, -1) for lin in (layer.lin_query, layer.lin_key, layer.lin_value))
        out = along(edges, (q[edges[1]] * k[edges[0]]).sum(-1) / layer.out_channels**0.5, v)
        out = out.flatten(1) if layer.concat else out.mean(1)
        if layer.lin_skip is None:
            return out
        own = layer.lin_skip(x)
        if layer.lin_beta is None:
            return out + own
        share = torch.sigmoid(layer.lin_beta(torch.cat([out, own, out - own], -1)))
        return share * own + (1 - share) * out


@unittest.skipUnless(TORCH, "torch is not installed")
class Convolutions(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)
        self.edges = some_edges()
        self.x = torch.randn(N, IN)

    def is_its_definition(self, layer, definition):
        for name, p in layer.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(p)
        double = copy.deepcopy(layer).double()
        x, y = self.x.clone().requires_grad_(), self.x.double().requires_grad_()
        got, want = layer(x, self.edges), definition(double, y, self.edges)
        self.assertEqual(got.shape, want.shape)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
        d = torch.randn_like(got)
        got.backward(d), want.backward(d.double())
        torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=2e-5)
        for (name, a), b in zip(layer.named_parameters(), double.parameters()):
            torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-4, atol=5e-5, msg=lambda m, name=name: f"{name}: {m}")

    def test_gat(self):
        for more in (dict(), dict(heads=4), dict(heads=3, concat=False, negative_slope=0.05), dict(heads=2, bias=False),
                     dict(heads=8, residual=True), dict(heads=2, add_self_loops=False)):  # fmt: skip
            self.is_its_definition(hga.torch.GATConv(IN, OUT, **more), gat)

    def test_gatv2(self):
        for more in (dict(), dict(heads=4), dict(heads=3, concat=False, negative_slope=0.05), dict(heads=2, bias=False),
                     dict(heads=4, residual=True, share_weights=True), dict(heads=2, add_self_loops=False)):  # fmt: skip
            self.is_its_definition(hga.torch.GATv2Conv(IN, OUT, **more), gatv2)

    def test_transformer(self):
        for more in (dict(), dict(heads=4), dict(heads=3, concat=False, beta=True), dict(heads=2, beta=True, bias=False),
                     dict(heads=2, root_weight=False)):  # fmt: skip
            self.is_its_definition(hga.torch.TransformerConv(IN, OUT, **more), transformer)

    def test_parameters_have_pygs_names(self):
        names = lambda layer: set(layer.state_dict())  # noqa: E731
        gat, v2 = {"lin.weight", "att_src", "att_dst", "bias"}, {"lin_l.weight", "lin_l.bias", "lin_r.weight", "lin_r.bias"}
        self.assertEqual(names(hga.torch.GATConv(IN, OUT)), gat)
        self.assertEqual(names(hga.torch.GATConv(IN, OUT, residual=True)), gat | {"res.weight"})
        self.assertEqual(names(hga.torch.GATv2Conv(IN, OUT)), v2 | {"att", "bias"})
        many = {f"lin_{x}.{y}" for x in ("key", "query", "value", "skip") for y in ("weight", "bias")}
        self.assertEqual(names(hga.torch.TransformerConv(IN, OUT, beta=True)), many | {"lin_beta.weight"})

    def test_a_graph_or_a_hierarchy_takes_the_edges_place(self):
        u, v = self.edges.numpy()
        pairs = np.unique(self.edges.numpy(), axis=1)
        layer = hga.torch.GATv2Conv(IN, OUT, heads=2, add_self_loops=False)
        want = layer(self.x, torch.from_numpy(pairs))
        graph = hga.Graph.from_edges(pairs[0], pairs[1], N)
        self.assertTrue(torch.equal(layer(self.x, graph), want))
        self.assertTrue(torch.equal(layer(self.x, graph.hierarchy()), want))
        tree = hga.htransformer(N, block=4)  # tokens see nodes above them, too
        out = layer(self.x, tree)
        self.assertEqual(out.shape, want.shape)
        self.assertGreater(float((out - want).detach().abs().max()), 1e-3)

    def test_dropout_is_trainings_alone(self):
        layer = hga.torch.GATConv(IN, OUT, heads=2, dropout=0.5)
        one, two = layer(self.x, self.edges), layer(self.x, self.edges)
        self.assertFalse(torch.equal(one, two))
        layer.eval()
        self.assertTrue(torch.equal(layer(self.x, self.edges), layer(self.x, self.edges)))
        mean = torch.stack([layer.train()(self.x, self.edges).detach() for _ in range(400)]).mean(0)
        self.assertLess(float((mean - layer.eval()(self.x, self.edges)).abs().max()), 0.5)

    def test_edges_that_change_are_seen(self):
        layer = hga.torch.GATConv(IN, OUT)
        edges = self.edges.clone()
        before = layer(self.x, edges)
        edges[0, 0] = (edges[0, 0] + 1) % (N - 1)
        after = layer(self.x, edges)
        self.assertFalse(torch.equal(before, after))
        self.assertTrue(torch.equal(pickle.loads(pickle.dumps(layer))(self.x, edges), after))

    def test_it_compiles(self):
        h = hga.window(N, left=4, right=4).additive_scores()
        q, k, v = (torch.randn(1, 2, N, 4) for _ in range(3))
        a = torch.randn(2, 4, requires_grad=True)
        run = lambda *x: h.attention(*x[:3], additive=x[3])  # noqa: E731
        out = run(q, k, v, a)
        d = torch.randn_like(out)
        (want,) = torch.autograd.grad(out, a, d)
        compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k, v, a), out))
        self.assertTrue(torch.equal(torch.autograd.grad(compiled(q, k, v, a), a, d)[0], want))
        grads = h.gradient(q.numpy(), k.numpy(), v.numpy(), d.numpy(), additive=a.detach().numpy())
        np.testing.assert_array_equal(grads["additive"], want.numpy())

    def test_additive_scores_in_numpy(self):
        h = hga.window(N, left=2, right=2).additive_scores(0.1)
        rng = np.random.default_rng(3)
        q, k, v = (rng.standard_normal((N, 4)).astype("f4") for _ in range(3))
        a = rng.standard_normal((1, 4)).astype("f4")
        for i in (0, 17):
            near = slice(max(0, i - 2), i + 3)
            z = q[i] + k[near]
            s = np.exp(np.where(z > 0, z, 0.1 * z) @ a[0])
            np.testing.assert_allclose(h.attention(q, k, v, additive=a)[i], s @ v[near] / s.sum(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(h.weights(q, k, i, additive=a)[near], s / s.sum(), rtol=1e-4, atol=1e-5)
        again = pickle.loads(pickle.dumps(h))
        np.testing.assert_array_equal(again.attention(q, k, v, additive=a), h.attention(q, k, v, additive=a))

    def test_what_is_refused(self):
        layer, x, e = hga.torch.GATConv(IN, OUT), self.x, self.edges
        h = hga.window(N, left=2, right=2)
        q = torch.randn(N, 4)
        for words, run in (
            ("in_channels (7, 7)", lambda: hga.torch.GATConv((7, 7), OUT)),
            ("edge_dim: features of edges", lambda: hga.torch.GATv2Conv(IN, OUT, edge_dim=3)),
            ("aggr='max' is not offered", lambda: hga.torch.TransformerConv(IN, OUT, aggr="max")),
            ("0 heads", lambda: hga.torch.GATConv(IN, OUT, heads=0)),
            ("edge_attr: features of edges", lambda: layer(x, e, torch.ones(e.shape[1], 2))),
            ("return_attention_weights", lambda: layer(x, e, return_attention_weights=True)),
            ("size (30, 31)", lambda: layer(x, e, size=(30, 31))),
            ("x has shape (30, 6)", lambda: layer(x[:, :6], e)),
            ("edge_index has node 30 of 30", lambda: layer(x, torch.tensor([[30], [0]]))),
            ("edge_index has node -1 of 30", lambda: layer(x, torch.tensor([[-1], [0]]))),
            ("edge_index has shape (3, 1)", lambda: layer(x, torch.tensor([[0], [0], [1]]))),
            ("whole numbers [2, edges]", lambda: layer(x, torch.ones(2, 4))),
            ("whole numbers [2, edges]", lambda: layer(x, torch.ones(2, 4, dtype=torch.bool))),
            ("edge_index is a list", lambda: layer(x, [[0], [1]])),
            ("additive has shape (2, 4): [heads][dim] is (1, 4)",
             lambda: h.additive_scores().attention(q, q, q, additive=torch.ones(2, 4))),
            ("additive: the program's scores are products", lambda: h.attention(q, q, q, additive=torch.ones(1, 4))),
            ("negative_slope nan is not finite", lambda: h.additive_scores(float("nan")).attention(q, q, q)),
        ):  # fmt: skip
            with self.assertRaises(hga.Error) as caught:
                run()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
