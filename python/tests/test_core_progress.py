"""What takes long tells a share that grows to 1, on terminals and in notebooks alone."""

import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock

import hga
import numpy as np
from hga._core import progress as _progress
from shared import TOOL, needs, refused

N = 3000


def ring():
    at = np.arange(N)
    return hga.Graph.from_edges(np.concatenate([at, at]), np.concatenate([(at + 1) % N, (at - 1) % N]), N)


def coarsened(**more):
    try:
        ring().coarsen([8, 8], **more)
    except hga.Error as e:
        if "METIS" in str(e):
            raise unittest.SkipTest("METIS is left out") from None
        raise


def written(**more):
    with tempfile.TemporaryDirectory() as folder:
        ring().write(os.path.join(folder, "ring.csv"), **more)


def read_from_networkx(**more):
    import networkx

    hga.Graph.from_networkx(networkx.cycle_graph(N), **more)


def made_for_networkx(**more):
    ring().hierarchy().to_networkx(**more)


def of_parents(**more):
    hga.Graph.from_parents([(v - 1) // 3 if v else -1 for v in range(400)], **more)


def chosen(**more):
    if not os.path.exists(TOOL):
        raise unittest.SkipTest("the tool is not built")
    x = np.random.default_rng(1).standard_normal((2, 40, 8)).astype(np.float32)
    hga.choose(x, x, x, variants="window", seconds=0, **more)


LONG = (coarsened, written, read_from_networkx, made_for_networkx, of_parents, chosen)


@needs("tqdm")
class Bars(unittest.TestCase):
    def setUp(self):
        soon = unittest.mock.patch.object(_progress, "SECONDS", 0)
        soon.start()
        self.addCleanup(soon.stop)

    def shares(self, long):
        """What tqdm is told of a call."""
        from tqdm.auto import tqdm

        found = []

        class Heard(tqdm):
            def update(self, n=1):
                found.append(self.n + n)
                return super().update(n)

        with unittest.mock.patch("tqdm.auto.tqdm", Heard), contextlib.redirect_stderr(io.StringIO()) as said:
            long(progress=True)
        return found, said.getvalue()

    def test_shares_grow_to_1(self):
        for long in LONG:
            with self.subTest(long=long.__name__):
                found, said = self.shares(long)
                self.assertTrue(found)
                self.assertEqual(found, sorted(found))
                self.assertAlmostEqual(found[-1], 1)
                self.assertIn("%|", said)

    def test_every_cluster_counts(self):
        found, said = self.shares(coarsened)
        np.testing.assert_allclose(found, np.arange(1, 423) / 422)  # 375 of eight nodes, 47 of these
        self.assertIn("clusters: ", said)

    def test_what_is_no_terminal_shows_none(self):
        for long in LONG:
            for more in ({}, {"progress": None}, {"progress": False}):
                with self.subTest(long=long.__name__, more=more), contextlib.redirect_stderr(io.StringIO()) as said:
                    long(**more)
                    self.assertEqual(said.getvalue(), "")

    def test_a_terminal_shows_one(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        for more, shown in (({}, True), ({"progress": False}, False)):
            with contextlib.redirect_stderr(Terminal()) as said:
                coarsened(**more)
            self.assertEqual("clusters: " in said.getvalue(), shown)

    def test_what_takes_less_than_two_seconds_shows_none(self):
        with unittest.mock.patch.object(_progress, "SECONDS", 2):
            self.assertEqual(self.shares(coarsened)[1].strip(), "")

    def test_an_interrupt_in_between_comes_through(self):
        from tqdm.auto import tqdm

        class Interrupted(tqdm):
            def update(self, n=1):
                raise KeyboardInterrupt

        for long in LONG:
            with self.subTest(long=long.__name__), contextlib.redirect_stderr(io.StringIO()):
                with unittest.mock.patch("tqdm.auto.tqdm", Interrupted), self.assertRaises(KeyboardInterrupt):
                    long(progress=True)


@unittest.mock.patch.object(_progress, "find_spec", lambda name: None)
class WithoutTqdm(unittest.TestCase):
    def test_asking_for_a_bar_names_what_is_missing(self):
        with self.assertRaisesRegex(ModuleNotFoundError, "pip install tqdm"):
            written(progress=True)

    def test_else_nothing_changes(self):
        for more in ({}, {"progress": False}):
            written(**more)


class Refused(unittest.TestCase):
    def test_other_words(self):
        refused(self, "progress is 'bar', neither True nor False", lambda: written(progress="bar"))
