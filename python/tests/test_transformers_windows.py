"""Models whose configuration says which layers slide give by hga what they give by themselves: forward, packed, padded
and generating, where the text outgrows the windows; a hierarchy is for the layers that do not slide."""

import unittest
from unittest import mock

import hga

try:
    import torch
    import transformers as tf
    from hga.torch._documents import documents, is_numbered
    from test_transformers_models import GROUPED, made
except ImportError:
    tf = None

N, W = 22, 6

if tf is not None:
    import hga.transformers
    from hga.transformers import _attention
    from hga._core.releases import cache_argument

    CACHE = cache_argument()

    BOTH = dict(layer_types=["sliding_attention", "full_attention", "sliding_attention"], sliding_window=W)
    SMALL = {**GROUPED, "num_hidden_layers": 3, "head_dim": 8}
    EXPERTS = dict(num_experts_per_tok=1, moe_intermediate_size=16)
    # name: (model, configuration, its numbers, its own attention)
    MODELS = {
        "Gemma 2": ("Gemma2ForCausalLM", "Gemma2Config", {**SMALL, **BOTH, "attn_logit_softcapping": 0.5}, "eager"),
        "Gemma 3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**SMALL, **BOTH}, "sdpa"),
        "GPT-OSS": ("GptOssForCausalLM", "GptOssConfig", {**SMALL, **BOTH, "num_local_experts": 2, "num_experts_per_tok": 1}, "eager"),
        "Mistral": ("MistralForCausalLM", "MistralConfig", {**SMALL, "sliding_window": W}, "sdpa"),
        "Mixtral": ("MixtralForCausalLM", "MixtralConfig", {**SMALL, "sliding_window": W, "num_local_experts": 2}, "sdpa"),
        "Ministral": ("MinistralForCausalLM", "MinistralConfig", {**SMALL, **BOTH}, "sdpa"),
        "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**SMALL, **BOTH, "use_sliding_window": True}, "sdpa"),
        "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**SMALL, **BOTH, "use_sliding_window": True}, "sdpa"),
        "Qwen2-MoE": (
            "Qwen2MoeForCausalLM", "Qwen2MoeConfig", {**SMALL, **BOTH, **EXPERTS, "use_sliding_window": True, "num_experts": 2}, "sdpa"),
        "Qwen3-MoE": (
            "Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**SMALL, **EXPERTS, "sliding_window": W, "use_sliding_window": True, "num_experts": 2},
            "sdpa"),
        "Cohere2": ("Cohere2ForCausalLM", "Cohere2Config", {**SMALL, **BOTH}, "sdpa"),
        "EXAONE 4": ("Exaone4ForCausalLM", "Exaone4Config", {**SMALL, **BOTH}, "sdpa"),
        "OLMo 3": ("Olmo3ForCausalLM", "Olmo3Config", {**SMALL, **BOTH}, "sdpa"),
        "CWM": ("CwmForCausalLM", "CwmConfig", {**SMALL, **BOTH}, "sdpa"),
        "Phi-3": ("Phi3ForCausalLM", "Phi3Config", {**SMALL, "sliding_window": W}, "sdpa"),
        "Phi-MoE": ("PhimoeForCausalLM", "PhimoeConfig", {**SMALL, "sliding_window": W, "num_local_experts": 2}, "sdpa"),
        "Starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", {**SMALL, "sliding_window": W}, "sdpa"),
        "VaultGemma": ("VaultGemmaForCausalLM", "VaultGemmaConfig", {**SMALL, **BOTH, "attn_logit_softcapping": None}, "eager"),
        "ModernBERT decoder": (
            "ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", {**SMALL, "layer_types": BOTH["layer_types"], "local_attention": W}, "sdpa"),
    }  # fmt: skip
    ENCODERS = {"ModernBERT": ("ModernBertModel", "ModernBertConfig", {**SMALL, "layer_types": BOTH["layer_types"], "local_attention": W}, "sdpa")}


def each(named):
    def around(test):
        def run(self):
            for name, (kind, config, numbers, own) in named.items():
                with self.subTest(name):
                    test(self, made(kind, config, numbers, attn_implementation=own), own)

        run.__name__ = test.__name__
        return run

    return around


