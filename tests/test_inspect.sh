#!/bin/bash
# hga inspect: test_inspect.sh HGA NPY JSON
set -u
hga=$1 npy=$2 json=$3
. "$(dirname "$0")/facts.sh"
build() { "$hga" build "$@" || exit 1; }

# ---- clusters over a file of edges ----

for ((i = 0; i < 64; i++)); do echo "$i,$(((i + 1) % 64))"; done >ring.csv
if "$hga" inspect ring.csv --tree metis:4,4 >ring.txt 2>no_metis; then
    fact clusters_are_levels holds ring.txt '^ring.csv: 64 query tokens, 64 key tokens, 84 nodes$'
    # 64 of the ring; each of 16 and of 4 clusters has one from itself and one from the cluster before
    fact clusters_have_the_edges_of_their_nodes holds ring.txt '^edges +104 +'
    "$hga" export ring.csv --tree metis:4,4 -o ring.json
    "$hga" export graph=ring.csv -p tree=metis:4,4 -o again.json
    fact clusters_are_kept_in_files cmp ring.json again.json
    "$hga" tensor --random 64x1x8 -o ring.npy
    "$hga" attend graph=ring.csv -p tree=4,4 --query ring.npy --key ring.npy --value ring.npy --out a.npy --quiet
    "$hga" attend graph=ring.json --query ring.npy --key ring.npy --value ring.npy --out b.npy --quiet
    fact clusters_attend_as_their_file_does cmp a.npy b.npy
else
    fact without_metis_clusters_are_refused holds no_metis 'METIS'
fi

# ---- what a graph is ----

build htransformer --tokens 50 -p block=4 -o h.json
"$hga" inspect h.json >h.txt || exit 1
fact tokens_and_nodes_are_counted holds h.txt '^h.json: 50 query tokens, 50 key tokens, 95 nodes$'
fact nodes_are_counted_by_level holds h.txt '^ +2 +13 +13 +0 +0$'
fact edges_and_degrees_are_counted holds h.txt '^near +756 +20 +0 +1 +95 +1 +8\.0 +8\.0 +12 +95 +1 +8\.0 +8\.0 +12$'
fact the_histogram_counts_nodes holds h.txt '^in-degrees of near: 1: 2, 2-3: 14, 4-7: 31, 8-15: 48 nodes$'
fact every_pair_is_covered_once holds h.txt '^coverage   of 2500 pairs 2500 once, 0 never'
fact pairs_are_counted_by_level holds h.txt '^ +564 by level 0$'
fact later_tokens_are_seen holds h.txt '1225 pairs where a token attends to a later one; the output of token 0 depends on token 49, by way of node 94 of level 3$'
fact one_layer_reaches_everything holds h.txt '^layers     1 until every token is reached by every other$'
fact bytes_are_told holds h.txt '^bytes      graph [0-9.]+ k?B, plan [0-9.]+ k?B, workspace [0-9.]+ k?B \(8 heads of 64, [0-9]+ threads\)$'
"$hga" inspect h.json --heads 2 --dim 16 --threads 1 >few.txt
fact bytes_are_of_the_given_shape holds few.txt '\(2 heads of 16, 1 threads\)$'

"$hga" inspect h.json --json >h.doc
fact json_is_json "$json" h.doc
fact json_has_a_schema holds h.doc '^  "schema": 1,$'
for member in graph program queries keys nodes levels relations bytes coverage causality layers; do
    fact json_has_$member holds h.doc "^  \"$member\": "
done

build htransformer --tokens 50 -p block=4 -p causal=1 -o hc.json
"$hga" inspect hc.json >hc.txt
fact a_causal_graph_counts_earlier_pairs holds hc.txt '^coverage   of 1275 pairs of a token and an earlier one or itself 1275 once'
fact a_causal_graph_sees_nothing_later holds hc.txt '^order      no output depends on a later token$'

