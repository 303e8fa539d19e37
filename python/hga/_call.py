"""One call of attention: its arrays checked, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import numpy as np

from ._arguments import meant
from ._core import as_floats, as_numpy, ffi, fill_tensor, floats_at, lib, number, refuse, table
from ._rows import in_words

if TYPE_CHECKING:
    from ._hierarchy import Hierarchy

LAYOUTS = {"bhnd": (-3, -2), "bnhd": (-2, -3)}


class Tables:
    """What a call may bring besides query, key and value, as the library takes it; keeps the arrays alive."""

    ARRAYS = ("rel_key", "rel_bias", "edge_bias", "node_pos", "type_scale", "sink", "slopes", "additive")
    NAMES = ARRAYS + ("softcap",)

    def __init__(self, h: "Hierarchy", given: Dict[str, Any], scale: Optional[float] = None) -> None:
        self.scale = None if scale is None else number(scale, "scale")
        self.arrays: Dict[str, np.ndarray] = {}
        self.softcap = self._softcap(given.get("softcap"))
        self.bias = h._normaliser_bias
        for name in self.ARRAYS:
            value = given.get(name)
            if value is None and name == "type_scale":
                value = h._type_scale
            if value is None:
                continue
            x = as_floats(value, name)
            is_row = name in ("type_scale", "sink", "slopes") or (name == "edge_bias" and x.ndim == 1)
            self.arrays[name] = table(x, name, 1 if is_row else 2)
            if name == "node_pos" and h._node_of is not None:
                if len(x) != len(h._node_of):
                    raise refuse(f"node_pos has {len(x)} rows, the tree {len(h._node_of)} nodes")
                own = np.empty_like(self.arrays[name])
                own[h._node_of] = self.arrays[name]
                self.arrays[name] = own

    @staticmethod
    def _softcap(given: Any) -> float:
        """0: none."""
        if given is None:
            return 0.0
        cap = number(given.item() if hasattr(given, "item") else given, "softcap")
        if not (0 < cap < float("inf")):
            raise refuse(f"softcap {cap} is not finite and greater than 0")
        return cap

    def check(self, heads: int, dim: int) -> None:
        if "additive" in self.arrays and self.arrays["additive"].shape != (heads, dim):
            raise refuse(f"additive has shape {self.arrays['additive'].shape}: [heads][dim] is ({heads}, {dim})")
        for name in ("sink", "slopes"):
            if name in self.arrays and len(self.arrays[name]) != heads:
                raise refuse(f"{name} has {len(self.arrays[name])} numbers, the query {heads} heads")
        for name, columns in {"rel_key": dim, "rel_bias": heads}.items():
            if name in self.arrays and self.arrays[name].shape[1] != columns:
                raise refuse(f"{name} has shape {self.arrays[name].shape}: its rows need {columns} columns")

    @property
    def pos_dim(self) -> int:
        return self.arrays["node_pos"].shape[1] if "node_pos" in self.arrays else 0

    @property
    def key(self) -> Tuple[Any, ...]:
        """What a call's description knows of tables."""
        return tuple((name, x.shape) for name, x in self.arrays.items())

    def modify(self, m: Any) -> None:
        """Softcap, sinks, slopes, sigmoids' bias and the vectors of additive scores, to an hga_modifiers of size 0; and that a
        scale is given, which is then the number that it is, 0 too."""
        sink, slopes, additive = (self.arrays.get(name) for name in ("sink", "slopes", "additive"))
        is_given = self.scale is not None
        if sink is None and slopes is None and additive is None and not self.softcap and not self.bias and not is_given:
            return
        m.size, m.softcap, m.normaliser_bias = ffi.sizeof("hga_modifiers"), self.softcap, self.bias
        m.scale_is_given = is_given
        m.sink = ffi.NULL if sink is None else floats_at(sink)
        m.slopes = ffi.NULL if slopes is None else floats_at(slopes)
        m.additive = ffi.NULL if additive is None else floats_at(additive)

    def describe(self, io: Any) -> None:
        """Their sizes, and where they are."""
        io.scale, a = self.scale or 0.0, self.arrays
        for name in a:
            if name not in ("sink", "slopes", "additive"):
                setattr(io, name, floats_at(a[name]))
        self._modifiers = ffi.new("hga_modifiers *")
        self.modify(self._modifiers[0])
        io.modifiers = self._modifiers if self._modifiers.size else ffi.NULL
        io.n_rel_key = len(a.get("rel_key", ()))
        io.n_rel_bias = len(a.get("rel_bias", ()))
        io.n_type_scale = len(a.get("type_scale", ()))
        io.n_node_pos = len(a.get("node_pos", ()))
        if "edge_bias" in a:
            io.n_edge_bias = len(a["edge_bias"])
            io.edge_bias_heads = 1 if a["edge_bias"].ndim == 1 else a["edge_bias"].shape[1]


