/* test_pattern.c: the rectangles of the attention pattern against counting every pair along every way, and against the
   spans of the edges. */
#include "ways.h"

#include "hga_inspect.h"

enum { MOST_LEVELS = 16 };

/* ---- what the rectangles add up to ---- */

typedef struct table {
    hga_id n_queries, n_keys;
    int64_t times[MOST_TOKENS][MOST_TOKENS];
    int64_t by_level[MOST_LEVELS][MOST_LEVELS][MOST_TOKENS][MOST_TOKENS]; /* destination's, source's */
    int64_t n_patches;
} table;

static hga_status add_patch(const hga_patch *p, void *context)
{
    table *t = context;
    assert_true(p->query >= 0 && p->n_queries > 0 && p->query + p->n_queries <= t->n_queries);
    assert_true(p->key >= 0 && p->n_keys > 0 && p->key + p->n_keys <= t->n_keys);
    assert_true(p->times > 0);
    for (hga_id i = p->query; i < p->query + p->n_queries; i++)
        for (hga_id j = p->key; j < p->key + p->n_keys; j++)
            t->times[i][j] += p->times, t->by_level[p->level][p->source_level][i][j] += p->times;
    t->n_patches++;
    return HGA_OK;
}

static void collect(const hga_graph *g, const hga_program *p, table *t)
{
    hga_nodes nodes = hga_graph_nodes(g);
    memset(t, 0, sizeof *t);
    t->n_queries = nodes.n_queries, t->n_keys = nodes.n_keys;
    assert_in_range(nodes.n_queries, 1, MOST_TOKENS);
    assert_ok(hga_program_pattern(p, g, add_patch, t));
}

static void assert_pattern_is_the_oracles(const char *name, const hga_graph *g, const hga_program *p)
{
    static ways w;
    static table t;
    ways_count(&w, g, p);
    collect(g, p, &t);
    for (hga_id i = 0; i < t.n_queries; i++)
        for (hga_id j = 0; j < t.n_keys; j++) {
            int64_t want = ways_between(&w, i, j);
            if (t.times[i][j] != want)
                fail_msg("%s: query %d, key %d: %lld times, not %lld", name, i, j, (long long)t.times[i][j],
                         (long long)want);
        }
}

static void patterns_of_random_programs_are_the_oracles(void **state)
{
    (void)state;
    on_random_programs(thinned(300), assert_pattern_is_the_oracles);
}

static void patterns_of_drawn_programs_are_the_oracles(void **state)
{
    (void)state;
    int n = thinned(2000);
    assert_true(on_drawn_programs(n, NO_USER_STAGES, assert_pattern_is_the_oracles) > n / 6);
}

/* The mean of nothing, written over what the caller gave: who reads it then sees no token. */
static void rows_without_edges_hold_nothing_of_what_was_given(void **state)
{
    (void)state;
    static table t;
    hga_builder *b = tokens_alone(3);
    hga_id some, own;
    assert_ok(hga_builder_add_relation(b, "some", &some));
    assert_ok(hga_builder_add_relation(b, "own", &own));
    assert_ok(hga_builder_add_edge(b, some, 0, 1, 0, 1));
    for (hga_id i = 0; i < 3; i++) assert_ok(hga_builder_add_edge(b, own, i, i, 0, 1));
    problem p = {.name = "means of nothing", .graph = finished(b), .shape = {.n_heads = 1, .dim = 1}};
    hga_program_init(&p.program);
    hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           u = field_on_nodes(&p.program, "u", HGA_WIDTH_VALUE, HGA_IO_USER),
           out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
    assert_ok(hga_program_mean(&p.program, some, v, u, 0));
    assert_ok(hga_program_weighted_sum(&p.program, own, u, out));
    problem_fill(&p, 1);
    float input[3] = {100, 200, 400}, scale = 1, *sum = p.io.out.data, *value = p.io.value.data;
    p.io.user[0] = (hga_tensor){.data = input, .rows = 3}, p.io.type_scale.data = &scale, p.io.type_scale.rows = 1;
    problem_run(&p);
    assert_true(sum[0] == 0 && sum[1] == value[0] && sum[2] == 0);
    collect(p.graph, &p.program, &t);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) assert_int_equal(t.times[i][j], i == 1 && j == 0);
    problem_clear(&p);
}

