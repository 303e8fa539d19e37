/* strips.h: rows of an attended stage that threads share out. Which they are depends on the graph and the shape alone,
   and so do sums: sources that several strips see belong to the first of them, the others have rows of their own,
   which are added in the order of the strips. */
#ifndef HGA_GRADIENT_STRIPS_H
#define HGA_GRADIENT_STRIPS_H

#include "gradient.h"
#include "plan.h"

struct subtrees;

/* Strip i is of rows, or subtrees, first[i] .. first[i + 1] - 1, of about equal cost, rows in whole panels. Sources
   come in chunks of CHUNK nodes, in the order of the relation's columns: what a strip sees lies together there. */
typedef struct strips {
    hga_id n, first[MOST_STRIPS + 1];
    int64_t ptr[MOST_STRIPS + 1]; /* strip i adds to chunks chunk[ptr[i]] .. chunk[ptr[i + 1] - 1], ascending, in rows
                                     of its own */
    hga_id *chunk;
    int64_t room;
    hga_id *order, *rank; /* [nodes]: place -> node, and back; NULL: the identity */
} strips;

/* Chunks of all nodes. */
static inline hga_id count_chunks(const hga_plan *plan) { return (plan->nodes.n + CHUNK - 1) / CHUNK; }

/* The strips of a stage's rows, or, where there are subtrees, of those for all stages, when `heads` go back one by one;
   `out` comes zeroed, and is cleared whatever the outcome. */
hga_status strips_create(const hga_plan *plan, hga_id stage, const struct subtrees *trees, hga_id heads, strips *out);
void strips_clear(const hga_plan *plan, strips *s);
/* What of the columns, as `s` has them in order, rows at positions [first, first + n) have edges to: from place to
   place. */
void strips_visit(const hga_plan *plan, hga_id stage, hga_id first, hga_id n, const strips *s,
                  void (*visit)(void *context, hga_id first, hga_id last), void *context);
/* Chunks that a strip has rows of its own for, at most. */
int64_t strips_most_chunks(const strips *s);

#endif
