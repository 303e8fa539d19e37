"""Which hierarchy is near dense attention on tensors of one's own: the tool's ``hga choose``."""

from __future__ import annotations

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import warnings
from typing import IO, Any, Dict, List, Optional, cast

import numpy as np

from .._core.arguments import answered, encoded, flag, number, threads as whole_threads, whole
from .._core.call import require_layout
from .._core.arrays import as_numpy, widened
from .._core.library import refuse
from .._core.precision import of_tool
from .._core.progress import Tell, bar, silent

COLUMNS = (
    ("variant", "variant", "{}"), ("parameters", "parameters", "{}"), ("rel L2", "relative_l2", "{:.5f}"), ("KL", "mean_kl", "{:.5f}"),
    ("edges/token", "edges_per_token", "{:.1f}"), ("ms", "seconds", "{:.3f}"), ("x dense", "speedup", "{:.2f}"), ("front", "front", "{}"),
)  # fmt: skip


class Candidates(List[Dict[str, Any]]):
    """Variants beside dense attention, by error: a list of rows, whose members are those of ``hga choose --json``. It prints as
    a table; a notebook shows the table and the plot."""

    plot = ""  # error against time and FLOP, an SVG

    def _cells(self) -> List[List[str]]:
        return [[name for name, _, _ in COLUMNS]] + [[how.format(1e3 * row[key] if name == "ms" else row[key]) for name, key, how in COLUMNS] for row in self]

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
        words = [how == "{}" for _, _, how in COLUMNS]
        return "\n".join("  ".join(c.ljust(w) if left else c.rjust(w) for c, w, left in zip(row, widths, words)).rstrip() for row in cells)

    def _repr_html_(self) -> str:
        head, *rows = ("".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in row) for row, tag in zip(self._cells(), ["th", *["td"] * len(self)]))
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{self.plot}"


def _tool() -> str:
    """The command hga: that of the wheel, else that of the environment's HGA_TOOL, else the one on the PATH."""
    own = pathlib.Path(__file__).parent.parent / "bin" / "hga"
    found = str(own) if own.exists() else os.environ.get("HGA_TOOL") or shutil.which("hga")
    if not found:
        raise refuse("hga.choose runs the command hga, which is neither in the package nor on the PATH")
    return found


def _heard(errors: IO[str], tell: Tell) -> str:
    """What the tool says on stderr, but for how many candidates are done."""
    said = ""
    for line in errors:
        done = re.fullmatch(r"(\d+) of (\d+) candidates\n", line)
        if done:
            tell(int(done[1]) / int(done[2]))
        else:
            said += line
    return said.strip()


def _run(arguments: List[str], folder: str, progress: Optional[bool]) -> List[Dict[str, Any]]:
    """The rows that the tool gives."""
    tool, rows = _tool(), pathlib.Path(folder, "rows.json")
    with bar("candidates", progress) as tell, rows.open("wb") as out:
        command = [tool, "choose", *arguments, *([] if tell is silent else ["--progress"])]
        try:
            run = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, encoding="utf-8", errors="backslashreplace")
        except OSError as e:
            raise refuse(f"hga.choose runs {tool}: {e.strerror}") from None
        with run:
            try:
                said = _heard(cast(IO[str], run.stderr), tell)
            except BaseException:
                run.kill()
                raise
    if said and not run.returncode:
        warnings.warn(said, stacklevel=4)
    if run.returncode:
        said = said.split("\n")[0].replace("hga: ", "", 1) or f"hga.choose runs {tool}, which ended with {run.returncode}"
        raise refuse(re.sub(r"^--(?=\w)", "", re.sub(re.escape(folder) + r"/(\w+)\.npy", r"\1", said)))  # files are the arrays' names
    return _rows(rows.read_text(encoding="utf-8", errors="backslashreplace"), tool)


def _rows(said: str, tool: str) -> List[Dict[str, Any]]:
    try:
        found: List[Dict[str, Any]] = json.loads(said)["rows"]
        for row in found:
            for _, key, _ in COLUMNS:
                row[key]
    except (ValueError, KeyError, TypeError):
        raise refuse(f"hga.choose runs {tool}, which gave other rows than those of this release") from None
    return found


def _written(x: Any, name: str, folder: str) -> str:
    """The option that names an array, which is written to a file."""
    a = as_numpy(x, name)
    if name not in ("sink", "slopes") and a.ndim not in (2, 3):
        raise refuse(f"{name} has shape {a.shape}: hga.choose takes one sample, of three axes or [tokens][dim]")
    path = os.path.join(folder, f"{name}.npy")
    np.save(path, np.ascontiguousarray(widened(a)))
    return f"--{name}={path}"


@answered
def choose(q: Any, k: Any, v: Any, *, causal: bool = False, layout: str = "bhnd", scale: Optional[float] = None, softcap: Optional[float] = None,
           sink: Any = None, slopes: Any = None, normaliser: Optional[str] = None, variants: Optional[str] = None,
           seconds: float = 0.25, seed: int = 1, precision: str = "auto", threads: int = 0,
           progress: Optional[bool] = None) -> Candidates:  # fmt: skip
    """Variants and their parameters beside dense attention on one sample's tensors, [heads, tokens, dim] (layout "bhnd") or
    [tokens, heads, dim] ("bnhd"): error, edges, time. seconds: of repeats for each; variants: names with commas between them, all
    without; seed: of hyperplanes; progress: a bar of tqdm over the candidates, as ``Graph.coarsen`` has one. scale, softcap, sink,
    slopes and normaliser are those of ``Hierarchy.attention`` and apply to all, dense attention among them; a warning names variants
    that cannot have them and are left out. precision: as there, by the types of q, k and v. It runs the command ``hga choose``, which a wheel has."""
    require_layout(layout)
    arguments = ["--json", "--quiet", f"--seconds={number(seconds, 'seconds')}", f"--seed={whole(seed, 'seed')}", f"--precision={of_tool(precision, normaliser, q, k, v)}"]
    arguments += [f"--layout={'hnd' if layout == 'bhnd' and np.ndim(q) > 2 else 'nhd'}"]
    arguments += ["--causal"] if flag(causal, "causal") else []
    arguments += [f"--{name}={number(x, name)}" for name, x in (("scale", scale), ("softcap", softcap)) if x is not None]
    words = (("normaliser", normaliser), ("variants", variants))
    arguments += [f"--{name}={encoded(x, name).decode()}" for name, x in words if x is not None]
    arguments += [f"--threads={threads}"] if whole_threads(threads) else []
    with tempfile.TemporaryDirectory() as folder:
        of_heads = [(name, x) for name, x in (("sink", sink), ("slopes", slopes)) if x is not None]
        files = [_written(x, name, folder) for name, x in (("query", q), ("key", k), ("value", v), *of_heads)]
        plot = os.path.join(folder, "plot.svg")
        found = Candidates(_run([*arguments, *files, "-o", plot], folder, progress))
        found.plot = pathlib.Path(plot).read_text(encoding="utf-8")
    return found
