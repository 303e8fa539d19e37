/* prefill.c: a prompt whose tokens are divided among ranks. Each rank computes the rows that depend on its own tokens
   only; the home is sent those of them that later tokens, or rows above a cut, read, and computes the rest. So its
   cache equals that of a process that has appended all tokens, and only rows that it holds or depends on are sent. */
#include "prefill.h"
#include "choose.h"
#include "identity.h"
#include "rank_calls.h"

#include <string.h>

enum { PREFILL_CHANNEL = 1 };

/* Calls each(x, kind, v) for the rows that the rank sends home. */
static hga_status each_sent(prefill *x, hga_id rank, hga_status (*each)(prefill *x, hga_id kind, hga_id v))
{
    hga_status st = HGA_OK;
    for (hga_id k = 0; k < N_PAGE_KINDS; k++) {
        FOR_RUNS(&x->lacks[k], v, end, 0, x->lacks[k].n)
        {
            for (int64_t u = v; u < end; u++)
                if (prefill_owner(x, k, (hga_id)u) == rank) HGA_TRY(each(x, k, (hga_id)u));
        }
    }
done:
    return st;
}

static hga_status count_row(prefill *x, hga_id kind, hga_id v)
{
    (void)v;
    x->packet[x->reader].bytes += x->d->row_bytes[kind];
    return HGA_OK;
}

/* Makes the packets that go home: all of them there, else the rank's own. */
static hga_status make_packets(prefill *x)
{
    hga_status st = HGA_OK;
    hga_id n_ranks = x->call->exchange->n_ranks;
    for (x->reader = 0; x->reader < n_ranks; x->reader++) {
        x->packet[x->reader] = (hga_packet){.rank = x->reader};
        if (x->me == x->home || x->me == x->reader) HGA_TRY(each_sent(x, x->reader, count_row));
        x->n_bytes += x->packet[x->reader].bytes;
    }
    HGA_TRY(hga_new(&x->d->allocator, x->n_bytes, 1, &x->bytes));
    char *at = x->bytes;
    for (hga_id r = 0; r < n_ranks; r++) x->packet[r].data = at, at += x->packet[r].bytes;
done:
    return st;
}

/* ---- rows ---- */

static hga_status request_row(prefill *x, hga_id kind, hga_id v)
{
    hga_decode_workspace *w = x->w;
    hga_status st = HGA_OK;
    if (kind_is_input(kind)) return HGA_OK;
    HGA_TRY(hga_grow(&w->allocator, &w->needed, &w->needed_capacity, x->n_needed, x->n_needed + 1, sizeof *w->needed));
    w->needed[x->n_needed++] = (needed_row){field_of_kind(kind), v};
done:
    return st;
}

static hga_status pack_row(prefill *x, hga_id kind, hga_id v)
{
    hga_status st = stage_keep(x->w, kind, v, x->at);
    x->at += x->d->row_bytes[kind];
    return st;
}

static hga_status unpack_row(prefill *x, hga_id kind, hga_id v)
{
    hga_status st = stage_lay(x->w, kind, v, x->at);
    x->at += x->d->row_bytes[kind];
    return st;
}

/* ---- the two sides ---- */

/* Copies the rank's own rows of tensors to where the plan reads them; the workspace holds no others. */
static hga_status fetch_own(prefill *x)
{
    hga_status st = HGA_OK;
    hga_decode_workspace *w = x->w;
    const hga_id *cuts = x->call->cuts + x->me;
    w->resident = 0;
    HGA_TRY(hga_workspace_rows(x->d->plan, w->workspace, 0, 0, 0, HGA_ROWS_DROP, NULL));
    if (x->me == x->home) HGA_TRY(stage_borrow_new(w, x->call->cache, x->n));
    HGA_TRY(
        stage_fetch(w, &x->call->io, hga_decoder_rows(x->d, cuts[0], cuts[1] - cuts[0], w->node, (hga_id)w->capacity)));
done:
    return st;
}

