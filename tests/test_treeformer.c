/* test_treeformer.c: the graphs of TF- and TC-attention, edge by edge, and their outputs against equations (3) and (4)
   in double. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static hga_treeformer tokens(hga_id n, const int32_t *leaf)
{
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = n, t.query_leaf = leaf;
    return t;
}

static void assert_edges(const hga_graph *g, const char *name, const edge *want, int64_t n)
{
    int64_t n_got;
    edge *got = all_edges(g, hga_graph_find_relation(g, name), &n_got);
    assert_same_edges(name, got, n_got, want, n);
    free(got);
}

/* ---- fine: structure ---- */

static void a_leaf_is_one_block(void **state)
{
    (void)state;
    const int32_t leaf[] = {1, 0, 1, -1, 0, 1};
    const edge want[] = {
        {.dst = 0, .src = 0}, {.dst = 0, .src = 2}, {.dst = 0, .src = 5}, {.dst = 1, .src = 1}, {.dst = 1, .src = 4},
        {.dst = 2, .src = 0}, {.dst = 2, .src = 2}, {.dst = 2, .src = 5}, {.dst = 4, .src = 1}, {.dst = 4, .src = 4},
        {.dst = 5, .src = 0}, {.dst = 5, .src = 2}, {.dst = 5, .src = 5},
    };
    hga_treeformer t = tokens(6, leaf);
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    assert_edges(g, "leaf", want, 13);
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 2);
    assert_int_equal(p.has_lse, 1);
    assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_SINGLE);
    hga_graph_destroy(g);
}

static void causal_keeps_earlier_tokens_of_the_leaf(void **state)
{
    (void)state;
    const int32_t leaf[] = {1, 0, 1, 0};
    const edge want[] = {
        {.dst = 0, .src = 0}, {.dst = 1, .src = 1}, {.dst = 2, .src = 0},
        {.dst = 2, .src = 2}, {.dst = 3, .src = 1}, {.dst = 3, .src = 3},
    };
    hga_treeformer t = tokens(4, leaf);
    t.causal = 1;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    assert_edges(g, "leaf", want, 6);
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 2);
    assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_CAUSAL);
    hga_graph_destroy(g);
}

static void cross_attention_has_queries_then_keys(void **state)
{
    (void)state;
    const int32_t query[] = {0, 1}, key[] = {1, 1, 5};
    const edge want[] = {
        {.dst = 1, .src = 2},
        {.dst = 1, .src = 3},
    };
    hga_treeformer t = tokens(2, query);
    t.n_keys = 3, t.key_leaf = key;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    assert_edges(g, "leaf", want, 2);
    hga_nodes v = hga_graph_nodes(g);
    assert_int_equal(v.n_queries, 2);
    assert_int_equal(v.key_first, 2);
    assert_int_equal(v.n_keys, 3);
    assert_int_equal(v.side[1], HGA_SIDE_QUERY);
    assert_int_equal(v.side[2], HGA_SIDE_KEY);
    hga_graph_destroy(g);
}

static void heads_with_trees_of_their_own_never_meet(void **state)
{
    (void)state;
    const int32_t leaf[] = {0, 0, 0, 1}; /* token 0: leaf 0 in both heads; token 1: leaf 0 and leaf 1 */
    const edge want[] = {
        {.dst = 0, .src = 0}, {.dst = 0, .src = 2}, {.dst = 1, .src = 1},
        {.dst = 2, .src = 0}, {.dst = 2, .src = 2}, {.dst = 3, .src = 3},
    };
    hga_treeformer t = tokens(2, leaf);
    t.n_tree_heads = 2;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    assert_int_equal(hga_graph_nodes(g).n, 4);
    assert_edges(g, "leaf", want, 6);
    hga_graph_destroy(g);
}

/* n rows, heads folded; edges by trying every pair */
static edge *pairs(hga_id n, hga_id heads, const int32_t *query, const int32_t *key, int causal, int64_t *count)
{
    edge *e = memory((int64_t)n * n, sizeof *e);
    *count = 0;
    for (hga_id i = 0; i < n; i++)
        for (hga_id j = 0; j < n; j++)
            if (query[i] >= 0 && query[i] == key[j] && i % heads == j % heads && (!causal || j <= i))
                e[(*count)++] = (edge){.dst = i, .src = j};
    return e;
}

static void random_leaves(uint64_t *rng, hga_id n, hga_id n_leaves, int32_t *leaf)
{
    for (hga_id i = 0; i < n; i++) leaf[i] = random_below(rng, n_leaves + 1) - 1;
}

