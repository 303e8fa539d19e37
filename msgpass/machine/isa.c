/* isa.c: the instruction sets of this machine, and the only place that reads the environment (HGA_ISA, HGA_TUNING;
   OpenMP reads OMP_NUM_THREADS itself). */
#include "hga_machine.h"
#include "machine.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP2_BF16 /* headers before Linux 5.6 */
#define HWCAP2_BF16 (1ul << 14)
#endif
#endif

#if defined(__x86_64__)
/* Conversions of float16, which __builtin_cpu_supports of clang before 15 does not know by name. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

/* Whether this machine runs the instruction set. */
static int usable(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (strcmp(isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (strcmp(isa, "avx512bf16") == 0) return usable("avx512") && __builtin_cpu_supports("avx512bf16");
#endif
#if defined(__aarch64__)
    if (strcmp(isa, "neon") == 0) return 1;
#if defined(__linux__) /* elsewhere nobody has looked */
    if (strcmp(isa, "neonbf16") == 0) return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#endif
#endif
    return strcmp(isa, "ref") == 0;
}

/* Intel's products of pairs are slower than float32's (Sapphire Rapids: 89 GFLOP/s against 157): there they run only
   when requested by name. ARM's makers document as many of them a cycle as of float32's, each of twice the products. */
static int best(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx512bf16") == 0) return !__builtin_cpu_is("intel");
#endif
    (void)isa;
    return 1;
}

/* The last of the table that runs here, and is best where none is named. */
static const kernel_table *find(const char *isa)
{
    const kernel_table *found = NULL;
    for (const kernel_table *const *t = kernel_tables; *t; t++)
        if (usable((*t)->isa) && (isa ? strcmp(isa, (*t)->isa) == 0 : best((*t)->isa))) found = *t;
    return found;
}

hga_status isa_kernels(const char *isa, const kernel_table **out)
{
    if (!isa) isa = getenv("HGA_ISA");
    if (isa && !*isa) isa = NULL;
    *out = find(isa);
    if (*out) return HGA_OK;
    return hga_fail(HGA_EUNSUPPORTED, "instruction set %s is not one of this machine's: %s", isa, hga_isa_list());
}

/* Static, since the text must outlive the call. */
static struct {
    pthread_mutex_t lock;
    char text[100];
} list_under_lock = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The best is last. */
static void write_list(char *text, size_t capacity)
{
    const kernel_table *last = find(NULL);
    int at = 0;
    for (const kernel_table *const *t = kernel_tables; *t; t++)
        if (usable((*t)->isa) && *t != last) at += snprintf(text + at, capacity - (size_t)at, "%s ", (*t)->isa);
    snprintf(text + at, capacity - (size_t)at, "%s", last->isa);
}

const char *hga_isa_list(void)
{
    pthread_mutex_lock(&list_under_lock.lock);
    if (!*list_under_lock.text) write_list(list_under_lock.text, sizeof list_under_lock.text);
    pthread_mutex_unlock(&list_under_lock.lock);
    return list_under_lock.text;
}

hga_status hga_isa_pairs(const char *isa, int *pairs)
{
    const kernel_table *kernels;
    if (!pairs) return hga_fail(HGA_EINVAL, "no pairs");
    hga_status st = isa_kernels(isa, &kernels);
    if (!st) *pairs = kernels->transpose_pairs != NULL;
    return st;
}

/* The caches as hwloc knows them, where the C library knows none: on ARM. Both stay 0 where it does not either. */
static void add_caches(processor *p)
{
    topology *here = NULL;
    if (topology_open(NULL, &here) != HGA_OK) return;
    p->second_cache = topology_cache_at(here, 2).bytes, p->third_cache = topology_cache_at(here, 3).bytes;
    topology_close(here);
}

hga_status isa_tuning(tuned *out)
{
    const char *text = getenv("HGA_TUNING");
    *out = (tuned){.here = processor_here(), .declared = text && *text};
    if (!out->here.second_cache) add_caches(&out->here);
    out->is = tuning_of(&out->here);
    return tuning_override(text, &out->is);
}

hga_id isa_threads(hga_id requested, const topology *machine)
{
    if (requested > 0) return requested;
    hga_id cores = topology_cores(machine), most = (hga_id)omp_get_max_threads();
    return most < cores || getenv("OMP_NUM_THREADS") ? most : cores;
}
