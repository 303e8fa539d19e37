"""Graphs: levels of nodes and relations between them."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union, cast

import numpy as np

from .._core.arguments import flag, int32, listed, meant, one_of, whole
from .._core.copies import digest, graph_data, graph_of
from .._core.values import check, encoded, encoded_path, ffi, floats, ids, lib, number, path_of, refuse, refuse_type, unmasked
from .._core.deferred import compiling, deferred, new_name
from .masks import graph_of_mask
from .._core.progress import Tell, bar, each as each_of, reported_by_c, silent
from .trees import Tree, of_folder, of_html, of_linkage, of_markdown, of_table

if TYPE_CHECKING:
    from .hierarchy import Hierarchy
    from .of_networkx import Labels
    from .orders import Locality


GRAPHS: "weakref.WeakValueDictionary[str, Graph]" = weakref.WeakValueDictionary()  # for torch.compile


class Graph:
    """A hierarchy: nodes in levels (tokens are level 0) and named relations with directed edges. Immutable."""

    def __init__(self, pointer: Any) -> None:
        self._g = ffi.gc(pointer, lib.hga_graph_destroy)
        self._digest: Optional[bytes] = None
        self._name = new_name()
        self._labels: Optional["Labels"] = None  # what networkx called its nodes and edges
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
        return (graph_of, (graph_data(self),)) if self._labels is None else (graph_of, (graph_data(self),), {"_labels": self._labels})

    # ---- made of other people's data ----

    @staticmethod
    @deferred
    def from_edges(
        source: Any, destination: Any, n_nodes: Union[int, Tuple[int, int]], type: Any = None, weight: Any = None, parents: Any = None,
        repeated: Optional[str] = None,
    ) -> "Graph":  # fmt: skip
        """Edges source -> destination among n_nodes nodes, relation ``near``; n_nodes may be (sources, destinations), of two
        kinds, each numbered from 0: destinations are the graph's queries, which come first, sources its keys. ``parents``
        ([nodes], -1: none) makes a tree of them; without one every node is a token. An edge given again with the same type
        counts once, and a warning says how many there are. ``repeated="once"`` gives no warning; ``"sum"`` adds their
        weights, so that each counts, as in DGL and PyTorch Geometric."""
        if repeated is not None:
            one_of(repeated, "repeated", ("once", "sum"))
        if isinstance(n_nodes, (tuple, list)) and (len(n_nodes) != 2 or parents is not None):
            raise refuse(f"n_nodes {tuple(n_nodes)!r}: a number, or sources and destinations, which have no tree")
        sizes = [whole(n, "n_nodes") for n in (n_nodes if isinstance(n_nodes, (tuple, list)) else (n_nodes, n_nodes))]
        if isinstance(n_nodes, (tuple, list)):
            whole(sum(sizes), "n_nodes: the sum")
        src, dst = ids(source, "source"), ids(destination, "destination")
        if src.shape != dst.shape or src.ndim != 1:
            raise refuse(f"source has shape {src.shape}, destination {dst.shape}: two lists of one length are needed")
        types = None if type is None else ids(type, "type")
        weights = None if weight is None else floats(weight, "weight")
        for x, what in ((types, "types"), (weights, "weights")):
            if x is not None and x.shape != src.shape:
                raise refuse(f"{len(src)} edges, but {what} {x.shape}")
        out = (src < 0) | (src >= sizes[0]) | (dst < 0) | (dst >= sizes[1])
        if out.any():
            nodes = f"nodes are 0 .. {sizes[0] - 1}" if sizes[0] == sizes[1] else f"there are {sizes[0]} sources, {sizes[1]} destinations"
            raise refuse(f"edge {src[out][0]} -> {dst[out][0]}: {nodes}")
        b = Builder()
        if isinstance(n_nodes, (tuple, list)):
            b.level(sum(sizes))
            b.tokens(0, sizes[1], sizes[1], sizes[0])
            src = src + np.int32(sizes[1])
        else:
            node = b._add_tree(sizes[0], parents)
        near = b.relation("near")
        if repeated == "sum":
            check(lib.hga_builder_sum_edges(b._b, near))
        if parents is not None:
            src, dst = (node.astype(np.int32)[x] for x in (src, dst))
        b._add_edges(near, src, dst, types, weights)
        graph = b.finish()
        again = len(src) - graph.n_edges("near")
        if again and repeated is None:
            _say(f"{again} of {len(src)} edges repeat another and count once: repeated='sum' counts each, repeated='once' is quiet")
        return graph

    @staticmethod
    @deferred
    def from_edge_index(
        edge_index: Any, n_nodes: Optional[int] = None, type: Any = None, weight: Any = None, parents: Any = None,
        repeated: Optional[str] = None,
    ) -> "Graph":  # fmt: skip
        """PyTorch Geometric's [2][edges]: sources, and the destinations that attend to them. n_nodes: one more than the
        largest. ``repeated``: as ``from_edges`` takes it, and so of the others below. (Layers of graphs count each
        edge of an edge_index, as ``"sum"`` does.)"""
        e = ids(edge_index, "edge_index")
        if e.ndim != 2 or e.shape[0] != 2:
            raise refuse(f"edge_index has shape {e.shape}: [2][edges] is needed")
        n = int(e.max()) + 1 if n_nodes is None and e.size else n_nodes or 0
        return Graph.from_edges(e[0], e[1], n, type, weight, parents, repeated)

    @staticmethod
    def from_igraph(
        graph: Any, parents: Any = None, repeated: Optional[str] = None, *, weights: Optional[str] = None
    ) -> "Graph":  # fmt: skip
        """An igraph Graph: an edge u -> v lets v attend to u; undirected edges go both ways. ``weight`` of edges is their
        weight; ``weights="ignore"``: every edge weighs 1."""
        e = np.asarray(graph.get_edgelist(), np.int32).reshape(-1, 2)
        values = graph.es["weight"] if "weight" in graph.es.attributes() else []
        return graph_of_pairs(e, graph.vcount(), graph.is_directed(), parents, repeated, weights_of(values, weights))

    @staticmethod
    def from_dgl(graph: Any, parents: Any = None, repeated: Optional[str] = None) -> "Graph":
        """A DGL graph of one kind of nodes and edges: an edge u -> v lets v attend to u. Data of edges is ignored, since no
        name in DGL means weights; give it to ``from_edges``."""
        source, destination = graph.edges()
        return Graph.from_edges(source, destination, graph.num_nodes(), parents=parents, repeated=repeated)

    @staticmethod
    def from_scipy(
        matrix: Any, parents: Any = None, repeated: Optional[str] = None, *, weights: Optional[str] = None
    ) -> "Graph":  # fmt: skip
        """A sparse matrix: row i attends to column j; where it is not square, rows are queries and columns keys, as in files. Values other
        than 1 are weights; ``weights="ignore"``: the pattern alone, whatever is stored. Entries that stand twice add up, as in
        scipy, unless ``repeated`` says otherwise."""
        if not hasattr(matrix, "tocoo"):
            raise refuse_type(f"a {type(matrix).__name__} is no sparse matrix of scipy: Graph.from_mask takes arrays of truth values")
        m = matrix.tocoo()
        if len(m.shape) != 2:
            raise refuse(f"a sparse array of shape {m.shape} is no matrix: row i attends to column j, so two axes are needed")
        if repeated is None and not getattr(matrix, "has_canonical_format", False):
            numbers = m.data.astype(np.float64) if m.data.dtype.kind in "iu" else m.data  # whose sums wrap in few bits
            m = type(m)((numbers, (m.row, m.col)), shape=m.shape, copy=True)
            m.sum_duplicates()
        weight = None if (m.data == 1).all() else weights_of(m.data, weights)
        n_nodes = m.shape[0] if m.shape[0] == m.shape[1] else (m.shape[1], m.shape[0])
        return Graph.from_edges(m.col, m.row, n_nodes, weight=weight, parents=parents, repeated=repeated)

    @staticmethod
    def from_networkx(
        graph: Any, parents: Any = None, repeated: Optional[str] = None, *, weights: Optional[str] = None, progress: Optional[bool] = None,
    ) -> "Graph":  # fmt: skip
        """A networkx graph: an edge u -> v lets v attend to u; undirected edges go both ways. Nodes are anything that networkx
        takes, numbered as ``graph.nodes`` has them, or 0 .. n - 1, where each is its own number; ``parents`` is by these
        numbers. ``weight`` of edges is their weight, 1 where one has none; ``weights="ignore"``: every edge weighs 1. ``type``
        is their type where every edge has a whole number. ``name`` of a node, else the node itself, becomes its name, and
        ``to_networkx`` gives the nodes back with all attributes. progress: as ``coarsen`` has it."""
        from .of_networkx import graph_of

        with bar("reading networkx's edges", progress) as tell:
            return graph_of(graph, parents, repeated, weights, tell)

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
                return _of_tree(of_table(parents), tell)
            return _tree(ids(parents, "parents"), [], [], tell)

    @staticmethod
    def from_linkage(linkage: Any) -> "Graph":
        """The tree of a clustering, as scipy.cluster.hierarchy.linkage gives it ([merges][4]), as ``from_parents`` makes one: token
        i is observation i."""
        return _of_tree(of_linkage(linkage))

    @staticmethod
    def from_markdown(document: Any) -> "Graph":
        """The tree of a Markdown text, or of the file at a pathlib.Path, as ``from_parents`` makes one: sections, paragraphs, lists
        and sentences, whose words are the tokens. Nodes have names, and kinds."""
        return _of_tree(of_markdown(document))

    @staticmethod
    def from_html(document: Any) -> "Graph":
        """The same of an HTML page."""
        return _of_tree(of_html(document))

    @staticmethod
    def from_folder(path: Any, *, lines: bool = False) -> "Graph":
        """The tree of a folder, as ``from_parents`` makes one: tokens are the files, by folder and name. Folders without files are
        left out; links are not followed. Nodes have names, and kinds "file" and "folder". ``lines``: tokens are the files' lines,
        in functions and classes ("function") where universal-ctags is there and knows them; left out is what begins with a
        dot, links, pipes, files above 4 MiB or without UTF-8 text, and lines without anything on them."""
        return _of_tree(of_folder(path, flag(lines, "lines")))

    @staticmethod
    @deferred
    def from_mask(mask: Any, n: Any = None, *, relative: bool = False, cross: bool = False) -> "Graph":
        """Who sees whom: [queries][keys] of truth values (numpy or torch), or ``mask(query, key)`` of arrays of indices, which
        comes with ``n``, tokens or (queries, keys), and returns some rows at a time. Rectangles, triangles and bands,
        repeated with a step, become blocks; edges are stored one by one where nothing is regular. As many queries as keys
        are tokens that see each other, unless ``cross``. ``relative``: an edge's type is query - key + keys - 1."""
        return graph_of_mask(mask, n, relative, cross)

    @staticmethod
    def read(
        path: Any, parents: Any = None, relation: Optional[str] = None, *, weights: Optional[str] = None
    ) -> "Graph":  # fmt: skip
        """Other programs' files by the end of the name: .mtx, .csv, .tsv, .edges, .graphml, .gml, .graph (METIS), .npy (edges,
        or a mask of truth values), .npz (scipy.sparse); every other name is hga's JSON. ``parents``: a tree over the file's
        nodes; ``relation``: its name where the file has none; ``weights="ignore"``: the pattern alone, every edge weighs 1,
        though the file says zero, negative or complex. Edges that other programs' files give again count again, and a
        warning says how many; another names the file's attributes that are ignored, and those that are used."""
        _check_weights(weights)
        name = path_of(path)
        options = ffi.new("hga_import *")
        said = ffi.new("char **")
        options.attributes, options.pattern = said, weights is not None
        alive = [ffi.new("char[]", encoded(relation, "relation"))] if relation is not None else []
        if alive:
            options.relation = alive[0]
        tree = None if parents is None else ids(parents, "parents")
        if tree is not None:
            options.parents, options.n_parents = ffi.cast("hga_id *", tree.ctypes.data), len(tree)
        out = ffi.new("hga_graph **")
        check(lib.hga_graph_read(ffi.NULL, encoded_path(name), options, out, ffi.NULL))
        graph = Graph(out[0])
        attributes = ffi.string(said[0]).decode() if said[0] else ""
        lib.hga_text_free(said[0])
        if "passed over: " in attributes:
            _say(f"{name}: {attributes}")
        again = 0 if lib.hga_graph_is_json(encoded_path(name)) else sum(lib.hga_graph_repeated(graph._g, r) for r in range(len(graph.relations)))
        if again:
            _say(f"{name}: {again} edges repeat another and count once more")
        return graph

    def write(self, path: Any, relation: Optional[str] = None, *, progress: Optional[bool] = None) -> None:
        """A file for other programs, by the end of the name: .json (the whole graph), or one relation's edges as .npy,
        .mtx, .csv, .graphml, .gexf, .graph (METIS: a warning says how many edges from a node to itself it leaves out), .dot. progress: as ``coarsen`` has it;
        .json and .dot show none."""
        name, r = path_of(path), self._relation(relation)
        end = name[name.rfind(".") :]
        if end == ".json":
            check(lib.hga_graph_write_json(self._g, ffi.NULL, encoded_path(name)))
            return
        if end == ".dot":
            check(lib.hga_graph_write_dot(self._g, r, encoded_path(name), 1000000))
            return
        writers = {
            ".npy": lib.hga_graph_write_npy, ".mtx": lib.hga_graph_write_mtx, ".csv": lib.hga_graph_write_csv,
            ".graphml": lib.hga_graph_write_graphml, ".gexf": lib.hga_graph_write_gexf, ".graph": lib.hga_graph_write_metis,
        }  # fmt: skip
        if end not in writers:
            drawn = "; a hierarchy's write draws: graph.hierarchy().write(path)" if end in (".svg", ".html") else ""
            raise refuse(f"{name}: the name ends in none of .json, .dot, {', '.join(writers)}{drawn}")
        with reported_by_c(f"writing {end}", progress) as report:
            check(writers[end](self._g, r, encoded_path(name), *report))
        loops = ffi.new("hga_pos *")
        if end == ".graph":
            check(lib.hga_graph_loops(self._g, r, loops))
        if loops[0]:
            _say(f"{name}: {loops[0]} edges from a node to itself are left out, which METIS's files cannot hold")

    def hierarchy(self, relations: Optional[Sequence[str]] = None, order: Optional[str] = None) -> "Hierarchy":
        """A hierarchy that attends over these relations (default: all) in one softmax. Nodes above the tokens are means of
        their children by mass, and pass what they see down the tree to the tokens. ``hga.Program`` makes other programs.
        order: that of ``Hierarchy.order``."""
        if compiling():
            from ..torch._compiled import known

            return cast("Hierarchy", known(self).hierarchy(relations, order))
        from .hierarchy import Hierarchy

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
        from .orders import find_order

        return find_order(self, how)

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
        out = ffi.new("hga_graph **")
        with reported_by_c("clusters", progress) as report:
            check(lib.hga_graph_coarsen(self._g, ffi.cast("hga_id *", each.ctypes.data), len(each), *report, out))
        return Graph(out[0])

    def renumber(self, order: Any) -> "Graph":
        """The same graph in which node order[i] has the number i."""
        nodes = ids(order, "order")
        if nodes.shape != (self.n_nodes,):
            raise refuse(f"order has shape {nodes.shape}: there are {self.n_nodes} nodes")
        out = ffi.new("hga_graph **")
        check(lib.hga_graph_renumber(self._g, ffi.cast("hga_id *", nodes.ctypes.data), out))
        graph = Graph(out[0])
        graph._labels = self._labels and self._labels.renumbered(nodes.tolist())
        return graph

    def locality(self, parts: int = 2) -> "Locality":
        """How near each other the ends of edges are: what an order gains. ``cut``: edges between ``parts`` runs of nodes."""
        from .orders import find_locality

        return find_locality(self, whole(parts, "parts"))

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
        if kinds.of == ffi.NULL:
            return np.full(self.n_nodes, -1, np.int32)
        return np.frombuffer(ffi.buffer(kinds.of, 4 * self.n_nodes), np.int32).copy()

    def with_kinds(self, kinds: Sequence[Optional[str]]) -> "Graph":
        """The same graph, whose first nodes are of these kinds, names like "text" and "picture"; None leaves a node as it is."""
        names = [ffi.NULL if name is None else ffi.new("char[]", _kind(name)) for name in listed(kinds, "kinds", "names")]
        out = ffi.new("hga_graph **")
        at = ffi.new("char *[]", names)
        check(lib.hga_graph_set_kinds(self._g, ffi.cast("char const * const *", at), len(names), out))
        return Graph(out[0])

    def parents(self) -> np.ndarray:
        """[nodes]: each node's parent, -1 without."""
        nodes = lib.hga_graph_nodes(self._g)
        if nodes.parent == ffi.NULL:
            return np.full(nodes.n, -1, np.int32)
        return np.frombuffer(ffi.buffer(nodes.parent, 4 * nodes.n), np.int32).copy()

    def masses(self) -> np.ndarray:
        """[nodes]: how many tokens each node stands for."""
        nodes = lib.hga_graph_nodes(self._g)
        return np.frombuffer(ffi.buffer(nodes.mass, 4 * nodes.n), np.float32).copy()

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
        return self._edges_into(relation, 0, self.n_nodes)

    def _edges_into(self, relation: Optional[str], first: int, n: int) -> np.ndarray:
        """Those of n destinations."""
        return self._weighted_edges(relation, first, n)[0]

    def _weighted_edges(self, relation: Optional[str], first: int, n: int) -> Tuple[np.ndarray, np.ndarray]:
        """Those of n destinations, and their weights."""
        csr = ffi.new("hga_csr *")
        check(lib.hga_graph_rows(self._g, self._relation(relation), first, n, csr))
        try:
            ptr = np.frombuffer(ffi.buffer(csr.ptr, 8 * (n + 1)), np.int64)
            edges, weights = np.empty((int(ptr[-1]), 3), np.int32), np.ones(int(ptr[-1]), np.float32)
            if len(edges):
                edges[:, 0] = np.frombuffer(ffi.buffer(csr.src, 4 * len(edges)), np.int32)
                edges[:, 2] = np.frombuffer(ffi.buffer(csr.type, 4 * len(edges)), np.int32)
                weights[:] = np.frombuffer(ffi.buffer(csr.weight, 4 * len(edges)), np.float32)
            edges[:, 1] = np.repeat(np.arange(first, first + n, dtype=np.int32), np.diff(ptr))
            return edges, weights
        finally:
            lib.hga_csr_clear(csr)

    def to_scipy(self, relation: Optional[str] = None) -> Any:
        """A scipy CSR matrix: row i has a value in column j where i attends to j, the edge's weight."""
        from scipy.sparse import csr_matrix

        e, weights = self._weighted_edges(relation, 0, self.n_nodes)
        return csr_matrix((weights, (e[:, 1], e[:, 0])), shape=(self.n_nodes, self.n_nodes))

    def to_networkx(self, relation: Optional[str] = None, *, progress: Optional[bool] = None) -> Any:
        """A networkx MultiDiGraph: edges source -> destination with their types, and with their weights where they have any.
        Nodes and attributes are those of the graph that ``from_networkx`` took; else nodes are numbers, with their ``name``
        where they have one. progress: as ``coarsen`` has it."""
        from .of_networkx import networkx_of

        with bar("edges for networkx", progress) as tell:
            return networkx_of(self, relation, tell)

    def to_igraph(self, relation: Optional[str] = None) -> Any:
        """A directed igraph Graph, whose edges have their weights where they have any."""
        import igraph

        e, weights = self._weighted_edges(relation, 0, self.n_nodes)
        more = {"weight": weights.tolist()} if self._is_weighted(relation) else {}
        return igraph.Graph(n=self.n_nodes, edges=e[:, :2].tolist(), directed=True, edge_attrs=more)

    def _repr_html_(self) -> Optional[str]:
        """In a notebook: the viewer in a frame, where there is something to see."""
        return self.hierarchy()._repr_html_() if self.relations else None

    def __repr__(self) -> str:
        edges = ", ".join(f"{name}: {self.n_edges(name)} edges" for name in self.relations)
        return f"<hga.Graph of {self.n_nodes} nodes in {len(self.level_sizes)} levels; {edges}>"


