"""What a call may have besides queries, keys and values: the library's rows (hga_call_tables) as keywords. Nothing here knows one
by its name: a row that the library gains is a keyword of every function that takes tables."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from .arguments import number, unknown
from .arrays import as_floats, floats_at, is_torch
from .library import F, ffi, lib, refuse

if TYPE_CHECKING:
    from .._graphs.calls import Calls

INPUTS = ("query", "key", "value")


def single(x: Any, name: str) -> Any:
    """A tensor in float32."""
    if x.is_complex():
        raise refuse(f"{name} is complex, not a number")
    return x.float()


class Row:
    """A row of hga_call_tables."""

    def __init__(self, index: int, c: Any) -> None:
        is_ = int(getattr(c, "is"))
        self.index, self.name, self.says = index, ffi.string(c.name).decode(), ffi.string(c.says).decode()
        self.extents = int(c.rows), int(c.columns)
        self.member = None if c.member == ffi.NULL else ffi.string(c.member).decode()  # of a program
        self.has_gradient, self.is_plain = bool(is_ & lib.HGA_CALL_GRADIENT), bool(is_ & lib.HGA_CALL_IS_PLAIN)
        self.least, self.most, self.none = float(c.least), float(c.most), float(c.none)
        self.numbers = None if c.numbers == ffi.NULL else ffi.string(c.numbers).decode()  # what entries are, in words
        self.is_of_graph = bool(is_ & lib.HGA_CALL_OF_GRAPH)
        self.is_keyword = not is_ & (lib.HGA_CALL_OF_GRAPH | lib.HGA_CALL_BY_WORD)
        self.by_node, self.by_edge = lib.HGA_EXTENT_NODES in self.extents, lib.HGA_EXTENT_EDGES in self.extents
        axes = [ffi.string(lib.hga_extent_name(extent)).decode() for extent in self.extents if extent != lib.HGA_EXTENT_ONE]
        self.is_number = not axes
        self.axes: Tuple[int, ...] = (len(axes),)
        self.shape = "".join(f"[{axis}]" for axis in axes)
        if lib.HGA_EXTENT_HEADS_OR_ONE in self.extents:  # one for all heads needs no axis
            self.axes, self.shape = (len(axes) - 1, len(axes)), f"[{axes[0]}] or [{axes[0]}][heads]"

    def array(self, x: Any) -> np.ndarray:
        """A packed table of float32; one of 16 bits is copied."""
        a = as_floats(single(x, self.name) if self.is_number else x, self.name)
        self.check_shape(a.shape)
        if not a.flags.c_contiguous:
            raise refuse(f"{self.name} is not contiguous: use {'.contiguous()' if is_torch(x) else 'np.ascontiguousarray'}")
        return a

    def check_shape(self, shape: Tuple[int, ...]) -> None:
        """Has it as many axes as it must, and a number one entry?"""
        if any(n != 1 for n in shape) if self.is_number else len(shape) not in self.axes:
            raise refuse(f"{self.name} has shape {tuple(shape)}, not {self.shape or 'that of a number'}")

    def sizes(self, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        """Rows and columns of an array of that shape."""
        sizes = iter(() if self.is_number else shape)
        return tuple(1 if extent == lib.HGA_EXTENT_ONE else next(sizes, 1) for extent in self.extents)


def _rows() -> Iterator[Row]:
    c, index = lib.hga_call_tables(), 0
    while c[index].name != ffi.NULL:
        yield Row(index, c[index])
        index += 1


ROWS = {row.name: row for row in _rows()}
KEYWORDS = tuple(row.name for row in ROWS.values() if row.is_keyword)
WITHOUT_EDGES = tuple(name for name in KEYWORDS if not ROWS[name].by_edge)
_KNOWN = frozenset(KEYWORDS)
_FEATURES = next(name for name, row in ROWS.items() if lib.HGA_EXTENT_COLUMNS in row.extents)


# ---- keywords of functions ----


def _said(names: Iterable[str]) -> str:
    return "; ".join(" ".join(filter(None, (name, ROWS[name].shape))) + f": {ROWS[name].says}" for name in names)


def takes_tables(names: Tuple[str, ...] = KEYWORDS) -> Callable[[F], F]:
    """A function whose **tables are these rows: its signature shows them, and its text says what they are."""

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        function.__signature__ = signature.replace(parameters=own + more)  # type: ignore[attr-defined]
        function.__doc__ = (function.__doc__ or "").replace("TABLES", _said(names))
        return function

    return shown


def check_names(function: Callable[..., Any], tables: Mapping[str, Any], known: Collection[str] = _KNOWN) -> None:
    """A keyword that the function does not have is answered with what would be said instead."""
    for name in tables:
        if name not in known:
            raise unknown(function.__name__, name, inspect.signature(function).parameters)


# ---- those of one call ----


def traits(by_name: Mapping[str, Any]) -> Tuple[int, int]:
    """What a plan knows of calls' tables: columns of positions, and whether only the plain definition knows one of them."""
    pos_dim = [x.shape[1] for name, x in by_name.items() if lib.HGA_EXTENT_POS_DIM in ROWS[name].extents]
    return int(pos_dim[0]) if pos_dim else 0, int(any(ROWS[name].is_plain for name in by_name))


def features_of(by_name: Mapping[str, Any]) -> int:
    """Columns of the edges' features, which are summed beside values; 0: there are none."""
    x = by_name.get(_FEATURES)
    return 0 if x is None else int(x.shape[-1])


