"""networkx's graphs: any nodes, whose names and attributes come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._core.values import check, ffi, lib
from .._core.progress import Tell, each

if TYPE_CHECKING:
    from .graph import Graph


class Labels(NamedTuple):
    """What networkx said of a graph: by hga's numbers of nodes, which node it was and its attributes; attributes of edges, where
    they have any; those of the graph."""

    nodes: List[Hashable]
    of_nodes: List[Dict[Any, Any]]
    of_edges: Dict[Tuple[int, int], Dict[Any, Any]]
    of_graph: Dict[Any, Any]

    def renumbered(self, order: Sequence[int]) -> "Labels":
        """Node order[i] gets the number i."""
        new = {int(old): i for i, old in enumerate(order)}
        edges = {(new[u], new[v]): data for (u, v), data in self.of_edges.items()}
        return Labels([self.nodes[i] for i in order], [self.of_nodes[i] for i in order], edges, self.of_graph)


def _ordered(graph: Any) -> List[Hashable]:
    """The nodes by their number: where they are 0 .. n - 1 each is its own, else they go as networkx has them."""
    n = graph.number_of_nodes()
    return list(range(n)) if set(graph.nodes) == set(range(n)) else list(graph.nodes)


def _name(node: Hashable, number: int, data: Dict[Any, Any]) -> Optional[str]:
    name = data.get("name")
    return name if isinstance(name, str) else None if node == number else str(node)


def named(graph: "Graph", names: Sequence[Optional[str]]) -> "Graph":
    """The same graph, whose nodes have names."""
    from .graph import Graph

    if all(name is None for name in names):
        return graph
    alive = [ffi.NULL if name is None else ffi.new("char[]", name.encode("utf-8", "replace").replace(b"\0", b" ")) for name in names]
    out = ffi.new("hga_graph **")
    check(lib.hga_graph_set_names(graph._g, ffi.new("char *[]", alive), len(alive), out))
    return Graph(out[0])


def _types(edges: Sequence[Dict[Any, Any]]) -> Optional[np.ndarray]:
    """Types as hga writes them, where every edge has one."""
    declared = [data.get("type") for data in edges]
    if not declared or any(type(t) is not int or not 0 <= t < 2**31 for t in declared):
        return None
    return np.asarray(declared, np.int32)


def graph_of(graph: Any, parents: Any, repeated: Optional[str], weights: Optional[str], tell: Tell) -> "Graph":
    from .graph import Builder, Graph, graph_of_pairs, weights_of

    nodes = _ordered(graph)
    number = {node: i for i, node in enumerate(nodes)}
    n = graph.number_of_edges()  # which are read three times
    pairs = np.fromiter((number[v] for e in each(graph.edges(), n, tell, 0, 1 / 3) for v in e[:2]), np.int64).reshape(-1, 2)
    data = [d for _, _, d in each(graph.edges(data=True), n, tell, 1 / 3, 2 / 3)]
    types = _types(data)

    def edge(i: int) -> str:
        u, v = pairs[i].tolist()
        return f"edge {nodes[u]!r} - {nodes[v]!r}"

    weight = weights_of([d.get("weight") for d in data], weights, edge)
    made = graph_of_pairs(pairs, len(nodes), graph.is_directed(), parents, repeated, weight, types, nodes)
    if not isinstance(made, Graph):  # of torch.compile
        return made
    node_of = np.asarray(Builder()._add_tree(len(nodes), parents)).tolist()
    at = sorted(range(len(nodes)), key=node_of.__getitem__)
    made = named(made, [_name(nodes[i], i, graph.nodes[nodes[i]]) for i in at])
    of_edges: Dict[Tuple[int, int], Dict[Any, Any]] = {}
    for (u, v), d in each(zip(pairs.tolist(), data), n, tell, 2 / 3, 1):
        more = {key: value for key, value in d.items() if key != "weight" and not (key == "type" and types is not None)}
        for ends in ((u, v),) if graph.is_directed() else ((u, v), (v, u)):
            if more:
                of_edges.setdefault((node_of[ends[0]], node_of[ends[1]]), more)
    made._labels = Labels([nodes[i] for i in at], [dict(graph.nodes[nodes[i]]) for i in at], of_edges, dict(graph.graph))
    return made


def networkx_of(graph: "Graph", relation: Optional[str], tell: Tell) -> Any:
    import networkx

    e, weights = graph._weighted_edges(relation, 0, graph.n_nodes)
    more = [{"weight": w} for w in weights.tolist()] if graph._is_weighted(relation) else [{}] * len(e)
    labels = graph._labels or _own_labels(graph)
    g = networkx.MultiDiGraph()
    g.graph.update(labels.of_graph)
    g.add_nodes_from(zip(labels.nodes, labels.of_nodes))
    near = graph._relation(relation) == 0
    for (s, d, t), w in each(zip(e.tolist(), more), len(e), tell):
        u, v = labels.nodes[s], labels.nodes[d]
        key = g.add_edge(u, v, type=t, **w)
        if near and (s, d) in labels.of_edges:
            g.edges[u, v, key].update(labels.of_edges[s, d])
    return g


def _own_labels(graph: "Graph") -> Labels:
    """Numbers, and the names that nodes have."""
    names = [graph.name(node) for node in range(graph.n_nodes)]
    return Labels(list(range(graph.n_nodes)), [{} if name is None else {"name": name} for name in names], {}, {})
