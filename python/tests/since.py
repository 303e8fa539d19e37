"""What tests know of older releases: what docs/python.md's table of releases says is not there, is left out by `since`."""

import importlib.metadata
import re
import unittest


def release(package):
    try:
        found = re.match(r"(\d+)\.(\d+)", importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return 0, 0
    return int(found[1]), int(found[2])


def older(package, than):
    """Is it installed, and older?"""
    return (0, 0) < release(package) < tuple(map(int, than.split(".")))


def since(package, first):
    """Runs with this release and newer ones."""
    return unittest.skipIf(older(package, first), f"{package} {first} is the first with what this needs")


def known_to_pyg(layer, cases):
    """Options of a layer that PyTorch Geometric's own takes too, and makes of them what its newest release makes."""
    residual = not older("torch_geometric", "2.6")
    bias = layer != "TransformerConv" or not older("torch_geometric", "2.7")
    cases = [case for case in cases if (residual or not case.get("residual")) and (bias or case.get("bias", True))]
    return [{name: value for name, value in case.items() if residual or name != "residual"} for case in cases]


def _set_attn_implementation(self, attn_implementation):
    if attn_implementation.startswith("hga"):
        from hga.transformers import _models

        _models._fit(type(self), self.config, [attn_implementation])
    for module in self.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = attn_implementation


if older("transformers", "4.54"):  # where people set the configuration
    from transformers import PreTrainedModel

    PreTrainedModel.set_attn_implementation = _set_attn_implementation
