"""What the parts of docs/models.md share: logs and cells of tables."""

import json
import pathlib


def load(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def mean(runs, measure):
    return sum(run[measure] for run in runs) / len(runs)


def spread(runs, measure, digits):
    """The mean; behind it the least and the greatest, where there are several."""
    found = [run[measure] for run in runs]
    said = f"{mean(runs, measure):.{digits}f}"
    return said if len(found) == 1 else f"{said} ({min(found):.{digits}f} to {max(found):.{digits}f})"


def middle(runs, measure, unit):
    """The median, and a dash where nobody measured."""
    found = sorted(run[measure] for run in runs if run[measure] is not None)
    return f"{found[len(found) // 2] * unit:.0f}" if found else "-"


def of(log, name):
    """A variant's row, None without."""
    return next((row for row in log["rows"] if row["name"] == name), None)


def table(heads, rows):
    return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *("| " + " | ".join(row) + " |" for row in rows)])
