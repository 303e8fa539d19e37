#!/bin/sh
# Manual pages of the tool and of every subcommand, made of what it says itself, and of the public headers: make.sh HGA FOLDER VERSION HEADER..
# What help does not say, examples above all, is in SUBCOMMAND.man beside this script; examples.sh finds where functions are called.
set -eu
hga=$1 out=$2 version=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
# One line a paragraph and an option; see argp's "Argp Help Filtering" in the C library's manual.
export ARGP_HELP_FMT=rmargin=100000,no-dup-args-note LC_ALL=C
seconds=${SOURCE_DATE_EPOCH:-$(date +%s)}
day=$(date -u -d "@$seconds" +%F)
mkdir -p "$out"
rm -f "$out"/*.[135] "$out"/*.[135].gz
"$hga" help --all >"$out/help.txt"
subcommands=$(awk '/^  [a-z]/ { print $1 }' "$out/help.txt")

# Text that roff takes as it is.
roff=$(grep '^function roff' "$here/roff.awk")

# page NAME: what every page ends with
ending() {
    [ ! -f "$here/$1.man" ] || cat "$here/$1.man"
    printf '.SH "EXIT STATUS"\n%s\n' "$(sed -n 's/^Exit status: //p' "$out/help.txt")"
    printf '.SH "SEE ALSO"\n'
    for other in hga $subcommands; do
        [ "$other" = "$1" ] || printf '.BR %s (1),\n' "$([ "$other" = hga ] && echo hga || echo "hga\\-$other")"
    done | sed '$s/,$//'
}

subcommand_page() {
    says=$(awk -v name="$1" '$1 == name { $1 = ""; sub(/^ */, ""); print; exit }' "$out/help.txt")
    printf '.TH HGA\\-%s 1 %s "hga %s" "User Commands"\n.SH NAME\nhga\\-%s \\- %s\n' "$(echo "$1" | tr a-z A-Z | sed 's/-/\\-/g')" "$day" "$version" \
        "$(echo "$1" | sed 's/-/\\-/g')" "$says"
    { "$hga" help "$1" --all; [ "$1" != variants ] || { echo "Variants and their parameters:"; "$hga" variants; }; } | awk "$roff"'
        # "Usage: hga build [-n N] .. [--help] VARIANT"
        NR == 1 { split($0, word, " "); sub(/.*\[--help\]/, "")
            print ".SH SYNOPSIS\n.B hga " roff(word[3]) "\n[\\fIOPTION\\fR...]\\fI" roff($0) "\\fR\n.SH DESCRIPTION"; next }
        /^Variants and their parameters:/ { print ".SH VARIANTS"; variants = 1; next }
        /^$/ { blank = 1; next }
        # "  -n, --tokens=N     what it is"
        /^  +-/ {
            if (!options) { print ".SH OPTIONS"; options = 1 }
            text = $0; sub(/^ +/, "", text); at = match(text, /  +/)
            name = at ? substr(text, 1, at - 1) : text; what = at ? substr(text, RSTART + RLENGTH) : ""
            if (!at && match(text, /=[A-Z]+=?[A-Z]* /)) { name = substr(text, 1, RSTART + RLENGTH - 2); what = substr(text, RSTART + RLENGTH) }
            print ".TP\n.B " roff(name) (what == "" ? "" : "\n" roff(what)); blank = 0; next }
        # " With --gradient:", above the options that belong together
        /^ [A-Z].*:$/ && options && !notes { text = $0; sub(/^ /, "", text); sub(/:$/, "", text); print ".SS \"" roff(text) "\""; blank = 0; next }
        # What a long name pushed to a line of its own.
        /^                    / && options && !notes && !variants { sub(/^ +/, ""); print roff($0); blank = 0; next }
        # "dense: every token sees every token", then "  tokens=N (default: 1)  what it is"
        variants && /^  \(/ { text = $0; sub(/^ +/, "", text); print ".PP\n" roff(text); next }
        variants && /^[a-z]/ { at = index($0, ": "); print ".SS \"" roff(substr($0, 1, at - 1)) "\"\n" roff(substr($0, at + 2)); next }
        variants && /^  [a-z]/ { text = $0; sub(/^ +/, "", text); at = match(text, /  +/)
            print ".TP\n.B " roff(substr(text, 1, at - 1)) "\n" roff(substr(text, RSTART + RLENGTH)); next }
        { if (options && !notes) { print ".SH NOTES"; notes = 1 } else if (blank) print ".PP"
            blank = 0; text = $0; sub(/^ +/, "", text); print roff(text) }'
    ending "$1"
}

main_page() {
    printf '.TH HGA 1 %s "hga %s" "User Commands"\n.SH NAME\nhga \\- hierarchical graph attention on CPUs\n' "$day" "$version"
    printf '.SH SYNOPSIS\n.B hga\n\\fISUBCOMMAND\\fR [\\fIOPTION\\fR...]\n.br\n.B hga help\n\\fISUBCOMMAND\\fR\n.br\n.B hga \\-\\-version\n[\\fB\\-\\-json\\fR]\n'
    cat "$here/description.man"
    printf '.SH SUBCOMMANDS\n'
    awk "$roff"'/^  [a-z]/ { name = $1; $1 = ""; sub(/^ */, ""); print ".TP\n.BR hga\\-" roff(name) " (1)\n" roff($0) }' "$out/help.txt"
    ending hga
}

main_page >"$out/hga.1"
for name in $subcommands; do subcommand_page "$name" >"$out/hga-$name.1"; done
rm "$out/help.txt"
sed "s/@DAY@/$day/; s/@VERSION@/$version/" "$here/hga-graph.5.in" >"$out/hga-graph.5"
# Section 3: a page for each header, and one for each function with a place where it is called.
sh "$here/examples.sh" "$@" >"$out/examples.txt"
awk -v day="$day" -v version="$version" -v folder="$out" -f "$here/roff.awk" -f "$here/function.awk" "$out/examples.txt" "$@"
for header in "$@"; do
    name=$(basename "$header")
    awk -v day="$day" -v version="$version" -f "$here/roff.awk" -f "$here/header.awk" "$header" >"$out/$name.3"
    [ -e "$out/${name%.h}.3" ] || echo ".so man3/$name.3" >"$out/${name%.h}.3" # "man hga_plan"
done
rm "$out/examples.txt"
for page in "$out"/*.[135]; do gzip -9n "$page"; done
