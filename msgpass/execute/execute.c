/* execute.c: an execution: begin, run, end. One parallel region a call; every thread walks its list of items, which are
   panels, splits and rows, with a barrier between waves. */
#include "execution.h"
#include "row_solvers.h"
#include "layouts.h"
#include "slice_run.h"
#include "stages.h"
#include "tape.h"
#include "thread_binding.h"
#include "plan.h"
#include "attend_solvers.h"
#include "panel_rows.h"
#include "splits.h"
#include "stage_kernel.h"

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

/* ---- the walk over a plan's items: panels, splits, rows ---- */

static void run_panels(worker *w, const phase *ph, hga_id panel)
{
    for (hga_id s = ph->stage; s < stages_end(ph); s++) run_panel(w, ph, s, panel);
}

/* Whether this execution runs row i of a phase of splits, merges or a field's nodes. */
static int runs_row(const worker *w, const phase *ph, hga_id i)
{
    const row_bits *run = rows_to_run(w->workspace, ph, ph->stage);
    return !run || bits_have(run, i);
}

static void run_merge(worker *w, const phase *ph, hga_id i)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    const long_row *row = &s->long_row[i];
    hga_id v = node_at(s, row->position);
    if (!runs_row(w, ph, i) || !has_row(w, ph->stage, v)) return;
    splits_merge(w->plan, w->workspace, ph->stage, row->first_split, row->first_split + row->n_splits);
    plan_kernel(w->plan, ph->stage)->splits->finish(w, ph->stage, v, row->first_split);
}

/* Scales a finished row by its sinks' share, see hga_call.h. */
static void pay_sinks(worker *w, const bound_field *x, hga_id v, const float *sink)
{
    float *lse = bound_lse(x, v), *row = bound_row(x, v), *cached = w->rows.scalars[0], *paid = w->rows.scalars[1];
    w->plan->machine.kernels->shares(x->heads, lse, sink, cached, paid, lse);
    for (hga_id h = 0; h < x->heads; h++) {
        float *of_head = row + h * bound_head(x, v);
        if (cached[h] != 1) w->plan->machine.kernels->scale(x->columns, cached[h], of_head, of_head);
    }
}

/* Copies a finished row's log-sum-exps, after its sinks, to the tape and to the caller's tensor. */
static void copy_lse(worker *w, hga_id f, hga_id v)
{
    const hga_tensor *t = &w->io->lse;
    const bound_field *x = &w->workspace->field[f];
    hga_id row_of_io = bound_io_number(x, v);
    if (w->workspace->scores.sink) pay_sinks(w, x, v, w->workspace->scores.sink);
    if (w->io->tape)
        memcpy(tape_lse(w->io->tape) + (ptrdiff_t)row_of_io * x->heads, bound_lse(x, v),
               (size_t)x->heads * sizeof(float));
    if (!t->data) return;
    row_layout layout = tensor_layout(t, x->heads, 1);
    float *to = (float *)t->data + row_offset(&layout, row_of_io);
    for (hga_id h = 0; h < x->heads; h++) to[h * layout.head] = bound_lse(x, v)[h];
}

/* Runs a job on nodes of one field: rounding, or copying log-sum-exps. */
static void run_nodes(worker *w, const phase *ph, hga_id panel)
{
    void (*each)(worker *, hga_id, hga_id) = ph->job == JOB_ROUND ? round_row : copy_lse;
    if (ph->job == JOB_LSE && !w->io->lse.data && !w->io->tape && !w->workspace->scores.sink) return;
    hga_id begin = ph->first + panel * ph->panel,
           end = begin + ph->panel < ph->first + ph->n ? begin + ph->panel : ph->first + ph->n;
    for (hga_id v = begin; v < end; v++)
        if (runs_row(w, ph, v - ph->first)) each(w, ph->stage, v);
}

/* Sets the worker's range of key/value heads. */
static void open_heads(worker *w, wave_item item)
{
    int64_t parts = head_ranges(&w->plan->phases.list[item.phase]), n = w->plan->shape.n_kv_heads;
    worker_take_heads(w, (hga_id)(n * item.head_range / parts), (hga_id)(n * (item.head_range + 1) / parts));
}

/* Runs the first of n items, and those after it that its solver takes with it; returns how many. */
static int64_t run_some(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    if (ph->job < JOB_MERGE) open_stage(w, ph->stage);
    if (ph->job < JOB_MERGE && kind_attends(w->plan->stage[ph->stage].kind)) return solvers_run(w, item, n);
    switch (ph->job) {
    case JOB_ROWS: run_panels(w, ph, item->panel); break;
    case JOB_SPLITS: rows_run(w, item, 1); break;
    case JOB_MERGE: run_merge(w, ph, item->panel); break;
    default: run_nodes(w, ph, item->panel); break;
    }
    return 1;
}

/* Runs items [first, end) of the plan's order. Items of other phases that a solver skipped are run after it. */
static void run_items(worker *w, int64_t first, int64_t end)
{
    const wave_item *item = w->plan->waves.item;
    for (int64_t i = first, done; i < end; i += done) {
        open_heads(w, item[i]);
        done = run_some(w, &item[i], end - i);
        for (int64_t j = i + 1; j < i + done; j++)
            if (item[j].phase != item[i].phase) run_some(w, &item[j], 1);
        find_coming(w, i, end);
    }
    w->coming.n = 0;
}

/* Items of a slice in order, with their indices in the plan's order; number[n] is the next index. */
typedef struct some_items {
    int64_t n, number[KERNEL_TILE + 1];
    wave_item item[KERNEL_TILE];
} some_items;

/* Lists items from index i on: several splits, which may be computed together, else one item. */
static void list_some_items(const worker *w, int64_t i, int64_t end, some_items *x)
{
    const row_bits *items = &w->workspace->sliced.slice.items;
    const wave_item *item = w->plan->waves.item;
    const hga_id most = w->plan->phases.list[item[i].phase].job == JOB_SPLITS ? KERNEL_TILE : 1;
    for (x->n = 0; x->n < most && i < end; i = bits_next(items, i + 1, end))
        x->number[x->n] = i, x->item[x->n++] = item[i];
    x->number[x->n] = i;
}

void run_some_items(worker *w, int64_t first, int64_t end)
{
    some_items x;
    for (int64_t i = bits_next(&w->workspace->sliced.slice.items, first, end), done; i < end; i = x.number[done]) {
        list_some_items(w, i, end, &x);
        open_heads(w, x.item[0]);
        done = run_some(w, x.item, x.n);
    }
}

void run_share(worker *w, hga_id wave, hga_id t)
{
    const int64_t *ptr = w->plan->waves.ptr + (int64_t)wave * w->plan->team.n + t;
    w->workspace->sliced.on ? run_some_items(w, ptr[0], ptr[1]) : run_items(w, ptr[0], ptr[1]);
}