build hsa --tokens 20 -p branching=2,3 -p causal=1 -p mode=self -o self.json
"$hga" inspect self.json >self.txt
fact queries_that_later_tokens_share_are_named holds self.txt '^order      0 pairs .*, by the query of node [0-9]+ of level [1-9]'

build window --tokens 10 -p left=1 -p right=1 -o w.json
"$hga" inspect w.json >w.txt
fact a_narrow_window_takes_many_layers holds w.txt '^layers     9 until'
"$hga" inspect w.json --layers >wl.txt
fact so_it_does_without_a_bound same_bytes w.txt wl.txt

# ten neighbours by chance of each of 2000 tokens: without a bound this takes a minute
awk 'BEGIN { x = 1; print "source,destination"; for (i = 0; i < 20000; i++) { x = (x * 16807) % 2147483647; print x % 2000 "," int(i / 10) } }' >chance.csv
"$hga" inspect chance.csv >chance.txt
cp chance.csv CHANCE.CSV
"$hga" inspect CHANCE.CSV >capitals.txt
fact a_names_end_may_be_in_capitals same_bytes <(sed s/chance.csv/CHANCE.CSV/ chance.txt) capitals.txt
fact irregular_graphs_are_followed_for_a_second holds chance.txt '^layers     unknown: layers: what tokens reach is too irregular to be joined in the time given$'
fact pairs_never_covered_are_counted holds w.txt '^coverage   of 100 pairs 28 once, 72 never \(0 of them a token and itself\), 0 more than once; first: query 0 and key 2$'
build window --tokens 10 -p left=2 -p right=0 -o left.json
"$hga" inspect left.json >left.txt
fact tokens_that_nobody_reaches_are_told holds left.txt '^layers     some tokens are never reached by every other$'
"$hga" inspect left.json --causal >left.txt
fact earlier_pairs_may_be_asked_for holds left.txt '^layers     5 until every token is reached by every earlier one$'

build htransformer --tokens 32 -p block=4 -p interpolation=linear -o linear.json
"$hga" inspect linear.json >linear.txt
fact pairs_covered_more_than_once_are_told_by_their_levels holds linear.txt '^ +[0-9]+ by level 1 and 2'

echo '{"format": "hga-graph", "schema": 1, "levels": [3], "relations": []}' >bare.json
"$hga" inspect bare.json >bare.txt
fact a_graph_without_a_program_is_nodes_and_edges holds bare.txt '^the graph has no program'
cat >words.json <<'END'
{"format": "hga-graph", "schema": 1, "levels": [7], "names": [[0, "the "], [1, "beginning "], [2, "the "], [3, "Word."], [4, "the"], [5, "- "], [6, "3-4"]],
 "relations": [{"name": "near", "blocks": [{"dst": 0, "n_dst": 7, "src": 0, "n_src": 7, "shape": "lower"}]}], "program": "attend"}
END
fact a_token_by_its_name equal "$("$hga" inspect words.json --row beginning | head -1)" 'token 1 attends to 2 nodes'
fact one_node_is_one equal "$("$hga" inspect dense -n 1 --row 0 | head -1)" 'token 0 attends to 1 node'
fact or_by_its_number equal "$("$hga" inspect words.json --row 3 | head -1)" 'token 3 attends to 4 nodes'
fact or_by_a_name_of_signs equal "$("$hga" inspect words.json --row - | head -1)" 'token 5 attends to 6 nodes'
fact or_of_signs_and_digits equal "$("$hga" inspect words.json --row 3-4 | head -1)" 'token 6 attends to 7 nodes'
fact a_number_below_0 refused 2 '--row: -3 is not in 0 ..' "$hga" inspect words.json --row -3
fact a_name_that_none_has refused 2 "--row: no token of words.json is called 'end'" "$hga" inspect words.json --row end
fact a_name_that_several_have refused 2 "--row: 3 tokens of words.json are called 'the': 0, 2, .." "$hga" inspect words.json --row the
fact no_name refused 2 '--row: which token?' "$hga" inspect words.json --row ''
fact a_graph_without_a_program_has_no_rows refused 3 "has no program" "$hga" inspect bare.json --row 0
fact from_a_pipe bash -c 'set -o pipefail; "$0" build bpt --tokens 9 --format json -o - | "$0" inspect - | grep -q "81 once"' "$hga"

