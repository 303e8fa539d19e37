"""Whether a hierarchy suits given queries and keys: the numerical rank of each block of A = exp(scores), as in section 4 of
the H-Transformer-1D paper.

    python3 examples/python/rank_map.py --query Q.npy --key K.npy [--head 0] [--block 16] [--tolerance 1e-3] [-o MAP.svg]
    python3 examples/python/rank_map.py --example

The rank of a block is the least r such that its singular values after the first r sum up to less than the tolerance. Any
number of tokens and any block size: the last blocks are as small as they come. Prints the map, what each level stores, and
which block sizes have the rank that the scores need; -o draws the map. Exit status: 2 wrong usage, 3 bad input."""

import argparse
import html
import json
import math
import sys
from typing import NamedTuple

import numpy as np

MOST_TOKENS, MOST_CELLS = 16384, 32


class Wrong(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Block(NamedTuple):
    level: int  # -1: near
    row: int
    column: int
    rows: int
    columns: int

    @property
    def shorter(self):
        return min(self.rows, self.columns)


# ---- scores ----


def read_tensor(path, layout):
    """[rows][heads][dim]"""
    try:
        x = np.load(sys.stdin.buffer if path == "-" else path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise Wrong(3, f"{path}: {e}") from None
    if x.ndim == 4 and layout.startswith("b"):
        if len(x) != 1:
            raise Wrong(3, f"{path}: is a batch of {len(x)}; one sample is needed here")
        x = x[0]
    if x.ndim not in (2, 3) or not np.issubdtype(x.dtype, np.floating):
        raise Wrong(3, f"{path}: is {x.dtype} of {x.ndim} axes; rows of floating point numbers are needed")
    if not np.isfinite(x).all():
        raise Wrong(3, f"{path}: has a number that is not finite")
    x = x[:, None] if x.ndim == 2 else x
    return x.swapaxes(0, 1) if layout.endswith("hnd") else x


def check(a, q, k):
    if k.shape[2] != q.shape[2]:
        raise Wrong(3, f"{a.key}: has dim {k.shape[2]}, the query in {a.query} has {q.shape[2]}")
    if k.shape[0] != q.shape[0]:
        raise Wrong(3, f"{a.key}: has {k.shape[0]} rows, the query in {a.query} has {q.shape[0]}; a rank map is of self-attention")
    if q.shape[1] % k.shape[1]:
        raise Wrong(3, f"{a.key}: has {k.shape[1]} heads, which do not divide the query's {q.shape[1]}")
    if (a.head or 0) >= q.shape[1]:
        raise Wrong(2, f"--head: {a.head}, but {a.query} has {q.shape[1]} heads, counted from 0")
    if q.shape[0] > MOST_TOKENS:
        raise Wrong(3, f"{a.query}: has {q.shape[0]} rows; singular values of more than {MOST_TOKENS} take too long")


def scores_of(a):
    """Scores in double, and the factor that they have; of the paper's example (12) no factor."""
    if a.example:
        apart = np.subtract.outer(np.arange(16.0), np.arange(16.0))
        return 2 * np.exp(-(apart**2)) - 1, None
    q, k = read_tensor(a.query, a.layout), read_tensor(a.key, a.layout)
    check(a, q, k)
    head, scale = a.head or 0, 1 / math.sqrt(q.shape[2]) if a.scale is None else a.scale
    one = k[:, head // (q.shape[1] // k.shape[1])].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return scale * (q[:, head].astype(np.float64) @ one.T), scale


# ---- the partition ----


def siblings(n, block):
    """Equation (9): at level l the two halves of each block of 2^(l + 1) leaf blocks see each other."""
    yield from ((-1, block, i, i) for i in range(-(-n // block)))
    level, size = 0, block
    while size < n:
        for i in range(0, -(-n // size), 2):
            yield from ((level, size, i, i + 1), (level, size, i + 1, i))
        level, size = level + 1, 2 * size


def neighbours(n, block):
    """Equations (16) to (19) without the overlap: leaf blocks see themselves and the next ones; of two adjacent blocks, each
    of two halves, the halves that do not touch see each other. Those that touch are one level finer, or near."""
    for i in range(-(-n // block)):
        yield from ((-1, block, i, i), (-1, block, i, i + 1), (-1, block, i + 1, i))
    level, size = 1, block
    while 2 * size < n:
        for i in range(0, -(-n // size), 2):
            for x, y in ((i, i + 2), (i, i + 3), (i + 1, i + 3)):
                yield from ((level, size, x, y), (level, size, y, x))
        level, size = level + 1, 2 * size


def cut(n, block, structure):
    """Every pair of tokens in one block; near blocks first, then level by level, row by row."""
    found = ((level, i * size, j * size, size) for level, size, i, j in structure(n, block))
    return sorted(Block(level, r, c, min(size, n - r), min(size, n - c)) for level, r, c, size in found if r < n and c < n)


# ---- ranks ----


def rank_of(scores, b, a):
    x = scores[b.row : b.row + b.rows, b.column : b.column + b.columns]
    bad = ~np.isfinite(x)
    high = np.zeros_like(bad) if a.relative else x > math.log(sys.float_info.max) - 60
    if (bad | high).any():
        i, j = np.argwhere(bad | high)[0]
        name = f"the score of query {b.row + i} and key {b.column + j} is"
        if bad[i, j]:
            raise Wrong(3, f"{name} not finite")
        raise Wrong(3, f"{name} {x[i, j]:g}, its exponential too large to compute with; --relative needs none")
    # what is subtracted changes all singular values by one factor
    sigma = np.linalg.svd(np.exp(x - (x.max() if a.relative else 0)), compute_uv=False)
    sigma = sigma[sigma > sigma[0] * np.finfo(float).eps * max(x.shape)]  # what rounding leaves of a zero
    rest = np.cumsum(sigma[::-1])  # the smallest first, so that nothing is lost
    return len(sigma) - int((rest < a.tolerance * (sigma[0] if a.relative else 1)).sum())


def stored(b, rank):
    """Numbers kept: all of a near block, else of the block or of its two factors, whichever are fewer."""
    return b.rows * b.columns if b.level < 0 else min(b.rows * b.columns, rank * (b.rows + b.columns))


# ---- what they come to ----


class Map:
    def __init__(self, a, scores, scale):
        self.a, self.n, self.scale, self.siblings = a, len(scores), scale, a.structure == "siblings"
        self.blocks = cut(self.n, a.block, siblings if self.siblings else neighbours)
        self.ranks = [rank_of(scores, b, a) for b in self.blocks]

    @property
    def pairs(self):
        return list(zip(self.blocks, self.ranks))

    @property
    def stored(self):
        return sum(stored(b, r) for b, r in self.pairs)

    def title(self):
        what = f"{self.a.query.rsplit('/', 1)[-1]}: exp({self.scale:g} q.k), head {self.a.head or 0}" if self.a.query else "exp(2 exp(-(i - j)^2) - 1)"
        share = " sigma_1" if self.a.relative else ""
        return f"{what}; {self.n} tokens, blocks of {self.a.block}, {self.a.structure}; tolerance {self.a.tolerance:g}{share}"

    def levels(self):
        rows = []
        for level in sorted({b.level for b in self.blocks}):
            of = [(b, r) for b, r in self.pairs if b.level == level]
            ranks = [r for _, r in of]
            size = self.a.block if level < 0 else (self.a.block << level) // (1 if self.siblings else 2)
            rows.append({"blocks_of": "near" if level < 0 else f"level {level}", "level": level, "size": size, "blocks": len(of),
                         "rank_least": min(ranks), "rank_mean": sum(ranks) / len(ranks), "rank_most": max(ranks),
                         "full_rank": sum(r == b.shorter for b, r in of), "entries": sum(b.rows * b.columns for b, _ in of),
                         "stored": sum(stored(b, r) for b, r in of)})  # fmt: skip
        return rows

    def near_entries(self, block):
        own = [min(block, self.n - first) for first in range(0, self.n, block)]
        beside = 0 if self.siblings else sum(2 * x * y for x, y in zip(own, own[1:]))
        return sum(x * x for x in own) + beside

    def block_sizes(self):
        """What other block sizes would mean: blocks that are far at a coarser size are the same ones."""
        rows, doublings = [], 0
        while doublings == 0 or self.a.block << doublings < self.n:
            block = self.a.block << doublings
            far = [(b, r) for b, r in self.pairs if b.level >= 0 and b.level >= doublings + (not self.siblings)]
            kept = self.near_entries(block) + sum(stored(b, r) for b, r in far)
            needed = max((r for b, r in far if b.level > doublings), default=None)
            has = block if self.siblings else (block + 1) // 2
            rows.append({"block": block, "rank_needed": needed, "rank_kept": has, "enough": needed is None or needed <= has,
                         "stored": kept, "compression": self.n**2 / kept})  # fmt: skip
            doublings += 1
        return rows

    def least(self):
        """The smallest block size that has the rank, and whether it leaves nothing far away."""
        sizes = self.block_sizes()
        for row in sizes:
            if row["enough"]:
                return row["block"], row["block"] >= self.n or row["rank_needed"] is None
        return self.a.block << len(sizes) if self.a.block < self.n else self.a.block, True

    def as_json(self):
        whole = {"schema": 1, "tokens": self.n, "head": self.a.head or 0, "scale": self.scale, "block": self.a.block, "structure": self.a.structure,
                 "tolerance": self.a.tolerance, "relative": self.a.relative, "entries": self.n**2, "stored": self.stored,
                 "compression": self.n**2 / self.stored, "least_block": self.least()[0], "levels": self.levels(),
                 "block_sizes": self.block_sizes()}  # fmt: skip
        blocks = [{"near": b.level < 0, **b._asdict(), "rank": r, "stored": stored(b, r)} for b, r in self.pairs]
        return whole | {"blocks": blocks}


# ---- as text ----


def table(rows, columns):
    """Lines; texts stand left, numbers right."""
    cells = [[heading for _, heading, _ in columns]]
    for row in rows:
        values = [row[key] for key, _, _ in columns]
        cells.append(["-" if v is None else ("yes" if v else "no") if isinstance(v, bool) else v if isinstance(v, str) else format(v, f)
                      for v, (_, _, f) in zip(values, columns)])  # fmt: skip
    left = [isinstance(rows[0][key], str) for key, _, _ in columns]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(c.ljust(w) if l else c.rjust(w) for c, w, l in zip(line, widths, left)) for line in cells]


LEVELS = [("blocks_of", "blocks", ""), ("size", "side", "d"), ("blocks", "number", "d"), ("rank_least", "least rank", "d"), ("rank_mean", "mean", ".2f"),
          ("rank_most", "most", "d"), ("full_rank", "full rank", "d"), ("entries", "entries", "d"), ("stored", "stored", "d")]  # fmt: skip
SIZES = [("block", "block", "d"), ("rank_needed", "rank needed far away", "d"), ("rank_kept", "rank htransformer keeps", "d"), ("enough", "enough", ""),
         ("stored", "stored", "d"), ("compression", "compression", ".3f")]  # fmt: skip


def grid(m):
    """Each block's rank where its first row and column meet, a point where the block goes on."""
    cells = -(-m.n // m.a.block)
    if cells > MOST_CELLS:
        return [f"The map has {cells} x {cells} blocks; -o FILE.svg draws it."]
    at = {(b.row // m.a.block, b.column // m.a.block): r for b, r in m.pairs}
    return ["".join(f"{at.get((i, j), '.'):>5}" for j in range(cells)) for i in range(cells)]


def advice(m):
    least, sees_all = m.least()
    yield '"stored": a near block whole, a far one as itself or as two factors of its rank, whichever are fewer numbers.'
    most = "block" if m.siblings else "block / 2"
    yield f"htransformer with structure={m.a.structure} represents a far block by averages, a matrix of rank at most {most}."
    if sees_all:
        yield (f"No hierarchy keeps these scores at tolerance {m.a.tolerance:g}: no block size leaves blocks far away and has the rank "
               f"that they need. block={least}\nsees every pair exactly, as dense attention does.")  # fmt: skip
    else:
        yield (f"On these scores block={least} is the smallest of those above with the rank that tolerance {m.a.tolerance:g} needs. That is "
               "necessary, not sufficient: the singular\nvectors are the best factors there are, averages are given. `hga choose` measures "
               "the error itself.")  # fmt: skip


def report(m):
    yield m.title() + "\n"
    yield from [*grid(m), "", *table(m.levels(), LEVELS), ""]
    yield f"stored {m.stored} of {m.n**2} entries: compression {m.n**2 / m.stored:.4g}\n"
    yield from [*table(m.block_sizes(), SIZES), "", *advice(m)]


# ---- as a picture ----

SIDE, LEFT, TOP, RIGHT, BELOW = 720, 84, 60, 24, 104
RAMP = [(0xE8, 0xF0, 0xFA), (0xB1, 0xC3, 0xDA), (0x7A, 0x96, 0xB9), (0x42, 0x69, 0x99), (0x0B, 0x3C, 0x78)]
STYLE = """<style>
.hga{font-family:system-ui,sans-serif}
.hga .page{fill:#fff}.hga .ink{fill:#1b1f27}.hga .page-line{stroke:#fff}.hga .ink-line{stroke:#1b1f27}
@media (prefers-color-scheme:dark){.hga .page{fill:#14171d}.hga .ink{fill:#e6e9ef}.hga .page-line{stroke:#14171d}.hga .ink-line{stroke:#e6e9ef}}
</style>"""
FRAME = 'class="ink-line" fill="none" stroke-opacity="0.55" stroke-width="1"'


def short(x):
    return f"{x:.2f}".rstrip("0").rstrip(".")


def colour(share):
    i = min(int(share * 4), 3)
    return "#" + "".join(f"{int(a + (b - a) * (share * 4 - i) + 0.5):02x}" for a, b in zip(RAMP[i], RAMP[i + 1]))


def label(x, y, text, anchor="", size=12, more=""):
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    opacity = ' fill-opacity="0.75"' if size == 12 else ""
    return f'<text x="{short(x)}" y="{short(y)}" font-size="{size}" class="ink"{opacity}{anchor}{more}>{html.escape(text)}</text>'


def draw_block(m, b, rank):
    unit, share = SIDE / m.n, rank / b.shorter
    x, y, wide, high = LEFT + b.column * unit, TOP + b.row * unit, b.columns * unit, b.rows * unit
    yield (f'<rect x="{short(x)}" y="{short(y)}" width="{short(wide)}" height="{short(high)}" class="block" fill="{colour(share)}" stroke="#ffffff" '
           f'stroke-width="{short(min(1.5, 0.1 * SIDE * m.a.block / m.n))}"><title>queries {b.row} to {b.row + b.rows - 1}, '
           f'keys {b.column} to {b.column + b.columns - 1}: rank {rank}</title></rect>')  # fmt: skip
    size = min(wide / (len(str(rank)) + 1) * 1.6, high * 0.6, 28)
    if size >= 9:  # pixels that a digit needs
        ink = "#ffffff" if share > 0.5 else "#10233f"
        yield (f'<text x="{short(x + wide / 2)}" y="{short(y + high / 2 + size * 0.35)}" font-size="{short(size)}" fill="{ink}" '
               f'text-anchor="middle">{rank}</text>')  # fmt: skip


def draw_axes(n):
    step = next(s for e in range(9) for s in (10**e, 2 * 10**e, 5 * 10**e) if n // s <= 12)
    for i in range(0, n, step):
        at = math.floor(LEFT + i * SIDE / n) + 0.5
        yield f'<polyline points="{at},{TOP + SIDE + 1} {at},{TOP + SIDE + 6}" {FRAME}/>'
        yield label(LEFT + i * SIDE / n, TOP + SIDE + 19, str(i), "middle")
    for i in range(0, n, step):
        at = math.floor(TOP + i * SIDE / n) + 0.5
        yield f'<polyline points="{LEFT - 6},{at} {LEFT - 1},{at}" {FRAME}/>'
        yield label(LEFT - 9, TOP + i * SIDE / n + 4, str(i), "end")
    yield f'<rect x="{LEFT - 0.5}" y="{TOP - 0.5}" width="{SIDE + 1}" height="{SIDE + 1}" {FRAME}/>'
    yield label(LEFT + SIDE / 2, TOP + SIDE + 40, "key", "middle")
    x, y = LEFT - 52, TOP + SIDE / 2
    yield label(x, y, "query", "middle", more=f' transform="rotate(-90 {x:.2f} {y:.2f})"')


def draw(m):
    wide, high = LEFT + SIDE + RIGHT, TOP + SIDE + BELOW
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="hga" viewBox="0 0 {wide} {high}" role="img" width="{wide}" height="{high}">'
    yield f"<title>{html.escape(m.title())}</title>\n{STYLE}"
    yield f'<rect x="0" y="0" width="{wide}" height="{high}" class="page"/>'
    yield label(LEFT, 36, m.title(), size=15)
    for b, rank in m.pairs:
        yield from draw_block(m, b, rank)
    yield from draw_axes(m.n)
    y = TOP + SIDE + 64
    for i in range(11):
        yield f'<rect x="{LEFT + 20 * i}" y="{y}" width="20" height="14" fill="{colour(i / 10)}"/>'
    yield label(LEFT + 232, y + 12, "rank as a share of the block's side: 0 to 1")
    yield "</svg>"


# ---- the command line ----


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Wrong(2, message)


def parse():
    p = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("--query", metavar="FILE", help="query tensor, [rows][dim] or [rows][heads][dim]; - is standard input")
    p.add_argument("--key", metavar="FILE", help="key tensor of as many rows; its heads divide the query's")
    p.add_argument("--scale", metavar="S", type=float, help="factor of q . k (default: 1 / sqrt(dim))")
    p.add_argument("--head", metavar="H", type=int, help="the query head, from 0 (default: 0)")
    p.add_argument("--example", action="store_true", help="the paper's example instead, (11) and (12), 16 tokens in blocks of 4")
    p.add_argument("--tolerance", metavar="E", type=float, default=1e-3, help="what singular values that are left out may sum up to (default: 1e-3)")
    p.add_argument("--relative", action="store_true", help="the tolerance is a share of the block's largest singular value (default: a number)")
    p.add_argument("--block", metavar="C", type=int, help="tokens in a block of the finest level (default: 16)")
    p.add_argument("--structure", metavar="NAME", default="siblings", help="siblings, as in (9), or neighbours, as in (16)-(19) (default: siblings)")
    p.add_argument("--layout", metavar="L", default="nhd", choices=("nhd", "hnd", "bnhd", "bhnd"), help="of the tensors; hnd: heads first (default: nhd)")
    p.add_argument("--json", action="store_true", help="as JSON")
    p.add_argument("-o", dest="out", metavar="FILE.svg", help="draw the map")
    return p.parse_args()


def settle(a):
    if a.example and (a.query or a.key or a.scale is not None or a.head is not None):
        raise Wrong(2, "--example has scores of its own: no --query, --key, --scale or --head")
    for name in ("query", "key"):
        if not a.example and not getattr(a, name):
            raise Wrong(2, f"--{name} FILE is missing" + (" (or --example)" if name == "query" else ""))
    if not a.tolerance > 0:
        raise Wrong(2, f"--tolerance: {a.tolerance:g} is not above 0")
    a.block = a.block if a.block is not None else 4 if a.example else 16
    if not 1 <= a.block <= MOST_TOKENS:
        raise Wrong(2, f"--block: {a.block} is not in 1 .. {MOST_TOKENS}")
    if (a.head or 0) < 0:
        raise Wrong(2, f"--head: {a.head} is below 0")
    if a.structure not in ("siblings", "neighbours"):
        raise Wrong(2, f"--structure: '{a.structure}' is not one of: siblings neighbours")
    if a.out and not a.out.endswith(".svg"):
        raise Wrong(2, f"-o: '{a.out}' does not end in .svg")


def main():
    try:
        a = parse()
        settle(a)
        m = Map(a, *scores_of(a))
        if a.out:
            with open(a.out, "w", encoding="utf-8") as file:
                file.write("\n".join(draw(m)) + "\n")
        print(json.dumps(m.as_json(), indent=2) if a.json else "\n".join(report(m)))
    except Wrong as e:
        print(f"rank_map: {e}", file=sys.stderr)
        return e.status
    except OSError as e:
        print(f"rank_map: {e.filename}: {e.strerror}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
