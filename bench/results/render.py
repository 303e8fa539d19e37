#!/usr/bin/env python3
"""render.py RUN.json PAGE.html: the JSON of `hga bench --json` as one page with SVG plots; the standard library is enough."""

import html
import json
import math
import sys

COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#8c8c8c", "#a65628"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 210, 30, 50

STYLE = """body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse } td, th { padding: .15em .7em; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left } svg { max-width: 100% } text { font: 12px sans-serif }
.grid { stroke: #ddd } .bar { fill: #0072b2 } .peer { fill: #d55e00 }"""


def label(row):
    return row["variant"] + (":" + row["parameters"] if row["parameters"] else "")


def unique(values):
    return list(dict.fromkeys(values))


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def svg(height, parts):
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">{"".join(parts)}</svg>'


def number(x):
    return f"{x:g}" if 1e-3 <= x < 1e6 else f"{x:.0e}"


# ---- time against length, both logarithmic ----


class LogLog:
    """Maps a length and a time to the page."""

    def __init__(self, xs, ys):
        self.x0, self.x1 = math.log(min(xs)), math.log(max(xs))
        self.y0, self.y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def x(self, length):
        return LEFT + (math.log(length) - self.x0) / ((self.x1 - self.x0) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, time):
        return HEIGHT - BOTTOM - (math.log10(time) - self.y0) / ((self.y1 - self.y0) or 1) * (HEIGHT - TOP - BOTTOM)

    def grid(self, lengths):
        for exponent in range(self.y0, self.y1 + 1):
            y = self.y(10**exponent)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield text(LEFT - 6, y + 4, number(10.0**exponent), "end")
        for length in lengths:
            x = self.x(length)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            yield text(x, HEIGHT - BOTTOM + 18, str(length), "middle")
        yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "tokens", "middle")
        yield text(LEFT - 6, TOP - 12, "ms", "end")


def curve(at, rows, colour, dashed):
    points = " ".join(f"{at.x(r['tokens']):.1f},{at.y(1e3 * r['seconds_min']):.1f}" for r in rows)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    for r in rows:
        title = f"{label(r)}, {r['tokens']} tokens: {1e3 * r['seconds_min']:.2f} ms"
        yield (f'<circle cx="{at.x(r["tokens"]):.1f}" cy="{at.y(1e3 * r["seconds_min"]):.1f}" r="3.5" fill="{colour}">'
               f"<title>{html.escape(title)}</title></circle>")


def spread_out(ys, gap=15):
    """The same heights in the same order, moved down where two labels would touch."""
    below = -math.inf
    for name, y in sorted(ys.items(), key=lambda item: item[1]):
        below = max(y, below + gap)
        yield name, below


def time_plot(rows):
    lengths = sorted(unique(r["tokens"] for r in rows))
    at = LogLog(lengths, [1e3 * r["seconds_min"] for r in rows])
    parts, ends, colour = list(at.grid(lengths)), {}, {}
    for i, name in enumerate(unique(map(label, rows))):
        line = sorted((r for r in rows if label(r) == name), key=lambda r: r["tokens"])
        colour[name] = COLOURS[i % len(COLOURS)]
        parts += curve(at, line, colour[name], name.startswith("peer:"))
        ends[name] = at.y(1e3 * line[-1]["seconds_min"])
    for name, y in spread_out(ends):
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{y - 5:.1f}" width="10" height="10" fill="{colour[name]}"/>')
        parts.append(text(WIDTH - RIGHT + 28, y + 4, name))
    return svg(HEIGHT, parts)


# ---- share of peak at the longest length of each variant ----


def share_plot(rows):
    best = {label(r): r for r in sorted(rows, key=lambda r: r["tokens"]) if r.get("share_of_peak") is not None}
    parts, room = [], WIDTH - 2 * RIGHT
    for i, (name, r) in enumerate(best.items()):
        y, share = 24 * i + 6, r["share_of_peak"]
        kind = "peer" if name.startswith("peer:") else "bar"
        parts.append(text(RIGHT - 8, y + 13, name, "end"))
        parts.append(f'<rect class="{kind}" x="{RIGHT}" y="{y}" width="{max(0.0, min(share, 1.0)) * room:.1f}" height="18"/>')
        parts.append(text(RIGHT + min(share, 1.0) * room + 6, y + 13, f"{100 * share:.1f} % ({r['tokens']} tokens)"))
    parts.append(f'<line stroke="#222" x1="{RIGHT + room}" x2="{RIGHT + room}" y1="0" y2="{24 * len(best) + 6}"/>')
    return svg(24 * len(best) + 12, parts)


# ---- the table and the page ----

COLUMNS = [
    ("variant", label),
    ("tokens", lambda r: str(r["tokens"])),
    ("median ms", lambda r: f"{1e3 * r['seconds']:.2f}"),
    ("smallest ms", lambda r: f"{1e3 * r['seconds_min']:.2f}"),
    ("GFLOP/s", lambda r: f"{r['gflops']:.1f}"),
    ("of peak", lambda r: "" if r.get("share_of_peak") is None else f"{100 * r['share_of_peak']:.1f} %"),
    ("ns/edge/head", lambda r: "" if r.get("ns_per_edge_head") is None else f"{r['ns_per_edge_head']:.2f}"),
    ("workspace MB", lambda r: f"{r.get('bytes_workspace', 0) / 1e6:.1f}"),
]


def table(rows):
    head = "".join(f"<th>{name}</th>" for name, _ in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(show(r))}</td>" for _, show in COLUMNS) + "</tr>\n" for r in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"


def setting(row):
    return row["threads"], row["isa"], row["precision"]


def section(rows, key):
    threads, isa, precision = key
    rows = [r for r in rows if setting(r) == key]
    return (f"<h2>{threads} thread{'s' if threads > 1 else ''}, {html.escape(isa)}, {html.escape(precision)}</h2>\n"
            f"<h3>Time against length</h3>\n{time_plot(rows)}\n"
            f"<h3>Share of the FMA peak at the longest length</h3>\n{share_plot(rows)}\n"
            f"<details><summary>Numbers</summary>{table(rows)}</details>\n")


def peaks(context):
    return "; ".join(f"{p['isa']}: {p['fma_gflops']:.0f} GFLOP/s of fp32 FMA, {p['dram_gbytes']:.1f} GB/s from memory, one thread"
                     for p in context["peaks"])


def noise(rows):
    """How quiet the machine was, from the times themselves."""
    slowed = sum(r["seconds"] > 1.25 * r["seconds_min"] for r in rows)
    return f"In {slowed} of {len(rows)} cases the median is more than a quarter above the smallest time: so much else the machine did."


def page(run):
    context, rows = run["context"], run["benchmarks"]
    shape = unique(f"{r['heads']} heads x {r['dim']}" for r in rows)
    title = f"hga bench, {context['date'][:10]}"
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body>\n'
            f"<h1>{title}</h1>\n<p>Version {html.escape(context['hga_version'])}, commit {html.escape(context['hga_commit'])}; "
            f"{context['num_cpus']} cores; {', '.join(shape)}. Peaks measured in the same run: {html.escape(peaks(context))}. "
            f"Curves are the smallest times, shares come from medians; the tables have both. {noise(rows)} "
            "Shares are of all threads' peak and count useful operations only. Peers are dashed, or orange.</p>\n"
            + "".join(section(rows, key) for key in unique(map(setting, rows))) + "</body></html>\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as source:
        run = json.load(source)
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write(page(run))


if __name__ == "__main__":
    main()
