"""Treeformer's attention as a module of torch, whose trees are learned."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from .._core.arguments import answering, whole
from .._core.library import check, ffi, lib, refuse
from .._graphs.graph import Graph
from .._graphs.hierarchy import Hierarchy
from ._module_arguments import Projected, check_rows, drop_of
from ._one_pass import PASSES, Inputs, Outputs, Pass, drawn, whole as as_a_whole

Tensor = torch.Tensor


class _Trees(NamedTuple):
    """Every head's tree of hyperplanes, of which the first ``levels`` levels are used."""

    planes: Tensor
    offsets: Tensor
    levels: int
    made: List[Hierarchy]  # the module's last one, whose plans the next takes over

    def _used(self) -> Tuple[Tensor, Tensor]:
        """A head's hyperplanes lie one after the other, those of the first levels first."""
        return self.planes[:, : 2**self.levels - 1], self.offsets[:, : 2**self.levels - 1]

    def leaves(self, x: Tensor) -> Tensor:
        """[rows][heads]: the leaf of each of x's rows, [rows, heads, dim]."""
        rows, heads, dim = x.shape
        x, leaf = x.detach().float().contiguous(), np.zeros((rows, heads), np.int32)
        if self.levels and rows:
            weights, bias = (t.detach().contiguous() for t in self._used())
            router = ffi.new("hga_router *")
            router.height, router.dim, router.n_heads = self.levels, dim, heads
            router.weights, router.bias = (ffi.cast("float *", t.data_ptr()) for t in (weights, bias))
            check(lib.hga_route(router, ffi.cast("float *", x.data_ptr()), rows, heads * dim, dim, ffi.cast("int32_t *", leaf.ctypes.data)))
        return torch.from_numpy(leaf)

    def path(self, x: Tensor, leaf: Tensor) -> Tensor:
        """[rows][heads]: the log probability of each row's path, were it drawn by sigmoids."""
        level = torch.arange(self.levels)
        leaf = leaf.long()[..., None]
        plane = 2**level - 1 + (leaf >> (self.levels - level))
        right = (leaf >> (self.levels - level - 1)) & 1
        planes, offsets = self._used()
        f = torch.einsum("rhd,hpd->rhp", x, planes) + offsets
        return torch.nn.functional.logsigmoid(f.gather(-1, plane) * (2 * right - 1)).sum(-1)

    def hierarchy(self, batch: int, tokens: int, causal: bool, *leaves: Tensor) -> Hierarchy:
        """All samples and heads as one graph: every head of every sample has leaves of its own, rows lie as they are."""
        heads = len(self.planes)
        sample = torch.arange(batch).repeat_interleave(tokens)[:, None]
        first = (sample * heads + torch.arange(heads)) << self.levels
        if batch * heads << self.levels >= 2**31:
            raise refuse(f"{batch} samples of {heads} trees with {2**self.levels} leaves are more than 2^31 leaves")
        numbers = [(first + leaf).flatten().to(torch.int32).numpy() for leaf in leaves]
        p, graph, program = ffi.new("hga_treeformer *"), ffi.new("hga_graph **"), ffi.new("hga_program *")
        lib.hga_variant_defaults(lib.hga_variant_named(b"treeformer-fine"), p)
        p.query_leaf, p.key_leaf = (ffi.cast("int32_t *", x.ctypes.data) for x in numbers)
        p.n_queries, p.n_tree_heads, p.causal = len(numbers[0]), 1, int(causal)
        p.n_leaves = batch * heads << self.levels
        check(lib.hga_build_treeformer_fine(p, graph, program))
        return Hierarchy(Graph(graph[0]), program, f"treeformer-fine levels={self.levels}")

    def attend(self, q: Tensor, k: Tensor, v: Tensor, batch: int, tokens: int, causal: bool, dropout: float, seed: int) -> Tensor:
        """[batch * tokens, heads, dim], in and out."""
        heads, dim = q.shape[1:]
        q_leaf, k_leaf = self.leaves(q), self.leaves(k)
        h = self.hierarchy(batch, tokens, causal, q_leaf, k_leaf)
        self.made[:] = [h._follows(*self.made)]
        scale, gate = dim**-0.5, None
        if self.levels and torch.is_grad_enabled() and self.planes.requires_grad:
            # a column that adds 0 to every score restores what a key's mass would get
            path_q, path_k = self.path(q, q_leaf), self.path(k, k_leaf)
            none = q.new_zeros(*q.shape[:2], 7)
            q = torch.cat([q, q.new_ones(*q.shape[:2], 1), none], -1)
            k = torch.cat([k, ((path_k - path_k.detach()) / scale)[..., None], none], -1)
            gate = (path_q - path_q.detach()).exp()[..., None]
        rows = (t.reshape(1, -1, t.shape[-1]) for t in (q, k, v))
        y: Tensor = h.attention(*rows, scale=scale, dropout=dropout, seed=seed).view(batch * tokens, heads, dim)
        return y if gate is None else y * gate


