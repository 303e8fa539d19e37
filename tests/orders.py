"""The tool on graphs in order: hga attend -p order=.. gives what it gives without, there and back; what an order gains is
said; graphs of files in hga bench; edges that are given twice, and loops that a format has no place for.
usage: orders.py HGA, in an empty folder"""

import json
import os
import subprocess
import sys

import numpy as np

HGA = sys.argv[1]
RNG = np.random.default_rng(8)


def run(*words, status=0):
    done = subprocess.run([HGA, *map(str, words)], capture_output=True, text=True, timeout=300)
    if done.returncode != status:
        sys.exit(f"hga {' '.join(map(str, words))}: exit {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done


def fact(holds, what):
    if not holds:
        sys.exit(f"not so: {what}")
    print("ok", what)


def near(a, b, tolerance):
    return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=tolerance)  # rows without edges have -inf both


# ---- a mesh under shuffled numbers, some edges of it one way, three nodes alone ----

SIDE = 30
at = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
pairs = np.concatenate([
    np.stack([a.ravel(), b.ravel()], 1)
    for a, b in ((at[:, 1:], at[:, :-1]), (at[:, :-1], at[:, 1:]), (at[1:], at[:-1]), (at[:-1], at[1:]), (at[1:, 1:], at[:-1, :-1]))
])  # fmt: skip
number = RNG.permutation(SIDE * SIDE + 3)
edges = number[pairs].astype(np.int32)
n = SIDE * SIDE + 3
edges = np.unique(np.concatenate([edges, [[n - 1, n - 1]]]), axis=0).astype(np.int32)  # the last node, so that n is known
np.save("mesh.npy", edges)

heads, dim = 2, 8
for name in ("q", "k", "v", "d"):
    np.save(f"{name}.npy", RNG.standard_normal((n, heads, dim)).astype(np.float32))
np.save("d_lse.npy", RNG.standard_normal((n, heads)).astype(np.float32))
np.save("bias.npy", RNG.standard_normal((len(edges), heads)).astype(np.float32))
np.save("pos.npy", RNG.standard_normal((n, 3)).astype(np.float32))

GRADIENTS = ("query", "key", "value", "edge-bias", "node-pos", "log-mass")


def attend(to, *order):
    words = ["attend", "graph=mesh.npy", *order]
    for name, file in (("query", "q"), ("key", "k"), ("value", "v"), ("edge-bias", "bias"), ("node-pos", "pos")):
        words += [f"--{name}", f"{file}.npy"]
    forward = run(*words, "--out", f"{to}.npy", "--lse", f"{to}_lse.npy")
    back = words + ["--grad-out", "d.npy", "--grad-lse", "d_lse.npy", "--out", f"{to}_2.npy", "--lse", f"{to}_2_lse.npy"]
    for name in GRADIENTS:
        back += [f"--grad-{name}", f"{to}_{name}.npy"]
    run(*back)
    return forward.stderr


attend("plain")
for how in ("rcm", "metis", "degree"):
    said = attend(how, "-p", f"order={how}")
    fact("edges between two halves" in said and "rows read for a row" in said, f"what {how} gains is said")
    fact(near(np.load(f"{how}.npy"), np.load("plain.npy"), 1e-6), f"attention in order {how} is attention")
    for name in ("lse", "2_lse", *GRADIENTS):
        fact(near(np.load(f"{how}_{name}.npy"), np.load(f"plain_{name}.npy"), 2e-5), f"{how}: {name} comes back")
fact("order" not in attend("none", "-p", "order=none"), "without an order nothing is said of one")
fact(np.array_equal(np.load("none.npy"), np.load("plain.npy")), "order=none is the file's own order")

# a batch: one order for all
for name in ("q", "k", "v"):
    np.save(f"{name}2.npy", np.stack([np.load(f"{name}.npy"), 2 * np.load(f"{name}.npy")]))
words = ["attend", "graph=mesh.npy", "--query", "q2.npy", "--key", "k2.npy", "--value", "v2.npy", "--quiet", "--out"]
run(*words, "b.npy")
fact(run(*words, "b_rcm.npy", "-p", "order=rcm").stderr == "", "--quiet says nothing")
fact(near(np.load("b.npy"), np.load("b_rcm.npy"), 1e-5), "samples of a batch go along")

# ---- where orders are looked at ----

text = run("inspect", "graph=mesh.npy", "-p", "order=rcm").stdout
line = next(line for line in text.splitlines() if line.startswith("order "))
was, now = (float(x) for x in line.split("halves ")[1].split(" %")[0].split(" -> "))
fact(was > 40 and now < 3, "inspect says how many edges are cut: " + line)
fact("order" in json.loads(run("inspect", "graph=mesh.npy", "-p", "order=rcm", "--json").stdout), "and in its JSON")
fact("edges between two halves" in run("explain", "graph=mesh.npy", "-p", "order=metis").stderr, "explain says it, too")
for command in ("check", "export"):
    more = ["-o", "x.json"] if command == "export" else []
    done = run(command, "graph=mesh.npy", "-p", "order=rcm", *more, status=2)
    fact("order: changes nothing here" in done.stderr, f"{command} refuses an order")
fact("order" in run("attend", "graph=mesh.npy", "-p", "order=rmc", "--query", "q.npy", "--key", "k.npy", "--value", "v.npy",
                    "--out", "x.npy", status=2).stderr, "an order that nobody knows is refused")  # fmt: skip

# ---- the bench ----

rows = json.loads(run("bench", "--graph", "mesh.npy:order=rcm", "--repetitions", 1, "--heads", 2, "--dim", 8, "--json", "-").stdout)
rows = rows["benchmarks"]
fact([r["tokens"] for r in rows] == [n], "bench --graph takes its tokens from the file, once")
rows = json.loads(run("bench", "--variants", "window:left=2,graph=mesh.npy", "--tokens", "64,128", "--repetitions", 1, "--json", "-").stdout)
fact([(r["variant"], r["tokens"]) for r in rows["benchmarks"]] == [("window", 64), ("graph=mesh.npy", n), ("window", 128)],
     "beside variants of two lengths a file runs once")  # fmt: skip
os.link("mesh.npy", "a,b:c.npy")
rows = json.loads(run("bench", "--graph", "a,b:c.npy:order=rcm", "--repetitions", 1, "--heads", 2, "--dim", 8, "--json", "-").stdout)
fact([r["tokens"] for r in rows["benchmarks"]] == [n], "commas and colons in its name are its name's")
os.unlink("a,b:c.npy")

# ---- edges that are given twice, and loops ----

with open("twice.csv", "w") as file:
    file.write("source,target\n0,1\n1,2\n0,1\n2,2\n0,1\n")
done = run("inspect", "twice.csv")
fact("twice.csv: 2 edges repeat another" in done.stderr, "edges that a file repeats are counted on stderr")
fact("2 edges repeat another and count once more" in done.stdout, "and by inspect")
fact(json.loads(run("inspect", "twice.csv", "--json").stdout)["relations"][0]["twice"] == 2, "and in its JSON")
fact("repeat" not in run("inspect", "mesh.npy").stderr, "nothing is said where none is repeated")
done = run("export", "twice.csv", "-o", "twice.graph")
fact("1 edges from a node to itself are left out" in done.stderr, "loops that METIS's files have no place for are said")
