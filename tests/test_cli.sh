#!/bin/bash
# What the tool does when all is well: test_cli.sh HGA NPY JSON
set -u
hga=$1 npy=$2 json=$3
. "$(dirname "$0")/facts.sh"

# ---- inputs: 20 tokens, 2 heads; a tree over them for Treeformer and HSA ----

n=20
while read -r file dtype shape values; do "$npy" make "$file.npy" "$dtype" "$shape" "$values" || exit 1; done <<'END'
q f4 20,2,4 random:1
k f4 20,2,4 random:2
v f4 20,2,4 random:3
ones f4 20,2,4 1
k1 f4 20,1,4 random:2
v1 f4 20,1,4 random:3
flat f4 20,4 random:1
q64 f8 20,2,4 random:1
key13 f4 13,2,4 random:4
value13 f4 13,2,6 random:5
bpt_q f4 41,2,4 random:6
bpt_ones f4 41,2,4 1
leaf i4 20 0,1,2,3,1,1
zero i4 20 0
weights f4 3,4 random:7
head_weights f4 2,3,4 random:7
bias f4 3 0.1,-0.1,0
head_bias f4 2,3 0.1,-0.1,0
alpha f4 3 0.5,1,-0.25
parent i4 31 20,20,20,21,21,22,22,22,22,23,24,24,24,25,26,26,26,26,26,26,27,27,28,28,29,29,29,30,30,30,-1
lengths i4 2 7,13
rel_key f4 99,4 random:8
rel_bias f4 99,2 random:9
END
"$npy" make node_pos.npy f4 31,3 random:10
"$npy" compare q.npy q.npy 0 || exit 1

# name, variant and parameters: without tokens, which build takes from --tokens and attend from the query
names=() ; declare -A words
variant() { names+=("$1"); words[$1]=$2; }
variant dense "dense"
variant dense_causal "dense -p causal=1"
variant window "window -p left=3 -p right=2 -p global=1"
variant strided "window -p left=9 -p right=0 -p stride=3 -p causal=1"
variant bpt "bpt -p k=2"
variant bpt_causal "bpt -p k=2 -p causal=1 -p clip=2"
variant bpt_text "bpt -p k=2 -p rule=text"
variant htransformer "htransformer -p block=3"
variant htransformer_causal "htransformer -p block=4 -p causal=1"
variant htransformer_siblings "htransformer -p block=2 -p structure=siblings"
variant htransformer_linear "htransformer -p block=4 -p interpolation=linear"
variant hsa "hsa -p branching=2,3"
variant hsa_parent "hsa -p parent=@parent.npy"
variant hsa_frontier "hsa -p branching=2,3 -p causal=1"
variant hsa_self "hsa -p branching=2,3 -p self=1"
variant treeformer_fine "treeformer-fine -p query-leaf=@leaf.npy"
variant treeformer_fine_causal "treeformer-fine -p query-leaf=@leaf.npy -p causal=1"
variant treeformer_coarse "treeformer-coarse -p height=2 -p query-leaf=@leaf.npy"
# In slow builds one of each kind: the tool is the same for all, and the others have tests of the library there.
[ -n "${HGA_TEST_QUICK:-}" ] && names=(dense window bpt_causal htransformer htransformer_linear hsa_frontier treeformer_coarse)

# ---- build, export, check ----

edges_of_npy() { "$npy" print "$1" | sed -n '1s/^i4 \([0-9]*\),3$/\1/p'; }
edges_of_mtx() { grep -v '^%' "$1" | head -1 | awk '{ print $3 }'; }
edges_of_dot() { grep -cE '^ *[0-9]+ -> [0-9]+' "$1"; }
sorted_edges() { "$npy" print "$1" | tail -n +2 | awk '{ print $2, $1, $3 }' | sort -c -n -k1,1 -k2,2 -k3,3; }

