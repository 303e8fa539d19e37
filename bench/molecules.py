"""Training with layers of graph attention, as hga.torch and PyTorch Geometric have them: from equal seeds, in turns, one process.

    python3 bench/molecules.py [--tasks molecules,citation] [--layers GATConv,GATv2Conv,TransformerConv] [--epochs 12] [--seed 1]
                               [--threads 1]

Two tasks, both drawn by a seed, without any download. molecules: rings with a chain, of 5 to 20 atoms of 5 types; have two atoms of
type A a distance of 2 or less? Batches of 32, two layers of 64 columns with features of bonds. citation: 2,708 nodes of 7 classes,
10,556 edges, most of them inside a class, and bags of 1,433 words; full batches, two layers. ``rest`` is an epoch of hga's network
whose attention is replaced by a sum of its inputs: linear layers, the optimizer, batches. Memory is that of a process of its own,
above what it holds when training begins."""

import argparse
import functools
import pathlib
import re
import statistics
import subprocess
import sys
import time
from typing import NamedTuple, Optional
from unittest import mock

import hga.torch
import numpy as np
import torch
from graphs import import_pyg
from peers import Missing, refuse_unknown

LAYERS = "GATConv", "GATv2Conv", "TransformerConv"
TYPES, BONDS, COLUMNS, HEADS = 5, 3, 64, 4


class Batch(NamedTuple):
    """graph: of each atom, which molecule it is in; None: nodes are classified, those of ``told`` to learn from."""

    x: torch.Tensor
    edges: torch.Tensor
    features: Optional[torch.Tensor]
    graph: Optional[torch.Tensor]
    y: torch.Tensor
    told: Optional[torch.Tensor]


# ---- molecules ----


def molecule(rng):
    """Types, pairs of atoms, kinds of bonds (of the ring, of the chain, double), and whether two atoms of type A are near."""
    ring, chain = rng.integers(3, 9), rng.integers(2, 13)
    types, at = rng.choice(TYPES, ring + chain, p=[0.2] + [0.8 / (TYPES - 1)] * (TYPES - 1)), np.arange(ring + chain)
    pairs = np.concatenate([np.stack([at[:-1], at[1:]], 1), [[ring - 1, 0]]])
    kinds = np.where(np.arange(len(pairs)) < ring - 1, 0, 1)
    kinds[-1] = 0
    kinds[rng.random(len(pairs)) < 0.15] = 2
    joined = np.eye(len(at), dtype=int)
    joined[pairs[:, 0], pairs[:, 1]] = joined[pairs[:, 1], pairs[:, 0]] = 1
    near, a = (joined @ joined > 0) & ~np.eye(len(at), dtype=bool), types == 0
    return types, pairs, kinds, int((near & a & a[:, None]).any())


