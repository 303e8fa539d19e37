/* machine.h: this computer's kernels and the useful number of threads. */
#ifndef HGA_MACHINE_MACHINE_H
#define HGA_MACHINE_MACHINE_H

#include "allowed.h"
#include "kernels.h"
#include "pages.h"
#include "topology.h"
#include "tuning.h"

/* The kernels of an instruction set by name; NULL: HGA_ISA from the environment, or the best this machine has.
   HGA_EUNSUPPORTED: not this machine's. */
hga_status isa_kernels(const char *isa, const kernel_table **out);
/* The numbers of this processor, under HGA_TUNING from the environment. HGA_EINVAL: that is malformed. */
hga_status isa_tuning(tuned *out);
/* `requested`, or for 0 OMP_NUM_THREADS or the cores this process may use. */
hga_id isa_threads(hga_id requested, const topology *machine);

/* threads.c: call before a parallel region of n <= 4096 threads. HGA_ENOMEM when the system cannot start so many; those
   of the calling thread's last region count as started. */
hga_status threads_prepare(hga_id n);
/* `requested`, or 1 where no region may begin: inside a caller's, and in a process forked by one that had called
   threads_prepare, where OpenMP would wait for threads that do not exist. */
hga_id threads_allowed(hga_id requested);
/* The first CPU of OpenMP's place for each thread of a team of n; 0 where OpenMP does not report it, or no team may
   begin. */
int threads_find_cpus(hga_id n, hga_id *cpu);

#endif
