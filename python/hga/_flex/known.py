"""A traced mask read as runs of keys, without asking about pairs: what depends on the query alone, on the key alone, on
their distance, or compares one of the query with one of the key, and &, | and ~ of these. Each is computed of all
queries, of all keys or of all distances by the traced operations themselves, so that nothing is guessed. Of the rest
nothing is known, and a mask lies between what it has for sure and what it may have."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from .._core.values import refuse_type
from .trace import _ADD, _FROM, _SAME, _SUB, NAMES, Node, Traced, aten
from .._graphs.runs import Array, Runs, changes, spread, true_runs

Tensor = torch.Tensor
RUNS_A_ROW = 64  # on average; a mask of more is evaluated, since reading it costs more than a look
LARGEST = 2**31  # sums of whole numbers below it are exact in every type that holds indices

_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Between(NamedTuple):
    """A mask sees `least`, and nothing beyond `most`."""

    least: Runs
    most: Runs

    def __invert__(self) -> "Between":
        least = ~self.most
        return Between(least, least if self.is_known else ~self.least)

    def __and__(self, other: "Between") -> "Between":
        least = self.least & other.least
        return Between(least, least if self.is_known and other.is_known else self.most & other.most)

    def __or__(self, other: "Between") -> "Between":
        least = self.least | other.least
        return Between(least, least if self.is_known and other.is_known else self.most | other.most)

    @property
    def is_known(self) -> bool:
        return self.most is self.least


def exactly(runs: Runs) -> Between:
    return Between(runs, runs)


def truth(x: Any, what: str) -> Tensor:
    found = torch.as_tensor(x)
    if found.dtype != torch.bool:
        raise refuse_type(f"{what} gives {found.dtype}, not truth values")
    return found


# ---- comparisons of what is a query's with what is a key's ----

_LESS: Dict[str, Tuple[Any, Any]] = {
    "lt": ("right", None), "le": ("left", None), "gt": (None, "left"), "ge": (None, "right"), "eq": ("left", "right"),
}  # fmt: skip
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _numbers(x: Tensor, dtype: torch.dtype) -> Optional[Array]:
    """As numpy has them, equal and in order where torch's are; None where they have none."""
    if dtype not in _INTEGERS and dtype not in _FLOATS:
        return None
    x = x.to(dtype).to(torch.int64 if dtype in _INTEGERS else torch.float64)
    return None if dtype in _FLOATS and bool(x.isnan().any()) else x.contiguous().numpy()


def _sorted(op: str, f: Array, g: Array) -> Tuple[Array, Array]:
    """Of numbers g that do not go down: the run of those that f[i] op g[j] has."""
    first, end = _LESS[op]
    low = np.zeros(len(f), np.int64) if first is None else np.searchsorted(g, f, first)
    return low, np.full(len(f), len(g)) if end is None else np.searchsorted(g, f, end)


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
    return Runs.of(len(g), row, group, at[j], at[j + 1])


def compared(op: str, f: Tensor, g: Tensor) -> Optional[Runs]:
    """Pairs of which f[query] op g[key] is true."""
    dtype = torch.result_type(f, g)
    a, b = _numbers(f, dtype), _numbers(g, dtype)
    if a is None or b is None or not len(a) or not len(b):
        return None
    if op == "ne":
        found = compared("eq", f, g)
        return None if found is None else ~found
    row = changes(a)
    of = a[row[:-1]]
    if (b[1:] >= b[:-1]).all():
        return Runs.one(len(b), row, *_sorted(op, of, b))
    if (b[1:] <= b[:-1]).all():
        low, high = _sorted(op, of, b[::-1])
        return Runs.one(len(b), row, len(b) - high, len(b) - low)
    return _equal(of, b, row, RUNS_A_ROW * len(a)) if op == "eq" else None


# ---- traced graphs ----


