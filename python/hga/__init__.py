"""hga: hierarchical graph attention on CPUs.

    import hga, numpy as np
    h = hga.htransformer(4096, block=16, causal=True)
    out = h.attention(q, k, v)          # float32 [batch, heads, tokens, dim]; numpy or torch

Every variant of the library is a function here, named as in the tool with dashes as underscores (``hga.variants()`` lists
them); ``Builder`` and ``Program`` make your own. Refusals are ``hga.Error``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._graphs import functions as _functions
from ._core.arguments import meant as _meant, encoded_path as _encoded_path, path_of as _path_of
from ._core.later import PACKAGES as _PACKAGES, later as _later
from ._core.library import (
    Error, check as _check, ffi as _ffi, lib as _lib, refuse_type as _refuse_type, version as _version, cmake_dir,
    include_dir, library,
)  # fmt: skip
from ._graphs.choosing import Candidates, choose
from ._graphs.decoder import Cache, Decoder
from ._graphs.functions import *  # noqa: F403
from ._graphs.graph import Builder, Graph
from ._graphs.hierarchy import Hierarchy
from ._graphs.looking import Coverage, Page, Row
from ._graphs.program import TREE_DOWN, TREE_UP, Edge, End, Program
from ._graphs.registry import Variant, elsewhere as _elsewhere, variants
from ._graphs.routed import ChosenHierarchy
from ._graphs.spec import PlansInfo, built as _built, with_settings as _with_settings, plans_clear, plans_info
from ._graphs.variants import concatenated

__version__ = _version()


def build(words: str, n_tokens: int, **settings: Any) -> Hierarchy:
    """A variant in words: ``hga.build("bpt k=4 causal", 4096)``. What words can say, keywords can, too:
    ``hga.build("bpt", 4096, k=4, causal=True)``; None is left out."""
    if not isinstance(words, str):
        raise _refuse_type(f"words are {words!r}, not a text such as 'bpt k=4 causal=1'")
    return _built(_with_settings(words, settings), n_tokens)


def read(path: str) -> Hierarchy:
    """A graph with its program, as ``Hierarchy.write`` or the tool wrote it."""
    graph, program = _ffi.new("hga_graph **"), _ffi.new("hga_program *")
    _check(_lib.hga_program_read_file(_ffi.NULL, _encoded_path(path), graph, program))
    return Hierarchy(Graph(graph[0]), program, _path_of(path))


def isa_list() -> str:
    """Instruction sets that run here."""
    return str(_ffi.string(_lib.hga_isa_list()).decode())


__all__ = [  # in the reference's order
    "Hierarchy", "ChosenHierarchy", "Decoder", "Cache", "Graph", "Builder", "Program", "Edge", "End", "Coverage", "Row", "Page", "Candidates", "PlansInfo", "Variant", "Error",
    "build", "read", "concatenated", "choose", "variants", "isa_list", "plans_info", "plans_clear", "include_dir", "library", "cmake_dir", "TREE_DOWN", "TREE_UP",
]  # fmt: skip

__all__ += _functions.__all__


def __dir__() -> List[str]:
    return [*__all__, *_PACKAGES, "__version__"]


if TYPE_CHECKING:
    from . import jax as jax, onnx as onnx, torch as torch, transformers as transformers
else:
    # Hidden from type checkers, which would take every name for known.

    def __getattr__(name):
        if name in _PACKAGES:
            return _later(name)
        raise AttributeError(f"module 'hga' has no attribute {name!r}{_elsewhere(name) or _meant(name, __all__)}")
