/* sixteen.c: tensors of 16 bits. What the caller brings is widened into the state once a call, what a program wrote is
   rounded back behind it, to nearest, ties to even; widening is exact, so results are those of the same values in
   float32, and rows that nobody wrote keep their bits. */
#include "execute.h"

#include "sixteen.h"

/* ---- a tensor ---- */

static hga_status grow(hga_workspace *workspace, widened *w, int64_t floats)
{
    if (w->room >= floats) return HGA_OK;
    float *more = NULL;
    hga_status st = hga_new(&workspace->allocator, floats, sizeof *more, &more);
    if (st) return st;
    hga_delete(&workspace->allocator, w->values, w->room, sizeof *w->values);
    w->values = more, w->room = floats;
    return HGA_OK;
}

hga_status sixteen_widen(hga_workspace *workspace, hga_id field, const hga_tensor *t)
{
    bound_field *x = &workspace->field[field];
    widened *w = &workspace->widened[field];
    hga_status st = grow(workspace, w, (int64_t)x->io_n * x->heads * x->columns);
    if (st) return st;
    ptrdiff_t head = t->head_stride ? t->head_stride : x->columns;
    ptrdiff_t row = t->row_stride ? t->row_stride : (ptrdiff_t)x->columns * x->heads;
    w->given = t->data, w->type = t->dtype, w->row_stride = row, w->head_stride = head, w->rows = x->io_n;
    float *to = w->values;
    for (hga_id i = 0; i < x->io_n; i++)
        for (hga_id h = 0; h < x->heads; h++, to += x->columns)
            widen_row(t->dtype == HGA_F16, w->given + i * row + h * head, to, x->columns);
    return HGA_OK;
}

/* Rows [first, end) of the field go back. */
static void narrow_rows(const hga_workspace *workspace, hga_id f, hga_id first, hga_id end)
{
    const widened *w = &workspace->widened[f];
    const bound_field *x = &workspace->field[f];
    const float *from = w->values + (int64_t)first * x->heads * x->columns;
    for (hga_id i = first; i < end; i++)
        for (hga_id h = 0; h < x->heads; h++, from += x->columns)
            narrow_row(w->type == HGA_F16, from, w->given + i * w->row_stride + h * w->head_stride, x->columns);
}

/* Of the output those that were asked for, of other fields all. */
static void narrow_field(const hga_workspace *workspace, hga_id f, int is_out)
{
    const asked_rows *asked = &workspace->asked;
    if (!is_out) narrow_rows(workspace, f, 0, workspace->widened[f].rows);
    for (int64_t i = 0; is_out && i < asked->n; i++) {
        hga_interval x = asked->interval[i];
        narrow_rows(workspace, f, (hga_id)x.first, (hga_id)(x.first + x.n));
    }
}

void sixteen_narrow(const hga_plan *plan, hga_workspace *workspace)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (workspace->widened[f].given && program_writes_given(&plan->program, f))
            narrow_field(workspace, f, plan->program.field[f].binding == HGA_IO_OUT);
    sixteen_forget(workspace);
}

void sixteen_forget(hga_workspace *workspace)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) workspace->widened[f].given = NULL;
}

void sixteen_clear(hga_workspace *workspace)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++)
        hga_delete(&workspace->allocator, workspace->widened[f].values, workspace->widened[f].room, sizeof(float));
}
