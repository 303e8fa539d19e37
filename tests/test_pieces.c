/* Pieces of rows that have their columns alone and meet on them (execute/attend/run_splits.c): as numbers what the
   oracle says, as bits the same whoever else is computed with them. */
#include "by_hand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { TOKENS = 400, ROWS = 48 };

/* A row for each of the first tokens, of 32 to 160 columns from anywhere on: begun at even places and odd ones, of two
   weights, of types that grow along the columns or do not. Of each `step` rows the first alone is there. */
static hga_graph *rows_that_meet(uint64_t seed, hga_id step)
{
    hga_block block[ROWS];
    hga_id n = 0;
    for (hga_id i = 0; i < ROWS; i++) {
        hga_block b = {.dst = i, .n_dst = 1, .count = 1};
        b.n_src = 32 + random_below(&seed, 129), b.src = random_below(&seed, TOKENS - b.n_src);
        if (i % 4) b.src = b.src / 32 * 32 + (i % 8 == 3);
        b.weight = i % 5 ? 1 : 0.3f, b.type = random_below(&seed, 3), b.type_src = i % 3 == 0;
        if (i % step == 0) block[n++] = b;
    }
    return blocks_over(TOKENS, block, n);
}

static void open_rows(problem *p, uint64_t seed, hga_id step, const hga_shape *shape)
{
    *p = (problem){.name = "rows that meet", .shape = *shape};
    p->graph = rows_that_meet(seed, step);
    attention f = attention_on_nodes(&p->program);
    assert_ok(hga_program_attend(&p->program, 0, f.query, f.key, f.value, f.out, 0));
    problem_fill(p, seed);
}

static const hga_shape shapes[] = {{.n_heads = 8, .dim = 64},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 24, .dim_v = 20},
                                   {.n_heads = 2, .dim = 9, .dim_v = 5, .pos_dim = 4},
                                   {.n_heads = 3, .n_kv_heads = 1, .dim = 7}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- who goes together ---- */

static int go_together(const hga_graph *g, const hga_program *p)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(g, p, &(hga_shape){.n_heads = 2, .dim = 8}, &(hga_options){.threads = 1}, &plan));
    int together = plan->stage[0].splits_share;
    hga_plan_destroy(plan);
    return together;
}

static int words_go_together(const char *words, hga_id n)
{
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build(words, n, &g, &p));
    int together = go_together(g, &p);
    hga_graph_destroy(g);
    return together;
}

static int blocks_go_together(hga_id n, const hga_block *block, hga_id n_blocks)
{
    hga_graph *g = blocks_over(n, block, n_blocks);
    hga_program p;
    assert_ok(hga_program_attention(&p, 0));
    int together = go_together(g, &p);
    hga_graph_destroy(g);
    return together;
}

/* Spans of more than 64 tokens are on two levels of 256 tokens and three of 512; causal graphs, which grow, have them
   together however short they are. */
static void rows_go_together_where_several_have_a_column(void **state)
{
    (void)state;
    assert_true(words_go_together("bpt k=2", 512) && !words_go_together("bpt k=2", 256));
    assert_true(words_go_together("bpt k=2 causal=1", 100));
    assert_false(words_go_together("dense", 300));
    hga_block block[3];
    for (hga_id i = 0; i < 3; i++) block[i] = (hga_block){.dst = 3 * i, .n_dst = 1, .src = 20, .n_src = 70};
    assert_true(blocks_go_together(100, block, 3));
    assert_false(blocks_go_together(100, block, 2));
}

static const kernel_table *watched;
static int64_t by_row;
static void watch_row(const kernel_chunk *c, kernel_state *s) { by_row += c->n, watched->attend(c, s); }
static void watch_heads(const kernel_heads *c) { by_row += c->n, watched->attend_heads(c); }

/* Pairs that go through the row kernels in an execution. */
static int64_t count_by_row(problem *p, const hga_options *o)
{
    hga_plan *plan;
    hga_workspace *own;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, o, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    kernel_table watching = *plan->machine.kernels;
    watched = plan->machine.kernels, plan->machine.kernels = &watching;
    watching.attend = watch_row, watching.attend_heads = watch_heads, by_row = 0;
    assert_ok(hga_plan_execute(plan, own, &p->io));
    plan->machine.kernels = watched;
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    return by_row;
}

