#!/bin/bash
# Benchmarks on tiny cases: that they run and say what they should, never how fast. test_bench.sh HGA JSON MAKE
set -u
hga=$1 json=$2 make=$3
. "$(dirname "$0")/facts.sh"

tiny=(--tokens 128 --seconds 0.01)

# ---- peers: their results are compared with ours, and a wrong one exits 1 ----

fact peers_agree exits 0 sh -c '"$@" >peers' sh "$hga" bench --variants dense,dense:causal=1,bpt:k=4,htransformer,random:degree=5,treeformer-fine,hsa:branching=3 \
    --tokens 200 --heads 3 --dim 20 --threads 1,2 --peers all --seconds 0.01 --json peers.json
fact passes_run_on_graphs holds peers '^peer:passes +bpt:k=4'
fact passes_run_beside_htransformer holds peers '^peer:passes +htransformer'
fact peers_in_json "$json" peers.json benchmarks 1 share_of_peak
fact an_unknown_peer refused 2 "'mkl' is not one of" "$hga" bench --peers mkl
fact dry_runs_have_googles_names exits 0 "$hga" bench --variants dense --tokens 64 --dry-run --json dry.json
fact dry_run_name "$json" dry.json benchmarks 0 name
fact dry_run_type "$json" dry.json benchmarks 0 run_type
fact dry_runs_estimate_times sh -c 'awk -v one="$("$1" dry.json benchmarks 0 estimated_seconds)" -v all="$("$1" dry.json benchmarks 0 estimated_case_seconds)" "BEGIN { exit !(one > 0 && all >= 2) }"' sh "$json"
fact a_table_of_estimates_has_no_dash sh -c '"$1" bench --variants dense,hsa:branching=4 --tokens 64,2048 --dry-run | awk "/^dense|^hsa/ { n++; if (\$NF == \"-\") exit 1 } END { exit n != 4 }"' sh "$hga"

# ---- token by token ----

fact decoding_runs exits 0 sh -c '"$@" >decode' sh "$hga" bench --decode --tokens 63,64 --heads 4 --kv-heads 2 --dim 8 --threads 1,2 --repetitions 4 --json decode.json --report decode.html
fact decoding_has_its_columns holds decode '^variant +parameters +context +threads +isa +prec +same +us a token +mean +worst +flat over it '
for variant in 'flat cache' 'window +left=256:right=0:causal=1' 'htransformer +causal=1' 'hsa +branching=4:causal=1' 'hsa +branching=16:causal=1' 'fenwick'; do
    for place in '63 +1' '63 +2' '64 +1' '64 +2'; do fact "decoding_has_${variant%% *}_${place// +/_}" holds decode "^$variant +$place "; done
