#!/bin/bash
# Install what is missing, build optimised and run every test, build under sanitizers and run those of the library and the readers: ./test.sh.
# For daily work, the release build and its unit tests: ./test.sh quick. Which lines and branches the tests reach, which fails nobody: ./test.sh coverage.
# Ends with ctest's summary of the release build, or of the first suite that failed, and with what was not run, and why.
# The Python package is tested with torch, transformers and what else python/tests/requirements.txt names: in an environment in build/, made once (4.7 GB from PyPI), or
# by the interpreter that HGA_PYTHON_TESTS_WITH names.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/debian_first
export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)
form=${1-full}
case $form in
full | quick | coverage) ;;
*)
    sed -n '2,6s/^# //p' "$0"
    [ "$form" = --help ] || [ "$form" = help ] || exit 2
    exit 0
    ;;
esac

# How long it takes: as long as the last time here; before there was one, as long as it took where it was measured.
times=build/test-times.txt
took() { echo "$(($1 / 60)) min $(($1 % 60)) s"; }
last=$(sed -n "s/^$form //p" "$times" 2>/dev/null | tail -1 || true)
if [ -n "$last" ]; then
    echo "./test.sh $form takes about $(took "$last"): the last run here did"
else
    case $form in
    quick) echo "./test.sh quick takes about 1 min" ;;
    coverage) echo "./test.sh coverage takes about 6 min" ;;
    full) echo "./test.sh takes about 15 min; ./test.sh quick takes 1 min" ;;
    esac
fi
SECONDS=0

# What was compiled once is not compiled again, in these builds and in those that tests make of the library.
# What there is to compile, ccache learns from the compiler, and does not preprocess it before: a tenth of all compilation.
if command -v ccache >/dev/null; then export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DEPEND=1; fi

# Ninja is done with a thousand files sooner; what was configured with make stays with it.
build() {
    echo "== $1"
    CMAKE_GENERATOR=Ninja cmake --preset "$@"
    cmake --build --preset "$1" --parallel "$jobs"
}

# The tests of a build: run_tests PRESET [CTEST OPTION..]. One more at a time than there are processors: those with a browser, or with processes of their own, wait a good part of their time.
run_tests() {
    local preset=$1 log=build-$1/ctest.log
    [ "$preset" = release ] && log=build/ctest.log
    shift
    ctest --preset "$preset" --parallel $((jobs + 1)) "$@" </dev/null | tee "$log" || fail "$log"
    summary "$log" >/dev/null || fail "$log"
}

# ctest's summary is the last line, whatever the outcome.
summary() { grep -E 'tests passed, [0-9]+ tests? failed out of' "$1"; }
fail() {
    summary "$1" || echo "no tests were run: see $1"
    exit 1
}
finish() {
    mkdir -p build
    echo "$form $SECONDS" >>"$times"
    echo
    echo "$(took $SECONDS)"
    not_run
    summary "${1-build/ctest.log}"
}

# Tests that ctest calls skipped, by name, and why those of Python are.
not_run() {
    [ "$form" != coverage ] || return 0
    sed -nE 's/^[[:space:]]*[0-9]+ - (.*) \((Skipped|Not Run)\)$/\1/p' build/ctest.log | sort -u | tr '\n' ' ' >build/not-run.txt
    [ ! -s build/not-run.txt ] || echo "NOT RUN in the release build: $(cat build/not-run.txt)"
    [ -z "${no_python-}" ] || echo "NOT TESTED: the Python package with torch, transformers, mypy and notebooks: $no_python"
}

if [ "$form" = quick ]; then
    .ci/install
    build release
    run_tests release --label-regex 'unit|rules'
    no_python="not in the quick form"
    finish
    exit
fi

# Lines and branches that tests reach. Where threads run and memory lies, other tests have been, too.
if [ "$form" = coverage ]; then
    .ci/install
    build coverage
    # Counters of an earlier run would be added up.
    find build-coverage -name '*.gcda' -delete
    run_tests coverage --label-exclude 'whole|bench|rules|python' --exclude-regex 'test_first_touch|test_threads|test_waves|test_samples'
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
    finish build-coverage/ctest.log
    exit
fi

# What the compiler can do without comes over the network while it works: the other packages, and the environment.
# No tests run beside, since what a script starts beside itself cannot be interrupted, which tests do.
mkdir -p build
.ci/install compile
.ci/install 2>build/install.log &
packages=$!
trap 'kill $packages ${environment-} 2>/dev/null || true' EXIT
with=${HGA_PYTHON_TESTS_WITH-}
if [ -z "$with" ]; then
    .ci/python build/python-tests >build/no-python.txt &
    environment=$!
fi
build asan
build release
wait $packages || { cat build/install.log; exit 4; }

# Tests of the tool as a whole (browsers, benchmarks) and of Python run below; here it is the library, the readers and the fuzzers.
run_tests asan --label-exclude 'whole|bench|rules|python'

if [ -z "$with" ]; then
    if wait $environment; then
        with=$PWD/build/python-tests/bin/python
    else
        no_python=$(cat build/no-python.txt)
        echo "no environment of torch and transformers: ${no_python:=.ci/python failed}"
    fi
fi
# Once more: what the other packages have brought is compiled, too.
build release -DHGA_PYTHON_TESTS_WITH="$with"
run_tests release

echo "== valgrind"
checked() { valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite "$@" </dev/null; }
(
    cd build/examples
    checked ../cli/hga build bpt --tokens 50 --format npy -o - >/dev/null
    checked ./custom_hierarchy
)
echo "no errors"

finish
