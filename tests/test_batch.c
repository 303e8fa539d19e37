/* Many executions at once: each has the bits that it has alone, and an error names its sample. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "testing.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 7, TOKENS = 170 };

static const hga_shape shape = {.n_heads = 3, .dim = 12, .dim_v = 9, .pos_dim = 4};

/* Samples of one problem: operands and outputs of their own. */
typedef struct samples {
    hga_plan *plan;
    hga_workspace *own[MOST];
    hga_io io[MOST];
    hga_id n;
} samples;

static float *random_rows(hga_tensor *t, int64_t rows, int64_t columns, uint64_t seed)
{
    t->data = random_floats(seed, 1, rows * columns);
    return t->data;
}

static void open_samples(samples *s, const problem *p, const hga_options *o, hga_id n)
{
    int64_t heads = p->shape.n_heads, key = heads * p->shape.dim, value = heads * p->shape.dim_v;
    s->n = n;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, o, &s->plan));
    for (hga_id i = 0; i < n; i++) {
        s->io[i] = p->io;
        random_rows(&s->io[i].query, p->n_query, key, 100 + (uint64_t)i);
        random_rows(&s->io[i].key, p->n_key, key, 200 + (uint64_t)i);
        random_rows(&s->io[i].value, p->n_value, value, 300 + (uint64_t)i);
        s->io[i].out.data = memory(out_count(p), sizeof(float));
        if (p->io.lse.data) s->io[i].lse.data = memory(lse_count(p), sizeof(float));
        assert_ok(hga_workspace_create(s->plan, &s->own[i]));
    }
}

static void close_samples(samples *s)
{
    for (hga_id i = 0; i < s->n; i++) {
        free(s->io[i].query.data), free(s->io[i].key.data), free(s->io[i].value.data), free(s->io[i].out.data);
        free(s->io[i].lse.data);
        hga_workspace_destroy(s->own[i]);
    }
    hga_plan_destroy(s->plan);
}

/* The batch's outputs are those of one call each. */
static void compare_with_alone(const problem *p, const samples *s)
{
    hga_workspace *own;
    float *out = memory(out_count(p), sizeof *out), *lse = memory(lse_count(p), sizeof *lse);
    assert_ok(hga_workspace_create(s->plan, &own));
    for (hga_id i = 0; i < s->n; i++) {
        hga_io io = s->io[i];
        io.out.data = out;
        if (io.lse.data) io.lse.data = lse;
        assert_ok(hga_plan_execute(s->plan, own, &io));
        assert_same_bits(p->name, s->io[i].out.data, out, out_count(p));
        if (io.lse.data) assert_same_bits(p->name, s->io[i].lse.data, lse, lse_count(p));
    }
    hga_workspace_destroy(own);
    free(out), free(lse);
}

static void check_batch(const problem *p, hga_id threads, hga_id n)
{
    samples s;
    open_samples(&s, p, &(hga_options){.threads = threads}, n);
    for (int again = 0; again < 2; again++) {
        assert_ok(hga_plan_execute_batch(s.plan, s.own, s.io, n));
        compare_with_alone(p, &s);
    }
    close_samples(&s);
}

static void a_sample_in_a_batch_has_the_bits_that_it_has_alone(void **state)
{
    static const hga_id threads[] = {1, 2, 3, 5};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, TOKENS + i, 5, &shape, &p);
        check_batch(&p, threads[i % 4], 1 + i % MOST);
        problem_clear(&p);
    }
}

/* Enough work to be shared out: samples as whole and what is left over row by row. */
static void large_samples_have_the_bits_that_they_have_alone(void **state)
{
    static const char *const names[] = {"neighbours_wide", "bpt_wide", "hsa_wide", "coarse"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        problem p;
        variant_build(variant_named(names[i]), shortened(3001), 5, &shape, &p);
        check_batch(&p, 2, 3), check_batch(&p, 3, 2);
        problem_clear(&p);
    }
}

static void no_samples_are_no_work(void **state)
{
    (void)state;
    problem p;
    samples s;
    variant_build(variant_named("window"), TOKENS, 5, &shape, &p);
    open_samples(&s, &p, NULL, 0);
    assert_ok(hga_plan_execute_batch(s.plan, NULL, NULL, 0));
    assert_status(HGA_EINVAL, hga_plan_execute_batch(s.plan, s.own, s.io, -1));
    assert_status(HGA_EINVAL, hga_plan_execute_batch(NULL, s.own, s.io, 0));
    assert_status(HGA_EINVAL, hga_plan_execute_batch(s.plan, NULL, s.io, 1));
    close_samples(&s), problem_clear(&p);
}

/* Called by every thread of a team, batches run on their callers' threads. */
static void batches_inside_a_parallel_region(void **state)
{
    (void)state;
    problem p;
    samples s[2];
    hga_status st[2];
    variant_build(variant_named("neighbours_wide"), 1001, 5, &shape, &p);
    for (int c = 0; c < 2; c++) open_samples(&s[c], &p, &(hga_options){.threads = 2}, 3);
#pragma omp parallel for num_threads(2)
    for (int c = 0; c < 2; c++) st[c] = hga_plan_execute_batch(s[c].plan, s[c].own, s[c].io, 3);
    for (int c = 0; c < 2; c++) {
        assert_int_equal(st[c], HGA_OK);
        compare_with_alone(&p, &s[c]), close_samples(&s[c]);
    }
    problem_clear(&p);
}

