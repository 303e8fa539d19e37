"""The score_mod of ONNX's FlexAttention, a graph of operators: matched node by node, like those of torch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
from onnx import TensorProto

from .._core.library import Error
from ._attention import Array, not_offered


class Scores:
    """outer * s + bias, or outer * tanh(inner * s) + bias, where `seen`, else -inf."""

    outer = 1.0
    inner: Optional[float] = None
    bias: Optional[Array] = None
    seen: Optional[Array] = None

    @property
    def scale(self) -> float:
        return self.outer if self.inner is None else self.outer * self.inner

    @property
    def cap(self) -> float:
        return 0.0 if self.inner is None else abs(self.outer)


Value = Union[Scores, Array]


def _refused(node: Any, why: str) -> Error:
    return not_offered(f"score_mod: {node.onnx_node.op_type} {why}")


def _number(node: Any, x: Value) -> float:
    if isinstance(x, Scores) or x.size != 1:
        raise _refused(node, "of the scores by more than one number is not understood")
    return float(x.reshape(()))


def _sides(x: Value, y: Value) -> Tuple[Scores, Array]:
    """The scores, which go one way only, and the other operand."""
    return (x, y) if isinstance(x, Scores) else (y, x)


def _times(node: Any, s: Scores, by: float) -> Scores:
    if not np.isfinite(by) or (s.seen is not None and by <= 0):
        raise _refused(node, f"by {by:g} is not understood")
    s.outer *= by
    s.bias = None if s.bias is None else s.bias * np.float32(by)
    return s


def _multiply(node: Any, x: Value, y: Value) -> Scores:
    s, by = _sides(x, y)
    return _times(node, s, _number(node, by))


def _divide(node: Any, x: Value, y: Value) -> Scores:
    by = _number(node, y)
    if by == 0 or not isinstance(x, Scores):
        raise _refused(node, "is not understood")
    return _times(node, x, 1 / by)


def _plus(s: Scores, x: Array) -> Scores:
    x = np.asarray(x).astype(np.float32)
    s.bias = x if s.bias is None else s.bias + x
    return s


def _add(node: Any, x: Value, y: Value) -> Scores:
    return _plus(*_sides(x, y))


def _subtract(node: Any, x: Value, y: Value) -> Scores:
    return _plus(x, -np.asarray(y)) if isinstance(x, Scores) else _plus(_times(node, y, -1.0), x)


def _tanh(node: Any, s: Scores) -> Scores:
    if s.bias is not None or s.seen is not None or s.inner is not None:
        raise _refused(node, "of scores that were capped, masked or added to is not understood")
    s.inner, s.outer = s.outer, 1.0
    return s


def _where(node: Any, seen: Value, x: Value, y: Value) -> Scores:
    if isinstance(seen, Scores):
        raise _refused(node, "by scores is not understood")
    s, other = _sides(x, y)
    if not np.all(np.asarray(other) == -np.inf):
        raise _refused(node, "of the scores or something else is not understood: the other must be -inf")
    allowed = seen if s is x else ~seen
    s.seen = allowed if s.seen is None else s.seen & allowed
    return s


def _cast(node: Any, s: Scores) -> Scores:
    to = [a.i for a in node.onnx_node.attribute if a.name == "to"]
    if to and to[0] not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise _refused(node, f"of the scores to {TensorProto.DataType.Name(to[0])} is not understood")
    return s


_RULES: Dict[str, Callable[..., Scores]] = {
    "Add": _add, "Sub": _subtract, "Mul": _multiply, "Div": _divide, "Tanh": _tanh, "Where": _where, "Cast": _cast,
    "Identity": lambda node, s: s, "Neg": lambda node, s: _times(node, s, -1.0),
}  # fmt: skip


def _result(node: Any, inputs: Sequence[Value], shape: Sequence[int]) -> List[Value]:
    kind = node.onnx_node.op_type
    if not any(isinstance(x, Scores) for x in inputs):
        if node.has_subgraph:
            raise _refused(node, "has graphs of its own")
        return list(node.run(*inputs))
    if kind == "Shape":
        return list(node.run(np.broadcast_to(np.float32(0), shape)))
    rule = _RULES.get(kind)
    if rule is None or node.onnx_node.domain not in ("", "ai.onnx"):
        raise _refused(node, "of the scores is not understood: they may be scaled, capped by Tanh, added to and masked")
    return [rule(node, *inputs)]


def matched(evaluator: Any, shape: Sequence[int]) -> Scores:
    """What a score_mod does to scores of that shape. What does not depend on them is computed by ONNX's evaluator."""
    (name,) = evaluator.input_names
    known: Dict[str, Any] = {"": None, name: Scores(), **evaluator.rt_inits_}
    readers: Dict[str, int] = {}
    for node in evaluator.rt_nodes_:
        inputs = [known[x] for x in node.input]
        for x in node.input:
            if isinstance(known[x], Scores) and node.onnx_node.op_type != "Shape":
                readers[x] = readers.get(x, 0) + 1
                if readers[x] > 1:
                    raise _refused(node, f"reads {x}, as another node does: scores may go one way only")
        for out, value in zip(node.output, _result(node, inputs, shape)):
            known[out] = value
    (out,) = evaluator.output_names
    if not isinstance(known[out], Scores):
        raise not_offered("score_mod: its result does not depend on the scores")
    found: Scores = known[out]
    return found
