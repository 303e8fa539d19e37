"""The plots and the table of docs/benchmarks.md, from a dated run: python3 docs/benchmarks.py bench/results/DATE.json PLOT.svg writes the plot and prints the table."""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, ROOM = 420, 300, 56, 34, 84
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#8a8a8a")


def cases(run, threads):
    """What was measured with so many threads: name -> [(tokens, row)]."""
    found = {}
    for row in run["benchmarks"]:
        if row["threads"] == threads:
            found.setdefault(f"{row['variant']} {row['parameters']}".strip(), []).append((row["tokens"], row))
    return found


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
        points = " ".join(f"{across[n]:.1f},{up(value(row)):.1f}" for n, row in sorted(rows, key=lambda r: r[0]))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="{colour}"/>' for p in points.split()]
    return out


def picture(run):
    found = cases(run, 1)
    whole = 2 * WIDTH + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT + ROOM}" viewBox="0 0 {whole} {HEIGHT + ROOM}">',
           "<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#ddd}</style>",
           f'<rect width="{whole}" height="{HEIGHT + ROOM}" fill="#fff"/>']  # fmt: skip
    out += panel(0, "Time of one forward pass", found, lambda r: r["seconds"], [1e-3, 1e-2, 1e-1, 1, 10], lambda v: f"{v:g} s" if v >= 1 else f"{v * 1e3:g} ms", True)
    out += panel(WIDTH + 20, "Share of the processor's peak", found, lambda r: 100 * r["share_of_peak"], [0, 20, 40, 60, 80], lambda v: f"{v} %", False)
    for i, (colour, name) in enumerate(zip(COLOURS, found)):
        x, y = LEFT + (i % 3) * 270, HEIGHT + 22 + (i // 3) * 24
        out.append(f'<rect x="{x}" y="{y - 10}" width="18" height="10" fill="{colour}"/><text x="{x + 24}" y="{y}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def rounded(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def table(run):
    one, two = cases(run, 1), cases(run, 2)
    tokens = sorted({n for rows in one.values() for n, _ in rows})
    lines = ["| hierarchy | " + " | ".join(f"{n} tokens, ms" for n in tokens) + " | 2 threads over 1 | share of peak |", "|---" * (len(tokens) + 3) + "|"]
    for name, rows in one.items():
        times, last = dict(rows), tokens[-1]
        gain = times[last]["seconds"] / dict(two[name])[last]["seconds"]
        lines.append(f"| {name} | " + " | ".join(rounded(times[n]["seconds"] * 1e3) for n in tokens) + f" | {gain:.2f} | {100 * times[last]['share_of_peak']:.0f} % |")
    return "\n".join(lines) + "\n"


def main(source, target):
    with open(source, encoding="utf-8") as file:
        run = json.load(file)
    with open(target, "w", encoding="utf-8") as file:
        file.write(picture(run))
    print(table(run), end="")


if __name__ == "__main__":
    main(*sys.argv[1:3])
