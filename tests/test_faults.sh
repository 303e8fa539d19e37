#!/bin/bash
# Files when something goes wrong: test_faults.sh HGA NPY NO_TMPFILE.so
# Every fact holds where the file system has files without a name, and again where it has none (the preloaded library takes them away).
set -u
hga=$1 npy=$2 no_tmpfile=$3
. "$(dirname "$0")/facts.sh"

# fact_of NAME COMMAND..: a fact of the way files are made now
fact_of() { fact "${way}_$1" "${@:2}"; }
tool() {
    if [ $way = nameless ]; then "$hga" "$@"; else LD_PRELOAD=$no_tmpfile "$hga" "$@"; fi
}
# The small outputs of every maker of files, FILE in words: the graph's writers in the library, the tool's own.
"$npy" make q.npy f4 40,2,8 random:1
"$hga" build bpt --tokens 40 -o g.json
makers="build:bpt_--tokens_40_-o_FILE.npy export:g.json_-o_FILE.json export:g.json_-o_FILE.svg export:g.json_-o_FILE.png view:g.json_-o_FILE.html
attend:dense_--query_q.npy_--key_q.npy_--value_q.npy_--out_FILE.npy choose:--query_q.npy_--key_q.npy_--value_q.npy_--variants_window_--seconds_0_-o_FILE.svg"
made() { # made MAKER FOLDER/NAME: its output's path
    local word
    for word in ${1//_/ }; do case $word in FILE.*) echo "${word/FILE/$2}" ;; esac; done
}
run_maker() { # run_maker MAKER FOLDER/NAME
    local words=${1#*:}
    words=${words//FILE/$2}
    # shellcheck disable=SC2086
    tool "${1%%:*}" ${words//_/ }
}

# ---- names, modes, links ----

refuses_loop() { ! run_maker "$1" there/x 2>why && grep -q "there/x.*symbolic links" why || { cat why; return 1; }; }
check_makers() {
    local maker file
    for maker in $makers; do
        rm -rf there elsewhere && mkdir there elsewhere
        file=$(made "$maker" there/x) ; file=${file#*:}
        fact_of "${maker%%:*}_makes_its_file" run_maker "$maker" there/x
        fact_of "${maker%%:*}_makes_nothing_else" equal "$(ls -A there)" "$(basename "$file")"
        fact_of "${maker%%:*}_gives_the_mode_that_the_mask_allows" equal "$(stat -c %a "$file")" 640
        echo old >"$file" && chmod 600 "$file"
        fact_of "${maker%%:*}_replaces_a_file" run_maker "$maker" there/x
        fact_of "${maker%%:*}_keeps_0600" equal "$(stat -c %a "$file")" 600
        fact_of "${maker%%:*}_replaced_it" bash -c '! grep -qx old "$1"' - "$file"
        mv "$file" elsewhere/real && ln -s "../elsewhere/real" "$file" && echo old >elsewhere/real && chmod 604 elsewhere/real
        fact_of "${maker%%:*}_follows_a_link" run_maker "$maker" there/x
        fact_of "${maker%%:*}_keeps_the_link" test -L "$file"
        fact_of "${maker%%:*}_replaces_what_the_link_names" bash -c '! grep -qx old elsewhere/real && [ "$(stat -c %a elsewhere/real)" = 604 ]'
        rm elsewhere/real
        fact_of "${maker%%:*}_follows_a_link_to_nothing" run_maker "$maker" there/x
        fact_of "${maker%%:*}_makes_what_the_link_names" test -s elsewhere/real -a -L "$file"
        rm "$file" && ln -s "$(basename "$file")" "$file"
        fact_of "${maker%%:*}_refuses_a_link_to_itself" bash -c '! eval "$1" 2>why && grep -q "there/x.*symbolic links" why' - "$(declare -f tool run_maker); way=$way hga='$hga' no_tmpfile='$no_tmpfile'; run_maker $maker there/x"
    done
}

# ---- a disk that is full: files may have 8 blocks of 1024 bytes, then none ----

full() { # full FILE COMMAND..: refused with status 4 and one line that names the file; the old one stays
    local file=$1 status
    shift
    rm -rf there && mkdir there && echo old >"$file"
    (ulimit -f 8 && tool "$@") >out 2>why
    status=$?
    [ $status = 4 ] || { echo "status $status"; return 1; }
    [ "$(wc -l <why)" = 1 ] && grep -qF "$file" why && grep -q "File too large" why || { cat why; return 1; }
    [ "$(cat "$file")" = old ] && [ "$(ls -A there)" = "$(basename "$file")" ] || { ls -A there; return 1; }
}
"$npy" make large.npy f4 400,2,16 random:2
"$npy" make tall.npy f4 2000,2,4 random:3
check_full() {
    fact_of a_full_disk_is_named_by_attend full there/o.npy attend window --quiet --query large.npy --key large.npy --value large.npy --out there/o.npy
    fact_of a_full_disk_is_named_by_attend_for_lse full there/l.npy attend window --quiet --query tall.npy --key tall.npy --value tall.npy --out /dev/null --lse there/l.npy
    fact_of a_full_disk_is_named_by_build full there/g.npy build window --tokens 4000 -o there/g.npy
    fact_of a_full_disk_is_named_by_export full there/g.csv export large.json -o there/g.csv
}

# ---- a signal in the middle of a large file ----

# signalled SIGNAL: ends a build while its file grows; nothing is left of it
signalled() {
    local child status preload=
    [ $way = nameless ] || preload=$no_tmpfile
    rm -rf there && mkdir there && echo old >there/big.csv
    set -m # with job control a child in the background hears INT
    LD_PRELOAD=$preload "$hga" build window --tokens 3000000 -o there/big.csv >out 2>why &
    child=$!
    set +m
    for _ in $(seq 300); do
        sleep 0.1
        stat -L -c '%s %n' /proc/$child/fd/* 2>/dev/null | awk '$1 > 1e6 { found = 1 } END { exit !found }' && break
    done
    kill -0 $child 2>/dev/null || { echo "it was too fast"; wait $child; return 1; }
    [ $way = nameless ] || ls -A there | grep -q '^\.hga-' || { echo "no temporary name"; kill -9 $child; return 1; }
    kill -"$1" $child
    wait $child
    status=$?
    [ $status = $((128 + $(kill -l "$1"))) ] || { echo "status $status"; return 1; }
    equal "$(ls -A there) $(cat there/big.csv)" "big.csv old"
}
check_signals() { for name in INT TERM HUP PIPE; do fact_of "${name}_leaves_nothing" signalled $name; done; }

umask 027
"$hga" build window --tokens 4000 -o large.json
for way in nameless named; do
    check_makers
    check_full
    check_signals
done

# ---- what a terminal would obey ----

name=$(printf 'a\033[31mb\302\233c\nd\377.json')
shown() { "$@" >out 2>why; ! grep -qP '\x1b|\xc2\x9b|\xff' why && [ "$(wc -l <why)" = 1 ] && grep -qF 'a\x1b[31mb\x9bc\nd\xff' why || { cat -v why; return 1; }; }
fact escape_sequences_in_names_are_shown shown "$hga" check "$name"
fact in_arguments_too shown "$hga" attend "${name%.json}"
printf '{"format":"hga-graph","schema":1,"levels":[2],"relations":[{"name":"x\\u001b[2Jy","edges":[[0,1]]}]}' >own.json
fact names_of_relations_are_shown bash -c '"$1" inspect own.json >out && ! grep -qP "\x1b" out && grep -qF "x\x1b[2Jy" out' - "$hga"

facts_end
