"""The bare name "hga": a model's own attention, exactly, by hga where that is faster, and as transformers computes it where it is
not. What each layer takes is known from shapes and types; ``explain`` prints it."""

from __future__ import annotations

import sys
import weakref
from contextvars import ContextVar
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from .._core.library import Error, refuse
from .._core.releases import look_up_early, private
from ..torch._documents import is_numbered, sides_in
from ..torch import _sdpa
from ..torch._sdpa import call_is_little, is_little, is_transformed, work_of
from .._graphs.spec import hierarchy_of
from ._attention import PREFIX, attend, tables_of
from ._generation import layer_of
from ._masks import mask as numbered_mask, remembered
from ._positions import attend_by_distance, is_table, pairs_of, table_in

Tensor = torch.Tensor
NAME = "hga"
_DENSE = PREFIX + "dense"
_SDPA, _SDPA_MASK = "transformers.integrations.sdpa_attention.sdpa_attention_forward", "transformers.masking_utils.sdpa_mask"
_EAGER_MASK = "transformers.masking_utils.eager_mask"
look_up_early(_SDPA, _SDPA_MASK, _EAGER_MASK)

# ---- which is faster ----


def _of_pass_is_little(batch: int, tokens: int, dtype: Any, config: Any) -> bool:
    """Before the pass, of a model's numbers; not known: it is not."""
    heads, width = getattr(config, "num_attention_heads", None), getattr(config, "hidden_size", None)
    if not isinstance(heads, int) or not isinstance(width, int):
        return tokens < _sdpa.FEWEST
    dim = getattr(config, "head_dim", None) or width // heads
    return is_little(work_of(batch, heads, tokens, 2 * dim), tokens, dtype, torch.is_grad_enabled())


def _against(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], packed: Any = None) -> Optional[str]:
    """Why does hga not attend? None: it does, unless it refuses what the model asks for."""
    tokens = query.shape[2]
    if query.device.type != "cpu":
        return f"tensors on {query.device.type}"
    if tokens != key.shape[2]:
        return f"{tokens} queries of {key.shape[2]} keys"
    if call_is_little(query, key, value):
        return f"{tokens} tokens are few"
    if mask is not None and not is_numbered(mask):
        return "a mask of pairs, or of padding"
    if packed is not None:  # sdpa does not read it
        return "lengths of packed texts"
    if is_transformed(query, key, value):
        return "a transform of torch.func"
    return None


# ---- as transformers does it ----


def _pairs(mask: Optional[Tensor], causal: bool) -> Optional[Tensor]:
    """A mask of numbers as one of pairs, [batch][1][queries][keys]; None where it hides nothing that is not later."""
    if mask is None or not is_numbered(mask):
        return mask
    return remembered(mask, ("pairs", causal), lambda: _pairs_of(mask, causal))


def _pairs_of(mask: Tensor, causal: bool) -> Optional[Tensor]:
    number, sides = mask[:, 0, 0], sides_in(mask)
    if sides is None and bool((number == (1 if causal else -1)).all()):
        return None
    at = torch.arange(number.shape[1], device=mask.device)
    back = at[:, None] - at[None, :]
    if bool((number == 0).any()):  # rows of padding see the text
        seen = (number != 0)[:, None, :] & ((back >= 0) | bool((number < 0).any()))
        return seen[:, None]
    seen = number[:, :, None] == number[:, None, :]
    seen &= (back >= 0) | (number < 0)[:, :, None]
    if sides is not None:
        seen &= (back <= sides[0]) & (back >= -sides[1])
    return seen[:, None]


# By id: configurations of models whose layers have asked for what sdpa does not know. Their masks are added to scores.
_EAGER: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


def _adds_masks(config: Any) -> bool:
    """Softcaps are known from the configuration, sinks once a layer has asked for them."""
    return config is not None and (getattr(config, "attn_logit_softcapping", None) is not None or _EAGER.get(id(config)) is config)


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of truth values as one that is added to scores."""
    def make() -> Tensor:
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, torch.finfo(dtype).min)

    return remembered(mask, dtype, make)


def _eager_of(module: Any) -> Any:
    """The function of a model's own file."""
    return getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)


def _eagerly(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], causal: bool, **more: Any) -> Any:
    """The model's own function: sdpa knows neither softcaps nor sinks."""
    forward = _eager_of(module)
    if forward is None:
        raise refuse(f"{NAME}: {type(module).__name__} has a softcap or a sink, and transformers no function for them")
    if hasattr(module, "config") and not torch.compiler.is_compiling():
        _EAGER[id(module.config)] = module.config
    if mask is None and causal and query.shape[2] > 1:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril(key.shape[2] - query.shape[2])[None, None]
    if mask is not None and mask.dtype == torch.bool:
        mask = _added(mask, query.dtype)
    return forward(module, query, key, value, mask, **more)


