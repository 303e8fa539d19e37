"""Masks that modules take as torch's do: True hides, and numbers are added to scores, of which -inf hides."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import torch

from .._core.values import Error, refuse, refuse_layout, refuse_type
from ._documents import HIDDEN
from .._graphs.spec import hierarchy_of, spec_of

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


class Padding(NamedTuple):
    """[batch, tokens]: which tokens are there, and what is added to the scores of each as a key."""

    seen: Tensor
    added: Optional_


def check_mask(mask: Any, what: str, like: Tensor, shapes: Sequence[Tuple[int, ...]]) -> None:
    if not isinstance(mask, torch.Tensor):
        raise refuse_type(f"{what} is a {type(mask).__name__}, not a tensor")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise refuse_type(f"{what} holds {mask.dtype}, neither truth values, of which True hides, nor numbers that are added to scores: "
                          f"{what}.bool() hides where it is not 0")  # fmt: skip
    if mask.is_nested or mask.layout != torch.strided:
        raise refuse_layout(mask, what)
    if tuple(mask.shape) not in shapes:
        raise refuse(f"{what} has shape {tuple(mask.shape)}, not " + " or ".join(str(list(shape)) for shape in shapes))
    if mask.device != like.device:
        raise refuse(f"{what} is on {mask.device}, the rows are on {like.device}")


def padding_of(mask: Tensor) -> Padding:
    """What a key_padding_mask says. Numbers are looked at."""
    if mask.dtype == torch.bool:
        return Padding(~mask, None)
    hidden = mask <= HIDDEN
    added = mask.masked_fill(hidden, 0)
    wrong = ~added.isfinite()
    if bool(wrong.any()):
        b, token = wrong.nonzero()[0].tolist()
        raise refuse(f"key_padding_mask adds {added[b, token]:g} to the scores of token {token} of sample {b}: numbers are finite, or -inf, which hides")
    learned = torch.is_grad_enabled() and mask.requires_grad
    return Padding(~hidden, added if mask.numel() and (learned or bool((added != 0).any())) else None)


def with_key_bias(words: str, q: Tensor, k: Tensor, added: Tensor, causal: bool, tables: Dict[str, Any]) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
    """[batch, heads, tokens, dim] with a column more, whose product is what is added to a key's scores."""
    _require_tokens(words, added, causal)
    batch, heads, tokens, dim = q.shape
    scale = dim**-0.5
    column = (added / scale).to(k.dtype)[:, None, :, None].expand(batch, k.shape[1], tokens, 1)
    more = {**tables, "scale": scale}
    if more.get("rel_key") is not None:
        more["rel_key"] = torch.nn.functional.pad(more["rel_key"], (0, 1))
    return torch.cat([q, q.new_ones(batch, heads, tokens, 1)], -1), torch.cat([k, column], -1), more


def _require_tokens(words: str, added: Tensor, causal: bool) -> None:
    """Is every key a token?"""
    chooses = spec_of(words).chooses
    if not chooses and len(hierarchy_of(words, added.shape[1], causal).graph.level_sizes) == 1:
        return
    does = "chooses keys by their rows" if chooses else "attends to means of tokens"
    b, token = (added != 0).nonzero()[0].tolist() if bool((added != 0).any()) else (0, 0)
    raise refuse(f"key_padding_mask adds {added[b, token]:g} to the scores of token {token} of sample {b}, and {words} {does}, of which no number is "
                 "known: say who is hidden by True or -inf, or name what attends to tokens alone, such as 'dense' or 'window:left=8'")  # fmt: skip


def by_name(error: Error, names: Sequence[str]) -> Error:
    """What was found in a mask, under the names that the caller gave it by."""
    said = " and ".join(names)
    return error if not names or any(name in error.detail for name in names) else type(error)(error.status, f"{said}: {error.detail}")