/* Queries and keys routed by trees of their own: the earlier keys of a leaf are a staircase. */
static void random_leaves_give_the_pairs_of_the_definition(void **state)
{
    (void)state;
    enum { N = 90 };
    uint64_t rng = 7;
    for (int round = 0; round < 40; round++) {
        int32_t query[N], key[N];
        hga_id heads = 1 + random_below(&rng, 3), n_leaves = 1 + random_below(&rng, 5),
               n = heads * (1 + random_below(&rng, N / 3));
        random_leaves(&rng, n, n_leaves, query);
        random_leaves(&rng, n, n_leaves, key);
        hga_treeformer t = tokens(n / heads, query);
        t.n_tree_heads = heads, t.n_leaves = n_leaves, t.key_leaf = round % 3 ? key : NULL, t.causal = round % 2;
        hga_graph *g;
        hga_program p;
        int64_t count;
        assert_ok(hga_build_treeformer_fine(&t, &g, &p));
        edge *want = pairs(n, heads, query, t.key_leaf ? key : query, t.causal, &count);
        assert_edges(g, "leaf", want, count);
        free(want);
        hga_graph_destroy(g);
    }
}

static hga_pos widest_row(const hga_graph *g)
{
    hga_segment s[64];
    hga_pos widest = 0;
    for (hga_id i = 0; i < hga_graph_nodes(g).n; i++) {
        hga_pos n = hga_graph_segments(g, 0, i, 1, s, 64);
        widest = n > widest ? n : widest;
    }
    return widest;
}

static void a_causal_row_has_few_intervals(void **state)
{
    (void)state;
    enum { N = 4096 };
    static int32_t query[N], key[N];
    uint64_t rng = 3;
    random_leaves(&rng, N, 2, query);
    random_leaves(&rng, N, 2, key);
    hga_treeformer t = tokens(N, query);
    t.key_leaf = key, t.causal = 1;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    assert_true(hga_graph_relation(g, 0).n_blocks <= N);
    assert_true(widest_row(g) <= 13);
    hga_graph_destroy(g);
}

/* ---- coarse: structure ---- */

/* Height 1: leaves are nodes 4 and 5, the root is node 6. */
static void a_tree_node_reads_its_keys_and_serves_its_queries(void **state)
{
    (void)state;
    const int32_t leaf[] = {1, 0, -1, 1};
    const edge member[] = {
        {.dst = 4, .src = 1}, {.dst = 5, .src = 0}, {.dst = 5, .src = 3},
        {.dst = 6, .src = 0}, {.dst = 6, .src = 1}, {.dst = 6, .src = 3},
    };
    const edge path[] = {
        {.dst = 0, .src = 5, .type = 1}, {.dst = 0, .src = 6}, {.dst = 1, .src = 4, .type = 1}, {.dst = 1, .src = 6},
        {.dst = 3, .src = 5, .type = 1}, {.dst = 3, .src = 6},
    };
    hga_treeformer t = tokens(4, leaf);
    t.height = 1;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_coarse(&t, &g, &p));
    assert_edges(g, "member", member, 6);
    assert_edges(g, "path", path, 6);
    hga_nodes v = hga_graph_nodes(g);
    assert_int_equal(v.n_levels, 3);
    assert_int_equal(v.parent[4], 6);
    assert_int_equal(v.parent[5], 6);
    assert_true(v.mass[4] == 1 && v.mass[5] == 2 && v.mass[6] == 3);
    assert_int_equal(p.has_lse, 0);
    hga_graph_destroy(g);
}

static void coarse_edges_are_few_blocks(void **state)
{
    (void)state;
    enum { N = 5000, HEIGHT = 4 };
    static int32_t leaf[N];
    uint64_t rng = 9;
    random_leaves(&rng, N, 1 << HEIGHT, leaf);
    hga_treeformer t = tokens(N, leaf);
    t.height = HEIGHT;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_coarse(&t, &g, &p));
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 31);
    assert_int_equal(hga_graph_relation(g, 1).n_blocks, 31);
    hga_graph_destroy(g);
}

/* ---- outputs ---- */

/* A case: every head has a tree; tensors are [token][tree head][dim], so that token * heads + head is a row. */
typedef struct routed {
    hga_treeformer t;
    hga_id branching[3];
    int32_t *query, *key;
    float alpha[4];
} routed;

