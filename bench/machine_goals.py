"""The goals that the machine sets, of goals.json: a goal is a figure of a row of ``hga bench --json``, perhaps over the same
figure of another row; README.md has the members. All goals are measured, and then all of them once more: what the machine
does for some minutes is seen as a difference.

    python3 bench/machine_goals.py [--isa neon] [--only TEXT] [--json FILE]

prints them, and needs no package of Python; ``goals.py`` prints those of peers as well."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import pathlib
import subprocess
import sys
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
GOALS = json.loads((HERE / "goals.json").read_text())
PASSES, APART = 2, 0.05  # figures of two passes that differ by more are not to be relied on
TRUSTED_SCALING = 0.95  # of processor time over wall time, of a goal of several threads
OF_A_CASE = ("variant", "tokens", "heads", "kv_heads", "dim", "dim_v", "threads", "precision", "rel_key", "gradient", "decode", "by_memory", "peers", "routed", "sample")


class NoRun(Exception):
    """What measures has failed, and has said why."""


class NotBuilt(Exception):
    """A program that only a build with tests has."""


class Finding(NamedTuple):
    """What a goal came to in a pass."""

    reached: float | None
    goal: float
    rows: tuple = ()  # what it was measured by
    peer: dict | None = None
    note: str | None = None


class Bench:
    """`hga bench`, a case a process; within a pass no case is measured twice."""

    def __init__(self, tool, isa, seconds, most_tokens, dry_run):
        self.tool, self.isa, self.seconds, self.most_tokens, self.dry_run = pathlib.Path(tool), isa, seconds, most_tokens, dry_run
        self.rows, self.wrong, self.first = [], 0, True
        self.begin()

    def begin(self, first=True):
        self.first, self.found = first, {}

    def run(self, *command):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        except OSError as e:
            raise NoRun(f"{command[0]}: {e.strerror}; build it, or name it by --tool") from None
        if done.returncode not in (0, 1) or not done.stdout:
            raise NoRun(f"{' '.join(map(str, command))}: exit status {done.returncode}")
        self.wrong += done.returncode == 1  # a peer whose result is not ours, which it has said
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise NoRun(f"{command[0]}: it prints no JSON, so it is no hga") from None

    def options(self, case):
        held = ["--isa", self.isa] if self.isa else []
        return [*held, *(["--seconds", str(self.seconds)] if self.seconds else []), "--heads", str(case.get("heads", 8)), "--dim", str(case.get("dim", 64))]

    def words(self, case):
        """The options of a case."""
        words = ["--variants", case["variant"], "--tokens", str(case["tokens"]), "--threads", str(case.get("threads", 1)), *self.options(case)]
        for name in ("kv_heads", "dim_v", "precision"):
            words += [f"--{name.replace('_', '-')}", str(case[name])] if case.get(name) else []
        words += [f"--{name.replace('_', '-')}" for name in ("rel_key", "gradient", "decode", "by_memory") if case.get(name)]
        words += ["--peers", "all"] if case.get("peers") and self.first and case.get("precision", "f32") == "f32" else []
        return words + ["--dry-run"] * self.dry_run

    def context(self):
        """The machine, with its limits."""
        return self.run(self.tool, "bench", *self.words({"variant": "dense", "tokens": 64}), "--json", "-")["context"]

    def study(self, name):
        """A program of bench/studies beside the tool."""
        program = self.tool.parent.parent / "bench" / "studies" / name
        if not program.exists():
            raise NotBuilt(f"{name} is not built (cmake -DHGA_TESTS=ON)")
        return program

    def routed(self, case):
        """Treeformer routed anew, by trees of so many levels."""
        size = 4 * 4 * case["tokens"] * case.get("heads", 8) * case.get("dim", 64)
        if self.dry_run:
            return [{"bytes": size}]
        program = self.study("bench_routed_times")
        words = ["--tokens", str(case["tokens"]), "--height", str(case["routed"]), "--threads", str(case.get("threads", 1)), *self.options(case)]
        return [{**self.run(program, *words), "bytes": size}]

    def sampled(self, case):
        """How long query blocks of routed choose by samples and by means, and the attention over what they choose."""
        size = 4 * case["tokens"] * case.get("dim", 64) * 2 * (case.get("heads", 8) + case["kv_heads"])
        if self.dry_run:
            return [{"bytes": size}]
        program = self.study("bench_select_times")
        words = ["--tokens", str(case["tokens"]), "--kv-heads", str(case["kv_heads"]), "--sample", str(case["sample"]), "--threads", str(case.get("threads", 1))]
        return [{**self.run(program, *words, *self.options(case)), "bytes": size}]

    def measure(self, case):
        """The rows of a case: its own, that of the backward pass where it is one, its peers'; or a flat cache's, a decoder's."""
        case = {key: case[key] for key in OF_A_CASE if case.get(key)}
        case["tokens"] = min(case["tokens"], self.most_tokens or case["tokens"])
        key = json.dumps(case, sort_keys=True)
        if key not in self.found:
            if "routed" in case:
                self.found[key] = self.routed(case)
            elif "sample" in case:
                self.found[key] = self.sampled(case)
            else:
                self.found[key] = self.run(self.tool, "bench", *self.words(case), "--json", "-")["benchmarks"]
                self.rows += self.found[key]
        return self.found[key]


