"""Options that are left out, spelt as their default, or None, change no bit. Each is drawn with the others, of every
variant and through every door. So are those where the processor multiplies pairs of bfloat16, which is pretended where
it does not: products of rounded operands are on every machine."""

import contextlib
import inspect
import math
import os
import subprocess
import tempfile
import unittest
import unittest.mock

import hga
import numpy as np
from hga._core.arrays import BF16, narrowed
from shared import TOOL, needed, needs, needs_tool, refused, torch

N, DIM, ISA = 48, 8, os.environ.get("HGA_ISA") or hga.isa_list().split()[-1]
LEAF = np.arange(N) % 4
# How a default is spelt where it is not the signature's.
SPELT = {"normaliser": ["softmax"], "normalizer": ["softmax"], "scale": [1 / math.sqrt(DIM)], "dropout": [0], "threads": [1], "isa": [ISA]}
CALLS = 2 if os.environ.get("HGA_TEST_QUICK") else 5


def hierarchies():
    """Every variant, and what is made of them otherwise."""
    for name in hga.variants():
        yield name, getattr(hga, name.replace("-", "_"))(N, **needed(N).get(name, {}))
    yield "causal routed", hga.routed(N, block=8, k=2, causal=True)
    yield "routed, by its best", hga.routed(N, block=4, threshold=0.5, share="group")
    yield "trees by head", hga.treeformer_fine(N, query_leaf=np.stack([LEAF, LEAF[::-1]], 1))
    yield "hyperplanes", hga.treeformer_fine(N, height=1, weights=np.ones((1, DIM), np.float32), bias=np.zeros(1, np.float32))
    yield "ragged", hga.htransformer([20, 28], block=4)
    yield "in order", hga.window(N, left=3).order("rcm")
    yield "strict", hga.fenwick(N).strict_rows()


@contextlib.contextmanager
def pairs():
    """As where the processor multiplies them."""
    with unittest.mock.patch("hga._core.precision.multiplies_pairs", lambda isa: True):
        yield


def bits(x):
    if isinstance(x, (tuple, list)):
        return [bits(one) for one in x]
    if isinstance(x, dict):
        return {name: bits(one) for name, one in x.items()}
    if torch and isinstance(x, torch.Tensor):
        return x.detach().contiguous().view(torch.uint8).numpy().tobytes()
    return np.ascontiguousarray(x).tobytes() if isinstance(x, np.ndarray) else x


class Options:
    """Of a function: what may be said without changing anything."""

    def __init__(self, function, without=()):
        known = inspect.signature(function).parameters.values()
        self.of = {p.name: p.default for p in known if p.default is not p.empty and p.kind is p.KEYWORD_ONLY and p.name not in without}

    def ways(self, name):
        return [self.of[name], None, *SPELT.get(name, [])]

    def drawn(self, rng, said):
        """Some of them, each in one of its ways; one spelling of normalisers."""
        names = [name for name in self.of if name not in said and rng.random() < 0.7]
        one = "normaliser" if "normaliser" in said or rng.random() < 0.5 else "normalizer"
        names = [name for name in names if name not in ("normaliser", "normalizer") or (name == one and one not in said)]
        return {name: (ways := self.ways(name))[rng.integers(len(ways))] for name in names}


