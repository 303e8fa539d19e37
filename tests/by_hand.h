/* by_hand.h: small graphs and programs written out. */
#ifndef HGA_BY_HAND_H
#define HGA_BY_HAND_H

#include "testing.h"

#include <string.h>

static inline hga_id field(hga_program *p, const char *name, hga_width width, hga_binding bound, hga_field_rows io,
                           hga_field_rows rows)
{
    hga_id f;
    assert_ok(hga_program_add_field(p, name, width, bound, io, rows, &f));
    return f;
}

static inline hga_id field_on_nodes(hga_program *p, const char *name, hga_width width, hga_binding bound)
{
    return field(p, name, width, bound, HGA_ROWS_NODES, HGA_ROWS_NODES);
}

/* query, key, value and a state as the output, all of every node; no stage yet. */
typedef struct attention {
    hga_id query, key, value, out;
} attention;

static inline attention attention_on_nodes(hga_program *p)
{
    hga_program_init(p);
    return (attention){.query = field_on_nodes(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY),
                       .key = field_on_nodes(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY),
                       .value = field_on_nodes(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
                       .out = field_on_nodes(p, "o", HGA_WIDTH_STATE, HGA_IO_OUT)};
}

static inline hga_graph *finished(hga_builder *b)
{
    hga_graph *g;
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* One level, and a builder for more. */
static inline hga_builder *tokens_alone(hga_id n)
{
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, n, NULL));
    return b;
}

/* n nodes and edges listed one by one in "edges", between nodes far from each other; the last node is no source. */
static inline hga_graph *edges_over(hga_id n, hga_id n_edges)
{
    hga_builder *b = tokens_alone(n);
    hga_id edges;
    assert_ok(hga_builder_add_relation(b, "edges", &edges));
    for (hga_id e = 0; e < n_edges; e++) assert_ok(hga_builder_add_edge(b, edges, e * 7 % (n - 1), e * 13 % n, 0, 1));
    return finished(b);
}

/* n tokens and one relation, "near", of these blocks. */
static inline hga_graph *blocks_over(hga_id n, const hga_block *block, int64_t n_blocks)
{
    hga_builder *b = tokens_alone(n);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (int64_t i = 0; i < n_blocks; i++) assert_ok(hga_builder_add_blocks(b, near, &block[i]));
    return finished(b);
}

/* The mean of children's `value` into `out`, whether or not a program may do that. */
static inline void add_means_up(hga_program *p, hga_id value, hga_id out)
{
    hga_stage up = {.name = "up",
                    .relation = HGA_TREE_UP,
                    .order = HGA_LEVELS_UP,
                    .message = HGA_COPY,
                    .reduce = HGA_MEAN,
                    .update = HGA_REPLACE,
                    .value = value,
                    .out = out};
    assert_ok(hga_program_add_stage(p, &up));
}

/* `tokens` tokens, the first `queries` of them queries and the others keys (all both when 0), `above` nodes over them,
   relations "a" and "b" without edges. */
static inline hga_builder *started(hga_id tokens, hga_id queries, hga_id above)
{
    hga_builder *b = tokens_alone(tokens);
    assert_ok(hga_builder_add_level(b, above, NULL));
    if (queries) assert_ok(hga_builder_set_tokens(b, 0, queries, queries, tokens - queries));
    assert_ok(hga_builder_add_relation(b, "a", NULL));
    assert_ok(hga_builder_add_relation(b, "b", NULL));
    return b;
}

/* Tokens that attend to others here and there. */
static inline problem scattered(hga_id tokens, hga_shape shape)
{
    problem p = {.name = "scattered", .shape = shape};
    uint64_t rng = 3;
    hga_id near;
    hga_builder *b = tokens_alone(tokens);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < 12 * tokens; i++)
        assert_ok(hga_builder_add_edge(b, near, random_below(&rng, tokens), random_below(&rng, tokens), 0, 1));
    p.graph = finished(b);
    attention f = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, near, f.query, f.key, f.value, f.out, 0));
    problem_fill(&p, 4);
    return p;
}

/* A copy of the tensor, heads first. */
static inline hga_tensor with_heads_copied(problem *p, const hga_tensor *from, hga_id heads, hga_id columns)
{
    float *to = p->owned[p->n_owned++] = memory(from->rows * heads * columns, sizeof *to);
    for (int64_t i = 0; i < from->rows * heads; i++)
        memcpy(to + (i % heads * from->rows + i / heads) * columns, (const float *)from->data + i * columns,
               (size_t)columns * sizeof *to);
    return (hga_tensor){
        .data = to, .rows = from->rows, .row_stride = columns, .head_stride = (ptrdiff_t)from->rows * columns};
}

#endif
