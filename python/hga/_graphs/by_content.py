"""Hierarchies that the queries and keys of a call decide on: each sample of a batch gets a graph of its own, and takes over the
plan of one before it."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Optional, Sequence

import numpy as np

from .._core.arguments import Threaded, answered
from .._core.arrays import as_numpy, is_torch, refuse_layout
from .._core.library import refuse
from .._core.deferred import compiling
from .hierarchy import Hierarchy

SAMPLES_CACHED = 64  # of one that decides by content: those whose plans wait for the next


class ByContent(Threaded):
    """Attention over a graph that is found in the call."""

    _made: List[Hierarchy] = []  # of the last samples
    _beside: Optional["ByContent"] = None  # one of as many tokens, whose plans it takes over, and which takes over its own
    _of_samples: FrozenSet[str] = frozenset()  # what a call has for each sample of a batch, beside tensors

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_made": [], "_beside": None}

    def __getattr__(self, name: str) -> Any:
        known = not name.startswith("_") and hasattr(Hierarchy, name)
        says = f" before it sees an input; its hierarchy has: h.hierarchy(q, k).{name}" if known else ""
        raise AttributeError(f"{type(self).__name__} has no {name}{says}")

    def hierarchy(self, q: Any, k: Any, layout: str = "bhnd") -> Hierarchy:
        """The hierarchy of one input, [heads][n][dim] (or [n][heads][dim] with layout "bnhd")."""
        raise NotImplementedError

    def _again(self) -> Any:
        """The same, made anew inside torch.compile."""
        raise NotImplementedError

    def _told(self, made: Hierarchy) -> Hierarchy:
        """One that was made for a call, with what was said of these."""
        made._threads, made._bind = self._threads, self._bind
        return made

    def _next(self, made: List[Hierarchy]) -> List[Hierarchy]:
        """Those of a call's sample, which take over the plans of any before them whose call and backward pass have been."""
        held = self._beside or self
        before = [h for h in held._made if h._plans]
        for h in made:
            h._follows(*before)
        held._made = before[-SAMPLES_CACHED:] + made
        return made

    def _attend(self, q: Any, k: Any, v: Any, layout: str, **more: Any) -> Any:
        """Attention of one sample."""
        return self._next([self.hierarchy(q, k, layout)])[0].attention(q, k, v, layout=layout, **more)

    def lift(self, x: Any, *, layout: str = "bhnd", which: str = "query") -> Any:
        """x itself: rows are tokens (``Hierarchy.lift``)."""
        return x

    def lower(self, y: Any, *, layout: str = "bhnd") -> Any:
        """y itself: rows are tokens."""
        return y

    def __call__(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        """``attention``, as one calls a layer."""
        return self.attention(q, k, v, **options)

    @answered
    def attention(self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", **more: Any) -> Any:
        """As Hierarchy.attention; every sample of a batch has a graph of its own."""
        if compiling():
            return self._again().attention(q, k, v, layout=layout, **more)
        check_call(q, k, v)
        if q.ndim <= 3:
            return self._attend(q, k, v, layout, **more)
        each = by_sample(q, **{name: more.pop(name) for name in self._of_samples & set(more)})
        if not each and not more.get("return_block_weights"):
            return _nothing(q, k, v, bool(more.get("lse")))
        require_samples(q)
        samples = [self.attention(q[i], k[i], v[i], layout=layout, **own, **more) for i, own in enumerate(each)]
        if isinstance(samples[0], tuple):
            return tuple(stacked(x) for x in zip(*samples))
        return stacked(samples)


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


def require_samples(q: Any) -> None:
    if len(q) == 0:
        raise refuse(f"query has shape {tuple(q.shape)}: there is no sample to choose for")


def _nothing(q: Any, k: Any, v: Any, lse: bool) -> Any:
    """The output of a batch without samples."""
    if is_torch(q):
        out = q.new_zeros(q.shape[:-1] + v.shape[-1:]) + 0 * (q.sum() + k.sum() + v.sum()).to(q.dtype)  # differentiable
        lses = q.new_zeros(q.shape[:-1]).float()
    else:
        out, lses = np.zeros(q.shape[:-1] + v.shape[-1:], q.dtype), np.zeros(q.shape[:-1], np.float32)
    return (out, lses) if lse else out


def stacked(samples: Sequence[Any], fill: Any = 0) -> Any:
    """Of a batch: samples of torch or of numpy, as they are; those that have fewer columns are filled up."""
    if len(samples) == 1:
        return samples[0][None]
    columns = [x.shape[-1] for x in samples]
    missing = [max(columns) - n for n in columns]
    if is_torch(samples[0]):
        import torch

        return torch.stack([torch.nn.functional.pad(x, (0, n), value=fill) if n else x for x, n in zip(samples, missing)])
    return np.stack([np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n)], constant_values=fill) if n else x for x, n in zip(samples, missing)])
