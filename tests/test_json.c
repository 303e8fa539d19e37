/* test_json.c: a graph written and read is the same graph; a file that is wrong is refused with its place. */
#include "graphs.h"

#include <jansson.h>
#include <sys/stat.h>

static hga_status read_text(const char *text, size_t n, hga_graph **g, char **program)
{
    const char *path = scratch(".json");
    write_bytes(path, text, n);
    hga_status st = hga_graph_read_json(NULL, path, g, program);
    remove(path);
    return st;
}

/* Through a file and back; g is destroyed. The second file equals the first byte for byte. */
static void assert_survives(hga_graph *g)
{
    const char *path = scratch(".json");
    hga_graph *h;
    char *program;
    size_t n_first, n_second;
    SUCCEEDS(hga_graph_write_json(g, NULL, path));
    SUCCEEDS(hga_graph_read_json(NULL, path, &h, &program));
    assert_null(program);
    assert_equal_relations(g, h);
    assert_equal_rows(g, h);
    char *first = file_bytes(path, &n_first);
    SUCCEEDS(hga_graph_write_json(h, NULL, path));
    char *second = file_bytes(path, &n_second);
    assert_int_equal(n_first, n_second);
    assert_string_equal(first, second);
    remove(path);
    free(first), free(second);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void all_that_a_view_shows_survives_the_round_trip(void **state)
{
    (void)state;
    assert_survives(mixed_graph(NULL));
    assert_survives(cross_graph(NULL));
    for (uint64_t seed = 0; seed < 200; seed++) assert_survives(random_graph(seed, (int)(seed & 1)));
}

/* An order that changes nothing is one, too. */
static void orders_that_say_nothing_new_survive(void **state)
{
    (void)state;
    for (hga_id n = 1; n <= 3; n++) {
        hga_id near;
        hga_builder *b = tokens_near(n, &near);
        SUCCEEDS(hga_builder_set_order(b, near, (const hga_id[]){0, 1, 2}, n, NULL, 0));
        SUCCEEDS(hga_builder_add_block(b, near, 0, n, 0, n, 0));
        assert_survives(finished(b));
    }
}

static void sides_that_say_nothing_new_survive(void **state)
{
    (void)state;
    hga_builder *b;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, 4, NULL));
    SUCCEEDS(hga_builder_set_side(b, 1, 1, HGA_SIDE_BOTH));
    hga_graph *g = finished(b);
    assert_non_null(hga_graph_nodes(g).side);
    assert_survives(g);
}

static void weights_survive_to_the_last_bit(void **state)
{
    (void)state;
    enum { N = 4000 };
    uint64_t seed = 5;
    hga_id near;
    hga_builder *b = tokens_near(N, &near);
    for (hga_id v = 0; v < N; v++) {
        uint32_t bits = (uint32_t)random_bits(&seed) >> 1;
        float w;
        memcpy(&w, &bits, sizeof w);
        if (w > 0 && w < 3e38f) SUCCEEDS(hga_builder_add_edge(b, near, v, v, 0, w));
    }
    assert_survives(finished(b));
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const char *path = scratch(".whole");
    hga_graph *g = mixed_graph(NULL), *h;
    size_t n;
    SUCCEEDS(hga_graph_write_json(g, "\"program\": {\"stages\": []}", path));
    char *text = file_bytes(path, &n), *program;
    remove(path);
    for (size_t cut = 0; cut + 1 < n; cut++) { /* the last byte is a newline, which may be missing */
        FAILS(HGA_EFORMAT, "line", read_text(text, cut, &h, &program));
        assert_null(h), assert_null(program);
    }
    SUCCEEDS(read_text(text, n - 1, &h, &program));
    hga_text_free(program);
    free(text);
    hga_graph_destroy(h), hga_graph_destroy(g);
}

#define HEAD              "\"format\": \"hga-graph\", \"schema\": 1"
#define NODES             HEAD ", \"levels\": [4, 2]"
#define RELATION(members) "{" NODES ", \"relations\": [{\"name\": \"near\", " members "}]}"
#define BLOCK(members)    RELATION("\"blocks\": [{\"dst\": 0, \"n_dst\": 1, \"src\": 0, \"n_src\": 1, " members "}]")

