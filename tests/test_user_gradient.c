/* Gradients of stages of the caller's own: softmax attention with adjoints against the built-in stage's, and a program
   up and down a tree against differences of its loss. */
#include "slopes.h"
#include "user_softmax.h"

/* ---- softmax attention ---- */

/* What the backward pass keeps in the softmax's place. */
typedef struct softmax_adjoint {
    double lse, delta, d_out[80];
} softmax_adjoint;

static void softmax_finish_adjoint(const void *state, void *d_state, const hga_end *v, const hga_end *d_v, hga_id head,
                                   void *ctx)
{
    (void)head, (void)v;
    const user_context *u = ctx;
    const user_softmax *s = state;
    softmax_adjoint *d = d_state;
    d->lse = s->greatest + log(s->sum), d->delta = -(double)d_v->lse[u->out][0];
    for (hga_id c = 0; c < u->dim_v; c++) {
        d->d_out[c] = (double)d_v->field[u->out][c];
        d->delta += s->sum > 0 ? d->d_out[c] * s->acc[c] / s->sum : 0;
    }
}

static void softmax_edge_adjoint(const void *state, const void *d_state, const hga_edge *e, double *d_score,
                                 const hga_end *d_source, const hga_end *d_destination, hga_id head, void *ctx)
{
    (void)state, (void)d_destination, (void)head;
    const user_context *u = ctx;
    const softmax_adjoint *d = d_state;
    double weight = exp(e->score - d->lse);
    *d_score -= weight * d->delta;
    for (hga_id c = 0; c < u->dim_v; c++) {
        *d_score += weight * d->d_out[c] * (double)e->source.field[u->value][c];
        d_source->field[u->value][c] += (float)(weight * d->d_out[c]);
    }
}

/* The user's stage where the program has its first attended one. */
static void put_softmax(problem *p, user_context *at)
{
    hga_udf *udf = &make_user_stage(p, at, 0)->udf;
    udf->finish_adjoint = softmax_finish_adjoint, udf->edge_adjoint = softmax_edge_adjoint;
}

static void softmax_goes_back_as_the_built_in_stage(void **state)
{
    (void)state;
    static const char *const names[] = {"dense", "window", "bpt", "neighbours", "fine", "hsa", "hsa_frontier"};
    static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4, .pos_dim = 3},
                                       {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3}};
    for (int i = 0; i < 14; i++) {
        problem p;
        user_context at;
        variant_build(variant_named(names[i / 2]), 29, 6, &shapes[i % 2], &p);
        problem_fill_tables(&p, 8, i % 3 != 0, i % 2, 0);
        slope want = slope_create(&p, 3), got = slope_create(&p, 3);
        slope_run(&want, (hga_options){.generic = 1, .threads = 1});
        put_softmax(&p, &at);
        slope_run(&got, (hga_options){.threads = 2});
        assert_same_slopes(&want, &got, 2e-5);
        slope_clear(&want), slope_clear(&got), problem_clear(&p);
    }
}

/* ---- up and down a tree ---- */

enum { DIM = 3 };

typedef struct tree_places {
    hga_id value, sum, out;
} tree_places;

/* sum_v = value_v at the tokens, tanh of the sum over children above; out_v = value_v times the sum over parents, in
   which a token's own sum counts, too. */
static void sum_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head, (void)ctx;
    memset(state, 0, DIM * sizeof(double));
}

static void sum_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    (void)head;
    double *sum = state;
    for (int c = 0; c < DIM; c++) sum[c] += (double)e->source.field[((const tree_places *)ctx)->sum][c];
}

static void sum_edge_adjoint(const void *state, const void *d_state, const hga_edge *e, double *d_score,
                             const hga_end *d_source, const hga_end *d_destination, hga_id head, void *ctx)
{
    (void)state, (void)e, (void)d_score, (void)d_destination, (void)head;
    const double *d = d_state;
    for (int c = 0; c < DIM; c++) d_source->field[((const tree_places *)ctx)->sum][c] += (float)d[c];
}

static void up_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)head;
    const tree_places *at = ctx;
    const double *sum = state;
    for (int c = 0; c < DIM; c++)
        v->field[at->sum][c] = v->field[at->value] ? v->field[at->value][c] : (float)tanh(sum[c]);
}

static void up_finish_adjoint(const void *state, void *d_state, const hga_end *v, const hga_end *d_v, hga_id head,
                              void *ctx)
{
    (void)head, (void)state;
    const tree_places *at = ctx;
    double *d = d_state;
    for (int c = 0; c < DIM; c++) {
        float y = v->field[at->sum][c], dy = d_v->field[at->sum][c];
        if (v->field[at->value])
            d_v->field[at->value][c] += dy;
        else
            d[c] = (double)dy * (1 - (double)y * (double)y);
    }
}

static void down_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)head;
    const tree_places *at = ctx;
    const double *sum = state;
    for (int c = 0; c < DIM; c++)
        v->field[at->out][c] = (float)((sum[c] + (double)v->field[at->sum][c]) * (double)v->field[at->sum][c]);
}

static void down_finish_adjoint(const void *state, void *d_state, const hga_end *v, const hga_end *d_v, hga_id head,
                                void *ctx)
{
    (void)head;
    const tree_places *at = ctx;
    const double *sum = state;
    double *d = d_state;
    for (int c = 0; c < DIM; c++) {
        double y = (double)v->field[at->sum][c], g = (double)d_v->field[at->out][c];
        d[c] = g * y;
        d_v->field[at->sum][c] += (float)(g * (sum[c] + 2 * y));
    }
}

