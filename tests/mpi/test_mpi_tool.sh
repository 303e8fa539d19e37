#!/bin/bash
# The tool under mpirun: test_mpi_tool.sh openmpi|mpich HGA_OF_THAT_MPI HGA [OTHER_HGA]
# HGA is built without MPI and makes what one process makes; OTHER_HGA, where there is one, is built with the other MPI. Needs python3 with numpy.
set -u
mpi=$1 hga=$2 alone=$3 other=${4-}
. "$(dirname "$0")/../facts.sh"
on() { timeout 300 bash "$tests_folder/mpi/mpirun.sh" "$mpi" "$@"; } # on RANKS PROGRAM ..
export OMP_NUM_THREADS=1

python3 - <<'END' || exit 1
import numpy as np
r = np.random.default_rng(1)
for name, rows, heads in ("q", 520, 4), ("k", 520, 2), ("v", 520, 2), ("nk", 520, 4), ("nv", 520, 4), ("nq", 520, 4), ("bq", 1023, 2), ("bk", 1023, 2), ("bv", 1023, 2), ("tq", 5, 1), ("tk", 5, 1), ("tv", 5, 1):
    x = r.normal(size=(rows, heads, 8)).astype("f4")
    np.save(name, x)
    np.save(name + ".hnd", np.ascontiguousarray(x.transpose(1, 0, 2)))
    np.save(name + ".half", x.astype("f2"))
    np.save(name + ".fortran", np.asfortranarray(x))
    np.save(name + ".bnhd", np.stack([x, x[::-1], 2 * x]))
    np.save(name + ".bhnd", np.stack([x, x[::-1], 2 * x]).transpose(0, 2, 1, 3).copy())
    np.savez(name + ".npz", x=x)
    x[rows // 2, 0, 0] = np.nan
    np.save(name + ".nan", x)
for name, rows, heads in ("g", 520, 4), ("tg", 5, 1), ("bg", 1023, 2):
    x = r.normal(size=(rows, heads, 8)).astype("f4")
    np.save(name, x)
    np.save(name + ".half", x.astype("f2"))
    np.save(name + ".bhnd", np.stack([x, x[::-1], 2 * x]).transpose(0, 2, 1, 3).copy())
np.save("glse", r.normal(size=(520, 4)).astype("f4"))
np.save("lengths", np.array([200, 20, 300], "i4"))
np.save("segments", (np.arange(520) // 70).astype("i4"))
np.save("bias", r.normal(size=(63, 4)).astype("f4"))
np.save("pos", r.normal(size=(520, 3)).astype("f4"))
np.save("edges", r.normal(size=(520 * 520, 4)).astype("f4"))
np.save("sink", r.normal(size=4).astype("f4"))
mesh = np.unique(r.integers(0, 520, size=(3000, 2)), axis=0).astype("i4") # in numbers by chance
np.save("mesh", mesh)
np.save("mesh_bias", r.normal(size=(len(mesh), 4)).astype("f4"))
np.save("slopes", np.abs(r.normal(size=4)).astype("f4"))
END
"$alone" build htransformer -p block=16 --tokens 520 -o graph.json

# ---- the files of one process ----

# attend PROGRAM KIND OUT VARIANT..: KIND is what follows a tensor's letter, PREFIX what stands before it
prefix= lse=1
attend() {
    local kind=$1 out=$2
    shift 2
    "${program[@]}" attend "$@" --query "${prefix}q$kind" --key "${prefix}k$kind" --value "${prefix}v$kind" --out "$out.npy" ${lse:+--lse "$out.lse.npy"} --quiet
}
# is_shared RANKS KIND VARIANT..: as many ranks write what one process writes, byte for byte
is_shared() {
    local ranks=$1
    shift
    rm -f one.* many.*
    program=("$alone")
    attend "$1" one "${@:2}" || return 1
    program=(on "$ranks" "$hga")
    attend "$1" many "${@:2}" || return 1
    same_bytes one.npy many.npy && { [ -z "$lse" ] || same_bytes one.lse.npy many.lse.npy; }
}
ranks=2
for words in dense dense_-p_causal=1 "window_-p_left=30_-p_right=5" "window_-p_left=9_-p_global=2" "htransformer_-p_block=16" "htransformer_-p_block=8_-p_causal=1" "htransformer_-p_block=8_-p_interpolation=linear" \
    fenwick "dilated_-p_segments=64,128_-p_dilations=1,2" "graph=graph.json" "htransformer_-p_tokens=@lengths.npy"; do
    fact "${words}_on_${ranks}_ranks_is_that_of_one_process" is_shared $ranks .npy ${words//_/ }
    ranks=$((ranks == 4 ? 2 : ranks + 1))
done
lse=
fact hsa_is_too is_shared 3 .npy hsa -p branching=2,4,8
fact causal_hsa_is_too is_shared 2 .npy hsa -p branching=4 -p causal=1
lse=1 prefix=b
fact bpt_with_rows_of_nodes_is_too is_shared 3 .npy bpt -p k=4
fact causal_bpt_is_too is_shared 2 .npy bpt -p k=2 -p causal=1
prefix=t
fact ranks_without_a_token_change_nothing is_shared 8 .npy dense
prefix=
h="htransformer -p block=16"
fact torchs_order_of_axes_is_shared is_shared 3 .hnd.npy $h --layout hnd
fact a_batch_is is_shared 2 .bnhd.npy $h
fact torchs_batch_is is_shared 3 .bhnd.npy $h --layout bhnd
fact half_precision_is is_shared 2 .half.npy $h
fact half_precision_may_be_written is_shared 2 .half.npy $h --out-type f16
fact fortrans_order_is_read is_shared 2 .fortran.npy $h
fact npz_is_read is_shared 2 .npz $h
fact many_ranks_are_as_one is_shared 8 .npy $h
fact biases_of_types_are_shared is_shared 2 .npy $h -p relative=1 --rel-bias bias.npy
fact positions_of_nodes_are is_shared 3 .npy dense --node-pos pos.npy
fact biases_of_edges_are is_shared 2 .npy dense --edge-bias edges.npy
prefix=n
fact rows_of_few_edges_are_too is_shared 3 .npy graph=mesh.npy
fact with_positions_too is_shared 4 .npy graph=mesh.npy --node-pos pos.npy
prefix=
# In an order every rank reads and writes rows that lie here and there in the files.
fact a_graph_in_an_order_is is_shared 3 .npy graph=mesh.npy -p order=metis
fact so_are_biases_of_its_edges_and_positions is_shared 2 .npy graph=mesh.npy -p order=rcm --edge-bias mesh_bias.npy --node-pos pos.npy
fact and_batches_heads_first is_shared 4 .bhnd.npy graph=mesh.npy -p order=degree --layout bhnd
fact and_a_hierarchy is_shared 2 .half.npy graph=graph.json -p order=rcm
fact sinks_slopes_and_caps_are is_shared 3 .npy window --sink sink.npy --slopes slopes.npy --softcap 2 --scale 0.7
lse=
fact entmax_is is_shared 2 .npy window --normaliser entmax:1.5
fact sigmoids_are is_shared 2 .npy htransformer --normaliser sigmoid
lse=1
fact dropout_drops_the_same is_shared 3 .npy $h --dropout 0.3 --seed 5
fact bfloat16_is is_shared 2 .npy $h --precision bf16
fact threads_do_not_matter is_shared 2 .npy $h --threads 2

# ---- gradients ----

# goes_back RANKS WANTED FILES VARIANT..: as many ranks write the output and the gradients of one process, byte for byte
goes_back() {
    local ranks=$1 wanted=$2 kind=$3
    shift 3
    rm -f one.* many.*
    for who in one many; do
        local options=(--grad-out "${prefix}g$kind")
        for w in $wanted; do options+=("--grad-$w" "$who.$w.npy"); done
        program=("$alone")
        [ $who = one ] || program=(on "$ranks" "$hga")
        attend "$kind" $who "$@" "${options[@]}" || return 1
    done
    same_bytes one.npy many.npy || return 1
    for w in $wanted; do same_bytes "one.$w.npy" "many.$w.npy" || return 1; done
}
qkv="query key value"
fact gradients_are_those_of_one_process goes_back 3 "$qkv" .npy $h
fact dense_ones_are goes_back 2 "$qkv" .npy dense -p causal=1
lse=
fact those_of_trees_are goes_back 4 "$qkv" .npy hsa -p branching=4
lse=1
fact a_batchs_are goes_back 3 "$qkv" .bhnd.npy window --layout bhnd
fact halves_are goes_back 2 "$qkv" .half.npy $h --out-type f16
fact some_may_be_wanted goes_back 2 "key" .npy fenwick
fact tables_have_the_gradients_of_all_ranks goes_back 3 "rel-bias scale query" .npy $h -p relative=1 --rel-bias bias.npy
fact so_have_sinks_and_slopes goes_back 2 "sink slopes value" .npy window --sink sink.npy --slopes slopes.npy
fact so_have_positions goes_back 2 "node-pos log-mass" .npy dense --node-pos pos.npy
fact dropout_goes_back goes_back 3 "$qkv" .npy $h --dropout 0.3 --seed 5
fact the_log_sum_exps_gradient_is_shared goes_back 3 "$qkv" .npy $h --grad-lse glse.npy
fact a_graph_in_an_order_goes_back goes_back 3 "$qkv log-mass edge-bias node-pos" .npy graph=mesh.npy -p order=metis --edge-bias mesh_bias.npy --node-pos pos.npy --grad-lse glse.npy
if "$alone" export mesh.npy --tree metis:8,8 -o clusters.json 2>no_metis; then
    nodes=$("$alone" inspect clusters.json | sed -n '1s/.*, \([0-9]*\) nodes$/\1/p')
    python3 -c 'import sys, numpy as np; np.save("cpos", np.random.default_rng(2).normal(size=(int(sys.argv[1]), 3)).astype("f4"))' "$nodes"
    fact clusters_over_a_file_go_back goes_back 3 "$qkv log-mass node-pos" .npy graph=mesh.npy -p tree=metis:8,8 --node-pos cpos.npy
    fact and_in_an_order goes_back 2 "$qkv log-mass node-pos" .npy graph=mesh.npy -p tree=metis:8,8 -p order=rcm --node-pos cpos.npy
else
    fact without_metis_there_are_no_clusters holds no_metis METIS
fi
prefix=t
fact ranks_without_a_token_go_back goes_back 8 "$qkv" .npy dense
prefix=b
fact rows_of_nodes_go_back goes_back 3 "$qkv" .npy bpt -p k=4
prefix=
fact more_ranks_than_heads_go_back goes_back 5 "$qkv scale log-mass" .npy $h
fact threads_go_back goes_back 2 "$qkv" .npy window --threads 2
fact bfloat16_goes_back goes_back 2 "$qkv" .npy $h --precision bf16

# A file that is there is replaced, and keeps its mode.
replaces() { : >old.npy && chmod 604 old.npy && program=(on 2 "$hga") && lse= && attend .npy old $h && equal "$(stat -c %a old.npy)" 604 && program=("$alone") && attend .npy one $h && same_bytes old.npy one.npy; }
fact a_file_is_replaced_as_a_whole replaces

# ---- what is wrong is said once, and nothing is left behind ----

lse= program=(on 3 "$hga")
fails() { refused "$1" "$2" attend "${@:3}"; }
fact a_bad_option_is_named_once fails 2 "no variant 'densee'" .npy x densee
fact a_missing_file_is_named_once fails 3 "nowhere.npy: cannot be read" nowhere.npy x dense
fact a_number_that_one_rank_alone_reads_is_named_once fails 3 "q.nan.npy: element (260, 0, 0) is NaN" .nan.npy x dense
fact a_folder_that_is_not_there_is_named_once fails 4 "nowhere/x.npy" .npy nowhere/x dense
fact a_gradient_that_does_not_fit_is_named_once refused 3 "tq.npy: has 1 samples of 1 heads of 8, the output has 1 of 4 of 8" on 2 "$hga" attend dense --query q.npy --key k.npy --value v.npy --out x.npy --grad-out tq.npy --grad-query g.npy --quiet
fact a_gradient_that_is_piped_is_refused refused 2 "ranks read tensors from files" on 2 "$hga" attend dense --query q.npy --key k.npy --value v.npy --out x.npy --grad-out - --grad-query g.npy --quiet
fact routing_is_refused refused 2 "routes any token anywhere" on 2 "$hga" attend treeformer-fine -p height=2 -p weights=@w.npy --query q.npy --key k.npy --value v.npy --out x.npy
fact so_are_blocks_that_the_call_chooses refused 2 "routed: routes any token anywhere" on 2 "$hga" attend routed -p block=16 -p k=4 --query q.npy --key k.npy --value v.npy --out x.npy
fact queries_of_other_tokens_are_refused refused 2 "are different tokens" on 2 "$hga" attend segments -p query-segment=@segments.npy -p key-segment=@segments.npy --query q.npy --key k.npy --value v.npy --out x.npy --quiet
fact standard_input_is_refused refused 2 "ranks read tensors from files" on 2 "$hga" attend dense --query - --key k.npy --value v.npy --out x.npy
fact a_table_from_it_is_refused refused 2 "ranks read tensors from files" on 2 "$hga" attend dense --query q.npy --key k.npy --value v.npy --out x.npy --node-pos - --quiet
fact standard_output_is_refused refused 2 "standard output: is written as it comes" on 2 "$hga" attend dense --query q.npy --key k.npy --value v.npy --out - --quiet
fact a_device_is_refused refused 2 "/dev/full: is written as it comes" on 2 "$hga" attend dense --query q.npy --key k.npy --value v.npy --out /dev/full --quiet
full() { # a folder on a disk of 64 KB, where root may make one
    mkdir -p small && mount -t tmpfs -o size=64k none small 2>/dev/null || { echo "not tried: no disk can be made" >&2; return 0; }
    refused 4 "cannot write small/x.npy: No space left" on 2 "$hga" attend dense --query q.bnhd.npy --key k.bnhd.npy --value v.bnhd.npy --out small/x.npy --quiet
    local got=$?
    umount small
    return $got
}
fact a_full_disk_is_said_once full
mkfifo pipe
fact a_pipe_is_refused refused 2 "pipe: is written as it comes" on 2 "$hga" attend dense --query q.npy --key k.npy --value v.npy --out pipe --quiet

# Where ranks do not see each other's descriptors, rank 0's file gets a name by which they open it. MPICH itself does not start there.
named() {
    mkdir -p nothing && unshare -m mount --bind "$PWD/nothing" /proc 2>/dev/null || { echo "not tried: /proc cannot be hidden" >&2; return 0; }
    local before
    rm -f one.* many.* && program=("$alone") && attend .npy one $h || return 1
    before=$(ls -A)
    program=(on 3 unshare -m sh -c 'mount --bind "$0" /proc && exec "$@"' "$PWD/nothing" "$hga")
    attend .npy many $h && same_bytes one.npy many.npy && equal "$(ls -A | grep -vx many.npy)" "$before"
}
[ "$mpi" = mpich ] || fact a_file_that_is_found_by_its_name_is_that_of_one_process named

# killed SIGNAL RANK: while all compute, that rank dies; the call ends, and neither the output nor a temporary file is there
killed() {
    local before pid launcher found=
    python3 -c 'import numpy as np; np.save("long", np.random.default_rng(3).normal(size=(65536, 2, 64)).astype("f4"))'
    before=$(ls -A)
    on 2 "$hga" attend dense --query long.npy --key long.npy --value long.npy --out x.npy --quiet >/dev/null 2>&1 &
    launcher=$!
    sleep 3
    for pid in $(pgrep -f "^$hga attend dense --query long.npy"); do
        [ "$(readlink "/proc/$pid/cwd")" = "$PWD" ] && tr '\0' '\n' <"/proc/$pid/environ" | grep -qE "^(PMI|OMPI_COMM_WORLD)_RANK=$2$" && kill "-$1" "$pid" && found=1
    done
    wait "$launcher" && echo "the call ended well" && return 1
    [ "$found" ] || { echo "no rank $2"; return 1; }
    equal "$(ls -A)" "$before"
}
for signal in KILL TERM; do
    for rank in 0 1; do fact "rank_${rank}_that_${signal}_ends_leaves_no_file" killed $signal $rank; done
done
rm -f long.npy

# apart PROGRAM WORDS.. -- WORDS..: rank 0 is started with the first words, rank 1 with the others
apart() {
    local first=()
    while [ "$1" != -- ]; do first+=("$1"); shift; done
    on 1 "$hga" "${first[@]}" : -n 1 "$hga" "${@:2}"
}
tensors="--query q.npy --key k.npy --value v.npy --quiet"
fact other_commands_on_other_ranks_are_told refused 2 "rank 0 for 'bench', rank 1 for 'attend'" apart bench --ranks -- attend dense $tensors --out x.npy
fact a_rank_that_ends_before_others_is_told refused 2 "rank 1 has ended, and rank 0 has not" apart bench --ranks --variants window,dense --tokens 512 --repetitions 1 -- bench --ranks --variants window --tokens 512 --repetitions 1
fact a_file_that_one_rank_misses_is_named_once refused 3 "nowhere.npy: cannot be read" apart attend dense $tensors --out x.npy -- attend dense --query nowhere.npy --key k.npy --value v.npy --quiet --out x.npy
fact other_graphs_on_other_ranks_are_told refused 2 "rank 0 and rank 1 have different graphs" apart attend window -p left=3 $tensors --out x.npy -- attend window -p left=4 $tensors --out x.npy
fact other_files_for_the_output_are_told refused 2 "rank 0 writes 'x.npy', and rank 1 'y.npy'" apart attend window $tensors --out x.npy -- attend window $tensors --out y.npy
fact other_commands_are_refused refused 2 "topo: works in one process, and mpirun has started 3" on 3 "$hga" topo
fact an_unknown_one_is_named_once refused 2 "no subcommand 'toop'" on 2 "$hga" toop

# ---- measured beside predicted ----

bench() { on 2 "$hga" bench --ranks --heads 2 --dim 8 --repetitions 3 --threads 1 --json ranks.json "$@" >table; }
fact ranks_are_measured bench --variants window:left=8,htransformer:block=16,hsa:branching=4,dense --tokens 512,1024
fact beside_what_is_predicted holds table 'window:left=8 +512 +2 +1 '
measured() { python3 -c 'import json, sys
rows = json.load(open("ranks.json"))["benchmarks"]
assert len(rows) == 8, len(rows)
for r in rows:
    assert r["bytes_measured"] == r["bytes_predicted"] > 0, r
    assert 0 < r["messages_measured"] <= r["messages_predicted"], r
    assert 0 < r["compute_seconds"] < r["seconds"] and r["exchange_seconds"] < r["seconds"], r
    assert abs(r["compute_seconds_predicted"] + r["exchange_seconds_predicted"] - r["seconds_predicted"]) < 1e-9, r
    assert r["latency_us"] > 0 and r["gbits"] > 0, r'; }
fact the_bytes_are_those_that_were_predicted measured
links() { bench --variants window --tokens 512 --latency 1e6 --gbits 1 && python3 -c 'import json
r, = json.load(open("ranks.json"))["benchmarks"]
assert r["exchange_seconds_predicted"] > 1, r'; }
fact a_link_may_be_named links
fact bench_measures_ranks_by_the_option_alone refused 2 "bench: without --ranks it works in one process, and mpirun has started 2" on 2 "$hga" bench --tokens 512
fact it_has_nothing_beside_them refused 2 "--ranks: measures forward passes, without --gradient" on 2 "$hga" bench --ranks --gradient
fact what_cannot_be_shared_is_named_once refused 2 "halo: queries 0" on 2 "$hga" bench --ranks --variants treeformer-fine --tokens 512

# ---- one voice ----

once() { on 3 "$hga" "$@" >stdout && equal "$(grep -c "$lines" stdout)" 1; }
lines='^hga [0-9]'
fact the_version_is_printed_once once --version
lines='^Usage'
fact help_is_printed_once once attend --help

# ---- other builds ----

fact a_build_without_mpi_says_so_once refused 2 "built without (HGA_WITH_MPI=OFF)" on 3 "$alone" attend dense
[ -z "$other" ] || fact the_other_mpis_launcher_is_noticed refused 2 "the MPI of this hga sees 1" on 3 "$other" topo
single() { on 1 "$alone" topo >stdout; }
fact one_process_needs_no_mpi single
facts_end
