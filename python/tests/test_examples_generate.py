"""examples/generate.c writes the text that the same model written with numpy writes, over every hierarchy that rows of a checkpoint can
have; train/tensors.py takes their queries and keys; and files that are no checkpoint get one sentence each. The checkpoints are made here."""

import json
import math
import os
import struct
import subprocess
import sys
import unittest

import hga
import numpy as np
from shared import ROOT, TOOL, needs_tool, scratch

GENERATE = os.environ.get("HGA_GENERATE", "")
TENSORS = ROOT / "examples" / "python" / "train" / "tensors.py"
LETTERS, CONTEXT, WIDTH, HEADS, LAYERS, BACK = "abcdefgh é", 60, 16, 2, 2, 1
ERF = np.vectorize(math.erf)
HIERARCHIES = {
    "dense": lambda n: hga.dense(n, causal=True), "window:left=5": lambda n: hga.window(n, left=5, causal=True),
    "htransformer:block=4": lambda n: hga.htransformer(n, block=4, causal=True),
    "hsa:branching=2,4": lambda n: hga.hsa(n, branching=[2, 4], causal=True), "fenwick": hga.fenwick,
    "dilated:segments=4,16:dilations=1,3": lambda n: hga.dilated(n, segments=[4, 16], dilations=[1, 3], causal=True),
    "bpt:k=2": lambda n: hga.bpt(n, k=2, causal=True),
}  # fmt: skip


def written(tensors, about):
    """The bytes of a safetensors file."""
    header, data = {"__metadata__": about}, b""
    for name, x in tensors.items():
        x = np.ascontiguousarray(x, np.float32)
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    return with_header(header, data)


