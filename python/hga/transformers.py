"""hga in Hugging Face transformers: a stock model with another attention.

    import hga.transformers
    hga.transformers.register()
    model = AutoModel.from_config(config, attn_implementation="hga:htransformer:block=32")
    model.set_attn_implementation("hga:dense")

After "hga:" comes a variant's name, then its parameters, each behind a colon. Where the model is causal the variant must
be able to be causal, and is made so. Padding is left out: every sample attends over its own tokens alone, and rows of
padding are zero. ``hga.transformers.by_layer({1: "hga:window:left=32", ..}, "hga:dense")`` names a mapping by layer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ._core import refuse
from ._variants import make, variants

PREFIX = "hga:"


@lru_cache(maxsize=256)
def _hierarchy(words: str, n: int, causal: bool) -> Any:
    """The hierarchy of n tokens that an implementation's name asks for."""
    name, *settings = words[len(PREFIX) :].split(":")
    v = variants().get(name)
    if v is None:
        raise refuse(f"{words}: no variant {name!r}; there are {', '.join(sorted(variants()))}")
    if v.rows_are_nodes:
        raise refuse(f"{words}: rows of {name} are nodes, a model's are tokens")
    given: Dict[str, Any] = {}
    for setting in settings:
        parameter, equals, value = setting.partition("=")
        if not equals:
            raise refuse(f"{words}: {setting!r} is not name=value")
        p = v.parameter(parameter.replace("-", "_"))
        given[p.python_name] = int(value) if p.type in ("int", "bool") else (
            [int(x) for x in value.split(",")] if p.type == "array of int" else value
        )  # fmt: skip
    if causal:
        if not v.can_causal:
            raise refuse(f"{words}: the model is causal, {name} cannot be")
        if any(p.name == "causal" for p in v.parameters):
            given["causal"] = True
    return make(v, n, given)


def _lengths(mask: Optional[torch.Tensor], batch: int, tokens: int, causal: bool) -> Tuple[Tuple[int, int], ...]:
    """(first, n) of every sample's own tokens: the keys that its last (or, when not causal, any) query may see."""
    if mask is None:
        return ((0, tokens),) * batch
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    if seen.dim() == 4:
        seen = seen[:, 0].any(1)  # keys that somebody sees
    if seen.dim() != 2 or seen.shape[-1] < tokens:
        raise refuse(f"an attention mask of shape {tuple(mask.shape)} is not understood")
    seen = seen[:, -tokens:].expand(batch, tokens)
    found = []
    for row in seen.tolist():
        own = [i for i, x in enumerate(row) if x]
        if own and own[-1] - own[0] + 1 != len(own):
            raise refuse("padding in the middle of a sample is not understood")
        found.append((own[0], len(own)) if own else (0, 0))
    return tuple(found)


def _attend(words: str, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
            attention_mask: Optional[torch.Tensor], dropout: float = 0.0, scaling: Optional[float] = None,
            is_causal: Optional[bool] = None, **more: Any) -> Tuple[torch.Tensor, None]:  # fmt: skip
    """[batch, heads, tokens, dim] as the model has them; [batch, tokens, heads, dim] back."""
    for name in ("position_bias", "softcap", "sliding_window", "s_aux"):
        if more.get(name) is not None:
            raise refuse(f"{words}: {name} is not supported")
    batch, heads, tokens, _ = query.shape
    if key.shape[2] != tokens:
        raise refuse(f"{words}: {tokens} queries and {key.shape[2]} keys; a cache cannot be used (use_cache=False)")
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", False))
    out = query.new_zeros(batch, tokens, heads, value.shape[-1])
    lengths = _lengths(attention_mask, batch, tokens, causal)
    drop = dropout if module.training else 0.0
    seed = int(torch.randint(2**62, ())) if drop else 0
    options = dict(scale=scaling, dropout=drop, seed=seed, layer=int(getattr(module, "layer_idx", 0) or 0))
    if len(set(lengths)) == 1 and lengths[0] == (0, tokens):
        y = _hierarchy(words, tokens, causal).attention(query, key, value, **options)
        return y.transpose(1, 2).contiguous(), None
    parts = []
    for b, (first, n) in enumerate(lengths):
        if n == 0:
            parts.append(out[b])
            continue
        own = slice(first, first + n)
        y = _hierarchy(words, n, causal).attention(query[b, :, own], key[b, :, own], value[b, :, own], **options)
        parts.append(torch.nn.functional.pad(y.transpose(0, 1), (0, 0, 0, 0, first, tokens - first - n)))
    return torch.stack(parts), None


def _named(words: str) -> Callable[..., Any]:
    def attend(module: Any, *arguments: Any, **more: Any) -> Any:
        return _attend(words, module, *arguments, **more)

    return attend


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

    def attend(module: Any, *arguments: Any, **more: Any) -> Any:
        words = layers.get(int(getattr(module, "layer_idx", -1)), otherwise)
        return _attend(words, module, *arguments, **more)

    add(name, attend)
    return name


def add(name: str, function: Optional[Callable[..., Any]] = None) -> str:
    """Make one name known; what it means when it is read."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    if function is None:
        _hierarchy(name, 2, False) if not name.endswith("causal") else None
    AttentionInterface.register(name, function or _named(name))
    AttentionMaskInterface.register(name, eager_mask)
    return name


def register() -> None:
    """Let every model take attn_implementation="hga:VARIANT:parameter=value:..". May be called again."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_utils import PreTrainedModel

    for interface, make_one in ((AttentionInterface, _named), (AttentionMaskInterface, lambda _: eager_mask)):
        if not isinstance(interface._global_mapping, _Names):
            interface._global_mapping = _Names(interface._global_mapping, make_one)
    if not hasattr(PreTrainedModel, "_hga_checked"):
        checked = PreTrainedModel.get_correct_attn_implementation

        def get_correct_attn_implementation(self: Any, requested: Any, *arguments: Any, **more: Any) -> Any:
            if isinstance(requested, str) and requested.startswith(PREFIX):
                AttentionInterface._global_mapping[requested]
            return checked(self, requested, *arguments, **more)

        PreTrainedModel.get_correct_attn_implementation = get_correct_attn_implementation
        PreTrainedModel._hga_checked = True
