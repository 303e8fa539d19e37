/* test_cache_rows.c: a cache holds the rows that are whole and that a row to come reads, counted edge by edge: those
   and no others, as a row that is held too long would give no wrong number anywhere. What it holds never changes. */
#include "cache.h"
#include "decoding.h"
#include "latest.h"
#include "program.h"
#include "random_program.h"

/* For each field of each node the latest token whose rows read it, -1: none. */
typedef struct reads {
    const problem *p;
    hga_nodes nodes;
    latest_tokens whole;
    int32_t *last[HGA_FIELD_SLOTS];
} reads;

static void fields_are_read(reads *r, uint32_t fields, hga_id v, int32_t token)
{
    for (hga_id f = 1; f <= r->p->program.n_fields; f++)
        if (fields >> f & 1u && r->last[f][v] < token) r->last[f][v] = token;
}

/* A row is computed with the token with which it is whole, and reads itself and the sources of its edges then. */
static void stage_reads(reads *r, const hga_stage *s)
{
    int64_t n;
    edge *e = stage_edges(r->p->graph, s, &n);
    int *has_edges = memory(r->nodes.n, sizeof *has_edges), *written = memory(r->nodes.n, sizeof *written);
    const int32_t *token = r->whole.of[s->out];
    for (hga_id v = 0; v < r->nodes.n; v++) written[v] = is_written(r->p->graph, &r->p->program, s, v);
    for (int64_t i = 0; i < n; i++) {
        has_edges[e[i].dst] = 1;
        if (written[e[i].dst]) fields_are_read(r, latest_source_fields(s), e[i].src, token[e[i].dst]);
    }
    for (hga_id v = 0; v < r->nodes.n; v++)
        if (written[v]) fields_are_read(r, latest_own_fields(s, !has_edges[v]), v, token[v]);
    free(has_edges), free(written), free(e);
}

static void find_reads(const problem *p, reads *r)
{
    *r = (reads){.p = p, .nodes = hga_graph_nodes(p->graph)};
    assert_ok(latest_find(&p->program, p->graph, &r->whole));
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        r->last[f] = memory(r->nodes.n, sizeof *r->last[f]);
        for (hga_id v = 0; v < r->nodes.n; v++) r->last[f][v] = -1;
    }
    for (hga_id s = 0; s < p->program.n_stages; s++) stage_reads(r, &p->program.stage[s]);
}

/* Rows of a level that are whole after so many tokens and read later; what is the caller's output is never held. */
static int64_t count_held(const reads *r, hga_id tokens, hga_id level)
{
    int64_t n = 0;
    for (hga_id f = 1; f <= r->p->program.n_fields; f++)
        for (hga_id v = r->nodes.level_ptr[level]; v < r->nodes.level_ptr[level + 1]; v++) {
            int output = r->p->program.field[f].binding == HGA_IO_OUT && v < r->nodes.level_ptr[1];
            n += !output && program_row(&r->nodes, r->p->program.field[f].rows, v) && r->whole.of[f][v] < tokens &&
                 r->last[f][v] >= tokens;
        }
    return n;
}

static void caches_hold_what_rows_to_come_read(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        reads r;
        hga_decoder *d;
        variant_build(variant_named(causal[i]), 61, 2 + (uint64_t)i, &narrow, &p);
        assert_ok(hga_decoder_create(p.graph, &p.program, &p.shape, NULL, &d));
        find_reads(&p, &r);
        for (hga_id tokens = 1; tokens <= hga_decoder_tokens(d); tokens++)
            for (hga_id l = 0; l < r.nodes.n_levels; l++) {
                int64_t got = hga_decoder_cache_level_rows(d, tokens, l), want = count_held(&r, tokens, l);
                if (got != want)
                    fail_msg("%s: of level %d a cache of %d tokens holds %lld rows, not %lld", causal[i], l, tokens,
                             (long long)got, (long long)want);
            }
        for (hga_id f = 1; f <= p.program.n_fields; f++) free(r.last[f]);
        latest_clear(&r.whole), hga_decoder_destroy(d), problem_clear(&p);
    }
}

/* Attention into the output, and the same states passed down a tree: what comes down to a token waits for the last
   token of its family, and begins with the token's state, which nobody holds. */
