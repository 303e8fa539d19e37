"""What torch.utils.flop_counter counts of hga's operators: the products of attention, as it counts those of torch's own: of an
edge and head 2 (dim + dim_v) forward, and backward 6 dim + 4 dim_v, since scores are computed once more."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections import Counter
from typing import Any, Callable, Dict, List, Sequence

import torch

from .._core.call import LAYOUTS
from ._documents import Document, documents
from ._eager import PLAIN
from .._graphs.hierarchy import Hierarchy
from ._one_pass import run
from ._ragged import in_window
from .._graphs.spec import hierarchy_of

Tensor = torch.Tensor
COUNTER = "torch.utils.flop_counter"


def _forward(dim: int, dim_v: int) -> int:
    return 2 * (dim + dim_v)


def _backward(dim: int, dim_v: int) -> int:
    return 6 * dim + 4 * dim_v


def _edges(h: Hierarchy, heads: int) -> int:
    """In all heads."""
    own = heads // h.n_graphs
    return own * int(h.plan(own)["edges"])


def _has_numbers(*tensors: Any) -> bool:
    """Is there more than a shape, as where tensors are torch's stand-ins?"""
    return all(x is None or (type(x) in PLAIN and not x.is_meta) for x in tensors)


# ---- of each operator ----

Each = Callable[[int, int], int]


def _of_attention(hierarchy: Callable[[str], Hierarchy], each: Each, name: str, q: Tensor, v: Tensor, layout: str) -> int:
    heads = q.shape[LAYOUTS[layout][0]] if q.dim() > 2 else 1
    return math.prod(q.shape[:-3]) * _edges(hierarchy(name), heads) * each(q.shape[-1], v.shape[-1])


def _of_documents(each: Each, words: str, q: Tensor, v: Tensor, mask: Any, offsets: Any, causal: bool) -> int:
    batch, heads, tokens, dim = q.shape
    if _has_numbers(mask, offsets):
        found = documents(mask, offsets, batch, tokens, causal, heads)
    else:  # as long as they may be
        found = [Document(b, 0, tokens, causal, tokens, 0 if causal else tokens) for b in range(batch)]
    alike = Counter((in_window(words, d), d.n, d.causal) for d in found)
    return sum(times * _edges(hierarchy_of(*one), heads) for one, times in alike.items()) * each(dim, v.shape[-1])


def _of_pass(back: bool, kind: str, words: str, wants: str, numbers: Sequence[int], floats: Sequence[float], tensors: Sequence[Tensor]) -> int:
    """Of a pass that is one operator, which runs once more and is watched."""
    if not _has_numbers(*tensors):
        return 0
    with sys.modules[COUNTER].FlopCounterMode(display=False) as counter:
        done = run(kind, words, wants if back else "t" * len(tensors), numbers, floats, tensors)
    forth: int = counter.get_total_flops()
    if not back:
        return forth
    upstream: List[Any] = [x if x is None else torch.zeros_like(x) for x in done.outputs]
    with sys.modules[COUNTER].FlopCounterMode(display=False) as counter:
        done.gradients(upstream)
    return int(counter.get_total_flops())


def _formulas(hierarchy: Callable[[str], Hierarchy]) -> Dict[Any, Callable[..., int]]:
    ops = torch.ops.hga

    def attention_backward(name: str, d_out: Tensor, d_lse: Any, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor, names: str,
                           tables: Any, numbers: Any, layout: str, *how: Any, **more: Any) -> int:  # fmt: skip
        return _of_attention(hierarchy, _backward, name, q, v, layout)

    def attention(name: str, q: Tensor, k: Tensor, v: Tensor, names: str, tables: Any, numbers: Any, layout: str, *how: Any, **more: Any) -> int:
        return _of_attention(hierarchy, _forward, name, q, v, layout)

    def documents_backward(ticket: Tensor, d_out: Tensor, words: str, q: Tensor, k: Tensor, v: Tensor, mask: Any, offsets: Any, seed: Any,
                           names: str, tables: Any, numbers: Any, causal: bool, *how: Any, **more: Any) -> int:  # fmt: skip
        return _of_documents(_backward, words, q, v, mask, offsets, causal)

    def of_documents(words: str, q: Tensor, k: Tensor, v: Tensor, mask: Any, offsets: Any, seed: Any, names: str, tables: Any, numbers: Any,
                     causal: bool, *how: Any, **more: Any) -> int:  # fmt: skip
        return _of_documents(_forward, words, q, v, mask, offsets, causal)

    def whole(*inputs: Any, **more: Any) -> int:
        return _of_pass(False, *inputs)

    def whole_backward(ticket: Tensor, d: Any, *inputs: Any, **more: Any) -> int:
        return _of_pass(True, *inputs)

    return {ops.attention: attention, ops.attention_backward: attention_backward, ops.documents: of_documents,
            ops.documents_backward: documents_backward, ops.whole: whole, ops.whole_backward: whole_backward}  # fmt: skip


# ---- when they are registered ----


def count(hierarchy: Callable[[str], Hierarchy]) -> None:
    """Register them, or do so once torch's counter is imported: to import it here would import triton, or a warning that it is
    missing. ``hierarchy`` finds one by its name."""

    def register(module: Any) -> None:
        for operator, formula in _formulas(hierarchy).items():
            module.register_flop_formula(operator, get_raw=True)(formula)

    if COUNTER in sys.modules:
        register(sys.modules[COUNTER])
    else:
        sys.meta_path.insert(0, _Later(register))


class _Later:
    """Finds the module as others do, and adds a step behind its own."""

    def __init__(self, step: Callable[[Any], None]) -> None:
        self.step = step

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != COUNTER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self.step(module)

            loader.exec_module = exec_module
        return spec
