"""attn_implementation="hga" over the types of model that there are: the outputs are those of the model's own attention, whether hga
attends in a layer or transformers does."""

import contextlib
import unittest

from architectures import KINDS, ONLY_OWN, REFUSED, SERVED, TOKENS
from shared import OnOneThread, at_any_size
from since import since

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga.transformers
    from hga._core.releases import asks

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


def made(name, numbers):
    torch.manual_seed(1)
    return tf.AutoModel.from_config(tf.AutoConfig.for_model(name, **numbers)).eval()


def models():
    """(type, model, what it is given) of those that this transformers has and that ask for attention by its name."""
    for kind, types in KINDS.items():
        for name, numbers in types.items():
            if name not in tf.CONFIG_MAPPING:
                continue
            model = made(name, numbers)
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


    def test_names_of_hierarchies_run_or_are_refused_with_the_reason(self):
        """"hga:dense", which pads nothing here, in every kind that the table says."""
        hga.transformers.register()
        kind_of = {name: kind for kind, types in KINDS.items() for name in types}
        for name, model, all_inputs in models():
            inputs, reason = all_inputs[0], ONLY_OWN.get(kind_of[name])
            with self.subTest(name):
                if reason is None:
                    own, found = self.own(model, inputs), self.outputs(model, "hga:dense", inputs)
                    self.assertLess(min(float((found - x).abs().max()) for x in own), 3e-5)
                else:
                    with self.assertRaisesRegex(hga.Error, reason):
                        self.outputs(model, "hga:dense", inputs)

    @since("transformers", "5.0")
    def test_what_is_refused_says_why(self):
        hga.transformers.register()
        ids = torch.randint(4, 90, (1, TOKENS))
        for reason, types in REFUSED.items():
            for name in types:
                for words in ("hga", "hga:dense"):
                    with self.subTest(name, words=words), self.assertRaisesRegex(hga.Error, reason):
                        model = made(name, types[name])
                        model.set_attn_implementation(words)
                        model(input_ids=ids)

    def test_what_is_for_use_runs_by_it(self):
        ids = torch.randint(4, 90, (1, 64))
        for name, numbers in SERVED.items():
            with self.subTest(name), torch.no_grad():
                model = made(name, numbers)
                inputs = dict(input_ids=ids, **({"decoder_input_ids": ids} if name == "led" else {}))
                own = model(**inputs)[0]
                hga.transformers.use(model)
                self.assertLess(float((model(**inputs)[0] - own).abs().max()), 3e-5)


if __name__ == "__main__":
    unittest.main()
