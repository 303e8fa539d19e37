"""Graph attention on graphs that people have, beside DGL, PyTorch Geometric and scipy: the same tensors, the same edges, one
process, in turns; a time counts only where the result is right.

    python3 bench/graphs.py [--graphs digits,4elt,copter2,mdual,shuffled,wordnet,packages,rmat,glosses]
                            [--shapes 1x16,4x16,8x8,8x64] [--threads 1] [--repetitions 5] [--scale 16] [--data FOLDER]
                            [--json RUN.json] [--plot PLOT.svg]
    python3 bench/graphs.py --show RUN.json [--plot PLOT.svg]
    python3 bench/graphs.py --classifier [--graphs digits,wordnet,packages] [--epochs 100] [--json RUN.json]

rmat: R-MAT by its rules (Chakrabarti et al. 2004), 2^scale nodes and 16 times as many draws. 4elt, copter2, mdual: METIS's
example meshes (Debian: libmetis-doc); shuffled: mdual under random numbers. digits: the ten nearest neighbours of scikit-learn's
digits. wordnet: the hypernyms of WordNet's nouns (Debian: wordnet-base), both ways. glosses: each of its synsets and the first
senses of the words that explain it, both ways. packages: who depends on whom in the package lists that apt has. Each node of
these has itself among its neighbours. uniform, small: 300,000 and 60,000 random edges of 20,000 and 10,000 nodes. cited: 1.2
million of 169,000, one of which is the source of 50,000. --data FOLDER holds unpacked Debian packages (dpkg-deb -x) where they are not installed.

Peers: hga; hga-rcm and hga-metis, the same in an order of its nodes, tensors moved there and back within the time; dgl
(u_dot_v, edge_softmax, u_mul_e_sum); pyg (the message passing of TransformerConv); scipy (sparse matrices). A peer or a graph
that is missing is named, and so is one that would take more memory than there is. Memory is what a forked child grows by at
most in one call there and back. --classifier trains two layers of GATConv from the same weights in each library: to tell which
digit it is, which of WordNet's 26 kinds of noun, or which section of Debian's packages, a third of the nodes told. There
hga-clusters is hga over the graph under a tree of METIS's clusters (Graph.coarsen)."""

import argparse
import ctypes
import gc
import gzip
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
import zlib

import numpy as np
from peers import Missing, import_dgl, import_torch, refuse_unknown

IMPORTS = {}  # processor seconds each package took, in this order: DGL and PyTorch Geometric find torch there
STARTED = time.process_time()
import hga  # noqa: E402

IMPORTS["hga"] = time.process_time() - STARTED

RIGHT = 2e-4  # how far from double a result may be, times its largest entry; gradients ten times that
CHUNK = 1 << 17  # edges of the reference at a time


# ---- graphs: [2][edges] sources and destinations, and how many nodes ----


def find(a, path, package):
    """A file of a Debian package, installed or unpacked."""
    for root in (pathlib.Path("/"), pathlib.Path(a.data or "/")):
        for name in (path, path + ".gz"):
            if (root / name).is_file():
                return root / name
    raise Missing(f"/{path} is not there: Debian's package {package} has it")


def rmat(a):
    """Each draw goes four ways at every level with probabilities .57, .19, .19, .05; repeated edges are one."""
    rng = np.random.default_rng(1)
    e = np.zeros((2, 16 << a.scale), np.int64)
    for level in range(a.scale):
        u = rng.random(e.shape[1])
        e += np.stack([u >= 0.76, ((u >= 0.57) & (u < 0.76)) | (u >= 0.95)]).astype(np.int64) << level
    return np.unique(e, axis=1), 1 << a.scale


def metis(name):
    def read(a):
        path = find(a, f"usr/share/doc/libmetis-dev/examples/graphs/{name}.graph", "libmetis-doc")
        e = hga.Graph.read(str(path)).edges()
        return e[:, :2].T.astype(np.int64), int(e[:, :2].max()) + 1

    return read


def shuffled(a):
    e, n = metis("mdual")(a)
    return np.random.default_rng(2).permutation(n)[e], n


