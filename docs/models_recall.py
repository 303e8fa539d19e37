"""The part of docs/models.md on recall, and its picture, from the logs of examples/python/train/recall.py."""

import itertools

from benchmarks import COLOURS, NAMES, STYLE, TALL, WIDE, apart
from model_tables import load, mean, middle, of, spread, table

TEXT = """## Recall

Which value followed this key? Multi-query associative recall (Arora et al. 2023, *Zoology*) cannot be done without attention. {pairs} pairs of a key and a value come first. Then each key is asked once, at a random gap, and the model says its value. There are {keys} keys and {values} values, drawn anew for every sequence; blanks are between the questions.

As in Zoology, gaps are short more often than long, and the model learns from short sequences and long ones in turn: from 16 tokens on, with fewer pairs, up to the context. From sequences of 512 tokens alone, dense attention learnt nothing in 300 steps. A token also begins with the embedding of the one before it, a short convolution of two tokens like that of Zoology's models. So a value carries its key, and one layer is enough.

```text
python3 examples/python/train/recall.py                             # context 512, three seeds{commands}
```

{size} {machine} Accuracy in % of the answers, on {check} sequences of the full context that no step has seen; where there are several seeds, the least and the greatest follow the mean in brackets. The next columns are by distance, the number of tokens between a pair and its question: up to {nearest}, from there to twice as far, and so on.

{tables}

![Accuracy in % by how far back the pair is, context {longest}]({pictures}/models-recall.svg)

{said}

**What their papers say.** None of the four papers tries recall. This is what they say about far tokens, beside the result here:

{claims}

Why? Recall needs each key beside its own value.

- A window shows nothing beyond its end.
- H-Transformer, HSA and Fenwick spans show far tokens as means of keys and means of values. A mean does not say which value followed which key.
- BP-Transformer's spans are such means, too, in a model of one layer. But a span of two tokens still holds one pair: with k = 16 the model recalls beyond the tokens that it sees singly.
- A dilated pattern sees a pair where the distance fits, Treeformer where key and question are in one leaf.
- Chosen blocks show whole pairs, where the right block is among the k.

What this does not show: it is one layer of width {width}, trained for {steps} steps. An attention that sees a pair and misses it may learn more in a longer training. Spans that learn, layer by layer, were not tried. {keys} keys are few beside a language's words."""

KNOWS, PART = 90, 17  # % from which on we say that something is recalled, and recalled in part: twice what the value of most pairs gives
CONTROLS = ("mean", "window:left=0")

# The attention's first word | its paper | what that says.
CLAIMS = (
    ("bpt", "BP-Transformer", "Spans keep the long-range context: on Enwik8, bits a character fall from 1.07 at 512 tokens to 1.02 at 8192 (table 4, k = 64, 12 layers)."),
    ("htransformer", "H-Transformer-1D", "What is far needs attention only coarsely, as attention falls off with distance (section 5.1); better than dense attention on documents' retrieval, 63.99 to 57.46 (table 1)."),
    ("treeformer", "Treeformer", "Attention is the retrieval of nearest keys, and a learned tree finds them, as accurately as dense attention on average; but trained as it is from the beginning it is stuck at a high loss, so that they restrict attention step by step (sections 1 and 3)."),
    ("hsa", "HSA", "It is the closest to softmax attention of all that give a block one weight (theorem 3.2); little is lost in some layers of a pretrained RoBERTa, much in all of them (appendix L)."),
)  # fmt: skip


def logs(folder):
    """By their contexts, ascending."""
    found = [load(path) for path in folder.glob("recall-[0-9]*.json")]
    return {log["settings"]["context"]: log for log in sorted(found, key=lambda log: log["settings"]["context"])}


# ---- numbers ----


def learned(log):
    return {row["name"]: row["runs"] for row in log["rows"] if "runs" in row}


def hierarchies(log):
    return {name: runs for name, runs in learned(log).items() if name not in (*CONTROLS, "dense")}


def by_distance(runs):
    """The mean accuracy of the seeds, {as far: %}; all have the same questions."""
    return {int(far): sum(run["by_distance"][far][0] for run in runs) / len(runs) for far in runs[0]["by_distance"]}


def kind(runs):
    """"all", "part": at every distance; "near": up to some distance; "none"."""
    found = list(by_distance(runs).values())
    return "all" if min(found) >= KNOWS else "part" if min(found) >= PART else "near" if found[0] >= PART else "none"


def reach(runs):
    """How far back something is recalled, before nothing is."""
    return max([0, *(far for far, _ in itertools.takewhile(lambda band: band[1] >= PART, by_distance(runs).items()))])


def ends(runs):
    """Accuracy of the nearest and of the farthest."""
    found = list(by_distance(runs).values())
    return f"{found[0]:.0f} % near, {found[-1]:.0f} % far"


# ---- the table ----


def shown(name):
    return f"`{name}`"


def accuracies(log):
    context, found = log["settings"]["context"], learned(log)
    bands = by_distance(next(iter(found.values())))
    rows = [[row["name"], f"{row['accuracy']:.1f}", *[""] * (len(bands) + 3)] for row in log["rows"] if "runs" not in row]
    for name, runs in found.items():
        near = [f"{accuracy:.0f}" for accuracy in by_distance(runs).values()]
        rows.append([shown(name), spread(runs, "accuracy", 1), *near, str(len(runs)), str(runs[0]["parameters"]), middle(runs, "seconds", 1000)])
    return table([f"attention, context {context}", "accuracy, %", *(f"to {far}" for far in bands), "seeds", "weights", "ms a step"], rows)


# ---- what the numbers say ----

