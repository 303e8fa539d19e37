/* Decoding: tokens appended one by one, or a few at a time, give the rows of the full pass; caches hold what later
   tokens read, and no more. */
#include "by_hand.h"
#include "cache.h"
#include "decoding.h"
#include "scorings.h"

static hga_id chunk(const session *s, const hga_cache *c, uint64_t *seed, hga_id most)
{
    hga_id left = hga_decoder_tokens(s->decoder) - hga_cache_tokens(c);
    return 1 + random_below(seed, most < left ? most : left);
}

static void check_bytes(const session *s, const hga_cache *c)
{
    assert_int_equal(hga_pages_used(s->pages), hga_decoder_cache_bytes(s->decoder, hga_cache_tokens(c)));
}

static void check_chunks(problem *p, const hga_decode_options *o, uint64_t seed, hga_id most)
{
    session s;
    hga_cache *c;
    session_open(&s, p, o, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    while (hga_cache_tokens(c) < hga_decoder_tokens(s.decoder)) {
        append_tokens(&s, "in chunks", c, chunk(&s, c, &seed, most), 0);
        check_bytes(&s, c);
    }
    hga_cache_destroy(c);
    assert_int_equal(hga_pages_used(s.pages), 0);
    session_close(&s);
}

static void causal_programs_in_chunks_have_the_bits_of_the_full_pass(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < N_SETTINGS; k++) {
            problem p;
            if (passed_over(i + k)) continue;
            variant_build(variant_named(causal[i]), 130 + 37 * k, 3 + (uint64_t)i, &narrow, &p);
            hga_decode_options o = {.plan = settings[k], .same_bits = 1, .rollback = k, .page_rows = k % 2 ? 4 : 0};
            check_chunks(&p, &o, (uint64_t)(i + k), k % 2 ? 40 : 3);
            problem_clear(&p);
        }
}

/* Each token sees its own block, the first, the one before, and two of chance. */
static hga_graph *tokens_that_choose(uint64_t seed, hga_id n, hga_id block, hga_program *program)
{
    enum { SLOTS = 5 };
    int32_t *choice = memory((int64_t)n * SLOTS, sizeof *choice);
    hga_graph *g;
    for (hga_id t = 0; t < n; t++) {
        const hga_id own = t / block,
                     at[] = {0, own ? own - 1 : 0, random_below(&seed, own + 1), random_below(&seed, own + 1), own};
        hga_id k = 0;
        for (hga_id j = 0; j <= own; j++) {
            int has = 0;
            for (int i = 0; i < SLOTS; i++) has |= at[i] == j;
            if (has) choice[t * SLOTS + k++] = j;
        }
        while (k < SLOTS) choice[t * SLOTS + k++] = -1;
    }
    hga_routed p = {.n_tokens = n, .block = block, .query_block = 1, .causal = 1, .n_choosers = 1};
    p.slots = SLOTS, p.choice = choice;
    assert_ok(hga_build_routed(&p, &g, program));
    free(choice);
    return g;
}

static void tokens_that_choose_have_the_bits_of_the_full_pass(void **state)
{
    (void)state;
    for (int k = 0; k < N_SETTINGS; k++) {
        if (passed_over(k)) continue;
        problem p = {.name = "tokens that choose", .shape = narrow};
        p.graph = tokens_that_choose((uint64_t)k + 1, 600, 32, &p.program);
        problem_fill(&p, 3);
        hga_decode_options o = {.plan = settings[k], .same_bits = 1};
        check_chunks(&p, &o, (uint64_t)k, k % 2 ? 40 : 7);
        problem_clear(&p);
    }
}

/* At 1200a31 there was no decoder of them over coarse keys. */
static void every_scoring_in_bfloat16_has_the_bits_of_the_full_pass(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < N_SCORINGS; k++) {
            problem p;
            if (passed_over(i + k) || !scored_build(variant_named(causal[i]), &scorings[k], 90, &narrow, &p)) continue;
            check_chunks(&p, &(hga_decode_options){.plan = p.options, .same_bits = 1}, (uint64_t)(i + k), 4 + 5 * k);
            problem_clear(&p), n++;
        }
    assert_true(n > 0);
}

/* Without the promise of bits rows may be scored one by one: every hierarchy, instruction set and kind of numbers, keys
   that are no multiple of a vector long, one token at a time and more. */
