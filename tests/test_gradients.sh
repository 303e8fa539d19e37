#!/bin/bash
# hga attend --grad-*: test_gradients.sh HGA NPY JSON; needs python3 with numpy.
set -u
hga=$1 golden=$(cd "$(dirname "$0")/golden/gradients" && pwd)
. "$(dirname "$0")/facts.sh"

# ---- the cases of automatic differentiation ----

cat >near.py <<'END'
import sys
import numpy as np
got, want = np.load(sys.argv[1]), np.load(sys.argv[2])
assert got.shape == want.shape, (got.shape, want.shape)
worst = np.abs(got - want).max()
assert worst <= float(sys.argv[3]), worst
END
near() { python3 near.py "$1" "$2" "${3:-1e-4}"; }
back() { # back CASE WORDS..: gradients of query, key and value of a case
    local c=$golden/$1
    shift
    "$hga" attend "$@" --query $c/q.npy --key $c/k.npy --value $c/v.npy --out out.npy --grad-out $c/g.npy --grad-query dq.npy \
        --grad-key dk.npy --grad-value dv.npy --quiet
}
gives() { # gives CASE FILE ARRAY ..: files are the case's arrays
    local c=$golden/$1
    shift
    near out.npy $c/out_f64.npy && near dq.npy $c/dq_f64.npy && near dk.npy $c/dk_f64.npy && near dv.npy $c/dv_f64.npy || return 1
    while [ $# -gt 1 ]; do near $1 $c/$2.npy && shift 2 || return 1; done
}
bpt=bpt_causal_n31_k4
fact bpt_goes_back back $bpt bpt -p k=4 -p causal=1 -p clip=10 --rel-key $golden/$bpt/rel_k.npy --grad-rel-key dr.npy
fact bpt_goes_back_as_autograd_does gives $bpt dr.npy drel_k_f64
h1d=h1d_dec_n24_c6
fact htransformer_goes_back back $h1d htransformer -p block=6 -p causal=1 -p relative=1 --rel-bias $golden/$h1d/rpb_bias.npy --grad-rel-bias db.npy
fact htransformer_goes_back_as_autograd_does gives $h1d db.npy dbias_f64
hsa=hsa_bidir_ragged_s5
fact hsa_goes_back back $hsa hsa -p parent=@$golden/$hsa/parent.npy --node-pos $golden/$hsa/pos_emb.npy --grad-node-pos dp.npy
fact hsa_goes_back_as_autograd_does gives $hsa dp.npy dpos_f64
hsa=hsa_causal_self_ragged_s3
fact causal_hsa_goes_back back $hsa hsa -p parent=@$golden/$hsa/parent.npy -p causal=1 -p mode=self -p self=1 --node-pos $golden/$hsa/pos_emb.npy --grad-node-pos dp.npy
fact causal_hsa_goes_back_as_autograd_does gives $hsa dp.npy dpos_f64

# ---- layouts, batches, heads: dense attention by hand in double ----

cat >make.py <<'END'
import numpy as np
rng = np.random.default_rng(4)
def attention(q, k, v, g, gl, bias, scale, dead):
    s = scale * np.einsum("bnhd,bmhd->bhnm", q, k) + bias
    l = np.log(np.exp(s).sum(-1))
    p = np.exp(s - l[..., None])
    out = np.einsum("bhnm,bmhd->bnhd", p, v)
    delta = np.einsum("bnhd,bnhd->bhn", g, out) - gl.transpose(0, 2, 1)
    ds = p * (np.einsum("bnhd,bmhd->bhnm", g, v) - delta[..., None])
    return dict(out=out, dq=scale * np.einsum("bhnm,bmhd->bnhd", ds, k), dk=scale * np.einsum("bhnm,bnhd->bmhd", ds, q),
                dv=np.einsum("bhnm,bnhd->bmhd", p, g), dscale=np.array([(ds * (s - bias)).sum() / scale]), dmass=ds.sum((0, 1, 2)), debias=ds.sum((0, 1)).ravel())
q, k, v, g, gl = (rng.normal(size=s).astype("f4") for s in [(2, 9, 4, 8), (2, 9, 2, 8), (2, 9, 2, 5), (2, 9, 4, 5), (2, 9, 4)])
eb = rng.normal(size=81).astype("f4")
wide = lambda x: np.repeat(x, 2, axis=2)
w = attention(*(x.astype("f8") for x in (q, wide(k), wide(v), g, gl)), eb.astype("f8").reshape(9, 9), 0.3, None)
for key in "dk", "dv":
    w[key] = w[key].reshape(2, 9, 2, 2, -1).sum(3)
np.save("eb.npy", eb), np.save("w.dscale.npy", w["dscale"]), np.save("w.dmass.npy", w["dmass"]), np.save("w.debias.npy", w["debias"])
hnd = lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, *range(3, x.ndim)))
for name, x in dict(q=q, k=k, v=v, g=g, gl=gl, wdq=w["dq"], wdk=w["dk"], wdv=w["dv"], wout=w["out"]).items():
    np.save(f"{name}.bnhd.npy", x), np.save(f"{name}.bhnd.npy", hnd(x))
