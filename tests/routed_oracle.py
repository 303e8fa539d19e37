"""Attention chosen by content as its definition says it, in double, token by token: which blocks are chosen, with what margin, and one
softmax over their tokens with everything that a score may have. It shares nothing with the library."""

import numpy as np

STANDARD = {"block": 64, "k": None, "threshold": None, "query_block": 1, "sinks": 1, "local": 1, "share": "head", "score": "mean",
            "sample": 4, "coarse": 0, "coarse_k": 6, "prefill": 1, "causal": False}  # fmt: skip


def settings_of(given, n):
    s = STANDARD | given
    if s["k"] is None and s["threshold"] is None:  # else one number, or one for each chooser
        s["k"] = 16
    if s["prefill"] > 1 and n > 1:
        s["query_block"] = s["prefill"]
    if s["score"] == "sample" and s["query_block"] == 1:
        s["score"] = "mean"
    return s


def cut(n, size):
    return [range(i, min(i + size, n)) for i in range(0, n, size)]


def scores_of(q, k, blocks, query_blocks, score, scale):
    """[heads][query blocks][blocks]; q [heads][n][d], k as many heads."""
    out = np.zeros((len(q), len(query_blocks), len(blocks)))
    for i, rows in enumerate(query_blocks):
        mean = q[:, list(rows)].mean(1)
        for j, tokens in enumerate(blocks):
            keys = k[:, list(tokens)]
            if score == "mean":
                out[:, i, j] = (mean * keys.mean(1)).sum(-1)
            else:
                out[:, i, j] = np.maximum(mean * keys.min(1), mean * keys.max(1)).sum(-1)
    return scale * out


def sampled_scores(q, k, blocks, query_blocks, sample, causal, scale):
    """[heads][query blocks][blocks]: the softmax weights of every `sample`-th query of each, or of its last one, summed."""
    out = np.zeros((len(q), len(query_blocks), len(blocks)))
    for i, rows in enumerate(query_blocks):
        tokens = rows[sample - 1 :: sample] if len(rows) >= sample else rows[-1:]
        for t in tokens:
            s = scale * (k[:, : t + 1 if causal else None] @ q[:, t, :, None])[..., 0]
            w = np.exp(s - s.max(1, keepdims=True))
            w /= w.sum(1, keepdims=True)
            for j, here in enumerate(blocks):
                out[:, i, j] += w[:, here.start : here.stop].sum(1)
    return out


def by_chooser(x, share, kv_heads):
    """Scores of query heads, added."""
    choosers = {"head": len(x), "group": kv_heads, "all": 1}[share]
    return x.reshape(choosers, -1, *x.shape[1:]).sum(1)


def best(scores, candidates, n):
    """The n best, ties low, and how far the next is."""
    order = sorted(candidates, key=lambda j: (-scores[j], j))
    order = [j for j in order if scores[j] > -np.inf]
    if 0 < n < len(order):
        return order[:n], abs(scores[order[n - 1]] - scores[order[n]])
    return order[: max(n, 0)], np.inf


