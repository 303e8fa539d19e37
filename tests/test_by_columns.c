/* test_by_columns.c: rows that share columns with few of their neighbours and many of their panel
   (execute/attend/run_by_columns.c): as numbers what the oracle and the plain executor say, as bits the same whoever
   else is computed with them. */
#include "choosing.h"
#include "exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { TOKENS = 800 };

static void open_rows(problem *p, uint64_t seed, int odd, const hga_shape *shape)
{
    *p = (problem){.name = "rows that choose", .shape = *shape};
    p->graph = rows_that_choose(TOKENS, seed, odd);
    attention f = attention_on_nodes(&p->program);
    assert_ok(hga_program_attend(&p->program, 0, f.query, f.key, f.value, f.out, 0));
    problem_fill(p, seed);
}

static const hga_shape sizes[] = {{.n_heads = 1, .dim = 64},
                                  {.n_heads = 4, .n_kv_heads = 2, .dim = 24, .dim_v = 20},
                                  {.n_heads = 3, .n_kv_heads = 1, .dim = 7, .dim_v = 5}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- who goes by columns ---- */

static int runs_by_columns(const hga_graph *g, const hga_program *p, hga_options o)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(g, p, &(hga_shape){.n_heads = 2, .dim = 8}, &o, &plan));
    int by_columns = plan->stage[0].by_columns;
    hga_plan_destroy(plan);
    return by_columns;
}

static int words_go_by_columns(const char *words, hga_id n)
{
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build(words, n, &g, &p));
    int by_columns = runs_by_columns(g, &p, (hga_options){.threads = 1});
    hga_graph_destroy(g);
    return by_columns;
}

/* Where sixteen rows side by side share their columns, they go as they stand. */
static void rows_that_choose_go_by_columns(void **state)
{
    static const char *const others[] = {"dense causal=1",           "window left=64",
                                         "window left=300 causal=1", "bpt k=64",
                                         "bpt k=4 causal=1",         "htransformer block=64",
                                         "htransformer causal=1",    "dilated causal=1",
                                         "hsa branching=2,4,8,16",   "fenwick",
                                         "window stride=4",          "neighbourhood kernel=65"};
    (void)state;
    problem p;
    open_rows(&p, 1, ALIKE, &sizes[0]);
    assert_true(runs_by_columns(p.graph, &p.program, (hga_options){.threads = 1}));
    assert_false(runs_by_columns(p.graph, &p.program, (hga_options){.threads = 1, .strict_rows = 1}));
    problem_clear(&p);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (words_go_by_columns(others[i], 2048)) fail_msg("%s", others[i]);
}

static const kernel_table *watched;
static int64_t by_row, in_tiles;
static void watch_row(const kernel_chunk *c, kernel_state *s) { by_row += c->n, watched->attend(c, s); }
static void watch_heads(const kernel_heads *c) { by_row += c->n, watched->attend_heads(c); }
static void watch_tile(const kernel_tile *t) { in_tiles += t->n_groups, watched->attend_tile(t); }

static void count_execution(problem *p)
{
    hga_plan *plan;
    hga_workspace *own;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    kernel_table watching = *plan->machine.kernels;
    watched = plan->machine.kernels, plan->machine.kernels = &watching;
    watching.attend = watch_row, watching.attend_heads = watch_heads, watching.attend_tile = watch_tile;
    by_row = in_tiles = 0;
    assert_ok(hga_plan_execute(plan, own, &p->io));
    plan->machine.kernels = watched;
    hga_workspace_destroy(own), hga_plan_destroy(plan);
}

/* Every pair is in a tile, and tiles are fuller than a row's windows would need by themselves; a pair that has two
   edges leaves its panel to others, and so do positions. */
static void pairs_are_in_tiles(void **state)
{
    (void)state;
    problem p;
    open_rows(&p, 3, ALIKE, &sizes[0]);
    count_execution(&p);
    assert_int_equal(by_row, 0);
    assert_true(in_tiles > 0 && in_tiles < TOKENS);
    problem_clear(&p);
    open_rows(&p, 3, TWICE, &sizes[0]);
    count_execution(&p);
    assert_true(by_row > 0);
    problem_clear(&p);
    hga_shape placed = sizes[0];
    placed.pos_dim = 3;
    open_rows(&p, 3, ALIKE, &placed);
    problem_fill_tables(&p, 5, 0, 0, 0);
    count_execution(&p);
    assert_true(by_row > 0);
    problem_clear(&p);
}

/* ---- numbers ---- */