def _check_weights(weights: Optional[str]) -> None:
    if weights not in (None, "ignore"):
        raise refuse(f"weights={weights!r} is neither None nor 'ignore'")


WITHOUT_WEIGHTS = "weights='ignore' takes edges without weights"


def _is_number(weight: Any) -> bool:
    return isinstance(weight, (int, float)) or (np.ndim(weight) == 0 and np.asarray(weight).dtype.kind in "biuf")


def weights_of(declared: Any, weights: Optional[str], edge: Callable[[int], str] = "edge {}".format) -> Optional[np.ndarray]:
    """[edges] of what the edges' owner says, None where one says nothing; None: no edge has a weight. ``edge``: what one is
    called by its number."""
    _check_weights(weights)
    if weights or all(w is None for w in declared):
        return None
    unmasked(declared, "weight")
    values = declared if isinstance(declared, np.ndarray) else [1 if w is None else w for w in declared]
    known = isinstance(declared, np.ndarray) and declared.dtype.kind in "biuf"
    strange = None if known else next((i for i, w in enumerate(values) if not _is_number(w)), None)
    if strange is not None:
        what = "a text, not a number" if isinstance(values[strange], str) else "not a number"
        raise refuse(f"{edge(strange)}: weight {values[strange]!r} is {what}; {WITHOUT_WEIGHTS}")
    found = np.asarray(values, np.float32 if known else np.float64)
    wrong = np.flatnonzero(~(np.isfinite(found) & (found > 0)))  # type: ignore[operator]
    if len(wrong):
        raise refuse(f"{edge(int(wrong[0]))}: weight {values[wrong[0]]} is not positive and finite; {WITHOUT_WEIGHTS}")
    return found.astype(np.float32)


