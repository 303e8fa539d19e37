/* test_explain.c: what a plan tells of itself: its costs as counted by hand, whose rows are whose, and which way pairs
   go. */
#include "by_hand.h"
#include "plan.h"

#include <jansson.h>
#include <string.h>

/* ---- costs ---- */

/* 512 rows that have one and the same column forty million times: 20 billion edges. */
static void costs_of_many_edges_do_not_turn_negative(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    hga_builder *b = tokens_alone(N);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_blocks(b, near, &(hga_block){.n_dst = N, .n_src = N}));
    hga_graph *g = finished(b);
    hga_program program;
    attention f = attention_on_nodes(&program);
    assert_ok(hga_program_attend(&program, near, f.query, f.key, f.value, f.out, 0));
    hga_plan *plan;
    hga_options options = {.threads = 2, .cut_edges = 1 << 30};
    assert_ok(hga_plan_create(g, &program, &(hga_shape){.n_heads = 1, .dim = 1}, &options, &plan));
    int64_t cost = 0;
    for (int64_t i = 0; i < (int64_t)plan->waves.n * plan->team.n; i++) cost += plan->waves.cost[i];
    assert_true(cost >= (int64_t)N * N);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Seven nodes: four tokens, two parents, a root; `near` has five edges. 3 heads, 1 of keys, 2 and 4 columns. */
static hga_graph *small_tree(void)
{
    hga_builder *b = tokens_alone(4);
    hga_id parents, root, near;
    assert_ok(hga_builder_add_level(b, 2, &parents));
    assert_ok(hga_builder_add_level(b, 1, &root));
    assert_ok(hga_builder_set_families(b, parents, 0, 4, 2));
    assert_ok(hga_builder_set_children(b, root, parents, 2));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < 5; i++) assert_ok(hga_builder_add_edge(b, near, i, (i + 1) % 5, 0, 1));
    return finished(b);
}

/* The useful operations of what the program does more than `without`. */
static double flops_more(const hga_graph *g, const hga_program *p, const hga_program *without)
{
    hga_shape shape = {.n_heads = 3, .n_kv_heads = 1, .dim = 2, .dim_v = 4};
    double flops[2];
    for (int i = 0; i < 2; i++) {
        hga_plan *plan;
        assert_ok(hga_plan_create(g, i ? without : p, &shape, NULL, &plan));
        flops[i] = hga_plan_cost(plan).flops;
        hga_plan_destroy(plan);
    }
    return flops[0] - flops[1];
}

static void each_stage_costs_what_is_counted_by_hand(void **state)
{
    (void)state;
    hga_graph *g = small_tree();
    hga_program p, before;
    attention f = attention_on_nodes(&p);
    p.field[f.out].binding = HGA_INTERNAL;
    hga_id out = field_on_nodes(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT),
           psi = field_on_nodes(&p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL),
           keep = field_on_nodes(&p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL),
           mean = field_on_nodes(&p, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL);
    assert_ok(hga_program_attend(&p, 0, f.query, f.key, f.value, f.out, 0));
    assert_ok(hga_program_weighted_sum(&p, 0, f.value, out));
    double ignored = flops_more(g, &p, &p);
    assert_true(ignored == 0);
#define COSTS(by_hand, stage)                                 \
    do {                                                      \
        before = p;                                           \
        assert_ok(stage);                                     \
        assert_true(flops_more(g, &p, &before) == (by_hand)); \
    } while (0)
    /* 5 edges, 3 heads, 2 operations for each of 2 + 4 columns; 6 edges of the tree */
    COSTS(5 * 3 * 2 * (2 + 4), hga_program_attend_more(&p, 0, f.query, f.key, f.value, f.out, 0));
    COSTS(5 * 1 * 2 * 4, hga_program_mean(&p, 0, f.value, mean, 0));
    COSTS(5 * 3 * 2 * 4, hga_program_weighted_sum(&p, 0, f.value, out));
    COSTS(6 * 3 * 3 * 4, hga_program_spread(&p, HGA_TREE_DOWN, f.out));
    COSTS(6 * 3 * 4, hga_program_energy(&p, f.out, psi));
    COSTS(6 * 3 * 2 * 4, hga_program_descend(&p, f.out, psi, keep, out));
#undef COSTS
    hga_graph_destroy(g);
}

