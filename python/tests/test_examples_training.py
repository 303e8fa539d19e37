"""The programs of examples/python/train in small: the loss falls, a run that was interrupted goes on bit for bit, threads change no bit."""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import statistics
import subprocess
import sys
import unittest
from unittest import mock

from shared import ROOT, output, scratch

sys.path.insert(0, str(ROOT / "examples" / "python" / "train"))
try:
    import characters
    import listops
    import loop
    import recall
    import safetensors.torch
    import steps
    import torch
    from model import Model
except ImportError:
    torch = None
try:
    import distill
    import numpy as np
    import transformers

    import hga.transformers
except ImportError:
    transformers = None

GOSPELS = ROOT / "examples" / "gospels.txt"


def options(folder, **more):
    o = dict(steps=24, rate=1e-2, seeds=1, threads=1, out=folder, save=8, stop=0, resume=False, context=64, batch=4, check=640,
             layers=1, width=16, heads=2, back=1)  # fmt: skip
    return argparse.Namespace(**{**o, **more})


@unittest.skipIf(torch is None, "torch or safetensors is not installed")
class Training(unittest.TestCase):
    """Runs in a folder of their own, and what they left there."""

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(torch.set_num_threads, torch.get_num_threads())  # the loop leaves torch with one

    def setUp(self):
        self.scratch = scratch(self)

    def folder(self, name):
        return self.scratch / name

    def train(self, name, model, task, o, about=None):
        with contextlib.redirect_stderr(io.StringIO()):
            return loop.train(name, model, task, o, self.folder(name), 3, about or {})

    def weights(self, name):
        """The bits of all weights."""
        found = safetensors.torch.load_file(self.folder(name) / "model.safetensors")
        return {name: x.numpy().tobytes() for name, x in found.items()}

    def rows(self, name):
        """A log's rows but for their seconds."""
        with open(self.folder(name) / "log.csv", newline="", encoding="utf-8") as file:
            return [row[:-1] for row in csv.reader(file)]

    def goes_on(self, every, stop):
        """A run that was interrupted ends as the whole one, and so does one on two threads; the whole one, of each attention."""
        for words in every:
            with self.subTest(words):
                run = self.trained("whole", words)
                self.assertIsNone(self.trained("parts", words, stop=stop))
                self.assertNotEqual(self.weights("whole"), self.weights("parts"))
                again = self.trained("parts", words, resume=True)
                self.trained("two", words, threads=2)
                for name in ("parts", "two"):
                    self.assertEqual(self.weights("whole"), self.weights(name))
                self.assertEqual(self.rows("whole"), self.rows("parts"))
                yield run, again

    def losses(self, name):
        return [float(row[1]) for row in self.rows(name)[1:]]


class Characters(Training):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = characters.Text(GOSPELS.read_text(encoding="utf-8")[:40000])
        cls.every = [words.replace(".", ",") for words in characters.ATTENTION.split(",")] + ["sdpa"]

    def trained(self, name, words="htransformer:block=4", **more):
        o = options(self.folder(name), **more)
        torch.manual_seed(3)
        model = characters.model_of(words, self.text, o)
        return self.train(name, model, characters.Characters(self.text, o), o, characters.about(words, self.text, o))

    def test_the_loss_falls_and_beats_frequencies_of_characters(self):
        run = self.trained("falls", steps=100)
        losses = self.losses("falls")
        self.assertLess(sum(losses[-10:]) / 10, 0.7 * losses[0])
        simple = characters.baselines(self.text, 640)
        self.assertLess(run["bits"], simple["(by frequency)"])
        self.assertLess(simple["(by the two before)"], simple["(by frequency)"])
        self.assertLess(simple["(by frequency)"], simple["(every character alike)"])

    def test_resumed_runs_and_other_threads_give_the_same_bits(self):
        for run, again in self.goes_on(("htransformer:block=4", "bpt:k=2", "fenwick"), 13):
            self.assertEqual(run["bits"], again["bits"])
        self.assertEqual(self.trained("parts", "fenwick", resume=True), again)  # it was complete: nothing is done

    def test_a_run_goes_on_by_its_own_options_and_begins_anew_without_resume(self):
        self.trained("run")
        with self.assertRaisesRegex(SystemExit, "was made with --rate 0.01, not 0.02"):
            self.trained("run", resume=True, rate=2e-2)
        self.assertIsNone(self.trained("run", stop=8, rate=2e-2))
        self.assertEqual(len(self.losses("run")), 8)
        with self.assertRaisesRegex(SystemExit, "was made with --rate 0.02, not 0.01"):
            self.trained("run", resume=True)

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

    @unittest.skipUnless(os.path.exists(os.environ.get("HGA_GENERATE", "")), "examples/generate is not built: openblas is not installed")
    def test_the_program_in_c_writes_the_models_text(self):
        begin, more = "And Jesus said", 40
        for words in ("htransformer:block=4", "bpt:k=2"):
            self.trained(words[:3], words)
            model, text = characters.model_of(words, self.text, options("")), [self.text.letters.index(c) for c in begin]
            model.load_state_dict(safetensors.torch.load_file(self.folder(words[:3]) / "model.safetensors"))
            with torch.no_grad():
                for _ in range(more):
                    text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
            command = [os.environ["HGA_GENERATE"], self.folder(words[:3]) / "model.safetensors", begin, str(more)]
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
            self.assertEqual(done.stdout, "".join(self.text.letters[i] for i in text) + "\n", done.stderr)


