"""What torch.utils.flop_counter counts of hga's operator: the products of attention, as it counts those of torch's own: of an
edge and head 2 (dim + dim_v) forward, and backward 6 dim + 4 dim_v, since scores are computed once more."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Callable

import torch

from ._one_pass import PASSES, Inputs, recorded
from ._operators import has_numbers

COUNTER = "torch.utils.flop_counter"


def _of_recorded(back: bool, kind: str, inputs: Inputs) -> int:
    """Of a pass that runs as it does outside: it runs once more and is watched."""
    if not has_numbers(*inputs.tensors):
        return 0
    wants = inputs.wants if back else "t" * len(inputs.tensors)
    with sys.modules[COUNTER].FlopCounterMode(display=False) as counter:
        done = recorded(kind, inputs._replace(wants=wants))
    if back:
        upstream = [None if x is None else torch.zeros_like(x) for x in done.outputs]
        with sys.modules[COUNTER].FlopCounterMode(display=False) as counter:
            done.gradients(wants, *upstream)
    return int(counter.get_total_flops())


def _counted(back: bool, kind: str, *arguments: Any) -> int:
    inputs = Inputs(*arguments)
    attends_by = PASSES[kind].attends_by
    if attends_by is None:
        return _of_recorded(back, kind, inputs)
    dim, dim_v = inputs.tensors[0].shape[-1], inputs.tensors[2].shape[-1]
    each = 6 * dim + 4 * dim_v if back else 2 * (dim + dim_v)
    of_graphs = ((h, heads // h.n_graphs, times) for h, heads, times in attends_by(inputs))
    return each * sum(times * own * int(h.plan(own)["edges"]) for h, own, times in of_graphs)


def _attention(*arguments: Any, **more: Any) -> int:
    return _counted(False, *arguments)


def _attention_backward(d_out: Any, d_lse: Any, kept: Any, *arguments: Any, **more: Any) -> int:
    return _counted(True, *arguments)


# ---- when they are registered ----


def count() -> None:
    """Register them, or do so once torch's counter is imported: to import it here would import triton, or a warning that it is
    missing."""

    def register(module: Any) -> None:
        for operator, formula in ((torch.ops.hga.attention, _attention), (torch.ops.hga.attention_backward, _attention_backward)):
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
