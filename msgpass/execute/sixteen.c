/* sixteen.c: tensors of 16 bits. The caller's inputs are widened into the workspace once a call, each row by the thread
   that owns its tokens; outputs are rounded back afterwards, to nearest, ties to even; widening is exact, so results
   are those of the same values in float32, and rows that no stage writes keep their bits. */
#include "bindings.h"
#include "owners.h"
#include "plan.h"
#include "ranges.h"
#include "regions.h"
#include "workspace.h"

/* ---- a tensor ---- */

static hga_status grow(hga_workspace *workspace, widened *w, int64_t floats)
{
    if (w->capacity >= floats) return HGA_OK;
    float *more = NULL;
    hga_status st = hga_new(&workspace->base.allocator, floats, sizeof *more, &more);
    if (st) return st;
    hga_delete(&workspace->base.allocator, w->values, w->capacity, sizeof *w->values);
    w->values = more, w->capacity = floats;
    return HGA_OK;
}

hga_status sixteen_open(hga_workspace *workspace, hga_id field, const hga_tensor *t)
{
    const bound_field *x = &workspace->field[field];
    widened *w = &workspace->widened[field];
    hga_status st = grow(workspace, w, (int64_t)x->io.n * x->heads * x->columns);
    if (st) return st;
    w->layout = tensor_layout(t, x->heads, x->columns);
    w->input = t->data, w->type = t->dtype, w->rows = x->io.n;
    return HGA_OK;
}

int sixteen_has(const hga_workspace *workspace)
{
    int has = 0;
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) has |= workspace->widened[f].input != NULL;
    return has;
}

/* ---- a thread's rows ---- */

static uint16_t *input_row(const widened *w, hga_id i) { return w->input + row_offset(&w->layout, i); }

/* Widens or narrows rows [first, end) of the field. */
typedef void (*some_rows)(const kernel_table *kernels, const field_storage *h, const widened *w, hga_id first,
                          hga_id end);

static void widen_rows(const kernel_table *kernels, const field_storage *h, const widened *w, hga_id first, hga_id end)
{
    float *to = w->values + (int64_t)first * h->heads * h->columns;
    for (hga_id i = first; i < end; i++)
        for (hga_id head = 0; head < h->heads; head++, to += h->columns)
            kernels->widen_halves(w->type == HGA_F16, h->columns, input_row(w, i) + head * w->layout.head, to);
}

static void narrow_rows(const kernel_table *kernels, const field_storage *h, const widened *w, hga_id first, hga_id end)
{
    const float *from = w->values + (int64_t)first * h->heads * h->columns;
    for (hga_id i = first; i < end; i++)
        for (hga_id head = 0; head < h->heads; head++, from += h->columns)
            kernels->narrow_halves(w->type == HGA_F16, h->columns, from, input_row(w, i) + head * w->layout.head);
}

/* Applies `act` to the thread's own rows among [first, end) of the field, level by level. */
static void each_owned(const hga_plan *plan, const hga_workspace *workspace, hga_id f, hga_id thread, hga_id first,
                       hga_id end, some_rows act)
{
    const field_storage *h = &plan->fields.storage[f];
    const widened *w = &workspace->widened[f];
    for (hga_id l = 0; l < plan->nodes.n_levels; l++) {
        hga_id from, to;
        if (!owned_of_level(plan, thread, l, h->io_first, w->rows, &from, &to)) continue;
        if (from < first) from = first;
        if (to > end) to = end;
        if (from < to) act(plan->machine.kernels, h, w, from, to);
    }
}

void sixteen_widen(const hga_plan *plan, hga_workspace *workspace, hga_id thread)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (workspace->widened[f].input)
            each_owned(plan, workspace, f, thread, 0, workspace->widened[f].rows, widen_rows);
}

/* Of the output only the requested rows, of other fields all. */
void sixteen_narrow(const hga_plan *plan, hga_workspace *workspace, hga_id thread)
{
    const requested_rows *requested = &workspace->request.rows;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        int is_out = plan->program.field[f].binding == HGA_IO_OUT;
        if (!workspace->widened[f].input || !program_writes_input(&plan->program, f)) continue;
        if (!is_out) each_owned(plan, workspace, f, thread, 0, workspace->widened[f].rows, narrow_rows);
        for (int64_t i = 0; is_out && i < requested->n; i++) {
            hga_interval x = requested->interval[i];
            each_owned(plan, workspace, f, thread, (hga_id)x.first, (hga_id)(x.first + x.n), narrow_rows);
        }
    }
}

void sixteen_forget(hga_workspace *workspace)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) workspace->widened[f].input = NULL;
}

void sixteen_clear(hga_workspace *workspace)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++)
        hga_delete(&workspace->base.allocator, workspace->widened[f].values, workspace->widened[f].capacity,
                   sizeof(float));
}
