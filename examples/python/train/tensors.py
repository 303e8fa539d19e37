"""Queries, keys and values of a model that characters.py trained: those of its first layer, for the words of a text.

    python3 examples/python/train/tensors.py runs/characters/bpt-k=4-0 TEXT --out FOLDER [--words 4096]
    hga choose --query FOLDER/q.npy --key FOLDER/k.npy --value FOLDER/v.npy

A word has what the model makes of its last character, which has the ones before it in it; texts longer than the model's context
go on at its first place. White space that is no letter of the model's counts as its space; what else it has no letter for is
left out, and counted."""

import argparse
import json
import pathlib
import re
import sys

import numpy as np
import safetensors
import safetensors.numpy


class Wrong(Exception):
    pass


def read_model(path):
    """(letters, heads, tensors of the first layer)"""
    try:
        with safetensors.safe_open(path, "np") as file:
            said = file.metadata() or {}
        w = safetensors.numpy.load_file(path)
        letters, heads = json.loads(said["letters"]), int(said["heads"])
        places, width = w["place"].shape
        shapes = {"letter.0.weight": (len(letters), width), "layers.0.before_attention.weight": (width,), "layers.0.before_attention.bias": (width,),
                  "layers.0.attention.project.weight": (3 * width, width), "layers.0.attention.project.bias": (3 * width,)}  # fmt: skip
        wrong = [name for name, shape in shapes.items() if w[name].shape != shape]
    except (OSError, safetensors.SafetensorError) as e:
        raise Wrong(f"{path}: {e}") from None
    except (KeyError, ValueError, TypeError) as e:
        raise Wrong(f"{path}: is no model of characters.py's: {e}") from None
    if wrong or heads < 1 or width % heads:
        raise Wrong(f"{path}: {wrong[0]} is {w[wrong[0]].shape}, not {shapes[wrong[0]]}" if wrong else f"{path}: {heads} heads do not divide width {width}")
    return letters, heads, w


def numbers_of(text, letters, most):
    """Numbers of the letters that the model has, how many of them there are up to the end of each word, how many had none."""
    number = {c: i for i, c in enumerate(letters)}
    number |= {c: number[" "] for c in "\t\n\v\f\r" if c not in number and " " in number}
    words = [m.end() for m in re.finditer(r"\S+", text)][: most or None]
    known = [c in number for c in text[: words[-1]]] if words else []
    return [number[c] for c in text[: len(known)] if c in number], np.cumsum([0, *known])[words], len(known) - sum(known)


def first_layer(numbers, w):
    """[characters][3 width] of a text that begins with its context."""
    x = w["place"][: len(numbers)].astype(np.float64)
    for back in range(sum(name.startswith("letter.") for name in w)):
        x[back:] += w[f"letter.{back}.weight"][numbers[: len(numbers) - back]]
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    x = x * w["layers.0.before_attention.weight"] + w["layers.0.before_attention.bias"]
    return x @ w["layers.0.attention.project.weight"].T + w["layers.0.attention.project.bias"]


def tensors(text, letters, heads, w, most=0):
    """[3][words][heads][dim], and how many characters were left out."""
    numbers, ends, left_out = numbers_of(text, letters, most)
    if not len(ends) or not ends[0]:
        raise Wrong("the model has no letter of the text's first word")
    context = len(w["place"])
    found = np.concatenate([first_layer(numbers[at : at + context], w) for at in range(0, len(numbers), context)])[ends - 1]
    return found.reshape(len(ends), 3, heads, -1).swapaxes(0, 1).astype(np.float32), left_out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="a folder with model.safetensors")
    p.add_argument("text", help="a file of UTF-8")
    p.add_argument("--out", default=".", metavar="FOLDER", help="where q.npy, k.npy and v.npy are written")
    p.add_argument("--words", type=int, default=4096, help="at most so many words; 0: all")
    a = p.parse_args()
    try:
        letters, heads, w = read_model(pathlib.Path(a.model) / "model.safetensors")
        found, left_out = tensors(pathlib.Path(a.text).read_text(encoding="utf-8"), letters, heads, w, a.words)
        out = pathlib.Path(a.out)
        out.mkdir(parents=True, exist_ok=True)
        for name, x in zip("qkv", found):
            np.save(out / f"{name}.npy", x)
    except (Wrong, OSError, UnicodeDecodeError) as e:
        sys.exit(f"tensors.py: {e}")
    print(f"{found.shape[1]} words, {heads} heads of {found.shape[3]}" + f"; the model has no letter for {left_out} characters, which are left out" * (left_out > 0))


if __name__ == "__main__":
    main()
