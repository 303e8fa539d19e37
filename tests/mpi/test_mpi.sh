#!/bin/bash
# An exchange by MPI among few and many ranks, more than this machine has cores: test_mpi.sh openmpi|mpich RANKS
set -u
mpi=$1 ranks=$2
. "$(dirname "$0")/../facts.sh"
run() { bash "$tests_folder/mpi/mpirun.sh" "$mpi" "$@"; }

# RANKS ends by itself after a minute.
for n in 1 2 3 5 8; do
    all_are_true() { run "$n" "$ranks" >stdout && shows stdout "facts on $n ranks, 0 not true"; }
    fact "all_is_true_on_${n}_ranks" all_are_true
done
facts_end