def with_header(header, data=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


def weights(words, seed=1):
    r = np.random.default_rng(seed)
    draw = lambda *shape: r.normal(size=shape).astype(np.float32)  # noqa: E731
    w = {f"letter.{i}.weight": draw(len(LETTERS), WIDTH) for i in range(BACK + 1)}
    w["place"] = draw(CONTEXT, WIDTH)
    for i in range(LAYERS):
        for name, rows, columns in (("attention.project", 3 * WIDTH, WIDTH), ("attention.out", WIDTH, WIDTH), ("wide.0", 4 * WIDTH, WIDTH),
                                    ("wide.2", WIDTH, 4 * WIDTH)):  # fmt: skip
            w[f"layers.{i}.{name}.weight"], w[f"layers.{i}.{name}.bias"] = draw(rows, columns) * 0.4, draw(rows)
        for name in ("before_attention", "before_wide"):
            w[f"layers.{i}.{name}.weight"], w[f"layers.{i}.{name}.bias"] = 1 + 0.1 * draw(WIDTH), draw(WIDTH)
        if words.startswith("bpt"):
            w[f"layers.{i}.attention.rel_key"] = draw(5 * 11, WIDTH // HEADS)
    w["last.weight"], w["last.bias"] = 1 + 0.1 * draw(WIDTH), draw(WIDTH)
    w["scores.weight"], w["scores.bias"] = draw(len(LETTERS), WIDTH), draw(len(LETTERS))
    return w


def checkpoint(words, w=None):
    return written(w or weights(words), {"attention": words, "heads": str(HEADS), "letters": json.dumps(LETTERS)})


def spans(x):
    """BP-Transformer's rows: tokens, then means over two, four, .. of them."""
    found, size = [x], 2
    while size < 2 * len(x):
        found.append(np.stack([x[i : i + size].mean(0) for i in range(0, len(x), size)]))
        size *= 2
    return np.concatenate(found)


def scores(words, w, text):
    """Of the letter behind the text, by the definition in examples/python/train/model.py."""
    linear = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]  # noqa: E731

    def normed(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    n = len(text)
    x = w["place"][:n].copy()
    for back in range(BACK + 1):
        x[back:] += w[f"letter.{back}.weight"][text[: n - back]]
    x = spans(x) if words.startswith("bpt") else x
    h = HIERARCHIES[words](n)
    for i in range(LAYERS):
        at = f"layers.{i}."
        q, k, v = linear(normed(x, at + "before_attention"), at + "attention.project").reshape(len(x), 3, HEADS, -1).swapaxes(0, 1)
        more = {"rel_key": w[at + "attention.rel_key"]} if words.startswith("bpt") else {}
        y = h.attention(*(np.ascontiguousarray(z, np.float32) for z in (q, k, v)), layout="bnhd", **more)
        x = x + linear(y.reshape(len(x), WIDTH), at + "attention.out")
        wide = linear(normed(x, at + "before_wide"), at + "wide.0")
        x = x + linear(wide * 0.5 * (1 + ERF(wide * np.sqrt(0.5))), at + "wide.2")
    return linear(normed(x[n - 1], "last"), "scores")


@unittest.skipUnless(os.path.exists(GENERATE), "examples/generate is not built: openblas is not installed")
class Generate(unittest.TestCase):
    def setUp(self):
        self.path = scratch(self) / "model.safetensors"

    def run_on(self, data, *words):
        self.path.write_bytes(data)
        done = subprocess.run([GENERATE, self.path, *map(str, words)], capture_output=True, text=True, encoding="utf-8")
        return done.returncode, done.stdout, done.stderr

    def test_the_text_is_pythons(self):
        begin, more = "bad é cafe", 40
        for words in HIERARCHIES:
            w, text = weights(words), [LETTERS.index(c) for c in begin]
            for _ in range(more):
                found = scores(words, w, text)
                self.assertGreater(np.diff(np.sort(found))[-1], 1e-4, "two letters are as likely: the test says nothing")
                text.append(int(found.argmax()))
            for threads in (1, 2):
                with self.subTest(words, threads=threads):
                    code, out, said = self.run_on(checkpoint(words, w), begin, more, threads)
                    self.assertEqual((code, out), (0, "".join(LETTERS[i] for i in text) + "\n"), said)
            self.assertGreater(len(set(text[len(begin) :])), 2)

    def test_rows_that_are_nodes_are_told_by_the_program_and_not_by_a_name(self):
        words = next(words for words in HIERARCHIES if words.startswith("bpt"))
        w, meta = weights(words), {"heads": str(HEADS), "letters": json.dumps(LETTERS)}
        want = self.run_on(checkpoint(words, w), "bad", 20)[:2]
        self.assertEqual(want[0], 0)
        self.assertEqual(self.run_on(written(w, {"attention": ":" + words, **meta}), "bad", 20)[:2], want)

    def refused(self, what, data, *words):
        code, out, said = self.run_on(data, *(words or ("bad", 3)))
        self.assertEqual((code, out.replace(words[0] if words else "bad", "")), (1, ""), said)
        self.assertRegex(said, what)
        self.assertEqual(said.count("\n"), 1, said)

    def test_files_that_are_no_safetensors_are_refused(self):
        whole = checkpoint("dense")
        tensor = lambda **more: {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8], **more}  # noqa: E731
        for what, data in (
            ("not a .npy, .npz or .safetensors file", b""),
            ("not a .npy, .npz or .safetensors file", whole[:7]),
            ("not a .npy, .npz or .safetensors file", struct.pack("<Q", 2**60) + bytes(100)),
            ("its header would have 268435200 bytes|not a .npy", struct.pack("<Q", 2**28 - 256) + b"{" + bytes(99)),
            (r"its header would have \d+ bytes", whole[:300]),
            (r"tensors end at byte \d+ of \d+", whole[:-4]),
            (r"tensors end at byte \d+ of \d+", whole + b"1234"),
            ("line 1, column", with_header(b'{"a": ')),
            ("duplicate", with_header(b'{"a": 1, "a": 2}')),
            (".safetensors file", with_header(b"[1]")),
            ("model.safetensors:a: its shape is not a list of at most 8 sizes", with_header({"a": 7})),
            ("letter.0.weight: has the type U8", with_header({"letter.0.weight": tensor(dtype="U8", shape=[4, 2])}, bytes(8))),
            ("holds int64 where .* is needed", with_header({"letter.0.weight": tensor(dtype="I64", shape=[1, 1])}, bytes(8))),
            ("tensors a and b overlap", with_header({"a": tensor(), "b": tensor(data_offsets=[4, 12])}, bytes(12))),
            ("tensors [ab] and [ab] overlap", with_header({"a": tensor(), "b": tensor()}, bytes(8))),
            ("bytes 0 to 4 before a are no tensor's", with_header({"a": tensor(data_offsets=[4, 12])}, bytes(12))),
            ("has 12 bytes of elements where its shape needs 8", with_header({"letter.0.weight": tensor(data_offsets=[0, 12])}, bytes(12))),
            ("its data_offsets are none", with_header({"a": tensor(data_offsets=[8, 0])}, bytes(8))),
            ("its data_offsets are none", with_header({"a": tensor(data_offsets=[-8, 0])}, bytes(8))),
            (f"tensors end at byte {2**62} of 8", with_header({"a": tensor(data_offsets=[0, 2**62])}, bytes(8))),
            ("beyond any file", with_header({"a": tensor(data_offsets=[0, 2**63 - 1])}, bytes(8))),
            ("its data_offsets are none", with_header({"a": tensor(data_offsets=[0])}, bytes(8))),
            ("its data_offsets are none", with_header({"a": tensor(data_offsets=[0, 8.5])}, bytes(8))),
            ("size 1 of its shape is not a size", with_header({"a": tensor(shape=[2**40, 2**40])}, bytes(8))),
            ("size 1 of its shape is not a size", with_header({"a": tensor(shape=[2**58, 64])}, bytes(8))),
            ("size 1 of its shape is not a size", with_header({"a": tensor(shape=[2, -1])}, bytes(8))),
            ("its shape is not a list of at most 8 sizes", with_header({"a": tensor(shape=[1] * 9)}, bytes(8))),
            ("its shape is not a list of at most 8 sizes", with_header({"a": tensor(shape="2")}, bytes(8))),
        ):
            with self.subTest(what):
                self.refused(what, data)

    def test_every_beginning_of_a_file_is_refused(self):
        whole = checkpoint("dense")
        for n in (*range(0, 40, 7), *range(40, len(whole), len(whole) // 25)):
            self.refused("not a .npy|its header would|tensors end", whole[:n])

    def test_checkpoints_of_other_models_are_refused(self):
        w = weights("dense")
        for what, data in (
            ("no tensor 'letter.0.weight'", with_header({})),
            ("does not say its 'heads'", written(w, {"attention": "dense"})),
            ("3 heads do not divide width 16", written(w, {"attention": "dense", "heads": "3", "letters": '"a"'})),
            ("no tensor 'scores.bias'", checkpoint("dense", {k: x for k, x in w.items() if k != "scores.bias"})),
            ("tensor 'layers.1.wide.2.weight' has another shape", checkpoint("dense", {**w, "layers.1.wide.2.weight": w["place"]})),
            ("treeformer", checkpoint("treeformer-fine:height=2", w)),
            ("sdpb", checkpoint("sdpb", w)),
            ("letters are no JSON string", written(w, {"attention": "dense", "heads": "2", "letters": "7"})),
        ):
            with self.subTest(what):
                self.refused(what, data)

    def test_what_is_asked_is_checked(self):
        whole = checkpoint("dense")
        self.refused("no letter 'z'", whole, "baz", 3)
        self.refused("no letter 'ü'", whole, "ü", 3)
        self.refused("a beginning of 0", whole, "", 3)
        self.refused("a beginning of 3 and 58 more: the model has from 1 to 60", whole, "bad", 58)
        self.refused("longer than the model's 60", whole, "b" * 61, 0)
        self.refused("the number of characters is '3x'", whole, "bad", "3x")
        self.refused("the number of threads is '0'", whole, "bad", 3, 0)
        self.refused("usage", whole, "bad", 3, 1, 1)


def first_layer(w, words):
    """[3][words][heads][dim]: queries, keys and values of the first layer, of the last character of every word; words are a space apart."""
    found, text = [], " ".join(words)
    at = np.cumsum([len(word) + 1 for word in words]) - 2
    for end in at:
        begin = end // CONTEXT * CONTEXT
        x = w["place"][end - begin].astype(np.float64)
        for back in range(min(BACK, end - begin) + 1):
            x = x + w[f"letter.{back}.weight"][LETTERS.index(text[end - back])]
        x = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w["layers.0.before_attention.weight"] + w["layers.0.before_attention.bias"]
        found.append(w["layers.0.attention.project.weight"] @ x + w["layers.0.attention.project.bias"])
    return np.array(found).reshape(len(words), 3, HEADS, -1).swapaxes(0, 1)


@unittest.skipUnless(TENSORS.exists(), "the example is not here")
class Tensors(unittest.TestCase):
    """examples/python/train/tensors.py FOLDER TEXT."""

    def setUp(self):
        self.folder = scratch(self)

    def run_on(self, data, text, *more):
        (self.folder / "model.safetensors").write_bytes(data)
        (self.folder / "text").write_text(text, encoding="utf-8")
        words = [sys.executable, TENSORS, self.folder, self.folder / "text", "--out", self.folder, *more]
        done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8")
        return done.returncode, done.stdout, done.stderr

    def test_they_are_of_the_models_first_layer_at_the_end_of_each_word(self):
        r, w = np.random.default_rng(5), weights("dense")
        words = ["".join(r.choice(list("abcdefghé"), r.integers(1, 7))) for _ in range(300)]
        text = "".join(word + r.choice([" ", "\n"]) for word in words)  # white space is the model's space
        code, out, said = self.run_on(checkpoint("dense", w), text)
        self.assertEqual((code, out, said), (0, f"300 words, {HEADS} heads of {WIDTH // HEADS}\n", ""))
        for name, want in zip("qkv", first_layer(w, words)):
            np.testing.assert_allclose(np.load(self.folder / f"{name}.npy"), want, atol=1e-5)
        self.assertEqual(self.run_on(checkpoint("dense", w), text, "--words", "7")[1].split(",")[0], "7 words")

    @needs_tool
    def test_the_tool_chooses_by_them(self):
        self.run_on(checkpoint("dense"), "bad cafe " * 40)
        tensors = [word for name in ("query", "key", "value") for word in (f"--{name}", self.folder / f"{name[0]}.npy")]
        done = subprocess.run([TOOL, "choose", *tensors, "--variants", "window", "--seconds", "0", "--json"], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["tokens"], 80)

    def test_what_the_model_has_no_letter_for_is_said(self):
        code, out, said = self.run_on(checkpoint("dense"), "bad zoo cafe")
        self.assertEqual((code, said), (0, ""))
        self.assertIn("the model has no letter for 3 characters, which are left out", out)

    def test_models_that_do_not_fit_are_refused(self):
        w = weights("dense")
        for what, data in (
            ("is no model of characters.py's: 'letters'", with_header({"__metadata__": {}})),
            ("is no model of characters.py's: 'heads'", written(w, {"letters": '"a"'})),
            ("3 heads do not divide width 16", written(w, {"heads": "3", "letters": json.dumps(LETTERS)})),
            ("is no model of characters.py's: object of type 'int'", written(w, {"heads": "2", "letters": "7"})),
            ("letter.0.weight is (10, 16), not (1, 16)", written(w, {"heads": "2", "letters": '"a"'})),
            ("layers.0.attention.project.weight is", checkpoint("dense", {**w, "layers.0.attention.project.weight": w["place"]})),
            ("model.safetensors", b"1234"),
        ):
            with self.subTest(what):
                found, out, said = self.run_on(data, "bad cafe")
                self.assertEqual((found, out, said.count("\n")), (1, "", 1), said)
                self.assertIn(what, said)
        self.assertIn("has no letter of the text's first word", self.run_on(checkpoint("dense"), "zzz bad")[2])
