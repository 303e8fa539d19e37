/* test_writers.c: .npy, .mtx and .dot files parsed back and compared with the rows they came from. */
#include "graphs.h"
#include "hga_files.h"

#include <sys/stat.h>

/* ---- reading back ---- */

/* The triples of a version 1.0 file of int32 [n][3], as edges of weight 1. */
static edges npy_edges(const char *path)
{
    size_t size;
    char *text = file_bytes(path, &size), *shape;
    edges list = {0};
    assert_memory_equal(text, "\x93NUMPY\x01\x00", 8);
    size_t header = 10 + (size_t)((unsigned char)text[8] + 256 * (unsigned char)text[9]);
    assert_int_equal(header % 64, 0);
    assert_int_equal(text[header - 1], '\n');
    assert_non_null(strstr(text + 10, "'descr': '<i4'"));
    assert_non_null(strstr(text + 10, "'fortran_order': False"));
    assert_non_null(shape = strstr(text + 10, "'shape': ("));
    long long n = strtoll(shape + 10, &shape, 10);
    assert_memory_equal(shape, ", 3)", 4);
    assert_int_equal(size, header + (size_t)n * 12);
    for (long long i = 0; i < n; i++) {
        uint32_t x[3] = {0, 0, 0};
        for (int k = 0; k < 12; k++)
            x[k / 4] |= (uint32_t)(unsigned char)text[header + (size_t)i * 12 + (size_t)k] << 8 * (k % 4);
        edges_add(&list, (edge){(hga_id)x[1], (hga_id)x[0], (int32_t)x[2], 1});
    }
    free(text);
    return list;
}

/* The entries of a coordinate file, without types; extents in size[0 .. 1]. */
static edges mtx_edges(const char *path, long *size, int *weighted)
{
    size_t bytes;
    char *text = file_bytes(path, &bytes), *at = strchr(text, '\n') + 1;
    edges list = {0};
    *weighted = strncmp(text, "%%MatrixMarket matrix coordinate real general\n", 46) == 0;
    if (!*weighted) assert_memory_equal(text, "%%MatrixMarket matrix coordinate pattern general\n", 49);
    size[0] = strtol(at, &at, 10), size[1] = strtol(at, &at, 10);
    long n = strtol(at, &at, 10);
    for (long i = 0; i < n; i++) {
        long v = strtol(at, &at, 10), u = strtol(at, &at, 10);
        assert_true(v >= 1 && v <= size[0] && u >= 1 && u <= size[1]);
        edges_add(&list, (edge){(hga_id)v - 1, (hga_id)u - 1, 0, *weighted ? strtof(at, &at) : 1});
    }
    assert_string_equal(at, "\n");
    free(text);
    return list;
}

/* ---- what they should hold ---- */

static edges without(edges list, int types, int weights, const hga_id *local)
{
    for (int64_t i = 0; i < list.n; i++) {
        edge *e = &list.e[i];
        *e = (edge){local ? local[e->dst] : e->dst, local ? local[e->src] : e->src, types ? 0 : e->type,
                    weights ? 1 : e->weight};
    }
    return list;
}

/* The rank of each node among those of its side; NULL in self-attention. For free(). */
static hga_id *ranks(const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_id *rank = calloc((size_t)nodes.n + 1, sizeof *rank), next[3] = {0, 0, 0};
    assert_non_null(rank);
    if (nodes.query_first == nodes.key_first && nodes.n_queries == nodes.n_keys) {
        free(rank);
        return NULL;
    }
    for (hga_id v = 0; v < nodes.n; v++) rank[v] = next[nodes.side[v]]++;
    return rank;
}

static void assert_written(hga_graph *g)
{
    const char *path = scratch(".out");
    hga_id *rank = ranks(g);
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) {
        long size[2];
        int weighted;
        SUCCEEDS(hga_graph_write_npy(g, i, path, NULL, NULL));
        assert_equal_edges(npy_edges(path), without(edges_of(g, i), 0, 1, rank));
        SUCCEEDS(hga_graph_write_mtx(g, i, path, NULL, NULL));
        edges got = mtx_edges(path, size, &weighted), want = without(edges_of(g, i), 1, !weighted, rank);
        assert_int_equal(weighted, hga_graph_relation(g, i).weighted);
        edges_sort(&got), edges_sort(&want);
        assert_equal_edges(got, want);
    }
    remove(path);
    free(rank);
    hga_graph_destroy(g);
}

static void npy_and_mtx_hold_the_rows(void **state)
{
    (void)state;
    assert_written(mixed_graph(NULL));
    assert_written(cross_graph(NULL));
    for (uint64_t seed = 0; seed < 100; seed++) assert_written(random_graph(seed, (int)(seed & 1)));
}

