/* items.c: the walk over a plan's items: a thread's share of a wave, by panels, splits and rows. */
#include "attend_solvers.h"
#include "execution.h"
#include "panel_rows.h"
#include "slice_run.h"
#include "splits.h"
#include "stage_kernel.h"
#include "stages.h"
#include "tape.h"

#include <string.h>

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
    row_layout lies = tensor_layout(t, x->heads, 1);
    float *to = (float *)t->data + row_offset(&lies, row_of_io);
    for (hga_id h = 0; h < x->heads; h++) to[h * lies.head] = bound_lse(x, v)[h];
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
