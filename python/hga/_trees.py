"""Trees as people have them: linkages of scipy, Markdown, HTML, folders, tables of node and parent."""

from __future__ import annotations

import csv
import io
import os
import pathlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union

import numpy as np

from ._core import check, ffi, lib, refuse, refuse_type, utf8


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
        parent = np.frombuffer(ffi.buffer(t.parent, 4 * n), np.int32).copy()
        kinds = [None if t.kind == ffi.NULL or t.kind[v] >= t.n_kinds else _text(t.kind_name[t.kind[v]]) for v in range(n)]
        return Tree(parent, [_text(lib.hga_tree_name(t, v)) for v in range(n)], kinds)
    finally:
        lib.hga_tree_clear(t)


def of_linkage(linkage: Any) -> Tree:
    if np.ndim(linkage) != 2 or np.shape(linkage)[1] != 4:
        raise refuse(f"a linkage has shape {np.shape(linkage)}: [merges][4] is needed, as scipy.cluster.hierarchy has it")
    try:
        z = np.ascontiguousarray(linkage, np.float64)
    except (TypeError, ValueError) as e:
        raise refuse(f"a linkage: {e}") from None
    return _taken(lambda t: int(lib.hga_tree_linkage(ffi.NULL, ffi.from_buffer("double[]", z) if len(z) else ffi.NULL, len(z), t)))


def _document(document: Any, what: str) -> bytes:
    """The text itself, or what a path's file has."""
    if isinstance(document, pathlib.PurePath):
        return pathlib.Path(document).read_bytes()
    if isinstance(document, str):
        return utf8(document, what)
    if isinstance(document, bytes):
        return document
    raise refuse_type(f"{what} comes as text or as a pathlib.Path, not as {document!r}")


def of_markdown(document: Any) -> Tree:
    text = _document(document, "Markdown")
    return _taken(lambda t: int(lib.hga_tree_markdown(ffi.NULL, text, len(text), t)))


def of_html(document: Any) -> Tree:
    text = _document(document, "HTML")
    return _taken(lambda t: int(lib.hga_tree_html(ffi.NULL, text, len(text), t)))


def of_folder(path: Union[str, "os.PathLike[str]"]) -> Tree:
    """Files are leaves, in the order of their names; folders without files are left out, and links are files."""
    root = pathlib.Path(path)
    if not root.is_dir():
        raise refuse(f"{root}: is no folder")
    tree, parents = Tree(np.empty(0, np.int32), [], []), [-1]
    tree.names.append(root.name or str(root))
    tree.kinds.append("folder")
    waiting = [(entry, 0) for entry in _entries(root)]
    while waiting:
        entry, parent = waiting.pop()
        is_folder = entry.is_dir(follow_symlinks=False)
        waiting += [(below, len(parents)) for below in _entries(entry.path)] if is_folder else []
        parents.append(parent)
        tree.names.append(entry.name)
        tree.kinds.append("folder" if is_folder else "file")
    return _with_files(tree._replace(parent=np.array(parents, np.int32)), root)


def _entries(path: Union[str, "os.PathLike[str]"]) -> List["os.DirEntry[str]"]:
    """The last name first."""
    with os.scandir(path) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)


def _with_files(tree: Tree, root: pathlib.Path) -> Tree:
    """Without the folders that have no file below them; parents stand before their children."""
    there = np.array([kind == "file" for kind in tree.kinds])
    for v in range(len(there) - 1, 0, -1):
        there[tree.parent[v]] |= there[v]
    if not there[0]:
        raise refuse(f"{root}: has no files")
    number = np.append(np.cumsum(there, dtype=np.int32) - 1, np.int32(-1))  # the last one: no parent's
    names, kinds = ([x for x, is_there in zip(of, there) if is_there] for of in (tree.names, tree.kinds))
    return Tree(number[tree.parent[there]], names, kinds)


def _cells(path: Union[str, "os.PathLike[str]"]) -> List[List[str]]:
    """Of each line."""
    try:
        reader = csv.reader(io.StringIO(pathlib.Path(path).read_bytes().decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError as e:
        raise refuse(f"{path}: is not UTF-8: {e.reason} at byte {e.start}") from None
    try:
        return [[cell.strip() for cell in line] for line in reader]
    except csv.Error as e:
        raise refuse(f"{path}, line {reader.line_num}: {e}") from None


def of_table(path: Union[str, "os.PathLike[str]"]) -> Tree:
    """Lines of node and parent, names of any sort; roots have no parent, or -1. Nodes are numbered as lines name them first, and
    a first line "node,parent" is no node."""
    lines = _cells(path)
    number: Dict[str, int] = {}
    said: List[int] = []
    for at, line in enumerate(lines, 1):
        if not line or (at == 1 and [cell.lower() for cell in line] == ["node", "parent"]):
            continue
        if len(line) != 2 or not line[0]:
            raise refuse(f"{path}, line {at}: {','.join(line)!r} is not a node and its parent")
        if line[0] == "-1":
            raise refuse(f"{path}, line {at}: no node is called -1, which as a parent means that there is none")
        for name in line:
            if name not in ("", "-1") and number.setdefault(name, len(said)) == len(said):
                said.append(-2)
        if said[number[line[0]]] != -2:
            raise refuse(f"{path}, line {at}: node {line[0]!r} has a parent already")
        said[number[line[0]]] = -1 if line[1] in ("", "-1") else number[line[1]]
    if not said:
        raise refuse(f"{path}: has no nodes")
    return Tree(np.array([-1 if p == -2 else p for p in said], np.int32), list(number), [None] * len(said))
