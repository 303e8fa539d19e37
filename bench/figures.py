"""The commands that print the figures of README and of pages that it links, one row each.

    python3 bench/figures.py                              the rows, with the minutes that each takes on two cores
    python3 bench/figures.py FOLDER [NAME ..]             runs them (all, or those named), one after another, on an idle machine

A run leaves NAME.txt (what the command printed) and NAME.json (where the command writes one) in FOLDER, and README.txt: the commit,
the processor, and how busy the machine was before and after each. A row that FOLDER has is not run again; one that fails does
not stop the others, and the status is 1. PYTHONPATH=build/python and one thread are set where the shell has not set them.
A FOLDER is of one commit. docs/models.md names the programs of its own tables, which take hours and a pretrained model; a figure
that no row prints has its own date beside it.
"""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent

# name, minutes, the pages whose figures it prints, the command. {out} is FOLDER/NAME; {python} this Python, {hga} the tool.
ROWS = (
    ("run", 1, "bench/README.md", "{hga} run examples/gospels.txt --tokens 8192 --threads 2 --no-report"),
    ("hierarchies", 4, "docs/benchmarks.md", "{hga} bench --tokens 1024,4096,16384 --threads 1 --json {out}.json"
     " --variants dense,window,bpt:k=4,bpt:k=64,htransformer,htransformer:block=64,hsa:branching=2,4,8,16,treeformer-fine"),
    ("lengths", 8, "README.md, docs/benchmarks.md", "{python} bench/lengths.py --json {out}.json"),
    ("front", 25, "README.md", "{python} bench/front.py"),
    ("goals", 35, "bench/README.md", "{python} bench/goals.py --json {out}.json"),
    ("goals-avx2", 35, "bench/README.md", "{python} bench/goals.py --isa avx2 --json {out}.json"),
    ("calls", 12, "bench/README.md, docs/graphs.md, docs/hsa.md, docs/python.md", "{python} bench/compare.py --calls"),
    ("decoding", 2, "docs/decoding.md", "{hga} bench --decode --tokens 1024,4096 --threads 1 --json {out}.json"),
    ("decoding-same", 2, "docs/decoding.md", "{hga} bench --decode --same --tokens 1024,4096 --threads 1 --json {out}.json"),
    ("ranks", 1, "docs/ranks.md", "bash tests/mpi/mpirun.sh openmpi 2 {build}/tests/mpi/hga_openmpi bench --ranks --tokens 8192 --threads 1"
     " --variants window:left=256:right=256,htransformer:block=16,hsa:branching=4,bpt:k=4,dense"),
    ("generate", 3, "docs/python.md", "{python} bench/generate.py"),
    ("biases", 15, "docs/python.md", "{python} bench/crossings.py biases"),
    ("every_model", 150, "docs/python.md", "{python} bench/every_model.py"),
    ("options", 4, "docs/modifiers.md", "{build}/bench/studies/bench_options"),
    ("layers", 8, "docs/graphs.md, docs/modifiers.md", "{python} bench/layers.py --graphs uniform,small --features 16 --columns 64"
     " --shapes 4x16 --layers GATConv,GATv2Conv,TransformerConv"),
    ("molecules", 4, "docs/graphs.md", "{python} bench/molecules.py --epochs 24"),
    ("graphs", 60, "docs/graphs.md", "{python} bench/graphs.py --json {out}.json"),
    ("classifier", 15, "docs/graphs.md", "{python} bench/graphs.py --classifier --json {out}.json"),
)  # fmt: skip


def table():
    width = max(len(name) for name, *_ in ROWS)
    return "\n".join(f"{name:{width}} {minutes:4} min  {pages}\n{'':{width}}           {said(name, command)}" for name, minutes, pages, command in ROWS)


def said(name, command):
    return command.format(out=name, python="python3", hga="hga", build="build")


def shell(command):
    return subprocess.run(command, shell=True, cwd=TOP, capture_output=True, text=True).stdout.strip()


def busy():
    return f"load {os.getloadavg()[0]:.2f}"


def settings():
    chosen = dict(os.environ)
    chosen.setdefault("PYTHONPATH", str(TOP / "build" / "python"))
    chosen.setdefault("OMP_NUM_THREADS", "1")
    chosen.setdefault("OMP_WAIT_POLICY", "passive")
    return chosen


def run(folder, name, command):
    """Runs a row, and returns what README.txt says of it."""
    paths = {"out": folder / name, "python": sys.executable, "hga": TOP / "build/cli/hga", "build": TOP / "build"}
    words = {word: shlex.quote(str(path)) for word, path in paths.items()}
    before, began = busy(), time.monotonic()
    beside = folder / f"{name}.unfinished"
    with open(beside, "w") as log:
        print("$", said(name, command), file=log, flush=True)
        status = subprocess.run(command.format(**words), shell=True, cwd=TOP, env=settings(), stdout=log, stderr=subprocess.STDOUT).returncode
    if not status:
        beside.replace(folder / f"{name}.txt")
    minutes = (time.monotonic() - began) / 60
    return status, f"{name}: {'done' if not status else f'failed, status {status}'} in {minutes:.1f} min; {before} before, {busy()} after"


def main():
    if len(sys.argv) < 2:
        print(table())
        return 0
    folder, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    unknown = sorted(set(names) - {name for name, *_ in ROWS})
    if unknown:
        sys.exit(f"{unknown[0]}: no such row; there are {', '.join(name for name, *_ in ROWS)}")
    folder.mkdir(parents=True, exist_ok=True)
    failed, commit, log = 0, shell("git rev-parse --short=12 HEAD"), folder / "README.txt"
    if log.exists() and (before := log.read_text().split()[1]) != commit:
        sys.exit(f"{folder} has figures of commit {before}, and this is {commit}: name another folder")
    with open(log, "a") as told:
        print(time.strftime("%F"), commit, shell("lscpu | sed -n 's/^Model name: *//p'"), file=told, flush=True)
        for name, _, _, command in ROWS:
            if (names and name not in names) or (folder / f"{name}.txt").exists():
                continue
            status, line = run(folder, name, command)
            failed |= status != 0
            for out in (told, sys.stdout):
                print(line, file=out, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
