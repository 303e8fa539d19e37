"""hga.torch's GATConv, GATv2Conv and TransformerConv give what PyTorch Geometric's give in double, with every choice of
options, forward and backward; over graphs with hubs, isolated nodes and edges given twice; and what is refused."""

import inspect
import itertools
import pickle
import re
import unittest

import hga
import numpy as np
from shared import needs, package, refused, refused_each, torch
from since import known_to_pyg

pyg = package("torch_geometric.nn")
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


def options(**values):
    """Every choice of one value for each of the options."""
    return [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]


# What each layer may be made with. Without a class of PyG's, nothing here can be compared.
ATTENDS = dict(heads=(1, 3), concat=(True, False), bias=(True, False), residual=(False, True), add_self_loops=(True, False), negative_slope=(0.2, 0.05))
LAYERS = {
    "GATConv": dict(**ATTENDS, dropout=(0.0, 0.4)),
    "GATv2Conv": dict(**{**ATTENDS, "negative_slope": (0.1,)}, dropout=(0.0, 0.4), share_weights=(False, True)),
    "TransformerConv": dict(heads=(1, 3), concat=(True, False), bias=(True, False), beta=(False, True), root_weight=(True, False), dropout=(0.0, 0.4)),
}


@needs("torch_geometric")
class BesidePyG(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)
        self.edges = some_edges()
        self.x = torch.randn(N, IN)

    def both(self, name, options):
        """The layer of hga and that of PyG, made by one seed."""
        found = []
        for package in (hga.torch, pyg):
            torch.manual_seed(3)
            found.append(getattr(package, name)(IN, OUT, **options))
        return found

    def each(self, name, test):
        for chosen in known_to_pyg(name, options(**LAYERS[name])):
            with self.subTest(name, **chosen):
                test(*self.both(name, chosen), chosen)

    def made_alike(self, ours, theirs):
        """Parameters by names, in order, shapes and first values; states go both ways; what is drawn anew is, too."""
        for _ in range(2):
            self.assertEqual(list(ours.state_dict()), list(theirs.state_dict()))
            self.assertEqual([n for n, _ in ours.named_parameters()], [n for n, _ in theirs.named_parameters()])
            for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), name)
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7, msg=lambda m, name=name: f"{name}: {m}")
            for layer in (ours, theirs):
                torch.manual_seed(4)
                layer.reset_parameters()
        for p in ours.parameters():
            torch.nn.init.normal_(p)
        theirs.load_state_dict(ours.state_dict())
        ours.load_state_dict(theirs.state_dict())

    def computes_alike(self, ours, theirs, chosen):
        """Outputs and the gradients of every parameter and of x; of training only where nothing is dropped."""
        self.made_alike(ours, theirs)
        theirs = theirs.double()
        if chosen["dropout"]:
            ours.eval(), theirs.eval()
        x, y = self.x.clone().requires_grad_(), self.x.double().requires_grad_()
        got, want = ours(x, self.edges), theirs(y, self.edges)
        self.assertEqual(got.shape, want.shape)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-5)
        d = torch.randn_like(got)
        got.backward(d), want.backward(d.double())
        torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=5e-5)
        for (name, a), b in zip(ours.named_parameters(), theirs.parameters()):
            self.assertEqual(a.grad is None, b.grad is None, name)
            if a.grad is not None:
                torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-4, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")

    def test_gat(self):
        self.each("GATConv", self.computes_alike)

    def test_gatv2(self):
        self.each("GATv2Conv", self.computes_alike)

    def test_transformer(self):
        self.each("TransformerConv", self.computes_alike)

    def test_training_from_nothing_gives_the_same_model(self):
        """One seed, the same steps of gradient descent."""
        wanted = torch.randn(N, 2 * OUT)
        cases = {"GATConv": [dict(), dict(residual=True)], "GATv2Conv": [dict()], "TransformerConv": [dict(beta=True), dict(bias=False), dict(root_weight=False)]}
        for name, more in ((name, more) for name, some in cases.items() for more in known_to_pyg(name, some)):
            ends = []
            for layer in self.both(name, dict(heads=2, **more)):
                by = torch.optim.SGD(layer.parameters(), lr=0.3)
                for _ in range(20):
                    by.zero_grad()
                    ((layer(self.x, self.edges) - wanted) ** 2).mean().backward()
                    by.step()
                ends.append(layer.state_dict())
            for key in ends[1]:
                torch.testing.assert_close(ends[0][key], ends[1][key], rtol=1e-3, atol=1e-4, msg=lambda m, key=key: f"{name} {key}: {m}")

    def test_every_argument_of_pygs_is_taken_or_refused_by_its_name(self):
        x, e = self.x, self.edges
        offered = {"in_channels", "out_channels", "fill_value", "edge_dim", "kwargs"}  # test_torch_edge_features.py
        for name, taken in LAYERS.items():
            for argument in set(inspect.signature(getattr(pyg, name)).parameters) - set(taken) - offered:
                refused(self, argument, lambda: getattr(hga.torch, name)(IN, OUT, **{argument: 3}))
            for other in options(**{k: v[-1:] for k, v in taken.items()}):  # beside any other option
                with self.assertRaisesRegex(hga.Error, "aggr='max' is not offered"):
                    getattr(hga.torch, name)(IN, OUT, **other, aggr="max")
                refused(self, "x has 3 parts", lambda: getattr(hga.torch, name)(IN, OUT, **other)((x, x, x), e))


