#!/bin/bash
# hga decode: rows come token by token as hga attend gives them all at once. test_decode_tool.sh HGA NPY JSON; needs python3 with numpy.
set -u
hga=$1 json=$3
. "$(dirname "$0")/facts.sh"

# ---- inputs: 77 tokens (bpt: 158 nodes), 4 query heads, 2 key heads ----

cat >make.py <<'END'
import numpy as np
rng = np.random.default_rng(6)
for name, rows in ("", 77), ("b", 158):
    for tensor, heads, dim in ("q", 4, 12), ("k", 2, 12), ("v", 2, 9):
        x = rng.normal(size=(3, rows, heads, dim)).astype("f4")
        np.save(f"{name}{tensor}.npy", x[0]), np.save(f"{name}{tensor}.bnhd.npy", x), np.save(f"{name}{tensor}.hnd.npy", x[0].transpose(1, 0, 2).copy())
        np.save(f"{name}{tensor}.bhnd.npy", x.transpose(0, 2, 1, 3).copy())
np.save("segment.npy", np.repeat(np.arange(7, dtype="i4"), 11))
np.save("leaf.npy", rng.integers(0, 4, 77).astype("i4"))
np.save("leaves.npy", rng.integers(0, 4, (77, 4)).astype("i4"))
np.save("sink.npy", np.array([0.5, 2, -1, 0], "f4")), np.save("slopes.npy", np.array([0.5, 0.25, 0, 0.125], "f4"))
np.save("rel_key.npy", rng.normal(size=(99, 12)).astype("f4")), np.save("rel_bias.npy", rng.normal(size=(99, 4)).astype("f4"))
END
python3 make.py || exit 1

names=() ; declare -A words
variant() { names+=("$1"); words[$1]=$2; }
variant dense "dense -p causal=1"
variant window "window -p left=9 -p global=2 -p causal=1"
variant bpt "bpt -p k=2 -p causal=1"
variant htransformer "htransformer -p block=4 -p causal=1"
variant siblings "htransformer -p block=7 -p structure=siblings -p causal=1"
variant hsa "hsa -p branching=3 -p causal=1"
variant fenwick "fenwick"
variant dilated "dilated -p segments=8,16 -p dilations=1,2 -p causal=1"
variant segments "segments -p query-segment=@segment.npy -p causal=1"
variant one_text "segments -p query-segment=@segment.npy -p key-segment=@segment.npy -p causal=1"
variant routed "routed -p block=8 -p k=3 -p causal=1"
variant routed_group "routed -p block=4 -p threshold=0.7 -p share=group -p causal=1"
variant routed_coarse "routed -p block=4 -p k=5 -p share=all -p coarse=12 -p coarse-k=2 -p causal=1"
variant fine "treeformer-fine -p query-leaf=@leaf.npy -p causal=1"
variant forest "treeformer-fine -p query-leaf=@leaves.npy -p causal=1"
variant graph "graph=hsa.json"
"$hga" build hsa --tokens 77 -p branching=3 -p causal=1 -o hsa.json || exit 1
[ -n "${HGA_TEST_QUICK:-}" ] && names=(window bpt htransformer hsa forest)

qkv() { local p=; case $1 in bpt) p=b ;; esac; echo "--query ${p}q.npy --key ${p}k.npy --value ${p}v.npy --quiet"; }
attends() { # attends NAME OUT OPTION..
    local name=$1 out=$2
    shift 2
    # shellcheck disable=SC2046,SC2086
    "$hga" attend ${words[$name]} $(qkv "$name") --out "$out" "$@"
}
decodes() { # decodes NAME OUT OPTION..
    local name=$1 out=$2
    shift 2
    # shellcheck disable=SC2046,SC2086
    "$hga" decode ${words[$name]} $(qkv "$name") --out "$out" --same "$@" >table
}
lse_of() { case $1 in hsa | graph) ;; *) echo "--lse $2" ;; esac; }

