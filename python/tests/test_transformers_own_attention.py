"""Layers of Longformer, LED and BigBird, which compute their attention by themselves, give by hga what they give in
transformers."""

import copy
import io
import pickle
import unittest

from shared import refused
from since import older

try:
    import torch
    import transformers as tf
except ImportError:
    tf = None

if tf is not None:
    import hga
    import hga.transformers

SMALL = dict(vocab_size=60, max_position_embeddings=130, attention_window=[8, 4])
TOKENS, BATCH = 52, 3


def longformer(**more):
    torch.manual_seed(3)
    config = tf.LongformerConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, initializer_range=0.3,
                                 pad_token_id=1, **SMALL, **more)  # fmt: skip
    return tf.LongformerModel(config, add_pooling_layer=False).eval()


def led(**more):
    torch.manual_seed(4)
    config = tf.LEDConfig(d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                          encoder_ffn_dim=48, decoder_ffn_dim=48, max_encoder_position_embeddings=130, max_decoder_position_embeddings=64,
                          vocab_size=60, attention_window=[8, 4], init_std=0.3, **more)  # fmt: skip
    return tf.LEDModel(config).eval()


def bigbird(attention="block_sparse", longest=260, size=8, each=2, **more):
    torch.manual_seed(5)
    config = tf.BigBirdConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, hidden_act="gelu",
                              initializer_range=0.3, attention_type=attention, block_size=size, num_random_blocks=each, pad_token_id=0,
                              max_position_embeddings=longest, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **more)  # fmt: skip
    return tf.BigBirdModel(config, add_pooling_layer=False).eval()


def inputs(tokens=TOKENS, seed=1):
    torch.manual_seed(seed)
    return torch.randint(5, 60, (BATCH, tokens))


def masks(tokens=TOKENS):
    """Name: (attention_mask, global_attention_mask), None where there is none."""
    ones, none = torch.ones(BATCH, tokens, dtype=torch.long), torch.zeros(BATCH, tokens, dtype=torch.long)
    padded, left, first, scattered, own = ones.clone(), ones.clone(), none.clone(), none.clone(), none.clone()
    padded[0, 40:], padded[2, 17:] = 0, 0
    left[1, :9] = 0
    first[:, 0] = 1
    scattered[:, [0, 1, 7, 20, 21, 22, 35]] = 1
    own[0, :3], own[1, 5], own[1, 11] = 1, 1, 1
    return {
        "neither": (None, None), "padding": (padded, None), "padding to the left": (left, None), "the first": (None, first),
        "the first, padding": (padded, first), "scattered": (ones, scattered), "each its own, padding": (padded, own),
        "each its own, padding to the left": (left, own), "some of padding": (padded, scattered),
    }  # fmt: skip


def as_biases(mask):
    return torch.zeros(mask.shape).masked_fill(mask == 0, float("-inf"))