static void rows_are_what_the_oracle_says(void **state)
{
    static const int odd[] = {ALIKE, TWICE, HOLES, SOME | HOLES};
    (void)state;
    for (int i = 0; i < 4 * SIZES; i++) {
        if (passed_over(i)) continue;
        problem p;
        open_rows(&p, 10 + (uint64_t)i, odd[i % 4], &sizes[i % SIZES]);
        assert_equals_slow(&p, 3e-5);
        problem_clear(&p);
    }
}

/* What drops weights, rounds, or caps scores, sinks and slopes: as the plain executor does, which draws the same. */
static void rows_are_what_the_plain_executor_says(void **state)
{
    static const hga_options options[] = {{.dropout = 0.3f}, {.precision = HGA_PRECISION_BF16}, {.threads = 2}};
    static const double near[] = {3e-5, 2e-2, 3e-5};
    static const float sink[4] = {0.5f, -INFINITY, 1, 0}, slopes[4] = {0.02f, 0.1f, 0, 0.5f};
    static const operands both = {.sink = sink, .slopes = slopes};
    (void)state;
    for (int i = 0; i < 4 * SIZES; i++) {
        problem p;
        hga_options fast = options[i % 3], plain = options[i % 3];
        open_rows(&p, 30 + (uint64_t)i, i % 2 ? HOLES : ALIKE, &sizes[i % SIZES]);
        if (i % 3 == 2) p.program.softcap = 2;
        if (i % 4 == 1) p.program.has_lse = 1, bring_to(&p.io, &both);
        p.io.seed = 7, plain.generic = 1;
        float *got = problem_out(&p, &fast, NULL), *want = problem_out(&p, &plain, NULL);
        assert_near_floats(p.name, got, want, out_count(&p), near[i % 3]);
        free(got), free(want), problem_clear(&p);
    }
}

/* A second stage goes on from the states of the first. */
static void states_go_on(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        problem p = {.name = "two stages", .shape = sizes[i]};
        p.graph = rows_that_choose(TOKENS, 70 + (uint64_t)i, ALIKE);
        attention f = attention_on_nodes(&p.program);
        assert_ok(hga_program_attend(&p.program, 0, f.query, f.key, f.value, f.out, 0));
        assert_ok(hga_program_attend_more(&p.program, 0, f.query, f.key, f.value, f.out, 0));
        problem_fill(&p, 4);
        assert_equals_slow(&p, 3e-5);
        problem_clear(&p);
    }
}

static void what_is_not_finite_stays_with_those_who_see_it(void **state)
{
    (void)state;
    problem p;
    hga_options fast = {.threads = 1}, plain = {.threads = 1, .generic = 1};
    open_rows(&p, 51, ALIKE, &sizes[1]);
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

/* ---- bits ---- */

static void bits_depend_on_no_thread(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SIZES; i++) {
        problem p;
        open_rows(&p, 60 + (uint64_t)i, i % 2 ? TWICE : ALIKE, &sizes[i % SIZES]);
        hga_options o = {.threads = 1, .precision = i % 2 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32};
        o.dropout = i % 3 ? 0.2f : 0;
        float *one = problem_out(&p, &o, NULL);
        for (o.threads = 2; o.threads <= 5; o.threads++) {
            float *some = problem_out(&p, &o, NULL);
            assert_same_bits(p.name, some, one, out_count(&p));
            free(some);
        }
        free(one), problem_clear(&p);
    }
}

/* Asked for alone, in a few, and in a panel of other rows. */
static void bits_depend_on_nobody_else(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        problem p;
        hga_plan *plan;
        hga_workspace *own;
        hga_options o = {.threads = 1, .rows = HGA_SOME_ROWS};
        open_rows(&p, 80, i == 1 ? HOLES : ALIKE, &sizes[i]);
        float *want = problem_out(&p, &(hga_options){.threads = 1}, NULL);
        const int64_t row = out_count(&p) / TOKENS;
        assert_ok(hga_plan_create(p.graph, &p.program, &sizes[i], &o, &plan));
        assert_ok(hga_workspace_create(plan, &own));
        for (hga_id v = 0; v < TOKENS; v += 97) {
            const hga_id n = v % 2 ? 1 : TOKENS - v < 70 ? TOKENS - v : 70;
            p.io.rows = SOME_ROWS(v, n);
            assert_ok(hga_plan_execute(plan, own, &p.io));
            assert_same_bits("alone", (const float *)p.io.out.data + v * row, want + v * row, n * row);
        }
        hga_workspace_destroy(own), hga_plan_destroy(plan);
        p.io.rows = NULL, free(want), problem_clear(&p);
    }
}

