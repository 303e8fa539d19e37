"""The tool's tensors through files, pipes and standard streams, in any type, order of axes and of memory, in batches, there and back:
each drawn call writes, byte for byte, what plain calls give, a sample at a time, from float32 files to float32 files.
usage: streams.py HGA [FIRST [N]], in a folder that may be filled"""

import io
import os
import random
import sys
import threading

import numpy as np
from tool_arrays import QUICK, npy, run, same, single, typed

HGA = sys.argv[1]
FIRST = int(sys.argv[2]) if len(sys.argv) > 2 else 1
N = int(sys.argv[3]) if len(sys.argv) > 3 else 12 if QUICK else 80

VARIANTS = (
    "dense", "dense -p causal=1", "window -p left=3 -p right=2", "htransformer -p block=4", "htransformer -p block=2 -p causal=1",
    "hsa -p branching=2,3", "fenwick", "dilated -p segments=4,8 -p dilations=1,2", "bpt -p k=2",
)  # fmt: skip
NO_LSE = ("hsa",)
TYPES = ("f2", "bf16", "f4", "f8", ">f2", ">f4", ">f8")
OUT_TYPES = (None, None, "f16", "bf16", "f32", "f64", "same")
LAYOUTS = ("nhd", "hnd", "bnhd", "bhnd")


def tool(words, stdin=b""):
    return run([HGA, *words], stdin)


class Pipe:
    """A FIFO with somebody at its other end."""

    def __init__(self, name, content=None):
        if os.path.lexists(name):
            os.unlink(name)
        os.mkfifo(name)
        self.name, self.content = name, content
        self.thread = threading.Thread(target=self.write if content is not None else self.read)
        self.thread.start()

    def write(self):
        try:
            with open(self.name, "wb") as f:
                f.write(self.content)
        except BrokenPipeError:
            pass

    def read(self):
        with open(self.name, "rb") as f:
            self.content = f.read()

    def close(self):
        """Whoever waits for the other end meets it."""
        while self.thread.is_alive():
            try:
                os.close(os.open(self.name, os.O_RDWR | os.O_NONBLOCK))
            except OSError:
                pass
            self.thread.join(0.01)
        os.unlink(self.name)
        return self.content


