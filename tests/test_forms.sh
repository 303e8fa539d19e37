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
stand_in bin/cmake 'echo "cmake $*" >>calls; mkdir -p build build-asan build-coverage build-aarch64 build/examples'
# shellcheck disable=SC2016
stand_in bin/ctest 'echo "ctest $*" >>calls; ! grep -qx "${2-}" broken 2>/dev/null || { echo "50% tests passed, 1 tests failed out of 2"; exit 8; }
cat <<END
1/2 Test  #31: test_one ...................   Passed    2.41 sec
2/2 Test #147: two ........................   Passed   71.50 sec

100% tests passed, 0 tests failed out of 2

Label Time Summary:
cli     =  71.50 sec*proc (1 test)
unit    =   2.41 sec*proc (1 test)
END
[ ! -e skipping ] || printf "\nThe following tests did not run:\n\t  1 - python_torch (Skipped)\n\t 12 - python_models (Skipped)\n"'
stand_in bin/gcovr 'echo gcovr >>calls; echo all >build-coverage/branches.txt'
stand_in bin/python3 'exit 0'
environment() { stand_in house/.ci/python "$1"; }
# shellcheck disable=SC2016
environment 'echo "python $*" >>calls; mkdir -p "$1/bin" "$1/lib/python3.11/site-packages"
printf "#!/bin/sh\necho the newest\n" >"$1/bin/python"; chmod +x "$1/bin/python"'
into() { "${@:2}" >"$1"; } # into FILE COMMAND..
test_sh() { (cd house && rm -f calls && unset HGA_PYTHON_TESTS_WITH HGA_JAX_TESTS_WITH && exec ./test.sh "$@"); }


# ---- what it says, and what it runs ----

test_sh --help >help
for form in full quick asan coverage; do fact help_names_the_form_$form holds help "^  $form +[0-9]+ min  [a-zA-Z]"; done
sed -n 's/^form_\([a-z]*\)() .*/\1/p' house/test.sh | sort >are_made
sed -n 's/^  \([a-z]*\) .* min .*/\1/p' help | sort >are_said
fact every_form_that_is_made_is_said cmp are_made are_said
table_of() { sed -nE "$2" "$1" | sed 's/ *$//' | sort; }
table_of help 's/^  ([a-z]+) +([0-9]+) min  ([^;:]*).*/\1 \2 \3/p' >forms_of_help
# shellcheck disable=SC2016 # backquotes of Markdown
table_of "$source/CONTRIBUTING.md" 's/^\| `\.\/test\.sh ?([a-z]*)` \| ([0-9]+) \| ([^;:|]*).*/\1 \2 \3/p' | sed 's/^ /full /' | sort >forms_of_contributing
fact contributing_has_the_same_forms diff forms_of_help forms_of_contributing
# README's first lines say how long the whole takes.
sed -nE 's,^\./test\.sh  .*about ([0-9]+) minutes on two cores.*,full \1,p' "$source/README.md" >minutes_of_readme
cut -d' ' -f1,2 forms_of_help | grep '^full ' >minutes_of_the_whole
fact so_has_readme diff minutes_of_readme minutes_of_the_whole
fact another_word_is_wrong_usage exits 2 test_sh quickly
fact and_so_is_a_piece_of_one exits 2 test_sh qui
fact the_whole_runs into whole test_sh
fact its_first_line_says_how_long_it_takes sh -c 'head -1 whole | grep -Eq "^\./test\.sh full takes about [0-9]+ min"'
ctest_lines() { grep '^ctest' house/calls | sed 's/ --parallel [0-9]*//'; }
order() { grep -oE '^(cmake --build --preset [a-z0-9]*|ctest --preset [a-z0-9]*|gcovr)' house/calls | tr '\n' ';'; }
fact in_one_build_with_every_test equal "$(ctest_lines)" "ctest --preset release"
fact built_before_any_test equal "$(order)" "cmake --build --preset release;cmake --build --preset release;ctest --preset release;"
fact what_compiles_is_there_before_the_rest equal "$(grep '^install' house/calls | tr '\n' ';')" "install compile;install ;"
fact with_the_environments_python grep -q "^cmake --preset release .* -DHGA_PYTHON_TESTS_WITH=.*/build/python-tests/bin/python$" house/calls
fact and_with_jax_over_them grep -q "^cmake --preset release -DHGA_JAX_TESTS_WITH=.*/build/python-jax/bin/python " house/calls
fact which_is_a_part_of_its_own equal "$(grep '^python' house/calls | tr '\n' ';')" "python build/python-tests;python build/python-jax python/tests/jax.txt 3000000;"
fact the_summary_is_its_last_line equal "$(tail -1 whole)" "100% tests passed, 0 tests failed out of 2"
fact the_next_time_it_says_how_long_the_last_took sh -c 'test_line=$(cd house && unset HGA_PYTHON_TESTS_WITH HGA_JAX_TESTS_WITH && ./test.sh | head -1); echo "$test_line" | grep -Eq "^./test.sh full takes about [0-9]+ min [0-9]+ s: the last run here did$"'
rm -f house/build/test-times.txt

