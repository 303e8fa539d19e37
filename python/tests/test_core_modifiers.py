"""Facts about softcap=, sink= and slopes=: against attention written out in torch, forward and backward, in every way that a call
may go; and what is refused."""

import importlib.util
import pickle
import unittest

import hga
import numpy as np

TORCH = importlib.util.find_spec("torch") is not None

if TORCH:
    import hga.torch
    import torch

    N, H, D = 40, 4, 16

    def tensors(**more):
        torch.manual_seed(3)
        q, k, v = (torch.randn(2, H, N, D, **more) for _ in range(3))
        sink = torch.tensor([0.5, -1.0, 2.0, -float("inf")], **more)
        slopes = torch.tensor([0.5, 0.25, 0.0, 0.1], **more)
        return q, k, v, sink, slopes

    def written_out(q, k, v, sink=None, slopes=None, softcap=None, left=6, lse=False):
        i = torch.arange(N)
        s = q @ k.transpose(-1, -2) / D**0.5
        s = s if softcap is None else softcap * torch.tanh(s / softcap)
        s = s if slopes is None else s - slopes[:, None, None] * (i[:, None] - i[None]).abs()
        s = s.masked_fill(~((i[:, None] >= i) & (i[:, None] - i <= left)), -float("inf"))
        if sink is not None:
            s = torch.cat([s, sink[None, :, None, None].expand(q.shape[0], H, N, 1)], -1)
        weights = torch.softmax(s, -1)[..., :N]
        return (weights @ v, torch.logsumexp(s, -1)) if lse else weights @ v


@unittest.skipUnless(TORCH, "torch is not installed")
class Modified(unittest.TestCase):
    CHOICES = ("sink",), ("slopes",), ("softcap",), ("sink", "slopes", "softcap")

    def setUp(self):
        self.h = hga.window(N, left=6, right=0, causal=True)

    def given(self, names, sink, slopes):
        return {name: dict(sink=sink, slopes=slopes, softcap=0.75)[name] for name in names}

    def test_attention_and_its_gradients_are_those_written_out(self):
        for names in self.CHOICES:
            q, k, v, sink, slopes = tensors(requires_grad=True)
            more = self.given(names, sink, slopes)
            want, want_lse = written_out(q, k, v, lse=True, **more)
            out, lse = self.h.attention(q, k, v, lse=True, **more)
            self.assertLess((out - want).abs().max(), 2e-6)
            self.assertLess((lse - want_lse).abs().max(), 5e-6)
            inputs = [q, k, v] + [x for x, name in ((sink, "sink"), (slopes, "slopes")) if name in names]
            d, d_lse = torch.randn_like(out), torch.randn_like(lse)
            found = torch.autograd.grad((out, lse), inputs, (d, d_lse))
            wants = torch.autograd.grad((want, want_lse), inputs, (d, d_lse))
            for mine, theirs in zip(found, wants):
                self.assertLess((mine - theirs.nan_to_num()).abs().max(), 2e-5 * max(1, theirs.nan_to_num().abs().max()), names)

    def test_numpy_and_every_other_way_are_the_same(self):
        q, k, v, sink, slopes = tensors()
        more = self.given(self.CHOICES[-1], sink, slopes)
        arrays = {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in more.items()}
        out = self.h.attention(q, k, v, **more)
        self.assertTrue(np.array_equal(self.h.attention(q.numpy(), k.numpy(), v.numpy(), **arrays), out.numpy()))
        run = lambda *x: self.h.attention(*x[:3], sink=x[3], slopes=x[4], softcap=0.75)  # noqa: E731
        compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k, v, sink, slopes), out))
        mapped = torch.vmap(lambda *x: self.h.attention(*x, **more))(q, k, v)
        self.assertTrue(torch.equal(mapped, out))
        again = pickle.loads(pickle.dumps(self.h))
        self.assertTrue(torch.equal(again.attention(q, k, v, **more), out))
        d = np.ones(out.shape, np.float32)
        grads = self.h.gradient(q.numpy(), k.numpy(), v.numpy(), d, **arrays)
        self.assertEqual(set(grads), {"query", "key", "value", "sink", "slopes"})

    def test_weights_know_of_them(self):
        q, k, v, sink, slopes = tensors()
        more = self.given(self.CHOICES[-1], sink.numpy(), slopes.numpy())
        row = self.h.weights(q[0].numpy(), k[0].numpy(), 20, 1, **more)
        eye = torch.eye(N).expand(1, H, N, N)
        want = written_out(q[:1], k[:1], eye, sink, slopes, 0.75)[0, 1, 20]
        self.assertLess(np.abs(row - want.numpy()).max(), 1e-6)
        self.assertLess(row.sum(), 0.99)

    def test_what_means_nothing_is_refused(self):
        q, k, v, sink, slopes = tensors()
        hsa = hga.hsa(N, branching=[2, 4])
        for words, h, more in (
            ("softcap -1 is not from 1e-30 to 1e30, or 0 for none", self.h, dict(softcap=-1)),
            (r"sink has shape \(2,\), not \[heads\]: heads is 4", self.h, dict(sink=sink[:2])),
            ("slopes of head 1 is -0.5", self.h, dict(slopes=slopes.clone().index_fill(0, torch.tensor(1), -0.5))),
            ("sink of head 0 is nan", self.h, dict(sink=sink * float("nan"))),
            ("those of an energy", hsa, dict(softcap=2.0)),
            ("no log-sum-exp", hsa, dict(sink=sink)),
        ):
            with self.assertRaisesRegex(hga.Error, words):
                h.attention(q, k, v, **more)