/* A rank other than the home computes the rows that it sends, and sends them. */
static hga_status send_home(prefill *x)
{
    hga_status st = HGA_OK;
    const hga_exchange *e = x->call->exchange;
    hga_packet *mine = &x->packet[x->me];
    HGA_TRY(each_sent(x, x->me, request_row));
    HGA_TRY(fetch_own(x));
    HGA_TRY(stage_compute(x->w, &x->call->io, 0, x->n_needed, x->n, 0));
    x->at = mine->data;
    HGA_TRY(each_sent(x, x->me, pack_row));
    *mine = (hga_packet){x->home, mine->bytes, mine->data};
    HGA_TRY(e->start(e->ctx, PREFILL_CHANNEL, mine, 1, NULL, 0));
    HGA_TRY(e->wait(e->ctx, PREFILL_CHANNEL));
done:
    return st;
}

/* Receives the packets of all other ranks and copies their rows into the workspace. */
static hga_status receive(prefill *x)
{
    hga_status st = HGA_OK;
    const hga_exchange *e = x->call->exchange;
    hga_id n = e->n_ranks - 1;
    memmove(&x->packet[x->home], &x->packet[x->home + 1], (size_t)(n - x->home) * sizeof *x->packet);
    HGA_TRY(e->start(e->ctx, PREFILL_CHANNEL, NULL, 0, x->packet, n));
    HGA_TRY(e->wait(e->ctx, PREFILL_CHANNEL));
    HGA_TRY(fetch_own(x));
    for (hga_id i = 0; i < n; i++) {
        x->at = x->packet[i].data;
        HGA_TRY(each_sent(x, x->packet[i].rank, unpack_row));
    }
done:
    return st;
}

/* The home receives the rows of all ranks, computes the others, and caches those that its cache holds. */
static hga_status go_on(prefill *x)
{
    hga_status st = HGA_OK;
    hga_cache *c = x->call->cache;
    HGA_TRY(append_reserve(x->d, c, x->n));
    HGA_TRY(receive(x));
    HGA_TRY(stage_compute(x->w, &x->call->io, 0, stage_read_cached(x->w, 0, x->n), x->n, 0));
    choose_make_blocks(x->w, c, x->n);
    HGA_TRY(stage_keep_new(x->w, c, x->n));
    cache_advance(c, x->n);
    stage_settle(x->w, c, 0);
done:
    if (st) cache_sweep(c);
    return st;
}

/* ---- the call ---- */

/* Cuts must ascend from 0 to a number of tokens that the decoder has, and the home be one of the ranks. */
static hga_status check_cuts(const hga_decoder *d, const hga_prefill *p)
{
    const hga_exchange *e = p->exchange;
    if (p->cuts[0] != 0) return hga_fail(HGA_EINVAL, "prefill: the first cut is %d", p->cuts[0]);
    for (hga_id r = 0; r < e->n_ranks; r++)
        if (p->cuts[r] > p->cuts[r + 1])
            return hga_fail(HGA_EINVAL, "prefill: cut %d is %d, behind %d", r + 1, p->cuts[r + 1], p->cuts[r]);
    hga_id n = p->cuts[e->n_ranks];
    if (n < 1 || n > d->n_tokens)
        return hga_fail(HGA_EINVAL, "prefill: %d tokens, the decoder has 1 to %d", n, d->n_tokens);
    if (p->home < 0 || p->home >= e->n_ranks)
        return hga_fail(HGA_EINVAL, "prefill: home is rank %d of %d", p->home, e->n_ranks);
    return HGA_OK;
}

/* The home must have a cache without tokens, and the other ranks none. */
static hga_status check_cache(const hga_decoder *d, const hga_prefill *p)
{
    const hga_cache *c = p->cache;
    if (p->exchange->rank != p->home)
        return c ? hga_fail(HGA_EINVAL, "prefill: rank %d has a cache, rank %d goes on", p->exchange->rank, p->home)
                 : HGA_OK;
    if (!c) return hga_fail(HGA_EINVAL, "prefill: there is no cache");
    if (c->pages->decoder != d) return hga_fail(HGA_EINVAL, "prefill: the cache is another decoder's");
    if (c->tokens) return hga_fail(HGA_EINVAL, "prefill: the cache has %d tokens already", c->tokens);
    return HGA_OK;
}

