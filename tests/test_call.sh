#!/bin/bash
# What a call brings besides rows, as the tool takes it: test_call.sh HGA; needs python3 with numpy.
set -u
hga=$1
. "$(dirname "$0")/facts.sh"

cat >make.py <<'END'
import json
import subprocess
import sys

import numpy as np

r = np.random.default_rng(4)
shapes = dict(q=(12, 2, 4), k=(12, 2, 4), v=(12, 2, 4), g=(12, 2, 4), a=(2, 4), two=(2,), one=(1, 1), edges=(144, 2), types=(3, 4), pos=(12, 3))
for name, shape in shapes.items():
    np.save(name + ".npy", np.abs(r.normal(size=shape)).astype("f4"))
np.save("below.npy", np.array([1, -0.5], "f4"))
for name, changes in dict(gat=dict(scores="additive", negative_slope=0.25), capped=dict(softcap=0.75)).items():
    graph = json.loads(subprocess.run([sys.argv[1], "export", "dense", "-n", "12", "--format", "json", "-o", "-"], capture_output=True, check=True).stdout)
    graph["schema"] = 2
    graph["program"] |= changes
    json.dump(graph, open(name + ".json", "w"))
END
python3 make.py "$hga" || exit 1
attend() { "$hga" attend "$@" --query q.npy --key k.npy --value v.npy --quiet --out o.npy; }

# ---- additive scores ----

cat >additive.py <<'END'
import numpy as np

q, k, v, g, a = (np.load(name + ".npy").astype("f8") for name in ("q", "k", "v", "g", "a"))
z = q[:, None] + k[None]
leak = np.where(z > 0, z, 0.25 * z)
s = np.einsum("hd,ijhd->hij", a, leak)
w = np.exp(s - s.max(-1, keepdims=True))
w /= w.sum(-1, keepdims=True)
assert abs(np.load("o.npy") - np.einsum("hij,jhd->ihd", w, v)).max() < 1e-5
d = np.einsum("ihd,jhd->hij", g, v)
d = w * (d - (w * d).sum(-1, keepdims=True))
assert np.load("da.npy").shape == a.shape
assert abs(np.load("da.npy") - np.einsum("hij,ijhd->hd", d, leak)).max() < 1e-5
END
fact a_vector_of_additive_scores_is_a_file attend graph=gat.json --additive a.npy --grad-out g.npy --grad-additive da.npy
fact and_has_a_gradient_as_numpy_has_it python3 additive.py
fact products_have_none refused 2 "--additive: the scores of dense are products" attend dense --additive a.npy
fact it_has_a_row_for_each_head refused 3 "types.npy: has the shape (3, 4); for graph=gat.json --additive takes [heads = 2][dim = 4]" attend graph=gat.json --additive types.npy

# ---- numbers ----

like() { # like FILE WORDS..: the output is FILE's
    local file=$1
    shift
    attend "$@" && cmp o.npy "$file"
}
attend dense && cp o.npy plain.npy
attend dense --softcap 0.75 && cp o.npy capped.npy
fact a_cap_changes_something exits 1 cmp -s plain.npy capped.npy
fact a_program_may_have_it like capped.npy graph=capped.json
fact a_call_that_says_0_has_none like plain.npy graph=capped.json --softcap 0
fact a_call_that_says_another_has_that like capped.npy dense --softcap 0.75 --scale 0.5
attend dense --scale 0 && cp o.npy level.npy
fact a_scale_of_0_is_no_scale_that_is_left_out exits 1 cmp -s plain.npy level.npy
fact a_cap_below_0_is_refused refused 2 "--softcap: -1 is not from 1e-30 to 1e30, or 0 for none" attend dense --softcap -1
fact a_cap_that_float32_has_not_too refused 2 "--softcap: 1e-50 is not from" attend dense --softcap 1e-50

# ---- shapes and entries ----

