/* rank_run.c: a rank's execution. Tensors of float32 whose rows are one interval of nodes are used where they are, rows
   of others being in the workspace; others are copied to where all nodes have places, as one process has them. Memory
   is touched only where there are rows. Then come the passes that the plan has found: some rows are computed, and
   then a batch of messages is sent, or waited for. */
#include "bindings.h"
#include "execute.h"
#include "ranks.h"

#include <string.h>

/* ---- memory ---- */

static rank_room carve_room(const hga_plan *plan, void *memory)
{
    const struct rank_plan *r = plan->ranks;
    carver room = {.base = memory};
    rank_room x = {0};
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *h = &plan->storage[f];
        x.rows[f] = carve_floats(&room, (int64_t)h->io_n * h->heads * h->columns);
    }
    if (plan->program.has_lse) x.lse = carve_floats(&room, (int64_t)plan->storage[out].io_n * plan->shape.n_heads);
    x.sent = carve(&room, r->bytes_out, 1);
    x.received = carve(&room, r->bytes_in, 1);
    x.packet = carve(&room, r->n_messages, sizeof *x.packet);
    x.bytes = room.used;
    return x;
}

int64_t rank_bytes(const hga_plan *plan) { return plan->ranks ? carve_room(plan, NULL).bytes : 0; }

hga_status rank_create(const hga_plan *plan, hga_workspace *workspace)
{
    workspace->rank_bytes = rank_bytes(plan);
    return hga_new(&workspace->allocator, workspace->rank_bytes, 1, &workspace->rank_memory);
}

void rank_destroy(hga_workspace *workspace)
{
    hga_delete(&workspace->allocator, workspace->rank_memory, workspace->rank_bytes, 1);
}

/* ---- the caller's rows ---- */

/* The tensor's rows to their places, or back. */
static void move_rows(const hga_plan *plan, hga_id f, const hga_tensor *given, float *places, int in)
{
    const field_storage *h = &plan->storage[f];
    int64_t floats = (int64_t)h->heads * h->columns;
    for (rank_rows at = {0}; rank_rows_next(plan, f, &at);)
        for (hga_id i = 0; i < at.n; i++)
            for (hga_id head = 0; head < h->heads; head++) {
                void *row = tensor_at(given, h->heads, h->columns, at.row + i, head);
                float *place = places + (at.first + i - h->io_first) * floats + (int64_t)head * h->columns;
                if (in)
                    numbers_read(given->dtype, row, h->columns, place);
                else
                    numbers_write(given->dtype, place, h->columns, row);
            }
}

/* Log-sum-exps are a tensor of one column. */
static void move_lse_back(const hga_plan *plan, const hga_tensor *given, const float *places)
{
    hga_id f = program_bound(&plan->program, HGA_IO_OUT), heads = plan->shape.n_heads;
    for (rank_rows at = {0}; rank_rows_next(plan, f, &at);)
        for (hga_id i = 0; i < at.n; i++)
            for (hga_id h = 0; h < heads; h++)
                *(float *)tensor_at(given, heads, 1, at.row + i, h) =
                    places[(int64_t)(at.first + i - plan->storage[f].io_first) * heads + h];
}

static hga_tensor *staged_tensor(const hga_plan *plan, hga_workspace *workspace, hga_id f)
{
    return (hga_tensor *)program_tensor(&plan->program, &workspace->staged, f);
}

/* Is the tensor used where it is? */
static int is_direct(const hga_plan *plan, hga_id f, const hga_tensor *given)
{
    rank_rows at = {0};
    if (given->dtype != HGA_F32 || plan->storage[f].rounded) return 0;
    rank_rows_next(plan, f, &at);
    return !rank_rows_next(plan, f, &at);
}

void rank_bind(const hga_plan *plan, const hga_workspace *workspace, hga_id f, bound_field *x)
{
    rank_rows at = {0};
    if (!plan->ranks || !(workspace->rank.direct >> f & 1u)) return;
    rank_rows_next(plan, f, &at);
    x->io_first = at.first, x->io_n = at.n;
}

const hga_io *rank_stage(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (!plan->ranks) return io;
    rank_room room = workspace->rank = carve_room(plan, workspace->rank_memory);
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    workspace->staged = *io;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const hga_tensor *given = program_tensor(&plan->program, io, f);
        if (plan->program.field[f].binding == HGA_INTERNAL) continue;
        if (is_direct(plan, f, given)) {
            workspace->rank.direct |= 1u << f;
            continue;
        }
        move_rows(plan, f, given, room.rows[f], 1);
        *staged_tensor(plan, workspace, f) = (hga_tensor){.data = room.rows[f], .rows = plan->storage[f].io_n};
    }
    if (io->lse.data) workspace->staged.lse = (hga_tensor){.data = room.lse, .rows = plan->storage[out].io_n};
    return &workspace->staged;
}

