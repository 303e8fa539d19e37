"""Attention of tensors, and which way it goes: by C alone, by torch's operator, or as a hierarchy that is made inside torch.compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

import torch

from . import _eager as eager
from .._core.arguments import flag, number, whole
from .._core.normalisers import normalised, spelt
from .._core.releases import in_forward_mode
from .._core.tables import INPUTS, as_returned, check_names, features_of, takes_tables
from .._core.library import refuse
from .._graphs.hierarchy import Hierarchy
from .._graphs.calls import How, how_of
from ._by_operator import Operation, inputs_of
from ._compiled import Made, attention as made_attention
from ._one_pass import wanted, whole as as_one_pass
from ._operators import flattened, has_tangent, query, refuse_forward, signed, tables_of, traced_seed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._core.keywords import CallTables


@takes_tables()
def attention(h: Hierarchy, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, normaliser: Optional[str] = None,
              normalizer: Optional[str] = None, dropout: float = 0.0, seed: int = 0, layer: int = 0, precision: str = "auto",
              threads: int = 0, isa: Optional[str] = None, **tables: Unpack[CallTables]) -> Any:  # fmt: skip
    """Hierarchy.attention for tensors, with gradients of q, k, v and of every table that requires one."""
    if tables:
        check_names(attention, tables)
    lse, words = lse if type(lse) is bool else flag(False if lse is None else lse, "lse"), spelt(normaliser, normalizer)
    return of_tensors(h, q, k, v, tables, how_of(layout, dropout, seed, layer, precision, threads, isa), lse, words)


def of_tensors(h: Hierarchy, q: Any, k: Any, v: Any, tables: Mapping[str, Any], how: How, lse: bool, words: Optional[str]) -> Any:
    """The same of what was looked at: words are a normaliser's."""
    layout, dropout, seed, layer, precision, threads, isa = how
    compiling = torch.compiler.is_compiling()
    later = compiling and (isinstance(h, Made) or isinstance(seed, torch.Tensor))
    if later or h._in_order is not None:
        more: Dict[str, Any] = dict(layout=layout, lse=lse, normaliser=words, dropout=dropout, seed=seed, layer=layer,
                                    precision=precision, threads=threads, isa=isa, **tables)  # fmt: skip
        if not later:
            return h.attention(q, k, v, **more)
        return made_attention(h, query(q, "query"), query(k, "key"), query(v, "value"), more)
    h = h if compiling or words is None else normalised(h, words)
    if not compiling and not eager.watched() and h._reads_heads(k, layout):
        if torch.is_autocast_enabled("cpu"):
            q, k, v = query(q, "query"), query(k, "key"), query(v, "value")
        if eager.is_plain(q) and eager.is_plain(k) and eager.is_plain(v):
            if not tables:
                return eager.attention(h, q, k, v, tables, how, lse)
            by_name = tables_of(tables)
            if eager.are_plain(by_name):
                found = eager.attention(h, q, k, v, by_name, how, lse)
                out, lses = found if lse else (found, None)
                return as_returned(out, lses, lse, features_of(tables))
    its = flattened(tables_of(tables))
    tensors = [*(query(x, n) for x, n in zip((q, k, v), INPUTS)), *its.tables]
    if len({x.device for x in tensors}) > 1:
        raise refuse("some tensors are on meta, others are not")
    if compiling:
        seed = traced_seed(seed)
    else:
        if in_forward_mode() and any(has_tangent(x) for x in tensors):
            refuse_forward(None)
        dropout = number(dropout, "dropout")
        seed, layer = signed(whole(seed, "seed", beyond=2**64)), whole(layer, "layer", beyond=2**24)
    how = layout, dropout, seed, layer, precision, threads, isa
    inputs = inputs_of(h, how, lse, tensors, its.names, its.numbers, words if compiling else None)
    wants = wanted([torch.is_grad_enabled() and x.requires_grad for x in tensors])
    if compiling or not ("g" in wants or eager.transforms_active()):
        out, lses = as_one_pass("hierarchy", inputs)
    else:
        out, lses, _ = Operation(h, inputs._replace(tensors=(), wants=wants), lse).attended(*tensors)
    return as_returned(out, lses, lse, features_of(tables))
