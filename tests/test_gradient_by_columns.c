/* test_gradient_by_columns.c: rows that share columns with few of their neighbours and many of their panel go back by
   these (gradient/fast_by_columns.c). What the numbers are, that they are the same by any threads, of some rows and
   with all that a call may bring, test_ways.c holds. */
#include "choosing.h"
#include "slopes.h"

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
    kernel_table watching = *at.plan->kernels;
    watched = at.plan->kernels;
    p->io.tape = at.tape;
    assert_ok(hga_plan_execute(at.plan, at.workspace, &p->io));
    at.plan->kernels = &watching;
    watching.grad_row = watch_row, watching.grad_tile = watch_tile;
    by_row = in_tiles = 0;
    assert_ok(hga_plan_gradient(at.plan, at.workspace, &p->io, &s.grad));
    at.plan->kernels = watched, p->io.tape = NULL;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_go_back_in_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
