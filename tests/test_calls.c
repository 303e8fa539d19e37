/* Bugs of calls found by reading: programs that were not refused, what a call may ask for, keep and touch, and numbers
   that are none. Each with the smallest graph that shows it. */
#include "by_hand.h"
#include "filling.h"
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- programs ---- */

/* Keys of nodes above the tokens, which neither the caller nor a stage fills. */
static void rows_that_nobody_fills_are_not_read(void **state)
{
    (void)state;
    hga_builder *b = started(2, 0, 1);
    assert_ok(hga_builder_add_block(b, 0, 0, 2, 0, 3, 0));
    hga_graph *g = finished(b);
    hga_plan *plan;
    for (int coarsen = 0; coarsen < 2; coarsen++) {
        hga_program p;
        hga_program_init(&p);
        hga_id q = field(&p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        hga_id k = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES);
        hga_id v = field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES);
        hga_id out = field(&p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        if (coarsen) assert_ok(hga_program_coarsen(&p, k));
        assert_ok(hga_program_attend(&p, 0, q, k, v, out, 0));
        assert_status(coarsen ? HGA_OK : HGA_EPROGRAM,
                      hga_plan_create(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan));
        if (!coarsen) assert_non_null(strstr(hga_error_detail(), "'k' on node 2"));
        hga_plan_destroy(plan);
    }
    hga_graph_destroy(g);
}

/* Only a stage in place leaves level 0 alone: another would put its means over the caller's queries. */
static void the_callers_queries_are_not_written_over(void **state)
{
    (void)state;
    hga_builder *b = started(2, 0, 1);
    assert_ok(hga_builder_set_children(b, 2, 0, 2));
    hga_graph *g = finished(b);
    hga_plan *plan;
    hga_program p;
    hga_program_init(&p);
    hga_id q = field(&p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    hga_id x = field(&p, "x", HGA_WIDTH_KEY, HGA_IO_USER, HGA_ROWS_NODES, HGA_ROWS_NODES);
    hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_id v = field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES);
    add_means_up(&p, x, q);
    assert_ok(hga_program_weighted_sum(&p, 0, v, out));
    assert_status(HGA_EPROGRAM, hga_plan_create(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan));
    assert_non_null(strstr(hga_error_detail(), "writes over the caller's rows of field 'q'"));
    hga_graph_destroy(g);
}

/* A tensor with a row for every node of one side would be read as one with a row for every node. */
static void tensors_have_ranges_of_nodes(void **state)
{
    (void)state;
    hga_graph *cross = finished(started(6, 2, 1)), *self = finished(started(6, 0, 1));
    hga_plan *plan;
    hga_program p;
    hga_program_init(&p);
    hga_id v = field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEY_SIDE, HGA_ROWS_KEY_SIDE);
    hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_weighted_sum(&p, 0, v, out));
    assert_status(HGA_EPROGRAM, hga_plan_create(cross, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan));
    assert_ok(hga_plan_create(self, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan));
    hga_plan_destroy(plan), hga_graph_destroy(cross), hga_graph_destroy(self);
}

/* ---- wrong calls ---- */

static void what_is_missing_is_named(void **state)
{
    (void)state;
    hga_builder *b = started(2, 0, 0);
    hga_graph *g = finished(b);
    hga_program p;
    hga_plan *plan;
    hga_workspace *s;
    hga_shape shape = {.n_heads = 1, .dim = 1};
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, 0));
    assert_status(HGA_EINVAL, hga_plan_create(NULL, &p, &shape, NULL, &plan));
    assert_status(HGA_EINVAL, hga_plan_create(g, NULL, &shape, NULL, &plan));
    assert_status(HGA_EINVAL, hga_plan_create(g, &p, NULL, NULL, &plan));
    assert_status(HGA_EINVAL, hga_attention(g, &p, &shape, NULL, NULL));
    assert_ok(hga_plan_create(g, &p, &shape, NULL, &plan));
    assert_status(HGA_EINVAL, hga_plan_update(plan, NULL));
    assert_ok(hga_workspace_create(plan, &s));
    assert_status(HGA_EINVAL, hga_plan_execute(plan, s, NULL));
    assert_status(HGA_EINVAL, hga_plan_execute(plan, NULL, &(hga_io){0}));
    hga_workspace_destroy(s), hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Padded to vectors, the rows of so many heads are far longer than they look. */
static void rows_of_many_narrow_heads_do_not_fit(void **state)
{
    (void)state;
    hga_graph *g = finished(started(2, 0, 0));
    hga_program p;
    hga_plan *plan;
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, 0));
    assert_status(HGA_EOVERFLOW, hga_plan_create(g, &p, &(hga_shape){.n_heads = 1 << 27, .dim = 1}, NULL, &plan));
    hga_graph_destroy(g);
}

