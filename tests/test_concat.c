/* test_concat.c: graphs side by side, against numbering and moving node by node and edge by edge. */
#include "graphs.h"

/* The numbering of the header: level by level; within a level queries, nodes of both sides, keys; then by sample. *next
   counts all. */
static void number_one_by_one(hga_graph *const *g, hga_id n_graphs, hga_id **map)
{
    static const int order[] = {HGA_SIDE_QUERY, HGA_SIDE_BOTH, HGA_SIDE_KEY};
    hga_id next = 0;
    for (hga_id l = 0; l < 8; l++)
        for (int k = 0; k < 3; k++)
            for (hga_id i = 0; i < n_graphs; i++) {
                hga_nodes nodes = hga_graph_nodes(g[i]);
                for (hga_id v = 0; v < nodes.n; v++) {
                    int side = nodes.side ? nodes.side[v] : HGA_SIDE_BOTH;
                    if (hga_graph_level(g[i], v) == l && side == order[k]) map[i][v] = next++;
                }
            }
}

static edges moved(const hga_graph *g, hga_id relation, const hga_id *map)
{
    edges list = edges_of(g, relation);
    for (int64_t i = 0; i < list.n; i++) list.e[i].dst = map[list.e[i].dst], list.e[i].src = map[list.e[i].src];
    return list;
}

static void append(edges *to, edges from)
{
    for (int64_t i = 0; i < from.n; i++) edges_add(to, from.e[i]);
    free(from.e);
}

/* The block edges of a relation, with the node of the row's position (map[-1] being -1) in place of the weight. */
static edges positions(const hga_graph *g, hga_id relation, const hga_id *map)
{
    edges list = {0};
    hga_relation r = hga_graph_relation(g, relation);
    for (hga_id p = 0; p < hga_graph_nodes(g).n; p++) {
        hga_segment s[64];
        hga_pos n = hga_graph_segments(g, relation, p, 1, s, 64);
        assert_true(n <= 64);
        for (hga_pos i = 0; i < n; i++) {
            hga_id c0, c1, hole, v = r.dst_order ? r.dst_order[p] : p, pos = s[i].pos_of - 1;
            hga_segment_columns(&s[i], p, &c0, &c1, &hole);
            for (hga_id c = c0; c < c1; c++) {
                if (c == hole) continue;
                hga_id u = r.src_order ? r.src_order[s[i].src + c] : s[i].src + c;
                int32_t type = s[i].type + (p - s[i].row) * s[i].type_dst + c * s[i].type_src;
                edges_add(&list,
                          (edge){map ? map[v] : v, map ? map[u] : u, type, (float)(map && pos >= 0 ? map[pos] : pos)});
            }
        }
    }
    edges_sort(&list);
    return list;
}

static void assert_side_by_side(hga_graph *const *g, hga_id n)
{
    hga_graph *whole;
    hga_node_map map;
    hga_id *expected[8];
    SUCCEEDS(hga_graph_concat((const hga_graph *const *)g, n, &whole, &map));
    hga_nodes all = hga_graph_nodes(whole);
    for (hga_id i = 0; i < n; i++) expected[i] = calloc((size_t)hga_graph_nodes(g[i]).n, sizeof(hga_id));
    number_one_by_one(g, n, expected);
    for (hga_id i = 0; i < n; i++) {
        hga_nodes one = hga_graph_nodes(g[i]);
        assert_int_equal(map.n[i], one.n);
        assert_memory_equal(map.id[i], expected[i], (size_t)one.n * sizeof(hga_id));
        for (hga_id v = 0; v < one.n; v++) {
            hga_id there = map.id[i][v], parent = one.parent ? one.parent[v] : -1;
            assert_true(all.mass[there] == one.mass[v]);
            assert_int_equal(hga_graph_level(whole, there), hga_graph_level(g[i], v));
            assert_int_equal(all.parent ? all.parent[there] : -1, parent < 0 ? -1 : map.id[i][parent]);
            assert_int_equal(all.side ? all.side[there] : 0, one.side ? one.side[v] : 0);
        }
    }
    for (hga_id k = 0; k < all.n_relations; k++) {
        edges want = {0}, want_positions = {0};
        for (hga_id i = 0; i < n; i++) {
            hga_id here = hga_graph_find_relation(g[i], hga_graph_relation(whole, k).name);
            if (here < 0) continue;
            append(&want, moved(g[i], here, map.id[i]));
            append(&want_positions, positions(g[i], here, map.id[i]));
        }
        edges_sort(&want), edges_sort(&want_positions);
        assert_equal_edges(edges_of(whole, k), want);
        assert_equal_edges(positions(whole, k, NULL), want_positions);
    }
    for (hga_id i = 0; i < n; i++) free(expected[i]);
    hga_node_map_clear(&map);
    hga_graph_destroy(whole);
}