class Reader:
    """Of one traced function, for one sample and head."""

    def __init__(self, traced: Traced, b: int, h: int, n_queries: int, n_keys: int) -> None:
        self.t, self.b, self.h, self.n_queries, self.n_keys = traced, b, h, n_queries, n_keys
        self.most = RUNS_A_ROW * n_queries
        self.found: Dict[Node, Between] = {}

    def read(self, x: Any) -> Between:
        """The mask that a value is."""
        if not self.n_queries or not self.n_keys:
            return exactly(Runs.whole(self.n_queries, self.n_keys, False))
        if not isinstance(x, Node):
            return exactly(Runs.whole(self.n_queries, self.n_keys, bool(truth(x, self.t.what))))
        if x not in self.found:
            self.found[x] = self._read(x)
        return self.found[x]

    def _read(self, x: Node) -> Between:
        of = self.t.reads(x) - frozenset("bh")
        try:
            runs = self._by_query(x) if of <= frozenset("q") else self._by_key(x) if of == frozenset("k") else None
            runs = self._by_distance(x) if of == frozenset("d") else runs
            found = self._by_rule(x) if runs is None and of != frozenset("k") else None
        except (IndexError, RuntimeError):  # of a query or a key that no pair may ask about
            return self.unknown()
        return exactly(runs) if runs is not None else found if found is not None else self.unknown()

    def _by_rule(self, x: Node) -> Optional[Between]:
        rule = _RULES.get(x.target)
        return rule(self, *x.args) if rule is not None and not x.kwargs and _dtype(x) == torch.bool else None

    def unknown(self) -> Between:
        return Between(*(Runs.whole(self.n_queries, self.n_keys, seen) for seen in (False, True)))

    # ---- one axis ----

    def _over(self, x: Any, q: Tensor, k: Tensor, group: str) -> Tensor:
        indices = dict(zip(NAMES, (torch.tensor(self.b), torch.tensor(self.h), q, k)))
        with torch.no_grad():
            return self.t.over([x], torch.as_tensor, indices, group)

    def _of_queries(self, x: Any) -> Tensor:
        return self._over(x, torch.arange(self.n_queries), torch.tensor(0), "q")

    def _of_keys(self, x: Any) -> Tensor:
        return self._over(x, torch.tensor(0), torch.arange(self.n_keys), "k")

    def _by_query(self, x: Node) -> Runs:
        return Runs.of_queries(self.n_keys, truth(self._of_queries(x), self.t.what).numpy())

    def _by_key(self, x: Node) -> Optional[Runs]:
        seen = truth(self._of_keys(x), self.t.what).numpy()
        return Runs.of_keys(self.n_queries, seen) if len(true_runs(seen)[0]) <= RUNS_A_ROW else None

    def _by_distance(self, x: Node) -> Optional[Runs]:
        """key - query from first to end - 1, for each run of such differences."""
        d = torch.arange(1 - self.n_keys, self.n_queries).flip(0)
        seen = truth(self._over(x, d.clamp(min=0), -d.clamp(max=0), "qk"), self.t.what).numpy()
        first, end = (at + 1 - self.n_queries for at in true_runs(seen))
        if len(first) > RUNS_A_ROW:
            return None
        if len(first) == 0 or len(seen) == end[0] - first[0]:
            return Runs.whole(self.n_queries, self.n_keys, len(first) > 0)
        q = np.arange(self.n_queries)
        low, high = (np.clip((q[:, None] + at).reshape(-1), 0, self.n_keys) for at in (first, end))
        return Runs.of(self.n_keys, np.arange(self.n_queries + 1), np.repeat(q, len(first)), low, high)

    # ---- both axes ----

    def _side(self, x: Any, axis: str) -> bool:
        return self.t.reads(x) <= frozenset("bh" + axis)

    def _summands(self, x: Any, by: int) -> Optional[List[Tuple[int, Any]]]:
        """A whole number as a sum of those of a query and those of a key; None: it is none."""
        if isinstance(x, int) and not isinstance(x, bool):
            return [(by, x)]
        if not isinstance(x, Node) or _dtype(x) not in _INTEGERS[1:]:
            return None
        if self._side(x, "q") or self._side(x, "k"):
            return [(by, x)]
        wide = _dtype(x) in (torch.int32, torch.int64) and not x.kwargs
        if x.target in _SAME or (x.target is aten._to_copy.default and _dtype(x) in (torch.int32, torch.int64)):
            return self._summands(x.args[0], by)
        if wide and x.target is aten.neg.default:
            return self._summands(x.args[0], -by)
        if wide and len(x.args) == 2 and x.target in (_ADD, _SUB, *_FROM):
            signs = (1, 1) if x.target is _ADD else (1, -1) if x.target is _SUB else (-1, 1)
            terms = [self._summands(y, by * sign) for y, sign in zip(x.args, signs)]
            return None if None in terms else sum((p for p in terms if p is not None), [])
        return None

    def _sums(self, terms: List[Tuple[int, Any]]) -> Optional[Tuple[Tensor, Tensor]]:
        """What they add up to of every query, and of every key; None where a sum might not be exact."""
        of_q, of_k = torch.zeros(self.n_queries, dtype=torch.int64), torch.zeros(self.n_keys, dtype=torch.int64)
        largest = 0
        for by, x in terms:
            value = (self._of_queries(x) if self._side(x, "q") else self._of_keys(x)).to(torch.int64)
            low, high = value.aminmax()
            largest += max(abs(int(low)), abs(int(high)))
            if largest >= LARGEST:
                return None
            total = of_q if self._side(x, "q") else of_k
            total += by * value
        return of_q, of_k

    def compare(self, op: str, x: Any, y: Any) -> Optional[Between]:
        for a, b, turned in ((x, y, op), (y, x, _TURNED[op])):
            if self._side(a, "q") and self._side(b, "k"):
                return self._found(compared(turned, self._of_queries(a), self._of_keys(b)))
        for a, b, turned in ((x, y, op), (y, x, _TURNED[op])):
            if isinstance(a, Node) and a.target is aten.abs.default and turned in ("lt", "le", "gt", "ge"):
                return self._size(turned, a.args[0], b)
        return self._difference(op, self._summands(x, 1), self._summands(y, -1))

    def _difference(self, op: str, *terms: Optional[List[Tuple[int, Any]]]) -> Optional[Between]:
        """Sums, of which all together are compared with 0."""
        if None in terms:
            return None
        sums = self._sums([p for own in terms for p in own or ()])
        return None if sums is None else self._found(compared(op, sums[0], -sums[1]))

    def _size(self, op: str, x: Any, y: Any) -> Optional[Between]:
        """abs(x) op y."""
        if op in ("gt", "ge"):
            found = self._size({"gt": "le", "ge": "lt"}[op], x, y)
            return None if found is None else ~found
        above = self._difference(op, self._summands(x, 1), self._summands(y, -1))
        below = self._difference(op, self._summands(x, -1), self._summands(y, -1))
        return None if above is None or below is None else above & below

    def _found(self, runs: Optional[Runs]) -> Optional[Between]:
        return None if runs is None else exactly(runs)

    # ---- of truth values ----

    def both(self, rule: Callable[[Any, Any], Between], x: Any, y: Any) -> Optional[Between]:
        if not all(_dtype(z) == torch.bool for z in (x, y)):
            return None
        return rule(self.read(x), self.read(y))

    def chosen(self, condition: Any, x: Any, y: Any) -> Optional[Between]:
        if not all(_dtype(z) == torch.bool for z in (condition, x, y)):
            return None
        c = self.read(condition)
        return (c & self.read(x)) | (~c & self.read(y))

    def negated(self, x: Any) -> Optional[Between]:
        return ~self.read(x) if _dtype(x) == torch.bool else None

    def same(self, x: Any) -> Optional[Between]:
        return self.read(x) if _dtype(x) == torch.bool else None


