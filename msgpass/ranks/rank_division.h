/* rank_division.h: a rank's rows while its plan divides them into passes.

   rank_passes.c   the passes
   rank_ready.c    which rows need nothing of what has not come
   rank_early.c    what goes before the first messages, so that its rows of the workspace serve others */
#ifndef RANK_DIVISION_H
#define RANK_DIVISION_H

#include "plan.h"
#include "ranks.h"
#include "slices.h"

/* Rows of jobs: those that are in no pass yet, and of these those that need nothing of the batch at hand and of later
   ones. */
typedef struct division {
    hga_plan *plan;
    slice s;
    row_bits *left, *ready; /* [n_jobs] */
    /* [n_jobs]: while the first batch is at hand, what goes before it beside what it sends */
    row_bits *early;
    int has_early;
    double *cost; /* [n_jobs]: of a row, in edges, roughly */
} division;

/* Rows that batch `batch` sends, of its whole way, are wanted by the slice. */
void division_request_sent(const hga_plan *plan, slice *s, hga_id batch);
/* As many edges in multiplications of one of the plan's threads: a millisecond has about 6e7. */
static inline double division_work(const division *d, double edges)
{
    const hga_shape *shape = &d->plan->shape;
    return edges * shape->n_heads * (shape->dim + shape->dim_v) / d->plan->team.n;
}

/* Which of the rows that are left need nothing of batches from that one on; of `among` alone, NULL: of all. */
void division_find_ready(division *d, hga_id batch, const row_bits *among);

/* Before any pass is taken, with what is ready then. All ranks call it together. */
hga_status division_find_early(division *d);

#endif