HERE = {"all": "everywhere", "part": "everywhere, in part", "near": "near tokens only", "none": "not even near"}


def controls_said(log):
    """Whether dense attention recalls, and the controls do not: else the rows between them mean nothing."""
    found, context = learned(log), log["settings"]["context"]
    dense, chance = found["dense"], of(log, "(the value of most pairs)")["accuracy"]
    others = {name: mean(found[name], "accuracy") for name in CONTROLS if name in found}
    failed = ", ".join(f"{shown(name)} {accuracy:.1f} %" for name, accuracy in others.items())
    do = "do not" if max(others.values(), default=0) < PART <= mean(dense, "accuracy") else "do as well"
    return f"At context {context} dense attention recalls {mean(dense, 'accuracy'):.1f} %; the controls {do}: {failed}, where the value of most pairs gives {chance:.1f} %."


def kinds_said(found):
    """Which recall at all, and up to where, at each context."""
    names = dict.fromkeys(name for log in found.values() for name in hierarchies(log))
    rows = [[shown(name), *(recalled(hierarchies(log)[name]) if name in hierarchies(log) else "" for log in found.values())] for name in names]
    return table(["attention", *(f"recalls at context {n}" for n in found)], rows) + f"\n\n\"everywhere\": {KNOWS} % or more at every distance; \"in part\": {PART} % or more; \"not even near\": less than {PART} % even there."


def recalled(runs):
    return HERE[kind(runs)] + (f", up to {reach(runs)} tokens" if kind(runs) == "near" else "") + f": {ends(runs)}"


def agreed(kinds):
    kinds = set(kinds)
    return "agreed" if kinds == {"all"} else "agreed in part" if {"all", "part"} & kinds else "not agreed"


def claims_table(found):
    rows = []
    for word, paper, says in CLAIMS:
        for name in (name for name in hierarchies(next(iter(found.values()))) if name.split(":")[0] == word):
            here = [hierarchies(log)[name] for log in found.values() if name in hierarchies(log)]
            rows.append([f"{paper}: {shown(name)}", says, *(f"{HERE[kind(runs)]}: {ends(runs)}" for runs in here), *[""] * (len(found) - len(here)), agreed(map(kind, here))])
    return table(["attention", "its paper", *(f"recall at context {n}" for n in found), "for recall"], rows)


def commands(found):
    """Of the contexts beyond the first."""
    return "".join(f"\npython3 examples/python/train/recall.py --context {n} --seeds {log['settings']['seeds']}" for n, log in list(found.items())[1:])


def minutes(log):
    """Of the processor, for all steps."""
    return sum(run["seconds"] * log["settings"]["steps"] for runs in learned(log).values() for run in runs) / 60


def machine_said(found):
    log, m = found[max(found)], found[max(found)]["machine"]
    budget = ", ".join(f"{minutes(log):.0f} minutes of the processor at context {n}" for n, log in found.items())
    return f"The steps of all rows took {budget}: {m['cpu']}, one thread, {log['date']}, hga {m['hga']} at commit {m['commit']}."


def section(found, pictures):
    first, longest = next(iter(found.values())), max(found)
    s = first["settings"]
    return TEXT.format(
        pictures=pictures, longest=longest, commands=commands(found), machine=machine_said(found), nearest=min(by_distance(learned(first)["dense"])),
        size=f"{s['layers']} layer{'s' * (s['layers'] > 1)}, width {s['width']}, {s['heads']} heads; {s['steps']} steps of {s['batch'] * s['context']} tokens.",
        tables="\n\n".join(map(accuracies, found.values())), claims=claims_table(found),
        said=" ".join(map(controls_said, found.values())) + "\n\n" + kinds_said(found),
        **{name: s[name] for name in ("pairs", "keys", "values", "check", "width", "steps")},
    )  # fmt: skip


# ---- the picture ----


def picture(found):
    """Accuracy by distance at the longest context."""
    context = max(found)
    lines = {name: by_distance(runs) for name, runs in learned(found[context]).items()}
    bands = list(next(iter(lines.values())))
    left, top, right, bottom = 64, 34, WIDE, TALL - 44
    across = {far: left + 16 + i * (right - left - 32) / max(1, len(bands) - 1) for i, far in enumerate(bands)}
    up = lambda v: bottom - (bottom - top) * v / 100  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + NAMES}" height="{TALL}" viewBox="0 0 {WIDE + NAMES} {TALL}">', STYLE,
           f'<text x="{left}" y="18" class="title">Recall: accuracy in % by distance, context {context}</text>']  # fmt: skip
    for tick in range(0, 101, 20):
        out.append(f'<line x1="{left}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" class="grid"/><text x="{left - 6}" y="{up(tick) + 4:.1f}" class="end">{tick}</text>')
    out += [f'<text x="{x:.1f}" y="{bottom + 20}" class="middle">{far}</text>' for far, x in across.items()]
    out.append(f'<text x="{(left + right) / 2:.1f}" y="{TALL - 6}" class="middle">tokens back, at most</text>')
    places = {name: -y for name, y in apart({name: -up(values[bands[-1]]) for name, values in lines.items()}, 15).items()}  # most names end below: they make room upwards
    for i, (name, values) in enumerate(lines.items()):
        colour, dashes = COLOURS[i % len(COLOURS)], ' stroke-dasharray="2 3"' if i >= len(COLOURS) else ""
        points = " ".join(f"{across[far]:.1f},{up(v):.1f}" for far, v in values.items())
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>')
        out.append(f'<text x="{right + 4}" y="{places[name] + 4:.1f}" style="fill:{colour}">{name.split(":dilations")[0]}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
