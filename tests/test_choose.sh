#!/bin/bash
# Variants against dense attention on given tensors: test_choose.sh HGA NPY JSON
set -u
hga=$1 npy=$2 json=$3
. "$(dirname "$0")/facts.sh"

# table FILE: "variant;parameters;rel L2;KL;seconds;flops;front in time;front in FLOP" of each row
table() {
    local n i
    n=$("$json" "$1" rows)
    for ((i = 0; i < n; i++)); do
        for member in variant parameters relative_l2 mean_kl seconds flops front_time front_flops; do "$json" "$1" rows $i $member; done | paste -sd';'
    done
}
column() { cut -d';' -f"$2" "$1"; }

"$npy" make q.npy f4 40,2,4 random:1
"$npy" make k.npy f4 40,1,4 random:2
"$npy" make v.npy f4 40,1,3 random:3
"$npy" make ones.npy f4 40,1,3 1
"$npy" make short_k.npy f4 39,1,4 random:2
"$npy" make short_v.npy f4 39,1,3 random:2
"$npy" make zero.npy f4 40,2,4 0
"$npy" make zero_v.npy f4 40,1,3 0
tensors=(--query q.npy --key k.npy --value v.npy --seconds 0)

# ---- the table ----

fact choose_as_json "$hga" choose --quiet "${tensors[@]}" --json
cp said all.json
table all.json >all
fact it_is_json_of_the_40_tokens equal "$("$json" all.json tokens) $("$json" all.json schema)" "40 1"
fact dense_is_first_with_error_0 equal "$(head -1 all | cut -d';' -f1-4)" "dense;;0.0;0.0"
fact errors_are_sorted equal "$(column all 3)" "$(column all 3 | sort -g)"
fact every_variant_is_tried equal "$(column all 1 | sort -u | xargs)" "bpt dense dilated hsa htransformer neighbourhood routed treeformer-coarse treeformer-fine window"
fact parameters_that_see_everything_are_left_out equal "$(grep -c 'block=\(32\|64\)\|left=64\|k=32' all)" 0
fact dense_is_on_both_fronts equal "$(head -1 all | cut -d';' -f7-8)" "true;true"

# a row is on a front exactly when no other has at most its error and at most its cost, and less of one
front_is_right() { # front_is_right COST_COLUMN FRONT_COLUMN
    awk -F';' -v c="$1" -v f="$2" '{ e[NR] = $3 + 0; x[NR] = $c + 0; front[NR] = $f == "true" }
        END { for (i = 1; i <= NR; i++) {
                  best = 1
                  for (j = 1; j <= NR; j++) if (e[j] <= e[i] && x[j] <= x[i] && (e[j] < e[i] || x[j] < x[i])) best = 0
                  if (best != front[i]) { print "row " i; bad = 1 }
              } exit bad }' all
}
fact the_front_in_flop_is_what_nothing_beats front_is_right 6 8
fact the_front_in_time_is_what_nothing_beats front_is_right 5 7

# as `hga attend` computes it
"$hga" attend dense --query q.npy --key k.npy --value v.npy --out dense.npy
"$hga" attend htransformer -p block=4 --query q.npy --key k.npy --value v.npy --out ht.npy
distance=$(paste <("$npy" print ht.npy | tail -n +2 | tr ' ' '\n') <("$npy" print dense.npy | tail -n +2 | tr ' ' '\n') |
    awk '{ a += ($1 - $2) ^ 2; w += $2 ^ 2 } END { printf "%.4f", sqrt(a / w) }')
fact the_error_is_that_of_attend equal "$(grep 'htransformer;block=4;' all | cut -d';' -f3 | xargs printf %.4f)" "$distance"

fact equal_values_leave_no_error_to_variants_that_normalise "$hga" choose --quiet --query q.npy --key k.npy --value ones.npy --seconds 0 --variants hsa,htransformer --json
cp said ones.json
table ones.json >ones
fact their_errors_are_rounding awk -F';' '$3 > 1e-5 { exit 1 }' ones
fact unlisted_variants_are_not_tried equal "$(column ones 1 | sort -u | xargs)" "dense hsa htransformer"

# ---- causal, scale, seed, threads ----