def counted(words):
    """The value of an expression's words, by a stack."""
    stack = [[]]
    for word in words:
        if word.startswith("["):
            stack.append([word])
        elif word == "]":
            operator, *found = stack.pop()
            known = {"[MIN": min, "[MAX": max, "[MED": lambda x: int(statistics.median(x)), "[SM": lambda x: sum(x) % 10}
            stack[-1].append(known[operator](found))
        else:
            stack[-1].append(int(word))
    return stack[0][0]


class ListOps(Training):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.o = listops.options("--steps 24 --seeds 1 --threads 1 --save 8 --samples 400 --check 100 --batch 8 --layers 1 --width 16".split())
        cls.task = listops.ListOps(cls.o)

    def trained(self, name, words="tree", **more):
        o = argparse.Namespace(**{**vars(self.o), **more})
        torch.manual_seed(3)
        return self.train(name, listops.Model(words, o), self.task, o)

    def test_expressions_have_their_values_and_no_two_are_alike(self):
        words = lambda s: [listops.WORDS[i] for i in s.words]  # noqa: E731
        self.assertEqual(counted("[MAX 2 [SM 9 9 ] [MED 1 4 ] [MIN 4 7 ] ]".split()), 8)
        found = self.task.held_out + self.task.train
        for s in found:
            self.assertEqual(counted(words(s)), s.value)
            self.assertTrue(16 < len(s.words) < 64)
        self.assertEqual(len({s.words for s in found}), 500)
        self.assertEqual({w for s in found for w in s.words}, set(range(len(listops.WORDS))))
        self.assertEqual([s.words for s in listops.samples(20, 1, self.o)], [s.words for s in found[:20]])
        self.assertNotEqual([s.words for s in listops.samples(20, 2, self.o)], [s.words for s in found[:20]])

    def test_a_family_of_the_tree_is_what_stands_between_two_brackets(self):
        words, parents = listops.written(["[MAX", 2, ["[MIN", 4, 7], 9])
        self.assertEqual([listops.WORDS[i] for i in words], "[MAX 2 [MIN 4 7 ] 9 ]".split())
        #                          [MAX 2  ..  [MIN 4  7  ]  9  ]
        self.assertEqual(parents, [-1, 0, 0, 0, 3, 3, 3, 3, 0, 0])
        self.assertEqual(listops.forest([parents, parents]).rows, 16)

    def test_expressions_of_a_batch_do_not_see_each_other(self):
        group = max(self.task.by_length.values(), key=len)[:3]
        for words in listops.ATTENTION.split(","):
            with self.subTest(words), torch.no_grad():
                model = listops.Model(words.replace(".", ","), self.o)
                together = self.task.scores(model, group)[0]
                for i, one in enumerate(group):
                    self.assertLess(float((self.task.scores(model, [one])[0] - together[i]).abs().max()), 1e-5)

    def test_the_loss_falls_and_the_tree_beats_the_most_frequent_answer(self):
        run = self.trained("falls", steps=80, batch=16)
        losses = self.losses("falls")
        self.assertLess(sum(losses[-20:]) / 20, 0.92 * losses[0])
        simple = listops.baselines(self.task)
        self.assertGreater(run["accuracy"], simple["(the most frequent answer)"])
        self.assertGreater(simple["(.. of the outermost operator)"], simple["(the most frequent answer)"])

    def test_resumed_runs_and_other_threads_give_the_same_bits(self):
        self.assertEqual(len([*self.goes_on(("tree", "treeformer:height=2"), 11)]), 2)

    def test_the_program(self):
        given = ("--steps", 3, "--seeds", 2, "--layers", 1, "--width", 16, "--samples", 200, "--check", 50, "--batch", 8,
                 "--attention", "dense,tree,bpt:k=2", "--out", self.folder("out"))  # fmt: skip
        said, told = output(listops, *given)
        for name in ("(the most frequent answer)", "(.. of the outermost operator)", "dense ", "tree ", "bpt:k=2 "):
            self.assertRegex(said, rf"(?m)^{re.escape(name)} +\d+\.\d\d\d")
        self.assertTrue((self.folder("out") / "listops.json").exists())
        self.assertEqual(output(listops, *given, "--resume"), (said, ""))


