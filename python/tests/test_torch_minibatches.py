"""hga.torch's GATConv, GATv2Conv and TransformerConv where people put them beside PyTorch Geometric's: sampled batches, several
kinds of nodes, its containers and loaders, torch.compile, edges in every kind, copies, threads; each beside its own layers with
the same parameters, outputs and all gradients."""

import collections
import sys
import unittest
from unittest import mock

import hga
from hga._core.library import lib
import numpy as np
from shared import ROOT, OnOneThread, at_once, copies, needs, package, refused, torch
from since import known_to_pyg, older, since

pyg = package("torch_geometric.nn")
with mock.patch.object(sys, "path", [str(ROOT / "bench"), *sys.path]):
    molecules = pyg and package("molecules")
if pyg:
    import torch_geometric
    from torch.utils.checkpoint import checkpoint
    from torch_geometric.data import Data
    from torch_geometric.edge_index import EdgeIndex
    from torch_geometric.loader import DataLoader

IN, OUT, OF_EDGES = 7, 4, 3
LAYERS = "GATConv", "GATv2Conv", "TransformerConv"
OPTIONS = {
    "GATConv": (dict(), dict(heads=2, edge_dim=OF_EDGES, residual=True), dict(heads=3, concat=False, add_self_loops=False)),
    "GATv2Conv": (dict(edge_dim=OF_EDGES, add_self_loops=False), dict(heads=2, residual=True), dict(heads=3, concat=False, edge_dim=OF_EDGES)),
    "TransformerConv": (dict(heads=2), dict(heads=2, edge_dim=OF_EDGES, beta=True), dict(heads=3, concat=False, root_weight=False)),
}


def drawn(sources, n, destinations=None, seed=1):
    """Edges of which some come twice, some are loops; the last node has none."""
    rng = np.random.default_rng(seed)
    ends = np.stack([rng.integers(0, max(1, x - 1), n) for x in (sources, destinations or sources)])
    ends[:, : n // 8] = ends[:, n // 8 : 2 * (n // 8)]
    ends[0, -2:] = ends[1, -2:] = 0
    return torch.from_numpy(ends)


def molecule(seed):
    """A ring with a chain, both ways, of 5 to 20 atoms, and features of atoms and bonds by a known rule."""
    rng = np.random.default_rng(seed)
    ring, chain = rng.integers(3, 8), rng.integers(2, 13)
    at = np.arange(ring + chain)
    pairs = np.concatenate([np.stack([at[:-1], at[1:]], 1), [[ring - 1, 0]]])
    ends = torch.from_numpy(np.concatenate([pairs, pairs[:, ::-1]]).T.copy())
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(len(at), IN, generator=draw), ends, torch.randn(ends.shape[1], OF_EDGES, generator=draw)


def both(make):
    """By hga and by PyTorch Geometric, with the same parameters."""
    torch.manual_seed(3)
    ours, theirs = make(hga.torch), make(pyg)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


class Beside(OnOneThread):
    def setUp(self):
        torch.manual_seed(11)

    def near(self, ours, theirs, rtol=1e-4, atol=1e-5, words=""):
        if ours is None or theirs is None:  # no gradient is one of 0
            theirs = ours if theirs is None else theirs
            ours = theirs if theirs is None else torch.zeros_like(theirs)
        if theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, msg=lambda m: f"{words}: {m}")

    def found(self, model, inputs, call):
        """Outputs and gradients by names. call(model, *inputs) gives a tensor, or tensors by name."""
        model.zero_grad()
        its = [x.clone().requires_grad_() for x in inputs]
        out = call(model, *its)
        out = out if isinstance(out, dict) else {"out": out}
        draw = torch.Generator().manual_seed(5)
        sum((x * torch.randn(x.shape, generator=draw) / 4).sum() for x in out.values()).backward()
        rows = {f"of input {i}": x.grad for i, x in enumerate(its)}
        return {**{str(name): x.detach() for name, x in out.items()}, **rows, **{name.replace("_orig_mod.", ""): p.grad for name, p in model.named_parameters()}}

    def alike(self, models, inputs, call, **near):
        found = [self.found(model, inputs, call) for model in models]
        self.assertEqual(found[0].keys(), found[1].keys())
        for name, x in found[0].items():
            self.near(x, found[1][name], words=name, **near)

    def each(self, names=LAYERS):
        for name in names:
            for chosen in known_to_pyg(name, OPTIONS[name]):
                with self.subTest(name, **chosen):
                    yield name, chosen

    def pair(self, name, channels=IN, **chosen):
        return both(lambda package: getattr(package, name)(channels, OUT, **chosen))

    def features(self, chosen, edges):
        return [torch.randn(edges.shape[1], OF_EDGES)] if "edge_dim" in chosen else []


