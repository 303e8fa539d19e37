/* test_sources.c: rows with their sources as intervals, and powers of relations. */
#include "sources.h"
#include "power.h"
#include "by_hand.h"

#include <stdlib.h>

/* ---- sources ---- */

typedef struct listing {
    const hga_graph *g;
    edge *e;
    int64_t n, groups, spans;
    hga_id rows, last_level, up;
    int level_by_level;
} listing;

static hga_id node(const hga_id *order, hga_id i) { return order ? order[i] : i; }

static hga_status list_group(const reach *r, void *context)
{
    listing *l = context;
    l->groups++, l->spans += r->n_spans, l->rows += r->n_rows;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = node(r->row_order, r->row + i), level = hga_graph_level(l->g, v);
        l->level_by_level &= l->up ? level >= l->last_level : level <= l->last_level;
        l->last_level = level;
        for (int64_t k = 0; k < r->n_spans; k++)
            for (hga_id u = r->spans[k].first; u <= r->spans[k].last; u++)
                l->e[l->n++] = (edge){.dst = v, .src = node(r->source_order, u)};
        for (int64_t k = 0; k < r->n_nodes; k++) l->e[l->n++] = (edge){.dst = v, .src = r->nodes[k]};
    }
    return HGA_OK;
}

/* All pairs, without their types. */
static edge *pairs(const hga_graph *g, int64_t *n)
{
    edge *e = all_edges(g, 0, n);
    for (int64_t i = 0; i < *n; i++) e[i].type = 0;
    return e;
}

static void sources_are_the_edges_in_every_order(void **state)
{
    (void)state;
    static const hga_order orders[] = {HGA_FLAT, HGA_LEVELS_UP, HGA_LEVELS_DOWN};
    for (uint64_t seed = 1; seed <= 60; seed++)
        for (int o = 0; o < 3; o++) {
            hga_graph *g =
                random_graph(seed, 1 + (hga_id)seed % 50, WITH_BLOCKS | WITH_EDGES | (seed % 2 ? WITH_ORDERS : 0));
            int64_t n;
            edge *want = pairs(g, &n);
            listing l = {
                .g = g, .e = memory(n + 1, sizeof *l.e), .up = orders[o] == HGA_LEVELS_UP, .level_by_level = 1};
            if (orders[o] == HGA_LEVELS_DOWN) l.last_level = hga_graph_nodes(g).n_levels;
            assert_ok(reach_rows(g, 0, orders[o], list_group, &l));
            assert_int_equal(l.rows, hga_graph_nodes(g).n);
            assert_true(orders[o] == HGA_FLAT || l.level_by_level);
            sort_edges(l.e, l.n), sort_edges(want, n);
            assert_same_edges("sources", l.e, l.n, want, n);
            free(l.e), free(want), hga_graph_destroy(g);
        }
}

static void some_nodes_have_their_sources_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        hga_graph *g = random_graph(seed, 20, WITH_BLOCKS | WITH_EDGES | (seed % 2 ? WITH_ORDERS : 0));
        hga_id nodes = hga_graph_nodes(g).n, half = nodes / 2;
        int64_t n;
        edge *want = pairs(g, &n);
        listing l = {.g = g, .e = memory(n + 1, sizeof *l.e)};
        reach_walk *walk;
        assert_ok(reach_walk_create(g, 0, &walk));
        assert_ok(reach_nodes(walk, half, nodes - half, list_group, &l));
        assert_int_equal(l.rows, nodes - half);
        for (int64_t i = 0; i < l.n; i++) assert_true(l.e[i].dst >= half);
        assert_ok(reach_nodes(walk, 0, half, list_group, &l));
        sort_edges(l.e, l.n), sort_edges(want, n);
        assert_same_edges("sources", l.e, l.n, want, n);
        reach_walk_destroy(walk);
        free(l.e), free(want), hga_graph_destroy(g);
    }
}

