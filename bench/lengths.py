"""A training step of attention against the length: torch's scaled_dot_product_attention beside hga, causal, forward and backward, the
same tensors in one process, in turns.

    python3 bench/lengths.py [--lengths 512,1024,..,16384] [--heads 8] [--dim 64] [--threads 1] [--seconds 2]
                             [--json RUN.json]

A time is the median of the turns, of processor time; a case that is too long for one turn in --most seconds is left out from there
on. At the first length dense attention is compared with SDPA's, and every hierarchy's output with that of two threads, bit by bit.
docs/benchmarks.py draws RUN.json."""

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


def check(n, steps, q, k, v):
    """hga's dense attention is SDPA's; a hierarchy has equal bits with another number of threads."""
    outs = {name: step().detach() for name, step in steps.items()}
    worst = (outs["SDPA (torch)"] - outs["hga dense"]).abs().max().item()
    if worst > 2e-5:
        raise SystemExit(f"hga dense differs from SDPA by {worst}")
    for name, make in CASES.items():
        if make and not torch.equal(outs[name], make(n).attention(q, k, v, threads=2)):
            raise SystemExit(f"{name} has other bits with two threads")


def measure(a):
    runs, gone = [], set()
    for n in a.lengths:
        torch.manual_seed(n)
        q, k, v, g = (torch.randn(1, a.heads, n, a.dim) for _ in range(4))
        for x in (q, k, v):
            x.requires_grad_()
        steps = {name: step_of(name, n, (q, k, v, g), a.threads) for name in CASES if name not in gone}
        if n == a.lengths[0]:
            check(n, steps, q, k, v)
        seconds = seconds_of(steps, a)
        runs.append({"tokens": n, "ms": {name: 1000 * s for name, s in seconds.items()}})
        gone |= {name for name, s in seconds.items() if s > a.most}
        print(f"{n:7}", "  ".join(f"{name}: {1000 * s:.2f}" for name, s in seconds.items()), flush=True)
    return runs


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--lengths", type=lambda s: [int(n) for n in s.split(",")], default=[512, 1024, 2048, 4096, 8192, 16384])
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=2, help="of each case at each length")
    p.add_argument("--most", type=float, default=20, help="a case that takes longer is left out of greater lengths")
    p.add_argument("--json")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    runs = measure(a)
    if a.json:
        with open(a.json, "w") as file:
            json.dump({"heads": a.heads, "dim": a.dim, "threads": a.threads, "torch": torch.__version__, "numpy": np.__version__,
                       "hga": hga.__version__, "isa": hga.isa_list(), "date": time.strftime("%Y-%m-%d"), "runs": runs}, file, indent=1)  # fmt: skip


if __name__ == "__main__":
    main()
