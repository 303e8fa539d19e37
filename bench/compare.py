"""hga beside its peers from Python: the same tensors, the same graph, one process, in turns; a time counts only where the
result is right.

    python3 bench/compare.py [--tokens 1024] [--heads 8] [--dim 64] [--threads 2] [--repetitions 15] [--backward]
                             [--cases dense,dense-causal,window,bpt,random,..] [--isa avx2] [--json RUN.json] [--page PAGE.html]
    python3 bench/compare.py --table goals [--isa avx2] [--only TEXT] [--json RUN.json]
    python3 bench/compare.py --calls [--seconds 0.05] [--rounds 9]

Peers: torch's scaled_dot_product_attention (with a mask where the graph is sparse) and FlexAttention (compiled),
onnxruntime's MultiHeadAttention, OpenVINO's ScaledDotProductAttention, DGL's message passing, scipy's sparse matrices.
Each result is compared with the three passes of attention in double on the same edges. A peer that is missing, or cannot
do a case, is named. RUN.json is Google Benchmark's format, which ``compare_runs.py A.json B.json`` reads.
``--table goals`` is the project's goals beside peers (goals.py)."""

from __future__ import annotations

import argparse
import functools
import html
import json
import math
import os
import sys
import time
from typing import Callable, NamedTuple

import hga
import numpy as np
from peers import HELD, Missing, import_dgl, import_torch, is_held

RIGHT = 2e-4  # how far from double a result may be, times its largest entry; gradients ten times that


# ---- the cases: a hierarchy whose program is one attention over edges, and those edges ----


def window(n):
    return hga.window(n, left=64, right=64)


def random_graph(n):
    rng = np.random.default_rng(32)
    src = np.concatenate([np.sort(rng.choice(n, min(32, n), replace=False)) for _ in range(n)])
    return hga.Graph.from_edges(src, np.repeat(np.arange(n), min(32, n)), n).hierarchy()


def square(kernel):
    """Neighbourhoods of kernel x kernel in the largest square of at most so many tokens."""
    return lambda n: hga.neighbourhood(shape=2 * [math.isqrt(n)], kernel=kernel)


