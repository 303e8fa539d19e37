/* rank_call.c: what a rank brings, with places for all nodes, so that ways find its rows where one process has them.
   The memory of other rows is not touched. */
#include "rank_call.h"

#include <string.h>

/* ---- rows that a call has ---- */

/* Rows that were received, of those that callers gave: what goes home last. */
static int received_next(const struct rank_plan *r, hga_id f, call_rows *x)
{
    const rank_batch *b = &r->back[r->n_back - 1].batch;
    for (const rank_message *m = r->message + b->send; m < r->message + b->send + b->n_send; m++)
        for (int64_t i = m->part > x->part ? m->part : x->part; i < m->part + m->n_parts; i++)
            if (r->part[i].field == f) {
                x->first = r->part[i].first, x->n = r->part[i].n, x->part = i + 1;
                return 1;
            }
    return 0;
}

int call_rows_next(const gradient_call *c, hga_id f, call_rows *x)
{
    if (!c->plan->ranks) {
        if (!x->part++) x->n = field_io(c->plan, f, &x->first);
        return x->part == 1;
    }
    if (x->part == 0 && rank_rows_next(c->plan, f, &x->own)) {
        x->first = x->own.first, x->n = x->own.n;
        return 1;
    }
    return received_next(c->plan->ranks, f, x);
}

/* Of all rows that were received, whosever they are. */
static int parts_next(const struct rank_plan *r, hga_id f, call_rows *x)
{
    for (; x->part < r->n_received_parts; x->part++) {
        const rank_part *p = &r->part[r->received_part + x->part];
        if (p->field != f) continue;
        x->first = p->first, x->n = p->n, x->part++;
        return 1;
    }
    return 0;
}

int call_nodes_next(const gradient_call *c, hga_id f, call_rows *x)
{
    const struct rank_plan *r = c->plan->ranks;
    if (!r) {
        x->n = c->plan->nodes.n;
        return !x->part++;
    }
    if (x->own.interval < r->n_mine) {
        const hga_interval *mine = &r->mine[x->own.interval];
        x->first = (hga_id)mine->first, x->n = (hga_id)mine->n;
        x->own.interval++;
        return 1;
    }
    return parts_next(r, f, x);
}

int call_computes(const gradient_call *c, hga_id v) { return !c->plan->ranks || rank_computes(c->plan->ranks, v); }

int call_has_loss(const gradient_call *c, hga_id v)
{
    const struct rank_plan *r = c->plan->ranks;
    return !r || r->owner[v] == r->exchange->rank || (r->owner[v] == OWNED_BY_ALL && r->exchange->rank == 0);
}

/* ---- memory ---- */

static hga_tensor *tensor_of(const hga_plan *plan, hga_io *io, hga_id f)
{
    return (hga_tensor *)program_tensor(&plan->program, io, f);
}
static hga_tensor *gradient_of(const hga_plan *plan, hga_grad_io *grad, hga_id f)
{
    return (hga_tensor *)program_gradient(&plan->program, grad, f);
}

/* All rows of a field's tensor, packed; the output keeps its type, which formulas look at. */
static hga_tensor whole_tensor(const hga_plan *plan, hga_id f, void *data, const hga_tensor *like)
{
    return (hga_tensor){.data = data, .rows = plan->storage[f].io_n, .dtype = like ? like->dtype : HGA_F32};
}

void rank_lay_out(const hga_plan *plan, rank_call *r, carver *room)
{
    const struct rank_plan *ranks = plan->ranks;
    int64_t n_lse = plan->storage[program_bound(&plan->program, HGA_IO_OUT)].io_n * (int64_t)plan->shape.n_heads;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *h = &plan->storage[f];
        int64_t floats = (int64_t)h->io_n * h->heads * h->columns;
        if (plan->program.field[f].binding == HGA_INTERNAL) continue;
        tensor_of(plan, &r->io, f)->data = carve_floats(room, floats);
        gradient_of(plan, &r->grad, f)->data = carve_floats(room, floats);
    }
    r->lse = carve_floats(room, n_lse), r->grad.d_lse.data = carve_floats(room, n_lse);
    r->sent = carve(room, ranks->back_out, 1), r->received = carve(room, ranks->back_in, 1);
    r->packet = carve(room, ranks->n_messages, sizeof *r->packet);
    r->mine = carve(room, GATHERED, sizeof *r->mine);
    r->all = carve(room, (int64_t)ranks->exchange->n_ranks * GATHERED, sizeof *r->all);
}

/* Every field's tensor is a whole one, and its gradient wanted. */
static void make_whole(gradient_call *c, rank_call *r, const hga_io *io, const hga_grad_io *given)
{
    const hga_plan *plan = c->plan;
    hga_io whole = *io;
    hga_grad_io wanted = *given;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        int out = plan->program.field[f].binding == HGA_IO_OUT;
        if (plan->program.field[f].binding == HGA_INTERNAL) continue;
        *tensor_of(plan, &whole, f) =
            whole_tensor(plan, f, tensor_of(plan, &r->io, f)->data, out ? program_tensor(&plan->program, io, f) : NULL);
        *gradient_of(plan, &wanted, f) = whole_tensor(plan, f, gradient_of(plan, &r->grad, f)->data,
                                                      out ? program_gradient(&plan->program, given, f) : NULL);
    }
    wanted.accumulate = 0;
    wanted.d_lse = (hga_tensor){.data = given->d_lse.data ? r->grad.d_lse.data : NULL,
                                .rows = plan->storage[program_bound(&plan->program, HGA_IO_OUT)].io_n};
    r->io = whole, r->grad = wanted;
    c->io = &r->io, c->grad = &r->grad, c->ranks = r;
}

