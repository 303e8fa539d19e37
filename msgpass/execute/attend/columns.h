/* columns.h: a panel by its columns (run_by_columns.c). */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "stage_plan.h"
#include "tiles.h"

/* Panels computed together: the more rows share a window, the fewer times its keys and values are loaded from
   memory. */
enum { PANELS_TOGETHER = 8, COLUMN_ROWS = PANELS_TOGETHER * PANEL_ROWS };
/* Rows are computed together only while they visit at most this many windows. */
enum { MOST_VISITS = 1 << 18 };

/* The rows that are computed together, their visits to windows, and their states so far. */
typedef struct column_rows {
    window_visits visits;
    hga_id part; /* of the graph, of the last columns found */
    /* the rows, [COLUMN_ROWS]: nodes, positions, whether they are computed alone; and their states, [COLUMN_ROWS][heads
       of a key][dim_v padded, the log-sum-exp and padding] */
    hga_id n_rows;
    hga_id *node, *position;
    uint8_t *alone;
    float *state;
} column_rows;

/* The rows of a window, sixteen by sixteen. */
typedef struct column_groups {
    row_group group[PANEL_GROUPS];
    hga_id node[PANEL_GROUPS][KERNEL_TILE], slot[PANEL_GROUPS][KERNEL_TILE];
} column_groups;

#endif
