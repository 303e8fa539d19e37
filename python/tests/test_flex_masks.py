"""Masks drawn at random are read without asking about pairs, and asked, and both are the graph of the array of truth
values that torch computes, pair by pair; the outputs have the same bits. Masks that only look alike are right."""

import random
import unittest
from unittest import mock

import hga
import numpy as np
from shared import needs, torch
from since import since

N, K, HEADS, B, D = 37, 45, 3, 2, 4  # queries, keys


if torch:
    from hga._flex import known as _flex_known
    from hga._flex import masks as _flex_masks
    from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask, or_masks
    g = torch.Generator().manual_seed(3)
    SORTED = torch.sort(torch.randint(0, 5, (K,), generator=g)).values
    BACK = torch.randint(0, 4, (K,), generator=g)  # documents that come back
    DOWN = SORTED.flip(0).to(torch.int32)
    SMALL = torch.randint(-100, 100, (K,), generator=g).to(torch.int8)  # whose sums overflow
    POSITION = torch.arange(K) - torch.tensor([0, 9, 20, 31]).repeat_interleave(torch.tensor([9, 11, 11, 14]))
    FLOATS = torch.randint(0, 6, (K,), generator=g) / 2
    HOLES = torch.where(torch.arange(K) % 9 == 4, torch.nan, FLOATS)  # not a number here and there
    BELOW = torch.rand(K, generator=g) < 0.7
    TABLE = torch.rand(N, K, generator=g) < 0.5
    BY_DISTANCE = torch.rand(N + K, generator=g) < 0.4
    LIMITS, WINDOWS = torch.tensor([5, 30]), torch.tensor([0, 4, 17])
    LEFT = torch.tensor(6)

    # What is read, of every form; and what has to be asked.
    READ = {
        "causal": lambda b, h, q, k: q >= k,
        "strictly": lambda b, h, q, k: k < q,
        "off by some": lambda b, h, q, k: q + 3 >= k,
        "off by a sample's": lambda b, h, q, k: q - LIMITS[b] >= k,
        "ahead": lambda b, h, q, k: q <= k,
        "itself": lambda b, h, q, k: q == k,
        "window": lambda b, h, q, k: q - k < 7,
        "window of a head": lambda b, h, q, k: (q - k).abs() <= WINDOWS[h],
        "window of a tensor": lambda b, h, q, k: q - k <= LEFT,
        "window of less than none": lambda b, h, q, k: (q - k).abs() <= -1,
        "window behind": lambda b, h, q, k: q - k >= 5,
        "window the other way": lambda b, h, q, k: -4 <= k - q,
        "window in floats": lambda b, h, q, k: (q - k).float() / 3 <= 2.5,
        "band": lambda b, h, q, k: (q - k < 9) & (k - q < 2),
        "prefix": lambda b, h, q, k: k < 11,
        "prefix of a sample": lambda b, h, q, k: k < LIMITS[b],
        "sinks": lambda b, h, q, k: k <= 2,
        "documents": lambda b, h, q, k: SORTED[q] == SORTED[k],
        "documents that come back": lambda b, h, q, k: BACK[k] == BACK[q],
        "documents, descending": lambda b, h, q, k: DOWN[q] == DOWN[k],
        "later documents": lambda b, h, q, k: SORTED[q] <= SORTED[k],
        "documents in floats": lambda b, h, q, k: FLOATS[q] == FLOATS[k],
        "numbers of two types": lambda b, h, q, k: DOWN[q] == SMALL[k],
        "the query's number and the key": lambda b, h, q, k: SORTED[q] * 9 >= k,
        "half of the query, rounded": lambda b, h, q, k: q / 2 >= k,
        "blocks": lambda b, h, q, k: q // 8 == k // 8,
        "later blocks": lambda b, h, q, k: q // 8 >= k // 8,
        "padding": lambda b, h, q, k: BELOW[k],
        "queries": lambda b, h, q, k: BELOW[q],
        "samples": lambda b, h, q, k: b == 1,
        "everything": lambda b, h, q, k: q >= 0,
        "nothing": lambda b, h, q, k: k < 0,
        "truth": lambda b, h, q, k: torch.tensor(True),
        "every third": lambda b, h, q, k: (q - k) % 3 == 0,
        "by a table of distances": lambda b, h, q, k: BY_DISTANCE[q - k + K],
        "in narrow numbers": lambda b, h, q, k: (q.to(torch.int32) - k.to(torch.int32)) <= 3,
    }
    ASKED = {
        "pairs": lambda b, h, q, k: TABLE[q, k],
        "sums that overflow": lambda b, h, q, k: SMALL[q] + SMALL[k] > 20,
        "not numbers": lambda b, h, q, k: HOLES[q] == HOLES[k],
        "not numbers, the other way": lambda b, h, q, k: ~(HOLES[q] < HOLES[k]),
        "earlier, in no order": lambda b, h, q, k: BACK[q] > BACK[k],
        "size of sums that overflow": lambda b, h, q, k: (SMALL[q] - SMALL[k]).abs() < 30,
        "products": lambda b, h, q, k: q * k % 7 < 3,
        "bits": lambda b, h, q, k: (q ^ k) % 5 < 2,
        "sums beyond whole numbers": lambda b, h, q, k: q * 2**40 - k * 2**40 + BACK[q] > 0,
        "size that is": lambda b, h, q, k: (q + BACK[q] - k).abs() == 3,
        "others": lambda b, h, q, k: k != q,
        "other documents": lambda b, h, q, k: BACK[q] != BACK[k],
        "earlier, of descending": lambda b, h, q, k: DOWN[k] > DOWN[q],
        "distance of positions": lambda b, h, q, k: (q - 2 - k + SORTED[q]).abs() < 6,
        "far by positions": lambda b, h, q, k: 5 <= (q + SORTED[q] - k).abs(),
        "chosen": lambda b, h, q, k: torch.where(q < 9, k < 4, q >= k),
    }  # fmt: skip
    JOINED = {
        "and": lambda x, y: lambda b, h, q, k: x(b, h, q, k) & y(b, h, q, k),
        "or": lambda x, y: lambda b, h, q, k: x(b, h, q, k) | y(b, h, q, k),
        "and not": lambda x, y: lambda b, h, q, k: x(b, h, q, k) & ~y(b, h, q, k),
        "not or": lambda x, y: lambda b, h, q, k: ~(x(b, h, q, k) | y(b, h, q, k)),
        "either": lambda x, y: lambda b, h, q, k: x(b, h, q, k) ^ y(b, h, q, k),
        "times": lambda x, y: lambda b, h, q, k: x(b, h, q, k) * y(b, h, q, k),
        "logical": lambda x, y: lambda b, h, q, k: torch.logical_or(torch.logical_not(x(b, h, q, k)), torch.logical_and(x(b, h, q, k), y(b, h, q, k))),
        "and_masks": lambda x, y: and_masks(x, y),
        "or_masks": lambda x, y: or_masks(x, y),
        "chosen": lambda x, y: lambda b, h, q, k: torch.where(x(b, h, q, k), y(b, h, q, k), q >= k),
        "alike": lambda x, y: lambda b, h, q, k: x(b, h, q, k) == y(b, h, q, k),
    }

    def unread(traced, parts, b, h, n_queries, n_keys):
        """As if nothing were understood."""
        return _flex_known.Reader(traced, b, h, n_queries, n_keys).unknown()

    def asked():
        return mock.patch.object(_flex_masks, "between", unread)

    def dense(mod, b, h, n=N, n_keys=K):
        """What torch computes of every pair of a sample and head."""
        over_keys = torch.vmap(mod, in_dims=(None, None, None, 0))
        over = torch.vmap(over_keys, in_dims=(None, None, 0, None))
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        with TransformGetItemToIndex():
            return over(torch.tensor(b), torch.tensor(h), torch.arange(n), torch.arange(n_keys)).expand(n, n_keys)

    def tensors(n=N, n_keys=K, batch=B):
        g = torch.Generator().manual_seed(9)
        return [torch.randn(batch, HEADS, rows, D, generator=g) for rows in (n, n_keys, n_keys)]

    def drawn(n):
        r = random.Random(4)
        for _ in range(n):
            of = [r.choice([*READ] * 3 + [*ASKED]) for _ in range(r.choice((1, 2, 2, 3)))]
            how = [r.choice([*JOINED]) for _ in of[1:]]
            mod = {**READ, **ASKED}[of[0]]
            for join, name in zip(how, of[1:]):
                mod = JOINED[join](mod, {**READ, **ASKED}[name])
            yield ", ".join([of[0], *(f"{join} {name}" for join, name in zip(how, of[1:]))]), mod, r