def molecules(n, seed=1):
    """[(types [atoms], edges [2, edges] both ways, features [edges, 3], answer)]."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        types, pairs, kinds, answer = molecule(rng)
        features = np.eye(BONDS, dtype=np.float32)[np.concatenate([kinds, kinds])]
        found.append((torch.from_numpy(types), torch.from_numpy(np.concatenate([pairs, pairs[:, ::-1]]).T.copy()), torch.from_numpy(features), answer))
    return found


def batch_of(some):
    """Molecules side by side in one graph."""
    sizes = [len(types) for types, *_ in some]
    first = np.cumsum([0, *sizes[:-1]])
    edges = torch.cat([e + int(at) for (_, e, _, _), at in zip(some, first)], 1)
    graph = torch.repeat_interleave(torch.arange(len(some)), torch.tensor(sizes))
    x = torch.nn.functional.one_hot(torch.cat([types for types, *_ in some]), TYPES).float()
    return Batch(x, edges, torch.cat([f for _, _, f, _ in some]), graph, torch.tensor([y for *_, y in some]), None)


def batches(data, size=32, rng=None):
    order = range(len(data)) if rng is None else rng.permutation(len(data))
    for i in range(0, len(data), size):
        yield batch_of([data[j] for j in order[i : i + size]])


# ---- a graph of citations ----


def citation(nodes=2708, edges=10556, words=1433, classes=7, inside=0.81, seed=1):
    """A stochastic block model with homophily, and words of which a class has its own. 20 nodes a class are told."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.arange(nodes) % classes)
    of = [np.flatnonzero(group == c) for c in range(classes)]
    pairs = set()
    while len(pairs) < edges // 2:
        a = int(rng.integers(nodes))
        b = int(rng.choice(of[group[a]] if rng.random() < inside else nodes))
        if a != b:
            pairs.add((min(a, b), max(a, b)))
    ends = np.array(sorted(pairs)).T
    x = np.zeros((nodes, words), np.float32)
    for node in range(nodes):
        own = rng.integers(0, words // classes, 18) * classes + group[node]
        x[node, np.where(rng.random(18) < 0.15, own, rng.integers(0, words, 18))] = 1
    told = np.concatenate([nodes_of[:20] for nodes_of in of])
    y = torch.from_numpy(group)
    return Batch(torch.from_numpy(x / x.sum(1, keepdims=True)), torch.from_numpy(np.concatenate([ends, ends[::-1]], 1)), None, None, y, torch.from_numpy(told))


# ---- networks ----


class OfMolecules(torch.nn.Module):
    def __init__(self, package, layer):
        super().__init__()
        make = functools.partial(getattr(package, layer), COLUMNS, COLUMNS // HEADS, heads=HEADS, edge_dim=BONDS)
        self.atoms, self.one, self.two, self.answer = torch.nn.Linear(TYPES, COLUMNS), make(), make(), torch.nn.Linear(COLUMNS, 2)

    def forward(self, batch):
        x = self.atoms(batch.x)
        for layer in (self.one, self.two):
            x = layer(x, batch.edges, batch.features).relu()
        return self.answer(x.new_zeros(len(batch.y), COLUMNS).index_add(0, batch.graph, x))


class OfCitations(torch.nn.Module):
    """Veličković's: 8 heads of 8, then one head a class; half of the numbers are dropped before each layer."""

    def __init__(self, package, layer, words, classes):
        super().__init__()
        self.one, self.two = getattr(package, layer)(words, 8, heads=8), getattr(package, layer)(64, classes)

    def forward(self, batch):
        drop = functools.partial(torch.nn.functional.dropout, p=0.5, training=self.training)
        return self.two(drop(torch.nn.functional.elu(self.one(drop(batch.x), batch.edges))), batch.edges)


class Molecules:
    rate, decay = 3e-3, 0.0

    def __init__(self, seed, learn=1000, ask=400):
        self.seed, self.data, self.asked = seed, molecules(learn, seed), list(batches(molecules(ask, seed + 1000)))

    def network(self, package, layer):
        return OfMolecules(package, layer)

    def learned(self, epoch):
        return batches(self.data, rng=np.random.default_rng([self.seed, epoch]))


class Citation:
    rate, decay = 5e-3, 5e-4

    def __init__(self, seed, **sizes):
        self.graph = citation(seed=seed, **sizes)
        others = np.setdiff1d(np.arange(len(self.graph.y)), self.graph.told)[:1000]
        self.asked = [self.graph._replace(told=torch.from_numpy(others))]

    def network(self, package, layer):
        return OfCitations(package, layer, self.graph.x.shape[1], int(self.graph.y.max()) + 1)

    def learned(self, epoch):
        return [self.graph]


TASKS = {"molecules": Molecules, "citation": Citation}


# ---- training ----


def without_attention(layer, call, q, k, v, additive=None, edge=None, to_values=False):
    """A sum of the inputs, in the shape of attention's output: every linear layer still goes there and back."""
    out = (v * (q + k) if q.dim() == 2 or q.shape != v.shape else q + k + v)[: call.sizes[1]]
    return out + sum(x.mean() for x in (additive, edge) if x is not None)


class Training:
    """A network from a seed; ``rest``: without its attention."""

    def __init__(self, name, task, layer, seed=1):
        torch.manual_seed(seed)
        self.task, self.seed, self.epochs, self.is_rest = task, seed, 0, name == "rest"
        self.model = task.network(import_pyg().nn if name == "pyg" else hga.torch, layer)
        self.by = torch.optim.Adam(self.model.parameters(), task.rate, weight_decay=task.decay)

    def epoch(self):
        """The mean loss."""
        torch.manual_seed(1000 * self.seed + self.epochs)  # what is dropped is the same in every package
        self.model.train()
        losses = []
        replaced = mock.patch.object(hga.torch.GATConv.__mro__[2], "_attended", without_attention)
        with replaced if self.is_rest else mock.MagicMock():
            for batch in self.task.learned(self.epochs):
                its = slice(None) if batch.told is None else batch.told
                self.by.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.model(batch)[its], batch.y[its])
                loss.backward()
                self.by.step()
                losses.append(loss.item())
        self.epochs += 1
        return statistics.mean(losses)

    def accuracy(self):
        """On what was not learned from."""
        self.model.eval()
        right = []
        with torch.no_grad():
            for batch in self.task.asked:
                its = slice(None) if batch.told is None else batch.told
                right.append((self.model(batch).argmax(1) == batch.y)[its])
        return float(torch.cat(right).float().mean())


def trained_in_turns(trainings, epochs):
    """{name: processor seconds of each epoch}, the order turning."""
    seconds = {name: [] for name in trainings}
    for turn in range(epochs):
        names = list(trainings)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.process_time()
            trainings[name].epoch()
            seconds[name].append(time.process_time() - began)
    return seconds


def memory(name, task, layer, seed):
    """MB that three epochs take at most, above a process with the packages and the data (Linux)."""
    training, status = Training(name, TASKS[task](seed), layer, seed), pathlib.Path("/proc/self/status")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = int(re.search(r"VmRSS:\s*(\d+)", status.read_text())[1])
    for _ in range(3):
        training.epoch()
    return (int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1]) - before) / 1024


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--tasks", default=",".join(TASKS))
    a.add_argument("--layers", default=",".join(LAYERS))
    a.add_argument("--epochs", type=int, default=12)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--memory", help=argparse.SUPPRESS)  # of one package, in a process of its own
    a = a.parse_args()
    refuse_unknown(task=(a.tasks, TASKS), layer=(a.layers, LAYERS))
    torch.set_num_threads(a.threads)
    if a.memory:
        print(f"{memory(a.memory, a.tasks, a.layers, a.seed):.0f}")
        return
    names = ["hga", "pyg", "rest"]
    try:
        import_pyg()
    except Missing as e:
        names.remove("pyg")
        print(f"not compared: {e}", file=sys.stderr)
    print("| task | layer | | ms an epoch | over hga's | accuracy | peak MB |\n|---|---|---|---|---|---|---|")
    for task in a.tasks.split(","):
        made = TASKS[task](a.seed)
        for layer in a.layers.split(","):
            trainings = {name: Training(name, made, layer, a.seed) for name in names}
            took = {name: statistics.median(x[1:] or x) for name, x in trained_in_turns(trainings, a.epochs).items()}
            for name in names:
                line = f"| {task} | {layer} | {name} | {1e3 * took[name]:.0f} | {took[name] / took['hga']:.2f} |"
                if name == "rest":
                    print(f"{line} | |", flush=True)
                    continue
                words = sys.executable, __file__, "--memory", name, "--tasks", task, "--layers", layer, "--seed", str(a.seed), "--threads", str(a.threads)
                peak = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1]
                print(f"{line} {trainings[name].accuracy():.1%} | {peak} |", flush=True)


if __name__ == "__main__":
    main()