# ---- sampled batches ----

Hop = collections.namedtuple("Hop", "index edges sizes")


def sampled(rng, ends, targets, per_node, hops):
    """n_id, targets first, and hops from the outermost in, as PyTorch Geometric's loaders give them: up to per_node of the edges into
    each target, by places in n_id, which edges these are, and how many sources and targets there are."""
    n_id, found = np.asarray(targets), []
    for _ in range(hops):
        chosen = [rng.permutation(np.flatnonzero(ends[1] == node))[:per_node] for node in n_id]
        edges, to = np.concatenate(chosen), np.repeat(np.arange(len(n_id)), list(map(len, chosen)))
        wider = np.concatenate([n_id, np.setdiff1d(ends[0, edges], n_id)])
        place = {node: i for i, node in enumerate(wider)}
        index = np.stack([[place[node] for node in ends[0, edges]], to]).astype(np.int64)
        found.insert(0, Hop(torch.from_numpy(index), torch.from_numpy(edges), (len(wider), len(n_id))))
        n_id = wider
    return torch.from_numpy(n_id), found


class Sampled(torch.nn.Module if torch else object):
    def __init__(self, package, name, chosen):
        super().__init__()
        layer, wide = getattr(package, name), OUT * (chosen.get("heads", 1) if chosen.get("concat", True) else 1)
        self.layers = torch.nn.ModuleList([layer((IN, IN), OUT, **chosen), layer((wide, wide), 3, **{**chosen, "heads": 1})])

    def forward(self, x, hops, features):
        for layer, hop in zip(self.layers, hops):
            more = () if layer.edge_dim is None else (features[hop.edges],)
            x = layer((x, x[: hop.sizes[1]]), hop.index, *more).relu()
        return x


@needs("torch_geometric")
class Batches(Beside):
    def test_sampled_batches_of_other_sizes_train_alike(self):
        ends, rows, features = drawn(120, 700).numpy(), torch.randn(120, IN), torch.randn(700, OF_EDGES)
        for name, chosen in self.each():
            models, rng = both(lambda package: Sampled(package, name, chosen)), np.random.default_rng(4)  # noqa: B023
            steps = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
            for targets, per_node in ((8, 4), (40, 5), (1, 2), (40, 3), (3, 9)):
                n_id, hops = sampled(rng, ends, rng.permutation(119)[:targets], per_node, 2)
                self.alike(models, [rows[n_id], features], lambda model, x, f: model(x, hops, f))  # noqa: B023
                [by.step() for by in steps]
            for (key, a), b in zip(models[0].state_dict().items(), models[1].state_dict().values()):
                self.near(a, b, words=key)

    def test_results_do_not_depend_on_the_call_before(self):
        """Large, small and large again, with one thread and with two: a layer's memory of its last call is not read."""
        sizes = [(300, 4000), (5, 9), (1, 0), (400, 3000), (40, 0), (2, 3), (300, 4000)]
        for name, chosen in self.each():
            ours, theirs = self.pair(name, **chosen)
            for threads in (1, 2):
                torch.set_num_threads(threads)
                self.addCleanup(torch.set_num_threads, 1)
                for n, many in sizes:
                    edges = drawn(n, many) if many else torch.empty(2, 0, dtype=torch.int64)
                    if not many and "edge_dim" in chosen and chosen.get("add_self_loops", name != "TransformerConv"):
                        continue  # PyG has no mean of no edges
                    more = self.features(chosen, edges)
                    self.alike((ours, theirs), [torch.randn(n, IN), *more], lambda model, x, *f: model(x, edges, *f), rtol=1e-3, atol=1e-4)  # noqa: B023

    def test_loaders_with_workers(self):
        data = [Data(x=x, edge_index=e, edge_attr=f, y=torch.randn(1, OUT)) for x, e, f in map(molecule, range(40))]
        for name in LAYERS:
            models = self.pair(name, heads=3, concat=False, edge_dim=OF_EDGES)
            seen = []
            for batch in DataLoader(data, batch_size=8, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(1)):
                self.alike(models, [batch.x, batch.edge_attr],
                           lambda model, x, f: pyg.global_add_pool(model(x, batch.edge_index, f), batch.batch) * batch.y)  # fmt: skip # noqa: B023
                seen.append(batch.num_graphs)
            self.assertEqual(seen, [8] * 5)