@unittest.skipIf(tf is None, "torch or transformers is not installed")
class Windows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hga.transformers.register()

    def setUp(self):
        g = torch.Generator().manual_seed(5)
        self.ids = torch.randint(4, 90, (3, N), generator=g)
        self.padding = torch.ones(3, N, dtype=torch.long)
        self.padding[1, :7] = 0
        self.on_the_right = torch.ones(3, N, dtype=torch.long)
        self.on_the_right[2, 15:] = 0

    def run_as(self, model, name, **inputs):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found = model(self.ids, **inputs)
        return found.logits if hasattr(found, "logits") else found.last_hidden_state

    def near(self, model, own, kept=None, name="hga:dense", **inputs):
        a, b = (self.run_as(model, how, **inputs) for how in (own, name))
        kept = torch.ones(3, N, dtype=torch.bool) if kept is None else kept.bool()
        self.assertLess(float((a - b)[kept].abs().max()), 1e-5 * max(1, float(a[kept].abs().max())))
        return b

    def packed(self):
        return torch.cat([torch.arange(9), torch.arange(13)])[None].expand(3, -1)

    # ---- forward ----

    @each(MODELS if tf is not None else {})
    def test_causal_models_are_their_own_attention(self, model, own):
        self.near(model, own, use_cache=False)
        for padding in (self.padding, self.on_the_right):
            self.near(model, own, padding, attention_mask=padding, use_cache=False)
        self.near(model, own, position_ids=self.packed(), use_cache=False)

    def test_windows_hide_something(self):
        for name, (kind, config, numbers, _) in {**MODELS, **ENCODERS}.items():
            size = "local_attention" if "local_attention" in numbers else "sliding_window"
            narrow, wide = (self.run_as(made(kind, config, {**numbers, size: n}), "hga:dense") for n in (numbers[size], 4 * N))
            self.assertGreater(float((narrow - wide).abs().max()), 1e-4 * float(wide.abs().max()), name)

    @each(ENCODERS if tf is not None else {})
    def test_both_ways(self, model, own):
        self.near(model, own)
        for padding in (self.padding, self.on_the_right):
            self.near(model, own, padding, attention_mask=padding)

    @each({"Gemma 3": MODELS["Gemma 3"], "GPT-OSS": MODELS["GPT-OSS"], "ModernBERT": ENCODERS["ModernBERT"]} if tf is not None else {})
    def test_gradients(self, model, own):
        found = []
        for name in (own, "hga:dense"):
            model.set_attn_implementation(name)
            model.zero_grad()
            y = model(self.ids, attention_mask=self.padding)
            (y.logits if hasattr(y, "logits") else y.last_hidden_state)[self.padding.bool()].square().mean().backward()
            found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
        self.assertLess(float((found[0] - found[1]).abs().max()), 1e-5 * max(1, float(found[0].abs().max())))

    def test_compiled(self):
        model = made(*MODELS["Gemma 3"][:3], attn_implementation="hga:dense")
        want = self.run_as(model, "hga:dense", use_cache=False)
        with torch.no_grad():
            self.assertTrue(torch.allclose(torch.compile(model, fullgraph=True)(self.ids, use_cache=False).logits, want, atol=1e-5))

    def test_windows_are_told_without_every_pair(self):
        """As numbers a token, packed or not; only what nobody can tell is asked for all pairs."""
        model, masks = made(*MODELS["Gemma 3"][:3], attn_implementation="hga:dense"), []

        def seen(mask, *more):
            masks.append(mask)
            return documents(mask, *more)

        for inputs in (dict(), dict(attention_mask=self.padding), dict(position_ids=self.packed())):
            masks.clear()
            with mock.patch("hga.torch._ragged.documents", seen):
                self.run_as(model, "hga:dense", use_cache=False, **inputs)
            self.assertEqual(len(masks), 3)
            self.assertTrue(all(is_numbered(mask) for mask in masks))

    # ---- generating ----

    @each(MODELS if tf is not None else {})
    def test_generate_gives_the_models_own_tokens(self, model, own):
        asked = dict(attention_mask=self.padding, max_new_tokens=12, do_sample=False, pad_token_id=1, eos_token_id=None)
        texts = []
        for name, cached in ((own, False), ("hga:dense", False), ("hga:dense", True)):
            model.set_attn_implementation(name)
            texts.append(model.generate(self.ids, use_cache=cached, **asked))
        self.assertTrue(torch.equal(texts[0], texts[1]) and torch.equal(texts[0], texts[2]))

    def test_generate_with_the_caches_that_people_name(self):
        for name in ("Gemma 3", "Mistral", "GPT-OSS"):
            model, own = made(*MODELS[name][:3]), MODELS[name][3]
            asked = dict(attention_mask=self.padding, max_new_tokens=12, do_sample=False, pad_token_id=1, eos_token_id=None)
            model.set_attn_implementation(own)
            want = [model.generate(self.ids, cache_implementation=cache, **asked) for cache in ("static", "dynamic")]
            self.assertTrue(torch.equal(*want))
            model.set_attn_implementation("hga:dense")
            for cache in ("static", "dynamic", "sliding_window", "hybrid"):
                found = model.generate(self.ids, cache_implementation=cache, return_dict_in_generate=True, **asked)
                self.assertTrue(torch.equal(found.sequences, want[0]), (name, cache))
                self.assertIs(type(found[CACHE]), hga.transformers.Cache)

    def test_a_loop_of_ones_own_in_chunks(self):
        for name in ("Gemma 3", "GPT-OSS", "Mistral"):
            model = made(*MODELS[name][:3], attn_implementation="hga:dense")
            want, cache = self.run_as(model, "hga:dense", use_cache=False, attention_mask=self.padding), hga.transformers.Cache(64)
            with torch.no_grad():
                parts = [model(self.ids[:, a:b], attention_mask=self.padding[:, :b], **{CACHE: cache}).logits for a, b in ((0, 4), (4, 9), (9, 10), (10, N))]
            self.assertLess(float((torch.cat(parts, 1) - want)[self.padding.bool()].abs().max()), 1e-5 * max(1, float(want.abs().max())))
            held = [sum(r.bytes for r in layer.rows) for layer in cache.layers]
            self.assertTrue(name == "Mistral" or held[0] <= held[1])  # a layer that slides holds its window

    # ---- hierarchies in layers that slide ----

    def asked(self, model, name, **inputs):
        """What each layer attends by."""
        found, attend = [], _attention.attend_documents

        def note(words, *more, **others):
            found.append(words)
            return attend(words, *more, **others)

        with mock.patch.object(_attention, "attend_documents", note):
            self.run_as(model, name, use_cache=False, **inputs)
        return found

    def test_a_hierarchy_is_for_the_layers_that_do_not_slide(self):
        model, tree = made(*MODELS["Gemma 3"][:3]), "htransformer:block=4"
        self.assertEqual(self.asked(model, "hga:" + tree), ["dense", tree, "dense"])
        for words in ("window:left=3", f"window:left={W - 1}"):  # it looks no further
            self.assertEqual(self.asked(model, "hga:" + words), [words] * 3)
        wide = f"window:left={W}"
        self.assertEqual(self.asked(model, "hga:" + wide), ["dense", wide, "dense"])
        self.near(model, "sdpa", name=hga.transformers.by_layer({0: "hga:" + tree, 2: "hga:" + tree}, "hga:dense"), use_cache=False)

    def test_where_all_layers_slide_a_hierarchy_must_look_no_further(self):
        model = made(*MODELS["Mistral"][:3])
        for name in ("hga:htransformer:block=4", f"hga:window:left={W}"):
            with self.assertRaisesRegex(hga.Error, f"a window: a token sees {W - 1} tokens before it at most, .* looks further; dense and"):
                self.run_as(model, name, use_cache=False)
        self.assertEqual(self.asked(model, "hga:window:left=2"), ["window:left=2"] * 3)

    # ---- chunks ----

    def test_chunked_attention(self):
        numbers = {**SMALL, "attention_chunk_size": W, "num_local_experts": 2, "intermediate_size_mlp": 48, "no_rope_layers": [1, 1, 0],
                   "layer_types": ["chunked_attention", "chunked_attention", "full_attention"]}  # fmt: skip
        model = made("Llama4ForCausalLM", "Llama4TextConfig", numbers)
        self.near(model, "sdpa", use_cache=False)
        self.near(model, "sdpa", self.padding, attention_mask=self.padding, use_cache=False)
        asked = dict(attention_mask=torch.ones_like(self.ids), max_new_tokens=3, do_sample=False, pad_token_id=1, eos_token_id=None)
        texts = []
        for name in ("sdpa", "hga:dense"):
            model.set_attn_implementation(name)
            texts.append(model.generate(self.ids, use_cache=False, **asked))
        self.assertTrue(torch.equal(*texts))
        with self.assertRaisesRegex(hga.Error, f"attends in chunks of {W} tokens, and a text of {N + 2} outgrows them.*use_cache=False"):
            model.generate(self.ids, **asked)
