/* What other programs' files say that is not ours to take, and what is taken of it. */
#include "readers.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *written(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return name;
}

/* The graph, and the line on its names; "" without. */
static hga_graph *read_text(const char *name, const char *text, int pattern, const char *said)
{
    hga_graph *g;
    char *line = (char *)(uintptr_t) "not written";
    const hga_import wish = {.attributes = &line, .pattern = pattern};
    assert_ok(hga_graph_read(NULL, written(name, text), &wish, &g, NULL));
    assert_int_equal(remove(name), 0);
    assert_string_equal(line ? line : "", said);
    hga_text_free(line);
    return g;
}

static void assert_edge(const hga_graph *g, hga_id src, hga_id dst, float weight)
{
    hga_csr rows;
    int found = 0;
    assert_ok(hga_graph_rows(g, 0, dst, 1, &rows));
    for (hga_pos e = 0; e < rows.ptr[1]; e++) found += rows.src[e] == src && rows.weight[e] == weight;
    hga_csr_clear(&rows);
    if (found != 1) fail_msg("edge %d -> %d of weight %g is there %d times", src, dst, (double)weight, found);
}

#define GRAPHML(keys, inside)                                             \
    "<graphml>" keys "<graph edgedefault='directed'><node id='a'>" inside \
    "<edge source='a' target='b'/></graph></graphml>"
#define NODE_KEY(id, name) "<key id='" id "' for='node' attr.name='" name "'/>"
#define OWN                 \
    NODE_KEY("d0", "level") \
    NODE_KEY("d1", "mass") NODE_KEY("d2", "span_first") NODE_KEY("d3", "span_last") NODE_KEY("d4", "parent")
#define ABOVE                                                                                           \
    "<data key='d0'>0</data><data key='d1'>2.5</data><data key='d4'>b</data></node><node id='b'><data " \
    "key='d0'>1</data></node>"

/* The same attributes: hga's writer has four more keys beside them, as it had before there were any others. */
static void what_nodes_have_is_ours_in_our_own_files(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.graphml", GRAPHML(OWN, ABOVE), 0, "");
    assert_int_equal(hga_graph_nodes(g).n_levels, 2);
    assert_int_equal(hga_graph_nodes(g).parent[0], 1);
    assert_true(hga_graph_nodes(g).mass[0] == 2.5f);
    hga_graph_destroy(g);
    g = read_text("a.graphml", GRAPHML(NODE_KEY("d0", "level") NODE_KEY("d1", "mass") NODE_KEY("d4", "parent"), ABOVE),
                  0, "passed over: level (nodes), mass (nodes), parent (nodes)");
    assert_int_equal(hga_graph_nodes(g).n_levels, 1);
    assert_true(hga_graph_nodes(g).mass[0] == 1);
    hga_graph_destroy(g);
    g = read_text("a.graphml",
                  GRAPHML(NODE_KEY("d0", "hga_level") NODE_KEY("d1", "hga_mass") NODE_KEY("d4", "hga_parent"), ABOVE),
                  0, "understood: hga_level (nodes), hga_mass (nodes), hga_parent (nodes)");
    assert_int_equal(hga_graph_nodes(g).n_levels, 2);
    assert_int_equal(hga_graph_nodes(g).parent[0], 1);
    hga_graph_destroy(g);
}

static void a_pattern_has_no_weights(void **state)
{
    (void)state;
    static const char matrix[] = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 0\n2 1 -3\n";
    hga_graph *g;
    assert_status(HGA_EFORMAT, import_mtx(NULL, written("a.mtx", matrix), NULL, &g));
    const hga_import strange = {.pattern = 2};
    assert_status(HGA_EINVAL, import_mtx(NULL, "a.mtx", &strange, &g));
    g = read_text("a.mtx", matrix, 1, "");
    assert_edge(g, 1, 0, 1);
    assert_edge(g, 0, 1, 1);
    hga_graph_destroy(g);
    g = read_text("a.csv", "source,target,weight\n0,1,none\n", 1, "passed over: weight (columns)");
    assert_edge(g, 0, 1, 1);
    hga_graph_destroy(g);
}

/* Rows of tensors go by the file's nodes in its own order, whatever edges came before them. */
static void nodes_are_numbered_as_the_file_lists_them(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.gml",
                             "graph [ edge [ source 9 target 7 weight 2 ] node [ id 8 ] node [ id 7 label \"x\" ] "
                             "node [ id 9 hga_parent 8 ] directed 1 ]",
                             0, "understood: weight (edges), label (nodes), hga_parent (nodes)");
    /* 8 stands above: tokens 7 and 9 come first */
    assert_string_equal(hga_graph_name(g, 0), "x");
    assert_string_equal(hga_graph_name(g, 1), "9");
    assert_string_equal(hga_graph_name(g, 2), "8");
    assert_int_equal(hga_graph_nodes(g).parent[1], 2);
    assert_edge(g, 1, 0, 2);
    assert_int_equal(hga_graph_relation(g, 0).n_edges, 1);
    hga_graph_destroy(g);
}

static void types_are_whole_numbers_or_none(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.csv", "source,target,type\n0,1,3\n1,0,follows\n", 0, "passed over: type (columns)");
    hga_csr rows;
    assert_ok(hga_graph_rows(g, 0, 0, 2, &rows));
    assert_int_equal(rows.type[0] + rows.type[1], 0);
    hga_csr_clear(&rows);
    hga_graph_destroy(g);
}

/* A file of thousands of names is told of in a line that has an end. */
static void the_line_ends(void **state)
{
    (void)state;
    static char text[40000], *at;
    hga_graph *g;
    char *line;
    const hga_import wish = {.attributes = &line};
    at = text + sprintf(text, "graph [ node [ id 0 ");
    for (int i = 0; i < 500; i++) at += sprintf(at, "a%dxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx 1 ", i);
    sprintf(at, "] ]");
    assert_ok(hga_graph_read(NULL, written("a.gml", text), &wish, &g, NULL));
    assert_true(strlen(line) < 4000);
    assert_non_null(strstr(line, "others"));
    hga_text_free(line);
    hga_graph_destroy(g);
    remove("a.gml");
}

static void a_mark_before_the_text_is_none_of_it(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"a.csv", "\xef\xbb\xbf"
                  "0,1\n"},
        {"a.gml", "\xef\xbb\xbfgraph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]"},
        {"a.mtx", "\xef\xbb\xbf%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n"},
        {"a.graph", "\xef\xbb\xbf"
                    "2 1\n2\n1\n"},
        {"a.graphml", "\xef\xbb\xbf" GRAPHML("", "</node><node id='b'/>")},
        {"a.json", "\xef\xbb\xbf{\"format\": \"hga-graph\", \"schema\": 1, \"levels\": [2], \"relations\": "
                   "[{\"name\": \"near\", \"edges\": [[0, 1]]}]}"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hga_graph *g = read_text(texts[i][0], texts[i][1], 0, "");
        assert_edge(g, 0, 1, 1);
        hga_graph_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nodes_have_is_ours_in_our_own_files),
        cmocka_unit_test(a_pattern_has_no_weights),
        cmocka_unit_test(nodes_are_numbered_as_the_file_lists_them),
        cmocka_unit_test(types_are_whole_numbers_or_none),
        cmocka_unit_test(the_line_ends),
        cmocka_unit_test(a_mark_before_the_text_is_none_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
