/* test_coarsen.c: a tree of clusters over a graph: who is in which, which edges the levels above have, and that
   attention over all levels is what the definition says. */
#include "slopes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES = 3 };

/* Tokens alone: relation `near` of listed edges of some types and weights, among them loops, and blocks if wanted; the
   last tenth of the nodes stands alone. Relation `far`: a ring. */
static hga_graph *flat_graph(uint64_t seed, hga_id n, int blocks)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near, far, joined = n - n / 10;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, n, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_relation(b, "far", &far));
    for (hga_id i = 0; i < 3 * joined; i++) {
        hga_id u = random_below(&seed, joined), v = random_below(&seed, joined);
        assert_ok(hga_builder_add_edge(b, near, u, v, (u + v) % TYPES, (float)(1 + (u * 3 + v) % 4) / 2));
    }
    if (blocks) assert_ok(hga_builder_add_block(b, near, 0, joined / 2, joined / 4, joined / 3, TYPES));
    for (hga_id v = 0; v < joined; v++) assert_ok(hga_builder_add_edge(b, far, (v + 1) % joined, v, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* side x side nodes and their neighbours along both axes. */
static hga_graph *grid(hga_id side)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, side * side, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < side * side; v++) {
        hga_id right = v % side < side - 1 ? v + 1 : -1, below = v + side < side * side ? v + side : -1;
        if (right >= 0) assert_ok(hga_builder_add_edge(b, near, v, right, 0, 1));
        if (right >= 0) assert_ok(hga_builder_add_edge(b, near, right, v, 0, 1));
        if (below >= 0) assert_ok(hga_builder_add_edge(b, near, v, below, 0, 1));
        if (below >= 0) assert_ok(hga_builder_add_edge(b, near, below, v, 0, 1));
    }
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* Skips the test where the library has no METIS. */
static hga_graph *coarsened(const hga_graph *g, const hga_id *size, hga_id n_sizes)
{
    hga_graph *h;
    hga_status st = hga_graph_coarsen(g, size, n_sizes, NULL, NULL, &h);
    if (st == HGA_EUNSUPPORTED && strstr(hga_error_detail(), "METIS")) skip();
    assert_ok(st);
    return h;
}

/* ---- clusters ---- */

/* Every node of a level has one parent, on the next level; a cluster has from half to twice as many as wanted, where
   there are enough. */
static void check_clusters(const hga_graph *h, hga_id n, const hga_id *size, hga_id n_sizes)
{
    hga_nodes nodes = hga_graph_nodes(h);
    assert_int_equal(nodes.n_levels, n_sizes + 1);
    assert_int_equal(nodes.level_ptr[1], n);
    for (hga_id l = 0; l < n_sizes; l++) {
        hga_id first = nodes.level_ptr[l], above = nodes.level_ptr[l + 1], end = nodes.level_ptr[l + 2];
        hga_id *children = memory(end - above, sizeof *children);
        assert_int_equal(end - above, (above - first - 1) / size[l] + 1);
        for (hga_id v = first; v < above; v++) {
            assert_in_range(nodes.parent[v], above, end - 1);
            children[nodes.parent[v] - above]++;
        }
        for (hga_id c = 0; c < end - above; c++)
            if (children[c] < (size[l] + 1) / 2 || children[c] > 2 * size[l])
                fail_msg("level %d: cluster %d of %d has %d nodes, not %d", l, c, end - above, children[c], size[l]);
        free(children);
    }
    for (hga_id v = nodes.level_ptr[n_sizes]; v < nodes.n; v++) assert_int_equal(nodes.parent[v], -1);
}

static void every_node_is_in_one_cluster_of_about_the_size(void **state)
{
    static const hga_id sizes[][3] = {{8, 8, 8}, {4, 2, 16}, {3, 7, 5}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        hga_graph *g = i ? flat_graph((uint64_t)i, 2000, 0) : grid(48), *h = coarsened(g, sizes[i], 3);
        check_clusters(h, hga_graph_nodes(g).n, sizes[i], 3);
        hga_graph_destroy(g), hga_graph_destroy(h);
    }
}

typedef struct told {
    int n;
    double last;
} told;

static void hear(double done, void *context)
{
    told *t = context;
    assert_true(done > t->last && done <= 1);
    t->last = done, t->n++;
}

/* Each of the 512, 64 and 8 clusters is told, since they are fewer than a thousand. */
static void progress_is_the_share_of_clusters_found(void **state)
{
    (void)state;
    static const hga_id sizes[] = {8, 8, 8};
    hga_graph *g = grid(64), *h = coarsened(g, sizes, 3), *again;
    told t = {0};
    assert_ok(hga_graph_coarsen(g, sizes, 3, hear, &t, &again));
    assert_int_equal(t.n, 512 + 64 + 8);
    assert_true(t.last >= 1);
    assert_memory_equal(hga_graph_nodes(h).parent, hga_graph_nodes(again).parent, sizeof(hga_id) * (4096 + 584));
    hga_graph_destroy(g), hga_graph_destroy(h), hga_graph_destroy(again);
}

static void there_is_little_between_clusters(void **state)
{
    (void)state;
    hga_graph *g = grid(64), *h = coarsened(g, (hga_id[]){16}, 1);
    hga_nodes nodes = hga_graph_nodes(h);
    int64_t n, inside = 0;
    edge *e = all_edges(g, 0, &n);
    for (int64_t i = 0; i < n; i++) inside += nodes.parent[e[i].src] == nodes.parent[e[i].dst];
    if (100 * inside < 70 * n) /* squares of 4 x 4 have 75 % of their edges inside; by chance it is 0.4 % */
        fail_msg("%lld of %lld edges are inside clusters", (long long)inside, (long long)n);
    free(e), hga_graph_destroy(g), hga_graph_destroy(h);
}

static void sizes_end_at_one_cluster(void **state)
{
    (void)state;
    hga_graph *g = flat_graph(3, 20, 0), *h = coarsened(g, (hga_id[]){8, 8, 8, 8}, 4);
    assert_int_equal(hga_graph_nodes(h).n_levels, 3); /* 20, 3, 1 */
    assert_int_equal(hga_graph_nodes(h).n, 24);
    hga_graph_destroy(g), hga_graph_destroy(h);
    g = flat_graph(4, 1, 0), h = coarsened(g, (hga_id[]){2}, 1);
    assert_int_equal(hga_graph_nodes(h).n, 1);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void nodes_without_edges_are_in_clusters_too(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 64, NULL));
    assert_ok(hga_builder_add_relation(b, "near", NULL));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    hga_graph *h = coarsened(g, (hga_id[]){8, 4}, 2);
    check_clusters(h, 64, (hga_id[]){8, 4}, 2);
    assert_int_equal(hga_graph_relation(h, 0).n_edges, 0);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

/* ---- edges ---- */

/* 0 - 1 and 2 - 3 are clusters, the first without mass; an edge leads from the one to the other. */
static void edges_of_tokens_without_mass_join_no_clusters(void **state)
{
    static const hga_id ends[][2] = {{0, 1}, {1, 0}, {2, 3}, {3, 2}, {1, 2}};
    (void)state;
    hga_builder *b;
    hga_graph *g;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 4, NULL));
    assert_ok(hga_builder_add_relation(b, "near", NULL));
    for (int i = 0; i < 5; i++) assert_ok(hga_builder_add_edge(b, 0, ends[i][0], ends[i][1], 0, 1));
    assert_ok(hga_builder_set_mass(b, 0, 0));
    assert_ok(hga_builder_set_mass(b, 1, 0));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    hga_graph *h = coarsened(g, (hga_id[]){2}, 1);
    hga_nodes nodes = hga_graph_nodes(h);
    int64_t n, above = 0;
    edge *e = all_edges(h, 0, &n);
    assert_int_equal(nodes.parent[0], nodes.parent[1]);
    for (int64_t i = 0; i < n; i++) {
        if (e[i].dst < 4) continue;
        above++;
        assert_true(e[i].dst == nodes.parent[2] && e[i].src == nodes.parent[2] && e[i].weight == 0.5f);
    }
    assert_int_equal(n, 6);
    assert_int_equal(above, 1);
    free(e), hga_graph_destroy(g), hga_graph_destroy(h);
}

