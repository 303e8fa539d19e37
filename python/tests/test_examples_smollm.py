"""examples/python/smollm.py in small: two layers of random weights, 256 tokens, a tokenizer of bytes."""

import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy as np
from shared import ROOT, output

sys.path.append(str(ROOT / "examples" / "python"))
try:
    import smollm
    import smollm_texts as texts
    import torch
    import transformers
except ImportError:
    smollm = None

N, LLAMA = 256, os.environ.get("HGA_LLAMA", "")


def bytes_of(text, return_tensors=None, add_special_tokens=True):
    found = list(text.encode())
    return types.SimpleNamespace(input_ids=found if return_tensors is None else torch.tensor([found]))


def small(folder=None, dtype=None, **more):
    torch.manual_seed(3)
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=256, max_position_embeddings=2 * N, **more)  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).to(dtype or torch.float32).eval(), bytes_of


@unittest.skipIf(smollm is None, "torch, transformers or safetensors is not installed")
class SmolLM(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(torch.set_num_threads, torch.get_num_threads())
        cls.addClassCleanup(torch.set_grad_enabled, torch.is_grad_enabled())
        torch.set_grad_enabled(False)
        smollm.hga.transformers.register()

    def run_main(self, *arguments):
        with mock.patch.object(smollm, "load", small):
            return output(smollm, "--tokens", N, *arguments)

    def test_perplexity_is_the_models_own(self):
        model, _ = small()
        ids = torch.randint(256, (2 * N,))
        losses = []
        for window in ids.split(N):
            p = model(window[None]).logits[0].log_softmax(-1)
            losses += [-float(p[i - 1, window[i]]) for i in range(N // 2, N)]
        want = math.exp(sum(losses) / len(losses))
        for name in ("sdpa", "hga:dense"):
            model.set_attn_implementation(name)
            self.assertAlmostEqual(smollm.perplexity_of(smollm.read_windows(model, ids, N, 2)), want, delta=1e-4 * want)

    def test_layers_are_named_one_by_one(self):
        name, words = smollm.implementation("0=dense,1=hsa:branching=2,4", 2)
        self.assertEqual(words, ["dense", "hsa:branching=2,4"])
        model, _ = small()
        ids, found = torch.randint(256, (1, N)), []
        for one in (name, "hga:dense", "hga:hsa:branching=2,4"):
            model.set_attn_implementation(one)
            found.append(model(ids).logits)
        for other in found[1:]:
            self.assertGreater(float((found[0] - other).abs().max()), 1e-4)
        for more in ("0=dense,rest=hsa:branching=2,4", "rest=hsa:branching=2,4,0=dense", "0=dense,1+1=hsa:branching=2,4"):
            self.assertEqual(smollm.implementation(more, 2)[1], words)
        self.assertEqual(smollm.implementation("0-1+4=dense,rest=fenwick,3=window:left=2", 6)[1], ["dense", "dense", "fenwick", "window:left=2", "dense", "fenwick"])
        for wrong, says in (("0=dense", "layer 1 has none"), ("0-2=dense", "layer 2 is none"), ("0+7=dense,rest=fenwick", "layer 7 is none")):
            with self.assertRaisesRegex(SystemExit, says):
                smollm.implementation(wrong, 2)

    def test_a_needle_is_at_its_depth_and_asked_for_at_the_end(self):
        text = smollm.text_of("gospels")
        for depth in (0.0, 0.3, 0.99):
            ids, answers = texts.one_key(bytes_of, text, 1024, depth, random.Random(5))
            words = bytes(ids.tolist()).decode()
            key = words[-5:]
            self.assertEqual((len(ids), answers), (1024, [(5, 0)]))
            self.assertTrue(key.isdigit() and words.endswith(texts.PREFETCHES + " " + key))
            at = words.index(texts.TELLS.format(key, key))
            self.assertTrue(at == 0 or words[at - 1] == "\n")
            self.assertAlmostEqual(at / 900, depth, delta=0.3)
            self.assertLessEqual(at, depth * 1024)

    def test_several_keys_are_hidden_and_each_is_asked_for_once(self):
        ids, answers = texts.several_keys(bytes_of, smollm.text_of("gospels"), 4096, random.Random(5))
        words = bytes(ids.tolist()).decode()
        self.assertEqual(len(ids), 4096)
        self.assertEqual(len(answers), len(texts.OWNERS))
        asked = re.findall(texts.OWNER_ASKS.format("(.*)") + " ([0-9]{5})(?![.0-9])", words)
        self.assertEqual(sorted(owner for owner, _ in asked), sorted(texts.OWNERS))
        self.assertNotEqual([owner for owner, _ in asked], list(texts.OWNERS))
        for (owner, key), (begin, end) in zip(asked, answers):
            self.assertEqual(words[4096 - begin : 4096 - end], key)
            told = texts.OWNER_TELLS.format(owner, key, owner, key)
            depth = (texts.OWNERS.index(owner) + 0.5) / len(texts.OWNERS)
            self.assertAlmostEqual(words.index(told) / 4096, depth, delta=0.15)

    def test_a_list_is_repeated_at_the_end(self):
        ids, answers = texts.a_list(bytes_of, smollm.text_of("gospels"), 4096, 0.4, random.Random(5))
        words = bytes(ids.tolist()).decode()
        self.assertEqual((len(ids), len(answers)), (4096, texts.LISTED - texts.GIVEN))
        items = [words[4096 - begin : 4096 - end] for begin, end in answers]
        again = words[words.rindex("\nThe list:") :]
        self.assertEqual(words.count(again), 2)
        self.assertAlmostEqual(words.index(again) / 4096, 0.4, delta=0.15)
        self.assertEqual(items, re.findall("[a-z]+$", again, re.M)[texts.GIVEN :])

    def test_what_is_lost_is_by_windows_and_of_copies(self):
        rng = np.random.default_rng(3)
        dense = rng.uniform(1, 3, 8 * 256).astype(np.float32)
        dense[256:512] = 0.1  # copies
        more = np.where(dense == dense[256], 0.2, 0.01).astype(np.float32)
        found = smollm.beside_dense(dense + more, dense, 4)
        self.assertAlmostEqual(found["copies"]["lost"], 100 * math.expm1(0.2), delta=1e-2)
        self.assertAlmostEqual(found["others"]["lost"], 100 * math.expm1(0.01), delta=1e-2)
        self.assertEqual((found["copies"]["tokens"], found["others"]["tokens"]), (256, 7 * 256))
        self.assertAlmostEqual(found["lost"], 100 * math.expm1(more.mean()), delta=1e-2)
        self.assertAlmostEqual(found["windows"][0], 100 * math.expm1((0.2 + 0.01) / 2), delta=1e-2)
        pieces = more.reshape(-1, 128).mean(1)
        self.assertAlmostEqual(found["error"], 100 * pieces.std(ddof=1) / 4, delta=1e-3)
        self.assertEqual(smollm.lost(dense, dense)["lost"], 0)

    def test_tokens_one_by_one_are_those_of_the_pass(self):
        model, ids = small()[0], torch.randint(256, (N,))
        for name in ("sdpa", "hga:dense", "hga:window:left=40:global=4"):
            model.set_attn_implementation(name)
            np.testing.assert_allclose(smollm.decoded(model, name, ids, 40), smollm.nats(model, ids, N - 40)[0], atol=2e-5)

    def test_budgets_are_made_once_and_losses_stand_beside_sdpa(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "found.json"
            known = "routed:block=8:score=sample:prefill=8"
            attentions = f"sdpa;{known}:k=6;{known}:keys=0.5"
            asked = ("--longest", 2 * N, "--needles", 0, "--repeats", 0, "--decoded", 16, "--json", path, "--texts", "gospels", "--attention", attentions)
            self.run_main(*asked)
            found = json.loads(path.read_text())
            _, alike, own = found["rows"]
            budgets = pathlib.Path(folder) / "found.routed-block-8-score-sample-prefill-8-keys-0-5-256-library-pages-float32.json"
            made = json.loads(budgets.read_text())
            self.assertAlmostEqual(own["keys"] / made["mean_keys"], 1, delta=0.1)
            for row in (alike, own):
                p = row["perplexity"]["gospels"] / found["rows"][0]["perplexity"]["gospels"]
                self.assertAlmostEqual(row["paired"]["gospels"]["lost"], 100 * (p - 1), delta=1e-3)
                self.assertEqual(row["paired"]["gospels"]["tokens"], N)
                self.assertEqual(row["decoded"]["gospels"]["tokens"], 16)
            with mock.patch.object(smollm, "nats", None), mock.patch.object(smollm, "decoded", None), mock.patch.object(smollm.hga.transformers, "calibrate", None):
                self.run_main(*asked)
            self.assertEqual(json.loads(path.read_text())["rows"], found["rows"])
            for wrong in (("--longest", N), ("--seed", 2), ("--decoded", 8)):
                with self.assertRaisesRegex(SystemExit, f"was made with {wrong[0][2:]} "):
                    self.run_main(*asked, *wrong)
            self.run_main(*asked, "--type", "bfloat16")
            self.assertEqual([row.get("type") for row in json.loads(path.read_text())["rows"]], [None] * 3 + ["bfloat16"] * 3)

    def test_a_needle_that_a_model_knows_is_found(self):
        """A model that says again what stood behind the same byte the last time."""

        class Copies(torch.nn.Module):
            def forward(self, ids, use_cache):
                last, states = {}, torch.zeros(1, len(ids[0]), 256)
                for i, token in enumerate(ids[0].tolist()):
                    if i:
                        last[tuple(ids[0, max(0, i - 8) : i].tolist())] = token
                    states[0, i, last.get(tuple(ids[0, max(0, i - 7) : i + 1].tolist()), 0)] = 20
                return types.SimpleNamespace(last_hidden_state=states)

        model = types.SimpleNamespace(model=Copies(), lm_head=lambda x: x)
        found = smollm.needles(model, bytes_of, smollm.text_of("gospels"), 1024, 4, 1)
        self.assertEqual((found["found"], found["of"]), (4, 4))
        self.assertLess(found["nats"], 0.1)
        self.assertEqual([(one["depth"], one["found"]) for one in found["depths"]], [(0.125, True), (0.375, True), (0.625, True), (0.875, True)])
        self.assertEqual(smollm.needles(small()[0], bytes_of, smollm.text_of("gospels"), 512, 2, 1)["found"], 0)

    def test_every_attention_has_a_row_and_nothing_is_measured_twice(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "found.json"
            asked = ("--longest", 2 * N, "--needles", 1, "--repeats", 1, "--json", path, "--texts", "gospels,pages")
            attentions = "sdpa;dense;bpt:k=2;0=window:left=31:global=4,1=fenwick"
            said, _ = self.run_main(*asked, "--attention", attentions)
            rows = {row["attention"]: row for row in json.loads(path.read_text())["rows"]}
            self.assertEqual(list(rows), attentions.split(";"))
            for name, row in rows.items():
                self.assertIn(f"| {name} | {N} |", said)
                self.assertGreater(row["perplexity"]["gospels"], 1)
                self.assertGreater(row["prefill"]["seconds"], row["prefill"]["attention"])
                self.assertEqual(row["prefill"]["sdpa"], rows["sdpa"]["prefill"]["seconds"])
                self.assertEqual(row["windows"], 2)
                self.assertGreater(row["token"]["ms"], 0)
                self.assertIn(f" {row['token']['ms']:.1f} ({row['token']['bytes'] / 2**20:.0f}) |", said)
            per_token = 2 * 2 * 2 * 8 * 4  # layers, keys and values, their heads, columns, bytes
            self.assertEqual(rows["sdpa"]["token"]["bytes"], per_token * (N + 16))
            self.assertGreaterEqual(rows["dense"]["token"]["bytes"], per_token * (N + 16))
            self.assertAlmostEqual(rows["sdpa"]["perplexity"]["pages"], rows["dense"]["perplexity"]["pages"], delta=1e-2)
            self.assertEqual(rows["sdpa"]["keys"], rows["dense"]["keys"])
            self.assertLess(rows["bpt:k=2"]["keys"], 40)
            with mock.patch.object(smollm, "nats", None), mock.patch.object(smollm, "one_pass", None):
                again, _ = self.run_main(*asked, "--attention", "sdpa;dense")
            self.assertEqual(again, said)

    def test_passes_take_turns_with_sdpa(self):
        model, turns = small()[0], []
        cost = {"sdpa": [5, 3, 4], "hga:dense": [2, 9, 1], "hga:fenwick": [1, 1, 2]}

        def one_pass(model, name, ids):
            self.assertEqual(model.config._attn_implementation, name)
            turns.append(name)
            return {"seconds": cost[name][(len(turns) - 1) // 3], "attention": 1, "bytes": len(turns)}

        with mock.patch.object(smollm, "one_pass", one_pass):
            found = smollm.prefill(model, list(cost), None, 3)
        self.assertEqual(turns, 3 * list(cost))
        self.assertEqual([found[name]["seconds"] for name in cost], [4, 2, 1])
        self.assertEqual([found[name]["sdpa"] for name in cost], [4, 4, 4])
        self.assertEqual([found[name]["bytes"] for name in cost], [7, 8, 9])
        self.assertEqual([(found[name]["repeats"], found[name]["layers"]) for name in cost], 3 * [(3, 2)])

    def test_keys_that_the_text_decides_are_counted(self):
        model, ids = small()[0], torch.randint(256, (100,))
        known = "routed:block=8:k=3"
        for attention in (known, known + ":query-block=8:share=all", "0=dense,1=" + known):
            name, names = smollm.implementation(attention, 2)
            model.set_attn_implementation(name)
            said = smollm.mean_keys(model, name, names, ids)
            with mock.patch.object(smollm, "keys_of", lambda *_: None), mock.patch.object(smollm, "chosen_keys", self.chosen_or(101 / 2)):
                self.assertAlmostEqual(smollm.mean_keys(model, name, names, ids), said)
        found = []
        for share in (0.01, 0.5, 1):
            name, names = smollm.implementation(f"routed:block=8:threshold={share}", 2)
            model.set_attn_implementation(name)
            found.append(smollm.mean_keys(model, name, names, ids))
        self.assertEqual(found, sorted(found))
        forced, one_more = (smollm.keys_of(f"routed:block=8:k={k}", 100) for k in (3, 4))
        self.assertTrue(forced <= found[0] <= one_more, found)
        self.assertAlmostEqual(found[2], 101 / 2)

    def chosen_or(self, dense):
        inner = smollm.chosen_keys
        return lambda name, *more: dense if name == "dense" else inner(name, *more)

    @unittest.skipUnless(os.path.exists(LLAMA), "examples/llama is not built: openblas is not installed")
    def test_the_same_model_in_c_writes_the_same_text(self):
        pieces = [chr(b) for b in range(256)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.safetensors"
            for tied in (False, True):
                model, _ = small(tie_word_embeddings=tied, initializer_range=0.3)
                smollm.save(path, model, pieces)
                ids = torch.randint(256, (1, 19))
                for words in ("dense", "window left=5 global=2", "htransformer block=4", "fenwick"):
                    model.set_attn_implementation("hga:" + words.replace(" ", ":"))
                    want = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False, pad_token_id=0, eos_token_id=None)[0, 19:].tolist()
                    command = [LLAMA, path, " ".join(map(str, ids[0].tolist())), "40", words]
                    said = subprocess.run(command, capture_output=True)
                    self.assertEqual(said.returncode, 0, said.stderr)
                    self.assertEqual([int(x) for x in said.stderr.split(b"\n")[0].split()], want)
                    self.assertEqual(said.stdout, bytes(want) + b"\n")
                    self.assertGreater(len(set(want)), 5)
            wrong = {(path, "1 2", "4", "bpt"): b"rows are nodes", (path, "1 999", "4"): b"999", (path, "", "4"): b"at least one",
                     (path, "1", "4x"): b"4x", (__file__, "1", "4"): b"test_examples_smollm.py", (path, "1"): b"usage"}  # fmt: skip
            for arguments, says in wrong.items():
                said = subprocess.run([LLAMA, *arguments], capture_output=True)
                self.assertEqual((said.returncode, said.stdout), (1, b""))
                self.assertEqual(said.stderr.count(b"\n"), 1)
                self.assertIn(says, said.stderr)

    def test_pieces_are_bytes(self):
        tokenizer = types.SimpleNamespace(convert_ids_to_tokens=lambda ids: ["\u0120the", "\u00c3\u00a9", "\u010a", None])
        self.assertEqual(smollm.messages_of(tokenizer, 4), [" the", "\u00c3\u00a9", "\n", ""])

    def test_what_cannot_be_measured_is_told_and_left_empty(self):
        said, told = self.run_main("--needles", 1, "--repeats", 1, "--texts", "gospels", "--attention", "treeformer-coarse:height=2")
        self.assertIn(f"| treeformer-coarse:height=2 | {N} |  |  |  |  |  |  |  |", said)
        for measure in ("keys", "gospels", "needles"):
            self.assertRegex(told, f"{measure}: .*causal")
        with self.assertRaisesRegex(SystemExit, "fewer than"):
            self.run_main("--attention", "dense", "--texts", str(ROOT / "LICENSE"), "--tokens", 10**6)
