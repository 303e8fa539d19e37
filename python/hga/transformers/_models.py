"""Models that attend by hga: the names of its attention, which models they fit, and the caches of ``generate()``."""

from __future__ import annotations

import functools
import itertools
from contextvars import ContextVar
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch

from .._core.releases import asks, asks_later, before_five, cache_argument, has, is_older, private, refuse_older
from .._core.library import refuse
from ._attention import PREFIX, attend, layer_number, words_of
from ._budgets import absolute, know, of_layer
from ._generation import Cache
from ._masks import mask
from ._own import NAME, attend_own, mask_own
from ._positions import compute_bias, layers_with_bias
from ._served import serves_layers_of

# ---- names ----


def _is_ours(name: Any) -> bool:
    return isinstance(name, str) and name.startswith(PREFIX)


class _Names(dict):  # type: ignore[type-arg]
    """The functions of transformers by their names, and one for every name that begins with "hga:"."""

    def __init__(self, known: Dict[str, Any], make: Callable[[str], Any]) -> None:
        super().__init__(known)
        self._make = make

    def __missing__(self, name: str) -> Any:
        if not _is_ours(name):
            raise KeyError(name)
        self[name] = self._make(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return _is_ours(name) or super().__contains__(name)


def _named(name: str, layers: Optional[Dict[int, str]] = None) -> Callable[..., Any]:
    """Attention by a name of ours, and by others in some layers."""
    for one in (*(layers or {}).values(), name):
        know(words_of(one))

    def attention(module: Any, *arguments: Any, **more: Any) -> Any:
        layer = layer_number(module)
        own = layers.get(layer, name) if layers else name
        return attend(PREFIX + of_layer(words_of(own), layer, module), module, *arguments, **more)

    return attention


def _interfaces() -> Tuple[Tuple[Any, Callable[[str], Any]], ...]:
    """What transformers looks names up in, and what one of ours means there."""
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    return (AttentionInterface, _named), (AttentionMaskInterface, lambda _: mask)


def _know(name: str) -> None:
    """The names are there before torch.compile looks whether they are."""
    for interface, make in _interfaces():
        if name not in interface._global_mapping.keys():
            interface.register(name, make(name))


def add(name: str, function: Optional[Callable[..., Any]] = None) -> str:
    """Make one name known; what it means when it is read."""
    (attention, _), (masks, _) = _interfaces()
    attention.register(name, function or _named(name))
    masks.register(name, mask)
    return name


_NUMBERS = itertools.count(1)
_PARTS: Dict[str, Tuple[str, ...]] = {}  # names that names by layer are made of


def by_layer(layers: Dict[int, str], otherwise: str) -> str:
    """A name for attention that differs by layer."""
    if NAME in (*layers.values(), otherwise):
        raise refuse(f"by_layer: {NAME!r} is for whole models; a layer's own attention is '{PREFIX}dense'")
    name, layers, otherwise = f"{PREFIX}layers-{next(_NUMBERS)}", {i: absolute(own) for i, own in layers.items()}, absolute(otherwise)
    _PARTS[name] = (*layers.values(), otherwise)
    return add(name, _named(otherwise, layers))


# ---- models ----


def _check_asks(cls: type, config: Any, name: str) -> None:
    """Models whose attention would not be called."""
    if asks(cls):
        return
    if asks_later(config):
        raise refuse_older("transformers", asks_later(config), f"{name} in {cls.__name__}")
    where = "; hga.transformers.use(model) serves its layers" if serves_layers_of(config) else ""
    raise refuse(f"{name} cannot serve {cls.__name__}: it computes its attention by itself{where}")


def _check_model(cls: type, config: Any, name: str) -> None:
    """Models whose attention would not be called, or which attend from one text to another."""
    who = f"{name} cannot serve {cls.__name__}"
    _check_asks(cls, config, name)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False):
        raise refuse(f"{who}: its decoder attends from one text to another")


def _check_parts(cls: type, config: Any) -> None:
    """Layers of an encoder that has the decoder's configuration say that they are causal."""
    part = getattr(config, "encoder", None)
    if part is not None and part is getattr(config, "decoder", None):
        raise refuse(f"{NAME} cannot serve {cls.__name__}: config.encoder and config.decoder are one object, by which the encoder is "
                     "causal, too; give each its own, as copy.deepcopy(config.encoder)")  # fmt: skip


