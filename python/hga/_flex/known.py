"""A traced mask read as runs of keys, without asking about pairs: what depends on the query alone, on the key alone or on their
distance, or compares a number of the query with one of the key, and &, | and ~ of these. Each is computed of all queries, of all
keys or of all distances by the traced operations themselves, so that nothing is guessed. Of the rest nothing is known, and a mask
lies between what it has for sure and what it may have."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from .._core.library import refuse_type
from .trace import Node, Traced, aten
from .._graphs.runs import Array, Runs, changes, spread

Tensor = torch.Tensor
Rule = Callable[[Runs, Runs], Runs]
RUNS_A_ROW = 64  # on average; a mask of more is evaluated, since reading it costs more than a look

_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Between(NamedTuple):
    """A mask sees `least`, and nothing beyond `most`."""

    least: Runs
    most: Runs

    @property
    def is_known(self) -> bool:
        return self.most is self.least

    def joined(self, rule: Rule, other: "Between") -> "Between":
        """By & or |."""
        least = rule(self.least, other.least)
        return Between(least, least if self.is_known and other.is_known else rule(self.most, other.most))


def exactly(runs: Runs) -> Between:
    return Between(runs, runs)


def truth(x: Any, what: str) -> Tensor:
    found = torch.as_tensor(x)
    if found.dtype != torch.bool:
        raise refuse_type(f"{what} gives {found.dtype}, not truth values")
    return found


# ---- comparisons of what is a query's with what is a key's ----

_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
# Of numbers that do not go down: where the run of those that are less, .. begins and ends.
_SORTED: Dict[str, Tuple[Any, Any]] = {"lt": ("right", None), "le": ("left", None), "gt": (None, "left"), "ge": (None, "right")}


def _numbers(x: Tensor, dtype: torch.dtype) -> Optional[Array]:
    """As numpy has them, equal and in order where torch's are; None where they have none."""
    if dtype not in _INTEGERS and dtype not in _FLOATS:
        return None
    x = x.to(dtype).to(torch.int64 if dtype in _INTEGERS else torch.float64)
    return None if dtype in _FLOATS and bool(x.isnan().any()) else x.contiguous().numpy()


def _equal(f: Array, g: Array, row: Array, most: int) -> Optional[Runs]:
    """Keys whose number is the query's, wherever they lie."""
    at = changes(g)
    order = np.argsort(g[at[:-1]], kind="stable")
    values = g[at[:-1]][order]
    low = np.searchsorted(values, f, "left")
    counts = np.searchsorted(values, f, "right") - low
    if counts.sum() > most:
        return None
    group, offset = spread(counts)
    j = order[low[group] + offset]
    return Runs.of(len(g), row, at[j], at[j + 1], group)


def compared(op: str, f: Tensor, g: Tensor) -> Optional[Runs]:
    """Pairs of which f[query] op g[key] is true."""
    dtype = torch.result_type(f, g)
    a, b = _numbers(f, dtype), _numbers(g, dtype)
    if a is None or b is None:
        return None
    row = changes(a)
    of = a[row[:-1]]
    if op == "eq":
        return _equal(of, b, row, RUNS_A_ROW * len(a))
    if (b[1:] < b[:-1]).any():
        return None
    first, end = (np.full(len(of), n) if side is None else np.searchsorted(b, of, side) for side, n in zip(_SORTED[op], (0, len(b))))
    return Runs.of(len(b), row, first, end)


# ---- traced graphs ----

_RULES: Dict[Any, Rule] = {
    **{x: operator.and_ for x in (aten.bitwise_and.Tensor, aten.logical_and.default, aten.mul.Tensor)},
    **{x: operator.or_ for x in (aten.bitwise_or.Tensor, aten.logical_or.default, aten.add.Tensor)},
}
_OF_COMPLEMENTS: Dict[Rule, Rule] = {operator.and_: operator.or_, operator.or_: operator.and_}
_NOT = (aten.bitwise_not.default, aten.logical_not.default)
_COMPARISONS = {getattr(getattr(aten, op), kind): op for op in _TURNED for kind in ("Tensor", "Scalar")}


