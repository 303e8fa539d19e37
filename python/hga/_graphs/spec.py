"""Hierarchies by name and length: "htransformer:block=16" or "htransformer block=16" is a variant, then its parameters."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, cast
from weakref import WeakValueDictionary

from .._core.arguments import encoded, meant, shown, whole
from .by_content import ByContent
from .._core.library import Error, WrongValue, check, ffi, lib, refuse, refuse_type
from .._core.deferred import deferred
from .calls import KNOWN
from .hierarchy import Hierarchy
from .._core.plans import LEFT
from .registry import Variant, variant_named, variants
from .routed import ChosenHierarchy, chosen
from .settings import Settings, values_of
from .shares import blocks_of, shares_in
from .variants import of_settings

MOST_CACHED = 128  # hierarchies of all names and lengths together,
BYTES_CACHED = 1 << 30  # and their bytes, with their plans and workspaces; one is cached however large it is


def _one_line(spec: str) -> str:
    """A name as messages have it."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(spec.split()))


def _explained(said: str, e: Error) -> Error:
    """The library's refusal of words, with what was probably meant."""
    unknown = re.match(r"(\S+) has no parameter '(.*)'", e.detail)
    if unknown:
        p = variant_named(unknown.group(1)).parameter(unknown.group(2).replace("-", "_"))  # which refuses all but `global_`
        return refuse_type(f"{e.detail.partition(';')[0]}: did you mean {p.name!r}?")
    unknown = re.match(r"no variant '(.*?)'", e.detail)
    if not unknown:
        return refuse(f"{said}: {e.detail}")
    near = meant(unknown.group(1), variants()) if "; there are" in e.detail else ""
    return refuse(e.detail.partition(";")[0] + near if near else e.detail)


class Spec:
    """What a name asks for: read once, by the library, and built for any number of tokens."""

    def __init__(self, spec: str) -> None:
        encoded(spec, "variant")  # which names what is no text
        self.spec, self._words = _one_line(spec), ffi.gc(ffi.new("hga_words *"), lib.hga_words_clear)
        self._of_library, self.shares = shares_in(spec)
        try:
            check(lib.hga_words_read(encoded(self._of_library, "variant"), self._words))
        except WrongValue as e:
            raise _explained(self.spec, e) from None
        self.variant = Variant(self._words.variant[0])
        self.chooses = self.variant.needs_choice  # is its graph found in the call?
        self.settings = self._filled()
        if self.shares and (not self.chooses or self.settings.declared & {"k", "threshold"}):
            raise refuse(f"{self.spec}: k-shares are of routed, instead of k and threshold")

    def _filled(self) -> Settings:
        return Settings(self.variant, self._words)

    def require_tokens(self) -> None:
        if self.variant.rows_are_nodes:
            raise refuse(f"{self.spec}: rows of {self.variant.name} are nodes, a model's are tokens")

    def require_causal(self) -> None:
        if not self.variant.can_causal:
            raise refuse(f"{self.spec}: the model is causal, {self.variant.name} cannot be")

    def require_cross(self) -> None:
        if not self.variant.can_cross:
            raise refuse(f"{self.spec}: {self.variant.name} cannot attend from one text to another")

    def build(self, n: int, causal: bool = False, n_keys: Optional[int] = None) -> Hierarchy:
        """Over n tokens, 0 where the name says how many."""
        s, words = self._filled(), self.spec.replace(":", " ")
        if n and "tokens" in s.declared:
            raise refuse(f"{self.spec}: tokens is given twice")
        if causal:
            self.require_causal()
        if causal and not self.variant._can(lib.HGA_ALWAYS_CAUSAL):
            words += "" if "causal" in s.declared else " causal=1"
            of = s.value("causal")
            s.fill("causal", True if isinstance(of, bool) else [True] * max(of, 1))  # of each axis
        if n_keys is not None:
            self.require_cross()
        shares = self.shares
        if shares:
            if not n:
                raise refuse(f"{self.spec}: k-shares are shares of a text's blocks, and how many tokens it has is not said")
            s.fill("k", blocks_of(shares, n, values_of(s)))
        if self.chooses:
            found = chosen(s, n or None, n_keys)
            if shares:  # layers differ in k alone
                first = _BESIDE.setdefault((self._of_library, n, causal), found)
                found._beside = None if first is found else first
            return cast(Hierarchy, found)
        h = of_settings(s, words, n or None, n_keys)
        h._recipe = built, (words, n, causal, n_keys)
        return h

    @property
    def is_dense(self) -> bool:
        """Does a token see all others, or all before it?"""
        return bool(self.variant.name == "dense")

    def reach(self, causal: bool) -> Optional[Tuple[int, int]]:
        """How many tokens back and ahead a token sees at most; None: no bound is known."""
        s = self.settings
        if self.variant.name != "window" or s.value("global"):
            return None
        return s.value("left"), 0 if causal else s.value("right")


def with_settings(words: str, settings: Dict[str, Any]) -> str:
    """Words, and behind them what keywords say."""
    for name, value in settings.items():
        if value is None:
            continue
        said = value.tolist() if hasattr(value, "tolist") else value  # numpy's and torch's numbers and arrays
        each = said if isinstance(said, (list, tuple)) and said else [said]
        if not all(isinstance(x, (int, float)) or (isinstance(x, str) and re.fullmatch(r"[\w.-]+", x)) for x in each):
            raise refuse_type(f"build: {name} is {shown(value)}, which words cannot say: call the variant's own function")
        words += f" {name[:-1] if name.endswith('_') else name}={','.join(str(int(x)) if isinstance(x, bool) else str(x) for x in each)}"
    return words


@deferred
def built(words: str, n_tokens: int, causal: bool = False, n_keys: Optional[int] = None) -> Hierarchy:
    """A variant in words (``hga.build``)."""
    h = Spec(words).build(whole(n_tokens, "n_tokens"), causal, n_keys)
    if isinstance(h, Hierarchy):
        h.words = words
    return h


_BESIDE: "WeakValueDictionary[Tuple[str, int, bool], ChosenHierarchy]" = WeakValueDictionary()
_SPECS: Dict[str, Spec] = {}
_BUILT: "OrderedDict[Tuple[str, int, bool, Optional[int]], Hierarchy]" = OrderedDict()
_LOCK = threading.Lock()


def spec_of(words: str) -> Spec:
    """A name of a module's or a model's, whose inputs say how many tokens there are; read once."""
    found = _SPECS.get(words)
    if found is None:
        found = Spec(words)
        if found.settings.declared & {"tokens", "keys"}:
            raise refuse_type(f"{found.spec}: how many tokens and keys there are is not said here")
        _SPECS[words] = found
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
    sizes = [plan.sizes for one in hierarchies for plan in list(one._plans.values())]
    return _graph_bytes(h) + sum(int(x.plan_bytes + x.workspace_bytes + x.memory_bytes) for x in sizes)


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
    x = lib.hga_py_cached_all()
    kept = x.plans, x.plan_bytes, x.workspaces, x.workspace_bytes, x.memory_bytes
    return PlansInfo(len(built), sum(_graph_bytes(h) for h in built), *map(int, kept))


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
