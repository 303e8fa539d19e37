/* panel_solvers.h: solvers of whole panels: tiles (attend_panel.c), equal families (run_equal.c), head by head
   (run_wide.c). */
#ifndef PANEL_SOLVERS_H
#define PANEL_SOLVERS_H

#include "attend_solvers.h"

/* Functions of the rows of solvers.c: _fits gives how many of n items, from the first on, the solver fits. */

/* ---- attend_panel.c: a panel group by group ---- */

/* Chooses and runs the tiles of one panel, for the worker's heads. */
void tiles_run(worker *w, const wave_item *item, int64_t n);
/* 1 if the plan caches the panel's tiles and the call may use them, families included; else 0. */
int64_t cached_fits(worker *w, const wave_item *item, int64_t n);
/* Runs the tiles that the plan caches for one panel. */
void cached_take(worker *w, const wave_item *item, int64_t n);

/* ---- run_equal.c: panels of equal families only ---- */

/* 1 if the panel is one, and its rows would run as families; describes it in w->equal. Else 0. */
int64_t equal_fits(worker *w, const wave_item *item, int64_t n);
/* Runs the panel that equal_fits described in w->equal. */
void equal_run(worker *w, const wave_item *item, int64_t n);

/* ---- run_wide.c: panels of a phase whose rows have many columns of one block ---- */

/* How many of n items, from the first on, run with the columns that it describes in w->wide.span; they may include
   copies of log-sum-exps for the caller. */
int64_t wide_fits(worker *w, const wave_item *item, int64_t n);
/* Runs n items head by head, with the columns of w->wide.span; skips the copies of log-sum-exps. */
void wide_run(worker *w, const wave_item *item, int64_t n);

#endif