/* ---- a plan written out ---- */

/* The lines of the text from the one that begins with `from` up to the one that begins with `to`. */
static void assert_lines(char *text, const char *from, const char *to, const char *want)
{
    char *begin = strstr(text, from), *end = begin ? strstr(begin, to) : NULL;
    assert_non_null(end);
    *end = 0;
    assert_string_equal(begin, want);
}

/* 128 tokens under 8 parents, on two domains of one thread each. */
static void the_rows_of_each_domain_are_told(void **state)
{
    (void)state;
    hga_builder *b = tokens_alone(128);
    hga_id parents, near;
    char *text;
    assert_ok(hga_builder_add_level(b, 8, &parents));
    assert_ok(hga_builder_set_families(b, parents, 0, 128, 16));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 136, 0, 128, 0));
    hga_graph *g = finished(b);
    hga_program p;
    attention f = attention_on_nodes(&p);
    assert_ok(hga_program_attend(&p, near, f.query, f.key, f.value, f.out, 0));
    hga_options options = {.threads = 2, .topology = "numa:2 core:1 pu:1"};
    hga_plan *plan;
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 64, .dim = 64}, &options, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_lines(text, "parts:\n", "schedule:",
                 "parts:\n"
                 "  domain 0, stage 1: 72 rows, 1179.6 kB; 0 to 63 of 0 to 127\n"
                 "  domain 1, stage 1: 64 rows, 1048.6 kB; 64 to 127 of 0 to 127\n");
    hga_text_free(text);
    hga_plan_destroy(plan);
    options.topology = "numa:1 core:2 pu:1";
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 64, .dim = 64}, &options, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_lines(text, "parts:\n", "schedule:",
                 "parts:\n"
                 "  domain 0, stage 1: 136 rows, 2228.2 kB; all of 0 to 127\n");
    hga_text_free(text);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Up two levels a stage has a phase for each: its largest is told, which is neither its last nor another's. */
static void the_rows_of_the_largest_phase_are_told(void **state)
{
    (void)state;
    hga_builder *b = tokens_alone(128);
    hga_id parents, grandparents, near;
    char *text;
    assert_ok(hga_builder_add_level(b, 8, &parents));
    assert_ok(hga_builder_set_families(b, parents, 0, 128, 16));
    assert_ok(hga_builder_add_level(b, 2, &grandparents));
    assert_ok(hga_builder_set_families(b, grandparents, parents, 8, 4));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 128, 0, 138, 0));
    hga_graph *g = finished(b);
    hga_program p;
    attention f = attention_on_nodes(&p);
    p.field[f.key].io = HGA_ROWS_KEYS;
    assert_ok(hga_program_coarsen(&p, f.key));
    assert_ok(hga_program_attend(&p, near, f.query, f.key, f.value, f.out, 0));
    hga_plan *plan;
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 4, .dim = 8}, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_lines(text, "parts:\n", "schedule:",
                 "parts:\n"
                 "  domain 0, stage 1: 10 rows, 1.3 kB; all of 128 to 135\n"
                 "  domain 0, stage 2: 138 rows, 17.7 kB; all of 0 to 127\n");
    hga_text_free(text);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Sixteen rows with 32 columns fill tiles, families of two with themselves would not, and an edge is one by one. */
