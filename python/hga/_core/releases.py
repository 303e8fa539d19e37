"""The releases of other packages that hga is tested with, and every name of theirs that is not their public interface.

Such a name is looked up when it is used. Where the installed release lacks it, or where it takes other arguments, that call is
refused by a sentence with both releases. Nothing is refused at import, and no release is too new."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from importlib.util import find_spec
from typing import Any, Callable, Dict, NamedTuple, Tuple

from .library import Error

# The oldest and the newest; python/tests/oldest.txt, requirements.txt and their neighbours pin these.
TESTED = {"torch": ("2.5", "2.15"), "transformers": ("4.53", "5.24"), "torch_geometric": ("2.5", "2.8"), "onnx": ("1.18", "1.23"), "jax": ("0.5", "0.10")}


class Private(NamedTuple):
    """A name of another package: what needs it, the first release that has it, parameters that it must take, and the first release
    that is known to be without it."""

    use: str
    since: str
    takes: Tuple[str, ...] = ()
    until: str = ""


_TRANSFORMS = "a tensor inside a transform of torch.func"
_GRAPHS = "reading a score_mod or mask_mod"
_COMPILED_FLEX = "torch.compile of flex_attention"
_COMPILED = "torch.compile of this module"
_LOOKED_AT = "capture of a model that torch.compile has compiled"
_MODELS = "attn_implementation='hga:..'"

PRIVATE: Dict[str, Private] = {
    "torch._C._functorch": Private(_TRANSFORMS, "2.5"),
    "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack": Private(_TRANSFORMS, "2.5"),
    "torch.fx.experimental.proxy_tensor.make_fx": Private(_GRAPHS, "2.5", ("f",)),
    "torch._ops.HigherOrderOperator": Private(_COMPILED_FLEX, "2.5"),
    "torch._dynamo.variables.higher_order_ops._hop_name_to_variable_class": Private(_COMPILED_FLEX, "2.9"),
    "torch._dynamo.variables.higher_order_ops.FlexAttentionHigherOrderVariable": Private(_COMPILED_FLEX, "2.9"),
    "torch._higher_order_ops.utils.setup_compilation_env": Private("torch.export(strict=False) of flex_attention", "2.15"),
    "torch._C._ForceDispatchKeyGuard": Private(_COMPILED, "2.5"),
    "torch._C._dispatch_tls_local_include_set": Private(_COMPILED, "2.5"),
    "torch._C._dispatch_tls_local_exclude_set": Private(_COMPILED, "2.5"),
    "torch._C.DispatchKeySet": Private(_COMPILED, "2.5"),
    "torch._C.DispatchKey.AutogradCPU": Private(_COMPILED, "2.5"),
    "torch._C.DispatchKey.ADInplaceOrView": Private(_COMPILED, "2.5"),
    "torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode": Private(_COMPILED, "2.5"),
    "torch._C.DispatchKey.FuncTorchDynamicLayerBackMode": Private(_COMPILED, "2.5"),
    "torch.compiler.set_stance": Private(_LOOKED_AT, "2.6", ("stance",)),
    "torch.distributed.distributed_c10d._get_default_store": Private("hga.torch.distributed", "2.5"),
    "transformers.modeling_utils.AttentionInterface._global_mapping": Private(_MODELS, "4.53"),
    "transformers.masking_utils.AttentionMaskInterface._global_mapping": Private(_MODELS, "4.53"),
    "transformers.modeling_utils.AttentionInterface.__getitem__": Private("hga.transformers.capture", "4.53"),
    "transformers.modeling_utils.PreTrainedModel.get_correct_attn_implementation": Private(_MODELS, "4.55"),
    "transformers.modeling_utils.PreTrainedModel._check_and_adjust_attn_implementation": Private(_MODELS, "4.54", (), "5.0"),
    "transformers.modeling_utils.PreTrainedModel._autoset_attn_implementation": Private(_MODELS, "4.53", (), "4.54"),
    "transformers.utils.output_capturing._active_collector": Private("output_attentions=True", "5.1"),
    "transformers.integrations.sdpa_attention.sdpa_attention_forward": Private(_MODELS, "4.53"),
    "transformers.masking_utils.sdpa_mask": Private(_MODELS, "4.53", ("batch_size", "kv_length", "mask_function", "attention_mask")),
    "transformers.masking_utils.eager_mask": Private(_MODELS, "4.53", ("batch_size", "kv_length", "mask_function", "attention_mask")),
    "transformers.models.t5.modeling_t5.T5Attention.compute_bias": Private(
        "T5's biases with attn_implementation='hga'", "5.24", ("query_length", "key_length", "past_seen_tokens")
    ),
    "transformers.generation.GenerationMixin._prepare_cache_for_generation": Private(
        "generate() with attn_implementation='hga:..'", "4.53", ("generation_config", "model_kwargs", "max_cache_length")
    ),
}  # fmt: skip


# ---- releases ----


def needs(package: str, extra: str) -> None:
    """Refuse to go on without a package that `pip install '.[extra]'` installs."""
    if find_spec(package) is None:
        line = f"hga.{extra} needs {package}, which is not installed: pip install '.[{extra}]' in the folder of hga's sources"
        raise ModuleNotFoundError(line, name=package)


def release(text: str) -> Tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def installed(package: str) -> str:
    return str(importlib.import_module(package).__version__)


def is_older(package: str, than: str) -> bool:
    return release(installed(package)) < release(than)


def refuse_older(package: str, since: str, use: str) -> Error:
    """The refusal of what an older release does not have."""
    return Error("HGA_EUNSUPPORTED", f"{use} needs {package} {since} or newer, and {installed(package)} is installed")


@functools.lru_cache(maxsize=None)
def cache_argument() -> str:
    """The argument of models and of generate(), and the field of what they give back."""
    output = importlib.import_module("transformers.generation").GenerateDecoderOnlyOutput
    return "cache" if "cache" in output.__dataclass_fields__ else "past_key_values"  # before transformers 5.24


@functools.lru_cache(maxsize=None)
def crops_to_length() -> bool:
    """Does a cache's ``crop`` take the number of tokens to keep, above 0? In older releases it is."""
    crop = getattr(importlib.import_module("transformers.cache_utils").Cache, "crop", None)
    return crop is None or "max_length" in inspect.signature(crop).parameters