static hga_id product(const hga_id *b, hga_id n) { return n ? b[0] * product(b + 1, n - 1) : 1; }

static void draw(uint64_t *rng, int cross, routed *c)
{
    memset(c, 0, sizeof *c);
    hga_treeformer t;
    hga_defaults(&t);
    t.height = random_below(rng, 4), t.n_tree_heads = 1 + random_below(rng, 3);
    t.n_queries = 1 + random_below(rng, 40), t.n_keys = cross ? 1 + random_below(rng, 40) : 0;
    for (hga_id l = 0; l < 3; l++) c->branching[l] = 1 + random_below(rng, 4);
    hga_id q = t.n_queries * t.n_tree_heads, k = (cross ? t.n_keys : t.n_queries) * t.n_tree_heads,
           leaves = product(c->branching, t.height);
    c->query = memory(q, sizeof *c->query), c->key = memory(k, sizeof *c->key);
    random_leaves(rng, q, leaves, c->query);
    random_leaves(rng, k, leaves, c->key);
    fill_random(next_random(rng), 1, 4, c->alpha);
    c->t = t, c->t.branching = c->branching, c->t.query_leaf = c->query, c->t.key_leaf = c->key;
}

/* the inputs of both programs, and the result of running it */
static void run(problem *r, hga_id dim, hga_id dim_v, uint64_t seed, const float *alpha, hga_id n_alpha)
{
    r->shape = (hga_shape){.n_heads = 1, .n_kv_heads = 1, .dim = dim, .dim_v = dim_v};
    problem_fill(r, seed);
    r->io.type_scale.data = alpha, r->io.type_scale.rows = n_alpha;
    problem_run(r);
}

/* TF-A: out_i = softmax over the keys of i's leaf of q_i.k_j / sqrt(d), times v_j */
static void fine_row(const routed *c, const problem *r, hga_id i, double *out)
{
    const float *q = r->io.query.data, *k = r->io.key.data, *v = r->io.value.data;
    hga_id dim = r->shape.dim, dim_v = r->shape.dim_v, heads = c->t.n_tree_heads,
           n_keys = (c->t.n_keys ? c->t.n_keys : c->t.n_queries) * heads;
    double sum = 0;
    for (hga_id x = 0; x < dim_v; x++) out[x] = 0;
    for (hga_id j = i % heads; j < n_keys; j += heads) {
        double s = 0;
        if (c->query[i] < 0 || c->query[i] != c->key[j] || (c->t.causal && j > i)) continue;
        for (hga_id x = 0; x < dim; x++) s += (double)q[i * dim + x] * (double)k[j * dim + x];
        s = exp(s / sqrt(dim)), sum += s;
        for (hga_id x = 0; x < dim_v; x++) out[x] += s * (double)v[j * dim_v + x];
    }
    for (hga_id x = 0; x < dim_v; x++) out[x] = sum > 0 ? out[x] / sum : 0;
}

static void fine_is_softmax_over_the_leaf(void **state)
{
    (void)state;
    uint64_t rng = 11;
    for (int round = 0; round < 20; round++) {
        routed c;
        problem r = {.name = "fine"};
        draw(&rng, round % 2, &c);
        c.t.causal = round % 4 == 2;
        assert_ok(hga_build_treeformer_fine(&c.t, &r.graph, &r.program));
        run(&r, 5, 6, 50 + (uint64_t)round, NULL, 0);
        hga_id n = c.t.n_queries * c.t.n_tree_heads;
        double *want = memory(n * 6, sizeof *want);
        for (hga_id i = 0; i < n; i++) fine_row(&c, &r, i, want + i * 6);
        assert_near("out", r.io.out.data, want, n * 6, 1e-5);
        free(want), free(c.query), free(c.key);
        problem_clear(&r);
    }
}

/* node of level l above a leaf */
static hga_id node_of(const routed *c, hga_id leaf, hga_id level)
{
    return leaf / product(c->branching + level, c->t.height - level);
}

/* TC-A: out_i = sum_l alpha_l mean { v_j : node_l(j) = node_l(i) } */
static void coarse_row(const routed *c, const float *v, hga_id dim, hga_id i, double *out)
{
    hga_id heads = c->t.n_tree_heads, n_keys = (c->t.n_keys ? c->t.n_keys : c->t.n_queries) * heads;
    for (hga_id x = 0; x < dim; x++) out[x] = 0;
    for (hga_id l = 0; l <= c->t.height && c->query[i] >= 0; l++)
        for (hga_id x = 0; x < dim; x++) {
            double sum = 0, count = 0;
            for (hga_id j = i % heads; j < n_keys; j += heads)
                if (c->key[j] >= 0 && node_of(c, c->key[j], l) == node_of(c, c->query[i], l))
                    sum += (double)v[j * dim + x], count++;
            if (count > 0) out[x] += (double)c->alpha[l] * sum / count;
        }
}

