/* bench.h: what the measurements share: a clock, the best of several runs, and attention made ready to run on random
   tensors. */
#ifndef HGA_BENCH_H
#define HGA_BENCH_H

#include <hga.h>

/* Seconds of processor time. What uses it runs on one thread, and the time in which a shared machine does other work is
   not its own. */
double bench_now(void);

/* n uniform floats in [-1, 1], the same in every run; NULL when there is no memory. Release with free(). */
float *bench_random(int64_t n);

/* A graph that is `graph` and `program` before bench_ready, and after it also plan, workspace and tensors. Zeroed,
   bench_clear accepts it too. */
typedef struct bench_case {
    hga_graph *graph;
    hga_program program;
    hga_plan *plan;
    hga_workspace *state;
    float *tensors;
    double tensor_bytes; /* query, key, value and out */
    hga_io io;
} bench_case;

/* Plan, workspace and tensors for the case's graph; the graph stays the case's own. */
hga_status bench_ready(bench_case *c, const hga_shape *shape, const hga_options *options);
/* The smallest time of several executions: noise only adds. At least two, and for at least `enough` seconds. */
hga_status bench_best(bench_case *c, double enough, double *seconds);
void bench_clear(bench_case *c);

/* Say what went wrong in a measurement; 1 for main to return. */
int bench_complain(const char *what, hga_status st);

/* The i-th word of the command line as a number, or what it is without. */
hga_id bench_argument(int n_words, char **word, int i, hga_id otherwise);

#endif
