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
   or the handle is none.

   Channels are below 32000; messages may have any size, and are copied; who waits yields the processor. A message that
   is not as long as it is awaited is HGA_EINVAL. After `fail` every rank has that status, in the words of the rank that
   failed, the exchange serves no more, and the memory of messages may be freed. All ranks call hga_dist_destroy
   together, whether one has failed or not; what is on its way then is dropped. */
HGA_API hga_status hga_dist_mpi(int fortran_comm, hga_exchange *out);

/* All ranks that mpirun has started, for programs that know nothing of MPI: it is started where it does not run yet,
   hga_dist_destroy then ends it, and it cannot be started again in the process. */
HGA_API hga_status hga_dist_mpi_world(hga_exchange *out);

#ifdef __cplusplus
}
#endif
#endif
