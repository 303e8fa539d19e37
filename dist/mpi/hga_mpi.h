/* hga_mpi.h: ranks of MPI as an hga_exchange. A library of its own, libhga-mpi, built with -DHGA_WITH_MPI=ON: libhga
   itself knows ranks and messages, and no MPI. */
#ifndef HGA_MPI_H
#define HGA_MPI_H

#include "hga_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of a communicator, by its Fortran handle (MPI_Comm_c2f; mpi4py: comm.py2f()); messages go through a copy of
   it. All its ranks call this together, after MPI_Init_thread with MPI_THREAD_FUNNELED at least; below
   MPI_THREAD_SERIALIZED it is the thread that initialised MPI that calls the exchange. HGA_EINVAL: MPI is not running,
   or the handle is invalid. Channels are below 32000; messages may have any size, and are copied; a waiting rank yields
   the processor. A message of another length than expected is HGA_EINVAL. After `fail` every rank has that status, in
   the words of the rank that failed, the exchange cannot be used any more, and the memory of messages may be freed. All
   ranks call hga_dist_destroy together, whether one has failed or not; messages in transit are dropped. */
HGA_API hga_status hga_dist_mpi(int fortran_comm, hga_exchange *out);

/* All ranks that mpirun has started, for programs that do not use MPI themselves: MPI is initialised if it is not
   running, hga_dist_destroy then finalises it, and it cannot be initialised again in the process. */
HGA_API hga_status hga_dist_mpi_world(hga_exchange *out);

#ifdef __cplusplus
}
#endif
#endif
