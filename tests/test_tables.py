"""Tables that an enumeration indexes are as long as it: test_tables.py SOURCE_FOLDER. A table is one whose rows are
named ([HGA_BAND] = ..), or whose length is (names[HGA_BAND + 1], kinds[N_KINDS]). Its length is given and is that of the
enumeration; a list that ends in NULL has one more. Texts and functions are called without a look, so that each has its
row; a row of a struct may be missing, which is zero then."""
import pathlib
import re
import sys

FOLDERS = ("graph", "kernels", "msgpass", "dist", "builders", "files", "cli", "bench")


def plain(text):
    """Without comments, and with texts and characters that hold no sign of C."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', '""', text)


def parts(body):
    """What commas divide, outside of brackets."""
    depth, begin, found = 0, 0, []
    for i, c in enumerate(body):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append(body[begin:i].strip())
            begin = i + 1
    found.append(body[begin:].strip())
    return [part for part in found if part]


def closing(text, at):
    """Where the brace that opens at `at` is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return len(text)


def enumerations(text, known):
    """By constant: its number, the first one's, and the last one's name. Flags are none. `known`: those of before."""
    found = dict(known)
    for body in re.findall(r"\benum\b\s*\w*\s*\{([^{}]*)\}", text):
        rows, number = {}, -1
        for part in parts(body):
            name, _, value = (x.strip() for x in part.partition("="))
            other = re.fullmatch(r"(\w+) \+ (\d+)", value)
            if other and other.group(1) in found:  # a name for how many there are
                found[name] = (found[other.group(1)][0] + int(other.group(2)), *found[other.group(1)][1:])
                continue
            if value and not value.isdigit():
                continue
            number = int(value) if value else number + 1
            rows[name] = number
        numbers, names = list(rows.values()), list(rows)
        if len(rows) > 1 and numbers == list(range(numbers[0], numbers[0] + len(rows))):
            found.update({name: (rows[name], numbers[0], names[-1]) for name in rows})
    return found


TABLE = re.compile(r"(\w+)\s*\[([^\][]*)\]((?:\[[^\][]*\])*)(\)\([^;={}]*\))?\s*=\s*\{")


def has_last(known, name):
    """Is it the last constant, or a name of its own for how many there are?"""
    return name == known[name][2] or known[name][0] > known[known[name][2]][0]


def faults(text, known):
    """What is wrong with the tables of a file."""
    for match in TABLE.finditer(text):
        head = text[text.rfind("\n", 0, match.start()) + 1 : match.end()]
        begin = match.end() - 1
        rows = parts(text[begin + 1 : closing(text, begin)])
        named = {row.group(1) for row in (re.match(r"\[\s*(\w+)\s*\]\s*=", row) for row in rows) if row}
        length = re.fullmatch(r"(\w+)\s*(?:\+\s*(\d+))?", match.group(2).strip())
        last = length.group(1) if length else ""
        by = next((name for name in sorted(named) if name in known), last)
        if by not in known or ("const" not in head and not head.startswith("}")):
            continue
        if last == by and not named and not length.group(2) and not has_last(known, last):
            continue  # what comes before that constant, on purpose
        if last not in known or known[by][2] != known[last][2] or not has_last(known, last):
            yield match.group(1), f"is indexed by the enumeration that ends in {known[by][2]}: its length is said by that"
            continue
        number, first, _ = known[last]
        has = number + int(length.group(2) or 0)
        missing = has - (first + len(named) if named else len(rows))
        if missing > 0 and ("char" in head or "(*" in head or not named):
            yield match.group(1), f"lacks {missing} of the {has} rows that [{match.group(2)}] says"


def main():
    root = pathlib.Path(sys.argv[1])
    files = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*.[ch]"))
    texts = {path: plain(path.read_text(encoding="utf-8")) for path in files}
    headers = "\n".join(text for path, text in texts.items() if path.suffix == ".h")
    shared = enumerations(headers, enumerations(headers, {}))
    found = 0
    for path, text in texts.items():
        for name, what in faults(text, enumerations(text, shared)):
            print(f"{path.relative_to(root)}: {name} {what}")
            found += 1
    return found > 0


sys.exit(main())
