/* test_exchange_pieces.c: rows that have their columns alone and cross cuts are computed in pieces, each by one rank,
   and have the bits of one process; what goes between ranks is what the pieces come to. */
#include "by_hand.h"
#include "exchange.h"
#include "row_splits.h"

static const hga_id counts[] = {1, 2, 3, 4, 7, 8};

/* ---- graphs of spans ---- */

enum { TOKENS = 1301, SPANS = 9 };

/* Spans that begin and end anywhere, of up to all tokens; each sees its tokens, and tokens the spans. With an order
   spans have tokens here and there. */
static hga_graph *random_spans(uint64_t *rng, int in_order)
{
    hga_id order[TOKENS + SPANS], r, spans;
    hga_builder *b = tokens_alone(TOKENS);
    assert_ok(hga_builder_add_level(b, SPANS, &spans));
    assert_ok(hga_builder_add_relation(b, "near", &r));
    for (hga_id i = 0; i < TOKENS + SPANS; i++) {
        hga_id other = random_below(rng, i + 1);
        order[i] = order[other], order[other] = i;
    }
    if (in_order) assert_ok(hga_builder_set_order(b, r, NULL, 0, order, TOKENS + SPANS));
    for (hga_id s = 0; s < SPANS; s++) {
        hga_id first = random_below(rng, TOKENS), end = first + 1 + random_below(rng, TOKENS - first);
        if (s == 0) first = 0, end = TOKENS;
        if (s == 1) first = 13, end = 13 + 65;
        assert_ok(hga_builder_add_block(b, r, spans + s, 1, first, end - first, 1 + s % 2));
    }
    assert_ok(hga_builder_add_block(b, r, 0, TOKENS, spans, SPANS, 0));
    return finished(b);
}

static const struct {
    const char *name;
    void (*make)(hga_program *p);
    int in_order;
} cases[] = {{"attend", attend_program, 0},
             {"attend more", attend_more_program, 0},
             {"mean and weighted sum", mean_and_weighted_sum_program, 0},
             {"mean and weighted sum in an order", mean_and_weighted_sum_program, 1},
             {"sum", sum_program, 0}};
enum { N_CASES = sizeof cases / sizeof *cases };

static problem spans_problem(int c, uint64_t seed)
{
    static const float scales[] = {0.5f, -1, 0.25f};
    problem p = {.shape = narrow};
    snprintf(p.name, sizeof p.name, "%s of spans %d", cases[c].name, (int)seed);
    p.graph = random_spans(&seed, cases[c].in_order);
    cases[c].make(&p.program);
    problem_fill(&p, seed);
    p.io.type_scale.data = scales, p.io.type_scale.rows = 3, p.io.seed = 5;
    return p;
}

static int64_t messages_of(const problem *p, const hga_options *o, const hga_id *cuts, hga_id n_ranks)
{
    hga_halo_list halo;
    find_halo(p, o, cuts, n_ranks, &halo);
    int64_t n = halo.n_splits;
    hga_halo_clear(&halo);
    return n;
}

