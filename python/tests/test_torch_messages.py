"""hga.torch's layers of graphs are PyTorch Geometric's MessagePassing from the moment that it is imported: to_hetero,
explainers and others give what they give for its own layers with the same parameters."""

import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import hga
from shared import OnOneThread, copies, needs, package, refused, torch

pyg = package("torch_geometric.nn")
if pyg:
    from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer, GraphMaskExplainer, PGExplainer
    from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
    from torch_geometric.utils import get_embeddings

NODES, EDGES, IN, OF_EDGES = 20, 60, 8, 5
LAYERS = "GATConv", "GATv2Conv", "TransformerConv"
# Options with others left out; those with edge_dim get features.
OPTIONS = {
    "GATConv": ({}, dict(heads=2, edge_dim=OF_EDGES, residual=True), dict(heads=2, add_self_loops=False, concat=False, dropout=0.3),
                dict(edge_dim=OF_EDGES, fill_value="max", bias=False, dropout=0.3)),
    "GATv2Conv": ({}, dict(heads=2, edge_dim=OF_EDGES, share_weights=True), dict(heads=2, add_self_loops=False, concat=False, residual=True)),
    "TransformerConv": ({}, dict(heads=2, edge_dim=OF_EDGES, concat=False), dict(heads=2, beta=True, dropout=0.3), dict(root_weight=False)),
}  # fmt: skip


FORKS = """
import os, sys
for text in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        exec(text)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(text)
"""


def in_python(first, *texts):
    """In a process of its own: `first`, then each of the texts in a fork of that. What they write."""
    command = [sys.executable, "-W", "ignore", "-c", first + FORKS, "", *texts]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=500)
    if found.returncode:
        raise AssertionError(found.stderr)
    return found.stdout.split()


