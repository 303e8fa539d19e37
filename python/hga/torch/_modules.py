"""Modules of torch: layers of attention with their projections and what else of them is learned."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple, Union, cast

import torch

from .._core.arguments import answering, flag, whole
from .._core.deferred import deferred
from .._core.normalisers import SOFTMAX
from .._core.library import lib, refuse, refuse_type
from .._graphs.by_content import ByContent
from .._graphs.hierarchy import Hierarchy
from .._graphs.registry import variants
from .._graphs.spec import hierarchy_of, spec_of
from .._graphs.variants import make
from ._compiled import Made, known, positioned, siblings
from ._module_arguments import (
    Projected, attended, check_mask, check_rows, drop_of, dropout_of, heads_of, is_nested, nested_like, normaliser_in,
    refuse_nested, rows_of, tokens_of,
)  # fmt: skip
from ._padded import masked

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


def _types(h: Hierarchy) -> int:
    """How many types edges have."""
    return max(int(lib.hga_graph_relation(h.graph._g, r).n_types) for r in range(len(h.graph.relations)))


class Attention(Projected):
    """Multi-head attention: [batch, tokens, width] in and out. ``spec`` is a Hierarchy, or names one for any number of
    tokens, "htransformer:block=16"; those of the last lengths are cached. kv_heads: key and value heads, fewer than heads where
    several query heads share one. Dropout draws a new seed a call while training.

    Samples of several lengths, of one ``spec`` that is a name: ``layer(x, lengths=[30, 60])``, or torch's key_padding_mask
    [batch, tokens], in which True hides. Each sample attends by the hierarchy of its own length, and rows of padding see nothing.

    cross: queries are the first argument's rows, keys and values those of the second, of width ``cross``.
    relative_keys, relative_bias: a key [types][dim], and a bias [types][heads], for every type of edge are learned (rel_key,
    rel_bias); positions: so many columns of position embeddings, one for every child of a family (node_pos). With a name
    these need ``tokens``, the longest length, which tells how many there are. normaliser: "entmax:1.5" and the like, as
    ``Hierarchy.attention`` has it."""

    @answering
    def __init__(self, spec: Union[str, Hierarchy], width: int, heads: int, bias: bool = True, dropout: float = 0.0, *,
                 causal: bool = False, kv_heads: Optional[int] = None, cross: Optional[int] = None, relative_keys: bool = False,
                 relative_bias: bool = False, positions: int = 0, tokens: Optional[int] = None,
                 normaliser: Optional[str] = None, normalizer: Optional[str] = None) -> None:  # fmt: skip
        if not isinstance(spec, (str, Hierarchy, Made, ByContent)):
            raise refuse_type(f"spec is {spec!r}, neither a name such as 'htransformer:block=16' nor a Hierarchy: the order is spec, width, heads")
        super().__init__(width, heads, kv_heads, bias, dropout, cross)
        self.normaliser = normaliser_in(normaliser, normalizer)
        self.causal, self.tokens, self.cross = flag(causal, "causal"), tokens, cross
        self.spec: Optional[str] = None
        self.hierarchy: Optional[Hierarchy] = None
        if isinstance(spec, str):
            self.spec = spec
            if self.normaliser == SOFTMAX:
                self.normaliser = None  # names have it by themselves
            if self.causal:
                spec_of(spec).require_causal()
            if cross is not None:
                spec_of(spec).require_cross()
            spec_of(spec).require_tokens()
        else:
            self.hierarchy = spec
            if self.causal and not spec.is_causal():
                raise refuse(f"{spec!r} is not causal: build it with causal=True")
        if cross is None:
            self.memory = None
        elif self.causal:
            raise refuse("cross-attention has no later tokens: causal=True goes with self-attention")
        self._add_tables(width // heads, relative_keys, relative_bias, positions)

    def _add_tables(self, dim: int, relative_keys: bool, relative_bias: bool, positions: int) -> None:
        self.rel_key: Optional_ = None
        self.rel_bias: Optional_ = None
        self.position: Optional_ = None
        if not (relative_keys or relative_bias or positions):
            return
        longest = self.hierarchy
        if longest is None:
            if self.tokens is None:
                raise refuse(f"{self.spec}: relative keys, biases and positions need tokens=, the longest length")
            longest = self._named(whole(self.tokens, "tokens", least=1), self.tokens)
        if relative_keys:
            self.rel_key = torch.nn.Parameter(torch.empty(_types(longest), dim).normal_(std=0.02))
        if relative_bias:
            self.rel_bias = torch.nn.Parameter(torch.zeros(_types(longest), self.heads))
        if positions:
            children = int(siblings(longest).max()) + 1
            self.position = torch.nn.Parameter(torch.empty(children, positions).normal_(std=0.1))

    def _named(self, tokens: int, keys: int) -> Hierarchy:
        return hierarchy_of(cast(str, self.spec), tokens, self.causal, keys if self.cross is not None else None)

    def _with_positions(self, tokens: int, keys: int) -> Tuple[Hierarchy, Optional_]:
        """The hierarchy, and its node_pos."""
        h = self.hierarchy if self.hierarchy is not None else self._named(tokens, keys)
        if self.position is None:
            return h, None
        if not torch.compiler.is_compiling():
            return h, positioned(h, self.position)
        later = h if isinstance(h, Made) else known(h)
        later.positions = self.position
        return cast(Hierarchy, later), None

    def _project(self, x: Tensor, memory: Optional_) -> Tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, [batch, tokens, heads, dim]."""
        if self.memory is None:
            if memory is not None:
                raise refuse("a second text goes with cross=, its width")
            return self._split(x)
        if memory is None:
            raise refuse("cross-attention needs the second text, which keys and values are of")
        dim = x.shape[-1] // self.heads
        k, v = self.memory(memory).view(*memory.shape[:2], 2, self.kv_heads, dim).unbind(2)
        return self.project(x).view(*x.shape[:2], self.heads, dim), k, v

    def _refuse_padding(self, what: str = "lengths and key_padding_mask") -> None:
        """What takes samples of one length alone."""
        go, do = ("goes", "does") if what.startswith("a ") else ("go", "do")
        if self.spec is None:
            raise refuse(f"{what} {go} with a name, such as 'htransformer:block=16': a Hierarchy has one length")
        for there, other in ((self.memory, "cross-attention"), (self.position, "positions"), (self.normaliser, "a normaliser")):
            if there is not None:
                raise refuse(f"{what} {do} not go with {other}: give samples of one length")

    def extra_repr(self) -> str:
        own = repr(self.spec if self.spec is not None else self.hierarchy)
        return f"{own}, {self._heads_in_words()}" + (", causal=True" if self.causal else "")

    def forward(self, x: Tensor, memory: Optional_ = None, *, lengths: Any = None, key_padding_mask: Optional_ = None) -> Tensor:
        if is_nested(x):
            return self._of_nested(x, memory, lengths, key_padding_mask)
        check_rows(x, "x", "tokens", self.out.in_features)
        if memory is not None and self.cross is not None:
            check_rows(memory, "memory", "tokens", self.cross)
        hidden = self._hidden(x, lengths, key_padding_mask)
        q, k, v = self._project(x, memory)
        if hidden is not None or self._is_by_name():
            y = self._by_name(q, k, v, padding=hidden)
        else:
            h, node_pos = self._with_positions(x.shape[1], k.shape[1])
            y = attended(self, h, q, k, v, rel_key=self.rel_key, rel_bias=self.rel_bias, node_pos=node_pos, normaliser=self.normaliser)
        return self._joined(y, x)

    def _hidden(self, x: Tensor, lengths: Any, key_padding_mask: Optional_) -> Optional_:
        """The padding of samples, as torch says it."""
        if lengths is None and key_padding_mask is None:
            return None
        if lengths is not None and key_padding_mask is not None:
            raise refuse("lengths and key_padding_mask are given: one of them is enough")
        self._refuse_padding()
        if key_padding_mask is None:
            return ~tokens_of(x, lengths)
        check_mask(key_padding_mask, "key_padding_mask", x, [tuple(x.shape[:2])])
        return key_padding_mask

    def _is_by_name(self) -> bool:
        """May samples have several lengths, and are there none of the tables that documents of several lengths do not share?"""
        tables = self.rel_key is not None or self.rel_bias is not None or self.position is not None
        return self.spec is not None and self.memory is None and not tables and self.normaliser is None

    def _by_name(self, q: Tensor, k: Tensor, v: Tensor, padding: Optional_ = None, offsets: Optional_ = None) -> Tensor:
        learned: Dict[str, Any] = {n: t for n, t in (("rel_key", self.rel_key), ("rel_bias", self.rel_bias)) if t is not None}
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return masked(cast(str, self.spec), q, k, v, padding, None, offsets, self.causal, drop_of(self), learned)

    def _of_nested(self, x: Tensor, memory: Optional_, lengths: Any, key_padding_mask: Optional_) -> Tensor:
        if lengths is not None or key_padding_mask is not None:
            raise refuse("x is a nested tensor, whose samples have lengths: lengths and key_padding_mask go with padding")
        self._refuse_padding("a nested x")
        rows, offsets = rows_of(x, "x", self.out.in_features)
        y = self._by_name(*self._project(rows, memory), offsets=offsets)
        return nested_like(self._joined(y, rows), x, offsets)


