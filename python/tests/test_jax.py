"""hga.jax has numpy's bits and gradients under every transform, with tables, seeds and types, in exported programs,
from many threads."""

import collections
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import hga
import numpy as np
from shared import ROOT, at_once, needs, package, refused, refused_each
from since import older

jax = package("jax")
if jax:
    import jax.export
    import jax.numpy as jnp

BUILT = jax and hga._core.library.lib.hga_py_jax_handler(0) != hga._core.library.ffi.NULL
if BUILT:
    import hga.jax

    attention = hga.jax.attention

N, HEADS, DIM = 48, 4, 8
VARIANTS = {
    "dense": lambda: hga.dense(N, causal=True), "window": lambda: hga.window(N, left=5, right=3),
    "htransformer": lambda: hga.htransformer(N, block=4, causal=True), "hsa": lambda: hga.hsa(N, branching=[3, 4, 4]),
    "fenwick": lambda: hga.fenwick(N), "bpt": lambda: hga.bpt(24, k=2), "ragged": lambda: hga.dense([17, 31]),
    "treeformer": lambda: hga.treeformer_fine(height=2, query_leaf=np.arange(N) * 7 % 4),
}  # fmt: skip


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def inputs(n=N, batch=(2,), heads=HEADS, kv_heads=HEADS, dim_v=DIM):
    return drawn(1, *batch, heads, n, DIM), drawn(2, *batch, kv_heads, n, DIM), drawn(3, *batch, kv_heads, n, dim_v)


def tables_of(h):
    """Some that the program takes, by name."""
    return {"scale": 0.3, "slopes": np.abs(drawn(4, HEADS)), "sink": drawn(5, HEADS)}


@needs("jax")
@unittest.skipIf(jax and not BUILT, "this build has no handlers for JAX")
class Jax(unittest.TestCase):
    def same(self, found, wanted, says=""):
        found, wanted = np.asarray(found), np.asarray(wanted)
        self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape), says)
        self.assertEqual(found.tobytes(), wanted.tobytes(), says)

    def loss(self, h, weight, names=(), **more):
        """sum(weight * out), of q, k, v and the named tables."""
        return lambda q, k, v, *tables: (weight * attention(h, q, k, v, **dict(zip(names, tables)), **more)).sum()

    def same_gradients(self, found, h, arrays, weight, names=(), tables=(), **more):
        wanted = h.gradient(*arrays, weight, needs_grad=["query", "key", "value", *names], **dict(zip(names, tables)), **more)
        for name, x in zip(("query", "key", "value", *names), found):
            self.same(x, wanted[name], name)


