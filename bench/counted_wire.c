/* counted_wire.c: an exchange over another, which counts; and a round trip of messages. */
#include "counted_wire.h"

#include <math.h>

static void count(counted_wire *c, int way, const hga_packet *m, hga_id n)
{
    for (hga_id i = 0; i < n; i++) c->messages[way] += m[i].bytes > 0, c->bytes[way] += m[i].bytes;
}

static hga_status was_within(counted_wire *c, bench_time start, hga_status st)
{
    c->within = bench_time_add(c->within, bench_since(start));
    return st;
}

static hga_status counted_start(void *ctx, int channel, const hga_packet *send, hga_id n_send,
                                const hga_packet *receive, hga_id n_receive)
{
    counted_wire *c = ctx;
    bench_time start = bench_clock();
    if (channel != HGA_CHANNEL_OF_CALLS) count(c, 0, receive, n_receive), count(c, 1, send, n_send);
    return was_within(c, start, c->inner->start(c->inner->ctx, channel, send, n_send, receive, n_receive));
}

static hga_status counted_test(void *ctx, int channel, int *done)
{
    counted_wire *c = ctx;
    bench_time start = bench_clock();
    return was_within(c, start, c->inner->test(c->inner->ctx, channel, done));
}

static hga_status counted_wait(void *ctx, int channel)
{
    counted_wire *c = ctx;
    bench_time start = bench_clock();
    return was_within(c, start, c->inner->wait(c->inner->ctx, channel));
}

static hga_status counted_gather(void *ctx, const void *mine, int64_t bytes, void *all)
{
    counted_wire *c = ctx;
    bench_time start = bench_clock();
    return was_within(c, start, c->inner->gather(c->inner->ctx, mine, bytes, all));
}

static void counted_fail(void *ctx, hga_status status)
{
    const counted_wire *c = ctx;
    c->inner->fail(c->inner->ctx, status);
}

void counted_wire_open(const hga_exchange *x, counted_wire *c)
{
    *c = (counted_wire){.inner = x};
    c->outer = *x;
    c->outer.ctx = c;
    c->outer.start = counted_start, c->outer.test = counted_test, c->outer.wait = counted_wait;
    c->outer.gather = counted_gather, c->outer.fail = counted_fail;
    c->outer.close = NULL;
}

hga_status wire_ping(const hga_exchange *x, int64_t bytes, char *data, int n, double *seconds)
{
    hga_id other = x->rank == 0 ? x->n_ranks - 1 : 0;
    hga_status st = HGA_OK;
    *seconds = INFINITY;
    if (x->rank != 0 && x->rank != x->n_ranks - 1) return HGA_OK;
    hga_packet there = {other, bytes, data};
    for (int i = 0; i < n; i++) {
        double start = bench_seconds();
        for (int way = 0; way < 2; way++) {
            int sends = (x->rank == 0) == (way == 0);
            HGA_TRY(x->start(x->ctx, 0, &there, sends, &there, !sends));
            HGA_TRY(x->wait(x->ctx, 0));
        }
        *seconds = fmin(*seconds, (bench_seconds() - start) / 2);
    }
done:
    if (st) x->fail(x->ctx, st); /* the other end waits for it */
    return st;
}
