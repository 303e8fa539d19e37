"""Operators of torch: what torch.compile sees of a call, one node that it does not look into.

They are made by torch.library.Library, since torch.library.custom_op imports the compiler at the first call of a process."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

import torch

from ._core import Error

LIBRARY = torch.library.Library("hga", "FRAGMENT")  # type: ignore[no-untyped-call]


def _unseen(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, into which dynamo does not look where a program has imported it."""
    disabled: Optional[Callable[..., Any]] = None

    def call(*arguments: Any) -> Any:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return run(*arguments)
        if disabled is None:
            disabled = torch._dynamo.disable(run)  # type: ignore[no-untyped-call]
        return disabled(*arguments)

    return call


def operator(
    run: Callable[..., Any], fake: Callable[..., Any], backward: Callable[..., Any], setup: Callable[..., None]
) -> None:  # fmt: skip
    """An operator with the name and the annotations of ``run``, without the underscore in front: ``fake`` gives shapes,
    ``backward`` gradients of what ``setup`` kept."""
    name = run.__name__.lstrip("_")
    schema = torch.library.infer_schema(run, mutates_args=())
    LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    LIBRARY.impl(name, _unseen(run), "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"hga::{name}", fake, lib=LIBRARY)
    torch.library.register_autograd(f"hga::{name}", backward, setup_context=setup, lib=LIBRARY)


def refuse_second(ctx: Any, *d: Any) -> Any:
    raise Error("HGA_EUNSUPPORTED", "hga's attention has no second derivative")


def refuse_forward(ctx: Any, *d: Any) -> Any:
    raise Error(
        "HGA_EUNSUPPORTED",
        "hga's attention has no forward-mode derivative (jvp, jacfwd, dual numbers): use reverse mode (grad, vjp, jacrev)",
    )


def keep_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """What a backward pass keeps for its own."""