static void coarse_is_a_weighted_sum_of_means(void **state)
{
    (void)state;
    uint64_t rng = 12;
    for (int round = 0; round < 20; round++) {
        routed c;
        problem r = {.name = "coarse"};
        draw(&rng, round % 2, &c);
        assert_ok(hga_build_treeformer_coarse(&c.t, &r.graph, &r.program));
        run(&r, 5, 6, 90 + (uint64_t)round, c.alpha, c.t.height + 1);
        hga_id n = c.t.n_queries * c.t.n_tree_heads;
        double *want = memory(n * 6, sizeof *want);
        for (hga_id i = 0; i < n; i++) coarse_row(&c, r.io.value.data, 6, i, want + i * 6);
        assert_near("out", r.io.out.data, want, n * 6, 1e-5);
        free(want), free(c.query), free(c.key);
        problem_clear(&r);
    }
}

/* Lemma 1 of the paper: when all fall into one leaf, TF-attention is full attention; the graph is then one block. */
static void one_leaf_is_full_attention(void **state)
{
    (void)state;
    const int32_t leaf[9] = {3, 3, 3, 3, 3, 3, 3, 3, 3};
    hga_treeformer t = tokens(9, leaf);
    t.height = 2;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 1);
    assert_int_equal(hga_graph_relation(g, 0).n_edges, 81);
    hga_graph_destroy(g);
}

/* ---- refusals ---- */

static void bad_parameters_are_named(void **state)
{
    (void)state;
    const int32_t leaf[] = {0, 3, 1}, wrong[] = {0, -2, 1};
    const hga_id zero[] = {2, 0};
    hga_treeformer good = tokens(3, leaf), t;
    good.height = 2;
    hga_graph *g = (hga_graph *)&good;
    hga_program p;
    t = good, t.causal = 1;
    assert_status(HGA_EUNSUPPORTED, hga_build_treeformer_coarse(&t, &g, &p));
    assert_null(g);
    t.n_keys = 3, t.key_leaf = leaf;
    assert_status(HGA_EUNSUPPORTED, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.n_queries = 0;
    assert_status(HGA_EINVAL, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.query_leaf = NULL;
    assert_status(HGA_EINVAL, hga_build_treeformer_coarse(&t, &g, &p));
    t = good, t.n_keys = 2;
    assert_status(HGA_EINVAL, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.n_leaves = 5;
    assert_status(HGA_EINVAL, hga_build_treeformer_coarse(&t, &g, &p));
    t = good, t.query_leaf = wrong;
    assert_status(HGA_EINVAL, hga_build_treeformer_fine(&t, &g, &p));
    assert_non_null(strstr(hga_error_detail(), "query_leaf[1] is -2"));
    t = good, t.height = 1;
    assert_status(HGA_EINVAL, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.branching = zero;
    assert_status(HGA_EINVAL, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.n_tree_heads = 0;
    assert_status(HGA_EINVAL, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.n_tree_heads = INT32_MAX;
    assert_status(HGA_EOVERFLOW, hga_build_treeformer_fine(&t, &g, &p));
    t = good, t.height = 40;
    assert_status(HGA_EOVERFLOW, hga_build_treeformer_coarse(&t, &g, &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_is_one_block),
        cmocka_unit_test(causal_keeps_earlier_tokens_of_the_leaf),
        cmocka_unit_test(cross_attention_has_queries_then_keys),
        cmocka_unit_test(heads_with_trees_of_their_own_never_meet),
        cmocka_unit_test(random_leaves_give_the_pairs_of_the_definition),
        cmocka_unit_test(a_causal_row_has_few_intervals),
        cmocka_unit_test(a_tree_node_reads_its_keys_and_serves_its_queries),
        cmocka_unit_test(coarse_edges_are_few_blocks),
        cmocka_unit_test(fine_is_softmax_over_the_leaf),
        cmocka_unit_test(coarse_is_a_weighted_sum_of_means),
        cmocka_unit_test(one_leaf_is_full_attention),
        cmocka_unit_test(bad_parameters_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
