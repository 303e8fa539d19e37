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
[ $# -gt 0 ] || set -- engine decode graph_json program_json import npy text
targets=("${@/#/fuzz_}")

preset=${PRESET:-$(command -v clang >/dev/null && echo fuzz || echo asan)}
build=build-$preset
[ "$preset" != release ] || build=build
cmake --preset $preset >/dev/null
cmake --build --preset $preset --parallel "$(nproc)" --target "${targets[@]}"
counts=$PWD/build-fuzz/counts # of every preset
mkdir -p "$build/found" "$counts"

# The sources that a count holds for: the last commit that changed them.
sources=(graph kernels msgpass builders cli/files 'fuzz/*.c' 'fuzz/*.h')
state=$(git log -1 --format=%h -- "${sources[@]}" 2>/dev/null || echo unknown)
git diff --quiet HEAD -- "${sources[@]}" 2>/dev/null || state=$state+

# run NAME: its executions and crashes
run() {
    local name=$1 seeds=$PWD/fuzz/corpus/$1 dictionary=() log=$counts/$1.log
    [ "$name" = graph_json ] && seeds=$PWD/fuzz/corpus/program_json
    case $name in *json) dictionary=("$PWD/fuzz/json.dict") ;; text | import) dictionary=("$PWD/fuzz/$1.dict") ;; esac
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
table=$(for name in engine decode graph_json program_json import npy text; do
    [ -s "$counts/$name" ] || continue
    awk -v name="$name" -v state="$state" '$1 == state { n += $2 } END { printf "    %-14s %12d executions of %s\n", name, n, state }' "$counts/$name"
done)
awk -v table="$table" '/^<!-- counts -->/ { print; print table; skip = 1 } /^<!-- end -->/ { skip = 0 } !skip' fuzz/README.md >"$build/README.md"
cp "$build/README.md" fuzz/README.md
echo "$table"
crashes=$(find "$build/found" -type f)
[ -z "$crashes" ] || { echo "found:"; echo "$crashes"; exit 1; }
