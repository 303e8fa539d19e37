"""Attention of documents of any lengths as one pass: which they are, is worked out inside it, so that torch.compile sees no Python
that depends on data."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, cast

import numpy as np
import torch

from .._core.library import Error, refuse
from .._core.arrays import as_numpy
from ._documents import Document, documents
from .._graphs.hierarchy import Hierarchy
from .._graphs.calls import How
from ._one_pass import PASSES, Inputs, Pass, behind, ticket_for, unseen, whole
from ._operators import flattened, has_numbers, has_tangent, refuse_forward, tables_of, tensor_of
from .._core.precision import AUTO
from .._graphs.spec import hierarchy_of, spec_of
from .._core.tables import INPUTS, check_names

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]
_BESIDES = "mask", "offsets", "seed"  # tensors of a pass that are no tables


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

    def is_all(self, x: Tensor) -> bool:
        """Of [batch][heads][tokens][columns]: has it no other row?"""
        return len(x) == self.end - self.first and x.shape[2] == self.document.n

    def rows(self, x: Tensor, which: str) -> Tensor:
        """The same as rows of the hierarchy, of which spans' are zero."""
        lifted: Tensor = self.h.lift(self.of(x), which=which)
        return lifted


class _Done(NamedTuple):
    """What a backward pass needs of a group's forward pass."""

    group: _Group
    how: How
    out: np.ndarray
    tape: Optional[np.ndarray]


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
    """Contiguous in the last dimension."""
    return x.detach() if x.stride(-1) == 1 else x.detach().contiguous()


def _check(words: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    for x, what in ((q, "query"), (k, "key"), (v, "value")):
        if x.device.type != "cpu":
            raise refuse(f"{words}: {what} is on {x.device}: hga computes on the CPU")
        if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise refuse(f"{words}: {what} has type {x.dtype}; float32, bfloat16 and float16 are known")


def _forwards(inputs: Inputs, taped: bool) -> Iterator[_Done]:
    (causal, layer), dropout, tables, (q, k, v, *_) = inputs.whole, inputs.floats[0], inputs.named(), inputs.tensors
    mask, offsets, seed = (tables.pop(name, None) for name in _BESIDES)
    found = documents(mask, offsets, q.shape[0], q.shape[2], bool(causal), q.shape[1])
    q, k, v, threads = _readable(q), _readable(k), _readable(v), torch.get_num_threads()
    for group in _groups(inputs.words, found, None if seed is None else int(seed)):
        rows = [group.rows(x, which) for which, x in zip(INPUTS, (q, k, v))]
        how: How = ("bhnd", dropout, group.seed, layer, AUTO, threads, None)
        out, _, tape = group.h._forward(rows[0], rows[1], rows[2], tables, how, False, taped)
        yield _Done(group, how, out, tape)


def _run(inputs: Inputs) -> Tuple[Tensor, Optional_, Tensor]:
    words, (q, k, v, *_), taped, tapes = inputs.words, inputs.tensors, "g" in inputs.wants, []
    _check(words, q, k, v)
    out, filled = _empty_output(inputs), False
    rows = out.transpose(1, 2)
    try:
        for done in _forwards(inputs, taped):
            if not filled and not done.group.is_all(rows):
                out.zero_()
            filled = True
            done.group.of(rows).copy_(tensor_of(done.group.h.lower(done.out)))
            if taped:
                tapes.append(done)
    except Error as e:
        raise type(e)(e.status, e.detail if words in e.detail else f"{words}: {e.detail}") from None
    return out if filled else out.zero_(), None, ticket_for(tapes if taped else None)


def _empty_output(inputs: Inputs) -> Tensor:
    q, _, v, *_ = inputs.tensors
    batch, heads, tokens, _ = q.shape
    return v.new_empty(batch, tokens, heads, v.shape[-1])


def _back(inputs: Inputs, kept: Sequence[Tensor], d_out: Optional_, d_lse: Optional_) -> List[Tensor]:
    """Of query, key and value and of the tables that are tensors, to which every document adds."""
    names = (*INPUTS, *inputs.names.split())
    like = torch.contiguous_format
    grads = {n: torch.zeros_like(x, memory_format=like) for n, x, want in zip(names, inputs.tensors, inputs.wants) if want == "g"}
    d, tables = cast(Tensor, d_out).transpose(1, 2), {n: x for n, x in inputs.named().items() if n not in _BESIDES}
    readable, done = [_readable(x) for x in inputs.tensors[:3]], behind(kept[-1])
    for p, how, out, tape in _forwards(inputs, True) if done is None else done:
        q, k, v = (p.rows(x, which) for which, x in zip(INPUTS, readable))
        found = p.h._backward(q, k, v, out, tape, as_numpy(p.rows(d, "out"), "d_out"), None, tables, how, list(grads))
        for name, grad in grads.items():
            if name in INPUTS:
                p.of(grad).copy_(p.h.lower(tensor_of(found[name])))
            else:
                grad += tensor_of(found[name])
    return list(grads.values())


def _attends_by(inputs: Inputs) -> Iterator[Tuple[Hierarchy, int, int]]:
    (batch, heads, tokens, _), causal, more = inputs.tensors[0].shape, bool(inputs.whole[0]), inputs.named()
    mask, offsets, _ = (more.get(name) for name in _BESIDES)
    said = (mask, offsets) if has_numbers(mask, offsets) else (None, None)  # as long as they may be
    found = documents(*said, batch, tokens, causal, heads)
    for one, times in Counter((in_window(inputs.words, d), d.n, d.causal) for d in found).items():
        yield hierarchy_of(*one), heads, times


PASSES["documents"] = Pass(_run, lambda inputs: (_empty_output(inputs), None), _back, False, _attends_by)


def _chosen(
    words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional_, offsets: Optional_, causal: bool, more: Dict[str, Any], seed: Optional_
) -> Tensor:  # fmt: skip
    """Of a name whose graph is found in the call: every document chooses for itself."""
    if more["dropout"] and seed is None:
        seed = torch.randint(2**62, ())
    if mask is None and offsets is None:
        more["seed"] = 0 if seed is None else seed if torch.compiler.is_compiling() else int(seed)
        out: Tensor = hierarchy_of(words, q.shape[2], causal).attention(q, k, v, **more)
        return out.transpose(1, 2)
    chosen: Tensor = _chosen_by_documents(words, q, k, v, mask, offsets, causal, more, seed)
    return chosen


@unseen  # how many documents there are depends on the mask's numbers
def _chosen_by_documents(
    words: str, q: Tensor, k: Tensor, v: Tensor, mask: Optional_, offsets: Optional_, causal: bool, more: Dict[str, Any], seed: Optional_
) -> Tensor:  # fmt: skip
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
    if not torch.compiler.is_compiling() and any(has_tangent(x) for x in (q, k, v, *its.tables)):
        refuse_forward(None)
    seed = torch.randint(2**62, ()) if dropout and seed is None else seed
    there = [(name, x.detach()) for name, x in zip(_BESIDES, (mask, offsets, seed)) if x is not None]
    tensors = [q, k, v, *its.tables, *(x for _, x in there)]
    n = len(its.tables)
    names = [*its.names.split()[:n], *(name for name, _ in there), *its.names.split()[n:]]
    inputs = Inputs(words, [int(causal), layer], [float(dropout), *its.numbers], tensors, " ".join(names))
    return whole("documents", inputs)[0]
