"""Pages of the tool, one a subcommand: tool_pages.py HGA SOURCE FOLDER, from what it says of itself and the examples of docs/man."""

import os
import pathlib
import re
import subprocess
import sys


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "ARGP_HELP_FMT": "rmargin=88", "LC_ALL": "C.UTF-8"}).stdout


def examples(path):
    """The example blocks of a manual page's source, as they are typed."""
    if not path.exists():
        return []
    found = re.findall(r"^\.EX\n(.*?)^\.EE", path.read_text(encoding="utf-8"), re.S | re.M)
    return [block.replace("\\-", "-").replace("\\e", "\\") for block in found]


def main(hga, source, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    index = said(hga, "help", "--all")
    subcommands = re.findall(r"^  ([a-z-]+) +(.*)$", index, re.M)
    lines = ["# The tool", "", "`hga SUBCOMMAND`: build a hierarchy, look at it, check it, run it, measure it. Each subcommand has a page; `hga help SUBCOMMAND` and `man hga-SUBCOMMAND` say the same.", "",
             "| | |", "|---|---|"]  # fmt: skip
    for name, what in subcommands:
        what = what.replace("|", "\\|")
        lines.append(f"| [`hga {name}`](hga-{name}.md) | {what[:1].upper() + what[1:]} |")
        page = ["---", "orphan: true", "---", "", f"# hga {name}", "", f"[The tool](index.md): {what}", "", "```text", said(hga, "help", name, "--all").rstrip(), "```", ""]
        for block in examples(pathlib.Path(source) / "docs" / "man" / f"{name}.man"):
            page += ["```sh", block.rstrip(), "```", ""]
        (folder / f"hga-{name}.md").write_text("\n".join(page), encoding="utf-8")
    (folder / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
