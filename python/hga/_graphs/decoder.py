"""Token by token: decoders of causal hierarchies, and the caches that they append to."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, overload

import numpy as np

from .._core.arguments import BINDINGS, answered, either, encoded, encoded_path, flag, whole
from .._core.arrays import is_torch
from .._core.call import are_nodes, require_layout
from .._core.library import Error, check, ffi, lib, refuse, refuse_type
from .._core.precision import AUTO, PRECISIONS, RowType, refused_rows
from .._core.tables import Tables
from .appended import Form, Rows, own_copy

if TYPE_CHECKING:
    import torch
    from typing_extensions import Literal

    from .._core.arrays import Array
    from .hierarchy import Hierarchy

    # Rows of several caches: an array with an axis of caches in front, or a list.
    Stacked = TypeVar(
        "Stacked", torch.Tensor, np.ndarray, List[torch.Tensor], List[np.ndarray], Sequence[torch.Tensor], Sequence[np.ndarray]
    )

WORKSPACE_BYTES = 1 << 30  # bytes of a decoder's workspaces beyond which caches share them, unless threads need more
TYPES = {"f32": lib.HGA_F32, "bf16": lib.HGA_BF16}
APPENDS = ffi.typeof("hga_append[]")
OF_OTHER_ROWS = "another shape, precision"  # hga_cache_read of a file whose rows are of another type
Path = Union[str, "os.PathLike[str]"]


# ---- what C holds ----

_LAST = object()


class _Life:
    """A decoder of the library's with its pages and workspaces, which must outlive every cache. Python may collect a decoder
    before its caches, so each of them has a token here, and returning the last one frees all."""

    def __init__(self, decoder: Any, pages: Any) -> None:
        self.decoder, self.pages, self.workspaces = decoder, pages, []  # type: Any, Any, List[Any]
        self.tokens: List[object] = [_LAST]  # list.pop and list.append are each one step of the interpreter's

    def end_cache(self, cache: Any) -> None:
        lib.hga_cache_destroy(cache)
        self.give_back()

    def give_back(self, _: Any = None) -> None:
        if self.tokens.pop() is not _LAST:
            return
        for w in self.workspaces:
            lib.hga_decode_workspace_destroy(w)
        lib.hga_pages_destroy(self.pages)
        lib.hga_decoder_destroy(self.decoder)


class _Workspace:
    """Where appends are computed. It still has the rows of the cache that it served last, which it serves faster."""

    def __init__(self, c: Any) -> None:
        self.c = c
        self.served: Any = lambda: None  # a weak reference

    def serve(self, cache: "Cache") -> None:
        if self.served() is not cache:
            self.served = weakref.ref(cache)
        cache._workspace = self


# ---- decoders ----


class Decoder:
    """A causal hierarchy token by token (``Hierarchy.decoder``). Any number of caches, layers and threads may share it."""

    def __init__(
        self, h: "Hierarchy", heads: int, dim: int, kv_heads: Optional[int], dim_v: Optional[int], same: bool, rollback: int,
        page_type: str, page_rows: int, max_bytes: int, row_type: Optional[str], precision: str, threads: int,
        isa: Optional[str], tables: Mapping[str, Any],
    ) -> None:  # fmt: skip
        declared = None if row_type is None else either(row_type, "row_type", TYPES)
        same = flag(same, "same")
        self._row_type = RowType(precision, h, declared, isa, same)
        self.hierarchy, self._settling = h, threading.Lock()
        self.heads, self.dim = whole(heads, "heads", least=1), whole(dim, "dim", least=1)
        self.kv_heads = self.heads if kv_heads is None else whole(kv_heads, "kv_heads", least=1)
        self.dim_v = self.dim if dim_v is None else whole(dim_v, "dim_v", least=1)
        self._tables = Tables(h, {name: x if x is None else own_copy(x, name) for name, x in tables.items()})
        self._tables.check(self.heads, self.dim)
        self._io = ffi.new("hga_io *")  # what all appends have besides rows
        self._tables.describe(self._io)
        shape, o = ffi.new("hga_shape *"), ffi.new("hga_decode_options *")
        shape.n_heads, shape.n_kv_heads, shape.dim, shape.dim_v = self.heads, self.kv_heads, self.dim, self.dim_v
        shape.pos_dim, o.plan.generic = self._tables.traits
        name = ffi.new("char[]", encoded(isa, "isa")) if isa else ffi.NULL
        o.plan.threads, o.plan.isa = h._threads_for(threads), name
        o.plan.strict_rows, o.plan.bind = h._strict, BINDINGS[h._bind]
        o.rollback, o.page_rows = whole(rollback, "rollback", beyond=2**31), whole(page_rows, "page_rows", beyond=2**31)
        o.same_bits, o.page_type = int(same), TYPES[either(page_type, "page_type", TYPES)]
        if h._choosing is not None:
            o.selection, o.prefill = h._choosing
        self._made_of = shape, o, name, whole(max_bytes, "max_bytes", beyond=2**63)
        self._begin(self.precision)
        self._forms: Dict[Tuple[Any, ...], Form] = {}
        self._rows_are_nodes = are_nodes(h, "out")
        self._first_row = 0 if self._rows_are_nodes else int(lib.hga_graph_nodes(h.graph._g).query_first)

    def _begin(self, precision: str) -> None:
        """The library's decoder, of this precision, or of float32's products until rows tell."""
        shape, o, _, most_bytes = self._made_of
        o.plan.precision = PRECISIONS["f32" if precision == AUTO else precision]
        decoder, pages = ffi.new("hga_decoder **"), ffi.new("hga_pages **")
        check(lib.hga_decoder_create(self.hierarchy.graph._g, self.hierarchy._program, shape, o, decoder))
        status = lib.hga_decoder_check_tables(decoder[0], self._io) or lib.hga_pages_create(decoder[0], most_bytes, pages)
        if status:
            lib.hga_decoder_destroy(decoder[0])
        check(status)
        self._free: List[_Workspace] = []
        self._life = _Life(decoder[0], pages[0])
        self._d = ffi.gc(decoder[0], self._life.give_back)

    # ---- what rows are of ----

    @property
    def precision(self) -> str:
        """By which products it computes: "f32" or "bf16"; "auto" until the first rows tell, or a file."""
        return self._row_type.precision

    def _settle(self, rows: Sequence[Tuple[Any, Any, Any]]) -> None:
        """Where precision follows the type of rows, the first ones say what it is, and others are refused. Caches have no tokens
        before, and begin anew when they are next held."""
        with self._settling:
            t, before = self._row_type, self.precision
            of = t.declared
            for x in rows:
                found = t.of(*x)
                of = of or found
                if of != found:
                    raise refused_rows(of, *x)
            t.declared = of
            if before == AUTO and self.precision == "bf16":
                self._begin("bf16")

    # ---- caches ----

    def _cache_of(self, life: _Life, make: Any, *arguments: Any) -> "Cache":
        out = ffi.new("hga_cache **")
        check(make(*arguments, out))
        life.tokens.append(None)
        return Cache(self, life, ffi.gc(out[0], life.end_cache))

    def cache(self) -> "Cache":
        """An empty cache."""
        life = self._life
        return self._cache_of(life, lib.hga_cache_create, life.pages)

    def read(self, path: Path) -> "Cache":
        """A cache as ``Cache.write`` left it; a file of another graph, program, shape or type of pages is refused by name, and
        with same=True one of another version of hga or instruction set."""
        name = encoded_path(path)
        with self._settling:
            if self.precision != AUTO:
                return self._cache_of(self._life, lib.hga_cache_read, self._life.pages, name)
            return self._read_first(name)

    def _read_first(self, name: bytes) -> "Cache":
        """The file tells what rows are of, if it has any. If it is refused as rows of both types, what is said is why as rows of its own."""
        before = self._life, self._free, self._d
        try:
            cache = self._cache_of(self._life, lib.hga_cache_read, self._life.pages, name)
            self._row_type.declared = "f32" if len(cache) else None
            return cache
        except Error as error:
            as_f32 = error
        self._begin("bf16")
        try:
            cache = self._cache_of(self._life, lib.hga_cache_read, self._life.pages, name)
            self._row_type.declared = "bf16"
            return cache
        except Error as as_bf16:
            self._life, self._free, self._d = before
            raise as_f32 if OF_OTHER_ROWS in as_bf16.detail else as_bf16 from None

    # ---- appending ----

    @overload
    def append(
        self, caches: Sequence["Cache"], q: Stacked, k: Stacked, v: Stacked, *, layout: str = ..., lse: Literal[False] = ...
    ) -> Stacked: ...

    @overload
    def append(
        self, caches: Sequence["Cache"], q: Stacked, k: Stacked, v: Stacked, *, layout: str = ..., lse: Literal[True]
    ) -> Tuple[Stacked, Stacked]: ...

    @overload
    def append(self, caches: Sequence["Cache"], q: Stacked, k: Stacked, v: Stacked, *, layout: str = ..., lse: bool) -> Any: ...

    @answered
    def append(self, caches: Sequence["Cache"], q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False) -> Any:
        """The next tokens of several caches, as many of each as it likes: q, k, v are lists with rows for each cache, as for
        ``Cache.append``, or arrays with an axis of caches in front. A list of outputs, or an array as it came; with lse a
        pair of these. All or nothing: when it raises, every cache is as it was."""
        caches = list(caches)
        stacked = not isinstance(q, (list, tuple))
        for x, what in ((q, "query"), (k, "key"), (v, "value")):
            if isinstance(x, (list, tuple)) == stacked:
                raise refuse_type(f"{what} is {'a list' if stacked else 'no list'}, query is {'none' if stacked else 'one'}")
            if stacked and (not hasattr(x, "ndim") or x.ndim not in (3, 4)):
                raise refuse(f"{what} has shape {tuple(getattr(x, 'shape', ()))}: an axis of caches comes in front of the rows of one")
            if len(x) != len(caches):
                raise refuse(f"{what} has rows for {len(x)} caches, not {len(caches)}")
        found = self._append(caches, q, k, v, layout, flag(lse, "lse"))
        pairs = list(zip(*found)) if lse else [found]
        joined: Any = list if not stacked else sys.modules["torch"].stack if is_torch(q) else np.stack
        made = [joined(x) for x in pairs] if caches else [[] for _ in range(1 + lse)]
        return tuple(made) if lse else made[0]

    def _append(self, caches: List["Cache"], q: Any, k: Any, v: Any, layout: str, lse: bool) -> List[Any]:
        require_layout(layout)
        for i, cache in enumerate(caches):
            if not isinstance(cache, Cache) or cache.decoder is not self:
                raise refuse_type(f"cache {i} is {cache!r}, not a cache of this decoder")
        rows = [Rows(self, q[i], k[i], v[i], layout, lse) for i in range(len(caches))]
        held: List["Cache"] = []
        try:
            t = self._row_type
            if t.binds and not (t.declared == "f32" and all(r.plain for r in rows)):
                self._settle([(q[i], k[i], v[i]) for i in range(len(caches))])
            for cache in caches:
                cache._hold(held)
            self._run(caches, rows)
        finally:
            for cache in held:
                cache._lock.release()
        return [r.found() for r in rows]

    def _run(self, caches: List["Cache"], rows: List[Rows]) -> None:
        if not caches:
            return
        items = ffi.new(APPENDS, len(caches))
        for i, r in enumerate(rows):
            cache = caches[i]
            r.fill(items + i, cache._c, self._tokens_of(cache, r.form.n))
        workspace = self._workspace(caches[-1])
        try:
            check(lib.hga_decoder_append(self._life.decoder, workspace.c, items, len(caches)))
        finally:
            self._free.append(workspace)
        workspace.serve(caches[-1])

    def _tokens_of(self, cache: "Cache", rows: int) -> int:
        """How many of the cache's next tokens have so many rows."""
        if not self._rows_are_nodes:
            return rows
        first = len(cache)
        low, high = 0, min(rows, self.n_tokens - first)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._count(first, middle) < rows else (low, middle)
        if self._count(first, low) != rows:
            here = [f"{n} tokens have {self._count(first, n)}" for n in (low - 1, low) if n > 0]
            raise refuse(f"query has {rows} rows, and rows are nodes: from token {first} on {', '.join(here) or 'there are none'} (decoder.rows)")
        return low

    def _count(self, first: int, n: int) -> int:
        return int(lib.hga_decoder_rows(self._life.decoder, first, n, ffi.NULL, 0))

    def _workspace(self, cache: "Cache") -> _Workspace:
        """The one that served the cache last; or one whose cache is gone; or a new one while bytes are left; or that which
        was used least recently."""
        last = cache._workspace
        mine = [last] if last is not None and last.served() is cache else []
        for w in itertools.chain(mine, (w for w in list(self._free) if w.served() is None)):
            try:
                self._free.remove(w)
                return w
            except ValueError:  # another thread has it
                pass
        if self.workspace_bytes + int(lib.hga_decoder_workspace_bytes(self._life.decoder)) > WORKSPACE_BYTES:
            try:
                return self._free.pop(0)
            except IndexError:
                pass
        out = ffi.new("hga_decode_workspace **")
        check(lib.hga_decode_workspace_create(self._life.decoder, out))
        self._life.workspaces.append(out[0])
        return _Workspace(out[0])

    # ---- what it tells ----

    @property
    def n_tokens(self) -> int:
        """The most tokens of a cache."""
        return int(lib.hga_decoder_tokens(self._life.decoder))

    def rows(self, first: int, n: int) -> np.ndarray:
        """Which rows of the full pass's tensors those of tokens first .. first + n - 1 are, in the order in which ``append`` takes
        them: first, first + 1, .., or, where rows are nodes (bpt), tokens and the spans that they complete."""
        first, n = whole(first, "first"), whole(n, "n")
        if first + n > self.n_tokens:
            raise refuse(f"tokens {first} .. {first + n - 1}: the decoder has {self.n_tokens}")
        found = np.empty(self._count(first, n), np.int32)
        lib.hga_decoder_rows(self._life.decoder, first, n, ffi.cast("hga_id *", found.ctypes.data), len(found))
        return found - self._first_row

    def cache_bytes(self, n: int) -> int:
        """Bytes of the pages that a cache of n tokens holds, of which none is shared."""
        return int(lib.hga_decoder_cache_bytes(self._life.decoder, self._few(n)))

    def cache_rows(self, n: int) -> int:
        """Rows that a cache of n tokens holds: keys, values and whatever else later tokens read."""
        return int(lib.hga_decoder_cache_rows(self._life.decoder, self._few(n)))

    def _few(self, n: int) -> int:
        return whole(n, "n", beyond=self.n_tokens + 1)

    @property
    def used_bytes(self) -> int:
        """Bytes of the pages that its caches hold, each counted once however many share it."""
        return int(lib.hga_pages_used(self._life.pages))

    @property
    def bytes(self) -> int:
        """Bytes of all pages that it has allocated; it reuses those that caches gave back."""
        return int(lib.hga_pages_bytes(self._life.pages))

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspaces that it keeps: one for each thread that appends at a time, and, up to a gigabyte, one for
        each cache, which saves laying out its rows anew. They depend on the graph and on what caches hold, not on the
        number of tokens; the memory of a long append is freed after some short ones."""
        return sum(int(lib.hga_decode_workspace_bytes(w)) for w in list(self._life.workspaces))

    def __repr__(self) -> str:
        return f"<hga.Decoder of {self.hierarchy.words or 'a graph'}: {self.n_tokens} tokens, {self.heads} x {self.dim}>"

    def __copy__(self) -> "Decoder":
        return self

    def __deepcopy__(self, memo: Any) -> "Decoder":
        return self

    def __reduce__(self) -> Any:
        raise refuse_type("a decoder is not pickled: pickle its hierarchy, and write its caches")


class Cache:
    """The rows that later tokens read, and nothing else (``Decoder.cache``). len() is its number of tokens. It serves one call
    at a time."""

    def __init__(self, decoder: Decoder, life: _Life, c: Any) -> None:
        self.decoder, self._life, self._c = decoder, life, c
        self._lock = threading.Lock()
        self._workspace: Optional[_Workspace] = None  # which served it last

    def _hold(self, held: List["Cache"]) -> None:
        if held and any(cache is self for cache in held):
            raise refuse(f"cache {len(held)} is there twice")
        if not self._lock.acquire(blocking=False):
            raise refuse("the cache is in another thread's call: it serves one at a time")
        held.append(self)
        if self._life is not self.decoder._life:  # what it has been made of had no tokens when rows declared their type
            made = self.decoder.cache()
            self._life, self._c, self._workspace = made._life, made._c, None

    def _held(self, function: Callable[[], Any]) -> Any:
        """Call while no other thread is in the cache."""
        held: List["Cache"] = []
        self._hold(held)
        try:
            return function()
        finally:
            self._lock.release()

    @overload
    def append(self, q: Array, k: Array, v: Array, *, layout: str = ..., lse: Literal[False] = ...) -> Array: ...

    @overload
    def append(self, q: Array, k: Array, v: Array, *, layout: str = ..., lse: Literal[True]) -> Tuple[Array, Array]: ...

    @overload
    def append(self, q: Array, k: Array, v: Array, *, layout: str = ..., lse: bool) -> Union[Array, Tuple[Array, Array]]: ...

    @answered
    def append(self, q: Any, k: Any, v: Any, *, layout: str = "bhnd", lse: bool = False) -> Any:
        """The next tokens, one or many: q, k, v [heads][rows][dim] (layout "bhnd") or [rows][heads][dim] ("bnhd"); two axes are
        one head. numpy or torch, float32, float16 or bfloat16. Their rows of the output come back, with lse a pair with their
        log-sum-exp. When it raises, the cache is as it was."""
        return self.decoder._append([self], [q], [k], [v], layout, lse if type(lse) is bool else flag(lse, "lse"))[0]

    def fork(self) -> "Cache":
        """A cache of the same tokens, independent of this one; both share pages until one writes to them."""
        cache: "Cache" = self._held(lambda: self.decoder._cache_of(self._life, lib.hga_cache_fork, self._c))
        return cache

    def cut(self, n: int) -> None:
        """Take back all tokens but the first n. The decoder's rollback says how many you may take back at least; you may
        always take back all."""
        n = whole(n, "n", beyond=2**31)
        check(self._held(lambda: lib.hga_cache_cut(self._c, n)))

    def write(self, path: Path) -> None:
        """The cache as a file, which ``Decoder.read`` reads."""
        name = encoded_path(path)
        check(self._held(lambda: lib.hga_cache_write(self._c, name)))

    def __len__(self) -> int:
        return int(lib.hga_cache_tokens(self._c))

    def __bool__(self) -> bool:
        """It is there, with tokens or without."""
        return True

    @property
    def bytes(self) -> int:
        """Bytes of its pages, those among them that it shares."""
        return self.decoder.cache_bytes(len(self))

    def __copy__(self) -> "Cache":
        return self.fork()

    def __deepcopy__(self, memo: Any) -> "Cache":
        return self.fork()

    def __reduce__(self) -> Any:
        raise refuse_type("a cache is not pickled: write(path) is for it, and decoder.read(path)")

    def __repr__(self) -> str:
        return f"<hga.Cache: {len(self)} tokens of {self.decoder!r}>"
