/* HSA against a literal transcription of the paper's Algorithms 1 to 3 in double (line 18's sign mended): outputs,
   energies and the causal modes. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A case's tree, its graph, and where the case's nodes and leaves went. */
typedef struct tree_case {
    golden *c;
    problem p;
    hga_id n, n_leaves, *parent, *node_of;
    const int32_t *leaf_node;
    float *pos; /* by the case's node, [n][pos_dim] */
} tree_case;

/* Leave out node `dead`: its children become roots and later ids move down by one. */
static void drop_node(tree_case *t, hga_id dead)
{
    for (hga_id v = 0; v < t->n; v++) t->parent[v] = t->parent[v] == dead ? -1 : t->parent[v] - (t->parent[v] > dead);
    memmove(t->parent + dead, t->parent + dead + 1, (size_t)(t->n - 1 - dead) * sizeof *t->parent);
    if (t->pos) {
        size_t row = (size_t)t->p.shape.pos_dim;
        memmove(t->pos + (size_t)dead * row, t->pos + (size_t)(dead + 1) * row,
                (size_t)(t->n - 1 - dead) * row * sizeof *t->pos);
    }
    t->n--;
}

static void open_tree(tree_case *t, const char *family, const char *name)
{
    memset(t, 0, sizeof *t);
    t->c = golden_open(family, name);
    snprintf(t->p.name, sizeof t->p.name, "%s", name);
    t->n = (hga_id)golden_count(t->c, "parent"), t->n_leaves = (hga_id)golden_count(t->c, "leaf_node");
    t->parent = memory(t->n, sizeof *t->parent), t->node_of = memory(t->n, sizeof *t->node_of);
    memcpy(t->parent, golden_ints(t->c, "parent"), (size_t)t->n * sizeof *t->parent);
    t->leaf_node = golden_ints(t->c, "leaf_node");
    t->p.shape = (hga_shape){.n_heads = 1};
    if (!golden_has(t->c, "pos_emb")) return;
    t->p.shape.pos_dim = (hga_id)golden_dim(t->c, "pos_emb", 1);
    t->pos = memory((int64_t)t->n * t->p.shape.pos_dim, sizeof *t->pos);
    memcpy(t->pos, golden_floats(t->c, "pos_emb"), (size_t)golden_count(t->c, "pos_emb") * sizeof *t->pos);
}

static void close_tree(tree_case *t)
{
    problem_clear(&t->p);
    golden_close(t->c);
    free(t->parent), free(t->node_of), free(t->pos);
}

/* Row i of the case's leaves into the row of the token that leaf i became. `dropped` is the node left out before, or
   larger than all. */
static void put_leaves(const tree_case *t, hga_id dropped, const float *from, hga_id columns, float *to)
{
    for (hga_id i = 0; i < t->n_leaves; i++) {
        hga_id v = t->leaf_node[i];
        memcpy(to + (int64_t)t->node_of[v - (v > dropped)] * columns, from + (int64_t)i * columns,
               (size_t)columns * sizeof *to);
    }
}

/* Build the graph, lay the inputs out in its numbering and run it. q, k, v are by leaf. */
static void run(tree_case *t, hga_hsa h, hga_id dropped, const float *q, const float *k, const float *v, hga_id dim)
{
    problem *p = &t->p;
    hga_id pos_dim = p->shape.pos_dim;
    h.parent = t->parent, h.n_parent = t->n, h.node_of = t->node_of;
    p->shape.dim = dim;
    assert_ok(hga_build_hsa(&h, &p->graph, &p->program));
    problem_fill(p, 1);
    assert_int_equal(p->n_out, t->n_leaves);
    put_leaves(t, dropped, q, dim, p->io.query.data);
    put_leaves(t, dropped, k, dim, p->io.key.data);
    put_leaves(t, dropped, v, dim, p->io.value.data);
    if (t->pos) {
        float *pos = p->owned[p->n_owned++] = memory((int64_t)t->n * pos_dim, sizeof *pos);
        for (hga_id u = 0; u < t->n; u++)
            memcpy(pos + (int64_t)t->node_of[u] * pos_dim, t->pos + (int64_t)u * pos_dim,
                   (size_t)pos_dim * sizeof *pos);
        p->io.node_pos.data = pos, p->io.node_pos.rows = hga_graph_nodes(p->graph).n;
    }
    problem_run(p);
}

static hga_hsa defaults(void)
{
    hga_hsa h;
    hga_defaults(&h);
    return h;
}

