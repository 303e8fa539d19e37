"""hga in Hugging Face transformers: a stock model with another attention.

    import hga.transformers
    hga.transformers.register()
    model = AutoModel.from_config(config, attn_implementation="hga:htransformer:block=32")
    model.set_attn_implementation("hga:dense")

After "hga:" comes a variant's name, then its parameters, each behind a colon. Where the model is causal the variant must
be able to be causal, and is made so. Padding is left out and packed texts are separated: every text attends over its own
tokens alone, by a hierarchy of its own length, and rows of padding are zero. Whatever else a mask says is refused.
``hga.transformers.by_layer({1: "hga:window:left=32", ..}, "hga:dense")`` names a mapping by layer.

``generate()`` runs with a cache that holds what the hierarchy's later tokens read; ``Cache(tokens)`` makes one for your own
loops: model(ids, cache=cache), or past_key_values=cache where transformers is older than 5.24."""

from __future__ import annotations

import contextlib
import functools
from contextvars import ContextVar
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .._core.needs import needs

needs("transformers", "transformers")

import torch

from ._besides import refuse_besides, tables_of
from ._capture import Captured as Captured, capture as capture
from .._core.values import refuse, refuse_type
from ..torch._documents import Document, is_numbered, numbered, sides_in
from .._core.releases import asks, asks_later, before_five, cache_argument, has, is_older, look_up_early, private, refuse_older
from ._generation import Cache as Cache, layer_of
from ._packed import Sides, packed_documents, sides_of
from ..torch._ragged import attend, looks_no_further
from .._graphs.spec import spec_of

PREFIX = "hga:"
_COLLECTOR, _SDPA_MASK = "transformers.utils.output_capturing._active_collector", "transformers.masking_utils.sdpa_mask"
look_up_early(_COLLECTOR, _SDPA_MASK)
_OLD = before_five()


def _words(name: str) -> str:
    return name[len(PREFIX) :]


# ---- masks ----


def _padding(mask: Optional[torch.Tensor], batch: int, first: int, n: int, device: Any) -> torch.Tensor:
    """[batch][n]: which keys from ``first`` on are tokens; those behind the mask's end are none."""
    if mask is None:
        return torch.ones(batch, n, dtype=torch.bool, device=device)
    if mask.dim() != 2 or mask.shape[0] not in (1, batch):
        raise refuse(f"attention_mask has shape {tuple(mask.shape)}, the batch {batch} samples of {n} tokens: give [{batch}, {n}], or [{batch}, 1, {n}, {n}]")
    missing = first + n - mask.shape[-1]
    return (torch.nn.functional.pad(mask, (0, missing)) if missing > 0 else mask)[:, first : first + n]


def _mask(batch_size: int, kv_length: int, kv_offset: Any = 0, mask_function: Any = None, attention_mask: Any = None,
          local_size: Optional[int] = None, allow_is_causal_skip: bool = True, allow_is_bidirectional_skip: bool = False,
          device: Any = "cpu", **more: Any) -> torch.Tensor:  # fmt: skip
    """What transformers asks for once a pass: the documents' numbers where they are known without looking at every pair,
    which is where transformers itself would leave a mask to "is_causal", and all pairs otherwise."""
    plain = allow_is_causal_skip != allow_is_bidirectional_skip
    # a window or a chunk as long as the text hides nothing
    usual = plain and (local_size is None or kv_length <= local_size)
    queries = more["q_length"] if "q_length" in more else len(more["cache_position"])  # transformers before 5
    sides = sides_of(mask_function) if plain else None
    if sides is None and usual:
        sides = Sides(not allow_is_bidirectional_skip)
    behind = allow_is_causal_skip and queries < kv_length and kv_offset == 0  # new tokens behind those of a cache
    if sides is not None and (queries == kv_length or behind):
        return numbered(_padding(attention_mask, batch_size, kv_offset, kv_length, device), *sides)
    if attention_mask is None and queries == kv_length:
        packed = packed_documents(mask_function, kv_length)
        if packed is not None:
            return numbered(packed.number.expand(batch_size, -1), *packed.sides)
    found: torch.Tensor = private(_SDPA_MASK)(
        batch_size=batch_size, kv_length=kv_length, kv_offset=kv_offset, mask_function=mask_function,
        attention_mask=attention_mask, local_size=local_size, allow_is_causal_skip=False, allow_is_bidirectional_skip=False,
        device=device, **more,
    )  # fmt: skip
    return found


