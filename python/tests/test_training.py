"""The programs of examples/python/train in small: the loss falls, a run that was interrupted goes on bit for bit, threads change no bit."""

import argparse
import contextlib
import csv
import io
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "python" / "train"))
try:
    import characters
    import loop
    import torch
    from model import Model
except ImportError:
    torch = None

GOSPELS = ROOT / "examples" / "gospels.txt"


def options(folder, **more):
    o = dict(steps=24, rate=1e-2, seeds=1, threads=1, out=folder, save=8, stop=0, resume=False, context=64, batch=4, check=640)
    return argparse.Namespace(**{**o, **more})


def weights(folder):
    return (pathlib.Path(folder) / "model.safetensors").read_bytes()


def rows(folder):
    """A log's rows but for their seconds."""
    with open(pathlib.Path(folder) / "log.csv", newline="", encoding="utf-8") as file:
        return [row[:-1] for row in csv.reader(file)]


def output(program, *arguments):
    """What a program's main prints, and what it says of its progress."""
    said, told = io.StringIO(), io.StringIO()
    with mock.patch.object(sys, "argv", ["", *map(str, arguments)]), contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        program.main()
    return said.getvalue(), told.getvalue()


@unittest.skipIf(torch is None, "torch or safetensors is not installed")
class Characters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = characters.Text(GOSPELS.read_text(encoding="utf-8")[:40000])
        cls.every = [words.replace(".", ",") for words in characters.ATTENTION.split(",")] + ["sdpa"]
        cls.threads = torch.get_num_threads()

    @classmethod
    def tearDownClass(cls):
        torch.set_num_threads(cls.threads)  # the loop leaves torch with one

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def folder(self, name):
        return pathlib.Path(self.scratch.name) / name

    def trained(self, name, words="htransformer:block=4", **more):
        o = options(self.folder(name), **more)
        torch.manual_seed(3)
        model = Model(words, len(self.text.letters), o.context, layers=1, width=16, heads=2, back=1)
        with contextlib.redirect_stderr(io.StringIO()):
            return loop.train(name, model, characters.Characters(self.text, o), o, self.folder(name), 3, {"attention": words})

    def test_the_loss_falls_and_beats_frequencies_of_characters(self):
        run = self.trained("falls", steps=120)
        losses = [float(row[1]) for row in rows(self.folder("falls"))[1:]]
        self.assertLess(sum(losses[-10:]) / 10, 0.7 * losses[0])
        simple = characters.baselines(self.text, 640)
        self.assertLess(run["bits"], simple["(by frequency)"])
        self.assertLess(simple["(by the two before)"], simple["(by frequency)"])
        self.assertLess(simple["(by frequency)"], simple["(every character alike)"])

    def test_an_interrupted_run_goes_on_bit_for_bit(self):
        for words in ("htransformer:block=4", "bpt:k=2"):
            with self.subTest(words):
                whole, parts = (f"{words[:3]}-{name}" for name in ("whole", "parts"))
                run = self.trained(whole, words)
                self.assertIsNone(self.trained(parts, words, stop=13))
                self.assertNotEqual(weights(self.folder(whole)), weights(self.folder(parts)))
                again = self.trained(parts, words, resume=True)
                self.assertEqual(weights(self.folder(whole)), weights(self.folder(parts)))
                self.assertEqual(rows(self.folder(whole)), rows(self.folder(parts)))
                self.assertEqual(run["bits"], again["bits"])
                self.assertEqual(self.trained(parts, words, resume=True), again)  # it was complete: nothing is done

    def test_one_and_two_threads_give_the_same_bits(self):
        for words in ("htransformer:block=4", "fenwick"):
            with self.subTest(words):
                self.trained("one", words)
                self.trained("two", words, threads=2)
                self.assertEqual(weights(self.folder("one")), weights(self.folder("two")))

    def test_no_attention_sees_the_future(self):
        numbers = torch.randint(9, (1, 50), generator=torch.Generator().manual_seed(1))
        other = numbers.clone()
        other[0, 40:] = (other[0, 40:] + 1) % 9
        for words in self.every:
            with self.subTest(words), torch.no_grad():
                model = Model(words, 9, 50, layers=2, width=16, heads=2, back=2)
                a, b = model(numbers), model(other)
                self.assertLess(float((a - b)[0, :40].abs().max()), 1e-5)
                self.assertGreater(float((a - b)[0, 40:].abs().min(0).values.max()), 1e-4)

    def test_every_weight_has_a_gradient(self):
        numbers = torch.randint(9, (2, 50), generator=torch.Generator().manual_seed(1))
        for words in self.every:
            with self.subTest(words):
                model = Model(words, 9, 50, layers=1, width=16, heads=2, back=1)
                model(numbers).logsumexp(-1).sum().backward()
                for name, p in model.named_parameters():
                    self.assertGreater(float(p.grad.abs().max()), 0, name)

    def test_the_program(self):
        given = ("--text", GOSPELS, "--context", 64, "--steps", 4, "--seeds", 2, "--layers", 1, "--width", 16, "--check", 640,
                 "--attention", "dense,hsa:branching=2.4,mean", "--out", self.folder("out"))  # fmt: skip
        said, told = output(characters, *given)
        for name in ("(every character alike)", "(by frequency)", "(by the two before)", "dense ", "hsa:branching=2,4 ", "mean "):
            self.assertRegex(said, rf"(?m)^{re.escape(name)} +\d\.\d\d\d")
        self.assertRegex(said, "plot: |no plot: matplotlib is not installed")
        self.assertIn("mean seed 1 4/4 loss", told)
        self.assertTrue((self.folder("out") / "characters.json").exists())
        self.assertTrue((self.folder("out") / "hsa-branching=2.4-1" / "state.safetensors").exists())
        self.assertEqual(output(characters, *given, "--resume"), (said, ""))


if __name__ == "__main__":
    unittest.main()
