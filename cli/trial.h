/* trial.h: a variant on the words of a scene, measured and held to dense attention: what `hga run`, its times against
   length and `hga choose` do with each. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "contenders.h"
#include "measure.h"
#include <jansson.h>

/* How it is run. `look`, where there is one, sees the plan that was measured. */
typedef struct trial_way {
    hga_shape shape; /* dim_v 0: dim */
    hga_options options;
    bench_rules rules;
    int plans_only; /* nothing is executed */
    int (*look)(void *context, const contender *c, const hga_graph *g, const hga_program *p, const hga_plan *plan);
    void *context;
} trial_way;

/* Dense attention's output, rows and time, which the first trial of a reference leaves there. Zeroed: none. */
typedef struct reference {
    float *out, *weights;
    double seconds;
} reference;

typedef struct trial {
    hga_id nodes;
    int64_t bytes; /* of graph, plan, workspace and tensors */
    double graph_seconds;
    double distance, divergence; /* of the output, and of attention's rows */
    bench_measurement m;
} trial;

/* ref NULL: times alone. */
int trial_run(const scene *s, const contender *c, const trial_way *way, reference *ref, trial *out);
/* Attention's rows on some words. */
int trial_probe(const scene *probe, const contender *c, const hga_options *options, reference *ref, trial *out);
void reference_clear(reference *ref);

/* What a row of a table says of it, beside what was tried; NULL when memory ran out. */
json_t *trial_json(const trial *t, hga_id tokens, const reference *dense);

#endif