@unittest.skipIf(tf is None, "torch or transformers is not installed")
class Layers(unittest.TestCase):
    def near(self, a, b, most):
        self.assertLess(float((a - b).detach().abs().max() / b.detach().abs().max().clamp(min=1)), most)

    def test_longformer_is_transformers_own(self):
        theirs, ids = longformer(), inputs()
        ours = hga.transformers.use(copy.deepcopy(theirs))
        for name, (mask, whole) in masks().items():
            with self.subTest(name), torch.no_grad():
                a, b = (m(ids, attention_mask=mask, global_attention_mask=whole).last_hidden_state for m in (ours, theirs))
                self.near(a, b, 1e-5)

    def test_the_encoder_of_led_is_transformers_own(self):
        theirs, ids, to = led(), inputs(), inputs(9, 2)
        ours = hga.transformers.use(copy.deepcopy(theirs))
        for name, (mask, whole) in masks().items():
            with self.subTest(name), torch.no_grad():
                more = dict(attention_mask=mask, global_attention_mask=whole, decoder_input_ids=to)
                a, b = (m(ids, **more) for m in (ours, theirs))
                self.near(a.encoder_last_hidden_state, b.encoder_last_hidden_state, 1e-5)
                self.near(a.last_hidden_state, b.last_hidden_state, 1e-5)

    def test_bigbird_is_transformers_own(self):
        """102 tokens are more than the blocks of a row, 52 are not: layers then attend to all, and stay so."""
        for attention, tokens, training in (("block_sparse", 102, False), ("block_sparse", 102, True), ("block_sparse", 52, False),
                                            ("original_full", 102, False)):  # fmt: skip
            theirs, ids = bigbird(attention), inputs(tokens)
            ours = hga.transformers.use(copy.deepcopy(theirs))
            for name, (mask, _) in masks(tokens).items():
                with self.subTest(f"{attention}, {tokens} tokens, training {training}, {name}"), torch.no_grad():
                    a, b = (m.train(training)(ids, attention_mask=mask).last_hidden_state for m in (ours, theirs))
                    self.near(a, b, 1e-5)
            kinds = {type(x.attention.self).__module__ for x in ours.encoder.layer}
            self.assertEqual(kinds, {"hga.transformers._served"})

    def test_masks_of_every_type_are_transformers_own(self):
        """attention_mask and global_attention_mask as truth values, whole numbers and floats; of every number that means something."""
        types = {"bool": torch.bool, "int32": torch.int32, "bytes": torch.uint8, "float": torch.float32, "half": torch.float16}
        for make, tokens in ((longformer, TOKENS), (led, TOKENS), (bigbird, 102), (lambda: bigbird("original_full"), TOKENS)):
            theirs, ids, (mask, whole) = make(), inputs(tokens), masks(tokens)["each its own, padding"]
            ours, of_birds = hga.transformers.use(copy.deepcopy(theirs)), isinstance(theirs, tf.BigBirdModel)
            given = {name: dict(attention_mask=mask.to(t)) for name, t in types.items()}
            if not of_birds:
                given.update({f"global, {name}": dict(attention_mask=mask, global_attention_mask=whole.to(t)) for name, t in types.items()})
                if not (make is led and older("transformers", "5.0")):  # whose decoder's rows are then not numbers
                    given["five"] = dict(attention_mask=5 * mask)
                given.update({"global, two": dict(attention_mask=mask, global_attention_mask=2 * whole),
                              "both in one": dict(attention_mask=mask * (1 + whole))})  # fmt: skip
            more = dict(decoder_input_ids=inputs(9, 2)) if make is led else {}
            for name, masked in given.items():
                with self.subTest(f"{type(theirs).__name__}, {tokens} tokens, {name}"), torch.no_grad():
                    got = ours(ids, **masked, **more).last_hidden_state
                    as_numbers = masked if not (of_birds and name == "bool") else dict(attention_mask=mask)  # its layers subtract it
                    self.near(got, theirs(ids, **as_numbers, **more).last_hidden_state, 1e-5)

    def test_masks_that_would_be_biases_or_are_of_other_texts_are_refused(self):
        ours, ids, (mask, _) = hga.transformers.use(bigbird()), inputs(102), masks(102)["padding"]
        for given, words in ((5 * mask, "attention_mask holds 5: 1 is a token"), (0.5 * mask, "attention_mask holds 0.5"),
                             (as_biases(mask), "attention_mask holds -inf"), (mask[:2], "attention_mask is of 2 samples")):  # fmt: skip
            with self.assertRaisesRegex(hga.Error, "BigBirdBlockSparseAttention: " + words), torch.no_grad():
                ours(ids, attention_mask=given)
        for make in (longformer, led):
            with self.assertRaisesRegex(hga.Error, r"attention_mask has shape \(3, 16\) .*the tokens \(3, 56\)"), torch.no_grad():
                hga.transformers.use(make())(inputs(), attention_mask=torch.ones(BATCH, 12))

    def test_a_mask_by_query_is_obeyed(self):
        theirs, ids = bigbird("original_full"), inputs(20)
        ours, mask = hga.transformers.use(copy.deepcopy(theirs)), torch.zeros(BATCH, 1, 20, 20)
        mask.masked_fill_(torch.ones(20, 20).triu(1).bool(), torch.finfo(torch.float32).min)
        if older("transformers", "5.0"):  # which makes that of 1 and 0, [batch][queries][keys]
            mask = (mask[:, 0] == 0).float()
        with torch.no_grad():
            self.near(*(m(ids, attention_mask=mask).last_hidden_state for m in (ours, theirs)), 1e-5)

    def test_the_papers_plan_of_bigbird_is_transformers_own(self):
        theirs, ids = bigbird(longest=1024, size=32, each=3).train(), inputs(1024)[:1]
        ours = hga.transformers.use(copy.deepcopy(theirs))
        with torch.no_grad():
            self.near(ours(ids).last_hidden_state, theirs(ids).last_hidden_state, 1e-5)

    def test_a_decoder_of_bigbird_is_as_it_was(self):
        torch.manual_seed(6)
        config = bigbird("original_full").config
        config.is_decoder = True
        model, ids = tf.BigBirdForCausalLM(config).eval(), inputs(20)
        with torch.no_grad():
            want = model(ids).logits
            self.assertTrue(torch.equal(hga.transformers.use(model)(ids).logits, want))

    def test_gradients_are_transformers_own(self):
        for make, tokens in ((longformer, TOKENS), (led, TOKENS), (bigbird, 102), (lambda: bigbird("original_full"), TOKENS)):
            theirs, ids, (mask, whole) = make(), inputs(tokens), masks(tokens)["each its own, padding"]
            theirs.train(make is bigbird)  # whose plan is then drawn, head by head
            ours = hga.transformers.use(copy.deepcopy(theirs))
            grads = []
            more = {} if isinstance(theirs, tf.BigBirdModel) else dict(global_attention_mask=whole)
            if make is led:
                more["decoder_input_ids"] = inputs(9, 2)
            for m in (ours, theirs):
                y = m(ids, attention_mask=mask, **more).last_hidden_state
                y = y if make is led else y[mask.bool()]
                torch.manual_seed(9)
                (y * torch.randn_like(y)).sum().backward()
                grads.append({n: p.grad for n, p in m.named_parameters()})
            for name, g in grads[1].items():
                with self.subTest(f"{make.__name__}, {name}"):
                    self.assertEqual(g is None, grads[0][name] is None)
                    if g is not None:
                        self.near(grads[0][name], g, 1e-4)

    def test_weights_stay_and_models_are_copied_written_and_read(self):
        theirs, ids = longformer(), inputs()
        before = {n: x.data_ptr() for n, x in theirs.named_parameters()}
        ours = hga.transformers.use(theirs)
        self.assertIs(ours, theirs)
        self.assertEqual({n: x.data_ptr() for n, x in ours.named_parameters()}, before)
        with torch.no_grad():
            want = ours(ids).last_hidden_state
            for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
                self.assertEqual(type(again.encoder.layer[0].attention.self).__module__, "hga.transformers._served")
                self.assertTrue(torch.equal(again(ids).last_hidden_state, want))
            file = io.BytesIO()
            torch.save(ours.state_dict(), file)
            plain = longformer()
            file.seek(0)
            plain.load_state_dict(torch.load(file))
            self.near(plain(ids).last_hidden_state, want, 1e-5)

    def test_training_drops_weights(self):
        ours, ids = hga.transformers.use(longformer(attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0)), inputs()
        with torch.no_grad():
            a = ours.eval()(ids).last_hidden_state
            ours.train()
            torch.manual_seed(1)
            b, c = ours(ids).last_hidden_state, ours(ids).last_hidden_state
            torch.manual_seed(1)
            self.assertTrue(torch.equal(ours(ids).last_hidden_state, b))
        self.assertFalse(torch.equal(a, b) or torch.equal(b, c))

    def test_refusals_are_clear(self):
        with self.assertRaisesRegex(hga.Error, "LongformerSelfAttention: output_attentions=True"):
            hga.transformers.use(longformer())(inputs(), output_attentions=True)
        for attention in ("block_sparse", "original_full"):
            with self.assertRaisesRegex(hga.Error, "BigBird[A-Za-z]*Attention: output_attentions=True"):
                hga.transformers.use(bigbird(attention))(inputs(102), output_attentions=True)
        bert = tf.BertModel(tf.BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48))
        refused(self, "model is a NoneType, not a model of transformers", lambda: hga.transformers.use(None))
        refused(self, "BertModel has no layer of Longformer, LED, BigBird, MPNet, Bloom or Falcon", lambda: hga.transformers.use(bert))
        hga.transformers.register()
        with self.assertRaisesRegex(ValueError, r"hga.transformers.use\(model\) serves its layers"):
            longformer().set_attn_implementation("hga:dense")
