"""networkx's graphs: any nodes, whose names and attributes come back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._core.progress import Tell, each
from .edges import into, weights_of

if TYPE_CHECKING:
    from .graph import Graph


class Labels(NamedTuple):
    """What networkx said of a graph: by hga's numbers of nodes, which node it was and its attributes; attributes of edges, where
    they have any; those of the graph."""

    nodes: List[Hashable]
    of_nodes: List[Dict[Any, Any]]
    of_edges: Dict[Tuple[int, int], Dict[Any, Any]]
    of_graph: Dict[Any, Any]
    directed: bool = True

    def renumbered(self, order: Sequence[int]) -> "Labels":
        """Node order[i] gets the number i."""
        new = {int(old): i for i, old in enumerate(order)}
        edges = {(new[u], new[v]): data for (u, v), data in self.of_edges.items()}
        return Labels([self.nodes[i] for i in order], [self.of_nodes[i] for i in order], edges, self.of_graph, self.directed)


def _ordered(graph: Any) -> List[Hashable]:
    """The nodes by their number: where they are 0 .. n - 1 each is its own, else they go as networkx has them."""
    n = graph.number_of_nodes()
    return list(range(n)) if set(graph.nodes) == set(range(n)) else list(graph.nodes)


def _name(node: Hashable, number: int, data: Dict[Any, Any]) -> Optional[str]:
    name = data.get("name")
    return name if isinstance(name, str) else None if node == number else str(node)


def _types(edges: Sequence[Dict[Any, Any]]) -> Optional[np.ndarray]:
    """Types as hga writes them, where every edge has one."""
    declared = [data.get("type") for data in edges]
    if not declared or any(type(t) is not int or not 0 <= t < 2**31 for t in declared):
        return None
    return np.asarray(declared, np.int32)


class Read(NamedTuple):
    """What is read of a networkx graph before it is one of hga's."""

    graph: Any
    nodes: List[Hashable]
    ends: np.ndarray  # [edges][2] numbers of nodes
    edges: List[Dict[Any, Any]]
    types: Optional[np.ndarray]
    weights: Optional[np.ndarray]

    def names(self, at: Sequence[int]) -> List[Optional[str]]:
        """Of nodes by these numbers."""
        return [_name(self.nodes[i], i, self.graph.nodes[self.nodes[i]]) for i in at]

    def labels(self, node_of: Sequence[int], at: Sequence[int], tell: Tell) -> Labels:
        """node_of: where each went; at: what came where."""
        of_edges: Dict[Tuple[int, int], Dict[Any, Any]] = {}
        for (u, v), d in each(zip(self.ends.tolist(), self.edges), len(self.edges), tell, 2 / 3, 1):
            more = {key: value for key, value in d.items() if key != "weight" and not (key == "type" and self.types is not None)}
            for a, b in ((u, v),) if self.graph.is_directed() else ((u, v), (v, u)):
                if more:
                    of_edges.setdefault((node_of[a], node_of[b]), more)
        nodes = [self.nodes[i] for i in at]
        return Labels(nodes, [dict(self.graph.nodes[node]) for node in nodes], of_edges, dict(self.graph.graph), self.graph.is_directed())


def read(graph: Any, weights: Optional[str], tell: Tell) -> Read:
    nodes = _ordered(graph)
    number = {node: i for i, node in enumerate(nodes)}
    n = graph.number_of_edges()  # which are read three times
    ends = np.fromiter((number[v] for e in each(graph.edges(), n, tell, 0, 1 / 3) for v in e[:2]), np.int64).reshape(-1, 2)
    edges = [d for _, _, d in each(graph.edges(data=True), n, tell, 1 / 3, 2 / 3)]

    def edge(i: int) -> str:
        u, v = ends[i].tolist()
        return f"edge {nodes[u]!r} - {nodes[v]!r}"

    weight = weights_of([d.get("weight") for d in edges], weights, edge)
    return Read(graph, nodes, ends, edges, _types(edges), weight)


def _goes_both_ways(edges: Sequence[Tuple[int, int, int, float]]) -> bool:
    """Is each edge there the other way round, as often, of the same type and weight?"""
    count = Counter(edges)
    return all(count[(d, s, t, w)] == n for (s, d, t, w), n in count.items())


def networkx_of(graph: "Graph", relation: Optional[str], tell: Tell) -> Any:
    import networkx

    e, weights = into(graph, relation)
    more = [{"weight": w} for w in weights.tolist()] if graph._is_weighted(relation) else [{}] * len(e)
    labels = graph._labels or _own_labels(graph)
    every = [(s, d, t, w) for (s, d, t), w in zip(e.tolist(), weights.tolist())]
    undirected = not labels.directed and _goes_both_ways(every)
    g = networkx.MultiGraph() if undirected else networkx.MultiDiGraph()
    g.graph.update(labels.of_graph)
    g.add_nodes_from(zip(labels.nodes, labels.of_nodes))
    near = graph._relation(relation) == 0
    for (s, d, t), w in each(zip(e.tolist(), more), len(e), tell):
        if undirected and s > d:
            continue
        u, v = labels.nodes[s], labels.nodes[d]
        key = g.add_edge(u, v, type=t, **w)
        if near and (s, d) in labels.of_edges:
            g.edges[u, v, key].update(labels.of_edges[s, d])
    return g


def _own_labels(graph: "Graph") -> Labels:
    """Numbers, and the names that nodes have."""
    names = [graph.name(node) for node in range(graph.n_nodes)]
    return Labels(list(range(graph.n_nodes)), [{} if name is None else {"name": name} for name in names], {}, {})