def uniform(nodes, edges):
    """Both ends of every edge drawn by themselves."""
    return lambda a: (np.random.default_rng(4).integers(0, nodes, (2, edges)), nodes)


def cited(a):
    """1.2 million edges of 169,000 nodes, of which one is the source of 50,000."""
    edges, n = uniform(169000, 1200000)(a)
    edges[0, :50000] = 7
    return edges, n


def digits_file(a):
    for root in sys.path + ["/usr/lib/python3/dist-packages", (a.data or "") + "/usr/lib/python3/dist-packages"]:
        path = pathlib.Path(root, "sklearn/datasets/data/digits.csv.gz")
        if path.is_file():
            with gzip.open(path, "rt") as file:
                return np.loadtxt(file, delimiter=",")
    raise Missing("scikit-learn is not there, whose digits.csv.gz this needs: pip install scikit-learn, or Debian's python3-sklearn")


def digits(a):
    x = digits_file(a)[:, :64]
    apart = (x**2).sum(1)[:, None] + (x**2).sum(1)[None] - 2 * x @ x.T
    near = np.argsort(apart, axis=1, kind="stable")[:, :11]  # each itself among them
    return np.stack([near.ravel(), np.repeat(np.arange(len(x)), 11)]), len(x)


def wordnet_lines(a, name):
    lines = find(a, f"usr/share/wordnet/{name}", "wordnet-base").read_text().splitlines()
    return [line for line in lines if not line.startswith("  ")]  # its licence


def wordnet(a):
    pointers, number = [], {}
    for line in wordnet_lines(a, "data.noun"):
        words = line.split(" | ")[0].split()
        own = number.setdefault(words[0], len(number))
        at = 4 + 2 * int(words[3], 16)
        for i in range(int(words[at])):
            kind, to, part = words[at + 1 + 4 * i : at + 4 + 4 * i]
            if kind in ("@", "@i") and part == "n":
                pointers.append((own, to))
    e = np.array([(number[to], own) for own, to in pointers]).T
    return both_ways(e, len(number))


def both_ways(e, n):
    """With every node's edge to itself, each edge once."""
    return np.unique(np.concatenate([e, e[::-1], np.arange(n)[None].repeat(2, 0)], 1), axis=1), n


def glosses(a):
    number, said, first = {}, [], {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in wordnet_lines(a, f"data.{part}"):
            number[part, line.split()[0]] = len(number)
            said.append(line.partition(" | ")[2].split('; "')[0].lower())  # what it is, without examples
        for line in wordnet_lines(a, f"index.{part}"):
            words = line.split()
            first.setdefault(words[0], []).append(number[part, words[-int(words[2])]])
    e = [(s, t) for t, text in enumerate(said) for word in re.findall("[a-z]+", text) for s in first.get(word, ())]
    return both_ways(np.array(e).T, len(number))


def package_fields(a):
    """{package: its fields}, those of the first of its versions."""
    try:
        said = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise Missing(f"apt-cache dumpavail: {e}") from None
    found = {}
    for part in said.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line and line[0] != " ")
        if "Package" in fields:
            found.setdefault(fields["Package"], fields)
    return found


def packages(a):
    found = package_fields(a)
    number, depends = {name: i for i, name in enumerate(found)}, {}
    for name, fields in found.items():
        words = re.split(r"[,|]", ",".join(fields.get(f, "") for f in ("Pre-Depends", "Depends", "Recommends")))
        depends[name] = {re.sub(r"[ (:].*", "", w.strip()) for w in words}
    e = np.array([(number[to], number[own]) for own, all_ in depends.items() for to in all_ if to in number]).reshape(-1, 2).T
    if not e.size:
        raise Missing("apt has no package lists (apt-get update)")
    return np.unique(np.concatenate([e, np.arange(len(number))[None].repeat(2, 0)], 1), axis=1), len(number)


GRAPHS = {"digits": digits, "4elt": metis("4elt"), "copter2": metis("copter2"), "mdual": metis("mdual"), "shuffled": shuffled,
          "wordnet": wordnet, "packages": packages, "rmat": rmat, "glosses": glosses,
          "uniform": uniform(20000, 300000), "small": uniform(10000, 60000), "cited": cited}  # fmt: skip