static int same_edge(const edge *a, const edge *b)
{
    return a->dst == b->dst && a->src == b->src && a->type == b->type;
}

/* Node v's ancestor so many levels up. */
static hga_id ancestor(const hga_graph *h, hga_id v, hga_id up)
{
    for (; up > 0; up--) v = hga_graph_nodes(h).parent[v];
    return v;
}

/* What the parents say: of each level the tokens' edges between ancestors, one of each kind, of their weights' sum over
   the pairs of tokens. */
static int64_t contract(const edge *token, int64_t n, const hga_graph *h, edge *out)
{
    const float *mass = hga_graph_nodes(h).mass;
    int64_t all = 0;
    for (hga_id up = 0; up < hga_graph_nodes(h).n_levels; up++) {
        int64_t first = all;
        for (int64_t i = 0; i < n; i++) {
            edge e = token[i];
            int64_t at = first;
            e.dst = e.pos_of = ancestor(h, e.dst, up), e.src = e.src_pos_of = ancestor(h, e.src, up);
            while (at < all && !same_edge(&out[at], &e)) at++;
            if (at == all)
                out[all++] = e;
            else
                out[at].weight += e.weight;
        }
        for (int64_t i = first; i < all; i++) out[i].weight /= mass[out[i].dst] * mass[out[i].src];
    }
    return all;
}

