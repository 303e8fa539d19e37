"""ONNX's attention by hga: classes for onnx's reference evaluator, and models whose attention becomes hierarchical.

    from onnx.reference import ReferenceEvaluator
    run = ReferenceEvaluator(model, new_ops=hga.onnx.ops)                       # Attention and FlexAttention
    fast = hga.onnx.rewrite(model, "htransformer:block=16")                     # the same model, with a hierarchy in it
    run = ReferenceEvaluator(fast, new_ops=hga.onnx.ops)
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

from .._core.releases import is_older, needs, refuse_older

needs("onnx", "onnx")

import numpy as np
import onnx
from onnx import TensorProto
from onnx.reference.op_run import OpRun

from .._core.arguments import meant
from .._core.library import Error, refuse, refuse_type
from ._attention import Array, attend, not_offered, scores, weights
from ._score import matched
from .._graphs.spec import hierarchy_of, spec_of

DOMAIN = "hga"
_WINDOW_VERSION = 25  # of the standard: from here on local windows, and heads are counted by 3-D inputs alone


def _check_types(*tensors: Array) -> None:
    for x in tensors:
        if x.dtype.name not in ("float32", "float16", "bfloat16"):
            raise not_offered(f"a tensor of {x.dtype.name}: hga computes in float32, of float32, float16 or bfloat16")


def _check_precision(softmax_precision: Optional[int]) -> None:
    if softmax_precision == TensorProto.DOUBLE:
        raise not_offered("softmax_precision DOUBLE: hga's softmax is in float32")


def _split(x: Array, heads: Optional[int], name: str) -> Array:
    """[batch][heads][tokens][columns] of three axes; four as they are."""
    if x.ndim == 4:
        return x
    if x.ndim != 3:
        raise refuse(f"{name} has shape {x.shape}, neither three axes nor four")
    if not heads or x.shape[2] % heads:
        raise refuse(f"{name} has {x.shape[2]} columns, which {heads} heads do not divide")
    return np.ascontiguousarray(x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3))


def _merged(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


def _check_heads(q: Array, k: Array, v: Array) -> None:
    if k.shape[1] == 0 or q.shape[1] % k.shape[1] or v.shape[1] != k.shape[1]:
        raise refuse(f"{q.shape[1]} query heads, {k.shape[1]} key heads, {v.shape[1]} value heads")


def _scale_of(scale: Optional[float], dim: int) -> float:
    if scale is None:
        return float(dim**-0.5)
    if scale < 0:
        raise refuse(f"scale {scale:g}: the standard takes its root")
    return float(scale)


def _padded(mask: Optional[Array], n_keys: int) -> Optional[Array]:
    """A mask whose rows are shorter than the keys hides those that it does not name."""
    if mask is None or mask.shape[-1] >= n_keys:
        return mask
    padding = [(0, 0)] * (mask.ndim - 1) + [(0, n_keys - mask.shape[-1])]
    return np.pad(mask, padding, constant_values=mask.dtype.type(False if mask.dtype == np.bool_ else -np.inf))


def _seen(n: int, n_keys: int, past: Optional[Array], lengths: Optional[Array], causal: bool, left: int, right: int) -> Optional[Array]:
    """What causality, windows and lengths leave, broadcast to [batch][1][queries][keys]; None: everything."""
    q, k = np.arange(n)[:, None], np.arange(n_keys)[None, :]
    if past is not None:
        q = q + past.shape[2]
    elif lengths is not None:
        q = q + (lengths.reshape(-1, 1, 1, 1).astype(np.int64) - n)
    rules: List[Array] = []
    if causal:
        rules.append(k <= q)
    if left >= 0:
        rules.append(q - k <= left)
    if right >= 0:
        rules.append(k - q <= right)
    if lengths is not None:
        rules.append(np.broadcast_to(k < lengths.reshape(-1, 1, 1, 1), (len(lengths), 1, n, n_keys)))
    return functools.reduce(np.logical_and, rules) if rules else None


def _unbounded(x: Optional[int], name: str) -> int:
    x = -1 if x is None else int(x)
    if x < -1:
        raise refuse(f"{name} is {x}, neither -1 nor a number of tokens")
    return x


def _check_release(masked: bool, cap: float, mode: int) -> None:
    """Before onnx 1.22 the standard capped scores behind the mask, which let keys be seen that are hidden, and counted modes in that order."""
    if ((masked and cap > 0) or mode in (1, 2)) and is_older("onnx", "1.22"):
        raise refuse_older("onnx", "1.22", "qk_matmul_output_mode 1 or 2" if mode in (1, 2) else "Attention with a softcap and a mask")


class Attention(OpRun):
    """The standard's Attention, opsets 23 and later. Scores that it gives out (modes 0, 1 and 2) are numpy's products; everything
    else is a plan's."""

    op_domain = ""

    def _run(
        self, Q: Array, K: Array, V: Array, attn_mask: Optional[Array] = None, past_key: Optional[Array] = None,
        past_value: Optional[Array] = None, nonpad_kv_seqlen: Optional[Array] = None, scale: Optional[float] = None,
        is_causal: Optional[int] = None, q_num_heads: Optional[int] = None, kv_num_heads: Optional[int] = None,
        softmax_precision: Optional[int] = None, softcap: Optional[float] = None, qk_matmul_output_mode: Optional[int] = None,
        left_window_size: Optional[int] = None, right_window_size: Optional[int] = None,
    ) -> Tuple[Array, ...]:  # fmt: skip
        _check_types(Q, K, V)
        _check_precision(softmax_precision)
        if (past_key is None) != (past_value is None):
            raise refuse("past_key and past_value belong together")
        if past_key is not None and nonpad_kv_seqlen is not None:
            raise refuse("nonpad_kv_seqlen is for caches outside, past_key is one inside")
        version = self.run_params["opsets"].get("", _WINDOW_VERSION)
        if Q.ndim == 4 and version >= _WINDOW_VERSION and (q_num_heads is not None or kv_num_heads is not None):
            raise refuse("q_num_heads and kv_num_heads are for inputs of three axes")
        q, k, v = _split(Q, q_num_heads, "Q"), _split(K, kv_num_heads, "K"), _split(V, kv_num_heads, "V")
        if past_key is not None and past_value is not None:
            k, v = np.concatenate((past_key, k), 2), np.concatenate((past_value, v), 2)
        _check_heads(q, k, v)
        left, right = _unbounded(left_window_size, "left_window_size"), _unbounded(right_window_size, "right_window_size")
        seen = _seen(q.shape[2], k.shape[2], past_key, nonpad_kv_seqlen, bool(is_causal), left, right)
        mask, bias = _padded(attn_mask, k.shape[2]), None
        if mask is not None and mask.dtype == np.bool_:
            seen = mask if seen is None else seen & mask
        elif mask is not None:
            bias = mask
        scale_, cap = _scale_of(scale, q.shape[3]), float(softcap or 0)
        n_outputs = len(self.onnx_node.output)
        mode = int(qk_matmul_output_mode or 0) if n_outputs > 3 else 0
        _check_release(seen is not None or bias is not None, cap, mode)
        out = attend(q, k, v, seen, bias, scale_, cap)
        found = [_merged(out) if Q.ndim == 3 else out, k, v]
        if n_outputs > 3:
            found.append(self._scores(mode, q, k, seen, bias, scale_, cap))
        return tuple(found[:n_outputs])

    @staticmethod
    def _scores(mode: int, q: Array, k: Array, seen: Optional[Array], bias: Optional[Array], scale: float, cap: float) -> Array:
        """qk_matmul_output: the scores, capped, masked, or weights."""
        if mode not in (0, 1, 2, 3):
            raise refuse(f"qk_matmul_output_mode is {mode}, not 0, 1, 2 or 3")
        if mode == 3:
            return weights(q, k, seen, bias, scale, cap)
        found = scores(q, k, scale)
        if mode >= 1 and cap > 0:
            found = np.tanh(found / cap) * cap
        if mode == 2 and bias is not None:
            found = found + bias.astype(np.float32)
        if mode == 2 and seen is not None:
            found = np.where(seen, found, np.float32(-np.inf))
        return found.astype(q.dtype)


