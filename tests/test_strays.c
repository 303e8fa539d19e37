/* Blocks with columns of nodes that have no rows: only rows that nobody computes may see these, and nobody reads
   them. */
#include "by_hand.h"
#include "slopes.h"

#include "plan.h"

enum { NODES = 48, THERE = 28 };

/* Queries and keys are the tokens. The nodes above see each other: they have no rows, and nobody asks. Where
   `mixed` says so, rows of both kinds come by turns in the relation's order. */
static problem problem_with_strays(hga_shape shape, int mixed)
{
    hga_builder *b = tokens_alone(THERE);
    hga_id near, order[NODES];
    assert_ok(hga_builder_add_level(b, NODES - THERE, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < NODES; i++) order[i] = i * 7 % NODES;
    if (mixed) assert_ok(hga_builder_set_order(b, near, order, NODES, NULL, 0));
    for (hga_id p = 0; p < NODES; p++) {
        hga_id v = mixed ? order[p] : p;
        assert_ok(hga_builder_add_block(b, near, p, 1, v < THERE ? 0 : THERE, v < THERE ? THERE : NODES - THERE, 0));
    }
    problem p = {.name = "strays", .graph = finished(b), .shape = shape};
    hga_program_init(&p.program);
    hga_id q = field(&p.program, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES),
           k = field(&p.program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
           v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
           out = field(&p.program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_attend(&p.program, near, q, k, v, out, 0));
    return p;
}

static problem filled(problem p)
{
    problem_fill(&p, 1);
    return p;
}

/* Attended once more, so that keys and values are rows of all stages, and with types, which have windows of columns to
   themselves. */
static problem problem_of_two_stages(hga_shape shape)
{
    problem p = problem_with_strays(shape, 0);
    hga_stage s = p.program.stage[0];
    assert_ok(hga_program_attend_more(&p.program, s.relation, s.query, s.key, s.value, s.out, 0));
    p = filled(p);
    problem_fill_tables(&p, 1, 1, 1, 0);
    return p;
}

static hga_plan *plan_of(const problem *p, hga_options options)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    return plan;
}

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 16}, {.n_heads = 4, .n_kv_heads = 2, .dim = 13, .dim_v = 5}};

/* The rows that are there are those of the plain executor, in memory that nobody has written; as numbers of 16 bits,
   whose rows are in the workspace, too. Without an order no panel has rows that are not there. */
static void rows_that_are_not_there_are_not_read(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        problem p = filled(problem_with_strays(shapes[i % 2], i / 4));
        filling fresh = {.byte = 0x41};
        hga_allocator a = filling_allocator(&fresh);
        hga_options options = {.threads = 1 + i / 2 % 2, .allocator = &a};
        options.precision = i / 2 % 2 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
        hga_plan *plan = plan_of(&p, options);
        assert_int_equal(plan->stage[0].has_rowless_columns, i / 4);
        float *got = problem_out(&p, &options, NULL);
        options.generic = 1;
        float *want = problem_out(&p, &options, NULL);
        assert_near_floats(p.name, got, want, out_count(&p), options.precision ? 8e-3 : 1e-5);
        free(got), free(want), hga_plan_destroy(plan), problem_clear(&p);
        assert_int_equal(fresh.live, 0);
    }
}

/* Gradients go row by row where rows of both kinds are in one panel; else columns that nobody sees are passed over,
   though a group of sixteen has rows of both kinds. */
static void gradients_do_not_read_them(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        int mixed = i / 2 == 1;
        problem p = i < 4 ? filled(problem_with_strays(shapes[i % 2], mixed)) : problem_of_two_stages(shapes[i % 2]);
        hga_plan *plan = plan_of(&p, (hga_options){.gradient = 1});
        assert_int_equal(plain_because(plan) != NULL, mixed);
        slope plain = slope_create(&p, 1), other = slope_create(&p, 1);
        slope_run(&plain, (hga_options){.generic = 1}), slope_run(&other, (hga_options){.threads = 2});
        assert_same_slopes(&plain, &other, 2e-5);
        slope_clear(&plain), slope_clear(&other), hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* What builders make has none, or it would go without tiles. */
static void variants_have_none(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 150, 1, &shapes[0], &p);
        hga_plan *plan = plan_of(&p, (hga_options){0});
        for (hga_id s = 0; s < plan->program.n_stages; s++)
            if (plan->stage[s].has_rowless_columns) fail_msg("%s, stage %d", p.name, (int)s);
        hga_plan_destroy(plan), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_not_there_are_not_read),
        cmocka_unit_test(gradients_do_not_read_them),
        cmocka_unit_test(variants_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
