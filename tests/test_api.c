/* test_api.c: the structs that callers fill. Zero names nothing, arrays are as long as they say, words that nobody has
   given a meaning are refused. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 12, DIM = 4 };

/* Windowed attention with everything that has rows. */
static void make(problem *p)
{
    hga_window w;
    hga_defaults(&w);
    *p = (problem){.name = "window", .shape = {.n_heads = 2, .dim = DIM, .pos_dim = 3}, .options = {.threads = 1}};
    w.n_tokens = N;
    assert_ok(hga_build_window(&w, &p->graph, &p->program));
    problem_fill(p, 1);
    problem_fill_tables(p, 2, 0, 0, 0);
}

static void refused(const problem *p, const hga_io *io, const char *because)
{
    assert_status(HGA_EINVAL, hga_attention(p->graph, &p->program, &p->shape, &p->options, io));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

static void arrays_that_are_too_short_are_refused(void **state)
{
    (void)state;
    problem p;
    make(&p);
    assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
    hga_io io = p.io;
    io.query.rows = N - 1;
    refused(&p, &io, "field query has 11 rows, the program needs 12");
    io = p.io, io.key.rows = 0;
    refused(&p, &io, "field key has 0 rows");
    io = p.io, io.value.rows = -1;
    refused(&p, &io, "field value has -1 rows");
    io = p.io, io.out.rows = 3;
    refused(&p, &io, "field out has 3 rows");
    io = p.io, io.lse.rows = 11;
    refused(&p, &io, "the log-sum-exp has 11 rows");
    io = p.io, io.node_pos.rows = 11;
    refused(&p, &io, "node_pos has 11 rows but the graph has 12 nodes");
    io = p.io, io.out.rows = N + 1;
    assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &io));
    problem_clear(&p);
}

static void reserved_words_are_zero(void **state)
{
    (void)state;
    problem p;
    make(&p);
    hga_io io = p.io;
    io.reserved[sizeof io.reserved / sizeof *io.reserved - 1] = 1;
    refused(&p, &io, "hga_io");
    p.options.ranks = &(hga_ranks){.reserved = {1}};
    refused(&p, &p.io, "hga_ranks: byte 0 of its reserved words is 1");
    p.options.ranks = NULL, p.shape.reserved[2] = 1;
    refused(&p, &p.io, "hga_shape");
    p.shape.reserved[2] = 0, p.program.reserved[1] = 1;
    refused(&p, &p.io, "hga_program: byte 8 of its reserved words is 1");
    p.program.reserved[1] = 0, p.program.stage[0].reserved[2] = 1;
    refused(&p, &p.io, "hga_stage 'attend out': byte 16 of its reserved words is 1");
    p.program.stage[0].reserved[2] = 0, p.program.stage[0].normaliser = (hga_normaliser)99;
    assert_status(HGA_EPROGRAM, hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
    assert_non_null(strstr(hga_error_detail(), "stage 'attend out': normaliser 99"));
    problem_clear(&p);
}

/* Tables that a library of today does not know, and rows and columns that the shape does not have, are refused. */
static void tables_are_checked(void **state)
{
    (void)state;
    const float number[] = {0.5f, 0.5f, 0.5f};
    problem p;
    make(&p);
    hga_io io = p.io;
    io.slopes = (hga_table){.data = number, .rows = p.shape.n_heads, .columns = 1};
    assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &io));
    io.slopes.rows++;
    refused(&p, &io, "slopes has 3 rows, not 2 (heads)");
    io = p.io, io.slopes = (hga_table){.data = number, .columns = 2};
    refused(&p, &io, "slopes has 2 columns, not 1");
    io = p.io, io.slopes = (hga_table){.data = number, .reserved = 7};
    refused(&p, &io, "hga_table: byte 0 of its reserved words is 7");
    io = p.io, io.type_scale = (hga_table){.data = number, .rows = -7};
    refused(&p, &io, "type_scale has -7 rows");
    io.type_scale.rows = INT64_MAX / 2; /* whose bytes are no number */
    refused(&p, &io, "type_scale has 4611686018427387903 rows");
    io = p.io, io.rel_key = (hga_table){.data = number, .rows = INT64_C(1) << 32};
    refused(&p, &io, "rel_key has 4294967296 rows");
    io = p.io, io.edge_bias = (hga_table){.data = number, .rows = INT64_MAX / 8, .columns = 2};
    refused(&p, &io, "edge_bias has 1152921504606846975 rows");
    io = p.io, io.table[HGA_N_TABLES].data = number;
    refused(&p, &io, "which this library does not know");
    io = p.io, io.log_mass.data = number;
    refused(&p, &io, "log_mass is the graph's");
    io = p.io, io.normaliser_bias.data = number;
    assert_status(HGA_EUNSUPPORTED, hga_attention(p.graph, &p.program, &p.shape, &p.options, &io));
    assert_non_null(strstr(hga_error_detail(), "normaliser_bias: the program's normaliser has no bias"));
    io = p.io, io.scale.data = &(float){NAN};
    refused(&p, &io, "scale nan is not finite");
    p.program.default_scale = 3e38f; /* times log2 e no float32 */
    assert_status(HGA_EPROGRAM, hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
    assert_non_null(strstr(hga_error_detail(), "default_scale 3e+38 is not finite, from -1e30 to 1e30"));
    p.program.default_scale = 0, io = p.io, io.softcap.data = &(float){1e30f};
    assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &io));
    problem_clear(&p);
}

