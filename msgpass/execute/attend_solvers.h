/* attend_solvers.h: the ways to attend, which are rows of solvers.c. */
#ifndef ATTEND_SOLVERS_H
#define ATTEND_SOLVERS_H

#include "plan.h"
#include "workspace.h"

/* The ways to attend, in the order in which they are asked (solvers.c). */
typedef enum attend_solver_id {
    SOLVER_WIDE,
    SOLVER_SPLITS,
    SOLVER_COLUMNS,
    SOLVER_CACHED,
    SOLVER_EQUAL,
    SOLVER_TILES,
    SOLVER_STRICT,
    SOLVER_FAMILIES,
    SOLVER_HEADS,
    SOLVER_ROWS,
    SOLVER_WHOLE,
    SOLVER_PLAIN,
    N_ATTEND_SOLVERS
} attend_solver_id;
_Static_assert((int)N_ATTEND_SOLVERS <= 16, "a stage's ways are bits");

/* May the stage's rows go that way in this call? */
static inline int applies(const worker *w, hga_id stage, attend_solver_id solver)
{
    return w->workspace->solvers[stage] >> solver & 1;
}

/* ---- the rows ---- */

/* What the rows of solvers.c ask and run. attend_panel.c: a panel group by group, by tiles chosen now or kept. */
void tiles_run(worker *w, const wave_item *item, int64_t n);
int64_t cached_fits(worker *w, const wave_item *item, int64_t n);
void cached_take(worker *w, const wave_item *item, int64_t n);
/* run_equal.c: panels that have equal families alone. */
int64_t equal_fits(worker *w, const wave_item *item, int64_t n);
void equal_run(worker *w, const wave_item *item, int64_t n);
/* run_wide.c: panels of a phase whose rows have many columns of one block. Log-sum-exps that are copied for the
   caller may be among the items, which are not taken. */
int64_t wide_fits(worker *w, const wave_item *item, int64_t n);
void wide_run(worker *w, const wave_item *item, int64_t n);
/* run_splits.c: pieces that have the same columns. */
int64_t splits_fit(worker *w, const wave_item *item, int64_t n);
void splits_take(worker *w, const wave_item *item, int64_t n);
/* run_by_columns.c: panels whose rows share columns with few neighbours and with many of their panel. */
int64_t columns_fit(worker *w, const wave_item *item, int64_t n);
void columns_run(worker *w, const wave_item *item, int64_t n);
/* What it would compute: adds the pairs, and the places of tiles that they are in. */
void columns_look(worker *w, const wave_item *item, int64_t n, double *pairs, double *tile_slots);
/* run_rows.c: panels and pieces, row by row. */
void rows_run(worker *w, const wave_item *item, int64_t n);

/* ---- which one ---- */

/* Which ways stages of a call go that brings so much (call.h), of some rows or of all: workspace->ways. */
void solvers_open(const hga_plan *plan, unsigned call_has, int some_rows, hga_workspace *workspace);
/* The first of n items, of an attending stage, and as many behind it as go its way. */
int64_t solvers_run(worker *w, const wave_item *item, int64_t n);

/* What is told of it. */
const char *solver_name(attend_solver_id solver);
/* Why calls that bring so much do not go that way in a stage; NULL: they may. */
const char *solver_refusal(const hga_plan *plan, hga_id stage, unsigned call_has, attend_solver_id solver);
/* Why no item of theirs does. */
const char *solver_lacks(attend_solver_id solver);
/* How many of n items are for it, of those that it may take. */
int64_t solver_fits(worker *w, attend_solver_id solver, const wave_item *item, int64_t n);

#endif
