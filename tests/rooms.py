"""The direction of calls, read from the objects that were built, and of Python's imports: rooms.py BUILD SOURCE.

A room is a folder of the library or of the tool. The rooms that a room of msgpass/ may call are those whose own headers it sees (SEES in
msgpass/CMakeLists.txt), and graph/. No room of the core sees anything of a wing, not even a public header, and no two rooms
may call each other. Which rooms are the core and which are wings is what the two lists of msgpass/README.md say; every
folder of msgpass/ stands in one of them and is a target. Inside a room no file may depend on a file that depends on it: that is a ring.

A room of Python is a folder of python/hga; it imports the rooms that PYTHON names, at the top of a module, without a ring of modules.
What must wait, since torch takes long to import or may be missing, goes through one function of hga/_core/later.py.
"""
import ast
import collections
import pathlib
import re
import subprocess
import sys

build, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
FOLDERS = ["graph", "kernels", "msgpass", "dist", "builders", "files", "cli"]
PYTHON = {  # room -> rooms that it may import; hga/__init__.py is the room hga
    "hga/_core": "",
    "hga/_graphs": "_core",
    "hga/torch": "_core _graphs",
    "hga/_flex": "_core _graphs torch",
    "hga/transformers": "_core _graphs torch",
    "hga/jax": "_core _graphs",
    "hga/onnx": "_core _graphs",
    "hga": "_core _graphs",
}
DOOR = "hga/_core/later.py"
LONGEST = 450  # lines of a module
TOOL = ["cli/common", "cli/files", "cli/draw", "cli"]  # each may call those before it, and the library


def file_of(path):
    """msgpass/plan/plan.c of .../msgpass/CMakeFiles/hga_plan.dir/plan/plan.c.o"""
    return re.sub(r"CMakeFiles/[^/]*\.dir/|\.o$", "", str(path.relative_to(build)))


def room_of(file):
    return "/".join(file.split("/")[:2]) if file.startswith("msgpass/") else file.rsplit("/", 1)[0].removesuffix("/base")


def symbols(objects):
    """who defines each global name, and which names each file needs"""
    defined, needed = {}, collections.defaultdict(set)
    said = subprocess.run(["nm", "-A", "-g", *objects], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        path, entry = line.split(":", 1)
        *_, kind, name = entry.split()
        if kind in "Uw":
            needed[file_of(pathlib.Path(path))].add(name)
        else:
            defined[name] = file_of(pathlib.Path(path))
    return defined, needed


def seen():
    """room of msgpass/ -> folders whose headers it sees"""
    text = (source / "msgpass/CMakeLists.txt").read_text()
    rooms = re.findall(r"^room\((\w+) SEES ([^)]*?)(?:\s+USES[^)]*)?\)", text, re.M)
    return {"msgpass/" + name: set(folders.split()) for name, folders in rooms}


def listed():
    """the rooms of the core, and the wings, as msgpass/README.md lists them"""
    blocks = re.findall(r"(?:^ {4}\w+/ .*\n)+", (source / "msgpass/README.md").read_text(), re.M)
    core, wings = (re.findall(r"^ {4}(\w+)/", block, re.M) for block in blocks)
    return core, wings


def not_as_listed():
    """what stands in one alone of the page's lists, the folders and the targets"""
    core, wings = listed()
    folders = {str(path.relative_to(source)) for path in (source / "msgpass").iterdir() if path.is_dir()}
    page, targets = ["msgpass/" + name for name in core + wings], set(seen())
    assert len(page) == len(set(page)), f"msgpass/README.md lists a room twice: {page}"
    return ([f"msgpass/README.md and the folders differ: {room}" for room in sorted(set(page) ^ folders)]
            + [f"the targets of msgpass/CMakeLists.txt and the folders differ: {room}" for room in sorted(targets ^ folders)])


def wings_seen():
    """what the core sees of the wings"""
    is_wing = re.compile("msgpass/(" + "|".join(listed()[1]) + ")(/|$)").match
    return [f"sees a wing: {room} {folder}" for room, sees in seen().items() if not is_wing(room) for folder in filter(is_wing, sees)]


def may_call():
    """room -> rooms it may call"""
    rooms = {room: {folder for folder in sees if not folder.endswith("/public")} | {"graph"} for room, sees in seen().items()}
    engine = set(rooms) | {"graph", "kernels"}
    rooms |= {"graph": set(), "kernels": {"graph"}, "dist": engine, "builders": engine, "files": engine | {"builders"}}
    library = set(rooms)
    return rooms | {room: library | set(TOOL[:i]) for i, room in enumerate(TOOL)}


def rings(arrows):
    """strongly connected files of more than one (Tarjan)"""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in arrows[file]:
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            ring = stack[stack.index(file):]
            del stack[stack.index(file):]
            if len(ring) > 1:
                found.append("ring: " + " ".join(sorted(ring)))

    for file in sorted(arrows):
        if file not in index:
            visit(file)
    return found


# ---- Python ----


def python_modules():
    """hga._core.library -> its file, hga/_core/library.py"""
    files = (path.relative_to(source / "python") for path in (source / "python/hga").rglob("*.py"))
    return {".".join(file.with_suffix("").parts).removesuffix(".__init__"): file for file in sorted(files)}


def imports_of(tree, inside=False):
    """what a module imports when it runs, and whether a function does; types alone are no imports"""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_of(ast.Module(node.orelse, []), inside)
        elif isinstance(node, (ast.Import, ast.ImportFrom)) or by_name(node):
            yield node, inside
        else:
            yield from imports_of(node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))


