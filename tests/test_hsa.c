/* test_hsa.c: HSA's graphs against the definition, pair by pair, and what is refused. */
#include "hsa.h"

#include <stdlib.h>
#include <string.h>

/* ---- structure ---- */

/* 10 tokens in windows of 4 (tokens 0 - 3, 4 - 7, 8 - 9 below nodes 10, 11, 12), one window over the three: node 13. */
static void hopping_windows_are_one_block_a_level_and_a_rest(void **state)
{
    (void)state;
    const hga_id four[] = {4};
    hga_program p;
    hga_hsa h = windows(10, four, 1);
    hga_graph *g = build(&h, &p);
    hga_nodes v = hga_graph_nodes(g);
    hga_relation r = hga_graph_relation(g, hga_graph_find_relation(g, "sibling"));
    const hga_id levels[] = {0, 10, 13, 14}, parents[] = {10, 10, 10, 10, 11, 11, 11, 11, 12, 12, 13, 13, 13, -1};
    assert_int_equal(v.n_levels, 3);
    assert_memory_equal(v.level_ptr, levels, sizeof levels);
    assert_memory_equal(v.parent, parents, sizeof parents);
    assert_int_equal(r.n_blocks, 3);
    assert_null(r.dst_order);
    assert_null(r.src_order);
    assert_int_equal(r.blocks[0].count, 2);
    assert_int_equal(r.blocks[0].shape, HGA_OFF_DIAGONAL);
    assert_int_equal(r.n_edges, 12 + 12 + 2 + 6);
    assert_int_equal(v.claims, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE);
    hga_graph_destroy(g);
}

static void the_last_branching_is_repeated_until_one_root_is_left(void **state)
{
    (void)state;
    const hga_id b[] = {2, 4, 8};
    const hga_id sizes[] = {0, 600, 900, 975, 985, 987, 988};
    hga_program p;
    hga_hsa h = windows(600, b, 3);
    hga_graph *g = build(&h, &p);
    hga_nodes v = hga_graph_nodes(g);
    assert_int_equal(v.n_levels, 6);
    assert_memory_equal(v.level_ptr, sizes, sizeof sizes);
    hga_graph_destroy(g);
}

/* node 0 is the root; 1, 2 and 5 its children, 3 and 4 below 2, 6 below 1 and 7 below 6 */
static void nodes_are_numbered_by_height_then_first_token(void **state)
{
    (void)state;
    hga_id node_of[8];
    const hga_id want[] = {7, 6, 5, 1, 2, 3, 4, 0}, mass[] = {1, 1, 1, 1, 1, 2, 1, 4};
    hga_program p;
    hga_hsa h = tree(ragged, 8, node_of);
    hga_graph *g = build(&h, &p);
    hga_nodes v = hga_graph_nodes(g);
    assert_memory_equal(node_of, want, sizeof want);
    assert_int_equal(v.n_queries, 4);
    for (hga_id i = 0; i < 8; i++) {
        assert_true(v.mass[i] == (float)mass[i]);
        assert_int_equal(v.parent[node_of[i]], ragged[i] < 0 ? -1 : node_of[ragged[i]]);
    }
    hga_graph_destroy(g);
}

/* Siblings of all heights are one interval of the relation's order: 6 (chain), 5 (pair) and leaf 3 below the root, 1
   and 2 below 5. */
static void a_family_of_several_levels_is_one_block(void **state)
{
    (void)state;
    const edge want[] = {
        {.dst = 1, .src = 2}, {.dst = 2, .src = 1}, {.dst = 3, .src = 5}, {.dst = 3, .src = 6},
        {.dst = 5, .src = 3}, {.dst = 5, .src = 6}, {.dst = 6, .src = 3}, {.dst = 6, .src = 5},
    };
    hga_program p;
    hga_hsa h = tree(ragged, 8, NULL);
    hga_graph *g = build(&h, &p);
    int64_t n;
    edge *got = all_edges(g, 0, &n);
    assert_same_edges("sibling", got, n, want, 8);
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 2);
    free(got);
    hga_graph_destroy(g);
}

