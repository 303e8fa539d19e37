#!/bin/bash
# The kernels for 64-bit ARM on paper, from any machine: arm.sh, after ./test.sh arm has built build-aarch64. It needs Debian's llvm-19.
# 1. A stream of 24 independent multiply-adds through llvm-mca's model of each core: a model that does not reach the pipes which the maker documents is not believed.
# 2. The hot loops of the instruction sets, cut out of the object files: instructions, loads, vectors spilled; and multiply-adds a cycle on the models that passed.
# 3. Instructions an edge and head of whole executions, counted under qemu.
# All of it is counted: nothing here has run on such a processor.
set -euo pipefail
cd "$(dirname "$0")/../.."
mca=llvm-mca-19 build=build-aarch64 sysroot=$PWD/build-aarch64-sysroot
for program in $mca qemu-aarch64 aarch64-linux-gnu-objdump; do
    command -v $program >/dev/null || { echo "arm.sh: $program is missing: apt-get install llvm-19 qemu-user gcc-aarch64-linux-gnu" >&2; exit 4; }
done
program=$build/bench/studies/bench_instructions
[ -x $program ] || { echo "arm.sh: no $program: ./test.sh arm builds it" >&2; exit 4; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# CORE|PIPES|PAIRS: the pipes for vectors' multiply-adds of four floats, by Arm's software optimization guides and by Apple's CPU optimization guide; and whether it has
# BFDOT, of which those guides have as many a cycle.
cores='
neoverse-n1|2|no
neoverse-n2|2|yes
neoverse-v1|4|yes
neoverse-v2|4|yes
apple-m1|4|no
'
runs=200
cycles() { $mca -mtriple=aarch64-linux-gnu -mcpu="$1" -mattr=+bf16 -iterations=$runs "$2" 2>/dev/null | sed -n 's/^Total Cycles: *//p'; } # cycles CORE FILE

echo "Counted on paper, by $($mca --version | sed -n 's/.*LLVM version \([0-9.]*\).*/LLVM \1/p') and $(qemu-aarch64 --version | sed -n '1s/ (.*//p'), compiled by $(aarch64-linux-gnu-gcc --version | head -1): not run on such a processor."
echo
echo "A stream of 24 independent multiply-adds of vectors:"
echo
echo "| core | pipes by its maker | a cycle by the model | | products of bfloat16 pairs a cycle |"
echo "|---|---|---|---|---|"
for i in $(seq 0 23); do echo "fmla v$i.4s, v30.4s, v31.4s"; done >"$scratch/stream.s"
for i in $(seq 0 23); do echo "bfdot v$i.4s, v30.8h, v31.8h"; done >"$scratch/pairs.s"
believed=''
while IFS='|' read -r core pipes with_pairs; do
    [ -n "$core" ] || continue
    rate=$(awk -v n=$((24 * runs)) -v c="$(cycles "$core" "$scratch/stream.s")" 'BEGIN { printf "%.2f", n / c }')
    pairs='none: it has no BFDOT' rate_of_pairs=''
    if [ "$with_pairs" = yes ]; then
        rate_of_pairs=$(awk -v n=$((24 * runs)) -v c="$(cycles "$core" "$scratch/pairs.s")" 'BEGIN { printf "%.2f", n / c }')
        pairs=$rate_of_pairs
    fi
    if awk -v r="$rate" -v p="$pipes" 'BEGIN { exit !(r > 0.97 * p && r < 1.03 * p) }'; then
        verdict=believed believed+=" $core|$rate|$rate_of_pairs"
    else
        verdict='not believed'
    fi
    echo "| $core | $pipes | $rate | $verdict | $pairs |"
done <<<"$cores"

echo
echo "Hot loops, multiply-adds a cycle, and their share of the stream's rate:"
echo
printf '| loop | set | multiply-adds | instructions | loads | spilled |'
for core in $believed; do printf ' %s |' "${core%%|*}"; done
printf '\n|---|---|---|---|---|---|'
for core in $believed; do printf -- '---|'; done
echo
for isa in ref neon; do
    mkdir "$scratch/$isa"
    python3 -B bench/studies/arm_loops.py $build/kernels/CMakeFiles/hga_kernels.dir/isa_$isa.c.o "$scratch/$isa" >"$scratch/$isa/loops"
done
while read -r name _; do
    for isa in ref neon; do
        read -r _ products all loads spilled < <(grep "^$name " "$scratch/$isa/loops")
        printf '| %s | %s | %s | %s | %s | %s |' "$name" $isa "$products" "$all" "$loads" "$spilled"
        for core in $believed; do
            IFS='|' read -r name_of rate _ <<<"$core"
            awk -v n=$((products * runs)) -v c="$(cycles "$name_of" "$scratch/$isa/$name.s")" -v r="$rate" 'BEGIN { printf " %.2f, %.0f %% |", n / c, 100 * n / c / r }'
        done
        echo
    done
done <"$scratch/neon/loops"

echo
echo "Products of pairs of bfloat16 in the loops of \`neonbf16\`, each of twice the products of a multiply-add, and their share of the stream of them:"
echo
printf '| loop | products of pairs | instructions | loads | spilled |'
for core in $believed; do [ "${core##*|}" = '' ] || printf ' %s |' "${core%%|*}"; done
printf '\n|---|---|---|---|---|'
for core in $believed; do [ "${core##*|}" = '' ] || printf -- '---|'; done
echo
mkdir "$scratch/neonbf16"
python3 -B bench/studies/arm_loops.py $build/kernels/CMakeFiles/hga_kernels.dir/isa_neonbf16.c.o "$scratch/neonbf16" pairs >"$scratch/neonbf16/loops"
while read -r name products all loads spilled; do
    printf '| %s | %s | %s | %s | %s |' "$name" "$products" "$all" "$loads" "$spilled"
    for core in $believed; do
        IFS='|' read -r name_of _ rate <<<"$core"
        [ -n "$rate" ] || continue
        awk -v n=$((products * runs)) -v c="$(cycles "$name_of" "$scratch/neonbf16/$name.s")" -v r="$rate" 'BEGIN { printf " %.2f, %.0f %% |", n / c, 100 * n / c / r }'
    done
    echo
done <"$scratch/neonbf16/loops"

# The difference between two executions and one is what one takes.
cc -O2 -Wall -Wextra -shared -fPIC -o "$scratch/count.so" bench/studies/arm_count.c
executed() { OMP_NUM_THREADS=1 qemu-aarch64 -cpu max -L "$sysroot" -plugin "$scratch/count.so" $program "$@" 2>&1 >/dev/null | sed -n 's/^instructions //p'; }
echo
echo "Instructions an edge and head, of one execution of 256 tokens, 2 x 64, under qemu:"
echo
echo "| case | ref | neon | neon / ref |"
echo "|---|---|---|---|"
for variant in $(qemu-aarch64 -L "$sysroot" $program); do
    edges=$(qemu-aarch64 -L "$sysroot" $program "$variant" ref)
    ref=$(($(executed "$variant" ref 2) - $(executed "$variant" ref 1)))
    neon=$(($(executed "$variant" neon 2) - $(executed "$variant" neon 1)))
    awk -v v="$variant" -v e="$edges" -v r=$ref -v n=$neon 'BEGIN { printf "| %s | %.2f | %.2f | %.2f |\n", v, r / e, n / e, n / r }'
done

echo
echo "The same with \`--precision bf16\`:"
echo
echo "| case | neon | neonbf16 | neonbf16 / neon |"
echo "|---|---|---|---|"
for variant in dense window bpt-64 random; do
    edges=$(qemu-aarch64 -L "$sysroot" $program "$variant" ref)
    neon=$(($(executed "$variant" neon 2 bf16) - $(executed "$variant" neon 1 bf16)))
    pairs=$(($(executed "$variant" neonbf16 2 bf16) - $(executed "$variant" neonbf16 1 bf16)))
    awk -v v="$variant" -v e="$edges" -v r=$neon -v n=$pairs 'BEGIN { printf "| %s | %.2f | %.2f | %.2f |\n", v, r / e, n / e, n / r }'
done
