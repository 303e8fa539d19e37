/* test_decode_chosen.c: tokens that choose blocks, appended in any chunks, to forks, cuts and read files: rows have the
   bits of hga_select_blocks, hga_build_routed and hga_plan_execute of all tokens at once. */
#include "brought.h"
#include "decoding.h"
#include "stage_rows.h"

#include <unistd.h>

/* Who chooses how, in which shape. */
typedef struct chosen_case {
    hga_shape shape;
    hga_selection how;
    hga_id k_each[4]; /* of each chooser, where how.n_k_each says so */
    hga_options plan;
    hga_dtype page_type;
    hga_id n;
} chosen_case;

static chosen_case draw_case(uint64_t seed)
{
    static const hga_id blocks[] = {1, 3, 16, 24, 64, 100}, kv[] = {1, 2, 4};
    static const char *const isa[] = {NULL, FLOAT_ISAS};
    chosen_case c = {.shape = {.n_heads = 4, .dim = 12, .dim_v = 9}, .how = hga_selection_defaults()};
    c.shape.n_kv_heads = kv[random_below(&seed, 3)];
    c.how.causal = 1, c.how.block = blocks[random_below(&seed, 6)];
    c.how.sinks = random_below(&seed, 3), c.how.local = random_below(&seed, 3);
    c.how.k = random_below(&seed, 3) ? 1 + random_below(&seed, 9) : 0;
    c.how.threshold = c.how.k ? 0 : random_below(&seed, 4) ? 0.3 + 0.1 * random_below(&seed, 7) : 1;
    c.how.share = (hga_select_share)random_below(&seed, 3);
    c.how.score = random_below(&seed, 2) ? HGA_SELECT_MEAN : HGA_SELECT_MINMAX;
    if (random_below(&seed, 3) == 0)
        c.how.coarse = c.how.block * (1 + random_below(&seed, 4)), c.how.coarse_k = 1 + random_below(&seed, 3);
    c.plan.threads = 1 + random_below(&seed, 3);
    c.plan.isa = isa[random_below(&seed, 4)];
    if (c.plan.isa && !strstr(hga_isa_list(), c.plan.isa)) c.plan.isa = NULL;
    if (random_below(&seed, 3) == 0) c.plan.precision = HGA_PRECISION_BF16;
    if (random_below(&seed, 3) == 0) c.page_type = HGA_BF16;
    c.n = 1 + random_below(&seed, 420);
    if (c.how.k && random_below(&seed, 2)) c.how.n_k_each = hga_select_choosers(&c.how, &c.shape);
    for (hga_id i = 0; i < 4; i++) c.k_each[i] = random_below(&seed, 4) ? 1 + random_below(&seed, 9) : 1000;
    return c;
}

/* ---- the full pass ---- */

/* Of a tensor of all heads, [tokens][heads][columns], the rows of a graph that has `parts` of its heads in a row. */
static hga_tensor folded(const hga_tensor *t, hga_id n, hga_id heads, hga_id columns, hga_id parts)
{
    return (hga_tensor){.data = t->data,
                        .rows = (int64_t)n * parts,
                        .row_stride = (ptrdiff_t)heads * columns,
                        .head_stride = columns,
                        .fold = n,
                        .fold_stride = (ptrdiff_t)heads / parts * columns};
}

/* How a case chooses: by its own array, where it has one. */
static hga_selection how_of(const chosen_case *c)
{
    hga_selection how = c->how;
    how.k_each = how.n_k_each ? c->k_each : NULL;
    return how;
}

static void choose_all(const problem *p, const chosen_case *c, hga_chosen *out)
{
    hga_select_input in = {.n_tokens = c->n, .shape = c->shape, .precision = c->plan.precision, .isa = c->plan.isa};
    in.query = p->io.query, in.key = p->io.key, in.scale = p->io.scale.data;
    const hga_selection how = how_of(c);
    assert_ok(hga_select_blocks(&how, &in, out));
}