# ---- PyTorch Geometric's containers ----

NODES = {"user": 23, "item": 31, "tag": 9}
KINDS = {("user", "likes", "item"): 80, ("item", "liked", "user"): 60, ("tag", "of", "item"): 40, ("item", "has", "tag"): 30, ("user", "knows", "user"): 50}


class Network(torch.nn.Module if torch else object):
    """Two layers over molecules."""

    def __init__(self, package, name, chosen):
        super().__init__()
        self.a = getattr(package, name)(IN, OUT, heads=2, **chosen)
        self.b = getattr(package, name)(2 * OUT, 3, **chosen)

    def forward(self, x, edge_index, edge_attr=None):
        return self.b(self.a(x, edge_index, edge_attr).relu(), edge_index, edge_attr)


@needs("torch_geometric")
class Containers(Beside):
    def test_three_kinds_of_nodes(self):
        rows = {kind: torch.randn(n, IN) for kind, n in NODES.items()}
        edges = {k: drawn(NODES[k[0]], n, NODES[k[2]], i) for i, (k, n) in enumerate(KINDS.items())}
        for name, chosen in self.each():
            loops = {} if name == "TransformerConv" else dict(add_self_loops=False)
            features = [*map(torch.randn, (k.shape[1] for k in edges.values()), [OF_EDGES] * len(edges))] if "edge_dim" in chosen else []

            def call(model, *inputs):
                of_nodes, of_edges = dict(zip(NODES, inputs)), dict(zip(KINDS, inputs[len(NODES) :]))
                return model(of_nodes, edges, **({"edge_attr_dict": of_edges} if of_edges else {}))

            make = {k: {**chosen, **loops} for k in KINDS}
            self.alike(both(lambda package: pyg.HeteroConv({k: getattr(package, name)((IN, IN), OUT, **how) for k, how in make.items()})),  # noqa: B023
                       [*rows.values(), *features], call)  # fmt: skip

    def test_inside_gps(self):
        """Beside its attention over all nodes of each graph."""
        edges, batch = drawn(30, 90), torch.arange(30) // 11
        edges = edges[:, batch[edges[0]] == batch[edges[1]]]
        for name in LAYERS:
            for kind in ("multihead", "performer"):
                for chosen in (dict(), dict(edge_dim=OF_EDGES)):
                    with self.subTest(name, kind=kind, **chosen):
                        models = both(lambda package: pyg.GPSConv(8, getattr(package, name)(8, 4, heads=2, **chosen), heads=2, attn_type=kind))  # noqa: B023
                        more = self.features(chosen, edges)
                        self.alike(models, [torch.randn(30, 8), *more],
                                   lambda model, x, *f: model(x, edges, batch, **({"edge_attr": f[0]} if f else {})))  # fmt: skip

    def test_in_sequence(self):
        edges = drawn(30, 90)
        for name, chosen in self.each():
            more, wide = self.features(chosen, edges), OUT * (chosen.get("heads", 1) if chosen.get("concat", True) else 1)
            its = "x, edge_index, edge_attr" if more else "x, edge_index"
            models = both(lambda package: pyg.Sequential(its, [(getattr(package, name)(IN, OUT, **chosen), f"{its} -> x"), torch.nn.ELU(),  # noqa: B023
                                                               (getattr(package, name)(wide, 2, heads=2), "x, edge_index -> x")]))  # fmt: skip # noqa: B023
            self.alike(models, [torch.randn(30, IN), *more], lambda model, x, *f: model(x, edges, *f))

    def test_compiled_over_molecules_of_other_sizes(self):
        """No size compiles anew after the first two: one graph, with features of edges a few, between calls that are not traced."""
        for name in LAYERS:
            for chosen in ({}, dict(edge_dim=OF_EDGES)):
                for compiles in (torch.compile, torch_geometric.compile):
                    with self.subTest(name, by=compiles.__module__, **chosen):
                        torch._dynamo.reset(), torch._dynamo.utils.counters.clear()
                        plain, theirs = both(lambda package: Network(package, name, chosen))  # noqa: B023
                        compiled, graphs = compiles(plain, dynamic=True, backend="aot_eager"), []
                        for i in range(10):
                            x, edges, features = molecule(i)
                            more = [features] if chosen else []
                            call = lambda model, x, *f: model(x, edges, *f)  # noqa: B023, E731
                            self.alike((compiled, plain) if i % 2 else (compiled, theirs), [x, *more], call)
                            graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
                        if not chosen or not older("torch", "2.6"):  # which takes numbers between two graphs for constants
                            self.assertEqual(graphs[2:], graphs[2:3] * 8)
                            self.assertLessEqual(graphs[-1], 12 if chosen else 2)
        torch._dynamo.reset()


