"""What modules of torch have in common: their arguments, checked, projections to heads, masks as torch has them (True hides, and
numbers are added to scores, of which -inf hides), and nested tensors, whose samples have lengths of their own."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, cast

import torch

from .._core.arguments import number, whole
from .._core.normalisers import normaliser_of, spelt
from .._core.library import Error, refuse, refuse_type
from .._core.arrays import refuse_layout
from .._graphs.hierarchy import Hierarchy
from .._graphs.spec import hierarchy_of, spec_of
from ._documents import HIDDEN
from ._one_pass import drawn

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


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


def normaliser_in(normaliser: Optional[str], normalizer: Optional[str]) -> Optional[str]:
    """The one that is given, in either spelling."""
    words = spelt(normaliser, normalizer)
    if words is not None:
        normaliser_of(words)
    return words


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


# ---- heads ----


def drop_of(module: Any) -> float:
    """Dropout is training's alone."""
    return cast(float, module.dropout) if module.training else 0.0


def attended(module: Any, h: Hierarchy, q: Tensor, k: Tensor, v: Tensor, layout: str = "bnhd", **more: Any) -> Any:
    """A call by a module, with its dropout."""
    drop = drop_of(module)
    return h.attention(q, k, v, layout=layout, dropout=drop, seed=drawn(drop), **more)


class Projected(torch.nn.Module):
    """Rows [batch, rows, width] that are projected to queries, keys and values of several heads, and back. cross: the width of a
    second text's rows, which keys and values are of."""

    memory: Optional[torch.nn.Linear]

    def __init__(self, width: int, heads: int, kv_heads: Optional[int], bias: bool, dropout: float, cross: Optional[int] = None) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dropout = heads, heads_of(width, heads, kv_heads), dropout_of(dropout)
        dim, both = width // heads, 2 * self.kv_heads
        self.project = torch.nn.Linear(width, (heads if cross is not None else heads + both) * dim, bias=bias)
        if cross is not None:
            self.memory = torch.nn.Linear(cross, both * dim, bias=bias)
        self.out = torch.nn.Linear(width, width, bias=bias)

    def _split(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, [batch, rows, heads, dim]."""
        heads = self.project(x).view(*x.shape[:-1], self.heads + 2 * self.kv_heads, x.shape[-1] // self.heads)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), 2)
        return q, k, v

    def _joined(self, y: Tensor, like: Tensor) -> Tensor:
        return cast(Tensor, self.out(y.reshape(like.shape)))

    def _heads_in_words(self) -> str:
        return f"heads={self.heads}" + (f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else "")


# ---- masks ----


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


def padding_of(mask: Tensor) -> Tuple[Tensor, Optional_]:
    """What a key_padding_mask [batch, tokens] says: which tokens are there, and what is added to the scores of each as a key.
    Numbers are looked at."""
    if mask.dtype == torch.bool:
        return ~mask, None
    hidden = mask <= HIDDEN
    added = mask.masked_fill(hidden, 0)
    wrong = ~added.isfinite()
    if bool(wrong.any()):
        b, token = wrong.nonzero()[0].tolist()
        raise refuse(f"key_padding_mask adds {added[b, token]:g} to the scores of token {token} of sample {b}: numbers are finite, or -inf, which hides")
    learned = torch.is_grad_enabled() and mask.requires_grad
    return ~hidden, added if mask.numel() and (learned or bool((added != 0).any())) else None


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


# ---- nested tensors ----


def is_nested(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and bool(x.is_nested)


def refuse_nested(x: Any, what: str, who: str) -> None:
    """By who takes samples of one length."""
    if is_nested(x):
        raise refuse(f"{what} is a nested tensor, and {who} takes samples of one length: {what}.to_padded_tensor(0), or sample by sample")


def rows_of(x: Tensor, what: str, width: int) -> Tuple[Tensor, Tensor]:
    """The rows of all samples, [samples, rows of each, width], as those of one, [1, rows, width], and where each sample begins and
    the last ends."""
    if x.layout == torch.jagged:
        jagged: Any = x
        if x.dim() != 3 or x.shape[-1] != width:
            raise refuse(f"{what} has shape {tuple(x.shape)}, not [batch, tokens, {width}]")
        if jagged._ragged_idx != 1 or jagged.lengths() is not None:
            raise refuse(f"{what} is nested with holes between its samples, or transposed: give {what}.contiguous()")
        return jagged.values()[None], jagged.offsets()
    each = list(x.unbind())
    for i, one in enumerate(each):
        if one.dim() != 2 or one.shape[-1] != width:
            raise refuse(f"{what} is nested, and sample {i} has shape {tuple(one.shape)}, not [tokens, {width}]")
    if not each:
        raise refuse(f"{what} is nested, and has no sample")
    return torch.cat(each)[None], torch.tensor([0, *map(len, each)]).cumsum(0)


def nested_like(y: Tensor, x: Tensor, offsets: Tensor) -> Tensor:
    """[1, rows, width] with the samples of x, so that both can be added."""
    if x.layout == torch.jagged:
        jagged: Any = x
        least, most = (getattr(jagged, name, None) for name in ("_maybe_min_seqlen", "_maybe_max_seqlen"))  # where torch knows them: from 2.6 on
        found: Tensor = torch.nested.nested_tensor_from_jagged(y[0], offsets, min_seqlen=least, max_seqlen=most)
        return found
    return torch.nested.as_nested_tensor(list(torch.split(y[0], offsets.diff().tolist())), layout=torch.strided)
