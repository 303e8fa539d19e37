"""What other programs make of exported files; called by test_exports.sh. Every check compares with the .npy edges, or counts tokens x tokens."""
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as tree
from collections import Counter

import numpy as np


def die(text):
    sys.exit(f"{sys._getframe(1).f_code.co_name}: {text}")


def equal(got, want, what):
    if got != want:
        die(f"{what}: {str(got)[:300]}, not {str(want)[:300]}")


def edges(name):
    return [tuple(int(x) for x in row) for row in np.load(name + ".npy")]


def own_ids(name):
    """The .npy of a cross-attention graph counts within its side; .csv shares that. The graph's own ids are in the .dot."""
    text = open(name + ".dot").read()
    return Counter((int(a), int(b)) for a, b in re.findall(r"^  (\d+) -> (\d+)", text, re.M))


def graphml(name):
    import igraph
    import networkx

    g = networkx.read_graphml(name + ".graphml", node_type=int, force_multigraph=True)
    equal(Counter((u, v) for u, v in g.edges()), own_ids(name), "networkx")
    equal(sorted(d["type"] for _, _, d in g.edges(data=True)), sorted(t for _, _, t in edges(name)), "types")
    nodes = dict(g.nodes(data=True))
    for v, d in nodes.items():
        if "parent" in d:
            p = nodes[d["parent"]]
            if p["level"] <= d["level"] or p["span_first"] > d["span_first"] or p["span_last"] < d["span_last"]:
                die(f"node {v}: {d} below {p}")
    h = igraph.Graph.Read_GraphML(name + ".graphml")
    ids = [int(x.replace("n", "")) for x in h.vs["id"]]
    equal(Counter((ids[e.source], ids[e.target]) for e in h.es), own_ids(name), "igraph")
    equal([int(x) for x in h.vs["level"]], [nodes[i]["level"] for i in ids], "igraph's levels")
    if name == "own":
        weights = Counter(d["weight"] for _, _, d in g.edges(data=True))
        equal((weights[0.5], weights[2.0]), (1, 1), "weights")
        equal(Counter(h.es["weight"]), weights, "igraph's weights")
        equal(g.graph.get("id", 'a<b&"c"'), 'a<b&"c"', "name")


def gexf(name):
    import networkx

    g = networkx.read_gexf(name + ".gexf", node_type=int)
    equal(Counter((u, v) for u, v in g.edges()), own_ids(name) if g.is_multigraph() else Counter(set(own_ids(name))), "networkx")
    equal(len(g), 1 + max(g), "nodes")
    if name == "own":
        equal(sorted(d.get("weight", 1) for _, _, d in g.edges(data=True))[0], 0.5, "least weight")


def csv(name):
    lines = open(name + ".csv").read().splitlines()
    equal(lines[0], "source,destination,type" + (",weight" if name == "own" else ""), "columns")
    equal([tuple(int(x) for x in line.split(",")[:3]) for line in lines[1:]], edges(name), "rows")


def mtx(name):
    import scipy.io

    m = scipy.io.mmread(name + ".mtx").tocoo()
    equal(sorted(zip(m.row.tolist(), m.col.tolist())), sorted((v, u) for u, v, _ in edges(name)), "entries")


def metis(name):
    lines = open(name + ".graph").read().split("\n")
    head = lines[0].split()
    n, m, weighted = int(head[0]), int(head[1]), len(head) > 2
    want = Counter()
    for (u, v), times in own_ids(name).items():
        if u != v:
            want[u, v] += times
            want[v, u] += times
    got = {}
    for v, line in enumerate(lines[1 : n + 1]):
        x = [int(t) for t in line.split()]
        step = 2 if weighted else 1
        for i in range(0, len(x), step):
            got[v, x[i] - 1] = x[i + 1] if weighted else 1
    equal(got, dict(want), "pairs")
    equal(2 * m, len(got), "edges of the header")


