/* test_gradient_refused.c: what hga_plan_gradient refuses, and that it leaves nothing behind wherever memory fails. */
#include "slopes.h"

static const hga_shape grouped = {.n_heads = 4, .n_kv_heads = 2, .dim = 6, .dim_v = 5};

typedef struct refusal {
    problem p;
    slope s;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_io io;
} refusal;

static refusal refusal_open(void)
{
    refusal r = {.p = problem_named("neighbours_relative", 20, 1, &grouped)};
    hga_options options = {.gradient = 1};
    assert_ok(hga_plan_create(r.p.graph, &r.p.program, &r.p.shape, &options, &r.plan));
    assert_ok(hga_workspace_create(r.plan, &r.workspace));
    r.io = r.p.io, r.io.tape = memory(hga_plan_tape_bytes(r.plan), 1);
    return r;
}

static void refusal_close(refusal *r)
{
    free(r->io.tape);
    hga_workspace_destroy(r->workspace);
    hga_plan_destroy(r->plan);
    problem_clear(&r->p);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    refusal r = refusal_open();
    slope s = slope_create(&r.p, 1);
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad)); /* nothing on the tape */
    assert_ok(hga_plan_execute(r.plan, r.workspace, &r.io));
    hga_io io = r.io;
    io.tape = NULL;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &io, &s.grad));
    hga_grad_io g = s.grad;
    g.d_out.data = NULL;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.d_out.rows--;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.d_key.rows--;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.d_lse.rows--;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.d_edge_bias = s.d_out;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.d_lse.dtype = HGA_F16;
    assert_status(HGA_EUNSUPPORTED, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.d_query.dtype = (hga_dtype)7;
    assert_status(HGA_EUNSUPPORTED, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    g = s.grad, g.reserved[0] = 1;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    io = r.io, io.key.data = NULL;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &io, &s.grad));
    g = s.grad, g.d_key.data = r.io.key.data;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    assert_non_null(strstr(hga_error_detail(), "written over the tensor of field k"));
    g = s.grad, g.d_value.data = g.d_key.data;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &g));
    assert_non_null(strstr(hga_error_detail(), "share memory"));
    for (int64_t j = 0; j < s.n[SLOW_QUERY]; j++) assert_true(isnan(s.of[SLOW_QUERY][j])); /* nothing was written */
    assert_ok(hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad));
    slope_clear(&s), refusal_close(&r);
}

/* A gradient is held to the graph as an execution is: tables of types and edges, and what draws have room for. */
static void tables_of_other_rows_are_refused(void **state)
{
    (void)state;
    refusal r = refusal_open();
    slope s = slope_create(&r.p, 1);
    assert_ok(hga_plan_execute(r.plan, r.workspace, &r.io));
    assert_true(r.io.rel_bias.data && r.io.rel_bias.rows > 1);
    const int64_t edges = hga_graph_relation(r.p.graph, 0).n_edges;
    float *bias = memory(edges, sizeof *bias);
    hga_io io = r.io;
    io.rel_bias.rows = 1;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &io, &s.grad));
    assert_non_null(strstr(hga_error_detail(), "rel_bias has 1 rows but relation"));
    io = r.io, io.edge_bias = (hga_table){.data = bias, .rows = edges - 1, .columns = 1};
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &io, &s.grad));
    assert_non_null(strstr(hga_error_detail(), "edge_bias has"));
    io = r.io, io.first_head = -1;
    assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &io, &s.grad));
    assert_string_equal(hga_error_detail(), "first_head is -1, not in 0 .. 2047");
    free(bias), slope_clear(&s), refusal_close(&r);
}

/* The tape belongs to the plan that wrote it. */
static void a_foreign_tape_is_refused(void **state)
{
    (void)state;
    refusal a = refusal_open(), b = refusal_open();
    slope s = slope_create(&b.p, 1);
    assert_ok(hga_plan_execute(a.plan, a.workspace, &a.io));
    hga_io io = b.io;
    io.tape = a.io.tape;
    assert_status(HGA_EINVAL, hga_plan_gradient(b.plan, b.workspace, &io, &s.grad));
    slope_clear(&s), refusal_close(&a), refusal_close(&b);
}