/* But for calls with positions, which rows have for themselves. */
static void rows_that_meet_are_in_tiles(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        problem p;
        open_rows(&p, 3, 1, &shapes[i]);
        assert_int_equal(count_by_row(&p, &(hga_options){.threads = 1}), 0);
        problem_fill_tables(&p, 5, i % 2, 1, 0);
        assert_int_equal(count_by_row(&p, &(hga_options){.threads = 1}) > 0, p.io.node_pos.data != NULL);
        problem_fill_tables(&p, 5, 0, 0, 1);
        assert_int_equal(count_by_row(&p, &(hga_options){.threads = 1}) > 0, p.io.node_pos.data != NULL);
        problem_clear(&p);
    }
}

static int64_t n_tiles;
static void watch_tile(const kernel_tile *t) { n_tiles++, watched->attend_tile(t); }

/* Tiles of an execution of the first `asked` rows; 0: of all. */
static int64_t count_tiles(problem *p, hga_id asked)
{
    hga_plan *plan;
    hga_workspace *own;
    assert_ok(
        hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.threads = 1, .rows = HGA_SOME_ROWS}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    kernel_table watching = *plan->machine.kernels;
    watched = plan->machine.kernels, plan->machine.kernels = &watching;
    watching.attend_tile = watch_tile, n_tiles = 0, p->io.rows = asked ? SOME_ROWS(0, asked) : NULL;
    assert_ok(hga_plan_execute(plan, own, &p->io));
    plan->machine.kernels = watched, p->io.rows = NULL;
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    return n_tiles;
}

static void rows_that_are_asked_for_go_together(void **state)
{
    (void)state;
    problem p;
    open_rows(&p, 4, 1, &shapes[0]);
    const int64_t all = count_tiles(&p, 0);
    assert_true(all > 0);
    assert_int_equal(count_tiles(&p, ROWS), all);
    problem_clear(&p);
}

/* ---- numbers ---- */

static void rows_that_meet_are_what_the_oracle_says(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * SHAPES; i++) {
        if (passed_over(i)) continue;
        problem p;
        open_rows(&p, 10 + (uint64_t)i, 1, &shapes[i % SHAPES]);
        if (i / SHAPES) problem_fill_tables(&p, 5, i / SHAPES & 1, i / SHAPES >> 1, 0);
        assert_equals_slow(&p, 3e-5);
        problem_clear(&p);
    }
}

/* What drops weights, rounds, or caps scores: as the plain executor does, which draws the same. */
static void rows_that_meet_are_what_the_plain_executor_says(void **state)
{
    static const hga_options options[] = {{.dropout = 0.3f}, {.precision = HGA_PRECISION_BF16}, {.threads = 1}};
    static const double near[] = {3e-5, 2e-2, 3e-5};
    (void)state;
    for (int i = 0; i < 3 * SHAPES; i++) {
        problem p;
        hga_options fast = options[i % 3], plain = options[i % 3];
        open_rows(&p, 30 + (uint64_t)i, 1, &shapes[i % SHAPES]);
        if (i % 3 == 2) p.program.softcap = 2;
        p.io.seed = 7, fast.threads = 1, plain.generic = 1;
        float *got = problem_out(&p, &fast, NULL), *want = problem_out(&p, &plain, NULL);
        assert_near_floats(p.name, got, want, out_count(&p), near[i % 3]);
        free(got), free(want), problem_clear(&p);
    }
}

/* Sinks take their part once of a row, not once of each of its pieces; slopes look at where row and column are. */
static void rows_that_meet_have_sinks_and_slopes(void **state)
{
    static const float sink[8] = {0.5f, -INFINITY, 1, 0, -1, 2, 0.25f, 3},
                       slopes[8] = {0.02f, 0.1f, 0, 0.5f, 1, 0, 2, 3};
    static const operands both = {.sink = sink, .slopes = slopes};
    (void)state;
    for (int i = 0; i < 2 * SHAPES; i++) {
        problem p;
        hga_options fast = {.threads = 1}, plain = fast;
        open_rows(&p, 90 + (uint64_t)i, 1, &shapes[i % SHAPES]);
        if (i / SHAPES) problem_fill_tables(&p, 5, 1, 1, 0);
        p.program.has_lse = 1, bring_to(&p.io, &both), plain.generic = 1;
        float *got = problem_out(&p, &fast, NULL), *want = problem_out(&p, &plain, NULL);
        assert_near_floats(p.name, got, want, out_count(&p), 3e-5);
        bring_to(&p.io, NULL);
        float *without = problem_out(&p, &plain, NULL);
        assert_true(max_difference_floats(want, without, out_count(&p)) > 1e-2);
        free(got), free(want), free(without), problem_clear(&p);
    }
}