# ---- the pattern ----

"$hga" inspect w.json --ascii >w.txt
fact a_window_is_a_diagonal equal "$(sed -n '1,3p' w.txt | tr '\n' ' ')" "00........ 000....... .000...... "
build dense --tokens 40 -p causal=1 -o dense.json
fact cells_gather_tokens equal "$("$hga" inspect dense.json --ascii=4 | head -4 | tr '\n' ' ')" "0... 00.. 000. 0000 "
"$hga" inspect h.json --ascii >h.txt
fact every_pair_has_a_character equal "$(head -50 h.txt | tr -d '\n' | grep -o 0 | wc -l)" 564
fact the_legend_counts_pairs holds h.txt '^3  .* 640 pairs'
"$hga" inspect h.json --ascii=10 --json >h.doc
fact ascii_in_json "$json" h.doc
fact ascii_in_json_has_lines holds h.doc '"lines": '

# ---- one token ----

"$hga" inspect h.json --row 20 >row.txt
fact a_token_sees_nodes holds row.txt '^token 20 attends to 25 nodes$'
fact a_coarse_node_stands_for_tokens holds row.txt '^attend out +80 +2 +84 +2 +0 +36-39 *$'
"$npy" make leaf.npy i4 4 0,1,0,1
build treeformer-coarse --tokens 4 -p height=1 -p query-leaf=@leaf.npy -o tc.json
"$hga" inspect tc.json --row 0 >row.txt
fact without_scores_every_step_is_shown holds row.txt '^mean .* 0 +0 +0 *$'

# weights times values are the output: 1 head of 1 column, value 1 + j / 10
"$npy" make q.npy f4 20,1,4 random:1
"$npy" make k.npy f4 20,1,4 random:2
"$npy" make v.npy f4 20,1,1 "$(seq -s, 1 0.1 2.9)"
tables=()
adds_up() { # adds_up TOKEN VARIANT.., with $tables
    local token=$1 want
    shift
    build "$@" --tokens 20 -o g.json
    "$hga" attend graph=g.json --query q.npy --key k.npy "${tables[@]}" --value v.npy --out o.npy || return 1
    want=$("$npy" print o.npy | tail -n +2 | tr '\n' ' ' | awk -v t="$token" '{ print $(t + 1) }')
    "$hga" inspect g.json --row "$token" --query q.npy --key k.npy "${tables[@]}" >row.txt || return 1
    tail -n +3 row.txt | awk -v want="$want" '
        { n = split($(NF - 1), t, "-"); last = n > 1 ? t[2] : t[1]; sum += $NF; out += $NF * (1 + (t[1] + last) / 20) }
        END { d = out - want; bad = d > 1e-4 || d < -1e-4 || sum > 1.0001 || (sum < 0.9999 && want != 0)
              if (bad) print "weights give " out " with sum " sum ", not " want; exit bad }'
}
for token in 0 7 19; do
    fact weights_of_dense_add_up adds_up $token dense
    fact weights_of_a_window_add_up adds_up $token window -p left=3 -p right=2
    fact weights_of_htransformer_add_up adds_up $token htransformer -p block=2
    fact weights_of_causal_htransformer_add_up adds_up $token htransformer -p block=4 -p causal=1
    fact weights_of_interpolated_htransformer_add_up adds_up $token htransformer -p block=4 -p interpolation=linear
    fact weights_of_hsa_add_up adds_up $token hsa -p branching=2,3
    fact weights_of_the_causal_frontier_add_up adds_up $token hsa -p branching=2,3 -p causal=1
    fact weights_of_causal_hsa_add_up adds_up $token hsa -p branching=2,3 -p causal=1 -p mode=self