static const struct {
    const char *text;
    hga_status status;
    const char *words;
} wrong_files[] = {
    {"", HGA_EFORMAT, "line 1"},
    {"[]", HGA_EFORMAT, "an object is expected, not an array"},
    {"{\n  \"format\": nan}", HGA_EFORMAT, "line 2, column"},
    {"{} {}", HGA_EFORMAT, "end of file expected"},
    {"{}", HGA_EFORMAT, "\"format\" is missing"},
    {"{\"format\": \"other\"}", HGA_EFORMAT, "format: \"other\" is unknown"},
    {"{\"format\": \"hga-graph\"}", HGA_EFORMAT, "\"schema\" is missing"},
    {"{\"format\": \"hga-graph\", \"schema\": 6}", HGA_EFORMAT, "schema 6 is unknown, this library reads 1 to 5"},
    {"{" NODES ", \"relations\": [], \"longer\": 3}", HGA_EFORMAT, "longer: an object is expected, not"},
    {"{" NODES ", \"relations\": [], \"parts\": [0, \"4\"]}", HGA_EFORMAT,
     "parts[1]: an integer is expected, not a string"},
    {"{" NODES ", \"relations\": [], \"parts\": [1]}", HGA_EGRAPH, "part 0 begins with node 1; it must with 0"},
    {"{" NODES ", \"relations\": [], \"longer\": {\"levels\": [64]}}", HGA_EFORMAT,
     "longer: member \"relations\" is missing"},
    {"{" NODES ", \"relations\": [], \"longer\": {\"nodes\": 4}}", HGA_EFORMAT, "longer: unknown member \"nodes\""},
    {"{" NODES
     ", \"relations\": [], \"longer\": {\"levels\": [64], \"relations\": [{\"name\": \"a\", \"edges\": [[0, 1]]}]}}",
     HGA_EFORMAT, "longer: relation a of the longer graph: it has single edges"},
    {"{" NODES ", \"relations\": [], \"longer\": {\"levels\": [64, 64], \"relations\": [{\"name\": \"a\"}]}}",
     HGA_EGRAPH, "the longer graph has 1 relations, this one 0"},
    {"{\"format\": \"hga-graph\", \"schema\": \"1\"}", HGA_EFORMAT, "schema: an integer is expected, not a string"},
    {"{" HEAD "}", HGA_EFORMAT, "\"levels\" is missing"},
    {"{" HEAD ", \"levels\": 4}", HGA_EFORMAT, "levels: an array is expected, not an integer"},
    {"{" HEAD ", \"levels\": [4.0]}", HGA_EFORMAT, "levels[0]: an integer is expected, not a real number"},
    {"{" HEAD ", \"levels\": [-1]}", HGA_EFORMAT, "levels[0]: a level of -1 nodes"},
    {"{" HEAD ", \"levels\": [2147483648]}", HGA_EFORMAT, "levels[0]: 2147483648 does not fit"},
    {"{" HEAD ", \"levels\": [99999999999999999999]}", HGA_EFORMAT, "too big integer"},
    {"{" HEAD ", \"levels\": [2147479000, 2147479000]}", HGA_EOVERFLOW, "levels[1]"},
    {"{" HEAD ", \"levels\": [], \"relations\": []}", HGA_EGRAPH, "no level"},
    {"{" NODES "}", HGA_EFORMAT, "\"relations\" is missing"},
    {"{" NODES ", \"relations\": {}}", HGA_EFORMAT, "relations: an array is expected"},
    {"{" NODES ", \"relations\": [], \"levles\": []}", HGA_EFORMAT, "unknown member \"levles\""},
    {"{" NODES ", \"levels\": [1], \"relations\": []}", HGA_EFORMAT, "duplicate"},
    {"{" NODES ", \"queries\": [0, 1], \"relations\": []}", HGA_EFORMAT, "\"keys\" is missing beside \"queries\""},
    {"{" NODES ", \"keys\": [0, 1], \"relations\": []}", HGA_EFORMAT, "\"queries\" is missing beside \"keys\""},
    {"{" NODES ", \"queries\": [0, 1, 2], \"keys\": [1, 3], \"relations\": []}", HGA_EFORMAT,
     "queries: 3 numbers, where 2 are expected"},
    {"{" NODES ", \"queries\": [0, 2], \"keys\": [1, 3], \"relations\": []}", HGA_EGRAPH,
     "neither the same nor two parts"},
    {"{" NODES ", \"claims\": [\"causal\", \"quick\"], \"relations\": []}", HGA_EFORMAT,
     "claims[1]: \"quick\" is unknown"},
    {"{" NODES ", \"side\": [[0, 1, \"left\"]], \"relations\": []}", HGA_EFORMAT, "side[0][2]: \"left\" is unknown"},
    {"{" NODES ", \"side\": [[5, 2, \"key\"]], \"relations\": []}", HGA_EFORMAT, "side[0]: nodes 5 .. 6 leave [0, 6)"},
    {"{" NODES ", \"families\": [[4, 0, 4]], \"relations\": []}", HGA_EFORMAT, "families[0]: 3 numbers, where 4"},
    {"{" NODES ", \"families\": [[4, 0, 4, 0]], \"relations\": []}", HGA_EGRAPH, "families[0]: "},
    {"{" NODES ", \"families\": [[5, 0, 4, 2]], \"relations\": []}", HGA_EGRAPH, "families[0]: "},
    {"{" NODES ", \"families\": [[4, 0, 4, 2]], \"parents\": [4, -1, -1, -1, -1, -1], \"relations\": []}", HGA_EGRAPH,
     "two parents"},
    {"{" NODES ", \"parents\": [4], \"relations\": []}", HGA_EFORMAT, "parents: 1 parents for 6 nodes"},
    {"{" NODES ", \"parents\": [4, 4, 4, 4, -2, -1], \"relations\": []}", HGA_EFORMAT, "parents[4]: parent -2"},
    {"{" NODES ", \"parents\": [4, 4, 9, 9, -1, -1], \"relations\": []}", HGA_EGRAPH, "parents[2]: "},
    {"{" NODES ", \"mass\": [[0, 1, \"2\"]], \"relations\": []}", HGA_EFORMAT,
     "mass[0][2]: a number is expected, not a string"},
    {"{" NODES ", \"mass\": [[0, 1, -2]], \"relations\": []}", HGA_EGRAPH, "mass[0]: mass -2"},
    {"{" NODES ", \"mass\": [[0, 1, 1e39]], \"relations\": []}", HGA_EFORMAT, "mass[0][2]: 1e+39 does not fit"},
    {"{" NODES ", \"mass\": [[0, 1, 1e999]], \"relations\": []}", HGA_EFORMAT, "line 1"},
    {"{" NODES ", \"mass\": [[0, 1, 1e-60]], \"relations\": []}", HGA_EFORMAT, "1e-60 does not fit"},
    {"{" NODES ", \"mass\": [[0, 1]], \"relations\": []}", HGA_EFORMAT, "mass[0]: 2 items"},
    {"{" NODES ", \"relations\": [7]}", HGA_EFORMAT, "relations[0]: an object is expected, not an integer"},
    {"{" NODES ", \"relations\": [{}]}", HGA_EFORMAT, "relations[0]: member \"name\" is missing"},
    {"{" NODES ", \"relations\": [{\"name\": \"\"}]}", HGA_EGRAPH, "relations[0].name: "},
    {"{" NODES ", \"relations\": [{\"name\": 3}]}", HGA_EFORMAT, "relations[0].name: a string is expected"},
    {"{" NODES ", \"relations\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", HGA_EGRAPH,
     "relations[1].name: two relations are named a"},
    {"{" NODES ", \"relations\": [], \"program\": 3}", HGA_EFORMAT, "program: an object or a name is expected"},
    {RELATION("\"egdes\": []"), HGA_EFORMAT, "relations[0]: unknown member \"egdes\""},
    {RELATION("\"dst_order\": [[0, 7]]"), HGA_EFORMAT, "relations[0].dst_order[0]: nodes 0 .. 6 leave"},
    {RELATION("\"dst_order\": [[0, 6], [0, 6]]"), HGA_EFORMAT, "dst_order: 12 nodes are listed"},
    {RELATION("\"dst_order\": [1, 1]"), HGA_EGRAPH, "lists node 1 twice"},
    {RELATION("\"src_order\": []"), HGA_EFORMAT, "src_order: the order is empty"},
    {RELATION("\"src_order\": [true]"), HGA_EFORMAT, "src_order[0]: an integer is expected, not true"},
    {RELATION("\"edges\": [[0]]"), HGA_EFORMAT, "relations[0].edges[0]: 1 numbers, where 2 to 4"},
    {RELATION("\"edges\": [[0, 1], [0, 6]]"), HGA_EGRAPH, "relations[0].edges[1]: "},
    {RELATION("\"edges\": [[0, 1, -3]]"), HGA_EGRAPH, "type -3"},
    {RELATION("\"edges\": [[0, 1, 0, 0]]"), HGA_EGRAPH, "weight 0"},
    {RELATION("\"edges\": [[0, 1, 0, null]]"), HGA_EFORMAT, "edges[0][3]: a number is expected, not null"},
    {RELATION("\"edges\": [[0, 1, 0, 1], [0, 1, 0, 2]]"), HGA_EGRAPH, "weights"},
    {RELATION("\"blocks\": [{\"dst\": 0, \"n_dst\": 1, \"src\": 0}]"), HGA_EFORMAT,
     "relations[0].blocks[0]: member \"n_src\" is missing"},
    {RELATION("\"blocks\": [{\"dst\": 0, \"n_dst\": 7, \"src\": 0, \"n_src\": 1}]"), HGA_EGRAPH, "rows 0 .. 6 leave"},
    {BLOCK("\"n_edges\": 3"), HGA_EFORMAT, "blocks[0]: unknown member \"n_edges\""},
    {BLOCK("\"count\": 3000000000"), HGA_EFORMAT, "blocks[0].count: 3000000000 does not fit"},
    {BLOCK("\"count\": 3, \"dst_step\": 2147483647"), HGA_EGRAPH, "block 0"},
    {BLOCK("\"pos_of\": 6"), HGA_EFORMAT, "blocks[0].pos_of: node 6 of 6"},
    {BLOCK("\"weight\": 0"), HGA_EFORMAT, "blocks[0].weight: weight 0 is not positive"},
    {BLOCK("\"shape\": \"round\""), HGA_EFORMAT, "blocks[0].shape: \"round\" is unknown"},
    {BLOCK("\"shape\": \"band\""), HGA_EFORMAT, "blocks[0]: member \"band\" is missing"},
    {BLOCK("\"band\": [0, 1]"), HGA_EFORMAT, "blocks[0].band: only"},
    {BLOCK("\"shape\": \"band\", \"band\": [0]"), HGA_EFORMAT, "blocks[0].band: 1 numbers"},
};

