"""Files that other programs write, in a table and drawn at random: read by networkx, igraph or scipy and by hga, and compared edge for edge
with their weights, or refused with the reason: foreign_files.py HGA, in a folder that may be filled."""
import csv
import json
import os
import subprocess
import sys
import warnings
from collections import Counter

import igraph
import networkx as nx
import numpy as np
import scipy.io
import scipy.sparse as sp

warnings.simplefilter("ignore")  # the others warn of what they leave out
hga = sys.argv[1]
facts = 0


# ---- as hga reads it ----


def run(name, *options):
    return subprocess.run([hga, "export", name, "-o", "out.json", *options], capture_output=True, text=True)


def edges_of(graph):
    """Source, destination, type, weight: explicit edges, and the blocks of one pair that repeated edges are."""
    edges = Counter()
    for relation in graph["relations"]:
        for edge in relation.get("edges", []):
            s, d, t, w = (list(edge) + [0, 1.0][len(edge) - 2 :])[:4]
            edges[s, d, t, single(w)] += 1
        for b in relation.get("blocks", []):
            assert b["n_dst"] == b["n_src"] == 1 and "shape" not in b, b
            edges[b["src"], b["dst"], b.get("type", 0), single(b.get("weight", 1))] += b.get("count", 1)
    return edges


def single(weight):
    return float(np.float32(float(weight)))


def names_of(graph):
    n = sum(graph["levels"])
    names = dict(graph.get("names", []))
    names.update(enumerate(graph.get("words", [])))
    return [names.get(v, str(v)) for v in range(n)]


def hold(what, got, want):
    global facts
    facts += 1
    if got != want:
        sys.exit(f"{what}: hga has {str(got)[:600]}, not {str(want)[:600]}")


# ---- as others read it: nodes in order, edges with weights ----


def by_networkx(g, nodes=None):
    place = {v: i for i, v in enumerate(nodes or g.nodes)}
    standard = g.graph.get("edge_default", {}).get("weight", 1)
    edges = Counter()
    for u, v, data in g.edges(data=True):
        told = data.get("weight", standard)
        w = single(standard if told == "" else told)  # what networkx 3.6 makes of a weight that is told and empty
        edges[place[u], place[v], 0, w] += 1
        if not g.is_directed() and u != v:
            edges[place[v], place[u], 0, w] += 1
    return len(place), edges


def by_igraph(g):
    edges = Counter()
    for e in g.es:
        w = single(e["weight"] if "weight" in g.es.attributes() else 1)
        edges[e.source, e.target, 0, w] += 1
        if not g.is_directed() and e.source != e.target:
            edges[e.target, e.source, 0, w] += 1
    return g.vcount(), edges


def by_scipy(m, pattern=False, stored=True):
    """Rows are destinations. `stored`: zeros are entries."""
    m = m if stored else m.tocsr()
    if not stored:
        m.sum_duplicates(), m.eliminate_zeros()
    c = sp.coo_matrix(m)
    apart = 0 if c.shape[0] == c.shape[1] else c.shape[0]
    return apart + c.shape[1], Counter((int(u) + apart, int(v), 0, 1.0 if pattern else single(w)) for v, u, w in zip(c.row, c.col, c.data))


readers = {
    "networkx": {".graphml": lambda f: by_networkx(nx.read_graphml(f)), ".gml": lambda f: by_networkx(nx.read_gml(f, label="id"))},
    "igraph": {".graphml": lambda f: by_igraph(igraph.Graph.Read_GraphML(f)), ".gml": lambda f: by_igraph(igraph.Graph.Read_GML(f))},
    "scipy": {".mtx": lambda f: by_scipy(scipy.io.mmread(f)), ".npz": lambda f: by_scipy(sp.load_npz(f))},
}


def agree(what, name, who, options=(), want=None):
    """hga reads the file as each of them does, or as `want` has it; what it says on stderr."""
    done = run(name, *options)
    if done.returncode:
        sys.exit(f"{what}: {done.stderr}")
    graph = json.load(open("out.json"))
    got = sum(graph["levels"]), edges_of(graph)
    for reader in who:
        hold(f"{what}, as {reader}", got, readers[reader][os.path.splitext(name)[1]](name))
    if want:
        hold(what, got, want)
    return done.stderr, graph


def refuse(what, name, words, options=()):
    done = run(name, *options)
    hold(f"{what}: refused", done.returncode, 3)
    hold(f"{what}: {done.stderr!r} says {words!r}", words in done.stderr and done.stderr.count("\n") == 1, True)