@needs("torch")
class Convolutions(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)
        self.edges = some_edges()
        self.x = torch.randn(N, IN)

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

    def test_a_class_of_yours_in_another_module(self):
        """Which has no names for the types that hga's layers take."""

        class Mine(hga.torch.GATConv):
            pass

        class Other(hga.torch.TransformerConv):
            pass

        for layer in (Mine(IN, OUT, heads=2), Other(IN, OUT)):
            self.assertEqual(layer(self.x, self.edges).shape, (N, layer.heads * OUT))

    def test_what_is_refused(self):
        layer, x, e = hga.torch.GATConv(IN, OUT), self.x, self.edges
        h = hga.window(N, left=2, right=2)
        q = torch.randn(N, 4)
        refused_each(self, (
            ("aggr='max' is not offered", lambda: hga.torch.TransformerConv(IN, OUT, aggr="max")),
            ("GATConv has no head=: did you mean 'heads'?", lambda: hga.torch.GATConv(IN, OUT, head=2)),
            ("GATv2Conv has no num_heads=: it is called heads=", lambda: hga.torch.GATv2Conv(IN, OUT, num_heads=2)),
            ("heads is 0; it must be at least 1", lambda: hga.torch.GATConv(IN, OUT, heads=0)),
            ("size (30, 31)", lambda: layer(x, e, size=(30, 31))),
            ("x has shape (30, 6)", lambda: layer(x[:, :6], e)),
            ("edge_index has node 30 of 30", lambda: layer(x, torch.tensor([[30], [0]]))),
            ("edge_index has node -1 of 30", lambda: layer(x, torch.tensor([[-1], [0]]))),
            ("edge_index has shape (3, 1)", lambda: layer(x, torch.tensor([[0], [0], [1]]))),
            ("whole numbers [2, edges]", lambda: layer(x, torch.ones(2, 4))),
            ("whole numbers [2, edges]", lambda: layer(x, torch.ones(2, 4, dtype=torch.bool))),
            ("edge_index is a list", lambda: layer(x, [[0], [1]])),
            ("additive has shape (2, 4), not [heads][dim]: heads is 1, dim 4",
             lambda: h.additive_scores().attention(q, q, q, additive=torch.ones(2, 4))),
            ("additive: the program's scores are products", lambda: h.attention(q, q, q, additive=torch.ones(1, 4))),
            ("negative_slope is nan, no finite number", lambda: h.additive_scores(float("nan")).attention(q, q, q)),
        ), re.escape)  # fmt: skip
