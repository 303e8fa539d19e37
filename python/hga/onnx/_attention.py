"""Attention of ONNX's operators by the engine: masks as graphs, biases as numbers of their edges."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .._core.library import Error
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy

Array = Any  # numpy's, or ml_dtypes' bfloat16 in one
MOST_CACHED = 64  # hierarchies of masks
_KNOWN: "OrderedDict[Tuple[Any, ...], Hierarchy]" = OrderedDict()


def not_offered(text: str) -> Error:
    return Error("HGA_EUNSUPPORTED", text)


def hierarchy_of_mask(seen: Array) -> Hierarchy:
    """The hierarchy of [queries][keys] truth values, from an earlier call where it was the same mask."""
    key = (seen.shape, hashlib.sha256(np.packbits(seen).tobytes()).digest())
    h = _KNOWN.pop(key, None) or Graph.from_mask(seen).hierarchy()
    _KNOWN[key] = h
    while len(_KNOWN) > MOST_CACHED:
        _KNOWN.popitem(last=False)
    return h


def _four(x: Optional[Array]) -> Optional[Array]:
    """With axes in front of what is broadcast to [batch][heads][queries][keys]."""
    return None if x is None else x.reshape((1,) * (4 - x.ndim) + x.shape)


def _groups(seen: Array, heads: int) -> List[Tuple[Array, List[int]]]:
    """Masks of [1 or heads][queries][keys], each with its heads."""
    if seen.shape[0] == 1:
        return [(seen[0], list(range(heads)))]
    found: Dict[bytes, Tuple[Array, List[int]]] = {}
    for i, mask in enumerate(seen):
        found.setdefault(mask.tobytes(), (mask, []))[1].append(i)
    return list(found.values())


def _bias_of(h: Hierarchy, bias: Optional[Array], heads: Sequence[int], shape: Tuple[int, int]) -> Optional[Array]:
    """[edges] or [edges][heads] of a bias [1 or all heads][..][..]."""
    if bias is None:
        return None
    edges = h.graph.edges()
    first_query, _, first_key, _ = h.graph._sides()
    own = bias if bias.shape[0] == 1 else bias[list(heads)]
    own = np.broadcast_to(own, (own.shape[0], *shape))
    found = np.ascontiguousarray(own[:, edges[:, 1] - first_query, edges[:, 0] - first_key].T, dtype=np.float32)
    return found[:, 0] if found.shape[1] == 1 else found


def attend(
    q: Array, k: Array, v: Array, seen: Optional[Array], bias: Optional[Array], scale: float, softcap: float = 0.0
) -> Array:  # fmt: skip
    """[batch][heads][queries][columns of v]; seen and bias are broadcast to [batch][heads][queries][keys]. Rows that see nothing
    are 0."""
    batch, heads, n = q.shape[:3]
    n_keys = k.shape[2]
    seen, bias = _four(seen), _four(bias)
    if bias is not None:
        bias = bias.astype(np.float32)
        unmasked = bias != -np.inf
        seen = unmasked if seen is None else seen & unmasked
    seen = np.ones((1, 1, n, n_keys), bool) if seen is None else seen
    seen = np.broadcast_to(seen, (*seen.shape[:2], n, n_keys))
    alone = seen.shape[0] > 1 or (bias is not None and bias.shape[0] > 1)
    each, all_ = heads // k.shape[1], slice(None)
    options: Dict[str, Any] = {"scale": float(scale), "softcap": float(softcap) or None}
    out = np.empty((batch, heads, n, v.shape[3]), q.dtype)
    for b in range(batch if alone else 1):
        samples = slice(b, b + 1) if alone else slice(0, batch)
        for mask, own in _groups(seen[b % seen.shape[0]], heads):
            h = hierarchy_of_mask(np.ascontiguousarray(mask))
            added = _bias_of(h, None if bias is None else bias[b % bias.shape[0]], own, (n, n_keys))
            mine, of = (all_, all_) if len(own) == heads else (own, [i // each for i in own])
            out[samples, mine] = h.attention(q[samples, mine], k[samples, of], v[samples, of], edge_bias=added, **options)
    return out


def weights(q: Array, k: Array, seen: Optional[Array], bias: Optional[Array], scale: float, softcap: float = 0.0) -> Array:
    """[batch][heads][queries][keys]: what attention gives values that are 1 for one key each."""
    n_keys = k.shape[2]
    values = np.broadcast_to(np.eye(n_keys, dtype=np.float32), (*k.shape[:2], n_keys, n_keys)).copy()
    return attend(q, k, values, seen, bias, scale, softcap)


def scores(q: Array, k: Array, scale: float) -> Array:
    """[batch][heads][queries][keys] in float32: scaled products, which no plan stores, by numpy."""
    root = np.float32(np.sqrt(scale))
    keys = np.repeat(k, q.shape[1] // k.shape[1], axis=1).astype(np.float32)
    return (q.astype(np.float32) * root) @ (keys * root).swapaxes(-1, -2)
