"""The character model of characters.py, of which several processes share every window: each has its characters, and attention
alone sends anything but the sums of gradients. It learns what one process learns.

    python3 examples/python/characters_ranks.py [--ranks 2] [--steps 20] [--context 1024] [--attention "htransformer block=16 causal=1"]

It trains in one process and on that many, and prints the losses of both, step by step (nats a character)."""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

import hga.torch
from characters import HERE, Layer, Sdpa, read


class Shared(Sdpa):
    """Attention of this process' characters to all: h.attention's shape and numbers, and d.attention's of each rank."""

    def __init__(self, attention, width, heads):
        super().__init__(width, heads)
        self.attention = attention

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.project(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = self.attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Model(torch.nn.Module):
    """Characters `first` on of each window."""

    def __init__(self, attention, first, letters, a):
        super().__init__()
        self.first, self.context = first, a.context
        self.letter, self.place = torch.nn.Embedding(letters, a.width), torch.nn.Embedding(a.context, a.width)
        self.layers = torch.nn.Sequential(*(Layer("sdpa", a.width, a.heads) for _ in range(a.layers)))
        for layer in self.layers:
            weights = layer.attention.state_dict()
            layer.attention = Shared(attention, a.width, a.heads)
            layer.attention.load_state_dict(weights)
        self.last, self.scores = torch.nn.LayerNorm(a.width), torch.nn.Linear(a.width, letters)

    def forward(self, text):
        x = self.letter(text) + self.place(torch.arange(self.first, self.first + text.shape[1]))
        return self.scores(self.last(self.layers(x)))


def train(a, ranks):
    """The loss of every step, on all ranks alike."""
    text, _, letters = read(a.text)
    h = hga.build(a.attention, a.context)
    first, n, attention = 0, a.context, h.attention
    if ranks > 1:
        d = hga.torch.distributed(h)
        ((first, n),) = d.rows()
        attention = d.attention
    torch.manual_seed(0)
    model = Model(attention, first, letters, a)
    step_of = torch.optim.AdamW(model.parameters(), lr=a.rate, weight_decay=0.01)
    batches = torch.Generator().manual_seed(1000)  # every rank draws the same windows
    losses = []
    for _ in range(a.steps):
        at = torch.randint(len(text) - a.context - 1, (a.batch,), generator=batches)
        windows = torch.stack([text[i + first : i + first + n + 1] for i in at])
        # A rank's part of the mean over all characters: the parts, and their gradients, add up to one process'.
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten(), reduction="sum") / (a.batch * a.context)
        step_of.zero_grad()
        loss.backward()
        for x in (loss.data, *(p.grad for p in model.parameters())) if ranks > 1 else ():
            dist.all_reduce(x)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step_of.step()
        losses.append(loss.item())
    return losses


def on_rank(rank, a, folder):
    torch.set_num_threads(max(1, torch.get_num_threads() // a.ranks))
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=a.ranks)
    losses = train(a, a.ranks)
    if rank == 0:
        torch.save(losses, f"{folder}/losses")
    dist.destroy_process_group()


def on_ranks(a):
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(on_rank, args=(a, folder), nprocs=a.ranks)
        return torch.load(f"{folder}/losses")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--text", default=os.path.join(HERE, "..", "gospels.txt"))
    p.add_argument("--attention", default="htransformer block=16 causal=1", help="of which no character sees a later one")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--rate", type=float, default=2e-3)
    a = p.parse_args()

    one, many = train(a, 1), on_ranks(a)
    print(f"{'step':>4} {'one process':>12} {f'{a.ranks} ranks':>12} {'difference':>12}")
    for step, (x, y) in enumerate(zip(one, many)):
        print(f"{step:4} {x:12.6f} {y:12.6f} {y - x:12.1e}")


if __name__ == "__main__":
    main()
