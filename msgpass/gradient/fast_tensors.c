/* fast_tensors.c: to and from the caller's tensors, a head at a time; those of 16 bits are widened row by row, and what
   goes to them is rounded. */
#include "fast.h"

#include <math.h>
#include <string.h>

static hga_id head_of(const fast_pass *p, hga_id f) { return is_kv(p, f) ? p->kv : p->head; }

/* The rows of the caller's tensor of a field, or of its gradient, for the head at hand. */
typedef struct head_rows {
    char *first;
    ptrdiff_t stride; /* bytes */
    hga_dtype type;
    hga_id node, n, columns;
} head_rows;

static head_rows rows_of(const fast_pass *p, hga_id f, const hga_tensor *t)
{
    hga_id heads = field_heads(p->plan, f), first, n = field_io(p->plan, f, &first), columns = p->field[f].columns;
    char *row = tensor_at(t, heads, columns, 0, head_of(p, f)), *next = tensor_at(t, heads, columns, 1, head_of(p, f));
    return (head_rows){row, next - row, t->dtype, first, n, columns};
}

/* Rows of one head lie far apart, which no machine foresees: this one, and the row some rows later is fetched. */
enum { AHEAD = 12, LINE_BYTES = 64 };
static inline char *row_at(const head_rows *r, hga_id i)
{
    char *row = r->first + i * r->stride;
    for (hga_id c = 0; i + AHEAD < r->n && c < r->columns * (hga_id)sizeof(float); c += LINE_BYTES)
        __builtin_prefetch(row + AHEAD * r->stride + c);
    return row;
}

/* Its numbers, at `wide` where they are not floats. */
static inline const float *read_row(const head_rows *r, hga_id i, float *wide)
{
    const char *row = row_at(r, i);
    if (r->type == HGA_F32) return (const float *)(const void *)row;
    numbers_read(r->type, row, r->columns, wide);
    return wide;
}

/* Which of the rows are among the nodes. */
static row_range rows_among(const head_rows *r, row_range nodes)
{
    hga_id first = nodes.first - r->node, end = nodes.end - r->node;
    return (row_range){first > 0 ? first : 0, end < r->n ? end : r->n};
}

void load_range(fast_pass *p, hga_id f, row_range nodes)
{
    head_rows r = rows_of(p, f, field_tensor(p->call, f));
    row_range rows = rows_among(&r, nodes);
    for (hga_id i = rows.first; i < rows.end; i++)
        numbers_read(r.type, row_at(&r, i), r.columns, value_row(p, f, r.node + i));
}

void store_range(const fast_pass *p, hga_id f, row_range nodes)
{
    const hga_tensor *t = field_gradient(p->call, f);
    if (!t || !t->data) return;
    head_rows r = rows_of(p, f, t);
    row_range rows = rows_among(&r, nodes);
    for (hga_id i = rows.first; i < rows.end; i++) {
        const float *from = adjoint_row(p, f, r.node + i), *had = NULL;
        char *to = row_at(&r, i);
        if (p->call->grad->accumulate) had = read_row(&r, i, p->numbers);
        if (had) p->plan->kernels->blend(r.columns, 1, had, 1, from, p->numbers), from = p->numbers;
        numbers_write(r.type, from, r.columns, to);
    }
}

float *direct_row(const fast_pass *p, hga_id f, hga_id v, ptrdiff_t *stride)
{
    const hga_tensor *t = field_gradient(p->call, f);
    const fast_field *x = &p->field[f];
    if (!t || !t->data || t->dtype != HGA_F32 || p->call->grad->accumulate || x->padded != x->columns) return NULL;
    head_rows r = rows_of(p, f, t);
    *stride = r.stride / (ptrdiff_t)sizeof(float);
    return (float *)(void *)(r.first + (v - r.node) * r.stride);
}

/* The gradient of the output's rows. A row without edges asks for nothing. */
void seed_range(fast_pass *p, row_range nodes)
{
    hga_id out = program_bound(p->program, HGA_IO_OUT), heads = p->plan->shape.n_heads;
    fast_field *x = &p->field[out];
    const hga_grad_io *grad = p->call->grad;
    const kernel_table *kernels = p->plan->kernels;
    head_rows d = rows_of(p, out, &grad->d_out), o = rows_of(p, out, &p->call->io->out);
    row_range rows = rows_among(&d, nodes);
    for (hga_id i = rows.first; i < rows.end; i++) {
        hga_id v = d.node + i;
        float *given = adjoint_row(p, out, v);
        numbers_read(d.type, row_at(&d, i), d.columns, given);
        if (!x->lse) continue;
        const float *result = read_row(&o, i, p->numbers);
        double d_lse = grad->d_lse.data ? (double)*(const float *)tensor_at(&grad->d_lse, heads, 1, i, p->head) : 0;
        float lse = p->call->tape_lse[(ptrdiff_t)i * heads + p->head];
        x->lse[v] = lse == -INFINITY ? INFINITY : lse,
        x->delta[v] = (float)(kernels->dot(d.columns, given, result) - d_lse);
    }
}

static row_range all_nodes(const fast_pass *p) { return (row_range){0, p->nodes.n}; }
void fast_load(fast_pass *p, hga_id f) { load_range(p, f, all_nodes(p)); }
void fast_store(const fast_pass *p, hga_id f) { store_range(p, f, all_nodes(p)); }
void fast_seed(fast_pass *p) { seed_range(p, all_nodes(p)); }
