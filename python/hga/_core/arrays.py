"""Arrays of three types, float32, float16 and bfloat16, numpy's or torch's, as the library has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from .arguments import unmasked
from .library import Error, ffi, lib, refuse
from .releases import perhaps, private

if TYPE_CHECKING:
    import torch

    Array = TypeVar("Array", torch.Tensor, np.ndarray)  # in this order numpy is known where torch is not installed


def refuse_layout(x: Any, what: str) -> Error:
    """A tensor that is not one block of memory."""
    if not x.is_nested:
        return refuse(f"{what} has layout {x.layout}: hga takes dense tensors")
    return refuse(f"{what} has layout nested: hga takes dense tensors; hga.torch.Attention and MultiheadAttention take nested ones, and a "
                  "hierarchy of several lengths, such as hga.dense([30, 60]), takes the rows of all samples one after the other")  # fmt: skip


def is_torch(x: Any) -> bool:
    module = type(x).__module__
    return module == "torch" or module.startswith("torch.")


def is_torch_sparse(x: Any) -> bool:
    """A matrix of torch's: COO, CSR or CSC."""
    return is_torch(x) and str(getattr(x, "layout", "")) in ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc")


def is_edge_index(x: Any) -> bool:
    """PyTorch Geometric's EdgeIndex: a tensor with sizes and an order, recognized without importing its package."""
    return hasattr(x, "as_tensor") and hasattr(x, "sparse_size")


# bfloat16, which numpy has no type for: its bits, in a type that no caller's array has by chance.
BF16 = np.dtype([("bf16", "<u2")], align=True)
FLOAT32 = np.dtype(np.float32)
TYPES = {FLOAT32: lib.HGA_F32, np.dtype("<f2"): lib.HGA_F16, BF16: lib.HGA_BF16}
_TORCH_TYPES = ("torch.float32", "torch.float16", "torch.bfloat16")


def _beneath(x: Any, what: str) -> np.ndarray:
    """The memory of what torch.func's transforms have wrapped. Under vmap it is no one tensor: each sample has its own."""
    functorch = private("torch._C._functorch")
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            raise refuse(f"{what} is under torch.func.vmap: its numbers are needed here, and each sample has its own; give a batch instead")
        x = functorch.get_unwrapped(x)
    with private("torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack")():
        return _memory(x)


def written_out(x: Any) -> Any:
    """A tensor whose memory holds its numbers: the tensor itself, or a copy of one that is only said to be negated or zero."""
    return x.new_zeros(x.shape) if x._is_zerotensor() else x.resolve_neg()


def _memory(x: Any) -> np.ndarray:
    x = written_out(x.detach() if x.requires_grad else x)
    if str(x.dtype) == "torch.bfloat16":
        import torch

        return cast(np.ndarray, x.view(torch.int16).numpy().view(BF16))
    return cast(np.ndarray, x.numpy())


def _of_torch(x: Any, what: str) -> np.ndarray:
    """The memory of a tensor, bfloat16 as its bits."""
    import torch

    transformed = perhaps("_are_functorch_transforms_active")()
    if x.dtype is torch.float32 and x.is_cpu and x.layout is torch.strided and not (x.is_nested or transformed):
        return _memory(x)  # as most come: nothing to find out
    if x.device.type != "cpu":
        raise refuse(f"{what} is on {x.device}: hga computes on the CPU")
    if str(x.layout) != "torch.strided" or x.is_nested:
        raise refuse_layout(x, what)
    if str(x.dtype) not in _TORCH_TYPES:
        raise refuse(f"{what} has dtype {x.dtype}, not torch.float32, float16 or bfloat16: convert it with .float()")
    return _beneath(x, what) if transformed else _memory(x)


def as_numpy(x: Any, what: str) -> np.ndarray:
    """The same memory as a numpy array of float32, float16 or BF16: a copy only of a tensor that is lazily negated, or lazily zero."""
    if is_torch(x):
        x = _of_torch(x, what)
    elif isinstance(x, np.ndarray):
        unmasked(x, what)
    else:
        if not hasattr(x, "__dlpack__"):
            raise refuse(f"{what} is a {type(x).__name__}, not a numpy array or a torch tensor")
        if not hasattr(np, "from_dlpack"):
            raise refuse(f"{what} is a {type(x).__name__}, which needs numpy 1.23 or newer, and {np.__version__} is installed: give a numpy array")
        try:
            x = np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError) as e:
            raise refuse(f"{what} is a {type(x).__name__} that numpy does not take: {e}") from None
    if x.dtype not in TYPES:
        if x.dtype.name != "bfloat16":
            raise refuse(f"{what} has dtype {x.dtype}, not float32, float16 or bfloat16: convert it with .astype(np.float32)")
        x = x.view(BF16)  # ml_dtypes'
    if not x.flags.aligned:
        raise refuse(f"the address of {what} is not a multiple of {x.itemsize} bytes")
    return cast(np.ndarray, x)


