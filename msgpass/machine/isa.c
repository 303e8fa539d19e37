/* isa.c: the instruction sets of this machine, and the only place that reads the environment (HGA_ISA, HGA_TUNING;
   OpenMP reads OMP_NUM_THREADS itself). */
#include "hga_machine.h"
#include "machine.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Whether this machine runs the instruction set. */
static int usable(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (strcmp(isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (strcmp(isa, "avx512bf16") == 0) return usable("avx512") && __builtin_cpu_supports("avx512bf16");
#endif
#if defined(__aarch64__)
    if (strcmp(isa, "neon") == 0) return 1;
#endif
    return strcmp(isa, "ref") == 0;
}

/* Intel's products of pairs are slower than float32's (Sapphire Rapids: 89 GFLOP/s against 157): there they run only
   when requested by name. */
static int best(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx512bf16") == 0) return !__builtin_cpu_is("intel");
#endif
    (void)isa;
    return 1;
}

hga_status isa_kernels(const char *isa, const kernel_table **out)
{
    *out = NULL;
    if (!isa) isa = getenv("HGA_ISA");
    if (isa && !*isa) isa = NULL;
    for (const kernel_table *const *t = kernel_tables; *t; t++)
        if (usable((*t)->isa) && (isa ? strcmp(isa, (*t)->isa) == 0 : best((*t)->isa))) *out = *t;
    if (*out) return HGA_OK;
    return hga_fail(HGA_EUNSUPPORTED, "instruction set %s is not one of this machine's: %s", isa, hga_isa_list());
}

/* The best is last; static, since the text must outlive the call. */
const char *hga_isa_list(void)
{
    if (usable("neon")) return "ref neon";
    if (!usable("avx2")) return "ref";
    if (!usable("avx512")) return "ref avx2";
    if (!usable("avx512bf16")) return "ref avx2 avx512";
    return best("avx512bf16") ? "ref avx2 avx512 avx512bf16" : "ref avx2 avx512bf16 avx512";
}

hga_status hga_isa_pairs(const char *isa, int *pairs)
{
    const kernel_table *kernels;
    if (!pairs) return hga_fail(HGA_EINVAL, "no pairs");
    hga_status st = isa_kernels(isa, &kernels);
    if (!st) *pairs = kernels->transpose_pairs != NULL;
    return st;
}

hga_status isa_tuning(tuned *out)
{
    const char *text = getenv("HGA_TUNING");
    *out = (tuned){.here = processor_here(), .declared = text && *text};
    out->is = tuning_of(&out->here);
    return tuning_override(text, &out->is);
}

hga_id isa_threads(hga_id requested, const topology *machine)
{
    if (requested > 0) return requested;
    hga_id cores = topology_cores(machine), most = (hga_id)omp_get_max_threads();
    return most < cores || getenv("OMP_NUM_THREADS") ? most : cores;
}
