"""One version everywhere: the headers' is that of the tool, the wheel, the changelog, the citation, the pages and the recorded interface.

    test_version.py SOURCE HGA
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

source, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
failed = []


def fact(name, found, wanted):
    if found != wanted:
        failed.append(name)
        print(f"not true: {name}: {found!r} is not {wanted!r}")


def read(path):
    return (source / path).read_text()


def first(pattern, text):
    found = re.search(pattern, text, re.M)
    return found and found.group(1)


header = read("graph/base/hga_base.h")
numbers = [first(rf"^#define HGA_VERSION_{part} (\d+)$", header) for part in ("MAJOR", "MINOR", "PATCH")]
stage = first(r'^#define HGA_VERSION_STAGE "([^"]*)"', header)
version, minor = ".".join(numbers) + stage, ".".join(numbers[:2])
soname = minor if numbers[0] == "0" else numbers[0]
fact("a stage is none or that of a development", bool(re.fullmatch(r"(\.dev\d+)?", stage)), True)

told = json.loads(subprocess.run([tool, "version", "--json"], capture_output=True, check=True).stdout)
fact("the tool's version", told["version"], version)

project = tomllib.loads(read("pyproject.toml"))
rule = project["tool"]["scikit-build"]["metadata"]["version"]
fact("the wheel takes it from the headers", (project["project"]["dynamic"], rule["input"]), (["version"], "graph/base/hga_base.h"))
fact("the wheel's version", rule["result"].format(**re.search(rule["regex"], header).groupdict()), version)

changes = read("CHANGELOG.md")
heading, below = re.search(r"^## (\S+)\n\n(.*)", changes, re.M).groups()
fact("the changelog begins with it", heading, version)
fact("it is dated when it is released", bool(re.match(r"\d{4}-\d\d-\d\d", below)), not stage)
long = [line[:60] for line in changes.split("\n## ")[1].split("\n") if line.startswith("- ") and len(line) > 252]
fact("a line of the changelog has 250 characters at most", long, [])

citation = read("CITATION.cff")
fact("the citation's version", first(r"^version: (\S+)$", citation), version)
fact("the citation's date", first(r"^date-released: (\S+)$", citation), None if stage else below.split()[0])

for recorded in sorted(source.glob("tests/abi/*.abi")):
    fact(f"the soname of {recorded.name}", first(r"soname='lib[a-z-]+\.so\.([0-9.]+)'", recorded.read_text()), soname)
fact("docs/installing.md: SOVERSION", first(r"SOVERSION is `([0-9.]+)`", read("docs/installing.md")), soname)
fact("docs/installing.md: find_package", first(r"find_package\(hga ([0-9.]+) ", read("docs/installing.md")), minor)
fact("docs/promises.md", first(r"within a minor version \(([0-9.]+)\.x\)", read("docs/promises.md")), minor)
fact("docs/release-notes.md", first(r"^# hga ([0-9.]+): ", read("docs/release-notes.md")), minor)

print(f"{version}: {'all agree' if not failed else ', '.join(failed)}")
sys.exit(bool(failed))
