"""hga in stock models of Hugging Face's transformers; skipped where that or torch is not installed."""

import unittest

import hga

try:
    import torch
    import transformers
except ImportError as e:
    transformers, why = None, str(e)


@unittest.skipIf(transformers is None, "torch or transformers is not installed")
class Models(unittest.TestCase):
    def setUp(self):
        from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, LlamaConfig, LlamaModel

        hga.transformers.register()
        torch.manual_seed(3)
        small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=100)
        self.models = [
            (BertModel(BertConfig(**small)), {}),
            (LlamaModel(LlamaConfig(num_key_value_heads=2, **small)), {"use_cache": False}),
            (GPT2Model(GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100)), {"use_cache": False}),
        ]
        self.ids = torch.randint(0, 100, (3, 24))
        self.mask = torch.ones(3, 24, dtype=torch.long)
        self.mask[1, 15:], self.mask[2, 7:] = 0, 0

    def test_dense_is_the_models_own_attention(self):
        for model, more in self.models:
            model.eval()
            outputs = []
            for name in ("sdpa", "hga:dense"):
                model.set_attn_implementation(name)
                with torch.no_grad():
                    outputs.append([model(self.ids, attention_mask=m, **more).last_hidden_state for m in (None, self.mask)])
            self.assertLess((outputs[0][0] - outputs[1][0]).abs().max(), 1e-5, type(model).__name__)
            for i, n in enumerate((24, 15, 7)):
                self.assertLess((outputs[0][1] - outputs[1][1])[i, :n].abs().max(), 1e-5, type(model).__name__)

    def test_hierarchies_train(self):
        for model, more in self.models:
            model.set_attn_implementation("hga:htransformer:block=4")
            model.train()
            model(self.ids, attention_mask=self.mask, **more).last_hidden_state.pow(2).mean().backward()
            self.assertGreater(sum(p.grad.abs().sum() for p in model.parameters() if p.grad is not None), 0)

    def test_layers_may_differ(self):
        model, more = self.models[0]
        model.eval()
        name = hga.transformers.by_layer({0: "hga:window:left=2:right=2"}, "hga:dense")
        outputs = []
        for name in ("hga:dense", name):
            model.set_attn_implementation(name)
            with torch.no_grad():
                outputs.append(model(self.ids, **more).last_hidden_state)
        self.assertGreater((outputs[0] - outputs[1]).abs().max(), 1e-4)

    def test_what_cannot_be_is_refused_by_name(self):
        model, more = self.models[1]
        for name, words in (("hga:bptt", "bptt"), ("hga:segments", "causal"), ("hga:dense:k=3", "k")):
            with self.assertRaisesRegex(hga.Error, words):
                model.set_attn_implementation(name)
                model(self.ids, **more)


if __name__ == "__main__":
    unittest.main()
