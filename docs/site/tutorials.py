"""Tutorials as pages: a notebook's cells with what they put out, and a C program whose comments tell what its parts do."""

import base64
import json
import re


def of_notebook(path, folder):
    """Text cells, code cells and stored outputs; pictures become files of the folder."""
    pieces = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            pieces.append(source)
            continue
        pieces.append(f"```python\n{source}\n```")
        for i, output in enumerate(cell["outputs"]):
            pieces.append(shown(output, folder, f"tutorial-{number}-{i}"))
    return "\n\n".join(filter(None, pieces)) + "\n"


def shown(output, folder, name):
    """One output: a picture where there is one, else its text."""
    data = output.get("data", {})
    (folder / "static").mkdir(exist_ok=True)
    for kind, suffix in (("image/svg+xml", "svg"), ("image/png", "png")):
        if kind in data:
            content = data[kind] if isinstance(data[kind], str) else "".join(data[kind])
            (folder / f"{name}.{suffix}").write_bytes(content.encode() if suffix == "svg" else base64.b64decode(content))
            return f'```{{image}} {name}.{suffix}\n:alt: what the cell shows\n```'
    words = output.get("text") or data.get("text/plain") or ""
    words = (words if isinstance(words, str) else "".join(words)).rstrip()
    return f"````{{container}} notebook-output\n```text\n{words}\n```\n````" if words else ""


def of_program(path, _):
    """Comments that begin a line are prose, the first line of the first one the title; what is between them is code."""
    parts = re.split(r"^/\*(.*?)\*/\n", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    pieces = []
    for i, part in enumerate(parts):
        if i % 2:
            paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", part)]
            if i == 1:
                paragraphs[0] = f"# {paragraphs[0]}"
            pieces += paragraphs
        elif part.strip():
            pieces.append("```c\n" + part.strip("\n") + "\n```")
    return "\n\n".join(pieces) + "\n"
