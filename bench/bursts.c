/* bursts.c: bursts of a few milliseconds, on all of a case's threads at once. */
#include "bursts.h"

#include <omp.h>
#include <stdlib.h>

#include "memory.h"

/* Memory is read in four ranges in turn, so that each is out of the caches when it is read again. */
enum { PARTS = 4, PART_FLOATS = 8 << 20, ROW_STEP = 128 };
static const double burst = 0.002;

static const float *part_of(const bench_asking *a, hga_pos i) { return a->memory_read + i % PARTS * PART_FLOATS; }

static hga_status ask_gather(const bench_asking *a, const float *part, double *rate)
{
    hga_id columns = (a->row + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    if (columns > PART_FLOATS) columns = PART_FLOATS;
    return hga_measure_gather(a->isa, PART_FLOATS / columns, columns, part, rate);
}

/* One thread, on ranges of memory from `at` on. */
static hga_status ask_alone(const bench_asking *a, hga_pos at, double rate[BENCH_LIMITS])
{
    hga_status st;
    HGA_TRY(hga_measure_flops(a->isa, 0, burst, &rate[BENCH_FMA]));
    if (a->pairs) HGA_TRY(hga_measure_flops(a->isa, 1, burst, &rate[BENCH_PAIRS]));
    if (a->memory) HGA_TRY(hga_measure_read(a->isa, PART_FLOATS, part_of(a, at), &rate[BENCH_DRAM]));
    if (a->memory && a->row) HGA_TRY(ask_gather(a, part_of(a, at + PARTS / 2), &rate[BENCH_GATHER]));
done:
    return st;
}

static void add(const double from[BENCH_LIMITS], double factor, double to[BENCH_LIMITS])
{
    for (int i = 0; i < BENCH_LIMITS; i++) to[i] += factor * from[i];
}

/* All threads at once, each in a range of memory of its own. */
static hga_status ask_team(const bench_asking *a, int threads, double rate[BENCH_LIMITS])
{
    hga_status st = HGA_OK;
#pragma omp parallel num_threads(threads)
    {
        double own[BENCH_LIMITS] = {0};
        hga_status mine = ask_alone(a, a->at + omp_get_thread_num(), own);
#pragma omp critical
        {
            add(own, 1, rate);
            if (mine) st = mine;
        }
    }
    return st;
}

static hga_status ask(void *context, int threads, double rate[BENCH_LIMITS])
{
    bench_asking *a = context;
    double sum[BENCH_LIMITS] = {0};
    int many = a->alone || threads < 1 ? 1 : threads;
    hga_status st = ask_team(a, many, sum);
    a->at = (a->at + many) % PARTS;
    for (int i = 0; i < BENCH_LIMITS; i++) rate[i] = 0;
    add(sum, threads > many ? (double)threads / many : 1, rate);
    return st;
}

hga_status bench_limits_open(bench_asking *a, bench_limits *out)
{
    hga_status st = HGA_OK;
    *out = (bench_limits){.ask = ask, .context = a};
    if (a->memory && !a->memory_read)
        st = bench_new((int64_t)PARTS * PART_FLOATS, sizeof *a->memory_read, &a->memory_read);
    if (!st && a->memory) a->bytes = (int64_t)PARTS * PART_FLOATS * (int64_t)sizeof *a->memory_read;
    return st;
}

void bench_limits_close(bench_asking *a)
{
    free(a->memory_read);
    a->memory_read = NULL, a->bytes = 0;
}
