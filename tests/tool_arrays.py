"""Arrays in files for the drawn tests of the tool: element types, and running the tool."""

import io
import os
import subprocess

import numpy as np

QUICK = bool(os.environ.get("HGA_TEST_QUICK"))


def bf16(x):
    bits = np.ascontiguousarray(x, "<f4").view("u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def typed(x, kind):
    """float32 numbers in another type, as .npy files have it."""
    return bf16(x).view("V2") if kind == "bf16" else x.astype(kind)


def single(x):
    """Back in float32."""
    if x.dtype == np.dtype("V2"):
        return (np.ascontiguousarray(x).view("<u2").astype("u4") << 16).view("f4")
    return x.astype("<f4")


def npy(x):
    stream = io.BytesIO()
    np.save(stream, x)
    return stream.getvalue()


def same(got, want):
    """One array and nothing after it, of this type and shape, bit by bit."""
    stream = io.BytesIO(got)
    try:
        x = np.load(stream)
    except (ValueError, EOFError):
        return False
    return stream.read() == b"" and x.dtype == want.dtype and x.shape == want.shape and x.tobytes() == want.tobytes()


def added(parts):
    """One after the other in float32."""
    x = np.zeros_like(parts[0])
    for part in parts:
        x = x + part
    return x


def worst(got, want):
    """The largest difference, relative to the largest number but at least to 1; what is not finite is the same."""
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        return np.inf
    return np.abs(got[finite].astype("f8") - want[finite]).max(initial=0) / max(1, np.abs(want[finite]).max(initial=0))


def run(program, stdin=b""):
    """(exit status, standard output, standard error) of a list of words."""
    done = subprocess.run([str(word) for word in program], input=stdin, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr.decode()
