"""Ctrl-C ends what the library is at: on the main thread, where Python has signals' handlers run, its long calls ask whether one has raised."""

from __future__ import annotations

import threading
from typing import Any

from .values import RAISED, extern, ffi, lib, record_raised


@extern(error=lib.HGA_EEXTERNAL, onerror=record_raised)
def hga_py_interrupt(context: Any) -> int:
    """Handlers run as this function begins; what they raise ends the call, and ``check`` raises it."""
    return int(lib.HGA_OK if RAISED.error is None else lib.HGA_EEXTERNAL)


if threading.current_thread() is threading.main_thread():
    lib.hga_set_interrupt(lib.hga_py_interrupt, ffi.NULL)
