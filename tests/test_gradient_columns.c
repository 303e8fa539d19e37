/* Keys and values that come and go while a head is computed, and gradients that go past the caches. */
#include "slopes.h"

/* Rows of several panels whose columns leave before the end, some of them shared by strips, and come again for the next
   head: the gradients of the plain way, whatever the threads, added to what was there or not. */
static void columns_that_leave_have_all_they_are_given(void **state)
{
    (void)state;
    static const char *const words[] = {"window left=20 right=9",  "bpt k=2", "dilated", "fenwick", "dense",
                                        "window left=200 causal=1"};
    static const hga_shape shapes[] = {{.n_heads = 3, .dim = 16},
                                       {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (passed_over((int)i)) continue;
        problem p = {.shape = shapes[i % 2]};
        snprintf(p.name, sizeof p.name, "%s", words[i]);
        assert_ok(hga_build(words[i], 420, &p.graph, &p.program));
        problem_fill(&p, i);
        slope plain = slope_create(&p, i), fast = slope_create(&p, i), other = slope_create(&p, i);
        slope_run(&plain, (hga_options){.generic = 1});
        for (int64_t strips = 1; strips < 4; strips += 2) {
            slope_run(&fast, (hga_options){.gradient_row_ranges = strips, .threads = 1});
            slope_run(&other, (hga_options){.gradient_row_ranges = strips, .threads = 2});
            assert_same_slopes(&plain, &fast, 2e-5);
            assert_same_slopes(&fast, &other, 0);
        }
        slope_clear(&plain), slope_clear(&fast), slope_clear(&other), problem_clear(&p);
    }
}

/* Large tensors whose rows are whole lines are written past the caches, but not where something is added to what is
   there: the same numbers. */
static void large_gradients_are_those_that_are_added(void **state)
{
    (void)state;
    enum { LINE = 64 };
    problem p = {.shape = {.n_heads = 32, .dim = 32, .dim_v = 64}};
    snprintf(p.name, sizeof p.name, "window of large tensors");
    assert_ok(hga_build("window left=3 right=2", 2111, &p.graph, &p.program));
    problem_fill(&p, 1);
    slope written = slope_create(&p, 1), added = slope_create(&p, 1);
    hga_tensor *wanted[] = {&written.grad.d_query, &written.grad.d_key, &written.grad.d_value};
    float *lines[3];
    for (int i = 0; i < 3; i++) {
        lines[i] = aligned_alloc(LINE, (size_t)written.n[i] * sizeof *lines[i]);
        assert_non_null(lines[i]);
        memset(lines[i], 0xff, (size_t)written.n[i] * sizeof *lines[i]), wanted[i]->data = lines[i];
        memset(added.of[i], 0, (size_t)added.n[i] * sizeof *lines[i]);
    }
    written.grad.d_scale = written.grad.d_log_mass = added.grad.d_scale = added.grad.d_log_mass = NULL;
    added.grad.accumulate = 1;
    slope_run(&written, (hga_options){.threads = 2});
    slope_run(&added, (hga_options){.threads = 2});
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; j < added.n[i]; j++)
            if (!(lines[i][j] == added.of[i][j]))
                fail_msg("input %d entry %lld: %.9g, not %.9g", i, (long long)j, (double)lines[i][j],
                         (double)added.of[i][j]);
    for (int i = 0; i < 3; i++) free(lines[i]);
    slope_clear(&written), slope_clear(&added), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_that_leave_have_all_they_are_given),
        cmocka_unit_test(large_gradients_are_those_that_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
