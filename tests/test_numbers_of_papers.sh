#!/bin/bash
# The numerical rank of blocks of scores, and the operation counts of the HSA paper: test_numbers_of_papers.sh SOURCE NPY JSON
set -u
source=$1 npy=$2 json=$3
. "$(dirname "$0")/facts.sh"
rank_map() { /usr/bin/python3 "$source/examples/python/rank_map.py" "$@"; }

# A member of map.json, found by names and indices; all values of a member over a list.
of() { "$json" map.json "$@"; }
all() { # all LIST MEMBER
    local n i
    n=$(of "$1")
    for ((i = 0; i < n; i++)); do of "$1" $i "$2"; done | xargs
}
map() { rank_map --json "$@" >map.json; }

# ---- the example of the H-Transformer-1D paper, (11)-(13) ----

fact example_runs map --example
fact example_has_rank_4_near_and_2_at_both_levels equal "$(all blocks rank)" "4 4 4 4 2 2 2 2 2 2"
fact example_has_the_blocks_of_equation_9 equal "$(all blocks row)/$(all blocks column)/$(all blocks rows)" \
    "0 4 8 12 0 4 8 12 0 8/0 4 8 12 4 0 12 8 8 0/4 4 4 4 4 4 4 4 8 8"
fact example_stores_as_the_footnote_counts equal "$(all levels stored)" "64 64 64"
fact example_stores_192_of_256 equal "$(of stored) of $(of entries)" "192 of 256"
fact example_compresses_by_4_to_3 equal "$(of compression)" 1.33333333
fact example_is_printed_like_equation_13 equal "$(rank_map --example | sed -n 3,6p | tr -s ' ' | xargs)" "4 2 2 . 2 4 . . 2 . 4 2 . . 2 4"
fact example_is_counted_in_words grep -q "stored 192 of 256 entries: compression 1.333" <(rank_map --example)
map --example --relative
fact example_is_the_same_relative_to_the_largest_singular_value equal "$(all blocks rank)" "4 4 4 4 2 2 2 2 2 2"
map --example --block 16 --tolerance 0.1
fact example_as_a_whole_has_full_rank_at_a_hundredfold_tolerance equal "$(all blocks rank)" 16
map --example --structure neighbours
fact neighbours_cut_what_adjacent_blocks_leave equal "$(all blocks level)" "-1 -1 -1 -1 -1 -1 -1 -1 -1 -1 1 1 1 1 1 1"
fact neighbours_far_blocks_of_the_example_are_nearly_constant equal "$(all blocks rank)" "4 2 2 4 2 2 4 2 2 4 1 1 1 1 1 1"

# ---- tensors ----

"$npy" make same.npy f4 20,4 0.5,-1,2,0.25
"$npy" make key.npy f4 20,4 random:3
"$npy" make q.npy f4 37,2,4 random:1
"$npy" make k.npy f4 37,1,4 random:2
"$npy" make short.npy f4 19,4 random:1
"$npy" make dim5.npy f4 20,5 random:1
"$npy" make large.npy f4 20,4 1000
"$npy" make nan.npy f4 20,4 nan
"$npy" make one.npy f4 1,4 1
"$npy" make three.npy f4 37,3,4 1

map --query same.npy --key key.npy --block 3
fact equal_queries_have_rank_1_everywhere equal "$(all blocks rank | tr ' ' '\n' | sort -u | xargs)" 1
fact rank_1_far_blocks_store_their_two_factors equal "$(all levels stored)" "58 36 40 40"
fact tokens_that_no_power_of_two_divides_are_all_there equal "$(all levels entries)" "58 54 96 192"
map --query large.npy --key large.npy --block 4 --relative
fact relative_tolerance_needs_no_exponential equal "$(all blocks rank | tr ' ' '\n' | sort -u | xargs)" 1
map --query same.npy --key key.npy --block 4 --tolerance 1e9
fact nothing_is_needed_at_a_huge_tolerance equal "$(all blocks rank | tr ' ' '\n' | sort -u | xargs)" 0