void rank_describe(gradient_call *c, rank_call *r)
{
    for (hga_id f = 1; f <= c->plan->program.n_fields; f++) {
        if (c->plan->program.field[f].binding == HGA_INTERNAL) continue;
        tensor_of(c->plan, &r->io, f)->data = gradient_of(c->plan, &r->grad, f)->data = r;
    }
    r->grad.d_lse.data = r;
    make_whole(c, r, c->io, c->grad);
}

/* ---- the caller's rows ---- */

static void copy_rows(const hga_plan *plan, hga_id f, hga_id columns, const hga_tensor *from, const hga_tensor *to)
{
    const field_storage *h = &plan->storage[f];
    size_t bytes = (size_t)columns * dtype_bytes(from->dtype);
    for (rank_rows at = {0}; rank_rows_next(plan, f, &at);)
        for (hga_id i = 0; i < at.n; i++)
            for (hga_id head = 0; head < h->heads; head++) {
                const void *row = tensor_at(from, h->heads, columns, at.row + i, head);
                void *place = tensor_at(to, h->heads, columns, at.first + i - h->io_first, head);
                if (from->dtype == to->dtype)
                    memcpy(place, row, bytes);
                else
                    numbers_read(from->dtype, row, columns, place);
            }
}

static void put_given(void *context, hga_id f, hga_id v, const float *row)
{
    const gradient_call *c = context;
    const field_storage *h = &c->plan->storage[f];
    memcpy(tensor_at(field_tensor(c, f), h->heads, h->columns, v - h->io_first, 0), row,
           (size_t)h->heads * (size_t)h->columns * sizeof *row);
}

void rank_open(gradient_call *c, rank_call *r, const hga_io *io, const hga_grad_io *given)
{
    const hga_plan *plan = c->plan;
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    make_whole(c, r, io, given);
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (plan->program.field[f].binding == HGA_INTERNAL) continue;
        copy_rows(plan, f, field_columns(plan, f), program_tensor(&plan->program, io, f), field_tensor(c, f));
    }
    copy_rows(plan, out, field_columns(plan, out), &given->d_out, &r->grad.d_out);
    if (given->d_lse.data) copy_rows(plan, out, 1, &given->d_lse, &r->grad.d_lse);
    r->halo = tape_received(plan, io->tape);
    if (c->tape_lse) {
        const hga_tensor lse = {.data = tape_lse(io->tape)}, to = {.data = r->lse};
        if (tape_lses(plan)) copy_rows(plan, out, 1, &lse, &to);
        c->tape_lse = r->lse;
    }
    each_received_given(c, c, put_given);
}

static void store_row(const gradient_call *c, hga_id f, const hga_tensor *t, int64_t row, hga_id v, hga_id head,
                      int adds)
{
    const field_storage *h = &c->plan->storage[f];
    const float *from = tensor_at(field_gradient(c, f), h->heads, h->columns, v - h->io_first, head);
    void *to = tensor_at(t, h->heads, h->columns, row, head);
    enum { PART = 64 };
    float x[PART];
    for (hga_id at = 0; at < h->columns; at += PART) {
        hga_id n = h->columns - at < PART ? h->columns - at : PART;
        void *here = (char *)to + (size_t)at * dtype_bytes(t->dtype);
        if (adds) numbers_read(t->dtype, here, n, x);
        for (hga_id i = 0; i < n; i++) x[i] = adds ? x[i] + from[at + i] : from[at + i];
        numbers_write(t->dtype, x, n, here);
    }
}

void rank_store(const gradient_call *c, const hga_grad_io *wanted)
{
    const hga_plan *plan = c->plan;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const hga_tensor *t = program_gradient(&plan->program, wanted, f);
        if (!program_is_input(plan->program.field[f].binding) || !t || !t->data) continue;
        for (rank_rows at = {0}; rank_rows_next(plan, f, &at);)
            for (hga_id i = 0; i < at.n; i++)
                for (hga_id h = 0; h < plan->storage[f].heads; h++)
                    store_row(c, f, t, at.row + i, at.first + i, h, wanted->accumulate);
    }
}

/* ---- rows that were given go home, all heads at once ---- */

static float *given_row(const gradient_call *c, hga_id f, hga_id v)
{
    const field_storage *h = &c->plan->storage[f];
    return tensor_at(field_gradient(c, f), h->heads, h->columns, v - h->io_first, 0);
}

static void take_given(void *context, hga_id f, hga_id v, float *parcel)
{
    const field_storage *h = &((const gradient_call *)context)->plan->storage[f];
    float *row = given_row(context, f, v);
    size_t bytes = (size_t)h->heads * (size_t)h->columns * sizeof *row;
    memcpy(parcel, row, bytes), memset(row, 0, bytes); /* a row that was sent twice goes home once */
}

static void add_given(void *context, hga_id f, hga_id v, const float *parcel)
{
    const field_storage *h = &((const gradient_call *)context)->plan->storage[f];
    float *row = given_row(context, f, v);
    for (int64_t i = 0; i < (int64_t)h->heads * h->columns; i++) row[i] += parcel[i];
}

hga_status rank_return_given(gradient_call *c)
{
    row_mover m = {.context = c, .take = take_given, .add = add_given};
    for (hga_id f = 1; f <= c->plan->program.n_fields; f++)
        m.floats[f] = (int64_t)field_heads(c->plan, f) * field_columns(c->plan, f);
    return return_gradients(c, -1, 0, &m);
}