/* every pair of nodes, by the definition */
static edge *sibling_pairs(const family_tree *t, int self, int causal, int64_t *n)
{
    edge *e = memory((int64_t)t->n * t->n, sizeof *e);
    *n = 0;
    for (hga_id a = 0; a < t->n; a++)
        for (hga_id b = 0; b < t->n; b++)
            if ((siblings(t, a, b) && (!causal || t->first[b] < t->first[a])) || (self && a == b && is_leaf(t, a)))
                e[(*n)++] = (edge){.dst = t->node_of[a], .src = t->node_of[b], .pos_of = t->node_of[a]};
    sort_edges(e, *n);
    return e;
}

/* leaf i: itself, and the left siblings C of i and its ancestors B; position of B */
static edge *frontier_pairs(const family_tree *t, int64_t *n)
{
    edge *e = memory((int64_t)t->n * t->n, sizeof *e);
    *n = 0;
    for (hga_id i = 0; i < t->n_leaves; i++) {
        hga_id leaf = t->leaf[i];
        e[(*n)++] = (edge){.dst = i, .src = i, .pos_of = i};
        for (hga_id b = leaf; b >= 0; b = t->parent[b])
            for (hga_id c = 0; c < t->n; c++)
                if (siblings(t, b, c) && t->first[c] < t->first[b])
                    e[(*n)++] = (edge){.dst = i, .src = t->node_of[c], .pos_of = t->node_of[b]};
    }
    sort_edges(e, *n);
    return e;
}

static void check_structure(const hga_id *parent, hga_id n, int causal, int self, hga_hsa_mode mode)
{
    family_tree t;
    hga_program p;
    int64_t n_want, n_got;
    understand(&t, parent, n);
    hga_hsa h = tree(parent, n, t.node_of);
    h.causal = causal, h.self = self, h.mode = mode, h.n_tokens = t.n_leaves;
    hga_graph *g = build(&h, &p);
    for (hga_id v = 0; v < n; v++) {
        assert_int_equal(hga_graph_level(g, t.node_of[v]), t.height[v]);
        if (is_leaf(&t, v)) assert_int_equal(t.node_of[v], t.index[v]);
    }
    edge *want = causal && mode == HGA_HSA_FRONTIER ? frontier_pairs(&t, &n_want)
                                                    : sibling_pairs(&t, self || causal, causal, &n_want);
    edge *got = all_edges(g, 0, &n_got);
    assert_same_edges("edges", got, n_got, want, n_want);
    for (int64_t e = 0; e < n_got; e++) assert_int_equal(got[e].pos_of, want[e].pos_of);
    free(want), free(got);
    hga_graph_destroy(g);
}

static void random_trees_give_the_pairs_of_the_definition(void **state)
{
    (void)state;
    uint64_t rng = 21;
    for (int round = 0; round < 30; round++) {
        hga_id n, *parent = random_tree(next_random(&rng), 1 + random_below(&rng, 40), &n);
        if (round % 2) shuffle_names(parent, n, &rng);
        check_structure(parent, n, 0, 0, HGA_HSA_FRONTIER);
        check_structure(parent, n, 0, 1, HGA_HSA_FRONTIER);
        check_structure(parent, n, 1, 0, HGA_HSA_FRONTIER);
        check_structure(parent, n, 1, 0, HGA_HSA_SELF);
        free(parent);
    }
}

/* the parents that hopping windows stand for */
static hga_id window_parents(hga_id n, const hga_id *branching, hga_id n_branching, hga_id *parent)
{
    hga_id first = 0, m = n;
    for (hga_id l = 0; m > 1; l++) {
        hga_id b = branching[l < n_branching ? l : n_branching - 1];
        for (hga_id i = 0; i < m; i++) parent[first + i] = first + m + i / b;
        first += m, m = (m + b - 1) / b;
    }
    parent[first] = -1;
    return first + 1;
}