def net(package, name, chosen):
    """Two layers; the second has one head."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layer = getattr(package, name)
            wide = 6 * chosen.get("heads", 1) if chosen.get("concat", True) else 6
            self.a, self.b = layer(IN, 6, **chosen), layer(wide, 3, **{**chosen, "heads": 1})

        def forward(self, x, edge_index, edge_attr=None):
            return self.b(self.a(x, edge_index, edge_attr).relu(), edge_index, edge_attr)

    return Net()


def both(make):
    """By hga and by PyTorch Geometric, with the same parameters."""
    ours, theirs = make(hga.torch), make(pyg)
    ours.load_state_dict(theirs.state_dict())
    return ours.eval(), theirs.eval()


@needs("torch_geometric")
class Tools(OnOneThread):
    def setUp(self):
        torch.manual_seed(5)
        self.x, self.edges = torch.randn(NODES, IN), torch.randint(NODES, (2, EDGES))
        self.edges[:, :3] = torch.tensor([1, 2, 3])  # loops
        self.features = torch.randn(EDGES, OF_EDGES)

    def each(self):
        for name in LAYERS:
            for chosen in OPTIONS[name]:
                with self.subTest(name, **chosen):
                    more = dict(edge_attr=self.features) if "edge_dim" in chosen else {}
                    yield (*both(lambda package: net(package, name, chosen)), more)  # noqa: B023

    def near(self, ours, theirs, **more):
        torch.testing.assert_close(ours, theirs, **{"rtol": 1e-4, "atol": 1e-5, **more})

    # ---- explanations ----

    def explained(self, model, algorithm, x, edges, kind="attributes", **more):
        torch.manual_seed(7)
        explainer = Explainer(model, algorithm, explanation_type="model", node_mask_type=kind, edge_mask_type="object",
                              model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))  # fmt: skip
        return explainer(x, edges, index=4, **more)

    def test_gnn_explainer(self):
        for ours, theirs, more in self.each():
            plain = ours(self.x, self.edges, **more)
            # Few steps: Adam divides by a gradient's size, and some gradients are nothing but rounding (1e-21 in double), which
            # may come to 0 here and not there. A mask whose gradient is 0 is left out.
            a, b = (self.explained(m, GNNExplainer(epochs=2), self.x, self.edges, **more) for m in (ours, theirs))
            both = (a.node_mask != 0) & (b.node_mask != 0)
            self.near(a.edge_mask, b.edge_mask)
            self.near(a.node_mask * both, b.node_mask * both, atol=2e-3)
            self.assertGreater(float((both == ((a.node_mask != 0) | (b.node_mask != 0))).float().mean()), 0.8)
            self.assertGreater(float(a.edge_mask.max()), 0)
            self.assertTrue(torch.equal(ours(self.x, self.edges, **more), plain))  # it is over

    def test_attention_explainer(self):
        for ours, theirs, more in self.each():
            a, b = (self.explained(m, AttentionExplainer(), self.x, self.edges, None, **more) for m in (ours, theirs))
            self.near(a.edge_mask, b.edge_mask)

    def test_graph_mask_explainer(self):
        for name in LAYERS[:2]:  # in TransformerConv it finds no rows, PyTorch Geometric's neither
            made = both(lambda package: net(package, name, {}))  # noqa: B023
            a, b = (self.explained(m, GraphMaskExplainer(2, epochs=2, log=False), self.x, self.edges, "common_attributes") for m in made)
            self.near(a.edge_mask, b.edge_mask)
            self.near(a.node_mask, b.node_mask)

    def test_pg_explainer(self):
        for name in LAYERS:
            found = []
            for model in both(lambda package: net(package, name, {})):  # noqa: B023
                torch.manual_seed(7)
                explainer = Explainer(model, PGExplainer(epochs=2), explanation_type="phenomenon", edge_mask_type="object",
                                      model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))  # fmt: skip
                target = model(self.x, self.edges).argmax(1)
                for epoch in range(2):
                    explainer.algorithm.train(epoch, model, self.x, self.edges, target=target, index=4)
                found.append(explainer(self.x, self.edges, target=target, index=4).edge_mask)
            self.near(*found)

    def test_masks_weigh_messages_with_gradients_as_in_pygs(self):
        for ours, theirs, more in self.each():
            found = []
            for model in (ours, theirs):
                torch.manual_seed(3)
                mask, x = torch.randn(EDGES).requires_grad_(), self.x.clone().requires_grad_()
                set_masks(model, mask, self.edges)
                out = model(x, self.edges, **more)
                (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
                found.append((out, mask.grad, x.grad, *(p.grad for name, p in model.named_parameters() if "mask" not in name)))
                clear_masks(model)
            for a, b in zip(*found):
                self.near(a, b, rtol=1e-3, atol=2e-3)

    def test_a_mask_of_ones_changes_nothing_and_one_of_zeros_is_seen(self):
        for ours, _, more in self.each():
            plain = ours(self.x, self.edges, **more)
            set_masks(ours, torch.ones(EDGES), self.edges, apply_sigmoid=False)
            self.near(ours(self.x, self.edges, **more), plain)
            set_masks(ours, torch.zeros(EDGES), self.edges, apply_sigmoid=False)
            self.assertFalse(torch.allclose(ours(self.x, self.edges, **more), plain))
            clear_masks(ours)
            self.assertTrue(torch.equal(ours(self.x, self.edges, **more), plain))

    def test_weights_and_dropout_are_pygs_while_it_explains(self):
        for name in LAYERS:
            ours, theirs = both(lambda package: getattr(package, name)(IN, 4, heads=2, dropout=0.4))  # noqa: B023
            found = []
            for layer in (ours.train(), theirs.train()):
                set_masks(layer, torch.linspace(-1, 1, EDGES), self.edges)
                torch.manual_seed(2)
                out, (index, weights) = layer(self.x, self.edges, return_attention_weights=True)
                found.append((out, index, weights))
            for a, b in zip(*found):
                self.near(a, b)

    def test_a_hierarchy_has_no_edges_to_explain(self):
        for name in LAYERS:
            layer, h = getattr(hga.torch, name)(IN, 4), hga.window(NODES, left=2, right=2)
            layer.explain = True
            refused(self, name + ": an explanation goes with an edge_index", lambda: layer(self.x, h))
            layer.explain = False  # "leave it out"
            layer(self.x, h)

    def test_hooks_between_steps_are_called(self):
        for name in LAYERS:
            layer, seen = getattr(hga.torch, name)(IN, 4, heads=2), []
            plain = layer(self.x, self.edges)
            handles = [layer.register_message_forward_hook(lambda m, given, out: seen.append(out.shape)),
                       layer.register_propagate_forward_hook(lambda m, given, out: seen.append(out.shape)),
                       layer.register_aggregate_forward_hook(lambda m, given, out: 2 * out)]  # fmt: skip
            twice = layer(self.x, self.edges)
            self.assertEqual(seen[0][1:], (2, 4))
            self.assertEqual(seen[1], (NODES, 2, 4))
            self.assertFalse(torch.allclose(twice, plain))
            for handle in handles:
                handle.remove()
            self.assertTrue(torch.equal(layer(self.x, self.edges), plain))

    # ---- graphs of several kinds ----

    def kinds(self):
        edges = {k: torch.randint(NODES, (2, n)) for k, n in ((("p", "c", "p"), 50), (("a", "w", "p"), 30), (("p", "rw", "a"), 30))}
        return {"p": torch.randn(NODES, IN), "a": torch.randn(NODES, IN)}, edges, {k: torch.randn(e.shape[1], OF_EDGES) for k, e in edges.items()}

    def hetero(self, name, chosen, aggr="sum"):
        x, edges, features = self.kinds()
        loops = {} if name == "TransformerConv" else dict(add_self_loops=False)

        def make(package):
            class One(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a = getattr(package, name)((IN, IN), 6, **loops, **chosen)
                    self.b = getattr(package, name)((-1, -1), 3, **loops, **chosen)

                def forward(self, x, edge_index, edge_attr):
                    return self.b(self.a(x, edge_index, edge_attr).relu(), edge_index, edge_attr)

            made = pyg.to_hetero(One(), (list(x), list(edges)), aggr=aggr)
            with torch.no_grad():
                made(x, edges, features if "edge_dim" in chosen else dict.fromkeys(edges))
            return made

        return (*both(make), x, edges, features if "edge_dim" in chosen else dict.fromkeys(edges))

    def test_to_hetero(self):
        for name in LAYERS:
            for chosen in ({}, dict(heads=2, edge_dim=OF_EDGES)):
                for aggr in ("sum", "mean", "max"):
                    with self.subTest(name, aggr=aggr, **chosen):
                        ours, theirs, x, edges, features = self.hetero(name, chosen, aggr)
                        a, b = ours(x, edges, features), theirs(x, edges, features)
                        self.assertEqual(sorted(a), ["a", "p"])
                        for key in b:
                            self.near(a[key], b[key])
                        for out in (a, b):
                            sum((rows * rows).sum() for rows in out.values()).backward()
                        for (key, p), q in zip(ours.named_parameters(), theirs.parameters()):
                            self.near(p.grad, q.grad, rtol=1e-3, atol=1e-3, msg=lambda m, key=key: f"{key}: {m}")

    def test_to_hetero_with_loops_is_refused_as_pygs(self):
        class One(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = hga.torch.GATConv((IN, IN), 6)

            def forward(self, x, edge_index):
                return self.a(x, edge_index)

        x, edges, _ = self.kinds()
        with self.assertRaisesRegex(ValueError, "'add_self_loops' attribute set to 'True' on module 'GATConv"):
            pyg.to_hetero(One(), (list(x), list(edges)))

    def test_to_hetero_with_bases(self):
        """It takes the heads of a message for its edges, here and in PyTorch Geometric: 110 of both."""
        x, edges, _ = self.kinds()
        for name in LAYERS:
            found = []
            for package in (hga.torch, pyg):

                class One(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.a = getattr(package, name)(IN, 6, heads=110, **({} if name == "TransformerConv" else dict(add_self_loops=False)))  # noqa: B023

                    def forward(self, x, edge_index):
                        return self.a(x, edge_index)

                torch.manual_seed(6)
                made = pyg.to_hetero_with_bases(One(), (list(x), list(edges)), num_bases=2)
                for p in made.parameters():
                    torch.nn.init.normal_(p)
                found.append((made, made(x, edges)))
            (ours, a), (theirs, b) = found
            self.assertEqual([(n, p.shape) for n, p in ours.named_parameters()], [(n, p.shape) for n, p in theirs.named_parameters()])
            for key in b:
                self.near(a[key], b[key], rtol=1e-3, atol=1e-3)

    def test_explanations_of_several_kinds(self):
        for name in LAYERS:
            ours, theirs, x, edges, features = self.hetero(name, {})
            wrap = lambda model: Last(model, features)  # noqa: B023, E731
            a, b = (self.explained(wrap(m), GNNExplainer(epochs=20), x, edges) for m in (ours, theirs))
            for key in edges:
                self.near(a[key].edge_mask, b[key].edge_mask)
            a, b = (self.explained(wrap(m), AttentionExplainer(), x, edges, None) for m in (ours, theirs))
            for key in edges:
                self.near(a[key].edge_mask, b[key].edge_mask)

    def same(self, ours, theirs, run):
        """Outputs, and gradients of all parameters."""
        found = []
        for model in (ours, theirs):
            out = run(model)
            sum((rows * torch.linspace(-1, 1, rows.numel()).view_as(rows)).sum() for rows in out.values()).backward()
            of_parameters = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
            found.append((out, of_parameters))
        for a, b in zip(*found):
            self.assertEqual(list(a), list(b))
            for key in b:
                self.near(a[key], b[key], rtol=1e-3, atol=1e-3, msg=lambda m, key=key: f"{key}: {m}")

    def unlike_kinds(self):
        """Two kinds of different numbers, edges that are given twice among those between them."""
        x = {"p": torch.randn(NODES, IN), "a": torch.randn(13, IN)}
        ends = {k: torch.stack([torch.randint(len(x[k[i]]), (30,)) for i in (0, 2)]) for k in (("p", "c", "p"), ("a", "w", "p"), ("p", "rw", "a"))}
        return x, {k: torch.cat([e, e[:, :4]], 1) for k, e in ends.items()}

    def test_hetero_conv(self):
        x, edges = self.unlike_kinds()
        features = {k: torch.randn(e.shape[1], OF_EDGES) for k, e in edges.items()}
        for name in LAYERS:
            loops = {} if name == "TransformerConv" else dict(add_self_loops=False)
            for chosen in ({}, dict(heads=2, edge_dim=OF_EDGES), dict(heads=3, concat=False)):
                with self.subTest(name, **chosen):
                    made = both(lambda package: pyg.HeteroConv({k: getattr(package, name)((IN, IN), 4, **loops, **chosen) for k in edges}))  # noqa: B023
                    more = dict(edge_attr_dict=features) if "edge_dim" in chosen else {}
                    self.same(*made, lambda model: model(x, edges, **more))  # noqa: B023

    def test_masks_weigh_messages_between_two_kinds(self):
        x, edges = self.unlike_kinds()
        ends = edges["a", "w", "p"]
        for name in LAYERS:
            loops = {} if name == "TransformerConv" else dict(add_self_loops=False)
            ours, theirs = both(lambda package: getattr(package, name)((IN, IN), 4, heads=2, **loops))  # noqa: B023
            for model in (ours, theirs):
                set_masks(model, torch.linspace(-1, 1, ends.shape[1]), ends)
            self.same(ours, theirs, lambda model: {"p": model((x["a"], x["p"]), ends)})

    # ---- what else asks ----

    def test_sequential(self):
        for name in LAYERS:
            with self.subTest(name):
                made = both(lambda package: pyg.Sequential("x, edge_index, edge_attr", [
                    (getattr(package, name)(IN, 4, heads=2, edge_dim=OF_EDGES), "x, edge_index, edge_attr -> x"),  # noqa: B023
                    torch.nn.ReLU(), (getattr(package, name)(8, 3), "x, edge_index -> x")]))  # fmt: skip # noqa: B023
                self.same(*made, lambda model: {"x": model(self.x, self.edges, self.features)})

    def test_embeddings_and_summaries(self):
        for ours, theirs, more in self.each():
            for a, b in zip(get_embeddings(ours, self.x, self.edges, **more), get_embeddings(theirs, self.x, self.edges, **more)):
                self.near(a, b)
            with mock.patch.dict(sys.modules, tabulate=types.SimpleNamespace(tabulate=lambda rows, **_: str(rows))):  # which it writes with
                self.assertEqual(*(pyg.summary(m, self.x, self.edges, **more) for m in (ours, theirs)))

    def test_layers_are_as_before_beside_it(self):
        for name in LAYERS:
            layer, theirs = (getattr(package, name)(IN, 4, heads=2, residual=True) if name != "TransformerConv"
                             else getattr(package, name)(IN, 4, heads=2) for package in (hga.torch, pyg))  # fmt: skip
            self.assertIsInstance(layer, pyg.MessagePassing)
            self.assertIs(type(layer), getattr(hga.torch, name))
            self.assertEqual((layer.aggr, layer.flow, layer.node_dim), ("add", "source_to_target", 0))
            self.assertEqual(repr(layer), f"{name}({IN}, 4, heads=2)")
            self.assertEqual(list(layer.state_dict()), list(theirs.state_dict()))
            layer.explain = True
            layer._edge_mask, layer._loop_mask = torch.randn(EDGES), self.edges[0] != self.edges[1]
            want = layer(self.x, self.edges)
            for again in copies(layer):
                self.assertTrue(torch.equal(again(self.x, self.edges), want))
                clear_masks(again)
                self.assertFalse(torch.equal(again(self.x, self.edges), want))
            self.assertTrue(torch.equal(layer(self.x, self.edges), want))


class Last(torch.nn.Module if pyg else object):
    """The rows of one kind, as explainers want them."""

    def __init__(self, model, features):
        super().__init__()
        self.model, self.features = model, features

    def forward(self, x, edge_index):
        return self.model(x, edge_index, self.features)["p"]


MAKE = "import hga.torch, sys, torch, pickle; torch.manual_seed(1); e = torch.randint(9, (2, 30)); x = torch.randn(9, 4)"
NEW = "layer = hga.torch.GATConv(4, 2)"
OWN = """