def dot(name):
    svg = subprocess.run(["dot", "-Tsvg", name + ".dot"], capture_output=True, check=True).stdout
    drawn = Counter(g.get("class") for g in tree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"))
    if drawn["edge"] < sum(own_ids(name).values()):
        die(f"{drawn} for {sum(own_ids(name).values())} edges")


# ---- pictures ----

LEVELS = [0x3D4FC4, 0x9A3FB5, 0xD9487D, 0xF0803C, 0xF2B92E]
WEIGHTS = [0x0B0724, 0x5B1A7F, 0xB5367A, 0xFB8761, 0xFCF5BF]


def ramp(colours, t):
    rgb = np.array([[c >> 16 & 255, c >> 8 & 255, c & 255] for c in colours], float)
    return np.array([np.interp(t, np.linspace(0, 1, 5), rgb[:, i]) for i in range(3)])


def spans(name):
    import networkx

    g = networkx.read_graphml(name + ".graphml", node_type=int)
    return {v: (d["level"], d["span_first"], d["span_last"]) for v, d in g.nodes(data=True)}


def counted(name):
    """times[level][query][key], from the edges and the spans of their ends. Where nothing comes down the tree, coarse destinations reach no token."""
    span = spans(name)
    down = any(s.get("relation") == "tree down" for s in json.load(open(name + ".json"))["program"]["stages"])
    n = 1 + max(last for _, _, last in span.values())
    times = np.zeros((1 + max(l for l, _, _ in span.values()), n, n), int)
    for u, v, _ in edges(name):
        (lu, u0, u1), (lv, v0, v1) = span[u], span[v]
        if lv > 0 and not down:
            continue
        times[max(lu, lv), v0 : v1 + 1, u0 : u1 + 1] += 1
    return times


def sums(a, rows):
    """Add up the last two axes over cells."""
    n = a.shape[-1]
    edge = [i * n // rows for i in range(rows)]
    return np.add.reduceat(np.add.reduceat(a, edge, -2), edge, -1)


def wanted(name, cells):
    """colour and opacity of each cell"""
    times = counted(name)
    n = times.shape[1]
    top = max(l for l in range(len(times)) if times[l].any())
    if cells >= n:
        seen = times.any(0)
        level = np.where(seen, np.argmax(times > 0, 0), 0)  # the finest is drawn last
        share = seen.astype(float)
    else:
        area = sums(times > 0, cells)
        level = top - np.argmax(area[top::-1], 0)
        share = sums(times.any(0), cells) / sums(np.ones((n, n)), cells)
        share = np.ceil(share * 32 - 1e-6) / 32
    colour = np.moveaxis(ramp(LEVELS, level / top if top else level * 0.0), 0, -1)
    opacity = np.where(share > 0, 0.2 + 0.8 * share, 0)
    return colour * opacity[..., None] + 255 * (1 - opacity[..., None])


def compare(got, want):
    if got.shape != want.shape:
        die(f"{got.shape} cells, not {want.shape}")
    bad = np.argwhere(np.abs(got - want).max(-1) > 2)
    if len(bad):
        r, c = bad[0]
        die(f"{len(bad)} of {got.shape} cells differ; query {r}, key {c}: {got[r, c]}, not {want[r, c]}")


def plot_of(root):
    """Where the plot of an .svg is, and how many key tokens it has."""
    return [int(x) for x in root.get("data-plot").split()], int(root.get("data-tokens").split()[1])


def png(name, path, svg_path):
    (left, top, width, height), n = plot_of(tree.parse(svg_path).getroot())
    ppm = subprocess.run(["pngtopnm", path], capture_output=True, check=True).stdout
    magic, size, _, body = ppm.split(b"\n", 3)
    w, h = (int(x) for x in size.split())
    image = np.frombuffer(body, np.uint8).reshape(h, w, 3).astype(float)
    cells = min(n, width)
    at = [(2 * i + 1) * width // (2 * cells) for i in range(cells)]
    compare(image[np.ix_([top + y for y in at], [left + x for x in at])], wanted(name, cells))


def svg_cells(path, least):
    root = tree.parse(path).getroot()
    (left, top, width, height), n = plot_of(root)
    data = next(g for g in root.iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "data")
    cells = least(n, round(width), root)
    image = np.full((cells, cells, 3), 255.0)
    boxes = 0
    for r in data:
        if r.tag.endswith("rect"):
            x, y, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
            corners = [(x, y, x + w, y + h)]
        else:
            corners = [[float(x) for x in box.groups()] for box in re.finditer(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H\1z", r.get("d"))]
            equal(len(corners), r.get("d").count("M"), "boxes")
        colour, opacity = r.get("fill"), float(r.get("fill-opacity", 1))
        rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
        for x0, y0, x1, y1 in corners:
            c0, c1 = round((x0 - left) * cells / width), round((x1 - left) * cells / width)
            r0, r1 = round((y0 - top) * cells / height), round((y1 - top) * cells / height)
            image[r0:r1, c0:c1] = image[r0:r1, c0:c1] * (1 - opacity) + rgb * opacity
        boxes += len(corners)
    return image, boxes


def cells_of(n, width, root):
    """How many cells a side: tokens up to 256, where they have a pixel; else as many pixels as the cell's size says."""
    subtitle = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")][1]
    found = re.search(r"a cell is ([\d.]+) x", subtitle)
    return round(n / float(found.group(1))) if found else n


def svg(name, path):
    image, boxes = svg_cells(path, cells_of)
    compare(image, wanted(name, len(image)))
    if boxes > 40000:
        die(f"{boxes} rectangles")
    elements = sum(1 for _ in tree.parse(path).iter())
    if elements > 1000:
        die(f"{elements} elements, where those of one look should be one")


def readers(name):
    for read in (graphml, gexf, csv, mtx, metis, dot):
        read(name)


def pictures(name):
    for small in ("", ".small"):
        png(name, name + small + ".png", name + small + ".svg")
        svg(name, name + small + ".svg")


def tensors(n, heads, dim, *paths):
    rng = np.random.default_rng(5)
    for path in paths:
        np.save(path, rng.normal(size=(int(n), int(heads), int(dim))).astype("f4"))


def weights(path, query, key, head):
    q, k, head = np.load(query).astype(float), np.load(key).astype(float), int(head)
    n, dim = q.shape[0], q.shape[2]
    mean = np.zeros((n, n))
    heads = [head] if head >= 0 else range(q.shape[1])
    for h in heads:
        s = np.where(np.tri(n, dtype=bool), q[:, h] @ k[:, h].T / math.sqrt(dim), -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        mean += p / p.sum(1, keepdims=True) / len(heads)
    image, _ = svg_cells(path, cells_of)
    cells = len(image)
    size = np.diff([i * n // cells for i in range(cells + 1)])[:, None]
    cell = sums(mean, cells) / size
    with np.errstate(divide="ignore"):
        value = np.maximum(1 + np.log10(cell / cell.max()) / 3, 0)
    steps = np.moveaxis(ramp(WEIGHTS, np.arange(61) / 60), 0, -1)
    got = np.argmin(((image[:, :, None] - steps) ** 2).sum(-1), -1) / 60
    if np.abs(got - value).max() > 1.01 / 60:
        die(f"off by {np.abs(got - value).max()}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
