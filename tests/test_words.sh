#!/bin/bash
# A variant in words, as people type them, is the variant of -p; a file needs no graph= before it: test_words.sh HGA
set -u
hga=$1
. "$(dirname "$0")/facts.sh"

"$hga" explain htransformer -p block=8 -p structure=siblings --tokens 64 >wanted || exit 1
same_plan() { "$hga" explain "$@" --tokens 64 >found && cmp found wanted; }
fact colons_stand_between_settings same_plan htransformer:block=8:structure=siblings
fact so_do_blanks same_plan "htransformer block=8 structure=siblings"
fact and_both_with_options same_plan "htransformer: block=8" -p structure=siblings

"$hga" build hsa -p branching=2,4 --tokens 64 -o wanted.npy || exit 1
same_graph() { "$hga" build "$@" --tokens 64 -o found.npy && cmp found.npy wanted.npy; }
fact lists_have_their_commas same_graph hsa:branching=2,4
coverage() { "$hga" check "$@" >found; "$hga" check bpt -p k=2 -n 16 >wanted_check; cmp found wanted_check; }
fact commands_of_graphs_take_them coverage bpt:k=2 -n 16
fact and_with_blanks coverage "bpt k=2" -n 16

# Flags stand alone, or with a word.
"$hga" build window -p left=3 -p causal=1 --tokens 64 -o wanted.npy || exit 1
for flag in window:left=3:causal window:causal:left=3 "window causal=Yes left=3" window:left=3:causal=true; do
    fact "the_flag_is_set_by_${flag//[^a-zA-Z0-9]/_}" same_graph "$flag"
done
fact and_as_an_option_alone same_graph window -p left=3 -p causal
"$hga" build window -p left=3 --tokens 64 -o wanted.npy || exit 1
fact or_is_left_out_by_off same_graph window:left=3:causal=off

# Python's spelling.
python3 - <<'END' || exit 1
import struct
header = "{'descr': '<i4', 'fortran_order': False, 'shape': (8,), }".ljust(117) + "\n"
open("leaf.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + struct.pack("<8i", *[0, 1] * 4))
END
"$hga" build treeformer-fine -p query-leaf=@leaf.npy -o wanted.npy || exit 1
underscores() { "$hga" build treeformer_fine -p query_leaf=@leaf.npy -o found.npy && cmp found.npy wanted.npy; }
fact underscores_are_dashes underscores
words_with_a_file() { "$hga" build treeformer_fine:query_leaf=@leaf.npy -o found.npy && cmp found.npy wanted.npy; }
fact a_file_may_stand_among_words words_with_a_file
in_lists() { "$hga" bench --variants treeformer_fine:height=2,"htransformer block=8" --tokens 64 --dry-run >found && grep -q '^treeformer-fine ' found && grep -q '^htransformer  *block=8' found; }
fact lists_of_variants_take_them in_lists
help_says() { "$hga" help treeformer_fine >found && "$hga" help treeformer-fine | cmp found; }
fact help_takes_them help_says

# Files.
"$hga" export htransformer:block=4 -n 16 -o mine.json || exit 1
cp mine.json "my graph:two.json"
"$hga" explain graph=mine.json >wanted || exit 1
a_file() { "$hga" explain "$1" >found && cmp found wanted; }
fact a_file_is_a_graph a_file mine.json
fact whatever_its_name_has a_file "my graph:two.json"
cp mine.json dense
a_variant() { "$hga" explain dense --tokens 16 >found && ! cmp -s found wanted; }
fact a_variant_goes_before_a_file_of_its_name a_variant
attends() { "$hga" tensor --random 16x1x8 -o x.npy && "$hga" attend mine.json --query x.npy --key x.npy --value x.npy --out a.npy && "$hga" attend htransformer:block=4 --query x.npy --key x.npy --value x.npy --out b.npy && cmp a.npy b.npy; }
fact attend_takes_them attends

# hga version
version() { "$hga" version >found && "$hga" --version | cmp - found && "$hga" version --json >found && "$hga" --version --json | cmp - found; }
fact version_is_a_command version
facts_end
