"""What the numbers of msgpass/machine/tuning.c are on this machine: each in turn, over values around its own, on the cases
that it moves. Processor time over that of the table's value, medians over rounds in which all values take turns; one
thread, but where a number is of two. Values that win a twentieth on one case and lose nowhere belong into a row of the table.

    python3 bench/studies/tuning.py build/cli/hga [--rounds 5] [--seconds 0.5] [--small]"""

import argparse
import json
import os
import statistics
import subprocess
import sys

BACK, TWO = ["--gradient"], ["--threads", "2"]
# number: its values, as factors of what the machine has (None: as good as never), and (variant, tokens, more words)
STUDY = {
    "pack_readers": ([1 / 3, 1, 2, None], [("treeformer-fine", 8192, []), ("window:left=64:right=64", 8192, []), ("bpt:k=64", 8192, [])]),
    "stream_output": ([1 / 64, 1, None], [("window:left=64:right=64", 65536, []), ("hsa:branching=2,4,8,16", 8192, []), ("hsa:branching=2,4,8,16", 4096, []), ("dense", 1024, [])]),
    "stream_gradients": ([1 / 64, 1, None], [("window:left=64:right=64", 32768, BACK), ("hsa:branching=2,4,8,16", 32768, BACK)]),
    "far_sources": ([1 / 64, 1, None], [("random:degree=32", 4096, []), ("random:degree=32", 16384, []), ("random:degree=32", 100000, [])]),
    "near_sources": ([0, 1, None], [("dense:causal=1", n, ["--decode"]) for n in (1024, 4096, 16384)]),
    "tree_bytes": ([1 / 4, 1 / 2, 1, 2, 4], [("htransformer:block=16", 65536, []), ("hsa:branching=2,4,8,16", 65536, [])]),
    "attend_bytes": ([1 / 4, 1 / 2, 1, 2, 4], [("htransformer:block=16", 65536, []), ("htransformer:block=64", 65536, []), ("hsa:branching=2,4,8,16", 65536, [])]),
    "cyclic_bytes": ([1 / 2, 1, 2, 4, None], [("fenwick", 16384, TWO), ("hsa:branching=4:causal=1", 16384, TWO)]),
}  # fmt: skip
NEVER = {"pack_readers": 2**31 - 1} | dict.fromkeys(["stream_output", "stream_gradients", "far_sources", "near_sources", "cyclic_bytes"], 2**60)


def machine(hga):
    """The processor and its row, as `hga topo` says them."""
    return json.loads(subprocess.check_output([hga, "topo", "--json"]))["tuning"]


def seconds(hga, name, value, variant, tokens, more, a):
    """Processor time of one execution, or of the backward pass."""
    words = [hga, "bench", "--variants", variant, "--tokens", str(tokens), "--seconds", str(a.seconds), *(more if more == TWO else ["--threads", "1", *more]), "--json", "-"]
    done = subprocess.run(words, env={**os.environ, "HGA_TUNING": f"{name}={value}"}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["benchmarks"][-1]["cpu_time"]


def studied(hga, name, factors, case, own, a):
    """{value: time over that of the machine's own value}"""
    values = [NEVER[name] if f is None else max(1, int(own * f)) for f in factors]
    taken = {value: [] for value in values}
    for turn in range(a.rounds):
        for value in values[turn % len(values) :] + values[: turn % len(values)]:
            taken[value].append(seconds(hga, name, value, *case, a))
    base = taken[own]
    return {value: statistics.median(x / y for x, y in zip(times, base)) for value, times in taken.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("hga")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.5, help="of a measurement")
    p.add_argument("--small", action="store_true", help="one case a number, 256 tokens: whether it runs, not what is fast")
    a = p.parse_args()
    os.environ.pop("HGA_TUNING", None)
    here = machine(a.hga)
    print(", ".join(f"{key} {here[key]}" for key in ("maker", "family", "model", "second_cache", "third_cache")))
    for name, (factors, cases) in STUDY.items():
        if a.small:
            factors, cases = sorted({1, factors[-1]}, key=str), cases[:1]
        for variant, tokens, more in cases:
            case = (variant, 256 if a.small else tokens, more)
            found = studied(a.hga, name, factors, case, here[name], a)
            print(f"{name:17s} {variant:26s} {case[1]:6d} {'back' if more == BACK else '':4s}  " + "  ".join(f"{v}: {x:.3f}" for v, x in found.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
