/* Graphs from other programs' files: what is read, and what is refused, with the line. */
#include "readers.h"
#include "load.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *written(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return name;
}

static hga_graph *read_text(const char *name, const char *text, const hga_import *wish)
{
    hga_graph *g;
    assert_ok(hga_graph_read(NULL, written(name, text, strlen(text)), wish, &g, NULL));
    assert_int_equal(remove(name), 0);
    return g;
}

/* The file is refused, and the message has these words. */
static void refuse(const char *name, const char *text, const char *words)
{
    hga_graph *g;
    assert_int_not_equal(hga_graph_read(NULL, written(name, text, strlen(text)), NULL, &g, NULL), HGA_OK);
    assert_null(g);
    assert_int_equal(remove(name), 0);
    if (!strstr(hga_error_detail(), words)) fail_msg("'%s' does not say '%s'", hga_error_detail(), words);
}

/* "source>destination:type*weight" of every edge of a relation in canonical order. */
static void assert_edges(const hga_graph *g, hga_id relation, const char *want)
{
    char text[1000] = "";
    hga_csr rows;
    assert_ok(hga_graph_rows(g, relation, 0, hga_graph_nodes(g).n, &rows));
    for (hga_id v = 0; v < rows.n; v++)
        for (hga_pos e = rows.ptr[v]; e < rows.ptr[v + 1]; e++) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%d>%d", used ? " " : "", rows.src[e], v);
            used = strlen(text);
            if (rows.type[e]) snprintf(text + used, sizeof text - used, ":%d", rows.type[e]);
            used = strlen(text);
            if (rows.weight[e] != 1) snprintf(text + used, sizeof text - used, "*%g", (double)rows.weight[e]);
        }
    hga_csr_clear(&rows);
    assert_string_equal(text, want);
}

static void rows_of_a_matrix_are_destinations(void **state)
{
    (void)state;
    hga_graph *g = read_text(
        "a.mtx", "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 3\n1 2 0.5\n3 1 2\n3 3 1\n", NULL);
    assert_int_equal(hga_graph_nodes(g).n, 3);
    assert_edges(g, 0, "1>0*0.5 0>2*2 2>2");
    hga_graph_destroy(g);
    g = read_text("a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n", NULL);
    assert_edges(g, 0, "0>0 1>0 0>1");
    hga_graph_destroy(g);
}

static void a_matrix_that_is_not_square_is_cross_attention(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 3\n2 1\n", NULL);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_int_equal(nodes.n_queries, 2);
    assert_int_equal(nodes.n_keys, 3);
    assert_int_equal(nodes.key_first, 2);
    assert_edges(g, 0, "4>0 2>1");
    hga_graph_destroy(g);
}

static void columns_of_a_list_are_told_by_name(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.csv", "target,type,source,weight\r\n1,3,0,0.25\r\n0,0,2,1\r\n", NULL);
    assert_edges(g, 0, "2>0 0>1:3*0.25");
    hga_graph_destroy(g);
    g = read_text("a.edges", "# a comment\n0 1\n1 2 0.5", NULL);
    assert_edges(g, 0, "0>1 1>2*0.5");
    assert_string_equal(hga_graph_relation(g, 0).name, "edges");
    hga_graph_destroy(g);
    g = read_text("a.tsv", "relation\tsource\tdestination\nnear\t0\t1\nfar\t1\t0\n", NULL);
    assert_edges(g, hga_graph_find_relation(g, "far"), "1>0");
    assert_edges(g, hga_graph_find_relation(g, "near"), "0>1");
    hga_graph_destroy(g);
}

/* Each line is an edge, though explicit edges count once. */
static void edges_that_are_told_twice_count_twice(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.csv", "0,1\n0,1\n0,1,2\n1,0\n", NULL);
    assert_edges(g, 0, "1>0 0>1 0>1 0>1*2");
    hga_graph_destroy(g);
}

static void undirected_edges_go_both_ways(void **state)
{
    (void)state;
    hga_graph *g = read_text("a.graph", "% METIS\n3 2 011\n5 2 7\n1 1 7 3 9\n4 2 9\n", NULL);
    assert_edges(g, 0, "1>0*7 0>1*7 2>1*9 1>2*9");
    assert_true(hga_graph_nodes(g).mass[0] == 5);
    hga_graph_destroy(g);
    g = read_text("a.gml",
                  "graph [ node [ id 7 ] node [ id 3 graphics [ x 1 at [ y 2 ] z \"]\" ] label \"b\" ] "
                  "edge [ source 7 target 3 weight 0.5 ] ]",
                  NULL);
    assert_edges(g, 0, "1>0*0.5 0>1*0.5");
    assert_string_equal(hga_graph_name(g, 0), "7");
    assert_string_equal(hga_graph_name(g, 1), "b");
    hga_graph_destroy(g);
}