static void fast_rows_are_within_two_millionths_of_the_full_pass(void **state)
{
    static const char *const isa[] = {FLOAT_ISAS};
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < N_SETTINGS; k++) {
            problem p;
            session s;
            hga_cache *c;
            hga_options plan = settings[k];
            uint64_t seed = (uint64_t)(i + k);
            if (passed_over(i + k)) continue;
            if (strstr(hga_isa_list(), isa[(i + k) % 3])) plan.isa = isa[(i + k) % 3];
            hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = k % 2 ? 12 : 37, .dim_v = 9};
            variant_build(variant_named(causal[i]), 100 + 7 * k, 3 + (uint64_t)i, &shape, &p);
            double tolerance = settings[k].precision == HGA_PRECISION_BF16 ? 2e-2 : 2e-6;
            session_open(&s, &p, &(hga_decode_options){.plan = plan}, 0);
            assert_ok(hga_cache_create(s.pages, &c));
            while (hga_cache_tokens(c) < hga_decoder_tokens(s.decoder))
                append_tokens(&s, "fast", c, k % 2 ? 1 : chunk(&s, c, &seed, 4), tolerance);
            hga_cache_destroy(c);
            session_close(&s), problem_clear(&p);
        }
}

/* Tables and modifiers are those of the full pass: relative keys and biases, softcaps, sinks, slopes. */
static void tables_and_modifiers_are_those_of_the_full_pass(void **state)
{
    static const float sink[] = {0.5f, -INFINITY, 2, -1}, slopes[] = {0.5f, 0.25f, 0, 0.125f};
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        variant_build(variant_named(causal[i]), 140, 5 + (uint64_t)i, &narrow, &p);
        problem_fill_tables(&p, (uint64_t)i, i % 2, i % 3 == 0, 0);
        operands m = {.slopes = slopes};
        hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1};
        if (p.program.has_lse) m.sink = sink;
        if (!find_stage(&p.program, HGA_ENERGY)) m.softcap = 0.75f;
        bring_to(&p.io, &m);
        check_chunks(&p, &o, (uint64_t)i, 9);
        problem_clear(&p);
    }
}

/* ---- what a cache will hold ---- */

static void rows_of_levels_are_all_rows(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        session s;
        variant_build(variant_named(causal[i]), 120, 9 + (uint64_t)i, &narrow, &p);
        session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .rollback = i}, 0);
        hga_id n_levels = hga_graph_nodes(p.graph).n_levels, end = hga_decoder_tokens(s.decoder);
        for (hga_id tokens = 0; tokens <= end; tokens += 30) {
            int64_t all = 0;
            for (hga_id l = 0; l < n_levels; l++) all += hga_decoder_cache_level_rows(s.decoder, tokens, l);
            assert_int_equal(all, hga_decoder_cache_rows(s.decoder, tokens));
        }
        assert_true(hga_decoder_cache_level_rows(s.decoder, 30, 0) > 0);
        assert_int_equal(hga_decoder_cache_level_rows(s.decoder, 30, n_levels), -1);
        assert_int_equal(hga_decoder_cache_level_rows(s.decoder, 30, -1), -1);
        assert_int_equal(hga_decoder_cache_level_rows(s.decoder, end + 1, 0), -1);
        assert_int_equal(hga_decoder_cache_level_rows(NULL, 0, 0), -1);
        session_close(&s), problem_clear(&p);
    }
}

/* ---- many caches ---- */

enum { N_CACHES = 7 };

static void ragged_appends_have_the_bits_of_single_ones(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        session s;
        hga_cache *c[N_CACHES];
        uint64_t seed = (uint64_t)i + 1;
        if (passed_over(i)) continue;
        variant_build(variant_named(causal[i]), 150, 7 + (uint64_t)i, &narrow, &p);
        session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 2}, .same_bits = 1}, 0);
        for (int k = 0; k < N_CACHES; k++) {
            assert_ok(hga_cache_create(s.pages, &c[k]));
            append_tokens(&s, "a prompt", c[k], chunk(&s, c[k], &seed, 60), 0);
        }
        for (int round = 0; round < 12; round++) {
            hga_append list[N_CACHES];
            fed f[N_CACHES];
            int n = 0;
            for (int k = 0; k < N_CACHES; k++) {
                if (hga_cache_tokens(c[k]) == hga_decoder_tokens(s.decoder) || random_below(&seed, 4) == 0) continue;
                feed(&s, c[k], chunk(&s, c[k], &seed, 5), &f[n]);
                list[n] = f[n].append, n++;
            }
            spoil(&s);
            assert_ok(hga_decoder_append(s.decoder, s.workspace, list, n));
            for (int k = 0; k < n; k++) check_fed(&s, "in a batch", &f[k], 0), starve(&f[k]);
        }
        for (int k = 0; k < N_CACHES; k++) hga_cache_destroy(c[k]);
        assert_int_equal(hga_pages_used(s.pages), 0);
        session_close(&s), problem_clear(&p);
    }
}

