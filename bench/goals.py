"""The project's goals, in two tables.

    python3 bench/goals.py [--isa avx2] [--only TEXT] [--tokens N] [--json FILE] [--dry-run]

Goals that the machine sets are those of goals.json, shares of its limits and ratios of two cases: ``machine_goals.py`` measures
them by ``hga bench``. Goals that peers set are here: how many times as long as hga the best of them takes, on the same
numbers, in one process, in turns; medians of processor time, results compared first. All are measured, and then all once more.
``compare.py --table goals`` prints those of peers alone."""

import argparse
import os
import sys
from typing import NamedTuple

import compare
import graphs
import layers
import machine_goals
import numpy as np
from machine_goals import chosen_of, written

DENSE = ("torch-sdpa", "onnxruntime", "openvino")
LAYERS = ("GATConv", "GATv2Conv")  # an epoch of a layer: 64 columns to 4 heads of 16, 15 random edges a node
NODES = 20000


class Goal(NamedTuple):
    case: str  # of compare.CASES, or a layer of graph attention
    tokens: int
    direction: str
    peers: tuple  # the best of them counts
    at_least: float
    narrow: float  # the same where nobody has AVX-512


GOALS = [
    *(Goal("dense", n, "forward", DENSE, 1.05, 1.05) for n in (1024, 4096)),
    *(Goal("dense-causal", n, "forward", DENSE, least, narrow) for n, least, narrow in ((1024, 1.6, 1.6), (4096, 1.35, 1.3))),
    *(Goal("dense", n, "back alone", ("torch-sdpa",), 1.25, 1.25) for n in (1024, 4096)),
    *(Goal("dense-causal", n, "back alone", ("torch-sdpa",), 1.4, 1.4) for n in (1024, 4096)),
    *(Goal(case, 4096, "forward", ("torch-flex",), least, least)
      for case, least in (("window", 4), ("neighbourhood-13", 7), ("neighbourhood-7", 9), ("documents", 3), ("prefix", 2))),
    *(Goal(case, 4096, d, ("dgl",), least, narrow) for d in ("forward", "backward")
      for case, least, narrow in (("window", 20, 20), ("bpt", 11, 10))),
    Goal("random", 4096, "forward", ("dgl",), 4.5, 4.5),
    Goal("random", 4096, "backward", ("dgl",), 3, 3),
    *(Goal(layer, NODES, "backward", (peer,), least, least)
      for layer, peer, least in (("GATConv", "dgl", 2.5), ("GATv2Conv", "dgl", 4), ("GATConv", "pyg", 6), ("GATv2Conv", "pyg", 6))),
]  # fmt: skip


PEERS = {**compare.PEERS, **layers.PEERS}


def name_of(goal):
    words = goal.case if goal.case in LAYERS else compare.CASES[goal.case].words
    return f"{words} n={goal.tokens} {goal.direction} over {' | '.join(goal.peers)}"


def problem(goal, a):
    """The goal's case; at most --tokens of it."""
    tokens = min(goal.tokens, a.tokens or goal.tokens)
    if goal.case in LAYERS:
        edges, n = graphs.uniform(tokens, 15 * tokens)(a)
        return layers.Problem(goal.case, edges, n, columns=64, heads=4, dim=16, features=0, seed=1)
    return compare.Problem(goal.case, argparse.Namespace(tokens=tokens, heads=a.heads, dim=a.dim, threads=a.threads or 1,
                                                         backward=goal.direction != "forward"))  # fmt: skip


def measured(p, goal, a, skipped):
    """Whose results are right, and (seconds, processor seconds) of their repetitions."""
    wanted = ["hga", *(name for name in goal.peers if name in a.peers.split(","))]
    found = layers.contenders(p, wanted, skipped) if goal.case in LAYERS else compare.contenders(p, goal.direction, wanted, skipped)
    return found, compare.in_turns(found, a.repetitions) if found else {}


def ratio(times, goal):
    """{peer: median over the turns of its processor time over hga's}"""
    own = np.array([cpu for _, cpu in times["hga"]])
    return {name: float(np.median(np.array([cpu for _, cpu in times[name]]) / own)) for name in goal.peers if name in times}


def best_of(ratios):
    """(the peer that is least far behind, how far), or nobody."""
    best = min(ratios, key=ratios.get) if ratios else None
    return best, ratios.get(best)