/* Ranks have the bits of one process, wherever they are cut, whether or not what they receive has rows as long as
   results. */
static void bits_depend_on_no_rank(void **state)
{
    static const hga_id counts[] = {2, 3, 5, 2, 3};
    static const hga_shape as_long = {.n_heads = 8, .n_kv_heads = 8, .dim = 4, .dim_v = 8};
    (void)state;
    for (int i = 0; i < 5; i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        uint64_t rng = (uint64_t)i;
        hga_options o = {.threads = 1 + i % 2, .dropout = i % 2 ? 0 : 0.2f};
        p = (problem){.name = "rows that choose", .shape = i < 3 ? sizes[1] : as_long};
        p.graph = rows_that_choose(TOKENS, 90 + (uint64_t)i, i == 1 ? TWICE : ALIKE);
        assert_ok(hga_program_attention(&p.program, 0));
        problem_fill(&p, 3);
        tensors want = run_whole(&p, &o, PACKED);
        cut_evenly(TOKENS, counts[i], 16, cuts);
        hold(&p, "cut at sixteens", &o, PACKED, cuts, counts[i], &strict, &want);
        cut_anywhere(TOKENS, counts[i], &rng, cuts);
        hold(&p, "cut anywhere", &o, PACKED, cuts, counts[i], &strict, &want);
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* Every token sees those before it; so many parts of one length. */
static hga_graph *graph_of_parts(hga_id n_parts)
{
    hga_id relation, first[64];
    hga_builder *b = tokens_alone(TOKENS);
    for (hga_id i = 0; i < n_parts; i++) first[i] = i * (TOKENS / n_parts);
    assert_ok(hga_builder_add_relation(b, "near", &relation));
    const hga_block all = {.n_dst = TOKENS, .n_src = TOKENS, .shape = HGA_LOWER};
    assert_ok(hga_builder_add_blocks(b, relation, &all));
    assert_ok(hga_builder_set_parts(b, n_parts, first));
    return finished(b);
}

/* The workspace of a plan whose graph had more parts before. */
static void parts_may_become_fewer(void **state)
{
    (void)state;
    problem p = {.name = "parts", .shape = sizes[1]};
    hga_plan *plan;
    hga_workspace *own;
    hga_graph *many = graph_of_parts(50);
    p.graph = graph_of_parts(1);
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 1);
    float *want = problem_out(&p, &(hga_options){.threads = 1}, NULL);
    assert_ok(hga_plan_create(many, &p.program, &p.shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    assert_ok(hga_plan_execute(plan, own, &p.io));
    assert_ok(hga_plan_update(plan, p.graph));
    assert_ok(hga_plan_execute(plan, own, &p.io));
    assert_same_bits("one part", p.io.out.data, want, out_count(&p));
    hga_workspace_destroy(own), hga_plan_destroy(plan), hga_graph_destroy(many);
    free(want), problem_clear(&p);
}

/* A hundred columns are a window and a part of one: each part has both, and the next one's begin behind them. */
static void parts_of_a_hundred_columns_are_windows_of_their_own(void **state)
{
    enum { PARTS = TOKENS / 100 };
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        problem p = {.name = "parts of 100", .shape = sizes[i]};
        hga_plan *plan;
        p.graph = graph_of_parts(PARTS);
        assert_ok(hga_program_attention(&p.program, 0));
        problem_fill(&p, 2 + (uint64_t)i);
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 1}, &plan));
        assert_true(plan->stage[0].by_columns);
        assert_int_equal(plan->windows.n, 2 * PARTS);
        for (hga_id part = 0; part <= PARTS; part++) assert_int_equal(plan->windows.begin[part], 2 * part);
        hga_plan_destroy(plan);
        assert_equals_slow(&p, 3e-5);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_choose_go_by_columns),
        cmocka_unit_test(pairs_are_in_tiles),
        cmocka_unit_test(rows_are_what_the_oracle_says),
        cmocka_unit_test(rows_are_what_the_plain_executor_says),
        cmocka_unit_test(states_go_on),
        cmocka_unit_test(what_is_not_finite_stays_with_those_who_see_it),
        cmocka_unit_test(bits_depend_on_no_thread),
        cmocka_unit_test(bits_depend_on_nobody_else),
        cmocka_unit_test(bits_depend_on_no_rank),
        cmocka_unit_test(parts_may_become_fewer),
        cmocka_unit_test(parts_of_a_hundred_columns_are_windows_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
