"""Other people's packages, as far as they are here."""

import importlib.util
import os
import sys
import types


# What holds each library to an instruction set; it has to stand in the environment before any of them is loaded.
HELD = {
    "avx2": {"HGA_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "DNNL_MAX_CPU_ISA": "AVX2", "LIBXSMM_TARGET": "hsw"},
    "ref": {"HGA_ISA": "ref", "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41",
            "DNNL_MAX_CPU_ISA": "SSE41", "LIBXSMM_TARGET": "wsm"},
}  # fmt: skip
UNHELD = ("onnxruntime",)  # asks the processor alone


def is_held(peer):
    """Does the peer run with the instructions that HGA_ISA names? Where nobody is held, everybody takes the best."""
    return peer not in UNHELD or os.environ.get("HGA_ISA") not in HELD


class Missing(Exception):
    """Why a graph or a peer does not take part."""


def refuse_unknown(**asked):
    """Ends the program where one of a list of names, such as graph=("wordnet,rmat", GRAPHS), is not known."""
    for what, (names, known) in asked.items():
        for name in names.split(","):
            if name not in known:
                sys.exit(f"no {what} {name!r}; there are {', '.join(known)}")


def import_torch(threads=None):
    try:
        import torch
    except ImportError as e:
        raise Missing(str(e)) from None
    if threads:
        torch.set_num_threads(threads)
    return torch


def import_dgl():
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        try:
            import dgl
        except (ImportError, FileNotFoundError):
            # its data loader wants a library for each version of torch; message passing does without
            for name in [name for name in sys.modules if name.split(".")[0] == "dgl"]:
                del sys.modules[name]
            sys.modules["dgl.graphbolt"] = types.ModuleType("dgl.graphbolt")
            without_pandas = "pandas" not in sys.modules and importlib.util.find_spec("pandas") is None  # which its data sets want
            if without_pandas:
                sys.modules["pandas"] = types.ModuleType("pandas")
            try:
                import dgl
            finally:  # also where there is no DGL: what is imported next looks for pandas
                if without_pandas:
                    del sys.modules["pandas"]
        import dgl.ops  # noqa: F401
    except (ImportError, OSError) as e:
        raise Missing(str(e)) from None
    return dgl
