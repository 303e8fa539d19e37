"""What hga's cache is made from: transformers' caches of layers, which are given their layers from 4.56 on."""

from __future__ import annotations

import inspect
from typing import Any, List, Tuple

from transformers import cache_utils

LayerBase: Any = getattr(cache_utils, "CacheLayerMixin", object)


class _OfLayers(cache_utils.Cache):  # type: ignore[misc]
    """What transformers asks of a cache, said by its layers."""

    is_compileable = False

    def __init__(self, layers: List[Any]) -> None:
        super().__init__()
        self.layers = layers

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def is_sliding(self) -> List[bool]:
        return [layer.is_sliding for layer in self.layers]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return int(self.layers[layer_idx].get_seq_length()) if layer_idx < len(self.layers) else 0

    def get_mask_sizes(self, cache_position: Any, layer_idx: int) -> Tuple[int, int]:
        return self.get_seq_length(layer_idx) + len(cache_position), 0

    def get_max_cache_shape(self, layer_idx: int = 0) -> Any:
        return self.layers[layer_idx].get_max_length() if layer_idx < len(self.layers) else None

    def reset(self) -> None:
        for layer in self.layers:
            layer.reset()


_TAKES_LAYERS = "layers" in inspect.signature(cache_utils.Cache.__init__).parameters
CacheBase: Any = cache_utils.Cache if _TAKES_LAYERS else _OfLayers