done
fact decoding_in_json sh -c '"$1" decode.json benchmarks 0 real_time && "$1" decode.json benchmarks 1 worst_seconds' sh "$json"
fact a_flat_cache_is_keys_and_values equal "$("$json" decode.json benchmarks 0 cache_bytes)" $((63 * 2 * 2 * 8 * 4))
fact tokens_that_are_timed_lengthen_a_context_little exits 0 "$hga" bench --decode --variants fenwick --tokens 1024 --heads 1 --dim 8 --seconds 30 --json few.json
fact by_a_sixteenth equal "$("$json" few.json benchmarks 1 iterations)" 64
fact without_it_rows_say_no equal "$("$json" few.json benchmarks 1 same_bits)" false
fact decoding_with_the_bits_of_one_pass exits 0 sh -c '"$@" >same' sh "$hga" bench --decode --same --variants fenwick,hsa:branching=4:causal=1 --tokens 64 --heads 2 --dim 8 --normaliser sigmoid --precision f32,bf16 --repetitions 3 --json same.json
for row in 'fenwick +64 +1 +[a-z0-9]+ +f32' 'fenwick +64 +1 +[a-z0-9]+ +bf16' 'hsa +branching=4:causal=1 +64 +1 +[a-z0-9]+ +bf16'; do fact "${row%% *}_${row##*+}_says_so" holds same "^$row +yes "; done
fact same_needs_decoding refused 2 '--same: needs --decode' "$hga" bench --same
fact decoding_is_shown_again sh -c '"$1" bench --from decode.json >again && cmp decode again' sh "$hga"
fact decoding_of_rows_that_are_nodes exits 0 sh -c '"$@" >nodes' sh "$hga" bench --decode --variants bpt:k=2:causal=1,dense:causal=1 --tokens 40 --heads 2 --dim 8 --softcap 3 --repetitions 3
fact decoding_dry exits 0 sh -c '"$@" >dry' sh "$hga" bench --decode --tokens 65536 --dry-run
fact decoding_dry_tells_bytes holds dry '^fenwick +65536 +1 .* [0-9.]+ +[0-9.]+ +- +-$'
fact what_is_not_causal_is_not_decoded refused 2 'dense: decoding needs a causal hierarchy: the output of token 0 depends on token' "$hga" bench --decode --variants dense --tokens 9 --dry-run
fact decoding_has_no_peers refused 2 '--decode: times tokens, without --peers' "$hga" bench --decode --peers all
fact decoding_has_no_gradients refused 2 '--decode: times tokens, without --gradient' "$hga" bench --decode --gradient
fact decoding_has_no_relative_keys refused 2 '--decode: times tokens, without --rel-key' "$hga" bench --decode --rel-key
fact ranks_need_mpirun refused 2 '`hga explain VARIANT --ranks P` predicts' "$hga" bench --ranks
fact a_link_needs_ranks refused 2 '--latency, --gbits: need --ranks' "$hga" bench --gbits 10

# ---- the backward pass ----

relative_by_default() { "$hga" bench --rel-key --tokens 64 --heads 2 --dim 8 --repetitions 1 --warmup 0 >all; }
fact relative_keys_with_the_default_list exits 0 relative_by_default
fact without_what_cannot_have_them lacks all '^treeformer-coarse '
fact the_others_run holds all '^treeformer-fine '
fact who_asks_for_it_by_name_hears_why_not refused 2 'attends no relation' "$hga" bench --rel-key --variants treeformer-coarse --tokens 64 --heads 2 --dim 8
fact gradients_run exits 0 sh -c '"$@" >back' sh "$hga" bench --gradient --variants dense,hsa:branching=3,treeformer-fine,bpt:k=2 --rel-key --tokens 64 --heads 2 --dim 8 \
    --threads 1,2 --seconds 0.01 --json back.json
fact a_gradient_is_a_row_of_its_own holds back '^gradient:dense '
fact beside_its_execution sh -c '[ "$("$1" back.json benchmarks 0 variant) $("$1" back.json benchmarks 1 variant)" = "dense gradient:dense" ]' sh "$json"
fact its_ratio_is_of_the_two_rows sh -c 'at() { "$1" back.json benchmarks "$2" "$3"; }
    awk -v r="$(at "$1" 1 over_forward)" -v f="$(at "$1" 0 seconds)" -v b="$(at "$1" 1 seconds)" "BEGIN { exit !(r > 0 && (r - b / f) ^ 2 < 1e-6 * r * r) }"' sh "$json"
fact its_work_is_two_and_a_half_times_attentions sh -c '[ "$(awk "BEGIN { print 2.5 * $("$1" back.json benchmarks 0 flops) }")" = "$(awk "BEGIN { print 1 * $("$1" back.json benchmarks 1 flops) }")" ]' sh "$json"
fact softcaps_are_timed exits 0 sh -c '"$@" >capped' sh "$hga" bench --variants dense,window --tokens 64 --heads 2 --dim 8 --softcap 3 --normaliser softmax --seconds 0.01
fact as_any_other_case holds capped '^window '
fact a_cap_of_an_energy_is_refused exits 2 "$hga" bench --variants hsa:branching=3 --tokens 64 --softcap 3
fact gradients_are_planned exits 0 sh -c '"$@" >dry' sh "$hga" bench --gradient --variants dense --tokens 64 --dry-run
fact as_rows_of_their_own holds dry '^gradient:dense '