@needs("torch")
class BothWays(unittest.TestCase):
    def setUp(self):
        _flex_masks._HIERARCHIES.clear()

    def graphs(self, block_mask, score=None, n=N, n_keys=K):
        """Of every sample and head, of a mask that nobody has seen."""
        q, k, _ = tensors(n, n_keys)
        _flex_masks._MASKS.clear(), _flex_masks._HIERARCHIES.clear()
        return [hga.torch.flex_hierarchy(q, k, score, block_mask, b, h).graph for b in range(B) for h in range(HEADS)]

    def assert_same(self, mod, block_mask, score=None, sees=None):
        """Read and asked alike, and both as `sees`, or the mask_mod itself, has every pair."""
        read = self.graphs(block_mask, score)
        out = hga.torch.flex_attention(*tensors(), score, block_mask)
        with asked():
            self.assertEqual(read, self.graphs(block_mask, score))
            self.assertTrue(torch.equal(out, hga.torch.flex_attention(*tensors(), score, block_mask)))
        for i, graph in enumerate(read):
            at = divmod(i, HEADS)
            want = dense(mod, *at) if sees is None else sees(*at)
            self.assertEqual(graph, hga.Graph.from_mask(want), at)

    def test_masks_that_are_drawn(self):
        for name, mod, _ in drawn(50):
            with self.subTest(name):
                mask = hga.torch.create_block_mask(mod, B, HEADS, N, K, BLOCK_SIZE=8)
                with asked():
                    other = hga.torch.create_block_mask(mod, B, HEADS, N, K, BLOCK_SIZE=8)
                theirs = create_block_mask(mod, B, HEADS, N, K, device="cpu", BLOCK_SIZE=8)
                for x, y, z in zip(mask.as_tuple(), other.as_tuple(), theirs.as_tuple()):
                    self.assertTrue(not isinstance(x, torch.Tensor) or (torch.equal(x, y) and torch.equal(x, z)))
                self.assertEqual(self.graphs(mask), self.graphs(theirs))
                self.assert_same(mod, theirs)

    def test_block_masks_and_score_mods_that_are_drawn(self):
        """Full blocks count whatever the mask_mod says, those that are not listed do not; a score_mod masks besides."""
        g = torch.Generator().manual_seed(8)
        named = [*drawn(20)]
        for (name, mod, r), (more, masked, _) in zip(named, named[1:]):
            kind = torch.randint(0, 3, (B, r.choice((1, HEADS)), 5, 6), generator=g)  # 0: not, 1: partly, 2: whole
            if kind.shape[1] == 1 and "head" in name:
                continue
            lists = [torch.argsort((kind == i).int(), dim=-1, descending=True, stable=True).int() for i in (1, 2)]
            counts = [(kind == i).sum(-1).int() for i in (1, 2)]
            mask = BlockMask.from_kv_blocks(counts[0], lists[0], counts[1], lists[1], 8, mod, (N, K))

            def sees(b, h, mod=mod, kind=kind, masked=masked):
                blocks = kind[b, min(h, kind.shape[1] - 1)].repeat_interleave(8, 0).repeat_interleave(8, 1)[:N, :K]
                seen = (blocks == 2) | ((blocks == 1) & dense(mod, b, h))
                return seen if masked is None else seen & dense(masked, b, h)

            with self.subTest(name):
                self.assert_same(None, mask, None, lambda b, h: sees(b, h, masked=None))  # noqa: B023
            with self.subTest(name, score_mod=more):
                score = lambda s, b, h, q, k, masked=masked: torch.where(masked(b, h, q, k), s, -torch.inf)  # noqa: E731
                self.assert_same(None, mask, score, sees)

    def test_types_by_distance_are_the_same(self):
        table = torch.randn(N + K)
        for name, mod in {**READ, **ASKED}.items():
            score = lambda s, b, h, q, k, mod=mod: torch.where(mod(b, h, q, k), s + table[q - k + K], -torch.inf)  # noqa: E731
            found = self.graphs(None, score)
            with self.subTest(name), asked():
                self.assertEqual(found, self.graphs(None, score))
                self.assertEqual(found[4], hga.Graph.from_mask(dense(mod, 1, 1), relative=True))

    def test_what_is_read_and_what_is_not(self):
        def found(mod):
            traced = _flex_masks.of_function(mod).traced
            return _flex_known.between(traced, [(traced.out, True)], 1, 2, N, K)

        for name, mod in READ.items():
            self.assertTrue(found(mod).is_known, name)
        for name, mod in ASKED.items():
            self.assertFalse(found(mod).is_known, name)
        of_known = found(lambda b, h, q, k: TABLE[q, k] & (q >= k) | (k < 3))  # what is known of the rest is not asked
        self.assertTrue(len(of_known.least.first) and not of_known.most.is_all())


