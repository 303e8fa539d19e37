"""Calls whose options are drawn together: bits are those of the library in C, through numpy and through torch. The calls
are tests/drawn_python.c's, whose program HGA_DRAWN names."""

import json
import os
import subprocess
import unittest
import zlib

import hga
import numpy as np
from hga._core.arrays import BF16, narrowed
from shared import as_numpy, as_torch, needs, splitmix, torch

CALLS = 60 if os.environ.get("HGA_TEST_QUICK") else 300
TYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": BF16}
TABLES = ("rel_key", "rel_bias", "edge_bias", "node_pos", "type_scale")


def numbers(seed, n):
    """n numbers in [-1, 1) of 24 bits each: splitmix64, as tests/draws/choices.c has it."""
    z = splitmix(seed, n) >> np.uint64(32)
    return ((z % np.uint64(1 << 24)).astype(np.int64) - (1 << 23)).astype(np.float32) * np.float32(2.0**-23)


class Call:
    """A drawn call, with its arrays as the package wants them."""

    def __init__(self, line):
        self.line, self.arrays = line, line["arrays"]
        self.bhnd, self.samples = line["layout"] == "bhnd", line["samples"]
        self.h = hga.build(line["words"], line["tokens"])
        keys = ("layout", "threads", "precision", "dropout", "seed", "layer", "scale", "isa")
        self.options = {key: line[key] for key in keys if key in line}
        self.tables = {name: self.table(name) for name in TABLES if name in self.arrays}
        self.wanted = [name for name in ("query", "key", "value") + TABLES if "d_" + name in self.arrays]

    def __str__(self):
        return f"drawn_python {self.line['case']} 1"

    def ordered(self, x):
        """[samples][rows][heads].. as the call's layout has it, and back."""
        x = np.swapaxes(x, 1, 2) if self.bhnd else x
        return x if self.samples > 1 else x[0]

    def tensor(self, name):
        """The tensor, with a gap of numbers that are none behind each row where the call has strides."""
        a = self.arrays[name]
        shape = (self.samples, a["rows"], a["heads"], a["columns"])
        x = np.stack([numbers(seed, int(np.prod(shape[1:]))).reshape(shape[1:]) for seed in a["seed"]])
        x = self.ordered(narrowed(x, TYPES[a["type"]]))
        memory = np.full(x.shape[:-1] + (x.shape[-1] + a["gap"],), np.nan, np.float32)
        memory = narrowed(memory, TYPES[a["type"]])
        memory[..., : x.shape[-1]] = x
        return memory[..., : x.shape[-1]]

    def rows_of_lse(self, name):
        return np.ascontiguousarray(self.tensor(name)[..., 0])

    def table(self, name):
        a, query = self.arrays[name], self.arrays["query"]
        x = numbers(a["seed"][0], a["columns"])
        if name == "rel_key":
            return x.reshape(-1, query["columns"])
        if name == "rel_bias":
            return x.reshape(-1, query["heads"])
        if name == "node_pos":
            return x.reshape(self.h.graph.n_nodes, -1)
        if name == "edge_bias":
            edges = self.h.graph.n_edges(self.attended())
            return x if x.size == edges else x.reshape(edges, -1)
        return x

    def attended(self):
        """The relation that has the edge biases, by its number of edges."""
        n = self.arrays["edge_bias"]["columns"]
        heads = self.arrays["query"]["heads"]
        return next(r for r in self.h.graph.relations if self.h.graph.n_edges(r) in (n, n // heads))

    def bits(self, name, x):
        """The CRC-32 of each sample's numbers, packed as the library has them."""
        x = x if self.samples > 1 else x[None]
        x = np.swapaxes(x, 1, 2) if self.bhnd else x
        return [zlib.crc32(np.ascontiguousarray(sample).tobytes()) for sample in x]


def drawn():
    program = os.environ.get("HGA_DRAWN")
    if not program:
        raise unittest.SkipTest("HGA_DRAWN names no drawn_python")
    text = subprocess.run([program, "1", str(CALLS)], capture_output=True, text=True, check=True).stdout
    return [Call(json.loads(line)) for line in text.splitlines()]


class Drawn(unittest.TestCase):
    calls = None

    @classmethod
    def setUpClass(cls):
        cls.calls = drawn()

    def assert_bits(self, call, name, x):
        self.assertEqual(call.bits(name, x), call.arrays[name]["crc"], f"{call}: {name}")

    def test_there_are_calls_of_every_kind(self):
        lines = [call.line for call in self.calls]
        self.assertGreater(len(lines), CALLS * 3 // 4)
        for holds in (
            lambda x: x["gradient"], lambda x: x["samples"] > 1, lambda x: x["dropout"] > 0, lambda x: x["precision"] == "bf16",
            lambda x: "edge_bias" in x["arrays"], lambda x: "node_pos" in x["arrays"], lambda x: "scale" in x,
            lambda x: x.get("scale") == 0,
            lambda x: x["arrays"]["query"]["type"] == "bfloat16", lambda x: x["arrays"]["key"]["type"] == "float16",
            lambda x: x["arrays"]["key"]["heads"] < x["arrays"]["query"]["heads"], lambda x: x["arrays"]["value"]["gap"],
        ):  # fmt: skip
            self.assertGreater(sum(bool(holds(x)) for x in lines), len(lines) // 50)

    def test_outputs_have_the_librarys_bits(self):
        for call in self.calls:
            q, k, v = (call.tensor(name) for name in ("query", "key", "value"))
            before = [x.tobytes() for x in (q, k, v)]
            lse = "lse" in call.arrays
            got = call.h.attention(q, k, v, lse=lse, **call.tables, **call.options)
            self.assertEqual([x.tobytes() for x in (q, k, v)], before, str(call))
            self.assert_bits(call, "out", got[0] if lse else got)
            if lse:
                self.assert_bits(call, "lse", got[1])

    def test_gradients_have_the_librarys_bits(self):
        for call in self.calls:
            if not call.wanted:
                continue
            q, k, v, d_out = (call.tensor(name) for name in ("query", "key", "value", "d_out"))
            d_lse = call.rows_of_lse("d_lse") if "d_lse" in call.arrays else None
            got = call.h.gradient(q, k, v, d_out, d_lse=d_lse, needs_grad=call.wanted, **call.tables, **call.options)
            self.assertEqual(set(got), set(call.wanted), str(call))
            for name in ("query", "key", "value"):
                if name in got:
                    self.assert_bits(call, "d_" + name, got[name])
            for name in TABLES:  # of more samples they are sums
                if name in got and call.samples == 1:
                    self.assertEqual([zlib.crc32(got[name].tobytes())], call.arrays["d_" + name]["crc"], f"{call}: {name}")

    @needs("torch")
    def test_torch_has_the_librarys_bits(self):
        gone_back = 0
        for call in self.calls:
            x = {name: as_torch(call.tensor(name)) for name in ("query", "key", "value")}
            x.update({name: torch.from_numpy(table) for name, table in call.tables.items()})
            back = call.wanted and call.arrays["d_out"]["type"] == call.arrays["out"]["type"]
            for name in call.wanted if back else ():
                x[name].requires_grad_()
            tables = {name: x[name] for name in call.tables}
            lse = "lse" in call.arrays or "d_lse" in call.arrays
            got = call.h.attention(x["query"], x["key"], x["value"], lse=lse, **tables, **call.options)
            out = got[0] if lse else got
            self.assert_bits(call, "out", as_numpy(out))
            if not back:
                continue
            outputs, upstream = [out], [as_torch(call.tensor("d_out"))]
            if "d_lse" in call.arrays:
                outputs.append(got[1]), upstream.append(torch.from_numpy(call.rows_of_lse("d_lse")))
            slopes = torch.autograd.grad(outputs, [x[name] for name in call.wanted], upstream)
            gone_back += 1
            for name, slope in zip(call.wanted, slopes):
                if name not in TABLES:
                    self.assert_bits(call, "d_" + name, as_numpy(slope))
        self.assertGreater(gone_back, len(self.calls) // 8)
