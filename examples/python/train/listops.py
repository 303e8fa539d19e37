"""ListOps of the Long Range Arena: what is [MAX 2 9 [MIN 4 7 ] 0 ]? A small transformer learns it with each attention; "tree" is HSA on the
expression's own tree, which the others have to find in the brackets.

    python3 examples/python/train/listops.py [--max-length 64] [--seeds 3] [--attention dense,tree,..] [--out FOLDER]

Expressions are drawn by the published rules from a seed (an operator with a probability of 1/4 down to --max-depth, 2 to --max-args
arguments, operators MIN, MAX, MED and SM, the sum modulo 10; kept where --min-length < length < --max-length), none of them twice; the
defaults are smaller than the benchmark's (500 to 2000 tokens, depth 10, 10 arguments). It prints the accuracy in % on expressions that no
step has seen: the mean over the seeds, the least and the greatest; the processor time of a step; the most memory above the program's
own. Above them stand the most frequent answer, and the most frequent one of the outermost operator. Two controls learn, but attend to
nothing: "window:left=0:right=0" sees the token itself, "mean" the mean of all."""

import argparse
import random
from collections import Counter, defaultdict

import hga
import loop
import tables
import torch
import torch.nn.functional as F
from model import Layer, sinusoids

ATTENTION = "dense,tree,hsa:branching=4.8.16,window:left=16:right=16,bpt:k=4,htransformer:block=8,treeformer:height=2,mean,window:left=0:right=0"
OPERATORS, END = ("[MIN", "[MAX", "[MED", "[SM"), "]"
WORDS = [*map(str, range(10)), *OPERATORS, END]
NESTED = 0.25  # the probability of an operator where a value could stand
SHARDS = 2


# ---- expressions: a number, or [operator, argument, ..] ----


def drawn(r, depth, o):
    """An expression by the published rules."""
    if depth >= o.max_depth or r.random() > NESTED:
        return r.randrange(10)
    arguments = [drawn(r, depth + 1, o) for _ in range(r.randint(2, o.max_args))]
    return [r.choice(OPERATORS), *arguments]


