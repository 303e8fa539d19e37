/* attend.h: attention of a panel's rows in groups of sixteen, in families, and row by row (attend_panel.c,
   run_family.c, attend_rows.c). */
#ifndef ATTEND_H
#define ATTEND_H

#include "carve.h"
#include "stage_kernel.h"

/* ---- attend_panel.c ---- */

/* Splits a panel's rows into groups of sixteen. */
void find_groups(hga_id stage, hga_id first, hga_id n, const hga_id *node, row_panel *p);
/* Prepares the chooser of tiles for the panel that the reader has loaded. */
void open_chooser(worker *w, hga_id stage, tile_runner run, family_runner families, void *context);

/* ---- run_family.c ---- */

/* Computes families of a group; the context is the worker. */
void run_families(void *worker, row_group *g, const family_chunk *c);

/* ---- attend_rows.c ---- */

/* Attends to all edges of a row and stores it. */
void attend_row(worker *w, const row_job *job);

/* The state that run_by_columns.c carries of a row from tile to tile, for one head of the current key/value head:
   [dim_v padded], log-sum-exp. */
static inline float *carried_state(const worker *w, hga_id slot, hga_id head)
{
    const hga_shape *s = &w->plan->shape;
    const ptrdiff_t heads = s->n_heads / s->n_kv_heads, capacity = padded(s->dim_v) + KERNEL_PAD;
    return w->columns.state + (slot * heads + head % heads) * capacity;
}

#endif