fact causal_as_json "$hga" choose --quiet "${tensors[@]}" --causal --json
cp said causal.json
table causal.json >causal
fact causal_dense_has_error_0 equal "$(head -1 causal | cut -d';' -f1-4)" "dense;causal=1;0.0;0.0"
fact every_candidate_is_causal equal "$(grep -v '^fenwick;' causal | cut -d';' -f2 | grep -vc 'causal=1')" 0
fact what_is_always_causal_is_tried_where_order_counts equal "$(grep -c '^fenwick;' causal)" 1
fact and_only_there refused 2 "fenwick is always causal; say --causal" "$hga" choose "${tensors[@]}" --variants fenwick
fact coarse_treeformer_cannot_be_causal equal "$(grep -c coarse causal)" 0
"$hga" choose --quiet --query zero.npy --key k.npy --value v.npy --seconds 0 --variants htransformer,hsa --json >flat.json
"$hga" choose --quiet "${tensors[@]}" --scale 0 --variants htransformer,hsa --json >scaled.json
fact a_scale_of_0_is_a_query_of_zeros equal "$(table scaled.json | cut -d';' -f1-3 | sort)" "$(table flat.json | cut -d';' -f1-3 | sort)"
"$hga" choose --quiet "${tensors[@]}" --threads 1 --variants treeformer-fine --seed 5 --json >one.json
"$hga" choose --quiet "${tensors[@]}" --threads 2 --variants treeformer-fine --seed 5 --json >two.json
fact errors_do_not_depend_on_threads equal "$(table one.json | cut -d';' -f1-4 | sort)" "$(table two.json | cut -d';' -f1-4 | sort)"

# ---- what is done with scores ----

"$npy" make sink.npy f4 2 0.5,-1
score() { "$hga" "$@" --query q.npy --key k.npy --value v.npy --softcap 0.7 --sink sink.npy; }
score attend dense --quiet --out capped_dense.npy
score attend window -p left=4 -p right=4 --quiet --out capped.npy
distance=$(paste <("$npy" print capped.npy | tail -n +2 | tr ' ' '\n') <("$npy" print capped_dense.npy | tail -n +2 | tr ' ' '\n') |
    awk '{ a += ($1 - $2) ^ 2; w += $2 ^ 2 } END { printf "%.4f", sqrt(a / w) }')
score choose --quiet --seconds 0 --json --variants window >capped.json
fact a_softcap_and_sinks_are_those_of_attend equal "$(table capped.json | grep 'left=4 ' | cut -d';' -f3 | xargs printf %.4f)" "$distance"
score choose --quiet --seconds 0 --json >capped_all.json 2>left_out
fact what_has_no_denominator_is_left_out lacks capped_all.json 'hsa|coarse'
fact and_named holds left_out '^hga: treeformer-coarse height=2 .* is left out$'
fact unless_it_was_asked_for refused 2 "--sink: hsa has no softmax denominator" score choose --quiet --seconds 0 --variants hsa
score choose --quiet --seconds 0 --variants window >capped_text
fact the_table_says_what_was_done holds capped_text '^40 tokens, 2 heads x 4; sink sink.npy, softcap 0.7; KL'
fact a_sink_has_as_many_numbers_as_heads refused 3 "q.npy: has the shape" "$hga" choose --quiet "${tensors[@]}" --variants window --sink q.npy
score choose --quiet --seconds 0 --variants window --normaliser entmax:1.5 --json >sparse.json
fact of_zeros_there_is_no_divergence equal "$(table sparse.json | cut -d';' -f4 | sort -u)" ""
fact nothing_has_a_distance_from_zeros refused 3 "the output of dense attention is 0 throughout" \
    "$hga" choose --quiet --query q.npy --key k.npy --value zero_v.npy --seconds 0 --variants window -o nothing.svg
fact and_nothing_is_drawn test ! -e nothing.svg

# ---- text and picture ----

