/* bursts.h: what the machine allows at a moment, in turns with a case's repeats. On a core that is shared with a
   neighbour the rate of multiply-adds halves and doubles from minute to minute while all of the processor's time is
   ours. */
#ifndef BENCH_BURSTS_H
#define BENCH_BURSTS_H

#include "timing.h"

/* What to measure. */
typedef struct bench_asking {
    const char *isa;
    int pairs; /* products of bf16 pairs, too */
    /* reading memory, too, which leaves nothing of the case in the caches: for cases that are judged by it */
    int memory;
    hga_id row;         /* .. and rows of so many floats at random, up to a multiple of 128; 0: not measured */
    int alone;          /* one thread stands for all: where the case's threads are not OpenMP's */
    float *memory_read; /* .. and where it reads, resident meanwhile */
    int64_t bytes;
    hga_pos at;
} bench_asking;

/* Limits that read `*a` until bench_limits_close. */
hga_status bench_limits_open(bench_asking *a, bench_limits *out);
void bench_limits_close(bench_asking *a);

#endif
