"""Pages of the Python package, one a function: python_pages.py SOURCE FOLDER, from what docs/python_reference.py lists and the docstrings say."""

import ast
import inspect
import pathlib
import re
import sys

import hga
from python_reference import CLASSES, FUNCTIONS, signature


def prose(words):
    """A docstring's words as Markdown: what looks like code is."""
    words = re.sub(r"``?([^`]+)``?", r"`\1`", words)
    return re.sub(r"([*_<>\[\]])(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\\\1", words)


def doc(thing):
    """A docstring, its paragraphs; lines that are set in are code."""
    said = inspect.getdoc(thing) or ""
    blocks = []
    for block in re.split(r"\n\s*\n", said):
        if block.startswith("    "):
            blocks.append("```python\n" + inspect.cleandoc(block) + "\n```")
        else:
            blocks.append(prose(" ".join(block.split())))
    return "\n\n".join(blocks)


class Pages:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = ["# Python reference", "", "Each function has a page of its own. [python.md](../python.md) is the introduction, [How to ..](../howto-python.md) has examples.", "",
                      "Arrays are float32, float16 or bfloat16 on the CPU. What is refused raises `hga.Error`, with `status` (the C library's, such as HGA_EINVAL) and `detail`.", ""]  # fmt: skip

    def page(self, name, kind, head, body, up="[Python reference](index.md)"):
        lines = ["---", "orphan: true", "---", "", f"# {name}", "", up, "", "```{py:" + kind + "} " + head, "```", "", body, ""]
        (self.folder / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")

    def table(self, title, rows):
        self.lines += [f"## {title}", "", "| | |", "|---|---|"] + [f"| [`{short}`]({name}.md) | {first_sentence(said)} |" for short, name, said in rows] + [""]

    def variants(self):
        rows = []
        for variant in sorted(hga.variants()):
            f = getattr(hga, variant.replace("-", "_"))
            head, _, *parameters = inspect.getdoc(f).splitlines()
            name = f"hga.{f.__name__}"
            body = prose(head[:1].upper() + head[1:]) + "\n\n" + "\n".join(f"- {prose(line)}" for line in parameters)
            body += f"\n\nIt gives a [`hga.Hierarchy`](hga.Hierarchy.md). [What this hierarchy is](../{variant}.md), with a picture and its equations."
            self.page(name, "function", name + signature(f), body)
            rows.append((name, name, head[:1].upper() + head[1:]))
        self.table("Hierarchies", rows)

    def functions(self):
        rows = []
        for function in FUNCTIONS:
            f = getattr(hga, function)
            self.page(f"hga.{function}", "function", f"hga.{function}{signature(f)}", doc(f))
            rows.append((f"hga.{function}", f"hga.{function}", inspect.getdoc(f) or ""))
        self.table("Functions", rows)

    def classes(self):
        for name in CLASSES:
            c, rows = getattr(hga, name), []
            up = f"[Python reference](index.md) / [hga.{name}](hga.{name}.md)"
            for member, thing in vars(c).items():
                f = thing.__func__ if isinstance(thing, (staticmethod, classmethod)) else thing.fget if isinstance(thing, property) else thing
                if member.startswith("_") or not inspect.isfunction(f):
                    continue
                full = f"hga.{name}.{member}"
                if isinstance(thing, property):
                    self.page(full, "attribute", full, doc(f), up)
                else:
                    self.page(full, "method", full + signature(f), doc(f), up)
                rows.append((member, full, inspect.getdoc(f) or ""))
            body = doc(c)
            if rows:
                body += "\n\n| | |\n|---|---|\n" + "\n".join(f"| [`{short}`]({full}.md) | {first_sentence(said)} |" for short, full, said in rows)
            self.page(f"hga.{name}", "class", f"hga.{name}", body)
            self.table(f"[hga.{name}](hga.{name}.md)", rows) if rows else self.lines.extend([f"## [hga.{name}](hga.{name}.md)", "", prose(" ".join((inspect.getdoc(c) or "").split())), ""])

    def package(self, folder, name):
        """What a package offers, whose own imports need not be here: read, not run."""
        rows = []
        for node in offered(folder):
            made = node if isinstance(node, ast.FunctionDef) else next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
            arguments = f"({', '.join(written(made))})" if made else ""
            full = f"{name}.{node.name}"
            said = ast.get_docstring(node)
            self.page(full, "class" if isinstance(node, ast.ClassDef) else "function", full + arguments, "\n\n".join(prose(" ".join(b.split())) for b in said.split("\n\n")))
            rows.append((full, full, said))
        self.table(name, rows)

    def write(self, source):
        self.variants()
        self.functions()
        self.classes()
        for package in ("torch", "transformers"):
            self.package(source / "python" / "hga" / package, f"hga.{package}")
        (self.folder / "index.md").write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def offered(folder):
    """The functions and classes with docstrings that a package's __init__ imports from its modules, or has itself, and offers."""
    init, found = parsed(folder / "__init__.py"), {}
    for node in ast.walk(init):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = folder.parents[node.level - 2] if node.level > 1 else folder
            module = module.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            found.update({n.name: n for n in parsed(module).body if module.is_file() and getattr(n, "name", None) in {a.name for a in node.names}})
    names = next(ast.literal_eval(n.value) for n in init.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__")
    return [found[name] for name in names if ast.get_docstring(found[name])]


def written(function):
    """A function's arguments as they are written, without annotations and `self`."""
    a = function.args
    plain = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    said = [p.arg + (f"={ast.unparse(d)}" if d else "") for p, d in zip(plain, defaults) if p.arg != "self"]
    if a.vararg or a.kwonlyargs:
        said.append("*" + (a.vararg.arg if a.vararg else ""))
    said += [p.arg + (f"={ast.unparse(d)}" if d else "") for p, d in zip(a.kwonlyargs, a.kw_defaults)]
    return said + ([f"**{a.kwarg.arg}"] if a.kwarg else [])


def first_sentence(words):
    """As much as a table has room for."""
    words = " ".join(words.split("\n\n")[0].split())
    first = re.split(r"(?<=\.)\s+(?=[A-Z`])", words, maxsplit=1)[0].rstrip(".")
    if len(first) > 120:
        first = re.split(r"[;:]\s(?![^(]*\))", first, maxsplit=1)[0]
    return prose(first)


if __name__ == "__main__":
    Pages(pathlib.Path(sys.argv[2])).write(pathlib.Path(sys.argv[1]))
