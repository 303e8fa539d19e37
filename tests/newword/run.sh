#!/bin/bash
# A new word of a call in a copy of the tree: run.sh SOURCE [PYTHON]. The patch adds it to the rows, the formula and a
# page, and to nothing else; C, JSON, the tool, Python, `check --gradient`, `explain` and help must know it.
set -u
source=$1 python=${2:-python3}
. "$(dirname "$0")/../facts.sh"
here=$source/tests/newword
export OMP_WAIT_POLICY=passive CCACHE_BASEDIR=$scratch CCACHE_NOHASHDIR=1
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache

# ---- how much a word costs ----

files=$(grep -c '^+++ ' "$here/clamp.patch")
lines=$(grep -cE '^[-+]([^-+]|$)' "$here/clamp.patch")
echo "the word takes $files files and $lines lines"
fact at_most_8_files test "$files" -le 8
fact at_most_60_lines test "$lines" -le 60

# ---- a copy with the word ----

mkdir tree
(cd "$source" && tar --exclude=./build --exclude='./build-*' --exclude=./.git -cf - .) | tar -xf - -C tree
cp "$here/clamp.c" tree/tests/test_clamp.c
fact the_patch_fits patch -d tree -p1 --fuzz=0 -i "$here/clamp.patch"
CMAKE_GENERATOR=Ninja fact it_is_configured cmake -S tree -B built --preset release -DHGA_BENCH=OFF
fact it_compiles_without_a_warning cmake --build built --parallel "$(nproc)" --target hga_tool hga_python test_call_page test_clamp
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
facts_end
