"""A hierarchy on several processes of torch.distributed has the bits of one, forward and backward, and errors of one
rank are raised on all."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import weakref

import hga
from shared import ROOT

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    import hga.torch
except ImportError:
    torch = None

MINUTE = 60


def started(rank, n, folder, facts):
    """One process of n: what it finds untrue goes to a file."""
    torch.set_num_threads(1)
    warnings.filterwarnings("error", message=".*not writable")  # no tensor lies in memory that numpy keeps from being written
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n)
    found = []
    for fact in facts:
        try:
            fact(rank, n)
        except AssertionError as e:
            found.append(f"{fact.__name__} on rank {rank}: {e!r}")
        except Exception as e:
            found.append(f"{fact.__name__} on rank {rank}: {type(e).__name__}: {e}")
    with open(f"{folder}/{rank}.part", "w") as file:
        file.write("\n".join(found))
    os.rename(f"{folder}/{rank}.part", f"{folder}/{rank}.txt")
    # What a rank has sent reaches the others as long as its process lives.
    end = time.monotonic() + MINUTE
    while time.monotonic() < end and not all(os.path.exists(f"{folder}/{r}.txt") for r in range(n)):
        time.sleep(0.01)
    # What a rank waits for that has failed is still waited for by a thread of gloo's, which ends with the process.
    os._exit(0)


def random(h, batch=(), heads=4, kv_heads=2, dim=8, seed=1):
    g = torch.Generator().manual_seed(seed)
    n = h._rows("query")
    return tuple(torch.randn(*batch, hs, n, dim, generator=g) for hs in (heads, kv_heads, kv_heads))


def cut(d, tensors, axis=-2):
    return [d.cut(x, which, axis) for x, which in zip(tensors, ("query", "key", "value"))]


def same(h, batch=(), layout="bhnd", cuts=None, tables=None, kind=None, lse=True, **options):
    """Are this rank's rows, and gradients of them and of tables, those of one process, bit for bit?"""
    d, axis = hga.torch.distributed(h, cuts=cuts), -2
    whole = [x.to(kind) if kind else x for x in random(h, batch)]
    if layout == "bnhd":
        whole, axis = [x.transpose(-2, -3).contiguous() for x in whole], -3
    mine = cut(d, whole, axis)
    one, many = ({name: x.clone() for name, x in (tables or {}).items()} for _ in range(2))
    for goes_back in (False, True):
        for x in (*whole, *mine, *one.values(), *many.values()) if goes_back else ():
            x.requires_grad_()
        want = h.attention(*whole, layout=layout, lse=lse, **one, **options)
        got = d.attention(*mine, layout=layout, lse=lse, **many, **options)
        want, got = (want, got) if lse else ((want,), (got,))
        for x, all_, at, what in zip(got, want, (axis, axis + 1), ("output", "log-sum-exp")):
            assert x.dtype == all_.dtype and torch.equal(x, d.cut(all_, "out", at)), (h, options, what)
    g = torch.Generator().manual_seed(9)
    asked = [torch.randn(x.shape, generator=g).to(x.dtype) for x in want]
    sum((x * a).sum() for x, a in zip(want, asked)).backward()
    sum((x * d.cut(a, "out", at)).sum() for x, a, at in zip(got, asked, (axis, axis + 1))).backward()
    for x, all_, which in zip(mine, whole, ("query", "key", "value")):
        assert torch.equal(x.grad, d.cut(all_.grad, which, axis)), (h, options, which)
    for name in one:
        assert torch.equal(many[name].grad, one[name].grad), (h, options, name)


# ---- facts of every rank ----


def calls_have_the_bits_of_one_process(rank, n):
    tables = dict(sink=torch.tensor([0.5, -1.0, 0.0, 2.0]), slopes=torch.tensor([0.1, 0.2, 0.0, 0.5]))
    window, tree = hga.window(150, left=40), hga.htransformer(100, block=8)
    biases = torch.linspace(-1, 1, 4 * len(window.edges())).reshape(-1, 4)
    same(hga.htransformer(300, block=16))
    same(hga.htransformer(300, block=8, causal=True), batch=(2, 3))
    same(hga.bpt(256, k=4))
    same(hga.fenwick(200), layout="bnhd")
    same(hga.hsa(200, branching=[2, 4]), lse=False)
    same(hga.window(150, left=9), batch=(2,))
    same(hga.dense(150))
    same(window, tables=tables, softcap=2.0, scale=0.7)
    same(window, scale=0.0)
    same(window, tables=tables, scale=0.0)
    same(window, tables={**tables, "scale": torch.tensor(0.7)}, softcap=2.0)
    same(window.additive_scores(), tables=dict(additive=torch.linspace(-1, 1, 4 * 8).reshape(4, 8)), scale=0.0)
    same(window, dropout=0.3, seed=2**63 + 5, layer=2)
    same(window, precision="bf16")
    same(window, batch=(2,), tables=dict(edge_bias=biases))
    same(window, tables=dict(edge_bias=biases[:, 0].clone()))
    same(hga.dense(60), tables=dict(node_pos=torch.linspace(-1, 1, 120).reshape(60, 2)))
    for kind in (torch.float16, torch.bfloat16):
        same(tree, kind=kind)


