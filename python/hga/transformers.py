"""hga in Hugging Face transformers: a stock model with another attention.

    import hga.transformers
    hga.transformers.register()
    model = AutoModel.from_config(config, attn_implementation="hga:htransformer:block=32")
    model.set_attn_implementation("hga:dense")

After "hga:" comes a variant's name, then its parameters, each behind a colon. Where the model is causal the variant must
be able to be causal, and is made so. Padding is left out and packed texts are taken apart: every text attends over its own
tokens alone, by a hierarchy of its own length, and rows of padding are zero. Whatever else a mask says is refused.
``hga.transformers.by_layer({1: "hga:window:left=32", ..}, "hga:dense")`` names a mapping by layer."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ._core import refuse
from ._documents import numbered
from ._packed import packed_documents
from ._ragged import attend
from ._spec import spec_of

try:
    from transformers.utils.output_capturing import _active_collector
except ImportError:  # versions that pass output_attentions from layer to layer
    _active_collector = None

PREFIX = "hga:"

# What a model may ask of its attention besides, and hga's does not do: what it is, in words.
REFUSED = {
    "position_bias": "adds a bias by relative position to the scores",
    "sinks": "gives the softmax a sink",
    "indices": "picks keys for every query",
    "block_indices": "picks blocks of keys for every query",
    "head_mask": "scales heads by a mask",
    "layer_head_mask": "scales heads by a mask",
    "cache": "keeps keys in pages",
}


def _words(name: str) -> str:
    return name[len(PREFIX) :]


# ---- masks ----


def _mask(batch_size: int, kv_length: int, kv_offset: Any = 0, mask_function: Any = None, attention_mask: Any = None,
          local_size: Optional[int] = None, allow_is_causal_skip: bool = True, allow_is_bidirectional_skip: bool = False,
          device: Any = "cpu", **more: Any) -> torch.Tensor:  # fmt: skip
    """What transformers asks for once a pass: the documents' numbers where they are known without looking at every pair,
    which is where transformers itself would leave a mask to "is_causal", and all pairs otherwise."""
    from transformers.masking_utils import prepare_padding_mask, sdpa_mask

    # a window or a chunk as long as the text hides nothing
    usual = allow_is_causal_skip != allow_is_bidirectional_skip and (local_size is None or kv_length <= local_size)
    queries = more["q_length"] if "q_length" in more else len(more["cache_position"])  # transformers before 5
    if usual and queries == kv_length:
        padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
        if padding is None:
            padding = torch.ones(batch_size, kv_length, dtype=torch.bool, device=device)
        return numbered(padding[:, kv_offset : kv_offset + kv_length], not allow_is_bidirectional_skip)
    if attention_mask is None and queries == kv_length:
        packed = packed_documents(mask_function, kv_length)
        if packed is not None:
            return numbered(packed.expand(batch_size, -1), True)
    found: torch.Tensor = sdpa_mask(
        batch_size=batch_size, kv_length=kv_length, kv_offset=kv_offset, mask_function=mask_function,
        attention_mask=attention_mask, local_size=local_size, allow_is_causal_skip=False, allow_is_bidirectional_skip=False,
        device=device, **more,
    )  # fmt: skip
    return found


# ---- attention ----


def _collects_weights() -> bool:
    """Does whoever runs the model collect weights? Some models do not say so to their attention."""
    return _active_collector is not None and "attentions" in (_active_collector.get() or ())


def _check(name: str, module: Any, more: Dict[str, Any], queries: int, keys: int, causal: bool) -> None:
    who = type(module).__name__
    for asked, what in REFUSED.items():
        if more.get(asked) is not None:
            raise refuse(f"{name} cannot serve {who}: it {what} ({asked})")
    if more.get("output_attentions") or _collects_weights():
        raise refuse(f"{name}: output_attentions=True asks for a matrix of weights that hga never has; weights(q, k, token) "
                     "of a hierarchy gives those of one query, attn_implementation='eager' the model's own")  # fmt: skip
    if not causal and (getattr(module, "is_cross_attention", False) or "Cross" in who or getattr(module, "is_decoder", False)):
        raise refuse(f"{name} cannot serve {who}: it attends from one text to another")
    if queries != keys:
        own = causal or getattr(module, "is_causal", False)
        what = "keys of a cache: pass use_cache=False (generate() does)" if own else "it attends from one text to another"
        raise refuse(f"{name} cannot serve {who}: {queries} queries and {keys} keys; {what}")


def _attend(name: str, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
            attention_mask: Optional[torch.Tensor], dropout: float = 0.0, scaling: Optional[float] = None,
            is_causal: Optional[bool] = None, **more: Any) -> Tuple[torch.Tensor, None]:  # fmt: skip
    """[batch, heads, tokens, dim] as the model has them; [batch, tokens, heads, dim] back."""
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    _check(name, module, more, query.shape[2], key.shape[2], causal)
    window = more.get("sliding_window")
    if attention_mask is None and window is not None and window < key.shape[2]:
        raise refuse(f"{name} cannot serve {type(module).__name__}: sliding_window={window}, and no mask of it")
    offsets, others = more.get("cu_seq_lens_q"), more.get("cu_seq_lens_k")
    if offsets is not None and others is not None and offsets is not others:
        if offsets.shape != others.shape:
            raise refuse(f"{name} cannot serve {type(module).__name__}: queries and keys are cut differently (cu_seq_lens)")
        offsets = torch.stack((offsets, others))
    sink = more.get("s_aux")  # GPT-OSS; Gemma 2 has a softcap
    y = attend(_words(name), query, key, value, mask=attention_mask, offsets=offsets, sink=None if sink is None else sink.float(),
               causal=causal, scale=scaling, softcap=more.get("softcap"),
               dropout=dropout if module.training else 0.0, layer=int(getattr(module, "layer_idx", 0) or 0))  # fmt: skip
    return y, None


def _named(name: str) -> Callable[..., Any]:
    spec_of(_words(name))

    def attend(module: Any, *arguments: Any, **more: Any) -> Any:
        return _attend(name, module, *arguments, **more)

    return attend


# ---- names ----


class _Names(dict):  # type: ignore[type-arg]
    """The functions of transformers, and every name that begins with "hga:"."""

    def __init__(self, known: Dict[str, Any], make: Callable[[str], Any]) -> None:
        super().__init__(known)
        self._make = make

    def __missing__(self, name: str) -> Any:
        if not isinstance(name, str) or not name.startswith(PREFIX):
            raise KeyError(name)
        self[name] = self._make(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name.startswith(PREFIX):
            self[name]  # noqa: B018
        return super().__contains__(name)


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
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(name, function or _named(name))
    AttentionMaskInterface.register(name, _mask)
    return name


# ---- models ----


def _is_ours(implementation: Any) -> bool:
    return isinstance(implementation, str) and implementation.startswith(PREFIX)


def _check_model(model: Any, name: str) -> None:
    """Models whose attention would not be asked, or which attend from one text to another."""
    who, config = type(model).__name__, model.config
    if not getattr(model, "_can_set_attn_implementation", lambda: True)():
        raise refuse(f"{name} cannot serve {who}: it computes its attention by itself")
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False):
        raise refuse(f"{name} cannot serve {who}: its decoder attends from one text to another")


def _wrap(cls: Any, method: str, around: Callable[..., Any]) -> None:
    """Put a function around a method of transformers, once."""
    inner = getattr(cls, method)
    if getattr(inner, "_hga", False):
        return

    @functools.wraps(inner)
    def outer(self: Any, *arguments: Any, **more: Any) -> Any:
        return around(inner, self, *arguments, **more)

    outer._hga = True  # type: ignore[attr-defined]
    setattr(cls, method, outer)


def _implementation(inner: Callable[..., Any], self: Any, *arguments: Any, **more: Any) -> Any:
    """PreTrainedModel's choice and change of implementation: one of ours is made known, and fits the model."""
    for requested in filter(_is_ours, (*arguments, *more.values())):
        from transformers import AttentionInterface

        AttentionInterface._global_mapping[requested]  # noqa: B018
        _check_model(self, requested)
    return inner(self, *arguments, **more)


