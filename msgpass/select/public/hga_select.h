/* hga_select.h: attention chosen by content. Keys are cut into blocks, queries into query blocks; which blocks of keys
   a query block attends to is found in the call, from the queries and keys themselves. */
#ifndef HGA_SELECT_H
#define HGA_SELECT_H

#include "hga_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a block's score is, for a query head and the key/value head that it reads. All are multiplied by the scale. */
typedef enum hga_select_score {
    HGA_SELECT_MEAN,   /* <mean of the query block's queries, mean of the block's keys> (MoBA, Lu et al. 2025) */
    HGA_SELECT_MINMAX, /* sum over columns of max(q lo, q hi), lo and hi the least and greatest of the block's keys: an
                          upper bound of every product with one of them (Quest, Tang et al. 2024); query_block 1 */
    HGA_SELECT_SCORES, /* scores are yours */
    HGA_SELECT_SAMPLE  /* softmax weights of every `sample`-th query over all its keys, summed over the block's keys and
                          over these queries; query_block above 1 */
} hga_select_score;

/* Who chooses together. */
typedef enum hga_select_share {
    HGA_SELECT_HEAD,  /* each query head for itself */
    HGA_SELECT_GROUP, /* the query heads of one key/value head, whose scores are added */
    HGA_SELECT_ALL    /* all heads, whose scores are added */
} hga_select_share;

/* How blocks are chosen. A query block's own blocks are those that it meets; they are always chosen. Candidates are,
   `causal`, the blocks that end before its first token; else all but its own. Forced are the candidates among the first
   `sinks` blocks and the `local` candidates next before its own. Of the other candidates come: with k, the best until k
   blocks are chosen, own and forced counted; with a threshold, softmax of the scores over all candidates in double, the
   shortest prefix in decreasing probability whose sum is the threshold or more. Ties go to the lower block. Each
   chooser may have its own k: heads that look at few keys beside heads that look at all.

   With `coarse`, causal tokens that choose for themselves look for blocks in two steps. A coarse block has `coarse`
   tokens and is scored like a block. Of the coarse blocks before the one that holds its own block, a token takes the
   `coarse_k` best. Its candidates are then the blocks of these, the complete blocks before its own in its own coarse
   block and in the coarse block before that, and the forced ones.

   HGA_SELECT_SAMPLE: of a query block that begins with token f the sampled queries are f + sample - 1, f + 2 sample - 1
   and so on, or its last where there is none; causal ones see tokens up to their own. Their weights, in float32, are of
   products alone. A threshold is then met by shares of the candidates' sum, without a softmax; candidates that sum to 0
   are not chosen. */
typedef struct hga_selection {
    hga_id block, query_block; /* tokens in a block of keys, and of queries */
    hga_id k;                  /* at least 1; 0: by threshold; not read where there is k_each */
    hga_id sinks, local;
    hga_select_share share;
    hga_select_score score;
    int causal;
    double threshold; /* above 0, at most 1: all candidates; 0: by k */
    hga_id coarse;    /* tokens, a multiple of block; 0: off */
    hga_id coarse_k;  /* at least 1; read where coarse is on */
    hga_id sample;    /* 1 to query_block; read where scores are sampled */
    hga_id n_k_each;
    const hga_id *k_each; /* NULL, or instead of k: [n_k_each], each chooser's k, at least 1; borrowed for the call */
    uint64_t reserved[1];
} hga_selection;
/* The settings of a choice at their defaults: block 64, query_block 1, k 16 for all, sinks 1, local 1, each head by the
   mean, not causal; coarse off, coarse_k 6; sample 4. */
HGA_API hga_selection hga_selection_defaults(void);

