"""hga.torch's layers whose columns come with the first rows (-1) are those of PyTorch Geometric: the same parameters
from the same seed, states before and after, and inside HeteroConv."""

import copy
import pickle
import re
import unittest

import hga
from shared import needs, package, refused_each, torch
from since import known_to_pyg

pyg = package("torch_geometric.nn")
N, IN, OTHER, F, TO = 12, 7, 3, 2, 4
LAYERS = {
    "GATConv": [dict(), dict(residual=True, heads=3), dict(edge_dim=-1, residual=True), dict(edge_dim=F, fill_value=0.5)],
    "GATv2Conv": [dict(), dict(residual=True, heads=3), dict(edge_dim=-1, residual=True), dict(share_weights=True)],
    "TransformerConv": [dict(), dict(beta=True, heads=3), dict(edge_dim=-1, beta=True), dict(concat=False, root_weight=False)],
}
LAYERS = {name: known_to_pyg(name, cases) for name, cases in LAYERS.items()}


def is_lazy(p):
    return isinstance(p, torch.nn.UninitializedParameter)


@needs("torch_geometric")
class Columns(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        self.edges = torch.randint(0, N, (2, 40))
        self.x, self.other, self.attr = torch.randn(N, IN), torch.randn(N, OTHER), torch.randn(40, F)

    def each(self, test):
        for name, options in LAYERS.items():
            for more in options:
                for channels in (-1, (-1, -1), (IN, -1)):
                    if "share_weights" in more and channels != -1:
                        continue
                    with self.subTest(name, channels=channels, **more):
                        test(name, channels, more)

    def made(self, package, name, channels, more, seed=3):
        torch.manual_seed(seed)
        return getattr(package, name)(channels, TO, **more)

    def run_layer(self, layer, channels):
        rows = self.x if channels == -1 else (self.x, self.other)
        return layer(rows, self.edges, *([self.attr] if layer.edge_dim else []))

    def same(self, ours, theirs):
        self.assertEqual(list(ours.state_dict()), list(theirs.state_dict()))
        state = ours.state_dict()
        for (key, a), b in zip(state.items(), theirs.state_dict().values()):
            self.assertEqual(is_lazy(a), is_lazy(b), key)
            if not is_lazy(a) and not is_lazy(state.get(key.replace(".bias", ".weight"))):  # whose bias PyG has not drawn yet
                torch.testing.assert_close(a, b, msg=lambda m, key=key: f"{key}: {m}")

    def test_one_seed_gives_pygs_parameters(self):
        def test(name, channels, more):
            ours, theirs = (self.made(package, name, channels, more) for package in (hga.torch, pyg))
            self.assertEqual(str(ours), str(theirs))
            self.assertEqual([is_lazy(p) for p in ours.parameters()], [is_lazy(p) for p in theirs.parameters()])
            self.assertTrue(any(is_lazy(p) for p in ours.parameters()))
            before, outs = list(ours.parameters()), []
            for layer in (ours, theirs):
                torch.manual_seed(5)
                outs.append(self.run_layer(layer, channels))
            self.assertTrue(all(a is b for a, b in zip(before, ours.parameters())), "an optimiser's parameters are the layer's")
            self.assertFalse(any(is_lazy(p) for p in before if p is not (ours.lin_skip.weight if name == "TransformerConv" else None)))
            self.same(ours, theirs)
            torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)
            for layer in (ours, theirs):
                torch.manual_seed(6)
                layer.reset_parameters()
            self.same(ours, theirs)

        self.each(test)

    def test_states_before_the_first_call_and_after_it(self):
        def test(name, channels, more):
            full, theirs = (self.made(package, name, channels, more, seed=4) for package in (hga.torch, pyg))
            empty, their_empty = full.state_dict(), theirs.state_dict()
            theirs.load_state_dict(empty), full.load_state_dict(their_empty)
            want = self.run_layer(full, channels)
            state = full.state_dict()
            for state_of in (state, pickle.loads(pickle.dumps(state))):
                other = self.made(hga.torch, name, channels, more)
                other.load_state_dict(state_of)
                self.assertTrue(torch.equal(self.run_layer(other, channels), want))
            theirs.load_state_dict(state)
            torch.testing.assert_close(self.run_layer(theirs, channels), want, rtol=1e-4, atol=1e-5)
            full.load_state_dict(their_empty)  # it forgets what it had
            self.assertTrue(all(is_lazy(x) == is_lazy(empty[key]) for key, x in full.state_dict().items()))

        self.each(test)

    def test_copies_of_a_layer_without_columns(self):
        for name in LAYERS:
            layer = self.made(hga.torch, name, -1, dict(heads=2))
            for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
                self.assertEqual(copied(self.x, self.edges).shape, (N, 2 * TO))
            self.assertTrue(any(is_lazy(p) for p in layer.parameters()))

    def test_a_first_call_that_infers_leaves_parameters_that_learn(self):
        for name in LAYERS:
            layer = self.made(hga.torch, name, -1, dict(edge_dim=-1))
            with torch.inference_mode():
                layer(self.x, self.edges, self.attr)
            layer(self.x, self.edges, self.attr).sum().backward()
            self.assertFalse(any(p.is_inference() for p in layer.parameters()), name)

    def test_inside_a_heterogeneous_layer(self):
        x = {"author": torch.randn(6, 5), "paper": torch.randn(9, IN)}
        writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
        edges = {writes: torch.randint(0, 6, (2, 20)), cites: torch.randint(0, 9, (2, 30))}
        outs = []
        for package in (hga.torch, pyg):
            torch.manual_seed(1)
            layers = {writes: package.GATConv((-1, -1), TO, edge_dim=F, add_self_loops=False), cites: package.TransformerConv(-1, TO)}
            outs.append(pyg.HeteroConv(layers, aggr="mean")(x, edges, {writes: torch.ones(20, F)})["paper"])
        torch.testing.assert_close(outs[0], outs[1], rtol=1e-4, atol=1e-5)

    def test_what_is_refused(self):
        layer = hga.torch.GATConv(-1, TO, edge_dim=-1)
        layer(self.x, self.edges, self.attr)
        refused_each(self, (
            (f"x has shape (12, 3), not [nodes, {IN}]", lambda: layer(self.other, self.edges, self.attr)),
            ("edge_attr has shape (40, 1), not [40, 2]", lambda: layer(self.x, self.edges, self.attr[:, :1])),
            ("in_channels is -2; it must be at least 1, or -1", lambda: hga.torch.GATConv(-2, TO)),
            ("in_channels is 0; it must be at least 1, or -1", lambda: hga.torch.GATv2Conv((4, 0), TO)),
            ("out_channels is -1; it must be at least 1", lambda: hga.torch.GATConv(4, -1)),
            ("in_channels is -1.0, not a whole number", lambda: hga.torch.TransformerConv(-1.0, TO)),
            ("in_channels is True, not a whole number", lambda: hga.torch.TransformerConv(True, TO)),
            ("those of shape (12, 0) have none", lambda: hga.torch.GATv2Conv(-1, TO)(self.x[:, :0], self.edges)),
            ("x has shape (12,), not [nodes, columns]", lambda: hga.torch.TransformerConv(-1, TO)(self.x[:, 0], self.edges)),
        ), re.escape)  # fmt: skip
