"""Graphs of networkx, igraph and scipy, written by them, read by hga and compared edge for edge: imports.py HGA, in a folder that may be filled."""
import csv
import json
import os
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
    rows = csv.DictReader(open("out.csv", newline=""))
    edges = Counter((int(r["source"]), int(r["destination"]), int(r["type"]), single(r.get("weight", 1))) for r in rows)
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

# the default program: a token sees its neighbours, and the words of the node above it through its edge
np.save("up.npy", np.array([(7, 8), (8, 7), (2, 9), (14, 13)] + [(i, i) for i in range(7, 15)]))
for suffix in "json", "view.html":
    subprocess.run([hga, *(["export"] if suffix == "json" else ["view"]), "up.npy", "--parents", "parents.npy", "-o", f"up.{suffix}"], check=True)
whole = subprocess.run([hga, "inspect", "up.npy", "--parents", "parents.npy", "--json"], check=True, capture_output=True, text=True).stdout
equal("the default program covers what edges and the tree give", Counter([json.loads(whole)["coverage"]["once"]]), Counter([8 + 3 + 4]))
subprocess.run([hga, "check", "up.npy", "--parents", "parents.npy"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([hga, "explain", "graph=up.npy", "-p", "parents=@parents.npy"], check=True, stdout=subprocess.DEVNULL)
q, k, v = (random.standard_normal((8, 4)).astype("f4") for _ in range(3))
for name, tensor in ("q", q), ("k", k), ("v", v):
    np.save(f"{name}.npy", tensor)
tensors = ["--query", "q.npy", "--key", "k.npy", "--value", "v.npy"]
subprocess.run([hga, "attend", "graph=up.npy", "-p", "parents=@parents.npy", *tensors, "--out", "o.npy"], check=True)
want = np.zeros_like(v)
for i in range(8):
    seen = [[i]] + {0: [[1]], 1: [[0]], 2: [[4, 5, 6, 7]], 6: [[7]]}.get(i, [])
    keys, values = (np.array([t[s].mean(0) for s in seen]) for t in (k, v))
    score = keys @ q[i] / 2 + np.log([len(s) for s in seen])
    weight = np.exp(score - score.max())
    want[i] = weight @ values / weight.sum()
equal("what it computes", Counter([bool(np.allclose(np.load("o.npy"), want, atol=1e-5))]), Counter([True]))
own = json.load(open("up.json"))
equal("the file that is exported has that program", Counter(s["kind"] for s in own["program"]["stages"]), Counter(mean=2, attend=1))
own["program"] = "attend"  # and the file can be written again
json.dump(own, open("word.json", "w"))
subprocess.run([hga, "attend", "graph=word.json", *tensors, "--out", "word.npy"], check=True)
equal('"program": "attend" computes the same bits', Counter([open("word.npy", "rb").read()]), Counter([open("o.npy", "rb").read()]))
for command in ["inspect"], ["check"], ["export", "-o", "again.json"], ["export", "-o", "word.svg"], ["view", "-o", "word.html"], ["explain"]:
    name = "graph=word.json" if command[0] == "explain" else "word.json"
    subprocess.run([hga, command[0], name, *command[1:]], check=True, stdout=subprocess.DEVNULL)

# ---- words and names ----

named = {"format": "hga-graph", "schema": 1, "levels": [4, 2], "families": [[4, 0, 4, 2]], "words": ["In", "a", '"quoted, word"', "end"],
         "names": [[5, "second half"]], "relations": [{"name": "near", "edges": [[0, 0], [1, 1], [2, 2], [3, 3], [5, 0], [4, 2]]}], "program": "attend"}
json.dump(named, open("named.json", "w"))
edges, graph = read("named.json")
equal("words and names come back", Counter(graph["words"] + [graph["names"][0][1]]), Counter(named["words"] + ["second half"]))
rows = list(csv.DictReader(open("out.csv", newline="")))
equal("names in .csv", Counter((r["source"], r["source_name"], r["destination_name"]) for r in rows if r["source"] != r["destination"]), Counter([("5", "second half", "In"), ("4", "", '"quoted, word"')]))
os.rename("out.csv", "named.csv")
equal("a .csv with names is read", read("named.csv")[0], edges)
def tell(*words):
    return subprocess.run([hga, *words], check=True, capture_output=True, text=True).stdout
equal("inspect --row tells them", Counter(e["name"] for e in json.loads(tell("inspect", "named.json", "--row", "2", "--json"))["row"]["edges"]), Counter(['"quoted, word"', "In .. a"]))
equal("and so do .dot and the viewer", Counter(["5 second half" in tell("export", "named.json", "-o", "-", "--format", "dot"), '"second half"' in tell("view", "named.json", "-o", "-")]), Counter({True: 2}))
named["words"].pop()
json.dump(named, open("short.json", "w"))
short = subprocess.run([hga, "inspect", "short.json"], capture_output=True, text=True)
equal("a wrong number of words is refused", Counter([short.returncode, short.stderr]), Counter([3, "hga: short.json: words: 3 for 4 tokens\n"]))

# ---- a hierarchy of hga's own, through GraphML ----

subprocess.run([hga, "build", "bpt", "-n", "64", "-p", "k=2", "-o", "own.json"], check=True)
subprocess.run([hga, "export", "own.json", "-o", "own.graphml"], check=True)
edges, graph = read("own.graphml")
own_edges, own = read("own.json")
equal("levels of a hierarchy after GraphML", Counter(graph["levels"]), Counter(own["levels"]))
equal("its edges", edges, own_edges)

# ---- the tree as a relation, all relations in one file ----

tree = Counter((first + i, p + i // each) for p, first, n, each in own["families"] for i in range(n))
for name, turned in ("tree", 0), ("tree up", 0), ("tree down", 1):
    subprocess.run([hga, "export", "own.json", "--relation", name, "-o", "tree.npy"], check=True)
    equal(f"--relation '{name}'", Counter((int(e[turned]), int(e[1 - turned])) for e in np.load("tree.npy")), tree)
subprocess.run([hga, "export", "own.json", "--relation", "tree", "-o", "tree.mtx"], check=True)
m = scipy.io.mmread("tree.mtx").tocoo()
equal("the tree in .mtx", Counter((int(c), int(p)) for p, c in zip(m.row, m.col)), tree)
subprocess.run([hga, "export", "own.json", "--relation", "tree", "-o", "tree.graph"], check=True)
equal("the tree in METIS's .graph", Counter((u, v) for u, v, _, _ in read("tree.graph")[0].elements() if u < v), tree)
names = [r["name"] for r in own["relations"]]
want = Counter({(c, p, "tree up"): n for (c, p), n in tree.items()})
for name in names:
    subprocess.run([hga, "export", "own.json", "--relation", name, "-o", "one.npy"], check=True)
    want += Counter((int(s), int(d), name) for s, d, _ in np.load("one.npy"))
for suffix in "csv", "graphml", "gexf":
    subprocess.run([hga, "export", "own.json", "--relation", "all", "-o", f"all.{suffix}"], check=True)
rows = csv.DictReader(open("all.csv", newline=""))
equal("all relations in .csv", Counter((int(r["source"]), int(r["destination"]), r["relation"]) for r in rows), want)
for suffix, reader in ("graphml", nx.read_graphml), ("gexf", nx.read_gexf):
    equal(f"networkx reads all relations of .{suffix}", Counter((int(s), int(d), r) for s, d, r in reader(f"all.{suffix}").edges.data("relation")), want)
subprocess.run([hga, "export", "own.json", "--relation", "all", "-o", "all.dot"], check=True)
equal("all relations in .dot", Counter([open("all.dot").read().count("[label=\"tree up\"]")]), Counter([sum(tree.values())]))
for suffix in "csv", "graphml":
    edges, graph = read(f"all.{suffix}")
    equal(f"a hierarchy comes back from all relations in .{suffix}: its tree", Counter(map(tuple, graph["families"])), Counter(map(tuple, own["families"])))
    equal("  its relations", Counter(r["name"] for r in graph["relations"]), Counter(names))
    equal("  its edges", edges, own_edges)
for name, said in ("all", "hga: --relation: mtx holds one relation; all: csv dot graphml gexf json"), ("nix", "hga: --relation: no relation 'nix'; there are: " + " ".join(names) + " tree all"):
    refused = subprocess.run([hga, "export", "own.json", "--relation", name, "-o", "no.mtx"], capture_output=True, text=True)
    equal(f"{name} in .mtx is refused", Counter([refused.returncode, refused.stderr, os.path.exists("no.mtx")]), Counter([2, said + "\n", False]))
open("twice.csv", "w").write('source,destination,relation\n0,2,"tree up"\n0,3,"tree up"\n')
refused = subprocess.run([hga, "export", "twice.csv", "-o", "no.json"], capture_output=True, text=True)
equal("two parents are refused", Counter([refused.returncode, refused.stderr]), Counter([3, "hga: twice.csv: line 3: node 0 has the parents 2 and 3\n"]))

# ---- trees: linkages, parents, documents, sources ----

from scipy.cluster import hierarchy

points = random.standard_normal((23, 2))
linkage = hierarchy.linkage(points, "average")
np.save("linkage.npy", linkage)


def attend(what, *options):
    done = subprocess.run([hga, "attend", *what, *options, "--query", "t.npy", "--key", "t.npy", "--value", "t.npy", "--out", "o.npy"], check=True, capture_output=True, text=True)
    return np.load("o.npy"), [line for line in done.stderr.splitlines() if "rows are" in line]


np.save("t.npy", random.standard_normal((23, 4)).astype("f4"))
edges = subprocess.run([hga, "export", "linkage.npy", "--relation", "tree", "-o", "tree.csv"], check=True)
subprocess.run([hga, "build", "graph=linkage.npy", "--node-map", "map.npy", "-o", "linkage.json"], check=True)
caller = np.load("map.npy")
equal("a linkage's clusters", Counter((int(caller[int(r["source"])]), int(caller[int(r["destination"])])) for r in csv.DictReader(open("tree.csv"))),
      Counter((int(c), 23 + i) for i, m in enumerate(linkage) for c in m[:2]))
equal("rows of graph=linkage are the observations", Counter(caller[:23].tolist()), Counter(range(23)))
equal("  in their order", Counter([caller[:23].tolist() == list(range(23))]), Counter([True]))
by_id, said = attend(["graph=linkage.npy"])
equal("  without a word", Counter(said), Counter())
same, _ = attend(["hsa", "-p", "parent=@linkage.npy", "-p", "leaves=id"])
equal("hsa on its parents by id computes the same", Counter([bool(np.array_equal(by_id, same))]), Counter([True]))
order = []


def walk(v):
    if v < 23:
        order.append(v)
    else:
        for child in sorted(int(c) for c in linkage[v - 23][:2]):
            walk(child)


walk(44)
deep, said = attend(["graph=linkage.npy"], "-p", "leaves=depth-first")
equal("depth-first is said", Counter(said), Counter([f"hga: linkage.npy: rows are the leaves in depth-first order: {' '.join(map(str, order[:4]))} ..; -p leaves=id makes rows go by id"]))
tokens = np.load("t.npy")
np.save("t.npy", tokens[order])
permuted, _ = attend(["graph=linkage.npy"], "-p", "leaves=depth-first")
equal("and rows in that order give the same rows", Counter([bool(np.allclose(permuted, by_id[order], atol=1e-6))]), Counter([True]))

# the same choice for edges over a tree: leaves 0 1 2 3 hang below 4 5 4 5
np.save("cross.npy", np.array([4, 5, 4, 5, 6, 6, -1]))
np.save("pairs.npy", np.array([(0, 1), (1, 1), (2, 3), (3, 2)]))
np.save("t.npy", tokens[:4])
by_id, said = attend(["graph=pairs.npy"], "-p", "parents=@cross.npy")
equal("rows of edges go by the file's ids, without a word", Counter(said), Counter())
np.save("t.npy", tokens[:4][[0, 2, 1, 3]])
deep, said = attend(["graph=pairs.npy"], "-p", "parents=@cross.npy", "-p", "leaves=depth-first")
equal("or in the tree's order, which is said", Counter(said), Counter(["hga: pairs.npy: rows are the leaves in depth-first order: 0 2 1 3; -p leaves=id makes rows go by id"]))
equal("  with the same result", Counter([bool(np.array_equal(deep, by_id[[0, 2, 1, 3]]))]), Counter([True]))
np.save("t.npy", random.standard_normal((8, 4)).astype("f4"))
_, said = attend(["graph=up.npy"], "-p", "parents=@parents.npy")
equal("leaves that are no first ids are told", Counter(said), Counter(["hga: up.npy: rows are the leaves by id: 7 8 9 10 ..; -p leaves=depth-first makes rows go by the tree"]))

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_, page = read(os.path.join(here, "README.md"))
equal("a real Markdown page: its sections are names", Counter(n in {text for _, text in page["names"]} for n in ("What else you gain", "From the shell", "Limits")), Counter({True: 3}))
subprocess.run([hga, "check", os.path.join(here, "README.md")], check=True, stdout=subprocess.DEVNULL)
open("page.html", "w").write("<title>T</title><h1>One</h1><p>Some words here<p>and more")
_, page = read("page.html")
equal("HTML's words", Counter(page["words"]), Counter("One Some words here and more".split()))
os.makedirs("empty", exist_ok=True)
for name, said in ("empty", "hga: empty: has no files\n"), ("nothing.md", "hga: cannot read nothing.md: No such file or directory\n"):
    refused = subprocess.run([hga, "inspect", name], capture_output=True, text=True)
    equal(f"{name} is refused", Counter([refused.returncode, refused.stderr]), Counter([3, said]))

# ---- words from a file of their own ----

words = [f"w{i}" for i in range(63)] + ['"last", one']
open("words.txt", "w").write("\n".join(words))
json.dump(words, open("words.json", "w"))
for name in "words.txt", "words.json":
    subprocess.run([hga, "export", "own.json", "--words", name, "-o", "worded.json"], check=True)
    equal(f"--words {name}", Counter(json.load(open("worded.json"))["words"]), Counter(words))
equal("inspect --row tells words of a variant", Counter(["w1" in tell("inspect", "window", "-n", "64", "--words", "words.txt", "--row", "0")]), Counter([True]))
open("words.txt", "a").write("\nmore\n")
short = subprocess.run([hga, "view", "own.json", "--words", "words.txt", "-o", "no.html"], capture_output=True, text=True)
equal("a wrong number of words in a file is refused", Counter([short.returncode, short.stderr]), Counter([3, "hga: words.txt: words: 65 for 64 tokens\n"]))
print(facts, "facts")
