"""Numbers of keys that a model was calibrated to need, layer by layer and head by head: files of ``calibrate``, and names of attention
that take them, ``hga:routed:block=16:budgets=@FILE:prefill=16``."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .._core.arguments import whole
from .._core.library import Error, refuse
from .._graphs.settings import values_of
from .._graphs.spec import Spec, spec_of

FORMAT = "hga-budgets"
_FILE = re.compile(r":+budgets=([^:]*)")
# What tells one configuration from another, whatever release of transformers wrote it.
_TELLS = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
          "head_dim", "max_position_embeddings", "rope_theta")  # fmt: skip


# ---- models ----


def identity_of(config: Any) -> Dict[str, Any]:
    """What a model's configuration is known by."""
    c = config.get_text_config(decoder=True)
    told = {name: getattr(c, name, None) for name in _TELLS}
    told["num_key_value_heads"] = told["num_key_value_heads"] or told["num_attention_heads"]
    told["head_dim"] = told["head_dim"] or (told["hidden_size"] or 0) // (told["num_attention_heads"] or 1)
    rope = getattr(c, "rope_parameters", None)
    if told["rope_theta"] is None and isinstance(rope, dict):
        told["rope_theta"] = rope.get("rope_theta")
    return {name: float(x) if isinstance(x, (int, float)) else x and str(x) for name, x in told.items()}


def hash_of(identity: Dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


# ---- files ----


class Budgets(NamedTuple):
    """A file of ``calibrate``: shares[layer][chooser]."""

    path: str
    model: Dict[str, Any]
    block: int
    share: str
    shares: List[List[float]]

    def check_model(self, config: Any) -> None:
        """Refuse a model that these numbers are not of."""
        own = identity_of(config)
        if hash_of(own) == self.model["config_hash"]:
            row, layers = len(self.shares[0]), int(own["num_hidden_layers"] or 0)
            heads = own["num_attention_heads"] or row
            if len(self.shares) < layers:
                raise refuse(f"budgets=@{self.path}: shares of {len(self.shares)} layers, and the model has {layers}")
            if row != {"head": heads, "all": 1}.get(self.share, row) or heads % row:
                raise refuse(f"budgets=@{self.path}: {row} shares in a layer of {heads:g} heads, share={self.share}")
            return
        told = self.model["config"]
        name = next((n for n in own if told.get(n) != own[n]), "config_hash")
        has, want = (f"{x:g}" if isinstance(x, float) else x for x in (own.get(name), told.get(name)))
        raise refuse(f"budgets=@{self.path}: these are budgets of {self.model['name']}, whose {name} is {want}; the model's is {has}")

    def words(self, rest: str, layer: int) -> str:
        """The attention of a layer in words."""
        return f"{rest}:k-shares={','.join(format(s, '.9g') for s in self.shares[layer])}"


def read(path: str) -> Budgets:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            found = json.load(file)
        if found["format"] != FORMAT or found["schema"] != 1:
            raise ValueError(f"format {found['format']}, schema {found['schema']}")
        shares = [[float(s) for s in layer] for layer in found["shares"]]
        if not shares or not all(layer and all(0 < s <= 1 for s in layer) for layer in shares):
            raise ValueError("shares are not above 0 and at most 1")
        if len({len(layer) for layer in shares}) > 1:
            raise ValueError("layers have different numbers of shares")
        model = {"name": str(found["model"]["name"]), "config": dict(found["model"]["config"]), "config_hash": str(found["model"]["config_hash"])}
        return Budgets(path, model, whole(found["block"], "block", least=1), str(found["share"]), shares)
    except OSError as e:
        raise refuse(f"budgets=@{path}: {e.strerror or e}") from None
    except (ValueError, KeyError, TypeError) as e:
        raise refuse(f"budgets=@{path}: no file of hga.transformers.calibrate: {type(e).__name__}: {e}") from None


# ---- names ----


def split(words: str) -> Tuple[str, Optional[str]]:
    """The words without their file, and its path."""
    found = _FILE.findall(words)
    if not found:
        return words, None
    if len(found) > 1 or not found[0].startswith("@") or len(found[0]) == 1:
        raise refuse(f"{words}: budgets=@FILE, once, is a file of hga.transformers.calibrate")
    return _FILE.sub("", words), found[0][1:]


def absolute(name: Any) -> Any:
    """A name whose file is the same from any folder, where words can say it."""
    path = split(name)[1] if isinstance(name, str) else None
    full = os.path.abspath(os.path.expanduser(path or ""))
    return name if path is None or ":" in full else name.replace(f"@{path}", f"@{full}")


def _check_words(words: str, spec: Spec, b: Budgets) -> None:
    if not spec.chooses or spec.settings.declared & {"k", "threshold"} or spec.shares:
        raise refuse(f"{words}: budgets are of routed, instead of k and threshold")
    settings = values_of(spec.settings)
    if settings["coarse"]:
        raise refuse(f"{words}: budgets are without coarse, with which a head that gets all blocks is not dense")
    for name, own, its in (("block", settings["block"], b.block), ("share", settings["share"], b.share)):
        if own != its:
            raise refuse(f"{words}: {name} is {own}, and the file's budgets are of {name}={its}")


# Of words with a file, which may have had budgets of several models: what a configuration is known by, and the words of each layer.
_OF_LAYERS: Dict[str, List[Tuple[Dict[str, Any], List[str]]]] = {}


def know(words: str, config: Any = None) -> None:
    """Read what words say, with their file as it is now; for the model of a configuration, if there is one yet."""
    rest, path = split(words)
    spec = spec_of(rest)
    if path is None:
        return
    b = read(path)
    _check_words(words, spec, b)
    if config is not None:
        b.check_model(config)
    own = b.model["config"] if config is None else identity_of(config)
    others = [known for known in _OF_LAYERS.get(words, ()) if known[0] != own]
    _OF_LAYERS[words] = [*others, (own, [b.words(rest, layer) for layer in range(len(b.shares))])]


def of_layer(words: str, layer: int, module: Any) -> str:
    """The words of a layer: the same, unless they have a file. What is beside a decoder, such as of images, attends densely."""
    known = _OF_LAYERS.get(words)
    if known is None:
        return words
    if not getattr(module, "is_causal", True):
        return "dense"
    own = identity_of(module.config) if len(known) > 1 else known[0][0]
    of_layers: List[str] = next((found for identity, found in known if identity == own), [])
    if not 0 <= layer < len(of_layers):
        raise no_layer(words, layer)
    return of_layers[layer]


def no_layer(words: str, layer: int) -> Error:
    return refuse(f"{words}: the attention does not say which layer it is" if layer < 0 else f"{words}: there is no layer {layer}")