# ---- edges in every kind ----


@needs("torch_geometric")
class Kinds(Beside):
    def setUp(self):
        super().setUp()
        self.x, self.edges = torch.randn(20, IN), torch.unique(drawn(20, 70), dim=1)
        self.edges = self.edges[:, torch.randperm(self.edges.shape[1])]

    def as_edge_indices(self, ends):
        """Of its kinds, each with its own order of edges."""
        plain = EdgeIndex(ends, sparse_size=(20, 20))
        return {"unsorted": plain, "by row": plain.sort_by("row").values, "by column": plain.sort_by("col").values,
                "without sizes": EdgeIndex(ends), "half of the sizes": EdgeIndex(ends, sparse_size=(20, None))}  # fmt: skip

    def test_edge_index(self):
        for name, chosen in self.each():
            models = self.pair(name, **chosen)
            for kind, edges in self.as_edge_indices(self.edges).items():
                with self.subTest(kind):
                    self.alike(models, [self.x, *self.features(chosen, edges)], lambda model, x, *f: model(x, edges, *f))  # noqa: B023
            out, (index, weights) = models[0](self.x, edges, *self.features(chosen, edges), return_attention_weights=True)
            self.assertEqual((len(weights), tuple(out.shape)), (index.shape[1], models[0](self.x, edges, *self.features(chosen, edges)).shape))

    @since("torch_geometric", "2.6")  # which counts destinations so
    def test_sizes_of_an_edge_index(self):
        """They are x's, and without rows of destinations say how many there are."""
        few = self.edges % torch.tensor([[20], [9]])
        models = self.pair("GATConv", (IN, 3), add_self_loops=False)
        self.alike(models, [self.x], lambda model, x: model((x, None), EdgeIndex(few, sparse_size=(20, 9))))
        self.assertEqual(models[0]((self.x, None), EdgeIndex(few, sparse_size=(20, 9))).shape, (9, OUT))
        for name in LAYERS:
            layer = self.pair(name)[0]
            refused(self, r"size \(25, 25\), but x has 20 sources", lambda: layer(self.x, EdgeIndex(self.edges, sparse_size=(25, 25))))  # noqa: B023

    def test_an_edge_index_that_changes(self):
        """By its own name, and by that of the tensor inside it."""
        for name in LAYERS:
            models = self.pair(name)
            edges = EdgeIndex(self.edges.clone(), sparse_size=(20, 20))
            for change in (lambda e: None, lambda e: e.as_tensor()[:, :9].fill_(3), lambda e: e.fill_(2), lambda e: e.as_tensor()[:, 3:].fill_(5)):
                change(edges)
                ours, theirs = (model(self.x, edges) for model in models)
                self.near(ours, theirs)

    def matrices(self):
        """Of torch, with a row for each destination, made anew: PyTorch Geometric marks those that it gets as coalesced, also where they
        are not. It takes others than coalesced ones only before it adds loops, which makes an edge of two; and no CSC."""
        twice = torch.cat([self.edges, self.edges[:, :9]], 1)
        plain, double = (torch.sparse_coo_tensor(e.flip(0), torch.ones(e.shape[1]), (20, 20)) for e in (self.edges, twice))
        return {"COO": plain.clone, "coalesced": plain.coalesce, "twice": double.clone, "twice, coalesced": double.coalesce,
                "CSR": plain.to_sparse_csr, "CSC": plain.to_sparse_csc}  # fmt: skip

    def test_matrices_of_torch(self):
        for name, chosen in self.each():
            if "edge_dim" not in chosen:
                models = self.pair(name, **chosen)
                for kind, made in self.matrices().items():
                    with self.subTest(kind):
                        known = kind in ("coalesced", "CSR") or kind != "CSC" and chosen.get("add_self_loops", name != "TransformerConv")
                        to = torch.cat([self.edges, self.edges[:, :9]], 1) if kind == "twice" else self.edges
                        self.alike(models, [self.x], lambda model, x: model(x, made() if known or model is models[0] else to))  # noqa: B023

    def test_graphs_of_them(self):
        want = hga.Graph.from_edge_index(self.edges, 20)
        for edges in self.as_edge_indices(self.edges).values():
            self.assertEqual(hga.Graph.from_edge_index(edges, repeated="once").n_nodes, 20 if edges.sparse_size(0) else int(self.edges.max()) + 1)
            self.assertEqual(hga.Graph.from_edge_index(edges, 20), want)
        self.assertEqual(hga.Graph.from_edge_index(EdgeIndex(self.edges, sparse_size=(25, 25))).n_nodes, 25)
        few = self.edges % torch.tensor([[20], [9]])
        two = hga.Graph.from_edges(*few, (20, 9), repeated="once")
        self.assertEqual(hga.Graph.from_edge_index(EdgeIndex(few, sparse_size=(20, 9)), repeated="once"), two)
        matrix = torch.sparse_coo_tensor(few.flip(0), torch.ones(few.shape[1]), (9, 20))
        for edges in (matrix, matrix.coalesce(), matrix.coalesce().to_sparse_csr(), matrix.coalesce().to_sparse_csc()):
            self.assertEqual(hga.Graph.from_edge_index(edges, repeated="once"), two)
        for made in self.matrices().values():
            self.assertEqual(hga.Graph.from_edge_index(made(), repeated="once"), want)

    def test_masks_of_them(self):
        seen = torch.zeros(20, 20, dtype=torch.bool)
        seen[self.edges[1], self.edges[0]] = True
        block = torch.ones(12, 20).tril().bool()
        for mask in (seen, block, torch.zeros(4, 4, dtype=torch.bool), torch.ones(3, 1500, dtype=torch.bool)):
            for options in (dict(), dict(cross=True), dict(relative=True)):
                want = hga.Graph.from_mask(mask, **options)
                for sparse in (mask.to_sparse(), mask.to_sparse_csr(), mask.to_sparse_csc()):
                    self.assertEqual(hga.Graph.from_mask(sparse, **options), want)
        said = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, False]), (2, 2))  # False is stored
        self.assertEqual(hga.Graph.from_mask(said), hga.Graph.from_mask(said.to_dense()))
        refused(self, "holds torch.float32, not truth values", lambda: hga.Graph.from_mask(seen.float().to_sparse()))

    def test_lists_with_strides_in_few_bits_and_with_nothing(self):
        doubled, none = torch.cat([self.edges, self.edges], 1), torch.empty(2, 0, dtype=torch.int64)
        lists = {"every second": doubled[:, ::2], "turned": self.edges.t().contiguous().t(), "backwards": self.edges.flip(1), "int32": self.edges.int(),
                 "twice": doubled, "loops": torch.arange(19).repeat(2, 1), "nothing": none, "one": torch.tensor([[3], [3]])}  # fmt: skip
        for name, chosen in self.each():
            models = self.pair(name, **chosen)
            for kind, edges in lists.items():
                with self.subTest(kind):
                    if edges is none and "edge_dim" in chosen:  # PyG has no mean of no edges
                        continue
                    ends = {models[0]: edges, models[1]: edges.long()}  # of 32 bits PyG has no gradients, or wrong ones
                    self.alike(models, [self.x, *self.features(chosen, edges)], lambda model, x, *f: model(x, ends[model], *f))  # noqa: B023