def _refuse_other_weights(pairs: np.ndarray, directed: bool, weight: np.ndarray, types: Optional[np.ndarray], names: Optional[Sequence[Any]]) -> None:
    """An edge that is given twice has one weight."""
    pairs = pairs if directed else np.sort(pairs, 1)
    kind = np.zeros(len(pairs), np.int32) if types is None else types
    order = np.lexsort((kind, pairs[:, 1], pairs[:, 0]))
    pairs, kind, weight = pairs[order], kind[order], weight[order]
    differ = np.flatnonzero((pairs[1:] == pairs[:-1]).all(1) & (kind[1:] == kind[:-1]) & (weight[1:] != weight[:-1]))
    if len(differ):
        i = int(differ[0])
        u, v = (repr(names[x]) if names is not None else str(x) for x in pairs[i].tolist())
        raise refuse(f"edges {f'from {u} to {v}' if directed else f'between {u} and {v}'} have the weights {weight[i]:g} and "
                     f"{weight[i + 1]:g}: repeated='sum' counts each, {WITHOUT_WEIGHTS}")  # fmt: skip


def graph_of_pairs(
    edges: np.ndarray, n: int, directed: bool, parents: Any, repeated: Optional[str], weight: Optional[np.ndarray],
    types: Optional[np.ndarray] = None, names: Optional[Sequence[Any]] = None,
) -> Graph:  # fmt: skip
    """Of [edges][2]; undirected edges are two, a self loop one. ``names`` of nodes, in errors."""
    if weight is not None and repeated in (None, "once"):
        _refuse_other_weights(edges, directed, weight, types, names)
    if not directed:
        other = edges[:, 0] != edges[:, 1]
        edges = np.concatenate([edges, edges[other, ::-1]])
        weight, types = (None if x is None else np.concatenate([x, x[other]]) for x in (weight, types))
    return Graph.from_edges(edges[:, 0], edges[:, 1], n, type=types, weight=weight, parents=parents, repeated=repeated)


