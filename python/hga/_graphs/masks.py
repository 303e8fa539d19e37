"""Masks as graphs: arrays of truth values, and functions that tell them some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import numpy as np

from .._core.arguments import flag, unmasked, whole
from .._core.library import extern, ffi, lib, record_raised, refuse, refuse_type
from .._core.arrays import is_torch, is_torch_sparse
from .builder import new_graph

if TYPE_CHECKING:
    from .runs import Runs

Rows = Callable[[int, int], np.ndarray]  # (first, n) -> [n][keys] truth values


def _made(mask: Any) -> Any:
    """The library's graph, which those below return."""
    return new_graph(lib.hga_graph_from_predicate, ffi.NULL, mask)


def graph_of_runs(seen: "Runs", relative: bool = False) -> Any:
    """The graph of a mask whose runs are known, which is that of its rows."""
    arrays = (np.ascontiguousarray(x, t) for x, t in ((seen.row, np.int32), (seen.ptr, np.int64), (seen.keys(), np.int32)))
    row, ptr, keys = alive = [*arrays]
    runs, mask = ffi.new("hga_mask_runs *"), ffi.new("hga_mask *")
    runs.n, runs.row, runs.ptr = len(row) - 1, ffi.cast("hga_id *", row.ctypes.data), ffi.cast("hga_pos *", ptr.ctypes.data)
    runs.keys = ffi.cast("hga_id *", keys.ctypes.data)
    mask.n_queries, mask.n_keys, mask.relative, mask.runs = seen.n_queries, seen.n_keys, relative, runs
    graph = _made(mask)
    del alive  # the library has read them
    return graph


@extern(error=lib.HGA_EINVAL, onerror=record_raised)
def hga_py_sees(context: Any, first: int, n: int, sees: Any) -> int:
    rows, n_keys = ffi.from_handle(context)
    out = np.frombuffer(ffi.buffer(sees, n * n_keys), np.bool_).reshape(n, n_keys)
    np.copyto(out, rows(first, n))
    return int(lib.HGA_OK)


def _of_rows(rows: Rows, n_queries: int, n_keys: int, relative: bool, cross: bool) -> Any:
    handle = ffi.new_handle((rows, n_keys))
    its = ffi.new("hga_mask *")
    its.n_queries, its.n_keys, its.relative, its.cross = n_queries, n_keys, relative, cross
    its.sees, its.context = lib.hga_py_sees, handle
    return _made(its)


def _check_type(x: Any) -> None:
    if str(x.dtype).rpartition(".")[2] != "bool":
        raise refuse_type(f"the mask holds {x.dtype}, not truth values: compare it with something, such as mask != 0")


def _of_sparse(x: Any, relative: bool, cross: bool) -> Any:
    """A matrix of torch's, without writing out all of it."""
    _check_type(x)
    coo = x.detach().cpu().to_sparse_coo().coalesce()
    row, key = (at[coo.values().numpy()] for at in coo.indices().numpy())

    def rows(first: int, n: int) -> np.ndarray:
        its = slice(*np.searchsorted(row, (first, first + n)))
        seen = np.zeros((n, x.shape[1]), np.bool_)
        seen[row[its] - first, key[its]] = True
        return seen

    return _of_rows(rows, x.shape[0], x.shape[1], relative, cross)


def _of_array(x: Any, relative: bool, cross: bool) -> Any:
    x = x.detach().cpu().numpy() if is_torch(x) else np.asarray(unmasked(x, "the mask"))
    _check_type(x)
    if x.ndim != 2:
        raise refuse(f"the mask has shape {x.shape}, not [queries][keys]")
    x = x if x.strides[1] == 1 and x.strides[0] >= x.shape[1] else np.ascontiguousarray(x)
    mask = ffi.new("hga_mask *")
    mask.n_queries, mask.n_keys = x.shape
    mask.bytes, mask.row_bytes, mask.relative, mask.cross = ffi.cast("uint8_t *", x.ctypes.data), x.strides[0], relative, cross
    return _made(mask)


def _sizes(n: Any) -> Tuple[int, int]:
    if n is None:
        raise refuse("a mask that is a function needs n=, tokens or (queries, keys)")
    n_queries, n_keys = n if isinstance(n, tuple) and len(n) == 2 else (n, n)
    return whole(n_queries, "n"), whole(n_keys, "n")


def graph_of_mask(mask: Any, n: Optional[Any], relative: bool, cross: bool) -> Any:
    """Graph.from_mask."""
    relative, cross = flag(relative, "relative"), flag(cross, "cross")
    if not callable(mask):
        if n is not None:
            raise refuse(f"n is {n!r}: an array's sizes are its own")
        return (_of_sparse if is_torch_sparse(mask) else _of_array)(mask, relative, cross)
    n_queries, n_keys = _sizes(n)
    key = np.arange(n_keys)[None, :]

    def rows(first: int, n: int) -> np.ndarray:
        seen = np.broadcast_to(unmasked(mask(np.arange(first, first + n)[:, None], key), "the mask"), (n, n_keys))
        if seen.dtype != np.bool_:
            raise refuse_type(f"the mask holds {seen.dtype}, not truth values")
        return seen

    return _of_rows(rows, n_queries, n_keys, relative, cross)