class Values(Jax):
    def test_every_variant_has_numpys_bits_and_gradients(self):
        for name, make in VARIANTS.items():
            h = make()
            x = inputs(h.rows)
            weight = drawn(9, *x[0].shape)
            with self.subTest(name):
                self.same(attention(h, *x), h.attention(*x))
                self.same_gradients(jax.grad(self.loss(h, weight), (0, 1, 2))(*x), h, x, weight)

    def test_under_jit_and_checkpoint_too(self):
        h, x = VARIANTS["htransformer"](), inputs()
        weight = drawn(9, *x[0].shape)
        self.same(jax.jit(lambda *x: attention(h, *x))(*x), h.attention(*x))
        for f in (jax.jit, jax.checkpoint, lambda f: jax.jit(jax.checkpoint(f))):
            self.same_gradients(jax.grad(f(self.loss(h, weight)), (0, 1, 2))(*x), h, x, weight)

    def test_one_program_by_different_inputs_in_turn(self):
        h, x = VARIANTS["dense"](), inputs()
        slopes, names = np.abs(drawn(4, HEADS)), ("query", "key", "value", "slopes")
        run = jax.jit(lambda *x: attention(h, *x[:3], slopes=x[3]).sum())
        wanted = h.gradient(*x, np.ones_like(x[0]), slopes=slopes)
        for of in ((0,), (0, 3), (1, 2), (3,), (0, 1, 2, 3)):
            for i, found in zip(of, jax.grad(run, of)(*x, slopes)):
                self.same(found, wanted[names[i]], of)

    def test_grouped_heads_two_axes_both_layouts_and_other_columns(self):
        h, x = VARIANTS["window"](), inputs(kv_heads=2, dim_v=5)
        self.same(attention(h, *x), h.attention(*x))
        swapped = [np.ascontiguousarray(np.swapaxes(a, 1, 2)) for a in x]
        self.same(attention(h, *swapped, layout="bnhd"), np.swapaxes(h.attention(*x), 1, 2))
        one = [a[0, 0] for a in x]
        for layout in ("bhnd", "bnhd"):
            self.same(attention(h, *one, layout=layout), h.attention(*one))
        weight = drawn(9, N, HEADS, 5)[None].repeat(2, 0)
        loss = self.loss(h, weight, layout="bnhd")
        self.same_gradients(jax.grad(loss, (0, 1, 2))(*swapped), h, swapped, weight, layout="bnhd")

    def test_log_sum_exps_and_their_gradients(self):
        h, x = VARIANTS["dense"](), inputs()
        out, lse = attention(h, *x, lse=True)
        self.same(out, h.attention(*x))
        self.same(lse, h.attention(*x, lse=True)[1])
        d_out, d_lse = drawn(9, *out.shape), drawn(10, *lse.shape)
        found = jax.vjp(lambda *x: attention(h, *x, lse=True), *x)[1]((d_out, d_lse))
        wanted = h.gradient(*x, d_out, d_lse=d_lse)
        for name, a in zip(("query", "key", "value"), found):
            self.same(a, wanted[name])

    def test_an_output_that_only_the_lse_reads_gets_zeros(self):
        h, x = VARIANTS["dense"](), inputs()
        found = jax.grad(lambda q: attention(h, q, x[1], x[2], lse=True)[1].sum())(x[0])
        lse = np.ones(x[0].shape[:-1], np.float32)
        self.same(found, h.gradient(*x, np.zeros_like(x[0]), d_lse=lse)["query"])

    def test_sixteen_bits(self):
        h, x = VARIANTS["window"](), inputs()
        for dtype in (jnp.bfloat16, jnp.float16):
            short = [jnp.asarray(a, dtype) for a in x]
            arrays = [np.asarray(a) for a in short]
            self.same(attention(h, *short), h.attention(*arrays))
            weight = np.asarray(jnp.asarray(drawn(9, *x[0].shape), dtype))
            self.same_gradients(jax.grad(self.loss(h, weight), (0, 1, 2))(*short), h, arrays, weight)
        self.same(attention(h, x[0], short[1], x[2]), h.attention(x[0], arrays[1], x[2]))

    def test_normalisers_and_precision(self):
        h, x = VARIANTS["window"](), inputs()
        for words in ("sigmoid", "sigmoid:-2", "entmax:1.5"):
            self.same(attention(h, *x, normaliser=words), h.attention(*x, normaliser=words), words)
        self.same(attention(h, *x, precision="bf16"), h.attention(*x, precision="bf16"))

    def test_an_order_and_a_tree_for_each_head(self):
        x = inputs(kv_heads=2)
        weight = drawn(9, *x[0].shape)
        for h in (VARIANTS["window"]().order("rcm"), hga.treeformer_fine(height=2, query_leaf=np.arange(N * HEADS).reshape(N, HEADS) * 7 % 4)):
            self.same(attention(h, *x), h.attention(*x))
            found = jax.grad(self.loss(h, weight), (0, 1, 2))(*x)
            wanted = h.gradient(*x, weight)
            for name, a in zip(("query", "key", "value"), found):
                np.testing.assert_allclose(a, wanted[name], rtol=1e-5, atol=1e-6)

    def test_no_samples(self):
        h, x = VARIANTS["window"](), inputs(batch=(0,))
        self.same(attention(h, *x), h.attention(*x))
        found = jax.grad(lambda s: attention(h, *x, slopes=s).sum())(np.abs(drawn(4, HEADS)))
        self.same(found, np.zeros(HEADS, np.float32))


