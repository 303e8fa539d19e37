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
    SOLVER_FEW_EDGES,
    SOLVER_HEADS,
    SOLVER_ROWS,
    SOLVER_WHOLE,
    SOLVER_PLAIN,
    N_ATTEND_SOLVERS
} attend_solver_id;
_Static_assert((int)N_ATTEND_SOLVERS <= 16, "a stage's ways are bits");

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