def _reads_text(cls: Any, config: Any) -> bool:
    """Or is it what sees images or hears beside a decoder?"""
    return cls.main_input_name == "input_ids" and getattr(config.get_text_config(decoder=True), "vocab_size", None) is not None


def _fit(cls: type, config: Any, names: Iterable[Any]) -> None:
    """Names of ours are made known, and fit the model."""
    names = list(names)
    if NAME in names:
        if config.model_type.endswith("encoder-decoder"):
            raise refuse(f"{NAME} cannot serve {cls.__name__}, whose parts have configurations of their own: set it in model.encoder and model.decoder")
        _check_asks(cls, config, NAME)
        _check_parts(cls, config)
        for layer in layers_with_bias(cls):
            _wrap(layer, "compute_bias", compute_bias(NAME, layer))
    for name in filter(_is_ours, names):
        _know(name)
        _check_model(cls, config, name)
        for one in _PARTS.get(name, (name,)):
            if "budgets=" in one:
                know(words_of(one), config if _reads_text(cls, config) else None)


def _implementation(inner: Callable[..., Any], self: Any, *arguments: Any, **more: Any) -> Any:
    """PreTrainedModel's choice and change of implementation."""
    named, keywords = [absolute(x) for x in arguments], {word: absolute(x) for word, x in more.items()}
    _fit(type(self), self.config, (*named, *keywords.values()))
    return inner(self, *named, **keywords)


def _autoset(inner: Callable[..., Any], cls: type, config: Any, *arguments: Any, **more: Any) -> Any:
    """The same of transformers 4.53, where the model's class looks at the configuration."""
    requested = getattr(config, "_attn_implementation_internal", None)
    _fit(cls, config, requested.values() if isinstance(requested, dict) else (requested,))
    return inner(cls, config, *arguments, **more)


# ---- generate() ----


class _Run(NamedTuple):
    """A generate(): the largest capacity in tokens that it requested, which assistants inside it, whose text grows with it,
    do not know; and whether it is an assistant's."""

    longest: List[int]
    assists: bool


_RUNS: "ContextVar[Optional[_Run]]" = ContextVar("hga_generate", default=None)
_PREPARES = "transformers.generation.GenerationMixin._prepare_cache_for_generation"
# Ways to hold a text that hga's cache, which holds all of it and drops what a window has passed, holds as well;
# "dynamic_full" is of assistants before 5.24.
_CACHES = (None, "dynamic", "dynamic_full", "static", "sliding_window", "hybrid", "hybrid_chunked")
_LAYER_TYPES = {"full_attention", "sliding_attention", "chunked_attention"}


def _ours_of(model: Any) -> Optional[str]:
    """The model's implementation, if it is one of ours."""
    configs = model.config, model.config.get_text_config(decoder=True)
    return next(filter(_is_ours, (getattr(config, "_attn_implementation", None) for config in configs)), None)


def _generate(inner: Callable[..., Any], self: Any, *arguments: Any, **more: Any) -> Any:
    """Another cache holds keys, of which coarse rows can no longer be made as their tokens came."""
    ours, cache = _ours_of(self), more.get(cache_argument(), more.get("past_key_values"))  # which newer releases rename
    if ours is not None and cache is not None and not isinstance(cache, Cache):
        raise refuse(f"{ours}: generate() was given a {type(cache).__name__} ({cache_argument()}): pass hga.transformers.Cache(tokens), or none")
    if ours is not None:
        private(_PREPARES)
    around = _RUNS.get()
    token = _RUNS.set(_Run([0], False) if around is None else around._replace(assists=True))
    try:
        return inner(self, *arguments, **more)
    finally:
        _RUNS.reset(token)


def _may_go_back(generation_config: Any, mode: Any, assists: bool) -> bool:
    """Will more be taken back than the usual? Assistants say so from transformers 5 on."""
    if not before_five():
        return bool(getattr(generation_config, "is_assistant", False))
    # 4.53 has the assistant where its successors have the mode
    assisted = isinstance(mode, torch.nn.Module) or getattr(mode, "value", "") == "assisted_generation"
    return assisted or assists or getattr(generation_config, "prompt_lookup_num_tokens", None) is not None


