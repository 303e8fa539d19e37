"""A character model of the Gospels, trained with dense attention and with hierarchies: the same model, the same batches, the same
seeds; only attention differs.

    python3 examples/python/characters.py [--steps 250] [--context 1024] [--seeds 3] [--attention sdpa,dense,window:left=32,..]

It prints, for each attention, the loss on text that no step has seen (nats a character; mean over the seeds, and the least and the
greatest), and the median processor time of a step. Above them stand three models that do not learn: every character alike, characters
by how often they occur, and characters by the two before them."""

import argparse
import functools
import math
import os
import time
from collections import Counter

import torch
import torch.nn.functional as F

import hga.torch

ATTENTION = "sdpa,dense,window:left=32,htransformer:block=16,hsa:branching=4.8.16,fenwick"
HELD_OUT = 0.1  # of the text, at its end
HERE = os.path.dirname(os.path.abspath(__file__))


class Sdpa(torch.nn.Module):
    """torch's own attention, or another of causal queries, keys and values, in the shape of hga.torch.Attention."""

    def __init__(self, width, heads, attend=functools.partial(F.scaled_dot_product_attention, is_causal=True)):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.project = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.project(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(q, k, v).transpose(1, 2).reshape(batch, tokens, width))


class Layer(torch.nn.Module):
    def __init__(self, attention, width, heads):
        super().__init__()
        self.before_attention, self.before_wide = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        if attention == "sdpa":
            self.attention = Sdpa(width, heads)
        elif callable(attention):
            self.attention = Sdpa(width, heads, attention)
        else:
            self.attention = hga.torch.Attention(attention.replace(".", ","), width, heads, causal=True)
        self.wide = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.wide(self.before_wide(x))


class Model(torch.nn.Module):
    """Scores of the character that follows each of `text`, whose first is character `first` of its window."""

    def __init__(self, attention, letters, a, first=0):
        super().__init__()
        self.first = first
        self.letter, self.place = torch.nn.Embedding(letters, a.width), torch.nn.Embedding(a.context, a.width)
        self.layers = torch.nn.Sequential(*(Layer(attention, a.width, a.heads) for _ in range(a.layers)))
        self.last, self.scores = torch.nn.LayerNorm(a.width), torch.nn.Linear(a.width, letters)

    def forward(self, text):
        x = self.letter(text) + self.place(torch.arange(self.first, self.first + text.shape[1]))
        return self.scores(self.last(self.layers(x)))


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    numbers = torch.tensor([number[c] for c in text])
    cut = int(len(numbers) * (1 - HELD_OUT))
    return numbers[:cut], numbers[cut:], len(letters)


def loss_of(model, windows):
    scores = model(windows[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def held_out(model, text, a):
    """On windows that follow each other from the beginning of the text held out."""
    model.eval()
    n = min(a.check, (len(text) - 1) // a.context)
    losses = [loss_of(model, text[i * a.context : (i + 1) * a.context + 1][None]).item() for i in range(n)]
    model.train()
    return sum(losses) / n


def train(attention, seed, texts, letters, a):
    """The loss held out, and the median processor time of a step."""
    torch.manual_seed(seed)
    model = Model(attention, letters, a)
    step_of = torch.optim.AdamW(model.parameters(), lr=a.rate, weight_decay=0.01)
    batches = torch.Generator().manual_seed(1000 + seed)  # the same for every attention
    seconds = []
    for step in range(a.steps):
        at = torch.randint(len(texts[0]) - a.context - 1, (a.batch,), generator=batches)
        windows = torch.stack([texts[0][i : i + a.context + 1] for i in at])
        for group in step_of.param_groups:
            group["lr"] = a.rate * min(1, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / a.steps))
        begin = time.process_time()
        loss = loss_of(model, windows)
        step_of.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step_of.step()
        seconds.append(time.process_time() - begin)
    return held_out(model, texts[1], a), sorted(seconds)[len(seconds) // 2]


def frequencies(texts, letters, before):
    """The loss of guessing a character by the `before` ones in front of it, as often as it followed them in the text; one more of each is
    added to what was counted, a hundredth where characters in front are looked at."""
    seen, of = Counter(), Counter()
    train_text, check = texts[0].tolist(), texts[1].tolist()
    for i in range(before, len(train_text)):
        seen[tuple(train_text[i - before : i + 1])] += 1
        of[tuple(train_text[i - before : i])] += 1
    more = 0.01 if before else 1.0
    total = 0.0
    for i in range(before, len(check)):
        context = tuple(check[i - before : i])
        total -= math.log((seen[context + (check[i],)] + more) / (of[context] + more * letters))
    return total / (len(check) - before)


def arguments(about, attention, steps):
    p = argparse.ArgumentParser(description=about.split("\n\n")[0])
    p.add_argument("--text", default=os.path.join(HERE, "..", "gospels.txt"))
    p.add_argument("--attention", default=attention, help="names separated by commas; a list inside one is written with points")
    p.add_argument("--steps", type=int, default=steps)
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--rate", type=float, default=2e-3)
    return p


def main():
    p = arguments(__doc__, ATTENTION, steps=250)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--check", type=int, default=40, help="windows of the text held out")
    a = p.parse_args()

    train_text, check_text, letters = read(a.text)
    texts = train_text, check_text
    print(f"{len(train_text)} characters to learn from, {len(check_text)} held out, {letters} letters")
    print(f"{a.layers} layers, width {a.width}, {a.heads} heads, context {a.context}, {a.steps} steps of {a.batch} windows, seeds 0 to {a.seeds - 1}")
    print(f"{'attention':28} {'loss':>7} {'least':>7} {'most':>7} {'ms a step':>10}")
    for name, loss in (
        ("(every character alike)", math.log(letters)),
        ("(by frequency)", frequencies(texts, letters, 0)),
        ("(by the two before)", frequencies(texts, letters, 2)),
    ):
        print(f"{name:28} {loss:7.3f}")
    for attention in a.attention.split(","):
        runs = [train(attention, seed, texts, letters, a) for seed in range(a.seeds)]
        losses = [loss for loss, _ in runs]
        ms = 1000 * sorted(s for _, s in runs)[len(runs) // 2]
        print(f"{attention:28} {sum(losses) / len(losses):7.3f} {min(losses):7.3f} {max(losses):7.3f} {ms:10.0f}", flush=True)


if __name__ == "__main__":
    main()