# ---- a problem: a graph, a shape, and what is right ----


class Problem:
    def __init__(self, name, edges, n, heads, dim, threads):
        by = np.lexsort((edges[0], edges[1]))
        self.name, self.n, self.heads, self.dim, self.threads = name, n, heads, dim, threads
        self.src, self.dst = edges[0][by], edges[1][by]
        self.ptr = np.searchsorted(self.dst, np.arange(n + 1))
        rng = np.random.default_rng(7)
        self.q, self.k, self.v, self.g = (rng.standard_normal((n, heads, dim)).astype(np.float32) for _ in range(4))
        self.scale = 1 / np.sqrt(dim)

    def rows(self, x, y):
        """x[dst] . y[src] of every edge, some edges at a time."""
        parts = [slice(i, i + CHUNK) for i in range(0, len(self.src), CHUNK)]
        return np.concatenate([np.einsum("ed,ed->e", x[self.dst[p]], y[self.src[p]]) for p in parts])

    def reference(self):
        """[out, dq, dk, dv] in double, a head at a time."""
        return self.by_matrices(np.float64)

    def by_matrices(self, kind, backward=True):
        """The three passes of attention by scipy's sparse matrices."""
        from scipy.sparse import csr_matrix

        found = [np.zeros(self.q.shape, kind) for _ in range(4 if backward else 1)]
        for h in range(self.heads):
            q, k, v, g = (x[:, h].astype(kind) for x in (self.q, self.k, self.v, self.g))
            s = self.rows(q, k) * kind(self.scale)
            rows = np.flatnonzero(np.diff(self.ptr))
            top = np.zeros(self.n, kind)
            top[rows] = np.maximum.reduceat(s, self.ptr[rows])
            p = np.exp(s - top[self.dst])
            p /= np.bincount(self.dst, p, self.n).astype(kind)[self.dst]
            matrix = csr_matrix((p, self.src, self.ptr), shape=(self.n, self.n))
            found[0][:, h] = matrix @ v
            if backward:
                dp = self.rows(g, v)
                ds = p * (dp - np.bincount(self.dst, p * dp, self.n).astype(kind)[self.dst]) * kind(self.scale)
                d = csr_matrix((ds, self.src, self.ptr), shape=(self.n, self.n))
                found[1][:, h], found[2][:, h], found[3][:, h] = d @ k, d.T @ q, matrix.T @ g
        return found


# ---- peers: make(problem) gives call(backward) -> [out] or [out, dq, dk, dv] ----


def hga_in(order):
    def make(p):
        h = hga.Graph.from_edges(p.src, p.dst, p.n).hierarchy(order=order)
        rest = {"layout": "bnhd", "threads": p.threads}

        def call(backward):
            if not backward:
                return [h.attention(p.q, p.k, p.v, **rest)]
            grads = h.gradient(p.q, p.k, p.v, p.g, **rest)
            return [None, *(grads[name] for name in ("query", "key", "value"))]

        return call

    return make


def with_autograd(torch, p, f):
    def call(backward):
        leaves = [torch.from_numpy(x).requires_grad_(backward) for x in (p.q, p.k, p.v)]
        if not backward:
            with torch.no_grad():
                return [f(*leaves).numpy()]
        out = f(*leaves)
        return [out.detach().numpy(), *(x.numpy() for x in torch.autograd.grad(out, leaves, torch.from_numpy(p.g)))]

    return call


def peer_dgl(p):
    torch, dgl = import_torch(p.threads), import_dgl()
    g = dgl.graph((torch.from_numpy(p.src), torch.from_numpy(p.dst)), num_nodes=p.n)
    g.create_formats_()
    ops = dgl.ops
    return with_autograd(torch, p, lambda q, k, v: ops.u_mul_e_sum(g, v, ops.edge_softmax(g, ops.u_dot_v(g, k, q) * p.scale)))


def memory_left():
    """Bytes that programs may still take."""
    said = re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return 1024 * int(said[1]) if said else float("inf")


