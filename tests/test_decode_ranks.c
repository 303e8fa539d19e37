/* test_decode_ranks.c: a prompt's cache without rows of the output, made by one or by ranks that share out its tokens:
   what comes after it has the bits of the full pass. */
#include "by_hand.h"
#include "cache.h"
#include "decoding.h"

#include <pthread.h>

enum { MOST_RANKS = 8 };

/* ---- ranks ---- */

/* A rank, whose tensors are a session's. */
typedef struct seat {
    session s;
    hga_prefill call;
    hga_status st;
    char said[300];
    pthread_t thread;
} seat;

static void *sit(void *context)
{
    seat *x = context;
    const hga_id *cuts = x->call.cuts + x->call.exchange->rank;
    fed f;
    feed_from(&x->s, cuts[0], cuts[1] - cuts[0], &f);
    f.append.io.out.data = f.append.io.lse.data = NULL;
    x->call.io = f.append.io;
    x->st = hga_decoder_prefill(x->s.decoder, x->s.workspace, &x->call);
    snprintf(x->said, sizeof x->said, "%s", x->st ? hga_error_detail() : "");
    starve(&f);
    return NULL;
}

static void seats_open(problem *p, const hga_decode_options *o, const hga_id *cuts, hga_id home, hga_exchange *xs,
                       hga_id n, seat *seats)
{
    assert_ok(hga_dist_in_process(n, &(hga_dist_wire){.fill = 1}, xs));
    for (hga_id r = 0; r < n; r++) {
        seats[r] = (seat){.call = {.exchange = &xs[r], .cuts = cuts, .home = home}};
        session_open(&seats[r].s, p, o, 0);
    }
    assert_ok(hga_cache_create(seats[home].s.pages, &seats[home].call.cache));
}

static void seats_run(seat *seats, hga_id n)
{
    for (hga_id r = 0; r < n; r++) assert_int_equal(pthread_create(&seats[r].thread, NULL, sit, &seats[r]), 0);
    for (hga_id r = 0; r < n; r++) pthread_join(seats[r].thread, NULL);
}

static void seats_close(seat *seats, hga_exchange *xs, hga_id n)
{
    for (hga_id r = 0; r < n; r++) {
        hga_cache_destroy(seats[r].call.cache);
        session_close(&seats[r].s);
        hga_dist_destroy(&xs[r]);
    }
}

/* What comes after the prompt, token by token and in one; and after a cut. */
static void go_on(const session *s, hga_cache *c, hga_id rollback)
{
    hga_id n = hga_cache_tokens(c), left = hga_decoder_tokens(s->decoder) - n;
    assert_int_equal(hga_pages_used(s->pages), hga_decoder_cache_bytes(s->decoder, n));
    if (rollback && n > rollback && left) {
        append_tokens(s, "after a prompt", c, 1, 0);
        assert_ok(hga_cache_cut(c, n - (rollback - 1)));
        append_tokens(s, "after a cut", c, rollback, 0);
        left--;
    }
    for (int i = 0; i < 3 && left > 0; i++, left--) append_tokens(s, "after a prompt", c, 1, 0);
    if (left > 0) append_tokens(s, "after a prompt", c, left, 0);
    assert_int_equal(hga_pages_used(s->pages), hga_decoder_cache_bytes(s->decoder, hga_decoder_tokens(s->decoder)));
}

static void check_prefill(problem *p, const hga_decode_options *o, const hga_id *cuts, hga_id home, hga_id n)
{
    hga_exchange xs[MOST_RANKS];
    seat seats[MOST_RANKS];
    seats_open(p, o, cuts, home, xs, n, seats);
    seats_run(seats, n);
    for (hga_id r = 0; r < n; r++)
        if (seats[r].st) fail_msg("%s, rank %d of %d: %s", p->name, r, n, seats[r].said);
    go_on(&seats[home].s, seats[home].call.cache, o->rollback);
    seats_close(seats, xs, n);
}

static void cut_prompt(hga_id tokens, hga_id n, uint64_t *rng, hga_id *cuts)
{
    cuts[0] = 0, cuts[n] = tokens;
    for (hga_id r = 1; r < n; r++) cuts[r] = (hga_id)((int64_t)tokens * r / n);
    for (hga_id r = 1; random_below(rng, 2) && r < n; r++)
        cuts[r] = cuts[r - 1] + random_below(rng, cuts[r] - cuts[r - 1] + 1);
}

