/* backward.h: what the kernels of the backward pass take (kernels.h). */
#ifndef KERNELS_BACKWARD_H
#define KERNELS_BACKWARD_H

#include "forward.h"

/* What pairs of a tile share that are not of one column: relative keys and biases by type. A pair that has no edge may
   name any. */
enum { KERNEL_INDICES = 128 };
typedef struct kernel_grad_indices {
    hga_id n;              /* at most KERNEL_INDICES */
    const uint8_t *of;     /* [columns][KERNEL_TILE] */
    const float *const *r; /* NULL or [n] rows of dim padded: added to the keys */
    const float *bias;     /* NULL or [n]: added to the scores */
    float *const *dr;      /* NULL or [n] rows, added to: sums of dc q */
    float *d_bias;         /* NULL or [n], written: sums of ds */
} kernel_grad_indices;

/* Positions: scores have the product of the row's and the column's, too. */
typedef struct kernel_grad_positions {
    hga_id dim;
    const float *row, *row_transposed; /* [KERNEL_TILE][dim padded] and [dim][KERNEL_TILE] */
    const float *column;               /* [columns][dim padded] */
    float *d_row, *d_column;           /* added to; NULL: not required */
} kernel_grad_positions;

/* Sixteen rows in the backward pass. Operands and gradients both transposed, [dim][KERNEL_TILE] and
   [dim_v][KERNEL_TILE], and row by row, padded; queries scaled. */
typedef struct kernel_grad_group {
    const lane_mask *rows; /* [n]: bit r when row r and the column have an edge; NULL: all have */
    const float *q, *g, *q_rows, *g_rows;
    const float *lse, *delta; /* [KERNEL_TILE]; +inf: a row without edges */
    float *dq;                /* row by row: sum of dc k */
    /* NULL, or [n]: weights are multiplied by the tile's `keep` where the bit of the row is set, else by 0 */
    const uint16_t *drop_mask;
    const float *row_at; /* [KERNEL_TILE]; read where the tile has column_at */
} kernel_grad_group;

/* The adjoint of attention in one head, one group of sixteen rows or two against columns anywhere, of which no two are
   the same. Rows of keys, values and what belongs to them are padded with zeros to KERNEL_PAD. What is summed is added
   to; NULL: not required. The gradient of a score is ds, that of its content, the product, dc: without a cap the
   same. */
typedef struct kernel_grad_tile {
    hga_id n_groups, n, dim, dim_v; /* n columns, at most KERNEL_CHUNK */
    kernel_grad_group group[2];
    const float *const *k, *const *v; /* [n] */
    kernel_terms terms;               /* bias (NULL: none), cap (in base e), column_at, slope */
    float *const *dk, *const *dv;     /* [n]: sums of dc q, p g */
    float *column_sum;                /* [n]: sum of ds */
    float keep;                       /* see a group's drop_mask */
    double *d_slope;                  /* the slope's gradient */
    /* what pairs have of their own, where there is one group */
    const kernel_grad_indices *indices;     /* NULL: none */
    const kernel_grad_positions *positions; /* NULL: none */
    const float *pair_bias;                 /* NULL or [n][KERNEL_TILE], added to the scores */
    float *slopes;                          /* NULL or [n][KERNEL_TILE], written: ds */
    kernel_additive additive; /* a NULL: scores are products; else [dim], padded, for natural scores of q as it is */
    float *d_leaky_relu;      /* NULL or [dim], padded: += gradients of contents times L(q + k) */
    /* on: of scores less the row's lse, in base e; ds = p (1 - p / count) times p's gradients */
    kernel_sigmoids sigmoid;
    float *column_count; /* NULL or [n]: of sigmoids, sums of p times their gradients: those of counts' logarithms */
} kernel_grad_tile;

