"""What is no whole number, text, flag or list is refused by its name, words that are near a known one are told, and
errors are of the kinds that Python's users catch."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import hga
import numpy as np
from shared import needs, package, refused, refused_each, scratch, torch
from test_graphs_hierarchies import tensors


class Numbers(unittest.TestCase):
    def test_texts_truths_and_fractions_are_no_numbers_of_tokens(self):
        for n in ("64", b"64", True, False, np.True_, 64.0, np.float32(64), np.array(64.0), {64}, {64: 1}, 1j, [64.0], [True], ["64"],
                  [[3, 4]], np.zeros((2, 2), int), np.array([3.0]), [3, None], object()):  # fmt: skip
            with self.subTest(repr(n)), self.assertRaisesRegex(hga.Error, "(?s)n_tokens is .*whole number"):
                hga.dense(n)
        for words, n in {
            "is 0; it must be at least 1": 0, "is -3": -3, "is -1; it must be at least 0": [4, -1], "is an empty list": [],
            "all 3 lengths are 0": (0, 0, 0),
        }.items():  # fmt: skip
            refused(self, "n_tokens.*" + words, lambda: hga.dense(n))
        refused(self, "2147483648", lambda: hga.dense(2**40))

    def test_whole_numbers_of_numpy_are_whole_numbers(self):
        for n in (np.int8(5), np.int64(5), np.uint16(5), np.array(5), np.array(5, np.int32)):
            self.assertEqual(hga.dense(n), hga.dense(5))
            self.assertEqual(hga.htransformer(n, block=n, n_keys=n).n_tokens, 10)
            self.assertEqual(hga.window(9, left=n), hga.window(9, left=5))
        for lengths in ((3, 4), [np.int32(3), 4], np.array([3, 4]), range(3, 5)):
            self.assertEqual(hga.dense(lengths), hga.dense([3, 4]))

    @needs("torch")
    def test_whole_numbers_of_torch_are_whole_numbers(self):
        self.assertEqual(hga.dense(torch.tensor(5)), hga.dense(5))
        self.assertEqual(hga.dense(torch.tensor([3, 4])), hga.dense([3, 4]))
        for n in (torch.tensor(5.0), torch.tensor(True), torch.tensor([[3]])):
            refused(self, "n_tokens is .*whole number", lambda: hga.dense(n))
        refused(self, "block is .*whole number", lambda: hga.htransformer(64, block=torch.tensor(4.0)))

    def test_other_whole_numbers_are_held_to_it_too(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        for wrong in (True, 2.0, "2"):
            for what, call in (
                ("block", lambda: hga.htransformer(64, block=wrong)), ("n_keys", lambda: hga.dense(64, n_keys=wrong)),
                ("threads", lambda: h.attention(q, k, v, threads=wrong)), ("threads", lambda: setattr(h, "threads", wrong)),
                ("threads", lambda: h.gradient(q, k, v, q, threads=wrong)), ("threads", lambda: h.explain(threads=wrong)),
                ("threads", lambda: h.plan(threads=wrong)), ("n_tokens", lambda: hga.build("bpt", wrong)),
                ("token", lambda: h.row(wrong)), ("n_nodes", lambda: hga.Graph.from_edges([0], [0], wrong)),
                ("relation", lambda: hga.Program(h.graph).attention(wrong if wrong != "2" else 2.5)), ("head", lambda: h.weights(q[0], k[0], 1, wrong)),
            ):  # fmt: skip
                with self.subTest(f"{what} {wrong!r}"), self.assertRaisesRegex(hga.Error, f"{what} is .*not a whole number"):
                    call()

    def test_numbers_beyond_32_bits_are_named(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        b, graph = hga.Builder(), hga.Graph.from_edges([0], [1], 4)
        b.level(4)
        decoder, program = hga.dense(9, causal=True).decoder, hga.Program(graph)
        fields = dict(query=1, key=2, value=3, out=4)
        for beyond in (2**31, 2**40, 2**70):
            for what, call in (
                ("n_tokens", lambda: hga.dense(beyond)), ("n_tokens", lambda: hga.routed([3, beyond])), ("n_tokens", lambda: hga.build("dense", beyond)),
                ("n_tokens", lambda: hga.routed(beyond, causal=True)), ("n_keys", lambda: hga.dense(4, n_keys=beyond)), ("left", lambda: hga.window(9, left=beyond)),
                ("n_tokens: the sum", lambda: hga.routed([2**31 - 1, 1])),
                ("n_nodes", lambda: hga.Graph.from_edges([0], [1], beyond)), ("n_nodes", lambda: hga.Graph.from_edge_index([[0], [1]], beyond)),
                ("n_nodes: the sum", lambda: hga.Graph.from_edges([0], [1], (2**31 - 1, 1))), ("n", lambda: hga.Graph.from_mask(np.less, beyond)),
                ("n", lambda: b.level(beyond)), ("n_queries", lambda: b.tokens(0, beyond, 0, 1)), ("parent", lambda: b.children(beyond, 0, 1)),
                ("child", lambda: b.families(0, beyond, 1)), ("first", lambda: b.kinds(beyond, 1, "x")), ("node", lambda: b.mass(beyond, 1)),
                ("source", lambda: b.edge(0, beyond, 0)), ("type", lambda: b.edge(0, 0, 0, beyond)), ("dst: n", lambda: b.block(0, (0, beyond), (0, 1))),
                ("count", lambda: b.block(0, (0, 1), (0, 1), count=beyond)), ("block", lambda: b.choice(0, (0, 1), (0, 1), [[0]], block=beyond)),
                ("parts", lambda: graph.locality(beyond)), ("threads", lambda: h.attention(q, k, v, threads=beyond)), ("threads", lambda: setattr(h, "threads", beyond)),
                ("token", lambda: h.row(beyond)), ("head", lambda: h.weights(q[0], k[0], 1, beyond)), ("heads", lambda: h.explain(heads=beyond)),
                ("dim", lambda: h.plan(dim=beyond)), ("heads", lambda: decoder(heads=beyond, dim=4)), ("threads", lambda: decoder(heads=1, dim=4, threads=beyond)),
                ("x", lambda: program.coarsen(beyond)), ("key", lambda: program.attend(0, **{**fields, "key": beyond})),
            ):  # fmt: skip
                with self.subTest(f"{what} {beyond}"), self.assertRaisesRegex(hga.Error, f"^{what} is .*must be less than 2147483648$"):
                    call()
        refused(self, r"dst is \(0, 1, 2\), not \(first, n\)", lambda: b.block(0, (0, 1, 2), (0, 1)))
        refused(self, "child is 9: there are 4 nodes", lambda: b.families(0, 9, 1))

    def test_a_negative_number_of_threads_is_refused_wherever_it_is_said(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        for call in (lambda: h.attention(q, k, v, threads=-1), lambda: setattr(h, "threads", -1), lambda: h.explain(threads=-1),
                     lambda: h.gradient(q, k, v, q, threads=-1), lambda: h.plan(threads=-1)):  # fmt: skip
            refused(self, "threads is -1; it must be at least 0", call)
        self.assertEqual(h.threads, 0)
        h.threads = np.int64(1)
        self.assertEqual(h.plan()["threads"], 1)

    def test_threads_are_bound_when_it_is_said(self):
        h, x = hga.window(64, left=8, right=8), tensors(64)
        self.assertEqual(h.bind, "auto")
        want = h.attention(*x)
        for said, kept in (("on", "on"), (False, "off"), (np.True_, "on"), ("auto", "auto")):
            h.bind = said
            self.assertEqual(h.bind, kept)
            self.assertTrue(np.array_equal(h.attention(*x), want))
        if "OMP_PROC_BIND" not in os.environ:  # which binds by itself
            for said, bound in (("on", True), ("off", False)):
                h.bind = said
                self.assertEqual(", bound for the call" in h.explain(), bound)
        ordered = h.order("rcm")
        for g in (h, ordered):
            g.bind = "auto"
            g.attention(*x, normaliser="entmax:1.5")
            g.bind = "off"
            self.assertEqual({other.bind for other in g._others()}, {"off"})
        self.assertEqual((ordered._in_order.bind, h.order("rcm").bind), ("off", "off"))
        for wrong in ("always", 1, None, []):
            with self.assertRaisesRegex(hga.Error, "bind is .*not one of off, on, auto"):
                h.bind = wrong

    def test_flags_are_true_or_false(self):
        for yes, no in ((True, False), (1, 0), (np.True_, np.False_)):
            self.assertEqual(hga.dense(9, causal=yes), hga.dense(9, causal=True))
            self.assertEqual(hga.dense(9, causal=no), hga.dense(9))
        for wrong in ("no", "False", 2, 0.0, [True], np.ones(2, bool)):
            refused(self, "causal is .*neither True nor False", lambda: hga.dense(9, causal=wrong))


class Words(unittest.TestCase):
    def test_misspelt_words_are_told_the_near_one(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        p, b = hga.Program(h.graph), hga.Builder()
        near = (b.level(3), b.relation("near"))[1]
        cases = [
            (lambda: hga.htransformer(64, blok=8), "'block'"), (lambda: hga.window(64, lefft=8), "'left'"),
            (lambda: hga.window(64, globl=8), "'global_'"), (lambda: hga.bpt(64, K=2), "'k'"),
            (lambda: hga.dense(64, is_causal=True), "'causal'"), (lambda: hga.bpt(64, n_kyes=2), None),
            (lambda: hga.htransformer(64, structure="neighbors"), "'neighbours'"), (lambda: hga.bpt(9, rule="Shifted"), "'shifted'"),
            (lambda: hga.hsa(8, branching=2, leaves="depthfirst"), "'depth-first'"),
            (lambda: hga.build("htransfomer block=4", 64), "'htransformer'"), (lambda: hga.build("htransformer blok=4", 64), "'block'"),
            (lambda: h.edges("naer"), "'near'"), (lambda: h.graph.hierarchy(["Near"]), "'near'"), (lambda: p.attention("neer"), "'near'"),
            (lambda: h.attention(q, k, v, layout="bndh"), "'bnhd'"), (lambda: h.attention(q, k, v, layout="BHND"), "'bhnd'"),
            (lambda: h.attention(q, k, v, layuot="bhnd"), "'layout'"), (lambda: h.attention(q, k, v, relbias=None), "'rel_bias'"),
            (lambda: h.gradient(q, k, v, q, need_grad=["key"]), "'needs_grad'"), (lambda: h.gradient(q, k, v, q, needs_grad=["keys"]), "'key'"),
            (lambda: h.weights(q[0], k[0], 1, rel_keys=None), "'rel_key'"), (lambda: h.weights(q[0], k[0], 1, dropout=1), None),
            (lambda: p.field("x", "vallue"), "'value'"), (lambda: p.field("x", "value", "querry"), "'query'"),
            (lambda: p.field("x", "value", "query", "node"), "'nodes'"), (lambda: b.block(near, (0, 3), (0, 3), dst_stp=1), "'dst_step'"),
        ]  # fmt: skip
        for i, (call, word) in enumerate(cases):
            with self.subTest(i), self.assertRaisesRegex(hga.Error, f"did you mean {word}" if word else "it has|has no"):
                call()
        refused(self, "no relation 'xyz': there are near", lambda: h.edges("xyz"))
        refused(self, "no parameter 'qqq'; it has causal", lambda: hga.dense(3, qqq=1))

    def test_a_misspelt_variant_is_an_attribute_error_with_the_near_one(self):
        for wrong, right in (("htransfomer", "htransformer"), ("tree_former_fine", "treeformer_fine"), ("Dense", "dense"), ("Grpah", "Graph")):
            with self.assertRaisesRegex(AttributeError, f"no attribute '{wrong}': did you mean '{right}'"):
                getattr(hga, wrong)
        self.assertFalse(hasattr(hga, "something_else_entirely"))

    def test_words_of_other_libraries_are_answered_with_the_way_to_do_it(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        routed = hga.treeformer_fine(20, height=1, weights=np.ones((1, 16), np.float32), bias=np.zeros(1, np.float32))
        for word, answer in (
            ("attn_mask", r"Graph.from_scipy\(mask\).hierarchy\(\).*edge_bias=.*list of lengths"), ("is_causal", "causal=True"),
            ("dropout_p", "dropout=, and seed="), ("enable_gqa", "fewer heads"), ("key_padding_mask", "list of lengths"),
            ("need_weights", "h.weights"), ("return_lse", "lse="), ("softmax_scale", "scale="), ("score_mod", "edge_bias="),
            ("block_mask", "from_scipy"), ("mask", "from_scipy"), ("causal", "causal=True"), ("window_size", "hga.window"),
        ):  # fmt: skip
            for call in (h.attention, routed.attention, lambda *a, **m: h.gradient(*a, q, **m)):
                with self.subTest(word), self.assertRaisesRegex(hga.Error, f"has no {word}=: .*{answer}") as caught:
                    call(q, k, v, **{word: None})
                self.assertIsInstance(caught.exception, TypeError)

    @needs("torch")
    def test_torchs_words_are_answered_for_tensors_too(self):
        x = torch.zeros(1, 20, 8)
        refused(self, "causal=True", lambda: hga.dense(20).attention(x, x, x, is_causal=True))
        refused(self, "causal=True", lambda: hga.torch.attention(hga.dense(20), x, x, x, is_causal=True))
        refused(self, "did you mean 'htransformer'", lambda: hga.torch.Attention("htransfomer:block=4", 16, 2))

    def test_graphs_answer_keywords_that_they_do_not_have(self):
        g = hga.dense(4).graph
        for call, text in (
            (lambda: hga.Graph.from_edges([0], [0], nodes=1), "from_edges has no nodes=: did you mean 'n_nodes'"),
            (lambda: hga.Graph.from_edges([0], [0], 1, weights=[1]), "from_edges has no weights=: did you mean 'weight'"),
            (lambda: hga.Graph.from_edge_index([[0], [0]], repeat="sum"), "from_edge_index has no repeat=: did you mean 'repeated'"),
            (lambda: hga.Graph.from_mask([[True]], corss=True), "from_mask has no corss=: did you mean 'cross'"),
            (lambda: g.coarsen(size=[2]), "coarsen has no size=: did you mean 'sizes'"),
            (lambda: g.hierarchy(relation="near"), "hierarchy has no relation=: did you mean 'relations'"),
            (lambda: hga.dense(4).update(g, repeat="sum"), "update has no repeat=: did you mean 'repeated'"),
            (lambda: hga.dense(4).decoder(num_heads=2, dim=4), "decoder has no num_heads=: it is called heads="),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(hga.Error, text) as caught:
                call()
            self.assertIsInstance(caught.exception, TypeError)

    def test_the_ways_that_are_told_are_ways(self):
        q, k, v = tensors(12, heads=4, batch=())
        h = hga.dense(12)
        self.assertEqual(h.attention(q, k[:2], v[:2]).shape, q.shape)
        self.assertEqual(len(h.weights(q, k, 3, 0)), 12)
        if package("scipy.sparse"):
            mask = np.tril(np.ones((12, 12)))
            got = hga.Graph.from_scipy(package("scipy.sparse").csr_matrix(mask)).hierarchy().attention(q, k, v)
            self.assertLess(abs(got - hga.dense(12, causal=True).attention(q, k, v)).max(), 2e-6)

    def test_what_a_variant_cannot_be_made_without_is_named_as_python_says_it(self):
        x = np.ones((1, 4), np.float32)
        refused_each(self, (
            (lambda: hga.treeformer_fine(), "treeformer-fine needs query_leaf=, or height=, weights= and bias="),
            (lambda: hga.treeformer_coarse(20), "needs query_leaf=, or height=, weights= and bias="),
            (lambda: hga.treeformer_fine(20, weights=x), "weights= needs bias="), (lambda: hga.treeformer_fine(20, bias=x), "bias= needs weights="),
            (lambda: hga.treeformer_fine(20, weights=x, bias=x[:, 0]), "need height= or branching="),
            (lambda: hga.treeformer_fine(20, height=1, weights=x, bias=x[:, 0], query_leaf=[0]), "query_leaf="),
            (lambda: hga.treeformer_coarse(4, height=1, query_leaf=[0, 0, 1, 1]), "needs alpha="),
            (lambda: hga.segments(20), "needs query_segment="), (lambda: hga.hsa(20), "needs branching=, or parent="),
            (lambda: hga.dense(), "dense needs n_tokens"), (lambda: hga.bpt(k=3), "bpt needs n_tokens"),
            (lambda: hga.hsa(branching=[2]), "hsa needs n_tokens"), (lambda: hga.fenwick(9, n_keys=3), "fenwick has no n_keys"),
            (lambda: hga.dense([9, 4], n_keys=3), "n_keys"), (lambda: hga.build(7, 9), "words are 7"),
        ))  # fmt: skip


class Kinds(unittest.TestCase):
    def test_graphs_of_what_is_none_are_refused(self):
        path = scratch(self) / "x.csv"
        path.write_bytes(b"\xe9\n")
        graph = hga.Graph.from_edges([0], [1], 2)
        program = hga.Program(graph)
        program.user("ä" * 20, 0, [], [program.field("out", "out")], float, lambda s, e: s, lambda s, v: None)  # cut between characters
        refused_each(self, (
            ("stage 'ä{15}' runs functions of your own", lambda: pickle.dumps(program)),
            (r"x\.csv: .*\\xe9", lambda: hga.Graph.read(path)), ("relation is 3, not a text", lambda: hga.Graph.read(path, relation=3)),
            ("a ndarray is not a sparse matrix of scipy", lambda: hga.Graph.from_scipy(np.eye(3))), ("weight: could not convert", lambda: hga.Graph.from_edges([0], [1], 2, weight=["a"])),
            ("source: .*inhomogeneous|source holds object", lambda: hga.Graph.from_edges([[0], [1, 2]], [1], 2)), ("kinds is 3, not a list", lambda: graph.with_kinds(3)),
        ))  # fmt: skip

    def test_files_have_names(self):
        graph, decoder = hga.Graph.from_edges([0], [1], 2), hga.dense(4, causal=True).decoder(heads=1, dim=4)
        h = graph.hierarchy()
        for wrong, says in ((1, "is not a file name"), (True, "is not a file name"), (["x.json"], "is not a file name"), ("", "is empty"), ("\ud800", "no file's name has")):
            for call in (graph.write, h.write, h.view, decoder.read, decoder.cache().write, hga.read, hga.Graph.read, hga.Graph.from_folder):
                with self.subTest(call=call, wrong=wrong), self.assertRaisesRegex(hga.Error, f"file.*{says}"):
                    call(wrong)
        path = scratch(self) / "x.json"
        h.write(os.fsencode(path))
        self.assertEqual(hga.read(os.fsencode(path)), hga.read(path))

    def test_words_lists_and_flags_are_what_they_are(self):
        h, x = hga.window(8, left=1, right=1), tensors(8)
        graph, r = hga.Graph.from_edges([0], [1], 2), hga.routed(8, block=2, k=1)
        array = np.array([1, 2], object)
        calls = [
            ("normaliser is .*not a text", [], lambda x_: h.attention(*x, normaliser=x_)), ("precision is .*not one of", "", lambda x_: h.attention(*x, precision=x_)),
            ("precision is .*not one of", "", lambda x_: r.attention(*x, precision=x_)), ("precision is .*not one of", "f61", lambda x_: r.choice(*x[:2], precision=x_)),
            ("order is .*not one of", [], graph.order), ("rule is .*not one of", [], lambda x_: hga.bpt(8, rule=x_)), ("share is .*not one of", [], lambda x_: hga.routed(8, share=x_)),
            ("repeated is .*not one of", [], lambda x_: hga.Graph.from_edges([0], [1], 2, repeated=x_)), ("lse is .*neither", "no", lambda x_: h.attention(*x, lse=x_)),
            ("max_edges is .*not a whole", "9", lambda x_: h.view(max_edges=x_)), ("dropout is .*not a number", "a", lambda x_: r.attention(*x, dropout=x_)),
        ]  # fmt: skip
        wide = np.zeros((40, 40), "c8")
        for call in (lambda: h.attention(*x, lse=wide), lambda: h.attention(*x, scale=wide), lambda: h.attention(*x, precision=wide), lambda: h.attention(*x, normaliser=wide),
                     lambda: h.attention(*x, layout=wide), lambda: h.attention(*x, seed=wide)):  # fmt: skip
            with self.assertRaisesRegex(hga.Error, r"^.{9,200}$") as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))
        lists = [("needs_grad", lambda x_: h.gradient(*x, x[0], needs_grad=x_)), ("parts", hga.concatenated), ("relations", lambda x_: graph.hierarchy(x_)), ("kinds", h.with_kinds)]
        calls += [(f"{what} is .*not a list", wrong, call) for what, call in lists for wrong in (3, "near", np.array(3))]
        for says, wrong, call in calls:
            for given in (wrong, array) if "a list" not in says else (wrong,):
                with self.subTest(says=says, given=given), self.assertRaisesRegex(hga.Error, says):
                    call(given)
        for wrong in (np.nan, np.inf, 1e40):
            refused(self, "negative_slope is .*no finite number of float32", lambda: h.additive_scores(wrong))
        self.assertEqual((h.gradient(*x, x[0], needs_grad=[]), [*h.gradient(*x, x[0], needs_grad=(n for n in ["key"]))]), ({}, ["key"]))

    @needs("torch")
    def test_torchs_functions_check_theirs_too(self):
        import hga.torch as ht

        x, h = torch.zeros(1, 2, 8, 4), hga.window(8, left=1)
        nested = torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(3, 4)])

        def mask(*sizes, **more):
            return ht.create_block_mask(lambda b, h, i, j: i >= j, *sizes, **more)

        refused_each(self, (
            ("lse is .*neither", lambda: ht.attention(h, x, x, x, lse=x)), ("query has layout nested", lambda: h.attention(nested, x, x)),
            ("B is -1", lambda: mask(-1, None, 8, 8)), ("H is 1.5, not a whole", lambda: mask(None, 1.5, 8, 8)), ("Q_LEN is None", lambda: mask(None, None, None, 8)),
            ("KV_LEN is -8", lambda: mask(None, None, 8, -8)), ("BLOCK_SIZE is 0", lambda: mask(None, None, 8, 8, BLOCK_SIZE=0)), ("BLOCK_SIZE is .*not a whole", lambda: h.to_block_mask(())),
            ("BLOCK_SIZE is 2147483647 x 2147483647: a block may have", lambda: h.to_block_mask(2**31 - 1)), ("BLOCK_SIZE is 1 x 134217728", lambda: h.to_block_mask((1, 2**27))),
            ("2147483647 x 1 x 8 x 8 blocks is more than 2147483648", lambda: mask(2**31 - 1, None, 8, 8, BLOCK_SIZE=1)),
            ("1 x 1 x 1048576 x 1048576 blocks is more", lambda: mask(None, None, 2**20, 2**20, BLOCK_SIZE=1)),
            ("device is 'cuda', not 'cpu'", lambda: mask(None, None, 8, 8, "cuda")), ("device is 'meta'", lambda: mask(None, None, 8, 8, device=torch.device("meta").type)),
            ("device is 'disc', not 'cpu'", lambda: mask(None, None, 8, 8, device="disc")), ("device is 128, not 'cpu'", lambda: mask(None, None, 8, 8, 128)),
            ("concat is 'no', neither", lambda: ht.GATConv(4, 4, concat="no")), ("beta is 2, neither", lambda: ht.TransformerConv(4, 4, beta=2)),
            ("add_self_loops is 'no', neither", lambda: ht.GATv2Conv(4, 4, add_self_loops="no")), ("causal is 'no', neither", lambda: ht.Attention("dense", 8, 2, causal="no")),
        ))  # fmt: skip

    @needs("torch")
    def test_a_block_mask_may_name_the_device_that_there_is(self):
        import hga.torch as ht

        want = ht.create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40, BLOCK_SIZE=8).to_dense()
        for device in ("cpu", None, torch.device("cpu"), "cpu:0"):
            mask = ht.create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40, device, 8)
            self.assertTrue(torch.equal(mask.to_dense(), want))

    def test_masked_arrays_are_refused_wherever_arrays_go(self):
        x, n = np.ones((2, 8, 4), np.float32), 8
        hidden, row, ids = np.ma.masked_less(x, 2), np.ma.array(np.ones(2, np.float32), mask=[0, 1]), np.ma.array([0, 1], mask=[0, 1])
        bools = np.ma.array(np.ones((n, n), bool), mask=np.eye(n, dtype=bool))
        h, edges = hga.dense(n), hga.Graph.from_edges([0, 1], [1, 0], 2)
        rel = hga.bpt(n, k=1)
        for what, call in (
            ("query", lambda: h.attention(hidden, x, x)), ("key", lambda: h.attention(x, hidden, x)), ("value", lambda: h.attention(x, x, np.ma.array(x))),
            ("d_out", lambda: h.gradient(x, x, x, hidden)), ("sink", lambda: h.attention(x, x, x, sink=row)), ("slopes", lambda: h.attention(x, x, x, slopes=row)),
            ("scale", lambda: h.attention(x, x, x, scale=np.ma.array([0.5], mask=[1]))), ("edge_bias", lambda: edges.hierarchy().attention(x[:, :2], x[:, :2], x[:, :2], edge_bias=row)),
            ("rel_bias", lambda: rel.attention(*[np.ones((2, rel.graph.n_nodes, 4), np.float32)] * 3, rel_bias=row)),
            ("query", lambda: h.weights(hidden, x, 0, 0)), ("the mask", lambda: hga.Graph.from_mask(bools)), ("the mask", lambda: hga.Graph.from_mask(lambda i, j: np.ma.array(i == j), n=n)),
            ("source", lambda: hga.Graph.from_edges(ids, [1, 0], 2)), ("destination", lambda: hga.Graph.from_edges([1, 0], ids, 2)),
            ("weight", lambda: hga.Graph.from_edges([0, 1], [1, 0], 2, weight=row)), ("type", lambda: hga.Graph.from_edges([0, 1], [1, 0], 2, type=ids)),
            ("parent", lambda: hga.hsa(parent=np.ma.array([2, 2, -1]))), ("query_segment", lambda: hga.segments(query_segment=ids, key_segment=[0, 1])),
            ("segments", lambda: hga.dilated(8, segments=np.ma.array([4, 8]))), ("a linkage", lambda: hga.Graph.from_linkage(np.ma.array([[0, 1, 1.0, 2]]))),
            ("choice", lambda: hga.routed(n, block=2, k=1).attention(x, x, x, choice=np.ma.zeros((2, n, 1), np.int32))),
            ("query", lambda: hga.dense(n, causal=True).decoder(heads=2, dim=4).cache().append(hidden, x, x)), ("query", lambda: hga.choose(hidden, x, x)),
        ):  # fmt: skip
            with self.subTest(what), self.assertRaisesRegex(hga.Error, f"{what} is a masked array, and hga would read what its mask hides"):
                call()

    def test_a_parameter_is_given_once(self):
        for words, what in (
            ("window:left=3:left=5", "left"), ("hsa branching=2,4 branching=3", "branching"), ("routed:block=8:k=2:k=2", "k"), ("window:tokens=20", "tokens"),
        ):  # fmt: skip
            with self.subTest(words), self.assertRaisesRegex(hga.Error, f"{what} is given twice"):
                hga.build(words, 20)
        if torch:
            import hga.torch as ht

            with self.assertRaisesRegex(hga.Error, "window:left=3:left=5: window: left is given twice"):
                ht.Attention("window:left=3:left=5", 8, 2)
            for words in ("window:tokens=20", "dense:keys=5"):
                with self.assertRaisesRegex(hga.Error, f"{words}: how many tokens and keys there are is not said here"):
                    ht.Attention(words, 8, 2)

    def test_words_say_all_that_keywords_do(self):
        axes = hga.neighbourhood(shape=[4, 5], kernel=3, causal=[True, False])
        for words, n, want in (
            ("dense tokens=5 keys=7", 0, hga.dense(5, n_keys=7)), ("hsa parent=2,2,-1", 0, hga.hsa(parent=[2, 2, -1])), ("hsa:parent=2,2,-1", 2, hga.hsa(parent=[2, 2, -1])),
            ("neighbourhood shape=4,5 kernel=3 causal=1,0", 0, axes), ("treeformer-fine query_leaf=0,1,1", 0, hga.treeformer_fine(query_leaf=[0, 1, 1])),
        ):  # fmt: skip
            with self.subTest(words):
                h = hga.build(words, n)
                self.assertEqual(h, want)
                self.assertEqual((pickle.loads(pickle.dumps(h)), h.words), (want, words))
        for words, says in (("dense", "dense needs n_tokens"), ("hsa", "hsa needs branching=, or parent="), ("window global_=1", "did you mean 'global'")):
            with self.subTest(words), self.assertRaisesRegex(hga.Error, says):
                hga.build(words, 0)

    def test_a_colon_stands_between_words_alone(self):
        from hga._graphs.spec import Spec

        lead, trail = "begins with its name, not with a colon", "ends with a colon"
        for words, said in (":window", lead), (" :routed:block=2", lead), (":", lead), ("window:left=3:", trail), ("routed: ", trail):
            for read in Spec, lambda words: hga.build(words, 20):
                with self.subTest(words), self.assertRaisesRegex(hga.Error, said):
                    read(words)

    def test_words_are_read_as_the_library_reads_them(self):
        from hga._graphs.spec import Spec

        same, other = ["window:left=3", "window left=+3", "window:causal=True", "window:causal", "window causal=no left=3",
                       "\twindow :left=03\n", "hsa:branching=2,4:causal=1", "routed:block=2:threshold=.5e0"], [
            "window:left=1_0", "window:left=\u0663", "window\u00a0left=3", "window:left=\x0b3", "window:causal=2", "hsa:branching=2,",
            "hsa:branching=,2", "hsa:branching=2,1_6", "routed:threshold=nan", "routed:threshold=1_0.5", "window:left=3.0", "window:left==3", "a\nb",
            "window:left=3\n:right=x\n", "w" * 500, "", "\n", "window:le\x07ft=3", "window:left=3\0", "window:left=\ud800",
        ]  # fmt: skip
        for words in same:
            built, own = hga.build(words, 24), Spec(words).build(24, False)
            if not words.startswith("routed"):
                self.assertTrue(all(np.array_equal(built.edges(r), own.edges(r)) for r in built.graph.relations), words)
        for words in other:
            for make in (lambda: hga.build(words, 24), lambda: Spec(words).build(24, False)):
                with self.subTest(words), self.assertRaises(hga.Error) as refused:
                    make()
                self.assertNotIn("\n", str(refused.exception))

    def test_texts_end_where_they_end(self):
        b, folder = hga.Builder(), scratch(self)
        b.level(3)
        graph, path = hga.Graph.from_edges([0], [1], 2), f"{folder}/a\0b.json"
        decoder = hga.dense(4, causal=True).decoder(heads=1, dim=4)
        for what, call in (
            ("kind 'a\\x00b'", lambda: b.kinds(0, 1, "a\0b")), ("kind 'a\\x00b'", lambda: graph.with_kinds(["a\0b"])),
            ("relation 'a\\x00b'", lambda: b.relation("a\0b")), ("relation 'near\\x00'", lambda: graph.edges("near\0")),
            ("field 'a\\x00b'", lambda: hga.Program(graph).field("a\0b", "dim")), ("variant 'dense\\x00x'", lambda: hga.build("dense\0x", 4)),
            ("file '", lambda: graph.write(path)), ("file '", lambda: hga.Graph.read(path)), ("file '", lambda: hga.read(path)),
            ("file '", lambda: graph.hierarchy().write(path)), ("file '", lambda: decoder.cache().write(path)), ("file '", lambda: decoder.read(path)),
            ("file '", lambda: graph.hierarchy().view(path)), ("file '", lambda: hga.Graph.from_folder(path)),
        ):  # fmt: skip
            with self.subTest(what), self.assertRaises(hga.Error) as caught:
                call()
            self.assertTrue(str(caught.exception).startswith(what) and str(caught.exception).endswith("' has a NUL inside"), caught.exception)
        self.assertEqual(os.listdir(folder), [])
        refused(self, r"kind: '\\udc80' is not a character of UTF-8", lambda: graph.with_kinds(["\udc80"]))

    def test_errors_are_of_the_kinds_that_people_catch(self):
        h, (q, k, v) = hga.dense(20), tensors(20)
        with tempfile.TemporaryDirectory() as folder:
            bad = os.path.join(folder, "bad.json")
            with open(bad, "w") as file:
                file.write("{")
            cases = [
                (lambda: hga.bpt(9, k=0), ValueError, "HGA_EINVAL"), (lambda: h.attention(q, k, v, layout="x"), ValueError, "HGA_EINVAL"),
                (lambda: hga.bpt(9, kk=1), TypeError, "HGA_EINVAL"), (lambda: hga.bpt("9"), TypeError, "HGA_EINVAL"),
                (lambda: hga.bpt(9, kk=1), ValueError, "HGA_EINVAL"),
                (lambda: hga.htransformer(9, causal=True, interpolation="linear"), NotImplementedError, "HGA_EUNSUPPORTED"),
                (lambda: hga.htransformer(9, causal=True, interpolation="linear"), ValueError, "HGA_EUNSUPPORTED"),
                (lambda: hga.read(bad), ValueError, "HGA_EFORMAT"), (lambda: hga.read("/nowhere/x"), OSError, "HGA_EIO"),
                (lambda: h.write("/nowhere/x.json"), OSError, "HGA_EIO"), (lambda: hga.Program(h.graph).hierarchy().attention(q, k, v), ValueError, None),
            ]  # fmt: skip
            for i, (call, kind, status) in enumerate(cases):
                with self.subTest(i), self.assertRaises(hga.Error) as caught:
                    call()
                self.assertIsInstance(caught.exception, kind)
                self.assertEqual(caught.exception.status, status or caught.exception.status)
                self.assertEqual(str(caught.exception), caught.exception.detail)
        from hga._core.library import Error

        self.assertIsInstance(Error("HGA_ENOMEM", "no room"), MemoryError)
        self.assertNotIsInstance(Error("HGA_ENOMEM", "no room"), ValueError)
        self.assertNotIsInstance(Error("HGA_EEXTERNAL", "METIS failed"), ValueError)
        self.assertEqual(Error("HGA_EIO", "x").errno, None)

    def test_memory_that_is_not_there_is_a_memory_error(self):
        script = """