static void a_wrong_file_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        hga_graph *g;
        char *program;
        hga_status st = read_text(wrong_files[i].text, strlen(wrong_files[i].text), &g, &program);
        if (st != wrong_files[i].status || !strstr(hga_error_detail(), wrong_files[i].words) ||
            !strstr(hga_error_detail(), ".json"))
            fail_msg("%s\n%s: %s", wrong_files[i].text, hga_status_name(st), hga_error_detail());
        assert_null(g), assert_null(program);
    }
}

static void a_person_may_leave_out_what_is_usual(void **state)
{
    (void)state;
    static const char text[] =
        "{\"format\": \"hga-graph\", \"schema\": 1, \"comment\": \"mine\", \"levels\": [6, 2],\n"
        " \"parents\": [6, 6, 6, 7, 7, 7, -1, -1], \"words\": [\"to\", \"be\", \"or\", \"not\", \"to\", \"be\"],\n"
        " \"relations\": [{\"name\": \"near\", \"comment\": 1, \"src_order\": [5, [0, 3]],\n"
        "   \"blocks\": [{\"dst\": 0, \"n_dst\": 2, \"src\": 0, \"n_src\": 2, \"comment\": 2}],\n"
        "   \"edges\": [[1, 4], [2, 4, 3], [3, 4, 0, 0.5]]}]}";
    hga_graph *g;
    SUCCEEDS(read_text(text, strlen(text), &g, NULL));
    assert_int_equal(hga_graph_nodes(g).parent[3], 7);
    assert_true(hga_graph_nodes(g).mass[7] == 3);
    assert_string_equal(hga_graph_name(g, 3), "not");
    assert_null(hga_graph_name(g, 6));
    edges want = {0};
    static const edge rows[] = {{0, 0, 0, 1}, {0, 5, 0, 1}, {1, 0, 0, 1},   {1, 5, 0, 1},
                                {4, 1, 0, 1}, {4, 2, 3, 1}, {4, 3, 0, 0.5f}};
    for (int i = 0; i < 7; i++) edges_add(&want, rows[i]);
    assert_equal_edges(edges_of(g, 0), want);
    hga_graph_destroy(g);
}