/* What every token chose, as hga_attention of the chosen graph has it. */
static void attend_all(const problem *p, const chosen_case *c, float *out, float *lse)
{
    const hga_shape *s = &c->shape;
    hga_chosen chosen;
    hga_graph *g;
    hga_program program;
    choose_all(p, c, &chosen);
    hga_routed r;
    hga_defaults(&r);
    r.n_tokens = c->n, r.block = c->how.block, r.query_block = c->how.query_block, r.causal = 1;
    r.choice = chosen.block, r.choice_first = chosen.first, r.n_choosers = chosen.n_choosers;
    const hga_id parts = r.n_choosers, keys = parts > s->n_kv_heads ? s->n_kv_heads : parts;
    r.n_key_heads = keys;
    assert_ok(hga_build_routed(&r, &g, &program));
    hga_shape shape = {s->n_heads / parts, s->n_kv_heads / keys, s->dim, s->dim_v, 0, {0}};
    hga_io io = p->io;
    float *rows = memory((int64_t)c->n * s->n_heads, sizeof *rows);
    io.query = folded(&p->io.query, c->n, s->n_heads, s->dim, parts);
    io.key = folded(&p->io.key, c->n, s->n_kv_heads, s->dim, keys);
    io.value = folded(&p->io.value, c->n, s->n_kv_heads, s->dim_v, keys);
    io.out = folded(&(hga_tensor){.data = out}, c->n, s->n_heads, s->dim_v, parts);
    io.lse = (hga_tensor){.data = rows, .rows = (int64_t)c->n * parts};
    assert_ok(hga_attention(g, &program, &shape, &c->plan, &io));
    const hga_id each = shape.n_heads;
    for (hga_id h = 0; h < s->n_heads; h++)
        for (hga_id t = 0; t < c->n; t++)
            lse[t * s->n_heads + h] = rows[((int64_t)(h / each) * c->n + t) * each + h % each];
    free(rows);
    hga_chosen_clear(&chosen);
    hga_graph_destroy(g);
}

/* ---- sessions ---- */

static void round_tensor(hga_tensor *t, int64_t n)
{
    float *x = t->data;
    for (int64_t j = 0; j < n; j++) {
        uint32_t u;
        memcpy(&u, &x[j], sizeof u);
        u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
        memcpy(&x[j], &u, sizeof u);
    }
}

static void open_case(const chosen_case *c, uint64_t seed, problem *p)
{
    *p = (problem){.name = "chosen", .shape = c->shape};
    assert_ok(hga_build_routed_decoder(c->n, NULL, &p->graph, &p->program));
    problem_fill(p, seed);
    if (c->page_type != HGA_BF16) return;
    round_tensor(&p->io.query, (int64_t)c->n * c->shape.n_heads * c->shape.dim);
    round_tensor(&p->io.key, (int64_t)c->n * c->shape.n_kv_heads * c->shape.dim);
    round_tensor(&p->io.value, (int64_t)c->n * c->shape.n_kv_heads * c->shape.dim_v);
}

/* The decoder keeps nothing of the caller's selection. */
static void open_session(session *s, problem *p, const chosen_case *c, hga_decode_options *o)
{
    hga_selection how = how_of(c);
    hga_id lent[4];
    memcpy(lent, c->k_each, sizeof lent);
    if (how.k_each) how.k_each = lent;
    o->plan = c->plan, o->page_type = c->page_type, o->selection = &how, o->same_bits = 1;
    session_open(s, p, o, 0);
    o->selection = NULL;
    memset(lent, 0, sizeof lent), memset(&how, 0, sizeof how);
    attend_all(p, c, s->want, s->want_lse);
}

static hga_id some_tokens(const session *s, const hga_cache *c, uint64_t *seed, hga_id most)
{
    hga_id left = hga_decoder_tokens(s->decoder) - hga_cache_tokens(c);
    return 1 + random_below(seed, most < left ? most : left);
}

