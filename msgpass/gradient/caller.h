/* caller.h: one head's rows in the caller's tensors, a large stride from each other. */
#ifndef HGA_GRADIENT_CALLER_H
#define HGA_GRADIENT_CALLER_H

#include "carve.h"
#include "fast_pass.h"
#include "number_types.h"
#include "plan.h"

#include <string.h>

/* The rows of the caller's tensor of a field, or of its gradient. */
typedef struct caller_rows {
    char *first;
    ptrdiff_t stride, step; /* bytes */
    hga_id fold;            /* 0: rows are a stride apart; see row_layout */
    hga_dtype type;
    hga_id node, n, columns;
    const kernel_table *kernels;
} caller_rows;

static inline caller_rows rows_at(const fast_pass *p, hga_id f, const hga_tensor *t)
{
    hga_id heads = field_heads(p->plan, f), first, n = field_io(p->plan, f, &first), columns = p->field[f].columns,
           head = is_kv(p, f) ? p->heads.kv : p->heads.head;
    row_layout x = tensor_layout(t, heads, columns);
    ptrdiff_t bytes = (ptrdiff_t)dtype_bytes(t->dtype);
    return (caller_rows){tensor_at(t, heads, columns, 0, head),
                         x.row * bytes,
                         x.step * bytes,
                         (hga_id)x.fold,
                         t->dtype,
                         first,
                         n,
                         columns,
                         p->plan->machine.kernels};
}

static inline char *row_numbered(const caller_rows *r, hga_id i)
{
    return r->first + i * r->stride + (r->fold ? i / r->fold * r->step : 0);
}

/* Does the field's gradient add to what the caller's rows hold: because the call accumulates, or because earlier
   heads of the group wrote there? */
static inline int adds_to_rows(const fast_pass *p, hga_id f)
{
    int others =
        p->heads.adds && is_kv(p, f) && p->heads.first % (p->plan->shape.n_heads / p->plan->shape.n_kv_heads) != 0;
    return p->call->grad->accumulate || others;
}

/* Node v's row; NULL: it has none. */
static inline char *row_of(const caller_rows *r, hga_id v)
{
    return v < r->node || v >= r->node + r->n ? NULL : row_numbered(r, v - r->node);
}

/* Prefetches a row that the hardware prefetcher does not foresee. Only into the second cache: one head's rows share
   few sets of the first, where they would evict each other, and lines on their way there are a dozen at most. (gcc
   12 takes a function that does nothing else for one that does nothing, unless it must be inlined.) */
static inline __attribute__((always_inline)) void fetch_row(const caller_rows *r, hga_id v)
{
    enum { LINE_BYTES = 64, SECOND_CACHE = 2 };
    const char *row = row_of(r, v);
    for (hga_id c = 0; row && c < r->columns * (hga_id)sizeof(float); c += LINE_BYTES)
        __builtin_prefetch(row + c, 0, SECOND_CACHE);
}

/* Are the rows many enough to evict each other from the caches before they are read, and aligned whole lines, as
   streaming stores require? */
static inline int is_stream(const hga_plan *plan, const caller_rows *r)
{
    enum { LINE = 64 };
    int64_t stride = r->fold ? r->columns * (int64_t)sizeof(float) : r->stride;
    return r->type == HGA_F32 && r->columns % KERNEL_PAD == 0 && (uintptr_t)r->first % LINE == 0 &&
           r->stride % LINE == 0 && r->step % LINE == 0 && stride * r->n >= plan->machine.tuning.is.stream_gradients;
}

/* Reads a row's numbers, padded with zeros; a missing row is zeros. */
static inline void read_padded(const caller_rows *r, const char *row, hga_id padded, float *to)
{
    if (row) numbers_read(r->kernels, r->type, row, r->columns, to);
    hga_id from = row ? r->columns : 0;
    if (from < padded) memset(to + from, 0, (size_t)(padded - from) * sizeof *to);
}

/* Returns the row itself if it is of floats, else a copy of floats in `wide`. */
static inline const float *look_at_row(const caller_rows *r, const char *row, float *wide)
{
    if (r->type == HGA_F32) return (const float *)(const void *)row;
    numbers_read(r->kernels, r->type, row, r->columns, wide);
    return wide;
}

#endif
