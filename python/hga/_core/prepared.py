"""Calls whose arrays have been checked: what the next call of the same shapes, strides, types and options need not do again.
A call passes addresses, and the samples of a batch are described in C."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .call import Problem
from .library import RAISED, check, ffi, lib, refuse
from .plans import Plan, tape_bytes
from .tables import ROWS, Tables, parted

CLEARED_IN_C = 4 << 20  # bytes of an output beyond which fresh pages, which are zeros, cost less than setting it to zero
_ADDRESS, _BUFFER = lib.hga_py_address, ffi.from_buffer


def address(x: Optional[np.ndarray]) -> int:
    """Where an array begins; 0 of none."""
    if x is None:
        return 0
    try:
        return int(_ADDRESS(_BUFFER(x)))
    except ValueError:  # strided
        return int(x.ctypes.data)


class Prepared:
    """A kind of call, as C takes it."""

    def __init__(self, plan: Plan, p: Problem, d_out: Optional[np.dtype] = None) -> None:
        """d_out: the type of the output's gradient, where it is not the query's."""
        self.plan = plan
        columns, q = p.dim_v + p.features, p.q[0] if p.flat else p.q
        self.shape = q.shape[:-1] + (columns,)  # of the output
        packed = tuple(math.prod(q.shape[i + 1 :]) * q.itemsize for i in range(q.ndim))
        self.is_like_query = (self.shape, packed) == (q.shape, q.strides)
        self.samples = samples = int(np.prod(p.batch, dtype=np.int64))
        self.at_once = plan.at_once(samples)
        self.odd = max(p.q.itemsize, p.k.itemsize, p.v.itemsize) - 1  # bits of an address that are 0, with the last axis packed
        tape = p.batch + (tape_bytes(plan.plan),)  # [batch..][bytes]
        self.new_tape = plan.spares.maker(tape, np.uint8)
        self.c = c = ffi.new("hga_py_call *")
        c.plan, c.number, c.n_samples, c.n_axes = plan.plan, plan.number, self.samples, len(p.batch)
        strides = np.zeros((len(p.batch), 3), np.int64)
        for i, x in enumerate((p.q, p.k, p.v)):
            strides[:, i] = x.strides[: len(p.batch)]
        shape, steps = ffi.new("int64_t[]", list(p.batch)), ffi.new("int64_t[]", strides.ravel().tolist())
        c.shape, c.strides = shape, steps
        rows = p.q.shape[-3:-1]
        out_bytes = rows[0] * rows[1] * columns * p.q.itemsize
        d_out = d_out or p.q.dtype
        c.features_at = p.dim_v * p.q.itemsize if p.features else 0
        if p.features and d_out != np.float32:
            raise refuse(f"features of edges go with an output's gradient of float32, not {d_out}")
        c.d_out_bytes = out_bytes // p.q.itemsize * d_out.itemsize
        c.out_bytes, c.lse_bytes, c.tape_bytes = out_bytes, rows[0] * rows[1] * 4, tape[-1]
        self.clear_here = self.samples * out_bytes > CLEARED_IN_C
        c.clear = not self.clear_here
        self.new_out = plan.spares.maker(self.shape, p.q.dtype, self.clear_here)  # a program may leave rows alone, which are zeros
        for i, x in enumerate((p.q, p.k, p.v)):
            c.grad_bytes[i] = int(np.prod(x.shape[-3:], dtype=np.int64)) * x.itemsize
        if self.samples:
            self._describe(p, d_out)
        self._memory = shape, steps, p.tables.memory

    def _describe(self, p: Problem, d_out: np.dtype) -> None:
        """A sample's strides and types, without addresses."""
        io, g = self.c.io, self.c.grad
        p.describe(io, (0,) * len(p.batch))
        io.first_head = p.h._first_head
        p.tables.release(io)
        rows = p.q.shape[-3:-1]
        lse, columns = np.empty(rows, np.float32), rows + (p.dim_v + p.features,)
        for ts, x in (((io.out, io.edge_out), np.empty(columns, p.q.dtype)), ((g.d_out, g.d_edge_out), np.empty(columns, d_out))):
            for t, own in zip(ts, parted(x, p.features)):
                p.fill(t, own)
                t.data = ffi.NULL
        for t in (io.lse, g.d_lse):
            p.fill_rows(t, lse)
        for t, x in ((g.d_query, p.q), (g.d_key, p.k), (g.d_value, p.v)):
            p.fill(t, np.empty(x.shape[-3:], x.dtype))
        for t in (io.query, io.key, io.value, io.lse, g.d_lse, g.d_query, g.d_key, g.d_value):
            t.data = ffi.NULL

    def execute(
        self, q: int, k: int, v: int, out: int, lse: int, tape: int, tables: Optional[Tables], seed: int, layer: int
    ) -> None:  # fmt: skip
        """Forward: addresses in, out, lse and tape written; of lse and tape, 0: not requested."""
        plan = self.plan
        c_tables = ffi.NULL if tables is None or not tables.arrays else _c_tables(tables, {}, None)
        workspaces = plan.workspaces(self.at_once)
        try:
            status = lib.hga_py_execute(self.c, workspaces.c, q, k, v, out, lse, tape, c_tables, seed, layer)
        finally:
            plan.give_back(workspaces)
        if status or RAISED.error is not None:
            check(status)

    def gradient(
        self, q: int, k: int, v: int, out: int, tape: int, d_out: int, d_lse: int, d_q: int, d_k: int, d_v: int,
        tables: Optional[Tables], d_tables: Dict[str, np.ndarray], seed: int, layer: int,
    ) -> None:  # fmt: skip
        """Back: the gradients with an address, and those of ``d_tables``, are written."""
        plan = self.plan
        workspaces = plan.workspaces(self.at_once)
        try:
            floats = sum(x.size for x in d_tables.values())
            spare = np.empty(workspaces.n * floats, np.float32) if d_tables and self.samples != 1 else None
            c_tables = ffi.NULL if tables is None and not d_tables else _c_tables(tables, d_tables, spare)
            status = lib.hga_py_gradient(
                self.c, workspaces.c, q, k, v, out, tape, d_out, d_lse, d_q, d_k, d_v, c_tables, seed, layer
            )  # fmt: skip
        finally:
            plan.give_back(workspaces)
        if status or RAISED.error is not None:
            check(status)


def _c_tables(tables: Optional[Tables], grads: Dict[str, np.ndarray], spare: Optional[np.ndarray]) -> Any:
    """Where the tables are, and where their gradients go."""
    c = ffi.new("hga_py_tables *")
    for name, x in (tables.arrays if tables is not None else {}).items():
        c.input[ROWS[name].index] = address(x)
    for name, x in grads.items():
        index = ROWS[name].index
        c.gradients[index], c.floats[index] = address(x), x.size
    c.spare = address(spare)
    return c
