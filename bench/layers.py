"""An epoch of one layer of graph attention, there and back, as hga.torch, PyTorch Geometric and DGL have it: the same weights,
the same graph, one process, in turns; a time counts only where output and gradients are those of the first.

    python3 bench/layers.py [--layers GATConv,GATv2Conv] [--graphs wordnet] [--shapes 4x16,8x8] [--columns 16] [--threads 1]
                            [--features 0: of each edge] [--repetitions 9] [--seed 1] [--data FOLDER]

Graphs and --data are those of graphs.py. A peer or a graph that is missing is named."""

import argparse
import functools
import sys

import compare
import numpy as np
from graphs import GRAPHS, import_pyg
from peers import Missing, import_dgl, import_torch, refuse_unknown

EQUAL = 1e-5  # how far apart results may be, in shares of their largest entry
DGL_NAMES = {"lin.weight": "fc.weight", "att_src": "attn_l", "att_dst": "attn_r", "bias": "bias"}
DGL_NAMES_2 = {"lin_l.weight": "fc_src.weight", "lin_l.bias": "fc_src.bias", "lin_r.weight": "fc_dst.weight",
               "lin_r.bias": "fc_dst.bias", "att": "attn"}  # fmt: skip


class Problem:
    def __init__(self, layer, edges, n, columns, heads, dim, features, seed):
        import torch

        torch.manual_seed(seed)
        self.torch, self.layer, self.n, self.columns, self.heads, self.dim = torch, layer, n, columns, heads, dim
        self.words, self.tokens, self.threads = f"{layer} of {edges.shape[1]} edges", n, torch.get_num_threads()
        self.edges = torch.from_numpy(edges)
        self.x, self.g = torch.randn(n, columns), torch.randn(n, heads * dim)
        self.features = torch.randn(edges.shape[1], features) if features else None

    def made_of(self, package):
        """The layer of hga.torch or of PyTorch Geometric."""
        # the gradient of a key's bias is nothing but rounding
        more = {"bias": False} if self.layer == "TransformerConv" else {"add_self_loops": False}
        edge_dim = None if self.features is None else self.features.shape[1]
        layer = getattr(package, self.layer)(self.columns, self.dim, heads=self.heads, edge_dim=edge_dim, **more)
        return layer, lambda x: layer(x, self.edges, self.features), {}


def peer_hga(p):
    import hga.torch

    return p.made_of(hga.torch)


def peer_pyg(p):
    return p.made_of(import_pyg().nn)


def peer_dgl(p):
    if p.features is not None or p.layer == "TransformerConv":
        raise Missing(f"no {p.layer} like it")
    dgl = import_dgl()
    import dgl.nn

    graph = dgl.graph((p.edges[0], p.edges[1]), num_nodes=p.n)
    graph.create_formats_()
    layer = getattr(dgl.nn, p.layer)(p.columns, p.dim, p.heads, bias=True, allow_zero_in_degree=True)
    bias = None if p.layer == "GATConv" else p.torch.nn.Parameter(p.torch.zeros(p.heads * p.dim))  # which DGL's has not
    layer.register_parameter("own_bias", bias)

    def run(x):
        out = layer(graph, x).flatten(1)
        return out if bias is None else out + bias

    return layer, run, DGL_NAMES if bias is None else {**DGL_NAMES_2, "bias": "own_bias"}


PEERS = {"hga": peer_hga, "pyg": peer_pyg, "dgl": peer_dgl}


def epoch(p, layer, run):
    """Output and gradients of all parameters, by hga's names."""
    layer.zero_grad()
    out = run(p.x)
    out.backward(p.g)
    return out.detach()


def found_of(p, wanted, skipped):
    """[(name, layer, run)] of peers that compute what the first one does, from its weights."""
    found, right = [], None
    for name in wanted:
        try:
            layer, run, names = PEERS[name](p)
            if right is None:
                weights = {key: x.detach().clone() for key, x in layer.named_parameters()}
            own = dict(layer.named_parameters())
            with p.torch.no_grad():
                for key, x in weights.items():
                    own[names.get(key, key)].copy_(x.view_as(own[names.get(key, key)]))
            results = [epoch(p, layer, run), *(own[names.get(key, key)].grad.clone() for key in weights)]
            right = right or results
            apart = max(float((x.flatten() - y.flatten()).abs().max() / y.abs().max()) for x, y in zip(results, right))
            if not apart <= EQUAL:
                raise Missing(f"{p.layer}: its results are {apart:.1e} off: its times are not shown")
            found.append((name, layer, run, apart))
        except Missing as e:
            skipped.append(f"{name}: {e}")
    return found


def contenders(p, wanted, skipped):
    """(name, an epoch, difference) of each, as compare.contenders gives them."""
    return [(name, functools.partial(epoch, p, layer, run), apart) for name, layer, run, apart in found_of(p, wanted, skipped)]


def measure(p, wanted, repetitions, skipped):
    """{name: (median seconds of an epoch, difference)}; each peer once a turn, the order turning too."""
    found = contenders(p, wanted, skipped)
    times = compare.in_turns(found, repetitions)
    return {name: (float(np.median([cpu for _, cpu in times[name]])), apart) for name, _, apart in found}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--layers", default="GATConv,GATv2Conv")
    a.add_argument("--graphs", default="wordnet")
    a.add_argument("--shapes", default="4x16,8x8", help="heads x dim of the layer")
    a.add_argument("--columns", type=int, default=16, help="of the input")
    a.add_argument("--features", type=int, default=0, help="of each edge")
    a.add_argument("--peers", default=",".join(PEERS))
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--repetitions", type=int, default=9)
    # Of millions of scores one may lie so near to 0 that two roundings put it on two sides of the leak: another seed helps.
    a.add_argument("--seed", type=int, default=1, help="of weights and rows")
    a.add_argument("--scale", type=int, default=16, help="of rmat: 2^scale nodes")
    a.add_argument("--data", help="a folder with unpacked Debian packages")
    a = a.parse_args()
    refuse_unknown(graph=(a.graphs, GRAPHS), peer=(a.peers, PEERS))
    try:
        import_torch(a.threads)
    except Missing as e:
        sys.exit(f"torch is needed: {e}")
    skipped, shown = [], 0
    print("| graph | layer | heads x dim | | ms an epoch | over hga's | apart |\n|---|---|---|---|---|---|---|")
    for graph in a.graphs.split(","):
        try:
            edges, n = GRAPHS[graph](a)
        except Missing as e:
            skipped.append(f"{graph}: {e}")
            continue
        for layer in a.layers.split(","):
            for shape in a.shapes.split(","):
                heads, dim = map(int, shape.split("x"))
                problem = Problem(layer, edges, n, a.columns, heads, dim, a.features, a.seed)
                all_of = measure(problem, a.peers.split(","), a.repetitions, skipped)
                for name, (seconds, apart) in all_of.items():
                    ratio = f"{seconds / all_of['hga'][0]:.2f}" if "hga" in all_of else "-"
                    print(f"| {graph} | {layer} | {heads} x {dim} | {name} | {1e3 * seconds:.1f} | {ratio} | {apart:.0e} |", flush=True)
                    shown += 1
    for line in dict.fromkeys(skipped):
        print(f"not compared: {line}")
    if not shown:
        sys.exit("nothing was compared")


if __name__ == "__main__":
    main()