class DotProductAttention(Jax):
    """jax.nn's own function is the oracle."""

    def test_dense_and_windows_are_as_jax_has_them(self):
        rng = np.random.default_rng(5)
        for shape, kv, keys in (((2, 20, 4, 16), 2, 20), ((20, 4, 16), 1, 20), ((1, 7, 4, 8), 2, 33)):
            q = jnp.asarray(rng.standard_normal(shape), np.float32)
            k, v = (jnp.asarray(rng.standard_normal((*shape[:-3], keys, kv, shape[-1])), np.float32) for _ in range(2))
            settings = [{}, {"scale": 0.3}, {"implementation": "xla"}]
            if keys == shape[-3]:
                settings += [{"is_causal": True}, {"local_window_size": (3, 2)}, {"local_window_size": 4, "is_causal": True}, {"local_window_size": (0, 5)}]
            for more in settings:
                # jax up to 0.5 forgets a window that stands alone, not one beside a mask
                beside = {"mask": jnp.ones((1, 1, shape[-3], keys), bool)} if "local_window_size" in more else {}
                ours, theirs = functools.partial(hga.jax.dot_product_attention, **more), functools.partial(jax.nn.dot_product_attention, **more, **beside)
                self.assertLess(abs(ours(q, k, v) - theirs(q, k, v)).max(), 3e-6, f"{shape} {more}")
                if len(more) == 1 and kv != 2:
                    continue
                grads = [jax.grad(lambda *x, f=f: jnp.sin(f(*x)).sum(), argnums=(0, 1, 2))(q, k, v) for f in (ours, theirs)]
                for a, b in zip(*grads):
                    self.assertLess(abs(a - b).max(), 2e-5, f"{shape} {more}")
        out, lse = hga.jax.dot_product_attention(q, k, v, return_residual=True)
        want = jax.nn.logsumexp(jnp.einsum("btnh,bsnh->bnts", q, jnp.repeat(k, 2, 2)) / 8**0.5, -1)
        self.assertLess(abs(lse - jnp.moveaxis(want, 1, 2)).max(), 1e-5)  # [batch][tokens][heads]

    def test_what_it_has_not_is_refused_with_what_has(self):
        q = jnp.zeros((1, 6, 2, 8), np.float32)
        f = hga.jax.dot_product_attention
        refused_each(self, (
            (lambda: f(q, q, q, jnp.zeros((1, 2, 6, 6))), "has no bias"),
            (lambda: f(q, q, q, mask=jnp.ones((1, 2, 6, 6), bool)), "Graph.from_mask"),
            (lambda: f(q, q, q, query_seq_lengths=jnp.ones(1, np.int32)), "several lengths"),
            (lambda: f(q, q, q, implementation="cudnn"), "implementation"),
            (lambda: f(q[0, 0], q, q), "three of these axes"),
            (lambda: f(q, q[:, :3], q[:, :3], is_causal=True), "of one text"),
            (lambda: f(q, q[:, :3], q[:, :3], local_window_size=2), "of one text"),
            (lambda: f(q, q, q, local_window_size=(1, 2, 3)), "one for the left"),
            (lambda: f(q, q, q, local_window_size=-1), "local_window_size"),
            (lambda: f(q, q, q, is_causal="no"), "is_causal"),
        ))  # fmt: skip


