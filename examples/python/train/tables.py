"""Tables and plots of runs over several seeds."""

import csv
import json
import pathlib
import sys
import time

import loop
import torch


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


def losses(folder):
    """The losses of a log."""
    with open(pathlib.Path(folder) / "log.csv", newline="", encoding="utf-8") as file:
        return [float(line["loss"]) for line in csv.DictReader(file)]


def over_seeds(o, words, task, made, about):
    """The runs of an attention, one a seed: the seed, what came of it, and its losses. A run that stopped early gives nothing."""
    name = words.replace(".", ",")
    for seed in range(o.seeds):
        torch.manual_seed(seed)
        folder = pathlib.Path(o.out) / f"{words.replace(':', '-')}-{seed}"
        run = loop.train(f"{name} seed {seed}", made(name), task, o, folder, seed, about(name))
        if run is not None:
            yield seed, run, losses(folder)


def compare(o, task, simple, measure, made, about, unit=1.0):
    """Prints a line for each of the baselines, {name: MEASURE}, and for each attention that was asked for. Rows for `finish`, and
    {name: the losses of its runs} by `unit`."""
    print(header(measure))
    for name, value in simple.items():
        print(f"{name:34} {value:9.3f}")
    rows, curves = [{"name": name, measure: value} for name, value in simple.items()], {}
    for words in o.attention.split(","):
        name, found = words.replace(".", ","), list(over_seeds(o, words, task, made, about))
        if found:
            runs, curves[name] = [run for _, run, _ in found], [[x / unit for x in values] for _, _, values in found]
            rows.append({"name": name, "runs": runs})
            print(row(name, runs, measure), flush=True)
    return rows, curves


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


def finish(program, o, measure, rows, curves, label, baselines=()):
    """What was run, where, and what came of it, as JSON, and a plot. Rows are of baselines, {name, MEASURE}, and of variants, {name, runs};
    curves are {name: the losses of its runs}."""
    out = pathlib.Path(o.out)
    means = {name: [sum(step) / len(step) for step in zip(*runs)] for name, runs in curves.items()}
    thinned = {name: [round(x, 4) for x in smooth(values, max(1, len(values) // 25))[:: max(1, len(values) // 50)]] for name, values in means.items()}
    about = {"program": program, "date": time.strftime("%Y-%m-%d"), "command": sys.argv[1:], "settings": vars(o), "machine": loop.machine(), "measure": measure}
    found = {**about, "rows": rows, "label": label, "baselines": list(baselines), "curves": thinned}
    (out / f"{program}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    plot(out / f"{program}.png", means, label, baselines)
