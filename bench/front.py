"""README's first table: what keeps a model's outputs, measured in one run. Whole models of public sizes with random weights, by
attn_implementation="hga" or hga.transformers.use, beside transformers' own attention; a training step along FlexAttention's masks
beside sdpa with the mask; an epoch of GATConv beside PyTorch Geometric's.

    PYTHONPATH=build/python OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python3 bench/front.py [--quick] [--seconds 40] [--only bert,gat]
                                                                                             [--markdown README.md]

Each row has a process of its own. Processor time of one thread, in turns, the least of 2 to 5 rounds: after the second a row ends once it
has taken --seconds. A row whose outputs are further apart than 1e-4 of the largest has no time. --quick: a few layers and tokens, to
see that it runs. The caption has the GFLOP a second that a product of matrices, sdpa, hga and onnxruntime reach in the same run.
--markdown puts the table into a page, between
the lines that say what is between them. Ctrl-C ends it with the rows that are there. onnxruntime takes part where it, onnx and
onnxscript are installed."""

import argparse
import contextlib
import copy
import datetime
import functools
import io
import logging
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import warnings
from typing import Any, Callable, List, NamedTuple, Optional

import compare
import layers
import numpy as np
import torch
import transformers
from peers import Missing

import hga
import hga.torch
import hga.transformers

FEWEST, MOST = 2, 5  # rounds
NEAR = 1e-4  # how far apart outputs may be, in shares of their largest entry
HEADS, DIM, DENSE = 8, 64, 4096  # of the calls in the caption
CAPTION = "caption"
BEGIN, END = "<!-- bench/front.py writes from here -->\n", "<!-- to here -->\n"
GRAPH_NODES, GRAPH_EDGES = 20000, 300000


class Row(NamedTuple):
    """Something done twice: its name, what it is beside, the two calls, and a third one where there is one."""

    name: str
    beside: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    others: Optional[Callable[[], Any]] = None
    of_others: str = ""


class Timed(NamedTuple):
    row: Row
    seconds: List[float]  # ours, theirs, others'
    apart: float


# ---- whole models ----


class Model(NamedTuple):
    name: str
    kind: str  # of transformers
    config: str
    numbers: dict  # beyond those of the configuration class, whose defaults are the published sizes
    tokens: int
    served: bool = False  # by hga.transformers.use
    part: str = ""  # of the model: its encoder
    layers: str = "num_hidden_layers"


LLAMA = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
             num_key_value_heads=8, head_dim=64, max_position_embeddings=131072)  # fmt: skip
GEMMA = dict(vocab_size=262144, hidden_size=1152, intermediate_size=6912, num_hidden_layers=26, num_attention_heads=4,
             num_key_value_heads=1, head_dim=256, sliding_window=512)  # fmt: skip
SMOL = dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
            num_key_value_heads=3, max_position_embeddings=8192)  # fmt: skip
MODELS = {
    "longformer": Model("Longformer-base", "LongformerModel", "LongformerConfig", dict(max_position_embeddings=4098, vocab_size=50265, type_vocab_size=1), 4096, True),
    "bigbird": Model("BigBird-base", "BigBirdModel", "BigBirdConfig", dict(attention_type="block_sparse"), 4096, True),
    "led": Model("LED-base's encoder", "LEDModel", "LEDConfig", dict(
        d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072,
        decoder_ffn_dim=3072, attention_window=1024, max_encoder_position_embeddings=16384), 8192, True, "encoder", "encoder_layers"),
    "modernbert": Model("ModernBERT-base", "ModernBertModel", "ModernBertConfig", {}, 8192),
    "gemma": Model("Gemma 3 1B, prefill", "Gemma3TextModel", "Gemma3TextConfig", GEMMA, 4096),
    "llama": Model("Llama 3.2 1B, prefill", "LlamaModel", "LlamaConfig", LLAMA, 2048),
    "smollm": Model("SmolLM2 135M, prefill", "LlamaModel", "LlamaConfig", SMOL, 8192),
    "bert": Model("BERT-base", "BertModel", "BertConfig", {}, 512),
}  # fmt: skip


