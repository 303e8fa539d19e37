"""An H-Transformer-1D layer in JAX, for models of Flax or Equinox, and its attention beside the recipe of flaxformer, from which most of
them come: where the two must agree, where they must not, and a few training steps on the Gospels.

    python3 examples/python/htransformer_jax.py [--steps 100] [--context 512] [--block 16]

A layer is a dictionary of arrays and a function of it, so that it stands in any of these libraries. `recipe` is written from the paper
and from what flaxformer's h_transformer_1d_attention computes, and shares no code with hga."""

import argparse
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import hga.jax

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gospels.txt")


# ---- flaxformer's recipe, one head ----


def pairs(x):
    """[n / 2][2][..]"""
    return x.reshape(len(x) // 2, 2, *x.shape[1:])


def levels_of(q, k, v, causal):
    """Queries, keys and values of each level: means of two (of values sums), but the first of two queries where it is causal."""
    while True:
        yield q, k, v
        q = pairs(q)[:, 0] if causal else pairs(q).mean(1)
        k, v = pairs(k).mean(1), pairs(v).sum(1)


def beside(x, block):
    """[blocks][3 block][..]: each block's left neighbour, itself and its right one; zeros where there is none."""
    blocks = x.reshape(-1, block, *x.shape[1:])
    none = jnp.zeros_like(blocks[:1])
    return jnp.concatenate([jnp.concatenate([none, blocks[:-1]]), blocks, jnp.concatenate([blocks[1:], none])], 1)


def seen(level, block, causal):
    """[block][3 block]: the pairs of a level. Above the first, those that a lower level has had are left out."""
    r, s = np.arange(block)[:, None], np.arange(3 * block)[None]
    where, s = s // block, s % block
    if level == 0:
        return (where == 0) | ((s <= r) & (where == 1)) if causal else np.ones((block, 3 * block), bool)
    left = (where == 0) & ~((r < block // 2) & (s >= block // 2))
    right = (where == 2) & ~((r >= block // 2) & (s < block // 2))
    return left if causal else left | right


def scores_of(q, k, bias, level, block, causal):
    """[blocks][block][3 block], -inf where nothing is seen."""
    blocks = len(q) // block
    types = np.arange(3 * block)[None] - block - np.arange(block)[:, None] + 2 * block - 1
    s = jnp.einsum("brd,bsd->brs", q.reshape(blocks, block, -1), beside(k, block)) + bias[types]
    there = beside(np.ones(len(q)), block)[:, None] > 0
    return jnp.where(there & seen(level, block, causal), s, -jnp.inf)


def recipe(q, k, v, bias, block, causal, range_of_softmax="row"):
    """[n][dim] of one head. range_of_softmax: "row", the largest score of each row is taken off, as exact arithmetic needs;
    "head", the largest of all rows, and a denominator below 1e-6 becomes 1, as flaxformer has it."""
    n = len(q)
    q = q / np.sqrt(q.shape[1])
    found = []
    for level, (q_l, k_l, v_l) in zip(range(max(1, int(np.log2(n // block)))), levels_of(q, k, v, causal)):
        s = scores_of(q_l, k_l, bias, level, block, causal)
        values = jnp.concatenate([beside(v_l, block), 2.0**level * jnp.ones((len(s), 3 * block, 1))], -1)
        found.append((2**level, s, values))
    most = jnp.stack([jnp.repeat(s.max(-1).reshape(-1), each) for each, s, _ in found]).max(0)
    if range_of_softmax == "head":
        most = jnp.full(n, jnp.maximum(most.max(), 0.0))
    total = 0.0
    for each, s, values in found:
        weights = jnp.exp(jnp.repeat(s.reshape(-1, 3 * block), each, 0) - most[:, None])
        total += jnp.einsum("ts,tsd->td", weights, jnp.repeat(values, block * each, 0))
    out, mass = total[:, :-1], total[:, -1:]
    return out / (jnp.where(mass <= 1e-6, 1.0, mass) if range_of_softmax == "head" else mass)


@partial(jax.jit, static_argnames=("block", "causal", "range_of_softmax"))
def recipe_of_heads(q, k, v, bias, **how):
    """[heads][n][dim], bias [types][heads]. One program for XLA, which takes longer to compile operation by operation."""
    return jax.vmap(partial(recipe, **how), (0, 0, 0, 1))(q, k, v, bias)


# ---- the layer ----


def new_layer(key, width, heads, block):
    wide, narrow, out = jax.random.split(key, 3)
    return {
        "project": jax.random.normal(wide, (width, 3 * width)) * width**-0.5,
        "out": jax.random.normal(narrow, (width, width)) * width**-0.5,
        "bias": jnp.zeros((4 * block - 1, heads)),
        "up": jax.random.normal(out, (width, 4 * width)) * width**-0.5, "down": jnp.zeros((4 * width, width)),
    }  # fmt: skip


def normal(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def layer(p, x, attend):
    """[tokens][width]; attend(q, k, v, bias) of [heads][tokens][dim]. One sample: jax.vmap maps it over a batch."""
    heads = p["bias"].shape[1]
    q, k, v = jnp.moveaxis((normal(x) @ p["project"]).reshape(len(x), 3, heads, -1), (1, 2), (0, 1))
    x = x + jnp.moveaxis(attend(q, k, v, p["bias"]), 0, 1).reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(normal(x) @ p["up"]) @ p["down"]


def attention_of_hga(h):
    return lambda q, k, v, bias: hga.jax.attention(h, q, k, v, rel_bias=bias)


# ---- beside each other ----


def apart(a, b):
    """Relative difference, in the 2-norm."""
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def drawn(n, block, heads=4, dim=16, steep=1.0, seed=0):
    keys = jax.random.split(jax.random.key(seed), 4)
    q, k, v = (jax.random.normal(key, (heads, n, dim)) for key in keys[:3])
    return q * steep, k, v, 0.5 * jax.random.normal(keys[3], (4 * block - 1, heads))


def agreement(n, block, causal):
    """How far outputs, and gradients, of hga are from the recipe's where both mean the same: whole blocks, a power of two of them."""
    x = drawn(n, block)
    attend = attention_of_hga(hga.htransformer(n, block=block, causal=causal, relative=True))
    how = dict(block=block, causal=causal)
    found, wanted = (jax.vjp(f, *x) for f in (attend, partial(recipe_of_heads, **how)))
    weight = jnp.cos(jnp.arange(found[0].size)).reshape(found[0].shape)
    return [apart(found[0], wanted[0])] + [apart(a, b) for a, b in zip(found[1](weight), wanted[1](weight))]


def steep_rows(n=64, block=8, steep=40.0):
    """Where scores are steep flaxformer's rows, whose largest score lies far below the head's, are not normalised. The share of
    rows that are wrong by more than a thousandth, of its way and of hga's."""
    x = drawn(n, block, steep=steep)
    how = dict(block=block, causal=True)
    wanted = np.asarray(recipe_of_heads(*x, **how))
    ways = {"flaxformer": recipe_of_heads(*x, **how, range_of_softmax="head"),
            "hga": attention_of_hga(hga.htransformer(n, block=block, causal=True, relative=True))(*x)}  # fmt: skip
    size = np.linalg.norm(wanted, axis=-1)
    return {name: float((np.linalg.norm(np.asarray(out) - wanted, axis=-1) > 1e-3 * size).mean()) for name, out in ways.items()}


def print_comparison():
    print("relative difference to the recipe      output     d query  d key    d value  d bias")
    for n, block, causal in ((64, 8, False), (64, 8, True), (512, 16, True)):
        words = f"{n} tokens, blocks of {block}" + (", causal" if causal else "")
        print(f"{words:38s} " + "  ".join(f"{x:.1e}" for x in agreement(n, block, causal)))
    for name, share in steep_rows().items():
        print(f"steep scores: {100 * share:.0f} % of the rows are wrong by {name}'s way")
    print("lengths: flaxformer wants a power of two of blocks, padded; hga takes 100 tokens:", hga.htransformer(100, block=16).coverage())


# ---- training ----


def model(p, text, attend):
    """[tokens][letters]: scores of the letter that follows each."""
    x = p["letter"][text]
    for one in p["layers"]:
        x = layer(one, x, attend)
    return normal(x) @ p["letter"].T


def train(steps, context, block, width=64, heads=4, layers=2, batch=4):
    text = open(TEXT, encoding="utf-8").read()
    letters = sorted(set(text))
    numbers = np.array([letters.index(c) for c in text[:200000]])
    key, *keys = jax.random.split(jax.random.key(0), layers + 1)
    p = {"letter": 0.1 * jax.random.normal(key, (len(letters), width)), "layers": [new_layer(k, width, heads, block) for k in keys]}
    attend = attention_of_hga(hga.htransformer(context, block=block, causal=True, relative=True))

    def loss(p, windows):
        scores = jax.vmap(lambda w: model(p, w[:-1], attend))(windows)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), windows[:, 1:, None], -1).mean()

    @jax.jit
    def step(p, mean, square, windows):
        """Adam's, without its correction of the first steps."""
        found, grads = jax.value_and_grad(loss)(p, windows)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, grads)
        return jax.tree.map(lambda x, m, s: x - 3e-3 * m / (jnp.sqrt(s) + 1e-6), p, mean, square), mean, square, found

    mean = square = jax.tree.map(jnp.zeros_like, p)
    draw, losses = np.random.default_rng(0), []
    for _ in range(steps):
        first = draw.integers(0, len(numbers) - context - 1, batch)
        p, mean, square, found = step(p, mean, square, np.stack([numbers[f : f + context + 1] for f in first]))
        losses.append(float(found))
    return losses


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, number in (("steps", 100), ("context", 512), ("block", 16)):
        a.add_argument(f"--{name}", type=int, default=number)
    a = a.parse_args()
    print_comparison()
    losses = train(a.steps, a.context, a.block)
    for i in range(0, len(losses), max(1, len(losses) // 5)):
        print(f"step {i:4d}  {losses[i]:.3f} nats a letter")
    print(f"step {len(losses) - 1:4d}  {losses[-1]:.3f} nats a letter")


if __name__ == "__main__":
    main()