def value(x):
    if isinstance(x, int):
        return x
    known = sorted(value(each) for each in x[1:])
    n = len(known)
    return {"[MIN": known[0], "[MAX": known[-1], "[MED": (known[(n - 1) // 2] + known[n // 2]) // 2, "[SM": sum(known) % 10}[x[0]]


def written(x, parent=-1, words=None, parents=None):
    """The words, and the parents of the tree whose leaves they are: a family is what stands between two brackets, they among it. Nodes
    are numbered from the top down, a family from left to right, so that leaves in order are words in order."""
    words, parents = ([], []) if words is None else (words, parents)
    if isinstance(x, int):
        words.append(x)
        parents.append(parent)
        return words, parents
    parents.append(parent)
    here = len(parents) - 1
    for each in (x[0], *x[1:], END):
        if isinstance(each, str):
            words.append(WORDS.index(each))
            parents.append(here)
        else:
            written(each, here, words, parents)
    return words, parents


class Sample:
    def __init__(self, x):
        words, self.parents = written(x)
        self.words, self.value = tuple(words), value(x)


def samples(n, seed, o):
    """So many different ones, in the order in which they were drawn."""
    r, found = random.Random(seed), {}
    while len(found) < n:
        x = drawn(r, 1, o)
        if isinstance(x, int):
            continue
        sample = Sample(x)
        if o.min_length < len(sample.words) < o.max_length:
            found.setdefault(sample.words, sample)
    return list(found.values())


# ---- the model ----


def forest(parents):
    """One hierarchy of many trees, between which no edges are; its rows are their words, one tree after the other."""
    joined = []
    for tree in parents:
        first = len(joined)
        joined += [p if p < 0 else first + p for p in tree]
    return hga.hsa(parent=joined, self=True)


class Tree(torch.nn.Module):
    """HSA on trees that come with the words."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x, h):
        batch, tokens, width = x.shape
        q, k, v = self.project(x).view(1, batch * tokens, 3, self.heads, width // self.heads).unbind(2)
        return self.out(h.attention(q, k, v, layout="bnhd").reshape(batch, tokens, width))


class Model(torch.nn.Module):
    """[batch, tokens] of words in, [batch, 10] of scores out: from the state of the first word, the outermost operator, and the mean of all."""

    def __init__(self, words, o):
        super().__init__()
        self.tree = words == "tree"
        self.word = torch.nn.Embedding(len(WORDS), o.width)
        torch.nn.init.normal_(self.word.weight, std=0.5)
        self.register_buffer("place", 0.5 * sinusoids(o.max_length, o.width))
        make = (lambda: Tree(o.width, o.heads)) if self.tree else words
        self.layers = torch.nn.ModuleList(Layer(make, o.width, o.heads, causal=False) for _ in range(o.layers))
        self.last, self.scores = torch.nn.LayerNorm(o.width), torch.nn.Linear(2 * o.width, 10)
        self.rows = hga.torch.NodeRows() if words.startswith("bpt") else None

    def forward(self, numbers, parents):
        x = self.word(numbers) + self.place[: numbers.shape[1]]
        x = x if self.rows is None else self.rows(x)
        more = (forest(parents),) if self.tree else ()
        for layer in self.layers:
            x = layer(x, *more)
        x = self.last(x if self.rows is None else self.rows.tokens(x))
        return self.scores(torch.cat([x[:, 0], x.mean(1)], -1))


# ---- the task of loop.train ----


class ListOps:
    """Batches are of one length, so that nothing is padding; a length comes as often as it occurs."""

    def __init__(self, o):
        found = samples(o.samples + o.check, o.data_seed, o)
        self.train, self.held_out, self.batch = found[o.check :], found[: o.check], o.batch
        self.by_length = self.grouped(self.train)

    @staticmethod
    def grouped(found):
        groups = defaultdict(list)
        for sample in found:
            groups[len(sample.words)].append(sample)
        return groups

    def draw(self, generator):
        one = self.train[int(torch.randint(len(self.train), (), generator=generator))]
        like = self.by_length[len(one.words)]
        batch = [like[i] for i in torch.randint(len(like), (self.batch,), generator=generator).tolist()]
        half = (len(batch) + SHARDS - 1) // SHARDS
        return [batch[i : i + half] for i in range(0, len(batch), half)]

    @staticmethod
    def scores(model, shard):
        return model(torch.tensor([s.words for s in shard]), [s.parents for s in shard]), torch.tensor([s.value for s in shard])

    def loss(self, model, shard):
        return F.cross_entropy(*self.scores(model, shard), reduction="sum"), len(shard)

    def check(self, model):
        right = 0
        for group in self.grouped(self.held_out).values():
            for i in range(0, len(group), 64):
                scores, values = self.scores(model, group[i : i + 64])
                right += int((scores.argmax(-1) == values).sum())
        return {"accuracy": 100 * right / len(self.held_out)}


def baselines(task):
    """The most frequent answer, of all and of those with the same outermost operator, on what is held out."""

    def guess(key):
        counts = defaultdict(Counter)
        for s in task.train:
            counts[key(s)][s.value] += 1
        best = {k: c.most_common(1)[0][0] for k, c in counts.items()}
        return 100 * sum(best.get(key(s)) == s.value for s in task.held_out) / len(task.held_out)

    return {"(the most frequent answer)": guess(lambda s: 0), "(.. of the outermost operator)": guess(lambda s: s.words[0])}


def options(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--attention", default=ATTENTION, help="names separated by commas; a list inside one is written with points")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--samples", type=int, default=20000, help="expressions to learn from")
    p.add_argument("--check", type=int, default=2000, help="expressions held out")
    p.add_argument("--data-seed", type=int, default=1, help="what expressions are drawn from")
    p.add_argument("--min-length", type=int, default=16)
    p.add_argument("--max-length", type=int, default=64)
    p.add_argument("--max-depth", type=int, default=4)
    p.add_argument("--max-args", type=int, default=5)
    loop.arguments(p, steps=600, rate=3e-3, out="runs/listops")
    return p.parse_args(arguments)


def main():
    o = options()
    task = ListOps(o)
    mean = sum(len(s.words) for s in task.train) / len(task.train)
    print(f"{len(task.train)} expressions to learn from, {len(task.held_out)} held out, {mean:.0f} words on average")
    print(f"{o.layers} layers, width {o.width}, {o.heads} heads, {o.steps} steps of {o.batch} expressions, seeds 0 to {o.seeds - 1}")
    rows, curves = tables.compare(o, task, baselines(task), "accuracy", lambda name: Model(name, o), lambda name: {"attention": name, "heads": o.heads})
    if curves:
        tables.finish("listops", o, "accuracy", rows, curves, "loss, nats, of the batches")


if __name__ == "__main__":
    main()
