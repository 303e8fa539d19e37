/* Decoding: what cannot be appended, allocated, forked or cut is refused by name, and changes nothing. */
#include "cache.h"
#include "decoding.h"

/* ---- all or nothing ---- */

static void failing_allocations_leave_every_cache_as_it_was(void **state)
{
    (void)state;
    const char *const some[] = {"neighbours_causal", "window_causal", "bpt_causal"};
    for (int i = 0; i < 3; i++) {
        problem p;
        session s;
        hga_cache *c[3];
        fed f[3];
        hga_append list[3];
        uint64_t held[3];
        int failed = 0;
        variant_build(variant_named(some[i]), 120, 5, &narrow, &p);
        session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 0);
        for (int k = 0; k < 3; k++) assert_ok(hga_cache_create(s.pages, &c[k]));
        append_tokens(&s, "before", c[0], 21, 0), append_tokens(&s, "before", c[1], 40, 0);
        hga_cache_destroy(c[2]);
        assert_ok(hga_cache_fork(c[0], &c[2]));
        for (int k = 0; k < 3; k++) feed(&s, c[k], 11 + 9 * k, &f[k]), list[k] = f[k].append, held[k] = stamp_of(c[k]);
        int64_t used = hga_pages_used(s.pages);
        for (int64_t n = 1;; n++, failed++) {
            s.memory.fails_from = s.memory.asked + n;
            hga_status st = hga_decoder_append(s.decoder, s.workspace, list, 3);
            s.memory.fails_from = 0;
            if (!st) break;
            assert_int_equal(st, HGA_ENOMEM);
            for (int k = 0; k < 3; k++) assert_true(stamp_of(c[k]) == held[k]);
            assert_true(hga_pages_used(s.pages) <= used + 2 * hga_decoder_cache_bytes(s.decoder, 21));
        }
        assert_true(failed > 2);
        for (int k = 0; k < 3; k++) check_fed(&s, "at last", &f[k], 0), starve(&f[k]), hga_cache_destroy(c[k]);
        assert_int_equal(hga_pages_used(s.pages), 0);
        session_close(&s), problem_clear(&p);
    }
}

/* Of whatever append that fails the next one finds no row that was not made. */
static void after_a_failed_allocation_the_next_append_has_its_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        hga_status st = HGA_ENOMEM;
        if (passed_over(i)) continue;
        variant_build(variant_named(causal[i]), 120, 5 + (uint64_t)i, &narrow, &p);
        for (int64_t n = 1; st; n++) {
            session s;
            hga_cache *c;
            fed f;
            session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 0);
            assert_ok(hga_cache_create(s.pages, &c));
            append_tokens(&s, "before", c, 1, 0), feed(&s, c, 90, &f);
            s.memory.fails_from = s.memory.asked + n;
            st = hga_decoder_append(s.decoder, s.workspace, &f.append, 1);
            s.memory.fails_from = 0;
            if (st) assert_int_equal(st, HGA_ENOMEM);
            if (st) assert_ok(hga_decoder_append(s.decoder, s.workspace, &f.append, 1));
            check_fed(&s, "after a failure", &f, 0), starve(&f);
            hga_cache_destroy(c);
            session_close(&s);
        }
        problem_clear(&p);
    }
}

static void a_pool_that_is_full_refuses_and_says_so(void **state)
{
    (void)state;
    problem p;
    session s;
    hga_cache *a, *b;
    fed f;
    variant_build(variant_named("dense_causal"), 200, 5, &narrow, &p);
    hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1};
    hga_decoder *measure;
    assert_ok(hga_decoder_create(p.graph, &p.program, &p.shape, &o, &measure));
    int64_t most = hga_decoder_cache_bytes(measure, 100);
    hga_decoder_destroy(measure);
    session_open(&s, &p, &o, most);
    assert_ok(hga_cache_create(s.pages, &a)), assert_ok(hga_cache_create(s.pages, &b));
    append_tokens(&s, "up to the limit", a, 100, 0);
    assert_int_equal(hga_pages_bytes(s.pages), most);
    uint64_t held = stamp_of(a);
    feed(&s, b, 1, &f);
    assert_status(HGA_ENOMEM, hga_decoder_append(s.decoder, s.workspace, &f.append, 1));
    assert_true(strstr(hga_error_detail(), "pages: ") != NULL);
    assert_int_equal(hga_cache_tokens(b), 0);
    assert_true(stamp_of(a) == held);
    starve(&f);
    hga_cache_destroy(a);
    append_tokens(&s, "where there was none", b, 80, 0);
    hga_cache_destroy(b);
    session_close(&s), problem_clear(&p);
}