def row_of(goal, tokens, *passes):
    """What is said of a goal whose {peer: ratio} came out so: the better pass, a mark where they are apart, and no verdict
    where the goal lies between them. A shorter case is not judged."""
    bound = goal.at_least if compare.isa_in_use().startswith("avx512") else goal.narrow
    found = [best_of(ratios)[1] for ratios in passes]
    ratios = max(passes, key=lambda r: best_of(r)[1] or 0)
    peer, reached = best_of(ratios)
    differs = compare.are_apart(found)
    verdicts = {x >= bound for x in found if x is not None}
    met = None if reached is None or tokens != goal.tokens or (differs and len(verdicts) > 1) else reached >= bound
    return {"case": name_of(goal), "set_by": "peers", "tokens": tokens, "goal": bound, "reached": reached, "peer": peer, "peers": ratios, "met": met,
            "reached_in_passes": found, "differs": differs}  # fmt: skip


def line_of(row):
    others = ", ".join(f"{name} {x:.2f}" for name, x in row["peers"].items()) or "nobody to compare with"
    twice = "! " + ", then ".join(f"{x:.2f}" for x in row["reached_in_passes"]) + "; " if row["differs"] else ""
    reached = "-" if row["reached"] is None else f"{row['reached']:.2f}"
    met = {True: "yes", False: "no", None: "-"}[row["met"]]
    return f"{row['case'].split(' over ')[0]:42s} >= {row['goal']:<5g} {reached:>6s}  {met:3s}  {twice}{others}"


def one_pass(chosen, a, runs, skipped):
    """[(tokens, {peer: ratio})] of the goals."""
    results = []
    for goal in chosen:
        p = problem(goal, a)
        found, times = measured(p, goal, a, skipped)
        results.append((p.tokens, ratio(times, goal) if "hga" in times else {}))
        runs += compare.rows_of(p, goal.direction, found, times)
    return results


def run(chosen, a):
    """Measures and prints the goals that peers set; rows of measurements, rows of goals, and whether ours were right."""
    runs, skipped = [], []
    print(f"isa {compare.isa_in_use()}, {a.threads or 1} thread\n{'times as long as hga':42s} {'goal':8s} reached met  peers", flush=True)
    first, second = (one_pass(chosen, a, runs, skipped) for _ in range(2))
    rows = [row_of(goal, tokens, x, y) for goal, (tokens, x), (_, y) in zip(chosen, first, second)]
    for row in rows:
        print(line_of(row))
    if any(row["differs"] for row in rows):
        print(compare.APART)
    for line in dict.fromkeys(skipped):
        print(f"not compared: {line}")
    print(", ".join(f"{key}: {value}" for key, value in compare.context().items()), flush=True)
    return runs, rows, not any(line.startswith("hga,") for line in skipped)


def table(a):
    """For ``compare.py --table goals``."""
    chosen = chosen_of(GOALS, name_of, a)
    if not chosen:
        sys.exit(f"--only: no goal has {a.only!r} in its name")
    with written(a.json) as write:
        runs, rows, right = run(chosen, a)
        write(compare.context(), runs, rows)
    if not right:
        sys.exit("hga's own result was wrong or missing")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--isa", help="hga and its peers held to these instructions: avx2, ref")
    a.add_argument("--repetitions", type=int, default=15, help="of a case of peers'")
    a.add_argument("--peers", help="all that there are")
    machine_goals.add_options(a)
    a.set_defaults(heads=8, dim=64, threads=1)
    a = a.parse_args()
    if a.isa or os.environ.get("HGA_ISA") in compare.HELD:
        compare.hold(a.isa or os.environ["HGA_ISA"])
    compare.check_asked(a, PEERS)
    of_machine, of_peers = chosen_of(machine_goals.GOALS, lambda goal: goal["case"], a), chosen_of(GOALS, name_of, a)
    if not of_machine + of_peers:
        sys.exit(f"--only: no goal has {a.only!r} in its name")
    bench, context, runs, rows, right = machine_goals.Bench(a.tool, a.isa, a.seconds, a.tokens, a.dry_run), {}, [], [], True
    with written(a.json) as write:
        if of_machine:
            try:
                context, runs, rows = machine_goals.run(of_machine, bench)
            except machine_goals.NoRun as e:
                sys.exit(str(e))
        if of_peers and not a.dry_run:
            print(flush=True)
            more_runs, more_rows, right = run(of_peers, a)
            runs, rows = runs + more_runs, rows + more_rows
        write(context | compare.context(), runs, rows)
    if not right or bench.wrong:
        sys.exit("a result was wrong or missing")


if __name__ == "__main__":
    main()
