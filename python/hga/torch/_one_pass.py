"""The operator of torch, which torch.compile takes as one node, and does not look into: a pass, of which there are several kinds.

A kind that has gradients of its own runs by itself. Others run as they do outside of torch.compile, with gradients. What a
backward pass needs may wait behind one byte, which torch.compile takes for all of it: the byte's address finds the rest, which
lives as long as the byte. A copy of the byte finds nothing: then the forward pass runs once more."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import OrderedDict
from operator import or_
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np
import torch

from .._core.releases import private
from .._core.library import Error
from .._graphs.hierarchy import Hierarchy

Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]
Outputs = Tuple[Tensor, Optional_]  # the output, and perhaps its log-sum-exp


class Inputs(NamedTuple):
    """The inputs of a pass. Numbers are not in its words, since torch.compile may not know them yet."""

    words: str
    whole: Sequence[int]
    floats: Sequence[float]
    tensors: Sequence[Tensor]
    names: str = ""  # of tensors after query, key and value, then of floats after the first, where they have some
    wants: str = ""  # of each tensor: "g", its gradient is needed, or "t"

    def named(self) -> Dict[str, Any]:
        return dict(zip(self.names.split(), [*self.tensors[3:], *self.floats[1:]]))


class Pass(NamedTuple):
    """A kind of pass: ``run`` gives outputs, ``shapes`` tensors like them. One that has gradients of its own gives a tape, too,
    as the third of both; ``back`` takes the tape, or the output and the tape, and gives the gradients that are needed."""

    run: Callable[[Inputs], Any]
    shapes: Callable[[Inputs], Any]
    back: Optional[Callable[[Inputs, Sequence[Tensor], Optional_, Optional_], List[Tensor]]] = None
    keeps_output: bool = False
    attends_by: Optional[Callable[[Inputs], Iterable[Tuple[Hierarchy, int, int]]]] = None  # with heads, and how often


PASSES: Dict[str, Pass] = {}


# ---- passes that run as they do outside ----


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


@functools.lru_cache(maxsize=None)
def _keys_of_torch() -> Any:
    """What torch does around an operator: autograd, and transforms."""
    one = private("torch._C.DispatchKeySet")
    names = "AutogradCPU", "ADInplaceOrView", "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"
    return functools.reduce(or_, (one(private(f"torch._C.DispatchKey.{name}")) for name in names))


@contextlib.contextmanager
def _recording(grad: bool) -> Iterator[None]:
    """Inside an operator torch records nothing, and where torch.compile runs it vmap is off: let both be as outside."""
    include, exclude = (private(f"torch._C._dispatch_tls_local_{which}_set")() for which in ("include", "exclude"))
    with private("torch._C._ForceDispatchKeyGuard")(include, exclude - _keys_of_torch()), torch.set_grad_enabled(grad):
        yield


class Done(NamedTuple):
    """A pass that was recorded."""

    tensors: List[Tensor]
    outputs: Outputs

    def gradients(self, wants: str, *upstream: Optional_) -> List[Tensor]:
        inputs = [x for want, x in zip(wants, self.tensors) if want == "g"]
        pairs = [(x, d) for x, d in zip(self.outputs, upstream) if x is not None and d is not None and x.requires_grad]
        found: Sequence[Optional_] = torch.autograd.grad(
            [x for x, _ in pairs], inputs, [d for _, d in pairs], retain_graph=True, allow_unused=True
        )  # fmt: skip
        like = torch.contiguous_format
        return [torch.zeros_like(x, memory_format=like) if d is None else d.contiguous() for x, d in zip(inputs, found)]


def recorded(kind: str, inputs: Inputs) -> Done:
    with _recording("g" in inputs.wants):
        own = [x.detach().requires_grad_() if want == "g" else x for want, x in zip(inputs.wants, inputs.tensors)]
        return Done(own, PASSES[kind].run(inputs._replace(tensors=own)))


# ---- the operator ----


def _forth(kind: str, *arguments: Any) -> Tuple[Tensor, Tensor, Tensor]:
    inputs = Inputs(*arguments)
    if PASSES[kind].back is not None:
        out, lse, tape = PASSES[kind].run(inputs)
    else:
        done = recorded(kind, inputs)
        out, lse = (None if x is None else x.detach().contiguous() for x in done.outputs)
        tape = ticket_for(done)
    return out, torch.empty(0) if lse is None else lse, tape


def _shapes(kind: str, *arguments: Any) -> Tuple[Tensor, Tensor, Tensor]:
    out, lse, *tape = PASSES[kind].shapes(Inputs(*arguments))
    return out, torch.empty(0) if lse is None else lse, tape[0] if tape else torch.empty(1, dtype=torch.uint8)


def _back(d_out: Optional_, d_lse: Optional_, kept: Sequence[Tensor], kind: str, *arguments: Any) -> List[Tensor]:
    inputs, back = Inputs(*arguments), PASSES[kind].back
    if back is not None:
        return back(inputs, kept, d_out, d_lse)
    done: Optional[Done] = behind(kept[-1])
    if done is None or any(want == "g" and not x.requires_grad for want, x in zip(inputs.wants, done.tensors)):
        done = recorded(kind, inputs)
    return done.gradients(inputs.wants, d_out, d_lse)


def _back_shapes(d_out: Optional_, d_lse: Optional_, kept: Sequence[Tensor], kind: str, *arguments: Any) -> List[Tensor]:
    inputs = Inputs(*arguments)
    return [x.new_empty(x.shape) for want, x in zip(inputs.wants, inputs.tensors) if want == "g"]


def _kept_of(kind: Pass, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """What no one may write into before the backward pass. What torch recorded in a pass may need its outputs, whose memory they share, and
    inductor writes over what nothing keeps."""
    return outputs if kind.back is None else outputs[:1] if kind.keeps_output else []


def _save(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.kind, ctx.words, ctx.whole, ctx.floats, tensors, ctx.names, _ = inputs
    *outputs, tape = output
    ctx.save_for_backward(*tensors, *_kept_of(PASSES[ctx.kind], outputs), tape)
    ctx.set_materialize_grads(False)


def wanted(needs: Sequence[bool]) -> str:
    return "".join(["g" if need else "t" for need in needs])


def _gradients(ctx: Any, d_out: Optional_, d_lse: Optional_, d_tape: Any) -> Tuple[Any, ...]:
    needs, saved = ctx.needs_input_grad[4], ctx.saved_tensors
    found: Iterator[Any] = iter(())
    if d_out is not None or d_lse is not None:
        inputs = ctx.words, ctx.whole, ctx.floats, saved[: len(needs)], ctx.names, wanted(needs)
        found = iter(torch.ops.hga.attention_backward(d_out, d_lse, saved[len(needs) :], ctx.kind, *inputs))
    numbers: List[Any] = [None if x else [] for x in (ctx.whole, ctx.floats)]  # torch takes an empty list for one of tensors
    return None, None, *numbers, [next(found, None) if need else None for need in needs], None, None


def refuse_second(ctx: Any, *d: Any) -> Any:
    raise Error("HGA_EUNSUPPORTED", "hga's attention has no second derivative")


def unseen(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, into which dynamo does not look where a program has imported it."""
    disabled: Optional[Callable[..., Any]] = None

    def call(*arguments: Any) -> Any:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return run(*arguments)
        if disabled is None:
            disabled = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
        return disabled(*arguments)

    return call


