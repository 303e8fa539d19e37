/* allowed.c: the CPUs that plans of the calling thread may use now, and whether OpenMP binds threads. */
#define _GNU_SOURCE /* sched_getaffinity and sets of CPUs */
#include "allowed.h"

#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>

enum { MOST_CPUS = 8192 };

int cpus_bound_by_openmp(void) { return omp_get_proc_bind() != omp_proc_bind_false && omp_get_num_places() > 0; }

/* Adds the CPUs of all places: OpenMP has bound the calling thread to one, whose mask does not show the others. */
static hga_status add_places(size_t bytes, cpu_set_t *set)
{
    hga_status st = HGA_OK;
    for (int index = 0, n = omp_get_num_places(); index < n && !st; index++) {
        int many = omp_get_place_num_procs(index), *cpu = NULL;
        st = hga_new(NULL, many, sizeof *cpu, &cpu);
        if (!st && many > 0) omp_get_place_proc_ids(index, cpu);
        for (int i = 0; i < many && !st; i++)
            if (cpu[i] >= 0 && cpu[i] < MOST_CPUS) CPU_SET_S((size_t)cpu[i], bytes, set);
        hga_delete(NULL, cpu, many, sizeof *cpu);
    }
    return st;
}

/* In ascending order: those of OpenMP's places where it binds threads, else those of the thread's mask. */
hga_status cpus_allowed(hga_id **cpus, hga_id *n)
{
    hga_status st = HGA_OK;
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
    size_t bytes = CPU_ALLOC_SIZE(MOST_CPUS);
    *cpus = NULL, *n = 0;
    HGA_TRY(set ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for a set of %d CPUs", MOST_CPUS));
    CPU_ZERO_S(bytes, set);
    if (cpus_bound_by_openmp()) HGA_TRY(add_places(bytes, set));
    if (CPU_COUNT_S(bytes, set) == 0 && sched_getaffinity(0, bytes, set) != 0)
        HGA_TRY(hga_fail(HGA_EEXTERNAL, "the thread's CPUs cannot be read, errno %d", errno));
    *n = CPU_COUNT_S(bytes, set);
    HGA_TRY(hga_new(NULL, *n, sizeof **cpus, cpus));
    for (hga_id cpu = 0, found = 0; found < *n; cpu++)
        if (CPU_ISSET_S((size_t)cpu, bytes, set)) (*cpus)[found++] = cpu;
done:
    if (set) CPU_FREE(set);
    return st;
}

/* The first CPU of the calling thread's place; -1: none. */
hga_id cpu_of_omp_place(void)
{
    int index = omp_get_place_num(), many = index < 0 ? 0 : omp_get_place_num_procs(index), *cpu = NULL;
    hga_id first = -1;
    if (many <= 0 || hga_new(NULL, many, sizeof *cpu, &cpu)) return -1;
    omp_get_place_proc_ids(index, cpu);
    for (int i = 0; i < many; i++)
        if (first < 0 || cpu[i] < first) first = cpu[i];
    hga_delete(NULL, cpu, many, sizeof *cpu);
    return first;
}
