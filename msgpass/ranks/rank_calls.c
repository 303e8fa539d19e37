/* rank_calls.c: do all ranks make the same call? Each tells the rank before it and the one after it, in a ring,
   which call it makes before it waits for anything, and compares their calls with its own before it waits for rows.
   If any two ranks make different calls two neighbours do, and report it to all. */
#include "call.h"
#include "identity.h"
#include "plan.h"
#include "ranks.h"

/* Hashes which tables a call has, how long they are, and the numbers of tables that depend on the shape alone. */
static uint64_t mix_tables(const hga_plan *plan, const hga_io *io, uint64_t h)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        const float *input = io->table[t].data;
        const int64_t n = input ? hga_call_entries(t, &plan->shape, plan->nodes.n, io) : -1;
        h = identity_mix(h, &n, sizeof n);
        if (input && call_table_is_of_shape(t)) h = identity_mix(h, input, (size_t)n * sizeof *input);
    }
    return h;
}

uint64_t rank_call_numbers(const hga_plan *plan, const hga_io *io)
{
    const int64_t draws = plan->options.dropout > 0;
    const int64_t counts[] = {draws * io->layer, draws * io->first_head, draws * (int64_t)io->seed};
    return mix_tables(plan, io, identity_mix(IDENTITY_OF_NOTHING, counts, sizeof counts));
}

rank_word rank_word_of(rank_call_kind kind, const hga_plan *plan, const hga_io *io, hga_id samples)
{
    return (rank_word){(uint64_t)kind, plan->share.ranks->stamp, io ? rank_call_numbers(plan, io) : 0,
                       (uint64_t)samples};
}

/* The ranks before and after: one of two, none of one. */
static hga_id find_neighbours(const hga_exchange *x, hga_id rank[2])
{
    rank[0] = (x->rank + x->n_ranks - 1) % x->n_ranks, rank[1] = (x->rank + 1) % x->n_ranks;
    return x->n_ranks < 3 ? x->n_ranks - 1 : 2;
}

/* Sends this rank's call to both neighbours, and starts to receive theirs. */
hga_status rank_call_tell(const hga_exchange *x, const rank_word *call, rank_words *buffer)
{
    hga_id rank[2], n = find_neighbours(x, rank);
    hga_packet send[2], receive[2];
    buffer->mine = *call;
    for (hga_id i = 0; i < n; i++) {
        send[i] = (hga_packet){rank[i], sizeof buffer->mine, &buffer->mine};
        receive[i] = (hga_packet){rank[i], sizeof buffer->theirs[i], &buffer->theirs[i]};
    }
    return x->start(x->ctx, HGA_CHANNEL_OF_CALLS, send, n, receive, n);
}

static const char *name_of(const rank_word *c)
{
    static const char *const names[N_RANK_CALLS] = {[RANKS_CREATE] = "makes a plan",
                                                    [RANKS_UPDATE] = "updates a plan",
                                                    [RANKS_EXECUTE] = "executes a plan",
                                                    [RANKS_GO_BACK] = "runs backward",
                                                    [RANKS_PREFILL] = "fills a cache"};
    return c->kind < N_RANK_CALLS ? names[c->kind] : "does something else";
}

/* The error of two ranks that differ; the same words on both. */
static hga_status say_different(hga_id a, hga_id b, const rank_word *of_a, const rank_word *of_b)
{
    if (a > b) return say_different(b, a, of_b, of_a);
    if (of_a->kind != of_b->kind)
        return hga_fail(HGA_EINVAL, "ranks: rank %d %s while rank %d %s", a, name_of(of_a), b, name_of(of_b));
    return hga_fail(HGA_EINVAL, "ranks: rank %d and rank %d are called with different %s", a, b,
                    of_a->plan != of_b->plan         ? "plans"
                    : of_a->samples != of_b->samples ? "numbers of samples"
                    : of_a->kind == RANKS_PREFILL    ? "cuts, homes or tables"
                                                     : "seeds, layers or tables");
}

/* Waits for the neighbours' calls and compares them with this rank's. */
hga_status rank_call_check(const hga_exchange *x, const rank_words *buffer)
{
    hga_id rank[2], n = find_neighbours(x, rank);
    hga_status st = x->wait(x->ctx, HGA_CHANNEL_OF_CALLS);
    for (hga_id i = 0; !st && i < n; i++) {
        const rank_word *a = &buffer->mine, *b = &buffer->theirs[i];
        if (a->kind != b->kind || a->plan != b->plan || a->numbers != b->numbers || a->samples != b->samples)
            st = say_different(x->rank, rank[i], a, b);
    }
    return st;
}

hga_status rank_call_meet(const hga_exchange *x, rank_word call)
{
    rank_words buffer;
    hga_status st = rank_call_tell(x, &call, &buffer);
    return st ? st : rank_call_check(x, &buffer);
}
