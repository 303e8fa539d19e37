"""What a training step of the character model costs with each attention: the step in parts of one with torch's SDPA, and attention's share of it.

    python3 examples/python/train/steps.py [--contexts 1024,4096,8192] [--layers 4] [--width 256] [--out FOLDER]

Attentions take turns, a step each, on the same window of random letters; times are of the processor, medians of --repetitions on one
thread. Attention's share is what a step takes beyond one in which every token gets its own value, with the same projections."""

import argparse
import json
import pathlib
import sys
import time

import loop
import torch
import torch.nn.functional as F
from model import Model

ATTENTION = "sdpa,dense,window:left=32,bpt:k=4,htransformer:block=16,hsa:branching=4.8.16,fenwick,dilated:segments=32.128.512:dilations=1.4.16"
LETTERS = 64


def timed(model, numbers):
    """Seconds of the processor of a step: forward, backward, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    begin = time.process_time()
    F.cross_entropy(model(numbers[:, :-1]).flatten(0, 1), numbers[:, 1:].flatten()).backward()
    optimizer.step()
    return time.process_time() - begin


def measured(context, names, o):
    """Median seconds of each, in turns; the first turn is not counted."""
    numbers = torch.randint(LETTERS, (1, context + 1), generator=torch.Generator().manual_seed(1))
    models = {name: Model(name, LETTERS, context, layers=o.layers, width=o.width, heads=o.heads) for name in names}
    found = {name: [] for name in names}
    for turn in range(o.repetitions + 1):
        for name, model in models.items():
            seconds = timed(model, numbers)
            if turn:
                found[name].append(seconds)
    return {name: sorted(times)[len(times) // 2] for name, times in found.items()}


def options(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--attention", default=ATTENTION, help="names separated by commas; a list inside one is written with points")
    p.add_argument("--contexts", default="1024,4096,8192")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--repetitions", type=int, default=3)
    p.add_argument("--out", default="runs/steps")
    return p.parse_args(arguments)


def main():
    o = options()
    torch.set_num_threads(1)
    names = [words.replace(".", ",") for words in o.attention.split(",")]
    print(f"{o.layers} layers, width {o.width}, {o.heads} heads, one window, one thread")
    print(f"{'':46} {'context':>8} {'ms':>8} {'of SDPA':>8} {'share %':>8}")
    rows = []
    for context in map(int, o.contexts.split(",")):
        found = measured(context, ["own", *names], o)
        for name in names:
            row = {"name": name, "context": context, "seconds": found[name], "share": 1 - found["own"] / found[name],
                   "of_sdpa": found[name] / found["sdpa"] if "sdpa" in found else None}  # fmt: skip
            rows.append(row)
            beside = "-" if row["of_sdpa"] is None else f"{row['of_sdpa']:.2f}"
            print(f"{name:46} {context:8} {1000 * row['seconds']:8.0f} {beside:>8} {100 * row['share']:8.0f}", flush=True)
    out = pathlib.Path(o.out)
    out.mkdir(parents=True, exist_ok=True)
    about = {"program": "steps", "command": sys.argv[1:], "settings": vars(o), "machine": loop.machine()}
    (out / "steps.json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