static void the_way_of_each_pair_is_told(void **state)
{
    (void)state;
    hga_builder *b = tokens_alone(64);
    hga_id near;
    char *text;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 16, 0, 32, 0));
    assert_ok(hga_builder_add_edge(b, near, 0, 20, 0, 1));
    assert_ok(hga_builder_add_blocks(
        b, near,
        &(hga_block){
            .dst = 32, .n_dst = 2, .src = 32, .n_src = 2, .count = 16, .dst_step = 2, .src_step = 2, .weight = 1}));
    hga_graph *g = finished(b);
    hga_program p;
    attention f = attention_on_nodes(&p);
    assert_ok(hga_program_attend(&p, near, f.query, f.key, f.value, f.out, 0));
    hga_plan *plan;
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 4, .dim = 4}, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_lines(
        text, "      pairs:", "parts:",
        "      pairs: 88.7 % in tiles that are 100 % full, 11.1 % in families, 0.2 % row by row, all heads at once\n"
        "      solvers: tiles; families; row by row, all heads at once\n"
        "      not tiles head by head: no rows have one wide block and nothing else\n"
        "      not splits together: no long rows share the columns of their splits\n"
        "      not by columns: rows share their columns with those beside them\n"
        "      not cached tiles: no panel's tiles are expensive to choose and few to cache\n"
        "      not panels of equal families: no panel has families of one size alone\n"
        "      not strict tiles: rows are not strict\n"
        "      not few edges a row, all heads at once: edges are in blocks, or heads are wide\n");
    hga_text_free(text);
    hga_plan_destroy(plan);
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 2, .dim = 4}, &(hga_options){.threads = 1}, &plan));
    assert_status(HGA_EINVAL, hga_plan_explain(plan, NULL, (hga_format)2, &text));
    assert_null(text);
    assert_non_null(strstr(hga_error_detail(), "format 2"));
    assert_ok(hga_plan_explain(plan, NULL, HGA_JSON, &text));
    json_t *j = json_loads(text, 0, NULL),
           *pairs = json_object_get(json_array_get(json_object_get(j, "stages"), 0), "pairs");
    assert_int_equal(json_number_value(json_object_get(pairs, "tiles")), 512);
    assert_int_equal(json_number_value(json_object_get(pairs, "places")), 512);
    assert_int_equal(json_number_value(json_object_get(pairs, "families")), 64);
    assert_int_equal(json_number_value(json_object_get(pairs, "rows")), 1);
    json_decref(j);
    hga_text_free(text);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* bfloat16 that no instruction multiplies is slower in tiles, and that is said. */
static void bfloat16_that_is_widened_is_told(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        hga_graph *g;
        hga_program p;
        hga_plan *plan;
        char *text;
        hga_options o = {.threads = 1, .isa = "ref", .precision = bf16 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32};
        assert_ok(hga_build("window left=8", 64, &g, &p));
        assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 2, .dim = 16}, &o, &plan));
        assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
        assert_int_equal(strstr(text, "which tiles widen each time") != NULL, bf16);
        hga_text_free(text);
        hga_plan_destroy(plan), hga_graph_destroy(g);
    }
}

/* Which way gradients go, of a plan that has them, and of a call that brings a table; as JSON the same. */
static void the_way_back_is_told(void **state)
{
    const float slopes[2] = {1, 1};
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++)
        for (int has = 0; has < 2; has++) {
            hga_graph *g;
            hga_program p;
            hga_plan *plan;
            char *text, *document;
            const hga_io io = {.slopes.data = has ? slopes : NULL};
            const hga_options o = {.threads = 1, .isa = "ref", .gradient = gradient};
            assert_ok(hga_build("hsa branching=2,4", 64, &g, &p));
            assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 2, .dim = 16}, &o, &plan));
            assert_ok(hga_plan_explain(plan, &io, HGA_TEXT, &text));
            assert_ok(hga_plan_explain(plan, &io, HGA_JSON, &document));
            const char *way = strstr(text, has ? "\ngradient: in float, a head at a time\n"
                                               : "\ngradient: in float, a family of siblings at a time");
            assert_int_equal(way != NULL, gradient);
            assert_int_equal(strstr(text, "\ntape: ") != NULL, gradient);
            json_t *j = json_loads(document, 0, NULL), *back = json_object_get(j, "gradient");
            assert_int_equal(back != NULL, gradient);
            if (gradient) {
                assert_int_equal(hga_plan_tape_bytes(plan), json_integer_value(json_object_get(back, "tape_bytes")));
                assert_true(json_is_null(json_object_get(back, "plain")));
                assert_non_null(strstr(text, json_string_value(json_object_get(back, "way"))));
            }
            json_decref(j);
            hga_text_free(text), hga_text_free(document);
            hga_plan_destroy(plan), hga_graph_destroy(g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_back_is_told),
        cmocka_unit_test(costs_of_many_edges_do_not_turn_negative),
        cmocka_unit_test(each_stage_costs_what_is_counted_by_hand),
        cmocka_unit_test(the_rows_of_each_domain_are_told),
        cmocka_unit_test(the_rows_of_the_largest_phase_are_told),
        cmocka_unit_test(the_way_of_each_pair_is_told),
        cmocka_unit_test(bfloat16_that_is_widened_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
