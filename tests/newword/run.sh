#!/bin/bash
# A new word of a call and a new normaliser in a copy of the tree: run.sh SOURCE [PYTHON]. The patches add them to the
# rows, the formula and a page, and to nothing else; C, JSON, the tool, Python, `check --gradient`, `explain` and help
# must know them.
set -u
source=$1 python=${2:-python3}
. "$(dirname "$0")/../facts.sh"
here=$source/tests/newword
export OMP_WAIT_POLICY=passive CCACHE_BASEDIR=$scratch CCACHE_NOHASHDIR=1
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache

# ---- how much a word costs ----

files_of() { grep -c '^+++ ' "$here/$1"; }
lines_of() { grep -cE '^[-+]([^-+]|$)' "$here/$1"; }
for patch in clamp.patch relu.patch; do echo "$patch: $(files_of $patch) files and $(lines_of $patch) lines"; done
fact a_word_takes_at_most_8_files test "$(files_of clamp.patch)" -le 8
fact and_60_lines test "$(lines_of clamp.patch)" -le 60
fact a_normaliser_takes_at_most_4_files test "$(files_of relu.patch)" -le 4
fact and_40_lines test "$(lines_of relu.patch)" -le 40

# ---- a copy with the word ----

mkdir tree
(cd "$source" && tar --exclude=./build --exclude='./build-*' --exclude=./.git -cf - .) | tar -xf - -C tree
cp "$here/clamp.c" tree/tests/test_clamp.c
fact the_normaliser_fits patch -d tree -p1 --fuzz=0 -i "$here/relu.patch"
fact the_word_fits patch -d tree -p1 --fuzz=0 -i "$here/clamp.patch"
CMAKE_GENERATOR=Ninja fact it_is_configured cmake -S tree -B built --preset release -DHGA_BENCH=OFF
fact it_compiles_without_a_warning cmake --build built --parallel "$(nproc)" --target hga_tool hga_python test_call_page test_clamp test_meaning
[ -x built/cli/hga ] || { facts_end; exit 1; }
hga=$scratch/built/cli/hga

# ---- what knows it ----

into() { "${@:2}" >"$1"; } # into FILE COMMAND..

fact c_knows_it built/tests/test_clamp
cat said
fact its_page_has_it built/tests/test_call_page
fact files_are_made "$python" "$here/clamp.py" make .
tensors='--layout hnd --query q.npy --key k.npy --value v.npy'
# shellcheck disable=SC2086
fact attend_takes_it "$hga" attend dense $tensors --out out.npy --clamp 0.5
export PYTHONPATH=$scratch/built/python
fact python_knows_it "$python" "$here/clamp.py" hold .
cat said
fact its_gradient_is_the_slope "$hga" check window -n 40 --gradient --clamp 0.5
fact explain_takes_it into explained "$hga" explain window -n 200 --clamp 0.5 --gradient
fact and_says_why_nothing_is_fused grep 'only the plain definition knows clamp' explained
cat said
fact bench_takes_it "$hga" bench -n 256 --variants window --clamp 0.5 --min-time 0.01
for command in attend check explain bench run decode; do
    "$hga" help $command --all >help
    fact "help_of_${command}_has_it" grep -q -- --clamp help
done
# shellcheck disable=SC2086
fact what_has_no_scores_refuses_it refused 2 '--clamp' "$hga" attend treeformer-coarse -p height=2 -p query-leaf=@leaf.npy -p alpha=@a.npy $tensors --out o.npy --clamp 1
# shellcheck disable=SC2086
fact and_what_is_no_number refused 2 '--clamp' "$hga" attend dense $tensors --out o.npy --clamp=-1

# ---- the normaliser ----

fact its_adjoint_is_its_slope built/tests/test_meaning
for variant in window bpt fenwick; do
    fact "relu_has_gradients_in_$variant" "$hga" check $variant -n 40 --gradient --normaliser relu
done
# shellcheck disable=SC2086
fact attend_takes_relu "$hga" attend dense $tensors --out relu.npy --normaliser relu
fact python_takes_relu "$python" "$here/clamp.py" relu .
cat said
fact help_has_relu into help "$hga" help attend --all
tr -s '[:space:]' ' ' <help >unwrapped
fact with_what_it_says grep -q 'relu, each' unwrapped
fact energies_have_no_relu refused 2 'which normaliser relu has not' "$hga" check hsa -p branching=2,2,3 --gradient --normaliser relu
facts_end
