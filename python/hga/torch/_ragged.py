"""Attention of documents of any lengths as one operator of torch: which they are, is worked out inside it, so that
torch.compile sees no Python that depends on data."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

from .._core.values import Error, as_numpy, refuse
from ._documents import Document, documents
from .._graphs.hierarchy import Hierarchy
from ._one_pass import behind, ticket_for
from ._operators import flattened, named, operator, refuse_forward, refuse_second, save_nothing, Tables_, tables_of, tensor_of
from .._core.precision import AUTO
from .._graphs.spec import hierarchy_of, spec_of
from .._core.tables import INPUTS, ROWS, check_names

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


class _Group(NamedTuple):
    """Equal documents of samples first .. end, attended by one call."""

    h: Hierarchy
    first: int
    end: int
    document: Document
    seed: int

    def of(self, x: Tensor) -> Tensor:
        """Its rows of [batch][heads][tokens][columns]."""
        d = self.document
        return x[self.first : self.end, :, d.first : d.first + d.n]

    def rows(self, x: Tensor, which: str) -> Tensor:
        """The same as rows of the hierarchy, of which spans' are zero."""
        lifted: Tensor = self.h.lift(self.of(x), which=which)
        return lifted


class _Done(NamedTuple):
    """What a backward pass needs of a group's forward pass."""

    group: _Group
    out: np.ndarray
    tape: np.ndarray
    threads: int


def in_window(words: str, d: Document) -> str:
    """The hierarchy of a document whose tokens see a window: the one that was named where it looks no further, and of
    dense attention the window."""
    if looks_no_further(words, d):
        return words
    sides = f"left={d.left}" + ("" if d.causal else f":right={d.right}")
    if spec_of(words).is_dense:
        return f"window:{sides}"
    limit, where = (d.left, "before") if d.causal or d.left < d.n - 1 else (d.right, "after")
    raise refuse(f"the mask is a window: a token sees {limit} tokens {where} it at most, {words} looks further; "
                 f"dense and window:{sides} do not")  # fmt: skip


def looks_no_further(words: str, d: Document) -> bool:
    left, right = spec_of(words).reach(d.causal) or (d.n, d.n)
    return d.left >= min(left, d.n - 1) and (d.causal or d.right >= min(right, d.n - 1))


def _groups(words: str, found: List[Document], seed: Optional[int]) -> Iterator[_Group]:
    """One group for each document; without dropout, neighbouring samples whose only documents are equal share one."""
    counts = Counter(d.sample for d in found)

    def joins(a: Document, b: Document) -> bool:
        return seed is None and counts[a.sample] == counts[b.sample] == 1 and b == a._replace(sample=a.sample + 1)

    at = 0
    while at < len(found):
        d, end = found[at], at + 1
        while end < len(found) and joins(found[end - 1], found[end]):
            end += 1
        h = hierarchy_of(in_window(words, d), d.n, d.causal)
        yield _Group(h, d.sample, found[end - 1].sample + 1, d, 0 if seed is None else (seed + at) % 2**64)
        at = end


def _readable(x: Tensor) -> Tensor:
    """Contiguous in the last dimension, no element twice."""
    x = x.detach()
    if x.stride(-1) != 1 or any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)):
        x = x.contiguous()
    return x


