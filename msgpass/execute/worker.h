/* worker.h: a thread's private data: its reader, the current item, and scratch memory (worker.c). */
#ifndef WORKER_H
#define WORKER_H

#include "bound.h"
#include "columns.h"
#include "edges.h"
#include "plan.h"
#include "stage_semantics.h"
#include "tiles.h"

/* A chunk's keys and values, of all heads, and what every head adds to the scores of its columns. */
typedef struct tile_operands {
    float base[KERNEL_CHUNK], at[KERNEL_CHUNK]; /* at: positions, where slopes are given */
    const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
    int same_k, same_v; /* do heads lie at the same strides? */
    ptrdiff_t k_stride, v_stride;
    const uint16_t *k16[KERNEL_CHUNK], *v16[KERNEL_CHUNK]; /* plans of bf16 rows: in place of k and v */
} tile_operands;

/* Types of the pairs of a part whose columns' types vary: so many, their list, and which pairs have which. */
typedef struct part_types {
    hga_id n;
    const int32_t *list;
    const uint8_t *many;  /* [the part's columns]: how many of `pick` are the column's */
    const uint32_t *pick; /* place in the list | lanes << 16, column after column */
} part_types;

/* Scratch of run_tiles.c. */
typedef struct tile_scratch {
    /* of each of PANEL_GROUPS groups and of as many slots for a key's heads: [heads][dim][tile], [heads][tile][dim_v
       padded], [heads][tile] twice */
    float *query, *acc, *greatest, *sum;
    float *pair_base, *pair_bias;   /* [PANEL_GROUPS][KERNEL_CHUNK][tile], [2][KERNEL_CHUNK][tile] */
    tile_operands *operand;         /* [BATCH_CHUNKS] */
    part_types types[PANEL_GROUPS]; /* of the batch's parts whose types vary, by the chunks' `typed` */
    int32_t *type_list;             /* [PANEL_GROUPS][KERNEL_CHUNK][tile]: room for the parts' lists */
    uint32_t *type_pick;            /* [the same]: room for their picks */
    uint8_t *type_many;             /* [PANEL_GROUPS][KERNEL_CHUNK]: room for how many each column has */
    int32_t *type_index;            /* [n_types]: -1, or the place in the list at hand */
    float *type_score;              /* [KERNEL_CHUNK * tile][tile]: of each type of a list, one head */
    /* dropout: [BATCH_CHUNKS][PANEL_GROUPS][8][KERNEL_CHUNK] of eight heads, see kernel_tile_group */
    uint16_t *drop_mask;
} tile_scratch;

/* Addresses of a chunk's rows, at head 0, where those that edge_chunk.more says follow, and at the head at hand. */
typedef struct row_addresses {
    const float *k[CHUNK_AND_MORE], *v[CHUNK_AND_MORE], *r[KERNEL_CHUNK], *k_head[KERNEL_CHUNK], *v_head[KERNEL_CHUNK];
    const uint16_t *k16[CHUNK_AND_MORE], *v16[CHUNK_AND_MORE], *k16_head[KERNEL_CHUNK], *v16_head[KERNEL_CHUNK];
    ptrdiff_t v_row;         /* 0, or v_head's values lie side by side, that many floats apart */
    const uint32_t *v_pairs; /* has_pairs: in place of v_head, pairs of columns, v_row words apart */
} row_addresses;

/* Columns of some panels: source positions [first, end) of a block instance whose first column is at `origin`. */
typedef struct wide_span {
    hga_id origin, first, end;
    float weight;
    int shared; /* every row has all columns: even one panel is better off */
} wide_span;

/* Rows of equal families, group by group of sixteen: which of a group's rows have which of its columns, which are its
   own. */
typedef struct equal_families {
    hga_id first, n, edges; /* rows; edges of a group */
    float weight;
    lane_mask rows[KERNEL_TILE];
} equal_families;

/* A rectangle's columns, side by side: of one head [room][dim padded], [room][dim_v padded], which the addresses
   [room] are of; of all heads [room]. Where it has_pairs keys are of 16 bits, and values are pairs of columns. */
typedef struct wide_scratch {
    hga_id capacity;
    float *key, *value, *base, *at; /* at: positions, where slopes are given */
    const float **key_at, **value_at;
    const uint16_t **key16_at; /* plans of bf16 rows */
} wide_scratch;

/* Scratch of the stages that go row by row. */
typedef struct row_scratch {
    float *query;          /* [heads][dim padded]: the row's queries, scaled, in base 2 */
    float *additive;       /* alike, see kernel_heads: what additive scores are weighed with, scaled, in base 2 */
    uint16_t *query16;     /* [heads][dim]: the same in bfloat16, not scaled; plans of bf16 rows */
    float *acc;            /* [heads][columns padded] */
    float *bias;           /* [KERNEL_CHUNK] + padding */
    float *greatest, *sum; /* [heads]: see kernel_state */
    float *base;           /* [KERNEL_CHUNK] */
    float *drop_mask;      /* dropout: [DROPPED_PAIRS][heads] + padding, see kernel_heads */
    hga_pos rank[KERNEL_CHUNK];
} row_scratch;

/* A row that is held whole, of as many edges as plain rows: [room] each, and a vector behind what kernels write. */
typedef struct whole_row {
    float *score; /* [heads][room] in base 2 */
    float *count; /* as how many tokens edges count */
    int counts;   /* is any of them not 1? */
    hga_id *src;
    int32_t *type;
    hga_id *slot; /* in the row, of what has a weight in the head at hand */
    /* of all heads: so many have weights, and these with their values, [heads][room] */
    hga_id *have;
    float *weight;
    const float **value;
    float *slope; /* of the head at hand, see kernel_entmax */
} whole_row;

/* Single pairs whose dropout factors are drawn at once: a chunk's, or a family's. */
enum { DROPPED_PAIRS = KERNEL_FAMILY * KERNEL_TILE };
_Static_assert((int)DROPPED_PAIRS >= (int)KERNEL_CHUNK, "a chunk's draws have room");

/* Of calls that bring keys or features of edges, taken by the first: keys of some edges, those of the edges added; and
   what a chunk's edges weigh. */
typedef struct edge_scratch {
    float *key;       /* [KERNEL_HEAD_EDGES][heads of keys][dim] */
    float *weight;    /* [KERNEL_CHUNK][heads] + padding */
    int64_t capacity; /* floats of both */
    int at_once;      /* the row at hand sums features as it attends */
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
    /* [KERNEL_CHUNK] rows of all heads, where the caller's rows may be beside the workspace's (mixes), whose heads
       may be at other strides */
    float *mixed_key, *mixed_value;
    int mixes;
    float *scalars[4]; /* [lanes]: of a few rows, [rows][heads] */
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
    char *at;               /* [bytes]: all arrays of the worker; numbers come first */
    int64_t bytes, numbers; /* */
    int64_t types;          /* so many types have capacity */
    int begun;              /* its thread has cleared its numbers */
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
    kernel_ahead coming; /* tokens that a later panel reads, of as many fields as go up the tree together */
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