def choose_row(s, row, coarse_row, first, last, n):
    """(chosen blocks, the margin) of tokens first .. last of n."""
    b, n_blocks = s["block"], -(-n // s["block"])
    own = set(range(first // b, last // b + 1))
    candidates = [j for j in range(n_blocks) if (j + 1) * b <= first] if s["causal"] else [j for j in range(n_blocks) if j not in own]
    before = [j for j in candidates if j < first // b]
    forced = {j for j in candidates if j < s["sinks"]} | (set(before[-s["local"] :]) if s["local"] else set())
    margin = np.inf
    if s["coarse"]:
        each, a = s["coarse"] // b, first // s["coarse"]
        opened, margin = best(coarse_row, range(a), s["coarse_k"])
        inside = {j for c in opened for j in range(c * each, (c + 1) * each)}
        near = {j for j in before if j // each in (a, a - 1)}
        candidates = sorted(forced | inside | near)
    if s["threshold"] is None:
        rest, close = best(row, [j for j in candidates if j not in forced], s["k"] - len(own | forced))
        return sorted(own | forced | set(rest)), min(margin, close)
    order = [j for j in sorted(candidates, key=lambda j: (-row[j], j)) if row[j] > -np.inf]
    if s["threshold"] == 1:
        return sorted(own | forced | set(order)), margin
    if s["score"] == "sample":
        if row[order].sum() == 0:
            return sorted(own | forced), margin
        p = row[order]
    else:
        p = np.exp(row[order] - row[order].max()) if order else np.zeros(0)
    sums = np.cumsum(p / p.sum()) if order else p
    enough = int((sums < s["threshold"]).sum()) + 1
    ties = np.diff(np.sort(row[order])) if len(order) > 1 else np.array([np.inf])
    return sorted(own | forced | set(order[:enough])), min(margin, np.abs(sums - s["threshold"]).min(initial=np.inf), ties.min())


def choose(q, k, given=None, scale=None, scores=None):
    """One sample, q [heads][n][d], k [kv heads][n][d]: ([choosers][query blocks] lists of blocks, margins of the same shape)."""
    n = q.shape[1]
    s = settings_of(given or {}, n)
    scale = q.shape[2] ** -0.5 if scale is None else scale
    wide = np.repeat(k, len(q) // len(k), 0)
    rows = cut(n, s["query_block"])
    coarse = None
    if s["score"] == "sample":
        each = sampled_scores(q, wide, cut(n, s["block"]), rows, s["sample"], s["causal"], scale)
        scores = by_chooser(each, s["share"], len(k))
    elif s["score"] != "given":
        scores = by_chooser(scores_of(q, wide, cut(n, s["block"]), rows, s["score"], scale), s["share"], len(k))
    if s["coarse"]:
        coarse = by_chooser(scores_of(q, wide, cut(n, s["coarse"]), rows, s["score"], scale), s["share"], len(k))
    own = [s | {"k": s["k"] if s["k"] is None else np.broadcast_to(s["k"], len(scores))[c]} for c in range(len(scores))]
    picked = [[choose_row(own[c], x[i], None if coarse is None else coarse[c][i], t[0], t[-1], n) for i, t in enumerate(rows)] for c, x in enumerate(scores)]
    return [[p[0] for p in row] for row in picked], np.array([[p[1] for p in row] for row in picked])


def seen_by(choice, given, heads, n):
    """[heads][n][n]: who sees whom."""
    s = settings_of(given, n)
    seen = np.zeros((heads, n, n), bool)
    for h in range(heads):
        rows = choice[h * len(choice) // heads]
        for t in range(n):
            for j in rows[t // s["query_block"]]:
                if j >= 0:
                    seen[h, t, j * s["block"] : (j + 1) * s["block"]] = True
    return seen & np.tri(n, dtype=bool) if s["causal"] else seen


def philox(seed, counter):
    """Philox4x32-10 of counters [..][4]."""
    x, mask = [np.asarray(c, np.uint64) for c in counter], np.uint64(0xFFFFFFFF)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        x = [(b >> np.uint64(32)) ^ x[1] ^ np.uint64(key[0]), b & mask, (a >> np.uint64(32)) ^ x[3] ^ np.uint64(key[1]), a & mask]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def kept(heads, n, p, seed, layer=0, type_=0):
    """[heads][n][n]: what dropout multiplies weights with."""
    out = np.zeros((heads, n, n))
    t, u = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    for h in range(heads):
        words = philox(seed, (t, u, np.full_like(t, type_), np.full_like(t, layer << 8 | h // 8)))
        draw = words[h % 8 // 2] >> np.uint64(16 * (h % 2)) & np.uint64(0xFFFF)
        out[h] = np.where(draw < round(p * 65536), 0, 1 / (1 - p))
    return out


def entmax(s, alpha):
    low, high = (alpha - 1) * s.max() - 1, (alpha - 1) * s.max()
    for _ in range(80):
        middle = (low + high) / 2
        full = np.maximum((alpha - 1) * s - middle, 0) ** (1 / (alpha - 1))
        low, high = (low, middle) if full.sum() < 1 else (middle, high)
    p = np.maximum((alpha - 1) * s - low, 0) ** (1 / (alpha - 1))
    return p / p.sum()


def attend(q, k, v, seen, scale=None, softcap=0, sink=None, slopes=None, rel_key=None, rel_bias=None, normaliser="softmax", number=0, dropout=None):
    """(out [heads][n][dv], lse [heads][n], weights before dropout [heads][n][n])."""
    heads, n, dim = q.shape
    k, v = (np.repeat(x, heads // len(x), 0) for x in (k, v))
    k = k if rel_key is None else k + rel_key[0]
    s = (dim**-0.5 if scale is None else scale) * q @ k.transpose(0, 2, 1)
    s = softcap * np.tanh(s / softcap) if softcap else s
    if slopes is not None:
        t = np.arange(n)
        s = s - slopes[:, None, None] * np.abs(t[:, None] - t)
    if rel_bias is not None:
        s = s + rel_bias[0][:, None, None]
    s = np.where(seen, s, -np.inf)
    lse = np.full((heads, n), np.nan)
    if normaliser == "sigmoid":
        p = np.where(seen, 1 / (1 + np.exp(-(np.where(seen, s, 0) + number))), 0)
    elif normaliser == "entmax":
        p = np.zeros_like(s)
        for h in range(heads):
            for t in range(n):
                p[h, t, seen[h, t]] = entmax(s[h, t, seen[h, t]], number)
    else:
        lse = np.logaddexp.reduce(s, -1)
        if sink is not None:
            lse = np.logaddexp(lse, sink[:, None])
        p = np.exp(s - lse[..., None])
    return (p if dropout is None else p * dropout) @ v, lse, p


def block_weights(p, choice, given):
    """[heads][n][slots]: of each chosen block."""
    heads, n, _ = p.shape
    s = settings_of(given, n)
    slots = max(len(x) for row in choice for x in row)
    out = np.zeros((heads, n, slots))
    for h in range(heads):
        for t in range(n):
            for i, j in enumerate(choice[h * len(choice) // heads][t // s["query_block"]]):
                if j >= 0:
                    out[h, t, i] = p[h, t, j * s["block"] : (j + 1) * s["block"]].sum()
    return out