/* .. and to the graph that was executed: an update, be it to the same graph, makes it another's. */
static void a_tape_from_before_an_update_is_refused(void **state)
{
    (void)state;
    refusal r = refusal_open(), other = refusal_open();
    slope s = slope_create(&r.p, 1);
    assert_ok(hga_plan_execute(r.plan, r.workspace, &r.io));
    hga_graph *const graphs[] = {other.p.graph, r.p.graph, r.p.graph};
    for (int i = 0; i < 3; i++) {
        assert_ok(hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad));
        assert_ok(hga_plan_update(r.plan, graphs[i]));
        assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad));
        assert_string_equal(hga_error_detail(), "the tape is of the plan's graph before it was updated");
        assert_ok(hga_plan_execute(r.plan, r.workspace, &r.io));
    }
    hga_graph *none = NULL;
    assert_status(HGA_EINVAL, hga_plan_update(r.plan, none)); /* leaves all as it was */
    assert_ok(hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad));
    slope_clear(&s), refusal_close(&r), refusal_close(&other);
}

static void flags_are_0_or_1(void **state)
{
    (void)state;
    refusal r = refusal_open();
    slope s = slope_create(&r.p, 1);
    assert_ok(hga_plan_execute(r.plan, r.workspace, &r.io));
    for (s.grad.accumulate = -1; s.grad.accumulate < 4; s.grad.accumulate += 3) {
        assert_status(HGA_EINVAL, hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad));
        assert_non_null(strstr(hga_error_detail(), " is neither 0 nor 1"));
    }
    s.grad.accumulate = 1;
    assert_ok(hga_plan_gradient(r.plan, r.workspace, &r.io, &s.grad));
    slope_clear(&s), refusal_close(&r);
}

/* A program without a softmax denominator has no gradient of it; a plan made for none has no gradients. */
static void what_is_not_there_has_no_gradient(void **state)
{
    (void)state;
    problem p = {.shape = {.n_heads = 1, .dim = 4}};
    snprintf(p.name, sizeof p.name, "hsa");
    assert_ok(hga_build("hsa branching=2,2", 8, &p.graph, &p.program));
    problem_fill(&p, 1);
    for (int gradient = 0; gradient < 2; gradient++) {
        hga_plan *plan;
        hga_workspace *workspace;
        slope s = slope_create(&p, 1);
        float lse[8] = {0};
        s.grad.d_lse = (hga_tensor){.data = lse, .rows = 8};
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = gradient}, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        hga_io io = p.io;
        io.tape = gradient ? memory(hga_plan_tape_bytes(plan), 1) : NULL;
        assert_ok(hga_plan_execute(plan, workspace, &io));
        assert_status(gradient ? HGA_EUNSUPPORTED : HGA_EINVAL, hga_plan_gradient(plan, workspace, &io, &s.grad));
        free(io.tape), slope_clear(&s);
        hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    }
    problem_clear(&p);
}

/* ---- memory ---- */

static problem families(void)
{
    hga_id n, *parent = random_tree(3, 40, &n);
    problem p = {.shape = grouped};
    hga_hsa h;
    hga_defaults(&h);
    h.parent = parent, h.n_parent = n;
    assert_ok(hga_build_hsa(&h, &p.graph, &p.program));
    problem_fill(&p, 3);
    free(parent);
    return p;
}

