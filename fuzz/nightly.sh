#!/bin/bash
# Every fuzzer for SECONDS each (3600 without), as many at a time as there are cores: nightly.sh [SECONDS [FUZZER..]]
# With clang it is libFuzzer under AddressSanitizer, in build-fuzz; else main.c in build-asan. What was found lies in build-fuzz/found.
# The counts of executions since the last change of the sources are written into README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/debian_first
seconds=${1:-3600}
shift || true
[ $# -gt 0 ] || set -- engine graph_json program_json import npy text
targets=("${@/#/fuzz_}")

if command -v clang >/dev/null; then preset=fuzz; else preset=asan; fi
build=build-$preset
cmake --preset $preset >/dev/null
cmake --build --preset $preset --parallel "$(nproc)" --target "${targets[@]}"
mkdir -p "$build/found" "$build/counts"

# The sources that a count holds for.
state=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- graph kernels msgpass builders cli/files fuzz 2>/dev/null || state=$state+

# run NAME: its executions and crashes
run() {
    local name=$1 seeds=$PWD/fuzz/corpus/$1 dictionary=() log=$PWD/$build/counts/$1.log
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
    echo "$state ${executions:-0}" >>"../counts/$name"
}
export -f run
export seconds preset build state
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'run {}'

# One line a fuzzer into README.md: executions of this state of the sources.
table=$(for name in engine graph_json program_json import npy text; do
    [ -s "$build/counts/$name" ] || continue
    awk -v name="$name" -v state="$state" '$1 == state { n += $2 } END { printf "    %-14s %12d executions of %s\n", name, n, state }' "$build/counts/$name"
done)
awk -v table="$table" '/^<!-- counts -->/ { print; print table; skip = 1 } /^<!-- end -->/ { skip = 0 } !skip' fuzz/README.md >"$build/README.md"
cp "$build/README.md" fuzz/README.md
echo "$table"
crashes=$(find "$build/found" -type f)
[ -z "$crashes" ] || { echo "found:"; echo "$crashes"; exit 1; }