@needs("torch")
class Asked(unittest.TestCase):
    """How often."""

    def count(self, mod, n=1000, samples=None, heads=None, block_mask=None, batch=B):
        """Pairs that are asked by create_block_mask and the first two flex_attentions."""
        pairs, asked = _flex_masks.Condition.pairs, []

        def counted(self, b, h, q, k):
            asked.append(len(q) * len(k))
            return pairs(self, b, h, q, k)

        with mock.patch.object(_flex_masks.Condition, "pairs", counted):
            mask = block_mask or hga.torch.create_block_mask(mod, samples, heads, n, n)
            x = tensors(n, n, batch)
            out = [hga.torch.flex_attention(*x, None, mask) for _ in range(2)]
        self.assertTrue(torch.equal(*out))
        return sum(asked)

    def test_no_pair_of_what_is_read(self):
        docs = torch.arange(1000) // 90
        for mod in (
            lambda b, h, q, k: docs[q] == docs[k],
            lambda b, h, q, k: (docs[q] == docs[k]) & (q >= k) & (q - k < 100),
            lambda b, h, q, k: ((q >= k) & (q - k <= 255)) | (k < 4),
            or_masks(lambda b, h, q, k: k < 64, and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: docs[q] == docs[k])),
        ):
            self.assertEqual(self.count(mod, samples=B, heads=HEADS), 0)

    def test_once_for_all_heads_and_samples(self):
        table = torch.rand(1000, 1000, generator=torch.Generator().manual_seed(1)) < 0.01
        odd = lambda b, h, q, k: table[q, k]  # noqa: E731
        self.assertEqual(self.count(odd, samples=B, heads=HEADS), 10**6)
        self.assertEqual(self.count(lambda b, h, q, k: table[q, k] | (k == h), samples=B, heads=HEADS), HEADS * 10**6)
        self.assertEqual(self.count(lambda b, h, q, k: table[q, k] | (k == b), samples=B), B * 10**6)

    @since("torch", "2.10")  # torch 2.9 fails by itself, in from_kv_blocks
    def test_no_more_than_what_is_open(self):
        """Only tiles of which a part is neither seen nor hidden already."""
        table = torch.rand(4096, 4096, generator=torch.Generator().manual_seed(1)) < 0.01
        mod = lambda b, h, q, k: (k < 7) | (table[q, k] & (k < 2048) & (q < 2000))  # noqa: E731
        self.assertEqual(self.count(mod, n=4096, batch=1), 2048 * 2048)
        one = torch.ones(1, 1, 32, dtype=torch.int32)
        whole = BlockMask.from_kv_blocks(one * 0, one[..., None] * 0, one, one[..., None] * 3, 128, mod, (4096, 4096))
        self.assertEqual(self.count(mod, n=4096, block_mask=whole, batch=1), 0)

    @since("torch", "2.10")  # torch 2.9 fails by itself, in from_kv_blocks
    def test_equal_blocks_of_heads_are_one_graph(self):
        number = torch.full((1, HEADS, 8), 2, dtype=torch.int32)
        at = torch.tensor([[0, 2, 5, 9], [2, 0, 7, 7], [1, 2, 0, 0]], dtype=torch.int32)[None, :, None].expand(1, HEADS, 8, 4)
        mask = BlockMask.from_kv_blocks(number, at.contiguous(), None, None, 128, None, (1000, 1280))
        q, k, _ = tensors(1000, 1280)
        found = [hga.torch.flex_hierarchy(q, k, None, mask, head=h) for h in range(HEADS)]
        self.assertTrue(found[0] is found[1] and found[0] is not found[2])
        wrong = BlockMask.from_kv_blocks(number + 2, at.contiguous() + 1, None, None, 128, None, (1000, 1280))
        with self.assertRaisesRegex(ValueError, "kv_indices lists block 10 of 10"):
            hga.torch.flex_hierarchy(q, k, None, wrong)