# ---- attention ----


def _collects_weights(module: Any) -> bool:
    """Does the model's caller collect weights? Some models do not say so to their attention."""
    if has(_COLLECTOR):
        return "attentions" in (private(_COLLECTOR).get() or ())
    return bool(getattr(getattr(module, "config", None), "output_attentions", False))


def _check(name: str, module: Any, more: Dict[str, Any], queries: int, keys: int, causal: bool) -> None:
    who = type(module).__name__
    refuse_besides(f"{name} cannot serve {who}", more)
    if more.get("output_attentions") or _collects_weights(module):
        raise refuse(f"{name}: output_attentions=True asks for a matrix of weights that hga never has; weights(q, k, token) "
                     "of a hierarchy gives those of one query, attn_implementation='eager' the model's own")  # fmt: skip
    if not causal and (getattr(module, "is_cross_attention", False) or "Cross" in who or getattr(module, "is_decoder", False)):
        raise refuse(f"{name} cannot serve {who}: it attends from one text to another")
    if queries != keys:
        own = causal or getattr(module, "is_causal", False)
        what = (f"keys of a cache that is not hga's: pass {cache_argument()}=hga.transformers.Cache(tokens), or use_cache=False" if own
                else "it attends from one text to another")  # fmt: skip
        raise refuse(f"{name} cannot serve {who}: {queries} queries and {keys} keys; {what}")


def _check_cached(name: str, module: Any, query: torch.Tensor, offsets: Any, causal: bool, dropout: float) -> None:
    """What is not defined token by token."""
    reasons = (
        (not causal, "its attention looks ahead"), (offsets is not None, "packed texts (cu_seq_lens) have no cache"),
        (bool(dropout) and module.training, "dropout has no cache: call model.eval()"),
        (torch.is_grad_enabled() and query.requires_grad, "a cache has no gradients: call it under torch.no_grad()"),
    )  # fmt: skip
    for wrong, why in reasons:
        if wrong:
            raise refuse(f"{name} cannot serve {type(module).__name__} with a cache: {why}, or pass use_cache=False")


def _window(mask: Optional[torch.Tensor], more: Dict[str, Any]) -> Optional[int]:
    """Of a layer that slides: a token sees so many of those before it, itself among them. A mask that says so is asked
    first: some models tell their attention a window that their masks do not have, others tell it nothing."""
    if mask is not None and is_numbered(mask) and not torch.compiler.is_compiling():
        sides = sides_in(mask)
        return None if sides is None else sides[0] + 1
    found = more.get("sliding_window")
    return None if found is None else int(found)


def _is_mixed(module: Any) -> bool:
    """Are there layers that slide, and others?"""
    types = getattr(getattr(module, "config", None), "layer_types", None) or ()
    return "sliding_attention" in types and any(t != "sliding_attention" for t in types)


def _words_of_layer(name: str, module: Any, window: Optional[int], causal: bool) -> str:
    """In a model of layers that slide and layers that do not a hierarchy is for the latter: the others keep their window,
    which dense attention does, unless the hierarchy looks no further."""
    words = _words(name)
    if window is None or not _is_mixed(module):
        return words
    endless = Document(0, 0, 2**31 - 1, causal, window - 1, 0 if causal else window - 1)
    return words if looks_no_further(words, endless) else "dense"


def _as_wide_as_keys(mask: torch.Tensor, key: torch.Tensor, more: Dict[str, Any]) -> torch.Tensor:
    """Some models of transformers 4 make masks of more columns than there are keys, and let attention cut them."""
    layer = layer_of(key, more)
    keys = key.shape[2] + (0 if layer is None else layer.length)
    return mask[..., :keys] if mask.dim() == 4 and not is_numbered(mask) else mask


