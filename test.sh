#!/bin/bash
# Install what is missing, build, test: ./test.sh [FORM [SET]]. Ends with what each part took, with what was not run, and why,
# and with ctest's summary; where a test fails, with the summary.
# The Python package is tested with torch, transformers and what else python/tests/requirements.txt names: in an
# environment in build/, made once (4.7 GB from PyPI), or by the interpreter that HGA_PYTHON_TESTS_WITH names. JAX wants
# a newer numpy than Debian's: it lies over that environment (0.5 GB), or is that of HGA_JAX_TESTS_WITH.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/debian_first
export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)

# A form is a row here, NAME|MINUTES on two cores|WHAT IT DOES, and a function form_NAME below; .ci/run names CI's.
forms='
full|25|the release build and all of its tests; the form that is meant where none is named
quick|1|the release build, its unit tests and the rules of the sources: for daily work
asan|8|AddressSanitizer and UBSan: the library, the readers, the tool and the fuzzers
oldest|20|Python with older releases of torch, transformers, PyG, JAX: the oldest ones, then those of a year ago (or the set that is named)
newword|4|a word that calls bring, added on trial to a copy: C, JSON, the tool and Python know it
arm|65|64-bit ARM: cross-compiled, and run by an emulator on each instruction set; of Python a wheel, with numpy
coverage|6|which lines and branches the tests reach; fails nobody
'
form=${1-full} chosen=${2-}
minutes=$(sed -n "s/^$form|\([0-9]*\)|.*/\1/p" <<<"$forms")
if [ -z "$minutes" ]; then
    sed -n '2,6s/^# //p' "$0"
    awk -F'|' 'NF { printf "  %-9s %3d min  %s\n", $1, $2, $3 }' <<<"$forms"
    [ "$form" = --help ] || [ "$form" = help ] || exit 2
    exit 0
fi

# ---- what takes how long ----

# How long it takes: as long as the last time here; before there was one, as long as it took where it was measured.
times=build/test-times.txt
took() { echo "$(($1 / 60)) min $(($1 % 60)) s"; }
last=$(sed -n "s/^$form //p" "$times" 2>/dev/null | tail -1 || true)
if [ -n "$last" ]; then
    echo "./test.sh $form takes about $(took "$last"): the last run here did"
else
    echo "./test.sh $form takes about $minutes min"
fi
SECONDS=0
parts=''

# part NAME COMMAND..: a line of what is listed at the end.
part() {
    local name=$1 began=$SECONDS
    shift
    echo "== $name"
    "$@"
    parts+="$(printf '%-36s %s' "$name" "$(took $((SECONDS - began)))")"$'\n'
}

# ---- building ----

# What was compiled once is not compiled again, in these builds and in those that tests make of the library.
# What there is to compile, ccache learns from the compiler, and does not preprocess it before: a tenth of compilation.
if command -v ccache >/dev/null; then export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DEPEND=1; fi

# Ninja is done with a thousand files sooner; what was configured with make stays with it.
build() { # build PRESET [CMAKE OPTION..]
    CMAKE_GENERATOR=Ninja cmake --preset "$@"
    cmake --build --preset "$1" --parallel "$jobs"
}

# What the compiler can do without comes over the network while it works.
# No tests run beside, since what a script starts beside itself cannot be interrupted, which tests do.
fetch_packages() {
    .ci/install compile
    mkdir -p build
    .ci/install 2>build/install.log &
    packages=$!
    trap 'kill $packages ${environment-} 2>/dev/null || true' EXIT
}
# An environment of Python; none where the caller names an interpreter.
with=${HGA_PYTHON_TESTS_WITH-} jax=${HGA_JAX_TESTS_WITH-}
fetch_python() { # fetch_python FOLDER [REQUIREMENTS]
    [ -z "$with" ] || return 0
    folder=$PWD/$1
    .ci/python "$@" >build/no-python.txt &
    environment=$!
}
fetched() {
    wait $packages || { cat build/install.log; exit 4; }
    [ -n "${environment-}" ] || return 0
    if wait $environment; then
        with=$folder/bin/python
    else
        no_python=$(cat build/no-python.txt)
        echo "no environment of torch and transformers: ${no_python:=.ci/python failed}"
    fi
}

