"""The pages of docs/, the README, the change log and the tutorials as Sphinx takes them: pages.py SOURCE FOLDER. Links to what is no page of the site are
their words alone, pictures go along, and the first page gets the table of contents."""

import pathlib
import re
import shutil
import sys

import tutorials

# The table of contents, for the reader in whose language it is; pages that stand nowhere here come last.
CONTENTS = (
    ("Python", ("python", "models", "asked", "howto-python", "flex-attention", "tutorial", "python-reference/index")),
    ("The tool", ("tool/index", "decoding", "gallery", "formats")),
    ("C", ("c", "installing", "howto-c", "tutorial-c", "adding-a-variant", "c/index")),
    ("Hierarchies", ("modifiers", "dense", "window", "bpt", "htransformer", "hsa", "treeformer-fine", "treeformer-coarse", "fenwick", "dilated", "segments", "neighbourhood", "routed", "draft", "graph", "graphs")),
    ("Inside, and beside", ("glossary", "beside-others", "from-dgl", "benchmarks", "promises", "measuring", "results", "engine", "gradients", "contributing")),
)
LAST = "changelog"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


class Site:
    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        docs = source / "docs"
        self.pages = {p: p.stem for p in docs.glob("*.md")}  # file of the tree -> page of the site
        self.pages[docs / "README.md"] = self.pages[source / "README.md"] = "index"
        self.pages[docs / "python-reference.md"] = "python-reference/index"
        self.pages[source / "CHANGELOG.md"] = LAST
        self.pages[source / "CONTRIBUTING.md"] = "contributing"
        self.pages[source / "bench" / "README.md"] = "measuring"
        self.pages[source / "bench" / "results" / "README.md"] = "results"
        self.pages[source / "examples" / "python" / "tutorial.ipynb"] = "tutorial"
        self.pages[source / "examples" / "tutorial.c"] = "tutorial-c"

    def led(self, match, where):
        """A link of a file of the tree, as the site has it."""
        image, words, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path, _, part = target.partition("#")
        path = (where / path).resolve()
        if image:
            to = self.folder / path.relative_to(self.source)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
            return f"![{words}]({path.relative_to(self.source)})"
        if path not in self.pages:
            return words
        return f"[{words}]({self.pages[path]}.md{'#' + part if part else ''})"

    def text(self, said, where):
        """Everything but code."""
        code, lines = False, []
        for line in said.split("\n"):
            if re.match(r" *```", line):
                code = not code
            elif not code:
                line = LINK.sub(lambda m: self.led(m, where), line)
            lines.append(line)
        return "\n".join(lines)

    def contents(self):
        here = {str(p.relative_to(self.folder).with_suffix("")) for p in self.folder.glob("*.md")} | {f"{f}/index" for f in ("c", "tool", "python-reference")}
        parts = [(title, [n for n in names if n in here]) for title, names in CONTENTS]
        named = {n for _, names in parts for n in names} | {LAST, "index"}
        parts[-1][1].extend(sorted(here - named) + [LAST])
        return "\n".join("\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```"]) for title, names in parts) + "\n"

    def write(self):
        for path, page in self.pages.items():
            if path.suffix != ".md" or path == self.source / "docs" / "README.md" or "/" in page:
                continue
            (self.folder / f"{page}.md").write_text(self.text(path.read_text(encoding="utf-8"), path.parent), encoding="utf-8")
        for path, made in ((self.source / "examples" / "python" / "tutorial.ipynb", tutorials.of_notebook), (self.source / "examples" / "tutorial.c", tutorials.of_program)):
            if path.exists():
                (self.folder / f"{self.pages[path]}.md").write_text(self.text(made(path, self.folder), path.parent), encoding="utf-8")
        with (self.folder / "index.md").open("a", encoding="utf-8") as index:
            index.write(self.contents())


if __name__ == "__main__":
    Site(*(pathlib.Path(p).resolve() for p in sys.argv[1:3])).write()
