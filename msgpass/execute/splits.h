/* splits.h: rows that are cut into splits, which several threads compute: their states, sums and the merging (splits.c,
   merge_splits.c, edge_sums.c). */
#ifndef SPLITS_H
#define SPLITS_H

#include "plan.h"
#include "worker.h"
#include "workspace.h"

/* splits.c: merge the worker's state into that of the row's splits so far, in `plain`, which is it where this is the
   first; the worker's is empty then, for the next split. */
void fold_split(worker *w, int first);
/* splits.c: make the merged state the worker's. */
void unfold_splits(worker *w);
/* merge_splits.c: merge pieces [lo, hi) of a stage's row into piece lo. On ranks each split is merged once in an
   execution: when it is sent, or when its row is made, whichever comes first. Those of other ranks come merged. */
void splits_merge(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi);

/* ---- edge_sums.c: features of edges, summed with the weights of a row ---- */

/* Has node v's row such sums in the caller's output? */
int has_edge_out(const worker *w, hga_id stage, hga_id v);
/* Row v of edge_out. */
float *edge_out_row(const worker *w, hga_id v, hga_id head);
/* The sums of a piece of a row. */
float *split_sum(const hga_plan *plan, const hga_workspace *workspace, hga_id split, hga_id head);
/* Store the row's sums, from the piece that holds all of it. */
void edge_sums_finish(const worker *w, hga_id v, hga_id split);

#endif
