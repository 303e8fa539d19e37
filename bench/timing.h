/* timing.h: how long an action takes: warm-up, repeats until stable, median, quartiles, the least, and whether the
   processor was ours meanwhile. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include "clock.h"
#include "hga.h"

/* What the machine allows at a moment: 1e9 multiply-adds' operations a second, those of products of bf16 pairs, bytes
   from memory in their order, and of rows at random. */
enum { BENCH_FMA, BENCH_PAIRS, BENCH_DRAM, BENCH_GATHER, BENCH_LIMITS };

/* Measured alternately with the repeats of an action: on a shared core a limit that was measured a minute ago says
   nothing of the repeat at hand. */
typedef struct bench_limits {
    /* of `threads` threads together, 0 where not requested; takes a few milliseconds */
    hga_status (*ask)(void *context, int threads, double rate[BENCH_LIMITS]);
    void *context;
} bench_limits;

/* The measured limit. */
typedef struct bench_limit {
    double rate; /* the median, 1e9 a second; 0: not measured */
    /* 1e9: the median over the repeats of what could have been done in one's time, at the mean of the rates measured
       before and after it. Work over this is the median share of the limit. */
    double possible;
} bench_limit;

/* When to stop. Zeroed: one warm-up, and repeats until the median is stable, for two seconds at most. */
typedef struct bench_rules {
    double budget;       /* seconds at most, without the warm-up; 0: two */
    double min_time;     /* seconds at least, whatever else says stop */
    int repetitions;     /* just as many; 0: until stable */
    int most;            /* until the budget is used up, but no more than so many; 0: until stable */
    int by_processor;    /* on one thread: processor time is timed */
    int warmup;          /* calls before the clock runs; 0: one, -1: none */
    bench_limits limits; /* measured before and after each repeat, or so many short ones; ask NULL: never */
} bench_rules;

/* The seconds that a case may take. */
double bench_budget(const bench_rules *rules);

/* What the calls took, in seconds of one call. */
typedef struct bench_timing {
    double seconds, least, quartile1, quartile3; /* wall: median, least, quartiles */
    double most, mean;                           /* the longest, and the mean */
    double spread;                               /* the median distance from the median */
    double processor, processor_least;           /* of all threads: mean and least */
    double busy;                                 /* processor time over wall time per thread, see bench_busy */
    bench_limit limit[BENCH_LIMITS];
    int repeats;
} bench_timing;

/* Below this share of the processor a time says more of the machine's other work than of ours; scaling figures need
   more, as two times meet in them. */
#define BENCH_TRUSTED         0.90
#define BENCH_TRUSTED_SCALING 0.95

/* Times an action that runs on `threads` threads. A status other than HGA_OK ends it. */
hga_status bench_repeat(hga_status (*run)(void *context), void *context, const bench_rules *rules, int threads,
                        bench_timing *out);

/* Two actions in turns, equally often: `prepare`, which is not timed, then the first, then the second. */
hga_status bench_alternate(hga_status (*prepare)(void *context), hga_status (*const run[2])(void *context),
                           void *context, const bench_rules *rules, int threads, bench_timing out[2]);

/* Sorts in ascending order. */
void bench_sort(double *x, int64_t n);
/* The quantile of n > 0 sorted numbers at `share`, interpolated between two of them. */
double bench_quantile(const double *sorted, int n, double share);

#endif
