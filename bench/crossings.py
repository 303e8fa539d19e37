"""From how much work on hga's dense attention is faster than transformers' sdpa, in one call and in whole models of two layers:

    PYTHONPATH=build/python OMP_NUM_THREADS=1 python3 bench/crossings.py [calls] [models] [biases] [--quick]

calls: hga over sdpa by processor time of one thread, in turns, for shapes, types, forward and with gradients. models: BERT and Llama
of two layers of two heads with hga at any length over sdpa, in the same way. After both, the least work (millions of products) from
which none takes more than 1.03 times as long. Calls in a loop find their memory in the caches, and in a model they do not: what
LEAST_WORK of python/hga/torch/_sdpa.py has are those of models, under HGA_ISA=avx2 with ATEN_CPU_CAPABILITY=avx2, too.
every_model.py measures what came of it. biases: T5's encoder over
sdpa and MPNet over its own attention with hga at any length, for what BY_DISTANCE of the same file has."""

import argparse
import copy
import sys
import types

import torch
import transformers
from transformers.integrations.sdpa_attention import sdpa_attention_forward

import hga.transformers
from hga.torch import _sdpa
from hga.torch._documents import numbered
from hga.torch._sdpa import LEAST_WORK, work_of
from hga.transformers._attention import attend
from turns import in_turns

SHAPES = ((4, 4, 64), (9, 3, 64), (12, 12, 64), (32, 8, 128))  # query heads, heads of keys and values, columns
TOKENS, BATCHES, TYPES = (16, 64, 128, 256, 512, 2048), (1, 8), (torch.float32, torch.bfloat16)
MOST_NUMBERS = 8 * 512 * 32 * 128  # of a tensor
MOST = 1.03
LENGTHS = (100, 130, 197, 257, 384)  # of whole models


class Layer(torch.nn.Module):
    """What attention is asked by."""

    def __init__(self, groups):
        super().__init__()
        self.num_key_value_groups, self.is_causal, self.layer_idx = groups, True, 0
        self.config = types.SimpleNamespace(layer_types=None, output_attentions=False)


def each_call(quick):
    """(type, trains, work, hga over sdpa, words) of every call."""
    for dtype in TYPES:
        for trains in (False, True):
            for heads, kv, dim in SHAPES[:1] if quick else SHAPES:
                for batch in BATCHES[:1] if quick else BATCHES:
                    for n in TOKENS[1:4] if quick else TOKENS:
                        if batch * n * heads * dim <= MOST_NUMBERS:
                            yield one_call(dtype, trains, heads, kv, dim, batch, n)


def one_call(dtype, trains, heads, kv, dim, batch, n):
    layer = Layer(heads // kv)
    q, k, v = (torch.randn(batch, h, n, dim, dtype=dtype, requires_grad=trains) for h in (heads, kv, kv))
    given, mask = torch.randn(batch, n, heads, dim, dtype=dtype), numbered(torch.ones(batch, n, dtype=torch.int64), True)

    def run(attention):
        def call():
            with torch.set_grad_enabled(trains):
                out = attention()[0]
                if trains:
                    out.backward(given)
                    q.grad = k.grad = v.grad = None

        return call

    ratio, theirs = in_turns(run(lambda: sdpa_attention_forward(layer, q, k, v, None, scaling=dim**-0.5)),
                             run(lambda: attend("hga:dense", layer, q, k, v, mask, scaling=dim**-0.5)))  # fmt: skip
    name = f"{str(dtype)[6:]} {'with gradients' if trains else 'forward'}, {batch} x {heads} x {dim} on {kv}, {n} tokens"
    return dtype != torch.float32, trains, work_of(batch, heads, n, 2 * dim), ratio, f"{name}: {ratio:.2f} of {theirs * 1e6:.0f} us"


def calls(quick):
    found = {}
    for sixteen, trains, work, ratio, words in each_call(quick):
        print(words, flush=True)
        found.setdefault((sixteen, trains), []).append((work, ratio))
    say(found, LEAST_WORK)
    return 0


def say(found, least):
    for (sixteen, trains), rows in found.items():
        slower = max((work for work, ratio in rows if ratio > MOST), default=0)
        what = f"{'16 bits' if sixteen else 'float32'} {'with gradients' if trains else 'forward'}"
        print(f"{what}: no slower above {slower:.1f} million products; the table has {least[_sdpa.SET, sixteen, trains]:.0f} for {_sdpa.SET}")


def two_models():
    """Two layers of two heads: attention is most of what they do, and little for a call."""
    more = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=192, vocab_size=90, max_position_embeddings=2100)
    torch.manual_seed(1)
    llama = transformers.LlamaModel(transformers.LlamaConfig(**more, num_key_value_heads=1, use_cache=False))
    return {"BERT": transformers.BertModel(transformers.BertConfig(**more)), "Llama": llama}


