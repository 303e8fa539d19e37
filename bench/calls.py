"""Small calls: what a call of hga costs from Python beside torch's scaled_dot_product_attention in the same run. Processor
time of one thread, the least of several rounds, in turns. All are measured, and then all once more. Printed by
``compare.py --calls``."""

import functools
import itertools
import os
import subprocess
import sys
import time
from typing import NamedTuple, Optional

import compare
import hga
import hga.torch
import numpy as np
import torch
import torch.nn.functional as F
from hga._core.library import check, ffi, lib
from hga._core.arrays import fill_tensor

HEADS, DIM = 8, 64


SECONDS = 0.05  # a round of a row takes about as long
MOST_ROUNDS = 9


def in_turns(functions, rounds=9, most=None):
    """The least processor seconds of a call of each, of no more than ``most`` a round."""
    rounds, times = min(rounds, MOST_ROUNDS), []
    for f in functions:
        f(), f()
        start = time.process_time()
        f()
        times.append(max(time.process_time() - start, 1e-6))
    counts = [max(1, min(int(SECONDS / t), most or sys.maxsize)) for t in times]
    best = [float("inf")] * len(functions)
    for turn in range(rounds):
        for i in [(turn + j) % len(functions) for j in range(len(functions))]:
            start = time.process_time()
            for _ in range(counts[i]):
                functions[i]()
            best[i] = min(best[i], (time.process_time() - start) / counts[i])
    return best


def tensors(n, batch=1, heads=HEADS, grad=False):
    return [torch.randn(batch, heads, n, DIM, requires_grad=grad) for _ in range(3)]


class Row(NamedTuple):
    name: str
    seconds: float
    figure: Optional[float] = None  # None: the time is it
    unit: str = ""
    goal: Optional[float] = None
    at_least: bool = False  # more is better
    compared: bool = False  # other rows are compared with it

    @property
    def value(self):
        return self.seconds if self.figure is None else self.figure

    @property
    def met(self):
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def times_sdpa(name, theirs, ours, goal=None, of="SDPA"):
    return Row(name, ours, ours / theirs, f"x {of}", goal)


def line_of(first, second):
    """The better of two passes, marked where they are apart; no verdict where the goal lies between them."""
    apart = compare.are_apart([first.value, second.value])
    row = (max if first.at_least else min)(first, second, key=lambda r: r.value)
    verdict = "-" if apart and first.met != second.met else {True: "yes", False: "no", None: ""}[row.met]
    ratio = "" if row.figure is None else f"{row.figure:.2f} {row.unit}"
    bound = "" if row.goal is None else f"goal {row.goal:g} {verdict}" if row.figure is not None else f"goal {1e6 * row.goal:.0f} us {verdict}"
    both = [row.value for row in (first, second)]
    mark = "! " + ", then ".join(f"{x:.2f}" if row.figure is not None else f"{1e6 * x:.1f}" for x in both) if apart else ""
    return f"{row.name:52s} {1e6 * row.seconds:12.1f} us  {ratio:24s} {bound:14s} {mark}".rstrip()


def both(attend, x, g):
    return lambda: torch.autograd.grad(attend(*x), x, g)


def one_token():
    h, x, sdpa = hga.dense(1), tensors(1), F.scaled_dot_product_attention
    arrays = [t.numpy() for t in x]
    s, a, b = in_turns([lambda: sdpa(*x), lambda: h.attention(*arrays, threads=1), lambda: h.attention(*x)])
    yield Row("one token: SDPA", s, compared=True)
    yield times_sdpa("one token: hga from numpy", s, a, 2)
    yield times_sdpa("one token: hga from torch", s, b, 3)