static void prompts_of_ranks_are_gone_on_with_the_bits_of_the_full_pass(void **state)
{
    static const hga_id counts[] = {1, 2, 3, 4, 8};
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < N_SETTINGS; k++) {
            problem p;
            uint64_t rng = (uint64_t)(i * N_SETTINGS + k);
            if (passed_over(i + k)) continue;
            variant_build(variant_named(causal[i]), 130 + 37 * k, 3 + (uint64_t)i, &narrow, &p);
            hga_decode_options o = {.plan = settings[k], .same_bits = 1, .rollback = k, .page_rows = k % 2 ? 4 : 0};
            for (int c = 0; c < 5; c++) {
                hga_id cuts[MOST_RANKS + 1], tokens = hga_graph_nodes(p.graph).level_ptr[1];
                cut_prompt(c % 2 ? tokens : tokens / 2 + random_below(&rng, tokens / 2), counts[c], &rng, cuts);
                check_prefill(&p, &o, cuts, random_below(&rng, counts[c]), counts[c]);
            }
            problem_clear(&p);
        }
}

/* Tensors of numbers that bfloat16 has are what pages of 16 bits hold. */
static void pages_of_16_bits_are_sent_as_they_are(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++) {
        problem p;
        uint64_t rng = (uint64_t)i;
        hga_id cuts[MOST_RANKS + 1];
        if (passed_over(i)) continue;
        variant_build(variant_named(causal[i]), 140, 5, &narrow, &p);
        round_to_bf16(&p);
        cut_prompt(101, 3, &rng, cuts);
        hga_decode_options o = {.plan = {.threads = 1}, .same_bits = 1, .rollback = 3, .page_type = HGA_BF16};
        check_prefill(&p, &o, cuts, i % 3, 3);
        problem_clear(&p);
    }
}

/* ---- what is sent ---- */

static problem window_problem(hga_id tokens, hga_id left)
{
    problem p = {.shape = {.n_heads = 2, .dim = 4}};
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = tokens, w.left = left, w.right = 0, w.causal = 1;
    snprintf(p.name, sizeof p.name, "window");
    assert_ok(hga_build_window(&w, &p.graph, &p.program));
    problem_fill(&p, 3);
    return p;
}

/* The 20 keys and values that the next token sees, less the home's own. */
static void a_window_sends_what_the_next_token_sees(void **state)
{
    (void)state;
    problem p = window_problem(200, 20);
    hga_exchange xs[3];
    seat seats[3];
    seats_open(&p, &(hga_decode_options){.plan.threads = 1, .same_bits = 1}, (hga_id[]){0, 60, 130, 145}, 2, xs, 3,
               seats);
    seats_run(seats, 3);
    for (int r = 0; r < 3; r++) assert_int_equal(seats[r].st, HGA_OK);
    assert_int_equal(hga_dist_in_process_counts(&xs[0]).bytes_out, 0);
    assert_int_equal(hga_dist_in_process_counts(&xs[1]).bytes_out, 5 * 2 * 8 * 4);
    assert_int_equal(hga_dist_in_process_counts(&xs[2]).bytes_in, 5 * 2 * 8 * 4);
    seats_close(seats, xs, 3);
    problem_clear(&p);
}

/* A hierarchy's cache holds few rows, and so are those that come home. */
static void a_hierarchy_sends_few_rows(void **state)
{
    static const char *const names[] = {"neighbours_causal", "fenwick", "hsa_frontier"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p;
        hga_exchange xs[4];
        seat seats[4];
        hga_id cuts[] = {0, 500, 1000, 1500, 2000};
        variant_build(variant_named(names[i]), 2001, 3, &narrow, &p);
        seats_open(&p, &(hga_decode_options){.plan.threads = 1, .same_bits = 1}, cuts, 3, xs, 4, seats);
        seats_run(seats, 4);
        for (int r = 0; r < 4; r++)
            if (seats[r].st) fail_msg("%s: %s", p.name, seats[r].said);
        int64_t row = 2 * (12 + 9) * 4, came = hga_dist_in_process_counts(&xs[3]).bytes_in;
        if (came > 150 * row) fail_msg("%s: %d bytes, %d rows", p.name, (int)came, (int)(came / row));
        seats_close(seats, xs, 4);
        problem_clear(&p);
    }
}

/* What the session took beside the workspace and the plan. */
static int64_t other_bytes(const session *s)
{
    return s->memory.bytes - hga_decode_workspace_bytes(s->workspace) - hga_plan_bytes(s->decoder->plan);
}

static void who_sends_rows_home_tells_what_the_workspace_has(void **state)
{
    (void)state;
    problem p = window_problem(600, 20);
    hga_exchange xs[2];
    seat seats[2];
    seats_open(&p, &(hga_decode_options){.plan.threads = 1, .same_bits = 1}, (hga_id[]){0, 300, 600}, 1, xs, 2, seats);
    int64_t before = other_bytes(&seats[0].s), had = hga_decode_workspace_bytes(seats[0].s.workspace);
    seats_run(seats, 2);
    assert_int_equal(other_bytes(&seats[0].s), before);
    assert_true(hga_decode_workspace_bytes(seats[0].s.workspace) > had);
    seats_close(seats, xs, 2);
    problem_clear(&p);
}

