/* rank_messages.c: from transfers between two ranks to messages, batch by batch. */
#include "ranks.h"
#include "sort.h"

static int leg_before(const rank_leg *a, const rank_leg *b)
{
    if (a->batch != b->batch) return a->batch < b->batch;
    if (a->from != b->from) return a->from < b->from;
    if (a->to != b->to) return a->to < b->to;
    return a->at < b->at;
}
SORT_DEFINE(sort_legs, rank_leg, leg_before)

hga_status legs_add(const struct rank_plan *r, const rank_transfer *t, hga_id batch, int64_t at, leg_list *l)
{
    hga_status st = HGA_OK;
    hga_id me = r->exchange->rank;
    hga_id first = t->to == HGA_EVERY_RANK ? 0 : t->to,
           last = t->to == HGA_EVERY_RANK ? r->exchange->n_ranks - 1 : t->to;
    for (hga_id to = first; to <= last; to++) {
        if (to == t->from || (to != me && t->from != me)) continue;
        HGA_TRY(hga_grow(&r->allocator, &l->leg, &l->room, l->n, l->n + 1, sizeof *l->leg));
        l->leg[l->n++] = (rank_leg){batch, t->from, to, at, t->part, t->bytes};
    }
done:
    return st;
}

void legs_clear(const struct rank_plan *r, leg_list *l) { hga_delete(&r->allocator, l->leg, l->room, sizeof *l->leg); }

/* Messages of one way, of which a batch's come one behind the other. */
static hga_status list_messages(struct rank_plan *r, const leg_list *l, int sends, int64_t *bytes)
{
    hga_status st = HGA_OK;
    const rank_leg *before = NULL;
    for (const rank_leg *x = l->leg; x < l->leg + l->n; x++) {
        if ((x->from == r->exchange->rank) != sends) continue;
        rank_batch *b = &r->traffic.batch[x->batch];
        hga_id other = sends ? x->to : x->from;
        int64_t *n = sends ? &b->n_send : &b->n_receive;
        if (*n == 0) *(sends ? &b->send : &b->receive) = r->traffic.n_messages;
        if (!before || before->batch != x->batch || before->from != x->from || before->to != x->to) {
            HGA_TRY(hga_grow(&r->allocator, &r->traffic.message, &r->traffic.message_room, r->traffic.n_messages,
                             r->traffic.n_messages + 1, sizeof *r->traffic.message));
            r->traffic.message[r->traffic.n_messages++] =
                (rank_message){.rank = other, .part = r->traffic.n_parts, .at = *bytes};
            ++*n;
        }
        HGA_TRY(hga_grow(&r->allocator, &r->traffic.part, &r->traffic.part_room, r->traffic.n_parts,
                         r->traffic.n_parts + 1, sizeof *r->traffic.part));
        r->traffic.part[r->traffic.n_parts++] = x->part;
        rank_message *m = &r->traffic.message[r->traffic.n_messages - 1];
        m->n_parts++, m->bytes += x->bytes, *bytes += x->bytes;
        before = x;
    }
done:
    return st;
}

hga_status legs_to_messages(struct rank_plan *r, leg_list *l)
{
    sort_legs(l->leg, l->n);
    hga_status st = list_messages(r, l, 1, &r->traffic.bytes_out);
    return st ? st : list_messages(r, l, 0, &r->traffic.bytes_in);
}