# trees that differ by head
rng = np.random.default_rng(5)
np.save("leaf.npy", rng.integers(0, 3, (9, 4)).astype("i4"))
leaf = np.load("leaf.npy")
mask = np.where(leaf[:, None, :] == leaf[None, :, :], 0.0, -np.inf).transpose(2, 0, 1)
w = attention(*(x.astype("f8") for x in (q, wide(k), wide(v), g, gl)), mask, 8 ** -0.5, None) if (mask == 0).any(-1).all() else None
for key in "dk", "dv":
    w[key] = w[key].reshape(2, 9, 2, 2, -1).sum(3)
for key in "dq", "dk", "dv":
    np.save(f"tree.{key}.npy", w[key])
END
python3 make.py || exit 1
whole() { # whole LAYOUT WORDS..
    local l=$1
    shift
    "$hga" attend "$@" --layout $l --quiet --query q.$l.npy --key k.$l.npy --value v.$l.npy --out out.npy --grad-out g.$l.npy --grad-lse gl.$l.npy \
        --grad-query dq.npy --grad-key dk.npy --grad-value dv.npy
}
more="--edge-bias eb.npy --grad-edge-bias debias.npy --scale 0.3 --grad-scale dscale.npy --grad-log-mass dmass.npy"
for l in bnhd bhnd; do
    fact a_batch_in_${l}_goes_back whole $l dense $more
    for x in dq dk dv out; do fact ${x}_in_${l}_is_its_definition near $x.npy w$x.$l.npy 2e-5; done
    for x in dscale dmass debias; do fact ${x}_of_a_batch_in_${l}_is_the_sum near $x.npy w.$x.npy 5e-5; done
done
fact trees_by_head_go_back whole bnhd treeformer-fine -p query-leaf=@leaf.npy
for x in dq dk dv; do fact ${x}_of_trees_by_head_is_its_definition near $x.npy tree.$x.npy 2e-5; done
whole bnhd dense $more
cp dq.npy one.npy
fact threads_go_back whole bnhd dense $more --threads 3
fact at_the_same_bits same_bytes dq.npy one.npy
python3 -c '
import numpy as np
for f in "q", "k", "v", "g": np.save(f"{f}.ragged.npy", np.load(f"{f}.bnhd.npy")[:, :6].reshape(12, *np.load(f"{f}.bnhd.npy").shape[2:])), [np.save(f"{f}.{i}.npy", np.load(f"{f}.ragged.npy")[a:b]) for i, (a, b) in enumerate([(0, 5), (5, 12)])]
np.save("lengths.npy", np.array([5, 7], "i4"))'
sample() { "$hga" attend htransformer -p block=2 "${@:3}" --quiet --query q.$1.npy --key k.$1.npy --value v.$1.npy --out $2.o.npy --grad-out g.$1.npy --grad-query $2.dq.npy --grad-key $2.dk.npy; }
fact a_ragged_batch_goes_back sample ragged r -p tokens=@lengths.npy
sample 0 s0 && sample 1 s1
python3 -c 'import numpy as np; [np.save(f"s.{x}.npy", np.concatenate([np.load(f"s{i}.{x}.npy") for i in (0, 1)])) for x in ("dq", "dk")]'
fact its_samples_go_back_alone near r.dq.npy s.dq.npy 1e-5
fact their_keys_too near r.dk.npy s.dk.npy 1e-5

