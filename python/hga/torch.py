"""hga in torch: attention as a custom operator, differentiable and opaque to torch.compile."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, cast

import numpy as np
import torch

from ._arguments import answered
from ._core import Error, refuse
from ._call import Tables
from ._hierarchy import KNOWN, Hierarchy

def _hierarchy(number: int) -> Hierarchy:
    h = KNOWN.get(number)
    if h is None:
        raise refuse("the hierarchy of this operator is gone")
    return h


def _numpy(x: torch.Tensor) -> np.ndarray:
    return x.detach().numpy()


def _tables(*given: Optional[torch.Tensor]) -> Dict[str, Any]:
    return {name: _numpy(x) for name, x in zip(Tables.NAMES, given) if x is not None}


Tensor = torch.Tensor
Optional_ = Optional[torch.Tensor]


@torch.library.custom_op("hga::attention", mutates_args=())
def _attention(
    number: int, q: Tensor, k: Tensor, v: Tensor, rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_,
    node_pos: Optional_, type_scale: Optional_, layout: str, scale: float, dropout: float, seed: int, layer: int,
    precision: str, threads: int, isa: str, want_lse: bool, taped: bool,
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    h = _hierarchy(number)
    out, lse, tape = h._forward(
        q, k, v, layout, _tables(rel_key, rel_bias, edge_bias, node_pos, type_scale), scale, dropout, seed, layer,
        precision, threads or torch.get_num_threads(), isa or None, want_lse, taped,
    )  # fmt: skip
    return (
        torch.from_numpy(out),
        torch.from_numpy(lse) if lse is not None else torch.empty(0),
        torch.from_numpy(tape) if tape is not None else torch.empty(0, dtype=torch.uint8),
    )


@_attention.register_fake
def _(
    number: int, q: Tensor, k: Tensor, v: Tensor, rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_,
    node_pos: Optional_, type_scale: Optional_, layout: str, scale: float, dropout: float, seed: int, layer: int,
    precision: str, threads: int, isa: str, want_lse: bool, taped: bool,
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out = q.new_empty(q.shape[:-1] + (v.shape[-1],))
    lse = q.new_empty(q.shape[:-1] if want_lse else (0,))
    if not taped:
        return out, lse, torch.empty(0, dtype=torch.uint8)
    h = _hierarchy(number)
    tape = torch.empty(q.shape[:-3] + (h._tape_bytes(q, k, v, layout, precision, threads or torch.get_num_threads(),
                                                    isa or None, dropout, edge_bias is not None, node_pos),),
                       dtype=torch.uint8)  # fmt: skip
    return out, lse, tape


@torch.library.custom_op("hga::attention_backward", mutates_args=())
def _attention_backward(
    number: int, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor,
    rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_, node_pos: Optional_, type_scale: Optional_, layout: str,
    scale: float, dropout: float, seed: int, layer: int, precision: str, threads: int, isa: str, wanted: str,
) -> List[Tensor]:  # fmt: skip
    h = _hierarchy(number)
    grads = h._backward(
        q, k, v, _numpy(out), _numpy(tape), _numpy(d_out.contiguous()),
        None if d_lse is None else _numpy(d_lse.contiguous()), layout,
        _tables(rel_key, rel_bias, edge_bias, node_pos, type_scale), scale, dropout, seed, layer, precision,
        threads or torch.get_num_threads(), isa or None, wanted.split(),
    )  # fmt: skip
    return [torch.from_numpy(grads[name]) for name in wanted.split()]


@_attention_backward.register_fake
def _(
    number: int, d_out: Tensor, d_lse: Optional_, q: Tensor, k: Tensor, v: Tensor, out: Tensor, tape: Tensor,
    rel_key: Optional_, rel_bias: Optional_, edge_bias: Optional_, node_pos: Optional_, type_scale: Optional_, layout: str,
    scale: float, dropout: float, seed: int, layer: int, precision: str, threads: int, isa: str, wanted: str,
) -> List[Tensor]:  # fmt: skip
    given = dict(query=q, key=k, value=v, rel_key=rel_key, rel_bias=rel_bias, edge_bias=edge_bias, node_pos=node_pos,
                 type_scale=type_scale)  # fmt: skip
    return [torch.empty(given[name].shape) for name in wanted.split()]  # type: ignore[union-attr]


_DIFFERENTIABLE = ("query", "key", "value") + Tables.NAMES


def _setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor, Tensor]) -> None:
    number, tensors, ctx.rest, ctx.want_lse = inputs[0], inputs[1:9], inputs[9:17], inputs[17]
    out, _, tape = output
    ctx.h = _hierarchy(number)  # keeps it alive
    ctx.number = number
    ctx.save_for_backward(*tensors, out, tape)


def _backward(ctx: Any, d_out: Tensor, d_lse: Tensor, d_tape: Any) -> Tuple[Any, ...]:
    *tensors, out, tape = ctx.saved_tensors
    wanted = [name for i, name in enumerate(_DIFFERENTIABLE) if ctx.needs_input_grad[1 + i] and tensors[i] is not None]
    q, k, v, *tables = tensors
    found = torch.ops.hga.attention_backward(
        ctx.number, d_out, d_lse if ctx.want_lse else None, q, k, v, out, tape, *tables, *ctx.rest, " ".join(wanted)
    )
    by_name = dict(zip(wanted, found))
    return (None,) + tuple(by_name.get(name) for name in _DIFFERENTIABLE) + (None,) * 10


_attention.register_autograd(_backward, setup_context=_setup)


def _refuse_second(ctx: Any, *d: Any) -> Any:
    raise Error("HGA_EUNSUPPORTED", "hga's attention has no second derivative")


_attention_backward.register_autograd(_refuse_second, setup_context=lambda ctx, inputs, output: None)


def _checked(x: Any, what: str) -> Optional[Tensor]:
    if x is None:
        return None
    if isinstance(x, np.ndarray):
        x = torch.from_numpy(x)
    if not isinstance(x, torch.Tensor):
        raise refuse(f"{what} is a {type(x).__name__}, not a tensor")
    if x.device.type not in ("cpu", "meta"):
        raise refuse(f"{what} is on {x.device}: hga computes on the CPU")
    if x.dtype != torch.float32:
        raise refuse(f"{what} has dtype {x.dtype}, not torch.float32: convert it with .float()")
    return x


@answered
def attention(h: Hierarchy, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, scale: float = 0.0,
              rel_key: Any = None, rel_bias: Any = None, edge_bias: Any = None, node_pos: Any = None, type_scale: Any = None,
              dropout: float = 0.0, seed: int = 0, layer: int = 0, precision: str = "f32", threads: int = 0,
              isa: Optional[str] = None) -> Any:  # fmt: skip
    """Hierarchy.attention for tensors, with gradients of q, k, v and of every table that asks for one."""
    tensors = [_checked(x, n) for x, n in ((q, "query"), (k, "key"), (v, "value"))]
    tables = [_checked(x, n) for x, n in zip((rel_key, rel_bias, edge_bias, node_pos, type_scale), Tables.NAMES)]
    taped = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors + tables)
    out, lses, _ = torch.ops.hga.attention(h._number, *tensors, *tables, layout, float(scale), float(dropout), seed, layer,
                                           precision, threads, isa or "", lse, taped)  # fmt: skip
    return (out, lses) if lse else out


class Attention(torch.nn.Module):
    """Multi-head self-attention over a hierarchy: [batch, tokens, width] in and out. Dropout draws a new seed a call while
    training."""

    def __init__(self, hierarchy: Hierarchy, width: int, heads: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        if width % heads:
            raise refuse(f"{heads} heads do not divide width {width}")
        self.hierarchy, self.heads, self.dropout = hierarchy, heads, dropout
        self.project = torch.nn.Linear(width, 3 * width, bias=bias)
        self.out = torch.nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.project(x).view(batch, tokens, 3, self.heads, width // self.heads).unbind(2)
        drop = self.dropout if self.training else 0.0
        seed = int(torch.randint(2**62, ())) if drop else 0
        y = attention(self.hierarchy, q, k, v, layout="bnhd", dropout=drop, seed=seed)
        return cast(Tensor, self.out(y.reshape(batch, tokens, width)))