static void in_cross_attention_ids_count_within_their_side(void **state)
{
    (void)state;
    const char *path = scratch(".npy");
    hga_graph *g = cross_graph(NULL);
    hga_id near = hga_graph_find_relation(g, "near");
    SUCCEEDS(hga_graph_write_npy(g, near, path, NULL, NULL));
    edges list = npy_edges(path);
    assert_int_equal(list.n, 5 * 3 + 2 * 2 + 1);
    assert_int_equal(list.e[0].dst, 0); /* token 3 is query 0 */
    assert_int_equal(list.e[0].src, 0);
    assert_int_equal(list.e[15].dst, 5); /* node 10, after five query tokens */
    assert_int_equal(list.e[15].src, 3); /* node 8, after three key tokens */
    free(list.e);
    long size[2];
    int weighted;
    SUCCEEDS(hga_graph_write_mtx(g, near, path, NULL, NULL));
    free(mtx_edges(path, size, &weighted).e);
    assert_int_equal(size[0], 8); /* queries of both levels */
    assert_int_equal(size[1], 5); /* keys of both levels */
    remove(path);
    hga_graph_destroy(g);
}

static hga_graph *regular(hga_id n, hga_id columns)
{
    hga_id near;
    hga_builder *b = tokens_near(n, &near);
    if (columns > 0) SUCCEEDS(hga_builder_add_block(b, near, 0, n, 0, columns, 0));
    return finished(b);
}

typedef struct watched {
    int calls;
    double last;
} watched;

static void watch(double done, void *context)
{
    watched *w = context;
    assert_true(done >= w->last && done <= 1);
    w->last = done, w->calls++;
}

static void many_edges_go_out_in_pieces(void **state)
{
    (void)state;
    enum { N = 40000, COLUMNS = 75 };
    const char *path = scratch(".npy");
    hga_graph *g = regular(N, COLUMNS);
    watched w = {0, 0};
    SUCCEEDS(hga_graph_write_npy(g, 0, path, watch, &w));
    assert_true(w.calls >= 3);
    assert_true(w.last == 1);
    assert_equal_edges(npy_edges(path), edges_of(g, 0));
    remove(path);
    hga_graph_destroy(g);
}

static void a_relation_without_edges_is_an_empty_file(void **state)
{
    (void)state;
    const char *path = scratch(".npy");
    hga_graph *g = regular(3, 0);
    watched w = {0, 0};
    SUCCEEDS(hga_graph_write_npy(g, 0, path, watch, &w));
    assert_int_equal(npy_edges(path).n, 0);
    SUCCEEDS(hga_graph_write_mtx(g, 0, path, NULL, NULL));
    size_t n;
    char *text = file_bytes(path, &n);
    assert_string_equal(text, "%%MatrixMarket matrix coordinate pattern general\n3 3 0\n");
    free(text);
    remove(path);
    hga_graph_destroy(g);
}

/* ---- dot ---- */

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) n++;
    return n;
}

static void a_drawing_has_ranks_spans_and_edges(void **state)
{
    (void)state;
    const char *path = scratch(".dot");
    hga_graph *g = mixed_graph(NULL);
    size_t n;
    SUCCEEDS(hga_graph_write_dot(g, 1, path, 4));
    char *text = file_bytes(path, &n);
    assert_memory_equal(text, "digraph \"loose \\\"edges\\\"\" {\n", 28);
    assert_int_equal(count(text, "rank=same"), 4);
    assert_int_equal(count(text, "fillcolor="), 15);
    assert_non_null(strstr(text, "9 [label=\"9\\n[2, 3]\""));
    assert_non_null(strstr(text, "  0 -> 14 [label=\"3\"];\n"));
    assert_int_equal(count(text, " -> "), 3 + 4);
    assert_string_equal(text + n - 2, "}\n");
    free(text);
    SUCCEEDS(hga_graph_write_dot(g, 0, path, INT64_MAX));
    remove(path);
    hga_graph_destroy(g);
}

static void a_drawing_of_too_many_edges_is_refused_with_both_numbers(void **state)
{
    (void)state;
    hga_graph *g = regular(100, 50);
    FAILS(HGA_EINVAL, "5000 edges, more than max_edges, 4999", hga_graph_write_dot(g, 0, scratch(".dot"), 4999));
    assert_int_equal(access(scratch(".dot"), F_OK), -1);
    hga_graph_destroy(g);
}

/* ---- files ---- */

