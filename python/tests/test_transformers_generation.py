"""generate() of stock models with hga's caches gives the text of passes over all tokens; a cache does so in one's own
loop; what is refused, and why."""

import copy
import gc
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import hga
from shared import ROOT, refused
from since import older, since
from test_transformers_models import GROUPED, MODIFIED, TEXT, TEXTS, N, Registered, made

try:
    import torch
    import transformers as tf
    from hga.transformers import _generation
    from hga._core.releases import asks, cache_argument, crops_to_length

    CACHE, CROPS_TO_LENGTH = cache_argument(), crops_to_length()
    CACHE_SEES_ARGUMENTS = CACHE == "cache"  # older releases do not hand it those of attention
except ImportError:
    tf = None

WORDS = ("dense", "window:left=6", "window:left=4:global=2", "htransformer:block=4", "hsa:branching=2,4", "fenwick", "dilated:segments=8,16:dilations=1,2", "bpt:k=2",
         "routed:block=4:k=3", "routed:block=4:k=4:share=group:score=minmax")  # fmt: skip
STOCK = {name: row[:3] for name, row in {**TEXTS, **MODIFIED}.items() if row[3]}
# What these hand to the cache are no keys: latents, of which keys and values are made behind it.
LATENT = dict(num_key_value_heads=4, kv_lora_rank=12, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=10, **TEXT)
EXPERTS = dict(moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=1,
               n_shared_experts=1, **LATENT)  # fmt: skip
LATENTS = {
    "DeepSeek-V2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", EXPERTS),
    "DeepSeek-V3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", EXPERTS),
    "GLM-4 Lite": ("Glm4MoeLiteForCausalLM", "Glm4MoeLiteConfig", EXPERTS),
    "MiniCPM3": ("MiniCPM3ForCausalLM", "MiniCPM3Config", LATENT),
    "Youtu": ("YoutuForCausalLM", "YoutuConfig", LATENT),
}
TWICE = {"DiffLlama": ("DiffLlamaForCausalLM", "DiffLlamaConfig", GROUPED)}  # attends with the same keys and two halves of the values
if tf is not None:  # which has not all of them in each release, or has some that attend by themselves
    LATENTS, TWICE = ({name: row for name, row in rows.items() if hasattr(tf, row[0]) and asks(getattr(tf, row[0]))} for rows in (LATENTS, TWICE))
STOCK.update(TWICE)
SAY = dict(max_new_tokens=20, do_sample=False, pad_token_id=1, eos_token_id=None)


def all_of(ids):
    """A mask without padding: where there is none, generate() takes tokens that look like padding for it."""
    return torch.ones_like(ids)


def model_of(name, words="dense", **more):
    kind, config, numbers = STOCK[name]
    numbers = {**numbers, **({"sliding_window": 64} if "sliding_window" in numbers else {}), **more}
    return made(kind, config, numbers, attn_implementation="hga:" + words)


@unittest.skipIf(tf is None, "torch or transformers is not installed")
class Releases(unittest.TestCase):
    def test_caches_have_the_name_of_the_installed_release(self):
        release = tuple(map(int, tf.__version__.split(".")[:2]))
        self.assertEqual(CACHE, "cache" if release >= (5, 24) else "past_key_values")