# ---- testing ----

# The tests of a build. One more at a time than there are processors: those with a browser, or with processes of their
# own, wait a good part of their time.
run_tests() { # run_tests PRESET [CTEST OPTION..]
    log=$(log_of "$1")
    ctest --preset "$1" --parallel $((jobs + 1)) "${@:2}" </dev/null | tee "$log" || fail
    summary >/dev/null || fail
}
log_of() { [ "$1" = release ] && echo build/ctest.log || echo "build-$1/ctest.log"; }

# ctest's summary is the last line, whatever the outcome.
summary() { grep -E 'tests passed, [0-9]+ tests? failed out of' "$log"; }
fail() {
    summary || echo "no tests were run: see $log"
    exit 1
}

# ---- forms ----

form_full() {
    fetch_packages
    fetch_python build/python-tests
    part "build" build release
    part "wait for what is fetched" fetched
    part "JAX" lay_jax build/python-jax python/tests/jax.txt
    # Once more: what the other packages have brought is compiled, too.
    part "build what that brought" build release -DHGA_JAX_TESTS_WITH="$jax" -DHGA_PYTHON_TESTS_WITH="$with"
    part "tests" run_tests release
}

form_quick() {
    .ci/install
    part "build" build release
    part "tests" run_tests release --label-regex 'unit|rules'
    no_python="not in the quick form"
}

# Tests of the tool as a whole (browsers, interpreters), of what measures and of Python run in the whole form.
form_asan() {
    fetch_packages
    part "build" build asan
    part "wait for what is fetched" fetched
    part "build what that brought" build asan
    part "tests" run_tests asan --label-exclude 'whole|bench|rules|python'
}

# Sets of older releases, an environment each; both, or the one that is named: ./test.sh oldest oldest, ./test.sh oldest middle.
form_oldest() {
    local set
    fetch_packages
    part "build" build release
    part "wait for what is fetched" fetched
    log=$(log_of release)
    echo "100% tests passed, 0 tests failed out of 0" >"$log" # where no set can be had
    for set in ${chosen:-oldest middle}; do
        part "the $set set" run_set "$set"
    done
}
run_set() { # run_set SET
    local folder=$PWD/build/python-$1 jax=''
    if ! .ci/python "$folder" "python/tests/$1.txt" 7000000 >build/no-python.txt; then
        no_python+="the $1 set: $(cat build/no-python.txt). "
        return 0
    fi
    # The oldest has the oldest JAX beside it.
    [ "$1" != oldest ] || ! .ci/python "$PWD/build/python-jax-oldest" python/tests/jax_oldest.txt 1000000 >build/no-python.txt ||
        jax=$PWD/build/python-jax-oldest/bin/python
    build release -DHGA_PYTHON_SET_WITH="$folder/bin/python" -DHGA_JAX_SET_WITH="$jax"
    run_tests release --build-config Releases --tests-regex '^releases_'
}
lay_over() { # lay_over VARIABLE FOLDER REQUIREMENTS: the variable gets the interpreter of both
    local site
    [ -n "$with" ] || return 0
    .ci/python "${@:2}" 3000000 >build/no-python.txt || { no_python=$(cat build/no-python.txt); return 0; }
    for site in "$2"/lib/python3.*/site-packages; do
        "$with" -c 'import site; print(site.getsitepackages()[0])' >"$site/newest.pth"
    done
    printf -v "$1" %s "$PWD/$2/bin/python"
}
# Where the caller names interpreters nothing is fetched.
lay_jax() { # lay_jax FOLDER REQUIREMENTS
    [ -n "$jax${HGA_PYTHON_TESTS_WITH-}" ] || lay_over jax "$@"
}

