"""Every variant attends as it is defined, with numpy alone, and graphs come from edges, arrays, files and other
packages as they are."""

import functools
import json
import os
import pathlib
import pickle
import subprocess
import tempfile
import tracemalloc
import unittest
import warnings

import hga
import numpy as np
from hga._core.library import ffi
from shared import TOOL, attention, needed, needs, needs_tool, package, refused, scores_of, weights_of

networkx, scipy = package("networkx"), package("scipy")
if scipy:
    import scipy.io
    import scipy.sparse
RNG = np.random.default_rng(7)


def tensors(n, heads=4, dim=16, batch=(2,), keys=None, kv_heads=None):
    """q, k, v of [batch.., heads, n, dim]"""
    shape = lambda h, m: batch + (h, m, dim)  # noqa: E731
    kv = kv_heads or heads
    return [RNG.standard_normal(s).astype(np.float32) for s in (shape(heads, n), shape(kv, keys or n), shape(kv, keys or n))]


class Attention(unittest.TestCase):
    def test_dense_is_softmax(self):
        q, k, v = tensors(70)
        self.assertLess(abs(hga.dense(70).attention(q, k, v) - attention(q, k, v)).max(), 2e-6)
        self.assertLess(abs(hga.dense(70, causal=True).attention(q, k, v) - attention(q, k, v, np.tri(70, dtype=bool))).max(), 2e-6)

    def test_grouped_heads_and_cross_attention(self):
        q, k, v = tensors(50, heads=4, keys=80, kv_heads=2)
        self.assertLess(abs(hga.dense(50, n_keys=80).attention(q, k, v) - attention(q, k, v)).max(), 2e-6)

    def test_one_head_without_an_axis(self):
        h, (q, k, v) = hga.window(40, left=3, right=0), tensors(40, heads=1, batch=())
        self.assertTrue(np.array_equal(h.attention(q[0], k[0], v[0]), h.attention(q, k, v)[0]))

    def test_ragged_batches_are_their_samples(self):
        q, k, v = tensors(90, batch=())
        both = hga.dense([30, 60]).attention(q, k, v)
        for first, n in ((0, 30), (30, 60)):
            alone = hga.dense(n).attention(*(np.ascontiguousarray(x[:, first : first + n]) for x in (q, k, v)))
            self.assertLess(abs(both[:, first : first + n] - alone).max(), 5e-6)

    def test_samples_of_no_tokens_have_no_rows(self):
        q, k, v = tensors(90, batch=())
        for make in (hga.dense, hga.fenwick, functools.partial(hga.window, left=3), functools.partial(hga.htransformer, block=8)):
            want = make([30, 60])
            for lengths in ([30, 0, 60], [0, 30, 60, 0, 0], np.array([0, 30, 60])):
                h = make(lengths)
                self.assertEqual(h, want)
                self.assertEqual(pickle.loads(pickle.dumps(h)), want)
                self.assertTrue(np.array_equal(h.attention(q, k, v), want.attention(q, k, v)))
            self.assertEqual(make([0, 30]).attention(*(x[:, :30] for x in (q, k, v))).shape, q[:, :30].shape)

    def test_every_variant_runs(self):
        for name in hga.variants():
            h = getattr(hga, name.replace("-", "_"))(100, **needed(100).get(name, {}))
            q, k, v = tensors(h.rows, keys=105 if name == "draft" else None)  # behind the prefix
            out = h.attention(q, k, np.ones_like(v))
            self.assertEqual(out.shape, q.shape, name)
            if name != "treeformer-coarse":
                self.assertLess(abs(out - 1).max(), 1e-5, name)

    def test_words_build_the_same(self):
        q, k, v = tensors(60)
        a = hga.build("htransformer block=4 causal=1", 60).attention(q, k, v)
        for words in ("htransformer:block=4:causal=1", " htransformer: block=4 causal=1 "):
            self.assertEqual(hga.build(words, 60), hga.build("htransformer block=4 causal=1", 60))
            np.testing.assert_array_equal(hga.build(words, 60).attention(q, k, v), a)
        self.assertEqual(hga.build("segments:query_segment=0,0,1", 3), hga.build("segments query-segment=0,0,1", 3))
        self.assertTrue(np.array_equal(a, hga.htransformer(60, block=4, causal=True).attention(q, k, v)))

    def test_routed_trees_see_their_leaf(self):
        """By hyperplanes of two levels, a tree for each head; rows whose leaf is empty are 0."""
        q, k, v = tensors(40, heads=2, dim=8)
        weights, bias = RNG.standard_normal((2, 3, 8)).astype(np.float32), np.zeros((2, 3), np.float32)
        f, g = (np.einsum("bhnd,hpd->bhnp", x, weights) > 0 for x in (q, k))
        leaf_q, leaf_k = (2 * x[..., 0] + np.where(x[..., 0], x[..., 2], x[..., 1]) for x in (f, g))
        sees = leaf_q[..., :, None] == leaf_k[..., None, :]
        for causal in (False, True):
            h = hga.treeformer_fine(40, height=2, weights=weights, bias=bias, causal=causal)
            self.assertLess(abs(h.attention(q, k, v) - attention(q, k, v, np.tril(sees) if causal else sees)).max(), 1e-5)
            self.assertEqual(h.hierarchy(q[0], k[0]).is_causal(), causal)

    def test_keys_are_the_queries_tokens_by_leaves_of_their_own(self):
        q, k, v = (x[0] for x in tensors(40, heads=2, dim=8))
        h = hga.treeformer_fine(height=2, weights=RNG.standard_normal((2, 3, 8)).astype(np.float32), bias=np.zeros((2, 3), np.float32))
        found = h.hierarchy(q, k)
        self.assertEqual(found.graph.n_nodes, 80)  # a row for each head, and none for keys
        for of in (found, pickle.loads(pickle.dumps(found))):
            np.testing.assert_array_equal(of.attention(q, k, v), h.attention(q, k, v))
            self.assertEqual(of, found)
        across = hga.treeformer_fine(n_keys=40, height=2, **{n: h.arguments[n] for n in ("weights", "bias")})
        self.assertEqual(across.hierarchy(q, k).graph.n_nodes, 160)
        np.testing.assert_array_equal(across.attention(q, k, v), h.attention(q, k, v))
        with self.assertRaisesRegex(ValueError, "n_keys is 0"):
            hga.dense(40, n_keys=0)

    def test_inputs_are_read_where_they_lie(self):
        from hga._core.call import Problem, Tables

        h, (q, k, v) = hga.dense(30), tensors(30)
        p = Problem(h, q, k, v, "bhnd", Tables(h, {}))
        io = ffi.new("hga_io *")
        p.describe(io, (1,))
        for x, t in ((q, io.query), (k, io.key), (v, io.value)):
            self.assertEqual(int(ffi.cast("uintptr_t", t.data)), x[1].ctypes.data)

    def test_a_thousand_calls_keep_no_memory(self):
        h, (q, k, v) = hga.window(20, left=2), tensors(20, heads=1, dim=4, batch=())
        for _ in range(20):
            h.attention(q, k, v)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            h.attention(q, k, v)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        self.assertLess(grown, 20000)


