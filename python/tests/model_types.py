"""The types of model that attn_implementation="hga" is tried with, small ones of any width: for tests, and for bench/every_model.py."""

from typing import NamedTuple

import torch
import transformers as tf
from hga._core.releases import asks


class Size(NamedTuple):
    """Of models and of what they are given."""

    width: int = 32
    heads: int = 4
    tokens: int = 70
    window: int = 9  # of layers that slide


def side_of(size):
    """Patches along either side of an image."""
    return max(2, round(size.tokens**0.5))


def kinds(size):
    """What models are given: their types, with the numbers of each."""
    inner, dim, places, grouped = 3 * size.width // 2, size.width // size.heads, size.tokens + 130, max(1, size.heads // 2)
    marks = dict(vocab_size=90, pad_token_id=1, bos_token_id=2, eos_token_id=3)
    hidden = dict(hidden_size=size.width, num_hidden_layers=2, num_attention_heads=size.heads)
    text = dict(hidden, intermediate_size=inner, max_position_embeddings=places, **marks)
    fewer = dict(text, num_key_value_heads=grouped)
    slides = dict(fewer, head_dim=dim, sliding_window=size.window)
    experts = dict(slides, num_local_experts=2, num_experts_per_tok=1)
    image = dict(hidden, intermediate_size=inner, image_size=4 * side_of(size), patch_size=4)
    sound = dict(text, conv_dim=(32, 32), conv_stride=(5, 4), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embedding_groups=2)
    gpt = dict(n_embd=size.width, n_layer=2, n_head=size.heads, vocab_size=90, n_positions=places)
    pair = dict(d_model=size.width, encoder_layers=2, decoder_layers=2, encoder_attention_heads=size.heads, decoder_attention_heads=size.heads,
                encoder_ffn_dim=inner, decoder_ffn_dim=inner, max_position_embeddings=places, decoder_start_token_id=2, **marks)  # fmt: skip
    t5 = dict(d_model=size.width, d_kv=dim, num_layers=2, num_heads=size.heads, d_ff=inner, vocab_size=90)
    latent = dict(text, num_key_value_heads=size.heads, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=dim - 8 or 8, v_head_dim=dim,
                  n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2, moe_intermediate_size=16)  # fmt: skip
    return {
        "text": {
            **dict.fromkeys("albert bert camembert electra esm gpt_neox modernbert nomic_bert phi roberta xlm-roberta".split(), text),
            **dict.fromkeys("cohere granite llama nemotron olmo olmo2 phi3 qwen2 smollm3 stablelm starcoder2".split(), fewer),
            **dict.fromkeys("cohere2 gemma gemma2 gemma3_text glm mistral qwen3".split(), slides),
            "gpt2": gpt, "gptj": dict(gpt, rotary_dim=dim // 2),
            "opt": dict(hidden, ffn_dim=inner, vocab_size=90, max_position_embeddings=places, word_embed_proj_dim=size.width),
            "distilbert": dict(dim=size.width, n_layers=2, n_heads=size.heads, hidden_dim=inner, vocab_size=90, max_position_embeddings=places),
            "gpt_oss": experts, "mixtral": experts, "deepseek_v3": latent,
            "llama4_text": dict(experts, attention_chunk_size=size.window + 7, intermediate_size_mlp=inner),
        },
        "image": dict.fromkeys("beit clip_vision_model deit dinov2 siglip_vision_model vit".split(), image),
        "sound": dict.fromkeys("hubert wav2vec2".split(), sound),
        "two texts": {**dict.fromkeys("bart blenderbot m2m_100 marian mbart pegasus plbart".split(), pair), **dict.fromkeys(("mt5", "t5"), t5)},
        "speech": {"whisper": dict(pair, max_source_positions=size.tokens, num_mel_bins=4)},
    }  # fmt: skip


def given(kind, size=Size(), batch=2):
    """What a model of the kind reads."""
    ids = torch.randint(4, 90, (batch, size.tokens))
    if kind in ("image", "sound"):
        side = 4 * side_of(size)
        return {"pixel_values": torch.randn(batch, 3, side, side)} if kind == "image" else {"input_values": torch.randn(batch, 20 * size.tokens + 15)}
    read = {"input_features": torch.randn(batch, 4, 2 * size.tokens)} if kind == "speech" else {"input_ids": ids}
    return {**read, "decoder_input_ids": ids[:, :40]} if kind in ("two texts", "speech") else read


def padding_of(batch, tokens):
    """An attention_mask of texts of different lengths, the first the longest."""
    lengths = torch.linspace(1, 0.3, batch).mul(tokens).long()
    return (torch.arange(tokens) < lengths[:, None]).long()


def models(size=Size(), only=()):
    """(kind, type, model) of those that this transformers has and that ask for attention by its name."""
    for kind, types in kinds(size).items():
        for name, numbers in types.items():
            if name not in tf.CONFIG_MAPPING or (only and name not in only):
                continue
            torch.manual_seed(1)
            model = tf.AutoModel.from_config(tf.AutoConfig.for_model(name, **numbers)).eval()
            if asks(type(model)):
                yield kind, name, model
