/* Treeformer against a literal transcription of eq (2) to (4) in double: routing, TF-attention (fine) and TC-attention
   (coarse). */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEIGHT = 8 };

/* What a case is made of. Tensors are [head][token][dim] there, token * heads + head here. */
typedef struct routed_case {
    golden *c;
    hga_id n, m, heads, dim, height, rows; /* rows: hyperplanes a tree has */
    hga_id branching[MAX_HEIGHT], leaves;
    int binary;
    float *weights, *bias;
    int32_t *query_leaf, *key_leaf;
} routed_case;

/* ---- opening ---- */

/* One level's hyperplanes after those of the levels before. */
static void append_level(routed_case *t, int level)
{
    char w[32], b[32];
    snprintf(w, sizeof w, "w_level%d", level);
    snprintf(b, sizeof b, "b_level%d", level);
    int64_t rows = golden_count(t->c, b);
    memcpy(t->weights + (int64_t)t->rows * t->dim, golden_floats(t->c, w), (size_t)(rows * t->dim) * sizeof(float));
    memcpy(t->bias + t->rows, golden_floats(t->c, b), (size_t)rows * sizeof(float));
    t->rows += (hga_id)rows;
}

static void take_kary_tree(routed_case *t)
{
    t->height = (hga_id)golden_list(t->c, "branching", t->branching, MAX_HEIGHT);
    t->leaves = (hga_id)golden_int(t->c, "num_leaves");
    int64_t rows = hga_route_rows(t->height, t->branching);
    t->weights = memory(rows * t->dim, sizeof(float)), t->bias = memory(rows, sizeof(float));
    for (int l = 0; l < t->height; l++) append_level(t, l);
    assert_int_equal(rows, t->rows);
}

static void take_binary_tree(routed_case *t)
{
    t->binary = 1;
    t->height = (hga_id)golden_int(t->c, "height"), t->heads = (hga_id)golden_int(t->c, "heads");
    t->leaves = 1 << t->height, t->rows = t->leaves - 1;
    for (int l = 0; l < t->height; l++) t->branching[l] = 2;
    int64_t n = (int64_t)t->rows * t->heads;
    assert_int_equal(hga_route_rows(t->height, NULL), t->rows);
    t->weights = memory(n * t->dim, sizeof(float)), t->bias = memory(n, sizeof(float));
    if (t->rows == 0) return;
    memcpy(t->weights, golden_floats(t->c, "tree_w"), (size_t)(n * t->dim) * sizeof(float));
    memcpy(t->bias, golden_floats(t->c, "tree_b"), (size_t)n * sizeof(float));
}

static void route(const routed_case *t, const float *x, hga_id n, int32_t *leaf)
{
    hga_router r = {.height = t->height, .dim = t->dim, .n_heads = t->heads, .weights = t->weights, .bias = t->bias};
    if (!t->binary) r.branching = t->branching;
    assert_ok(hga_route(&r, x, n, t->dim, (ptrdiff_t)n * t->dim, leaf));
}

static void open_case(routed_case *t, const char *name)
{
    memset(t, 0, sizeof *t);
    t->c = golden_open("treeformer", name);
    int kary = golden_member(t->c, "branching");
    t->n = (hga_id)golden_int(t->c, kary ? "n" : "n_queries"), t->m = (hga_id)golden_int(t->c, kary ? "m" : "n_keys");
    t->dim = (hga_id)golden_int(t->c, "d"), t->heads = 1;
    if (kary)
        take_kary_tree(t);
    else
        take_binary_tree(t);
    t->query_leaf = memory((int64_t)t->n * t->heads, sizeof(int32_t)),
    t->key_leaf = memory((int64_t)t->m * t->heads, sizeof(int32_t));
    route(t, golden_floats(t->c, "q"), t->n, t->query_leaf);
    route(t, golden_floats(t->c, "k"), t->m, t->key_leaf);
}

static void close_case(routed_case *t)
{
    golden_close(t->c);
    free(t->weights), free(t->bias), free(t->query_leaf), free(t->key_leaf);
}

/* ---- checking ---- */