# What each part took, labels and tests from the longest on.
sed -n '/^== what took how long/,$p' whole | sed -E 's/[0-9]+ min [0-9]+ s/TIME/; s/  +/ /g' >ends
cat >wanted_end <<'END'
== what took how long: TIME in all; tests run side by side, and some have two labels
build TIME
wait for what is fetched TIME
JAX TIME
build what that brought TIME
tests TIME
 tests labelled cli 72 s, 1 test
 tests labelled unit 2 s, 1 test
 two 72 s
 test_one 2 s
100% tests passed, 0 tests failed out of 2
END
fact the_end_lists_what_took_how_long diff ends wanted_end

fact the_quick_form_runs into quick test_sh quick
fact and_says_how_long_it_takes holds quick '^\./test\.sh quick takes about'
fact one_build_of_unit_tests_and_rules equal "$(ctest_lines)" "ctest --preset release --label-regex unit|rules"
fact without_an_environment lacks house/calls '^python'
fact which_it_says holds quick '^NOT TESTED: the Python package .* not in the quick form$'

fact the_form_of_sanitizers_runs into sanitized test_sh asan
fact one_build_and_the_tests_of_what_is_instrumented equal "$(ctest_lines)" "ctest --preset asan --label-exclude whole|bench|rules|python"
fact after_the_packages_are_there equal "$(order)" "cmake --build --preset asan;cmake --build --preset asan;ctest --preset asan;"
fact it_needs_no_python lacks house/calls '^python'
fact and_ends_with_its_summary equal "$(tail -1 sanitized)" "100% tests passed, 0 tests failed out of 2"

mkdir -p house/cmake house/python house/build-aarch64-sysroot
stand_in house/cmake/aarch64-sysroot.sh 'mkdir -p "$1/emulated"; echo "libraries" >>calls; printf "#!/bin/sh\n" >"$1/emulated/python3"; chmod +x "$1/emulated/python3"'
stand_in house/python/wheel.sh 'echo "wheel $*" >>calls; [ ! -e broken-wheel ]'
fact the_form_of_arm_runs into emulated test_sh arm
fact libraries_without_a_python_are_fetched_anew equal "$(grep -c '^libraries' house/calls)" 1
fact one_build_and_its_tests_on_each_instruction_set equal "$(order)" "cmake --build --preset aarch64;ctest --preset aarch64;ctest --preset aarch64;"
fact with_the_packages_of_that_form_alone equal "$(grep '^install' house/calls)" "install arm"
fact of_python_a_wheel_is_tried_last equal "$(tail -1 house/calls)" "wheel --for aarch64 build-aarch64/wheel"
fact and_no_torch_is holds emulated '^NOT TESTED: the Python package with torch.* not in the arm form$'
touch house/broken-wheel
fails_by_its_wheel() { ! test_sh arm >unwheeled 2>&1; }
fact a_wheel_that_fails_fails_the_form fails_by_its_wheel
fact and_says_so holds unwheeled '^FAILED: the wheel for ARM, which ctest does not count$'
fact with_the_summary_last equal "$(tail -1 unwheeled)" "100% tests passed, 0 tests failed out of 2"
fact and_the_libraries_are_kept lacks house/calls '^libraries'
rm house/broken-wheel

fact the_form_of_coverage_runs into reached test_sh coverage
fact one_build_whose_counters_are_read equal "$(order)" "cmake --build --preset coverage;ctest --preset coverage;gcovr;gcovr;"
fact the_branches_are_said holds reached '^all$'
fact and_the_summary_comes_last equal "$(tail -1 reached)" "100% tests passed, 0 tests failed out of 2"

# ---- what CI runs ----