def two_axes_are_one_head(rank, n):
    h = hga.dense(50)
    q, k, v = (x[0] for x in random(h, heads=1, kv_heads=1))
    d = hga.torch.distributed(h)
    assert torch.equal(d.attention(*cut(d, (q, k, v))), d.cut(h.attention(q, k, v), "out"))


def cuts_are_the_callers(rank, n):
    cuts = [0] + [1 + 7 * r for r in range(n - 1)] + [60]
    same(hga.htransformer(60, block=4), cuts=cuts)
    d = hga.torch.distributed(hga.dense(60), cuts=cuts)
    assert d.rows() == [(cuts[rank], cuts[rank + 1] - cuts[rank])], d.rows()


def a_rank_may_have_no_rows(rank, n):
    cuts = [0] * n + [60]
    same(hga.dense(60), cuts=cuts)
    same(hga.htransformer(60, block=4), batch=(2,), layout="bnhd", cuts=cuts)
    d = hga.torch.distributed(hga.dense(60), cuts=cuts)
    q, k, v = (x.requires_grad_() for x in cut(d, random(d.hierarchy)))
    d.attention(q, k, v).square().sum().backward()
    assert q.grad.shape == q.shape and bool(q.grad.any()) == (rank == n - 1)


def a_group_may_be_a_part(rank, n):
    group = dist.new_group([0, n - 1])
    if rank in (0, n - 1):
        h = hga.htransformer(64, block=4)
        d = hga.torch.distributed(h, group)
        assert (d.rank, d.n_ranks) == (int(rank > 0), 2)
        tensors = random(h)
        assert torch.equal(d.attention(*cut(d, tensors)), d.cut(h.attention(*tensors), "out"))
        dist.destroy_process_group(group)  # which is still kept here
        refused("the group has been destroyed", lambda: d.attention(*cut(d, tensors)))


def a_call_is_made_again(rank, n):
    h = hga.htransformer(64, block=4)
    d = hga.torch.distributed(h)
    for seed in range(3):
        tensors = random(h, seed=seed)
        time.sleep(0.03 * (rank == seed))  # who is late changes nothing
        assert torch.equal(d.attention(*cut(d, tensors)), d.cut(h.attention(*tensors), "out")), seed


def refused(text, what, kind=hga.Error):
    try:
        what()
    except kind as e:
        assert text in str(e), f"{e} does not say {text}"
        return
    raise AssertionError(f"nothing was refused: {text}")


def what_one_rank_refuses_all_raise(rank, n):
    h = hga.dense(40)
    d = hga.torch.distributed(h)
    tensors = random(h)
    q, k, v = cut(d, tensors)
    refused("rows in layout 'bhnd', rank 1 of", lambda: d.attention(q, k[..., 1:, :] if rank == 1 else k, v))
    refused("threads is -1", lambda: d.attention(q, k, v, threads=-1 if rank == 1 else 1))
    refused("neither 'bhnd' nor 'bnhd'", lambda: d.attention(q, k, v, layout=["bhnd"] if rank == 1 else "bhnd"), Exception)
    assert torch.equal(d.attention(q, k, v), d.cut(h.attention(*tensors), "out")), "and it serves on"


