"""Attention in torch is torch's own where it is dense; calls import no compiler and do not fight with torch for
processors."""

import subprocess
import sys
import time
import unittest
import warnings

import hga
from shared import losses_of, needs, package, torch

F = package("torch.nn.functional")
by_operator = package("hga.torch._by_operator")

HOW = ("bhnd", 0.0, 0, 0, "f32", 1, None)


def tensors(n, heads=2, dim=8, batch=2):
    return [torch.randn(batch, heads, n, dim, requires_grad=True) for _ in range(3)]


@needs("torch")
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def test_dense_is_torchs_own_forwards_and_backwards(self):
        for causal in (False, True):
            h, (q, k, v) = hga.dense(40, causal=causal), tensors(40)
            a, b = h.attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            self.assertLess((a - b).abs().max(), 2e-6)
            g = torch.randn_like(a)
            for x, y in zip(torch.autograd.grad(a, (q, k, v), g), torch.autograd.grad(b, (q, k, v), g)):
                self.assertLess((x - y).abs().max(), 2e-5)

    def test_a_refusal_is_not_shown_as_an_error_within_another(self):
        h, (q, k, v) = hga.dense(40), tensors(40)
        for call in (lambda: h.attention(q, k, v[:, :, 1:]), lambda: h.attention(q, k, v, layout=["bhnd"])):
            with self.assertRaises((TypeError, ValueError)) as refusal:
                call()
            self.assertIsNone(refusal.exception.__context__)

    def test_operators_are_as_torch_wants_them(self):
        q, k, v = tensors(20)
        for h in (hga.htransformer(20, block=4, causal=True), hga.hsa(20, branching=[2, 4])):
            inputs = by_operator.inputs_of(h, HOW, False, [q, k, v], "", [])._replace(wants="ggg")
            result = torch.library.opcheck(torch.ops.hga.attention, ("hierarchy", *inputs))
            self.assertEqual(set(result.values()), {"SUCCESS"})

    def test_operators_of_trees_by_head_are_as_torch_wants_them(self):
        leaf = torch.randint(0, 4, (20, 2)).numpy()
        h, (q, k, v) = hga.treeformer_fine(20, query_leaf=leaf), tensors(20)
        inputs = by_operator.inputs_of(h, HOW, False, [q, k, v], "", [])._replace(wants="ggg")
        self.assertEqual(set(torch.library.opcheck(torch.ops.hga.attention, ("hierarchy", *inputs)).values()), {"SUCCESS"})

    def test_tables_and_dropout_are_those_of_double(self):
        """The dropped weights are read off by values that are the unit matrix."""
        n, heads, dim = 24, 2, 8
        h = hga.htransformer(n, block=n, relative=True)  # one level: every pair, with its relative position as type
        e = torch.from_numpy(h.edges("near")).long()
        types = int(e[:, 2].max()) + 1
        q, k, v = tensors(n, heads, dim, 1)
        key, bias = torch.randn(types, dim, requires_grad=True), torch.randn(types, heads, requires_grad=True)
        edge = torch.randn(len(e), heads, requires_grad=True)
        options = dict(dropout=0.4, seed=3)
        unit = torch.eye(n).expand(1, heads, n, n).contiguous()
        with torch.no_grad():
            tables = dict(rel_key=key, rel_bias=bias, edge_bias=edge)
            mask = (h.attention(q, k, unit, **tables, **options) > 0).double()[0] / 0.6
        self.assertTrue(0.3 < (mask == 0).double().mean() < 0.5)
        leaves = [x.detach().double().requires_grad_() for x in (q, k, v, key, bias, edge)]
        dq, dk, dv, dkey, dbias, dedge = leaves
        type_of = torch.zeros(n, n, dtype=torch.long)
        type_of[e[:, 1], e[:, 0]] = e[:, 2]
        number = torch.zeros(n, n, dtype=torch.long)
        number[e[:, 1], e[:, 0]] = torch.arange(len(e))
        s = (torch.einsum("hid,hjd->hij", dq[0], dk[0]) + torch.einsum("hid,ijd->hij", dq[0], dkey[type_of])) / dim**0.5
        s = s + dbias[type_of].permute(2, 0, 1) + dedge[number].permute(2, 0, 1)
        want = (torch.softmax(s, -1) * mask) @ dv[0]
        got = h.attention(q, k, v, rel_key=key, rel_bias=bias, edge_bias=edge, **options)
        self.assertLess((got[0] - want).abs().max(), 1e-5)
        g = torch.randn_like(got)
        found = torch.autograd.grad(got, (q, k, v, key, bias, edge), g)
        for name, x, y in zip(("q", "k", "v", "rel_key", "rel_bias", "edge_bias"), found,
                              torch.autograd.grad(want, leaves, g[0].double())):  # fmt: skip
            self.assertLess((x - y).abs().max(), 2e-4, name)

    def test_two_runtimes_of_openmp_do_not_fight(self):
        """Calls of torch and hga in turns take the processor time of both by themselves, and not half as much again."""
        torch.set_num_threads(2)
        h, (q, k, v), a = hga.window(1024, left=32, right=32), tensors(1024, 8, 32, 1), torch.randn(500, 500)

        def of_torch():
            a @ a, torch.relu(a)

        def of_hga():
            with torch.no_grad():
                h.attention(q, k, v, threads=2)

        def seconds(*calls):
            best = []
            for _ in range(5):
                start = time.process_time()
                for _ in range(20):
                    [f() for f in calls]
                best.append(time.process_time() - start)
            return min(best)

        of_torch(), of_hga()
        self.assertLess(seconds(of_torch, of_hga), 1.5 * (seconds(of_torch) + seconds(of_hga)))

    def test_no_call_imports_a_compiler(self):
        """Forwards and backwards, of a hierarchy and of documents: dynamo waits for torch.compile."""
        says = """if True:
            import sys, torch
            brought = set(sys.modules)  # torch 2.5 brings a file of settings of its compiler
            import hga, hga.torch
            q = torch.randn(2, 2, 20, 8, requires_grad=True)
            hga.dense(20).attention(q, q, q, lse=True)[0].sum().backward()
            hga.torch.Attention("window:left=4", 16, 2, dropout=0.1)(torch.randn(2, 20, 16)).sum().backward()
            print(*(name for name in ("torch._dynamo", "torch._inductor", "triton", "sympy") if name in set(sys.modules) - brought))
        """
        found = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(found, [])

    def test_dropout_is_replayed(self):
        h, (q, k, v) = hga.dense(64), tensors(64)
        a, b = (h.attention(q, k, v, dropout=0.3, seed=9) for _ in range(2))
        self.assertTrue(torch.equal(a, b))
        self.assertFalse(torch.equal(a, h.attention(q, k, v, dropout=0.3, seed=10)))
        ones = h.attention(q, k, torch.ones_like(v), dropout=0.3, seed=9)
        self.assertLess(abs(ones.mean() - 1), 0.05)

    def test_a_module_learns(self):
        m = hga.torch.Attention(hga.htransformer(32, block=4), 16, 2)
        x, y = torch.randn(4, 32, 16), torch.randn(4, 32, 16)
        losses = losses_of(m, x, y)
        self.assertLess(losses[-1], losses[0])

    def test_memory_that_is_only_read_becomes_no_tensor(self):
        q, k, v = (x.detach() for x in tensors(12))
        read = [x.numpy().copy() for x in (k, v)]
        for x in read:
            x.flags.writeable = False
        torch.set_warn_always(True)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*not writable")
                out = hga.dense(12).attention(q, *read)
        finally:
            torch.set_warn_always(False)
        self.assertTrue(torch.equal(out, hga.dense(12).attention(q, k, v)))