# every pair of 37 tokens in one block, for both structures and any block size
covered() {
    local n i sum=0
    map --query q.npy --key k.npy --head 1 "$@" || return 1
    n=$(of blocks)
    paste -d' ' <(all blocks row | tr ' ' '\n') <(all blocks rows | tr ' ' '\n') <(all blocks column | tr ' ' '\n') <(all blocks columns | tr ' ' '\n') |
        awk '{ for (i = $1; i < $1 + $2; i++) for (j = $3; j < $3 + $4; j++) seen[i, j]++ }
             END { for (i = 0; i < 37; i++) for (j = 0; j < 37; j++) if (seen[i, j] != 1) bad++; print bad + 0, length(seen); exit bad || length(seen) != 1369 }'
}
for block in 1 5 16 64; do
    fact siblings_of_${block}_cover_every_pair_once covered --block $block
    fact neighbours_of_${block}_cover_every_pair_once covered --block $block --structure neighbours
done
map --query one.npy --key one.npy
fact one_token_is_one_block equal "$(all blocks rank) $(of stored)" "1 1"

fact a_picture_is_drawn rank_map --query q.npy --key k.npy --block 5 -o map.svg
map --query q.npy --key k.npy --block 5
fact a_picture_has_every_block equal "$(grep -c 'class="block"' map.svg)" "$(of blocks)"
cp q.npy '<b>&".npy'
fact a_picture_of_any_name_is_drawn rank_map --query '<b>&".npy' --key k.npy --block 5 -o named.svg
fact it_is_well_formed xmllint --noout named.svg
fact the_name_is_escaped grep -q '&lt;b&gt;&amp;&quot;.npy: exp' named.svg

# ---- wrong input ----

"$npy" make any_q.npy f4 64,1,32 random:5
"$npy" make any_k.npy f4 64,1,32 random:6
fact scores_without_structure_have_no_hierarchy shows <(rank_map --query any_q.npy --key any_k.npy --block 8) 'No hierarchy keeps these scores'
fact query_is_needed refused 2 "--query FILE is missing" rank_map
fact key_is_needed refused 2 "--key FILE is missing" rank_map --query q.npy
fact example_takes_no_tensors refused 2 "--example has scores of its own" rank_map --example --query q.npy
fact tolerance_is_positive refused 2 "--tolerance: 0 is not above 0" rank_map --example --tolerance 0
fact block_is_positive refused 2 "--block: 0 is not in" rank_map --example --block 0
fact structure_is_known refused 2 "--structure: 'tree' is not one of" rank_map --example --structure tree
fact picture_is_svg refused 2 "'no.gif' does not end in .svg" rank_map --example -o no.gif
fact head_is_there refused 2 "--head: 2, but q.npy has 2 heads" rank_map --query q.npy --key k.npy --head 2
fact file_is_there refused 3 "absent.npy" rank_map --query absent.npy --key k.npy -o no.svg
fact rows_agree refused 3 "short.npy: has 19 rows, the query in same.npy has 20" rank_map --query same.npy --key short.npy
fact dims_agree refused 3 "dim5.npy: has dim 5" rank_map --query same.npy --key dim5.npy
fact heads_agree refused 3 "three.npy: has 3 heads" rank_map --query q.npy --key three.npy
fact numbers_are_finite refused 3 "nan.npy" rank_map --query nan.npy --key key.npy
fact exponentials_are_finite refused 3 "the score of query 0 and key 0 is 2e+06" rank_map --query large.npy --key large.npy -o no.svg

fact scores_are_finite refused 3 "the score of query 0 and key 0 is not finite" rank_map --query large.npy --key large.npy --scale 1e305 --relative -o no.svg

# ---- Table 3 of the HSA paper ----

hsa3() { /usr/bin/python3 "$source/examples/python/hsa3.py" "$@"; }
fact table_3_agrees hsa3
fact it_has_the_papers_rows equal "$(hsa3 | awk '{ print $1 }' | xargs)" "data IMDB AGNEWS CoLA SST-2 MRPC RTE QNLI"
fact all_14_figures_agree equal "$(hsa3 | awk 'NR > 1 { print $5, $8 }' | sort | uniq -c | xargs)" "7 yes yes"
hsa3 --json >map.json
fact as_json_too equal "$(of table) $(of agrees) $(all rows length)" "hsa3 true 264 54 12 26 55 70 38"
sed 's/(214.94, 0.01)/(215.94, 0.01)/' "$source/examples/python/hsa3.py" >other.py
fact another_figure_fails exits 1 /usr/bin/python3 other.py

facts_end
