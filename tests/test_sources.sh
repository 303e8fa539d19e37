#!/bin/bash
# Rules about the text of the sources: test_sources.sh SOURCE
set -u
export LC_ALL=C.UTF-8
source=$1
. "$(dirname "$0")/facts.sh"

# What is written by hand: no build folders, no recorded data.
find "$source" -mindepth 1 \( -name '.git' -o -name build -o -name 'build[-_]*' -o -path "$source/tests/golden" -o -path "$source/fuzz/corpus" \) -prune -o -type f -print | sort >files
grep -E '\.(c|h|inc|cc|hpp)$' files >c_files
there_are_sources() { [ "$(wc -l <c_files)" -gt 100 ] && grep -q '\.inc$' c_files; }
fact there_are_sources there_are_sources

# FILES REGEX: the lines that match, without the folder of the sources
lines_with() { tr '\n' '\0' <"$1" | xargs -0 grep -nHE -- "$2" | sed "s,^$source/,,"; }

# A wrong include must not compile: folders see each other by the include paths of their targets.
lines_with c_files '^ *# *include *["<]([^">]*/)?\.\./' >found
fact no_include_goes_up empty found
lines_with files '(^|[^[:alnum:]_.~$}])/(home|root|work|Users)/[[:alnum:]]' >found
fact no_path_of_somebodys_machine empty found

# MPIs differ in their headers: who includes one is of one MPI.
lines_with c_files '^ *# *include *[<"]mpi\.h' | grep -v '^dist/mpi\.c:' >found
fact mpi_is_included_by_one_file empty found
includes_it() { grep -q '^#include <mpi.h>$' "$source/dist/mpi.c"; }
fact and_by_that_one includes_it

# What decides the order of sums is one set of numbers for all machines, in one place.
grep -oE '\b[A-Z_]+ = ' "$source/msgpass/semantics/sums.h" | sed 's/ = //' | sort -u >numbers
there_are_numbers() { [ "$(wc -l <numbers)" -gt 20 ]; }
fact the_order_of_sums_has_numbers there_are_numbers
grep "^$source/msgpass/" c_files | grep -v '/semantics/sums\.h$' >rooms
lines_with rooms "(enum|const|define) .*\\b($(paste -sd'|' numbers)) *(=|[0-9])" >found
fact they_are_in_one_file empty found
lines_with <(echo "$source/msgpass/semantics/sums.h") '^ *# *(include|if )' >found
fact which_knows_of_no_machine empty found

# The backslash of a macro may stand in column 121.
lines_with c_files '^.{121,}' | grep -vE '^[^:]*:[0-9]+:.{120}\\$' >found
fact lines_have_120_columns_at_most empty found
lines_with c_files "$(printf '\t')| +\$" >found
fact no_tab_and_no_blank_at_the_end empty found

# gcovr adds up what a function counted in several objects by its file and its one line.
grep '\.inc$' c_files | while read -r file; do
    sed -nE '/;$/d; s/^static [^(]*(\(\([a-z_]+\)\)[^(]*)?[ *]([a-z0-9_]+)\(.*/\2/p' "$file" | sort | uniq -d
done >found
fact no_function_is_defined_twice_in_a_file_that_is_included empty found

# ---- clang-format: the output of version 14, which is Debian 12's ----

format=$(command -v clang-format-14 || command -v clang-format)
if [ -z "$format" ] || ! "$format" --version | grep -q 'version 14\.'; then
    echo "skipped: brackets and spaces, since clang-format 14 is not installed"
else
    tr '\n' '\0' <c_files | xargs -0 "$format" --style=file --dry-run 2>&1 | grep -E 'warning|error' | sed "s,^$source/,," >found
    fact clang_format_would_change_nothing empty found
fi
facts_end