def by_name(node):
    """does it import something of hga by a text, as importlib does?"""
    called = ast.unparse(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
    return called in ("import_module", "__import__") and (len(node.args) > 1 or ast.unparse(node.args[0]).lstrip("f'\"").startswith(("hga", ".")))


def named(node, name, file, modules):
    """the modules of hga that an import in the module `name` names"""
    if isinstance(node, ast.Call):
        return [name]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name in modules]
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    above = package[:len(package) - node.level + 1] if node.level else []
    base = ".".join(above + [node.module] * bool(node.module))
    return [whole if whole in modules else base for whole in (f"{base}.{alias.name}" for alias in node.names) if whole in modules or base in modules]


def python_faults():
    modules, found, arrows = python_modules(), [], collections.defaultdict(set)
    assert len(modules) > 40, f"{len(modules)} modules in python/hga: nothing to look at"
    for name, file in modules.items():
        text, room = (source / "python" / file).read_text(), str(file.parent)
        arrows[name] = set()
        if text.count("\n") > LONGEST:
            found.append(f"over {LONGEST} lines: python/{file} {text.count(chr(10))}")
        for node, inside in imports_of(ast.parse(text)):
            seen = [other for other in named(node, name, file, modules) if str(file) != DOOR]
            line = f"python/{file}:{node.lineno}: {ast.unparse(node)}"
            if seen and inside:
                found.append(f"import in a function: {line}")
                continue
            arrows[name].update(other for other in seen if other != name)
            rooms = {str(modules[other].parent) for other in seen} - {room, *("hga/" + other for other in PYTHON[room].split())}
            if rooms:
                found.append(f"import: {line}: {room} may not import {' '.join(sorted(rooms))}")
    return found + rings({name: sorted(others) for name, others in arrows.items()})


def main():
    built = (path for folder in FOLDERS for path in (build / folder).rglob("*.c.o"))
    objects = sorted(str(path) for path in built if (source / file_of(path)).exists())  # not of files that have moved
    assert len(objects) > 200, f"{len(objects)} objects in {build}: nothing to look at"
    defined, needed = symbols(objects)
    rooms, inside, found = may_call(), collections.defaultdict(set), []
    for file, names in sorted(needed.items()):
        for name in sorted(names & defined.keys()):
            other = defined[name]
            if room_of(other) == room_of(file):
                inside[file].add(other)
            elif room_of(other) not in rooms[room_of(file)]:
                found.append(f"call: {file} {other} {name}")
    for file in list(inside):
        for other in inside[file]:
            inside.setdefault(other, set())
    found += rings({file: sorted(others) for file, others in inside.items()}) + wings_seen() + not_as_listed()
    found += rings({room: sorted(others & rooms.keys()) for room, others in rooms.items()})
    found += python_faults()
    for line in sorted(found):
        print("not allowed:", line)
    print(f"{len(objects)} objects; {len(found)} faults")
    return bool(found)


sys.exit(main())
