#!/bin/bash
# The public headers' comments, as the reference takes them: every function has one, and no two have the same. test_descriptions.sh SOURCE
set -u
source=$1
. "$(dirname "$0")/facts.sh"

# NAME<tab>COMMENT of every function of a header on stdin.
described() {
    awk -f "$source/docs/site/headers.awk" | awk '
        /^\/\*\* / { text = ""; inside = 1 }
        inside { text = text " " $0; if ($0 ~ /\*\/ *$/) inside = 0; next }
        /^HGA_API/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); print name "\t" text; text = "" }
        /^ *$/ { text = "" }'
}
lacking() { awk -F'\t' '$2 ~ /^ *$/ { print $1 " has no comment"; bad = 1 } END { exit bad }' "$1"; }
alike() { awk -F'\t' '$2 in of { print $1 " has the comment of " of[$2]; bad = 1 } { of[$2] = $1 } END { exit bad }' "$1"; }

for header in "$source"/graph/base/hga*.h "$source"/{graph,msgpass/*,builders,dist,files}/public/*.h; do described <"$header"; done >all
fact there_are_functions [ "$(wc -l <all)" -gt 200 ]
fact every_function_has_a_comment lacking all
fact no_two_have_one alike all

# The rules do find what they are there to find.
printf '/* x.h: a file. */\n/* A group. */\nHGA_API int hga_one(void);\nHGA_API int hga_two(void);\n\nHGA_API int hga_three(void);\n' | described >some
fact a_function_without_a_comment_is_found exits 1 lacking some
fact and_two_that_share_one exits 1 alike some
facts_end