def import_pyg():
    try:
        import torch_geometric.nn
        import torch_geometric.utils
    except ImportError as e:
        raise Missing(str(e)) from None
    return torch_geometric


def peer_pyg(p):
    torch, pyg = import_torch(p.threads), import_pyg()
    rows, free = 8 * 4 * len(p.src) * p.heads * p.dim, memory_left()
    if rows > free:  # query, key, value and message of every edge, and as many gradients
        raise Missing(f"{p.name} {p.heads} x {p.dim}: its rows for edges take about {rows / 1e9:.0f} GB of {free / 1e9:.0f}")
    edge_index = torch.from_numpy(np.stack([p.src, p.dst]))

    class Attention(pyg.nn.MessagePassing):  # TransformerConv without its projections
        def __init__(self):
            super().__init__(node_dim=0, aggr="add")

        def forward(self, q, k, v):
            return self.propagate(edge_index, query=q, key=k, value=v, size=None)

        def message(self, query_i, key_j, value_j, index, ptr, size_i):
            alpha = pyg.utils.softmax((query_i * key_j).sum(-1) * p.scale, index, ptr, size_i)
            return value_j * alpha.unsqueeze(-1)

    return with_autograd(torch, p, Attention())


def import_scipy():
    try:
        import scipy.sparse  # noqa: F401
    except ImportError as e:
        raise Missing(str(e)) from None


def peer_scipy(p):
    import_scipy()
    return lambda backward: p.by_matrices(np.float32, backward)


PEERS = {"hga": hga_in(None), "hga-rcm": hga_in("rcm"), "hga-metis": hga_in("metis"), "dgl": peer_dgl, "pyg": peer_pyg,
         "scipy": peer_scipy}  # fmt: skip
COLOURS = {"hga": "#1b6ca8", "hga-rcm": "#4d94c9", "hga-metis": "#8fbfe3", "dgl": "#7b5ea7", "pyg": "#b0413e", "scipy": "#8a6d3b"}


# ---- measuring ----


def resident(peak=False):
    """MB of this process, now or at most."""
    if peak:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def give_back():
    """Memory that nobody uses goes to the system: a child would use it again, and seem to need none."""
    hga.plans_clear()
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:  # another C library than GNU's
        pass


def memory_of(make, p):
    """MB that a child grows by at most: the graph, what is planned, and one call there and back."""
    give_back()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before = resident()
            make(p)(True)
            os.write(write, str(max(0.0, resident(peak=True) - before)).encode())
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 64)
    os.close(read)
    os.waitpid(child, 0)
    return float(said) if said else None


def off(got, right):
    """The largest difference from double, in shares of a result's largest entry."""
    return max(abs(x - y).max() / max(1e-30, abs(y).max()) for x, y in zip(got, right) if x is not None)


def contenders(p, wanted, skipped):
    """[(name, call, seconds to make it, differences there and back)] of peers whose results are right."""
    right, found = p.reference(), []
    for name in wanted:
        try:
            start = time.process_time()
            call = PEERS[name](p)
            out = call(False)
            first = time.process_time() - start
            there, back = off(out, right[:1]), off(call(True), right)
            if not (there <= RIGHT and back <= 10 * RIGHT):
                raise Missing(f"its results are {there:.1e} and {back:.1e} off: its times are not shown")
            found.append((name, call, first, (there, back)))
        except Missing as e:
            skipped.add(f"{name}: {e}")
        except Exception as e:  # a peer that fails is a peer that is not compared
            skipped.add(f"{name}, {p.name} {p.heads} x {p.dim}: {type(e).__name__}: {str(e)[:160]}")
    return found


def in_turns(found, backward, repetitions):
    """{name: processor seconds of every repetition}; each peer once a turn, the order turning too."""
    seconds = {name: [] for name, *_ in found}
    for turn in range(repetitions):
        at = turn % len(found)
        for name, call, *_ in found[at:] + found[:at]:
            start = time.process_time()
            call(backward)
            seconds[name].append(time.process_time() - start)
    return seconds


