/* select.h: shared by the files of this folder. */
#ifndef SELECT_H
#define SELECT_H

#include "hga_select.h"
#include "machine.h"

/* A sample's tokens, and its blocks: of keys and of queries, counted through all samples. */
typedef struct sample_cut {
    hga_id token, n_tokens;
    hga_id block, n_blocks, query_block, n_query_blocks, coarse, n_coarse;
    hga_id from, first_query; /* of tokens that are appended to others: the first, and its query block; 0 */
} sample_cut;

/* The rows that stand for blocks of keys. */
typedef struct key_blocks {
    hga_id n;               /* of all samples */
    float *rows;            /* [n_kv_heads][n][columns], or NULL */
    const float *const *at; /* NULL, or [n]: [n_kv_heads][columns] of each block */
} key_blocks;

/* All keys, which sampled queries are multiplied with. */
typedef struct sampled_keys {
    const float *const *at; /* NULL: rows of the call's tensor; or where each is, [n_kv_heads][dim] */
    int64_t n;
    float *rows; /* [n_kv_heads][n][dim], as products take them */
} sampled_keys;

/* A call, as everybody reads it. */
typedef struct selecting {
    const hga_selection *how;
    const hga_select_input *in;
    const kernel_table *kernels;
    hga_id threads;
    hga_id n_heads, n_kv_heads, dim;
    hga_id n_choosers, choosing; /* query heads of a chooser */
    float scale;
    hga_id n_samples, n_query_blocks, longest; /* longest: blocks of the longest sample */
    sample_cut *sample;                        /* [n_samples] */
    hga_id columns;                            /* of a block's row: dim, or both bounds */
    key_blocks keys, coarse;                   /* coarse.n 0: off */
    float *queries; /* [n_heads][n_query_blocks][dim]; NULL: a query block is one query, and stands for itself */
    const float *const *query_at; /* NULL, or where each query is, [n_heads][dim]: not in a tensor */
    sampled_keys sampled;
} selecting;

/* select.c: finds of a checked selection the shape, the machine, and the samples' blocks. */
hga_status selection_open(selecting *s);

/* ---- blocks.c ---- */

/* Cuts samples into blocks of keys, queries and coarse ones: s->sample, their numbers, and the longest. */
hga_status blocks_cut(selecting *s);
/* Makes the summary rows of blocks of keys, coarse ones, and query blocks of several tokens, on all threads; none where
   scores are the caller's. */
hga_status blocks_make(selecting *s);
/* Frees the samples and the summary rows. */
void blocks_drop(selecting *s);
/* Row i of the queries, of head `head`, as floats: in place, or in `buffer` [dim]. */
const float *query_row(const selecting *s, int64_t i, hga_id head, float *buffer);
/* Row i of the keys, of key/value head `head`, likewise. */
const float *key_row(const selecting *s, int64_t i, hga_id head, float *buffer);

/* The summary row of a block of n rows, [heads][dim] each: of head h at out + h * stride. */
void block_of_rows(const selecting *s, const float *const *row, hga_id n, hga_id heads, int bounds, ptrdiff_t stride,
                   float *out);

/* select.c: sets heads, dim, choosers and the scale, 1 / sqrt(dim) unless the input has one. */
void selecting_find_shape(selecting *s);
/* select.c: the choice of all query blocks, once blocks are made; *out is yours, and cleared on failure. */
hga_status selecting_choose(const selecting *s, hga_chosen *out);

/* Sixteen rows of a tile: `each` query blocks of a sample, from `first` on, for one chooser; or all that there are, for
   several in order. Row `row` is the first among all rows. */
typedef struct sixteen {
    const sample_cut *sample;
    hga_id chooser, first, each, n;
    hga_pos row;
} sixteen;

/* Are blocks chosen by their number, not by a threshold? */
static inline int by_number(const hga_selection *s) { return s->threshold == 0; }
/* The number of blocks that a chooser takes. */
static inline hga_id blocks_of_chooser(const hga_selection *s, hga_id chooser)
{
    return s->k_each ? s->k_each[chooser] : s->k;
}

/* The query block of row i of sixteen, counted in the sample. */
static inline hga_id query_block_of(const sixteen *x, hga_id i) { return x->first + i % x->each; }
/* The last query block of sixteen. */
static inline hga_id last_query_block(const sixteen *x) { return x->first + x->each - 1; }

/* Rows [first, end) of a sixteen, for the h-th head of their choosers: these read the same key/value head. */
typedef struct scored_rows {
    const sixteen *x;
    hga_id first, end, h, kv;
} scored_rows;

/* The h-th query head of the chooser of row i. */
static inline hga_id head_of(const selecting *s, const sixteen *x, hga_id i, hga_id h)
{
    return (x->chooser + i / x->each) * s->choosing + h;
}

/* The rows from `first` on that read one key/value head with their h-th head. */
static inline scored_rows rows_from(const selecting *s, const sixteen *x, hga_id first, hga_id h)
{
    const hga_id share = s->n_heads / s->n_kv_heads;
    scored_rows r = {x, first, first + 1, h, head_of(s, x, first, h) / share};
    while (r.end < x->n && head_of(s, x, r.end, h) / share == r.kv) r.end++;
    return r;
}

/* What a query block may choose. */
typedef struct candidates {
    hga_id first_own, last_own; /* the blocks that it meets */
    hga_id end;                 /* the candidates are the blocks before this one, but for its own */
} candidates;

/* Scratch of a thread that picks for sixteen: blocks in order, the rows of each contiguous. */
typedef struct picker {
    float *score;      /* [blocks of the longest sample, padded][KERNEL_TILE] */
    lane_mask *chosen; /* [the same]: bit r: row r has the block */
    lane_mask *forced;
    float *coarse; /* scores of coarse blocks, and which are chosen; NULL where they are off */
    lane_mask *open;
    hga_id *heap; /* [the same], where a threshold decides */
    double *p;    /* [the same]: the probabilities of a row's blocks */
    int weights;  /* 1: scores are weights, else their logarithms */
} picker;

/* ---- pick.c ---- */

/* What query block i of the sample may choose: causal: the blocks before its own, else all but its own. */
candidates candidates_of(const hga_selection *s, const sample_cut *sample, hga_id i);
/* The number of coarse blocks before that of the last of sixteen. */
hga_id coarse_before(const selecting *s, const sixteen *x);
/* From p->score, and p->coarse, to p->chosen. Returns the first row with a candidate whose score is NaN or +inf, and
   the block; -1: none. */
hga_id pick_sixteen(const selecting *s, const sixteen *x, picker *p, hga_id *bad_block);

#endif
