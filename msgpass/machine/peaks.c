/* peaks.c: this machine's limits, measured with the instructions the kernels use. */
#define _POSIX_C_SOURCE 200809L
#include "hga_machine.h"
#include "machine.h"

#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of many short runs: noise only slows down, and on a busy machine few runs are undisturbed. A fifth of a
   second is a hundred runs, and is enough for a slow instruction set, or under an instrument. */
static double best_flops(double (*peak)(hga_pos n, float *sink), int runs)
{
    double best = 0, end = seconds() + 0.2;
    for (int run = 0; run < runs && seconds() < end; run++) {
        float sink;
        double t = seconds(), flops = peak(6000000, &sink);
        t = seconds() - t;
        if (flops / t > best) best = flops / t;
    }
    return best / 1e9;
}

/* Exponentials, in 1e9 a second. */
static double best_exp(const kernel_table *k)
{
    enum { N = 4096 };
    float x[N];
    double best = 0;
    for (int run = 0; run < 30; run++) {
        double t = 0;
        for (int again = 0; again < 100; again++) {
            for (int i = 0; i < N; i++) x[i] = -(float)(i % 50);
            double start = seconds();
            k->exp(N, x);
            t += seconds() - start;
        }
        if (100.0 * N / t > best) best = 100.0 * N / t;
    }
    return best / 1e9;
}

/* Gigabytes read in a second. */
static double best_read(const kernel_table *k, const float *x, hga_pos n, int again)
{
    double best = 0;
    volatile float sink = 0;
    for (int run = 0; run < 6; run++) {
        double t = seconds();
        for (int i = 0; i < again; i++) sink = sink + k->read(n, x);
        t = seconds() - t;
        double rate = (double)n * again * (double)sizeof *x / t;
        if (rate > best) best = rate;
    }
    return best / 1e9;
}

hga_status hga_measure_peaks(const char *isa, hga_peaks *out)
{
    enum { DRAM_FLOATS = 48 << 20, L2_FLOATS = 64 << 10 };
    const kernel_table *k;
    float *x = NULL;
    *out = (hga_peaks){0};
    hga_status st = isa_kernels(isa, &k);
    if (!st) st = hga_new_zero(NULL, DRAM_FLOATS, sizeof *x, &x);
    if (st) return st;
    out->fma_gflops = best_flops(k->peak_fma, 200);
    if (k->peak_pairs) out->bf16_gflops = best_flops(k->peak_pairs, 100);
    out->exp_gelements = best_exp(k);
    out->l2_gbytes = best_read(k, x, L2_FLOATS, 400);
    out->dram_gbytes = best_read(k, x, DRAM_FLOATS, 1);
    hga_delete(NULL, x, DRAM_FLOATS, sizeof *x);
    return HGA_OK;
}

/* Rounds are short compared to a scheduler's time slice. */
hga_status hga_measure_flops(const char *isa, int pairs, double for_seconds, double *gflops)
{
    enum { ROUND = 120000 };
    const kernel_table *k;
    double flops = 0, took = 0, start;
    *gflops = 0;
    if (!(for_seconds > 0 && for_seconds <= 60))
        return hga_fail(HGA_EINVAL, "measuring for %g seconds: above 0, at most 60", for_seconds);
    hga_status st = isa_kernels(isa, &k);
    if (st) return st;
    double (*peak)(hga_pos, float *) = pairs ? k->peak_pairs : k->peak_fma;
    if (!peak) return HGA_OK;
    for (start = seconds(); took < for_seconds; took = seconds() - start) {
        float sink;
        flops += peak(ROUND, &sink);
    }
    *gflops = flops / took / 1e9;
    return HGA_OK;
}

/* Floats of one iteration of the read kernel. */
enum { READ_STEP = 8 * KERNEL_PAD };

static hga_status check_floats(hga_pos n)
{
    if (n >= READ_STEP && n % READ_STEP == 0) return HGA_OK;
    return hga_fail(HGA_EINVAL, "measuring by %lld floats: not a multiple of %d", (long long)n, READ_STEP);
}

hga_status hga_measure_read(const char *isa, hga_pos n, const float *x, double *gbytes)
{
    const kernel_table *k;
    *gbytes = 0;
    hga_status st = check_floats(n);
    if (!st) st = isa_kernels(isa, &k);
    if (st) return st;
    double start = seconds();
    volatile float sink = k->read(n, x);
    *gbytes = (double)n * (double)sizeof *x / (seconds() - start) / 1e9;
    (void)sink;
    return HGA_OK;
}

/* A permutation of the numbers below n without predictable steps: invertible mixing of a power of two of numbers,
   skipping those from n on. */
typedef struct shuffle {
    uint64_t n, mask, at;
    int half; /* of the mask's bits */
} shuffle;

static shuffle shuffled(hga_pos n)
{
    shuffle s = {.n = (uint64_t)n, .mask = 1};
    int bits = 1;
    for (; s.mask < s.n - 1; bits++) s.mask = 2 * s.mask + 1;
    s.half = (bits + 1) / 2;
    return s;
}

/* The next of the mixed numbers that is below n. */
static hga_pos next_shuffled(shuffle *s)
{
    for (;;) {
        uint64_t x = s->at++ & s->mask;
        for (int round = 0; round < 2; round++) {
            x = x * 0x9e3779b97f4a7c15u & s->mask;
            x ^= x >> s->half;
        }
        if (x < s->n) return (hga_pos)x;
    }
}

hga_status hga_measure_gather(const char *isa, hga_pos n, hga_id columns, const float *x, double *gbytes)
{
    enum { AHEAD = 8, LINE = 16, SECOND_CACHE = 2 };
    const kernel_table *k;
    *gbytes = 0;
    hga_status st = n >= 1 ? check_floats(columns) : hga_fail(HGA_EINVAL, "measuring by %lld rows", (long long)n);
    if (!st) st = isa_kernels(isa, &k);
    if (st) return st;
    const float *row[AHEAD];
    shuffle order = shuffled(n);
    volatile float sink = 0;
    for (hga_pos i = 0; i < AHEAD; i++) row[i] = x + next_shuffled(&order) * columns;
    double start = seconds();
    for (hga_pos i = 0; i < n; i++) {
        const float *now = row[i % AHEAD], *next = x + next_shuffled(&order) * columns;
        for (hga_id j = 0; j < columns; j += LINE) __builtin_prefetch(next + j, 0, SECOND_CACHE);
        row[i % AHEAD] = next;
        sink = sink + k->read(columns, now);
    }
    *gbytes = (double)n * columns * (double)sizeof *x / (seconds() - start) / 1e9;
    return HGA_OK;
}
