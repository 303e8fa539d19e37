/* test_weights.c: the weights that a token pays against the engine's output on values of the identity, which is linear
   in the values, so that every row of it is a row of weights. */
#include "random_program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The place of the value row of node v, -1 without. */
static hga_id *value_rows(const problem *p)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    hga_id *place = memory(nodes.n, sizeof *place), f = 1, n;
    for (hga_id v = 0; v < nodes.n; v++) place[v] = -1;
    while (f <= p->program.n_fields && p->program.field[f].binding != HGA_IO_VALUE) f++;
    assert_true(f <= p->program.n_fields);
    hga_id *list = row_nodes(p->graph, p->program.field[f].io, &n);
    for (hga_id i = 0; i < n; i++) place[list[i]] = i;
    free(list);
    return place;
}

/* Key tokens at or below v. */
static hga_id *tokens_below(const problem *p)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    hga_id *n = memory(nodes.n, sizeof *n);
    for (hga_id j = 0; j < nodes.n_keys; j++)
        for (hga_id v = nodes.key_first + j; v >= 0; v = nodes.parent ? nodes.parent[v] : -1) n[v]++;
    return n;
}

/* values[row][head][n_keys]: column j is 1 for key token j; a node shares it evenly among its tokens. */
static float *identity(const problem *p)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    hga_id *place = value_rows(p), *below = tokens_below(p), heads = p->shape.n_kv_heads;
    float *value = memory(p->n_value * heads * nodes.n_keys, sizeof *value);
    for (hga_id j = 0; j < nodes.n_keys; j++)
        for (hga_id v = nodes.key_first + j; v >= 0; v = nodes.parent ? nodes.parent[v] : -1)
            for (hga_id h = 0; h < heads && place[v] >= 0; h++)
                value[((int64_t)place[v] * heads + h) * nodes.n_keys + j] = 1 / (float)below[v];
    free(place), free(below);
    return value;
}

typedef struct sum {
    double weight;
    int64_t edges;
} sum;

static hga_status add_weight(const hga_weight *w, void *context)
{
    sum *s = context;
    s->weight += w->weight, s->edges++;
    return HGA_OK;
}

static void assert_weights(problem *p, hga_id stride)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    hga_shape shape = p->shape;
    hga_io io = p->io;
    float *value = identity(p), *out = memory(p->n_out * shape.n_heads * nodes.n_keys, sizeof *out);
    double *weight = memory(nodes.n_keys, sizeof *weight);
    hga_id first = p->n_out == nodes.n ? nodes.query_first : 0;
    hga_options options = p->options;
    shape.dim_v = nodes.n_keys;
    io.value = (hga_tensor){.data = value, .rows = p->n_value}, io.out = (hga_tensor){.data = out, .rows = p->n_out};
    io.lse = (hga_tensor){0};
    hga_status st = hga_attention(p->graph, &p->program, &shape, &options, &io);
    if (st) fail_msg("%s: %s, %s", p->name, hga_status_name(st), hga_error_detail());
    for (hga_id i = 0; i < nodes.n_queries; i += stride)
        for (hga_id h = 0; h < shape.n_heads; h++) {
            sum s = {0};
            double all = 0;
            const float *want = out + ((int64_t)(first + i) * shape.n_heads + h) * nodes.n_keys;
            st = hga_program_weights(&p->program, p->graph, &p->shape, &io, i, h, add_weight, &s, weight);
            if (st) fail_msg("%s: %s, %s", p->name, hga_status_name(st), hga_error_detail());
            for (hga_id j = 0; j < nodes.n_keys; j++) {
                all += weight[j];
                if (!(fabs(weight[j] - (double)want[j]) < 2e-5 * fmax(1, fabs(weight[j]))))
                    fail_msg("%s: token %d, head %d pays key %d %.9g, the engine %.9g", p->name, i, h, j, weight[j],
                             (double)want[j]);
            }
            if (find_stage(&p->program, HGA_SCORE) && !(fabs(s.weight - all) < 1e-9))
                fail_msg("%s: token %d, head %d: edges weigh %.9g, tokens %.9g", p->name, i, h, s.weight, all);
        }
    free(value), free(out), free(weight);
}

static void weights_of_the_variants_are_the_engines(void **state)
{
    static const float scale = .7f;
    (void)state;
    static const hga_id sizes[] = {1, 5, 13, 40};
    hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 6, .dim_v = 3, .pos_dim = 3};
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < 4; s++)
            for (int tables = 0; tables < 2; tables++) {
                problem p;
                variant_build(i, sizes[s], (uint64_t)(7 * s + tables), &shape, &p);
                int scores = find_stage(&p.program, HGA_SCORE) != NULL;
                if (scores && tables) problem_fill_tables(&p, 99, 1, 1, s % 2 ? 1 : p.shape.n_heads);
                if (scores && tables) p.io.scale.data = &scale;
                assert_weights(&p, 1 + sizes[s] / 12);
                problem_clear(&p);
            }
}

static void weights_over_random_graphs_are_the_engines(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t rng = seed;
        problem p = {.shape = {.n_heads = 2, .n_kv_heads = 1, .dim = 4, .dim_v = 2, .pos_dim = seed % 3 ? 2 : 0}};
        p.program = random_program(&rng);
        p.graph = random_graph(seed, 1 + random_below(&rng, 30), (unsigned)random_below(&rng, 64));
        snprintf(p.name, sizeof p.name, "random %d", (int)seed);
        if (!find_stage(&p.program, HGA_SCORE)) p.shape.pos_dim = 0;
        hga_plan *plan = NULL;
        int legal = hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan) == HGA_OK;
        hga_plan_destroy(plan);
        if (legal) {
            problem_fill(&p, seed);
            if (find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, seed, 1, 1, 0);
            if (find_stage(&p.program, HGA_SCALED)) {
                int32_t n = hga_graph_relation(p.graph, 0).n_types;
                p.io.type_scale.data = p.owned[p.n_owned++] = random_floats(seed, 1, n), p.io.type_scale.rows = n;
            }
            assert_weights(&p, 3);
        }
        problem_clear(&p);
    }
}

static const float weight_table[2] = {0, 0};

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .n_kv_heads = 2, .dim = 4, .dim_v = 2};
    problem p;
    sum s = {0};
    double weight[8];
    variant_build(variant_named("dense"), 8, 1, &shape, &p);
    const hga_program *program = &p.program;
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, &shape, &p.io, 8, 0, add_weight, &s, weight));
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, &shape, &p.io, 0, 2, add_weight, &s, weight));
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, NULL, &p.io, 0, 0, add_weight, &s, weight));
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, &shape, &p.io, 0, 0, NULL, NULL, NULL));
    p.io.rel_bias.data = weight_table, p.io.rel_bias.rows = 0;
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, &shape, &p.io, 0, 0, add_weight, &s, weight));
    p.io.rel_bias.data = NULL, p.io.key.rows = 7;
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, &shape, &p.io, 0, 0, add_weight, &s, weight));
    p.io.key = (hga_tensor){0};
    assert_status(HGA_EINVAL, hga_program_weights(program, p.graph, &shape, &p.io, 0, 0, add_weight, &s, weight));
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_the_variants_are_the_engines),
        cmocka_unit_test(weights_over_random_graphs_are_the_engines),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
