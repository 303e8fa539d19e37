/* What a few numbers of a block can ask for: degrees that nobody expands to count them, and what is refused since
   nobody could list it. */
#include "testing.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"

/* A graph of n tokens with the relation "near" of these blocks; its status, the graph for who wants it. */
static hga_status build(hga_id n, const hga_block *blocks, int n_blocks, const hga_id *order, hga_graph **g)
{
    hga_builder *b;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, n, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_set_order(b, near, order, order ? n : 0, NULL, 0));
    for (int i = 0; i < n_blocks; i++) assert_ok(hga_builder_add_blocks(b, near, &blocks[i]));
    hga_status st = hga_builder_finish(b, g);
    hga_builder_destroy(b);
    return st;
}

/* The pairs of one block on position p, from the definition of its shape. */
static hga_pos counted(const hga_block *b, hga_id p)
{
    hga_pos n = 0;
    for (hga_id i = 0; i < (b->count ? b->count : 1); i++) {
        hga_id row = p - b->dst - i * b->dst_step;
        for (hga_id c = 0; row >= 0 && row < b->n_dst && c < b->n_src; c++) {
            hga_id offset = c - row;
            switch (b->shape) {
            case HGA_LOWER: n += offset <= 0; break;
            case HGA_STRICT_LOWER: n += offset < 0; break;
            case HGA_UPPER: n += offset >= 0; break;
            case HGA_STRICT_UPPER: n += offset > 0; break;
            case HGA_OFF_DIAGONAL: n += offset != 0; break;
            case HGA_BAND: n += b->band_first <= offset && offset <= b->band_last; break;
            default: n++;
            }
        }
    }
    return n;
}

static uint64_t draw(uint64_t *i) { return random_bits(1, (*i)++); }

static hga_block draw_block(uint64_t *seed, hga_id n)
{
    hga_block b = {.n_dst = 1 + (hga_id)(draw(seed) % 12), .n_src = 1 + (hga_id)(draw(seed) % 12)};
    b.count = (hga_id)(draw(seed) % 6);
    b.dst_step = (hga_id)(draw(seed) % 4), b.src_step = (hga_id)(draw(seed) % 4);
    b.dst = (hga_id)(draw(seed) % (uint64_t)(n - 27)), b.src = (hga_id)(draw(seed) % (uint64_t)(n - 27));
    b.shape = (hga_shape_kind)(draw(seed) % (HGA_BAND + 1));
    b.band_first = (hga_id)(draw(seed) % 16) - 10, b.band_last = (hga_id)(draw(seed) % 16) - 5;
    return b;
}

/* Of any range of nodes, with and without an order of rows. */
static void degrees_are_the_pairs_counted_one_by_one(void **state)
{
    (void)state;
    enum { N = 40, BLOCKS = 5, GRAPHS = 400 };
    uint64_t seed = 1;
    for (int k = 0; k < GRAPHS; k++) {
        hga_block blocks[BLOCKS];
        hga_id order[N], first = (hga_id)(draw(&seed) % N);
        hga_id n = k % 3 == 0 ? N : (hga_id)(draw(&seed) % (uint64_t)(N - first + 1));
        hga_pos degree[N];
        hga_graph *g;
        if (n == N) first = 0;
        for (int i = 0; i < BLOCKS; i++) blocks[i] = draw_block(&seed, N);
        for (hga_id i = 0; i < N; i++) order[i] = i;
        for (hga_id i = N - 1; i > 0; i--) {
            hga_id other = (hga_id)(draw(&seed) % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[other], order[other] = kept;
        }
        assert_ok(build(N, blocks, BLOCKS, k % 2 ? order : NULL, &g));
        hga_graph_degrees(g, 0, first, n, degree);
        for (hga_id v = first; v < first + n; v++) {
            hga_pos expected = 0;
            hga_id position = v;
            for (hga_id p = 0; k % 2 && p < N; p++)
                if (order[p] == v) position = p;
            for (int i = 0; i < BLOCKS; i++) expected += counted(&blocks[i], position);
            assert_int_equal(degree[v - first], expected);
        }
        hga_graph_destroy(g);
    }
}

static void refused(hga_id n, const hga_block *blocks, int n_blocks, const char *says)
{
    hga_graph *g;
    assert_status(HGA_EGRAPH, build(n, blocks, n_blocks, NULL, &g));
    if (!strstr(hga_error_detail(), says)) fail_msg("\"%s\" does not say %s", hga_error_detail(), says);
}

static void rows_of_more_edges_than_can_be_listed_are_refused(void **state)
{
    (void)state;
    const hga_block stacked = {.n_dst = 1, .src = 1, .n_src = 1, .count = INT32_MAX};
    const hga_block overlapping = {.n_dst = 1000000, .n_src = 1000000, .count = 1000000, .dst_step = 1, .src_step = 1};
    const hga_block heavy[] = {{.dst = 1, .n_dst = 1, .n_src = 1, .count = 100},
                               {.dst = 1, .n_dst = 1, .src = 1, .n_src = 1, .count = 65500}};
    refused(2, &stacked, 1,
            "relation near: blocks give row 0 2147483647 edges, more than 65536; most come from block 0");
    refused(2000000, &overlapping, 1, "more than 8000000; most come from block 0: count 1000000, n_src 1000000");
    refused(2, heavy, 2, "row 1 65600 edges, more than 65536; most come from block 1: count 65500, n_src 1");
}

static void rows_of_just_as_many_edges_are_taken(void **state)
{
    (void)state;
    hga_graph *g;
    hga_pos degree;
    assert_ok(build(2, &(hga_block){.n_dst = 1, .n_src = 1, .count = 65536}, 1, NULL, &g));
    hga_graph_degrees(g, 0, 0, 1, &degree);
    assert_int_equal(degree, 65536);
    hga_graph_destroy(g);
    /* at a glance nine of 20000 columns could lie on one row, but each has one of them only */
    hga_block shifted = {.n_dst = 20000, .n_src = 20000, .shape = HGA_BAND, .count = 9, .dst_step = 1, .src_step = 1};
    assert_ok(build(30000, &shifted, 1, NULL, &g));
    hga_graph_destroy(g);
}

/* Edges that were given one by one are there already. */
static void explicit_edges_of_a_row_are_not_bounded(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (int32_t type = 0; type < 70000; type++) assert_ok(hga_builder_add_edge(b, near, 0, 1, type, 1));
    assert_ok(hga_builder_add_blocks(b, near, &(hga_block){.n_dst = 1, .n_src = 1, .count = 65536}));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b), hga_graph_destroy(g);
}

static void instances_that_nobody_could_visit_are_refused(void **state)
{
    (void)state;
    hga_graph *g;
    hga_block band = {.n_dst = 1 << 14, .n_src = 1, .count = (1 << 14) + 1, .dst_step = 1, .src_step = 1};
    refused(1 << 16, &band, 1, "block 0: count 16385 of 16384 rows each are 268451840 rows, more than 268435456");
    band.count--;
    assert_ok(build(1 << 16, &band, 1, NULL, &g));
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degrees_are_the_pairs_counted_one_by_one),
        cmocka_unit_test(rows_of_more_edges_than_can_be_listed_are_refused),
        cmocka_unit_test(rows_of_just_as_many_edges_are_taken),
        cmocka_unit_test(explicit_edges_of_a_row_are_not_bounded),
        cmocka_unit_test(instances_that_nobody_could_visit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