done
"$npy" make rk.npy f4 100,4 random:5
"$npy" make rb.npy f4 100,1 random:6
tables=(--rel-key rk.npy --rel-bias rb.npy)
fact weights_with_keys_and_biases_by_type_add_up adds_up 7 dense
fact weights_with_biases_by_distance_add_up adds_up 7 htransformer -p block=2 -p relative=1
build hsa -p branching=2,3 --tokens 20 -o g.json
nodes=$("$hga" inspect g.json | sed -n '1s/.*, \([0-9]*\) nodes$/\1/p')
"$npy" make pos.npy f4 "$nodes,3" random:7
tables=(--node-pos pos.npy)
fact weights_with_positions_add_up adds_up 7 hsa -p branching=2,3
"$npy" make eb.npy f4 400 random:8
tables=(--edge-bias eb.npy)
fact weights_with_biases_of_edges_add_up adds_up 7 dense
for scale in 0 -1 0.3; do
    tables=(--scale "$scale")
    fact "weights_of_scale_${scale}_add_up" adds_up 7 htransformer -p block=2
    tables+=(--rel-bias rb.npy)
    fact "weights_of_scale_${scale}_with_biases_add_up" adds_up 7 dense
done
tables=()
build dense --tokens 20 -o g.json
weights_of_row() { tail -n +3 | awk '{ print $NF }'; }
"$hga" inspect g.json --row 3 --query q.npy --key k.npy --sort | weights_of_row >weights.txt
fact sorted_by_weight sort -c -g -r weights.txt
"$hga" inspect g.json --row 3 --query q.npy --key k.npy --json >row.doc
fact a_row_in_json "$json" row.doc
fact a_row_in_json_has_weights_by_head holds row.doc '"weights": '
"$npy" make q2.npy f4 20,2,4 random:1
fact heads_may_share_keys "$hga" inspect g.json --row 3 --query q2.npy --key k.npy

# Rows of a file whose tokens are not 0, 1, ..: the same line as of hga attend.
printf '3,4\n4,3\n5,6\n6,5\n3,5\n' >scattered.csv
"$npy" make up.npy i4 7 -1,0,0,1,1,2,2
"$npy" make q4.npy f4 4,1,4 random:1
"$hga" inspect scattered.csv --parents up.npy --row 0 --query q4.npy --key q4.npy >row.txt 2>said_of_rows
fact which_row_is_which_token_is_said shows said_of_rows 'rows are the leaves by id: 3 4 5 6'
"$hga" view scattered.csv --parents up.npy --query q4.npy --key q4.npy --quiet -o rows.html 2>said_of_rows
fact in_the_viewer_too shows said_of_rows 'rows are the leaves by id: 3 4 5 6'

# Positions of nodes go by the file's numbers, of which the graph's 0 .. 6 are 3 4 5 6 1 2 0.
"$npy" make by_file.npy f4 7,1 6,4,5,0,1,2,3
"$npy" make by_graph.npy f4 7,1 0,1,2,3,4,5,6
"$hga" export scattered.csv --parents up.npy -o scattered.json
rows_of() { "$hga" inspect "$@" --row 2 --query q4.npy --key q4.npy 2>/dev/null; }
rows_of scattered.json --node-pos by_graph.npy >row.txt
rows_of scattered.json >plain.txt
fact positions_change_weights exits 1 cmp -s row.txt plain.txt
for source in "scattered.csv --parents up.npy" "graph=scattered.csv -p parents=@up.npy"; do
    rows_of $source --node-pos by_file.npy >by_file.txt
    fact "positions_of_nodes_go_by_the_numbers_of_${source%% *}" same_bytes by_file.txt row.txt
done

# ---- a long text ----

