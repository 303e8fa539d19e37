/* Many gradients at once: each has the bits that it has alone, whichever way it goes back, and an error names its
   sample. */
#include "by_hand.h"
#include "slopes.h"

enum { MOST = 7, TOKENS = 90 };

/* Samples of one problem: operands, outputs, tapes and gradients of their own. */
typedef struct samples {
    hga_plan *plan;
    hga_id n;
    problem problem[MOST]; /* graphs and tables are the first one's */
    slope slope[MOST];
    float *owned[MOST][4];
    hga_workspace *own[MOST];
    hga_io io[MOST];
    hga_interval interval[MOST];
    hga_rows rows[MOST];
    hga_grad_io grad[MOST];
} samples;

/* What numbers are in: of 16 bits between a quarter and a half, whatever the bits before. */
static float *numbers(uint64_t seed, int64_t n, hga_dtype type)
{
    float *x = random_floats(seed, 1, n);
    uint16_t *half = (uint16_t *)(void *)x;
    for (int64_t i = 0; i < 2 * n && type != HGA_F32; i++)
        half[i] = type == HGA_F16 ? (half[i] & 0x83ff) | 0x3400 : (half[i] & 0x807f) | 0x3e80;
    return x;
}

static void open_sample(samples *s, const problem *p, hga_id i, hga_dtype type)
{
    int64_t heads = p->shape.n_heads, kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : heads,
            value = p->shape.dim_v ? p->shape.dim_v : p->shape.dim;
    uint64_t seed = 10 * (uint64_t)i;
    problem *own = &s->problem[i];
    *own = *p;
    s->owned[i][0] = own->io.query.data = numbers(seed + 1, p->n_query * heads * p->shape.dim, type);
    s->owned[i][1] = own->io.key.data = numbers(seed + 2, p->n_key * kv * p->shape.dim, type);
    s->owned[i][2] = own->io.value.data = numbers(seed + 3, p->n_value * kv * value, type);
    s->owned[i][3] = own->io.out.data = memory(out_count(p), sizeof(float));
    own->io.query.dtype = own->io.key.dtype = own->io.value.dtype = own->io.out.dtype = HGA_F32;
    own->io.lse.data = NULL, own->io.seed = 7 + seed;
    s->slope[i] = slope_create(own, seed + 4);
    own->io.query.dtype = own->io.key.dtype = own->io.value.dtype = own->io.out.dtype = type;
    s->io[i] = own->io, s->grad[i] = s->slope[i].grad;
    s->grad[i].d_query.dtype = s->grad[i].d_key.dtype = s->grad[i].d_value.dtype = type;
    s->io[i].tape = memory(hga_plan_tape_bytes(s->plan), 1);
    assert_ok(hga_workspace_create(s->plan, &s->own[i]));
}

static void open_samples(samples *s, const problem *p, hga_options options, hga_id n, hga_dtype type)
{
    options.gradient = 1;
    s->n = n;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &s->plan));
    for (hga_id i = 0; i < n; i++) open_sample(s, p, i, type);
}

static void close_samples(samples *s)
{
    for (hga_id i = 0; i < s->n; i++) {
        for (int k = 0; k < 4; k++) free(s->owned[i][k]);
        slope_clear(&s->slope[i]), free(s->io[i].tape), hga_workspace_destroy(s->own[i]);
    }
    hga_plan_destroy(s->plan);
}

/* Other rows of each. */
static void ask_for_some_rows(samples *s)
{
    for (hga_id i = 0; i < s->n; i++) {
        int64_t rows = s->problem[i].n_out;
        s->interval[i] = (hga_interval){rows * i / (2 * MOST), 1 + rows * (i + 1) / (2 * MOST)};
        s->rows[i] = (hga_rows){.n_intervals = 1, .interval = &s->interval[i]}, s->io[i].rows = &s->rows[i];
    }
}

/* What gradients' arrays hold before: NaN to be overwritten, or numbers to be added to. */
static void fill_wanted(const slope *x, int accumulate)
{
    for (int k = 0; k < N_SLOW_INPUTS; k++)
        for (int64_t j = 0; j < x->n[k]; j++) x->of[k][j] = accumulate ? 0.375f : NAN;
}

static void execute(const samples *s)
{
    for (hga_id i = 0; i < s->n; i++) assert_ok(hga_plan_execute(s->plan, s->own[i], &s->io[i]));
}