static void chunks_have_the_bits_of_the_full_pass(void **state)
{
    (void)state;
    for (int i = 0; i < 120; i++) {
        uint64_t seed = (uint64_t)i + 1;
        chosen_case c = draw_case(seed);
        problem p;
        session s;
        hga_cache *cache;
        hga_decode_options o = {.page_rows = i % 3 ? 0 : 4};
        if (passed_over(i)) continue;
        open_case(&c, seed, &p);
        open_session(&s, &p, &c, &o);
        assert_ok(hga_cache_create(s.pages, &cache));
        while (hga_cache_tokens(cache) < c.n) {
            append_tokens(&s, "in chunks", cache, some_tokens(&s, cache, &seed, i % 2 ? 40 : 3), 0);
            assert_int_equal(hga_pages_used(s.pages), hga_decoder_cache_bytes(s.decoder, hga_cache_tokens(cache)));
        }
        hga_cache_destroy(cache);
        session_close(&s), problem_clear(&p);
    }
}

/* Without the promise of bits a single row is scored faster; who is chosen is the same. */
static void fast_rows_are_within_two_millionths(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        uint64_t seed = (uint64_t)i + 200;
        chosen_case c = draw_case(seed);
        problem p;
        session s;
        hga_cache *cache;
        hga_decode_options o = {0};
        if (passed_over(i)) continue;
        c.plan.precision = HGA_PRECISION_F32;
        open_case(&c, seed, &p);
        const hga_selection how = how_of(&c);
        o.plan = c.plan, o.page_type = c.page_type, o.selection = &how;
        session_open(&s, &p, &o, 0);
        attend_all(&p, &c, s.want, s.want_lse);
        assert_ok(hga_cache_create(s.pages, &cache));
        while (hga_cache_tokens(cache) < c.n)
            append_tokens(&s, "fast", cache, some_tokens(&s, cache, &seed, i % 2 ? 4 : 1), 2e-6);
        hga_cache_destroy(cache);
        session_close(&s), problem_clear(&p);
    }
}

/* What a row's score has elsewhere it has here: a cap, a scale that choices have, too, and of heads that all choose
   together sinks and slopes. */
static void modifiers_are_those_of_the_full_pass(void **state)
{
    static const float sink[] = {0.5f, -INFINITY, 2, -1}, slopes[] = {0.5f, 0.25f, 0, 0.125f};
    (void)state;
    for (int i = 0; i < 20; i++) {
        uint64_t seed = (uint64_t)i + 300;
        chosen_case c = draw_case(seed);
        problem p;
        session s;
        hga_cache *cache;
        hga_decode_options o = {0};
        operands m = {.softcap = 0.75f, .scale = i % 2 ? 0.3f : 0};
        open_case(&c, seed, &p);
        if (c.how.share == HGA_SELECT_ALL) m.sink = sink, m.slopes = slopes;
        bring_to(&p.io, &m);
        open_session(&s, &p, &c, &o);
        assert_ok(hga_cache_create(s.pages, &cache));
        while (hga_cache_tokens(cache) < c.n)
            append_tokens(&s, "modified", cache, some_tokens(&s, cache, &seed, 25), 0);
        hga_cache_destroy(cache);
        session_close(&s), problem_clear(&p);
    }
}

/* ---- caches ---- */

static void read_again(const session *s, hga_cache **c)
{
    char path[] = "/tmp/hga_chosen_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(hga_cache_write(*c, path));
    hga_cache_destroy(*c);
    assert_ok(hga_cache_read(s->pages, path, c));
    remove(path);
}

/* A few caches, any of which are appended to, forked, cut, written and read, at random. */
static void check_life(const session *s, hga_id rollback, uint64_t seed, int steps)
{
    hga_cache *c[4] = {0};
    for (int step = 0; step < steps; step++) {
        hga_cache **at = &c[random_below(&seed, 4)], **other = &c[random_below(&seed, 4)];
        hga_id what = random_below(&seed, 8);
        if (!*at) {
            assert_ok(hga_cache_create(s->pages, at));
        } else if (what == 0 && at != other) {
            hga_cache_destroy(*other);
            assert_ok(hga_cache_fork(*at, other));
        } else if (what == 1) {
            hga_id back = random_below(&seed, rollback + 1), tokens = hga_cache_tokens(*at);
            hga_status st = hga_cache_cut(*at, back < tokens ? tokens - back : 0);
            assert_true(st == HGA_OK || st == HGA_EINVAL); /* a second cut may be too far back */
        } else if (what == 2 && step % 3 == 0) {
            read_again(s, at);
        } else if (hga_cache_tokens(*at) < hga_decoder_tokens(s->decoder)) {
            append_tokens(s, "in a life", *at, some_tokens(s, *at, &seed, step % 3 ? 4 : 60), 0);
        } else {
            assert_ok(hga_cache_cut(*at, 0));
        }
    }
    for (int k = 0; k < 4; k++) hga_cache_destroy(c[k]);
    assert_int_equal(hga_pages_used(s->pages), 0);
}