def what_one_rank_cannot_share_all_raise(rank, n):
    h, odd, cuts = hga.dense(40), rank == 1, [40 * r // n for r in range(n + 1)]
    refused(f"2 cuts for {n} ranks", lambda: hga.torch.distributed(h, cuts=[0, 40] if odd else cuts))
    refused("cuts[1] is 1099511627776", lambda: hga.torch.distributed(h, cuts=[0, 2**40, *cuts[2:]] if odd else cuts))
    refused("cuts[1] is 1.5, not a whole number", lambda: hga.torch.distributed(h, cuts=[0, 1.5, *cuts[2:]]), Exception)
    refused("in one process", lambda: hga.torch.distributed(h.order("degree") if odd else h))


def threads_are_those_of_the_hierarchy(rank, n):
    h = hga.dense(40)
    h.threads = 2
    d = hga.torch.distributed(h)
    q, k, v = cut(d, random(h))
    d.attention(q, k, v)
    d.attention(q, k, v, threads=2)
    assert len(d._plans) == 1, "one plan, of two threads"


def ranks_that_are_called_otherwise_are_told(rank, n):
    """Each of these would have some rank wait for ever, or drop other edges than its neighbours."""
    h = hga.window(64, left=8, right=8)
    d = hga.torch.distributed(h)
    tensors = random(h, (2,))
    q, k, v = cut(d, tensors)
    d.attention(q, k, v)
    odd = rank == n - 1
    refused("in different ways", lambda: d.attention(q[:1], k[:1], v[:1]) if odd else d.attention(q, k, v))
    refused("in different ways", lambda: d.attention(q, k, v, precision="bf16" if odd else "f32"))
    refused("in different ways", lambda: d.attention(q, k, v, dropout=0.5, seed=rank))
    refused("in different ways", lambda: d.attention(q, k, v, normaliser="sigmoid" if odd else None))
    refused("in different ways", lambda: d.attention(q.half() if odd else q, k, v))
    want = d.cut(h.attention(*tensors), "out")
    assert torch.equal(d.attention(q, k, v, threads=2 if odd else 1), want), "threads are a rank's own"
    assert torch.equal(d.attention(q, k, v, threads=1), want), "and it has that plan, where another must make one"
    for dim in range(2, 14):
        d.attention(q[..., :dim], k[..., :dim], v[..., :dim])
    assert len(d._plans) <= 8, "plans are kept within bounds"


def hierarchies_in_another_order_are_told(rank, n):
    """Both ranks waited for ever, each for the other's part of another call."""
    one, other = hga.dense(40), hga.window(40, left=3)
    first, second = hga.torch.distributed(one), hga.torch.distributed(other)
    tensors = random(one)
    q, k, v = cut(first, tensors)
    for d in (first, second) if rank == 0 else (second, first):
        refused("call different hierarchies: call them in one order", lambda: d.attention(q, k, v))
    assert torch.equal(first.attention(q, k, v), first.cut(one.attention(*tensors), "out")), "and it serves on"


def two_threads_at_once_are_told(rank, n):
    """On every rank, also on those where one thread alone calls."""
    h = hga.dense(40)
    d = hga.torch.distributed(h)
    q, k, v = cut(d, random(h))
    d.attention(q, k, v)
    said, agree = [], type(d._transport).agree

    def call():
        try:
            d.attention(q, k, v)
        except hga.Error as e:
            said.append(str(e))

    if rank == 0:
        in_call, go_on = threading.Event(), threading.Event()

        def slowly(*given):
            in_call.set()
            go_on.wait(MINUTE / 2)
            return agree(*given)

        d._transport.agree = lambda *given: slowly(d._transport, *given)
        thread = threading.Thread(target=call)
        thread.start()
        in_call.wait(MINUTE / 2)
        call()
        go_on.set()
        thread.join()
    else:
        call()
    assert len(said) == (2 if rank == 0 else 1), said
    assert all("two threads call at once on one group" in text for text in said), said


def some_may_be_wanted(rank, n):
    h = hga.dense(40)
    d = hga.torch.distributed(h)
    q, k, v = cut(d, random(h))
    with torch.no_grad():
        assert not d.attention(q.requires_grad_(), k, v).requires_grad
    d.attention(q.detach(), k, v.requires_grad_()).sum().backward()
    assert v.grad is not None and q.grad is None and k.grad is None


def what_has_no_gradient_is_refused(rank, n):
    d = hga.torch.distributed(hga.dense(40))
    q, k, v = cut(d, random(d.hierarchy))
    refused("no gradient of softcap", lambda: d.attention(q, k, v, softcap=torch.tensor(2.0, requires_grad=True)))


def ranks_that_want_other_gradients_are_told(rank, n):
    d = hga.torch.distributed(hga.dense(40))
    q, k, v = cut(d, random(d.hierarchy))
    odd = rank == n - 1
    refused("in different ways", lambda: d.attention(q.clone().requires_grad_(odd), k, v))
    refused("in different ways", lambda: d.attention(q.clone().requires_grad_(), k, v, sink=torch.ones(4, requires_grad=odd)))
    out = d.attention(q.requires_grad_(), k, v)
    refused("in different ways", lambda: out.sum().backward() if odd else d.attention(q, k, v))


def what_is_written_over_all_raise(rank, n):
    d = hga.torch.distributed(hga.dense(40))
    q, k, v = cut(d, random(d.hierarchy))
    out = d.attention(q.requires_grad_(), k, v)
    if rank == n - 1:
        v.zero_()
    refused("modified by an inplace operation", lambda: out.sum().backward(), Exception)


def what_cannot_be_shared_is_refused(rank, n):
    refused("in one process", lambda: hga.torch.distributed(hga.dense(40).order("degree")))
    refused("cuts for", lambda: hga.torch.distributed(hga.dense(40), cuts=[0, 40, 40, 40, 40, 40, 40]))
    refused("is not one of", lambda: hga.torch.distributed(hga.dense(40)).rows("values"))


def a_rank_that_fails_leaves_nobody_waiting(rank, n):
    """The last rank fails where the others have begun to wait for it; nothing of this is served afterwards."""
    h = hga.dense(40)
    d = hga.torch.distributed(h)
    q, k, v = cut(d, random(h))
    d.attention(q, k, v)
    if rank == n - 1:
        time.sleep(0.1)

        def fail(*_):
            raise MemoryError("no memory")

        hga.torch._distributed.Call.run = fail  # this process ends here
        try:
            d.attention(q, k, v)
        except MemoryError:
            return
        raise AssertionError("it has not failed")
    start = time.monotonic()
    for _ in range(2):
        refused("no memory", lambda: d.attention(q, k, v))
    assert time.monotonic() - start < MINUTE / 2


def a_group_that_is_destroyed_is_let_go(rank, n):
    """Threads of a group that is kept would be at work when the interpreter ends, which aborts the process."""
    h = hga.dense(40)
    d = hga.torch.distributed(h)
    q, k, v = cut(d, random(h))
    q.requires_grad_()
    d.attention(q, k, v).sum().backward()
    group = weakref.ref(dist.group.WORLD)
    dist.barrier()
    dist.destroy_process_group()
    assert group() is None
    tasks = [pathlib.Path(f"/proc/self/task/{t}/comm").read_text().strip() for t in os.listdir("/proc/self/task")]
    assert not any("gloo" in name for name in tasks), tasks
    refused("the group has been destroyed", lambda: d.attention(q, k, v))


FACTS = [
    calls_have_the_bits_of_one_process, two_axes_are_one_head, cuts_are_the_callers, a_rank_may_have_no_rows,
    a_group_may_be_a_part, a_call_is_made_again, what_one_rank_refuses_all_raise,
    what_one_rank_cannot_share_all_raise, threads_are_those_of_the_hierarchy,
    ranks_that_are_called_otherwise_are_told, hierarchies_in_another_order_are_told, some_may_be_wanted,
    what_has_no_gradient_is_refused, ranks_that_want_other_gradients_are_told, what_is_written_over_all_raise,
    what_cannot_be_shared_is_refused, a_rank_that_fails_leaves_nobody_waiting,
]  # fmt: skip


@unittest.skipIf(torch is None, "torch is not installed")
class Ranks(unittest.TestCase):
    def on(self, n, facts=FACTS):
        with tempfile.TemporaryDirectory() as folder:
            context = mp.get_context("forkserver")
            context.set_forkserver_preload([__name__])  # torch is loaded once, for all ranks
            ranks = [context.Process(target=started, args=(r, n, folder, facts)) for r in range(n)]
            for p in ranks:
                p.start()
            end = time.monotonic() + 4 * MINUTE
            for p in ranks:
                p.join(max(0, end - time.monotonic()))
            stuck = [r for r, p in enumerate(ranks) if p.is_alive()]
            for p in ranks:
                p.kill()
            self.assertEqual(stuck, [], "ranks that did not end")
            for r in range(n):
                with open(f"{folder}/{r}.txt") as file:
                    self.assertEqual(file.read(), "")

    def test_two_ranks(self):
        self.on(2)

    def test_three_ranks(self):
        self.on(3)

    def test_two_threads_at_once_are_told(self):
        self.on(2, [two_threads_at_once_are_told])  # by itself: the group cannot be used again
        self.on(3, [two_threads_at_once_are_told])

    def test_a_group_ends(self):
        self.on(2, [a_group_that_is_destroyed_is_let_go])

    def test_a_model_learns_what_one_process_learns(self):
        example = ROOT / "examples" / "python" / "characters_ranks.py"
        small = "--steps 4 --context 64 --layers 1 --width 16 --heads 2 --batch 2".split()
        attention = ["htransformer:block=4:causal=1", "window:left=20"]
        out = subprocess.run([sys.executable, example, "--attention", ",".join(attention), *small], capture_output=True, text=True, timeout=4 * MINUTE)
        self.assertEqual(out.returncode, 0, out.stderr)
        lines = out.stdout.splitlines()
        self.assertEqual(lines[::6], attention)
        for begin in (0, 6):
            losses = [[float(x) for x in line.split()[1:3]] for line in lines[begin + 2 : begin + 6]]
            self.assertEqual(len(losses), 4)
            self.assertLess(losses[-1][0], losses[0][0])
            for one, many in losses:
                self.assertAlmostEqual(one, many, delta=1e-4)

    def test_without_a_group_it_says_so(self):
        with self.assertRaisesRegex(hga.Error, "init_process_group has not been called"):
            hga.torch.distributed(hga.dense(8))