def _run(inputs: Inputs) -> Outputs:
    q, k, v, planes, offsets, levels, seed = inputs.tensors
    batch, tokens = inputs.whole
    return _Trees(planes, offsets, int(levels), []).attend(q, k, v, batch, tokens, bool(inputs.words), inputs.floats[0], int(seed)), None


def _shapes(inputs: Inputs) -> Outputs:
    return inputs.tensors[2].new_empty(inputs.tensors[2].shape), None


PASSES["treeformer"] = Pass(_run, _shapes)


class Treeformer(Projected):
    """Treeformer's TF-attention with learned trees: [batch, tokens, width] in and out. Every head has a tree of hyperplanes
    of its own, queries and keys go down it, and a query attends to the keys of its leaf. ``height`` levels are learned,
    ``levels`` of them are used (0: dense attention), which ``bootstrap`` changes from stage to stage; it is stored in the
    state. Routing is hard; hyperplanes learn straight through it (docs/treeformer-fine.md): a query's path has the gradient
    of its output, a key's that of its mass."""

    levels: Tensor

    @answering
    def __init__(self, width: int, heads: int, height: int, bias: bool = True, dropout: float = 0.0, *, causal: bool = False,
                 kv_heads: Optional[int] = None) -> None:  # fmt: skip
        super().__init__(width, heads, kv_heads, bias, dropout)
        self.height, self.causal, dim = whole(height, "height", least=1, beyond=21), causal, width // heads
        planes = 2**self.height - 1
        self.planes = torch.nn.Parameter(torch.empty(heads, planes, dim).normal_(std=dim**-0.5))
        self.offsets = torch.nn.Parameter(torch.zeros(heads, planes))
        self._made: List[Hierarchy] = []
        self.register_buffer("levels", torch.tensor(self.height))

    def leaves(self, x: Tensor) -> Tensor:
        """[rows][heads]: the leaf of each of x's rows, [rows, heads, dim], by the first ``levels`` levels."""
        return self._trees().leaves(x)

    def extra_repr(self) -> str:
        return f"{self._heads_in_words()}, height={self.height}" + (", causal=True" if self.causal else "")

    def forward(self, x: Tensor) -> Tensor:
        check_rows(x, "x", "tokens", self.out.in_features)
        batch, tokens, _ = x.shape
        q, k, v = (t.flatten(0, 1) for t in self._split(x))
        if self.kv_heads != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        drop = drop_of(self)
        seed: Any = drawn(drop)
        if torch.compiler.is_compiling():  # leaves are known when it runs
            tensors = [q, k, v, self.planes, self.offsets, self.levels, torch.as_tensor(seed)]
            y = as_a_whole("treeformer", Inputs("causal" if self.causal else "", [batch, tokens], [drop], tensors))[0]
        else:
            y = self._trees().attend(q, k, v, batch, tokens, self.causal, drop, seed)
        return self._joined(y, x)

    def _trees(self) -> _Trees:
        return _Trees(self.planes, self.offsets, int(self.levels), self._made)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_made": []}


def bootstrap(layers: Sequence[Treeformer], width: Optional[int] = None, start: int = 0) -> Iterator[Tuple[int, int]]:
    """Treeformer's Algorithm 1 over the layers of a model, first to last: all begin with ``start`` levels (0: dense
    attention); trees then grow a level a stage, first in the last ``width`` layers (None: all at once), then in the last 2 *
    width, and so on. Train a share of the steps at each stage it yields: (the first layer whose trees grow, their levels).
    Layers whose trees are full keep them."""
    layers, n = list(layers), len(layers)
    width = n if width is None else whole(width, "width", least=1)
    tallest = max((layer.height for layer in layers), default=0)
    for layer in layers:
        layer.levels.fill_(min(start, layer.height))
    for i in range(1, math.ceil(n / width) + 1):
        first = max(0, n - width * i)
        for levels in range(start + 1, tallest + 1):
            for layer in layers[first:]:
                layer.levels.clamp_(min=min(levels, layer.height))
            yield first, levels