static void windows_equal_their_parents(void **state)
{
    (void)state;
    const hga_id b[] = {3, 2};
    for (hga_id n = 1; n < 60; n++)
        for (int mode = 0; mode < 4; mode++) {
            hga_id parent[MOST], nodes = window_parents(n, b, 2, parent);
            hga_program p;
            hga_hsa h = windows(n, b, 2), k = tree(parent, nodes, NULL);
            h.causal = k.causal = mode >= 2, h.mode = k.mode = mode == 2 ? HGA_HSA_SELF : HGA_HSA_FRONTIER,
            h.self = k.self = mode == 1;
            hga_graph *g = build(&h, &p), *f = build(&k, &p);
            int64_t x, y;
            edge *e = all_edges(g, 0, &x), *d = all_edges(f, 0, &y);
            assert_same_edges("windows", e, x, d, y);
            for (int64_t i = 0; i < x; i++) assert_int_equal(e[i].pos_of, d[i].pos_of);
            assert_int_equal(hga_graph_relation(g, 0).n_blocks, hga_graph_relation(f, 0).n_blocks);
            free(e), free(d);
            hga_graph_destroy(g), hga_graph_destroy(f);
        }
}

static void frontiers_of_windows_are_few_blocks(void **state)
{
    (void)state;
    const hga_id four[] = {4};
    hga_program p;
    hga_hsa h = windows(100001, four, 1);
    h.causal = 1;
    hga_graph *g = build(&h, &p);
    hga_id levels = hga_graph_nodes(g).n_levels;
    assert_true(hga_graph_relation(g, 0).n_blocks <= levels * 5);
    hga_graph_destroy(g);
}

static void a_leaf_alone_has_no_edge_but_its_own(void **state)
{
    (void)state;
    const hga_id root[] = {-1};
    check_structure(root, 1, 0, 0, HGA_HSA_FRONTIER);
    check_structure(root, 1, 0, 1, HGA_HSA_FRONTIER);
    check_structure(root, 1, 1, 0, HGA_HSA_FRONTIER);
    check_structure(root, 1, 1, 0, HGA_HSA_SELF);
}

/* two trees and a lone leaf: no edges between the roots, so not every pair is promised */
static void a_forest_is_a_batch(void **state)
{
    (void)state;
    const hga_id forest[] = {2, 2, -1, 5, 5, -1, -1};
    const hga_id modes[4][3] = {{0, 0, 0}, {0, 1, 0}, {1, 0, HGA_HSA_FRONTIER}, {1, 0, HGA_HSA_SELF}};
    hga_program p;
    for (int m = 0; m < 4; m++) check_structure(forest, 7, modes[m][0], modes[m][1], (hga_hsa_mode)modes[m][2]);
    hga_hsa h = tree(forest, 7, NULL);
    hga_graph *g = build(&h, &p);
    assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_SINGLE);
    hga_graph_destroy(g);
}

/* ---- promises ---- */

static hga_id latest_seen(const hga_hsa *h)
{
    hga_program p;
    hga_id token, sees;
    hga_graph *g = build(h, &p);
    assert_ok(hga_program_influence(&p, g, &token, &sees));
    hga_graph_destroy(g);
    return token;
}

/* The weights of the mode `self` come from means over whole subtrees; the frontier's do not. */
static void the_frontier_is_causal_and_self_is_not(void **state)
{
    (void)state;
    const hga_id three[] = {3};
    hga_hsa h = windows(20, three, 1);
    h.causal = 1;
    assert_int_equal(latest_seen(&h), -1);
    h.mode = HGA_HSA_SELF;
    assert_true(latest_seen(&h) >= 0);
}

