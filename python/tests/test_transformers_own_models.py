"""attn_implementation="hga" over the types of model that there are: the outputs are those of the model's own attention, whether hga
attends in a layer or transformers does."""

import contextlib
import unittest

from shared import OnOneThread, at_any_size

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga.transformers
    from hga._core.releases import asks

TOKENS = 70
TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=90, max_position_embeddings=200,
            pad_token_id=1, bos_token_id=2, eos_token_id=3)  # fmt: skip
GROUPED = dict(TEXT, num_key_value_heads=2)
SLIDES = dict(GROUPED, head_dim=8, sliding_window=9)
IMAGE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=4)
SOUND = dict(TEXT, conv_dim=(32, 32), conv_stride=(5, 4), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embedding_groups=2)
PAIR = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
            decoder_ffn_dim=48, vocab_size=90, pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2)  # fmt: skip
T5 = dict(d_model=32, d_kv=8, num_layers=2, num_heads=4, d_ff=48, vocab_size=90)
LATENT = dict(TEXT, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
              n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2, moe_intermediate_size=16)  # fmt: skip
EXPERTS = dict(SLIDES, num_local_experts=2, num_experts_per_tok=1)

# What models are given, and their types with the numbers of a small one.
KINDS = {
    "text": {
        **dict.fromkeys("albert bert camembert electra esm gpt_neox modernbert nomic_bert phi roberta xlm-roberta".split(), TEXT),
        **dict.fromkeys("cohere granite llama nemotron olmo olmo2 phi3 qwen2 smollm3 stablelm starcoder2".split(), GROUPED),
        **dict.fromkeys("cohere2 gemma gemma2 gemma3_text glm mistral qwen3".split(), SLIDES),
        "gpt2": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=90, n_positions=200),
        "gptj": dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=90, n_positions=200),
        "opt": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, vocab_size=90, max_position_embeddings=200, word_embed_proj_dim=32),
        "distilbert": dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=90, max_position_embeddings=200),
        "gpt_oss": EXPERTS, "mixtral": EXPERTS, "deepseek_v3": LATENT,
        "llama4_text": dict(EXPERTS, attention_chunk_size=16, intermediate_size_mlp=48),
    },
    "image": dict.fromkeys("beit clip_vision_model deit dinov2 siglip_vision_model vit".split(), IMAGE),
    "sound": dict.fromkeys("hubert wav2vec2".split(), SOUND),
    "two texts": {**dict.fromkeys("bart blenderbot m2m_100 marian mbart pegasus plbart".split(), PAIR), **dict.fromkeys(("mt5", "t5"), T5)},
    "speech": {"whisper": dict(PAIR, max_source_positions=TOKENS, num_mel_bins=4)},
}  # fmt: skip
FEWEST = 40  # models that ran with the oldest transformers


def given(kind):
    ids = torch.randint(4, 90, (2, TOKENS))
    padded = torch.ones(2, TOKENS, dtype=torch.long)
    padded[1, 50:] = 0
    return {
        "text": [{"input_ids": ids}, {"input_ids": ids, "attention_mask": padded}], "image": [{"pixel_values": torch.randn(2, 3, 32, 32)}],
        "sound": [{"input_values": torch.randn(2, 4000)}], "two texts": [{"input_ids": ids, "decoder_input_ids": ids[:, :40]}],
        "speech": [{"input_features": torch.randn(2, 4, 2 * TOKENS), "decoder_input_ids": ids[:, :40]}],
    }[kind]  # fmt: skip


def models():
    """(type, model, what it is given) of those that this transformers has and that ask for attention by its name."""
    for kind, types in KINDS.items():
        for name, numbers in types.items():
            if name not in tf.CONFIG_MAPPING:
                continue
            torch.manual_seed(1)
            model = tf.AutoModel.from_config(tf.AutoConfig.for_model(name, **numbers)).eval()
            if asks(type(model)):
                yield name, model, given(kind)


@unittest.skipIf(tf is None or not hasattr(tf.PreTrainedModel, "set_attn_implementation"), "there is no transformers from 4.54 on")
class OwnModels(OnOneThread, unittest.TestCase):
    def outputs(self, model, name, inputs):
        model.set_attn_implementation(name)
        with torch.no_grad():
            return model(**inputs)[0]

    def own(self, model, inputs):
        """By sdpa, or by eager attention where sdpa does not compute what the model asks for."""
        found = [self.outputs(model, "eager", inputs)]
        with contextlib.suppress(ValueError):
            found.append(self.outputs(model, "sdpa", inputs))
        return found

    def test_outputs_are_the_models_own(self):
        hga.transformers.register()
        ran = 0
        for name, model, all_inputs in models():
            for inputs in all_inputs:
                with self.subTest(name, mask="attention_mask" in inputs):
                    rows = inputs["attention_mask"].bool() if "attention_mask" in inputs else slice(None)
                    own = self.own(model, inputs)
                    for around in (contextlib.nullcontext, at_any_size):
                        with around():
                            found = self.outputs(model, "hga", inputs)
                        self.assertLess(min(float((found - x)[rows].abs().max()) for x in own), 3e-5, around.__name__)
            ran += 1
        self.assertGreaterEqual(ran, FEWEST)


if __name__ == "__main__":
    unittest.main()