def measure(name, edges, n, heads, dim, a, skipped):
    p = Problem(name, edges, n, heads, dim, a.threads)
    wanted = a.peers.split(",")
    memory = {}
    for peer in wanted if a.memory else []:
        try:
            memory[peer] = memory_of(PEERS[peer], p)
        except Missing:
            pass
    found = contenders(p, wanted, skipped)
    rows = []
    for backward in (False, True):
        seconds = in_turns(found, backward, a.repetitions)
        for peer, _, first, apart in found:
            s = np.array(seconds[peer])
            rows.append({"graph": name, "nodes": n, "edges": len(p.src), "heads": heads, "dim": dim, "threads": a.threads,
                         "direction": "forward and backward" if backward else "forward", "peer": peer,
                         "seconds": float(np.median(s)), "quartiles": np.percentile(s, [25, 75]).tolist(), "first_seconds": first,
                         "ns_per_edge_head": float(np.median(s)) / len(p.src) / heads * 1e9, "mbytes": memory.get(peer),
                         "difference": float(apart[backward])})  # fmt: skip
    return rows


def import_all(peers):
    """The packages of the peers, so that no first call has to: what each takes goes into IMPORTS."""
    for name, get in (("torch", lambda: import_torch(1)), ("dgl", import_dgl), ("pyg", import_pyg), ("scipy", import_scipy)):
        if name in peers or (name == "torch" and {"dgl", "pyg"} & set(peers)):
            start = time.process_time()
            try:
                get()
            except Missing:
                continue
            IMPORTS[name] = time.process_time() - start


# ---- what is shown ----


def cases(rows):
    """{(graph, heads, dim, direction): rows}"""
    found = {}
    for r in rows:
        found.setdefault((r["graph"], r["heads"], r["dim"], r["direction"]), []).append(r)
    return found


def base_of(rows):
    """Whom the others are compared with: DGL, or who is there."""
    peers = {r["peer"] for r in rows}
    return next((p for p in ("dgl", "pyg", "scipy", "hga") if p in peers), None)


def over(rows, peer, base):
    """How many times as long as the peer the base takes; None where one is missing."""
    by = {r["peer"]: r["seconds"] for r in rows}
    return by[base] / by[peer] if peer in by and base in by else None


def table(rows):
    """Markdown: a line a case, milliseconds a peer."""
    peers, base = list(dict.fromkeys(r["peer"] for r in rows)), base_of(rows)
    lines = ["| graph | nodes, edges | heads x dim | | " + " | ".join(f"{p} ms" for p in peers) + f" | {base} / hga |", "|" + "---|" * (len(peers) + 5)]
    for (graph, heads, dim, direction), of in cases(rows).items():
        by = {r["peer"]: r for r in of}
        ms = [f"{1e3 * by[p]['seconds']:.1f}" if p in by else "-" for p in peers]
        ratio = over(of, "hga", base)
        lines.append(f"| {graph} | {of[0]['nodes']}, {of[0]['edges']} | {heads} x {dim} | {direction} | " + " | ".join(ms)
                     + f" | {f'{ratio:.2f}' if ratio else '-'} |")  # fmt: skip
    return "\n".join(lines)


def costs(rows):
    """Markdown: memory there and back, and the first call with all that it plans, of the largest shape; and what it took to
    import the packages, hga's once, the others' behind torch's."""
    peers = list(dict.fromkeys(r["peer"] for r in rows))
    lines = ["| graph | heads x dim | " + " | ".join(f"{p} MB, first call s" for p in peers) + " |", "|" + "---|" * (len(peers) + 2),
             "| import, s | | " + " | ".join(f"{IMPORTS[p]:.2f}" if p in IMPORTS else "" for p in peers) + " |"]  # fmt: skip
    largest = max((r["heads"] * r["dim"] for r in rows), default=0)
    for (graph, heads, dim, direction), of in cases(rows).items():
        if direction != "forward" or heads * dim != largest:
            continue
        by = {r["peer"]: r for r in of}
        said = [f"{by[p]['mbytes']:.0f}, {by[p]['first_seconds']:.2f}" if p in by and by[p]["mbytes"] is not None else "-" for p in peers]
        lines.append(f"| {graph} | {heads} x {dim} | " + " | ".join(said) + " |")
    return "\n".join(lines)


