"""Masks are read as the documents that they are or are refused; documents side by side have the bits of each alone; a
name is a hierarchy of every length."""

import unittest

import hga
from shared import refused, refused_each

try:
    import torch
    from hga.torch import _documents
    from hga.torch import _one_pass
    from hga.torch import _ragged
    from hga._graphs import spec as _spec
except ImportError:
    torch = None

SPECS = ("dense", "htransformer:block=4", "window:left=3:right=2", "hsa:branching=2,4", "dilated:segments=4,16:dilations=1,4")


def by_numbers(number, causal, left=10**6, right=10**6):
    """[n][n]: the mask of documents by the number of each token's (0: padding)."""
    number = torch.as_tensor(number)
    at = torch.arange(len(number))
    back = at[:, None] - at[None, :]
    same = (number[:, None] == number[None, :]) & (number > 0)[:, None] & (back <= left) & (back >= -right)
    return same & (back >= 0) if causal else same


def as_floats(seen):
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def read(seen, causal, floats=False):
    mask = (as_floats(seen) if floats else seen)[None, None]
    return _documents.documents(mask, None, 1, seen.shape[0], causal)


def again(found, n):
    """The mask that documents stand for."""
    seen = torch.zeros(n, n, dtype=torch.bool)
    for d in found:
        own = slice(d.first, d.first + d.n)
        seen[own, own] = by_numbers(torch.ones(d.n), d.causal, d.left, d.right)
    return seen


