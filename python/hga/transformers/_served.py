"""Layers of transformers that compute their attention by themselves, and attend by hga once a model is in ``use``."""

from __future__ import annotations

import sys
from typing import Any, Dict, Tuple

from ._bigbird import Chooses, Full, Sparse
from ._longformer import Slides

# Classes of layers by name: the module that they are in, and what stands before their own methods.
_BIGBIRD = "transformers.models.big_bird.modeling_big_bird"
LAYERS: Dict[str, Tuple[str, Any]] = {
    "LongformerSelfAttention": ("transformers.models.longformer.modeling_longformer", Slides),
    "LEDEncoderSelfAttention": ("transformers.models.led.modeling_led", Slides),
    "BigBirdAttention": (_BIGBIRD, Chooses),
    "BigBirdBlockSparseAttention": (_BIGBIRD, Sparse),
    "BigBirdSelfAttention": (_BIGBIRD, Full),
}
_OURS: Dict[str, Any] = {}


def __getattr__(name: str) -> Any:
    """A layer's class that attends by hga, under the layer's own name: pickles find it here."""
    if name not in LAYERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _OURS:
        where, before = LAYERS[name]
        __import__(where)
        _OURS[name] = type(name, (before, getattr(sys.modules[where], name)), {"__module__": __name__})
    return _OURS[name]


def is_served(layer: Any) -> bool:
    """Is it, or was it, one of transformers' own?"""
    name, where = type(layer).__name__, type(layer).__module__
    return name in LAYERS and where in (LAYERS[name][0], __name__)


def serve(layer: Any) -> None:
    """Let it attend by hga, its weights as they are."""
    layer.__class__ = __getattr__(type(layer).__name__)


def serves_layers_of(config: Any) -> bool:
    """Are there such layers in models of that configuration?"""
    return any(f".{config.model_type}." in where for where, _ in LAYERS.values())
