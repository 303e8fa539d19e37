# Shell tests of the tool and of the library's symbols; included by tests/CMakeLists.txt. Those labelled `whole` run the tool with browsers,
# interpreters or many benchmarks: test.sh leaves them out of the instrumented builds, where they would take longer than all others together.
add_executable(npy_tool npy.c)
target_link_libraries(npy_tool PRIVATE hga_flags m)
set_target_properties(npy_tool PROPERTIES OUTPUT_NAME npy)
hga_emulated(npy_tool)
add_executable(json_tool json.c)
target_link_libraries(json_tool PRIVATE hga_flags PkgConfig::JANSSON)
set_target_properties(json_tool PROPERTIES OUTPUT_NAME json)
hga_emulated(json_tool)

add_test(NAME cli COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_cli.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> $<TARGET_FILE:json_tool>)
add_test(NAME bad_input COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_bad_input.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool>)
add_test(NAME view COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_view.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> $<TARGET_FILE:json_tool> ${CMAKE_CURRENT_LIST_DIR})
add_test(NAME pages COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_pages.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> ${PROJECT_SOURCE_DIR})
# One Chromium opens the pages of all tests.
set(browser ${CMAKE_CURRENT_BINARY_DIR}/scratch/browser)
add_test(NAME browser_opens COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/browser.py --serve ${browser})
add_test(NAME browser_closes COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/browser.py --end ${browser})
set_tests_properties(browser_opens browser_closes PROPERTIES TIMEOUT 120 LABELS "cli;whole" SKIP_RETURN_CODE 77)
set_tests_properties(browser_opens PROPERTIES FIXTURES_SETUP browser COST 110)
set_tests_properties(browser_closes PROPERTIES FIXTURES_CLEANUP browser)
function(opens_pages)
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT 600 LABELS "cli;whole" FIXTURES_REQUIRED browser ENVIRONMENT "OMP_WAIT_POLICY=passive;HGA_BROWSER=${browser}")
endfunction()
opens_pages(view pages)
add_test(NAME inspect_tool COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_inspect.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> $<TARGET_FILE:json_tool>)
set_tests_properties(inspect_tool PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
set_tests_properties(cli bad_input PROPERTIES TIMEOUT 600 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
add_test(NAME version COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_version.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:hga_tool>)
set_tests_properties(version PROPERTIES LABELS cli)
add_test(NAME completion COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_completion.sh $<TARGET_FILE:hga_tool> ${PROJECT_SOURCE_DIR}/completions/hga.bash)
set_tests_properties(completion PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
# Words that readers stumbled over.
add_test(NAME english COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_english.sh $<TARGET_FILE:hga_tool> ${PROJECT_SOURCE_DIR})
set_tests_properties(english PROPERTIES TIMEOUT 120 LABELS "cli;rules")

add_test(NAME words_tool COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_words.sh $<TARGET_FILE:hga_tool>)
set_tests_properties(words_tool PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
add_test(NAME call_tool COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_call.sh $<TARGET_FILE:hga_tool>)
set_tests_properties(call_tool PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)

# Outputs that meet each other, standard output, their inputs, or what takes nothing.
add_test(NAME outputs COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_outputs.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool>)
set_tests_properties(outputs PROPERTIES TIMEOUT 600 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)

# What happens to files when the disk is full, a signal comes, a link is in the way; again where files cannot be without a name.
# A preloaded library and an instrumented program do not go together.
if(NOT HGA_SANITIZE)
  add_library(no_tmpfile MODULE no_tmpfile.c)
  add_test(NAME faults COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_faults.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> $<TARGET_FILE:no_tmpfile>)
  set_tests_properties(faults PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
  # Small files under a bound of memory, and with one allocation failing: for the same reason.
  add_library(no_memory MODULE no_memory.c)
  add_test(NAME costs COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_costs.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> $<TARGET_FILE:no_memory>)
  set_tests_properties(costs PROPERTIES TIMEOUT 600 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()

foreach(name choose layout tensors gradients decode_tool)
  add_test(NAME ${name} COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_${name}.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:npy_tool> $<TARGET_FILE:json_tool>)
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()
set_tests_properties(choose PROPERTIES LABELS "cli;whole")

# What examples/python recomputes of papers.
add_test(NAME numbers_of_papers COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_numbers_of_papers.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:npy_tool> $<TARGET_FILE:json_tool>)
set_tests_properties(numbers_of_papers PROPERTIES TIMEOUT 600 LABELS "cli;whole")

# Benchmarks for their correctness, not their times.
add_test(NAME bench_tool COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_bench.sh $<TARGET_FILE:hga_tool> $<TARGET_FILE:json_tool>
    ${PROJECT_SOURCE_DIR}/bench/results/make.sh)
set_tests_properties(bench_tool PROPERTIES TIMEOUT 600 LABELS "cli;bench;whole" ENVIRONMENT OMP_WAIT_POLICY=passive)

# What a row of them says, of limits that are given.
set(cli ${PROJECT_SOURCE_DIR}/cli)
add_executable(bench_shares bench_shares.c ${cli}/bench_report.c ${cli}/measured.c $<TARGET_OBJECTS:hga_tool_common>)
target_include_directories(bench_shares PRIVATE ${cli} ${cli}/common ${PROJECT_BINARY_DIR}/cli)
target_link_libraries(bench_shares PRIVATE test_support hga_bench hga::files hga::hga PkgConfig::JANSSON m)
add_test(NAME bench_shares COMMAND bench_shares)
set_tests_properties(bench_shares PROPERTIES TIMEOUT 60 LABELS "cli;bench")

# Exports read back by other programs; needs python3 with networkx, igraph, numpy and scipy, metis, graphviz, netpbm and xmllint.
add_test(NAME exports COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_exports.sh $<TARGET_FILE:hga_tool> ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(exports PROPERTIES TIMEOUT 600 LABELS "cli;whole" ENVIRONMENT OMP_WAIT_POLICY=passive)

# Graphs of other programs, read and compared edge for edge with what those programs hold.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/imports)
add_test(NAME imports COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/imports.py $<TARGET_FILE:hga_tool> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/imports)
set_tests_properties(imports PROPERTIES TIMEOUT 300 LABELS "cli;whole" ENVIRONMENT OMP_WAIT_POLICY=passive)

# Files that networkx, igraph, scipy and others write, in a table and drawn at random: read as they read them, or refused.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/foreign_files)
add_test(NAME foreign_files COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/foreign_files.py $<TARGET_FILE:hga_tool> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/foreign_files)
set_tests_properties(foreign_files PROPERTIES TIMEOUT 300 LABELS "cli;whole" ENVIRONMENT OMP_WAIT_POLICY=passive)

# Graphs in order, and what is said of their edges.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/orders)
add_test(NAME orders COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/orders.py $<TARGET_FILE:hga_tool> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/orders)
set_tests_properties(orders PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)

# Calls whose files, pipes, types, layouts and batches are drawn together.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/streams)
add_test(NAME streams COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/streams.py $<TARGET_FILE:hga_tool> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/streams)
set_tests_properties(streams PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)

# Calls whose graph, tree, order, tables, modifiers, gradients, layouts and types are drawn together.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/tool_draws)
add_test(NAME tool_draws COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/tool_draws.py $<TARGET_FILE:hga_tool> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/tool_draws)
set_tests_properties(tool_draws PROPERTIES TIMEOUT 600 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
add_test(NAME chosen_tool COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_chosen.sh $<TARGET_FILE:hga_tool>)
set_tests_properties(chosen_tool PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/tool_routed)
add_test(NAME tool_routed COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/tool_routed.py $<TARGET_FILE:hga_tool> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/tool_routed)
set_tests_properties(tool_routed PROPERTIES TIMEOUT 600 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)

# Instrumented objects call the instrument's own functions.
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE AND NOT BUILD_SHARED_LIBS AND CMAKE_BUILD_TYPE MATCHES "Rel")
  add_test(NAME symbols COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_symbols.sh $<TARGET_FILE:hga> $<TARGET_FILE:hga_files> $<TARGET_FILE:hga_shared> $<TARGET_FILE:hga_files_shared> ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(symbols PROPERTIES TIMEOUT 60 LABELS rules)
endif()

# Which file calls which, as it was built.
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  add_test(NAME rooms COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/rooms.py ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(rooms PROPERTIES TIMEOUT 60 LABELS rules)
endif()

# The list of fuzzers.
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  add_test(NAME fuzz_list COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_fuzz.sh ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(fuzz_list PROPERTIES TIMEOUT 60 LABELS rules)
endif()

# run.sh where things are missing, by stand-ins for what it calls.
add_test(NAME run_sh COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_run.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(run_sh PROPERTIES TIMEOUT 60 LABELS rules)

# test.sh in its forms, by stand-ins too.
add_test(NAME test_sh COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_forms.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(test_sh PROPERTIES TIMEOUT 300 LABELS rules)

# Inside of another project, and where packages are missing. It compiles the library anew, so a compiler launcher (ccache) helps.
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  add_test(NAME subproject COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_subproject.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(subproject PROPERTIES TIMEOUT 900 LABELS "cli;whole" ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()

# A new word of a call, in a copy of the tree: ./test.sh newword, and in no other form.
add_test(NAME newword CONFIGURATIONS NewWord COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/newword/run.sh ${PROJECT_SOURCE_DIR} ${HGA_PYTHON_TESTS_WITH})
set_tests_properties(newword PROPERTIES TIMEOUT 1200 LABELS newword)

# Seconds, so that ctest begins with the longest, and with those that wait for a browser: what is begun last leaves the other cores without work.
foreach(test pages:100 subproject:90 view:80 bench_tool:50 cli:40 bad_input:35 costs:30 exports:20 gradients:20 decode_tool:20 faults:20 test_sh:20)
  string(REGEX MATCH "^(.+):(.+)$" _ ${test})
  if(TEST ${CMAKE_MATCH_1})
    set_tests_properties(${CMAKE_MATCH_1} PROPERTIES COST ${CMAKE_MATCH_2})
  endif()
endforeach()

# Memory of a program as it is installed, which no sanitizer was compiled into.
find_program(VALGRIND valgrind)
if(VALGRIND AND NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  set(checked ${VALGRIND} --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/valgrind)
  add_test(NAME valgrind_tool COMMAND ${checked} $<TARGET_FILE:hga_tool> build bpt --tokens 50 -o graph.npy WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/valgrind)
  add_test(NAME valgrind_library COMMAND ${checked} $<TARGET_FILE:custom_hierarchy> WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/valgrind)
  set_tests_properties(valgrind_tool valgrind_library PROPERTIES TIMEOUT 300 COST 20 LABELS "whole;valgrind")
endif()

# What is documented, and what is installed.
if(NOT HGA_INSTALL)
  return()
endif()
add_test(NAME docs COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_docs.sh $<TARGET_FILE:hga_tool> ${PROJECT_SOURCE_DIR} ${HGA_MAN})
set_tests_properties(docs PROPERTIES TIMEOUT 600 COST 45 LABELS "cli;whole" ENVIRONMENT OMP_WAIT_POLICY=passive)
if(HGA_PYTHON AND NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  add_test(NAME site COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_site.sh $<TARGET_FILE:hga_tool> ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/python)
  opens_pages(site)
  set_tests_properties(site PROPERTIES COST 45 SKIP_RETURN_CODE 77)
endif()
if(NOT HGA_SANITIZE AND NOT HGA_COVERAGE)
  add_test(NAME package COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_package.sh
    ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR} $<TARGET_FILE:hga> $<TARGET_FILE:hga_files> ${CMAKE_C_COMPILER})
  set_tests_properties(package PROPERTIES TIMEOUT 300 LABELS cli ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()