class FlexAttention(OpRun):
    """The preview's FlexAttention. prob_mod, which changes weights after their softmax, is refused."""

    op_domain = "ai.onnx.preview"

    def _run(
        self, Q: Array, K: Array, V: Array, scale: Optional[float] = None, score_mod: Any = None, prob_mod: Any = None,
        softmax_precision: Optional[int] = None, attributes: Any = None,
    ) -> Tuple[Array]:  # fmt: skip
        if prob_mod is not None:
            raise not_offered("prob_mod: weights are not changed after their softmax")
        _check_types(Q, K, V)
        _check_precision(softmax_precision)
        _check_heads(Q, K, V)
        scale_, cap, seen, bias = _scale_of(scale, Q.shape[3]), 0.0, None, None
        if score_mod is not None:
            found = matched(score_mod, (*Q.shape[:3], K.shape[2]))
            scale_, cap, seen, bias = scale_ * found.scale, found.cap, found.seen, found.bias
        return (attend(Q, K, V, seen, bias, scale_, cap).astype(V.dtype),)


class HierarchicalAttention(OpRun):
    """What `rewrite` leaves in a model: attention over the hierarchy that `spec` names, of as many tokens as come."""

    op_domain = DOMAIN

    def _run(self, Q: Array, K: Array, V: Array, spec: str = "", is_causal: int = 0, scale: Optional[float] = None,
             softcap: Optional[float] = None, q_num_heads: Optional[int] = None, kv_num_heads: Optional[int] = None) -> Tuple[Array]:  # fmt: skip
        _check_types(Q, K, V)
        q, k, v = _split(Q, q_num_heads, "Q"), _split(K, kv_num_heads, "K"), _split(V, kv_num_heads, "V")
        if q.shape[2] != k.shape[2]:
            raise refuse(f"{q.shape[2]} queries and {k.shape[2]} keys: {spec} is of tokens that see each other")
        h = hierarchy_of(spec, q.shape[2], bool(is_causal))
        out = h.attention(q, k, v, scale=None if scale is None else float(scale), softcap=float(softcap) if softcap else None)
        return (_merged(out) if Q.ndim == 3 else out,)


