"""The releases of transformers that hga works with, and what they call a cache. The tests run with the oldest and the newest."""

from __future__ import annotations

import inspect
from typing import Tuple

import transformers
from transformers.cache_utils import Cache
from transformers.generation import GenerateDecoderOnlyOutput

OLDEST, BEYOND = (5, 23), (5, 25)


def _written(release: Tuple[int, int]) -> str:
    return "{}.{}".format(*release)


RANGE = f">={_written(OLDEST)},<{_written(BEYOND)}"  # pyproject.toml says the same


def refuse_others(installed: str) -> None:
    major, minor = installed.split(".")[:2]
    if not OLDEST <= (int(major), int(minor)) < BEYOND:
        raise ImportError(f"hga.transformers works with transformers{RANGE}, and {installed} is installed: pip install 'transformers{RANGE}'")


refuse_others(transformers.__version__)

# The argument of models and of generate(), and the field of what they give back: "past_key_values" before 5.24.
CACHE = "cache" if "cache" in GenerateDecoderOnlyOutput.__dataclass_fields__ else "past_key_values"

# In older releases a cache's ``crop`` is told with a number above 0 how many tokens to keep.
CROPS_TO_LENGTH = "max_length" in inspect.signature(Cache.crop).parameters