static void graphml_tells_levels_and_names(void **state)
{
    (void)state;
    hga_graph *g = read_text(
        "a.graphml",
        "<graphml><key id='a' for='node' attr.name='label'/><key id='p' for='node' attr.name='hga_parent'/>"
        "<key id='t' for='edge' attr.name='type'/><graph edgedefault='directed'>"
        "<node id='root'/><node id='x'><data key='a'>ein &lt;Wort&gt;</data><data key='p'>root</data></node>"
        "<node id='y'><data key='p'>root</data></node><edge source='x' target='root'><data key='t'>2</data></edge>"
        "<edge source='y' target='x' directed='false'/></graph></graphml>",
        NULL);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_int_equal(nodes.n_levels, 2);
    assert_int_equal(nodes.level_ptr[1], 2);
    assert_int_equal(nodes.parent[0], 2);
    assert_string_equal(hga_graph_name(g, 0), "ein <Wort>");
    assert_string_equal(hga_graph_name(g, 2), "root");
    assert_edges(g, 0, "1>0 0>1 0>2:2");
    hga_graph_destroy(g);
}

/* Node 0 stands over 1 and 2: the graph numbers tokens first and keeps the file's numbers as names. */
static void parents_make_levels(void **state)
{
    (void)state;
    hga_import wish = {.parents = (hga_id[]){-1, 0, 0}, .n_parents = 3, .relation = "near"};
    hga_graph *g = read_text("a.csv", "1,0\n2,0\n", &wish);
    assert_int_equal(hga_graph_nodes(g).n_levels, 2);
    assert_string_equal(hga_graph_name(g, 2), "0");
    assert_edges(g, hga_graph_find_relation(g, "near"), "0>2 1>2");
    hga_graph_destroy(g);
    wish.parents = (hga_id[]){2, 2, -1};
    g = read_text("a.csv", "1,0\n", &wish);
    assert_null(hga_graph_name(g, 2));
    assert_int_equal(hga_graph_nodes(g).parent[1], 2);
    hga_graph_destroy(g);
    hga_import ring = {.parents = (hga_id[]){1, 0}, .n_parents = 2};
    assert_status(HGA_EGRAPH, import_csv(NULL, written("a.csv", "0,1\n", 4), &ring, &g));
    hga_import few = {.parents = (hga_id[]){-1}, .n_parents = 1};
    assert_status(HGA_EGRAPH, import_csv(NULL, "a.csv", &few, &g));
    remove("a.csv");
}

static void what_cannot_be_read_is_told_with_its_line(void **state)
{
    (void)state;
    refuse("a.csv", "0,1\n0,x\n", "a.csv: line 2: destination: 'x'");
    refuse("a.csv", "0,1\n\n-1,2\n", "line 3: source: -1");
    refuse("a.csv", "0,1,1,1\n", "line 1");
    refuse("a.csv", "0,99999999999999999999\n", "line 1");
    refuse("a.csv", "0,2147483647\n", "line 1: node 2147483647");
    refuse("a.csv", "0,2000000000\n", "line 1: node 2000000000 in a file of 13 bytes");
    refuse("a.csv", "0,1,nan\n", "line 1: weight");
    refuse("a.csv", "0,1,-2\n", "line 1: weight");
    refuse("a.csv", "name,weight\n", "source and destination");
    refuse("a.mtx", "3 3 1\n", "line 1");
    refuse("a.mtx", "%%MatrixMarket matrix list real general\n2 2\n", "list");
    refuse("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n", "ends before");
    refuse("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 3\n", "line 3: column: 3");
    refuse("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2 3\n", "line 3");
    refuse("a.graph", "3 2\n2\n1 3\n", "ends before vertex 3");
    refuse("a.graph", "2 1\n2\n\n", "first line says 1");
    refuse("a.graph", "2 1\n3\n1\n", "line 2: neighbour: 3");
    refuse("a.gml", "graph [ node [ id 1 ] edge [ source 1 ] ]", "target");
    refuse("a.gml", "graph [ node [ id 1 ", "a list without an end");
    refuse("a.gml", "graph [ node [ label \"a ] ]", "without an end");
    refuse("a.gml", "", "no graph");
    refuse("a.graphml", "<graphml><graph><node id='a'></graph></graphml>", "line 1");
    refuse("a.graphml", "<graphml><graph><edge source='a'/></graph></graphml>", "target");
    refuse("a.graphml", "no XML at all", "a.graphml");
    refuse("a.npy", "\x93NUMPY", "a.npy");
    refuse("a.npz", "PK", "a.npz");
}