# ---- clusters over a file of edges ----

# The file has 17 nodes, the graph 17 + 5 + 2: each has its row in files of nodes, as the graph that is written has them.
python3 -c '
import numpy as np
r = np.random.default_rng(3)
np.save("g17.npy", np.unique(np.concatenate([r.integers(0, 17, (68, 2)), np.stack([np.arange(17)] * 2, 1)]), axis=0).astype("i4"))
np.save("x17.npy", r.normal(size=(17, 1, 8)).astype("f4"))
np.save("p24.npy", r.normal(size=(24, 3)).astype("f4"))'
clusters() { # clusters NAME WORDS..
    "$hga" attend "${@:2}" --query x17.npy --key x17.npy --value x17.npy --quiet --out $1.o.npy --node-map $1.map.npy --node-pos p24.npy \
        --grad-out x17.npy --grad-node-pos $1.dp.npy --grad-log-mass $1.dm.npy
}
if "$hga" export g17.npy --tree metis:4,4 -o g17.json 2>no_metis; then
    fact clusters_over_a_file_go_back clusters a graph=g17.npy -p tree=metis:4,4
    fact the_graph_that_is_written_does clusters b graph=g17.json
    for x in o map dp dm; do fact "${x}_of_clusters_is_the_written_graphs" same_bytes a.$x.npy b.$x.npy; done
    fact each_of_24_nodes_is_itself python3 -c 'import numpy as np; assert np.array_equal(np.load("a.map.npy"), np.arange(24))'
    fact clusters_in_an_order_go_back clusters c graph=g17.npy -p tree=metis:4,4 -p order=rcm
    for x in o dp dm; do fact "${x}_of_clusters_in_an_order_comes_back" near c.$x.npy b.$x.npy 1e-5; done
else
    fact without_metis_there_are_no_clusters holds no_metis METIS
fi

# ---- dropout ----

drop() { "$hga" attend dense --quiet --query q.bnhd.npy --key k.bnhd.npy --value v.bnhd.npy --out $1 "${@:2}"; }
differ() { ! cmp -s "$1" "$2"; }
fact dropout_runs drop d1.npy --dropout 0.5 --seed 7
fact again drop d2.npy --dropout 0.5 --seed 7 --threads 2
fact a_seed_drops_the_same same_bytes d1.npy d2.npy
fact another_layer_runs drop d3.npy --dropout 0.5 --seed 7 --layer 1
fact another_layer_drops_others differ d1.npy d3.npy
drop d0.npy && drop d4.npy --dropout 0 --seed 9
fact nothing_is_dropped_with_probability_0 same_bytes d0.npy d4.npy
fact dropout_goes_back drop d5.npy --dropout 0.5 --seed 7 --grad-out g.bnhd.npy --grad-value dv5.npy
fact through_the_same_mask same_bytes d1.npy d5.npy
# The output is linear in the value: value . d value is out . d out.
fact and_the_gradient_is_the_masks python3 -c '
import numpy as np
o, g, v, d = (np.load(f).astype("f8") for f in ("d5.npy", "g.bnhd.npy", "v.bnhd.npy", "dv5.npy"))
assert abs((o * g).sum() - (v * d).sum()) < 1e-4 * np.abs(o * g).sum()'

# ---- against differences ----

for words in dense "window -p left=3 -p causal=1" "bpt -p k=2" "htransformer -p block=4" "hsa -p branching=2,3" "treeformer-coarse -p query-leaf=0,1,1,3,0,1,2,3,3,3,2,1 -p height=2"; do
    fact gradients_of_${words%% *}_are_slopes "$hga" check --gradient $words --tokens 12