static void patterns_of_the_variants_are_the_oracles(void **state)
{
    (void)state;
    on_variants(6, assert_pattern_is_the_oracles);
}

/* With one attend stage and nothing on the way down, a pair's levels are those of its edge. */
static void levels_are_those_of_the_edges(void **state)
{
    (void)state;
    static table t;
    static int64_t want[MOST_LEVELS][MOST_TOKENS][MOST_TOKENS];
    problem p;
    variant_build(variant_named("bpt"), 40, 1, &(hga_shape){.n_heads = 1, .dim = 2, .pos_dim = 2}, &p);
    hga_nodes nodes = hga_graph_nodes(p.graph);
    int64_t n;
    edge *e = all_edges(p.graph, find_stage(&p.program, HGA_SCORE)->relation, &n);
    collect(p.graph, &p.program, &t);
    memset(want, 0, sizeof want);
    for (int64_t k = 0; k < n; k++)
        for (hga_id j = nodes.span_first[e[k].src]; e[k].dst < nodes.n_queries && j <= nodes.span_last[e[k].src]; j++)
            want[hga_graph_level(p.graph, e[k].src)][e[k].dst][j]++;
    for (hga_id l = 0; l < nodes.n_levels; l++) assert_memory_equal(want[l], t.by_level[0][l], sizeof want[l]);
    free(e);
    problem_clear(&p);
}

/* ---- facts ---- */

static hga_graph *blocks_graph(hga_id n, const hga_block *block, hga_program *p)
{
    assert_ok(hga_program_attention(p, 0));
    return blocks_over(n, block, 1);
}

static hga_status count_area(const hga_patch *p, void *context)
{
    int64_t *sum = context;
    sum[0]++, sum[1] += (int64_t)p->n_queries * p->n_keys * p->times;
    return HGA_OK;
}

static void a_full_block_is_few_rectangles_however_large(void **state)
{
    (void)state;
    hga_program p;
    int64_t sum[2] = {0, 0};
    hga_graph *g = blocks_graph(100000, &(hga_block){.n_dst = 100000, .n_src = 100000}, &p);
    assert_ok(hga_program_pattern(&p, g, count_area, sum));
    assert_in_range(sum[0], 1, 100);
    assert_int_equal(sum[1], INT64_C(10000000000));
    hga_graph_destroy(g);
}

static void a_triangle_is_a_rectangle_a_row(void **state)
{
    (void)state;
    hga_program p;
    int64_t sum[2] = {0, 0};
    hga_graph *g = blocks_graph(5000, &(hga_block){.n_dst = 5000, .n_src = 5000, .shape = HGA_LOWER}, &p);
    assert_ok(hga_program_pattern(&p, g, count_area, sum));
    assert_int_equal(sum[0], 5000);
    assert_int_equal(sum[1], 5000 * 5001 / 2);
    hga_graph_destroy(g);
}

static hga_status refuse(const hga_patch *p, void *context)
{
    (void)p;
    ++*(int *)context;
    return hga_fail(HGA_EIO, "enough");
}

static void the_first_refusal_ends_it(void **state)
{
    (void)state;
    hga_program p;
    int calls = 0;
    hga_graph *g = blocks_graph(9, &(hga_block){.n_dst = 9, .n_src = 9, .shape = HGA_LOWER}, &p);
    assert_status(HGA_EIO, hga_program_pattern(&p, g, refuse, &calls));
    assert_int_equal(calls, 1);
    assert_status(HGA_EINVAL, hga_program_pattern(&p, g, NULL, NULL));
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_of_random_programs_are_the_oracles),
        cmocka_unit_test(patterns_of_drawn_programs_are_the_oracles),
        cmocka_unit_test(rows_without_edges_hold_nothing_of_what_was_given),
        cmocka_unit_test(patterns_of_the_variants_are_the_oracles),
        cmocka_unit_test(levels_are_those_of_the_edges),
        cmocka_unit_test(a_full_block_is_few_rectangles_however_large),
        cmocka_unit_test(a_triangle_is_a_rectangle_a_row),
        cmocka_unit_test(the_first_refusal_ends_it),
    };
    return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