/* One block of 6 rows on 6 columns. */
static listing of_block(hga_shape_kind shape, edge *e)
{
    hga_graph *g = blocks_over(6, &(hga_block){.n_dst = 6, .n_src = 6, .shape = shape}, 1);
    listing l = {.g = g, .e = e};
    assert_ok(reach_rows(g, 0, HGA_FLAT, list_group, &l));
    hga_graph_destroy(g);
    return l;
}

static void rows_of_a_full_block_share_one_interval(void **state)
{
    (void)state;
    edge e[36];
    listing l = of_block(HGA_ALL, e);
    assert_true(l.groups == 1 && l.spans == 1 && l.n == 36);
}

static void a_hole_leaves_an_interval_on_each_side(void **state)
{
    (void)state;
    edge e[36];
    listing l = of_block(HGA_OFF_DIAGONAL, e);
    assert_true(l.groups == 6 && l.spans == 2 * 4 + 2 && l.n == 30);
}

/* ---- powers ---- */

/* Every node of n reaches the next `right` ones. */
static void reach_right(hga_id n, hga_id right, hop *h)
{
    assert_ok(hop_create(n, h));
    for (hga_id v = 0; v < n; v++) {
        reach_span own = {v, v + right < n ? v + right : n - 1};
        assert_ok(hop_set(h, v, &own, 1));
    }
    assert_ok(hop_finish(h));
}

static void two_steps_reach_twice_as_far(void **state)
{
    (void)state;
    hop one, two, want;
    int64_t work = 20, none = 19;
    reach_right(20, 3, &one), reach_right(20, 6, &want);
    assert_status(HGA_EUNSUPPORTED, hop_compose(&one, &one, &none, &two)); /* an interval for each node */
    assert_ok(hop_compose(&one, &one, &work, &two));
    assert_int_equal(work, 0);
    assert_true(hop_equal(&two, &want) && !hop_equal(&one, &two));
    hop_clear(&one), hop_clear(&two), hop_clear(&want);
}

static void spans_that_touch_are_one_and_others_stay_apart(void **state)
{
    (void)state;
    reach_span spans[] = {{7, 9}, {0, 1}, {2, 3}, {5, 5}};
    hop h;
    assert_ok(hop_create(10, &h));
    assert_ok(hop_set(&h, 5, spans, 4));
    assert_true(h.first[5] == 5 && h.last[5] == 5 && h.size[5] == 2);
    assert_true(h.extra[0].first == 0 && h.extra[0].last == 3 && h.extra[1].first == 7 && h.extra[1].last == 9);
    hop_clear(&h);
}

/* 0 -> 9 -> 4: two steps reach 0, 4 and 9. */
static void a_step_over_a_gap_goes_on_from_there(void **state)
{
    (void)state;
    reach_span from_0[] = {{0, 0}, {9, 9}}, from_9[] = {{9, 9}, {4, 4}};
    hop one, two;
    int64_t work = 100;
    assert_ok(hop_create(10, &one));
    assert_ok(hop_set(&one, 0, from_0, 2));
    assert_ok(hop_set(&one, 9, from_9, 2));
    assert_ok(hop_finish(&one));
    assert_ok(hop_compose(&one, &one, &work, &two));
    assert_true(two.size[0] == 2 && two.extra[two.start[0]].first == 4 && two.extra[two.start[0] + 1].first == 9);
    hop_clear(&one), hop_clear(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_are_the_edges_in_every_order),
        cmocka_unit_test(some_nodes_have_their_sources_alone),
        cmocka_unit_test(rows_of_a_full_block_share_one_interval),
        cmocka_unit_test(a_hole_leaves_an_interval_on_each_side),
        cmocka_unit_test(two_steps_reach_twice_as_far),
        cmocka_unit_test(spans_that_touch_are_one_and_others_stay_apart),
        cmocka_unit_test(a_step_over_a_gap_goes_on_from_there),
    };
    return cmocka_run_group_tests_name("sources", tests, NULL, NULL);
}