done
fact a_grid_tells_how_many_tokens_there_are exits 0 "$hga" check --gradient neighbourhood -p shape=3,4 -p kernel=3
python3 -c 'import numpy as np; r = np.random.default_rng(1); [np.save(f, r.normal(size=n).astype("f4")) for f, n in (("planes.npy", (3, 3, 5)), ("offsets.npy", (3, 3)))]'
fact random_tensors_find_their_leaves sh -c '"$@" | grep "^query *360 "' sh "$hga" check --gradient treeformer-fine -p height=2 -p weights=@planes.npy -p bias=@offsets.npy
python3 -c 'import numpy as np; [np.save(f"{f}.one.npy", np.load(f"{f}.bnhd.npy")[0]) for f in "qkvg"]'
fact gradients_of_given_tensors_are_slopes "$hga" check --gradient dense --query q.one.npy --key k.one.npy --value v.one.npy --seed 3
"$hga" check --gradient bpt -p k=2 -n 8 >table
for input in query key value rel-key rel-bias node-pos scale log-mass; do fact ${input}_is_compared holds table "^$input "; done
cat >relations.json <<'END'
{"format": "hga-graph", "schema": 1, "levels": [5], "program": "attend", "relations": [
 {"name": "a", "edges": [[0, 1, 0], [1, 2, 1], [2, 3, 0], [3, 4, 1], [4, 0, 0]]}, {"name": "b", "edges": [[0, 0, 0], [1, 1, 2], [2, 2, 1], [3, 3, 2]]}]}
END
fact tables_have_the_types_of_all_relations "$hga" check --gradient graph=relations.json
fact the_difference_is_no_copy python3 -c '
import json, subprocess, sys
rows = json.loads(subprocess.run([sys.argv[1], "check", "--gradient", "dense", "-n", "8", "--json"], capture_output=True).stdout)["inputs"]
assert all(0 < r["error"] < 1e-5 for r in rows), rows' "$hga"
python3 -c 'import numpy as np; np.save("k.small.npy", np.load("k.one.npy") * np.float32(1e-4))'
fact small_gradients_are_held_to_themselves python3 -c '
import json, subprocess, sys
words = "check --gradient dense --json --query q.one.npy --key k.small.npy --value v.one.npy".split()
found = subprocess.run([sys.argv[1], *words], capture_output=True)
rows = {r["input"]: r for r in json.loads(found.stdout)["inputs"]}
size = {n: abs(r["gradient"] - r["difference"]) / r["error"] for n, r in rows.items() if n in ("query", "value")}
assert found.returncode == 0 and size["query"] < 1e-3 * size["value"], size' "$hga"
fact a_seed_is_for_gradients refused 2 "are for --gradient" "$hga" check dense -n 8 --seed 3
fact a_cap_is_for_gradients refused 2 "--softcap is for --gradient" "$hga" check dense -n 8 --softcap 3
fact tensors_go_together refused 2 "go together" "$hga" check --gradient dense --query q.one.npy
fact a_gradient_is_a_variants refused 2 "--gradient: needs a VARIANT" "$hga" check --gradient some.json

# ---- sigmoids in softmax's place, and scores of scale 0 ----

cat >sigmoid.py <<'EOF'
import numpy as np, sys
q, k, v, g = (np.load("s" + name + ".npy").astype(float) for name in "qkvg")
scores = np.einsum("ihd,jhd->hij", q, k) / 2 - 1.5
k_ = k
if sys.argv[1] == "zero":
    weights = np.full((2, 20, 20), 1 / 20)
    slopes = np.einsum("ihd,jhd->hij", g, v)
    slopes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True))
    assert not np.load("dq.npy").any()
    assert abs(np.load("ds.npy")[0] - (slopes * np.einsum("ihd,jhd->hij", q, k)).sum()) < 1e-4