static void forks_cuts_and_files_have_the_bits_of_the_full_pass(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        uint64_t seed = (uint64_t)i + 400;
        chosen_case c = draw_case(seed);
        problem p;
        session s;
        hga_decode_options o = {.rollback = 1 + 9 * (i % 3), .page_rows = i % 2};
        if (passed_over(i)) continue;
        open_case(&c, seed, &p);
        open_session(&s, &p, &c, &o);
        check_life(&s, o.rollback, seed, thinned(120));
        session_close(&s), problem_clear(&p);
    }
}

enum { N_CACHES = 5 };

static void ragged_appends_have_the_bits_of_single_ones(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        uint64_t seed = (uint64_t)i + 500;
        chosen_case c = draw_case(seed);
        problem p;
        session s;
        hga_decode_options o = {0};
        hga_cache *cache[N_CACHES];
        c.n = 150;
        open_case(&c, seed, &p);
        open_session(&s, &p, &c, &o);
        for (int k = 0; k < N_CACHES; k++) assert_ok(hga_cache_create(s.pages, &cache[k]));
        for (int round = 0; round < 8; round++) {
            hga_append list[N_CACHES];
            fed f[N_CACHES];
            int n = 0;
            for (int k = 0; k < N_CACHES; k++) {
                if (hga_cache_tokens(cache[k]) == c.n || random_below(&seed, 4) == 0) continue;
                feed(&s, cache[k], some_tokens(&s, cache[k], &seed, round ? 5 : 90), &f[n]);
                list[n] = f[n].append, n++;
            }
            spoil(&s);
            assert_ok(hga_decoder_append(s.decoder, s.workspace, list, n));
            for (int k = 0; k < n; k++) check_fed(&s, "in a batch", &f[k], 0), starve(&f[k]);
        }
        for (int k = 0; k < N_CACHES; k++) hga_cache_destroy(cache[k]);
        session_close(&s), problem_clear(&p);
    }
}

/* Whatever append fails, the cache is as it was, and the next one has its bits. */
static void failing_allocations_leave_the_cache_as_it_was(void **state)
{
    (void)state;
    chosen_case c = {.shape = narrow, .how = hga_selection_defaults(), .plan = {.threads = 1}, .n = 300};
    problem p;
    session s;
    hga_cache *cache;
    fed f;
    hga_decode_options o = {0};
    int failed = 0;
    c.how.causal = 1, c.how.block = 16, c.how.k = 5;
    open_case(&c, 7, &p);
    open_session(&s, &p, &c, &o);
    assert_ok(hga_cache_create(s.pages, &cache));
    append_tokens(&s, "before", cache, 70, 0);
    feed(&s, cache, 90, &f);
    uint64_t held = stamp_of(cache);
    for (int64_t n = 1;; n++, failed++) {
        s.memory.fails_from = s.memory.asked + n;
        hga_status st = hga_decoder_append(s.decoder, s.workspace, &f.append, 1);
        s.memory.fails_from = 0;
        if (!st) break;
        assert_int_equal(st, HGA_ENOMEM);
        assert_true(stamp_of(cache) == held && hga_cache_tokens(cache) == 70);
    }
    assert_true(failed > 5);
    check_fed(&s, "at last", &f, 0), starve(&f);
    append_tokens(&s, "after", cache, 40, 0);
    hga_cache_destroy(cache);
    session_close(&s), problem_clear(&p);
}