static const hga_options settings[] = {{.threads = 1},
                                       {.threads = 3},
                                       {.threads = 2, .precision = HGA_PRECISION_BF16},
                                       {.threads = 1, .isa = "ref"},
                                       {.threads = 2, .cut_edges = 24},
                                       {.threads = 2, .cut_edges = 100, .precision = HGA_PRECISION_BF16},
                                       {.threads = 2, .generic = 1},
                                       {.threads = 1, .strict_rows = 1},
                                       {.threads = 2, .dropout = 0.25f},
                                       {.threads = 1, .precision = HGA_PRECISION_BF16, .dropout = 0.5f}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void pieces_of_all_kinds_have_the_bits_of_one_process(void **state)
{
    int64_t found[N_CASES] = {0};
    (void)state;
    for (int c = 0; c < N_CASES; c++)
        for (int s = 0; s < N_SETTINGS; s++) {
            uint64_t rng = (uint64_t)(c * N_SETTINGS + s + 1);
            problem p = spans_problem(c, rng);
            layout l = (layout)(s % N_LAYOUTS);
            tensors want = run_whole(&p, &settings[s], l);
            for (int i = 0; i < 6; i++) {
                hga_id cuts[MOST_RANKS + 1];
                if (i % 2 != s % 2 && i != 3) continue;
                i % 3 == 1 ? cut_evenly(TOKENS, counts[i], 64, cuts) : cut_anywhere(TOKENS, counts[i], &rng, cuts);
                hold(&p, "pieces", &settings[s], l, cuts, counts[i], &strict, &want);
                found[c] += messages_of(&p, &settings[s], cuts, counts[i]);
            }
            close_tensors(&want);
            problem_clear(&p);
        }
    for (int c = 0; c < N_CASES; c++)
        if (found[c] < 100) fail_msg("%s: %d pieces", cases[c].name, (int)found[c]);
}

static void spans_of_bpt_have_the_bits_of_one_process(void **state)
{
    (void)state;
    for (int aligned = 0; aligned < 2; aligned++) {
        problem p;
        hga_options o = {.threads = 2};
        uint64_t rng = 11;
        variant_build(variant_named("bpt"), 3000, 3, &narrow, &p);
        tensors want = run_whole(&p, &o, PACKED);
        for (int i = 0; i < 6; i++) {
            hga_id cuts[MOST_RANKS + 1];
            aligned ? cut_evenly(3000, counts[i], 64, cuts) : cut_anywhere(3000, counts[i], &rng, cuts);
            hold(&p, "long rows", &o, PACKED, cuts, counts[i], &strict, &want);
            if (counts[i] > 1) assert_true(messages_of(&p, &o, cuts, counts[i]) > 0);
        }
        close_tensors(&want);
        problem_clear(&p);
    }
}

static void pieces_that_come_late_change_nothing(void **state)
{
    (void)state;
    for (int c = 0; c < N_CASES; c++) {
        problem p = spans_problem(c, 77);
        hga_options o = {.threads = 1};
        hga_id cuts[MOST_RANKS + 1];
        tensors want = run_whole(&p, &o, PACKED);
        cut_evenly(TOKENS, 5, 16, cuts);
        for (uint64_t seed = 0; seed < 3; seed++)
            hold(&p, "late", &o, PACKED, cuts, 5, &(hga_dist_wire){.most_delay = 3e-3, .seed = seed, .fill = 1}, &want);
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* ---- what is sent ---- */

static hga_graph *one_span(hga_id tokens)
{
    hga_id r, span;
    hga_builder *b = tokens_alone(tokens);
    assert_ok(hga_builder_add_level(b, 1, &span));
    assert_ok(hga_builder_add_relation(b, "near", &r));
    assert_ok(hga_builder_add_block(b, r, span, 1, 0, tokens, 0));
    return finished(b);
}

/* 1000 tokens are 15 pieces of 64 and one of 40; the first four ranks have 250 each, so that pieces 3, 7 and 11 cross a
   cut. */
static void what_a_rank_makes_of_its_pieces_goes_to_all(void **state)
{
    static const struct {
        hga_id rank;
        hga_pos edges;
    } want[] = {{0, 256}, {1, 256}, {2, 256}, {3, 232}};
    (void)state;
    problem p = {.shape = {.n_heads = 2, .dim = 4}, .graph = one_span(1000)};
    hga_id cuts[] = {0, 250, 500, 750, 1000, 1000};
    hga_halo_list halo;
    attend_program(&p.program);
    assert_ok(hga_halo(p.graph, &p.program, &p.shape, cuts, 5, &halo));
    assert_int_equal(halo.n_splits, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(halo.split[i].rank, want[i].rank);
        assert_int_equal(halo.split[i].n_edges, want[i].edges);
        assert_int_equal(halo.split[i].bytes, 2 * 5 * 4);
    }
    /* keys and values of tokens 250 to 255 go to the first rank, 500 to 511 to the second, 750 to 767 to the third */
    assert_int_equal(halo.load[0].rows_in, 3 + 2 * 6);
    assert_int_equal(halo.load[1].rows_in, 3 + 2 * 12);
    assert_int_equal(halo.load[2].rows_in, 3 + 2 * 18);
    assert_int_equal(halo.load[3].rows_in, 3);
    assert_int_equal(halo.load[4].rows_in, 4);
    assert_int_equal(halo.load[0].n_edges, 256);
    assert_int_equal(halo.load[4].n_edges, 0);
    hga_halo_clear(&halo);
    problem_clear(&p);
}

/* A second stage has every rank read all keys; a piece that crosses a cut has read its own before. */
static void what_all_are_sent_may_be_read_by_one_before(void **state)
{
    (void)state;
    problem p = {.shape = {.n_heads = 2, .dim = 4}, .graph = one_span(1000)};
    hga_halo_list halo;
    attend_more_program(&p.program);
    assert_ok(hga_halo(p.graph, &p.program, &p.shape, (hga_id[]){0, 250, 512, 1000}, 3, &halo));
    assert_int_equal(halo.n_transfers, 2 * 3); /* keys and values of each rank */
    for (int64_t i = 0; i < halo.n_transfers; i++) {
        assert_int_equal(halo.transfer[i].to, HGA_EVERY_RANK);
        assert_int_equal(halo.transfer[i].read_by, 0);
    }
    hga_halo_clear(&halo);
    problem_clear(&p);
}

/* Two ranks of 48 pieces: the first has 24 = 16 + 8, the second 8 + 16. */
static void pieces_that_are_merged_go_as_one(void **state)
{
    static const hga_pos want[] = {16 * 64, 8 * 64, 8 * 64, 16 * 64};
    (void)state;
    problem p = {.shape = {.n_heads = 1, .dim = 4}, .graph = one_span(48 * 64)};
    hga_halo_list halo;
    attend_program(&p.program);
    assert_ok(hga_halo(p.graph, &p.program, &p.shape, (hga_id[]){0, 24 * 64, 48 * 64}, 2, &halo));
    assert_int_equal(halo.n_splits, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(halo.split[i].n_edges, want[i]);
    hga_halo_clear(&halo);
    problem_clear(&p);
}

/* Halves of halves, whose first is a power of two. */
static void pieces_are_merged_in_halves(void **state)
{
    (void)state;
    assert_int_equal(splits_middle(0, 2), 1);
    assert_int_equal(splits_middle(0, 3), 2);
    assert_int_equal(splits_middle(5, 9), 7);
    assert_int_equal(splits_middle(0, 48), 32);
    assert_int_equal(splits_middle(7, 7 + 33), 7 + 32);
}

/* Rows of as many edges as a piece has are whole: every rank is sent all that they read. */
static void a_row_that_is_not_cut_is_made_of_all_its_rows(void **state)
{
    (void)state;
    problem p = {.shape = {.n_heads = 1, .dim = 4}, .graph = one_span(64)};
    hga_halo_list halo;
    attend_program(&p.program);
    assert_ok(hga_halo(p.graph, &p.program, &p.shape, (hga_id[]){0, 32, 64}, 2, &halo));
    assert_int_equal(halo.n_splits, 0);
    assert_int_equal(halo.load[0].rows_in, 2 * 32);
    assert_int_equal(halo.load[0].n_edges, 64);
    hga_halo_clear(&halo);
    problem_clear(&p);
}

/* ---- failures ---- */

static void a_failing_allocation_reaches_all(void **state)
{
    (void)state;
    for (int64_t n = 1, over = 0; !over; n += 1 + n / 8) {
        problem p = spans_problem(2, 5);
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4];
        hga_options o = {.threads = 1};
        cut_evenly(TOKENS, 3, 16, cuts);
        assert_ok(hga_dist_in_process(3, NULL, xs));
        open_runs(&p, &o, PACKED, cuts, xs, 3, runs);
        runs[2].f.fails_from = n;
        run_ranks(runs, 3);
        over = runs[2].st == HGA_OK;
        for (int r = 0; r < 3; r++) {
            assert_int_equal(runs[r].st, over ? HGA_OK : HGA_ENOMEM);
            assert_int_equal(runs[r].f.live, 0);
            close_tensors(&runs[r].t), hga_dist_destroy(&xs[r]);
        }
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_all_kinds_have_the_bits_of_one_process),
        cmocka_unit_test(spans_of_bpt_have_the_bits_of_one_process),
        cmocka_unit_test(pieces_that_come_late_change_nothing),
        cmocka_unit_test(what_a_rank_makes_of_its_pieces_goes_to_all),
        cmocka_unit_test(what_all_are_sent_may_be_read_by_one_before),
        cmocka_unit_test(pieces_that_are_merged_go_as_one),
        cmocka_unit_test(pieces_are_merged_in_halves),
        cmocka_unit_test(a_row_that_is_not_cut_is_made_of_all_its_rows),
        cmocka_unit_test(a_failing_allocation_reaches_all),
    };
    end_when_ranks_hang();
    return cmocka_run_group_tests_name("exchange_pieces", tests, NULL, NULL);
}
