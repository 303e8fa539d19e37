"""Names that the package had before release 0.5. They work until 0.6, with a DeprecationWarning."""

from __future__ import annotations

import warnings
from typing import Any, Collection, Dict, List, Mapping

from .values import refuse_type

# Attributes and keywords: old, new.
RENAMED = {"given": "arguments", "key_parts": "n_key_graphs", "parts": "n_graphs", "places": "permutation", "wanted": "needs_grad"}


def new_name(old: str, stacklevel: int) -> str:
    """The name that replaced this one, with a warning to the caller's line."""
    warnings.warn(f"hga: {old} is now {RENAMED[old]}; hga 0.6 will not know the old name", DeprecationWarning, stacklevel + 1)
    return RENAMED[old]


class Former:
    """An attribute by its old name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, of: Any, owner: type) -> Any:
        return self if of is None else getattr(of, new_name(self.name, 2))


def former_names(known: Collection[str]) -> List[str]:
    """Old names of a function's keywords."""
    return [old for old, new in RENAMED.items() if new in known and old not in known]


def with_new_names(function: str, former: Collection[str], named: Mapping[str, Any], stacklevel: int) -> Dict[str, Any]:
    """Keywords of a call, by their new names."""
    found = dict(named)
    for old in former:
        if old not in named:
            continue
        new = new_name(old, stacklevel + 1)
        if new in named:
            raise refuse_type(f"{function} has {old}= and {new}=, which are the same: leave {old}= out")
        found[new] = found.pop(old)
    return found
