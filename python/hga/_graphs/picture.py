"""The attention pattern as a picture, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .hierarchy import Hierarchy

COLOURS = ("#1b6ca8", "#e07b39", "#3a9679", "#b0413e", "#7b5ea7", "#8a6d3b", "#c06c84", "#4f6d7a")
MOST = 2000


def svg(h: "Hierarchy", size: int = 360) -> str:
    """Query tokens go down, key tokens across; a colour for each level of sources. The largest MOST rectangles."""
    patches = sorted(h.patches(), key=lambda p: -p["n_queries"] * p["n_keys"])
    n = max(1, h.n_tokens)
    unit = size / n
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size + 22}" viewBox="0 0 {size} {size + 22}">',
        f'<rect width="{size}" height="{size}" fill="#8881"/>',
    ]
    for p in patches[:MOST]:
        x, y, w, d = (p[name] * unit for name in ("key", "query", "n_keys", "n_queries"))
        colour = COLOURS[p["source_level"] % len(COLOURS)]
        lines.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{d:.2f}" fill="{colour}" fill-opacity=".75"/>')
    left = f", {len(patches) - MOST} small rectangles left out" if len(patches) > MOST else ""
    text = f"{h.n_tokens} tokens, {h.graph.n_nodes} nodes{left}"
    lines.append(f'<text x="0" y="{size + 16}" font-family="sans-serif" font-size="12" fill="#888">{text}</text></svg>')
    return "\n".join(lines)
