"""hga.torch.flex_attention beside torch's own eager implementation in double, forward and backward, over calls in which every three
options meet; and what both say where there is nothing to attend to."""

import functools
import itertools
import math
import random
import unittest

import hga
import numpy as np
from shared import needs, refused, torch
from since import since

if torch:
    from test_flex import eager, gradients, theirs
    from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask

    N, HEADS, D, D_V = 40, 4, 6, 5  # the most tokens
    g = torch.Generator().manual_seed(11)
    DOCS = torch.arange(N) // 9
    SLOPES = torch.rand(HEADS, generator=g, requires_grad=True)
    TABLE = torch.randn(2 * N, HEADS, generator=g, requires_grad=True)
    CAPTURED = (SLOPES, TABLE)

    def near(b, h, q, k, by=7, docs=DOCS):
        return ((q - k).abs() <= by) | (docs[q] == docs[k])

    class Causal:
        def __init__(self, by):
            self.by = by

        def __call__(self, b, h, q, k):
            return q + self.by >= k

    # Each one and whether a sample, a head needs its own.
    MASKS = {
        "none": (None, False, False),
        "causal": (lambda b, h, q, k: q >= k, False, False),
        "of an object": (Causal(3), False, False),
        "never": (lambda b, h, q, k: q < 0, False, False),
        "in some heads never": (lambda b, h, q, k: (h % 2 == 1) & (q >= k), False, True),
        "in some samples never": (lambda b, h, q, k: (b == 1) & (q >= k), True, False),
        "with default arguments": (near, False, False),
        "partial": (functools.partial(near, by=2), False, False),
    }
    SCORES = {
        "none": None,
        "pairs": lambda s, b, h, q, k: s + (q ^ k) % 5,
        "heads": lambda s, b, h, q, k: s - (h // 2),
        "pairs and heads": lambda s, b, h, q, k: s + (q ^ k) % 5 - (h // 2),
        "samples": lambda s, b, h, q, k: s + (b + 1) * (k % 3) / 4,
        "distances": lambda s, b, h, q, k, table=TABLE: s + table[q - k + N, h],
        "capped": lambda s, b, h, q, k: 2 * torch.tanh(s / 2) - SLOPES[h] * (q - k).abs(),
        "times 0": lambda s, b, h, q, k: 0 * torch.tanh(s) + (q - k) / 9,
        "masked": lambda s, b, h, q, k: torch.where(k % 4 != h, s * (1 + SLOPES[h]), -math.inf),
    }
    OPTIONS = dict(
        batch=(0, 1, 2), heads=((2, 2), (4, 2)), tokens=((0, 23), (23, 23), (9, 40)), mask=tuple(MASKS), score=tuple(SCORES),
        scale=(None, 0.0, -0.7), asked=("out", "lse", "aux"), type=(torch.float32, torch.bfloat16), strides=("packed", "turned", "shared"),
    )  # fmt: skip


def triples(call):
    return set(itertools.combinations(call.items(), 3))


def calls():
    """So that every three values of different options meet in one: each time the best of some that have one that is left."""
    r = random.Random(5)
    left = {
        tuple(zip(names, values))
        for names in itertools.combinations(OPTIONS, 3)
        for values in itertools.product(*(OPTIONS[name] for name in names))
    }
    while left:
        some = min(left, key=str)
        drawn = [{**{name: r.choice(of) for name, of in OPTIONS.items()}, **dict(some)} for _ in range(20)]
        best = max(drawn, key=lambda call: len(triples(call) & left))
        left -= triples(best)
        yield best


def tensors(call):
    """query, key and value: packed, with heads behind tokens, or with keys that all samples and heads share."""
    g = torch.Generator().manual_seed(3)
    (heads, kv_heads), (n, n_keys), batch = call["heads"], call["tokens"], call["batch"]

    def made(h, rows, columns, of_all=False):
        if call["strides"] == "turned":
            x = torch.randn(batch, rows, h, columns, generator=g).to(call["type"]).requires_grad_()
            return x, x.transpose(1, 2)
        shared = of_all and call["strides"] == "shared"
        x = torch.randn(*((1, 1) if shared else (batch, h)), rows, columns, generator=g).to(call["type"]).requires_grad_()
        return x, x.expand(batch, h, -1, -1) if shared else x

    return zip(*(made(heads, n, D), made(kv_heads, n_keys, D, True), made(kv_heads, n_keys, D_V, True)))


def attended(call, qkv, mask, scale):
    """(out, lse or None) by hga."""
    more = dict(out={}, lse=dict(return_lse=True), aux=dict(return_aux=AuxRequest(lse=True), kernel_options={"BLOCK_M": 16}))[call["asked"]]
    found = hga.torch.flex_attention(*qkv, SCORES[call["score"]], mask, scale, True, **more)
    if call["asked"] == "out":
        return found, None
    return found if call["asked"] == "lse" else (found[0], found[1].lse)


@needs("torch")
class Drawn(unittest.TestCase):
    def assert_close(self, mine, want, atol):
        self.assertEqual((mine is None, mine is None or mine.shape), (want is None, want is None or want.shape))
        if mine is not None and mine.numel():
            most = 1 + float(want.detach().nan_to_num(neginf=0).abs().max())
            np.testing.assert_allclose(mine.detach().double().numpy(), want.detach().double().numpy(), atol=atol * most, rtol=0)

    def check(self, call, by_torch):
        mask_mod, by_sample, by_head = MASKS[call["mask"]]
        (n, n_keys), (heads, _) = call["tokens"], call["heads"]
        leaves, qkv = tensors(call)
        sizes = (call["batch"] if by_sample else None, heads if by_head else None, n, n_keys)
        make = create_block_mask if all(n is None or n for n in sizes) else hga.torch.create_block_mask  # torch has none of 0
        mask = mask_mod and make(mask_mod, *sizes, BLOCK_SIZE=8, **({"device": "cpu"} if make is create_block_mask else {}))
        out, lse = attended(call, qkv, mask, call["scale"])
        self.assertEqual((out.dtype, out.shape), (call["type"], (call["batch"], heads, n, D_V)))
        inputs = (*leaves, *CAPTURED)
        if not out.numel():
            total = out.sum() if lse is None else out.sum() + lse.sum()
            for found in torch.autograd.grad(total, inputs, allow_unused=True):
                self.assertTrue(found is None or not found.any())
            return
        scale = D**-0.5 if call["scale"] is None else call["scale"]
        q, k, v = (x.double() for x in qkv)
        want, want_lse = eager(q * scale * D**0.5, k, v, SCORES[call["score"]], mask_mod)
        if by_torch:
            with torch.no_grad():
                said = theirs.flex_attention(q.detach(), k.detach(), v.detach(), SCORES[call["score"]], mask, call["scale"], True)
            self.assert_close(want, said, 1e-12)
        atol = 4e-6 if call["type"] == torch.float32 else 2e-2
        self.assert_close(out, want, atol)
        if lse is not None:
            self.assert_close(lse, want_lse, 4e-6)
        none = torch.full(out.shape[:3], -math.inf)  # of which `gradients` takes no notice
        mine = gradients(out, none if lse is None else lse, inputs)
        for found, slope in zip(mine, gradients(want.to(out.dtype), none if lse is None else want_lse, inputs)):
            self.assert_close(found, slope, 1e-5 if call["type"] == torch.float32 else 3e-2)

    def test_every_three_options_meet_and_are_torchs(self):
        n = 0
        for n, call in enumerate(calls()):
            with self.subTest(**call):
                self.check(call, n % 16 == 0)
        self.assertGreater(n, 8 * 9)


@needs("torch")
class Nothing(unittest.TestCase):
    @since("torch", "2.10")  # torch 2.9 fails by itself, in create_block_mask without keys
    def test_no_keys_are_zeros_as_of_rows_that_see_none(self):
        q, k = torch.randn(2, 2, 5, 8, requires_grad=True), torch.randn(2, 2, 0, 8, requires_grad=True)
        never = create_block_mask(lambda b, h, q, k: q < k, None, None, 5, 0, device="cpu")
        for mask, score in itertools.product((None, never), SCORES.values()):
            out, lse = hga.torch.flex_attention(q, k, k, score, mask, return_lse=True)
            self.assertTrue(out.shape == q.shape and not out.any() and (lse == -math.inf).all())
            d_q, d_k = torch.autograd.grad(out.sum(), (q, k))
            self.assertTrue(d_q.shape == q.shape and not d_q.any() and d_k.shape == k.shape)

    def test_no_heads(self):
        for heads in (0, 2):
            q, k = torch.randn(2, 0, 5, 8), torch.randn(2, heads, 5, 8)
            self.assertEqual(hga.torch.flex_attention(q, k, k, enable_gqa=True).shape, (2, 0, 5, 8))
        with self.assertRaisesRegex(hga.Error, r"key has shape \(2, 0, 5, 8\): no heads"):
            hga.torch.flex_attention(torch.randn(2, 4, 5, 8), q, q, enable_gqa=True)

    def test_what_does_not_fit_is_refused_though_nothing_is_computed(self):
        x = lambda *shape: torch.zeros(*shape)  # noqa: E731
        for words, inputs in {
            "key has 9 columns, query has 8": (x(0, 2, 5, 8), x(0, 2, 5, 9), x(0, 2, 5, 8)),
            r"value has shape \(0, 2, 6, 8\), key \(0, 2, 5, 8\)": (x(0, 2, 5, 8), x(0, 2, 5, 8), x(0, 2, 6, 8)),
            "query has 0 samples, key 3": (x(0, 2, 5, 8), x(3, 2, 5, 8), x(3, 2, 5, 8)),
            "query has 2 samples, value 3": (x(2, 2, 5, 8), x(2, 2, 5, 8), x(3, 2, 5, 8)),
            r"query has shape \(1, 2, 5, 0\): at least one column": (x(1, 2, 5, 0), x(1, 2, 5, 0), x(1, 2, 5, 8)),
            "query has dtype torch.float64": [x(0, 2, 5, 8).double()] * 3,
        }.items():
            refused(self, words, lambda: hga.torch.flex_attention(*inputs))

    @since("torch", "2.10")  # torch 2.9 fails by itself, in create_block_mask without keys
    def test_block_masks_of_nothing_are_torchs(self):
        for sizes in ((0, None, 5, 5), (None, 0, 5, 5), (None, None, 0, 5), (None, None, 5, 0), (0, 0, 0, 0), (2, 3, 5, 7)):
            mine, want = hga.torch.create_block_mask(MASKS["causal"][0], *sizes), create_block_mask(MASKS["causal"][0], *sizes, device="cpu")
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(mine.as_tuple(), want.as_tuple()) if isinstance(a, torch.Tensor)), sizes)


