/* traits.h: the options of calls by name, for counting which have met. */
#ifndef HGA_TRAITS_H
#define HGA_TRAITS_H

#include "calls.h"

/* Every option that a caller has, and what of graphs and programs changes how a call is done. */
typedef enum trait {
    TRAIT_THREADS,
    TRAIT_ISA,
    TRAIT_BF16,
    TRAIT_GENERIC,
    TRAIT_TOPOLOGY,
    TRAIT_BIND,
    TRAIT_METIS,
    TRAIT_KEEP_FIELDS,
    TRAIT_CUT_EDGES,
    TRAIT_DROPOUT,
    TRAIT_RANGES,
    TRAIT_LISTED_ROWS,
    TRAIT_SLICES,
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
    TRAIT_F16_TENSORS,
    TRAIT_BF16_TENSORS,
    TRAIT_LSE,
    TRAIT_REL_KEY,
    TRAIT_REL_BIAS,
    TRAIT_EDGE_BIAS,
    TRAIT_EDGE_BIAS_HEADS,
    TRAIT_NODE_POS,
    TRAIT_TYPE_SCALE,
    TRAIT_USER_TENSORS,
    TRAIT_USER_FUNCTIONS,
    TRAIT_ROW_ORDER,
    TRAIT_SOURCE_ORDER,
    TRAIT_SIDES,
    TRAIT_CROSS,
    TRAIT_RANKS,
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
    N_TRAITS
} trait;

/* A trait's name, and the members of public structs that it comes from, such as "hga_options.threads". */
typedef struct trait_row {
    const char *name, *members;
} trait_row;
extern const trait_row trait_table[N_TRAITS];
/* Members that are no options of their own: "hga_io.out out is what a call is for". */
extern const char *const trait_others[];

/* The traits of a call, a bit each; whether it runs on ranks whoever runs it knows. */
uint64_t traits_of(const drawn_call *c);

#endif
