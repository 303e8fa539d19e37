/* test_exchange_gradient_calls.c: calls of ranks that go back: threads, batches, messages that are late; and where one
   rank fails, or means something else, all do. */
#include "exchange_back.h"
#include "plan.h"

/* ---- threads ---- */

static void expect_same_gradients(const problem *p, const back_run *a, const back_run *b)
{
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (!program_is_input(p->program.field[f].binding)) continue;
        int64_t n = (int64_t)a->at.t.of[f].n * program_heads(&p->program, &p->shape, f) *
                    program_columns(&p->program, &p->shape, f);
        assert_same_bits(p->name, program_gradient(&p->program, &a->g.grad, f)->data,
                         program_gradient(&p->program, &b->g.grad, f)->data, n);
    }
    for (int i = 0; i < HGA_N_TABLES; i++)
        if (a->g.entries[i])
            assert_same_bits(call_row((hga_call_table)i)->name, a->g.table[i], b->g.table[i], a->g.entries[i]);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[4];
        if (passed_over(i)) continue;
        variant_build(i, 330, 3, &narrow, &p);
        cut_evenly(tokens_of(&p), 3, 1, cuts);
        for (int s = 0; s < 2 && !is_cross(&p); s++) {
            hga_exchange xs[2][3];
            back_run b[2][3];
            for (int k = 0; k < 2; k++) {
                hga_options o = {.threads = k ? 3 : 1, .gradient_row_ranges = s ? 4 : 0};
                assert_ok(hga_dist_in_process(3, NULL, xs[k]));
                open_all(&p, &o, PACKED, cuts, xs[k], 3, b[k]);
                run_all(b[k], 3);
            }
            for (int r = 0; r < 3; r++) {
                assert_int_equal(b[0][r].at.st | b[1][r].at.st, HGA_OK);
                expect_same_gradients(&p, &b[0][r], &b[1][r]);
            }
            for (int k = 0; k < 2; k++) close_all(b[k], xs[k], 3);
        }
        problem_clear(&p);
    }
}

/* ---- batches ---- */

static void a_batch_goes_back_sample_after_sample(void **state)
{
    static const char *const names[] = {"bpt", "window", "hsa", "neighbours"};
    const hga_options o = {.threads = 2, .dropout = 0.25f};
    (void)state;
    for (int i = 0; i < 4; i++) {
        problem p;
        hga_exchange xs[3];
        back_run b[3];
        hga_id cuts[4];
        variant_build(variant_named(names[i]), 200, 3, &narrow, &p);
        cut_evenly(tokens_of(&p), 3, 1, cuts);
        assert_ok(hga_dist_in_process(3, NULL, xs));
        open_all(&p, &o, PACKED, cuts, xs, 3, b);
        for (int r = 0; r < 3; r++) b[r].in_batch = 1;
        run_all(b, 3);
        for (int r = 0; r < 3; r++) {
            if (b[r].at.st) fail_msg("%s: rank %d: %s", p.name, r, b[r].at.said);
            for (int k = 0; k < 2; k++) {
                back_run in_batch = b[r];
                in_batch.g = b[r].batch[k];
                expect_same_gradients(&p, &b[r], &in_batch);
                close_gradients(&b[r].batch[k]);
            }
        }
        close_all(b, xs, 3);
        problem_clear(&p);
    }
}

/* ---- entmax of 16 bits ---- */

/* Gradients in float32 of rows in 16 bits beside those of the plain definition, which rounds as they do. */
static void expect_near(const problem *p, const whole *got, const whole *want, double apart)
{
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (!program_is_input(p->program.field[f].binding)) continue;
        const hga_id heads = program_heads(&p->program, &p->shape, f),
                     columns = program_columns(&p->program, &p->shape, f);
        for (int64_t i = 0; i < got->t.of[f].n * heads; i++) {
            const float *x = tensor_at(program_gradient(&p->program, &got->g.grad, f), heads, columns, i / heads,
                                       (hga_id)(i % heads)),
                        *y = tensor_at(program_gradient(&p->program, &want->g.grad, f), heads, columns, i / heads,
                                       (hga_id)(i % heads));
            assert_near_floats(p->name, x, y, columns, apart);
        }
    }
}