static void every_pair_is_covered_once(void **state)
{
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        hga_id n, *parent = random_tree(77, 30, &n);
        hga_hsa h = tree(parent, n, NULL);
        hga_program p;
        hga_coverage c;
        h.causal = mode >= 2, h.self = mode == 1, h.mode = mode == 2 ? HGA_HSA_SELF : HGA_HSA_FRONTIER;
        hga_graph *g = build(&h, &p);
        assert_ok(hga_program_coverage(&p, g, h.causal, &c));
        assert_int_equal(c.more, 0);
        assert_int_equal(c.none, mode == 0 ? 30 : 0);
        assert_int_equal(c.none_diagonal, c.none);
        if (h.causal) assert_int_equal(c.later, 0);
        hga_graph_destroy(g);
        free(parent);
    }
}

/* ---- refusals ---- */

static void refused(hga_hsa h, const char *says)
{
    hga_graph *g = (hga_graph *)&h;
    hga_program p;
    assert_status(HGA_EINVAL, hga_build_hsa(&h, &g, &p));
    assert_null(g);
    if (!strstr(hga_error_detail(), says)) fail_msg("\"%s\" does not say \"%s\"", hga_error_detail(), says);
}

static void bad_parameters_are_named(void **state)
{
    (void)state;
    const hga_id cycle[] = {4, -1, 3, 2, 1}, far[] = {1, 7}, low[] = {1, -2}, own[] = {-1, 1}, ones[] = {2, 1},
                 none[] = {2, 0}, two[] = {2};
    refused(tree(cycle, 5, NULL), "node 2");
    refused(tree(far, 2, NULL), "parent of node 1: 7");
    refused(tree(low, 2, NULL), "parent of node 1: -2");
    refused(tree(own, 2, NULL), "node 1 is its own ancestor");
    refused(tree(own, 0, NULL), "n_parent is 0");
    refused(windows(0, two, 1), "n_tokens is 0");
    refused(windows(5, two, 0), "n_branching is 0");
    refused(windows(5, none, 2), "branching[1] is 0");
    refused(windows(5, ones, 2), "branching[1] is 1");
    refused(windows(5, NULL, 0), "parent or branching");
    hga_hsa h = tree(ragged, 8, NULL);
    h.n_tokens = 5;
    refused(h, "n_tokens is 5, but parent has 4 leaves");
    h.n_tokens = 0, h.branching = two, h.n_branching = 1;
    refused(h, "not both");
    h = tree(ragged, 8, NULL), h.causal = 1, h.mode = (hga_hsa_mode)7;
    refused(h, "mode 7");
}

/* the example of the page: leaves 0, 2 below node 4 and 1, 3 below 5 */
static const hga_id crossed[] = {4, 5, 4, 5, 6, 6, -1};

static void rows_are_leaves_depth_first_or_by_id(void **state)
{
    (void)state;
    hga_id node_of[7];
    hga_program p;
    hga_hsa h = tree(crossed, 7, node_of);
    static const hga_id depth_first[] = {0, 2, 1, 3, 4, 5, 6}, by_id[] = {0, 1, 2, 3, 4, 5, 6};
    hga_graph_destroy(build(&h, &p));
    assert_memory_equal(node_of, depth_first, sizeof depth_first);
    h.leaves = HGA_LEAVES_BY_ID;
    hga_graph_destroy(build(&h, &p));
    assert_memory_equal(node_of, by_id, sizeof by_id);
}

