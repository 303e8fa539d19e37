/* kernels.h: arithmetic on plain pointers. One table of operations per instruction set; the same source, rows.inc, is
   compiled for each. Softmax is in base 2: callers multiply queries (or their scale) and biases by KERNEL_LOG2E.
   Log-sum-exps are natural. A cap C of scores, in base 2, makes C tanh(s / C) of a score s before its bias is added; 0:
   none. NaN and infinity stay with the rows that see them: a pair without an edge adds nothing, whatever its value
   holds. Keys and values may be of 16 bits: bfloat16, the upper half of a float. Kernels of such operands end in _bf16.
   A pair is a word of two, the first in the low half. Nothing here knows of graphs, programs or threads. No function
   allocates or fails. Results depend on the instruction set, never on the calling thread. */
#ifndef KERNELS_H
#define KERNELS_H

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

/* Where weights are sigmoids, 1 / (1 + 2^-score), each of its score alone, a state is the sum of them times v: greatest
   is 0, sum 1, and 0 before there is an edge. */

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
    int sigmoid; /* 1: weights are sigmoids */
} kernel_chunk;

/* The most heads that a call takes at once; edges go by so many at a time: a call with more does what calls with as
   many each do, one behind the other, bit for bit. */
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
    int sigmoid;   /* 1: weights are sigmoids */
} kernel_heads;

/* The most edges of a row of a family. */
enum { KERNEL_FAMILY = 16 };

/* Rows of a tile: they lie across the lanes. A set of them has bit r for row r. */
enum { KERNEL_TILE = 16 };
typedef uint16_t lane_mask;
_Static_assert(KERNEL_TILE == 8 * sizeof(lane_mask), "a set of rows has a bit for each row of a tile");

/* Floats that somebody reads soon, of which so many are asked for with each row that is computed: what the last range
   says, whose `at` then moves on; a range that has come to its end is dropped. */
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
    float *const *out; /* [n_rows]: head h's output goes to out[r] + h * head; NULL: leave the row alone */
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
    kernel_ahead *ahead; /* NULL: nothing to prefetch */
    int sigmoid;         /* 1: weights are sigmoids; alpha is 0 then */
} kernel_family;

/* One head's scores of a row that entmax of alpha takes. What is written has room for KERNEL_PAD behind the last. */
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

/* out = a x + b y for each head of n rows; where b is 0, y is not looked at. */
typedef struct kernel_mix {
    hga_id n, heads, columns;
    const float *a, *b; /* [n][heads]; a NULL: 1 */
    const float *const *x, *const *y;
    float *const *out; /* may be x or y */
    ptrdiff_t x_head, y_head, out_head;
    int streams; /* out's rows are at multiples of 64 bytes, columns one of KERNEL_PAD, and nobody reads them soon: they
                    go past the caches, see streamed; out is neither x nor y */
    kernel_ahead *ahead; /* NULL: nothing to ask for */
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
    hga_id first_row;        /* no outputs are computed for the rows before it: nobody asks for them */
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
    int streams; /* out's rows are at multiples of 64 bytes, dim_v one of KERNEL_PAD, and nobody reads them soon: they
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
    kernel_terms terms; /* all but r */
    float keep;         /* weights that are not dropped are multiplied with it, see a group's drop_mask */
    /* 1: a group of which one row is requested may have scores whose products are added up in another order: as right,
       of other bits, and several times as fast. For attend_tile alone */
    int lone;
    int sigmoid; /* 1: weights are sigmoids */
} kernel_tile;

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
    float *d_row, *d_column;           /* added to; NULL: not wanted */
} kernel_grad_positions;

/* Sixteen rows in the backward pass. Operands and gradients both turned, [dim][KERNEL_TILE] and [dim_v][KERNEL_TILE],
   and row by row, padded; queries scaled. */
typedef struct kernel_grad_group {
    const lane_mask *rows; /* [n]: bit r when row r and the column have an edge; NULL: all have */
    const float *q, *g, *q_rows, *g_rows;
    const float *lse, *delta; /* [KERNEL_TILE]; +inf: a row without edges */
    float *dq;                /* row by row: sum of dc k */
    const uint16_t
        *drop_mask;      /* NULL, or [n]: weights are kept where the bit of the row is set, times the tile's `keep` */
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
    int sigmoid; /* 1: weights are sigmoids of scores less the row's lse, and ds = p (1 - p) times their gradients */
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
    float *dq;      /* sum of dc (k + r) */
    float *ds, *dc; /* [n], written: gradients of scores, and of contents */
    int sigmoid;    /* as in a tile */
    float *counts;  /* NULL or [n], written: column_count of each edge */
    /* NULL, or [n] + padding: weights p that are known, lse left out; and what ds has in their place (kernel_entmax) */
    const float *weight, *slope;
} kernel_grad_row;

