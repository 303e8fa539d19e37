"""Ctrl-C ends what the library is at within two seconds, and nothing is left of it."""

import functools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np

import hga
from shared import TOOL, needs_tool

SECONDS = 2  # from the signal to the exception
MOST = 1 << 30  # tokens, of which the first half second fills few pages
# A graph of few bytes, of which every row has columns of its own: seconds of checking, hours of counting.
SMALL = {"format": "hga-graph", "schema": 1, "levels": [1 << 23],
         "relations": [{"name": "near", "blocks": [{"dst": 0, "n_dst": 1 << 23, "src": 0, "n_src": 1 << 23, "shape": "lower"}]}]}  # fmt: skip


def small_graph(folder):
    """The same with a program that attends over it."""
    path = os.path.join(folder, "small.json")
    hga.window(64, left=2).write(path)
    graph = {**SMALL, "program": json.loads(pathlib.Path(path).read_text())["program"]}
    pathlib.Path(path).write_text(json.dumps(graph))
    return path


@functools.lru_cache(None)
def random_edges():
    """Edges that METIS takes seconds over: more than it is left alone with (SOON_CUT), in cuts of a second and less."""
    return np.random.default_rng(0).integers(0, 200000, (800000, 2), dtype=np.int32)


@functools.lru_cache(None)
def random_graph():
    edges = random_edges()
    return hga.Graph.from_edges(edges[:, 0].copy(), edges[:, 1].copy(), 200000, repeated="once")


def clusters(graph):
    """METIS's, where the library was built with it."""
    try:
        return graph.coarsen([8, 8])
    except hga.Error as e:
        if "METIS" in str(e):
            raise unittest.SkipTest("METIS is left out") from None
        raise


def setUpModule():
    """A shell's job in the background is started with Ctrl-C ignored, and so Python, and what it starts, leaves it."""
    unittest.addModuleCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))


class Interrupts(unittest.TestCase):
    def ends(self, call, after):
        """A signal that comes so many seconds after the call began ends it soon."""
        sent = []
        timer = threading.Timer(after, lambda: (sent.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT)))
        self.addCleanup(timer.cancel)
        timer.start()
        over = False
        with self.assertRaises(KeyboardInterrupt):
            call()
            over = True
            time.sleep(60)  # where the signal would come now
        self.assertFalse(over, "the call was over sooner")
        self.assertTrue(sent)
        self.assertLess(time.monotonic() - sent[0], SECONDS)
        timer.join()

    def test_clusters_and_orders(self):
        graph = random_graph()
        for after in (0.1, 0.5, 1.2):  # before METIS, and in it
            self.ends(lambda: clusters(graph), after)
        self.ends(lambda: hga.Hierarchy.order(neighbours(graph), "metis"), 0.7)
        self.assertEqual(graph.locality(2).edges, graph.n_edges("near"), "and the graph serves on")

    def test_questions_about_a_graph_of_few_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            h = hga.read(small_graph(folder))
        for after in (0.2, 1):
            self.ends(h.coverage, after)
            self.ends(h.explain, after)

    def test_a_plan_of_many_tokens(self):
        self.ends(lambda: hga.window(MOST, left=256).explain(), 0.3)
        self.ends(lambda: hga.window(1 << 27, left=256).explain(), 0.6)

    def test_calls_go_on_after_an_interrupt(self):
        graph = random_graph()
        self.ends(lambda: clusters(graph), 0.3)
        x = np.ones((1, 8, 4), np.float32)
        self.assertEqual(hga.dense(8).attention(x, x, x).max(), 1)

    def test_a_handler_that_raises_nothing_ends_nothing(self):
        came = []
        before = signal.signal(signal.SIGALRM, lambda *_: came.append(time.monotonic()))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            h = hga.window(1 << 22, left=256)
            self.assertEqual(h.coverage().more, 0)
            self.assertLess(came[0], time.monotonic() - 0.1, "it ran during the call")
        finally:
            signal.signal(signal.SIGALRM, before)


def neighbours(graph):
    program = hga.window(4, left=1)._program
    return hga.Hierarchy(graph, program)


@needs_tool
class Tool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        small_graph(cls.temporary.name)
        np.save(os.path.join(cls.temporary.name, "random.npy"), random_edges())

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def died(self, number, after, *arguments):
        folder = self.temporary.name
        before = sorted(os.listdir(folder))
        tool = subprocess.Popen([TOOL, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(after)
        self.assertIsNone(tool.poll(), tool.stderr.read() if tool.poll() is not None else "")
        tool.send_signal(number)
        begin = time.monotonic()
        tool.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual((tool.returncode, sorted(os.listdir(folder))), (-number, before))

    def test_a_signal_ends_it_and_leaves_no_file(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.died(number, 0.4, "check", "small.json")
            self.died(number, 0.3, "explain", "window", "--tokens", str(MOST), "-p", "left=256")
            self.died(number, 1, "export", "random.npy", "--tree", "metis:8,8", "-o", "clusters.json")