def there_and_back():
    sdpa = F.scaled_dot_product_attention
    for n, name, goal in ((1, "one token", 2.2), (16, "16 tokens", 1.2), (64, "64 tokens", 1)):
        h, leaves, g = hga.dense(n), tensors(n, grad=True), torch.randn(1, HEADS, n, DIM)
        s, a = in_turns([both(sdpa, leaves, g), both(h.attention, leaves, g)])
        yield Row(f"{name}, forward and backward: SDPA", s, compared=True)
        yield times_sdpa(f"{name}, forward and backward: hga", s, a, goal)


def lengths():
    for n, goal in ((64, 1.0), (128, 1.1), (256, 1.15)):
        h, x = hga.dense(n), tensors(n)
        s, a = in_turns([lambda: F.scaled_dot_product_attention(*x), lambda: h.attention(*x)])
        yield Row(f"{n} tokens, dense: SDPA", s, compared=True)
        yield Row(f"{n} tokens, dense: hga from torch", a, s / a, "of SDPA's speed", goal, True)


def first_call():
    """Beyond importing torch, numpy and the package's modules."""
    says = """if True:
        import time, torch, hga
        import hga.torch
        start = time.process_time()
        x = [torch.randn(1, 8, 64, 64) for _ in range(3)]
        made = time.process_time()
        hga.dense(64).attention(*x)
        print(time.process_time() - made)
    """
    imports = "import time, torch; start = time.process_time(); import hga, hga.torch; print(time.process_time() - start)"
    for name, text, goal in (("import hga, hga.torch", imports, None), ("first call of a process from torch", says, 0.05)):
        found = [float(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout) for _ in range(min(3, MOST_ROUNDS))]
        yield Row(name, min(found), goal=goal)


def batch():
    h, x = hga.dense(64), tensors(64, 32, grad=True)
    g, sdpa = torch.randn_like(x[0]), F.scaled_dot_product_attention
    plain = [t.detach() for t in x]
    s, a = in_turns([lambda: sdpa(*plain), lambda: h.attention(*plain)], 5)
    yield times_sdpa("32 x 64 tokens, forward: hga", s, a)
    s, a = in_turns([both(sdpa, x, g), both(h.attention, x, g)], 5)
    yield times_sdpa("32 x 64 tokens, forward and backward: hga", s, a, 1)


def one_row():
    """By hga_io.rows of C, which Python does not offer: the last row of all."""
    for name, h in (("window 256 at 65536", hga.window(65536, left=256, right=0)), ("dense at 16384", hga.dense(16384))):
        n = h.rows
        x, out = tensors(n), torch.empty(1, HEADS, n, DIM)
        shape, options, io = ffi.new("hga_shape *"), ffi.new("hga_options *"), ffi.new("hga_io *")
        shape.n_heads, shape.n_kv_heads, shape.dim, shape.dim_v = HEADS, HEADS, DIM, DIM
        options.rows, options.threads = lib.HGA_SOME_ROWS, 1
        plan, workspace = ffi.new("hga_plan **"), ffi.new("hga_workspace **")
        check(lib.hga_plan_create(h.graph._g, h._program, shape, options, plan))
        check(lib.hga_workspace_create(plan[0], workspace))
        for t, a in zip((io.query, io.key, io.value, io.out), (*x, out)):
            fill_tensor(t, a.numpy()[0], -2, -3)
        interval = ffi.new("hga_interval *", (n - 1, 1))
        rows = ffi.new("hga_rows *", {"n_intervals": 1, "interval": interval})
        io.rows = rows
        (a,) = in_turns([lambda: check(lib.hga_plan_execute(plan[0], workspace[0], io))], 5)
        yield Row(f"one row by ranges, {name}", a)
        lib.hga_workspace_destroy(workspace[0])
        lib.hga_plan_destroy(plan[0])