# ---- copies, modes, threads ----


@needs("torch_geometric")
class Lives(Beside):
    def setUp(self):
        super().setUp()
        self.x, self.edges = torch.randn(40, IN), drawn(40, 200)

    def network(self, name, **chosen):
        more = [torch.randn(200, OF_EDGES)] if "edge_dim" in chosen else []
        return (*both(lambda package: Network(package, name, chosen)), [self.x, *more])

    def each_network(self):
        for name in LAYERS:
            for chosen in ({}, dict(edge_dim=OF_EDGES)):
                with self.subTest(name, **chosen):
                    yield self.network(name, **chosen)

    def call(self, model, x, *features):
        return model(x, self.edges, *features)

    def test_copies_also_between_forward_and_backward(self):
        for ours, theirs, inputs in self.each_network():
            want = self.found(theirs, inputs, self.call)
            for i in range(3):
                found = []

                def call(model, *its, i=i, found=found):
                    out = self.call(model, *its)
                    found.append(copies(model)[i])
                    return out

                self.alike((ours, theirs), inputs, call)
                for name, x in self.found(found[0], inputs, self.call).items():
                    self.near(x, want[name], words=name)

    def test_gradients_that_are_recorded_are_the_same(self):
        """GATv2Conv's keys and values are one tensor."""
        for name in LAYERS:
            for more in ({}, {"share_weights": True}) if name == "GATv2Conv" else ({},):
                layer = getattr(hga.torch, name)(6, 8, heads=2, **more)
                x = self.x[:, :6].detach().clone().requires_grad_()
                inputs = [x, *layer.parameters()]
                plain, recorded = (torch.autograd.grad(layer(x, self.edges).pow(2).sum(), inputs, create_graph=how, allow_unused=True) for how in (False, True))
                for a, b in zip(plain, recorded):
                    if a is not None:
                        torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)

    def test_edges_that_change_behind_torch(self):
        """By .data, and by numpy: torch counts neither."""
        for name in LAYERS:
            layer, array = getattr(hga.torch, name)(6, 8), self.edges.numpy().copy()
            edges, x = torch.from_numpy(array), self.x[:, :6].detach()
            for change in (lambda: edges.data[0, :9].fill_(5), lambda: array[0, 3:9].fill(7), lambda: setattr(edges, "data", self.edges[:, :11].clone())):
                layer(x, edges)
                change()
                torch.testing.assert_close(layer(x, edges), layer(x, edges.clone()), rtol=0, atol=0)

    def test_outputs_change_in_place(self):
        for name, more in (("GATConv", dict(bias=False)), ("GATv2Conv", dict(bias=False)), ("TransformerConv", dict(root_weight=False))):
            for concat in (True, False):
                layer, x = getattr(hga.torch, name)(6, 8, heads=2, concat=concat, **more), self.x[:, :6].detach().clone().requires_grad_()
                a, b = (torch.autograd.grad(relu(layer(x, self.edges)).sum(), x)[0] for relu in (torch.relu, torch.relu_))
                torch.testing.assert_close(a, b)

    def test_a_dropout_that_is_left_out_or_is_none(self):
        for name in LAYERS:
            torch.manual_seed(4)
            layers = [getattr(hga.torch, name)(6, 8, **more) for more in ({}, {"dropout": None}, {"dropout": 0}, {"dropout": 0.0})]
            for layer in layers[1:]:
                layer.load_state_dict(layers[0].state_dict())
                self.assertTrue(torch.equal(layer(self.x[:, :6], self.edges), layers[0](self.x[:, :6], self.edges)))
            wrong = getattr(hga.torch, name)(6, 8, dropout="a")
            refused(self, "dropout is 'a', not a number", lambda: wrong(self.x[:, :6], self.edges))  # noqa: B023

    def test_plans_are_counted_while_threads_update_theirs(self):
        """More plans than are looked at each time, of one thread, and of others that update their own at that moment."""
        layers = [hga.torch.GATConv(6, 8, heads=1 + i) for i in range(24)]
        lists = [torch.randint(0, 20, (2, n)) for n in range(30, 90)]

        x, want = self.x[:, :6].detach(), {}

        def run(i):
            for j, edges in enumerate(lists):
                for k in range(i % 2, len(layers), 2):
                    self.assertTrue(torch.equal(layers[k](x, edges), want[j, k]))

        with torch.no_grad():
            want = {(j, k): layer(x, edges) for j, edges in enumerate(lists) for k, layer in enumerate(layers)}
        at_once(run, 4)

    def test_memory_of_many_passes_goes(self):
        """Plans and workspaces of calls that waited for their backward passes all at once."""
        layer, x = hga.torch.GATConv(6, 8), self.x[:, :6].detach().clone().requires_grad_()
        lib.hga_py_forget_cached()
        before = lib.hga_py_cached_all().plans  # of other hierarchies
        waiting = [layer(x, self.edges) for _ in range(400)]
        self.assertGreater(lib.hga_py_cached_all().plans, before + 300)
        del waiting
        self.assertLessEqual(lib.hga_py_cached_all().plans, before + 128)

    def test_retained_and_gone_back_twice(self):
        for ours, theirs, inputs in self.each_network():
            grads = []
            for model in (ours, theirs):
                its = [x.clone().requires_grad_() for x in inputs]
                loss = self.call(model, *its).square().sum()
                loss.backward(retain_graph=True)
                once = [x.grad.clone() for x in its]
                loss.backward()
                self.near(its[0].grad, 2 * once[0])
                grads.append([*once, *(p.grad for p in model.parameters())])
            for a, b in zip(*grads):
                self.near(a, b, rtol=1e-3, atol=1e-4)

    def test_edges_that_change_between_calls(self):
        for ours, theirs, inputs in self.each_network():
            for _ in range(3):
                self.alike((ours, theirs), inputs, self.call)
                self.edges[:, :20].random_(0, 40)

    def test_changed_between_forward_and_backward(self):
        """The gradient is that of the edges that were attended along."""
        for name in LAYERS:
            layer, _ = self.pair(name)
            x, edges = self.x.clone().requires_grad_(), self.edges.clone()
            out = layer(x, edges)
            edges.fill_(0)
            out.sum().backward()
            again = self.x.clone().requires_grad_()
            layer(again, self.edges).sum().backward()
            self.assertTrue(torch.equal(x.grad, again.grad))

    def test_without_gradients(self):
        for ours, theirs, inputs in self.each_network():
            for mode in (torch.no_grad, torch.inference_mode):
                with mode():
                    its = [x.clone() for x in inputs]
                    edges = self.edges.clone()
                    out, want = (model(its[0], edges, *its[1:]) for model in (ours, theirs))
                    self.assertFalse(out.requires_grad)
                    self.near(out, want)
                self.near(ours(inputs[0], edges, *inputs[1:]).detach(), want.clone())  # edges of that mode, outside of it

    def test_half_precision(self):
        for ours, theirs, inputs in self.each_network():
            def call(model, *its):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.call(model, *its)

            out, want = (call(model, *inputs) for model in (ours, theirs))
            self.assertEqual(out.dtype, want.dtype)
            found, wanted = (self.found(model, inputs, lambda model, *its: call(model, *its).float()) for model in (ours, theirs))
            for name, x in found.items():
                if wanted[name] is not None:
                    self.near(x, wanted[name], rtol=0.1, atol=0.05 * float(wanted[name].abs().max()) + 1e-2, words=name)

    def test_double_is_refused(self):
        for ours, theirs, inputs in self.each_network():
            refused(self, r"dtype torch.float64, not torch.float32, float16 or bfloat16: convert it with .float\(\)",
                    lambda: ours.double()(self.x.double(), self.edges, *(f.double() for f in inputs[1:])))  # fmt: skip # noqa: B023

    def test_features_of_whole_numbers(self):
        """PyTorch Geometric takes them where it adds loops, whose mean has fractions."""
        kinds = torch.randint(0, 4, (200, OF_EDGES))
        for name in LAYERS:
            models = self.network(name, edge_dim=OF_EDGES)[:2]
            its = {models[0]: kinds, models[1]: kinds if name != "TransformerConv" else kinds.float()}
            self.alike(models, [self.x], lambda model, x: model(x, self.edges, its[model]))  # noqa: B023

    def test_nodes_that_are_not_there_are_refused(self):
        for ours, _, inputs in self.each_network():
            for place, node in ((0, 40), (1, 40), (0, -1), (1, -1)):
                edges = self.edges.clone()
                edges[place, 7] = node
                refused(self, f"edge_index has node {node} of 40", lambda: ours(inputs[0], edges, *inputs[1:]))  # noqa: B023

    @since("torch", "2.6")  # whose export asks otherwise
    def test_exported(self):
        """Without features of edges; with them it is refused."""
        for ours, theirs, inputs in self.each_network():
            export = lambda: torch.export.export(ours, (inputs[0], self.edges, *inputs[1:]), strict=False)  # noqa: B023, E731
            if len(inputs) > 1:
                refused(self, "torch.export of a graph layer with features of edges is not offered", export)
            else:
                self.near(export().module()(*inputs, self.edges), theirs(*inputs, self.edges))

    def test_checkpoints(self):
        for ours, theirs, inputs in self.each_network():
            for reentrant in (True, False):
                self.alike((ours, theirs), inputs, lambda model, *its: checkpoint(self.call, model, *its, use_reentrant=reentrant))  # noqa: B023

    def test_dropout_by_seeds(self):
        """Equal seeds, equal results, also of a checkpoint, which computes again; other seeds, others."""
        for name in LAYERS:
            for chosen in ({}, dict(edge_dim=OF_EDGES)):
                ours, _, inputs = self.network(name, dropout=0.5, **chosen)
                found = []
                for seed, call in ((1, self.call), (1, self.call), (2, self.call), (1, lambda model, *its: checkpoint(self.call, model, *its, use_reentrant=False))):
                    torch.manual_seed(seed)
                    found.append(self.found(ours, inputs, call))
                for name_, x in found[0].items():
                    for other in (found[1], found[3]):
                        self.assertTrue(x is other[name_] or torch.equal(x, other[name_]), name_)
                self.assertFalse(torch.equal(found[0]["out"], found[2]["out"]))

    def test_threads_share_a_layer(self):
        """Forward and backward, along edges of their own, at once."""
        for ours, _, inputs in self.each_network():
            its = [(drawn(40, 200, seed=i), [x + i for x in inputs]) for i in range(4)]

            def gradients(i):
                edges, rows = its[i]  # noqa: B023
                rows = [x.clone().requires_grad_() for x in rows]
                out = ours(rows[0], edges, *rows[1:])  # noqa: B023
                return [out.detach(), *torch.autograd.grad(out.square().sum(), [*rows, *ours.parameters()], allow_unused=True)]  # noqa: B023

            alone, found = [gradients(i) for i in range(4)], {}

            def run(i):
                for _ in range(10):
                    found[i] = gradients(i)  # noqa: B023

            at_once(run, 4)
            for i in range(4):
                for a, b in zip(found[i], alone[i]):
                    self.assertTrue(a is b or torch.equal(a, b))