static void check_relation(const hga_graph *g, const hga_graph *h, hga_id relation)
{
    int64_t n_token, n_got;
    edge *token = all_edges(g, relation, &n_token), *got = all_edges(h, relation, &n_got);
    edge *want = memory(n_token * hga_graph_nodes(h).n_levels, sizeof *want);
    int64_t n_want = contract(token, n_token, h, want);
    sort_edges(want, n_want);
    assert_same_edges("coarsened", got, n_got, want, n_want);
    for (int64_t i = 0; i < n_got; i++) assert_true(fabsf(got[i].weight - want[i].weight) < 1e-5f * want[i].weight);
    free(token), free(got), free(want);
}

static void edges_above_are_those_of_the_tokens_below(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        hga_graph *g = flat_graph(seed, 40 + (hga_id)seed * 5, seed % 3 == 0);
        hga_graph *h = coarsened(g, (hga_id[]){2 + (hga_id)seed % 4, 3, 2}, 3);
        for (hga_id r = 0; r < 2; r++) check_relation(g, h, r);
        assert_string_equal(hga_graph_relation(h, 1).name, "far");
        hga_graph_destroy(g), hga_graph_destroy(h);
    }
}

static void names_and_masses_of_tokens_stay(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 9, NULL));
    assert_ok(hga_builder_add_relation(b, "near", NULL));
    for (hga_id v = 0; v < 9; v++) assert_ok(hga_builder_add_edge(b, 0, (v + 1) % 9, v, 0, 1));
    assert_ok(hga_builder_set_name(b, 4, "four"));
    assert_ok(hga_builder_set_mass(b, 5, 3));
    assert_ok(hga_builder_set_position(b, 2, 1, 7));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    hga_graph *h = coarsened(g, (hga_id[]){3, 3}, 2);
    hga_nodes nodes = hga_graph_nodes(h);
    double position[13];
    assert_string_equal(hga_graph_name(h, 4), "four");
    assert_true(nodes.mass[5] == 3 && nodes.mass[4] == 1 && nodes.mass[12] == 11);
    assert_ok(hga_graph_positions(h, position));
    assert_true(position[2] == 7 && position[3] == 3);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

/* ---- attention ---- */

static void tokens_attend_over_all_levels(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        hga_graph *g = flat_graph(seed, 90, seed % 2);
        problem p = {.name = "coarsened", .shape = {.n_heads = 2, .dim = 8}};
        p.graph = coarsened(g, (hga_id[]){4, 4}, 2);
        p.options.threads = 2;
        assert_ok(hga_program_hierarchy(&p.program, p.graph, (hga_id[]){0, 1}, 2));
        problem_fill(&p, seed);
        problem_run(&p);
        assert_equals_slow(&p, 1e-5);
        problem_clear(&p), hga_graph_destroy(g);
    }
}

