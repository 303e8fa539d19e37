/* rank_division.h: a rank's rows while its plan divides them into passes.

   rank_passes.c   the passes
   rank_ready.c    which rows need nothing that has not been received
   rank_early.c    what runs before the first messages, so that its rows of the workspace are reused */
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
    /* [n_jobs]: while the first batch is at hand, what is computed before it beside what it sends */
    row_bits *early;
    int has_early;
    double *cost; /* [n_jobs]: of a row, in edges, roughly */
} division;

/* The slice requests the rows that batch `batch` sends, with all rows that they need. */
void division_request_sent(const hga_plan *plan, slice *s, hga_id batch);
/* So many edges in multiplications of one of the plan's threads: a millisecond has about 6e7. */
static inline double division_work(const division *d, double edges)
{
    const hga_shape *shape = &d->plan->shape;
    return edges * shape->n_heads * (shape->dim + shape->dim_v) / d->plan->team.n;
}

/* Finds which of the rows that are left need nothing of this batch and later ones; of `among` alone, NULL: of all. */
void division_find_ready(division *d, hga_id batch, const row_bits *among);

/* Before any pass is taken, with the rows that are ready then. All ranks call it together. */
hga_status division_find_early(division *d);

#endif
