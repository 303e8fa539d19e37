"""Every hierarchy with its picture, as one page: python3 gallery.py PAGE.html [TOKENS]

Queries go down, keys across; a colour for each level of the nodes that are attended to."""

import html
import sys
from typing import Any, Dict, List, Tuple

import hga
import numpy as np


def settings(n: int) -> Dict[str, List[Tuple[str, Dict[str, Any]]]]:
    """What shows each variant well."""
    leaf = np.arange(n) * 7 % 8
    segment = np.arange(n) // max(1, n // 6)
    return {
        "dense": [("", {}), ("causal", {"causal": True})],
        "window": [("left=4, right=4", {"left": 4, "right": 4}), ("two global tokens", {"left": 2, "right": 2, "global_": 2})],
        "bpt": [("k=2", {"k": 2}), ("k=2, causal", {"k": 2, "causal": True})],
        "htransformer": [("block=4", {"block": 4}), ("siblings", {"block": 4, "structure": "siblings"})],
        "hsa": [("branching 2, 4", {"branching": [2, 4]}), ("branching 8", {"branching": [8]})],
        "treeformer-fine": [("8 leaves", {"query_leaf": leaf, "height": 3})],
        "treeformer-coarse": [("8 leaves", {"query_leaf": leaf, "height": 3, "alpha": np.full(4, 0.25, np.float32)})],
        "fenwick": [("", {})],
        "dilated": [("8, 32 by 1, 4", {"segments": [8, 32], "dilations": [1, 4]})],
        "segments": [("six segments", {"query_segment": segment})],
    }


def page(n: int) -> str:
    parts = ["<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=color-scheme content='light dark'><title>Hierarchies</title>",
             "<style>body{font:15px/1.5 sans-serif;max-width:62em;margin:2em auto;padding:0 1em}figure{display:inline-block;margin:0 1.5em 1em 0}</style>",
             "<h1>Hierarchies</h1>"]  # fmt: skip
    for name, variant in hga.variants().items():
        parts.append(f"<h2>{html.escape(name)}</h2><p>{html.escape(f'{variant.says} ({variant.paper})')}</p>")
        for words, parameters in settings(n).get(name, []):
            h = getattr(hga, name.replace("-", "_"))(n, **parameters)
            numbers = f"{words or 'defaults'}: {h.graph.n_nodes} nodes, {sum(h.inspect()['edges'].values())} edges"
            parts.append(f"<figure>{h._repr_svg_()}<figcaption>{html.escape(numbers)}</figcaption></figure>")
    return "\n".join(parts) + "</html>\n"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("gallery.py PAGE.html [TOKENS]")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(page(int(sys.argv[2]) if len(sys.argv) > 2 else 64))
