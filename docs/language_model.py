"""The part of docs/models.md on a pretrained language model, and its picture, from the logs of examples/python/smollm.py: budgets by head (models_budgets.py), and before it a log of attentions that are the same in all heads."""

import math
import re

import models_budgets
from benchmarks import COLOURS, STYLE, TALL, apart

TEXT = """## A pretrained language model

[`examples/python/smollm.py`](../examples/python/smollm.py) replaces the attention in all layers of SmolLM2-135M-Instruct ({layers} layers, 9 query heads on 3 key/value heads, context 8192), or in some of them. Nothing is trained.

{budgets}

### Which attention works untrained

Other attention, all layers alike and all heads with the same numbers. {machine}

{said}

![How much perplexity is lost against the time of a pass]({pictures}/models-smollm.svg)

{table}

- **perplexity**: of the last half of {windows} windows of {tokens} tokens of each text.
- **lost**: the geometric mean over the texts that a row has.
- **needles**: in brackets nats a digit.
- **prefill**: time of a pass as a share of sdpa's, over {of_layers} of the {layers} layers, which are alike. Here, too, rows with `prefill` have choices that look ahead.

```text
{command}
```

Differences of a few tenths of a percent may be chance. The log joins runs of one night, on a machine that other work shared.
"""

KEPT, BROKEN = 20, 900  # % of perplexity lost: up to here attention works as it stands, and from here on not at all
BY_LAYER = re.compile(r"(\d[\d+-]*|rest)=")  # fitted on the very tokens that were measured: not shown
DENSE, LAYERS = "sdpa", 30
WIDE, NAMES = 470, 330  # the plot, and room for names beside it


# ---- rows ----


def at_length(log, n):
    return {row["attention"]: row for row in log["rows"] if row["tokens"] == n}


def read_lengths(log):
    """Those at which perplexity was measured."""
    return sorted({row["tokens"] for row in log["rows"] if row["perplexity"]})


def lost(row, dense):
    """How much more perplexity than dense attention's, %, by the geometric mean over the texts that both read."""
    both = [t for t in row["perplexity"] if row["perplexity"][t] and dense["perplexity"].get(t)]
    return 100 * (math.exp(sum(math.log(row["perplexity"][t] / dense["perplexity"][t]) for t in both) / len(both)) - 1) if both else None


def losses(log, n):
    """Of those that are not dense."""
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    found = {name: lost(row, dense) for name, row in rows.items() if name not in (DENSE, "dense")}
    return {name: loss for name, loss in found.items() if loss is not None}


def share(row):
    """Of the time of sdpa's pass; None where nobody measured."""
    cost = row.get("prefill")
    return cost["seconds"] / cost[DENSE] if cost else None


# ---- tables ----


def shown(name):
    return f"`{name}`"


def cell(value, form):
    return "" if value is None else form.format(value)


def table(log, n):
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    texts = list(dense["perplexity"])
    heads = [f"attention, {n} tokens", "keys", *(f"perplexity: {t}" for t in texts), "lost", "needles", "prefill"]
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        loss, asked = lost(row, dense), row.get("needles")
        cells = [shown(name), cell(row.get("keys"), "{:.0f}"), *(cell(row["perplexity"].get(t), "{:.2f}") for t in texts)]
        cells += [cell(None if name == DENSE else loss, "{:.1f} %"), "" if asked is None else f"{asked['found']} of {asked['of']} ({asked['nats']:.2f})"]
        out.append("| " + " | ".join([*cells, cell(share(row), "{:.2f}")]) + " |")
    return "\n".join(out)


# ---- what the numbers say ----


def listed(names):
    names = [shown(name) for name in names]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0] if names else "none"


def kinds_said(log, n):
    """By what each loses."""
    found = losses(log, n)
    works = [name for name, loss in found.items() if loss <= KEPT]
    needs = [name for name, loss in found.items() if KEPT < loss <= BROKEN]
    never = [name for name, loss in found.items() if loss > BROKEN]
    return "\n".join([
        f"- **Works as it stands** (at most {KEPT} % of perplexity lost): {listed(works)}.",
        f"- **Needs training** (more is lost): {listed(needs)}. SmolLM2 was not trained with them here; [MiniLM below](#minilm-taught-with-a-hierarchy) was trained with one, and most of its loss was regained.",
        f"- **Does not work at all** (perplexity more than {1 + BROKEN // 100} times as high): {listed(never)}.",
    ])  # fmt: skip


WHY = """A causal model that was trained with dense attention depends on its first tokens: every head gives them the weight that it needs nowhere else. A hierarchy that hides those tokens breaks the model, whatever else it shows. Therefore a window needs `global=4`, and `routed` always chooses the first block (`sinks=1`)."""


