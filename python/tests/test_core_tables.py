"""Whatever rows of a call the library has, each is a keyword that numpy and torch take alike, forwards and backwards,
and functions say so. No row is named here."""

import inspect
import unittest

import hga
import numpy as np
from hga._core.library import lib
from hga._core.tables import INPUTS, KEYWORDS, ROWS, WITHOUT_EDGES
from shared import needs, refused, torch
from test_graphs_hierarchies import tensors

N, HEADS, DIM, POS = 24, 4, 16, 3
# Features of edges come to an output of their own: test_torch_edge_features.py
OF_OUTPUT = tuple(name for name in KEYWORDS if lib.HGA_EXTENT_COLUMNS not in ROWS[name].extents)


def made(row, h):
    """Numbers that the row takes: from 0.25 to 1, in its shape."""
    n = {
        lib.HGA_EXTENT_DIM: DIM, lib.HGA_EXTENT_HEADS: HEADS, lib.HGA_EXTENT_HEADS_OR_ONE: HEADS, lib.HGA_EXTENT_POS_DIM: POS,
        lib.HGA_EXTENT_TYPES: 40, lib.HGA_EXTENT_EDGES: len(h.edges()), lib.HGA_EXTENT_NODES: h.graph.n_nodes,
        lib.HGA_EXTENT_KEYS: tensors(N)[1].shape[-3] * DIM,
    }  # fmt: skip
    shape = [n[extent] for extent in row.extents if extent != lib.HGA_EXTENT_ONE]
    x = np.random.default_rng(row.index).uniform(0.25, 1, shape).astype(np.float32)
    return float(x) if row.is_number else x


