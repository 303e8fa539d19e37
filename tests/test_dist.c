/* test_dist.c: the transport of ranks that are threads of one process keeps what hga_exchange promises. */
#include "testing.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 8, MESSAGES = 40 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one thread a rank ---- */

typedef struct rank_thread {
    hga_exchange *x;
    hga_status st;
    void (*run)(struct rank_thread *r);
    pthread_t thread;
} rank_thread;

static void *run_rank(void *r)
{
    ((rank_thread *)r)->run(r);
    return NULL;
}

static void run_ranks(hga_exchange *xs, hga_id n, void (*run)(rank_thread *), hga_status want)
{
    rank_thread ranks[MOST_RANKS];
    for (hga_id r = 0; r < n; r++) {
        ranks[r] = (rank_thread){.x = &xs[r], .run = run};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
    }
    for (hga_id r = 0; r < n; r++) pthread_join(ranks[r].thread, NULL);
    for (hga_id r = 0; r < n; r++) assert_int_equal(ranks[r].st, want);
}

static void destroy_all(hga_exchange *xs, hga_id n)
{
    for (hga_id r = 0; r < n; r++) hga_dist_destroy(&xs[r]);
}

/* ---- order and content ---- */

/* What rank a sends rank b as its k-th message; as many numbers as fit nowhere else. */
static int number_of(hga_id a, hga_id b, int k) { return 10000 * a + 100 * b + k; }

/* Every rank sends every other MESSAGES messages in pairs, on two channels in turn, and checks what it gets. */
static void talk(rank_thread *r)
{
    hga_exchange *x = r->x;
    hga_status st = HGA_OK;
    int out[2][MOST_RANKS][2], in[2][MOST_RANKS][2];
    for (int k = 0; k < MESSAGES; k++) {
        hga_packet send[2 * MOST_RANKS], receive[2 * MOST_RANKS];
        hga_id n = 0;
        int channel = k & 1, other = (k + 1) & 1;
        for (int half = 0; half < 2; half++)
            for (hga_id o = 0; o < x->n_ranks; o++) {
                if (o == x->rank) continue;
                out[channel][o][half] = number_of(x->rank, o, 2 * k + half);
                send[n] = (hga_packet){o, sizeof(int), &out[channel][o][half]};
                receive[n++] = (hga_packet){o, sizeof(int), &in[channel][o][half]};
            }
        HGA_TRY(x->start(x->ctx, 1 + channel, send, n, receive, n));
        if (k) HGA_TRY(x->wait(x->ctx, 1 + other));
        for (hga_id o = 0; k && o < x->n_ranks; o++)
            for (int half = 0; half < 2; half++)
                if (o != x->rank && in[other][o][half] != number_of(o, x->rank, 2 * (k - 1) + half))
                    HGA_TRY(hga_fail(HGA_EFORMAT, "%d from rank %d", in[other][o][half], o));
    }
    HGA_TRY(x->wait(x->ctx, 1 + ((MESSAGES - 1) & 1)));
done:
    if (st) (x->fail)(x->ctx, st);
    r->st = st;
}

static void messages_keep_their_order_whatever_their_delay(void **state)
{
    (void)state;
    hga_exchange xs[MOST_RANKS];
    for (hga_id n = 1; n <= MOST_RANKS; n += n < 4 ? 1 : 4) {
        assert_ok(hga_dist_in_process(n, &(hga_dist_wire){.most_delay = 1e-3, .seed = 5, .fill = 1}, xs));
        run_ranks(xs, n, talk, HGA_OK);
        for (hga_id r = 0; r < n; r++) {
            hga_dist_counts c = hga_dist_in_process_counts(&xs[r]);
            int64_t messages = (int64_t)(n - 1) * 2 * MESSAGES;
            assert_int_equal(c.messages_out, messages);
            assert_int_equal(c.messages_in, messages);
            assert_int_equal(c.bytes_out, messages * (int64_t)sizeof(int));
            assert_int_equal(c.bytes_in, messages * (int64_t)sizeof(int));
            assert_int_equal(c.gathers, 0);
        }
        destroy_all(xs, n);
    }
}

/* ---- gathers ---- */

static void gather_often(rank_thread *r)
{
    hga_exchange *x = r->x;
    hga_status st = HGA_OK;
    int all[MOST_RANKS];
    for (int k = 0; k < MESSAGES; k++) {
        HGA_TRY(x->gather(x->ctx, &(int){number_of(x->rank, 0, k)}, sizeof(int), all));
        for (hga_id o = 0; o < x->n_ranks; o++)
            if (all[o] != number_of(o, 0, k)) HGA_TRY(hga_fail(HGA_EFORMAT, "%d from rank %d", all[o], o));
    }
    HGA_TRY(x->gather(x->ctx, NULL, 0, NULL));
    if (x->gather(x->ctx, all, -1, all) != HGA_EINVAL) HGA_TRY(hga_fail(HGA_EFORMAT, "-1 bytes are gathered"));
done:
    if (st) (x->fail)(x->ctx, st);
    r->st = st;
}

