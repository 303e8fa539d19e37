"""The structure that a variant's builder takes, filled by the library."""

from __future__ import annotations

from typing import Any, Dict, List, Set

import numpy as np

from .._core.arguments import encoded, flag, int32, number, one_of, unmasked
from .._core.library import check, ffi, lib, refuse
from .._core.arrays import ids, is_torch
from .registry import Variant


def plain(x: Any) -> Any:
    """A tensor's numbers, or a list's."""
    return x.detach().cpu().numpy() if is_torch(x) else x


def is_one(x: Any) -> bool:
    """Is it one number, not several?"""
    return not isinstance(x, (list, tuple, range)) and getattr(x, "ndim", 0) == 0


class Settings:
    """The structure that a variant's builder takes, which the library fills: of ``words`` that it has read, or of defaults."""

    def __init__(self, variant: Variant, words: Any = None) -> None:
        self.variant, self._row = variant, ffi.addressof(variant._row)
        self.memory = ffi.new("double[]", (int(variant._row.bytes) + 7) // 8)
        self._alive: List[Any] = [words]
        self.declared: Set[str] = set()
        if words is None:
            lib.hga_variant_defaults(self._row, self.memory)
        else:
            ffi.memmove(self.memory, words.parameters, int(variant._row.bytes))
            rows = [("tokens", lib.HGA_DECLARED_TOKENS), ("keys", lib.HGA_DECLARED_KEYS), *((p.python_name, p.row) for p in variant.parameters)]
            self.declared = {name for name, row in rows if words.declared >> row & 1}

    def set(self, name: str, value: str) -> None:
        """A number, a flag or a word; "tokens" and "keys" are numbers, too."""
        check(lib.hga_variant_set(self._row, self.memory, name.encode(), encoded(value, name)))

    def _set_array(self, name: str, value: Any, axes: int = 2) -> None:
        if name == "causal":  # an axis each, true or not
            value = [int(flag(x, name)) for x in np.asarray(unmasked(value, name)).reshape(-1)]
        x = ids(value, name)
        if not 1 <= x.ndim <= axes:
            raise refuse(f"{name} has shape {x.shape}: one axis{', or [n][heads]' * (axes - 1)}")
        self._alive.append(x)
        data, columns = ffi.cast("int32_t *", x.ctypes.data), x.shape[1] if x.ndim == 2 else 0
        check(lib.hga_variant_set_array(self._row, self.memory, name.encode(), data, len(x), columns))

    def fill(self, name: str, value: Any) -> None:
        """A parameter, by a value of Python's. What is not the builder's is given, but not filled in."""
        p = self.variant.parameter(name)
        self.declared.add(p.python_name)
        if p.type == "bool":
            self.set(p.name, str(int(flag(value, p.python_name))))
        elif p.may_be_each and not is_one(value):
            self._set_array(p.name, unmasked(value, p.python_name), axes=1)
        elif p.kind == lib.HGA_PARAMETER_WHOLE:
            self.set(p.name, str(int32(value, p.python_name)))
        elif p.type == "float":
            self.set(p.name, repr(number(value, p.python_name)))
        elif p.type == "str":
            self.set(p.name, one_of(value, p.python_name, (p.words or "").split()))
        elif p.place == lib.HGA_IN_BUILDER:
            unmasked(value, p.python_name)
            numbers = np.asarray(plain([value] if isinstance(value, (int, np.integer, np.bool_)) else value))
            self._set_array(p.name, numbers.astype(np.int32) if numbers.dtype == bool else numbers)

    def value(self, name: str) -> Any:
        """A number, a flag or a word that the structure has; of an array, how many numbers it has, but those of one that may be a number."""
        p, members = self.variant.parameter(name), ffi.cast("char *", self.memory)
        n = int(ffi.cast("int32_t *", members + p.count)[0]) if p.may_be_each else 0
        if n:
            return tuple(ffi.unpack(ffi.cast("int32_t **", members + p.columns)[0], n))
        if p.type == "float":
            return ffi.cast("double *", members + p.offset)[0]
        whole = int(ffi.cast("int32_t *", members + (p.count if p.type == "array of int" else p.offset))[0])
        return (p.words or "").split()[whole] if p.type == "str" else bool(whole) if p.type == "bool" else whole


def values_of(s: Settings) -> Dict[str, Any]:
    """All that the structure has, by Python's names."""
    return {p.python_name: s.value(p.name) for p in s.variant.parameters}