@needs("torch")
class Changed(unittest.TestCase):
    """What a mask depends on is read when it is needed."""

    def check(self, mask, mod):
        out = hga.torch.flex_attention(*tensors(), None, mask)
        want = [[hga.Graph.from_mask(dense(mod, b, h)).hierarchy() for h in range(HEADS)] for b in range(B)]
        q, k, v = tensors()
        for b, h in np.ndindex(B, HEADS):
            self.assertTrue(torch.equal(out[b, h], want[b][h].attention(q[b, h : h + 1], k[b, h : h + 1], v[b, h : h + 1])[0]))

    def test_captured_tensors_that_change_in_place(self):
        docs, limit = SORTED.clone(), torch.tensor(4)
        mods = {
            "documents": lambda b, h, q, k: (docs[q] == docs[k]) & (q >= k),
            "a limit": lambda b, h, q, k: q - k <= limit,
        }
        for name, mod in mods.items():
            with self.subTest(name):
                mine = hga.torch.create_block_mask(mod, B, HEADS, N, K, BLOCK_SIZE=64)  # one block, partly seen before and after
                theirs = create_block_mask(mod, B, HEADS, N, K, BLOCK_SIZE=64, device="cpu")
                for _ in range(3):
                    self.check(mine, mod), self.check(theirs, mod)
                    docs.add_(torch.arange(K) > 17), limit.add_(3)

    def test_lists_of_blocks_that_change_in_place(self):
        number, at = torch.full((1, 1, 5), 1, dtype=torch.int32), torch.zeros(1, 1, 5, 6, dtype=torch.int32)
        mask = BlockMask((N, K), number, at, None, None, None, None, None, None, (8, 8), READ["everything"])
        for column in (0, 3, 5):
            at.fill_(column)
            self.check(mask, lambda b, h, q, k, column=column: k // 8 == column)

    def test_what_only_other_pairs_could_ask(self):
        """A table that is too short for some queries and keys, which no listed block has."""
        short = torch.arange(16) // 5
        number, at = torch.tensor([[[1, 1, 0, 0, 0]]], dtype=torch.int32), torch.zeros(1, 1, 5, 6, dtype=torch.int32)
        mask = BlockMask.from_kv_blocks(number, at, None, None, 8, lambda b, h, q, k: short[q] == short[k], (N, K))
        with mock.patch.object(_flex_masks, "TILE", (8, 8)):
            self.check(mask, lambda b, h, q, k: (q < 16) & (k < 8) & (q // 5 == k // 5))