static void run_case(tree_case *t, hga_hsa h)
{
    run(t, h, t->n, golden_floats(t->c, "q"), golden_floats(t->c, "k"), golden_floats(t->c, "v"),
        (hga_id)golden_dim(t->c, "q", 1));
}

/* The output by the case's leaves. */
static float *leaf_rows(const tree_case *t, hga_id dropped)
{
    hga_id dim = t->p.shape.dim;
    float *x = memory((int64_t)t->n_leaves * dim, sizeof *x);
    for (hga_id i = 0; i < t->n_leaves; i++) {
        hga_id v = t->leaf_node[i], token = t->node_of[v - (v > dropped)];
        memcpy(x + (int64_t)i * dim, (float *)t->p.io.out.data + (int64_t)token * dim, (size_t)dim * sizeof *x);
    }
    return x;
}

static void compare_leaves(const tree_case *t, hga_id dropped, const char *want)
{
    float *got = leaf_rows(t, dropped);
    assert_near(want, got, golden_doubles(t->c, want), (int64_t)t->n_leaves * t->p.shape.dim, golden_tolerance(t->c));
    free(got);
}

/* ---- energies ---- */

/* psi and the log-sum-exp of every node, by the case's numbering, from the fields that the energy stage reads. */
static void read_energies(tree_case *t, float *psi, float *lse)
{
    hga_plan *plan;
    hga_workspace *workspace;
    const hga_stage *energy = find_stage(&t->p.program, HGA_ENERGY);
    hga_id columns = t->p.shape.dim + 1;
    float *row = memory(columns, sizeof *row);
    assert_non_null(energy);
    t->p.options.keep_fields = 1;
    assert_ok(hga_plan_create(t->p.graph, &t->p.program, &t->p.shape, &t->p.options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    assert_ok(hga_plan_execute(plan, workspace, &t->p.io));
    for (hga_id v = 0; v < t->n; v++) {
        assert_ok(hga_workspace_field(plan, workspace, energy->out, t->node_of[v], 1, psi + v));
        assert_ok(hga_workspace_field(plan, workspace, energy->value, t->node_of[v], 1, row));
        lse[v] = row[columns - 1];
    }
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    free(row);
}

/* phi = sqrt d - psi and eta = sqrt d - LSE; where leaves attend to themselves a leaf's LSE holds both, log(e^-phi +
   e^-eta). */
static void compare_energies(tree_case *t, const char *phi, const char *eta, int self)
{
    float *psi = memory(t->n, sizeof *psi), *lse = memory(t->n, sizeof *lse);
    double *want_psi = memory(t->n, sizeof *want_psi), *want_lse = memory(t->n, sizeof *want_lse),
           root = sqrt(t->p.shape.dim);
    read_energies(t, psi, lse);
    for (hga_id v = 0; v < t->n; v++) {
        double f = golden_doubles(t->c, phi)[v], e = golden_doubles(t->c, eta)[v];
        int leaf = t->node_of[v] < t->n_leaves;
        want_psi[v] = self && leaf ? -INFINITY : root - f;
        want_lse[v] = self && leaf ? root + log(exp(-f) + exp(-e)) : root - e;
    }
    double tolerance = golden_tolerance(t->c) * fmax(1, golden_number(t->c, "d", 4) / 8);
    assert_near(phi, psi, want_psi, t->n, tolerance);
    assert_near(eta, lse, want_lse, t->n, tolerance);
    free(psi), free(lse), free(want_psi), free(want_lse);
}

/* ---- facts ---- */

/* The output and both energies are those of the paper's algorithms. */
static void output_is_the_papers(void **state)
{
    tree_case t;
    open_tree(&t, "hsa", *state);
    if (!golden_has(t.c, "attn_v_f64")) { /* the two cases below, and the large ones */
        close_tree(&t);
        return;
    }
    run_case(&t, defaults());
    compare_leaves(&t, t.n, "attn_v_f64");
    compare_energies(&t, "phi_f64", "eta_f64", 0);
    close_tree(&t);
}

/* Tokens are the leaves from left to right, children by increasing id: what causal modes mean by earlier. */
static void tokens_are_leaves_in_order(void **state)
{
    tree_case t;
    open_tree(&t, "hsa", *state);
    hga_hsa h = defaults();
    h.parent = t.parent, h.n_parent = t.n, h.node_of = t.node_of;
    assert_ok(hga_build_hsa(&h, &t.p.graph, &t.p.program));
    for (hga_id i = 0; i < t.n_leaves; i++) assert_int_equal(t.node_of[t.leaf_node[i]], i);
    close_tree(&t);
}

/* Four trees under a dummy root: without it they are a forest, and each has its own output. */
static void forest_is_separate_trees(void **state)
{
    tree_case t;
    open_tree(&t, "hsa", *state);
    hga_id root = 0;
    while (t.parent[root] >= 0) root++;
    drop_node(&t, root);
    run(&t, defaults(), root, golden_floats(t.c, "q"), golden_floats(t.c, "k"), golden_floats(t.c, "v"),
        (hga_id)golden_dim(t.c, "q", 1));
    compare_leaves(&t, root, "attn_v_separate_f64");
    close_tree(&t);
}

/* Theorem 3.2: the weights are the block-constrained matrix nearest to the flat softmax, found by numerical
   minimisation. */
static void weights_are_those_of_theorem_3_2(void **state)
{
    tree_case t;
    open_tree(&t, "hsa", *state);
    hga_id dim = (hga_id)golden_dim(t.c, "q", 1), n = t.n_leaves;
    float *v = random_floats(32, 1, (int64_t)n * dim);
    double *want = memory((int64_t)n * dim, sizeof *want);
    for (hga_id i = 0; i < n * n; i++)
        for (hga_id c = 0; c < dim; c++)
            want[i / n * dim + c] += golden_doubles(t.c, "theta_hat_f64")[i] * (double)v[i % n * dim + c];
    run(&t, defaults(), t.n, golden_floats(t.c, "q"), golden_floats(t.c, "k"), v, dim);
    float *got = leaf_rows(&t, t.n);
    assert_near("theta_hat v", got, want, (int64_t)n * dim, golden_tolerance(t.c));
    free(v), free(want), free(got);
    close_tree(&t);
}

static void large_case(void **state)
{
    tree_case t;
    open_tree(&t, "hsa", *state);
    uint64_t seed = golden_seed(t.c);
    hga_id dim = (hga_id)golden_int(t.c, "d");
    int64_t n = (int64_t)t.n_leaves * dim;
    t.p.shape.pos_dim = 4;
    t.pos = random_floats(seed + 3, 1, (int64_t)t.n * t.p.shape.pos_dim);
    float *q = random_floats(seed, 2, n), *k = random_floats(seed + 1, 2, n), *v = random_floats(seed + 2, 2, n);
    run(&t, defaults(), t.n, q, k, v, dim);
    float *got = leaf_rows(&t, t.n);
    assert_golden_rows(t.c, "attn_v_rows_f64", got, dim);
    assert_golden_checksums(t.c, "checksums_full_attn_v", got, n);
    free(q), free(k), free(v), free(got);
    close_tree(&t);
}

/* Leaves that also attend to themselves, in both directions. */
static void noncausal_self(void **state)
{
    tree_case t;
    open_tree(&t, "hsa_causal", *state);
    hga_hsa h = defaults();
    h.self = 1;
    run_case(&t, h);
    compare_leaves(&t, t.n, "attn_v_noncausal_self_f64");
    compare_energies(&t, "phi_noncausal_self_f64", "eta_noncausal_self_f64", 1);
    close_tree(&t);
}

/* The paper's block constraint with left siblings only, mended by letting leaves attend to themselves. */
static void causal_self(void **state)
{
    tree_case t;
    open_tree(&t, "hsa_causal", *state);
    hga_hsa h = defaults();
    h.causal = 1, h.self = 1, h.mode = HGA_HSA_SELF;
    run_case(&t, h);
    compare_leaves(&t, t.n, "attn_v_self_f64");
    compare_energies(&t, "phi_self_f64", "eta_self_f64", 1);
    close_tree(&t);
}

/* Itself and the left siblings of its ancestors, by its own query. */
static void causal_frontier(void **state)
{
    tree_case t;
    open_tree(&t, "hsa_causal", *state);
    hga_hsa h = defaults();
    h.causal = 1, h.mode = HGA_HSA_FRONTIER;
    run_case(&t, h);
    compare_leaves(&t, t.n, "attn_v_frontier_f64");
    close_tree(&t);
}

int main(void)
{
    int failures = golden_run("hsa", "", output_is_the_papers);
    failures += golden_run("hsa", "", tokens_are_leaves_in_order);
    failures += golden_run("hsa", "breadthwise", forest_is_separate_trees);
    failures += golden_run("hsa", "theorem", weights_are_those_of_theorem_3_2);
    failures += golden_run("hsa", "large", large_case);
    failures += golden_run("hsa_causal", "", noncausal_self);
    failures += golden_run("hsa_causal", "", causal_self);
    failures += golden_run("hsa_causal", "", causal_frontier);
    return failures != 0;
}
