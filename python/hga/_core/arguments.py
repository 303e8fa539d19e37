"""Arguments in words: whole numbers that are whole numbers, words that are near a known one, and words of other libraries."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import warnings
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, cast

import numpy as np

from .library import F, WrongType, refuse, refuse_type

LONGEST_SHOWN = 120  # characters of a value in a message
BEYOND = 2**31  # the library's numbers of tokens, nodes and threads are below it

# What people say to torch, flash-attention and their like, and how it is said here.
ANSWERS = {
    "attn_mask": "who sees whom is the hierarchy's: hga.Graph.from_scipy(mask).hierarchy() attends where a mask is not 0, "
    "edge_bias= adds numbers to scores, and for padding a list of lengths makes a ragged batch, such as hga.dense([30, 60])",
    "is_causal": "who sees whom is the hierarchy's: make it with causal=True, such as hga.dense(n, causal=True)",
    "dropout_p": "it is called dropout=, and seed= draws it",
    "enable_gqa": "leave it out: key and value may have fewer heads, as long as they divide the query's",
    "key_padding_mask": "leave padding out: a list of lengths makes a ragged batch, such as hga.dense([30, 60])",
    "need_weights": "h.weights(q, k, token, head) says how a query token weighs every key token",
    "return_lse": "it is called lse=",
    "softmax_scale": "it is called scale=",
    "score_mod": "rel_bias=, edge_bias= and node_pos= add to scores; who sees whom is the hierarchy's",
    "block_mask": "who sees whom is the hierarchy's: hga.Graph.from_scipy(mask).hierarchy() attends where a mask is not 0",
    "window_size": "who sees whom is the hierarchy's: hga.window(n, left=, right=)",
}
ANSWERS.update(mask=ANSWERS["attn_mask"], attention_mask=ANSWERS["attn_mask"], causal=ANSWERS["is_causal"])
ANSWERS.update(return_attn_probs=ANSWERS["need_weights"], output_attentions=ANSWERS["need_weights"])

# What is called otherwise here, where a function or a layer has it: by the name here, those of other libraries.
CALLED = {
    "width": ("embed_dim", "hidden_size", "d_model"), "heads": ("num_heads", "num_attention_heads", "n_heads", "nhead"),
    "kv_heads": ("num_kv_heads", "num_key_value_heads", "n_kv_heads"), "cross": ("kdim", "vdim"), "layers": ("num_layers", "n_layers"),
    "height": ("depth",),
}  # fmt: skip


def shown(value: Any) -> str:
    """A value that is wrong, in one line of a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 2] + ".."


def meant(word: Any, known: Iterable[str]) -> str:
    """": did you mean 'block'?", or nothing where no known word is near."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word).lower(), list(names), 1)
    return f": did you mean {names[near[0]]!r}?" if near else ""


def one_of(value: Any, what: str, known: Iterable[str]) -> str:
    """A word among those that are known."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        raise refuse(f"{what} is {shown(value)}, not one of {', '.join(words)}{meant(value, words)}")
    return str(value)


def either(value: Any, what: str, known: Iterable[str]) -> str:
    """One of two words."""
    one, other = known
    if not isinstance(value, str) or value not in (one, other):
        raise refuse(f"{what} {shown(value)} is neither {one!r} nor {other!r}{meant(value, (one, other))}")
    return value


def listed(value: Any, what: str, of: str) -> List[Any]:
    """What a list, a tuple or a generator has; a text is none of these."""
    try:
        if not isinstance(value, (str, bytes)):
            return list(value)
    except TypeError:
        pass
    raise refuse_type(f"{what} is {shown(value)}, not a list of {of}")


def unmasked(x: Any, what: str) -> Any:
    """What numpy does not hide in part: outside of numpy a masked array is what lies under its mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise refuse_type(f"{what} is a masked array, and hga would read what its mask hides: fill it, with .filled(0) or another number")
    return x


def number(x: Any, what: str) -> float:
    unmasked(x, what)
    try:
        return float(x)
    except (TypeError, ValueError):
        raise refuse(f"{what} is {shown(x)}, not a number") from None
    except OverflowError:
        raise refuse(f"{what} is a whole number beyond those of float64") from None


def whole(value: Any, what: str, least: int = 0, beyond: Optional[int] = None) -> int:
    """A whole number: Python's, numpy's, or a tensor's of one. True is none, nor is 64.0 or "64". Without ``beyond`` it has 32
    bits, which is what the library counts with."""
    truth = isinstance(value, (bool, np.bool_)) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")
    try:
        if truth:
            raise TypeError
        n = int(value.__index__())
    except (AttributeError, TypeError):
        raise refuse_type(f"{what} is {shown(value)}, not a whole number") from None
    if beyond is not None and not least <= n < beyond:
        raise refuse(f"{what} is {n}, not at least {least} and less than {beyond}")
    if n < least:
        raise refuse(f"{what} is {n}; it must be at least {least}")
    if beyond is None and n >= BEYOND:
        raise refuse(f"{what} is {n}; it must be less than {BEYOND}")
    return n


def int32(value: Any, what: str) -> int:
    """A whole number that the library looks at, below 0 or not."""
    return whole(value, what, least=-BEYOND)


def flag(value: Any, what: str) -> bool:
    """True or False, Python's or numpy's; 0 and 1 are taken for them."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise refuse_type(f"{what} is {shown(value)}, neither True nor False")


