"""By which products a call computes: "f32", "bf16", or "auto", which follows the tensors and the processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ._arguments import one_of
from ._core import BF16, check, encoded, ffi, lib

if TYPE_CHECKING:
    from ._hierarchy import Hierarchy

AUTO = "auto"
PRECISIONS = {"f32": lib.HGA_PRECISION_F32, "bf16": lib.HGA_PRECISION_BF16}


def is_bf16(*tensors: Any) -> bool:
    """Are all of them of bfloat16, the package's, ml_dtypes' or torch's?"""
    return all(x.dtype == BF16 or str(x.dtype) in ("bfloat16", "torch.bfloat16") for x in tensors)


def multiplies_pairs(isa: Optional[str]) -> bool:
    """Does the instruction set, or by default this machine's best one, have products of bfloat16 pairs?"""
    found = ffi.new("int *")
    check(lib.hga_isa_pairs(encoded(isa, "isa") if isa else ffi.NULL, found))
    return bool(found[0])


def _multiplied_in_pairs(h: "Hierarchy", gradient: bool) -> bool:
    """Softmax of products is. Backward a program that goes level by level is faster in float32."""
    p = h._program
    stages = [p.stage[i] for i in range(p.n_stages)]
    softmax = p.scores == lib.HGA_SCORES_PRODUCT and all(s.normaliser == lib.HGA_NORMALISER_SOFTMAX for s in stages)
    return softmax and not h._functions and not (gradient and any(s.order != lib.HGA_FLAT for s in stages))


def known_precision(precision: Any) -> str:
    return one_of(precision, "precision", (AUTO, *PRECISIONS))


def resolved(precision: str, h: "Hierarchy", of_bf16: bool, isa: Optional[str], gradient: bool) -> str:
    """A plan's precision. Tensors of bfloat16 have no bits that rounding would take; those of float16 have, and float32's."""
    if known_precision(precision) == AUTO:
        return "bf16" if of_bf16 and _multiplied_in_pairs(h, gradient) and multiplies_pairs(isa) else "f32"
    return precision
