"""Biases by relative position, of T5 and its kin with attn_implementation="hga" and of MPNet in hga.transformers.use: outputs and
gradients are those of the model's own attention, and where hga does not attend, transformers does."""

import contextlib
import copy
import pickle
import tempfile
import unittest

from shared import OnOneThread, at_any_size, refused

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga.transformers
    from hga._core.releases import asks, cache_argument, has
    from hga.transformers import _own, _positions

TOKENS = 70  # of distances in all buckets
T5 = dict(d_model=32, d_kv=8, num_layers=3, num_decoder_layers=3, num_heads=4, d_ff=48, vocab_size=60, dropout_rate=0.0, relative_attention_num_buckets=16,
          relative_attention_max_distance=40, decoder_start_token_id=0, pad_token_id=0)  # fmt: skip
MPNET = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=60, max_position_embeddings=200)
WIDE = dict(T5, d_kv=64, num_heads=2)


def ids_of(tokens=TOKENS, batch=3):
    return torch.randint(5, 60, (batch, tokens), generator=torch.Generator().manual_seed(1))


def padded(tokens=TOKENS, batch=3):
    """On the right, on the left, nowhere."""
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[0, 50:] = 0
    mask[1, :9] = 0
    return mask


def loud(model):
    """Whose biases weigh."""
    for name, x in model.named_parameters():
        if "relative_attention_bias" in name:
            torch.nn.init.normal_(x, generator=torch.Generator().manual_seed(3))
    return model.eval()


def made(name, config):
    torch.manual_seed(2)
    return loud(getattr(tf, name)(config))


def t5_models():
    """Name: (a model, what it is given)."""
    both = {"input_ids": ids_of(), "decoder_input_ids": ids_of().flip(1), "use_cache": False}
    found = {
        "T5Model": (tf.T5Config, both), "T5EncoderModel": (tf.T5Config, {"input_ids": ids_of()}), "MT5Model": (tf.MT5Config, both),
        "UMT5Model": (tf.UMT5Config, both), "SwitchTransformersModel": (tf.SwitchTransformersConfig, both),
        "T5ForConditionalGeneration": (tf.T5Config, {"input_ids": ids_of(), "labels": ids_of(40)}),
        "LongT5Model": (tf.LongT5Config, both),
    }  # fmt: skip
    for name, (config, given) in found.items():
        yield name, made(name, config(**T5)), given


def first_of(found):
    """The loss, or the last hidden states of a decoder and its encoder."""
    more = [getattr(found, name, None) for name in ("loss", "last_hidden_state", "logits", "encoder_last_hidden_state")]
    return [x for x in more if x is not None]


