"""hga attend routed against its definition (routed_oracle.py): choices, outputs, log-sum-exps, weights of blocks and gradients, of drawn
settings with drawn options; the definition's limits; and what commands that look at graphs say of one that was chosen.
usage: tool_routed.py HGA [FIRST [N]], in a folder that may be filled"""

import json
import os
import random
import sys

import numpy as np
import routed_oracle as oracle
from tool_arrays import QUICK, run

HGA, *numbers = sys.argv[1:]
FIRST = int(numbers[0]) if numbers else 1
N = int(numbers[1]) if len(numbers) > 1 else 25 if QUICK else 120
wrong = []


def say(what, line):
    wrong.append(what)
    print(f"{what}\n  {line}")


def tool(*words, status=0):
    got, out, said = run([HGA, *words])
    if got != status:
        say(f"exit status {got}, not {status}: {said}", " ".join(map(str, words)))
    return said if status else out


def typed(settings, r):
    """A k of each chooser is a file, or a list."""
    if isinstance(settings.get("k"), list):
        np.save("k.npy", np.array(settings["k"], r.choice(("i4", "i8"))))
        settings = settings | {"k": "@k.npy" if r.random() < 0.5 or len(settings["k"]) < 2 else ",".join(map(str, settings["k"]))}
    return [f"-p{name.replace('_', '-')}={int(x) if isinstance(x, bool) else x}" for name, x in settings.items()]


def draw_settings(r, n):
    b = r.choice((1, 3, 4, 8, 16))
    s = {"block": b, "causal": r.random() < 0.6}
    s |= {"threshold": r.choice((0.3, 0.7, 0.9, 1.0))} if r.random() < 0.35 else {"k": r.randint(1, 7)} if r.random() < 0.9 else {}
    s |= {"sinks": r.randint(0, 2)} if r.random() < 0.5 else {}
    s |= {"local": r.randint(0, 2)} if r.random() < 0.5 else {}
    s |= {"share": r.choice(("head", "group", "all"))} if r.random() < 0.7 else {}
    kind = r.random()
    if kind < 0.25:
        s |= {r.choice(("query_block", "prefill")): r.choice((2, 4, 5, 16))}
        s |= {"score": "sample", "sample": r.choice((1, 2))} if r.random() < 0.5 else {}
    elif kind < 0.45:
        s |= {"score": "minmax"}
    elif kind < 0.6:
        s |= {"score": "given"}
    if s["causal"] and r.random() < 0.3 and not s.keys() & {"query_block", "prefill"} and s.get("score") != "given":
        s |= {"coarse": b * r.choice((1, 2, 3)), "coarse_k": r.randint(1, 3)}
    return s


