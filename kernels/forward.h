/* forward.h: what the kernels of the forward pass take (kernels.h). */
#ifndef KERNELS_FORWARD_H
#define KERNELS_FORWARD_H

#include "hga_base.h"

/* The most edges a call sees at once; longer rows come in chunks, the state carrying over. */
enum { KERNEL_CHUNK = 64 };

/* Vectors are at most 16 floats: scratch vectors are padded to a multiple of this many. */
enum { KERNEL_PAD = 16 };

/* log2 e, and ln 2 */
#define KERNEL_LOG2E 1.44269504f
#define KERNEL_LN2   0.693147182f

/* A softmax state while its row is being read: about the greatest score so far, -inf before there is one; the sum of
   2^(score - greatest), and the sum of 2^(score - greatest) v. */
typedef struct kernel_state {
    float greatest, sum;
    float *acc; /* [dim_v padded] */
} kernel_state;

/* Where weights are sigmoids, count / (1 + 2^-(score - log count)), each of its score alone, which has the logarithm of
   the count: so they are 1 / (1 / count + 2^-score). A state is the sum of them times v: greatest is 0, sum 1, and 0
   before there is an edge. */
typedef struct kernel_sigmoids {
    int on;
    const float *inverse_count; /* NULL: all counts are 1; or [n], of edges or columns: 1 / the count */
} kernel_sigmoids;

/* Additive scores (GATv2) are a . L(q + k + r), where L(x) is x above 0 and negative_slope x else. a is scaled, q is
   not. */
typedef struct kernel_additive {
    const float *a; /* NULL: scores are products; or [dim], or that of each head */
    float negative_slope;
} kernel_additive;

/* What scores of one head, or of all, have besides the product of query and key. n: the call's edges or columns. A
   kernel reads those that its struct names; the others are 0. */
typedef struct kernel_terms {
    float scale;            /* of products */
    float cap;              /* contents c become cap tanh(c / cap); 0: none */
    const float *bias;      /* [n], added to each score of an edge or a column */
    const float *after;     /* [n], added after the cap; read where there is one, and then there is no bias */
    const float *const *r;  /* NULL, or [n]: [dim], added to keys; an infinite query may make q k + q r NaN */
    const float *column_at; /* NULL, or [n]: positions; scores lose slope |row_at - column_at| (ALiBi) */
    float slope;
} kernel_terms;

/* One chunk of a row's in-edges, for one head. k[e] + k_offset is the key of edge e, of `dim` floats; v likewise with
   dim_v. */
typedef struct kernel_chunk {
    hga_id n, dim, dim_v;
    const float *q; /* [dim padded with zeros], already scaled, but for additive scores */
    kernel_additive additive;
    const float *const *k;
    const float *const *v;
    ptrdiff_t k_offset, v_offset;
    kernel_terms terms;     /* r, cap, bias */
    const float *drop_mask; /* NULL or [n], drop_mask_step apart: factors of weights before they multiply values */
    ptrdiff_t drop_mask_step;
    kernel_sigmoids sigmoid;
} kernel_chunk;

/* The most heads that a call takes at once; edges go by so many at a time: a call with more does what calls with as
   many each do, in order, bit for bit. */
enum { KERNEL_HEADS = 64, KERNEL_HEAD_EDGES = 16 };

/* Keys and values of n edges or columns: head h of the call reads k[e] + h / share * k_head; values alike. */
typedef struct kernel_columns {
    const float *const *k;
    const float *const *v;
    ptrdiff_t k_head, v_head;
} kernel_columns;

/* bfloat16, in place of q, k and v. */
typedef struct kernel_heads_bf16 {
    const uint16_t *q; /* neither padded nor scaled */
    const uint16_t *const *k;
    const uint16_t *const *v;
} kernel_heads_bf16;

/* States of all heads, see kernel_state: head h's vector is acc + h * head. */
typedef struct kernel_head_states {
    float *greatest, *sum; /* [heads] */
    float *acc;
    ptrdiff_t head;
} kernel_head_states;

/* x NULL, or [n]: `features` of each edge, summed as values are, for each head by itself, at `at` + h * head. */
typedef struct kernel_edge_sums {
    const float *const *x;
    hga_id features;
    float *at;
    ptrdiff_t head;
} kernel_edge_sums;

/* One chunk of a row's in-edges, for all heads. */
typedef struct kernel_heads {
    hga_id n, heads, dim, dim_v;
    hga_id share;   /* heads to a key's head */
    const float *q; /* head h at q + h * q_head, padded with zeros, already scaled */
    ptrdiff_t q_head;
    kernel_additive additive; /* heads of a as those of q; where dim is 1 q_head is, too */
    kernel_columns columns;
    /* 0; or, where keys and values lie in memory and in no cache, the rows that `columns` (or bf16) have: of these n
       edges and of the next ones, which are prefetched */
    hga_id known;
    int near; /* 1: keys and values are in a cache, or soon are: contiguous ones are not prefetched */
    kernel_heads_bf16 bf16;
    kernel_terms terms;     /* r (of float32, without additive scores), scale (of bfloat16's products), cap, bias */
    const float *drop_mask; /* NULL or [n][heads], padded: factors of weights before they multiply values */
    kernel_head_states states;
    kernel_edge_sums edge_sums;
    float *weight; /* of weigh_heads: [n][heads] + padding, written */
    kernel_sigmoids sigmoid;
} kernel_heads;

