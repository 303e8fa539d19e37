#!/bin/bash
# Graphs that content chooses, in the commands that look at graphs: test_chosen.sh HGA; needs python3 with numpy.
set -u
hga=$1
. "$(dirname "$0")/facts.sh"

cat >make.py <<'EOF'
import numpy as np

r = np.random.default_rng(5)
for name, heads in (("q", 8), ("k", 2), ("v", 2), ("g", 8)):
    np.save(name + ".npy", r.normal(size=(64, heads, 8)).astype("f4"))
np.save("huge.npy", 1e25 * r.normal(size=(64, 8, 8)).astype("f4"))
np.save("nan.npy", np.full((64, 2, 8), np.nan, "f4"))
np.save("late.npy", np.full((8, 8, 1), 15, "i4"))
np.save("short.npy", np.zeros((63, 2, 8), "f4"))
np.save("long.npy", r.normal(size=(600, 2, 16)).astype("f4"))
EOF
python3 make.py || exit 1
routed=(routed -p block=8 -p k=3 -p causal=1)
by=(--query q.npy --key k.npy)
attend() { "$hga" attend "$@" "${by[@]}" --value v.npy --quiet; }

# ---- what chooses ----

for command in inspect check explain "export -o x.json" "build -o x.json" "view -o x.html"; do
    read -ra words <<<"$command"
    fact "${words[0]}_needs_what_chooses" refused 2 "blocks are chosen by queries and keys: give --query FILE and --key FILE, or -p choice=@FILE.npy" "$hga" "${words[0]}" "${routed[@]}" -n 64 "${words[@]:1}"
done
for command in "export -o x.json" "build -o x.json" "view --quiet -o x.html"; do
    read -ra words <<<"$command"
    fact "${words[0]}_needs_a_head" refused 2 "8 heads have each chosen a graph of their own; --head H says which" "$hga" "${words[0]}" "${routed[@]}" "${by[@]}" "${words[@]:1}"
    fact "${words[0]}_has_no_ninth" refused 2 "--head: 8, but there are heads 0 .. 7" "$hga" "${words[0]}" "${routed[@]}" "${by[@]}" --head 8 "${words[@]:1}"
    fact "${words[0]}_has_one_of_all" silent "$hga" "${words[0]}" "${routed[@]}" -p share=all "${by[@]}" "${words[@]:1}"
done
fact others_have_none refused 2 "--query: the graph of dense depends on no tensors" "$hga" explain dense -n 4 "${by[@]}"
# Rows that go by their columns are counted in a worker's memory, whatever was in it before.
fact memory_that_was_used_before_is_explained_alike exits 0 env MALLOC_PERTURB_=165 "$hga" explain routed -p block=16 -p k=8 -p causal=1 --query long.npy --key long.npy --heads 2 --dim 16 >/dev/null
fact a_choice_is_written silent attend "${routed[@]}" --out o.npy --choice c.npy --block-weights w.npy
fact and_gives_the_same_output silent attend "${routed[@]}" -p choice=@c.npy --out again.npy
fact bit_by_bit same_bytes o.npy again.npy
fact and_the_same_graph silent "$hga" build "${routed[@]}" -p choice=@c.npy -n 64 --head 5 -o by_choice.json
fact as_the_tensors silent "$hga" build "${routed[@]}" "${by[@]}" --head 5 -o by_tensors.json
fact byte_by_byte same_bytes by_choice.json by_tensors.json
cat >attended.py <<'EOF'
import subprocess
import sys

import numpy as np

q, k, v, o, c, w = (np.load(name + ".npy") for name in "qkvocw")
assert c.dtype == np.int32 and c.shape == (8, 64, 3) and w.dtype == np.float32 and w.shape == (8, 64, 3)
assert abs(w.sum(-1) - 1).max() < 1e-5 and (w[c < 0] == 0).all()
for name, x in (("q", q[:, 5:6]), ("k", k[:, 1:]), ("v", v[:, 1:])):
    np.save(name + "5.npy", x)
words = "attend graph=by_choice.json --query q5.npy --key k5.npy --value v5.npy --out o5.npy --quiet".split()
subprocess.run([sys.argv[1], *words], check=True)
assert abs(np.load("o5.npy") - o[:, 5:6]).max() < 2e-6
EOF
cat >batch.py <<'EOF'
import numpy as np

r = np.random.default_rng(7)
for name, heads in (("bq", 4), ("bk", 2), ("bv", 2)):
    x = r.normal(size=(2, 24, heads, 8)).astype("f4")
    np.save(name + ".npy", x)
    np.save(name + "1.npy", x[:1])
    for i in range(2):
        np.save(f"{name}{i}_alone.npy", x[i])