static void the_program_comes_back_as_text(void **state)
{
    (void)state;
    const char *path = scratch(".json");
    hga_graph *g = mixed_graph(NULL), *h;
    char *program;
    static const char members[] = "\"program\": {\"stages\": [{\"b\": 0.5, \"a\": \"\\u00e9\"}]}, "
                                  "\"words\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\"]";
    SUCCEEDS(hga_graph_write_json(g, members, path));
    SUCCEEDS(hga_graph_read_json(NULL, path, &h, &program));
    assert_string_equal(program, "{\"stages\":[{\"b\":0.5,\"a\":\"\xc3\xa9\"}]}");
    assert_equal_relations(g, h);
    assert_string_equal(hga_graph_name(h, 7), "h");
    hga_text_free(program);
    hga_text_free(NULL);
    remove(path);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void members_that_could_not_be_read_are_not_written(void **state)
{
    (void)state;
    const char *path = scratch(".json");
    hga_graph *g = mixed_graph(NULL);
    write_bytes(path, "old", 3);
    FAILS(HGA_EINVAL, "line 1", hga_graph_write_json(g, "\"program\": {", path));
    FAILS(HGA_EINVAL, "\"levels\" is not a member", hga_graph_write_json(g, "\"levels\": []", path));
    FAILS(HGA_EINVAL, "not an object", hga_graph_write_json(g, "\"program\": 1", path));
    size_t n;
    char *text = file_bytes(path, &n);
    assert_string_equal(text, "old");
    free(text);
    SUCCEEDS(hga_graph_write_json(g, " ", path));
    remove(path);
    hga_graph_destroy(g);
}

static void a_name_that_is_not_utf8_is_not_written(void **state)
{
    (void)state;
    hga_builder *b;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, 1, NULL));
    SUCCEEDS(hga_builder_add_relation(b, "\xff", NULL));
    hga_graph *g = finished(b);
    FAILS(HGA_EINVAL, "UTF-8", hga_graph_write_json(g, NULL, scratch(".json")));
    hga_graph_destroy(g);
}

