"""Which types of model (model_type in a model's config.json) run with hga, and which are refused: the one list, small ones of any width, which
test_transformers_own_models runs, bench/every_model.py measures and of which docs/architectures_said.py makes the page's table."""

from typing import NamedTuple


class Size(NamedTuple):
    """Of models and of what they are given."""

    width: int = 32
    heads: int = 4
    tokens: int = 70
    window: int = 9  # of layers that slide


def side_of(size):
    """Patches along either side of an image."""
    return max(2, round(size.tokens**0.5))


def kinds(size=Size()):
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
            **dict.fromkeys("albert bert camembert data2vec-text electra ernie esm gpt_neox modernbert nomic_bert phi roberta xlm-roberta".split(), text),
            **dict.fromkeys("cohere exaone4 glm4 granite llama nemotron olmo olmo2 phi3 qwen2 seed_oss smollm3 stablelm starcoder2".split(), fewer),
            **dict.fromkeys("cohere2 cwm gemma gemma2 gemma3_text glm helium ministral mistral olmo3 qwen3 vaultgemma".split(), slides),
            "gpt2": gpt, "gptj": dict(gpt, rotary_dim=dim // 2),
            "opt": dict(hidden, ffn_dim=inner, vocab_size=90, max_position_embeddings=places, word_embed_proj_dim=size.width),
            "distilbert": dict(dim=size.width, n_layers=2, n_heads=size.heads, hidden_dim=inner, vocab_size=90, max_position_embeddings=places),
            "gpt_oss": experts, "mixtral": experts, "deepseek_v3": latent,
            "llama4_text": dict(experts, attention_chunk_size=size.window + 7, intermediate_size_mlp=inner),
        },
        "image": dict.fromkeys("beit clip_vision_model deit dinov2 dinov3_vit ijepa siglip_vision_model vit vit_msn".split(), image),
        "sound": dict.fromkeys("hubert wav2vec2".split(), sound),
        "two texts": {**dict.fromkeys("bart blenderbot m2m_100 marian mbart pegasus plbart".split(), pair), **dict.fromkeys(("mt5", "t5"), t5)},
        "speech": {"whisper": dict(pair, max_source_positions=size.tokens, num_mel_bins=4)},
    }  # fmt: skip


OF_TWO = "its decoder attends from one text to another"
ONLY_OWN = {"two texts": OF_TWO, "speech": OF_TWO}  # kinds that "hga" alone serves, and why names of hierarchies are refused

_TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=90, max_position_embeddings=200,
             pad_token_id=1, bos_token_id=2, eos_token_id=3)  # fmt: skip
_PAIR = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
             decoder_ffn_dim=48, vocab_size=90, pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2)  # fmt: skip

# Layers that compute their attention by themselves, and attend by hga after hga.transformers.use(model).
SERVED = {
    "big_bird": dict(_TEXT, attention_type="block_sparse", block_size=4, num_random_blocks=1), "longformer": dict(_TEXT, attention_window=16),
    "led": dict(_PAIR, attention_window=16, max_encoder_position_embeddings=200), "mpnet": _TEXT,
    "bloom": dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=90), "falcon": dict(_TEXT, ffn_hidden_size=48, alibi=True, multi_query=False),
}  # fmt: skip
SAID = {"falcon": "`falcon` with ALiBi"}  # of those that are served in one form alone

# Types that are refused by name, and the reason that the refusal says.
BY_ITSELF = "it computes its attention by itself"
REFUSED = {
    BY_ITSELF: {
        **dict.fromkeys("convbert deberta deberta-v2 roformer".split(), _TEXT),
        "mpt": dict(d_model=32, n_layers=2, n_heads=4, vocab_size=90),
        "gpt_neo": dict(hidden_size=32, num_layers=2, num_heads=4, vocab_size=90, attention_types=[[["global", "local"], 1]]),
        "xlnet": dict(d_model=32, n_layer=2, n_head=4, d_inner=48, vocab_size=90),
    },
}  # fmt: skip