# ---- figures ----


def bound_of(goal):
    return goal["at_least"] if "at_least" in goal else goal["at_most"]


def number_of(row, key):
    value = row.get(key)
    return math.nan if value is None else value


def figure_of(goal, row):
    """A key's number, or the sum of several keys', divided by another's and times the goal's factor."""
    keys = goal.get("key", "seconds")
    found = sum(number_of(row, key) for key in ([keys] if isinstance(keys, str) else keys))
    by = goal.get("by")
    if by:
        found /= row["tokens"] * math.log2(row["tokens"]) if by == "tokens log tokens" else number_of(row, by)
    return found * goal.get("times", 1)


def row_of(bench, goal):
    """The row that the goal's figure is of, and all that were measured with it."""
    rows = bench.measure(goal)
    return rows[1 if goal.get("gradient") or goal.get("decode") else 0], [r for r in rows if not r.get("variant", "").startswith("peer:")]


def best_peer(bench, goal):
    return min((r for r in bench.measure(goal) if r.get("variant", "").startswith("peer:")), key=lambda r: r["seconds"], default=None)


def evaluate(bench, goal):
    """One figure, or one over another, or of several lengths the greatest over the least."""
    if "lengths" in goal:
        found = [row_of(bench, {**goal, "tokens": n}) for n in goal["lengths"]]
        figures = [figure_of(goal, row) for row, _ in found]
        return Finding(max(figures) / min(figures), bound_of(goal), tuple(r for _, rows in found for r in rows))
    below, more = 1, []
    if "over" in goal:
        other = {**goal, **goal["over"]}
        row, more = row_of(bench, other)
        below = figure_of({**other, "times": 1}, row)
    row, rows = row_of(bench, goal)
    bound = bound_of(goal)
    if isinstance(bound, dict):
        bound = sum(factor * number_of(row, key) for key, factor in bound.items())
    return Finding(figure_of(goal, row) / below, bound, (*more, *rows), best_peer(bench, goal) if goal.get("peers") else None)


def reach(bench, goal, has_pairs):
    if goal.get("needs_pairs") and not has_pairs and not bench.dry_run:
        return Finding(None, bound_of(goal), note="no products of bf16 pairs here")
    try:
        return found_of(bench, goal)
    except NotBuilt as e:
        return Finding(None, bound_of(goal), note=str(e))