class More(unittest.TestCase):
    def test_bfloat16_is_near_and_is_not_the_same(self):
        h, (q, k, v) = hga.window(100, left=20, right=20), tensors(100)
        apart = abs(h.attention(q, k, v, precision="bf16") - h.attention(q, k, v)).max()
        self.assertTrue(0 < apart < 3e-2, apart)

    @needs_tool
    def test_the_viewer_is_the_tools(self):
        graph = lambda page: json.loads(page.split('id="graph">')[1].split("</script>")[0])  # noqa: E731
        for words, n in (("htransformer block=4 causal=1", 50), ("bpt k=2", 40), ("hsa branching=2,4", 33), ("window global=2", 30)):
            variant, *settings = words.split()
            command = [TOOL, "view", variant, "-n", str(n), "-o", "-"] + [x for s in settings for x in ("-p", s)]
            want = graph(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            got = graph(hga.build(words, n).view())
            for name in want:
                if name not in ("tool", "file"):
                    self.assertEqual(got[name], want[name], f"{words}: {name}")


class Graphs(unittest.TestCase):
    def test_other_programs_files(self):
        src, dst = RNG.integers(0, 30, 100), RNG.integers(0, 30, 100)
        pairs = sorted(set(zip(dst.tolist(), src.tolist())))
        g = hga.Graph.from_edges([s for _, s in pairs], [d for d, _ in pairs], 30)
        with tempfile.TemporaryDirectory() as folder:
            for end in ("json", "npy", "mtx", "csv", "graphml", "gexf", "dot", "graph"):
                path = os.path.join(folder, f"g.{end}")
                try:
                    g.write(path)
                except hga.Error as e:
                    self.assertIn("HGA_WITH_", e.detail)
                    continue
                if end not in ("gexf", "dot", "graph"):  # these are not read, or are undirected
                    self.assertTrue(np.array_equal(hga.Graph.read(path).edges()[:, :2], g.edges()[:, :2]), end)
            refused(self, "must end in one of", lambda: g.write(os.path.join(folder, "g.xyz")))
            with self.assertRaises(hga.Error):
                hga.Graph.read(os.path.join(folder, "nothing.mtx"))

    def test_a_graph_attends_as_it_stands(self):
        q, k, v = tensors(25)
        every = np.arange(25)
        g = hga.Graph.from_edges(np.tile(every, 25), np.repeat(every, 25), 25)
        self.assertLess(abs(g.hierarchy().attention(q, k, v) - attention(q, k, v)).max(), 2e-6)

    def test_a_tree_over_a_file_of_edges(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "edges.npy")
            np.save(path, np.array([[4, 0], [4, 1], [5, 2], [5, 3]], np.int32))
            g = hga.Graph.read(path, parents=[4, 4, 5, 5, -1, -1])
        q, k, v = tensors(4, heads=1, batch=())
        out = g.hierarchy().attention(q, k, v)
        self.assertLess(abs(out[0, 0] - v[0, :2].mean(0)).max(), 1e-6)

    def test_edges_come_back(self):
        src, dst = RNG.integers(0, 50, 300), RNG.integers(0, 50, 300)
        pairs = sorted(set(zip(dst.tolist(), src.tolist())))
        g = hga.Graph.from_edges([s for _, s in pairs], [d for d, _ in pairs], 50)
        self.assertEqual([(d, s) for s, d, _ in g.edges().tolist()], pairs)

    def test_a_tree_of_parents(self):
        g = hga.Graph.from_parents([4, 4, 5, 5, 6, 6, -1])
        self.assertEqual(g.level_sizes, [4, 2, 1])
        with self.assertRaises(hga.Error):
            hga.Graph.from_parents([1, 0])

    def test_weights_go_there_and_back(self):
        g = hga.Graph.from_edges([0, 2, 1, 2], [1, 1, 0, 2], 3, weight=[0.5, 2, 3, 1])
        plain = hga.Graph.from_edges([0, 2, 1, 2], [1, 1, 0, 2], 3)
        for name in ("scipy", "networkx", "igraph"):
            with self.subTest(name):
                if package(name) is None:
                    self.skipTest(f"{name} is not installed")
                for graph in (g, plain):
                    self.assertEqual(getattr(hga.Graph, f"from_{name}")(getattr(graph, f"to_{name}")()), graph)
        self.assertNotEqual(g, plain)

    @needs("scipy")
    def test_a_sparse_matrix_is_the_graph_of_its_file(self):
        """Rows that are not as many as columns were refused, and read by the tool; one axis failed in scipy's words or as a row."""
        for shape in ((2, 3), (3, 2), (3, 3), (1, 3)):
            m = scipy.sparse.random(*shape, 0.6, "csr", random_state=1)
            with tempfile.TemporaryDirectory() as folder:
                for end in ("npz", "mtx"):
                    path = f"{folder}/m.{end}"
                    (scipy.sparse.save_npz if end == "npz" else scipy.io.mmwrite)(path, m)
                    self.assertEqual(hga.Graph.from_scipy(m).hierarchy().edges().tolist(), hga.Graph.read(path, relation="near").hierarchy().edges().tolist())
        line = scipy.sparse.coo_array(np.ones(3))
        if len(line.shape) == 1:  # scipy 1.13 and later
            refused(self, "shape .3,. is not a matrix", lambda: hga.Graph.from_scipy(line))

    @needs("networkx", "scipy")
    def test_weights_of_others_graphs_are_weights(self):
        """networkx's and igraph's ``weight`` of edges, and scipy's values: both ways, refused, or ignored."""
        g = networkx.Graph([(0, 1, {"weight": 2.5}), (1, 2), (2, 2, {"weight": 3})])
        ends = [0, 1, 1, 2, 2], [1, 0, 2, 1, 2]
        want, plain = hga.Graph.from_edges(*ends, 3, weight=[2.5, 2.5, 1, 1, 3]), hga.Graph.from_edges(*ends, 3)
        self.assertNotEqual(want, plain)

        class Igraph:
            get_edgelist = staticmethod(lambda: [(0, 1), (1, 2), (2, 2)])
            vcount, is_directed = staticmethod(lambda: 3), staticmethod(lambda: False)

            class es(dict):
                attributes = dict.keys

        Igraph.es = Igraph.es(weight=[2.5, None, 3])
        self.assertEqual(hga.Graph.from_networkx(g), want)
        self.assertEqual(hga.Graph.from_igraph(Igraph), want)
        self.assertEqual(hga.Graph.from_networkx(g, weights="ignore"), plain)
        for value in -1, 0, float("nan"), "heavy", 2j:
            g[0][1]["weight"] = Igraph.es["weight"][0] = value
            for make in (lambda: hga.Graph.from_networkx(g)), (lambda: hga.Graph.from_igraph(Igraph)):
                with self.assertRaisesRegex(hga.Error, "edge 0( - 1)?: weight .* (is not positive and finite|is a text, not a number|is not a number); weights='ignore'"):
                    make()
            self.assertEqual(hga.Graph.from_igraph(Igraph, weights="ignore"), plain)
        m = scipy.sparse.csr_matrix(np.array([[0, 2 + 1j], [-1, 0]]))
        refused(self, "weight .*2.*1j.* is not a number", lambda: hga.Graph.from_scipy(m))
        np.testing.assert_array_equal(hga.Graph.from_scipy(m, weights="ignore").to_scipy().toarray(), [[0, 1], [1, 0]])
        refused(self, "weights='all' is neither", lambda: hga.Graph.from_scipy(m, weights="all"))

    def test_edges_that_are_given_again_are_said_or_summed(self):
        """Three times one edge: by default it counts once and is said in the caller's line, summed it is its weight."""
        source, destination = [0, 2, 0, 1, 0], [1, 1, 1, 0, 1]
        with self.assertWarnsRegex(UserWarning, "2 of 5 edges repeat another and count once") as said:
            once = hga.Graph.from_edges(source, destination, 3)
        self.assertEqual(said.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(hga.Graph.from_edges(source, destination, 3, repeated="once"), once)
            hga.Graph.from_edges(source, destination, 3, type=[0, 0, 1, 0, 2])  # of three types: three edges
            summed = hga.Graph.from_edges(source, destination, 3, repeated="sum")
            self.assertEqual(hga.Graph.from_edges([0, 2, 1], [1, 1, 0], 3, weight=[3, 1, 1]), summed)
            self.assertEqual(hga.Graph.from_edges([0, 0], [1, 1], 2, weight=[0.5, 2], repeated="sum"),
                             hga.Graph.from_edges([0], [1], 2, weight=[2.5]))  # fmt: skip
            self.assertEqual(hga.Graph.from_edges(np.empty(0, int), np.empty(0, int), 2, repeated="sum").n_edges(), 0)
            self.assertEqual(hga.Graph.from_edges([], [], 2).n_edges(), 0)
            typed = hga.Graph.from_edges([0, 0, 0], [1, 1, 1], 2, type=[0, 1, 1], weight=[1, 2, 3], repeated="sum")
            self.assertEqual(typed, hga.Graph.from_edges([0, 0], [1, 1], 2, type=[0, 1], weight=[1, 5]))
            with self.assertRaisesRegex(hga.Error, "edge 1: weight -1 is not positive"):  # which the sum, 2, would hide
                hga.Graph.from_edges([0, 0], [1, 1], 2, weight=[3, -1], repeated="sum")
            with self.assertRaisesRegex(hga.Error, r"edge 0 -> 1 of type 0: its weights sum up to 4e\+38"):
                hga.Graph.from_edges([0, 0], [1, 1], 2, weight=[2e38, 2e38], repeated="sum")
        q, k, v = tensors(3, heads=2, batch=())
        w = weights_of(scores_of(q, k) + np.log([3, 1e-30, 1]))
        want = (w @ v)[:, 1]
        self.assertLess(abs(summed.hierarchy().attention(q, k, v)[:, 1] - want).max(), 1e-6)
        with self.assertRaisesRegex(hga.Error, "repeated is 'twice', not one of once, sum"):
            hga.Graph.from_edges(source, destination, 3, repeated="twice")

    def test_files_say_what_is_passed_over_and_weights_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            path = os.path.join(folder, "g.gml")
            with open(path, "w") as file:
                file.write("graph [ directed 1 node [ id 0 mass 12.5 ] node [ id 1 ] edge [ source 0 target 1 weight -2 ] ]")
            with self.assertRaisesRegex(hga.Error, 'weight -2 of an edge is not positive and finite; --pattern, in Python weights="ignore"'):
                hga.Graph.read(path)
            with self.assertWarnsRegex(UserWarning, r"g.gml: passed over: mass \(nodes\), weight \(edges\)$") as said:
                g = hga.Graph.read(path, weights="ignore")
            self.assertEqual(said.filename, __file__)
            self.assertEqual((g.edges().tolist(), g.masses().tolist()), ([[0, 1, 0]], [1, 1]))
            self.assertFalse(g._is_weighted())
            refused(self, "weights='none' is neither None nor 'ignore'", lambda: hga.Graph.read(path, weights="none"))
            with open(path, "w") as file:
                file.write("graph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight 2 ] ]")
            self.assertTrue(hga.Graph.read(path)._is_weighted())  # all is understood: nothing is said

    @needs("scipy")
    def test_a_sparse_matrix_of_any_form_is_its_pattern(self):
        m = scipy.sparse.random(12, 12, 0.3, random_state=3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.npz")
            for form in "csr", "csc", "coo", "bsr", "dia":
                scipy.sparse.save_npz(path, -m.asformat(form))
                refused(self, "not positive", lambda: hga.Graph.read(path))
                pattern = hga.Graph.read(path, weights="ignore").to_scipy().toarray()
                self.assertTrue(np.array_equal(pattern, (m.toarray() != 0).astype("f4")), form)

    @needs("networkx", "scipy")
    def test_each_door_counts_an_edge_that_is_given_twice_as_its_page_says(self):
        """Node 2 attends to 0 once, and to 1 by an edge that is given twice: how much more than one that is given once."""
        def counted(graph):
            x, v = np.zeros((1, 3, 1), np.float32), np.array([[[0], [1], [0]]], np.float32)
            share = graph.hierarchy().attention(x, x, v)[0, 2, 0]
            return round(float(share / (1 - share)), 4)

        source, destination = [0, 1, 1], [2, 2, 2]
        for weight, once, each in ((None, 1, 2), ([1, 2, 2], 2, 4), ([1, 2, 3], None, 5)):
            made = lambda: scipy.sparse.coo_matrix((np.ones(3) if weight is None else weight, (destination, source)), (3, 3))  # noqa: B023, E731
            net = networkx.MultiDiGraph()
            net.add_nodes_from(range(3))
            for i, (u, v) in enumerate(zip(source, destination)):
                net.add_edge(u, v, **({} if weight is None else {"weight": weight[i]}))
            from_ = {"edges": lambda **more: hga.Graph.from_edges(source, destination, 3, weight=weight, **more),  # noqa: B023
                     "edge_index": lambda **more: hga.Graph.from_edge_index([source, destination], 3, weight=weight, **more),  # noqa: B023
                     "networkx": lambda **more: hga.Graph.from_networkx(net, **more)}  # fmt: skip # noqa: B023
            for name, door in from_.items():
                with self.subTest(name, weight=weight):
                    self.assertEqual(counted(door(repeated="sum")), each)
                    if once is None:
                        refused(self, "weights 2 and 3", door)
                        continue
                    with self.assertWarnsRegex(UserWarning, "1 of 3 edges repeat another and count once"):
                        self.assertEqual(counted(door()), once)
            with self.subTest("scipy", weight=weight), warnings.catch_warnings():
                warnings.simplefilter("error")
                m = made()
                self.assertEqual(counted(hga.Graph.from_scipy(m)), each)
                self.assertEqual(counted(hga.Graph.from_scipy(m, repeated="sum")), each)
                self.assertEqual(m.nnz, 3)  # the caller's own stays
                self.assertEqual([counted(hga.Graph.from_scipy(x)) for x in (made().tocsr(), made().tocsc())], [each] * 2)
                if weight is None:
                    self.assertEqual([counted(hga.Graph.from_scipy(x.astype(bool))) for x in (made(), made().tocsr())], [1, 1])
                    self.assertEqual(counted(hga.Graph.from_scipy(m, repeated="once")), once)
            with tempfile.TemporaryDirectory() as folder:
                scipy.sparse.save_npz(f"{folder}/m.npz", made())
                edges = "".join(f'<edge source="{s}" target="{d}"><data key="w">{w}</data></edge>' for s, d, w in zip(source, destination, weight or [1] * 3))
                nodes = "".join(f'<node id="{i}"/>' for i in range(3))  # networkx 2 does not write it beside numpy 2
                pathlib.Path(folder, "net.graphml").write_text(
                    f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="w" for="edge" attr.name="weight" attr.type="double"/>'
                    f'<graph edgedefault="directed">{nodes}{edges}</graph></graphml>')  # fmt: skip
                pathlib.Path(folder, "m.csv").write_text("source,destination,weight\n" + "".join(
                    f"{s},{d},{w}\n" for s, d, w in zip(source, destination, weight or [1] * 3)))  # fmt: skip
                pathlib.Path(folder, "m.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 3\n" + "".join(
                    f"{d + 1} {s + 1} {w}\n" for s, d, w in zip(source, destination, weight or [1] * 3)))  # fmt: skip
                for name in ("m.npz", "m.csv", "m.mtx", "net.graphml"):
                    with self.subTest(name, weight=weight), self.assertWarnsRegex(UserWarning, f"{name}: 1 edges repeat another and count once more"):
                        self.assertEqual(counted(hga.Graph.read(f"{folder}/{name}")), each)

    @needs("scipy")
    def test_entries_of_few_bits_add_up_without_wrapping(self):
        data, rows, columns = np.array([200, 100], np.uint8), [1, 1], [0, 0]
        for m in (scipy.sparse.coo_matrix((data, (rows, columns)), (2, 2)), scipy.sparse.csr_matrix((data, columns, [0, 0, 2]), (2, 2))):
            self.assertEqual(hga.Graph.from_scipy(m).to_scipy().toarray()[1, 0], 300, m.format)
            self.assertEqual((m.nnz, m.dtype), (2, np.uint8))  # the caller's own stays

    def test_files_say_what_they_repeat_and_what_they_leave_out(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            path = os.path.join(folder, "edges.npy")
            np.save(path, np.array([[0, 1], [2, 1], [0, 1], [1, 1], [1, 0]], np.int32))
            with self.assertWarnsRegex(UserWarning, "edges.npy: 1 edges repeat another and count once more"):
                g = hga.Graph.read(path)
            self.assertEqual(g.n_edges(), 5)
            g.write(os.path.join(folder, "g.json"))
            self.assertEqual(hga.Graph.read(os.path.join(folder, "g.json")), g)
            with self.assertWarnsRegex(UserWarning, "g.graph: 1 edges from a node to itself are left out") as said:
                g.write(os.path.join(folder, "g.graph"))
            self.assertEqual(said.filename, __file__)
            hga.Graph.from_edges([0, 1], [1, 0], 2).write(os.path.join(folder, "two.graph"))
            weighted = hga.Graph.from_edges([0, 1], [1, 0], 2, weight=[0.5, 1])
            for end, says in ((".npy", 1), (".dot", 1), (".graph", 1), (".json", 0), (".csv", 0), (".mtx", 0), (".graphml", 0), (".gexf", 0)):
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    weighted.write(os.path.join(folder, "w" + end))
                self.assertEqual([f"weights of edges are left out, which {end} files cannot hold" in str(w.message) for w in said], [True] * says, end)

    def test_edges_come_as_arrays_from_whoever_has_them(self):
        """edge_index, igraph and DGL give the graph of their edges; of undirected ones both, of self loops one."""
        source, destination = np.divmod(RNG.choice(900, 200, replace=False), 30)
        want = hga.Graph.from_edges(source, destination, 30)
        self.assertEqual(hga.Graph.from_edge_index(np.stack([source, destination]), 30), want)
        self.assertEqual(hga.Graph.from_edge_index([[0, 1], [1, 2]]).n_nodes, 3)
        self.assertEqual(hga.Graph.from_edge_index(np.empty((2, 0), np.int32), 4).n_edges(), 0)

        class Dgl:
            edges = staticmethod(lambda: (source, destination))
            num_nodes = staticmethod(lambda: 30)

        self.assertEqual(hga.Graph.from_dgl(Dgl), want)

        class Igraph:
            get_edgelist = staticmethod(lambda: list(zip(source.tolist(), destination.tolist())))
            vcount = staticmethod(lambda: 30)
            is_directed = staticmethod(lambda: Igraph.directed)

            class es(dict):
                attributes = dict.keys

        Igraph.es = Igraph.es()
        Igraph.directed = True
        self.assertEqual(hga.Graph.from_igraph(Igraph), want)
        Igraph.directed = False
        both = {(s, d) for s, d in zip(source, destination)} | {(d, s) for s, d in zip(source, destination)}
        self.assertEqual({(s, d) for s, d, _ in hga.Graph.from_igraph(Igraph).edges().tolist()}, both)
        for wrong, says in ((np.zeros((3, 2), int), "edge_index has shape"), ([[0], [-1]], "edge 0 -> -1"), ([[0], [0.5]], "not whole")):
            refused(self, says, lambda: hga.Graph.from_edge_index(wrong, 5))

    def test_truth_values_are_lists_of_0_and_1(self):
        a = hga.neighbourhood(shape=(6, 5), kernel=3, causal=(True, False))
        self.assertEqual(a.graph, hga.neighborhood(30, shape=(6, 5), kernel=3, causal=[1, 0]).graph)
        self.assertEqual(hga.neighbourhood(9, causal=True).graph, hga.neighbourhood(9, causal=1).graph)

    def test_a_builder_and_a_program_of_ones_own(self):
        b = hga.Builder()
        tokens, spans = b.level(32), b.level(8)
        b.families(spans, tokens, each=4)
        near = b.relation("near")
        b.block(near, (0, 32), (0, 32), shape=0)
        g = b.finish()
        p = hga.Program(g)
        p.attention(near)
        q, k, v = tensors(32)
        self.assertLess(abs(p.hierarchy().attention(q, k, v) - attention(q, k, v)).max(), 2e-6)

    def test_rows_that_choose_blocks(self):
        lists = [[0, 2], [1], [], [0, 1, 3]]
        b = hga.Builder()
        b.level(16)
        b.choice(b.relation("near"), (0, 16), (0, 16), lists, row_block=4, block=4)
        g = b.finish()
        sees = np.array([[u // 4 in lists[t // 4] for u in range(16)] for t in range(16)])
        dst, src = np.nonzero(sees)
        self.assertEqual({(s, d) for s, d, _ in g.edges().tolist()}, set(zip(src.tolist(), dst.tolist())))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.json")
            g.hierarchy().write(path)
            self.assertEqual(hga.read(path).graph, g)
        q, k, v = tensors(16)
        whole = g.hierarchy().attention(q, k, v)
        self.assertLess(abs(whole - hga.Graph.from_mask(sees).hierarchy().attention(q, k, v)).max(), 2e-6)
        b = hga.Builder()
        b.level(16)
        near = b.relation("near")
        for wrong, more, says in ((lists[:3], {}, "lists: 3 for 4 blocks of rows"), (lists, {"causal": True}, "row 0 has block 2, which comes later"),
                                  ([[0, 4], [], [], []], {}, "row 0 has block 4, and there are 4")):  # fmt: skip
            refused(self, says, lambda: b.choice(near, (0, 16), (0, 16), wrong, row_block=4, block=4, **more))

    def test_looking_at_a_hierarchy(self):
        h = hga.htransformer(64, block=8, causal=True)
        c = h.coverage()
        self.assertEqual((c.once, c.more, c.later), (64 * 65 // 2, 0, 0))
        self.assertTrue(h.is_causal() and all(h.check().values()))
        self.assertEqual({r.key_last for r in h.row(63)} & {63}, {63})
        self.assertIn("near", h.inspect()["edges"])
        self.assertIn("workspace", h.explain(4, 16))
        self.assertNotIn("\ngradient:", h.explain(4, 16))
        self.assertIn("\ngradient: in float, ", h.explain(4, 16, gradient=True))
        self.assertTrue(h._repr_svg_().startswith("<svg"))


class Refusals(unittest.TestCase):
    def test_routed_trees_know_their_tokens(self):
        q, k, v = tensors(40, heads=2, dim=8)
        h = hga.treeformer_fine(39, height=1, weights=np.ones((1, 8), np.float32), bias=np.zeros(1, np.float32))
        refused(self, "40 rows, the hierarchy has 39", lambda: h.attention(q, k, v))
        h = hga.treeformer_fine(40, n_keys=41, height=1, weights=np.ones((1, 8), np.float32), bias=np.zeros(1, np.float32))
        refused(self, "key has 40 rows, the hierarchy has 41", lambda: h.attention(q, k, v))

    def test_shapes_and_words_that_do_not_fit_are_refused(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        cases = [
            (lambda: h.attention(q[:, :, :10], k, v), "10 rows"),
            (lambda: h.attention(q, k[:, :, :10], v), "10 rows|shape"),
            (lambda: h.attention(q, k, v[:, :2]), "value"),
            (lambda: h.attention(q, k[:, :3], v[:, :3]), "3"),
            (lambda: h.attention(q, k[..., :8], v), "8 columns"),
            (lambda: h.attention(q[0], k, v), "axes"),
            (lambda: h.attention(q[..., ::2], k[..., ::2], v), "contiguous in the last dimension"),
            (lambda: h.attention(q, k, v, layout="nhd"), "layout"),
            (lambda: h.attention(q, k, v, isa="sse9"), "sse9"),
            (lambda: h.attention(q, k, v, dropout=1.0), "dropout"),
            (lambda: h.attention(q, k, v, rel_key=np.zeros((1, 3), np.float32)), "rel_key"),
            (lambda: h.attention(q, k, v, node_pos=np.zeros((3, 2), np.float32)), "node_pos"),
            (lambda: h.attention(q, k, v, edge_bias=np.zeros(3, np.float32)), "edge_bias"),
            (lambda: hga.bpt(10, k="two"), "two"),
            (lambda: hga.htransformer(10, block=-1), "-1"),
            (lambda: hga.htransformer(10, structure="cousins"), "cousins"),
            (lambda: hga.hsa(10, branching=[0]), "0"),
            (lambda: hga.hsa(parent=[1, 0]), ""),
            (lambda: hga.build("bpt k=x", 10), "x"),
            (lambda: hga.Graph.from_edges([0], [9], 3), "9"),
            (lambda: hga.Graph.from_edges([0, 1], [1], 3), "shape"),
        ]
        for number, (call, words) in enumerate(cases):
            with self.subTest(number), self.assertRaisesRegex(hga.Error, words):
                call()


class Names(unittest.TestCase):
    """What people type first."""

    def test_a_hierarchy_is_called_as_a_layer_is(self):
        q, k, v = tensors(24)
        h = hga.window(24, left=3, right=0)
        self.assertTrue(np.array_equal(h(q, k, v), h.attention(q, k, v)))
        self.assertTrue(np.array_equal(h(q, k, v, layout="bhnd", lse=True)[1], h.attention(q, k, v, lse=True)[1]))
        chosen = hga.routed(24, block=4, k=2)
        self.assertTrue(np.array_equal(chosen(q, k, v, layout=None), chosen.attention(q, k, v)))

    def test_keywords_say_what_words_say(self):
        q, k, v = tensors(48)
        for words, more, same in (
            ("htransformer:block=16", {"causal": True}, "htransformer block=16 causal=1"),
            ("htransformer", {"block": np.int64(16), "causal": "yes"}, "htransformer block=16 causal"),
            ("window", {"left": 3, "right": 0, "global_": 2, "stride": None}, "window left=3 right=0 global=2"),
            ("hsa", {"branching": [2, 4]}, "hsa branching=2,4"),
            ("neighbourhood", {"shape": (6, 8), "kernel": (3, 5)}, "neighbourhood shape=6,8 kernel=3,5"),
        ):
            h, want = hga.build(words, 48, **more), hga.build(same, 48)
            self.assertTrue(np.array_equal(h.attention(q, k, v), want.attention(q, k, v)), words)
            self.assertTrue(np.array_equal(pickle.loads(pickle.dumps(h)).attention(q, k, v), want.attention(q, k, v)), words)
        refused(self, "causal is given twice", lambda: hga.build("window causal", 8, causal=True))
        refused(self, "has no parameter 'blok'", lambda: hga.build("htransformer", 8, blok=2))
        refused(self, "which words cannot say", lambda: hga.build("window", 8, left=[[1, 2]]))
        for wrong in (lambda: 1, [], "3 right=0", {"a": 1}, ["a b"]):
            refused(self, "which words cannot say", lambda wrong=wrong: hga.build("window", 8, left=wrong))

    def test_names_of_elsewhere_say_what_they_are_here(self):
        for name, here in (("longformer", "window"), ("BigBird", "use(model)"), ("natten", "neighbourhood"), ("longnet", "dilated"), ("moba", "routed")):
            refused(self, f"no variant '{name}': here it is", lambda name=name: hga.build(name, 64))
            with self.assertRaisesRegex(AttributeError, "here it is .*" + here.replace("(", r"\(").replace(")", r"\)")):
                getattr(hga, name)
        with self.assertRaisesRegex(AttributeError, "did you mean 'window'"):
            hga.windw
