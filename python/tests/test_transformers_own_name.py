"""attn_implementation="hga": a model's own attention, by hga or by transformers, with the same outputs."""

import contextlib
import copy
import unittest
from unittest import mock

import since
from shared import OnOneThread, at_any_size, refused

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga
    import hga.transformers
    from hga._core.releases import asks
    from hga.torch import _sdpa
    from hga.transformers import _own

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=60, max_position_embeddings=256)
TEXT2TEXT = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                 decoder_ffn_dim=48, vocab_size=60)  # fmt: skip
TOKENS = 70


def ids_of(tokens=TOKENS, batch=2):
    torch.manual_seed(1)
    return torch.randint(5, 60, (batch, tokens))


def models():
    """Name: (a model, its own way, what it is given)."""
    ids = ids_of()
    both = {"input_ids": ids, "decoder_input_ids": ids[:, :40]}
    torch.manual_seed(2)
    llama = tf.LlamaConfig(**SMALL, num_key_value_heads=2)
    found = {
        "llama": (tf.LlamaForCausalLM(llama), "sdpa", {"input_ids": ids}),
        "bert": (tf.BertModel(tf.BertConfig(**SMALL)), "sdpa", {"input_ids": ids}),
        "mistral": (tf.MistralModel(tf.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=9)), "sdpa", {"input_ids": ids}),
        "gemma 2": (tf.Gemma2Model(tf.Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=9)), "eager", {"input_ids": ids}),
        "bart": (tf.BartModel(tf.BartConfig(**TEXT2TEXT)), "sdpa", both),
        "whisper": (tf.WhisperModel(tf.WhisperConfig(**TEXT2TEXT, max_source_positions=TOKENS, num_mel_bins=4, pad_token_id=0, bos_token_id=1,
                                                     eos_token_id=2, decoder_start_token_id=1)), "sdpa",
                    {"input_features": torch.randn(2, 4, 2 * TOKENS), "decoder_input_ids": ids[:, :40]}),
    }  # fmt: skip
    return {name: of for name, of in found.items() if asks(type(of[0]))}


