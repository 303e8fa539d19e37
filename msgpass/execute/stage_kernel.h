/* stage_kernel.h: the functions that compute a stage's rows, panels and splits of rows (stage_table.c). */
#ifndef STAGE_KERNEL_H
#define STAGE_KERNEL_H

#include "plan.h"
#include "worker.h"
#include "workspace.h"

/* One row of a stage: node v, from edge `from` on, at most `count` edges; split >= 0: store the state in that
   split. */
typedef struct row_job {
    hga_id stage, v;
    hga_pos from, count;
    hga_id split;
} row_job;
typedef void (*row_function)(worker *w, const row_job *job);
/* Rows [first, first + n) of the loaded panel; node[i] < 0: row first + i is not computed (NO_ROW in tiles.h). */
typedef void (*panel_function)(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

/* Functions of the splits of a stage's long rows. */
typedef struct split_kernel {
    /* merges the later split `next` into `split` */
    void (*join)(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split, hga_id next);
    /* the row of node v, from the split that holds all of it */
    void (*finish)(worker *w, hga_id stage, hga_id v, hga_id split);
    /* copies a split to or from (in) a message; returns its end in the message (split_bytes) */
    char *(*move)(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split, char *parcel,
                  int in);
} split_kernel;

typedef struct stage_kernel {
    const char *name;
    row_function row;           /* NULL: only along the tree, by panels */
    panel_function panel;       /* NULL: row by row */
    const split_kernel *splits; /* NULL: no row is cut into splits */
} stage_kernel;
/* What a plan runs for a stage. */
const stage_kernel *plan_kernel(const hga_plan *plan, hga_id stage);

/* run_rows.c: computes a panel of any stage by its function, for panels or for rows. */
void run_panel(worker *w, const phase *ph, hga_id stage, hga_id panel);

#endif