def _generate(inner: Callable[..., Any], self: Any, *arguments: Any, **more: Any) -> Any:
    """A cache holds keys of layers that another length's hierarchy would have made differently, and queries of one token:
    every token is a whole pass."""
    configs = [self.config, self.config.get_text_config(decoder=True)]
    ours = [c._attn_implementation for c in configs if _is_ours(getattr(c, "_attn_implementation", None))]
    if ours:
        if more.get("past_key_values") is not None:
            raise refuse(f"{ours[0]}: generate() was given a cache of keys (past_key_values), which cannot be used")
        if more.get("use_cache") is not False:
            said = f"{ours[0]}: generate() runs without a cache (use_cache=False): every token is a whole pass"
            warnings.warn(said, stacklevel=3)
        more["use_cache"] = False
    return inner(self, *arguments, **more)


def register() -> None:
    """Let every model take attn_implementation="hga:VARIANT:parameter=value:..". May be called again."""
    from transformers import AttentionInterface
    from transformers.generation import GenerationMixin
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import PreTrainedModel

    for interface, make_one in ((AttentionInterface, _named), (AttentionMaskInterface, lambda _: _mask)):
        if not isinstance(interface._global_mapping, _Names):
            interface._global_mapping = _Names(interface._global_mapping, make_one)
    _wrap(PreTrainedModel, "get_correct_attn_implementation", _implementation)
    _wrap(PreTrainedModel, "set_attn_implementation", _implementation)
    _wrap(GenerationMixin, "generate", _generate)
