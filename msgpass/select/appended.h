/* appended.h: a choice of tokens that are appended to others, of which the rows that stand for blocks are there. */
#ifndef SELECT_APPENDED_H
#define SELECT_APPENDED_H

#include "hga_select.h"
#include "kernels.h"

/* What it is made from, borrowed; check nothing. */
typedef struct appended_tokens {
    const hga_selection *how; /* causal, not by given scores */
    hga_shape shape;
    hga_precision precision;
    const float *scale; /* as in hga_select_input */
    const kernel_table *kernels;
    hga_id threads, from, end; /* tokens [from, end) choose */
    const float *const *query; /* [end - from]: [n_heads][dim] each */
    const float *const *block; /* of each complete one, what appended_block made; and of each coarse one */
    const float *const *coarse;
    const hga_allocator *allocator;
} appended_tokens;

/* May they choose so? HGA_EUNSUPPORTED, HGA_EINVAL. */
hga_status appended_check(const hga_selection *how, const hga_shape *shape);
/* Floats of the row that stands for a block of keys, of all heads. */
int64_t appended_floats(const hga_selection *how, const hga_shape *shape);
/* It is made of n keys, [n_kv_heads][dim] each, with the bits that hga_select_blocks gives it. */
void appended_block(const appended_tokens *x, const float *const *key, hga_id n, float *out);
/* What tokens choose: query blocks are counted from token 0, and those of `out` begin with from / query_block. Of a
   query block's queries those that are there stand for it. */
hga_status appended_choose(const appended_tokens *x, hga_chosen *out);

#endif
