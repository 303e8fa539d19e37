/* What the tool and Python ask before a call: which normaliser words name, how many numbers a table has, which edges a
   list gives without meaning to. */
#include "testing.h"

#include <math.h>
#include <string.h>

static void words_name_a_normaliser_and_its_number(void **state)
{
    static const struct {
        const char *words;
        hga_normaliser which;
        double alpha;
        float bias;
    } known[] = {{"softmax", HGA_NORMALISER_SOFTMAX, 0, 0},          {"sigmoid", HGA_NORMALISER_SIGMOID, 0, 0},
                 {"sigmoid:-2.5", HGA_NORMALISER_SIGMOID, 0, -2.5f}, {"entmax:1", HGA_NORMALISER_ENTMAX, 1, 0},
                 {"entmax:1.05", HGA_NORMALISER_ENTMAX, 1.05, 0},    {"entmax:2", HGA_NORMALISER_ENTMAX, 2, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        hga_normaliser which;
        double alpha;
        float bias;
        assert_ok(hga_normaliser_named(known[i].words, &which, &alpha, &bias));
        assert_int_equal(known[i].which, which);
        assert_true(alpha == known[i].alpha && bias == known[i].bias);
    }
}

static void other_words_are_refused(void **state)
{
    static const struct {
        const char *words, *says;
    } wrong[] = {{"", "'' is not one of: softmax"},
                 {"soft", "not one of"},
                 {"softmax:1", "not one of"},
                 {"sigmoid:", "not one of"},
                 {"entmax", "not one of"},
                 {"entmax:1.5x", "'1.5x' is not a number"},
                 {"sigmoid: 1", "' 1' is not a number"},
                 {"entmax:\t1.5", "is not a number"},
                 {"sigmoid:1e39", "1e39 does not fit float32"},
                 {"sigmoid:inf", "inf does not fit"},
                 {"entmax:1.04", "alpha 1.04 is not 1 and not from 1.05 to 2"},
                 {"entmax:2.1", "alpha 2.1 is not 1 and"},
                 {"entmax:nan", "alpha nan is not 1"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hga_normaliser which = HGA_NORMALISER_ENTMAX;
        double alpha = 7;
        float bias = 7;
        assert_status(HGA_EINVAL, hga_normaliser_named(wrong[i].words, &which, &alpha, &bias));
        if (!strstr(hga_error_detail(), wrong[i].says)) fail_msg("%s: %s", wrong[i].words, hga_error_detail());
        assert_true(which == HGA_NORMALISER_SOFTMAX && alpha == 0 && bias == 0);
    }
}

/* Of a table the rows or columns that are counted, or what the shape and the graph say. */
static void entries_of_tables_are_counted(void **state)
{
    const hga_shape s = {.n_heads = 4, .n_kv_heads = 2, .dim = 8, .pos_dim = 3};
    hga_io io = {
        .rel_bias = {.rows = 5}, .edge_bias = {.rows = 100, .columns = 1}, .edge_value = {.rows = 9, .columns = 7}};
    (void)state;
    assert_int_equal(1, hga_call_entries(HGA_TABLE_SCALE, &s, 50, &io));
    assert_int_equal(5 * 4, hga_call_entries(HGA_TABLE_REL_BIAS, &s, 50, &io));
    assert_int_equal(100, hga_call_entries(HGA_TABLE_EDGE_BIAS, &s, 50, &io));
    assert_int_equal(50 * 3, hga_call_entries(HGA_TABLE_NODE_POS, &s, 50, &io));
    assert_int_equal(9 * 7, hga_call_entries(HGA_TABLE_EDGE_VALUE, &s, 50, &io));
    assert_int_equal(16, hga_call_extent(HGA_EXTENT_KEYS, &s, 50, 3));
    assert_int_equal(32, hga_call_extent(HGA_EXTENT_KEYS, &(hga_shape){.n_heads = 4, .dim = 8}, 50, 3));
    assert_int_equal(3, hga_call_extent(HGA_EXTENT_TYPES, &s, 50, 3));
}

/* Edges that a list gives again, and those from a node to itself: as single edges, which are blocks, and in rows. */
static void edges_given_again_and_loops_are_counted(void **state)
{
    hga_builder *b;
    hga_id r, other;
    hga_graph *g;
    hga_pos loops;
    (void)state;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 5000, NULL));
    assert_ok(hga_builder_add_relation(b, "given", &r));
    assert_ok(hga_builder_add_relation(b, "band", &other));
    for (int i = 0; i < 3; i++) assert_ok(hga_builder_add_block(b, r, 7, 1, 9, 1, 0));
    assert_ok(hga_builder_add_block(b, r, 7, 1, 9, 1, 1));
    assert_ok(hga_builder_add_block(b, r, 4999, 1, 4999, 1, 0));
    assert_ok(hga_builder_add_edge(b, r, 3, 3, 0, 1));
    assert_ok(hga_builder_add_block(b, other, 0, 8, 0, 8, 0));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    assert_int_equal(2, hga_graph_repeated(g, r));
    assert_int_equal(0, hga_graph_repeated(g, other));
    assert_ok(hga_graph_loops(g, r, &loops));
    assert_int_equal(2, loops);
    assert_ok(hga_graph_loops(g, other, &loops));
    assert_int_equal(8, loops);
    assert_ok(hga_graph_loops(g, HGA_TREE_UP, &loops));
    assert_int_equal(0, loops);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_name_a_normaliser_and_its_number),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(entries_of_tables_are_counted),
        cmocka_unit_test(edges_given_again_and_loops_are_counted),
    };
    return cmocka_run_group_tests_name("asked_before_a_call", tests, NULL, NULL);
}
