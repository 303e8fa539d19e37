/* clock.c: three clocks of POSIX read together. */
#include "clock.h"

#include <stdint.h>
#include <time.h>

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bench_time bench_clock(void)
{
    return (bench_time){read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_PROCESS_CPUTIME_ID),
                        read_clock(CLOCK_THREAD_CPUTIME_ID)};
}

/* The whole nanoseconds that a clock counts, unlike the difference of two long numbers: otherwise a time that is
   read back from a file differs, and may round to other digits. */
static double counted(double seconds) { return (double)(int64_t)(seconds * 1e9 + 0.5) / 1e9; }

/* In the reverse order: reading a processor's clock takes 0.2 us, which must not count as work. */
bench_time bench_since(bench_time start)
{
    const double thread = read_clock(CLOCK_THREAD_CPUTIME_ID), process = read_clock(CLOCK_PROCESS_CPUTIME_ID),
                 wall = read_clock(CLOCK_MONOTONIC);
    return (bench_time){counted(wall - start.wall), counted(process - start.process), counted(thread - start.thread)};
}

bench_time bench_time_add(bench_time a, bench_time b)
{
    return (bench_time){a.wall + b.wall, a.process + b.process, a.thread + b.thread};
}

double bench_processor(bench_time took, int threads) { return threads > 1 ? took.process : took.thread; }

double bench_busy(bench_time took, int threads)
{
    return took.wall > 0 ? bench_processor(took, threads) / (took.wall * (threads > 1 ? threads : 1)) : 0;
}

double bench_seconds(void) { return read_clock(CLOCK_MONOTONIC); }
