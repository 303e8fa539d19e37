"""hga.torch.na1d, na2d and na3d: NATTEN's arguments, beside neighbourhoods written out."""

import itertools
import unittest

from shared import refused

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import hga.torch

SHAPES = {"na1d": (11,), "na2d": (7, 6), "na3d": (5, 4, 6)}


def seen_along(length, kernel, dilation, causal):
    """[length][length] of one axis: the members of a token's class (positions with the same remainder) that are near it."""
    found = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        members = list(range(i % dilation, length, dilation))
        at = members.index(i)
        first = at - kernel + 1 if causal else min(max(at - kernel // 2, 0), len(members) - kernel)
        for j in range(max(first, 0), first + kernel):
            found[i, members[j]] = True
    return found


def reference(q, k, v, kernel, dilation, causal, scale=None):
    """Dense attention in double, with a mask of all pairs."""
    shape = q.shape[1:-2]
    seen = torch.ones(1, 1, dtype=torch.bool)
    for axis in zip(shape, kernel, dilation, causal):
        seen = torch.kron(seen, seen_along(*axis))
    q, k, v = (x.double().flatten(1, len(shape)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    out = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
    return out.transpose(1, 2).unflatten(1, shape)


@unittest.skipIf(torch is None, "torch is not installed")
class Natten(unittest.TestCase):
    def tensors(self, shape, heads=3, dim=8):
        g = torch.Generator().manual_seed(1)
        return [torch.randn(2, *shape, heads, dim, generator=g, requires_grad=True) for _ in range(3)]

    def test_outputs_and_gradients_are_those_of_the_definition(self):
        for name, shape in SHAPES.items():
            axes = len(shape)
            kinds = itertools.product((2, 3), (1, 2), (False, True), (None, 0.3))
            own = [((2, 4, 3)[:axes], (2, 1, 1)[:axes], (True, False, False)[:axes], None)]
            for kernel, dilation, causal, scale in (*kinds, *own):
                if not isinstance(kernel, tuple) and kernel * dilation > min(shape):
                    continue
                with self.subTest(name, kernel=kernel, dilation=dilation, causal=causal, scale=scale):
                    tensors = self.tensors(shape)
                    each = [x if isinstance(x, tuple) else (x,) * axes for x in (kernel, dilation, causal)]
                    found = getattr(hga.torch, name)(*tensors, kernel, dilation=dilation, is_causal=causal, scale=scale)
                    want = reference(*tensors, *each, scale)
                    self.assertEqual(found.shape, tensors[0].shape)
                    torch.testing.assert_close(found.double(), want, atol=1e-5, rtol=1e-5)
                    by = torch.randn_like(want)
                    for x, y in zip(*(torch.autograd.grad((y * by).sum(), tensors) for y in (found, want))):
                        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-4)

    def test_sixteen_bits(self):
        tensors = [x.detach().bfloat16() for x in self.tensors((9, 8), dim=32)]
        found, want = hga.torch.na2d(*tensors, 5), reference(*tensors, (5, 5), (1, 1), (False, False))
        self.assertEqual(found.dtype, torch.bfloat16)
        torch.testing.assert_close(found.double(), want, atol=2e-2, rtol=2e-2)

    def test_options_of_kernels_say_nothing(self):
        tensors = self.tensors((11,))
        self.assertTrue(torch.equal(hga.torch.na1d(*tensors, 3), hga.torch.na1d(*tensors, 3, backend="cutlass-fna", q_tile_shape=(64,))))

    def test_what_is_not_offered_is_refused(self):
        q, k, v = self.tensors((7, 6))
        for words, call in (
            ("stride=2 is not offered", lambda: hga.torch.na2d(q, k, v, 3, stride=2)),
            ("additional_keys and additional_values are not offered", lambda: hga.torch.na2d(q, k, v, 3, additional_keys=k[:, 0], additional_values=v[:, 0])),
            ("a kernel of 3 with dilation 3 does not fit into an axis of 7 tokens", lambda: hga.torch.na2d(q, k, v, 3, dilation=3)),
            ("na2d: kernel_size is '3', not a whole number", lambda: hga.torch.na2d(q, k, v, "3")),
            ("na2d: kernel_size is 3.7, not a whole number", lambda: hga.torch.na2d(q, k, v, (3, 3.7))),
            ("na2d: dilation is None, not a whole number", lambda: hga.torch.na2d(q, k, v, 3, dilation=None)),
            ("na2d: is_causal is 'n', neither True nor False", lambda: hga.torch.na2d(q, k, v, 3, is_causal="n")),
            ("na2d: key is a ndarray, not a tensor", lambda: hga.torch.na2d(q, k.detach().numpy(), v, 3)),
            ("a kernel of 0 with dilation 1", lambda: hga.torch.na2d(q, k, v, 0)),
            ("kernel_size has 3 numbers, the grid 2 axes", lambda: hga.torch.na2d(q, k, v, (3, 3, 3))),
            (r"\[batch, X, heads, head_dim\], of one grid; they have the shapes \(2, 7, 6, 3, 8\)", lambda: hga.torch.na1d(q, k, v, 3)),
            ("of one grid", lambda: hga.torch.na2d(q, k[:, 1:], v[:, 1:], 3)),
            ("unknown argument 'rpb'", lambda: hga.torch.na2d(q, k, v, 3, rpb=k)),
        ):
            with self.subTest(words):
                refused(self, words, call)


if __name__ == "__main__":
    unittest.main()