fact an_entry_out_of_range_is_named refused 3 "below.npy: number 1 is -0.5, not finite and at least 0" attend dense --slopes below.npy
fact types_may_be_more refused 3 "[types = 1 or more] or [types = 1 or more][heads = 2]" attend dense --rel-bias types.npy
fact edges_may_not refused 3 "[edges = 144] or [edges = 144][heads = 2]" attend dense --edge-bias types.npy
fact keys_of_edges_have_the_keys_columns refused 3 "[edges = 144][key heads * dim = 8]" attend dense --edge-key edges.npy
fact nodes_neither refused 3 "[nodes = 12][columns]" attend dense --node-pos types.npy
fact a_file_by_head_is_flat refused 3 "one.npy: has the shape (1, 1); for dense --sink takes [heads = 2]" attend dense --sink one.npy

# ---- features of edges ----

python3 - <<'END' || exit 1
import numpy as np
rng = np.random.default_rng(5)
q, k, v = (np.load(x + ".npy").astype("f8") for x in "qkv")
n, heads, dim = q.shape
x, key = rng.standard_normal((n * n, 3)).astype("f4"), rng.standard_normal((n * n, heads * dim)).astype("f4")
np.save("features.npy", x), np.save("keys.npy", key), np.save("gx.npy", rng.standard_normal((n, heads, 3)).astype("f4"))
s = (q[:, None] * (k[None] + key.reshape(n, n, heads, dim))).sum(-1) / dim**0.5  # edges of dense are by query, then key
p = np.exp(s) / np.exp(s).sum(1, keepdims=True)
np.save("sums.npy", np.einsum("ijh,ijc->ihc", p, x.reshape(n, n, 3)).astype("f4"))
np.save("values.npy", np.einsum("ijh,jhc->ihc", p, v).astype("f4"))
np.save("dx.npy", np.einsum("ijh,ihc->ijc", p, np.load("gx.npy")).reshape(n * n, 3).astype("f4"))
END
sums_are() { attend dense --edge-key keys.npy --edge-value features.npy --edge-out x.npy "${@:2}" && near x.npy "$1"; }
near() { python3 -c 'import sys, numpy as np; a, b = map(np.load, sys.argv[1:]); assert a.shape == b.shape and abs(a - b).max() < 1e-4, abs(a - b).max()' "$@"; }
fact they_are_summed_with_the_weights_of_the_output sums_are sums.npy
fact which_has_the_keys_too near o.npy values.npy
fact two_threads_too sums_are sums.npy --threads 2
fact they_have_a_gradient sums_are sums.npy --grad-out g.npy --grad-edge-out gx.npy --grad-edge-value d.npy --grad-edge-key dk.npy
fact which_is_that_of_their_sums near d.npy dx.npy
fact sums_need_features refused 2 "--edge-out FILE needs --edge-value FILE" attend dense --edge-out x.npy
fact features_need_a_place_for_sums refused 2 "--edge-value FILE needs --edge-out FILE" attend dense --edge-value features.npy
fact their_gradient_needs_them refused 2 "--grad-edge-out needs --edge-out FILE" attend dense --grad-out g.npy --grad-query d.npy --grad-edge-out gx.npy
fact no_other_shape_of_a_gradient refused 3 "--edge-out has 1 of 12 of 2 of 3" attend dense --edge-value features.npy --edge-out x.npy --grad-out g.npy --grad-query d.npy --grad-edge-out q.npy

# ---- in the other commands ----