/* Query, key and value are the same. */
static hga_io of_two_rows(float *x, float *out)
{
    hga_tensor in = {.data = x, .rows = 2};
    return (hga_io){.query = in, .key = in, .value = in, .out = {.data = out, .rows = 2}};
}

/* Fields are read after an execution of that plan as it is now, and after one that succeeded. */
static void fields_belong_to_the_last_execution(void **state)
{
    (void)state;
    hga_graph *g = finished(started(2, 0, 0)), *larger = finished(started(300, 0, 0));
    hga_program p;
    hga_plan *plan, *other;
    hga_workspace *s;
    hga_shape shape = {.n_heads = 1, .dim = 1};
    float x[300] = {0}, out[600];
    hga_io io = of_two_rows(x, out);
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, 0));
    assert_ok(hga_plan_create(g, &p, &shape, &(hga_options){.keep_fields = 1}, &plan));
    assert_ok(hga_plan_create(larger, &p, &shape, &(hga_options){.keep_fields = 1}, &other));
    assert_ok(hga_workspace_create(plan, &s));
    assert_status(HGA_EINVAL, hga_workspace_field(plan, s, 1, 0, 2, out));
    assert_status(HGA_EINVAL, hga_plan_execute(plan, s, &(hga_io){.query = io.query, .out = io.out}));
    assert_status(HGA_EINVAL, hga_workspace_field(plan, s, 1, 0, 2, out));
    assert_ok(hga_plan_execute(plan, s, &io));
    assert_ok(hga_workspace_field(plan, s, 1, 0, 2, out));
    assert_status(HGA_EINVAL, hga_workspace_field(other, s, 1, 0, 300, out));
    assert_ok(hga_plan_update(plan, larger));
    assert_status(HGA_EINVAL, hga_workspace_field(plan, s, 1, 0, 300, out));
    hga_workspace_destroy(s), hga_plan_destroy(plan), hga_plan_destroy(other);
    hga_graph_destroy(g), hga_graph_destroy(larger);
}

/* Without keep_fields a field that has rows in the workspace has them no longer in the end. */
static void fields_are_kept_where_that_is_asked_for(void **state)
{
    (void)state;
    problem p;
    variant_build(variant_named("neighbours"), 100, 1, &(hga_shape){.n_heads = 2, .dim = 4}, &p);
    hga_id query = program_bound(&p.program, HGA_IO_QUERY), n = hga_graph_nodes(p.graph).n;
    float *out = memory((int64_t)n * 2 * 4, sizeof *out);
    for (int keep = 0; keep < 2; keep++) {
        hga_plan *plan;
        hga_workspace *s;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.keep_fields = keep}, &plan));
        assert_ok(hga_workspace_create(plan, &s));
        assert_ok(hga_plan_execute(plan, s, &p.io));
        hga_status st = hga_workspace_field(plan, s, query, 0, n, out);
        assert_int_equal(st, keep ? HGA_OK : HGA_EUNSUPPORTED);
        if (!keep) assert_non_null(strstr(hga_error_detail(), "keep_fields"));
        if (!keep) assert_non_null(strstr(hga_error_detail(), p.program.field[query].name));
        hga_workspace_destroy(s), hga_plan_destroy(plan);
    }
    free(out);
    problem_clear(&p);
}

/* A state knows its plan, not its plan's address. */
static void a_plan_at_a_freed_plans_address_is_another(void **state)
{
    (void)state;
    hga_graph *g = finished(started(2, 0, 0));
    hga_program p;
    hga_plan *plan;
    hga_workspace *s;
    hga_shape shape = {.n_heads = 1, .dim = 1};
    float x[2] = {0}, out[2];
    hga_io io = of_two_rows(x, out);
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, 0));
    assert_ok(hga_plan_create(g, &p, &shape, NULL, &plan));
    assert_ok(hga_workspace_create(plan, &s));
    hga_plan_destroy(plan);
    assert_ok(hga_plan_create(g, &p, &shape, NULL, &plan)); /* malloc gives the same place, as a rule */
    assert_status(HGA_EINVAL, hga_plan_execute(plan, s, &io));
    hga_workspace_destroy(s), hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* Tensors start where a float may, and lse is float32 like the others. */
static void tensors_are_aligned_floats(void **state)
{
    (void)state;
    hga_graph *g = finished(started(2, 0, 0));
    hga_program p;
    hga_shape shape = {.n_heads = 1, .dim = 1};
    float x[3] = {0}, out[2], lse[3];
    hga_io good = {.query = {.data = x, .rows = 2},
                   .key = {.data = x, .rows = 2},
                   .value = {.data = x, .rows = 2},
                   .out = {.data = out, .rows = 2},
                   .lse = {.data = lse, .rows = 2}},
           io = good;
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, 0));
    p.has_lse = 1;
    assert_ok(hga_attention(g, &p, &shape, NULL, &io));
    io.key.data = (char *)x + 2;
    assert_status(HGA_EINVAL, hga_attention(g, &p, &shape, NULL, &io));
    assert_non_null(strstr(hga_error_detail(), "2 bytes past"));
    io = good, io.lse.data = (char *)lse + 1;
    assert_status(HGA_EINVAL, hga_attention(g, &p, &shape, NULL, &io));
    io = good, io.lse.dtype = HGA_F32 + 1;
    assert_status(HGA_EUNSUPPORTED, hga_attention(g, &p, &shape, NULL, &io));
    assert_non_null(strstr(hga_error_detail(), "log-sum-exp"));
    hga_graph_destroy(g);
}

