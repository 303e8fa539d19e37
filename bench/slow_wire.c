/* slow_wire.c: an exchange over another, which computes when messages would have arrived. */
#include "slow_wire.h"

#include <math.h>

#include "clock.h"

double slow_wire_clock(const slow_wire *w) { return bench_clock().thread - w->begun + w->waited; }

void slow_wire_begin(slow_wire *w, double delay)
{
    w->delay = delay, w->waited = w->worked = w->since = 0;
    w->begun = bench_clock().thread;
}

static hga_status wire_start(void *ctx, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                             hga_id n_receive)
{
    slow_wire *w = ctx;
    if (channel >= SLOW_WIRE_CHANNELS) return hga_fail(HGA_EINVAL, "channel %d", channel);
    w->sent[channel] = w->since = slow_wire_clock(w), w->receives[channel] = n_receive > 0, w->taken[channel] = 0;
    return w->inner->start(w->inner->ctx, channel, send, n_send, receive, n_receive);
}

/* When all of the channel has arrived, by this rank's clock; the threads wait for each other to know. A rank's call
   is sent before all else, and so has arrived before any rows. */
static hga_status find_arrival(slow_wire *w, int channel, double *at)
{
    hga_status st = w->taken[channel] ? HGA_OK : w->inner->wait(w->inner->ctx, channel);
    w->taken[channel] = 1;
    *at = w->receives[channel] && channel != HGA_CHANNEL_OF_CALLS ? w->other->sent[channel] + w->delay : 0;
    return st;
}

static hga_status wire_test(void *ctx, int channel, int *done)
{
    slow_wire *w = ctx;
    double at;
    hga_status st = find_arrival(w, channel, &at);
    *done = !st && at <= slow_wire_clock(w);
    return st;
}

static hga_status wire_wait(void *ctx, int channel)
{
    slow_wire *w = ctx;
    double at;
    hga_status st = find_arrival(w, channel, &at);
    double now = slow_wire_clock(w);
    if (!st && at > now) {
        w->worked += fmax(0, now - fmax(w->since, w->other->sent[channel]));
        w->waited += at - now;
    }
    if (channel != HGA_CHANNEL_OF_CALLS) w->since = slow_wire_clock(w);
    return st;
}

static hga_status wire_gather(void *ctx, const void *mine, int64_t bytes, void *all)
{
    const slow_wire *w = ctx;
    return w->inner->gather(w->inner->ctx, mine, bytes, all);
}

static void wire_fail(void *ctx, hga_status status)
{
    const slow_wire *w = ctx;
    w->inner->fail(w->inner->ctx, status);
}

void slow_wire_open(const hga_exchange inner[2], slow_wire wires[2])
{
    for (int r = 0; r < 2; r++) {
        wires[r] = (slow_wire){.outer = inner[r], .inner = &inner[r], .other = &wires[1 - r]};
        wires[r].outer.ctx = &wires[r];
        wires[r].outer.start = wire_start, wires[r].outer.test = wire_test, wires[r].outer.wait = wire_wait;
        wires[r].outer.gather = wire_gather, wires[r].outer.fail = wire_fail;
        wires[r].outer.close = NULL;
    }
}
