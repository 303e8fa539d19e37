/* test_short_rows.c: rows with a few edges of several segments each, as tokens have that see one span of each level.
   Where a query has enough numbers they go through the kernel of families. */
#include "brought.h"
#include "by_hand.h"
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 333 };
static const char *const words[] = {"fenwick", "hsa branching=4 causal=1", "hsa branching=2,4 causal=1",
                                    "bpt k=4 causal=1"};
enum { N_WORDS = sizeof words / sizeof *words };

static problem short_rows(int i, hga_id tokens, hga_shape shape)
{
    problem p = {.shape = shape};
    snprintf(p.name, sizeof p.name, "%s", words[i]);
    assert_ok(hga_build(words[i], tokens, &p.graph, &p.program));
    problem_fill(&p, 3);
    return p;
}

/* ---- which way they go ---- */

static const kernel_table *counted;
static int64_t n_families, n_tiles;
static void count_family(const kernel_family *c)
{
    n_families++;
    counted->attend_family(c);
}
static void count_tile(const kernel_tile *t)
{
    n_tiles++;
    counted->attend_tile(t);
}

static void count_calls(const problem *p)
{
    hga_plan *plan;
    hga_workspace *own;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    kernel_table counting = *plan->machine.kernels;
    counted = plan->machine.kernels, plan->machine.kernels = &counting;
    counting.attend_family = count_family, counting.attend_tile = count_tile;
    n_families = n_tiles = 0;
    assert_ok(hga_plan_execute(plan, own, &p->io));
    plan->machine.kernels = counted;
    hga_workspace_destroy(own), hga_plan_destroy(plan);
}

/* Sixteen rows by one call of the kernel, and no tiles; with few numbers of a query tiles alone. */
static void they_are_families_where_queries_have_enough_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem many = short_rows(i, 512, (hga_shape){.n_heads = 8, .dim = 16}),
                few = short_rows(i, 512, (hga_shape){.n_heads = 4, .dim = 16});
        count_calls(&many);
        if (n_families != 512 / 16 || n_tiles) fail_msg("%s: %d, %d", words[i], (int)n_families, (int)n_tiles);
        count_calls(&few);
        if (n_families || !n_tiles) fail_msg("%s: %d, %d", words[i], (int)n_families, (int)n_tiles);
        problem_clear(&many), problem_clear(&few);
    }
}

/* ---- what they are ---- */

/* By the plain definition, which knows what is dropped, too. */
static void assert_as_defined(problem *p)
{
    hga_options plain = p->options;
    plain.generic = 1;
    float *want = problem_out(p, &plain, NULL), *got = problem_out(p, &p->options, NULL);
    assert_near_floats(p->name, got, want, out_count(p), 1e-5);
    free(want), free(got);
}

/* With keys and values whose heads lie apart, which are brought beside those of spans; with shared keys; with what
   types add, and what is dropped. */
static void they_are_as_defined(void **state)
{
    (void)state;
    for (int i = 0; i < N_WORDS; i++)
        for (int kind = 0; kind < 4; kind++) {
            const hga_id kv = kind % 2 ? 2 : 6;
            problem p = short_rows(i, TOKENS, (hga_shape){.n_heads = 6, .n_kv_heads = kv, .dim = 33, .dim_v = 17});
            if (kind / 2) problem_fill_tables(&p, 7, 1, 1, 0), p.io.node_pos.data = NULL;
            p.options.dropout = kind == 3 ? 0.3f : 0, p.io.seed = 5;
            assert_as_defined(&p);
            p.io.key = with_heads_copied(&p, &p.io.key, kv, 33);
            assert_as_defined(&p);
            p.io.value = with_heads_copied(&p, &p.io.value, kv, 17);
            assert_as_defined(&p);
            problem_clear(&p);
        }
}

/* ---- their bits ---- */

static float *out_of(problem *p, hga_options options) { return problem_out(p, &options, NULL); }

/* On any number of threads, and wherever heads lie. */
static void threads_and_strides_change_no_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_WORDS; i++) {
        problem p = short_rows(i, 2 * TOKENS, (hga_shape){.n_heads = 5, .dim = 32});
        float *one = out_of(&p, (hga_options){.threads = 1}), *three = out_of(&p, (hga_options){.threads = 3});
        p.io.key = with_heads_copied(&p, &p.io.key, 5, 32), p.io.value = with_heads_copied(&p, &p.io.value, 5, 32);
        float *apart = out_of(&p, (hga_options){.threads = 2});
        assert_same_bits(p.name, three, one, out_count(&p)), assert_same_bits(p.name, apart, one, out_count(&p));
        free(one), free(three), free(apart);
        problem_clear(&p);
    }
}

