"""Attention over a graph as the head of msgpass/program/public/hga_program.h defines it, in float64 and edge by edge, for the
program that files of edges have: means up the tree, one softmax over all edges, states down the tree. Gradients are differences."""

import json

import numpy as np


class Graph:
    """What a graph's JSON file says; `edges`: of each relation, the first attended first, [n][3] = source, destination, type in the
    canonical order. Of several relations all are attended in one softmax."""

    def __init__(self, path, *edges):
        with open(path) as file:
            said = json.load(file)
        sizes = said["levels"]
        self.n, self.n_tokens = sum(sizes), sizes[0]
        self.level = np.repeat(np.arange(len(sizes)), sizes)
        self.parent = np.array(said.get("parents", [-1] * self.n))
        for parent, child, n, each in said.get("families", []):
            self.parent[child : child + n] = parent + np.arange(n) // each
        self.queries, self.keys = (np.arange(*np.cumsum(said.get(side, [0, self.n_tokens]))) for side in ("queries", "keys"))
        self.src, self.dst, self.type = np.concatenate(edges).T.astype(int)
        self.n_first = len(edges[0])  # which edge biases belong to
        if len(self.queries) + len(self.keys) == self.n_tokens and len(self.keys) < self.n_tokens:
            self.src, self.dst = self.src + self.keys[0], self.dst + self.queries[0]
        weight = {}
        for i, relation in enumerate(said["relations"]):
            for edge in relation.get("edges", []):
                src, dst, kind, w = (edge + [0, 1][len(edge) - 2 :])[:4]
                weight[i, src, dst, kind] = w
        of = np.repeat(np.arange(len(edges)), [len(e) for e in edges])
        self.weight = np.array([weight.get(e, 1.0) for e in zip(of, self.src, self.dst, self.type)])
        self.mass, self.place = np.zeros(self.n), np.zeros(self.n)
        self.mass[: self.n_tokens] = 1
        self.place[self.queries] = np.arange(len(self.queries))
        self.place[self.keys] = np.arange(len(self.keys))
        for v in range(self.n):  # children come before their parents
            if self.level[v] and self.mass[v]:
                self.place[v] /= self.mass[v]
            if self.parent[v] >= 0:
                self.mass[self.parent[v]] += self.mass[v]
                self.place[self.parent[v]] += self.mass[v] * self.place[v]

    def means(self, x):
        """[tokens][..] -> [nodes][..]: of the tokens below."""
        x = np.concatenate([x, np.zeros((self.n - self.n_tokens, *x.shape[1:]))])
        for v in range(self.n):
            if self.level[v]:
                x[v] /= self.mass[v]
            if self.parent[v] >= 0:
                x[self.parent[v]] += self.mass[v] * x[v]
        return x


def entmax(s, tokens, alpha):
    low, high = (alpha - 1) * s.max() - 1, (alpha - 1) * s.max()
    power = lambda tau: tokens * np.maximum((alpha - 1) * s - tau, 0) ** (1 / (alpha - 1))
    while power(low).sum() < 1:
        low -= 1
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle).sum() < 1 else (middle, high)
    return power(low) / power(low).sum()


def scores(g, x, heads):
    """[edges][heads]: (scores without the logarithms of weight and mass, these logarithms)."""
    at = lambda name: np.repeat(x[name], heads // x[name].shape[1], axis=1)
    full = np.zeros((g.n_tokens, heads, x["query"].shape[2]))
    full[g.queries] = at("query")
    q = g.means(full)
    full = np.zeros_like(full)
    full[g.keys] = at("key")
    k = g.means(full)[g.src]
    if "rel-key" in x:
        k = k + x["rel-key"][g.type][:, None]
    if "edge-key" in x:
        own = x["edge-key"].reshape(g.n_first, x["key"].shape[1], -1)
        k = np.concatenate([k[: g.n_first] + np.repeat(own, heads // own.shape[1], axis=1), k[g.n_first :]])
    s = x["scale"][0] * (q[g.dst] * k).sum(-1)
    if "softcap" in x:
        s = x["softcap"] * np.tanh(s / x["softcap"])
    if "rel-bias" in x:
        s = s + x["rel-bias"].reshape(len(x["rel-bias"]), -1)[g.type]
    if "edge-bias" in x:
        s[: g.n_first] = s[: g.n_first] + x["edge-bias"].reshape(g.n_first, -1)
    if "node-pos" in x:
        s = s + (x["node-pos"][g.dst] * x["node-pos"][g.src]).sum(-1)[:, None]
    if "slopes" in x:
        s = s - x["slopes"] * np.abs(g.place[g.dst] - g.place[g.src])[:, None]
    return s, np.log(g.weight * g.mass[g.src]) + (x["log-mass"][g.src] if "log-mass" in x else 0)


def attend(g, x, heads):
    """(out [queries][heads][columns], log-sum-exp [queries][heads] of softmax alone) of inputs by the names of the tool's options."""
    s, log_tokens = scores(g, x, heads)
    full = np.zeros((g.n_tokens, heads, x["value"].shape[2]))
    full[g.keys] = np.repeat(x["value"], heads // x["value"].shape[1], axis=1)
    value = g.means(full)[g.src]
    kind, number = x.get("normaliser", ("softmax", 0))
    out, lse = np.zeros((g.n, heads, value.shape[2])), np.full((g.n, heads), -np.inf)
    for v in np.unique(g.dst):
        mine = g.dst == v
        for h in range(heads):
            if kind == "sigmoid":
                p = np.exp(log_tokens[mine]) / (1 + np.exp(-(s[mine, h] + number)))
            elif kind == "entmax":
                p = entmax(s[mine, h], np.exp(log_tokens[mine]), number)
            else:
                e = s[mine, h] + log_tokens[mine]
                lse[v, h] = e.max() + np.log(np.exp(e - e.max()).sum())
                p = np.exp(e - lse[v, h])
            out[v, h] = p @ value[mine, h]
    for v in reversed(range(g.n)):  # parents come behind their children
        if g.parent[v] < 0:
            continue
        if kind == "sigmoid":
            out[v] += out[g.parent[v]]
            continue
        both = np.stack([lse[v], lse[g.parent[v]]])
        with np.errstate(invalid="ignore"):
            part = np.nan_to_num(np.exp(both - np.logaddexp(*both)))
        out[v] = part[0, :, None] * out[v] + part[1, :, None] * out[g.parent[v]]
        lse[v] = np.logaddexp(*both)
    out, lse = out[g.queries], lse[g.queries]
    if "sink" in x:
        with_sink = np.logaddexp(lse, x["sink"])
        out, lse = out * np.exp(lse - with_sink)[..., None], with_sink
    return out, lse


def slope(g, x, heads, name, direction, d_out, d_lse):
    """How fast sum(d_out out) + sum(d_lse lse) grows when the input goes in that direction."""
    loss, h = [], 1e-5
    for step in (-h, h):
        out, lse = attend(g, x | {name: x.get(name, 0) + step * direction}, heads)
        loss.append((d_out * out).sum() + (0 if d_lse is None else (d_lse * np.where(np.isfinite(lse), lse, 0)).sum()))
    return (loss[1] - loss[0]) / (2 * h)