def _say(what: str) -> None:
    """A warning at the line of the caller's that called into this package."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("hga."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(what, UserWarning, stacklevel=depth)


SHAPES = ("all", "lower", "strict_lower", "upper", "strict_upper", "off_diagonal", "band")


def _member(name: str, value: Any) -> Any:
    """Of hga_block."""
    return _shape(value) if name == "shape" else number(value, name) if name == "weight" else int32(value, name)


def _shape(shape: Union[str, int]) -> int:
    """Which pairs of a block are edges, by name or as C's hga_shape_kind."""
    if not isinstance(shape, str):
        return int32(shape, "shape")
    if shape not in SHAPES:
        raise refuse(f"{shape!r} is no shape of a block{meant(shape, SHAPES) or '; there are ' + ', '.join(SHAPES)}")
    return int(getattr(lib, "HGA_" + shape.upper()))


def _span(span: Any, what: str) -> Tuple[int, int]:
    if np.shape(span) != (2,):
        raise refuse(f"{what} is {span!r}, not (first, n)")
    first, n = span
    return int32(first, f"{what}: first"), int32(n, f"{what}: n")


def _kind(name: Any) -> bytes:
    if not isinstance(name, str):
        raise refuse_type(f"a kind is {name!r}, not a name")
    return encoded(name, "kind")