/* ---- forks and cuts ---- */

/* A few caches, any of which are appended to, forked, cut and given up, at random. */
static void check_life(problem *p, const hga_decode_options *o, uint64_t seed, int steps)
{
    session s;
    hga_cache *c[5] = {0};
    session_open(&s, p, o, 0);
    for (int step = 0; step < steps; step++) {
        hga_cache **at = &c[random_below(&seed, 5)], **other = &c[random_below(&seed, 5)];
        hga_id what = random_below(&seed, 8);
        if (!*at) {
            assert_ok(hga_cache_create(s.pages, at));
        } else if (what == 0 && at != other) {
            hga_cache_destroy(*other);
            assert_ok(hga_cache_fork(*at, other));
        } else if (what == 1) {
            hga_id back = random_below(&seed, o->rollback + 1);
            if (back > hga_cache_tokens(*at)) back = hga_cache_tokens(*at);
            hga_status st = hga_cache_cut(*at, hga_cache_tokens(*at) - back);
            assert_true(st == HGA_OK || st == HGA_EINVAL); /* a second cut may be too far back */
        } else if (what == 2 && step % 5 == 0) {
            hga_cache_destroy(*at), *at = NULL;
        } else if (hga_cache_tokens(*at) < hga_decoder_tokens(s.decoder)) {
            append_tokens(&s, "in a life", *at, chunk(&s, *at, &seed, step % 3 ? 4 : 30), 0);
        } else {
            assert_ok(hga_cache_cut(*at, 0));
        }
    }
    for (int k = 0; k < 5; k++) hga_cache_destroy(c[k]);
    assert_int_equal(hga_pages_used(s.pages), 0);
    session_close(&s);
}

static void forks_and_cuts_have_the_bits_of_the_full_pass(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < 3; k++) {
            problem p;
            if (passed_over(i + k)) continue;
            variant_build(variant_named(causal[i]), 90 + 31 * k, 17 + (uint64_t)i, &narrow, &p);
            hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1, .rollback = 1 + 6 * k, .page_rows = k == 1};
            check_life(&p, &o, (uint64_t)(3 * i + k), thinned(200));
            problem_clear(&p);
        }
}

static void a_fork_and_its_origin_share_until_one_writes(void **state)
{
    (void)state;
    problem p;
    session s;
    hga_cache *a, *b;
    variant_build(variant_named("dense_causal"), 64, 5, &narrow, &p);
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1, .rollback = 8}, 0);
    assert_ok(hga_cache_create(s.pages, &a));
    append_tokens(&s, "before", a, 37, 0);
    int64_t bytes = hga_pages_used(s.pages);
    uint64_t held = stamp_of(a);
    assert_ok(hga_cache_fork(a, &b));
    assert_int_equal(hga_pages_used(s.pages), bytes);
    assert_ok(hga_cache_cut(b, 33));
    append_tokens(&s, "in the fork", b, 3, 0);
    assert_true(hga_pages_used(s.pages) > bytes && hga_pages_used(s.pages) < 2 * bytes);
    assert_true(stamp_of(a) == held);
    hga_cache_destroy(a);
    append_tokens(&s, "alone", b, 9, 0);
    hga_cache_destroy(b);
    session_close(&s), problem_clear(&p);
}

/* ---- pages of 16 bits ---- */

