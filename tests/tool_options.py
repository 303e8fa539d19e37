"""Which options of `hga attend` (and decode, inspect --row) the drawn calls of tool_draws.py have: all values, what refuses what, and a
plan in which every two values meet, and every three options that are not the plain ones, as far as nothing refuses them."""

import itertools
import random

VARIANTS = {
    "window": "window -p left=3 -p right=0", "bpt": "bpt -p k=2 -p causal=1", "fenwick": "fenwick", "neighbourhood": "neighbourhood -p kernel=3",
    "htransformer": "htransformer -p block=2 -p relative=1", "causal htransformer": "htransformer -p block=4 -p causal=1",
    "causal hsa": "hsa -p branching=2,3 -p causal=1", "dilated": "dilated -p segments=4,8 -p dilations=1,2 -p causal=1",
    "ragged": "htransformer -p block=2 -p tokens=@lengths.npy", "coarse": "treeformer-coarse -p query-leaf=@leaf.npy -p height=2 -p alpha=@alpha.npy",
    "routed": "routed -p block=3 -p causal=1 -p share=all -p choice=@choice.npy",
}  # fmt: skip
FILES = ("edges", "types", "weights")
CAUSAL = ("window", "bpt", "fenwick", "causal htransformer", "causal hsa", "dilated", "routed")
# Of every option the values; the first is the plain one.
OPTIONS = {
    "source": (*FILES, "relations", "mask", "parents", "leaves", *VARIANTS),
    "tree": ("none", "metis", "by id", "depth-first", "written"),
    "order": ("none", "rcm", "metis", "degree"),
    "ranks": (1,),
    "way": ("forward", "back", "decode", "inspect"),
    "node-pos": (0, 1), "node-map": (0, 1), "lse": (0, 1), "grad-lse": (0, 1), "rel-key": (0, 1), "rel-bias": (0, "heads", "column"),
    "edge-bias": (0, "one", "heads"), "edge-key": (0, 1), "normaliser": ("softmax", "sigmoid", "entmax"), "softcap": (0, 1), "sink": (0, 1), "slopes": (0, 1),
    "scale": (None, 0.3, 0.0), "dropout": (0, 1), "layout": ("nhd", "hnd"), "samples": (0, 1, 3), "heads": ("one", "rows", "shared"),
    "type": ("f4", "f2", "bf16", "f8"), "out-type": (None, "f16", "same"), "precision": ("f32", "bf16"), "isa": (None, "ref"), "threads": (None, 3),
}  # fmt: skip


def is_file(o):
    """Is VARIANT a graph=FILE?"""
    return o["source"] in (*FILES, "relations", "mask") or o["tree"] == "written"


def is_hsa(o):
    return o["source"] in ("parents", "causal hsa")


def merges(o):
    return o["tree"] in ("metis", "by id", "depth-first") and o["source"] in FILES or o["source"] in ("htransformer", "causal htransformer", "dilated", "ragged", "relations")


def is_attend(o):
    return o["way"] in ("forward", "back")


def of_scores(o):
    """Is anything there that belongs to scores?"""
    given = any(o[name] for name in ("node-pos", "rel-key", "rel-bias", "edge-bias", "edge-key", "softcap", "slopes", "dropout"))
    return given or o["scale"] is not None or o["normaliser"] != "softmax"


