#!/bin/bash
# Install what is missing, build in four ways and run every test in each. Ends with ctest's summary of the release build, or of the first suite that failed.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/debian_first
export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)

# One build and its tests: suite PRESET [CTEST OPTION..]
suite() {
    local preset=$1 log=build-$1/ctest.log
    [ "$preset" = release ] && log=build/ctest.log
    shift
    echo "== $preset"
    cmake --preset "$preset"
    cmake --build --preset "$preset" --parallel "$jobs"
    ctest --preset "$preset" --parallel "$jobs" "$@" </dev/null | tee "$log" || fail "$log"
    summary "$log" >/dev/null || fail "$log"
}

# ctest's summary is the last line, whatever the outcome.
summary() { grep -E 'tests passed, [0-9]+ tests? failed out of' "$1"; }
fail() {
    summary "$1" || echo "no tests were run: see $1"
    exit 1
}

.ci/install
suite release

# Tests of the tool as a whole (browsers, benchmarks) ran above; here it is the library, the readers and the fuzzers.
suite asan --label-exclude 'whole|bench|rules|python'

echo "== valgrind"
checked() { valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite "$@" </dev/null; }
(
    cd build/examples
    checked ../cli/hga build bpt --tokens 50 --format npy -o - >/dev/null
    checked ./custom_hierarchy
)
echo "no errors"

# Counters of an earlier run would be added up.
find build-coverage -name '*.gcda' -delete 2>/dev/null || true
# Where threads run and memory lies, other tests have been, too.
suite coverage --label-exclude 'whole|bench|rules|python' --exclude-regex 'test_first_touch|test_threads|test_waves|test_samples|headers'
# vec.h defines the same functions on other lines for every instruction set, which gcovr 5.2 cannot merge.
unseen=(--exclude kernels/vec.h)
if ! grep -q avx512_bf16 /proc/cpuinfo; then
    echo "== kernels/bf16.inc is not counted: this machine has no products of bfloat16 pairs"
    unseen+=(--exclude kernels/bf16.inc)
fi
gcovr --root . "${unseen[@]}" --filter '(graph|kernels|msgpass|builders)/' build-coverage
echo "== branches; what is not reached is listed in build-coverage/not-reached.txt"
gcovr --root . "${unseen[@]}" --branches --filter '(graph|kernels|msgpass)/' --txt build-coverage/branches.txt --json build-coverage/branches.json build-coverage
tail -4 build-coverage/branches.txt
python3 tests/not_reached.py build-coverage/branches.json >build-coverage/not-reached.txt

echo
summary build/ctest.log
