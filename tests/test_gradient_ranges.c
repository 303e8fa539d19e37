/* Gradients of some rows of the output: what those give alone, whatever the others hold or are given. */
#include "slopes.h"

#include <time.h>

static const hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 16, .pos_dim = 3};

/* Rows but [first, first + n) of [rows][columns] get a value. */
static void fill_others(float *x, int64_t rows, int64_t columns, hga_id first, hga_id n, float value)
{
    for (int64_t i = 0; x && i < rows * columns; i++)
        if (i / columns < first || i / columns >= first + n) x[i] = value;
}

static void fill_others_given(slope *s, hga_id first, hga_id n, float value)
{
    int64_t rows = s->p->n_out;
    fill_others(s->d_out, rows, out_count(s->p) / rows, first, n, value);
    fill_others(s->d_lse, rows, s->p->shape.n_heads, first, n, value);
}

/* Executes all and goes back from the rows alone; executes the rows alone, where others hold and are given NaN. */
static void check_rows(problem *p, uint64_t seed, hga_id first, hga_id n, hga_options options)
{
    slope whole = slope_create(p, seed), some = slope_create(p, seed);
    fill_others_given(&whole, first, n, 0), fill_others_given(&some, first, n, NAN);
    slope_run(&whole, options);
    for (int64_t i = 0; i < out_count(p); i++) ((float *)p->io.out.data)[i] = NAN;
    p->io.rows = SOME_ROWS(first, n), options.rows = HGA_SOME_ROWS;
    slope_run(&some, options);
    p->io.rows = NULL;
    assert_same_slopes(&whole, &some, 2e-5);
    slope_clear(&whole), slope_clear(&some);
}

static void rows_give_what_they_give_alone(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 150, 1, &shape, &p);
        hga_id first = (hga_id)p.n_out / 3, n = 1 + (hga_id)p.n_out / 4;
        check_rows(&p, 1, first, n, (hga_options){.threads = 1});
        check_rows(&p, 2, first, n, (hga_options){.threads = 2, .gradient_row_ranges = 3});
        if (i % 4 == 0) check_rows(&p, 3, first, n, (hga_options){.generic = 1});
        problem_clear(&p);
    }
}

/* Several panels and chunks; two intervals, in panels that are far apart; on top of what is there, or not. */
static void check_intervals(problem *p, hga_options options, int accumulate)
{
    const hga_interval interval[] = {{130, 40}, {641, 7}};
    const hga_rows rows = {.n_intervals = 2, .interval = interval};
    slope whole = slope_create(p, 1), some = slope_create(p, 1);
    int64_t columns = out_count(p) / p->n_out;
    for (int64_t i = 0; i < p->n_out; i++) {
        int asked = (i >= 130 && i < 170) || (i >= 641 && i < 648);
        for (int64_t c = 0; !asked && c < columns; c++)
            whole.d_out[i * columns + c] = 0, some.d_out[i * columns + c] = NAN;
        for (int64_t h = 0; !asked && whole.d_lse && h < p->shape.n_heads; h++)
            whole.d_lse[i * p->shape.n_heads + h] = 0, some.d_lse[i * p->shape.n_heads + h] = NAN;
    }
    for (int i = 0; accumulate && i < N_SLOW_INPUTS; i++)
        for (int64_t j = 0; j < whole.n[i]; j++) whole.of[i][j] = some.of[i][j] = (float)(j % 7);
    whole.grad.accumulate = some.grad.accumulate = accumulate;
    slope_run(&whole, options);
    for (int64_t i = 0; i < out_count(p); i++) ((float *)p->io.out.data)[i] = NAN;
    p->io.rows = &rows, options.rows = HGA_SOME_ROWS;
    slope_run(&some, options);
    p->io.rows = NULL;
    assert_same_slopes(&whole, &some, 2e-5);
    slope_clear(&whole), slope_clear(&some);
}

