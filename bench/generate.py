"""Tokens a second of transformers' generate(): a stock Llama with its own attention and cache (sdpa) beside hga's, the same weights
and prompt in one process, in turns.

    python3 bench/generate.py [--context 4096] [--new 48] [--layers 2] [--heads 8] [--dim 64] [--threads 1] [--turns 3]
                              [--attention hga:window:left=256,..] [--json RUN.json]

A time is the median of processor time between two tokens; the first two of a turn are left out. Weights are random: their text
means nothing, and takes as long."""

import argparse
import json
import statistics
import time

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

import hga.transformers

ATTENTION = "hga:window:left=256,hga:htransformer:block=16,hga:hsa:branching=4,4,4,hga:fenwick,hga:dense"


class Clock(BaseStreamer):
    """When each token came."""

    def __init__(self):
        self.times = []

    def put(self, value):
        self.times.append(time.process_time())

    def end(self):
        pass


def model_of(a):
    torch.manual_seed(0)
    width = a.heads * a.dim
    config = transformers.LlamaConfig(hidden_size=width, num_hidden_layers=a.layers, num_attention_heads=a.heads, intermediate_size=8 * width // 3,
                                      vocab_size=1000, max_position_embeddings=a.context + a.new)  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def turn(model, name, prompt, new):
    """Seconds between tokens."""
    model.set_attn_implementation(name)
    clock = Clock()
    model.generate(prompt, attention_mask=torch.ones_like(prompt), streamer=clock, max_new_tokens=new, do_sample=False, pad_token_id=0, eos_token_id=None)
    return [b - a for a, b in zip(clock.times[2:], clock.times[3:])]


def names_of(text):
    """Names with commas between them, and in them."""
    first, *others = text.split("hga:")
    return [x.strip(",") for x in first.split(",") if x] + ["hga:" + x.strip(",") for x in others]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default in dict(context=4096, new=48, layers=2, heads=8, dim=64, threads=1, turns=3).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--attention", default=ATTENTION)
    parser.add_argument("--json")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    transformers.utils.logging.set_verbosity_error()
    hga.transformers.register()
    model, names = model_of(a), ["sdpa"] + names_of(a.attention)
    prompt, times = torch.randint(0, 1000, (1, a.context)), {name: [] for name in names}
    for _ in range(a.turns):
        for name in names:
            times[name] += turn(model, name, prompt, a.new)
    seconds = {name: statistics.median(t) for name, t in times.items()}
    print(f"{a.layers} layers of {a.heads} x {a.dim}, {a.context} tokens of context, {a.threads} threads")
    print(f"{'attention':40} {'ms a token':>10} {'tokens/s':>9} {'over sdpa':>9}")
    for name, s in seconds.items():
        print(f"{name:40} {1e3 * s:10.2f} {1 / s:9.0f} {seconds['sdpa'] / s:9.2f}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, **{k: v for k, v in vars(a).items() if k != "json"}, "seconds_a_token": seconds}, file, indent=1)


if __name__ == "__main__":
    main()