cp "$source/.ci/run" house/.ci/
sed -n 's,^\./test\.sh \([a-z]*\).*,\1,p' house/.ci/run >run_by_ci
forms_that_can_fail() { grep -vE '^(quick|coverage|arm)$' are_made >can_fail && missing can_fail run_by_ci; } # quick is a part of the whole, and coverage fails nobody
fact ci_runs_every_form_that_can_fail_but_an_hour_of_arm forms_that_can_fail
ci() { (cd house && rm -f calls && unset HGA_PYTHON_TESTS_WITH && exec .ci/run); }
fact ci_passes_where_all_pass into by_ci ci
fact it_ran_them equal "$(grep -oE '^ctest --preset [a-z0-9]*' house/calls | tr '\n' ';')" "ctest --preset asan;ctest --preset release;ctest --preset release;ctest --preset release;"
fact its_last_line_is_a_summary equal "$(tail -1 by_ci)" "100% tests passed, 0 tests failed out of 2"
ci_fails() { # ci_fails PRESET: a failing test of that build fails CI, whose last line says so
    echo "$1" >house/broken
    ci >by_ci
    local status=$?
    rm house/broken
    [ $status != 0 ] && equal "$(tail -1 by_ci)" "50% tests passed, 1 tests failed out of 2"
}
fact a_failure_under_sanitizers_fails_it ci_fails asan
fact so_does_one_of_the_release_build ci_fails release

# ---- the oldest releases ----

fact the_form_of_the_oldest_runs into oldest test_sh oldest
fact each_set_is_an_environment_of_its_own equal "$(grep '^python' house/calls | sed "s,$PWD/house/,," | tr '\n' ';')" "python build/python-oldest python/tests/oldest.txt 7000000;python build/python-jax-oldest python/tests/jax_oldest.txt 1000000;python build/python-middle python/tests/middle.txt 7000000;"
fact its_tests_run_with_it grep -q "^cmake --preset release -DHGA_PYTHON_SET_WITH=.*/build/python-oldest/bin/python -DHGA_JAX_SET_WITH=.*/build/python-jax-oldest/bin/python$" house/calls
fact and_are_those_of_what_has_releases equal "$(ctest_lines | tail -1)" "ctest --preset release --build-config Releases --tests-regex ^releases_"
environment 'echo "9 GB are needed"; exit 3'
fact a_set_that_cannot_be_had_is_skipped into oldest test_sh oldest middle
fact in_words holds oldest '^NOT TESTED: .* the middle set: 9 GB are needed'
environment 'echo "python $*" >>calls; mkdir -p "$1/bin"; touch "$1/bin/python"'
fact one_set_may_be_named into oldest test_sh oldest middle
fact and_no_other_is_fetched equal "$(grep -c '^python' house/calls)" 1

# ---- a new word ----

fact the_form_of_a_new_word_runs into newword test_sh newword
fact it_runs_one_test_that_no_other_form_runs equal "$(ctest_lines | tail -1)" "ctest --preset release --build-config NewWord --tests-regex ^newword\$"

# ---- nothing is skipped in silence ----

touch house/skipping
test_sh >whole
fact what_was_skipped_is_named holds whole '^NOT RUN: python_models python_torch $'
rm house/skipping
environment 'echo "9 GB are needed"; exit 3'
fact without_an_environment_the_rest_is_tested into whole test_sh
fact and_the_end_says_why holds whole '^NOT TESTED: the Python package with torch, transformers, mypy and notebooks: 9 GB are needed$'
fact then_the_building_python_runs_them grep -q '^cmake --preset release -DHGA_JAX_TESTS_WITH= -DHGA_PYTHON_TESTS_WITH=$' house/calls
named() { (cd house && rm -f calls && HGA_PYTHON_TESTS_WITH=/opt/p ./test.sh >named) && grep -q 'HGA_PYTHON_TESTS_WITH=/opt/p$' house/calls && lacks house/calls '^python' && lacks house/named '^NOT TESTED'; }
fact an_interpreter_may_be_named named
stand_in house/.ci/install '[ "$1" = compile ] || { echo "no such package" >&2; exit 4; }'
fact packages_that_cannot_be_had_end_it exits 4 into whole test_sh
fact and_it_says_why holds whole '^no such package$'
fact before_any_test lacks house/calls '^ctest'
stand_in house/.ci/install 'echo "install $*" >>calls'
echo release >house/broken
fact a_failing_suite_ends_it exits 1 into whole test_sh
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
fact every_requirement_is_pinned sh -c "! grep -vE '^#|^[A-Za-z0-9_.-]+==[^ ]+( ; platform_machine == \"x86_64\")?$' '$source/python/tests/requirements.txt' '$source/python/tests/jax.txt' '$source/python/tests/jax_oldest.txt' '$source/python/tests/oldest.txt' '$source/python/tests/middle.txt'"
facts_end
