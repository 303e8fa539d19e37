"""flex_attention inside torch.compile. torch turns score_mod and mask_mod into graphs, as it does for its own flex_attention,
with what they capture as inputs; flex_attention then runs as it does outside of torch.compile."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.fx import GraphModule
from torch.nn.attention.flex_attention import BlockMask, noop_mask

from .._core.library import Error, refuse
from .attend import Pairs, ScoreMod, attend
from .cache import GRAPHS
from .._core.deferred import new_name
from ..torch._one_pass import PASSES, Cached, Inputs, Outputs, Pass, cached, whole
from .._core.releases import private

Tensor = torch.Tensor
MASKS_CACHED = 16  # BlockMasks, with the hierarchies made of them


class _Call(NamedTuple):
    """What a call has besides tensors and numbers."""

    score_mod: GraphModule
    mask_mod: Optional[GraphModule]
    n_mask: int
    n_score: int  # values that are the mask's, and that score_mod captures; mask_mod captures the rest
    kinds: str  # what each value is: "t" a tensor, "i" a whole number, "n" none
    lse: bool  # is it requested?

    def split(self, tensors: Sequence[Tensor], numbers: Sequence[int]) -> Tuple[List[Any], List[Any], List[Any]]:
        t, i = iter(tensors), iter(numbers)
        values: List[Any] = [None if p == "n" else next(i) if p == "i" else next(t) for p in self.kinds]
        end = self.n_mask + self.n_score
        return values[: self.n_mask], values[self.n_mask : end], values[end:]


CALLS: Dict[str, _Call] = {}
_NAMES: Dict[Any, str] = {}


def _name(call: _Call) -> str:
    """Calls whose graphs read alike are one, which has a name that no other process gives."""
    graphs = [f for f in (call.score_mod, call.mask_mod) if f is not None]
    key: Any = (*(str(f.code) for f in graphs), call[2:])
    if any(node.op == "get_attr" for f in graphs for node in f.graph.nodes):  # there is more to them than text
        key = id(call)
    name = _NAMES.setdefault(key, new_name())
    if name not in CALLS:
        CALLS[name] = call
        GRAPHS.add(call.score_mod)
    return name


def _traced(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Any, block_mask: Tuple[Any, ...], scale: Any, lse: bool,
    of_score: Sequence[Any] = (), of_mask: Sequence[Any] = (),
) -> Pairs:  # fmt: skip
    """The call, where its two functions are graphs."""
    values = [*block_mask[:-1], *of_score, *of_mask]
    kinds = "".join("n" if x is None else "t" if isinstance(x, Tensor) else "i" for x in values)
    mask_mod = block_mask[-1] if len(block_mask) > 1 else None
    name = _name(_Call(score_mod, mask_mod, len(block_mask) - 1, len(of_score), kinds, lse))
    numbers, tensors = ([x for x, p in zip(values, kinds) if p == kind] for kind in "it")
    return whole("flex_attention", Inputs(name, numbers, [] if scale is None else [scale], [query, key, value, *tensors]))


def _operator() -> Any:
    """What torch.compile sees of flex_attention first, and traces as dynamo traces torch's own: the two functions as graphs."""
    base: Any = private("torch._ops.HigherOrderOperator")
    dynamo = "torch._dynamo.variables.higher_order_ops"
    private(f"{dynamo}._hop_name_to_variable_class")[_NAME] = private(f"{dynamo}.FlexAttentionHigherOrderVariable")
    return type("FlexAttention", (base,), {"__call__": lambda self, *arguments, **more: _traced(*arguments, **more)})(_NAME)


_NAME = "hga_flex_attention"
_FLEX: Any = None
_REFUSAL: Optional[Error] = None
try:
    _FLEX = _operator()
except Error as e:  # which is for those to hear who compile a flex_attention
    _REFUSAL = e


def _unchanged(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score


def compiled(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod, mask: Optional[BlockMask], scale: Optional[float], lse: bool
) -> Pairs:
    """(out, log-sum-exp), traced by torch.compile."""
    if _REFUSAL is not None:  # torch.compile says what an operator says of its shapes
        return whole("flex_attention_refused", Inputs("", [], [], [query, key, value]))
    fields: Tuple[Any, ...] = (noop_mask,)
    if mask is not None:
        fields = (*mask.seq_lengths, mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices, *mask.BLOCK_SIZE,
                 mask.mask_mod)  # fmt: skip
    arguments = (query, key, value, _unchanged if score_mod is None else score_mod, fields, scale, lse)
    found: Pairs = _FLEX(*arguments) if torch.compiler.is_dynamo_compiling() else _exported(arguments)
    return found


def _exported(arguments: Tuple[Any, ...]) -> Pairs:
    """Of torch.export without dynamo, which alone makes graphs of functions, as torch's own flex_attention calls it there."""
    with private("torch._higher_order_ops.utils.setup_compilation_env")() as backend:
        found: Pairs = torch.compile(lambda *x: _FLEX(*x), backend=backend, fullgraph=True)(*arguments)
    return found


# ---- the pass ----

_MASKS: "Cached[BlockMask]" = OrderedDict()


def _bound(function: Callable[..., Any], captured: Sequence[Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments, *captured)


def _block_mask(call: _Call, fields: List[Any], captured: List[Any]) -> Optional[BlockMask]:
    """The same for the same tensors, unchanged: hierarchies are cached with it."""
    if call.mask_mod is None:
        return None
    n_queries, n_keys, some, indices, full, full_indices, *size = fields
    of_rows = (None,) * 4  # which backward passes of torch's read
    mod = _bound(call.mask_mod, captured)
    return cached(_MASKS, MASKS_CACHED, (id(call), *fields, *captured),
                  lambda: BlockMask((n_queries, n_keys), some, indices, full, full_indices, *of_rows, tuple(size), mod))  # fmt: skip


def _run(inputs: Inputs) -> Outputs:
    call = CALLS.get(inputs.words)
    if call is None:
        raise refuse("the functions of this flex_attention are gone")
    fields, of_score, of_mask = call.split(inputs.tensors[3:], inputs.whole)
    query, key, value = inputs.tensors[:3]
    scale = inputs.floats[0] if inputs.floats else None
    out, lse = attend(query, key, value, _bound(call.score_mod, of_score), _block_mask(call, fields, of_mask), scale, call.lse)
    return out, lse if call.lse else None


def _shapes(inputs: Inputs) -> Outputs:
    query, _, value = inputs.tensors[:3]
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32) if CALLS[inputs.words].lse else None
    return query.new_empty(query.shape[:-1] + value.shape[-1:]), lse


PASSES["flex_attention"] = Pass(_run, _shapes)


def _refused(inputs: Inputs) -> Outputs:
    assert _REFUSAL is not None
    raise _REFUSAL


PASSES["flex_attention_refused"] = Pass(_refused, _refused)
