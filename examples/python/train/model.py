"""A small transformer whose attention is named: "sdpa" is torch's, "mean" and "own" attend to nothing in particular, "bpt:k=4" is
BP-Transformer on rows of nodes, "treeformer:height=3" Treeformer with learned trees, and any other name hga.torch.Attention's.
Only attention differs between them."""

import math

import torch
import torch.nn.functional as F

import hga.torch


class Sdpa(torch.nn.Module):
    """torch's own attention, in the shape of hga.torch.Attention."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.project(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Mean(torch.nn.Module):
    """A control: every token gets the mean of the values that it may see. It has the parameters of attention, and uses a third of them."""

    def __init__(self, width, causal):
        super().__init__()
        self.causal = causal
        self.project, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        v = self.project(x)[..., 2 * x.shape[-1] :]
        if self.causal:
            return self.out(v.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None])
        return self.out(v.mean(1, keepdim=True).expand_as(x))


class Own(torch.nn.Module):
    """Every token gets its own value: what is left of attention without attention."""

    def __init__(self, width):
        super().__init__()
        self.project, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        return self.out(self.project(x)[..., 2 * x.shape[-1] :])


def settings(words):
    """The name and the numbers of "bpt:k=4"."""
    name, *given = words.split(":")
    return name, {key: int(value) for key, value in (each.split("=") for each in given)}


def attention(words, width, heads, causal):
    name, numbers = settings(words) if words.startswith(("bpt", "treeformer:")) else (words, {})
    if name == "sdpa":
        return Sdpa(width, heads, causal)
    if name == "mean":
        return Mean(width, causal)
    if name == "own":
        return Own(width)
    if name == "bpt":
        return hga.torch.BPT(width, heads, causal=causal, **numbers)
    if name == "treeformer":
        return hga.torch.Treeformer(width, heads, causal=causal, **numbers)
    return hga.torch.Attention(words, width, heads, causal=causal)


class Layer(torch.nn.Module):
    """Attention by its name, or as `words` makes it, and what follows it; what more it is given is the attention's."""

    def __init__(self, words, width, heads, causal):
        super().__init__()
        self.before_attention, self.before_wide = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = words() if callable(words) else attention(words, width, heads, causal)
        self.wide = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x, *more):
        x = x + self.attention(self.before_attention(x), *more)
        return x + self.wide(self.before_wide(x))


def sinusoids(tokens, width):
    """[tokens][width]: where a token stands, as sines and cosines of wave lengths from 2 pi to a text's length and beyond."""
    angle = torch.arange(tokens)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Model(torch.nn.Module):
    """[batch, tokens] of numbers in, [batch, tokens, letters] of scores out. A token begins as the sum of where it stands, its own
    embedding, and those of the `back` tokens before it, so that attention need not look for them."""

    def __init__(self, words, letters, tokens, *, layers, width, heads, back=0, causal=True):
        super().__init__()
        self.letter = torch.nn.ModuleList(torch.nn.Embedding(letters, width) for _ in range(back + 1))
        for letter in self.letter:
            torch.nn.init.normal_(letter.weight, std=0.5 / (back + 1) ** 0.5)
        self.register_buffer("place", 0.5 * sinusoids(tokens, width))
        self.layers = torch.nn.Sequential(*(Layer(words, width, heads, causal) for _ in range(layers)))
        self.last, self.scores = torch.nn.LayerNorm(width), torch.nn.Linear(width, letters)
        self.rows = hga.torch.NodeRows() if words.startswith("bpt") else None

    def states(self, numbers):
        """[batch, tokens, width]: the states above the last layer."""
        x = self.place[: numbers.shape[1]] + self.letter[0](numbers)
        for back, letter in enumerate(self.letter[1:], 1):
            x = x + F.pad(letter(numbers[:, :-back]), (0, 0, back, 0))
        if self.rows is None:
            return self.last(self.layers(x))
        return self.last(self.rows.tokens(self.layers(self.rows(x))))

    def forward(self, numbers):
        return self.scores(self.states(numbers))
