/* Gradients of some rows of the output: what those give alone, whatever the others hold or are given. */
#include "slopes.h"

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
    p->io.first_row = first, p->io.n_rows = n, options.ranges = 1;
    slope_run(&some, options);
    p->io.first_row = p->io.n_rows = 0;
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
        check_rows(&p, 2, first, n, (hga_options){.threads = 2, .gradient_strips = 3});
        if (i % 4 == 0) check_rows(&p, 3, first, n, (hga_options){.generic = 1});
        problem_clear(&p);
    }
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
    io.first_row = 7, io.n_rows = 20;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1, .ranges = 1}, &plan));
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
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1, .ranges = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_io io = p.io;
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    io.first_row = 5, io.n_rows = 10;
    assert_ok(hga_plan_execute(plan, workspace, &io));
    assert_ok(hga_plan_gradient(plan, workspace, &io, &s.grad));
    static const int64_t wrong[][2] = {{0, 0}, {5, 11}, {4, 10}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        io.first_row = wrong[i][0], io.n_rows = wrong[i][1];
        assert_status(HGA_EINVAL, hga_plan_gradient(plan, workspace, &io, &s.grad));
        if (!strstr(hga_error_detail(), "the tape is of rows 5 + 10 of the output, not of"))
            fail_msg("%s", hga_error_detail());
    }
    io.first_row = 95;
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
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1, .ranges = 1}, &plan));
    for (int i = 0; i < 2; i++) assert_ok(hga_workspace_create(plan, &two[i]));
    hga_io ios[2] = {p.io, p.io};
    ios[0].tape = memory(hga_plan_tape_bytes(plan), 1);
    ios[0].first_row = 5, ios[0].n_rows = 10;
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
        cmocka_unit_test(the_loss_is_of_the_same_rows),
        cmocka_unit_test(a_failed_execution_leaves_no_tape),
        cmocka_unit_test(a_tape_is_of_the_rows_that_were_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
