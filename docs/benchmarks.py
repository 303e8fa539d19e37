"""The plots and tables of docs/benchmarks.md, from dated runs: python3 docs/benchmarks.py RUN.json PLOT.svg writes the plot and prints the table. RUN.json is of `hga bench --json`, or
of bench/lengths.py. Pictures have no paper of their own, and colours that are read on white and on black."""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, ROOM = 420, 300, 56, 34, 84
STYLE = "<style>text{font:12px sans-serif;fill:#747c86}.title{font-weight:bold}.end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#8885}</style>"
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#8a8a8a")


def cases(run, threads):
    """What was measured with so many threads: name -> [(tokens, row)]."""
    found = {}
    for row in run["benchmarks"]:
        if row["threads"] == threads:
            found.setdefault(f"{row['variant']} {row['parameters']}".strip(), []).append((row["tokens"], row))
    return found


def seconds(row):
    """Processor time of a pass, which other work on the machine changes little."""
    return row["cpu_time"] / 1e3


def share(row, peak):
    """Per cent of the peak, by processor time; None where a row did more than the machine was found to allow: something else had the processor while the peak was measured."""
    if row["share_of_peak"] is None or row["share_of_peak"] > 1:
        return None
    found = row["flops"] / seconds(row) / 1e9 / peak
    return None if found > 1 else 100 * found


def said_share(row, peak):
    return "-" if share(row, peak) is None else f"{share(row, peak):.0f} %"


def peak_of(run):
    return run["context"]["peaks"][0]["fma_gflops"]


def panel(x0, title, found, value, ticks, said, logarithmic):
    """One plot: tokens across, in powers of two; value up."""
    tokens = sorted({n for rows in found.values() for n, _ in rows})
    across = {n: x0 + LEFT + 20 + i * (WIDTH - LEFT - 40) / max(1, len(tokens) - 1) for i, n in enumerate(tokens)}
    height = math.log10 if logarithmic else float
    low, high = height(ticks[0]), height(ticks[-1])
    up = lambda v: TOP + (HEIGHT - TOP - 40) * (1 - (height(v) - low) / (high - low))  # noqa: E731
    out = [f'<text x="{x0 + LEFT}" y="18" class="title">{title}</text>']
    for tick in ticks:
        out.append(f'<line x1="{x0 + LEFT}" x2="{x0 + WIDTH}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" class="grid"/><text x="{x0 + LEFT - 6}" y="{up(tick) + 4:.1f}" class="end">{said(tick)}</text>')
    for n, x in across.items():
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - 22}" class="middle">{n}</text>')
    out.append(f'<text x="{x0 + (LEFT + WIDTH) / 2:.1f}" y="{HEIGHT - 4}" class="middle">tokens</text>')
    for colour, rows in zip(COLOURS, found.values()):
        points = " ".join(f"{across[n]:.1f},{up(value(row)):.1f}" for n, row in sorted(rows, key=lambda r: r[0]) if value(row) is not None)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="{colour}"/>' for p in points.split()]
    return out


