/* peaks.c: peaks, and how disturbed they were. */
#include "peaks.h"

#include <math.h>

enum { MOST_TIMES = 3 };

static void keep_best(const hga_peaks *now, hga_peaks *best)
{
    best->fma_gflops = fmax(best->fma_gflops, now->fma_gflops);
    best->exp_gelements = fmax(best->exp_gelements, now->exp_gelements);
    best->l2_gbytes = fmax(best->l2_gbytes, now->l2_gbytes);
    best->dram_gbytes = fmax(best->dram_gbytes, now->dram_gbytes);
    best->bf16_gflops = fmax(best->bf16_gflops, now->bf16_gflops);
}

hga_status bench_measure_peaks(const char *isa, const bench_rules *rules, bench_peaks *out)
{
    double end = bench_seconds() + bench_budget(rules);
    *out = (bench_peaks){0};
    while (out->times == 0 || (out->times < MOST_TIMES && out->busy < BENCH_TRUSTED && bench_seconds() < end)) {
        hga_peaks now;
        bench_time start = bench_clock();
        hga_status st = hga_measure_peaks(isa, &now);
        if (st) return st;
        out->busy = fmax(out->busy, bench_busy(bench_since(start), 1));
        keep_best(&now, &out->best);
        out->times++;
    }
    return HGA_OK;
}
