/* attend_solvers.h: the solvers of attention, which are rows of solvers.c. */
#ifndef ATTEND_SOLVERS_H
#define ATTEND_SOLVERS_H

#include "plan.h"
#include "workspace.h"

/* The solvers, in the order in which solvers.c tries them. */
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

/* ---- the rows ---- */

/* Functions of the rows of solvers.c. attend_panel.c: a panel group by group, with tiles chosen now or cached. */
void tiles_run(worker *w, const wave_item *item, int64_t n);
int64_t cached_fits(worker *w, const wave_item *item, int64_t n);
void cached_take(worker *w, const wave_item *item, int64_t n);
/* run_equal.c: panels of equal families only. */
int64_t equal_fits(worker *w, const wave_item *item, int64_t n);
void equal_run(worker *w, const wave_item *item, int64_t n);
/* run_wide.c: panels of a phase whose rows have many columns of one block. The items may include copies of log-sum-exps
   for the caller, which it skips. */
int64_t wide_fits(worker *w, const wave_item *item, int64_t n);
void wide_run(worker *w, const wave_item *item, int64_t n);
/* run_splits.c: splits that have the same columns. */
int64_t splits_fit(worker *w, const wave_item *item, int64_t n);
void splits_take(worker *w, const wave_item *item, int64_t n);
/* run_by_columns.c: panels whose rows share columns with few neighbours and with many of their panel. */
int64_t columns_fit(worker *w, const wave_item *item, int64_t n);
void columns_run(worker *w, const wave_item *item, int64_t n);
/* Adds the pairs that columns_run would compute, and the tile slots that they occupy; computes nothing. */
void columns_look(worker *w, const wave_item *item, int64_t n, double *pairs, double *tile_slots);
/* run_rows.c: panels and splits, row by row. */
void rows_run(worker *w, const wave_item *item, int64_t n);

/* ---- selection ---- */

/* Sets workspace->solvers: the solvers that each stage may use, of a call with these features (call.h), of some rows or
   of all. */
void solvers_open(const hga_plan *plan, unsigned call_has, int some_rows, hga_workspace *workspace);
/* Runs the first of n items, of an attending stage, with as many of the next as its solver takes. */
int64_t solvers_run(worker *w, const wave_item *item, int64_t n);

/* The solver's name in reports. */
const char *solver_name(attend_solver_id solver);
/* Why calls with these features do not use the solver in a stage; NULL: they may. */
const char *solver_refusal(const hga_plan *plan, hga_id stage, unsigned call_has, attend_solver_id solver);
/* Why none of a stage's items fits the solver. */
const char *solver_lacks(attend_solver_id solver);
/* How many of n items fit the solver, of those that it may run. */
int64_t solver_fits(worker *w, attend_solver_id solver, const wave_item *item, int64_t n);

#endif