/* The second append of a list is refused: the first cache is as it was, too. */
static void one_bad_append_spoils_none(void **state)
{
    (void)state;
    problem p;
    session s;
    hga_cache *a, *b;
    fed f, g;
    variant_build(variant_named("window_causal"), 60, 5, &narrow, &p);
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 0);
    assert_ok(hga_cache_create(s.pages, &a)), assert_ok(hga_cache_create(s.pages, &b));
    append_tokens(&s, "before", a, 9, 0), append_tokens(&s, "before", b, 60, 0);
    feed(&s, a, 2, &f);
    hga_append list[2] = {f.append, f.append};
    assert_status(HGA_EINVAL, hga_decoder_append(s.decoder, s.workspace, list, 2));
    assert_true(strstr(hga_error_detail(), "append 1: the cache is there twice") != NULL);
    list[1].cache = b;
    assert_status(HGA_EINVAL, hga_decoder_append(s.decoder, s.workspace, list, 2));
    assert_true(strstr(hga_error_detail(), "60 tokens and 2 more are beyond the decoder's 60") != NULL);
    list[0].io.key.rows = 1;
    assert_status(HGA_EINVAL, hga_decoder_append(s.decoder, s.workspace, list, 1));
    list[0] = f.append, list[0].io.value.data = NULL;
    assert_status(HGA_EINVAL, hga_decoder_append(s.decoder, s.workspace, list, 1));
    list[0] = f.append, list[0].io.query.dtype = HGA_F16;
    assert_status(HGA_EUNSUPPORTED, hga_decoder_append(s.decoder, s.workspace, list, 1));
    /* what only the execution refuses, in the second place */
    assert_ok(hga_cache_cut(b, 0));
    feed(&s, b, 3, &g);
    uint64_t held = stamp_of(a);
    list[0] = f.append, list[1] = g.append;
    bring_to(&list[1].io, &(operands){.softcap = -1});
    assert_int_not_equal(hga_decoder_append(s.decoder, s.workspace, list, 2), HGA_OK);
    assert_int_equal(hga_cache_tokens(a), 9);
    assert_true(stamp_of(a) == held);
    assert_ok(hga_decoder_append(s.decoder, s.workspace, &f.append, 1));
    check_fed(&s, "after refusals", &f, 0);
    starve(&f), starve(&g);
    hga_cache_destroy(a), hga_cache_destroy(b);
    session_close(&s), problem_clear(&p);
}

/* ---- refusals ---- */

static void what_sees_a_later_token_is_refused_and_named(void **state)
{
    (void)state;
    const char *const some[] = {"dense", "window", "neighbours", "hsa_self"};
    for (int i = 0; i < 4; i++) {
        problem p;
        hga_decoder *d;
        hga_id token, sees;
        variant_build(variant_named(some[i]), 60, 5, &narrow, &p);
        assert_ok(hga_program_influence(&p.program, p.graph, &token, &sees));
        assert_true(token >= 0);
        assert_status(HGA_EUNSUPPORTED, hga_decoder_create(p.graph, &p.program, &p.shape, NULL, &d));
        char say[80];
        snprintf(say, sizeof say, "the output of token %d depends on token %d", token, sees);
        if (!strstr(hga_error_detail(), say)) fail_msg("%s: '%s' does not say '%s'", some[i], hga_error_detail(), say);
        assert_null(d);
        problem_clear(&p);
    }
}

