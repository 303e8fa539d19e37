/* test_samples.c: graphs side by side are separate runs. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hga_shape plain_shape(void) { return (hga_shape){.n_heads = 2, .dim = 8, .dim_v = 5, .pos_dim = 3}; }

/* ---- concatenation ---- */

enum { N_PARTS = 3 };

/* Put the rows a part has of a tensor where the concatenation's rows for the same nodes are. */
static void move_rows(const problem *part, const problem *whole, hga_binding binding, const hga_id *id, float *from,
                      float *to, int64_t columns, int back)
{
    for (hga_id f = 1; f <= part->program.n_fields; f++) {
        if (part->program.field[f].binding != binding) continue;
        hga_field_rows io = part->program.field[f].io;
        hga_id n, m, at = 0, *rows = row_nodes(part->graph, io, &n), *all = row_nodes(whole->graph, io, &m);
        for (hga_id i = 0; i < n; i++) {
            for (at = 0; at < m && all[at] != id[rows[i]]; at++) continue;
            assert_true(at < m);
            if (back)
                memcpy(from + i * columns, to + at * columns, (size_t)columns * sizeof *from);
            else
                memcpy(to + at * columns, from + i * columns, (size_t)columns * sizeof *from);
        }
        free(rows), free(all);
    }
}

/* The first part's program on the concatenation, relations found by name. */
static void adopt_program(const problem *part, problem *whole)
{
    whole->program = part->program;
    for (hga_id s = 0; s < whole->program.n_stages; s++) {
        hga_id *relation = &whole->program.stage[s].relation;
        if (*relation >= 0)
            *relation = hga_graph_find_relation(whole->graph, hga_graph_relation(part->graph, *relation).name);
    }
}

/* Tables by type are the same for all; node_pos and tensors are put together from the parts. */
static void gather_inputs(problem *part, problem *whole, const hga_node_map *map)
{
    int64_t q = (int64_t)whole->shape.n_heads * whole->shape.dim,
            v = (int64_t)whole->shape.n_heads * whole->shape.dim_v, pos = whole->shape.pos_dim;
    float *node_pos =
        pos ? whole->owned[whole->n_owned++] = memory(hga_graph_nodes(whole->graph).n * pos, sizeof *node_pos) : NULL;
    for (int i = 0; i < N_PARTS; i++) {
        move_rows(part + i, whole, HGA_IO_QUERY, map->id[i], part[i].io.query.data, whole->io.query.data, q, 0);
        move_rows(part + i, whole, HGA_IO_KEY, map->id[i], part[i].io.key.data, whole->io.key.data, q, 0);
        move_rows(part + i, whole, HGA_IO_VALUE, map->id[i], part[i].io.value.data, whole->io.value.data, v, 0);
        part[i].io.rel_bias.data = whole->io.rel_bias.data, part[i].io.rel_bias.rows = whole->io.rel_bias.rows;
        part[i].io.type_scale.data = whole->io.type_scale.data, part[i].io.type_scale.rows = whole->io.type_scale.rows;
        for (hga_id u = 0; pos && u < map->n[i]; u++)
            memcpy(node_pos + map->id[i][u] * pos, part[i].io.node_pos.data + u * pos, (size_t)pos * sizeof *node_pos);
    }
    whole->io.node_pos.data = node_pos, whole->io.node_pos.rows = hga_graph_nodes(whole->graph).n;
}

static void check_concatenation(int variant, uint64_t seed, const hga_id *length, double tolerance)
{
    problem part[N_PARTS], whole = {.shape = plain_shape()};
    const hga_graph *graphs[N_PARTS];
    hga_node_map map;
    for (int i = 0; i < N_PARTS; i++)
        variant_build(variant, length[i], seed, &whole.shape, part + i), graphs[i] = part[i].graph;
    whole.shape = part[0].shape;
    snprintf(whole.name, sizeof whole.name, "three of %.60s", part[0].name);
    assert_ok(hga_graph_concat(graphs, N_PARTS, &whole.graph, &map));
    adopt_program(part, &whole);
    problem_fill(&whole, 1);
    problem_fill_tables(&whole, 5, 0, 1, 0);
    whole.io.type_scale.data = whole.owned[whole.n_owned++] = random_floats(6, 1, 64), whole.io.type_scale.rows = 64;
    gather_inputs(part, &whole, &map);
    problem_run(&whole);
    int64_t columns = (int64_t)whole.shape.n_heads * whole.shape.dim_v;
    for (int i = 0; i < N_PARTS; i++) {
        float *out = memory(out_count(part + i), sizeof *out);
        move_rows(part + i, &whole, HGA_IO_OUT, map.id[i], out, whole.io.out.data, columns, 1);
        problem_run(part + i);
        if (tolerance > 0)
            assert_near_floats(part[i].name, out, part[i].io.out.data, out_count(part + i), tolerance);
        else
            assert_same_bits(part[i].name, out, part[i].io.out.data, out_count(part + i));
        free(out);
        problem_clear(part + i);
    }
    hga_node_map_clear(&map);
    problem_clear(&whole);
}

/* A batch of different lengths is a concatenation: each sample gets what it gets alone, up to rounding, since sixteen
   rows of a batch may share a tile that they do not share alone. */
static void concatenation_is_separate_runs(void **state)
{
    (void)state;
    static const hga_id lengths[4][N_PARTS] = {{70, 1, 23}, {77, 3, 50}, {5, 90, 33}, {31, 31, 31}};
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 1; seed < 5; seed++)
            if (!passed_over(i + (int)seed)) check_concatenation(i, seed, lengths[seed - 1], 5e-6);
}

static void large_concatenation_is_separate_runs(void **state)
{
    static const char *const names[] = {"window",   "neighbours_wide", "neighbours_causal_wide", "siblings_wide",
                                        "bpt_wide", "hsa_wide",        "hsa_frontier_wide",      "coarse"};
    static const hga_id length[N_PARTS] = {2133, 1, 733};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_concatenation(variant_named(names[i]), i + 1, length, 5e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concatenation_is_separate_runs),
        cmocka_unit_test(large_concatenation_is_separate_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
