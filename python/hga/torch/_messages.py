"""PyTorch Geometric's tools (to_hetero, explainers and others) ask whether a layer is one of its MessagePassing. The layers of
_convolutions.py are, from the moment that PyTorch Geometric is imported, before hga.torch or after; hga does not import it."""

from __future__ import annotations

import importlib
import sys
import weakref
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, ClassVar, Dict, Optional, Tuple

import torch

PACKAGE = "torch_geometric"
NN = f"{PACKAGE}.nn"  # has MessagePassing when it is imported


class Messages(torch.nn.Module):
    """A layer along edges. Its base is torch.nn.Module, and MessagePassing once there is that: the class stays the same one, by
    name and by identity, so layers that were made or pickled without PyTorch Geometric are its layers later, and the reverse."""

    _hooks: ClassVar[Tuple[str, ...]] = ()  # attributes that hold what PyTorch Geometric calls between the steps of a layer
    edge_updater: Callable[..., torch.Tensor]
    propagate: Callable[..., torch.Tensor]

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
        vars(fresh).update(_written(type(self)))
        base.__init__(fresh, aggr="add", node_dim=0)  # type: ignore[misc]
        for name in _WRITTEN:
            vars(fresh).pop(name, None)
        for name, value in {**vars(fresh), **fresh._modules}.items():  # no submodule: other packages' layers list theirs
            if name not in self._parameters:  # as a mask is that an explainer learns
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
        if own.get("_explain") is True:
            return True
        for name in Messages._hooks:
            if own[name]:
                return True
        return False

    def __getstate__(self) -> Dict[str, Any]:
        """Without objects of PyTorch Geometric, which is not everywhere, and without its methods, which _complete gives back."""
        return {name: x for name, x in self.__dict__.items() if type(x).__module__.partition(".")[0] != PACKAGE and name not in _WRITTEN}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        torch.nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        if self._is_explained():
            importlib.import_module(NN)  # without which its mask would be passed over
        self._complete()


# Methods for which PyTorch Geometric writes Python.
_WRITTEN = "propagate", "edge_updater"


def _written(layer: type) -> Dict[str, Any]:
    """PyTorch Geometric before 2.6 writes in MessagePassing.__init__, where this tells it that it has."""
    return {name: SimpleNamespace(__module__=f"{layer.__module__}_{layer.__name__}_{name}") for name in _WRITTEN}


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