static void intervals_give_what_they_give_alone(void **state)
{
    (void)state;
    static const char *const named[] = {"window_causal", "dense_causal", "bpt",     "neighbours_causal",
                                        "hsa_frontier",  "fenwick",      "dilated", "window"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        for (int how = 0; how < 4; how++) {
            problem p;
            variant_build(variant_named(named[i]), 700, 1, &shape, &p);
            hga_options options = {.threads = 1 + how % 2, .gradient_row_ranges = how == 3 ? 3 : 0};
            check_intervals(&p, options, how / 2);
            problem_clear(&p);
        }
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The least time of a gradient of 64 rows of a window over n tokens, added to what is there. */
static double seconds_of_rows(hga_id n)
{
    enum { HEADS = 4, DIM = 16 };
    hga_graph *graph;
    hga_program program;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_options options = {.threads = 1, .gradient = 1, .rows = HGA_SOME_ROWS};
    assert_ok(hga_build("window left=64 right=0", n, &graph, &program));
    assert_ok(hga_plan_create(graph, &program, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_tensor t[8];
    for (int i = 0; i < 8; i++)
        t[i] = (hga_tensor){.data = random_floats((uint64_t)i, 1, (int64_t)n * HEADS * DIM), .rows = n};
    hga_io io = {.query = t[0], .key = t[1], .value = t[2], .out = t[3], .rows = SOME_ROWS(n / 2, 64)};
    hga_grad_io grad = {.d_out = t[4], .d_query = t[5], .d_key = t[6], .d_value = t[7], .accumulate = 1};
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &io));
    double least = INFINITY;
    for (int i = 0; i < 9; i++) {
        double begin = processor_seconds();
        assert_ok(hga_plan_gradient(plan, workspace, &io, &grad));
        least = fmin(least, processor_seconds() - begin);
    }
    for (int i = 0; i < 8; i++) free(t[i].data);
    free(io.tape);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(graph);
    return least;
}

static void rows_of_a_window_cost_the_same_in_a_longer_text(void **state)
{
    (void)state;
    double few = seconds_of_rows(4096), many = seconds_of_rows(65536);
    if (!(many < 4 * few)) fail_msg("%g s of 65536 tokens, %g s of 4096", many, few);
}

/* The loss of some rows is that of what is given of them. */
static void the_loss_is_of_the_same_rows(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    double some, whole;
    variant_build(variant_named("bpt"), 60, 1, &shape, &p);
    slope s = slope_create(&p, 1);
    hga_io io = p.io;
    io.rows = SOME_ROWS(7, 20);
    assert_ok(
        hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1, .rows = HGA_SOME_ROWS}, &plan));
    fill_others_given(&s, 7, 20, NAN);
    assert_ok(hga_plan_loss(plan, &io, &s.grad, HGA_GRADIENT_KEY, 40, 0.25, &some));
    fill_others_given(&s, 7, 20, 0);
    assert_ok(hga_plan_loss(plan, &p.io, &s.grad, HGA_GRADIENT_KEY, 40, 0.25, &whole));
    assert_true(some != 0 && some == whole);
    hga_plan_destroy(plan), slope_clear(&s), problem_clear(&p);
}

static void a_tape_is_of_the_rows_that_were_asked_for(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    hga_workspace *workspace;
    variant_build(variant_named("neighbours"), 100, 3, &shape, &p);
    slope s = slope_create(&p, 1);
    assert_ok(
        hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1, .rows = HGA_SOME_ROWS}, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_io io = p.io;
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    io.rows = SOME_ROWS(5, 10);
    assert_ok(hga_plan_execute(plan, workspace, &io));
    assert_ok(hga_plan_gradient(plan, workspace, &io, &s.grad));
    const hga_rows *const wrong[] = {NULL, SOME_ROWS(5, 11), SOME_ROWS(4, 10)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        io.rows = wrong[i];
        assert_status(HGA_EINVAL, hga_plan_gradient(plan, workspace, &io, &s.grad));
        if (!strstr(hga_error_detail(), "the tape is of rows 5 + 10 of the output, not of"))
            fail_msg("%s", hga_error_detail());
    }
    io.rows = SOME_ROWS(95, 10);
    assert_status(HGA_EINVAL, hga_plan_gradient(plan, workspace, &io, &s.grad));
    if (!strstr(hga_error_detail(), "but the output has 100")) fail_msg("%s", hga_error_detail());
    free(io.tape);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), slope_clear(&s), problem_clear(&p);
}

/* An execution that fails leaves no tape behind that a gradient would take for whole. */
static void a_failed_execution_leaves_no_tape(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    hga_workspace *two[2];
    variant_build(variant_named("neighbours"), 100, 3, &shape, &p);
    slope s = slope_create(&p, 1);
    assert_ok(
        hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1, .rows = HGA_SOME_ROWS}, &plan));
    for (int i = 0; i < 2; i++) assert_ok(hga_workspace_create(plan, &two[i]));
    hga_io ios[2] = {p.io, p.io};
    ios[0].tape = memory(hga_plan_tape_bytes(plan), 1);
    ios[0].rows = SOME_ROWS(5, 10);
    assert_ok(hga_plan_execute(plan, two[0], &ios[0]));
    assert_ok(hga_plan_gradient(plan, two[0], &ios[0], &s.grad));
    ios[1].query.data = NULL;
    assert_status(HGA_EINVAL, hga_plan_execute_batch(plan, two, ios, 2));
    assert_status(HGA_EINVAL, hga_plan_gradient(plan, two[0], &ios[0], &s.grad));
    if (!strstr(hga_error_detail(), "the tape was not written by an execution")) fail_msg("%s", hga_error_detail());
    free(ios[0].tape);
    for (int i = 0; i < 2; i++) hga_workspace_destroy(two[i]);
    hga_plan_destroy(plan), slope_clear(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_give_what_they_give_alone),
        cmocka_unit_test(intervals_give_what_they_give_alone),
        cmocka_unit_test(rows_of_a_window_cost_the_same_in_a_longer_text),
        cmocka_unit_test(the_loss_is_of_the_same_rows),
        cmocka_unit_test(a_failed_execution_leaves_no_tape),
        cmocka_unit_test(a_tape_is_of_the_rows_that_were_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
