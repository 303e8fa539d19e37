"""A whole layer of a Llama's shape (2048 columns, 32 query heads on 8 of 64, 8192 inside) over a long prompt, in bfloat16, through
transformers: seconds of one thread by sdpa and by hga's attentions, and how many times as fast these are. Weights and tokens are random.

    python3 bench/llama_layer.py [--tokens 16384] [--words routed:block=64:k=16:prefill=16,dense] [--repetitions 1] [--cache]

--cache: as generate() takes a prompt, into an hga.transformers.Cache; sdpa has transformers' own. A row with no attention says what the rest takes."""

import argparse
import sys
import time

WORDS = "routed:block=64:k=16:prefill=16,routed:block=64:k=16:prefill=64,dense"


def layer(tf, torch, words):
    torch.manual_seed(1)
    config = tf.LlamaConfig(vocab_size=512, hidden_size=2048, intermediate_size=8192, num_hidden_layers=1, num_attention_heads=32,
                            num_key_value_heads=8, max_position_embeddings=1 << 20, attn_implementation=words)  # fmt: skip
    return tf.LlamaModel(config).to(torch.bfloat16).eval()


def seconds(torch, model, ids, repetitions, cache):
    found = []
    with torch.no_grad():
        model(ids[:, :256], use_cache=False)
        for _ in range(repetitions):
            more = cache() if cache else {"use_cache": False}
            start = time.process_time()
            model(ids, **more)
            found.append(time.process_time() - start)
    return min(found)


def nothing(module, query, key, value, *more, **others):
    return query.transpose(1, 2), None


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--tokens", type=int, default=16384)
    a.add_argument("--words", default=WORDS, help="hga's, with commas between them")
    a.add_argument("--repetitions", type=int, default=1)
    a.add_argument("--cache", action="store_true")
    a = a.parse_args()
    try:
        import torch
        import transformers as tf

        import hga.transformers
        from hga._core.releases import cache_argument
    except ImportError as e:
        sys.exit(f"torch and transformers are needed: {e}")
    torch.set_num_threads(1)
    hga.transformers.register()
    hga.transformers.add("hga:none", nothing)
    ids = torch.randint(512, (1, a.tokens), generator=torch.Generator().manual_seed(2))
    name = cache_argument()
    print("| attention | tokens | s a layer | times sdpa's speed |\n|---|---|---|---|", flush=True)
    first = None
    for words in ["sdpa", *(f"hga:{w}" for w in a.words.split(",")), "hga:none"]:
        cache = (lambda w=words: {name: hga.transformers.Cache(a.tokens) if w != "sdpa" else None, "use_cache": True}) if a.cache and words != "hga:none" else None
        took = seconds(torch, layer(tf, torch, words), ids, a.repetitions, cache)
        first = first or took
        print(f"| {words} | {a.tokens} | {took:.2f} | {first / took:.2f} |", flush=True)


if __name__ == "__main__":
    main()