/* Infinite values and NaN keys reach the rows that see them and no others of their tile. */
static void what_is_not_finite_stays_with_those_who_see_it(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        problem p;
        hga_options fast = {.threads = 1, .precision = i ? HGA_PRECISION_BF16 : HGA_PRECISION_F32}, plain = fast;
        open_rows(&p, 51, 1, &shapes[1]);
        plain.generic = 1;
        ((float *)p.io.value.data)[100 * 40 + 3] = INFINITY, ((float *)p.io.key.data)[200 * 48] = NAN;
        float *got = problem_out(&p, &fast, NULL), *want = problem_out(&p, &plain, NULL);
        int64_t odd = 0;
        for (int64_t k = 0; k < out_count(&p); k++) {
            assert_int_equal(isfinite(got[k]) != 0, isfinite(want[k]) != 0);
            odd += !isfinite(want[k]);
        }
        assert_true(odd > 0 && odd < out_count(&p) / 2);
        free(got), free(want), problem_clear(&p);
    }
}

/* ---- bits ---- */

static void check_bits_of_threads(problem *p, hga_options o)
{
    o.threads = 1;
    float *one = problem_out(p, &o, NULL);
    for (hga_id threads = 2; threads <= 5; threads++) {
        o.threads = threads;
        float *some = problem_out(p, &o, NULL);
        assert_same_bits(p->name, some, one, out_count(p));
        free(some);
    }
    free(one);
}

static void bits_do_not_hang_on_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; i++) {
        problem p;
        open_rows(&p, 60 + (uint64_t)i, 1, &shapes[i % SHAPES]);
        check_bits_of_threads(&p, (hga_options){.precision = i % 2 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32});
        problem_fill_tables(&p, 5, 1, 1, 0);
        check_bits_of_threads(&p, (hga_options){.dropout = i % 2 ? 0.2f : 0});
        problem_clear(&p);
    }
}

/* Row by row, asked for alone, and among rows of which two thirds are not there. */
static void bits_do_not_hang_on_who_else_is_there(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; i++) {
        problem all, some;
        hga_plan *plan;
        hga_workspace *own;
        const hga_shape *shape = &shapes[i % SHAPES];
        hga_options o = {.threads = 1, .precision = i / SHAPES ? HGA_PRECISION_BF16 : HGA_PRECISION_F32};
        open_rows(&all, 80, 1, shape), open_rows(&some, 80, 3, shape);
        if (i % 2) problem_fill_tables(&all, 5, 1, 1, 0), problem_fill_tables(&some, 5, 1, 1, 0);
        assert_true(go_together(some.graph, &some.program));
        float *want = problem_out(&all, &o, NULL), *got = problem_out(&some, &o, NULL);
        const int64_t row = out_count(&all) / TOKENS;
        for (hga_id v = 0; v < ROWS; v += 3) assert_same_bits("a third", got + v * row, want + v * row, row);
        o.rows = HGA_SOME_ROWS;
        assert_ok(hga_plan_create(all.graph, &all.program, shape, &o, &plan));
        assert_ok(hga_workspace_create(plan, &own));
        for (hga_id v = 0; v < ROWS; v += 5) {
            all.io.rows = SOME_ROWS(v, 1);
            assert_ok(hga_plan_execute(plan, own, &all.io));
            assert_same_bits("alone", (const float *)all.io.out.data + v * row, want + v * row, row);
        }
        hga_workspace_destroy(own), hga_plan_destroy(plan);
        free(want), free(got), problem_clear(&all), problem_clear(&some);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_together_where_several_have_a_column),
        cmocka_unit_test(rows_that_meet_are_in_tiles),
        cmocka_unit_test(rows_that_are_asked_for_go_together),
        cmocka_unit_test(rows_that_meet_are_what_the_oracle_says),
        cmocka_unit_test(rows_that_meet_are_what_the_plain_executor_says),
        cmocka_unit_test(rows_that_meet_have_sinks_and_slopes),
        cmocka_unit_test(what_is_not_finite_stays_with_those_who_see_it),
        cmocka_unit_test(bits_do_not_hang_on_threads),
        cmocka_unit_test(bits_do_not_hang_on_who_else_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
