"""hga in JAX: attention as a call of XLA's on CPUs, under jit, grad, vmap, checkpoint and export."""

from __future__ import annotations

import pathlib
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from .._core.releases import needs

needs("jax", "jax")

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._core.arguments import flag, number, whole
from .._graphs.by_content import ByContent
from .._core.call import LAYOUTS, require_layout
from .._core.library import Error, check, ffi, lib, refuse, refuse_type
from .._graphs.calls import draws, how_of
from .._graphs.hierarchy import Hierarchy
from .._graphs.spec import hierarchy_of
from ._kind import Kind, Options, kind_of
from .._core.normalisers import normalised, spelt
from .._core.tables import INPUTS, ROWS, check_names, in_node_order, takes_tables, with_own

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._core.keywords import CallTables

FORWARD, BACKWARD = "hga_attention", "hga_attention_backward"
TYPES = ("float32", "float16", "bfloat16")


# ---- what XLA calls ----


def _interface() -> Tuple[int, int]:
    """The version of XLA's interface that jaxlib has, which its header tells."""
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text(encoding="utf-8")
    major, minor = (int(re.findall(rf"define XLA_FFI_API_{which} (\d+)", text)[0]) for which in ("MAJOR", "MINOR"))
    return major, minor


def _register() -> None:
    if lib.hga_py_jax_handler(0) == ffi.NULL:
        raise ImportError(
            "hga.jax needs a build of hga that knew jax's headers, and this one did not: in the folder of hga's sources, now that jax is here, "
            f"{sys.executable} -m pip install --force-reinstall --no-deps .",
            name=__name__,
        )
    check(lib.hga_py_jax_speak(*_interface()))
    make, forward, back = (jax.ffi.pycapsule(int(ffi.cast("uintptr_t", lib.hga_py_jax_handler(i)))) for i in range(3))
    for name, run in ((FORWARD, forward), (BACKWARD, back)):
        jax.ffi.register_ffi_target(name, {"instantiate": make, "execute": run}, platform="cpu")


_register()


# ---- shard_map: along which axes of devices arrays differ, which results, and what goes together, must say ----


_typeof: Any = getattr(jax, "typeof", None) or jax.core.get_aval  # before JAX 0.6


def _varying(x: Any) -> Any:
    kind = _typeof(x)
    if hasattr(kind, "mat"):  # since JAX 0.10
        return kind.mat.varying
    return getattr(kind, "vma", frozenset())  # nothing is known to differ before JAX 0.7


def _result(of: Array, shape: Tuple[int, ...], dtype: Any) -> Any:
    """A result that differs where the operand does."""
    if not _varying(of):
        return jax.ShapeDtypeStruct(shape, dtype)
    kind, whole_axes = _typeof(of), jax.sharding.PartitionSpec(*[None] * len(shape))
    return kind.update(shape=shape, dtype=np.dtype(dtype), weak_type=False, sharding=kind.sharding.update(spec=whole_axes))


def _alike(arrays: Sequence[Any]) -> List[Any]:
    """The same, said to differ wherever one of them does: gradients of what all devices share are then summed over them."""
    axes = frozenset().union(*map(_varying, arrays))
    missing = [tuple(sorted(axes - _varying(x), key=str)) for x in arrays]
    if hasattr(jax.lax, "pcast"):
        return [jax.lax.pcast(x, more, to="varying") if more else x for x, more in zip(arrays, missing)]
    return [jax.lax.pvary(x, more) if more else x for x, more in zip(arrays, missing)]


def _sharded_as(x: Any, gradient: Any) -> Any:
    """A gradient on the devices of what it is of, where a mesh has explicit axes."""
    where: Any
    where, there = (getattr(_typeof(of), "sharding", None) for of in (x, gradient))  # unknown before JAX 0.6
    return gradient if where == there or where.mesh.empty or gradient.dtype == jax.dtypes.float0 else jax.sharding.reshard(gradient, where)


# ---- the two calls ----


