"""Trees as people have them: linkages of scipy, Markdown, HTML, folders, tables of node and parent."""

from __future__ import annotations

import csv
import io
import os
import pathlib
import re
import stat
import subprocess
from itertools import compress
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from .._core.progress import Tell, each
from .._core.library import check, ffi, lib, refuse, refuse_type
from .._core.arguments import encoded_path, path_of, unmasked, utf8
from .builder import Unfinished, array_at


class Tree(NamedTuple):
    """By node: its parent, -1 without, what it is called and of what kind it is, None without."""

    parent: np.ndarray
    names: List[Optional[str]]
    kinds: List[Optional[str]]


def _text(pointer: Any) -> Optional[str]:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def _taken(read: Callable[[Any], int]) -> Tree:
    """The library's tree that ``read`` fills."""
    t = ffi.new("hga_tree *")
    check(read(t))
    try:
        n = int(t.n)
        parent = array_at(t.parent, n, np.int32)
        kinds = [None if t.kind == ffi.NULL or t.kind[v] >= t.n_kinds else _text(t.kind_name[t.kind[v]]) for v in range(n)]
        return Tree(parent, [_text(lib.hga_tree_name(t, v)) for v in range(n)], kinds)
    finally:
        lib.hga_tree_clear(t)


def of_linkage(linkage: Any) -> Tree:
    if np.ndim(linkage) != 2 or np.shape(linkage)[1] != 4:
        raise refuse(f"a linkage has shape {np.shape(linkage)}: [merges][4] is needed, as scipy.cluster.hierarchy has it")
    try:
        z = np.ascontiguousarray(unmasked(linkage, "a linkage"), np.float64)
    except (TypeError, ValueError) as e:
        raise refuse(f"a linkage: {e}") from None
    return _taken(lambda t: int(lib.hga_tree_linkage(ffi.NULL, ffi.from_buffer("double[]", z) if len(z) else ffi.NULL, len(z), t)))


def _content(path: Union[str, "os.PathLike[str]"]) -> bytes:
    """What a file has, as the library loads it. Where it is not there the error is Python's."""
    name = path_of(path)
    if not os.access(name, os.R_OK):
        open(name, "rb").close()
    text, n = ffi.new("char **"), ffi.new("size_t *")
    check(lib.hga_document_load(encoded_path("./-" if name == "-" else name), text, n))
    try:
        return bytes(ffi.buffer(text[0], n[0]))
    finally:
        lib.hga_text_free(text[0])


def _document(document: Any, what: str) -> bytes:
    """The text itself, or what a path's file has."""
    if isinstance(document, pathlib.PurePath):
        return _content(document)
    if isinstance(document, str):
        return utf8(document, what)
    if isinstance(document, bytes):
        return document
    raise refuse_type(f"{what} comes as text or as a pathlib.Path, not as {document!r}")


def of_document(document: Any, what: str) -> Tree:
    """Markdown or HTML."""
    text, read = _document(document, what), lib.hga_tree_html if what == "HTML" else lib.hga_tree_markdown
    return _taken(lambda t: int(read(ffi.NULL, text, len(text), t)))


MOST_BYTES = 4 << 20
WITH_LINES = ("function", "method", "class", "subroutine", "procedure", "func")  # kinds that ctags tells the ends of


