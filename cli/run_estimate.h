/* run_estimate.h: what a run would take, before it runs: hga run --dry-run. */
#ifndef CLI_RUN_ESTIMATE_H
#define CLI_RUN_ESTIMATE_H

#include <jansson.h>

#include "trial.h"

typedef struct estimate_wish {
    const scene *whole, *probe; /* the text; its first words, on which every variant is run */
    const contenders *all;
    hga_shape shape;
    hga_options options;
    bench_rules rules;
    int with_prefixes;
} estimate_wish;

/* A row for each contender; *seconds: about what the whole run takes, *bytes: what its largest variant does. */
int run_estimate(const estimate_wish *w, json_t *rows, double *seconds, int64_t *bytes);
int run_estimate_print(const json_t *rows, double seconds, int64_t bytes);

#endif
