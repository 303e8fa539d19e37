/* row_scratch.h: what a worker has for rows, one by one (attend_rows.c, edge_rows.c, entmax_rows.c) and in families
   (run_family.c). */
#ifndef ROW_SCRATCH_H
#define ROW_SCRATCH_H

#include "edges.h"

/* Addresses of a chunk's rows, at head 0, followed by those of edge_chunk.more, and at the current head. */
typedef struct row_addresses {
    const float *k[CHUNK_AND_MORE], *v[CHUNK_AND_MORE], *r[KERNEL_CHUNK], *k_head[KERNEL_CHUNK], *v_head[KERNEL_CHUNK];
    const uint16_t *k16[CHUNK_AND_MORE], *v16[CHUNK_AND_MORE], *k16_head[KERNEL_CHUNK], *v16_head[KERNEL_CHUNK];
    ptrdiff_t v_row;         /* 0, or v_head's values have this stride, in floats */
    const uint32_t *v_pairs; /* has_pairs: in place of v_head, pairs of columns, of stride v_row words */
} row_addresses;

/* Single pairs whose dropout factors are drawn at once: a chunk's, or a family's. */
enum { DROPPED_PAIRS = KERNEL_FAMILY * KERNEL_TILE };
_Static_assert((int)DROPPED_PAIRS >= (int)KERNEL_CHUNK, "a chunk's draws fit");

/* Scratch of the stages that run row by row. */
typedef struct row_scratch {
    float *query;          /* [heads][dim padded]: the row's queries, scaled, in base 2 */
    float *additive;       /* likewise, see kernel_heads: the factors of additive scores, scaled, in base 2 */
    uint16_t *query16;     /* [heads][dim]: the same in bfloat16, not scaled; plans of bf16 rows */
    float *acc;            /* [heads][columns padded] */
    float *bias;           /* [KERNEL_CHUNK] + padding */
    float *greatest, *sum; /* [heads]: see kernel_state */
    float *base;           /* [KERNEL_CHUNK] */
    float *inverse_count;  /* [KERNEL_CHUNK]: where sigmoids have counts */
    kernel_sigmoids sigmoid;
    float *drop_mask; /* dropout: [DROPPED_PAIRS][heads] + padding, see kernel_heads */
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

/* Of calls that have keys or features of edges, allocated by the first: keys of some edges, and values of a chunk's,
   those of the edges added; and the weights of a chunk's edges. */
typedef struct edge_scratch {
    float *key;       /* [KERNEL_HEAD_EDGES][heads of keys][dim] */
    float *value;     /* [KERNEL_CHUNK][heads of values][dim_v] */
    float *weight;    /* [KERNEL_CHUNK][heads] + padding */
    int64_t capacity; /* floats of both */
    int at_once;      /* the current row sums features as it attends */
} edge_scratch;

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

#endif
