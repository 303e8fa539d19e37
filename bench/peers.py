"""Other people's packages, as far as they are here."""

import os
import sys
import types


class Missing(Exception):
    """Why a graph or a peer does not take part."""


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
            import dgl
        import dgl.ops  # noqa: F401
    except (ImportError, OSError) as e:
        raise Missing(str(e)) from None
    return dgl
