/* worker.h: a thread's private data: its reader, the current item, and scratch memory (worker.c). */
#ifndef WORKER_H
#define WORKER_H

#include "bound.h"
#include "columns.h"
#include "edges.h"
#include "equal_families.h"
#include "plan.h"
#include "row_scratch.h"
#include "stage_semantics.h"
#include "tile_scratch.h"
#include "wide_scratch.h"

/* The item's heads: tiles compute key/value heads [kv_first, kv_end) alone, and the heads [first, end) that read
   them. */
typedef struct worker_heads {
    hga_id kv_first, kv_end, first, end;
} worker_heads;

/* Of plain stages: the row's edges, and scratch to compute it. */
typedef struct worker_plain {
    edge_rows edges;
    plain_scratch scratch;
    /* functions of the caller's own: a row's aggregate and a split's, `bytes` each; attend: the state of the splits so
       far; sums: what was poured; energies: a family's sums */
    double *numbers;
    int64_t bytes;
} worker_plain;

typedef struct worker_memory {
    char *at; /* [bytes]: all arrays of the worker; numbers come first */
    int64_t bytes, numbers;
    int64_t types; /* capacity, in types */
    int begun;     /* its thread has cleared its numbers */
} worker_memory;

typedef struct worker {
    const hga_plan *plan;
    hga_workspace *workspace;
    const hga_io *io;
    row_reader reader;
    hga_id reading;         /* the stage the reader is open on, -1 */
    tree_part part_of_tree; /* the panel's */
    worker_heads heads;
    edge_chunk chunk;
    worker_tiles tiles;
    worker_wide wide;
    worker_rows rows;
    equal_families equal; /* of the item that run_equal.c or run_by_columns.c was found to apply to */
    column_rows columns;
    kernel_ahead coming; /* tokens that a later panel reads, of all fields that run up the tree together */
    worker_plain plain;
    worker_memory memory;
} worker;

/* Sets the key/value heads [kv_first, kv_end) that the worker computes, and the query heads that read them. */
void worker_take_heads(worker *w, hga_id kv_first, hga_id kv_end);

/* Allocates scratch memory for n threads, one block each. */
hga_status workers_create(const hga_plan *plan, hga_id n, hga_workspace *workspace);
/* Allocates more for calls with tables of edges, in the first such call. */
hga_status workers_make_call_scratch(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
/* Frees each worker's memory, with that of its reader and its edge scratch. */
void workers_destroy(hga_workspace *workspace);
/* Calls `look` with a separate worker, as if there were a call: pages of a workspace's workers belong to their
   threads. */
hga_status worker_look(const hga_plan *plan, hga_status (*look)(worker *w, void *context), void *context);
/* Whether the workers are large enough for the plan, after an update. */
int workers_fit(const hga_plan *plan, const hga_workspace *workspace);
/* Clears the numbers; the worker's own thread calls this before its first row. */
void worker_begin(worker *w);
/* Bytes of the scratch memory of all threads. */
int64_t workers_bytes(const hga_plan *plan);

#endif
