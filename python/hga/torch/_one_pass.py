"""A pass that torch.compile takes as a whole, one operator: it runs as it does outside of torch.compile, with gradients.

What a backward pass needs waits behind one byte, which torch.compile takes for all of it. The byte's address finds the rest,
which lives as long as the byte. A copy of the byte finds nothing: then the forward pass runs once more."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import OrderedDict
from operator import or_
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np
import torch

from ._operators import operator, refuse_second, save_nothing
from .._core.releases import private

Tensor = torch.Tensor
Outputs = Tuple[Tensor, Optional[Tensor]]  # the output, and perhaps its log-sum-exp


@functools.lru_cache(maxsize=None)
def _keys_of_torch() -> Any:
    """What torch does around an operator: autograd, and transforms."""
    one = private("torch._C.DispatchKeySet")
    names = "AutogradCPU", "ADInplaceOrView", "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"
    return functools.reduce(or_, (one(private(f"torch._C.DispatchKey.{name}")) for name in names))


class Inputs(NamedTuple):
    """The inputs of a pass. Numbers are not in its words, since torch.compile may not know them yet."""

    words: str
    whole: Sequence[int]
    floats: Sequence[float]
    tensors: Sequence[Tensor]


class Pass(NamedTuple):
    """A kind of pass: ``run`` gives outputs, ``shapes`` tensors like them."""

    run: Callable[[Inputs], Outputs]
    shapes: Callable[[Inputs], Outputs]


PASSES: Dict[str, Pass] = {}


class _Done(NamedTuple):
    needs_grad: List[Tensor]  # inputs that need gradients
    outputs: Outputs

    def gradients(self, upstream: Sequence[Tensor]) -> List[Tensor]:
        pairs = [(x, d) for x, d in zip(self.outputs, upstream) if x is not None and x.requires_grad]
        found: Sequence[Optional[Tensor]] = torch.autograd.grad(
            [x for x, _ in pairs], self.needs_grad, [d for _, d in pairs], retain_graph=True, allow_unused=True
        )  # fmt: skip
        like = torch.contiguous_format
        return [torch.zeros_like(x, memory_format=like) if d is None else d.contiguous() for x, d in zip(self.needs_grad, found)]


class _Memory(np.ndarray[Any, Any]):
    """The memory of a byte that stands for what waits: that lives as long as the byte."""

    done: Any


TICKETS: "weakref.WeakValueDictionary[int, _Memory]" = weakref.WeakValueDictionary()


def ticket_for(done: Any) -> Tensor:
    memory = np.zeros(1, np.uint8).view(_Memory)
    memory.done = done
    ticket = torch.from_numpy(memory)
    TICKETS[ticket.data_ptr()] = memory
    return ticket


def behind(ticket: Tensor) -> Any:
    """What waits; None of a copy of the byte."""
    memory = TICKETS.get(ticket.data_ptr())
    return None if memory is None else memory.done


@contextlib.contextmanager
def _recording(grad: bool) -> Iterator[None]:
    """Inside an operator torch records nothing, and where torch.compile runs it vmap is off: let both be as outside."""
    include, exclude = (private(f"torch._C._dispatch_tls_local_{which}_set")() for which in ("include", "exclude"))
    with private("torch._C._ForceDispatchKeyGuard")(include, exclude - _keys_of_torch()), torch.set_grad_enabled(grad):
        yield


def run(
    kind: str, words: str, wants: str, numbers: Sequence[int], floats: Sequence[float], tensors: Sequence[Tensor]
) -> _Done:  # fmt: skip
    with _recording("g" in wants):
        own = [x.detach().requires_grad_() if want == "g" else x for want, x in zip(wants, tensors)]
        return _Done([x for want, x in zip(wants, own) if want == "g"], PASSES[kind].run(Inputs(words, numbers, floats, own)))


def _whole(
    kind: str, words: str, wants: str, numbers: Sequence[int], floats: Sequence[float], tensors: Sequence[Tensor]
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    done = run(kind, words, wants, numbers, floats, tensors)
    out, lse = done.outputs
    return out.detach().contiguous(), torch.empty(0) if lse is None else lse.detach().contiguous(), ticket_for(done)


def _whole_shapes(
    kind: str, words: str, wants: str, numbers: Sequence[int], floats: Sequence[float], tensors: Sequence[Tensor]
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out, lse = PASSES[kind].shapes(Inputs(words, numbers, floats, tensors))
    return out, torch.empty(0) if lse is None else lse, torch.empty(1, dtype=torch.uint8)


def _whole_backward(
    ticket: Tensor, upstream: Sequence[Tensor], kind: str, words: str, wants: str, numbers: Sequence[int],
    floats: Sequence[float], tensors: Sequence[Tensor],
) -> List[Tensor]:  # fmt: skip
    done: Optional[_Done] = behind(ticket)
    done = run(kind, words, wants, numbers, floats, tensors) if done is None else done
    return done.gradients(upstream)


def _whole_backward_shapes(
    ticket: Tensor, upstream: Sequence[Tensor], kind: str, words: str, wants: str, numbers: Sequence[int],
    floats: Sequence[float], tensors: Sequence[Tensor],
) -> List[Tensor]:  # fmt: skip
    return [x.new_empty(x.shape) for want, x in zip(wants, tensors) if want == "g"]


def _setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, ...]) -> None:
    *ctx.rest, tensors = inputs
    ctx.save_for_backward(*tensors, output[2])


def _backward(ctx: Any, d_out: Tensor, d_lse: Tensor, d_ticket: Any) -> Tuple[Any, ...]:
    *tensors, ticket = ctx.saved_tensors
    kind, words, wants, *numbers = ctx.rest
    found = iter(torch.ops.hga.whole_backward(ticket, [d_out, d_lse], kind, words, wants, *numbers, tensors))
    none: List[Any] = [None if x else [] for x in numbers]  # torch takes an empty list for one of tensors
    return None, None, None, *none, [next(found) if want == "g" else None for want in wants]


operator(_whole, _whole_shapes, _backward, _setup)
operator(_whole_backward, _whole_backward_shapes, refuse_second, save_nothing)


def drawn(dropout: float) -> Any:
    """What dropout is drawn by: from torch's generator; a tensor inside torch.compile."""
    seed = torch.randint(2**62, ()) if dropout else 0
    return seed if torch.compiler.is_compiling() else int(seed)