def tensors(rng, h, n=3):
    """Of a drawn type each, mostly of one."""
    rows = [getattr(h, "rows", None) or N] + [h._rows("key") // h.n_key_graphs if isinstance(h, hga.Hierarchy) else N] * (n - 1)
    rows = [each if each > 0 else N for each in rows]
    kinds = [np.dtype("f4"), np.dtype("f2"), BF16]
    one = kinds[rng.integers(3)]
    of = [one if rng.random() < 0.8 else kinds[rng.integers(3)] for _ in range(n)]
    return [narrowed(rng.standard_normal((2, each, DIM)).astype(np.float32), t) for each, t in zip(rows, of)]


def in_torch(x):
    from hga.torch._operators import tensor_of

    return tensor_of(np.ascontiguousarray(x))


def doors(h, x):
    """Ways of calling attention: a function of its options, for each."""
    found = {"numpy": lambda **more: h.attention(*x, **more)}
    if torch:
        t = [in_torch(a) for a in x]
        found["torch"] = lambda **more: h.attention(*t, **more)
        found["with a gradient"] = lambda **more: h.attention(t[0].clone().requires_grad_(), *t[1:], **more)
        if not isinstance(h, hga._graphs.by_content.ByContent):
            found["hga.torch"] = lambda **more: hga.torch.attention(h, *t, **more)
            found["watched"] = lambda **more: torch.func.vmap(lambda *one: h.attention(*one, **more))(*(a[None] for a in t))
    return found


SAID = ({}, {"dropout": 0.25, "seed": 7}, {"layout": "bnhd"}, {"lse": True}, {"precision": "bf16"}, {"threads": 2, "layer": 3}, {"scale": 0.3}, {"normaliser": "sigmoid"})


class Drawn(unittest.TestCase):
    def check_one(self, call, said, more, **where):
        with self.subTest(said=said, more=more, **where):
            try:
                want = bits(call(**said))
            except hga.Error:  # what is said is not offered there
                with self.assertRaises(hga.Error):
                    call(**said, **more)
                return
            self.assertEqual(bits(call(**said, **more)), want)

    def check_calls(self, seed):
        rng, options = np.random.default_rng(seed), Options(hga.Hierarchy.attention)
        gradients = Options(hga.Hierarchy.gradient)
        for name, h in hierarchies():
            for i in range(CALLS):
                said = dict(SAID[rng.integers(len(SAID))])
                if name == "treeformer-coarse" and {"normaliser", "lse"} & set(said):
                    continue  # which has neither
                x = tensors(rng, h)
                x = [np.swapaxes(a, 0, 1) for a in x] if "layout" in said else x
                calls = doors(h, x)
                more = options.drawn(rng, said)
                for door in calls if i == 0 else [list(calls)[rng.integers(len(calls))]]:
                    self.check_one(calls[door], said, more, of=name, door=door, types=[str(a.dtype) for a in x])
                if hasattr(h, "gradient") and "lse" not in said:
                    more = gradients.drawn(rng, said)
                    self.check_one(lambda **m: h.gradient(*x, x[0], **m), said, more, of=name, door="gradient", types=[str(a.dtype) for a in x])  # noqa: B023

    def test_options_that_are_spelt_change_no_bit_of_a_call(self):
        self.check_calls(1)

    def test_nor_where_pairs_of_bfloat16_are_multiplied(self):
        with pairs():
            self.check_calls(2)

    def test_every_option_by_itself(self):
        options = Options(hga.Hierarchy.attention)
        for h in (hga.fenwick(N), hga.routed(N, block=8, k=2)):
            rng = np.random.default_rng(3)
            x = [narrowed(rng.standard_normal((2, N, DIM)).astype(np.float32), BF16) for _ in range(3)]
            with pairs():
                for door, call in doors(h, x).items():
                    want = bits(call())
                    for name in options.of:
                        for way in options.ways(name):
                            with self.subTest(door=door, **{name: way}):
                                self.assertEqual(bits(call(**{name: way})), want)

    def test_a_scale_that_is_spelt_is_that_of_any_dimension(self):
        rng = np.random.default_rng(4)
        for dim in range(1, 130):
            x = [rng.standard_normal((1, 6, dim)).astype(np.float32) for _ in range(3)]
            h = hga.dense(6)
            self.assertEqual(bits(h.attention(*x)), bits(h.attention(*x, scale=1 / math.sqrt(dim))), dim)

    def test_weights_pages_and_plans_do_not_change(self):
        rng = np.random.default_rng(5)
        for name, h in hierarchies():
            if not isinstance(h, hga.Hierarchy) or isinstance(h, hga._graphs.hierarchy.FoldedHierarchy):
                continue
            q, k, _ = tensors(rng, h)
            calls = [(lambda **m: h.weights(q, k, 5, **m), {}), (lambda **m: h.view(q=q, k=k, **m), {}), (lambda **m: h.view(**m), {"scale": None})]
            for call, said in calls[: None if name != "treeformer-coarse" else 0]:  # which has no scores
                want, more = bits(call()), Options(hga.Hierarchy.weights).drawn(rng, said)
                with self.subTest(of=name, more=more):
                    self.assertEqual(bits(call(**said, **more)), want)
            self.assertEqual(h.explain(heads=None, dim=None, threads=None, gradient=None), h.explain())
            self.assertEqual(h.explain(heads=8, dim=64, threads=0, gradient=False), h.explain())
            self.assertEqual(h.plan(heads=8, dim=64, threads=None), h.plan())
            self.assertEqual(h.coverage(causal=None), h.coverage(causal=False))

    def test_none_of_what_a_call_cannot_do_without_is_refused(self):
        for wrong in (lambda: hga.dense(4).decoder(heads=None, dim=8), lambda: hga.dense(4).decoder(heads=1, dim=None)):
            with self.assertRaisesRegex(TypeError, "heads|dim"):
                wrong()

    def test_an_ordered_hierarchy_says_what_is_wrong_with_an_option(self):
        h, x = hga.window(N, left=3).order("rcm"), tensors(np.random.default_rng(1), hga.window(N, left=3))
        refused(self, "seed is 1.5, not a whole number", lambda: h.attention(*x, dropout=0.5, seed=1.5))


class OfChoices(unittest.TestCase):
    """What ``choice``, ``hierarchy`` and ``view`` find is what ``attention`` attends to."""

    def setUp(self):
        rng = np.random.default_rng(11)
        q, k, v = (rng.standard_normal((4, 256, 32)).astype(np.float32) for _ in range(3))
        k = k + rng.standard_normal((4, 1, 32)).astype(np.float32) * 2
        self.wide = q, k, v
        self.x = [narrowed(a, BF16) for a in self.wide]

    def check(self, x, **more):
        of_choice = {name: more[name] for name in ("precision", "isa", "scale") if name in more}
        for h in (hga.routed(block=8, k=6, causal=True), hga.routed(256, block=8, threshold=0.4, share="all"), hga.routed([100, 156], block=8, k=3)):
            want = bits(h.attention(*x, **more))
            choice = h.choice(*x[:2], **of_choice)
            self.assertEqual(bits(h.attention(*x, choice=choice, **more)), want)
            self.assertEqual(bits(h.hierarchy(*x[:2], **of_choice).attention(*x, **more)), want)
            self.assertEqual(h.hierarchy(*x[:2], head=1, **of_choice), h.hierarchy(*x[:2], head=1, choice=choice))
            self.assertEqual(h.view(*x[:2], head=1, **of_choice), h.view(*x[:2], head=1, choice=choice))
            if h.lengths is None or len(h.lengths) == 1:
                twice = [np.stack([a, a[::-1]]) for a in x]
                choice = h.choice(*twice[:2], **of_choice)
                self.assertEqual(bits(h.attention(*twice, **more)), bits(h.attention(*twice, choice=choice, **more)))

    def test_of_every_type_and_precision(self):
        q, k, v = self.x
        for x in (self.x, self.wide, [a.astype(np.float16) for a in self.wide], (q, k, self.wide[2]), (q, self.wide[1], v)):
            for more in ({}, {"precision": None}, {"precision": "bf16"}, {"precision": "f32", "scale": 0.4}, {"isa": "ref"}):
                for pretending in (contextlib.nullcontext, pairs):
                    with self.subTest(types=[a.dtype for a in x], more=more, pretending=pretending), pretending():
                        self.check(x, **more)

    def test_a_normaliser_changes_no_choice(self):
        with pairs():
            for words in ("softmax", "sigmoid", "entmax:1.5"):
                self.check(self.x, normaliser=words)

    def test_bf16_products_choose_otherwise_so_that_these_facts_say_something(self):
        h = hga.routed(block=8, k=6, causal=True)
        self.assertFalse(np.array_equal(h.choice(*self.x[:2], precision="bf16"), h.choice(*self.x[:2], precision="f32")))

    def test_an_instruction_set_that_is_named_chooses_too(self):
        h = hga.routed(256, block=8, k=3, causal=True)
        for isa in hga.isa_list().split():
            cache = h.decoder(heads=4, dim=32, same=True, isa=isa).cache()
            got = np.concatenate([cache.append(*(a[:, i : i + 37] for a in self.wide)) for i in range(0, 256, 37)], 1)
            self.assertEqual(bits(got), bits(h.attention(*self.wide, isa=isa)), isa)
        refused(self, "abacus", lambda: h.choice(*self.wide[:2], isa="abacus"))


class OfDecoders(unittest.TestCase):
    """A decoder's options, of every causal variant: rows of all appends, of float32 and of bfloat16."""

    SPELT = {"kv_heads": [2], "dim_v": [DIM], "page_rows": [16]}

    def rows(self, h, x, cuts, **more):
        cache = h.decoder(heads=2, dim=DIM, **more).cache()
        return bits([cache.append(*(a[:, i:end] for a in x)) for i, end in zip(cuts, cuts[1:])])

    def test_options_that_are_spelt_change_no_bit_of_a_row(self):
        rng, options, seen = np.random.default_rng(21), Options(hga.Hierarchy.decoder), 0
        options.ways = lambda name: [options.of[name], None, *SPELT.get(name, []), *self.SPELT.get(name, [])]
        causal = [(words, hga.build(words, N)) for words in ("dense:causal=1", "htransformer:block=4:causal=1", "hsa:branching=4:causal=1", "bpt:k=2:causal=1")]
        for name, h in [*hierarchies(), *causal]:
            x = [rng.standard_normal((2, N, DIM)).astype(np.float32) for _ in range(3)]
            cuts = [0, 7, 8, N]
            for said in ({}, {"same": True}, {"page_type": "bf16"}, {"normaliser": "sigmoid"}, {"threads": 2, "rollback": 3}):
                for rows in (x, [narrowed(a, BF16) for a in x]):
                    more = options.drawn(rng, said)
                    with self.subTest(of=name, said=said, more=more):
                        try:
                            want = self.rows(h, rows, cuts, **said)
                        except hga.Error:  # no decoder, or not with what is said
                            with self.assertRaises(hga.Error):
                                self.rows(h, rows, cuts, **said, **more)
                            continue
                        self.assertEqual(self.rows(h, rows, cuts, **said, **more), want)
                        seen += 1
        self.assertGreater(seen, 50)


@needs_tool
class OfTheTool(unittest.TestCase):
    FLAGS = (["--precision", "f32"], ["--normaliser", "softmax"], ["--dropout", "0"], ["--seed", "0"], ["--layer", "0"], ["--threads", "1"],
             ["--isa", ISA], ["--bind", "auto"], ["--scale", repr(1 / math.sqrt(DIM))])  # fmt: skip

    def test_flags_that_are_spelt_as_their_defaults_change_no_byte(self):
        rng = np.random.default_rng(8)
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, f"{name}.npy") for name in ("query", "key", "value")]
            for file in files:
                np.save(file, rng.standard_normal((32, 2, DIM)).astype(np.float32))
            for words in ("dense:causal", "window:left=4", "fenwick", "htransformer:block=4", "hsa:branching=4", "routed:block=4:k=2:causal"):
                out = self.attended(words, files, folder)
                for flags in (*([f] for f in self.FLAGS), self.FLAGS[::2], self.FLAGS[1::2], self.FLAGS):
                    with self.subTest(words=words, flags=flags):
                        self.assertEqual(self.attended(words, files, folder, *sum(flags, [])), out)

    def attended(self, words, files, folder, *flags):
        name, *settings = words.split(":")
        out = os.path.join(folder, "out.npy")
        given = [f"--{kind}={file}" for kind, file in zip(("query", "key", "value"), files)]
        command = [TOOL, "attend", name, *(f"-p{s if '=' in s else f'{s}=1'}" for s in settings), *given, *flags, f"--out={out}"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        with open(out, "rb") as file:
            return file.read()


@needs_tool
class OfChoosing(unittest.TestCase):
    """``hga.choose``: what it finds, but for seconds."""

    def found(self, x, **more):
        rows = hga.choose(*x, **{"variants": "window,htransformer", "seconds": 0, **more})
        return [(r["variant"], r["parameters"], r["relative_l2"], r["mean_kl"]) for r in sorted(rows, key=lambda r: (r["variant"], r["parameters"]))]

    def setUp(self):
        rng = np.random.default_rng(13)
        self.wide = [rng.standard_normal((2, N, DIM)).astype(np.float32) for _ in range(3)]
        self.x = [narrowed(a, BF16) for a in self.wide]

    def test_options_that_are_spelt_change_no_row(self):
        options = Options(hga.choose, without=("variants", "seconds", "progress"))
        rng, want = np.random.default_rng(14), self.found(self.wide)
        for name in options.of:
            for way in options.ways(name):
                with self.subTest(**{name: way}):
                    self.assertEqual(self.found(self.wide, **{name: way}), want)
        for more in (options.drawn(rng, {}) for _ in range(3)):
            self.assertEqual(self.found(self.wide, **more), want, more)
        hga.choose(*self.wide, variants="window", seconds=None, progress=None)

    def test_precision_follows_the_tensors_as_that_of_attention_does(self):
        exact, rounded = (self.found(self.x, precision=p) for p in ("f32", "bf16"))
        self.assertNotEqual(exact, rounded)
        for more in ({}, {"precision": None}, {"precision": "auto"}, {"normaliser": "softmax"}):
            with pairs():
                self.assertEqual(self.found(self.x, **more), rounded, more)
                self.assertEqual(self.found([*self.x[:2], self.wide[2]], **more), self.found([*self.x[:2], self.wide[2]], precision="f32"))
            with unittest.mock.patch("hga._core.precision.multiplies_pairs", lambda isa: False):
                self.assertEqual(self.found(self.x, **more), exact, more)
        with pairs():
            self.assertEqual(*(self.found(self.x, normaliser="sigmoid", **more) for more in ({}, {"precision": "f32"})))
        refused(self, "precision", lambda: hga.choose(*self.x, precision="bf17"))


@needs("torch")
class OfModules(unittest.TestCase):
    def test_a_normaliser_that_names_keep_by_themselves_is_no_normaliser(self):
        x, hidden = torch.randn(2, 20, 16), torch.zeros(2, 20, dtype=torch.bool)
        hidden[0, 13:] = True
        layers = []
        for more in ({}, {"normaliser": "softmax"}, {"normalizer": "softmax"}, {"normaliser": None}):
            torch.manual_seed(0)
            layers.append(hga.torch.Attention("htransformer:block=4", 16, 2, **more).eval())
        for layer in layers[1:]:
            self.assertTrue(torch.equal(layer(x), layers[0](x)))
            self.assertTrue(torch.equal(layer(x, key_padding_mask=hidden), layers[0](x, key_padding_mask=hidden)))
            self.assertTrue(torch.equal(layer(x, lengths=[13, 20]), layers[0](x, lengths=[13, 20])))

    def test_options_that_are_spelt_change_no_bit_of_a_row(self):
        """Of modules: left out, as the signature has them, and None."""
        x = torch.randn(2, N, 16)
        of_torch = hga.torch.MultiheadAttention
        made = {
            hga.torch.Attention: lambda **more: hga.torch.Attention("fenwick", 16, 2, **more),
            of_torch: lambda **more: of_torch(16, 2, **{"spec": "window:left=5", "batch_first": True, **more}),
        }
        for module, make in made.items():
            of = inspect.signature(module.__init__).parameters.values()
            of = {p.name: p.default for p in of if p.default is not p.empty and p.name not in ("spec", "batch_first", "device", "dtype")}
            self.assertGreater(len(of), 4)
            for option, default in of.items():
                for way in (default, *([] if isinstance(default, bool) else [None]), *SPELT.get(option, [])):
                    with self.subTest(module=module.__name__, **{option: way}):
                        outs = []
                        for more in ({}, {option: way}):
                            torch.manual_seed(0)
                            layer = make(**more).eval()
                            outs.append(bits(layer(x, x, x) if module is of_torch else layer(x)))
                        self.assertEqual(*outs)

    def test_a_compiled_call_takes_them_too(self):
        options = Options(hga.Hierarchy.attention)
        h, x = hga.fenwick(N), [torch.randn(2, N, DIM).bfloat16() for _ in range(3)]
        with pairs():
            for more in ({}, {name: way for name in options.of if name != "normalizer" for way in options.ways(name)[:1]},
                         dict.fromkeys(options.of), {"normaliser": "softmax", "precision": None, "threads": None}):  # fmt: skip
                torch._dynamo.reset()
                called = torch.compile(lambda *a: h.attention(*a, **more), backend="aot_eager", fullgraph=True)  # noqa: B023
                self.assertTrue(torch.equal(called(*x), h.attention(*x)), more)


@needs("torch")
class Checkpointed(unittest.TestCase):
    """torch.utils.checkpoint runs forward twice. With use_reentrant=True the first time records nothing, as in evaluation."""

    def results(self, h, x, reentrant, **more):
        from torch.utils.checkpoint import checkpoint

        leaves = [a.clone().requires_grad_() for a in x]

        def called(*a):
            return h.attention(*a, **more)

        out = called(*leaves) if reentrant is None else checkpoint(called, *leaves, use_reentrant=reentrant)
        out.float().pow(2).sum().backward()
        return [out.detach(), *(a.grad for a in leaves)]

    def cases(self, dtype):
        torch.manual_seed(5)
        for name, h in hierarchies():
            x = tensors(np.random.default_rng(5), h)
            yield name, h, [torch.randn(a.shape).to(dtype) for a in x]

    def test_in_float32_and_in_a_precision_that_is_said_both_kinds_have_the_bits_of_none(self):
        for dtype, more in ((torch.float32, {}), (torch.float32, {"dropout": 0.3, "seed": 5}), (torch.float16, {}),
                            (torch.bfloat16, {"precision": "f32"}), (torch.bfloat16, {"precision": "bf16"})):  # fmt: skip
            for name, h, x in self.cases(dtype):
                want = self.results(h, x, None, **more)
                for reentrant in (False, True):
                    with pairs(), self.subTest(of=name, dtype=dtype, more=more, reentrant=reentrant):
                        self.assertEqual(bits(self.results(h, x, reentrant, **more)), bits(want))

    def test_in_bfloat16_a_reentrant_one_of_a_tree_has_the_output_of_evaluation(self):
        with pairs():
            for name, h, x in self.cases(torch.bfloat16):
                want, evaluated = self.results(h, x, None), h.attention(*x)
                self.assertEqual(bits(self.results(h, x, False)), bits(want), name)
                out, *gradients = self.results(h, x, True)
                self.assertEqual(bits(out), bits(evaluated), name)
                for got, right in zip(gradients, want[1:]):
                    self.assertLess((got - right).float().norm(), 0.01 * right.float().norm() + 1e-6, name)

    def test_modules_with_dropout_draw_the_same_again(self):
        from torch.utils.checkpoint import checkpoint

        layer = hga.torch.Attention("htransformer:block=4", 16, 2, dropout=0.3)
        x = torch.randn(2, 20, 16)
        found = []
        for reentrant in (None, False, True):
            torch.manual_seed(9)
            leaf = x.clone().requires_grad_()
            out = layer(leaf) if reentrant is None else checkpoint(layer, leaf, use_reentrant=reentrant)
            out.pow(2).sum().backward()
            found.append((out, leaf.grad))
        for got in found[1:]:
            self.assertEqual(bits(got), bits(found[0]))