def _as_transformers(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], is_causal: Optional[bool], **more: Any) -> Any:
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    mask = _pairs(mask, causal)
    if more.get("softcap") is not None or more.get("s_aux") is not None:
        return _eagerly(module, query, key, value, mask, causal, **more)
    return private(_SDPA)(module, query, key, value, mask, is_causal=is_causal, **more)


# ---- texts with padding behind them ----


def _lengths_of(mask: Optional[Tensor]) -> Optional[List[int]]:
    """How many tokens each sample has in front of its padding; None where a mask of numbers says of none."""
    if mask is None or not is_numbered(mask) or torch.compiler.is_compiling():
        return None
    there = mask[:, 0, 0] != 0
    return remembered(mask, "lengths", lambda: None if bool(there.all()) else there.sum(1).tolist())


def _with_rows_of_padding(out: Tensor, lengths: List[int], query: Tensor, key: Tensor, value: Tensor, tables: Dict[str, Any]) -> Tensor:
    """[batch, tokens, heads, dim]: in transformers a row of padding sees the text in front of it, all of it."""
    each = []
    for b, n in enumerate(lengths if len(lengths) == len(out) else lengths * len(out)):
        behind = out.shape[1] - n
        rows = [out[b, :n]]
        if behind:
            h = hierarchy_of("dense", behind, False, n)
            rows.append(h.attention(query[b, :, n:], key[b, :, :n], value[b, :, :n], **tables).transpose(0, 1))
        each.append(torch.cat(rows))
    return torch.stack(each)


# ---- the function, and its mask ----


class Taken(NamedTuple):
    layer: int
    module: str
    by: str
    why: str


_REFUSALS = ("HGA_EINVAL", "HGA_EUNSUPPORTED")  # of what a layer asks for: then transformers answers, or complains
_SEEN: "ContextVar[Optional[List[Taken]]]" = ContextVar("hga_taken", default=None)


def note(module: Any, by: str, why: str) -> None:
    """What a layer takes, for ``explain``. Layers without a number are counted."""
    seen = None if torch.compiler.is_compiling() else _SEEN.get()
    if seen is not None:
        name, layer = type(module).__name__, getattr(module, "layer_idx", None)
        seen.append(Taken(sum(x.module == name for x in seen) if layer is None else int(layer), name, by, why))


def _at_once(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], more: Dict[str, Any]) -> Any:
    """transformers' function, where there is little work and it takes the mask as it is: no more questions, which would take longer than
    the answer is worth. None: there is more to ask."""
    tokens = query.shape[2]
    little = tokens < _sdpa.FEWEST or tokens != key.shape[2] or call_is_little(query, key, value)
    if not little or (mask is not None and mask.dtype is torch.int32):
        return None
    if _SEEN.get() is not None or is_table(more.get("position_bias")) or layer_of(key, more) is not None:
        return None
    if more.get("softcap") is None and more.get("s_aux") is None:
        return private(_SDPA)
    return None if mask is None or mask.dtype is torch.bool else _eager_of(module)


def attend_own(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor], dropout: float = 0.0,
    scaling: Optional[float] = None, is_causal: Optional[bool] = None, **more: Any,
) -> Any:  # fmt: skip
    """[batch, heads, tokens, dim] as the model has them; [batch, tokens, heads, dim] back."""
    at_once = None if torch.compiler.is_compiling() else _at_once(module, query, key, value, attention_mask, more)
    if at_once is not None:
        return at_once(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **more)
    table = table_in(module, more)
    if table is not None:
        return _attend_own_by_distance(module, query, key, value, attention_mask, table, dropout, scaling, is_causal, **more)
    why = None if layer_of(key, more) is not None else _against(query, key, value, attention_mask, more.get("cu_seq_lens_q"))
    if why is None:
        try:
            found = attend(_DENSE, module, query, key, value, attention_mask, dropout, scaling, is_causal, **more)
            lengths = _lengths_of(attention_mask)
            if lengths is not None:
                out = _with_rows_of_padding(found[0], lengths, query, key, value, {"scale": scaling, **tables_of(more)})
                found = out, None
        except Error as e:
            if e.status not in _REFUSALS or layer_of(key, more) is not None:
                raise
            why = e.detail.partition(": ")[2] or e.detail
        else:
            note(module, "hga", "it is faster")
            return found
    note(module, "transformers", why)
    return _as_transformers(module, query, key, value, attention_mask, is_causal, dropout=dropout, scaling=scaling, **more)


