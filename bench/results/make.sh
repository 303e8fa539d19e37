#!/bin/sh
# Run the benchmarks and draw them: make.sh HGA [FOLDER] writes FOLDER/DATE.json and FOLDER/DATE.html (default: this folder). VARIANTS, TOKENS and THREADS may be set.
set -eu
here=$(dirname "$0") hga=$1
page=${2:-$here}/$(date +%F)
export OMP_WAIT_POLICY=passive
"$hga" bench --json "$page.json" --report "$page.html" --tokens "${TOKENS:-1024,4096,16384}" --threads "${THREADS:-1,2}" \
    --variants "${VARIANTS:-dense,window,bpt:k=4,bpt:k=64,htransformer,htransformer:block=64,hsa:branching=2,4,8,16,treeformer-fine}"
