"""attn_implementation="hga" over the types of model that there are: the outputs are those of the model's own attention, whether hga
attends in a layer or transformers does."""

import contextlib
import unittest
from unittest import mock

import since
from shared import OnOneThread, at_any_size

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga.transformers
    from hga.torch import _sdpa
    from hga.transformers import _own
    from model_types import Size, given, models, padding_of

# Of many tokens, where it is not both: chunks are a mask of pairs, as masks of some models are in older releases.
LAYERS_BY_HGA = {"llama4_text": (0,), **(dict.fromkeys(("gpt2", "opt"), (0, 2)) if since.older("transformers", "5.0") else {})}
FEWEST = 38  # models that ran with the oldest transformers


def each_given(kind):
    """Without a mask, and of texts with padding."""
    found = [given(kind)]
    return [*found, {**found[0], "attention_mask": padding_of(2, Size().tokens)}] if kind == "text" else found


@unittest.skipIf(tf is None, "there is no transformers")
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
        for kind, name, model in models():
            for inputs in each_given(kind):
                with self.subTest(name, mask="attention_mask" in inputs):
                    rows = inputs["attention_mask"].bool() if "attention_mask" in inputs else slice(None)
                    own = self.own(model, inputs)
                    for around in (contextlib.nullcontext, at_any_size):
                        with around():
                            found = self.outputs(model, "hga", inputs)
                        self.assertLess(min(float((found - x)[rows].abs().max()) for x in own), 3e-5, around.__name__)
            ran += 1
        self.assertGreaterEqual(ran, FEWEST)


    def taken(self, model, inputs):
        """What layers took, and their output."""
        token = _own._SEEN.set([])
        try:
            with torch.no_grad():
                return model(**inputs)[0], [(x.by, x.why) for x in _own._SEEN.get()]
        finally:
            _own._SEEN.reset(token)

    def test_few_tokens_are_transformers_and_many_are_hgas(self):
        """Of every type, at sizes that bench/every_model.py measures: the same paths, with the same outputs."""
        hga.transformers.register()
        for tokens in (16, 640):
            size = Size(width=128, heads=2, tokens=tokens, window=128)
            for kind, name, model in models(size):
                with self.subTest(name, tokens=tokens), mock.patch.object(_sdpa, "SET", "avx512bf16"):
                    inputs = given(kind, size, 1)
                    own = self.own(model, inputs)
                    model.set_attn_implementation("hga")
                    found, taken = self.taken(model, inputs)
                    self.assertLess(min(float((found - x).abs().max()) for x in own), 3e-5)
                    self.assertTrue(taken)
                    by_hga = (0,) if tokens == 16 else LAYERS_BY_HGA.get(name, (2,))
                    self.assertIn([by for by, _ in taken].count("hga"), by_hga, taken)


if __name__ == "__main__":
    unittest.main()