static void a_gather_is_in_the_order_of_the_ranks(void **state)
{
    (void)state;
    hga_exchange xs[MOST_RANKS];
    for (hga_id n = 1; n <= MOST_RANKS; n++) {
        assert_ok(hga_dist_in_process(n, &(hga_dist_wire){.delay = 1e-5, .most_delay = 1e-4}, xs));
        run_ranks(xs, n, gather_often, HGA_OK);
        assert_int_equal(hga_dist_in_process_counts(&xs[0]).gathers, MESSAGES + 1);
        assert_int_equal(hga_dist_in_process_counts(&xs[0]).bytes_gathered, (n - 1) * MESSAGES * (int)sizeof(int));
        destroy_all(xs, n);
    }
}

/* ---- arrival ---- */

static void memory_holds_nan_until_a_message_has_arrived(void **state)
{
    (void)state;
    hga_exchange xs[2];
    float in = 1, out = 7;
    int done;
    double delay = 0.05, begin = seconds();
    assert_ok(hga_dist_in_process(2, &(hga_dist_wire){.delay = delay, .fill = 1}, xs));
    assert_ok(xs[1].start(xs[1].ctx, 3, NULL, 0, &(hga_packet){0, sizeof in, &in}, 1));
    assert_true(isnan(in));
    assert_ok(xs[1].test(xs[1].ctx, 3, &done));
    assert_int_equal(done, 0);
    assert_ok(xs[0].start(xs[0].ctx, 3, &(hga_packet){1, sizeof out, &out}, 1, NULL, 0));
    assert_ok(xs[0].wait(xs[0].ctx, 3));
    out = 9; /* after the wait it is the sender's again */
    assert_true(isnan(in));
    assert_ok(xs[1].wait(xs[1].ctx, 3));
    assert_true(seconds() - begin >= delay);
    assert_true(in == 7);
    destroy_all(xs, 2);
}

/* ---- failures ---- */

/* Rank 0 fails; the others wait for what never comes, each in another way, and later calls fail as well. */
static void wait_for_rank_0(rank_thread *r)
{
    hga_exchange *x = r->x;
    float in = 0;
    int done = 0;
    if (x->rank == 0) {
        usleep(2000);
        (x->fail)(x->ctx, HGA_ENOMEM);
        (x->fail)(x->ctx, HGA_EIO); /* the first counts */
        r->st = HGA_ENOMEM;
        return;
    }
    r->st = x->rank % 3 == 0 ? x->gather(x->ctx, &in, 0, &in)
                             : x->start(x->ctx, 0, NULL, 0, &(hga_packet){0, sizeof in, &in}, 1);
    if (x->rank % 3 == 1 && !r->st) r->st = x->wait(x->ctx, 0);
    while (x->rank % 3 == 2 && !r->st) r->st = x->test(x->ctx, 0, &done);
    if (x->start(x->ctx, 1, NULL, 0, NULL, 0) != r->st || x->wait(x->ctx, 0) != r->st) r->st = HGA_OK;
}

static void a_failure_reaches_all_and_none_hangs(void **state)
{
    (void)state;
    hga_exchange xs[MOST_RANKS];
    assert_ok(hga_dist_in_process(MOST_RANKS, NULL, xs));
    run_ranks(xs, MOST_RANKS, wait_for_rank_0, HGA_ENOMEM);
    destroy_all(xs, MOST_RANKS);
}

static void what_was_sent_arrives_after_its_sender_is_gone_and_nothing_else(void **state)
{
    (void)state;
    hga_exchange xs[2];
    int in = 0;
    assert_ok(hga_dist_in_process(2, NULL, xs));
    assert_ok(xs[0].start(xs[0].ctx, 0, &(hga_packet){1, sizeof in, &(int){5}}, 1, NULL, 0));
    hga_dist_destroy(&xs[0]);
    for (int k = 0; k < 2; k++) {
        assert_ok(xs[1].start(xs[1].ctx, 0, NULL, 0, &(hga_packet){0, sizeof in, &in}, 1));
        k ? assert_status(HGA_EINVAL, xs[1].wait(xs[1].ctx, 0)) : assert_ok(xs[1].wait(xs[1].ctx, 0));
        assert_int_equal(in, 5);
    }
    assert_non_null(strstr(hga_error_detail(), "waits for rank 0, which is gone"));
    hga_dist_destroy(&xs[1]);
    hga_dist_destroy(&xs[1]); /* zeroed */
    hga_dist_destroy(NULL);
}