def threads(value: Any, what: str = "threads") -> int:
    """How many threads: 0 means the library's own choice."""
    return whole(value, what)


BINDINGS = {"off": 0, "on": 1, "auto": 2}  # as hga_options.bind has them


def bind(value: Any) -> str:
    """When threads are bound; True and False are taken for on and off."""
    word = ("on" if value else "off") if isinstance(value, (bool, np.bool_)) else value
    return one_of(word, "bind", BINDINGS)


class Threaded:
    """Has threads and a binding."""

    _threads = 0
    _bind = "auto"

    @property
    def threads(self) -> int:
        """Threads of calls that do not say how many; 0: the library's own choice."""
        return self._threads

    @threads.setter
    def threads(self, n: int) -> None:
        self._threads = threads(n)

    @property
    def bind(self) -> str:
        """Are threads bound, each to a processor, for the length of each call? ``"auto"`` (where nothing is said): where
        there are several NUMA domains, the call has a thread for every core and OpenMP binds nothing; ``"on"``, ``"off"``."""
        return self._bind

    @bind.setter
    def bind(self, when: str) -> None:
        self._bind = bind(when)
        self._bound()

    def _bound(self) -> None:
        """After another binding: what was made with the one before goes."""


# ---- texts and paths ----


def utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise refuse(f"{what}: {text[e.start]!r} is not a character of UTF-8") from None


def encoded(text: str, what: str) -> bytes:
    """UTF-8 for the library, to which a NUL is the end."""
    if not isinstance(text, str):
        raise refuse_type(f"{what} is {shown(text)}, not a text")
    return _without_nul(utf8(text, what), what, text)


def path_of(path: Any) -> str:
    """The name of a file or folder, as text."""
    try:
        name, raw = os.fsdecode(path), os.fsencode(path)
    except TypeError:
        raise refuse_type(f"file {shown(path)} is not a file name: give a str or a pathlib.Path") from None
    except UnicodeEncodeError as e:
        raise refuse(f"file {path!r}: no file's name has {e.object[e.start]!r}") from None
    if not raw:
        raise refuse("the name of the file is empty")
    _without_nul(raw, "file", name)
    return name


def encoded_path(path: Any) -> bytes:
    return os.fsencode(path_of(path))


def _without_nul(found: bytes, what: str, text: str) -> bytes:
    if b"\0" in found:
        raise refuse(f"{what} {text!r} has a NUL inside")
    return found


# ---- names of keywords ----

# Attributes and keywords: old, new.
RENAMED = {"given": "arguments", "key_parts": "n_key_graphs", "parts": "n_graphs", "places": "permutation", "wanted": "needs_grad"}


def new_name(old: str, stacklevel: int) -> str:
    """The name that replaced this one, with a warning to the caller's line."""
    warnings.warn(f"hga: {old} is now {RENAMED[old]}; hga 0.6 will not know the old name", DeprecationWarning, stacklevel + 1)
    return RENAMED[old]


class Former:
    """An attribute by its old name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, of: Any, owner: type) -> Any:
        return self if of is None else getattr(of, new_name(self.name, 2))


def former_names(known: Collection[str]) -> List[str]:
    """Old names of a function's keywords."""
    return [old for old, new in RENAMED.items() if new in known and old not in known]


def with_new_names(function: str, former: Collection[str], named: Mapping[str, Any], stacklevel: int) -> Dict[str, Any]:
    """Keywords of a call, by their new names."""
    found = dict(named)
    for old in former:
        if old not in named:
            continue
        new = new_name(old, stacklevel + 1)
        if new in named:
            raise refuse_type(f"{function} has {old}= and {new}=, which are the same: leave {old}= out")
        found[new] = found.pop(old)
    return found


def unknown(function: str, word: str, known: Iterable[str]) -> Exception:
    """The error for an unknown keyword: what would be said instead."""
    names = [name for name in known if name != "self"]
    for name, others in CALLED.items():
        if name in names and word in others:
            return refuse_type(f"{function} has no {word}=: it is called {name}=")
    if word in ANSWERS:
        return refuse_type(f"{function} has no {word}=: {ANSWERS[word]}")
    return refuse_type(f"{function} has no {word}={meant(word, names) or '; it has ' + ', '.join(names)}")


def answering(function: F) -> F:
    """Unknown keywords are answered so; None is as the function takes it. Of ``__init__`` the class is named."""
    parameters, names = tuple(inspect.signature(function).parameters), function.__qualname__.split(".")  # a tuple, for torch.compile
    said = names[-2] if names[-1] == "__init__" else names[-1]

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        for word in named:
            if word not in parameters:
                raise unknown(said, word, parameters)
        return function(*positional, **named)

    return cast(F, call)


def answered(function: F) -> F:
    """Keywords that a function does not have are answered with what would be said instead. An old name stands for the new one. A keyword
    that is None is left out."""
    parameters = inspect.signature(function).parameters
    known, former = frozenset(parameters), former_names(parameters)
    passes_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        if former:
            named = with_new_names(function.__name__, former, named, 2)
        try:
            return function(*positional, **{word: x for word, x in named.items() if x is not None or word not in known})
        except WrongType:
            raise
        except TypeError:
            for word in named:
                if word not in known and not passes_on:
                    raise unknown(function.__name__, word, parameters) from None
            raise

    return cast(F, call)