static void a_million_regular_tokens_take_kilobytes(void **state)
{
    (void)state;
    enum { N = 1 << 20, C = 16 };
    const char *path = scratch(".json");
    struct stat size;
    hga_builder *b;
    hga_id near, first = 0, n = N;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_relation(b, "near", &near));
    for (hga_id next; n >= C; first = next, n /= 2) {
        SUCCEEDS(hga_builder_add_level(b, n, &next));
        if (n < N) SUCCEEDS(hga_builder_set_families(b, next, first, 2 * n, 2));
        first = next;
        SUCCEEDS(hga_builder_add_blocks(
            b, near,
            &(hga_block){
                .dst = first, .n_dst = C, .src = first, .n_src = C, .count = n / C, .dst_step = C, .src_step = C}));
    }
    hga_graph *g = finished(b), *h;
    SUCCEEDS(hga_graph_write_json(g, NULL, path));
    assert_int_equal(stat(path, &size), 0);
    assert_true(size.st_size < 4096);
    SUCCEEDS(hga_graph_read_json(NULL, path, &h, NULL));
    assert_equal_relations(g, h);
    remove(path);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

static void files_that_cannot_be_are_reported(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL), *h;
    FAILS(HGA_EIO, "no-such-directory/x.json", hga_graph_write_json(g, NULL, "no-such-directory/x.json"));
    FAILS(HGA_EIO, "/dev/full", hga_graph_write_json(g, NULL, "/dev/full"));
    FAILS(HGA_EINVAL, "empty", hga_graph_write_json(g, NULL, ""));
    FAILS(HGA_EIO, "no-such-file.json", hga_graph_read_json(NULL, "no-such-file.json", &h, NULL));
    FAILS(HGA_EIO, "cannot read .", hga_graph_read_json(NULL, ".", &h, NULL));
    FAILS(HGA_EINVAL, "empty", hga_graph_read_json(NULL, "", &h, NULL));
    hga_graph_destroy(g);
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *path = scratch(".json"), *other = scratch(".other");
    scarce s = {INT64_MAX, 0};
    hga_allocator a = scarce_allocator(&s);
    hga_graph *g = mixed_graph(&a), *h = NULL;
    SUCCEEDS(hga_graph_write_json(g, NULL, path));
    int64_t held = s.blocks, n = 0;
    int files = files_here();
    for (hga_status st = HGA_ENOMEM; st; n++) {
        s.left = n;
        st = hga_graph_write_json(g, NULL, other);
        if (st) assert_int_equal(st, HGA_ENOMEM), assert_int_equal(files_here(), files);
    }
    for (n = 0; !h; n++) {
        s.left = n;
        hga_status st = hga_graph_read_json(&a, path, &h, NULL);
        if (st) assert_int_equal(st, HGA_ENOMEM), assert_null(h), assert_int_equal(s.blocks, held);
    }
    s.left = INT64_MAX;
    remove(path), remove(other);
    hga_graph_destroy(g), hga_graph_destroy(h);
    assert_int_equal(s.blocks, 0);
}