def one_query():
    """A plain call for one query over keys and values of one's own, as [head][token][column], beside numpy's two products."""
    for n in (4096, 16384):
        h = hga.dense(1, n_keys=n)
        q, k, v = (torch.randn(1, HEADS, m, DIM).numpy() for m in (1, n, n))

        def plain():
            scores = np.matmul(k[0], q[0].transpose(0, 2, 1))[..., 0] / DIM**0.5
            weights = np.exp(scores - scores.max(1, keepdims=True))
            return np.matmul(weights[:, None], v[0]) / weights.sum(1)[:, None, None]

        yield times_sdpa(f"one query over {n} keys of one's own", *in_turns([plain, lambda: h.attention(q, k, v, threads=1)]), goal=1.0, of="numpy")


def dropout():
    n = 1024
    variants = {
        "dense": hga.dense(n), "window 64": hga.window(n, left=64, right=64), "H-Transformer 16": hga.htransformer(n, block=16),
        "HSA": hga.hsa(n, branching=[4, 4, 4]), "BPT 4": hga.bpt(n, k=4),
    }  # fmt: skip
    for name, h in variants.items():
        x, leaves = tensors(h.rows), tensors(h.rows, grad=True)
        g = torch.randn(1, HEADS, h.rows, DIM)
        without, drop = h.attention, lambda *t, h=h: h.attention(*t, dropout=0.1, seed=3)
        s, a = in_turns([lambda: without(*x), lambda: drop(*x)], 5)
        t, b = in_turns([both(without, leaves, g), both(drop, leaves, g)], 5)
        yield times_sdpa(f"dropout 0.1, {name}, {n} tokens", s, a, of="without")
        yield times_sdpa(f"dropout 0.1, {name}, {n} tokens, and backward", t, b, of="without")


def bert():
    """A training step of stock BERT, four layers, dropout 0.1, beside its own sdpa attention."""
    try:
        import hga.transformers
        from transformers import BertConfig, BertModel
    except ImportError as e:
        print(f"not compared: BERT: {e}")
        return
    hga.transformers.register()
    ids = torch.randint(0, 1000, (4, 128))

    def step(kind):
        torch.manual_seed(1)
        config = BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                            attn_implementation=kind)  # fmt: skip
        model = BertModel(config).train()

        def run():
            model.zero_grad()
            model(ids).last_hidden_state.sum().backward()

        return run

    s, a = in_turns([step("sdpa"), step("hga:dense")], 5)
    yield Row("BERT, a training step of 4 x 128 tokens: sdpa", s, compared=True)
    yield times_sdpa("BERT, a training step of 4 x 128 tokens: hga", s, a, of="sdpa")


def new_edges():
    """A mini-batch as NeighborLoader brings it: another edge_index each step, and the same one again."""
    n, edges, heads, dim = 10000, 110000, 4, 16
    x, each = torch.randn(n, dim * heads), itertools.cycle([torch.randint(0, n, (2, edges)) for _ in range(8)])
    layers = {"hga": hga.torch.GATConv(dim * heads, dim, heads)}
    try:
        import torch_geometric.nn as pyg

        layers["PyG"] = pyg.GATConv(dim * heads, dim, heads)
    except ImportError as e:
        print(f"not compared: PyG: {e}")
    same = next(each)

    def step(layer, edge_index, back):
        def forward():
            with torch.no_grad():
                layer(x, edge_index())

        return (lambda: layer(x, edge_index()).sum().backward()) if back else forward

    for back in (False, True):
        name = f"GATConv, {edges} edges" + (", forward and backward" if back else "")
        for of, layer in layers.items():
            again, new = in_turns([step(layer, lambda: same, back), step(layer, lambda: next(each).clone(), back)], 5)
            yield Row(f"{name}, the same again: {of}", again, compared=True)
            yield Row(f"{name}, new ones: {of}", new, 1e3 * (new - again), "ms more", 3 if of == "hga" else None)


def molecules(count, seed=0):
    """So many rings and chains of 15 to 31 atoms, bonds both ways: nodes, and an edge_index."""
    rng, bonds, atoms = np.random.default_rng(seed), [], 0
    for _ in range(count):
        n = int(rng.integers(15, 32))
        pairs = np.concatenate([np.stack([np.arange(n - 1), np.arange(1, n)]), rng.integers(0, n, (2, 2))], 1) + atoms
        bonds += [pairs, pairs[::-1]]
        atoms += n
    return atoms, torch.from_numpy(np.unique(np.concatenate(bonds, 1), axis=1))