def found_of(bench, goal):
    if "each" not in goal:
        return evaluate(bench, goal)._replace(note=goal.get("note"))
    found = [(evaluate(bench, {**goal, **one}), one.get("note") or one["variant"]) for one in goal["each"]]
    worst, name = (min if "at_least" in goal else max)(found, key=lambda x: x[0].reached)
    return worst._replace(note=name, rows=tuple(r for f, _ in found for r in f.rows))


# ---- verdicts ----


def known(x):
    return x if x is not None and math.isfinite(x) else None


def is_met(goal, reached, bound):
    return reached >= bound if "at_least" in goal else reached <= bound


def busy_of(passes):
    """The least processor time over wall time of all that was measured."""
    return min((r["cpu_over_wall"] for f in passes for r in f.rows if known(r.get("cpu_over_wall")) is not None), default=None)


def judged(bench, goal, passes):
    """The better of the passes, a mark where they are apart, and no verdict where the goal lies between them. Goals are for
    their own lengths."""
    reached, bound = [None if bench.dry_run else known(f.reached) for f in passes], passes[0].goal
    found = [x for x in reached if x is not None]
    best = ((max if "at_least" in goal else min)(found)) if found else None
    apart = len(found) == PASSES and abs(found[0] - found[1]) > APART * max(map(abs, found))
    busy = busy_of(passes) if found else None
    beyond = any(r.get("limit_disturbed") for f in passes for r in f.rows)
    refusal = None
    if goal.get("scaling") and busy is not None and busy < TRUSTED_SCALING:
        refusal = f"no verdict below {TRUSTED_SCALING} of the processor"
    elif apart and len({is_met(goal, x, bound) for x in found}) > 1:
        refusal = "no verdict: met in one of two passes"
    peer = passes[0].peer
    value = known(figure_of(goal, peer)) if peer else None
    disturbed = beyond or any(r.get("disturbed") for f in passes for r in f.rows)
    return {"case": goal["case"], "set_by": "machine", "goal": bound, "at_least": "at_least" in goal, "unit": goal["unit"], "reached": best,
            "met": None if best is None or refusal or bench.most_tokens else is_met(goal, best, bound), "note": refusal or passes[0].note,
            "bytes": max((r.get("bytes", 0) for f in passes for r in f.rows), default=0), "peer": peer["variant"].removeprefix("peer:") if value is not None else None,
            "peer_value": value, "cpu_over_wall": busy, "limit_disturbed": beyond, "disturbed": disturbed, "differs": apart,
            "mark": "!" if disturbed or apart else "", "reached_in_passes": reached}  # fmt: skip


def measured(bench, chosen, has_pairs):
    """A row a goal; all are measured before any is measured again."""
    passes = []
    for i in range(1 if bench.dry_run else PASSES):
        bench.begin(first=i == 0)
        passes.append([reach(bench, goal, has_pairs) for goal in chosen])
    return [judged(bench, goal, found) for goal, found in zip(chosen, zip(*passes))]


# ---- the table ----


def cells_of(row, dry):
    aim = f"{'>=' if row['at_least'] else '<='} {row['goal']:.3g} {row['unit']}"
    note = row["note"] or ""
    if dry:
        return [row["case"], aim, f"{row['bytes'] / 1e6:.1f}", note]
    if row["differs"]:
        note = "; ".join(filter(None, (", then ".join(f"{x:.3g}" for x in row["reached_in_passes"]), note)))
    reached = "-" if row["reached"] is None else f"{row['reached']:.3g} {row['unit']}"
    peer = "-" if row["peer"] is None else f"{row['peer']} {row['peer_value']:.3g}"
    busy = "-" if row["cpu_over_wall"] is None else f"{row['cpu_over_wall']:.2f}"
    return [row["case"], aim, reached, peer, {True: "yes", False: "no", None: "-"}[row["met"]], busy, row["mark"], note]