/* Rows of a tensor: head h of row i is at[i * row + h * head ..]. */
typedef struct kernel_wide {
    const float *at;
    ptrdiff_t row, head;
} kernel_wide;
/* Rows of a tensor that is written, as those of kernel_wide; NULL: not wanted. */
typedef struct kernel_gradient {
    float *at;
    ptrdiff_t row, head;
} kernel_gradient;

/* The two ends of n edges of rows in order, and of `more` edges behind them, which are prefetched. */
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
    const float *value;     /* NULL, or rows of `features` */
    hga_id features;        /* at least 1 */
    kernel_wide d_out;      /* of queries: the adjoint of the features' sums; with `value` */
    float *d_key, *d_value; /* NULL, or rows of gradients: = or, where it adds, +=; where rows are queries */
    float *packed;          /* with `key`: scratch of [KERNEL_HEAD_EDGES][heads * dim] */
} kernel_edge_operands;

/* NULL, or rows of [heads] of each edge: its weights, as values get them, and gradients of contents. Where rows are
   queries they are written, where rows are keys read in place of being computed again. */
typedef struct kernel_edge_cache {
    float *weights, *contents;
} kernel_edge_cache;

/* The adjoint of attention for all heads at once: edges of queries, which get what keys and values make of them, or of
   keys, which get what queries do. */
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
    float *d_leaky_relu;    /* NULL or [heads][dim]: += slopes times L(q + k) */
    float *slope, *product; /* NULL or [n][heads], padded, written: gradients of scores, products */
    kernel_edge_operands edges;
    kernel_edge_cache cached;
} kernel_grad_heads;

/* out[i * out_row + h] = x . y of head h of n rows, of at most KERNEL_HEADS heads. */
typedef struct kernel_dots {
    hga_id n, heads, columns;
    kernel_wide x, y;
    float *out;
    ptrdiff_t out_row;
} kernel_dots;

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
    unsigned heads;   /* bit h: head h of the eight is wanted */
    ptrdiff_t stride; /* a head's bits lie so far behind those of the wanted one before it */
} kernel_drop;

/* Those of n pairs that have nothing in common, in heads first_head .. first_head + heads - 1. */
typedef struct kernel_drop_pairs {
    kernel_draw draw;
    hga_id n, first_head, heads;
    const hga_id *destination, *source; /* [n] */
    const int32_t *type;                /* [n] */
} kernel_drop_pairs;

/* Rows of several members: head h of member m is at[m] + h * head[m], not padded. */
typedef struct kernel_rows {
    const float *const *at;
    const ptrdiff_t *head;
    ptrdiff_t
        ahead; /* the same member of the family that comes next lies so far on, and is asked for; 0: nobody knows */
} kernel_rows;

/* Gradients of members, written: at[m] + h * head[m]. Member m is given down[m] of `above`, too, unless that is NULL;
   where bit m of `adds` is set, what was there stays in the sum, and where that of `streams` is, heads that lie at
   multiples of 64 bytes may go past the caches. at NULL: not wanted. */
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
   KERNEL_HEADS. Queries q, keys k, values v, and gradients g of outputs, of which each row has its own part. */
