"""Hierarchies by name and length: "htransformer:block=16" or "htransformer block=16" is a variant, then its parameters."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .._core.arguments import meant
from .by_content import ByContent
from .._core.values import encoded, lib, refuse
from .._core.deferred import deferred
from .calls import KNOWN
from .hierarchy import Hierarchy
from .._core.plans import LEFT, PLANS
from .registry import Parameter, Variant, cut, variant_named, variants
from .variants import make

MOST_CACHED = 128  # hierarchies of all names and lengths together,
BYTES_CACHED = 1 << 30  # and their bytes, with their plans and workspaces; one is cached however large it is


_WHOLE = re.compile(r"[+-]?[0-9]+")  # int() and float() take more than the library does: "1_0", other alphabets' digits
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _value(said: str, p: Parameter, text: str) -> Any:
    if p.type == "array of float32":
        raise refuse(f"{said}: {p.python_name} is an array, which a name cannot give")
    if p.type == "bool":
        if _WHOLE.fullmatch(text) and int(text) in (0, 1):
            return int(text) == 1
        raise refuse(f"{said}: {p.python_name} is {text!r}, neither 0 nor 1")
    if p.type == "int" and _WHOLE.fullmatch(text):
        return int(text)
    if p.type == "float" and _REAL.fullmatch(text):
        return float(text)
    if p.type == "array of int" and all(_WHOLE.fullmatch(x) for x in text.split(",")):
        return [int(x) for x in text.split(",")]
    if p.type in ("int", "float", "array of int"):
        raise refuse(f"{said}: {p.python_name} is {text!r}, not {p.type}")
    return text


def _one_line(spec: str) -> str:
    """A name as messages have it."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(spec.split()))


class Spec:
    """What a name asks for: checked once, built for any number of tokens."""

    def __init__(self, spec: str) -> None:
        encoded(spec, "a variant in words")
        said = self.spec = _one_line(spec)
        name, *settings = cut(spec)
        variant = variant_named(name)
        if variant is None:
            known = variants()
            raise refuse(f"{said}: no variant {name!r}{meant(name, known) or '; there are ' + ', '.join(sorted(known))}")
        self.variant: Variant = variant
        self.chooses = variant.needs_choice  # is its graph found in the call?
        self.values: Dict[str, Any] = {}
        for setting in settings:
            parameter, equals, value = setting.partition("=")
            if not equals:
                raise refuse(f"{said}: {setting!r} is not name=value")
            p = self.variant.parameter(parameter.replace("-", "_"))
            if p.python_name in self.values:
                raise refuse(f"{said}: {p.python_name} is given twice")
            self.values[p.python_name] = _value(said, p, value)

    def require_tokens(self) -> None:
        if self.variant.rows_are_nodes:
            raise refuse(f"{self.spec}: rows of {self.variant.name} are nodes, a model's are tokens")

    def require_causal(self) -> None:
        if not self.variant.can_causal:
            raise refuse(f"{self.spec}: the model is causal, {self.variant.name} cannot be")

    def require_cross(self) -> None:
        if not self.variant.can_cross:
            raise refuse(f"{self.spec}: {self.variant.name} cannot attend from one text to another")

    def build(self, n: int, causal: bool, n_keys: Optional[int] = None) -> Hierarchy:
        values = dict(self.values)
        if causal:
            self.require_causal()
            if any(p.name == "causal" for p in self.variant.parameters):
                values["causal"] = True
        if n_keys is not None:
            self.require_cross()
        h: Hierarchy = make(self.variant, n, values, n_keys)
        return h

    @property
    def is_dense(self) -> bool:
        """Does a token see all others, or all before it?"""
        return bool(self.variant.name == "dense")

    def _standard(self, name: str) -> str:
        return self.variant.parameter(name).standard or "0"

    def reach(self, causal: bool) -> Optional[Tuple[int, int]]:
        """How many tokens back and ahead a token sees at most; None: no bound is known."""
        if self.variant.name != "window" or self.values.get("global_", 0):
            return None
        left, right = (int(self.values.get(name, self._standard(name))) for name in ("left", "right"))
        return left, 0 if causal else right


_SPECS: Dict[str, Spec] = {}
_BUILT: "OrderedDict[Tuple[str, int, bool, Optional[int]], Hierarchy]" = OrderedDict()
_LOCK = threading.Lock()


def spec_of(words: str) -> Spec:
    """The parsed name, read once."""
    found = _SPECS.get(words)
    if found is None:
        found = _SPECS[words] = Spec(words)
    return found


@deferred
def hierarchy_of(words: str, n: int, causal: bool, n_keys: Optional[int] = None) -> Hierarchy:
    """The hierarchy of n tokens (and, of cross-attention, n_keys other ones) that a name asks for. The least recently used
    are let go."""
    key = (words, n, causal, n_keys)
    with _LOCK:
        if key in _BUILT:
            _BUILT.move_to_end(key)
            return _BUILT[key]
    h = spec_of(words).build(n, causal, n_keys)
    with _LOCK:
        h = _BUILT.setdefault(key, h)
        _BUILT.move_to_end(key)
        total = sum(_bytes(one) for one in _BUILT.values())
        while len(_BUILT) > MOST_CACHED or (total > BYTES_CACHED and len(_BUILT) > 1):
            total -= _bytes(_BUILT.popitem(last=False)[1])
    return h


def _own(h: Any) -> List[Hierarchy]:
    """The hierarchy, or those that inputs have chosen last."""
    return list(h._made) if isinstance(h, ByContent) else [h]


def _graph_bytes(h: Any) -> int:
    return sum(int(lib.hga_graph_bytes(one.graph._g)) for one in _own(h))


def _bytes(h: Hierarchy) -> int:
    hierarchies = [other for one in _own(h) for other in (one, *list(one._normalised.values()))]
    plans = sum(plan.bytes + plan.workspace_bytes + plan.spares.bytes for one in hierarchies for plan in list(one._plans.values()))
    return _graph_bytes(h) + plans


class PlansInfo(NamedTuple):
    """What is cached for the next call: hierarchies made from names and lengths (``Attention``, transformers), and
    the plans of all hierarchies and of JAX's programs, with their workspaces."""

    hierarchies: int
    hierarchy_bytes: int
    plans: int
    plan_bytes: int
    workspaces: int
    workspace_bytes: int
    spare_bytes: int  # of large outputs, tapes and gradients that are gone


def plans_info() -> PlansInfo:
    """How much is cached for the next call, in numbers and bytes. Workspaces count as they were made: what gradients and
    tensors of 16 bits add at their first call is not in it."""
    with _LOCK:
        built = list(_BUILT.values())
    plans, jax = list(PLANS.values()), lib.hga_py_cached_all()
    return PlansInfo(
        len(built), sum(_graph_bytes(h) for h in built), len(plans) + jax.plans,
        sum(p.bytes for p in plans) + jax.plan_bytes, sum(p.n_workspaces for p in plans) + jax.workspaces,
        sum(p.workspace_bytes for p in plans) + jax.workspace_bytes, sum(p.spares.bytes for p in plans),
    )  # fmt: skip


def plans_clear() -> None:
    """Free what is cached for the next call, except what a pending backward pass needs."""
    with _LOCK:
        _BUILT.clear()
    LEFT.clear()
    lib.hga_py_forget_cached()
    for h in list(KNOWN.values()):
        with h._lock:
            h._plans.clear()
            h._calls.clear()