@functools.lru_cache(maxsize=None)
def before_five() -> bool:
    """Do masks come wider than the keys, and does GPT-2 pass is_causal=False with a mask that is causal? Both are transformers 4's."""
    return is_older("transformers", "5.0")


# Architectures (config.model_type) that ask transformers' attention interface, and did not always.
ASKS_SINCE = {"bert": "5.0", "roberta": "5.0"}


def asks(model: Any) -> bool:
    """Does the model, or its class, ask the attention interface?"""
    says = getattr(model, "_can_set_attn_implementation", None)  # not before transformers 4.54
    cls = model if isinstance(model, type) else type(model)
    return bool(says()) if says is not None else hasattr(sys.modules[cls.__module__], "ALL_ATTENTION_FUNCTIONS")


def asks_later(config: Any) -> str:
    """The first release in which the architecture asks, where the installed one is older."""
    since = ASKS_SINCE.get(getattr(config, "model_type", ""), "")
    return since if since and is_older("transformers", since) else ""


# ---- names ----


def _found(path: str) -> Any:
    """What has this name; None where nothing has."""
    owner, _, name = path.rpartition(".")
    module = sys.modules.get(owner)
    if module is None:
        try:
            module = importlib.import_module(owner)
        except ImportError:  # a class's, or gone
            module = _found(owner) if "." in owner else None
    return getattr(module, name, None)


def _takes(found: Any, names: Tuple[str, ...]) -> bool:
    if not names:
        return True
    try:
        return set(names) <= set(inspect.signature(found).parameters)
    except (TypeError, ValueError):  # which reports nothing
        return True


# Of what is needed inside of a model that torch.compile traces, where nothing can be looked up: found when hga.transformers is imported.
_EARLY: Dict[str, Any] = {}


def look_up_early(*paths: str) -> None:
    for path in paths:
        _EARLY[path] = _usable(path)


def _usable(path: str) -> Any:
    """What PRIVATE lists by this name; None where it is not there, or takes other arguments."""
    if path in _EARLY:
        return _EARLY[path]
    found = _found(path)
    return found if found is not None and _takes(found, PRIVATE[path].takes) else None


def private(path: str) -> Any:
    """The same, or the refusal of the call that asks for it."""
    found = _usable(path)
    if found is not None:
        return found
    row, package = PRIVATE[path], path.partition(".")[0]
    if is_older(package, row.since):
        raise refuse_older(package, row.since, row.use)
    newest = TESTED[package][1]
    lacks = f"has no {path}" if _found(path) is None else f"has it with other arguments than {', '.join(row.takes)}"
    raise Error(
        "HGA_EUNSUPPORTED",
        f"{row.use} is not known with {package} {installed(package)}, which {lacks}; {package} {row.since} to {newest} has it: "
        f"install {package} {newest}, or a newer hga",
    )


@functools.lru_cache(maxsize=None)
def perhaps(name: str) -> Callable[[], Any]:
    """A question to torch._C. A release that does not know it may mean yes, and hga then does what is right for both."""
    found: Callable[[], Any] = _found("torch._C." + name) or (lambda: True)
    return found


def in_forward_mode() -> bool:
    """Is there a level of dual numbers? Where torch does not say, there may be."""
    return bool(getattr(sys.modules["torch"].autograd.forward_ad, "_current_level", 0) >= 0)


def has(path: str) -> bool:
    """Is it there? For what is done otherwise where it is not."""
    return _usable(path) is not None
