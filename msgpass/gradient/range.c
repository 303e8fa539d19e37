/* range.c: the gradients of an execution of some rows. All other rows have an adjoint of zero, whatever the caller's
   arrays hold there. */
#include "carve.h"
#include "gradient_rows.h"
#include "gradient.h"
#include "ranges.h"

#include <string.h>

static hga_id out_of(const gradient_call *c) { return program_bound(&c->plan->program, HGA_IO_OUT); }

/* Bytes of all rows of the output, or of its log-sum-exps. */
static int64_t bytes_of(const gradient_call *c, hga_id columns, const hga_tensor *t)
{
    hga_id first, rows = field_io(c->plan, out_of(c), &first);
    return t->data ? (int64_t)rows * c->plan->shape.n_heads * columns * (int64_t)dtype_bytes(t->dtype) : 0;
}

/* Finds the requested rows of the output; returns whether there are others. */
static int is_part(const gradient_call *c, requested_rows *requested)
{
    return ranges_requested(c->plan, c->io, requested) == HGA_OK && !requested->all;
}

void range_needs(const gradient_call *c, int64_t bytes[N_COMPACT])
{
    requested_rows requested;
    int part = is_part(c, &requested);
    bytes[0] = part ? bytes_of(c, field_columns(c->plan, out_of(c)), &c->grad->d_out) : 0;
    bytes[1] = part ? bytes_of(c, 1, &c->grad->d_lse) : 0;
    bytes[2] = part ? bytes_of(c, c->io->edge_value.columns, &c->grad->d_edge_out) : 0;
}

/* Copies the caller's numbers of requested rows, zeros elsewhere. */
static hga_tensor keep_rows(const gradient_call *c, hga_id columns, const requested_rows *requested,
                            const hga_tensor *t, void *memory)
{
    hga_id io_first, rows = field_io(c->plan, out_of(c), &io_first), heads = c->plan->shape.n_heads;
    hga_tensor compact = {.data = t->data ? memory : NULL, .dtype = t->dtype, .rows = rows};
    size_t bytes = (size_t)columns * dtype_bytes(t->dtype);
    if (!compact.data) return compact;
    memset(compact.data, 0, (size_t)bytes_of(c, columns, t));
    for (const hga_interval *x = requested->interval; x < requested->interval + requested->n; x++)
        for (hga_id i = (hga_id)x->first; i < x->first + x->n; i++)
            for (hga_id h = 0; h < heads; h++)
                memcpy(tensor_at(&compact, heads, columns, i, h), tensor_at(t, heads, columns, i, h), bytes);
    return compact;
}

/* Copies the caller's gradients of the output, with zeros in rows that are not requested. */
void range_open(gradient_call *c, hga_grad_io *own, carver *arena)
{
    requested_rows requested;
    if (c->requested.n) return;
    void *out = carve(arena, c->needs.compact_bytes[0], 1), *lse = carve(arena, c->needs.compact_bytes[1], 1),
         *features = carve(arena, c->needs.compact_bytes[2], 1);
    if (!arena->base || !is_part(c, &requested)) return;
    *own = *c->grad;
    own->d_out = keep_rows(c, field_columns(c->plan, out_of(c)), &requested, &c->grad->d_out, out);
    own->d_lse = keep_rows(c, 1, &requested, &c->grad->d_lse, lse);
    own->d_edge_out = keep_rows(c, c->io->edge_value.columns, &requested, &c->grad->d_edge_out, features);
    c->grad = own;
}

/* ---- solvers that skip other rows ---- */

void range_skip(gradient_call *c)
{
    if (!is_part(c, &c->requested))
        c->requested = (requested_rows){0};
    else
        memset(c->needs.compact_bytes, 0, sizeof c->needs.compact_bytes);
}

/* Is a row among [first, end) requested? */
int range_has(const gradient_call *c, hga_id first, hga_id end)
{
    hga_id io_first;
    field_io(c->plan, out_of(c), &io_first);
    int64_t begin = 0, beyond = c->requested.n;
    while (begin < beyond) { /* intervals ascend: finds the first one that ends after `first` */
        int64_t middle = begin + (beyond - begin) / 2;
        hga_interval x = c->requested.interval[middle];
        if (x.first + x.n + io_first > first)
            beyond = middle;
        else
            begin = middle + 1;
    }
    return c->requested.n == 0 || (begin < c->requested.n && c->requested.interval[begin].first + io_first < end);
}

void range_clear(const gradient_call *c, hga_id f)
{
    const hga_tensor *t = field_gradient(c, f);
    hga_id first, n = field_io(c->plan, f, &first), heads = field_heads(c->plan, f),
                  columns = field_columns(c->plan, f);
    if (!t || !t->data || c->grad->accumulate) return;
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < heads; h++)
            memset(tensor_at(t, heads, columns, i, h), 0, (size_t)columns * dtype_bytes(t->dtype));
}
