/* appended.h: a choice of tokens that are appended to others, whose blocks' summary rows exist. */
#ifndef SELECT_APPENDED_H
#define SELECT_APPENDED_H

#include "hga_select.h"
#include "kernels.h"

/* What it is made from, borrowed; check nothing. */
typedef struct appended_tokens {
    const hga_selection *how; /* causal, not by the caller's scores */
    hga_shape shape;
    hga_precision precision;
    const float *scale; /* as in hga_select_input */
    const kernel_table *kernels;
    hga_id threads, from, end; /* tokens [from, end) choose */
    const float *const *query; /* [end - from]: [n_heads][dim] each */
    const float *const *block; /* of each complete one, what appended_block made; and of each coarse one */
    const float *const *coarse;
    const float *const *key; /* where queries are sampled: [end]: [n_kv_heads][dim] each */
    const hga_allocator *allocator;
} appended_tokens;

/* HGA_EUNSUPPORTED or HGA_EINVAL where appended tokens cannot choose so. */
hga_status appended_check(const hga_selection *how, const hga_shape *shape);
/* Floats of the summary row of a block of keys, of all heads. */
int64_t appended_floats(const hga_selection *how, const hga_shape *shape);
/* Makes the summary row of n keys, [n_kv_heads][dim] each, with the bits of hga_select_blocks. */
void appended_block(const appended_tokens *x, const float *const *key, hga_id n, float *out);
/* The tokens' choice: query blocks are counted from token 0, and those of `out` begin with from / query_block. A query
   block is represented by the call's queries. */
hga_status appended_choose(const appended_tokens *x, hga_chosen *out);

#endif
