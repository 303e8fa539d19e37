"""stubs.py: types that the library's tables tell: of the functions named after variants (_graphs/functions.pyi), and of the keywords by
which calls bring tables (_core/keywords.pyi).

    python3 stubs.py FOLDER_OF_THE_PACKAGE

writes them beside the extension. Type checkers and editors read them: they know every variant, every parameter and its words. A
test compares them with the registry. Needs the folder of the package alone, not numpy.
"""

import os
import sys
import types

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


TYPES = {
    "bool": "bool", "int": "SupportsIndex", "float": "SupportsFloat", "array of int": "_Ints", "int or array of int": "_Ints",
    "array of float32": "_Floats",
}  # fmt: skip


def written(p, needed):
    """A parameter as a function has it."""
    type_ = f"Literal[{', '.join(map(repr, p.words.split()))}]" if p.words else TYPES[p.type]
    if p.python_name in needed:
        return f"{p.python_name}: {type_}"
    return f"{p.python_name}: {f'Optional[{type_}]' if p.default is None else type_} = {p.default!r}"


def function(lib, v, name):
    """The lines of a variant; of one that routes by hyperplanes, two: with leaves, and with these."""
    first = "n_tokens: Optional[_Tokens] = None" if v.by_data else "n_tokens: _Tokens"
    last = ["n_keys: Optional[SupportsIndex] = None"] if v.can_cross else []
    needs = ((lib.HGA_NEEDS_SEGMENTS, "query_segment"), (lib.HGA_NEEDS_DRAFTS, "parent"), (lib.HGA_NEEDS_TYPE_SCALE, "alpha"))
    needed = {parameter for need, parameter in needs if v._can(need)}

    def line(parameters, needed, returns):
        items = [written(p, needed) for p in parameters] + last
        declared = f"def {name}({', '.join([first] + (['*'] if items else []) + items)}) -> {returns}:"
        return f'{declared}\n    """{v.says} ({v.paper})."""\n'

    if not v._can(lib.HGA_NEEDS_LEAVES):
        return line(v.parameters, needed, "ChosenHierarchy" if v.needs_choice else "Hierarchy")
    with_leaves = [p for p in v.parameters if p.place not in (lib.HGA_IN_ROUTER, lib.HGA_IN_KEY_ROUTER)]
    without = [p for p in v.parameters if p.python_name not in ("query_leaf", "key_leaf")]
    return "@overload\n" + line(with_leaves, needed | {"query_leaf"}, "Hierarchy") + "@overload\n" + line(
        without, needed | {"weights", "bias"}, "RoutedHierarchy"
    )


def functions(lib, variants):
    names = {name.replace("-", "_"): v for name, v in variants.items()}
    pieces = ["\n" + function(lib, v, name) for name, v in names.items()]
    return HEAD + f"\n__all__ = {[*names, 'neighborhood']}\n" + "".join(pieces) + "\nneighborhood = neighbourhood\n"


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
    package = sys.modules["hga"] = types.ModuleType("hga")  # in place of the package's own, which needs numpy
    package.__path__ = [folder]
    from hga._core.library import ffi, lib
    from hga._graphs.registry import variants

    for name, text in (("_graphs/functions", functions(lib, variants())), ("_core/keywords", keywords(ffi, lib))):
        output = os.path.join(folder, name + ".pyi")
        with open(output + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(output + ".new", output)


main()
