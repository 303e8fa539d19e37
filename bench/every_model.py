"""The promise of attn_implementation="hga", type of model by type: never slower than transformers, and no less exact.

    PYTHONPATH=build/python OMP_NUM_THREADS=1 python3 bench/every_model.py [--quick] [--only TYPE ..] [--tokens N ..] [--minutes N]

Every type of python/tests/architectures.py that is installed, two layers with heads of 64 columns: a pass over texts (images, sounds) of
16 to 8192 tokens, one by one and eight at once, with padding too, one token more behind a cache, and a training step, in float32 and
bfloat16. For each, processor time by hga over that by sdpa (or eager attention, where sdpa does not compute what the model asks for), in
turns on one thread; and the largest error of the output beside the other's own, both against double. Exits with 1 where one takes
more than 1.03 times as long, or errs more than twice as much. Eight texts have 2048 tokens each at most; the hour is for all."""

import argparse
import collections
import copy
import pathlib
import statistics
import sys
import time
from typing import Any, NamedTuple

import torch
import transformers

import hga.transformers
from turns import in_turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))
from architectures import Size  # noqa: E402
from model_types import given, models, padding_of  # noqa: E402

MOST, MOST_ERROR = 1.03, 2.0
TOKENS, QUICK = (16, 128, 512, 2048, 8192), (16, 512)
SOME = "bert llama gemma2 gpt_oss vit whisper t5".split()  # of --quick
MOST_TOKENS = 8 * 2048  # of all texts of a pass
MOST_PAIRS = 1 << 28  # bytes that eager attention has for one layer's weights
TYPES = torch.float32, torch.bfloat16


class Row(NamedTuple):
    """One measurement. `errors` are hga's and the other's."""

    type: str
    dtype: Any
    does: str
    batch: int
    tokens: int
    ratio: float
    theirs: float
    errors: Any = None

    def __str__(self):
        said = "" if self.errors is None else f", error {self.errors[0]:.1e} beside {self.errors[1]:.1e}"
        return f"{self.type}, {str(self.dtype)[6:]}, {self.does}, {self.batch} x {self.tokens} tokens: {self.ratio:.2f} of {self.theirs * 1e3:.2f} ms{said}"

    def errs(self):
        return self.errors is not None and self.errors[0] > MOST_ERROR * self.errors[1]


# ---- passes ----


def first_of(model, inputs):
    return model(**inputs)[0]


def passes(model, inputs, trains=False):
    def call():
        with torch.set_grad_enabled(trains):
            out = first_of(model, inputs)
            if trains:
                out.float().square().mean().backward()
                model.zero_grad()

    return call


def one_more(model, inputs):
    """Tokens one by one behind those of a cache."""
    word = hga._core.releases.cache_argument()
    with torch.no_grad():
        filled = model(**inputs, use_cache=True)
    cache, token = getattr(filled, word), inputs["input_ids"][:, :1]

    def call():
        with torch.no_grad():
            model(input_ids=token, use_cache=True, **{word: cache})

    return call


def error(model, inputs, want):
    with torch.no_grad():
        return float((first_of(model, inputs).double() - want).abs().max())


def own_way(model, inputs):
    """sdpa, unless it is not what the model asks for."""
    found = []
    for name in ("eager", "sdpa"):
        try:
            model.set_attn_implementation(name)
        except ValueError:
            return "eager"
        with torch.no_grad():
            found.append(first_of(model, inputs))
    return "sdpa" if torch.allclose(*found, atol=1e-4) else "eager"


def is_large(way, size, batch):
    return way == "eager" and 4 * batch * size.heads * size.tokens**2 > MOST_PAIRS


def pair_of(model, way, dtype):
    pair = [copy.deepcopy(model).to(dtype) for _ in range(2)]
    for one, name in zip(pair, (way, "hga")):
        one.set_attn_implementation(name)
    return pair


def in_double(model, way):
    exact = copy.deepcopy(model).double()
    exact.set_attn_implementation(way)
    if hasattr(exact, "set_experts_implementation"):  # others do not know the type
        exact.set_experts_implementation("eager")
    return exact


def typed(inputs, dtype):
    return {name: x.to(dtype) if x.is_floating_point() else x for name, x in inputs.items()}


def of_model(kind, name, model, size, batches):
    """All rows of one type and so many tokens."""
    way = own_way(model, given(kind, size._replace(tokens=16) if kind == "text" else size, 1))
    for batch in batches:
        if batch * size.tokens > MOST_TOKENS or is_large(way, size, batch):
            continue
        inputs = given(kind, size, batch)
        exact = in_double(model, way)
        with torch.no_grad():
            want = None if is_large(way, size, 2 * batch) or batch > 1 else first_of(exact, typed(inputs, torch.float64))
        for dtype in TYPES:
            theirs, ours = pair_of(model, way, dtype)
            of_type = typed(inputs, dtype)
            errors = None if want is None else tuple(error(x, of_type, want) for x in (ours, theirs))
            yield Row(name, dtype, "forward", batch, size.tokens, *in_turns(passes(theirs, of_type), passes(ours, of_type)), errors)
            if kind == "text" and batch > 1:
                padded = {**of_type, "attention_mask": padding_of(batch, size.tokens)}
                yield Row(name, dtype, "padded", batch, size.tokens, *in_turns(passes(theirs, padded), passes(ours, padded)))
            yield Row(name, dtype, "a training step", batch, size.tokens, *in_turns(passes(theirs.train(), of_type, True), passes(ours.train(), of_type, True)))
            if kind == "text" and getattr(model.config, "use_cache", False) and getattr(model.config, "is_decoder", True) is not False:
                yield Row(name, dtype, "one token more", batch, size.tokens, *in_turns(one_more(theirs.eval(), of_type), one_more(ours.eval(), of_type), 100))


# ---- all of them ----


def table_of(rows):
    """Of every kind of pass: the median and the largest, and how many are slower."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[str(row.dtype)[6:], row.does, row.batch, row.tokens].append(row)
    yield f"{'':40}{'types':>6}{'median':>8}{'most':>7}{'above ' + str(MOST):>12}"
    for (dtype, does, batch, tokens), of in sorted(groups.items()):
        ratios = [row.ratio for row in of]
        yield f"{f'{dtype}, {does}, {batch} x {tokens}':40}{len(of):6}{statistics.median(ratios):8.2f}{max(ratios):7.2f}{sum(x > MOST for x in ratios):12}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some types, few tokens: some minutes")
    parser.add_argument("--only", nargs="*", default=[], help="these types")
    parser.add_argument("--tokens", nargs="*", type=int, default=[], help="these numbers of tokens")
    parser.add_argument("--minutes", type=float, default=60, help="no more than so many; what is left out is said")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    hga.transformers.register()
    begun, rows = time.monotonic(), []
    for tokens in args.tokens or (QUICK if args.quick else TOKENS):
        size = Size(width=128, heads=2, tokens=tokens, window=128)
        for kind, name, model in models(size, args.only or (SOME if args.quick else ())):
            if time.monotonic() - begun > 60 * args.minutes:
                print(f"{name}, {tokens} tokens: left out, {args.minutes:g} minutes are over", flush=True)
                continue
            for row in of_model(kind, name, model, size, (1,) if args.quick else (1, 8)):
                rows.append(row)
                print(row, flush=True)
    print("\n".join(table_of(rows)))
    wrong = [row for row in rows if row.ratio > MOST or row.errs()]
    print(f"{len(rows)} measured, {len(wrong)} slower or less exact" + "".join(f"\n  {row}" for row in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