/* n rows, of at most KERNEL_CHUNK edges each, whose heads lie together: edges first[i] .. first[i + 1] - 1 are row i's.
   dim is dim_v, or 1 with additive scores. */
typedef struct kernel_few_edges {
    hga_id n, heads, dim, dim_v;
    const hga_id *first;              /* [n + 1] */
    const float *const *q;            /* [n] rows [heads][dim], not scaled */
    const float *const *k, *const *v; /* [edges] rows [heads][dim] and [heads][dim_v] */
    const float *const *r;            /* NULL or [edges]: rows that are added to keys */
    const float *const *r_v;          /* NULL or [edges]: rows that are added to values */
    const float *bias;                /* NULL or [edges], padded */
    const float *drop_mask;           /* NULL or [edges][heads], padded: factors of weights */
    const float *a;                   /* NULL: scores are products; else [heads][dim], scaled: see kernel_additive */
    float negative_slope, scale, cap; /* scale: of products */
    int far;                          /* rows of keys and values are in memory, and are prefetched */
    float *const *out;                /* [n] rows [heads][dim_v], written */
    float *const *lse;                /* [n] rows [heads], written */
} kernel_few_edges;

/* The most edges of a row of a family. */
enum { KERNEL_FAMILY = 16 };

/* Rows of a tile: they lie across the lanes. A set of them has bit r for row r. */
enum { KERNEL_TILE = 16 };
typedef uint16_t lane_mask;
_Static_assert(KERNEL_TILE == 8 * sizeof(lane_mask), "a set of rows has a bit for each row of a tile");

/* Floats that are read soon. With each row that is computed, `floats` of the last range are prefetched, whose `at`
   then moves on; a range that has come to its end is dropped. */
enum { KERNEL_AHEAD = 4 };
typedef struct kernel_ahead {
    hga_id n;
    struct {
        const float *at, *end;
        ptrdiff_t floats;
    } range[KERNEL_AHEAD];
} kernel_ahead;

/* Finished states of rows. */
typedef struct kernel_results {
    float *const *out; /* [n_rows]: head h's output is at out[r] + h * head; NULL: leave the row alone */
    float *const *lse; /* [n_rows]: [heads] log-sum-exps */
    ptrdiff_t head;
    int streams; /* as a kernel_tile_group's */
} kernel_results;

/* Up to KERNEL_TILE rows that have edges to some of n <= KERNEL_CHUNK columns and no others, each to at most
   KERNEL_FAMILY, for all heads. Head h of row r has its query at q[r] + h *
   q_head, neither padded nor scaled. */
typedef struct kernel_family {
    hga_id n_rows, n, heads, dim, dim_v;
    hga_id share; /* heads to a key's head */
    const float *const *q;
    ptrdiff_t q_head;
    kernel_columns columns;
    kernel_terms terms;     /* scale, cap, bias, r */
    const float *head_bias; /* NULL, or [n][KERNEL_HEADS]: added to the score of a column and a head */
    const lane_mask *rows;  /* [n]: bit r when row r and the column have an edge */
    kernel_results results;
    /* NULL, or of each row [its edges][heads], padded: factors of weights before they multiply values */
    const float *const *drop_mask;
    float alpha; /* 0: softmax; or more than 1: entmax, scores having the logarithms of counts, and nothing dropped */
    /* NULL; or, of entmax, [n_rows]: [heads] energies of what is inside a row, one more of its scores. With its
       weights p, their g, and the sum s of all but that of what is inside, they become g + log p of that, and lse
       g + log s; the output is divided by s */
    float *const *inside;
    kernel_ahead *ahead;     /* NULL: nothing to prefetch */
    kernel_sigmoids sigmoid; /* where on, alpha is 0 */
} kernel_family;

/* One head's scores of a row that entmax of alpha takes. Outputs have a capacity of KERNEL_PAD after the last. */
typedef struct kernel_entmax {
    hga_id n;
    float alpha, step;  /* what scores are multiplied with: alpha - 1, in their unit */
    float unit;         /* a natural logarithm of 1 in it */
    float *score;       /* [n] */
    const float *count; /* NULL: each is 1; or [n]: as how many tokens each counts, whose logarithm scores have, and
                           lose here */
    /* written, of those that have weights, in their order: numbers, weights p, and p^(2 - alpha) count^(alpha - 1) */
    hga_id *index;
    float *weight, *slope;
} kernel_entmax;

