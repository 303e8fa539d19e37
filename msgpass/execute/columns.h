/* columns.h: a panel by its columns (run_by_columns.c). */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "tiles.h"

/* Panels that go together: the more rows share a window, the less often its keys and values come from memory. */
enum { PANELS_TOGETHER = 8, COLUMN_ROWS = PANELS_TOGETHER * PANEL_ROWS };

/* A row that has some columns of a window, as bits, none: it goes by itself; and the next one that has some, -1. */
typedef struct column_visit {
    uint64_t columns;
    hga_id place, next; /* of the row among those that go together */
} column_visit;

/* Who has which window, of KERNEL_CHUNK source positions each. */
typedef struct column_visits {
    column_visit *visit; /* [room], the first n */
    int64_t room;
    hga_id n;
    hga_id *first, *last; /* [windows]: of a window that is touched */
    uint64_t *touched;    /* [words]: windows as bits */
    hga_id words;
    /* the rows, [COLUMN_ROWS]: nodes, positions, whether they go by themselves; and their states, [COLUMN_ROWS][heads
       of a key][dim_v padded, the log-sum-exp and padding] */
    hga_id n_rows;
    hga_id *node, *position;
    uint8_t *apart;
    float *state;
} column_visits;

/* The rows of a window, sixteen by sixteen. */
typedef struct column_groups {
    row_group group[PANEL_GROUPS];
    hga_id node[PANEL_GROUPS][KERNEL_TILE], place[PANEL_GROUPS][KERNEL_TILE];
} column_groups;

#endif