static void pages_of_16_bits_are_a_full_pass_of_rounded_tensors(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(variant_named(causal[i]), 140, 5, &narrow, &p);
        round_to_bf16(&p);
        hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1, .rollback = 3, .page_type = HGA_BF16};
        check_chunks(&p, &o, (uint64_t)i, 9);
        check_life(&p, &o, (uint64_t)i, 60);
        problem_clear(&p);
    }
    /* .. and unrounded ones are rounded */
    problem p;
    session s;
    hga_cache *c;
    fed f;
    variant_build(variant_named("window_causal"), 40, 5, &narrow, &p);
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .page_type = HGA_BF16}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    feed(&s, c, 40, &f);
    assert_ok(hga_decoder_append(s.decoder, s.workspace, &f.append, 1));
    check_fed(&s, "rounded", &f, 0.05);
    double difference = 0;
    for (int64_t j = 0; j < 40 * 4 * 9; j++) difference = fmax(difference, fabs((double)f.out[j] - (double)s.want[j]));
    assert_true(difference > 1e-4);
    starve(&f), hga_cache_destroy(c), session_close(&s), problem_clear(&p);
}

/* ---- what waits, and what is not read ---- */

/* A token whose sum is of earlier tokens alone: what it sums is kept until the token itself comes. */
static void what_depends_on_earlier_tokens_alone_waits_for_its_own(void **state)
{
    (void)state;
    problem p = {.name = "sums of the past", .shape = narrow};
    session s;
    hga_cache *c;
    hga_block past = {.dst = 20, .n_dst = 10, .src = 3, .n_src = 5}; /* tokens 20 .. 29 see 3 .. 7 */
    p.graph = blocks_over(40, &past, 1);
    hga_program_init(&p.program);
    hga_id v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS);
    hga_id out = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_weighted_sum(&p.program, 0, v, out));
    problem_fill(&p, 3);
    p.io.type_scale.data = (const float[]){0.5f}, p.io.type_scale.rows = 1;
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    for (hga_id i = 0; i < 40; i++) {
        spoil(&s);
        append_tokens(&s, "one by one", c, 1, 0);
        check_bytes(&s, c);
    }
    assert_int_equal(hga_decoder_cache_rows(s.decoder, 29), 5);
    assert_int_equal(hga_decoder_cache_rows(s.decoder, 30), 0);
    hga_cache_destroy(c);
    session_close(&s), problem_clear(&p);
}

/* Sums without edges, which a later sum reads with the first token, and nobody after it. */
static void what_depends_on_no_token_is_computed_for_the_first(void **state)
{
    (void)state;
    problem p = {.name = "sums of nothing", .shape = narrow};
    session s;
    hga_cache *c;
    hga_id empty, reads;
    hga_builder *b = tokens_alone(20);
    assert_ok(hga_builder_add_relation(b, "empty", &empty));
    assert_ok(hga_builder_add_relation(b, "reads", &reads));
    assert_ok(hga_builder_add_blocks(b, empty, &(hga_block){.dst = 18, .n_dst = 1, .src = 3, .n_src = 5}));
    assert_ok(hga_builder_add_blocks(b, reads, &(hga_block){.n_dst = 1, .src = 5, .n_src = 3}));
    assert_ok(hga_builder_add_blocks(b, reads, &(hga_block){.dst = 19, .n_dst = 1, .src = 18, .n_src = 1}));
    p.graph = finished(b);
    hga_program_init(&p.program);
    hga_id v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS);
    hga_id sum = field(&p.program, "sum", HGA_WIDTH_VALUE, 0, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_id out = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_sum(&p.program, empty, v, sum));
    assert_ok(hga_program_weighted_sum(&p.program, reads, sum, out));
    problem_fill(&p, 3);
    p.io.type_scale.data = (const float[]){0.5f}, p.io.type_scale.rows = 1;
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    for (hga_id i = 0; i < 20; i++) {
        spoil(&s);
        append_tokens(&s, "one by one", c, 1, 0);
        check_bytes(&s, c);
    }
    hga_cache_destroy(c);
    session_close(&s), problem_clear(&p);
}