def write(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return name


# ---- the tables: what, text, who reads it so, or the words of the refusal; what stderr says ----

NX, IG, BOTH, SCIPY = ["networkx"], ["igraph"], ["networkx", "igraph"], ["scipy"]


def graphml(inside, keys="", head='edgedefault="directed"'):
    return f'<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}<graph {head}>{inside}</graph></graphml>'


def key(name, of, kind="double", default=""):
    return f'<key id="k" for="{of}" attr.name="{name}" attr.type="{kind}">{default}</key>'


ab, data = '<node id="a"/><node id="b"/>', '<edge source="a" target="b"><data key="k">%s</data></edge>'
plain = '<edge source="a" target="b"/>'
of_node = '<node id="a"><data key="k">%s</data></node><node id="b"/>' + plain
graphml_files = [
    ("a default of a weight", graphml(ab + plain + '<edge source="b" target="a"><data key="k">2.5</data></edge>', key("weight", "edge", default="<default>0.5</default>")), BOTH, "understood: weight (edges)"),
    ("blanks in a default", graphml(ab + plain, key("weight", "edge", default="<default>\n 0.5 </default>")), BOTH, "understood: weight (edges)"),
    ("an empty weight has the default", graphml(ab + '<edge source="a" target="b"><data key="k"/></edge>', key("weight", "edge", default="<default>3</default>")), BOTH, "understood: weight (edges)"),
    ("blanks around a number", graphml(ab + data % "\n 2.5\n", key("weight", "edge")), BOTH, "understood: weight (edges)"),
    ("whole weights", graphml(ab + data % " 7 ", key("weight", "edge", "int")), BOTH, "understood: weight (edges)"),
    ("long weights", graphml(ab + data % "7", key("weight", "edge", "long")), NX, "understood: weight (edges)"),
    ("weights as texts", graphml(ab + data % "2.5", key("weight", "edge", "string")), BOTH, "understood: weight (edges)"),
    ("a truth value as weight", graphml(ab + data % "true", key("weight", "edge", "boolean")), "weight 'true' is not a number; --pattern", None),
    ("two keys of one id", graphml(ab + data % "2", key("weight", "edge") + key("type", "edge")), "two keys have the id 'k'", None),
    ("one of them of nodes", graphml(ab + data % "2", key("name", "node", "string") + key("weight", "edge")), "two keys have the id 'k'", None),
    ("a circle of parents", graphml('<node id="a"><data key="k">b</data></node><node id="b"><data key="k">a</data></node>', key("hga_parent", "node", "string")), "node 0, 'a', is its own ancestor", None),
    ("a negative weight", graphml(ab + data % "-2", key("weight", "edge")), 'weights="ignore"', None),
    ("a weight of 0", graphml(ab + data % "0", key("weight", "edge")), "--pattern", None),
    ("a weight that is no number", graphml(ab + data % "nan", key("weight", "edge")), "weight nan", None),
    ("a hexadecimal weight", graphml(ab + data % "0x10", key("weight", "edge")), "not a number", None),
    ("an atom's mass", graphml(of_node % "12.011", key("mass", "node")), BOTH, "passed over: mass (nodes)"),
    ("a node's weight", graphml(of_node % "-1.5", key("weight", "node")), BOTH, "passed over: weight (nodes)"),
    ("a school's level", graphml(of_node % "5", key("level", "node", "int")), BOTH, "passed over: level (nodes)"),
    ("a level that is a word", graphml(of_node % "high", key("level", "node", "string")), BOTH, "passed over: level (nodes)"),
    ("a parent that is no node", graphml(of_node % "Ann", key("parent", "node", "string")), BOTH, "passed over: parent (nodes)"),
    ("a side", graphml(of_node % "left", key("side", "node", "string")), BOTH, "passed over: side (nodes)"),
    ("a word as type", graphml(ab + data % "follows", key("type", "edge", "string")), BOTH, "passed over: type (edges)"),
    ("Weight is not weight", graphml(ab + data % "4", key("Weight", "edge")), BOTH, "passed over: Weight (edges)"),
    ("a truth value", graphml(ab + data % "True", key("open", "edge", "boolean")), BOTH, "passed over: open (edges)"),
    ("a key of all", graphml(ab + data % "4", key("weight", "all")), NX, "understood: weight (edges)"),
    ("a key of nodes on an edge", graphml(ab + data % "4", key("weight", "node")), "which is for something else", None),
    ("a key that is not declared", graphml(ab + data % "4"), "not declared", None),
    ("hyperedges", graphml(ab + '<hyperedge><endpoint node="a"/><endpoint node="b"/></hyperedge>'), "hyperedges", None),
    ("a graph inside of a node", graphml('<node id="a"><graph edgedefault="directed"><node id="c"/></graph></node>'), "graphs inside", None),
    ("a graph inside of an edge", graphml(ab + '<edge source="a" target="b"><graph edgedefault="directed"/></edge>'), "graphs inside", None),
    ("two graphs", graphml(ab).replace("</graph>", '</graph><graph edgedefault="directed"/>'), "a second graph", None),
    ("a locator", graphml('<node id="a"><locator href="b.graphml"/></node>'), "locators", None),
    ("a node twice", graphml(ab + '<node id="a"/>'), "two nodes have the id 'a'", None),
    ("ports", graphml('<node id="a"><port name="p"/></node><node id="b"/><edge source="a" sourceport="p" target="b"/>'), BOTH, "passed over: port (nodes)"),
    ("no edgedefault is undirected", graphml(ab + plain, head=""), BOTH, None),
    ("a namespace that is not GraphML's", graphml(ab).replace("http:", "https:"), "the document is graphml of https://graphml.graphdrawing.org/xmlns, not graphml", None),
    ("edgedefault Directed", graphml(ab + plain, head='edgedefault="Directed"'), 'edgedefault="Directed" is not known', None),
    ("an edge that says what its graph says", graphml(ab + '<edge source="a" target="b" directed="true"/>'), BOTH, None),
    ("edges before nodes", graphml('<edge source="b" target="a"/>' + ab), NX, None),
    ("a node that only an edge names", graphml('<node id="a"/><edge source="a" target="c"/>'), BOTH, None),
    ("what a parser may know before", graphml(ab + plain, head='edgedefault="directed" parse.nodes="2" parse.edges="1" parse.nodeids="free" parse.order="free"'), BOTH, None),
    ("data of the graph", graphml('<data key="k">3</data>' + ab + plain, key("weight", "graph")), BOTH, None),
    ("a namespace of somebody's inside of data", graphml('<node id="a"><data key="k"><y:node xmlns:y="u" id="z"/></data></node><node id="b"/>' + plain, '<key id="k" for="node" yfiles.type="nodegraphics"/>'), NX, "passed over: nodegraphics (nodes)"),
    ("remarks and sections of characters", graphml(ab + data % "<![CDATA[2.5]]><!-- no more -->", key("weight", "edge")), BOTH, "understood: weight (edges)"),
    ("a byte order mark", b"\xef\xbb\xbf" + graphml(ab + plain).encode(), BOTH, None),
    ("UTF-16", graphml(ab + plain).replace("?>", ' encoding="UTF-16"?>', 1).replace(' version="1.0"', ' version="1.0"', 1).encode("utf-16"), BOTH, None),
    ("a document's own entities", graphml(ab + data % "&w;", key("weight", "edge")).replace("?>", '?><!DOCTYPE graphml [<!ENTITY w "2.5">]>', 1), "&w; is not replaced", None),
    ("entities of other files", graphml(ab + data % "&w;", key("weight", "edge")).replace("?>", '?><!DOCTYPE graphml [<!ENTITY w SYSTEM "out.json">]>', 1), "&w; is not replaced", None),
    ("XML's own entities", graphml('<node id="&lt;&amp;&#65;"/>'), BOTH, None),
    ("elements that nobody knows", graphml(ab + "<desc>it</desc><edges>" + plain + "</edges>"), BOTH[:1], "passed over: edges (elements)"),
    ("GEXF by the wrong name", '<gexf><graph defaultedgetype="directed"><nodes><node id="0"/></nodes></graph></gexf>', "the document is gexf", None),
    ("hga's words for parents", graphml('<node id="a"><data key="k">b</data></node><node id="b"/><edge source="a" target="b"/>', key("hga_parent", "node", "string")), [], "understood: hga_parent (nodes)"),
]

gml_files = [
    ("two nodes of one id", "graph [ node [ id 3 ] node [ id 5 ] node [ id 3 ] edge [ source 3 target 5 ] ]", "two nodes have the id '3'", None),
    ("two ids of one node", "graph [ node [ id 3 id 4 ] ]", "two ids", None),
    ("no id", "graph [ node [ label \"a\" ] ]", "a node without an id", None),
    ("an edge to nobody", "graph [ node [ id 3 ] edge [ source 3 target 5 ] ]", "names node '5', which is not there", None),
    ("two sources", "graph [ node [ id 3 ] node [ id 4 ] edge [ source 3 source 4 target 4 ] ]", "two of 'source'", None),
    ("two graphs", "graph [ node [ id 1 ] ] graph [ node [ id 2 ] ]", "a second graph", None),
    ("a node that is no list", "graph [ node 5 ]", "node is not a list", None),
    ("two weights", "graph [ node [ id 1 ] edge [ source 1 target 1 weight 2 weight 3 ] ]", "weight is told twice", None),
    ("a negative weight", "graph [ node [ id 1 ] edge [ source 1 target 1 weight -2 ] ]", "--pattern", None),
    ("an infinite weight", "graph [ node [ id 1 ] edge [ source 1 target 1 weight INF ] ]", "weight inf", None),
    ("directed after its edges, which are before nodes", "graph [ edge [ source 3 target 5 weight 2.5 ] node [ id 5 ] node [ id 3 ] directed 1 ]", BOTH, "understood: weight (edges)"),
    ("undirected", "graph [ directed 0 node [ id 5 ] node [ id 3 ] edge [ source 3 target 5 ] edge [ source 3 target 3 ] ]", BOTH, None),
    ("directed by nothing", "graph [ node [ id 5 ] node [ id 3 ] edge [ source 3 target 5 ] ]", BOTH, None),
    ("directed yes", "graph [ directed \"yes\" node [ id 5 ] ]", "directed 'yes' is not 0 or 1", None),
    ("ids that are real", "graph [ node [ id 1.0 ] node [ id 2.5 ] edge [ source 1 target 2.5 ] ]", NX, None),
    ("ids that are one number", "graph [ node [ id 1.0 ] node [ id 01 ] ]", "two nodes have the id '1'", None),
    ("a long key", "graph [ node [ id 1 %s 2 ] ]" % ("k" * 70), "has more than 63 bytes", None),
    ("a list without an end", "graph [ node [ id 1 ]\n", "a list without an end", None),
    ("ids that are texts", 'graph [ node [ id "a" ] node [ id "b" ] edge [ source "a" target "b" ] ]', NX, None),
    ("lists inside of lists", "graph [ node [ id 1 graphics [ x 1 at [ id 9 y 2 ] ] ] node [ id 2 ] edge [ source 1 target 2 Line [ point [ x 1 ] ] ] ]", BOTH, "passed over: graphics (nodes), Line (edges)"),
    ("a node's own", "Creator \"me\" Version 1 graph [ node [ id 1 mass 12.5 weight -1 level 7 ] node [ id 2 ] edge [ source 1 target 2 value 3 ] ]", BOTH, "passed over: mass (nodes), weight (nodes), level (nodes), value (edges)"),
    ("parallel edges", "graph [ multigraph 1 node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 weight 2 ] edge [ source 2 target 1 weight 3 ] ]", BOTH, "understood: weight (edges)"),
    ("remarks, a byte order mark, \\r\\n", b"\xef\xbb\xbf# a remark\r\ngraph [\r\n node [ id 1 ]\r\n node [ id 2 ]\r\n edge [ source 1 target 2 ] ]\r\n", [], None),
    ("UTF-16", "graph [ node [ id 1 ] ]".encode("utf-16"), "UTF-16", None),
]

mm = "%%MatrixMarket matrix "
mtx_files = [
    ("real", mm + "coordinate real general\n% a remark\n\n3 3 3\n1 2 0.5\n3 1 2\n\n3 3 1e0\n", SCIPY, None),
    ("integer", mm + "coordinate integer general\n2 3 2\n1 3 7\n2 1 1\n", SCIPY, None),
    ("pattern", mm + "coordinate pattern general\n2 2 2\n1 2\n2 1\n", SCIPY, None),
    ("symmetric", mm + "coordinate real symmetric\n3 3 3\n1 1 2\n2 1 3\n3 2 4\n", SCIPY, None),
    ("pattern symmetric", mm + "coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n", SCIPY, None),
    ("hermitian, real", mm + "coordinate real hermitian\n2 2 1\n2 1 3\n", SCIPY, None),
    ("words in capitals", mm.upper() + "COORDINATE REAL GENERAL\n1 1 1\n1 1 2\n", [], None),
    ("skew-symmetric", mm + "coordinate real skew-symmetric\n2 2 1\n2 1 3\n", "weight -3", None),
    ("complex", mm + "coordinate complex general\n1 1 1\n1 1 2 0\n", "complex values are no weights", None),
    ("a stored zero", mm + "coordinate real general\n2 2 2\n1 2 0\n2 1 1\n", "weight 0 of an edge", None),
    ("a negative value", mm + "coordinate real general\n2 2 2\n1 2 1\n2 1 -1\n", "weight -1 of an edge", None),
    ("an array", mm + "array real general\n2 3\n1\n0\n3\n4\n5\n0\n", [], None),
    ("a symmetric array", mm + "array integer symmetric\n2 2\n1\n5\n0\n", [], None),
    ("an array of a pattern", mm + "array pattern general\n2 2\n", "no pattern alone", None),
    ("a vector", "%%MatrixMarket vector coordinate real general\n2 1\n", "begins with", None),
    ("more entries than it says", mm + "coordinate pattern general\n2 2 1\n1 2\n2 1\n", "more entries than its sizes say", None),
    ("fewer", mm + "coordinate pattern general\n2 2 2\n1 2\n", "ends before", None),
    ("a row 0", mm + "coordinate pattern general\n2 2 1\n0 2\n", "row: 0", None),
    ("four sizes", mm + "coordinate pattern general\n2 2 1 9\n1 2\n", "line 2: more numbers than the sizes", None),
    ("symmetric and not square", mm + "coordinate pattern symmetric\n2 3 1\n1 2\n", "is square", None),
    ("a byte order mark", "\ufeff" + mm + "coordinate pattern general\n2 2 1\n1 2\n", [], None),
]
patterns = [
    ("zeros and negative values", mm + "coordinate real general\n2 2 3\n1 2 0\n2 1 -1\n2 2 nan\n", 2, [(1, 0), (0, 1), (1, 1)]),
    ("skew-symmetric", mm + "coordinate real skew-symmetric\n3 3 2\n2 1 3\n3 1 -3\n", 3, [(0, 1), (1, 0), (0, 2), (2, 0)]),
    ("complex", mm + "coordinate complex hermitian\n2 2 2\n1 1 2 0\n2 1 0 3\n", 2, [(0, 0), (0, 1), (1, 0)]),
    ("an array", mm + "array real general\n2 2\n0\n-1\n0.5\n0\n", 2, [(0, 1), (1, 0)]),
    ("a skew-symmetric array", mm + "array real skew-symmetric\n2 2\n-1\n", 2, [(0, 1), (1, 0)]),
]

csv_files = [
    ("a spreadsheet's byte order mark", b"\xef\xbb\xbfsource,target\r\n0,1\r\n2,0\r\n", 3, [(0, 1), (2, 0)], None),
    ("pandas' index", ",source,target,weight\n0,5,1,0.5\n1,2,3,2.0\n", 6, [(5, 1, 0.5), (2, 3, 2)], "understood: weight (columns); passed over: without a name (columns)"),
    ("pandas' reals", "source,target\n0.0,1.0\n2.0,0.0\n", 3, [(0, 1), (2, 0)], None),
    ("R's quotes", '"from","to","weight"\n"1","2","0.5"\n', 3, [(1, 2, 0.5)], "understood: weight (columns)"),
    ("Gephi's", "Source,Target,Type,Id,Label,Weight\n0,1,Undirected,7,,2\n1,2,Directed,8,x,3\n", 3, [(0, 1, 2), (1, 0, 2), (1, 2, 3)], "understood: Type (columns), Weight (columns); passed over: Id (columns), Label (columns)"),
    ("ends like remarks, in quotes", 'source,target\n"#a",b\n# a remark\nb,"#a"\n', 2, [(0, 1), (1, 0)], None),
    ("remarks with commas among numbers", "source,target\n0,1\n#2,3\n", 2, [(0, 1)], None),
    ("words as type", "source,target,type\n0,1,follows\n1,0,2\n", 2, [(0, 1), (1, 0)], "passed over: type (columns)"),
    ("semicolons", "source;target;weight\n0;1;1.5\n", 2, [(0, 1, 1.5)], "understood: weight (columns)"),
    ("tabs and an empty cell", "source\tnote\ttarget\n0\t\t1\n", 2, [(0, 1)], "passed over: note (columns)"),
    ("blanks and remarks", "# remark\n% another\n0 1 0.5 # behind\n1   2\n", 3, [(0, 1, 0.5), (1, 2)], None),
    ("blanks after commas", "0, 1, 0.5\n1 ,2\n", 3, [(0, 1, 0.5), (1, 2)], None),
    ("a comma, a quote and a line's end between quotes", 'source,note,target\n0,"a, ""b""\nc",1\n2,,0\n', 3, [(0, 1), (2, 0)], "passed over: note (columns)"),
    ("an old Macintosh's lines", "source,target\r0,1\r1,2\r", 3, [(0, 1), (1, 2)], None),
    ("names by rank", "source,target\nAnn,Bob\nCyd,Ann\nBob,7\n", 4, [(0, 1), (2, 0), (1, 3)], None),
    ("networkx's edges", "# remark\n0 1 {}\n1 2 {'weight': 2.5, 'name': 'a, b {', 'at': (1, 2)}\n", 3, [(0, 1), (1, 2, 2.5)], "understood: weight (edges); passed over: name (edges), at (edges)"),
    ("networkx's edges between names", "Ann Bob {'weight': 3}\nCyd Ann {}\nBob 7 {}\n", 4, [(0, 1, 3), (2, 0), (1, 3)], "understood: weight (edges)"),
    ("whole types of pandas' reals", "source,target,type\n0,1,2.0\n", 2, [(0, 1, 1, 2)], "understood: type (columns)"),
    ("columns in any order", "weight,to,from\n2,1,0\n", 2, [(0, 1, 2)], "understood: weight (columns)"),
]
csv_refused = [
    ("a decimal comma", "source;target;weight;type\n0;1;1,5;3\n", "weight '1,5' is not a number"),
    ("names without columns", "Ann,Bob\n", "names of nodes need"),
    ("columns of other names", "person,friend\n0,1\n", "source and destination"),
    ("a word among numbers", "source,target\n0,1\n1,Bob\n", "line 3: destination: 'Bob' is not a whole number"),
    ("a half node", "source,target\n0.5,1\n", "source: '0.5' is not a whole number"),
    ("a weight that is not there", "source,target,weight\n0,1,\n", "weight is missing"),
    ("a text without an end", 'source,target\n0,"1\n', "a text without an end"),
    ("text behind quotes", 'source,target\n"0"1,1\n', "behind its quotes"),
    ("two columns of one meaning", "from,source,to\n0,1,2\n", "two columns mean 'source'"),
    ("a cell too many", "0,1,2,3\n", "more than 3 columns"),
    ("a node that is not there", "source,target\n,1\n", "source is missing"),
    ("a zero weight", "0,1,0\n", "--pattern"),
    ("a node called like a remark", "source,target\nAnn,Bob\n#tag,Ann\n", "line 3: a line that begins with # may be a remark or an edge"),
    ("a first node called so", "source\ttarget\n%x\tAnn\n", "line 2: a line that begins with % may be a remark or an edge"),
    ("a dictionary without an end", "0 1 {'weight': 2\n", "not the end of a Python dictionary"),
    ("a weight of a dictionary that is none", "0 1 {'weight': 'x'}\n", "weight 'x' is not a number; --pattern"),
    ("UTF-16", "0\t1\n".encode("utf-16"), "UTF-16"),
]

metis_files = [
    ("nothing", "3 2\n2\n1 3\n2\n", 3, {(0, 1): 1, (1, 2): 1}, None, None),
    ("001", "3 2 001\n2 7\n1 7 3 9\n2 9\n", 3, {(0, 1): 7, (1, 2): 9}, None, "understood: weight (edges)"),
    ("1 is 001", "\ufeff% remark\n2 1 1\n2 4\n1 4\n", 2, {(0, 1): 4}, None, "understood: weight (edges)"),
    ("010", "2 1 10\n5 2\n6 1\n", 2, {(0, 1): 1}, [5, 6], "understood: weight as mass (nodes)"),
    ("011 of two", "2 1 011 2\n5 8 2 3\n6 8 1 3\n", 2, {(0, 1): 3}, [5, 6], "understood: weight as mass (nodes), weight (edges); passed over: further weights (nodes)"),
    ("111", "2 1 111\n9 5 2 3\n9 6 1 3\n", 2, {(0, 1): 3}, [5, 6], "understood: weight as mass (nodes), weight (edges); passed over: size (nodes)"),
]


def check_table(name, table):
    for what, text, expected, said in table:
        what = f"{name[1:]}: {what}"
        write("x" + name, text)
        if isinstance(expected, str):
            refuse(what, "x" + name, expected)
            continue
        stderr, _ = agree(what, "x" + name, expected)
        hold(what, [line for line in stderr.splitlines() if "repeat another" not in line], [f"hga: x{name}: {said}"] if said else [])
    print("ok:", len(table), name)


def check_patterns():
    for what, text, n, pairs in patterns:
        agree(f"pattern: {what}", write("x.mtx", text), [], ["--pattern"], (n, Counter((u, v, 0, 1.0) for u, v in pairs)))
    agree("pattern of GraphML", write("x.graphml", graphml(ab + data % "none", key("weight", "edge", "string"))), [], ["--pattern"], (2, Counter({(0, 1, 0, 1.0): 1})))
    agree("pattern of a table", write("x.csv", "source,target,weight\n0,1,-2\n1,0,x\n"), [], ["--pattern"], (2, Counter({(0, 1, 0, 1.0): 1, (1, 0, 0, 1.0): 1})))
    agree("pattern of METIS's", write("x.graph", "2 1 1\n2 0\n1 0\n"), [], ["--pattern"], (2, Counter({(0, 1, 0, 1.0): 1, (1, 0, 0, 1.0): 1})))
    for option in ["--pattern"], ["-p", "weights=ignore"]:
        done = subprocess.run([hga, "explain", "graph=x.csv", *option], capture_output=True, text=True)
        hold(f"graph=FILE {option}", (done.returncode, "understood" in done.stderr, "passed over: weight (columns)" in done.stderr), (0, False, True))
    json.dump({"format": "hga-graph", "schema": 1, "levels": [1], "relations": []}, open("x.json", "w"))
    refuse("a pattern of JSON", "x.json", "weights in JSON", ["--pattern"])
    done = subprocess.run([hga, "explain", "window", "-n", "8", "--pattern"], capture_output=True, text=True)
    hold("a pattern of a variant", (done.returncode, done.stderr), (2, "hga: window has no parameter 'weights'\n"))


def check_csv():
    for what, text, n, edges, said in csv_files:
        want = Counter((e[0], e[1], e[3] if len(e) > 3 else 0, single(e[2] if len(e) > 2 else 1)) for e in edges)
        stderr, graph = agree(f"csv: {what}", write("x.csv", text), [], (), (n, want))
        hold(f"csv: {what}", stderr, f"hga: x.csv: {said}\n" if said else "")
        if "names" in what:
            hold("names are kept", names_of(graph), ["Ann", "Bob", "Cyd", "7"])
    for what, text, words in csv_refused:
        refuse(f"csv: {what}", write("x.csv", text), words)
    _, graph = agree("names in another column", write("x.csv", "source,destination,source_name,destination_name\n0,1,In,the\n"), [])
    hold("are kept", names_of(graph), ["In", "the"])
    refuse("METIS: one end alone", write("x.graph", "3 2\n2 3\n1\n2\n"), "vertices 1 and 3 do not list each other alike")
    refuse("METIS: more lines than vertices", write("x.graph", "2 1\n2\n1\n1 2\n"), "line 4: more lines than the 2 vertices")
    refuse("METIS: a fifth number", write("x.graph", "2 1 0 0 9\n2\n1\n"), "line 1: more than four numbers")
    refuse("METIS: another weight", write("x.graph", "2 1 1\n2 3\n1 4\n"), "vertices 1 and 2 do not list each other alike")
    for what, n, edges, masses, text, said in ((w, n, e, m, t, s) for w, t, n, e, m, s in metis_files):
        want = Counter({(u, v, 0, single(w)): 1 for (a, b), w in edges.items() for u, v in ((a, b), (b, a))})
        stderr, graph = agree(f"METIS {what}", write("x.graph", text), [], (), (n, want))
        hold(f"METIS {what}", (stderr, [m for _, k, m in graph.get("mass", []) for _ in range(k)]), (f"hga: x.graph: {said}\n" if said else "", masses or []))


def check_entities():
    label = "caf&#233; a&amp;b &eacute; &alpha; &#x41; &#X41; &foo; &quot;q&quot; &lt &#0; &#xd800; &#1114112; &;"
    write("x.gml", f'graph [ node [ id 0 label "{label}" ] node [ id 1 label "&Auml;" ] ]')
    want = nx.read_gml("x.gml").nodes if "&#xd800;" not in label else None
    _, graph = agree("characters by name", "x.gml", NX)
    hold("characters by name and number", names_of(graph), ["café a&b é α A &#X41; &foo; \"q\" &lt &#0; &#xd800; &#1114112; &;", "Ä"])
    g = nx.Graph()
    g.add_edge("Zürich & \"Umgebung\"", "naïve; &amp;", weight=2.5)
    nx.write_gml(g, "x.gml")
    _, graph = agree("networkx's own", "x.gml", [])
    hold("its names", names_of(graph), list(g.nodes))
    assert want is None


ENDS = "read are .mtx, .csv, .tsv, .edges, .graphml, .gml, .graph, .npy, .npz and hga's JSON"


def converted(what, name, made):
    """The command of the refusal makes a file that is read."""
    done = run(name)
    hold(f"{what}: refused", done.returncode, 3)
    hold(f"{what}: {done.stderr!r} is one line", done.stderr.count("\n"), 1)
    command = done.stderr[done.stderr.index("`") + 1 : done.stderr.rindex("`")].replace("FILE", name)
    if os.path.exists(made):
        os.remove(made)
    subprocess.run(["sh", "-c", command], check=True, stderr=subprocess.DEVNULL)
    want = Counter({(0, 1, 0, 1.0): 1, (1, 0, 0, 1.0): 1, (1, 2, 0, 1.0): 1, (2, 1, 0, 1.0): 1})
    agree(what, made, [], (), (3, want))
    return done.stderr


def check_suffixes():
    agree("capitals", write("X.CSV", "0,1\n"), [], (), (2, Counter({(0, 1, 0, 1.0): 1})))
    path = nx.path_graph(3)
    for end, put in ((".gexf", nx.write_gexf), (".net", nx.write_pajek), (".adjlist", nx.write_adjlist), (".g6", nx.write_graph6), (".s6", nx.write_sparse6)):
        put(path, "path" + end)
        told = converted(end, "path" + end, f"path{end}.graphml")
        hold(f"{told!r} says what is read", f"files that end in {end} are not read, but" in told and ENDS in told, True)
    for end in ".dot", ".gv":
        converted(end, write("path" + end, "graph { 0 -- 1 -- 2 }"), f"path{end}.gml")
    converted(".txt", write("path.txt", "0 1\n1 0\n1 2\n2 1\n"), "path.txt.edges")
    nx.write_edgelist(path, "path.csv.gz", data=False)
    hold("of an archive", "`gunzip \"path.csv.gz\"`" in run("path.csv.gz").stderr, True)
    for links in "links", "edges":
        told = nx.node_link_data(path)
        told[links] = told.pop("links", None) or told.pop("edges")
        said = converted(f"node-link, {links}", write("path.json", json.dumps(told)), "graph.graphml")
        hold(f"{said!r} says what it is", "is networkx's node-link JSON" in said, True)
    for name, words in (("x.strange", "files that end in .strange are not read; " + ENDS), ("strange", "files without an end like .csv are not read; " + ENDS),
                        ("it's.gexf", 'nx.read_gexf("FILE")'), ("x" * 70 + ".gexf", 'nx.read_gexf("FILE")')):  # fmt: skip
        for options in (), ("--pattern",):
            refuse(name, write(name, "0 1\n"), words, options)
    refuse("broken JSON of another end", write("x.strange", '{"format": 3}'), "a string is expected, not an integer")


def check_pointers():
    """What Git LFS leaves in the place of a file, of whatever kind."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
    words = "is a pointer of Git LFS in place of the file: `git lfs pull` fetches that"
    for end in "json", "npy", "npz", "csv", "tsv", "edges", "mtx", "graphml", "gml", "graph", "md", "html", "txt", "gexf", "strange":
        refuse(end, write("pointer." + end, pointer), "pointer." + end + ": " + words)
    for end in "npy", "npz", "safetensors":
        name = write("pointer." + end, pointer)
        for command in ["tensor", name], ["attend", "dense", "--query", name, "--key", name, "--value", name, "--out", "out.npy"], ["inspect", "hsa", "-p", "parent=@" + name]:
            done = subprocess.run([hga, *command], capture_output=True, text=True)
            hold(f"{command}: {done.stderr!r}", done.returncode != 0 and f"{name}: {words}" in done.stderr and done.stderr.count("\n") == 1, True)
    write("x.csv", "0,1\n")
    for options in ["--words", "pointer.txt"], ["--words", "pointer.json"], ["--parents", "pointer.npy"]:
        refuse(f"{options}", "x.csv", words, options)


def check_weights_of_words():
    without = '--pattern, in Python weights="ignore", reads edges without weights'
    g = nx.Graph()
    g.add_edge("a", "b", weight="heavy")
    nx.write_graphml(g, "heavy.graphml"), nx.write_gml(g, "heavy.gml")
    write("heavy.csv", "source,target,weight\na,b,heavy\n"), write("heavy.edges", "0 1 {'weight': 'heavy'}\n")
    for end in "graphml", "gml", "csv", "edges":
        refuse(f"weights of {end}", "heavy." + end, f"weight 'heavy' is not a number; {without}")
        agree(f"without them {end}", "heavy." + end, [], ["--pattern"])
    sp.save_npz("heavy.npz", sp.csr_matrix(np.eye(2)))
    arrays = {**np.load("heavy.npz"), "data": np.array(["heavy", "light"])}
    np.savez("heavy.npz", **arrays)
    refuse("weights of npz", "heavy.npz", f"heavy.npz: data.npy: its weights are texts, not numbers; {without}")
    agree("without them npz", "heavy.npz", [], ["--pattern"], (2, Counter({(0, 0, 0, 1.0): 1, (1, 1, 0, 1.0): 1})))
    for array in np.array(["a", "b"]), np.array([None]), np.arange(4).reshape(2, 2):
        np.savez("other.npz", array)
        refuse(f"an archive of {array!r}", "other.npz", "has the arrays (arr_0), which are no matrix of scipy.sparse.save_npz")


def check_marks():
    """A byte order mark is no part of a word or a heading either."""
    for mark in "", "\ufeff":
        write("words.txt", mark + "one\ntwo\n"), write("words.json", mark + '["one", "two"]'), write("x.csv", "0,1\n")
        for words in "words.txt", "words.json":
            _, graph = agree(f"words {mark!r}", "x.csv", [], ["--words", words])
            hold(f"{words} {mark!r}", names_of(graph), ["one", "two"])
        run(write("x.md", mark + "# One\n\nSome words.\n\n# Two\n\nAnd more.\n"))
        hold(f"headings {mark!r}", {"One", "Two"} <= {n for _, n in json.load(open("out.json"))["names"]}, True)


# ---- hga's own GraphML: what nodes have is meant, with a hierarchy, masses and sides; so it was before ----


def check_own():
    for variant in ["bpt", "-n", "16", "-p", "k=2"], ["htransformer", "-n", "16", "-p", "block=4"]:
        subprocess.run([hga, "build", *variant, "-o", "own.json"], check=True)
        subprocess.run([hga, "export", "own.json", "--relation", "all", "-o", "own.graphml"], check=True)
        own = json.load(open("own.json"))
        _, again = agree(f"{variant[0]} of hga's own", "own.graphml", [])
        for member in "levels", "families", "queries", "keys", "side":
            hold(f"{variant[0]}: {member}", again.get(member), own.get(member))
        nx.write_graphml(nx.read_graphml("own.graphml"), "own.graphml")
        _, again = agree("after a way through networkx", "own.graphml", [])
        hold(f"{variant[0]}: levels after networkx", again["levels"], own["levels"])
    cross = {"format": "hga-graph", "schema": 1, "levels": [5, 1], "queries": [0, 2], "keys": [2, 3], "side": [[0, 2, "query"], [2, 4, "key"]],
             "families": [[5, 2, 3, 3]], "mass": [[2, 1, 4.5]], "relations": [{"name": "near", "edges": [[2, 0, 3, 0.5], [5, 1]]}]}
    json.dump(cross, open("cross.json", "w"))
    subprocess.run([hga, "export", "cross.json", "-o", "cross.graphml"], check=True)
    run("cross.json")
    cross = json.load(open("out.json"))
    stderr, again = agree("cross-attention", "cross.graphml", [])
    for member in "levels", "families", "queries", "keys", "side":
        hold(f"cross-attention: {member}", again.get(member), cross[member])
    hold("cross-attention: masses", [m for v, n, m in again["mass"] if v == 2], [4.5])
    hold("cross-attention: edges", edges_of(again), edges_of(cross))
    hold("of its own nothing is said", stderr, "")


# ---- matrices in .npz, masks in .npy ----


def check_matrices():
    rng = np.random.default_rng(5)
    for n, k in (12, 12), (8, 12):
        m = sp.random(n, k, 0.3, random_state=7)
        m.data = np.round(m.data * 8) + 1
        for form in "csr", "csc", "coo", "dia", "bsr":
            for dtype in "f8", "f4", "i4", "?":
                one = (m.tobsr((4, 3)) if form == "bsr" else m.asformat(form)).astype(dtype)
                one.data = one.data / 4 if dtype[0] == "f" else one.data
                sp.save_npz("m.npz", one)
                agree(f"{form} {dtype} {n} x {k}", "m.npz", [], (), by_scipy(one, stored=form in ("csr", "csc", "coo")))
                odd = one.astype("c16") if form in ("csr", "csc", "coo") else -one.astype("f8")
                sp.save_npz("m.npz", odd)
                refuse(f"{form} of other values", "m.npz", "its type" if odd.dtype == "c16" else "--pattern")
                agree(f"{form}'s pattern", "m.npz", [], ["--pattern"], by_scipy(odd, True, form in ("csr", "csc", "coo")))
    for name, at in ("a diagonal beyond", dict(offsets=[-9, -1, 2, 9], data=np.arange(1.0, 21).reshape(4, 5))), ("fewer columns", dict(offsets=[1], data=np.ones((1, 3)))), ("by columns", dict(offsets=[0, 1], data=np.asfortranarray(np.arange(10.0).reshape(2, 5)))):
        one = sp.dia_matrix((at["data"], at["offsets"]), shape=(5, 5))
        np.savez("m.npz", format=b"dia", shape=(5, 5), **at)
        agree(f"dia: {name}", "m.npz", [], (), by_scipy(one, stored=False))
    np.savez("m.npz", format="csr", shape=(2, 2), data=[2.0, 3.0], indices=[1, 0], indptr=[0, 1, 2], _is_array=True)
    agree("a sparse array of new scipy's", "m.npz", [], (), (2, Counter({(1, 0, 0, 2.0): 1, (0, 1, 0, 3.0): 1})))
    np.savez("m.npz", format=b"coo", shape=(2, 2, 2), data=[2.0], coords=np.zeros((3, 1), int))
    refuse("of three axes", "m.npz", "3 axes")
    csr = sp.csr_matrix((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    sp.save_npz("m.npz", csr)
    refuse("a stored zero", "m.npz", "weight 0")
    agree("a stored zero's pattern", "m.npz", [], ["--pattern"], by_scipy(csr, True))
    for shape in (2, 2), (3, 3):
        for dtype in "i8", "u1":
            np.save("m.npy", rng.integers(0, 2, shape).astype(dtype))
            refuse(f"0 and 1 of {shape}", "m.npy", "may be edges or a mask")
    np.save("m.npy", np.tril(np.ones((4, 4), int)))
    refuse("a mask of whole numbers", "m.npy", ".astype(bool)")
    np.save("m.npy", np.tril(np.ones((3, 3), bool)))
    done = run("m.npy")
    hold("a mask of truth values", done.returncode, 0)
    for edges in [(0, 1)], [(0, 1), (1, 2)], [(0, 2), (1, 3)], [(0, 1, 0), (1, 0, 2)], [(0, 1, 0), (1, 0, 2), (2, 0, 0)]:
        np.save("m.npy", edges)
        agree(f"edges {edges}", "m.npy", [], (), (1 + max(max(e[:2]) for e in edges), Counter((e[0], e[1], e[2] if len(e) > 2 else 0, 1.0) for e in edges)))


# ---- drawn: graphs with attributes of every sort, written by the others, or with mistakes ----


def draw_graph(rng):
    kinds = [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]
    g = kinds[rng.integers(4)]()
    n = int(rng.integers(1, 9))
    names = [rng.choice(["%d", "n%d", "ü %d", "<&%d>"]) % i for i in range(n)] if rng.integers(2) else list(range(n))
    rng.shuffle(names)
    for v in names:
        g.add_node(v, **draw_attributes(rng, ["mass", "level", "weight", "parent", "color", "size"]))
    for _ in range(rng.integers(0, 12)):
        u, v = (names[i] for i in rng.integers(0, n, 2))
        more = draw_attributes(rng, ["kind", "since", "Weight", "mass"])
        if rng.integers(2):
            more["weight"] = [1, 2.5, 7, 0.125][rng.integers(4)]
        g.add_edge(u, v, **more)
    return g


def draw_attributes(rng, names):
    values = [3, -1.5, "word", True, "two words"]
    return {name: values[rng.integers(len(values))] for name in names if rng.integers(3) == 0}


def draw_by_networkx(rng, end):
    g = draw_graph(rng)
    (nx.write_graphml_xml if end == ".graphml" else nx.write_gml)(g, "x" + end)
    return "x" + end, readers["networkx"][end], [str(v) for v in g.nodes]


def draw_by_igraph(rng, end):
    g = igraph.Graph.Erdos_Renyi(n=int(rng.integers(1, 9)), p=0.4, directed=bool(rng.integers(2)))
    if rng.integers(2):
        g.es["weight"] = (rng.integers(1, 9, g.ecount()) / 4).tolist()
    for name in "mass", "level", "color":
        if rng.integers(2):
            g.vs[name] = rng.standard_normal(g.vcount()).tolist()
    (g.write_graphml if end == ".graphml" else g.write_gml)("x" + end)
    return "x" + end, readers["igraph"][end], None


def draw_by_scipy(rng):
    n, k = rng.integers(1, 7, 2)
    symmetry = ["general", "symmetric"][rng.integers(2)]
    m = sp.random(n, n if symmetry == "symmetric" else k, 0.4, random_state=int(rng.integers(1 << 30)))
    m = (m + m.T).tocoo() if symmetry == "symmetric" else m
    field = ["real", "integer", "pattern"][rng.integers(3)]
    m.data = np.ceil(m.data * 9).astype("i8" if field == "integer" else "f8")
    scipy.io.mmwrite("x.mtx", m, symmetry=symmetry, field=field, comment=["", "a\nb"][rng.integers(2)])
    return "x.mtx", readers["scipy"][".mtx"], None


def table_reader(delimiter):
    """Python's csv, the columns by their names; names of nodes by rank, numbers by themselves."""

    def read(name):
        edges, place = Counter(), {}
        for row in csv.DictReader(open(name, newline="", encoding="utf-8-sig"), delimiter=delimiter):
            ends = [row["source"], row["target"]]
            at = [int(v) if v.isdigit() else place.setdefault(v, len(place)) for v in ends]
            edges[at[0], at[1], 0, single(row.get("weight", 1))] += 1
        return max((max(e[:2]) + 1 for e in edges), default=0), edges

    return read


def draw_edgelist(rng):
    g = draw_graph(rng)
    before = "" if all(str(v).isdigit() for v in g.nodes) else "n"  # numbers or names, not both
    g = nx.relabel_nodes(g, {v: before + str(v).replace(" ", "") for v in g.nodes})
    nx.write_edgelist(g, "x.edges")

    def read(name):
        kind = nx.MultiDiGraph  # the file does not say more
        g = nx.read_edgelist(name, create_using=kind)
        return by_networkx(g, sorted(g.nodes, key=int) if all(v.isdigit() for v in g.nodes) and g.nodes else None)

    return "x.edges", (lambda name: numbered(read(name), name)), None


def numbered(read, name):
    """Nodes that are numbers keep them, though no edge may name those below."""
    words = [w for line in open(name, encoding="utf-8") for w in line.split("{")[0].split()[:2]]
    if not words or not all(w.isdigit() for w in words):
        return read
    at = sorted({int(w) for w in words})
    return at[-1] + 1, Counter({(at[u], at[v], t, w): n for (u, v, t, w), n in read[1].items()})


def draw_table(rng):
    delimiter = ",;\t"[rng.integers(3)]
    names = ["Ann", "Bob, Cyd", 'the "third"', "two\nlines", "ü;\t"] if rng.integers(2) else range(5)
    columns = ["source", "target", "note"] + ["weight"] * rng.integers(2)
    rng.shuffle(columns)
    with open("x.csv", "w", newline="", encoding=["utf-8", "utf-8-sig"][rng.integers(2)]) as file:
        table = csv.writer(file, delimiter=delimiter, quoting=[csv.QUOTE_MINIMAL, csv.QUOTE_ALL][rng.integers(2)], lineterminator=["\n", "\r\n"][rng.integers(2)])
        table.writerow(columns)
        for _ in range(rng.integers(1, 9)):
            table.writerow([names[rng.integers(5)] if c in ("source", "target") else 2.5 if c == "weight" else ["", "a, b"][rng.integers(2)] for c in columns])
    return "x.csv", table_reader(delimiter), None


def check_drawn(n):
    refused = 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        end = [".graphml", ".gml"][rng.integers(2)]
        draw = [lambda: draw_by_networkx(rng, end), lambda: draw_by_networkx(rng, end), lambda: draw_by_igraph(rng, end), lambda: draw_by_scipy(rng), lambda: draw_table(rng), lambda: draw_edgelist(rng)]
        name, reader, names = draw[seed % len(draw)]()
        _, graph = agree(f"drawn {seed}", name, [], (), reader(name))
        if names:
            hold(f"drawn {seed}: names", names_of(graph), names)
        refused += spoil(rng, name, reader, seed)
    assert refused > n // 6, refused
    print("ok:", n, "drawn,", refused, "spoilt ones refused")


def spoil(rng, name, reader, seed):
    """Leave out or double a piece of the file: what is read then is read as networkx does, whatever that is, or refused."""
    text = open(name, encoding="utf-8", newline="").read()
    words = text.split(" ")
    at = int(rng.integers(len(words)))
    words[at : at + 1] = [] if rng.integers(2) else [words[at]] * 2
    write(name, " ".join(words))
    done = run(name)
    if done.returncode:
        hold(f"spoilt {seed}: a sentence", done.stderr.startswith(f"hga: {name}: ") and done.stderr.count("\n") == 1, True)
        return 1
    graph = json.load(open("out.json"))
    try:
        want = reader(name)
    except Exception:  # hga may be milder
        return 0
    hold(f"spoilt {seed}", (sum(graph["levels"]), edges_of(graph)), want)
    return 0


check_table(".graphml", graphml_files)
check_table(".gml", gml_files)
check_table(".mtx", mtx_files)
check_patterns()
check_csv()
check_entities()
check_marks()
check_suffixes()
check_pointers()
check_weights_of_words()
check_own()
check_matrices()
check_drawn(int(sys.argv[2]) if len(sys.argv) > 2 else 100)
print(facts, "facts")