def citations(nodes=2708, edges=5278, seed=0):
    """As many as Cora has, at random, both ways."""
    pairs = np.random.default_rng(seed).integers(0, nodes, (2, edges))
    return nodes, torch.from_numpy(np.unique(np.concatenate([pairs, pairs[::-1]], 1), axis=1))


def graph_layers():
    """Layers of graph networks, 64 columns to 8 heads of 8, there and back, along edges that are new in every step."""
    try:
        import torch_geometric.nn as pyg
    except ImportError as e:
        print(f"not compared: PyG: {e}")
        return
    columns, heads, dim, features = 64, 8, 8, 16
    graphs = {"a molecule": molecules(1), "32 molecules": molecules(32), "as many edges as Cora": citations()}
    goals = {("32 molecules", 0): 1 / 1.3, ("32 molecules", features): 1 / 1.2, ("a molecule", 0): 1, ("a molecule", features): 1}
    of_one = {("as many edges as Cora", features, "TransformerConv"): 1 / 1.5}
    for (of, (n, edges)), width, name in itertools.product(graphs.items(), (0, features), ("GATConv", "GATv2Conv", "TransformerConv")):
        more = {} if name == "TransformerConv" else {"add_self_loops": False}
        layers = [getattr(package, name)(columns, dim, heads, edge_dim=width or None, **more) for package in (pyg, hga.torch)]
        x, g = torch.randn(n, columns, requires_grad=True), torch.randn(n, heads * dim)
        attr = [torch.randn(edges.shape[1], width, requires_grad=True)] if width else []

        def step(layer, x=x, g=g, attr=attr, edges=edges):
            torch.autograd.grad(layer(x, edges.clone(), *attr), [x, *attr, *layer.parameters()], g, allow_unused=True)

        theirs, ours = in_turns([functools.partial(step, layer) for layer in layers])
        what = f"{of}, {name}" + (f", {width} edge features" if width else "")
        yield Row(f"{what}: PyG", theirs, compared=True)
        yield times_sdpa(f"{what}: hga", theirs, ours, goals.get((of, width), of_one.get((of, width, name))), of="PyG")


def routed():
    """A Treeformer with a tree for each head, whose leaves are found in the call, beside its attention when they are known."""
    n, height = 16384, 7
    x, planes = tensors(n), 2**height - 1
    weights, bias = np.random.standard_normal((HEADS, planes, DIM)).astype(np.float32), np.zeros((HEADS, planes), np.float32)
    h = hga.treeformer_fine(n, height=height, weights=weights, bias=bias)
    known = h.hierarchy(x[0][0], x[1][0])
    a, r = in_turns([lambda: known.attention(*x), lambda: h.attention(*x)], 5)
    yield Row(f"Treeformer of {n} tokens, leaves known", a, compared=True)
    yield times_sdpa(f"Treeformer of {n} tokens, leaves found in the call", a, r, 1.1, of="its attention")


def sparse_families():
    """HSA whose energies are entmax's, beside the same by softmax."""
    n = 16384
    x, h = tensors(n), hga.hsa(n, branching=[4])
    s, a = in_turns([lambda: h.attention(*x), lambda: h.attention(*x, normaliser="entmax:1.5")], 5)
    yield Row(f"HSA of {n} tokens in families of 4: softmax", s, compared=True)
    yield times_sdpa(f"HSA of {n} tokens in families of 4: entmax:1.5", s, a, 1.5, of="softmax")