/* A difference of losses of an entry that is not there would be a slope of 0. */
static void an_entry_that_is_not_there_has_no_loss(void **state)
{
    (void)state;
    enum { ROWS = 20 };
    refusal r = refusal_open();
    slope s = slope_create(&r.p, 1);
    const int types = hga_graph_relation(r.p.graph, 0).n_types;
    const struct {
        int input;
        int64_t n; /* numbers that it has; -1: there is no such input */
    } input[] = {{HGA_GRADIENT_QUERY, ROWS * 4 * 6},
                 {HGA_GRADIENT_KEY, ROWS * 2 * 6},
                 {HGA_GRADIENT_VALUE, ROWS * 2 * 5},
                 {HGA_GRADIENT_USER, -1},
                 {7, -1},
                 {-5, -1},
                 {HGA_GRADIENT_TABLE + HGA_TABLE_SCALE, 1},
                 {HGA_GRADIENT_TABLE + HGA_TABLE_REL_BIAS, (int64_t)types * 4},
                 {HGA_GRADIENT_TABLE + HGA_TABLE_SINK, -1},
                 {HGA_GRADIENT_TABLE + HGA_TABLE_LOG_MASS, hga_graph_nodes(r.p.graph).n}};
    float *bias = memory(types * 4, sizeof *bias);
    r.io.rel_bias = (hga_table){.data = bias, .rows = types};
    for (size_t i = 0; i < sizeof input / sizeof *input; i++) {
        const hga_gradient_input of = (hga_gradient_input)input[i].input;
        const int64_t n = input[i].n;
        double loss;
        assert_status(n > 0 ? HGA_OK : HGA_EINVAL,
                      hga_plan_loss(r.plan, &r.io, &s.grad, of, n > 0 ? n - 1 : 0, 0.5, &loss));
        assert_status(HGA_EINVAL, hga_plan_loss(r.plan, &r.io, &s.grad, of, n, 0.5, &loss));
        assert_status(HGA_EINVAL, hga_plan_loss(r.plan, &r.io, &s.grad, of, -1, 0.5, &loss));
        assert_non_null(strstr(hga_error_detail(), n > 0 ? "loss: entry -1 of an input of" : "has no input of number"));
    }
    free(bias), slope_clear(&s), refusal_close(&r);
}

/* Each allocation fails once: HGA_ENOMEM; then it succeeds, once more without any, and all is given back. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const hga_options ways[] = {
        {.threads = 1}, {.threads = 1, .generic = 1}, {.threads = 3, .gradient_row_ranges = 2}, {.threads = 2}};
    for (int i = 0; i < 4; i++) {
        problem p =
            i == 3 ? families() : problem_named(i == 2 ? "bpt" : "neighbours_relative", i == 2 ? 200 : 20, 1, &grouped);
        filling c = {.byte = 0xff};
        hga_allocator a = filling_allocator(&c);
        hga_options options = ways[i];
        options.gradient = 1, options.allocator = &a;
        hga_plan *plan;
        hga_workspace *workspace;
        slope s = slope_create(&p, 1);
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        hga_io io = p.io;
        io.tape = memory(hga_plan_tape_bytes(plan), 1);
        assert_ok(hga_plan_execute(plan, workspace, &io));
        int64_t fails = 0;
        hga_status st = HGA_ENOMEM;
        for (; st == HGA_ENOMEM; fails++) {
            c.asked = 0;
            c.fails_from = fails + 1;
            st = hga_plan_gradient(plan, workspace, &io, &s.grad);
        }
        assert_ok(st);
        assert_true(fails > 1);
        c.asked = 0;
        c.fails_from = 1;
        assert_ok(hga_plan_gradient(plan, workspace, &io, &s.grad));
        assert_int_equal(c.asked, 0);
        c.fails_from = 0;
        free(io.tape), slope_clear(&s);
        hga_workspace_destroy(workspace), hga_plan_destroy(plan), problem_clear(&p);
        assert_int_equal(c.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(tables_of_other_rows_are_refused),
        cmocka_unit_test(a_foreign_tape_is_refused),
        cmocka_unit_test(a_tape_from_before_an_update_is_refused),
        cmocka_unit_test(what_is_not_there_has_no_gradient),
        cmocka_unit_test(flags_are_0_or_1),
        cmocka_unit_test(an_entry_that_is_not_there_has_no_loss),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
