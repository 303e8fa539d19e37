"""One sequence on the processes of a torch.distributed group: each has its rows, and the engine's messages go by the group's own."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import struct
import threading
import uuid
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, cast

import numpy as np
import torch
import torch.distributed as dist

from .._core.arguments import answered, meant, number, whole
from .._core.call import Problem
from .._core.library import Error, check, error_detail, extern, ffi, lib, record_raised, refuse
from .._core.arrays import as_numpy, fill_rows, fill_tensor, floats_at, unrepeated
from .._graphs.calls import PLANS_CACHED, draws
from .._graphs.hierarchy import Hierarchy
from .._core.normalisers import normalised, spelt
from .._core.plans import new_plan, tape_bytes
from ._operators import tables_of, tensor_of
from .._core.releases import private
from .._core.tables import INPUTS, ROWS, Tables, check_names, of_callers, takes_tables

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._core.keywords import CallTables

PATIENCE = 0.02  # seconds that a rank waits before it asks whether another has failed, and between two times
# Tags of messages: beyond a caller's own, and other ones for each hierarchy, so that messages of a failed one are received by none.
FIRST_TAG, MOST_CHANNELS, GATHER = 1 << 20, 1024, 1023
MADE = itertools.count()
SAYS = struct.Struct("32s400s32s?")  # of a rank: the hierarchy, what it refuses, a digest of the call, and whether it is ready
AGREE_TAG = FIRST_TAG - 1  # of a group's, whichever hierarchy is called: ranks that call different ones meet here, and are told
Looked = Tuple[Any, Tuple[Any, ...], bool]  # what a look at a call finds, how the rank is called, and whether it is ready
# Of each group, held by the thread that is in a call: messages of two at once would meet in any order.
LOCKS: "weakref.WeakKeyDictionary[Any, threading.Lock]" = weakref.WeakKeyDictionary()


class Transport:
    """A rank's end, by gloo. gloo's waits cannot be left, so they are other threads', and who waits looks meanwhile whether a
    rank has failed: it says so in the group's store, which all can read. Such a wait goes on, so messages have memory of their
    own: the library's may be gone when one arrives."""

    def __init__(self, group: Optional[Any]) -> None:
        # The group is the caller's: one that is stored here would outlive destroy_process_group, and its threads the interpreter.
        self._group = weakref.ref(group if group is not None else dist.group.WORLD)
        if "gloo" not in dist.get_backend(self.group):
            raise refuse(f"distributed: the group's backend is {dist.get_backend(self.group)}: messages go by gloo")
        self.ranks = dist.get_process_group_ranks(self.group)
        agreed: List[Any] = [(uuid.uuid4().hex, next(MADE))]
        dist.broadcast_object_list(agreed, src=self.ranks[0], group=self.group, device=torch.device("cpu"))
        name, number_ = agreed[0]
        self._name, self._lock = name.encode(), LOCKS.setdefault(self.group, threading.Lock())
        self.tag = FIRST_TAG + number_ * MOST_CHANNELS % (1 << 30)
        store = private("torch.distributed.distributed_c10d._get_default_store")()
        self._store = dist.PrefixStore(f"hga-{name}", store)  # type: ignore[attr-defined]
        self.pending: Dict[int, Tuple[List[Any], List[Tuple[torch.Tensor, torch.Tensor]]]] = {}  # and where what comes belongs
        self._failure: Optional[Tuple[int, str]] = None
        self._handle = ffi.new_handle(self)
        self.c = ffi.new("hga_exchange *")
        self.c.size, self.c.ctx = ffi.sizeof("hga_exchange"), self._handle
        self.c.rank, self.c.n_ranks = dist.get_rank(self.group), len(self.ranks)
        self.c.start, self.c.test, self.c.wait = lib.hga_py_start, lib.hga_py_test, lib.hga_py_wait
        self.c.gather, self.c.fail = lib.hga_py_gather, lib.hga_py_fail

    @property
    def group(self) -> Any:
        group = self._group()
        with contextlib.suppress(ValueError):  # the caller keeps a group that torch has no more
            if group is not None and dist.get_rank(group) >= 0:
                return group
        raise refuse("distributed: the group has been destroyed")

    def begin(self, tag: int, send: Sequence[Tuple[int, torch.Tensor]], receive: Sequence[Tuple[int, torch.Tensor]]) -> List[Any]:
        self._go_on()
        works = [dist.irecv(x, self.ranks[r], self.group, tag) for r, x in receive if x.numel()]
        return works + [dist.isend(x, self.ranks[r], self.group, tag) for r, x in send if x.numel()]

    def gather(self, mine: torch.Tensor, tag: int) -> List[torch.Tensor]:
        """By messages, since a collective that is left in the middle would meet the group's next one."""
        all_ = [mine if r == self.c.rank else torch.empty_like(mine) for r in range(len(self.ranks))]
        others = [(r, x) for r, x in enumerate(all_) if x is not mine]
        self.wait(self.begin(tag, [(r, mine) for r, _ in others], others))
        return all_

    def fail(self, status: int, text: str) -> None:
        if self._failure is None:
            self._failure = (status, text)
            self._store.set("failure", f"{status} rank {self.c.rank}: {text}")

    @contextlib.contextmanager
    def together(self, look: Callable[[], Looked]) -> Iterator[Tuple[Any, bool]]:
        """A call of all ranks once they agree. One of a group's at a time: of a second one no rank could tell to which of the two a
        message belongs."""
        if not self._lock.acquire(blocking=False):
            says = "two threads call at once on one group: take turns, in one order on all ranks, or give each thread a group"
            self.fail(int(lib.HGA_EINVAL), says)
            raise refuse(f"distributed: {says}")
        try:
            found = self.agree(look)
            with self.agreed():
                yield found
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """What Python raises once ranks have agreed the library knows nothing of: the others would wait."""
        try:
            yield
        except Error:  # the library has reported them
            raise
        except BaseException as e:
            self.fail(int(lib.HGA_ENOMEM if isinstance(e, MemoryError) else lib.HGA_EINVAL), str(e) or type(e).__name__)
            raise

    def agree(self, look: Callable[[], Looked]) -> Tuple[Any, bool]:
        """What ``look`` finds, and are all ranks ready? Raises on every rank what one refuses, and where ranks are called in different
        ways, for which some would wait for ever."""
        refused: Optional[Exception] = None
        text, found, kind, ready = "", None, cast(Tuple[Any, ...], ()), False
        try:
            found, kind, ready = look()
        except Exception as e:  # whatever it is: the others would wait, or take the next call for this one
            refused, text = e, str(e) or type(e).__name__
        mine = SAYS.pack(self._name, text.encode(), hashlib.sha256(repr(kind).encode()).digest(), ready)
        own = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        with self.agreed():
            all_ = self.gather(own, AGREE_TAG)
        names, said, kinds, are_ready = zip(*(SAYS.unpack(x.numpy().tobytes()) for x in all_))
        if refused is not None:
            raise refused
        for r, other in enumerate(said):
            if other.strip(b"\0"):
                raise refuse(f"rank {r}: " + other.rstrip(b"\0").decode(errors="replace"))
        for r, (name, other) in enumerate(zip(names, kinds)):
            if name != names[0]:
                raise refuse(f"distributed: ranks 0 and {r} call different hierarchies: call them in one order on all ranks, or give each a group of its own")
            if other != kinds[0]:
                raise refuse(f"distributed: ranks 0 and {r} are called in different ways: give all of them as many samples, heads and "
                             "columns, the same types, options, seed and layer")  # fmt: skip
        return found, all(are_ready)

    def wait(self, works: List[Any]) -> None:
        """Until these are over, or a rank has failed."""
        raised: List[BaseException] = []
        over = threading.Event()

        def run() -> None:
            try:
                for work in works:
                    work.wait()
            except BaseException as e:
                raised.append(e)
            over.set()

        self._go_on()
        waits = threading.Thread(target=run, daemon=True)
        waits.start()
        while not over.wait(PATIENCE):
            if self._store.check(["failure"]):
                status, _, text = self._store.get("failure").decode().partition(" ")
                self._failure = (int(status), text)
                self._go_on()
        waits.join()  # a thread that lets go of works while the interpreter ends would abort the process
        if raised:
            raise raised[0]

    def _go_on(self) -> None:
        """Raises what a rank has failed with."""
        if self._failure is not None:
            status, text = self._failure
            check(lib.hga_fail(status, b"%s", ffi.new("char[]", text.encode())))


