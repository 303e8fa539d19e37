"""Every variant of the registry as a function. For type checkers the build makes functions.pyi of the same table."""

from __future__ import annotations

import inspect
from typing import Any, Callable, List

from .._core.deferred import compiling
from .registry import Variant, variants
from .variants import make, remade

__all__: List[str] = []


def function_of(v: Variant) -> Callable[..., Any]:
    """The Python function of a variant, with the registry's parameters as its own."""

    def build(n_tokens: Any = None, *, n_keys: Any = None, **parameters: Any) -> Any:
        named = {n: x for n, x in parameters.items() if x is not None}
        return remade(v.name, n_tokens, named, n_keys) if compiling() else make(v, n_tokens, named, n_keys)

    build.__name__ = build.__qualname__ = v.name.replace("-", "_")
    build.__module__ = "hga"
    lines = [f"{v.says} ({v.paper}).", "", "n_tokens: tokens, or a list of lengths for a ragged batch."]
    if v.can_cross:
        own = any(p.name == "key-leaf" for p in v.parameters)
        lines.append("n_keys: key tokens, for cross-attention" + ("; 0: the queries' tokens, by the leaves of key_leaf." if own else "."))
    first = None if v.by_data else inspect.Parameter.empty
    arguments = [inspect.Parameter("n_tokens", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=first)]
    for p in v.parameters:
        standard = f", default {p.standard}" if p.standard else ""
        study = f" ({p.study} is for study)" if p.study else ""
        lines.append(f"{p.python_name} ({p.type}{standard}): {p.says}{study}.")
        arguments.append(inspect.Parameter(p.python_name, inspect.Parameter.KEYWORD_ONLY, default=p.default))
    if v.can_cross:
        arguments.append(inspect.Parameter("n_keys", inspect.Parameter.KEYWORD_ONLY, default=None))
    build.__doc__ = "\n".join(lines)
    build.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    return build


for _variant in variants().values():
    _function = function_of(_variant)
    globals()[_function.__name__] = _function
    __all__.append(_function.__name__)

neighborhood = globals()["neighbourhood"]
__all__.append("neighborhood")