/* out of either order, on rows brought into that order, is the same for each leaf */
static void leaves_by_id_are_the_same_attention(void **state)
{
    enum { TOKENS = 40, COLUMNS = 5, CAPACITY = 400 };
    (void)state;
    for (uint64_t seed = 1; seed < 12; seed++) {
        hga_id n, parent[CAPACITY], node_of[2][CAPACITY], new_of[CAPACITY];
        hga_id *tidy = random_tree(seed, TOKENS, &n);
        assert_true(n < CAPACITY);
        for (hga_id v = 0; v < n; v++) new_of[v] = v;
        for (hga_id v = n - 1; v > 0; v--) { /* ids in any order */
            uint64_t rng = seed * 1000 + (uint64_t)v;
            hga_id u = random_below(&rng, v + 1), w = new_of[v];
            new_of[v] = new_of[u], new_of[u] = w;
        }
        for (hga_id v = 0; v < n; v++) parent[new_of[v]] = tidy[v] < 0 ? -1 : new_of[tidy[v]];
        float *x = random_floats(seed, 1, (int64_t)n * 3 * COLUMNS), q[2][3][TOKENS * COLUMNS],
              out[2][TOKENS * COLUMNS];
        for (int way = 0; way < 2; way++) {
            hga_program p;
            hga_hsa h = tree(parent, n, node_of[way]);
            h.leaves = way ? HGA_LEAVES_BY_ID : HGA_LEAVES_DEPTH_FIRST, h.self = (int)(seed % 2);
            hga_graph *g = build(&h, &p);
            for (hga_id v = 0; v < n; v++)
                for (int t = 0; node_of[way][v] < TOKENS && t < 3; t++)
                    memcpy(q[way][t] + node_of[way][v] * COLUMNS, x + (v * 3 + t) * COLUMNS, COLUMNS * sizeof *x);
            hga_io io = {.query = {.data = q[way][0], .rows = TOKENS}, .key = {.data = q[way][1], .rows = TOKENS}};
            io.value.data = q[way][2], io.out.data = out[way], io.value.rows = io.out.rows = TOKENS;
            assert_ok(hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = COLUMNS}, NULL, &io));
            hga_graph_destroy(g);
        }
        for (hga_id v = 0; v < n; v++)
            if (node_of[0][v] < TOKENS)
                assert_near_floats("one leaf", out[1] + node_of[1][v] * COLUMNS, out[0] + node_of[0][v] * COLUMNS,
                                   COLUMNS, 2e-6);
        free(x), free(tidy);
    }
}

static void causal_goes_by_the_trees_order(void **state)
{
    (void)state;
    static const hga_id straight[] = {4, 4, 5, 5, 6, 6, -1};
    hga_graph *g;
    hga_program p;
    hga_hsa h = tree(crossed, 7, NULL);
    h.causal = 1, h.leaves = HGA_LEAVES_BY_ID;
    assert_status(HGA_EUNSUPPORTED, hga_build_hsa(&h, &g, &p));
    assert_non_null(strstr(hga_error_detail(), "leaf 1 is number 1 by id and number 2"));
    h.parent = straight;
    assert_ok(hga_build_hsa(&h, &g, &p));
    hga_graph_destroy(g);
    h.leaves = (hga_hsa_leaves)7;
    assert_status(HGA_EINVAL, hga_build_hsa(&h, &g, &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hopping_windows_are_one_block_a_level_and_a_rest),
        cmocka_unit_test(the_last_branching_is_repeated_until_one_root_is_left),
        cmocka_unit_test(nodes_are_numbered_by_height_then_first_token),
        cmocka_unit_test(a_family_of_several_levels_is_one_block),
        cmocka_unit_test(random_trees_give_the_pairs_of_the_definition),
        cmocka_unit_test(windows_equal_their_parents),
        cmocka_unit_test(frontiers_of_windows_are_few_blocks),
        cmocka_unit_test(a_leaf_alone_has_no_edge_but_its_own),
        cmocka_unit_test(a_forest_is_a_batch),
        cmocka_unit_test(the_frontier_is_causal_and_self_is_not),
        cmocka_unit_test(every_pair_is_covered_once),
        cmocka_unit_test(bad_parameters_are_named),
        cmocka_unit_test(rows_are_leaves_depth_first_or_by_id),
        cmocka_unit_test(leaves_by_id_are_the_same_attention),
        cmocka_unit_test(causal_goes_by_the_trees_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