@unittest.skipIf(torch is None, "torch is not installed")
class Masks(unittest.TestCase):
    def setUp(self):
        self.random = torch.Generator().manual_seed(7)

    def integer(self, below):
        return int(torch.randint(below, (), generator=self.random))

    def numbers(self, n):
        """Documents of random lengths, with padding before, between and after them."""
        found, document = [], 0
        while len(found) < n:
            document += 1
            found += [document if self.integer(4) else 0] * (1 + self.integer(1 + n // 2))
        return found[:n]

    def test_documents_side_by_side_are_found(self):
        for _ in range(200):
            n, causal = 1 + self.integer(12), bool(self.integer(2))
            number = self.numbers(n)
            want = [(i, number.count(x)) for i, x in enumerate(number) if x and x not in number[:i]]
            for floats in (False, True):
                found = read(by_numbers(number, causal), causal, floats)
                self.assertEqual([(d.first, d.n) for d in found], want)
                self.assertTrue(all(d.causal == causal or d.n == 1 for d in found))

    def test_what_is_read_is_the_whole_mask_or_it_is_refused(self):
        """Masks with one entry turned, and random ones: none is taken for another."""
        refused = 0
        for i in range(600):
            n, causal = 2 + self.integer(7), bool(self.integer(2))
            seen = by_numbers(self.numbers(n), causal)
            if i % 3:
                seen[self.integer(n), self.integer(n)] ^= True
            else:
                seen = torch.rand(n, n, generator=self.random) < 0.5
            try:
                found = read(seen, causal)
            except hga.Error:
                refused += 1
                continue
            own = seen.diagonal()
            self.assertTrue(torch.equal(again(found, n)[own], seen[own]), seen.int())
            self.assertFalse(seen[:, ~own].any())
        self.assertGreater(refused, 300)

    def test_padding_of_transformers_is_padding(self):
        """Rows of padding see the text, or nothing, as a mask made of "earlier" and "no padding" lets them."""
        for number in ([1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [0, 1, 1, 1, 0]):
            own = torch.tensor(number) > 0
            for causal in (True, False):
                seen = own[None, :].expand(5, 5) & (torch.ones(5, 5).tril() > 0 if causal else True)
                found = read(seen, causal)
                self.assertEqual([(d.first, d.n, d.causal) for d in found], [(number.index(1), number.count(1), causal)])
                self.assertEqual(_documents.documents(_documents.numbered(own[None], causal), None, 1, 5, False), found)

    def test_refusals_say_what_was_seen(self):
        n = 10
        causal = by_numbers([1] * n, True)
        prefix, hidden, tree, window = causal.clone(), causal.clone(), causal.clone(), by_numbers([1] * n, True, left=3)
        prefix[:4, :4] = True
        hidden[7, 2] = False
        tree[6, 5], tree[7, 5], tree[7, 6] = False, False, True
        window[9, 1] = True
        strict = torch.ones(n, n).tril(-1) > 0
        for seen, words in (
            (prefix, "lets token 0 see token 1, which causal attention does not: a prefix mask"),
            (hidden, "hides token 2 from token 7, which causal attention lets it see"),
            (tree, "lets token 6 see token 0, but not token 5 between them"),
            (window, "hides token 0 from token 4"),
            (strict, "lets token 1 see token 0, which does not see itself"),
        ):
            refused(self, words, lambda: read(seen, True))
        with self.assertRaisesRegex(hga.Error, "adds 0.5 to the score of token 3 for token 2: a bias"):
            bias = as_floats(causal)
            bias[3, 2] = 0.5
            _documents.documents(bias[None, None], None, 1, n, True)
        with self.assertRaisesRegex(hga.Error, "mask of head 1 is not that of head 0"):
            _documents.documents(torch.stack((causal, prefix))[None], None, 1, n, True)
        with self.assertRaisesRegex(hga.Error, "sample 1"):
            _documents.documents(torch.stack((causal, prefix))[:, None], None, 2, n, True)
        with self.assertRaisesRegex(hga.Error, "padding between tokens of one text"):
            _documents.documents(torch.tensor([[1, 1, 0, 1]]), None, 1, 4, True)
        for shape in ((1, 1, n, n + 1), (3, 1, n, n), (1, n, n)):
            with self.assertRaisesRegex(hga.Error, "is not understood"):
                _documents.documents(torch.ones(shape, dtype=torch.bool), None, 2, n, True)

    def test_a_window_is_read_as_one(self):
        for causal, left, right in ((True, 3, 0), (False, 3, 2)):
            seen = by_numbers([1] * 9 + [2] * 4 + [0] * 2, causal, left, right)
            found = read(seen, causal)
            self.assertEqual([(d.first, d.n, d.left) for d in found], [(0, 9, left), (9, 4, left)])
            self.assertTrue(torch.equal(again(found, 15), seen))

    def test_cumulated_lengths_are_documents(self):
        for offsets in ([0, 3, 3, 8], [[0, 3, 8], [0, 3, 8]]):
            found = _documents.documents(None, torch.tensor(offsets), 1, 8, True)
            self.assertEqual([(d.first, d.n, d.causal) for d in found], [(0, 3, True), (3, 5, True)])
        for offsets, words in (([0, 5, 4], "do not go up"), ([1, 5], "do not go up"), ([0, 11], "do not go up"), ([0, 3, 8], "end at 8 of 10 tokens: end them at 10"),
                               ([[0, 3], [0, 4]], "cut differently")):  # fmt: skip
            refused(self, words, lambda: _documents.documents(None, torch.tensor(offsets), 1, 10, True))
        packed = _documents.numbered(torch.tensor([[1] * 4 + [2] * 6]), True)
        refused(self, "2 documents", lambda: _documents.documents(packed, torch.tensor([0, 5, 10]), 1, 10, True))
        refused(self, "one packed sample", lambda: _documents.documents(None, torch.tensor([0, 10]), 2, 10, True))


def tensors(n, heads=4, kv_heads=2, dim=8, batch=2, dtype=None):
    return [torch.randn(batch, h, n, dim, dtype=dtype, requires_grad=True) for h in (heads, kv_heads, kv_heads)]


@unittest.skipIf(torch is None, "torch is not installed")
class Operator(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def test_packed_documents_have_the_bits_of_each_alone(self):
        """Rows and gradients, of every hierarchy, with other documents or padding beside them."""
        n = 29
        numbers = torch.tensor([[1] * 13 + [2] * 9 + [0] * 2 + [3] * 5, [0] * 4 + [1] * 25])
        for words in SPECS:
            for causal in (True, False):
                q, k, v = tensors(n)
                d = torch.randn(2, n, 4, 8)
                y = _ragged.attend(words, q, k, v, mask=_documents.numbered(numbers, causal), causal=causal)
                grads = torch.autograd.grad(y, (q, k, v), d)
                self.assertEqual(float(y[0, 22:24].detach().abs().sum() + y[1, :4].detach().abs().sum()), 0.0)
                for b, first, length in ((0, 0, 13), (0, 13, 9), (0, 24, 5), (1, 4, 25)):
                    own = slice(first, first + length)
                    h = _spec.hierarchy_of(words, length, causal)
                    alone = [x[b, :, own].detach().clone().requires_grad_() for x in (q, k, v)]
                    z = h.attention(*alone)
                    self.assertTrue(torch.equal(y[b, own].transpose(0, 1), z), (words, causal))
                    for x, g in zip(grads, torch.autograd.grad(z, alone, d[b, own].transpose(0, 1).contiguous())):
                        self.assertTrue(torch.equal(x[b, :, own], g), (words, causal))

    def test_equal_samples_are_those_of_a_batch(self):
        q, k, v = tensors(20, batch=3)
        y = _ragged.attend("htransformer:block=4", q, k, v, causal=True)
        z = hga.htransformer(20, block=4, causal=True).attention(q, k, v)
        self.assertTrue(torch.equal(y, z.transpose(1, 2)))

    def test_the_operator_is_as_torch_wants_it(self):
        q, k, v = tensors(12)
        mask = _documents.numbered(torch.tensor([[1] * 5 + [2] * 7, [1] * 9 + [0] * 3]), True)
        for seed, dropout in (([], 0.0), ([torch.tensor(5)], 0.25)):
            names = " ".join(["sink", "mask", *("seed" for _ in seed), "softcap"])
            inputs = [q, k, v, torch.randn(4), mask, *seed]
            arguments = ("documents", "htransformer:block=4", [1, 0], [dropout, 1.5], inputs, names, "ggg" + "t" * (len(inputs) - 3))
            result = torch.library.opcheck(torch.ops.hga.attention, arguments)
            self.assertEqual(set(result.values()), {"SUCCESS"})

    def test_gradients_survive_what_happens_between_the_passes(self):
        """Tapes that were copied, or whose plans are gone; other numbers of threads."""
        mask = _documents.numbered(torch.tensor([[1] * 5 + [2] * 8, [0] * 4 + [1] * 9]), True)
        q, k, v = tensors(13)
        d = torch.randn(2, 13, 4, 8)

        def gradients(between=lambda: None, copied=False):
            pack = (lambda x: x.clone()) if copied else (lambda x: x)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                y = _ragged.attend("window:left=3", q, k, v, mask=mask, causal=True)
            between()
            return torch.autograd.grad(y, (q, k, v), d, retain_graph=True) + torch.autograd.grad(y, (q, k, v), d)

        def others():
            for n in range(1, 3):
                torch.set_num_threads(3 - n)
                for heads in range(1, 12):
                    with torch.no_grad():
                        _ragged.attend("window:left=3", *tensors(n * 5, heads, heads), causal=True)
            _spec._BUILT.clear()

        before, threads = gradients(), torch.get_num_threads()
        try:
            for found in (gradients(copied=True), gradients(others), gradients(others, copied=True)):
                for x, y in zip(before, found):
                    self.assertLess((x - y).abs().max(), 1e-6)
        finally:
            torch.set_num_threads(threads)

    def test_tapes_are_freed(self):
        q, k, v = tensors(9)
        known = len(_one_pass.TICKETS)
        y = _ragged.attend("dense", q, k, v)
        self.assertEqual(len(_one_pass.TICKETS), known + 1)
        y.sum().backward()
        del y
        self.assertEqual(len(_one_pass.TICKETS), known)

    def test_dropout_draws_from_torchs_generator(self):
        q, k, v = tensors(32)
        ones = torch.ones_like(v)
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found.append(_ragged.attend("dense", q, k, ones, dropout=0.4))
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertFalse(torch.equal(found[0], found[2]))
        self.assertFalse(torch.equal(found[0][0], found[0][1]))  # samples drop different weights
        self.assertLess(abs(float(found[0].detach().mean()) - 1), 0.05)

    def test_slopes_with_dropout_are_those_of_the_same_draw(self):
        q, k, v = tensors(11)
        d = torch.randn(2, 11, 4, 8)
        mask = _documents.numbered(torch.tensor([[1] * 5 + [2] * 6, [1] * 8 + [0] * 3]), True)
        y = lambda *x: (torch.ops.hga.attention("documents", "htransformer:block=4", [1, 0], [0.3], [*x, mask, torch.tensor(3)], "mask seed",
                                                "gggtt")[0] * d).sum()  # noqa: E731  # fmt: skip
        grads = torch.autograd.grad(y(q, k, v), (q, k, v))
        for i, g in enumerate(grads):
            step = torch.randn_like(g)
            ends = []
            for sign in (1, -1):
                moved = [x.detach() for x in (q, k, v)]
                moved[i] = moved[i] + sign * 1e-2 * step
                ends.append(float(y(*moved)))
            slope = float((g * step).sum())
            self.assertLess(abs((ends[0] - ends[1]) / 2e-2 - slope), 5e-3 * (1 + abs(slope)))

    def test_sixteen_bits_are_rounded_once(self):
        for dtype in (torch.bfloat16, torch.float16):
            q, k, v = tensors(17, dtype=dtype)
            y = _ragged.attend("htransformer:block=4", q, k, v)
            z = _ragged.attend("htransformer:block=4", q.float(), k.float(), v.float())
            self.assertEqual(y.dtype, dtype)
            self.assertTrue(torch.equal(y, z.to(dtype)))
            for g in torch.autograd.grad(y.float().pow(2).sum(), (q, k, v)):
                self.assertEqual(g.dtype, dtype)
                self.assertGreater(float(g.abs().sum()), 0)

    def test_nothing_is_attended_in_nothing(self):
        for batch, n in ((0, 5), (2, 0)):
            q, k, v = tensors(n, batch=batch)
            y = _ragged.attend("dense", q, k, v)
            self.assertEqual(tuple(y.shape), (batch, n, 4, 8))
            y.sum().backward()

    def test_what_cannot_be_is_refused(self):
        q, k, v = tensors(9)
        refused(self, "float64", lambda: _ragged.attend("dense", q.double(), k.double(), v.double()))
        with self.assertRaisesRegex(hga.Error, "second"):
            (g,) = torch.autograd.grad(_ragged.attend("dense", q, k, v).pow(2).sum(), q, create_graph=True)
            torch.autograd.grad(g.sum(), q)
        refused(self, "forward-mode", lambda: torch.func.jvp(lambda x: _ragged.attend("dense", x, k, v), (q,), (q,)))


@unittest.skipIf(torch is None, "torch is not installed")
class Module(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def test_a_name_is_a_hierarchy_of_every_length(self):
        by_name = hga.torch.Attention("htransformer:block=4", 16, 2, causal=True)
        for n in (5, 24, 5):
            h = hga.torch.Attention(hga.htransformer(n, block=4, causal=True), 16, 2)
            h.load_state_dict(by_name.state_dict())
            x = torch.randn(3, n, 16)
            self.assertTrue(torch.equal(by_name(x), h(x)))
            self.assertFalse(torch.equal(by_name(x), hga.torch.Attention("htransformer:block=4", 16, 2)(x)))

    def test_hierarchies_are_kept_by_length_and_the_least_recently_used_let_go(self):
        _spec._BUILT.clear()
        m = hga.torch.Attention("window:left=2", 4, 1)
        first = [m(torch.randn(1, n, 4)) is not None and _spec.hierarchy_of("window:left=2", n, False) for n in (3, 4)]
        for n in range(5, 5 + _spec.MOST_CACHED - 1):
            m(torch.randn(1, 3, 4)), m(torch.randn(1, n, 4))
        self.assertEqual(len(_spec._BUILT), _spec.MOST_CACHED)
        self.assertIs(_spec.hierarchy_of("window:left=2", 3, False), first[0])
        self.assertIsNot(_spec.hierarchy_of("window:left=2", 4, False), first[1])

    def test_query_heads_share_keys(self):
        m = hga.torch.Attention("dense", 32, 4, causal=True, kv_heads=2)
        x = torch.randn(2, 9, 32, requires_grad=True)
        q, k, v = m.project(x).view(2, 9, 8, 8).transpose(1, 2).split((4, 2, 2), 1)
        y = torch.nn.functional.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
        )
        want = m.out(y.transpose(1, 2).reshape(2, 9, 32))
        self.assertLess((m(x) - want).abs().max(), 1e-6)
        for a, b in zip(torch.autograd.grad(m(x).sum(), m.parameters()), torch.autograd.grad(want.sum(), m.parameters())):
            self.assertLess((a - b).abs().max(), 1e-5)

    def test_what_cannot_be_is_refused(self):
        A = hga.torch.Attention
        refused_each(self, (
            (lambda: A("nothing", 16, 2), "no variant 'nothing'"),
            (lambda: A("htransformer:blok=4", 16, 2), "blok"),
            (lambda: A("htransformer:block=four", 16, 2), "block: 'four' is not a whole number"),
            (lambda: A("htransformer:relative=oui", 16, 2), "relative: 'oui' is neither 0 nor 1"),
            (lambda: A("hsa:branching=2,x", 16, 2), "branching: 'x' is not a whole number"),
            (lambda: A("treeformer-coarse:alpha=1", 16, 2), "alpha is an array"),
            (lambda: A("htransformer:block", 16, 2), "'block' is not name=value"),
            (lambda: A("bpt:k=2", 16, 2), "nodes"),
            (lambda: A("treeformer-coarse", 16, 2, causal=True), "cannot be"),
            (lambda: A(hga.dense(8), 16, 2, causal=True), "is not causal"),
            (lambda: A("dense", 16, 3), "3 heads"),
            (lambda: A("dense", 16, 4, kv_heads=3), "3 kv_heads"),
        ))