/* Each sample's gradients, as a call of its own gives them. */
static void compare_with_alone(const samples *s)
{
    hga_workspace *workspace;
    assert_ok(hga_workspace_create(s->plan, &workspace));
    for (hga_id i = 0; i < s->n; i++) {
        slope *got = (slope *)(uintptr_t)&s->slope[i];
        float *before[N_SLOW_INPUTS];
        for (int k = 0; k < N_SLOW_INPUTS; k++) {
            before[k] = memory(got->n[k], sizeof(float));
            if (got->n[k]) memcpy(before[k], got->of[k], (size_t)got->n[k] * sizeof(float));
        }
        fill_wanted(got, s->grad[i].accumulate);
        assert_ok(hga_plan_gradient(s->plan, workspace, &s->io[i], &s->grad[i]));
        for (int k = 0; k < N_SLOW_INPUTS; k++)
            assert_same_bits(s->problem[i].name, before[k], got->of[k], got->n[k]), free(before[k]);
    }
    hga_workspace_destroy(workspace);
}

static void go_back(samples *s, int accumulate)
{
    for (hga_id i = 0; i < s->n; i++) s->grad[i].accumulate = accumulate, fill_wanted(&s->slope[i], accumulate);
    assert_ok(hga_plan_gradient_batch(s->plan, s->own, s->io, s->grad, s->n));
}

/* Twice: workspaces keep what the first found out. */
static void check_batch(const problem *p, hga_options options, hga_id n, hga_dtype type)
{
    samples s;
    open_samples(&s, p, options, n, type);
    if (options.rows) ask_for_some_rows(&s);
    execute(&s);
    for (int accumulate = 0; accumulate < 2; accumulate++) go_back(&s, accumulate), compare_with_alone(&s);
    close_samples(&s);
}

/* ---- bits ---- */

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 16},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                   {.n_heads = 3, .dim = 8, .pos_dim = 2}};

/* Every variant, with every option some time. */
static void a_sample_in_a_batch_has_the_gradients_that_it_has_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * n_variants(); i++) {
        problem p;
        int draw = i % 4;
        if (passed_over(i)) continue;
        variant_build(i / 4, TOKENS, 5 + (uint64_t)draw, &shapes[i % 3], &p);
        if (draw % 2) problem_fill_tables(&p, 3, i % 3 != 0, i % 5 != 0, i % 7 == 1);
        hga_options options = {.threads = 1 + (i + i / 4) % 3,
                               .dropout = draw == 2 ? 0.25f : 0,
                               .rows = draw == 1 ? HGA_SOME_ROWS : HGA_EVERY_ROW,
                               .generic = i % 11 == 3,
                               .precision = i % 13 == 6 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32};
        check_batch(&p, options, 1 + i % MOST, draw == 3 ? (i / 4 % 2 ? HGA_F16 : HGA_BF16) : HGA_F32);
        problem_clear(&p);
    }
}

static problem named(const char *words, hga_id n, hga_shape shape)
{
    problem p = {.shape = shape};
    snprintf(p.name, sizeof p.name, "%s", words);
    assert_ok(hga_build(words, n, &p.graph, &p.program));
    problem_fill(&p, 1);
    return p;
}

/* The plan goes that way, by however many threads and samples. */
static void check_way(const char *way, problem p, int generic)
{
    samples s;
    for (hga_id threads = 1; threads < 5; threads++) {
        hga_options options = {
            .threads = threads, .generic = generic, .rows = threads == 3 ? HGA_SOME_ROWS : HGA_EVERY_ROW};
        open_samples(&s, &p, options, 1, HGA_F32);
        const char *goes = way_back(s.plan);
        if (!strstr(goes, way)) fail_msg("%s goes %s, not %s", p.name, goes, way);
        close_samples(&s);
        check_batch(&p, options, 5, HGA_F32);
        options.dropout = 0.5f;
        check_batch(&p, options, 4, HGA_F32);
    }
    problem_clear(&p);
}

static void every_way_back_goes_in_a_batch(void **state)
{
    (void)state;
    const hga_shape one = {.n_heads = 2, .dim = 16}, grouped = {.n_heads = 8, .n_kv_heads = 2, .dim = 8};
    check_way("a family of siblings", named("hsa branching=4", 300, one), 0);
    check_way("row by row and source by source", scattered(TOKENS, one), 0);
    check_way("sums from end to end", problem_named("coarse", 200, 3, &one), 0);
    check_way("a head at a time", named("htransformer block=8", 500, one), 0);
    check_way("a head at a time", named("htransformer block=4", 300, grouped), 0);
    check_way("a head at a time", named("dense", 150, grouped), 0);
    check_way("row by row in double", named("window left=5 right=4", 60, one), 1);
}

