/* machine_context.h: the machine of a measurement: what one needs to know of a number a year later. */
#ifndef BENCH_MACHINE_CONTEXT_H
#define BENCH_MACHINE_CONTEXT_H

enum { BENCH_MAX_CACHES = 16 };

/* A cache that the first core sees. */
typedef struct bench_cache {
    char type[16]; /* Data, Instruction, Unified */
    int level, sharing /* cores */;
    long long bytes;
} bench_cache;

/* Unknown to the system: empty or 0. */
typedef struct bench_context {
    char cpu[128], governor[32]; /* the first core's model (ARM: numbers of each kind) and frequency governor */
    double mhz;                  /* the first core's, now */
    double load[3];              /* mean numbers of processes that wanted a core, over 1, 5 and 15 minutes */
    int cores;                   /* online */
    bench_cache cache[BENCH_MAX_CACHES];
    int n_caches;
} bench_context;

/* Reads Linux's /proc and /sys. */
void bench_context_read(bench_context *out);
/* Its model and frequency alone, from a file such as /proc/cpuinfo. */
void bench_context_cpu(const char *path, bench_context *out);

#endif
