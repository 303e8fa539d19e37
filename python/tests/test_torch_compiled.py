"""Every public entry of hga.torch under torch.compile(fullgraph=True, dynamic=True): the bits of the same without it, forward and
backward, at two lengths. A public name without a row fails."""

import ast
import pathlib
import unittest

import hga
import numpy as np
from shared import needs, refused, torch
from since import older, since

if torch:
    from torch.nn.attention.flex_attention import create_block_mask

    T, WIDTH, HEADS, FIXED = hga.torch, 32, 4, 48
    torch.manual_seed(1)
    BLOCKS = hga.htransformer(FIXED, block=8)
    MASK = torch.nn.Transformer.generate_square_subsequent_mask

    def leaf(*shape):
        return torch.randn(shape, requires_grad=True)

    def heads(n, kv=HEADS):
        return [leaf(2, HEADS, n, 8), leaf(2, kv, n, 8), leaf(2, kv, n, 8)]

    def rows(n, width=WIDTH):
        return [leaf(2, n, width)]

    def nodes(n):
        return [leaf(2, hga.torch._modules._nodes_of(n), WIDTH)]

    def graph(n):
        return [leaf(n, 6), torch.randint(0, n, (2, 3 * n))]

    def fixed(make):
        return lambda n: make(FIXED)

    def calls(module):
        return lambda *inputs: module(*inputs)

    GRAPH = hga.Graph.from_edge_index(graph(FIXED)[1], FIXED, repeated="sum")
    TABLE, SLOPES = leaf(400, HEADS), torch.rand(HEADS).requires_grad_()

    def causal(b, h, q, k):
        return q >= k

    def alibi(s, b, h, q, k):
        return s - SLOPES[h] * (q - k).abs()

    def flex_inside(q, k, v):
        """Functions and a mask of the pass's own, which capture its tensors and its length."""
        n, kept = q.shape[2], k.mean((0, 3))
        documents = torch.arange(n) // 16
        mask = create_block_mask(lambda b, h, i, j: documents[i] == documents[j], None, None, n, n, device="cpu", BLOCK_SIZE=32)
        return T.flex_attention(q, k, v, lambda s, b, h, i, j: s + TABLE[i - j + n, h] + kept[h // 2, j], mask, enable_gqa=True)

    def masked(n):
        q, k, v = heads(n)
        return [q, k, v, create_block_mask(causal, None, None, n, n, device="cpu", BLOCK_SIZE=32)]

    def grid(axes):
        return lambda n: [torch.randn(2, n, *(6,) * (axes - 1), HEADS, 8, requires_grad=True) for _ in range(3)]

    def made(q, k, v):
        """Hierarchies made in the pass, as many ways as there are."""
        n = q.shape[2]
        e = torch.stack([torch.arange(n), torch.arange(n).flip(0)])
        for h in (
            hga.htransformer(n, block=8), hga.window(n, left=3, causal=True), hga.hsa(n, branching=[2, 4]), hga.fenwick(n), hga.dense(n, causal=True),
            hga.build("window left=4 right=1", n), hga.window(n, left=2, right=2).order("rcm"), hga.dense([20, n - 20]),
            hga.window(n, left=3, right=3).strict_rows(), hga.Graph.from_edges(e[0], e[1], n).hierarchy(), hga.Graph.from_edge_index(e, n).hierarchy(),
            hga.treeformer_fine(n, query_leaf=torch.arange(n) // 8), hga.window(n, left=2, right=2).additive_scores(0.1),
        ):  # fmt: skip
            yield h.attention(q, k, v)

    def options(q, k, v):
        out, lse = hga.window(q.shape[2], left=5, causal=True).attention(
            q, k, v, lse=True, scale=0.3, softcap=2.0, slopes=SLOPES, sink=SLOPES, dropout=0.2, seed=7, layer=3, threads=1
        )
        return out, lse, hga.window(q.shape[2], left=5, right=5).attention(q, k, v, normaliser="entmax:1.5", rel_bias=TABLE[:1])

    # name: [(function, what it takes of a length, is it compiled once for all lengths)]
    ROWS = {
        "attention": [
            (lambda q, k, v: T.attention(BLOCKS, q, k, v, rel_bias=None), fixed(heads), True),
            (lambda q, k, v: T.attention(BLOCKS.additive_scores(0.3), q, k, v), fixed(heads), True),
            (lambda q, k, v: tuple(made(q, k, v)), heads, True),
            (options, heads, True),
        ],
        "scaled_dot_product_attention": [
            (lambda q, k, v: T.scaled_dot_product_attention(q, k, v, is_causal=True), heads, True),  # few tokens: torch's own
            (lambda q, k, v: T.scaled_dot_product_attention(q, k, v), lambda n: [torch.randn(1, 32, 3 * n, 64, requires_grad=True) for _ in range(3)], True),
        ],
        **{
            f"na{axes}d": [(lambda q, k, v, f=getattr(T, f"na{axes}d"): f(q, k, v, 3, dilation=2, is_causal=True), grid(axes), True)] for axes in (1, 2, 3)
        },
        "Attention": [
            (calls(T.Attention("htransformer:block=8", WIDTH, HEADS, dropout=0.1)), rows, True),
            (calls(T.Attention("dense", WIDTH, HEADS, cross=16)), lambda n: rows(n) + rows(n + 5, 16), True),
            (calls(T.Attention("htransformer:block=8", WIDTH, HEADS, relative_bias=True, positions=3, tokens=200, dropout=0.2)), rows, True),
            (calls(T.Attention(BLOCKS, WIDTH, HEADS, positions=3, dropout=0.2, normaliser="sigmoid")), fixed(rows), True),
        ],
        "MultiheadAttention": [
            (lambda x, m=T.MultiheadAttention(WIDTH, HEADS, batch_first=True, spec="htransformer:block=8"): m(x, x, x)[0], rows, True),
            (lambda x, m=T.MultiheadAttention(WIDTH, HEADS, 0.1, batch_first=True, spec="dense"): m(x, x, x, attn_mask=MASK(x.shape[1]))[0], rows, True),
            (lambda x, y, m=T.MultiheadAttention(WIDTH, HEADS, batch_first=True): m(x, y, y)[0], lambda n: rows(n) + rows(n + 3), True),
        ],
        "BPT": [(calls(T.BPT(WIDTH, HEADS, k=2)), nodes, False)],  # as many levels as the length asks for
        "NodeRows": [(lambda x: (T.NodeRows.tokens(T.NodeRows()(x)), T.NodeRows.root(T.NodeRows("zero")(x))), rows, False)],
        "Treeformer": [(calls(T.Treeformer(WIDTH, HEADS, 3, dropout=0.1)), rows, True)],
        "GATConv": [
            (calls(T.GATConv(6, 5, heads=2, dropout=0.3)), graph, True),
            (lambda x, m=T.GATConv(6, 5): m(x, BLOCKS), fixed(lambda n: graph(n)[:1]), True),
        ],
        "GATv2Conv": [(calls(T.GATv2Conv(6, 5, heads=2, residual=True)), graph, True)],
        "TransformerConv": [
            (calls(T.TransformerConv(6, 5, heads=2, beta=True)), graph, True),
            (lambda x, m=T.TransformerConv(6, 5): m(x, GRAPH), fixed(lambda n: graph(n)[:1]), True),
        ],
        "flex_attention": [
            (T.flex_attention, heads, True),
            (lambda q, k, v, mask: T.flex_attention(q, k, v, alibi, mask, 0.2, return_lse=True), masked, True),
            (flex_inside, lambda n: heads(n, 2), True),
        ],
    }
    # What is no pass over tensors.
    OUTSIDE = {
        "flex_hierarchy": "gives a hierarchy to look at", "create_block_mask": "gives torch's BlockMask of a hierarchy",
        "bootstrap": "changes modules between training steps", "distributed": "processes that exchange rows",
        "KindLinear": "reads a hierarchy's kinds", "HierarchicalEncoderLayer": "reads a hierarchy's kinds",
        "HierarchicalEncoder": "makes hierarchies", "pool_leaves": "makes a hierarchy", "pool_samples": "reads a hierarchy's tree",
    }  # fmt: skip

    if older("torch", "2.10"):  # whose create_block_mask takes no function that is made in a graph
        ROWS["flex_attention"] = [row for row in ROWS["flex_attention"] if row[0] is not flex_inside]
    if older("torch", "2.9"):  # where a graph has no flex_attention
        OUTSIDE["flex_attention"] = ROWS.pop("flex_attention") and "is refused by torch.compile"

    def results(function, inputs):
        torch.manual_seed(5)
        found = function(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad] + [SLOPES, TABLE]
        return [*found, *torch.autograd.grad(sum(x.sin().sum() for x in found), leaves, allow_unused=True)]


@needs("torch")
class Compiled(unittest.TestCase):
    def tearDown(self):
        torch._dynamo.reset()

    def same(self, want, found, what=""):
        self.assertEqual(len(want), len(found))
        for i, (a, b) in enumerate(zip(want, found)):
            self.assertEqual(a is None, b is None, (what, i))
            self.assertTrue(a is None or torch.equal(a, b), (what, i))

    def compiled(self, function, backend="aot_eager"):
        return torch.compile(function, fullgraph=True, dynamic=True, backend=backend)

    def test_every_public_name_has_a_row(self):
        tree = ast.parse(pathlib.Path(hga.torch.__file__).read_text(encoding="utf-8"))
        public = {a.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names if a.asname == a.name}
        public |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"}
        self.assertEqual(public, set(ROWS) | set(OUTSIDE))

    def test_every_row_has_the_bits_of_eager_at_any_length(self):
        for name, cases in ROWS.items():
            for i, (function, make, once) in enumerate(cases):
                with self.subTest(name, i=i):
                    torch._dynamo.reset()
                    run = self.compiled(function)
                    for n, again in ((40, False), (57, once)):
                        inputs = make(n)
                        with torch._dynamo.config.patch(error_on_recompile=again):
                            self.same(results(function, inputs), results(run, inputs), (name, i, n))

    def test_seeds_are_those_of_eager_and_have_64_bits(self):
        h, (q, k, v) = hga.dense(40), heads(40)
        for name, make in (("outside", lambda n: h), ("inside", hga.dense)):
            for seed in (0, 2**63 - 1, 2**63, 2**64 - 1):
                with self.subTest(name, seed=seed):
                    torch._dynamo.reset()
                    run = lambda *x, make=make, seed=seed: make(40).attention(*x, dropout=0.5, seed=seed)  # noqa: E731
                    self.assertTrue(torch.equal(self.compiled(run)(q, k, v), run(q, k, v)))
            for seed, says in ((-1, "seed is -1, not at least 0"), (True, "seed is True, not a whole number")):
                torch._dynamo.reset()
                run = torch.compile(lambda *x, make=make, seed=seed: make(40).attention(*x, dropout=0.5, seed=seed), backend="eager")
                refused(self, says, lambda run=run: run(q, k, v))

    def test_the_default_compiler_takes_them(self):
        for function, make in (*(case[:2] for case in ROWS.get("flex_attention", ())[1:2]), (calls(T.GATConv(6, 5)), graph)):
            torch._dynamo.reset()
            inputs = make(40)
            for a, b in zip(results(function, inputs), results(self.compiled(function, "inductor"), inputs)):
                if a is not None:
                    torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)

    def test_what_follows_writes_over_nothing_that_backward_reads(self):
        """Inductor writes into memory that nothing keeps: outputs of passes that torch records are needed again."""
        cases = [
            (lambda q, k, v: hga.dense(q.shape[2]).attention(q, k, v) * 2, heads), (lambda q, k, v: T.na2d(q, k, v, 3) * 2, grid(2)),
            (lambda *x, f=calls(T.GATConv(6, 5)): torch.nn.functional.elu(f(*x)), graph), (calls(T.TransformerConv(6, 5)), graph),
        ]  # fmt: skip
        for i, (function, make) in enumerate(cases):
            torch._dynamo.reset()
            inputs = make(40)
            squared = lambda *x, function=function: function(*x).square()  # noqa: E731
            for a, b in zip(results(squared, inputs), results(self.compiled(squared, "inductor"), inputs)):
                if a is not None:
                    with self.subTest(i):
                        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)

    @since("torch", "2.9")
    def test_functions_alike_with_other_tensors_are_other_functions(self):
        """Closures of one code: what each captures counts, and what becomes of it."""
        run = self.compiled(T.flex_attention)
        q, k, v = heads(40)
        with torch.no_grad():
            for seed in range(2):
                g = torch.Generator().manual_seed(seed)
                bias, seen = torch.randn(HEADS, generator=g), torch.rand(40, generator=g) < 0.5
                def inside(bias, seen):
                    return (lambda s, b, h, i, j: s + bias[h] * j), (lambda b, h, i, j: seen[j] | (i == j))

                score, mask = inside(bias, seen)
                blocks = create_block_mask(mask, None, None, 40, 40, device="cpu", BLOCK_SIZE=16)
                self.same([T.flex_attention(q, k, v, score, blocks)], [run(q, k, v, score, blocks)])
                seen.logical_not_()
                blocks = create_block_mask(mask, None, None, 40, 40, device="cpu", BLOCK_SIZE=16)
                self.same([T.flex_attention(q, k, v, score, blocks)], [run(q, k, v, score, blocks)])

    def test_edges_that_change_are_seen(self):
        layer = T.GATConv(6, 5)
        run, (x, edges) = self.compiled(calls(layer)), graph(40)
        self.same(results(calls(layer), [x, edges]), results(run, [x, edges]))
        edges[0, :20] = 3
        self.same(results(calls(layer), [x, edges]), results(run, [x, edges]))

    @since("torch", "2.9")
    def test_scales_that_torch_does_not_know_are_taken(self):
        """As an argument, and of a dimension."""
        run = self.compiled(T.flex_attention)
        q, k, v = heads(40)
        for scale in (0.1, 0.2, 0.3, 0.0):
            self.same([T.flex_attention(q, k, v, scale=scale)], [run(q, k, v, scale=scale)])
        by_dim = lambda q, k, v: T.flex_attention(q, k, v, scale=1 / q.shape[-1] ** 0.5)  # noqa: E731
        run = self.compiled(by_dim)
        for d in (8, 24):
            inputs = [leaf(2, HEADS, 40, d) for _ in range(3)]
            self.same(results(by_dim, inputs), results(run, inputs))

    @since("torch", "2.9")
    def test_inference_mode(self):
        """Its tensors have no version: what is made of them is made each time, so changes are seen."""
        with torch.inference_mode():
            q, k, v = (torch.randn(2, HEADS, 40, 8) for _ in range(3))
            seen = torch.rand(40) < 0.5
            mask = create_block_mask(lambda b, h, i, j: seen[j] | (i == j), None, None, 40, 40, device="cpu", BLOCK_SIZE=16)
            mask.kv_num_blocks.fill_(3)  # each of three is asked of the function
            mask.full_kv_num_blocks.zero_()
            run, layer = self.compiled(T.flex_attention), T.GATConv(6, 5)
            convolved, (x, edges) = self.compiled(calls(layer)), [torch.randn(40, 6), torch.randint(0, 40, (2, 90))]
            for _ in range(2):
                want = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen[None] | torch.eye(40, dtype=torch.bool))
                torch.testing.assert_close(run(q, k, v, None, mask), want)
                self.same([layer(x, edges)], [convolved(x, edges)])
                seen.logical_not_()
                edges[0, :20] = 3

    def test_what_is_wrong_is_said_by_its_name(self):
        q, k, v = heads(40)
        for words, run in (
            ("block: 0 is not", lambda q, k, v: hga.htransformer(q.shape[2], block=0).attention(q, k, v)),
            ("no parameter 'blok'", lambda q, k, v: hga.htransformer(q.shape[2], blok=3).attention(q, k, v)),
            ("aten.sin", lambda q, k, v: T.flex_attention(q, k, v, lambda s, b, h, i, j: torch.sin(s))),
        ):  # fmt: skip
            with self.assertRaises(Exception) as caught:
                self.compiled(run)(q, k, v)
            self.assertIn(words, str(caught.exception))

    def test_numpy_arrays_and_numbers_that_torch_does_not_know_are_taken(self):
        leaves = np.arange(40) // 8
        run = lambda q, k, v: hga.treeformer_fine(40, query_leaf=leaves).attention(q, k, v)  # noqa: E731
        inputs = heads(40)
        self.same(results(run, inputs), results(self.compiled(run), inputs))
