"""What calls of JAX's have in common once their shapes and options are known: checked once, and said to XLA in attributes."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np

from .._core.arguments import BINDINGS
from .._core.call import Problem
from .._core.arrays import BF16
from .._core.library import Error, check, ffi, lib, refuse
from .._core.precision import PRECISIONS
from .._core.tables import INPUTS, ROWS, Tables, with_own

if TYPE_CHECKING:
    from .._graphs.hierarchy import Hierarchy

KINDS_CACHED = 64  # of a hierarchy: those that came first go


class Options(NamedTuple):
    """How a call runs."""

    layout: str
    lse: bool
    dropout: float
    layer: int
    precision: str
    threads: int
    isa: str


def text_of(h: "Hierarchy") -> str:
    """The hierarchy's JSON, as files have it."""
    if h._functions:
        raise refuse(f"{h!r} runs functions of your own, which XLA cannot call")
    if "text" not in h._of_jax:
        with tempfile.TemporaryFile() as file:
            check(lib.hga_program_write_file(h._program, h.graph._g, f"/dev/fd/{file.fileno()}".encode()))
            file.seek(0)
            h._of_jax["text"] = file.read().decode()
    text: str = h._of_jax["text"]
    return text


@dataclass(frozen=True)
class Kind:
    """A kind of call."""

    options: Options
    hierarchy: str  # as files have it
    names: Tuple[str, ...]  # of the tables
    columns: int  # of the output
    numbers: Tuple[bytes, bytes]  # XLA's attribute of that name, without a gradient and with one

    @property
    def gradients(self) -> List[str]:
        return [*INPUTS, *(name for name in self.names if ROWS[name].has_gradient)]

    def plan_bytes(self, grad: bool) -> int:
        """Bytes of the tape of a sample. Makes the plan, if it is not there: what it refuses is said now, by name."""
        kind, found, text = ffi.new("hga_py_kind *"), ffi.new("int64_t *"), self.hierarchy.encode()
        isa, hierarchy = ffi.new("char[]", self.options.isa.encode()), ffi.from_buffer(text)
        kind.number, kind.dropout = ffi.from_buffer("int64_t[]", self.numbers[grad]), self.options.dropout
        kind.isa, kind.isa_bytes, kind.hierarchy, kind.hierarchy_bytes = isa, len(self.options.isa), hierarchy, len(text)
        check(lib.hga_py_tape_bytes(kind, found))
        return int(found[0])

    def attributes(self, grad: bool, results: str) -> Dict[str, Any]:
        """results: of a forward call, what it gives beside the output; of a backward call, its inputs beside its gradient."""
        return {
            "numbers": np.frombuffer(self.numbers[grad], np.int64), "dropout": np.float64(self.options.dropout),
            "isa": self.options.isa, "hierarchy": self.hierarchy, "tables": " ".join(self.names), "results": results,
        }  # fmt: skip


def _like(x: Any) -> np.ndarray:
    """An array of that shape and type, to be checked."""
    return np.zeros(x.shape, BF16 if x.dtype.name == "bfloat16" else x.dtype)


def _new_kind(h: "Hierarchy", q: Any, k: Any, v: Any, by_name: Mapping[str, Any], options: Options) -> Kind:
    text, names = text_of(h), tuple(with_own(h, by_name))
    known = {name: x if type(x) is float else _like(x) for name, x in by_name.items() if type(x) is float or not ROWS[name].is_number}
    p = Problem(h, _like(q), _like(k), _like(v), options.layout, Tables(h, known))
    if options.lse and not h._program.has_lse:
        raise Error("HGA_EUNSUPPORTED", "this program's output has no log-sum-exp")
    generic = any(ROWS[name].is_plain for name in names)
    kind = Kind(options, text, names, p.dim_v, (_numbers(p, text, options, generic, False), _numbers(p, text, options, generic, True)))
    kind.plan_bytes(False)
    return kind


def _numbers(p: Problem, hierarchy: str, o: Options, has_plain: bool, grad: bool) -> bytes:
    h = p.h
    heads, kv_heads, dim, dim_v, (pos_dim, generic), threads, precision, *_ = p.plan_key(o.threads, o.precision, o.isa or None, o.dropout, grad)
    said = {
        lib.HGA_PY_FORM: lib.HGA_PY_THIS_FORM, lib.HGA_PY_HEADS: heads, lib.HGA_PY_KV_HEADS: kv_heads, lib.HGA_PY_DIM: dim,
        lib.HGA_PY_DIM_V: dim_v, lib.HGA_PY_POS_DIM: pos_dim, lib.HGA_PY_GENERIC: generic | has_plain, lib.HGA_PY_THREADS: threads,
        lib.HGA_PY_BIND: BINDINGS[h._bind], lib.HGA_PY_STRICT: h._strict, lib.HGA_PY_PRECISION: PRECISIONS[precision],
        lib.HGA_PY_GRADIENT: grad, lib.HGA_PY_BNHD: o.layout == "bnhd" and not p.flat, lib.HGA_PY_PARTS: h.n_graphs, lib.HGA_PY_BY_TOKEN: h.by_token,
        lib.HGA_PY_AXES: len(p.batch), lib.HGA_PY_LAYER: o.layer,
    }  # fmt: skip
    numbers = np.zeros(lib.HGA_PY_N_NUMBERS, np.int64)
    for index, x in said.items():
        numbers[index] = x
    plan = numbers[lib.HGA_PY_KEY : lib.HGA_PY_GRADIENT + 1].tobytes()
    key = hashlib.blake2b(repr((plan, o.dropout, o.isa)).encode() + hierarchy.encode(), digest_size=16)
    numbers[lib.HGA_PY_KEY : lib.HGA_PY_KEY + 2] = np.frombuffer(key.digest(), np.int64)
    return numbers.tobytes()


def kind_of(h: "Hierarchy", q: Any, k: Any, v: Any, by_name: Mapping[str, Any], options: Options) -> Kind:
    """That of arrays like these."""
    kinds: Dict[Any, Any] = h._of_jax
    tables = tuple((name, x if type(x) is float else x.shape) for name, x in by_name.items())
    key = (options, h._bind, h._strict, tables, q.shape, q.dtype, k.shape, k.dtype, v.shape, v.dtype)
    found = kinds.get(key)
    if found is None:
        found = _new_kind(h, q, k, v, by_name, options)
        while len(kinds) > KINDS_CACHED:
            kinds.pop(next(name for name in list(kinds) if name != "text"), None)
        kinds[key] = found
    return found
