"""The new word and the new normaliser in Python: clamp.py make|hold|relu FOLDER: files for the tool, and what it wrote held to the formula; then
numpy and, where it is there, torch."""

import os
import sys

import numpy as np

N, HEADS, DIM, C = 40, 2, 8, 0.5


def formula(q, k, v, c):
    """[heads][tokens][dim], dense."""
    s = np.clip(q @ np.swapaxes(k, -1, -2) / np.sqrt(DIM), -c, c)
    w = np.exp(s - s.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v


def load(folder, name):
    return np.load(os.path.join(folder, name + ".npy")).astype("f4")


def near(what, got, want):
    error = np.abs(np.asarray(got, "f8") - want).max()
    if not error < 2e-5:
        sys.exit(f"{what} is {error} from its formula")
    print(f"{what}: its formula to {error:.1e}")


def make(folder):
    rng = np.random.default_rng(1)
    for name in ("q", "k", "v"):
        np.save(os.path.join(folder, name + ".npy"), rng.standard_normal((HEADS, N, DIM)).astype("f4") * 1.5)


    np.save(os.path.join(folder, "a.npy"), np.ones(3, "f4"))
    np.save(os.path.join(folder, "leaf.npy"), np.zeros(N, "i4"))



def hold(folder):
    q, k, v = (load(folder, name) for name in ("q", "k", "v"))
    want = formula(*(x.astype("f8") for x in (q, k, v)), C)
    near("the tool's --clamp", load(folder, "out"), want)
    import hga

    h = hga.dense(N)
    near("numpy", h.attention(q, k, v, clamp=C), want)
    try:
        h.attention(q, k, v, clamp=-C)
        sys.exit("clamp=-0.5 is taken")
    except (hga.Error, ValueError) as error:
        assert "clamp" in str(error), error
    assert "clamp" in str(__import__("inspect").signature(h.attention)), "no clamp in the signature"
    try:
        import torch
    except ImportError:
        print("torch is not here")
        return
    import hga.torch

    x = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    out = hga.torch.attention(h, *x, clamp=C)
    near("torch", out.detach(), want)
    out.square().sum().backward()
    y = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (q, k, v)]
    scores = (y[0] @ y[1].transpose(-1, -2) / DIM**0.5).clamp(-C, C)
    (scores.softmax(-1) @ y[2]).square().sum().backward()
    for name, a, b in zip(("query", "key", "value"), x, y):
        near(f"torch's gradient of {name}", a.grad, b.grad.numpy())


def hold_relu(folder):
    q, k, v = (load(folder, name) for name in ("q", "k", "v"))
    want = np.maximum(q.astype("f8") @ np.swapaxes(k, -1, -2) / np.sqrt(DIM), 0) @ v
    near("the tool's --normaliser relu", load(folder, "relu") / 10, want / 10)
    import hga

    near("numpy's normaliser relu", hga.dense(N).attention(q, k, v, normaliser="relu") / 10, want / 10)


{"make": make, "hold": hold, "relu": hold_relu}[sys.argv[1]](sys.argv[2])
