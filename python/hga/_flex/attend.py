"""torch's FlexAttention on CPUs, forward and backward: the mask a graph, the score_mod options of a plan."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, cast

import torch
from torch.nn.attention import flex_attention as theirs

from .._core.arguments import flag, whole
from .._core.values import number, refuse, refuse_type, shown
from .compiled import compiled
from .cache import traced_score
from .masks import Mask, mask_of, seen_by
from .trace import NAMES, Score, Traced, not_offered, tied
from .._graphs.hierarchy import Hierarchy
from ..torch._operators import query as checked_input
from ..torch import attention

Tensor = torch.Tensor
Pairs = Tuple[Tensor, Tensor]  # (out, lse)


class Plan(NamedTuple):
    """What a call was found to be."""

    mask: Mask
    traced: Optional[Traced]
    score: Score
    relative: bool  # terms depend on query - key
    by_edge: bool  # terms depend on query and key otherwise
    by_sample: bool  # terms depend on the sample


def _terms_read(plan_traced: Optional[Traced], score: Score) -> "frozenset[str]":
    reads: "frozenset[str]" = frozenset()
    for _, values in score.terms:
        for x in values:
            reads |= cast(Traced, plan_traced).reads(x)
    return reads


def understood(query: Tensor, key: Tensor, score_mod: Any, block_mask: Any) -> Plan:
    """The mask and the score_mod of a call, or a refusal that names what was not understood."""
    if score_mod is not None and not callable(score_mod):
        raise refuse_type(f"score_mod is {shown(score_mod)}, not a function")
    traced, score = traced_score(score_mod) if score_mod is not None else (None, Score())
    mask = mask_of(block_mask, query.shape[2], key.shape[2])
    mask.check("batch", query.shape[0])
    mask.check("head", query.shape[1])
    reads = _terms_read(traced, score)
    by_edge = bool(reads & frozenset("qk"))
    return Plan(mask, traced, score, "d" in reads and not by_edge, by_edge, "b" in reads)


def _sum(score: Score, dtype: torch.dtype) -> Any:
    """The terms of a score, of their values one after the other."""
    counts = [len(values) for _, values in score.terms]

    def total(*values: Any) -> Tensor:
        found: Any = torch.zeros((), dtype=dtype)
        at = 0
        for (by, _), n in zip(score.terms, counts):
            product: Any = by
            for x in values[at : at + n]:
                product = x * product
            found, at = found + product, at + n
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
    indices = dict(zip(NAMES, (torch.tensor(b), torch.tensor(heads), q, k)))
    total = _sum(plan.score, torch.float32)
    found = (plan.traced.over(values, total, indices, "qk", "h") if values else total().expand(len(q), len(heads))).float()  # type: ignore[union-attr]
    return {"edge_bias" if plan.by_edge else "rel_bias": found.contiguous()}


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

    batch, heads, rows = q.shape[:3]
    indices = dict(zip(NAMES, (torch.arange(batch), torch.arange(heads), torch.arange(rows), torch.tensor(0))))
    by = cast(Traced, plan.traced).over([x for x, _ in plan.score.factors], product, indices, "b", "h", "q")
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
    index = torch.tensor([i for own in at for i in own])
    order = None if bool((index[1:] > index[:-1]).all()) else torch.argsort(index)

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


def _grouped(found: Sequence[Hierarchy]) -> List[Tuple[Hierarchy, List[int]]]:
    groups: Dict[int, Tuple[Hierarchy, List[int]]] = {}
    for i, h in enumerate(found):
        groups.setdefault(id(h), (h, []))[1].append(i)
    return list(groups.values())


def _by_head(plan: Plan, b: int, q: Tensor, k: Tensor, v: Tensor, scale: float, lse: bool, found: Sequence[Hierarchy]) -> Pairs:
    """Samples whose head i attends over found[i]."""
    groups = _grouped(found)
    if len(groups) == 1:
        return _call(plan, groups[0][0], b, range(len(found)), q, k, v, scale, lse)
    each = len(found) // k.shape[1]
    results = []
    for h, heads in groups:
        own = _key_heads(heads, each)
        results.append(_call(plan, h, b, heads, _some(q, heads), _some(k, own), _some(v, own), scale, lse))
    return _joined(results, [heads for _, heads in groups], 1, lse)


def _run(plan: Plan, q: Tensor, k: Tensor, v: Tensor, scale: float, lse: bool) -> Pairs:
    batch, heads = q.shape[:2]
    condition = seen_by(plan.traced, plan.score) if plan.traced is not None else None
    reads = condition.reads if condition is not None else frozenset()
    all_heads = range(heads) if plan.mask.heads > 1 or "h" in reads else [0] * heads
    of = [[plan.mask.hierarchy(b, h, condition, plan.relative) for h in all_heads] for b in range(batch)] \
        if plan.mask.samples > 1 or "b" in reads else [[plan.mask.hierarchy(0, h, condition, plan.relative) for h in all_heads]] * batch  # fmt: skip
    if not plan.by_sample and all(found == of[0] for found in of):
        return _by_head(plan, 0, q, k, v, scale, lse, of[0])
    results = [_by_head(plan, b, q[b : b + 1], k[b : b + 1], v[b : b + 1], scale, lse, of[b]) for b in range(batch)]
    return _joined(results, [[b] for b in range(batch)], 0, lse)


def _nothing(plan: Plan, q: Tensor, k: Tensor, v: Tensor) -> Pairs:
    """Of no samples, no heads or no queries."""
    q, k, v = (checked_input(x, name) for x, name in ((q, "query"), (k, "key"), (v, "value")))
    read = (q, k, v, *(plan.traced.constants() if plan.traced is not None else ()))
    return tied(q.new_zeros(*q.shape[:3], v.shape[3]), read), tied(torch.zeros(q.shape[:3]), read)


def _refuse_nested(x: Tensor, name: str) -> None:
    if x.is_nested:
        raise refuse(f"{name} is a nested tensor: give the rows of all samples one behind the other, [1][heads][rows][dim], with a block_mask of "
                     "documents, or a padded batch")  # fmt: skip


def _check(query: Any, key: Any, value: Any, enable_gqa: Any) -> None:
    for x, name in ((query, "query"), (key, "key"), (value, "value")):
        if not isinstance(x, torch.Tensor):
            raise refuse_type(f"{name} is a {type(x).__name__}, not a tensor")
        _refuse_nested(x, name)
        if x.dim() != 4:
            raise refuse(f"{name} has shape {tuple(x.shape)}, not [batch][heads][tokens][dim]")
    (samples, heads, _, dim), (k_samples, kv_heads, keys, k_dim), of_value = query.shape, key.shape, value.shape
    v_samples, v_heads, values, dim_v = of_value
    for n, x, name in ((dim, query, "query"), (k_dim, key, "key"), (dim_v, value, "value")):
        if not n:
            raise refuse(f"{name} has shape {tuple(x.shape)}: at least one column is needed")
    if k_dim != dim:
        raise refuse(f"key has {k_dim} columns, query {dim}")
    if v_heads != kv_heads or values != keys:
        raise refuse(f"value has shape {tuple(of_value)}, key {tuple(key.shape)}")
    if heads and not kv_heads:
        raise refuse(f"key has shape {tuple(key.shape)}: no heads")
    if flag(enable_gqa, "enable_gqa"):
        if kv_heads and heads % kv_heads:
            raise refuse(f"{kv_heads} key heads do not divide {heads} query heads")
    elif heads != kv_heads:
        raise refuse(f"query has {heads} heads, key {kv_heads}: enable_gqa=True lets query heads share one")
    for n, name in ((k_samples, "key"), (v_samples, "value")):
        if n not in (1, samples):
            raise refuse(f"query has {samples} samples, {name} {n}")


def _wants_lse(return_lse: Any, return_aux: Any) -> bool:
    lse = flag(return_lse, "return_lse")
    if return_aux is None:
        return lse
    known: Any = getattr(theirs, "AuxRequest", ())  # torch has it since 2.9
    if not isinstance(return_aux, known):
        raise refuse_type(f"return_aux is {return_aux!r}, not an AuxRequest")
    if lse:
        raise refuse("return_lse and return_aux are given: one of them is enough")
    if return_aux.max_scores:
        raise not_offered("return_aux: max_scores are not known, log-sum-exps are")
    return flag(return_aux.lse, "AuxRequest.lse")


def attend(query: Tensor, key: Tensor, value: Tensor, score_mod: Any, block_mask: Any, scale: Optional[float], lse: bool) -> Pairs:
    """(out, log-sum-exp) of arguments that were checked."""
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
    plan = understood(query, key, score_mod, block_mask)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if 0 in query.shape[:3]:
        return _nothing(plan, query, key, value)
    out, lses = _run(plan, _scaled(plan, query), key, value, scale * plan.score.scale, lse)
    return out if out.dtype == query.dtype else out.to(query.dtype), lses


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Any = None, block_mask: Any = None,
                   scale: Optional[float] = None, enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options: Optional[Dict[str, Any]] = None, *, return_aux: Any = None) -> Any:  # fmt: skip
    """torch's FlexAttention on CPUs, with a backward pass. query [batch][heads][queries][dim], key and value [batch][kv heads]
    [keys][..], in float32, float16 or bfloat16.

    block_mask: torch's BlockMask; its full blocks are blocks of a graph, its partial ones are evaluated by mask_mod once, and what
    comes of it is cached as long as the BlockMask lives. score_mod(score, b, h, q, k) is traced: the score may be scaled (also by what
    depends on batch, head and query), masked by -inf, and have anything added that is computed from the indices and captured
    tensors, which get gradients. Whatever else it does is refused, naming the operation. return_lse: (out, log-sum-exp), and
    return_aux=AuxRequest(lse=True): (out, AuxOutput). kernel_options say how torch's own kernels run, and nothing here."""
    _check(query, key, value, enable_gqa)
    lse = _wants_lse(return_lse, return_aux)
    if kernel_options is not None and not isinstance(kernel_options, dict):
        raise refuse_type(f"kernel_options is {kernel_options!r}, not a dictionary")
    if isinstance(scale, Tensor) and scale.requires_grad and torch.is_grad_enabled():
        raise refuse("there is no gradient of flex_attention's scale: detach() it, or multiply the score by it in the score_mod")
    scale = None if scale is None else number(scale, "scale")
    run = compiled if torch.compiler.is_compiling() else attend
    out, lses = run(query, key, value, score_mod, block_mask, scale, lse)
    if return_aux is not None:
        return out, theirs.AuxOutput(lse=lses if lse else None)
    return (out, lses) if lse else out


def flex_hierarchy(query: Tensor, key: Tensor, score_mod: Any = None, block_mask: Any = None, batch: int = 0, head: int = 0) -> Hierarchy:
    """The hierarchy over which flex_attention of these arguments attends, of one sample and query head: to look at, explain or
    write. Of query and key only the shapes count."""
    for x, name in ((query, "query"), (key, "key")):
        _refuse_nested(x, name)
    plan = understood(query, key, score_mod, block_mask)
    batch = whole(batch, "batch", beyond=query.shape[0])
    head = whole(head, "head", beyond=query.shape[1])
    condition = seen_by(plan.traced, plan.score) if plan.traced is not None else None
    return plan.mask.hierarchy(batch, head, condition, plan.relative)