def parted(out: Any, features: int) -> Tuple[Any, ...]:
    """The output and, where edges have features, their sum, whose columns are behind the output's."""
    return (out[..., :-features], out[..., -features:]) if features else (out,)


def as_returned(out: Any, lses: Any, lse: bool, features: int) -> Any:
    """What a call gives back: the output, edge_out where edges have features, and the log-sum-exp where it is requested."""
    if not features:
        return (out, lses) if lse else out
    return (*parted(out, features), lses) if lse else parted(out, features)


def in_node_order(h: "Calls", row: Row, x: Any) -> Any:
    """A table, numpy's or JAX's, with rows of nodes where the graph has them."""
    if not row.by_node or h._node_of is None:
        return x
    if len(x) != len(h._node_of):
        raise refuse(f"{row.name} has {len(x)} rows, the tree {len(h._node_of)} nodes")
    at = np.empty_like(h._node_of)
    at[h._node_of] = np.arange(len(at))
    return x[at]


class Tables:
    """The tables of one call, checked. Plain numbers are of the call's kind, whose description holds them; what lies in memory,
    a tensor of one number too, has another address in the next call. Keeps the arrays alive."""

    __slots__ = ("arrays", "numbers", "key", "memory")

    def __init__(self, h: "Calls", by_name: Mapping[str, Any]) -> None:
        self.arrays: Dict[str, np.ndarray] = {}
        self.numbers: Dict[str, float] = {}
        self.memory: Any = None  # of the numbers, once they are described
        for name, x in (with_own(h, by_name) if h._own else by_name).items():
            if x is None:
                continue
            row = ROWS[name]
            if row.is_number and (type(x) is float or not is_torch(x)):
                self.numbers[name] = x if type(x) is float else number(x, name)
            else:
                self.arrays[name] = in_node_order(h, row, row.array(x))
        self.key = tuple(self.numbers.items()), tuple([(name, x.shape) for name, x in self.arrays.items()])

    def check(self, heads: int, dim: int, n_graphs: int = 1) -> None:
        """Sizes that depend on the shape alone, and numbers. What lies in memory the library looks at. Disjoint graphs have one
        table for all of them, with numbers for the ``heads`` of a graph."""
        n = {lib.HGA_EXTENT_ONE: (1,), lib.HGA_EXTENT_HEADS: (heads,), lib.HGA_EXTENT_HEADS_OR_ONE: (1, heads), lib.HGA_EXTENT_DIM: (dim,)}
        of = "" if n_graphs == 1 else f" in each of the hierarchy's {n_graphs} graphs, which share a table"
        for name, x in self.arrays.items():
            row = ROWS[name]
            if any(size not in n.get(extent, (size,)) for extent, size in zip(row.extents, row.sizes(x.shape))):
                raise refuse(f"{name} has shape {x.shape}, not {row.shape}: heads is {heads}{of}, dim {dim}")

        for name, value in self.numbers.items():
            row = ROWS[name]
            if row.numbers is not None and not row.least <= value <= row.most and value != row.none:
                raise refuse(f"{name} {value:g} is not {row.numbers}")

    @property
    def traits(self) -> Tuple[int, int]:
        return traits({**self.arrays, **self.numbers})

    def describe(self, io: Any) -> None:
        """Their sizes, and where they are."""
        self.memory = ffi.new("float[]", list(self.numbers.values()))
        for i, name in enumerate(self.numbers):
            io.table[ROWS[name].index].data = self.memory + i
        for name, x in self.arrays.items():
            t = io.table[ROWS[name].index]
            t.data, (t.rows, t.columns) = floats_at(x), ROWS[name].sizes(x.shape)

    def release(self, io: Any) -> None:
        """Drop the arrays: the next call has others of their sizes."""
        for name in self.arrays:
            io.table[ROWS[name].index].data = ffi.NULL


def are_numbers(by_name: Mapping[str, Any]) -> bool:
    """Is there nothing but plain numbers?"""
    for x in by_name.values():
        if type(x) is not float and x is not None:
            return False
    return True


def in_memory(h: "Calls", by_name: Mapping[str, Any]) -> Optional[Tables]:
    """The tables of a call; None where nothing of them lies in memory: plain numbers are known by themselves."""
    return None if not h._own and are_numbers(by_name) else Tables(h, by_name)


def with_own(h: "Calls", by_name: Mapping[str, Any]) -> Dict[str, Any]:
    """The call's tables and the hierarchy's own."""
    return {**h._own, **{name: x for name, x in by_name.items() if x is not None}}


def of_callers(h: "Calls", grads: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Gradients with rows of nodes where the caller has them."""
    if h._node_of is not None:
        for name in grads:
            if name in ROWS and ROWS[name].by_node:
                grads[name] = grads[name][h._node_of]
    return grads


# Gradients that may be requested of any call: of numbers, whether the call has them or not, and of what the graph has.
ALWAYS_THERE = [row.name for row in ROWS.values() if row.has_gradient and (row.is_number or row.is_of_graph)]


def gradients_of(h: "Calls", by_name: Mapping[str, Any]) -> List[str]:
    """The gradients that a call gives unless others are requested."""
    rows = [ROWS[name] for name in with_own(h, by_name)] if by_name or h._own else []
    return [*INPUTS, *(row.name for row in rows if row.has_gradient and not row.is_number)]