def table(rows, dry):
    """Lines: a heading, and a row a goal."""
    headings = ["case", "goal", "MB without peers", "note"] if dry else ["case", "goal", "reached", "peer", "met", "cpu/wall", "", "note"]
    right = {"MB without peers", "met", "cpu/wall"}
    cells = [headings, *(cells_of(row, dry) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(headings))]
    for line in cells:
        yield "  ".join(c.rjust(w) if h in right else c.ljust(w) for c, w, h in zip(line, widths, headings)).rstrip()
    for key, text in (("limit_disturbed", "did more than the machine was found to allow: the limit was disturbed, and they have no share of it"),
                      ("disturbed", "had less than 90 % of their threads' processor time: the machine did other work"),
                      ("differs", "came out a twentieth apart or more in two passes: measure them again")):  # fmt: skip
        n = sum(row[key] for row in rows)
        if n and not dry:
            yield f"! {n} of {len(rows)} rows {text}"


def limits(context):
    for p in context["peaks"]:
        pairs = "-" if p["bf16_gflops"] is None else f"{p['bf16_gflops']:.1f}"
        yield (f"isa {p['isa']}: one thread has {p['fma_gflops']:.1f} GFLOP/s, of bf16 pairs {pairs}, {p['exp_gelements']:.2f} G exp/s, "
               f"{p['l2_gbytes']:.1f} GB/s from L2, {p['dram_gbytes']:.1f} from memory; cpu/wall {p['cpu_over_wall']:.2f} {p['mark']}").rstrip()  # fmt: skip


def run(chosen, bench):
    """Measures and prints the goals; (context, rows of measurements, rows of goals)."""
    context = {"peaks": []} if bench.dry_run else bench.context()
    print(*limits(context), sep="\n", flush=True)
    rows = measured(bench, chosen, any(p["bf16_gflops"] for p in context["peaks"]))
    print(*table(rows, bench.dry_run), sep="\n", flush=True)
    if bench.wrong:
        print(f"{bench.wrong} measurements had a peer whose result was wrong", file=sys.stderr)
    return context, bench.rows, rows


# ---- the command ----


def chosen_of(goals, name, a):
    return [goal for goal in goals if not a.only or a.only in name(goal)]


@contextlib.contextmanager
def written(path):
    """A function that writes what was found. A file that cannot be written is refused before minutes are spent; one that is there
    stays until the new one is whole. "-": standard output."""
    part = pathlib.Path(f"{path}.part")
    is_file = path and path != "-"
    try:
        if is_file:
            part.write_text("", encoding="utf-8")
    except OSError as e:
        sys.exit(f"{path}: {e.strerror}")

    def write(context, runs, rows):
        text = json.dumps({"context": context, "benchmarks": runs, "goals": rows}, indent=1)
        if is_file:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        elif path:
            print(text)

    try:
        yield write
    finally:
        if is_file and part.exists():
            part.unlink()


def add_options(a):
    """Those of both commands."""
    a.add_argument("--only", metavar="TEXT", help="goals whose case has this in its name")
    a.add_argument("--tokens", type=int, help="cut longer cases to so many; what is cut has no verdict")
    a.add_argument("--seconds", type=float, help="of repeats for a case of the machine's, as of hga bench")
    a.add_argument("--tool", default=HERE.parent / "build/cli/hga", help="the hga that is measured (default: build/cli/hga)")
    a.add_argument("--json", metavar="FILE", help="all that is printed, and all measurements, in Google Benchmark's format")
    a.add_argument("--dry-run", action="store_true", help="only what the machine's goals would measure, and its memory")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--isa", help="the instruction set, a word of hga --version")
    add_options(a)
    a = a.parse_args()
    chosen = chosen_of(GOALS, lambda goal: goal["case"], a)
    if not chosen:
        sys.exit(f"--only: no goal has {a.only!r} in its name")
    bench = Bench(a.tool, a.isa, a.seconds, a.tokens, a.dry_run)
    with written(a.json) as write:
        try:
            write(*run(chosen, bench))
        except NoRun as e:
            sys.exit(str(e))
    if bench.wrong:
        sys.exit("a result was wrong or missing")


if __name__ == "__main__":
    main()