/* The same for one row and sources anywhere. */
typedef struct kernel_grad_row {
    hga_id n, dim, dim_v;             /* edges, at most KERNEL_CHUNK */
    const float *const *k, *const *v; /* [n], padded */
    kernel_terms terms;               /* r, bias, cap (as in a tile) */
    float *const *dk, *const *dv;     /* [n], sources may repeat */
    const float *drop_mask;           /* NULL or [n]: factors of the edges' weights */
    const float *q, *g;               /* padded; q scaled */
    float lse, delta;
    float *dq;                /* sum of dc (k + r) */
    float *ds, *dc;           /* [n], written: gradients of scores, and of contents */
    kernel_additive additive; /* as in a tile; without r */
    float *d_leaky_relu;
    kernel_sigmoids sigmoid; /* as in a tile */
    float *counts;           /* NULL or [n], written: column_count of each edge */
    /* NULL, or [n] + padding: weights p that are known, lse left out; and what ds has in their place (kernel_entmax) */
    const float *weight, *slope;
} kernel_grad_row;

/* Rows of a tensor: head h of row i is at[i * row + h * head ..]. */
typedef struct kernel_wide {
    const float *at;
    ptrdiff_t row, head;
} kernel_wide;
/* Rows of a tensor that is written, as those of kernel_wide; NULL: not required. */
typedef struct kernel_gradient {
    float *at;
    ptrdiff_t row, head;
} kernel_gradient;

/* The two ends of n edges of rows in order, and of `more` edges after them, which are prefetched. */
typedef struct kernel_ends {
    hga_id n, more;
    int far;           /* the others' rows come from memory itself: they are prefetched earlier, and without a pause */
    int of_keys;       /* the rows are keys, the others queries */
    const hga_id *row; /* [n], ascending */
    const hga_id *other; /* [n + more], row other - other_first at the other end */
    hga_id other_first;
} kernel_ends;

/* Gradients of the rows: = or, for the first row where it continues, and where `adds`, +=. */
typedef struct kernel_row_sums {
    kernel_gradient of_slopes, of_weights; /* [rows]: sums of slopes times others' rows, of weights times theirs */
    int continues, adds;
} kernel_row_sums;

/* What edges have: edge i's rows have number list[i], or first + i where there is no list. */
typedef struct kernel_edge_operands {
    const int64_t *list; /* NULL, or [n + more] */
    int64_t first;
    const float *key;       /* NULL, or rows of the keys' heads, contiguous, added to keys */
    const float *value;     /* NULL, or rows of `features`; without d_out rows of the values' heads, added to values */
    hga_id features;        /* at least 1 */
    kernel_wide d_out;      /* of queries: the adjoint of the features' sums; with `value` */
    float *d_key, *d_value; /* NULL, or rows of gradients: = or, where it adds, +=; where rows are queries */
    float *packed;          /* with `key`: scratch of [KERNEL_HEAD_EDGES][heads * dim] */
    float *packed_v;        /* with values that are added: scratch of [KERNEL_HEAD_EDGES][heads * dim_v] */
} kernel_edge_operands;

/* NULL, or rows of [heads] of each edge: its weights, as values get them, and gradients of contents. Where rows are
   queries they are written, where rows are keys read in place of being computed again. */
typedef struct kernel_edge_cache {
    float *weights, *contents;
} kernel_edge_cache;

/* The adjoint of attention for all heads at once: edges of queries, whose gradients come from keys and values, or of
   keys, whose gradients come from queries. */
typedef struct kernel_grad_heads {
    kernel_ends ends;
    hga_id heads, dim, dim_v;
    hga_id share;             /* query heads to a key's head */
    kernel_wide q, k, g, v;   /* g belongs to queries: the adjoint of outputs; v to keys */
    kernel_additive additive; /* a: NULL, or [heads][dim] */
    kernel_terms terms;       /* scale; bias: NULL or [n], added to every head's score */
    const float *adjoint;     /* of each query [2][heads]: lse, +inf where there is no adjoint, and delta */
    const float *drop_mask;   /* NULL or [n][heads], padded: factors of weights */
    kernel_row_sums sums;
    float *d_leaky_relu; /* NULL or [heads][dim]: += slopes times L(q + k) */
    /* NULL or [n][heads], padded, written: gradients of scores, or, where rows are keys, of counts' logarithms; and
       products */
    float *slope, *product;
    kernel_edge_operands edges;
    kernel_edge_cache cached;
    kernel_sigmoids sigmoid; /* as in a tile */
} kernel_grad_heads;

