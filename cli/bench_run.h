/* bench_run.h: one case of a benchmark. */
#ifndef CLI_BENCH_RUN_H
#define CLI_BENCH_RUN_H

#include "bench_cases.h"
#include "bench_report.h"
#include "call_files.h"

/* What to run, and how. */
typedef struct bench_place {
    const bench_variant *variant;
    hga_id tokens;
    hga_shape shape;
    hga_options options; /* threads 0: the library's default */
    hga_peaks peaks;     /* of options.isa */
    bench_rules rules;
    const typed_call *call;
    const call_files *files; /* its, read; NULL: each case reads them */
    int by_memory;           /* judged by the bandwidth of memory, whatever it is limited by */
    int relative;            /* with relative keys */
    int gradient;            /* and a row of the backward pass */
    int dry_run;             /* measure nothing, only say what would run */
    unsigned peers;          /* to run beside it, see peers_read */
} bench_place;

/* The program gets what was typed for it; the call gets the rest, from arrays that `files` keeps. */
int bench_put(const bench_place *p, bench_case *c);
int bench_bind(const bench_place *p, bench_case *c, call_files *files);

/* Measure a case and append its rows, ours first. *failed counts the peers whose results were wrong. */
int bench_run(const bench_place *p, json_t *rows, int *failed);

#endif