def _attend_own_by_distance(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor], table: Tensor, dropout: float,
    scaling: Optional[float], is_causal: Optional[bool], **more: Any,
) -> Any:  # fmt: skip
    """The same with a table of biases by distance, which transformers is given as a matrix."""
    if layer_of(key, more) is None:
        causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
        besides = {word: x for word, x in more.items() if word != "position_bias"}
        found, why = attend_by_distance(
            module, query, key, value, attention_mask, table, beside="sdpa", dropout=dropout, scaling=scaling, causal=causal, **besides
        )
        note(module, "transformers" if found is None else "hga", why)
        if found is not None:
            return found, None
    more["position_bias"] = pairs_of(table)
    return _as_transformers(module, query, key, value, attention_mask, is_causal, dropout=dropout, scaling=scaling, **more)


def _may_be_numbers(mask: Optional[Tensor], device: Any) -> bool:
    """Is there no padding, or behind every text alone? Whom other rows of padding see is for transformers to say."""
    if device is not None and torch.device(device).type != "cpu":
        return False
    if mask is None:
        return True
    if torch.compiler.is_compiling() or mask.device.type != "cpu":
        return False
    there = mask != 0
    return bool(there.all()) or (mask.dim() == 2 and bool(there[:, 0].all()) and not bool((there[:, 1:] & ~there[:, :-1]).any()))


def mask_own(batch_size: int, kv_length: int, **more: Any) -> Optional[Tensor]:
    """The numbers of documents where hga may attend, which is without padding, and else what sdpa reads."""
    queries = more["q_length"] if "q_length" in more else len(more["cache_position"])  # transformers before 5
    little = queries < _sdpa.FEWEST or queries != kv_length or _of_pass_is_little(batch_size, queries, more.get("dtype"), more.get("config"))
    padding = more.get("attention_mask")
    if not little and _may_be_numbers(padding, more.get("device")):
        numbers = numbered_mask(batch_size=batch_size, kv_length=kv_length, **more)
        if padding is None or not is_numbered(numbers) or numbers.shape[2] == 1 or bool(padding.all()):  # in a window rows of padding may see none
            return numbers
    theirs = _EAGER_MASK if _adds_masks(more.get("config")) else _SDPA_MASK
    found: Optional[Tensor] = private(theirs)(batch_size=batch_size, kv_length=kv_length, **more)
    return found


# ---- in words ----


def explain(model: Any, tokens: int, batch: int = 1) -> str:
    """What each layer of a model with attn_implementation="hga", or of an MPNet, Bloom or Falcon in ``use``, takes for so many tokens, and why, found in
    one pass over random ids: "hga", or "transformers" where that is faster or hga does not offer what the layer asks for. With
    gradients where the model is training."""
    if getattr(model.config, "_attn_implementation", None) != NAME and not any(getattr(x, "hga_says", False) for x in model.modules()):
        raise refuse(f"the model attends by {getattr(model.config, '_attn_implementation', None)!r}: set_attn_implementation('{NAME}') first")
    name = getattr(model, "main_input_name", "input_ids")
    if name != "input_ids" or tokens < 1:
        raise refuse(f"explain gives random ids, one at least: {type(model).__name__} reads {name}, and {tokens} were asked for")
    ids = torch.randint(getattr(model.config.get_text_config(), "vocab_size", 2), (batch, tokens), generator=torch.Generator().manual_seed(1))
    token = _SEEN.set([])
    try:
        with torch.set_grad_enabled(model.training):
            model(input_ids=ids, **_besides(model.config, ids))
        seen = _SEEN.get() or []
    finally:
        _SEEN.reset(token)
    groups: Dict[Tuple[str, str, str], List[int]] = {}
    for one in seen:
        groups.setdefault(one[1:], []).append(one.layer)
    lines = [f"{_ranges(layers)} of {module}: {by}: {why}" for (module, by, why), layers in groups.items()]
    return "\n".join(lines) if lines else "no layer asked for attention by its name"


def _besides(config: Any, ids: Tensor) -> Dict[str, Any]:
    more: Dict[str, Any] = {"use_cache": False} if hasattr(config, "use_cache") else {}
    return {**more, "decoder_input_ids": ids} if getattr(config, "is_encoder_decoder", False) else more


def _ranges(layers: List[int]) -> str:
    """layers 0-2, 5"""
    runs: List[List[int]] = []
    for i in sorted(set(layers)):
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    said = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"layer {said}" if len(runs) == 1 and runs[0][0] == runs[0][1] else f"layers {said}"