static void an_output_that_a_later_token_reads_is_refused(void **state)
{
    (void)state;
    hga_id near, above;
    hga_decoder *d;
    hga_builder *b = tokens_alone(6);
    problem p = {.name = "the output passed down", .shape = narrow};
    hga_block past = {.n_dst = 6, .n_src = 6, .shape = HGA_LOWER}, roots = {.dst = 6, .n_dst = 2, .src = 6, .n_src = 2};
    assert_ok(hga_builder_add_level(b, 2, &above));
    assert_ok(hga_builder_set_families(b, above, 0, 6, 3));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_blocks(b, near, &past));
    roots.shape = HGA_LOWER;
    assert_ok(hga_builder_add_blocks(b, near, &roots));
    p.graph = finished(b);
    attention a = attention_on_nodes(&p.program);
    hga_id copy = field(&p.program, "copy", HGA_WIDTH_STATE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES),
           psi = field(&p.program, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES),
           keep = field(&p.program, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES),
           down = field(&p.program, "down", HGA_WIDTH_OUT, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
    assert_ok(hga_program_attend(&p.program, near, a.query, a.key, a.value, a.out, 1));
    assert_ok(hga_decoder_create(p.graph, &p.program, &p.shape, NULL, &d));
    hga_decoder_destroy(d);
    assert_ok(hga_program_attend(&p.program, near, a.query, a.key, a.value, copy, 1));
    assert_ok(hga_program_energy(&p.program, copy, psi));
    assert_ok(hga_program_descend(&p.program, a.out, psi, keep, down));
    assert_status(HGA_EUNSUPPORTED, hga_decoder_create(p.graph, &p.program, &p.shape, NULL, &d));
    assert_string_equal(hga_error_detail(), "decoding: token 2 reads the output of token 0, which is yours by then");
    problem_clear(&p);
}

static void what_changes_nothing_is_no_mistake(void **state)
{
    (void)state;
    problem p;
    session s;
    hga_cache *c;
    variant_build(variant_named("window_causal"), 20, 1, &narrow, &p);
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    append_tokens(&s, "some", c, 7, 0);
    assert_ok(hga_cache_cut(c, 7));
    assert_ok(hga_decoder_append(s.decoder, s.workspace, NULL, 0));
    assert_status(HGA_EINVAL, hga_decoder_append(s.decoder, s.workspace, NULL, -1));
    assert_status(HGA_EINVAL, hga_cache_cut(c, 8));
    assert_int_equal(hga_cache_tokens(c), 7);
    hga_cache_destroy(c), session_close(&s), problem_clear(&p);
}

static void tokens_beyond_the_last_have_no_rows(void **state)
{
    (void)state;
    problem p;
    hga_decoder *d;
    variant_build(variant_named("window_causal"), 20, 1, &narrow, &p);
    assert_ok(hga_decoder_create(p.graph, &p.program, &p.shape, NULL, &d));
    assert_int_equal(hga_decoder_rows(d, 18, 2, NULL, 0), 2);
    assert_int_equal(hga_decoder_rows(d, 20, 0, NULL, 0), 0);
    assert_int_equal(hga_decoder_rows(d, 19, 2, NULL, 0), -1);
    assert_int_equal(hga_decoder_rows(d, 20, 1, NULL, 0), -1);
    assert_int_equal(hga_decoder_rows(d, -1, 1, NULL, 0), -1);
    hga_decoder_destroy(d), problem_clear(&p);
}

/* Rows that are there never change: a token appended later leaves every byte of those before. */
static void later_tokens_change_no_stored_byte(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        session s;
        hga_cache *a, *b;
        fed f;
        if (passed_over(i)) continue;
        variant_build(variant_named(causal[i]), 100, 5, &narrow, &p);
        session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1, .rollback = 100}, 0);
        assert_ok(hga_cache_create(s.pages, &a));
        append_tokens(&s, "before", a, 50, 0);
        uint64_t held = stamp_of(a);
        assert_ok(hga_cache_fork(a, &b));
        feed(&s, a, 30, &f);
        for (int k = 0; k < 3; k++)
            if (f.append.io.key.data) f.rows[k][1] += 5;
        assert_ok(hga_decoder_append(s.decoder, s.workspace, &f.append, 1));
        assert_ok(hga_cache_cut(a, 50));
        assert_true(stamp_of(a) == held);
        append_tokens(&s, "after a cut", a, 20, 0), append_tokens(&s, "in the fork", b, 20, 0);
        starve(&f);
        hga_cache_destroy(a), hga_cache_destroy(b);
        session_close(&s), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(caches_hold_what_rows_to_come_read),
                                       cmocka_unit_test(an_output_that_a_later_token_reads_is_refused),
                                       cmocka_unit_test(what_changes_nothing_is_no_mistake),
                                       cmocka_unit_test(tokens_beyond_the_last_have_no_rows),
                                       cmocka_unit_test(later_tokens_change_no_stored_byte)};
    return cmocka_run_group_tests_name("cache_rows", tests, NULL, NULL);
}
