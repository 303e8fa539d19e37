"""Every C source, as clang reads it, warnings being errors: test_clang.py compile_commands.json SOURCE. What gcc takes and clang
refuses (names of processors' features, conversions of enumerations) would stay unseen until somebody builds by clang, or fuzzes."""

import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys

commands, source = sys.argv[1], os.path.realpath(sys.argv[2])
clang = shutil.which("clang")
if not clang:
    sys.exit("clang is not installed: apt-get install clang libomp-dev")

KEEP = ("-I", "-D", "-isystem", "-std=", "-m", "-W")  # of gcc's command; the rest is about code, not about the language
LIKE = ["-fsyntax-only", "-fopenmp=libomp", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-Wno-unknown-warning-option"]


def arguments(words):
    kept, i = [], 1
    while i < len(words):
        word = words[i]
        if word in ("-isystem", "-I", "-D"):
            kept += words[i : i + 2]
            i += 1
        elif word.startswith(KEEP):
            kept.append(word)
        i += 1
    return kept


def complaint(entry):
    told = subprocess.run([clang, *LIKE, *arguments(shlex.split(entry["command"])), entry["file"]], cwd=entry["directory"], capture_output=True, text=True)
    return told.stderr if told.returncode else ""


entries = {e["file"]: e for e in json.load(open(commands)) if e["file"].endswith(".c") and os.path.realpath(e["file"]).startswith(source + os.sep)}
built = os.path.dirname(os.path.realpath(commands)) + os.sep
entries = [e for name, e in sorted(entries.items()) if not os.path.realpath(name).startswith(built)]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    failed = [text for text in pool.map(complaint, entries) if text]
print("".join(failed), end="")
print(f"{len(entries)} sources, {len(failed)} that clang refuses")
sys.exit(bool(failed) or len(entries) < 500)
