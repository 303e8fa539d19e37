"""What every module of the package shares: the C library, its errors, arrays as tensors."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Optional, Tuple, TypeVar, cast

import numpy as np

from .errors import Error as Error, NoFile as NoFile, NoMemory as NoMemory, NotOffered as NotOffered, WrongType as WrongType, WrongValue as WrongValue
from .library import ffi as ffi, lib as lib
from .releases import perhaps, private

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_SHOWN = 120  # characters of a value in a message


class _Raised(threading.local):
    """What a Python function raised that C called on this thread: C goes on, and `check` raises it when C is back."""

    error: Optional[BaseException] = None


RAISED = _Raised()


def record_raised(kind: Any, error: BaseException, trace: Any) -> None:
    """For ``extern(onerror=..)``: the first exception is stored, nothing is printed."""
    if RAISED.error is None:
        RAISED.error = error.with_traceback(trace)


def error_detail() -> str:
    """What the library says of the last refusal, which may have bytes of a file that is no UTF-8."""
    return str(ffi.string(lib.hga_error_detail()).decode(errors="backslashreplace"))


def check(status: int) -> None:
    """Raise what a call of the library refused, or what a Python function raised that it called."""
    error, RAISED.error = RAISED.error, None
    if error is not None:
        raise error
    if status != lib.HGA_OK:
        name = ffi.string(lib.hga_status_name(status)).decode()
        raise Error(name, error_detail())


def refuse(text: str) -> Error:
    """An error of this package's own, in the library's words."""
    return Error("HGA_EINVAL", text) if not _traced() else cast(Error, ValueError(text))


def refuse_type(text: str) -> Error:
    """The same where the type is wrong, or where the word is unknown."""
    return WrongType("HGA_EINVAL", text) if not _traced() else cast(Error, TypeError(text))


def _traced() -> bool:
    """Is it dynamo that runs? It repeats the text of exceptions of Python's own, and knows no others."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def refuse_layout(x: Any, what: str) -> Error:
    """A tensor that is not one block of memory."""
    if not x.is_nested:
        return refuse(f"{what} has layout {x.layout}: hga takes dense tensors")
    return refuse(f"{what} has layout nested: hga takes dense tensors; hga.torch.Attention and MultiheadAttention take nested ones, and a "
                  "hierarchy of several lengths, such as hga.dense([30, 60]), takes the rows of all samples one behind the other")  # fmt: skip


def is_torch(x: Any) -> bool:
    module = type(x).__module__
    return module == "torch" or module.startswith("torch.")


# bfloat16, which numpy has no type for: its bits, in a type that no caller's array has by chance.
BF16 = np.dtype([("bf16", "<u2")], align=True)
TYPES = {np.dtype("<f4"): lib.HGA_F32, np.dtype("<f2"): lib.HGA_F16, BF16: lib.HGA_BF16}
_TORCH_TYPES = ("torch.float32", "torch.float16", "torch.bfloat16")


def _plain(x: Any, what: str) -> Any:
    """What torch.func's transforms have wrapped. Under vmap it is no one tensor: each sample has its own."""
    functorch = private("torch._C._functorch")
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            raise refuse(f"{what} is under torch.func.vmap: its numbers are needed here, and each sample has its own; give a batch instead")
        x = functorch.get_unwrapped(x)
    return x


def _beneath(x: Any, what: str) -> np.ndarray:
    plain = _plain(x, what)
    with private("torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack")():
        return _memory(plain)


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


def unmasked(x: Any, what: str) -> Any:
    """What numpy does not hide in part: outside of numpy a masked array is what lies under its mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise refuse_type(f"{what} is a masked array, and hga would read what its mask hides: fill it, with .filled(0) or another number")
    return x


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
        raise refuse(f"the address of {what} is no multiple of {x.itemsize} bytes")
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


def shown(value: Any) -> str:
    """A value that is wrong, in one line of a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 2] + ".."


def number(x: Any, what: str) -> float:
    unmasked(x, what)
    try:
        return float(x)
    except (TypeError, ValueError):
        raise refuse(f"{what} is {shown(x)}, not a number") from None
    except OverflowError:
        raise refuse(f"{what} is a whole number beyond those of float64") from None


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


def extern(**options: Any) -> Callable[[F], F]:
    """Python's half of a callback that C knows by the function's name."""
    return cast(Callable[[F], F], ffi.def_extern(**options))


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


def fold_tensor(t: Any, heads: int, graphs: int, by_token: bool) -> None:
    """Of a described tensor of so many heads, those of each of ``parts`` in one row: rows are a token's, or a part's, one after
    the other."""
    each, tokens = heads // graphs * t.head_stride, t.row_stride
    t.fold, t.row_stride, t.fold_stride = (graphs, each, tokens) if by_token else (t.rows, tokens, each)
    t.rows *= graphs


def utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise refuse(f"{what}: {text[e.start]!r} is no character of UTF-8") from None


def encoded(text: str, what: str) -> bytes:
    """UTF-8 for the library, to which a NUL is the end."""
    if not isinstance(text, str):
        raise refuse_type(f"{what} is {shown(text)}, not a text")
    return _without_nul(utf8(text, what), what, text)


def path_of(path: Any) -> str:
    """The name of a file or folder, as text."""
    try:
        name, raw = os.fsdecode(path), os.fsencode(path)
    except TypeError:
        raise refuse_type(f"file {shown(path)} is no name: a text or a pathlib.Path") from None
    except UnicodeEncodeError as e:
        raise refuse(f"file {path!r}: no file's name has {e.object[e.start]!r}") from None
    if not raw:
        raise refuse("the name of the file is empty")
    _without_nul(raw, "file", name)
    return name


def encoded_path(path: Any) -> bytes:
    return os.fsencode(path_of(path))


def _without_nul(found: bytes, what: str, text: str) -> bytes:
    if b"\0" in found:
        raise refuse(f"{what} {text!r} has a NUL inside")
    return found


def take_text(pointer: Any) -> str:
    """A text of the library's, given back to it."""
    text: str = ffi.string(pointer).decode()
    lib.hga_text_free(pointer)
    return text


def version() -> str:
    return str(ffi.string(lib.hga_version()).decode())


Shape = Tuple[int, ...]
