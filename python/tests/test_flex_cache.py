"""A score_mod that reads the same is traced once, and whatever else changes is seen."""

import functools
import gc
import unittest
import weakref
from unittest import mock

try:
    import torch
    import hga.torch as ht
    from hga._flex import cache as _flex_cache
except ImportError:
    torch = None

FACTOR = 2.0


class Settings:
    by = 0.5
    step = 1.0

    def __init__(self, bias):
        self.bias, self.by_name = bias, {"add": 0.25}

    def scored(self, s, b, h, q, k):
        return self.added(s * self.by, h) + self.by_name["add"] * (q - k)

    def added(self, s, h):
        return s + self.bias[h] * self.step

    def __call__(self, s, b, h, q, k):
        return self.scored(s, b, h, q, k)


def by_factor(s, b, h, q, k):
    return s * FACTOR


def through_another(s, b, h, q, k):
    return by_factor(s, b, h, q, k) - 0.1 * (q - k)


@unittest.skipUnless(torch, "torch is not installed")
class Kept(unittest.TestCase):
    def setUp(self):
        generator = torch.Generator().manual_seed(1)
        self.q, self.k, self.v = (torch.randn(1, 2, 12, 4, generator=generator) for _ in range(3))
        self.bias = torch.randn(2, generator=generator)
        _flex_cache._CACHE.clear()

    def out(self, mod):
        return ht.flex_attention(self.q, self.k, self.v, mod)

    def traces(self, mod):
        """How often a call traces; its numbers are those of a trace that is made anew."""
        with mock.patch.object(_flex_cache, "Traced", wraps=_flex_cache.Traced) as traced:
            out = self.out(mod)
            n = traced.call_count
        kept = dict(_flex_cache._CACHE)
        _flex_cache._CACHE.clear()
        self.assertTrue(torch.equal(out, self.out(mod)))
        _flex_cache._CACHE.clear()
        _flex_cache._CACHE.update(kept)
        return n

    def assertSeen(self, mod, change, again=0):
        """Traced once, and again after the change, whose numbers differ; or each time."""
        self.assertEqual([self.traces(mod), self.traces(mod)], [1, again])
        before = self.out(mod)
        change()
        self.assertEqual([self.traces(mod), self.traces(mod)], [1, again])
        self.assertFalse(torch.equal(before, self.out(mod)))

    def layer(self, by=1.0):
        bias = self.bias

        def mod(s, b, h, q, k):
            return s * by + bias[h] * (q - k)

        return mod

    def test_a_function_that_is_made_in_every_call_is_traced_once(self):
        self.assertEqual([self.traces(self.layer()), self.traces(self.layer())], [1, 0])
        self.assertEqual(self.traces(self.layer(by=2.0)), 1)
        self.assertEqual(self.traces(self.layer(by=2)), 1)  # another type

    def test_tensors_that_change_or_are_others_are_seen(self):
        mod = self.layer()
        self.assertSeen(mod, lambda: self.bias.add_(1))
        self.bias = self.bias.clone()
        self.assertEqual(self.traces(self.layer()), 1)
        one = torch.tensor(2.0)  # a number to the trace
        self.assertSeen(lambda s, b, h, q, k: s * one, lambda: one.fill_(3))

    def test_globals_that_change_are_seen(self):
        def change():
            globals()["FACTOR"] = 3.0

        self.addCleanup(globals().__setitem__, "FACTOR", 2.0)
        self.assertSeen(through_another, change)

    def test_attributes_that_change_are_seen(self):
        for mod, change in (
            (lambda x: x, lambda x: setattr(x, "by", 0.75)), (lambda x: x, lambda x: x.by_name.update(add=1.0)),
            (lambda x: x.scored, lambda x: x.bias.mul_(2)), (lambda x: x.scored, lambda x: setattr(x, "step", 2.0)),
            (lambda x: functools.partial(x.scored), lambda x: setattr(x, "by", 0.75)),
        ):  # fmt: skip
            settings = Settings(self.bias.clone())
            self.assertSeen(mod(settings), lambda: change(settings), again=1)
        settings = Settings(self.bias)
        self.addCleanup(setattr, Settings, "step", 1.0)
        self.assertSeen(settings.scored, lambda: setattr(Settings, "step", 3.0), again=1)
        self.assertEqual(len(_flex_cache._CACHE), 0)

    def test_modules_defaults_and_closures_that_change_are_seen(self):
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.bias = torch.nn.Parameter(torch.ones(2))

            def forward(self, s, b, h, q, k):
                return s + self.bias[h] * (q - k)

        module = Module()
        self.assertSeen(module, lambda: module.bias.detach().add_(1), again=1)

        def mod(s, b, h, q, k, by=2.0):
            return s * by

        self.assertSeen(mod, lambda: setattr(mod, "__defaults__", (3.0,)))
        n = [1.0]
        self.assertSeen(lambda s, b, h, q, k: s * n[0], lambda: n.__setitem__(0, 2.0))
        named = {"by": (1.0, 2)}
        self.assertSeen(functools.partial(lambda s, b, h, q, k, named: s * named["by"][0], named=named), lambda: named.update(by=(3.0, 2)))

    def test_what_cannot_be_looked_up_is_traced_each_time(self):
        numbers = iter([1.0, 2.0, 3.0])
        first = self.out(lambda s, b, h, q, k: s * next(numbers))
        self.assertFalse(torch.equal(first, self.out(lambda s, b, h, q, k: s * next(numbers))))
        self.assertEqual(len(_flex_cache._CACHE), 0)

        class Hidden:
            @property
            def by(self):
                return FACTOR

            def __call__(self, s, b, h, q, k):
                return s * self.by

        self.assertEqual([self.traces(Hidden()), self.traces(Hidden())], [1, 1])
        with torch.inference_mode():
            told = torch.ones(2)
            mod = lambda s, b, h, q, k: s + told[h] * (q - k)  # noqa: E731
            self.assertEqual([self.traces(mod), self.traces(mod)], [1, 1])

    def test_functions_that_read_otherwise_are_traced_each_time(self):
        """By an attribute that somebody gave a function or a tensor, an import, a builtin by another name."""
        def given(s, b, h, q, k):
            return s * given.mean

        tensor, evaluate = torch.ones(2), eval
        tensor.std = 2.0
        given.mean = 2.0

        def imported(s, b, h, q, k):
            import random

            return s * random.random()

        for mod in (given, lambda s, b, h, q, k: s * tensor.std, lambda s, b, h, q, k: s * evaluate("FACTOR"), lambda s, *at: s * globals()["FACTOR"],
                    functools.lru_cache(by_factor), functools.wraps(torch.relu)(lambda s, *at: s * vars(given)["mean"])):  # fmt: skip
            self.assertEqual([self.traces(mod), self.traces(mod)], [1, 1])
        torch.manual_seed(1)
        self.out(imported)
        self.assertEqual(len(_flex_cache._CACHE), 0)

    def test_functions_that_torch_makes_are_those_that_they_call(self):
        from torch.nn.attention.flex_attention import and_masks

        def mod(least):
            mask = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k >= least)
            return lambda s, b, h, q, k: torch.where(mask(b, h, q, k), s, -float("inf"))

        self.assertEqual([self.traces(mod(1)), self.traces(mod(1)), self.traces(mod(2))], [1, 0, 1])

    def test_autocast_is_seen(self):
        table = torch.randn(2, 3)

        def mod(s, b, h, q, k):
            return s + (table @ table.T).sum(1)[h] * (q - k)

        self.assertEqual(self.traces(mod), 1)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual([self.traces(mod), self.traces(mod)], [1, 0])

    def test_gradients_come_of_a_trace_that_was_kept(self):
        bias = self.bias.requires_grad_()
        grads = []
        for _ in range(2):
            bias.grad = None
            self.out(self.layer()).sum().backward()
            grads.append(bias.grad)
        self.assertTrue(torch.equal(*grads) and grads[0].abs().sum() > 0)
        self.assertEqual(len(_flex_cache._CACHE), 1)
        with torch.no_grad():
            self.out(self.layer())
        self.assertEqual(len(_flex_cache._CACHE), 2)

    def test_nobodys_tensors_live_longer(self):
        mod = self.layer()
        self.out(mod)
        weak = weakref.ref(self.bias)
        del mod, self.bias
        gc.collect()
        self.assertEqual(len(_flex_cache._CACHE), 1)
        self.assertIsNone(weak())

    def test_refusals_stay_refusals(self):
        for _ in range(2):
            with self.assertRaisesRegex(NotImplementedError, "does not depend on the score"):
                self.out(lambda s, b, h, q, k: q - k)
        self.assertEqual(len(_flex_cache._CACHE), 0)
