"""Native Sparse Attention (Yuan et al. 2025) as three calls of hga and a sum: compressed spans, blocks that content chooses, a window.

    python3 examples/python/nsa.py [--tokens 2048] [--heads 16] [--kv-heads 2]

Each branch has gates of the caller's. Compressed spans of ``span`` tokens begin every ``stride`` tokens; their keys and values are means
here, and may be anything that is learned. What spans weigh says which blocks of ``block`` tokens matter: the query heads of a key/value
head choose ``k`` of them together, the first and a token's own among them. Prints how far outputs are from the definition in double,
and processor time beside dense attention's. Gradients go through all three branches; the choice is held."""

import argparse
import functools
import time

import torch

import hga
import hga.torch


@functools.lru_cache(maxsize=8)
def spans_before(n, span, stride):
    """A token sees the spans that end with it or before it."""
    first = torch.arange(0, n - span + 1, stride)
    return hga.Graph.from_mask(first[None] + span - 1 <= torch.arange(n)[:, None], cross=True).hierarchy()


def pooled(x, span, stride):
    """[.., n, dim] -> [.., spans, dim]: means."""
    return x.unfold(-2, span, stride).mean(-1)


def importance(q, k, lse, n, span, stride, block):
    """[key/value heads][n][blocks]: what the spans that overlap a block weigh, each as often as it does, over a group's heads."""
    share, scale = q.shape[0] // k.shape[0], q.shape[-1] ** -0.5
    p = torch.exp(scale * q @ k.repeat_interleave(share, 0).mT - lse[..., None])
    end = torch.arange(k.shape[1]) * stride + span - 1
    p = torch.where(end <= torch.arange(n)[:, None], p, 0).unflatten(0, (-1, share)).sum(1)
    found = p.new_zeros(*p.shape[:2], -(-n // block))
    for m in range(block // stride):
        for o in range(span // stride):
            i = block // stride * torch.arange(found.shape[-1]) + m - o
            there = (i >= 0) & (i < p.shape[-1])
            found[..., there] += p[..., i[there]]
    return found


def nsa(q, k, v, gates, *, span=32, stride=16, block=64, chosen=8, window=256):
    """q [heads, n, dim], k and v [key/value heads, n, dim], gates [3, heads, n]."""
    n, kc, vc = q.shape[1], pooled(k, span, stride), pooled(v, span, stride)
    compressed, lse = spans_before(n, span, stride).attention(q, kc, vc, lse=True)
    with torch.no_grad():
        scores = importance(q, kc, lse, n, span, stride, block)
    select = hga.routed(block=block, k=chosen, sinks=1, local=0, share="group", score="given", causal=True)
    selected = select.attention(q, k, v, block_scores=scores)
    near = hga.window(n, left=window - 1, right=0).attention(q, k, v)
    return sum(g[..., None] * x for g, x in zip(gates, (compressed, selected, near)))


def by_definition(q, k, v, gates, *, span=32, stride=16, block=64, chosen=8, window=256):
    """The same in double, pair by pair, as equations (5) to (12) have it, with blocks and spans counted from 0."""
    q, k, v, gates = (x.double() for x in (q, k, v, gates))
    n, share, scale = q.shape[1], q.shape[0] // k.shape[0], q.shape[-1] ** -0.5
    t = torch.arange(n)

    def branch(keys, values, seen):
        s = (scale * q @ keys.repeat_interleave(share, 0).mT).masked_fill(~seen, -torch.inf)
        p = torch.softmax(s, -1).nan_to_num()  # a row without a key is 0
        return p @ values.repeat_interleave(share, 0), p

    spans = range((n - span) // stride + 1)
    kc, vc = (torch.stack([x[:, i * stride : i * stride + span].mean(1) for i in spans], 1) for x in (k, v))
    compressed, p = branch(kc, vc, torch.tensor([i * stride + span - 1 for i in spans]) <= t[:, None])
    blocks = -(-n // block)
    weight = q.new_zeros(len(k), n, blocks)
    for j in range(blocks):
        for m in range(block // stride):
            for o in range(span // stride):
                i = block // stride * j + m - o
                if 0 <= i < len(spans):
                    weight[:, :, j] += p[:, :, i].unflatten(0, (-1, share)).sum(1)
    own = t[:, None] // block
    can, must = torch.arange(blocks) <= own, (torch.arange(blocks) == own) | (torch.arange(blocks) == 0)
    rank = torch.where(can, weight + 1e9 * must, -torch.inf)
    order = torch.argsort(rank, dim=-1, descending=True, stable=True)[..., :chosen]
    keep = torch.zeros_like(rank, dtype=torch.bool).scatter(-1, order, True) & can
    seen = keep.repeat_interleave(share, 0)[:, :, t // block] & (t <= t[:, None])
    selected, _ = branch(k, v, seen)
    near, _ = branch(k, v, (t <= t[:, None]) & (t[:, None] - t < window))
    return sum(g[..., None] * x for g, x in zip(gates, (compressed, selected, near)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, standard in (("tokens", 2048), ("heads", 16), ("kv-heads", 2), ("dim", 64)):
        parser.add_argument(f"--{name}", type=int, default=standard)
    a = parser.parse_args()
    torch.manual_seed(1)
    q, k, v = (torch.randn(heads, a.tokens, a.dim) for heads in (a.heads, a.kv_heads, a.kv_heads))
    gates = torch.sigmoid(torch.randn(3, a.heads, a.tokens))
    inputs = [x.requires_grad_() for x in (q, k, v, gates)]
    few = [x[:, : min(a.tokens, 512)] if x.dim() == 3 and x is not gates else x for x in inputs]
    few[3] = gates[:, :, : min(a.tokens, 512)]
    out, want = nsa(*few), by_definition(*few)
    grads, wanted = (torch.autograd.grad(x.square().sum(), inputs) for x in (out, want))
    print(f"output {(out - want).abs().max():.1e}, gradients {max(float((x - y).abs().max() / y.abs().max()) for x, y in zip(grads, wanted)):.1e} from the definition")
    for name, run in (("NSA", lambda: nsa(*inputs)), ("dense", lambda: hga.dense(a.tokens, causal=True).attention(q, k, v))):
        start = time.process_time()
        run().sum().backward()
        print(f"{name}: {time.process_time() - start:.2f} s forward and backward, {a.tokens} tokens")


if __name__ == "__main__":
    main()
