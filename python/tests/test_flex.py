"""hga.torch.flex_attention gives what torch's own eager implementation gives in double, forward and backward, of
FlexAttention's masks and score_mods; what it refuses it names; hierarchies are BlockMasks, and BlockMasks
hierarchies."""

import gc
import math
import subprocess
import sys
import unittest
import weakref

import hga
import numpy as np
from shared import needs, torch
from since import older, since

if torch:
    from torch._higher_order_ops.flex_attention import math_attention
    from torch.nn.attention import flex_attention as theirs
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask, noop_mask

    if older("torch", "2.6"):  # theirs forgets BLOCK_SIZE, and asks about tokens behind the last one
        create_block_mask = hga.torch.create_block_mask

    torch.manual_seed(7)
    B, H, KV, N, D = 2, 4, 2, 150, 8
    SIDE = 10  # of images: 15 rows of 10
    DOCS = torch.arange(N) // 37
    SLOPES = torch.rand(H, requires_grad=True)
    BIAS = torch.randn(H, N, N, requires_grad=True)
    TABLE = torch.randn(2 * N, H, requires_grad=True)
    KEYS = torch.randn(B, N, requires_grad=True)
    CAPTURED = (SLOPES, BIAS, TABLE, KEYS)

    def natten(b, h, q, k):
        x, y, u, v = q // SIDE, q % SIDE, k // SIDE, k % SIDE
        return ((x.clamp(2, N // SIDE - 3) - u).abs() <= 2) & ((y.clamp(2, SIDE - 3) - v).abs() <= 2)

    # attention-gym's masks, and some of ours: (mask_mod, does it need a sample's, a head's own)
    MASKS = {
        "none": (None, False, False),
        "causal": (lambda b, h, q, k: q >= k, False, False),
        "sliding window": (lambda b, h, q, k: (q >= k) & (q - k <= 30), False, False),
        "prefix LM": (lambda b, h, q, k: (k < 40) | (q >= k), False, False),
        "document": (lambda b, h, q, k: (DOCS[q] == DOCS[k]) & (q >= k), False, False),
        "dilated window": (lambda b, h, q, k: ((q - k).abs() <= 30) & ((q - k) % 3 == 0), False, False),
        "natten": (natten, False, False),
        "rows that see nothing": (lambda b, h, q, k: (q > k) & (q % 7 != 0), False, False),
        "by head": (lambda b, h, q, k: (q >= k) & (q - k <= 10 * (h + 1)), False, True),
        "by sample": (lambda b, h, q, k: (q >= k) | (b == 1), True, False),
    }
    SCORES = {
        "none": None,
        "ALiBi": lambda s, b, h, q, k: s - SLOPES[h] * (q - k).abs(),
        "ALiBi, signed": lambda s, b, h, q, k: s + SLOPES[h] * (k - q) / 8,
        "table of distances": lambda s, b, h, q, k: s + TABLE[q - k + N, h],
        "bias": lambda s, b, h, q, k: s + BIAS[h, q, k],
        "bias of a sample's keys": lambda s, b, h, q, k: s + KEYS[b, k],
        "causal": lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
        "scaled by head": lambda s, b, h, q, k: s * (1 + SLOPES[h]) + torch.exp2(-(h + 1.0)) * torch.where(q > k, 1.0, 0.5),
        "softcap": lambda s, b, h, q, k: 2 * torch.tanh(s / 2),
    }  # fmt: skip

    def identity(s, b, h, q, k):
        return s

    def tensors(dtype=torch.float32, n=N, n_keys=N, heads=H, kv=KV, batch=B, seed=3):
        g = torch.Generator().manual_seed(seed)
        shapes = (batch, heads, n, D), (batch, kv, n_keys, D), (batch, kv, n_keys, D + 3)
        return [torch.randn(s, generator=g).to(dtype).requires_grad_() for s in shapes]

    def block_mask(name, n=N, n_keys=N, size=32):
        mask, by_sample, by_head = MASKS[name]
        return mask and create_block_mask(mask, B if by_sample else None, H if by_head else None, n, n_keys, device="cpu", BLOCK_SIZE=size)

    def eager(q, k, v, score_mod, mask_mod):
        """torch's eager implementation, which has a backward pass where torch offers none: (out, log-sum-exp), in double."""
        mask_inputs = (None,) * 12 + (mask_mod or noop_mask,)
        out, lse = math_attention(q.double(), k.double(), v.double(), score_mod or identity, mask_inputs, q.shape[-1] ** -0.5, {}, (), ())[:2]
        return out, lse * math.log(2)

    def gradients(out, lse, inputs, seed=5):
        """Of a random sum of the output and of the log-sum-exps that are finite."""
        g = torch.Generator().manual_seed(seed)
        d_out, d_lse = torch.randn(out.shape, generator=g), torch.randn(lse.shape, generator=g)
        seen = torch.isfinite(lse)
        total = (out * d_out).sum() + (lse[seen] * d_lse[seen]).sum()
        return torch.autograd.grad(total, inputs, allow_unused=True)


@needs("torch")
class Gallery(unittest.TestCase):
    def assert_close(self, mine, want, what, atol):
        self.assertEqual(mine is None, want is None, what)
        if mine is not None:
            scale = 1 + float(want.detach().nan_to_num(neginf=0).abs().max())
            np.testing.assert_allclose(mine.detach().double().numpy(), want.detach().double().numpy(), atol=atol * scale, err_msg=what)

    def compare(self, tensors, score_mod, mask, mask_mod, what):
        out, lse = hga.torch.flex_attention(*tensors, score_mod, mask, enable_gqa=True, return_lse=True)
        want, want_lse = eager(*tensors, score_mod, mask_mod)
        self.assert_close(out, want, what, 3e-6)
        self.assert_close(lse, want_lse, what + ", log-sum-exp", 3e-6)
        inputs = (*tensors, *CAPTURED)
        for mine, theirs_, name in zip(gradients(out, lse, inputs), gradients(want, want_lse, inputs), "q k v slopes bias table keys".split()):
            # The few slopes have sums over all pairs, which mostly cancel.
            self.assert_close(mine, theirs_, f"{what}, gradient of {name}", 5e-5 if name == "slopes" else 1e-5)

    def test_every_mask_with_every_score_mod(self):
        inputs, pairs = tensors(), 0
        for mask_name, (mask_mod, _, _) in MASKS.items():
            mask = block_mask(mask_name)
            for score_name, score_mod in SCORES.items():
                with self.subTest(mask=mask_name, score=score_name):
                    self.compare(inputs, score_mod, mask, mask_mod, f"{mask_name}, {score_name}")
                pairs += 1
        self.assertGreaterEqual(pairs, 30)

    @since("torch", "2.9")
    def test_torch_itself_says_so(self):
        """Not only the function that torch's eager flex_attention calls: flex_attention, in double."""
        q, k, v = (x.detach() for x in tensors())
        for mask_name, score_name in (("document", "ALiBi, signed"), ("natten", "bias"), ("by head", "none")):
            mask, score = block_mask(mask_name), SCORES[score_name]
            own = hga.torch.flex_attention(q, k, v, score, mask, scale=0.2, enable_gqa=True)
            with torch.no_grad():
                want = theirs.flex_attention(q.double(), k.double(), v.double(), score, mask, 0.2, True)
            self.assert_close(own, want, mask_name, 3e-6)

    def test_other_shapes(self):
        """Fewer queries than keys, one query, a mask whose last blocks are short, one block for all, blocks that are not square."""
        for n, n_keys in ((40, 150), (150, 40), (1, 90), (65, 65)):
            for size in (16, 32, 256, (64, 16)):
                def mod(b, h, q, k):
                    return (q + 5 >= k) & ((k % 11 > 2) | (q < 9))  # fmt: skip
                mask = create_block_mask(mod, None, None, n, n_keys, device="cpu", BLOCK_SIZE=size)
                inputs = tensors(n=n, n_keys=n_keys)
                with self.subTest(n=n, n_keys=n_keys, size=size):
                    for score in (None, SCORES["table of distances"], lambda s, b, h, q, k: s + BIAS[h, q % 100, k] * 0.5):
                        self.compare(inputs, score, mask, mod, "another shape")

    @since("torch", "2.9")
    def test_blocks_without_a_mask_mod(self):
        """BlockMask.from_kv_blocks says it all: whatever blocks are listed are seen whole."""
        count = torch.tensor([[[1, 2, 1]]], dtype=torch.int32)
        columns = torch.tensor([[[[0, 2, 1], [2, 0, 1], [1, 0, 2]]]], dtype=torch.int32)
        full = torch.tensor([[[0, 0, 1]]], dtype=torch.int32), torch.tensor([[[[0, 1, 2], [0, 1, 2], [0, 1, 2]]]], dtype=torch.int32)
        dense = torch.tensor([[1, 0, 0], [1, 0, 1], [1, 1, 0]], dtype=torch.bool)
        mask = BlockMask.from_kv_blocks(count, columns, *full, BLOCK_SIZE=20, seq_lengths=(55, 60))
        inputs = tensors(n=55, n_keys=60)
        self.compare(inputs, None, mask, lambda b, h, q, k: dense[q // 20, k // 20], "blocks")

    def test_sixteen_bits_and_samples_that_share_keys(self):
        q, k, v = (x.detach() for x in tensors())
        mask = block_mask("causal")
        for dtype, atol in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            inputs = [x.to(dtype) for x in (q, k, v)]
            out = hga.torch.flex_attention(*inputs, SCORES["table of distances"], mask, enable_gqa=True)
            self.assertEqual(out.dtype, dtype)
            self.assert_close(out, eager(*inputs, SCORES["table of distances"], MASKS["causal"][0])[0], str(dtype), atol)
        shared = hga.torch.flex_attention(q, k[:1], v[:1], None, block_mask("by sample"), enable_gqa=True)
        want = eager(q, k[:1].expand(B, -1, -1, -1), v[:1].expand(B, -1, -1, -1), None, MASKS["by sample"][0])[0]
        self.assert_close(shared, want, "shared keys", 3e-6)

    def test_minus_infinity_in_a_table_masks(self):
        table = torch.randn(2 * N, H)
        table[N + 6 :] = -math.inf  # a query sees the last six tokens, and all later ones
        self.compare(tensors(), lambda s, b, h, q, k: s + table[q - k + N, h], None, None, "a table with -inf")

    def test_masks_written_as_scores(self):
        for name, score in {
            "where": lambda s, b, h, q, k: torch.where((q >= k) & (DOCS[q] == DOCS[k]), s + 1, -math.inf),
            "the other way": lambda s, b, h, q, k: torch.where(q < k, -math.inf, s) * 2,
            "added": lambda s, b, h, q, k: s + torch.where(q >= k, 0.0, -math.inf),
            "filled": lambda s, b, h, q, k: s.masked_fill(q - k > 20 * (h + 1), -math.inf),
            "of a sample": lambda s, b, h, q, k: torch.where((b == 0) | (k < 99), s, -math.inf),
        }.items():
            with self.subTest(name):
                self.compare(tensors(), score, None, None, name)
                self.compare(tensors(), score, block_mask("sliding window"), MASKS["sliding window"][0], name)

    def test_forms_of_sums_and_products(self):
        for name, score in {
            "identity": identity,
            "negated": lambda s, b, h, q, k: -s,
            "from": lambda s, b, h, q, k: 3 - s,
            "through": lambda s, b, h, q, k: s / 3 + 1,
            "tensors that are numbers": lambda s, b, h, q, k: s * torch.tensor(0.5) + torch.tensor(2.0),
            "distances in other words": lambda s, b, h, q, k: s + TABLE[N - (k - q), h] - ((2 * k + 3) - 2 * q).clamp(-9, 9) * 0.1,
            "rows by rows": lambda s, b, h, q, k: s + BIAS[h][q][k],
            "steps": lambda s, b, h, q, k: s + SLOPES[h] * (q // 4 - k // 4),
            "through what depends on rows": lambda s, b, h, q, k: s / (1 + q),
            "a captured number with a gradient": lambda s, b, h, q, k: s * SLOPES.sum() + BIAS.mean(),
        }.items():
            with self.subTest(name):
                if name == "rows by rows":  # torch's own mapping of it has no backward pass
                    inputs = tensors()
                    out = hga.torch.flex_attention(*inputs, score, enable_gqa=True)
                    want = hga.torch.flex_attention(*inputs, SCORES["bias"], enable_gqa=True)
                    self.assertTrue(torch.equal(out, want))
                else:
                    self.compare(tensors(), score, block_mask("causal"), MASKS["causal"][0], name)


@needs("torch")
class Refused(unittest.TestCase):
    def refuse(self, words, *more, kind=hga.Error, inputs=None, **options):
        with self.assertRaisesRegex(kind, words):
            hga.torch.flex_attention(*(inputs or tensors()), *more, enable_gqa=options.pop("enable_gqa", True), **options)

    def test_what_a_score_mod_does(self):
        for words, score in {
            "aten.abs.default": lambda s, b, h, q, k: s.abs(),
            "aten.maximum.default": lambda s, b, h, q, k: torch.maximum(s, q * 0.1),
            "two values that depend on the score": lambda s, b, h, q, k: s * s,
            "what depends on the key": lambda s, b, h, q, k: s * k,
            "two scores": lambda s, b, h, q, k: torch.where(q > k, s, 2 * s),
            "must be -inf": lambda s, b, h, q, k: torch.where(q > k, s, -1e9),
            "capped, masked or added to": lambda s, b, h, q, k: 20 * torch.tanh((s + 1) / 20),
            "does not depend on the score": lambda s, b, h, q, k: q * 1.0,
            "-inf is added": lambda s, b, h, q, k: s - math.inf,
            "random": lambda s, b, h, q, k: s + torch.rand(()),
            "cannot be traced": lambda s, b, h, q, k: s if q > k else s + 1,
            "aten.exp.default": lambda s, b, h, q, k: s.exp(),
            "in place": lambda s, b, h, q, k: SLOPES.detach().add_(1)[h] + s,
        }.items():
            with self.subTest(words):
                self.refuse(words, score, kind=NotImplementedError)

    @unittest.skipUnless(older("torch", "2.6"), "torch 2.6 keeps BLOCK_SIZE")
    def test_a_block_size_that_torch_forgot(self):
        mask = theirs.create_block_mask(lambda b, h, q, k: q >= k, None, None, N, N, device="cpu", BLOCK_SIZE=32)
        self.refuse("of 640 queries and 640 keys, not of 150 and 150; before torch 2.6 .* hga.torch.create_block_mask keeps it", None, mask)
        mask = theirs.create_block_mask(lambda b, h, q, k: q >= k, None, None, N, N, device="cpu")
        self.assertEqual(hga.torch.flex_attention(*tensors(), None, mask, enable_gqa=True).shape, (B, H, N, D + 3))

    def test_what_does_not_fit(self):
        q, k, v = tensors()
        self.refuse("not a function", 3, kind=TypeError)
        self.refuse("not a BlockMask", None, torch.ones(N, N), kind=TypeError)
        self.refuse("of 150 queries and 150 keys, not of 40 and 150", None, block_mask("causal"), inputs=tensors(n=40), kind=ValueError)
        self.refuse("enable_gqa", enable_gqa=False)
        self.refuse("do not divide", inputs=tensors(heads=3))
        self.refuse("float64", inputs=tensors(torch.float64))
        self.refuse("enable_gqa is 'yes'", enable_gqa="yes")
        self.refuse("scale is 'a'", scale="a")
        self.refuse("3 samples, key 2", inputs=(q[:1].expand(3, -1, -1, -1), k, v))
        self.refuse(r"\[batch\]\[heads\]", inputs=(q[0], k, v))
        mask = create_block_mask(lambda b, h, q, k: q >= k, 3, None, N, N, device="cpu")
        self.refuse("3 of axis B, query 2", None, mask)

    @since("torch", "2.9")
    def test_what_a_mask_mod_does(self):
        """torch's compiled kernel asks mask_mod about the real sample, though create_block_mask asked about the first alone."""
        mask = create_block_mask(MASKS["by sample"][0], None, None, N, N, device="cpu")
        self.refuse("mask_mod reads b", None, mask, kind=NotImplementedError)
        mask = create_block_mask(MASKS["by head"][0], None, None, N, N, device="cpu")
        self.refuse("mask_mod reads h", None, mask, kind=NotImplementedError)
        one = tensors(batch=1)
        mask = create_block_mask(MASKS["by sample"][0], None, None, N, N, device="cpu")
        hga.torch.flex_attention(*one, None, mask, enable_gqa=True)  # the first is all there is
        mask = BlockMask.from_kv_blocks(*(torch.ones(1, 1, 2, dtype=torch.int32), torch.arange(2, dtype=torch.int32).expand(1, 1, 2, 2)),
                                        mask_mod=lambda b, h, q, k: q - k, seq_lengths=(N, N))  # fmt: skip
        self.refuse("truth values", None, mask, kind=TypeError)


@needs("torch")
class Kept(unittest.TestCase):
    @since("torch", "2.6")
    def test_a_mask_is_asked_once_and_forgotten_with_its_block_mask(self):
        from hga._flex import masks as _flex_masks

        asked = []
        within = _flex_masks.Condition.within
        docs = torch.arange(N) // 13  # which no other test has
        inputs, mask = tensors(), create_block_mask(lambda b, h, q, k: docs[q] == docs[k], None, None, N, N, device="cpu", BLOCK_SIZE=32)
        _flex_masks.Condition.within = lambda self, *more: asked.append(1) or within(self, *more)
        try:
            first = hga.torch.flex_attention(*inputs, None, mask, enable_gqa=True)
            n = len(asked)
            self.assertEqual(n, 1)
            again = hga.torch.flex_attention(*inputs, None, mask, enable_gqa=True)
            self.assertEqual(len(asked), n)
            self.assertTrue(torch.equal(first, again))
        finally:
            _flex_masks.Condition.within = within
        h = weakref.ref(hga.torch.flex_hierarchy(inputs[0], inputs[1], None, mask))
        self.assertIsNotNone(h())
        del mask, first, again, inputs
        gc.collect()
        self.assertIsNone(h())

    @since("torch", "2.6")
    def test_captured_tensors_that_change_are_seen(self):
        docs = torch.arange(N) // 40
        inputs = tensors()

        def mod(b, h, q, k):
            return (docs[q] == docs[k]) | (q == 0)

        full = torch.zeros(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32)
        mask = BlockMask.from_kv_blocks(full[0] + 1, full[1], BLOCK_SIZE=256, mask_mod=mod, seq_lengths=(N, N))
        for _ in range(2):
            out = hga.torch.flex_attention(*inputs, None, mask, enable_gqa=True)
            np.testing.assert_allclose(out.detach(), eager(*inputs, None, mod)[0].detach(), atol=3e-6)
            docs.copy_(torch.arange(N) // 11)
        score = lambda s, b, h, q, k: torch.where(docs[q] == docs[k], s, -math.inf)  # noqa: E731
        for _ in range(2):
            out = hga.torch.flex_attention(*inputs, score, enable_gqa=True)
            np.testing.assert_allclose(out.detach(), eager(*inputs, score, None)[0].detach(), atol=3e-6)
            docs.copy_(torch.arange(N) // 23)

    def test_tensors_of_inference_mode_do_not_say_that_they_change(self):
        """A score_mod that masks by one looks at it in each call, in that mode and out of it."""
        with torch.inference_mode():
            docs, slopes = torch.arange(N) // 40, torch.arange(1.0, H + 1)
        score = lambda s, b, h, q, k: torch.where(docs[q] == docs[k], s * slopes[h], -math.inf)  # noqa: E731
        inputs = [x.detach() for x in tensors()]
        for mode in (True, False, True):
            with torch.inference_mode(mode):
                out = hga.torch.flex_attention(*inputs, score, enable_gqa=True)
                np.testing.assert_allclose(out, eager(*inputs, score, None)[0], atol=1e-5)
            with torch.inference_mode():
                docs.copy_(docs * 2 // 3)

    def test_hierarchies_can_be_asked_for(self):
        q, k, _ = tensors()
        h = hga.torch.flex_hierarchy(q, k, None, block_mask("sliding window"))
        self.assertTrue(h.is_causal())
        self.assertEqual(h.graph.n_edges(), sum(min(i + 1, 31) for i in range(N)))
        self.assertIn("tiles", h.explain())
        mask = block_mask("by head")
        edges = [hga.torch.flex_hierarchy(q, k, None, mask, head=i).graph.n_edges() for i in range(H)]
        self.assertEqual(edges, [sum(min(j + 1, 10 * (i + 1) + 1) for j in range(N)) for i in range(H)])
        with self.assertRaisesRegex(ValueError, "head is 4"):
            hga.torch.flex_hierarchy(q, k, None, mask, head=4)

    def test_a_window_of_16384_tokens_within_a_gigabyte(self):
        """Forward and backward; a dense mask alone would be that, its scores 8.6 of them."""
        program = """
import resource, torch, hga.torch
from torch._dynamo import _trace_wrapped_higher_order_op
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, n = peak(), 16384
mask = hga.torch.create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 256), None, None, n, n)
q, k, v = (torch.randn(1, 8, n, 64, requires_grad=True) for _ in range(3))
out = hga.torch.flex_attention(q, k, v, block_mask=mask)
out.sum().backward()
rows = hga.torch.flex_hierarchy(q, k, None, mask).graph.n_edges()
assert rows == 256 * n - 256 * 255 // 2, rows
print(peak() - before)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout), 1e6)


@needs("torch")
class BlockMasks(unittest.TestCase):
    def test_made_row_by_row_they_are_torchs(self):
        for name, (mod, by_sample, by_head) in MASKS.items():
            for size in (32, (64, 16)) if mod else ():
                with self.subTest(name, size=size):
                    sizes = (B if by_sample else None, H if by_head else None, N, N)
                    mine = hga.torch.create_block_mask(mod, *sizes, BLOCK_SIZE=size)
                    want = create_block_mask(mod, *sizes, device="cpu", BLOCK_SIZE=size)
                    for a, b in zip(mine.as_tuple(), want.as_tuple()):
                        if isinstance(a, torch.Tensor):
                            self.assertTrue(torch.equal(a, b))

    @since("torch", "2.9")
    def test_hierarchies_as_block_masks(self):
        q, k, v = (torch.randn(1, 2, 90, D) for _ in range(3))
        for h in (hga.window(90, left=9), hga.dense(90, causal=True), hga.Graph.from_mask(np.random.default_rng(1).random((90, 90)) < 0.4).hierarchy()):
            mask = h.to_block_mask(16)
            want = theirs.flex_attention(q.double(), k.double(), v.double(), block_mask=mask)
            np.testing.assert_allclose(h.attention(q, k, v), want, atol=3e-6)
            mine = hga.torch.flex_attention(q, k, v, block_mask=mask)  # and back
            np.testing.assert_allclose(mine, want, atol=3e-6)
        cross = hga.dense(30, n_keys=50).to_block_mask()
        self.assertEqual(cross.shape, (1, 1, 30, 50))

    @since("torch", "2.9")
    def test_coarse_nodes_are_rows(self):
        parent = np.concatenate([np.repeat(np.arange(64, 80), 4), np.repeat(np.arange(80, 84), 4), [84] * 4, [-1]])
        h = hga.Graph.from_parents(parent).hierarchy()
        mask, n = h.to_block_mask(16), len(parent)
        self.assertEqual(mask.shape, (1, 1, n, n))
        dense = torch.zeros(n, n, dtype=torch.bool)
        e = torch.from_numpy(h.edges().astype(np.int64))
        dense[e[:, 1], e[:, 0]] = True
        found = mask.mask_mod(None, None, torch.arange(n)[:, None], torch.arange(n)[None, :])
        self.assertTrue(torch.equal(found, dense))
        with self.assertRaisesRegex(NotImplementedError, "more than one edge"):
            b = hga.Builder()
            b.level(4)
            r = b.relation("twice")
            b.block(r, (0, 4), (0, 4))
            b.block(r, (0, 2), (0, 2))
            b.finish().hierarchy().to_block_mask()
        with self.assertRaisesRegex(NotImplementedError, "weights"):
            hga.Graph.from_edges([0, 1], [1, 0], 2, weight=[0.5, 1]).hierarchy().to_block_mask()
