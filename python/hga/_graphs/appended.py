"""New rows of caches: where they lie, whatever arrays they come in, and new arrays of the same kind for what comes of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Tuple

import numpy as np

from .._core.arrays import FLOAT32, as_numpy, fill_rows, fill_tensor, is_torch, narrowed, unrepeated, widened
from .._core.call import LAYOUTS, address
from .._core.library import ffi, lib, refuse
from .._core.releases import perhaps
from .._core.tables import ROWS, single

if TYPE_CHECKING:
    from .decoder import Decoder

FORMS_CACHED = 64  # of a decoder: tokens that come one by one have one, prompts in chunks one for each length
NOT_PLAIN: Tuple[Tuple[int, ...], Any] = (), None


def _memory(x: Any, what: str) -> np.ndarray:
    if type(x) is np.ndarray and x.dtype is FLOAT32 and x.flags.c_contiguous and x.flags.aligned:
        return x  # as most tokens come: nothing to find out
    if is_torch(x) and x.requires_grad:
        import torch

        if torch.is_grad_enabled():
            raise refuse(f"{what} requires a gradient, which decoding has not: call it under torch.no_grad(), or detach()")
    return unrepeated(widened(as_numpy(x, what)))


def own_copy(x: Any, name: str) -> Any:
    """A table of all appends, whatever its owner does to it meanwhile."""
    row = ROWS[name]
    if not row.is_number:
        return np.array(_memory(x, name))
    if not is_torch(x):
        return x
    one = _memory(single(x, name), name)
    row.check_shape(one.shape)
    return float(one.reshape(()))


def _as_callers(x: np.ndarray, like: Any) -> Any:
    """Float32 in the caller's kind of array and type of number."""
    if not is_torch(like):
        kind = getattr(like, "dtype", x.dtype)
        return narrowed(x, as_numpy(like, "query").dtype).view(kind) if kind != x.dtype else x
    made = sys.modules["torch"].from_numpy(x)
    return made if like.dtype is made.dtype else made.to(like.dtype)


def _lying(torch: Any, layout: str, q: Any, k: Any, v: Any) -> Tuple[Tuple[int, ...], Any]:
    """Where torch's tensors lie that are as most tokens come, in the processor's own memory, and how: whether rows that lie so can
    be read there, _are_plain has to say but once. NOT_PLAIN of others."""
    if not type(q) is type(k) is type(v) is torch.Tensor or perhaps("_are_functorch_transforms_active")():
        return NOT_PLAIN
    if q.requires_grad or k.requires_grad or v.requires_grad or not (q.is_cpu and k.is_cpu and v.is_cpu):
        return NOT_PLAIN
    try:
        at = q.data_ptr(), k.data_ptr(), v.data_ptr()
        if q.is_neg() or k.is_neg() or v.is_neg() or (at[0] | at[1] | at[2]) & 3:
            return NOT_PLAIN
        return at, (layout, q.dtype, q.shape, q.stride(), k.dtype, k.shape, k.stride(), v.dtype, v.shape, v.stride())
    except RuntimeError:  # what is sparse, opaque or nested has no strides
        return NOT_PLAIN


def _are_plain(torch: Any, *rows: Any) -> bool:
    """Are they float32, in rows that do not repeat?"""
    return all(x.dtype is torch.float32 and x.layout is torch.strided and not x.is_nested and 0 not in x.stride() for x in rows)


class Form:
    """How one cache's new rows lie, checked: all that appends of such rows have in common. [heads][rows][columns], or with
    these axes turned."""

    def __init__(self, d: "Decoder", q: np.ndarray, k: np.ndarray, v: np.ndarray, layout: str) -> None:
        self.out, self.lse = q.shape[:-1] + (d.dim_v,), q.shape[:-1]
        axes = LAYOUTS[layout]
        if q.ndim == 2:
            axes, q, k, v = (-3, -2), q[None], k[None], v[None]
        for x, what, heads, columns in (
            (q, "query", d.heads, d.dim), (k, "key", d.kv_heads, d.dim), (v, "value", d.kv_heads, d.dim_v),
        ):  # fmt: skip
            self._check(x, q, what, layout, axes, heads, columns)
        self.n = int(q.shape[axes[1]])
        out, lse = np.empty(q.shape[:-1] + (d.dim_v,), np.float32), np.empty(q.shape[:-1], np.float32)
        self.rows = ffi.new("hga_py_rows *", {"out_bytes": out.nbytes, "lse_bytes": lse.nbytes})
        self.rows.append.io = d._io[0]
        io = self.rows.append.io
        for t, x in ((io.query, q), (io.key, k), (io.value, v), (io.out, out)):
            fill_tensor(t, x, axes[1], axes[0])
        fill_rows(io.lse, lse, axes[1] + 1, axes[0] + 1)

    def _check(self, x: np.ndarray, q: np.ndarray, what: str, layout: str, axes: Tuple[int, int], heads: int, columns: int) -> None:
        heads_axis, rows_axis = axes
        if x.ndim != 3:
            raise refuse(f"{what} has shape {x.shape}: rows of one cache are {'[heads][rows][dim]' if layout == 'bhnd' else '[rows][heads][dim]'}")
        if x.shape[-1] != columns or x.shape[heads_axis] != heads:
            raise refuse(f"{what} has {x.shape[heads_axis]} heads of {x.shape[-1]} columns in layout {layout!r}, the decoder has {heads} of {columns}")
        if x.shape[rows_axis] != q.shape[rows_axis]:
            raise refuse(f"{what} has {x.shape[rows_axis]} rows, query {q.shape[rows_axis]}")
        if x.shape[rows_axis] == 0:
            raise refuse(f"{what} has no rows: at least one token is appended")
        if x.shape[-1] > 1 and x.strides[-1] != x.itemsize:
            raise refuse(f"{what} is not contiguous in the last dimension (strides {x.strides})")


class Rows:
    """One cache's new rows: where they are, and new arrays for what comes of them."""

    def __init__(self, d: "Decoder", q: Any, k: Any, v: Any, layout: str, lse: bool) -> None:
        torch = sys.modules.get("torch")
        key: Any  # of forms
        self.at, key = NOT_PLAIN if torch is None else _lying(torch, layout, q, k, v)
        form = None if key is None else d._forms.get(key)
        plain = form is not None or (key is not None and _are_plain(torch, q, k, v))
        self.like, self.plain = q, plain  # plain: the output is a tensor of torch's as it comes
        if not plain:
            q, k, v = _memory(q, "query"), _memory(k, "key"), _memory(v, "value")
            self.at = address(q), address(k), address(v)
            key = layout, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides
            form = d._forms.get(key)
        self.inputs = q, k, v
        if form is None:
            form = Form(d, as_numpy(q, "query"), as_numpy(k, "key"), as_numpy(v, "value"), layout)
            if len(d._forms) >= FORMS_CACHED:
                d._forms.clear()
            d._forms[key] = form
        self.form = form
        self.out = np.empty(form.out, np.float32)
        self.lse = np.empty(form.lse, np.float32) if lse else None

    def fill(self, item: Any, cache: Any, n_tokens: int) -> None:
        """To the library."""
        lib.hga_py_append_rows(self.form.rows, cache, n_tokens, *self.at, address(self.out), address(self.lse), item)

    def found(self) -> Any:
        out = sys.modules["torch"].from_numpy(self.out) if self.plain else _as_callers(self.out, self.like)
        if self.lse is None:
            return out
        return out, sys.modules["torch"].from_numpy(self.lse) if is_torch(self.like) else self.lse
