"""Multi-query associative recall (Arora et al. 2023, "Zoology"): pairs of a key and a value come first, then keys at random gaps, and the
model says each key's value. A small causal transformer learns it with each attention.

    python3 examples/python/train/recall.py [--context 512] [--seeds 3] [--attention dense,window:left=32,..] [--out FOLDER]

Each key stands in one pair and is asked once; gaps are short more often than long, as in Zoology (the g-th place with a weight of 1/g);
all other places hold a blank. The loss is on the answers alone. A batch has sequences of one length, drawn from 16 tokens, 32, .. to
--context, and as many tokens whatever the length; a sequence has --pairs pairs, but never more than an eighth of its tokens. A token
begins with the embedding of the one before it, too (--back), so that one layer can recall: a value carries its key.

It prints the accuracy in % on sequences of --context tokens that no step has seen: the mean over the seeds, the least and the greatest;
the processor time of a step; the most memory above the program's own. recall.json has the accuracy by the distance between a pair and
its question, too. Above the rows stand a guess among all values, and the value of most pairs of the sequence. Two controls learn, but
cannot look a key up: "window:left=0" sees the token itself and the one before it, "mean" the mean of all before."""

import argparse

import loop
import tables
import torch
import torch.nn.functional as F
from model import Model

ATTENTION = (
    "dense,window:left=32,window:left=32:global=4,dilated:segments=32.128.512:dilations=1.4.16,bpt:k=4,bpt:k=16,htransformer:block=16,"
    "hsa:branching=4.8.16,fenwick,treeformer:height=2,routed:block=16:k=2,routed:block=16:k=8,mean,window:left=0"
)
SHARDS = 2
PLACES = 8  # a sequence has so many tokens a pair, at least
SHORTEST = 16  # tokens of the shortest sequences to learn from
NEAREST = 32  # accuracy is kept for distances up to 32, from there to 64, to 128, ..
NOTHING = -100  # where no answer is asked, by the name that cross_entropy ignores


class Recall:
    """The task of loop.train. Numbers below --keys are keys, then come --values values, and the blank."""

    def __init__(self, o):
        self.o, self.blank = o, o.keys + o.values
        self.lengths = [o.context >> i for i in range(o.context.bit_length()) if o.context >> i >= min(SHORTEST, o.context)]
        self.held_out = self.drawn(o.check, o.context, torch.Generator().manual_seed(o.data_seed))

    def drawn(self, n, tokens, generator):
        """Numbers [n][tokens]; the answers, NOTHING where no key is asked; how far back an asked key's pair is."""
        o = self.o
        pairs = min(o.pairs, tokens // PLACES)
        keys = torch.stack([torch.randperm(o.keys, generator=generator)[:pairs] for _ in range(n)])
        values = o.keys + torch.randint(o.values, (n, pairs), generator=generator)
        gaps = (1 / torch.arange(1, tokens - 2 * pairs + 1)).expand(n, -1)
        asked = 2 * pairs + torch.multinomial(gaps, pairs, generator=generator)
        numbers = torch.full((n, tokens), self.blank)
        numbers[:, : 2 * pairs] = torch.stack([keys, values], 2).flatten(1)
        answers, back = torch.full_like(numbers, NOTHING), torch.zeros_like(numbers)
        numbers.scatter_(1, asked, keys)
        answers.scatter_(1, asked, values)
        back.scatter_(1, asked, asked - 2 * torch.arange(pairs))
        return numbers, answers, back

    def draw(self, generator):
        tokens = self.lengths[int(torch.randint(len(self.lengths), (), generator=generator))]
        numbers, answers, _ = self.drawn(self.o.batch * (self.o.context // tokens), tokens, generator)
        return list(zip(numbers.chunk(SHARDS), answers.chunk(SHARDS)))

    @staticmethod
    def scores(model, numbers, answers):
        """Where a key is asked: the scores of all letters, and the answers."""
        asked = answers != NOTHING
        return model.scores(model.states(numbers)[asked]), answers[asked]

    def loss(self, model, shard):
        scores, answers = self.scores(model, *shard)
        return F.cross_entropy(scores, answers, reduction="sum"), len(answers)

    def check(self, model):
        numbers, answers, back = self.held_out
        right = torch.cat([scores.argmax(-1) == known for scores, known in
                           (self.scores(model, *part) for part in zip(numbers.split(4), answers.split(4)))])  # fmt: skip
        back = back[answers != NOTHING]
        return {"accuracy": 100 * right.double().mean().item(), "by_distance": by_distance(right, back)}


def by_distance(right, back):
    """Of distances up to NEAREST, from there to twice as far, ..: the % of answers that are right, and how many there are."""
    found, before, to = {}, 0, NEAREST
    while before < int(back.max()):
        here = right[(back > before) & (back <= to)]
        if len(here):
            found[str(to)] = [100 * here.double().mean().item(), len(here)]
        before, to = to, 2 * to
    return found


def baselines(task):
    numbers, answers, _ = task.held_out
    seen = F.one_hot(numbers, task.blank + 1)[..., task.o.keys : task.blank].sum(1)
    most = task.o.keys + seen.argmax(1, keepdim=True).expand_as(answers)
    asked = answers != NOTHING
    return {"(a guess among all values)": 100 / task.o.values,
            "(the value of most pairs)": 100 * (most == answers)[asked].double().mean().item()}  # fmt: skip


def model_of(words, task):
    o = task.o
    return Model(words, task.blank + 1, o.context, layers=o.layers, width=o.width, heads=o.heads, back=o.back)


def options(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--attention", default=ATTENTION, help="names separated by commas; a list inside one is written with points")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--keys", type=int, default=64)
    p.add_argument("--values", type=int, default=64)
    p.add_argument("--pairs", type=int, default=32, help="of a sequence, at most; each key of them is asked once")
    p.add_argument("--batch", type=int, default=0, help="sequences of --context tokens a step, more where they are shorter; 0: 4096 tokens")
    p.add_argument("--layers", type=int, default=1)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--back", type=int, default=1, help="a token begins with the embeddings of so many before it, too")
    p.add_argument("--check", type=int, default=64, help="sequences held out")
    p.add_argument("--data-seed", type=int, default=1, help="what the sequences held out are drawn from")
    loop.arguments(p, steps=250, rate=1e-2, out="runs/recall")
    o = p.parse_args(arguments)
    if not 1 <= o.pairs <= o.keys:
        p.error(f"--pairs {o.pairs} is not between 1 and --keys {o.keys}: a key stands in one pair")
    if o.context < PLACES:
        p.error(f"--context {o.context} is below {PLACES}: a pair has so many tokens at least")
    o.batch = o.batch or max(SHARDS, 4096 // o.context)
    return o


def main():
    o = options()
    task = Recall(o)
    print(f"{o.pairs} pairs of {o.keys} keys and {o.values} values, {o.context} tokens, {o.check} sequences held out")
    print(f"{o.layers} layers, width {o.width}, {o.heads} heads, {o.steps} steps of {o.batch} sequences, seeds 0 to {o.seeds - 1}")
    rows, curves = tables.compare(o, task, baselines(task), "accuracy", lambda name: model_of(name, task), lambda name: {"attention": name, "heads": o.heads})
    if curves:
        tables.finish("recall", o, "accuracy", rows, curves, "loss of the answers, nats, of the batches")


if __name__ == "__main__":
    main()