# ---- BP-Transformer: rows are nodes ----


@deferred
@lru_cache(maxsize=64)
def _bpt(n: int, k: int, clip: int, rule: str, causal: bool) -> Hierarchy:
    return cast(Hierarchy, make(variants()["bpt"], n, {"k": k, "clip": clip, "rule": rule, "causal": causal}))


def _nodes_of(tokens: int) -> int:
    """Tokens, and spans of two, of four and so on."""
    nodes = tokens
    while tokens > 1:
        tokens = (tokens + 1) // 2
        nodes += tokens
    return nodes


def _tokens_of(nodes: int) -> int:
    tokens = (nodes + 1) // 2
    while tokens > 0 and _nodes_of(tokens) > nodes:
        tokens -= 1
    if tokens < 1 or _nodes_of(tokens) != nodes:
        raise refuse(f"{nodes} rows: no number of tokens has a tree of so many nodes; NodeRows makes them of tokens' rows")
    return tokens


class NodeRows(torch.nn.Module):
    """BP-Transformer's rows: [batch, tokens, width] in, [batch, nodes, width] out, tokens first, then the spans of two, of
    four and so on, the root last. A span begins as ``spans`` says: "mean" of its tokens, or "zero" as in the paper.
    ``tokens`` and ``root`` read the rows of a layer's output."""

    @answering
    def __init__(self, spans: str = "mean") -> None:
        super().__init__()
        if spans not in ("mean", "zero"):
            raise refuse(f"spans is {spans!r}, neither 'mean' nor 'zero'")
        self.spans = spans

    def forward(self, x: Tensor) -> Tensor:
        refuse_nested(x, "x", "NodeRows")
        # Whose mean is of one row alone depends on the length: for torch.compile it is a constant, whose program is made sooner.
        tokens = x.shape[-2] if self.spans == "zero" else operator.index(x.shape[-2])
        nodes = _nodes_of(tokens)
        if nodes < 1:
            raise refuse(f"x has shape {tuple(x.shape)}: [.., tokens, width] with at least one token is needed")
        if self.spans == "zero":
            return torch.cat([x, x.new_zeros(*x.shape[:-2], nodes - tokens, x.shape[-1])], -2)
        levels, mass = [x], x.new_ones(tokens, 1)
        while len(mass) > 1:
            sums, mass = self._halved(levels[-1] * mass), self._halved(mass)
            levels.append(sums / mass)
        return torch.cat(levels, -2)

    @staticmethod
    def _halved(x: Tensor) -> Tensor:
        """Sums of pairs of rows; the last may be alone."""
        n = x.shape[-2] // 2 * 2
        pairs = x[..., 0:n:2, :] + x[..., 1:n:2, :]
        return torch.cat([pairs, x[..., n:, :]], -2) if n < x.shape[-2] else pairs

    @staticmethod
    def tokens(x: Tensor) -> Tensor:
        """The tokens' rows of rows that are nodes: a view."""
        return x[..., : _tokens_of(x.shape[-2]), :]

    @staticmethod
    def root(x: Tensor) -> Tensor:
        """The root's row, [batch, width]: what BP-Transformer classifies a text by."""
        return x[..., -1, :]