class Tables(Jax):
    def test_tables_and_numbers_with_their_gradients_traced_or_not(self):
        h, x = VARIANTS["dense"](), inputs()
        given, weight = tables_of(h), drawn(9, *x[0].shape)
        names, tables = list(given), list(given.values())
        self.same(attention(h, *x, **given), h.attention(*x, **given))
        for f in (lambda f: f, jax.jit):
            found = jax.grad(f(self.loss(h, weight, names)), tuple(range(6)))(*x, *tables)
            self.same_gradients(found, h, x, weight, names, tables)

    def test_types_edges_and_nodes(self):
        h, x = hga.bpt(24, k=2), inputs(hga.bpt(24, k=2).rows)
        rel_key, weight = drawn(4, 60, DIM), drawn(9, *x[0].shape)
        found = jax.grad(self.loss(h, weight, ["rel_key"]), (0, 1, 2, 3))(*x, rel_key)
        self.same_gradients(found, h, x, weight, ["rel_key"], [rel_key])
        h, x = VARIANTS["window"](), inputs()
        bias, weight = drawn(4, h.graph.n_edges()), drawn(9, *x[0].shape)
        found = jax.grad(self.loss(h, weight, ["edge_bias"]), (0, 1, 2, 3))(*x, bias)
        self.same_gradients(found, h, x, weight, ["edge_bias"], [bias])
        parent = [8, 8, 8, 9, 9, 9, 10, 10, 10, 10, -1]  # nodes are numbered otherwise than the library's
        h, x = hga.hsa(parent=parent), inputs(8)
        pos, weight = drawn(4, 11, 3), drawn(9, *x[0].shape)
        found = jax.grad(self.loss(h, weight, ["node_pos"]), (0, 1, 2, 3))(*x, pos)
        self.same_gradients(found, h, x, weight, ["node_pos"], [pos])

    def test_a_variants_own_table(self):
        h = hga.treeformer_coarse(N, height=2, query_leaf=np.arange(N) * 7 % 4, alpha=[0.5, 0.3, 0.2])
        x = inputs()
        self.same(attention(h, *x), h.attention(*x))

    def test_an_operand_of_sixteen_bits_gets_a_gradient_of_sixteen(self):
        h, x = VARIANTS["dense"](), inputs()
        slopes = jnp.abs(jnp.asarray(drawn(4, HEADS), jnp.bfloat16))
        found = jax.grad(lambda s: attention(h, *x, slopes=s).sum())(slopes)
        wide = h.gradient(*x, np.ones_like(x[0]), slopes=np.asarray(slopes.astype(np.float32)))["slopes"]
        self.same(found, jnp.asarray(wide).astype(jnp.bfloat16))

    def test_a_table_without_a_gradient_is_refused_where_one_is_wanted(self):
        plain = [name for name, row in hga._core.tables.ROWS.items() if row.is_keyword and not row.has_gradient]
        h, x = VARIANTS["window"](), inputs()
        self.assertIn("softcap", plain)
        refused(self, "no gradient of softcap", lambda: jax.grad(lambda c: attention(h, *x, softcap=c).sum())(20.0))
        self.same(jax.jit(lambda c: attention(h, *x, softcap=c))(20.0), h.attention(*x, softcap=20.0))


class Dropout(Jax):
    def test_a_seed_is_numpys_whether_it_is_traced_or_not(self):
        h, x = VARIANTS["dense"](), inputs()
        for seed in (0, 5, 2**40 + 7, 2**64 - 1):
            self.same(attention(h, *x, dropout=0.4, seed=seed, layer=3), h.attention(*x, dropout=0.4, seed=seed, layer=3), seed)
        traced = jax.jit(lambda s: attention(h, *x, dropout=0.4, seed=s))
        self.same(traced(5), h.attention(*x, dropout=0.4, seed=5))
        self.same(traced(jnp.array([5])), h.attention(*x, dropout=0.4, seed=5))
        self.assertFalse(np.array_equal(traced(5), traced(6)))

    def test_a_key_draws_one(self):
        h, x = VARIANTS["dense"](), inputs()
        weight = drawn(9, *x[0].shape)
        for key in (jax.random.key(3), jax.random.PRNGKey(3)):
            low, high = (int(half) for half in jax.random.bits(key, (2,), np.uint32))
            self.same(attention(h, *x, dropout=0.4, seed=key), h.attention(*x, dropout=0.4, seed=low | high << 32))
            found = jax.grad(self.loss(h, weight, dropout=0.4, seed=key), (0, 1, 2))(*x)
            self.same_gradients(found, h, x, weight, dropout=0.4, seed=low | high << 32)

    def test_samples_that_are_mapped_have_seeds_of_their_own(self):
        h, x = VARIANTS["dense"](), inputs()
        found = jax.vmap(lambda q, k, v, s: attention(h, q, k, v, dropout=0.4, seed=s))(*x, np.array([5, 6], np.uint32))
        self.same(found, np.stack([h.attention(*(a[i] for a in x), dropout=0.4, seed=5 + i) for i in range(2)]))


