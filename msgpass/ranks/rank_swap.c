/* rank_swap.c: each rank has some rows of all heads, and receives all rows of some heads; or the other way round.
   Heads are received in place, and sent from there: rows of one owner are contiguous. A row that all ranks have is
   not sent to heads, but its gradient is sent to every rank. */
#include "plan.h"
#include "rank_heads.h"

#include <string.h>

hga_id heads_of_rank(const hga_plan *plan, hga_id rank, hga_id *first)
{
    int64_t heads = plan->shape.n_kv_heads, n_ranks = plan->share.ranks->exchange->n_ranks;
    *first = (hga_id)(heads * rank / n_ranks);
    return (hga_id)(heads * (rank + 1) / n_ranks);
}

/* Rows [first, first + n) of a field's tensor that one rank or all ranks own, from a zeroed struct on; `row`: the
   index of the first in the rank's own tensor, if it has them. */
typedef struct row_run {
    int64_t at, next_row, row;
    hga_id first, n, owner;
} row_run;

static int is_here(const struct rank_plan *r, hga_id owner)
{
    return owner == r->exchange->rank || owner == OWNED_BY_ALL;
}

/* Finds the next run of the tensor's rows that have one owner; 0: there is none. */
static int owned_next(const hga_plan *plan, hga_id field, row_run *x)
{
    const struct rank_plan *r = plan->share.ranks;
    const field_storage *f = &plan->fields.storage[field];
    while (x->at < r->rows.n_owned) {
        const owned_nodes *o = &r->rows.owned[x->at++];
        hga_id first = o->first > f->io_first ? o->first : f->io_first, end = o->first + o->n;
        if (end > f->io_first + f->io_n) end = f->io_first + f->io_n;
        if (first >= end) continue;
        x->first = first - f->io_first, x->n = end - first, x->owner = o->owner;
        x->row = x->next_row;
        if (is_here(r, x->owner)) x->next_row += x->n;
        return 1;
    }
    return 0;
}

int64_t swap_packets(const hga_plan *plan)
{
    const struct rank_plan *r = plan->share.ranks;
    int64_t here = 0;
    for (int64_t i = 0; i < r->rows.n_owned; i++) here += is_here(r, r->rows.owned[i].owner);
    return r->rows.n_owned + here * r->exchange->n_ranks;
}

/* The heads of a rank, of `heads`. */
typedef struct some_heads {
    hga_id first, n;
} some_heads;

static some_heads heads_at(const hga_plan *plan, hga_id heads, hga_id rank)
{
    hga_id group = heads / plan->shape.n_kv_heads, first, end = heads_of_rank(plan, rank, &first);
    return (some_heads){first * group, (end - first) * group};
}

int64_t swap_bytes(const hga_plan *plan, hga_id field, hga_id heads, hga_id columns, size_t number)
{
    some_heads own = heads_at(plan, heads, plan->share.ranks->exchange->rank);
    return (int64_t)plan->fields.storage[field].input_n * (heads - own.n) * columns * (int64_t)number;
}

/* ---- rows ---- */

/* Copies some heads of n of the rank's own rows, from `row` on, to or from contiguous memory. Returns its end. */
static char *move_rows(const head_swap *s, int64_t row, hga_id n, some_heads heads, char *packed, int to_mine)
{
    const hga_tensor *t = s->mine;
    int together = t->head_stride == 0 || t->head_stride == s->columns;
    hga_id parts = together ? 1 : heads.n;
    size_t bytes = dtype_bytes(t->dtype) * (size_t)s->columns * (size_t)(heads.n / parts),
           all = (size_t)n * (size_t)parts;
    if (!t->data && !to_mine) memset(packed, 0, all * bytes);
    for (hga_id h = 0; t->data && n > 0 && h < parts; h++) {
        char *mine = tensor_at(t, s->heads, s->columns, row, heads.first + h), *at = packed + (size_t)h * bytes;
        ptrdiff_t step = (char *)tensor_at(t, s->heads, s->columns, row + 1, heads.first + h) - mine;
        for (hga_id i = 0; i < n; i++, mine += step, at += (size_t)parts * bytes)
            memcpy(to_mine ? mine : at, to_mine ? at : mine, bytes);
    }
    return packed + all * bytes;
}

static char *row_here(const head_swap *s, hga_id row)
{
    some_heads own = heads_at(s->of->plan, s->heads, s->of->plan->share.ranks->exchange->rank);
    return tensor_at(s->here, s->heads, s->columns, row, own.first);
}

