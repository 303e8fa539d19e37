/* execute.c: an execution: begin, run, end. One parallel region a call; every thread walks its lists of panels, with
   a barrier between waves. */
#include "execution.h"
#include "layouts.h"
#include "slice_run.h"
#include "stages.h"
#include "tape.h"
#include "thread_binding.h"
#include "plan.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- threads ---- */

void execution_run_alone(const hga_plan *plan, hga_workspace *workspace)
{
    int sixteen = sixteen_has(workspace);
    worker_begin(&workspace->team.worker[0]);
    for (hga_id t = 0; sixteen && t < plan->team.n; t++) sixteen_widen(plan, workspace, t);
    if (workspace->sliced.on) run_some_items(&workspace->team.worker[0], 0, plan->waves.n_items);
    for (hga_id wave = 0; wave < plan->waves.n && !workspace->sliced.on; wave++)
        for (hga_id t = 0; t < plan->team.n; t++) run_share(&workspace->team.worker[0], wave, t);
    for (hga_id t = 0; sixteen && t < plan->team.n; t++) sixteen_narrow(plan, workspace, t);
}

/* OpenMP may grant fewer threads than requested: then each runs several shares. Shares decide which thread computes a
   row, never its value. */
void execution_run_together(const hga_plan *plan, hga_workspace *workspace, hga_id me, hga_id n)
{
    worker *w = &workspace->team.worker[me];
    int sixteen = sixteen_has(workspace);
    worker_begin(w);
    for (hga_id t = me; sixteen && t < plan->team.n; t += n) sixteen_widen(plan, workspace, t);
    for (hga_id wave = 0; wave < plan->waves.n; wave++) {
        if (wave > 0 || sixteen) meeting_await(&workspace->team.meeting, n);
        for (hga_id t = me; t < plan->team.n; t += n) run_share(w, wave, t);
    }
    if (sixteen) {
        meeting_await(&workspace->team.meeting, n);
        for (hga_id t = me; t < plan->team.n; t += n) sixteen_narrow(plan, workspace, t);
    }
}

int execution_is_alone(const hga_plan *plan) { return threads_allowed(plan->team.n) == 1; }

/* Opens a parallel region: each thread binds to its processor, runs its share and unbinds. */
static void run_in_parallel(const hga_plan *plan, hga_workspace *workspace)
{
#pragma omp parallel num_threads(plan->team.n)
    {
        hga_id me = (hga_id)omp_get_thread_num();
        binding old;
        binding_take(plan, &old);
        execution_run_together(plan, workspace, me, (hga_id)omp_get_num_threads());
        topology_unbind(&old);
    }
}

static void run_here(const hga_plan *plan, hga_workspace *workspace)
{
    binding old;
    binding_take_alone(plan, &old);
    execution_run_alone(plan, workspace);
    topology_unbind(&old);
}

/* Copies the caller's rows for hga_workspace_field: their tensors may be gone later. */
static void keep_io_rows(const hga_plan *plan, hga_workspace *workspace)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const bound_field *x = &workspace->field[f];
        if (!plan->fields.storage[f].copy_n) continue;
        float *to = workspace->memory.rows + plan->fields.storage[f].copy_at;
        for (hga_id i = 0; i < plan->fields.storage[f].copy_n; i++)
            for (hga_id h = 0; h < x->heads; h++, to += x->columns)
                memcpy(to, bound_io_row(x, i) + h * x->io.head, (size_t)x->columns * sizeof *to);
    }
}

/* Invalidates the tape, and clears the log-sum-exps where only some rows are requested. */
static void begin_tape(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    *(tape_header *)io->tape = (tape_header){.magic = 0};
    for (int64_t i = 0; !workspace->request.rows.all && i < tape_lses(plan); i++) tape_lse(io->tape)[i] = -INFINITY;
}

void tape_end(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io)
{
    *(tape_header *)io->tape = (tape_header){.magic = TAPE_MAGIC,
                                             .identity = plan->version.identity,
                                             .serial = plan->version.serial,
                                             .requested = ranges_stamp(&workspace->request.rows)};
}

/* Fits the workspace to its plan, binds the call, and passes it to every worker. */
hga_status execution_begin(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    hga_status st = workspace_fit(plan, workspace);
    if (st) return st;
    st = fields_bind(plan, io, workspace);
    if (!st) st = layouts_learn_types(plan, workspace);
    if (st) execution_forget(workspace);
    if (!st && io->tape) begin_tape(plan, workspace, io);
    for (hga_id t = 0; !st && t < workspace->team.n; t++) {
        worker *w = &workspace->team.worker[t];
        w->plan = plan, w->workspace = workspace, w->io = workspace->staged;
        w->reading = -1;
    }
    return st;
}

void execution_forget(hga_workspace *workspace)
{
    memset(workspace->field, 0, sizeof workspace->field);
    sixteen_forget(workspace);
}

void execution_end(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (plan->slices && workspace->sliced.on && !plan->fields.on_demand) slice_end(plan, &workspace->sliced.slice);
    keep_io_rows(plan, workspace);
    sixteen_forget(workspace);
    if (io->tape) tape_end(plan, workspace, io);
}

hga_status execution_run(const hga_plan *plan, hga_workspace *workspace)
{
    if (plan->waves.alone || execution_is_alone(plan) || slice_is_for_one(plan, workspace)) {
        run_here(plan, workspace);
        return HGA_OK;
    }
    hga_status st = threads_prepare(plan->team.n);
    if (!st) run_in_parallel(plan, workspace);
    return st;
}

/* ---- a call ---- */

hga_status hga_plan_execute(const hga_plan *plan, hga_workspace *workspace, const hga_io *io)
{
    if (!plan || !workspace || !io)
        return plan_failed(plan, hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspace ? "workspace" : "tensors"));
    hga_status st = execution_begin(plan, workspace, io);
    if (st) return plan_failed(plan, st);
    const plan_wing *wing = plan->share.wing;
    HGA_TRY(wing ? wing->execution->run(plan, workspace, io, 1) : execution_run(plan, workspace));
    wing ? execution_forget(workspace) : execution_end(plan, workspace, io);
    binding_say(plan);
done:
    if (st) execution_forget(workspace);
    return plan_failed(plan, st);
}
