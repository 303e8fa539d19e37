/* coverage.h: counting the lists of query tokens, for walks that visit them anyway. */
#ifndef HGA_COVERAGE_H
#define HGA_COVERAGE_H

#include "flow.h"
#include "hga_inspect.h"

/* Example pairs, of the first query token that has one; -1. */
typedef struct coverage_examples {
    hga_id more[2], none[2], diagonal;
} coverage_examples;

typedef struct coverage_count {
    hga_nodes nodes;
    int causal;
    hga_coverage *count;
    coverage_examples seen;
    int64_t *once, *more; /* of the current list: tokens before each interval that are covered once, and more often */
    int64_t capacity[2];
} coverage_count;

/* Initializes *out, which is written as rows are counted; HGA_EINVAL: out is NULL. Call coverage_end whatever the
   outcome. */
hga_status coverage_begin(coverage_count *s, const hga_graph *g, int causal, hga_coverage *out);
/* A flow_row whose context is the count: counts v's list if v is a query token. */
hga_status coverage_row(const interval *list, int64_t n, int same, hga_id v, void *context);
/* Chooses the example pair in *out, and frees the count. */
void coverage_end(coverage_count *s);

#endif
