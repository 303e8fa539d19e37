/* splits.h: rows that are cut into splits, which several threads compute: their states, sums and the merging (splits.c,
   merge_splits.c, edge_sums.c). */
#ifndef SPLITS_H
#define SPLITS_H

#include "plan.h"
#include "worker.h"
#include "workspace.h"

/* ---- splits.c ---- */

/* Merges the worker's state into the row's folded state, in `plain`, or starts that where this is the first; the
   worker's state becomes empty. */
void fold_split(worker *w, int first);
/* Makes the folded state the worker's. */
void unfold_splits(worker *w);

/* ---- merge_splits.c ---- */

/* Merges splits [lo, hi) of a stage's row into split lo. On ranks each split is merged once in an execution: when it
   is sent, or when its row is finished, whichever is first. Splits of other ranks arrive merged. */
void splits_merge(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi);

/* ---- edge_sums.c: weighted sums of edge features ---- */

/* Whether node v's row has such sums in the caller's output. */
int has_edge_out(const worker *w, hga_id stage, hga_id v);
/* Row v of edge_out. */
float *edge_out_row(const worker *w, hga_id v, hga_id head);
/* The sums of a split of a row. */
float *split_sum(const hga_plan *plan, const hga_workspace *workspace, hga_id split, hga_id head);
/* Stores the row's sums, from the split that holds all of it. */
void edge_sums_finish(const worker *w, hga_id v, hga_id split);

#endif