class Recall(Training):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.o = recall.options("--context 64 --keys 8 --values 8 --pairs 4 --batch 16 --width 32 --check 64 --steps 20 --save 8 --threads 1".split())

    def task(self, **more):
        return recall.Recall(argparse.Namespace(**{**vars(self.o), **more}))

    def trained(self, name, words="htransformer:block=4", **more):
        task = self.task(**more)
        torch.manual_seed(3)
        return self.train(name, recall.model_of(words, task), task, task.o)

    def test_each_key_is_asked_once_for_the_value_behind_it(self):
        numbers, answers, back = (x.tolist() for x in self.task().held_out)
        self.assertEqual(len(numbers), 64)
        for line, wanted, far in zip(numbers, answers, back):
            values = dict(zip(line[0:8:2], line[1:8:2]))
            asked = [i for i, answer in enumerate(wanted) if answer != recall.NOTHING]
            self.assertEqual(sorted(line[i] for i in asked), sorted(values))
            self.assertEqual(len(values), 4)
            self.assertTrue(all(k < 8 <= v < 16 for k, v in values.items()))
            for i in asked:
                self.assertEqual(wanted[i], values[line[i]])
                self.assertEqual(line[i - far[i]], line[i])
                self.assertTrue(i >= 8 and i - far[i] < 8)
            self.assertEqual([line[i] for i in range(8, 64) if i not in asked], [16] * (64 - 8 - 4))

    def test_batches_have_every_length_and_as_many_tokens(self):
        task, generator, lengths = self.task(context=256, batch=2), torch.Generator().manual_seed(1), set()
        for _ in range(40):
            shards = task.draw(generator)
            lengths.add(shards[0][0].shape[1])
            self.assertEqual(sum(numbers.numel() for numbers, _ in shards), 512)
        self.assertEqual(lengths, {16, 32, 64, 128, 256})

    def test_accuracy_by_distance(self):
        right, back = torch.tensor([True, False, True, True, False]), torch.tensor([2, 32, 33, 70, 128])
        self.assertEqual(recall.by_distance(right, back), {"32": [50.0, 2], "64": [100.0, 1], "128": [50.0, 2]})

    def test_dense_attention_recalls_and_the_controls_cannot(self):
        more = dict(context=32, batch=32, steps=150)
        simple = recall.baselines(self.task(**more))
        self.assertEqual(simple["(a guess among all values)"], 12.5)
        self.assertTrue(25 < simple["(the value of most pairs)"] < 50)
        self.assertGreater(self.trained("dense", "dense", **more)["accuracy"], 95)
        for words in ("mean", "window:left=0"):
            with self.subTest(words):
                self.assertLess(self.trained("control", words, **more)["accuracy"], 60)

    def test_every_attention_learns_at_every_length(self):
        for words in recall.ATTENTION.split(","):
            model = recall.model_of(words.replace(".", ","), self.task())
            for tokens in (64, 32):
                with self.subTest(words, tokens=tokens):
                    model.zero_grad()
                    self.task().loss(model, self.task().drawn(2, tokens, torch.Generator().manual_seed(1))[:2])[0].backward()
                    for name, p in model.named_parameters():
                        self.assertGreater(float(p.grad.abs().max()), 0, name)

    def test_resumed_runs_and_other_threads_give_the_same_bits(self):
        for run, again in self.goes_on(("htransformer:block=4", "routed:block=4:k=2"), 11):
            self.assertEqual(run["by_distance"], again["by_distance"])

    def test_what_cannot_be_is_refused(self):
        for given, said in (("--pairs 9 --keys 8", "--pairs 9 is not between 1 and --keys 8"), ("--pairs 0", "--pairs 0 is not between 1"),
                            ("--context 7", "--context 7 is below 8")):  # fmt: skip
            told = io.StringIO()
            with self.subTest(given), contextlib.redirect_stderr(told), self.assertRaises(SystemExit):
                recall.options(given.split())
            self.assertIn(said, told.getvalue())

    def test_the_program(self):
        given = ("--context", 64, "--keys", 8, "--values", 8, "--pairs", 4, "--steps", 3, "--seeds", 2, "--width", 16, "--check", 8,
                 "--attention", "dense,hsa:branching=2.4,mean", "--out", self.folder("out"))  # fmt: skip
        said, told = output(recall, *given)
        for name in ("(a guess among all values)", "(the value of most pairs)", "dense ", "hsa:branching=2,4 ", "mean "):
            self.assertRegex(said, rf"(?m)^{re.escape(name)} +\d+\.\d\d\d")
        found = json.loads((self.folder("out") / "recall.json").read_text(encoding="utf-8"))
        self.assertRegex(found["date"], r"^\d{4}-\d\d-\d\d$")
        self.assertEqual(sum(n for _, n in found["rows"][-1]["runs"][0]["by_distance"].values()), 8 * 4)
        self.assertEqual(output(recall, *given, "--resume"), (said, ""))


