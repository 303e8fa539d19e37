/* A decoder's token that comes alone: row by row, all heads at once, whoever shares out heads. */
#include "brought.h"
#include "by_hand.h"
#include "cache.h"
#include "decoding.h"
#include "isas.h"
#include "slices.h"

static const kernel_table *watched;
static int64_t n_tiles, by_row;
static void watch_tile(const kernel_tile *t) { n_tiles++, watched->attend_tile(t); }
static void watch_heads(const kernel_heads *c) { by_row += c->n, watched->attend_heads(c); }

/* Several tokens fill tiles. One is computed with all heads at once, and has its edges read one time. */
static void a_lone_token_goes_row_by_row(void **state)
{
    static const char *const names[] = {"dense_causal", "window_causal"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        problem p;
        session s;
        hga_cache *c;
        const hga_shape shape = {.n_heads = 4, .dim = 16};
        variant_build(variant_named(names[i]), 120, 3, &shape, &p);
        session_open(&s, &p, &(hga_decode_options){.plan.threads = 1}, 0);
        assert_ok(hga_cache_create(s.pages, &c));
        kernel_table watching = *s.decoder->plan->machine.kernels;
        watched = s.decoder->plan->machine.kernels, s.decoder->plan->machine.kernels = &watching;
        watching.attend_tile = watch_tile, watching.attend_heads = watch_heads;
        append_tokens(&s, "many", c, 100, 2e-6);
        assert_true(n_tiles > 0);
        n_tiles = by_row = 0;
        append_tokens(&s, "one", c, 1, 2e-6);
        assert_int_equal(n_tiles, 0);
        assert_in_range(by_row, 2, 101);
        n_tiles = by_row = 0, s.decoder->plan->machine.kernels = watched;
        hga_cache_destroy(c);
        session_close(&s), problem_clear(&p);
    }
}

/* Each token attends to those before it, and once more to itself and three more, from the state that it has. */
static problem attending_twice(hga_id n, hga_shape shape, hga_normaliser normaliser)
{
    problem p = {.name = "twice", .shape = shape};
    hga_id all, near;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_relation(b, "all", &all));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < n; v++) {
        const hga_id first = v < 3 ? 0 : v - 3;
        assert_ok(hga_builder_add_blocks(b, all, &(hga_block){.dst = v, .n_dst = 1, .n_src = v + 1}));
        assert_ok(
            hga_builder_add_blocks(b, near, &(hga_block){.dst = v, .n_dst = 1, .src = first, .n_src = v - first + 1}));
    }
    p.graph = finished(b);
    const attention f = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, all, f.query, f.key, f.value, f.out, 0));
    assert_ok(hga_program_attend_more(&p.program, near, f.query, f.key, f.value, f.out, 0));
    for (hga_id s = 0; s < p.program.n_stages; s++) p.program.stage[s].normaliser = normaliser;
    p.program.has_lse = normaliser == HGA_NORMALISER_SOFTMAX;
    problem_fill(&p, 4);
    return p;
}

/* Where threads share out the heads of few rows, the row is computed once, and not by each of them: states that go on
   from others would have what they add several times. */
static void heads_that_are_shared_out_are_computed_once(void **state)
{
    static const hga_normaliser normaliser[] = {HGA_NORMALISER_SOFTMAX, HGA_NORMALISER_SIGMOID};
    static const double tolerance[] = {4e-6, 4e-5}; /* sums of sigmoids are as large as there are tokens */
    enum { N = 90, HEADS = 4 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        session s;
        hga_cache *c;
        problem p = attending_twice(N, (hga_shape){.n_heads = HEADS, .dim = 16}, normaliser[i]);
        session_open(&s, &p, &(hga_decode_options){.plan.threads = 4}, 0);
        assert_ok(hga_cache_create(s.pages, &c));
        kernel_table watching = *s.decoder->plan->machine.kernels;
        watched = s.decoder->plan->machine.kernels, s.decoder->plan->machine.kernels = &watching;
        watching.attend_tile = watch_tile, watching.attend_heads = watch_heads;
        append_tokens(&s, "many", c, 64, tolerance[i]);
        while (hga_cache_tokens(c) < N) {
            n_tiles = by_row = 0;
            append_tokens(&s, "one", c, 1, tolerance[i]);
            assert_int_equal(n_tiles, 0);
            assert_int_equal(by_row, hga_cache_tokens(c) + 4);
        }
        s.decoder->plan->machine.kernels = watched;
        hga_cache_destroy(c);
        session_close(&s), problem_clear(&p);
    }
}

/* ---- keys and values that lie side by side in a cache, with what a call brings ---- */

static int64_t near_edges;
static void watch_near(const kernel_heads *c)
{
    near_edges += c->near && !c->terms.r ? c->n : 0;
    watched->attend_heads(c);
}

/* In place of the same engine's full pass. */
static void want_what_is_defined(session *s)
{
    free(s->want), free(s->want_lse), s->want_lse = NULL;
    s->want = problem_out(s->p, &(hga_options){.generic = 1}, s->p->program.has_lse ? &s->want_lse : NULL);
}

