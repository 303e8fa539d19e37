/* transpose.c: the same nodes, every relation with its edges reversed; a block stays a block. */
#include "copy.h"

/* A band open at an end stays open: INT32_MIN has no opposite. */
static hga_id opposite(hga_id offset) { return offset == INT32_MIN ? INT32_MAX : -offset; }

/* Exchanges rows and columns, and everything that belongs to them. */
static hga_block block_transposed(const hga_block *b)
{
    static const hga_shape_kind mirrored[HGA_BAND + 1] = {
        HGA_ALL, HGA_UPPER, HGA_STRICT_UPPER, HGA_LOWER, HGA_STRICT_LOWER, HGA_OFF_DIAGONAL, HGA_BAND};
    return (hga_block){
        .dst = b->src,
        .n_dst = b->n_src,
        .src = b->dst,
        .n_src = b->n_dst,
        .count = b->count,
        .dst_step = b->src_step,
        .src_step = b->dst_step,
        .type = b->type,
        .type_dst = b->type_src,
        .type_src = b->type_dst,
        .weight = b->weight,
        .shape = mirrored[b->shape],
        .band_first = opposite(b->band_last),
        .band_last = opposite(b->band_first),
        .pos_of = b->src_pos_of,
        .pos_step = b->src_pos_step,
        .src_pos_of = b->pos_of,
        .src_pos_step = b->pos_step,
    };
}

/* The relation with sources and destinations exchanged, added to the builder. */
static hga_status relation_transposed(hga_builder *b, const hga_relation *r, hga_id n)
{
    hga_status st = HGA_OK;
    hga_id index;
    HGA_TRY(hga_builder_add_relation(b, r->name, &index));
    HGA_TRY(hga_builder_set_order(b, index, r->src_order, r->n_src_order, r->dst_order, n));
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);) {
        hga_block transposed = block_transposed(&w.block);
        HGA_TRY(hga_builder_add_blocks(b, index, &transposed));
    }
    for (hga_id v = 0; r->n_explicit > 0 && v < n; v++)
        for (hga_pos e = r->ptr[v]; e < r->ptr[v + 1]; e++)
            HGA_TRY(
                hga_builder_add_edge(b, index, v, r->src[e], r->type ? r->type[e] : 0, r->weight ? r->weight[e] : 1));
done:
    return st;
}

/* A transposed causal graph sees only the future, so it is neither causal nor complete. */
static uint32_t claims_transposed(uint32_t claims)
{
    uint32_t lost = HGA_CLAIM_CAUSAL | HGA_CLAIM_COMPLETE;
    return claims & HGA_CLAIM_CAUSAL ? claims & ~lost : claims;
}

hga_status hga_graph_transpose(const hga_graph *g, hga_graph **out)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    hga_builder *b = NULL;
    *out = NULL;
    HGA_TRY(hga_builder_create(hga_graph_allocator(g), &b));
    HGA_TRY(nodes_copy(b, g));
    HGA_TRY(hga_builder_set_claims(b, claims_transposed(nodes.claims)));
    for (hga_id i = 0; i < nodes.n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        HGA_TRY(relation_transposed(b, &r, nodes.n));
    }
    HGA_TRY(hga_builder_finish(b, out));
done:
    hga_builder_destroy(b);
    return st;
}
