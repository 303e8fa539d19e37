"""Hierarchies that the queries and keys of a call decide on: each sample of a batch gets a graph of its own, and takes over the
plan of one before it."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from .._core.arguments import answered
from .._core.values import as_numpy, is_torch, refuse, refuse_layout
from .._core.deferred import compiling
from .hierarchy import Hierarchy
from .._core.threads import Threaded

SAMPLES_CACHED = 64  # of one that decides by content: those whose plans wait for the next


class ByContent(Threaded):
    """Attention over a graph that is found in the call."""

    _made: List[Hierarchy] = []  # of the last samples

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_made": []}

    def hierarchy(self, q: Any, k: Any, layout: str = "bhnd") -> Hierarchy:
        """The hierarchy of one input, [heads][n][dim] (or [n][heads][dim] with layout "bnhd")."""
        raise NotImplementedError

    def _again(self) -> Any:
        """The same, made anew inside torch.compile."""
        raise NotImplementedError

    def _next(self, q: Any, k: Any, layout: str) -> Hierarchy:
        """That of a call's sample, which takes over the plan of any before it whose call and backward pass have been."""
        made = self.hierarchy(q, k, layout)
        before = [h for h in self._made if h._plans]
        self._made = before[-SAMPLES_CACHED:] + [made._follows(*before)]
        return made

    def lift(self, x: Any, *, layout: str = "bhnd", which: str = "query") -> Any:
        """x itself: rows are tokens (``Hierarchy.lift``)."""
        return x

    def lower(self, y: Any, *, layout: str = "bhnd") -> Any:
        """y itself: rows are tokens."""
        return y

    @answered
    def attention(self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", **more: Any) -> Any:
        """As Hierarchy.attention; every sample of a batch has a graph of its own."""
        if compiling():
            return self._again().attention(q, k, v, layout=layout, **more)
        check_call(q, k, v)
        if q.ndim <= 3:
            return self._next(q, k, layout).attention(q, k, v, layout=layout, **more)
        if len(q) == 0:
            return _nothing(q, k, v, bool(more.get("lse")))
        samples = [self.attention(q[i], k[i], v[i], layout=layout, **more) for i in range(len(q))]
        if len(samples) == 1:
            return tuple(x[None] for x in samples[0]) if isinstance(samples[0], tuple) else samples[0][None]
        if isinstance(samples[0], tuple):
            return tuple(stacked_like(*(p[i] for p in samples)) for i in range(len(samples[0])))
        return stacked_like(*samples)


def check_call(q: Any, k: Any, v: Any = None, d_out: Any = None, d_lse: Any = None) -> None:
    """Have all arrays of a call the batch axes of its query, and do those belong together that are cut by samples and heads?"""
    inputs = {"query": q, "key": k, "value": v, "d_out": d_out, "d_lse": d_lse}
    shapes = {name: _shape(x, name) for name, x in inputs.items() if x is not None or name in ("query", "key")}
    of_q, of_k, of_v = shapes["query"], shapes["key"], shapes.get("value")
    for name, shape in shapes.items():
        if name in ("key", "value") and len(shape) != len(of_q):
            raise refuse(f"{name} has {len(shape)} axes, query {len(of_q)}")
        if name in ("key", "value") and shape[:-3] != of_q[:-3]:
            raise refuse(f"{name} has shape {shape}, query {of_q}: the batch axes differ")
    if of_v and of_v[:-1] != of_k[:-1]:
        raise refuse(f"value has shape {of_v}, key {of_k}")
    for name, want in (("d_out", of_q[:-1] + (of_v or of_q)[-1:]), ("d_lse", of_q[:-1])):
        if shapes.get(name, want) != want:
            raise refuse(f"{name} has shape {shapes[name]}, not {want}")


def _shape(x: Any, name: str) -> Any:
    if is_torch(x) and x.is_nested:
        raise refuse_layout(x, name)
    return tuple(x.shape if hasattr(x, "shape") else as_numpy(x, name).shape)


def by_sample(q: Any, **arrays: Any) -> List[Dict[str, Any]]:
    """What each sample of a batch has of arrays that begin with the batch axis."""
    for name, x in arrays.items():
        n = None if x is None or getattr(x, "ndim", 1) == 0 or not hasattr(x, "__len__") else len(x)
        if x is not None and n != len(q):
            raise refuse(f"{name} has {n} samples, the query {len(q)}" if n is not None else f"{name} is {x!r}, no array of {len(q)} samples")
    return [{name: None if x is None else x[i] for name, x in arrays.items()} for i in range(len(q))]


def _nothing(q: Any, k: Any, v: Any, lse: bool) -> Any:
    """The output of a batch without samples."""
    if is_torch(q):
        out = q.new_zeros(q.shape[:-1] + v.shape[-1:]) + 0 * (q.sum() + k.sum() + v.sum()).to(q.dtype)  # differentiable
        lses = q.new_zeros(q.shape[:-1]).float()
    else:
        out, lses = np.zeros(q.shape[:-1] + v.shape[-1:], q.dtype), np.zeros(q.shape[:-1], np.float32)
    return (out, lses) if lse else out


def stacked_like(*samples: Any) -> Any:
    """Samples of torch or of numpy, as they are."""
    if is_torch(samples[0]):
        import torch

        return torch.stack(samples)
    return np.stack(samples)