fact cases_are_judged_by_memory exits 0 sh -c '"$@" >/dev/null' sh "$hga" bench --variants dense --tokens 64 --heads 2 --dim 8 --threads 1 --seconds 0.02 --by-memory --json memory.json
fact whatever_limits_them sh -c '"$1" memory.json benchmarks 0 peak_gbytes | grep -q "^[0-9.]*[1-9]"' sh "$json"
fact values_have_a_dimension_of_their_own exits 0 sh -c '"$@" >/dev/null' sh "$hga" bench --variants dense,hsa:branching=2 --tokens 64 --heads 2 --dim 8 --dim-v 5 --peers all --gradient --seconds 0.01 --json values.json
fact which_the_rows_tell equal "$("$json" values.json benchmarks 0 dim_v)" 5
fact which_is_above_0 refused 2 '--dim-v: 0 is not in 1 .. 65536' "$hga" bench --dim-v 0

# ---- what a time is worth ----

fact repeats exits 0 "$hga" bench --variants dense --tokens 64 --repetitions 7 --warmup 2 --json repeats.json
fact as_many_repeats_as_said sh -c '[ "$("$1" repeats.json benchmarks 0 repeats)" = 7 ]' sh "$json"
for key in cpu_over_wall disturbed seconds_q1 seconds_q3; do fact "rows_say_$key" "$json" repeats.json benchmarks 0 $key; done
fact quartiles_are_around_the_median sh -c 'q() { "$1" repeats.json benchmarks 0 "$2"; }
    awk -v a="$(q "$1" seconds_min)" -v b="$(q "$1" seconds_q1)" -v c="$(q "$1" seconds)" -v d="$(q "$1" seconds_q3)" "BEGIN { exit !(a <= b && b <= c && c <= d) }"' sh "$json"
for key in cpu_model governor caches load_avg compiler; do fact "the_context_says_$key" "$json" repeats.json context $key; done
fact peaks_say_what_they_are_worth "$json" repeats.json context peaks 0 cpu_over_wall
fact one_repeat exits 0 "$hga" bench --variants dense,hsa:branching=2,4 --tokens 300 --threads 1 --repetitions 1 --json one.json
fact shares_are_of_limits_in_turns_with_the_repeats python3 -c 'import json
run = json.load(open("one.json")); peak = run["context"]["peaks"][0]["fma_gflops"]
near = lambda a, b: abs(a / b - 1) < 1e-6
for row in run["benchmarks"]:
    for share, limit in (row["share_of_peak"], row["peak_gflops"]), (row["share_of_context_peak"], peak):
        assert share is None and row["gflops"] > limit or near(share, row["gflops"] / limit) and share <= 1
    assert not near(row["peak_gflops"], peak)'
