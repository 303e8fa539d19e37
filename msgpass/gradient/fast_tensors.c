/* fast_tensors.c: to and from the caller's tensors, a head at a time; those of 16 bits are widened row by row, and
   stored ones rounded. */
#include "fast_tensors.h"
#include "caller.h"
#include "carve.h"
#include "fast_states.h"

#include <math.h>

/* Row i; prefetches a row some rows later. */
static inline char *next_row(const caller_rows *r, hga_id i)
{
    enum { AHEAD = 12 };
    fetch_row(r, r->node + i + AHEAD);
    return row_numbered(r, i);
}

/* The rows that are of these nodes. */
static row_range rows_among(const caller_rows *r, row_range nodes)
{
    hga_id first = nodes.first - r->node, end = nodes.end - r->node;
    return (row_range){first > 0 ? first : 0, end < r->n ? end : r->n};
}

void load_range(fast_pass *p, hga_id f, row_range nodes)
{
    caller_rows r = rows_at(p, f, field_tensor(p->call, f));
    row_range rows = rows_among(&r, nodes);
    for (hga_id i = rows.first; i < rows.end; i++)
        numbers_read(p->plan->machine.kernels, r.type, next_row(&r, i), r.columns, value_row(p, f, r.node + i));
}

/* Stores adjoints in the caller's rows, in the caller's type; added where several heads write one row. */
void store_range(const fast_pass *p, hga_id f, row_range nodes)
{
    const hga_tensor *t = field_gradient(p->call, f);
    if (!t || !t->data) return;
    caller_rows r = rows_at(p, f, t);
    row_range rows = rows_among(&r, nodes);
    int adds = adds_to_rows(p, f);
    for (hga_id i = rows.first; i < rows.end; i++) {
        const float *from = adjoint_row(p, f, r.node + i), *had = NULL;
        char *to = next_row(&r, i);
        if (adds) had = look_at_row(&r, to, p->own.numbers);
        if (had) p->plan->machine.kernels->blend(r.columns, 1, had, 1, from, p->own.numbers), from = p->own.numbers;
        numbers_write(p->plan->machine.kernels, r.type, from, r.columns, to);
    }
}

direct_rows find_direct_rows(const fast_pass *p, hga_id f, hga_id v)
{
    const hga_tensor *t = field_gradient(p->call, f);
    const fast_field *x = &p->field[f];
    if (!t || !t->data || t->dtype != HGA_F32 || x->padded != x->columns) return (direct_rows){0};
    caller_rows r = rows_at(p, f, t);
    if (r.fold) return (direct_rows){0};
    int streams = is_stream(p->plan, &r) &&
                  !(p->heads.adds && is_kv(p, f)); /* rows that other heads add to are read again soon */
    return (direct_rows){.first = (float *)(void *)(r.first + (v - r.node) * r.stride),
                         .stride = r.stride / (ptrdiff_t)sizeof(float),
                         .put = adds_to_rows(p, f) ? KERNEL_ADD
                                : streams          ? KERNEL_STREAM
                                                   : KERNEL_WRITE};
}

/* Loads the gradients of the output's rows. A row without edges has an adjoint of zero. */
void seed_range(fast_pass *p, row_range nodes)
{
    hga_id out = program_bound(p->program, HGA_IO_OUT);
    fast_field *x = &p->field[out];
    caller_rows d = rows_at(p, out, &p->call->grad->d_out), o = rows_at(p, out, &p->call->io->out);
    row_range rows = rows_among(&d, nodes);
    for (hga_id i = rows.first; i < rows.end; i++) {
        hga_id v = d.node + i;
        float *upstream = adjoint_row(p, out, v);
        numbers_read(p->plan->machine.kernels, d.type, next_row(&d, i), d.columns, upstream);
        if (!x->lse) continue;
        const float *result = look_at_row(&o, next_row(&o, i), p->own.numbers);
        x->lse[v] = call_requests_lse(p->call, i, p->heads.head);
        x->delta[v] = adjoint_delta(p, i, d.columns, upstream, result);
    }
}

static row_range all_nodes(const fast_pass *p) { return (row_range){0, p->nodes.n}; }

void fast_load(fast_pass *p, hga_id f) { load_range(p, f, all_nodes(p)); }

void fast_store(const fast_pass *p, hga_id f) { store_range(p, f, all_nodes(p)); }

void fast_seed(fast_pass *p) { seed_range(p, all_nodes(p)); }