/* ---- as a tree ---- */

static void a_tree_of_a_graph_is_that_of_its_clusters(void **state)
{
    (void)state;
    hga_graph *g = grid(12), *h = coarsened(g, (hga_id[]){6, 4, 6}, 3);
    hga_nodes nodes = hga_graph_nodes(h);
    hga_tree t;
    hga_hsa hsa;
    hga_defaults(&hsa);
    hga_graph *over;
    hga_program program;
    assert_ok(hga_tree_from_graph(NULL, g, (hga_id[]){6, 4, 6}, 3, &t));
    assert_int_equal(t.n, nodes.n), assert_int_equal(t.n_leaves, 144);
    assert_memory_equal(t.parent, nodes.parent, (size_t)t.n * sizeof *t.parent);
    uint8_t seen[144] = {0}; /* leaves are every token once, those of a cluster beside each other */
    hga_id runs = 1;
    for (hga_id i = 0; i < 144; i++) {
        assert_in_range(t.leaf_node[i], 0, 143);
        assert_int_equal(seen[t.leaf_node[i]]++, 0);
        if (i) runs += t.parent[t.leaf_node[i]] != t.parent[t.leaf_node[i - 1]];
    }
    assert_int_equal(runs, 24);
    for (hga_id v = 0; v < t.n; v++) assert_string_equal(t.kind_name[t.kind[v]], v < 144 ? "node" : "cluster");
    hsa.parent = t.parent, hsa.n_parent = t.n;
    assert_ok(hga_build_hsa(&hsa, &over, &program));
    assert_int_equal(hga_graph_nodes(over).level_ptr[1], 144);
    hga_graph_destroy(over), hga_tree_clear(&t), hga_graph_destroy(g), hga_graph_destroy(h);
}

/* ---- refused ---- */

static void assert_refused(hga_status want, const char *why, const hga_graph *g, const hga_id *size, hga_id n)
{
    hga_graph *h = NULL;
    hga_tree t;
    assert_status(want, hga_graph_coarsen(g, size, n, NULL, NULL, &h));
    assert_non_null(strstr(hga_error_detail(), why));
    assert_null(h);
    assert_status(want, hga_tree_from_graph(NULL, g, size, n, &t));
    assert_null(t.parent);
}

static void what_has_no_clusters_is_refused(void **state)
{
    (void)state;
    static const hga_id eight[] = {8}, one[] = {4, 1};
    hga_graph *g = flat_graph(1, 30, 0), *h = coarsened(g, eight, 1);
    hga_builder *b;
    hga_graph *two;
    assert_refused(HGA_EINVAL, "no graph", NULL, eight, 1);
    assert_refused(HGA_EINVAL, "no sizes", g, eight, 0);
    assert_refused(HGA_EINVAL, "no sizes", g, NULL, 1);
    assert_refused(HGA_EINVAL, "clusters of 1 nodes", g, one, 2);
    assert_refused(HGA_EINVAL, "2 levels", h, eight, 1);
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 8, NULL));
    assert_ok(hga_builder_set_tokens(b, 0, 3, 3, 5));
    assert_ok(hga_builder_finish(b, &two));
    assert_refused(HGA_EUNSUPPORTED, "two sides", two, eight, 1);
    hga_builder_destroy(b);
    hga_graph_destroy(g), hga_graph_destroy(h), hga_graph_destroy(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_is_in_one_cluster_of_about_the_size),
        cmocka_unit_test(progress_is_the_share_of_clusters_found),
        cmocka_unit_test(there_is_little_between_clusters),
        cmocka_unit_test(sizes_end_at_one_cluster),
        cmocka_unit_test(nodes_without_edges_are_in_clusters_too),
        cmocka_unit_test(edges_of_tokens_without_mass_join_no_clusters),
        cmocka_unit_test(edges_above_are_those_of_the_tokens_below),
        cmocka_unit_test(names_and_masses_of_tokens_stay),
        cmocka_unit_test(tokens_attend_over_all_levels),
        cmocka_unit_test(a_tree_of_a_graph_is_that_of_its_clusters),
        cmocka_unit_test(what_has_no_clusters_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
