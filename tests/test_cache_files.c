/* test_cache_files.c: caches that were written are gone on with as they were; what differs is named and refused. */
#include "cache.h"
#include "decoding.h"

static const char path[] = "test_cache_files.cache";

static void caches_go_through_files(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < 2; k++) {
            problem p;
            session s;
            hga_cache *a, *b;
            if (passed_over(i + k)) continue;
            variant_build(variant_named(causal[i]), 100, 5, &narrow, &p);
            hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1, .rollback = 9 * k};
            session_open(&s, &p, &o, 0);
            assert_ok(hga_cache_create(s.pages, &a));
            append_tokens(&s, "before", a, 53, 0);
            if (k) assert_ok(hga_cache_cut(a, 47));
            assert_ok(hga_cache_write(a, path));
            assert_ok(hga_cache_read(s.pages, path, &b));
            assert_int_equal(hga_cache_tokens(b), hga_cache_tokens(a));
            assert_true(stamp_of(a) == stamp_of(b));
            hga_cache_destroy(a);
            append_tokens(&s, "from a file", b, 20, 0);
            append_tokens(&s, "from a file", b, 10, 0);
            hga_cache_destroy(b);
            assert_int_equal(hga_pages_used(s.pages), 0);
            session_close(&s), problem_clear(&p);
        }
    remove(path);
}

static char *load(int64_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = memory(1 << 20, 1);
    *n = (int64_t)fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

static void save(const char *text, int64_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, (size_t)n, f), n);
    fclose(f);
}

static void refused(const session *s, const char *say)
{
    hga_cache *c;
    int64_t used = hga_pages_used(s->pages);
    assert_status(HGA_EFORMAT, hga_cache_read(s->pages, path, &c));
    assert_null(c);
    if (!strstr(hga_error_detail(), say)) fail_msg("'%s' does not say '%s'", hga_error_detail(), say);
    assert_int_equal(hga_pages_used(s->pages), used);
}

static void truncated_and_changed_files_are_refused(void **state)
{
    (void)state;
    problem p;
    session s;
    hga_cache *c;
    int64_t n;
    uint64_t seed = 3;
    variant_build(variant_named("neighbours_causal"), 60, 5, &(hga_shape){.n_heads = 1, .dim = 4}, &p);
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    append_tokens(&s, "before", c, 40, 0);
    assert_ok(hga_cache_write(c, path));
    char *text = load(&n);
    for (int64_t k = 0; k < n; k++) save(text, k), refused(&s, path);
    memcpy(text + n, text, 8), save(text, n + 8), refused(&s, " bytes, a cache of 40 tokens has ");
    for (int64_t k = 0; k < n; k++) {
        char bit = (char)(1 << random_below(&seed, 8));
        text[k] ^= bit, save(text, n), refused(&s, path), text[k] ^= bit;
    }
    text[n - 20] ^= 1, save(text, n), refused(&s, "its checksum is wrong"), text[n - 20] ^= 1;
    text[0] = 'H', save(text, n), refused(&s, "no cache of hga"), text[0] = 'h';
    save("version https://git-lfs.github.com/spec/v1\n", 43), refused(&s, "`git lfs pull` fetches that");
    text[8]++, save(text, n), refused(&s, "version 2 of cache files"), text[8]--;
    text[12]++, save(text, n), refused(&s, "its header has 97 bytes, a cache's has 96"), text[12]--;
    text[16]++, save(text, n), refused(&s, "another version of hga"), text[16]--;
    text[32]++, save(text, n), refused(&s, "another instruction set"), text[32]--;
    text[72]++, save(text, n), refused(&s, "a cache of 41 tokens has"), text[72]--;
    text[74]++, save(text, n), refused(&s, "tokens from 40 on, of 60"), text[74]--;
    save(text, n);
    hga_cache *again;
    assert_ok(hga_cache_read(s.pages, path, &again));
    hga_cache_destroy(again), hga_cache_destroy(c), free(text), remove(path);
    assert_status(HGA_EIO, hga_cache_read(s.pages, path, &again));
    session_close(&s), problem_clear(&p);
}

static void files_of_another_kind_are_refused_by_what_differs(void **state)
{
    (void)state;
    problem p, q;
    session s, t;
    hga_cache *c;
    const hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1};
    variant_build(variant_named("window_causal"), 60, 5, &narrow, &p);
    session_open(&s, &p, &o, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    append_tokens(&s, "before", c, 40, 0);
    assert_ok(hga_cache_write(c, path));
    variant_build(variant_named("window_causal"), 61, 5, &narrow, &q);
    session_open(&t, &q, &o, 0), refused(&t, "another graph"), session_close(&t), problem_clear(&q);
    variant_build(variant_named("window_causal"), 60, 5, &narrow, &q);
    q.program.softcap = 3;
    hga_decode_options capped = o;
    session_open(&t, &q, &capped, 0), refused(&t, "another program"), session_close(&t), problem_clear(&q);
    variant_build(variant_named("window_causal"), 60, 5, &(hga_shape){.n_heads = 4, .dim = 12}, &q);
    session_open(&t, &q, &o, 0), refused(&t, "another shape"), session_close(&t), problem_clear(&q);
    hga_decode_options sixteen = o;
    sixteen.page_type = HGA_BF16;
    session_open(&t, &p, &sixteen, 0), refused(&t, "type of pages"), session_close(&t);
    hga_cache_destroy(c), session_close(&s), problem_clear(&p);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_go_through_files),
        cmocka_unit_test(truncated_and_changed_files_are_refused),
        cmocka_unit_test(files_of_another_kind_are_refused_by_what_differs),
    };
    return cmocka_run_group_tests_name("cache_files", tests, NULL, NULL);
}