static void add_stage(hga_program *p, const char *name, hga_id relation, hga_order order, hga_id out, uint32_t reads,
                      hga_udf udf)
{
    hga_stage s = {.relation = relation,
                   .order = order,
                   .message = HGA_MESSAGE_USER,
                   .reduce = HGA_REDUCE_USER,
                   .update = HGA_UPDATE_USER,
                   .out = out,
                   .reads = reads,
                   .writes = 1u << out,
                   .udf = udf};
    snprintf(s.name, sizeof s.name, "%s", name);
    assert_ok(hga_program_add_stage(p, &s));
}

static void up_and_down(hga_program *p, tree_places *at)
{
    hga_program_init(p);
    assert_ok(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES,
                                    &at->value));
    assert_ok(hga_program_add_field(p, "sum", HGA_WIDTH_OUT, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &at->sum));
    assert_ok(hga_program_add_field(p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &at->out));
    add_stage(p, "up", HGA_TREE_UP, HGA_LEVELS_UP, at->sum, 1u << at->value | 1u << at->sum,
              (hga_udf){.state_bytes = DIM * sizeof(double),
                        .begin = sum_begin,
                        .edge = sum_edge,
                        .finish = up_finish,
                        .ctx = at,
                        .finish_adjoint = up_finish_adjoint,
                        .edge_adjoint = sum_edge_adjoint});
    add_stage(p, "down", HGA_TREE_DOWN, HGA_LEVELS_DOWN, at->out, 1u << at->sum,
              (hga_udf){.state_bytes = DIM * sizeof(double),
                        .begin = sum_begin,
                        .edge = sum_edge,
                        .finish = down_finish,
                        .ctx = at,
                        .finish_adjoint = down_finish_adjoint,
                        .edge_adjoint = sum_edge_adjoint});
}

/* A five point difference of the library's loss, whose functions give floats. */
static double slope_at(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, int64_t i)
{
    double f[5], h = 0.05;
    for (int k = 0; k < 5; k++) assert_ok(hga_plan_loss(plan, io, grad, HGA_GRADIENT_VALUE, i, (k - 2) * h, &f[k]));
    return (f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * h);
}

static void trees_go_back_up_and_down(void **state)
{
    (void)state;
    enum { N = 24, HEADS = 2 };
    hga_graph *g;
    hga_program p;
    tree_places at;
    hga_plan *plan;
    hga_workspace *workspace;
    assert_ok(hga_build("hsa branching=2,3", N, &g, &p));
    up_and_down(&p, &at);
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    hga_options options = {.gradient = 1};
    assert_ok(hga_plan_create(g, &p, &shape, &options, &plan));
    assert_string_equal(plain_because(plan), "functions of the caller's own");
    assert_ok(hga_workspace_create(plan, &workspace));
    float *value = random_floats(1, 0.7f, N * HEADS * DIM), *input = random_floats(2, 1, N * HEADS * DIM),
          *out = memory(N * HEADS * DIM, sizeof *out), *got = memory(N * HEADS * DIM, sizeof *got);
    hga_io io = {.value = {.data = value, .rows = N},
                 .out = {.data = out, .rows = N},
                 .tape = memory(hga_plan_tape_bytes(plan), 1)};
    hga_grad_io grad = {.d_out = {.data = input, .rows = N}, .d_value = {.data = got, .rows = N}};
    assert_ok(hga_plan_execute(plan, workspace, &io));
    assert_ok(hga_plan_gradient(plan, workspace, &io, &grad));
    for (int64_t i = 0; i < N * HEADS * DIM; i++) {
        double want = slope_at(plan, &io, &grad, i);
        if (!(fabs(want - (double)got[i]) <= 1e-4))
            fail_msg("entry %lld: %g, not %g", (long long)i, (double)got[i], want);
    }
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(g);
    free(value), free(input), free(out), free(got), free(io.tape);
}

/* ---- without adjoints ---- */

static void a_missing_adjoint_is_named(void **state)
{
    (void)state;
    problem p;
    user_context at;
    variant_build(variant_named("dense"), 9, 1, &(hga_shape){.n_heads = 1, .dim = 4}, &p);
    put_softmax(&p, &at);
    hga_stage *s = NULL;
    for (hga_id i = 0; i < p.program.n_stages; i++)
        if (p.program.stage[i].message == HGA_MESSAGE_USER) s = &p.program.stage[i];
    for (int missing = 0; missing < 2; missing++) {
        hga_udf whole = s->udf;
        if (missing)
            s->udf.edge_adjoint = NULL;
        else
            s->udf.finish_adjoint = NULL;
        hga_options options = {.gradient = 1};
        hga_plan *plan;
        hga_workspace *workspace;
        slope want = slope_create(&p, 1);
        hga_io io = p.io;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        io.tape = memory(hga_plan_tape_bytes(plan), 1);
        assert_ok(hga_plan_execute(plan, workspace, &io));
        assert_int_equal(hga_plan_gradient(plan, workspace, &io, &want.grad), HGA_EUNSUPPORTED);
        assert_non_null(strstr(hga_error_detail(), missing ? "edge_adjoint" : "finish_adjoint"));
        assert_non_null(strstr(hga_error_detail(), s->name));
        s->udf = whole;
        free(io.tape), slope_clear(&want), hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    }
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_goes_back_as_the_built_in_stage),
        cmocka_unit_test(trees_go_back_up_and_down),
        cmocka_unit_test(a_missing_adjoint_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