# torch.library.custom_op would import the compiler at the first call of a process.
LIBRARY = torch.library.Library("hga", "FRAGMENT")  # type: ignore[no-untyped-call]
_PASS = "str kind, str words, SymInt[] whole, float[] floats, Tensor[] tensors, str names, str wants"
_GRADIENTS = f"Tensor? d_out, Tensor? d_lse, Tensor[] kept, {_PASS}"
_OPERATORS: Sequence[Tuple[Any, ...]] = (
    ("attention", f"({_PASS}) -> (Tensor, Tensor, Tensor)", _forth, _shapes, _gradients, _save),
    ("attention_backward", f"({_GRADIENTS}) -> Tensor[]", _back, _back_shapes, refuse_second, lambda ctx, inputs, output: None),
)

for _name, _schema, _run, _fake, _backward, _setup in _OPERATORS:
    LIBRARY.define(_name + _schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    LIBRARY.impl(_name, unseen(_run), "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"hga::{_name}", _fake, lib=LIBRARY)
    torch.library.register_autograd(f"hga::{_name}", _backward, setup_context=_setup, lib=LIBRARY)


def whole(kind: str, inputs: Inputs) -> Tuple[Tensor, Tensor]:
    """The outputs of a pass; traced by torch.compile."""
    wants = wanted([torch.is_grad_enabled() and x.requires_grad for x in inputs.tensors])
    words, numbers, floats, tensors, names, _ = inputs
    found: Tuple[Tensor, Tensor, Tensor] = torch.ops.hga.attention(kind, words, numbers, floats, tensors, names, wants)
    return found[0], found[1]


def drawn(dropout: float) -> Any:
    """What dropout is drawn by: from torch's generator; a tensor inside torch.compile."""
    seed = torch.randint(2**62, ()) if dropout else 0
    return seed if torch.compiler.is_compiling() else int(seed)


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