for name in "${names[@]}"; do
    for suffix in json npy mtx dot; do
        # shellcheck disable=SC2086 # words
        fact "build_${name}_to_$suffix" silent "$hga" build ${words[$name]} --tokens $n -o $name.$suffix
    done
    fact ${name}_edges_are_int32_triples_sorted_by_destination sorted_edges $name.npy
    fact ${name}_has_as_many_edges_in_mtx equal "$(edges_of_npy $name.npy)" "$(edges_of_mtx $name.mtx)"
    fact ${name}_has_as_many_edges_in_dot equal "$(edges_of_npy $name.npy)" "$(edges_of_dot $name.dot)"
    fact ${name}_json_is_json "$json" $name.json
    fact ${name}_exports_what_it_was_built_as silent "$hga" export $name.json -o again.npy
    fact ${name}_exports_the_same_bytes same_bytes $name.npy again.npy
    fact ${name}_json_goes_round silent "$hga" export $name.json -o again.json
    fact ${name}_json_goes_round_again silent "$hga" export again.json -o third.json
    fact ${name}_json_goes_round_to_the_same_bytes same_bytes again.json third.json
    fact ${name}_keeps_its_promises exits 0 "$hga" check $name.json
done
# shellcheck disable=SC2016
fact hsa_self_mode_is_not_causal_and_check_says_so exits 1 sh -c '"$0" build hsa --tokens 20 -p branching=2,3 -p causal=1 -p mode=self -o self.json && "$0" check self.json' "$hga"

# what nobody claims is no failure, and stages whose work is lost are named
"$hga" build window --tokens 8 -p left=2 -p right=2 -o open.json && "$hga" check open.json >open.txt
fact causality_that_nobody_promised_is_not_failed holds open.txt '^causality +no +.*\(not promised\)$'
fact and_demanded_it_is exits 1 "$hga" check open.json --causal
python3 - <<'END' || exit 1
import json
g = json.load(open("open.json"))
stages = g["program"]["stages"]
lost = dict(stages[-1], name="lost", out="aside")
g["program"]["fields"].append({"name": "aside", "width": "state", "binding": "internal", "io": "queries", "rows": "queries"})
for name, order in ("first", [lost] + stages), ("last", stages + [lost]):
    g["program"]["stages"] = order
    json.dump(g, open(f"lost_{name}.json", "w"))
END
for where in first last; do "$hga" check lost_$where.json >lost_$where.txt 2>&1; done
fact a_stage_that_nothing_reads_is_named holds lost_first.txt '^warning +stage lost: nothing reads what it writes$'
fact a_last_stage_that_misses_the_output_is_named holds lost_last.txt '^warning +stage lost is the last and does not reach the output$'
fact other_stages_are_not_warned_of lacks open.txt '^warning'

fact a_pipe_of_json exits 0 bash -c 'set -o pipefail; "$0" build bpt --tokens 9 --format json -o - | "$0" check -' "$hga"
fact a_pipe_of_npy exits 0 bash -c 'set -o pipefail; "$0" build window --tokens 20 -p left=3 -p right=2 -p global=1 --format npy -o - >piped.npy && cmp piped.npy window.npy' "$hga"
fact a_file_is_replaced silent "$hga" build dense --tokens 3 -o replaced.npy
fact a_file_is_replaced_again silent "$hga" build dense --tokens 2 -o replaced.npy
fact the_replaced_file_has_four_edges equal "$(edges_of_npy replaced.npy)" 4
fact dense_of_two_tokens_is_all_pairs equal "$("$npy" print replaced.npy | tr '\n' ' ')" "i4 4,3 0 0 0 1 0 0 0 1 0 1 1 0 "
fact another_relation_by_name silent "$hga" build treeformer-coarse --tokens 20 -p height=2 -p query-leaf=@leaf.npy --relation path -o path.npy

# ---- attend ----

attend() { # attend NAME OUT OPTION..: with the variant's own tensors
    local name=$1 out=$2
    shift 2
    # shellcheck disable=SC2086
    "$hga" attend --quiet ${words[$name]} $(tensors "$name") --out "$out" "$@"
}
tensors() {
    case $1 in
    bpt*) echo "--query bpt_q.npy --key bpt_q.npy --value bpt_q.npy" ;;
    treeformer_coarse) echo "--query q.npy --key k.npy --value v.npy -p alpha=@alpha.npy" ;;
    *) echo "--query q.npy --key k.npy --value v.npy" ;;
    esac
}
shape_of() { "$npy" print "$1" | head -1; }

