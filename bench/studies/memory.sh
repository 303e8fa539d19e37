#!/bin/sh
# Does memory stay flat while edges grow? memory.sh HGA PEAK. Each line: variant, tokens, bytes written, seconds and peak memory of writing its edges.
set -eu
hga=$1 peak=$2
export OMP_NUM_THREADS=1
for variant in "bpt -p k=64" "htransformer -p block=64" "window -p left=512 -p right=512" "hsa -p branching=64"; do
    for tokens in 10000 20000 40000 80000; do
        # shellcheck disable=SC2086 # words
        bytes=$({ "$peak" "$hga" build $variant --tokens $tokens --format npy -o - 2>&3 | wc -c; } 3>peak.tmp)
        printf '%-36s %7d tokens %12d bytes  %s\n' "$variant" "$tokens" "$bytes" "$(tail -1 peak.tmp)"
    done
done
rm -f peak.tmp
