"""Rows that are nodes: tokens' rows scattered to them, and gathered from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import meant, one_of
from .values import is_torch, lib, refuse, refuse_type, shown

if TYPE_CHECKING:
    from .._graphs.hierarchy import Hierarchy

_BINDINGS = {"query": lib.HGA_IO_QUERY, "key": lib.HGA_IO_KEY, "value": lib.HGA_IO_VALUE, "out": lib.HGA_IO_OUT}
_AXES = {"bhnd": -2, "bnhd": -3}


def are_nodes(h: "Hierarchy", which: str) -> bool:
    """Has the tensor of that name a row a node?"""
    field = lib.hga_program_field(h._program, _BINDINGS[which])
    return bool(field and h._program.field[field].io == lib.HGA_ROWS_NODES)


def _tokens(h: "Hierarchy") -> int:
    return int(lib.hga_graph_nodes(h.graph._g).level_ptr[1])


def in_words(h: "Hierarchy", which: str) -> str:
    """What a message about a wrong number of rows adds where rows are nodes."""
    if not are_nodes(h, which):
        return ""
    spans = h.graph.n_nodes - _tokens(h)
    name = h.words.split(" x ")[-1].split()[0] if h.words else "this hierarchy"
    says = f": rows of {name} are nodes: {_tokens(h)} tokens and {spans} spans"
    return says + "; h.lift(x) makes them of tokens' rows, h.lower(out) takes the tokens' out"


def _axis(x: Any, layout: str, what: str) -> int:
    if layout not in _AXES:
        raise refuse(f"layout {shown(layout)} is neither 'bhnd' nor 'bnhd'{meant(layout, _AXES)}")
    if not (is_torch(x) or isinstance(x, np.ndarray)):
        raise refuse_type(f"{what} is a {type(x).__name__}, not a numpy array or a torch tensor")
    if x.ndim < 2:
        raise refuse(f"{what} has shape {tuple(x.shape)}: at least [tokens][dim] is needed")
    return -2 if x.ndim == 2 else _AXES[layout]


def _expect(x: Any, axis: int, layout: str, what: str, n: int, rows: str) -> None:
    if x.shape[axis] != n:
        raise refuse(f"{what} of shape {tuple(x.shape)} has {x.shape[axis]} rows in layout {layout!r}, not {n}, {rows}")


def lifted(h: "Hierarchy", x: Any, layout: str, which: str) -> Any:
    """Tokens' rows followed by zeros for the spans."""
    axis = _axis(x, layout, which)
    one_of(which, "which", _BINDINGS)
    if not are_nodes(h, which):
        return x
    tokens = _tokens(h)
    _expect(x, axis, layout, which, tokens, "one a token")
    shape = list(x.shape)
    shape[axis] = h.graph.n_nodes - tokens
    if is_torch(x):
        import torch

        return torch.cat([x, x.new_zeros(shape)], axis)
    return np.concatenate([x, np.zeros(shape, x.dtype)], axis)


def lowered(h: "Hierarchy", y: Any, layout: str) -> Any:
    """The tokens' rows: a view, without the spans'."""
    axis = _axis(y, layout, "out")
    if not are_nodes(h, "out"):
        return y
    _expect(y, axis, layout, "out", h.graph.n_nodes, "one a node")
    at = [slice(None)] * y.ndim
    at[axis] = slice(0, _tokens(h))
    return y[tuple(at)]
