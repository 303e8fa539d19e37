#!/bin/bash
# Every file of the repository that these fuzzers are compiled from, headers too, as Ninja noted it: sources.sh BUILD FUZZER..
set -euo pipefail
build=$(realpath "$1") root=$(realpath "$(dirname "$0")/..")
shift
[ -e "$build/build.ninja" ] || { echo "$build is not of Ninja, which knows what was compiled: rm -r it, and configure it with CMAKE_GENERATOR=Ninja" >&2; exit 1; }
ninja -C "$build" -t inputs "${@/#/fuzz_}" | grep '\.o$' | xargs ninja -C "$build" -t deps |
    sed -n 's/^    //p' | sort -u | (cd "$build" && xargs realpath -m) |
    grep -v "^$build/" | sed -n "s,^$root/,,p" | sort -u
