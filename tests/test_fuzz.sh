#!/bin/bash
# The fuzzers' list is their pages', folders' and counts' list, and what a count holds for is what they are compiled from: test_fuzz.sh BUILD SOURCE
set -u
build=$1 source=$2
. "$(dirname "$0")/facts.sh"

fuzz=$source/fuzz
grep '^[^#]' "$fuzz/fuzzers.txt" >list
cut -d' ' -f1 list | sort >names
fact there_are_fuzzers [ "$(wc -l <names)" -ge 7 ]
page_has() { sed -nE "$1" "$fuzz/README.md" | sort >on_page && diff on_page names; }
# shellcheck disable=SC2016 # backquotes of Markdown
fact the_page_says_what_each_does page_has 's/^\| `([a-z_]+)` \|.*/\1/p'
fact and_has_a_count_of_each page_has '/^<!-- counts -->/,/^<!-- end -->/s/^    ([a-z_]+) .*/\1/p'
cut -d' ' -f3 list | sort -u >corpora
fact every_corpus_is_somebodys diff corpora <(ls "$fuzz/corpus")
cut -d' ' -f4 list | grep -v '^-$' | sort -u >dictionaries
fact and_so_is_every_dictionary diff dictionaries <(cd "$fuzz" && ls ./*.dict | sed 's,^\./,,; s/\.dict$//')
with_a_file() { while read -r name; do [ -f "$fuzz/$name.c" ] || echo "$name"; done <names >without && empty without; }
fact each_is_a_file with_a_file

if [ ! -e "$build/build.ninja" ]; then
    echo "skipped: what fuzzers are compiled from, since this build is not of Ninja"
else
    # shellcheck disable=SC2046 # words
    "$fuzz/sources.sh" "$build" $(cat names) >sources
    # A file of every folder that is linked, and its headers.
    printf '%s\n' graph/graph.c graph/base/hga_base.h graph/public/hga_graph.h kernels/vec.h msgpass/plan/plan.c msgpass/decode/public/hga_decode.h \
        builders/hsa.c files/import.c files/public/hga_documents.h cli/files/npy.c tests/draws/call_draw.c fuzz/text.c fuzz/fuzz.h >some
    fact sources_are_what_the_fuzzers_are_compiled_from missing some sources
    every_c_file() { (cd "$source" && ls files/*.c | grep -v /without_) >read_by_files && missing read_by_files sources; }
    fact all_of_the_readers_among_them every_c_file
    fact and_neither_tests_nor_the_tool lacks sources '^(tests/test_|cli/attend|python/|examples/|docs/|build/)'
    there() { (cd "$source" && ls $(cat "$scratch/sources") >/dev/null); }
    fact they_are_there there
fi
facts_end