fact given_tables_are_checked_against_differences sh -c '"$@" >table' sh "$hga" check --gradient dense -n 12 --edge-bias edges.npy --sink two.npy --slopes two.npy --scale 0.3 --node-pos pos.npy
for input in edge-bias sink slopes scale node-pos; do fact "$input is_among_them" holds table "^$input "; done
fact of_36_positions holds table '^node-pos +36 '
fact additive_ones_too sh -c '"$@" >table' sh "$hga" check --gradient graph=gat.json --additive a.npy --seed 2
fact and_are_named holds table '^additive +8 '
fact a_scale_is_for_a_whole_contest sh -c '"$@" >contest' sh "$hga" run --tokens 40 --heads 2 --dim 4 --seconds .01 --repetitions 1 --no-report --variants window --scale 0.25 --slopes two.npy
fact which_says_so holds contest '; scale 0.25, slopes two.npy; '
fact a_benchmark_takes_it exits 0 sh -c '"$@" >bench' sh "$hga" bench --variants dense --tokens 40 --heads 2 --dim 4 --repetitions 1 --warmup 0 --scale 0.25 --sink two.npy
fact but_its_files_must_fit refused 3 "types.npy: has the shape (3, 4); for dense --sink takes [heads = 2]" "$hga" bench --variants dense --tokens 40 --heads 2 --dim 4 --repetitions 1 --warmup 0 --sink types.npy
fact a_plan_has_what_a_program_has refused 2 "--slopes: neighbourhood shape=3,4 tokens=12: token 0 has no position" "$hga" explain neighbourhood -p shape=3,4 -n 12 --slopes two.npy
fact what_was_typed_is_named refused 2 "--node-pos: without --query and --key there are no scores" "$hga" inspect dense -n 12 --row 1 --node-pos pos.npy
fact ranks_count_edges refused 2 "explain: --sink changes nothing that --ranks counts" "$hga" explain dense -n 12 --ranks 2 --sink two.npy
fact weights_are_of_additive_scores sh -c '"$@" >row' sh "$hga" inspect gat.json --row 3 --query q.npy --key k.npy --additive a.npy

fact the_way_back_is_that_of_the_call sh -c '"$@" >explained' sh "$hga" explain hsa -p branching=2,4 -n 64 --heads 2 --dim 4 --slopes two.npy --gradient
fact which_slopes_change holds explained 'not a family of siblings at a time, all heads together: softcaps or slopes'
fact and_is_none_of_families holds explained '^gradient: in float, a head at a time$'
fact the_largest_cap_is_taken exits 0 sh -c '"$@" >explained' sh "$hga" explain dense -n 12 --softcap 1e30
fact and_the_least exits 0 sh -c '"$@" >explained' sh "$hga" explain dense -n 12 --softcap 1e-30
mkfifo pipe
fact a_pipe_is_read_once_in_a_contest exits 0 timeout 60 sh -c 'cat two.npy >pipe & "$@" >contest' sh "$hga" run --tokens 40 --heads 2 --dim 4 --seconds .01 --repetitions 1 --no-report --variants window --sink pipe
fact and_in_benchmarks exits 0 timeout 60 sh -c 'cat two.npy | "$@" >bench' sh "$hga" bench --variants dense,window --tokens 40 --heads 2 --dim 4 --repetitions 1 --warmup 0 --sink -
fact what_is_not_finite_is_named refused 1 "check: the gradient of query is not finite" "$hga" check --gradient dense -n 12 --scale 1e20

# ---- help ----

"$hga" help attend --all >help
for option in scale=X rel-key=FILE rel-bias=FILE edge-bias=FILE edge-key=FILE edge-value=FILE edge-out=FILE node-pos=FILE sink=FILE slopes=FILE additive=FILE softcap=X; do fact "${option%=*}_has_its_help" holds help "^ +--$option +[^ ]"; done
for option in scale rel-key rel-bias edge-bias edge-key edge-value node-pos sink slopes additive alpha log-mass; do fact "the_gradient_of_${option}_too" holds help "^ +--grad-$option=FILE +write the gradient of"; done
"$hga" help run --all >help_of_run
fact what_no_variant_takes_is_no_option_of_contests lacks help_of_run '^ +--additive'
fact what_has_no_gradient_has_none lacks help '--grad-softcap|--alpha=|--log-mass=|--normaliser-bias'

facts_end