def _bytes(data: Any, n: int) -> torch.Tensor:
    """The library's memory as a tensor."""
    return torch.frombuffer(ffi.buffer(data, n), dtype=torch.uint8) if n else torch.empty(0, dtype=torch.uint8)


@extern(onerror=record_raised, error=lib.HGA_EEXTERNAL)
def hga_py_start(ctx: Any, channel: int, send: Any, n_send: int, receive: Any, n_receive: int) -> int:
    end: Transport = ffi.from_handle(ctx)
    if not 0 <= channel < GATHER:
        raise refuse(f"channel {channel} is not one of {GATHER}")
    there = [(m.rank, _bytes(m.data, m.bytes).clone()) for m in send[0:n_send]]
    come = [(_bytes(m.data, m.bytes), torch.empty(m.bytes, dtype=torch.uint8)) for m in receive[0:n_receive]]
    end.pending[channel] = end.begin(end.tag + channel, there, [(m.rank, x) for m, (_, x) in zip(receive[0:n_receive], come)]), come
    return 0


@extern(onerror=record_raised, error=lib.HGA_EEXTERNAL)
def hga_py_test(ctx: Any, channel: int, done: Any) -> int:
    """gloo does not tell; it is waited for when there is nothing else to do."""
    done[0] = 0
    return 0


