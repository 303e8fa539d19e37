"""The character model of characters.py, of which several processes share every window: each has its characters, and attention
alone sends anything but the sums of gradients. It learns what one process learns.

    python3 examples/python/characters_ranks.py [--ranks 2] [--steps 20] [--context 1024] [--attention htransformer:block=16:causal=1,..]

With each attention, of which no character sees a later one, it trains in one process and on that many, and prints the losses of both,
step by step (nats a character)."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

import hga.torch
from characters import Model, arguments, read

ATTENTION = "htransformer:block=16:causal=1"


def train(words, a, ranks):
    """The loss of every step, on all ranks alike."""
    text, _, letters = read(a.text)
    h = hga.build(words.replace(":", " ").replace(".", ","), a.context)
    first, n, attention = 0, a.context, h.attention
    if ranks > 1:
        d = hga.torch.distributed(h)
        ((first, n),) = d.rows()
        attention = d.attention
    torch.manual_seed(0)
    model = Model(attention, letters, a, first)
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


def train_each(a, ranks):
    return {words: train(words, a, ranks) for words in a.attention.split(",")}


def on_rank(rank, a, folder):
    torch.set_num_threads(max(1, torch.get_num_threads() // a.ranks))
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=a.ranks)
    losses = train_each(a, a.ranks)
    if rank == 0:
        torch.save(losses, f"{folder}/losses")
    dist.destroy_process_group()


def on_ranks(a):
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(on_rank, args=(a, folder), nprocs=a.ranks)
        return torch.load(f"{folder}/losses")


def main():
    p = arguments(__doc__, ATTENTION, steps=20)
    p.add_argument("--ranks", type=int, default=2)
    a = p.parse_args()

    one, many = train_each(a, 1), on_ranks(a)
    for words in one:
        print(words)
        print(f"{'step':>4} {'one process':>12} {f'{a.ranks} ranks':>12} {'difference':>12}")
        for step, (x, y) in enumerate(zip(one[words], many[words])):
            print(f"{step:4} {x:12.6f} {y:12.6f} {y - x:12.1e}")


if __name__ == "__main__":
    main()