def gains_said(log):
    """From what length on a whole pass is faster, of settings that see as large a share of the keys at every length."""
    shares = {}
    for row in sorted(log["rows"], key=lambda row: row["tokens"]):
        if share(row) and row["attention"] != DENSE:
            shares.setdefault(re.sub(r"\b(k|left)=\d+", r"\1=..", row["attention"]), []).append((row["tokens"], 1 / share(row)))
    shares = {name: dict(each) for name, each in shares.items() if len(each) > 1}
    if not shares:
        return ""
    lengths = sorted({n for each in shares.values() for n in each})
    out = ["| attention | " + " | ".join(f"{n} tokens" for n in lengths) + " |", "|---" * (len(lengths) + 1) + "|"]
    out += [f"| {shown(name)} | " + " | ".join(cell(each.get(n), "{:.2f}") for n in lengths) + " |" for name, each in shares.items()]
    words = "Over few tokens most of a pass is products with weights, so attention can save little there."
    return "**From what length on?** How many times as fast as with sdpa a pass is:\n\n" + "\n".join(out) + f"\n\n{words}"


def command(log, n):
    """What measures the rows of a length again."""
    rows, say = at_length(log, n), "python3 examples/python/smollm.py --json smollm-{1}.json --longest {0} --tokens {1} --texts {2} --needles {3} --attention \"{4}\""
    return say.format(log["settings"]["longest"], n, ",".join(rows[DENSE]["perplexity"]), rows[DENSE]["needles"]["of"], ";".join(rows))


# ---- the picture ----


def points_of(log, n):
    """name -> share of sdpa's time, % of perplexity lost."""
    rows, found = at_length(log, n), losses(log, n)
    return {name: (share(rows[name]), loss) for name, loss in found.items() if loss > 0 and share(rows[name])}


def picture(log):
    """What is lost, on a logarithmic axis, against the time of a pass, at the shortest length."""
    n = read_lengths(log)[0]
    points = points_of(alike(log), n)
    left, top, right, bottom = 64, 34, WIDE, TALL - 44
    low, high = (f(math.log10(p[1])) for f, p in ((math.floor, min(points.values(), key=lambda p: p[1])), (math.ceil, max(points.values(), key=lambda p: p[1]))))
    last = max(1.0, *(p[0] for p in points.values())) + 0.05
    across = lambda x: left + (right - left) * x / last  # noqa: E731
    up = lambda y: bottom - (bottom - top) * (math.log10(y) - low) / max(1, high - low)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + NAMES}" height="{TALL}" viewBox="0 0 {WIDE + NAMES} {TALL}">', STYLE,
           f'<text x="{left}" y="18" class="title">Perplexity lost, %: nothing trained, {n} tokens</text>']  # fmt: skip
    for power in range(low, low + max(1, high - low) + 1):
        y = up(10.0**power)
        out.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/><text x="{left - 6}" y="{y + 4:.1f}" class="end">{10.0**power:g}</text>')
    out += [f'<text x="{across(x / 4):.1f}" y="{bottom + 20}" class="middle">{x / 4:g}</text>' for x in range(5)]
    out.append(f'<line x1="{across(1):.1f}" x2="{across(1):.1f}" y1="{top}" y2="{bottom}" stroke="#8a8a8a" stroke-dasharray="6 4"/>')
    out.append(f'<text x="{across(1) - 6:.1f}" y="{top + 14}" class="end">sdpa</text>')
    out.append(f'<text x="{(left + right) / 2:.1f}" y="{TALL - 6}" class="middle">time of a pass, of sdpa\'s</text>')
    places = apart({name: up(p[1]) for name, p in points.items()}, 15)
    beyond = max(0.0, max(places.values()) - bottom)
    for (name, (x, y)), colour in zip(points.items(), COLOURS):
        at = places[name] - beyond
        out.append(f'<line x1="{across(x):.1f}" y1="{up(y):.1f}" x2="{right}" y2="{at:.1f}" stroke="{colour}" stroke-width="0.5"/>')
        out.append(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{right + 4}" y="{at + 4:.1f}" style="fill:{colour}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def alike(log):
    """Without rows that differ by layer."""
    return {**log, "rows": [row for row in log["rows"] if not BY_LAYER.match(row["attention"])]}


def part(log, budgets, pictures):
    log, m = alike(log), log["machine"]
    n = read_lengths(log)[0]
    few = {row["prefill"]["layers"] for row in log["rows"] if row.get("prefill")}
    return TEXT.format(
        layers=LAYERS, budgets=models_budgets.part(budgets), pictures=pictures, machine=f"Measured on {log['date']}: {m['cpu']}, one thread, torch {m['torch']}, transformers {m['transformers']}, hga {m['hga']}.",
        said="\n\n".join(filter(None, [kinds_said(log, n), WHY, gains_said(log)])), table=table(log, n), windows=at_length(log, n)[DENSE]["windows"], tokens=n,
        of_layers=" or ".join(str(k) for k in sorted(few)), command=command(log, n),
    ).strip()  # fmt: skip