def _check(words: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    for x, what in ((q, "query"), (k, "key"), (v, "value")):
        if x.device.type != "cpu":
            raise refuse(f"{words}: {what} is on {x.device}: hga computes on the CPU")
        if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise refuse(f"{words}: {what} has type {x.dtype}; float32, bfloat16 and float16 are known")


def _forwards(
    words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional_, offsets: Optional_, seed: Optional_, names: str,
    tables: Tables_, numbers: Sequence[float], causal: bool, dropout: float, layer: int, taped: bool,
) -> Iterator[_Done]:  # fmt: skip
    found = documents(mask, offsets, q.shape[0], q.shape[2], causal, q.shape[1])
    threads = torch.get_num_threads()
    q, k, v, by_name = _readable(q), _readable(k), _readable(v), named(names, tables, numbers)
    for group in _groups(words, found, int(seed) if seed is not None else None):
        rows = [group.rows(x, which) for which, x in zip(INPUTS, (q, k, v))]
        out, _, tape = group.h._forward(
            rows[0], rows[1], rows[2], by_name, ("bhnd", dropout, group.seed, layer, AUTO, threads, None), False, taped
        )
        yield _Done(group, out, tape if tape is not None else np.empty(0, np.uint8), threads)


def _documents(
    words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional_, offsets: Optional_, seed: Optional_, names: str,
    tables: Tables_, numbers: Sequence[float], causal: bool, dropout: float, layer: int, taped: bool,
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    _check(words, q, k, v)
    batch, heads, tokens, _ = q.shape
    out = v.new_zeros(batch, tokens, heads, v.shape[-1])
    done_groups = []
    try:
        for done in _forwards(words, q, k, v, mask, offsets, seed, names, tables, numbers, causal, dropout, layer, taped):
            done.group.of(out.transpose(1, 2)).copy_(tensor_of(done.group.h.lower(done.out)))
            done_groups.append(done)
    except Error as e:
        raise type(e)(e.status, e.detail if words in e.detail else f"{words}: {e.detail}") from None
    return out, ticket_for(done_groups if taped else [])


def _documents_shapes(words: str, q: Tensor, k: Tensor, v: Tensor, *more: Any) -> Tuple[Tensor, Tensor]:
    batch, heads, tokens, _ = q.shape
    return v.new_empty(batch, tokens, heads, v.shape[-1]), torch.empty(1, dtype=torch.uint8)


def _documents_backward(
    ticket: Tensor, d_out: Tensor, words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional_, offsets: Optional_,
    seed: Optional_, names: str, tables: Tables_, numbers: Sequence[float], causal: bool, dropout: float, layer: int,
) -> List[Tensor]:  # fmt: skip
    done = behind(ticket)
    again = (words, q, k, v, mask, offsets, seed, names, tables, numbers, causal, dropout, layer, True)
    return _gradients(_forwards(*again) if done is None else done, d_out, q, k, v, names, tables, numbers, dropout, layer)


def _gradients(
    all_done: Iterable[_Done], d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, names: str, tables: Tables_,
    numbers: Sequence[float], dropout: float, layer: int,
) -> List[Tensor]:  # fmt: skip
    """Of query, key and value and of the tables that are tensors, to which every document adds."""
    inputs, by_name = dict(zip(INPUTS, (q, k, v))), named(names, tables, numbers)
    grads = {name: torch.zeros_like(x, memory_format=torch.contiguous_format) for name, x in inputs.items()}
    sums = {name: torch.zeros_like(x) for name, x in zip(names.split(), tables or ())}
    requested = [*grads, *(name for name in sums if ROWS[name].has_gradient)]
    d, input_rows = _readable(d_out).transpose(1, 2), {name: _readable(x) for name, x in inputs.items()}
    for done in all_done:
        p = done.group
        rows = [p.rows(x, which) for which, x in input_rows.items()]
        found = p.h._backward(
            rows[0], rows[1], rows[2], done.out, done.tape, as_numpy(p.rows(d, "out"), "d_out"), None, by_name,
            ("bhnd", dropout, p.seed, layer, AUTO, done.threads, None), requested,
        )  # fmt: skip
        for name in requested:
            x = tensor_of(found[name])
            if name in sums:
                sums[name] += x
            else:
                p.of(grads[name]).copy_(p.h.lower(x))
    return [*grads.values(), *sums.values()]


def _documents_backward_shapes(
    ticket: Tensor, d_out: Tensor, words: str, q: Tensor, k: Tensor, v: Tensor, mask: Any, offsets: Any, seed: Any, names: str,
    tables: Tables_, *more: Any,
) -> List[Tensor]:  # fmt: skip
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v, *(tables or ()))]