elif sys.argv[1] == "entmax":
    x = (scores + 1.5) / 2
    sorted_x = -np.sort(-x, -1)
    k = np.arange(1, 21)
    mean, square = sorted_x.cumsum(-1) / k, (sorted_x**2).cumsum(-1) / k
    tau = mean - np.sqrt(np.maximum((1 - k * (square - mean**2)) / k, 0))
    support = (tau <= sorted_x).sum(-1, keepdims=True)
    weights = np.maximum(x - np.take_along_axis(tau, support - 1, -1), 0) ** 2
    assert abs(weights.sum(-1) - 1).max() < 1e-9 and (weights == 0).any()
    u, slopes = np.sqrt(weights), np.einsum("ihd,jhd->hij", g, v)
    slopes = u * (slopes - (u * slopes).sum(-1, keepdims=True) / u.sum(-1, keepdims=True))
    assert abs(np.load("dq.npy") - np.einsum("hij,jhd->ihd", slopes, k_) / 2).max() < 1e-5
else:
    weights = 1 / (1 + np.exp(-scores))
    slopes = np.einsum("ihd,jhd->hij", g, v) * weights * (1 - weights)
    assert abs(np.load("dq.npy") - np.einsum("hij,jhd->ihd", slopes, k) / 2).max() < 1e-5
assert abs(np.load("so.npy") - np.einsum("hij,jhd->ihd", weights, v)).max() < 1e-5
assert abs(np.load("dv.npy") - np.einsum("hij,ihd->jhd", weights, g)).max() < 1e-5
EOF
python3 -c 'import numpy as np; r = np.random.default_rng(1); [np.save("s" + x + ".npy", r.standard_normal((20, 2, 4)).astype("f4")) for x in "qkvg"]'
there=(--quiet --query sq.npy --key sk.npy --value sv.npy --out so.npy --grad-out sg.npy --grad-query dq.npy --grad-value dv.npy)
fact sigmoids_go_there_and_back "$hga" attend dense "${there[@]}" --normaliser sigmoid:-1.5
fact as_numpy_has_them python3 sigmoid.py sigmoid
fact entmax_goes_there_and_back "$hga" attend dense "${there[@]}" --normaliser entmax:1.5
fact as_numpy_has_it python3 sigmoid.py entmax
fact and_programs_that_merge_states_have_none refused 2 "merges softmax states, and those of entmax cannot be merged" "$hga" attend htransformer -p block=4 "${there[@]}" --normaliser entmax:2
fact unless_it_is_softmax "$hga" attend hsa -p branching=4,5 "${there[@]}" --normaliser entmax:1
fact energies_have_entmax_too "$hga" attend hsa -p branching=4,5 "${there[@]}" --normaliser entmax:1.5
fact whose_weights_are_checked_by_differences "$hga" check --gradient hsa -p branching=2,3 --tokens 20 --normaliser entmax:1.5
fact but_not_of_left_siblings refused 2 "entmax of energies is not defined on causal graphs" "$hga" attend hsa -p branching=4,5 -p causal=1 -p mode=self "${there[@]}" --normaliser entmax:1.5
fact nor_with_dropout refused 2 "dropout: entmax of energies has none" "$hga" attend hsa -p branching=4,5 "${there[@]}" --dropout 0.1 --normaliser entmax:1.5
fact its_weights_are_checked_by_differences "$hga" check --gradient window -p left=3 -p right=3 --tokens 20 --normaliser entmax:1.5
fact a_scale_of_0_goes_too "$hga" attend dense "${there[@]}" --scale 0 --grad-scale ds.npy
fact and_has_the_slope_of_scores_without_products python3 sigmoid.py zero
fact energies_have_no_sigmoids refused 2 "the energies of hsa" "$hga" attend hsa -p branching=2,2 "${there[@]}" --normaliser sigmoid

# ---- explained ----