/* Rows that a call asks for, one by one and in runs that begin and end within a sixteen. */
static void some_rows_have_the_bits_of_all(void **state)
{
    static const hga_interval some[] = {{0, 1}, {31, 1}, {77, 40}, {300, 33}, {332, 1}};
    (void)state;
    for (int i = 0; i < N_WORDS; i++) {
        problem p = short_rows(i, TOKENS, (hga_shape){.n_heads = 4, .dim = 40});
        const hga_options options = {.threads = 1, .rows = HGA_SOME_ROWS};
        const int64_t columns = 4 * 40;
        float *all = out_of(&p, options);
        hga_plan *plan;
        hga_workspace *own;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        assert_ok(hga_workspace_create(plan, &own));
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
            memset(p.io.out.data, 0xff, (size_t)out_count(&p) * sizeof(float));
            p.io.rows = SOME_ROWS(some[k].first, some[k].n);
            assert_ok(hga_plan_execute(plan, own, &p.io));
            assert_same_bits(p.name, (float *)p.io.out.data + some[k].first * columns, all + some[k].first * columns,
                             some[k].n * columns);
        }
        free(all);
        hga_workspace_destroy(own), hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* ---- of another graph ---- */

/* An execution of the plan has the bits of a new one, and the meaning. Slopes differ by head: rows that have them go
   one by one, and not as families. */
static void assert_plan_is_current(hga_plan *plan, problem *p)
{
    hga_workspace *own;
    float *fresh = out_of(p, (hga_options){.threads = 2});
    kernel_table counting = *plan->machine.kernels;
    assert_ok(hga_workspace_create(plan, &own));
    counted = plan->machine.kernels, plan->machine.kernels = &counting;
    counting.attend_family = count_family, n_families = 0;
    assert_ok(hga_plan_execute(plan, own, &p->io));
    plan->machine.kernels = counted;
    if ((n_families > 0) == (p->io.slopes.data != NULL)) fail_msg("%s: %d families", p->name, (int)n_families);
    assert_same_bits(p->name, p->io.out.data, fresh, out_count(p));
    assert_as_defined(p);
    hga_workspace_destroy(own), free(fresh);
}

/* To a longer graph, to a shorter one, and back: what is added by type, taken by distance and dropped is the new
   graph's. */
static void updated_plans_have_the_types_and_distances_of_the_new_graph(void **state)
{
    static const float slopes[] = {0.5f, 0, 0.03f, 0.1f, 1, 0, 2, 0.2f}, sink[] = {0, 1, -1, 2, -2, 3, -INFINITY, 0};
    static const hga_id sizes[] = {TOKENS, 2 * TOKENS + 5, 90, TOKENS};
    const hga_shape shape = {.n_heads = 8, .n_kv_heads = 4, .dim = 16};
    (void)state;
    for (int w = 0; w < 2; w++) {
        hga_plan *plan = NULL;
        problem p[4];
        for (int k = 0; k < 4; k++) {
            p[k] = short_rows(w ? 3 : 0, sizes[k], shape);
            problem_fill_tables(&p[k], 7 + (uint64_t)k, 1, 1, 0), p[k].io.node_pos.data = NULL;
            assert_ok(k ? hga_plan_update(plan, p[k].graph)
                        : hga_plan_create(p[k].graph, &p[k].program, &shape, &(hga_options){.threads = 1}, &plan));
            bring_to(&p[k].io, &(operands){.sink = sink});
            assert_plan_is_current(plan, &p[k]);
            bring_to(&p[k].io, &(operands){.slopes = slopes, .sink = sink});
            assert_plan_is_current(plan, &p[k]);
        }
        hga_plan_destroy(plan);
        for (int k = 0; k < 4; k++) problem_clear(&p[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_families_where_queries_have_enough_numbers),
        cmocka_unit_test(they_are_as_defined),
        cmocka_unit_test(threads_and_strides_change_no_bits),
        cmocka_unit_test(some_rows_have_the_bits_of_all),
        cmocka_unit_test(updated_plans_have_the_types_and_distances_of_the_new_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
