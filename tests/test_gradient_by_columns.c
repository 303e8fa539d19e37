/* test_gradient_by_columns.c: rows that share columns with few of their neighbours and many of their panel go back by
   these (gradient/fast_by_columns.c). What the numbers are, that they are the same by any threads, of some rows and
   with all that a call may bring, test_ways.c holds. */
#include "choosing.h"
#include "slopes.h"

#include "kernels.h"
#include "plan.h"

enum { TOKENS = 800 };

static void open_rows(problem *p, int odd, const hga_shape *shape)
{
    *p = (problem){.name = "rows that choose", .shape = *shape, .graph = rows_that_choose(TOKENS, 3, odd)};
    assert_ok(hga_program_attention(&p->program, 0));
    problem_fill(p, 3);
}

static const kernel_table *watched;
static int64_t by_row, in_tiles;
static void watch_row(const kernel_grad_row *t) { by_row += t->n, watched->grad_row(t); }
static void watch_tile(const kernel_grad_tile *t) { in_tiles += t->n_groups, watched->grad_tile(t); }

static void count_gradient(problem *p)
{
    seat at = seat_of(p, (hga_options){.threads = 1});
    slope s = slope_create(p, 1);
    kernel_table watching = *at.plan->machine.kernels;
    watched = at.plan->machine.kernels;
    p->io.tape = at.tape;
    assert_ok(hga_plan_execute(at.plan, at.workspace, &p->io));
    at.plan->machine.kernels = &watching;
    watching.grad_row = watch_row, watching.grad_tile = watch_tile;
    by_row = in_tiles = 0;
    assert_ok(hga_plan_gradient(at.plan, at.workspace, &p->io, &s.grad));
    at.plan->machine.kernels = watched, p->io.tape = NULL;
    slope_clear(&s), seat_clear(&at);
}

/* Every pair is in a tile, and tiles are fuller than a row's windows would need by themselves; of a pair's two edges
   each is a row's of a tile. Positions leave it to others. */
static void pairs_go_back_in_tiles(void **state)
{
    (void)state;
    problem p;
    for (int odd = ALIKE; odd <= TWICE; odd++) {
        open_rows(&p, odd, &(hga_shape){.n_heads = 1, .dim = 64});
        count_gradient(&p);
        assert_int_equal(by_row, 0);
        assert_true(in_tiles > 0 && in_tiles < TOKENS);
        problem_clear(&p);
    }
    open_rows(&p, ALIKE, &(hga_shape){.n_heads = 1, .dim = 64, .pos_dim = 3});
    problem_fill_tables(&p, 5, 0, 0, 0);
    count_gradient(&p);
    assert_true(by_row > 0);
    problem_clear(&p);
}

/* Rows that choose blocks, as the graph keeps them. */
static void rows_with_blocks_go_back_in_tiles(void **state)
{
    (void)state;
    problem p = {.name = "rows with blocks", .shape = {.n_heads = 1, .dim = 64}, .graph = rows_with_blocks(700, 5)};
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 3);
    count_gradient(&p);
    assert_int_equal(by_row, 0);
    assert_true(in_tiles > 0);
    problem_clear(&p);
}

/* Of rounded operands the outputs differ in their last bits, by the order in which they are added; of those the scale's
   gradient is a sum over all pairs whose terms cancel. */
static void assert_rounded_slopes(slope *plain, const slope *fast)
{
    const double want = (double)plain->of[SLOW_SCALE][0], got = (double)fast->of[SLOW_SCALE][0];
    const int64_t n = plain->n[SLOW_SCALE];
    if (!(fabs(got - want) <= 0.1 * fmax(2, 2 * fabs(want)))) fail_msg("the scale: %.9g, not %.9g", got, want);
    plain->n[SLOW_SCALE] = 0;
    assert_same_slopes(plain, fast, 2e-2);
    plain->n[SLOW_SCALE] = n;
}

/* Every set of what such calls may bring, by threads, against the definition, which drops and rounds the same. */
static void whatever_a_call_brings(void **state)
{
    enum { DROPS = 1, ROUNDS = 2, CAPS = 4, SLOPES = 8, SINKS = 16, ALL = 32 };
    static const float sink[4] = {0.5f, -INFINITY, 1, 0}, slope_of[4] = {0.02f, 0.1f, 0, 0.5f};
    static const hga_shape sizes[] = {{.n_heads = 4, .n_kv_heads = 2, .dim = 24, .dim_v = 20},
                                      {.n_heads = 2, .dim = 7}};
    (void)state;
    for (unsigned call_has = 0; call_has < ALL; call_has++) {
        if (passed_over((int)call_has)) continue;
        problem p = {.shape = sizes[call_has % 2]};
        snprintf(p.name, sizeof p.name, "a call that brings %u", call_has);
        p.graph = call_has / 2 % 2 ? rows_with_blocks(700, call_has) : rows_that_choose(TOKENS, call_has, HOLES);
        const operands more = {.softcap = call_has & CAPS ? 2.0f : 0,
                               .sink = call_has & SINKS ? sink : NULL,
                               .slopes = call_has & SLOPES ? slope_of : NULL};
        hga_options options = {.threads = 1 + (hga_id)call_has % 3, .dropout = call_has & DROPS ? 0.3f : 0};
        if (call_has & ROUNDS) options.precision = HGA_PRECISION_BF16;
        assert_ok(hga_program_attention(&p.program, 0));
        problem_fill(&p, call_has);
        bring_to(&p.io, &more), p.io.seed = call_has;
        slope fast = slope_create(&p, 1), plain = slope_create(&p, 1);
        slope_run(&fast, options);
        options.generic = 1, options.threads = 1;
        slope_run(&plain, options);
        if (call_has & ROUNDS)
            assert_rounded_slopes(&plain, &fast);
        else
            assert_same_slopes(&plain, &fast, 2e-4);
        slope_clear(&fast), slope_clear(&plain), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_go_back_in_tiles),
                                       cmocka_unit_test(rows_with_blocks_go_back_in_tiles),
                                       cmocka_unit_test(whatever_a_call_brings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