form_newword() {
    fetch_packages
    fetch_python build/python-tests
    part "build" build release
    part "wait for what is fetched" fetched
    part "build what that brought" build release -DHGA_PYTHON_TESTS_WITH="$with"
    part "a new word" run_tests release --build-config NewWord --tests-regex '^newword$'
}

# Another machine's programs. Fewer cases of each test, as in instrumented builds; every instruction set, the best last.
# Of Python a wheel, by the tests that need numpy alone.
form_arm() {
    local isa
    .ci/install arm
    [ -x build-aarch64-sysroot/emulated/python3 ] || part "Debian's arm64 libraries" arm_libraries
    part "build" build aarch64
    for isa in ref neonbf16; do
        part "tests, $isa" env_isa $isa run_tests aarch64
    done
    part "a wheel, numpy's tests" arm_wheel
    no_python="not in the arm form"
}
arm_libraries() {
    rm -rf build-aarch64-sysroot build-aarch64-sysroot.part
    cmake/aarch64-sysroot.sh build-aarch64-sysroot.part && mv build-aarch64-sysroot.part build-aarch64-sysroot
}
arm_wheel() { python/wheel.sh --for aarch64 build-aarch64/wheel || { echo "FAILED: the wheel for ARM, which ctest does not count"; fail; }; }
env_isa() { HGA_ISA=$1 "${@:2}"; }

# Lines and branches that tests reach. Where threads run and memory lies, other tests have been, too.
form_coverage() {
    .ci/install
    part "build" build coverage
    # Counters of an earlier run would be added up.
    find build-coverage -name '*.gcda' -delete
    part "tests" run_tests coverage --label-exclude 'whole|bench|rules|python' \
        --exclude-regex 'test_first_touch|test_threads|test_waves|test_samples'
    part "counts" reached
}
reached() {
    # vec*.h define the same functions on other lines for every instruction set, which gcovr 5.2 cannot merge.
    local unseen=(--exclude 'kernels/vec.*\.h') to=build-coverage
    if ! grep -q avx512_bf16 /proc/cpuinfo; then
        echo "== kernels/bf16.inc is not counted: this machine has no products of bfloat16 pairs"
        unseen+=(--exclude kernels/bf16.inc)
    fi
    gcovr --root . "${unseen[@]}" --filter '(graph|kernels|msgpass|builders)/' $to
    echo "== branches; what is not reached is listed in $to/not-reached.txt"
    gcovr --root . "${unseen[@]}" --branches --filter '(graph|kernels|msgpass)/' --txt $to/branches.txt \
        --json $to/branches.json $to
    tail -4 $to/branches.txt
    python3 tests/not_reached.py $to/branches.json >$to/not-reached.txt
}

# ---- the end ----

what_it_took() {
    echo "== what took how long: $(took $SECONDS) in all; tests run side by side, and some have two labels"
    printf '%s' "$parts"
    sed -n 's/^\([^ ]*\) *= *\([0-9.]*\) sec\*proc (\(.*\))$/\2 \1 \3/p' "$log" | sort -rn |
        awk '{ printf "  %-34s %6.0f s, %s %s\n", "tests labelled " $2, $1, $3, $4 }'
    sed -nE 's/.* Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*/\2 \1/p' "$log" | sort -rn |
        awk 'NR <= 10 { printf "  %-34s %6.0f s\n", $2, $1 }'
}

# Tests that ctest calls skipped, by name, and why those of Python are.
not_run() {
    local names
    names=$(sed -nE 's/^[[:space:]]*[0-9]+ - (.*) \((Skipped|Not Run)\)$/\1/p' "$log" | sort -u | tr '\n' ' ')
    [ -z "$names" ] || echo "NOT RUN: $names"
    [ -z "${no_python-}" ] ||
        echo "NOT TESTED: the Python package with torch, transformers, mypy and notebooks: $no_python"
}

"form_$form"
mkdir -p build
echo "$form $SECONDS" >>"$times"
echo
what_it_took
not_run
summary
