/* rank_run.c: a rank's execution. The caller's tensors have the rank's rows; rows of others are in the workspace.
   Then the passes run that the plan has found: what a batch of messages sends, and, while batches are under way, all
   that does not need them. */
#include "execution.h"
#include "rank_lists.h"
#include "plan.h"
#include "rank_memory.h"
#include "splits.h"
#include "stage_kernel.h"

#include <string.h>

/* ---- messages ---- */

/* Copies a row of a field, before it is rounded, to or from a parcel; returns the parcel's rest. */
static char *move_parcel_row(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id v, char *parcel,
                             int in)
{
    const field_storage *h = &plan->fields.storage[f];
    const bound_field *x = &workspace->field[f];
    int is_state = plan->program.field[f].width == HGA_WIDTH_STATE;
    float *row = bound_row(x, v);
    ptrdiff_t stride = bound_head(x, v);
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

/* Copies rows, or a split, to or from a parcel. */
static char *move_part(const hga_plan *plan, const hga_workspace *workspace, const rank_part *p, char *parcel, int in)
{
    for (hga_id v = p->first; p->field && v < p->first + p->n; v++)
        parcel = move_parcel_row(plan, workspace, p->field, v, parcel, in);
    if (p->field) return parcel;
    if (!in) splits_merge(plan, workspace, p->stage, p->first, p->first + p->n);
    return plan_kernel(plan, p->stage)->splits->move(plan, workspace, p->stage, p->first, parcel, in);
}

static void move_parcels(const hga_plan *plan, const hga_workspace *workspace, int64_t first, int64_t n, char *bytes,
                         int in)
{
    const struct rank_plan *r = plan->share.ranks;
    for (int64_t i = first; i < first + n; i++) {
        const rank_message *m = &r->traffic.message[i];
        char *parcel = bytes + m->at;
        for (const rank_part *p = r->traffic.part + m->part; p < r->traffic.part + m->part + m->n_parts; p++)
            parcel = move_part(plan, workspace, p, parcel, in);
    }
}

static hga_packet *list_packets(const hga_plan *plan, const hga_workspace *workspace, int64_t first, int64_t n,
                                char *bytes)
{
    const rank_message *m = plan->share.ranks->traffic.message;
    if (n == 0) return NULL;
    hga_packet *packet = memory_of(workspace)->packet + first;
    for (int64_t i = 0; i < n; i++)
        packet[i] = (hga_packet){m[first + i].rank, m[first + i].bytes, bytes + m[first + i].at};
    return packet;
}

static hga_status start_batch(const hga_plan *plan, const hga_workspace *workspace, hga_id batch)
{
    const rank_batch *b = &plan->share.ranks->traffic.batch[batch];
    const hga_exchange *x = plan->share.ranks->exchange;
    move_parcels(plan, workspace, b->send, b->n_send, memory_of(workspace)->sent, 0);
    return x->start(x->ctx, rank_channel(batch),
                    list_packets(plan, workspace, b->send, b->n_send, memory_of(workspace)->sent), (hga_id)b->n_send,
                    list_packets(plan, workspace, b->receive, b->n_receive, memory_of(workspace)->received),
                    (hga_id)b->n_receive);
}

static hga_status wait_batch(const hga_plan *plan, const hga_workspace *workspace, hga_id batch)
{
    const rank_batch *b = &plan->share.ranks->traffic.batch[batch];
    const hga_exchange *x = plan->share.ranks->exchange;
    hga_status st = x->wait(x->ctx, rank_channel(batch));
    if (!st) move_parcels(plan, workspace, b->receive, b->n_receive, memory_of(workspace)->received, 1);
    return st;
}

/* ---- passes ---- */

static hga_status run_pass(const hga_plan *plan, hga_workspace *workspace, const rank_pass *pass)
{
    const pass_rows *run = plan->share.ranks->passes.run;
    slice *s = &workspace->sliced.slice;
    if (pass->n_runs == 0) return HGA_OK;
    slice_begin(plan, s);
    for (int64_t i = pass->run; i < pass->run + pass->n_runs; i++)
        slice_run_rows(plan, s, run[i].job, run[i].first, run[i].n);
    slice_list(plan, s);
    return execution_run(plan, workspace);
}

static hga_status tell_call(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, hga_id samples)
{
    const rank_word call = rank_word_of(RANKS_EXECUTE, plan, io, samples);
    return rank_call_tell(plan->share.ranks->exchange, &call, memory_of(workspace)->call);
}

/* Batches that can go are sent first, for others wait for them; then passes run that do not need the next batch,
   until it has arrived or no such pass is left. */
static hga_status run_passes(const hga_plan *plan, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    const struct rank_plan *r = plan->share.ranks;
    const hga_exchange *x = r->exchange;
    hga_id started = 0, ahead = 0, come = 0;
    int met = 0;
    for (int64_t next = 0; next < r->passes.n_passes || come < r->traffic.n_batches;) {
        for (; started < r->traffic.n_batches && r->traffic.batch[started].before.needs <= come; started++) {
            HGA_TRY(run_pass(plan, workspace, &r->traffic.batch[started].before));
            HGA_TRY(start_batch(plan, workspace, started));
        }
        if (ahead == come && come < r->traffic.n_batches)
            HGA_TRY(run_pass(plan, workspace, &r->traffic.batch[ahead++].ahead));
        int can_run = next < r->passes.n_passes && r->passes.pass[next].needs <= come, is_there = !can_run;
        if (can_run && come < r->traffic.n_batches) HGA_TRY(x->test(x->ctx, rank_channel(come), &is_there));
        if (is_there && !met++) HGA_TRY(rank_call_check(x, memory_of(workspace)->call));
        if (is_there)
            HGA_TRY(wait_batch(plan, workspace, come++));
        else
            HGA_TRY(run_pass(plan, workspace, &r->passes.pass[next++]));
    }
    if (!met) st = rank_call_check(x, memory_of(workspace)->call);
done:
    return st;
}

/* Runs a rank's execution; one without samples only meets the others. */
static hga_status run_rank(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, hga_id samples)
{
    if (samples == 0) return rank_call_meet(plan->share.ranks->exchange, rank_word_of(RANKS_EXECUTE, plan, NULL, 0));
    workspace->sliced.on = 1;
    if (plan->share.ranks->n_splits) memset(memory_of(workspace)->merged, 0, (size_t)plan->share.ranks->n_splits);
    hga_status st = tell_call(plan, workspace, io, samples);
    if (!st) st = run_passes(plan, workspace);
    if (!st) rank_give_back(plan, workspace, io);
    if (!st && io->tape) tape_end(plan, workspace, io);
    return st;
}

/* Has the split been merged? Other ranks' splits are received; this rank merges its own once. */
static int has_merged(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi)
{
    const struct rank_plan *r = plan->share.ranks;
    int64_t i = rank_split_at(r, stage, lo, hi);
    if (i < 0) return 0;
    if (!rank_makes(r, &r->split[i])) return 1;
    int merged = memory_of(workspace)->merged[i];
    memory_of(workspace)->merged[i] = 1;
    return merged;
}

const struct shared_execution rank_execution = {rank_memory_bytes, rank_stage, has_merged, run_rank};
