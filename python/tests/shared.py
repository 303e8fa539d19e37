"""What tests share: packages that need not be installed, numbers, attention written out in double, threads, memory."""

import contextlib
import copy
import gc
import importlib
import io
import os
import pathlib
import pickle
import sys
import tempfile
import threading
import unittest
from unittest import mock

import hga
import numpy as np
from hga._core.arrays import BF16

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("HGA_TOOL", "")


def package(name):
    """A package, or a part of one; None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def needs(*names):
    """Runs where these are installed."""
    return unittest.skipUnless(all(map(package, names)), f"{' or '.join(names)} is not installed")


@contextlib.contextmanager
def at_any_size():
    """hga attends wherever it can, however few tokens there are (attn_implementation="hga", scaled_dot_product_attention)."""
    sdpa = package("hga.torch._sdpa")
    least = dict(LEAST_WORK=dict.fromkeys(sdpa.LEAST_WORK, 0.0), FEWEST=2, BY_DISTANCE=dict.fromkeys(sdpa.BY_DISTANCE, 2), NARROWEST=1)
    with mock.patch.multiple(sdpa, **least):
        yield


needs_tool = unittest.skipUnless(os.path.exists(TOOL), "the tool is not built")
torch = package("torch")

# ---- numbers ----


def normal(seed, *shapes):
    """Arrays of float32 of these shapes, drawn by a seed."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def splitmix(seed, n):
    """n numbers of 64 bits, as tests/draws/choices.c has them."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def qkv(seed, n, heads=2, dim=8, batch=(), kv_heads=None):
    """Queries, keys and values [batch..][heads][n][dim]."""
    return normal(seed, *((*batch, each, n, dim) for each in (heads, kv_heads or heads, kv_heads or heads)))


def needed(n):
    """What variants of n tokens cannot be made without."""
    leaf = np.arange(n) % 4
    return {
        "treeformer-fine": {"query_leaf": leaf}, "treeformer-coarse": {"query_leaf": leaf, "height": 2, "alpha": [1, 1, 1]},
        "segments": {"query_segment": leaf // 4}, "hsa": {"branching": 4}, "draft": {"parent": np.arange(n) - 1, "prefix": 5},
        "neighbourhood": {"shape": (n // 4, 4)},
    }  # fmt: skip


def as_torch(x):
    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype == BF16 else torch.from_numpy(x)


def as_numpy(x):
    x = x.detach()
    return x.contiguous().view(torch.int16).numpy().view(BF16) if x.dtype == torch.bfloat16 else x.numpy()


# ---- attention as it is defined, in double ----


def weights_of(s, words="softmax"):
    """Of rows of scores, by a normaliser; -inf: not seen. Rows that see nothing are 0."""
    name, _, number = words.partition(":")
    top = s.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(over="ignore"):
        if name == "sigmoid":
            return 1 / (1 + np.exp(-(s + float(number or 0))))
    if name == "softmax" or float(number) == 1:
        w = np.exp(s - top)
        total = w.sum(-1, keepdims=True)
        return w / np.where(total == 0, 1, total)
    a = float(number) - 1
    below, above = a * top - 1, a * top
    for _ in range(200):  # the threshold, by halving
        middle = (below + above) / 2
        more = (np.maximum(a * s - middle, 0) ** (1 / a)).sum(-1, keepdims=True) > 1
        below, above = np.where(more, middle, below), np.where(more, above, middle)
    return np.maximum(a * s - below, 0) ** (1 / a)


def scores_of(q, k, seen=True, scale=None, softcap=None, slopes=None, additive=None, leak=0.2):
    """[..][heads][rows][rows]; fewer heads of keys serve several of queries."""
    q, k = q.astype("f8"), np.repeat(k.astype("f8"), q.shape[-3] // k.shape[-3], -3)
    if additive is None:
        s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    else:
        sums = q[..., :, None, :] + k[..., None, :, :]
        s = np.einsum("...hqkd,hd->...hqk", np.where(sums > 0, sums, leak * sums), additive.astype("f8"))
        s = s if scale is None else s * scale
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    if slopes is not None:
        i = np.arange(s.shape[-1])
        s = s - np.asarray(slopes, "f8")[:, None, None] * abs(i[:, None] - i)
    return np.where(seen, s, -np.inf)


def attention(q, k, v, seen=True, words="softmax", sink=None, **scoring):
    """The output; a sink takes its share of each row and gives nothing."""
    s = scores_of(q, k, seen, **scoring)
    if sink is not None:
        s = np.concatenate([s, np.broadcast_to(np.asarray(sink, "f8")[:, None, None], (*s.shape[:-1], 1))], -1)
    w = weights_of(s, words)[..., : k.shape[-2]]
    return w @ np.repeat(v.astype("f8"), q.shape[-3] // v.shape[-3], -3)


def log_sum_exp(q, k, sink=None, **scoring):
    s = scores_of(q, k, **scoring)
    if sink is not None:
        s = np.concatenate([s, np.broadcast_to(np.asarray(sink, "f8")[:, None, None], (*s.shape[:-1], 1))], -1)
    return np.logaddexp.reduce(s, -1)


# ---- threads, memory, files, processes ----


class OnOneThread(unittest.TestCase):
    """Of torch's: a hundred small layers wait for threads longer than they compute."""

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)


def at_once(function, n=8):
    """function(0), .. in n threads that begin together; what they raise is raised."""
    begin, errors = threading.Barrier(n), []

    def run(i):
        try:
            begin.wait()
            function(i)
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    [t.start() for t in threads], [t.join() for t in threads]
    if errors:
        raise errors[0]


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(call, before, after):
    """By how many bytes the process grows when call(0), .. is called `after` times, after `before`."""
    for i in range(before):
        call(i)
    gc.collect()
    was = resident()
    for i in range(after):
        call(i)
    gc.collect()
    return resident() - was


def scratch(test):
    """A folder of the test's own."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


def losses_of(layer, x, y, steps=30, rate=1e-2):
    """Of steps of Adam towards y."""
    by, found = torch.optim.Adam(layer.parameters(), rate), []
    for _ in range(steps):
        loss = (layer(x) - y).float().square().mean()
        by.zero_grad(), loss.backward(), by.step()
        found.append(loss.item())
    return found


def copies(x):
    """Copied, pickled, and written and read by torch."""
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return copy.deepcopy(x), pickle.loads(pickle.dumps(x)), torch.load(file, weights_only=False)


def output(program, *arguments):
    """What a program's main prints, and what it says of its progress."""
    said, told = io.StringIO(), io.StringIO()
    with mock.patch.object(sys, "argv", ["", *map(str, arguments)]), \
            contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):  # fmt: skip
        program.main()
    return said.getvalue(), told.getvalue()


def refused(test, says, call):
    """A call is refused in these words."""
    with test.assertRaisesRegex(hga.Error, says):
        call()


def refused_each(test, cases, pattern=str):
    """(words, call) .., or (call, words) ..: each call is refused in its words."""
    for case in cases:
        says, call = sorted(case, key=callable)
        with test.subTest(says):
            refused(test, pattern(says), call)