/* Rows that stand for blocks are made at home, of keys that came from others: the cache is that of one who appended. */
static void tokens_that_choose_leave_the_cache_of_one(void **state)
{
    static const hga_id cuts[] = {0, 60, 130, 145};
    (void)state;
    for (int i = 0; i < 4; i++) {
        hga_exchange xs[3];
        seat seats[3];
        hga_cache *alone;
        fed f;
        problem p = {.name = "chosen", .shape = narrow};
        hga_selection how = hga_selection_defaults();
        how.causal = 1, how.block = 8, how.k = 3, how.coarse = i % 2 ? 24 : 0;
        how.score = i < 2 ? HGA_SELECT_MEAN : HGA_SELECT_MINMAX;
        hga_decode_options o = {.plan.threads = 1, .same_bits = 1, .selection = &how};
        assert_ok(hga_build_routed_decoder(i == 3 ? 145 : 200, NULL, &p.graph, &p.program));
        problem_fill(&p, (uint64_t)i);
        seats_open(&p, &o, cuts, i % 3, xs, 3, seats);
        seats_run(seats, 3);
        for (int r = 0; r < 3; r++)
            if (seats[r].st) fail_msg("rank %d: %s", r, seats[r].said);
        const seat *home = &seats[i % 3];
        assert_ok(hga_cache_create(home->s.pages, &alone));
        feed(&home->s, alone, 145, &f);
        assert_ok(hga_decoder_append(home->s.decoder, home->s.workspace, &f.append, 1));
        assert_true(stamp_of(alone) == stamp_of(home->call.cache));
        assert_int_equal(hga_pages_used(home->s.pages), 2 * hga_decoder_cache_bytes(home->s.decoder, 145));
        starve(&f);
        hga_cache_destroy(alone);
        seats_close(seats, xs, 3);
        problem_clear(&p);
    }
}

/* ---- appends without rows of the output ---- */

static void an_append_without_outputs_leaves_the_same_cache(void **state)
{
    (void)state;
    for (int i = 0; i < N_CAUSAL; i++)
        for (int k = 0; k < N_SETTINGS; k++) {
            problem p;
            session s;
            hga_cache *c;
            fed f;
            if (passed_over(i + k)) continue;
            variant_build(variant_named(causal[i]), 100 + 37 * k, 3 + (uint64_t)i, &narrow, &p);
            hga_decode_options o = {.plan = settings[k], .same_bits = 1, .rollback = k};
            session_open(&s, &p, &o, 0);
            assert_ok(hga_cache_create(s.pages, &c));
            for (int times = 0; times < 2; times++) {
                feed(&s, c, hga_decoder_tokens(s.decoder) / 3, &f);
                f.append.io.out.data = f.append.io.lse.data = NULL;
                assert_ok(hga_decoder_append(s.decoder, s.workspace, &f.append, 1));
                starve(&f);
            }
            go_on(&s, c, o.rollback);
            hga_cache_destroy(c);
            session_close(&s);
            problem_clear(&p);
        }
}

/* ---- what is wrong ---- */

static void a_failing_allocation_reaches_all(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who++)
        for (int64_t n = 1, over = 0; !over; n++) {
            problem p;
            hga_exchange xs[3];
            seat seats[3];
            hga_id cuts[] = {0, 40, 75, 110};
            variant_build(variant_named("neighbours_causal"), 130, 3, &narrow, &p);
            seats_open(&p, &(hga_decode_options){.plan.threads = 1, .same_bits = 1}, cuts, 1, xs, 3, seats);
            seats[who].s.memory.fails_from = seats[who].s.memory.asked + n;
            seats_run(seats, 3);
            seats[who].s.memory.fails_from = 0;
            over = seats[who].st == HGA_OK;
            assert_int_equal(seats[who].st, over ? HGA_OK : HGA_ENOMEM);
            assert_int_equal(seats[1].st, seats[who].st);
            assert_int_equal(hga_cache_tokens(seats[1].call.cache), over ? 110 : 0);
            if (!over) assert_int_equal(hga_pages_used(seats[1].s.pages), 0);
            seats_close(seats, xs, 3);
            problem_clear(&p);
        }
}

static void assert_refused(hga_status want, const char *say, hga_status got)
{
    assert_status(want, got);
    if (!strstr(hga_error_detail(), say)) fail_msg("%s", hga_error_detail());
}

