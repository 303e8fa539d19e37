"""Every architecture of transformers that runs by hga's dense attention gives what its own gives: with padding, packed,
in bf16, compiled, trained and as it is; what is refused, and why."""

import unittest
import warnings
from unittest import mock

import hga
from architectures import kinds
from shared import OnOneThread, refused
from since import older, since

try:
    import torch
    import transformers as tf
    from hga.transformers import _attention, _masks, _models
    from hga.torch import _ragged
    from hga._core.releases import cache_argument
except ImportError:
    tf = None

N = 22
TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=90, pad_token_id=1,
            bos_token_id=2, eos_token_id=3, max_position_embeddings=64)  # fmt: skip
GROUPED = dict(num_key_value_heads=2, **TEXT)
GPT = dict(n_embd=32, n_layer=2, n_head=4, vocab_size=90, n_positions=64, bos_token_id=2, eos_token_id=3)

# name: (model, configuration, its numbers, is it causal)
TEXTS = {
    "BERT": ("BertForMaskedLM", "BertConfig", TEXT, False),
    "RoBERTa": ("RobertaForMaskedLM", "RobertaConfig", TEXT, False),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", GPT, True),
    "Llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, True),
    "Mistral": ("MistralForCausalLM", "MistralConfig", dict(sliding_window=N + 8, **GROUPED), True),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED, True),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(head_dim=8, **GROUPED), True),
}
# What caps scores, and what has sinks; their own attention is eager.
MODIFIED = {
    "Gemma2": (
        "Gemma2ForCausalLM", "Gemma2Config",
        dict(head_dim=8, attn_logit_softcapping=0.5, final_logit_softcapping=None, sliding_window=N + 8, **GROUPED), True,
    ),  # fmt: skip
    "GPT-OSS": (
        "GptOssForCausalLM", "GptOssConfig",
        dict(head_dim=8, num_local_experts=2, num_experts_per_tok=1, sliding_window=N + 8, **GROUPED), True,
    ),  # fmt: skip
}
if older("transformers", "5.0"):  # whose BERT attends by itself
    del TEXTS["BERT"], TEXTS["RoBERTa"]
if older("transformers", "4.55"):
    del MODIFIED["GPT-OSS"]
IMAGE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4)


def made(model, config, numbers, dropout=0.0, **more):
    torch.manual_seed(8)
    c = getattr(tf, config)(**numbers)
    for name in ("hidden_dropout_prob", "resid_pdrop", "embd_pdrop"):
        setattr(c, name, 0.0)
    for name in ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"):
        setattr(c, name, dropout)
    return getattr(tf, model)._from_config(c, **more).eval()


def floats(seen):
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def numbers_of(*lengths):
    return torch.cat([torch.full((n,), i + 1) for i, n in enumerate(lengths)])


def side_by_side(number, causal):
    same = number[:, None] == number[None, :]
    return (same.tril() if causal else same)[None, None]


def logits(model, **inputs):
    found = model(**inputs)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


def both(model, run, ours="hga:dense"):
    """What a model's own attention and hga's give."""
    found = []
    for name in ("sdpa", ours):
        model.set_attn_implementation(name)
        found.append(run())
    return found


def each(causal=None, **options):
    """A test for every architecture of texts (or those that are causal): the model, whether it is, what it takes besides."""

    def wrapped(test):
        def run(self):
            for name, (model, config, numbers, is_causal) in TEXTS.items():
                if causal is None or causal == is_causal:
                    with self.subTest(name):
                        more = dict(use_cache=False) if is_causal else {}
                        test(self, made(model, config, numbers, **options), is_causal, more)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return wrapped


