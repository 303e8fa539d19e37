"""Bloom and Falcon with ALiBi in hga.transformers.use: outputs and gradients are those of the model's own attention."""

import contextlib
import copy
import unittest

import since  # noqa: F401
from shared import OnOneThread, at_any_size, refused

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga.transformers
    from hga.transformers import _own

TOKENS = 40
BLOOM = dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=90, hidden_dropout=0.0, attention_dropout=0.0)
FALCON = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=90, alibi=True, multi_query=False, new_decoder_architecture=False,
              parallel_attn=False, bias=True)  # fmt: skip


def models():
    """Name: a model, and the same in use."""
    for name, make in {
        "bloom": lambda: tf.BloomForCausalLM(tf.BloomConfig(**BLOOM)),
        "falcon": lambda: tf.FalconForCausalLM._from_config(tf.FalconConfig(**FALCON), attn_implementation="sdpa"),
        "falcon, eager": lambda: tf.FalconForCausalLM._from_config(tf.FalconConfig(**FALCON), attn_implementation="eager"),
        "falcon, one head of keys": lambda: tf.FalconForCausalLM(tf.FalconConfig(**{**FALCON, "multi_query": True})),
        "falcon, grouped": lambda: tf.FalconForCausalLM(tf.FalconConfig(**{**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "parallel_attn": True, "num_ln_in_parallel_attn": 2})),
    }.items():
        torch.manual_seed(3)
        model = make().eval()
        yield name, model, hga.transformers.use(copy.deepcopy(model))


def ids_of(batch=2, tokens=TOKENS):
    return torch.randint(4, 90, (batch, tokens), generator=torch.Generator().manual_seed(1))


def outputs(model, grad=False, **given):
    model.zero_grad()
    with torch.set_grad_enabled(grad):
        out = model(**given).logits
    if grad:
        (out * torch.arange(out.numel()).sin().view_as(out)).sum().backward()
    return out.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@unittest.skipIf(tf is None, "there is no transformers")
class Alibi(OnOneThread, unittest.TestCase):
    def took(self, model, **given):
        token = _own._SEEN.set([])
        try:
            with torch.no_grad():
                model(**given)
            return [x.by for x in _own._SEEN.get()]
        finally:
            _own._SEEN.reset(token)

    def test_outputs_and_gradients_are_the_models_own(self):
        padding = torch.ones(2, TOKENS, dtype=torch.long)
        padding[1, :9] = 0
        for name, theirs, ours in models():
            for more in ({}, {"attention_mask": torch.ones_like(padding)}, {"attention_mask": padding}):
                for around in (contextlib.nullcontext, at_any_size):
                    with self.subTest(name, more=list(more), by=around.__name__), around():
                        (a, da), (b, db) = (outputs(x, True, input_ids=ids_of(), **more) for x in (theirs, ours))
                        torch.testing.assert_close(b, a, atol=2e-5, rtol=2e-5)
                        self.assertEqual(da.keys(), db.keys())
                        for n, d in da.items():
                            torch.testing.assert_close(db[n], d, atol=1e-4 * max(1, float(d.abs().max())), rtol=1e-4)
                        by_hga = around is at_any_size and bool(more.get("attention_mask", padding.new_ones(1)).all())
                        self.assertEqual(self.took(ours, input_ids=ids_of(), **more), ["hga" if by_hga else "transformers"] * 2)

    def test_sixteen_bits(self):
        for name, theirs, ours in models():
            with self.subTest(name), at_any_size():
                want = outputs(theirs, input_ids=ids_of())[0]
                own, found = (outputs(x.bfloat16(), input_ids=ids_of())[0].float() for x in (theirs, ours))
                self.assertLess(float((found - want).abs().mean()), 1.3 * float((own - want).abs().mean()))

    def test_generation_goes_on_behind_the_cache(self):
        for name, theirs, ours in models():
            with self.subTest(name), at_any_size():
                a, b = (x.generate(ids_of(1), max_new_tokens=6, do_sample=False, pad_token_id=0) for x in (theirs, ours))
                self.assertEqual(a.tolist(), b.tolist())

    def test_masks_of_pairs_are_transformers(self):
        _, theirs, ours = next(models())
        mask = torch.zeros(1, 1, TOKENS, TOKENS).masked_fill(torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1), torch.finfo(torch.float32).min)
        mask[..., 20, 3] = torch.finfo(torch.float32).min
        given = dict(input_ids=ids_of(), attention_mask=mask)
        alibi = torch.ones(2, TOKENS, dtype=torch.long)
        layer, own = ours.transformer.h[0].self_attention, theirs.transformer.h[0].self_attention
        x, bias = torch.randn(2, TOKENS, 32), theirs.transformer.build_alibi_tensor(alibi, 4, torch.float32)
        with at_any_size(), torch.no_grad():
            torch.testing.assert_close(layer(x, x, bias, given["attention_mask"])[0], own(x, x, bias, given["attention_mask"])[0])

    def test_by_name_they_are_refused_and_told_of_use(self):
        hga.transformers.register()
        _, theirs, _ = next(models())
        refused(self, r"hga.transformers.use\(model\) serves its layers", lambda: theirs.set_attn_implementation("hga"))


if __name__ == "__main__":
    unittest.main()