/* The tensors and scores that a choice is made from, borrowed for the call. */
typedef struct hga_select_input {
    hga_id n_tokens;         /* of queries and of keys, which are the same tokens */
    hga_id n_samples;        /* samples in order, each with blocks of its own; 0: one */
    const hga_id *offsets;   /* [n_samples + 1]: sample s has tokens offsets[s] .. offsets[s + 1] - 1; NULL for one */
    hga_shape shape;         /* n_heads, n_kv_heads, dim */
    hga_tensor query, key;   /* [n_tokens][heads][dim]; not read where scores are the caller's */
    const float *scale;      /* NULL: 1 / sqrt(dim) */
    const float *scores;     /* HGA_SELECT_SCORES: [choosers][query blocks][blocks of the longest sample]; candidates of
                               -inf are chosen only where forced */
    hga_precision precision; /* BF16: operands of products are rounded, means after they are taken */
    hga_id threads;          /* 0: as hga_options.threads. The choice does not depend on it */
    const char *isa;         /* NULL: the best; the choice is part of a result's bits */
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_select_input;

/* What was chosen: row r = chooser * n_query_blocks + query block has the blocks block[first[r]] to block[first[r + 1]
   - 1], ascending, its own among them, numbered within their sample. Query blocks of all samples follow each other. */
typedef struct hga_chosen {
    hga_id n_choosers, n_query_blocks;
    hga_id slots;   /* of the longest row */
    hga_pos *first; /* [n_choosers * n_query_blocks + 1] */
    hga_id *block;  /* [first of the last] */
    const hga_allocator *allocator;
} hga_chosen;

/* Choose the blocks that rows attend to. *out is to be cleared (hga_chosen_clear); it is empty after a failure.
   HGA_EINVAL: a parameter, a tensor or a score is not what it must be: NaN and +inf are named, and so is a k_each that
   has not one number for each chooser (hga_select_choosers); HGA_EUNSUPPORTED: minmax with query blocks; sampled
   queries without; coarse where the choice is not causal, has query blocks or uses your scores; HGA_ENOMEM. Threads
   may call at once. */
HGA_API hga_status hga_select_blocks(const hga_selection *s, const hga_select_input *in, hga_chosen *out);
/* Free the arrays of a choice, and make it empty. */
HGA_API void hga_chosen_clear(hga_chosen *c);
/* Write a choice as a table [n_choosers][n_query_blocks][slots], -1 after a row's last block. */
HGA_API void hga_chosen_table(const hga_chosen *c, int32_t *table);

/* Results of an execution over a choice, and what its scores have besides products of queries and keys. */
typedef struct hga_chosen_scores {
    hga_tensor lse;      /* [n_tokens][n_heads], float32: each row's, as an execution writes them */
    float softcap;       /* the program's; 0: none */
    const float *slopes; /* [n_heads]: a score loses slope |row - column|, tokens counted in their sample; NULL: none */
    uint64_t reserved[4];
} hga_chosen_scores;

/* Sum weights by block; out[n_heads][n_tokens][slots]: the sum of a row's weights over each block that it chose, in the
   order in which hga_chosen_table has them, 0 behind its last; later tokens have none where the choice is causal. A row
   sums to 1, less its sink's share. Weights are those before dropout. Whatever the scores that blocks were chosen by,
   query and key are read. HGA_EINVAL: the choice is not one of such a call; HGA_ENOMEM. Results do not depend on
   threads. */
HGA_API hga_status hga_chosen_weights(const hga_selection *s, const hga_select_input *in, const hga_chosen *chosen,
                                      const hga_chosen_scores *scores, float *out);

/* The number of choosers in a call of this shape: heads, key/value heads, or 1. */
HGA_API hga_id hga_select_choosers(const hga_selection *s, const hga_shape *shape);
/* Make the selection of one chooser of n_choosers, for a call of its heads alone: they share, with its own k. `out` may
   be `s`. HGA_EINVAL: there is no such chooser, or k_each is not of so many. */
HGA_API hga_status hga_select_chooser(const hga_selection *s, hga_id chooser, hga_id n_choosers, hga_selection *out);

#ifdef __cplusplus
}
#endif
#endif