def _check_layers(ours: str, model: Any, tokens: int) -> None:
    """Those whose texts of so many tokens hga's cache holds."""
    config, who = model.config.get_text_config(decoder=True), type(model).__name__
    types, chunk = set(getattr(config, "layer_types", None) or ()), getattr(config, "attention_chunk_size", None)
    if "chunked_attention" in types and chunk is not None and tokens > chunk:
        raise refuse(f"{ours}: {who} attends in chunks of {chunk} tokens, and a text of {tokens} outgrows them, which "
                     "hga.transformers.Cache does not hold: pass use_cache=False")  # fmt: skip
    if "indexed_attention" in types:
        raise refuse(f"{ours} cannot serve {who}: its layers pick keys for every query, with and without a cache: "
                     "attn_implementation='sdpa' or 'eager' does")  # fmt: skip
    others = types - _LAYER_TYPES
    if others or not model._supports_default_dynamic_cache():
        what = f"layers of {', '.join(sorted(others))}" if others else "a cache of its own kind"
        raise refuse(f"{ours}: {who} has {what}, which hga.transformers.Cache does not hold: pass use_cache=False")


def _prepare_cache(inner: Callable[..., Any], self: Any, generation_config: Any, model_kwargs: Dict[str, Any], *arguments: Any, **more: Any) -> Any:  # fmt: skip
    """The cache that generate() makes by default."""
    ours, run = _ours_of(self), _RUNS.get() or _Run([0], False)
    asked = int(more["max_cache_length"] if "max_cache_length" in more else arguments[2])
    run.longest[0] = longest = max(run.longest[0], asked)
    if ours is None or generation_config.use_cache is False or model_kwargs.get(cache_argument()) is not None:
        return inner(self, generation_config, model_kwargs, *arguments, **more)
    implementation = generation_config.cache_implementation
    if implementation not in _CACHES:
        raise refuse(f"{ours}: cache_implementation={implementation!r} holds keys; leave it out, and generate() makes hga.transformers.Cache")
    _check_layers(ours, self, longest)
    cache = model_kwargs[cache_argument()] = Cache(1 << max(6, longest.bit_length()))  # few lengths: decoders are shared
    if _may_go_back(generation_config, arguments[0] if arguments else None, run.assists):
        cache.activate_past_recording()


# ---- transformers ----


def _wrap(cls: Any, method: str, around: Callable[..., Any]) -> None:
    """Put a function around a method of transformers, once."""
    inner = cls.__dict__[method]
    of_class = isinstance(inner, classmethod)
    inner = inner.__func__ if of_class else inner
    if getattr(inner, "_hga", False):
        return

    @functools.wraps(inner)
    def outer(self: Any, *arguments: Any, **more: Any) -> Any:
        return around(inner, self, *arguments, **more)

    outer._hga = True  # type: ignore[attr-defined]
    setattr(cls, method, classmethod(outer) if of_class else outer)


# How a model comes to its implementation: since transformers 4.55, in 4.54, and before.
_CHOICES: Dict[str, Callable[..., Any]] = {
    "get_correct_attn_implementation": _implementation,
    "_check_and_adjust_attn_implementation": _implementation,
    "_autoset_attn_implementation": _autoset,
}


def register() -> None:
    """Let every model take attn_implementation="hga:VARIANT:parameter=value:..". May be called again."""
    from transformers.generation import GenerationMixin
    from transformers.modeling_utils import PreTrainedModel

    for (interface, make), own in zip(_interfaces(), (attend_own, mask_own)):
        known = private(f"{interface.__module__}.{interface.__name__}._global_mapping")
        if not isinstance(known, _Names) and not is_older("torch", "2.6"):  # before, torch.compile does not understand them
            interface._global_mapping = _Names(known, make)
        interface.register(NAME, own)
    of_models = "transformers.modeling_utils.PreTrainedModel."
    chosen = next((name for name in _CHOICES if has(of_models + name)), next(iter(_CHOICES)))
    private(of_models + chosen)
    _wrap(PreTrainedModel, chosen, _CHOICES[chosen])
    if hasattr(PreTrainedModel, "set_attn_implementation"):
        _wrap(PreTrainedModel, "set_attn_implementation", _implementation)
    _wrap(GenerationMixin, "generate", _generate)
    if has(_PREPARES):  # otherwise generate() says so
        _wrap(GenerationMixin, "_prepare_cache_for_generation", _prepare_cache)