build htransformer --tokens 200000 -o long.json
"$hga" inspect long.json --row 199999 >row.txt
fact a_row_of_a_long_text holds row.txt '^token 199999 attends to [0-9]+ nodes$'
"$hga" inspect long.json >long.txt
fact a_long_text_is_covered_once holds long.txt '^coverage   of 40000000000 pairs 40000000000 once, 0 never'

# ---- bad input ----

"$npy" make short.npy f4 19,1,4 random:1
"$npy" make wide.npy f4 20,1,5 random:1
"$npy" make three.npy f4 20,3,4 random:1
echo '{' >broken.json
fact a_graph_is_needed refused 2 "GRAPH or VARIANT is missing" "$hga" inspect
fact a_missing_file refused 3 "none.json" "$hga" inspect none.json
fact broken_json refused 3 "broken.json" "$hga" inspect broken.json
fact a_token_beyond_the_last refused 2 "no token 20; there are 0 .. 19" "$hga" inspect g.json --row 20
fact a_token_below_zero refused 2 "--row" "$hga" inspect g.json --row -1
fact a_token_that_is_no_number refused 2 "--row" "$hga" inspect g.json --row x
fact queries_without_keys refused 2 "go together" "$hga" inspect g.json --row 1 --query q.npy
fact queries_without_a_row refused 2 "--row TOKEN is missing" "$hga" inspect g.json --query q.npy --key k.npy
fact tables_without_queries refused 2 "--rel-bias" "$hga" inspect g.json --row 1 --rel-bias rb.npy
fact sorting_without_weights refused 2 "--sort" "$hga" inspect g.json --row 1 --sort
fact too_few_queries refused 3 "(19, 1, 4)" "$hga" inspect g.json --row 1 --query short.npy --key k.npy
fact keys_of_another_width refused 3 "wide.npy: has dim 5, the query in q.npy has 4" "$hga" inspect g.json --row 1 --query q.npy --key wide.npy
fact heads_that_do_not_divide refused 3 "3 heads" "$hga" inspect g.json --row 1 --query q2.npy --key three.npy
fact weights_without_scores refused 2 "depends on queries" "$hga" inspect tc.json --row 1 --query q.npy --key k.npy
fact a_picture_of_no_width refused 2 "--ascii" "$hga" inspect g.json --ascii=0
fact a_scale_without_queries refused 2 "--scale: without --query" "$hga" inspect g.json --row 1 --scale 0
fact a_scale_that_float32_lacks refused 2 "does not fit float32" "$hga" inspect g.json --row 1 --query q.npy --key k.npy --scale 1e39
fact clusters_of_a_variant refused 2 "--tree: is for a file of edges" "$hga" inspect dense -n 8 --tree metis:4
fact clusters_of_a_graph_with_a_program refused 2 "has a program of its own" "$hga" inspect h.json --tree metis:4
fact clusters_over_parents refused 2 "has a tree already" "$hga" inspect scattered.csv --parents up.npy --tree metis:4
fact clusters_of_one_node refused 2 "--tree: 1 is not in" "$hga" inspect scattered.csv --tree metis:4,1
fact clusters_of_no_size refused 2 "--tree: 'metis:' is not metis:LIST, such as metis:8,8" "$hga" inspect scattered.csv --tree metis:
fact clusters_by_others refused 2 "--tree: 'louvain:2' is not metis:LIST" "$hga" inspect scattered.csv --tree louvain:2
fact clusters_by_nobody refused 2 "--tree: 'louvain' is not metis:LIST" "$hga" inspect scattered.csv --tree louvain
fact clusters_by_others_of_a_variant refused 2 "tree: 'louvain:2' is not metis:LIST" "$hga" explain graph=scattered.csv -p tree=louvain:2
fact clusters_over_parents_of_a_variant refused 2 "has a tree already" "$hga" explain graph=scattered.csv -p parents=@up.npy -p tree=4
fact two_graphs refused 2 "h.json" "$hga" inspect g.json h.json

facts_end