static void give_back(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (rank_gives_back(plan, f) && !(workspace->rank.direct >> f & 1u))
            move_rows(plan, f, program_tensor(&plan->program, io, f), workspace->rank.rows[f], 0);
    }
    if (io->lse.data) move_lse_back(plan, &io->lse, workspace->rank.lse);
}

/* ---- messages ---- */

/* A row of a field, where stages have it: among copies of the caller's, or as the field is bound. */
static char *move_parcel_row(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id v, char *parcel,
                             int in)
{
    const field_storage *h = &plan->storage[f];
    const bound_field *x = &workspace->field[f];
    int copied = slice_is_given(plan, f, v) && !(workspace->rank.direct >> f & 1u),
        is_state = plan->program.field[f].width == HGA_WIDTH_STATE;
    float *row =
        copied ? workspace->rank.rows[f] + (int64_t)(v - h->io_first) * h->heads * h->columns : bound_row(x, v);
    ptrdiff_t stride = copied ? h->columns : bound_head(x, v);
    for (hga_id head = 0; head < h->heads; head++, row += stride) {
        size_t bytes = (size_t)h->columns * sizeof *row;
        in ? memcpy(row, parcel, bytes) : memcpy(parcel, row, bytes);
        parcel += bytes;
        if (!is_state) continue;
        float *lse = bound_lse(x, v) + head;
        in ? memcpy(lse, parcel, sizeof *lse) : memcpy(parcel, lse, sizeof *lse);
        parcel += sizeof *lse;
    }
    return parcel;
}

static void move_parcels(const hga_plan *plan, const hga_workspace *workspace, int64_t first, int64_t n, char *bytes,
                         int in)
{
    const struct rank_plan *r = plan->ranks;
    for (const rank_message *m = r->message + first; m < r->message + first + n; m++) {
        char *parcel = bytes + m->at;
        for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++)
            for (hga_id v = p->first; v < p->first + p->n; v++)
                parcel = move_parcel_row(plan, workspace, p->field, v, parcel, in);
    }
}

static hga_packet *list_packets(const hga_plan *plan, const hga_workspace *workspace, int64_t first, int64_t n,
                                char *bytes)
{
    const rank_message *m = plan->ranks->message;
    hga_packet *packet = workspace->rank.packet + first;
    for (int64_t i = 0; i < n; i++)
        packet[i] = (hga_packet){m[first + i].rank, m[first + i].bytes, bytes + m[first + i].at};
    return packet;
}

static hga_status start_batch(const hga_plan *plan, const hga_workspace *workspace, hga_id batch)
{
    const rank_batch *b = &plan->ranks->batch[batch];
    const hga_exchange *x = plan->ranks->exchange;
    move_parcels(plan, workspace, b->send, b->n_send, workspace->rank.sent, 0);
    return x->start(
        x->ctx, batch, list_packets(plan, workspace, b->send, b->n_send, workspace->rank.sent), (hga_id)b->n_send,
        list_packets(plan, workspace, b->receive, b->n_receive, workspace->rank.received), (hga_id)b->n_receive);
}

static hga_status wait_batch(const hga_plan *plan, const hga_workspace *workspace, hga_id batch)
{
    const rank_batch *b = &plan->ranks->batch[batch];
    const hga_exchange *x = plan->ranks->exchange;
    hga_status st = x->wait(x->ctx, batch);
    if (!st) move_parcels(plan, workspace, b->receive, b->n_receive, workspace->rank.received, 1);
    return st;
}

/* ---- passes ---- */

static hga_status run_pass(const hga_plan *plan, hga_workspace *workspace, const rank_pass *pass)
{
    hga_status st = HGA_OK;
    const pass_rows *first = plan->ranks->run + pass->run;
    slice *s = &workspace->slice;
    slice_begin(plan, s);
    for (const pass_rows *x = first; x < first + pass->n_runs; x++) slice_run_rows(plan, s, x->job, x->first, x->n);
    slice_list(plan, s);
    if (pass->n_runs) HGA_TRY(execution_run(plan, workspace));
    if (pass->start >= 0) HGA_TRY(start_batch(plan, workspace, pass->start));
    if (pass->wait >= 0) HGA_TRY(wait_batch(plan, workspace, pass->wait));
done:
    return st;
}

static hga_status run_rank(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    hga_status st = execution_begin(plan, workspace, io);
    if (st) return st;
    workspace->sliced = 1;
    for (int64_t i = 0; !st && i < plan->ranks->n_passes; i++) st = run_pass(plan, workspace, &plan->ranks->pass[i]);
    if (!st) give_back(plan, workspace, io);
    execution_forget(workspace);
    return st;
}

hga_status rank_execute(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    return plan_failed(plan, run_rank(plan, workspace, io));
}
