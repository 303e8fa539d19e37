"""Queries, keys and values of a model's layer, as its attention gets them."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, cast

import torch

from .._core.arguments import answering, whole
from .._core.releases import asks_later, has, private
from .._core.library import refuse, refuse_type
from ._attention import refuse_besides, tables_of


class Captured(NamedTuple):
    """What attention got of one text: q, k, v [heads][tokens][dim] in float32, the factor of q . k, whether no token sees a later one,
    the words of the tokens where there was a tokenizer, what else the layer does to scores, as tables of ``Hierarchy.attention``
    (softcap, sink), and, of a layer that slides, how many tokens one sees, itself among them."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    causal: bool
    words: Optional[List[str]]
    tables: Dict[str, Any]
    window: Optional[int]


class _Enough(Exception):
    """The layer has been seen; the layers behind it need not run."""


class Watch:
    """Stands before each attention of this thread's models."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def before(self, attend: Callable[..., Any]) -> Callable[..., Any]:
        """What is called instead of an attention."""
        raise NotImplementedError

    def at(self, inner: Callable[..., Any], gives: bool) -> Callable[..., Any]:
        """Of a function that gives attention, or is attention."""

        def door(*arguments: Any, **more: Any) -> Any:
            if threading.get_ident() != self.thread:
                return inner(*arguments, **more)
            return self.before(inner(*arguments, **more)) if gives else self.before(inner)(*arguments, **more)

        return door


class _Layer(Watch):
    """Waits for one layer, and counts."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer, self.calls = layer, 0
        self.found: Optional[Captured] = None

    def before(self, attend: Callable[..., Any]) -> Callable[..., Any]:
        def watched(module: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> Any:
            if self.calls == self.layer:
                self.found = _captured(module, query, key, value, more)
                raise _Enough
            self.calls += 1
            return attend(module, query, key, value, *rest, **more)

        return watched


def _captured(module: Any, query: Any, key: Any, value: Any, more: Mapping[str, Any]) -> Captured:
    who = f"capture: {type(module).__name__}"
    if len(query) != 1:
        raise refuse(f"{who} attends in {len(query)} parts: capture takes one text")
    refuse_besides(who, more)
    if more.get("cu_seq_lens_q") is not None:
        raise refuse(f"{who} attends in packed texts (cu_seq_lens): capture takes one text")
    scale, causal, window = (more.get(name) for name in ("scaling", "is_causal", "sliding_window"))
    q, k, v = (x[0].detach().float().clone() for x in (query, key, value))
    return Captured(
        q, k, v, query.shape[-1] ** -0.5 if scale is None else float(scale),
        bool(getattr(module, "is_causal", False) if causal is None else causal), None,
        {name: x for name, x in tables_of(more).items() if x is not None}, None if window is None else int(window),
    )  # fmt: skip


# ---- the model's inputs ----


def _ids(text: Any) -> torch.Tensor:
    try:
        ids = torch.as_tensor(text)
    except (TypeError, ValueError, RuntimeError) as e:
        raise refuse_type(f"text is neither a str nor ids of tokens: {e}") from None
    if ids.dim() not in (1, 2) or not ids.numel() or ids.is_floating_point():
        raise refuse(f"text is {ids.dtype} of shape {tuple(ids.shape)}, not ids of tokens")
    return ids[None] if ids.dim() == 1 else ids


def inputs_of(text: Any, tokenizer: Any) -> Mapping[str, Any]:
    """What a model takes of a str, of ids, or as it is."""
    if isinstance(text, str):
        if tokenizer is None:
            raise refuse("text is a str: give tokenizer=, or the tokens' ids")
        text = tokenizer(text, return_tensors="pt")
    if isinstance(text, Mapping):
        return {name: _ids(x) if isinstance(x, list) else x for name, x in text.items()}
    return {"input_ids": _ids(text)}


def _require_one_text(inputs: Mapping[str, Any]) -> None:
    ids, mask, positions = (inputs.get(name) for name in ("input_ids", "attention_mask", "position_ids"))
    if ids is not None and len(ids) != 1:
        raise refuse(f"input_ids has shape {tuple(ids.shape)}: capture takes one text")
    if mask is not None and bool((mask != 1).any()):
        raise refuse("attention_mask hides tokens: capture takes a text without padding")
    if positions is not None and positions.dim() < 3 and bool((positions.flatten().diff() < 0).any()):
        raise refuse("position_ids begin anew, as those of packed texts: capture takes one text")


# ---- the model's pass ----

_LOCK = threading.RLock()
_STANCE, _EAGER = "torch.compiler.set_stance", "eager_attention_forward"


def _runs_eagerly(model: Any) -> ContextManager[Any]:
    """What torch.compile has compiled of the model does not hide its attention."""
    if has(_STANCE) or any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) is not None for m in model.modules()):
        return cast(ContextManager[Any], private(_STANCE)("force_eager"))
    return contextlib.nullcontext()


def _doors(model: Any) -> List[Tuple[Any, str, bool]]:
    """What models take their attention from, (owner, name, does it give attention, or is it attention?): the interface, which
    before transformers 5 gives all but the models' own "eager" functions."""
    from transformers.modeling_utils import AttentionInterface

    if hasattr(AttentionInterface, "get_interface"):
        return [(AttentionInterface, "get_interface", True)]
    private("transformers.modeling_utils.AttentionInterface.__getitem__")
    modules = {sys.modules[type(m).__module__] for m in model.modules()}
    return [(AttentionInterface, "__getitem__", True), *((m, _EAGER, False) for m in modules if hasattr(m, _EAGER))]


@contextlib.contextmanager
def watched_by(watch: Watch, model: Any) -> Iterator[None]:
    """Whatever the model attends by is seen first; models and their settings stay as they are."""
    with _LOCK, _runs_eagerly(model), contextlib.ExitStack() as doors:
        for owner, name, gives in _doors(model):
            inner = getattr(owner, name)
            doors.callback(setattr, owner, name, inner)
            setattr(owner, name, watch.at(inner, gives))
        yield


def _run(model: Any, watch: _Layer, inputs: Mapping[str, Any]) -> Captured:
    with torch.no_grad(), contextlib.suppress(_Enough), watched_by(watch, model):
        model(**inputs)
    if watch.found is None:
        since = asks_later(getattr(model, "config", None))
        raise refuse(f"{type(model).__name__} attends {watch.calls} times through transformers' attention interface: there is no layer {watch.layer}"
                     + (f" (with transformers {since} or newer there is)" if since else ""))  # fmt: skip
    return watch.found


@answering
def capture(model: Any, layer: int, text: Any, tokenizer: Any = None) -> Captured:
    """What a layer's attention gets of one text: ``c = capture(model, 9, "In the beginning ..", tokenizer)``, and then
    ``hga.choose(c.q, c.k, c.v, causal=c.causal, scale=c.scale)`` or ``h.view(q=c.q, k=c.k, words=c.words, scale=c.scale, **c.tables)``.
    text: a str, which the tokenizer takes, ids of tokens, or what the model takes by name. Layers are counted from 0, in the
    order in which the model attends, as it does without hga watching; those behind this one do not run. Positions are in queries and
    keys as the model puts them. Padding, packed texts and biases by position are refused."""
    inputs = inputs_of(text, tokenizer)
    _require_one_text(inputs)
    found, ids = _run(model, _Layer(whole(layer, "layer")), inputs), inputs.get("input_ids")
    if tokenizer is None or ids is None or "decoder_input_ids" in inputs or ids.shape[1] != found.q.shape[1]:
        return found
    return found._replace(words=[tokenizer.decode([int(i)]) for i in ids[0]])