for name in "${names[@]}"; do
    rows=20 ones=ones.npy
    case $name in bpt*) rows=41 ones=bpt_ones.npy ;; esac
    fact attend_$name silent attend $name $name.out.npy --threads 1
    fact attend_${name}_gives_the_queries_shape equal "$(shape_of $name.out.npy)" "f4 $rows,2,4"
    fact attend_${name}_on_three_threads silent attend $name other.npy --threads 3
    fact attend_${name}_gives_the_same_bits_on_three_threads "$npy" compare $name.out.npy other.npy 0
    fact attend_${name}_by_the_reference_kernels silent attend $name other.npy --isa ref
    fact attend_${name}_is_near_the_reference_kernels "$npy" compare $name.out.npy other.npy 1e-5
    fact attend_${name}_in_bf16 silent attend $name other.npy --precision bf16
    fact attend_${name}_is_not_far_in_bf16 "$npy" compare $name.out.npy other.npy 0.1
    # shellcheck disable=SC2046
    fact ${name}_from_its_file silent "$hga" attend --quiet graph=$name.json $(tensors "$name") --out other.npy --threads 1
    fact ${name}_from_its_file_gives_the_same_bits "$npy" compare $name.out.npy other.npy 0
    case $name in treeformer_coarse) continue ;; esac # its weights do not sum to one
    # shellcheck disable=SC2046
    fact ${name}_of_ones silent "$hga" attend --quiet ${words[$name]} $(tensors "$name") --value $ones --out other.npy
    fact ${name}_of_ones_is_ones "$npy" compare other.npy $ones 1e-6
done

q="--query q.npy --key k.npy --value v.npy"
# shellcheck disable=SC2086
{
    fact a_window_over_everything silent "$hga" attend --quiet window -p left=20 -p right=20 $q --out other.npy
    fact a_window_over_everything_is_dense "$npy" compare other.npy dense.out.npy 1e-6
    fact two_blocks silent "$hga" attend --quiet htransformer -p block=10 $q --out other.npy
    fact two_blocks_are_dense "$npy" compare other.npy dense.out.npy 1e-6
    fact one_leaf silent "$hga" attend --quiet treeformer-fine -p query-leaf=@zero.npy $q --out other.npy
    fact one_leaf_is_dense "$npy" compare other.npy dense.out.npy 1e-6
    # A tree without levels has one leaf, in which keys are that are not said to be elsewhere.
    "$npy" make some.npy i4 20 0,-1,0
    fact leaves_of_queries silent "$hga" attend --quiet treeformer-fine -p query-leaf=@some.npy -p key-leaf=@some.npy $q --out some.out.npy
    fact leaves_of_queries_alone silent "$hga" attend --quiet treeformer-fine -p query-leaf=@some.npy -p height=0 $q --out again.npy
    fact are_those_of_keys "$npy" compare again.npy some.out.npy 0
    fact float64_is_accepted silent "$hga" attend --quiet dense --query q64.npy --key k.npy --value v.npy --out other.npy
    fact float64_is_rounded_once "$npy" compare other.npy dense.out.npy 1e-6
    fact rank_two_in silent "$hga" attend --quiet dense --query flat.npy --key flat.npy --value flat.npy --out other.npy --lse lse.npy
    fact rank_two_out equal "$(shape_of other.npy)" "f4 20,4"
    fact lse_of_rank_two equal "$(shape_of lse.npy)" "f4 20"
    fact lse silent "$hga" attend --quiet htransformer -p block=3 $q --out other.npy --lse lse.npy
    fact lse_is_rows_by_heads equal "$(shape_of lse.npy)" "f4 20,2"
    fact lse_does_not_change_the_output "$npy" compare other.npy htransformer.out.npy 0
    fact shared_key_heads silent "$hga" attend --quiet dense --query q.npy --key k1.npy --value v1.npy --out other.npy
    fact cross_attention silent "$hga" attend --quiet dense --query q.npy --key key13.npy --value value13.npy --out other.npy
    fact cross_attention_has_the_queries_rows_and_the_values_columns equal "$(shape_of other.npy)" "f4 20,2,6"
    fact cross_htransformer silent "$hga" attend --quiet htransformer -p block=4 --query q.npy --key key13.npy --value value13.npy --out other.npy
    fact cross_window silent "$hga" attend --quiet window --query q.npy --key key13.npy --value value13.npy --out other.npy
    fact scale silent "$hga" attend --quiet dense $q --scale 0.5 --out other.npy
    fact half_is_the_default_scale_of_four_columns "$npy" compare other.npy dense.out.npy 0
    fact relative_keys silent "$hga" attend --quiet bpt -p k=2 --query bpt_q.npy --key bpt_q.npy --value bpt_q.npy --rel-key rel_key.npy --out other.npy
    fact relative_bias silent "$hga" attend --quiet htransformer -p block=4 -p relative=1 $q --rel-bias rel_bias.npy --out other.npy
    fact positions silent "$hga" attend --quiet hsa -p parent=@parent.npy $q --node-pos node_pos.npy --out other.npy
    fact routing silent "$hga" attend --quiet treeformer-fine -p height=2 -p weights=@weights.npy -p bias=@bias.npy $q --out other.npy
    fact routing_by_head silent "$hga" attend --quiet treeformer-fine -p height=2 -p weights=@head_weights.npy -p bias=@head_bias.npy $q --out other.npy
    fact coarse_routing silent "$hga" attend --quiet treeformer-coarse -p height=2 -p weights=@weights.npy -p bias=@bias.npy -p alpha=@alpha.npy $q --out other.npy
    fact output_to_a_pipe bash -c 'set -o pipefail; "$0" attend dense '"$q"' --out - >piped.npy && cmp piped.npy dense.out.npy' "$hga"
    fact input_from_a_pipe bash -c '"$0" attend dense --query - --key k.npy --value v.npy --out other.npy <q.npy && cmp other.npy dense.out.npy' "$hga"
}

