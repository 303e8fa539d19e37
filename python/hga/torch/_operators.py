"""Inputs of torch's operator: tensors and tables, checked, and numbers as it takes them."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

from .._core.arrays import BF16, as_numpy, is_torch, refuse_layout
from .._core.library import Error, refuse, refuse_type
from .._core.arguments import number
from .._core.tables import ROWS, are_numbers, single

Tensor = torch.Tensor
PLAIN = (torch.Tensor, torch.nn.Parameter)
SIXTEEN = (torch.float16, torch.bfloat16)


def refuse_forward(ctx: Any, *d: Any) -> Any:
    raise Error(
        "HGA_EUNSUPPORTED",
        "hga's attention has no forward-mode derivative (jvp, jacfwd, dual numbers): use reverse mode (grad, vjp, jacrev)",
    )


def has_tangent(x: Any) -> bool:
    return isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def has_numbers(*tensors: Any) -> bool:
    """Is there more than a shape, as where tensors are torch's stand-ins?"""
    return all(x is None or (type(x) in PLAIN and not x.is_meta) for x in tensors)


def tensor_of(x: np.ndarray) -> Tensor:
    """An array of the package's as a tensor, the same memory."""
    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype == BF16 else torch.from_numpy(x)


def checked(x: Any, what: str) -> Tensor:
    if not is_torch(x):
        a = as_numpy(x, what)
        x = tensor_of(a if a.flags.writeable else a.copy())  # torch has no tensors that are only read
    if not isinstance(x, torch.Tensor):
        raise refuse(f"{what} is a {type(x).__name__}, not a tensor")
    if x.device.type not in ("cpu", "meta"):
        raise refuse(f"{what} is on {x.device}: hga computes on the CPU")
    if x.layout != torch.strided or x.is_nested:
        raise refuse_layout(x, what)
    if x.dtype != torch.float32 and x.dtype not in SIXTEEN:
        raise refuse(f"{what} has dtype {x.dtype}, not torch.float32, float16 or bfloat16: convert it with .float()")
    return x


def query(x: Any, what: str) -> Tensor:
    """A query, key or value; under autocast of CPUs in its type, as torch's own attention has it."""
    if x is None:
        raise refuse(f"{what} is None, not a tensor")
    if isinstance(x, torch.Tensor) and x.is_floating_point() and torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu")) if x.dtype != torch.float64 else x
    return checked(x, what)


def _table(x: Any, name: str) -> Any:
    """A table in float32: of 16 bits it is copied, and its gradient is rounded. A plain number stays one."""
    row = ROWS[name]
    if row.is_number:
        if not isinstance(x, torch.Tensor):
            if torch.compiler.is_compiling():  # where it may be any number
                return torch.ones(()) * number(x, name)
            return x if type(x) is float else number(x, name)
        x = single(x, name)
    x = checked(x, name)
    row.check_shape(x.shape)
    if x.requires_grad and not row.has_gradient and torch.is_grad_enabled():
        raise refuse(f"there is no gradient of {name}: detach() it")
    return x.float() if x.dtype in SIXTEEN else x


def tables_of(by_name: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of a call, as numbers and as tensors."""
    known = are_numbers(by_name) and not torch.compiler.is_compiling()
    return by_name if known else {name: _table(x, name) for name, x in by_name.items() if x is not None}


class Flattened(NamedTuple):
    """The tables of a call, as the operator takes them: names of the tensors, then of the numbers. (torch has gradients of
    tensors in a list, and of none where some of its entries are None.)"""

    names: str
    tables: List[Tensor]
    numbers: List[float]


def flattened(by_name: Mapping[str, Any]) -> Flattened:
    tables = {name: x for name, x in by_name.items() if isinstance(x, torch.Tensor)}
    numbers = {name: x for name, x in by_name.items() if name not in tables and x is not None}
    return Flattened(" ".join([*tables, *numbers]), list(tables.values()), list(numbers.values()))


def signed(seed: int) -> int:
    """An operator's numbers have a sign, and seeds 64 bits."""
    return seed - 2**64 if seed >= 2**63 else seed


def traced_seed(seed: Any) -> int:
    """Inside torch.compile, signed: a number of the program, or one of torch's symbols."""
    if isinstance(seed, (bool, float)):
        raise refuse_type(f"seed is {seed}, not a whole number")
    if not 0 <= seed < 2**64:
        raise refuse(f"seed is {seed}, not at least 0 and less than {2**64}")
    return signed(seed)


def unsigned(seed: int) -> int:
    """As the caller passed it; of shapes it may be one of torch's symbols."""
    return seed & (2**64 - 1) if type(seed) is int else seed
