/* test_transpose.c: turned edges, against turning them one by one. */
#include "graphs.h"

static edges turned_one_by_one(const hga_graph *g, hga_id relation)
{
    edges list = edges_of(g, relation);
    for (int64_t i = 0; i < list.n; i++)
        list.e[i] = (edge){list.e[i].src, list.e[i].dst, list.e[i].type, list.e[i].weight};
    edges_sort(&list);
    return list;
}

static void assert_turned(hga_graph *g)
{
    hga_graph *t;
    SUCCEEDS(hga_graph_transpose(g, &t));
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++)
        assert_equal_edges(edges_of(t, i), turned_one_by_one(g, i));
    hga_graph_destroy(t);
    hga_graph_destroy(g);
}

static void every_edge_is_turned_round(void **state)
{
    (void)state;
    assert_turned(mixed_graph(NULL));
    assert_turned(cross_graph(NULL));
    for (uint64_t seed = 0; seed < 200; seed++) assert_turned(random_graph(seed, (int)(seed % 2)));
}

static void a_block_turns_into_a_block(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL), *t;
    SUCCEEDS(hga_graph_transpose(g, &t));
    for (hga_id i = 0; i < 3; i++)
        assert_int_equal(hga_graph_relation(t, i).n_blocks, hga_graph_relation(g, i).n_blocks);
    assert_int_equal(hga_graph_relation(t, 0).positioned, hga_graph_relation(g, 0).positioned);
    hga_graph_destroy(t), hga_graph_destroy(g);
}

/* The block edges of a relation, turned round or not, with the node + 1 whose position the row uses, or the source, in
   place of the weight. */
static edges positions(const hga_graph *g, hga_id relation, int of_sources, int turned)
{
    edges list = {0};
    hga_relation r = hga_graph_relation(g, relation);
    for (hga_id p = 0; p < hga_graph_nodes(g).n; p++) {
        hga_segment s[64];
        hga_pos n = hga_graph_segments(g, relation, p, 1, s, 64);
        assert_true(n <= 64);
        for (hga_pos i = 0; i < n; i++) {
            hga_id c0, c1, hole, v = r.dst_order ? r.dst_order[p] : p;
            hga_segment_columns(&s[i], p, &c0, &c1, &hole);
            for (hga_id c = c0; c < c1; c++) {
                if (c == hole) continue;
                hga_id u = r.src_order ? r.src_order[s[i].src + c] : s[i].src + c;
                int32_t type = s[i].type + (p - s[i].row) * s[i].type_dst + c * s[i].type_src;
                float node = (float)(of_sources ? s[i].src_pos_of : s[i].pos_of);
                edges_add(&list, turned ? (edge){u, v, type, node} : (edge){v, u, type, node});
            }
        }
    }
    edges_sort(&list);
    return list;
}

static void rows_and_columns_change_positions(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        hga_graph *g = random_graph(seed, (int)(seed % 2)), *t;
        SUCCEEDS(hga_graph_transpose(g, &t));
        for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) {
            assert_equal_edges(positions(t, i, 0, 0), positions(g, i, 1, 1));
            assert_equal_edges(positions(t, i, 1, 0), positions(g, i, 0, 1));
        }
        hga_graph_destroy(t), hga_graph_destroy(g);
    }
}

static void turned_twice_the_rows_are_as_before(void **state)
{
    (void)state;
    hga_graph *g = random_graph(7, 1), *t, *back;
    SUCCEEDS(hga_graph_transpose(g, &t));
    SUCCEEDS(hga_graph_transpose(t, &back));
    assert_equal_rows(g, back);
    hga_graph_destroy(back), hga_graph_destroy(t), hga_graph_destroy(g);
}

static void the_nodes_stay_but_a_turned_graph_is_not_causal(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL), *t;
    SUCCEEDS(hga_graph_transpose(g, &t));
    hga_nodes a = hga_graph_nodes(g), b = hga_graph_nodes(t);
    assert_memory_equal(a.mass, b.mass, (size_t)a.n * sizeof *a.mass);
    assert_memory_equal(a.parent, b.parent, (size_t)a.n * sizeof *a.parent);
    assert_int_equal(b.claims, 0);
    hga_graph_destroy(t), hga_graph_destroy(g);
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_nothing_is_left_behind(hga_graph_transpose);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_is_turned_round),
        cmocka_unit_test(a_block_turns_into_a_block),
        cmocka_unit_test(rows_and_columns_change_positions),
        cmocka_unit_test(turned_twice_the_rows_are_as_before),
        cmocka_unit_test(the_nodes_stay_but_a_turned_graph_is_not_causal),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("transpose", tests, NULL, NULL);
}
