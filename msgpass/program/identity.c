/* identity.c: a graph, and a program, as one number, to compare them. Names do not count, nor do functions, whose
   addresses differ between processes. */
#include "identity.h"
#include "call.h"

#include "positions.h"

uint64_t identity_mix(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t mix_number(uint64_t h, int64_t x) { return identity_mix(h, &x, sizeof x); }

/* An array that may be missing. */
static uint64_t mix_array(uint64_t h, const void *array, int64_t n, size_t size)
{
    h = mix_number(h, array ? n : -1);
    return array ? identity_mix(h, array, (size_t)n * size) : h;
}

static uint64_t mix_block(uint64_t h, const hga_block *b)
{
    const int64_t of[] = {b->dst,        b->n_dst,        b->src,      b->n_src,      b->count,    b->dst_step,
                          b->src_step,   b->type,         b->type_dst, b->type_src,   b->pos_of,   b->pos_step,
                          b->src_pos_of, b->src_pos_step, b->shape,    b->band_first, b->band_last};
    h = identity_mix(h, &b->weight, sizeof b->weight);
    return identity_mix(h, of, sizeof of);
}

/* From levels, tree, sides, masses, positions and relations; names and kinds do not count. */
uint64_t identity_of_graph(const hga_graph *g)
{
    hga_nodes x = hga_graph_nodes(g);
    uint64_t h = IDENTITY_OF_NOTHING;
    h = mix_array(h, x.level_ptr, (int64_t)x.n_levels + 1, sizeof *x.level_ptr);
    h = mix_array(h, x.parent, x.n, sizeof *x.parent);
    h = mix_array(h, x.side, x.n, sizeof *x.side);
    h = mix_array(h, x.mass, x.n, sizeof *x.mass);
    h = mix_array(h, graph_token_positions(g), x.level_ptr[1], sizeof(float));
    for (hga_id r = 0; r < x.n_relations; r++) {
        hga_relation y = hga_graph_relation(g, r);
        for (hga_block_walk w = {0}; hga_relation_next(&y, &w);) h = mix_block(h, &w.block);
        h = mix_array(h, y.dst_order, x.n, sizeof *y.dst_order);
        h = mix_array(h, y.src_order, y.n_src_order, sizeof *y.src_order);
        h = mix_array(h, y.ptr, (int64_t)x.n + 1, sizeof *y.ptr);
        h = mix_array(h, y.src, y.n_explicit, sizeof *y.src);
        h = mix_array(h, y.type, y.n_explicit, sizeof *y.type);
        h = mix_array(h, y.weight, y.n_explicit, sizeof *y.weight);
    }
    return h;
}

static uint64_t mix_stage(uint64_t h, const hga_stage *s)
{
    const int64_t of[] = {s->relation, s->order, s->message, s->reduce, s->update, s->by_mass, s->query,     s->key,
                          s->value,    s->gate,  s->keep,    s->out,    s->reads,  s->writes,  s->normaliser};
    return identity_mix(identity_mix(h, of, sizeof of), &s->alpha, sizeof s->alpha);
}

/* Fields and stages by number, and the numbers that stand in for tables; names do not count. */
uint64_t identity_of_program(const hga_program *p)
{
    uint64_t h = IDENTITY_OF_NOTHING;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_field *x = &p->field[f];
        const int64_t of[] = {x->width, x->binding, x->io, x->rows};
        h = identity_mix(h, of, sizeof of);
    }
    for (hga_id s = 0; s < p->n_stages; s++) h = mix_stage(h, &p->stage[s]);
    for (const hga_call_row *row = hga_call_tables(); row->name; row++)
        if (row->member) h = identity_mix(h, call_standard(row, p), sizeof *call_standard(row, p));
    h = identity_mix(h, &p->negative_slope, sizeof p->negative_slope);
    return mix_number(mix_number(h, p->has_lse), p->scores);
}
