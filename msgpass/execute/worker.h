/* worker.h: a thread's private data: its reader, the current item, and scratch memory (worker.c). */
#ifndef WORKER_H
#define WORKER_H

#include "bound.h"
#include "columns.h"
#include "edges.h"
#include "plan.h"
#include "stage_semantics.h"
#include "tiles.h"

/* A chunk's keys and values, of all heads, and the terms of its columns' scores that all heads share. */
typedef struct tile_operands {
    float base[KERNEL_CHUNK], at[KERNEL_CHUNK]; /* at: positions, where the call has slopes */
    const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
    int same_k, same_v; /* do all rows have the same head stride? */
    ptrdiff_t k_stride, v_stride;
    const uint16_t *k16[KERNEL_CHUNK], *v16[KERNEL_CHUNK]; /* plans of bf16 rows: in place of k and v */
} tile_operands;

/* Types of the pairs of a part whose columns' types vary: their number and list, and which pairs have which. */
typedef struct part_types {
    hga_id n;
    const int32_t *list;
    const uint8_t *many;  /* [the part's columns]: number of the column's entries of `pick` */
    const uint32_t *pick; /* index in the list | lane mask << 16, column after column */
} part_types;

/* Scratch of run_tiles.c. */
typedef struct tile_scratch {
    /* of each of PANEL_GROUPS groups and of as many slots for a key's heads: [heads][dim][tile], [heads][tile][dim_v
       padded], [heads][tile] twice */
    float *query, *acc, *greatest, *sum;
    float *pair_base, *pair_bias;   /* [PANEL_GROUPS][KERNEL_CHUNK][tile], [2][KERNEL_CHUNK][tile] */
    tile_operands *operand;         /* [BATCH_CHUNKS] */
    part_types types[PANEL_GROUPS]; /* of the batch's parts whose types vary, by the chunks' `typed` */
    int32_t *type_list;             /* [PANEL_GROUPS][KERNEL_CHUNK][tile]: scratch for the parts' lists */
    uint32_t *type_pick;            /* [the same]: for their picks */
    uint8_t *type_many;             /* [PANEL_GROUPS][KERNEL_CHUNK]: for each column's number of them */
    int32_t *type_index;            /* [n_types]: -1, or the index in the current list */
    float *type_score;              /* [KERNEL_CHUNK * tile][tile]: of each type of a list, one head */
    /* dropout: [BATCH_CHUNKS][PANEL_GROUPS][8][KERNEL_CHUNK] of eight heads, see kernel_tile_group */
    uint16_t *drop_mask;
} tile_scratch;

/* Addresses of a chunk's rows, at head 0, followed by those of edge_chunk.more, and at the current head. */
typedef struct row_addresses {
    const float *k[CHUNK_AND_MORE], *v[CHUNK_AND_MORE], *r[KERNEL_CHUNK], *k_head[KERNEL_CHUNK], *v_head[KERNEL_CHUNK];
    const uint16_t *k16[CHUNK_AND_MORE], *v16[CHUNK_AND_MORE], *k16_head[KERNEL_CHUNK], *v16_head[KERNEL_CHUNK];
    ptrdiff_t v_row;         /* 0, or v_head's values have this stride, in floats */
    const uint32_t *v_pairs; /* has_pairs: in place of v_head, pairs of columns, of stride v_row words */
} row_addresses;

/* Columns of some panels: source positions [first, end) of a block instance whose first column is at `origin`. */
typedef struct wide_span {
    hga_id origin, first, end;
    float weight;
    int shared; /* every row has all columns: even one panel gains */
} wide_span;

/* Rows of equal families, in groups of sixteen: which of a group's rows have which of its columns, which no other group
   has. */
typedef struct equal_families {
    hga_id first, n, edges; /* rows; edges of a group */
    float weight;
    lane_mask rows[KERNEL_TILE];
} equal_families;

