"""Modules of torch: layers of attention with their projections and what else of them is learned."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple, Union, cast

import numpy as np
import torch

from ._arguments import flag, whole
from ._core import check, ffi, lib, refuse, refuse_type
from ._deferred import deferred
from ._documents import numbered
from ._graph import Graph
from ._hierarchy import Hierarchy
from ._made import Made, known
from ._module_arguments import check_rows, check_spec, dropout_of, heads_of, tokens_seen
from ._normalisers import SOFTMAX, normaliser_of, spelt
from ._ragged import attend
from ._registry import variants
from ._spec import hierarchy_of, spec_of
from ._variants import make
from ._one_pass import PASSES, Given, Outputs, Pass, drawn, whole as as_a_whole

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


# ---- what a hierarchy has to be learned ----


def _types(h: Hierarchy) -> int:
    """How many types edges have."""
    g = h.graph._g
    return max(int(lib.hga_graph_relation(g, r).n_types) for r in range(len(h.graph.relations)))


def _places(h: Hierarchy) -> Tensor:
    """[nodes]: which child of its family each node is, in the order that node_pos has; roots are 0."""
    parent = h.graph.parents()
    order = np.argsort(parent, kind="stable")
    grouped = parent[order]
    begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    place = np.empty(len(parent), np.int64)
    place[order] = np.arange(len(parent)) - np.repeat(begins, np.diff(np.r_[begins, len(parent)]))
    place[parent < 0] = 0
    return torch.from_numpy(place if h._node_of is None else place[h._node_of])


def positioned(h: Hierarchy, position: Tensor) -> Tensor:
    """node_pos: for every node the row of its place."""
    place = _places(h)
    if int(place.max()) >= len(position):
        raise refuse(f"{h.words}: a family has {int(place.max()) + 1} children, positions were made for {len(position)}")
    return position[place]


class Attention(torch.nn.Module):
    """Multi-head attention: [batch, tokens, width] in and out. ``spec`` is a Hierarchy, or names one for any number of
    tokens, "htransformer:block=16"; those of the last lengths are kept. kv_heads: key and value heads, fewer than heads where
    several query heads share one. Dropout draws a new seed a call while training.

    Samples of several lengths, of one ``spec`` that is a name: ``layer(x, lengths=[30, 60])``, or torch's key_padding_mask
    [batch, tokens], in which True hides. Each sample attends by the hierarchy of its own length, and rows of padding see nothing.

    cross: queries are the first argument's rows, keys and values those of the second, of width ``cross``.
    relative_keys, relative_bias: a key [types][dim], and a bias [types][heads], for every type of edge are learned (rel_key,
    rel_bias); positions: so many columns of position embeddings, one for every place in a family (node_pos). With a name
    these need ``tokens``, the longest length, which tells how many there are. normaliser: "entmax:1.5" and the like, as
    ``Hierarchy.attention`` has it."""

    def __init__(self, spec: Union[str, Hierarchy], width: int, heads: int, bias: bool = True, dropout: float = 0.0, *,
                 causal: bool = False, kv_heads: Optional[int] = None, cross: Optional[int] = None, relative_keys: bool = False,
                 relative_bias: bool = False, positions: int = 0, tokens: Optional[int] = None,
                 normaliser: Optional[str] = None, normalizer: Optional[str] = None) -> None:  # fmt: skip
        super().__init__()
        check_spec(spec)
        dropout, causal = dropout_of(dropout), flag(causal, "causal")
        self.normaliser = spelt(normaliser, normalizer)
        if self.normaliser is not None:
            normaliser_of(self.normaliser)
        if isinstance(spec, str) and self.normaliser == SOFTMAX:
            self.normaliser = None  # names have it by themselves
        kv_heads = heads_of(width, heads, kv_heads)
        self.spec: Optional[str] = None
        self.hierarchy: Optional[Hierarchy] = None
        if isinstance(spec, str):
            self.spec = spec
            if causal:
                spec_of(spec).require_causal()
            if cross is not None:
                spec_of(spec).require_cross()
            spec_of(spec).require_tokens()
        else:
            self.hierarchy = spec
            if causal and not spec.is_causal():
                raise refuse(f"{spec!r} is not causal: build it with causal=True")
        if causal and cross is not None:
            raise refuse("cross-attention has no later tokens: causal=True goes with self-attention")
        self.heads, self.kv_heads, self.causal, self.dropout = heads, kv_heads, causal, dropout
        self.tokens, self.cross = tokens, cross
        dim = width // heads
        own = heads if cross is not None else heads + 2 * kv_heads
        self.project = torch.nn.Linear(width, own * dim, bias=bias)
        self.memory = torch.nn.Linear(cross, 2 * kv_heads * dim, bias=bias) if cross is not None else None
        self.out = torch.nn.Linear(width, width, bias=bias)
        self._add_tables(dim, relative_keys, relative_bias, positions)

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
            places = int(_places(longest).max()) + 1
            self.position = torch.nn.Parameter(torch.empty(places, positions).normal_(std=0.1))

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
        batch, tokens, width = x.shape
        dim = width // self.heads
        if self.memory is None:
            if memory is not None:
                raise refuse("a second text goes with cross=, its width")
            heads = self.project(x).view(batch, tokens, self.heads + 2 * self.kv_heads, dim)
            q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), 2)
            return q, k, v
        if memory is None:
            raise refuse("cross-attention needs the second text, which keys and values are of")
        k, v = self.memory(memory).view(batch, memory.shape[1], 2, self.kv_heads, dim).unbind(2)
        return self.project(x).view(batch, tokens, self.heads, dim), k, v

    def _refuse_padding(self) -> None:
        """What takes samples of one length alone."""
        if self.spec is None:
            raise refuse("lengths and key_padding_mask go with a name, such as 'htransformer:block=16': a Hierarchy has one length")
        for there, what in ((self.memory, "cross-attention"), (self.position, "positions"), (self.normaliser, "a normaliser")):
            if there is not None:
                raise refuse(f"lengths and key_padding_mask do not go with {what}: give samples of one length")

    def extra_repr(self) -> str:
        own = repr(self.spec) if self.spec is not None else repr(self.hierarchy)
        kv_heads = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"{own}, heads={self.heads}{kv_heads}" + (", causal=True" if self.causal else "")

    def forward(self, x: Tensor, memory: Optional_ = None, *, lengths: Any = None, key_padding_mask: Optional_ = None) -> Tensor:
        check_rows(x, "x", "tokens", self.out.in_features)
        if memory is not None and self.cross is not None:
            check_rows(memory, "memory", "tokens", self.cross)
        batch, tokens, width = x.shape
        seen = tokens_seen(x, lengths, key_padding_mask)
        if seen is not None:
            self._refuse_padding()
        q, k, v = self._project(x, memory)
        drop = self.dropout if self.training else 0.0
        tables = self.rel_key is not None or self.rel_bias is not None or self.position is not None
        if seen is not None or (self.spec is not None and self.memory is None and not tables and self.normaliser is None):
            mask = None if seen is None else numbered(seen, self.causal)
            learned: Dict[str, Any] = {n: t for n, t in (("rel_key", self.rel_key), ("rel_bias", self.rel_bias)) if t is not None}
            y = attend(cast(str, self.spec), *(t.transpose(1, 2) for t in (q, k, v)), mask=mask, causal=self.causal, dropout=drop,
                       **learned)  # fmt: skip
        else:
            h, node_pos = self._with_positions(tokens, k.shape[1])
            y = h.attention(q, k, v, layout="bnhd", dropout=drop, seed=drawn(drop), rel_key=self.rel_key,
                            rel_bias=self.rel_bias, node_pos=node_pos, normaliser=self.normaliser)  # fmt: skip
        return cast(Tensor, self.out(y.reshape(batch, tokens, width)))


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

    def __init__(self, spans: str = "mean") -> None:
        super().__init__()
        if spans not in ("mean", "zero"):
            raise refuse(f"spans is {spans!r}, neither 'mean' nor 'zero'")
        self.spans = spans

    def forward(self, x: Tensor) -> Tensor:
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


class BPT(torch.nn.Module):
    """BP-Transformer's self-attention: [batch, nodes, width] in and out, rows as ``NodeRows`` makes them. k, clip, rule and
    causal are ``hga.bpt``'s. relative_keys: a key for every type of edge, shared by the heads, is learned (equation 13)."""

    def __init__(self, width: int, heads: int, k: int = 4, bias: bool = True, dropout: float = 0.0, *, causal: bool = False,
                 clip: int = 10, rule: str = "shifted", kv_heads: Optional[int] = None, relative_keys: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.kv_heads = heads, heads_of(width, heads, kv_heads)
        self.dropout, self.like = dropout_of(dropout), (k, clip, rule, causal)
        _bpt(2, *self.like)  # what is wrong with the parameters is said here
        self.project = torch.nn.Linear(width, (heads + 2 * self.kv_heads) * (width // heads), bias=bias)
        self.out = torch.nn.Linear(width, width, bias=bias)
        self.rel_key: Optional_ = None
        if relative_keys:
            types = (2 * k + 1) * (min(clip, 31) + 1)
            self.rel_key = torch.nn.Parameter(torch.empty(types, width // heads).normal_(std=0.02))

    def extra_repr(self) -> str:
        k, clip, rule, causal = self.like
        kv_heads = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"heads={self.heads}{kv_heads}, k={k}, clip={clip}, rule={rule!r}" + (", causal=True" if causal else "")

    def forward(self, x: Tensor) -> Tensor:
        check_rows(x, "x", "nodes", self.out.in_features)
        batch, nodes, width = x.shape
        h = _bpt(_tokens_of(nodes), *self.like)
        heads = self.project(x).view(batch, nodes, self.heads + 2 * self.kv_heads, width // self.heads)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), 2)
        drop = self.dropout if self.training else 0.0
        y = h.attention(q, k, v, layout="bnhd", dropout=drop, seed=drawn(drop), rel_key=self.rel_key)
        return cast(Tensor, self.out(y.reshape(batch, nodes, width)))


# ---- torch's own signature ----


def _mask(q: Tensor, padding: Optional_, pairs: Optional_, is_causal: bool) -> Tuple[bool, Optional_]:
    """torch's two masks, in which True hides, as one that hga reads: whether it is causal, and what else it says."""
    batch, heads, tokens, _ = q.shape
    if padding is not None:
        padding = padding.reshape(batch, tokens)
        padding = ~padding if padding.dtype == torch.bool else padding == 0
    if pairs is None:
        return is_causal, None if padding is None else numbered(padding, is_causal)
    if pairs.dim() not in (2, 3) or pairs.shape[-2:] != (tokens, tokens):
        raise refuse(f"attn_mask has shape {tuple(pairs.shape)}, the text {tokens} tokens")
    seen = ~pairs if pairs.dtype == torch.bool else pairs
    seen = seen[None, None] if seen.dim() == 2 else seen.view(batch, heads, tokens, tokens)
    if padding is not None:
        hidden = ~padding[:, None, None, :]
        seen = seen & ~hidden if seen.dtype == torch.bool else seen.masked_fill(hidden, float("-inf"))
    later = seen[..., 0, -1] if tokens > 1 else None  # causal attention hides the last token from the first
    causal = is_causal or bool(later is not None and (later != 0 if seen.dtype != torch.bool else ~later).any())
    return causal, seen


def _masked(spec: str, q: Tensor, k: Tensor, v: Tensor, padding: Optional_, pairs: Optional_, is_causal: bool, drop: float,
            seed: Optional_) -> Tensor:  # fmt: skip
    causal, mask = _mask(q, padding, pairs, is_causal)
    return attend(spec, q, k, v, mask=mask, causal=causal, dropout=drop, seed=seed)


def _run_masked(given: Given) -> Outputs:
    q, k, v, seed, pairs, *padding = given.tensors
    causal, drop = bool(given.whole[0]), given.floats[0]
    return _masked(given.words, q, k, v, padding[0] if padding else None, pairs, causal, drop, seed if drop else None), None


def _masked_shapes(given: Given) -> Outputs:
    batch, heads, tokens, _ = given.tensors[0].shape
    v = given.tensors[2]
    return v.new_empty(batch, tokens, heads, v.shape[-1]), None


PASSES["masked"] = Pass(_run_masked, _masked_shapes)


class MultiheadAttention(torch.nn.Module):
    """torch.nn.MultiheadAttention over a hierarchy, with its arguments, its parameters and their names; ``spec`` names the
    hierarchy, "htransformer:block=16". It may stand in torch.nn.TransformerEncoderLayer for self_attn. Masks that are padding,
    documents or causal attention run; others are refused, as are weights (need_weights=True), add_bias_kv and
    add_zero_attn. Cross-attention needs a variant that can cross, and takes no mask."""

    # torch's layers leave their way in C, which would not ask this module, where projections differ
    _qkv_same_embed_dim = False

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: Optional[int] = None, vdim: Optional[int] = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None, *, spec: str = "dense") -> None:  # fmt: skip
        super().__init__()
        for asked, what in ((add_bias_kv, "add_bias_kv"), (add_zero_attn, "add_zero_attn")):
            if asked:
                raise refuse(f"{what} adds a key that no hierarchy has")
        if isinstance(embed_dim, str):
            raise refuse_type(f"embed_dim is {embed_dim!r}, not a whole number: MultiheadAttention has torch's arguments, and the "
                              f"hierarchy goes by keyword, spec={embed_dim!r}")  # fmt: skip
        if not isinstance(spec, str):
            raise refuse_type(f"spec is {spec!r}, not a name such as 'htransformer:block=16'")
        heads_of(embed_dim, num_heads, None, ("embed_dim", "num_heads"))
        spec_of(spec).require_tokens()
        dropout = dropout_of(dropout)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.spec = dropout, batch_first, spec
        like = torch.nn.MultiheadAttention(embed_dim, num_heads, dropout, bias, kdim=kdim, vdim=vdim, batch_first=batch_first,
                                           device=device, dtype=dtype)  # fmt: skip
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"):
            self.register_parameter(name, getattr(like, name))
        self.out_proj = like.out_proj

    def extra_repr(self) -> str:
        return f"{self.spec!r}, embed_dim={self.embed_dim}, heads={self.num_heads}"

    def _project(self, *given: Tensor) -> Iterator[Tensor]:
        """Query, key and value, [batch, heads, tokens, dim]."""
        packed, bias = cast(Optional_, self.in_proj_weight), cast(Optional_, self.in_proj_bias)
        apart = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = cast(Sequence[Tensor], apart if packed is None else packed.chunk(3))
        biases: Sequence[Optional_] = (None,) * 3 if bias is None else bias.chunk(3)
        for x, weight, one in zip(given, weights, biases):
            y = torch.nn.functional.linear(x, weight, one)
            yield y.view(*y.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional_ = None, need_weights: bool = False,
        attn_mask: Optional_ = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> Tuple[Tensor, None]:  # fmt: skip
        if need_weights:
            raise refuse("need_weights=True asks for a matrix of weights that hga never has: h.weights(q, k, token) gives a row")
        flat = query.dim() == 2
        own = query is key
        if not own and not torch.compiler.is_compiling():
            own = query.shape == key.shape and query.data_ptr() == key.data_ptr()
        given = [query, key, value]
        if flat:
            given = [x[None] for x in given]
        elif not self.batch_first:
            given = [x.transpose(0, 1) for x in given]
        q, k, v = self._project(*given)
        drop = self.dropout if self.training else 0.0
        if own and torch.compiler.is_compiling() and attn_mask is not None:  # what the mask says is seen when it runs
            masks = [attn_mask] if key_padding_mask is None else [attn_mask, key_padding_mask]
            y = as_a_whole("masked", Given(self.spec, [int(is_causal)], [drop], [q, k, v, torch.as_tensor(drawn(drop)), *masks]))[0]
        elif own:
            y = _masked(self.spec, q, k, v, key_padding_mask, attn_mask, is_causal, drop, None)
        else:
            if key_padding_mask is not None or attn_mask is not None or is_causal:
                raise refuse(f"{self.spec}: a mask of cross-attention is not understood")
            h = hierarchy_of(self.spec, q.shape[2], False, k.shape[2])
            y = h.attention(q, k, v, dropout=drop, seed=drawn(drop)).transpose(1, 2)
        y = self.out_proj(y.reshape(y.shape[0], y.shape[1], self.embed_dim))
        return (y[0] if flat else y if self.batch_first else y.transpose(0, 1)), None

__all__ = ["Attention", "BPT", "MultiheadAttention", "NodeRows"]
