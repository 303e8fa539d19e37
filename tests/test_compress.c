/* test_compress.c: explicit edges turned into blocks mean the same edges, and are fewer things. */
#include "graphs.h"

/* Blocks and explicit edges. */
static hga_pos stored(const hga_graph *g)
{
    hga_pos n = 0;
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++)
        n += hga_graph_relation(g, i).n_blocks + hga_graph_relation(g, i).n_explicit;
    return n;
}

/* The same graph with every edge explicit; its relations keep their orders. */
static hga_graph *spelled_out(const hga_graph *g)
{
    hga_builder *b;
    hga_nodes nodes = hga_graph_nodes(g);
    SUCCEEDS(hga_builder_create(NULL, &b));
    for (hga_id l = 0; l < nodes.n_levels; l++)
        SUCCEEDS(hga_builder_add_level(b, nodes.level_ptr[l + 1] - nodes.level_ptr[l], NULL));
    for (hga_id i = 0, index; i < nodes.n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        SUCCEEDS(hga_builder_add_relation(b, r.name, &index));
        SUCCEEDS(hga_builder_set_order(b, index, r.dst_order, nodes.n, r.src_order, r.n_src_order));
        edges list = edges_of(g, i);
        for (int64_t e = 0; e < list.n; e++)
            if (e == 0 || list.e[e].dst != list.e[e - 1].dst || list.e[e].src != list.e[e - 1].src ||
                list.e[e].type != list.e[e - 1].type)
                SUCCEEDS(
                    hga_builder_add_edge(b, index, list.e[e].src, list.e[e].dst, list.e[e].type, list.e[e].weight));
        free(list.e);
    }
    return finished(b);
}

/* The compressed graph; g is destroyed. */
static hga_graph *compressed(hga_graph *g)
{
    hga_graph *c;
    SUCCEEDS(hga_graph_compress(g, &c));
    assert_equal_nodes(g, c);
    assert_equal_rows(g, c);
    assert_true(stored(c) <= stored(g));
    hga_graph_destroy(g);
    return c;
}

static void random_graphs_keep_their_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        hga_graph *g = random_graph(seed, (int)(seed & 1)), *e = spelled_out(g);
        hga_graph_destroy(compressed(g));
        hga_graph_destroy(compressed(e));
    }
    hga_graph_destroy(compressed(mixed_graph(NULL)));
    hga_graph_destroy(compressed(cross_graph(NULL)));
}

/* One relation over n tokens with an edge where `type` is not negative. */
static hga_graph *tokens_with(hga_id n, int32_t (*type)(hga_id v, hga_id u, hga_id parameter), hga_id parameter)
{
    hga_id near;
    hga_builder *b = tokens_near(n, &near);
    for (hga_id v = 0; v < n; v++)
        for (hga_id u = 0; u < n; u++)
            if (type(v, u, parameter) >= 0) SUCCEEDS(hga_builder_add_edge(b, near, u, v, type(v, u, parameter), 1));
    return finished(b);
}

/* Compress and count what is left. */
static void assert_stored(hga_graph *g, hga_pos blocks, hga_pos explicit_edges)
{
    hga_graph *c = compressed(g);
    hga_relation r = hga_graph_relation(c, 0);
    if (r.n_blocks != blocks || r.n_explicit != explicit_edges)
        fail_msg("%lld blocks and %lld edges, not %lld and %lld", (long long)r.n_blocks, (long long)r.n_explicit,
                 (long long)blocks, (long long)explicit_edges);
    for (hga_pos i = 0; i < r.n_blocks; i++) assert_true(r.blocks[i].count != 1); /* what stands once says no count */
    hga_graph_destroy(c);
}

static int32_t all_pairs(hga_id v, hga_id u, hga_id n)
{
    (void)v, (void)u, (void)n;
    return 0;
}
static int32_t earlier(hga_id v, hga_id u, hga_id n)
{
    (void)n;
    return u <= v ? 0 : -1;
}
static int32_t relative(hga_id v, hga_id u, hga_id n) { return u - v + n; }
static int32_t same_block(hga_id v, hga_id u, hga_id size) { return v / size == u / size ? u - v + size : -1; }
static int32_t near_block(hga_id v, hga_id u, hga_id size)
{
    return abs(v / size - u / size) <= 1 ? u - v + 2 * size : -1;
}
static int32_t others_in_block(hga_id v, hga_id u, hga_id size) { return v / size == u / size && v != u ? 0 : -1; }
static int32_t window(hga_id v, hga_id u, hga_id reach) { return abs(v - u) <= reach ? u - v + reach : -1; }
static int32_t strided(hga_id v, hga_id u, hga_id stride)
{
    return u <= v && (v - u) % stride == 0 ? (v - u) / stride : -1;
}
static int32_t only_child(hga_id v, hga_id u, hga_id first) { return v >= first && u == 2 * (v - first) ? 0 : -1; }
static int32_t distant_children(hga_id v, hga_id u, hga_id first)
{
    return v >= first && (u == 6 * (v - first) || u == 6 * (v - first) + 3) ? 0 : -1;
}

