#!/bin/bash
# A program on N ranks of this machine by one of Debian's MPIs, wherever that is: as root, in a container, on fewer cores than ranks.   mpirun.sh openmpi|mpich N PROGRAM ARGUMENT..
# Every variable stands for something that a bare container lacks: a user, ssh, reading another process' memory, a network.
set -eu
mpi=$1 ranks=$2
shift 2
case $mpi in
openmpi)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/bin/false PMIX_MCA_gds=hash
    # The one that is chosen here anyway; to ask the others whether they have a network takes as long as the rest of a start.
    export OMPI_MCA_pml=ob1
    export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
    exec mpirun.openmpi --quiet -n "$ranks" "$@"
    ;;
mpich)
    export HYDRA_LAUNCHER=fork UCX_TLS=self,posix UCX_LOG_LEVEL=error
    # It writes to ranks that may have ended, which ended it, too, now and then.
    trap '' PIPE
    exec mpirun.mpich -n "$ranks" "$@"
    ;;
esac
