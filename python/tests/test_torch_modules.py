"""hga.torch's modules are torch's own attention, or their definitions written out in double."""

import unittest

import hga
import numpy as np
from shared import needs, package, refused_each, torch

ht, F = package("hga.torch"), package("torch.nn.functional")


def slopes(test, module, x, parameters):
    """The gradients of parameters are the loss's slopes along a random direction."""
    weights = torch.randn_like(module(x))
    loss = lambda: (module(x) * weights).sum()  # noqa: E731
    grads = torch.autograd.grad(loss(), parameters)
    for p, g in zip(parameters, grads):
        direction = torch.randn_like(p)
        with torch.no_grad():
            p += 1e-2 * direction
            up = loss()
            p -= 2e-2 * direction
            slope = (up - loss()) / 2e-2
            p += 1e-2 * direction
        test.assertGreater(abs(g).max(), 0)
        test.assertLess(abs(slope - (g * direction).sum()), 5e-3 * max(1, abs(slope)))


def treeformer_by_hand(m, x):
    """TF-attention with trees that learn, as docs/treeformer-fine.md defines it: every pair of rows, in double."""
    levels, heads, dim = int(m.levels), m.heads, x.shape[-1] // m.heads
    q, k, v = m.project(x).view(*x.shape[:2], 3, heads, dim).permute(2, 0, 3, 1, 4)

    def routed(y):
        f = torch.einsum("bhnd,hpd->bhnp", y, m.planes) + m.offsets[:, None]
        node, path = torch.zeros(y.shape[:-1], dtype=torch.long), y.new_zeros(y.shape[:-1])
        for level in range(levels):
            at = f.gather(-1, (2**level - 1 + node)[..., None])[..., 0]
            path = path + torch.where(at > 0, F.logsigmoid(at), F.logsigmoid(-at))
            node = 2 * node + (at > 0)
        return node, path

    (leaf_q, path_q), (leaf_k, path_k) = routed(q), routed(k)
    score = q @ k.transpose(-1, -2) * dim**-0.5 + (path_k - path_k.detach())[..., None, :]
    seen = leaf_q[..., :, None] == leaf_k[..., None, :]
    if m.causal:
        seen = seen & torch.ones(seen.shape[-2:], dtype=torch.bool).tril()
    weight = score.masked_fill(~seen, float("-inf")).softmax(-1).nan_to_num()
    y = weight @ v * (path_q - path_q.detach()).exp()[..., None]
    return m.out(y.transpose(1, 2).reshape(x.shape))


