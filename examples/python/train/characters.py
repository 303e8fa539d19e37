"""A character model of the King James Bible, trained with each attention: the same model, the same batches, the same seeds; only
attention differs (BP-Transformer's enwik8 and H-Transformer's One-Billion-Word, in small).

    sudo apt install bible-kjv       # or --text FILE, or TEXT=FILE
    python3 examples/python/train/characters.py [--context 512] [--seeds 3] [--attention dense,window:left=32,..] [--out FOLDER]

It prints bits a character on text that no step has seen: the mean over the seeds, the least and the greatest; the processor time of a
step; the most memory above the program's own. Above them stand models that do not learn: every character alike, characters by how
often they occur, and characters by the two before them. Two controls learn, but attend to nothing: "window:left=0" sees the
token itself, "mean" the mean of all before. --out has a log, a checkpoint and the measures of every run, and a plot; --resume goes on
from there."""

import argparse
import json
import math
import os
import pathlib
from collections import Counter

import loop
import scripture
import tables
import torch
import torch.nn.functional as F
from model import Model

ATTENTION = "dense,window:left=32,bpt:k=4,htransformer:block=16,hsa:branching=4.8.16,fenwick,dilated:segments=32.128.512:dilations=1.4.16,mean,window:left=0"
HELD_OUT = 0.05  # of the text, at its end
CHECKED = 32768  # characters of it, whatever the context
SHARDS = 2


def read(path):
    """The text; that of Debian's package bible-kjv, a verse a line, where none is named."""
    if path:
        return pathlib.Path(path).read_text(encoding="utf-8")
    return "\n".join(scripture.verses("gen1:1-rev22:21")) + "\n"


class Text:
    """Characters as numbers: those to learn from, and those held out."""

    def __init__(self, text):
        self.letters = "".join(sorted(set(text)))
        number = {c: i for i, c in enumerate(self.letters)}
        numbers = torch.tensor([number[c] for c in text])
        cut = int(len(numbers) * (1 - HELD_OUT))
        self.train, self.check = numbers[:cut], numbers[cut:]


class Characters:
    """The task of loop.train: the next character."""

    def __init__(self, text, o):
        self.text, self.context, self.batch = text, o.context, o.batch
        self.checked = min(o.check, len(text.check) - 1) // o.context

    def draw(self, generator):
        at = torch.randint(len(self.text.train) - self.context - 1, (self.batch,), generator=generator)
        windows = torch.stack([self.text.train[i : i + self.context + 1] for i in at])
        return windows.chunk(SHARDS)

    @staticmethod
    def loss(model, windows):
        scores = model(windows[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten(), reduction="sum"), windows[:, 1:].numel()

    def check(self, model):
        """On windows that follow each other from the beginning of the text held out."""
        total = 0.0
        for i in range(self.checked):
            total += self.loss(model, self.text.check[i * self.context : (i + 1) * self.context + 1][None])[0].item()
        return {"bits": total / (self.checked * self.context) / math.log(2)}


def frequencies(text, before, checked):
    """Bits a character of guessing by the `before` ones in front, as often as it followed them in the text; to what was counted one more of
    each is added, a hundredth where characters in front are looked at."""
    seen, of = Counter(), Counter()
    train, check = text.train.tolist(), text.check[:checked].tolist()
    for i in range(before, len(train)):
        seen[tuple(train[i - before : i + 1])] += 1
        of[tuple(train[i - before : i])] += 1
    more, total = 0.01 if before else 1.0, 0.0
    for i in range(before, len(check)):
        context = tuple(check[i - before : i])
        total -= math.log2((seen[context + (check[i],)] + more) / (of[context] + more * len(text.letters)))
    return total / (len(check) - before)


def baselines(text, checked):
    return {"(every character alike)": math.log2(len(text.letters)), "(by frequency)": frequencies(text, 0, checked),
            "(by the two before)": frequencies(text, 2, checked)}  # fmt: skip


def model_of(words, text, o):
    return Model(words, len(text.letters), o.context, layers=o.layers, width=o.width, heads=o.heads, back=o.back)


def about(words, text, o):
    """What examples/generate.c must know beside the weights."""
    return {"attention": words, "heads": o.heads, "letters": json.dumps(text.letters)}


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--text", default=os.environ.get("TEXT"), help="a file; otherwise that of the command bible, of Debian's bible-kjv")
    p.add_argument("--attention", default=ATTENTION, help="names separated by commas; a list inside one is written with points")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--batch", type=int, default=0, help="windows a step; 0: 2048 characters, and two windows at least")
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--back", type=int, default=3, help="a token begins with the embeddings of so many before it, too")
    p.add_argument("--check", type=int, default=CHECKED, help="characters of the text held out")
    loop.arguments(p, steps=400, rate=8e-3, out="runs/characters")
    o = p.parse_args()
    o.batch = o.batch or max(SHARDS, 2048 // o.context)
    return o


def main():
    o = options()
    text = Text(read(o.text))
    task = Characters(text, o)
    print(f"{len(text.train)} characters to learn from, {task.checked * o.context} of those held out, {len(text.letters)} letters")
    print(f"{o.layers} layers, width {o.width}, {o.heads} heads, context {o.context}, {o.steps} steps of {o.batch} windows, seeds 0 to {o.seeds - 1}")
    simple = baselines(text, task.checked * o.context)
    rows, curves = tables.compare(o, task, simple, "bits", lambda name: model_of(name, text, o), lambda name: about(name, text, o), math.log(2))
    if curves:
        lines = [("by the two before", simple["(by the two before)"])]
        tables.finish("characters", o, "bits", rows, curves, "bits a character, of the batches", lines)


if __name__ == "__main__":
    main()