# What cannot be, and what the tool says to who asks for it; None: nobody can.
REFUSED = (
    (lambda o: o["tree"] in ("by id", "depth-first") and o["source"] not in (*FILES, "parents"), None),
    (lambda o: o["source"] == "parents" and o["tree"] not in ("by id", "depth-first"), None),
    (lambda o: o["tree"] == "written" and o["source"] not in VARIANTS, None),
    (lambda o: o["tree"] == "metis" and o["source"] not in (*FILES, "relations", "mask"), None),
    (lambda o: o["tree"] == "metis" and o["source"] == "mask", "tokens on two sides have no clusters in common"),
    (lambda o: o["order"] != "none" and not is_file(o), "no parameter 'order'"),
    (lambda o: o["order"] != "none" and o["way"] == "decode", "order: changes nothing here"),
    (lambda o: o["ranks"] > 1 and not is_attend(o), None),
    (lambda o: o["ranks"] > 1 and o["source"] == "mask", "are different tokens"),
    (lambda o: o["ranks"] > 1 and (o["source"] == "leaves" or o["source"] in ("coarse", "routed") and o["tree"] != "written"), "routes any token anywhere"),
    (lambda o: o["way"] == "decode" and o["source"] not in (*CAUSAL, "mask"), "decoding needs a causal hierarchy"),
    (lambda o: o["way"] == "decode" and o["source"] == "mask", "decoding is of self-attention"),
    (lambda o: o["way"] == "decode" and (o["edge-bias"] or o["edge-key"]), None),
    (lambda o: o["edge-key"] and o["ranks"] > 1, "edge_key on ranks"),
    (lambda o: o["way"] == "decode" and o["source"] == "routed" and o["tree"] != "written", None),
    (lambda o: o["way"] == "inspect" and o["source"] == "leaves", None),
    (lambda o: o["way"] in ("inspect", "decode") and o["source"] == "coarse", None),
    (lambda o: of_scores(o) and o["source"] == "coarse", "computes no scores"),
    (lambda o: o["way"] == "inspect" and o["samples"], None),
    (lambda o: o["way"] == "inspect" and (o["lse"] or o["out-type"] or o["precision"] != "f32" or o["scale"] == 0.0), None),
    (lambda o: o["node-map"] and not is_attend(o), None),
    (lambda o: o["dropout"] and not is_attend(o), None),
    (lambda o: o["grad-lse"] and (not o["lse"] or o["way"] != "back"), None),
    (lambda o: (o["lse"] or o["sink"]) and (is_hsa(o) or o["source"] == "coarse" or o["normaliser"] != "softmax"), "has no softmax denominator"),
    (lambda o: o["sink"] and o["source"] == "leaves", "has a tree for each head"),
    (lambda o: (o["slopes"] or o["edge-key"]) and o["source"] == "leaves", "has a tree for each head"),
    (lambda o: o["rel-bias"] and o["source"] == "leaves", "has a tree for each head"),
    (lambda o: o["slopes"] and o["source"] == "neighbourhood", "distances mean nothing here"),
    (lambda o: o["normaliser"] == "entmax" and merges(o), "those of entmax cannot be merged"),
    (lambda o: (o["softcap"] or o["normaliser"] == "sigmoid") and o["source"] == "parents", "are softmax's"),
    (lambda o: o["dropout"] and o["normaliser"] == "entmax" and o["source"] == "parents", "entmax of energies has none"),
    (lambda o: o["ranks"] > 1 and o["normaliser"] == "entmax" and o["source"] == "parents", "entmax of energies is for one process"),
    (lambda o: o["heads"] == "rows" and (o["samples"] or o["source"] == "leaves"), None),
)  # fmt: skip


def refusals(o):
    return [words for holds, words in REFUSED if holds(o)]


def random_options(r):
    return {name: values[0] if r.random() < 0.25 else r.choice(values) for name, values in OPTIONS.items()}


def allowed(r):
    """Options that go together: those that are in the way of others are drawn again."""
    while True:
        o = random_options(r)
        for _ in range(40):
            if not refusals(o):
                return o
            name = r.choice(list(OPTIONS))
            o = o | {name: r.choice(OPTIONS[name])}


def refused(r):
    """Options of which exactly one rule says in words that they do not go together."""
    while True:
        o = allowed(r)
        for _ in range(2):
            name = r.choice(list(OPTIONS))
            o = o | {name: r.choice(OPTIONS[name])}
        if len(refusals(o)) == 1 and refusals(o)[0]:
            return o


def meetings(o):
    """Any two values, and any three options that are not the plain ones."""
    values = sorted((name, str(v)) for name, v in o.items())
    used = sorted(name for name, v in o.items() if v != OPTIONS[name][0])
    return {*itertools.combinations(values, 2), *itertools.combinations(used, 3)}


def is_pair(meeting):
    return isinstance(meeting[0], tuple)


def on_ranks():
    """All calls are on several: any option and a number of them meet."""
    OPTIONS["ranks"] = (2, 3)


def has_ranks(meeting):
    return len(OPTIONS["ranks"]) > 1 and is_pair(meeting) and "ranks" in dict(meeting)


def plan(first, n):
    """n draws, each the one of some that brings together most of what has not met; and what of it that could, has not."""
    r, met, drawn = random.Random(first), set(), []
    pool = [(o, meetings(o)) for o in (allowed(r) for _ in range(1000))]
    of_ranks = {m for _, meets in pool for m in meets if has_ranks(m)}
    for i in range(n):
        if i % 8 == 7:
            drawn.append((refused(r), True))
            continue
        best, meets = max(r.sample(pool, 100), key=lambda one: (len((one[1] - met) & of_ranks), len(one[1] - met)))
        met |= meets
        drawn.append((best, False))
    return drawn, set().union(*(meets for _, meets in pool)) - met
