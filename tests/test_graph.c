/* What a graph is made of: order, masses, spans, names, and blocks whose instances lie in one place. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static hga_builder *started(hga_id tokens, hga_id above)
{
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, tokens, NULL));
    assert_ok(hga_builder_add_level(b, above, NULL));
    return b;
}

static hga_graph *finished(hga_builder *b)
{
    hga_graph *g;
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---- nodes ---- */

/* Many calls, so that no sort keeps equal ones in order by luck. */
static void of_several_masses_the_last_one_counts(void **state)
{
    (void)state;
    enum { NODES = 3, CALLS = 1000 };
    hga_builder *b = started(NODES, 1);
    for (hga_id i = 0; i < CALLS; i++) assert_ok(hga_builder_set_mass(b, (7 * i) % (NODES + 1), (float)i));
    hga_graph *g = finished(b);
    for (hga_id v = 0; v <= NODES; v++) {
        hga_id last = CALLS - 1;
        while ((7 * last) % (NODES + 1) != v) last--;
        assert_true(hga_graph_nodes(g).mass[v] == (float)last);
    }
    hga_graph_destroy(g);
}

/* Tokens 0 and 2 without 1 are no interval; 0 .. 2 are. */
static void families_with_a_hole_have_no_span(void **state)
{
    (void)state;
    hga_builder *b = started(6, 2);
    assert_ok(hga_builder_set_children(b, 6, 0, 1));
    assert_ok(hga_builder_set_children(b, 6, 2, 1));
    assert_ok(hga_builder_set_children(b, 7, 3, 3));
    hga_graph *g = finished(b);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_true(nodes.span_first[6] > nodes.span_last[6]);
    assert_int_equal(nodes.span_first[7], 3);
    assert_int_equal(nodes.span_last[7], 5);
    hga_graph_destroy(g);
}

/* Bytes count what a relation has: an order of its rows and that turned round, and one of its columns. */
static void orders_count_among_the_bytes(void **state)
{
    (void)state;
    enum { NODES = 1000 };
    int64_t bytes[2];
    hga_id order[NODES];
    for (hga_id i = 0; i < NODES; i++) order[i] = NODES - 1 - i;
    for (int ordered = 0; ordered < 2; ordered++) {
        hga_builder *b = started(NODES, 0);
        hga_id near;
        assert_ok(hga_builder_add_relation(b, "near", &near));
        if (ordered) assert_ok(hga_builder_set_order(b, near, order, NODES, order, NODES));
        assert_ok(hga_builder_add_block(b, near, 0, 10, 0, 10, 0));
        hga_graph *g = finished(b);
        bytes[ordered] = hga_graph_bytes(g);
        hga_graph_destroy(g);
    }
    assert_int_equal(bytes[1] - bytes[0], 3 * NODES * (int64_t)sizeof(hga_id));
}

/* ---- blocks ---- */

/* Blocks that agree in place, type, sizes and count, and in nothing else. */
static hga_block like_the_others(hga_id i)
{
    hga_block b = {.n_dst = 4, .n_src = 4, .count = 3, .weight = 1 + (float)(i % 2)};
    b.dst_step = i % 3 + 1, b.src_step = i % 5, b.type_src = i % 4;
    b.shape = i % 7 == 6 ? HGA_LOWER : HGA_ALL;
    return b;
}

static void the_order_of_blocks_does_not_hang_on_the_order_of_calls(void **state)
{
    (void)state;
    enum { BLOCKS = 210 };
    hga_graph *g[2];
    for (int turn = 0; turn < 2; turn++) {
        hga_builder *b = started(64, 0);
        hga_id near;
        assert_ok(hga_builder_add_relation(b, "near", &near));
        for (hga_id i = 0; i < BLOCKS; i++) {
            hga_block one = like_the_others(turn ? BLOCKS - 1 - i : i);
            assert_ok(hga_builder_add_blocks(b, near, &one));
        }
        g[turn] = finished(b);
    }
    hga_relation x = hga_graph_relation(g[0], 0), y = hga_graph_relation(g[1], 0);
    assert_int_equal(x.n_blocks, BLOCKS);
    assert_memory_equal(x.blocks, y.blocks, (size_t)x.n_blocks * sizeof *x.blocks);
    hga_graph_destroy(g[0]), hga_graph_destroy(g[1]);
}

/* Each counts, but none is visited: 21845 of them on each of 10000 rows take no time. */
static void instances_in_one_place_cost_as_one(void **state)
{
    (void)state;
    enum { ROWS = 10000, COUNT = 21845 };
    hga_builder *b = started(ROWS + 1, 0);
    hga_id near;
    static hga_pos degree[ROWS + 1];
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_blocks(b, near, &(hga_block){.n_dst = ROWS, .n_src = 3, .count = COUNT}));
    double start = processor_seconds();
    hga_graph *g = finished(b);
    assert_int_equal(hga_graph_relation(g, near).n_edges, INT64_C(3) * ROWS * COUNT);
    hga_graph_degrees(g, near, 0, ROWS + 1, degree);
    assert_int_equal(degree[1], 3 * COUNT);
    assert_int_equal(degree[ROWS - 1], 3 * COUNT);
    assert_int_equal(degree[ROWS], 0);
    hga_segment one;
    assert_int_equal(hga_graph_segments(g, near, 0, ROWS, &one, 1), COUNT);
    assert_true(processor_seconds() - start < 0.5);
    hga_graph_destroy(g);
}