def _attend(name: str, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
            attention_mask: Optional[torch.Tensor], dropout: float = 0.0, scaling: Optional[float] = None,
            is_causal: Optional[bool] = None, **more: Any) -> Tuple[torch.Tensor, None]:  # fmt: skip
    """[batch, heads, tokens, dim] as the model has them; [batch, tokens, heads, dim] back."""
    if _OLD and attention_mask is not None:
        is_causal = None if is_causal is False else is_causal
        attention_mask = _as_wide_as_keys(attention_mask, key, more)
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    _check(name, module, more, query.shape[2], key.shape[2], causal)
    layer, window = layer_of(key, more), _window(attention_mask, more)
    words = _words_of_layer(name, module, window, causal)
    if attention_mask is None and window is not None and window < key.shape[2] and layer is None:
        raise refuse(f"{name} cannot serve {type(module).__name__}: sliding_window={window}, and no mask of it")
    offsets, others = more.get("cu_seq_lens_q"), more.get("cu_seq_lens_k")
    if offsets is not None and others is not None and offsets is not others:
        if offsets.shape != others.shape:
            raise refuse(f"{name} cannot serve {type(module).__name__}: queries and keys are cut differently (cu_seq_lens)")
        offsets = torch.stack((offsets, others))
    tables: Dict[str, Any] = {"scale": scaling, **tables_of(more)}
    if layer is not None:
        _check_cached(name, module, query, offsets, causal, dropout)
        return layer.attend(words, query, key, value, attention_mask, window, tables), None
    y = attend(words, query, key, value, mask=attention_mask, offsets=offsets, causal=causal,
               dropout=dropout if module.training else 0.0, layer=int(getattr(module, "layer_idx", 0) or 0), **tables)  # fmt: skip
    return y, None


def _named(name: str) -> Callable[..., Any]:
    spec_of(_words(name))

    def attend(module: Any, *arguments: Any, **more: Any) -> Any:
        return _attend(name, module, *arguments, **more)

    return attend


# ---- names ----


class _Names(dict):  # type: ignore[type-arg]
    """The functions of transformers, and every name that begins with "hga:"."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make
        self._ours: Dict[str, Any] = {}

    def stand_for(self, interface: Any, known: Dict[str, Any]) -> None:
        """Be what an interface of transformers looks into; or tell it every name that is made, since torch.compile does not
        understand such dictionaries before torch 2.6."""
        if known is self or known is self._ours:
            return
        self.update(known)
        if is_older("torch", "2.6"):
            self._ours = known
        else:
            interface._global_mapping = self

    def __missing__(self, name: str) -> Any:
        if name in self._ours:  # by add(), or a caller's own
            return self._ours[name]
        if not isinstance(name, str) or not name.startswith(PREFIX):
            raise KeyError(name)
        self[name] = self._ours[name] = self._make(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name.startswith(PREFIX):
            self[name]  # noqa: B018
            return True
        return super().__contains__(name)


_ATTENTION, _MASKS = _Names(_named), _Names(lambda _: _mask)


def _know(name: str) -> None:
    """The names are there before torch.compile looks whether they are."""
    _ATTENTION[name], _MASKS[name]  # noqa: B018


_LAYERS: Dict[str, Dict[int, str]] = {}


def by_layer(layers: Dict[int, str], otherwise: str) -> str:
    """A name for attention that differs by layer."""
    name = f"{PREFIX}layers-{len(_LAYERS) + 1}"
    _LAYERS[name] = dict(layers)
    for one in (*layers.values(), otherwise):
        spec_of(_words(one))

    def attend(module: Any, *arguments: Any, **more: Any) -> Any:
        one = layers.get(int(getattr(module, "layer_idx", -1)), otherwise)
        return _attend(one, module, *arguments, **more)

    return add(name, attend)


def add(name: str, function: Optional[Callable[..., Any]] = None) -> str:
    """Make one name known; what it means when it is read."""
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(name, function or _named(name))
    AttentionMaskInterface.register(name, _mask)
    return name


# ---- models ----


def _is_ours(implementation: Any) -> bool:
    return isinstance(implementation, str) and implementation.startswith(PREFIX)


def _check_model(cls: type, config: Any, name: str) -> None:
    """Models whose attention would not be called, or which attend from one text to another."""
    who = cls.__name__
    if not asks(cls):
        from ._served import serves_layers_of

        if asks_later(config):
            raise refuse_older("transformers", asks_later(config), f"{name} in {who}")
        where = "; hga.transformers.use(model) serves its layers" if serves_layers_of(config) else ""
        raise refuse(f"{name} cannot serve {who}: it computes its attention by itself{where}")
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False):
        raise refuse(f"{name} cannot serve {who}: its decoder attends from one text to another")


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


def _implementation(inner: Callable[..., Any], self: Any, *arguments: Any, **more: Any) -> Any:
    """PreTrainedModel's choice and change of implementation: one of ours is made known, and fits the model."""
    for requested in filter(_is_ours, (*arguments, *more.values())):
        _know(requested)
        _check_model(type(self), self.config, requested)
    return inner(self, *arguments, **more)