static void nothing_begins(void *to, const hga_end *v, hga_id head, void *ctx)
{
    (void)to, (void)v, (void)head, (void)ctx;
}
static void nothing_is_fed(void *to, const hga_edge *e, hga_id head, void *ctx)
{
    (void)to, (void)e, (void)head, (void)ctx;
}
static void nothing_is_left(const void *from, const hga_end *v, hga_id head, void *ctx)
{
    (void)from, (void)v, (void)head, (void)ctx;
}

/* A stage of the caller's own has scores, which look up types like any other's. */
static void types_of_a_callers_own_stage_are_checked(void **state)
{
    (void)state;
    const float bias[2] = {0};
    problem p;
    make(&p);
    hga_stage *s = &p.program.stage[0];
    s->message = HGA_MESSAGE_USER, s->reduce = HGA_REDUCE_USER, s->update = HGA_UPDATE_USER;
    s->reads = 0, s->writes = 1u << s->out, s->value = 0, p.program.has_lse = 0, p.io.lse.data = NULL;
    s->udf = (hga_udf){.state_bytes = 8, .begin = nothing_begins, .edge = nothing_is_fed, .finish = nothing_is_left};
    hga_io io = p.io;
    io.node_pos.data = NULL, io.rel_bias = (hga_table){.data = bias, .rows = 1};
    assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &io));
    io.rel_bias.rows = 0;
    refused(&p, &io, "rel_bias has 0 rows but relation");
    problem_clear(&p);
}