class Vmap(Jax):
    def test_mapped_axes_are_a_batch(self):
        h, x = VARIANTS["htransformer"](), inputs(batch=(3, 2))
        wanted = h.attention(*x)
        one = lambda *x: attention(h, *x)  # noqa: E731
        self.same(jax.vmap(one)(*x), wanted)
        self.same(jax.vmap(jax.vmap(one))(*x), wanted)
        self.same(jax.vmap(one, (1, 1, 1), 1)(*x), wanted)
        self.same(jax.jit(jax.vmap(one))(*x), wanted)

    def test_samples_take_branches_of_their_own_with_their_gradients(self):
        h, x = VARIANTS["dense"](), inputs(batch=(4,))[0]
        loss = lambda x, there: jax.lax.cond(there, lambda x: attention(h, x, x, x), lambda x: 2 * x, x).sum()  # noqa: E731
        for there in ([False, True, True, False], [True, False, False, True]):
            found = jax.vmap(jax.grad(loss))(x, jnp.array(there))
            for i, one in enumerate(there):
                np.testing.assert_allclose(found[i], jax.grad(loss)(x[i], one), atol=1e-5)

    def test_what_is_not_mapped_is_shared(self):
        h, (q, k, v) = VARIANTS["window"](), inputs()
        self.same(jax.vmap(lambda q: attention(h, q, k[0], v[0]))(q), np.stack([h.attention(a, k[0], v[0]) for a in q]))
        found = jax.vmap(lambda k: attention(h, q, k, v))(np.stack([k, k[::-1]]))
        self.same(found, np.stack([h.attention(q, a, v) for a in (k, k[::-1])]))

    def test_gradients_of_each_element_and_of_what_they_share(self):
        h, x = VARIANTS["dense"](), inputs()
        slopes, weight = np.abs(drawn(4, 2, HEADS)), drawn(9, *x[0].shape)
        loss = lambda q, k, v, s, w: (w * attention(h, q, k, v, slopes=s)).sum()  # noqa: E731
        each = [h.gradient(*(a[i] for a in x), weight[i], slopes=slopes[i]) for i in range(2)]
        found = jax.vmap(jax.grad(loss, (0, 1, 2, 3)))(*x, slopes, weight)
        for name, a in zip(("query", "key", "value", "slopes"), found):
            self.same(a, np.stack([g[name] for g in each]), name)
        shared = jax.vmap(jax.grad(loss, (0, 3)), (0, 0, 0, None, 0))(*x, slopes[0], weight)
        for name, a in zip(("query", "slopes"), shared):
            self.same(a, np.stack([h.gradient(*(a[i] for a in x), weight[i], slopes=slopes[0])[name] for i in range(2)]), name)
        summed = jax.grad(lambda k: jax.vmap(lambda q, v, w: loss(q, k, v, slopes[0], w))(x[0], x[2], weight).sum())(x[1][0])
        wanted = sum(h.gradient(x[0][i], x[1][0], x[2][i], weight[i], slopes=slopes[0])["key"] for i in range(2))
        np.testing.assert_allclose(summed, wanted, rtol=1e-5, atol=1e-6)

    def test_jacobians_map_the_backward_pass_alone(self):
        h = hga.dense(5)
        q, k, v = (drawn(i, 1, 5, 2) for i in range(3))
        found = np.asarray(jax.jacrev(lambda q: attention(h, q, k, v))(q))
        for i in np.ndindex(1, 5, 2):
            d = np.zeros_like(q)
            d[i] = 1
            self.same(found[i], h.gradient(q, k, v, d)["query"])

    def test_a_scan_of_layers(self):
        h, (q, _, _) = VARIANTS["window"](), inputs()
        scales = np.array([0.1, 0.2, 0.3], np.float32)

        def layers(q, scales):
            return jax.lax.scan(lambda x, s: (attention(h, x, x, x, scale=s), None), q, scales)[0]

        x = q
        for s in scales:
            x = h.attention(x, x, x, scale=float(s))
        self.same(jax.jit(layers)(q, scales), x)

        def one_by_one(q, scales):
            for s in scales:
                q = attention(h, q, q, q, scale=s)
            return q.sum()

        wanted = jax.grad(one_by_one, (0, 1))(q, scales)
        for f in (layers, jax.checkpoint(layers)):
            found = jax.jit(jax.grad(lambda q, s, f=f: f(q, s).sum(), (0, 1)))(q, scales)
            for a, b in zip(found, wanted):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


