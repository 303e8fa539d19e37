"""Graphs of networkx, igraph and scipy, written by them, read by hga and compared edge for edge: imports.py HGA, in a folder that may be filled."""
import json
import subprocess
import sys
from collections import Counter

import igraph
import networkx as nx
import numpy as np
import scipy.io
import scipy.sparse as sp

hga = sys.argv[1]
facts = 0


def read(name, *options):
    """Source, destination, type and weight of every edge, and the graph as JSON, after a way through the tool."""
    subprocess.run([hga, "export", name, "-o", "out.csv", *options], check=True)
    subprocess.run([hga, "export", name, "-o", "out.json", *options], check=True)
    rows = [line.split(",") for line in open("out.csv").read().splitlines()[1:]]
    edges = Counter((int(r[0]), int(r[1]), int(r[2]), single(r[3]) if len(r) > 3 else 1.0) for r in rows)
    return edges, json.load(open("out.json"))


def equal(what, got, want):
    global facts
    facts += 1
    if got != want:
        sys.exit(f"{what}: {str(got - want)[:300]} too many, {str(want - got)[:300]} missing")
    print("ok:", what)


def single(weight):
    return float(np.float32(float(weight)))


# ---- scipy: rows are destinations ----

random = np.random.default_rng(3)
for form in "csr", "csc", "coo":
    for dtype in "f4", "f8", "i8":
        m = sp.random(40, 40, 0.1, random_state=5, dtype="f8")
        m.data = (random.integers(1, 100, m.nnz) / (1 if dtype == "i8" else 8)).astype(dtype)
        sp.save_npz("m.npz", m.asformat(form), compressed=form != "coo")
        c = m.tocoo()
        equal(f"scipy {form} {dtype}", read("m.npz")[0], Counter((int(u), int(v), 0, single(w)) for v, u, w in zip(c.row, c.col, c.data)))
m = sp.random(12, 30, 0.2, random_state=6)
scipy.io.mmwrite("m.mtx", m)
edges, graph = read("m.mtx")
equal("a matrix of scipy's that is not square", edges, Counter((int(u), int(v), 0, single(w)) for v, u, w in zip(m.row, m.col, m.data)))
equal("its sides", Counter(map(str, [graph["queries"], graph["keys"]])), Counter(["[0, 12]", "[12, 30]"]))
s = sp.random(20, 20, 0.2, random_state=7)
s = (s + s.T).tocoo()
scipy.io.mmwrite("s.mtx", s, symmetry="symmetric")
equal("a symmetric matrix", read("s.mtx")[0], Counter((int(u), int(v), 0, single(w)) for v, u, w in zip(s.row, s.col, s.data)))

# ---- networkx ----

for directed in False, True:
    g = nx.gnp_random_graph(30, 0.15, seed=8, directed=directed)
    for u, v in g.edges:
        g.edges[u, v]["weight"] = (1 + u + 2 * v) / 4
    both = [(u, v, 0, w) for u, v, w in g.edges.data("weight")] + ([] if directed else [(v, u, 0, w) for u, v, w in g.edges.data("weight") if u != v])
    nx.write_graphml(g, "g.graphml")
    nx.write_gml(g, "g.gml")
    equal(f"networkx's GraphML, directed={directed}", read("g.graphml")[0], Counter(both))
    equal(f"networkx's GML, directed={directed}", read("g.gml")[0], Counter(both))
nx.write_edgelist(g, "g.edges", data=["weight"])
equal("networkx's edge list", read("g.edges")[0], Counter(both))
np.save("e.npy", np.array([(u, v) for u, v in g.edges]))
equal("edges as an array", read("e.npy")[0], Counter((u, v, 0, 1.0) for u, v in g.edges))
multi = nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)])
nx.write_graphml(multi, "multi.graphml")
equal("an edge that is there twice", read("multi.graphml")[0], Counter({(0, 1, 0, 1.0): 2, (1, 2, 0, 1.0): 1}))

# ---- igraph ----

i = igraph.Graph.Erdos_Renyi(n=25, p=0.2, directed=True)
i.write_graphml("i.graphml")
i.write_gml("i.gml")
want = Counter((e.source, e.target, 0, 1.0) for e in i.es)
equal("igraph's GraphML", read("i.graphml")[0], want)
equal("igraph's GML", read("i.gml")[0], want)

# ---- METIS, and back ----

subprocess.run([hga, "export", "s.mtx", "-o", "s.graph"], check=True)
equal("METIS's .graph, written by hga", Counter((u, v) for u, v, _, _ in read("s.graph")[0].elements()), Counter((int(u), int(v)) for v, u in zip(s.row, s.col) if u != v))

# ---- a tree ----

tree = nx.balanced_tree(2, 3, create_using=nx.DiGraph)  # the root is 0, the leaves 7 .. 14
parents = np.full(15, -1)
for u, v in tree.edges:
    parents[v] = u
np.save("parents.npy", parents)
np.save("near.npy", np.array([(7, 8), (8, 7), (14, 13)]))
edges, graph = read("near.npy", "--parents", "parents.npy")
equal("levels of a tree", Counter(graph["levels"]), Counter([8, 4, 2, 1]))
equal("leaves are tokens", edges, Counter([(0, 1, 0, 1.0), (1, 0, 0, 1.0), (7, 6, 0, 1.0)]))

# ---- a hierarchy of hga's own, through GraphML ----

subprocess.run([hga, "build", "bpt", "-n", "64", "-p", "k=2", "-o", "own.json"], check=True)
subprocess.run([hga, "export", "own.json", "-o", "own.graphml"], check=True)
edges, graph = read("own.graphml")
own_edges, own = read("own.json")
equal("levels of a hierarchy after GraphML", Counter(graph["levels"]), Counter(own["levels"]))
equal("its edges", edges, own_edges)
print(facts, "facts")
