/* row_solvers.h: solvers of splits (run_splits.c), of panels by columns (run_by_columns.c), of rows of few edges
   (run_few_edges.c) and of rows (run_rows.c). */
#ifndef ROW_SOLVERS_H
#define ROW_SOLVERS_H

#include "attend_solvers.h"

/* ---- run_splits.c: splits that have the same columns ---- */

/* How many of n items, from the first on, are such splits; at most KERNEL_TILE. */
int64_t splits_fit(worker *w, const wave_item *item, int64_t n);
/* Runs the first of n items together, as many as splits_fit counts. */
void splits_take(worker *w, const wave_item *item, int64_t n);

/* ---- run_by_columns.c: panels whose rows share columns with few neighbours and with many of their panel ---- */

/* How many of n items run together: of one phase and head range, at most PANELS_TOGETHER; 0: the stage runs
   otherwise. */
int64_t columns_fit(worker *w, const wave_item *item, int64_t n);
/* Runs n items, for the worker's heads. */
void columns_run(worker *w, const wave_item *item, int64_t n);
/* Adds the pairs that columns_run would compute, and the tile slots that they occupy; computes nothing. */
void columns_look(worker *w, const wave_item *item, int64_t n, double *pairs, double *tile_slots);

/* ---- run_few_edges.c: panels of listed edges whose heads are narrow ---- */

/* 1 where the stage's edges and the shape are such; else 0. */
int64_t few_edges_fit_stage(worker *w, const wave_item *item, int64_t n);
/* Runs one panel: rows of few edges together, others row by row. */
void few_edges_run(worker *w, const wave_item *item, int64_t n);

/* ---- run_rows.c ---- */

/* Runs panels and splits, row by row. */
void rows_run(worker *w, const wave_item *item, int64_t n);

#endif