def _autoset(inner: Callable[..., Any], cls: type, config: Any, *arguments: Any, **more: Any) -> Any:
    """The same of transformers 4.53, where the model's class looks at the configuration."""
    requested = getattr(config, "_attn_implementation_internal", None)
    for name in filter(_is_ours, requested.values() if isinstance(requested, dict) else (requested,)):
        _know(name)
        _check_model(cls, config, name)
    return inner(cls, config, *arguments, **more)


def _ours_of(model: Any) -> Optional[str]:
    """The model's implementation, if it is one of ours."""
    for config in (model.config, model.config.get_text_config(decoder=True)):
        name = getattr(config, "_attn_implementation", None)
        if _is_ours(name):
            return str(name)
    return None


_PREPARES = "transformers.generation.GenerationMixin._prepare_cache_for_generation"


def _generate(inner: Callable[..., Any], self: Any, *arguments: Any, **more: Any) -> Any:
    """Another cache holds keys, of which coarse rows can no longer be made as their tokens came."""
    ours, cache = _ours_of(self), more.get(cache_argument(), more.get("past_key_values"))  # which newer releases rename
    if ours is not None and cache is not None and not isinstance(cache, Cache):
        raise refuse(f"{ours}: generate() was given a {type(cache).__name__} ({cache_argument()}): pass hga.transformers.Cache(tokens), or none")
    if ours is not None:
        private(_PREPARES)
    if _LONGEST.get() is not None:  # an assistant's, inside the generate() that it assists
        with _while(_ASSISTS, True):
            return inner(self, *arguments, **more)
    with _while(_LONGEST, [0]):
        return inner(self, *arguments, **more)


