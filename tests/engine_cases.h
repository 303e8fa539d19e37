/* engine_cases.h: what tests of the engine share: shapes, instruction sets, programs on random graphs. */
#ifndef HGA_ENGINE_CASES_H
#define HGA_ENGINE_CASES_H

#include "isas.h"
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Narrow, odd and wide, fewer key heads than query heads, values of another width. */
static const hga_shape shapes[] = {
    {.n_heads = 1, .dim = 1, .pos_dim = 1},
    {.n_heads = 3, .dim = 3, .dim_v = 7, .pos_dim = 2},
    {.n_heads = 6, .n_kv_heads = 2, .dim = 17, .dim_v = 5, .pos_dim = 5},
    {.n_heads = 4, .n_kv_heads = 1, .dim = 24, .dim_v = 40, .pos_dim = 3},
    {.n_heads = 2, .dim = 80, .pos_dim = 17},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
static const double tolerance = 3e-5;

/* ---- programs on random graphs ---- */

typedef struct fields {
    hga_id query, key, value, state, out;
} fields;

/* query, key and value of the rows `io`, known on every node. */
static inline fields add_inputs(hga_program *p, hga_field_rows queries, hga_field_rows keys)
{
    fields f = {.out = -1};
    hga_program_init(p);
    assert_ok(hga_program_add_field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, queries, HGA_ROWS_NODES, &f.query));
    assert_ok(hga_program_add_field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, keys, HGA_ROWS_NODES, &f.key));
    assert_ok(hga_program_add_field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, keys, HGA_ROWS_NODES, &f.value));
    return f;
}

/* Softmax attention of all nodes. */
static inline void attend_program(hga_program *p)
{
    fields f = add_inputs(p, HGA_ROWS_NODES, HGA_ROWS_NODES);
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &f.state));
    assert_ok(hga_program_attend(p, 0, f.query, f.key, f.value, f.state, 0));
    p->has_lse = 1;
}

/* The same edges a second time, by mass, merged into the first state. */
static inline void attend_more_program(hga_program *p)
{
    attend_program(p);
    hga_stage more = p->stage[0];
    snprintf(more.name, sizeof more.name, "more");
    more.update = HGA_UPDATE_MERGE, more.by_mass = 1;
    assert_ok(hga_program_add_stage(p, &more));
}

/* Tokens' means upwards, attention everywhere, states downwards. */
static inline void up_and_down_program(hga_program *p)
{
    fields f = add_inputs(p, HGA_ROWS_QUERIES, HGA_ROWS_KEYS);
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &f.state));
    assert_ok(hga_program_coarsen(p, f.query));
    assert_ok(hga_program_coarsen(p, f.key));
    assert_ok(hga_program_coarsen(p, f.value));
    assert_ok(hga_program_attend(p, 0, f.query, f.key, f.value, f.state, 1));
    assert_ok(hga_program_spread(p, HGA_TREE_DOWN, f.state));
    p->has_lse = 1;
}

/* Energies upwards and gates downwards. */
static inline void energy_program(hga_program *p)
{
    hga_id psi, keep, out;
    fields f = add_inputs(p, HGA_ROWS_QUERIES, HGA_ROWS_KEYS);
    assert_ok(hga_program_add_field(p, "s", HGA_WIDTH_STATE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &f.state));
    assert_ok(hga_program_add_field(p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &psi));
    assert_ok(hga_program_add_field(p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &keep));
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_coarsen(p, f.query));
    assert_ok(hga_program_coarsen(p, f.key));
    assert_ok(hga_program_coarsen(p, f.value));
    assert_ok(hga_program_attend(p, 0, f.query, f.key, f.value, f.state, 1));
    assert_ok(hga_program_energy(p, f.state, psi));
    assert_ok(hga_program_descend(p, f.state, psi, keep, out));
}

/* Means of values, then their sum weighted by type. */
static inline void mean_and_weighted_sum_program(hga_program *p)
{
    hga_id value, mean, out;
    hga_program_init(p);
    assert_ok(hga_program_add_field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES, &value));
    assert_ok(hga_program_add_field(p, "m", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &mean));
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_mean(p, 0, value, mean, 1));
    assert_ok(hga_program_weighted_sum(p, 0, mean, out));
}

/* Sums of values over the relation, weighted by type once more. */
static inline void sum_program(hga_program *p)
{
    hga_stage s = {.name = "sum", .message = HGA_COPY, .reduce = HGA_SUM, .update = HGA_REPLACE};
    mean_and_weighted_sum_program(p);
    s.value = p->stage[0].value, s.out = p->stage[0].out;
    hga_stage last = p->stage[1];
    p->n_stages = 0;
    assert_ok(hga_program_add_stage(p, &s));
    assert_ok(hga_program_add_stage(p, &last));
}

static const struct {
    const char *name;
    void (*make)(hga_program *p);
} programs[] = {
    {"attend", attend_program},
    {"attend more", attend_more_program},
    {"up and down", up_and_down_program},
    {"energy", energy_program},
    {"mean and weighted sum", mean_and_weighted_sum_program},
    {"sum", sum_program},
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static inline void random_problem(int program, unsigned with, hga_id n, uint64_t seed, hga_shape shape, problem *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s on random graph %llu with %u", programs[program].name,
             (unsigned long long)seed, with);
    p->graph = random_graph(seed, n, with);
    programs[program].make(&p->program);
    p->shape = shape;
    problem_fill(p, seed + 3);
    problem_fill_tables(p, seed + 7, 0, 0, 0);
    p->io.type_scale.rows = hga_graph_relation(p->graph, 0).n_types;
    p->io.type_scale.data = p->owned[p->n_owned++] = random_floats(seed + 11, 1, p->io.type_scale.rows);
}

/* Sums are linear in the values: scales the largest result to 1, which the tolerance is for. */
static inline void keep_sums_small(problem *p)
{
    double largest = 1, *want;
    hga_id heads = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads,
           columns = p->shape.dim_v ? p->shape.dim_v : p->shape.dim;
    slow_execute(p->graph, &p->program, &p->shape, &p->io, &want, NULL);
    for (int64_t i = 0; i < out_count(p); i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < p->n_value * heads * columns; i++) ((float *)p->io.value.data)[i] /= (float)largest;
    free(want);
}

#endif
