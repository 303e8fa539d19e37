"""An old name works as the new one does, and warns where the caller stands."""

import unittest

import numpy as np

import hga
from hga._core.arguments import RENAMED
from shared import refused

N = 12


class OldNames(unittest.TestCase):
    def warned(self, old, call):
        """The result of a call that warns of the old name, in this file."""
        with self.assertWarns(DeprecationWarning) as found:
            result = call()
        self.assertEqual(found.filename, __file__)
        self.assertEqual(str(found.warning), f"hga: {old} is now {RENAMED[old]}; hga 0.6 will not know the old name")
        return result

    def test_attributes(self):
        h = hga.window(N, left=2)
        trees = hga.treeformer_fine(height=1, weights=np.ones((1, 4)), bias=np.zeros(1))
        for of, old in ((h, "parts"), (h, "key_parts"), (h.order("rcm"), "places"), (trees, "given")):
            self.assertIs(self.warned(old, lambda: getattr(of, old)), getattr(of, RENAMED[old]), old)

    def test_keywords(self):
        q = np.random.default_rng(1).standard_normal((1, 1, N, 4)).astype(np.float32)
        for h in (hga.window(N, left=2), hga.window(N, left=2).order("rcm"), hga.routed(N, block=4, k=2)):
            found = self.warned("wanted", lambda: h.gradient(q, q, q, q, wanted=["key"]))
            self.assertEqual([*found], ["key"])
            np.testing.assert_array_equal(found["key"], h.gradient(q, q, q, q, needs_grad=["key"])["key"])

    def test_both_names_are_refused(self):
        q = np.zeros((1, 1, N, 4), np.float32)
        with self.assertRaisesRegex(hga.Error, r"gradient has wanted= and needs_grad=, which are the same: leave wanted= out"):
            self.warned("wanted", lambda: hga.dense(N).gradient(q, q, q, q, wanted=["key"], needs_grad=["key"]))

    def test_an_old_name_is_nothing_to_other_functions(self):
        q = np.zeros((1, 1, N, 4), np.float32)
        refused(self, "attention has no wanted=", lambda: hga.dense(N).attention(q, q, q, wanted=["key"]))
