/* cases.h: cases by their words: a variant at a length, ready to run on random tensors. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "measure.h"

/* Zeroed it is empty; bench_case_clear accepts it in any state. */
typedef struct bench_case {
    hga_graph *graph;
    hga_program program;
    float *relative;   /* [types][dim], see bench_case_relative; else NULL */
    float *type_scale; /* [n_type_scale], where the program has weighted sums; else NULL */
    hga_id n_type_scale;
    hga_plan *plan;
    hga_workspace *workspace;
    float *tensors;
    int64_t tensor_bytes; /* query, key, value and out */
    hga_id choosers;      /* more than 1: the graph has rows for each, and its shape is bench_case_shape's */
    hga_io io;
} bench_case;

/* The graph and program of "bpt k=4 causal=1" on that many tokens: variants of the registry, and random graphs:
   "random degree=32" (as many sources a row), "treeformer-fine height=5", "treeformer-coarse" (leaves drawn at
   random; without a height, leaves of about 64 tokens), "segments length=64" (segments of so many tokens). */
hga_status bench_case_make(const char *words, hga_id tokens, bench_case *out);
/* Are words of the second kind? If so, checks them. */
hga_status bench_case_by_chance(const char *words, int *by_chance);
/* The blocks that heads choose by the queries and keys that bench_case_tensors makes. */
hga_status bench_make_routed(const hga_routed *p, const hga_shape *shape, bench_case *out);
/* The shape of a call of so many heads: those of one chooser. */
hga_shape bench_case_shape(const bench_case *c, const hga_shape *shape);

/* Tensors for a graph and program that were made: `tensor_bytes`, and with `allocate` the numbers themselves,
   uniform in [-1, 1) and the same in every run. */
hga_status bench_case_tensors(bench_case *c, const hga_shape *shape, int allocate);
/* Random relative keys for the types of the first attended relation, which an execution then adds to the keys. */
hga_status bench_case_relative(bench_case *c, hga_id dim);
/* Plan, workspace and tensors. */
hga_status bench_case_ready(bench_case *c, const hga_shape *shape, const hga_options *options);
/* Execute a case that is ready. */
hga_status bench_case_time(bench_case *c, const bench_rules *rules, bench_timing *out);
void bench_case_clear(bench_case *c);

/* For studies, which are short programs: reports an error on stderr; returns 1 for main. */
int bench_complain(const char *what, hga_status st);
/* The i-th word of the command line as a number, or `otherwise` without it. */
hga_id bench_argument(int n_words, char **word, int i, hga_id otherwise);

#endif