fact choose_as_text "$hga" choose --quiet "${tensors[@]}" --output plot.svg
cp said text
fact the_table_names_the_front grep -q '^dense .* time FLOP' text
points=$(($(wc -l <all) * 2))
fact each_candidate_is_in_both_panels equal "$(grep -c 'class="\(best\|point\)[ "]' plot.svg)" $points
python3 - plot.svg >covered <<'END'
import re, sys
drawing = open(sys.argv[1], encoding="utf-8").read()
number = lambda tag, name: float(re.search(rf' {name}="([-\d.]+)"', tag).group(1))
circles = [(kind, number(c, "cx"), number(c, "cy"), number(c, "r")) for c, kind in re.findall(r'(<circle [^>]*class="(best|point)[ "][^>]*>)', drawing)]
texts = lambda size: re.findall(rf'(<text [^>]*font-size="{size}"[^>]*>)([^<]*)<', drawing)
for tag, words in texts(12):
    x, y, width = number(tag, "x"), number(tag, "y"), 0.58 * 12 * len(words)
    left = x - {"start": 0, "middle": width / 2, "end": width}[re.search('text-anchor="(.*?)"', tag).group(1) if "text-anchor" in tag else "start"]
    for kind, cx, cy, r in circles:
        if "rotate" not in tag and left < cx + r and cx - r < left + width and y - 9 < cy + r and cy - r < y + 2:
            print(f"{words} lies on the point at {cx}, {cy}")
dots = [(cx, cy) for kind, cx, cy, r in circles if kind == "best"]
is_at = lambda tag, dot: abs(number(tag, "x") - dot[0]) < 0.1 and abs(number(tag, "y") - 3 - dot[1]) < 0.1
numbers = [(words, any(is_at(tag, dot) for dot in dots)) for tag, words in texts(9)]
inside, named = (sorted(words for words, is_inside in numbers if is_inside == wanted) for wanted in (True, False))
if inside != named or len(inside) != len(dots) or len(dots) < 4 or len(circles) < 40:
    print(f"{len(circles)} points; {len(dots)} dots of the fronts have {inside}, names {named}")
END
fact no_name_lies_on_a_point_and_each_number_of_a_front_is_in_its_dot empty covered
cp q.npy '<b>&".npy'
"$hga" choose --quiet --query '<b>&".npy' --key k.npy --value v.npy --seconds 0 --variants hsa -o named.svg >named
fact a_picture_of_any_name_is_well_formed xmllint --noout named.svg
fact the_name_is_escaped grep -q 'on &lt;b&gt;&amp;&quot;.npy:' named.svg
"$npy" make long.npy f4 480,1,4 random:4
"$hga" choose --quiet --query long.npy --key long.npy --value long.npy --seconds 0 --causal --variants hsa >causal_text
fact causal_calls_get_the_advice_of_the_study holds causal_text "^In a pretrained causal model begin with hga.transformers.calibrate, .*hga:routed:block=16:score=sample:prefill=16:budgets=@FILE: .*routed:block=16:k=4 \(docs/models.md\)\.$"
fact and_others_do_not lacks text pretrained
"$hga" choose --quiet "${tensors[@]}" --causal --variants hsa >short_text
fact four_blocks_of_40_tokens_are_no_quarter lacks short_text pretrained
fact choose_as_pixels "$hga" choose --quiet --query '<b>&".npy' --key k.npy --value v.npy --seconds 0 --variants hsa -o named.png
fact the_pixels_are_as_many_as_the_drawing_says equal "$(pngtopnm named.png | head -c 15 | sed -n 2p)" "$(sed -n 's/.* width="\([0-9]*\)" height="\([0-9]*\)".*/\1 \2/p' named.svg | head -1)"

# ---- wrong input ----

# A line to stderr after each candidate, the last of which says all.
"$hga" choose --quiet --progress "${tensors[@]}" --seconds 0 --variants hsa,htransformer --json >watched.json 2>watched
rows=$(python3 -c 'import json; print(len(json.load(open("watched.json"))["rows"]))')
fact each_candidate_is_told equal "$(cat watched)" "$(for i in $(seq "$rows"); do echo "$i of $rows candidates"; done)"

fact query_is_needed refused 2 "--query FILE is missing" "$hga" choose
fact key_is_needed refused 2 "--key FILE is missing" "$hga" choose --quiet --query q.npy
fact value_is_needed refused 2 "--value FILE is missing" "$hga" choose --quiet --query q.npy --key k.npy
fact variants_are_known refused 2 "--variants: 'hs' is not one of" "$hga" choose --quiet "${tensors[@]}" --variants bpt,hs
fact no_variant_is_not_a_variant refused 2 "--variants: '' is not one of" "$hga" choose --quiet "${tensors[@]}" --variants ''
fact coarse_and_causal_exclude_each_other refused 2 "treeformer-coarse cannot be causal" "$hga" choose --quiet "${tensors[@]}" --causal --variants treeformer-coarse
fact plot_is_svg refused 2 "'no.gif' does not end in .svg or .png" "$hga" choose --quiet "${tensors[@]}" -o no.gif
fact seconds_are_not_negative refused 2 "--seconds: -1 is not in" "$hga" choose --quiet "${tensors[@]}" --seconds -1
fact keys_are_the_queries_tokens refused 3 "short_k.npy: has 39 rows, the query in q.npy has 40" "$hga" choose --quiet --query q.npy --key short_k.npy --value short_v.npy -o no.svg
fact values_are_the_keys refused 3 "short_v.npy: has 39 rows" "$hga" choose --quiet --query q.npy --key k.npy --value short_v.npy
fact file_is_there refused 3 "absent.npy" "$hga" choose --quiet --query absent.npy --key k.npy --value v.npy -o no.svg
fact plot_needs_a_folder_before_any_candidate refused 4 "absent/no.svg" "$hga" choose --quiet --progress "${tensors[@]}" --variants hsa -o absent/no.svg

facts_end
