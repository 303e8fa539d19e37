"""The table of models that run, made of python/tests/architectures.py, whose types the tests run: python3 docs/architectures_said.py prints it."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))
import architectures  # noqa: E402

TEXT = """`model_type` in a model's config.json says which it is. {n} types run in a test, small and with random weights: outputs are those of the model's own attention within 3e-5.

- `"hga"`, `attn_implementation="hga"`: the model's own attention, faster. Outputs differ in rounding ([python.md](python.md#a-models-own-attention-faster)).
- `"hga:.."`: another attention, such as `"hga:routed:block=16"`.
- `use`: `hga.transformers.use(model)`, for layers that compute their attention by themselves ([python.md](python.md#longformer-led-and-bigbird)).

| reads | `model_type` | `"hga"` | `"hga:.."` |
|---|---|---|---|
{rows}

A type that is not listed runs if it takes its attention from transformers' attention interface and nothing else; otherwise hga refuses it by name. With transformers before 5.24 some types attend by themselves, and are refused so ([older releases](python.md#older-releases)).
"""


def row(reads, types, own, others):
    return f"| {reads} | {', '.join(architectures.SAID.get(name, f'`{name}`') for name in sorted(types))} | {own} | {others} |"


def said():
    rows = []
    for kind, types in architectures.kinds().items():
        reason = architectures.ONLY_OWN.get(kind)
        rows.append(row(kind, types, "runs", f"refused: {reason}" if reason else "runs"))
    rows.append(row("text", architectures.SERVED, "by `use`", f"refused: {architectures.BY_ITSELF}"))
    rows += [row("text", types, f"refused: {reason}", "refused, likewise") for reason, types in architectures.REFUSED.items()]
    n = len(architectures.SERVED) + sum(map(len, architectures.kinds().values()))
    return TEXT.format(n=n, rows="\n".join(rows)).strip()


if __name__ == "__main__":
    print(said())