def _of_tree(t: Tree, tell: Tell = silent) -> "Graph":
    return _tree(t.parent, t.names, t.kinds, tell)


def _tree(parent: np.ndarray, names: Sequence[Optional[str]], kinds: Sequence[Optional[str]], tell: Tell) -> "Graph":
    """A tree whose nodes attend to their siblings, and tokens to themselves; with names and kinds by node."""
    b = Builder()
    node = b._add_tree(len(parent), parent, names)
    of = np.argsort(node)
    near = b.relation("near")
    families: Dict[int, List[int]] = {}
    for v, p in zip(of.tolist(), parent[of].tolist()):
        families.setdefault(p, []).append(int(node[v]))
    n_tokens = b._levels[0][1]
    alone = [np.array([v]) for v in families.pop(-1, []) if v < n_tokens]
    members = each_of(families.values(), len(families), tell)
    edges = [_see_each_other(b, near, np.array(some), n_tokens) for some in members] + [np.stack([v, v]) for v in alone]
    if edges:
        b._add_edges(near, *np.concatenate(edges, 1).astype(np.int32), None, None)
    from .of_networkx import named

    graph = b.finish()
    graph = named(graph, [names[v] for v in of] if names else [])
    return graph.with_kinds([kinds[v] for v in of]) if any(kinds) else graph