def _setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor]) -> None:
    ctx.words, *tensors, ctx.names, tables, ctx.numbers, ctx.causal, ctx.dropout, ctx.layer, _ = inputs
    _, ticket = output
    ctx.save_for_backward(*tensors, *(tables or ()), ticket)


def _backward(ctx: Any, d_out: Tensor, d_ticket: Any) -> Tuple[Any, ...]:
    q, k, v, mask, offsets, seed, *tables, ticket = ctx.saved_tensors
    d_q, d_k, d_v, *d_tables = torch.ops.hga.documents_backward(
        ticket, d_out, ctx.words, q, k, v, mask, offsets, seed, ctx.names, tables, ctx.numbers, ctx.causal, ctx.dropout, ctx.layer
    )
    no_numbers: Any = None if ctx.numbers else []  # torch takes an empty list for one of tensors
    return None, d_q, d_k, d_v, None, None, None, None, d_tables, no_numbers, None, None, None, None


operator(_documents, _documents_shapes, _backward, _setup)
operator(_documents_backward, _documents_backward_shapes, refuse_second, save_nothing)


def _chosen(
    words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional_, offsets: Optional_, causal: bool, more: Dict[str, Any], seed: Optional_
) -> Tensor:  # fmt: skip
    """Of a name whose graph is found in the call: every document chooses for itself."""
    if more["dropout"] and seed is None:
        seed = torch.randint(2**62, ())
    if mask is None and offsets is None:
        more["seed"] = 0 if seed is None else seed if torch.compiler.is_compiling() else int(seed)
        whole: Tensor = hierarchy_of(words, q.shape[2], causal).attention(q, k, v, **more)
        return whole.transpose(1, 2)
    if torch.compiler.is_compiling():
        raise refuse(f"{words}: inside torch.compile, what documents choose is known of samples of one length alone")
    _check(words, q, k, v)
    out = v.new_zeros(q.shape[0], q.shape[1], q.shape[2], v.shape[-1])
    rows: List[Tuple[Document, Tensor]] = []
    for d in documents(mask, offsets, q.shape[0], q.shape[2], causal, q.shape[1]):
        own = [x[d.sample, :, d.first : d.first + d.n] for x in (q, k, v)]
        more["seed"] = 0 if seed is None else (int(seed) + len(rows)) % 2**64
        rows.append((d, hierarchy_of(in_window(words, d), d.n, d.causal).attention(*own, **more)))
    for d, found in rows:
        out[d.sample, :, d.first : d.first + d.n] = found.to(out.dtype)
    return out.transpose(1, 2)


def attend(
    words: str, q: Tensor, k: Tensor, v: Tensor, *, mask: Optional_ = None, offsets: Optional_ = None, causal: bool = False,
    dropout: float = 0.0, layer: int = 0, seed: Optional_ = None, **tables: Any,
) -> Tensor:  # fmt: skip
    """[batch][heads][tokens][dim] in, [batch][tokens][heads][dim] out: every document by the hierarchy of its length that
    ``words`` name; 0 in rows of padding. Tables are those of ``Hierarchy.attention``, for all documents. Dropout draws a seed from
    torch's generator by default."""
    check_names(attend, tables)
    if spec_of(words).chooses:
        return _chosen(words, q, k, v, mask, offsets, causal, {"dropout": dropout, "layer": layer, **tables}, seed)
    its = flattened(tables_of(tables))
    tangent: Any = forward_ad.unpack_dual
    if not torch.compiler.is_compiling() and any(tangent(x).tangent is not None for x in (q, k, v, *its.tables)):
        refuse_forward(None)
    seed = torch.randint(2**62, ()) if dropout and seed is None else seed
    taped = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *its.tables))
    arguments = (words, q, k, v, mask, offsets, seed, *its, causal, float(dropout), layer, taped)
    out: Tensor = torch.ops.hga.documents(*arguments)[0]
    return out