def plot(rows, path):
    """DGL's time over each peer's, a group of bars a case; the line is DGL itself."""
    base, shown = base_of(rows), list(cases(rows).items())
    peers = [p for p in COLOURS if p != base and any(over(of, p, base) for _, of in shown)]
    high = max((over(of, p, base) or 0 for _, of in shown for p in peers), default=1)
    step, left, width = 13 * len(peers) + 12, 230, 560
    at = lambda x: left + (width - left - 40) * x / high  # noqa: E731
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {step * len(shown) + 40}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{step * len(shown) + 40}" fill="#fff"/>']  # fmt: skip
    for i, p in enumerate(peers):
        parts.append(f'<rect x="{left + 75 * i}" y="8" width="10" height="10" fill="{COLOURS[p]}"/><text x="{left + 14 + 75 * i}" y="17">{p}</text>')
    for i, ((graph, heads, dim, direction), of) in enumerate(shown):
        y = 30 + step * i
        parts.append(f'<text x="{left - 8}" y="{y + step / 2}" text-anchor="end">{graph}, {heads} x {dim}, {direction}</text>')
        for j, p in enumerate(peers):
            ratio = over(of, p, base)
            if ratio:
                parts.append(f'<rect x="{left}" y="{y + 13 * j}" width="{at(ratio) - left:.1f}" height="11" fill="{COLOURS[p]}"/>'
                             f'<text x="{at(ratio) + 4:.1f}" y="{y + 10 + 13 * j}">{ratio:.2f}</text>')  # fmt: skip
    parts.append(f'<line x1="{at(1):.1f}" x2="{at(1):.1f}" y1="24" y2="{step * len(shown) + 36}" stroke="#7b5ea7" stroke-dasharray="3 3"/></svg>')
    pathlib.Path(path).write_text("\n".join(parts), encoding="utf-8")


# ---- two layers of GATConv ----


def digits_task(a):
    """64 grey values, and which digit it is."""
    data = digits_file(a)
    return data[:, :64] / 16, data[:, 64].astype(np.int64)


def words_task(texts, kinds):
    """The words of each text, hashed to 64 counts, and of which kind it is."""
    x = np.zeros((len(texts), 64), np.float32)
    for row, text in zip(x, texts):
        for word in re.findall("[a-z]+", text.lower()):
            row[zlib.crc32(word.encode()) % 64] += 1
    return x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True)), np.unique(kinds, return_inverse=True)[1]


def wordnet_task(a):
    """What explains a noun, and WordNet's file of it: noun.animal, noun.food, .."""
    lines = wordnet_lines(a, "data.noun")
    return words_task([line.partition(" | ")[2] for line in lines], [int(line.split()[1]) for line in lines])


def packages_task(a):
    """What a package says it is, and its section."""
    found = package_fields(a).values()
    return words_task([f.get("Description", "") for f in found], [f.get("Section", "") for f in found])


TASKS = {"digits": digits_task, "wordnet": wordnet_task, "packages": packages_task}


def hga_convolutions(edge_index, n):
    import hga.torch as hga_torch

    made = [lambda i, o, h, c=c: hga_torch.GATConv(i, o, heads=h, concat=c, add_self_loops=False) for c in (True, False)]
    return made, lambda layer, x: layer(x, edge_index), lambda layer, weights: layer.load_state_dict(weights)


def hga_over_clusters(edge_index, n):
    """The same layers, whose nodes also see the means of the clusters beside their own."""
    made, _, load = hga_convolutions(edge_index, n)
    graph = hga.Graph.from_edge_index(edge_index, n).coarsen([8, 8, 8])
    return made, lambda layer, x: layer(x, graph), load


def pyg_convolutions(edge_index, n):
    pyg = import_pyg()
    made = [lambda i, o, h, c=c: pyg.nn.GATConv(i, o, heads=h, concat=c, add_self_loops=False) for c in (True, False)]
    return made, lambda layer, x: layer(x, edge_index), lambda layer, weights: layer.load_state_dict(weights)