/* Most tokens at once and then one by one, so that strips of scores begin and end anywhere in a page. */
static int64_t near_edges_of(problem *p, const char *isa, double tolerance)
{
    enum { MANY = 60 };
    session s;
    hga_cache *c;
    session_open(&s, p, &(hga_decode_options){.plan = {.threads = 1, .isa = isa}}, 0);
    want_what_is_defined(&s);
    assert_ok(hga_cache_create(s.pages, &c));
    kernel_table watching = *s.decoder->plan->machine.kernels;
    watched = s.decoder->plan->machine.kernels, s.decoder->plan->machine.kernels = &watching, near_edges = 0;
    watching.attend_heads = watch_near;
    append_tokens(&s, isa, c, MANY, tolerance);
    while (hga_cache_tokens(c) < p->n_query) append_tokens(&s, isa, c, 1, tolerance);
    s.decoder->plan->machine.kernels = watched;
    hga_cache_destroy(c);
    session_close(&s);
    return near_edges;
}

/* Sinks and softcaps in one row; sigmoids with a bias of all scores. Beside them what scores by itself: slopes with
   sinks, which differ by head, and entmax. */
static void near_rows_are_as_defined_whatever_a_call_brings(void **state)
{
    static const float sink[] = {0.5f, -1, 2, -INFINITY, 0, 30, -30, 1}, slopes[] = {0.1f, 0, 1, 0.02f, 0, 0.5f, 3, 0};
    static const struct {
        const char *name;
        hga_normaliser normaliser;
        double alpha;
        operands operands;
    } kinds[] = {
        {"sinks and softcaps", HGA_NORMALISER_SOFTMAX, 0, {.sink = sink, .softcap = 2}},
        {"sinks, softcaps and slopes", HGA_NORMALISER_SOFTMAX, 0, {.sink = sink, .softcap = 0.5f, .slopes = slopes}},
        {"sigmoids", HGA_NORMALISER_SIGMOID, 0, {.normaliser_bias = -4}},
        {"entmax", HGA_NORMALISER_ENTMAX, 1.5, {.softcap = 2, .slopes = slopes}},
    };
    static const hga_shape shapes[] = {{.n_heads = 8, .n_kv_heads = 2, .dim = 64}, {.n_heads = 8, .dim = 64}};
    char isa[32];
    (void)state;
    for (int i = 0; isa_name(i, isa, sizeof isa); i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (int v = 0; v < 4; v++) {
                problem p;
                variant_build(variant_named(v / 2 ? "window_causal" : "dense_causal"), 101, 3, &shapes[v % 2], &p);
                snprintf(p.name, sizeof p.name, "%s, %s", v / 2 ? "window" : "dense", kinds[k].name);
                if (kinds[k].normaliser)
                    assert_ok(hga_program_normalise(&p.program, kinds[k].normaliser, kinds[k].alpha));
                if (!p.program.has_lse) p.io.lse.data = NULL;
                bring_to(&p.io, &kinds[k].operands);
                const int64_t near = near_edges_of(&p, isa, 2e-5);
                if ((near == 0) != (kinds[k].operands.slopes != NULL))
                    fail_msg("%s, %s: %d near edges", p.name, isa, (int)near);
                problem_clear(&p);
            }
}

/* Tokens by two have a mean, which the second alone attends to, or all later ones, too. */
static problem pairs_of_tokens(hga_id n, int passing)
{
    problem p = {.name = "pairs", .shape = {.n_heads = 2, .dim = 16}};
    hga_id past, pair, query, key, value, out;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_level(b, n / 2, &pair));
    assert_ok(hga_builder_set_families(b, pair, 0, n, 2));
    assert_ok(hga_builder_add_relation(b, "past", &past));
    for (hga_id v = 0; v < n; v++)
        assert_ok(hga_builder_add_blocks(b, past, &(hga_block){.dst = v, .n_dst = 1, .src = v, .n_src = 1}));
    for (hga_id i = 0; i < n / 2; i++) {
        const hga_block seen = {.dst = 2 * i + 1, .n_dst = passing ? 1 : n - 2 * i - 1, .src = pair + i, .n_src = 1};
        assert_ok(hga_builder_add_blocks(b, past, &seen));
    }
    p.graph = finished(b);
    hga_program_init(&p.program);
    query = field(&p.program, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    key = field(&p.program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    value = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    out = field(&p.program, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_coarsen(&p.program, key));
    assert_ok(hga_program_coarsen(&p.program, value));
    assert_ok(hga_program_attend(&p.program, past, query, key, value, out, 1));
    problem_fill(&p, 4);
    return p;
}

/* The sources of a token's row are not asked for where its stage reads none that no cache keeps. */
static void means_that_one_token_alone_reads_are_asked_for(void **state)
{
    enum { N = 40 };
    (void)state;
    for (int passing = 0; passing < 2; passing++) {
        session s;
        hga_cache *c;
        int at_hand = 0;
        problem p = pairs_of_tokens(N, passing);
        session_open(&s, &p, &(hga_decode_options){.plan.threads = 1}, 0);
        assert_ok(hga_cache_create(s.pages, &c));
        const struct slice_plan *slices = s.decoder->plan->slices;
        for (int64_t j = 0; j < slices->n_jobs; j++) at_hand |= slices->job[j].at_hand;
        assert_int_equal(at_hand, !passing);
        while (hga_cache_tokens(c) < N) append_tokens(&s, "one", c, 1, 2e-6);
        hga_cache_destroy(c);
        session_close(&s), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_token_goes_row_by_row),
        cmocka_unit_test(heads_that_are_shared_out_are_computed_once),
        cmocka_unit_test(near_rows_are_as_defined_whatever_a_call_brings),
        cmocka_unit_test(means_that_one_token_alone_reads_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