#define assert_refused(call, text)                                                 \
    do {                                                                           \
        assert_status(HGA_EINVAL, call);                                           \
        if (!strstr(hga_error_detail(), text)) fail_msg("%s", hga_error_detail()); \
    } while (0)

static void bad_calls_are_named(void **state)
{
    (void)state;
    hga_exchange xs[2];
    int in;
    assert_refused(hga_dist_in_process(0, NULL, xs), "0 ranks");
    assert_refused(hga_dist_in_process(2, NULL, NULL), "nowhere");
    assert_refused(hga_dist_in_process(2, &(hga_dist_wire){.delay = -1}, xs), "delay of -1");
    assert_refused(hga_dist_in_process(2, &(hga_dist_wire){.reserved = {1}}, xs), "hga_dist_wire");
    assert_ok(hga_dist_in_process(2, NULL, xs));
    void *c = xs[0].ctx;
    assert_refused(xs[0].start(c, -1, NULL, 0, NULL, 0), "channel -1");
    assert_refused(xs[0].start(c, 0, &(hga_packet){0, 0, NULL}, 1, NULL, 0), "cannot send to rank 0");
    assert_refused(xs[0].start(c, 0, NULL, 0, &(hga_packet){2, 0, NULL}, 1), "cannot receive from rank 2");
    assert_refused(xs[0].start(c, 0, &(hga_packet){1, 4, NULL}, 1, NULL, 0), "have no memory");
    assert_refused(xs[0].start(c, 0, &(hga_packet){1, -4, &in}, 1, NULL, 0), "are none");
    assert_refused(xs[0].wait(c, 0), "has not begun");
    assert_ok(xs[0].start(c, 0, &(hga_packet){1, 2, &in}, 1, NULL, 0));
    assert_refused(xs[0].start(c, 0, NULL, 0, NULL, 0), "again before its wait");
    assert_ok(xs[0].wait(c, 0));
    assert_ok(xs[1].start(xs[1].ctx, 0, NULL, 0, &(hga_packet){0, sizeof in, &in}, 1));
    assert_refused(xs[1].wait(xs[1].ctx, 0), "waits for 4 bytes from rank 0, which sent 2");
    destroy_all(xs, 2);
}

/* ---- memory ---- */

typedef struct counted {
    _Atomic int64_t left, held; /* allocations until one fails; bytes */
} counted;

static void *allocate_some(size_t bytes, void *context)
{
    counted *c = context;
    if (c->left-- <= 0) return NULL;
    c->held += (int64_t)bytes;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release_some(void *at, size_t bytes, void *context)
{
    ((counted *)context)->held -= (int64_t)bytes;
    free(at);
}

static hga_status exchange_once(const hga_dist_wire *wire)
{
    hga_exchange xs[2] = {0};
    hga_status st = HGA_OK;
    int in, all[2];
    HGA_TRY(hga_dist_in_process(2, wire, xs));
    HGA_TRY(xs[0].start(xs[0].ctx, 0, &(hga_packet){1, sizeof in, &(int){3}}, 1, NULL, 0));
    HGA_TRY(xs[1].start(xs[1].ctx, 0, NULL, 0, &(hga_packet){0, sizeof in, &in}, 1));
    HGA_TRY(xs[1].wait(xs[1].ctx, 0));
    assert_int_equal(in, 3);
    (xs[1].fail)(xs[1].ctx, HGA_EIO);
    assert_int_not_equal(xs[0].gather(xs[0].ctx, &in, sizeof in, all), HGA_OK);
done:
    destroy_all(xs, 2);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    counted c = {0};
    hga_allocator a = {allocate_some, release_some, &c};
    hga_status st = HGA_ENOMEM;
    for (int64_t n = 0; st; n++) {
        c.left = n;
        st = exchange_once(&(hga_dist_wire){.allocator = &a});
        assert_true(st == HGA_OK || st == HGA_ENOMEM);
        assert_int_equal(c.held, 0);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_their_order_whatever_their_delay),
        cmocka_unit_test(a_gather_is_in_the_order_of_the_ranks),
        cmocka_unit_test(memory_holds_nan_until_a_message_has_arrived),
        cmocka_unit_test(a_failure_reaches_all_and_none_hangs),
        cmocka_unit_test(what_was_sent_arrives_after_its_sender_is_gone_and_nothing_else),
        cmocka_unit_test(bad_calls_are_named),
        cmocka_unit_test(any_allocation_may_fail),
    };
    alarm(60); /* a rank that hangs ends the test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