static int64_t bytes_of(const head_swap *s, hga_id rows, some_heads heads)
{
    return (int64_t)rows * heads.n * s->columns * (int64_t)dtype_bytes(s->here->dtype);
}

/* Copies the rank's own rows of its own heads. */
static void move_own(const head_swap *s, int to_mine)
{
    const struct rank_plan *r = s->of->plan->share.ranks;
    some_heads own = heads_at(s->of->plan, s->heads, r->exchange->rank);
    for (row_run x = {0}; own.n && owned_next(s->of->plan, s->field, &x);)
        if (is_here(r, x.owner)) move_rows(s, x.row, x.n, own, row_here(s, x.first), to_mine);
}

/* ---- packets ---- */

typedef struct packets {
    hga_packet *packet;
    hga_id n;
} packets;

static void add_packet(packets *p, hga_id rank, int64_t bytes, void *data)
{
    if (bytes) p->packet[p->n++] = (hga_packet){rank, bytes, data};
}

/* Lists packets between the rank's own rows, in the buffer, and the heads of others; `home`: of shared rows, too. */
static void list_rows(const head_swap *s, int home, packets *p)
{
    const hga_plan *plan = s->of->plan;
    const struct rank_plan *r = plan->share.ranks;
    char *at = s->of->buffer;
    for (hga_id k = 0; k < r->exchange->n_ranks; k++) {
        some_heads theirs = heads_at(plan, s->heads, k);
        for (row_run x = {0}; k != r->exchange->rank && theirs.n && owned_next(plan, s->field, &x);) {
            if (x.owner != r->exchange->rank && !(home && x.owner == OWNED_BY_ALL)) continue;
            add_packet(p, k, bytes_of(s, x.n, theirs), at);
            if (!home) move_rows(s, x.row, x.n, theirs, at, 0);
            at += bytes_of(s, x.n, theirs);
        }
    }
}

/* Lists packets between the heads here and the ranks that own rows. */
static void list_heads(const head_swap *s, int home, packets *p)
{
    const hga_plan *plan = s->of->plan;
    const struct rank_plan *r = plan->share.ranks;
    some_heads own = heads_at(plan, s->heads, r->exchange->rank);
    for (row_run x = {0}; own.n && owned_next(plan, s->field, &x);) {
        int64_t bytes = bytes_of(s, x.n, own);
        if (x.owner != OWNED_BY_ALL && x.owner != r->exchange->rank)
            add_packet(p, x.owner, bytes, row_here(s, x.first));
        for (hga_id k = 0; home && x.owner == OWNED_BY_ALL && k < r->exchange->n_ranks; k++)
            if (k != r->exchange->rank) add_packet(p, k, bytes, row_here(s, x.first));
    }
}

/* Exchanges the packets; the rank's own rows are copied meanwhile. */
static hga_status run_swap(const head_swap *s, const packets *send, const packets *receive, int home)
{
    hga_status st = HGA_OK;
    const struct rank_plan *r = s->of->plan->share.ranks;
    const hga_exchange *e = r->exchange;
    int channel = rank_channel((hga_id)r->traffic.n_batches);
    HGA_TRY(e->start(e->ctx, channel, send->packet, send->n, receive->packet, receive->n));
    move_own(s, home);
    HGA_TRY(e->wait(e->ctx, channel));
done:
    return st;
}

hga_status swap_to_heads(const head_swap *s)
{
    packets send = {.packet = s->of->send}, receive = {.packet = s->of->receive};
    list_rows(s, 0, &send), list_heads(s, 0, &receive);
    return run_swap(s, &send, &receive, 0);
}

/* Copies the rank's own rows out of the buffer, in the order of the ranks that have their heads. */
static void take_own_rows(const head_swap *s)
{
    const hga_plan *plan = s->of->plan;
    const struct rank_plan *r = plan->share.ranks;
    char *at = s->of->buffer;
    for (hga_id k = 0; k < r->exchange->n_ranks; k++) {
        some_heads theirs = heads_at(plan, s->heads, k);
        for (row_run x = {0}; k != r->exchange->rank && theirs.n && owned_next(plan, s->field, &x);)
            if (is_here(r, x.owner)) at = move_rows(s, x.row, x.n, theirs, at, 1);
    }
}

hga_status swap_to_rows(const head_swap *s)
{
    packets send = {.packet = s->of->send}, receive = {.packet = s->of->receive};
    list_heads(s, 1, &send), list_rows(s, 1, &receive);
    hga_status st = run_swap(s, &send, &receive, 1);
    if (!st) take_own_rows(s);
    return st;
}
