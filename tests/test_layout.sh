#!/bin/bash
# Tensors in other orders of axes: test_layout.sh HGA; needs python3 with numpy.
set -u
hga=$1
. "$(dirname "$0")/facts.sh"

# Two samples of 24 tokens (bpt: 47 nodes), 4 query heads, 2 key heads; every order of axes of each, and each sample alone.
cat >make.py <<'END'
import numpy as np
rng = np.random.default_rng(3)
for name, rows, heads in ("q", 24, 4), ("k", 24, 2), ("v", 24, 2), ("bq", 47, 4), ("bk", 47, 2), ("bv", 47, 2):
    x = rng.normal(size=(2, rows, heads, 8)).astype("f4")
    np.save(f"{name}.bnhd.npy", x)
    np.save(f"{name}.bhnd.npy", np.ascontiguousarray(x.transpose(0, 2, 1, 3)))
    np.save(f"{name}.fortran.npy", np.asfortranarray(x))
    for b in 0, 1:
        np.save(f"{name}.nhd{b}.npy", x[b])
        np.save(f"{name}.hnd{b}.npy", np.ascontiguousarray(x[b].transpose(1, 0, 2)))
END
cat >compare.py <<'END'
import sys
import numpy as np
a, b = (np.load(f) for f in sys.argv[1:3])
b = eval(sys.argv[3], {"b": b, "np": np, "other": np.load(sys.argv[4]) if len(sys.argv) > 4 else None})
assert a.shape == b.shape, (a.shape, b.shape)
worst = np.abs(a - b).max()
assert worst <= 5e-6, worst
END
python3 make.py || exit 1
run() { # run PREFIX KIND OUT VARIANT..: KIND is a file's layout and sample, such as hnd0
    local prefix=$1 kind=$2 out=$3
    shift 3
    "$hga" attend "$@" --query ${prefix}q.$kind.npy --key ${prefix}k.$kind.npy --value ${prefix}v.$kind.npy --out $out.npy ${lse:+--lse $out.lse.npy}
}
variants="dense
window_-p_left=3_-p_causal=1
htransformer_-p_block=4
hsa_-p_branching=2,4
treeformer-fine_-p_height=2_-p_weights=@w.npy_-p_bias=@b.npy"
python3 -c 'import numpy as np; r = np.random.default_rng(1); np.save("w.npy", r.normal(size=(3, 8)).astype("f4")); np.save("b.npy", np.zeros(3, "f4"))'
for words in $variants bpt_-p_k=2; do
    name=${words%%_*} words=${words//_/ } prefix= lse=1
    [ $name = bpt ] && prefix=b
    [ $name = hsa ] && lse=
    for b in 0 1; do fact ${name}_runs_alone run "$prefix" nhd$b alone$b $words; done
    fact ${name}_runs_on_torchs_order run "$prefix" hnd0 hnd $words --layout hnd
    fact ${name}_gives_the_same_in_torchs_order python3 compare.py hnd.npy alone0.npy 'b.transpose(1, 0, 2)'
    [ -n "$lse" ] && fact ${name}_gives_its_lse_in_torchs_order python3 compare.py hnd.lse.npy alone0.lse.npy 'b.T'
    fact ${name}_runs_on_a_batch run "$prefix" bnhd batch $words
    fact ${name}_gives_of_a_batch_what_its_samples_give python3 compare.py batch.npy alone0.npy 'np.stack([b, other])' alone1.npy
    fact ${name}_runs_on_torchs_batch run "$prefix" bhnd torch $words --layout bhnd
    fact ${name}_gives_the_same_batch python3 compare.py torch.npy batch.npy 'b.transpose(0, 2, 1, 3)'
done
lse=
run '' bhnd torch_dense dense --layout bhnd --quiet
fact four_axes_are_a_batch_in_either_word run '' bhnd word dense --layout hnd
fact the_words_agree same_bytes word.npy torch_dense.npy
fact fortran_order_is_read run '' fortran fortran dense
run '' bnhd plain dense 2>/dev/null
fact and_gives_the_same same_bytes fortran.npy plain.npy

# ---- what was understood ----

says() { # says LINE COMMAND..: that is all of stderr
    local line=$1
    shift
    "$@" 2>stderr >stdout
    equal "$(cat stderr)" "$line"
}
fact rows_heads_and_dim_are_said says "hga: 24 rows, 4 heads of 8, float32" run '' nhd0 o dense
fact the_batch_is_said says "hga: 24 rows, 4 heads of 8, float32; batch of 2" run '' bnhd o dense
fact a_doubt_is_said says "hga: 4 rows, 24 heads of 8, float32; if it is the other way round, --layout hnd" \
    "$hga" attend dense --query q.hnd0.npy --key q.hnd0.npy --value q.hnd0.npy --out o.npy
fact quiet_says_nothing says "" run '' nhd0 o dense --quiet
fact choose_takes_torchs_order says "hga: 24 rows, 4 heads of 8, float32" \
    "$hga" choose --query q.hnd0.npy --key k.hnd0.npy --value v.hnd0.npy --layout hnd --variants hsa --seconds 0
"$hga" build dense --tokens 24 -o dense.json
fact pictures_take_torchs_order says "hga: 24 rows, 4 heads of 8, float32" "$hga" export dense.json --query q.hnd0.npy --key k.hnd0.npy --layout hnd -o hnd.svg
"$hga" export dense.json --query q.nhd0.npy --key k.nhd0.npy -o nhd.svg --quiet
fact their_picture_is_the_same same_bytes hnd.svg nhd.svg

# ---- refused ----

fact bhnd_insists_on_a_batch refused 3 "[batch][heads][rows][dim]" "$hga" attend dense --layout bhnd --query q.nhd0.npy --key k.nhd0.npy --value v.nhd0.npy --out o2.npy
fact rows_must_fit_the_graph refused 3 "has 4 rows" "$hga" attend graph=dense.json --query q.hnd0.npy --key k.hnd0.npy --value v.hnd0.npy --out o2.npy
fact the_other_layout_is_named_where_it_fits refused 3 "needs 24, as it has heads; --layout hnd?" "$hga" attend graph=dense.json --query q.hnd0.npy --key k.hnd0.npy --value v.hnd0.npy --out o2.npy
fact samples_must_be_as_many refused 3 "k.nhd0.npy: has 1 samples, the query in q.bnhd.npy has 2" "$hga" attend dense --query q.bnhd.npy --key k.nhd0.npy --value v.bnhd.npy --out o2.npy
fact layouts_are_known refused 2 "--layout: 'dhn' is not one of" "$hga" attend dense --layout dhn --query q.nhd0.npy --key k.nhd0.npy --value v.nhd0.npy --out o2.npy
facts_end
