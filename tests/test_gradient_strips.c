/* Where threads on one head cut its rows: what they cost, not how many there are. */
#include "hga_variants.h"
#include "plan.h"
#include "slopes.h"
#include "subtrees.h"

enum { LIGHT = 6144, HEAVY = 2048, REACH = 256 };

/* Rows with one edge each, and behind them rows that see REACH tokens of their own. */
static void make_plan(hga_graph **g, hga_plan **plan)
{
    hga_builder *b;
    hga_id near;
    hga_program p;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, LIGHT + HEAVY, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    hga_block light = {.n_dst = 1, .n_src = 1, .count = LIGHT, .dst_step = 1, .src_step = 1},
              heavy = {.dst = LIGHT, .n_dst = HEAVY, .n_src = REACH, .count = 1};
    assert_ok(hga_builder_add_blocks(b, near, &light));
    assert_ok(hga_builder_add_blocks(b, near, &heavy));
    assert_ok(hga_program_attention(&p, near));
    assert_ok(hga_builder_finish(b, g));
    hga_builder_destroy(b);
    assert_ok(hga_plan_create(*g, &p, &(hga_shape){.n_heads = 1, .dim = 16}, &(hga_options){.gradient = 1}, plan));
}

static void strips_cost_alike(void **state)
{
    (void)state;
    hga_graph *g;
    hga_plan *plan;
    row_ranges s = {0};
    make_plan(&g, &plan);
    assert_ok(row_ranges_create(plan, 0, NULL, 1, &s));
    assert_int_equal(s.n, 8);
    assert_int_equal(s.first[0], 0);
    assert_int_equal(s.first[s.n], LIGHT + HEAVY);
    for (hga_id i = 0; i < s.n; i++) {
        hga_pos degree[LIGHT + HEAVY], edges = 0;
        hga_id n = s.first[i + 1] - s.first[i];
        assert_true(n > 0 && (s.first[i] % ROW_RANGE_PANEL) == 0);
        hga_graph_degrees(g, 0, s.first[i], n, degree);
        for (hga_id v = 0; v < n; v++) edges += degree[v];
        double share = (double)(edges + 32 * n) / ((double)LIGHT * 33 + (double)HEAVY * (REACH + 32));
        if (!(share > 0.07 && share < 0.18))
            fail_msg("strip %d of %d: rows %d + %d, %.3f", i, s.n, s.first[i], n, share);
    }
    row_ranges_clear(plan, &s);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Stages that take keys in other orders than each other, so that rows lie in none of these: threads that come to the
   same rows at once clear nothing that another has added to. */
static void threads_meet_on_rows_without_losing_any(void **state)
{
    (void)state;
    problem p = {.name = "dilated", .shape = {.n_heads = 1, .dim = 16}};
    assert_ok(hga_build("dilated segments=64,256,2048 dilations=1,4,16", 8192, &p.graph, &p.program));
    problem_fill(&p, 1);
    slope one = slope_create(&p, 1), two = slope_create(&p, 1);
    slope_run(&one, (hga_options){.threads = 1});
    for (int i = 0; i < 12; i++) {
        slope_run(&two, (hga_options){.threads = 2});
        assert_same_slopes(&one, &two, 0);
    }
    slope_clear(&one), slope_clear(&two), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_cost_alike),
        cmocka_unit_test(threads_meet_on_rows_without_losing_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