# one bias an edge: zeros change nothing, and a bias that grows with the position among the edges does
"$npy" make zero_bias.npy f4 "$(edges_of_npy window.npy)" 0
"$npy" make edge_bias.npy f4 "$(edges_of_npy window.npy),2" random:11
fact zero_edge_bias silent attend window other.npy --edge-bias zero_bias.npy
fact zero_edge_bias_changes_nothing "$npy" compare other.npy window.out.npy 1e-6
fact edge_bias silent attend window biased.npy --edge-bias edge_bias.npy
fact edge_bias_counts exits 1 "$npy" compare biased.npy window.out.npy 1e-3

# ---- ragged batches: two texts of 7 and 13 tokens together are the two alone ----

"$npy" make some_empty.npy i4 5 0,7,0,0,13
for x in q k v; do "$npy" rows $x.npy 0 7 ${x}_a.npy && "$npy" rows $x.npy 7 13 ${x}_b.npy; done
for name in dense window htransformer htransformer_causal htransformer_linear hsa hsa_frontier; do
    # shellcheck disable=SC2086
    {
        fact ragged_$name silent "$hga" attend --quiet ${words[$name]} -p tokens=@lengths.npy $q --out both.npy
        fact ragged_${name}_first silent "$hga" attend --quiet ${words[$name]} --query q_a.npy --key k_a.npy --value v_a.npy --out alone_a.npy
        fact ragged_${name}_second silent "$hga" attend --quiet ${words[$name]} --query q_b.npy --key k_b.npy --value v_b.npy --out alone_b.npy
    }
    # shellcheck disable=SC2086
    fact ragged_${name}_with_texts_of_no_tokens silent "$hga" attend --quiet ${words[$name]} -p tokens=@some_empty.npy $q --out some.npy
    fact ragged_${name}_does_not_see_them cmp some.npy both.npy
    "$npy" rows both.npy 0 7 both_a.npy && "$npy" rows both.npy 7 13 both_b.npy
    fact ragged_${name}_is_the_first_alone "$npy" compare both_a.npy alone_a.npy 1e-6
    fact ragged_${name}_is_the_second_alone "$npy" compare both_b.npy alone_b.npy 1e-6
done

# ---- the other subcommands ----

