/* test_gradient_dropout.c: families drop backward what they dropped forward, all heads at once. */
#include "slopes.h"

/* Families of every size, with positions or without, all heads of a key at once: gradients are those of the plain way,
   which drops edge by edge, and have equal bits at any number of threads. */
static void families_drop_backward_what_they_dropped_forward(void **state)
{
    (void)state;
    static const char *const words[] = {"hsa branching=2,4,8,16", "hsa branching=5", "hsa branching=3,2 self=1",
                                        "hsa branching=40"};
    static const hga_shape many[] = {{.n_heads = 4, .n_kv_heads = 2, .dim = 16, .pos_dim = 3},
                                     {.n_heads = 12, .dim = 9, .dim_v = 20, .pos_dim = 2}};
    for (int i = 0; i < 8; i++) {
        problem p = {.shape = many[i / 4]};
        snprintf(p.name, sizeof p.name, "%s, %d heads", words[i % 4], p.shape.n_heads);
        assert_ok(hga_build(words[i % 4], 90, &p.graph, &p.program));
        problem_fill(&p, 3);
        if (i % 2) problem_fill_tables(&p, 5, 0, 0, 0);
        p.io.seed = 5, p.io.layer = (uint32_t)i, p.io.first_head = i % 3 * 5;
        slope plain = slope_create(&p, 7), fast = slope_create(&p, 7), more = slope_create(&p, 7);
        slope_run(&plain, (hga_options){.generic = 1, .threads = 1, .dropout = 0.3f});
        slope_run(&fast, (hga_options){.threads = 1, .dropout = 0.3f});
        slope_run(&more, (hga_options){.threads = 3, .dropout = 0.3f});
        assert_same_slopes(&plain, &fast, 2e-5);
        assert_same_slopes(&fast, &more, 0);
        slope_clear(&plain), slope_clear(&fast), slope_clear(&more), problem_clear(&p);
    }
}

static void families_go_by_families_in_dropout(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    hga_plan *plan;
    assert_ok(hga_build("hsa branching=4", 200, &g, &program));
    hga_options options = {.gradient = 1, .dropout = 0.1f, .threads = 1};
    assert_ok(hga_plan_create(g, &program, &(hga_shape){.n_heads = 2, .dim = 8}, &options, &plan));
    assert_non_null(strstr(way_back(plan), "famil"));
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_drop_backward_what_they_dropped_forward),
        cmocka_unit_test(families_go_by_families_in_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