class Registered(OnOneThread):
    """Models that attend by hga."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tf.utils.logging.set_verbosity_error()
        hga.transformers.register()


@unittest.skipIf(tf is None, "torch or transformers is not installed")
class Models(Registered):
    def setUp(self):
        torch.manual_seed(2)
        self.ids = torch.randint(4, 90, (3, N))
        self.padding = torch.ones(3, N, dtype=torch.long)
        self.padding[1, 15:], self.padding[2, :9] = 0, 0  # on either side

    def near(self, pair, rows=None, within=1e-5):
        a, b = (x.detach() if rows is None else x.detach()[rows.bool()] for x in pair)
        self.assertGreater(float(a.abs().max()), 0)
        self.assertLess(float((a - b).abs().max()), within)

    # ---- the same numbers ----

    @each()
    def test_dense_attention_is_the_models_own(self, model, causal, more):
        with torch.no_grad():
            self.near(both(model, lambda: logits(model, input_ids=self.ids, **more)))
            self.near(both(model, lambda: logits(model, input_ids=self.ids)))  # a cache that is filled is in nobody's way
    def test_dense_attention_is_an_image_models_own(self):
        with torch.no_grad():
            model, x = made("ViTModel", "ViTConfig", IMAGE), torch.randn(2, 3, 16, 16)
            self.near(both(model, lambda: logits(model, pixel_values=x)))

    def test_softcaps_and_sinks_are_the_models_own(self):
        for name, (model, config, numbers, _) in MODIFIED.items():
            with self.subTest(name):
                m = made(model, config, numbers)
                if name == "GPT-OSS":
                    for layer in m.model.layers:
                        torch.nn.init.normal_(layer.self_attn.sinks)
                found = []
                for own in ("eager", "hga:dense"):
                    m.set_attn_implementation(own)
                    m.zero_grad()
                    out = logits(m, input_ids=self.ids, attention_mask=self.padding, use_cache=False)
                    out[self.padding.bool()].pow(2).mean().backward()
                    found.append((out, {n: p.grad.clone() for n, p in m.named_parameters() if "self_attn" in n}))
                (a, da), (b, db) = found
                self.near((a, b), self.padding)
                self.assertEqual(any("sinks" in n for n in da), name == "GPT-OSS")
                for n, d in da.items():
                    self.assertLess(float((d - db[n]).abs().max()), 1e-5 * max(1, float(d.abs().max())), n)

    @each()
    def test_padding_on_either_side_is_left_out(self, model, causal, more):
        with torch.no_grad():
            run = lambda: logits(model, input_ids=self.ids, attention_mask=self.padding, **more)  # noqa: E731
            self.near(both(model, run), self.padding)

    @since("transformers", "4.54")
    @each(causal=True)
    def test_texts_packed_by_position_are_kept_apart(self, model, causal, more):
        """position_ids that begin anew; models that are not causal know no such texts."""
        at = torch.stack([torch.cat([torch.arange(n) for n in lengths]) for lengths in ((9, 13), (N,), (1, 20, 1))])
        run = lambda: logits(model, input_ids=self.ids, position_ids=at, **more)  # noqa: E731
        with torch.no_grad():
            pair = both(model, run)
            self.near(pair)
            self.assertGreater(float((pair[1] - logits(model, input_ids=self.ids, **more)).abs().max()), 1e-3)
            with mock.patch.object(_masks, "packed_documents", lambda *_: None):  # every pair asked for
                self.assertTrue(torch.equal(run(), pair[1]))

    @since("transformers", "4.54")
    def test_this_transformers_tells_packed_texts_without_asking_for_every_pair(self):
        model = made(*TEXTS["Llama"][:3], attn_implementation="hga:dense")
        found, inner = [], _masks.packed_documents
        keep = lambda *x: found.append(inner(*x)) or found[-1]  # noqa: E731
        with mock.patch.object(_masks, "packed_documents", keep), torch.no_grad():
            at = torch.cat([torch.arange(9), torch.arange(13)])[None]
            model(self.ids[:1], position_ids=at, use_cache=False)
        self.assertEqual([x.number.tolist() for x in found], [[[1] * 9 + [2] * 13]])

    @each()
    def test_texts_packed_by_a_mask_of_pairs_are_kept_apart(self, model, causal, more):
        number = numbers_of(9, 4, 9)
        seen = side_by_side(number, causal)
        for mask in (seen, floats(seen), seen.expand(3, 1, N, N), floats(seen).expand(3, 4, N, N)):
            run = lambda: logits(model, input_ids=self.ids, attention_mask=mask, **more)  # noqa: E731
            with torch.no_grad():
                self.near(both(model, run))

    def masks(self, causal):
        """Of every type, which all say what self.padding says: of tokens, and of pairs."""
        there = self.padding.bool()
        pairs = (there[:, None, :] & torch.ones(N, N, dtype=torch.bool).tril(0 if causal else N)[None])[:, None]
        never = torch.zeros(pairs.shape).masked_fill(~pairs, float("-inf"))
        of_tokens = {str(t): there.to(t) for t in (torch.bool, torch.int64, torch.int32, torch.uint8, torch.float32, torch.float16, torch.bfloat16)}
        return {**of_tokens, "5 of a token": 5 * self.padding, "0.5 of a token": 0.5 * self.padding,
                "pairs, bool": pairs, "pairs, by head": pairs.expand(3, 4, N, N), "pairs, -inf": never, "pairs, the least number": floats(pairs),
                "pairs, -1e9": never.clamp(min=-1e9), "pairs, -1e4": never.clamp(min=-1e4)}  # fmt: skip

    @each()
    def test_masks_of_every_type_are_the_models_own(self, model, causal, more):
        for name, mask in self.masks(causal).items():
            with self.subTest(mask=name), torch.no_grad():
                self.near(both(model, lambda: logits(model, input_ids=self.ids, attention_mask=mask, **more)), self.padding)  # noqa: B023

    @each()
    def test_masks_of_other_types_and_shapes_are_refused_by_name(self, model, causal, more):
        there = self.padding.bool()
        pairs = self.masks(causal)["pairs, bool"]
        model.set_attn_implementation("hga:dense")
        for mask, words in (
            (pairs.long(), "mask of pairs has type torch.int64, neither bool nor float"), (pairs.byte(), "mask of pairs has type torch.uint8"),
            (pairs.float(), "the mask adds 1 to the score of token 0 for token 0.*score_mod"),
            (torch.full(pairs.shape, float("nan")), "the mask adds nan"), (pairs.expand(3, 3, N, N), r"shape \(3, 3, 22, 22\).*3 samples of 22 tokens, in 4 heads"),
            (pairs[:2], r"shape \(2, 1, 22, 22\)"), (pairs[..., :10], r"shape \(3, 1, 22, 10\)"), (pairs[:, :, :10, :10], r"shape \(3, 1, 10, 10\)"),
            *(() if older("transformers", "5") else (
                (there[:, :10], r"shape \(3, 1, 22, 10\)|shape \(3, 10\)"), (torch.cat([there, there], 1), r"shape \(3, 1, (22|1|3), 44\)"))),
        ):  # fmt: skip
            with self.subTest(words), self.assertRaisesRegex(hga.Error, words), torch.no_grad():
                logits(model, input_ids=self.ids, attention_mask=mask, **more)
        if not isinstance(model, tf.GPT2LMHeadModel):  # which cuts it by its batch itself
            for mask in (there[:2], there[0]):
                with self.assertRaisesRegex(hga.Error, r"attention_mask has shape \((2, )?22,?\), the batch 3 samples of 22 tokens"), torch.no_grad():
                    logits(model, input_ids=self.ids, attention_mask=mask, **more)

    @unittest.skipUnless(older("transformers", "5"), "transformers 5 hands them on, and hga refuses them")
    @each()
    def test_masks_of_other_lengths_are_filled_and_cut_as_transformers_4_does(self, model, causal, more):
        there = self.padding.bool()
        for mask in (there[:, :10], torch.cat([there, there], 1)):
            if mask.shape[1] < N and isinstance(model, tf.GPT2LMHeadModel):
                continue  # whose own attention fails, and hga refuses it
            seen = torch.nn.functional.pad(mask, (0, N))[:, :N]
            with self.subTest(tokens=mask.shape[1]), torch.no_grad():
                self.near(both(model, lambda: logits(model, input_ids=self.ids, attention_mask=mask, **more)), seen)  # noqa: B023

    @each()
    def test_a_causal_model_attends_both_ways_where_its_mask_does(self, model, causal, more):
        seen = side_by_side(numbers_of(9, 13), False)
        if causal:
            with torch.no_grad():
                self.near(both(model, lambda: logits(model, input_ids=self.ids, attention_mask=seen, **more)))

    @each(causal=True)
    def test_texts_packed_by_cumulated_lengths_are_kept_apart(self, model, causal, more):
        """As models take them for flash attention; sdpa does not know them, and gets the mask."""
        if older("transformers", "5.0") and isinstance(model, tf.GPT2LMHeadModel):
            return  # which does not hand them on
        offsets = torch.tensor([0, 9, 13, N], dtype=torch.int32)
        kwargs = dict(cu_seq_lens_q=offsets, cu_seq_lens_k=offsets.clone(), max_length_q=9, max_length_k=9)
        at = torch.arange(N)[None]
        inputs = dict(input_ids=self.ids[:1], position_ids=at, **more)
        with torch.no_grad():
            a, _ = both(model, lambda: logits(model, attention_mask=side_by_side(numbers_of(9, 4, 9), True), **inputs))
            self.near((a, logits(model, **inputs, **kwargs)))

    @each()
    def test_sixteen_bits_are_as_near_as_the_models_own(self, model, causal, more):
        run = lambda: logits(model, input_ids=self.ids, attention_mask=self.padding, **more)  # noqa: E731
        with torch.no_grad():
            model.set_attn_implementation("sdpa")
            exact = run()[self.padding.bool()]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                cast = both(model, run)
            pairs = [cast] + [both(model.to(dtype), run) for dtype in (torch.float16, torch.bfloat16)]
            for pair in pairs:
                self.assertEqual(pair[0].dtype, pair[1].dtype)
                own, ours = ((x[self.padding.bool()].float() - exact).abs().max() for x in pair)
                self.assertLess(float(ours), 1.5 * float(own) + 1e-3)

    # ---- training ----

    def gradients(self, model, **inputs):
        model.zero_grad()
        y = logits(model, input_ids=self.ids, **inputs)
        torch.manual_seed(11)
        (y * torch.randn_like(y))[self.padding.bool()].mean().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    @each()
    def test_training_has_the_models_own_gradients(self, model, causal, more):
        model.train()
        a, b = both(model, lambda: self.gradients(model, attention_mask=self.padding, **more))
        self.assertEqual(set(a), set(b))
        for name in a:
            self.assertLess(float((a[name] - b[name]).abs().max()), 1e-5 * (1 + float(a[name].abs().max())), name)
    def test_training_has_an_image_models_own_gradients(self):
        model, x = made("ViTModel", "ViTConfig", IMAGE).train(), torch.randn(2, 3, 16, 16)
        loss = lambda: logits(model, pixel_values=x).pow(2)[..., 0].sum()  # noqa: E731
        a, b = both(model, lambda: torch.autograd.grad(loss(), list(model.parameters()), allow_unused=True))
        for x, y in zip(a, b):
            self.assertTrue(x is None and y is None or float((x - y).abs().max()) < 1e-5 * (1 + float(x.abs().max())))

    @each(dropout=0.2, attn_implementation="hga:htransformer:block=4")
    def test_training_with_dropout_draws_anew(self, model, causal, more):
        model.train()
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found.append(logits(model, input_ids=self.ids, attention_mask=self.padding, **more))
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertGreater(float((found[0] - found[2])[self.padding.bool()].detach().abs().max()), 1e-4)
        found[2].sum().backward()
        model.eval()
        with torch.no_grad():
            a, b = (logits(model, input_ids=self.ids, **more) for _ in range(2))
        self.assertTrue(torch.equal(a, b))

    # ---- torch.compile ----

    @each(attn_implementation="hga:htransformer:block=4")
    def test_models_compile_whole_with_padding(self, model, causal, more):
        """torch.compile(fullgraph=True): one graph, whatever is padding; forward and backward."""
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for padding in (self.padding, self.padding.flip(0)):
            self.padding = padding
            a = self.gradients(compiled, attention_mask=padding, **more)
            b = self.gradients(model, attention_mask=padding, **more)
            for (_, x), (_, y) in zip(sorted(a.items()), sorted(b.items())):
                self.assertLess(float((x - y).abs().max()), 1e-5 * (1 + float(y.abs().max())))

    def test_a_packed_model_compiles_whole(self):
        model = made(*TEXTS["Llama"][:3], attn_implementation="hga:htransformer:block=4")
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            for lengths in ((9, 13), (5, 10, 7)):
                at = torch.cat([torch.arange(n) for n in lengths])[None]
                inputs = dict(input_ids=self.ids[:1], position_ids=at, use_cache=False)
                self.near((logits(model, **inputs), logits(compiled, **inputs)))
        torch._dynamo.reset()

    def test_training_with_dropout_compiles_whole(self):
        model = made(*TEXTS["Llama"][:3], dropout=0.3, attn_implementation="hga:dense").train()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.manual_seed(1)
        found = [logits(compiled, input_ids=self.ids, attention_mask=self.padding, use_cache=False) for _ in range(2)]
        self.assertFalse(torch.equal(*found))
        found[1].sum().backward()
        torch._dynamo.reset()

    def test_the_default_compiler_takes_it(self):
        c = tf.LlamaConfig(**{**GROUPED, "num_hidden_layers": 1})
        model = tf.LlamaModel._from_config(c, attn_implementation="hga:htransformer:block=4").eval()
        compiled = torch.compile(model, fullgraph=True)
        with torch.no_grad():
            inputs = dict(input_ids=self.ids, attention_mask=self.padding, use_cache=False)
            self.near((logits(model, **inputs), logits(compiled, **inputs)), self.padding)
        torch._dynamo.reset()

    # ---- hierarchies ----

    @since("transformers", "4.54")
    @each()
    def test_a_text_in_a_pack_or_beside_padding_has_the_rows_of_it_alone(self, model, causal, more):
        """The attention's rows, bit for bit, as the models hand them over."""
        rows = []
        kept = _ragged.attend

        def attend(words, q, k, v, **more):
            y = kept(words, q, k, v, **more)
            rows.append((words, q, k, v, y, more))
            return y

        at = torch.cat([torch.arange(9), torch.arange(13)])[None].expand(3, -1)
        spans = dict(packed=[(b, f, n) for b in range(3) for f, n in ((0, 9), (9, 13))], padded=[(0, 0, N), (1, 0, 15), (2, 9, 13)])
        for words in ("htransformer:block=4", "window:left=3", "hsa:branching=2,4", "bpt:k=2"):
            model.set_attn_implementation("hga:" + words)
            for how, inputs in (("packed", dict(position_ids=at)), ("padded", dict(attention_mask=self.padding))):
                if how == "packed" and not causal:
                    continue
                rows.clear()
                with mock.patch.object(_attention, "attend_documents", attend), torch.no_grad():
                    logits(model, input_ids=self.ids, **inputs, **more)
                self.assertEqual(len(rows), 2)
                for name, q, k, v, y, asked in rows:
                    for b, first, n in spans[how]:
                        h = hga._graphs.spec.hierarchy_of(name, n, causal)
                        own = [x[b, :, first : first + n] for x in (q, k, v)]
                        z = h.lower(h.attention(*map(h.lift, own), scale=asked["scale"]))
                        self.assertTrue(torch.equal(y[b, first : first + n].transpose(0, 1), z))

    def test_rows_of_nodes_are_lifted_and_lowered(self):
        """In one text, beside padding, and backward."""
        h = hga.bpt(13, k=2, causal=True)
        own = [torch.randn(1, heads, 13, 8, requires_grad=True) for heads in (4, 2, 2)]
        padded = [torch.cat([torch.zeros(1, x.shape[1], 3, 8), x], 2) for x in own]
        mask = torch.arange(16)[None] > 2
        want = h.lower(h.attention(*map(h.lift, own))).transpose(1, 2)
        for rows, first, given in ((own, 0, {}), (padded, 3, {"mask": mask})):
            found = _ragged.attend("bpt:k=2", *rows, causal=True, **given)
            self.assertTrue(torch.equal(found[:, first:], want))
            self.assertFalse(found[:, :first].any())
            for a, b in zip(*(torch.autograd.grad(y[:, -13:].square().sum(), own, retain_graph=True) for y in (found, want))):
                self.assertTrue(torch.equal(a, b))

    def test_chosen_blocks_are_a_masked_reading(self):
        """Of what each layer gets, over the blocks that it chose: padding on either side, with a cache and without."""
        inner, begins, ends = _models.attend, (0, 3, 9), (N, N - 2, N)
        for words, how, cached in (("", {}, False), (":prefill=8", {"query_block": 8}, False), ("", {}, True), (":prefill=8", {"query_block": 8}, True)):
            model = made(*TEXTS["Llama"][:3], attn_implementation="hga:routed:block=4:k=3" + words)
            padding, seen = torch.ones(3, N, dtype=torch.long), []
            last = [N] * 3 if cached else ends  # a cache is padded on the left
            for i in range(3):
                padding[i, : begins[i]], padding[i, last[i] :] = 0, 0

            def note(name, module, q, k, v, *more, **others):
                found = inner(name, module, q, k, v, *more, **others)
                seen.append((q, k, v, found[0]))
                return found

            cache = {cache_argument(): hga.transformers.Cache(64), "use_cache": True} if cached else {"use_cache": False}
            with self.subTest(words, cached=cached), mock.patch.object(_models, "attend", note), torch.no_grad():
                logits(model, input_ids=self.ids, attention_mask=padding, **cache)
                self.assertEqual(len(seen), model.config.num_hidden_layers)
                for q, k, v, out in seen:
                    for b in range(3):
                        own = [x[b, :, begins[b] : last[b]] for x in (q, k, v)]
                        want = self.over_chosen(*own, hga.routed(block=4, k=3, causal=True, **how).choice(*own[:2]), how.get("query_block", 1))
                        self.near((out[b, begins[b] : last[b]].transpose(0, 1), want))

    def over_chosen(self, q, k, v, choice, step):
        """torch's attention over blocks of four keys, up to the token itself."""
        n = q.shape[1]
        has = torch.zeros(len(choice), n, -(-n // 4) + 1, dtype=torch.bool)
        rows = torch.from_numpy(choice).long()[:, torch.arange(n) // step]
        has.scatter_(2, torch.where(rows < 0, has.shape[2] - 1, rows), True)
        seen = has[:, :, torch.arange(n) // 4].tril()
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    @since("transformers", "5.0")
    def test_layers_may_differ(self):
        model = made("BertForMaskedLM", "BertConfig", TEXT)
        window, found = "hga:window:left=2:right=2", []
        with torch.no_grad():
            for name in ("hga:dense", hga.transformers.by_layer({0: window}, "hga:dense"), window):
                model.set_attn_implementation(name)
                found.append(logits(model, input_ids=self.ids))
        for i in range(3):
            self.assertGreater(float((found[i] - found[i - 1]).abs().max()), 1e-4)

    def test_a_window_that_covers_the_text_is_no_window_and_another_one_must_be_the_hierarchys(self):
        numbers = {**GROUPED, "sliding_window": 6}
        model = made("MistralForCausalLM", "MistralConfig", numbers)
        run = lambda: logits(model, input_ids=self.ids, attention_mask=self.padding, use_cache=False)  # noqa: E731
        with torch.no_grad():
            self.near(both(model, run, "hga:window:left=5"), self.padding)
            model.set_attn_implementation("hga:window:left=3")
            run()
            self.near(both(model, run, "hga:dense"), self.padding)
            model.set_attn_implementation("hga:dense")
            self.near(both(model, lambda: logits(model, input_ids=self.ids[:, :6], use_cache=False)))
            for name in ("hga:window:left=6", "hga:window:left=5:global=1", "hga:htransformer:block=4"):
                model.set_attn_implementation(name)
                refused(self, "a window: a token sees 5 tokens before it at most", run)

    # ---- generation ----

    @each(causal=True)
    def test_generate_gives_the_models_own_tokens(self, model, causal, more):
        padding = self.padding.clone()
        padding[1] = 1
        asked = dict(attention_mask=padding, max_new_tokens=5, do_sample=False, pad_token_id=1, eos_token_id=None)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for cached in (True, False):
                a, b = both(model, lambda cached=cached: model.generate(self.ids, use_cache=cached, **asked))
                self.assertTrue(torch.equal(a, b))

    # ---- refusals ----

    @each()
    def test_masks_that_are_no_documents_are_refused_with_what_was_seen(self, model, is_causal, more):
        i = torch.arange(N)
        causal = i[:, None] >= i[None, :]
        tree = causal.clone()
        tree[6:, 5] = False
        tree[5, 5] = True
        band = (i[:, None] - i[None, :]).abs() <= 3
        bias = floats(causal)
        bias[4, 2] = -0.25
        for mask, words in (
            (causal | (i[None, :] < 6), "token 0 see token 1" if is_causal else "hides token 6 from token 0"),
            (tree, "see token 0, but not token|hides token 1 from token 0"),
            (causal & band, "window"),
            (bias, "adds -0.25 to the score of token 4 for token 2"),
            (torch.rand(N, N) < 0.5, "the mask"),
        ):
            if not is_causal and mask is bias:
                mask = torch.where(i[None, :] > i[:, None], torch.zeros(()), bias)
            for name in ("hga:dense", "hga:htransformer:block=4"):
                if words == "window" and name == "hga:dense":
                    continue  # which keeps to it
                model.set_attn_implementation(name)
                with self.assertRaisesRegex(hga.Error, words), torch.no_grad():
                    logits(model, input_ids=self.ids, attention_mask=mask[None, None], **more)

    @since("transformers", "5.0")
    @each(attn_implementation="hga:dense")
    def test_weights_that_hga_never_has_are_refused(self, model, causal, more):
        with self.assertRaisesRegex(hga.Error, "output_attentions=True asks for a matrix of weights that hga never has"):
            model(self.ids, output_attentions=True, **more)
        model(self.ids, **more)  # and is itself again
    @since("transformers", "5.0")
    def test_weights_of_an_image_model_are_refused(self):
        with self.assertRaisesRegex(hga.Error, "output_attentions"):
            model = made("ViTModel", "ViTConfig", IMAGE, attn_implementation="hga:dense")
            model(torch.randn(1, 3, 16, 16), output_attentions=True)

    def test_architectures_that_cannot_be_are_refused_by_name(self):
        t5 = dict(d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4, vocab_size=90)
        bart = dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                    encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=90, pad_token_id=1, bos_token_id=2, eos_token_id=3,
                    forced_eos_token_id=None)  # fmt: skip
        by_itself = "it computes its attention by itself"  # T5 in transformers before 5.10
        for model, config, numbers, words in (
            ("T5ForConditionalGeneration", "T5Config", t5, f"T5ForConditionalGeneration: (its decoder attends from one text|{by_itself})"),
            ("T5EncoderModel", "T5Config", t5, f"T5EncoderModel: (its decoder|{by_itself})|T5Attention: it adds a bias"),
            ("BartModel", "BartConfig", bart, "BartModel: its decoder attends from one text to another"),
            ("GPT2Model", "GPT2Config", dict(add_cross_attention=True, **GPT), "GPT2Model: its decoder attends"),
            ("DebertaV2Model", "DebertaV2Config", TEXT, "DebertaV2Model: it computes its attention by itself"),
        ):
            with self.subTest(model):
                with self.assertRaisesRegex(hga.Error, words):
                    m = made(model, config, numbers, attn_implementation="hga:dense")
                    m(self.ids)
                m = made(model, config, numbers)
                with self.assertRaisesRegex(hga.Error, words):
                    m.set_attn_implementation("hga:dense")
                    m(self.ids)

    def test_the_list_of_architectures_has_every_one_of_these_tests(self):
        """Of which the docs' table is made."""
        listed = {name for types in kinds().values() for name in types}
        for name, (_, config, *_) in {**TEXTS, **MODIFIED}.items():
            self.assertIn(getattr(tf, config).model_type, listed, name)
        self.assertIn("vit", listed)

    def test_what_a_name_cannot_ask_for_is_refused(self):
        model = made(*TEXTS["Llama"][:3])
        for name, words in (("hga:bptt", "bptt"), ("hga:treeformer-coarse", "causal"), ("hga:dense:k=3", "k")):
            with self.assertRaisesRegex(hga.Error, words):
                model.set_attn_implementation(name)
                model(self.ids)
        model.set_attn_implementation(attn_implementation="hga:dense")
        self.assertEqual(model.config._attn_implementation, "hga:dense")