static void regular_graphs_become_a_few_blocks(void **state)
{
    (void)state;
    assert_stored(tokens_with(40, all_pairs, 0), 1, 0);
    assert_stored(tokens_with(40, earlier, 0), 1, 0);
    assert_stored(tokens_with(40, relative, 40), 1, 0);
    assert_stored(tokens_with(40, same_block, 4), 1, 0);
    assert_stored(tokens_with(42, same_block, 4), 2, 0); /* the last block is shorter */
    assert_stored(tokens_with(40, near_block, 4), 3, 0); /* first, middle, last */
    assert_stored(tokens_with(60, window, 3), 3, 0);     /* the rows that grow, those that move, those that shrink */
    assert_stored(tokens_with(40, strided, 8), 5, 0);    /* one diagonal a distance */
    assert_stored(tokens_with(60, only_child, 40), 1, 0);
    assert_stored(tokens_with(80, distant_children, 68), 2, 0);
}

static void siblings_become_two_triangles_repeated(void **state)
{
    (void)state;
    hga_graph *c = compressed(tokens_with(40, others_in_block, 5));
    hga_relation r = hga_graph_relation(c, 0);
    assert_int_equal(r.n_blocks, 2);
    assert_int_equal(r.n_explicit, 0);
    for (int i = 0; i < 2; i++) assert_int_equal(r.blocks[i].count, 8);
    hga_graph_destroy(c);
}

static void edges_without_a_pattern_stay_explicit(void **state)
{
    (void)state;
    static const hga_id u[] = {3, 17, 8, 1, 12, 5}, v[] = {0, 2, 5, 9, 11, 19};
    hga_id near;
    hga_builder *b = tokens_near(20, &near);
    for (int i = 0; i < 6; i++) SUCCEEDS(hga_builder_add_edge(b, near, u[i], v[i], i, 1));
    assert_stored(finished(b), 0, 6);
}

static void a_band_with_random_edges_beside_it_is_found(void **state)
{
    (void)state;
    enum { N = 500 };
    uint64_t seed = 11;
    hga_id near;
    hga_builder *b = tokens_near(N, &near);
    for (hga_id v = 0; v < N; v++) {
        for (hga_id u = v < 8 ? 0 : v - 8; u <= v; u++) SUCCEEDS(hga_builder_add_edge(b, near, u, v, 0, 1));
        if (v < N - 20) SUCCEEDS(hga_builder_add_edge(b, near, v + 10 + random_up_to(&seed, N - v - 11), v, 0, 1));
    }
    hga_graph *g = finished(b);
    hga_pos before = stored(g);
    hga_graph *c = compressed(g);
    assert_true(stored(c) < before / 8); /* the band is a ninth of it, the random edges stay */
    hga_graph_destroy(c);
}

static void weights_and_types_keep_runs_apart(void **state)
{
    (void)state;
    hga_id near;
    hga_builder *b = tokens_near(16, &near);
    for (hga_id v = 0; v < 16; v++)
        for (hga_id u = 0; u < 16; u++) SUCCEEDS(hga_builder_add_edge(b, near, u, v, u < 8 ? 5 : 9, v < 8 ? 0.5f : 1));
    assert_stored(finished(b), 4, 0);
}

static void blocks_that_were_there_stay(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL), *c;
    SUCCEEDS(hga_graph_compress(g, &c));
    assert_equal_arrays("blocks", hga_graph_relation(c, 0).blocks, hga_graph_relation(g, 0).blocks,
                        hga_graph_relation(g, 0).n_blocks, sizeof(hga_block));
    hga_graph_destroy(c), hga_graph_destroy(g);
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_nothing_is_left_behind(hga_graph_compress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_keep_their_rows),
        cmocka_unit_test(regular_graphs_become_a_few_blocks),
        cmocka_unit_test(siblings_become_two_triangles_repeated),
        cmocka_unit_test(edges_without_a_pattern_stay_explicit),
        cmocka_unit_test(a_band_with_random_edges_beside_it_is_found),
        cmocka_unit_test(weights_and_types_keep_runs_apart),
        cmocka_unit_test(blocks_that_were_there_stay),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("compress", tests, NULL, NULL);
}