static int64_t jansson_left = INT64_MAX;

static void *jansson_allocate(size_t bytes) { return jansson_left-- > 0 ? malloc(bytes) : NULL; }

static void want_of_memory_in_jansson_is_told_from_a_wrong_file(void **state)
{
    (void)state;
    const char *path = scratch(".json");
    hga_graph *g = cross_graph(NULL), *h = NULL;
    char *program;
    SUCCEEDS(hga_graph_write_json(g, "\"program\": {\"stages\": [1.5, true, \"x\"]}", path));
    json_set_alloc_funcs(jansson_allocate, free);
    for (int64_t n = 0; !h; n++) {
        jansson_left = n;
        hga_status st = hga_graph_read_json(NULL, path, &h, &program);
        if (st) assert_int_equal(st, HGA_ENOMEM), assert_null(h), assert_null(program);
    }
    hga_text_free(program);
    hga_status st = HGA_ENOMEM;
    for (int64_t n = 0; st; n++) {
        jansson_left = n;
        st = hga_graph_write_json(g, "\"program\": {\"stages\": [1.5]}", path);
        if (st) assert_int_equal(st, HGA_ENOMEM);
    }
    json_set_alloc_funcs(malloc, free);
    remove(path);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_a_view_shows_survives_the_round_trip),
        cmocka_unit_test(orders_that_say_nothing_new_survive),
        cmocka_unit_test(sides_that_say_nothing_new_survive),
        cmocka_unit_test(weights_survive_to_the_last_bit),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_wrong_file_is_refused_with_its_place),
        cmocka_unit_test(a_person_may_leave_out_what_is_usual),
        cmocka_unit_test(the_program_comes_back_as_text),
        cmocka_unit_test(members_that_could_not_be_read_are_not_written),
        cmocka_unit_test(a_name_that_is_not_utf8_is_not_written),
        cmocka_unit_test(a_million_regular_tokens_take_kilobytes),
        cmocka_unit_test(files_that_cannot_be_are_reported),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(want_of_memory_in_jansson_is_told_from_a_wrong_file),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