/* The second name is longer than the note of the first, which it is compared with. */
static void names_of_columns_may_not_have_zeros(void **state)
{
    char table[] = "source,target,,????????????????????????????????????????\n0,1,2,3\n";
    hga_graph *g;
    (void)state;
    for (char *c = table; *c; c++)
        if (*c == '?') *c = 0;
    assert_status(HGA_EFORMAT, import_csv(NULL, written("a.csv", table, sizeof table - 1), NULL, &g));
    assert_non_null(strstr(hga_error_detail(), "a name is not UTF-8"));
    remove("a.csv");
}

static void text_is_utf8_without_zeros(void **state)
{
    static const struct {
        const char *bytes;
        int64_t n;
        int is;
    } texts[] = {
        {"", 0, 1},
        {"a\1b", 3, 1},
        {"a\0b", 3, 0},
        {"\xc3\xa4", 2, 1},
        {"\xc3", 1, 0},
        {"\xc3g", 2, 0},
        {"\xc1\xbf", 2, 0}, /* 0x7f in two bytes */
        {"\xe2\x82\xac", 3, 1},
        {"\xe2\x82", 2, 0},
        {"\xe0\x9f\xbf", 3, 0}, /* 0x7ff in three */
        {"\xed\x9f\xbf", 3, 1},
        {"\xed\xa0\x80", 3, 0}, /* half of a pair */
        {"\xf0\x9f\x98\x80", 4, 1},
        {"\xf0\x8f\xbf\xbf", 4, 0}, /* 0xffff in four */
        {"\xf4\x8f\xbf\xbf", 4, 1},
        {"\xf4\x90\x80\x80", 4, 0}, /* beyond the last */
        {"\xff", 1, 0},
        {"\x80", 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_utf8(texts[i].bytes, texts[i].n) != texts[i].is) fail_msg("text %d is taken for what it is not", (int)i);
}

#define SHAPED(shape) "{'descr': '<i4', 'fortran_order': False, 'shape': " shape "}"

static void headers_of_arrays_are_read_to_the_end(void **state)
{
    static const struct {
        const char *header, *says;
    } wrong[] = {
        {SHAPED("3"), "not a tuple"},
        {SHAPED("(-1,)"), "not a tuple"},
        {SHAPED("(3, x)"), "not a tuple"},
        {SHAPED("(1, 1, 1)"), "3 axes, where at most 2"},
        {SHAPED("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "not a tuple of at most 8"},
        {SHAPED("(1, 2, "), "not a tuple"},
        {SHAPED("(99999999999999999999,)"), "not a tuple"},
        {SHAPED("(4000000000, 4000000000)"), "more elements than any memory"},
        {SHAPED("(3, 2)"), "6 elements of 4 bytes in 0"},
        {SHAPED("(3, 2)") " 1", "goes on after the dictionary"},
        {SHAPED("(3, 2), 'shape': (3, 2)"), "unknown, repeated or broken key"},
        {SHAPED("(3, 2), 'more': 1"), "unknown, repeated or broken key"},
        {"{'descr': '<i4', 'fortran_order': False}", "lacks 'shape'"},
        {"{'descr': '<i4', 'fortran_order': 1, 'shape': (3, 2)}", "is not True or False"},
        {"{'descr': '<i4', 'shape': (3, 2)}", "lacks 'fortran_order'"},
        {"{'descr': '<q4', 'shape': (3, 2)}", "its type is not a number"},
        {"{'descr': '<i3', 'shape': (3, 2)}", "its type is not a number"},
        {"{'descr': 3, 'shape': (3, 2)}", "its type is not a number"},
        {"{'fortran_order': False, 'shape': (3, 2)}", "lacks 'descr'"},
        {"{'descr' '<i4'}", "no value for 'descr'"},
        {"{'descr': '<i4' 'shape': (3, 2)}", "broken after 'descr'"},
        {"[3]", "not a dictionary"},
        {"{'descr", "unknown, repeated or broken key"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char file[10 + 128];
        hga_graph *g;
        memset(file, ' ', sizeof file);
        memcpy(file, "\x93NUMPY\x01\x00\x80\x00", 10);
        memcpy(file + 10, wrong[i].header, strlen(wrong[i].header));
        assert_status(HGA_EFORMAT, import_npy(NULL, written("a.npy", file, sizeof file), NULL, &g));
        if (!strstr(hga_error_detail(), wrong[i].says))
            fail_msg("%s: \"%s\" does not say %s", wrong[i].header, hga_error_detail(), wrong[i].says);
    }
    remove("a.npy");
}

/* <i4, and big endian >i8. */
static void arrays_of_edges_have_two_or_three_columns(void **state)
{
    (void)state;
    char file[128 + 24];
    hga_graph *g;
    memset(file, ' ', sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(file + 10, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 59);
    file[127] = '\n';
    memcpy(file + 128, (int32_t[]){0, 1, 5, 2, 0, 0}, 24);
    assert_ok(hga_graph_read(NULL, written("a.npy", file, sizeof file), NULL, &g, NULL));
    assert_edges(g, 0, "2>0 0>1:5");
    hga_graph_destroy(g);
    assert_status(HGA_EFORMAT, import_npy(NULL, written("a.npy", file, sizeof file - 1), NULL, &g));
    memcpy(file + 10, "{'descr': '<f4'", 15);
    assert_status(HGA_EFORMAT, import_npy(NULL, written("a.npy", file, sizeof file), NULL, &g));
    memcpy(file + 10, "{'descr': '>i4', 'fortran_order': True ", 39);
    static const unsigned char big[24] = {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0};
    memcpy(file + 128, big, 24);
    assert_ok(hga_graph_read(NULL, written("a.npy", file, sizeof file), NULL, &g, NULL));
    assert_edges(g, 0, "2>0 0>1:5");
    hga_graph_destroy(g);
    remove("a.npy");
}

/* A file of truth values. */
static const char *written_mask(const char *order, int rows, int columns, const char *bytes)
{
    char file[128 + 16], header[128];
    memset(file, ' ', sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf(header, sizeof header, "{'descr': '|b1', 'fortran_order': %s, 'shape': (%d, %d), }", order, rows,
                     columns);
    memcpy(file + 10, header, (size_t)n);
    file[127] = '\n';
    memcpy(file + 128, bytes, (size_t)(rows * columns));
    return written("a.npy", file, (size_t)(128 + rows * columns));
}

static void truth_values_are_a_mask(void **state)
{
    (void)state;
    hga_graph *g;
    hga_node_map map = {0};
    const hga_import wish = {.relation = "mask", .node_map = &map};
    const char *earlier = "\1\0\0\1\1\0\1\1\1";
    assert_ok(hga_graph_read(NULL, written_mask("False", 3, 3, earlier), &wish, &g, NULL));
    assert_edges(g, 0, "0>0 0>1 1>1 0>2 1>2 2>2");
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 1);
    assert_string_equal(hga_graph_relation(g, 0).name, "mask");
    assert_true(hga_graph_nodes(g).claims & HGA_CLAIM_CAUSAL);
    for (hga_id v = 0; v < 3; v++) assert_int_equal(map.id[0][v], v);
    hga_node_map_clear(&map);
    hga_graph_destroy(g);
    assert_ok(hga_graph_read(NULL, written_mask("True", 3, 3, earlier), NULL, &g, NULL));
    assert_edges(g, 0, "0>0 1>0 2>0 1>1 2>1 2>2");
    hga_graph_destroy(g);
    assert_ok(hga_graph_read(NULL, written_mask("False", 2, 3, "\0\1\1\1\0\0"), NULL, &g, NULL));
    assert_edges(g, 0, "3>0 4>0 2>1"); /* cross-attention: the keys are 2, 3, 4 */
    assert_int_equal(hga_graph_nodes(g).n_queries, 2);
    hga_graph_destroy(g);
    remove("a.npy");
}

static void a_mask_under_a_tree_is_a_list_of_edges(void **state)
{
    (void)state;
    hga_graph *g;
    const hga_id parents[] = {4, 4, 4, -1, 3}; /* three tokens, node 4 above them, node 3 above that */
    const hga_import wish = {.parents = parents, .n_parents = 5};
    for (int fortran = 0; fortran < 2; fortran++) {
        const char *bytes = fortran ? "\1\1\1\0\1\1\0\0\1" : "\1\0\0\1\1\0\1\1\1";
        assert_ok(hga_graph_read(NULL, written_mask(fortran ? "True" : "False", 3, 3, bytes), &wish, &g, NULL));
        assert_edges(g, 0, "0>0 0>1 1>1 0>2 1>2 2>2");
        assert_int_equal(hga_graph_nodes(g).n_levels, 3);
        hga_graph_destroy(g);
    }
    remove("a.npy");
}

/* A header of a few bytes must not claim thousands of millions of nodes. */
static void a_mask_of_no_bytes_claims_no_memory(void **state)
{
    (void)state;
    hga_graph *g;
    char file[128];
    memset(file, ' ', sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(file + 10, "{'descr': '|b1', 'fortran_order': False, 'shape': (2000000000, 0), }", 68);
    assert_status(HGA_EFORMAT, import_npy(NULL, written("a.npy", file, sizeof file), NULL, &g));
    if (!strstr(hga_error_detail(), "1999999999")) fail_msg("'%s'", hga_error_detail());
    remove("a.npy");
}

/* strchr finds the zero byte at the end of every list of characters: a reader that forgets it stands still. */
static void zero_bytes_end_no_word(void **state)
{
    (void)state;
    static const char *const files[] = {"a.gml", "a.csv", "a.mtx", "a.graph", "a.graphml"};
    static const char zeros[] = "graph [ node [ id 0 l\0bel 1 ] ]";
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        hga_graph *g;
        hga_status st = hga_graph_read(NULL, written(files[i], zeros, sizeof zeros - 1), NULL, &g, NULL);
        assert_true(strcmp(files[i], "a.gml") == 0 || st != HGA_OK);
        hga_graph_destroy(g);
        remove(files[i]);
    }
}

static void names_stay_with_their_nodes(void **state)
{
    (void)state;
    hga_graph *g = read_text(
        "a.gml", "graph [ directed 1 node [ id 0 label \"a\" ] node [ id 1 label \"b\" ] edge [ source 0 target 1 ] ]",
        NULL);
    hga_graph *pair, *turned;
    assert_ok(hga_graph_concat((const hga_graph *const[]){g, g}, 2, &pair, NULL));
    assert_string_equal(hga_graph_name(pair, 3), "b");
    assert_ok(hga_graph_transpose(pair, &turned));
    assert_string_equal(hga_graph_name(turned, 2), "a");
    assert_null(hga_graph_name(turned, 4));
    assert_null(hga_graph_name(turned, -1));
    static const char *const files[] = {"a.json", "b.graphml", "c.csv"};
    assert_ok(hga_graph_write_json(pair, NULL, files[0]));
    assert_ok(hga_graph_write_graphml(pair, 0, files[1], NULL, NULL));
    assert_ok(hga_graph_write_csv(pair, 0, files[2], NULL, NULL));
    for (int i = 0; i < 3; i++) {
        hga_graph *again;
        assert_ok(hga_graph_read(NULL, files[i], NULL, &again, NULL));
        assert_string_equal(hga_graph_name(again, 0), "a");
        assert_string_equal(hga_graph_name(again, 3), "b");
        hga_graph_destroy(again);
        assert_int_equal(remove(files[i]), 0);
    }
    hga_graph_destroy(g), hga_graph_destroy(pair), hga_graph_destroy(turned);
}

static void the_end_of_a_name_says_the_format_however_it_is_written(void **state)
{
    static const char *const json[] = {"g.json", "g", "-", "a.csv/g", "g.csv.gz", ""}, *const others[] = {
                                                                                           "g.csv", "g.CSV",
                                                                                           "a.json/g.Mtx", "g.npz",
                                                                                           ".edges"};
    (void)state;
    for (size_t i = 0; i < sizeof json / sizeof *json; i++)
        if (!hga_graph_is_json(json[i])) fail_msg("%s is no JSON", json[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (hga_graph_is_json(others[i])) fail_msg("%s is JSON", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_name_says_the_format_however_it_is_written),
        cmocka_unit_test(rows_of_a_matrix_are_destinations),
        cmocka_unit_test(a_matrix_that_is_not_square_is_cross_attention),
        cmocka_unit_test(columns_of_a_list_are_told_by_name),
        cmocka_unit_test(edges_that_are_told_twice_count_twice),
        cmocka_unit_test(undirected_edges_go_both_ways),
        cmocka_unit_test(graphml_tells_levels_and_names),
        cmocka_unit_test(parents_make_levels),
        cmocka_unit_test(what_cannot_be_read_is_told_with_its_line),
        cmocka_unit_test(arrays_of_edges_have_two_or_three_columns),
        cmocka_unit_test(headers_of_arrays_are_read_to_the_end),
        cmocka_unit_test(names_of_columns_may_not_have_zeros),
        cmocka_unit_test(text_is_utf8_without_zeros),
        cmocka_unit_test(truth_values_are_a_mask),
        cmocka_unit_test(a_mask_under_a_tree_is_a_list_of_edges),
        cmocka_unit_test(a_mask_of_no_bytes_claims_no_memory),
        cmocka_unit_test(zero_bytes_end_no_word),
        cmocka_unit_test(names_stay_with_their_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
