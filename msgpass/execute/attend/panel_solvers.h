/* panel_solvers.h: solvers of whole panels: tiles (attend_panel.c), equal families (run_equal.c), head by head
   (run_wide.c). */
#ifndef PANEL_SOLVERS_H
#define PANEL_SOLVERS_H

#include "attend_solvers.h"

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

#endif
