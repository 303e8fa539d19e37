"""Two runs that ``hga bench --json`` or Google Benchmark wrote, case by case: the medians, the change from A to B, and whether
it is more than noise.

    python3 bench/compare_runs.py A.json B.json [--fail-above PERCENT] [--json]

Noise is half the distance of the quartiles of each run, of its median, put together as independent errors are; a change counts
when it is more than twice that and more than 1 %. A run of one repetition tells no noise: let Google Benchmark make some
(--benchmark_repetitions). Cases that other work disturbed get no verdict. Exit status: 1 with --fail-above where a case is so
much slower, 2 wrong usage, 3 a file that is no run."""

import argparse
import json
import math
import statistics
import sys
from typing import NamedTuple

SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LEAST = 0.01  # what clocks tell apart


class Bad(Exception):
    pass


class Timed(NamedTuple):
    """A case of a run, in seconds; noise is 0 where nothing tells it."""

    seconds: float
    noise: float
    disturbed: bool


# ---- reading ----


def seconds_of(row):
    return SECONDS.get(row.get("time_unit"), 1e-9) * row.get("real_time", math.nan)


def quartiles(values):
    """Of the values in order, between two of them in proportion."""
    n = sorted(values)
    at = [(len(n) - 1) * share for share in (0.25, 0.5, 0.75)]
    return [n[int(x)] + (x - int(x)) * (n[min(int(x) + 1, len(n) - 1)] - n[int(x)]) for x in at]


def of_repetitions(rows):
    """The quartiles that a row has, else those of the repetitions."""
    q1, middle, q3 = quartiles([seconds_of(r) for r in rows])
    if len(rows) == 1:
        q1, q3 = (rows[0].get(key, middle) for key in ("seconds_q1", "seconds_q3"))
    return middle, (q3 - q1) / 2


def of_aggregates(rows):
    """The quartiles of a normal distribution lie 0.674 standard deviations away."""
    found = {r.get("aggregate_name"): seconds_of(r) for r in rows}
    return found.get("median", found.get("mean", math.nan)), 0.674 * found.get("stddev", 0)


def read_run(path):
    """{name: Timed}, in the order of the file."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["benchmarks"]
        names = {}
        for row in rows:
            names.setdefault(row.get("run_name") or row["name"], []).append(row)
    except OSError as e:
        raise Bad(f"{path}: {e.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Bad(f"{path}: has no list of benchmarks") from None
    run = {}
    for name, of in names.items():
        repetitions = [r for r in of if r.get("run_type") != "aggregate"]
        middle, half = of_repetitions(repetitions) if repetitions else of_aggregates(of)
        if not middle > 0:
            raise Bad(f"{path}: '{name}' has no time above 0")
        run[name] = Timed(middle, max(half, 0) / middle, any(r.get("disturbed") for r in repetitions))
    return run


# ---- judging ----


def judged(name, a, b, fail_above):
    change, noise = b.seconds / a.seconds - 1, math.hypot(a.noise, b.noise)
    disturbed = a.disturbed or b.disturbed
    clear = not disturbed and abs(change) > max(2 * noise, LEAST)
    verdict = "disturbed: no verdict" if disturbed else "same within noise" if not clear else "faster" if change < 0 else "slower"
    return {"name": name, "seconds_a": a.seconds, "seconds_b": b.seconds, "change": change, "noise": noise,
            "failed": fail_above is not None and clear and 100 * change > fail_above, "verdict": verdict}  # fmt: skip


def compared(a, b, fail_above):
    """Cases of A in their order, then those that only B has."""
    rows = [judged(name, a[name], b[name], fail_above) if name in b else {"name": name, "seconds_a": a[name].seconds, "verdict": "only in A"} for name in a]
    return rows + [{"name": name, "seconds_b": b[name].seconds, "verdict": "only in B"} for name in b if name not in a]


def mean_of(rows):
    """The geometric mean of the changes of the cases in both, less 1."""
    logs = [math.log1p(row["change"]) for row in rows if "change" in row]
    return math.expm1(statistics.fmean(logs)) if logs else None


# ---- the table ----

COLUMNS = [("name", "case", str), ("seconds_a", "A ms", lambda x: f"{1e3 * x:.4g}"), ("seconds_b", "B ms", lambda x: f"{1e3 * x:.4g}"),
           ("change", "change", lambda x: f"{100 * x:+.1f} %"), ("noise", "noise", lambda x: f"{100 * x:.1f} %"), ("verdict", "verdict", str)]  # fmt: skip


def table(rows):
    cells = [[heading for _, heading, _ in COLUMNS]] + [[show(row[key]) if key in row else "-" for key, _, show in COLUMNS] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    for line in cells:
        yield "  ".join(c.ljust(w) if show is str else c.rjust(w) for c, w, (_, _, show) in zip(line, widths, COLUMNS)).rstrip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs=2, metavar="RUN.json")
    p.add_argument("--fail-above", type=float, metavar="PERCENT", help="exit 1 when a case takes more than so much longer, beyond the noise")
    p.add_argument("--json", action="store_true", help="as JSON")
    a = p.parse_args()
    if a.fail_above is not None and not a.fail_above >= 0:
        p.error(f"--fail-above: {a.fail_above:g} is below 0")
    try:
        rows = compared(*map(read_run, a.runs), a.fail_above)
    except Bad as e:
        print(f"compare_runs: {e}", file=sys.stderr)
        return 3
    mean, slower = mean_of(rows), sum(row.get("failed", False) for row in rows)
    if a.json:
        print(json.dumps({"schema": 1, "a": a.runs[0], "b": a.runs[1], "mean_change": mean, "failed": slower, "rows": rows}, indent=2))
    else:
        print(*table(rows), sep="\n")
        if mean is not None:
            print(f"geometric mean of the cases in both: {100 * mean:+.1f} % of the time")
    if slower:
        print(f"compare_runs: {slower} case{'s are' if slower > 1 else ' is'} more than {a.fail_above:g} % slower than in {a.runs[0]}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