"$hga" explain dense -n 64 --gradient --heads 2 >explained
fact the_fast_way_is_told holds explained "^gradient: in float, a head at a time"
"$hga" explain hsa -p branching=4 -n 64 --gradient --heads 2 >of_trees
fact families_are_told holds of_trees "^gradient: in float, a family of siblings at a time"
fact and_the_tape holds explained "^tape: 0.6 kB"
"$hga" explain hsa -n 64 -p branching=4,4 --gradient >explained
fact energies_go_the_fast_way_too holds explained "^gradient: in float"
"$hga" explain hsa -n 64 -p branching=4,4 --gradient --json >explained
fact in_json_too holds explained '"plain": null'

# ---- refused ----

dense() { "$hga" attend dense --quiet --query q.bnhd.npy --key k.bnhd.npy --value v.bnhd.npy --out new.npy "$@"; }
fact a_gradient_needs_one refused 2 "--grad-query needs --grad-out" dense --grad-query x.npy
fact a_gradient_of_lse_too refused 2 "--grad-lse needs --grad-out" dense --grad-lse gl.bnhd.npy
fact a_given_gradient_is_for_one refused 2 "no gradient is to be written" dense --grad-out g.bnhd.npy
fact of_a_table_that_is_there refused 2 "--grad-rel-key needs --rel-key" dense --grad-out g.bnhd.npy --grad-rel-key x.npy
fact files_are_of_their_own refused 2 "--grad-key: 'x.npy' is --grad-query's" dense --grad-out g.bnhd.npy --grad-query x.npy --grad-key x.npy
fact and_not_the_outputs refused 2 "is --out's file" dense --grad-out g.bnhd.npy --grad-query new.npy
fact the_shape_is_the_outputs refused 3 "q.bnhd.npy: has 2 samples of 4 heads of 8" dense --grad-out q.bnhd.npy --grad-query x.npy
fact the_lses_shape_is_its_own refused 3 "which is not the log-sum-exp's" dense --grad-out g.bnhd.npy --grad-lse g.bnhd.npy --grad-query x.npy
fact a_missing_file_is_named refused 3 "gone.npy" dense --grad-out gone.npy --grad-query x.npy
fact a_folder_must_be_there refused 4 "no/x.npy" dense --grad-out g.bnhd.npy --grad-query no/x.npy
fact alpha_is_of_some refused 2 "--grad-alpha" dense --grad-out g.bnhd.npy --grad-alpha x.npy
fact an_unknown_normaliser refused 2 "--normaliser: 'softmin' is not one of" dense --normaliser softmin
fact softmax_has_no_number refused 2 "--normaliser: 'softmax:1' is not one of" dense --normaliser softmax:1
fact entmax_has_one refused 2 "--normaliser: 'entmax' is not one of" dense --normaliser entmax
fact of_some_size refused 2 "entmax's alpha 1.01 is not 1 and not from 1.05 to 2" dense --normaliser entmax:1.01
fact entmax_has_no_lse refused 2 "has no softmax denominator" dense --normaliser entmax:2 --lse lse.npy
fact a_sigmoid_has_no_lse refused 2 "has no softmax denominator" dense --normaliser sigmoid --lse lse.npy
python3 -c 'import numpy as np
np.save("none.npy", np.full(4, -np.inf, np.float32)), np.save("all.npy", np.full(4, np.inf, np.float32))'
fact a_sink_may_be_nothing dense --sink none.npy
mv new.npy sunk.npy
fact as_without_one_for_comparison dense
fact and_is_as_without_one cmp new.npy sunk.npy
rm -f new.npy
fact but_not_everything refused 3 "all.npy: element (0,) is infinite" dense --sink all.npy
fact dropout_is_a_probability refused 2 "--dropout: 1 is not in [0, 1)" dense --dropout 1
fact hsa_has_no_lse refused 2 "has no softmax denominator" "$hga" attend hsa -p branching=2,2 --quiet --query q.bnhd.npy --key k.bnhd.npy --value v.bnhd.npy --out new.npy --grad-out g.bnhd.npy --grad-lse gl.bnhd.npy --grad-query x.npy
facts_end
