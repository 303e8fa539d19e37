/* bench_decode.h: cases of `hga bench --decode`: tokens one by one behind a context, beside a flat cache. */
#ifndef CLI_BENCH_DECODE_H
#define CLI_BENCH_DECODE_H

#include "bench_run.h"

#define DEFAULT_DECODED                                                                                          \
    "window:left=256:right=0:causal=1,htransformer:causal=1,hsa:branching=4:causal=1,hsa:branching=16:causal=1," \
    "fenwick"

/* A flat cache of p->tokens: one query against so many keys and values, by the same engine. Its row is appended, and
   *seconds has the median of a token (0 of a dry run). The place's variant is not looked at. */
int bench_decode_flat(const bench_place *p, json_t *rows, double *seconds);
/* The place's variant behind as many tokens; `flat` is what a token takes there. */
int bench_decode_run(const bench_place *p, double flat, json_t *rows);

#endif