/* Work enough to be shared out: a thread's whole samples, and one that all threads share. */
static void large_samples_have_the_gradients_that_they_have_alone(void **state)
{
    static const char *const words[] = {"htransformer block=16", "hsa branching=4", "window left=100 right=100"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = named(words[i], shortened(3000), shapes[i % 2]);
        check_batch(&p, (hga_options){.threads = 2}, 3, HGA_F32);
        check_batch(&p, (hga_options){.threads = 3}, 2, HGA_F32);
        problem_clear(&p);
    }
}

/* Called by every thread of a team, batches run on their callers' threads. */
static void batches_of_gradients_inside_a_parallel_region(void **state)
{
    (void)state;
    samples s[2];
    hga_status st[2];
    problem p = named("htransformer block=16", 600, shapes[0]);
    for (int c = 0; c < 2; c++) open_samples(&s[c], &p, (hga_options){.threads = 2}, 3, HGA_F32), execute(&s[c]);
#pragma omp parallel for num_threads(2)
    for (int c = 0; c < 2; c++) st[c] = hga_plan_gradient_batch(s[c].plan, s[c].own, s[c].io, s[c].grad, 3);
    for (int c = 0; c < 2; c++) assert_int_equal(st[c], HGA_OK), compare_with_alone(&s[c]), close_samples(&s[c]);
    problem_clear(&p);
}

/* What one sample is given may be another's as well: operands, and the tape and output of one execution. */
static void samples_may_share_what_they_are_given(void **state)
{
    (void)state;
    samples s;
    problem p = named("bpt k=2", 80, shapes[0]);
    open_samples(&s, &p, (hga_options){.threads = 2}, 4, HGA_F32);
    execute(&s);
    hga_io own[MOST];
    memcpy(own, s.io, sizeof own);
    for (int i = 1; i < 4; i++) s.io[i] = s.io[0];
    go_back(&s, 0), compare_with_alone(&s);
    memcpy(s.io, own, sizeof own);
    close_samples(&s), problem_clear(&p);
}

/* ---- errors ---- */

static void assert_detail(const char *want)
{
    if (!strstr(hga_error_detail(), want)) fail_msg("'%s' does not say '%s'", hga_error_detail(), want);
}

static void no_gradients_are_no_work(void **state)
{
    (void)state;
    samples s;
    problem p = named("window left=3", 40, shapes[0]);
    open_samples(&s, &p, (hga_options){.threads = 2}, 1, HGA_F32);
    assert_ok(hga_plan_gradient_batch(s.plan, NULL, NULL, NULL, 0));
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, -1));
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(NULL, s.own, s.io, s.grad, 1));
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, NULL, s.io, s.grad, 1));
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, NULL, s.grad, 1));
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, NULL, 1));
    close_samples(&s), problem_clear(&p);
}

static void assert_nothing_was_written(const samples *s)
{
    for (hga_id i = 0; i < s->n; i++)
        for (int k = 0; k < N_SLOW_INPUTS; k++)
            for (int64_t j = 0; j < s->slope[i].n[k]; j++) assert_true(isnan(s->slope[i].of[k][j]));
}

/* The sample is named, and none has gone back. */
static void errors_name_the_sample_and_nothing_is_written(void **state)
{
    (void)state;
    samples s;
    problem p = named("window left=3 right=2", 60, shapes[0]);
    open_samples(&s, &p, (hga_options){.threads = 2}, 3, HGA_F32);
    execute(&s);
    hga_io io = s.io[2];
    s.io[2].tape = NULL;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 3));
    assert_detail("sample 2: no tape");
    s.io[2] = io;
    hga_grad_io grad = s.grad[1];
    s.grad[1].d_out.data = NULL;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 3));
    assert_detail("sample 1: the given gradient of field out is missing");
    s.grad[1] = grad;
    hga_workspace *own[] = {s.own[0], s.own[1], s.own[0]};
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, own, s.io, s.grad, 3));
    assert_detail("sample 2: its workspace is an earlier sample's");
    own[2] = NULL;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, own, s.io, s.grad, 3));
    assert_detail("sample 2: no workspace");
    assert_nothing_was_written(&s);
    go_back(&s, 0), compare_with_alone(&s);
    assert_ok(hga_plan_execute_batch(s.plan, s.own, s.io, 3)); /* no workspace is listed any more */
    close_samples(&s), problem_clear(&p);
}

