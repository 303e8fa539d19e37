/* measure.h: a plan and its executions, measured. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "timing.h"

/* What to run. */
typedef struct bench_job {
    const hga_graph *graph;
    const hga_program *program;
    hga_shape shape;
    hga_options options;
} bench_job;

typedef struct bench_measurement {
    bench_timing time; /* of an execution */
    double plan_seconds;
    hga_cost cost; /* edges of all attended relations, each as often as a stage attends it */
    hga_id threads;
    int64_t workspace_bytes, plan_bytes, graph_bytes;
} bench_measurement;

/* Only makes the plan: everything but the times of execution. Free *plan with hga_plan_destroy. */
hga_status bench_plan(const bench_job *j, hga_plan **plan, bench_measurement *out);
/* Warm up and execute as the rules say; `io` then holds the output. */
hga_status bench_execute(const hga_plan *plan, const hga_io *io, const bench_rules *rules, bench_measurement *out);

#endif
