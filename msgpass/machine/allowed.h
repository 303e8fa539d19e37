/* allowed.h: the CPUs that plans may use now. */
#ifndef HGA_ALLOWED_H
#define HGA_ALLOWED_H

#include "hga_base.h"

/* The CPUs that the calling thread's plans may use at this moment, as the operating system numbers them, ascending; at
   least one, to be freed with hga_delete. Where OpenMP binds threads: those of all its places. Else the thread's mask,
   which OpenMP's threads begin with as well. */
hga_status cpus_allowed(hga_id **cpus, hga_id *n);
/* Whether OpenMP binds its threads (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY). */
int cpus_bound_by_openmp(void);
/* The first CPU of the calling thread's OpenMP place; -1: none. */
hga_id cpu_of_omp_place(void);

#endif