/* Values in float16 and bfloat16, multiplied in float32 and in 16 bits, softcaps and slopes, on any ranks and threads:
   the bits of one process. */
static void entmax_of_16_bits_goes_back_on_ranks(void **state)
{
    static const char *const names[] = {"window_causal", "dense_causal", "fine", "dilated_causal", "fenwick"};
    static const float slopes[] = {0.1f, 0, 0.02f, 1};
    static const double alpha[] = {1.5, 2, 1.3};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++) {
            problem p;
            hga_id cuts[MOST_RANKS + 1];
            uint64_t rng = (uint64_t)(4 * i + k);
            variant_build(variant_named(names[i]), 170, 3, &narrow, &p);
            assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, alpha[(i + k) % 3]));
            p.io.lse.data = NULL, p.io.seed = 5;
            const operands m = {.softcap = k % 2 ? 3 : 0, .slopes = i < 2 ? slopes : NULL};
            bring_to(&p.io, &m);
            holding h = {&p, "entmax of 16 bits", {.threads = 1 + k % 3}, k < 2 ? F16_WIDE : BF16_PACKED, 0, &strict};
            h.o.precision = k == 3 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32, h.o.dropout = k == 1 ? 0.3f : 0;
            hga_options plain = h.o;
            plain.generic = 1;
            whole want = go_back_whole(&p, &h.o, h.l, 0), defined = go_back_whole(&p, &plain, h.l, 0);
            if (h.l == F16_WIDE) expect_near(&p, &want, &defined, 2e-3);
            cut_evenly(tokens_of(&p), 3, 16, cuts);
            hold_back(&h, cuts, 3, &want);
            cut_anywhere(tokens_of(&p), 4, &rng, cuts);
            hold_back(&h, cuts, 4, &want);
            close_whole(&want), close_whole(&defined);
            problem_clear(&p);
        }
}

/* ---- time and failures ---- */

static void a_rank_that_is_late_changes_nothing(void **state)
{
    static const char *const names[] = {"window", "bpt", "neighbours", "hsa", "fenwick"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        variant_build(variant_named(names[i]), 160, 3, &narrow, &p);
        hga_dist_wire slow = {.most_delay = 3e-3, .fill = 1};
        holding h = {&p, "late", {.threads = 1, .generic = 1}, PACKED, 0, &slow};
        whole want = go_back_whole(&p, &h.o, PACKED, 0);
        cut_evenly(tokens_of(&p), 5, 16, cuts);
        for (slow.seed = 0; slow.seed < 4; slow.seed++) hold_back(&h, cuts, 5, &want);
        close_whole(&want);
        problem_clear(&p);
    }
}

static void open_three(problem *p, hga_exchange *xs, back_run *b, hga_id *cuts)
{
    hga_options o = {.threads = 1};
    variant_build(variant_named("bpt"), 120, 3, &narrow, p);
    cut_evenly(tokens_of(p), 3, 16, cuts);
    assert_ok(hga_dist_in_process(3, NULL, xs));
    open_all(p, &o, PACKED, cuts, xs, 3, b);
}

static void expect_all(const back_run *b, hga_status st)
{
    for (int r = 0; r < 3; r++) {
        if (b[r].at.st != st) fail_msg("rank %d: %s, %s", r, hga_status_name(b[r].at.st), b[r].at.said);
        assert_int_equal(b[r].at.f.live, 0);
    }
}

/* Whoever finds it first; the others may say that this rank has failed. */
static int somebody_says(const back_run *b, const char *what)
{
    int says = 0;
    for (int r = 0; r < 3; r++) says |= strstr(b[r].at.said, what) != NULL;
    return says;
}

static void expect_fault(fault f, const char *said)
{
    problem p;
    hga_exchange xs[3];
    back_run b[3];
    hga_id cuts[4];
    open_three(&p, xs, b, cuts);
    b[1].fault = f;
    run_all(b, 3);
    expect_all(b, HGA_EINVAL);
    if (!somebody_says(b, said)) fail_msg("%s", b[1].at.said);
    close_all(b, xs, 3);
    problem_clear(&p);
}

