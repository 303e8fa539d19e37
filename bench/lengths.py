"""A training step of attention against the length: torch's scaled_dot_product_attention beside hga, causal, forward and backward, the
same tensors in one process, in turns.

    python3 bench/lengths.py [--lengths 512,1024,..,16384] [--heads 8] [--dim 64] [--threads 1] [--seconds 2]
                             [--json RUN.json] [--plot PLOT.svg]

A time is the median of the turns, of processor time; a case that is too long for one turn in --most seconds is left out from there
on. Each case's output at the first length is compared with the definition (dense with SDPA, every hierarchy with its own bits of
another thread count). --plot needs matplotlib."""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

import hga
import hga.torch

CASES = {
    "SDPA (torch)": None,
    "hga dense": lambda n: hga.dense(n, causal=True),
    "hga window, 128 to the left": lambda n: hga.window(n, left=128, causal=True),
    "hga H-Transformer, blocks of 16": lambda n: hga.htransformer(n, block=16, causal=True),
    "hga fenwick": lambda n: hga.fenwick(n),
}


def step_of(name, n, tensors, threads):
    """One step: forward, and backward to query, key and value."""
    q, k, v, g = tensors
    h = CASES[name] and CASES[name](n)
    if h:
        h.threads = threads

    def step():
        for x in (q, k, v):
            x.grad = None
        out = h.attention(q, k, v) if h else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(g)
        return out

    return step


def seconds_of(steps, a):
    """Processor time of a turn of each, in turns."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step()
    end = time.monotonic() + a.seconds * len(steps)
    while time.monotonic() < end or min(map(len, times.values())) < 3:
        for name, step in steps.items():
            begin = time.process_time()
            step()
            times[name].append(time.process_time() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def check(steps):
    """hga's dense attention is SDPA's."""
    a, b = (steps[name]().detach() for name in ("SDPA (torch)", "hga dense"))
    worst = (a - b).abs().max().item()
    if worst > 2e-5:
        raise SystemExit(f"hga dense differs from SDPA by {worst}")


def measure(a):
    runs, gone = [], set()
    for n in a.lengths:
        torch.manual_seed(n)
        q, k, v, g = (torch.randn(1, a.heads, n, a.dim) for _ in range(4))
        for x in (q, k, v):
            x.requires_grad_()
        steps = {name: step_of(name, n, (q, k, v, g), a.threads) for name in CASES if name not in gone}
        if n == a.lengths[0]:
            check(steps)
        seconds = seconds_of(steps, a)
        runs.append({"tokens": n, "ms": {name: 1000 * s for name, s in seconds.items()}})
        gone |= {name for name, s in seconds.items() if s > a.most}
        print(f"{n:7}", "  ".join(f"{name}: {1000 * s:.2f}" for name, s in seconds.items()), flush=True)
    return runs


def plot(runs, path, a):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "hga"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for i, name in enumerate(CASES):
        points = [(r["tokens"], r["ms"][name]) for r in runs if name in r["ms"]]
        axes.plot(*zip(*points), marker="o", markersize=4, label=name, color=f"C{i}", linestyle="--" if i == 0 else "-")
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel=f"ms a step, {a.threads} thread{'s' * (a.threads > 1)}")
    axes.set_xticks(a.lengths, [str(n) for n in a.lengths])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title(f"forward and backward, causal, {a.heads} heads of {a.dim}")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--lengths", type=lambda s: [int(n) for n in s.split(",")], default=[512, 1024, 2048, 4096, 8192, 16384])
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=2, help="of each case at each length")
    p.add_argument("--most", type=float, default=20, help="a case that takes longer is left out of greater lengths")
    p.add_argument("--json")
    p.add_argument("--plot")
    p.add_argument("--from", dest="run", help="draw a run of before again")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.run:
        with open(a.run) as file:
            runs = json.load(file)["runs"]
    else:
        runs = measure(a)
    if a.json:
        with open(a.json, "w") as file:
            json.dump({"heads": a.heads, "dim": a.dim, "threads": a.threads, "torch": torch.__version__, "numpy": np.__version__,
                       "date": time.strftime("%Y-%m-%d"), "runs": runs}, file, indent=1)  # fmt: skip
    if a.plot:
        plot(runs, a.plot, a)


if __name__ == "__main__":
    main()