def dgl_convolutions(edge_index, n):
    dgl = import_dgl()
    import dgl.nn.pytorch as dgl_nn

    g = dgl.graph((edge_index[0], edge_index[1]), num_nodes=n)
    names = {"fc.weight": "lin.weight", "attn_l": "att_src", "attn_r": "att_dst", "bias": "bias"}
    made = [lambda i, o, h: dgl_nn.GATConv(i, o, h)] * 2
    return made, lambda layer, x: layer(g, x).flatten(1), lambda layer, weights: layer.load_state_dict({a: weights[b] for a, b in names.items()})


CONVOLUTIONS = {"hga": hga_convolutions, "hga-clusters": hga_over_clusters, "dgl": dgl_convolutions, "pyg": pyg_convolutions}
HIDDEN, HEADS = 8, 8


class Classifier:
    """Two layers as GAT's paper has them: 8 heads of 8, ELU, one head of as many as there are classes."""

    def __init__(self, torch, make, edge_index, n, features, classes):
        (one, two), self.run, self.load = make(edge_index, n)
        torch.manual_seed(5)
        self.layers, self.elu = [one(features, HIDDEN, HEADS), two(HIDDEN * HEADS, classes, 1)], torch.nn.functional.elu

    def weights(self):
        return [w for layer in self.layers for w in layer.parameters()]

    def __call__(self, x):
        return self.run(self.layers[1], self.elu(self.run(self.layers[0], x)))


def made_classifiers(torch, edge_index, n, features, classes):
    """{peer: classifier}, all with the weights of the first."""
    made = {}
    for name, make in CONVOLUTIONS.items():
        try:
            made[name] = Classifier(torch, make, edge_index, n, features, classes)
        except Missing as e:
            print(f"not compared: {name}: {e}")
            continue
        for own, first in zip(made[name].layers, next(iter(made.values())).layers):
            made[name].load(own, first.state_dict())
    return made


def classifier(a, name):
    """Trained from the same weights in each library, an epoch each in turns: accuracy on the nodes that were not told, seconds
    an epoch (medians of processor time), how far the first outputs are from hga's in shares of the largest."""
    torch = import_torch(a.threads)
    edges, n = GRAPHS[name](a)
    x, y = TASKS[name](a)
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y).long()
    told = torch.from_numpy(np.random.default_rng(3).random(n) < 1 / 3)
    made = made_classifiers(torch, torch.from_numpy(edges), n, x.shape[1], int(y.max()) + 1)
    adam = {peer: torch.optim.Adam(c.weights(), lr=0.005) for peer, c in made.items()}
    with torch.no_grad():
        first = {peer: c(x) for peer, c in made.items()}
    seconds, losses = {peer: [] for peer in made}, {}
    for _ in range(a.epochs):
        for peer, c in made.items():
            start = time.process_time()
            adam[peer].zero_grad()
            loss = torch.nn.functional.cross_entropy(c(x)[told], y[told])
            loss.backward()
            adam[peer].step()
            seconds[peer].append(time.process_time() - start)
            losses[peer] = float(loss.detach())
    rows = []
    for peer, c in made.items():
        with torch.no_grad():
            right = c(x).argmax(1) == y
        off_first = float((first[peer] - first["hga"]).abs().max() / first["hga"].abs().max())
        rows.append({"graph": name, "nodes": n, "edges": edges.shape[1], "peer": peer, "threads": a.threads, "epochs": a.epochs,
                     "seconds_an_epoch": float(np.median(seconds[peer])), "loss": losses[peer], "difference": off_first,
                     "accuracy": float(right[~told].float().mean())})  # fmt: skip
        print(f"{name:8s} {peer:12s} {1e3 * rows[-1]['seconds_an_epoch']:8.1f} ms an epoch, loss {losses[peer]:.5f}, "
              f"accuracy on what was not told {rows[-1]['accuracy']:.4f}, first outputs {off_first:.0e} from hga's", flush=True)  # fmt: skip
    return rows


