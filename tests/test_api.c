/* test_api.c: the structs that callers fill. Zero names nothing, arrays are as long as they say, words that nobody has
   given a meaning are refused. */
#include "testing.h"

#include <stdlib.h>
#include <string.h>

enum { N = 12, DIM = 4 };

/* Windowed attention with everything that has rows. */
static void make(problem *p)
{
    hga_window w = hga_window_defaults();
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
    refused(&p, &io, "field lse has 11 rows");
    io = p.io, io.n_node_pos = 11;
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
    io.reserved[7] = 1;
    refused(&p, &io, "hga_io");
    p.options.reserved[0] = 1;
    refused(&p, &p.io, "hga_options: byte 0 of its reserved words is 1");
    p.options.reserved[0] = 0, p.shape.reserved[2] = 1;
    refused(&p, &p.io, "hga_shape");
    problem_clear(&p);
}

/* Words that a builder does not know. */
#define REFUSES_RESERVED(name, build)                                          \
    do {                                                                       \
        hga_graph *g;                                                          \
        hga_program program;                                                   \
        hga_##name p = hga_##name##_defaults();                                \
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
    float x = 0;
    int32_t leaf;
    hga_router r = {.height = 1, .dim = 1, .n_heads = 1, .weights = &x, .bias = &x, .reserved = {1}};
    assert_status(HGA_EINVAL, hga_route(&r, &x, 1, 1, 1, &leaf));
    assert_non_null(strstr(hga_error_detail(), "hga_router"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_that_are_too_short_are_refused),
        cmocka_unit_test(reserved_words_are_zero),
        cmocka_unit_test(builders_refuse_words_they_do_not_know),
        cmocka_unit_test(a_zeroed_stage_names_no_field),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
