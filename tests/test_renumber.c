/* test_renumber.c: graphs under other numbers: every edge, node and position moves along. */
#include "graphs.h"

/* A random order in which nodes stay on their level, and tokens on their side. */
static void shuffle_within(const hga_graph *g, uint64_t seed, hga_id *order)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_id second = nodes.query_first > nodes.key_first ? nodes.query_first : nodes.key_first;
    for (hga_id i = 0; i < nodes.n; i++) order[i] = i;
    for (hga_id l = 0; l < nodes.n_levels; l++)
        for (hga_id i = nodes.level_ptr[l + 1] - 1; i > nodes.level_ptr[l]; i--) {
            hga_id first = l == 0 && i >= second ? second : nodes.level_ptr[l];
            hga_id j = first + random_up_to(&seed, i - first), x = order[i];
            order[i] = order[j], order[j] = x;
        }
}

static void invert(const hga_id *order, hga_id n, hga_id *place)
{
    for (hga_id i = 0; i < n; i++) place[order[i]] = i;
}

static edges moved_one_by_one(const hga_graph *g, hga_id relation, const hga_id *place)
{
    edges list = edges_of(g, relation);
    for (int64_t i = 0; i < list.n; i++) list.e[i].dst = place[list.e[i].dst], list.e[i].src = place[list.e[i].src];
    edges_sort(&list);
    return list;
}

static void assert_nodes_moved(const hga_graph *g, const hga_graph *h, const hga_id *place)
{
    hga_nodes a = hga_graph_nodes(g), b = hga_graph_nodes(h);
    assert_int_equal(a.query_first, b.query_first), assert_int_equal(a.n_queries, b.n_queries);
    assert_int_equal(a.key_first, b.key_first), assert_int_equal(a.n_keys, b.n_keys);
    for (hga_id v = 0; v < a.n; v++) {
        assert_int_equal(hga_graph_level(g, v), hga_graph_level(h, place[v]));
        assert_int_equal(a.side ? a.side[v] : 0, b.side ? b.side[place[v]] : 0);
        assert_true(a.mass[v] == b.mass[place[v]]);
        hga_id parent = a.parent ? a.parent[v] : -1;
        assert_int_equal(parent < 0 ? -1 : place[parent], b.parent ? b.parent[place[v]] : -1);
    }
}

static hga_graph *any_graph(uint64_t seed)
{
    return seed == 0 ? mixed_graph(NULL) : seed == 1 ? cross_graph(NULL) : random_graph(seed, (int)(seed % 2));
}

static void edges_and_nodes_move_along(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        hga_graph *g = any_graph(seed), *h;
        hga_id n = hga_graph_nodes(g).n, order[64], place[64];
        shuffle_within(g, seed, order);
        invert(order, n, place);
        SUCCEEDS(hga_graph_renumber(g, order, &h));
        assert_nodes_moved(g, h, place);
        for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) {
            assert_string_equal(hga_graph_relation(g, r).name, hga_graph_relation(h, r).name);
            assert_equal_edges(edges_of(h, r), moved_one_by_one(g, r, place));
        }
        hga_graph_destroy(g), hga_graph_destroy(h);
    }
}

static void the_inverse_order_leads_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        hga_graph *g = any_graph(seed), *h, *back;
        hga_id order[64], place[64];
        shuffle_within(g, seed, order);
        invert(order, hga_graph_nodes(g).n, place);
        SUCCEEDS(hga_graph_renumber(g, order, &h));
        SUCCEEDS(hga_graph_renumber(h, place, &back));
        assert_equal_rows(g, back);
        hga_graph_destroy(g), hga_graph_destroy(h), hga_graph_destroy(back);
    }
}

/* Each edge of the new graph is, with the old numbers, the edge that it is said to have been; all of them once. */
static void it_is_known_where_each_edge_was(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        hga_graph *g = any_graph(seed), *h;
        hga_id order[64];
        shuffle_within(g, seed, order);
        SUCCEEDS(hga_graph_renumber(g, order, &h));
        for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) {
            edges was = edges_of(g, r), is = edges_of(h, r);
            hga_pos *at = calloc((size_t)was.n + 1, sizeof *at);
            uint8_t *seen = calloc((size_t)was.n + 1, 1);
            assert_true(at && seen);
            SUCCEEDS(hga_graph_renumbered_edges(g, r, order, at));
            for (int64_t i = 0; i < is.n; i++) {
                assert_in_range(at[i], 0, was.n - 1);
                edge e = is.e[i], w = was.e[at[i]];
                assert_int_equal(order[e.dst], w.dst), assert_int_equal(order[e.src], w.src);
                assert_int_equal(e.type, w.type), assert_true(e.weight == w.weight);
                assert_int_equal(seen[at[i]]++, 0);
            }
            free(was.e), free(is.e), free(at), free(seen);
        }
        hga_graph_destroy(g), hga_graph_destroy(h);
    }
}