def machine():
    """The processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "?")
    except OSError:
        return "?"


def find_commit():
    """Of the sources that this file is among."""
    try:
        said = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=True)
        return said.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "?"


COMMIT = find_commit()  # when the run began


def context():
    versions = {name: getattr(sys.modules[name], "__version__", "?") for name in ("torch", "dgl", "torch_geometric", "scipy", "numpy") if name in sys.modules}
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": machine(), "num_cpus": os.cpu_count(), "commit": COMMIT,
            "hga": hga.__version__, "isa": hga.isa_list(),
            "load": os.getloadavg()[0], "import_seconds": {k: round(v, 2) for k, v in IMPORTS.items()}, **versions}  # fmt: skip


def classifier_table(rows):
    """Markdown: a line a graph and peer."""
    lines = ["| graph | nodes, edges | | ms an epoch | epochs | right of what was not told |", "|" + "---|" * 6]
    for r in rows:
        lines.append(f"| {r['graph']} | {r['nodes']}, {r['edges']} | {r['peer']} | {1e3 * r['seconds_an_epoch']:.0f} | {r['epochs']} "
                     f"| {r['accuracy']:.1%} |")  # fmt: skip
    return "\n".join(lines)


def show(a):
    """The tables of a run that is kept, and its plot."""
    document = json.loads(pathlib.Path(a.show).read_text(encoding="utf-8"))
    IMPORTS.update(document["context"]["import_seconds"])
    rows = document["rows"]
    print(table(rows) + "\n\n" + costs(rows) + "\n\n" + classifier_table(document.get("classifier", [])))
    print("\n" + "\n".join(f"not compared: {line}" for line in document["skipped"]))
    if a.plot:
        plot(rows, a.plot)


def keep(a, rows, skipped):
    """What was measured so far, so that a run that ends early is not lost."""
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"context": context(), "rows": rows, "skipped": sorted(skipped)}, indent=1), encoding="utf-8")
    if a.plot and not a.classifier:
        plot(rows, a.plot)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--graphs", help=f"of {','.join(GRAPHS)} (all; with --classifier {','.join(TASKS)})")
    a.add_argument("--shapes", default="1x16,4x16,8x8,8x64")
    a.add_argument("--peers", default=",".join(PEERS))
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--repetitions", type=int, default=5)
    a.add_argument("--scale", type=int, default=16, help="of rmat: 2^scale nodes")
    a.add_argument("--data", help="a folder with unpacked Debian packages")
    a.add_argument("--no-memory", dest="memory", action="store_false", help="do not fork a child for each peer")
    a.add_argument("--classifier", action="store_true", help="train two layers of GATConv instead")
    a.add_argument("--epochs", type=int, default=100)
    a.add_argument("--show", help="print the tables of a run that --json kept")
    a.add_argument("--json")
    a.add_argument("--plot")
    a = a.parse_args()
    a.graphs = a.graphs or ",".join(TASKS if a.classifier else GRAPHS)
    refuse_unknown(graph=(a.graphs, TASKS if a.classifier else GRAPHS), peer=(a.peers, PEERS))
    if a.show:
        return show(a)
    skipped, rows = set(), []
    import_all(a.peers.split(","))
    for name in a.graphs.split(",") if a.classifier else []:
        try:
            rows += classifier(a, name)
        except Missing as e:
            skipped.add(f"{name}: {e}")
    for name in [] if a.classifier else a.graphs.split(","):
        try:
            edges, n = GRAPHS[name](a)
        except Missing as e:
            skipped.add(f"{name}: {e}")
            continue
        for shape in a.shapes.split(","):
            heads, dim = map(int, shape.split("x"))
            rows += measure(name, edges, n, heads, dim, a, skipped)
            keep(a, rows, skipped)
            print(table([r for r in rows if (r["graph"], r["heads"], r["dim"]) == (name, heads, dim)]), flush=True)
    for line in sorted(skipped):
        print(f"not compared: {line}")
    keep(a, rows, skipped)
    if rows and not a.classifier:
        print("\n" + table(rows) + "\n\n" + costs(rows))
        print("\n" + ", ".join(f"{k}: {v}" for k, v in context().items()))
    if not rows:
        sys.exit("nothing was compared")


if __name__ == "__main__":
    main()
