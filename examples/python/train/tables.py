"""Tables and plots of runs over several seeds."""

import csv
import json
import pathlib


def spread(runs, measure):
    """Mean, least and most."""
    found = [run[measure] for run in runs]
    return sum(found) / len(found), min(found), max(found)


def median(runs, measure):
    found = sorted(run[measure] for run in runs if run[measure] is not None)
    return found[len(found) // 2] if found else None


def header(measure):
    return f"{'':34} {measure:>9} {'least':>7} {'most':>7} {'parameters':>10} {'ms a step':>9} {'MB':>6}"


def row(name, runs, measure):
    """A variant's line: its measure's mean, least and most over the seeds; processor time of a step; the most memory above the program's."""
    mean, least, most = spread(runs, measure)
    memory = median(runs, "memory")
    mb = "-" if memory is None else f"{memory / 2**20:.0f}"
    return f"{name:34} {mean:9.3f} {least:7.3f} {most:7.3f} {runs[0]['parameters']:10d} {1000 * median(runs, 'seconds'):9.0f} {mb:>6}"


def write(path, about, rows):
    """What was run, where, and what came of it: rows are of baselines, {name, MEASURE}, and of variants, {name, runs}."""
    pathlib.Path(path).write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def losses(folder):
    """The losses of a log."""
    with open(pathlib.Path(folder) / "log.csv", newline="", encoding="utf-8") as file:
        return [float(line["loss"]) for line in csv.DictReader(file)]


def smooth(values, over):
    """Means of the last `over` values."""
    found, total = [], 0.0
    for i, value in enumerate(values):
        total += value - (values[i - over] if i >= over else 0.0)
        found.append(total / min(i + 1, over))
    return found


def plot(path, curves, label, baselines=()):
    """Curves of the loss against the steps, {name: losses}; baselines are lines, (name, loss)."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5))
    top = 0.0
    for name, values in curves.items():
        seen = smooth(values, max(1, len(values) // 25))
        top = max(top, seen[len(seen) // 10])
        axis.plot(range(1, len(seen) + 1), seen, label=name, linewidth=1.2)
    for name, value in baselines:
        axis.axhline(value, color="#999", linestyle="--", linewidth=1)
        axis.annotate(name, (len(seen), value), fontsize=8, color="#777", va="bottom", ha="right")
    axis.set(xlabel="step", ylabel=label)
    axis.set_ylim(top=top)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    print(f"plot: {path}")
