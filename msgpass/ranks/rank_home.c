/* rank_home.c: what a rank asks of rows that it has received goes home, by the lists that the plan has made. */
#include "rank_call.h"

/* ---- messages ---- */

static int64_t message_floats(const struct rank_plan *r, const rank_message *m, const row_mover *by)
{
    int64_t n = 0;
    for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++)
        n += p->n * by->floats[p->field];
    return n;
}

/* Packets of messages, which lie where those of all heads would. */
static hga_packet *list_packets(const gradient_call *c, int64_t first, int64_t n, char *bytes, const row_mover *by)
{
    const struct rank_plan *r = c->plan->ranks;
    hga_packet *packet = c->ranks->packet + first;
    for (int64_t i = 0; i < n; i++) {
        const rank_message *m = &r->message[first + i];
        packet[i] = (hga_packet){m->rank, message_floats(r, m, by) * (int64_t)sizeof(float), bytes + m->at};
    }
    return packet;
}

static void take_parcels(const gradient_call *c, const rank_batch *b, const row_mover *by)
{
    const struct rank_plan *r = c->plan->ranks;
    for (const rank_message *m = r->message + b->send; m < r->message + b->send + b->n_send; m++) {
        float *parcel = (float *)(void *)(c->ranks->sent + m->at);
        for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++)
            for (hga_id v = p->first; v < p->first + p->n; v++, parcel += by->floats[p->field])
                by->take(by->context, p->field, v, parcel);
    }
}

/* In the order of the ranks, in which messages are. */
static void add_parcels(const gradient_call *c, const rank_batch *b, const row_mover *by)
{
    const struct rank_plan *r = c->plan->ranks;
    for (const rank_message *m = r->message + b->receive; m < r->message + b->receive + b->n_receive; m++) {
        const float *parcel = (const float *)(const void *)(c->ranks->received + m->at);
        for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++)
            for (hga_id v = p->first; v < p->first + p->n; v++, parcel += by->floats[p->field])
                by->add(by->context, p->field, v, parcel);
    }
}

static hga_status run_return(const gradient_call *c, const rank_return *x, const row_mover *by)
{
    hga_status st = HGA_OK;
    const struct rank_plan *r = c->plan->ranks;
    const rank_batch *b = &x->batch;
    const hga_exchange *e = r->exchange;
    int channel = rank_channel((hga_id)(r->n_batches + (x - r->back)));
    take_parcels(c, b, by);
    HGA_TRY(e->start(e->ctx, channel, list_packets(c, b->send, b->n_send, c->ranks->sent, by), (hga_id)b->n_send,
                     list_packets(c, b->receive, b->n_receive, c->ranks->received, by), (hga_id)b->n_receive));
    HGA_TRY(e->wait(e->ctx, channel));
    add_parcels(c, b, by);
done:
    return st;
}

hga_status return_gradients(const gradient_call *c, hga_id stage, hga_id level, const row_mover *m)
{
    hga_status st = HGA_OK;
    const struct rank_plan *r = c->plan->ranks;
    for (const rank_return *x = r->back; !st && x < r->back + r->n_back; x++)
        if (x->stage == stage && x->level == level) st = run_return(c, x, m);
    return st;
}

/* ---- what the execution received ---- */

static int is_given(const hga_plan *plan, hga_id field, hga_id v)
{
    const field_storage *h = &plan->storage[field];
    return !rank_gives_back(plan, field) && v >= h->io_first && v < h->io_first + h->io_n;
}

static void each_row(const gradient_call *c, int given, void *context, row_visit put)
{
    const struct rank_plan *r = c->plan->ranks;
    for (const rank_batch *b = r->batch; b < r->batch + r->n_batches; b++)
        for (const rank_message *m = r->message + b->receive; m < r->message + b->receive + b->n_receive; m++) {
            const float *row = (const float *)(const void *)(c->ranks->halo + m->at);
            for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++) {
                int64_t state = c->plan->program.field[p->field].width == HGA_WIDTH_STATE,
                        floats = (field_columns(c->plan, p->field) + state) * field_heads(c->plan, p->field);
                for (hga_id v = p->first; v < p->first + p->n; v++, row += floats)
                    if (is_given(c->plan, p->field, v) == given) put(context, p->field, v, row);
            }
        }
}

void each_received(const gradient_call *c, void *context, row_visit put) { each_row(c, 0, context, put); }
void each_received_given(const gradient_call *c, void *context, row_visit put) { each_row(c, 1, context, put); }
