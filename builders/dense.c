/* dense.c: every query with every key, as one block. */
#include "sides.h"
#include "longer.h"

static hga_status draw_dense(hga_builder *b, const hga_dense *p, hga_id *near)
{
    hga_status st = sides_add_tokens(b, p->n_tokens, p->n_keys);
    hga_block all = {.n_dst = p->n_tokens,
                     .src = p->n_keys > 0 ? p->n_tokens : 0,
                     .n_src = p->n_keys > 0 ? p->n_keys : p->n_tokens,
                     .shape = p->causal ? HGA_LOWER : HGA_ALL};
    if (!st) st = hga_builder_add_relation(b, "near", near);
    return st ? st : hga_builder_add_blocks(b, *near, &all);
}

static hga_status draw_more_dense(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there)
{
    hga_dense p = *(const hga_dense *)parameters;
    hga_id near;
    (void)there;
    p.n_tokens = n_tokens;
    return draw_dense(b, &p, &near);
}

hga_status hga_build_dense(const hga_dense *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id near;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_dense", p->reserved, sizeof p->reserved));
    HGA_TRY(sides_check(p->n_tokens, p->n_keys, p->causal));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE | (p->causal ? HGA_CLAIM_CAUSAL : 0u)));
    HGA_TRY(draw_dense(b, p, &near));
    if (p->causal && !p->n_keys) HGA_TRY(draw_longer(b, p->allocator, p->n_tokens, 1, draw_more_dense, p));
    HGA_TRY(hga_program_attention(program, near));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