static void options_without_meaning_are_refused_by_name(void **state)
{
    (void)state;
    const struct {
        hga_decode_options o;
        const char *say;
    } bad[] = {
        {{.plan = {.gradient = 1}}, "gradient"},
        {{.plan = {.dropout = 0.1f}}, "dropout"},
        {{.plan = {.keep_fields = 1}}, "keep_fields"},
        {{.rollback = -1}, "rollback"},
        {{.page_rows = 12}, "page_rows"},
        {{.page_type = HGA_F16}, "page_type"},
        {{.reserved = {1}}, "hga_decode_options"},
    };
    problem p;
    hga_decoder *d;
    variant_build(variant_named("window_causal"), 60, 5, &narrow, &p);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(hga_decoder_create(p.graph, &p.program, &p.shape, &bad[i].o, &d), HGA_OK);
        if (!strstr(hga_error_detail(), bad[i].say)) fail_msg("'%s' does not name %s", hga_error_detail(), bad[i].say);
    }
    problem_clear(&p);
}

/* In the words of the first append. */
static void tables_that_appends_may_not_bring_are_told_before_there_are_tokens(void **state)
{
    static const float sink[] = {0.5f, 1, 2, -1}, slopes[] = {0.5f, -1, 0, 0.125f}, additive[4 * 12] = {1};
    static const struct {
        const char *variant;
        int is_sigmoid;
        operands operands;
    } bad[] = {{"window_causal", 1, {.sink = sink}},
               {"window_causal", 0, {.slopes = slopes}},
               {"window_causal", 0, {.normaliser_bias = 2}},
               {"window_causal", 0, {.softcap = -1}},
               {"hsa_frontier", 0, {.additive = additive}}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        problem p;
        session s;
        hga_cache *c;
        fed f;
        char said[400];
        variant_build(variant_named(bad[i].variant), 60, 5, &narrow, &p);
        if (bad[i].is_sigmoid) assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_SIGMOID, 0));
        session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}}, 0);
        assert_ok(hga_cache_create(s.pages, &c));
        feed(&s, c, 2, &f);
        assert_ok(hga_decoder_check_tables(s.decoder, &f.append.io));
        bring_to(&f.append.io, &bad[i].operands);
        hga_status st = hga_decoder_append(s.decoder, s.workspace, &f.append, 1);
        snprintf(said, sizeof said, "%s", hga_error_detail());
        assert_int_not_equal(st, HGA_OK);
        assert_status(st, hga_decoder_check_tables(s.decoder, &f.append.io));
        assert_string_equal(said, hga_error_detail());
        starve(&f);
        hga_cache_destroy(c);
        session_close(&s), problem_clear(&p);
    }
}

static void cuts_beyond_the_rollback_are_refused(void **state)
{
    (void)state;
    problem p;
    session s;
    hga_cache *c;
    variant_build(variant_named("neighbours_causal"), 100, 5, &narrow, &p);
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1, .rollback = 6}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    append_tokens(&s, "before", c, 50, 0);
    uint64_t held = stamp_of(c);
    assert_status(HGA_EINVAL, hga_cache_cut(c, 43));
    assert_status(HGA_EINVAL, hga_cache_cut(c, 51));
    assert_true(stamp_of(c) == held);
    assert_ok(hga_cache_cut(c, 46));
    assert_status(HGA_EINVAL, hga_cache_cut(c, 43));
    assert_ok(hga_cache_cut(c, 44));
    append_tokens(&s, "after cuts", c, 9, 0);
    assert_ok(hga_cache_cut(c, 0));
    append_tokens(&s, "from the start", c, 60, 0);
    hga_cache_destroy(c);
    session_close(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_allocations_leave_every_cache_as_it_was),
        cmocka_unit_test(after_a_failed_allocation_the_next_append_has_its_bits),
        cmocka_unit_test(a_pool_that_is_full_refuses_and_says_so),
        cmocka_unit_test(one_bad_append_spoils_none),
        cmocka_unit_test(what_sees_a_later_token_is_refused_and_named),
        cmocka_unit_test(options_without_meaning_are_refused_by_name),
        cmocka_unit_test(tables_that_appends_may_not_bring_are_told_before_there_are_tokens),
        cmocka_unit_test(cuts_beyond_the_rollback_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