def around(kernel):
    """The same as a mask_mod; windows are shifted at the edges."""

    def near(n):
        side = math.isqrt(n)

        def sees(q, k):
            first = (q - kernel // 2).clamp(0, side - kernel)
            return (k >= first) & (k < first + kernel)

        return lambda b, h, q, k: sees(q // side, k // side) & sees(q % side, k % side)

    return near


DOCUMENTS = 8


def documents(n):
    """Packed texts, each causal."""
    ids = np.arange(n) * DOCUMENTS // n
    return hga.Graph.from_mask(np.tril(ids[:, None] == ids)).hierarchy()


def prefix(n):
    """A text whose first quarter all tokens see."""
    q, k = np.arange(n)[:, None], np.arange(n)
    return hga.Graph.from_mask((k <= q) | (k < n // 4)).hierarchy()


class Case(NamedTuple):
    words: str
    build: Callable  # the hierarchy of so many tokens
    dense: bool = False  # every token sees all, or all before it and itself
    causal: bool = False
    mask_mod: Callable | None = None  # FlexAttention's, of so many tokens; without, the mask itself is looked up


CASES = {
    "dense": Case("dense", hga.dense, dense=True),
    "dense-causal": Case("dense causal=1", lambda n: hga.dense(n, causal=True), dense=True, causal=True),
    "window": Case("window left=64 right=64", window, mask_mod=lambda n: lambda b, h, q, k: (q - k <= 64) & (k - q <= 64)),
    "bpt": Case("bpt k=4", lambda n: hga.bpt(n, k=4)),
    "random": Case("random degree=32", random_graph),
    "neighbourhood-7": Case("neighbourhood kernel=7,7", square(7), mask_mod=around(7)),
    "neighbourhood-13": Case("neighbourhood kernel=13,13", square(13), mask_mod=around(13)),
    "documents": Case(f"{DOCUMENTS} documents", documents, mask_mod=lambda n: lambda b, h, q, k: (q >= k) & (q * DOCUMENTS // n == k * DOCUMENTS // n)),
    "prefix": Case("prefix of a quarter", prefix, mask_mod=lambda n: lambda b, h, q, k: (q >= k) | (k < n // 4)),
}


class Problem:
    def __init__(self, name, a):
        self.case = CASES[name]
        self.words, self.dense, self.causal = self.case.words, self.case.dense, self.case.causal
        self.name, self.tokens, self.threads, self.heads, self.dim = name, a.tokens, a.threads, a.heads, a.dim
        self.h = self.case.build(a.tokens)
        self.n = self.h.rows
        rng = np.random.default_rng(7)
        self.q, self.k, self.v, self.g = (rng.standard_normal((1, a.heads, self.n, a.dim)).astype(np.float32) for _ in range(4))
        self.scale = 1 / np.sqrt(a.dim)
        dense = self.dense or len(self.edges[0]) > self.n**2 / 16  # in double, edges with their rows take more than pairs
        self.right = (self.dense_reference if dense else self.reference)(a.backward)

    @functools.cached_property
    def edges(self):
        """Sources and destinations by destination, and where each destination's begin."""
        e = self.h.edges()
        e = e[np.lexsort((e[:, 0], e[:, 1]))]
        src, dst = e[:, 0].astype(np.int64), e[:, 1].astype(np.int64)
        return src, dst, np.searchsorted(dst, np.arange(self.n + 1))

    def mask(self):
        src, dst, _ = self.edges
        m = np.zeros((self.n, self.n), bool)
        m[dst, src] = True
        return m

    def reference(self, backward):
        """Output and gradients in double: a score for each edge, softmax by rows, weighted sums."""
        src, dst, ptr = self.edges
        out, grads = np.zeros(self.q.shape), [np.zeros(self.q.shape) for _ in range(3)]
        rows = np.flatnonzero(np.diff(ptr))
        for h in range(self.q.shape[1]):
            q, k, v, g = (x[0, h].astype(np.float64) for x in (self.q, self.k, self.v, self.g))
            s = np.einsum("ed,ed->e", q[dst], k[src]) * self.scale
            top = np.zeros(self.n)
            top[rows] = np.maximum.reduceat(s, ptr[rows])
            p = np.exp(s - top[dst])
            p /= np.bincount(dst, p, self.n)[dst]
            np.add.at(out[0, h], dst, p[:, None] * v[src])
            if backward:
                dp = np.einsum("ed,ed->e", g[dst], v[src])
                ds = p * (dp - np.bincount(dst, p * dp, self.n)[dst]) * self.scale
                np.add.at(grads[0][0, h], dst, ds[:, None] * k[src])
                np.add.at(grads[1][0, h], src, ds[:, None] * q[dst])
                np.add.at(grads[2][0, h], src, p[:, None] * g[dst])
        return [out] + (grads if backward else [])

    def dense_reference(self, backward):
        """The same of every pair, as products of matrices; pairs that the mask leaves out score -inf."""
        unseen = np.triu_indices(self.n, 1) if self.causal else None if self.dense else ~self.mask()
        results = [np.zeros(self.q.shape) for _ in range(4 if backward else 1)]
        for h in range(self.q.shape[1]):
            q, k, v, g = (x[0, h].astype(np.float64) for x in (self.q, self.k, self.v, self.g))
            p = q @ k.T * self.scale
            if unseen is not None:
                p[unseen] = -np.inf
            np.exp(p - p.max(axis=1, keepdims=True), out=p)
            p /= p.sum(axis=1, keepdims=True)
            found = [p @ v]
            if backward:
                dp = g @ v.T
                ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * self.scale
                found += [ds @ k, ds.T @ q, p.T @ g]
            for to, x in zip(results, found):
                to[0, h] = x
        return results


# ---- the peers: each gives a function that computes [output] or [output, dq, dk, dv] as numpy arrays ----


DIRECTIONS = {"forward": False, "backward": True, "back alone": "alone"}  # "backward" has its forward pass with it


def with_autograd(torch, p, f):
    """Forward, forward and backward, or backward alone, of a function of tensors."""

    class Alone:
        def before(self):  # what is not timed
            self.leaves = [torch.from_numpy(x).requires_grad_() for x in (p.q, p.k, p.v)]
            self.out = f(*self.leaves)

        def __call__(self):
            return [self.out.detach(), *torch.autograd.grad(self.out, self.leaves, torch.from_numpy(p.g))]

    def forward():
        with torch.no_grad():
            return [f(*(torch.from_numpy(x) for x in (p.q, p.k, p.v)))]

    def both():
        leaves = [torch.from_numpy(x).requires_grad_() for x in (p.q, p.k, p.v)]
        out = f(*leaves)
        return [out.detach(), *torch.autograd.grad(out, leaves, torch.from_numpy(p.g))]

    return lambda backward: Alone() if backward == "alone" else both if backward else forward


def peer_hga(p):
    def attention(q, k, v):
        return p.h.attention(q, k, v, threads=p.threads)

    def forward():
        return [attention(p.q, p.k, p.v)]

    return lambda backward: with_autograd(import_torch(), p, attention)(backward) if backward else forward


def peer_sdpa(p):
    torch = import_torch()
    torch.set_num_threads(p.threads)
    mask = None if p.dense else torch.from_numpy(p.mask())
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return with_autograd(torch, p, lambda q, k, v: sdpa(q, k, v, attn_mask=mask, is_causal=p.causal))


def peer_flex(p):
    torch = import_torch()
    torch.set_num_threads(p.threads)
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError as e:
        raise Missing(str(e)) from None
    block = None
    if p.causal:
        block = create_block_mask(lambda b, h, q, k: q >= k, None, None, p.n, p.n, device="cpu")
    elif p.case.mask_mod:
        block = create_block_mask(p.case.mask_mod(p.n), None, None, p.n, p.n, device="cpu")
    elif not p.dense:
        seen = torch.from_numpy(p.mask())
        block = create_block_mask(lambda b, h, q, k: seen[q, k], None, None, p.n, p.n, device="cpu")
    compiled = torch.compile(flex_attention)
    return with_autograd(torch, p, lambda q, k, v: compiled(q, k, v, block_mask=block))


def peer_onnxruntime(p):
    try:
        import onnx
        import onnxruntime
    except ImportError as e:
        raise Missing(str(e)) from None
    heads, dim = p.q.shape[1], p.q.shape[3]
    # [batch, rows, heads * dim]; the mask is added to scores
    given = {name: np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(1, p.n, -1)) for name, x in (("q", p.q), ("k", p.k), ("v", p.v))}
    inputs = ["q", "k", "v"]
    if not p.dense:
        given["bias"] = np.where(p.mask(), 0, -1e9).astype(np.float32)[None, None]
        inputs += ["", "", "bias"]
    node = onnx.helper.make_node("MultiHeadAttention", inputs, ["out"], domain="com.microsoft", num_heads=heads, scale=float(p.scale),
                                 unidirectional=int(p.causal))  # fmt: skip
    kind = onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor_value_info(name, kind, x.shape) for name, x in given.items()]
    out = onnx.helper.make_tensor_value_info("out", kind, [1, p.n, heads * dim])
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "attention", values, [out]), ir_version=9,
        opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)],
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = p.threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def forward():
        return [session.run(None, given)[0].reshape(1, p.n, heads, dim).transpose(0, 2, 1, 3)]

    return lambda backward: None if backward else forward


def peer_openvino(p):
    try:
        import openvino
    except ImportError as e:
        raise Missing(str(e)) from None
    ops = openvino.opset13
    inputs = [ops.parameter(x.shape, np.float32) for x in (p.q, p.k, p.v)]
    bias = [] if p.dense else [ops.constant(np.where(p.mask(), 0, -1e9).astype(np.float32)[None, None])]
    model = openvino.Model([ops.scaled_dot_product_attention(*inputs, *bias, causal=p.causal)], inputs)
    settings = {"INFERENCE_NUM_THREADS": p.threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", settings)

    def forward():
        return [compiled([p.q, p.k, p.v])[0]]

    return lambda backward: None if backward else forward


def peer_dgl(p):
    torch, dgl = import_torch(p.threads), import_dgl()
    edge_softmax, u_dot_v, u_mul_e_sum = dgl.ops.edge_softmax, dgl.ops.u_dot_v, dgl.ops.u_mul_e_sum
    src, dst, _ = p.edges
    g = dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=p.n)
    g.create_formats_()

    def attention(q, k, v):
        q, k, v = (x[0].transpose(0, 1).contiguous() for x in (q, k, v))
        weights = edge_softmax(g, u_dot_v(g, k, q) * p.scale)
        return u_mul_e_sum(g, v, weights).transpose(0, 1)[None]

    return with_autograd(torch, p, attention)


def peer_scipy(p):
    try:
        from scipy.sparse import csr_matrix
    except ImportError as e:
        raise Missing(str(e)) from None
    src, dst, ptr = p.edges
    rows = np.flatnonzero(np.diff(ptr))
    counts = np.diff(ptr)[rows]

    def forward():
        out = np.zeros_like(p.q)
        for h in range(p.q.shape[1]):
            s = np.einsum("ed,ed->e", p.q[0, h][dst], p.k[0, h][src]) * np.float32(p.scale)
            s = np.exp(s - np.repeat(np.maximum.reduceat(s, ptr[rows]), counts))
            s /= np.repeat(np.add.reduceat(s, ptr[rows]), counts)
            out[0, h] = csr_matrix((s, src, ptr), shape=(p.n, p.n)) @ p.v[0, h]
        return [out]

    return lambda backward: None if backward else forward


PEERS = {"hga": peer_hga, "torch-sdpa": peer_sdpa, "torch-flex": peer_flex, "onnxruntime": peer_onnxruntime,
         "openvino": peer_openvino, "dgl": peer_dgl, "scipy": peer_scipy}  # fmt: skip


# ---- measuring ----


def apart(got, right):
    """The largest difference of any result, in shares of its largest entry."""
    return max(abs(np.asarray(x, np.float64) - y).max() / max(1e-30, abs(y).max()) for x, y in zip(got, right))


def begin(f):
    """What a call does before its time counts."""
    getattr(f, "before", lambda: None)()


def contenders(p, direction, wanted, skipped):
    """(name, function, difference) of every peer whose result is right."""
    backward, found = DIRECTIONS[direction], []
    right = p.right if backward else p.right[:1]
    for name in wanted:
        try:
            if not is_held(name):
                raise Missing("takes the best instructions there are, whatever --isa says")
            f = PEERS[name](p)(backward)
            if f is None:
                raise Missing("has no backward pass here")
            begin(f)
            got = f()
            off = apart(got, right)
            if len(got) != len(right) or not off <= RIGHT * (10 if backward else 1):
                raise Missing(f"its result is {off:.1e} off, which is too much: its time is not shown")
            found.append((name, f, off))
        except Missing as e:
            skipped.append(f"{name}, {p.words}, {direction}: {e}")
        except Exception as e:  # a peer that fails is a peer that is not compared
            text = str(e).strip().splitlines() or [""]
            skipped.append(f"{name}, {p.words}, {direction}: {type(e).__name__}: {text[0][:160]}")
    return found


def in_turns(found, repetitions):
    """Seconds and processor seconds of every repetition, by name; one of each in every turn, the order turning too."""
    times = {name: [] for name, _, _ in found}
    for _, f, _ in found:
        begin(f), f()
    for turn in range(repetitions):
        at = turn % len(found)
        for name, f, _ in found[at:] + found[:at]:
            begin(f)
            wall, cpu = time.perf_counter(), time.process_time()
            f()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return times


APART = "! came out a twentieth apart or more in two passes: measure again"


def are_apart(found):
    """Do figures of two passes differ by more than a twentieth?"""
    known = [x for x in found if x is not None]
    return len(known) > 1 and max(known) - min(known) > 0.05 * max(map(abs, known))


def rows_of(p, direction, found, times):
    rows = []
    for name, _, off in found:
        run = f"{p.words} {direction}/tokens:{p.tokens}/heads:{p.heads}/dim:{p.dim}/threads:{p.threads}/{name}"
        for i, (wall, cpu) in enumerate(times[name]):
            rows.append({"name": run, "run_name": run, "run_type": "iteration", "repetitions": len(times[name]),
                         "repetition_index": i, "threads": p.threads, "iterations": 1, "real_time": 1e3 * wall,
                         "cpu_time": 1e3 * cpu, "time_unit": "ms", "case": p.words, "direction": direction, "peer": name,
                         "difference": off})  # fmt: skip
    return rows


def context():
    versions = {name: getattr(sys.modules[name], "__version__", "?")
                for name in ("torch", "onnxruntime", "openvino", "dgl", "scipy", "numpy") if name in sys.modules}  # fmt: skip
    if "torch" in sys.modules:
        versions["torch's instructions"] = sys.modules["torch"].backends.cpu.get_cpu_capability()
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "num_cpus": os.cpu_count(), "hga": hga.__version__,
            "isa": isa_in_use(), "load": os.getloadavg()[0], **versions}  # fmt: skip


# ---- the page ----

COLOURS = {"hga": "#1b6ca8", "torch-sdpa": "#e07b39", "torch-flex": "#b0413e", "onnxruntime": "#3a9679",
           "openvino": "#5f7d2c", "dgl": "#7b5ea7", "scipy": "#8a6d3b"}  # fmt: skip


def summary(rows):
    """{(case, direction): [(peer, median, q1, q3, processor over wall, difference)]}, fastest first."""
    found = {}
    for key in dict.fromkeys((r["case"], r["direction"]) for r in rows):
        mine = [r for r in rows if (r["case"], r["direction"]) == key]
        lines = []
        for peer in dict.fromkeys(r["peer"] for r in mine):
            of = [r for r in mine if r["peer"] == peer]
            ms = np.array([r["real_time"] for r in of])
            share = sum(r["cpu_time"] for r in of) / ms.sum()
            lines.append((peer, *np.percentile(ms, [50, 25, 75]), share, of[0]["difference"]))
        found[key] = sorted(lines, key=lambda line: line[1])
    return found


def bars(lines):
    """Times as bars on a logarithmic axis, the quartiles as a line."""
    low, high = min(x[2] for x in lines) / 2, max(x[3] for x in lines) * 1.2
    place = lambda ms: 110 + 420 * np.log(max(ms, low) / low) / np.log(high / low)  # noqa: E731
    parts = [f'<svg viewBox="0 0 640 {24 * len(lines) + 8}" width="640" role="img">']
    for i, (peer, median, q1, q3, _, _) in enumerate(lines):
        y = 24 * i + 4
        parts.append(f'<text x="104" y="{y + 14}" text-anchor="end">{peer}</text>')
        parts.append(f'<rect x="110" y="{y + 2}" width="{place(median) - 110:.1f}" height="14" fill="{COLOURS[peer]}"/>')
        parts.append(f'<line x1="{place(q1):.1f}" x2="{place(q3):.1f}" y1="{y + 9}" y2="{y + 9}" stroke="currentColor"/>')
        parts.append(f'<text x="{place(q3) + 6:.1f}" y="{y + 14}">{median:.3g} ms</text>')
    return "".join(parts) + "</svg>"


def page(document, skipped):
    parts = ["<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=color-scheme content='light dark'><title>hga and its peers</title>",
             "<style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}svg text{font-size:12px;fill:currentColor}"
             "td,th{padding:.1em .8em;text-align:right}td:first-child,th:first-child{text-align:left}</style><h1>hga and its peers</h1>",
             "<p>" + html.escape(", ".join(f"{k}: {v}" for k, v in document["context"].items())) + "</p>"]  # fmt: skip
    for (case, direction), lines in summary(document["benchmarks"]).items():
        own = next((x[1] for x in lines if x[0] == "hga"), None)
        parts.append(f"<h2>{html.escape(case)}, {direction}</h2>{bars(lines)}<table><tr><th>peer<th>median ms<th>quartiles<th>over hga<th>processor / wall<th>off double</tr>")  # fmt: skip
        for peer, median, q1, q3, share, off in lines:
            ratio = f"{median / own:.2f}" if own else ""
            parts.append(f"<tr><td>{peer}<td>{median:.3f}<td>{q1:.3f} .. {q3:.3f}<td>{ratio}<td>{share:.2f}<td>{off:.0e}</tr>")
        parts.append("</table>")
    if skipped:
        parts.append("<h2>Not compared</h2><ul>" + "".join(f"<li>{html.escape(s)}" for s in skipped) + "</ul>")
    return "\n".join(parts) + "</html>\n"


def isa_in_use():
    return os.environ.get("HGA_ISA") or hga.isa_list().split()[-1]


def hold(isa):
    """Everybody to an instruction set: libraries ask the environment when they are loaded, so this begins anew."""
    if isa not in hga.isa_list().split():
        sys.exit(f"--isa: {isa!r} is not one of {', '.join(hga.isa_list().split())}, which run here")
    if isa not in HELD:
        sys.exit(f"--isa: peers can be held to {', '.join(HELD)}, not to {isa!r}")
    if not HELD[isa].items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **HELD[isa]})