LOADS = """
import sys
import jax, jax.export, numpy as np
import hga.jax
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
x = [np.load(f"{sys.argv[1]}.{i}.npy") for i in range(3)]
out, back = jax.vjp(program.call, *x)
np.savez(sys.argv[1] + ".npz", out, *back(np.ones_like(out)))
"""


# Before JAX 0.6 it works where jax does not ask for rules of what is alike on all devices, and jax says so where it does.
SHARDS = """
import jax, numpy as np, hga.jax
from jax.sharding import PartitionSpec as P
h = hga.window(48, left=5, right=3)
q, k, v = (np.random.default_rng(i).standard_normal((4, 2, 48, 8)).astype(np.float32) for i in range(3))
slopes = np.array([0.5, 0.1], np.float32)
wanted = h.gradient(q, k, v, np.ones_like(q), slopes=slopes)
try: from jax.experimental.shard_map import shard_map
except ImportError: shard_map = None
old = tuple(map(int, jax.__version__.split(".")[:2])) < (0, 6)
mesh = jax.make_mesh((2,), ("d",), **({} if old else dict(axis_types=(jax.sharding.AxisType.Auto,))))


def attend(check): return (shard_map if old else jax.shard_map)(
    lambda *x: hga.jax.attention(h, *x[:3], slopes=x[3]), mesh=mesh, in_specs=(P("d"), P("d"), P("d"), P()), out_specs=P("d"),
    **{"check_rep" if old else "check_vma": check})
for check in (False,) if old else (True, False):
    for run in (attend(check), jax.jit(attend(check))):
        assert np.array_equal(run(q, k, v, slopes), h.attention(q, k, v, slopes=slopes))
    found = jax.jit(jax.grad(lambda *x: attend(check)(*x).sum(), (0, 3)))(q, k, v, slopes)
    assert np.array_equal(found[0], wanted["query"])
    np.testing.assert_allclose(found[1], wanted["slopes"], rtol=1e-5)
if old:
    try: attend(True)(q, k, v, slopes)
    except NotImplementedError as e: assert "check_rep=False" in str(e), e
    else: raise AssertionError("nothing was refused")
else:
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    jax.set_mesh(mesh)
    placed = jax.device_put(q, jax.NamedSharding(mesh, P("d")))
    found = jax.jit(jax.grad(lambda q: hga.jax.attention(h, q, k, v, slopes=slopes).sum()))(placed)
    assert np.array_equal(found, wanted["query"])
print("devices", jax.device_count())
"""


class Shards(Jax):
    @unittest.skipIf(older("jax", "0.8") and not older("jax", "0.6"), "jax 0.6 and 0.7 have another mesh")
    def test_devices_have_their_parts_and_share_gradients_of_tables(self):
        flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
        done = subprocess.run([sys.executable, "-c", SHARDS], capture_output=True, text=True, timeout=300, env={**os.environ, "XLA_FLAGS": flags})
        self.assertEqual(done.stdout, "devices 2\n", done.stderr[-2000:])