/* ---- updates in kept memory ---- */

/* A routed graph every time: after the first update there is nothing left to take, and so nothing that can be refused.
   */
static void later_updates_allocate_nothing(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 8};
    filling kept = {.byte = 0xff};
    hga_allocator allocator = filling_allocator(&kept);
    problem a, b;
    variant_build(variant_named("fine"), 300, 1, &shape, &a);
    variant_build(variant_named("fine"), 300, 2, &shape, &b);
    hga_plan *plan;
    assert_ok(hga_plan_create(a.graph, &a.program, &shape,
                              &(hga_options){.threads = 3, .cut_edges = 64, .allocator = &allocator}, &plan));
    int64_t created = hga_plan_bytes(plan);
    assert_ok(hga_plan_update(plan, b.graph));
    assert_ok(hga_plan_update(plan, a.graph));
    assert_true(hga_plan_bytes(plan) > created);
    kept.asked = 0;
    for (int i = 0; i < 5; i++) assert_ok(hga_plan_update(plan, i % 2 ? b.graph : a.graph));
    assert_int_equal(kept.asked, 0);
    hga_plan_destroy(plan);
    problem_clear(&a), problem_clear(&b);
}

/* ---- numbers that are none ---- */

enum { ROWS = 100, DIM = 20, SPOILT = 53 };

/* Dense causal attention with key and value of token SPOILT set. */
static void attend_with(const hga_options *options, float key, float value, float *out)
{
    hga_graph *g;
    hga_program program;
    float *q = random_floats(1, 2, ROWS * DIM), *k = random_floats(2, 2, ROWS * DIM),
          *v = random_floats(3, 2, ROWS * DIM);
    k[SPOILT * DIM + 7] = key, v[SPOILT * DIM + 17] = value;
    assert_ok(hga_build_dense(&(hga_dense){.n_tokens = ROWS, .causal = 1}, &g, &program));
    hga_io io = {.query = {.data = q, .rows = ROWS},
                 .key = {.data = k, .rows = ROWS},
                 .value = {.data = v, .rows = ROWS},
                 .out = {.data = out, .rows = ROWS}};
    assert_ok(hga_attention(g, &program, &(hga_shape){.n_heads = 1, .dim = DIM}, options, &io));
    hga_graph_destroy(g);
    free(q), free(k), free(v);
}

/* NaN and infinity reach the rows that see them and no others, on every instruction set. */
static void what_is_not_finite_stays_with_those_who_see_it(void **state)
{
    static const char *const isas[] = {NULL, FLOAT_ISAS, PAIRS_ISA};
    float clean[ROWS * DIM], out[ROWS * DIM];
    (void)state;
    for (int i = 0; i < 10; i++) {
        hga_options options = {.threads = 1,
                               .isa = isas[i / 2],
                               .generic = i < 2,
                               .precision = i % 2 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32};
        if (options.isa && !strstr(hga_isa_list(), options.isa)) continue;
        attend_with(&options, 1, 1, clean);
        attend_with(&options, NAN, 1, out);
        assert_same_bits("rows before a key that is NaN", out, clean, SPOILT * DIM);
        for (int j = SPOILT * DIM; j < ROWS * DIM; j++) assert_true(isnan(out[j]));
        attend_with(&options, 1, INFINITY, out);
        assert_same_bits("rows before an infinite value", out, clean, SPOILT * DIM);
        for (int r = SPOILT; r < ROWS; r++) assert_true(isinf(out[r * DIM + 17]) && isfinite(out[r * DIM + 16]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_nobody_fills_are_not_read),
        cmocka_unit_test(the_callers_queries_are_not_written_over),
        cmocka_unit_test(tensors_have_ranges_of_nodes),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(rows_of_many_narrow_heads_do_not_fit),
        cmocka_unit_test(fields_belong_to_the_last_execution),
        cmocka_unit_test(fields_are_kept_where_that_is_asked_for),
        cmocka_unit_test(a_plan_at_a_freed_plans_address_is_another),
        cmocka_unit_test(tensors_are_aligned_floats),
        cmocka_unit_test(later_updates_allocate_nothing),
        cmocka_unit_test(what_is_not_finite_stays_with_those_who_see_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