def hierarchies():
    """Programs of which every row that means anything means something to one."""
    h = hga.window(N, left=9, causal=True)
    return h, h.additive_scores(), hga.treeformer_coarse(N, query_leaf=np.arange(N) // 6, height=2, alpha=[1, 1, 1])


def changed_by(row):
    """(hierarchy, the row's numbers): one whose output the row changes."""
    x = tensors(N)
    for h in hierarchies():
        table = made(row, h)
        try:
            if not np.array_equal(h.attention(*x), h.attention(*x, **{row.name: table})):
                return h, table
        except NotImplementedError:
            pass
    raise AssertionError(f"{row.name} changes nothing")


class Tables(unittest.TestCase):
    def test_functions_say_that_they_take_them(self):
        functions = [hga.Hierarchy.attention, hga.Hierarchy.gradient, hga.Hierarchy.weights]
        for f in functions + ([hga.torch.attention] if torch else []):
            self.assertLessEqual(set(KEYWORDS), set(inspect.signature(f).parameters), f)
        self.assertLessEqual(set(WITHOUT_EDGES), set(inspect.signature(hga.Hierarchy.decoder).parameters))
        for name in KEYWORDS:
            self.assertIn(ROWS[name].says, hga.Hierarchy.attention.__doc__)

    def test_each_changes_what_it_is_meant_for_and_none_is_what_is_left_out(self):
        x = tensors(N)
        for row in (ROWS[name] for name in OF_OUTPUT):
            with self.subTest(row.name):
                h, table = changed_by(row)
                self.assertTrue(np.array_equal(h.attention(*x, **{row.name: None}), h.attention(*x)))

    def test_wrong_words_and_shapes_are_named(self):
        x = tensors(N)
        for row in (ROWS[name] for name in OF_OUTPUT):
            h, table = changed_by(row)
            wrong = np.zeros((2, 3, 4), np.float32) if not row.is_number else "a"
            for f in (h.attention, lambda *x, **more: h.gradient(*x, x[0], **more), lambda q, k, v, **more: h.weights(q[0], k[0], 1, **more)):
                with self.subTest(row.name), self.assertRaisesRegex(TypeError, f"no {row.name}y=: did you mean '{row.name}'"):
                    f(*x, **{row.name + "y": table})
                with self.subTest(row.name), self.assertRaisesRegex(hga.Error, row.name):
                    f(*x, **{row.name: wrong})

    def test_gradients_are_slopes(self):
        x, d = tensors(N), np.random.default_rng(1).standard_normal((2, HEADS, N, DIM)).astype(np.float32)
        for row in (ROWS[name] for name in OF_OUTPUT if ROWS[name].has_gradient):
            with self.subTest(row.name):
                h, table = changed_by(row)
                got = h.gradient(*x, d, needs_grad=[row.name], **{row.name: table})[row.name]
                self.assertEqual(got.shape, np.shape(table))
                step = np.random.default_rng(2).standard_normal(np.shape(table)).astype(np.float32)
                ends = [h.attention(*x, **{row.name: np.float32(table + sign * 1e-2 * step)}) for sign in (1, -1)]
                slope = ((ends[0] - ends[1]) / 2e-2 * d.astype(np.float64)).sum()
                self.assertLess(abs(slope - (got * step).sum()), 2e-2 * max(1, abs(slope)))


@needs("torch")
class InTorch(unittest.TestCase):
    def test_each_has_numpys_bits_and_gradients_eagerly_compiled_and_in_torch_func(self):
        x, d = tensors(N), np.random.default_rng(1).standard_normal((2, HEADS, N, DIM)).astype(np.float32)
        for row in (ROWS[name] for name in OF_OUTPUT):
            h, table = changed_by(row)
            h.threads = 1
            more = {row.name: torch.tensor(table).requires_grad_(row.has_gradient)}
            leaves = [torch.from_numpy(y.copy()).requires_grad_() for y in x] + [y for y in more.values() if row.has_gradient]
            names = list(INPUTS) + [row.name] * row.has_gradient
            want, grads = h.attention(*x, **{row.name: table}), h.gradient(*x, d, needs_grad=names, **{row.name: table})

            def loss(*leaves):
                return (h.attention(*leaves[:3], **dict(more, **dict(zip([row.name], leaves[3:])))) * torch.from_numpy(d)).sum()

            torch._dynamo.reset()
            for run in (h.attention, torch.compile(h.attention, fullgraph=True, backend="aot_eager")):
                with self.subTest(row.name):
                    out = run(*leaves[:3], **more)
                    self.assertTrue(np.array_equal(out.detach().numpy(), want))
                    for name, got in zip(names, torch.autograd.grad((out * torch.from_numpy(d)).sum(), leaves)):
                        self.assertTrue(np.array_equal(got.numpy(), grads[name]), name)
            for name, got in zip(names, torch.func.grad(loss, tuple(range(len(leaves))))(*leaves)):
                self.assertTrue(np.array_equal(got.detach().numpy(), grads[name]), (row.name, name))

    def test_numbers_that_change_are_compiled_twice(self):
        x = [torch.from_numpy(y) for y in tensors(N)]
        for row in (ROWS[name] for name in OF_OUTPUT if ROWS[name].is_number):
            h, table = changed_by(row)
            torch._dynamo.reset()
            counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
            run = torch.compile(lambda number: h.attention(*x, **{row.name: number}), fullgraph=True, backend=counter)  # noqa: B023
            for i in range(12):
                self.assertTrue(torch.equal(run(table + i / 8), h.attention(*x, **{row.name: table + i / 8})), row.name)
            self.assertLessEqual(counter.frame_count, 2, row.name)

    def test_a_decoder_has_tables_of_its_own(self):
        x = [torch.from_numpy(y[0].copy()) for y in tensors(N)]
        for row in (ROWS[name] for name in WITHOUT_EDGES):
            h, table = changed_by(row)
            if not h.is_causal():
                continue
            with self.subTest(row.name):
                mine = torch.tensor(table)
                heads = {"heads": HEADS, "dim": DIM}
                cache, want = h.decoder(**heads, same=True, **{row.name: mine}).cache(), h.attention(*x, **{row.name: table})
                mine.mul_(0.5)
                self.assertTrue(np.array_equal(np.asarray(cache.append(*x)), np.asarray(want)))
                with self.assertRaisesRegex(hga.Error, f"{row.name} requires a gradient"):
                    h.decoder(**heads, **{row.name: torch.tensor(table, requires_grad=True)})

    def test_what_is_no_number_is_refused(self):
        x = [torch.from_numpy(y) for y in tensors(N)]
        for row in (ROWS[name] for name in OF_OUTPUT if ROWS[name].is_number):
            h, _ = changed_by(row)
            for bad, why in ((torch.tensor(1 + 2j), "complex"), (torch.ones(7), "not that of a number"), (10**400, "beyond")):
                refused(self, why, lambda: h.attention(*x, **{row.name: bad}))
            with self.assertRaisesRegex(hga.Error, "not that of a number"):
                h.attention(*(y.to("meta") for y in x), **{row.name: torch.ones(7, device="meta")})

    def test_a_gradient_that_is_not_there_is_refused(self):
        for row in (ROWS[name] for name in OF_OUTPUT if not ROWS[name].has_gradient):
            h, table = changed_by(row)
            with self.assertRaisesRegex(hga.Error, f"no gradient of {row.name}"):
                h.attention(*(torch.from_numpy(y) for y in tensors(N)), **{row.name: torch.tensor(table, requires_grad=True)})