def picture(run):
    found = cases(run, 1)
    whole = 2 * WIDTH + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT + ROOM}" viewBox="0 0 {whole} {HEIGHT + ROOM}">',
           STYLE]  # fmt: skip
    out += panel(0, "Time of one forward pass", found, seconds, [1e-3, 1e-2, 1e-1, 1, 10], lambda v: f"{v:g} s" if v >= 1 else f"{v * 1e3:g} ms", True)
    out += panel(WIDTH + 20, "Share of the processor's peak", found, lambda r: share(r, peak_of(run)), [0, 20, 40, 60, 80, 100], lambda v: f"{v} %", False)
    for i, (colour, name) in enumerate(zip(COLOURS, found)):
        x, y = LEFT + (i % 3) * 270, HEIGHT + 22 + (i // 3) * 24
        out.append(f'<rect x="{x}" y="{y - 10}" width="18" height="10" fill="{colour}"/><text x="{x + 24}" y="{y}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def rounded(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def table(run):
    found = cases(run, 1)
    tokens = sorted({n for rows in found.values() for n, _ in rows})
    lines = ["| hierarchy | " + " | ".join(f"{n} tokens, ms" for n in tokens) + " | share of peak |", "|---" * (len(tokens) + 2) + "|"]
    for name, rows in found.items():
        times = dict(rows)
        lines.append(f"| {name} | " + " | ".join(rounded(seconds(times[n]) * 1e3) for n in tokens) + f" | {said_share(times[tokens[-1]], peak_of(run))} |")
    return "\n".join(lines) + "\n"


# ---- bench/lengths.py: a training step beside torch ----

WIDE, TALL, NAMES = 560, 340, 230  # a plot, and room for names at the ends of its lines


def apart(places, least):
    """Names from top to bottom, `least` apart, near their places."""
    out, before = {}, -math.inf
    for name, y in sorted(places.items(), key=lambda p: p[1]):
        before = max(y, before + least)
        out[name] = before
    return out


def decades(low, high):
    return [10**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) if low <= 10**e <= high]


def picture_of_lengths(run):
    runs = run["runs"]
    names = list(runs[0]["ms"])
    tokens = [r["tokens"] for r in runs]
    times = [t for r in runs for t in r["ms"].values()]
    low, high = min(times) / 1.3, max(times) * 1.3
    left, top, right, bottom = 64, 34, WIDE, TALL - 44
    across = {n: left + 16 + i * (right - left - 32) / max(1, len(tokens) - 1) for i, n in enumerate(tokens)}
    up = lambda t: top + (bottom - top) * math.log(high / t) / math.log(high / low)  # noqa: E731
    title = f"A training step of attention: causal, {run['heads']} heads of {run['dim']}, {run['threads']} thread{'s' * (run['threads'] > 1)}"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + NAMES}" height="{TALL}" viewBox="0 0 {WIDE + NAMES} {TALL}">', STYLE, f'<text x="{left}" y="18" class="title">{title}</text>']
    for tick in decades(low, high):
        said = f"{tick / 1000:g} s" if tick >= 1000 else f"{tick:g} ms"
        out.append(f'<line x1="{left}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" class="grid"/><text x="{left - 6}" y="{up(tick) + 4:.1f}" class="end">{said}</text>')
    out += [f'<text x="{x:.1f}" y="{bottom + 20}" class="middle">{n}</text>' for n, x in across.items()]
    out.append(f'<text x="{(left + right) / 2:.1f}" y="{TALL - 6}" class="middle">tokens</text>')
    ends = {}
    for colour, name in zip(COLOURS, names):
        points = [(across[r["tokens"]], up(r["ms"][name])) for r in runs if name in r["ms"]]
        dashes = ' stroke-dasharray="5 4"' if name.startswith("SDPA") else ""
        out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        ends[name] = points[-1][1]
    for name, y in apart(ends, 16).items():
        out.append(f'<text x="{right + 4}" y="{y + 4:.1f}" style="fill:{COLOURS[names.index(name)]}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def table_of_lengths(run):
    lines = ["| ms a step | " + " | ".join(f"{r['tokens']} tokens" for r in run["runs"]) + " |", "|---" * (len(run["runs"]) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(rounded(r["ms"][name]) if name in r["ms"] else "" for r in run["runs"]) + " |" for name in run["runs"][0]["ms"]]
    return "\n".join(lines) + "\n"


def main(source, target):
    with open(source, encoding="utf-8") as file:
        run = json.load(file)
    draw, tell = (picture_of_lengths, table_of_lengths) if "runs" in run else (picture, table)
    with open(target, "w", encoding="utf-8") as file:
        file.write(draw(run))
    print(tell(run), end="")


if __name__ == "__main__":
    main(*sys.argv[1:3])