class BPT(Projected):
    """BP-Transformer's self-attention: [batch, nodes, width] in and out, rows as ``NodeRows`` makes them. k, clip, rule and
    causal are ``hga.bpt``'s. relative_keys: a key for every type of edge, shared by the heads, is learned (equation 13)."""

    @answering
    def __init__(self, width: int, heads: int, k: int = 4, bias: bool = True, dropout: float = 0.0, *, causal: bool = False,
                 clip: int = 10, rule: str = "shifted", kv_heads: Optional[int] = None, relative_keys: bool = True) -> None:  # fmt: skip
        super().__init__(width, heads, kv_heads, bias, dropout)
        self.like = (k, clip, rule, causal)
        _bpt(2, *self.like)  # what is wrong with the parameters is said here
        self.rel_key: Optional_ = None
        if relative_keys:
            types = (2 * k + 1) * (min(clip, 31) + 1)
            self.rel_key = torch.nn.Parameter(torch.empty(types, width // heads).normal_(std=0.02))

    def extra_repr(self) -> str:
        k, clip, rule, causal = self.like
        return f"{self._heads_in_words()}, k={k}, clip={clip}, rule={rule!r}" + (", causal=True" if causal else "")

    def forward(self, x: Tensor) -> Tensor:
        check_rows(x, "x", "nodes", self.out.in_features)
        h = _bpt(_tokens_of(x.shape[1]), *self.like)
        return self._joined(attended(self, h, *self._split(x), rel_key=self.rel_key), x)


# ---- torch's own signature ----


class MultiheadAttention(torch.nn.Module):
    """torch.nn.MultiheadAttention over a hierarchy, with its arguments, its parameters and their names; ``spec`` names the
    hierarchy, "htransformer:block=16". It may stand in torch.nn.TransformerEncoderLayer for self_attn. Masks that are padding,
    documents or causal attention run; others are refused, as are weights (need_weights=True), add_bias_kv and
    add_zero_attn. Cross-attention needs a variant that can cross, and takes no mask."""

    # torch's layers leave their path in C, which would not call this module, where projections differ
    _qkv_same_embed_dim = False

    @answering
    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: Optional[int] = None, vdim: Optional[int] = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None, *, spec: str = "dense") -> None:  # fmt: skip
        super().__init__()
        for is_set, what in ((add_bias_kv, "add_bias_kv"), (add_zero_attn, "add_zero_attn")):
            if is_set:
                raise refuse(f"{what} adds a key that no hierarchy has")
        if isinstance(embed_dim, str):
            raise refuse_type(f"embed_dim is {embed_dim!r}, not a whole number: MultiheadAttention has torch's arguments, and the "
                              f"hierarchy goes by keyword, spec={embed_dim!r}")  # fmt: skip
        if not isinstance(spec, str):
            raise refuse_type(f"spec is {spec!r}, not a name such as 'htransformer:block=16'")
        heads_of(embed_dim, num_heads, None, ("embed_dim", "num_heads"))
        spec_of(spec).require_tokens()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.spec = dropout_of(dropout), batch_first, spec
        like = torch.nn.MultiheadAttention(embed_dim, num_heads, self.dropout, bias, kdim=kdim, vdim=vdim, batch_first=batch_first,
                                           device=device, dtype=dtype)  # fmt: skip
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"):
            self.register_parameter(name, getattr(like, name))
        self.out_proj = like.out_proj

    def extra_repr(self) -> str:
        return f"{self.spec!r}, embed_dim={self.embed_dim}, heads={self.num_heads}"

    def _project(self, *inputs: Tensor) -> Iterator[Tensor]:
        """Query, key and value, [batch, heads, tokens, dim]."""
        packed, bias = cast(Optional_, self.in_proj_weight), cast(Optional_, self.in_proj_bias)
        separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = cast(Sequence[Tensor], separate if packed is None else packed.chunk(3))
        biases: Sequence[Optional_] = (None,) * 3 if bias is None else bias.chunk(3)
        for x, weight, one in zip(inputs, weights, biases):
            y = torch.nn.functional.linear(x, weight, one)
            yield y.view(*y.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional_ = None, need_weights: bool = False,
        attn_mask: Optional_ = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> Tuple[Tensor, None]:  # fmt: skip
        if need_weights:
            raise refuse("need_weights=True asks for a matrix of weights that hga never has: h.weights(q, k, token) gives a row")
        if any(map(is_nested, (query, key, value))):
            return self._of_nested(query, key, value, key_padding_mask, attn_mask, is_causal), None
        flat = query.dim() == 2
        own = query is key
        if not own and not torch.compiler.is_compiling():
            own = query.shape == key.shape and query.data_ptr() == key.data_ptr()
        inputs = [query, key, value]
        if flat:
            inputs = [x[None] for x in inputs]
        elif not self.batch_first:
            inputs = [x.transpose(0, 1) for x in inputs]
        q, k, v = self._project(*inputs)
        if own:
            padding, pairs = self._masks(q, flat, key_padding_mask, attn_mask)
            y = masked(self.spec, q, k, v, padding, pairs, None, is_causal, drop_of(self), {})
        else:
            y = self._cross(q, k, v, {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask, "is_causal": is_causal or None})
        y = self.out_proj(y.reshape(y.shape[0], y.shape[1], self.embed_dim))
        return (y[0] if flat else y if self.batch_first else y.transpose(0, 1)), None

    def _masks(self, q: Tensor, flat: bool, padding: Optional_, pairs: Optional_) -> Tuple[Optional_, Optional_]:
        """[batch, tokens] and [batch or 1, heads or 1, tokens, tokens]."""
        batch, heads, tokens, _ = q.shape
        if padding is not None:
            check_mask(padding, "key_padding_mask", q, [(tokens,)] if flat else [(batch, tokens)])
            padding = padding[None] if flat else padding
        if pairs is not None:
            check_mask(pairs, "attn_mask", q, [(tokens, tokens), (batch * heads, tokens, tokens)])
            pairs = pairs[None, None] if pairs.dim() == 2 else pairs.view(batch, heads, tokens, tokens)
        return padding, pairs

    def _cross(self, q: Tensor, k: Tensor, v: Tensor, masks: Dict[str, Any]) -> Tensor:
        for name, mask in masks.items():
            if mask is not None:
                raise refuse(f"{self.spec}: {name} of cross-attention is not understood: hga.Graph.from_mask(mask, cross=True).hierarchy() attends "
                             "where a mask of [queries][keys] is true")  # fmt: skip
        h = hierarchy_of(self.spec, q.shape[2], False, k.shape[2])
        return cast(Tensor, attended(self, h, q, k, v, layout="bhnd")).transpose(1, 2)

    def _of_nested(self, query: Tensor, key: Tensor, value: Tensor, padding: Optional_, pairs: Optional_, is_causal: bool) -> Tensor:
        """Of torch.nn.TransformerEncoder in evaluation, which leaves padding out."""
        if not (query is key is value) or not self.batch_first:
            raise refuse("nested tensors: query, key and value are the same one, and batch_first=True, since samples come first")
        for name, mask in (("key_padding_mask", padding), ("attn_mask", pairs)):
            if mask is not None:
                raise refuse(f"query is a nested tensor, whose samples have lengths: {name} goes with samples of one length")
        rows, offsets = rows_of(query, "query", self.embed_dim)
        q, k, v = self._project(rows, rows, rows)
        y = masked(self.spec, q, k, v, None, None, offsets, is_causal, drop_of(self), {})
        return nested_like(self.out_proj(y.reshape(rows.shape)), query, offsets)