def _see_each_other(b: "Builder", relation: int, members: np.ndarray, n_tokens: int) -> np.ndarray:
    """Of ascending nodes; tokens see themselves as well, a node above does not: its descendants see that already. Runs of
    neighbours become blocks; [2][edges] are what stays where there are too many runs."""
    level = np.searchsorted([first for first, _ in b._levels], members, "right")
    runs = np.split(members, np.flatnonzero((np.diff(members) != 1) | (np.diff(level) != 0)) + 1)
    if 8 * len(runs) ** 2 > len(members) ** 2:
        source, destination = np.tile(members, len(members)), np.repeat(members, len(members))
        seen = (source != destination) | (source < n_tokens)
        return np.stack([source[seen], destination[seen]])
    for dst in runs:
        for src in runs:
            shape = "off_diagonal" if dst is src and dst[0] >= n_tokens else "all"
            if shape == "all" or len(dst) > 1:
                b.block(relation, (dst[0], len(dst)), (src[0], len(src)), shape=shape)
    return np.empty((2, 0), np.int64)


class Builder:
    """Makes a graph: levels first (tokens are the first), then families, relations and edges."""

    def __init__(self) -> None:
        out = ffi.new("hga_builder **")
        check(lib.hga_builder_create(ffi.NULL, out))
        self._b = ffi.gc(out[0], lib.hga_builder_destroy)
        self._levels: List[Tuple[int, int]] = []

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise refuse_type("a Builder can neither be copied nor pickled: the graph that finish() gives can")

    def level(self, n: int) -> int:
        """Append a level of n nodes; the id of its first."""
        first = ffi.new("hga_id *")
        check(lib.hga_builder_add_level(self._b, int32(n, "n"), first))
        self._levels.append((int(first[0]), n))
        return int(first[0])

    def tokens(self, query_first: int, n_queries: int, key_first: int, n_keys: int) -> None:
        """Which level-0 nodes are queries, which are keys; without a call all are both."""
        numbers = {"query_first": query_first, "n_queries": n_queries, "key_first": key_first, "n_keys": n_keys}
        check(lib.hga_builder_set_tokens(self._b, *(int32(n, name) for name, n in numbers.items())))

    def children(self, parent: int, first: int, n: int) -> None:
        check(lib.hga_builder_set_children(self._b, int32(parent, "parent"), int32(first, "first"), int32(n, "n")))

    def families(self, parent: int, child: int, each: int, n: Optional[int] = None) -> None:
        """Children from ``child`` on go, ``each`` at a time, to the nodes from ``parent`` on; n: the rest of the level."""
        parent, child, each = int32(parent, "parent"), int32(child, "child"), int32(each, "each")
        rest = [first + size - child for first, size in self._levels if first <= child < first + size]
        if n is None and not rest:
            raise refuse(f"child is {child}: there are {sum(size for _, size in self._levels)} nodes")
        check(lib.hga_builder_set_families(self._b, parent, child, rest[0] if n is None else int32(n, "n"), each))

    def kinds(self, first: int, n: int, kind: str) -> None:
        """Nodes from ``first`` on, so many, are of the kind of that name, such as "text" and "picture"."""
        check(lib.hga_builder_set_kinds(self._b, int32(first, "first"), int32(n, "n"), _kind(kind)))

    def mass(self, node: int, mass: float) -> None:
        check(lib.hga_builder_set_mass(self._b, int32(node, "node"), number(mass, "mass")))

    def relation(self, name: str) -> int:
        r = ffi.new("hga_id *")
        check(lib.hga_builder_add_relation(self._b, encoded(name, "relation"), r))
        return int(r[0])

    def edge(self, relation: int, source: int, destination: int, type: int = 0, weight: float = 1.0) -> None:
        numbers = {"relation": relation, "source": source, "destination": destination, "type": type}
        check(lib.hga_builder_add_edge(self._b, *(int32(n, name) for name, n in numbers.items()), number(weight, "weight")))

    def edges(self, relation: int, source: Iterable[int], destination: Iterable[int]) -> None:
        src, dst = ids(source, "source"), ids(destination, "destination")
        if src.shape != dst.shape or src.ndim != 1:
            raise refuse(f"source has shape {src.shape}, destination {dst.shape}: two lists of one length are needed")
        self._add_edges(relation, src, dst, None, None)

    def _add_edges(self, relation: int, *arrays: Optional[np.ndarray]) -> None:
        """Sources, destinations, types and weights (None: 0 and 1 each) in one call."""
        held = [None if a is None else np.ascontiguousarray(a) for a in arrays]
        s, d, t, w = (
            ffi.NULL if a is None else ffi.cast(kind, a.ctypes.data) for a, kind in zip(held, ("int32_t *",) * 3 + ("float *",))
        )  # fmt: skip
        check(lib.hga_builder_add_edges(self._b, int32(relation, "relation"), len(cast(np.ndarray, held[0])), s, d, t, w))

    def block(self, relation: int, dst: Sequence[int], src: Sequence[int], type: int = 0, **more: Any) -> None:
        """Every row of dst = (first, n) to every column of src = (first, n); ``more``: members of hga_block (count,
        dst_step, src_step, type_dst, type_src, weight, band_first, band_last, ..). ``shape``: "all", "lower", "strict_lower",
        "upper", "strict_upper", "off_diagonal", "band"."""
        b = ffi.new("hga_block *")
        b.dst, b.n_dst = _span(dst, "dst")
        b.src, b.n_src = _span(src, "src")
        b.type = int32(type, "type")
        for name, value in more.items():
            if not hasattr(b, name):
                raise refuse_type(f"hga_block has no member {name!r}{meant(name, dir(b[0]))}")
            setattr(b, name, _member(name, value))
        check(lib.hga_builder_add_blocks(self._b, int32(relation, "relation"), b))

    def choice(
        self, relation: int, dst: Sequence[int], src: Sequence[int], lists: Sequence[Sequence[int]], *, row_block: int = 1, block: int = 1,
        causal: bool = False,
    ) -> None:  # fmt: skip
        """Rows that choose blocks of columns: dst = (first, n) in blocks of ``row_block`` rows, src = (first, n) in blocks of ``block``
        columns; ``lists``: for each block of rows the numbers of the blocks that it sees, ascending. ``causal``: row dst + r sees no
        column behind src + r. A relation of choices has nothing else, and their rows ascend."""
        c = ffi.new("hga_choice *")
        c.dst, c.n_dst = _span(dst, "dst")
        c.src, c.n_src = _span(src, "src")
        row_block = int32(row_block, "row_block")
        c.row_block, c.block, c.causal = row_block, int32(block, "block"), flag(causal, "causal")
        expected = -(-c.n_dst // row_block) if row_block > 0 else len(lists)
        if len(lists) != expected:
            raise refuse(f"lists: {len(lists)} for {expected} blocks of rows")
        first = np.concatenate([[0], np.cumsum([len(x) for x in lists], dtype=np.int64)]).astype(np.int64)
        chosen = np.concatenate([ids(x, "lists") for x in lists if len(x)] or [np.zeros(1, np.int32)])
        c.first, c.chosen = ffi.cast("int64_t *", first.ctypes.data), ffi.cast("int32_t *", chosen.ctypes.data)
        check(lib.hga_builder_add_choice(self._b, int32(relation, "relation"), c))

    def finish(self) -> Graph:
        """The graph; the builder is empty afterwards."""
        out = ffi.new("hga_graph **")
        check(lib.hga_builder_finish(self._b, out))
        return Graph(out[0])

    def _add_tree(self, n: int, parents: Any, names: Sequence[Optional[str]] = ()) -> np.ndarray:
        """Nodes of a tree in levels by height, each level by id; [n]: where each node went."""
        if parents is None and n:
            self.level(n)
            return np.arange(n)
        parent = np.full(n, -1, np.int32) if parents is None else ids(parents, "parents")
        if parent.shape != (n,):
            raise refuse(f"parents have shape {parent.shape}: one list is needed, of {n} nodes")
        if n and (parent.min() < -1 or parent.max() >= n):
            raise refuse(f"parents are -1 or 0 .. {n - 1}")
        height, waiting = np.zeros(n, np.int64), np.bincount(parent[parent >= 0], minlength=n)
        ready, seen = [v for v in range(n) if waiting[v] == 0], 0
        while ready:
            v = ready.pop()
            seen += 1
            p = int(parent[v])
            if p >= 0:
                height[p] = max(height[p], height[v] + 1)
                waiting[p] -= 1
                if waiting[p] == 0:
                    ready.append(p)
        if seen < n:
            ring = int(np.flatnonzero(waiting)[0])
            raise refuse(f"parents: node {repr(names[ring]) if names else ring} is its own ancestor")
        order = np.argsort(height, kind="stable")
        position = np.empty(n, np.int64)
        position[order] = np.arange(n)
        for level in range(int(height.max(initial=0)) + 1):
            self.level(int((height == level).sum()))
        for v in order.tolist():
            if parent[v] >= 0:
                self.children(int(position[parent[v]]), int(position[v]), 1)
        return position
