"""A layer of Exphormer (Shirzad et al. 2023), which is one of GraphGPS (Rampasek et al. 2022) whose global half is sparse: attention to
a graph's neighbours, and beside it attention over an expander, random permutations and a few virtual nodes that see all. Two nodes
are then few steps apart, however long the way between them is in the graph itself.

    python3 examples/python/exphormer.py [--cliques 16] [--size 8] [--steps 200] [--layers 3] [--degree 3] [--virtual 2] [--seeds 1]

The task: cliques in a ring, each with a bit that its nodes know; every node tells the bit of the clique on the other side. So few
layers of attention to neighbours do not reach it: the same layers without their global half are the control. Between the two
are layers with one part of the expander."""

import argparse
import time

import hga.torch
import numpy as np
import torch


def ring_of_cliques(cliques, size):
    """[2, edges]: all pairs in a clique, and one edge both ways from each clique to the next."""
    inside = np.array([(a, b) for a in range(size) for b in range(size) if a != b])
    pairs = [inside + c * size for c in range(cliques)]
    ends = np.array([(c * size, (c + 1) % cliques * size + size - 1) for c in range(cliques)])
    return np.concatenate([*pairs, ends, ends[:, ::-1]]).T


def expander(nodes, degree, virtual, seed=0):
    """[2, edges]: of `degree` random permutations, both ways, and of virtual nodes behind the others, which see all and are seen
    by all; each edge once."""
    rng, own = np.random.default_rng(seed), np.arange(nodes)
    ends = [rng.permutation(nodes) for _ in range(degree)] + [np.full(nodes, nodes + v) for v in range(virtual)]
    one_way = np.concatenate([np.stack([own, end]) for end in ends], 1)
    both = np.concatenate([one_way, one_way[::-1]], 1)
    return np.unique(both[:, both[0] != both[1]], axis=1)


def copies(edges, nodes, many):
    """The same graph `many` times, side by side."""
    return torch.from_numpy(np.concatenate([edges + i * nodes for i in range(many)], 1))


class Layer(torch.nn.Module):
    def __init__(self, width, heads, sparse):
        super().__init__()
        self.near = hga.torch.GATv2Conv(width, width // heads, heads)
        self.far = hga.torch.TransformerConv(width, width // heads, heads, root_weight=False) if sparse else None
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.ReLU(), torch.nn.Linear(2 * width, width))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))

    def forward(self, x, near, far):
        given = self.near(x, near) if self.far is None else self.near(x, near) + self.far(x, far)
        x = self.norms[0](x + given)
        return self.norms[1](x + self.mlp(x))


class Model(torch.nn.Module):
    """Rows of a batch of graphs, nodes and virtual nodes of each behind one another."""

    def __init__(self, cliques, virtual, width, heads, layers, sparse):
        super().__init__()
        self.bit, self.place = torch.nn.Embedding(2, width), torch.nn.Embedding(cliques, width)
        self.virtual = torch.nn.Parameter(0.1 * torch.randn(virtual, width))
        self.layers = torch.nn.ModuleList(Layer(width, heads, sparse) for _ in range(layers))
        self.tells = torch.nn.Linear(width, 2)

    def forward(self, bits, clique, near, far):
        own = self.bit(bits[:, clique]) + self.place(clique)
        x = torch.cat([own, self.virtual.expand(len(bits), -1, -1)], 1)
        rows = x.flatten(0, 1)
        for layer in self.layers:
            rows = layer(rows, near, far)
        return self.tells(rows.view(x.shape)[:, : len(clique)])


def trained(a, degree, virtual, seed):
    """The share of right answers on new bits, and processor seconds a step."""
    torch.manual_seed(seed)
    nodes, rows, sparse = a.cliques * a.size, a.cliques * a.size + virtual, degree + virtual > 0
    near = copies(ring_of_cliques(a.cliques, a.size), rows, a.batch)
    far = copies(expander(nodes, degree, virtual, seed), rows, a.batch) if sparse else None
    clique = torch.arange(nodes) // a.size
    opposite = (clique + a.cliques // 2) % a.cliques
    model = Model(a.cliques, virtual, a.width, a.heads, a.layers, sparse)
    adam = torch.optim.Adam(model.parameters(), lr=a.rate)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, a.rate, total_steps=a.steps)
    start = time.process_time()
    for _ in range(a.steps):
        bits = torch.randint(0, 2, (a.batch, a.cliques))
        loss = torch.nn.functional.cross_entropy(model(bits, clique, near, far).flatten(0, 1), bits[:, opposite].flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        plan.step()
    seconds = (time.process_time() - start) / a.steps
    with torch.no_grad():
        right = [(model(bits, clique, near, far).argmax(-1) == bits[:, opposite]).float().mean()
                 for bits in (torch.randint(0, 2, (a.batch, a.cliques)) for _ in range(8))]  # fmt: skip
    return float(torch.stack(right).mean()), seconds


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    sizes = dict(cliques=16, size=8, steps=200, layers=3, degree=3, virtual=2, width=64, heads=4, batch=16, seeds=1)
    for name, standard in sizes.items():
        a.add_argument(f"--{name}", type=int, default=standard)
    a.add_argument("--rate", type=float, default=3e-3)
    a = a.parse_args()
    torch.set_num_threads(1)
    print("| layers | right, seed by seed | ms a step |\n|---|---|---|")
    kinds = {"GATv2": (0, 0), "GATv2 and virtual nodes": (0, a.virtual), "GATv2 and permutations": (a.degree, 0),
             "GATv2 and an expander": (a.degree, a.virtual)}  # fmt: skip
    for name, (degree, virtual) in kinds.items():
        found = [trained(a, degree, virtual, seed) for seed in range(a.seeds)]
        right = ", ".join(f"{right:.3f}" for right, _ in found)
        print(f"| {a.layers} of {name} | {right} | {1e3 * min(seconds for _, seconds in found):.0f} |", flush=True)


if __name__ == "__main__":
    main()
