"""The tool's options drawn together: where the graph comes from, a tree over it, an order, ranks, files of nodes, edges and types,
modifiers, gradients, layouts, batches and types. Each drawn call writes what plain calls on the graph that `hga export` writes give, a
sample at a time from float32 files in one process, and what tool_oracle.py computes where the program is that of files of edges.
Any two options meet, and any three that may; what the tool refuses, it refuses in words.
usage: tool_draws.py HGA [FIRST [N]] [--ranks LAUNCHER.. HGA_OF_THAT_MPI], in a folder that may be filled"""

import json
import os
import random
import sys

import numpy as np
import tool_oracle as oracle
from tool_arrays import QUICK, added, run, single, typed, worst
from tool_options import FILES, OPTIONS, VARIANTS, has_ranks, is_pair, merges, on_ranks, plan, refusals

ranks_at = sys.argv.index("--ranks") if "--ranks" in sys.argv else len(sys.argv)
LAUNCHER, (HGA, *numbers) = sys.argv[ranks_at + 1 :], sys.argv[1:ranks_at]
FIRST = int(numbers[0]) if numbers else 1
N = int(numbers[1]) if len(numbers) > 1 else (24 if QUICK else 48) if LAUNCHER else 60 if QUICK else 170

# ---- graphs ----


def forest(r, n_tokens):
    """The parent of each node, -1 without, under shuffled numbers: the leaves are the tokens."""
    parent, free = [-1] * n_tokens, list(range(n_tokens))
    while len(parent) == n_tokens or len(free) > 1 and r.random() < 0.9:
        first = r.randrange(len(free))
        children = free[first : first + r.randint(1, 3)]
        free[first : first + len(children)] = [len(parent)]
        for v in children:
            parent[v] = len(parent)
        parent.append(-1)
    number = list(range(len(parent)))
    r.shuffle(number)
    out = np.full(len(parent), -1, "i4")
    for v, p in enumerate(parent):
        out[number[v]] = number[p] if p >= 0 else -1
    return out


def numbering(parent, hsa, depth_first):
    """The graph's id of each node: by height, and at one height by number, or (hsa) by the first leaf; leaves by number or depth-first."""
    children = [[] for _ in parent]
    for v, p in enumerate(parent):
        if p >= 0:
            children[p].append(v)
    height, first, leaves = {}, {}, []

    def visit(v):
        first[v] = len(leaves)
        if not children[v]:
            leaves.append(v)
        for c in children[v]:
            visit(c)
        height[v] = 1 + max((height[c] for c in children[v]), default=-1)

    for v, p in enumerate(parent):
        if p < 0:
            visit(v)
    place = lambda v: (first[v] if height[v] == 0 and depth_first or hsa and height[v] else 0, v)
    order = sorted(range(len(parent)), key=lambda v: (height[v], *place(v)))
    return np.argsort(order)


