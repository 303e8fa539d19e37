/* row_solvers.h: solvers of splits (run_splits.c), of panels by columns (run_by_columns.c) and of rows (run_rows.c). */
#ifndef ROW_SOLVERS_H
#define ROW_SOLVERS_H

#include "attend_solvers.h"

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

#endif