/* A leaf determines its ancestors: the node of every level must be the case's. */
static void compare_nodes(const routed_case *t, const char *array, const int32_t *leaf, hga_id n)
{
    const int32_t *want = golden_ints(t->c, array);
    for (int64_t i = 0; i < (int64_t)n * t->heads; i++) {
        int64_t token = i / t->heads, head = i % t->heads;
        int32_t node = leaf[i];
        for (hga_id l = t->height; l >= 0; l--) {
            assert_int_equal(node, want[(head * n + token) * (t->height + 1) + l]);
            if (l > 0) node /= t->branching[l - 1];
        }
    }
}

/* [head][token][dim] to [token * heads + head][dim]. */
static float *fold(const float *x, hga_id n, hga_id heads, hga_id dim)
{
    float *y = memory((int64_t)n * heads * dim, sizeof *y);
    for (int64_t i = 0; i < (int64_t)n * heads; i++)
        memcpy(y + i * dim, x + (i % heads * n + i / heads) * dim, (size_t)dim * sizeof *y);
    return y;
}

/* Keys whose mask is 0 are in no leaf. */
static void apply_key_mask(routed_case *t)
{
    if (!golden_has(t->c, "key_mask")) return;
    for (int64_t i = 0; i < (int64_t)t->m * t->heads; i++)
        if (!golden_ints(t->c, "key_mask")[i / t->heads]) t->key_leaf[i] = -1;
}

static hga_treeformer hierarchy(const routed_case *t)
{
    hga_treeformer h;
    hga_defaults(&h);
    h.n_queries = t->n, h.n_keys = t->m == t->n ? 0 : t->m, h.n_tree_heads = t->heads, h.height = t->height;
    h.branching = t->binary ? NULL : t->branching;
    h.query_leaf = t->query_leaf, h.key_leaf = t->key_leaf;
    return h;
}

static void take_inputs(problem *p, const routed_case *t)
{
    problem_fill(p, 1);
    p->io.query.data = p->owned[p->n_owned++] = fold(golden_floats(t->c, "q"), t->n, t->heads, t->dim);
    p->io.key.data = p->owned[p->n_owned++] = fold(golden_floats(t->c, "k"), t->m, t->heads, t->dim);
    p->io.value.data = p->owned[p->n_owned++] = fold(golden_floats(t->c, "v"), t->m, t->heads, t->dim);
}

static void compare_output(problem *p, const routed_case *t, const char *want)
{
    assert_int_equal(out_count(p), (int64_t)t->n * t->heads * t->dim);
    problem_run(p);
    float *got = memory(out_count(p), sizeof *got);
    for (int64_t i = 0; i < (int64_t)t->n * t->heads; i++)
        memcpy(got + (i % t->heads * t->n + i / t->heads) * t->dim, (float *)p->io.out.data + i * t->dim,
               (size_t)t->dim * sizeof *got);
    assert_near(want, got, golden_doubles(t->c, want), out_count(p), golden_tolerance(t->c));
    free(got);
}

/* Every token goes down the tree of hyperplanes as in the case, ties included. */
static void routing_is_equation_2(void **state)
{
    routed_case t;
    open_case(&t, *state);
    compare_nodes(&t, "node_q", t.query_leaf, t.n);
    compare_nodes(&t, "node_k", t.key_leaf, t.m);
    close_case(&t);
}

typedef hga_status routed_build(const hga_treeformer *t, hga_graph **g, hga_program *p);

/* A hierarchy over a case's own leaves, coarse levels weighed by `alpha` (NULL: not), gives the case's output. */
static void check_equation(const char *name, routed_build *build, const char *alpha, const char *want)
{
    routed_case t;
    open_case(&t, name);
    apply_key_mask(&t);
    problem p = {.shape = {.n_heads = 1, .dim = t.dim}};
    hga_treeformer h = hierarchy(&t);
    snprintf(p.name, sizeof p.name, "%s", name);
    assert_ok(build(&h, &p.graph, &p.program));
    take_inputs(&p, &t);
    if (alpha)
        p.io.type_scale.data = golden_floats(t.c, alpha), p.io.type_scale.rows = (hga_id)golden_count(t.c, alpha);
    compare_output(&p, &t, want);
    problem_clear(&p);
    close_case(&t);
}