def made(model, quick):
    """The model, with random weights, and what it reads."""
    numbers = dict(model.numbers, **({model.layers: 2} if quick else {}))
    torch.manual_seed(1)
    config = getattr(transformers, model.config)(**numbers)
    whole = getattr(transformers, model.kind)(config).eval()
    whole = getattr(whole, model.part) if model.part else whole
    return whole, torch.randint(5, 1000, (1, max(1024, model.tokens // 4) if quick and model.tokens > 1024 else model.tokens))


def called(model, ids, cached):
    def call():
        with torch.no_grad():
            return model(input_ids=ids, **({"use_cache": False} if cached else {}))[0]

    return call


def of_model(key, quick):
    """A model with its own attention, the same one with hga's, and onnxruntime's of BERT."""
    wanted = MODELS[key]
    theirs, ids = made(wanted, quick)
    ours = copy.deepcopy(theirs)
    if wanted.served:
        hga.transformers.use(ours)
    else:
        ours.set_attn_implementation("hga")
    beside = "its own attention" if wanted.served else theirs.config._attn_implementation
    cached = hasattr(theirs.config, "use_cache") and "prefill" in wanted.name
    others = by_onnxruntime(theirs, ids) if key == "bert" else None
    return Row(f"{wanted.name}, {ids.shape[1]} tokens", beside, called(ours, ids, cached), called(theirs, ids, cached), others, "onnxruntime")


class First(torch.nn.Module):
    """Of a model's outputs the first, for an export."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids)[0]


def by_onnxruntime(model, ids):
    """The whole model by onnxruntime, with its fusions for BERT; None where something is missing, which is said."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401: what the export needs
        from onnxruntime.transformers import optimizer
    except ImportError as e:
        print(f"not compared: onnxruntime: {e}", file=sys.stderr)
        return None
    heads, width = model.config.num_attention_heads, model.config.hidden_size
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder, "model.onnx"))
        torch.onnx.export(First(copy.deepcopy(model)), (ids,), dynamo=True).save(path)
        fused = optimizer.optimize_model(path, model_type="bert", num_heads=heads, hidden_size=width)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(fused.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: ids.numpy()}
    return lambda: torch.from_numpy(session.run(None, given)[0])


# ---- training along masks, and along graphs ----


def window(b, h, q, k):
    return (q >= k) & (q - k < 256)


def documents(n, each):
    number = torch.arange(n) // each

    def same(b, h, q, k):
        return (number[q] == number[k]) & (q >= k)

    return same


def there_and_back(attend, tensors, given):
    def call():
        leaves = [x.clone().requires_grad_() for x in tensors]
        out = attend(*leaves)
        return torch.cat([x.flatten() for x in (out.detach(), *torch.autograd.grad(out, leaves, given))])

    return call


def of_mask(key, quick):
    """Forward and backward: torch has no backward of FlexAttention on CPUs, so beside sdpa with the mask."""
    n = 1024 if quick else 8192
    name, mod = {"window": ("a window of 256", window), "documents": ("16 documents", documents(n, n // 16))}[key]
    torch.manual_seed(1)
    tensors = [torch.randn(1, HEADS, n, DIM) for _ in range(3)]
    block = hga.torch.create_block_mask(mod, None, None, n, n)
    i = torch.arange(n)
    mask = mod(0, 0, i[:, None], i[None, :])
    sdpa = torch.nn.functional.scaled_dot_product_attention
    given = torch.randn(1, HEADS, n, DIM)
    return Row(f"FlexAttention, {name}, {n} tokens, forward and backward", "sdpa with the mask",
               there_and_back(lambda q, k, v: hga.torch.flex_attention(q, k, v, block_mask=block), tensors, given),
               there_and_back(lambda q, k, v: sdpa(q, k, v, attn_mask=mask), tensors, given))  # fmt: skip


def of_gat(key, quick):
    """An epoch of GATConv, from the same weights."""
    rng, shrink = np.random.default_rng(1), 20 if quick else 1
    edges = rng.integers(GRAPH_NODES // shrink, size=(2, GRAPH_EDGES // shrink))
    p = layers.Problem("GATConv", edges, GRAPH_NODES // shrink, 64, 4, 16, 0, 1)
    skipped = []
    found = dict((name, run) for name, run, _ in layers.contenders(p, ["hga", "pyg"], skipped))
    if len(found) < 2:
        raise Missing("; ".join(skipped))
    return Row(f"GATConv, {edges.shape[1]:,} random edges, an epoch", "PyTorch Geometric", found["hga"], found["pyg"])


ROWS = {**{name: functools.partial(of_model, name) for name in MODELS}, "window": functools.partial(of_mask, "window"),
        "documents": functools.partial(of_mask, "documents"), "gat": functools.partial(of_gat, "gat")}  # fmt: skip


# ---- measuring ----


def with_seconds(call):
    begun = time.process_time()
    result = call()
    return result, time.process_time() - begun


def timed(row, enough):
    """The first results are compared; all take turns, whose order turns too."""
    calls = [f for f in (row.ours, row.theirs, row.others) if f]
    results, first = zip(*map(with_seconds, calls))
    apart = max(float((x - results[0]).abs().max() / results[0].abs().max()) for x in results[1:])
    if not apart <= NEAR:
        raise Missing(f"{row.name}: outputs are {apart:.1e} apart: no time is shown")
    found = [[seconds] for seconds in first]
    del results
    while len(found[0]) < FEWEST or (len(found[0]) < MOST and sum(map(sum, found)) < enough):
        turn = len(found[0])
        for i in [(turn + j) % len(calls) for j in range(len(calls))]:
            found[i].append(with_seconds(calls[i])[1])
    return Timed(row, [min(x) for x in found], apart)


def gflops(quick):
    """[(name, GFLOP a second)] of dense calls, and of a product of two matrices, which nothing is above."""
    torch.manual_seed(1)
    a = torch.randn(2048, 2048)
    n = DENSE // 4 if quick else DENSE
    q, k, v = (torch.randn(1, HEADS, n, DIM) for _ in range(3))
    h, flops = hga.dense(n), 4 * HEADS * DIM * n**2
    calls = [("a product of matrices", lambda: a @ a, 2 * 2048**3), ("sdpa", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), flops),
             ("hga", lambda: h.attention(q, k, v), flops)]  # fmt: skip
    with contextlib.suppress(Missing):
        p = compare.Problem("dense", types.SimpleNamespace(tokens=n, heads=HEADS, dim=DIM, threads=1, backward=False))
        calls.append(("onnxruntime", compare.peer_onnxruntime(p)(False), flops))
    return [(name, work / 1e9 / min(with_seconds(f)[1] for _ in range(MOST))) for name, f, work in calls]


# ---- the table ----


def processor():
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return "a processor"


def duration(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def table_line(t):
    ours, theirs, *others = t.seconds
    more = f" ({t.row.of_others}: {duration(others[0])})" if others else ""
    return f"| {t.row.name} | {t.row.beside} | {duration(theirs)}{more} | {duration(ours)} | **{theirs / ours:.2f}** | {t.apart:.0e} |"


def caption(rates, tokens):
    reached = ", ".join(f"{name} {rate:.0f}" for name, rate in rates)
    versions = f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, hga {hga.__version__}"
    return (f"*Processor time of one thread of an {processor()}, {datetime.date.today()}, {versions}, float32, random weights; runs take turns; the least of {FEWEST} to {MOST} rounds. "
            f"GFLOP a second of dense attention, {HEADS} x {DIM}, {tokens} tokens: {reached}. Difference: of outputs (and gradients), relative to the largest.*")  # fmt: skip


HEAD = "| | compared with | its time | hga's time | times as fast | difference |\n|---|---|---|---|---|---|"


def place_in(path):
    """What a page has before and behind the two lines; refuses one without them."""
    page = path.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        sys.exit(f"{path}: has no lines {BEGIN.strip()} and {END.strip()}")
    before, rest = page.split(BEGIN)
    return before, rest.split(END)[1]


def put_into(path, text):
    before, behind = place_in(path)
    path.write_text(before + BEGIN + text + END + behind, encoding="utf-8")


def row_of(name, a):
    """A row, measured in this process, or the caption, as text."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    hga.transformers.register()
    if name == CAPTION:
        return caption(gflops(a.quick), DENSE // 4 if a.quick else DENSE)
    return table_line(timed(ROWS[name](a.quick), a.seconds))


def by_itself(name, a):
    """The same in a process of its own: what one leaves of memory would be another's page faults, or spare it some."""
    command = [sys.executable, __file__, "--row", name, "--seconds", str(a.seconds), *(["--quick"] if a.quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def rows_of(a):
    """The table's rows, printed as they come; Ctrl-C ends them."""
    lines = []
    with contextlib.suppress(KeyboardInterrupt):
        for name in a.only.split(","):
            line = by_itself(name, a)
            lines += [line] if line else []
            print(line or f"not compared: {name}", file=sys.stdout if line else sys.stderr, flush=True)
    return lines


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--quick", action="store_true", help="few layers, few tokens")
    a.add_argument("--seconds", type=float, default=40, help="of a row, after which it ends (default: 40)")
    a.add_argument("--only", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    a.add_argument("--row", choices=[*ROWS, CAPTION], help="that one alone, in this process")
    a.add_argument("--markdown", type=pathlib.Path, metavar="PAGE.md", help="put the table into a page")
    a = a.parse_args()
    for name in a.only.split(","):
        if name not in ROWS:
            a.error(f"--only: no row {name!r}; there are {', '.join(ROWS)}")
    if a.markdown:
        place_in(a.markdown)
    if a.row:
        try:
            print(row_of(a.row, a))
        except Missing as e:
            sys.exit(f"not compared: {a.row}: {e}")
        return
    begun = time.monotonic()
    says = by_itself(CAPTION, a)
    print(HEAD, flush=True)
    lines = rows_of(a)
    if not lines:
        sys.exit("nothing was compared")
    print(f"\n{says}")
    print(f"{(time.monotonic() - begun) / 60:.1f} minutes", file=sys.stderr)
    if a.markdown:
        put_into(a.markdown, "\n".join([HEAD, *lines, "", says, ""]))


if __name__ == "__main__":
    main()
