"""Operation counts of Amizadeh et al. 2025, Table 3, recomputed: softmax attention against HSA on hopping windows of
2, 4, 8 and 16 nodes, with RoBERTa-base's 768 features and 12 heads.

    python3 examples/python/hsa3.py [--json]

Softmax attention over n tokens costs 4 n^2 d + h n^2. HSA costs (4 d + h) S, where S sums ceil(m / b) min(b, m)^2 over the
levels, m = ceil(m / b) from level to level, and 1 for the root. Exits with 1 where a count disagrees with the paper's."""

import argparse
import json
import sys

DIM, HEADS, WINDOWS = 768, 12, (2, 4, 8, 16)  # the lowest level's window first
# The paper's figures in millions, each with the unit of its last digit: it rounds some and cuts others.
PUBLISHED = [
    ("IMDB", 264, (214.94, 0.01), (4.32, 0.01)),
    ("AGNEWS", 54, (8.99, 0.01), (0.8357, 0.0001)),
    ("CoLA", 12, (0.4441, 0.0001), (0.1912, 0.0001)),
    ("SST-2", 26, (2.08, 0.01), (0.4132, 0.0001)),
    ("MRPC", 55, (9.33, 0.01), (0.8481, 0.0001)),
    ("RTE", 70, (15.11, 0.01), (1.29, 0.01)),
    ("QNLI", 38, (4.45, 0.01), (0.5643, 0.0001)),
]


def softmax_count(n):
    return (4 * DIM + HEADS) * n * n


def hsa_count(n):
    pairs, m = 1, n
    for b in WINDOWS:
        families, size = -(-m // b), min(b, m)
        pairs += families * size**2
        m = families
    return (4 * DIM + HEADS) * pairs


def row_of(data, length, softmax, hsa):
    row = {"data": data, "length": length}
    for name, count, (figure, unit) in (("softmax", softmax_count, softmax), ("hsa", hsa_count, hsa)):
        millions = count(length) / 1e6
        row |= {f"{name}_mflops": millions, f"{name}_paper": figure, f"{name}_agrees": abs(millions - figure) < unit}
    return row


def table(rows):
    yield f"{'data':6s}  length  softmax M   paper  agrees   HSA M   paper  agrees"
    for r in rows:
        agrees = ["yes" if r[f"{name}_agrees"] else "no" for name in ("softmax", "hsa")]
        yield (f"{r['data']:6s}  {r['length']:6d}  {r['softmax_mflops']:9.4f}  {r['softmax_paper']:6g}  {agrees[0]:>6s}"
               f"  {r['hsa_mflops']:6.4f}  {r['hsa_paper']:6g}  {agrees[1]:>6s}")  # fmt: skip


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--json", action="store_true", help="as JSON")
    as_json = a.parse_args().json
    rows = [row_of(*published) for published in PUBLISHED]
    agrees = all(r["softmax_agrees"] and r["hsa_agrees"] for r in rows)
    if as_json:
        print(json.dumps({"schema": 1, "table": "hsa3", "agrees": agrees, "rows": rows}, indent=2))
    else:
        print(*table(rows), sep="\n")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
