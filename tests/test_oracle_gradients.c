/* Gradients against those that automatic differentiation in double finds on independent restatements of the variants:
   the plain ones and the fast ones. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A case as a problem, and where its rows and nodes are in the graph's order; NULL: in the same place. */
typedef struct slope_case {
    golden *c;
    problem p;
    hga_id *node_of, *token_of;
} slope_case;

/* `columns` numbers for each of n rows, moved to the row that became of it. */
static float *moved(slope_case *s, const char *array, const hga_id *to)
{
    int64_t n = golden_dim(s->c, array, 0), columns = golden_count(s->c, array) / n;
    float *x = s->p.owned[s->p.n_owned++] = memory(n * columns, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        memcpy(x + (to ? to[i] : i) * columns, golden_floats(s->c, array) + i * columns, (size_t)columns * sizeof *x);
    return x;
}

static void build_bpt(slope_case *s, const char *name)
{
    hga_bpt b;
    hga_defaults(&b);
    b.n_tokens = (hga_id)golden_int(s->c, "n"), b.k = (hga_id)golden_int(s->c, "k");
    b.clip = (hga_id)golden_int(s->c, "clip_dist");
    b.causal = strncmp(name, "bpt_causal", 10) == 0;
    assert_ok(hga_build_bpt(&b, &s->p.graph, &s->p.program));
}

static void build_htransformer(slope_case *s, const char *name)
{
    hga_htransformer h;
    hga_defaults(&h);
    h.n_tokens = (hga_id)golden_int(s->c, "n"), h.block = (hga_id)golden_int(s->c, "num_clusters");
    h.relative = 1, h.causal = strncmp(name, "h1d_dec", 7) == 0;
    assert_ok(hga_build_htransformer(&h, &s->p.graph, &s->p.program));
}

static void build_hsa(slope_case *s)
{
    hga_hsa h;
    hga_defaults(&h);
    h.parent = golden_ints(s->c, "parent"), h.n_parent = (hga_id)golden_count(s->c, "parent");
    h.causal = golden_true(s->c, "causal"), h.self = golden_true(s->c, "self_leaf"), h.mode = HGA_HSA_SELF;
    h.node_of = s->node_of = memory(h.n_parent, sizeof *s->node_of);
    assert_ok(hga_build_hsa(&h, &s->p.graph, &s->p.program));
    hga_id n = (hga_id)golden_count(s->c, "leaf_node");
    s->token_of = memory(n, sizeof *s->token_of);
    for (hga_id i = 0; i < n; i++) s->token_of[i] = s->node_of[golden_ints(s->c, "leaf_node")[i]];
    s->p.shape.pos_dim = (hga_id)golden_dim(s->c, "pos_emb", 1);
}

static slope_case open_case(const char *name)
{
    slope_case s = {.c = golden_open("gradients", name)};
    s.p.shape = (hga_shape){.n_heads = 1, .dim = (hga_id)golden_int(s.c, "d")};
    snprintf(s.p.name, sizeof s.p.name, "%s", name);
    if (strncmp(name, "bpt", 3) == 0) build_bpt(&s, name);
    if (strncmp(name, "h1d", 3) == 0) build_htransformer(&s, name);
    if (strncmp(name, "hsa", 3) == 0) build_hsa(&s);
    assert_non_null(s.p.graph);
    problem_fill(&s.p, 1);
    s.p.io.query.data = moved(&s, "q", s.token_of), s.p.io.key.data = moved(&s, "k", s.token_of);
    s.p.io.value.data = moved(&s, "v", s.token_of);
    if (golden_has(s.c, "rel_k"))
        s.p.io.rel_key.data = moved(&s, "rel_k", NULL), s.p.io.rel_key.rows = (hga_id)golden_dim(s.c, "rel_k", 0);
    if (golden_has(s.c, "rpb_bias"))
        s.p.io.rel_bias.data = moved(&s, "rpb_bias", NULL),
        s.p.io.rel_bias.rows = (hga_id)golden_dim(s.c, "rpb_bias", 0);
    if (golden_has(s.c, "pos_emb"))
        s.p.io.node_pos.data = moved(&s, "pos_emb", s.node_of),
        s.p.io.node_pos.rows = (hga_id)golden_dim(s.c, "pos_emb", 0);
    return s;
}

static void close_case(slope_case *s)
{
    problem_clear(&s->p);
    golden_close(s->c);
    free(s->node_of), free(s->token_of);
}

/* The case's array is `got`, its rows where they went. */
static void compare(slope_case *s, const char *array, const float *got, const hga_id *where)
{
    int64_t n = golden_dim(s->c, array, 0), columns = golden_count(s->c, array) / n;
    for (int64_t i = 0; i < n; i++)
        assert_near(array, got + (where ? where[i] : i) * columns, golden_doubles(s->c, array) + i * columns, columns,
                    golden_tolerance(s->c));
}

/* Where a gradient of as many floats as the case's array has goes; NULL where the case has none. */
static float *room(slope_case *s, const char *array)
{
    if (!golden_has(s->c, array)) return NULL;
    float *x = s->p.owned[s->p.n_owned++] = memory(golden_count(s->c, array), sizeof *x);
    for (int64_t i = 0; i < golden_count(s->c, array); i++) x[i] = NAN;
    return x;
}

/* Execute, go back, and compare every array that the case tells. */
static void check(const char *name, hga_options options)
{
    slope_case s = open_case(name);
    hga_plan *plan;
    hga_workspace *workspace;
    options.gradient = 1;
    assert_ok(hga_plan_create(s.p.graph, &s.p.program, &s.p.shape, &options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_io io = s.p.io;
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    float *dq = room(&s, "dq_f64"), *dk = room(&s, "dk_f64"), *dv = room(&s, "dv_f64");
    hga_grad_io grad = {.d_out = {.data = moved(&s, "g", s.token_of), .rows = io.out.rows},
                        .d_query = {.data = dq, .rows = io.query.rows},
                        .d_key = {.data = dk, .rows = io.key.rows},
                        .d_value = {.data = dv, .rows = io.value.rows},
                        .d_rel_key = room(&s, "drel_k_f64"),
                        .d_rel_bias = room(&s, "dbias_f64"),
                        .d_node_pos = room(&s, "dpos_f64")};
    assert_ok(hga_plan_execute(plan, workspace, &io));
    assert_ok(hga_plan_gradient(plan, workspace, &io, &grad));
    compare(&s, "out_f64", io.out.data, s.token_of);
    compare(&s, "dq_f64", dq, s.token_of), compare(&s, "dk_f64", dk, s.token_of);
    compare(&s, "dv_f64", dv, s.token_of);
    if (grad.d_rel_key) compare(&s, "drel_k_f64", grad.d_rel_key, NULL);
    if (grad.d_rel_bias) compare(&s, "dbias_f64", grad.d_rel_bias, NULL);
    if (grad.d_node_pos) compare(&s, "dpos_f64", grad.d_node_pos, s.node_of);
    free(io.tape);
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    close_case(&s);
}

static void plain_gradients_are_those_of_autograd(void **state) { check(*state, (hga_options){.generic = 1}); }

static void gradients_are_those_of_autograd(void **state)
{
    for (hga_id threads = 1; threads <= 2; threads++) check(*state, (hga_options){.threads = threads});
}

int main(void)
{
    int failures = golden_run("gradients", "", plain_gradients_are_those_of_autograd);
    failures += golden_run("gradients", "", gradients_are_those_of_autograd);
    return failures != 0;
}
