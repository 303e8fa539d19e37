/* measure.h: how long an execution takes. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include "complain.h"

/* What to run. `blame` and `title` are for complaints. */
typedef struct job {
    const hga_graph *graph;
    const hga_program *program;
    hga_shape shape;
    hga_options options;
    const char *title;
} job;

typedef struct measurement {
    double plan_seconds;
    double seconds, seconds_min, spread; /* median, least, and the median distance from the median */
    double cpu_seconds;                  /* of all threads, per execution */
    int repeats;
    hga_cost cost;
    hga_id threads;
    int64_t workspace_bytes, plan_bytes, graph_bytes;
} measurement;

/* Seconds on a clock that only goes forward. */
double seconds_now(void);

/* Time an action until the median is stable or `budget` seconds have passed, once at least; out->repeats starts at 0. A
   status other than CLI_GOOD ends it. */
int measure_repeats(int (*run)(void *context), void *context, double budget, measurement *out);
/* Plan only: everything but the times of execution. */
int measure_plan(const job *j, hga_plan **plan, measurement *out);
/* Execute once to warm up, then until the median is stable or `budget` seconds have passed; `io` then holds the output.
   */
int measure_execution(const job *j, const hga_plan *plan, const hga_io *io, double budget, measurement *out);

/* The most memory this process has had resident since the last reset, in bytes; 0 where the system does not say. */
int64_t peak_resident(void);
void reset_peak_resident(void);

#endif
