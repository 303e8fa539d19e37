/* option_pairs.h: which two options of a call occur together in the tests, which the library refuses together, which
   cannot occur together; and of which options every three do. */
#ifndef HGA_OPTION_PAIRS_H
#define HGA_OPTION_PAIRS_H

#include "traits.h"

typedef enum pair_fate { PAIR_TESTED, PAIR_REFUSED, PAIR_NEVER } pair_fate;

/* A pair that is not tested, and why; or that option with all from b to `last`. Every other pair is tested. */
typedef struct pair_row {
    trait a, b;
    pair_fate fate;
    const char *why;
    trait last; /* 0: b alone */
} pair_row;

#define no_slices "a gradient needs all that the output is made of"
#define own_rows  "a rank computes the rows of its own tokens"
#define no_tokens "no meaning token by token"
#define of_edges  "ranks refuse them when a call brings them (test_edge_values)"

static const pair_row pair_table[] = {
    {TRAIT_KEEP_FIELDS, TRAIT_SOME_ROWS, PAIR_REFUSED, "keep_fields keeps every row of every field", TRAIT_ROWS_STAY},
    {TRAIT_ROWS_STAY, TRAIT_GRADIENT, PAIR_REFUSED, no_slices, TRAIT_D_EDGE_OUT},
    {TRAIT_RANKS, TRAIT_CROSS, PAIR_REFUSED, "tokens are shared out, and a query's is its key's", 0},
    {TRAIT_RANKS, TRAIT_SOME_ROWS, PAIR_REFUSED, own_rows, TRAIT_ROWS_STAY},
    {TRAIT_RANKS, TRAIT_KEEP_FIELDS, PAIR_REFUSED, "keep_fields keeps every row of every field", 0},
    {TRAIT_DECODING, TRAIT_KEEP_FIELDS, PAIR_REFUSED, no_tokens, 0},
    {TRAIT_DECODING, TRAIT_DROPOUT, PAIR_REFUSED, no_tokens, 0},
    {TRAIT_DECODING, TRAIT_EDGE_BIAS, PAIR_REFUSED, no_tokens, TRAIT_EDGE_VALUE},
    {TRAIT_DECODING, TRAIT_GRADIENT, PAIR_REFUSED, no_tokens, TRAIT_D_EDGE_OUT},
    {TRAIT_DECODING, TRAIT_SOME_ROWS, PAIR_REFUSED, "an append has all rows of its tokens", TRAIT_INTERVALS},
    {TRAIT_DECODING, TRAIT_F16_TENSORS, PAIR_REFUSED, "an append brings float32", TRAIT_BF16_TENSORS},
    {TRAIT_DECODING, TRAIT_USER_TENSORS, PAIR_REFUSED, "nobody knows which rows of them come with a token", 0},
    {TRAIT_RANKS, TRAIT_FOLDS, PAIR_NEVER, "ranks refuse folded rows when a call brings them (test_folds)", 0},
    {TRAIT_DECODING, TRAIT_FOLDS, PAIR_REFUSED, "an append brings rows of tokens", 0},
    {TRAIT_DECODING, TRAIT_CROSS, PAIR_REFUSED, "decoding is of self-attention", 0},
    {TRAIT_DECODING, TRAIT_RANKS, PAIR_REFUSED, "a decoder is of one process", 0},
    {TRAIT_DECODING, TRAIT_UPDATED, PAIR_NEVER, "a decoder's graph stays", 0},
    {TRAIT_RANKS, TRAIT_EDGE_KEY, PAIR_NEVER, of_edges, TRAIT_EDGE_VALUE},
    {TRAIT_RANKS, TRAIT_D_EDGE_KEY, PAIR_NEVER, of_edges, TRAIT_D_EDGE_OUT},
    {TRAIT_EDGE_VALUE, TRAIT_SINK, PAIR_NEVER, "the output's weights alone are summed with", 0},
    {TRAIT_EDGE_VALUE, TRAIT_D_SINK, PAIR_NEVER, "the output's weights alone are summed with", 0},
    {TRAIT_EDGE_VALUE, TRAIT_SIGMOID, PAIR_NEVER, "of softmax's weights", 0},
    {TRAIT_EDGE_VALUE, TRAIT_ENTMAX, PAIR_NEVER, "of softmax's weights", 0},
    {TRAIT_D_EDGE_VALUE, TRAIT_SINK, PAIR_NEVER, "the output's weights alone are summed with", 0},
    {TRAIT_D_EDGE_VALUE, TRAIT_D_SINK, PAIR_NEVER, "the output's weights alone are summed with", 0},
    {TRAIT_D_EDGE_VALUE, TRAIT_SIGMOID, PAIR_NEVER, "of softmax's weights", 0},
    {TRAIT_D_EDGE_VALUE, TRAIT_ENTMAX, PAIR_NEVER, "of softmax's weights", 0},
    {TRAIT_D_EDGE_OUT, TRAIT_SINK, PAIR_NEVER, "the output's weights alone are summed with", 0},
    {TRAIT_D_EDGE_OUT, TRAIT_D_SINK, PAIR_NEVER, "the output's weights alone are summed with", 0},
    {TRAIT_D_EDGE_OUT, TRAIT_SIGMOID, PAIR_NEVER, "of softmax's weights", 0},
    {TRAIT_D_EDGE_OUT, TRAIT_ENTMAX, PAIR_NEVER, "of softmax's weights", 0},
    {TRAIT_D_EDGE_VALUE, TRAIT_TYPE_SCALE, PAIR_NEVER, "few programs sum by weights and attend behind that", 0},
    {TRAIT_D_EDGE_OUT, TRAIT_TYPE_SCALE, PAIR_REFUSED, no_slices, 0},
    {TRAIT_SIGMOID, TRAIT_SINK, PAIR_NEVER, "a sigmoid has no denominator", 0},
    {TRAIT_SIGMOID, TRAIT_D_SINK, PAIR_NEVER, "a sigmoid has no denominator", 0},
    {TRAIT_SIGMOID, TRAIT_ENTMAX, PAIR_NEVER, "a program has one normaliser", 0},
    {TRAIT_ENTMAX, TRAIT_SINK, PAIR_NEVER, "entmax has no denominator", 0},
    {TRAIT_ENTMAX, TRAIT_D_SINK, PAIR_NEVER, "entmax has no denominator", 0},
    {TRAIT_ENTMAX, TRAIT_LSE, PAIR_NEVER, "entmax has no denominator", 0},
    {TRAIT_ENTMAX, TRAIT_D_LSE, PAIR_NEVER, "entmax has no denominator", 0},
    {TRAIT_SIGMOID, TRAIT_LSE, PAIR_NEVER, "a sigmoid has no denominator", 0},
    {TRAIT_SIGMOID, TRAIT_D_LSE, PAIR_NEVER, "a sigmoid has no denominator", 0},
    {TRAIT_SCALE, TRAIT_SCALE_ZERO, PAIR_NEVER, "a scale is 0 or another number", 0},
    {TRAIT_SIDES, TRAIT_CROSS, PAIR_NEVER, "in cross-attention a token's side is the one it is on", 0},
};
enum { N_PAIR_ROWS = sizeof pair_table / sizeof *pair_table };

