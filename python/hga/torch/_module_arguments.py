"""What modules of torch take, checked: numbers of heads and columns, names, rows, and lengths."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from .._core.arguments import whole
from .._graphs.by_content import ByContent
from .._core.values import number, refuse, refuse_type
from .._graphs.hierarchy import Hierarchy
from ._compiled import Made
from ._nested import refuse_nested

Tensor = torch.Tensor


def heads_of(width: Any, heads: Any, kv_heads: Any, names: Tuple[str, str] = ("width", "heads")) -> int:
    """Key and value heads; refused where numbers are none, or do not divide."""
    width, heads = (whole(x, name, least=1) for x, name in zip((width, heads), names))
    shared: int = heads if kv_heads is None else whole(kv_heads, "kv_heads", least=1)
    if width % heads:
        raise refuse(f"{heads} heads do not divide {names[0]} {width}")
    if heads % shared:
        raise refuse(f"{shared} kv_heads do not divide {heads} heads")
    return shared


def dropout_of(dropout: Any) -> float:
    found = 0.0 if dropout is None else number(dropout, "dropout")
    if not 0 <= found < 1:
        raise refuse(f"dropout is {dropout!r}, not at least 0 and less than 1")
    return found


def check_spec(spec: Any) -> None:
    if not isinstance(spec, (str, Hierarchy, Made, ByContent)):
        raise refuse_type(f"spec is {spec!r}, neither a name such as 'htransformer:block=16' nor a Hierarchy")


def check_rows(x: Any, what: str, axes: str, width: int) -> None:
    """Is it what a layer takes?"""
    if not isinstance(x, torch.Tensor):
        raise refuse_type(f"{what} is a {type(x).__name__}, not a tensor")
    refuse_nested(x, what, "this layer")
    if x.dim() != 3 or x.shape[-1] != width:
        raise refuse(f"{what} has shape {tuple(x.shape)}, not [batch, {axes}, {width}]")


def tokens_of(x: Tensor, lengths: Any) -> Tensor:
    """[batch, tokens] of tokens that are there: the first ``lengths`` of each sample."""
    batch, tokens = x.shape[:2]
    counts = torch.as_tensor(lengths)
    if tuple(counts.shape) != (batch,) or counts.is_floating_point() or counts.is_complex() or counts.dtype == torch.bool:
        raise refuse(f"lengths are {lengths!r}: {batch} whole numbers are needed, one for each sample")
    if not torch.compiler.is_compiling() and batch and not 0 <= int(counts.min()) <= int(counts.max()) <= tokens:
        raise refuse(f"lengths are {counts.tolist()}, not from 0 to {tokens}")
    return torch.arange(tokens) < counts[:, None]
