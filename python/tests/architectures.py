"""Which types of model (model_type in a model's config.json) run with hga, and which are refused: the one list, which test_transformers_own_models
runs and of which docs/architectures_said.py makes the page's table. Types with the numbers of a small model."""

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

# What models are given, and their types.
KINDS = {
    "text": {
        **dict.fromkeys("albert bert camembert data2vec-text electra ernie esm gpt_neox modernbert nomic_bert phi roberta xlm-roberta".split(), TEXT),
        **dict.fromkeys("cohere exaone4 glm4 granite llama nemotron olmo olmo2 phi3 qwen2 seed_oss smollm3 stablelm starcoder2".split(), GROUPED),
        **dict.fromkeys("cohere2 cwm gemma gemma2 gemma3_text glm helium ministral mistral olmo3 qwen3 vaultgemma".split(), SLIDES),
        "gpt2": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=90, n_positions=200),
        "gptj": dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=90, n_positions=200),
        "opt": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, vocab_size=90, max_position_embeddings=200, word_embed_proj_dim=32),
        "distilbert": dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=90, max_position_embeddings=200),
        "gpt_oss": EXPERTS, "mixtral": EXPERTS, "deepseek_v3": LATENT,
        "llama4_text": dict(EXPERTS, attention_chunk_size=16, intermediate_size_mlp=48),
    },
    "image": dict.fromkeys("beit clip_vision_model deit dinov2 dinov3_vit ijepa siglip_vision_model vit vit_msn".split(), IMAGE),
    "sound": dict.fromkeys("hubert wav2vec2".split(), SOUND),
    "two texts": {**dict.fromkeys("bart blenderbot m2m_100 marian mbart pegasus plbart".split(), PAIR), **dict.fromkeys(("mt5", "t5"), T5)},
    "speech": {"whisper": dict(PAIR, max_source_positions=TOKENS, num_mel_bins=4)},
}  # fmt: skip
OF_TWO = "its decoder attends from one text to another"
ONLY_OWN = {"two texts": OF_TWO, "speech": OF_TWO}  # kinds that "hga" alone serves, and why names of hierarchies are refused

# Layers that compute their attention by themselves, and attend by hga after hga.transformers.use(model).
SERVED = {"big_bird": dict(TEXT, attention_type="block_sparse", block_size=4, num_random_blocks=1), "longformer": dict(TEXT, attention_window=16),
          "led": dict(PAIR, attention_window=16, max_encoder_position_embeddings=200), "mpnet": TEXT}  # fmt: skip

# Types that are refused by name, and the reason that the refusal says.
BY_ITSELF = "it computes its attention by itself"
REFUSED = {
    BY_ITSELF: {
        **dict.fromkeys("convbert deberta deberta-v2 roformer".split(), TEXT), "falcon": dict(TEXT, ffn_hidden_size=48),
        "bloom": dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=90), "mpt": dict(d_model=32, n_layers=2, n_heads=4, vocab_size=90),
        "gpt_neo": dict(hidden_size=32, num_layers=2, num_heads=4, vocab_size=90, attention_types=[[["global", "local"], 1]]),
        "xlnet": dict(d_model=32, n_layer=2, n_head=4, d_inner=48, vocab_size=90),
    },
}  # fmt: skip