says() { # says PATTERN COMMAND..: all is well and stdout holds the pattern
    local pattern=$1
    shift
    "$@" >stdout 2>stderr && [ ! -s stderr ] && holds stdout "$pattern" || { cat stderr; false; }
}
parses() { "$@" >stdout 2>stderr && "$json" stdout || { cat stderr; false; }; }

fact version says '[0-9]+\.[0-9]+' "$hga" --version
fact version_as_json parses "$hga" --version --json
fact help says 'attend' "$hga" help
fact help_of_files_needs_no_FILE says parents "$hga" help graph
fact help_flag says 'attend' "$hga" --help
for command in run build attend check export explain bench flops view topo; do
    fact help_of_$command says -- "$hga" help $command
    fact ${command}_help says -- "$hga" $command --help
done
fact explain says 'near' "$hga" explain htransformer --tokens 64
fact explain_tells_the_way_of_pairs says 'pairs: 100.0 % in tiles that are 100 % full' "$hga" explain dense --tokens 64
"$hga" explain dense -n 1 -t 1 --gradient >one.txt || exit 1
fact explain_of_one_token_counts_in_the_singular lacks one.txt '\<1 (node|level|domain|edge|block|panel|phase|row|wave|slot|stage)s\>'
fact and_counts_it shows one.txt 'graph: 1 node on 1 level, '
fact explain_says_that_threads_are_bound says 'bound for the call' env -u OMP_PROC_BIND "$hga" explain dense --tokens 64 --bind on
fact and_that_they_are_not says 'not bound' env -u OMP_PROC_BIND "$hga" explain dense --tokens 64 --bind off
fact explain_counts_what_ranks_exchange says ' 2 *halo *384 ' "$hga" explain htransformer -p block=16 --tokens 65536 --ranks 2
# Slow builds measure the machine, and predict, once.
if [ -z "${HGA_TEST_QUICK-}" ]; then
    fact explain_of_ranks_is_as_exact_in_json says '"rows": 256.0' "$hga" explain window --tokens 4096 --ranks 4 --json
    fact explain_estimates_what_no_machine_builds says 'they are estimates' "$hga" explain window --tokens 1000000000 --ranks 1024
    fact explain_estimates_trees_that_half_the_tokens_cut_otherwise says ' 1024 *halo *5115 *40 *8.446 .* 0.9[0-9]* *[01]\.' "$hga" explain hsa -p branching=4 --tokens 1073741824 --ranks 1024
    for i in {0..62}; do echo "$((i * 27 % 64)),$(((i + 1) * 27 % 64))" && echo "$(((i + 1) * 27 % 64)),$((i * 27 % 64))"; done >chain.csv # in numbers by chance
    fact explain_of_ranks_counts_a_graph_as_it_is says ' 2 *halo *64 ' "$hga" explain graph=chain.csv --ranks 2
    fact and_in_an_order says ' 2 *halo *2 ' "$hga" explain graph=chain.csv -p order=rcm --ranks 2
fi
fact explain_of_ranks_wants_as_many_tokens refused 2 '9 ranks for 8 tokens' "$hga" explain window --tokens 8 --ranks 9
fact explain_of_a_network_wants_ranks refused 2 'need --ranks' "$hga" explain window --tokens 8 --gbits 100
fact a_picture_wants_ranks refused 2 '-o need --ranks' "$hga" explain window --tokens 8 -o ranks.svg
fact a_picture_of_ranks_wants_a_kind_of_file refused 2 "'ranks.txt' does not end in .svg or .png" "$hga" explain window --tokens 8 --ranks 2 -o ranks.txt
fact explain_of_ranks_is_drawn silent "$hga" explain window -p left=64 -p right=64 --tokens 512 --ranks 1,2,4 -o ranks.svg
for line in 'computing, the busiest rank, 4 ranks:' 'its exchange, 2 ranks:' 'exchange of dense, ring, 4 ranks:' 'exchange of dense, heads, 2 ranks:' 'exchange of routed, all-to-all, 4 ranks:'; do
    fact ranks_have_a_line shows ranks.svg "$line"