typedef struct kernel_siblings {
    hga_id n, heads, dim, dim_v;
    /* these heads are `first_head` and those behind it of `crowd`, of which none changes another's bits */
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

typedef struct kernel_table {
    const char *isa;
    /* state <- state merged with the softmax state of the chunk */
    void (*attend)(const kernel_chunk *c, kernel_state *s);
    /* the chunk's scores alone, out[n] */
    void (*scores)(const kernel_chunk *c, float *out);
    /* the same as attend for all heads of a row, at most KERNEL_HEADS */
    void (*attend_heads)(const kernel_heads *c);
    /* the weights of edges by log-sum-exps that are known: `greatest`, in base 2, +inf where a row has none; states and
       values are left alone */
    void (*weigh_heads)(const kernel_heads *c);
    /* out[h * out_head + j] += sum over i of w[i * heads + h] * x[i][j] */
    void (*sum_heads)(hga_id n, hga_id heads, const float *const *x, hga_id columns, const float *w, float *out,
                      ptrdiff_t out_head);
    /* the states of rows with few edges, finished: out normalised, lse natural; 0 and -inf without edges */
    void (*attend_family)(const kernel_family *c);
    /* inverse[i] = 1 / sum[i], lse[i] = greatest[i] ln 2 + log sum[i]; 0 and -inf where the state is empty. Outputs may
       be the inputs. */
    void (*finish)(hga_id n, const float *greatest, const float *sum, float *inverse, float *lse);
    /* Finished states with log-sum-exps x and y merge into a of the one and b of the other, with log-sum-exp lse, which
       may be x or y. An empty state changes nothing: where y is -inf, a is 1 and b 0 */
    void (*shares)(hga_id n, const float *x, const float *y, float *a, float *b, float *lse);
    void (*mix)(const kernel_mix *m);
    /* out[i] = log(e^x[i] + e^y[i]) */
    void (*log_add)(hga_id n, const float *x, const float *y, float *out);
    /* sum[head] += mass[i] energy[i][head] for i = 0, .., n - 1, in that order, but for masses of 0 */
    void (*energies)(hga_id n, hga_id heads, const float *energy, const float *mass, double *sum);
    /* share[i] = e^x / (e^x + e^y), rest[i] = e^y / (e^x + e^y); 0 and 1 when x is -inf, else 1 and 0 when y is; both
       times whole[i], unless that is NULL */
    void (*divide)(hga_id n, const float *x, const float *y, const float *whole, float *share, float *rest);
    /* the same as attend for a tile's groups */
    void (*attend_tile)(const kernel_tile *t);
    /* the scores of a tile's first group alone, without its pair biases: out[n][KERNEL_TILE] */
    void (*score_tile)(const kernel_tile *t, float *out);
    /* out[c][r] = base[c][r] + table[place][r], [..][KERNEL_TILE] all three, of n columns c: each has the next many[c]
       of `pick`, place | rows << 16, of which one at most has row r; base NULL: 0 */
    void (*look_up)(hga_id n, const uint8_t *many, const uint32_t *pick, const float *table, const float *base,
                    float *out);
    /* Columns of KERNEL_TILE rows, x[n][KERNEL_TILE]: bit r of chosen[c] is set for the wanted[r] greatest of row r, of
       equal ones the first; never for -inf, and for no more than there are. No x is NaN */
    void (*pick_best)(hga_id n, const int32_t *requested, const float *x, lane_mask *chosen);
    /* attention's adjoint */
    void (*grad_tile)(const kernel_grad_tile *t);
    void (*grad_row)(const kernel_grad_row *t);
    void (*grad_heads)(const kernel_grad_heads *c);
    void (*dot_heads)(const kernel_dots *c);
    /* A family's lse and mean; and, with lse, given and delta, its gradients */
    void (*siblings_means)(const kernel_siblings *c);
    void (*siblings_gradients)(const kernel_siblings *c);
    /* x . y, of n floats, summed in double */
    double (*dot)(hga_id n, const float *x, const float *y);
    /* What dropout leaves, 0 or 1 / (1 - dropout), of single pairs in some heads, kept[n][heads]; and as bits of a
       tile's pairs in those of heads 8 * eight .. 8 * eight + 7 that are wanted: bit r of
       kept[rank among the wanted * stride + column] */
    void (*drop_pairs)(const kernel_drop_pairs *d, float *drop_mask);
    void (*drop_bits)(const kernel_drop *d, hga_id eight, uint16_t *drop_mask);
    /* how many of the row's edges have weights; all of them have NaN where one score is NaN or +inf */
    hga_id (*entmax)(const kernel_entmax *c);
    /* its scores alone: out[e] = score[e] + q . (k[e] + r[e]) */
    void (*grad_scores)(const kernel_grad_row *t, float *out);
    /* out[j][r] = a * x[r][j] for n <= KERNEL_TILE rows, 0 for the lanes after them; a row that is NULL is 0 */
    void (*transpose_rows)(hga_id n, const float *const *x, float a, hga_id columns, float *out);
    /* n rows side by side: out[i * stride + j] = x[i][j] */
    void (*copy_rows)(hga_id n, const float *const *x, hga_id columns, float *out, ptrdiff_t stride);
    /* the same as attend_heads for keys and values of 16 bits */
    void (*attend_heads_bf16)(const kernel_heads *c);
    /* the same as attend_tile for keys and values of 16 bits, weights rounded to as many before they multiply values;
       NULL, and so are transpose_pairs and pair_rows, where widening keys and values is faster */
    void (*attend_tile_bf16)(const kernel_tile *t);
    /* n <= KERNEL_TILE rows, rounded, into pairs: out[j][r] = x[r][2j], x[r][2j + 1]; 0 after the last column, for the
       lanes after the rows, and for a row that is NULL */
    void (*transpose_pairs)(hga_id n, const float *const *x, hga_id columns, uint32_t *out);
    /* n rows, two by two: out[i * stride + j] = x[2i][j], x[2i + 1][j]; 0 after the last column up to KERNEL_PAD, for
       the row after the last one, and for a row that is NULL */
    void (*pair_rows)(hga_id n, const uint16_t *const *x, hga_id columns, uint32_t *out, ptrdiff_t stride);
    /* out[i] = x[i] rounded to bfloat16, to nearest even, NaN staying NaN (where pairs are multiplied, what is below
       2^-126 becomes 0, as in their products); and n rows back, side by side, which is exact:
       out[i * stride + j] = x[i][j] */
    void (*narrow)(hga_id n, const float *x, uint16_t *out);
    void (*widen)(hga_id n, const uint16_t *const *x, hga_id columns, float *out, ptrdiff_t stride);
    /* acc[j] += sum over i of w[i] * x[i][offset + j] */
    void (*sum)(hga_id n, const float *const *x, ptrdiff_t offset, const float *w, hga_id columns, float *acc);
    /* out[j] = a * sum over i of w[i] * x[i][offset + j] */
    void (*weigh)(hga_id n, const float *const *x, ptrdiff_t offset, const float *w, float a, hga_id columns,
                  float *out);
    /* The same of n families, whose rows are x[ptr[i] - ptr[0]] and on, times a[i], into out[i]. */
    void (*weigh_families)(hga_id n, const hga_id *ptr, const float *const *x, const float *w, const float *a,
                           hga_id columns, float *const *out);
    /* to[i][j] += w[i] * x[j], of whole vectors, KERNEL_PAD each; rows may repeat */
    void (*give)(hga_id n, hga_id columns, const float *w, const float *x, float *const *to);
    /* n families of rows side by side, of `columns`, a multiple of KERNEL_PAD: members ptr[i] - ptr[0] .. of family i
       are rows of x, with weights w at the same places, NULL: 1; of 0: not at all. out[i] = sum of w x over the
       members; and out[member] = x[member] + w[member] y[i], rows of out `stride` apart, where `put` says how; out may
       be x where it is not added to */
    void (*gather)(hga_id n, const hga_id *ptr, const float *w, const float *x, hga_id columns, float *out);
    void (*scatter)(hga_id n, const hga_id *ptr, const float *w, const float *y, hga_id columns, const float *x,
                    ptrdiff_t stride, kernel_put put, float *out);
    /* out[j] = a * x[j] + b * y[j]; out may be x or y */
    void (*blend)(hga_id columns, float a, const float *x, float b, const float *y, float *out);
    /* out[j] = a * x[j]; out may be x */
    void (*scale)(hga_id columns, float a, const float *x, float *out);
    /* n rows x, `stride` floats apart, of a multiple of KERNEL_PAD columns, past the caches; out[i] NULL or at a
       multiple of 64 bytes */
    void (*stream)(hga_id n, hga_id columns, const float *x, ptrdiff_t stride, float *const *out);
    /* what mix has sent past the caches is in memory for everybody */
    void (*streamed)(void);
    /* x[i] = e^x[i]; e^-inf is 0 exactly, e^NaN is NaN */
    void (*exp)(hga_id n, float *x);
    /* x rounded to bfloat16 precision, to nearest even, NaN staying NaN; out may be x */
    void (*round_bf16)(hga_id n, const float *x, float *out);
    /* n fused multiply-adds of full vectors on 12 independent chains; returns flops done. To measure the peak. */
    double (*peak_fma)(hga_pos n, float *sink);
    /* the same for products of bfloat16 pairs; NULL where transpose_pairs is */
    double (*peak_pairs)(hga_pos n, float *sink);
    /* sum of n floats (a multiple of KERNEL_PAD), to measure bandwidth */
    float (*read)(hga_pos n, const float *x);
} kernel_table;

/* The tables compiled in, best last, ended by NULL. Whether this machine can run one is cpu.c's business. */
extern const kernel_table *const kernel_tables[];

#endif