@needs("torch")
class Functions(unittest.TestCase):
    """Functions that torch's own create_block_mask takes, and some more."""

    def test_mask_mods_of_every_kind(self):
        class Held:
            def method(self, b, h, q, k):
                return q - k <= 5

            @staticmethod
            def static(b, h, q, k):
                return q - k <= 5

            @classmethod
            def of_class(cls, b, h, q, k):
                return q - k <= 5

        def plain(b, h, q, k):
            return q - k <= 5

        def by_name(b, h, q, k, *, by=5, **more):
            return q - k <= by

        def listed(b, *others):
            return others[1] - others[2] <= 5

        q, k, v = (torch.randn(1, 2, N, D, generator=torch.Generator().manual_seed(i)) for i in range(3))
        mods = (plain, by_name, listed, Held().method, Held.static, Held.of_class, functools.lru_cache(plain), functools.wraps(plain)(listed),
                [lambda b, h, q, k, i=i: q - k <= i for i in (5, 6)][0], and_masks(plain, by_name), lambda b, h, q, k, by=torch.tensor(5): q - k <= by)  # fmt: skip
        want = hga.torch.flex_attention(q, k, v, None, hga.torch.create_block_mask(plain, None, None, N, N, BLOCK_SIZE=16))
        for mod in mods:
            mask = hga.torch.create_block_mask(mod, None, None, N, N, BLOCK_SIZE=16)
            self.assertTrue(torch.equal(hga.torch.flex_attention(q, k, v, None, mask), want), mod)
            score = functools.partial(lambda mod, s, *indices: torch.where(mod(*indices), s, -math.inf), mod)
            np.testing.assert_allclose(hga.torch.flex_attention(q, k, v, score), want, atol=2e-6)

    def test_defaults_are_those_of_now(self):
        by = torch.tensor(5)
        mods = {"tensor": lambda b, h, q, k, by=by: q - k <= by}
        q, k, v = (torch.randn(1, 2, N, D, generator=torch.Generator().manual_seed(i)) for i in range(3))
        mask = create_block_mask(lambda b, h, q, k: q >= 0, None, None, N, N, device="cpu", BLOCK_SIZE=N)
        for n in (5, 2):
            by.fill_(n)
            found = hga.torch.flex_attention(q, k, v, lambda s, *at: torch.where(mods["tensor"](*at), s, -math.inf), mask)
            np.testing.assert_allclose(found, eager(q, k, v, None, lambda b, h, q, k: q - k <= n)[0], atol=3e-6)

    def test_what_takes_other_arguments_is_refused(self):
        q = torch.randn(1, 2, N, D)
        for words, mod in (("3 positional", lambda b, h, q: q > 0), ("missing 1 required", lambda s, b, h, q, k: q > k)):
            with self.assertRaisesRegex(NotImplementedError, f"mask_mod cannot be traced.*{words}"):
                hga.torch.create_block_mask(mod, None, None, N, N)
        with self.assertRaisesRegex(NotImplementedError, "score_mod cannot be traced.*4 positional"):
            hga.torch.flex_attention(q, q, q, lambda b, h, q, k: q)

    def test_what_else_torch_is_asked(self):
        q = torch.randn(1, 2, N, D)
        for kind, words, more in (
            (NotImplementedError, "max_scores", dict(return_aux=AuxRequest(lse=True, max_scores=True))),
            (TypeError, "return_aux is True, not an AuxRequest", dict(return_aux=True)),
            (ValueError, "return_lse and return_aux", dict(return_lse=True, return_aux=AuxRequest(lse=True))),
            (TypeError, "kernel_options is 3, not a dictionary", dict(kernel_options=3)),
        ):
            with self.assertRaisesRegex(kind, words):
                hga.torch.flex_attention(q, q, q, **more)
        out, aux = hga.torch.flex_attention(q, q, q, return_aux=AuxRequest())
        self.assertTrue(torch.equal(out, hga.torch.flex_attention(q, q, q, kernel_options={"BLOCK_N": 64})) and aux.lse is None)