s = r.normal(size=(2, 4, 24, 6)).astype("f4")
np.save("bs.npy", s)
np.save("bs1.npy", s[1])
EOF
python3 batch.py || exit 1
batch() { "$hga" attend "$@" --query bq.npy --key bk.npy --value bv.npy --layout bnhd --quiet; }
of_batch() { batch routed -p block=4 -p k=3 "$@"; }
fact a_batch_writes_its_choices silent of_batch --out bo.npy --choice bc.npy --block-weights bw.npy
python3 -c 'import numpy as np; c = np.load("bc.npy"); assert c.shape == (2, 4, 24, 3), c.shape; np.save("bc1.npy", c[1]); np.save("bc_one.npy", c[:1]); np.save("bc_three.npy", c[[0, 1, 0]])' || exit 1
fact and_reads_them_again silent of_batch -p choice=@bc.npy --out again.npy --choice bc2.npy --block-weights bw2.npy
fact sample_by_sample same_bytes bo.npy again.npy
fact with_their_choices same_bytes bc.npy bc2.npy
fact and_weights same_bytes bw.npy bw2.npy
for i in bc1 bc_one bc_three; do
    fact "${i}_is_no_choice_of_two_samples" refused 3 "choice is [samples = 2][choosers = 4][query blocks = 24][slots]" of_batch -p choice=@$i.npy --out x.npy
done
fact one_sample_takes_either silent "$hga" attend routed -p block=4 -p choice=@bc_one.npy --query bq1.npy --key bk1.npy --value bv1.npy --layout bnhd --quiet --out one.npy
fact a_graph_of_a_batch_of_one silent "$hga" build routed -p block=4 -p choice=@bc_one.npy -n 24 --head 2 -o x.json
fact a_graph_of_a_batch_of_two refused 3 "choice is [samples = 1][choosers = 4][query blocks = 24][slots]" "$hga" build routed -p block=4 -p choice=@bc.npy -n 24 --head 2 -o x2.json
fact given_scores_are_by_sample silent of_batch -p score=given --block-scores bs.npy --out bg.npy
fact of_one_sample_as_of_the_batch silent "$hga" attend routed -p block=4 -p k=3 -p score=given --block-scores bs1.npy --query bq1_alone.npy --key bk1_alone.npy --value bv1_alone.npy --quiet --out bg1.npy
fact the_second_by_its_own_scores python3 -c 'import numpy as np; assert np.array_equal(np.load("bg.npy")[1], np.load("bg1.npy"))'
fact scores_of_one_are_not_two_samples refused 3 "--block-scores is [samples = 2][choosers = 4][query blocks = 24][blocks]" of_batch -p score=given --block-scores bs1.npy --out x.npy
python3 -c 'import numpy as np; np.save("features.npy", np.random.default_rng(8).normal(size=(64 * 24, 4)).astype("f4"))'
together=(routed -p block=8 -p k=3 -p share=all --block-weights)
fact blocks_weigh_what_they_do silent attend "${together[@]}" plain_w.npy --out plain_o.npy
fact beside_features_of_edges silent attend "${together[@]}" features_w.npy --out features_o.npy --edge-value features.npy --edge-out sums.npy
fact which_change_no_weight same_bytes plain_w.npy features_w.npy
fact which_attends_as_the_head_did python3 attended.py "$hga"
fact words_of_heads silent "$hga" inspect "${routed[@]}" "${by[@]}" --head 5 --row 40 --json
"$hga" inspect "${routed[@]}" "${by[@]}" --head 5 --row 40 --json >row.json
fact only_that_head_is_weighed python3 -c 'import json; rows = json.load(open("row.json"))["row"]["edges"]; assert all(len(e["weights"]) == 1 for e in rows) and abs(sum(e["weight"] for e in rows) - 1) < 1e-6'

# ---- what is said of it ----

fact each_choice_is_causal exits 0 "$hga" check "${routed[@]}" "${by[@]}"
"$hga" check "${routed[@]}" "${by[@]}" >checked
fact and_all_were_looked_at shows checked "causality  pass  no output depends on a later token (promised by its builder)"
for more in query-block=4 prefill=4; do
    fact "${more%=*}_looks_ahead" exits 1 "$hga" check "${routed[@]}" -p $more "${by[@]}"
    "$hga" check "${routed[@]}" -p $more "${by[@]}" >checked
    fact "${more%=*}_is_told_so" shows checked "causality  fail  a choice reads queries up to 3 tokens ahead"