static void what_one_rank_does_otherwise_reaches_all(void **state)
{
    static const char *const said[] = {[NO_TAPE] = "no tape",
                                       [NO_VALUE] = "is missing",
                                       [OTHER_TABLES] = "entries of scale",
                                       [NO_GRADIENTS] = "no gradients",
                                       [ADDS] = "rank 1 adds to gradients, and rank 0 writes them",
                                       [OTHER_TYPE] = "the gradient of field value is of bfloat16 on rank 1"};
    (void)state;
    for (fault f = NO_TAPE; f <= OTHER_TYPE; f++) expect_fault(f, said[f]);
}

/* .. but which tensors it wants is its own choice. */
static void a_rank_may_want_less(void **state)
{
    problem p;
    hga_exchange xs[3];
    back_run b[3];
    hga_id cuts[4];
    (void)state;
    open_three(&p, xs, b, cuts);
    hga_options o = {.threads = 1};
    whole want = go_back_whole(&p, &o, PACKED, 0);
    for (int r = 0; r < 3; r++) b[r].wants = r + 1;
    run_all(b, 3);
    expect_all(b, HGA_OK);
    for (int r = 0; r < 3; r++) {
        const char *how = "rank by rank other gradients";
        for (hga_id f = 1; f <= p.program.n_fields; f++) {
            const hga_tensor *got = program_gradient(&p.program, &b[r].g.grad, f);
            hga_binding of = p.program.field[f].binding;
            if (of != (r == 0 ? HGA_IO_QUERY : r == 1 ? HGA_IO_KEY : HGA_IO_VALUE)) continue;
            compare(&p, how, r, &b[r].at.t, f, got, program_gradient(&p.program, &want.g.grad, f),
                    program_heads(&p.program, &p.shape, f), program_columns(&p.program, &p.shape, f));
        }
    }
    close_all(b, xs, 3);
    close_whole(&want);
    problem_clear(&p);
}

/* Each allocation of one rank, until none fails. */
static void a_failing_allocation_of_one_rank_reaches_all(void **state)
{
    (void)state;
    for (int64_t n = 1, over = 0; !over; n += 1 + n / 16) {
        problem p;
        hga_exchange xs[3];
        back_run b[3];
        hga_id cuts[4];
        open_three(&p, xs, b, cuts);
        b[2].at.f.fails_from = n;
        run_all(b, 3);
        over = b[2].at.st == HGA_OK;
        expect_all(b, over ? HGA_OK : HGA_ENOMEM);
        close_all(b, xs, 3);
        problem_clear(&p);
    }
}

/* ---- what is refused ---- */

#define assert_refused(status, text, call)                                         \
    do {                                                                           \
        assert_status(status, call);                                               \
        if (!strstr(hga_error_detail(), text)) fail_msg("%s", hga_error_detail()); \
    } while (0)

static void losses_are_of_one_process(void **state)
{
    problem p;
    hga_exchange x;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_id cuts[] = {0, 40};
    double loss;
    (void)state;
    variant_build(variant_named("window"), 40, 3, &narrow, &p);
    assert_ok(hga_dist_in_process(1, NULL, &x));
    hga_ranks ranks = {.exchange = &x, .cuts = cuts};
    hga_options o = {.threads = 1, .gradient = 1, .ranks = &ranks};
    hga_grad_io grad = {.d_out = p.io.out};
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    assert_refused(HGA_EUNSUPPORTED, "one process",
                   hga_plan_loss(plan, &p.io, &grad, HGA_GRADIENT_TABLE + HGA_TABLE_SCALE, 0, 0, &loss));
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    hga_dist_destroy(&x);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_rank_that_is_late_changes_nothing),
        cmocka_unit_test(what_one_rank_does_otherwise_reaches_all),
        cmocka_unit_test(a_rank_may_want_less),
        cmocka_unit_test(a_failing_allocation_of_one_rank_reaches_all),
        cmocka_unit_test(a_batch_goes_back_sample_after_sample),
        cmocka_unit_test(entmax_of_16_bits_goes_back_on_ranks),
        cmocka_unit_test(losses_are_of_one_process),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 900 : 300); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("exchange_gradient_calls", tests, NULL, NULL);
}
