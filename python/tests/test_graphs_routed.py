"""Blocks that content chooses are those of the definition, written in double; outputs and gradients are those of dense
attention over the chosen pairs."""

import itertools
import os
import pickle
import random
import sys
import unittest

import hga
import numpy as np
from hga._core.precision import multiplies_pairs
from shared import ROOT, attention, losses_of, needs, refused, torch

sys.path.append(str(ROOT / "tests"))
import routed_oracle as oracle  # noqa: E402

N, HEADS, KV, DIM, BLOCK = 150, 4, 2, 16, 16


def tensors(seed=1, heads=HEADS, kv=KV, n=N):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((h, n, DIM)).astype(np.float32) for h in (heads, kv, kv)]


def blocks_of(x, size):
    return [x[:, i : i + size].mean(1) for i in range(0, x.shape[1], size)]


def scores(q, k, settings):
    """[choosers][query blocks][blocks], in double."""
    q, k = q.astype(np.float64), np.repeat(k.astype(np.float64), HEADS // KV, 0)
    blocks = [slice(j, j + BLOCK) for j in range(0, N, BLOCK)]
    if settings.get("score") == "minmax":
        bound = [np.maximum(q * k[:, None, b].max(2), q * k[:, None, b].min(2)).sum(-1) for b in blocks]
        each = np.stack(bound, -1)
    elif settings.get("score") == "sample":
        tokens = oracle.cut(N, settings["query_block"])
        each = oracle.sampled_scores(q, k, oracle.cut(N, BLOCK), tokens, settings.get("sample", 4), settings.get("causal"), 1 / np.sqrt(DIM)) * np.sqrt(DIM)
    else:
        means = np.stack([k[:, b].mean(1) for b in blocks], 1)
        rows = np.stack(blocks_of(q, settings.get("query_block", 1)), 1)
        each = rows @ means.transpose(0, 2, 1)
    each = each / np.sqrt(DIM)
    share = settings.get("share", "head")
    return each if share == "head" else each.reshape((KV if share == "group" else 1, -1) + each.shape[1:]).sum(1)


def chosen(row, first, last, settings):
    """The blocks of a query block of tokens first .. last, and whether that depends on little."""
    causal, n = settings.get("causal", False), len(row)
    own = set(range(first // BLOCK, last // BLOCK + 1))
    candidates = [j for j in range(n) if ((j + 1) * BLOCK <= first if causal else j not in own)]
    before = [j for j in candidates if j < first // BLOCK]
    forced = own | {j for j in candidates if j < settings.get("sinks", 1)} | set(before[len(before) - settings.get("local", 1) :])
    ranked = sorted(candidates, key=lambda j: (-row[j], j))
    rest = [j for j in ranked if j not in forced]
    if settings.get("threshold") is None:
        places = max(0, settings.get("k", 16) - len(forced))
        close = 0 < places < len(rest) and row[rest[places - 1]] - row[rest[places]] < 1e-4
        return sorted(forced | set(rest[:places])), close
    p = np.exp(row[ranked] - row[ranked].max()) if ranked and settings.get("score") != "sample" else row[ranked]
    total = np.cumsum(p / p.sum()) if ranked else p
    enough = int(np.searchsorted(total, settings["threshold"])) + 1
    close = bool(len(total)) and np.abs(total - settings["threshold"]).min() < 1e-5
    return sorted(forced | set(ranked[:enough])), close


def pairs(table, settings):
    """[heads][n][n]: who sees whom."""
    seen = np.zeros((HEADS, N, N), bool)
    for h, t in itertools.product(range(HEADS), range(N)):
        for j in table[h * len(table) // HEADS, t // settings.get("query_block", 1)]:
            seen[h, t, j * BLOCK : (j + 1) * BLOCK] |= j >= 0
    return seen & np.tri(N, dtype=bool) if settings.get("causal") else seen


SETTINGS = [
    {"block": BLOCK, "causal": causal, "share": share, **more}
    for causal in (False, True)
    for share in ("head", "group", "all")
    for more in ({"k": 5}, {"k": 4, "query_block": 16, "sinks": 2}, {"threshold": 0.6, "query_block": 4, "local": 0}, {"k": 6, "score": "minmax"},
                 {"k": 5, "score": "sample", "query_block": 16}, {"threshold": 0.7, "score": "sample", "query_block": 6, "sample": 3, "local": 0})
]


class Routed(unittest.TestCase):
    def test_what_needs_an_input_is_told_where_it_is(self):
        h = hga.routed(64, block=8, k=2)
        with self.assertRaisesRegex(AttributeError, r"ChosenHierarchy has no coverage before it sees an input; .*h\.hierarchy\(q, k\)\.coverage"):
            h.coverage()
        with self.assertRaisesRegex(AttributeError, "ChosenHierarchy has no colour$"):
            h.colour
        self.assertFalse(hasattr(h, "coverage"))

    def test_choices_are_those_of_the_definition(self):
        q, k, _ = tensors()
        compared = rows = 0
        for settings in SETTINGS:
            h, step = hga.routed(N, **settings), settings.get("query_block", 1)
            table, want = h.choice(q, k), scores(q, k, settings)
            self.assertEqual(table.shape[:2], want.shape[:2])
            for c, i in itertools.product(range(len(table)), range(len(table[0]))):
                blocks, close = chosen(want[c, i], i * step, min((i + 1) * step, N) - 1, settings)
                rows += 1
                if not close:
                    compared += 1
                    self.assertEqual([j for j in table[c, i] if j >= 0], blocks, (settings, c, i))
        self.assertGreater(compared, 0.9 * rows)

    def test_outputs_are_those_of_the_chosen_pairs(self):
        q, k, v = tensors(2)
        for settings in SETTINGS:
            h = hga.routed(**settings)
            want = attention(q, k, v, pairs(h.choice(q, k), settings))
            np.testing.assert_allclose(h.attention(q, k, v), want, rtol=0, atol=3e-6, err_msg=str(settings))

    def test_samples_choose_for_themselves_and_layouts_agree(self):
        q, k, v = (np.stack([a, b]) for a, b in zip(tensors(3), tensors(4)))
        h = hga.routed(block=BLOCK, k=4, causal=True)
        out = h.attention(q, k, v)
        for i in range(2):
            np.testing.assert_array_equal(out[i], h.attention(q[i], k[i], v[i]))
        turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
        np.testing.assert_array_equal(h.attention(*turned, layout="bnhd").transpose(0, 2, 1, 3), out)

    def test_limits_are_dense_and_segments(self):
        q, k, v = tensors(5)
        for causal in (False, True):
            want = hga.dense(N, causal=causal).attention(q, k, v)
            for more in ({"k": 99}, {"threshold": 1.0}):
                np.testing.assert_allclose(hga.routed(block=BLOCK, causal=causal, **more).attention(q, k, v), want, rtol=0, atol=3e-6)
            alone = hga.routed(block=BLOCK, causal=causal, k=1, sinks=0, local=0)
            want = hga.segments(query_segment=np.arange(N) // BLOCK, causal=causal).attention(q, k, v)
            np.testing.assert_allclose(alone.attention(q, k, v), want, rtol=0, atol=3e-6)

    def test_later_tokens_change_no_earlier_row(self):
        q, k, v = tensors(6)
        h = hga.routed(block=BLOCK, k=4, causal=True)
        before, table = h.attention(q, k, v), h.choice(q, k)
        for x in (q, k, v):
            x[:, 100:] = -2 * x[:, 100:] + 1
        np.testing.assert_array_equal(h.choice(q, k)[:, :100], table[:, :100])
        np.testing.assert_allclose(h.attention(q, k, v)[:, :100], before[:, :100], rtol=0, atol=2e-6)

    def test_the_scale_is_that_of_the_call(self):
        q, k, v = tensors(7)
        h = hga.routed(block=BLOCK, threshold=0.5)
        self.assertFalse(np.array_equal(h.choice(q, k, scale=2.0)[..., :3], h.choice(q, k, scale=0.1)[..., :3]))
        want = h.hierarchy(q, k, scale=2.0).attention(q, k, v, scale=2.0)
        np.testing.assert_array_equal(h.attention(q, k, v, scale=2.0), want)

    def test_it_is_a_value(self):
        h = hga.routed(N, block=8, threshold=0.9)
        self.assertEqual(pickle.loads(pickle.dumps(h)), h)
        self.assertEqual(hash(h), hash(hga.routed(N, block=8, threshold=0.9)))
        self.assertNotEqual(h, hga.routed(N, block=8))
        self.assertEqual(repr(hga.routed(block=8)), "routed block=8 k=16 query-block=1 sinks=1 local=1 share=head score=mean sample=4 coarse=0 coarse-k=6 prefill=1 causal=0")

    def test_what_cannot_be_chosen_is_named(self):
        q, k, v = tensors(8)
        for says, wrong in (
            ("k=3 and threshold=0.5: blocks are chosen by one of them", {"k": 3, "threshold": 0.5}),
            ("share is 'heads', not one of head, group, all: did you mean 'head'", {"share": "heads"}),
            ("threshold is 1.5; it must be above 0 and at most 1", {"threshold": 1.5}),
            ("threshold is 0; it must be above 0 and at most 1", {"threshold": 0}),
            ("minmax bounds the products of one query, and query_block or prefill is 4", {"score": "minmax", "query_block": 4}),
            ("one query, and query_block or prefill is 8", {"score": "minmax", "prefill": 8, "causal": True}),
            ("choose for themselves; query_block or prefill is 2", {"block": 4, "coarse": 8, "prefill": 2, "causal": True}),
            ("score sample is of query blocks; query_block or prefill must be above 1, and they are 1", {"score": "sample"}),
            ("sample is 4; it must be at most query_block or prefill, 3", {"score": "sample", "query_block": 3}),
            ("sample is 9; it must be at most query_block or prefill, 8", {"score": "sample", "prefill": 8, "sample": 9}),
            ("sample: 0 is not in 1 .. 2147483647", {"score": "sample", "prefill": 8, "sample": 0}),
            ("choose for themselves; query_block or prefill is 4", {"score": "sample", "block": 4, "coarse": 8, "prefill": 4, "causal": True}),
            ("score is 'samples', not one of mean, minmax, given, sample: did you mean 'sample'", {"score": "samples"}),
            ("query has 150 rows, the hierarchy has 149", {"n_tokens": 149}),
            ("block: 0 is not in 1 .. 2147483647", {"block": 0}),
            ("k is 1099511627776; it must be less than 2147483648", {"k": 2**40}),
        ):
            with self.assertRaises(hga.Error, msg=says) as caught:
                hga.routed(**wrong).attention(q, k, v)
            self.assertIn(says, str(caught.exception))
        for says, given in (("query has shape (1, 4, 150, 16): a choice is of one sample", (q[None], k[None])), ("layout 'hnd' is neither", (q, k, "hnd"))):
            with self.assertRaises(hga.Error, msg=says) as caught:
                hga.routed(N).hierarchy(*given)
            self.assertIn(says, str(caught.exception))
        q[1, 40, 3] = np.nan
        with self.assertRaisesRegex(hga.Error, "query block 40, chooser 1, is not a number"):
            hga.routed(N, block=BLOCK).attention(q, k, v)


HOW = (dict(k=3), dict(threshold=0.6), dict(k=4, score="minmax"), dict(k=5, coarse=32, coarse_k=2))


def appended(cache, q, k, v, chunks):
    """Rows of the output, chunk after chunk."""
    at = np.cumsum([0, *chunks])
    return np.concatenate([cache.append(q[:, a:b], k[:, a:b], v[:, a:b]) for a, b in zip(at, at[1:])], 1)


class Decoders(unittest.TestCase):
    """Tokens choose when they come."""

    def decoder(self, h, **more):
        return h.decoder(heads=HEADS, kv_heads=KV, dim=DIM, **more)

    def test_rows_have_the_bits_of_attention(self):
        rng = np.random.default_rng(5)
        for i, (share, more) in enumerate(itertools.product(("head", "group", "all"), HOW)):
            h = hga.routed(N, block=BLOCK, share=share, causal=True, **more)
            q, k, v = tensors(i)
            for precision in ("f32", "bf16"):
                d = self.decoder(h, same=True, rollback=20, precision=precision)
                want = h.attention(q, k, v, precision=precision)
                cuts = np.sort(rng.choice(np.arange(1, N), 5, replace=False))
                np.testing.assert_array_equal(appended(d.cache(), q, k, v, np.diff([0, *cuts, N])), want)
                cache = d.cache()
                appended(cache, q, k, v, [N - 30])
                fork = cache.fork()
                fork.cut(N - 45)
                rest = [x[:, N - 45 :] for x in (q, k, v)]
                np.testing.assert_array_equal(appended(fork, *rest, [1] * 45), want[:, N - 45 :])

    def test_a_prompt_chooses_by_query_blocks_and_single_tokens_do_not(self):
        q, k, v = tensors(3)
        own, by_16 = hga.routed(N, block=BLOCK, k=3, causal=True), hga.routed(N - 20, block=BLOCK, k=3, query_block=16, causal=True)
        found = appended(self.decoder(hga.routed(N, block=BLOCK, k=3, prefill=16, causal=True), same=True).cache(), q, k, v, [N - 20] + [1] * 20)
        whole = [x[:, : N - 20] for x in (q, k, v)]
        np.testing.assert_allclose(found[:, : N - 20], by_16.attention(*whole), rtol=0, atol=2e-6)
        np.testing.assert_array_equal(found[:, N - 20 :], own.attention(q, k, v)[:, N - 20 :])

    @needs("torch")
    def test_tensors_of_16_bits_have_the_bits_of_attention(self):
        h = hga.routed(N, block=BLOCK, k=3, causal=True)
        q, k, v = (torch.tensor(x).bfloat16() for x in tensors(4))
        for page_type in ("f32", "bf16"):
            cache = self.decoder(h, same=True, row_type="bf16", page_type=page_type).cache()
            found = torch.cat([cache.append(*(x[:, i : i + 10] for x in (q, k, v))) for i in range(0, N, 10)], 1)
            self.assertTrue(torch.equal(found, h.attention(q, k, v)))

    def test_a_prompt_samples_and_single_tokens_choose_by_means(self):
        q, k, v = tensors(5)
        sampled = dict(block=BLOCK, k=4, score="sample", sample=3, causal=True)
        own, by_8 = hga.routed(N, block=BLOCK, k=4, causal=True), hga.routed(N - 20, query_block=8, **sampled)
        h = hga.routed(N, prefill=8, **sampled)
        whole = [x[:, : N - 20] for x in (q, k, v)]
        for prompt in ([N - 20], [64, N - 84]):
            found = appended(self.decoder(h, same=True).cache(), q, k, v, prompt + [1] * 20)
            np.testing.assert_allclose(found[:, : N - 20], by_8.attention(*whole), rtol=0, atol=2e-6)
            np.testing.assert_array_equal(found[:, N - 20 :], own.attention(q, k, v)[:, N - 20 :])
        one = [x[:, :1] for x in (q, k, v)]
        np.testing.assert_array_equal(hga.routed(prefill=8, **sampled).attention(*one), hga.routed(block=BLOCK, k=4, causal=True).attention(*one))

    def test_sigmoids_have_the_bits_of_attention(self):
        h, x = hga.routed(N, block=BLOCK, k=3, causal=True), tensors(4)
        cache = self.decoder(h, same=True, normaliser="sigmoid:-2").cache()
        found = np.concatenate([cache.append(*(a[:, i : i + 1] for a in x)) for i in range(N)], 1)
        np.testing.assert_array_equal(found, h.attention(*x, normaliser="sigmoid:-2"))

    def test_what_cannot_be_decoded_is_named(self):
        for says, h, more in (
            ("n_tokens=None: a decoder is of one text of at most so many tokens", hga.routed(causal=True), {}),
            ("choose among those before: causal is 0", hga.routed(N), {}),
            ("query_block or prefill must be above 1", hga.routed(N, score="sample", causal=True), {}),
            ("sample is 4; it must be at most query_block or prefill, 2", hga.routed(N, score="sample", prefill=2, causal=True), {}),
            ("tokens of query_block 16 choose by later ones", hga.routed(N, query_block=16, causal=True), {}),
            ("not by given ones", hga.routed(N, score="given", causal=True), {}),
            ("weights depend on all scores of a row", hga.routed(N, causal=True), {"normaliser": "entmax:1.5"}),
            ("no edge_bias=", hga.routed(N, causal=True), {"edge_bias": np.zeros(3, np.float32)}),
        ):  # fmt: skip
            with self.subTest(says), self.assertRaisesRegex((hga.Error, TypeError), says):
                self.decoder(h, **more)


def drawn(seed):
    """Settings, tensors [heads][n][dim], and what the call has, by a seed."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    lengths = [r.choice((1, 2, 7, 16, 33, 50)) for _ in range(r.choice((1, 1, 2, 3)))]
    b, kv = r.choice((1, 3, 4, 8, 16)), r.choice((1, 2, 3))
    heads, dim = kv * r.choice((1, 2, 4)), r.choice((4, 8, 16))
    s = {"block": b, "causal": r.random() < 0.6, "share": r.choice(("head", "group", "all"))}
    s |= {"threshold": r.choice((0.3, 0.7, 0.9, 1.0))} if r.random() < 0.35 else {"k": r.randint(1, 7)}
    s |= {"sinks": r.randint(0, 2), "local": r.randint(0, 2)} if r.random() < 0.5 else {}
    s |= r.choice(({}, {}, {"query_block": r.choice((2, 5, 16))}, {"prefill": r.choice((2, 16))}, {"score": "minmax"}, {"score": "given"}))
    if max(s.get("query_block", 1), s.get("prefill", 1)) > 1 and r.random() < 0.6:
        s |= {"score": "sample", "sample": r.randint(1, max(s.get("query_block", 1), s.get("prefill", 1)))}
    if s["causal"] and r.random() < 0.4 and not s.keys() & {"query_block", "prefill"} and s.get("score") != "given":
        s |= {"coarse": b * r.choice((1, 2, 3)), "coarse_k": r.randint(1, 3)}
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    q, k, v = normal(heads, sum(lengths), dim), normal(kv, sum(lengths), dim), normal(kv, sum(lengths), 8)
    if "k" in s and r.random() < 0.4:
        s["k"] = [r.choice((1, 2, 3, 5, 7, 99)) for _ in range({"head": heads, "group": kv, "all": 1}[s["share"]])]
    more = r.choice(({}, {"normaliser": "sigmoid:-1"}, {"normaliser": "entmax:1.5"}, {"sink": normal(heads)}))
    for name, x in (("slopes", np.abs(normal(heads)) / 8), ("rel_key", normal(1, dim)), ("rel_bias", normal(1, heads)), ("softcap", 3.0), ("scale", 0.5)):
        more = more | {name: x} if r.random() < 0.25 else more
    more = more | {"dropout": 0.25, "seed": 11, "layer": 3} if r.random() < 0.3 else more
    scores = None
    if s.get("score") == "given":
        choosers = {"head": heads, "group": kv, "all": 1}[s["share"]]
        scores = normal(choosers, sum(lengths), max(-(-n // b) for n in lengths))
        scores[rng.random(scores.shape) < 0.1] = -np.inf
    return lengths, s, (q, k, v), more, scores, r.choice(("bhnd", "bnhd"))


def by_definition(lengths, s, q, k, v, more, scores, choice, held=False):
    """Outputs and weights of blocks of what was chosen; None where choices are not those of the definition and their margin is safe,
    if the choice is not held."""
    s = s | ({"query_block": s["prefill"], "prefill": 1} if s.get("prefill", 1) > 1 and sum(lengths) > 1 else {})
    named = {n: x for n, x in more.items() if n in ("slopes", "rel_key", "rel_bias", "softcap", "scale", "sink")}
    kind, _, number = more.get("normaliser", "softmax").partition(":")
    drop = oracle.kept(len(q), sum(lengths), 0.25, 11, 3) if "dropout" in more else None
    at, row, outs, shares = 0, 0, [], []
    for n in lengths:
        own = [x[:, at : at + n].astype(np.float64) for x in (q, k, v)]
        n_rows = -(-n // s.get("query_block", 1))
        has = [[[j for j in choice[c, row + i] if j >= 0] for i in range(n_rows)] for c in range(len(choice))]
        given = None if scores is None else scores[:, at : at + n, : -(-n // s["block"])]
        want, margin = (None, None) if held else oracle.choose(own[0], own[1], s, more.get("scale"), given)
        for c, i in () if held else itertools.product(range(len(has)), range(n_rows)):
            if margin[c][i] > 1e-4 and has[c][i] != want[c][i]:
                return None, None
        seen = oracle.seen_by(has, s, len(q), n)
        kept = None if drop is None else drop[:, at : at + n, at : at + n]
        out, _, p = oracle.attend(*own, seen, dropout=kept, normaliser=kind, number=float(number or 0), **named)
        outs.append(out), shares.append(oracle.block_weights(p, has, s))
        at, row = at + n, row + n_rows
    slots = choice.shape[2]
    return np.concatenate(outs, 1), np.concatenate([np.pad(x, ((0, 0), (0, 0), (0, slots - x.shape[2]))) for x in shares], 1)


class Drawn(unittest.TestCase):
    """Every option beside every other, against the definition in double (tests/routed_oracle.py)."""

    def test_choices_outputs_and_weights_are_those_of_the_definition(self):
        for seed in range(40 if os.environ.get("HGA_TEST_QUICK") else 150):
            lengths, s, (q, k, v), more, scores, layout = drawn(seed)
            h = hga.routed(lengths if len(lengths) > 1 else lengths[0], **s)
            turned = [np.swapaxes(x, 0, 1) if layout == "bnhd" else x for x in (q, k, v)]
            given = {} if scores is None else {"block_scores": scores}
            scale = {"scale": more["scale"]} if "scale" in more else {}
            choice = h.choice(*turned[:2], layout=layout, **scale, **given)
            out, weights = h.attention(*turned, layout=layout, return_block_weights=True, **given, **more)
            want, shares = by_definition(lengths, s, q, k, v, more, scores, choice)
            self.assertIsNotNone(want, (seed, s))
            np.testing.assert_allclose(np.swapaxes(out, 0, 1) if layout == "bnhd" else out, want, rtol=0, atol=5e-6, err_msg=str((seed, s, list(more))))
            np.testing.assert_allclose(weights, shares, rtol=0, atol=5e-6, err_msg=str((seed, s, list(more))))
            again = h.attention(*turned, layout=layout, choice=choice, **more)
            np.testing.assert_array_equal(again, out)

    def test_numpys_gradients_are_those_of_differences(self):
        for seed in (2, 5, 9, 14, 23, 31, 44):
            lengths, s, (q, k, v), more, scores, _ = drawn(seed)
            if "entmax" in more.get("normaliser", ""):
                continue
            h = hga.routed(lengths, **s)
            given = {} if scores is None else {"block_scores": scores}
            choice = h.choice(q, k, **({"scale": more["scale"]} if "scale" in more else {}), **given)
            rng = np.random.default_rng(seed)
            d = rng.standard_normal(q.shape[:2] + v.shape[2:]).astype(np.float32)
            grads = h.gradient(q, k, v, d, choice=choice, **more)
            x = {"query": q, "key": k, "value": v} | {n: t for n, t in more.items() if isinstance(t, np.ndarray)}
            for name, t in x.items():
                direction, slopes = rng.standard_normal(t.shape), []
                for step in (1e-5, -1e-5):
                    y = {n: a.astype(np.float64) + (step * direction if n == name else 0) for n, a in x.items()}
                    held = (lengths, s, y["query"], y["key"], y["value"], more | {n: a for n, a in y.items() if n in more}, scores, choice)
                    slopes.append((by_definition(*held, held=True)[0] * d).sum())
                terms = grads[name] * direction
                self.assertLess(abs(terms.sum() - (slopes[0] - slopes[1]) / 2e-5), 1e-4 * (np.abs(terms).sum() + 1), (seed, name))

    def test_samples_are_of_the_operands_that_products_have(self):
        q, k, _ = tensors(21)
        for more in ({"k": 4}, {"threshold": 0.6, "share": "group"}, {"k": 5, "share": "all", "causal": True}):
            h = hga.routed(block=BLOCK, score="sample", query_block=16, **more)
            half = [x.astype(np.float16) for x in (q, k)]
            np.testing.assert_array_equal(h.choice(*half), h.choice(*(x.astype(np.float32) for x in half)))
            rounded = [(x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1) & 0xFFFF0000).view(np.float32) for x in (q, k)]
            np.testing.assert_array_equal(h.choice(q, k, precision="bf16"), h.choice(*rounded, precision="f32"))
            if torch:
                narrow = [torch.tensor(x).bfloat16() for x in (q, k)]
                np.testing.assert_array_equal(h.choice(*narrow, precision="bf16"), h.choice(*rounded, precision="f32"))

    def test_samples_that_are_no_numbers_are_named(self):
        q, k, _ = tensors(22)
        h = hga.routed(N, block=BLOCK, score="sample", prefill=16, k=4, causal=True)
        h.choice(np.where(np.arange(N)[:, None] == 40, np.nan, q).astype(np.float32), k)  # which is not sampled
        k[1, 44] = np.nan
        refused(self, "the score of block 2 for query block 2, chooser 2, is not a number or .inf", lambda: h.choice(q, k))

    def test_a_head_is_a_graph_of_its_own(self):
        q, k, v = tensors(11)
        for share, n in (("head", HEADS), ("group", KV), ("all", 1)):
            h = hga.routed(block=BLOCK, k=4, causal=True, share=share)
            out = h.attention(q, k, v)
            for head in range(HEADS):
                one = h.hierarchy(q, k, head=head)
                self.assertTrue(one.is_causal())
                found = one.attention(q[head : head + 1], k[head * KV // HEADS][None], v[head * KV // HEADS][None])
                np.testing.assert_allclose(found[0], out[head], rtol=0, atol=2e-6)
            self.assertEqual(len(h.choice(q, k)), n)
        self.assertIn("<html", hga.routed(block=BLOCK, k=4).view(q, k, head=3))
        refused(self, "head is 4, not at least 0 and less than 4", lambda: h.hierarchy(q, k, head=4))

    def test_equal_queries_of_a_group_choose_as_one(self):
        q, k, _ = tensors(12)
        q[:] = np.repeat(q[:: HEADS // KV], HEADS // KV, 0)
        by_head = hga.routed(block=BLOCK, k=4, causal=True).choice(q, k)
        np.testing.assert_array_equal(by_head[:: HEADS // KV], hga.routed(block=BLOCK, k=4, causal=True, share="group").choice(q, k))

    def test_heads_may_stand_in_any_order(self):
        q, k, v = tensors(13, kv=HEADS)
        order, h = [2, 0, 3, 1], hga.routed(block=BLOCK, k=4, causal=True)
        np.testing.assert_array_equal(h.choice(q[order], k[order]), h.choice(q, k)[order])
        np.testing.assert_allclose(h.attention(q[order], k[order], v[order]), h.attention(q, k, v)[order], rtol=0, atol=2e-6)

    def test_larger_query_blocks_read_ahead_and_say_so(self):
        q, k, _ = tensors(14)
        later = q.copy()
        later[:, 101:] *= -3
        for more, moves in (({}, False), ({"query_block": 16}, True), ({"prefill": 16}, True)):
            h = hga.routed(block=BLOCK, k=4, causal=True, sinks=0, local=0, **more)
            a, b = (h.choice(x, k) for x in (q, later))
            rows = 101 if not more else 101 // 16 + 1
            self.assertEqual(not np.array_equal(a[:, :rows], b[:, :rows]), moves)
            self.assertEqual(h.is_causal(), not moves)
            if moves:
                refused(self, "reads queries up to 15 tokens ahead", h.strict_rows)
        self.assertFalse(hga.routed(block=BLOCK).is_causal())

    def test_names_build_it(self):
        q, k, v = tensors(15)
        for words in ("routed:block=16:k=3:causal=1", "routed block=16 k=3 causal=1"):
            h = hga.build(words, N)
            self.assertEqual(h, hga.routed(N, block=16, k=3, causal=True))
            np.testing.assert_array_equal(h.attention(q, k, v), hga.routed(N, block=16, k=3, causal=True).attention(q, k, v))
        self.assertEqual(hga.build("routed:threshold=0.9", N), hga.routed(N, threshold=0.9))
        self.assertEqual(hga.build("routed:score=sample:sample=2:prefill=16", N), hga.routed(N, score="sample", sample=2, prefill=16))
        with self.assertRaisesRegex(hga.Error, "threshold: 'much' is not a number"):
            hga.build("routed:threshold=much", N)
        self.assertEqual(hga.routed([3, 0, 4], block=2), hga.routed([3, 4], block=2))
        self.assertEqual(pickle.loads(pickle.dumps(hga.routed([3, 4], block=2))), hga.routed([3, 4], block=2))

    def test_what_a_call_cannot_bring_is_named(self):
        q, k, v = tensors(16)
        h = hga.routed(block=BLOCK, k=4)
        choice = h.choice(q, k)
        for says, more in (
            ("score='given' and block_scores= go together", {"block_scores": np.zeros((HEADS, N, 10), np.float32)}),
            ("choice is int32 of shape (4, 149, 4), not whole numbers [choosers][query blocks][slots] = [4][150][..]", {"choice": choice[:, 1:]}),
            ("after a row's last block only -1 may stand", {"choice": np.where(choice == choice[..., :1], -1, choice)}),
            ("has block 10, and there are 10", {"choice": np.where(np.arange(4) == 3, 10, choice)}),
            ("edge_bias: each of 4 choosers has edges of its own", {"edge_bias": np.zeros(7, np.float32)}),
            ("sink has shape (3,): numbers of 4 heads are needed", {"sink": np.zeros(3, np.float32)}),
        ):
            with self.assertRaises(hga.Error, msg=says) as caught:
                h.attention(q, k, v, **more)
            self.assertIn(says, str(caught.exception))
        given = hga.routed(block=BLOCK, k=4, score="given")
        with self.assertRaisesRegex(hga.Error, r"block_scores have shape \(4, 150, 9\), not .* = \(4, 150, 10\)"):
            given.attention(q, k, v, block_scores=np.zeros((HEADS, N, 9), np.float32))
        bad = np.zeros((HEADS, N, 10), np.float32)
        bad[2, 40, 7] = np.inf
        with self.assertRaisesRegex(hga.Error, "block 7 for query block 40, chooser 2, is not a number or .inf"):
            given.attention(q, k, v, block_scores=bad)


class Batches(unittest.TestCase):
    """What a batch's arrays have to have in common, and what each sample has of its own."""

    def refused(self, says, call):
        with self.subTest(says), self.assertRaises(hga.Error) as caught:
            call()
        self.assertEqual(str(caught.exception), says)

    def setUp(self):
        self.q, self.k, self.v = (np.stack(x) for x in zip(*(tensors(seed) for seed in range(3))))

    def test_batch_axes_are_the_querys(self):
        q, k, v = self.q, self.k, self.v
        trees = hga.treeformer_fine(N, height=2, weights=np.ones((3, DIM), np.float32), bias=np.zeros(3, np.float32))
        routed = hga.routed(block=BLOCK, k=4)
        calls = [lambda *x, h=h: h.attention(*x) for h in (routed, trees)] + [lambda q, k, v: routed.gradient(q, k, v, q)]
        for call in calls:
            differ = "has shape {}, query {}: the batch axes differ"
            self.refused("key " + differ.format(k.shape, (2, *q.shape[1:])), lambda: call(q[:2], k, v[:2]))
            self.refused("key " + differ.format((2, *k.shape[1:]), q.shape), lambda: call(q, k[:2], v))
            self.refused("value " + differ.format((1, *v.shape[1:]), q.shape), lambda: call(q, k, v[:1]))
            self.refused("key has 3 axes, query 4", lambda: call(q, k[0], v))
            self.refused("value has 4 axes, query 3", lambda: call(q[0], k[0], v))
            self.refused(f"value has shape {(HEADS, N, DIM)}, key {k.shape[1:]}", lambda: call(q[0], k[0], q[0]))
        self.refused(f"key has shape {k.shape}, query {(2, *q.shape[1:])}: the batch axes differ", lambda: routed.choice(q[:2], k))
        self.refused("query is a list, not a numpy array or a torch tensor", lambda: routed.attention(q.tolist(), k, v))
        self.refused(f"d_out has shape {q.shape}, not {(2, *q.shape[1:])}", lambda: routed.gradient(q[:2], k[:2], v[:2], q))
        self.refused(f"d_out has shape {q[0].shape}, not {q.shape}", lambda: routed.gradient(q, k, v, q[0]))
        self.refused(f"d_lse has shape {(2, HEADS, N)}, not {(3, HEADS, N)}", lambda: routed.gradient(q, k, v, q, d_lse=q[:2, ..., 0]))

    def test_choices_and_scores_are_by_sample(self):
        q, k, v = self.q, self.k, self.v
        h, given = hga.routed(block=BLOCK, k=4), hga.routed(block=BLOCK, k=4, score="given")
        choice, scores = h.choice(q, k), np.zeros((3, HEADS, N, 10), np.float32)
        self.refused("choice has 2 samples, the query 3", lambda: h.gradient(q, k, v, q, choice=choice[:2]))
        self.refused("choice is 7, no array of 3 samples", lambda: h.attention(q, k, v, choice=7))
        self.refused("block_scores has 2 samples, the query 3", lambda: given.gradient(q, k, v, q, block_scores=scores[:2]))
        self.refused("block_scores has 3 samples, the query 2", lambda: given.choice(q[:2], k[:2], block_scores=scores))
        self.refused("score='given' and block_scores= go together", lambda: h.attention(q, k, v, choice=choice, block_scores=scores))
        np.testing.assert_array_equal(given.attention(q, k, v, choice=choice), h.attention(q, k, v))
        nobody = f"query has shape {(0, *q.shape[1:])}: there is no sample to choose for"
        self.refused(nobody, lambda: h.choice(q[:0], k[:0]))
        self.refused(nobody, lambda: h.attention(q[:0], k[:0], v[:0], return_block_weights=True))
        self.refused(nobody, lambda: h.gradient(q[:0], k[:0], v[:0], q[:0]))
        self.assertEqual(h.attention(q[:0], k[:0], v[:0], choice=choice[:0]).shape, (0, HEADS, N, DIM))

    def test_a_choice_is_of_32_bits_and_has_slots(self):
        q, k, v = self.q[0], self.k[0], self.v[0]
        h = hga.routed(block=BLOCK, k=4)
        choice = h.choice(q, k)
        np.testing.assert_array_equal(h.attention(q, k, v, choice=choice.astype(np.int64)), h.attention(q, k, v))
        for wide in (choice.astype(np.int64) + 2**32, choice.astype(np.uint64) + np.uint64(2**63)):
            self.refused("choice holds numbers beyond 32 bits", lambda: h.attention(q, k, v, choice=wide))
        says = f"choice is int32 of shape ({HEADS}, {N}, 0), not whole numbers [choosers][query blocks][slots] = [{HEADS}][{N}][..]"
        self.refused(says, lambda: h.attention(q, k, v, choice=choice[..., :0]))

    def test_other_arrays_and_precisions_are_named(self):
        q, k, v = self.q[0], self.k[0], self.v[0]
        h = hga.routed(block=BLOCK, k=4)
        self.refused(f"query has shape {(HEADS, 0, DIM)}: there is no token to choose for", lambda: h.choice(q[:, :0], k[:, :0]))
        self.refused("precision is 'bf17', not one of auto, f32, bf16: did you mean 'bf16'?", lambda: h.choice(q, k, precision="bf17"))
        self.refused("rel_bias is a list, not a numpy array or a torch tensor", lambda: h.attention(q, k, v, rel_bias=[[0.0] * HEADS]))
        for wide in (q.astype(np.float16), q):
            for a in (h.attention(wide, k, v, return_block_weights=True), h.attention(wide[None], k[None], v[None], return_block_weights=True)):
                self.assertEqual((a[0].dtype, a[1].dtype), (wide.dtype, np.float32))

    @needs("torch")
    def test_tensors_of_torch_may_stand_beside_numpys(self):
        q, k, v = self.q, self.k, self.v
        h = hga.routed(block=BLOCK, k=4)
        want = h.attention(q, k, v, return_block_weights=True)
        for which in itertools.product((np.asarray, torch.tensor), repeat=3):
            for given in (slice(None), 0):
                found = h.attention(*(kind(x[given]) for kind, x in zip(which, (q, k, v))), return_block_weights=True)
                of_torch = torch.tensor in which
                self.assertEqual([isinstance(x, torch.Tensor) for x in found], [of_torch, of_torch])
                for a, b in zip(found, want):
                    np.testing.assert_allclose(np.asarray(a), b[given], rtol=0, atol=2e-6)
        auto = [torch.tensor(x).bfloat16() for x in (q, k, v)]
        self.assertTrue(np.array_equal(h.choice(*auto[:2], precision="auto"), h.choice(*auto[:2], precision="bf16" if multiplies_pairs(None) else "f32")))

    def test_features_of_edges_come_beside_weights_of_blocks(self):
        h = hga.routed(block=BLOCK, k=4, share="all")
        for kind in (np.asarray, torch.tensor) if torch else (np.asarray,):
            q, k, v = (kind(x[:1]) for x in (self.q, self.k, self.v))
            features = kind(np.random.default_rng(3).standard_normal((h.hierarchy(q[0], k[0]).graph.n_edges(), 4)).astype(np.float32))
            out, sums = h.attention(q, k, v, edge_value=features)
            _, weights = h.attention(q, k, v, return_block_weights=True)
            found = h.attention(q, k, v, edge_value=features, lse=True, return_block_weights=True)
            self.assertEqual(len(found), 4)
            for a, b in zip((found[0], found[1], found[3]), (out, sums, weights)):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))

    def test_gradients_of_sums_of_features_are_by_sample(self):
        h, q, k, v = hga.routed(block=BLOCK, k=4, share="all"), self.q[:1], self.k[:1], self.v[:1]
        rng = np.random.default_rng(4)
        features = rng.standard_normal((h.hierarchy(q[0], k[0]).graph.n_edges(), 4)).astype(np.float32)
        d = rng.standard_normal((1, HEADS, N, 4)).astype(np.float32)
        whole = h.gradient(q, k, v, q, edge_value=features, d_edge_out=d)
        one = h.gradient(q[0], k[0], v[0], q[0], edge_value=features, d_edge_out=d[0])
        np.testing.assert_array_equal(whole["query"][0], one["query"])
        np.testing.assert_array_equal(whole["edge_value"], one["edge_value"])


@needs("torch")
class Gradients(unittest.TestCase):
    def test_they_hold_the_choice(self):
        for settings in SETTINGS[::3]:
            q, k, v = (torch.tensor(x).requires_grad_() for x in tensors(9))
            h = hga.routed(**settings)
            seen = torch.tensor(pairs(h.choice(q.detach(), k.detach()), settings))
            out = h.attention(q, k, v)
            wide = [x.double().repeat_interleave(HEADS // KV, 0) for x in (k, v)]
            want = torch.nn.functional.scaled_dot_product_attention(q.double(), *wide, attn_mask=seen)
            upstream = torch.randn_like(out)
            for a, b in zip(torch.autograd.grad(out, (q, k, v), upstream), torch.autograd.grad(want, (q, k, v), upstream.double())):
                torch.testing.assert_close(a, b.to(a.dtype), rtol=0, atol=1e-5)

    def test_a_plan_is_taken_over(self):
        h = hga.routed(block=BLOCK, k=4, query_block=16, causal=True)
        for seed in range(4):
            q, k, v = (torch.tensor(x).requires_grad_() for x in tensors(seed))
            out = h.attention(q, k, v)
            out.sum().backward()
            want = h.hierarchy(q.detach(), k.detach()).attention(q.detach(), k.detach(), v.detach())
            self.assertTrue(torch.equal(out.detach(), want))
        self.assertEqual(sum(bool(x._plans) for x in h._made), 1)

    def test_compiled_functions_choose_anew(self):
        h = hga.routed(block=BLOCK, k=4, causal=True)
        run = torch.compile(lambda q, k, v: h.attention(q, k, v), fullgraph=True, backend="aot_eager")
        for seed in range(2):
            inputs = [torch.tensor(x) for x in tensors(seed)]
            self.assertTrue(torch.equal(run(*inputs), h.attention(*inputs)))

    def test_gradients_of_functions(self):
        h = hga.routed(block=BLOCK, k=4, causal=True)
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v = (torch.tensor(x).to(dtype) for x in tensors(3))
            leaf = q.clone().requires_grad_()
            h.attention(leaf, k, v).float().square().sum().backward()
            found = torch.func.grad(lambda x, k=k, v=v: h.attention(x, k, v).float().square().sum())(q)
            self.assertTrue(torch.equal(found, leaf.grad))
        with self.assertRaisesRegex(hga.Error, "query is under torch.func.vmap.*give a batch"):
            torch.func.vmap(h.attention)(q[None], k[None], v[None])

    def test_block_weights_have_gradients(self):
        q, k, v = (torch.tensor(x).double().float().requires_grad_() for x in tensors(17))
        h = hga.routed(block=BLOCK, k=4, causal=True)
        choice = h.choice(q.detach(), k.detach())
        _, weights = h.attention(q, k, v, return_block_weights=True)
        torch.testing.assert_close(weights.sum(-1), torch.ones(HEADS, N), rtol=0, atol=1e-5)
        seen = torch.tensor(pairs(choice, {"causal": True}))
        p = (q.double() @ k.double().repeat_interleave(HEADS // KV, 0).mT / DIM**0.5).masked_fill(~seen, -torch.inf).softmax(-1)
        blocks = torch.nn.functional.pad(p, (0, -N % BLOCK)).unflatten(-1, (-1, BLOCK)).sum(-1)
        at = torch.tensor(choice).long()
        want = blocks.gather(-1, at.clamp(min=0)) * (at >= 0)
        upstream = torch.randn_like(weights)
        for a, b in zip(torch.autograd.grad(weights, (q, k), upstream), torch.autograd.grad(want, (q, k), upstream.double())):
            torch.testing.assert_close(a, b.to(a.dtype), rtol=0, atol=1e-5)

    def test_three_calls_are_native_sparse_attention(self):
        sys.path.append(str(ROOT / "examples" / "python"))
        import nsa

        torch.manual_seed(5)
        for n, heads, kv, settings in ((300, 8, 2, {"block": 32, "chosen": 4, "window": 64}), (130, 4, 4, {"span": 8, "stride": 8, "block": 16, "chosen": 3, "window": 20})):
            inputs = [torch.randn(h, n, 16) for h in (heads, kv, kv)] + [torch.rand(3, heads, n)]
            inputs = [x.requires_grad_() for x in inputs]
            out, want = nsa.nsa(*inputs, **settings), nsa.by_definition(*inputs, **settings)
            torch.testing.assert_close(out, want.float(), rtol=0, atol=5e-6)
            d = torch.randn_like(out)
            for a, b in zip(torch.autograd.grad(out, inputs, d), torch.autograd.grad(want, inputs, d.double())):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    def test_batches_bring_theirs(self):
        q, k, v = (torch.tensor(np.stack([a, b])) for a, b in zip(tensors(18), tensors(19)))
        h = hga.routed(block=BLOCK, threshold=0.6)
        choice = h.choice(q, k)
        self.assertEqual(choice.shape[:3], (2, HEADS, N))
        out, lse, weights = h.attention(q, k, v, lse=True, return_block_weights=True)
        self.assertEqual((out.shape, lse.shape, weights.shape), (q.shape, q.shape[:-1], choice.shape))
        self.assertTrue(torch.equal(h.attention(q, k, v, choice=choice), out))

    def test_modules_train(self):
        torch.manual_seed(3)
        for spec, more in (("routed:block=4:k=3", {"dropout": 0.1}), ("routed:block=4:threshold=0.7:share=group:query-block=4", {})):
            layer = hga.torch.Attention(spec, 32, 4, causal=True, kv_heads=2, **more)
            x, target = torch.randn(2, 60, 32), torch.randn(2, 60, 32)
            losses = losses_of(layer, x, target, 25)
            self.assertLess(losses[-1], 0.9 * losses[0], spec)

    def test_samples_of_several_lengths_choose_for_themselves(self):
        layer = hga.torch.Attention("routed:block=4:k=2", 32, 4, causal=True).eval()
        x = torch.randn(2, 30, 32, requires_grad=True)
        y = layer(x, lengths=[30, 11])
        self.assertTrue(torch.allclose(y[1, :11], layer(x[1:, :11])[0], atol=1e-6))
        self.assertTrue(torch.allclose(y[1, 11:], layer.out.bias.expand(19, -1)))
        y.sum().backward()
        self.assertEqual(float(x.grad[1, 11:].abs().max()), 0)
        h = hga.routed(block=4, k=2, causal=True)
        whole = hga.torch.Attention(h, 32, 4, causal=True)
        self.assertEqual(whole(x).shape, x.shape)
        with self.assertRaisesRegex(hga.Error, "is not causal"):
            hga.torch.Attention(hga.routed(block=4, query_block=4, causal=True), 32, 4, causal=True)