/* ---- relations ---- */

static void relations_are_found_without_walking_all(void **state)
{
    (void)state;
    enum { RELATIONS = 40000 };
    char name[64];
    hga_id found;
    hga_builder *b = started(2, 0);
    double start = processor_seconds();
    for (hga_id i = 0; i < RELATIONS; i++) {
        snprintf(name, sizeof name, "a relation with a name of some length, %d", i);
        assert_ok(hga_builder_add_relation(b, name, &found));
        assert_int_equal(found, i);
    }
    assert_status(HGA_EGRAPH, hga_builder_add_relation(b, name, &found));
    hga_graph *g = finished(b);
    for (hga_id i = 0; i < RELATIONS; i++) {
        snprintf(name, sizeof name, "a relation with a name of some length, %d", i);
        assert_int_equal(hga_graph_find_relation(g, name), i);
    }
    assert_int_equal(hga_graph_find_relation(g, "no such relation"), -1);
    assert_true(processor_seconds() - start < 2);
    hga_graph_destroy(g);
}

/* ---- edges in arrays ---- */

static void edges_in_arrays_are_those_one_by_one(void **state)
{
    (void)state;
    static const hga_id source[] = {0, 3, 3, 1}, destination[] = {2, 1, 1, 2};
    static const int32_t type[] = {1, 0, 0, 4};
    static const float weight[] = {1, 2, 2, 0.5f};
    hga_builder *b = started(4, 0), *one = started(4, 0);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_relation(one, "near", &near));
    assert_ok(hga_builder_add_edges(b, near, 4, source, destination, type, weight));
    assert_ok(hga_builder_add_edges(b, near, 1, source + 1, source, NULL, NULL)); /* 3 -> 0, type 0, weight 1 */
    for (int i = 0; i < 4; i++)
        assert_ok(hga_builder_add_edge(one, near, source[i], destination[i], type[i], weight[i]));
    assert_ok(hga_builder_add_edge(one, near, 3, 0, 0, 1));
    assert_ok(hga_builder_add_edges(b, near, 0, NULL, NULL, NULL, NULL));
    assert_status(HGA_EINVAL, hga_builder_add_edges(b, near, 1, NULL, source, NULL, NULL));
    assert_status(HGA_EINVAL, hga_builder_add_edges(b, near, -1, source, source, NULL, NULL));
    static const hga_id far[] = {0, 4};
    assert_status(HGA_EGRAPH, hga_builder_add_edges(b, near, 2, source, far, NULL, NULL));
    assert_non_null(strstr(hga_error_detail(), "destination 4 is not a node"));
    assert_ok(hga_builder_add_edge(one, near, 0, 0, 0, 1)); /* the edge before the wrong one is there */
    hga_graph *got = finished(b), *want = finished(one);
    int64_t n_got, n_want;
    edge *x = all_rows(got, near, &n_got), *y = all_rows(want, near, &n_want);
    assert_int_equal(n_got, 5);
    assert_same_edges("in arrays", x, n_got, y, n_want);
    free(x), free(y);
    hga_graph_destroy(got), hga_graph_destroy(want);
}

/* The edges 0 -> 1 of types 0 and 1 and 2 -> 1, the first given thrice; sums, or one error that names two weights. */
static hga_status repeated(int sums, const float weight[5], hga_graph **out)
{
    static const hga_id source[] = {0, 2, 0, 0, 0}, destination[] = {1, 1, 1, 1, 1};
    static const int32_t type[] = {0, 0, 1, 0, 0};
    hga_builder *b = started(3, 0);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    if (sums) assert_ok(hga_builder_sum_edges(b, near));
    assert_ok(hga_builder_add_edges(b, near, 5, source, destination, type, weight));
    assert_status(HGA_EGRAPH, hga_builder_sum_edges(b, near + 1));
    hga_status st = hga_builder_finish(b, out);
    hga_builder_destroy(b);
    return st;
}

