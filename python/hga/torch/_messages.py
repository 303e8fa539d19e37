"""What layers of graphs share with those of PyTorch Geometric. Its tools (to_hetero, explainers and others) ask whether a layer is
one of its MessagePassing. The layers of _convolutions.py are, from the moment that PyTorch Geometric is imported, before hga.torch
or after; hga does not import it. And linear layers, whose columns may come with the first rows: in_features is -1 until then."""

from __future__ import annotations

import importlib
import sys
import weakref
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, ClassVar, Dict, Optional, Tuple

import torch

from .._core.library import refuse

Tensor = torch.Tensor
LATER = -1
PACKAGE = "torch_geometric"
NN = f"{PACKAGE}.nn"  # has MessagePassing when it is imported
_WRITTEN = "propagate", "edge_updater"  # methods that it writes in Python for each class


class Messages(torch.nn.Module):
    """A layer along edges. Its base is torch.nn.Module, and MessagePassing once there is that: the class stays the same one, by
    name and by identity, so layers that were made or pickled without PyTorch Geometric are its layers later, and the reverse."""

    _hooks: ClassVar[Tuple[str, ...]] = ()  # attributes that hold what PyTorch Geometric calls between the steps of a layer
    edge_updater: Callable[..., Tensor]
    propagate: Callable[..., Tensor]

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self._complete()

    def _complete(self) -> None:
        """Add what MessagePassing.__init__ would have set in the layer, where that is missing."""
        base: Any = Messages.__bases__[0]
        if base is torch.nn.Module:
            _WAITING.add(self)
            return
        fresh = torch.nn.Module.__new__(type(self))
        for name in _WRITTEN:  # before 2.6 it writes these here, where it is told that it has
            vars(fresh)[name] = SimpleNamespace(__module__=f"{type(self).__module__}_{type(self).__name__}_{name}")
        base.__init__(fresh, aggr="add", node_dim=0)  # type: ignore[misc]
        for name, value in {**vars(fresh), **fresh._modules}.items():  # no submodule: other packages' layers list theirs
            if name not in self._parameters and name not in _WRITTEN:  # a mask that an explainer learns is a parameter
                self.__dict__.setdefault(name, value)
        Messages._hooks = tuple(name for name in vars(fresh) if name.endswith("_hooks") and name not in _OF_TORCH)
        if self._is_explained():  # what it asks of an explanation it notes as it begins
            self.explain = None
            self.explain = True

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        """MessagePassing writes Python for each of its classes here. These run its code for explanations alone, as it is."""

    def _is_explained(self) -> bool:
        return self.__dict__.get("_explain") is True

    def _is_watched(self) -> bool:
        """Does PyTorch Geometric want the messages of edges one by one?"""
        own = self.__dict__
        return self._is_explained() or any([own[name] for name in Messages._hooks])

    def __getstate__(self) -> Dict[str, Any]:
        """Without objects of PyTorch Geometric, which is not everywhere, and without its methods, which _complete gives back."""
        return {name: x for name, x in self.__dict__.items() if type(x).__module__.partition(".")[0] != PACKAGE and name not in _WRITTEN}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        torch.nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        if self._is_explained():
            importlib.import_module(NN)  # without which its mask would be passed over
        self._complete()


_WAITING: "weakref.WeakSet[Messages]" = weakref.WeakSet()  # layers that were there before PyTorch Geometric
_OF_TORCH = frozenset(vars(torch.nn.Module()))


def _derive(module: Any) -> None:
    base = module.MessagePassing
    Messages.__bases__ = (base,)
    if not hasattr(base, "_set_jittable_templates"):  # before 2.6: what explanations run, and what runs after them
        Messages._orig_propagate = Messages._jinja_propagate = base.propagate  # type: ignore[attr-defined]
    for layer in list(_WAITING):
        layer._complete()
    _WAITING.clear()


class _Waiter(MetaPathFinder):
    """Finds PyTorch Geometric as Python does, and has something done behind its import."""

    def find_spec(self, name: str, path: Any = None, target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        spec = PathFinder.find_spec(name, path, target) if name == NN else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_derive(module: ModuleType) -> None:
                load(module)
                sys.meta_path.remove(self)
                _derive(module)

            spec.loader.exec_module = load_and_derive  # type: ignore[method-assign]
        return spec


if hasattr(sys.modules.get(NN), "MessagePassing"):
    _derive(sys.modules[NN])
else:
    sys.meta_path.insert(0, _Waiter())


# ---- linear layers ----


class Linear(torch.nn.Linear):
    """Without columns it has weights that wait: its columns come with the first rows, or with a state."""

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
            super().reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        self.ready(x)
        return super().forward(x)

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

    def reset_parameters(self) -> None:
        if self.in_features == LATER:
            return
        glorot(self.weight)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -(self.in_features**-0.5), self.in_features**-0.5)
