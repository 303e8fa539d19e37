"""hga.torch.scaled_dot_product_attention is torch's function, by hga or by torch."""

import contextlib
import inspect
import unittest
from unittest import mock

from shared import at_any_size, needs, package, torch

F = package("torch.nn.functional")
sdpa = package("hga.torch._sdpa")


def tensors(*shapes, dtype=None):
    return [torch.randn(*shape, requires_grad=True, dtype=dtype or torch.float32) for shape in shapes]


@needs("torch")
class Sdpa(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def both(self, x, **more):
        """Outputs and gradients of torch's function and of ours; and how often hga attended."""
        found = []
        with mock.patch.object(sdpa, "attend", side_effect=sdpa.attend) as attend:
            for function in (F.scaled_dot_product_attention, sdpa.scaled_dot_product_attention):
                y = function(*x, **more)
                y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))
                found.append([y.detach(), *(t.grad for t in x)])
                for t in x:
                    t.grad = None
        return found, attend.call_count

    def test_outputs_and_gradients_are_torchs(self):
        n = 19
        mask = torch.randn(n, n)
        cases = (
            ([(2, 4, n, 8)] * 3, {}, 1), ([(2, 4, n, 8)] * 3, {"is_causal": True, "scale": 0.3}, 1), ([(2, 4, n, 8)] * 2 + [(2, 4, n, 5)], {}, 1),
            ([(2, 4, n, 8)] + [(2, 2, n, 8)] * 2, {"enable_gqa": True, "is_causal": True}, 1),
            ([(2, 4, n, 8)] * 3, {"attn_mask": mask}, 0), ([(2, 4, n, 8)] * 3, {"attn_mask": mask > 0}, 0),
            ([(2, 4, n, 8)] + [(2, 4, 7, 8)] * 2, {}, 0), ([(4, n, 8)] * 3, {"is_causal": True}, 0), ([(n, 8)] * 3, {}, 0),
            ([(2, 1, n, 8)] + [(2, 4, n, 8)] * 2, {}, 0),
        )  # fmt: skip
        for shapes, more, ours in cases:
            for around, by_hga in ((contextlib.nullcontext, 0), (at_any_size, ours)):
                with self.subTest(shapes=shapes, by=around.__name__, **{name: str(x)[:9] for name, x in more.items()}), around():
                    (want, found), count = self.both(tensors(*shapes), **more)
                    self.assertEqual(count, by_hga)
                    for a, b in zip(want, found):
                        torch.testing.assert_close(b, a, atol=3e-5, rtol=1e-4)

    def test_16_bits_are_read_as_they_are(self):
        with at_any_size():
            (want, found), count = self.both(tensors(*[(1, 2, 40, 16)] * 3, dtype=torch.bfloat16), is_causal=True)
        self.assertEqual((count, found[0].dtype), (1, torch.bfloat16))
        for a, b in zip(want, found):
            torch.testing.assert_close(b.float(), a.float(), atol=3e-2 * float(a.float().abs().max()), rtol=3e-2)

    def test_dropout_is_torchs(self):
        with at_any_size():
            _, count = self.both(tensors(*[(1, 2, 40, 16)] * 3), dropout_p=0.5)
        self.assertEqual(count, 0)

    def test_wrong_calls_are_torchs_to_refuse(self):
        with at_any_size():
            for shapes in ([(1, 4, 9, 8)] + [(1, 3, 9, 8)] * 2, [(1, 4, 9, 8), (1, 4, 9, 7), (1, 4, 9, 8)]):
                with self.assertRaises(RuntimeError):
                    sdpa.scaled_dot_product_attention(*tensors(*shapes))

    def test_its_arguments_are_torchs(self):
        names = "query key value attn_mask dropout_p is_causal scale enable_gqa".split()
        self.assertEqual(list(inspect.signature(sdpa.scaled_dot_product_attention).parameters), names)

    def test_transforms_and_autocast_are_torchs(self):
        q, k, v = (torch.randn(1, 2, 40, 16) for _ in range(3))
        with at_any_size(), mock.patch.object(sdpa, "attend", None):
            for function in (F.scaled_dot_product_attention, sdpa.scaled_dot_product_attention):
                torch.func.grad(lambda x, f=function: f(x, k, v).sum())(q)
                torch.func.vmap(lambda x, f=function: f(x, k, v))(q[None])
                with torch.autocast("cpu", torch.bfloat16):
                    self.assertEqual(function(q, k, v).dtype, torch.bfloat16)

    def test_results_are_contiguous(self):
        with at_any_size():
            self.assertTrue(sdpa.scaled_dot_product_attention(*tensors(*[(2, 3, 20, 8)] * 3)).is_contiguous())

    def test_it_compiles(self):
        x = tensors(*[(1, 2, 40, 16)] * 3)
        self.addCleanup(torch._dynamo.reset)
        with at_any_size():
            found = torch.compile(sdpa.scaled_dot_product_attention, backend="eager", fullgraph=True)(*x, is_causal=True)
        torch.testing.assert_close(found, F.scaled_dot_product_attention(*x, is_causal=True), atol=1e-5, rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
