"""Calls drawn at random: however arrays lie (axes in any order of memory, gaps, backwards, repeated), of whichever types, in batches,
by numpy and by torch, there and back: the bits are those of packed copies, a sample at a time, and nothing that is read changes."""

import os
import random
import unittest

import hga
import numpy as np
from hga._core.arrays import BF16, narrowed
from shared import as_numpy, as_torch, needs, torch

CALLS = 40 if os.environ.get("HGA_TEST_QUICK") else 160
WORDS = ("dense", "dense:causal=1", "window:left=3:right=2", "htransformer:block=4", "bpt:k=2", "hsa:branching=2,3", "fenwick", "dilated:segments=4,8:dilations=1,2")  # fmt: skip
TYPES = (np.dtype(np.float32), np.dtype(np.float16), BF16)


def lying(r, x, backwards):
    """The same numbers in memory of another order, with gaps, backwards."""
    order = r.sample(range(x.ndim - 1), x.ndim - 1) + [x.ndim - 1]
    gaps = [r.choice((0, 0, 1, 3)) for _ in order]
    memory = np.full([n + gap for n, gap in zip(np.transpose(x, order).shape, gaps)], 7, np.float32).astype(x.dtype)
    view = memory[tuple(slice(0, n - gap) for n, gap in zip(memory.shape, gaps))].transpose(np.argsort(order))
    if backwards:
        flips = tuple(slice(None, None, r.choice((1, -1))) for _ in x.shape[:-1])
        view = view[flips]
    view[...] = x
    return view


class Drawn:
    def __init__(self, seed):
        r = self.r = random.Random(seed)
        rng = np.random.default_rng(seed)
        words, n = r.choice(WORDS), r.randint(1, 40)
        name, *parameters = words.split(":")
        self.h = hga.build(" ".join([name, *parameters]), n)
        self.batch = r.choice(((), (1,), (2,), (3,), (2, 2)))
        self.layout = r.choice(("bhnd", "bnhd"))
        kv, each, dim, dim_v = r.choice((1, 2)), r.choice((1, 3)), r.choice((1, 5, 8, 16)), r.choice((3, 16))
        self.lse = name != "hsa" and r.random() < 0.6
        self.back = r.random() < 0.5
        self.options = dict(threads=r.randint(1, 3), precision=r.choice(("f32", "f32", "bf16")), layout=self.layout)
        if name != "hsa" and r.random() < 0.2:
            self.options["softcap"] = 2.0
        rows = self.h.rows
        shapes = {"q": (kv * each, dim), "k": (kv, dim), "v": (kv, dim_v)}
        self.packed, self.repeats = {}, {}
        for name, (heads, d) in shapes.items():
            shape = (*self.batch, heads, rows, d) if self.layout == "bhnd" else (*self.batch, rows, heads, d)
            x = rng.standard_normal(shape).astype("f4")
            if self.batch and r.random() < 0.2:  # one sample for all
                x = np.broadcast_to(x[:1], shape)
            axis = r.choice((None, None, None, -3, -2))  # one head for all, or one row
            x = x if axis is None else np.broadcast_to(x.take([0], axis), shape)
            self.repeats[name] = axis
            self.packed[name] = narrowed(np.ascontiguousarray(x), r.choice(TYPES))
        out = self.packed["q"].shape[:-1] + (dim_v,)
        self.d_out = narrowed(rng.standard_normal(out).astype("f4"), self.packed["q"].dtype) if self.back else None
        self.d_lse = rng.standard_normal(self.lse_shape()).astype("f4") if self.back and self.lse else None

    def lse_shape(self):
        return self.packed["q"].shape[:-1]

    def want(self):
        """A sample at a time, packed."""
        found = {}
        for at in np.ndindex(*self.batch):
            x = [np.ascontiguousarray(a[at]) for a in self.packed.values()]
            got = self.h.attention(*x, lse=self.lse, **self.options)
            one = dict(zip(("out", "lse"), got if self.lse else (got,)))
            if self.back:
                d_lse = None if self.d_lse is None else np.ascontiguousarray(self.d_lse[at])
                one.update(self.h.gradient(*x, np.ascontiguousarray(self.d_out[at]), d_lse=d_lse, needs_grad=("query", "key", "value"), **self.options))
            for name, a in one.items():
                found.setdefault(name, []).append(a)
        return {name: np.stack(a).reshape(*self.batch, *a[0].shape) for name, a in found.items()}

    def as_drawn(self, backwards):
        """What repeats along heads or rows does so in memory, too."""
        found = {name: lying(self.r, x, backwards) for name, x in {**self.packed, "d_out": self.d_out, "d_lse": self.d_lse}.items() if x is not None}
        for name, axis in self.repeats.items():
            if axis is not None:
                found[name] = np.broadcast_to(np.take(found[name], [0], axis), found[name].shape)
        return found


class Strides(unittest.TestCase):
    def assert_bits(self, got, want, seed):
        self.assertEqual(set(got), set(want))
        for name, x in want.items():
            self.assertEqual((got[name].dtype, got[name].shape), (x.dtype, x.shape), f"draw {seed}: {name}")
            self.assertEqual(np.ascontiguousarray(got[name]).tobytes(), x.tobytes(), f"draw {seed}: {name}")

    def test_arrays_may_lie_in_any_way(self):
        for seed in range(CALLS):
            call = Drawn(seed)
            want, x = call.want(), call.as_drawn(backwards=True)
            before = {name: a.tobytes() for name, a in x.items()}
            q, k, v = x["q"], x["k"], x["v"]
            got = call.h.attention(q, k, v, lse=call.lse, **call.options)
            found = dict(zip(("out", "lse"), got if call.lse else (got,)))
            if call.back:
                found.update(call.h.gradient(q, k, v, x["d_out"], d_lse=x.get("d_lse"), needs_grad=("query", "key", "value"), **call.options))
            self.assert_bits(found, want, seed)
            self.assertEqual({name: a.tobytes() for name, a in x.items()}, before, seed)

    @needs("torch")
    def test_tensors_too(self):
        for seed in range(CALLS, 2 * CALLS):
            call = Drawn(seed)
            want, x = call.want(), {name: as_torch(a) for name, a in call.as_drawn(backwards=False).items()}
            inputs = [x[name].requires_grad_(call.back) for name in ("q", "k", "v")]
            got = call.h.attention(*inputs, lse=call.lse, **call.options)
            found = dict(zip(("out", "lse"), got if call.lse else (got,)))
            if call.back:
                outputs, upstream = ([*got], [x["d_out"], x["d_lse"]]) if call.lse else ([got], [x["d_out"]])
                found.update(zip(("query", "key", "value"), torch.autograd.grad(outputs, inputs, upstream)))
            self.assert_bits({name: as_numpy(a) for name, a in found.items()}, want, seed)