class Steps(Training):
    def test_the_program(self):
        given = ("--contexts", "32,64", "--layers", 1, "--width", 16, "--heads", 2, "--repetitions", 1, "--out", self.folder("out"))
        said, _ = output(steps, *given)
        rows = json.loads((self.folder("out") / "steps.json").read_text(encoding="utf-8"))["rows"]
        self.assertEqual([row["context"] for row in rows], [32] * 8 + [64] * 8)
        for row in rows:
            self.assertIn(f"{row['name']} ", said)
            self.assertTrue(row["seconds"] > 0 and row["of_sdpa"] > 0 and row["share"] < 1)


@unittest.skipIf(transformers is None, "transformers or safetensors is not installed")
class Distilling(Training):
    """A BERT of two layers stands for MiniLM."""

    def test_a_hierarchy_learns_the_embeddings_of_dense_attention(self):
        hga.transformers.register()
        config = transformers.BertConfig(vocab_size=30, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                                         max_position_embeddings=40, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                                         initializer_range=0.2)  # fmt: skip
        torch.manual_seed(1)
        teacher = transformers.BertModel(config).eval()
        teacher.set_attn_implementation("hga:dense")
        draw = torch.Generator().manual_seed(2)
        texts = [torch.randint(30, (12 + i % 13,), generator=draw) for i in range(220)]
        task = distill.Distilling(teacher, texts[20:], texts[:20], 4)
        self.assertAlmostEqual(task.check(teacher)["cos"], 1, 5)
        for words, most in (("window:left=0:right=0", 0.6), ("htransformer:block=2", 0.8)):  # of what was missing
            with self.subTest(words), torch.no_grad():
                student = distill.student_of(teacher, words)
                before = task.check(student.eval())["cos"]
            o = options(self.folder(words[:3]), steps=40, rate=2e-3)
            run = self.train(words[:3], student.train(), task, o)
            self.assertLess(before, 0.996)
            self.assertLess(1 - run["cos"], most * (1 - before))

    def test_texts_are_verses_one_after_the_other(self):
        tokenizer = mock.Mock()
        tokenizer.tokens = lambda verses: (np.arange(2 + sum(map(len, verses))), None)
        found = distill.passages(["abc", "de", "fghij", "k", "lm", "n" * 9, "o"], tokenizer, 4, 6)
        self.assertEqual([len(ids) for ids in found], [2 + 5, 2 + 5, 2 + 12])
