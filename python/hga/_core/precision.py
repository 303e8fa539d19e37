"""By which products a call computes: "f32", "bf16", or "auto", which None is as well. What "auto" comes to is found here for every call:
it follows the types of tensors, the processor, and what the program makes of products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .arguments import encoded, one_of
from .arrays import BF16, FLOAT32
from .library import check, ffi, lib, refuse
from .normalisers import SOFTMAX

if TYPE_CHECKING:
    from .._graphs.calls import Calls

AUTO = "auto"
PRECISIONS = {"f32": lib.HGA_PRECISION_F32, "bf16": lib.HGA_PRECISION_BF16}


def is_bf16(*tensors: Any) -> bool:
    """Are all of them of bfloat16, the package's, ml_dtypes' or torch's?"""
    return all(_names_bf16(getattr(x, "dtype", None)) for x in tensors)


def _names_bf16(dtype: Any) -> bool:
    if dtype is FLOAT32:  # whose text numpy takes 5 us to make
        return False
    return dtype == BF16 or str(dtype) in ("bfloat16", "torch.bfloat16")


def multiplies_pairs(isa: Optional[str]) -> bool:
    """Does the instruction set, or by default this machine's best one, have products of bfloat16 pairs?"""
    found = ffi.new("int *")
    check(lib.hga_isa_pairs(encoded(isa, "isa") if isa else ffi.NULL, found))
    return bool(found[0])


def _multiplied_in_pairs(h: "Calls", gradient: bool) -> bool:
    """Softmax of products is. Backward a program that goes level by level is faster in float32."""
    p = h._program
    stages = [p.stage[i] for i in range(p.n_stages)]
    softmax = p.scores == lib.HGA_SCORES_PRODUCT and all(s.normaliser == lib.HGA_NORMALISER_SOFTMAX for s in stages)
    return softmax and not h._functions and not (gradient and any(s.order != lib.HGA_FLAT for s in stages))


def known_precision(precision: Any) -> str:
    return AUTO if precision is None else one_of(precision, "precision", (AUTO, *PRECISIONS))


def resolved(precision: Any, h: "Calls", of_bf16: bool, isa: Optional[str], gradient: bool) -> str:
    """A plan's precision. Tensors of bfloat16 have no bits that rounding would take; those of float16 have, and float32's."""
    requested = known_precision(precision)
    if requested != AUTO:
        return requested
    return "bf16" if of_bf16 and _multiplied_in_pairs(h, gradient) and multiplies_pairs(isa) else "f32"


def of_choice(precision: Any, isa: Optional[str], *scored: Any) -> str:
    """By which products blocks are chosen. Their scores are products of these tensors, whatever is made of values or of weights."""
    requested = known_precision(precision)
    if requested != AUTO:
        return requested
    return "bf16" if is_bf16(*scored) and multiplies_pairs(isa) else "f32"


def of_tool(precision: Any, normaliser: Optional[str], *tensors: Any) -> str:
    """That of a command of the tool, which does not see types: files of .npy have no bfloat16."""
    requested = known_precision(precision)
    if requested == AUTO and normaliser not in (None, SOFTMAX):
        return "f32"
    return of_choice(requested, None, *tensors)


class RowType:
    """The type of a decoder's rows, which precision "auto" follows: bfloat16, or the others, whose products are float32's. It is declared
    beforehand, or the first rows tell it. None: rows of any type may come."""

    def __init__(self, precision: Any, h: "Calls", declared: Optional[str], isa: Optional[str], same: bool) -> None:
        requested = known_precision(precision)
        self._found = {of: resolved(requested, h, of == "bf16", isa, False) for of in ("f32", "bf16")}
        self.declared, self.by_choice = declared, h._choosing is not None
        self.binds = requested == AUTO and (same or declared is None) and _multiplied_in_pairs(h, False)

    @property
    def precision(self) -> str:
        """"auto" where rows are still to tell."""
        if self.declared is None and self._found["f32"] != self._found["bf16"]:
            return AUTO
        return self._found[self.declared or "f32"]

    def of(self, q: Any, k: Any, v: Any) -> str:
        """That of rows like these."""
        if self.by_choice and is_bf16(q, k) and not is_bf16(v):
            raise refuse(f"query and key are bfloat16, value is {_name(v)}: what attention chooses by products of bfloat16 and sums in float32, "
                         "a decoder does not; give rows of one type, or say precision='f32' or 'bf16' of both")  # fmt: skip
        return "bf16" if is_bf16(q, k, v) else "f32"


def refused_rows(of: str, *rows: Any) -> Exception:
    """Of another type than the decoder's."""
    came, own = " and ".join(dict.fromkeys(map(_name, rows))), "bfloat16" if of == "bf16" else "float32 or float16"
    return refuse(f"rows of {came} come to a decoder of rows of {own}, whose type precision='auto' follows: convert them, or make the "
                  "decoder with precision='f32' or 'bf16', which takes rows of any type")  # fmt: skip


def _name(x: Any) -> str:
    return "bfloat16" if is_bf16(x) else str(x.dtype).replace("torch.", "")
