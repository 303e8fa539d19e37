"""What models of transformers ask of their attention beside queries, keys, values, a mask and a scale."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from .._core.values import refuse

# What hga's does not do: what it is, in words.
REFUSED = {
    "position_bias": "adds a bias by relative position to the scores",
    "sinks": "gives the softmax a sink",
    "indices": "picks keys for every query",
    "block_indices": "picks blocks of keys for every query",
    "head_mask": "scales heads by a mask",
    "layer_head_mask": "scales heads by a mask",
    "cache": "keeps keys in pages",
}


def refuse_besides(what: str, more: Mapping[str, Any]) -> None:
    for keyword, does in REFUSED.items():
        if more.get(keyword) is not None:
            raise refuse(f"{what}: it {does} ({keyword})")


def tables_of(more: Mapping[str, Any]) -> Dict[str, Any]:
    """The tables of ``Hierarchy.attention`` that say it: of Gemma 2, and of GPT-OSS."""
    return {"softcap": more.get("softcap"), "sink": more.get("s_aux")}
