"""A call of FlexAttention, forward and backward: the mask a graph, the score_mod options of a plan."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple, cast

import torch
from torch.nn.attention.flex_attention import BlockMask

from .._core.library import refuse_type
from .._core.arguments import shown
from .cache import traced_score
from .masks import Condition, Mask, mask_of
from .trace import Score, Traced, tied
from .._graphs.hierarchy import Hierarchy
from ..torch._operators import query as checked_input
from ..torch._attention import attention

Tensor = torch.Tensor
Pairs = Tuple[Tensor, Tensor]  # (out, lse)
ScoreMod = Optional[Callable[..., Tensor]]


class Plan(NamedTuple):
    """What a call was found to be."""

    mask: Mask
    traced: Optional[Traced]
    score: Score
    masked: Optional[Condition]  # by the score_mod, besides
    relative: bool  # terms depend on query - key
    by_edge: bool  # terms depend on query and key otherwise
    by_sample: bool  # terms depend on the sample

    def hierarchy(self, b: int, h: int) -> Hierarchy:
        """What query head h of sample b attends over."""
        return self.mask.hierarchy(b, h, self.masked, self.relative)


def understood(query: Tensor, key: Tensor, score_mod: ScoreMod, block_mask: Optional[BlockMask]) -> Plan:
    """The mask and the score_mod of a call, or a refusal that names what was not understood."""
    if score_mod is not None and not callable(score_mod):
        raise refuse_type(f"score_mod is {shown(score_mod)}, not a function")
    traced, score = traced_score(score_mod) if score_mod is not None else (None, Score())
    mask = mask_of(block_mask, query.shape[2], key.shape[2])
    mask.check(*query.shape[:2])
    reads: FrozenSet[str] = frozenset()
    masked = None
    if traced is not None:
        reads = reads.union(*(traced.reads(x) for _, values in score.terms for x in values))
        masked = Condition(traced, score.seen) if score.seen else None
    by_edge = bool(reads & frozenset("qk"))
    return Plan(mask, traced, score, masked, "d" in reads and not by_edge, by_edge, "b" in reads)


def _sum(score: Score, dtype: torch.dtype) -> Any:
    """The terms of a score, of their values one after the other."""

    def total(*values: Any) -> Tensor:
        found: Any = torch.zeros((), dtype=dtype)
        left = iter(values)
        for by, factors in score.terms:
            product: Any = by
            for _ in factors:
                product = next(left) * product
            found = found + product
        return cast(Tensor, found)

    return total


def _bias(plan: Plan, h: Hierarchy, b: int, heads: Sequence[int], n_queries: int, n_keys: int) -> Dict[str, Any]:
    """What is added to scores: nothing, a table by type, or a number an edge, [..][heads]; differentiable."""
    if not plan.score.terms:
        return {}
    if plan.by_edge:
        edges = torch.from_numpy(h.graph.edges()).long()
        first_query, _, first_key, _ = h.graph._sides()
        q, k = edges[:, 1] - first_query, edges[:, 0] - first_key
    elif plan.relative:  # one pair of each distance
        d = torch.arange(1 - n_keys, n_queries)
        q, k = d.clamp(min=0), -d.clamp(max=0)
    else:
        q = k = torch.zeros(1, dtype=torch.long)
    values = [x for _, factors in plan.score.terms for x in factors]
    total = _sum(plan.score, torch.float32)
    found = plan.traced.over(values, total, (b, heads, q, k), "qk", "h") if plan.traced and values else total().expand(len(q), len(heads))
    return {"edge_bias" if plan.by_edge else "rel_bias": found.float().contiguous()}


def _scaled(plan: Plan, q: Tensor) -> Tensor:
    """Queries times the factors of their rows: in float32, so that they are rounded once."""
    if not plan.score.factors:
        return q
    powers = [p for _, p in plan.score.factors]

    def product(*values: Any) -> Tensor:
        found: Any = torch.ones(())
        for x, p in zip(values, powers):
            found = found * x if p > 0 else found / x
        return cast(Tensor, found)

    index = (*(torch.arange(n) for n in q.shape[:3]), 0)
    by = cast(Traced, plan.traced).over([x for x, _ in plan.score.factors], product, index, "b", "h", "q")
    return q.float() * by.unsqueeze(-1).float()


def _call(plan: Plan, h: Hierarchy, b: int, heads: Sequence[int], q: Tensor, k: Tensor, v: Tensor, scale: float, lse: bool) -> Pairs:
    more = _bias(plan, h, b, heads, q.shape[2], k.shape[2])
    if plan.score.cap is not None:
        more["softcap"] = plan.score.cap
    found = attention(h, q, k, v, lse=lse, scale=scale, **more)
    return found if lse else (found, found)


def _joined(results: Sequence[Pairs], at: Sequence[List[int]], axis: int, lse: bool) -> Pairs:
    """Joins results; ``at`` are the indices of each along the axis."""
    if len(results) == 1:
        return results[0]
    index = [i for own in at for i in own]
    order = None if index == sorted(index) else torch.argsort(torch.tensor(index))

    def of(results: List[Tensor]) -> Tensor:
        x = torch.cat(results, axis)
        return x if order is None else x.index_select(axis, order)

    out = of([out for out, _ in results])
    return out, of([x for _, x in results]) if lse else out


def _some(x: Tensor, heads: List[int]) -> Tensor:
    """Of some heads; neighbours are not copied."""
    neighbours = heads == list(range(heads[0], heads[0] + len(heads)))
    return x[:, heads[0] : heads[0] + len(heads)] if neighbours else x[:, torch.tensor(heads)]


def _key_heads(heads: List[int], each: int) -> List[int]:
    """Those that some query heads share: each once, where all `each` of its query heads are here."""
    whole = len(heads) % each == 0 and all(h == heads[i - i % each] // each * each + i % each for i, h in enumerate(heads))
    return [h // each for h in (heads[::each] if whole else heads)]


def _by_head(plan: Plan, b: int, q: Tensor, k: Tensor, v: Tensor, scale: float, lse: bool, found: Sequence[Hierarchy]) -> Pairs:
    """Samples whose head i attends over found[i]."""
    groups: Dict[int, Tuple[Hierarchy, List[int]]] = {}
    for i, h in enumerate(found):
        groups.setdefault(id(h), (h, []))[1].append(i)
    if len(groups) == 1:
        return _call(plan, found[0], b, range(len(found)), q, k, v, scale, lse)
    each = len(found) // k.shape[1]
    results = []
    for h, heads in groups.values():
        own = _key_heads(heads, each)
        results.append(_call(plan, h, b, heads, _some(q, heads), _some(k, own), _some(v, own), scale, lse))
    return _joined(results, [heads for _, heads in groups.values()], 1, lse)


def _run(plan: Plan, q: Tensor, k: Tensor, v: Tensor, scale: float, lse: bool) -> Pairs:
    batch, heads = q.shape[:2]
    reads = plan.masked.reads if plan.masked is not None else frozenset()
    all_heads = range(heads) if plan.mask.heads > 1 or "h" in reads else [0] * heads
    samples = range(batch) if plan.mask.samples > 1 or "b" in reads else [0]
    of = [[plan.hierarchy(b, h) for h in all_heads] for b in samples]
    if not plan.by_sample and all(found == of[0] for found in of):
        return _by_head(plan, 0, q, k, v, scale, lse, of[0])
    results = [_by_head(plan, b, q[b : b + 1], k[b : b + 1], v[b : b + 1], scale, lse, of[b % len(of)]) for b in range(batch)]
    return _joined(results, [[b] for b in range(batch)], 0, lse)


def _nothing(plan: Plan, q: Tensor, k: Tensor, v: Tensor) -> Pairs:
    """Of no samples, no heads or no queries."""
    q, k, v = (checked_input(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value")))
    read = (q, k, v, *(plan.traced.constants() if plan.traced is not None else ()))
    return tied(q.new_zeros(*q.shape[:3], v.shape[3]), read), tied(torch.zeros(q.shape[:3]), read)


def attend(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod, block_mask: Optional[BlockMask], scale: Optional[float], lse: bool
) -> Pairs:
    """(out, log-sum-exp) of arguments that were checked."""
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
    plan = understood(query, key, score_mod, block_mask)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if 0 in query.shape[:3]:
        return _nothing(plan, query, key, value)
    out, lses = _run(plan, _scaled(plan, query), key, value, scale * plan.score.scale, lse)
    return out if out.dtype == query.dtype else out.to(query.dtype), lses