def _functions(root: pathlib.Path) -> Dict[str, List[Tuple[int, int, str]]]:
    """By file, the first line, last line and name of its functions and classes, outer before inner, as universal-ctags has them;
    nothing where it is not there."""
    command = ["ctags", "-R", "--sort=no", "--excmd=number", "--fields=KeS", "-f", "-", str(root)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return {}
    found: Dict[str, List[Tuple[int, int, str]]] = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        name, path, at, kind, *more = [*line.split("\t"), "", "", ""]
        end = [field[4:] for field in more if field.startswith("end:")]
        is_method = kind == "member" and any(field.startswith("signature:") for field in more)  # Python's; C's members have none
        if (kind in WITH_LINES or is_method) and end:
            found.setdefault(path, []).append((int(at.rstrip(';"')), int(end[0]), name))
    return {path: sorted(tags, key=lambda tag: (tag[0], -tag[1])) for path, tags in found.items()}


def _lines(entry: pathlib.Path) -> List[str]:
    """Of a file of text; none of links, pipes and devices, of files above 4 MiB, and of what is no UTF-8."""
    info = entry.lstat()
    if not stat.S_ISREG(info.st_mode) or info.st_size > MOST_BYTES:
        return []
    content = entry.read_bytes()
    try:
        return [] if b"\0" in content else content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return []


Nodes = List[Tuple[int, str, str]]  # parent, name and kind of a tree while it is made, parents before their children


def _add(nodes: Nodes, parent: int, name: str, kind: str) -> int:
    nodes.append((parent, name, kind))
    return len(nodes) - 1


def _add_lines(nodes: Nodes, file: int, lines: List[str], tags: List[Tuple[int, int, str]]) -> None:
    """Lines with something on them, in the innermost function that they are in."""
    inside, waiting = [(file, len(lines) + 1)], list(reversed(tags))
    for number, line in enumerate(map(str.strip, lines), 1):
        while len(inside) > 1 and inside[-1][1] < number:
            inside.pop()
        while waiting and waiting[-1][0] <= number:
            _, last, name = waiting.pop()
            if last > number and line:
                inside.append((_add(nodes, inside[-1][0], name, "function"), last))
        if line:
            _add(nodes, inside[-1][0], line, "line")


def of_folder(path: Union[str, "os.PathLike[str]"], lines: bool) -> Tree:
    """Files are leaves, in the order of their names, or their lines are; what holds none is left out."""
    root = pathlib.Path(os.path.abspath(path_of(path)))  # as ctags and scandir both write what is below
    if not root.is_dir():
        raise refuse(f"{path}: not a folder")
    nodes, tags = [(-1, root.name or str(root), "folder")], _functions(root) if lines else {}
    waiting = [(entry, 0) for entry in _entries(root)]
    while waiting:
        entry, parent = waiting.pop()
        if lines and entry.name.startswith("."):
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        at = _add(nodes, parent, entry.name, "folder" if is_folder else "file")
        waiting += [(below, at) for below in _entries(entry.path)] if is_folder else []
        if lines and not is_folder:
            _add_lines(nodes, at, _lines(pathlib.Path(entry.path)), tags.get(entry.path, []))
    parents, names, kinds = zip(*nodes)
    there = np.array([kind == ("line" if lines else "file") for kind in kinds])  # the leaves, and then what has one below it
    for v in range(len(there) - 1, 0, -1):
        there[parents[v]] |= there[v]
    if not there[0]:
        raise refuse(f"{path}: has no {'file of text' if lines else 'files'}")
    number = np.append(np.cumsum(there, dtype=np.int32) - 1, np.int32(-1))  # the last one: no parent's
    return Tree(number[np.array(parents, np.int32)[there]], [*compress(names, there)], [*compress(kinds, there)])


def _entries(path: Union[str, "os.PathLike[str]"]) -> List["os.DirEntry[str]"]:
    """The last name first."""
    with os.scandir(path) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)


Line = Tuple[int, List[str]]  # its number, its cells
NO_PARENT = ("", "-1")


def _lines_of(path: Union[str, "os.PathLike[str]"]) -> List[Line]:
    """Those with something on them."""
    try:
        reader = csv.reader(io.StringIO(_content(path).decode(), newline=""))
    except UnicodeDecodeError as e:
        raise refuse(f"{path}: is not UTF-8: {e.reason} at byte {e.start}") from None
    try:
        lines = [(reader.line_num, [cell.strip() for cell in line]) for line in reader]
    except csv.Error as e:
        raise refuse(f"{path}, line {reader.line_num}: {e}") from None
    return [(at, line) for at, line in lines if any(line)]


