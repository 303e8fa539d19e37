/* dense.c: every query with every key, as one block. */
#include "hga_builders.h"

hga_dense hga_dense_defaults(void) { return (hga_dense){0}; }

hga_status hga_build_dense(const hga_dense *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id near, n_keys = p->n_keys > 0 ? p->n_keys : p->n_tokens;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_dense", p->reserved, sizeof p->reserved));
    HGA_TRY(hga_sides_check(p->n_tokens, p->n_keys, p->causal));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(hga_sides_add_tokens(b, p->n_tokens, p->n_keys));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE | (p->causal ? HGA_CLAIM_CAUSAL : 0u)));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    hga_block all = {.n_dst = p->n_tokens,
                     .src = p->n_keys > 0 ? p->n_tokens : 0,
                     .n_src = n_keys,
                     .shape = p->causal ? HGA_LOWER : HGA_ALL};
    HGA_TRY(hga_builder_add_blocks(b, near, &all));
    HGA_TRY(hga_program_attention(program, near));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