/* What one sample wants lies where another wants or reads something: the later is named. */
static void samples_that_meet_are_refused(void **state)
{
    (void)state;
    samples s;
    problem p = problem_named("bpt", 60, 3, &shapes[0]);
    open_samples(&s, &p, (hga_options){.threads = 2}, 3, HGA_F32);
    execute(&s);
    hga_grad_io grad = s.grad[2];
    s.grad[2].d_key.data = (float *)s.grad[0].d_key.data + 1;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 3));
    assert_detail("sample 2: the gradient of field");
    assert_detail("of sample 0 share memory");
    s.grad[2] = grad, s.grad[2].d_rel_bias = s.grad[1].d_rel_bias;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 3));
    assert_detail("sample 2: the gradient of rel_bias and the gradient of rel_bias of sample 1 share memory");
    s.grad[2] = grad, s.grad[2].d_value.data = s.io[1].key.data;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 3));
    assert_detail("sample 2: the gradient of field");
    s.grad[2] = grad, s.grad[0].d_query.data = s.io[2].out.data;
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 3));
    assert_detail("sample 2: the tensor of field");
    assert_nothing_was_written(&s);
    close_samples(&s), problem_clear(&p);
}

/* Rows of one sample between those of another, as a batch of texts has them token by token. */
static void samples_may_lie_between_each_other(void **state)
{
    (void)state;
    samples s;
    problem p = named("window left=3 right=2", 60, shapes[0]);
    const hga_id row = shapes[0].n_heads * shapes[0].dim;
    float *both = memory(2 * 60 * row, sizeof *both);
    open_samples(&s, &p, (hga_options){.threads = 2}, 2, HGA_F32);
    execute(&s);
    for (int i = 0; i < 2; i++)
        s.grad[i].d_key = (hga_tensor){.data = both + i * row, .rows = 60, .row_stride = 2 * row};
    go_back(&s, 0);
    for (int i = 0; i < 2; i++) {
        s.grad[i].d_key = s.slope[i].grad.d_key;
        assert_ok(hga_plan_gradient(s.plan, s.own[i], &s.io[i], &s.grad[i]));
        for (hga_id t = 0; t < 60; t++)
            assert_same_bits("a row", both + (2 * t + i) * row, s.slope[i].of[SLOW_KEY] + t * row, row);
    }
    free(both), close_samples(&s), problem_clear(&p);
}

static void renew_workspaces(samples *s)
{
    for (hga_id i = 0; i < s->n; i++)
        hga_workspace_destroy(s->own[i]), assert_ok(hga_workspace_create(s->plan, &s->own[i]));
}

/* Allocation after allocation fails, on whatever thread: the sample is named, and nothing is left behind. */
static void check_failures(const problem *p, hga_id threads)
{
    filling m = {.byte = 0xff};
    hga_allocator a = filling_allocator(&m);
    samples s;
    open_samples(&s, p, (hga_options){.threads = threads, .allocator = &a}, 4, HGA_F32);
    assert_ok(hga_plan_prepare(s.plan, NULL, &s.io[0], &s.grad[0], NULL)); /* the plan's own stays */
    execute(&s), renew_workspaces(&s);
    int64_t fails = 0, blocks = m.live;
    for (hga_status st = HGA_ENOMEM; st;) {
        m.asked = 0;
        m.fails_from = ++fails;
        st = hga_plan_gradient_batch(s.plan, s.own, s.io, s.grad, 4);
        m.fails_from = 0;
        if (st) assert_status(HGA_ENOMEM, st);
        if (st && fails > 1) assert_detail("sample ");
        renew_workspaces(&s);
        assert_int_equal(m.live, blocks);
    }
    assert_true(fails > 4);
    close_samples(&s);
    assert_int_equal(m.live, 0);
}

static void failing_allocations_of_a_batch_are_told(void **state)
{
    (void)state;
    static const char *const names[] = {"hsa", "neighbours", "coarse", "bpt", "neighbours_linear"};
    for (int i = 0; i < 5; i++) {
        problem p = problem_named(names[i], 60, 3, &shapes[i % 2]);
        if (!every_other_passed_over(i)) check_failures(&p, 1);
        if (!every_other_passed_over(i + 1)) check_failures(&p, 3);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sample_in_a_batch_has_the_gradients_that_it_has_alone),
                                       cmocka_unit_test(every_way_back_goes_in_a_batch),
                                       cmocka_unit_test(large_samples_have_the_gradients_that_they_have_alone),
                                       cmocka_unit_test(batches_of_gradients_inside_a_parallel_region),
                                       cmocka_unit_test(samples_may_share_what_they_are_given),
                                       cmocka_unit_test(no_gradients_are_no_work),
                                       cmocka_unit_test(errors_name_the_sample_and_nothing_is_written),
                                       cmocka_unit_test(samples_that_meet_are_refused),
                                       cmocka_unit_test(samples_may_lie_between_each_other),
                                       cmocka_unit_test(failing_allocations_of_a_batch_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
