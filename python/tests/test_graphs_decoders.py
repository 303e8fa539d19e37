"""What is appended token by token comes out as from a full pass, whatever is forked, cut, written and read between."""

import copy
import ctypes
import gc
import os
import pickle
import tempfile
import threading
import unittest
import weakref

import hga
import numpy as np
from shared import at_once, needs, refused, torch
from test_graphs_objects import near_and_far

PARENT = np.concatenate([np.full(30, 90), np.full(30, 91), np.full(30, 92), [93, 93, 93, -1]])


def program(n=90):
    """Two stages: a band, then coarse rows of five tokens that are over."""
    b = hga.Builder()
    tokens, spans = b.level(n), b.level(n // 5)
    b.families(spans, tokens, each=5)
    near, far = b.relation("near"), b.relation("far")
    for i in range(n):
        for j in range(max(0, i - 3), i + 1):
            b.edge(near, j, i)
        for s in range(i // 5):
            b.edge(far, spans + s, i)
    return near_and_far(b.finish()).hierarchy()


CAUSAL = {
    "dense": hga.dense(90, causal=True), "window": hga.window(90, left=9, right=0), "stride": hga.window(90, left=9, right=0, stride=3),
    "global": hga.window(90, left=9, global_=2, causal=True),
    "bpt": hga.bpt(90, k=2, causal=True), "htransformer": hga.htransformer(90, block=4, causal=True),
    "relative": hga.htransformer(90, block=4, causal=True, relative=True), "siblings": hga.htransformer(90, block=4, causal=True, structure="siblings"),
    "hsa": hga.hsa(90, branching=[3, 3], causal=True), "hsa of parents": hga.hsa(parent=PARENT, causal=True), "fenwick": hga.fenwick(90),
    "dilated": hga.dilated(90, segments=[8, 32], dilations=[1, 4], causal=True), "ragged": hga.htransformer([20, 33, 37], block=4, causal=True),
    "fine": hga.treeformer_fine(90, query_leaf=np.arange(90) % 4, causal=True),
    "segments": hga.segments(90, query_segment=np.arange(90) // 7, causal=True),
    "neighbourhood": hga.neighbourhood(shape=(90,), kernel=5, causal=(True,)),
    "edges": hga.Graph.from_edges(np.stack([np.arange(90), np.arange(90) // 3], 1).ravel(), np.repeat(np.arange(90), 2), 90).hierarchy(),
    "own": program(), "read back": None,
}  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    CAUSAL["own"].write(os.path.join(folder, "h.json"))
    CAUSAL["read back"] = hga.read(os.path.join(folder, "h.json"))


def tensors(h, heads=4, kv_heads=2, dim=12, dim_v=9, seed=1):
    rng = np.random.default_rng(seed)
    shapes = ((heads, h.rows, dim), (kv_heads, h.rows, dim), (kv_heads, h.rows, dim_v))
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def pages_of_process():
    """Bytes of addresses, and of those that are resident."""
    with open("/proc/self/statm") as f:
        return np.array(f.read().split()[:2], np.int64) * os.sysconf("SC_PAGESIZE")


def decoder(h, **more):
    return h.decoder(**{**dict(heads=4, kv_heads=2, dim=12, dim_v=9, same=True), **more})


class Feed:
    """A sequence's tensors, brought to a cache a few tokens at a time, and compared with the full pass."""

    def __init__(self, test, h, d, seed=1, **more):
        self.test, self.h, self.d, self.qkv = test, h, d, tensors(h, seed=seed)
        try:
            self.want, self.lse = h.attention(*self.qkv, lse=True, **more)
        except NotImplementedError:  # hsa has no log-sum-exp
            self.want, self.lse = h.attention(*self.qkv, **more), None

    def rows(self, cache, n):
        at = self.d.rows(len(cache), n)
        return [x[:, at] for x in self.qkv], at

    def append(self, cache, n):
        rows, at = self.rows(cache, n)
        found = cache.append(*rows, lse=self.lse is not None)
        out = found[0] if self.lse is not None else found
        self.test.assertTrue(np.array_equal(out, self.want[:, at]), self.h)
        if self.lse is not None:
            self.test.assertTrue(np.array_equal(found[1], self.lse[:, at]), self.h)

    def all(self, cache, most, seed=3):
        rng = np.random.default_rng(seed)
        while len(cache) < self.d.n_tokens:
            self.append(cache, min(int(rng.integers(1, most + 1)), self.d.n_tokens - len(cache)))


# Of n tokens: what has orders, and what is told of a longer graph.
OF_TOKENS = {
    "dense": lambda n: hga.dense(n, causal=True),
    "htransformer": lambda n: hga.htransformer(n, block=4, causal=True),
    "dilated": lambda n: hga.dilated(n, causal=True),
    "stride": lambda n: hga.window(n, left=90, right=0, stride=7, global_=3, causal=True),
    "fine": lambda n: hga.treeformer_fine(n, query_leaf=np.arange(n) * 7 % 5, causal=True),
    "segments": lambda n: hga.segments(n, query_segment=np.arange(n) // 50, causal=True),
    "neighbourhood": lambda n: hga.neighbourhood(shape=(n,), kernel=9, dilation=3, causal=(True,)),
}


class Rows(unittest.TestCase):
    def test_rows_are_found_wherever_they_lie(self):
        """What a decoder remembers of how rows lay says nothing of where: each append reads its own arrays."""
        h = CAUSAL["htransformer"]
        q, k, v = tensors(h)
        want, lse = h.attention(q, k, v, lse=True)
        turned = [np.ascontiguousarray(x.swapaxes(0, 1)) for x in (q, k, v)]
        d = decoder(h)
        c = d.cache()
        for t in range(90):
            one = slice(t, t + 1)
            of = [x[:, one] for x in (q, k, v)]  # heads far from each other
            ways = [lambda: c.append(*of), lambda: c.append(*map(np.array, of)), lambda: c.append(*(x[one] for x in turned), layout="bnhd"),
                    lambda: c.append(*of, lse=True)]  # fmt: skip
            if torch:
                ways += [lambda: c.append(*(torch.from_numpy(x) for x in of)).numpy(), lambda: c.append(*map(torch.tensor, of)).numpy()]
            found = ways[t % len(ways)]()
            if t % len(ways) == 3:
                found, sums = found
                self.assertTrue(np.array_equal(sums, lse[:, one]), t)
            if t % len(ways) == 2:
                found = found.swapaxes(0, 1)
            self.assertTrue(np.array_equal(found, want[:, one]), t)

    def test_lengths_of_appends_are_as_many_as_you_like(self):
        h = hga.window(6000, left=9, right=0)
        q, k, v = tensors(h, heads=1, kv_heads=1, dim=2, dim_v=2)
        d = h.decoder(heads=1, dim=2, same=True)
        c, want = d.cache(), h.attention(q, k, v)
        for n in range(1, 100):
            at = slice(len(c), len(c) + n)
            self.assertTrue(np.array_equal(c.append(q[:, at], k[:, at], v[:, at]), want[:, at]), n)
        with self.assertRaisesRegex(ValueError, "key has 2 rows, query 1"):
            c.append(q[:, :1], k[:, :2], v[:, :1])

    def test_a_decoder_of_more_tokens_has_the_bits_of_a_shorter_pass(self):
        for name, of in OF_TOKENS.items():
            for n, more in ((33, 5), (150, 81)):
                with self.subTest(name, n=n):
                    h, longer = of(n), of(n + more)
                    q, k, v = tensors(longer)
                    want = h.attention(*(x[:, :n] for x in (q, k, v)))
                    c = decoder(longer).cache()
                    for at in range(0, n, 11):
                        part = slice(at, min(n, at + 11))
                        self.assertTrue(np.array_equal(c.append(q[:, part], k[:, part], v[:, part]), want[:, part]))
                    with tempfile.TemporaryDirectory() as folder:
                        path = os.path.join(folder, "h.json")
                        h.write(path)
                        self.assertTrue(np.array_equal(hga.read(path).attention(*(x[:, :n] for x in (q, k, v))), want))

    def test_rows_have_the_bits_of_attention_however_tokens_are_cut(self):
        settings = ({}, dict(threads=2), dict(precision="bf16", threads=1), dict(isa="ref", threads=1))
        for i, (name, h) in enumerate(CAUSAL.items()):
            for j, more in enumerate(settings):
                with self.subTest(name, **more):
                    d = decoder(h, page_rows=(0, 4)[j % 2], **more)
                    for most in (1, 40) if (i + j) % 2 else (5, 90):
                        Feed(self, h, d, **more).all(d.cache(), most)

    def test_every_scoring_in_bf16_has_the_bits_of_attention(self):
        kinds = (dict(), dict(normaliser="sigmoid"), dict(normaliser="entmax:1.5"))
        for name in ("fenwick", "bpt", "window"):
            for h in (CAUSAL[name], CAUSAL[name].additive_scores()):
                for more in kinds:
                    with self.subTest(name, **more):
                        more = dict(precision="bf16", threads=1, **more)
                        d = decoder(h, **more)
                        for most in (1, 40):
                            Feed(self, h, d, **more).all(d.cache(), most)

    def test_without_same_rows_are_within_two_millionths(self):
        for name, h in CAUSAL.items():
            q, k, v = tensors(h)
            d, want = decoder(h, same=False), h.attention(q, k, v)
            cache = d.cache()
            for _ in range(d.n_tokens):
                at = d.rows(len(cache), 1)
                self.assertLess(abs(cache.append(q[:, at], k[:, at], v[:, at]) - want[:, at]).max(), 2e-6, name)

    def test_tables_scales_and_modifiers_are_those_of_attention(self):
        rng = np.random.default_rng(5)
        numbers = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
        h = CAUSAL["relative"]
        nodes = h.graph.n_nodes
        slopes = np.array([0.5, 0.25, 0, 0.125], np.float32)
        for h, more in (
            (h, dict(rel_key=numbers(40, 12), rel_bias=numbers(40, 4))), (h, dict(node_pos=numbers(nodes, 3))),
            (CAUSAL["window"], dict(sink=numbers(4), slopes=slopes, softcap=2.0)), (CAUSAL["htransformer"], dict(slopes=slopes)),
            (CAUSAL["dense"], dict(scale=0.0)), (CAUSAL["dense"], dict(scale=0.0, sink=numbers(4))), (CAUSAL["bpt"], dict(scale=0.7)),
            (CAUSAL["hsa of parents"], dict(node_pos=numbers(len(PARENT), 2))),
            (CAUSAL["window"], dict(normaliser="sigmoid:-1.5", scale=0.3)), (CAUSAL["dense"], dict(normalizer="entmax:1.5")),
            (CAUSAL["window"].additive_scores(), dict(additive=numbers(4, 12))),
        ):  # fmt: skip
            with self.subTest(h.words, more=tuple(more)):
                if "node_pos" in more:
                    more["node_pos"] = np.abs(more["node_pos"])
                d = decoder(h, **more)
                Feed(self, h, d, **more).all(d.cache(), 7)

    def test_layouts_strides_and_one_head(self):
        h = CAUSAL["htransformer"]
        d, (q, k, v) = decoder(h), tensors(h)
        want = h.attention(q, k, v)
        turned = [x.transpose(1, 0, 2) for x in (q, k, v)]
        for packed in (False, True):
            cache = d.cache()
            for i in (0, 45):
                rows = [np.ascontiguousarray(x[i : i + 45]) if packed else x[i : i + 45] for x in turned]
                self.assertTrue(np.array_equal(cache.append(*rows, layout="bnhd"), want.transpose(1, 0, 2)[i : i + 45]))
        one = h.decoder(heads=1, dim=12, dim_v=9, same=True).cache()
        want, lse = h.attention(q[0], k[0], v[0], lse=True)
        for i in range(0, 90, 9):
            out, lses = one.append(*(x[0, i : i + 9] for x in (q, k, v)), lse=True)
            self.assertTrue(np.array_equal(out, want[i : i + 9]) and np.array_equal(lses, lse[i : i + 9]))

    def test_pages_of_16_bits_are_tensors_that_were_rounded(self):
        for name in ("window", "dense", "fine"):
            h = CAUSAL[name]
            qkv = tensors(h)
            rounded = [((x.view("<u4") + 0x7FFF + (x.view("<u4") >> 16 & 1)) >> 16 << 16).astype("<u4").view("<f4") for x in qkv]
            want, cache, half = h.attention(*rounded), decoder(h).cache(), decoder(h, page_type="bf16").cache()
            for i in range(0, 84, 6):
                self.assertTrue(np.array_equal(half.append(*(x[:, i : i + 6] for x in qkv)), want[:, i : i + 6]), name)
                cache.append(*(x[:, i : i + 6] for x in qkv))
            self.assertLess(half.bytes, 0.6 * cache.bytes)

    @needs("torch")
    def test_torch_in_torch_out(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            h = CAUSAL["htransformer"]
            q, k, v = (torch.from_numpy(x).to(dtype) for x in tensors(h))
            of = decoder(h, row_type="bf16" if dtype == torch.bfloat16 else "f32")
            cache, (want, lse) = of.cache(), h.attention(q, k, v, lse=True)
            for i in range(0, 90, 15):
                out, lses = cache.append(q[:, i : i + 15], k[:, i : i + 15], v[:, i : i + 15], lse=True)
                self.assertEqual((out.dtype, lses.dtype), (dtype, torch.float32))
                self.assertTrue(torch.equal(out, want[:, i : i + 15]) and torch.equal(lses, lse[:, i : i + 15]))
        q.requires_grad_()
        refused(self, "query requires a gradient, which decoding has not", lambda: decoder(h).cache().append(q, k, v))
        with torch.no_grad():
            self.assertTrue(torch.equal(decoder(h).cache().append(q, k, v), want))

    @needs("torch")
    def test_tensors_are_read_however_they_lie(self):
        h, (q, k, v) = hga.window(8, left=8, right=0), (torch.randn(2, 8, 3) for _ in range(3))
        want = h.attention(q, k, v)
        same = h.attention(q, *(x[:1].expand(2, 8, 3) for x in (k, v)))
        odd = torch.frombuffer(bytearray(4 * 48 + 1), dtype=torch.float32, offset=1, count=48).view(2, 8, 3)
        forms = {
            "packed": lambda x: x, "turned": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
            "columns between others": lambda x: torch.cat([x, x], -1)[..., :3], "a parameter": lambda x: torch.nn.Parameter(x, False),
        }  # fmt: skip
        for name, of in forms.items():
            with self.subTest(name):
                d = h.decoder(heads=2, dim=3, same=True)
                self.assertTrue(torch.equal(d.cache().append(of(q), of(k), of(v)), want))
        d = h.decoder(heads=2, dim=3, same=True)
        self.assertTrue(torch.equal(d.cache().append(q, *(x[:1].expand(2, 8, 3) for x in (k, v))), same))
        refused(self, "the address of query is not a multiple of 4 bytes", lambda: d.cache().append(odd, k, v))

    @needs("torch")
    def test_after_plain_tensors_others_of_their_shape_are_told_apart(self):
        q, k, v = (torch.randn(2, 1, 3) for _ in range(3))
        cache = hga.dense(8, causal=True).decoder(heads=2, dim=3).cache()
        cache.append(q, k, v)
        others = {
            "query requires a gradient": q.clone().requires_grad_(), "query is on meta": q.to("meta"), "query has layout torch.sparse_coo": q.to_sparse(),
            "query has layout torch._mkldnn": q.to_mkldnn(), "query has dtype torch.float64": q.double(), "query has layout nested": torch.nested.nested_tensor([q]),
        }  # fmt: skip
        for said, x in others.items():
            with self.subTest(said), self.assertRaisesRegex(hga.Error, said):
                cache.append(x, k, v)
        lazily, written = cache.fork(), cache.fork()
        self.assertTrue(torch.equal(lazily.append(torch._neg_view(q), k, v), written.append(-q, k, v)))
        self.assertEqual((len(cache), cache.append(q.half(), k, v).dtype), (1, torch.float16))

    @needs("torch")
    def test_strides_in_bytes_are_not_taken_for_strides_in_numbers(self):
        h = hga.window(8, left=8, right=0)
        d, packed = h.decoder(heads=2, dim=1, same=True), np.array([[[1.0]], [[2.0]]], np.float32)
        d.cache().append(packed, packed, packed)  # 4 bytes apart
        far = torch.arange(8.0).as_strided((2, 1, 1), (4, 4, 4))
        self.assertEqual(d.cache().append(far, far, far).ravel().tolist(), [0.0, 4.0])


class Caches(unittest.TestCase):
    def test_several_caches_share_tables(self):
        h = CAUSAL["window"]
        more = dict(sink=np.array([1, -1, 0, 3], np.float32), softcap=0.5, scale=0.4)
        d = decoder(h, **more)
        feeds, caches = [Feed(self, h, d, seed=i, **more) for i in range(3)], [d.cache() for _ in range(3)]
        for i in range(0, 90, 30):
            out = d.append(caches, *([f.qkv[t][:, i : i + 30] for f in feeds] for t in range(3)))
            for f, x in zip(feeds, out):
                self.assertTrue(np.array_equal(x, f.want[:, i : i + 30]))

    def test_several_caches_take_ragged_tokens_in_one_call(self):
        for name, h in CAUSAL.items():
            with self.subTest(name):
                d, rng = decoder(h), np.random.default_rng(9)
                feeds, caches = [Feed(self, h, d, seed=i) for i in range(5)], [d.cache() for _ in range(5)]
                for _ in range(8):
                    listed = [i for i in rng.permutation(5) if len(caches[i]) < 80][:4]
                    rows = [feeds[i].rows(caches[i], int(rng.integers(1, 10))) for i in listed]
                    found = d.append([caches[i] for i in listed], *([r[0][t] for r in rows] for t in range(3)))
                    for i, (_, at), out in zip(listed, rows, found):
                        self.assertTrue(np.array_equal(out, feeds[i].want[:, at]))

    def test_arrays_with_an_axis_of_caches(self):
        h = CAUSAL["htransformer"]
        d, qkv = decoder(h), [np.stack(x) for x in zip(*(tensors(h, seed=i) for i in range(3)))]
        want, lse = h.attention(*qkv, lse=True)
        caches = [d.cache() for _ in range(3)]
        for i in range(0, 90, 30):
            out, lses = d.append(caches, *(x[:, :, i : i + 30] for x in qkv), lse=True)
            self.assertTrue(np.array_equal(out, want[:, :, i : i + 30]) and np.array_equal(lses, lse[:, :, i : i + 30]))
        self.assertEqual(d.append([], [], [], []), [])
        if torch:
            caches = [d.cache() for _ in range(3)]
            out = d.append(caches, *(torch.from_numpy(x[:, :, :20]) for x in qkv))
            self.assertTrue(torch.equal(out, torch.from_numpy(want[:, :, :20])))

    def test_forks_go_their_own_way(self):
        for name, h in CAUSAL.items():
            with self.subTest(name):
                d = decoder(h, rollback=6)
                feed, other = Feed(self, h, d), tensors(h, seed=8)
                a = d.cache()
                feed.append(a, 41)
                before = d.used_bytes
                b = a.fork()
                self.assertEqual(d.used_bytes, before)
                b.cut(37)
                mixed = [x.copy() for x in feed.qkv]
                new = d.rows(37, d.n_tokens - 37)
                for x, y in zip(mixed, other):
                    x[:, new] = y[:, new]
                want = h.attention(*mixed)
                for n in (3, 20, 11):  # in turns
                    at = d.rows(len(b), n)
                    self.assertTrue(np.array_equal(b.append(*(x[:, at] for x in mixed)), want[:, at]))
                    feed.append(a, n)
                c = copy.copy(a)
                del a
                feed.append(c, 4)
                self.assertEqual(len(copy.deepcopy(c)), len(c))

    def test_tokens_are_taken_back_and_appended_again(self):
        for name, h in CAUSAL.items():
            with self.subTest(name):
                d = decoder(h, rollback=5)
                feed, cache = Feed(self, h, d), d.cache()
                for n, back in ((20, 5), (1, 1), (9, 3), (30, 0), (7, 5), (2, 2)):
                    feed.append(cache, n)
                    cache.cut(len(cache) - back)
                feed.append(cache, 10)
                n = len(cache)
                cache.cut(n - 2)
                with self.assertRaisesRegex(ValueError, f"cut to {n - 5} tokens or more, not to 4: its rollback is 5"):
                    cache.cut(4)
                with self.assertRaisesRegex(ValueError, f"{n - 2} tokens cannot be cut to {n}"):
                    cache.cut(n)
                self.assertEqual(len(cache), n - 2)
                cache.cut(0)
                self.assertEqual((len(cache), d.used_bytes, bool(cache)), (0, 0, True))
                feed.all(cache, 30)

    def test_files_bring_caches_back(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, h in CAUSAL.items():
                d, again, path = decoder(h, rollback=2), decoder(h, rollback=2), os.path.join(folder, name)
                feed, cache = Feed(self, h, d), d.cache()
                feed.append(cache, 50)
                cache.write(path)
                feed.append(cache, 5)
                back = again.read(path)
                self.assertEqual((len(back), back.bytes), (50, again.cache_bytes(50) if not again.used_bytes else again.used_bytes))
                back.cut(49)
                feed.all(back, 9)
            with self.assertRaisesRegex(ValueError, "graph"):
                decoder(CAUSAL["window"]).read(os.path.join(folder, "dense"))
            with self.assertRaises(hga.Error):
                decoder(CAUSAL["dense"], kv_heads=4).read(os.path.join(folder, "dense"))
            with open(path, "rb+") as file:
                file.truncate(os.path.getsize(path) - 7)
            with self.assertRaisesRegex(ValueError, "bytes, a cache of 50 tokens has"):
                again.read(path)
            with self.assertRaisesRegex(ValueError, "bytes, a cache of 50 tokens has"):
                decoder(h, rollback=2).read(path)  # of which nothing has told the type of rows
            for broken in (lambda: again.read(os.path.join(folder, "none")), lambda: cache.write(os.path.join(folder, "no", "such"))):
                with self.assertRaises(OSError):
                    broken()
            import pathlib

            cache.write(pathlib.Path(folder, "a path"))
            self.assertEqual(len(again.read(pathlib.Path(folder, "a path"))), 55)


class Memory(unittest.TestCase):
    def test_caches_hold_what_was_told_and_give_it_back(self):
        for name, h in CAUSAL.items():
            d = decoder(h)
            feed, a, b = Feed(self, h, d), d.cache(), d.cache()
            feed.append(a, 60), feed.append(b, 13)
            self.assertEqual(d.used_bytes, d.cache_bytes(60) + d.cache_bytes(13), name)
            self.assertEqual((a.bytes, len(a), len(b)), (d.cache_bytes(60), 60, 13))
            self.assertGreater(d.cache_rows(60), 0)
            del a, b
            self.assertEqual(d.used_bytes, 0)
        self.assertLess(decoder(CAUSAL["window"]).cache_rows(90), 25)  # 9 keys and values

    def test_a_limit_refuses_and_leaves_every_cache_as_it_was(self):
        h = CAUSAL["dense"]
        d = decoder(h, max_bytes=decoder(h).cache_bytes(60) + decoder(h).cache_bytes(20))
        feed, a, b = Feed(self, h, d), d.cache(), d.cache()
        feed.append(a, 30), feed.append(b, 20)
        rows = [feed.rows(c, 40)[0] for c in (a, b)]
        with self.assertRaises(MemoryError):
            d.append([a, b], *([r[t] for r in rows] for t in range(3)))
        self.assertEqual((len(a), len(b), d.used_bytes), (30, 20, d.cache_bytes(30) + d.cache_bytes(20)))
        del b
        feed.append(a, 30)

    def test_decoders_and_caches_go_in_any_order(self):
        h = hga.htransformer(90, block=4, causal=True)
        lives = []
        for order in ("dc", "cd", "circle"):
            d = decoder(h)
            caches = [d.cache() for _ in range(3)]
            Feed(self, h, d).append(caches[0], 20)
            caches.append(caches[0].fork())
            lives.append(weakref.ref(d._life))
            if order == "circle":  # the collector finalizes them in an order of its own
                d.circle = caches
                for c in caches:
                    c.circle = caches
            for name in order if order != "circle" else ("c", "d"):
                if name == "d":
                    del d
                else:
                    c = None
                    del caches
            gc.collect()
            self.assertIsNone(lives[-1](), order)

    @unittest.skipUnless(hasattr(ctypes.CDLL(None), "mallinfo2"), "glibc's mallinfo2 is not here")
    def test_memory_goes_with_the_objects(self):
        class Info(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

        info = ctypes.CDLL(None).mallinfo2
        info.restype = Info
        in_use = lambda: (gc.collect(), info())[1]  # noqa: E731
        h = hga.dense(600, causal=True)
        q, k, v = tensors(h)

        def work():
            d = decoder(h, rollback=3)
            caches = [d.cache() for _ in range(4)]
            for c in caches:
                c.append(q[:, :300], k[:, :300], v[:, :300])
            caches[0].fork().append(q[:, 300:301], k[:, 300:301], v[:, 300:301])

        work()
        before = in_use()
        for _ in range(20):
            work()
        after = in_use()
        grown = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd
        self.assertLess(grown, 200_000)  # one round takes megabytes

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "there is no /proc here")
    def test_twenty_thousand_tokens_take_no_more_memory_than_few(self):
        n = 20_000
        for h in (hga.window(n, left=256, right=0), hga.htransformer(n, block=16, causal=True)):
            d = h.decoder(heads=4, dim=32)
            q, k, v = np.random.default_rng(5).standard_normal((3, 4, 2000, 32)).astype(np.float32)
            cache = d.cache()
            cache.append(q[:, :300], k[:, :300], v[:, :300])
            cache.append(q[:, :1], k[:, :1], v[:, :1])
            before, workspace = pages_of_process(), d.workspace_bytes
            for t in range(301, n):
                at = slice(t % 2000, t % 2000 + 1)
                cache.append(q[:, at], k[:, at], v[:, at])
            self.assertLess(max(pages_of_process() - before), 12e6)
            self.assertLessEqual(d.workspace_bytes, workspace)

    def test_what_a_prompt_took_comes_back(self):
        h = hga.window(5000, left=64, right=0)
        d = h.decoder(heads=4, dim=32)
        q = np.zeros((4, 4000, 32), np.float32)
        cache = d.cache()
        cache.append(q[:, :1], q[:, :1], q[:, :1])
        few = d.workspace_bytes
        cache.append(q, q, q)
        many = d.workspace_bytes
        for _ in range(70):
            cache.append(q[:, :1], q[:, :1], q[:, :1])
        self.assertGreater(many, few + 4000 * 4 * 4 * 32)
        self.assertLess(d.workspace_bytes, few + (many - few) // 8)

    def test_workspaces_are_as_many_as_their_bytes_allow(self):
        h = CAUSAL["window"]
        d = decoder(h)
        self.assertEqual(d.workspace_bytes, 0)
        caches, feed = [d.cache() for _ in range(4)], Feed(self, h, d)
        for _ in range(3):
            for c in caches:
                feed.append(c, 5)
        self.assertEqual(len(d._life.workspaces), 4)
        del caches[1:], c
        other = d.cache()
        feed.append(other, 7)
        self.assertEqual(len(d._life.workspaces), 4)
        from unittest import mock

        with mock.patch("hga._graphs.decoder.WORKSPACE_BYTES", 0):
            e = decoder(h)
            caches = [e.cache() for _ in range(4)]
            for _ in range(3):
                for c in caches:
                    Feed(self, h, e).append(c, 5)
            self.assertEqual(len(e._life.workspaces), 1)


class Threads(unittest.TestCase):
    def test_threads_share_a_decoder(self):
        for name in ("htransformer", "dense", "bpt"):
            h = CAUSAL[name]
            d = decoder(h, rollback=4)

            def work(i, h=h, d=d):
                feed, rng = Feed(self, h, d, seed=i), np.random.default_rng(i)
                cache = d.cache()
                for _ in range(5):
                    feed.all(cache, 9, seed=i)
                    cache.cut(0 if rng.integers(2) else 87)
                    cache = cache.fork()

            at_once(work, 6)

    def test_a_cache_in_a_call_refuses_another_threads(self):
        h = hga.dense(3000, causal=True)
        d = h.decoder(heads=8, dim=32, threads=1)
        x = np.zeros((8, 3000, 32), np.float32)
        cache, said = d.cache(), []
        while not said:  # until one of both meets the other
            worker = threading.Thread(target=cache.append, args=(x, x, x))
            worker.start()
            while worker.is_alive() and not said:
                try:
                    cache.fork()
                except hga.Error as e:
                    said.append(str(e))
            worker.join()
            cache.cut(0)
        self.assertIn("another thread's call: it serves one at a time", said[0])
        cache.append(x, x, x)


class Refusals(unittest.TestCase):
    def refused(self, words, function, *arguments, kind=hga.Error, **more):
        with self.assertRaisesRegex(kind, words):
            function(*arguments, **more)

    def test_what_sees_later_tokens_is_refused_with_both(self):
        self.refused("the output of token 0 depends on token 8", decoder, hga.dense(9), kind=NotImplementedError)
        self.refused("token", decoder, hga.htransformer(64, block=4))
        self.refused("token", decoder, hga.window(64, left=3, right=1))

    def test_what_has_no_meaning_token_by_token_is_refused(self):
        self.refused("self-attention", decoder, hga.dense(9, n_keys=12))
        self.refused("trees per head", decoder, hga.treeformer_fine(8, query_leaf=np.zeros((8, 4), int), causal=True))
        routed = hga.treeformer_fine(height=1, weights=np.zeros((1, 12), np.float32), bias=np.zeros(1, np.float32), causal=True)
        self.refused("route whole inputs", decoder, routed)
        self.refused("edge_bias", decoder, CAUSAL["dense"], edge_bias=np.zeros(3, np.float32), kind=TypeError)

    def test_wrong_numbers_are_named(self):
        h = CAUSAL["dense"]
        for words, more in (
            ("kv_heads is 0", dict(kv_heads=0)), ("heads is True", dict(heads=True)), ("rollback is -1", dict(rollback=-1)),
            ("page_rows 3", dict(page_rows=3)), ("page_type 'f16' is neither", dict(page_type="f16")), ("precision is 'f16'", dict(precision="f16")),
            ("same is 'yes'", dict(same="yes")), ("max_bytes is 1.5", dict(max_bytes=1.5)), ("isa|mmx", dict(isa="mmx")),
            (r"sink has shape \(3,\), not \[heads\]", dict(sink=np.zeros(3, np.float32))), ("4.*3|3.*4", dict(kv_heads=3)), ("scale is 'a'", dict(scale="a")),
            ("no page_typ=: did you mean 'page_type'", dict(page_typ="f32")),
        ):  # fmt: skip
            with self.subTest(words):
                self.refused(words, decoder, h, **more)

    def test_tables_that_the_program_cannot_have_are_refused_when_it_is_made(self):
        slopes, sink = np.full(4, 0.5, np.float32), np.ones(4, np.float32)
        self.refused("sink: the program's output has no log-sum-exp", decoder, CAUSAL["window"], sink=sink, normaliser="sigmoid")
        self.refused("slopes of head 0 is -0.5", decoder, CAUSAL["window"], slopes=-slopes)
        self.refused("additive: the program's scores are products", decoder, CAUSAL["window"], additive=np.ones((4, 12), np.float32))

    def test_wrong_rows_are_named(self):
        h = CAUSAL["dense"]
        d, (q, k, v) = decoder(h), tensors(h)
        c = d.cache()
        self.refused(r"query has 3 heads of 12 columns in layout 'bhnd', the decoder has 4 of 12", c.append, q[:3], k, v)
        self.refused(r"key has 2 heads of 11 columns", c.append, q, k[..., :11], v)
        self.refused(r"value has 2 heads of 12 columns.*2 of 9", c.append, q, k, k)
        self.refused(r"key has 80 rows, query 90", c.append, q, k[:, :80], v)
        self.refused(r"rows of one cache are \[heads\]\[rows\]\[dim\]", c.append, q[None], k[None], v[None])
        self.refused(r"layout 'bhn' is neither 'bhnd' nor 'bnhd'", c.append, q, k, v, layout="bhn")
        self.refused("float64", c.append, q.astype(np.float64), k, v)
        self.refused("no attn_mask=", c.append, q, k, v, attn_mask=None, kind=TypeError)
        self.refused("query has no rows", c.append, q[:, :0], k[:, :0], v[:, :0])
        c.append(q[:, :50], k[:, :50], v[:, :50])
        self.refused("50 tokens and 90 more are beyond the decoder's 90", c.append, q, k, v)
        self.assertEqual(len(c), 50)
        one = lambda x: [x[:, 50:51]]  # noqa: E731
        self.refused("query has rows for 1 caches, not 2", d.append, [c, d.cache()], one(q), one(k), one(v))
        self.refused("cache 1 is there twice", d.append, [c, c], one(q) * 2, one(k) * 2, one(v) * 2)
        self.refused("cache 0 is .*, not a cache of this decoder", d.append, [decoder(h).cache()], one(q), one(k), one(v), kind=TypeError)
        self.refused("key is no list, query is one", d.append, [c], one(q), k[None, :, 50:51], one(v), kind=TypeError)
        self.refused("an axis of caches comes in front", d.append, [c] * 4, q[:, 0], k[:, 0], v[:, 0])
        c.append(q[:, 50:51], k[:, 50:51], v[:, 50:51])

    def test_rows_of_nodes_are_counted(self):
        h = CAUSAL["bpt"]
        d, (q, k, v) = decoder(h), tensors(h)
        self.assertEqual(list(d.rows(0, 2)), [0, 1, 90])
        c = d.cache()
        self.refused("query has 2 rows, and rows are nodes: from token 0 on 1 tokens have 1, 2 tokens have 3", c.append, q[:, :2], k[:, :2], v[:, :2])
        self.refused("the decoder has 90", d.rows, 89, 2)
        self.refused("n is 91", d.cache_bytes, 91)

    def test_decoders_and_caches_are_not_pickled(self):
        d = decoder(CAUSAL["dense"])
        self.refused("pickle its hierarchy", pickle.dumps, d, kind=TypeError)
        self.refused("write", pickle.dumps, d.cache(), kind=TypeError)
        self.assertIs(copy.deepcopy(d), d)
        self.assertIn("90 tokens, 4 x 12", repr(d.cache()))