done
fact one_rank_exchanges_nothing lacks ranks.svg 'its exchange, 1 rank'
fact explain_as_json parses "$hga" explain htransformer --tokens 64 --json
fact check_as_json parses "$hga" check window.json --json
fact topology says '.' "$hga" topo
fact a_synthetic_topology says '.' "$hga" topo --synthetic 'pack:2 numa:1 core:4 pu:1'
fact one_core_has_one_processor says ': 1 NUMA domain, 1 core, 1 PU; 1 thread' "$hga" topo --synthetic 'pu:1'
fact a_synthetic_topology_as_json parses "$hga" topo --synthetic 'pack:2 numa:1 core:4 pu:1' --json
fact bench_dry_run says 'dense' "$hga" bench --variants dense,htransformer --tokens 64,128 --dry-run
fact bench_to_json exits 0 "$hga" bench --variants dense,htransformer --tokens 64 --heads 2 --dim 16 --threads 1 --seconds .1 --json bench.json
fact bench_json_is_json "$json" bench.json context
fact bench_json_has_benchmarks "$json" bench.json benchmarks 0 name

printf 'CHAPTER I\n\nIt was late. Nobody came, or so it seemed.\n\nThen somebody did.\n\nCHAPTER II\n\nHe knocked. Twice! And once more, for the door was thick.\n' >tale.txt
mkdir run
# Instruments make every measurement slow, and all variants ran without them.
few=(--seconds .1)
[ -z "${HGA_TEST_QUICK-}" ] || few+=(--variants htransformer,hsa --heads 2 --dim 16 --repetitions 2)
fact run_a_text exits 0 sh -c 'cd run && "$0" run "$@" ../tale.txt >table' "$hga" "${few[@]}"
fact run_prints_dense_and_the_variants holds run/table 'dense'
fact run_names_htransformer holds run/table 'htransformer'
fact run_names_hsa holds run/table 'hsa'
fact run_as_json parses "$hga" run "${few[@]}" --json tale.txt
fact a_dry_run_tells_time_and_memory exits 0 sh -c 'mkdir -p dry && cd dry && "$0" run --dry-run "$@" ../tale.txt >../dry.txt && [ -z "$(ls)" ]' "$hga" "${few[@]}"
fact of_every_variant equal "$(awk 'NF' dry.txt | wc -l)" "$(($(awk 'NF' run/table | grep -vc '^!') - 0))"
fact and_of_all_together holds dry.txt '^The run takes about [0-9]+ s and [0-9]+ MB'
fact a_dry_run_as_json parses "$hga" run --dry-run --json tale.txt
fact run_from_standard_input exits 0 sh -c 'cd run && "$0" run "$@" - <../tale.txt >table' "$hga" "${few[@]}"

"$npy" make steep.npy f4 2 20
modified=(--tokens 300 --heads 2 --dim 16 --seconds .02 --repetitions 2 --no-report)
away() { "$hga" run "${modified[@]}" --variants window --json "$@" >modified.json && "$json" modified.json rows 2 relative_l2; }
fact a_window_is_not_dense_attention equal "$(away | awk '{ print ($1 > 1e-2) }')" 1
fact with_steep_slopes_it_is equal "$(away --slopes steep.npy | awk '{ print ($1 < 1e-5) }')" 1
fact and_json_names_them equal "$("$json" modified.json modifiers slopes)" steep.npy
fact entmax_has_weights_of_zero_and_no_divergence equal "$(away --normalizer entmax:1.5 >/dev/null && "$json" modified.json rows 2 mean_kl)" null
fact run_prints_what_was_typed says '; normaliser entmax:1.5, softcap 4; ' "$hga" run "${modified[@]}" --variants window --softcap 4 --normaliser entmax:1.5
fact what_has_no_cap_is_left_out sh -c '"$@" 2>left >others && grep -q "hsa branching=2,4,8,16 is left out" left && grep -q "^window" others && ! grep -q "^hsa *branching" others' sh "$hga" run --dry-run --softcap 4 tale.txt
fact unless_it_was_asked_for refused 2 'the energies of hsa are softmax' "$hga" run --dry-run --softcap 4 --variants hsa tale.txt
fact what_dense_attention_cannot_have_is_refused refused 2 'dense has no softmax denominator' "$hga" run --dry-run --normaliser sigmoid --sink steep.npy tale.txt

facts_end