# Nothing does more than its peak: a record that says so has no share, on its page and in its table.
beyond() {
    python3 -c 'import json
run = json.load(open("one.json"))
for row, share in zip(run["benchmarks"], (1.043, 0.5)): row.update(share_of_peak=share, share_of_roofline=share, limit_disturbed=False, mark="")
json.dump(run, open("beyond.json", "w"))' && "$hga" bench --from beyond.json --report beyond.html >beyond && ! grep -hE '104\.3' beyond.html beyond &&
        holds beyond '^dense .* !$' && holds beyond '^hsa .* 50\.0 %' && shows beyond.html '!, 300 tokens'
}
fact nothing_is_shown_to_do_more_than_its_peak beyond
fact memory_is_asked_where_it_is_the_limit python3 -c 'import json
dense, hsa = json.load(open("one.json"))["benchmarks"]
assert dense["peak_gbytes"] is None and dense["share_of_dram"] is None
assert hsa["share_of_dram"] is None and hsa["mark"] == "!" or abs(hsa["share_of_dram"] * hsa["peak_gbytes"] / hsa["gbytes_per_second"] - 1) < 1e-6'
fact a_least_time exits 0 "$hga" bench --variants dense --tokens 16 --min-time 0.2 --seconds 0.01 --json least.json
fact it_is_kept sh -c 'awk -v n="$("$1" least.json benchmarks 0 repeats)" -v s="$("$1" least.json benchmarks 0 seconds_q3)" "BEGIN { exit !(n > 3) }"' sh "$json"
fact no_repeats_at_all refused 2 '--repetitions' "$hga" bench --variants dense --repetitions 0
# Busy loops on the one core that a run may have take processor time away: rows say so.
burn() {
    local pids=() core got
    core=$(taskset -cp $BASHPID | grep -oE '[0-9]+' | sed -n 2p)
    for _ in 1 2; do { while :; do :; done & } 2>/dev/null; pids+=($!); taskset -cp "$core" $! >/dev/null; done
    taskset -c "$core" "$@"
    got=$?
    kill "${pids[@]}"
    wait "${pids[@]}" 2>/dev/null
    return $got
}
fact a_disturbed_run burn "$hga" bench --variants dense --tokens 512 --threads 1 --repetitions 12 --seconds 60 --json busy.json
fact says_so sh -c '[ "$("$1" busy.json benchmarks 0 disturbed)" = true ]' sh "$json"
fact and_its_peaks_were_measured_again sh -c '[ "$("$1" busy.json context peaks 0 times)" -gt 1 ]' sh "$json"

# ---- edges are those of all attended relations ----

cat >two.json <<'EOF'
{"format": "hga-graph", "schema": 1, "levels": [6], "claims": [],
 "relations": [{"name": "near", "blocks": [{"dst": 0, "n_dst": 6, "src": 0, "n_src": 6, "shape": "band", "band": [-1, 1]}]},
               {"name": "far", "blocks": [{"dst": 0, "n_dst": 1, "src": 3, "n_src": 3}]}],
 "program": {"fields": [{"name": "q", "width": "key", "binding": "query", "io": "queries", "rows": "queries"},
                        {"name": "k", "width": "kv key", "binding": "key", "io": "keys", "rows": "keys"},
                        {"name": "v", "width": "value", "binding": "value", "io": "keys", "rows": "keys"},
                        {"name": "o", "width": "state", "binding": "out", "io": "queries", "rows": "queries"}],
             "stages": [{"name": "one", "kind": "attend", "relation": "near", "query": "q", "key": "k", "value": "v", "out": "o"},
                        {"name": "two", "kind": "attend more", "relation": "far", "query": "q", "key": "k", "value": "v", "out": "o"}]}}
EOF
fact two_relations exits 0 "$hga" bench --variants graph=two.json --tokens 6 --repetitions 1 --json two_rows.json
fact both_count sh -c '[ "$("$1" two_rows.json benchmarks 0 edges)" = 19 ]' sh "$json"

# ---- --graph: a file, whatever stands in its name, and its parameters ----

for i in $(seq 0 31); do echo "$i,$(((i + 1) % 32))"; done >ring.csv
cp ring.csv 'a,b:c.csv'
fact a_tree_of_two_levels exits 0 "$hga" bench --graph ring.csv:tree=8,2 --repetitions 1 --json tree.json
fact a_tree_of_metis exits 0 "$hga" bench --graph ring.csv:tree=metis:8,2:order=rcm --repetitions 1 --json metis.json
fact both_have_the_trees_nodes sh -c '[ "$("$1" tree.json benchmarks 0 nodes)" = 38 ] && [ "$("$1" metis.json benchmarks 0 nodes)" = 38 ]' sh "$json"
fact among_variants exits 0 "$hga" bench --variants graph=ring.csv:tree=metis:8,2,dense --tokens 32 --repetitions 1 --json among.json
fact is_the_first_of_two sh -c '[ "$("$1" among.json benchmarks 0 nodes)" = 38 ] && [ "$("$1" among.json benchmarks 1 nodes)" = 32 ]' sh "$json"
fact a_comma_and_a_colon_in_a_name exits 0 "$hga" bench --graph 'a,b:c.csv:tree=8' --repetitions 1
fact another_clustering refused 2 "tree: 'louvain:2' is not metis:LIST" "$hga" bench --graph ring.csv:tree=louvain:2
fact a_long_name refused 2 "has 300 bytes; at most 249 fit" "$hga" bench --graph "$(printf %300d 0)"