@unittest.skipIf(tf is None, "there is no transformers")
class OwnName(OnOneThread, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        hga.transformers.register()

    def outputs(self, model, own, given, grad=False):
        """Of the model's own way and of hga's: last hidden states, or logits; and gradients of all weights."""
        found = []
        for name in (own, "hga"):
            model.set_attn_implementation(name)
            model.zero_grad()
            with torch.set_grad_enabled(grad):
                out = model(**given)[0]
            if grad:
                (out * torch.arange(out.numel()).sin().view_as(out)).sum().backward()  # a norm's squares have no gradient
            found.append((out.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]))
        return found

    def test_outputs_and_gradients_are_the_models_own(self):
        for name, (model, own, given) in models().items():
            for around in (contextlib.nullcontext, at_any_size):
                with self.subTest(name, by=around.__name__), around():
                    (a, ga), (b, gb) = self.outputs(model.eval(), own, given, grad=True)
                    torch.testing.assert_close(b, a, atol=2e-5, rtol=2e-5)
                    self.assertEqual(len(ga), len(gb))
                    for x, y in zip(ga, gb):
                        torch.testing.assert_close(y, x, atol=2e-4 * max(1, float(x.abs().max())), rtol=1e-4)

    def test_padding_is_the_models_own(self):
        """Rows of padding, too; and where the texts of a decoder and its encoder are as long."""
        for name, (model, own, given) in models().items():
            if name in ("gemma 2", "whisper"):
                continue
            mask = torch.ones(2, TOKENS, dtype=torch.long)
            mask[1, 50:] = 0
            given = {**given, "attention_mask": mask}
            if "decoder_input_ids" in given:
                given["decoder_input_ids"] = given["input_ids"].flip(1)
            for around in (contextlib.nullcontext, at_any_size):
                with self.subTest(name, by=around.__name__), around():
                    (a, ga), (b, gb) = self.outputs(model.eval(), own, given, grad=True)
                    torch.testing.assert_close(b, a, atol=2e-5, rtol=2e-5)
                    for x, y in zip(ga, gb):
                        torch.testing.assert_close(y, x, atol=2e-4 * max(1, float(x.abs().max())), rtol=1e-4)

    def test_softcaps_with_padding_on_the_left_and_in_float64(self):
        model, own, given = models()["gemma 2"]
        mask = torch.ones(2, TOKENS, dtype=torch.long)
        mask[0, :11] = 0
        (a, _), (b, _) = self.outputs(model.eval(), own, {**given, "attention_mask": mask})
        torch.testing.assert_close(b[mask.bool()], a[mask.bool()], atol=2e-5, rtol=2e-5)
        (a, _), (b, _) = self.outputs(model.double(), own, given)
        torch.testing.assert_close(b, a)

    def test_softcaps_have_the_mask_that_the_model_adds(self):
        model, own, given = models()["gemma 2"]
        mask = torch.ones(2, TOKENS, dtype=torch.long)
        mask[1, 50:] = 0
        for more in ({}, {"attention_mask": mask}):
            (a, _), (b, _) = self.outputs(model.eval(), own, {**given, **more})
            self.assertTrue(torch.equal(a, b))

    def test_softcaps_with_padding_under_compile(self):
        model, own, given = models()["gemma 2"]
        mask = torch.ones(2, TOKENS, dtype=torch.long)
        mask[0, :11] = mask[1, 50:] = 0
        given = {**given, "attention_mask": mask, "use_cache": False}
        (a, _), _ = self.outputs(model.eval(), own, given)
        torch._dynamo.reset()
        with torch.no_grad():
            b = torch.compile(model, fullgraph=True, backend="aot_eager")(**given)[0]
        torch.testing.assert_close(b[mask.bool()], a[mask.bool()], atol=2e-5, rtol=2e-5)

    @unittest.skipUnless(hasattr(tf, "GptOssConfig"), "transformers has no GPT-OSS")
    def test_after_one_pass_sinks_have_the_mask_that_the_model_adds(self):
        small = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 9, "num_local_experts": 2, "num_experts_per_tok": 1}
        model = tf.GptOssModel(tf.GptOssConfig(**small, pad_token_id=0)).eval()
        given = {"input_ids": ids_of()}
        _, ((a, _), (b, _)) = (self.outputs(model, "eager", given) for _ in range(2))
        self.assertTrue(torch.equal(a, b))
        self.assertIs(_own._EAGER.get(id(model.config)), model.config)

    @unittest.skipIf(not hasattr(tf, "T5GemmaConfig") or since.older("torch", "2.6"), "there is no T5Gemma, or none that runs")
    def test_one_configuration_of_an_encoder_and_a_decoder(self):
        """Its encoder's layers would say that they are causal."""
        for softcap in (50.0, None):
            part = tf.T5GemmaModuleConfig(
                vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                head_dim=32, query_pre_attn_scalar=32, sliding_window=16, attn_logit_softcapping=softcap,
            )  # fmt: skip
            ids = torch.randint(64, (1, 12), generator=torch.Generator().manual_seed(1))
            model = tf.T5GemmaModel(tf.T5GemmaConfig(encoder=part, decoder=part)).eval()
            refused(self, "config.encoder and config.decoder are one object", lambda: model.set_attn_implementation("hga"))
            model = tf.T5GemmaModel(tf.T5GemmaConfig(encoder=part, decoder=copy.deepcopy(part))).eval()
            for more in ({}, {"attention_mask": torch.ones(1, 12, dtype=torch.long)}):
                (a, _), (b, _) = self.outputs(model, "eager", {"input_ids": ids, "decoder_input_ids": ids.flip(1), **more})
                torch.testing.assert_close(b, a)

    def test_a_mask_that_changes_in_place_is_seen(self):
        model, own, given = models()["gemma 2"]
        pairs = torch.ones(2, 1, TOKENS, TOKENS, dtype=torch.bool).tril()
        found = []
        for first in (0, 20):
            pairs[..., first:, : first // 2] = False
            (_, (a, _)), (_, (b, _)) = (self.outputs(model.eval(), own, {**given, "attention_mask": mask}) for mask in (pairs, pairs.clone()))
            self.assertTrue(torch.equal(a, b))
            found.append(a)
        self.assertFalse(torch.equal(*found))

    def test_a_model_is_made_with_it(self):
        config = tf.LlamaConfig(**SMALL, num_key_value_heads=2)
        torch.manual_seed(3)
        model = tf.AutoModel.from_config(config, attn_implementation="hga").eval()
        with at_any_size():
            self.assertEqual(hga.transformers.explain(model, 16), "layers 0-1 of LlamaAttention: hga: it is faster")

    def test_composed_models_and_layers_are_refused_by_words(self):
        config = tf.EncoderDecoderConfig.from_encoder_decoder_configs(tf.BertConfig(**SMALL), tf.BertConfig(**SMALL))
        refused(self, "set it in model.encoder and model.decoder", lambda: tf.EncoderDecoderModel(config).set_attn_implementation("hga"))
        refused(self, "'hga' is for whole models", lambda: hga.transformers.by_layer({0: "hga"}, "hga:dense"))
        model = models()["whisper"][0]
        model.set_attn_implementation("hga")
        refused(self, "WhisperModel reads input_features", lambda: hga.transformers.explain(model, 16))

    def test_a_pass_says_what_each_layer_takes(self):
        model = models()["llama"][0].eval()
        refused(self, "the model attends by 'sdpa'", lambda: hga.transformers.explain(model, 16))
        model.set_attn_implementation("hga")
        self.assertEqual(hga.transformers.explain(model, 16), "layers 0-1 of LlamaAttention: transformers: 16 tokens are few")
        with at_any_size():
            self.assertEqual(hga.transformers.explain(model, 16), "layers 0-1 of LlamaAttention: hga: it is faster")
            t5 = tf.T5Model(tf.T5Config(d_model=32, d_kv=8, num_layers=2, num_heads=4, d_ff=48, vocab_size=60)).eval()
            if asks(type(t5)):
                t5.set_attn_implementation("hga")
                self.assertIn("transformers: it adds a bias by relative position to the scores", hga.transformers.explain(t5, 16))
            bart = models()["bart"][0].eval()
            bart.set_attn_implementation("hga")
            said = hga.transformers.explain(bart, 16)
            self.assertIn("hga: it is faster", said)
            self.assertIn("transformers: it attends from one text to another", said)

    def test_work_decides(self):
        q, v = torch.zeros(1, 4, 512, 64), torch.zeros(1, 4, 512, 64)
        self.assertEqual(_sdpa.work_of(1, 4, 512, 128), 4 * 512 * 512 * 128 / 1e6)
        for words, least in _sdpa.LEAST_WORK.items():
            with mock.patch.object(_sdpa, "SET", words[0]):
                for work in (0.99 * least, least):
                    self.assertEqual(_sdpa.is_little(work, 512, torch.bfloat16 if words[1] else torch.float32, words[2]), work < least)
        self.assertIn(_sdpa.SET, {words[0] for words in _sdpa.LEAST_WORK})
        self.enterContext(mock.patch.object(_sdpa, "SET", "avx512bf16"))
        self.assertIsNone(_own._against(q, q, v, None))
        self.assertIn("few", _own._against(q[:, :, :64], q[:, :, :64], v[:, :, :64], None))
        self.assertIn("1 queries of 512 keys", _own._against(q[:, :, :1], q, v, None))
        self.assertIn("pairs", _own._against(q, q, v, torch.ones(1, 1, 512, 512, dtype=torch.bool)))

    def test_generation_keeps_transformers_cache(self):
        model = tf.LlamaForCausalLM(tf.LlamaConfig(**SMALL, num_key_value_heads=2)).eval()
        found = []
        for name in ("sdpa", "hga"):
            model.set_attn_implementation(name)
            with at_any_size():
                found.append(model.generate(ids_of(60, 1), max_new_tokens=8, do_sample=False, return_dict_in_generate=True))
        self.assertEqual(*(x.sequences.tolist() for x in found))
        self.assertEqual(*(type(x.past_key_values) for x in found))

    def test_it_compiles(self):
        model, _, given = models()["llama"]
        model.eval().set_attn_implementation("hga")
        self.addCleanup(torch._dynamo.reset)
        for around in (contextlib.nullcontext, at_any_size):
            torch._dynamo.reset()
            with around(), torch.no_grad():
                want = model(**given, use_cache=False).logits
                torch.testing.assert_close(torch.compile(model, backend="eager")(**given, use_cache=False).logits, want, atol=2e-5, rtol=2e-5)

    def test_a_model_that_does_not_ask_is_refused(self):
        model = tf.LongformerModel(tf.LongformerConfig(**SMALL, attention_window=[8, 8]))
        refused(self, "it computes its attention by itself", lambda: model.set_attn_implementation("hga"))


if __name__ == "__main__":
    unittest.main()
