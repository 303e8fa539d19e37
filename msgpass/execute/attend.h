/* attend.h: attention of a panel's rows in groups of sixteen, in families, and row by row (attend_panel.c,
   run_family.c, attend_rows.c). */
#ifndef ATTEND_H
#define ATTEND_H

#include "carve.h"
#include "stage_kernel.h"

/* attend_panel.c: cut a panel's rows into groups of sixteen. */
void find_groups(hga_id stage, hga_id first, hga_id n, const hga_id *node, row_panel *p);
/* attend_panel.c: prepare the chooser of tiles for the panel that is loaded. */
void open_chooser(worker *w, hga_id stage, tile_runner run, family_runner families, void *context);
/* run_family.c: compute families of a group; the context is the worker. */
void run_families(void *worker, row_group *g, const family_chunk *c);
/* attend_rows.c: attend to all edges of a row and store it. */
void attend_row(worker *w, const row_job *job);
/* attend_rows.c: begin a row with an empty state, or with what its output holds where the stage goes on from there. */
void attend_start(worker *w, const row_job *job);
/* attend_rows.c: attend to the edges of a row that are not in the segments `done`, from the state that is there, and
   store it. */
void attend_rest(worker *w, const row_job *job, const uint16_t *done, unsigned done_bits);

/* The state of a row that is carried from tile to tile (run_by_columns.c), of a head of the key at hand: [dim_v
   padded], log-sum-exp. */
static inline float *carried_state(const worker *w, hga_id slot, hga_id head)
{
    const hga_shape *s = &w->plan->shape;
    const ptrdiff_t heads = s->n_heads / s->n_kv_heads, capacity = padded(s->dim_v) + KERNEL_PAD;
    return w->columns.state + (slot * heads + head % heads) * capacity;
}

#endif
