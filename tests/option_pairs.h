/* option_pairs.h: which two options of a call meet in the tests, which the library refuses together, which cannot meet.
   */
#ifndef HGA_OPTION_PAIRS_H
#define HGA_OPTION_PAIRS_H

#include "traits.h"

typedef enum pair_fate { PAIR_TESTED, PAIR_REFUSED, PAIR_NEVER } pair_fate;

/* A pair that is not tested, and why; every other pair is. */
typedef struct pair_row {
    trait a, b;
    pair_fate fate;
    const char *why;
} pair_row;

#define no_slices "a gradient needs all that the output is made of"
#define own_rows  "a rank computes the rows of its own tokens"

static const pair_row pair_table[] = {
    {TRAIT_KEEP_FIELDS, TRAIT_RANGES, PAIR_REFUSED, "keep_fields keeps every row of every field"},
    {TRAIT_KEEP_FIELDS, TRAIT_LISTED_ROWS, PAIR_REFUSED, "keep_fields keeps every row of every field"},
    {TRAIT_KEEP_FIELDS, TRAIT_SLICES, PAIR_REFUSED, "keep_fields keeps every row of every field"},
    {TRAIT_SLICES, TRAIT_GRADIENT, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_STRIPS, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_SUBTREE, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_ACCUMULATE, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_LSE, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_SOME_GRADIENTS, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_QUERY, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_KEY, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_VALUE, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_USER, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_REL_KEY, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_REL_BIAS, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_EDGE_BIAS, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_NODE_POS, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_TYPE_SCALE, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_LOG_MASS, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_SCALE, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_SINK, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_SLOPES, PAIR_REFUSED, no_slices},
    {TRAIT_SLICES, TRAIT_D_ADDITIVE, PAIR_REFUSED, no_slices},
    {TRAIT_RANKS, TRAIT_CROSS, PAIR_REFUSED, "tokens are shared out, and a query's is its key's"},
    {TRAIT_RANKS, TRAIT_RANGES, PAIR_REFUSED, own_rows},
    {TRAIT_RANKS, TRAIT_LISTED_ROWS, PAIR_REFUSED, own_rows},
    {TRAIT_RANKS, TRAIT_SLICES, PAIR_REFUSED, own_rows},
    {TRAIT_RANKS, TRAIT_KEEP_FIELDS, PAIR_REFUSED, "keep_fields keeps every row of every field"},
    {TRAIT_SIGMOID, TRAIT_SINK, PAIR_NEVER, "a sigmoid has no denominator"},
    {TRAIT_SIGMOID, TRAIT_D_SINK, PAIR_NEVER, "a sigmoid has no denominator"},
    {TRAIT_SIGMOID, TRAIT_ENTMAX, PAIR_NEVER, "a program has one normaliser"},
    {TRAIT_ENTMAX, TRAIT_SINK, PAIR_NEVER, "entmax has no denominator"},
    {TRAIT_ENTMAX, TRAIT_D_SINK, PAIR_NEVER, "entmax has no denominator"},
    {TRAIT_ENTMAX, TRAIT_LSE, PAIR_NEVER, "entmax has no denominator"},
    {TRAIT_ENTMAX, TRAIT_D_LSE, PAIR_NEVER, "entmax has no denominator"},
    {TRAIT_SIGMOID, TRAIT_LSE, PAIR_NEVER, "a sigmoid has no denominator"},
    {TRAIT_SIGMOID, TRAIT_D_LSE, PAIR_NEVER, "a sigmoid has no denominator"},
    {TRAIT_SCALE, TRAIT_SCALE_ZERO, PAIR_NEVER, "a scale is 0 or another number"},
    {TRAIT_SIDES, TRAIT_CROSS, PAIR_NEVER, "in cross-attention a token's side is the one it is on"},
};
enum { N_PAIR_ROWS = sizeof pair_table / sizeof *pair_table };

static inline const pair_row *pair_find(trait a, trait b)
{
    for (int i = 0; i < N_PAIR_ROWS; i++) {
        const pair_row *p = &pair_table[i];
        if ((p->a == a && p->b == b) || (p->a == b && p->b == a)) return p;
    }
    return NULL;
}

#endif
