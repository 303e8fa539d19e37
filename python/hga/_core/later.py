"""The one door to parts of the package that wait until somebody asks: they take long to import, or need what may not be there."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

PACKAGES = ("jax", "onnx", "torch", "transformers")
MAY_WAIT = frozenset((*PACKAGES, "torch._compiled", "torch._distributed", "_flex.call", "_flex.masks"))
_PACKAGE: Any = sys.modules["hga"]


def _import(name: str) -> bool:
    assert name in MAY_WAIT, name
    import_module(f"hga.{name}")
    return True


# torch.compile cannot look into an import: this is what torch.compiler.assume_constant_result does, where torch is not there yet.
_import._dynamo_marked_constant = True  # type: ignore[attr-defined]


def later(name: str) -> Any:
    """A module of MAY_WAIT, imported when it is first asked for."""
    _import(name)
    found = _PACKAGE
    for part in name.split("."):
        found = getattr(found, part)
    return found