def _is_truth(x: Any) -> bool:
    return isinstance(x, bool) or (isinstance(x, Node) and getattr(x.meta.get("val"), "dtype", None) == torch.bool)


class Reader:
    """Of one traced function, for one sample and head."""

    def __init__(self, traced: Traced, b: int, h: int, n_queries: int, n_keys: int) -> None:
        self.t, self.b, self.h, self.n_queries, self.n_keys = traced, b, h, n_queries, n_keys
        self.found: Dict[Tuple[Any, bool], Between] = {}

    def read(self, x: Any, holds: bool = True) -> Between:
        """The mask that a value is, or its complement."""
        if (x, holds) not in self.found:
            try:
                found = self._read(x, holds)
            except (IndexError, RuntimeError):  # of a query or a key that no pair may ask about
                found = None
            self.found[x, holds] = found or self.unknown()
        return self.found[x, holds]

    def unknown(self) -> Between:
        return Between(*(Runs.whole(self.n_queries, self.n_keys, seen) for seen in (False, True)))

    def _read(self, x: Any, holds: bool) -> Optional[Between]:
        axes = self.t.reads(x) - frozenset("bh")
        runs = self._by_one(x, holds, *axes or "q") if len(axes) < 2 else None
        if runs is None and axes != {"k"} and not x.kwargs:
            if x.target in _COMPARISONS:
                runs = self._compared(_COMPARISONS[x.target], holds, *x.args)
            elif x.target in _NOT and _is_truth(x.args[0]):
                return self.read(x.args[0], not holds)
            elif x.target in _RULES and all(map(_is_truth, x.args)):
                rule, (y, z) = _RULES[x.target], x.args
                return self.read(y, holds).joined(rule if holds else _OF_COMPLEMENTS[rule], self.read(z, holds))
        return None if runs is None else exactly(runs)

    # ---- one axis ----

    def _of(self, x: Any, axis: str) -> Tensor:
        """A value of all queries, of all keys, or of all differences key - query in ascending order."""
        q, k, group = torch.arange(self.n_queries), torch.arange(self.n_keys), axis
        if axis == "d":
            d = torch.arange(1 - self.n_queries, self.n_keys)
            q, k, group = -d.clamp(max=0), d.clamp(min=0), "qk"
        at = (i if name in group else i[0] for name, i in zip("qk", (q, k)))
        with torch.no_grad():
            return self.t.over([x], torch.as_tensor, (self.b, self.h, *at), group)

    def _by_one(self, x: Any, holds: bool, axis: str) -> Optional[Runs]:
        seen = truth(self._of(x, axis), self.t.what).numpy() == holds
        if axis == "q":
            return Runs.of_queries(self.n_keys, seen)
        runs = Runs.of_keys(self.n_queries, seen)
        n = len(runs.first)
        if n > RUNS_A_ROW:
            return None
        if axis == "k":
            return runs
        q = np.arange(self.n_queries)
        first, end = ((q[:, None] + at + 1 - self.n_queries).reshape(-1) for at in (runs.first, runs.end))
        return Runs.of(self.n_keys, np.arange(self.n_queries + 1), first, end, np.repeat(q, n))

    # ---- both axes ----

    def _compared(self, op: str, holds: bool, x: Any, y: Any) -> Optional[Runs]:
        op = op if holds else _NEGATED.get(op, "")
        if op and self._is_of(x, "k") and self._is_of(y, "q"):
            op, x, y = _TURNED[op], y, x
        return compared(op, self._of(x, "q"), self._of(y, "k")) if op and self._is_of(x, "q") and self._is_of(y, "k") else None

    def _is_of(self, x: Any, axis: str) -> bool:
        return self.t.reads(x) <= frozenset("bh" + axis)


def between(traced: Traced, conditions: Sequence[Tuple[Any, bool]], b: int, h: int, n_queries: int, n_keys: int) -> Between:
    """The mask of several conditions that must be true, or must not."""
    found = exactly(Runs.whole(n_queries, n_keys, True))
    if n_queries and n_keys:
        reader = Reader(traced, b, h, n_queries, n_keys)
        for x, holds in conditions:
            found = found.joined(operator.and_, reader.read(x, holds))
    return found