def one_token_more():
    """A token of a decoder behind 4096 others: all of them, beside torch's attention of one query; and what hierarchies take for
    1000, one by one."""
    n, some = 4096, 1000
    x, one = [t.numpy()[0] for t in tensors(n)], [t.numpy()[0] for t in tensors(1)]
    q, k, v = torch.randn(1, HEADS, 1, DIM), *(torch.from_numpy(t)[None] for t in x[1:])

    def behind(h):
        cache = h.decoder(heads=HEADS, dim=DIM).cache()
        cache.append(*x)
        return lambda: cache.append(*one)

    def as_long(h, most=128):
        """Of as many keys as the query beside it, up to so many: all rounds together would have appended an eighth of them."""
        cache = h.decoder(heads=HEADS, dim=DIM, rollback=most).cache()
        cache.append(*x)

        def step():
            if len(cache) == n + most:
                cache.cut(n)
            cache.append(*one)

        return step

    def each(step):
        for _ in range(some):
            step()

    s, t = in_turns([lambda: F.scaled_dot_product_attention(q, k, v), as_long(hga.dense(2 * n, causal=True))])
    yield Row(f"one query of {n} keys: SDPA", s, compared=True)
    yield times_sdpa(f"a token behind {n}: dense", s, t, 0.9)
    rounds, capacity = 5, 15 * n // some  # calls until a decoder is full; three of them are before the first round
    # goals: what goals.json has without Python, and 8 us on top
    for name, h, us in (("window of 256", hga.window(16 * n, left=256, right=0, causal=True), 28), ("H-Transformer 16", hga.htransformer(16 * n, block=16, causal=True), 17),
                        ("HSA 4", hga.hsa(16 * n, branching=[4], causal=True), 12), ("Fenwick's tree", hga.fenwick(16 * n), 12)):  # fmt: skip
        (t,) = in_turns([functools.partial(each, behind(h))], rounds, most=(capacity - 3) // rounds)
        yield Row(f"{some} tokens behind {n}, one by one: {name}", t, goal=1e-6 * us * some)


def normalisers():
    """Other normalisers than softmax, forward, and forward and backward."""
    for name, h, n in (("dense", hga.dense(1024), 1024), ("window 64+64", hga.window(4096, left=64, right=64), 4096)):
        x, d = [t.numpy() for t in tensors(n)[:3]], np.random.standard_normal((1, HEADS, n, DIM)).astype(np.float32)
        for word, forward, both in (("sigmoid:-3", 1.1, 1.15), ("entmax:1.5", 3.5, 2.5), ("entmax:1.25", 4, 4)):
            s, a = in_turns([lambda: h.attention(*x), lambda: h.attention(*x, normaliser=word)], 3)
            yield Row(f"{name} of {n} tokens, beside {word}: softmax", s, compared=True)
            yield times_sdpa(f"{name} of {n} tokens: {word}", s, a, forward, of="softmax")
            s, a = in_turns([lambda: h.gradient(*x, d), lambda: h.gradient(*x, d, normaliser=word)], 3)
            yield Row(f"{name} of {n} tokens and back, beside {word}: softmax", s, compared=True)
            yield times_sdpa(f"{name} of {n} tokens and back: {word}", s, a, both, of="softmax")


def masks():
    """FlexAttention's masks over 16384 tokens: from the mask_mod, or the BlockMask, to the graphs that are attended over."""
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask

    n, size = 16384, 128
    docs, q = torch.arange(n) // 1024, torch.zeros(1, HEADS, n, 1)
    drawn = itertools.cycle([torch.rand(1, HEADS, n // size, n // size).topk(4).indices.int() for _ in range(48)])
    number = torch.full((1, HEADS, n // size), 4, dtype=torch.int32)

    def document(b, h, q, k):
        return docs[q] == docs[k]

    def causal(b, h, q, k):
        return q >= k

    def graphs(mask):
        return [hga.torch.flex_hierarchy(q, q, None, mask, head=h) for h in range(HEADS)]

    def another(mod):
        return graphs(BlockMask.from_kv_blocks(number, next(drawn), None, None, size, mod, (n, n)))

    make = hga.torch.create_block_mask
    s, a = in_turns([lambda: create_block_mask(document, None, None, n, n, device="cpu"), lambda: graphs(make(document, None, None, n, n))], 1)
    yield Row("create_block_mask of 16 documents: torch's", s, compared=True)
    yield Row("create_block_mask of 16 documents, and its graph: hga", a, goal=0.02)
    for name, mod in (("no mask_mod", None), ("a causal one", causal)):
        (a,) = in_turns([lambda mod=mod: another(mod)], 5)
        yield Row(f"a new BlockMask, other blocks a head, {name}", a, goal=0.04)


def gemma():
    """A layer of Gemma 3 that slides, beside its own sdpa attention, which is given the window as a mask."""
    try:
        import hga.transformers
        from transformers import Gemma3TextConfig, Gemma3TextModel
    except ImportError as e:
        print(f"not compared: Gemma 3: {e}")
        return
    hga.transformers.register()
    ids = torch.randint(0, 1000, (1, 4096))

    def layer(kind):
        torch.manual_seed(1)
        config = Gemma3TextConfig(vocab_size=1000, hidden_size=640, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=1, head_dim=256,
                                  intermediate_size=2048, sliding_window=512, layer_types=["sliding_attention"], attn_implementation=kind)  # fmt: skip
        model = Gemma3TextModel(config).eval()

        def run():
            with torch.no_grad():
                model(ids, use_cache=False)

        return run

    s, a = in_turns([layer("sdpa"), layer("hga:dense")], 3)
    yield Row("Gemma 3, a layer that slides, 4096 tokens: sdpa", s, compared=True)
    yield times_sdpa("Gemma 3, a layer that slides, 4096 tokens: hga", s, a, 1, of="sdpa")


def compiled_flex(choice, block, n):
    """FlexAttention compiled, over the blocks that content chose, in causal order; what it lacks is told."""
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    number = torch.tensor((choice >= 0).sum(-1))[None].int()
    blocks = torch.zeros(1, len(choice), n // block, n // block, dtype=torch.int32)
    blocks[0, :, :, : choice.shape[-1]] = torch.tensor(choice).clamp(min=0)
    mask = BlockMask.from_kv_blocks(number, blocks, None, None, block, lambda b, h, q, k: q >= k, (n, n))
    compiled = torch.compile(flex_attention)
    return lambda *x: compiled(*x, block_mask=mask)


def beside_flex(name, h, x, block):
    try:
        flex = compiled_flex(h.choice(x[0][0].numpy(), x[1][0].numpy()), block, x[0].shape[2])
        far = (flex(*x) - h.attention(*x)).abs().max()
    except Exception as e:
        print(f"not compared: FlexAttention over chosen blocks: {e}")
        return
    assert far < 2e-5, far
    f, a = in_turns([lambda: flex(*x), lambda: h.attention(*x)], 3)
    yield Row(f"{name}: FlexAttention compiled, which is told them", f, compared=True)
    yield times_sdpa(f"{name}: hga, which finds them", f, a, 1, of="FlexAttention")


def chosen():
    """Causal attention of 16384 tokens to blocks that content chooses, everything included, beside all of their pairs; what choosing,
    building and planning add to attending; and the backward pass of half of the tokens."""
    n = 16384
    x = [torch.randn(1, HEADS, n, DIM) for _ in range(3)]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    less = tensors(n // 2, grad=True)
    g = torch.randn(1, HEADS, n // 2, DIM)
    for block, query_block, k, faster, share in ((64, 64, 9, 13, 0.15), (16, 16, 33, 8, 0.25), (64, 1, 9, 5, 0.35)):
        h = hga.routed(block=block, query_block=query_block, k=k, causal=True)
        h.threads = 1
        s, a = in_turns([lambda: sdpa(*x, is_causal=True), lambda h=h: h.attention(*x)], 1)
        name = f"{k} of {n // block} blocks, chosen by {query_block} " + ("queries" if query_block > 1 else "query")
        yield times_sdpa(f"{name}: hga", s, a, 1 / faster, of="sdpa")
        if query_block == 64:
            yield from beside_flex(name, h, x, block)
        there = h.hierarchy(x[0][0], x[1][0])
        b, a = in_turns([lambda there=there: there.attention(*x), lambda h=h: h.attention(*x)], 3)
        yield times_sdpa(f"{name}, with choosing, building and planning", b, a, 1 + share, of="attending")
        f, a = in_turns([lambda h=h: h.attention(*less), lambda h=h: h.attention(*less).backward(g)], 3)
        yield times_sdpa(f"{name}, forward and backward", f, a, 3.5, of="forward")


def half():
    """The attention of a bfloat16 model's layer, products of 16 bits beside those of float32 and torch's own in bfloat16."""
    n = 4096
    x = [a.bfloat16() for a in tensors(n)]
    h = hga.dense(n)
    s, f, a = in_turns([lambda: F.scaled_dot_product_attention(*x), lambda: h.attention(*x, precision="f32"), lambda: h.attention(*x)], 3)
    name = f"a layer of {HEADS} x {n} tokens in bfloat16"
    yield Row(f"{name}: sdpa", s, compared=True)
    yield Row(f"{name}: hga, precision f32", f)
    yield times_sdpa(f"{name}: hga", s, a, 1, of="sdpa")


def in_jax():
    """Programs of JAX: dense causal attention beside JAX's own, and small calls beside the same from numpy."""
    try:
        import hga.jax
        import jax
    except ImportError as e:
        print(f"not compared: JAX: {e}")
        return
    ready = jax.block_until_ready
    x = [jax.random.normal(key, (2, HEADS, 4096, DIM)) for key in jax.random.split(jax.random.key(0), 3)]
    theirs = [jax.numpy.swapaxes(a, 1, 2) for a in x]
    own = jax.jit(lambda *a: jax.nn.dot_product_attention(*a, is_causal=True))
    h = hga.dense(4096, causal=True)
    ours = jax.jit(lambda *a: hga.jax.attention(h, *a, threads=1))
    s, a = in_turns([lambda: ready(own(*theirs)), lambda: ready(ours(*x))], 1)
    yield Row("JAX, 2 x 8 x 4096 tokens, dense and causal: its own", s, compared=True)
    yield times_sdpa("JAX, 2 x 8 x 4096 tokens, dense and causal: hga", s, a, 0.25, of="its own")
    for n in (1, 64):
        small, some = hga.dense(n, causal=True), [a[:1, :, :n] for a in x]
        arrays = [np.asarray(a) for a in some]
        call = jax.jit(lambda *a, h=small: hga.jax.attention(h, *a, threads=1))
        s, a = in_turns([lambda: small.attention(*arrays, threads=1), lambda: ready(call(*some))])
        yield Row(f"JAX, tokens {n}: hga from numpy", s, compared=True)
        yield times_sdpa(f"JAX, tokens {n}: hga", s, a, 1.05, of="numpy's")


PARTS = (one_token, there_and_back, lengths, first_call, batch, one_row, one_query, dropout, half, masks, bert, gemma, new_edges, graph_layers, routed, sparse_families, one_token_more, normalisers, chosen, in_jax)


def table(seconds=SECONDS, rounds=MOST_ROUNDS):
    global SECONDS, MOST_ROUNDS
    SECONDS, MOST_ROUNDS = seconds, rounds
    torch.set_num_threads(1)
    torch.manual_seed(7)
    np.random.seed(7)
    print(f"hga {hga.__version__}, torch {torch.__version__}, {hga.isa_list()}, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}")
    first, second = ([row for part in PARTS for row in part()] for _ in range(2))
    for rows in zip(first, second):
        print(line_of(*rows))
    if any(compare.are_apart([x.value, y.value]) for x, y in zip(first, second)):
        print(compare.APART)