class Drawn:
    def __init__(self, seed):
        self.r = r = random.Random(seed)
        rng = np.random.default_rng(seed)
        self.words = r.choice(VARIANTS).split()
        n = r.randint(1, 40)
        rows = n
        if self.words[0] == "bpt":
            rows = int(tool(["inspect", *self.words, "-n", str(n), "--json"])[1].decode().split('"nodes": ')[1].split(",")[0])
        self.layout = r.choice(LAYOUTS)
        kv_heads, share = r.choice((1, 2, 3)), r.choice((1, 1, 2))
        heads = kv_heads * share
        dim, dim_v = r.choice((1, 4, 7, 16)), r.choice((3, 8, 16))
        self.samples = r.randint(1, 3) if self.layout[0] == "b" or r.random() < 0.3 else None  # None: no axis of a batch
        if self.layout[0] == "b" and self.samples is None:
            self.samples = 1
        self.lse = self.words[0] not in NO_LSE and r.random() < 0.6
        self.back = r.random() < 0.5
        shapes = {"query": (heads, dim), "key": (kv_heads, dim), "value": (kv_heads, dim_v)}
        if self.back:
            shapes["grad-out"] = (heads, dim_v)
        self.kind, self.x = {}, {}
        for name, (h, d) in shapes.items():
            self.kind[name] = r.choice(TYPES)
            self.x[name] = typed(rng.standard_normal((self.samples or 1, rows, h, d)).astype("f4"), self.kind[name])
        if self.back and self.lse and r.random() < 0.5:
            self.kind["grad-lse"] = "f4"
            self.x["grad-lse"] = rng.standard_normal((self.samples or 1, rows, heads)).astype("f4")
        self.options = []
        for some, words in ((0.3, ["--threads", str(r.randint(1, 3))]), (0.3, ["--precision", "bf16"]), (0.2, ["--isa", "ref"]),
                            (0.2, ["--softcap", "2"]), (0.2, ["--scale", "0.3"]),
                            (0.1, ["--normaliser", "sigmoid:-1"]), (0.1, ["--normaliser", "entmax:1.5"])):  # fmt: skip
            if r.random() < some:
                self.options += words
        self.out_type = r.choice(OUT_TYPES)
        self.writes = ["out"] + ["lse"] * self.lse + ["grad-query", "grad-key", "grad-value"] * self.back

    def laid_out(self, x):
        """[samples][rows][heads].. in the call's layout."""
        x = x.swapaxes(1, 2) if self.layout.endswith("hnd") else x
        return x[0] if self.samples is None else x

    def plain(self):
        """What is written, by float32 files and a sample at a time."""
        out = {name: [] for name in self.writes}
        for s in range(self.samples or 1):
            words = ["attend", *self.words, *self.options, "--quiet"]
            for name, x in self.x.items():
                np.save(f"plain_{name}.npy", single(x[s]))
                words += [f"--{name}", f"plain_{name}.npy"]
            for name in self.writes:
                words += [f"--{name}", f"plain_{name}.out.npy"]
            status, _, said = tool(words)
            if status:
                return status, said
            for name in self.writes:
                out[name].append(np.load(f"plain_{name}.out.npy"))
        return 0, {name: np.stack(x) for name, x in out.items()}

    def expected(self, name, x):
        kind = {None: "f4", "f16": "f2", "f32": "f4", "f64": "f8", "bf16": "bf16", "same": self.kind["query"].lstrip(">")}[self.out_type]
        return typed(np.ascontiguousarray(self.laid_out(x)), kind)

    def run(self):
        """The call as drawn: (status, what each output holds, stderr)."""
        r, words, pipes, stdin, got = self.r, ["attend", *self.words, *self.options], {}, b"", {}
        words += ["--layout", self.layout] if self.layout != "nhd" or r.random() < 0.3 else []
        words += ["--quiet"] if r.random() < 0.5 else []
        words += ["--out-type", self.out_type] if self.out_type else []
        by_stdin = r.choice(list(self.x) + [None])
        to_stdout = r.choice(self.writes + [None])
        for name, x in self.x.items():
            x = self.laid_out(x)
            content = npy(np.asfortranarray(x) if r.random() < 0.3 else np.ascontiguousarray(x))
            way = "-" if name == by_stdin else r.choice(("file", "file", "pipe", "npz"))
            words += [f"--{name}", way if way == "-" else f"in_{name}.{way}" if way == "pipe" else f"in_{name}.npy" if way == "file" else f"in_{name}.npz:x"]
            if way == "-":
                stdin = content
            elif way == "pipe":
                pipes[f"in_{name}"] = Pipe(f"in_{name}.pipe", content)
            elif way == "npz":
                np.savez(f"in_{name}.npz", x=np.load(io.BytesIO(content)), other=np.zeros(3))
            else:
                open(f"in_{name}.npy", "wb").write(content)
        ways = {}
        for name in self.writes:
            ways[name] = way = r.choice(("-", "/dev/stdout")) if name == to_stdout else r.choice(("file", "file", "pipe"))
            words += [f"--{name}", way if name == to_stdout else f"out_{name}.{way}"]
            if way == "pipe":
                pipes[name] = Pipe(f"out_{name}.pipe")
            elif way == "file":
                open(f"out_{name}.file", "wb").write(b"old")
        status, stdout, said = tool(words, stdin)
        piped = {name: pipe.close() for name, pipe in pipes.items()}
        for name in self.writes:
            got[name] = stdout if name == to_stdout else piped[name] if ways[name] == "pipe" else open(f"out_{name}.file", "rb").read()
        if to_stdout is None:
            got["standard output"] = stdout
        return status, got, said, words


def check(seed):
    call = Drawn(seed)
    status, want = call.plain()
    got_status, got, said, words = call.run()
    line = f"draw {seed}: hga {' '.join(words)}\n{said}"
    if status:
        if got_status != status:
            sys.exit(f"exit status {got_status}, plainly {status} ({want})\n{line}")
        return 0
    if got_status:
        sys.exit(f"exit status {got_status}, plainly 0\n{line}")
    if got.pop("standard output", b""):
        sys.exit(f"something on standard output\n{line}")
    for name, x in want.items():
        if not same(got[name], call.expected(name, x)):
            try:
                found = np.load(io.BytesIO(got[name]))
                what = f"{found.dtype} {found.shape}, expected {call.expected(name, x).dtype} {call.expected(name, x).shape}"
            except (ValueError, EOFError) as error:
                what = f"{len(got[name])} bytes: {error}"
            sys.exit(f"--{name} is not what plain calls give: {what}\n{line}")
    return 1


ran = sum(check(seed) for seed in range(FIRST, FIRST + N))
print(f"{N} drawn calls, {ran} with results")
if ran < N // 2:
    sys.exit("too few ran")