@contextlib.contextmanager
def _while(variable: "ContextVar[Any]", value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


# The largest capacity in tokens that a generate() requested, which its assistants, whose text grows with it, do not know.
_LONGEST: "ContextVar[Optional[List[int]]]" = ContextVar("hga_longest", default=None)
_ASSISTS: "ContextVar[bool]" = ContextVar("hga_assists", default=False)  # is it an assistant that generates?
# Ways to hold a text that hga's cache, which holds all of it and drops what a window has passed, holds as well;
# "dynamic_full" is of assistants before 5.24.
_CACHES = (None, "dynamic", "dynamic_full", "static", "sliding_window", "hybrid", "hybrid_chunked")
_LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")


def _may_go_back(generation_config: Any, mode: Any) -> bool:
    """Will more be taken back than the usual? Assistants say so from transformers 5 on."""
    if not _OLD:
        return bool(getattr(generation_config, "is_assistant", False))
    # 4.53 has the assistant where its successors have the mode
    assisted = isinstance(mode, torch.nn.Module) or getattr(mode, "value", "") == "assisted_generation"
    return assisted or _ASSISTS.get() or getattr(generation_config, "prompt_lookup_num_tokens", None) is not None


def _prepare_cache(inner: Callable[..., Any], self: Any, generation_config: Any, model_kwargs: Dict[str, Any], *arguments: Any, **more: Any) -> Any:  # fmt: skip
    """The cache that generate() makes by default."""
    ours, known = _ours_of(self), _LONGEST.get() or [0]
    known[0] = longest = max(known[0], int(more["max_cache_length"] if "max_cache_length" in more else arguments[2]))
    if ours is None or generation_config.use_cache is False or model_kwargs.get(cache_argument()) is not None:
        return inner(self, generation_config, model_kwargs, *arguments, **more)
    implementation = generation_config.cache_implementation
    if implementation not in _CACHES:
        raise refuse(f"{ours}: cache_implementation={implementation!r} holds keys; leave it out, and generate() makes hga.transformers.Cache")
    config = self.config.get_text_config(decoder=True)
    types, chunk = set(getattr(config, "layer_types", None) or ()), getattr(config, "attention_chunk_size", None)
    if "chunked_attention" in types and chunk is not None and longest > chunk:
        raise refuse(f"{ours}: {type(self).__name__} attends in chunks of {chunk} tokens, and a text of {longest} outgrows them, which "
                     "hga.transformers.Cache does not hold: pass use_cache=False")  # fmt: skip
    if "indexed_attention" in types:
        raise refuse(f"{ours} cannot serve {type(self).__name__}: its layers pick keys for every query, with and without a cache: "
                     "attn_implementation='sdpa' or 'eager' does")  # fmt: skip
    others = types - set(_LAYER_TYPES)
    if others or not self._supports_default_dynamic_cache():
        what = f"layers of {', '.join(sorted(others))}" if others else "a cache of its own kind"
        raise refuse(f"{ours}: {type(self).__name__} has {what}, which hga.transformers.Cache does not hold: pass use_cache=False")
    cache = model_kwargs[cache_argument()] = Cache(1 << max(6, longest.bit_length()))  # few lengths: decoders are shared
    if _may_go_back(generation_config, arguments[0] if arguments else None):
        cache.activate_past_recording()


def use(model: Any) -> Any:
    """Let layers that compute their attention by themselves attend by hga: those of Longformer, of LED's encoder and of BigBird.
    Windows, global tokens, blocks and padding are the layers' own, and so are the weights, which stay where they are. It is the
    model that comes back. Other models take attn_implementation="hga:..". Weights of attention are refused."""
    from ._served import is_served, serve

    if not isinstance(model, torch.nn.Module):
        raise refuse_type(f"model is a {type(model).__name__}, not a model of transformers")
    layers = [layer for layer in model.modules() if is_served(layer)]
    for layer in layers:
        serve(layer)
    if not layers:
        raise refuse(f"{type(model).__name__} has no layer of Longformer, LED or BigBird that attends by itself")
    return model


# How a model comes to its implementation: since transformers 4.55, in 4.54, and before.
_CHOICES: Dict[str, Callable[..., Any]] = {
    "get_correct_attn_implementation": _implementation,
    "_check_and_adjust_attn_implementation": _implementation,
    "_autoset_attn_implementation": _autoset,
}


def register() -> None:
    """Let every model take attn_implementation="hga:VARIANT:parameter=value:..". May be called again."""
    from transformers.generation import GenerationMixin
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface, PreTrainedModel

    for interface, names in ((AttentionInterface, _ATTENTION), (AttentionMaskInterface, _MASKS)):
        names.stand_for(interface, private(f"{interface.__module__}.{interface.__name__}._global_mapping"))
    of_models = "transformers.modeling_utils.PreTrainedModel."
    chosen = next((name for name in _CHOICES if has(of_models + name)), next(iter(_CHOICES)))
    private(of_models + chosen)
    _wrap(PreTrainedModel, chosen, _CHOICES[chosen])
    if hasattr(PreTrainedModel, "set_attn_implementation"):
        _wrap(PreTrainedModel, "set_attn_implementation", _implementation)
    _wrap(GenerationMixin, "generate", _generate)
    if has(_PREPARES):  # otherwise generate() says so
        _wrap(GenerationMixin, "_prepare_cache_for_generation", _prepare_cache)


__all__ = ["Cache", "Captured", "add", "by_layer", "capture", "register", "use"]


def __dir__() -> List[str]:
    return __all__