def _refuse_second(*inputs: Any) -> Any:
    raise Error("HGA_EUNSUPPORTED", "hga's attention has no second derivative")


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _forward(kind: Kind, taped: bool, q: Array, k: Array, v: Array, seed: Array, *tables: Array) -> Sequence[Array]:
    """out, lse where the kind has one, and a tape where one is requested."""
    outputs = [_result(q, (*q.shape[:-1], kind.columns), q.dtype)]
    outputs += [_result(q, q.shape[:-1], np.float32)] * kind.options.lse
    outputs += [_result(q, (*q.shape[:-3], kind.plan_bytes(True)), np.uint8)] if taped else []
    call = jax.ffi.ffi_call(FORWARD, outputs, vmap_method="expand_dims")
    found: Sequence[Array] = call(q, k, v, seed, *tables, **kind.attributes(taped, "l" * kind.options.lse + "t" * taped))
    return found


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _backward(kind: Kind, of_lse: bool, *inputs: Array) -> Sequence[Array]:
    """Gradients of q, k, v and the tables that have one, from (q, k, v, seed, requested, out, tape, d_out, perhaps d_lse, tables ..);
    zeros where one is not requested."""
    named = dict(zip((*INPUTS, "seed", "requested", "out", "tape", "d_out", *["d_lse"] * of_lse, *kind.names), inputs))
    like = [_result(named[name], named[name].shape, named[name].dtype) for name in kind.gradients]
    call = jax.ffi.ffi_call(BACKWARD, like, vmap_method="expand_dims")
    found: Sequence[Array] = call(*inputs, gradients=" ".join(kind.gradients), **kind.attributes(True, "l" * of_lse))
    return found


_forward.defvjp(_refuse_second, _refuse_second)
_backward.defvjp(_refuse_second, _refuse_second)


# ---- gradients ----


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(kind: Kind, q: Array, k: Array, v: Array, seed: Array, *tables: Array) -> Tuple[Array, ...]:
    """out, and lse where the kind has one."""
    return tuple(_forward(kind, False, q, k, v, seed, *tables))


def _attend_forth(kind: Kind, *primals: Any) -> Tuple[Tuple[Array, ...], Tuple[Any, ...]]:
    """The requested gradients are a number's bits: JAX may trace this once for several sets of inputs, which then differ in numbers alone."""
    perturbed = {name for name, x in zip((*INPUTS, "seed", *kind.names), primals) if x.perturbed} - {"seed"}
    for name in sorted(perturbed.difference(kind.gradients)):
        raise refuse(f"there is no gradient of {name}: jax.lax.stop_gradient it")
    inputs, requested = [x.value for x in primals], sum(1 << i for i, name in enumerate(kind.gradients) if name in perturbed)
    *outputs, tape = _forward(kind, True, *inputs)
    return tuple(outputs), (*inputs, np.array([requested], np.uint32), outputs[0], tape)


def _attend_back(kind: Kind, saved: Tuple[Any, ...], d_outputs: Tuple[Any, ...]) -> Tuple[Optional[Array], ...]:
    q, k, v, seed, *tables, requested, out, tape = saved
    none = jax.custom_derivatives.SymbolicZero
    d_out, *d_lses = d_outputs
    d_lse = [d for d in d_lses if type(d) is not none]
    d_out = jnp.zeros(out.shape, out.dtype) if type(d_out) is none else d_out
    inputs = _alike([q, k, v, seed, requested, out, tape, d_out, *d_lse, *tables])
    found = {"seed": np.zeros(seed.shape, jax.dtypes.float0), **dict(zip(kind.gradients, _backward(kind, bool(d_lse), *inputs)))}
    named = dict(zip((*INPUTS, "seed", *kind.names), (q, k, v, seed, *tables)))
    return tuple(_sharded_as(x, found[name]) if name in found else jnp.zeros_like(x) for name, x in named.items())


_attend.defvjp(_attend_forth, _attend_back, symbolic_zeros=True)
_attend_at_once = jax.jit(lambda kind, *inputs: _attend(kind, *_alike(inputs)), static_argnums=0)


# ---- inputs ----


