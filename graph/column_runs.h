/* column_runs.h: finds blocks in rows of column runs. Only graph/ includes this. */
#ifndef COLUMN_RUNS_H
#define COLUMN_RUNS_H

#include "hga_graph.h"

typedef struct cell { /* an edge of a row */
    hga_id column;
    int32_t type;
    float weight;
} cell;

typedef struct edge_run { /* columns [src, src + n) of one row; column c has type + (c - src) * slope */
    hga_id row, src, n;
    int32_t type, slope;
    float weight;
} edge_run;

typedef struct column_run column_run;

/* Zeroed but for the first five members: the allocator, and the relation that receives blocks and edges. */
typedef struct column_runs {
    const hga_allocator *allocator;
    hga_builder *b;
    hga_id index;                        /* of the relation */
    const hga_id *dst_order, *src_order; /* position -> node, for explicit edges; NULL: the identity */
    int64_t n_list, list_capacity, n_open, open_capacity, n_next, next_capacity, n_slots, from;
    column_run *list;
    int64_t *open, *next; /* runs that end in the row before, by their columns there; those that end in this row */
    int64_t *slots;       /* hash table: where a repeated run is expected next; -1 empty */
    int64_t *positions;   /* hash table: where runs begin */
} column_runs;

/* Adds the next run of a row, to the right of the one before. Rows ascend. */
hga_status column_runs_add_run(column_runs *c, const edge_run *x);
/* Ends a row: its runs are those that runs of the next row may continue. */
void column_runs_end_row(column_runs *c);
/* Repeats the last row n more times. 0, and nothing done, where a run of that row would have to change its form: then
   add the rows one by one. */
int column_runs_repeat_row(column_runs *c, hga_id n);
/* Adds a whole row by its edges, no two of one column and type; sorts them. */
hga_status column_runs_add_row(column_runs *c, hga_id row, cell *cells, int64_t n);
/* Adds the blocks and explicit edges to the builder. */
hga_status column_runs_tell(column_runs *c);
/* Frees the lists. */
void column_runs_clear(column_runs *c);

#endif
