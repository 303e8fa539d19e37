"""Pages of the C interface: c_pages.py SOURCE XML EXAMPLES FOLDER makes of Doxygen's XML a page for each public header (its types) and for each function.
EXAMPLES is what docs/man/examples.sh writes."""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

WHAT = {
    "hga_base.h": "Numbers, errors, memory", "hga_graph.h": "Graphs and how you build them", "hga_import.h": "Graphs of other programs",
    "hga_program.h": "Programs: fields and stages", "hga_call.h": "Tables of a call", "hga_plan.h": "Plans and running them", "hga_gradient.h": "Gradients", "hga_decode.h": "Token by token", "hga_select.h": "Attention chosen by content", "hga_inspect.h": "Who sees whom", "hga_halo.h": "What ranks send each other", "hga_exchange.h": "How ranks talk", "hga_dist.h": "Transports for ranks",
    "hga_machine.h": "The machine: instruction sets, threads", "hga_builders.h": "Published hierarchies", "hga_variants.h": "Hierarchies by name", "hga.h": "What most programs need",
    "hga_export.h": "Graphs for other programs", "hga_view.h": "The page of a graph", "hga_documents.h": "Trees of documents", "hga_arrays.h": "Arrays of files", "hga_files.h": "Everything of libhga-files",
}  # fmt: skip
ORDER = ("hga.h", "hga_builders.h", "hga_variants.h", "hga_plan.h", "hga_gradient.h", "hga_decode.h", "hga_select.h", "hga_graph.h", "hga_program.h", "hga_call.h", "hga_inspect.h", "hga_halo.h", "hga_exchange.h", "hga_dist.h", "hga_import.h", "hga_export.h", "hga_view.h", "hga_documents.h", "hga_arrays.h", "hga_machine.h", "hga_base.h",
         "hga_files.h")  # fmt: skip

# The index begins with these; then comes everything, header by header.
PARTS = (
    ("Run a published hierarchy", "Build it by name, attend, free it. [hga.h](hga-header.md) has a program.", (
        "hga_variants", "hga_build", "hga_attention", "hga_graph_destroy", "hga_status_name", "hga_error_detail")),
    ("A hierarchy of your own", "A builder makes the graph, a program says what is computed, a plan runs it as often as you like, forward and backward. [hga in C](../c.md) does it step by step.", (
        "hga_builder_create", "hga_builder_add_level", "hga_builder_set_families", "hga_builder_set_children", "hga_builder_add_relation", "hga_builder_add_block", "hga_builder_add_blocks", "hga_builder_add_edges",
        "hga_builder_finish", "hga_builder_destroy", "hga_program_hierarchy", "hga_program_attention", "hga_program_coverage", "hga_plan_create", "hga_workspace_create", "hga_plan_execute", "hga_plan_tape_bytes",
        "hga_plan_gradient", "hga_workspace_destroy", "hga_plan_destroy")),
)  # fmt: skip


def text(element):
    """Words of a description, paragraph by paragraph."""
    paragraphs = []
    for para in element.iter("para") if element is not None else ():
        words = " ".join("".join(para.itertext()).split())
        if words:
            paragraphs.append(words)
    return "\n\n".join(paragraphs)


def escaped(words):
    """Plain words as Markdown that shows them as they are."""
    return re.sub(r"([\\*_`\[\]<>|{}$#~])", r"\\\1", words)


