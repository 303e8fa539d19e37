/* clock.h: the one clock of every measurement: wall time, and the processor time within it. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

/* Seconds, from some moment on. */
typedef struct bench_time {
    double wall;    /* only goes forward */
    double process; /* processor time of all threads of this process */
    double thread;  /* of the calling thread alone */
} bench_time;

bench_time bench_clock(void);
/* The time that passed since. */
bench_time bench_since(bench_time start);
/* The sum of two. */
bench_time bench_time_add(bench_time a, bench_time b);

/* Processor time over wall time, per thread: near 1 when `threads` threads had a core each. On one thread it is the
   calling thread's, as the others of this process may spin while they wait. 0 when no time passed. */
double bench_busy(bench_time took, int threads);
/* The processor time that counts for `threads` threads. */
double bench_processor(bench_time took, int threads);

/* Seconds of wall time. */
double bench_seconds(void);

#endif
