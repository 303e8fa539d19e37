/* rank_messages.c: from transfers between two ranks to messages, batch by batch. */
#include "ranks.h"
#include "rank_lists.h"
#include "sort.h"

static int hop_before(const rank_hop *a, const rank_hop *b)
{
    if (a->batch != b->batch) return a->batch < b->batch;
    if (a->from != b->from) return a->from < b->from;
    if (a->to != b->to) return a->to < b->to;
    return a->at < b->at;
}
SORT_DEFINE(sort_hops, rank_hop, hop_before)

/* Adds a hop for each rank that a transfer goes to, if this rank is at one end of it. */
hga_status hops_add(const struct rank_plan *r, const rank_transfer *t, hga_id batch, int64_t at, hop_list *l)
{
    hga_status st = HGA_OK;
    hga_id me = r->exchange->rank;
    hga_id first = t->to == HGA_EVERY_RANK ? 0 : t->to,
           last = t->to == HGA_EVERY_RANK ? r->exchange->n_ranks - 1 : t->to;
    for (hga_id to = first; to <= last; to++) {
        if (to == t->from || (to != me && t->from != me)) continue;
        HGA_TRY(hga_grow(&r->allocator, &l->hop, &l->capacity, l->n, l->n + 1, sizeof *l->hop));
        l->hop[l->n++] = (rank_hop){batch, t->from, to, at, t->part, t->bytes};
    }
done:
    return st;
}

void hops_clear(const struct rank_plan *r, hop_list *l)
{
    hga_delete(&r->allocator, l->hop, l->capacity, sizeof *l->hop);
}

/* Lists messages of one direction; those of a batch are contiguous. */
static hga_status list_messages(struct rank_plan *r, const hop_list *l, int sends, int64_t *bytes)
{
    hga_status st = HGA_OK;
    const rank_hop *before = NULL;
    for (int64_t i = 0; i < l->n; i++) {
        const rank_hop *x = &l->hop[i];
        if ((x->from == r->exchange->rank) != sends) continue;
        rank_batch *b = &r->traffic.batch[x->batch];
        hga_id other = sends ? x->to : x->from;
        int64_t *n = sends ? &b->n_send : &b->n_receive;
        if (*n == 0) *(sends ? &b->send : &b->receive) = r->traffic.n_messages;
        if (!before || before->batch != x->batch || before->from != x->from || before->to != x->to) {
            HGA_TRY(hga_grow(&r->allocator, &r->traffic.message, &r->traffic.message_capacity, r->traffic.n_messages,
                             r->traffic.n_messages + 1, sizeof *r->traffic.message));
            r->traffic.message[r->traffic.n_messages++] =
                (rank_message){.rank = other, .part = r->traffic.n_parts, .at = *bytes};
            ++*n;
        }
        HGA_TRY(hga_grow(&r->allocator, &r->traffic.part, &r->traffic.part_capacity, r->traffic.n_parts,
                         r->traffic.n_parts + 1, sizeof *r->traffic.part));
        r->traffic.part[r->traffic.n_parts++] = x->part;
        rank_message *m = &r->traffic.message[r->traffic.n_messages - 1];
        m->n_parts++, m->bytes += x->bytes, *bytes += x->bytes;
        before = x;
    }
done:
    return st;
}

hga_status hops_to_messages(struct rank_plan *r, hop_list *l)
{
    sort_hops(l->hop, l->n);
    hga_status st = list_messages(r, l, 1, &r->traffic.bytes_out);
    return st ? st : list_messages(r, l, 0, &r->traffic.bytes_in);
}