class Mine(hga.torch.GATConv):
    def forward(self, x, e): return super().forward(2 * x, e)
layer = Mine(4, 2)"""
MASKS = "from torch_geometric.explain.algorithm.utils import set_masks, clear_masks"
EXPLAIN = f"""
{MASKS}
assert isinstance(layer, torch_geometric.nn.MessagePassing) and type(layer).__name__ in ("GATConv", "Mine")
plain = layer(x, e); set_masks(layer, torch.ones(30), e, apply_sigmoid=False)
assert torch.allclose(layer(x, e), plain, atol=1e-6); clear_masks(layer); assert torch.equal(layer(x, e), plain); print('yes')"""
PYG = "import torch_geometric.nn"
NEVER = "sys.modules['torch_geometric'] = None"  # an import fails


def text_of(*lines):
    return "\n".join(lines)


@needs("torch_geometric")
class Orders(unittest.TestCase):
    """Of imports, in processes of their own."""

    def test_before_after_after_layers_and_never(self):
        never = text_of(NEW, "layer(x, e); print(any(m.startswith('torch_geometric') for m in sys.modules))")
        after = [text_of(PYG, NEW, EXPLAIN), text_of(PYG, OWN, EXPLAIN), text_of(NEW, PYG, EXPLAIN), text_of(OWN, PYG, EXPLAIN),
                 text_of(NEW, "layer(x, e)", "from torch_geometric.nn.conv import MessagePassing; import torch_geometric", EXPLAIN)]  # fmt: skip
        kept = text_of(NEW, "said, state = repr(layer), list(layer.state_dict())", PYG,
                       "assert (repr(layer), list(layer.state_dict())) == (said, state), layer", EXPLAIN)  # fmt: skip
        gone = text_of(NEW, PYG, "print(any(type(f).__module__ == 'hga.torch._messages' for f in sys.meta_path))")  # who waited for it
        self.assertEqual(in_python(MAKE, never, *after, kept, gone), ["False"] + ["yes"] * 6 + ["False"])
        self.assertEqual(in_python(text_of(PYG, MAKE), text_of(NEW, EXPLAIN), text_of(OWN, EXPLAIN)), ["yes"] * 2)

    def test_pickles_go_both_ways(self):
        with tempfile.TemporaryDirectory() as folder:
            a, b, c = (repr(str(pathlib.Path(folder) / name)) for name in "abc")
            save = "torch.save((layer, layer(x, e)), {})"
            load = "layer, want = torch.load({}, weights_only=False); assert torch.equal(layer(x, e), want); print('yes')"
            found = in_python(
                MAKE,
                text_of(PYG, NEW, save.format(a)), text_of(NEVER, NEW, save.format(b)),
                text_of(PYG, MASKS, NEW, "set_masks(layer, torch.randn(30), e)", save.format(c)),
                text_of(NEVER, load.format(a)), text_of(load.format(b), PYG, EXPLAIN), text_of(PYG, load.format(b), EXPLAIN),
                load.format(c),  # under a mask: imports what it needs
            )  # fmt: skip
            self.assertEqual(found, ["yes"] * 6)
            with self.assertRaisesRegex(AssertionError, "torch_geometric"):
                in_python(MAKE, text_of(NEVER, load.format(c)))
