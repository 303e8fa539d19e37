"""Linear layers whose columns may come with the first rows: in_features is -1 until then, as PyTorch Geometric's layers say it."""

from __future__ import annotations

from typing import Any, Dict

import torch

from .._core.arguments import whole
from .._core.values import refuse

Tensor = torch.Tensor
LATER = -1


def columns(value: Any, what: str) -> None:
    """How many there are, or -1: the first rows tell."""
    if whole(value, what, least=-(2**63)) < 1 and value != LATER:
        raise refuse(f"{what} is {value}; it must be at least 1, or {LATER}: as many as the first rows have")


class Linear(torch.nn.Linear):
    def __init__(self, columns: int, rows: int, bias: bool = True) -> None:
        if columns != LATER:
            super().__init__(columns, rows, bias)
            return
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = columns, rows
        self.weight = torch.nn.UninitializedParameter()
        self.register_parameter("bias", torch.nn.Parameter(torch.zeros(rows)) if bias else None)

    def ready(self, x: Tensor) -> "Linear":
        """With x's columns, where none came before."""
        if self.in_features == LATER:
            if x.shape[-1] < 1:
                raise refuse(f"the first rows tell how many columns there are, and those of shape {tuple(x.shape)} have none")
            with torch.inference_mode(False), torch.no_grad():
                self._take(x.shape[-1])
                self.reset_parameters()
        return self

    def _take(self, columns: int) -> None:
        assert isinstance(self.weight, torch.nn.UninitializedParameter)
        self.in_features = columns
        self.weight.materialize((self.out_features, columns))

    def reset_parameters(self) -> None:
        """Draw all parameters anew; those of a layer without columns are drawn when it has them."""
        if self.in_features != LATER:
            self._draw()

    def _draw(self) -> None:
        super().reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        self.ready(x)
        return super().forward(x)

    # ---- states: a layer without columns has its entry in them, and takes the columns of one that has them ----

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars or self.in_features == LATER)

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *rest: Any) -> None:
        weight = state_dict.get(prefix + "weight")
        if isinstance(weight, torch.nn.UninitializedParameter):
            self.in_features, self.weight = LATER, torch.nn.UninitializedParameter()
        elif self.in_features == LATER and isinstance(weight, torch.Tensor) and weight.dim() == 2:
            self._take(weight.shape[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[no-untyped-call]


def glorot(*parameters: Tensor) -> None:
    for p in parameters:
        bound = (6 / (p.shape[-2] + p.shape[-1])) ** 0.5
        torch.nn.init.uniform_(p, -bound, bound)


class GlorotLinear(Linear):
    """Weights drawn as graph attention has them (Glorot and Bengio 2010)."""

    def _draw(self) -> None:
        glorot(self.weight)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -(self.in_features**-0.5), self.in_features**-0.5)