def outputs(model, given, grad=False):
    model.zero_grad()
    with torch.set_grad_enabled(grad):
        found = first_of(model(**given))
    if grad:
        sum(x.square().sum() for x in found).backward()
    return [x.detach() for x in found], {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


class Same(OnOneThread, unittest.TestCase):
    def same(self, found, want, near=2e-5):
        (xs, gs), (ys, hs) = found, want
        for x, y in zip(xs, ys):
            torch.testing.assert_close(x, y, atol=near, rtol=near)
        self.assertEqual(gs.keys(), hs.keys())
        for name, g in gs.items():
            torch.testing.assert_close(g, hs[name], atol=10 * near * max(1, float(hs[name].abs().max())), rtol=1e-4, msg=lambda m, name=name: f"{name}: {m}")

    def takes(self, model, given, said):
        """What layers took, one after the other."""
        token = _own._SEEN.set([])
        try:
            with torch.no_grad():
                model(**given)
            return [x.by for x in _own._SEEN.get() if said in x.why or x.by == "hga"]
        finally:
            _own._SEEN.reset(token)


@unittest.skipIf(tf is None or not asks(tf.T5Model) or not has(_positions._COMPUTES), "T5 does not ask for attention by its name in this transformers")
class ByName(Same):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        hga.transformers.register()

    def by(self, name, model, given, grad=False):
        model.set_attn_implementation(name)
        return outputs(model, given, grad)

    def test_outputs_and_all_gradients_are_those_of_eager_attention(self):
        for name, model, given in t5_models():
            for around in (contextlib.nullcontext, at_any_size):
                with self.subTest(name, by=around.__name__), around():
                    want, found = (self.by(way, model, given, grad=True) for way in ("eager", "hga"))
                    self.assertTrue(any("relative_attention_bias" in n and bool(g.any()) for n, g in want[1].items()))
                    self.same(found, want)

    def test_hga_attends_in_encoders_and_decoders(self):
        for name, model, given in t5_models():
            with self.subTest(name), at_any_size():
                model.set_attn_implementation("hga")
                encoder, decoder = 0 if name == "LongT5Model" else 3, 0 if name == "T5EncoderModel" else 3
                self.assertEqual(self.takes(model, given, "no reason").count("hga"), encoder + decoder)

    def test_padding_of_encoders_is_hgas_too(self):
        """Rows of padding included."""
        for name, model, given in t5_models():
            given = {**given, "attention_mask": padded()}
            with self.subTest(name), at_any_size():
                want, found = (self.by(way, model, given, grad=True) for way in ("eager", "hga"))
                self.same(found, want)
                self.assertEqual(self.takes(model, given, "no reason").count("hga"), 3 if name in ("T5EncoderModel", "LongT5Model") else 6)

    def test_padding_of_decoders_and_masks_of_pairs_are_transformers(self):
        model = made("T5Model", tf.T5Config(**T5))
        given = {"input_ids": ids_of(), "decoder_input_ids": ids_of(), "decoder_attention_mask": padded(), "use_cache": False}
        pairs = torch.ones(3, 1, TOKENS, TOKENS, dtype=torch.bool).tril(20)
        for more in (given, {**given, "attention_mask": pairs, "decoder_attention_mask": None}):
            with at_any_size():
                want, found = (self.by(way, model, more, grad=True) for way in ("sdpa", "hga"))
                self.same(found, want)
                self.assertIn("transformers", self.takes(model, more, "a mask of pairs, or of padding"))

    def test_sixteen_bits(self):
        for name in ("T5EncoderModel", "UMT5Model"):
            _, model, given = next(x for x in t5_models() if x[0] == name)
            want, wants = self.by("eager", model, given, grad=True)
            model = model.bfloat16()
            with at_any_size():
                (own, g), (found, h) = (self.by(way, model, given, grad=True) for way in ("eager", "hga"))
            for x, y, z in zip(found, own, want):
                self.assertEqual(x.dtype, torch.bfloat16)
                self.assertLess(float((x - z).abs().mean()), 1.2 * float((y - z).abs().mean()) + 1e-3)
            for n, x in h.items():
                self.assertLess(float((x - wants[n]).norm()), 2 * float((g[n] - wants[n]).norm()) + 0.01 * float(wants[n].norm()), n)

    def test_dropout_is_drawn_and_keeps_the_mean(self):
        model = made("T5EncoderModel", tf.T5Config(**{**T5, "num_layers": 1})).train()
        layer = model.encoder.block[0].layer[0].SelfAttention
        layer.dropout = 0.5
        model.set_attn_implementation("hga")
        with at_any_size(), torch.no_grad():
            drawn = [model(input_ids=ids_of()).last_hidden_state for _ in range(2)]
            self.assertFalse(torch.equal(*drawn))
            x = torch.randn(1, TOKENS, 32)
            mean = sum(layer(x)[0] for _ in range(400)) / 400
            want = layer.eval()(x)[0]
        self.assertLess(float((mean - want).norm() / want.norm()), 0.15)

    def test_checkpoints_of_gradients(self):
        for reentrant in (True, False):
            model = made("T5ForConditionalGeneration", tf.T5Config(**T5))
            given = {"inputs_embeds": model.shared(ids_of()).detach().requires_grad_(), "labels": ids_of()}
            want = self.by("eager", model, given, grad=True)
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            with self.subTest(reentrant=reentrant), at_any_size():
                self.same(self.by("hga", model.train(), given, grad=True), want)

    def test_generation(self):
        model, found = made("T5ForConditionalGeneration", tf.T5Config(**T5)), []
        for way in ("sdpa", "hga"):
            model.set_attn_implementation(way)
            for more in ({}, {"use_cache": False}, {"num_beams": 2}):
                with at_any_size():
                    found.append(model.generate(ids_of(), max_new_tokens=7, do_sample=False, **more).tolist())
        self.assertEqual(found[:3], found[3:])

    def test_prompts_of_decoders_fill_transformers_cache(self):
        model, found = made("T5Model", tf.T5Config(**T5)), []
        prompt, rest = ids_of().split([50, 20], 1)
        for way in ("eager", "hga"):
            model.set_attn_implementation(way)
            with at_any_size(), torch.no_grad():
                first = model(input_ids=ids_of(), decoder_input_ids=prompt, use_cache=True)
                name = cache_argument()
                found.append(model(input_ids=ids_of(), decoder_input_ids=rest, **{name: first[name]}).last_hidden_state)
        torch.testing.assert_close(*found, atol=2e-5, rtol=2e-5)

    def test_weights_are_transformers(self):
        model = made("T5EncoderModel", tf.T5Config(**T5))
        with at_any_size(), torch.no_grad():
            for way in ("sdpa", "hga"):
                model.set_attn_implementation(way)
                found = model(input_ids=ids_of(), output_attentions=True)
                if way == "hga":
                    self.assertEqual([x is None for x in found.attentions or ()], [x is None for x in want.attentions or ()])
                    torch.testing.assert_close(found.last_hidden_state, want.last_hidden_state, atol=2e-5, rtol=2e-5)
                want = found

    def test_parts_by_themselves_and_back_again(self):
        model = made("T5Model", tf.T5Config(**T5))
        given = {"input_ids": ids_of(), "decoder_input_ids": ids_of(), "use_cache": False}
        want = self.by("eager", model, given)
        with at_any_size():
            model.encoder.set_attn_implementation("hga")
            self.assertEqual(self.takes(model, given, "no reason"), ["hga"] * 3)
            self.same(outputs(model, given), want)
            self.same(self.by("sdpa", model, given), want)
            self.same(self.by("hga", model, given), want)
            self.same(self.by("eager", model, given), want)

    def test_a_forward_of_your_own_reads_the_matrix(self):
        shapes = []

        class Mine(type(made("T5EncoderModel", tf.T5Config(**T5)).encoder.block[0].layer[0].SelfAttention)):
            def forward(self, *arguments, **more):
                found = super().forward(*arguments, **more)
                shapes.append(tuple(found[1].shape))
                return found

        model = made("T5EncoderModel", tf.T5Config(**T5))
        want = self.by("eager", model, {"input_ids": ids_of()})
        model.encoder.block[0].layer[0].SelfAttention.__class__ = Mine
        with at_any_size():
            self.same(self.by("hga", model, {"input_ids": ids_of()}), want)
        self.assertEqual(set(shapes), {(1, 4, TOKENS, TOKENS)})

    def test_a_bias_of_your_own_is_transformers(self):
        layer = made("T5EncoderModel", tf.T5Config(**T5)).encoder.block[1].layer[0].SelfAttention
        x, bias, found = torch.randn(2, TOKENS, 32), torch.randn(1, 4, TOKENS, TOKENS), []
        for way in ("eager", "hga"):
            layer.config._attn_implementation = way
            with at_any_size(), torch.no_grad():
                found.append(layer(x, position_bias=bias)[0])
        torch.testing.assert_close(*found, atol=2e-5, rtol=2e-5)

    def test_it_compiles(self):
        model = made("T5EncoderModel", tf.T5Config(**T5))
        want = self.by("eager", model, {"input_ids": ids_of()})[0][0]
        model.set_attn_implementation("hga")
        self.addCleanup(torch._dynamo.reset)
        with at_any_size(), torch.no_grad():
            found = torch.compile(model, backend="eager")(input_ids=ids_of()).last_hidden_state
        torch.testing.assert_close(found, want, atol=2e-5, rtol=2e-5)

    def test_a_layer_that_is_compiled_reads_the_table_of_one_that_is_not(self):
        model = made("T5EncoderModel", tf.T5Config(**T5))
        want = self.by("eager", model, {"input_ids": ids_of()})
        model.encoder.block[1].compile(backend="eager")
        self.addCleanup(torch._dynamo.reset)
        with at_any_size():
            self.same(self.by("hga", model, {"input_ids": ids_of()}), want)

    def test_functional_transforms_are_transformers(self):
        layer = made("T5EncoderModel", tf.T5Config(**T5)).encoder.block[0].layer[0].SelfAttention
        layer.config._attn_implementation = "hga"
        layer.requires_grad_(False)  # sdpa has no gradient of its mask inside of a transform
        x = torch.randn(3, 1, TOKENS, 32)
        with at_any_size():
            want = torch.stack([layer(one)[0] for one in x])
            torch.testing.assert_close(torch.func.vmap(lambda one: layer(one)[0])(x), want, atol=2e-5, rtol=2e-5)
            own = x[0].clone().requires_grad_()
            (want,) = torch.autograd.grad(layer(own)[0].sum(), own)
            torch.testing.assert_close(torch.func.grad(lambda one: layer(one)[0].sum())(x[0]), want, atol=2e-5, rtol=2e-5)

    def test_copies_pickles_and_files(self):
        model = made("T5EncoderModel", tf.T5Config(**T5))
        want = self.by("eager", model, {"input_ids": ids_of()})
        model.set_attn_implementation("hga")
        with at_any_size(), tempfile.TemporaryDirectory() as folder:
            outputs(model, {"input_ids": ids_of()})
            model.save_pretrained(folder)
            read = tf.T5EncoderModel.from_pretrained(folder, attn_implementation="hga")
            self.assertEqual(tf.T5EncoderModel.from_pretrained(folder).config._attn_implementation, "sdpa")
            for one in (read, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                self.assertEqual(self.takes(one, {"input_ids": ids_of()}, "no reason"), ["hga"] * 3)
                self.same(outputs(one, {"input_ids": ids_of()}), want)

    def test_a_pass_says_what_each_layer_takes(self):
        model = made("T5EncoderModel", tf.T5Config(**WIDE))
        model.set_attn_implementation("hga")
        self.assertIn("layers 0-2 of T5Attention: hga: it is faster", hga.transformers.explain(model, 256))
        self.assertIn("layers 0-2 of T5Attention: transformers: 30 tokens are few", hga.transformers.explain(model, 30))
        narrow = made("T5EncoderModel", tf.T5Config(**T5))
        narrow.set_attn_implementation("hga")
        self.assertIn("transformers: 8 columns are few", hga.transformers.explain(narrow, 256))


class Tables(unittest.TestCase):
    @unittest.skipIf(tf is None, "there is no transformers")
    def test_a_table_is_the_matrix(self):
        table = torch.randn(1, 3, 2 * 6 - 1, requires_grad=True)
        found = _positions.pairs_of(table)
        want = torch.stack([torch.stack([table[0, :, j - i + 5] for j in range(6)], -1) for i in range(6)], -2)[None]
        self.assertTrue(torch.equal(found, want))
        self.assertIs(_positions.pairs_of(table), found)
        with torch.no_grad():
            self.assertFalse(_positions.pairs_of(table).requires_grad)
        by = torch.randn_like(want)
        grads = [torch.autograd.grad((x * by).sum(), table)[0] for x in (_positions.pairs_of(table), want)]
        torch.testing.assert_close(*grads)


@unittest.skipIf(tf is None, "there is no transformers")
class InUse(Same):
    """MPNet, which computes its attention by itself."""

    def pair(self, **more):
        theirs = made("MPNetModel", tf.MPNetConfig(**{**MPNET, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, **more}))
        return theirs, hga.transformers.use(copy.deepcopy(theirs))

    def test_outputs_and_all_gradients(self):
        theirs, ours = self.pair()
        for more in ({}, {"attention_mask": padded()}):
            given = {"input_ids": ids_of(), **more}
            for around in (contextlib.nullcontext, at_any_size):
                with self.subTest(padding=bool(more), by=around.__name__), around():
                    want = outputs(theirs.train(), given, grad=True)
                    self.assertTrue(bool(want[1]["encoder.relative_attention_bias.weight"].any()))
                    self.same(outputs(ours.train(), given, grad=True), want)
                    taken = self.takes(ours, given, "few")
                    self.assertEqual(taken, ["hga" if around is at_any_size else "transformers"] * 2)

    def test_sixteen_bits(self):
        theirs, ours = self.pair()
        want = outputs(theirs, {"input_ids": ids_of()})[0][0]
        own = outputs(theirs.bfloat16(), {"input_ids": ids_of()})[0][0]
        with at_any_size():
            found = outputs(ours.bfloat16(), {"input_ids": ids_of()})[0][0]
        self.assertLess(float((found - want).abs().mean()), 1.2 * float((own - want).abs().mean()))

    def test_weights_and_masks_of_heads_are_transformers(self):
        theirs, ours = self.pair()
        with at_any_size(), torch.no_grad():
            want, found = (x(input_ids=ids_of(), output_attentions=True) for x in (theirs, ours))
        for x, y in zip((found[0], *found.attentions), (want[0], *want.attentions)):
            torch.testing.assert_close(x, y, atol=2e-5, rtol=2e-5)
        layer, own = ours.encoder.layer[0].attention.attn, theirs.encoder.layer[0].attention.attn
        if "head_mask" in _parameters(own):
            x, heads = torch.randn(1, TOKENS, 32), torch.tensor([1.0, 0.0, 1.0, 1.0]).view(1, 4, 1, 1)
            with at_any_size(), torch.no_grad():
                want = own(x, None, heads, theirs.encoder.compute_position_bias(x))[0]
                torch.testing.assert_close(layer(x, None, heads, ours.encoder.compute_position_bias(x))[0], want, atol=2e-5, rtol=2e-5)

    def test_layers_of_another_class_read_the_matrix(self):
        theirs, ours = self.pair()
        layer = ours.encoder.layer[1].attention.attn
        layer.__class__ = type("Mine", (type(theirs.encoder.layer[1].attention.attn),), {})
        with at_any_size():
            self.same(outputs(ours, {"input_ids": ids_of()}), outputs(theirs, {"input_ids": ids_of()}))

    def test_copies_pickles_and_files(self):
        theirs, ours = self.pair()
        want = outputs(theirs, {"input_ids": ids_of()})
        with at_any_size(), tempfile.TemporaryDirectory() as folder:
            ours.save_pretrained(folder)
            read = tf.MPNetModel.from_pretrained(folder)
            self.same(outputs(read.eval(), {"input_ids": ids_of()}), want)
            for one in (hga.transformers.use(read), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
                self.assertEqual(self.takes(one, {"input_ids": ids_of()}, "no reason"), ["hga"] * 2)
                self.same(outputs(one, {"input_ids": ids_of()}), want)

    def test_it_compiles(self):
        theirs, ours = self.pair()
        self.addCleanup(torch._dynamo.reset)
        want = outputs(theirs, {"input_ids": ids_of()})[0][0]
        with at_any_size(), torch.no_grad():
            found = torch.compile(ours, backend="eager")(input_ids=ids_of()).last_hidden_state
        torch.testing.assert_close(found, want, atol=2e-5, rtol=2e-5)

    def test_a_pass_says_what_each_layer_takes(self):
        _, ours = self.pair(hidden_size=128, num_attention_heads=2)
        self.assertEqual(hga.transformers.explain(ours, 192), "layers 0-1 of MPNetSelfAttention: hga: it is faster")
        self.assertEqual(hga.transformers.explain(ours, 30), "layers 0-1 of MPNetSelfAttention: transformers: 30 tokens are few")

    def test_by_name_it_is_refused_and_told_of_use(self):
        hga.transformers.register()
        theirs, _ = self.pair()
        if hasattr(theirs, "set_attn_implementation"):
            refused(self, r"hga.transformers.use\(model\) serves its layers", lambda: theirs.set_attn_implementation("hga"))


def _parameters(layer):
    code = type(layer).forward.__code__
    return code.co_varnames[: code.co_argcount]


if __name__ == "__main__":
    unittest.main()