/* out = a x + b y for each head of n rows; where b is 0, y is not read. */
typedef struct kernel_mix {
    hga_id n, heads, columns;
    const float *a, *b; /* [n][heads]; a NULL: 1 */
    const float *const *x, *const *y;
    float *const *out; /* may be x or y */
    ptrdiff_t x_head, y_head, out_head;
    int streams; /* out's rows are at multiples of 64 bytes, columns one of KERNEL_PAD, and are not read soon: they
                    go past the caches, see streamed; out is neither x nor y */
    kernel_ahead *ahead; /* NULL: nothing to prefetch */
} kernel_mix;

/* Softmax states of a group's rows while they are being read; see kernel_state. Row r's vector is acc + r * stride, of
   dim_v padded. */
typedef struct kernel_tile_state {
    float *greatest, *sum; /* [KERNEL_TILE] */
    float *acc;
    ptrdiff_t stride;
} kernel_tile_state;

/* One group of a tile: up to KERNEL_TILE rows. Bit r of rows[c] tells whether row r and column c have an edge. */
typedef struct kernel_tile_group {
    hga_id n_rows;
    hga_id first_row;        /* no outputs are computed for the rows before it: they are not requested */
    const float *q;          /* [dim][KERNEL_TILE], scaled; lanes from n_rows on are zero */
    const uint32_t *q_pairs; /* bfloat16: [pairs of dim][KERNEL_TILE], not scaled, in place of q; see transpose_pairs */
    const lane_mask *rows;   /* [n]; NULL: every pair has an edge */
    const float *pair_bias;  /* NULL or [n][KERNEL_TILE], added to the pairs' scores */
    const float *row_at;     /* [KERNEL_TILE], see column_at */
    /* NULL, or [n]: weights multiply values where the bit of the row is set, times the tile's `keep` */
    const uint16_t *drop_mask;
    int fresh; /* the states are empty, whatever their memory holds */
    /* NULL, or [n_rows]: the states end here. Row r's outputs go to out[r], its log-sum-exp to state.greatest, and the
       rest is lost */
    float *const *out;
    int streams; /* out's rows are at multiples of 64 bytes, dim_v one of KERNEL_PAD, and are not read soon: they
                    go past the caches */
    kernel_tile_state state;
} kernel_tile_group;

/* One group of rows or two against n <= KERNEL_CHUNK columns, or none, for one head. Two share what is read of the
   keys; what they compute is what each would alone. */
typedef struct kernel_tile {
    hga_id n_groups, n, dim, dim_v;
    kernel_tile_group group[2];
    const float *const *k;
    const float *const *v;
    ptrdiff_t v_row; /* 0, or values are contiguous: v[c] is v[0] + c * v_row */
    /* bfloat16, in place of k and v: keys, and values in pairs of columns, v_row words apart (see pair_rows). Where odd
       is 1, column 0 is the second of its pair, and column c of pair (c + 1) / 2; else, and without
       columns, it is 0. */
    const uint16_t *const *k16;
    const uint32_t *v_pairs;
    hga_id odd;
    kernel_additive additive; /* a NULL: scores are products; else rows' q are not scaled */
    kernel_terms terms;       /* all but r */
    float keep;               /* weights that are not dropped are multiplied with it, see a group's drop_mask */
    /* 1: a group of which one row is requested may have scores whose products are added up in another order: as right,
       of other bits, and several times as fast. For attend_tile alone */
    int lone;
    kernel_sigmoids sigmoid;
} kernel_tile;

/* Biases of edges, of the pairs of sixteen rows and n <= KERNEL_CHUNK columns. Row r has edges to the columns whose
   bits columns[r] has: those of the first are at row[r], heads contiguous, and edge[r] floats after them the next
   ones. */
typedef struct kernel_edge_biases {
    hga_id n, heads;
    const uint64_t *columns; /* [KERNEL_TILE] */
    const float *const *row; /* [KERNEL_TILE], read where the row has columns */
    const ptrdiff_t *edge;   /* [KERNEL_TILE] */
    /* [heads][KERNEL_CHUNK][KERNEL_TILE], n columns written: in base 2; the least number stays finite */
    float *out;
} kernel_edge_biases;

/* Dropout's draws, see philox.h. */
typedef struct kernel_draw {
    uint64_t seed;
    uint32_t layer;
    float dropout;
    hga_id first_head; /* of all, where the call has some heads */
} kernel_draw;

/* Those of sixteen rows and n <= KERNEL_CHUNK columns. */
typedef struct kernel_drop {
    kernel_draw draw;
    hga_id n;
    const hga_id *destination, *source; /* [KERNEL_TILE], [n] */
    const int32_t *type;                /* [n], NULL: 0; or where types vary [n][KERNEL_TILE] */
    int types_vary;
    unsigned heads;   /* bit h: head h of the eight is requested */
    ptrdiff_t stride; /* from a requested head's bits to the next one's */
} kernel_drop;

/* Those of n pairs that have nothing in common, in heads first_head .. first_head + heads - 1. */
typedef struct kernel_drop_pairs {
    kernel_draw draw;
    hga_id n, first_head, heads;
    const hga_id *destination, *source; /* [n] */
    const int32_t *type;                /* [n] */
} kernel_drop_pairs;

#endif
