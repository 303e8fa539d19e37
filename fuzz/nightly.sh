#!/bin/bash
# Every fuzzer for SECONDS each (3600 without), as many at a time as there are cores: nightly.sh [SECONDS [FUZZER..]]
# With clang it is libFuzzer under AddressSanitizer, in build-fuzz; else main.c in build-asan. What was found lies in build-fuzz/found.
# PRESET=release runs main.c without instruments, ten times as fast: the oracles of the fuzzers themselves remain.
# The counts of executions since the last change of the sources are written into README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/debian_first
seconds=${1:-3600}
shift || true
mapfile -t fuzzers < <(sed -n 's/^\([a-z_]*\) .*/\1/p' fuzz/fuzzers.txt)
[ $# -gt 0 ] || set -- "${fuzzers[@]}"
export CMAKE_GENERATOR=Ninja # sources.sh asks it

preset=${PRESET:-$(command -v clang >/dev/null && echo fuzz || echo asan)}
build=build-$preset
[ "$preset" != release ] || build=build
cmake --preset $preset >/dev/null
cmake --build --preset $preset --parallel "$(nproc)" --target "${fuzzers[@]/#/fuzz_}"
counts=$PWD/build-fuzz/counts # of every preset
mkdir -p "$build/found" "$counts"

# A count holds since the last commit that changed what any of the fuzzers is compiled from.
fuzz/sources.sh "$build" "${fuzzers[@]}" >"$build/sources.txt"
state=$(git log -1 --format=%h -- $(<"$build/sources.txt") 2>/dev/null || echo unknown)
git diff --quiet HEAD -- $(<"$build/sources.txt") 2>/dev/null || state=$state+

# run NAME: its executions and crashes
run() {
    local name=$1 corpus words dictionary=() log=$counts/$1.log
    read -r _ _ corpus words < <(grep "^$name " fuzz/fuzzers.txt)
    local seeds=$PWD/fuzz/corpus/$corpus
    [ "$words" = - ] || dictionary=("$PWD/fuzz/$words.dict")
    cd "$build/found"
    if [ $preset = fuzz ]; then
        mkdir -p "../grown/$name"
        OMP_WAIT_POLICY=passive ../fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
            -artifact_prefix="$name-" "${dictionary[@]/#/-dict=}" "../grown/$name" "$seeds" >"$log" 2>&1 || echo "$name: see $log"
        executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    else
        OMP_WAIT_POLICY=passive ../fuzz/fuzz_"$name" --seconds "$seconds" --seed "$(date +%s)" "${dictionary[@]/#/--dictionary=}" "$seeds" \
            >"$log" 2>&1 || echo "$name: see $log"
        executions=$(sed -n 's/.*: \([0-9]*\) executions.*/\1/p' "$log")
    fi
    echo "$state ${executions:-0}" >>"$counts/$name"
}
export -f run
export seconds preset build counts state
printf '%s\n' "$@" | xargs -P "${JOBS:-$(nproc)}" -I{} bash -euo pipefail -c 'run {}'

# One line a fuzzer into README.md: executions of this state of the sources.
table=$(for name in "${fuzzers[@]}"; do
    [ -s "$counts/$name" ] || continue
    awk -v name="$name" -v state="$state" '$1 == state { n += $2 } END { printf "    %-14s %12d executions of %s\n", name, n, state }' "$counts/$name"
done)
awk -v table="$table" '/^<!-- counts -->/ { print; print table; skip = 1 } /^<!-- end -->/ { skip = 0 } !skip' fuzz/README.md >"$build/README.md"
cp "$build/README.md" fuzz/README.md
echo "$table"
crashes=$(find "$build/found" -type f)
[ -z "$crashes" ] || { echo "found:"; echo "$crashes"; exit 1; }
