"""Hierarchies are values: copies, pickles and workers have equal ones with equal bits; rows that are nodes are lifted
and lowered."""

import copy
import multiprocessing
import pickle
import pickletools
import unittest

import hga
import numpy as np
from shared import copies, needs, refused, torch
from test_graphs_hierarchies import tensors

RNG = np.random.default_rng(11)


def every_variant(n=60):
    """One of each, and some that are made of arrays."""
    leaf = RNG.integers(0, 4, n)
    parent = np.concatenate([np.full(10, 40), np.full(10, 41), np.full(20, 42), [43, 43, 43, -1]])
    return {
        "dense": hga.dense(n), "causal dense": hga.dense(n, causal=True), "cross": hga.htransformer(n, n_keys=50, block=4),
        "window": hga.window(n, left=5, global_=2), "bpt": hga.bpt(n, k=2), "bpt text": hga.bpt(n, rule="text", clip=2),
        "htransformer": hga.htransformer(n, block=4), "linear": hga.htransformer(n, block=4, interpolation="linear", relative=True),
        "causal htransformer": hga.htransformer(n, block=4, causal=True), "hsa": hga.hsa(n, branching=[2, 4], self=True),
        "hsa of parents": hga.hsa(parent=parent), "frontier": hga.hsa(n, branching=[3, 3], causal=True),
        "fenwick": hga.fenwick(n), "dilated": hga.dilated(n, segments=[8, 32], dilations=[1, 4]),
        "fine": hga.treeformer_fine(n, query_leaf=leaf), "fine a head": hga.treeformer_fine(n, query_leaf=np.stack([leaf, leaf[::-1]], 1)),
        "coarse": hga.treeformer_coarse(n, height=2, query_leaf=leaf, alpha=np.array([0.5, 1, 2], np.float32)),
        "segments": hga.segments(n, query_segment=np.arange(n) // 7), "draft": hga.draft(prefix=9, parent=np.arange(n) // 2 - 1),
        "neighbourhood": hga.neighbourhood(shape=(6, 10), kernel=3, dilation=(1, 2), causal=(True, False)), "ragged": hga.htransformer([20, 33, 7], block=4),
        "words": hga.build("htransformer block=4 causal=1", n), "side by side": hga.concatenated([hga.fenwick(9), hga.fenwick(20)]),
        "a graph": hga.Graph.from_edges(np.arange(n) // 8, np.arange(n) % 8, 8, weight=RNG.random(n)).hierarchy(),
        "a tree": hga.Graph.from_parents([4, 4, 5, 5, 6, 6, -1]).hierarchy(),
    }  # fmt: skip


def result(h, seed=3, **more):
    """Output of a hierarchy for its own random rows."""
    rng = np.random.default_rng(seed)
    rows = [getattr(h, "rows", 0)] + [h._rows("key") // h.n_graphs]
    q, k, v = (rng.standard_normal((2, 2, n if n > 0 else rows[0], 8)).astype(np.float32) for n in (rows[0], rows[1], rows[1]))
    return h.attention(q, k, v, threads=h.threads or 2, **more)


def near_and_far(graph):
    """Tokens attend to tokens, and to spans by their masses, in one softmax."""
    p = hga.Program(graph)
    q = p.field("query", "key", "query", "queries", "queries")
    k = p.field("key", "kv_key", "key", "keys", "nodes")
    v = p.field("value", "value", "value", "keys", "nodes")
    out = p.field("out", "state", "out", "queries", "queries")
    p.coarsen(k), p.coarsen(v)
    p.attend("near", q, k, v, out)
    p.attend("far", q, k, v, out, by_mass=True, more=True)
    return p


def own_program():
    """A graph with names, weights, masses and types, and a program of two stages."""
    b = hga.Builder()
    tokens, spans = b.level(12), b.level(3)
    b.families(spans, tokens, each=4)
    b.mass(spans, 2.5)
    near, far = b.relation("near"), b.relation("far")
    b.block(near, (0, 12), (0, 12), shape=1, weight=0.5)
    b.edge(far, spans, 3, 7, 0.1)
    b.edge(far, spans + 1, 11, 2, 3.3)
    return near_and_far(b.finish())


class StrictRows(unittest.TestCase):
    def graphs(self):
        """Two hierarchies of random blocks, a row each: rows of even number have equal ones, the others do not."""
        found = []
        for other in range(2):
            b = hga.Builder()
            tokens = b.level(160)
            near = b.relation("near")
            for v in range(160):
                rng = np.random.default_rng([v, other * (v % 2)])
                for first in rng.integers(0, 100, 3):
                    b.block(near, (tokens + v, 1), (tokens + int(first), int(rng.integers(1, 60))))
            found.append(b.finish().hierarchy())
        return found

    def test_strict_rows_hang_on_their_own_edges_alone(self):
        rng = np.random.default_rng(3)
        q, k, v = (rng.standard_normal((4, 160, 12)).astype(np.float32) for _ in range(3))
        usual = [h.attention(q, k, v)[:, ::2] for h in self.graphs()]
        self.assertFalse(np.array_equal(*usual))
        self.assertLess(abs(usual[0] - usual[1]).max(), 2e-6)
        for more in ({}, dict(threads=2), dict(sink=np.zeros(4, np.float32)), dict(normaliser="sigmoid")):
            self.assertTrue(np.array_equal(*(h.strict_rows().attention(q, k, v, **more)[:, ::2] for h in self.graphs())), more)
        if torch:
            tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
            out = [h.strict_rows().attention(*tensors) for h in self.graphs()]
            self.assertTrue(torch.equal(out[0][:, ::2], out[1][:, ::2]))
            out[0].sum().backward()
            self.assertTrue(all(x.grad.isfinite().all() for x in tensors))

    def test_what_is_made_of_strict_hierarchies_is_strict(self):
        h = self.graphs()[0]
        strict = h.strict_rows()
        self.assertNotEqual(strict, h)
        self.assertEqual(strict, h.strict_rows().strict_rows())
        self.assertEqual(strict.strict_rows(False), h)
        for made in (copy.copy(strict), copy.deepcopy(strict), pickle.loads(pickle.dumps(strict)), strict.additive_scores(),
                     hga.concatenated([strict, strict]), pickle.loads(pickle.dumps(hga.fenwick(9).strict_rows()))):  # fmt: skip
            self.assertTrue(made._strict)
        for ordered in (strict.order("degree"), h.order("degree").strict_rows()):
            self.assertTrue(ordered._in_order._strict and ordered._strict)
        refused(self, "strict is 2", lambda: h.strict_rows(2))
        causal = hga.htransformer(90, block=4, causal=True).strict_rows()
        q, k, v = (np.random.default_rng(1).standard_normal((2, 90, 8)).astype(np.float32) for _ in range(3))
        cache, want = causal.decoder(heads=2, dim=8, same=True).cache(), causal.attention(q, k, v)
        for i in range(0, 90, 9):
            self.assertTrue(np.array_equal(cache.append(q[:, i : i + 9], k[:, i : i + 9], v[:, i : i + 9]), want[:, i : i + 9]))


class Normalised(unittest.TestCase):
    def test_a_copy_has_the_sigmoids_bias(self):
        one, other = (hga.dense(12, causal=True).decoder(heads=1, dim=4, normaliser=f"sigmoid:{b}").hierarchy for b in (-4, 0))
        self.assertNotEqual(one, other)
        for again in (copy.copy(one), pickle.loads(pickle.dumps(one))):
            self.assertEqual(again, one)
            self.assertTrue(np.array_equal(result(again), result(one)))

    def test_normalisers_are_kept_up_to_a_number(self):
        h = hga.dense(12)
        for i in range(40):
            result(h, normaliser=f"sigmoid:{i}")
        self.assertEqual(len(h._normalised), 16)


class Copies(unittest.TestCase):
    def test_a_pickled_hierarchy_is_equal_and_gives_equal_bits_by_every_protocol(self):
        for name, h in {**every_variant(), "a program": own_program().hierarchy()}.items():
            h.threads, h.bind = 1, "off"
            want = result(h)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with self.subTest(name, protocol=protocol):
                    again = pickle.loads(pickle.dumps(h, protocol))
                    self.assertTrue(again == h and hash(again) == hash(h) and again is not h)
                    self.assertEqual((type(again), again.words, again.threads, again.bind), (type(h), h.words, 1, "off"))
                    self.assertTrue(np.array_equal(result(again), want))
            graph = pickle.loads(pickle.dumps(h.graph))
            self.assertTrue(graph == h.graph and hash(graph) == hash(h.graph), name)

    def test_a_copy_is_equal_gives_equal_bits_and_shares_the_graph(self):
        for name, h in {**every_variant(), "a program": own_program().hierarchy()}.items():
            for function in (copy.copy, copy.deepcopy):
                with self.subTest(name):
                    again = function(h)
                    self.assertTrue(again == h and again is not h and again.graph is h.graph is copy.deepcopy(h.graph))
                    again.threads, again.bind = 1, "on"
                    self.assertEqual((h.threads, h.bind), (0, "auto"))
                    self.assertTrue(np.array_equal(result(again), result(h)))
                    self.assertEqual(type(again), type(h))

    def test_names_weights_and_masses_are_among_what_a_graph_keeps(self):
        g = own_program().graph
        again = pickle.loads(pickle.dumps(g))
        self.assertTrue(np.array_equal(again.masses(), g.masses()) and again.relations == ["near", "far"])
        self.assertTrue(np.array_equal(again.edges("far"), g.edges("far")))

    def test_what_pickles_name_stays_where_it_is(self):
        """docs/promises.md: a file of pickle is read by every 0.5.x. Who moves one of these names leaves the old one working."""
        kinds = {
            **every_variant(), "routed": hga.routed(60, block=4, k=4), "in order": hga.Graph.from_edges([0, 1], [1, 2], 3).hierarchy(order="rcm"),
            "hyperplanes": hga.treeformer_fine(height=1, weights=np.zeros((1, 8), np.float32), bias=np.zeros(1, np.float32)),
            "a graph a head": hga.concatenated([hga.fenwick(9), hga.fenwick(9)]).by_head(2), "program": own_program(), "variant": hga.variants()["bpt"],
        }  # fmt: skip
        pickles = [pickletools.genops(pickle.dumps(thing, 2)) for thing in kinds.values()]
        named = {word for ops in pickles for op, word, _ in ops if op.name == "GLOBAL" and word.startswith("hga")}
        self.assertEqual(named, {
            "hga._core.copies made_again", "hga._core.copies put_together", "hga._graphs.graph _made_again", "hga._graphs.hierarchy Hierarchy",
            "hga._graphs.hierarchy FoldedHierarchy", "hga._graphs.orders ordered_again", "hga._graphs.program _made_again",
            "hga._graphs.registry variant_named", "hga._graphs.routed ChosenHierarchy", "hga._graphs.spec built", "hga._graphs.variants RoutedHierarchy",
            "hga._graphs.variants remade",
        })  # fmt: skip

    def test_a_block_whose_weight_is_minus_zero_has_none_in_a_file(self):
        b = hga.Builder()
        b.level(4)
        b.block(b.relation("r"), (0, 4), (0, 4), weight=-0.0)
        graph = b.finish()
        self.assertEqual(pickle.loads(pickle.dumps(graph)).to_scipy().toarray().tolist(), graph.to_scipy().toarray().tolist())

    def test_a_variant_of_a_million_tokens_is_a_small_pickle(self):
        self.assertLess(len(pickle.dumps(hga.htransformer(1 << 20, block=16))), 500)
        self.assertLess(len(pickle.dumps(hga.htransformer(1 << 20, block=16).graph)), 10000)

    def test_what_becomes_of_the_callers_array_is_nothing_to_a_pickle(self):
        leaf = np.arange(40) % 4
        h = hga.treeformer_fine(40, query_leaf=leaf)
        leaf[:] = 0
        self.assertEqual(pickle.loads(pickle.dumps(h)), h)

    def test_node_positions_stay_in_the_callers_order(self):
        parent = [6, 5, 5, 6, 6, 6, -1]
        h, (q, k, v) = hga.hsa(parent=parent), tensors(5, heads=2, batch=())
        pos = RNG.standard_normal((7, 3)).astype(np.float32)
        want = h.attention(q, k, v, node_pos=pos)
        for again in (pickle.loads(pickle.dumps(h)), copy.deepcopy(h)):
            self.assertTrue(np.array_equal(again.attention(q, k, v, node_pos=pos), want))

    def test_texts_side_by_side_take_their_nodes_sample_by_sample(self):
        parents = ([6, 5, 5, 6, 6, 6, -1], [3, 2, 3, -1])
        alone, x, pos = [], tensors(5, heads=1, batch=()), [RNG.standard_normal((len(p), 3)).astype(np.float32) for p in parents]
        parts = [hga.hsa(parent=p) for p in parents]
        for h, p in zip(parts, pos):
            n = h.rows
            alone.append(h.attention(*(np.ascontiguousarray(t[:, :n]) for t in x), node_pos=p))
        both = hga.concatenated(parts).attention(*(np.concatenate([t[:, : h.rows] for h in parts], 1) for t in x),
                                                 node_pos=np.concatenate(pos))  # fmt: skip
        self.assertLess(abs(both - np.concatenate(alone, 1)).max(), 1e-6)

    def test_texts_side_by_side_run_one_program_with_its_weights_of_types(self):
        with self.assertRaisesRegex(hga.Error, "another program"):
            hga.concatenated([hga.htransformer(64, causal=True), hga.htransformer(64)])
        leaf, alpha = np.arange(20) % 4, np.array([0.5, 1, 2], np.float32)
        one = hga.treeformer_coarse(20, height=2, query_leaf=leaf, alpha=alpha)
        q, k, v = tensors(20, heads=1, batch=())
        both = hga.concatenated([one, one]).attention(*(np.concatenate([t, t], 1) for t in (q, k, v)))
        self.assertLess(abs(both[:, 20:] - one.attention(q, k, v)).max(), 1e-6)
        folded = hga.treeformer_fine(20, query_leaf=np.stack([leaf, leaf], 1))
        refused(self, "part 0", lambda: hga.concatenated([folded, folded]))

    def test_routed_trees_are_copied_with_their_hyperplanes(self):
        q, k, v = tensors(40, heads=2, dim=8)
        weights, bias = RNG.standard_normal((2, 3, 8)).astype(np.float32), np.zeros((2, 3), np.float32)
        h = hga.treeformer_fine(40, height=2, weights=weights, bias=bias)
        for again in (copy.copy(h), copy.deepcopy(h), pickle.loads(pickle.dumps(h))):
            self.assertTrue(again == h and hash(again) == hash(h))
            self.assertTrue(np.array_equal(again.attention(q, k, v), h.attention(q, k, v)))
        other = copy.deepcopy(h)
        other.arguments["weights"][:] = 0
        self.assertFalse(other == h or np.array_equal(other.attention(q, k, v), h.attention(q, k, v)))

    def test_routed_trees_have_the_settings_of_a_hierarchy(self):
        q, k, v = tensors(40, heads=2, dim=8)
        weights, bias = RNG.standard_normal((2, 3, 8)).astype(np.float32), np.zeros((2, 3), np.float32)
        h = hga.treeformer_fine(40, height=2, weights=weights, bias=bias)
        h.threads, h.bind = 2, "off"
        strict = h.strict_rows()
        self.assertNotEqual(strict, h)
        for one in (h, strict, copy.copy(strict), pickle.loads(pickle.dumps(h))):
            made = one.hierarchy(q[0], k[0])
            self.assertEqual((made.threads, made.bind, made._strict), (2, "off", one is not h and one == strict))
        refused(self, "route whole inputs", lambda: h.order("rcm"))
        with self.assertRaisesRegex(hga.Error, "bind"):
            h.bind = "always"

    def test_programs_can_be_copied_and_pickled_before_they_are_done(self):
        p = own_program()
        for again in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
            self.assertEqual(again.hierarchy(), p.hierarchy())
            again.has_lse()
            self.assertNotEqual(again.hierarchy(), p.hierarchy())

    def test_functions_written_in_python_are_copied_but_not_pickled(self):
        g = hga.Graph.from_edges([0, 1, 2, 3], [1, 1, 3, 3], 4)
        p = hga.Program(g)
        value, out = (p.field(n, n, n, "queries", "queries") for n in ("value", "out"))
        p.user("my sum", 0, [value], [out], lambda: 0.0, lambda s, e: s + e.source[value],
               lambda s, v: v[out].__setitem__(slice(None), s))  # fmt: skip
        x, h = RNG.standard_normal((1, 4, 3)).astype(np.float32), p.hierarchy()
        for again in (copy.copy(h), copy.deepcopy(h), copy.deepcopy(p).hierarchy()):
            self.assertEqual(again, h)
            self.assertTrue(np.array_equal(again.attention(x, x, x), h.attention(x, x, x)))
        for thing in (h, p):
            refused(self, "'my sum' runs functions of your own, which cannot be pickled", lambda: pickle.dumps(thing))

    def test_what_cannot_be_copied_says_so(self):
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            refused(self, "a Builder can neither be copied nor pickled", lambda: function(hga.Builder()))

    def test_variants_and_errors_can_be_pickled(self):
        v = pickle.loads(pickle.dumps(hga.variants()["bpt"]))
        self.assertEqual(v.parameter("k").default, 4)
        try:
            hga.htransformer(3, block=0)
        except hga.Error as e:
            again = pickle.loads(pickle.dumps(e))
            self.assertEqual((type(again), again.status, again.detail, str(again)), (type(e), e.status, e.detail, str(e)))


class Equality(unittest.TestCase):
    def test_equal_means_equal_graphs_and_programs(self):
        self.assertEqual(hga.htransformer(64, block=4), hga.build("htransformer block=4", 64))
        self.assertEqual(len({hga.htransformer(64), hga.htransformer(64), hga.htransformer(65)}), 2)
        hs = list(every_variant().values())
        for i, a in enumerate(hs):
            for j, b in enumerate(hs):
                same = i == j or {i, j} == {list(every_variant()).index("causal htransformer"), list(every_variant()).index("words")}
                self.assertEqual(a == b, same, (a, b))
                if same:
                    self.assertEqual(hash(a), hash(b))

    def test_one_edge_weight_name_or_parameter_makes_a_difference(self):
        e = lambda **more: hga.Graph.from_edges([0, 1, 2], [1, 2, 0], 3, **more)  # noqa: E731
        self.assertEqual(e(), e())
        for other in (e(weight=[1, 1, 2]), e(type=[0, 1, 0]), hga.Graph.from_edges([0, 1, 1], [1, 2, 0], 3)):
            self.assertNotEqual(e(), other)
        leaf = np.arange(8) % 2
        a, b = (hga.treeformer_coarse(8, height=1, query_leaf=leaf, alpha=[1.0, x]) for x in (1.0, 2.0))
        self.assertEqual(a.graph, b.graph)
        self.assertNotEqual(a, b)
        self.assertNotEqual(hga.dense(4), hga.dense(4).graph)
        self.assertFalse(hga.dense(4) == 4 or hga.dense(4).graph == "dense")
        x = hga.hsa(parent=[4, 4, 5, 5, 6, 6, -1]), hga.hsa(parent=[5, 4, 4, 5, 6, 6, -1])
        self.assertNotEqual(*x)  # one graph, but node_pos goes elsewhere


def attend_in_a_worker(h, q, k, v):
    return h.attention(q, k, v), h


def refuse_in_a_worker(h, q):
    return h.attention(q, q, q)


def gradient_in_a_worker(pickled):
    import torch

    model, x = pickle.loads(pickled)
    return [g.numpy() for g in torch.autograd.grad(model(x).square().sum(), model.parameters())]


class Workers(unittest.TestCase):
    def test_a_spawned_worker_gets_hierarchies_and_gives_equal_bits(self):
        h, (q, k, v) = hga.htransformer(100, block=8, causal=True), tensors(100)
        g = hga.Graph.from_edges([0, 1, 2], [1, 2, 0], 100).hierarchy()
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for one in (h, g):
                out, again = pool.apply(attend_in_a_worker, (one, q, k, v))
                self.assertTrue(np.array_equal(out, one.attention(q, k, v)) and again == one)
            with self.assertRaisesRegex(hga.Error, "100"):  # what a worker is refused comes back
                pool.apply(refuse_in_a_worker, (h, q[:, :, :50].copy()))


class Rows(unittest.TestCase):
    def test_lift_gives_spans_zeros_and_lower_takes_the_tokens(self):
        h, (q, k, v) = hga.bpt(50, k=2), tensors(50)
        nodes = h.rows
        by_hand = [np.concatenate([x, np.zeros(x.shape[:2] + (nodes - 50, 16), np.float32)], 2) for x in (q, k, v)]
        lifted = [h.lift(q), h.lift(k, which="key"), h.lift(v, which="value")]
        for a, b in zip(by_hand, lifted):
            self.assertTrue(np.array_equal(a, b) and b.dtype == np.float32)
        out = h.attention(*by_hand)
        self.assertTrue(np.array_equal(h.lower(h.attention(*lifted)), out[:, :, :50]))

    def test_both_layouts_and_one_head_without_an_axis_are_lifted_alike(self):
        h, (q, k, v) = hga.bpt(50, k=2), tensors(50)
        turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
        want = h.lower(h.attention(*(h.lift(x) for x in (q, k, v))))
        got = h.lower(h.attention(*(h.lift(x, layout="bnhd") for x in turned), layout="bnhd"), layout="bnhd")
        self.assertTrue(np.array_equal(got.transpose(0, 2, 1, 3), want))
        one = h.lower(h.attention(*(h.lift(x[0, 0]) for x in (q, k, v))))
        self.assertEqual(one.shape, (50, 16))
        self.assertLess(abs(one - want[0, 0]).max(), 1e-6)

    def test_where_rows_are_tokens_lift_and_lower_are_nothing(self):
        q = tensors(40)[0]
        weights = np.ones((1, 16), np.float32)
        folded = hga.treeformer_fine(40, query_leaf=np.zeros((40, 4), int))
        for h in (hga.dense(40), folded, hga.treeformer_fine(40, height=1, weights=weights, bias=np.zeros(1, np.float32))):
            self.assertIs(h.lift(q), q)
            self.assertIs(h.lower(q), q)

    def test_ragged_batches_of_nodes_are_lifted_too(self):
        h = hga.bpt([20, 30], k=2)
        q, k, v = tensors(50, batch=())
        out = h.lower(h.attention(*(h.lift(x) for x in (q, k, v))))
        for first, n in ((0, 20), (20, 30)):
            one = hga.bpt(n, k=2)
            alone = one.lower(one.attention(*(one.lift(np.ascontiguousarray(x[:, first : first + n])) for x in (q, k, v))))
            self.assertLess(abs(out[:, first : first + n] - alone).max(), 5e-6)

    def test_a_refusal_is_not_shown_as_an_error_within_another(self):
        h, (q, k, v) = hga.dense(64), tensors(64)
        for call in (lambda: h(q, k, v[:, 1:]), lambda: h(q, k, v, layout=["bhnd"])):
            with self.assertRaises((TypeError, ValueError)) as refusal:
                call()
            self.assertIsNone(refusal.exception.__context__)

    def test_rows_of_tokens_where_nodes_are_wanted_are_named(self):
        h, (q, k, v) = hga.bpt(64), tensors(64)
        refused(self, r"rows of bpt are nodes: 64 tokens and 63 spans; h.lift\(x\)", lambda: h.attention(q, k, v))
        refused(self, "rows of bpt are nodes: 14 tokens and 13 spans", lambda: hga.bpt([6, 8]).attention(q, k, v))
        refused(self, "127 rows in layout 'bhnd', not 64, one a token", lambda: h.lift(h.lift(q)))
        refused(self, "64 rows in layout 'bhnd', not 127, one a node", lambda: h.lower(q))
        refused(self, "did you mean 'query'", lambda: h.lift(q, which="querys"))
        refused(self, "layout", lambda: h.lower(q, layout="bhdn"))
        refused(self, "list", lambda: h.lift([1.0]))


@needs("torch")
class Torch(unittest.TestCase):
    def model(self, h=None, **more):
        torch.manual_seed(5)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), hga.torch.Attention(h or hga.htransformer(40, block=4), 16, 2, **more))

    def test_a_module_with_a_hierarchy_is_copied_saved_and_loaded(self):
        backwards = hga.Graph.from_edges(np.arange(40), np.arange(40)[::-1].copy(), 40).hierarchy()
        for h, more in ((None, {}), (backwards, {}), ("htransformer:block=4", dict(causal=True))):
            model, x = self.model(h, **more), torch.randn(2, 40, 8)
            for again in copies(model):
                self.assertTrue(torch.equal(again(x), model(x)))
                self.assertEqual(again[1].hierarchy, model[1].hierarchy)

    def test_a_copy_is_differentiable_after_the_original_is_gone(self):
        model, x = self.model(), torch.randn(2, 40, 8)
        want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            found = torch.autograd.grad(again(x).square().sum(), list(again.parameters()))
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(found, want)))
        again = pickle.loads(pickle.dumps(model))
        del model
        self.assertTrue(torch.isfinite(again(x)).all())

    def test_a_copy_compiles_and_does_not_lean_on_the_original(self):
        import gc

        model, x = self.model(), torch.randn(2, 40, 8)
        want = model(x)
        self.assertTrue(torch.allclose(torch.compile(model, backend="aot_eager", fullgraph=True)(x), want, atol=1e-6))
        again = pickle.loads(pickle.dumps(model))
        del model
        gc.collect()
        self.assertTrue(torch.allclose(torch.compile(again, backend="aot_eager", fullgraph=True)(x), want, atol=1e-6))

    def test_a_module_with_a_hierarchy_trains_in_a_spawned_worker(self):
        model, x = self.model(), torch.randn(2, 40, 8)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(gradient_in_a_worker, (pickle.dumps((model, x)),))
        want = torch.autograd.grad(model(x).square().sum(), model.parameters())
        self.assertTrue(all(np.allclose(a, b.numpy(), atol=1e-5) for a, b in zip(found, want)))

    def test_lift_and_lower_are_differentiable(self):
        h = hga.bpt(20, k=2)
        for layout, axis in (("bhnd", 2), ("bnhd", 1)):
            shape = (2, 3, 20, 8) if layout == "bhnd" else (2, 20, 3, 8)
            x = [torch.randn(shape, requires_grad=True) for _ in range(3)]
            y = [t.detach().clone().requires_grad_() for t in x]
            out = h.lower(h.attention(*(h.lift(t, layout=layout) for t in x), layout=layout), layout=layout)
            zeros = torch.zeros([n if i != axis else h.rows - 20 for i, n in enumerate(shape)])
            by_hand = h.attention(*(torch.cat([t, zeros], axis) for t in y), layout=layout).narrow(axis, 0, 20)
            self.assertTrue(torch.equal(out, by_hand))
            d = torch.randn_like(out)
            out.backward(d), by_hand.backward(d)
            self.assertTrue(all(torch.equal(a.grad, b.grad) for a, b in zip(x, y)))