def check_asked(a, peers=PEERS):
    """Refuses what cannot be measured or written, before the minutes that measuring takes. Without --peers all take part."""
    a.peers = a.peers or ",".join(peers)
    for kind, known in (("case", CASES), ("peer", peers)):
        for name in getattr(a, f"{kind}s", next(iter(known))).split(","):
            if name not in known:
                sys.exit(f"no {kind} {name!r}; there are {', '.join(known)}")
    for option in ("tokens", "repetitions"):
        n = getattr(a, option)
        if n is not None and n < 1:
            sys.exit(f"--{option}: {n} is below 1")
    for option in ("json", "page"):
        path = getattr(a, option, None)
        if path and not os.access(path if os.path.exists(path) else os.path.dirname(os.path.abspath(path)), os.W_OK):
            sys.exit(f"--{option}: {path} cannot be written")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--tokens", type=int, help="1024; with --table goals the most of a row, which is not judged then")
    a.add_argument("--heads", type=int, default=8)
    a.add_argument("--dim", type=int, default=64)
    a.add_argument("--threads", type=int, help="all there are; with --table goals 1")
    a.add_argument("--isa", help="hga and its peers held to these instructions: avx2, ref")
    a.add_argument("--table", choices=["goals"], help="the project's goals beside peers (goals.py)")
    a.add_argument("--only", help="with --table goals: rows whose name has this")
    a.add_argument("--repetitions", type=int, default=15)
    a.add_argument("--backward", action="store_true", help="forward and backward, too")
    a.add_argument("--cases", default="dense,dense-causal,window,bpt,random", help=f"of {', '.join(CASES)}")
    a.add_argument("--peers", help="all that there are")
    a.add_argument("--json", help="Google Benchmark's format")
    a.add_argument("--page", help="a page with plots")
    a.add_argument("--calls", action="store_true", help="what small calls cost beside torch's, and nothing else (calls.py)")
    a.add_argument("--seconds", type=float, default=0.05, help="with --calls: how long a round of a row takes")
    a.add_argument("--rounds", type=int, default=9, help="with --calls: how many rounds at most")
    a = a.parse_args()
    if a.isa or os.environ.get("HGA_ISA") in HELD:  # which alone would hold hga and nobody else
        hold(a.isa or os.environ["HGA_ISA"])
    if a.calls:
        try:
            import calls
        except ImportError as e:
            sys.exit(f"--calls needs torch: {e}")
        calls.table(a.seconds, a.rounds)
        return
    if a.table:
        import goals

        check_asked(a, goals.PEERS)
        goals.table(a)
        return
    if a.only:
        sys.exit("--only names rows of --table goals")
    check_asked(a)
    a.tokens, a.threads = a.tokens or 1024, a.threads or len(os.sched_getaffinity(0))
    rows, skipped = [], []
    for name in a.cases.split(","):
        p = Problem(name, a)
        for direction in ["forward"] + ["backward"] * a.backward:
            found = contenders(p, direction, a.peers.split(","), skipped)
            if not found:
                continue
            rows += rows_of(p, direction, found, in_turns(found, a.repetitions))
            for peer, median, q1, q3, share, off in summary(rows)[(p.words, direction)]:
                print(f"{p.words:26s} {direction:9s} {peer:12s} {median:9.3f} ms  [{q1:.3f}, {q3:.3f}]  processor / wall {share:4.2f}  off {off:.0e}",
                      flush=True)  # fmt: skip
    for line in skipped:
        print(f"not compared: {line}")
    document = {"context": context(), "benchmarks": rows}
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
    if a.page:
        with open(a.page, "w", encoding="utf-8") as file:
            file.write(page(document, skipped))
    if not rows:
        sys.exit("nothing was compared")


if __name__ == "__main__":
    main()