static void edges_given_again_add_up_in_any_order(void **state)
{
    (void)state;
    static const float weight[] = {1e-8f, 2, 3, 1, 0.5f}, turned[] = {0.5f, 2, 3, 1, 1e-8f},
                       most[] = {2e38f, 1, 1, 2e38f, 1};
    hga_graph *g, *again;
    assert_ok(repeated(1, weight, &g));
    assert_ok(repeated(1, turned, &again));
    hga_relation r = hga_graph_relation(g, 0), s = hga_graph_relation(again, 0);
    assert_int_equal(r.n_explicit, 3);
    static const hga_id src[] = {0, 0, 2};
    static const int32_t type[] = {0, 1, 0};
    assert_memory_equal(r.src, src, sizeof src);
    assert_memory_equal(r.type, type, sizeof type);
    assert_true(r.weight[0] == (float)(1e-8f + 0.5 + 1) && r.weight[1] == 3 && r.weight[2] == 2);
    assert_memory_equal(r.weight, s.weight, 3 * sizeof *r.weight);
    hga_graph_destroy(g), hga_graph_destroy(again);
    assert_status(HGA_EGRAPH, repeated(1, most, &g));
    assert_non_null(strstr(hga_error_detail(), "edge 0 -> 1 of type 0: its weights sum up to 4e+38"));
    assert_status(HGA_EGRAPH, repeated(0, weight, &g));
    assert_non_null(strstr(hga_error_detail(), "edge 0 -> 1 of type 0 is given with weights 1e-08 and 1"));
}

enum { NODES = 40, SOME_AGAIN = 700, EACH_ONCE = 30 };

/* Edges among all nodes but the last, drawn at random; `other`, of another type, is its own. */
static hga_graph *drawn(int edges, int sums, int other)
{
    uint64_t rng = 11;
    hga_builder *b = started(NODES, 0);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    if (sums) assert_ok(hga_builder_sum_edges(b, near));
    for (int i = 0; i < edges; i++) {
        hga_id u = edges == EACH_ONCE ? i : (hga_id)random_below(&rng, NODES - 1),
               v = (hga_id)random_below(&rng, NODES - 1);
        assert_ok(hga_builder_add_edge(b, near, u, v, 0, 1));
    }
    if (other) assert_ok(hga_builder_add_edge(b, near, NODES - 1, NODES - 1, 1, 1));
    return finished(b);
}

static void check_plain(int edges, int sums)
{
    hga_graph *g = drawn(edges, sums, 0), *of_two = drawn(edges, sums, 1);
    hga_relation one = hga_graph_relation(g, 0), many = hga_graph_relation(of_two, 0);
    int again = edges == SOME_AGAIN;
    assert_null(one.type);
    assert_non_null(many.type);
    assert_int_equal(one.n_explicit, many.n_explicit - 1);
    assert_true((one.n_explicit < edges) == again);
    assert_true(one.weighted == (sums && again) && many.weighted == (sums && again));
    assert_memory_equal(one.ptr, many.ptr, NODES * sizeof *one.ptr);
    assert_memory_equal(one.src, many.src, (size_t)one.n_explicit * sizeof *one.src);
    if (one.weight) assert_memory_equal(one.weight, many.weight, (size_t)one.n_explicit * sizeof *one.weight);
    hga_graph_destroy(g), hga_graph_destroy(of_two);
}

/* Which are sorted as their other ends alone. */
static void edges_of_one_type_and_weight_are_those_of_many(void **state)
{
    (void)state;
    for (int sums = 0; sums < 2; sums++) check_plain(SOME_AGAIN, sums), check_plain(EACH_ONCE, sums);
}

/* ---- equal edges ---- */

/* One token attends to another 60,000 times, by instances of one block, each edge with a bias of its own. */
static void canonical_positions_of_equal_edges_cost_no_square(void **state)
{
    (void)state;
    enum { EDGES = 60000 };
    hga_builder *b = started(2, 0);
    hga_id near, query, key, value, out;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_blocks(b, near, &(hga_block){.n_dst = 1, .n_src = 2, .count = EDGES / 2}));
    problem p = {.name = "twins", .graph = finished(b), .shape = {.n_heads = 1, .dim = 4}};
    hga_program_init(&p.program);
    assert_ok(
        hga_program_add_field(&p.program, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_NODES, HGA_ROWS_NODES, &query));
    assert_ok(
        hga_program_add_field(&p.program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_NODES, HGA_ROWS_NODES, &key));
    assert_ok(
        hga_program_add_field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES, &value));
    assert_ok(
        hga_program_add_field(&p.program, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_attend(&p.program, near, query, key, value, out, 0));
    p.program.has_lse = 1;
    problem_fill(&p, 5);
    problem_fill_tables(&p, 6, 0, 0, 1);
    double start = processor_seconds();
    assert_equals_slow(&p, 1e-3);
    assert_true(processor_seconds() - start < 3);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_several_masses_the_last_one_counts),
        cmocka_unit_test(families_with_a_hole_have_no_span),
        cmocka_unit_test(orders_count_among_the_bytes),
        cmocka_unit_test(the_order_of_blocks_does_not_hang_on_the_order_of_calls),
        cmocka_unit_test(instances_in_one_place_cost_as_one),
        cmocka_unit_test(relations_are_found_without_walking_all),
        cmocka_unit_test(edges_in_arrays_are_those_one_by_one),
        cmocka_unit_test(edges_given_again_add_up_in_any_order),
        cmocka_unit_test(edges_of_one_type_and_weight_are_those_of_many),
        cmocka_unit_test(canonical_positions_of_equal_edges_cost_no_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