class Call:
    def __init__(self, options, seed):
        self.o, self.r, self.rng = options, random.Random(seed), np.random.default_rng(seed)
        self.words, self.map = [], None
        self.draw_graph()
        self.draw_tensors()
        self.draw_tables()

    def tool(self, *words):
        status, out, said = run([HGA, *words])
        if status:
            raise RuntimeError(f"hga {' '.join(map(str, words))}: exit {status}: {said}")
        return out

    def draw_graph(self):
        o, r = self.o, self.r
        self.n = r.choice((1, 2, 5, 11, 17, 17, 24))
        if o["normaliser"] == "entmax" and merges(o):
            self.n = max(self.n, 2)  # one node has no clusters, whose rows would be refused
        if o["source"] in VARIANTS:
            self.variant = VARIANTS[o["source"]].split()
            if o["source"] == "ragged":
                lengths = [r.randint(1, 7) for _ in range(r.randint(1, 3))]
                np.save("lengths.npy", np.array(lengths, "i4"))
                self.n = sum(lengths)
            np.save("leaf.npy", self.rng.integers(-1, 4, self.n).astype("i4"))
            np.save("alpha.npy", self.rng.standard_normal(3).astype("f4"))
            np.save("choice.npy", self.drawn_choice())
            size = [] if o["source"] == "ragged" else ["-n", self.n]
            self.tool("build", *self.variant, *size, "-o", "t.json")
            self.variant += size if o["way"] == "inspect" else []
        else:
            getattr(self, "draw_" + (o["source"] if o["source"] in ("relations", "mask", "parents", "leaves") else "file"))()
        self.graph = oracle.Graph("t.json", *(self.edges(*more) for more in ([], ["--relation", "b"])[: 1 + (o["source"] == "relations")]))
        if self.map is None:
            self.map = np.arange(self.graph.n)
        written = ["graph=t.json", *(["-palpha=@alpha.npy"] if o["source"] == "coarse" else [])]
        self.words = (written if o["tree"] == "written" else self.variant) + ([f"-porder={o['order']}"] if o["order"] != "none" else [])
        self.plain_words = self.variant if o["tree"] == "written" else written
        self.plain_map = self.map
        if o["order"] != "none" and o["dropout"]:  # which draws by place, so that another order drops other edges
            self.plain_words, self.plain_map = self.words, np.arange(self.graph.n)
        if o["source"] == "routed" and o["samples"]:  # each has a choice of its own, here the same
            np.save("choices.npy", np.stack([np.load("choice.npy")] * o["samples"]))
            self.words = [word.replace("@choice.npy", "@choices.npy") if isinstance(word, str) else word for word in self.words]

    def drawn_choice(self):
        """Of blocks of three tokens: a token's own, and any of those before."""
        rows = [[j for j in range(t // 3) if self.r.random() < 0.5] + [t // 3] for t in range(self.n)]
        slots = max(map(len, rows))
        return np.array([[row + [-1] * (slots - len(row)) for row in rows]], "i4")

    def edges(self, *more):
        self.tool("export", "t.json", *more, "-o", "e.npy")
        return np.load("e.npy")

    def draw_relations(self):
        """Two, of which the second has more types. Who wants clusters over a JSON file has no program in it."""
        lists = [np.unique(self.rng.integers(0, (self.n, self.n, types), (2 * self.n, 3)), axis=0).tolist() for types in (2, 4)]
        said = {"format": "hga-graph", "schema": 1, "levels": [self.n], "relations": [{"name": n, "edges": e} for n, e in zip("ab", lists)]}
        clusters = ["--tree", "metis:3,3"] if self.o["tree"] == "metis" else []
        with open("g.json", "w") as file:
            json.dump(said | ({} if clusters else {"program": "attend"}), file)
        self.variant = ["graph=g.json", *(["-ptree=metis:3,3"] if clusters else [])]
        self.tool("export", "g.json", *clusters, "-o", "t.json")

    def draw_mask(self):
        nk = self.n + self.r.randint(1, 6)
        np.save("g.npy", self.rng.random((self.n, nk)) < 0.4)
        self.variant = ["graph=g.npy"]
        self.tool("export", "g.npy", "-o", "t.json")
        if self.o["tree"] == "metis":
            self.variant.append("-ptree=metis:4")

    def draw_leaves(self):
        self.fold = 4 if self.o["heads"] == "shared" else 2
        np.save("leaf.npy", self.rng.integers(-1, 3, (self.n, self.fold)).astype("i4"))
        self.variant = ["treeformer-fine", "-pquery-leaf=@leaf.npy"]
        self.tool("build", *self.variant, "-o", "t.json")

    def draw_parents(self):
        parent = forest(self.r, self.n)
        np.save("parent.npy", parent)
        self.variant = ["hsa", "-pparent=@parent.npy"] + (["-pleaves=id"] if self.o["tree"] == "by id" else [])
        self.map = numbering(parent, True, self.o["tree"] == "depth-first")
        self.tool("build", *self.variant, "-o", "t.json")
        self.check_parents(parent)

    def check_parents(self, parent):
        made = oracle.Graph("t.json", np.zeros((0, 3))).parent
        if not all(made[self.map[v]] == (self.map[p] if p >= 0 else -1) for v, p in enumerate(parent)):
            raise RuntimeError("t.json has other parents")

    def draw_file(self):
        o, r, parent = self.o, self.r, None
        if o["tree"] in ("by id", "depth-first"):
            parent = forest(r, self.n)
            np.save("parent.npy", parent)
            self.map = numbering(parent, False, o["tree"] == "depth-first")
        n = self.n if parent is None else len(parent)
        n_edges = r.choice((n, 4 * n))
        drawn = np.concatenate([self.rng.integers(0, n, (n_edges, 2)), self.rng.integers(0, 3, (n_edges, 1)) * (o["source"] == "types")], 1)
        above = [n - 1 if parent is None else parent.max()]  # a node above the tokens, where there are such, sees itself
        drawn = np.unique(np.concatenate([drawn, [[v, v, 0] for v in (n - 1, *above)]]), axis=0)
        edges, kind = drawn[:, :2], drawn[:, 2]
        weight = np.round(self.rng.uniform(0.25, 2, len(edges)), 3) if o["source"] == "weights" else np.ones(len(edges))
        arrays = [x for x in ([drawn] if o["source"] == "types" else [drawn, edges]) if x.shape[0] != x.shape[1] or x.max() > 1]  # else refused: a mask?
        if o["source"] == "weights" and r.random() < 0.5:
            path = "g.mtx"
            lines = [f"{d + 1} {s + 1} {w}" for (s, d), w in zip(edges, weight)]
            open(path, "w").write("%%MatrixMarket matrix coordinate real general\n" + "\n".join([f"{n} {n} {len(edges)}", *lines]) + "\n")
        elif o["source"] == "weights" or not arrays or r.random() < 0.2:
            path = "g.csv"
            lines = [f"{s},{d},{t},{w}" for (s, d), t, w in zip(edges, kind, weight)]
            open(path, "w").write("\n".join(["source,target,type,weight", *lines]) + "\n")
        else:
            path = "g.npy"
            np.save(path, r.choice(arrays).astype("i4"))
        self.variant = [f"graph={path}"]
        if o["tree"] == "metis":
            sizes = ",".join(str(r.randint(2, 5)) for _ in range(r.randint(1, 3)))
            self.variant.append(f"-ptree=metis:{sizes}")
            self.tool("export", path, "--tree", f"metis:{sizes}", "-o", "t.json")
        elif parent is not None:
            self.variant += ["-pparents=@parent.npy", *(["-pleaves=depth-first"] if o["tree"] == "depth-first" else [])]
            self.tool("export", *(self.variant if o["tree"] == "depth-first" else [path, "--parents", "parent.npy"]), "-o", "t.json")
            self.check_parents(parent)
        else:
            self.tool("export", path, "-o", "t.json")
        place = np.arange(n) if self.map is None else self.map
        made = {tuple(e) for e in self.edges().tolist() if max(e[:2]) < n}
        if made != {(place[s], place[d], t) for (s, d), t in zip(edges, kind)}:
            raise RuntimeError("t.json has other edges")

    def draw_tensors(self):
        o, r = self.o, self.r
        self.samples = o["samples"] or 1
        self.kv_heads = 1 if o["heads"] == "rows" else self.fold // 2 if o["source"] == "leaves" and o["heads"] == "shared" else 2
        self.heads = self.kv_heads * (2 if o["heads"] == "shared" else 1)
        dim, dim_v = r.choice((1, 4, 7, 16)), r.choice((3, 8, 16))
        nq, nk = (len(x) // (self.fold if o["source"] == "leaves" else 1) for x in (self.graph.queries, self.graph.keys))
        if o["source"] == "bpt":
            nq = nk = self.graph.n
        shapes = {"query": (nq, self.heads, dim), "key": (nk, self.kv_heads, dim), "value": (nk, self.kv_heads, dim_v)}
        if o["way"] == "back":
            shapes["grad-out"] = (nq, self.heads, dim_v)
        self.tensor = {name: typed(self.rng.standard_normal((self.samples, *s)).astype("f4"), o["type"]) for name, s in shapes.items()}
        if o["grad-lse"]:
            self.tensor["grad-lse"] = self.rng.standard_normal((self.samples, nq, self.heads)).astype("f4")

    def draw_tables(self):
        o, r, g = self.o, self.r, self.graph
        normal = lambda *shape: self.rng.standard_normal(shape).astype("f4")
        types, columns = int(max(g.type, default=0)) + 1 + r.randint(0, 2), 1 if o["source"] == "leaves" else self.heads
        self.table = {}
        if o["node-pos"]:
            self.table["node-pos"] = normal(g.n, r.choice((1, 3)))
        if o["rel-key"]:
            self.table["rel-key"] = normal(types, self.tensor["query"].shape[3])
        if o["rel-bias"]:
            self.table["rel-bias"] = normal(types, columns) if o["rel-bias"] == "heads" else normal(types, 1) if r.random() < 0.5 else normal(types)
        if o["edge-bias"]:
            self.table["edge-bias"] = normal(g.n_first, columns) if o["edge-bias"] == "heads" else normal(g.n_first)
        if o["edge-key"]:
            _, _, kv_heads, dim = self.tensor["key"].shape
            self.table["edge-key"] = normal(g.n_first, kv_heads * dim)
        if o["sink"]:
            self.table["sink"] = normal(self.heads)
        if o["slopes"]:
            self.table["slopes"] = np.abs(normal(self.heads)) / 4
        kind, number = o["normaliser"], r.choice((1.5, 2)) if o["normaliser"] == "entmax" else -1
        self.normaliser = (kind, number)
        self.more = [] if kind == "softmax" else ["--normaliser", f"{kind}:{number}"]
        self.more += ["--softcap", 2] if o["softcap"] else []
        self.more += ["--scale", o["scale"]] if o["scale"] is not None else []
        self.more += ["--dropout", 0.3, "--seed", 5] if o["dropout"] else []
        self.more += ["--precision", "bf16"] if o["precision"] == "bf16" else []
        self.machine = (["--isa", o["isa"]] if o["isa"] else []) + (["--threads", o["threads"]] if o["threads"] else [])
        self.writes = [] if o["way"] == "inspect" else ["out"] + ["lse"] * o["lse"]
        if o["way"] == "back":
            own = ["value", "alpha"] if o["source"] == "coarse" else ["value", "query", "key", "scale", "log-mass", *self.table]
            self.writes += ["grad-" + name for name in own if r.random() < 0.7] or ["grad-value"]

    # ---- the plain way ----

    def plain_table(self, name):
        x = self.table[name]
        if name == "node-pos":
            return x[np.argsort(self.plain_map)]  # row i is of the caller's node that the graph calls i
        if name == "rel-bias":
            return np.ascontiguousarray(np.broadcast_to(x.reshape(len(x), -1), (len(x), 1 if self.o["source"] == "leaves" else self.heads)))
        return x

    def folded(self, name, x):
        """Of trees by head: a row for each token and head."""
        if self.o["source"] != "leaves":
            return x
        x = np.repeat(x, self.fold // x.shape[1], axis=1)
        return np.ascontiguousarray(x.reshape(-1, 1, *x.shape[2:]))

    def unfolded(self, name, x):
        if self.o["source"] != "leaves" or name not in ("out", "lse", "grad-query", "grad-key", "grad-value"):
            return x
        x = x.reshape(-1, self.fold, *x.shape[2:])
        if name not in ("grad-key", "grad-value"):
            return x
        narrow = self.kv_heads
        return added(x.reshape(len(x), narrow, self.fold // narrow, -1).transpose(2, 0, 1, 3)).reshape(len(x), narrow, *x.shape[2:])

    def plain(self, s):
        """What one sample gives, in the graph's own numbers: by name of option."""
        words = ["inspect" if self.o["way"] == "inspect" else "attend", *self.plain_words, *self.more]
        words += ["--isa", self.o["isa"]] if self.o["isa"] else []
        for name, x in self.tensor.items():
            if self.o["way"] == "inspect" and name == "value":
                continue
            np.save(f"plain_{name}.npy", self.folded(name, single(x[s])))
            words += [f"--{name}", f"plain_{name}.npy"]
        for name in self.table:
            np.save(f"plain_{name}.npy", self.plain_table(name))
            words += [f"--{name}", f"plain_{name}.npy"]
        if self.o["way"] == "inspect":
            return json.loads(self.tool(*words, "--row", self.token, "--json"))["row"]
        for name in self.writes:
            words += [f"--{name}", f"plain_{name}.out.npy"]
        self.tool(*words, "--quiet")
        return {name: self.unfolded(name, np.load(f"plain_{name}.out.npy")) for name in self.writes}

    def expected(self):
        """By name what is written, before its layout and type: what a sample has of its own [samples].., what samples share their sum."""
        each, all_samples = [self.plain(s) for s in range(self.samples)], {}
        for name in self.writes:
            parts = [x[name] for x in each]
            if name in ("out", "lse", "grad-query", "grad-key", "grad-value"):
                all_samples[name] = np.stack(parts)
                continue
            if name in ("grad-node-pos", "grad-log-mass"):
                parts = [x[self.plain_map] for x in parts]
            if name == "grad-rel-bias" and self.o["rel-bias"] == "column":
                parts = [part for x in parts for part in x.T]
            x = added(parts)
            all_samples[name] = x.reshape(self.table[name[5:]].shape) if name[5:] in self.table else x
        return all_samples

    # ---- the call as it was drawn ----

    def laid_out(self, x):
        """[samples][rows][heads].. in the call's axes."""
        if self.o["heads"] == "rows":
            return x[0, :, 0]
        x = x.swapaxes(1, 2) if self.o["layout"] == "hnd" else x
        return x if self.o["samples"] else x[0]

    def layout(self):
        return ("b" if self.o["samples"] and self.r.random() < 0.5 else "") + self.o["layout"]

    def drawn(self):
        """(the call's words, exit status, standard output, standard error)."""
        o, words = self.o, [self.o["way"].replace("forward", "attend").replace("back", "attend"), *self.words, *self.more, *self.machine]
        for name, x in self.tensor.items():
            if o["way"] == "inspect" and name == "value":
                continue
            x = self.laid_out(x)
            np.save(f"in_{name}.npy", np.asfortranarray(x) if self.r.random() < 0.2 else np.ascontiguousarray(x))
            words += [f"--{name}", f"in_{name}.npy"]
        for name, x in self.table.items():
            np.save(f"in_{name}.npy", x)
            words += [f"--{name}", f"in_{name}.npy"]
        for name in self.files():
            if os.path.exists(f"out_{name}.npy"):
                os.unlink(f"out_{name}.npy")
            words += [f"--{name}", f"out_{name}.npy"]
        words += ["--layout", self.layout()]
        words += ["--out-type", o["out-type"]] if o["out-type"] else []
        words += ["--chunks", f"random:{self.r.randrange(99)}"] if o["way"] == "decode" else []
        words += ["--row", self.token, "--json"] if o["way"] == "inspect" else ["--quiet"] if self.r.random() < 0.5 else []
        program = [*LAUNCHER[:-1], o["ranks"], LAUNCHER[-1]] if o["ranks"] > 1 else [HGA]
        return words, *run([*program, *words])

    def files(self):
        return self.writes + ["node-map"] * self.o["node-map"]

    # ---- what is compared ----

    def tolerance(self, name):
        """None: bit by bit. Sums in another order are near; by several ranks, gradients are, and decoders but for --same."""
        o = self.o
        if (o["order"] == "none" or o["dropout"]) and o["way"] != "decode" and (o["ranks"] == 1 or not name.startswith("grad-")):
            return None
        return 4e-2 if o["precision"] == "bf16" else {None: 3e-5, "f16": 2e-3, "same": 2e-3 if o["type"] == "f2" else 2e-2}[o["out-type"]]

    def compare(self, name, want):
        o = self.o
        shaped = self.laid_out(want) if name in ("out", "lse", "grad-query", "grad-key", "grad-value") else want
        kind = {None: "f4", "f16": "f2", "same": o["type"]}[o["out-type"]]
        want, got, near = typed(np.ascontiguousarray(shaped), kind), np.load(f"out_{name}.npy"), self.tolerance(name)
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"is {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
        if near is None:
            return "" if got.tobytes() == want.tobytes() else f"has other bits, {worst(single(got), single(want)):.3g} off"
        off = worst(single(got), single(want))
        return "" if off <= near else f"is {off:.3g} off"

    def compare_map(self):
        got = np.load("out_node-map.npy")
        return "" if got.dtype == np.int32 and np.array_equal(got, np.argsort(self.map)) else f"is {got.tolist()}, not {np.argsort(self.map).tolist()}"

    def inputs(self, s):
        """For the oracle, in the graph's numbers."""
        x = {name: single(t[s]).astype("f8") for name, t in self.tensor.items()} | {name: self.plain_table(name).astype("f8") for name in self.table}
        given = self.o["scale"]
        x["scale"] = np.array([x["query"].shape[2] ** -0.5 if given is None else np.float32(given)], "f8")
        return x | {"normaliser": self.normaliser} | ({"softcap": 2.0} if self.o["softcap"] else {})

    def compare_oracle(self, want):
        for s in range(self.samples):
            out, lse = oracle.attend(self.graph, self.inputs(s), self.heads)
            for name, x in (("out", out), ("lse", lse)):
                if name in want and worst(want[name][s], x) > 2e-5:
                    return f"{name} is {worst(want[name][s], x):.3g} from its definition"
        for name in self.writes:
            if name.startswith("grad-"):
                said = self.compare_slope(name, want[name])
                if said:
                    return said
        return ""

    def compare_slope(self, name, grad):
        own, slope = name[5:] in ("query", "key", "value"), 0
        direction = self.rng.standard_normal(grad[0].shape if own else grad.shape)
        in_graph = direction
        if name in ("grad-node-pos", "grad-log-mass"):
            in_graph = direction[np.argsort(self.map)]
        if name == "grad-rel-bias":
            in_graph = direction.reshape(len(direction), -1)
        for s in range(1 if own else self.samples):
            x = self.inputs(s)
            slope += oracle.slope(self.graph, x, self.heads, name[5:], in_graph, x["grad-out"], x.get("grad-lse"))
        terms = (grad[0] if own else grad) * direction
        off = abs(terms.sum() - slope) / (np.abs(terms).sum() + 0.1)
        return "" if off < (2e-2 if self.o["normaliser"] == "entmax" else 1e-3) else f"{name} goes {terms.sum():.6g} along a direction, the loss {slope:.6g}"

    def compare_row(self, row, want):
        return "" if row == want else f"the row of token {self.token} is {row}, not {want}"

    def check(self):
        """What is wrong, and the call."""
        self.token = self.r.randrange(len(self.graph.queries))
        want = self.plain(0) if self.o["way"] == "inspect" else self.expected()
        words, status, out, said = self.drawn()
        line = f"hga {' '.join(map(str, words))}\n{said}"
        if status:
            return f"exit status {status}", line
        if self.o["way"] == "inspect":
            return self.compare_row(json.loads(out)["row"], want), line
        wrong = [f"--{name} {what}" for name in self.writes for what in [self.compare(name, want[name])] if what]
        if self.o["node-map"] and self.compare_map():
            wrong.append(f"--node-map {self.compare_map()}")
        if self.o["source"] in (*FILES, "relations", "mask") and self.o["precision"] == "f32" and not self.o["dropout"] and not wrong:
            wrong = [self.compare_oracle(want)]
        return "; ".join(filter(None, wrong)), line

    def check_refused(self):
        self.token = 0
        words, status, out, said = self.drawn()
        line, phrase = f"hga {' '.join(map(str, words))}\n{said}", refusals(self.o)[0]
        if status not in (2, 3) or phrase not in said:
            return f"exit status {status}, and not refused with '{phrase}'", line
        left = [name for name in self.files() if os.path.exists(f"out_{name}.npy")]
        return f"left behind: {left}" if left else "", line


def main():
    if LAUNCHER:
        on_ranks()
    drawn, lacking = plan(FIRST, N)
    wrong = n_refused = 0
    for i, (options, is_refused) in enumerate(drawn):
        call, line = None, ""
        try:
            call = Call(options, FIRST + i)
            said, line = call.check_refused() if is_refused else call.check()
        except RuntimeError as error:
            said = str(error)
        n_refused += is_refused
        if said:
            wrong += 1
            print(f"draw {i} of {FIRST}: {said}\n  {line}  { {name: v for name, v in options.items() if v != OPTIONS[name][0]} }")
    pairs = [m for m in lacking if (has_ranks(m) if LAUNCHER else is_pair(m))]
    print(f"{N} drawn calls, {n_refused} of them refused, {wrong} wrong; of what may meet, {len(pairs)} pairs and {len(lacking) - len(pairs)} others do not")
    if wrong or not QUICK and len(numbers) < 2 and pairs:
        sys.exit(1)


main()
