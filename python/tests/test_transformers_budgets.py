"""Numbers of keys by head: what ``calibrate`` finds is what its definition says, and files of it attend as the numbers that they hold."""

import copy
import itertools
import json
import os
import re
import tempfile
import unittest
import unittest.mock

import hga
import numpy as np
from shared import OnOneThread, refused
from since import older

try:
    import torch
    import transformers as tf
    import hga.transformers
    from hga._core.releases import cache_argument
    from hga._graphs.settings import values_of
    from hga._graphs.shares import blocks_of
    from hga._graphs.spec import spec_of
    from hga.transformers._calibrate import divide
except ImportError:
    tf = None

BLOCK, AT_ONCE = 8, 8
WORDS = f"routed:block={BLOCK}:prefill={AT_ONCE}"
TEXT = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, vocab_size=90,
            max_position_embeddings=1024, pad_token_id=1, bos_token_id=2, eos_token_id=3)  # fmt: skip
MODELS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", TEXT),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=90, n_positions=512, bos_token_id=2, eos_token_id=3)),
    "Gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(TEXT, head_dim=8, attn_logit_softcapping=0.5, sliding_window=40)),
}
PIECES, ROWS, N = 3, 16, 320


def made(name="Llama", **more):
    model, config, numbers = MODELS[name]
    torch.manual_seed(8)
    c = getattr(tf, config)(**{**numbers, **more})
    for dropout in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        setattr(c, dropout, 0.0)
    m = getattr(tf, model)._from_config(c, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in m.parameters():  # heads that look at something
            p.mul_(3 if p.dim() > 1 else 1)
    return m


def ids_of(n=N, seed=3):
    return torch.randint(4, 90, (n,), generator=torch.Generator().manual_seed(seed))


SEEN = []


def plain(module, query, key, value, attention_mask=None, scaling=None, softcap=None, dropout=0.0, sliding_window=None, **more):
    """Dense attention in double, whose tensors are seen."""
    q, k, v = (x.double() for x in (query, key, value))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * (scaling or q.shape[-1] ** -0.5)
    s = softcap * torch.tanh(s / softcap) if softcap else s
    back = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    s = s.masked_fill((back < 0) | (back >= (sliding_window or q.shape[2])), -torch.inf)
    p = torch.softmax(s, -1)
    out = (p @ v).to(value.dtype).requires_grad_()
    out.retain_grad()
    SEEN.append((query[0].detach(), key[0].detach(), v[0].detach(), s[0].detach(), out, sliding_window))
    return out.transpose(1, 2), None


def errors_by_definition(m, ids, b, share="head"):
    """[layers][choosers][candidates]: the whole text at once, with gradients of the pieces' losses."""
    m = copy.deepcopy(m)
    tf.AttentionInterface.register("plain", plain)
    m.set_attn_implementation("plain")
    del SEEN[:]
    logits = m(input_ids=ids[None], use_cache=False).logits[0]
    rows = torch.cat([torch.arange(a, a + ROWS) for a in b["made_of"]["pieces"]])
    each = []
    for a in b["made_of"]["pieces"]:  # a piece's keys before it are held
        for *_, out, _ in SEEN:
            out.grad = None
        own = torch.arange(a, a + ROWS)
        torch.nn.functional.cross_entropy(logits[own].float(), ids[own + 1], reduction="sum").backward(retain_graph=True)
        each.append([out.grad[0, :, own].double() for *_, out, _ in SEEN])
    found = []
    for layer, (q, k, v, s, out, window) in enumerate(SEEN):
        if window:
            continue
        g = torch.cat([own[layer] for own in each], 1)
        of_layer = []
        for candidate in b["candidates"]:
            h = hga.build(f"{WORDS}:share={share}:k={candidate['k']}:causal=1", len(ids))
            table = h.choice(q, k, scale=(getattr(m.config, "query_pre_attn_scalar", None) or q.shape[-1]) ** -0.5)
            seen = torch.zeros(s.shape, dtype=torch.bool)
            for head, t in itertools.product(range(len(s)), range(len(ids))):
                for j in table[head * len(table) // len(s), t // AT_ONCE]:
                    seen[head, t, j * BLOCK : (j + 1) * BLOCK] |= bool(j >= 0)
            own = torch.softmax(s.masked_fill(~seen, -torch.inf), -1) @ v
            change = (g * (own[:, rows] - out[0, :, rows].detach())).sum(-1) ** 2
            of_layer.append(change.mean(1).reshape(len(table), -1).sum(1))
        found.append(torch.stack(of_layer, 1))
    return torch.stack(found)


@unittest.skipUnless(tf and not older("transformers", "4.56"), "transformers is not installed, or older than 4.56")
class Budgets(OnOneThread, unittest.TestCase):
    def setUp(self):
        super().setUp()
        hga.transformers.register()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "b.json")

    def calibrated(self, m, **more):
        return hga.transformers.calibrate(m, ids_of(), path=self.path, pieces=PIECES, rows=ROWS, **{"attention": WORDS, "keys": 0.4, **more})

    def test_errors_are_those_of_the_definition(self):
        for name, share in (("Llama", "head"), ("Llama", "group"), ("GPT-2", "all"), ("Gemma2", "head")):
            m = made(name)
            b = self.calibrated(m, attention=f"{WORDS}:share={share}")
            want = errors_by_definition(m, ids_of(), b, share)
            # pieces see the keys before them as they are: their gradient goes no other way
            np.testing.assert_allclose(np.array(b["errors"]), want.numpy(), rtol=2e-3, atol=1e-4 * float(want.max()), err_msg=f"{name} {share}")
            self.assertGreater(float(want.max()), 0)

    def test_no_division_of_as_many_keys_errs_less(self):
        rng = np.random.default_rng(4)
        for _ in range(20):
            errors, costs = torch.tensor(np.sort(rng.random((2, 3, 4)))[:, :, ::-1].copy()), torch.tensor([10.0, 25.0, 60.0, 100.0], dtype=torch.float64)
            pick = divide(errors, costs, 45.0)
            total, cost = float(errors.gather(-1, pick[..., None]).sum()), float(costs[pick].mean())
            self.assertLessEqual(cost, 45)
            every = torch.tensor(list(itertools.product(range(4), repeat=6)))
            sums = errors.reshape(6, 4)[torch.arange(6), every].sum(1)
            self.assertGreaterEqual(float(sums[costs[every].mean(1) <= cost + 1e-9].min()), total - 1e-12)

    def test_calls_by_the_file_are_calls_with_its_numbers(self):
        for name, share in (("Llama", "head"), ("Gemma2", "group")):
            m, words = made(name), f"{WORDS}:share={share}"
            b = self.calibrated(m, attention=words)
            self.assertGreater(len({s for layer in b["shares"] for s in layer}), 1)
            with open(self.path) as file:
                self.assertEqual(json.load(file), b)
            for n in (300, 77):
                m.set_attn_implementation(f"hga:{words}:budgets=@{self.path}")
                found = m(input_ids=ids_of(n)[None], use_cache=False).logits
                settings = values_of(spec_of(words).settings)
                ks = [",".join(map(str, blocks_of(own, n, settings))) for own in b["shares"]]
                for k, own in zip(ks, b["shares"]):
                    want = [max(3, -(-round(s * 64) * -(-n // BLOCK) // 64)) for s in own]
                    self.assertEqual(k, ",".join(map(str, want)))
                m.set_attn_implementation(hga.transformers.by_layer({i: f"hga:{words}:k={k}" for i, k in enumerate(ks)}, "hga:dense"))
                self.assertTrue(torch.equal(m(input_ids=ids_of(n)[None], use_cache=False).logits, found), (name, n))
            m.set_attn_implementation(hga.transformers.by_layer({0: "hga:dense"}, f"hga:{words}:budgets=@{self.path}"))
            mixed = m(input_ids=ids_of(77)[None], use_cache=False).logits
            m.set_attn_implementation(hga.transformers.by_layer({0: "hga:dense", **{i: f"hga:{words}:k={k}" for i, k in enumerate(ks) if i}}, "hga:dense"))
            self.assertTrue(torch.equal(m(input_ids=ids_of(77)[None], use_cache=False).logits, mixed))

    def test_a_compiled_model_needs_no_call_before(self):
        m = made()
        self.calibrated(m)
        m.set_attn_implementation(f"hga:{WORDS}:budgets=@{self.path}")
        self.addCleanup(torch._dynamo.reset)
        with torch.no_grad():
            found = torch.compile(m, backend="eager")(ids_of()[None], use_cache=False).logits
            torch.testing.assert_close(found, m(ids_of()[None], use_cache=False).logits, rtol=1e-5, atol=1e-5)

    def test_a_share_of_all_is_dense(self):
        m = made()
        hga.transformers.calibrate(m, ids_of(), keys=1, path=self.path, pieces=PIECES, rows=ROWS, attention=WORDS)
        m.set_attn_implementation(f"hga:{WORDS}:budgets=@{self.path}")
        found = m(input_ids=ids_of(100)[None], use_cache=False).logits
        m.set_attn_implementation("hga:dense")
        torch.testing.assert_close(found, m(input_ids=ids_of(100)[None], use_cache=False).logits, rtol=0, atol=1e-4)

    def test_texts_with_padding_have_the_numbers_of_their_own_length(self):
        m = made()
        self.calibrated(m)
        m.set_attn_implementation(f"hga:{WORDS}:budgets=@{self.path}")
        a, b = ids_of(200), ids_of(70, 5)
        both = torch.stack([a, torch.cat([b.new_full((130,), 1), b])])
        mask = (torch.arange(200) >= torch.tensor([[0], [130]])).long()
        found = m(input_ids=both, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0), use_cache=False).logits
        torch.testing.assert_close(found[0], m(input_ids=a[None], use_cache=False).logits[0], rtol=0, atol=1e-4)
        torch.testing.assert_close(found[1, 130:], m(input_ids=b[None], use_cache=False).logits[0], rtol=0, atol=1e-4)

    def test_decoders_take_their_capacity_for_the_length(self):
        m, tokens = made(), 160
        b = self.calibrated(m)
        settings = values_of(spec_of(WORDS).settings)
        names = f"hga:{WORDS}:budgets=@{self.path}", hga.transformers.by_layer(
            {i: f"hga:{WORDS}:k={','.join(map(str, blocks_of(own, tokens, settings)))}" for i, own in enumerate(b["shares"])}, "hga:dense")  # fmt: skip
        found = []
        for name in names:
            m.set_attn_implementation(name)
            cache = hga.transformers.Cache(tokens)
            with torch.no_grad():
                parts = [m(input_ids=ids_of()[None, a:e], **{cache_argument(): cache}).logits for a, e in ((0, 90), (90, 91), (91, 130))]
            found.append(torch.cat(parts, 1))
        self.assertTrue(torch.equal(*found))
        m.set_attn_implementation(names[0])
        self.assertEqual(m.generate(ids_of(40)[None], max_new_tokens=5, do_sample=False).shape, (1, 45))

    def test_the_model_is_as_it_was(self):
        m = made().train()
        m.get_input_embeddings().weight.requires_grad_(False)
        before = {n: (p.requires_grad, p.detach().clone()) for n, p in m.named_parameters()}
        self.calibrated(m)
        refused(self, "do not fit", lambda: hga.transformers.calibrate(m, ids_of(60), pieces=4, rows=64))
        self.assertTrue(m.training and m.model.layers[0].training)
        self.assertEqual(m.config._attn_implementation, "eager")
        for n, p in m.named_parameters():
            self.assertEqual((p.requires_grad, p.grad), (before[n][0], None))
            self.assertTrue(torch.equal(p, before[n][1]))

    def test_another_models_file_is_refused(self):
        self.calibrated(made())
        name = f"hga:{WORDS}:budgets=@{self.path}"
        for says, other in (
            ("whose num_hidden_layers is 3; the model's is 2", made(num_hidden_layers=2)),
            ("whose num_key_value_heads is 2; the model's is 4", made(num_key_value_heads=4)),
            ("whose model_type is llama; the model's is gpt2", made("GPT-2")),
        ):
            refused(self, says, lambda other=other: other.set_attn_implementation(name))
            refused(self, says, lambda other=other: other.set_attn_implementation(hga.transformers.by_layer({0: "hga:dense"}, name)))

    def test_wrong_files_and_words_are_named(self):
        m = made()
        self.calibrated(m)
        bad = os.path.join(self.folder.name, "bad.json")
        with open(bad, "w") as file:
            file.write('{"format": "hga-graph", "schema": 1}')
        for says, name in (
            (f"budgets=@{os.path.abspath('none.json')}: No such file", f"{WORDS}:budgets=@none.json"),
            (f"budgets=@{bad}: no file of hga.transformers.calibrate", f"{WORDS}:budgets=@{bad}"),
            ("block is 16, and the file's budgets are of block=8", f"routed:block=16:budgets=@{self.path}"),
            ("share is all, and the file's budgets are of share=head", f"{WORDS}:share=all:budgets=@{self.path}"),
            ("budgets are of routed, instead of k and threshold", f"{WORDS}:k=4:budgets=@{self.path}"),
            ("budgets are of routed", f"dense:budgets=@{self.path}"), ("budgets are without coarse", f"{WORDS}:coarse=32:budgets=@{self.path}"),
            ("budgets=@FILE, once", f"{WORDS}:budgets={self.path}"),
        ):  # fmt: skip
            refused(self, re.escape(says), lambda name=name: m.set_attn_implementation(f"hga:{name}"))
        ids = ids_of()
        for says, wrong in (
            ("keys is 0; it must be above 0", dict(keys=0)), ("attention is 'dense'", dict(attention="dense")),
            ("attention is 'routed:k=4'", dict(attention="routed:k=4")), ("shares are [0.5]", dict(shares=(0.5,))),
            ("the fewest blocks are already", dict(keys=0.01)),
        ):  # fmt: skip
            refused(self, re.escape(says), lambda wrong=wrong: hga.transformers.calibrate(m, ids, **{"attention": WORDS, "pieces": 2, "rows": 16, **wrong}))
        refused(self, "calibrate has no kyes=: did you mean 'keys'", lambda: hga.transformers.calibrate(m, ids, kyes=0.5))
        refused(self, "one text is needed", lambda: hga.transformers.calibrate(m, ids.view(2, -1)))
        with self.assertRaisesRegex(TypeError, "model is a dict"):
            hga.transformers.calibrate({}, ids)

    def test_a_pass_outlives_the_file_that_the_model_attends_by(self):
        m, name = made(), f"hga:{WORDS}:budgets=@{self.path}"
        self.calibrated(m)
        m.set_attn_implementation(name)
        found = m(input_ids=ids_of(100)[None], use_cache=False).logits
        other = made(num_key_value_heads=4)
        self.calibrated(other, keys=0.2)
        other.set_attn_implementation(name)
        self.assertTrue(torch.equal(m(input_ids=ids_of(100)[None], use_cache=False).logits, found))
        os.remove(self.path)
        self.assertTrue(hga.transformers.calibrate(m, ids_of(), keys=0.4, pieces=2, rows=ROWS, attention=WORDS)["shares"])
        self.assertEqual(m.config._attn_implementation, name)
        self.assertTrue(all(p.requires_grad for p in m.parameters()))

    def test_files_by_paths_of_a_folder(self):
        m, before = made(), os.getcwd()
        self.calibrated(m)
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder.name)
        m.set_attn_implementation(f"hga:{WORDS}:budgets=@b.json")
        os.chdir(before)
        self.assertEqual(m.config._attn_implementation, f"hga:{WORDS}:budgets=@{os.path.realpath(self.path)}")
        m(input_ids=ids_of(100)[None], use_cache=False)
        with unittest.mock.patch.dict(os.environ, HOME=self.folder.name):
            m.set_attn_implementation(f"hga:{WORDS}:budgets=@~/b.json")

    def test_a_decoder_beside_another_model(self):
        vision = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, image_size=28, patch_size=14)
        text = dict(TEXT, head_dim=8, sliding_window=40, layer_types=["full_attention", "sliding_attention", "full_attention"])
        c = tf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=89)
        m = tf.Gemma3ForConditionalGeneration._from_config(c, attn_implementation={"text_config": "sdpa", "vision_config": "eager"}).eval()
        before = [x._attn_implementation for x in (m.config, m.config.text_config, m.config.vision_config)]
        self.calibrated(m)
        self.assertEqual([x._attn_implementation for x in (m.config, m.config.text_config, m.config.vision_config)], before)
        m.set_attn_implementation(f"hga:{WORDS}:budgets=@{self.path}")
        ids = ids_of(60)[None].clamp(max=80)
        ids[0, 10:14] = 89
        self.assertEqual(m(input_ids=ids, pixel_values=torch.ones(1, 3, 28, 28), use_cache=False).logits.shape, (1, 60, 90))

    def test_ids_and_numbers_of_any_type(self):
        m, more = made(), dict(pieces=2, rows=ROWS, attention=WORDS)
        want = hga.transformers.calibrate(m, ids_of(), keys=0.5, **more)
        for ids, keys in ((ids_of().numpy().astype(np.int32), np.float32(0.5)), (ids_of().to(torch.uint8), torch.tensor(0.5))):
            self.assertEqual(json.dumps(hga.transformers.calibrate(m, ids, keys=keys, **more)), json.dumps(want))
        with torch.inference_mode():
            self.assertEqual(hga.transformers.calibrate(m, ids_of(), keys=0.5, **more), want)
            other = made()
        refused(self, "inference_mode", lambda: hga.transformers.calibrate(other, ids_of(), **more))

    def test_what_cannot_be_calibrated_is_refused_before_the_pass(self):
        m, folder = made(), self.folder.name
        for says, wrong in (
            ("keys is None", dict(keys=None)), ("keys is '0.25'", dict(keys="0.25")), ("shares is None", dict(shares=None)),
            ("attention is None", dict(attention=None)),
            ("file 5 is not a file name", dict(path=5)), ("no file can be written", dict(path=f"{folder}/no/b.json")), ("no file can be written", dict(path=folder)),
            ("cannot have a colon", dict(path=f"{folder}/a:b")), ("coarse", dict(attention=f"{WORDS}:coarse=1")),
        ):  # fmt: skip
            with unittest.mock.patch.object(type(m), "forward", side_effect=AssertionError):
                refused(self, says, lambda wrong=wrong: hga.transformers.calibrate(m, ids_of(), **{"attention": WORDS, "pieces": 2, "rows": 16, **wrong}))
        hidden = {"input_ids": ids_of()[None], "attention_mask": (torch.arange(N)[None] > 3).long()}
        refused(self, "attention_mask hides", lambda: hga.transformers.calibrate(m, hidden, attention=WORDS))
        bert = tf.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, vocab_size=90)
        for other in (tf.BertForMaskedLM(bert), m.model):  # BERT is not served by transformers before 5
            says = "a causal language model is needed|in BertForMaskedLM needs transformers 5.0"
            refused(self, says, lambda other=other: hga.transformers.calibrate(other, ids_of(), pieces=2, rows=16, keys=0.4))
        self.calibrated(m)
        with unittest.mock.patch("json.dump", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            self.calibrated(m)
        self.assertEqual(os.listdir(folder), ["b.json"])

    def test_a_window_as_long_as_the_text_hides_nothing(self):
        m = tf.MistralForCausalLM(tf.MistralConfig(**TEXT, sliding_window=N)).eval()
        self.assertEqual(self.calibrated(m)["calibrated_layers"], [0, 1, 2])
        m = tf.MistralForCausalLM(tf.MistralConfig(**TEXT, sliding_window=N - 1)).eval()
        refused(self, "all layers of MistralForCausalLM slide", lambda: self.calibrated(m))

    def test_broken_files_are_named(self):
        m = made()
        b = self.calibrated(m)
        for says, breaks in (
            ("KeyError: 'config'", lambda x: x["model"].pop("config")), ("KeyError: 'name'", lambda x: x["model"].pop("name")),
            ("block is inf", lambda x: x.update(block=float("inf"))),
            ("shares of 2 layers, and the model has 3", lambda x: x["shares"].pop()), ("different numbers of shares", lambda x: x["shares"][1].pop()),
            ("3 shares in a layer of 4 heads", lambda x: [row.pop() for row in x["shares"]]),
        ):  # fmt: skip
            broken = copy.deepcopy(b)
            breaks(broken)
            with open(self.path, "w") as file:
                json.dump(broken, file)
            refused(self, f"{re.escape(self.path)}.*{says}", lambda: m.set_attn_implementation(f"hga:{WORDS}:budgets=@{self.path}"))

    def test_shares_in_words(self):
        h = hga.build("routed:block=8:k-shares=0.5,1,0.01,0.3:causal=1", 100)
        self.assertEqual(h, hga.routed(100, block=8, k=[7, 13, 3, 4], causal=True))
        for says, words in (
            ("k-shares: 2 is not a share", "routed:k-shares=2"), ("k-shares is '0.5,x'", "routed:k-shares=0.5,x"),
            ("k-shares are of routed", "routed:k-shares=0.5:k=3"), ("k-shares are of routed", "window:k-shares=0.5"),
            ("k-shares is given twice", "routed:k-shares=0.5:k-shares=0.5"),
        ):  # fmt: skip
            refused(self, re.escape(says), lambda words=words: hga.build(words, 100))


if __name__ == "__main__":
    unittest.main()
