"""What smollm.py reads: texts whose content is known by its SHA-256, and windows in which keys are hidden that the end asks for."""

import argparse
import hashlib
import pathlib
import re
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
# What was measured: examples/gospels.txt; the language reference of Python 3.11.2; base-files 12.4 of Debian.
PINNED = {
    "gospels": "cb9bc3c1283dd820e30ae09f9cb31576585b56a84275fad05104fb8d15ad0143",
    "reference": "b0796031be1d1b35e6efa46b7944effd47a0c52a48087d470dde314fe2d66968",
    "licences": "2ac3f62998f3628f22a941210dffae285d02e20a450c3723f68054601164defc",
}
PREFETCHES, TELLS = "\nThe secret key is", "The secret key is {}. Remember that the secret key is {}.\n"
OWNERS = ("Anna", "Boris", "Clara", "David", "Emma", "Frank", "Grace", "Henry")
OWNER_ASKS, OWNER_TELLS = "\nThe secret key of {} is", "The secret key of {} is {}. Remember that the secret key of {} is {}.\n"
LISTED, GIVEN = 16, 4  # words of a list, and how many of them its repetition begins with
LIST_DEPTHS = (0.2, 0.6)

# ---- texts ----


def whole_text(name):
    if name == "gospels":
        return (HERE.parent / "gospels.txt").read_text(encoding="utf-8")
    if name == "reference":
        from pydoc_data import topics

        return "\n".join(topics.topics[key] for key in sorted(topics.topics))
    if name == "licences":
        return "\n".join(p.read_text(encoding="utf-8") for p in sorted(pathlib.Path("/usr/share/common-licenses").iterdir()) if not p.is_symlink())
    if name == "pages":
        return "\n".join(p.read_text(encoding="utf-8") for p in sorted((HERE.parents[1] / "docs").glob("*.md")) if p.name != "python-reference.md")
    if name == "library":
        return pathlib.Path(argparse.__file__).read_text(encoding="utf-8")
    return pathlib.Path(name).read_text(encoding="utf-8")


def hash_of(name):
    return hashlib.sha256(whole_text(name).encode()).hexdigest()


def text_of(name):
    """The text; says so where it is not the one that was measured."""
    text, found = whole_text(name), hash_of(name)
    if PINNED.get(name, found) != found:
        print(f"{name} is not the text of docs/models.md here: its SHA-256 is {found}, not {PINNED[name]}", file=sys.stderr, flush=True)
    return text


def ids_of(tokenizer, name, n):
    """The first n tokens of a text, or of several alike: "library+pages"."""
    names = name.split("+")
    each = -(-n // len(names))
    parts = [torch.tensor(tokenizer(text_of(one)[: 16 * each]).input_ids[:each]) for one in names]
    for one, x in zip(names, parts):
        if len(x) < each:
            sys.exit(f"{one} has {len(x)} tokens, fewer than {each}")
    return torch.cat(parts)[:n]


# ---- windows that hide something ----


def hide(tokenizer, text, n, told, asked, generator):
    """A window of n tokens that ends in `asked`, ids; before it lines of the text, and each of `told`, (depth, words), at its depth."""
    code = lambda words: tokenizer(words, add_special_tokens=False).input_ids  # noqa: E731
    waiting = [(depth, code(words)) for depth, words in sorted(told)]
    lines, capacity = text.splitlines(keepends=True), n - sum(len(x) for _, x in waiting) - len(asked)
    first = generator.randrange(max(1, len(lines) - n // 8))
    out, hay = [], 0
    for line in lines[first:]:
        ids = code(line)
        while waiting and hay + len(ids) > waiting[0][0] * capacity:
            out += waiting.pop(0)[1]
        out += ids[: capacity - hay]
        hay = min(capacity, hay + len(ids))
        if hay == capacity:
            break
    return torch.tensor(out + [i for _, x in waiting for i in x] + asked)


def answers(tokenizer, parts):
    """The ids of (question, answer) .. one after the other, and the slice of each answer."""
    ids, at = [], []
    for question, answer in parts:
        code = lambda words: tokenizer(words, add_special_tokens=False).input_ids  # noqa: E731
        asked, both = code(question + " "), code(f"{question} {answer}")
        begin = len(ids) + (len(asked) if both[: len(asked)] == asked else len(code(question)))
        ids += both
        at.append((begin, len(ids)))
    return ids, at


def one_key(tokenizer, text, n, depth, generator):
    """A window with a key of five digits at that depth, which its end asks for; and where the answers are, counted from the end."""
    key = str(generator.randrange(10000, 100000))
    asked, at = answers(tokenizer, [(PREFETCHES, key)])
    return hide(tokenizer, text, n, [(depth, TELLS.format(key, key))], asked, generator), from_end(asked, at)


def several_keys(tokenizer, text, n, generator):
    """A window with a key for each owner, at evenly spaced depths; its end asks for all of them, in another order."""
    keys = {owner: str(generator.randrange(10000, 100000)) for owner in OWNERS}
    told = [((i + 0.5) / len(OWNERS), OWNER_TELLS.format(owner, key, owner, key)) for i, (owner, key) in enumerate(keys.items())]
    order = generator.sample(OWNERS, len(OWNERS))
    asked, at = answers(tokenizer, [(OWNER_ASKS.format(owner), keys[owner]) for owner in order])
    return hide(tokenizer, text, n, told, asked, generator), from_end(asked, at)


def a_list(tokenizer, text, n, depth, generator):
    """A window with a list of words at that depth; its end repeats the first ones, and goes on with the others."""
    words = generator.sample(sorted(set(re.findall(r"\b[a-z]{5,8}\b", text))), LISTED)
    items = [(f"\n{i + 1}.", word) for i, word in enumerate(words)]
    told = "\nThe list:" + "".join(f"{number} {word}" for number, word in items) + "\n"
    asked, at = answers(tokenizer, [("\nThe list:" + items[0][0], items[0][1]), *items[1:]])
    return hide(tokenizer, text, n, [(depth, told)], asked, generator), from_end(asked, at)[GIVEN:]


def from_end(asked, at):
    return [(len(asked) - begin, len(asked) - end) for begin, end in at]
