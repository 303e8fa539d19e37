/* row_ranges.h: ranges of an attending stage's rows, which threads divide among them. They depend on the graph and
   the shape alone, and so do sums: a source that several ranges have edges to belongs to the first of them, the
   others have rows of their own for it, which are added in the order of the ranges. */
#ifndef HGA_GRADIENT_ROW_RANGES_H
#define HGA_GRADIENT_ROW_RANGES_H

#include "gradient.h"
#include "plan.h"

struct subtrees;

/* Range i is of rows, or subtrees, first[i] .. first[i + 1] - 1, of about equal cost, rows in whole panels. Sources
   come in chunks of CHUNK nodes, in the order of the relation's columns: what a range sees lies together there. */
typedef struct row_ranges {
    hga_id n, first[MOST_ROW_RANGES + 1];
    int64_t
        ptr[MOST_ROW_RANGES + 1]; /* range i adds to chunks chunk[ptr[i]] .. chunk[ptr[i + 1] - 1], ascending, in rows
                                     of its own */
    hga_id *chunk;
    int64_t capacity;
    hga_id *order, *rank; /* [nodes]: position -> node, and back; NULL: the identity */
} row_ranges;

/* Chunks of all nodes. */
static inline hga_id count_chunks(const hga_plan *plan) { return (plan->nodes.n + CHUNK - 1) / CHUNK; }

/* The ranges of a stage's rows, or, where there are subtrees, of those for all stages, when `heads` run one by one.
   Zero `out` first; row_ranges_clear frees it, whatever the outcome. */
hga_status row_ranges_create(const hga_plan *plan, hga_id stage, const struct subtrees *trees, hga_id heads,
                             row_ranges *out);
/* Frees the ranges. */
void row_ranges_clear(const hga_plan *plan, row_ranges *s);
/* Calls `visit` for runs of columns, in the order of `s`, from first to last index, that rows at positions [first,
   first + n) have edges to. */
void row_ranges_visit(const hga_plan *plan, hga_id stage, hga_id first, hga_id n, const row_ranges *s,
                      void (*visit)(void *context, hga_id first, hga_id last), void *context);
/* The most chunks that a range has rows of its own for. */
int64_t row_ranges_most_chunks(const row_ranges *s);

#endif