static void a_file_that_cannot_be_finished_leaves_the_old_one(void **state)
{
    (void)state;
    const char *path = scratch(".npy");
    scarce s = {INT64_MAX, 0};
    hga_allocator a = scarce_allocator(&s);
    hga_graph *g = cross_graph(&a);
    write_bytes(path, "old", 3);
    int files = files_here();
    int64_t held = s.blocks;
    for (int which = 0; which < 3; which++) {
        int failures = 0;
        for (hga_status st = HGA_ENOMEM; st; failures++) {
            s.left = failures;
            st = which == 0   ? hga_graph_write_npy(g, 0, path, NULL, NULL)
                 : which == 1 ? hga_graph_write_mtx(g, 0, path, NULL, NULL)
                              : hga_graph_write_dot(g, 0, path, 99);
            assert_int_equal(files_here(), files);
            assert_int_equal(s.blocks, held);
            if (!st) break;
            size_t n;
            assert_int_equal(st, HGA_ENOMEM);
            char *text = file_bytes(path, &n);
            assert_string_equal(text, "old");
            free(text);
        }
        assert_true(failures > 3);
        write_bytes(path, "old", 3);
    }
    s.left = INT64_MAX;
    remove(path);
    hga_graph_destroy(g);
}

static void a_full_device_is_reported(void **state)
{
    (void)state;
    hga_graph *g = regular(2000, 50);
    FAILS(HGA_EIO, "/dev/full", hga_graph_write_npy(g, 0, "/dev/full", NULL, NULL));
    FAILS(HGA_EIO, "/dev/full", hga_graph_write_mtx(g, 0, "/dev/full", NULL, NULL));
    FAILS(HGA_EIO, "/dev/full", hga_graph_write_dot(g, 0, "/dev/full", INT64_MAX));
    FAILS(HGA_EIO, "no-such-directory/x", hga_graph_write_npy(g, 0, "no-such-directory/x", NULL, NULL));
    FAILS(HGA_EINVAL, "relation 1", hga_graph_write_npy(g, 1, "x.npy", NULL, NULL));
    FAILS(HGA_EINVAL, "relation -4", hga_graph_write_mtx(g, -4, "x.mtx", NULL, NULL));
    hga_graph_destroy(g);
}

static void a_device_is_written_and_not_replaced(void **state)
{
    (void)state;
    struct stat there;
    hga_graph *g = regular(20, 5);
    SUCCEEDS(hga_graph_write_npy(g, 0, "/dev/null", NULL, NULL));
    assert_int_equal(stat("/dev/null", &there), 0);
    assert_true(S_ISCHR(there.st_mode));
    hga_graph_destroy(g);
}

static void through_a_symbolic_link_the_file_behind_it_is_written(void **state)
{
    (void)state;
    const char *path = scratch(".behind"), *link = scratch(".link");
    struct stat there;
    hga_graph *g = regular(20, 5);
    write_bytes(path, "old", 3);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(symlink(path, link), 0);
    SUCCEEDS(hga_graph_write_npy(g, 0, link, NULL, NULL));
    assert_int_equal(lstat(link, &there), 0);
    assert_true(S_ISLNK(there.st_mode));
    assert_int_equal(stat(path, &there), 0);
    assert_int_equal(there.st_mode & 0777, 0600);
    assert_equal_edges(npy_edges(path), edges_of(g, 0));
    remove(link), remove(path);
    hga_graph_destroy(g);
}

static void a_dash_is_stdout(void **state)
{
    (void)state;
    const char *path = scratch(".stdout");
    hga_graph *g = regular(20, 5);
    fflush(stdout);
    int old = dup(STDOUT_FILENO);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    dup2(fileno(f), STDOUT_FILENO);
    hga_status st = hga_graph_write_npy(g, 0, "-", NULL, NULL);
    dup2(old, STDOUT_FILENO);
    close(old), fclose(f);
    SUCCEEDS(st);
    assert_equal_edges(npy_edges(path), edges_of(g, 0));
    remove(path);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_and_mtx_hold_the_rows),
        cmocka_unit_test(in_cross_attention_ids_count_within_their_side),
        cmocka_unit_test(many_edges_go_out_in_pieces),
        cmocka_unit_test(a_relation_without_edges_is_an_empty_file),
        cmocka_unit_test(a_drawing_has_ranks_spans_and_edges),
        cmocka_unit_test(a_drawing_of_too_many_edges_is_refused_with_both_numbers),
        cmocka_unit_test(a_file_that_cannot_be_finished_leaves_the_old_one),
        cmocka_unit_test(a_full_device_is_reported),
        cmocka_unit_test(a_device_is_written_and_not_replaced),
        cmocka_unit_test(through_a_symbolic_link_the_file_behind_it_is_written),
        cmocka_unit_test(a_dash_is_stdout),
    };
    return cmocka_run_group_tests_name("writers", tests, NULL, NULL);
}