/* ---- user functions ---- */

typedef struct plain_sum {
    double sum[16];
    hga_id out, value, n;
} plain_sum;

static void sum_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head;
    *(plain_sum *)state = *(const plain_sum *)ctx;
}

static void sum_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    plain_sum *s = state;
    (void)head, (void)ctx;
    for (hga_id c = 0; c < s->n; c++) s->sum[c] += (double)e->source.field[s->value][c];
}

static void sum_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    const plain_sum *s = state;
    (void)head, (void)ctx;
    for (hga_id c = 0; c < s->n; c++) v->field[s->out][c] = (float)s->sum[c];
    v->lse[s->out][0] = 0;
}

static void sum_in_place_of_scores(problem *p, void (*begin)(void *, const hga_end *, hga_id, void *), plain_sum *ctx)
{
    hga_stage *s = (hga_stage *)(uintptr_t)find_stage(&p->program, HGA_SCORE);
    *ctx = (plain_sum){.out = s->out, .value = s->value, .n = shape.dim_v};
    s->reads = 1u << s->query | 1u << s->key | 1u << s->value, s->writes = 1u << s->out;
    s->message = HGA_MESSAGE_USER, s->reduce = HGA_REDUCE_USER, s->update = HGA_UPDATE_USER;
    s->udf = (hga_udf){.state_bytes = sizeof *ctx, .begin = begin, .edge = sum_edge, .finish = sum_finish, .ctx = ctx};
}

static void user_functions_run_in_a_batch(void **state)
{
    (void)state;
    problem p;
    plain_sum ctx;
    variant_build(variant_named("window"), TOKENS, 6, &shape, &p);
    sum_in_place_of_scores(&p, sum_begin, &ctx);
    check_batch(&p, 3, 5);
    problem_clear(&p);
}

/* ---- errors ---- */

static void assert_detail(const char *want)
{
    if (!strstr(hga_error_detail(), want)) fail_msg("'%s' does not say '%s'", hga_error_detail(), want);
}

/* The sample is named, and none has run: outputs are as they were. */
static void errors_name_the_sample(void **state)
{
    (void)state;
    problem p;
    samples s;
    variant_build(variant_named("window"), TOKENS, 5, &shape, &p);
    open_samples(&s, &p, &(hga_options){.threads = 2}, 3);
    float *untouched = memory(out_count(&p), sizeof *untouched);
    hga_io io = s.io[2];
    s.io[2].query.data = NULL;
    assert_status(HGA_EINVAL, hga_plan_execute_batch(s.plan, s.own, s.io, 3));
    assert_detail("sample 2: the tensor of field");
    s.io[2] = io;
    hga_workspace *own[] = {s.own[0], s.own[1], s.own[0]};
    assert_status(HGA_EINVAL, hga_plan_execute_batch(s.plan, own, s.io, 3));
    assert_detail("sample 2: its workspace is an earlier sample's");
    own[2] = NULL;
    assert_status(HGA_EINVAL, hga_plan_execute_batch(s.plan, own, s.io, 3));
    assert_detail("sample 2: no workspace");
    for (int i = 0; i < 3; i++) assert_same_bits("nothing ran", s.io[i].out.data, untouched, out_count(&p));
    assert_ok(hga_plan_execute_batch(s.plan, s.own, s.io, 3));
    compare_with_alone(&p, &s);
    free(untouched), close_samples(&s), problem_clear(&p);
}

/* ---- places ---- */

static _Atomic int astray;

/* Every row is begun by a thread that may run on one CPU alone. */
static void begin_bound(void *state, const hga_end *v, hga_id head, void *ctx)
{
    cpu_set_t here;
    if (sched_getaffinity(0, sizeof here, &here) == 0 && CPU_COUNT(&here) != 1) astray = 1;
    sum_begin(state, v, head, ctx);
}

static void threads_of_a_batch_are_bound(void **state)
{
    (void)state;
    problem p;
    samples s;
    cpu_set_t before, after;
    if (sched_getaffinity(0, sizeof before, &before) || CPU_COUNT(&before) < 2) skip();
    variant_build(variant_named("window"), TOKENS, 6, &shape, &p);
    plain_sum ctx;
    sum_in_place_of_scores(&p, begin_bound, &ctx);
    astray = 0;
    open_samples(&s, &p, &(hga_options){.threads = 2, .bind = 1}, 4);
    assert_ok(hga_plan_execute_batch(s.plan, s.own, s.io, s.n));
    assert_int_equal(astray, 0);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    close_samples(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sample_in_a_batch_has_the_bits_that_it_has_alone),
                                       cmocka_unit_test(large_samples_have_the_bits_that_they_have_alone),
                                       cmocka_unit_test(no_samples_are_no_work),
                                       cmocka_unit_test(batches_inside_a_parallel_region),
                                       cmocka_unit_test(user_functions_run_in_a_batch),
                                       cmocka_unit_test(threads_of_a_batch_are_bound),
                                       cmocka_unit_test(errors_name_the_sample)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