def _dtype(x: Any) -> Any:
    if isinstance(x, bool):
        return torch.bool
    return x.meta["val"].dtype if isinstance(x, Node) and isinstance(x.meta.get("val"), torch.Tensor) else None


def _differ(x: Between, y: Between) -> Between:
    return (x & ~y) | (~x & y)


def _two(rule: Callable[[Any, Any], Between]) -> Callable[..., Optional[Between]]:
    return lambda reader, x, y: reader.both(rule, x, y)


def _comparison(op: str) -> Callable[..., Optional[Between]]:
    return lambda reader, x, y: reader.compare(op, x, y)


_RULES: Dict[Any, Callable[..., Optional[Between]]] = {
    **{x: _two(operator.and_) for x in (aten.bitwise_and.Tensor, aten.logical_and.default, aten.mul.Tensor)},
    **{x: _two(operator.or_) for x in (aten.bitwise_or.Tensor, aten.logical_or.default, aten.add.Tensor)},
    **{x: _two(_differ) for x in (aten.bitwise_xor.Tensor, aten.logical_xor.default)},
    **{x: Reader.negated for x in (aten.bitwise_not.default, aten.logical_not.default)},
    **{x: Reader.same for x in (*_SAME, aten._to_copy.default)},
    **{getattr(getattr(aten, op), kind): _comparison(op) for op in _TURNED for kind in ("Tensor", "Scalar")},
    aten.where.self: Reader.chosen,
}  # fmt: skip


def between(traced: Traced, conditions: Sequence[Tuple[Any, bool]], b: int, h: int, n_queries: int, n_keys: int) -> Between:
    """The mask of several conditions that must be true, or must not."""
    reader = Reader(traced, b, h, n_queries, n_keys)
    found = exactly(Runs.whole(n_queries, n_keys, True))
    for x, holds in conditions:
        found = found & (reader.read(x) if holds else ~reader.read(x))
    return found
