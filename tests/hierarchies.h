/* hierarchies.h: what the tests of programs and of their JSON share: a graph of seven nodes, and programs over it. */
#ifndef HGA_HIERARCHIES_H
#define HGA_HIERARCHIES_H

#include "testing.h"

/* Four tokens under two parents under a root, relation `near`: every token to every token, `down`: parents to
   tokens. */
static inline hga_graph *small_graph(void)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near, down;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 4, NULL));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_add_level(b, 1, NULL));
    assert_ok(hga_builder_set_families(b, 4, 0, 4, 2));
    assert_ok(hga_builder_set_children(b, 6, 4, 2));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 4, 0, 4, 0));
    assert_ok(hga_builder_add_block(b, near, 4, 2, 4, 2, 0));
    assert_ok(hga_builder_add_relation(b, "down", &down));
    assert_ok(hga_builder_add_edge(b, down, 4, 1, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

enum { NEAR, DOWN };

/* query, key, value on all nodes and of tokens' rows, state and out: coarsen, attend, spread. */
static inline hga_program hierarchy(void)
{
    hga_program p;
    hga_id q, k, v, out;
    hga_program_init(&p);
    assert_ok(hga_program_add_field(&p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &q));
    assert_ok(hga_program_add_field(&p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &k));
    assert_ok(hga_program_add_field(&p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &v));
    assert_ok(hga_program_add_field(&p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_coarsen(&p, q));
    assert_ok(hga_program_coarsen(&p, k));
    assert_ok(hga_program_coarsen(&p, v));
    assert_ok(hga_program_attend(&p, NEAR, q, k, v, out, 1));
    assert_ok(hga_program_spread(&p, HGA_TREE_DOWN, out));
    p.has_lse = 1;
    return p;
}

/* attend into an inner state, energy up, descend into out. */
static inline hga_program energies(void)
{
    hga_program p = hierarchy();
    hga_id state, psi, keep;
    p.n_stages = 3;
    p.has_lse = 0;
    p.field[4].width = HGA_WIDTH_OUT;
    assert_ok(
        hga_program_add_field(&p, "state", HGA_WIDTH_STATE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &state));
    assert_ok(hga_program_add_field(&p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &psi));
    assert_ok(hga_program_add_field(&p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &keep));
    assert_ok(hga_program_attend(&p, NEAR, 1, 2, 3, state, 1));
    assert_ok(hga_program_energy(&p, state, psi));
    assert_ok(hga_program_descend(&p, state, psi, keep, 4));
    return p;
}

/* A stage of the caller's own. */
static inline void begin(void *s, const hga_end *v, hga_id head, void *ctx) { (void)s, (void)v, (void)head, (void)ctx; }
static inline void each(void *s, const hga_edge *e, hga_id head, void *ctx) { (void)s, (void)e, (void)head, (void)ctx; }
static inline void finish(const void *s, const hga_end *v, hga_id head, void *ctx)
{
    (void)s, (void)v, (void)head, (void)ctx;
}

static inline hga_program with_user_stage(void)
{
    hga_program p = hierarchy();
    p.n_stages = 3;
    hga_stage s = {.name = "mine",
                   .relation = NEAR,
                   .message = HGA_MESSAGE_USER,
                   .reduce = HGA_REDUCE_USER,
                   .update = HGA_UPDATE_USER,
                   .query = 1,
                   .key = 2,
                   .out = 4,
                   .reads = 1 << 3,
                   .writes = 1 << 4,
                   .udf = {.state_bytes = 64, .begin = begin, .edge = each, .finish = finish}};
    assert_ok(hga_program_add_stage(&p, &s));
    return p;
}

#endif
