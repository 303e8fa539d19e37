"""hga.onnx passes the standard's own node tests of Attention and FlexAttention, gives what onnx's reference gives of
drawn calls, and makes models' attention hierarchical."""

import collections
import importlib.util
import unittest
import warnings
from unittest import mock

import hga
import numpy as np
from since import older, since

ONNX = importlib.util.find_spec("onnx") is not None

if ONNX:
    import hga.onnx
    import onnx
    from onnx import TensorProto, helper
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.runner import Runner
    from onnx.reference import ReferenceEvaluator

    OPSET = min(onnx.defs.onnx_opset_version(), 26)

    def cases():
        """The standard's, 104 of them in onnx 1.23."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [c for c in collect_testcases(None) if {n.op_type for n in c.model.graph.node} & {"Attention", "FlexAttention"}]

    def run(model, inputs, new_ops=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, about rows that see nothing
            names = [i.name for i in model.graph.input]
            return ReferenceEvaluator(model, new_ops=new_ops).run(None, {n: x for n, x in zip(names, inputs) if x is not None})

    def value(name, x=None, shape=None):
        kinds = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
        return helper.make_tensor_value_info(name, kinds[x.dtype.name] if x is not None else TensorProto.FLOAT, shape)

    def attention(inputs, outputs=("Y",), opset=OPSET, **attributes):
        """A model of one Attention; `inputs` by name, None where there is none."""
        names = list(inputs)
        node = helper.make_node("Attention", [n if inputs[n] is not None else "" for n in names], list(outputs), **attributes)
        given = [value(n, x) for n, x in inputs.items() if x is not None]
        graph = helper.make_graph([node], "g", given, [value(n) for n in outputs if n])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


REFUSED = {  # of the standard's tests, and why
    "rank4_mask": "DOUBLE",
    "prob_mod": "prob_mod",
    "flexattention_double": "float64",
}


def why_refused(name):
    return next((why for part, why in REFUSED.items() if part in name and "ext_cache" not in name), None)


def softcap_came_later(model):
    """Does it have what the standard ordered otherwise before onnx 1.22?"""
    node, given = model.graph.node[0], {a.name: helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    masked = given.get("is_causal") or any(node.input[3:4]) or any(node.input[6:7])
    scores = len(node.output) > 3 and given.get("qk_matmul_output_mode", 0) in (1, 2)
    return older("onnx", "1.22") and bool((masked and given.get("softcap")) or scores)


@unittest.skipUnless(ONNX, "onnx is not installed")
class Standard(unittest.TestCase):
    @since("onnx", "1.20")  # with whose tests numpy still made truth values
    def test_the_standards_node_tests(self):
        found = collections.Counter()
        plans = collections.Counter()
        forward = hga.Hierarchy._forward
        with mock.patch.object(hga.Hierarchy, "_forward", lambda self, *a: plans.update([1]) or forward(self, *a)):
            for case in cases():
                with self.subTest(case.name):
                    why = why_refused(case.name)
                    for inputs, outputs in case.data_sets:
                        if why is not None:
                            with self.assertRaisesRegex(NotImplementedError, why):
                                run(case.model, inputs, hga.onnx.ops)
                            found["refused"] += 1
                            continue
                        before = plans[1]
                        if softcap_came_later(case.model):
                            with self.assertRaisesRegex(NotImplementedError, "needs onnx 1.22 or newer"):
                                run(case.model, inputs, hga.onnx.ops)
                            continue
                        Runner.assert_similar_outputs(outputs, run(case.model, inputs, hga.onnx.ops), case.rtol, case.atol)
                        self.assertGreater(plans[1], before, "the engine did not run")
                        found["right"] += 1
        self.assertGreaterEqual(found["right"], sum(found.values()) - 8)
        if not older("onnx", "1.23"):
            self.assertEqual(sum(found.values()), 104)


@unittest.skipUnless(ONNX, "onnx is not installed")
class Drawn(unittest.TestCase):
    def draw(self, rng):
        """A call of Attention with whatever it may have: (inputs by name, attributes)."""
        flip = lambda p=0.5: rng.random() < p  # noqa: E731
        batch, kv, each, n, m, dim = (int(x) for x in rng.integers([1, 1, 1, 1, 1, 2], [4, 3, 4, 7, 9, 9]))
        dim_v, heads, past = dim + int(rng.integers(0, 3)), kv * each, int(rng.integers(0, 5)) if flip() else 0
        make = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
        flat = flip(0.4)
        axes = lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1) if flat else x  # noqa: E731
        inputs = {"Q": axes(make(batch, heads, n, dim)), "K": axes(make(batch, kv, m, dim)), "V": axes(make(batch, kv, m, dim_v))}
        total = m + past
        mask = None
        attributes = {"is_causal": int(flip())}
        if flip(0.4):
            attributes.update(left_window_size=int(rng.integers(-1, 5)), right_window_size=int(rng.integers(-1, 5)))
        if flip(0.6):
            shape = [(n, total), (heads, n, total), (batch, heads, n, total), (batch, 1, n, total), (total,), (1, total), (1, 1, 1, total)]
            shape = shape[:4] if attributes["is_causal"] else shape  # onnx 1.23.2 gives one row's causality to all that share a mask
            mask = make(*shape[rng.integers(len(shape))])
            if flip():
                mask = mask > -0.8
            elif flip(0.4):
                mask[mask < -0.8] = -np.inf
        inputs["attn_mask"] = mask
        inputs["past_key"], inputs["past_value"] = (make(batch, kv, past, d) if past else None for d in (dim, dim_v))
        inputs["nonpad_kv_seqlen"] = rng.integers(0, m + 1, batch).astype(np.int64) if not past and flip(0.3) else None
        if flip(0.4):
            attributes["scale"] = float(rng.uniform(0.05, 1.5))
        if flat:
            attributes.update(q_num_heads=heads, kv_num_heads=kv)
        if flip(0.3):
            attributes["softcap"] = float(rng.uniform(0.3, 3))
        if flip(0.5) or "softcap" in attributes:  # onnx 1.23.2 caps the scores of mode 0 as well
            attributes["qk_matmul_output_mode"] = int(rng.integers("softcap" in attributes, 4))
        return inputs, attributes

    @since("onnx", "1.23")  # older references have faults with bool masks that are causal, lengths and three axes
    def test_drawn_calls_are_the_references(self):
        for seed in range(250):
            inputs, attributes = self.draw(np.random.default_rng(seed))
            outputs = ("Y", "present_key", "present_value", "scores") if seed % 3 else ("Y",)
            model = attention(inputs, outputs, **attributes)
            given = [x for x in inputs.values() if x is not None]
            want, mine = run(model, given), run(model, given, hga.onnx.ops)
            self.assertEqual(len(mine), len(outputs))
            for a, b, name in zip(mine, want, outputs):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), (seed, name))
                np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-4, err_msg=f"{seed} {name} {attributes}")

    @since("onnx", "1.22")
    def test_drawn_score_mods_are_the_references(self):
        """Sums, products and masks of scores, in any order that is understood."""
        rng = np.random.default_rng(8)
        for seed in range(40):
            q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 3)))
            nodes, constants, at, masked = [], [], "s", False
            for i in range(int(rng.integers(1, 5))):
                kind = rng.choice(["Add", "Sub", "from", "Mul", "Div", "Where", "Neg", "Identity"])
                if masked and kind in ("from", "Neg"):
                    continue
                shape = [(), (5, 7), (4, 1, 7), (2, 4, 5, 7)][rng.integers(4)] if kind in ("Add", "Sub", "from") else ()
                number = np.asarray(rng.uniform(0.5, 2, shape), np.float32)
                if kind == "Where":
                    masked = True
                    mask = rng.random((5, 7)) < 0.7
                    mask[:, 0] = True
                    constants += [onnx.numpy_helper.from_array(mask, f"m{i}"), onnx.numpy_helper.from_array(np.float32(-np.inf), f"c{i}")]
                    nodes.append(helper.make_node("Where", [f"m{i}", at, f"c{i}"], [f"x{i}"]))
                elif kind in ("Neg", "Identity"):
                    nodes.append(helper.make_node(kind, [at], [f"x{i}"]))
                else:
                    constants.append(onnx.numpy_helper.from_array(number, f"c{i}"))
                    sides = [f"c{i}", at] if kind == "from" else [at, f"c{i}"]
                    nodes.append(helper.make_node("Sub" if kind == "from" else kind, sides, [f"x{i}"]))
                at = f"x{i}"
            nodes.append(helper.make_node("Identity", [at], ["out"]))
            inner = helper.make_graph(nodes, "mod", [value("s")], [value("out")], constants)
            model, given = self.flex(inner, q, k, v)
            np.testing.assert_allclose(run(model, given, hga.onnx.ops)[0], run(model, given)[0], atol=2e-5, err_msg=str(seed))
            np.testing.assert_allclose(run(model, given)[0], run(model, given)[0])

    @staticmethod
    def flex(score_mod, q, k, v):
        node = helper.make_node("FlexAttention", ["Q", "K", "V"], ["Y"], domain="ai.onnx.preview")
        if score_mod is not None:
            node.attribute.append(helper.make_attribute("score_mod", score_mod))
        graph = helper.make_graph([node], "g", [value(n, x) for n, x in zip("QKV", (q, k, v))], [value("Y")])
        opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
        return helper.make_model(graph, opset_imports=opsets), [q, k, v]

    @since("onnx", "1.22")
    def test_score_mods_that_are_not_understood_are_named(self):
        q, k, v = (np.ones((1, 1, 3, 2), np.float32) for _ in range(3))
        for words, nodes in {
            "Exp of the scores": [helper.make_node("Exp", ["s"], ["out"])],
            "Mul reads n, as another": [helper.make_node("Neg", ["s"], ["n"]), helper.make_node("Mul", ["n", "n"], ["out"])],
            "does not depend": [helper.make_node("Shape", ["s"], ["n"]), helper.make_node("Cast", ["n"], ["out"], to=TensorProto.FLOAT)],
            "one way only": [helper.make_node("Neg", ["s"], ["n"]), helper.make_node("Add", ["s", "n"], ["out"])],
            "FLOAT16": [helper.make_node("Cast", ["s"], ["h"], to=TensorProto.FLOAT16), helper.make_node("Cast", ["h"], ["out"], to=TensorProto.FLOAT)],
        }.items():
            model, given = self.flex(helper.make_graph(nodes, "mod", [value("s")], [value("out")]), q, k, v)
            with self.subTest(words), self.assertRaisesRegex(NotImplementedError, words):
                run(model, given, hga.onnx.ops)

    def test_wrong_calls_are_refused(self):
        x = np.ones((1, 2, 3, 4), np.float32)
        for words, inputs, attributes in (
            ("float64", {"Q": x.astype(np.float64), "K": x, "V": x}, {}),
            ("3 query heads, 2 key heads", {"Q": np.ones((1, 3, 3, 4), np.float32), "K": x, "V": x}, {}),
            ("belong together", {"Q": x, "K": x, "V": x, "attn_mask": None, "past_key": x, "past_value": None}, {}),
            ("left_window_size is -2", {"Q": x, "K": x, "V": x}, {"left_window_size": -2}),
            ("takes its root", {"Q": x, "K": x, "V": x}, {"scale": -1.0}),
            ("do not divide", {"Q": x[0], "K": x[0], "V": x[0]}, {"q_num_heads": 3, "kv_num_heads": 3}),
            *([("three axes", {"Q": x, "K": x, "V": x}, {"q_num_heads": 2})] if OPSET >= 25 else []),
        ):
            op = hga.onnx.Attention(helper.make_node("Attention", list(inputs), ["Y"], **attributes),
                                    {"log": None, "opsets": {"": OPSET}, "new_ops": None, "verbose": 0})  # fmt: skip
            with self.subTest(words), self.assertRaisesRegex(hga.Error, words):
                op._run(*inputs.values(), **attributes)


@unittest.skipUnless(ONNX, "onnx is not installed")
class Models(unittest.TestCase):
    N, WIDTH, HEADS = 48, 16, 4

    def model(self, opset=23, **attributes):
        """Two layers of projections and attention, as exporters write them."""
        rng = np.random.default_rng(2)
        nodes, constants, x = [], [], "x"
        for layer in range(2):
            for name in "qkv":
                w = (rng.standard_normal((self.WIDTH, self.WIDTH)) / 4).astype(np.float32)
                constants.append(onnx.numpy_helper.from_array(w, f"w{name}{layer}"))
                nodes.append(helper.make_node("MatMul", [x, f"w{name}{layer}"], [f"{name}{layer}"]))
            given = {"q_num_heads": self.HEADS, "kv_num_heads": self.HEADS, **attributes}
            nodes.append(helper.make_node("Attention", [f"{n}{layer}" for n in "qkv"], [f"a{layer}"], name=f"attention {layer}", **given))
            x = f"a{layer}"
        shape = ["batch", "tokens", self.WIDTH]
        graph = helper.make_graph(nodes, "g", [value("x", shape=shape)], [value(x, shape=shape)], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])

    def by_hand(self, model, x, h, **options):
        w = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
        for layer in range(2):
            q, k, v = ((x @ w[f"w{n}{layer}"]).reshape(*x.shape[:2], self.HEADS, -1) for n in "qkv")
            x = h.attention(q, k, v, layout="bnhd", **options).reshape(x.shape)
        return x

    def test_attention_becomes_hierarchical(self):
        x = np.random.default_rng(3).standard_normal((2, self.N, self.WIDTH)).astype(np.float32)
        for spec, attributes, h in (
            ("htransformer:block=4", {}, hga.htransformer(self.N, block=4)),
            ("htransformer:block=4", {"is_causal": 1}, hga.htransformer(self.N, block=4, causal=True)),
            ("hsa:branching=4,4", {"scale": 0.3}, hga.hsa(self.N, branching=[4, 4])),
        ):
            with self.subTest(spec, **attributes):
                model = self.model(**attributes)
                before = model.SerializeToString()
                made = hga.onnx.rewrite(model, spec)
                self.assertEqual(model.SerializeToString(), before)  # the caller's is left alone
                self.assertEqual([n.op_type for n in made.graph.node].count("HierarchicalAttention"), 2)
                self.assertEqual([n.op_type for n in made.graph.node].count("Attention"), 0)
                onnx.checker.check_model(made)
                again = onnx.load_from_string(made.SerializeToString())
                options = {"scale": attributes["scale"]} if "scale" in attributes else {}
                np.testing.assert_allclose(run(again, [x], hga.onnx.ops)[0], self.by_hand(model, x, h, **options), atol=1e-5)
        exact = hga.onnx.rewrite(self.model(), "dense")
        if not older("onnx", "1.20"):  # what attends to everything is what was there
            np.testing.assert_allclose(run(exact, [x], hga.onnx.ops)[0], run(self.model(), [x])[0], atol=1e-5)

    def test_what_cannot_be_rewritten_is_named(self):
        x = np.ones((1, 2, 3, 4), np.float32)
        mask = attention({"Q": x, "K": x, "V": x, "attn_mask": x[0, 0, :, :3]}, opset=23)
        cache = attention({"Q": x, "K": x, "V": x}, ("Y", "present_key", "present_value"), opset=23)
        none = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value("x")], [value("y")]))
        for kind, words, call in (
            (NotImplementedError, "node Y: input attn_mask", lambda: hga.onnx.rewrite(mask, "dense")),
            (NotImplementedError, "output present_key", lambda: hga.onnx.rewrite(cache, "dense")),
            (NotImplementedError, "left_window_size", lambda: hga.onnx.rewrite(self.model(25, left_window_size=3), "dense")),
            (ValueError, "no node Attention", lambda: hga.onnx.rewrite(none, "dense")),
            (ValueError, "no variant 'dens'", lambda: hga.onnx.rewrite(self.model(), "dens")),
            (ValueError, "cannot be", lambda: hga.onnx.rewrite(self.model(is_causal=1), "treeformer-coarse:height=2")),
            (TypeError, "not an onnx.ModelProto", lambda: hga.onnx.rewrite("model.onnx", "dense")),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()