static void ranks_that_are_called_for_different_things_are_told_so(void **state)
{
    (void)state;
    hga_id cuts[] = {0, 40, 75, 110}, others[] = {0, 41, 75, 110};
    static const char *const isas[] = {FLOAT_ISAS};
    const char *all = getenv("HGA_ISA"), *other = isas[all && strcmp(all, isas[0]) == 0];
    const hga_decode_options own[] = {
        [2] = {.rollback = 1}, [3] = {.plan = {.threads = 1, .isa = other}, .same_bits = 1}};
    const int n = strcmp(hga_isa_list(), "ref") && strstr(hga_isa_list(), other) ? 4 : 3; /* is there another? */
    for (int i = 0; i < n; i++) {
        problem p;
        hga_exchange xs[3];
        seat seats[3];
        variant_build(variant_named("neighbours_causal"), 130, 3, &narrow, &p);
        seats_open(&p, &(hga_decode_options){.plan.threads = 1, .same_bits = 1}, cuts, 1, xs, 3, seats);
        if (i == 0) seats[0].call.cuts = others;
        if (i == 1) seats[0].call.home = 2;
        if (i >= 2) session_close(&seats[0].s), session_open(&seats[0].s, &p, &own[i], 0);
        seats_run(seats, 3);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(seats[r].st, HGA_EINVAL);
            if (!strstr(seats[r].said, i >= 2 ? "different plans" : "different cuts, homes"))
                fail_msg("%s", seats[r].said);
        }
        assert_int_equal(hga_cache_tokens(seats[1].call.cache), 0);
        seats_close(seats, xs, 3);
        problem_clear(&p);
    }
}

static void refused(hga_status want, const char *say, const session *s, hga_prefill call)
{
    hga_exchange x;
    assert_ok(hga_dist_in_process(1, NULL, &x));
    call.exchange = &x;
    assert_refused(want, say, hga_decoder_prefill(s->decoder, s->workspace, &call));
    hga_dist_destroy(&x);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    problem p = window_problem(60, 9);
    session s;
    hga_cache *c;
    fed f;
    hga_id cuts[] = {0, 40}, late[] = {3, 40}, long_ones[] = {0, 61};
    session_open(&s, &p, &(hga_decode_options){.plan.threads = 1}, 0);
    assert_ok(hga_cache_create(s.pages, &c));
    feed_from(&s, 0, 40, &f);
    hga_io io = f.append.io;
    refused(HGA_EUNSUPPORTED, "makes no rows of the output", &s, (hga_prefill){.cuts = cuts, .cache = c, .io = io});
    io.out.data = io.lse.data = NULL;
    refused(HGA_EINVAL, "no cuts", &s, (hga_prefill){.cache = c, .io = io});
    refused(HGA_EINVAL, "the first cut is 3", &s, (hga_prefill){.cuts = late, .cache = c, .io = io});
    refused(HGA_EINVAL, "61 tokens, the decoder has 1 to 60", &s,
            (hga_prefill){.cuts = long_ones, .cache = c, .io = io});
    refused(HGA_EINVAL, "home is rank 1 of 1", &s, (hga_prefill){.cuts = cuts, .home = 1, .cache = c, .io = io});
    refused(HGA_EINVAL, "there is no cache", &s, (hga_prefill){.cuts = cuts, .io = io});
    refused(HGA_EINVAL, "hga_prefill", &s, (hga_prefill){.cuts = cuts, .cache = c, .io = io, .reserved = {1}});
    hga_io short_one = io;
    short_one.key.rows = 39;
    refused(HGA_EINVAL, "key has 39 rows, tokens 0 + 40 have 40", &s,
            (hga_prefill){.cuts = cuts, .cache = c, .io = short_one});
    append_tokens(&s, "before", c, 5, 2e-6);
    refused(HGA_EINVAL, "the cache has 5 tokens already", &s, (hga_prefill){.cuts = cuts, .cache = c, .io = io});
    assert_refused(HGA_EINVAL, "no exchange",
                   hga_decoder_prefill(s.decoder, s.workspace, &(hga_prefill){.cuts = cuts}));
    starve(&f);
    hga_cache_destroy(c);
    session_close(&s);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_append_without_outputs_leaves_the_same_cache),
        cmocka_unit_test(prompts_of_ranks_are_gone_on_with_the_bits_of_the_full_pass),
        cmocka_unit_test(pages_of_16_bits_are_sent_as_they_are),
        cmocka_unit_test(tokens_that_choose_leave_the_cache_of_one),
        cmocka_unit_test(a_window_sends_what_the_next_token_sees),
        cmocka_unit_test(a_hierarchy_sends_few_rows),
        cmocka_unit_test(who_sends_rows_home_tells_what_the_workspace_has),
        cmocka_unit_test(a_failing_allocation_reaches_all),
        cmocka_unit_test(ranks_that_are_called_for_different_things_are_told_so),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    end_when_ranks_hang();
    return cmocka_run_group_tests_name("decode_ranks", tests, NULL, NULL);
}