import resource, sys, hga, numpy as np
h, q = hga.dense(4000), np.zeros((1, 4000, 64), np.float32)
h.attention(q, q, q, threads=1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
try:
    hga.bpt(1 << 22)
except MemoryError as e:
    print(isinstance(e, hga.Error), e.status)
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual(run.stdout, "True HGA_ENOMEM\n", run.stderr)


class Looking(unittest.TestCase):
    def test_check_says_whether_a_hierarchy_is_causal(self):
        for h, causal in ((hga.dense(9), False), (hga.dense(9, causal=True), True), (hga.fenwick(9), True), (hga.window(9, right=0), True),
                          (hga.htransformer(64, causal=True), True), (hga.hsa(16, branching=2, causal=True, mode="self"), False)):  # fmt: skip
            found = h.check()
            self.assertEqual((found["causal"], h.is_causal()), (causal, causal), h)
            self.assertTrue(all(value for name, value in found.items() if name != "causal"))
        self.assertNotIn("causal", hga.dense(9, n_keys=4).check())  # two texts have no common order

    def test_a_tree_of_parents_counts_every_pair_once(self):
        rng = np.random.default_rng(3)
        parents = [[4, 4, 5, 5, 6, 6, -1], [-1], [1, -1], [2, 2, 3, -1], [3, 3, 4, 5, 5, -1], [8, 8, 8, 9, 9, 10, 10, 10, 11, 11, 11, -1]]
        for _ in range(20):  # nodes may be in any order, trees of any shape
            n = int(rng.integers(2, 30))
            tree = np.array([rng.integers(i + 1, n) if i < n - 1 else -1 for i in range(n)])
            place = rng.permutation(n)
            turned = np.empty(n, int)
            turned[place] = [place[p] if p >= 0 else -1 for p in tree]
            parents.append(turned.tolist())
        for p in parents:
            h = hga.Graph.from_parents(p).hierarchy()
            c = h.coverage()
            self.assertEqual((c.once, c.more, c.none), (h.n_tokens**2, 0, 0), p)

    def test_a_tree_of_parents_sees_masses_of_tokens(self):
        q, k, v = tensors(4, heads=1, dim=4, batch=())
        out = hga.Graph.from_parents([4, 4, 5, 5, 6, 6, -1]).hierarchy().attention(np.zeros_like(q), k, v)
        self.assertLess(abs(out - v.mean(1, keepdims=True)).max(), 1e-6)  # all scores equal: the mean of all tokens

    def test_trees_side_by_side_do_not_see_each_other(self):
        h = hga.Graph.from_parents([4, 4, 5, 5, -1, -1, -1]).hierarchy()
        self.assertEqual(h.coverage().once, 4 + 4 + 1)  # two pairs of siblings, and a token alone
        self.assertEqual(h.coverage().more, 0)
