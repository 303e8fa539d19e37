/* rank_alone.c: a rank of many, without the others. */
#include "rank_alone.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "rows.h"

/* ---- the exchange ---- */

static hga_status start(void *ctx, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                        hga_id n_receive)
{
    rank_alone *r = ctx;
    for (hga_id i = 0; i < n_send && channel != HGA_CHANNEL_OF_CALLS; i++) r->sent += send[i].bytes;
    for (hga_id i = 0; i < n_receive; i++)
        if (channel == HGA_CHANNEL_OF_CALLS && n_send > 0)
            memcpy(receive[i].data, send[0].data, (size_t)receive[i].bytes);
        else
            memset(receive[i].data, 0, (size_t)receive[i].bytes);
    return HGA_OK;
}

static hga_status test(void *ctx, int channel, int *done)
{
    (void)ctx, (void)channel;
    *done = 1;
    return HGA_OK;
}

static hga_status wait_for(void *ctx, int channel)
{
    (void)ctx, (void)channel;
    return HGA_OK;
}

/* All ranks send what this one sends. */
static hga_status gather(void *ctx, const void *mine, int64_t bytes, void *all)
{
    const rank_alone *x = ctx;
    for (hga_id r = 0; r < x->exchange.n_ranks; r++) memcpy((char *)all + r * bytes, mine, (size_t)bytes);
    return HGA_OK;
}

static void fail(void *ctx, hga_status status) { (void)ctx, (void)status; }

hga_status rank_alone_make(hga_id rank, hga_id n_ranks, hga_id tokens, rank_alone *out)
{
    out->exchange =
        (hga_exchange){sizeof(hga_exchange), rank, n_ranks, NULL, start, test, wait_for, gather, fail, NULL};
    out->exchange.ctx = out, out->sent = 0;
    hga_status st = bench_new(n_ranks + 1, sizeof *out->cuts, &out->cuts);
    for (hga_id r = 0; !st && r <= n_ranks; r++) out->cuts[r] = (hga_id)((int64_t)tokens * r / n_ranks);
    out->ranks = (hga_ranks){.exchange = &out->exchange, .cuts = out->cuts};
    return st;
}

void rank_alone_clear(rank_alone *r) { free(r->cuts); }

/* ---- tensors ---- */

/* Rows that a call has of the tensor bound so. */
static hga_status count_rows(const bench_case *c, hga_binding binding, int ranked, int64_t *rows)
{
    hga_status st = HGA_OK;
    hga_id field = hga_program_field(&c->program, binding);
    hga_interval list[64];
    int64_t n = 0;
    *rows = 0;
    if (!field) return HGA_OK;
    if (!ranked) {
        *rows = bound_rows(c->graph, &c->program, binding, 0);
        return HGA_OK;
    }
    HGA_TRY(hga_plan_rank_rows(c->plan, field, list, 64, &n));
    if (n > 64) HGA_TRY(hga_fail(HGA_EOVERFLOW, "%" PRId64 " intervals of rows", n));
    for (int64_t i = 0; i < n; i++) *rows += list[i].n;
done:
    return st;
}

hga_status rank_alone_tensors(bench_case *c, const hga_shape *shape, int ranked, int64_t *bytes)
{
    const hga_binding binding[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    hga_tensor *tensor[] = {&c->io.query, &c->io.key, &c->io.value, &c->io.out};
    int64_t all = 0, floats = (int64_t)shape->n_heads * shape->dim, rows[4];
    hga_status st = HGA_OK;
    for (int i = 0; i < 4; i++) {
        HGA_TRY(count_rows(c, binding[i], ranked, &rows[i]));
        all += rows[i] * floats;
    }
    *bytes = all * (int64_t)sizeof(float);
    HGA_TRY(bench_new(all, sizeof(float), &c->tensors));
    for (int64_t i = 0; i < all; i++) c->tensors[i] = (float)(i % 17) / 16 - 0.5f;
    for (int64_t i = 0, at = 0; i < 4; at += rows[i++] * floats)
        *tensor[i] = (hga_tensor){.data = c->tensors + at, .rows = rows[i]};
done:
    return st;
}