class Problem:
    """The arrays of one call, checked, with their axes named."""

    def __init__(self, h: "Hierarchy", q: Any, k: Any, v: Any, layout: str, tables: Tables) -> None:
        if layout not in LAYOUTS:
            raise refuse(f"layout {layout!r} is neither 'bhnd' nor 'bnhd'{meant(layout, LAYOUTS)}")
        self.q, self.k, self.v = (as_numpy(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value")))
        axes = self.q.ndim
        for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value")):
            if x.ndim != axes:
                raise refuse(f"{name} has {x.ndim} axes, query {axes}")
            if x.ndim < 2:
                raise refuse(f"{name} has shape {x.shape}: at least [tokens][dim] is needed")
            if x.shape[-1] > 1 and x.size and x.strides[-1] != x.itemsize:
                raise refuse(f"{name} is not contiguous in the last dimension (strides {x.strides})")
        if axes == 2:
            self.q, self.k, self.v = self.q[None], self.k[None], self.v[None]
            layout = "bhnd"
        self.flat = axes == 2
        self.heads_axis, self.rows_axis = LAYOUTS[layout]
        self.batch = self.q.shape[:-3]
        for x, name in ((self.k, "key"), (self.v, "value")):
            if x.shape[:-3] != self.batch:
                raise refuse(f"{name} has shape {x.shape}, query {self.q.shape}: the batch axes differ")
        self.heads, self.kv_heads = self.q.shape[self.heads_axis], self.k.shape[self.heads_axis]
        self.dim, self.dim_v = self.q.shape[-1], self.v.shape[-1]
        for n, what in ((self.heads, "query"), (self.kv_heads, "key")):
            if n == 0:
                raise refuse(f"{what} has shape {(self.q if what == 'query' else self.k).shape}: no heads")
        if self.dim == 0 or self.dim_v == 0:
            raise refuse(f"query has {self.dim} columns, value {self.dim_v}: at least one is needed")
        if self.k.shape[-1] != self.dim:
            raise refuse(f"key has {self.k.shape[-1]} columns, query {self.dim}")
        if self.v.shape[self.heads_axis] != self.kv_heads or self.v.shape[self.rows_axis] != self.k.shape[self.rows_axis]:
            raise refuse(f"value has shape {self.v.shape}, key {self.k.shape}")
        for x, name, n in ((x, name, h._rows(name)) for x, name in ((self.q, "query"), (self.k, "key"), (self.v, "value"))):
            if n >= 0 and x.shape[self.rows_axis] != n:
                raise refuse(
                    f"{name} of shape {x.shape} has {x.shape[self.rows_axis]} rows in layout {layout!r}, the hierarchy {n}"
                    + in_words(h, name)
                )
        tables.check(self.heads, self.dim)
        self.tables = tables

    def describe(self, io: Any, at: Tuple[int, ...]) -> None:
        """A sample's arrays and tables, to the library."""
        fill_tensor(io.query, self.q[at], self.rows_axis, self.heads_axis)
        fill_tensor(io.key, self.k[at], self.rows_axis, self.heads_axis)
        fill_tensor(io.value, self.v[at], self.rows_axis, self.heads_axis)
        self.tables.describe(io)