/* A file's edge that is given twice is two blocks of a pair; they need no orders. */
static void pairs_move_without_orders(void **state)
{
    (void)state;
    hga_id near, order[] = {2, 0, 1};
    hga_builder *b = tokens_near(3, &near);
    hga_block pair = {.dst = 0, .n_dst = 1, .src = 1, .n_src = 1};
    SUCCEEDS(hga_builder_add_blocks(b, near, &pair));
    SUCCEEDS(hga_builder_add_blocks(b, near, &pair));
    hga_graph *g = finished(b), *h;
    SUCCEEDS(hga_graph_renumber(g, order, &h));
    hga_relation r = hga_graph_relation(h, near);
    assert_int_equal(r.n_edges, 2);
    assert_null(r.dst_order), assert_null(r.src_order);
    for (int i = 0; i < 2; i++) assert_int_equal(r.blocks[i].dst, 1), assert_int_equal(r.blocks[i].src, 2);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

/* What is repeated at equal steps stays one block: steps are of positions, which the orders name. */
static void repeated_blocks_stay_repeated(void **state)
{
    (void)state;
    enum { N = 64, TIMES = 16 };
    hga_id near, order[N];
    hga_builder *b = tokens_near(N, &near);
    hga_block band = {.dst = 0, .n_dst = 4, .src = 0, .n_src = 4, .count = TIMES, .dst_step = 4, .src_step = 4};
    SUCCEEDS(hga_builder_add_blocks(b, near, &band));
    hga_graph *g = finished(b), *h;
    for (hga_id i = 0; i < N; i++) order[i] = (i * 37 + 5) % N;
    SUCCEEDS(hga_graph_renumber(g, order, &h));
    hga_relation r = hga_graph_relation(h, near);
    assert_int_equal(r.n_edges, 4 * 4 * TIMES);
    assert_int_equal(r.n_blocks, 1);
    assert_int_equal(r.blocks[0].count, TIMES);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void names_and_places_stay_with_their_tokens(void **state)
{
    (void)state;
    hga_id near, order[] = {2, 0, 1};
    hga_builder *b = tokens_near(3, &near);
    SUCCEEDS(hga_builder_set_name(b, 2, "two"));
    hga_graph *g = finished(b), *h;
    double at[3];
    SUCCEEDS(hga_graph_renumber(g, order, &h));
    assert_string_equal(hga_graph_name(h, 0), "two");
    assert_null(hga_graph_name(h, 1));
    SUCCEEDS(hga_graph_positions(h, at));
    for (int i = 0; i < 3; i++) assert_true(at[i] == order[i]);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void what_was_causal_is_not_claimed_to_be(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL), *h;
    hga_id order[64];
    shuffle_within(g, 1, order);
    SUCCEEDS(hga_graph_renumber(g, order, &h));
    assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_CAUSAL | HGA_CLAIM_COMPLETE);
    assert_int_equal(hga_graph_nodes(h).claims, 0);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void what_is_no_order_is_refused(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL), *h, *crossed = cross_graph(NULL);
    hga_id order[64];
    hga_pos at[64];
    for (hga_id i = 0; i < 64; i++) order[i] = i;
    order[2] = 1;
    FAILS(HGA_EINVAL, "order[2] = 1: order[1] is the same node", hga_graph_renumber(g, order, &h));
    assert_null(h);
    FAILS(HGA_EINVAL, "order[2] = 1: order[1] is the same node", hga_graph_renumbered_edges(g, 1, order, at));
    order[2] = 15;
    FAILS(HGA_EINVAL, "order[2] = 15 is not one of 15 nodes", hga_graph_renumber(g, order, &h));
    order[2] = -1;
    FAILS(HGA_EINVAL, "order[2] = -1", hga_graph_renumber(g, order, &h));
    order[2] = 8, order[8] = 2;
    FAILS(HGA_EINVAL, "order[2] = 8: nodes 2 and 8 are on other levels or sides", hga_graph_renumber(g, order, &h));
    order[8] = 8, order[2] = 3, order[3] = 2;
    FAILS(HGA_EINVAL, "order[2] = 3: nodes 2 and 3 are on other levels or sides",
          hga_graph_renumber(crossed, order, &h));
    order[2] = 2, order[3] = 3;
    FAILS(HGA_EINVAL, "relation 7", hga_graph_renumbered_edges(g, 7, order, at));
    hga_graph_destroy(g), hga_graph_destroy(crossed);
}

static hga_status renumber(const hga_graph *g, hga_graph **out)
{
    hga_id order[64];
    shuffle_within(g, 3, order);
    return hga_graph_renumber(g, order, out);
}

static hga_status list_edges(const hga_graph *g, hga_graph **out)
{
    hga_id order[64];
    hga_pos at[256];
    *out = NULL;
    shuffle_within(g, 3, order);
    hga_status st = hga_graph_renumbered_edges(g, 0, order, at);
    if (!st) *out = hga_graph_retain(g);
    return st;
}

static hga_status put_in_order(const hga_graph *g, hga_graph **out)
{
    hga_id order[64];
    hga_locality l;
    hga_status st = HGA_OK;
    *out = NULL;
    for (hga_ordering how = HGA_ORDERING_RCM; !st && how <= HGA_ORDERING_DEGREE; how++)
        st = hga_graph_order(g, how, order);
    if (!st) st = hga_graph_locality(g, 2, &l);
    if (!st) *out = hga_graph_retain(g);
    return st;
}

static void what_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_nothing_is_left_behind(renumber);
    assert_nothing_is_left_behind(list_edges);
    assert_nothing_is_left_behind(put_in_order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_and_nodes_move_along),
        cmocka_unit_test(the_inverse_order_leads_back),
        cmocka_unit_test(it_is_known_where_each_edge_was),
        cmocka_unit_test(pairs_move_without_orders),
        cmocka_unit_test(repeated_blocks_stay_repeated),
        cmocka_unit_test(names_and_places_stay_with_their_tokens),
        cmocka_unit_test(what_was_causal_is_not_claimed_to_be),
        cmocka_unit_test(what_is_no_order_is_refused),
        cmocka_unit_test(what_fails_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("renumber", tests, NULL, NULL);
}