def _array(x: Any, what: str) -> Array:
    if not isinstance(x, (jax.Array, np.ndarray)):
        raise refuse_type(f"{what} is a {type(x).__name__}, not an array of jax or numpy")
    if x.dtype.name not in TYPES:
        raise refuse(f"{what} has dtype {x.dtype}, not float32, float16 or bfloat16: convert it with .astype(jnp.float32)")
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) and any(d.platform != "cpu" for d in x.devices()):
        raise refuse(f"{what} is on {', '.join(sorted(map(str, x.devices())))}: hga computes on the CPU")
    return x if isinstance(x, jax.Array) else jnp.asarray(x)


def _table(x: Any, name: str) -> Any:
    """A plain number, or an array in float32."""
    if ROWS[name].is_number and not isinstance(x, jax.Array):
        return number(x, name)
    x = _array(x, name)
    ROWS[name].check_shape(x.shape)
    return x.reshape(()).astype(np.float32) if ROWS[name].is_number else x.astype(np.float32)


def _seed_of(seed: Any, dropout: float) -> Any:
    """The two halves of 64 bits, the lower first: of a whole number, of an array of one, or drawn by a key of jax.random."""
    if not isinstance(seed, jax.Array):
        n, _ = draws(seed, 0)
        return np.array([n & 0xFFFFFFFF, n >> 32], np.uint32)
    if not dropout:
        return np.zeros(2, np.uint32)
    if seed.size != 1 or jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return jax.random.bits(seed, (2,), np.uint32)
    if not jnp.issubdtype(seed.dtype, jnp.integer):
        raise refuse(f"seed is {seed.dtype}, neither whole numbers nor a key of jax.random")
    seed = seed.reshape(())
    high = seed >> 32 if seed.dtype.itemsize == 8 else jnp.zeros_like(seed)
    return jnp.stack([seed, high]).astype(np.uint32)


