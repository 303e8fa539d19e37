"""Keys and features of edges in attention give what numpy gives in double, forward and back; hga.torch's layers with
features of edges, sources and destinations of two kinds, weights that are asked for, and edges in every kind, what
PyTorch Geometric's give."""

import re
import unittest

import hga
import numpy as np
from shared import needs, package, refused, refused_each, torch
from since import known_to_pyg

pyg = package("torch_geometric.nn")
if pyg:
    from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor, trim_to_layer

N, F = 23, 5
RNG = np.random.default_rng(7)


def drawn_graph(sources=N, destinations=N, n=90):
    pairs = np.unique(np.stack([RNG.integers(0, sources, n), RNG.integers(0, destinations - 1, n)]), axis=1)
    nodes = sources if sources == destinations else (sources, destinations)
    return pairs, hga.Graph.from_edges(pairs[0], pairs[1], nodes)


def floats(*shape):
    return RNG.standard_normal(shape).astype("f4")


def by_hand(edges, q, k, v, keys, features):
    """out and edge_out, [rows][heads][..], in double: an edge after the other."""
    heads, share = q.shape[1], q.shape[1] // k.shape[1]
    out, sums = np.zeros((len(q), heads, v.shape[-1])), np.zeros((len(q), heads, features.shape[-1]))
    for i in range(len(q)):
        e = np.flatnonzero(edges[:, 1] == i)
        for h in range(heads if len(e) else 0):
            key = k[edges[e, 0], h // share] + keys[e].reshape(len(e), k.shape[1], -1)[:, h // share]
            s = np.exp(key.astype("f8") @ q[i, h] / q.shape[-1] ** 0.5)
            out[i, h], sums[i, h] = s @ v[edges[e, 0], h // share] / s.sum(), s @ features[e] / s.sum()
    return out, sums


class Attention(unittest.TestCase):
    def setUp(self):
        _, self.graph = drawn_graph()
        self.h, self.edges = self.graph.hierarchy(), self.graph.edges()
        self.q, self.k, self.v = floats(N, 4, 3), floats(N, 2, 3), floats(N, 2, 6)
        self.keys, self.features = floats(len(self.edges), 2 * 3), floats(len(self.edges), F)

    def test_it_is_the_formula(self):
        tables = dict(edge_key=self.keys, edge_value=self.features)
        out, sums = self.h.attention(self.q, self.k, self.v, layout="bnhd", **tables)
        want = by_hand(self.edges, self.q, self.k, self.v, self.keys, self.features)
        np.testing.assert_allclose(out, want[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(sums, want[1], rtol=1e-5, atol=1e-5)
        *parts, lse = self.h.attention(self.q, self.k, self.v, layout="bnhd", lse=True, **tables)
        self.assertEqual(lse.shape, (N, 4))
        for x, y in zip(parts, (out, sums)):
            np.testing.assert_array_equal(x, y)

    def test_layouts_batches_and_two_axes(self):
        tables = dict(edge_key=self.keys, edge_value=self.features)
        want = self.h.attention(self.q, self.k, self.v, layout="bnhd", **tables)
        turned = [np.ascontiguousarray(x.swapaxes(0, 1)) for x in (self.q, self.k, self.v)]
        for x, y in zip(self.h.attention(*turned, **tables), want):
            np.testing.assert_array_equal(x.swapaxes(0, 1), y)
        both = self.h.attention(*(np.stack([x, 2 * x]) for x in (self.q, self.k, self.v)), layout="bnhd", **tables)
        for x, y in zip(both, want):
            np.testing.assert_array_equal(x[0], y)
        one = self.h.attention(self.q[:, 0], self.k[:, 0], self.v[:, 0], edge_value=self.features)
        self.assertEqual([x.shape for x in one], [(N, 6), (N, F)])

    def test_an_order_moves_them_along(self):
        tables = dict(edge_key=self.keys, edge_value=self.features)
        want = self.h.attention(self.q, self.k, self.v, layout="bnhd", **tables)
        for x, y in zip(self.h.order("degree").attention(self.q, self.k, self.v, layout="bnhd", **tables), want):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)

    def test_gradients_are_differences(self):
        names, by = ("query", "key", "value", "edge_key", "edge_value"), 1e-3
        inputs = [self.q, self.k, self.v, self.keys, self.features]
        d, d_sums = floats(N, 4, 6), floats(N, 4, F)

        def loss(x):
            out, sums = by_hand(self.edges, *x)
            return (out * d).sum() + (sums * d_sums).sum()

        found = self.h.gradient(*inputs[:3], d, d_edge_out=d_sums, layout="bnhd", edge_key=inputs[3], edge_value=inputs[4])
        moved = [x.astype("f8") for x in inputs]
        for name, x in zip(names, moved):
            for at in RNG.integers(0, x.size, 6):
                index = np.unravel_index(at, x.shape)
                x[index] += by
                up = loss(moved)
                x[index] -= 2 * by
                down = loss(moved)
                x[index] += by
                self.assertAlmostEqual(float(found[name][index]), (up - down) / 2 / by, delta=2e-3, msg=f"{name}{index}")
        alone = self.h.gradient(*inputs[:3], None, d_edge_out=d_sums, layout="bnhd", edge_key=inputs[3], edge_value=inputs[4])
        self.assertEqual(float(np.abs(alone["value"]).max()), 0)

    @needs("torch")
    def test_torch_is_numpy_and_compiles(self):
        arrays = (self.q, self.k, self.v, self.keys, self.features)
        d, d_sums = floats(N, 4, 6), floats(N, 4, F)
        want = self.h.gradient(*arrays[:3], d, d_edge_out=d_sums, layout="bnhd", edge_key=self.keys, edge_value=self.features)

        def run(q, k, v, keys, features):
            return self.h.attention(q, k, v, layout="bnhd", edge_key=keys, edge_value=features)

        for how in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
            inputs = [torch.from_numpy(x.copy()).requires_grad_() for x in arrays]
            out = how(*inputs)
            torch.autograd.backward(out, [torch.from_numpy(d), torch.from_numpy(d_sums)])
            for name, x in zip(("query", "key", "value", "edge_key", "edge_value"), inputs):
                np.testing.assert_allclose(x.grad.numpy(), want[name], rtol=1e-5, atol=1e-5, err_msg=name)
            self.assertEqual([tuple(x.shape) for x in out], [(N, 4, 6), (N, 4, F)])

    def test_sources_and_destinations_of_two_kinds(self):
        pairs, graph = drawn_graph(9, 6, 30)
        h, edges = graph.hierarchy(), graph.edges()
        self.assertEqual(len(edges), pairs.shape[1])
        q, k, v, x = floats(6, 2, 3), floats(9, 2, 3), floats(9, 2, 4), floats(len(edges), F)
        edges = edges - [6, 0, 0]  # sources come behind the destinations
        want = by_hand(edges, q, k, v, np.zeros((len(edges), 6)), x)
        for a, b in zip(h.attention(q, k, v, layout="bnhd", edge_value=x), want):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)

    def test_what_is_refused(self):
        q, k, v, x = self.q, self.k, self.v, self.features
        dense = hga.htransformer(N, block=4)
        refused_each(self, (
            ("edge_value has", lambda: self.h.attention(q, k, v, layout="bnhd", edge_value=x[1:])),
            ("edge_key has 5 columns, not 6 (key heads * dim)", lambda: self.h.attention(q, k, v, layout="bnhd", edge_key=x)),
            ("edge_value: sinks", lambda: self.h.attention(q, k, v, layout="bnhd", edge_value=x, sink=np.zeros(4, "f4"))),
            ("edge_value: weights are not those of softmax", lambda: self.h.attention(q, k, v, layout="bnhd", edge_value=x, normaliser="entmax:1.5")),
            ("edge_value: the output is not the last stage's alone", lambda: dense.attention(q, k, v, layout="bnhd", edge_value=floats(dense.graph.n_edges(dense.graph.relations[0]), 2))),
            ("features of edges go with a query of float32", lambda: self.h.attention(q.astype("f2"), k, v, layout="bnhd", edge_value=x)),
            ("d_edge_out is given, but no edge_value", lambda: self.h.gradient(q, k, v, floats(N, 4, 6), d_edge_out=floats(N, 4, F), layout="bnhd")),
            ("d_edge_out has shape", lambda: self.h.gradient(q, k, v, None, d_edge_out=floats(N, 4, 2), layout="bnhd", edge_value=x)),
            ("there are 9 sources, 6 destinations", lambda: hga.Graph.from_edges([1, 9], [0, 0], (9, 6))),
            ("a number, or sources and destinations", lambda: hga.Graph.from_edges([1], [0], (9, 6, 3))),
        ), re.escape)  # fmt: skip


class Matrix:
    """What torch_sparse's SparseTensor is asked for."""

    def __init__(self, index, value=None, sizes=None):
        self.index, self.value, self.sizes_ = index, value, sizes

    def coo(self):
        return self.index[1], self.index[0], self.value

    def sparse_sizes(self):
        return self.sizes_

    @classmethod
    def from_edge_index(cls, index, value, sizes):
        assert value is None or len(value) == index.shape[1]
        return cls(index.flip(0), value, sizes)


IN, TO = 7, 4
GATS = [dict(), dict(add_self_loops=False), *(dict(fill_value=x) for x in ("add", "max", "min", "mul", 2.5)), dict(residual=True, concat=False)]
LAYERS = {
    "GATConv": GATS,
    "GATv2Conv": [*GATS, dict(share_weights=True)],
    "TransformerConv": [dict(), dict(beta=True), dict(concat=False, bias=False), dict(root_weight=False)],
}


@needs("torch_geometric")
class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        e = torch.from_numpy(RNG.integers(0, N - 1, (2, 90)))
        self.edges = torch.cat([e, e[:, :8], torch.tensor([[4, 5], [4, 5]])], 1)  # some twice, some loops, one node alone
        self.x, self.other = torch.randn(N, IN), torch.randn(N, 3)
        self.attr = torch.randn(self.edges.shape[1], F)

    def made(self, name, channels=IN, **more):
        """The layer of hga and that of PyG, with the same parameters."""
        found = []
        for package in (hga.torch, pyg):
            torch.manual_seed(3)
            found.append(getattr(package, name)(channels, TO, **more))
        ours, theirs = found
        self.assertEqual(list(ours.state_dict()), list(theirs.state_dict()))
        for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
            torch.testing.assert_close(a, b, msg=lambda m, key=key: f"{name} {key}: {m}")
        theirs.load_state_dict(ours.state_dict()), ours.load_state_dict(theirs.state_dict())
        return ours, theirs.double()

    def alike(self, ours, theirs, rows, edges, attr=None, weights=None, **more):
        """Outputs, weights, and the gradients of rows, features and parameters."""
        inputs = [None if x is None else x.clone().requires_grad_() for x in (*rows, attr)]
        double = [None if x is None else x.detach().double().requires_grad_() for x in inputs]
        for p in (*ours.parameters(), *theirs.parameters()):
            p.grad = None
        found = []
        for layer, (*x, features) in ((ours, inputs), (theirs, double)):
            out = layer(tuple(x) if len(x) > 1 else x[0], edges, features, **({} if weights is None else dict(return_attention_weights=weights)), **more)
            found.append(out if weights is not None else (out, None))
        (got, index), (want, their_index) = found
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=3e-5)
        if weights is not None:
            self.assertTrue(torch.equal(index[0], their_index[0]))
            torch.testing.assert_close(index[1].double(), their_index[1], rtol=1e-4, atol=1e-5)
            d = torch.randn_like(index[1])
            got, want = got.sum() + (index[1] * d).sum(), want.sum() + (their_index[1] * d).sum()
        d = torch.randn_like(got)
        got.backward(d), want.backward(d.double())
        for a, b in zip([*inputs, *ours.parameters()], [*double, *theirs.parameters()]):
            if b is not None and b.grad is not None:
                torch.testing.assert_close((a.new_zeros(a.shape) if a.grad is None else a.grad).double(), b.grad, rtol=1e-3, atol=2e-4)

    def each(self, test):
        for name, options in LAYERS.items():
            for more in known_to_pyg(name, options):
                for heads in (1, 4):
                    with self.subTest(name, heads=heads, **more):
                        test(name, heads=heads, **more)

    def test_features_of_edges(self):
        def test(name, **more):
            layers = self.made(name, edge_dim=F, **more)
            self.alike(*layers, (self.x,), self.edges, self.attr)
            self.alike(*layers, (self.x,), self.edges, self.attr, weights=True)

        self.each(test)

    def test_two_kinds_of_nodes(self):
        def test(name, **more):
            if "share_weights" in more:
                return
            self.alike(*self.made(name, (IN, 3), edge_dim=F, **more), (self.x, self.other), self.edges, self.attr)
            few = self.edges % torch.tensor([[N], [9]])
            self.alike(*self.made(name, (IN, 3), **{**more, "add_self_loops": False} if name != "TransformerConv" else more),
                       (self.x, self.other[:9]), few)  # fmt: skip

        self.each(test)

    def test_a_row_of_features_for_loops_and_one_number_an_edge(self):
        for name in ("GATConv", "GATv2Conv"):
            ours, theirs = self.made(name, edge_dim=F, fill_value=torch.randn(F))
            theirs.fill_value = theirs.fill_value.double()
            self.alike(ours, theirs, (self.x,), self.edges, self.attr)
            self.alike(*self.made(name, edge_dim=1), (self.x,), self.edges, self.attr[:, 0])
            self.alike(*self.made(name, edge_dim=F), (self.x,), self.edges)  # a layer with features, a call without

    def test_loops_of_nodes_that_nothing_reaches(self):
        """The product of no features is 1, everything else of none 0, as PyTorch Geometric has it."""
        from hga.torch._edge_index import loop_features

        features, destination = torch.tensor([[2.0], [3.0]]), torch.tensor([1, 1])
        for fill, want in (("mul", [1, 6]), ("add", [0, 5]), ("mean", [0, 2.5]), ("max", [0, 3]), ("min", [0, 2])):
            self.assertEqual(loop_features(features, destination, 2, fill).flatten().tolist(), want, fill)

    def test_weights_are_asked_for(self):
        for name in LAYERS:
            self.alike(*self.made(name, heads=3), (self.x,), self.edges, weights=True)
            layer = getattr(hga.torch, name)(IN, TO, heads=2, dropout=0.5)
            torch.manual_seed(5)
            out, (index, weights) = layer(self.x, self.edges, return_attention_weights=True)
            self.assertEqual(weights.shape, (index.shape[1], 2))
            self.assertGreater(float((weights == 0).float().mean()) if name != "TransformerConv" else 1, 0.2)

    def test_destinations_without_rows(self):
        few = self.edges % torch.tensor([[N], [9]])
        for more in known_to_pyg("GATConv", [dict(), dict(residual=True)]):
            ours, theirs = self.made("GATConv", (IN, 3), heads=2, **more)
            self.alike(ours, theirs, (self.x, None), few, size=(N, 9))
        for name in ("GATv2Conv", "TransformerConv"):
            refused(self, "no destinations", lambda: getattr(hga.torch, name)((IN, 3), TO)((self.x, None), few))

    def test_edges_of_every_kind(self):
        """Matrices have a row for each destination. Features may be their values."""
        index = torch.unique(self.edges, dim=1)
        attr = torch.randn(index.shape[1], F)
        for name in LAYERS:
            more = {} if name == "TransformerConv" else dict(add_self_loops=False)
            for features in (None, attr):
                layer = getattr(hga.torch, name)(IN, TO, heads=2, edge_dim=None if features is None else F, **more)
                want = layer(self.x, index, features)
                kinds = [index.int(), Matrix(index, features, (N, N))]
                kinds += [make(index.flip(0), features, size=(N, N)) for make in (to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor)]
                for edges in kinds:
                    torch.testing.assert_close(layer(self.x, edges, None if edges is not kinds[0] else features), want, rtol=1e-5, atol=1e-6)
                out, found = layer(self.x, kinds[1], return_attention_weights=True)
                torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-5)
                self.assertEqual(found.value.shape, (index.shape[1], 2))
                for edges in kinds[2:]:
                    out, (matrix, weights) = layer(self.x, edges, return_attention_weights=True)
                    torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-5)
                    self.assertEqual((tuple(matrix.shape), matrix.layout), ((N, N, 2), edges.layout))
                    torch.testing.assert_close(matrix.to_dense().sum((0, 1)), weights.sum(0), rtol=1e-4, atol=1e-4)

    def test_a_matrix_whose_values_are_the_features(self):
        """SparseTensor's of one number an edge, too; with self-loops they are refused, as in PyG."""
        index = torch.unique(self.edges, dim=1)
        weight = torch.randn(index.shape[1])
        for name in ("GATConv", "GATv2Conv"):
            layer = getattr(hga.torch, name)(IN, TO, heads=2, edge_dim=1, add_self_loops=False)
            want = layer(self.x, index, weight)
            torch.testing.assert_close(layer(self.x, Matrix(index, weight, (N, N))), want)
            self.assertGreater(float((layer(self.x, index) - want).detach().abs().max()), 1e-3)
            for fill in (0.5, "mean"):
                loops = getattr(hga.torch, name)(IN, TO, edge_dim=1, fill_value=fill)
                with self.assertRaisesRegex(NotImplementedError, "add_self_loops and edge_dim do not go with a SparseTensor"):
                    loops(self.x, Matrix(index, weight, (N, N)))

    def test_weights_of_a_matrix_have_its_loops(self):
        """A SparseTensor comes back with the loops that the layer added."""
        index = torch.unique(self.edges[:, self.edges[0] != self.edges[1]], dim=1)
        for name in ("GATConv", "GATv2Conv"):
            layer = getattr(hga.torch, name)(IN, TO, heads=2)
            out, found = layer(self.x, Matrix(index, None, (N, N)), return_attention_weights=True)
            want, (ends, weights) = layer(self.x, index, return_attention_weights=True)
            self.assertTrue(torch.equal(out, want))
            self.assertTrue(torch.equal(found.index, ends))
            self.assertTrue(torch.equal(found.value, weights))

    def test_the_output_is_the_same_with_weights_and_without(self):
        for name in LAYERS:
            for more in (dict(), dict(edge_dim=F)):
                layer = getattr(hga.torch, name)(IN, TO, heads=2, dropout=0.5, **more).eval()
                attr = self.attr if more else None
                out, _ = layer(self.x, self.edges, attr, return_attention_weights=True)
                self.assertTrue(torch.equal(out, layer(self.x, self.edges, attr)), name)

    def test_layers_that_trim(self):
        """A sampled graph, of which each layer needs less."""
        edges = torch.tensor([[1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2]])
        x, attr = torch.randn(7, IN), torch.randn(6, F)
        for layer, (nodes, many) in enumerate((([1, 2, 4], [2, 4]), ([1, 2, 4], [2, 4]))):
            ours, theirs = self.made("TransformerConv", edge_dim=F)
            rows, index, features = trim_to_layer(layer, nodes, many, x, edges, attr)
            self.alike(ours, theirs, (rows,), index, features)

    def test_no_edges_and_no_nodes(self):
        none = torch.empty(2, 0, dtype=torch.int64)
        for name in LAYERS:
            for more, attr in ((dict(), None), (dict(edge_dim=F), torch.empty(0, F))):
                for loops in ((dict(),) if name == "TransformerConv" else (dict(), dict(add_self_loops=False))):
                    layer = getattr(hga.torch, name)(IN, TO, heads=2, **more, **loops)
                    self.assertEqual(layer(torch.empty(0, IN), none, attr).shape, (0, 2 * TO))
                    ours, theirs = self.made(name, heads=2, **more, **loops)
                    if not (loops == {} and attr is not None and name != "TransformerConv"):  # PyG has no mean of no edges
                        self.alike(ours, theirs, (self.x,), none, attr)

    def test_training_drops_alike_in_out_and_features(self):
        """What values by edge lose is what values lose: with equal rows everywhere they are each other's shares."""
        layer = hga.torch.TransformerConv(IN, TO, heads=2, dropout=0.5, edge_dim=F, root_weight=False)
        torch.nn.init.zeros_(layer.lin_value.weight), torch.nn.init.ones_(layer.lin_value.bias), torch.nn.init.zeros_(layer.lin_key.weight)
        torch.nn.init.ones_(layer.lin_edge.weight)
        out = layer(self.x, self.edges, torch.full((self.edges.shape[1], F), 1 / F))
        share = layer.eval()(self.x, self.edges, torch.full((self.edges.shape[1], F), 1 / F))
        rows = torch.bincount(self.edges[1], minlength=N) > 0
        self.assertTrue(torch.allclose(share[rows], torch.full_like(share[rows], 2.0)))
        self.assertGreater(float(out.detach().std()), 0.1)

    def test_what_is_refused(self):
        x, e, f = self.x, self.edges, self.attr
        with_features = hga.torch.GATConv(IN, TO, edge_dim=F)
        graph = hga.Graph.from_edges(*np.unique(e.numpy(), axis=1), N)
        refused_each(self, (
            ("edge_attr: the layer was made without edge_dim", lambda: hga.torch.GATv2Conv(IN, TO)(x, e, f)),
            (f"edge_attr has shape (3, {F}), not [{e.shape[1]}, {F}]", lambda: with_features(x, e, f[:3])),
            ("edge_attr has type list", lambda: with_features(x, e, [1])),
            ("edge_attr goes with an edge_index, not with a Graph", lambda: with_features(x, graph, f)),
            ("fill_value 'median' is not one of", lambda: hga.torch.GATConv(IN, TO, edge_dim=F, fill_value="median")(x, e, f)),
            ("edge_attr is missing", lambda: hga.torch.TransformerConv(IN, TO, edge_dim=F)(x, e)),
            ("edge_dim is 0", lambda: hga.torch.GATConv(IN, TO, edge_dim=0)),
            ("return_attention_weights goes with an edge_index", lambda: with_features(x, graph, return_attention_weights=True)),
            ("size (23, 24), but x has 23 destinations", lambda: with_features(x, e, f, size=(N, N + 1))),
            ("edge_index has node 22 of 9 destinations", lambda: with_features((x, x[:9]), torch.tensor([[0], [22]]), f[:1])),
            ("x has 3 parts", lambda: with_features((x, x, x), e)),
            ("in_channels (7, 7, 7)", lambda: hga.torch.GATConv((7, 7, 7), TO)),
        ), re.escape)  # fmt: skip