done
fact nobody_promised_what_is_not_causal exits 0 "$hga" check routed -p block=8 -p k=3 "${by[@]}"
fact gradients_are_right exits 0 "$hga" check --gradient "${routed[@]}" "${by[@]}" --value v.npy
fact of_random_tensors_too exits 0 "$hga" check --gradient routed -p block=4 -p k=2 -p causal=1 -p share=group
"$hga" flops "${routed[@]}" -n 64 --json >flops.json
fact blocks_are_counted python3 -c 'import json; r = json.load(open("flops.json"))["rows"][0]; assert r["edges_formula"] == sum(t % 8 + 1 + 8 * min(2, t // 8) for t in range(64)) and r["edges_counted"] is None'
fact and_are_as_many exits 0 "$hga" flops "${routed[@]}" "${by[@]}"
fact a_threshold_is_not_known_before refused 2 "how many blocks are chosen depends on queries and keys" "$hga" flops routed -n 64 -p threshold=0.9

# ---- what cannot be ----

fact k_or_a_threshold refused 2 "k and threshold are both given" attend "${routed[@]}" -p threshold=0.5 --out x.npy
fact a_threshold_is_a_share refused 2 "threshold is 1.5; it must be above 0 and at most 1" attend routed -p threshold=1.5 --out x.npy
fact a_threshold_of_nothing_is_none refused 2 "threshold is 0; it must be above 0 and at most 1" attend routed -p threshold=0 --out x.npy
fact bounds_are_of_one_query refused 2 "minmax bounds the products of one query" attend routed -p score=minmax -p query-block=2 --out x.npy
fact samples_are_of_query_blocks refused 2 "score sample is of query blocks; query_block or prefill must be above 1" attend routed -p score=sample --out x.npy
fact and_are_some_of_them refused 2 "sample is 5; it must be at most query_block or prefill, 4" attend routed -p score=sample -p sample=5 -p prefill=4 --out x.npy
fact and_look_for_no_coarse_blocks refused 2 "query_block or prefill is 4" attend routed -p block=8 -p score=sample -p prefill=4 -p causal=1 -p coarse=16 --out x.npy
fact coarse_blocks_are_whole_ones refused 2 "coarse is 12; it must be a multiple of block, 8" attend "${routed[@]}" -p coarse=12 --out x.npy
fact coarse_is_causal refused 2 "coarse is for causal tokens" attend routed -p block=8 -p coarse=16 --out x.npy
fact given_scores_are_given refused 2 "score=given needs --block-scores FILE" attend routed -p score=given --out x.npy
fact and_belong_to_it refused 2 "--block-scores: is for -p score=given" attend "${routed[@]}" --block-scores w.npy --out x.npy
fact whatever_the_choice refused 2 "--block-scores: is for -p score=given" attend "${routed[@]}" -p choice=@c.npy --block-scores w.npy --out x.npy
fact scores_have_a_shape refused 3 "w.npy: has scores of 3 blocks, there are 8" attend routed -p block=8 -p score=given --block-scores w.npy --out x.npy
fact so_have_choices refused 3 "--block-scores is [choosers = 8][query blocks = 16][blocks]" attend routed -p block=8 -p query-block=4 -p score=given --block-scores w.npy --out x.npy
fact later_blocks_are_not_chosen refused 3 "which comes later" attend routed -p block=4 -p causal=1 -p query-block=8 -p k=3 -p choice=@late.npy --out x.npy
fact no_number_is_named refused 3 "element (0, 0, 0) is NaN" "$hga" attend "${routed[@]}" --query q.npy --key nan.npy --value v.npy --out x.npy
for command in "attend --value huge.npy --out x.npy --quiet" "build --head 0 -o x.json" inspect; do
    read -ra words <<<"$command"
    fact "${words[0]}_has_no_score_beyond_numbers" refused 3 "is not a number or +inf" "$hga" "${words[0]}" "${routed[@]}" --query huge.npy --key huge.npy "${words[@]:1}"
done
fact a_machine_is_usage refused 2 "isa" attend "${routed[@]}" --isa none --out x.npy
fact tokens_are_the_same refused 3 "has 63 rows" "$hga" attend "${routed[@]}" --query q.npy --key short.npy --value short.npy --out x.npy
fact files_are_apart refused 2 "--choice: 'x.npy' is --out's file as well" attend "${routed[@]}" --out x.npy --choice x.npy
fact others_choose_nothing refused 2 "--choice: dense chooses no blocks" attend dense --out x.npy --choice x2.npy
fact edges_differ_by_head refused 2 "--edge-bias: each of 8 choosers has edges of its own" attend "${routed[@]}" --edge-bias w.npy --out x.npy
facts_end
