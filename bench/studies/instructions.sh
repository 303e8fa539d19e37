#!/bin/bash
# Instructions per edge and head, counted by callgrind, which needs no quiet machine:
#   instructions.sh PROGRAM RECORD [--record | TOLERANCE]
# Compares with the record and fails when a count has grown by more than TOLERANCE (default 0.1); --record writes it anew.
set -euo pipefail
program=$1 record=$2 mode=${3:-0.1}
isa=avx2 # valgrind 3.19 does not know AVX-512
counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT

# Only the second execution is counted.
count() {
    local log=$counts/$1.log edges collected
    edges=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=counted "$program" "$1" "$isa" 2>"$log")
    collected=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log")
    [ "${collected:-0}" -gt 0 ] || { cat "$log" >&2; return 1; }
    awk -v name="$1" -v all="$collected" -v edges="$edges" 'BEGIN { printf "%-14s %8.2f\n", name, all / edges }'
}

for variant in $("$program"); do count "$variant"; done >"$counts/now"

if [ "$mode" = --record ]; then
    { echo "# instructions per edge and head, $isa; written by instructions.sh --record"; cat "$counts/now"; } >"$record"
    cat "$record"
    exit
fi

awk -v tolerance="$mode" 'NR == FNR { if (!/^#/) record[$1] = $2; next }
     !($1 in record) { print $0 "  is not in the record"; bad = 1; next }
     { more = $2 / record[$1] - 1
       printf "%s  record %8.2f  %+5.1f %%%s\n", $0, record[$1], 100 * more, (more > tolerance ? "  more than " 100 * tolerance " %" : "")
       if (more > tolerance) bad = 1 }
     END { exit bad }' "$record" "$counts/now"