class Call:
    def __init__(self, seed):
        r, rng = random.Random(seed), np.random.default_rng(seed)
        self.r, self.rng = r, rng
        self.lengths = [r.choice((1, 2, 7, 16, 33, 50)) for _ in range(r.choice((1, 1, 2, 3)))]
        self.n, self.dim, dim_v = sum(self.lengths), r.choice((1, 4, 8, 16)), r.choice((3, 8))
        self.kv, share = r.choice((1, 2, 3)), r.choice((1, 1, 2, 4))
        self.heads = self.kv * share
        self.settings = draw_settings(r, self.n)
        if "k" in self.settings and r.random() < 0.4:
            choosers = {"head": self.heads, "group": self.kv, "all": 1}[self.settings.get("share", "head")]
            self.settings["k"] = [r.choice((1, 2, 3, 5, 7, 99)) for _ in range(choosers)]
        self.batch = r.random() < 0.2
        shapes = (self.heads, self.dim), (self.kv, self.dim), (self.kv, dim_v), (self.heads, dim_v)
        self.samples = 2 if self.batch else 1
        self.q, self.k, self.v, self.d_out = (rng.standard_normal((self.samples, self.n, *s)).astype("f4") for s in shapes)
        self.draw_options()

    def draw_options(self):
        r, rng, heads = self.r, self.rng, self.heads
        normal = lambda *shape: rng.standard_normal(shape).astype("f4")
        self.tables, self.more, self.how = {}, [], {}
        if r.random() < 0.25:
            self.how["normaliser"], self.how["number"] = r.choice((("sigmoid", -1), ("entmax", 1.5), ("entmax", 2)))
            self.more += ["--normaliser", f"{self.how['normaliser']}:{self.how['number']}"]
        elif r.random() < 0.4:
            self.tables["sink"] = normal(heads)
        if r.random() < 0.3:
            self.tables["slopes"] = np.abs(normal(heads)) / 8
        if r.random() < 0.2:
            self.tables["rel-key"] = normal(1, self.dim)
        if r.random() < 0.2:
            self.tables["rel-bias"] = normal(1, heads)
        if r.random() < 0.2:
            self.more += ["--softcap", 3]
            self.how["softcap"] = 3
        self.scale = r.choice((None, None, 0.5, 2.0))
        if self.scale is not None:
            self.more += ["--scale", self.scale]
        self.dropout = r.random() < 0.3
        if self.dropout:
            self.more += ["--dropout", 0.25, "--seed", 11, "--layer", 3]
        self.more += ["--threads", r.randint(1, 3)] if r.random() < 0.3 else []
        self.layout = r.choice(("nhd", "hnd"))
        self.back = r.random() < 0.5

    def in_files(self):
        words = []
        for name, x in (("query", self.q), ("key", self.k), ("value", self.v)):
            x = x.swapaxes(1, 2) if self.layout == "hnd" else x
            np.save(f"{name}.npy", np.ascontiguousarray(x if self.batch else x[0]))
            words += [f"--{name}", f"{name}.npy"]
        for name, x in self.tables.items():
            np.save(f"{name}.npy", x)
            words += [f"--{name}", f"{name}.npy"]
        return words

    def scored(self, spans):
        """Given scores, as the tool takes them: ragged samples have the blocks of the longest."""
        if self.settings.get("score") != "given":
            return None
        c = {"head": self.heads, "group": self.kv, "all": 1}[self.settings.get("share", "head")]
        blocks = max(-(-n // self.settings["block"]) for n in self.lengths)
        x = self.rng.standard_normal((self.samples, c, self.n, blocks)).astype("f4")
        x[self.rng.random(x.shape) < 0.1] = -np.inf
        np.save("scores.npy", x if self.batch else x[0])
        return x

    def check(self):
        spans = np.cumsum([0, *self.lengths])
        scores = self.scored(spans)
        words = ["attend", "routed", *typed(self.settings, self.r), *self.more, *self.in_files(), "--layout", self.layout, "--quiet"]
        if len(self.lengths) > 1:
            np.save("lengths.npy", np.array(self.lengths, "i4"))
            words += ["-ptokens=@lengths.npy"]
        if scores is not None:
            words += ["--block-scores", "scores.npy"]
        files = ["out", "choice", "block-weights"] + ["lse"] * ("normaliser" not in self.how)
        if self.back:
            np.save("grad-out.npy", (self.d_out.swapaxes(1, 2) if self.layout == "hnd" else self.d_out)[slice(None) if self.batch else 0])
            words += ["--grad-out", "grad-out.npy"]
            files += ["grad-query", "grad-key", "grad-value", *(f"grad-{name}" for name in self.tables)]
        for name in files:
            words += [f"--{name}", f"got_{name}.npy"]
        self.line = " ".join(map(str, ["hga", *words]))
        status, _, said = run([HGA, *words])
        if status:
            return f"exit status {status}: {said}"
        got = {name: np.load(f"got_{name}.npy") for name in files}
        if not self.batch:
            got = {n: x[None] if n in ("out", "choice", "block-weights", "lse", "grad-query", "grad-key", "grad-value") else x for n, x in got.items()}
        return self.compare(got, spans, scores)

    def compare(self, got, spans, scores):
        heads = lambda x: x.swapaxes(0, 1).astype("f8")
        table = {name.replace("-", "_"): x.astype("f8") for name, x in self.tables.items()}
        how = self.how | table | ({} if self.scale is None else {"scale": self.scale})
        loss = lambda out, d: (out * d).sum()
        for s in range(self.samples):
            at = 0
            for a, b in zip(spans, spans[1:]):
                q, k, v, d = (heads(x[s, a:b]) for x in (self.q, self.k, self.v, self.d_out))
                n = b - a
                n_rows = len(oracle.cut(n, oracle.settings_of(self.settings, self.n)["query_block"]))
                mine = self.settings | ({"query_block": self.settings["prefill"], "prefill": 1} if self.settings.get("prefill", 1) > 1 else {})
                given = None if scores is None else scores[s, :, a:b, : -(-n // self.settings["block"])].astype("f8")
                want, margin = oracle.choose(q, k, mine, self.scale, given)
                has = got["choice"][s][:, at : at + n_rows]
                for c, rows in enumerate(want):
                    for i, blocks in enumerate(rows):
                        listed = [j for j in has[c, i] if j >= 0]
                        if listed != sorted(listed) or (has[c, i][len(listed) :] != -1).any():
                            return f"choice {has[c, i]} does not ascend"
                        if margin[c][i] > 1e-4 and listed != blocks:
                            return f"chooser {c}, query block {i} of sample {a} .. {b} chose {listed}, not {blocks}"
                at += n_rows
                seen = oracle.seen_by(has.tolist(), mine, self.heads, n)
                drop = None
                if self.dropout:
                    drop = oracle.kept(self.heads, spans[-1], 0.25, 11, 3)[:, a:b, a:b]
                out, lse, p = oracle.attend(q, k, v, seen, dropout=drop, **how)
                out_got = got["out"][s] if self.layout == "hnd" else got["out"][s].swapaxes(0, 1)
                if np.abs(out_got[:, a:b] - out).max() > 5e-6:
                    return f"out is {np.abs(out_got[:, a:b] - out).max():.3g} off"
                if "lse" in got:
                    lse_got = got["lse"][s] if self.layout == "hnd" else got["lse"][s].swapaxes(0, 1)
                    if np.abs(lse_got[:, a:b] - lse).max() > 1e-5:
                        return f"lse is {np.abs(lse_got[:, a:b] - lse).max():.3g} off"
                shares = oracle.block_weights(p, has.tolist(), mine)
                if np.abs(got["block-weights"][s][:, a:b, : shares.shape[2]] - shares).max() > 5e-6:
                    return "block weights are others"
        return self.compare_gradients(got, spans, how) if self.back else ""

    def compare_gradients(self, got, spans, how):
        """Along a direction, with the choice held."""
        heads = lambda x: x.swapaxes(0, 1).astype("f8")
        mine = self.settings | ({"query_block": self.settings["prefill"], "prefill": 1} if self.settings.get("prefill", 1) > 1 else {})
        x = {"query": self.q.astype("f8"), "key": self.k.astype("f8"), "value": self.v.astype("f8")} | {n: t.astype("f8") for n, t in self.tables.items()}

        def loss(x):
            total = 0
            for s in range(self.samples):
                at = 0
                for a, b in zip(spans, spans[1:]):
                    n_rows = len(oracle.cut(b - a, oracle.settings_of(mine, b - a)["query_block"]))
                    seen = oracle.seen_by(got["choice"][s][:, at : at + n_rows].tolist(), mine, self.heads, b - a)
                    at += n_rows
                    drop = oracle.kept(self.heads, spans[-1], 0.25, 11, 3)[:, a:b, a:b] if self.dropout else None
                    named = how | {n.replace("-", "_"): x[n] for n in self.tables}
                    out = oracle.attend(*(heads(x[n][s, a:b]) for n in ("query", "key", "value")), seen, dropout=drop, **named)[0]
                    total += (out * heads(self.d_out[s, a:b])).sum()
            return total

        for name in x:
            grad = got[f"grad-{name}"].astype("f8")
            if name in ("query", "key", "value") and self.layout == "hnd":
                grad = grad.swapaxes(1, 2)
            direction, step = self.rng.standard_normal(x[name].shape), 1e-5
            slope = (loss(x | {name: x[name] + step * direction}) - loss(x | {name: x[name] - step * direction})) / (2 * step)
            terms = grad.reshape(direction.shape) * direction
            if abs(terms.sum() - slope) > (2e-2 if self.how.get("normaliser") == "entmax" else 1e-4) * (np.abs(terms).sum() + 1):
                return f"grad-{name} goes {terms.sum():.6g} along a direction, the loss {slope:.6g}"
        return ""


def check_drawn():
    for i in range(N):
        call = Call(FIRST + i)
        said = call.check()
        if said:
            say(f"draw {FIRST + i}: {said}", call.line)


check_drawn()
print(f"{N} drawn calls of routed, {len(wrong)} wrong")
sys.exit(bool(wrong))
