"""Functions of one's own, written in Python, see what the stage says, and what they raise the call raises."""

import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import traceback
import unittest

import hga
import numpy as np
from shared import needs, refused

RNG = np.random.default_rng(13)
X = RNG.standard_normal((1, 4, 3)).astype(np.float32)


@contextlib.contextmanager
def silence(test):
    """Nothing is printed to standard error, by Python or below it."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            test.assertEqual(file.read(), b"")


def summing(begin=lambda: 0.0, edge=None, finish=None, n=4):
    """A hierarchy of four tokens in which rows 1 and 3 have two edges, with these functions in place of a sum's."""
    p = hga.Program(hga.Graph.from_edges([0, 1, 2, 3], [1, 1, 3, 3], n))
    value, out = (p.field(name, name, name, "queries", "queries") for name in ("value", "out"))
    p.user("sum", 0, [value], [out], begin, edge or (lambda s, e: s + e.source[value]),
           finish or (lambda s, v: v[out].__setitem__(slice(None), s)))  # fmt: skip
    return p.hierarchy()


class Trouble(Exception):
    pass


def trouble(*_):
    raise Trouble("of my own")


class Raised(unittest.TestCase):
    def test_what_a_function_raises_the_call_raises_and_nothing_is_printed(self):
        for which in ("begin", "edge", "finish"):
            h = summing(**{which: trouble})
            with self.subTest(which), silence(self):
                try:
                    h.attention(X, X, X)
                    self.fail("nothing was raised")
                except Trouble as e:
                    self.assertEqual(str(e), "of my own")
                    places = [frame.name for frame in traceback.extract_tb(e.__traceback__)]
                self.assertEqual((places[-1], "attention" in places), ("trouble", True))
                with self.assertRaises(Trouble):
                    h.attention(X, X, X, threads=2)

    def test_after_the_first_exception_no_function_is_called(self):
        calls = []

        def edge(s, e):
            calls.append(e.source.node)
            raise Trouble(len(calls))

        h = summing(edge=edge, finish=lambda s, v: calls.append("finish") if v.node else None)
        with self.assertRaisesRegex(Trouble, "1"):
            h.attention(X, X, X)
        self.assertEqual(calls, [0])

    def test_a_call_after_a_failed_one_is_as_if_it_had_not_been(self):
        fail = [True]
        h = summing(edge=lambda s, e: trouble() if fail[0] else s + e.source[1])
        with self.assertRaises(Trouble):
            h.attention(X, X, X)
        fail[0] = False
        self.assertLess(abs(h.attention(X, X, X)[0, 1] - X[0, 0] - X[0, 1]).max(), 1e-6)
        self.assertEqual(h._functions[0][1].states, {})

    def test_an_interrupt_inside_of_a_function_ends_the_call(self):
        h = summing(edge=lambda s, e: signal.raise_signal(signal.SIGINT))
        with silence(self), self.assertRaises(KeyboardInterrupt):
            h.attention(X, X, X)

    def test_exits_and_errors_of_hga_come_through_as_they_are(self):
        with self.assertRaises(SystemExit):
            summing(begin=lambda: sys.exit(3)).attention(X, X, X)
        refused(self, "bpt has no parameter", lambda: summing(finish=lambda s, v: hga.bpt(4, kk=3)).attention(X, X, X))

    def test_a_function_may_attend_with_another_hierarchy(self):
        one, x = hga.dense(4), np.zeros((1, 4, 3), np.float32)

        def edge(s, e):
            one.attention(x, x, x)
            return s + e.source[1]

        self.assertLess(abs(summing(edge=edge).attention(X, X, X)[0, 1] - X[0, 0] - X[0, 1]).max(), 1e-6)

        def fails(s, e):
            with contextlib.suppress(hga.Error):
                one.attention(x, x, x[:, :3])
            trouble()

        with self.assertRaises(Trouble):
            summing(edge=fails).attention(X, X, X)

    def test_threads_have_exceptions_and_states_of_their_own(self):
        good, bad, seen = summing(), summing(edge=trouble), []
        want = good.attention(X, X, X)

        def run(h):
            for _ in range(50):
                try:
                    seen.append(np.array_equal(h.attention(X, X, X), want))
                except Trouble:
                    seen.append("trouble" if h is bad else "of another")

        threads = [threading.Thread(target=run, args=(h,)) for h in (good, bad, good)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual((seen.count(True), seen.count("trouble"), len(seen)), (100, 50, 150))

    def test_a_callback_of_the_packages_own_raises_too(self):
        from hga._graphs import looking as _looking

        h, kept = hga.dense(4), dict(vars(_looking))
        for name, call in (("Row", lambda: h.row(1)), ("int", h.patches)):  # what the callbacks are made of
            setattr(_looking, name, trouble)
            try:
                with silence(self), self.assertRaises(Trouble):
                    call()
            finally:
                setattr(_looking, name, kept[name]) if name in kept else delattr(_looking, name)
        self.assertEqual((len(h.row(1)), len(h.patches())), (4, 1))

    @needs("torch")
    def test_torch_raises_it_as_well(self):
        import torch

        x = torch.from_numpy(X)
        with silence(self):
            with self.assertRaisesRegex(Trouble, "of my own"):
                summing(finish=trouble).attention(x, x, x)
            with self.assertRaises(KeyboardInterrupt):
                summing(edge=lambda s, e: signal.raise_signal(signal.SIGINT)).attention(x, x, x)
        self.assertLess(abs(summing().attention(x, x, x).numpy()[0, 1] - X[0, 0] - X[0, 1]).max(), 1e-6)


class Seen(unittest.TestCase):
    def test_a_field_that_there_is_not_is_an_index_error(self):
        for field in (100000, 3, 0, -1, 2**40, -(2**62)):
            for h in (summing(edge=lambda s, e: e.source[field]), summing(edge=lambda s, e: e.destination[field]),
                      summing(finish=lambda s, v: v[field])):  # fmt: skip
                with self.assertRaisesRegex(IndexError, f"field {field}: fields are 1 .. 2"):
                    h.attention(X, X, X)
        for field in ("value", 1.0, None, True):
            refused(self, "not a whole number", lambda: summing(edge=lambda s, e: e.source[field]).attention(X, X, X))

    def test_a_field_added_after_the_hierarchy_was_made_is_not_seen_by_it(self):
        p = hga.Program(hga.Graph.from_edges([0], [1], 4))
        value, out = (p.field(name, name, name, "queries", "queries") for name in ("value", "out"))
        p.user("sum", 0, [value], [out], lambda: 0, lambda s, e: e.source[3], lambda s, v: None)
        h = p.hierarchy()
        p.field("more", "scalar")
        with self.assertRaisesRegex(IndexError, "1 .. 2"):
            h.attention(X, X, X)

    def test_a_field_that_is_not_shown_is_none(self):
        seen = []
        summing(edge=lambda s, e: seen.append((e.source[2], e.destination[2]))).attention(X, X, X)
        self.assertEqual(set(seen), {(None, None)})

    def test_what_is_read_is_a_copy_that_cannot_be_written(self):
        kept = []

        def edge(s, e):
            kept.append(e.source[1])
            return s + e.source[1]

        summing(edge=edge).attention(X, X, X)
        gc.collect()
        self.assertTrue(np.array_equal(np.stack(kept), X[0, [0, 1, 2, 3]]))
        with self.assertRaisesRegex(ValueError, "read-only"):
            summing(edge=lambda s, e: e.source[1].__setitem__(0, 1)).attention(X, X, X)

    def test_an_end_that_is_kept_is_empty_after_its_function(self):
        kept = []
        h = summing(edge=lambda s, e: (kept.append(e), s + e.source[1])[1],
                    finish=lambda s, v: (kept.append(v), v[2].__setitem__(slice(None), s)))  # fmt: skip
        h.attention(X, X, X)
        for end in [e.source for e in kept if isinstance(e, hga.Edge)] + [v for v in kept if isinstance(v, hga.End)]:
            refused(self, "is gone", lambda: end[1])

    def test_what_is_written_late_or_before_an_exception_goes_nowhere(self):
        kept = []
        h = summing(finish=lambda s, v: (v[2].__setitem__(slice(None), s), kept.append(v[2])))
        out = h.attention(X, X, X)
        for row in kept:
            row[:] = 7
        self.assertTrue(np.array_equal(h.attention(X, X, X), out) and not (out == 7).any())

    def test_functions_and_fields_are_checked_when_the_stage_is_made(self):
        p = hga.Program(hga.Graph.from_edges([0], [1], 4))
        value, out = (p.field(name, name, name, "queries", "queries") for name in ("value", "out"))
        with self.assertRaisesRegex(hga.Error, "edge is 3, not a function"):
            p.user("sum", 0, [value], [out], lambda: 0, 3, lambda s, v: None)
        for reads, writes, wrong in (([9], [out], "9"), ([value], [0], "0"), ([-1], [out], "-1"), ([value], [10**6], "1000000")):
            with self.assertRaisesRegex(hga.Error, f"{wrong}"):
                p.user("sum", 0, reads, writes, lambda: 0, lambda s, e: s, lambda s, v: None)