static inline int pair_is_of(const pair_row *p, trait a, trait b)
{
    return p->a == a && b >= p->b && b <= (p->last ? p->last : p->b);
}

static inline const pair_row *pair_find(trait a, trait b)
{
    for (int i = 0; i < N_PAIR_ROWS; i++)
        if (pair_is_of(&pair_table[i], a, b) || pair_is_of(&pair_table[i], b, a)) return &pair_table[i];
    return NULL;
}

static inline pair_fate pair_fate_of(trait a, trait b)
{
    const pair_row *row = pair_find(a, b);
    return row ? row->fate : PAIR_TESTED;
}

/* Options of which every three occur together, but for those of which two do not. */
static const trait triple_table[] = {
    TRAIT_BF16,   TRAIT_GENERIC,  TRAIT_DROPOUT,     TRAIT_SOME_ROWS,    TRAIT_ROWS_STAY, TRAIT_BATCH, TRAIT_SIGMOID,
    TRAIT_ENTMAX, TRAIT_ADDITIVE, TRAIT_F16_TENSORS, TRAIT_BF16_TENSORS, TRAIT_COARSE,    TRAIT_RANKS, TRAIT_DECODING};
enum { N_TRIPLES_OF = sizeof triple_table / sizeof *triple_table };

/* The worst of its pairs'. */
static inline pair_fate triple_fate_of(trait a, trait b, trait c)
{
    const pair_fate of[] = {pair_fate_of(a, b), pair_fate_of(a, c), pair_fate_of(b, c)};
    pair_fate fate = PAIR_TESTED;
    for (int i = 0; i < 3; i++) fate = of[i] > fate ? of[i] : fate;
    return fate;
}

#endif
