/* test_allocation_files.c: what is read and written where an allocation fails. */
#include "readers.h"
#include "fuses.h"
#include "hga_files.h"

static hga_graph *input; /* it lives by `fused`, so what is made from it does too */
static hga_program program;
static char *program_text;

static const char graph_file[] = "test_allocation.json";

static hga_status make_read(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    char *text = NOWHERE;
    hga_status st = hga_graph_read_json(a, graph_file, &g, &text);
    if (st && text) fail_msg("%s, and yet a program", hga_status_name(st));
    hga_text_free(text);
    return settle(st, &g);
}

/* One file of each kind that other programs write: that fuzzer's seeds without their first line, which names the kind.
   */
#define IMPORTS(each) each(mtx) each(csv) each(graphml) each(gml) each(graph) each(npy) each(npz)

static void bring(const char *kind)
{
    char from[512], to[64], line[64];
    snprintf(from, sizeof from, HGA_CORPUS "/import/%s", kind);
    snprintf(to, sizeof to, "test_allocation.%s", kind);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in), assert_non_null(out);
    assert_non_null(fgets(line, sizeof line, in));
    for (int byte; (byte = fgetc(in)) != EOF;) fputc(byte, out);
    assert_int_equal(fclose(in) | fclose(out), 0);
}

#define MAKE_IMPORT(kind)                                                               \
    static hga_status make_import_##kind(const hga_allocator *a)                        \
    {                                                                                   \
        hga_graph *g = NOWHERE;                                                         \
        return settle(hga_graph_read(a, "test_allocation." #kind, NULL, &g, NULL), &g); \
    }
IMPORTS(MAKE_IMPORT)

static const char mapped_file[] = "test_allocation_mapped.csv";

/* Under a tree of its own, tokens in the tree's order, with a map and a line on its names. */
static hga_status make_mapped(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_node_map map = {0};
    const hga_id parents[7] = {4, 5, 4, 5, 6, 6, -1};
    char *line = NOWHERE;
    const hga_import wish = {
        .parents = parents, .n_parents = 7, .depth_first = 1, .node_map = &map, .attributes = &line};
    hga_status st = import_csv(a, mapped_file, &wish, &g);
    if (st && line) fail_msg("%s, and yet a line", hga_status_name(st));
    hga_text_free(line);
    if (st && (map.n_graphs || map.id)) fail_msg("%s, and yet a map", hga_status_name(st));
    hga_node_map_clear(&map);
    return settle(st, &g);
}

static hga_status make_program_text(const hga_allocator *a)
{
    (void)a;
    char *text = NOWHERE;
    hga_status st = hga_program_to_json(&program, input, &text);
    if (st && text) fail_msg("%s, and yet a text", hga_status_name(st));
    hga_text_free(text);
    return st;
}

static hga_status make_program_back(const hga_allocator *a)
{
    (void)a;
    hga_program p;
    return hga_program_from_json(program_text, input, &p);
}

static hga_status make_written(const hga_allocator *a)
{
    (void)a;
    return hga_graph_write_json(input, "\"program\": {}", "test_allocation_written.json");
}

static const char tensors_file[] = "test_allocation.safetensors";

static void put_tensors(void)
{
    static const char header[] = "{\"x\": {\"dtype\": \"F16\", \"shape\": [3], \"data_offsets\": [0, 6]}}";
    FILE *file = fopen(tensors_file, "wb");
    assert_non_null(file);
    fputc((int)sizeof header - 1, file);
    fwrite("\0\0\0\0\0\0\0", 1, 7, file), fwrite(header, 1, sizeof header - 1, file), fwrite("abcdef", 1, 6, file);
    assert_int_equal(fclose(file), 0);
}

static hga_status make_tensors(const hga_allocator *a)
{
    hga_arrays *x = NOWHERE;
    const float *all;
    hga_status st = hga_arrays_open(a, tensors_file, &x);
    if (st && x) fail_msg("%s, and yet a file", hga_status_name(st));
    if (st) return st;
    st = hga_arrays_floats(x, 0, &all);
    if (st && all) fail_msg("%s, and yet numbers", hga_status_name(st));
    hga_arrays_close(x);
    return st;
}

/* ---- the facts ---- */

static int prepare(void **state)
{
    (void)state;
    hga_status st;
    const hga_hsa h = {.parent = (const hga_id[8]){6, 6, 5, 5, 7, 6, -1, -1}, .n_parent = 8, .allocator = &fused};
    const hga_htransformer h1d = {.n_tokens = 45, .block = 4, .causal = 1, .allocator = &fused};
    HGA_TRY(hga_build_htransformer(&h1d, &input, &program));
    HGA_TRY(hga_program_to_json(&program, input, &program_text));
#define BRING(kind) bring(#kind);
    IMPORTS(BRING)
    put_tensors();
    FILE *pairs = fopen(mapped_file, "wb");
    assert_non_null(pairs);
    fputs("source,target,weight,source_name,note\n0,1,2,one,x\n2,3,1,\"two, too\",y\n", pairs);
    assert_int_equal(fclose(pairs), 0);
    hga_graph *tree = NULL;
    hga_program unused;
    HGA_TRY(hga_build_hsa(&h, &tree, &unused));
    st = hga_graph_write_json(tree, "\"program\": {}", graph_file);
    hga_graph_destroy(tree);
done:
    if (st) print_error("%s: %s\n", hga_status_name(st), hga_error_detail());
    return st ? -1 : 0;
}

/* With everything given back nothing is left. */
static int clear(void **state)
{
    (void)state;
    hga_graph_destroy(input);
    hga_text_free(program_text);
    remove(graph_file);
#define FORGET(kind) remove("test_allocation." #kind);
    IMPORTS(FORGET)
    remove("test_allocation_written.json"), remove(mapped_file), remove(tensors_file);
    return lent.blocks || lent.bytes ? -1 : 0;
}

#define ALLOCATOR_FACTS(fact)                                                                             \
    fact(read) fact(import_mtx) fact(import_csv) fact(import_graphml) fact(import_gml) fact(import_graph) \
        fact(import_npy) fact(import_npz) fact(mapped) fact(tensors)
#define MALLOC_FACTS(fact)                                                                                            \
    fact(read) fact(written) fact(program_text) fact(program_back) fact(import_mtx) fact(import_csv) fact(import_gml) \
        fact(import_graph) fact(import_npy) fact(mapped) fact(tensors)

ALLOCATOR_FACTS(BY_ALLOCATOR)
MALLOC_FACTS(BY_MALLOC)

/* libxml2 and libzip leak where their own malloc fails; what they say, and whether what they read is whole, must be
   right: libxml2 goes on without an attribute that it has no memory for. */
static hga_status make_whole_graphml(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_status st = hga_graph_read(a, "test_allocation.graphml", NULL, &g, NULL);
    if (st) return settle(st, &g);
    hga_nodes nodes = hga_graph_nodes(g);
    hga_relation r = hga_graph_relation(g, 0);
    int whole = nodes.n == 3 && nodes.n_levels == 2 && nodes.parent && nodes.parent[1] == 2 && hga_graph_name(g, 0) &&
                r.n_edges == 2 && r.weighted;
    if (!whole) fail_msg("what was read in spite of a failure is not whole");
    return settle(st, &g);
}

static hga_status make_whole_npz(const hga_allocator *a)
{
    hga_graph *g = NOWHERE;
    hga_status st = import_npz(a, "test_allocation.npz", NULL, &g);
    if (!st) assert_int_equal(hga_graph_relation(g, 0).n_edges, 3);
    return settle(st, &g);
}

static void every_failing_malloc_of_libxml2_is_reported(void **state)
{
    (void)state;
    every_malloc(make_whole_graphml, 1);
}

static void every_failing_malloc_of_libzip_is_reported(void **state)
{
    (void)state;
    every_malloc(make_whole_npz, 1);
}

int main(void)
{
    const struct CMUnitTest facts[] = {ALLOCATOR_FACTS(ALLOCATOR_ROW) MALLOC_FACTS(MALLOC_ROW)
                                           cmocka_unit_test(every_failing_malloc_of_libxml2_is_reported),
                                       cmocka_unit_test(every_failing_malloc_of_libzip_is_reported)};
    return cmocka_run_group_tests_name("allocation_files", facts, prepare, clear);
}