class Exported(Jax):
    def test_a_program_runs_in_another_process_with_its_gradient(self):
        h, x = VARIANTS["htransformer"](), inputs()
        slopes = np.abs(drawn(4, HEADS))
        run = jax.jit(lambda q, k, v: attention(h, q, k, v, slopes=slopes, dropout=0.2, seed=9))
        program = jax.export.export(run, disabled_checks=hga.jax.export_checks())(*x).serialize(vjp_order=1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program")
            pathlib.Path(path).write_bytes(program)
            for i, a in enumerate(x):
                np.save(f"{path}.{i}.npy", a)
            subprocess.run([sys.executable, "-c", LOADS, path], check=True, timeout=300)
            found = np.load(path + ".npz")
            self.same(found["arr_0"], h.attention(*x, slopes=slopes, dropout=0.2, seed=9))
            wanted = h.gradient(*x, np.ones_like(x[0]), slopes=slopes, dropout=0.2, seed=9)
            for i, name in enumerate(("query", "key", "value")):
                self.same(found[f"arr_{i + 1}"], wanted[name])

    def test_a_tape_whose_plan_is_gone_is_made_again(self):
        h, x = hga.dense(N + 1, causal=True), inputs(N + 1)
        weight = drawn(9, *x[0].shape)
        _, back = jax.vjp(jax.jit(lambda *x: attention(h, *x)), *x)
        before = hga.plans_info().plans
        hga.plans_clear()
        self.assertLess(hga.plans_info().plans, before)
        self.same_gradients(back(weight), h, x, weight)

    def test_programs_of_one_kind_share_a_plan(self):
        hga.plans_clear()
        h, x = VARIANTS["dense"](), inputs()
        attention(h, *x), jax.jit(lambda *x: attention(VARIANTS["dense"](), *x) + 1)(*x)
        self.assertEqual(hga.plans_info().plans, 1)
        self.assertGreater(hga.plans_info().plan_bytes, 0)


class Threads(Jax):
    def test_calls_from_many_threads_run_in_one_team(self):
        h, x = hga.dense(256, causal=True), inputs(256)
        wanted, run = h.attention(*x, threads=3), jax.jit(lambda *x: attention(h, *x, threads=3))
        run(*x).block_until_ready()

        def call(_):
            for _ in range(20):
                self.same(run(*x), wanted)

        at_once(call)
        names = collections.Counter(path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm"))
        self.assertEqual(names["hga"], 3)

    def test_what_fails_on_that_thread_says_so_here(self):
        h, x = hga.dense(N), inputs()
        with self.assertRaisesRegex(Exception, "slopes of head 1 is -1"):
            np.asarray(jax.jit(lambda s: attention(h, *x, threads=3, slopes=s))(np.array([1, -1, 1, 1], np.float32)))


class Refused(Jax):
    def test_what_is_wrong_is_said_when_the_program_is_traced(self):
        h, (q, k, v) = VARIANTS["window"](), inputs()
        for f, says in (
            (lambda: attention(h, q[:, :, 1:], k, v), r"query of shape \(2, 4, 47, 8\) has 47 rows in layout 'bhnd', the hierarchy has 48"),
            (lambda: attention(h, q, k[:, :3], v[:, :3]), "4 query heads|heads"),
            (lambda: attention(h, q.astype(np.float64), k, v), "query has dtype float64"),
            (lambda: attention(h, [1.0], k, v), "query is a list, not an array of jax or numpy"),
            (lambda: attention(h, q, k, v, edge_value=drawn(4, 5, 2)), "edge_value gives a second output"),
            (lambda: attention(h, q, k, v, slope=1), "attention has no slope=: did you mean 'slopes'"),
            (lambda: attention(h, q, k, v, is_causal=True), "make it with causal=True"),
            (lambda: attention(h, q, k, v, slopes=drawn(4, 3)), "slopes has shape"),
            (lambda: attention(h, q, k, v, softcap=-1.0), "softcap -1 is not from"),
            (lambda: attention(h, q, k, v, dropout=1.5), "dropout 1.5 is not in"),
            (lambda: attention(h, q, k, v, dropout=0.5, seed=jnp.float32(1)), "seed is float32, neither"),
            (lambda: attention(h, q, k, v, seed=-1), "seed is -1"),
            (lambda: attention(h, q, k, v, precision="f16"), "precision is 'f16', not one of"),
            (lambda: attention(h, q, k, v, isa="mmx"), "instruction set mmx"),
            (lambda: attention(h, q, k, v, layout="bndh"), "layout 'bndh' is neither"),
            (lambda: attention(h, q, k, v, layout=["bhnd"]), "layout .* is neither"),
            (lambda: attention(h, q, k, v, normaliser="relu"), "normaliser 'relu'"),
            (lambda: attention(VARIANTS["hsa"](), q, k, v, lse=True), "no log-sum-exp"),
            (lambda: attention(h, q, k, v, normaliser="entmax:1.5", lse=True), "no log-sum-exp"),
            (lambda: attention(hga.routed(block=4, k=2), q, k, v), "made anew of every input"),
            (lambda: attention("dense", q, k, v), "h is a str, not a hierarchy"),
        ):
            with self.subTest(says), self.assertRaisesRegex(hga.Error, says):
                jax.jit(f)()

    def test_a_program_written_in_python_is_refused(self):
        p = hga.Program(hga.Graph.from_edges([0, 1, 2, 3], [1, 1, 3, 3], 4))
        value, out = (p.field(n, n, n, "queries", "queries") for n in ("value", "out"))
        p.user("my sum", 0, [value], [out], lambda: 0.0, lambda s, e: s + e.source[value],
               lambda s, v: v[out].__setitem__(slice(None), s))  # fmt: skip
        refused(self, "functions of your own, which XLA cannot call", lambda: attention(p.hierarchy(), *inputs(4)))

    def test_derivatives_that_hga_does_not_have(self):
        h, (q, k, v) = VARIANTS["window"](), inputs()
        first = lambda q: attention(h, q, k, v).sum()  # noqa: E731
        refused(self, "no second derivative", lambda: jax.grad(lambda q: jax.grad(first)(q).sum())(q))
        with self.assertRaisesRegex(TypeError, "forward-mode"):
            jax.jvp(first, (q,), (q,))

    def test_numbers_that_are_known_late_are_refused_by_the_call(self):
        h, x = VARIANTS["window"](), inputs()
        with self.assertRaisesRegex(Exception, "hga: .*softcap -1 is not from"):
            np.asarray(jax.jit(lambda c: attention(h, *x, softcap=c))(-1.0))


class Example(Jax):
    """The layer of examples/python/htransformer_jax.py beside its own reading of flaxformer's recipe."""

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(ROOT / "examples" / "python"))
        import htransformer_jax

        cls.example = htransformer_jax

    def test_where_both_mean_the_same_they_agree(self):
        for n, block, causal in ((32, 4, False), (64, 4, True), (16, 8, True)):
            for difference in self.example.agreement(n, block, causal):
                self.assertLess(difference, 2e-6, (n, block, causal))

    def test_steep_scores_part_them_and_hga_is_right(self):
        share = self.example.steep_rows()
        self.assertGreater(share["flaxformer"], 0.9)
        self.assertEqual(share["hga"], 0)

    def test_its_model_learns(self):
        losses = self.example.train(12, 64, 8, width=32)
        self.assertLess(losses[-1], losses[0] - 0.5)


class Missing(unittest.TestCase):
    """Without jax, or without its header at the build, the import is refused in words."""

    def imported(self, patch):
        says = f"import sys\n{patch}\ntry:\n    import hga.jax\nexcept ImportError as e:\n    print(type(e).__name__, e)"
        return subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True, timeout=120).stdout

    def test_without_jax(self):
        patch = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'jax' else f(n, *a)"
        self.assertIn("hga.jax needs jax, which is not installed: pip install '.[jax]'", self.imported(patch))

    @needs("jax")
    def test_without_its_header_at_the_build(self):
        patch = "import hga, hga._core.library as c; l = c.lib\nclass L:\n    def __getattr__(s, n): return (lambda i: c.ffi.NULL) if n == 'hga_py_jax_handler' else getattr(l, n)\nc.lib = L()"
        self.assertIn(f"{sys.executable} -m pip install --force-reinstall --no-deps .", self.imported(patch))
