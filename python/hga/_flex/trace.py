"""What a score_mod or a mask_mod of FlexAttention computes: read from its traced graph, never guessed from samples."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

import torch
from torch.fx import GraphModule, Node as _FxNode
from torch.overrides import TorchFunctionMode

from .._core.library import Error
from .._core.releases import private

Tensor = torch.Tensor
Node: Any = _FxNode  # whose operands torch types as a union of everything
aten: Any = torch.ops.aten
NAMES = ("b", "h", "q", "k")
INFINITY = float("inf")

# The same number in a type that holds every index.
_EXACT = (torch.int32, torch.int64, torch.float32, torch.float64)
_ADD, _SUB, _MUL, _DIV = aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor
_FROM = (aten.rsub.Scalar, aten.rsub.Tensor)  # the second minus the first
_SIGNS: Dict[Any, Tuple[float, float]] = {_ADD: (1.0, 1.0), _SUB: (1.0, -1.0), **{x: (-1.0, 1.0) for x in _FROM}}
# Of their argument these take the type alone.
_FILLED = (aten.new_ones.default, aten.new_zeros.default, aten.new_full.default, aten.ones_like.default, aten.zeros_like.default)
_SAME = (aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.clone.default, aten.alias.default)


def not_offered(text: str) -> Error:
    return Error("HGA_EUNSUPPORTED", text)


def called(node: Any) -> str:
    """An operation as the traced graph calls it."""
    return str(node.target) if isinstance(node, Node) else repr(node)


def tied(x: Tensor, inputs: Iterable[Tensor]) -> Tensor:
    """What depends on nothing, as if it were made of some inputs: their gradients are 0."""
    for tensor in inputs:
        if tensor.requires_grad:
            x = x + tensor.unsqueeze(0)[:0].sum()
    return x


class _Indexed(TorchFunctionMode):
    """Inside it table[q] of a traced q is an operation, and not a number that is read."""

    def __torch_function__(self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        if func is Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all(isinstance(x, Tensor) for x in indices):
                return aten.index(args[0], list(indices))
        return func(*args, **(kwargs or {}))


class Traced:
    """A function of (score,) b, h, q, k as a graph of torch's operations on numbers and captured tensors."""

    def __init__(self, function: Callable[..., Any], what: str, scored: bool) -> None:
        self.what = what
        examples = [torch.zeros(())] if scored else []
        examples += [torch.zeros((), dtype=torch.int64) for _ in NAMES]
        make_fx = private("torch.fx.experimental.proxy_tensor.make_fx")
        try:
            with _Indexed():
                # which takes a function by the parameters that it has, not by those that are left to it
                module: GraphModule = make_fx(lambda *indices: function(*indices))(*examples)
        except Exception as e:  # whatever a caller's function does
            raise not_offered(f"{what} cannot be traced: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from e
        graph = self.graph = module.graph
        graph.eliminate_dead_code()
        named = [str(n.target) for n in graph.nodes if n.op == "get_attr"]
        self.tensors: Dict[str, Any] = {name: operator.attrgetter(name)(module) for name in named}  # captured, by name
        graph._owning_module = None  # type: ignore[assignment]  # which holds them as well
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        self.index: Dict[Node, str] = dict(zip(placeholders, (("s",) if scored else ()) + NAMES))
        (self.out,) = [n.args[0] for n in graph.nodes if n.op == "output"]
        self._reads: Dict[Node, FrozenSet[str]] = {}
        for node in graph.nodes:
            self._refuse_unknown(node)
            self._reads[node] = self._find_reads(node)

    def _refuse_unknown(self, node: Node) -> None:
        if node.op in ("placeholder", "get_attr", "output"):
            return
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            raise not_offered(f"{self.what} calls {called(node)}, which is not an operation on numbers")
        if target._schema.is_mutable:
            raise not_offered(f"{self.what} changes a tensor in place: {called(node)}")
        if torch.Tag.nondeterministic_seeded in target.tags:
            raise not_offered(f"{self.what} draws random numbers: {called(node)}")

    # ---- what a value depends on ----

    def _find_reads(self, node: Node) -> FrozenSet[str]:
        if node in self.index:
            return frozenset(self.index[node])
        if node.target in _FILLED:
            return frozenset()
        line = self._line(node)
        if line is not None and line[0] == -line[1] != 0:
            return frozenset("d")
        found: FrozenSet[str] = frozenset()
        for x in node.all_input_nodes:
            found |= self._reads[x]
        return found

    def reads(self, x: Any) -> FrozenSet[str]:
        """Which of s, b, h, q, k a value depends on; d instead of q and k where only their difference counts."""
        return self._reads[x] if isinstance(x, Node) else frozenset()

    def _line(self, x: Any) -> Optional[Tuple[float, float]]:
        """(a, c) of a value a q + c k + a constant, in whole numbers."""
        if not isinstance(x, Node):
            return (0, 0) if isinstance(x, int) and not isinstance(x, bool) else None
        if self.index.get(x) in ("q", "k"):
            return (1, 0) if self.index[x] == "q" else (0, 1)
        if x.target is aten.neg.default:
            return self._sum((-1, x.args[0]))
        if x.target is aten._to_copy.default and x.kwargs.get("dtype") in _EXACT:
            return self._line(x.args[0])
        if x.target is _MUL and isinstance(x.args[1], int):
            return self._sum((x.args[1], x.args[0]))
        if len(x.args) == 2 and not x.kwargs and x.target in _SIGNS:
            return self._sum(*zip(_SIGNS[x.target], x.args))
        return None

    def _sum(self, *terms: Tuple[float, Any]) -> Optional[Tuple[float, float]]:
        """Of values, each times a number."""
        lines = [self._line(x) for _, x in terms]
        if None in lines:
            return None
        a, c = (sum(by * line[i] for (by, _), line in zip(terms, lines) if line is not None) for i in (0, 1))
        return a, c

    def constant(self, node: Node) -> Tensor:
        """A captured tensor, the caller's own."""
        found = self.tensors[str(node.target)]
        assert isinstance(found, torch.Tensor)
        return found

    def constants(self) -> List[Tensor]:
        """All captured tensors."""
        return [self.constant(node) for node in self.graph.nodes if node.op == "get_attr"]

    def number(self, x: Any) -> Optional[float]:
        """A value that is one number whatever the arguments are, and that needs no gradient."""
        if isinstance(x, (int, float)):
            return float(x)
        if not isinstance(x, Node):
            return None
        if x.op == "get_attr":
            c = self.constant(x)
            return float(c) if c.numel() == 1 and not c.requires_grad else None
        if x.target in _SAME or x.target in (aten.scalar_tensor.default, aten._to_copy.default):
            return self.number(x.args[0])
        if x.target is aten.full.default and x.args[0] == []:
            return self.number(x.args[1])
        return None

    # ---- what a value is ----

    def _chain(self, node: Node) -> Optional[Tuple[Any, List[Any]]]:
        """x[i][j] as (x, [i, j]): no row of x is copied for it."""
        indices: List[Any] = []
        x: Any = node
        while isinstance(x, Node) and x.target is aten.index.Tensor:
            if any(i is None for i in x.args[1]):
                return None
            indices[:0] = x.args[1]
            x = x.args[0]
        return x, indices

    def _value(self, x: Any, known: Dict[Node, Any]) -> Any:
        if isinstance(x, (list, tuple)):
            return [self._value(i, known) for i in x]
        if not isinstance(x, Node):
            return x
        if x in known:
            return known[x]
        chain = self._chain(x) if x.target is aten.index.Tensor else None
        if x.op == "get_attr":
            found: Any = self.constant(x)
        elif chain is not None:
            found = aten.index.Tensor(*(self._value(y, known) for y in chain))
        elif x.target in _SAME:
            found = self._value(x.args[0], known)
        else:
            found = x.target(*(self._value(a, known) for a in x.args), **{n: self._value(a, known) for n, a in x.kwargs.items()})
        known[x] = found
        return found

    def _is_pointwise(self, x: Any) -> bool:
        """Is a value computed number by number, so that arrays of indices can be passed at once?"""
        if isinstance(x, (list, tuple)):
            return all(self._is_pointwise(i) for i in x)
        if not isinstance(x, Node) or x in self.index:
            return True
        if x.op == "get_attr":
            return self.constant(x).dim() == 0
        if x.target is aten.index.Tensor:
            base, indices = self._chain(x) or (None, [])
            whole = isinstance(base, Node) and base.op == "get_attr" and self.constant(base).dim() == len(indices)
            return whole and self._is_pointwise(indices)
        if x.target in _SAME + _FILLED + (aten.scalar_tensor.default,):
            return self._is_pointwise(x.args)
        return torch.Tag.pointwise in x.target.tags and self._is_pointwise(x.args) and self._is_pointwise(list(x.kwargs.values()))

    def over(self, values: Sequence[Any], point: Callable[..., Tensor], index: Sequence[Any], *groups: str) -> Tensor:
        """point(values at an index) over lists of b, h, q and k: groups "h", "qk" have heads by pairs. What is not in a group is
        one number."""
        arrays = [torch.as_tensor(x) for x in index]
        sizes = [len(arrays[NAMES.index(group[0])]) for group in groups]
        if 0 in sizes:
            return tied(torch.zeros(sizes), self.constants())
        if all(self._is_pointwise(x) for x in values):
            axis = {name: i for i, group in enumerate(groups) for name in group}
            shaped = [x.view([-1 if i == axis[n] else 1 for i in range(len(groups))]) if n in axis else x for n, x in zip(NAMES, arrays)]
            return point(*self._at(values, *shaped)).expand(sizes)
        run: Callable[..., Tensor] = lambda *at: point(*self._at(values, *at))  # noqa: E731
        for group in reversed(groups):
            run = torch.vmap(run, tuple(0 if name in group else None for name in NAMES))
        return run(*arrays)

    def _at(self, values: Sequence[Any], *index: Any) -> List[Any]:
        """Values at an index."""
        by_name = dict(zip(NAMES, index))
        known: Dict[Node, Any] = {node: by_name[name] for node, name in self.index.items() if name != "s"}
        return [self._value(x, known) for x in values]

    def fingerprint(self, x: Any, alive: List[Any]) -> Any:
        """Equal where a value is computed alike from the same tensors, which are kept alive and as they were; never where one
        is of torch.inference_mode, which does not say."""
        if isinstance(x, (list, tuple)):
            return tuple(self.fingerprint(i, alive) for i in x)
        if not isinstance(x, Node):
            return x if isinstance(x, (int, float, bool, str, type(None))) else repr(x)
        if x in self.index:
            return self.index[x]
        if x.op == "get_attr":
            c = self.constant(x)
            alive.append(c)
            return "tensor", id(c), object() if c.is_inference() else c._version, c.data_ptr()
        return called(x), self.fingerprint(x.args, alive), tuple(sorted((n, self.fingerprint(a, alive)) for n, a in x.kwargs.items()))


class Score:
    """A score_mod as outer * s + terms, or outer * tanh(inner * s) + terms, where all of `seen` hold, else -inf; s itself
    times the factors of its row."""

    def __init__(self) -> None:
        self.outer = 1.0
        self.inner: Optional[float] = None
        self.factors: List[Tuple[Any, int]] = []  # (value, 1 or -1: by it or through it), of b, h and q
        self.terms: List[Tuple[float, Tuple[Any, ...]]] = []  # a number times a product of values
        self.seen: List[Tuple[Any, bool]] = []  # (condition, what it must be)

    @property
    def scale(self) -> float:
        return self.outer if self.inner is None else self.outer * self.inner

    @property
    def cap(self) -> Optional[float]:
        """C of C tanh(s / C) around the scaled score; what is times 0 needs none."""
        return None if self.inner is None or not self.outer else abs(self.outer)


class Matcher:
    """Reads the graph of a score_mod from its result back to the score."""

    def __init__(self, traced: Traced) -> None:
        self.t = traced

    def _not_understood(self, node: Any, why: str) -> Error:
        return not_offered(f"score_mod: {called(node)} {why}")

    def _has_score(self, x: Any) -> bool:
        return "s" in self.t.reads(x)

    def match(self) -> Score:
        if not self._has_score(self.t.out):
            raise not_offered(f"score_mod: {called(self.t.out)} does not depend on the score")
        return self._score(self.t.out)

    def _score(self, node: Node) -> Score:
        if node in self.t.index:
            return Score()
        rule = _RULES.get(node.target)
        if rule is None:
            raise self._not_understood(node, "of the score is not understood: scores may be scaled, capped by tanh, added to and masked")
        found: Score = rule(self, node)
        return found

    def _sides(self, node: Node) -> Tuple[Any, Any]:
        """(the operand with the score, the other)."""
        x, y = node.args[0], node.args[1]
        if self._has_score(x) and self._has_score(y):
            raise self._not_understood(node, "of two values that depend on the score is not understood")
        return (x, y) if self._has_score(x) else (y, x)

    def _times(self, s: Score, by: float, node: Node) -> Score:
        if not math.isfinite(by) or (s.seen and by <= 0):
            raise self._not_understood(node, f"by {by:g} is not understood")
        s.outer *= by
        s.terms = [(by * c, values) for c, values in s.terms]
        return s

    def _scaled(self, node: Node) -> Score:
        if node.target is _DIV and self._has_score(node.args[1]):
            raise self._not_understood(node, "by the score is not understood")
        x, y = self._sides(node)
        s, by = self._score(x), self.t.number(y)
        through = node.target is _DIV
        if by is not None:
            if through and by == 0:
                raise self._not_understood(node, "by 0 is not understood")
            return self._times(s, 1 / by if through else by, node)
        if not self.t.reads(y) <= frozenset("bhq"):
            raise self._not_understood(node, "of the score by what depends on the key is not understood")
        if s.inner is not None or s.seen or s.terms:
            raise self._not_understood(node, "of a score that was capped, masked or added to is not understood")
        s.factors.append((y, -1 if through else 1))
        return s

    def _term(self, s: Score, sign: float, y: Any) -> None:
        """Add a value, whose -inf by a condition masks."""
        if isinstance(y, Node) and y.target is aten.where.self:
            cond, x, other = y.args
            for score, rest, holds in ((x, other, True), (other, x, False)):
                if self.t.number(rest) == -INFINITY and sign > 0:
                    s.seen.append((cond, holds))
                    self._term(s, sign, score)
                    return
        if isinstance(y, Node) and y.target in (_ADD, _SUB) and not y.kwargs:
            for one, x in zip(_SIGNS[y.target], y.args):
                self._term(s, one * sign, x)
            return
        by = self.t.number(y)
        if by is None:
            s.terms.append((sign, (y,)))
        elif not math.isfinite(by):
            raise not_offered(f"score_mod: {sign * by:g} is added to the score: leave keys out by a mask_mod")
        elif by:
            s.terms.append((sign * by, ()))

    def _added(self, node: Node) -> Score:
        if node.kwargs or len(node.args) > 2:
            raise self._not_understood(node, f"with {dict(node.kwargs) or node.args[2:]} is not understood")
        x, y = self._sides(node)
        own, other = _SIGNS[node.target] if x is node.args[0] else _SIGNS[node.target][::-1]
        s = self._score(x)
        s = self._times(s, own, node) if own < 0 else s
        self._term(s, other, y)
        return s

    def _negated(self, node: Node) -> Score:
        return self._times(self._score(node.args[0]), -1.0, node)

    def _capped(self, node: Node) -> Score:
        s = self._score(node.args[0])
        if s.terms or s.seen or s.inner is not None:
            raise self._not_understood(node, "of a score that was capped, masked or added to is not understood")
        s.inner, s.outer = s.outer, 1.0
        return s

    def _copied(self, node: Node) -> Score:
        if node.target is aten._to_copy.default and node.kwargs.get("dtype") not in (torch.float32, torch.float64):
            raise self._not_understood(node, f"of the score to {node.kwargs.get('dtype')} is not understood")
        return self._score(node.args[0])

    def _chosen(self, node: Node) -> Score:
        """where and masked_fill: the score, or -inf."""
        if node.target is aten.where.self:
            cond, x, y = node.args
        else:
            y, cond, x = node.args
        if self._has_score(cond) or (self._has_score(x) and self._has_score(y)):
            raise self._not_understood(node, "of two scores, or by the score, is not understood")
        holds = self._has_score(x)
        x, y = (x, y) if holds else (y, x)
        if self.t.number(y) != -INFINITY:
            raise self._not_understood(node, f"of the score or {called(y)} is not understood: the other must be -inf")
        s = self._score(x)
        s.seen.append((cond, holds))
        return s


_RULES: Dict[Any, Callable[[Matcher, Node], Score]] = {
    _ADD: Matcher._added, _SUB: Matcher._added, **{x: Matcher._added for x in _FROM}, _MUL: Matcher._scaled, _DIV: Matcher._scaled,
    aten.neg.default: Matcher._negated, aten.tanh.default: Matcher._capped, aten.where.self: Matcher._chosen,
    aten.masked_fill.Scalar: Matcher._chosen, aten.masked_fill.Tensor: Matcher._chosen,
    **{same: Matcher._copied for same in (*_SAME, aten._to_copy.default)},
}  # fmt: skip