/* out[i * out_row + h] = x . y of head h of n rows, of at most KERNEL_HEADS heads. */
typedef struct kernel_dots {
    hga_id n, heads, columns;
    kernel_wide x, y;
    float *out;
    ptrdiff_t out_row;
} kernel_dots;

/* Rows of several members: head h of member m is at[m] + h * head[m], not padded. */
typedef struct kernel_rows {
    const float *const *at;
    const ptrdiff_t *head;
    ptrdiff_t ahead; /* distance to the same member of the next family, which is prefetched; 0: unknown */
} kernel_rows;

/* Gradients of members, written: at[m] + h * head[m]. down[m] times `above` is added to member m, unless that is NULL;
   where bit m of `adds` is set, what was there stays in the sum, and where that of `streams` is, heads that lie at
   multiples of 64 bytes may go past the caches. at NULL: not required. */
typedef struct kernel_members {
    float *const *at;
    const ptrdiff_t *head;
    const float *above, *down;
    ptrdiff_t above_head;
    uint64_t adds, streams;
} kernel_members;

/* The most members. */
enum { KERNEL_SIBLINGS = 64 };

/* What the forward pass finds of a family's rows, and the backward pass reads. */
typedef struct kernel_siblings_forward {
    float *lse;  /* [n][heads]; -inf without edges */
    float *mean; /* [n][heads]: g times the row's output; 0 without edges */
    /* NULL, or [edges][heads], row after row: products of queries and keys, and of gradients and values. Means write
       them; gradients read them, and no values, in place of computing them again */
    float *product, *product_v;
} kernel_siblings_forward;

/* The gradient of a row's output is `upstream` times g, and delta that times the output, less the gradient of the
   log-sum-exp. */
typedef struct kernel_siblings_gradients {
    const float *upstream, *delta; /* [n][heads] */
    kernel_members dq, dk, dv;
    double *d_scale; /* NULL, or [heads], added to: of the scale of natural scores */
    float *d_score;  /* NULL, or [n][n][heads], of natural scores, written where there are edges */
} kernel_siblings_gradients;

/* draw NULL, or weights are dropped: edges are of type 0. */
typedef struct kernel_siblings_drop {
    const kernel_draw *draw;
    const hga_id *node; /* [n]: the members as draws know them */
} kernel_siblings_drop;

/* A family: n <= KERNEL_SIBLINGS members attend to each other, and to no other node, in all heads, at most
   KERNEL_HEADS. Queries q, keys k, values v, and gradients g of outputs, of which each row has its own factor. */
typedef struct kernel_siblings {
    hga_id n, heads, dim, dim_v;
    /* these heads are `first_head` and the following ones of `crowd`, of which none changes another's bits */
    hga_id first_head, crowd;
    hga_id share;            /* heads to a key's head */
    kernel_terms terms;      /* scale and bias, in base 2 */
    const uint64_t *columns; /* [n]: bit e of columns[r] when row r has an edge to column e */
    const float *pair;       /* NULL, or [n][n], added to the scores of row and column in all heads, in base 2 */
    kernel_rows q, k, v, g;
    kernel_siblings_forward forward;
    kernel_siblings_gradients grad;
    kernel_siblings_drop drop;
} kernel_siblings;

/* Rows that are written; past the caches, to rows at multiples of 64 bytes; or added to what is there. */
typedef enum kernel_put { KERNEL_WRITE, KERNEL_STREAM, KERNEL_ADD } kernel_put;

#endif
