/* Kinds of nodes: who tells them, who keeps them, what files, pictures and copies make of them, and what is refused. */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 6, NODES = 9 };

/* Six tokens, three to a parent, under a root; told kinds, or not. */
static hga_graph *document(int told)
{
    hga_builder *b;
    hga_id first;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, TOKENS, NULL));
    SUCCEEDS(hga_builder_add_level(b, 2, NULL));
    SUCCEEDS(hga_builder_add_level(b, 1, &first));
    SUCCEEDS(hga_builder_set_families(b, TOKENS, 0, TOKENS, 3));
    SUCCEEDS(hga_builder_set_children(b, 8, 6, 2));
    SUCCEEDS(hga_builder_add_relation(b, "near", NULL));
    SUCCEEDS(hga_builder_add_block(b, 0, 0, TOKENS, 0, TOKENS, 0));
    if (told) {
        SUCCEEDS(hga_builder_set_kinds(b, 0, TOKENS, "text"));
        SUCCEEDS(hga_builder_set_kinds(b, 4, 2, "picture"));
        SUCCEEDS(hga_builder_set_kinds(b, 8, 1, "document"));
    }
    return finished(b);
}

/* -1 is told as ".", the i-th kind as its first letter. */
static void assert_kinds(const hga_graph *g, const char *want)
{
    const hga_kinds kinds = hga_graph_kinds(g);
    assert_int_equal(strlen(want), hga_graph_nodes(g).n);
    for (size_t v = 0; v < strlen(want); v++) {
        const char got = kinds.of && kinds.of[v] >= 0 ? kinds.name[kinds.of[v]][0] : '.';
        if (got != want[v]) fail_msg("node %zu is of '%c', not '%c'", v, got, want[v]);
    }
}

static void the_last_call_counts(void **state)
{
    (void)state;
    hga_graph *g = document(1), *none = document(0);
    assert_kinds(g, "ttttpp..d");
    assert_int_equal(hga_graph_kinds(g).n, 3);
    assert_string_equal(hga_graph_kinds(g).name[0], "text");
    assert_kinds(none, ".........");
    assert_int_equal(hga_graph_kinds(none).n, 0);
    assert_null(hga_graph_kinds(none).of);
    hga_graph_destroy(g), hga_graph_destroy(none);
}

/* Names stay, and so do the numbers of kinds; the graph it came from may go. */
static void a_graph_gets_others(void **state)
{
    (void)state;
    const char *const kind[] = {NULL, "sound", "text"}, *const name[] = {"first"};
    hga_graph *g = document(1), *named, *other;
    SUCCEEDS(hga_graph_set_names(g, name, 1, &named));
    assert_kinds(named, "ttttpp..d");
    SUCCEEDS(hga_graph_set_kinds(named, kind, 3, &other));
    hga_graph_destroy(g), hga_graph_destroy(named);
    assert_kinds(other, "tsttpp..d");
    assert_int_equal(hga_graph_kinds(other).n, 4);
    assert_string_equal(hga_graph_kinds(other).name[2], "document");
    assert_string_equal(hga_graph_name(other, 0), "first");
    hga_graph_destroy(other);
}

/* Files keep kinds and their numbers, and have a schema that older readers refuse. */
static void json_keeps_them(void **state)
{
    (void)state;
    char *text;
    hga_graph *g = document(1), *back;
    const char *path = scratch(".kinds");
    size_t n;
    SUCCEEDS(hga_graph_write_json(g, NULL, path));
    text = file_bytes(path, &n);
    assert_non_null(strstr(text, "\"schema\": 4"));
    assert_non_null(strstr(text, "[0, 4, \"text\"]"));
    SUCCEEDS(hga_graph_read_json(NULL, path, &back, NULL));
    assert_kinds(back, "ttttpp..d");
    for (int k = 0; k < 3; k++) assert_string_equal(hga_graph_kinds(back).name[k], hga_graph_kinds(g).name[k]);
    free(text), hga_graph_destroy(g), hga_graph_destroy(back);
}