def whole(kind: str, inputs: Inputs) -> Tuple[Tensor, Tensor]:
    """The outputs of a pass; traced by torch.compile."""
    wants = "".join(["g" if torch.is_grad_enabled() and x.requires_grad else "t" for x in inputs.tensors])
    found: Tuple[Tensor, Tensor, Tensor] = torch.ops.hga.whole(kind, inputs.words, wants, inputs.whole, inputs.floats, inputs.tensors)
    return found[0], found[1]


# ---- what passes cache ----

T = TypeVar("T")
Cached = OrderedDict[Any, Tuple[List[Tensor], T]]


def cached(known: "Cached[T]", most: int, words: Any, make: Callable[[], T]) -> T:
    """What ``make`` gives for these words; the same for the same numbers and tensors, unchanged. Tensors of torch.inference_mode
    do not say when they change, and what is made of them is made each time."""
    used: List[Tensor] = []

    def key_of(x: Any) -> Any:
        if isinstance(x, Tensor):
            used.append(x)
            return id(x), None if x.is_inference() else x._version
        return tuple(map(key_of, x.items() if isinstance(x, dict) else x)) if isinstance(x, (list, tuple, dict)) else x

    key = key_of(words)
    if any(x.is_inference() for x in used):
        return make()
    if key not in known:
        known[key] = used, make()  # which keeps the tensors, so that no other gets their number
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)
    return known[key][1]