/* A hundredth of what keys and values take, where blocks have 64 tokens. */
static void rows_of_blocks_take_a_hundredth(void **state)
{
    (void)state;
    chosen_case c = {.shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 64}, .how = hga_selection_defaults(), .n = 4000};
    problem p;
    session s;
    hga_decoder *dense;
    hga_decode_options o = {0};
    c.shape.dim_v = 64, c.how.causal = 1, c.plan.threads = 1;
    open_case(&c, 1, &p);
    assert_ok(hga_decoder_create(p.graph, &p.program, &c.shape, &(hga_decode_options){.plan = c.plan}, &dense));
    open_session(&s, &p, &c, &o);
    assert_int_equal(hga_decoder_cache_rows(s.decoder, 3000) - hga_decoder_cache_rows(dense, 3000), 3000 / 64);
    assert_true((double)hga_decoder_cache_bytes(s.decoder, 3000) < 1.01 * (double)hga_decoder_cache_bytes(dense, 3000));
    assert_true(hga_decoder_cache_bytes(s.decoder, 3000) > hga_decoder_cache_bytes(dense, 3000));
    hga_decoder_destroy(dense);
    session_close(&s), problem_clear(&p);
}

/* A large pool takes pages from the system many at a time, unless it has a limit: the same rows, and all goes back. */
static void large_pools_have_the_same_rows(void **state)
{
    enum { TOKENS = 6000, HEADS = 8, DIM = 64, LINE = HEADS * DIM };
    (void)state;
    hga_selection how = hga_selection_defaults();
    hga_graph *g;
    hga_program program;
    hga_decoder *d;
    hga_decode_workspace *w;
    float *x = memory((int64_t)TOKENS * LINE, sizeof *x), out[2][LINE];
    how.causal = 1;
    fill_random(5, 1, (int64_t)TOKENS * LINE, x);
    assert_ok(hga_build_routed_decoder(TOKENS + 9, NULL, &g, &program));
    hga_decode_options o = {.plan.threads = 1, .same_bits = 1, .selection = &how};
    assert_ok(hga_decoder_create(g, &program, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &o, &d));
    assert_ok(hga_decode_workspace_create(d, &w));
    for (int limited = 0; limited < 2; limited++) {
        hga_pages *pages;
        hga_cache *c, *fork;
        assert_ok(hga_pages_create(d, limited ? INT64_C(1) << 40 : 0, &pages));
        assert_ok(hga_cache_create(pages, &c));
        hga_append a = {.cache = c, .n_tokens = TOKENS};
        a.io.query = a.io.key = a.io.value = (hga_tensor){.data = x, .rows = TOKENS};
        assert_ok(hga_decoder_append(d, w, &a, 1));
        assert_int_equal(hga_pages_used(pages), hga_decoder_cache_bytes(d, TOKENS));
        assert_true(hga_pages_bytes(pages) >= hga_pages_used(pages) && hga_pages_used(pages) > 1 << 24);
        assert_ok(hga_cache_fork(c, &fork));
        a.cache = fork, a.n_tokens = 1, a.io.out = (hga_tensor){.data = out[limited], .rows = 1};
        assert_ok(hga_decoder_append(d, w, &a, 1));
        hga_cache_destroy(fork), hga_cache_destroy(c);
        assert_int_equal(hga_pages_used(pages), 0);
        hga_pages_destroy(pages);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    hga_decode_workspace_destroy(w);
    hga_decoder_destroy(d);
    hga_graph_destroy(g);
    free(x);
}

/* Blocks of more tokens than there are take no room: none is ever whole. */
static void blocks_longer_than_the_text_take_no_room(void **state)
{
    (void)state;
    chosen_case c = {.shape = narrow, .how = hga_selection_defaults(), .plan = {.threads = 1}, .n = 40};
    problem p;
    session s;
    hga_cache *cache;
    hga_decode_options o = {0};
    c.how.causal = 1, c.how.block = 1 << 24;
    open_case(&c, 1, &p);
    open_session(&s, &p, &c, &o);
    assert_ok(hga_cache_create(s.pages, &cache));
    append_tokens(&s, "one long block", cache, c.n, 2e-6);
    assert_true(s.memory.most < 1 << 24);
    hga_cache_destroy(cache), session_close(&s), problem_clear(&p);
}

/* ---- prompts by query blocks ---- */

/* A prompt of one append is the full pass of query blocks; tokens behind it choose for themselves. */
static void a_prompt_chooses_by_query_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        uint64_t seed = (uint64_t)i + 600;
        chosen_case c = draw_case(seed), prompt;
        problem p;
        session s;
        hga_cache *cache;
        hga_decode_options o = {.prefill = 1 + 15 * (i % 3 + 1)};
        c.n = 200, c.how.score = HGA_SELECT_MEAN, c.how.coarse = 0, c.plan.precision = HGA_PRECISION_F32;
        prompt = c, prompt.n = 150, prompt.how.query_block = o.prefill;
        open_case(&c, seed, &p);
        open_session(&s, &p, &c, &o);
        float *alone = memory((int64_t)c.n * 4 * 9, sizeof *alone);
        memcpy(alone, s.want, (size_t)c.n * 4 * 9 * sizeof *alone);
        attend_all(&p, &prompt, s.want, s.want_lse);
        assert_ok(hga_cache_create(s.pages, &cache));
        append_tokens(&s, "a prompt", cache, prompt.n, 2e-6);
        memcpy(s.want, alone, (size_t)c.n * 4 * 9 * sizeof *alone);
        attend_all(&p, &c, s.want, s.want_lse);
        for (int k = 0; k < 20; k++) append_tokens(&s, "behind it", cache, 1, 0);
        free(alone);
        hga_cache_destroy(cache);
        session_close(&s), problem_clear(&p);
    }
}

