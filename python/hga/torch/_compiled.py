"""Hierarchies that are made inside torch.compile: how they are made is written down there, and done when the pass runs, since
their lengths and arrays are not known before."""

from __future__ import annotations

import ast
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union, cast

import numpy as np
import torch

from .._core.library import refuse, refuse_type
from .._core.deferred import STARTS, deferred
from .._graphs.graph import GRAPHS, Graph
from .._graphs.calls import KNOWN
from .._graphs.hierarchy import Hierarchy
from ._one_pass import PASSES, Cached, Inputs, Outputs, Pass, cached, whole
from ._operators import query
from .._core.tables import as_returned, features_of

Tensor = torch.Tensor
MOST_CACHED = 64  # hierarchies
_KINDS = "#whole", "#float", "#tensor"  # what stands for a value that lies aside


class Values(NamedTuple):
    """Values that lie aside: torch.compile may not know numbers yet, and never knows tensors."""

    whole: List[int]
    floats: List[float]
    tensors: List[Tensor]

    def copy(self) -> "Values":
        return Values(list(self.whole), list(self.floats), list(self.tensors))

    def written(self, x: Any) -> str:
        """A value as text."""
        if x is None or isinstance(x, (bool, str)):
            return repr(x)
        if isinstance(x, (list, tuple)):
            return "[" + "".join([self.written(i) + "," for i in x]) + "]"
        if isinstance(x, dict):
            return "{" + "".join([repr(name) + ":" + self.written(i) + "," for name, i in x.items()]) + "}"
        if isinstance(x, np.ndarray):
            x = torch.from_numpy(x)
        for kind, of, values in zip(_KINDS, (int, float, Tensor), (self.whole, self.floats, self.tensors)):
            if isinstance(x, of):
                values.append(x)  # type: ignore[attr-defined]
                return repr(kind)
        raise refuse_type(f"{type(x).__name__} cannot be given to a hierarchy that is made inside torch.compile: make it outside")


def _read(x: Any, values: Dict[str, Iterator[Any]]) -> Any:
    if isinstance(x, list):
        return [_read(i, values) for i in x]
    if isinstance(x, dict):
        return {name: _read(i, values) for name, i in x.items()}
    return next(values[x]) if isinstance(x, str) and x in values else x


def _step(name: str) -> Callable[..., "Made"]:
    return lambda self, *arguments, **more: self._then(name, arguments, more)


class Made:
    """A graph or a hierarchy that will be made by a function of ``STARTS`` and by the methods that follow. Inside torch.compile it
    offers these alone, and attention; all else needs one that is made outside."""

    _in_order = None

    def __init__(self, steps: str, values: Values) -> None:
        self.steps, self.values = steps, values
        self.positions: Optional[Tensor] = None  # rows of node_pos by a node's place among its siblings

    def _then(self, name: str, arguments: Tuple[Any, ...], more: Dict[str, Any]) -> "Made":
        values = self.values.copy()
        return Made(self.steps + values.written([name, arguments, more]) + ",", values)

    hierarchy, additive_scores, update = _step("hierarchy"), _step("additive_scores"), _step("update")
    strict_rows, order = _step("strict_rows"), _step("order")

    def attention(self, q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Any:
        rows = query(q, "query"), query(k, "key"), query(v, "value")
        return Hierarchy.attention(cast(Hierarchy, self), *rows, **more)

    __call__ = attention


def made(start: str, *arguments: Any, **more: Any) -> Made:
    return Made("", Values([], [], []))._then(start, arguments, more)


@deferred
def _known(name: str) -> Any:
    found = KNOWN.get(name) or GRAPHS.get(name)
    if found is None:
        raise refuse("the hierarchy of this operator is gone")
    return found


def known(x: Union[Graph, Hierarchy]) -> Made:
    """One that was made outside."""
    return cast(Made, _known(x._name))


def attention(h: Any, q: Tensor, k: Tensor, v: Tensor, more: Dict[str, Any]) -> Any:
    """Hierarchy.attention, traced by torch.compile."""
    h = h if isinstance(h, Made) else known(h)
    values = h.values.copy()
    if h.positions is not None:
        more = {**more, "positions": h.positions}
    if type(more["seed"]) is int and 2**63 <= more["seed"] < 2**64:  # an operator's numbers have a sign
        more = {**more, "seed": [more["seed"] - 2**63]}
    words = "[" + h.steps + "]," + values.written(more)
    out, lse = whole("made", Inputs(words, values.whole, values.floats, [q, k, v, *values.tensors]))
    return as_returned(out, lse, more["lse"], features_of(more))


# ---- positions of nodes ----


def siblings(h: Hierarchy) -> Tensor:
    """[nodes]: which child of its family each node is, in the order that node_pos has; roots are 0."""
    parent = h.graph.parents()
    order = np.argsort(parent, kind="stable")
    grouped = parent[order]
    begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    index = np.empty(len(parent), np.int64)
    index[order] = np.arange(len(parent)) - np.repeat(begins, np.diff(np.r_[begins, len(parent)]))
    index[parent < 0] = 0
    return torch.from_numpy(index if h._node_of is None else index[h._node_of])


def positioned(h: Hierarchy, position: Tensor) -> Tensor:
    """node_pos: for every node the row of its index among its siblings."""
    index = siblings(h)
    if int(index.max()) >= len(position):
        raise refuse(f"{h.words}: a family has {int(index.max()) + 1} children, positions were made for {len(position)}")
    return position[index]


# ---- the pass ----

_BUILT: "Cached[Any]" = OrderedDict()


def _made(steps: Any, values: Dict[str, Iterator[Any]]) -> Any:
    """The same for the same numbers and tensors, unchanged."""
    steps = _read(steps, values)
    return cached(_BUILT, MOST_CACHED, steps, lambda: _built(steps))


def _built(steps: Any) -> Any:
    (start, arguments, more), *others = steps
    found = STARTS[start](*arguments, **more)
    for step, arguments, more in others:
        found = getattr(found, step)(*arguments, **more)
    return found


def _values(inputs: Inputs) -> Dict[str, Iterator[Any]]:
    return dict(zip(_KINDS, (iter(inputs.whole), iter(inputs.floats), iter(inputs.tensors[3:]))))


def _run(inputs: Inputs) -> Outputs:
    steps, options = ast.literal_eval(inputs.words)
    q, k, v = inputs.tensors[:3]
    values = _values(inputs)
    h, more = _made(steps, values), _read(options, values)
    if isinstance(more["seed"], Tensor):
        more["seed"] = int(more["seed"])
    if isinstance(more["seed"], list):
        more["seed"] = more["seed"][0] + 2**63
    if "positions" in more:
        more["node_pos"] = positioned(h, more.pop("positions"))
    found = h.attention(q, k, v, **more)
    *outs, lse = found if more["lse"] else (*found, None) if isinstance(found, tuple) else (found, None)
    return outs[0] if len(outs) == 1 else torch.cat(outs, -1), lse


def _shapes(inputs: Inputs) -> Outputs:
    q, _, v = inputs.tensors[:3]
    steps, options = ast.literal_eval(inputs.words)
    values = _values(inputs)
    _read(steps, values)
    wants, columns = options["lse"], v.shape[-1] + features_of(_read(options, values))
    return q.new_empty(q.shape[:-1] + (columns,)), q.new_empty(q.shape[:-1], dtype=torch.float32) if wants else None


PASSES["made"] = Pass(_run, _shapes)