def _parents_column(path: Union[str, "os.PathLike[str]"], lines: List[Line]) -> Optional[int]:
    """Which column has the parents, where the first line names both; None where it is a node and its parent. A first line whose
    words no other has looks like names of columns that do not say which is the parent."""
    at, first = lines[0]
    if len(first) != 2:
        return None
    is_parent = [re.fullmatch(r"parents?([ _-]?(id|name|node|index))?", cell.lower()) is not None for cell in first]
    if all(is_parent):
        raise refuse(f"{path}, line {at}: both columns, {first[0]!r} and {first[1]!r}, are called parents")
    if any(is_parent):
        return is_parent.index(True)
    others = {cell for _, line in lines[1:] for cell in line}
    if not others or any(cell in others or cell in NO_PARENT or cell.lstrip("+-").isdecimal() for cell in first):
        return None
    raise refuse(f"{path}, line {at}: nothing else is called {first[0]!r} or {first[1]!r}: if these are columns, call one of them parent; "
                 "if they are nodes, put the line node,parent before them")  # fmt: skip


def of_table(path: Union[str, "os.PathLike[str]"]) -> Tree:
    """Lines of node and parent, names of any sort; roots have no parent, or -1. Nodes are numbered as lines name them first. The
    first line may name the columns, one of them parent, in either order."""
    lines = _lines_of(path)
    up = _parents_column(path, lines) if lines else None
    number: Dict[str, int] = {}
    said: List[int] = []
    for at, line in lines if up is None else lines[1:]:
        node, parent = (line if not up == 0 else line[::-1]) if len(line) == 2 else ("", "")
        if not node:
            raise refuse(f"{path}, line {at}: {','.join(line)!r} is not a node and its parent")
        if node == "-1":
            raise refuse(f"{path}, line {at}: no node is called -1, which as a parent means that there is none")
        for name in (node, parent):
            if name not in NO_PARENT and number.setdefault(name, len(said)) == len(said):
                said.append(-2)
        if said[number[node]] != -2:
            raise refuse(f"{path}, line {at}: node {node!r} has a parent already")
        said[number[node]] = -1 if parent in NO_PARENT else number[parent]
    if not said:
        raise refuse(f"{path}: has no nodes")
    return Tree(np.array([-1 if p == -2 else p for p in said], np.int32), list(number), [None] * len(said))


# ---- graphs of them ----


def families(tree: Tree, tell: Tell) -> Tuple[Unfinished, np.ndarray]:
    """Nodes attend to their siblings, and tokens to themselves; and which node of the tree each node is."""
    b = Unfinished()
    node = b._add_tree(len(tree.parent), tree.parent, tree.names)
    of = np.argsort(node)
    near = b.relation("near")
    siblings: Dict[int, List[int]] = {}
    for v, p in zip(of.tolist(), tree.parent[of].tolist()):
        siblings.setdefault(p, []).append(int(node[v]))
    n_tokens = b._levels[0][1]
    alone = [np.array([v]) for v in siblings.pop(-1, []) if v < n_tokens]
    members = each(siblings.values(), len(siblings), tell)
    edges = [_see_each_other(b, near, np.array(some), n_tokens) for some in members] + [np.stack([v, v]) for v in alone]
    if edges:
        b._add_edges(near, *np.concatenate(edges, 1).astype(np.int32), None, None)
    return b, of


def _see_each_other(b: Unfinished, relation: int, members: np.ndarray, n_tokens: int) -> np.ndarray:
    """Of ascending nodes; tokens see themselves as well, a node above does not: its descendants see that already. Runs of
    neighbours become blocks; [2][edges] are what stays where there are too many runs."""
    level = np.searchsorted([first for first, _ in b._levels], members, "right")
    runs = np.split(members, np.flatnonzero((np.diff(members) != 1) | (np.diff(level) != 0)) + 1)
    if 8 * len(runs) ** 2 > len(members) ** 2:
        source, destination = np.tile(members, len(members)), np.repeat(members, len(members))
        seen = (source != destination) | (source < n_tokens)
        return np.stack([source[seen], destination[seen]])
    for dst in runs:
        for src in runs:
            shape = "off_diagonal" if dst is src and dst[0] >= n_tokens else "all"
            if shape == "all" or len(dst) > 1:
                b.block(relation, (dst[0], len(dst)), (src[0], len(src)), shape=shape)
    return np.empty((2, 0), np.int64)