/* Appends of a prompt's parts choose by the sampled queries that each has of a query block: what the query blocks of
   the parts' own tokens choose of all keys so far. Single tokens behind it choose by means. */
static void a_prompt_chooses_by_samples(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        uint64_t seed = (uint64_t)i + 900;
        chosen_case c = draw_case(seed), prompt;
        problem p;
        session s;
        hga_cache *cache;
        hga_decode_options o = {.prefill = 4 * (i % 3 + 2)};
        c.n = 200, c.how.score = HGA_SELECT_MEAN, c.how.coarse = 0, c.plan.precision = HGA_PRECISION_F32;
        c.how.k = 4, c.how.threshold = 0;
        prompt = c, prompt.n = 150;
        prompt.how.query_block = o.prefill, prompt.how.score = HGA_SELECT_SAMPLE, prompt.how.sample = 1 + i % 4;
        open_case(&c, seed, &p);
        hga_selection asked = how_of(&prompt);
        asked.query_block = 1;
        o.plan = c.plan, o.page_type = c.page_type, o.selection = &asked, o.same_bits = 1;
        session_open(&s, &p, &o, 0);
        attend_all(&p, &prompt, s.want, s.want_lse);
        assert_ok(hga_cache_create(s.pages, &cache));
        const hga_id part = i % 2 ? 5 * o.prefill : prompt.n; /* whole query blocks, or all at once */
        append_tokens(&s, "a prompt", cache, part, 2e-6);
        if (part < prompt.n) append_tokens(&s, "its rest", cache, prompt.n - part, 2e-6);
        attend_all(&p, &c, s.want, s.want_lse);
        for (int k = 0; k < 20; k++) append_tokens(&s, "behind it", cache, 1, 0);
        hga_cache_destroy(cache);
        session_close(&s), problem_clear(&p);
    }
}

/* ---- what is refused ---- */

static void refuse(const problem *p, const hga_decode_options *o, const char *words)
{
    hga_decoder *d;
    assert_int_not_equal(hga_decoder_create(p->graph, &p->program, &p->shape, o, &d), HGA_OK);
    if (!strstr(hga_error_detail(), words)) fail_msg("'%s' does not say '%s'", hga_error_detail(), words);
}

