"""attn_implementation="hga" over the types of model that there are: the outputs are those of the model's own attention, whether hga
attends in a layer or transformers does."""

import contextlib
import unittest
from unittest import mock

from architectures import ONLY_OWN, REFUSED, SERVED, Size
from shared import OnOneThread, at_any_size
from since import older, since

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga.transformers
    from hga.torch import _sdpa
    from hga.transformers import _own
    from model_types import given, made, models, padding_of

# Of many tokens, where it is not both: chunks are a mask of pairs, as masks of some models are in older releases.
LAYERS_BY_HGA = {"llama4_text": (0,), **(dict.fromkeys(("gpt2", "opt"), (0, 2)) if older("transformers", "5.0") else {})}
FEWEST = 40  # models that ran with the oldest transformers


def each_given(kind):
    """What a model reads, and which rows count: without a mask; of texts with padding behind them, whose rows are the model's own, too; and in front,
    whose rows are anything."""
    found = given(kind)
    if kind not in ("text", "two texts"):
        return [(found, slice(None))]
    behind = padding_of(2, Size().tokens)
    front = behind.flip(1)
    texts = [({**found, "attention_mask": front}, front.bool())] if kind == "text" else []
    return [(found, slice(None)), ({**found, "attention_mask": behind}, slice(None)), *texts]


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
            for inputs, rows in each_given(kind):
                with self.subTest(name, mask="attention_mask" in inputs):
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
        for kind, name, model in models():
            inputs, reason = given(kind), ONLY_OWN.get(kind)
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
        ids = torch.randint(4, 90, (1, Size().tokens))
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