/* As in a call: a query that is too short, and of 16 bits, of a program without queries. */
static void a_tensor_that_nobody_reads_may_be_any(void **state)
{
    (void)state;
    problem p = {.name = "no queries", .shape = narrow};
    session s;
    hga_cache *c;
    hga_block past = {.n_dst = 3, .n_src = 3, .shape = HGA_LOWER};
    float value[3] = {1, 2, 4}, out[3] = {0}, scale = 0.5f, unread = 0;
    p.shape.n_heads = p.shape.n_kv_heads = p.shape.dim = p.shape.dim_v = 1;
    p.graph = blocks_over(3, &past, 1);
    hga_program_init(&p.program);
    hga_id v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS);
    hga_id sum = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_weighted_sum(&p.program, 0, v, sum));
    problem_fill(&p, 3);
    p.io.type_scale = (hga_table){&scale, 1, 0, 0};
    session_open(&s, &p, &(hga_decode_options){.plan = {.threads = 1}}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    hga_append three = {.cache = c,
                        .n_tokens = 3,
                        .io = {.type_scale = {&scale, 1, 0, 0},
                               .query = {.data = &unread, .rows = 1, .dtype = HGA_BF16},
                               .value = {.data = value, .rows = 3},
                               .out = {.data = out, .rows = 3}}};
    assert_ok(hga_decoder_append(s.decoder, s.workspace, &three, 1));
    assert_true(out[0] == 0.5f && out[1] == 1.5f && out[2] == 3.5f);
    hga_cache_destroy(c);
    session_close(&s), problem_clear(&p);
}

/* ---- functions of the user's ---- */

static void count_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head, (void)ctx;
    *(float *)state = 0;
}

/* Of nodes that have keys and of those that have none. */
static void count_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    const float *key = e->source.field[*(const hga_id *)ctx];
    (void)head;
    *(float *)state += key ? key[0] : 1;
}

static void count_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)head;
    hga_id out = ((const hga_id *)ctx)[1];
    for (hga_id c = 0; c < v->columns[out]; c++) v->field[out][c] = *(const float *)state;
}

/* A cache kept rows of keys above the tokens, which nobody fills, for the function that looks there, and the append
   that brought them failed. */
static void rows_that_nobody_fills_are_not_kept(void **state)
{
    (void)state;
    enum { N = 12, SPAN = 3 };
    hga_id spans, near, at[2];
    hga_builder *b = tokens_alone(N);
    problem p = {.name = "rows that nobody fills", .shape = narrow};
    assert_ok(hga_builder_add_level(b, N / SPAN, &spans));
    assert_ok(hga_builder_set_families(b, spans, 0, N, SPAN));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < N; v++) {
        assert_ok(hga_builder_add_edge(b, near, v, v, 0, 1));
        for (hga_id s = 0; s < v / SPAN; s++) assert_ok(hga_builder_add_edge(b, near, spans + s, v, 0, 1));
    }
    p.graph = finished(b);
    hga_program_init(&p.program);
    at[0] = field(&p.program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES);
    at[1] = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_stage s = {.name = "count", .relation = near, .message = HGA_MESSAGE_USER, .out = at[1]};
    s.reduce = HGA_REDUCE_USER, s.update = HGA_UPDATE_USER, s.reads = 1u << at[0], s.writes = 1u << at[1];
    s.udf = (hga_udf){.state_bytes = sizeof(float), .begin = count_begin, .edge = count_edge, .ctx = at};
    s.udf.finish = count_finish;
    assert_ok(hga_program_add_stage(&p.program, &s));
    problem_fill(&p, 3);
    check_chunks(&p, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 5, 2);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_programs_in_chunks_have_the_bits_of_the_full_pass),
        cmocka_unit_test(tokens_that_choose_have_the_bits_of_the_full_pass),
        cmocka_unit_test(every_scoring_in_bfloat16_has_the_bits_of_the_full_pass),
        cmocka_unit_test(fast_rows_are_within_two_millionths_of_the_full_pass),
        cmocka_unit_test(tables_and_modifiers_are_those_of_the_full_pass),
        cmocka_unit_test(rows_of_levels_are_all_rows),
        cmocka_unit_test(ragged_appends_have_the_bits_of_single_ones),
        cmocka_unit_test(forks_and_cuts_have_the_bits_of_the_full_pass),
        cmocka_unit_test(a_fork_and_its_origin_share_until_one_writes),
        cmocka_unit_test(pages_of_16_bits_are_a_full_pass_of_rounded_tensors),
        cmocka_unit_test(what_depends_on_earlier_tokens_alone_waits_for_its_own),
        cmocka_unit_test(what_depends_on_no_token_is_computed_for_the_first),
        cmocka_unit_test(a_tensor_that_nobody_reads_may_be_any),
        cmocka_unit_test(rows_that_nobody_fills_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