@unittest.skipIf(tf is None, "torch or transformers is not installed")
class Generation(Registered):
    def setUp(self):
        torch.manual_seed(2)
        self.ids = torch.randint(4, 90, (3, N))
        self.padding = torch.ones(3, N, dtype=torch.long)
        self.padding[1, :3], self.padding[2, :9] = 0, 0
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("error", "(?s).*(past_key_values|cache)")  # names that transformers has left behind

    def steps(self, model):
        """How many tokens each pass of the model gets, from now on."""
        found = []

        def note(module, arguments, more):
            found.append(more["input_ids"].shape[1])

        self.addCleanup(model.register_forward_pre_hook(note, with_kwargs=True).remove)
        return found

    def same_text(self, model, ids, asked, **more):
        """With the cache that generate() makes, and without; what it was."""
        torch.manual_seed(5)
        want = model.generate(ids, **SAY, **asked, **{**more, "use_cache": False, "num_beams": more.get("num_beams", 1)})
        torch.manual_seed(5)
        found = model.generate(ids, **{**SAY, "return_dict_in_generate": True}, **asked, **more)
        self.assertIs(type(found[CACHE]), hga.transformers.Cache)
        self.assertTrue(torch.equal(found.sequences, want))
        return found[CACHE]

    # ---- generate() ----

    def test_every_stock_model_says_the_same_with_every_causal_hierarchy_and_left_padding(self):
        for name in STOCK:
            for words in WORDS if name in ("Llama", "GPT-2", "Mistral") else WORDS[3:6]:
                if name == "GPT-OSS" and "hsa" in words:  # sinks need a log-sum-exp
                    continue
                with self.subTest(name, words=words):
                    model = model_of(name, words)
                    steps = self.steps(model)
                    self.same_text(model, self.ids, dict(attention_mask=self.padding))
                    self.assertEqual(steps, list(range(N, N + 20)) + [N] + [1] * 19)

    def refuses_latents(self, model):
        """Older releases hand a cache latents that it cannot know for such, or the keys themselves, as DeepSeek-V3 did."""
        try:
            model.generate(self.ids, attention_mask=self.padding, **SAY)
        except hga.Error as error:
            self.assertRegex(str(error), "attention by hga did not come .* pass use_cache=False")
            return True
        return False

    def test_latents_become_the_text_of_passes_over_all_tokens(self):
        for name, row in {**LATENTS, **TWICE}.items():
            model = made(*row, attn_implementation="eager")
            with self.subTest(name), mock.patch.dict(STOCK, {name: row}):
                want = model.generate(self.ids, attention_mask=self.padding, **SAY)
                model.set_attn_implementation("hga:dense")
                if name in LATENTS and not CACHE_SEES_ARGUMENTS and self.refuses_latents(model):
                    found = model.generate(self.ids, attention_mask=self.padding, use_cache=False, **SAY)
                    self.assertTrue(torch.equal(found, want))
                    continue
                self.assertTrue(torch.equal(model.generate(self.ids, attention_mask=self.padding, **SAY), want))
                for words in ("window:left=6", "htransformer:block=4", "fenwick"):
                    model.set_attn_implementation("hga:" + words)
                    steps = self.steps(model)
                    self.same_text(model, self.ids, dict(attention_mask=self.padding))
                    self.assertEqual(steps[20:], [N] + [1] * 19)
                    self.same_text(model, self.ids, dict(attention_mask=self.padding), num_beams=2)

    def test_several_calls_a_layer_are_taken_back_and_chosen_together(self):
        if not TWICE:
            self.skipTest("DiffLlama attends by itself in this release")
        model = model_of("DiffLlama", "htransformer:block=4")
        ids, cache = self.ids, hga.transformers.Cache(64)
        with torch.no_grad():
            want = model(ids, use_cache=False).logits
            model(ids[:, :9], **{CACHE: cache})
            model(ids[:, 9:15].flip(1), **{CACHE: cache})
            cache.crop(-6)
            cache.batch_select_indices(torch.tensor([2, 0, 2]))
            found = model(ids[[2, 0, 2], 9:], **{CACHE: cache}).logits
        torch.testing.assert_close(found, want[[2, 0, 2], 9:], rtol=1e-4, atol=1e-5)
        self.assertEqual([len(layer.rows) for layer in cache.layers], [6, 6])  # three samples by two calls
        layer, q, x = cache.layers[0], torch.zeros(3, 4, 1, 8), torch.zeros(3, 2, 1, 8)
        layer.update(x, x)
        layer.attend("htransformer:block=4", q, x, x, None, None, dict(scale=None, softcap=None, sink=None))
        refused(self, "to layer 0, and attention by hga came 1 times, not 2, for them", lambda: layer.update(x, x))
        layer.attend("htransformer:block=4", q, x, x, None, None, dict(scale=None, softcap=None, sink=None))
        with self.assertRaisesRegex(hga.Error, "layer 0 attended 2 times with the keys of a pass, and now does again"):
            layer.attend("htransformer:block=4", q, x, x, None, None, {})

    def test_beams_fork_and_groups_sample(self):
        for i, name in enumerate(("Llama", "Mistral", "GPT-2")):
            for words in WORDS[i::3] if i else WORDS:
                with self.subTest(name, words=words):
                    model = model_of(name, words)
                    for more in (dict(num_beams=3), dict(num_beams=2, num_return_sequences=2), dict(num_beams=4, early_stopping=True)):
                        self.same_text(model, self.ids, dict(attention_mask=self.padding), **more)
        torch.manual_seed(3)
        model = model_of("Llama", "htransformer:block=4")
        more = dict(SAY, do_sample=True, num_return_sequences=3, attention_mask=self.padding)
        torch.manual_seed(4)
        want = model.generate(self.ids, use_cache=False, **more)
        torch.manual_seed(4)
        self.assertTrue(torch.equal(model.generate(self.ids, **more), want))

    def test_assisted_generation_takes_back_what_was_not_right(self):
        cuts = {words: [] for words in WORDS}
        for i, name in enumerate(("Llama", "GPT-2", "Gemma2")):
            for words in WORDS[i::3] if i else WORDS:
                with self.subTest(name, words=words):
                    model = model_of(name, words)
                    want = model.generate(self.ids[:1], use_cache=False, **SAY)
                    torch.manual_seed(99)
                    helper = copy.deepcopy(model)
                    with torch.no_grad():
                        for p in helper.parameters():
                            p.add_(0.002 * torch.randn_like(p))
                    with mock.patch.object(_generation.Layer, "take_back", autospec=True, side_effect=_generation.Layer.take_back) as cut:
                        for assistant in (helper, model_of(name)):  # nearly right, and mostly wrong
                            assistant.generation_config.num_assistant_tokens = 6
                            assistant.generation_config.assistant_confidence_threshold = 0
                            found = model.generate(self.ids[:1], assistant_model=assistant, **SAY)
                            self.assertTrue(torch.equal(found, want))
                        said = model.generate(self.ids[:1], prompt_lookup_num_tokens=4, **{**SAY, "eos_token_id": 90})
                        if older("transformers", "5.0"):  # which may say one token too many, with attention of its own too
                            said = said[:, : want.shape[1]]
                        self.assertTrue(torch.equal(said, want))
                        cuts[words] += [call.args[1] for call in cut.call_args_list]
        for words in WORDS:
            self.assertGreater(max(cuts[words]), 1, words)

    def test_assistants_may_go_far_ahead(self):
        model = model_of("Llama", "window:left=4", max_position_embeddings=256)
        say = {**SAY, "max_new_tokens": 90, "suppress_tokens": [1]}  # what looks like padding
        want = model.generate(self.ids[:1], use_cache=False, **say)
        helper = model_of("Llama", "window:left=4", max_position_embeddings=256)
        helper.generation_config.num_assistant_tokens = 70  # beyond the usual rollback
        helper.generation_config.assistant_confidence_threshold, helper.generation_config.suppress_tokens = 0, [1]
        with torch.no_grad():
            helper.lm_head.weight[:45] = 0
        self.assertTrue(torch.equal(model.generate(self.ids[:1], assistant_model=helper, **say), want))

    def test_prompts_sample_and_single_tokens_do_not(self):
        with torch.no_grad():
            few, means = (model_of("Llama", f"routed:block=2:k=5:prefill=4{more}")(self.ids).logits for more in (":score=sample:sample=2", ""))
        self.assertFalse(torch.equal(few, means))
        model = model_of("Llama", "routed:block=2:k=99:score=sample:sample=2:prefill=4")
        self.assertTrue(torch.equal(model.generate(self.ids[:1], **SAY), model_of("Llama").generate(self.ids[:1], **SAY)))
        refused(self, "query_block or prefill must be above 1", lambda: model_of("Llama", "routed:score=sample")(self.ids))

    def test_a_prompt_in_chunks_and_a_talk_that_goes_on(self):
        for words in WORDS:
            with self.subTest(words):
                model = model_of("Qwen2", words)
                want = model.generate(self.ids[:1], use_cache=False, **SAY)
                steps = self.steps(model)
                self.assertTrue(torch.equal(model.generate(self.ids[:1], prefill_chunk_size=5, attention_mask=all_of(self.ids[:1]), **SAY), want))
                if not older("transformers", "5.0"):  # which compiles what it calls for a chunk
                    self.assertEqual(steps[:6], [5, 5, 5, 5, 2, 1])
                cache = hga.transformers.Cache(64)
                first = model.generate(self.ids[:1], **{CACHE: cache}, attention_mask=all_of(self.ids[:1]), **{**SAY, "max_new_tokens": 8})
                self.assertTrue(torch.equal(first, want[:, : N + 8]))
                branch = copy.deepcopy(cache)
                for c in (cache, branch):  # a copy goes its own way
                    more = model.generate(first, **{CACHE: c}, attention_mask=all_of(first), **{**SAY, "max_new_tokens": 12})
                    self.assertTrue(torch.equal(more, want))

    def test_layers_types_and_windows(self):
        name = hga.transformers.by_layer({0: "hga:window:left=5"}, "hga:htransformer:block=4")
        model = model_of("Llama", "dense")
        model.set_attn_implementation(name)
        self.same_text(model, self.ids, dict(attention_mask=self.padding))
        for dtype in (torch.bfloat16, torch.float16):
            model = model_of("Llama", "htransformer:block=4").to(dtype)
            cache, full = hga.transformers.Cache(64), []
            with torch.no_grad():
                step = torch.cat([model(self.ids[:, i : i + 1], **{CACHE: cache}).logits for i in range(N)], 1)
                full = model(self.ids, use_cache=False).logits
            self.assertEqual(step.dtype, dtype)
            self.assertLess(float((step - full).abs().max()), 0.02)
        for name in {"Mistral", "Gemma2", "GPT-OSS"} & set(STOCK):  # the model's own window, which the text outgrows
            self.same_text(model_of(name, "window:left=5", sliding_window=6), self.ids, dict(attention_mask=self.padding))
            self.same_text(model_of(name, "dense", sliding_window=25), self.ids, dict(attention_mask=self.padding))
        with self.assertRaisesRegex(hga.Error, "a window: a token sees 24 tokens before it at most, htransformer:block=4 looks further"):
            model_of("Mistral", "htransformer:block=4", sliding_window=25).generate(self.ids, attention_mask=self.padding, **SAY)

    @since("transformers", "4.54")
    def test_the_bench_of_generation_measures(self):
        bench = ROOT / "bench" / "generate.py"
        if not bench.exists():
            self.skipTest("the benches are not here")
        with tempfile.TemporaryDirectory() as folder:
            out, small = os.path.join(folder, "run.json"), "--context 40 --new 6 --layers 1 --heads 2 --dim 8 --turns 1".split()
            names = ["hga:window:left=4", "hga:hsa:branching=2,4"]
            subprocess.run([sys.executable, bench, *small, "--attention", ",".join(names), "--json", out], check=True, capture_output=True)
            with open(out, encoding="utf-8") as file:
                seconds = json.load(file)["seconds_a_token"]
        self.assertEqual(list(seconds), ["sdpa", *names])
        self.assertGreater(min(seconds.values()), 0)

    # ---- caches in one's own loop ----

    def test_rows_are_those_of_all_tokens_bit_for_bit(self):
        """What attention is given and gives, in chunks, beside the hierarchy over all of it."""
        for name in {"Llama", "GPT-2", "GPT-OSS"} & set(STOCK):
            for words in WORDS:
                if name == "GPT-OSS" and "hsa" in words:
                    continue
                model, seen = model_of(name, words), []
                attend = _generation.Layer.attend

                def note(layer, words, q, k, v, *more, seen=seen, attend=attend):
                    seen.append((layer.number, q, k, v, attend(layer, words, q, k, v, *more), more))
                    return seen[-1][4]

                cache = hga.transformers.Cache(N + 9, same=True)
                with mock.patch.object(_generation.Layer, "attend", note), torch.no_grad():
                    for first, end in ((0, 10), (10, 11), (11, 17), (17, N)):
                        model(self.ids[:, first:end], attention_mask=self.padding[:, :end], **{CACHE: cache})
                for layer in range(2):
                    calls = [c for c in seen if c[0] == layer]
                    q, k, v = (torch.cat([c[t] for c in calls], 2) for t in (1, 2, 3))
                    out, (_, _, tables) = torch.cat([c[4] for c in calls], 1), calls[0][5]
                    for b, first in enumerate((0, 3, 9)):
                        slides = name == "GPT-OSS" and layer == 0 and "window:left=6" not in words
                        h = hga._graphs.spec.hierarchy_of("dense" if slides else words, N - first, True)
                        want = h.lower(h.attention(*(h.lift(x[b, :, first:]) for x in (q, k, v)), **tables))
                        close = 2e-6 if "dilated" in words else 0  # its bits depend on the length
                        self.assertLessEqual(float((out[b, first:] - want.transpose(0, 1)).detach().abs().max()), close, (name, words, b))
                        self.assertFalse(bool(out[b, :first].any()))

    def test_samples_are_chosen_repeated_and_cut(self):
        model = model_of("Llama", "htransformer:block=4")
        with torch.no_grad():
            full = lambda rows, n: model(self.ids[rows, :n], attention_mask=self.padding[rows, :n], use_cache=False).logits  # noqa: E731
            cache = hga.transformers.Cache(64)
            model(self.ids[:, :15], attention_mask=self.padding[:, :15], **{CACHE: cache})
            cache.reorder_cache(torch.tensor([2, 0, 0]))
            cache.batch_select_indices(torch.tensor([True, True, False]))
            cache.batch_repeat_interleave(2)
            cache.crop(-4)
            cache.crop(0)
            rows = [2, 2, 0, 0]
            self.assertEqual((cache.get_seq_length(), len(cache), cache.layers[0].get_max_length()), (11, 2, 64))
            again = model(self.ids[rows, 11:18], attention_mask=self.padding[rows, :18], **{CACHE: cache}).logits
            self.assertLess(float((again - full(rows, 18)[:, 11:]).abs().max()), 1e-5)
            if CROPS_TO_LENGTH:
                cache.crop(18)
                self.assertEqual(cache.get_seq_length(), 18)
            else:
                with self.assertRaisesRegex(ValueError, "given as a negative one"):
                    cache.crop(5)
            cache.crop(-18)
            self.assertEqual(cache.get_seq_length(), 0)
            cache.reset()
            model(self.ids[:2, :9], **{CACHE: cache})  # another batch
            self.assertEqual(cache.get_seq_length(), 9)

    def test_a_cache_holds_what_later_tokens_read_and_goes_with_its_decoder(self):
        model = model_of("Llama", "window:left=4")
        gc.collect()
        self.assertEqual(len(_generation.DECODERS), 0)
        few, many = hga.transformers.Cache(64, rollback=0), hga.transformers.Cache(64, rollback=0)
        with torch.no_grad():
            model(self.ids[:, :12], **{CACHE: few}), model(self.ids, **{CACHE: many})
        self.assertEqual(len(_generation.DECODERS), 1)  # of both layers and caches
        self.assertLessEqual(many.bytes, 2 * few.bytes)
        half = hga.transformers.Cache(64, rollback=0, page_type="bf16")
        with torch.no_grad():
            model(self.ids, **{CACHE: half})
        self.assertLess(half.bytes, 0.7 * many.bytes)
        del few, many, half
        gc.collect()
        self.assertEqual(len(_generation.DECODERS), 0)

    # ---- refusals ----

    def refused(self, words, run, kind=hga.Error):
        with self.assertRaisesRegex(kind, words), torch.no_grad():
            run()

    def test_other_caches_are_refused_with_what_to_pass(self):
        model, ids = model_of("Llama", "htransformer:block=4"), self.ids
        with torch.no_grad():
            own = model(ids)[CACHE]  # the first pass is a whole one, and right
        self.refused(f"1 queries and 23 keys; keys of a cache that is not hga's: pass {CACHE}=hga.transformers.Cache.tokens.",
                     lambda: model(ids[:, :1], **{CACHE: own}))  # fmt: skip
        self.refused(f"given a DynamicCache .{CACHE}.", lambda: model.generate(ids, **{CACHE: own}, **SAY))
        self.refused("cache_implementation='offloaded' holds keys", lambda: model.generate(ids, cache_implementation="offloaded", **SAY))
        model.set_attn_implementation("sdpa")
        cache = hga.transformers.Cache(64)
        with torch.no_grad():
            model(ids, **{CACHE: cache})
        self.refused("attention by hga did not come for them", lambda: model(ids[:, :1], **{CACHE: cache}))
        model.set_attn_implementation("hga:dense")
        self.assertIs(type(model.generate(ids, cache_implementation="dynamic", return_dict_in_generate=True, **SAY)[CACHE]), hga.transformers.Cache)

    def test_what_has_no_meaning_token_by_token_is_refused(self):
        model, ids, new = model_of("Llama", "window:left=5"), self.ids, lambda: hga.transformers.Cache(64)
        refused(self, "a cache has no gradients: call it under torch.no_grad", lambda: model(ids, **{CACHE: new()}))
        self.refused("packed texts .cu_seq_lens. have no cache", lambda: model(ids[:1], **{CACHE: new()}, cu_seq_lens_q=torch.tensor([0, 9, N]), cu_seq_lens_k=torch.tensor([0, 9, N])))
        dropping = made(*STOCK["Llama"], dropout=0.5, attn_implementation="hga:dense").train()
        self.refused("dropout has no cache", lambda: dropping(ids, **{CACHE: new()}))
        self.refused("beyond the decoder's 20; hga.transformers.Cache.20. is for so many", lambda: model(ids, **{CACHE: hga.transformers.Cache(20)}))
        self.refused("tokens is 0", lambda: hga.transformers.Cache(0))
        self.refused("Cache has no rolback=: did you mean 'rollback'", lambda: hga.transformers.Cache(8, rolback=2))
        short = hga.transformers.Cache(64, rollback=2)
        with torch.no_grad():
            model(ids, **{CACHE: short})
        self.refused("its rollback is 2", lambda: short.crop(-9))
        self.assertEqual((short.columns.tokens.shape[1], {(layer.length, *map(len, layer.rows)) for layer in short.layers}), (N, {(N, N, N, N)}))
        with torch.no_grad():
            model(ids, **{CACHE: (other := new())})
        self.refused("the cache has 3 samples of window:left=5, the model has 2", lambda: model(ids[:2, :1], **{CACHE: other}))

    def test_masks_that_a_cache_cannot_keep_are_refused_with_what_was_seen(self):
        model, ids = model_of("Llama", "dense"), self.ids
        right = torch.ones(3, N, dtype=torch.long)
        right[1, 15:] = 0
        cache = hga.transformers.Cache(64)
        with torch.no_grad():
            model(ids, attention_mask=right, **{CACHE: cache})
        more = torch.cat([right, torch.ones(3, 1, dtype=torch.long)], 1)
        self.refused("sample 1 has padding between tokens of one text: pad on the left", lambda: model(ids[:, :1], attention_mask=more, **{CACHE: cache}))
        for n, words in ((4, "token 3 of sample 2 is none"), (6, "token 5 of sample 2 is padding")):
            cache, mask = hga.transformers.Cache(64), torch.ones(3, N + 1, dtype=torch.long)
            mask[2, :5] = 0
            with torch.no_grad():
                model(ids, attention_mask=mask[:, :N], **{CACHE: cache})
            mask[2, :n], mask[2, n - 1 : 5] = 0, 1 if n < 5 else 0
            self.refused(words, lambda m=mask, c=cache: model(ids[:, :1], attention_mask=m, **{CACHE: c}))
        i = torch.arange(N)
        causal = i[:, None] >= i[None, :]
        packed = causal & ((i[:, None] < 9) == (i[None, :] < 9))
        self.refused("does not let token 9 of sample 0 see token 0", lambda: model(ids, attention_mask=packed[None, None], **{CACHE: hga.transformers.Cache(64)}))
        self.refused("lets token 0 of sample 0 see token 1", lambda: model(ids, attention_mask=(causal | True)[None, None], **{CACHE: hga.transformers.Cache(64)}))
        with torch.no_grad():
            cache = hga.transformers.Cache(64)
            a = model(ids, attention_mask=causal[None, None], **{CACHE: cache}).logits
            b = model(ids, **{CACHE: hga.transformers.Cache(64)}).logits
            self.assertTrue(torch.equal(a, b))

    def test_layers_of_another_kind_are_refused_by_name(self):
        model = model_of("Llama", "dense")
        model.config.layer_types = ["full_attention", "linear_attention"]
        self.refused("layers of linear_attention, which hga.transformers.Cache does not hold", lambda: model.generate(self.ids, **SAY))
        model.config.layer_types = ["full_attention", "indexed_attention"]
        self.refused("its layers pick keys for every query, with and without a cache: attn_implementation='sdpa'", lambda: model.generate(self.ids, **SAY))
