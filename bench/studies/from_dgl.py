"""What docs/from-dgl.md promises, beside DGL itself: for each row of its table that computes the largest difference of
outputs and gradients, as a part of the largest entry.

    PYTHONPATH=build/python python3 bench/studies/from_dgl.py

Exits with 1 where one is larger than rounding. DGL's last release for processors on PyPI is 2.1; beside a newer torch it is
installed by `pip install --no-deps dgl==2.1.0 torchdata==0.7.1`, and without its data loader."""

import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from peers import Missing, import_dgl, import_torch

torch = import_torch(1)

import torch_geometric.nn as pyg  # noqa: E402

import hga  # noqa: E402
import hga.torch  # noqa: E402

N, EDGES, HEADS, DIM, COLUMNS = 300, 2000, 4, 8, 16
MOST = 5e-6  # of the largest entry


def edges(sources, destinations):
    """A list in which none stands twice, and no node sees itself."""
    one = torch.randint(0, sources * destinations, (EDGES,)).unique()
    index = torch.stack([one // destinations, one % destinations])
    return index[:, index[0] != index[1]]


def difference(*pairs):
    """The largest of a and b, as a part of b's largest entry."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def compared(ours, theirs, leaves, ours_too, theirs_too):
    """Of outputs [nodes, heads, columns], and of gradients of what both read and of both's parameters."""
    d = torch.randn_like(theirs)
    grads = torch.autograd.grad(ours, [*leaves, *ours_too], d), torch.autograd.grad(theirs, [*leaves, *theirs_too], d)
    return difference((ours, theirs), *((a, b.view_as(a)) for a, b in zip(*grads)))


def copy(pairs):
    with torch.no_grad():
        for to, of in pairs:
            to.copy_(of.view_as(to))
    return zip(*pairs)


def gat(dgl, index, loops=False):
    g = dgl.graph((index[0], index[1]), num_nodes=N)
    theirs = dgl.nn.GATConv(COLUMNS, DIM, HEADS, allow_zero_in_degree=True)
    ours = hga.torch.GATConv(COLUMNS, DIM, HEADS, add_self_loops=loops)
    torch.nn.init.normal_(theirs.bias)
    own, other = copy([(ours.lin.weight, theirs.fc.weight), (ours.att_src, theirs.attn_l), (ours.att_dst, theirs.attn_r), (ours.bias, theirs.bias)])
    return g, theirs, ours, own, other


def graphs(dgl):
    """dgl.graph, GATConv, allow_zero_in_degree"""
    index = edges(N, N)
    index = index[:, index[1] > 5]  # the first nodes have no edges
    g, theirs, ours, own, other = gat(dgl, index)
    x = torch.randn(N, COLUMNS, requires_grad=True)
    found = compared(ours(x, index).view(-1, HEADS, DIM), theirs(g, x), [x], own, other)
    graph = hga.Graph.from_dgl(g)
    return max(found, difference((ours(x, graph).view(-1, HEADS, DIM), theirs(g, x)), (ours(x, index)[:6], ours.bias.expand(6, -1))))


def loops(dgl):
    """dgl.add_self_loop"""
    index = edges(N, N)
    g, theirs, ours, own, other = gat(dgl, index, True)
    x = torch.randn(N, COLUMNS, requires_grad=True)
    return compared(ours(x, index).view(-1, HEADS, DIM), theirs(dgl.add_self_loop(g), x), [x], own, other)


def blocks(dgl):
    """blocks of two kinds of nodes"""
    m = 120
    index = edges(N, m)
    block = dgl.create_block((index[0], index[1]), N, m)
    theirs = dgl.nn.GATConv((COLUMNS, COLUMNS), DIM, HEADS, allow_zero_in_degree=True)
    ours = hga.torch.GATConv((COLUMNS, COLUMNS), DIM, HEADS, add_self_loops=False)
    own, other = copy(
        [(ours.lin_src.weight, theirs.fc_src.weight), (ours.lin_dst.weight, theirs.fc_dst.weight), (ours.att_src, theirs.attn_l),
         (ours.att_dst, theirs.attn_r), (ours.bias, theirs.bias)]
    )  # fmt: skip
    x = [torch.randn(n, COLUMNS, requires_grad=True) for n in (N, m)]
    return compared(ours(tuple(x), index).view(-1, HEADS, DIM), theirs(block, tuple(x)), x, own, other)


def gatv2(dgl, share=False):
    """GATv2Conv"""
    index = edges(N, N)
    g = dgl.graph((index[0], index[1]), num_nodes=N)
    theirs = dgl.nn.GATv2Conv(COLUMNS, DIM, HEADS, allow_zero_in_degree=True, share_weights=share)
    ours = hga.torch.GATv2Conv(COLUMNS, DIM, HEADS, add_self_loops=False, share_weights=share)
    pairs = [(ours.att, theirs.attn), (ours.lin_l.weight, theirs.fc_src.weight), (ours.lin_l.bias, theirs.fc_src.bias)]
    pairs += [] if share else [(ours.lin_r.weight, theirs.fc_dst.weight), (ours.lin_r.bias, theirs.fc_dst.bias)]
    own, other = copy(pairs)
    torch.nn.init.zeros_(ours.bias)
    x = torch.randn(N, COLUMNS, requires_grad=True)
    return compared(ours(x, index).view(-1, HEADS, DIM), theirs(g, x), [x], own, other)


def gatv2_shared(dgl):
    """GATv2Conv(share_weights=True)"""
    return gatv2(dgl, True)


def several_kinds(dgl):
    """HeteroGraphConv beside HeteroConv"""
    kinds = {("a", "joins", "b"): (N, 120), ("b", "meets", "b"): (120, 120)}
    lists = {kind: edges(*n) for kind, n in kinds.items()}
    g = dgl.heterograph({kind: (index[0], index[1]) for kind, index in lists.items()}, {"a": N, "b": 120})
    theirs = dgl.nn.GATConv((COLUMNS, COLUMNS), DIM, HEADS, allow_zero_in_degree=True)
    layer = hga.torch.GATConv((COLUMNS, COLUMNS), DIM, HEADS, add_self_loops=False)
    copy([(layer.lin_src.weight, theirs.fc_src.weight), (layer.lin_dst.weight, theirs.fc_dst.weight), (layer.att_src, theirs.attn_l),
          (layer.att_dst, theirs.attn_r), (layer.bias, theirs.bias)])  # fmt: skip
    x = {"a": torch.randn(N, COLUMNS), "b": torch.randn(120, COLUMNS)}
    want = dgl.nn.HeteroGraphConv({"joins": theirs, "meets": theirs}, aggregate="sum")(g, (x, {"b": x["b"]}))
    found = pyg.HeteroConv({kind: layer for kind in kinds}, aggr="sum")(x, lists)
    return difference((found["b"].view(-1, HEADS, DIM), want["b"]))


def products(dgl):
    """edge_softmax, u_mul_e, sum"""
    index = edges(N, N)
    g = dgl.graph((index[0], index[1]), num_nodes=N)
    q, k, v = leaves = [torch.randn(N, HEADS, DIM, requires_grad=True) for _ in range(3)]
    weights = dgl.ops.edge_softmax(g, dgl.ops.u_dot_v(g, k, q) * DIM**-0.5)
    h = hga.Graph.from_dgl(g).hierarchy()
    return compared(h.attention(q, k, v, layout="bnhd"), dgl.ops.u_mul_e_sum(g, v, weights), leaves, [], [])


def additive(dgl):
    """u_add_v, LeakyReLU, edge_softmax"""
    index = edges(N, N)
    g = dgl.graph((index[0], index[1]), num_nodes=N)
    q, k, v = leaves = [torch.randn(N, HEADS, DIM, requires_grad=True) for _ in range(3)]
    a = torch.randn(HEADS, DIM, requires_grad=True)
    scores = (torch.nn.functional.leaky_relu(dgl.ops.u_add_v(g, k, q), 0.2) * a).sum(-1, keepdim=True)
    want = dgl.ops.u_mul_e_sum(g, v, dgl.ops.edge_softmax(g, scores))
    h = hga.Graph.from_dgl(g).hierarchy().additive_scores(0.2)
    return compared(h.attention(q, k, v, layout="bnhd", additive=a), want, [*leaves, a], [], [])


def biases(dgl):
    """attention with a bias by edge"""
    graph = hga.Graph.from_dgl(dgl.graph(tuple(edges(N, N)), num_nodes=N))
    ends = torch.from_numpy(graph.edges()[:, :2].astype("int64")).T.contiguous()  # in the order of tables of edges
    g = dgl.graph((ends[0], ends[1]), num_nodes=N)
    q, k, v = leaves = [torch.randn(N, HEADS, DIM, requires_grad=True) for _ in range(3)]
    bias = torch.randn(ends.shape[1], HEADS, requires_grad=True)
    weights = dgl.ops.edge_softmax(g, dgl.ops.u_dot_v(g, k, q) * DIM**-0.5 + bias.unsqueeze(-1))
    found = graph.hierarchy().attention(q, k, v, layout="bnhd", edge_bias=bias)
    return compared(found, dgl.ops.u_mul_e_sum(g, v, weights), [*leaves, bias], [], [])


def weights(dgl):
    """get_attention=True"""
    index = edges(N, N)
    g, theirs, ours, _, _ = gat(dgl, index)
    x = torch.randn(N, COLUMNS)
    (_, (_, found)), (_, want) = ours(x, index, return_attention_weights=True), theirs(g, x, get_attention=True)
    return difference((found, want.squeeze(-1)))


def orders(dgl):
    """dgl.reorder_graph"""
    g = dgl.graph(tuple(edges(N, N)), num_nodes=N)
    moved = dgl.reorder_graph(g, "rcmk", store_ids=True)
    q, k, v = (torch.randn(N, HEADS, DIM) for _ in range(3))
    at = moved.ndata[dgl.NID]
    weights = dgl.ops.edge_softmax(moved, dgl.ops.u_dot_v(moved, k[at], q[at]) * DIM**-0.5)
    want = torch.empty_like(q)
    want[at] = dgl.ops.u_mul_e_sum(moved, v[at], weights)
    return difference(*((hga.Graph.from_dgl(g).hierarchy().order(how).attention(q, k, v, layout="bnhd"), want) for how in ("rcm", "metis", "degree")))


ROWS = graphs, loops, blocks, gatv2, gatv2_shared, several_kinds, products, additive, biases, weights, orders


def main():
    try:
        dgl = import_dgl()
    except Missing as e:
        sys.exit(f"no DGL: {e}")
    import dgl.nn  # noqa: F401

    torch.manual_seed(1)
    worst = 0.0
    print(f"DGL {dgl.__version__}, torch {torch.__version__}")
    for row in ROWS:
        found = row(dgl)
        worst = max(worst, found)
        print(f"{found:8.1e}  {row.__doc__}")
    sys.exit(worst > MOST)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
