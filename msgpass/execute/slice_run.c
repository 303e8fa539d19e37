/* slice_run.c: a workspace's slice: which rows an execution runs, and which are present. */
#include "slice_run.h"
#include "plan.h"
#include "ranges.h"

#include <string.h>

hga_status slice_create(const hga_plan *plan, hga_workspace *workspace)
{
    workspace->sliced.bytes = slices_bytes(plan);
    hga_status st = hga_new_zero(&workspace->base.allocator, workspace->sliced.bytes, 1, &workspace->sliced.memory);
    if (!st && plan->slices) slice_open(plan, &workspace->sliced.slice, workspace->sliced.memory);
    return st;
}

void slice_destroy(hga_workspace *workspace)
{
    hga_delete(&workspace->base.allocator, workspace->sliced.memory, workspace->sliced.bytes, 1);
}

int slice_fits(const hga_plan *plan, const hga_workspace *workspace)
{
    return workspace->sliced.bytes >= slices_bytes(plan);
}

void slice_renew(const hga_plan *plan, hga_workspace *workspace)
{
    if (!plan->slices) return;
    memset(workspace->sliced.memory, 0, (size_t)workspace->sliced.bytes);
    slice_open(plan, &workspace->sliced.slice, workspace->sliced.memory);
}

void workspace_request(hga_workspace *workspace, const needed_row *list, int64_t n, int alone, int one_token)
{
    workspace->request.needed = list, workspace->request.n_needed = n, workspace->request.alone = alone;
    workspace->request.by_token = one_token;
}

void workspace_choose(hga_workspace *workspace, const row_choice *choice) { workspace->request.choice = choice; }

/* Refuses an execution that would compute, and write, rows of the caller's output that nobody requested: what is made
   of such a row is read, and is not there. */
static hga_status check_output(const hga_plan *plan, const slice *s, const requested_rows *requested)
{
    const hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    const int64_t first = plan->fields.storage[out].io_first, end = first + plan->fields.storage[out].io_n;
    int64_t at = 0;
    FOR_RUNS(&s->needed[out], v, last, first, end)
    {
        for (int64_t row = v - first; row < last - first; row++) {
            while (at < requested->n && row >= requested->interval[at].first + requested->interval[at].n) at++;
            if (at < requested->n && row >= requested->interval[at].first) continue;
            return hga_fail(HGA_EUNSUPPORTED,
                            "options.rows: row %lld of the output is not requested, but a requested row depends on it: "
                            "request it now%s",
                            (long long)row, rows_stay(plan) ? ", or before" : "");
        }
    }
    return HGA_OK;
}

/* Finds the rows that this execution runs: those that the requested rows depend on and that are not present yet. */
hga_status slice_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace)
{
    slice *s = &workspace->sliced.slice;
    requested_rows *requested = &workspace->request.rows;
    hga_status st = ranges_requested(plan, io, requested);
    workspace->sliced.on = rows_stay(plan) || !requested->all;
    if (st || !workspace->sliced.on || plan_is_shared(plan)) return st;
    slice_begin(plan, s);
    s->one_token = workspace->request.by_token;
    for (int64_t i = 0; !workspace->request.alone && i < requested->n; i++)
        slice_request(plan, s, requested->interval[i].first, requested->interval[i].n);
    if (!workspace->request.alone && requested->all) slice_request_others(plan, s);
    for (int64_t i = 0; i < workspace->request.n_needed; i++)
        slice_request_row(s, workspace->request.needed[i].field, workspace->request.needed[i].node);
    slice_find(plan, s);
    st = check_output(plan, s, requested);
    if (!st) slice_list(plan, s);
    return st;
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
        const int of_stage = plan->phases.list[job->phase].job <= JOB_MERGE;
        if (of_stage && (plan->stage[job->stage].strict || plan->stage[job->stage].by_columns)) return 0;
        if (bits_next(run, bits_next(run, 0, run->n) + 1, run->n) < run->n) return 0;
    }
    return 1;
}

int slice_is_for_one(const hga_plan *plan, const hga_workspace *workspace)
{
    const hga_shape *s = &plan->shape;
    if (!workspace->sliced.on) return 0;
    return workspace->sliced.slice.cost * s->n_heads * (s->dim + s->dim_v) < SMALL ||
           (plan->fields.lone_rows && rows_come_alone(plan, &workspace->sliced.slice));
}

/* ---- rows in and out ---- */

const row_bits *rows_to_run(const hga_workspace *workspace, const phase *ph, hga_id stage)
{
    return workspace->sliced.on ? slice_rows(&workspace->sliced.slice, ph, stage) : NULL;
}
