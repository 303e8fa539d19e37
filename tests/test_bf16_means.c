/* Means in bfloat16: of what was not rounded, and rounded once. */
#include "by_hand.h"
#include "slopes.h"

enum { TOKENS = 24, SPAN = 4 };

/* Tokens see the last few, and the spans that are over. */
static hga_graph *tokens_and_spans(void)
{
    hga_builder *b = tokens_alone(TOKENS);
    hga_id spans, near, far;
    assert_ok(hga_builder_add_level(b, TOKENS / SPAN, &spans));
    assert_ok(hga_builder_set_families(b, spans, 0, TOKENS, SPAN));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_relation(b, "far", &far));
    for (hga_id v = 0; v < TOKENS; v++) {
        for (hga_id u = v < SPAN ? 0 : v - SPAN; u <= v; u++) assert_ok(hga_builder_add_edge(b, near, u, v, 0, 1));
        for (hga_id s = 0; s < v / SPAN; s++) assert_ok(hga_builder_add_edge(b, far, spans + s, v, 0, 1));
    }
    return finished(b);
}

/* Means are made before tokens are attended to, or after. */
static void near_and_far(hga_program *p, int means_first)
{
    hga_program_init(p);
    hga_id q = field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES),
           k = field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES),
           v = field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES),
           out = field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    if (!means_first) assert_ok(hga_program_attend(p, 0, q, k, v, out, 1));
    assert_ok(hga_program_coarsen(p, k));
    assert_ok(hga_program_coarsen(p, v));
    if (means_first) assert_ok(hga_program_attend(p, 0, q, k, v, out, 1));
    assert_ok(hga_program_attend_more(p, 1, q, k, v, out, 1));
    p->has_lse = 1;
}

/* Means are of tokens as they came, and rounded themselves, whoever has read these tokens rounded before. At 1200a31
   those that came later were means of rounded tokens, and stayed as they were. */
static void means_are_of_what_was_not_rounded_and_are_rounded_once(void **state)
{
    (void)state;
    const hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 12, .dim_v = 9};
    problem p[2];
    for (int first = 0; first < 2; first++) {
        p[first] = (problem){.shape = shape};
        snprintf(p[first].name, sizeof p[first].name, first ? "means first" : "tokens first");
        p[first].graph = tokens_and_spans(), near_and_far(&p[first].program, first), problem_fill(&p[first], 7);
    }
    for (int i = 0; i < 8; i++) {
        hga_options o = {.threads = 1 + i % 2, .precision = HGA_PRECISION_BF16, .generic = i / 2 % 2};
        o.dropout = i / 4 ? 0.25f : 0;
        float *want = problem_out(&p[1], &o, NULL), *got = problem_out(&p[0], &o, NULL);
        assert_same_bits(p[0].name, got, want, out_count(&p[0]));
        slope ahead = slope_create(&p[1], 3), behind = slope_create(&p[0], 3);
        slope_run(&ahead, o), slope_run(&behind, o);
        assert_same_slopes(&ahead, &behind, o.generic ? 1e-6 : 5e-5);
        slope_clear(&ahead), slope_clear(&behind), free(want), free(got);
    }
    problem_clear(&p[0]), problem_clear(&p[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_of_what_was_not_rounded_and_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
