"""Graphs: levels of nodes and relations between them."""

from __future__ import annotations

import os
import weakref
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from .._core.arguments import answered, encoded, flag, listed, meant, whole
from .._core.copies import digest, graph_data, graph_of_data
from .._core.deferred import deferred, new_name, step
from .._core.progress import Tell, bar, reported_by_c, silent
from .._core.library import check, ffi, lib, refuse, refuse_type
from .._core.arrays import ids
from . import edges as edges_of, of_networkx, orders, trees
from .builder import Unfinished, array_at, kind_name, new_graph
from .hierarchy import Hierarchy
from .masks import graph_of_mask

GRAPHS: "weakref.WeakValueDictionary[str, Graph]" = weakref.WeakValueDictionary()  # for torch.compile


class Graph:
    """A hierarchy: nodes in levels (tokens are level 0) and named relations with directed edges. Immutable."""

    def __init__(self, pointer: Any) -> None:
        self._g = ffi.gc(pointer, lib.hga_graph_destroy)
        self._digest: Optional[bytes] = None
        self._name = new_name()
        self._labels: Optional[of_networkx.Labels] = None  # what networkx called its nodes and edges
        GRAPHS[self._name] = self

    # ---- as a value ----

    def _identity(self) -> bytes:
        """32 bytes that equal graphs have in common."""
        if self._digest is None:
            self._digest = digest(self._g)
        return self._digest

    def __eq__(self, other: Any) -> Any:
        """The same nodes, names and relations, stored alike: the same edges as blocks and as explicit edges are two graphs.
        The first time this reads everything that is stored, afterwards 32 bytes; so does ``hash``."""
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __copy__(self) -> "Graph":
        return self

    def __deepcopy__(self, memo: Any) -> "Graph":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_made_again, (graph_data(self),), *([] if self._labels is None else [{"_labels": self._labels}]))

    # ---- made of other people's data ----

    @staticmethod
    @deferred
    @answered
    def from_edges(
        source: Any, destination: Any, n_nodes: Union[int, Tuple[int, int]], type: Any = None, weight: Any = None, parents: Any = None,
        repeated: Optional[str] = None,
    ) -> "Graph":  # fmt: skip
        """Edges source -> destination among n_nodes nodes, relation ``near``; n_nodes may be (sources, destinations), of two
        kinds, each numbered from 0: destinations are the graph's queries, which come first, sources its keys. ``parents``
        ([nodes], -1: none) makes a tree of them; without one every node is a token. An edge given again with the same type
        counts once, and a warning says how many there are. ``repeated="once"`` gives no warning; ``"sum"`` adds their
        weights, so that each counts, as in DGL and PyTorch Geometric."""
        b, n_edges = edges_of.unfinished(source, destination, n_nodes, type, weight, parents, repeated)
        graph = Graph(b._finished())
        again = n_edges - graph.n_edges("near")
        if again and repeated is None:
            edges_of.say(f"{again} of {n_edges} edges repeat another and count once: repeated='sum' counts each, "
                         "repeated='once' is quiet")  # fmt: skip
        return graph

    @staticmethod
    @deferred
    @answered
    def from_edge_index(
        edge_index: Any, n_nodes: Optional[int] = None, type: Any = None, weight: Any = None, parents: Any = None,
        repeated: Optional[str] = None,
    ) -> "Graph":  # fmt: skip
        """PyTorch Geometric's [2][edges] or EdgeIndex: sources, and the destinations that attend to them; or the pattern of
        a sparse matrix of torch's, with a row for each destination. n_nodes: the sizes that these have, else one more than the
        largest; where they are unequal there are two kinds. ``repeated``: as ``from_edges`` takes it, and so of the others below. (Layers of graphs count each
        edge of an edge_index, as ``"sum"`` does.)"""
        index, sizes = edges_of.index_of(edge_index)
        e = ids(index, "edge_index")
        if e.ndim != 2 or e.shape[0] != 2:
            raise refuse(f"edge_index has shape {e.shape}: [2][edges] is needed")
        n = edges_of.n_nodes_of(e, sizes) if n_nodes is None else n_nodes
        return Graph.from_edges(e[0], e[1], n, type, weight, parents, repeated)

    @staticmethod
    @answered
    def from_igraph(
        graph: Any, parents: Any = None, repeated: Optional[str] = None, *, weights: Optional[str] = None
    ) -> "Graph":  # fmt: skip
        """An igraph Graph: an edge u -> v lets v attend to u; undirected edges go both ways. ``weight`` of edges is their
        weight; ``weights="ignore"``: every edge weighs 1."""
        e = np.asarray(graph.get_edgelist(), np.int32).reshape(-1, 2)
        values = graph.es["weight"] if "weight" in graph.es.attributes() else []
        pairs = edges_of.pairs(e, graph.is_directed(), repeated, edges_of.weights_of(values, weights))
        return _of_pairs(pairs, graph.vcount(), parents, repeated)

    @staticmethod
    def from_dgl(graph: Any, parents: Any = None, repeated: Optional[str] = None) -> "Graph":
        """A DGL graph of one kind of nodes and edges: an edge u -> v lets v attend to u. Data of edges is ignored, since no
        name in DGL means weights; give it to ``from_edges``."""
        source, destination = graph.edges()
        return Graph.from_edges(source, destination, graph.num_nodes(), parents=parents, repeated=repeated)

    @staticmethod
    @answered
    def from_scipy(
        matrix: Any, parents: Any = None, repeated: Optional[str] = None, *, weights: Optional[str] = None
    ) -> "Graph":  # fmt: skip
        """A sparse matrix: row i attends to column j; where it is not square, rows are queries and columns keys, as in files. Values other
        than 1 are weights; ``weights="ignore"``: the pattern alone, whatever is stored. Entries that stand twice add up, as in
        scipy, unless ``repeated`` says otherwise."""
        pairs, n_nodes = edges_of.in_matrix(matrix, repeated, weights)
        return _of_pairs(pairs, n_nodes, parents, repeated)

    @staticmethod
    @answered
    def from_networkx(
        graph: Any, parents: Any = None, repeated: Optional[str] = None, *, weights: Optional[str] = None, progress: Optional[bool] = None,
    ) -> "Graph":  # fmt: skip
        """A networkx graph: an edge u -> v lets v attend to u; undirected edges go both ways. Nodes are anything that networkx
        takes, numbered as ``graph.nodes`` has them, or 0 .. n - 1, where each is its own number; ``parents`` is by these
        numbers. ``weight`` of edges is their weight, 1 where one has none; ``weights="ignore"``: every edge weighs 1. ``type``
        is their type where every edge has a whole number. ``name`` of a node, else the node itself, becomes its name, and
        ``to_networkx`` gives the nodes back with all attributes. progress: as ``coarsen`` has it."""
        with bar("reading networkx's edges", progress) as tell:
            read = of_networkx.read(graph, weights, tell)
            n = len(read.nodes)
            pairs = edges_of.pairs(read.ends, graph.is_directed(), repeated, read.weights, read.types, read.nodes)
            made = _of_pairs(pairs, n, parents, repeated)
            if not isinstance(made, Graph):  # of torch.compile
                return made
            node_of = Unfinished()._add_tree(n, parents)
            at = np.argsort(node_of).tolist()
            made = made._with_names(read.names(at))
            made._labels = read.labels(node_of.tolist(), at, tell)
            return made

    @staticmethod
    @deferred
    def from_parents(parents: Any, *, progress: Optional[bool] = None) -> "Graph":
        """A tree given by parents ([nodes], -1: a root): every node attends to its siblings, and tokens, which are the leaves,
        to themselves as well (relation ``near``). With ``hierarchy()`` a token sees every token of its tree once: those of
        its family as they are, the others in the nodes beside those above it. A path instead names a .csv file of a node and
        its parent a line, names of any sort; roots have no parent. Its first line may name the columns, of which one is the
        parent ("id,parent", "parent,child"). ``hga.hsa(parent=graph.parents(), leaves="id")`` is HSA on it,
        and on the trees of the next four, whose tokens are theirs. progress: as ``coarsen`` has it."""
        with bar("families", progress) as tell:
            if isinstance(parents, (str, os.PathLike)):
                return _of_tree(trees.of_table(parents), tell)
            return _of_tree(trees.Tree(ids(parents, "parents"), [], []), tell)

    @staticmethod
    def from_linkage(linkage: Any) -> "Graph":
        """The tree of a clustering, as scipy.cluster.hierarchy.linkage gives it ([merges][4]), as ``from_parents`` makes one: token
        i is observation i."""
        return _of_tree(trees.of_linkage(linkage))

    @staticmethod
    def from_markdown(document: Any) -> "Graph":
        """The tree of a Markdown text, or of the file at a pathlib.Path, as ``from_parents`` makes one: sections, paragraphs, lists
        and sentences, whose words are the tokens. Nodes have names, and kinds."""
        return _of_tree(trees.of_document(document, "Markdown"))

    @staticmethod
    def from_html(document: Any) -> "Graph":
        """The same of an HTML page."""
        return _of_tree(trees.of_document(document, "HTML"))

    @staticmethod
    def from_folder(path: Any, *, lines: bool = False) -> "Graph":
        """The tree of a folder, as ``from_parents`` makes one: tokens are the files, by folder and name. Folders without files are
        left out; links are not followed. Nodes have names, and kinds "file" and "folder". ``lines``: tokens are the files' lines,
        in functions and classes ("function") where universal-ctags is there and knows them; left out is what begins with a
        dot, links, pipes, files above 4 MiB or without UTF-8 text, and lines without anything on them."""
        return _of_tree(trees.of_folder(path, flag(lines, "lines")))

    @staticmethod
    @deferred
    @answered
    def from_mask(mask: Any, n: Any = None, *, relative: bool = False, cross: bool = False) -> "Graph":
        """Who sees whom: [queries][keys] of truth values (numpy or torch, sparse too), or ``mask(query, key)`` of arrays of indices, which
        comes with ``n``, tokens or (queries, keys), and returns some rows at a time. Rectangles, triangles and bands,
        repeated with a step, become blocks; edges are stored one by one where nothing is regular. As many queries as keys
        are tokens that see each other, unless ``cross``. ``relative``: an edge's type is query - key + keys - 1."""
        return Graph(graph_of_mask(mask, n, relative, cross))

    @staticmethod
    def read(
        path: Any, parents: Any = None, relation: Optional[str] = None, *, weights: Optional[str] = None
    ) -> "Graph":  # fmt: skip
        """Other programs' files by the end of the name: .mtx, .csv, .tsv, .edges, .graphml, .gml, .graph (METIS), .npy (edges,
        or a mask of truth values), .npz (scipy.sparse); every other name is hga's JSON. ``parents``: a tree over the file's
        nodes; ``relation``: its name where the file has none; ``weights="ignore"``: the pattern alone, every edge weighs 1,
        though the file says zero, negative or complex. Edges that other programs' files give again count again, and a
        warning says how many; another names the file's attributes that are ignored, and those that are used."""
        pointer, warnings = edges_of.read(path, parents, relation, weights)
        graph = Graph(pointer)
        for text in warnings:
            edges_of.say(text)
        return graph

    def write(self, path: Any, relation: Optional[str] = None, *, progress: Optional[bool] = None) -> None:
        """A file for other programs, by the end of the name: .json (the whole graph), or one relation's edges as .npy,
        .mtx, .csv, .graphml, .gexf, .graph (METIS: a warning says how many edges from a node to itself it leaves out), .dot. progress: as ``coarsen`` has it;
        .json and .dot show none."""
        edges_of.write(self, path, relation, progress)

    @step
    @answered
    def hierarchy(self, relations: Optional[Sequence[str]] = None, order: Optional[str] = None) -> Hierarchy:
        """A hierarchy that attends over these relations (default: all) in one softmax. Nodes above the tokens are means of
        their children by mass, and pass what they see down the tree to the tokens. ``hga.Program`` makes other programs.
        order: that of ``Hierarchy.order``."""
        names = self.relations if relations is None else listed(relations, "relations", "names")
        numbers = ffi.new("hga_id[]", [self._relation(n) for n in names])
        program = ffi.new("hga_program *")
        check(lib.hga_program_hierarchy(program, self._g, numbers, len(names)))
        h = Hierarchy(self, program)
        return h if order is None else h.order(order)

    # ---- orders ----

    def order(self, how: str) -> np.ndarray:
        """[nodes]: which node is at each position of an order in which neighbours are near each other: "rcm" (reverse
        Cuthill-McKee), "metis" (parts with few edges between them) or "degree" (hubs first). ``Hierarchy.order`` runs in one."""
        return orders.find_order(self, how)

    @answered
    def coarsen(self, sizes: Sequence[int], *, progress: Optional[bool] = None) -> "Graph":
        """The same graph (of tokens only) under a tree of clusters that METIS finds. ``sizes`` has the number of nodes in a
        cluster, level by level from the lowest, until one cluster is left. An edge also joins the clusters above its ends,
        on every level. So with ``hierarchy()`` a token attends to its own neighbours and to the means of neighbouring
        clusters, which weigh together, on each level, as much as the neighbours. Tokens keep their numbers; ``parents()``
        is the tree. progress: a bar of tqdm after two seconds, of the clusters that are found. None shows it in notebooks
        and on terminals where tqdm is installed, True always, False never."""
        each = ids(sizes, "sizes")
        if each.ndim != 1:
            raise refuse(f"sizes has shape {each.shape}: a list of whole numbers is needed")
        with reported_by_c("clusters", progress) as report:
            return Graph(new_graph(lib.hga_graph_coarsen, self._g, ffi.from_buffer("hga_id[]", each), len(each), *report))

    def renumber(self, order: Any) -> "Graph":
        """The same graph in which node order[i] has the number i."""
        nodes = ids(order, "order")
        if nodes.shape != (self.n_nodes,):
            raise refuse(f"order has shape {nodes.shape}: there are {self.n_nodes} nodes")
        graph = Graph(new_graph(lib.hga_graph_renumber, self._g, ffi.from_buffer("hga_id[]", nodes)))
        graph._labels = self._labels and self._labels.renumbered(nodes.tolist())
        return graph

    def locality(self, parts: int = 2) -> orders.Locality:
        """How near each other the ends of edges are: what an order gains. ``cut``: edges between ``parts`` runs of nodes."""
        return orders.find_locality(self, whole(parts, "parts"))

    # ---- looking at it ----

    @property
    def n_nodes(self) -> int:
        return int(lib.hga_graph_nodes(self._g).n)

    @property
    def n_tokens(self) -> int:
        return int(lib.hga_graph_nodes(self._g).level_ptr[1])

    @property
    def level_sizes(self) -> List[int]:
        nodes = lib.hga_graph_nodes(self._g)
        return [int(nodes.level_ptr[i + 1] - nodes.level_ptr[i]) for i in range(nodes.n_levels)]

    @property
    def relations(self) -> List[str]:
        n = lib.hga_graph_nodes(self._g).n_relations
        return [ffi.string(lib.hga_graph_relation(self._g, r).name).decode() for r in range(n)]

    def name(self, node: int) -> Optional[str]:
        """What a node is called, None without a name."""
        text = lib.hga_graph_name(self._g, whole(node, "node", beyond=self.n_nodes))
        return None if text == ffi.NULL else ffi.string(text).decode()

    @property
    def kind_names(self) -> List[str]:
        """What kinds of nodes there are, in the order of their numbers."""
        kinds = lib.hga_graph_kinds(self._g)
        return [ffi.string(kinds.name[k]).decode() for k in range(kinds.n)]

    def kinds(self) -> np.ndarray:
        """[nodes] int32: each node's kind, a number of kind_names; -1: of none."""
        kinds = lib.hga_graph_kinds(self._g)
        return np.full(self.n_nodes, -1, np.int32) if kinds.of == ffi.NULL else array_at(kinds.of, self.n_nodes, np.int32)

    def with_kinds(self, kinds: Sequence[Optional[str]]) -> "Graph":
        """The same graph, whose first nodes are of these kinds, names like "text" and "picture"; None leaves a node as it is."""
        names = [None if name is None else kind_name(name) for name in listed(kinds, "kinds", "names")]
        return self._told(lib.hga_graph_set_kinds, names)

    def _with_names(self, names: Sequence[Optional[str]]) -> "Graph":
        """The same graph, whose first nodes are called so."""
        utf8 = [None if name is None else name.encode("utf-8", "replace").replace(b"\0", b" ") for name in names]
        return self._told(lib.hga_graph_set_names, utf8) if any(name is not None for name in names) else self

    def _told(self, tell: Any, words: Sequence[Optional[bytes]]) -> "Graph":
        """The same graph with a word for each of its first nodes."""
        alive = [ffi.NULL if word is None else ffi.new("char[]", word) for word in words]
        return Graph(new_graph(tell, self._g, ffi.new("char *[]", alive), len(alive)))

    def parents(self) -> np.ndarray:
        """[nodes]: each node's parent, -1 without."""
        nodes = lib.hga_graph_nodes(self._g)
        return np.full(nodes.n, -1, np.int32) if nodes.parent == ffi.NULL else array_at(nodes.parent, nodes.n, np.int32)

    def masses(self) -> np.ndarray:
        """[nodes]: how many tokens each node stands for."""
        nodes = lib.hga_graph_nodes(self._g)
        return array_at(nodes.mass, nodes.n, np.float32)

    def _sides(self) -> Tuple[int, int, int, int]:
        """The first query and how many, the first key and how many."""
        nodes = lib.hga_graph_nodes(self._g)
        return int(nodes.query_first), int(nodes.n_queries), int(nodes.key_first), int(nodes.n_keys)

    def _is_weighted(self, relation: Optional[str] = None) -> bool:
        return bool(lib.hga_graph_relation(self._g, self._relation(relation)).weighted)

    def _relation(self, name: Optional[str]) -> int:
        if name is None:
            return 0
        if not isinstance(name, str):
            raise refuse_type(f"relation is {name!r}, not a name: there are {', '.join(self.relations)}")
        r = lib.hga_graph_find_relation(self._g, encoded(name, "relation"))
        if r < 0:
            raise refuse(f"no relation {name!r}{meant(name, self.relations) or ': there are ' + ', '.join(self.relations)}")
        return int(r)

    def n_edges(self, relation: Optional[str] = None) -> int:
        return int(lib.hga_graph_relation(self._g, self._relation(relation)).n_edges)

    def edges(self, relation: Optional[str] = None) -> np.ndarray:
        """[edges][3] int32: source, destination, type, by destination, source, type."""
        return edges_of.into(self, relation)[0]

    def to_scipy(self, relation: Optional[str] = None) -> Any:
        """A scipy CSR matrix: row i has a value in column j where i attends to j, the edge's weight."""
        from scipy.sparse import csr_matrix

        e, weights = edges_of.into(self, relation)
        return csr_matrix((weights, (e[:, 1], e[:, 0])), shape=(self.n_nodes, self.n_nodes))

    def to_networkx(self, relation: Optional[str] = None, *, progress: Optional[bool] = None) -> Any:
        """A networkx MultiDiGraph: edges source -> destination with their types, and with their weights where they have any; a
        MultiGraph where ``from_networkx`` took an undirected graph and each edge still goes both ways.
        Nodes and attributes are those of the graph that ``from_networkx`` took; else nodes are numbers, with their ``name``
        where they have one. progress: as ``coarsen`` has it."""
        with bar("edges for networkx", progress) as tell:
            return of_networkx.networkx_of(self, relation, tell)

    def to_igraph(self, relation: Optional[str] = None) -> Any:
        """A directed igraph Graph, whose edges have their weights where they have any."""
        import igraph

        e, weights = edges_of.into(self, relation)
        more = {"weight": weights.tolist()} if self._is_weighted(relation) else {}
        return igraph.Graph(n=self.n_nodes, edges=e[:, :2].tolist(), directed=True, edge_attrs=more)

    def _repr_html_(self) -> Optional[str]:
        """In a notebook: the viewer in a frame, where there is something to see."""
        return self.hierarchy()._repr_html_() if self.relations else None

    def __repr__(self) -> str:
        edges = ", ".join(f"{name}: {self.n_edges(name)} edges" for name in self.relations)
        return f"<hga.Graph of {self.n_nodes} nodes in {len(self.level_sizes)} levels; {edges}>"


def _made_again(data: bytes) -> Graph:
    """For pickle."""
    return Graph(graph_of_data(data))


def _of_pairs(pairs: edges_of.Pairs, n_nodes: Any, parents: Any, repeated: Optional[str]) -> Graph:
    return Graph.from_edges(pairs.source, pairs.destination, n_nodes, pairs.types, pairs.weights, parents, repeated)


def _of_tree(tree: trees.Tree, tell: Tell = silent) -> Graph:
    b, of = trees.families(tree, tell)
    graph = Graph(b._finished())
    graph = graph._with_names([tree.names[v] for v in of] if tree.names else [])
    return graph.with_kinds([tree.kinds[v] for v in of]) if any(tree.kinds) else graph


class Builder(Unfinished):
    """Makes a graph: levels first (tokens are the first), then families, relations and edges."""

    def finish(self) -> Graph:
        """The graph; the builder is empty afterwards."""
        return Graph(self._finished())