class Pages:
    def __init__(self, source, xml, examples, folder):
        self.source, self.xml, self.folder = source, xml, folder
        self.examples = {m[1]: (m[2], m[3]) for m in re.finditer(r"(?ms)^=(\S+) (\S+)\n(.*?)(?=^=|\Z)", examples.read_text(encoding="utf-8"))}
        self.names = {}  # what has a place of its own -> the page
        self.files = {}
        index = ElementTree.parse(xml / "index.xml").getroot()
        for compound in index.iter("compound"):
            if compound.get("kind") == "file":
                self.files[compound.findtext("name")] = ElementTree.parse(xml / (compound.get("refid") + ".xml")).getroot().find("compounddef")
        for name, file in self.files.items():
            for member in file.iter("memberdef"):
                self.names[member.findtext("name")] = member.findtext("name") if member.get("kind") == "function" else stem(name)
            for inner in file.iter("innerclass"):
                self.names[inner.text] = stem(name)

    def prose(self, words, here=""):
        """Words with the functions and types among them as links."""
        def link(match):
            name = match.group(1)
            page = self.names.get(name)
            if page is None or page == here:
                return f"`{name}{match.group(2) or ''}`"
            return f"[`{name}{match.group(2) or ''}`]({page}.md)"

        parts = re.split(r"(\bhga_[a-z0-9_]+\b(?:\.[a-z_]+)?(?:\(\))?|\bHGA_[A-Z0-9_]+\b)", words)
        for i in range(1, len(parts), 2):
            parts[i] = re.sub(r"^(\w+)(.*)$", link, parts[i])
        return "".join(p if i % 2 else escaped(p) for i, p in enumerate(parts))

    def write(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in ORDER:
            functions = self.header(name, self.files[name])
            rows.append((name, functions))
        unknown = set(self.files) - set(ORDER)
        if unknown:
            sys.exit(f"c_pages.py: no place for {', '.join(sorted(unknown))}: name it in WHAT and ORDER")
        said = dict(f for _, functions in rows for f in functions)
        unknown = [f for _, _, names in PARTS for f in names if f not in said]
        if unknown:
            sys.exit(f"c_pages.py: PARTS names {', '.join(unknown)}, which the headers do not declare")
        lines = ["# C reference", "", f"`#include <hga.h>` brings it. {len(said)} functions have a page each, with an example; `man 3 hga_plan_create` shows the same in a terminal. Most programs need those of the first part or the first two. [How to ..](../howto-c.md) has a program for each task.", ""]
        for title, what, names in PARTS:
            lines += [f"## {title}", "", what, "", *self.table([(f, said[f]) for f in names])]
        lines += ["## Everything", ""]
        for name, functions in rows:
            lines += [f"### [{name}]({stem(name)}.md): {WHAT[name].lower()}", "", *(self.table(functions) if functions else ())]
        (self.folder / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def table(self, functions):
        return ["| function | |", "|---|---|", *(f"| [`{f}`]({f}.md) | {self.prose(first_sentence(words))} |" for f, words in functions), ""]

    def header(self, name, file):
        """The page of a header and its functions' pages; their names and words."""
        functions, types = [], []
        members = {}
        for member in file.iter("memberdef"):
            members.setdefault(member.find("location").get("line"), member)
        for member in file.iter("memberdef"):
            kind, words = member.get("kind"), text(member.find("detaileddescription"))
            if kind == "function":
                functions.append((member.findtext("name"), words))
                self.function(name, member, words)
            else:
                types.append((int(member.find("location").get("line")), self.plain(member, words, stem(name))))
        for inner in file.iter("innerclass"):
            compound = ElementTree.parse(self.xml / (inner.get("refid") + ".xml")).getroot().find("compounddef")
            types.append((int(compound.find("location").get("line")), self.struct(compound, stem(name))))
        lines = ["---", "orphan: true", "---", "", f"# {name}", "", self.said_of_file(name), ""]
        if functions:
            lines += ["## Functions", "", *self.table(functions)]
        if types:
            lines += ["## Types and constants", ""] + [t for _, t in sorted(types)]
        (self.folder / f"{stem(name)}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return functions

    def said_of_file(self, name):
        """A header's first comment; what it sets in is code."""
        path = self.source / self.files[name].find("location").get("file")
        comment = re.match(r"/\*(.*?)\*/", path.read_text(encoding="utf-8"), re.S).group(1)
        blocks = []
        for block in re.split(r"\n\s*\n", comment.replace(f"{name}:", "", 1)):
            if block.startswith(" " * 7):
                code = re.sub(r"(?m)^ {7}", "", block)
                if blocks and blocks[-1].endswith("\n```"):  # the same code behind an empty line
                    blocks[-1] = blocks[-1][: -len("\n```")] + "\n\n" + code + "\n```"
                else:
                    blocks.append(f"```{'c' if re.search(';$', code, re.M) else 'text'}\n{code}\n```")
            else:
                words = " ".join(block.split())
                blocks.append(self.prose(words[:1].upper() + words[1:], stem(name)))
        return "\n\n".join(blocks)

    def function(self, header, member, words):
        name = member.findtext("name")
        returns = "".join(member.find("type").itertext()).strip()
        arguments = member.findtext("argsstring").strip()
        lines = ["---", "orphan: true", "---", "", f"# {name}", "", f"[C reference](index.md) / [{header}]({stem(header)}.md)", "",
                 "```{c:function} " + f"{returns} {name}{arguments}", "```", "", *[self.prose(p, name) + "\n" for p in words.split("\n\n")]]  # fmt: skip
        if name in self.examples:
            program, code = self.examples[name]
            lines += ["## Example", "", f"From {program}:", "", "```c", code.rstrip("\n"), "```", ""]
        (self.folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def plain(self, member, words, page):
        """An enumeration, a macro or a type."""
        kind, name = member.get("kind"), member.findtext("name")
        name = "" if name.startswith("@") else name
        said = "\n\n".join(self.prose(p, page) for p in words.split("\n\n"))
        if kind == "enum":
            values = ["```{c:enumerator} " + v.findtext("name") + (" " + (v.findtext("initializer") or "")).rstrip() + "\n" +
                      self.prose(text(v.find("detaileddescription")), page) + "\n```" for v in member.iter("enumvalue")]  # fmt: skip
            if name:
                return "````{c:enum} " + f"{name}\n{said}\n\n" + "\n".join(values) + "\n````\n"
            return said + "\n\n" + "\n".join(values) + "\n"
        if kind == "define":
            head = name + ("(" + ", ".join(p.findtext("defname") or "" for p in member.iter("param")) + ")" if member.find("param") is not None else "")
            return "```{c:macro} " + f"{head}\n{said}\n```\n"
        definition = member.findtext("definition").replace("typedef ", "", 1)
        if "(*" not in definition:
            definition += (member.findtext("argsstring") or "").strip()
        opaque = re.fullmatch(r"struct (\w+) \1", definition.strip())
        if opaque:
            return "```{c:struct} " + f"{name}\n{said}\n```\n"
        return "```{c:type} " + f"{definition}\n{said}\n```\n"

    def struct(self, compound, page):
        lines = ["````{c:struct} " + compound.findtext("compoundname"), self.prose(text(compound.find("detaileddescription")), page), ""]
        for member in compound.iter("memberdef"):
            kind = "".join(member.find("type").itertext()).strip()
            lines += ["```{c:member} " + f"{kind} {member.findtext('name')}{(member.findtext('argsstring') or '').strip()}" if not kind.endswith("(*") else
                      "```{c:member} " + f"{kind}{member.findtext('name')}{(member.findtext('argsstring') or '').strip()}",
                      self.prose(text(member.find("detaileddescription")), page), "```"]  # fmt: skip
        return "\n".join(lines) + "\n````\n"


def stem(header):
    return header.replace(".h", "-header")


def first_sentence(words):
    """As much as a table has room for."""
    first = re.split(r"(?<=\.)\s+(?=[A-Z])", words.split("\n")[0], maxsplit=1)[0].rstrip(".")
    if len(first) > 120:
        first = re.split(r"[;:]\s(?![^(]*\))", first, maxsplit=1)[0]
    return first or "see the header"


if __name__ == "__main__":
    Pages(*map(pathlib.Path, sys.argv[1:5])).write()