ops: List[Type[OpRun]] = [Attention, FlexAttention, HierarchicalAttention]


# ---- models ----

_INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
_OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
_COPIED = ("scale", "softcap", "is_causal", "q_num_heads", "kv_num_heads")
_WITHOUT = {"left_window_size": -1, "right_window_size": -1, "qk_matmul_output_mode": None, "softmax_precision": None}


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph, and those inside it."""
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                yield from _graphs(inner)


def _rewritten(node: Any, spec: str) -> Any:
    name = f"node {node.name or node.output[0]}"
    for what, names, actual in (("input", _INPUTS[3:], node.input[3:]), ("output", _OUTPUTS[1:], node.output[1:])):
        for known, x in zip(names, actual):
            if x:
                raise not_offered(f"{name}: {what} {known} is not brought to a hierarchy")
    attributes: Dict[str, Any] = {}
    for a in node.attribute:
        value = onnx.helper.get_attribute_value(a)
        if a.name in _COPIED:
            attributes[a.name] = value
        elif a.name not in _WITHOUT:
            raise not_offered(f"{name}: attribute {a.name} is not known{meant(a.name, _COPIED)}")
        elif a.name == "softmax_precision":
            _check_precision(value)
        elif _WITHOUT[a.name] is not None and value != _WITHOUT[a.name]:
            raise not_offered(f"{name}: {a.name} is not brought to a hierarchy")
    if attributes.get("is_causal"):
        spec_of(spec).require_causal()
    return onnx.helper.make_node("HierarchicalAttention", node.input[:3], node.output[:1], node.name, domain=DOMAIN, spec=spec, **attributes)


def rewrite(model: Any, spec: str) -> Any:
    """A copy of a model in which every Attention node of the standard attends over the hierarchy that ``spec`` names, such as
    "htransformer:block=16". A node with a mask, a cache or a local window is refused by its name."""
    if not isinstance(model, onnx.ModelProto):
        raise refuse_type(f"model is a {type(model).__name__}, not an onnx.ModelProto")
    spec_of(spec).require_tokens()
    out = onnx.ModelProto()
    out.CopyFrom(model)
    found = 0
    holders = [g for g in _graphs(out.graph)] + [g for f in out.functions for g in _graphs(f)]
    for holder in holders:
        for node in holder.node:
            if node.op_type == "Attention" and node.domain in ("", "ai.onnx"):
                node.CopyFrom(_rewritten(node, spec))
                found += 1
    if not found:
        raise refuse("the model has no node Attention of the standard: export it for opset 23 or later")
    for imports in [out.opset_import] + [f.opset_import for f in out.functions]:
        if not any(o.domain == DOMAIN for o in imports):
            imports.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return out


__all__ = ["Attention", "Error", "FlexAttention", "HierarchicalAttention", "ops", "rewrite"]


def __dir__() -> List[str]:
    return __all__
