/* Biases of edges in tiles: as in double, whatever else a call has, by any threads. Their kernel is in
   test_tile_kernels.c. */
#include "brought.h"
#include "by_hand.h"
#include "isas.h"
#include "testing.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- graphs ---- */

#define TWINS  "pairs with two edges"
#define RAGGED "ragged"
#define COMBED "combs"
static const char *const graphs[] = {"dense",
                                     "dense causal=1",
                                     "window left=70 right=70",
                                     "window left=9 causal=1",
                                     "bpt k=4",
                                     "bpt k=64 causal=1",
                                     "htransformer block=8",
                                     "hsa branching=2,4,8 causal=1",
                                     "dilated",
                                     "window left=120 right=120 stride=4",
                                     TWINS,
                                     RAGGED,
                                     COMBED};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs };

/* Two blocks share columns in half of the rows, so that each pair there has an edge of two weights. */
static void open_twins(problem *p, hga_id n)
{
    const hga_block block[] = {{.n_dst = n, .n_src = n / 2, .weight = 0.5f},
                               {.dst = n / 2, .n_dst = n - n / 2, .src = n / 4, .n_src = n / 2, .weight = 3}};
    p->graph = blocks_over(n, block, 2);
    assert_ok(hga_program_attention(&p->program, 0));
}

/* Columns of weight 1 between which a row has columns of weight 2. */
static void open_combed(problem *p, hga_id n)
{
    const hga_block block[] = {{.n_dst = n, .n_src = n / 4},
                               {.n_dst = n, .src = n / 2, .n_src = n / 4},
                               {.n_dst = n, .src = n / 4, .n_src = n / 4, .weight = 2}};
    p->graph = blocks_over(n, block, 3);
    assert_ok(hga_program_attention(&p->program, 0));
}

static void open_ragged(problem *p)
{
    static const hga_id lengths[] = {37, 150, 1, 64};
    hga_graph *graph[4];
    for (int i = 0; i < 4; i++) assert_ok(hga_build("window left=20 causal=1", lengths[i], &graph[i], &p->program));
    assert_ok(hga_graph_concat((const hga_graph *const *)graph, 4, &p->graph, NULL));
    for (int i = 0; i < 4; i++) hga_graph_destroy(graph[i]);
}

/* ---- calls ---- */

enum { CAP = 1, SLOPES = 2, TYPES = 4, DROPS = 8, SHARED_KEYS = 16, ONE_COLUMN = 32, SIGMOIDS = 64, N_OPTIONS = 128 };

static problem problem_of(const char *words, unsigned has, hga_id heads, operands *m)
{
    enum { N = 260 };
    static const float slopes[] = {0.1f, 0.02f, 0, 0.5f, 0.1f, 0.02f, 0, 0.5f, 0.3f, 0.2f, 0, 0.1f};
    problem p = {.shape = {.n_heads = heads, .n_kv_heads = has & SHARED_KEYS ? heads / 2 : heads, .dim = 16}};
    snprintf(p.name, sizeof p.name, "%s, %x", words, has);
    if (strcmp(words, TWINS) == 0)
        open_twins(&p, N);
    else if (strcmp(words, COMBED) == 0)
        open_combed(&p, N);
    else if (strcmp(words, RAGGED) == 0)
        open_ragged(&p);
    else
        assert_ok(hga_build(words, N, &p.graph, &p.program));
    if (has & SIGMOIDS) {
        p.program.has_lse = 0;
        assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_SIGMOID, 0));
    }
    problem_fill(&p, 3);
    if (has & SIGMOIDS) p.io.lse.data = NULL;
    problem_fill_tables(&p, 3, (has & TYPES) != 0, (has & TYPES) != 0, has & ONE_COLUMN ? 1 : heads);
    *m = (operands){.softcap = has & CAP ? 2.0f : 0, .slopes = has & SLOPES ? slopes : NULL};
    bring_to(&p.io, m);
    return p;
}

static double size_of(const float *x, int64_t n)
{
    double most = 1;
    for (int64_t i = 0; i < n; i++) most = isfinite(x[i]) ? fmax(most, fabs((double)x[i])) : most;
    return most;
}

/* The results are those in double, on one instruction set, and by two threads those of one. */
static void check(problem *p, hga_options options, int isa)
{
    char buffer[16];
    int n_isas = 0;
    while (isa_name(n_isas, buffer, sizeof buffer)) n_isas++;
    options.threads = 2, options.generic = 1;
    float *want = problem_out(p, &options, NULL);
    isa_name(isa % n_isas, buffer, sizeof buffer);
    options.generic = 0, options.threads = 1, options.isa = buffer;
    float *one = problem_out(p, &options, NULL);
    options.threads = 2;
    float *two = problem_out(p, &options, NULL);
    assert_near_floats(p->name, one, want, out_count(p), 1e-5 * size_of(want, out_count(p)));
    assert_same_bits(p->name, one, two, out_count(p));
    free(want), free(one), free(two);
}

static void biases_in_tiles_are_the_plain_ones(void **state)
{
    (void)state;
    for (int i = 0; i < N_GRAPHS; i++)
        for (unsigned has = 0; has < N_OPTIONS; has++) {
            operands m;
            if (__builtin_popcount(has) > 3 || every_other_passed_over(__builtin_popcount(has))) continue;
            problem p = problem_of(graphs[i], has, 4, &m);
            check(&p, (hga_options){.dropout = has & DROPS ? 0.25f : 0}, i + (int)has);
            problem_clear(&p);
        }
}

/* Heads that fill no vector, and more than are read together. */
static void any_number_of_heads_has_its_biases(void **state)
{
    (void)state;
    static const hga_id heads[] = {1, 2, 3, 5, 8, 12};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (int j = 0; j < 4; j++) {
            operands m;
            problem p = problem_of(graphs[j], 0, heads[i], &m);
            check(&p, (hga_options){.dropout = 0}, j);
            problem_clear(&p);
        }
}

/* -inf leaves an edge out; a row whose biases are all the least number has equal ones. */
static void the_least_biases_stay_what_they_are(void **state)
{
    (void)state;
    for (int j = 0; j < 4; j++) {
        operands m;
        problem p = problem_of(graphs[j], 0, 4, &m);
        float *bias = memory(p.io.edge_bias.rows * 4, sizeof *bias);
        for (int64_t i = 0; i < p.io.edge_bias.rows * 4; i++) bias[i] = i % 3 ? -FLT_MAX : -INFINITY;
        p.io.edge_bias.data = bias;
        check(&p, (hga_options){.dropout = 0}, j);
        problem_clear(&p), free(bias);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(biases_in_tiles_are_the_plain_ones),
        cmocka_unit_test(any_number_of_heads_has_its_biases),
        cmocka_unit_test(the_least_biases_stay_what_they_are),
    };
    return cmocka_run_group_tests_name("edge biases", tests, NULL, NULL);
}
