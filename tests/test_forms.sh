#!/bin/bash
# test.sh in its forms, and the environment for the Python tests: test_forms.sh SOURCE. What test.sh calls is stood in for.
set -u
source=$1
. "$(dirname "$0")/facts.sh"
mkdir -p house/.ci house/tests bin
cp "$source/test.sh" house/
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"; }
echo "PATH=$scratch/bin:\$PATH" >house/.ci/debian_first
stand_in house/.ci/install 'echo "install $*" >>calls'
# shellcheck disable=SC2016 # what the stand-ins expand
stand_in bin/cmake 'echo "cmake $*" >>calls; mkdir -p build build-asan build-coverage build/examples'
# shellcheck disable=SC2016
stand_in bin/ctest 'echo "ctest $*" >>calls; [ ! -e broken ] || { echo "50% tests passed, 1 tests failed out of 2"; exit 8; }
echo "100% tests passed, 0 tests failed out of 2"; [ ! -e skipping ] || printf "\nThe following tests did not run:\n\t  1 - python_torch (Skipped)\n\t 12 - python_models (Skipped)\n"'
stand_in bin/valgrind "echo valgrind >>'$scratch/house/calls'"
stand_in bin/gcovr 'echo gcovr >>calls; echo all >build-coverage/branches.txt'
stand_in bin/python3 'exit 0'
environment() { stand_in house/.ci/python "$1"; }
environment 'echo "python $*" >>calls'
test_sh() { (cd house && rm -f calls && unset HGA_PYTHON_TESTS_WITH && exec ./test.sh "$@"); }

# ---- what it says, and what it runs ----

test_sh --help >help
fact help_names_the_quick_form holds help 'test\.sh quick'
fact and_that_of_coverage holds help 'test\.sh coverage'
fact another_word_is_wrong_usage exits 2 test_sh quickly
fact the_whole_runs test_sh
test_sh >whole
fact its_first_line_says_how_long_it_takes sh -c 'head -1 whole | grep -Eq "^\./test\.sh( full)? takes about [0-9]+"'
ctest_lines() { grep '^ctest' house/calls | sed 's/ --parallel [0-9]*//'; }
fact in_two_builds equal "$(ctest_lines | sed 's/ --label.*//' | tr '\n' ';')" "ctest --preset asan;ctest --preset release;"
fact both_built_before_any_test equal "$(grep -oE '^(cmake --build --preset [a-z]*|ctest)' house/calls | head -3 | tr '\n' ';')" "cmake --build --preset asan;cmake --build --preset release;ctest;"
fact what_compiles_is_there_before_the_rest equal "$(grep '^install' house/calls | tr '\n' ';')" "install compile;install ;"
fact valgrind_looks_on_then equal "$(grep -c '^valgrind' house/calls)" 2
fact the_release_build_runs_every_test equal "$(ctest_lines | tail -1)" "ctest --preset release"
fact with_the_environments_python grep -q "^cmake --preset release -DHGA_PYTHON_TESTS_WITH=.*/build/python-tests/bin/python$" house/calls
fact the_summary_is_its_last_line equal "$(tail -1 whole)" "100% tests passed, 0 tests failed out of 2"
fact the_next_time_it_says_how_long_the_last_took sh -c 'test_line=$(cd house && unset HGA_PYTHON_TESTS_WITH && ./test.sh | head -1); echo "$test_line" | grep -Eq "^./test.sh full takes about [0-9]+ min [0-9]+ s: the last run here did$"'
rm -f house/build/test-times.txt
fact the_quick_form_runs test_sh quick
test_sh quick >quick
fact and_says_how_long_it_takes holds quick '^\./test\.sh quick takes about'
fact one_build_of_unit_tests_and_rules equal "$(ctest_lines)" "ctest --preset release --label-regex unit|rules"
fact without_an_environment lacks house/calls '^python'
fact which_it_says holds quick '^NOT TESTED: the Python package .* not in the quick form$'

fact the_form_of_coverage_runs test_sh coverage
test_sh coverage >reached
fact one_build_whose_counters_are_read equal "$(grep -oE '^(cmake --build --preset [a-z]*|ctest --preset [a-z]*|gcovr)' house/calls | tr '\n' ';')" "cmake --build --preset coverage;ctest --preset coverage;gcovr;gcovr;"
fact the_branches_and_the_summary_are_its_last_words equal "$(sed '/^$/d' reached | tail -3 | sed 's/^[0-9]* min [0-9]* s$/TIME/' | tr '\n' ';')" "all;TIME;100% tests passed, 0 tests failed out of 2;"

# ---- nothing is skipped in silence ----

touch house/skipping
test_sh >whole
fact what_was_skipped_is_named holds whole '^NOT RUN in the release build: python_models python_torch $'
rm house/skipping
environment 'echo "9 GB are needed"; exit 3'
fact without_an_environment_the_rest_is_tested test_sh
test_sh >whole
fact and_the_end_says_why holds whole '^NOT TESTED: the Python package with torch, transformers, mypy and notebooks: 9 GB are needed$'
fact then_the_building_python_runs_them grep -q '^cmake --preset release -DHGA_PYTHON_TESTS_WITH=$' house/calls
named() { (cd house && rm -f calls && HGA_PYTHON_TESTS_WITH=/opt/p ./test.sh >named) && grep -q 'HGA_PYTHON_TESTS_WITH=/opt/p$' house/calls && lacks house/calls '^python' && lacks house/named '^NOT TESTED'; }
fact an_interpreter_may_be_named named
stand_in house/.ci/install '[ "$1" = compile ] || { echo "no such package" >&2; exit 4; }'
fact packages_that_cannot_be_had_end_it exits 4 test_sh
test_sh >whole
fact and_it_says_why holds whole '^no such package$'
fact before_any_test lacks house/calls '^ctest'
stand_in house/.ci/install 'echo "install $*" >>calls'
touch house/broken
fact a_failing_suite_ends_it exits 1 test_sh
test_sh >whole
fact with_its_summary equal "$(tail -1 whole)" "50% tests passed, 1 tests failed out of 2"

# ---- the environment itself; nothing of it comes over the network here ----

rm bin/python3
mkdir real
cp -r "$source/.ci" real/
export PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0
make() { real/.ci/python there "$@"; }
echo '# nothing' >few.txt
if ! /usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null; then
    echo "skipped: environments of Python, since python3-venv is not installed"
else
    fact an_environment_is_made make few.txt 1000
    fact it_has_its_interpreter there/bin/python -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'
    touch -d '2001-02-03' there/log
    fact a_second_time make few.txt 1000
    fact nothing_is_installed equal "$(date -r there/log +%Y)" 2001
    echo 'hga-no-such-package==1' >few.txt
    make few.txt 1000 >why 2>stderr
    fact what_is_not_to_be_had_ends_with_3 equal $? 3
    fact and_one_line_says_so sh -c '[ "$(wc -l <why)" = 1 ] && grep -q "PyPI cannot be reached" why'
fi
fact a_small_disk_ends_with_3_too exits 3 make few.txt 999000000000
make few.txt 999000000000 >why 2>stderr
fact and_is_named holds why '^999000 GB are needed in there, [0-9]+ are free$'
fact every_requirement_is_pinned sh -c "! grep -vE '^#|^[A-Za-z0-9_.-]+==[^ ]+( ; platform_machine == \"x86_64\")?$' '$source/python/tests/requirements.txt'"
facts_end
