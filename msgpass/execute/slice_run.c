/* slice_run.c: a workspace's slice: which rows an execution runs, and which are present. */
#include "slice_run.h"
#include "plan.h"
#include "ranges.h"

#include <string.h>

hga_status slice_create(const hga_plan *plan, hga_workspace *workspace)
{
    workspace->slice_bytes = slices_bytes(plan);
    hga_status st = hga_new_zero(&workspace->base.allocator, workspace->slice_bytes, 1, &workspace->slice_memory);
    if (!st && plan->slices) slice_open(plan, &workspace->slice, workspace->slice_memory);
    return st;
}

void slice_destroy(hga_workspace *workspace)
{
    hga_delete(&workspace->base.allocator, workspace->slice_memory, workspace->slice_bytes, 1);
}

int slice_fits(const hga_plan *plan, const hga_workspace *workspace)
{
    return workspace->slice_bytes >= slices_bytes(plan);
}

void slice_renew(const hga_plan *plan, hga_workspace *workspace)
{
    if (!plan->slices) return;
    memset(workspace->slice_memory, 0, (size_t)workspace->slice_bytes);
    slice_open(plan, &workspace->slice, workspace->slice_memory);
}

void workspace_request(hga_workspace *workspace, const needed_row *list, int64_t n, int alone, int one_token)
{
    workspace->needed = list, workspace->n_needed = n, workspace->needed_alone = alone;
    workspace->needed_by_token = one_token;
}

void workspace_choose(hga_workspace *workspace, const row_choice *choice) { workspace->choice = choice; }

/* Finds the rows that this execution runs: those that the requested rows depend on and that are not present yet. */
hga_status slice_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    slice *s = &workspace->slice;
    requested_rows *requested = &workspace->requested;
    hga_status st = ranges_requested(plan, io, requested);
    workspace->sliced = rows_stay(plan) || !requested->all;
    if (st || !workspace->sliced || plan_is_shared(plan)) return st;
    slice_begin(plan, s);
    s->one_token = workspace->needed_by_token;
    for (int64_t i = 0; !workspace->needed_alone && i < requested->n; i++)
        slice_request(plan, s, requested->interval[i].first, requested->interval[i].n);
    if (!workspace->needed_alone && requested->all) slice_request_others(plan, s);
    for (int64_t i = 0; i < workspace->n_needed; i++)
        slice_request_row(s, workspace->needed[i].field, workspace->needed[i].node);
    slice_find(plan, s);
    slice_list(plan, s);
    return HGA_OK;
}

/* Multiplications that take about as long as waking the other threads. */
static const double SMALL = 1e6;

/* Whether each job runs one row, with all heads: then no two threads would have work at once, and the decoder's inputs
   are in the calling thread's cache. Strict rows and columns divide their heads among threads. */
static int rows_come_alone(const hga_plan *plan, const slice *s)
{
    FOR_JOBS(s, j)
    {
        const slice_job *job = &plan->slices->job[j];
        const row_bits *run = &s->run[j];
        const int of_stage = plan->phase[job->phase].job <= JOB_MERGE;
        if (of_stage && (plan->stage[job->stage].strict || plan->stage[job->stage].by_columns)) return 0;
        if (bits_next(run, bits_next(run, 0, run->n) + 1, run->n) < run->n) return 0;
    }
    return 1;
}

int slice_is_for_one(const hga_plan *plan, const hga_workspace *workspace)
{
    const hga_shape *s = &plan->shape;
    if (!workspace->sliced) return 0;
    return workspace->slice.cost * s->n_heads * (s->dim + s->dim_v) < SMALL ||
           (plan->lone_rows && rows_come_alone(plan, &workspace->slice));
}

/* ---- rows in and out ---- */
