/* options.h: the options of calls by name. */
#ifndef HGA_DRAWN_OPTIONS_H
#define HGA_DRAWN_OPTIONS_H

#include <stdint.h>

/* Every option that a caller has, and what of graphs and programs changes how a call is done. */
typedef enum trait {
    TRAIT_THREADS,
    TRAIT_ISA,
    TRAIT_BF16,
    TRAIT_GENERIC,
    TRAIT_TOPOLOGY,
    TRAIT_BIND,
    TRAIT_KEEP_FIELDS,
    TRAIT_CUT_EDGES,
    TRAIT_DROPOUT,
    TRAIT_SOME_ROWS,
    TRAIT_INTERVALS,
    TRAIT_ROWS_STAY,
    TRAIT_STRICT,
    TRAIT_BATCH,
    TRAIT_UPDATED,
    TRAIT_GROUPED,
    TRAIT_DIM_V,
    TRAIT_SCALE,
    TRAIT_SCALE_ZERO,
    TRAIT_SIGMOID,
    TRAIT_ENTMAX,
    TRAIT_SOFTCAP,
    TRAIT_SINK,
    TRAIT_SLOPES,
    TRAIT_ADDITIVE,
    TRAIT_STRIDES,
    TRAIT_FOLDS,
    TRAIT_F16_TENSORS,
    TRAIT_BF16_TENSORS,
    TRAIT_LSE,
    TRAIT_REL_KEY,
    TRAIT_REL_BIAS,
    TRAIT_EDGE_BIAS,
    TRAIT_EDGE_BIAS_HEADS,
    TRAIT_EDGE_KEY,
    TRAIT_EDGE_VALUE,
    TRAIT_NODE_POS,
    TRAIT_TYPE_SCALE,
    TRAIT_USER_TENSORS,
    TRAIT_USER_FUNCTIONS,
    TRAIT_ROW_ORDER,
    TRAIT_SOURCE_ORDER,
    TRAIT_SIDES,
    TRAIT_CROSS,
    TRAIT_COARSE,
    TRAIT_RANKS,
    TRAIT_DECODING,
    TRAIT_GRADIENT,
    TRAIT_STRIPS,
    TRAIT_SUBTREE,
    TRAIT_ACCUMULATE,
    TRAIT_D_LSE,
    TRAIT_SOME_GRADIENTS,
    TRAIT_D_QUERY,
    TRAIT_D_KEY,
    TRAIT_D_VALUE,
    TRAIT_D_USER,
    TRAIT_D_REL_KEY,
    TRAIT_D_REL_BIAS,
    TRAIT_D_EDGE_BIAS,
    TRAIT_D_NODE_POS,
    TRAIT_D_TYPE_SCALE,
    TRAIT_D_LOG_MASS,
    TRAIT_D_SCALE,
    TRAIT_D_SINK,
    TRAIT_D_SLOPES,
    TRAIT_D_ADDITIVE,
    TRAIT_D_EDGE_KEY,
    TRAIT_D_EDGE_VALUE,
    TRAIT_D_EDGE_OUT,
    N_TRAITS
} trait;

/* Some of them. */
typedef struct trait_set {
    uint8_t has[N_TRAITS];
} trait_set;

/* Are all of `some` in the set? */
static inline int traits_within(const trait_set *some, const trait_set *set)
{
    int within = 1;
    for (int t = 0; t < N_TRAITS; t++) within &= !some->has[t] || set->has[t];
    return within;
}

#endif
