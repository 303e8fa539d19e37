"""Pages with the weights of one's own queries and keys, candidates beside dense attention, and what a layer of a model attends with."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import hga
import numpy as np
from shared import TOOL, needs, needs_tool, refused, torch
from since import older

RNG = np.random.default_rng(7)


def tensors(n, heads=4, dim=8, kv_heads=None):
    return [RNG.standard_normal((h, n, dim)).astype(np.float32) for h in (heads, kv_heads or heads, kv_heads or heads)]


def graph(page):
    return json.loads(page.split('id="graph">')[1].split("</script>")[0])


def tool_page(words, folder, q, k, *more):
    np.save(os.path.join(folder, "q.npy"), q)
    np.save(os.path.join(folder, "k.npy"), k)
    variant, *settings = words.split()
    command = [TOOL, "view", variant, "-n", str(q.shape[1]), *(x for s in settings for x in ("-p", s)), "--query", "q.npy", "--key", "k.npy", "--layout", "hnd", *more]
    return subprocess.run([*command, "--quiet", "-o", "-"], cwd=folder, capture_output=True, text=True, check=True).stdout


class Pages(unittest.TestCase):
    def setUp(self):
        self.q, self.k, _ = tensors(33, kv_heads=2)

    @needs_tool
    def test_weights_are_those_of_the_tools_page(self):
        for words, more, given in (
            ("htransformer block=4", (), {}),
            ("hsa branching=3", ("--scale", "0.5"), {"scale": 0.5}),
            ("window left=3 causal=1", ("--head", "2"), {"head": 2}),
        ):
            with tempfile.TemporaryDirectory() as folder:
                want = graph(tool_page(words, folder, self.q, self.k, *more))["weights"]
            found = graph(hga.build(words, 33).view(q=self.q, k=self.k, **given))["weights"]
            for name in ("heads", "count", "stage", "destination", "source"):
                self.assertEqual(found[name], want[name], f"{words}: {name}")
            np.testing.assert_allclose(found["value"], want["value"], rtol=2e-3, atol=1e-7, err_msg=words)

    def test_weights_of_a_row_sum_to_one(self):
        page = graph(hga.window(33, left=2, right=1).view(q=self.q, k=self.k, head=1))
        value, count, at = np.array(page["weights"]["value"]), [2, 3] + [4] * 30 + [3], 0
        for n in count:
            self.assertAlmostEqual(value[at : at + n].sum(), 1, places=3)
            at += n
        self.assertEqual(at, len(value))

    def test_words_are_names(self):
        words = [f"w{i}" for i in range(33)]
        self.assertEqual(graph(hga.bpt(33).view(words=words))["names"]["text"], words)
        q = np.repeat(self.q[:, :, :1], 8, 2)
        chosen = hga.routed(33, block=4, k=2).view(q, q[:2], words=words, head=3)
        self.assertEqual(graph(chosen)["names"]["text"], words)

    @unittest.skipUnless(shutil.which("localedef") and os.path.exists("/usr/share/i18n/locales/de_DE"), "no locale with commas can be made here")
    def test_numbers_have_points_where_the_locale_has_commas(self):
        code = (
            "import hga, json, locale, numpy as np\n"
            "locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')\n"
            "h = hga.Graph.from_edges([0, 1, 2], [1, 2, 0], 3, weight=np.array([.25, 1.5, 3], 'f4')).hierarchy()\n"
            "x = np.eye(3, dtype='f4')\n"
            "page = json.loads(h.view(q=x, k=x).split('id=\"graph\">')[1].split('</script>')[0])\n"
            "print(locale.str(0.5), page['relations'][0]['explicit']['weight'], page['weights']['value'])\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")], capture_output=True)
            out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "LOCPATH": folder}, capture_output=True, text=True)
        self.assertEqual(out.stdout, "0,5 [3, 0.25, 1.5] [1, 1, 1]\n", out.stderr)

    def test_a_page_is_short_to_print(self):
        page = hga.htransformer(33, block=4).view()
        self.assertIn("<html", page)
        self.assertRegex(repr(page), r"^<hga.Page of htransformer block=4 - hga view: \d+ characters of HTML")
        self.assertTrue(page._repr_html_().startswith("<iframe srcdoc="))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            page.write(path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), page)

    def test_a_graph_shows_itself(self):
        self.assertTrue(hga.Graph.from_edges([0, 1], [1, 2], 3)._repr_html_().startswith("<iframe"))

    def test_what_a_page_cannot_have_is_named(self):
        h = hga.window(33)
        for text, more in (
            ("q and k go together", {"q": self.q}),
            ("head is of weights", {"head": 1}),
            ("are of weights: give q and k", {"softcap": 2.0}),
            ("are of weights: give q and k", {"normaliser": "sigmoid"}),
            ("head is 4", {"q": self.q, "k": self.k, "head": 4}),
            ("2 words of 33 tokens", {"words": ["a", "b"]}),
            ("words: 5, of token 0, is not a text", {"words": 5}),
            ("words: b'b', of token 1, is not a text", {"words": ["a", b"b"]}),
            ("weights of token 0 are not finite", {"q": self.q, "k": np.where(np.arange(33)[None, :, None] == 4, np.nan, self.k).astype(np.float32)}),
            (r"layout \['bhnd'\] is neither", {"q": self.q, "k": self.k, "layout": ["bhnd"]}),
            ("weights are those of one sample", {"q": self.q[None], "k": self.k[None]}),
            ("view has no kay=", {"kay": 1}),
        ):
            refused(self, text, lambda: h.view(**more))
        n = 1100
        q = np.zeros((1, n, 2), np.float32)
        with self.assertRaisesRegex(hga.Error, "the edges of 1100 tokens in 1 head are more than the 1048576 weights of a page$"):
            hga.dense(n).view(q=q, k=q)


@needs_tool
class Choosing(unittest.TestCase):
    def test_rows_are_the_tools(self):
        q, k, v = tensors(48, heads=2)
        found = hga.choose(q, k, v, causal=True, variants="window,htransformer", seconds=0.001, threads=1)
        self.assertEqual({row["variant"] for row in found}, {"dense", "window", "htransformer"})
        self.assertEqual(found[0]["relative_l2"], 0)
        words = found[1]["variant"] + " " + found[1]["parameters"]
        error = np.linalg.norm(hga.build(words, 48).attention(q, k, v) - hga.dense(48, causal=True).attention(q, k, v))
        self.assertAlmostEqual(error / np.linalg.norm(hga.dense(48, causal=True).attention(q, k, v)), found[1]["relative_l2"], places=5)
        self.assertIn("rel L2", repr(found))
        self.assertEqual(len(repr(found).split("\n")), 1 + len(found))
        self.assertTrue(found.plot.rstrip().endswith("</svg>"))
        self.assertIn(found.plot, found._repr_html_())
        by_token = [np.ascontiguousarray(x.swapaxes(0, 1)) for x in (q, k, v)]
        again = hga.choose(*by_token, layout="bnhd", causal=True, variants="window,htransformer", seconds=0.001)
        self.assertEqual({(r["parameters"], r["relative_l2"]) for r in again}, {(r["parameters"], r["relative_l2"]) for r in found})

    def test_what_is_done_with_scores_is_done_to_all(self):
        q, k, v = tensors(48, heads=2)
        done = {"scale": 0.5, "softcap": 1.5, "sink": np.array([0.5, -np.inf], np.float32), "slopes": np.array([0.1, 0], np.float32), "normaliser": "softmax"}
        with self.assertWarnsRegex(UserWarning, "hga: treeformer-coarse height=1 .* is left out"):
            all_of_them = hga.choose(q, k, v, seconds=0, **done)
        self.assertNotIn("treeformer-coarse", {row["variant"] for row in all_of_them})
        found = hga.choose(q, k, v, variants="window", seconds=0, **done)
        words = found[1]["variant"] + " " + found[1]["parameters"]
        dense = hga.dense(48).attention(q, k, v, **done)
        error = np.linalg.norm(hga.build(words, 48).attention(q, k, v, **done) - dense)
        self.assertAlmostEqual(error / np.linalg.norm(dense), found[1]["relative_l2"], places=5)

    def test_what_it_does_not_take_is_named(self):
        q, k, v = tensors(20, heads=2)
        for text, a, more in (
            ("^sink: has the shape \\(3,\\); .* takes \\[heads = 2\\]", (q, k, v), {"sink": np.zeros(3, np.float32), "variants": "window"}),
            ("^slopes is a str, not a numpy array", (q, k, v), {"slopes": "steep"}),
            ("softcap is 'x', not a number", (q, k, v), {"softcap": "x"}),
            ("^softcap: -1.0 is not from 1e-30", (q, k, v), {"softcap": -1}),
            ("^normaliser: 'entmux'", (q, k, v), {"normaliser": "entmux"}),
            ("normaliser is 1.5, not a text", (q, k, v), {"normaliser": 1.5}),
            ("query has shape .*one sample", (q[None], k, v), {}),
            ("^value: has 20 rows, the key in key has 10", (q, k[:, :10], v), {}),
            ("'windoe' is not one of", (q, k, v), {"variants": "windoe"}),
            ("layout 'nhd' is neither", (q, k, v), {"layout": "nhd"}),
            ("seconds is 'x', not a number", (q, k, v), {"seconds": "x"}),
            ("^seconds: -1.0 is not in", (q, k, v), {"seconds": -1}),
            ("variants is .*, not a text", (q, k, v), {"variants": ["window"]}),
            ("variants .* has a NUL inside", (q, k, v), {"variants": "window\0"}),
            ("precision is 1, not one of auto, f32, bf16", (q, k, v), {"precision": 1}),
            (r"layout \[\] is neither", (q, k, v), {"layout": []}),
        ):
            refused(self, text, lambda: hga.choose(*a, **more))


    def test_another_command_is_named(self):
        q, k, v = tensors(20, heads=2)
        with tempfile.TemporaryDirectory() as folder:
            older = os.path.join(folder, "hga")
            with open(older, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho '{\"rows\": [{\"variant\": \"dense\"}]}'\n")
            os.chmod(older, 0o700)
            for tool, text in (
                (folder, "Permission denied"), ("/bin/false", "which ended with 1"), ("/bin/true", "gave other rows than"), (older, "gave other rows than"),
            ):  # fmt: skip
                with unittest.mock.patch.dict(os.environ, HGA_TOOL=tool), self.assertRaisesRegex(hga.Error, f"runs {tool}.*{text}"):
                    hga.choose(q, k, v)

    def test_candidates_of_ones_own_print(self):
        found = hga.choose(*tensors(20, heads=2), variants="window", seconds=0.001)
        self.assertIn("window", hga.Candidates(reversed(found))._repr_html_())


@needs("torch", "transformers")
class Capturing(unittest.TestCase):
    def model(self, kind):
        import transformers as t

        torch.manual_seed(0)
        sizes = dict(vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4)
        if kind == "gemma2":
            return t.Gemma2Model(t.Gemma2Config(**sizes, num_key_value_heads=2, head_dim=8, attn_logit_softcapping=2.0, sliding_window=64)).eval()
        if kind == "gpt-oss":
            experts = dict(num_local_experts=2, num_experts_per_tok=1)
            m = t.GptOssModel(t.GptOssConfig(**sizes, **experts, num_key_value_heads=2, head_dim=8, sliding_window=64))
            for layer in m.layers:
                torch.nn.init.normal_(layer.self_attn.sinks)
            return m.eval()
        if kind == "bert":
            return t.BertModel(t.BertConfig(**sizes)).eval()
        return t.LlamaModel(t.LlamaConfig(**sizes, num_key_value_heads=2)).eval()

    def test_what_a_layer_gets_gives_what_it_gives(self):
        from hga.transformers import capture

        def last(m):
            return m.layers[2].self_attn.o_proj

        for kind, layer, out in (
            ("llama", 2, last), ("gemma2", 2, last), ("gpt-oss", 2, last), ("bert", 2, lambda m: m.encoder.layer[2].attention.output.dense),
        ):  # fmt: skip
            if (kind == "gpt-oss" and older("transformers", "4.55")) or (kind == "bert" and older("transformers", "5.0")):
                with self.assertRaisesRegex((hga.Error, AttributeError), "no attribute GptOss|BertModel attends 0 times .* transformers 5.0 or newer"):
                    capture(self.model(kind), layer, torch.arange(20) % 7)
                continue
            m, ids, seen = self.model(kind), torch.arange(20) % 7, []
            hook = out(m).register_forward_pre_hook(lambda _, given: seen.append(given[0]))
            with torch.no_grad():
                m(ids[None])
            hook.remove()
            before = m.config._attn_implementation
            c = capture(m, layer, ids)
            self.assertEqual((c.causal, m.config._attn_implementation), (kind != "bert", before))
            self.assertEqual(list(c.tables), {"gemma2": ["softcap"], "gpt-oss": ["sink"]}.get(kind, []))
            self.assertEqual(c.window, {"gemma2": 64, "gpt-oss": 64}.get(kind))
            y = hga.dense(20, causal=c.causal).attention(c.q, c.k, c.v, scale=c.scale, **c.tables)
            torch.testing.assert_close(y.transpose(0, 1).flatten(1), seen[0][0], atol=1e-5, rtol=1e-5)

    def test_models_stay_as_they_are(self):
        import transformers as t
        from hga.transformers import capture

        sizes = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4)
        config = t.LlavaConfig(
            vision_config=t.CLIPVisionConfig(**sizes, image_size=16, patch_size=4), text_config=t.LlamaConfig(**sizes, vocab_size=50), image_token_index=49,
        )  # fmt: skip
        m = t.LlavaForConditionalGeneration._from_config(config, attn_implementation={"text_config": "eager", "vision_config": "sdpa"})
        capture(m, 1, torch.arange(5))
        self.assertEqual((m.config.text_config._attn_implementation, m.config.vision_config._attn_implementation), ("eager", "sdpa"))

    def test_threads_see_their_own_models(self):
        from hga.transformers import capture

        models, ids, layers = [self.model("llama") for _ in range(2)], torch.arange(20), (0, 2)
        want = [capture(m, layer, ids).q for m, layer in zip(models, layers)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for q, i in [(pool.submit(capture, models[i % 2], layers[i % 2], ids), i % 2) for i in range(30)]:
                torch.testing.assert_close(q.result().q, want[i], atol=0, rtol=0)

    def test_words_come_from_the_tokenizer(self):
        from hga.transformers import capture

        class Tokenizer:
            def __call__(self, text, return_tensors):
                import torch

                return {"input_ids": torch.tensor([[ord(c) - ord("a") for c in text]])}

            def decode(self, ids):
                return chr(ids[0] + ord("a"))

        c = capture(self.model("llama"), 0, "abcabd", Tokenizer())
        self.assertEqual(c.words, list("abcabd"))
        self.assertEqual(graph(hga.fenwick(6).view(q=c.q, k=c.k, scale=c.scale, words=c.words))["names"]["text"], c.words)

    def test_what_is_not_captured_is_named(self):
        from hga.transformers import capture

        m, ids = self.model("llama"), torch.arange(6)
        again = torch.tensor([[0, 1, 2, 0, 1, 2]])
        for text, layer, ids in (
            ("attention_mask hides tokens", 0, {"input_ids": ids[None], "attention_mask": again.clamp(max=1)}),
            ("position_ids begin anew", 0, {"input_ids": ids[None], "position_ids": again}),
            ("attends in 2 parts: capture takes one text", 0, {"inputs_embeds": torch.zeros(2, 4, 32)}),
            (r"text is torch.float32 of shape \(0,\), not ids", 0, []),
            ("text is neither a str nor ids of tokens", 0, None),
            ("attends 3 times .* there is no layer 3", 3, torch.arange(4)),
            ("layer is -1", -1, torch.arange(4)),
            ("give tokenizer=", 0, "text"),
            ("capture takes one text", 0, torch.zeros(2, 4, dtype=torch.long)),
        ):
            refused(self, text, lambda: capture(m, layer, ids))
        self.assertEqual(m.config._attn_implementation, "sdpa")
        import transformers as t

        sizes = dict(vocab_size=50, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4)
        why = "T5EncoderModel attends 0 times" if older("transformers", "5.0") else "adds a bias by relative position"
        refused(self, why, lambda: capture(t.T5EncoderModel(t.T5Config(**sizes)), 0, torch.arange(6)))
