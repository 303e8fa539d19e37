"""The library's registry: every variant with its parameters. The build reads it, too (stubs.py), without numpy."""

from __future__ import annotations

import difflib
import keyword
from typing import Any, Dict, List, Optional, Tuple

from .._core.library import WrongType, ffi, lib


NOWHERE = 2 ** (8 * ffi.sizeof("size_t")) - 1  # HGA_NOWHERE
# Variants of which data may say how many tokens there are.
BY_DATA = lib.HGA_TAKES_TREE | lib.HGA_NEEDS_LEAVES | lib.HGA_NEEDS_SEGMENTS | lib.HGA_TAKES_SHAPE | lib.HGA_NEEDS_DRAFTS | lib.HGA_NEEDS_CHOICE


def _text(pointer: Any) -> Optional[str]:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode()


class Parameter:
    """One parameter of a variant, as the registry has it."""

    def __init__(self, p: Any, row: int) -> None:
        self.name = ffi.string(p.name).decode()
        self.python_name = self.name.replace("-", "_")
        if keyword.iskeyword(self.python_name):  # window's `global`
            self.python_name += "_"
        self.kind, self.place, self.row = int(p.kind), int(p.place), row
        self.offset, self.count, self.columns, self.least = int(p.offset), int(p.count), int(p.columns), int(p.least)
        self.may_be_each = self.kind == lib.HGA_PARAMETER_WHOLE and self.count != NOWHERE  # one number, or an array of them
        self.standard, self.words, self.says, self.study = _text(p.standard), _text(p.words), _text(p.says), _text(p.study)

    @property
    def type(self) -> str:
        return "int or array of int" if self.may_be_each else ("bool", "int", "str", "float", "array of int", "array of float32")[self.kind]

    @property
    def default(self) -> Any:
        """The parameter's default; None: none."""
        if self.standard is None or self.type == "str":
            return self.standard
        if self.type == "bool":
            return self.standard == "1"
        numbers = tuple(int(x) for x in self.standard.split(","))
        return numbers[0] if self.kind == lib.HGA_PARAMETER_WHOLE else numbers


class Variant:
    """One row of the registry."""

    def __init__(self, row: Any) -> None:
        self._row = row
        self.name = ffi.string(row.name).decode()
        self.says, self.paper = _text(row.says), _text(row.paper)
        self.parameters: List[Parameter] = []
        i = 0
        while row.parameters[i].name != ffi.NULL:
            if row.parameters[i].place != lib.HGA_IN_CHOICE:  # which calls have
                self.parameters.append(Parameter(row.parameters[i], i))
            i += 1
        self.by_data = self._can(BY_DATA)
        self.can_causal = self._can(lib.HGA_CAN_CAUSAL | lib.HGA_ALWAYS_CAUSAL)
        self.can_cross = self._can(lib.HGA_CAN_CROSS)
        self.rows_are_nodes = self._can(lib.HGA_ROWS_ARE_NODES)
        self.needs_choice = self._can(lib.HGA_NEEDS_CHOICE)

    def __repr__(self) -> str:
        return f"<hga.Variant {self.name}({', '.join(p.python_name for p in self.parameters)}): {self.says}>"

    def _can(self, what: int) -> bool:
        """Any of what the library's flags say."""
        return bool(int(self._row.can) & what)

    def parameter(self, name: str) -> Parameter:
        for p in self.parameters:
            if name in (p.python_name, p.name):
                return p
        known = [p.python_name for p in self.parameters]
        near = difflib.get_close_matches(name.lower(), known, 1)
        says = f": did you mean {near[0]!r}?" if near else "; it has " + (", ".join(known) or "none")
        raise WrongType("HGA_EINVAL", f"{self.name} has no parameter {name!r}{says}")

    def __reduce__(self) -> Tuple[Any, ...]:
        return variant_named, (self.name,)


def variant_named(name: str) -> Variant:
    """The variant of a name that there is."""
    return Variant(lib.hga_variant_named(name.encode())[0])


def elsewhere(name: str) -> str:
    """": here it is ..", of a name that other packages and papers have; else nothing."""
    here = _text(lib.hga_variant_elsewhere(name.encode("utf-8", "replace")))
    return f": here it is {here}" if here else ""


def variants() -> Dict[str, Variant]:
    """The registry: every variant with its parameters."""
    rows, found, i = lib.hga_variants(), {}, 0
    while rows[i].name != ffi.NULL:
        v = Variant(rows[i])
        found[v.name] = v
        i += 1
    return found