/* Also where the first of them is no node's, and later ones come before earlier ones. */
static void json_keeps_their_numbers(void **state)
{
    (void)state;
    const char *const kind[NODES] = {"sound", "map", "map", "sound", "list", "list", "map", "sound", "picture"};
    hga_graph *g = document(1), *other, *back;
    const char *path = scratch(".kinds");
    SUCCEEDS(hga_graph_set_kinds(g, kind, NODES, &other));
    SUCCEEDS(hga_graph_write_json(other, NULL, path));
    SUCCEEDS(hga_graph_read_json(NULL, path, &back, NULL));
    const hga_kinds is = hga_graph_kinds(back), was = hga_graph_kinds(other);
    assert_int_equal(is.n, 6);
    assert_int_equal(is.n, was.n);
    for (int k = 0; k < 6; k++) assert_string_equal(is.name[k], was.name[k]);
    assert_memory_equal(is.of, was.of, NODES * sizeof *is.of);
    hga_graph_destroy(g), hga_graph_destroy(other), hga_graph_destroy(back);
}

static void what_is_made_of_a_graph_keeps_them(void **state)
{
    (void)state;
    hga_graph *g = document(1), *two, *turned;
    const hga_graph *const both[] = {g, g};
    hga_node_map map;
    SUCCEEDS(hga_graph_concat(both, 2, &two, &map));
    assert_kinds(two, "ttttppttttpp....dd");
    assert_int_equal(hga_graph_kinds(two).n, 3);
    SUCCEEDS(hga_graph_transpose(g, &turned));
    assert_kinds(turned, "ttttpp..d");
    hga_node_map_clear(&map), hga_graph_destroy(two), hga_graph_destroy(turned), hga_graph_destroy(g);
}

static void *take(size_t bytes, void *taken)
{
    *(int64_t *)taken += (int64_t)bytes;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void give_back(void *memory, size_t bytes, void *taken)
{
    *(int64_t *)taken -= (int64_t)bytes;
    free(memory);
}

/* Of text, of pointers to it, and of the index by which kinds are found. */
static void a_graph_counts_their_bytes(void **state)
{
    (void)state;
    int64_t taken = 0;
    hga_builder *b;
    hga_graph *g;
    char kind[8];
    SUCCEEDS(hga_builder_create(&(hga_allocator){take, give_back, &taken}, &b));
    SUCCEEDS(hga_builder_add_level(b, NODES, NULL));
    for (hga_id v = 0; v < NODES; v++) {
        sprintf(kind, "%d", v);
        SUCCEEDS(hga_builder_set_kinds(b, v, 1, kind));
    }
    SUCCEEDS(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    assert_int_equal(hga_graph_bytes(g), taken);
    hga_graph_destroy(g);
    assert_int_equal(taken, 0);
}

static void what_is_no_kind_is_refused(void **state)
{
    (void)state;
    char longest[65];
    hga_builder *b;
    hga_graph *g = document(1), *other;
    memset(longest, 'x', sizeof longest - 1), longest[sizeof longest - 1] = 0;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, 3, NULL));
    const char *const bad[] = {"", "\xff", longest, NULL};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(hga_builder_set_kinds(b, 0, 1, bad[i]), HGA_EGRAPH);
        assert_non_null(strstr(hga_error_detail(), "a kind's name has 1 to 63 bytes of UTF-8"));
    }
    assert_int_equal(hga_builder_set_kinds(b, 2, 2, "text"), HGA_EGRAPH);
    assert_non_null(strstr(hga_error_detail(), "kind: nodes 2 .. 3 leave [0, 3)"));
    assert_int_equal(hga_graph_set_kinds(g, bad, NODES + 1, &other), HGA_EINVAL);
    assert_non_null(strstr(hga_error_detail(), "10 kinds for 9 nodes"));
    assert_int_equal(hga_graph_set_kinds(g, bad, 1, &other), HGA_EGRAPH);
    assert_null(other);
    hga_builder_destroy(b), hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_call_counts),
                                       cmocka_unit_test(a_graph_gets_others),
                                       cmocka_unit_test(json_keeps_them),
                                       cmocka_unit_test(json_keeps_their_numbers),
                                       cmocka_unit_test(what_is_made_of_a_graph_keeps_them),
                                       cmocka_unit_test(a_graph_counts_their_bytes),
                                       cmocka_unit_test(what_is_no_kind_is_refused)};
    return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
