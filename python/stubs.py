"""stubs.py: types that the library's tables tell: of the functions named after variants (_graphs/functions.pyi), and of the keywords by
which calls bring tables (_core/keywords.pyi).

    python3 stubs.py FOLDER_OF_THE_EXTENSION

writes them beside the extension. Type checkers and editors read them: they know every variant, every parameter and its words. A
test compares them with the registry. Needs the extension module alone, not numpy.
"""

import keyword
import os
import sys

HEAD = '''"""Variants as functions, made by stubs.py of the library's registry."""

from typing import Any, Literal, Optional, Protocol, Sequence, SupportsFloat, SupportsIndex, Union, overload

from .hierarchy import Hierarchy
from .routed import ChosenHierarchy
from .variants import RoutedHierarchy

class _Array(Protocol):
    """An array of numpy or torch."""
    @property
    def shape(self) -> Any: ...

_Ints = Union[Sequence[int], SupportsIndex, _Array]
_Floats = Union[Sequence[float], _Array]
_Tokens = Union[SupportsIndex, Sequence[int], _Array]
'''


class Parameter:
    def __init__(self, ffi, lib, p):
        text = lambda c: None if c == ffi.NULL else ffi.string(c).decode()  # noqa: E731
        self.name = text(p.name).replace("-", "_")
        self.name += "_" * keyword.iskeyword(self.name)
        standard, words = text(p.standard), (text(p.words) or "").split()
        self.of_hyperplanes = p.place in (lib.HGA_IN_ROUTER, lib.HGA_IN_KEY_ROUTER)
        if p.kind == lib.HGA_PARAMETER_FLAG:
            self.type, self.default = "bool", str(standard == "1")
        elif p.kind == lib.HGA_PARAMETER_WHOLE:
            self.type, self.default = "SupportsIndex", standard
        elif p.kind == lib.HGA_PARAMETER_REAL:
            self.type, self.default = "SupportsFloat", standard
        elif p.kind == lib.HGA_PARAMETER_WORD:
            self.type, self.default = f"Literal[{', '.join(map(repr, words))}]", repr(standard)
        else:
            self.type = "_Ints" if p.kind == lib.HGA_PARAMETER_IDS else "_Floats"
            self.default = standard and f"({standard.replace(',', ', ')}{'' if ',' in standard else ','})"

    def written(self, needed=False):
        if needed:
            return f"{self.name}: {self.type}"
        if self.default is None:
            return f"{self.name}: Optional[{self.type}] = None"
        return f"{self.name}: {self.type} = {self.default}"


def function(lib, v, name, says, parameters):
    """The lines of a variant; of one that routes by hyperplanes, two: with leaves, and with these."""
    by_data = v.can & (
        lib.HGA_TAKES_TREE | lib.HGA_NEEDS_LEAVES | lib.HGA_NEEDS_SEGMENTS | lib.HGA_TAKES_SHAPE | lib.HGA_NEEDS_DRAFTS | lib.HGA_NEEDS_CHOICE
    )
    first = "n_tokens: Optional[_Tokens] = None" if by_data else "n_tokens: _Tokens"
    last = ["n_keys: Optional[SupportsIndex] = None"] if v.can & lib.HGA_CAN_CROSS else []
    needed = {"query_segment"} if v.can & lib.HGA_NEEDS_SEGMENTS else set()
    needed |= {"parent"} if v.can & lib.HGA_NEEDS_DRAFTS else set()
    needed |= {"alpha"} if v.can & lib.HGA_NEEDS_TYPE_SCALE else set()

    def line(named, needed, returns):
        items = [p.written(p.name in needed) for p in named] + last
        return f"def {name}({', '.join([first] + (['*'] if items else []) + items)}) -> {returns}:\n    \"\"\"{says}\"\"\"\n"

    if not v.can & lib.HGA_NEEDS_LEAVES:
        return line(parameters, needed, "ChosenHierarchy" if v.can & lib.HGA_NEEDS_CHOICE else "Hierarchy")
    with_leaves = [p for p in parameters if not p.of_hyperplanes]
    without = [p for p in parameters if p.name not in ("query_leaf", "key_leaf")]
    return "@overload\n" + line(with_leaves, needed | {"query_leaf"}, "Hierarchy") + "@overload\n" + line(
        without, needed | {"weights", "bias"}, "RoutedHierarchy"
    )


def functions(ffi, lib):
    rows, i, pieces, names = lib.hga_variants(), 0, [], []
    while rows[i].name != ffi.NULL:
        v, j, parameters = rows[i], 0, []
        while v.parameters[j].name != ffi.NULL:
            if v.parameters[j].place != lib.HGA_IN_CHOICE:  # which calls bring
                parameters.append(Parameter(ffi, lib, v.parameters[j]))
            j += 1
        name = ffi.string(v.name).decode().replace("-", "_")
        says = f"{ffi.string(v.says).decode()} ({ffi.string(v.paper).decode()})."
        names.append(name)
        pieces.append("\n" + function(lib, v, name, says, parameters))
        i += 1
    return HEAD + f"\n__all__ = {names + ['neighborhood']}\n" + "".join(pieces) + "\nneighborhood = neighbourhood\n"


KEYWORDS = '''"""What calls may bring, made by stubs.py of the library's rows."""

from typing import Any, Optional, SupportsFloat, TypedDict

'''


def keywords(ffi, lib):
    """A decoder's calls have no edges yet that anything could belong to."""
    rows, i, of = lib.hga_call_tables(), 0, {False: "", True: ""}
    while rows[i].name != ffi.NULL:
        row, extents = rows[i], (rows[i].rows, rows[i].columns)
        if not getattr(row, "is") & (lib.HGA_CALL_OF_GRAPH | lib.HGA_CALL_BY_WORD):
            type_ = "Optional[SupportsFloat]" if extents == (lib.HGA_EXTENT_ONE,) * 2 else "Any"
            name, says = ffi.string(row.name).decode(), ffi.string(row.says).decode()
            of[lib.HGA_EXTENT_EDGES in extents] += f"    {name}: {type_}  # {says}\n"
        i += 1
    return f"{KEYWORDS}class DecoderTables(TypedDict, total=False):\n{of[False]}\nclass CallTables(DecoderTables, total=False):\n{of[True]}"


def main():
    (folder,) = sys.argv[1:]
    sys.path.insert(0, folder)
    from _hga import ffi, lib

    for name, make in (("_graphs/functions", functions), ("_core/keywords", keywords)):
        output = os.path.join(folder, name + ".pyi")
        with open(output + ".new", "w", encoding="utf-8") as file:
            file.write(make(ffi, lib))
        os.replace(output + ".new", output)


main()