# ---- scaling: a ratio of disturbed times gets no verdict ----

fact two_threads exits 0 "$hga" bench --variants dense --tokens 64 --threads 1,2 --repetitions 3 --json scaling.json
fact are_compared_with_one "$json" scaling.json scaling 0 times
fact both_times_say_what_they_are_worth "$json" scaling.json scaling 0 cpu_over_wall_alone
fact a_disturbed_scaling burn "$hga" bench --variants dense --tokens 512 --threads 1,2 --repetitions 12 --json busy2.json
fact has_no_verdict sh -c '[ "$("$1" busy2.json scaling 0 judged)" = false ] && "$1" busy2.json scaling 0 verdict | grep -q "^none"' sh "$json"

# ---- other forms ----

fact all_forms exits 0 "$hga" bench --variants dense,hsa:branching=2,4 --tokens 64,128 --repetitions 3 --json all.json --report all.html
fact json_has_every_measurement equal "$(grep -c '"run_name"' all.json)" 4
fact a_page_with_plots sh -c '[ "$(grep -c "<svg" all.html)" -ge 2 ] && grep -q "branching=2,4" all.html'
fact a_page_is_whole python3 -c 'import html.parser
open_tags = []
class P(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "link", "input"): open_tags.append(tag)
    def handle_endtag(self, tag): assert open_tags.pop() == tag, tag
P().feed(open("all.html").read()); assert not open_tags, open_tags'
for words in random:degree=9:degree=4 window:right=9:left=8:right=0 hsa:branching=2,4:branching=3 treeformer-fine:height=2:height=2; do
    name=${words%%:*} twice=${words##*:}
    fact "a_parameter_is_given_once_to_$name" refused 2 "$name: ${twice%%=*} is given twice" "$hga" bench --variants "$words" --tokens 64 --dry-run
done
fact one_of_them_on_stdout sh -c '"$1" bench --variants dense --tokens 16 --repetitions 1 --report - | head -1 | grep -qi "^<!doctype html>"' sh "$hga"
fact two_of_them_on_stdout refused 2 "--report: '-' is --json's file as well" "$hga" bench --variants dense --tokens 16 --report - --json -
fact an_old_run_again exits 0 sh -c '"$@" >again' sh "$hga" bench --from all.json --report again.html
fact says_the_same sh -c 'grep -q "^hsa  *branching=2,4" again && cmp -s all.html again.html'
for option in --gradient --decode "--tokens 64" "--heads 2" "--threads 1" --dry-run "--normaliser sigmoid" "-n 9"; do
    name=${option%% *}
    [ "$name" = -n ] && name=--tokens
    fact "a_run_shown_again_has_no_${name#--}" refused 2 "--from: shows a run again and measures nothing, without $name" "$hga" bench --from all.json $option
done
fact no_run_at_all exits 3 sh -c '"$@" 2>/dev/null' sh "$hga" bench --from all.html

# ---- a dated run, drawn ----

mkdir page
fact a_dated_run exits 0 env VARIANTS=dense,bpt:k=4 TOKENS=64,128 THREADS=1 sh "$make" "$hga" page
fact it_is_drawn sh -c 'grep -q "<svg" page/*.html && grep -q "bpt" page/*.html'
fact it_says_where_it_was_made sh -c 'grep -q "<dt>CPU</dt>" page/*.html'

facts_end
