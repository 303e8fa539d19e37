"""hga in Hugging Face transformers: a stock model with another attention.

    import hga.transformers
    hga.transformers.register()
    model = AutoModel.from_config(config, attn_implementation="hga:htransformer:block=32")
    model.set_attn_implementation("hga")

"hga" alone is the model's own attention: by hga where that is faster, and as transformers computes it where it is not, or where the
layer asks for what hga does not offer; ``hga.transformers.explain(model, tokens)`` says which layers are which, and why. After "hga:" comes a variant's name, then its parameters, each after a colon. Where the model is causal the variant must
be able to be causal, and is made so. Padding is left out and packed texts are separated: every text attends over its own
tokens alone, by a hierarchy of its own length, and rows of padding are zero. Whatever else a mask says is refused.
``hga.transformers.by_layer({1: "hga:window:left=32", ..}, "hga:dense")`` names a mapping by layer.
``hga.transformers.calibrate(model, tokenizer, text, path="b.json")`` finds how many keys each head needs, and
"hga:routed:block=16:prefill=16:budgets=@b.json" attends so.

``generate()`` runs with a cache that holds what the hierarchy's later tokens read; ``Cache(tokens)`` makes one for your own
loops: model(ids, cache=cache), or past_key_values=cache where transformers is older than 5.24."""

from __future__ import annotations

from typing import List

from .._core.releases import needs

needs("transformers", "transformers")

from ._calibrate import calibrate
from ._capture import Captured, capture
from ._generation import Cache
from ._models import add, by_layer, register
from ._own import explain
from ._served import use

__all__ = ["Cache", "Captured", "add", "by_layer", "calibrate", "capture", "explain", "register", "use"]


def __dir__() -> List[str]:
    return __all__