/* A rectangle's columns, contiguous: of one head key [capacity][dim padded] and value [capacity][dim_v padded], whose
   addresses are key_at and value_at [capacity]; of all heads base and at [capacity]. Where it has_pairs keys are of 16
   bits, and values are pairs of columns. */
typedef struct wide_scratch {
    hga_id capacity;
    float *key, *value, *base, *at; /* at: positions, where the call has slopes */
    const float **key_at, **value_at;
    const uint16_t **key16_at; /* plans of bf16 rows */
} wide_scratch;

/* Scratch of the stages that run row by row. */
typedef struct row_scratch {
    float *query;          /* [heads][dim padded]: the row's queries, scaled, in base 2 */
    float *additive;       /* likewise, see kernel_heads: the factors of additive scores, scaled, in base 2 */
    uint16_t *query16;     /* [heads][dim]: the same in bfloat16, not scaled; plans of bf16 rows */
    float *acc;            /* [heads][columns padded] */
    float *bias;           /* [KERNEL_CHUNK] + padding */
    float *greatest, *sum; /* [heads]: see kernel_state */
    float *base;           /* [KERNEL_CHUNK] */
    float *drop_mask;      /* dropout: [DROPPED_PAIRS][heads] + padding, see kernel_heads */
    hga_pos rank[KERNEL_CHUNK];
} row_scratch;

/* A row that is held whole, of at most most.plain_edges edges: one element an edge each, and a vector behind what
   kernels write. */
typedef struct whole_row {
    float *score; /* [heads][edges] in base 2 */
    float *count; /* the number of tokens that an edge counts for */
    int counts;   /* is any of them not 1? */
    hga_id *src;
    int32_t *type;
    hga_id *slot; /* in the row, of the edges with a weight in the current head */
    /* of all heads: the number of edges with weights, and these with their values, [heads][edges] */
    hga_id *have;
    float *weight;
    const float **value;
    float *slope; /* of the current head, see kernel_entmax */
} whole_row;

/* Single pairs whose dropout factors are drawn at once: a chunk's, or a family's. */
enum { DROPPED_PAIRS = KERNEL_FAMILY * KERNEL_TILE };
_Static_assert((int)DROPPED_PAIRS >= (int)KERNEL_CHUNK, "a chunk's draws have room");

/* Of calls that have keys or features of edges, allocated by the first: keys of some edges, those of the edges added;
   and the weights of a chunk's edges. */
typedef struct edge_scratch {
    float *key;       /* [KERNEL_HEAD_EDGES][heads of keys][dim] */
    float *weight;    /* [KERNEL_CHUNK][heads] + padding */
    int64_t capacity; /* floats of both */
    int at_once;      /* the current row sums features as it attends */
} edge_scratch;

/* The item's heads: tiles compute key/value heads [kv_first, kv_end) alone, and the heads [first, end) that read
   them. */
typedef struct worker_heads {
    hga_id kv_first, kv_end, first, end;
} worker_heads;

/* Of panels that run tile by tile (choose_tiles.c, run_tiles.c). */
typedef struct worker_tiles {
    tile_chooser chooser;
    tile_scratch tile;
    /* a chunk's, of one head, contiguous: [KERNEL_CHUNK][dim padded], [KERNEL_CHUNK][dim_v padded] */
    float *packed_key, *packed_value;
} worker_tiles;

/* Of panels that run head by head (run_wide.c). */
typedef struct worker_wide {
    wide_scratch columns;
    wide_span span; /* of the item that the solver was found to apply to */
} worker_wide;

/* Of stages that run row by row. */
typedef struct worker_rows {
    row_scratch row;
    row_addresses at;
    whole_row whole;
    edge_scratch edges;
    /* [KERNEL_CHUNK] rows of all heads, where some rows may be the caller's and others the workspace's (mixes), whose
       heads may have other strides */
    float *mixed_key, *mixed_value;
    int mixes;
    float *scalars[4]; /* [lanes]: of some rows, [rows][heads] */
    hga_id lanes;
} worker_rows;

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