@needs("torch")
class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def test_relative_keys_biases_and_positions_are_parameters(self):
        for spec, more in (
            ("htransformer:block=4:relative=1", dict(relative_keys=True, relative_bias=True)),
            ("hsa:branching=3", dict(positions=5)),
        ):
            m, x = ht.Attention(spec, 16, 2, causal=True, tokens=40, **more), torch.randn(2, 24, 16)
            own = [p for p in (m.rel_key, m.rel_bias, m.position) if p is not None]
            self.assertEqual(len(own), len(more))
            for p in own:
                self.assertTrue(any(p is q for q in m.parameters()))
                with torch.no_grad():
                    p.normal_()
            slopes(self, m, x, own)
            h = hga.htransformer(24, block=4, relative=True, causal=True) if "htr" in spec else hga.hsa(24, branching=3, causal=True)
            q, k, v = m.project(x).view(2, 24, 6, 8).split(2, 2)
            tables = dict(rel_key=m.rel_key, rel_bias=m.rel_bias)
            if m.position is not None:
                parent = h.graph.parents()
                index = [0 if p < 0 else v - int((parent == p).argmax()) for v, p in enumerate(parent.tolist())]
                tables = dict(node_pos=m.position[torch.tensor(index)])
            y = m.out(h.attention(q, k, v, layout="bnhd", **tables).reshape(2, 24, 16))
            self.assertTrue(torch.equal(y, m(x)))

    def test_positions_follow_the_tree_that_the_caller_numbered(self):
        parent = [6, 5, 6, 5, 5, 7, 7, -1]  # leaves 0 .. 4: families of interleaved ids
        h = hga.hsa(parent=np.array(parent, np.int32), self=True)
        m, x = ht.Attention(h, 8, 1, positions=3), torch.randn(1, 5, 8)
        self.assertEqual(m.position.shape, (3, 3))
        index = torch.tensor([0, 0, 1, 1, 2, 0, 1, 0])
        q, k, v = m.project(x).view(1, 5, 3, 8).split(1, 2)
        y = h.attention(q, k, v, layout="bnhd", node_pos=m.position[index])
        self.assertTrue(torch.equal(m.out(y.reshape(1, 5, 8)), m(x)))

    def test_cross_attention_with_grouped_heads_is_torchs(self):
        m = ht.Attention("dense", 32, 4, cross=12, kv_heads=2)
        x, memory = torch.randn(2, 9, 32), torch.randn(2, 17, 12)
        q = m.project(x).view(2, 9, 4, 8).transpose(1, 2)
        k, v = (t.transpose(1, 2) for t in m.memory(memory).view(2, 17, 2, 2, 8).unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).reshape(2, 9, 32)
        self.assertLess((m.out(y) - m(x, memory)).abs().max(), 1e-6)
        m(x, memory).sum().backward()
        self.assertGreater(m.memory.weight.grad.abs().max(), 0)

    def test_what_does_not_fit_is_refused(self):
        refused_each(self, (
            ("rows of bpt are nodes", lambda: ht.Attention("bpt", 16, 2)),
            ("need tokens=", lambda: ht.Attention("htransformer:block=4:relative=1", 16, 2, relative_keys=True)),
            ("cannot attend from one text to another", lambda: ht.Attention("fenwick", 16, 2, cross=8)),
            ("no later tokens", lambda: ht.Attention("dense", 16, 2, cross=8, causal=True)),
            ("needs the second text", lambda: ht.Attention("dense", 16, 2, cross=8)(torch.zeros(1, 4, 16))),
            ("goes with cross=", lambda: ht.Attention("dense", 16, 2)(torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))),
            ("positions were made for", lambda: ht.Attention("hsa:branching=2,8", 16, 2, positions=2, tokens=4)(torch.zeros(1, 64, 16))),
            ("neither 'mean' nor 'zero'", lambda: ht.NodeRows("none")),
            ("no number of tokens", lambda: ht.BPT(16, 2)(torch.zeros(1, 5, 16))),
            ("k: 0 is not in", lambda: ht.BPT(16, 2, k=0)),
            ("height", lambda: ht.Treeformer(16, 2, 0)),
            ("do not divide", lambda: ht.Treeformer(16, 3, 2)),
            ("no hierarchy has", lambda: ht.MultiheadAttention(16, 2, add_zero_attn=True)),
            ("never has", lambda: ht.MultiheadAttention(16, 2)(*[torch.zeros(4, 16)] * 3, need_weights=True)),
        ))

    def test_wrong_arguments_get_sentences(self):
        m, x = ht.Attention("dense", 16, 2), torch.zeros(2, 4, 16)
        refused_each(self, (
            ("embed_dim is 'window:left=8', .* spec='window:left=8'", lambda: ht.MultiheadAttention("window:left=8", 64, 4)),
            ("num_heads is '4', not a whole number", lambda: ht.MultiheadAttention(64, "4")),
            ("3 heads do not divide embed_dim 64", lambda: ht.MultiheadAttention(64, 3)),
            ("spec is 7, not a name", lambda: ht.MultiheadAttention(64, 4, spec=7)),
            ("spec is 16, neither a name such as", lambda: ht.Attention(16, 2, 2)),
            ("width is '16', not a whole number", lambda: ht.Attention("dense", "16", 2)),
            ("heads is 0; it must be at least 1", lambda: ht.Attention("dense", 16, 0)),
            ("kv_heads is 1.5, not a whole number", lambda: ht.Attention("dense", 16, 2, kv_heads=1.5)),
            ("dropout is 1.5, not at least 0 and less than 1", lambda: ht.Attention("dense", 16, 2, dropout=1.5)),
            ("dropout is -1, not at least 0", lambda: ht.BPT(16, 2, dropout=-1)),
            ("dropout is", lambda: ht.Treeformer(16, 2, 3, dropout=2)), ("dropout is", lambda: ht.MultiheadAttention(16, 2, dropout=2)),
            (r"x has shape \(4, 16\), not \[batch, tokens, 16\]", lambda: m(x[0])),
            (r"x has shape \(2, 4, 8\), not \[batch, tokens, 16\]", lambda: m(x[..., :8])),
            ("x is a ndarray, not a tensor", lambda: m(x.numpy())),
            (r"not \[batch, nodes, 16\]", lambda: ht.BPT(16, 2)(x[0])), (r"not \[batch, tokens, 16\]", lambda: ht.Treeformer(16, 2, 1)(x[0])),
            (r"memory has shape \(2, 4, 16\), not \[batch, tokens, 8\]", lambda: ht.Attention("dense", 16, 2, cross=8)(x, x)),
            ("GATConv: heads is '4', not a whole number", lambda: ht.GATConv(16, 8, heads="4")),
            ("out_channels is 0; it must be at least 1", lambda: ht.GATv2Conv(16, 0)),
            ("2 whole numbers are needed", lambda: m(x, lengths=[3])), ("2 whole numbers are needed", lambda: m(x, lengths=[3.0, 1.0])),
            ("from 0 to 4", lambda: m(x, lengths=[3, 5])), ("from 0 to 4", lambda: m(x, lengths=[-1, 4])),
            ("one of them is enough", lambda: m(x, lengths=[3, 4], key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))),
            (r"key_padding_mask has shape \(4,\), not \[2, 4\]", lambda: m(x, key_padding_mask=torch.zeros(4))),
            ("a Hierarchy has one length", lambda: ht.Attention(hga.dense(4), 16, 2)(x, lengths=[3, 4])),
            ("do not go with cross-attention", lambda: ht.Attention("dense", 16, 2, cross=16)(x, x, lengths=[3, 4])),
            ("do not go with a normaliser", lambda: ht.Attention("dense", 16, 2, normaliser="sigmoid")(x, lengths=[3, 4])),
            ("do not go with positions", lambda: ht.Attention("hsa:branching=2", 16, 2, positions=2, tokens=8)(x, lengths=[3, 4])),
        ))  # fmt: skip

    def test_keywords_that_a_layer_does_not_have_are_answered(self):
        t = hga.torch
        for make, text in (
            (lambda: t.Attention(embed_dim=64, num_heads=8), "Attention has no embed_dim=: it is called width="),
            (lambda: t.Attention("dense", 64, num_heads=8), "Attention has no num_heads=: it is called heads="),
            (lambda: t.Attention("dense", 64, 8, num_kv_heads=2), "Attention has no num_kv_heads=: it is called kv_heads="),
            (lambda: t.Attention("dense", 64, 8, kv_head=2), "Attention has no kv_head=: did you mean 'kv_heads'"),
            (lambda: t.Attention("dense", 64, 8, batch_first=True), "Attention has no batch_first=; it has spec, width, heads, "),
            (lambda: t.MultiheadAttention(64, 8, batchfirst=True), "MultiheadAttention has no batchfirst=: did you mean 'batch_first'"),
            (lambda: t.BPT(64, 8, kk=2), "BPT has no kk=: did you mean 'k'"),
            (lambda: t.NodeRows(span="mean"), "NodeRows has no span=: did you mean 'spans'"),
            (lambda: t.Treeformer(64, 8, depth=3), "Treeformer has no depth=: it is called height="),
            (lambda: t.KindLinear(8, 8, kind=["a"]), "KindLinear has no kind=: did you mean 'kinds'"),
            (lambda: t.HierarchicalEncoderLayer(8, 2, kind=["a"]), "HierarchicalEncoderLayer has no kind=: did you mean 'kinds'"),
            (lambda: t.HierarchicalEncoder(8, 2, num_layers=2), "HierarchicalEncoder has no num_layers=: it is called layers="),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(hga.Error, text) as caught:
                make()
            self.assertIsInstance(caught.exception, TypeError)
        self.assertEqual(t.HierarchicalEncoder(8, 2, 1, normalizer="entmax:1.5").layers[0].normaliser, "entmax:1.5")
        self.assertIsNone(t.MultiheadAttention(8, 2, bias=None).in_proj_bias)  # as torch's

    def test_samples_of_several_lengths_are_each_its_own(self):
        for spec, more in (("htransformer:block=4", {}), ("dense", dict(causal=True)), ("fenwick", {}),
                           ("htransformer:block=4:relative=1", dict(relative_keys=True, relative_bias=True, tokens=24))):  # fmt: skip
            m, x = ht.Attention(spec, 16, 2, **more), torch.randn(3, 24, 16, requires_grad=True)
            if more.get("relative_bias"):
                torch.nn.init.normal_(m.rel_bias)
            lengths = [24, 7, 1]
            y = m(x, lengths=lengths)
            for row, one, n in zip(y, x, lengths):
                self.assertLess((row[:n] - m(one[None, :n])[0]).abs().max(), 1e-5, spec)  # projections have other last bits
                self.assertTrue(torch.equal(row[n:], m.out.bias.expand(24 - n, 16)), spec)
            hidden = torch.arange(24) >= torch.tensor(lengths)[:, None]
            self.assertTrue(torch.equal(m(x, lengths=torch.tensor(lengths)), y))
            for mask in (hidden, hidden.float().masked_fill(hidden, float("-inf"))):
                self.assertTrue(torch.equal(m(x, key_padding_mask=mask), y))
            (grad,) = torch.autograd.grad(y[0].sum() + sum(row[:n].sum() for row, n in zip(y[1:], lengths[1:])), x)
            self.assertTrue((grad[1, 7:] == 0).all() and (grad[1, :7] != 0).any(), spec)
        left = torch.arange(24) < 5  # padding in front
        y = m(x[:1], key_padding_mask=left[None])
        self.assertLess((y[0, 5:] - m(x[:1, 5:])[0]).abs().max(), 1e-5)

    def test_jagged_tensors_have_the_samples_of_x(self):
        """In every release of torch; test_torch_paths has more of nested tensors."""
        layer, rows = hga.torch.Attention("htransformer:block=2", 16, 2), torch.randn(7, 16)
        x = torch.nested.nested_tensor_from_jagged(rows, torch.tensor([0, 5, 7]))
        wanted = [layer(part[None])[0] for part in (rows[:5], rows[5:])]
        for found, more in ((layer(x), 0), (x + layer(x), rows)):
            torch.testing.assert_close(found.values(), torch.cat(wanted) + more, rtol=1e-5, atol=1e-5)

    def test_modules_say_what_they_are(self):
        for module, says in (
            (ht.Attention("htransformer:block=16", 64, 8, causal=True), "(\n  'htransformer:block=16', heads=8, causal=True\n"),
            (ht.Attention(hga.dense(9), 64, 8, kv_heads=2), "<hga.Hierarchy dense"), (ht.Attention(hga.dense(9), 64, 8, kv_heads=2), "heads=8, kv_heads=2"),
            (ht.BPT(64, 8, k=2), "heads=8, k=2, clip=10, rule='shifted'"), (ht.Treeformer(64, 4, 3), "heads=4, height=3"),
            (ht.MultiheadAttention(64, 4, spec="window:left=8"), "'window:left=8', embed_dim=64, heads=4"),
        ):  # fmt: skip
            self.assertIn(says, repr(module))

    def test_node_rows_begin_as_means_or_zeros(self):
        for n in (1, 2, 7, 16, 21):
            x, h = torch.randn(2, n, 4), hga.bpt(n)
            rows = ht.NodeRows()(x)
            self.assertEqual(rows.shape, (2, h.rows, 4))
            parent, mass = h.graph.parents(), h.graph.masses()
            under = torch.eye(n, h.rows)
            for v in range(h.rows):  # tokens below every node
                if parent[v] >= 0:
                    under[:, parent[v]] += under[:, v]
            self.assertTrue(np.array_equal(under.sum(0).numpy(), mass))
            self.assertLess((rows - (under / under.sum(0)).T @ x).abs().max(), 1e-6)
            self.assertTrue(torch.equal(ht.NodeRows.tokens(rows), x))
            self.assertTrue(torch.equal(ht.NodeRows.root(rows), rows[:, -1]))
            self.assertLess((ht.NodeRows.root(rows) - x.mean(1)).abs().max(), 1e-6)
            self.assertTrue(torch.equal(ht.NodeRows("zero")(x), h.lift(x)))

    def test_bpt_is_its_hierarchy_with_relative_keys(self):
        m, x = ht.BPT(16, 2, k=2, clip=3), torch.randn(2, 13, 16)
        rows, h = ht.NodeRows("zero")(x), hga.bpt(13, k=2, clip=3)
        q, k, v = m.project(rows).view(2, h.rows, 6, 8).split(2, 2)
        y = h.attention(q, k, v, layout="bnhd", rel_key=m.rel_key)
        self.assertTrue(torch.equal(m.out(y.reshape(2, h.rows, 16)), m(rows)))
        with torch.no_grad():
            m.rel_key.normal_()
        slopes(self, m, rows, [m.rel_key])
        for clip in (0, 10, 40):
            ht.BPT(16, 2, k=1, clip=clip)(ht.NodeRows()(torch.randn(1, 70, 16)))

    def test_causal_layers_of_node_rows_see_nothing_later(self):
        for spans in ("mean", "zero"):
            layers, begin = torch.nn.Sequential(*(ht.BPT(8, 1, k=1, causal=True) for _ in range(3))), ht.NodeRows(spans)
            x, n = torch.randn(1, 19, 8), 11
            other = torch.cat([x[:, :n], torch.randn(1, 19 - n, 8)], 1)
            a, b = (ht.NodeRows.tokens(layers(begin(y))) for y in (x, other))
            self.assertTrue(torch.equal(a[:, :n], b[:, :n]))
            self.assertGreater((a[:, n:] - b[:, n:]).abs().max(), 1e-3)

    def test_treeformer_is_its_definition_forwards_and_backwards(self):
        for causal in (False, True):
            for levels in (0, 1, 3):
                m, x = ht.Treeformer(16, 2, 3, causal=causal), torch.randn(3, 17, 16, requires_grad=True)
                m.levels.fill_(levels)
                with torch.no_grad():
                    m.offsets.normal_(std=0.3)
                double = ht.Treeformer(16, 2, 3, causal=causal).double()
                double.load_state_dict(m.state_dict())
                y = x.detach().double().requires_grad_()
                out, expected = m(x), treeformer_by_hand(double, y)
                self.assertLess((out - expected).abs().max(), 1e-5)
                weights = torch.randn_like(out)
                (out * weights).sum().backward()
                (expected * weights).sum().backward()
                self.assertLess((x.grad - y.grad).abs().max(), 1e-4)
                for (name, p), q in zip(m.named_parameters(), double.parameters()):
                    if name in ("planes", "offsets") and levels == 0:
                        self.assertIsNone(p.grad)
                        continue
                    self.assertLess((p.grad - q.grad).abs().max(), 1e-4 * max(1, float(q.grad.abs().max())), name)

    def test_a_tree_that_is_nearly_right_is_made_right_by_descent(self):
        """Two kinds of tokens, a plane that sends a quarter of one kind to the other's leaf, and only the tree learns: the loss of
        telling one's own kind from what the leaf holds falls to a quarter. (From a random plane it often does not move.)"""
        kind = torch.randint(2, (4, 32))
        x = F.one_hot(kind, 4).float() + 0.1 * torch.randn(4, 32, 4)
        m = ht.Treeformer(4, 1, 1, bias=False)
        with torch.no_grad():
            m.project.weight.copy_(torch.eye(4).repeat(3, 1))
            m.out.weight.copy_(torch.eye(4))
            m.planes.copy_(torch.tensor([1.0, -1.0, 0.0, 0.0]))
            m.offsets.fill_(0.9)
        step, losses = torch.optim.Adam([m.planes, m.offsets], lr=0.05), []
        for _ in range(40):
            losses.append(F.cross_entropy(6 * m(x)[..., :2].flatten(0, 1), kind.flatten()))
            step.zero_grad()
            losses[-1].backward()
            step.step()
        self.assertLess(losses[-1], losses[0] / 4)

    def test_bootstrap_is_algorithm_1(self):
        layers = [ht.Treeformer(8, 1, 3) for _ in range(5)]
        seen = []
        for first, levels in ht.bootstrap(layers, width=2):
            seen.append((first, levels, [int(layer.levels) for layer in layers]))
        self.assertEqual([s[:2] for s in seen], [(f, h) for f in (3, 1, 0) for h in (1, 2, 3)])
        self.assertEqual(seen[0][2], [0, 0, 0, 1, 1])
        self.assertEqual(seen[3][2], [0, 1, 1, 3, 3])
        self.assertEqual(seen[-1][2], [3] * 5)
        x = torch.randn(1, 12, 8)
        dense = ht.Treeformer(8, 1, 2)
        dense.levels.fill_(0)
        kept = ht.Treeformer(8, 1, 2)
        kept.load_state_dict(dense.state_dict())
        self.assertTrue(torch.equal(kept(x), dense(x)))

    def test_grouped_heads_of_trees_are_repeated_ones(self):
        m, x = ht.Treeformer(16, 4, 2, kv_heads=2), torch.randn(2, 15, 16)
        full = ht.Treeformer(16, 4, 2)
        q, k, v = m.project.weight.view(8, 4, 16).split((4, 2, 2))
        full.load_state_dict(m.state_dict() | {
            "project.weight": torch.cat([q, k.repeat_interleave(2, 0), v.repeat_interleave(2, 0)]).reshape(48, 16),
            "project.bias": torch.cat([b.repeat_interleave(r, 0) for b, r in zip(m.project.bias.view(8, 4).split((4, 2, 2)), (1, 2, 2))]).flatten(),
        })  # fmt: skip
        self.assertLess((full(x) - m(x)).abs().max(), 1e-6)

    def test_multihead_attention_is_torchs(self):
        n = 12
        for more in (dict(), dict(batch_first=True), dict(bias=False), dict(kdim=5, vdim=6)):
            theirs, ours = torch.nn.MultiheadAttention(16, 2, **more), ht.MultiheadAttention(16, 2, **more)
            self.assertEqual(ours.load_state_dict(theirs.state_dict()).missing_keys, [])
            q, k, v = torch.randn(3, n, 16), torch.randn(3, n, more.get("kdim", 16)), torch.randn(3, n, more.get("vdim", 16))
            if not more.get("batch_first"):
                q, k, v = (x.transpose(0, 1) for x in (q, k, v))
            for call in ((q, k, v), (q, q, q)) if "kdim" not in more else ((q, k, v),):
                a, b = theirs(*call, need_weights=False), ours(*call)
                self.assertLess((a[0] - b[0]).abs().max(), 1e-6)
                self.assertIsNone(b[1])
        theirs, ours = torch.nn.MultiheadAttention(16, 2), ht.MultiheadAttention(16, 2)
        ours.load_state_dict(theirs.state_dict())
        x, later = torch.randn(n, 3, 16), torch.ones(n, n, dtype=torch.bool).triu(1)
        flat = torch.randn(n, 16)
        self.assertLess((theirs(flat, flat, flat, need_weights=False)[0] - ours(flat, flat, flat)[0]).abs().max(), 1e-6)
        with self.assertRaisesRegex(hga.Error, "a window, or a draft tree"):
            ours(x, x, x, attn_mask=later | (torch.arange(n)[:, None] - torch.arange(n) == 3))

    def test_multihead_attention_stands_in_torchs_layers(self):
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        x = torch.randn(2, 24, 16)
        for spec, same in (("dense", True), ("window:left=2:right=2", False)):
            own = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            own.load_state_dict(layer.state_dict())
            own.self_attn = ht.MultiheadAttention(16, 2, batch_first=True, spec=spec)
            own.self_attn.load_state_dict(layer.self_attn.state_dict())
            for m in (own, layer):
                m.eval()
            with torch.no_grad():
                apart = (own(x) - layer(x)).abs().max()
                self.assertEqual(bool(apart < 1e-5), same)
                stack = torch.nn.TransformerEncoder(own, 2)
                self.assertEqual(bool((stack(x) - torch.nn.TransformerEncoder(layer, 2)(x)).abs().max() < 1e-5), same)

    def test_equal_seeds_give_equal_bits_at_any_threads(self):
        x, found = torch.randn(2, 40, 16), []
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            try:
                torch.manual_seed(3)
                m = torch.nn.Sequential(ht.NodeRows(), ht.BPT(16, 2, k=2, dropout=0.1))
                tree = ht.Treeformer(16, 2, 2, dropout=0.1)
                found.append((m(x), tree(x)))
            finally:
                torch.set_num_threads(before)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*found)))