static void what_tokens_cannot_choose_by_is_refused(void **state)
{
    (void)state;
    chosen_case c = {.shape = narrow, .how = hga_selection_defaults(), .plan = {.threads = 1}, .n = 100};
    problem p, other;
    hga_decode_options o = {.plan = c.plan, .selection = &c.how};
    open_case(&c, 1, &p);
    refuse(&p, &o, "causal is 0");
    c.how.causal = 1, c.how.query_block = 16;
    refuse(&p, &o, "query_block 16");
    c.how.query_block = 1, c.how.score = HGA_SELECT_SCORES;
    refuse(&p, &o, "not by given ones");
    c.how.score = HGA_SELECT_MINMAX, o.prefill = 8;
    refuse(&p, &o, "minmax");
    c.how.score = HGA_SELECT_SAMPLE, c.how.sample = 9;
    refuse(&p, &o, "sample is 9; it must be at most query_block or prefill, 8");
    c.how.sample = 4, c.how.coarse = 8 * c.how.block;
    refuse(&p, &o, "coarse is for causal tokens that choose for themselves");
    c.how.coarse = 0, o.prefill = 0;
    refuse(&p, &o, "query_block or prefill must be above 1");
    c.how.score = HGA_SELECT_MEAN, o.prefill = -1;
    refuse(&p, &o, "prefill is -1");
    o.prefill = 0, c.how.k = 0;
    refuse(&p, &o, "k is 0");
    c.how.k_each = c.k_each, c.how.n_k_each = 3;
    refuse(&p, &o, "k of chooser 0 is 0; it must be at least 1");
    memcpy(c.k_each, (hga_id[]){4, 2, 1, 3}, sizeof c.k_each);
    refuse(&p, &o, "k has 3 numbers, and there are");
    c.how.k_each = NULL, c.how.n_k_each = 0;
    c.how.k = 4, o.plan.generic = 1;
    refuse(&p, &o, "computed in double");
    o.plan.generic = 0, o.selection = NULL, o.prefill = 8;
    refuse(&p, &o, "no tokens choose");
    o.selection = &c.how;
    variant_build(variant_named("dense_causal"), 100, 1, &narrow, &other);
    refuse(&other, &o, "hga_build_routed_decoder");
    problem_clear(&other), problem_clear(&p);
}

/* The cache is as it was, and goes on with tokens that can be chosen by. */
static void scores_that_are_no_numbers_are_named(void **state)
{
    (void)state;
    chosen_case c = {.shape = narrow, .how = hga_selection_defaults(), .plan = {.threads = 1}, .n = 100};
    problem p;
    session s;
    hga_cache *cache;
    fed f;
    hga_decode_options o = {0};
    c.how.causal = 1, c.how.block = 8, c.how.k = 3;
    open_case(&c, 1, &p);
    open_session(&s, &p, &c, &o);
    assert_ok(hga_cache_create(s.pages, &cache));
    append_tokens(&s, "before", cache, 70, 0);
    feed(&s, cache, 1, &f);
    f.rows[0][5] = NAN;
    assert_int_equal(hga_decoder_append(s.decoder, s.workspace, &f.append, 1), HGA_EINVAL);
    assert_non_null(strstr(hga_error_detail(), "for query block 70, chooser 0, is not a number"));
    starve(&f);
    assert_int_equal(hga_cache_tokens(cache), 70);
    append_tokens(&s, "after", cache, 1, 0);
    hga_cache_destroy(cache);
    session_close(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_have_the_bits_of_the_full_pass),
        cmocka_unit_test(fast_rows_are_within_two_millionths),
        cmocka_unit_test(modifiers_are_those_of_the_full_pass),
        cmocka_unit_test(forks_cuts_and_files_have_the_bits_of_the_full_pass),
        cmocka_unit_test(ragged_appends_have_the_bits_of_single_ones),
        cmocka_unit_test(failing_allocations_leave_the_cache_as_it_was),
        cmocka_unit_test(rows_of_blocks_take_a_hundredth),
        cmocka_unit_test(blocks_longer_than_the_text_take_no_room),
        cmocka_unit_test(large_pools_have_the_same_rows),
        cmocka_unit_test(a_prompt_chooses_by_query_blocks),
        cmocka_unit_test(a_prompt_chooses_by_samples),
        cmocka_unit_test(what_tokens_cannot_choose_by_is_refused),
        cmocka_unit_test(scores_that_are_no_numbers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
