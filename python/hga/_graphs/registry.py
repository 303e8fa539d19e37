"""The library's registry: every variant with its parameters."""

from __future__ import annotations

import keyword
import re
from typing import Any, Dict, List, Optional, Tuple

from .._core.arguments import meant
from .._core.values import encoded, ffi, lib, refuse, refuse_type

KINDS = {"flag": 0, "whole": 1, "word": 2, "real": 3, "ids": 4, "floats": 5}


def _text(pointer: Any) -> Optional[str]:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode()


class Parameter:
    """One parameter of a variant, as the registry has it."""

    def __init__(self, p: Any) -> None:
        self.name = ffi.string(p.name).decode()
        self.python_name = self.name.replace("-", "_")
        if keyword.iskeyword(self.python_name):  # window's `global`
            self.python_name += "_"
        self.kind = int(p.kind)
        self.place = int(p.place)
        self.offset, self.count, self.least = int(p.offset), int(p.count), int(p.least)
        self.standard, self.words, self.says, self.study = _text(p.standard), _text(p.words), _text(p.says), _text(p.study)

    @property
    def type(self) -> str:
        return ("bool", "int", "str", "float", "array of int", "array of float32")[self.kind]

    @property
    def default(self) -> Any:
        """The parameter's default; None: none."""
        if self.standard is None or self.kind == KINDS["word"]:
            return self.standard
        if self.kind == KINDS["flag"]:
            return self.standard == "1"
        numbers = tuple(int(x) for x in self.standard.split(","))
        return numbers[0] if self.kind == KINDS["whole"] else numbers


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
                self.parameters.append(Parameter(row.parameters[i]))
            i += 1
        can = int(row.can)
        self.can_causal = bool(can & (lib.HGA_CAN_CAUSAL | lib.HGA_ALWAYS_CAUSAL))
        self.can_cross = bool(can & lib.HGA_CAN_CROSS)
        self.rows_are_nodes = bool(can & lib.HGA_ROWS_ARE_NODES)
        self.needs_choice = bool(can & lib.HGA_NEEDS_CHOICE)

    def parameter(self, name: str) -> Parameter:
        for p in self.parameters:
            if name in (p.python_name, p.name):
                return p
        known = [p.python_name for p in self.parameters]
        near = meant(name, known) or "; it has " + (", ".join(known) or "none")
        raise refuse_type(f"{self.name} has no parameter {name!r}{near}")

    def __reduce__(self) -> Tuple[Any, ...]:
        return variant_named, (self.name,)


_BLANKS = " \t\n"  # as the library has them


def cut(words: str) -> List[str]:
    """A variant and its settings: "htransformer:block=16", "htransformer block=16"."""
    bare = words.strip(_BLANKS)
    if bare.startswith(":"):
        raise refuse("a variant in words begins with its name, not with a colon")
    if bare.endswith(":"):
        raise refuse("a variant in words ends with a colon, and no setting comes after it")
    return re.split(f"[{_BLANKS}:]+", bare)


def variant_named(name: str) -> Optional[Variant]:
    """The library's own look at a name: "treeformer_fine", too; None where no variant has it."""
    row = lib.hga_variant_named(encoded(name, "variant"))
    return None if row == ffi.NULL else Variant(row[0])


def variants() -> Dict[str, Variant]:
    """The registry: every variant with its parameters."""
    rows, found, i = lib.hga_variants(), {}, 0
    while rows[i].name != ffi.NULL:
        v = Variant(rows[i])
        found[v.name] = v
        i += 1
    return found
