"""declarations.py: C of the extension module, made of the library's public headers.

    python3 declarations.py CC OUTPUT.c INCLUDE_FOLDER..

The compiler's preprocessor reads <hga.h>, <hga_files.h> and the package's own "calls.h", "edges.h" and "jax.h"; what cffi cannot parse (bodies of inline functions) is taken out. Nothing is
typed by hand but the callbacks.
"""

import os
import re
import subprocess
import sys
import tempfile

import cffi

INCLUDES = '#include "calls.h"\n#include "edges.h"\n#include "jax.h"\n#include "hga_files.h"\n'
CALLBACKS = """
extern "Python" hga_status hga_py_patch(const hga_patch *, void *);
extern "Python" hga_status hga_py_seen(const hga_seen *, void *);
extern "Python" hga_status hga_py_weighed(const hga_weight *, void *);
extern "Python" hga_status hga_py_sees(void *, hga_id, hga_id, uint8_t *);
extern "Python" void hga_py_progress(double, void *);
extern "Python" hga_status hga_py_interrupt(void *);
extern "Python" void hga_py_begin(void *, const hga_end *, hga_id, void *);
extern "Python" void hga_py_edge(void *, const hga_edge *, hga_id, void *);
extern "Python" void hga_py_finish(const void *, const hga_end *, hga_id, void *);
extern "Python" hga_status hga_py_start(void *, int, const hga_packet *, hga_id, const hga_packet *, hga_id);
extern "Python" hga_status hga_py_test(void *, int, int *);
extern "Python" hga_status hga_py_wait(void *, int);
extern "Python" hga_status hga_py_gather(void *, const void *, int64_t, void *);
extern "Python" void hga_py_fail(void *, hga_status);
void free(void *);
"""


def preprocessed(compiler, folders):
    """The headers without comments, attributes and the system's headers."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h", "stdio.h"):
            open(os.path.join(empty, name), "w").close()
        command = [compiler, "-E", "-P", "-nostdinc", "-U__GNUC__", "-I", empty]
        for folder in folders:
            command += ["-I", folder]
        return subprocess.run(
            command + ["-x", "c", "-"], input=INCLUDES, capture_output=True, text=True, check=True
        ).stdout


def without_bodies(text):
    """Drop inline functions, which the library does not export."""
    while True:
        start = re.search(r"static inline\b", text)
        if not start:
            return text
        at = text.index("{", start.start())
        depth = 0
        for end in range(at, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                break
        text = text[: start.start()] + text[end + 1 :]


def main():
    compiler, output, *folders = sys.argv[1:]
    ffi = cffi.FFI()
    ffi.cdef("typedef struct _IO_FILE FILE;\n" + without_bodies(preprocessed(compiler, folders)) + CALLBACKS)
    ffi.set_source("_hga", "#include <stdlib.h>\n" + INCLUDES, py_limited_api=True)
    ffi.emit_c_code(output)


main()