def _for_each_graph(h: Hierarchy, x: Array, layout: str) -> Array:
    """A Treeformer's trees may be more than the key has heads: a head is then copied for each that reads it."""
    if h.n_graphs == 1 or x.ndim < 3:
        return x
    heads = x.shape[LAYOUTS[layout][0]]
    if heads == h.n_graphs or not heads or h.n_graphs % heads:
        return x
    return jnp.repeat(x.astype(np.float32), h.n_graphs // heads, axis=LAYOUTS[layout][0])


def _in_order(h: Any, q: Any, k: Any, v: Any, layout: str, lse: bool, more: Dict[str, Any]) -> Any:
    """The caller's rows, attended to in the hierarchy's order."""
    q, k, v = (h._moved(x, name, layout) for x, name in zip((q, k, v), INPUTS))
    found = attention(h._in_order, q, k, v, layout=layout, lse=lse, **h._tables_moved(more))
    if not lse:
        return h._back(found, "out", layout)
    return h._back(found[0], "out", layout), h._back(found[1], "out", layout, lacks=1)


@takes_tables()
def attention(h: Hierarchy, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, normaliser: Optional[str] = None,
              normalizer: Optional[str] = None, dropout: float = 0.0, seed: Any = 0, layer: int = 0, precision: str = "auto",
              threads: int = 0, isa: Optional[str] = None, **tables: Unpack[CallTables]) -> Any:  # fmt: skip
    """Hierarchy.attention for arrays of JAX: with the bits that numpy's have, and gradients of q, k, v and of the tables that have
    one. jit, grad, vmap, checkpoint and jax.export take it; jvp and second derivatives are refused. The hierarchy, the layout and
    all options are fixed when a program is traced; arrays may be traced, numbers such as scale among them. seed: a whole number,
    an integer array of one, or a key of jax.random. threads: 0, the hierarchy's, or the library's own choice.

    TABLES."""
    check_names(attention, tables)
    if tables.get("edge_value") is not None:
        raise refuse("edge_value gives a second output, which hga.jax.attention does not have")
    layout, dropout, seed, layer, precision, threads, isa = how_of(layout, dropout, seed, layer, precision, threads, isa)
    require_layout(layout)
    if isinstance(h, ByContent):
        raise refuse(f"{h!r} is made anew of every input, which XLA does not know: h.hierarchy(q, k) of one input has an attention")
    if not isinstance(h, Hierarchy):
        raise refuse_type(f"h is a {type(h).__name__}, not a hierarchy")
    if h._in_order is not None:
        more = dict(normaliser=normaliser, normalizer=normalizer, dropout=dropout, seed=seed, layer=layer, precision=precision,
                    threads=threads, isa=isa, **tables)  # fmt: skip
        return _in_order(h, q, k, v, layout, lse, more)
    h, lse = normalised(h, spelt(normaliser, normalizer)), bool(lse)
    q, k, v = (_array(x, name) for x, name in zip((q, k, v), INPUTS))
    k, v = _for_each_graph(h, k, layout), _for_each_graph(h, v, layout)
    by_name = {name: in_node_order(h, ROWS[name], _table(x, name)) for name, x in tables.items() if x is not None}
    options = Options(layout, lse, number(dropout, "dropout"), whole(layer, "layer", beyond=2**24), precision, h._threads_for(threads), isa or "")
    seed, flat, kind = _seed_of(seed, options.dropout), q.ndim == 2, kind_of(h, q, k, v, by_name, options)
    operands = [x.reshape(1, *x.shape) for x in (q, k, v)] if flat else [q, k, v]
    given = (np.float32(x) if type(x) is float else x for x in with_own(h, by_name).values())
    found = _attend_at_once(kind, *operands, seed, *given)
    found = tuple(x.reshape(x.shape[1:]) for x in found) if flat else found
    return found if lse else found[0]


def dot_product_attention(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: Any = None, is_causal: bool = False,
                          query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
                          local_window_size: Union[int, Tuple[int, int], None] = None, implementation: Optional[str] = None,
                          return_residual: bool = False) -> Any:  # fmt: skip
    """``jax.nn.dot_product_attention`` by hga: [batch, tokens, heads, columns], or three axes; dense or a window, causal or not,
    and nothing is stored per pair. A bias, a mask and lengths of samples are refused with what takes their place."""
    for name, x, instead in (
        ("bias", bias, "hga.jax.attention(hierarchy, q, k, v, edge_bias=.., slopes=..) adds to scores"),
        ("mask", mask, "hga.Graph.from_mask(mask).hierarchy() is what hga.jax.attention takes"),
        ("query_seq_lengths", query_seq_lengths, "a hierarchy of several lengths, hga.dense([30, 60]), is what hga.jax.attention takes"),
        ("key_value_seq_lengths", key_value_seq_lengths, "a hierarchy of several lengths, hga.dense([30, 60]), is what hga.jax.attention takes"),
    ):
        if x is not None:
            raise refuse(f"dot_product_attention has no {name}: {instead}")
    if implementation not in (None, "xla"):
        raise refuse(f"implementation is {implementation!r}: this one computes on CPUs, by hga")
    for name, x in (("query", query), ("key", key), ("value", value)):
        if getattr(x, "ndim", 0) not in (3, 4):
            raise refuse(f"{name} has shape {getattr(x, 'shape', None)}: [batch, tokens, heads, columns], or three of these axes")
    n, n_keys = int(query.shape[-3]), int(key.shape[-3])
    causal, words = flag(is_causal, "is_causal"), "dense"
    if local_window_size is not None:
        sides = local_window_size if isinstance(local_window_size, (tuple, list)) else (local_window_size,) * 2
        if len(sides) != 2:
            raise refuse(f"local_window_size is {local_window_size!r}: one number, or one for the left and one for the right")
        left, right = (whole(side, "local_window_size") for side in sides)
        words = f"window left={left} right={0 if causal else right}"
    if n != n_keys and (causal or local_window_size is not None):
        raise refuse(f"{n} queries and {n_keys} keys: causal attention and windows are of one text")
    h = hierarchy_of(words, n, causal, None if n == n_keys else n_keys)
    return attention(h, query, key, value, layout="bnhd", lse=return_residual, scale=scale)


def export_checks() -> List[Any]:
    """What ``jax.export.export(.., disabled_checks=hga.jax.export_checks())`` must list: that calls of hga are meant to be there.
    Who loads the program imports hga.jax first."""
    from jax.export import DisabledSafetyCheck

    return [DisabledSafetyCheck.custom_call(name) for name in (FORWARD, BACKWARD)]


__all__ = ["attention", "dot_product_attention", "export_checks"]


def __dir__() -> List[str]:
    return __all__
