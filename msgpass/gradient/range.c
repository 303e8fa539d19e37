/* range.c: the gradients of an execution of some rows. Whatever is given of the others, nothing of them is asked. */
#include "gradient.h"

#include <string.h>

static hga_id out_of(const gradient_call *c) { return program_bound(&c->plan->program, HGA_IO_OUT); }

/* The caller's numbers on rows [first, first + n), zeros elsewhere. */
static hga_status keep_rows(const gradient_call *c, hga_id columns, hga_id first, hga_id n, hga_tensor *t)
{
    hga_id io_first, rows = field_io(c->plan, out_of(c), &io_first), heads = c->plan->shape.n_heads;
    hga_tensor kept = {.dtype = t->dtype, .rows = rows};
    size_t bytes = (size_t)columns * dtype_bytes(t->dtype);
    hga_status st = t->data ? hga_new_zero(&c->plan->given, (int64_t)rows * heads, bytes, &kept.data) : HGA_OK;
    for (hga_id i = first; i < first + n && kept.data; i++)
        for (hga_id h = 0; h < heads; h++)
            memcpy(tensor_at(&kept, heads, columns, i, h), tensor_at(t, heads, columns, i, h), bytes);
    *t = kept;
    return st;
}

hga_status range_open(gradient_call *c, hga_grad_io *own)
{
    hga_status st = HGA_OK;
    hga_id first, n, io_first;
    HGA_TRY(ranges_asked(c->plan, c->io, &first, &n));
    if (n == field_io(c->plan, out_of(c), &io_first)) return HGA_OK;
    hga_tensor d_out = c->grad->d_out, d_lse = c->grad->d_lse;
    *own = *c->grad, own->d_out = own->d_lse = (hga_tensor){0}, c->grad = own;
    st = keep_rows(c, field_columns(c->plan, out_of(c)), first, n, &d_out), own->d_out = d_out;
    if (!st) st = keep_rows(c, 1, first, n, &d_lse), own->d_lse = d_lse;
done:
    return st;
}

static void clear_rows(const gradient_call *c, hga_id columns, const hga_tensor *t)
{
    hga_delete(&c->plan->given, t->data, t->rows * c->plan->shape.n_heads, (size_t)columns * dtype_bytes(t->dtype));
}

void range_close(const gradient_call *c, const hga_grad_io *own)
{
    if (c->grad != own) return;
    clear_rows(c, field_columns(c->plan, out_of(c)), &own->d_out), clear_rows(c, 1, &own->d_lse);
}