/* Words that a builder does not know. */
#define REFUSES_RESERVED(name, build)                                          \
    do {                                                                       \
        hga_graph *g;                                                          \
        hga_program program;                                                   \
        hga_##name p;                                                          \
        hga_defaults(&p);                                                      \
        p.reserved[3] = 1;                                                     \
        assert_status(HGA_EINVAL, build(&p, &g, &program));                    \
        assert_non_null(strstr(hga_error_detail(), "hga_" #name ": byte 24")); \
        assert_null(g);                                                        \
    } while (0)

static void builders_refuse_words_they_do_not_know(void **state)
{
    (void)state;
    REFUSES_RESERVED(dense, hga_build_dense);
    REFUSES_RESERVED(window, hga_build_window);
    REFUSES_RESERVED(bpt, hga_build_bpt);
    REFUSES_RESERVED(htransformer, hga_build_htransformer);
    REFUSES_RESERVED(treeformer, hga_build_treeformer_fine);
    REFUSES_RESERVED(treeformer, hga_build_treeformer_coarse);
    REFUSES_RESERVED(hsa, hga_build_hsa);
    REFUSES_RESERVED(fenwick, hga_build_fenwick);
    REFUSES_RESERVED(dilated, hga_build_dilated);
    REFUSES_RESERVED(segmented, hga_build_segments);
    REFUSES_RESERVED(neighbourhood, hga_build_neighbourhood);
    REFUSES_RESERVED(draft, hga_build_draft);
    float x = 0;
    int32_t leaf;
    hga_router r = {.height = 1, .dim = 1, .n_heads = 1, .weights = &x, .bias = &x, .reserved = {1}};
    assert_status(HGA_EINVAL, hga_route(&r, &x, 1, 1, 1, &leaf));
    assert_non_null(strstr(hga_error_detail(), "hga_router"));
}

/* A struct that was zeroed, where its defaults were forgotten. */
#define REFUSES_ZEROS(name, tokens, build, says)                                                                       \
    do {                                                                                                               \
        hga_graph *g;                                                                                                  \
        hga_program program;                                                                                           \
        const hga_##name p = {.tokens = 8};                                                                            \
        assert_status(HGA_EINVAL, build(&p, &g, &program));                                                            \
        assert_string_equal(hga_error_detail(), says ": 0, at least 1 is needed; hga_defaults(&p) sets the defaults, " \
                                                     "which are not 0");                                               \
        assert_null(g);                                                                                                \
    } while (0)

static void builders_say_that_defaults_were_forgotten(void **state)
{
    (void)state;
    REFUSES_ZEROS(window, n_tokens, hga_build_window, "stride");
    REFUSES_ZEROS(bpt, n_tokens, hga_build_bpt, "k");
    REFUSES_ZEROS(htransformer, n_tokens, hga_build_htransformer, "block");
    REFUSES_ZEROS(treeformer, n_queries, hga_build_treeformer_fine, "n_tree_heads");
    REFUSES_ZEROS(routed, n_tokens, hga_build_routed, "block");
    hga_window w;
    hga_graph *g;
    hga_program program;
    hga_defaults(&w);
    w.n_tokens = 8, w.stride = -1;
    assert_status(HGA_EINVAL, hga_build_window(&w, &g, &program));
    assert_string_equal(hga_error_detail(), "stride: -1, at least 1 is needed");
}

/* A stage that is zero but for what it does names no field, and says so. */
static void a_zeroed_stage_names_no_field(void **state)
{
    (void)state;
    problem p;
    make(&p);
    hga_stage none = {.name = "none", .message = HGA_SCORE, .reduce = HGA_SOFTMAX, .update = HGA_REPLACE};
    p.program.n_stages = 0;
    assert_ok(hga_program_add_stage(&p.program, &none));
    assert_status(HGA_EPROGRAM, hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
    assert_non_null(strstr(hga_error_detail(), "stage 'none': query is field 0"));
    problem_clear(&p);
}

/* ---- rows ---- */

/* The rows that the caller's tensors have are those the rows' names list, for every variant. */
static void rows_of_tensors_are_told(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 37, 5, &(hga_shape){.n_heads = 1, .dim = 2}, &p);
        for (hga_id f = 1; f <= p.program.n_fields; f++) {
            hga_id first, n, listed, *list = row_nodes(p.graph, p.program.field[f].io, &listed);
            assert_ok(hga_program_rows(&p.program, p.graph, f, &first, &n));
            if (p.program.field[f].binding == HGA_INTERNAL) listed = 0;
            assert_int_equal(n, listed);
            for (hga_id k = 0; k < n; k++) assert_int_equal(list[k], first + k);
            free(list);
        }
        problem_clear(&p);
    }
    problem p;
    hga_id first, n;
    make(&p);
    assert_int_equal(hga_program_field(&p.program, HGA_IO_VALUE), 3);
    assert_int_equal(hga_program_field(&p.program, HGA_IO_USER), 0);
    assert_ok(hga_program_rows(&p.program, p.graph, 0, &first, &n));
    assert_int_equal(n, 0);
    assert_status(HGA_EINVAL, hga_program_rows(&p.program, p.graph, 5, &first, &n));
    problem_clear(&p);
}

/* ---- states ---- */

/* Attention over the first half of the keys and over the second, merged, is attention over all. */
static void merged_states_are_attention_over_all_keys(void **state)
{
    (void)state;
    enum { HEADS = 2, KEYS = 20, ROWS = 7 };
    float *x[3], *lse[3];
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    float *q = random_floats(1, 2, ROWS * HEADS * DIM), *k = random_floats(2, 2, KEYS * HEADS * DIM),
          *v = random_floats(3, 2, KEYS * HEADS * DIM);
    for (int part = 0; part < 3; part++) { /* all, the first 13, the last 7 */
        hga_dense d;
        hga_defaults(&d);
        hga_graph *g;
        hga_program p;
        int from = part == 2 ? 13 : 0, n = part == 0 ? KEYS : part == 1 ? 13 : 7;
        d.n_tokens = ROWS, d.n_keys = n;
        assert_ok(hga_build_dense(&d, &g, &p));
        x[part] = memory(ROWS * HEADS * DIM, sizeof(float)), lse[part] = memory(ROWS * HEADS, sizeof(float));
        hga_io io = {.query = {.data = q, .rows = ROWS},
                     .key = {.data = k + from * HEADS * DIM, .rows = n},
                     .value = {.data = v + from * HEADS * DIM, .rows = n},
                     .out = {.data = x[part], .rows = ROWS},
                     .lse = {.data = lse[part], .rows = ROWS}};
        assert_ok(hga_attention(g, &p, &shape, NULL, &io));
        hga_graph_destroy(g);
    }
    assert_ok(hga_merge_states(ROWS, HEADS, DIM, x[1], lse[1], x[2], lse[2]));
    assert_near_floats("out", x[1], x[0], ROWS * HEADS * DIM, 1e-5);
    assert_near_floats("lse", lse[1], lse[0], ROWS * HEADS, 1e-5);
    free(q), free(k), free(v);
    for (int part = 0; part < 3; part++) free(x[part]), free(lse[part]);
}

static void empty_states_change_nothing(void **state)
{
    (void)state;
    float a[4] = {1, 2, NAN, NAN}, lse_a[2] = {3, -INFINITY}, b[4] = {NAN, NAN, 5, 6}, lse_b[2] = {-INFINITY, 7};
    assert_ok(hga_merge_states(2, 1, 2, a, lse_a, b, lse_b));
    assert_true(a[0] == 1 && a[1] == 2 && lse_a[0] == 3);
    assert_true(a[2] == 5 && a[3] == 6 && lse_a[1] == 7);
    float none[2] = {0, 0}, lse_none = -INFINITY, other[2] = {1, 1}, lse_other = -INFINITY;
    assert_ok(hga_merge_states(1, 1, 2, none, &lse_none, other, &lse_other));
    assert_true(none[0] == 0 && none[1] == 0 && lse_none == -INFINITY);
    assert_status(HGA_EINVAL, hga_merge_states(-1, 1, 2, a, lse_a, b, lse_b));
    assert_status(HGA_EINVAL, hga_merge_states(1, 1, 2, a, NULL, b, lse_b));
}

/* ---- the default program of a hierarchy ---- */

/* Four tokens in two sections; tokens see their section, sections each other, a token the other section. */
static hga_graph *sections(int coarse_rows, int coarse_sources)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near, far;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 4, NULL));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_set_families(b, 4, 0, 4, 2));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_relation(b, "far", &far));
    assert_ok(hga_builder_add_blocks(b, near,
                                     &(hga_block){.n_dst = 2, .n_src = 2, .count = 2, .dst_step = 2, .src_step = 2}));
    if (coarse_rows && coarse_sources) assert_ok(hga_builder_add_block(b, far, 4, 2, 4, 2, 0));
    if (coarse_rows && !coarse_sources) assert_ok(hga_builder_add_edge(b, far, 0, 5, 0, 1));
    if (!coarse_rows && coarse_sources) assert_ok(hga_builder_add_edge(b, far, 5, 0, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* What is not needed is not there, and the result is the oracle's. */
static void a_hierarchy_has_the_stages_it_needs(void **state)
{
    (void)state;
    static const hga_id both[] = {0, 1};
    static const char *const stages[2][2] = {
        {"attend out, attend more out", "coarsen key, coarsen value, attend out, attend more out"},
        {"coarsen query, attend out, attend more out, spread out",
         "coarsen query, coarsen key, coarsen value, attend out, attend more out, spread out"}};
    for (int rows = 0; rows < 2; rows++)
        for (int sources = 0; sources < 2; sources++) {
            problem p = {.name = "hierarchy", .graph = sections(rows, sources), .shape = {.n_heads = 2, .dim = 3}};
            char names[400] = "";
            assert_ok(hga_program_hierarchy(&p.program, p.graph, both, 2));
            for (hga_id s = 0; s < p.program.n_stages; s++)
                strcat(strcat(names, s ? ", " : ""), p.program.stage[s].name);
            assert_string_equal(names, stages[rows][sources]);
            assert_int_equal(p.program.has_lse, 1);
            problem_fill(&p, 3);
            problem_run(&p);
            assert_equals_slow(&p, 1e-5);
            problem_clear(&p);
        }
}

/* Cross-attention: of the H-Transformer's graph, whose nodes have sides, it is the H-Transformer's own program. */
static void a_hierarchy_of_two_sides_attends_across(void **state)
{
    (void)state;
    for (int cross = 0; cross < 2; cross++) {
        hga_htransformer h;
        hga_defaults(&h);
        problem p = {.name = "two sides", .shape = {.n_heads = 2, .dim = 3}};
        h.n_tokens = 100, h.n_keys = cross ? 90 : 0, h.block = 4;
        assert_ok(hga_build_htransformer(&h, &p.graph, &p.program));
        problem_fill(&p, 4);
        problem_run(&p);
        assert_ok(hga_program_hierarchy(&p.program, p.graph, (hga_id[]){0}, 1));
        float *out = problem_out(&p, &p.options, NULL);
        assert_near_floats("out", out, p.io.out.data, out_count(&p), 1e-5);
        free(out);
        problem_clear(&p);
    }
}

static void a_hierarchy_without_a_tree_has_no_coarse_rows(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g;
    hga_program p;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_add_level(b, 1, NULL));
    assert_ok(hga_builder_add_relation(b, "near", NULL));
    assert_ok(hga_builder_add_edge(b, 0, 2, 0, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    assert_status(HGA_EPROGRAM, hga_program_hierarchy(&p, g, (hga_id[]){0}, 1));
    assert_non_null(strstr(hga_error_detail(), "edges end above the 2 tokens, but no node has a parent"));
    assert_int_equal(p.n_stages, 0);
    assert_status(HGA_EINVAL, hga_program_hierarchy(&p, g, (hga_id[]){1}, 1));
    assert_status(HGA_EINVAL, hga_program_hierarchy(&p, g, NULL, 0));
    hga_graph_destroy(g);
}

/* In a file the word stands for the program; a graph without it has none. */
static void a_file_may_ask_for_the_default_program(void **state)
{
    (void)state;
    static const char *const name = "attend.json", *const members[] = {"\"program\": \"attend\", ", "",
                                                                       "\"program\": \"x\", "};
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(name, "w");
        assert_non_null(f);
        fprintf(f,
                "{\"format\": \"hga-graph\", \"schema\": 1, %s\"levels\": [3], \"relations\": [{\"name\": \"near\", "
                "\"edges\": [[0, 1], [2, 2]]}]}",
                members[i]);
        fclose(f);
        hga_graph *g;
        hga_program p;
        hga_status st = hga_program_read_file(NULL, name, &g, &p);
        if (i) {
            assert_int_equal(st, HGA_EFORMAT);
            assert_non_null(strstr(hga_error_detail(), i == 1 ? "has no program" : "'x' is not a program"));
            assert_null(g);
            continue;
        }
        if (st) fail_msg("%s", hga_error_detail());
        assert_int_equal(p.n_stages, 1);
        assert_string_equal(p.stage[0].name, "attend out");
        hga_graph_destroy(g);
    }
    remove(name);
}

/* ---- the version ---- */

static void the_version_is_the_headers(void **state)
{
    (void)state;
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d%s", HGA_VERSION_MAJOR, HGA_VERSION_MINOR, HGA_VERSION_PATCH,
             HGA_VERSION_STAGE);
    assert_string_equal(hga_version(), version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_that_are_too_short_are_refused),
        cmocka_unit_test(reserved_words_are_zero),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(types_of_a_callers_own_stage_are_checked),
        cmocka_unit_test(builders_refuse_words_they_do_not_know),
        cmocka_unit_test(builders_say_that_defaults_were_forgotten),
        cmocka_unit_test(a_zeroed_stage_names_no_field),
        cmocka_unit_test(rows_of_tensors_are_told),
        cmocka_unit_test(merged_states_are_attention_over_all_keys),
        cmocka_unit_test(empty_states_change_nothing),
        cmocka_unit_test(a_hierarchy_has_the_stages_it_needs),
        cmocka_unit_test(a_hierarchy_of_two_sides_attends_across),
        cmocka_unit_test(a_hierarchy_without_a_tree_has_no_coarse_rows),
        cmocka_unit_test(a_file_may_ask_for_the_default_program),
        cmocka_unit_test(the_version_is_the_headers),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
