"""Arguments in words: whole numbers that are whole numbers, words that are near a known one, and words of other libraries."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any, Iterable, List, Optional, cast

import numpy as np

from .values import F, WrongType, refuse, refuse_type, shown
from .renamed import former_names, with_new_names

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


def meant(word: Any, known: Iterable[str]) -> str:
    """": did you mean 'block'?", or nothing where no known word is near."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word).lower(), list(names), 1)
    return f": did you mean {names[near[0]]!r}?" if near else ""


def one_of(value: Any, what: str, known: Iterable[str]) -> str:
    """A word among those that are known."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        raise refuse(f"{what} is {shown(value)}, none of {', '.join(words)}{meant(value, words)}")
    return str(value)


def listed(value: Any, what: str, of: str) -> List[Any]:
    """What a list, a tuple or a generator has; a text is none of these."""
    try:
        if not isinstance(value, (str, bytes)):
            return list(value)
    except TypeError:
        pass
    raise refuse_type(f"{what} is {shown(value)}, not a list of {of}")


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


def unknown(function: str, word: str, known: Iterable[str]) -> Exception:
    """The error for an unknown keyword: what would be said instead."""
    if word in ANSWERS:
        return refuse_type(f"{function} has no {word}=: {ANSWERS[word]}")
    names = [name for name in known if name != "self"]
    return refuse_type(f"{function} has no {word}={meant(word, names) or '; it has ' + ', '.join(names)}")


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