static void edges_nodes_and_positions_move_with_their_samples(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        hga_graph *g[4];
        hga_id n = 2 + (hga_id)(seed % 3);
        for (hga_id i = 0; i < n; i++) g[i] = random_graph(seed * 10 + (uint64_t)i, (int)(seed & 1));
        assert_side_by_side(g, n);
        for (hga_id i = 0; i < n; i++) hga_graph_destroy(g[i]);
    }
}

static void hand_made_graphs_go_side_by_side(void **state)
{
    (void)state;
    hga_graph *mixed[] = {mixed_graph(NULL), random_graph(3, 0), mixed_graph(NULL)};
    assert_side_by_side(mixed, 3);
    for (int i = 0; i < 3; i++) hga_graph_destroy(mixed[i]);
    hga_graph *cross[] = {cross_graph(NULL), cross_graph(NULL)};
    assert_side_by_side(cross, 2);
    for (int i = 0; i < 2; i++) hga_graph_destroy(cross[i]);
}

static void one_graph_stays_as_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < 42; i++) {
        hga_graph *g = i == 0   ? mixed_graph(NULL)
                       : i == 1 ? cross_graph(NULL)
                                : random_graph((uint64_t)i, i % 2),
                  *whole;
        SUCCEEDS(hga_graph_concat((const hga_graph *[]){g}, 1, &whole, NULL));
        assert_equal_relations(g, whole);
        hga_graph_destroy(whole), hga_graph_destroy(g);
    }
}

static hga_graph *tree(hga_id leaves, uint32_t claims)
{
    hga_builder *b;
    hga_id near;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, leaves, NULL));
    SUCCEEDS(hga_builder_add_level(b, leaves / 2, NULL));
    SUCCEEDS(hga_builder_set_families(b, leaves, 0, leaves, 2));
    SUCCEEDS(hga_builder_set_claims(b, claims));
    SUCCEEDS(hga_builder_add_relation(b, "near", &near));
    SUCCEEDS(hga_builder_add_blocks(b, near,
                                    &(hga_block){.n_dst = 2,
                                                 .n_src = 2,
                                                 .count = leaves / 2,
                                                 .dst_step = 2,
                                                 .src_step = 2,
                                                 .pos_of = leaves + 1,
                                                 .pos_step = 1}));
    return finished(b);
}

static void a_block_inside_a_level_stays_one_block(void **state)
{
    (void)state;
    hga_graph *g[] = {tree(1000, 0), tree(600, 0), tree(200, 0)}, *whole;
    SUCCEEDS(hga_graph_concat((const hga_graph *const *)g, 3, &whole, NULL));
    hga_relation r = hga_graph_relation(whole, 0);
    assert_int_equal(r.n_blocks, 3);
    assert_null(r.dst_order);
    assert_int_equal(r.blocks[1].dst, 1000);
    assert_int_equal(r.blocks[1].pos_of, 1800 + 500 + 1);
    hga_graph_destroy(whole);
    for (int i = 0; i < 3; i++) hga_graph_destroy(g[i]);
}