def unrepeated(x: np.ndarray) -> np.ndarray:
    """The array itself, or a copy where heads or rows repeat (stride 0), as of ``k.expand(..)``: to the library 0 means packed.
    Samples may repeat."""
    if 0 not in x.strides or all(n == 1 for n, step in zip(x.shape[-3:-1], x.strides[-3:-1]) if step == 0):
        return x
    once = x[tuple(slice(None if step else 1) for step in x.strides[:-3])]
    return np.broadcast_to(np.ascontiguousarray(once), x.shape)


def widened(x: np.ndarray) -> np.ndarray:
    """The same numbers in float32: the array itself where it is float32."""
    if x.dtype == BF16:
        return (x.view("<u2").astype("<u4") << 16).view("<f4")
    return x.astype(np.float32, copy=False)


def narrowed(x: np.ndarray, to: np.dtype) -> np.ndarray:
    """Float32 in another of the types, rounded to nearest, ties to even."""
    if to != BF16:
        return x.astype(to, copy=False)
    bits = np.ascontiguousarray(x).view("<u4")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    quiet = bits >> 16 | 0x40
    return np.where(np.isnan(x), quiet, rounded).astype("<u2").view(BF16)


def as_floats(x: Any, what: str) -> np.ndarray:
    """Float32 of what may have 16 bits: of small things, that is, and of what is copied anyway."""
    return widened(as_numpy(x, what))


def _in_one_shape(x: Any, what: str, dtype: Any) -> np.ndarray:
    unmasked(x, what)
    try:
        return np.asarray(x, dtype)
    except (TypeError, ValueError) as e:
        raise refuse(f"{what}: {e}") from None


def floats(x: Any, what: str) -> np.ndarray:
    """Real numbers, of lists as well, in float32."""
    return _in_one_shape(x, what, np.float32)


def ids(x: Any, what: str) -> np.ndarray:
    """Whole numbers as the library takes them."""
    if is_torch(x):
        x = written_out(x.detach().cpu()).numpy()
    x = _in_one_shape(x, what, np.int32 if isinstance(x, (list, tuple)) and not len(x) else None)
    if x.dtype.kind not in "iu":
        raise refuse(f"{what} holds {x.dtype}, not whole numbers")
    if x.size and not np.can_cast(x.dtype, np.int32) and (x.min() < -(2**31) or x.max() >= 2**31):
        raise refuse(f"{what} holds numbers beyond 32 bits")
    return np.ascontiguousarray(x, dtype=np.int32)


def floats_at(x: np.ndarray) -> Any:
    return ffi.cast("float *", x.ctypes.data)


def strides_of(x: np.ndarray, axis: int) -> int:
    """The distance of neighbours along an axis, in numbers."""
    if x.strides[axis] % x.itemsize:
        raise refuse(f"strides {x.strides} are no multiples of {x.itemsize} bytes")
    if x.strides[axis] == 0 and x.shape[axis] > 1 and x.size:  # 0 means packed to the library
        raise refuse(f"an array of shape {x.shape} repeats itself along an axis (stride 0): make it contiguous")
    return x.strides[axis] // x.itemsize


def fill_tensor(t: Any, x: np.ndarray, rows_axis: int, heads_axis: int) -> None:
    """Describe [rows][heads][columns] of ``x`` (three axes in any order, columns last) to the library."""
    t.rows, t.dtype = x.shape[rows_axis], TYPES[x.dtype]
    if x.flags.c_contiguous and x.size:  # numpy is slow to say where an array lies
        steps, size = x.strides, x.itemsize
        t.data, t.row_stride, t.head_stride = ffi.from_buffer(x), steps[rows_axis] // size, steps[heads_axis] // size
        return
    t.data = ffi.cast("void *", x.ctypes.data)
    t.row_stride, t.head_stride = strides_of(x, rows_axis), strides_of(x, heads_axis)


def fill_rows(t: Any, x: np.ndarray, rows_axis: int, heads_axis: int) -> None:
    """The same of [rows][heads], one number each."""
    t.data = ffi.cast("void *", x.ctypes.data)
    t.rows = x.shape[rows_axis]
    t.row_stride, t.head_stride = x.strides[rows_axis] // 4, x.strides[heads_axis] // 4