static void fine_is_equation_3(void **state) { check_equation(*state, hga_build_treeformer_fine, NULL, "out_tfa_f64"); }

static void coarse_is_equation_4(void **state)
{
    check_equation(*state, hga_build_treeformer_coarse, "alpha", "out_tca_f64");
}

/* ---- the large case: everything from the generator ---- */

static void large_route(golden *c, uint64_t seed, hga_id dim, hga_id height, const float *x, const char *want,
                        int32_t *leaf, hga_id n)
{
    int64_t rows = hga_route_rows(height, NULL);
    float *weights = memory(rows * dim, sizeof *weights), *bias = memory(rows, sizeof *bias);
    for (hga_id l = 0; l < height; l++) {
        int64_t first = (1 << l) - 1, count = 1 << l;
        fill_random(seed + 3 + (uint64_t)l, 1, count * dim, weights + first * dim);
        fill_random(seed + 13 + (uint64_t)l, 0.5, count, bias + first);
    }
    hga_router r = {.height = height, .dim = dim, .n_heads = 1, .weights = weights, .bias = bias};
    assert_ok(hga_route(&r, x, n, dim, dim, leaf));
    for (hga_id i = 0; i < n; i++) assert_int_equal(leaf[i], golden_ints(c, want)[i]);
    free(weights), free(bias);
}

static void large_attention(golden *c, hga_treeformer h, int coarse, const char *rows, const char *checksums)
{
    problem p = {.shape = {.n_heads = 1, .dim = (hga_id)golden_int(c, "d")}};
    uint64_t seed = golden_seed(c);
    assert_ok(coarse ? hga_build_treeformer_coarse(&h, &p.graph, &p.program)
                     : hga_build_treeformer_fine(&h, &p.graph, &p.program));
    problem_fill(&p, seed);
    p.io.type_scale.rows = h.height + 1;
    p.io.type_scale.data = p.owned[p.n_owned++] = random_floats(seed + 20, 1, p.io.type_scale.rows);
    problem_run(&p);
    assert_golden_rows(c, rows, p.io.out.data, p.shape.dim);
    assert_golden_checksums(c, checksums, p.io.out.data, out_count(&p));
    problem_clear(&p);
}

static void large_case(void **state)
{
    golden *c = golden_open("treeformer", *state);
    hga_id n = (hga_id)golden_int(c, "n"), dim = (hga_id)golden_int(c, "d"), height = (hga_id)golden_int(c, "height");
    uint64_t seed = golden_seed(c);
    float *q = random_floats(seed, 2, (int64_t)n * dim), *k = random_floats(seed + 1, 2, (int64_t)n * dim);
    int32_t *query_leaf = memory(n, sizeof *query_leaf), *key_leaf = memory(n, sizeof *key_leaf);
    large_route(c, seed, dim, height, q, "leaf_q", query_leaf, n);
    large_route(c, seed, dim, height, k, "leaf_k", key_leaf, n);
    hga_treeformer h;
    hga_defaults(&h);
    h.n_queries = n, h.height = height, h.query_leaf = query_leaf, h.key_leaf = key_leaf;
    large_attention(c, h, 0, "out_tfa_rows_f64", "checksums_tfa");
    large_attention(c, h, 1, "out_tca_rows_f64", "checksums_tca");
    free(q), free(k), free(query_leaf), free(key_leaf);
    golden_close(c);
}

int main(void)
{
    static const char *const kinds[] = {"plain", "kary", "multihead", "kmask", "emptyleaf", "lemma1", "zero_f"};
    int failures = golden_run("treeformer", "large", large_case);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        failures += golden_run("treeformer", kinds[i], routing_is_equation_2);
        failures += golden_run("treeformer", kinds[i], fine_is_equation_3);
        failures += golden_run("treeformer", kinds[i], coarse_is_equation_4);
    }
    return failures != 0;
}