static void a_block_across_levels_gets_an_order_and_stays_one_block(void **state)
{
    (void)state;
    hga_graph *g[2], *whole;
    for (int i = 0; i < 2; i++) {
        hga_builder *b;
        hga_id all;
        SUCCEEDS(hga_builder_create(NULL, &b));
        SUCCEEDS(hga_builder_add_level(b, 4, NULL));
        SUCCEEDS(hga_builder_add_level(b, 2, NULL));
        SUCCEEDS(hga_builder_add_relation(b, "all", &all));
        SUCCEEDS(hga_builder_add_block(b, all, 0, 6, 0, 4, 0));
        g[i] = finished(b);
    }
    assert_side_by_side(g, 2);
    SUCCEEDS(hga_graph_concat((const hga_graph *const *)g, 2, &whole, NULL));
    hga_relation r = hga_graph_relation(whole, 0);
    assert_int_equal(r.n_blocks, 2);
    assert_non_null(r.dst_order);
    assert_null(r.src_order);
    const hga_id order[] = {0, 1, 2, 3, 8, 9, 4, 5, 6, 7, 10, 11};
    assert_memory_equal(r.dst_order, order, sizeof order);
    hga_graph_destroy(whole), hga_graph_destroy(g[0]), hga_graph_destroy(g[1]);
}

static void the_whole_promises_what_all_do_but_is_not_complete(void **state)
{
    (void)state;
    hga_graph *g[] = {tree(4, HGA_CLAIM_CAUSAL | HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE),
                      tree(6, HGA_CLAIM_CAUSAL | HGA_CLAIM_COMPLETE)},
              *whole;
    SUCCEEDS(hga_graph_concat((const hga_graph *const *)g, 2, &whole, NULL));
    assert_int_equal(hga_graph_nodes(whole).claims, HGA_CLAIM_CAUSAL);
    hga_graph_destroy(whole);
    hga_graph_destroy(g[0]), hga_graph_destroy(g[1]);
}

static void queries_come_before_keys(void **state)
{
    (void)state;
    hga_graph *g = cross_graph(NULL), *whole;
    hga_node_map map;
    SUCCEEDS(hga_graph_concat((const hga_graph *[]){g, g}, 2, &whole, &map));
    hga_nodes n = hga_graph_nodes(whole);
    assert_int_equal(n.query_first, 0);
    assert_int_equal(n.n_queries, 10);
    assert_int_equal(n.key_first, 10);
    assert_int_equal(n.n_keys, 6);
    assert_int_equal(map.id[1][3], 5);  /* the second sample's first query */
    assert_int_equal(map.id[1][0], 13); /* and its first key */
    assert_int_equal(map.id[0][8], 22); /* a coarse key of the first sample, after six coarse queries */
    hga_node_map_clear(&map);
    hga_graph_destroy(whole), hga_graph_destroy(g);
}

static void graphs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    hga_graph *self = mixed_graph(NULL), *cross = cross_graph(NULL), *whole;
    FAILS(HGA_EINVAL, "0 graphs", hga_graph_concat(NULL, 0, &whole, NULL));
    FAILS(HGA_EINVAL, "graph 1 is NULL", hga_graph_concat((const hga_graph *[]){self, NULL}, 2, &whole, NULL));
    FAILS(HGA_EINVAL, "graphs 0 and 1", hga_graph_concat((const hga_graph *[]){self, cross}, 2, &whole, NULL));
    assert_null(whole);
    hga_graph_destroy(self), hga_graph_destroy(cross);
}

/* Two of it side by side, with the map; clearing one twice does nothing. */
static hga_status twice(const hga_graph *g, hga_graph **whole)
{
    hga_node_map map;
    hga_status st = hga_graph_concat((const hga_graph *[]){g, g}, 2, whole, &map);
    if (st) assert_null(map.id);
    hga_node_map_clear(&map);
    hga_node_map_clear(&map);
    hga_node_map_clear(NULL);
    return st;
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_nothing_is_left_behind(twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_nodes_and_positions_move_with_their_samples),
        cmocka_unit_test(hand_made_graphs_go_side_by_side),
        cmocka_unit_test(one_graph_stays_as_it_is),
        cmocka_unit_test(a_block_inside_a_level_stays_one_block),
        cmocka_unit_test(a_block_across_levels_gets_an_order_and_stays_one_block),
        cmocka_unit_test(the_whole_promises_what_all_do_but_is_not_complete),
        cmocka_unit_test(queries_come_before_keys),
        cmocka_unit_test(graphs_that_do_not_fit_are_refused),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("concat", tests, NULL, NULL);
}