@extern(onerror=record_raised, error=lib.HGA_EEXTERNAL)
def hga_py_wait(ctx: Any, channel: int) -> int:
    end: Transport = ffi.from_handle(ctx)
    works, come = end.pending.pop(channel, ([], []))
    if works:
        end.wait(works)
    for to, x in come:
        to.copy_(x)
    return 0


@extern(onerror=record_raised, error=lib.HGA_EEXTERNAL)
def hga_py_gather(ctx: Any, mine: Any, n: int, all_: Any) -> int:
    end: Transport = ffi.from_handle(ctx)
    if n:
        come = end.gather(_bytes(ffi.cast("char *", mine), n).clone(), end.tag + GATHER)
        _bytes(all_, n * len(come)).copy_(torch.cat(come))
    return 0


@extern(onerror=record_raised)
def hga_py_fail(ctx: Any, status: int) -> None:
    ffi.from_handle(ctx).fail(status, error_detail())


# ---- a hierarchy on ranks ----


class Interval(NamedTuple):
    """Rows first .. first + n - 1."""

    first: int
    n: int


class Distributed:
    """A hierarchy whose tokens the ranks of a group share out. Every rank makes it, and calls it, together with the others."""

    def __init__(self, h: Hierarchy, group: Optional[Any] = None, cuts: Optional[Sequence[int]] = None) -> None:
        if not dist.is_initialized():
            raise refuse("distributed: torch.distributed.init_process_group has not been called")
        self.hierarchy = h
        self._transport = Transport(group)
        self.rank, self.n_ranks = int(self._transport.c.rank), int(self._transport.c.n_ranks)
        self.cuts, _ = self._transport.agree(lambda: (self._checked(h, cuts), (), True))
        self._ranks = ffi.new("hga_ranks *")
        self._cuts = ffi.new("hga_id[]", self.cuts)
        self._ranks.exchange, self._ranks.cuts = self._transport.c, self._cuts
        self._plans: Dict[Tuple[Any, ...], Tuple[Any, Any]] = {}
        plan = new_plan(h, (1, 1, 1, 1, (0, 0), 1, "f32", None, 0.0, 0), self._ranks)
        self._rows = {which: self._find_rows(plan, which) for which in ("query", "key", "value", "out")}

    def _checked(self, h: Hierarchy, cuts: Optional[Sequence[int]]) -> List[int]:
        """The cuts, where h is one that can be shared."""
        if type(h) is not Hierarchy or h._in_order is not None or h._functions:
            raise refuse("distributed: routed and ordered hierarchies, and stages in Python, run in one process")
        n = int(lib.hga_graph_nodes(h.graph._g).level_ptr[1])
        if cuts is None:
            return [n * r // self.n_ranks for r in range(self.n_ranks + 1)]
        if len(cuts) != self.n_ranks + 1:
            raise refuse(f"distributed: {len(cuts)} cuts for {self.n_ranks} ranks, not {self.n_ranks + 1}")
        return [whole(c, f"cuts[{r}]", beyond=n + 1) for r, c in enumerate(cuts)]

    def rows(self, which: str = "query") -> List[Interval]:
        """Which rows of the tensor of one process this rank's has, in this order: of tokens one interval, of nodes one or more a
        level, those that belong to several ranks in each. ``which``: "query", "key", "value" or "out"."""
        if which not in self._rows:
            raise refuse(f"rows: {which!r} is not one of {', '.join(self._rows)}{meant(which, self._rows)}")
        return list(self._rows[which])

    def cut(self, x: Any, which: str = "query", axis: int = -2) -> Any:
        """This rank's rows of a tensor of one process."""
        at = [i for first, n in self.rows(which) for i in range(first, first + n)]
        if isinstance(x, torch.Tensor):
            return x.index_select(axis, torch.tensor(at, dtype=torch.long))
        return np.take(x, at, axis)

    def _find_rows(self, plan: Any, which: str) -> List[Interval]:
        field = lib.hga_program_field(self.hierarchy._program, getattr(lib, f"HGA_IO_{which.upper()}"))
        n = ffi.new("int64_t *")
        if not field:
            return []
        check(lib.hga_plan_rank_rows(plan, field, ffi.NULL, 0, n))
        found = ffi.new("hga_interval[]", max(1, n[0]))
        check(lib.hga_plan_rank_rows(plan, field, found, n[0], n))
        return [Interval(int(x.first), int(x.n)) for x in found[0 : n[0]]]

    def plan_of(self, key: Tuple[Any, ...]) -> Tuple[Any, Any]:
        """A plan and its workspace, which all ranks make at the same call."""
        if key not in self._plans:
            h, kind = key
            plan, out = ffi.gc(new_plan(h, kind, self._ranks), lib.hga_plan_destroy), ffi.new("hga_workspace **")
            check(lib.hga_workspace_create(plan, out))
            self._plans[key] = (plan, ffi.gc(out[0], lib.hga_workspace_destroy))
            while len(self._plans) > PLANS_CACHED:  # the oldest goes
                del self._plans[next(iter(self._plans))]
        return self._plans[key]

    def n_rows(self, which: str) -> int:
        """How many these are."""
        return sum(interval.n for interval in self.rows(which))

    @answered
    @takes_tables()
    def attention(self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False, normaliser: Optional[str] = None,
                  normalizer: Optional[str] = None, dropout: float = 0.0, seed: int = 0, layer: int = 0, precision: str = "auto",
                  threads: int = 0, isa: Optional[str] = None, **tables: Unpack[CallTables]) -> Any:  # fmt: skip
        """Hierarchy.attention of this rank's rows: tensors as there, with the rows that ``rows`` tells; tables whole on every rank.
        The result has the bits of one process. It is differentiable where torch records: gradients of q, k and v are those of this
        rank's rows, of tables whole on every rank, of the sum of all ranks' losses. Of rows that several ranks have, all have the
        same gradient. If one rank's tensors or tables require gradients, all call backward together, in one order; all want
        gradients of the same tables. All ranks call it together, with as many samples; where one is refused or fails, all raise
        what it says."""

        def look() -> Looked:
            check_names(Distributed.attention, tables)
            words = spelt(normaliser, normalizer)
            h = normalised(self.hierarchy, words)
            named = tables_of(tables)
            needs = _needs_grad((q, k, v), named)
            call, drop = Call(self, h, (q, k, v), layout, named, draws(seed, layer)), number(dropout, "dropout")
            kind = (*call.kind(), drop, None if h is self.hierarchy else words, precision, isa, lse, needs)
            own = h._threads_for(threads or self.hierarchy.threads or torch.get_num_threads())
            key = h, call.plan_key(own, precision, isa, drop, needs is not None)
            return (call, key, needs), kind, key in self._plans

        with self._transport.together(look) as ((call, key, needs_grad), all_have_it):
            if not all_have_it:
                self._plans.pop(key, None)  # ranks make a plan together
            plan = self.plan_of(key)
            found = call.run(*plan, lse) if needs_grad is None else _Attend.apply(call, self, plan, lse, q, k, v, *call.tensors.values())
            return tuple(found) if lse else found[0]


class Call(Problem):
    """One call's arrays, checked before any rank begins."""

    def __init__(self, d: Distributed, h: Hierarchy, inputs: Tuple[Any, ...], layout: str, tables: Mapping[str, Any],
                 drawn: Tuple[int, int]) -> None:  # fmt: skip
        q, k, v = (unrepeated(as_numpy(x, name)) for x, name in zip(inputs, INPUTS))
        rows = lambda which: d.n_rows(which) if d.rows(which) else -1  # noqa: E731
        super().__init__(h, q, k, v, layout, Tables(h, tables), rows, f"rank {d.rank} of {d.n_ranks}")
        self.drawn, self.arrays, self.shape = drawn, (self.q, self.k, self.v), list(self.q.shape)
        self.tensors = {name: x for name, x in tables.items() if isinstance(x, torch.Tensor)}
        self.shape[-1], self.shape[self.rows_axis] = self.dim_v, d.n_rows("out")

    def array(self, x: torch.Tensor, name: str) -> np.ndarray:
        """Of four axes, or more, where the call has two."""
        return as_numpy((x[None] if self.flat else x).detach().contiguous(), name)

    def tensor(self, x: np.ndarray) -> torch.Tensor:
        """An array like the call's as the caller has his."""
        return tensor_of(x)[0] if self.flat else tensor_of(x)

    def kind(self) -> Tuple[Any, ...]:
        """What is the same on all ranks: everything but the rows, the layout and the threads."""
        types = (str(x.dtype) for x in self.arrays)
        return (*self.batch, self.heads, self.kv_heads, self.dim, self.dim_v, *types, *map(sorted, self.tables.key), self.drawn)

    def samples(self, out: np.ndarray) -> Iterator[Tuple[Tuple[int, ...], Any]]:
        """Samples, each with the library's inputs."""
        io = ffi.new("hga_io *")
        io.seed, io.layer = self.drawn
        for at in np.ndindex(*self.batch):
            self.describe(io, at)
            fill_tensor(io.out, out[at], self.rows_axis, self.heads_axis)
            yield at, io

    def run(self, plan: Any, workspace: Any, lse: bool, tapes: Optional[np.ndarray] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        out, lses = np.zeros(self.shape, self.q.dtype), np.zeros(self.shape[:-1], np.float32)
        for at, io in self.samples(out):
            if lse:
                fill_rows(io.lse, lses[at], self.rows_axis + 1, self.heads_axis + 1)
            if tapes is not None:
                io.tape = ffi.cast("void *", tapes[at].ctypes.data)
            check(lib.hga_plan_execute(plan, workspace, io))
        return self.tensor(out), self.tensor(lses)

    def back(self, plan: Any, workspace: Any, tapes: np.ndarray, out: np.ndarray, d_out: np.ndarray, d_lse: Optional[np.ndarray],
             grads: Dict[str, np.ndarray]) -> None:  # fmt: skip
        """The requested gradients, which hold zeros, over all samples. What is added to is sent, too: only tables need it."""
        g = ffi.new("hga_grad_io *")
        g.accumulate = int(np.prod(self.batch)) > 1 and any(name in ROWS for name in grads)
        for name in grads:
            if name in ROWS:
                g.d_table[ROWS[name].index] = floats_at(grads[name])
        for at, io in self.samples(out):
            io.tape = ffi.cast("void *", tapes[at].ctypes.data)
            fill_tensor(g.d_out, d_out[at], self.rows_axis, self.heads_axis)
            if d_lse is not None:
                fill_rows(g.d_lse, d_lse[at], self.rows_axis + 1, self.heads_axis + 1)
            for t, name in ((g.d_query, "query"), (g.d_key, "key"), (g.d_value, "value")):
                if name in grads:
                    fill_tensor(t, grads[name][at], self.rows_axis, self.heads_axis)
            check(lib.hga_plan_gradient(plan, workspace, io, g))


def _needs_grad(tensors: Sequence[Any], tables: Mapping[str, Any]) -> Optional[Tuple[str, ...]]:
    """The tables that need gradients, the same on all ranks; None: there is no backward pass."""
    if not torch.is_grad_enabled():
        return None
    found = tuple(sorted(name for name, x in tables.items() if getattr(x, "requires_grad", False)))
    return found if found or any(getattr(x, "requires_grad", False) for x in tensors) else None


class _Attend(torch.autograd.Function):
    """A call whose backward pass all ranks run together."""

    @staticmethod
    def forward(ctx: Any, call: Call, d: Distributed, plan: Tuple[Any, Any], lse: bool, *inputs: Any) -> Tuple[torch.Tensor, torch.Tensor]:
        tapes = np.empty((*call.batch, tape_bytes(plan[0])), np.uint8)
        out, lses = call.run(*plan, lse, tapes)
        ctx.call, ctx.d, ctx.plan, ctx.lse, ctx.tapes = call, d, plan, lse, tapes
        ctx.save_for_backward(out, *(x for x in inputs if isinstance(x, torch.Tensor)))
        if not lse:
            ctx.mark_non_differentiable(lses)
        return out, lses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: torch.Tensor, d_lse: Optional[torch.Tensor]) -> Any:
        call, (_, _, _, _, *needs) = ctx.call, ctx.needs_input_grad
        names = (*INPUTS, *call.tensors)

        def look() -> Looked:
            saved, *_ = ctx.saved_tensors  # raises where a saved tensor was written over
            out, upstream = call.array(saved, "out"), call.array(d_out.to(saved.dtype), "the gradient of the output")
            lse = call.array(d_lse, "the gradient of the log-sum-exp") if ctx.lse and d_lse is not None else None
            of = dict(zip(INPUTS, call.arrays), **call.tables.arrays)
            grads = {name: np.zeros(of[name].shape, of[name].dtype) for name, needed in zip(names, needs) if needed}
            return (out, upstream, lse, grads), ("back", *call.kind()), True

        with ctx.d._transport.together(look) as (inputs, _):
            call.back(*ctx.plan, ctx.tapes, *inputs)
        *_, grads = inputs
        found = {name: torch.from_numpy(x) if name in ROWS else call.tensor(x) for name, x in of_callers(call.h, grads).items()}
        return None, None, None, None, *(found.get(name) for name in names)


def distributed(h: Hierarchy, group: Optional[Any] = None, *, cuts: Optional[Sequence[int]] = None) -> Distributed:
    """The hierarchy on the ranks of a torch.distributed group (None: all), whose messages go by gloo: rank r has tokens
    [cuts[r], cuts[r + 1]), as many as the others where no cuts are given, and ``.attention(q, k, v)`` takes and gives its rows.
    All ranks call it together. Gradients have the bits of one process: in the backward pass ranks share key/value heads, so that more
    ranks than heads only send and receive, and bytes do not shrink with what a rank reads of others."""
    return Distributed(h, group, cuts)
