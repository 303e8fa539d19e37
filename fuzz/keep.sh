#!/bin/bash
# What nightly.sh's runs by libFuzzer have grown, of at most MOST bytes (2000 without), goes into corpus/ where it adds coverage: keep.sh [MOST]
set -euo pipefail
cd "$(dirname "$0")"
build=$PWD/../build-fuzz most=${1:-2000}
small=$(mktemp -d)
trap 'rm -r "$small"' EXIT
while read -r name _ corpus _; do
    [ -d "$build/grown/$name" ] || continue
    mkdir "$small/$name"
    find "$build/grown/$name" -type f -size "-$((most + 1))c" -exec cp -t "$small/$name" {} +
    before=$(find "corpus/$corpus" -type f | wc -l)
    OMP_WAIT_POLICY=passive "$build/fuzz/fuzz_$name" -merge=1 -timeout=60 "corpus/$corpus" "$small/$name" >"$build/counts/$name.merge" 2>&1
    echo "$name: $(($(find "corpus/$corpus" -type f | wc -l) - before)) new in corpus/$corpus"
done < <(grep '^[^#]' fuzzers.txt)
