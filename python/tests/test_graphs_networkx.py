"""Graphs of networkx come with any nodes, and their names and attributes go there and back."""

import copy
import pickle
import unittest

import hga
import numpy as np
from shared import needs, package, refused

networkx = package("networkx")


def people():
    g = networkx.DiGraph(made="by hand")
    g.add_node("Ruth", age=31)
    g.add_node(("Amos", 2), name="Amos the second")
    g.add_node(frozenset({7}))
    g.add_edge("Ruth", ("Amos", 2), weight=2.5, since=1984)
    g.add_edge(("Amos", 2), frozenset({7}), **{"type": "friend"})
    g.add_edge(frozenset({7}), "Ruth")
    return g


@needs("networkx")
class Networkx(unittest.TestCase):
    def assertComesBack(self, g, graph):
        back = graph.to_networkx()
        self.assertEqual(dict(back.nodes(data=True)), dict(g.nodes(data=True)))
        self.assertEqual(back.graph, g.graph)
        found = {(u, v): {k: x for k, x in d.items() if k in g.edges[u, v]} for u, v, d in back.edges(data=True)}
        self.assertEqual(found, {(u, v): d for u, v, d in g.edges(data=True)})

    def test_any_nodes_with_their_attributes_come_back(self):
        g = people()
        graph = hga.Graph.from_networkx(g)
        self.assertComesBack(g, graph)
        self.assertEqual([graph.name(i) for i in range(3)], ["Ruth", "Amos the second", "frozenset({7})"])
        np.testing.assert_array_equal(graph.edges()[:, :2], [[2, 0], [0, 1], [1, 2]])

    def test_copies_pickles_and_other_numbers_keep_them(self):
        g = people()
        graph = hga.Graph.from_networkx(g)
        for same in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), graph.renumber([2, 0, 1])):
            self.assertComesBack(g, same)
        self.assertComesBack(g, pickle.loads(pickle.dumps(graph.hierarchy())).graph)
        self.assertEqual(graph.renumber([2, 0, 1]).name(1), "Ruth")

    def test_a_tree_over_them_moves_them(self):
        g = networkx.Graph([("top", "a"), ("a", "b")])
        graph = hga.Graph.from_networkx(g, parents=[-1, 0, 0])
        self.assertEqual(graph.level_sizes, [2, 1])
        self.assertEqual([graph.name(i) for i in range(3)], ["a", "b", "top"])
        self.assertEqual({frozenset(e) for e in graph.to_networkx().edges()}, {frozenset(e) for e in g.edges()})

    def test_undirected_edges_have_their_attributes_both_ways(self):
        g = networkx.Graph()
        g.add_edge("x", "y", colour="red")
        back = hga.Graph.from_networkx(g).to_networkx()
        self.assertEqual([back.edges[u, v, 0]["colour"] for u, v in (("x", "y"), ("y", "x"))], ["red", "red"])

    def test_undirected_graphs_come_back_undirected(self):
        g = networkx.Graph([("x", "y"), ("y", "z"), ("z", "z")])
        g.add_edge("x", "z", weight=2.5)
        graph = hga.Graph.from_networkx(g)
        for same in (graph, pickle.loads(pickle.dumps(graph)), graph.renumber([2, 0, 1])):
            back = same.to_networkx()
            self.assertFalse(back.is_directed())
            self.assertEqual({frozenset(e) for e in back.edges()}, {frozenset(e) for e in g.edges()})
            self.assertEqual(back.number_of_edges(), 4)
            self.assertEqual(back.edges["z", "x", 0]["weight"], 2.5)
            self.assertEqual(hga.Graph.from_networkx(back), same)
        self.assertEqual(back.number_of_edges("z", "z"), 1)
        twice = networkx.MultiGraph([("x", "y"), ("x", "y")])
        self.assertEqual([w for _, _, w in hga.Graph.from_networkx(twice, repeated="sum").to_networkx().edges(data="weight")], [2])
        self.assertTrue(hga.Graph.from_networkx(g.to_directed()).to_networkx().is_directed())

    def test_edges_that_no_longer_go_both_ways_are_directed(self):
        graph = hga.Graph.from_networkx(networkx.Graph([("x", "y")]))
        graph._labels = graph._labels._replace(of_edges={})
        one_way = hga.Graph.from_edges([0], [1], 2)
        one_way._labels = graph._labels
        self.assertTrue(one_way.to_networkx().is_directed())

    def test_numbers_are_their_own_names(self):
        g = networkx.DiGraph([(2, 0), (1, 2)])
        graph = hga.Graph.from_networkx(g)
        self.assertEqual(graph, hga.Graph.from_edges([2, 1], [0, 2], 3))
        self.assertIsNone(graph.name(0))

    def test_names_and_types_of_hgas_own_graphs_come_back(self):
        graph = hga.Graph.from_edges([0, 1, 1], [1, 0, 2], 3, type=[3, 1, 0], weight=[1, 2, 1])
        named = hga.Graph.from_networkx(networkx.relabel_nodes(graph.to_networkx(), {0: "a", 1: "b", 2: "c"}))
        self.assertEqual([named.name(i) for i in range(3)], ["a", "b", "c"])
        np.testing.assert_array_equal(named.edges(), graph.edges())
        named._labels = None
        self.assertEqual([d["name"] for _, d in named.to_networkx().nodes(data=True)], ["a", "b", "c"])
        self.assertEqual(hga.Graph.from_networkx(named.to_networkx()), named)

    def test_edges_between_the_same_nodes_have_one_weight_or_are_counted(self):
        g = networkx.MultiGraph()
        g.add_edge("a", "b", weight=2)
        g.add_edge("b", "a", weight=3)
        for repeated in (None, "once"):
            with self.assertRaisesRegex(hga.Error, "edges between 'a' and 'b' have the weights 2 and 3: repeated='sum' counts each, weights='ignore' takes edges without weights"):
                hga.Graph.from_networkx(g, repeated=repeated)
        refused(self, "repeated is 'twice', not one of once, sum", lambda: hga.Graph.from_networkx(g, repeated="twice"))
        v = np.array([[[1.0], [5.0]]], np.float32)  # b has 5 edges' weight from a, none of its own
        x = np.zeros((1, 2, 1), np.float32)
        summed = hga.Graph.from_networkx(g, repeated="sum")
        np.testing.assert_array_equal(summed.hierarchy().attention(x, x, v), [[[5.0], [1.0]]])
        self.assertEqual(len(hga.Graph.from_networkx(g, repeated="once", weights="ignore").edges()), 2)
        d = networkx.MultiDiGraph()
        d.add_edge("a", "b", weight=2)
        d.add_edge("b", "a", weight=3)  # another edge
        d.add_edge("a", "b", weight=2)
        self.assertEqual(len(hga.Graph.from_networkx(d, repeated="once").edges()), 2)
        d.add_edge("a", "b")
        refused(self, "edges from 'a' to 'b' have the weights 2 and 1", lambda: hga.Graph.from_networkx(d))
        d = networkx.MultiDiGraph()
        d.add_edge("a", "b", weight=2, type=0)
        d.add_edge("a", "b", weight=3, type=1)  # of another type
        self.assertEqual(len(hga.Graph.from_networkx(d).edges()), 2)

    def test_a_weight_that_is_no_number_is_named_with_its_edge(self):
        for weight, words in (("heavy", "'heavy' is a text, not a number"), ("2", "'2' is a text, not a number"), ([1, 2], r"\[1, 2\] is not a number"), (1j, "1j is not a number"),
                              (-1, "-1 is not positive and finite"), (float("nan"), "nan is not positive and finite"), ({}, "{} is not a number")):  # fmt: skip
            g = networkx.Graph()
            g.add_edge("a", "b", weight=2.5)
            g.add_edge("b", "c")
            g.add_edge("c", "d", weight=weight)
            with self.assertRaisesRegex(hga.Error, f"edge 'c' - 'd': weight {words}; weights='ignore' takes edges without weights"):
                hga.Graph.from_networkx(g)
            self.assertEqual(len(hga.Graph.from_networkx(g, weights="ignore").edges()), 6)
        g = networkx.Graph()
        g.add_edge("a", "b", weight=np.float16(2.5))
        g.add_edge("b", "c", weight=True)
        self.assertEqual(len(hga.Graph.from_networkx(g).edges()), 4)

    def test_attention_over_names_is_attention_over_numbers(self):
        g = networkx.karate_club_graph()
        named = networkx.relabel_nodes(g, {i: f"member {i}" for i in g})
        x = np.random.default_rng(1).standard_normal((1, 34, 8), np.float32)
        a, b = (hga.Graph.from_networkx(one).hierarchy().attention(x, x, x) for one in (g, named))
        np.testing.assert_array_equal(a, b)
