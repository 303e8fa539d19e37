/* A decoder's token that comes alone: row by row, all heads at once, whoever shares out heads. */
#include "by_hand.h"
#include "decoding.h"

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
        kernel_table watching = *s.decoder->plan->kernels;
        watched = s.decoder->plan->kernels, s.decoder->plan->kernels = &watching;
        watching.attend_tile = watch_tile, watching.attend_heads = watch_heads;
        append_tokens(&s, "many", c, 100, 2e-6);
        assert_true(n_tiles > 0);
        n_tiles = by_row = 0;
        append_tokens(&s, "one", c, 1, 2e-6);
        assert_int_equal(n_tiles, 0);
        assert_in_range(by_row, 2, 101);
        n_tiles = by_row = 0, s.decoder->plan->kernels = watched;
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
        kernel_table watching = *s.decoder->plan->kernels;
        watched = s.decoder->plan->kernels, s.decoder->plan->kernels = &watching;
        watching.attend_tile = watch_tile, watching.attend_heads = watch_heads;
        append_tokens(&s, "many", c, 64, tolerance[i]);
        while (hga_cache_tokens(c) < N) {
            n_tiles = by_row = 0;
            append_tokens(&s, "one", c, 1, tolerance[i]);
            assert_int_equal(n_tiles, 0);
            assert_int_equal(by_row, hga_cache_tokens(c) + 4);
        }
        s.decoder->plan->kernels = watched;
        hga_cache_destroy(c);
        session_close(&s), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_token_goes_row_by_row),
        cmocka_unit_test(heads_that_are_shared_out_are_computed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