# ---- training ----


@unittest.skipUnless(molecules, "the benches or PyTorch Geometric are not here")
class Trained(Beside):
    def trained(self, task, layer, epochs):
        """The accuracies of both and how far their losses are apart."""
        trainings = [molecules.Training(name, task, layer) for name in ("hga", "pyg")]
        for name, x in trainings[0].model.state_dict().items():
            self.near(x, trainings[1].model.state_dict()[name], words=name)
        losses = np.array([[training.epoch() for training in trainings] for _ in range(epochs)])
        np.testing.assert_allclose(losses[:2, 0], losses[:2, 1], rtol=1e-3)  # later Adam has made last bits larger
        self.assertLess(losses[-1].max(), losses[0].min())
        return [training.accuracy() for training in trainings]

    def test_molecules_are_learned_alike(self):
        task = molecules.Molecules(1, learn=300, ask=200)
        for layer in LAYERS:
            ours, theirs = self.trained(task, layer, 15)
            self.assertLess(abs(ours - theirs), 0.06, layer)
            self.assertGreater(min(ours, theirs), 0.85, layer)

    def test_citations_are_learned_alike(self):
        task = molecules.Citation(1, nodes=350, edges=1400, words=140)
        for layer in LAYERS:
            ours, theirs = self.trained(task, layer, 60)
            self.assertLess(abs(ours - theirs), 0.04, layer)
            self.assertGreater(min(ours, theirs), 0.5, layer)

    def test_an_epoch_without_attention_has_all_else(self):
        """Each parameter still has a gradient, as it has with attention."""
        for task in (molecules.Molecules(1, learn=40, ask=8), molecules.Citation(1, nodes=70, edges=200, words=21)):
            for layer in LAYERS:
                of = [molecules.Training(name, task, layer) for name in ("hga", "rest")]
                [training.epoch() for training in of]
                for (name, p), its in zip(of[0].model.named_parameters(), of[1].model.parameters()):
                    self.assertEqual(p.grad is None, its.grad is None, name)