def models(quick):
    """By hga at any size."""
    hga.transformers.register()
    least = dict(_sdpa.LEAST_WORK)
    found = {}
    _sdpa.LEAST_WORK.update(dict.fromkeys(least, 0.0))
    for dtype in TYPES:
        for name, model in two_models().items():
            pair = [copy.deepcopy(model).to(dtype) for _ in range(2)]
            for one, way in zip(pair, ("sdpa", "hga")):
                one.set_attn_implementation(way)
            for trains in (False, True):
                for n in LENGTHS[:2] if quick else LENGTHS:
                    for batch in (1, 2, 4, 8):
                        ratio, words = one_model(name, pair, dtype, trains, batch, n)
                        print(words, flush=True)
                        found.setdefault((dtype != torch.float32, trains), []).append((work_of(batch, 2, n, 128), ratio))
    say(found, least)
    return 0


def one_model(name, pair, dtype, trains, batch, n):
    ids = torch.randint(4, 90, (batch, n))

    def run(model):
        def call():
            with torch.set_grad_enabled(trains):
                out = model(input_ids=ids)[0]
                if trains:
                    out.float().square().mean().backward()
                    model.zero_grad()

        return call

    ratio, theirs = in_turns(*(run(model.train(trains)) for model in pair))
    what = f"{name}, {str(dtype)[6:]}, {'a training step' if trains else 'forward'}, {batch} x {n} tokens, {work_of(batch, 2, n, 128):.0f} million products"
    return ratio, f"{what}: {ratio:.2f} of {theirs * 1e3:.2f} ms"


def biases(quick):
    _sdpa.BY_DISTANCE.update(dict.fromkeys(_sdpa.BY_DISTANCE, 2))
    hga.transformers.register()
    t5 = transformers.T5EncoderModel(transformers.T5Config(vocab_size=500)).eval()
    mpnet = transformers.MPNetModel(transformers.MPNetConfig(vocab_size=500, num_hidden_layers=2, max_position_embeddings=2050)).eval()
    of_t5, of_mpnet = copy.deepcopy(t5), hga.transformers.use(copy.deepcopy(mpnet))
    of_t5.set_attn_implementation("hga")
    for name, theirs, ours in (("T5", t5, of_t5), ("MPNet", mpnet, of_mpnet)):
        for dtype in TYPES:
            for trains in (False, True):
                for batch in BATCHES[:1] if quick else BATCHES:
                    for n in (128, 512) if quick else (96, 128, 192, 256, 512, 1024, 2048 // batch):
                        one_bias(name, theirs.to(dtype), ours.to(dtype), trains, batch, n)
    return 0


def one_bias(name, theirs, ours, trains, batch, n):
    ids = torch.randint(5, 500, (batch, n))

    def run(model):
        def call():
            with torch.set_grad_enabled(trains):
                out = model(input_ids=ids)[0]
                if trains:
                    out.sum().backward()
                    model.zero_grad()

        return call

    ratio, own = in_turns(run(theirs), run(ours))
    what = f"{name}, {str(theirs.dtype)[6:]}, {'a training step' if trains else 'forward'}, {batch} x {n} tokens"
    print(f"{what}: {ratio:.2f} of {own * 1e3:.2f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["calls", "models"], help="calls, models, biases")
    parser.add_argument("--quick", action="store_true", help="a few cases")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    return max({"calls": calls, "models": models, "biases": biases}[what](args.quick) for what in args.what)


if __name__ == "__main__":
    sys.exit(main())