/* Checks what one rank can check of its call. */
static hga_status check(const hga_decoder *d, const hga_decode_workspace *w, const hga_prefill *p)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_check_reserved("hga_prefill", p->reserved, sizeof p->reserved));
    if (w->decoder != d) return hga_fail(HGA_EINVAL, "the workspace is another decoder's");
    if (!p->cuts) return hga_fail(HGA_EINVAL, "prefill: no cuts");
    HGA_TRY(check_cuts(d, p));
    HGA_TRY(check_cache(d, p));
    const hga_id *cuts = p->cuts + p->exchange->rank;
    if (p->io.out.data || p->io.lse.data)
        return hga_fail(HGA_EUNSUPPORTED, "prefill: makes no rows of the output; a plan with options.ranks does");
    if (cuts[1] > cuts[0]) HGA_TRY(append_check_io(d, cuts[0], cuts[1] - cuts[0], &p->io));
done:
    return st;
}

/* Checks that all ranks have the same decoder, cuts, home, numbers and instruction set, without which bits would
   differ. */
static hga_status meet(const hga_decoder *d, const hga_prefill *p)
{
    const char *isa = d->plan->machine.kernels->isa;
    const uint64_t of[] = {identity_of_graph(d->plan->graph), identity_of_program(&d->plan->program),
                           identity_of_numbers(d), (uint64_t)d->options.rollback,
                           identity_mix(IDENTITY_OF_NOTHING, isa, strlen(isa))};
    uint64_t numbers = rank_call_numbers(d->plan, &p->io);
    numbers = identity_mix(numbers, p->cuts, (size_t)(p->exchange->n_ranks + 1) * sizeof *p->cuts);
    numbers = identity_mix(numbers, &p->home, sizeof p->home);
    return rank_call_meet(p->exchange,
                          (rank_word){RANKS_PREFILL, identity_mix(IDENTITY_OF_NOTHING, of, sizeof of), numbers, 1});
}

/* Runs one rank's side: checks the call, meets all ranks, then continues at home or sends. */
static hga_status run(prefill *x)
{
    hga_status st = HGA_OK;
    const hga_exchange *e = x->call->exchange;
    const hga_id *cuts = x->call->cuts;
    HGA_TRY(check(x->d, x->w, x->call));
    HGA_TRY(meet(x->d, x->call));
    x->n = cuts[e->n_ranks];
    x->memory_bytes = prefill_carve(x, NULL);
    HGA_TRY(hga_new_zero(&x->d->allocator, x->memory_bytes, 1, &x->memory));
    prefill_carve(x, x->memory);
    prefill_find(x);
    HGA_TRY(make_packets(x));
    HGA_TRY(stage_reserve(x->w, 0, x->n));
    HGA_TRY(x->me == x->home ? go_on(x) : send_home(x));
done:
    return st;
}

hga_status hga_decoder_prefill(const hga_decoder *d, hga_decode_workspace *w, const hga_prefill *p)
{
    if (!d || !w || !p) return hga_fail(HGA_EINVAL, "no %s", !d ? "decoder" : !w ? "workspace" : "prefill");
    const hga_exchange *e = p->exchange;
    if (!e || e->size != sizeof *e) return hga_fail(HGA_EINVAL, "prefill: no exchange");
    prefill x = {.d = d, .w = w, .call = p, .me = e->rank, .home = p->home};
    hga_status st = run(&x);
    hga_delete(&d->allocator, x.bytes, x.n_bytes, 1);
    hga_delete(&d->allocator, x.memory, x.memory_bytes, 1);
    stage_count_bytes(w);
    if (st) e->fail(e->ctx, st);
    return st;
}