# ---- the same bits ----

# shellcheck disable=SC2046
for name in "${names[@]}"; do
    fact ${name}_at_once attends $name all.npy $(lse_of $name all.lse.npy)
    fact ${name}_by_token decodes $name out.npy $(lse_of $name lse.npy)
    fact ${name}_by_token_has_the_bits_of_attend same_bytes out.npy all.npy
    [ -n "$(lse_of $name x)" ] && fact ${name}_by_token_has_its_lse same_bytes lse.npy all.lse.npy
    fact ${name}_tells_the_time holds table '^ +7[78] +7[78] +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[1-9][0-9]* +[1-9][0-9]*$'
    for chunks in 5,1,30 77 100 random:3; do
        fact ${name}_in_chunks_of_${chunks//[:,]/_} decodes $name out.npy --chunks $chunks
        fact ${name}_in_chunks_of_${chunks//[:,]/_}_is_the_same same_bytes out.npy all.npy
    done
    fact ${name}_on_three_threads decodes $name out.npy --chunks 3 --threads 3
    fact ${name}_on_three_threads_is_the_same same_bytes out.npy all.npy
    fact ${name}_forked decodes $name out.npy --chunks 7 --fork-at 40
    fact ${name}_forked_is_the_same same_bytes out.npy all.npy
    fact ${name}_cut decodes $name out.npy --chunks 4 --cut 50:13
    fact ${name}_cut_is_the_same same_bytes out.npy all.npy
    fact ${name}_saved decodes $name out.npy --chunks 9 --save cache --save-at 31 --fork-at 31 --cut 31:2
    fact ${name}_saved_is_the_same same_bytes out.npy all.npy
    fact ${name}_resumed decodes $name out.npy --resume cache $(lse_of $name lse.npy)
    fact ${name}_resumed_goes_on_the_same python3 - $name <<'END'
import sys
import numpy as np
got, want = np.load("out.npy"), np.load("all.npy")
made = ~np.isnan(got).any((1, 2))
assert (got[made] == want[made]).all() and np.isnan(got[~made]).all()
if sys.argv[1] != "bpt":
    assert (made == (np.arange(77) >= 31)).all()
assert 0 < made.sum() < len(made)
END
    fact ${name}_in_bf16 decodes $name out.npy --precision bf16 --chunks 2
    fact ${name}_at_once_in_bf16 attends $name half.npy --precision bf16
    fact ${name}_in_bf16_is_the_same same_bytes out.npy half.npy
done

# ---- modifiers and tables ----

modified() { # modified NAME OPTION..
    local name=$1
    shift
    attends "$name" all.npy "$@" && decodes "$name" out.npy --chunks 3,1 "$@" && same_bytes out.npy all.npy
}
fact a_softcap modified window --softcap 0.5
fact a_sink modified htransformer --sink sink.npy
fact slopes modified fenwick --slopes slopes.npy
fact sigmoid modified window --normaliser sigmoid:-2
fact entmax modified dense --normaliser entmax:1.5
fact all_of_them modified bpt --softcap 2 --sink sink.npy --slopes slopes.npy --rel-key rel_key.npy --rel-bias rel_bias.npy --scale 0.3
fact a_scale_of_zero modified window --scale 0
fact chosen_blocks modified routed --softcap 2 --sink sink.npy --slopes slopes.npy --scale 0.3

# ---- layouts and batches ----

# One sample and three, in both orders of axes.
layout() { # layout SUFFIX LAYOUT WORDS..
    local s=$1 l=$2
    shift 2
    "$hga" attend "$@" --query q.$s.npy --key k.$s.npy --value v.$s.npy --out all.npy --layout $l --quiet &&
        "$hga" decode "$@" --query q.$s.npy --key k.$s.npy --value v.$s.npy --out out.npy --layout $l --quiet --same --chunks 5,1 >table && same_bytes out.npy all.npy
}
for name in window htransformer hsa; do
    # shellcheck disable=SC2086
    {
        fact ${name}_in_torchs_order layout hnd hnd ${words[$name]}
        fact ${name}_of_a_batch layout bnhd bnhd ${words[$name]}
        fact ${name}_of_torchs_batch layout bhnd bhnd ${words[$name]}
    }
done
fact half_precision_out bash -c '"$0" decode window -p causal=1 --query q.npy --key k.npy --value v.npy --out half.npy --out-type f16 --quiet >table' "$hga"
fact is_half_precision python3 -c 'import numpy as np; assert np.load("half.npy").dtype == np.float16'

# ---- what is told ----

fact without_same_within_two_millionths python3 - "$hga" <<'END'
import subprocess, sys
import numpy as np
words = ["htransformer", "-p", "block=4", "-p", "causal=1", "--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--quiet"]
subprocess.run([sys.argv[1], "attend", *words, "--out", "all.npy"], check=True)
subprocess.run([sys.argv[1], "decode", *words, "--out", "out.npy"], check=True, stdout=subprocess.DEVNULL)
assert np.abs(np.load("all.npy") - np.load("out.npy")).max() <= 2e-6
END
"$hga" decode window -p left=9 -p causal=1 $(qkv window) --out out.npy --json >told.json
fact json_is_json "$json" told.json
fact a_window_holds_its_keys_and_values python3 - <<'END'
import json
told = json.load(open("told.json"))
# ten tokens that the next one sees, but itself: 9 keys and 9 values, 16 rows a page, two or so of each
assert told["tokens"] == told["appends"] == 77 and told["rows"] == 18 and told["levels"] == [{"level": 0, "rows": 18}], told
assert told["cache_bytes"] == 2 * (2 * 12 + 2 * 9) * 16 * 4 + 4 * 64, told["cache_bytes"]
assert told["median_us"] <= told["worst_us"] and told["first_us"] == told["last_us"]
END
fact causal_is_taken_for_granted "$hga" decode routed -p block=8 -p k=3 $(qkv window) --out chosen.npy --same
fact and_is_the_same bash -c '"$0" attend routed -p block=8 -p k=3 -p causal=1 $1 --out whole.npy && cmp whole.npy chosen.npy' "$hga" "$(qkv window)"
fact a_prompt_by_query_blocks bash -c '"$0" decode routed -p block=8 -p k=3 -p prefill=16 $1 --chunks 77 --out chosen.npy && ! cmp whole.npy chosen.npy' "$hga" "$(qkv window)"
fact what_was_understood_is_told bash -c '"$0" decode window -p causal=1 --query q.npy --key k.npy --value v.npy --out out.npy 2>&1 >/dev/null | grep -q "77 rows"' "$hga"

# ---- what is refused ----

q=$(qkv window)
no() { # no STATUS TEXT WORDS..
    # shellcheck disable=SC2086
    fact "refused: $2" refused "$1" "$2" "$hga" decode "${@:3}" $q --out nothing.npy
}
no 2 'the output of token 0 depends on token 64' window
no 2 'the output of token 0 depends on token 76; with -p causal=1 none does' htransformer -p block=4
no 2 '; mode=self is for study, the default mode=frontier is causal' hsa -p branching=3 -p causal=1 -p mode=self
no 2 'needs a causal hierarchy' bpt --query bq.npy --key bk.npy --value bv.npy
no 2 'decoding is of self-attention' segments -p query-segment=@segment.npy -p key-segment=@segment.npy
no 2 'routed: token by token it is causal, and causal=0 is typed' routed -p causal=0
no 2 'tokens of query_block 16 choose by later ones' routed -p query-block=16
no 2 'not by given ones' routed -p score=given
no 2 'tokens choose as they come, which choice= has no place for' routed -p choice=@segment.npy
no 2 '--lse: hsa' hsa -p branching=3 -p causal=1 --lse lse.out.npy
no 2 "--cut: '5' is not T:BACK" window -p causal=1 --cut 5
no 2 '--cut: 6 is not in 1 .. 5' window -p causal=1 --cut 5:6
no 2 '--cut: 78 is beyond the 77 tokens' window -p causal=1 --cut 78:1
no 2 '--cut: 2147483647 is beyond the 77 tokens' window -p causal=1 --cut 2147483647:1073741824
no 2 '--fork-at: 78 is beyond the 77 tokens' window -p causal=1 --fork-at 78
no 2 '--save-at: there is no --save FILE' window -p causal=1 --save-at 3
no 2 '--save-at: 99 is beyond the 77 tokens' window -p causal=1 --save file --save-at 99
no 2 '--chunks: 0 is not in 1 .. 2147483647' window -p causal=1 --chunks 3,0
no 2 "--chunks: 'x' is not a whole number" window -p causal=1 --chunks x
no 2 "--chunks random: '' is not a whole number" window -p causal=1 --chunks random:
no 2 "--save: 'nothing.npy' is --out's file as well" window -p causal=1 --save nothing.npy
no 2 '--save -: standard output has the table' window -p causal=1 --save -
no 4 'no/where' window -p causal=1 --save no/where
no 3 'nowhere' window -p causal=1 --resume nowhere
no 3 'q.npy: no cache of hga' window -p causal=1 --resume q.npy
no 2 "unknown option '--edge-bias'" window -p causal=1 --edge-bias q.npy
fact a_batch_has_no_file refused 2 '--save: a file has one cache, the tensors have 3 samples' "$hga" decode window -p causal=1 --query q.bnhd.npy --key k.bnhd.npy --value v.bnhd.npy --quiet --out nothing.npy --save file
fact nor_is_it_resumed refused 2 '--resume: a file has one cache, the tensors have 3 samples' "$hga" decode window -p causal=1 --query q.bnhd.npy --key k.bnhd.npy --value v.bnhd.npy --quiet --out nothing.npy --resume cache
fact standard_output_has_the_table refused 2 '--out -: standard output has the table' "$hga" decode window -p causal=1 $q --out -
fact a_variant_is_wanted refused 2 'VARIANT' "$hga" decode $q --out nothing.npy

# Files of caches: of this very graph, whole, and nothing else.
"$hga" decode window -p left=9 -p causal=1 $q --out out.npy --same --save cache --save-at 31 >table || exit 1
no 3 'a cache of another graph' window -p left=8 -p causal=1 --resume cache
no 3 'a cache of another shape, precision, type of pages or blocks to choose' window -p left=9 -p causal=1 --resume cache --precision bf16
[ "${HGA_ISA-}" = ref ] || no 3 'a cache of another instruction set, whose bits differ' window -p left=9 -p causal=1 --resume cache --isa ref --same
"$hga" decode routed -p block=8 $q --out out.npy --same --save chosen --save-at 31 >table || exit 1
no 3 'a cache of another shape, precision, type of pages or blocks to choose' routed -p block=4 --resume chosen
no 2 'the cache of cache has 31 tokens already, not 30' window -p left=9 -p causal=1 --resume cache --fork-at 30
no 2 'the cache may be cut to' window -p left=9 -p causal=1 --resume cache --cut 31:9
head -c 500 cache >short
no 3 'short: 500 bytes, a cache of 31 tokens has' window -p left=9 -p causal=1 --resume short
python3 -c 'b = bytearray(open("cache", "rb").read()); b[200] ^= 4; open("flipped", "wb").write(b)'
no 3 'flipped: its checksum is wrong' window -p left=9 -p causal=1 --resume flipped
fact all_tokens_are_in_the_file decodes window out.npy --save full
fact nothing_is_left_to_do bash -c '"$0" decode window -p left=9 -p global=2 -p causal=1 $1 --out out.npy --resume full --json >told.json' "$hga" "$q"
fact and_no_time_is_told holds told.json '"median_us": null'
facts_end
