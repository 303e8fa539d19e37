/* bound.h: where the rows of a field are in this call: in the caller's tensor, in the workspace, or in memory on
   demand. */
#ifndef BOUND_H
#define BOUND_H

#include "hga_program.h"
#include "plan.h"

/* Of plans with on_demand: somebody else's memory, in which a node's row is. */
typedef struct borrowed_row {
    float *row;
    hga_id owner, next; /* -1, and the next that is free, as row_slots.borrowed_back has it */
} borrowed_row;

/* A field's storage with this call's addresses. */
typedef struct bound_field {
    float *io, *ws, *lse;
    uint16_t *bf16;
    const hga_id *ws_slot, *lse_slot, *bf16_slot; /* the areas' */
    /* [io_n]: the row of node io_first + i in the caller's tensor, which begins with row io_base; -1: it has none.
       NULL: row i */
    const hga_id *io_slot;
    const borrowed_row *borrowed;                                  /* ~x, where ws_slot is some x below 0 */
    ptrdiff_t io_row, io_head, io_step, ws_row, ws_head, bf16_row; /* io_step: see row_layout.step */
    hga_id io_fold, io_first, io_n, io_base, ws_first, lse_first, bf16_first, columns, heads;
    int streams; /* the caller's rows are more than caches hold, and whoever writes them does not soon read them */
} bound_field;

static inline int bound_is_io(const bound_field *f, hga_id v)
{
    return (uint32_t)(v - f->io_first) < (uint32_t)f->io_n && (!f->io_slot || f->io_slot[v - f->io_first] >= 0);
}
/* Index in the caller's tensor of node v's row, which must be in there (bound_is_io). */
static inline hga_id bound_io_number(const bound_field *f, hga_id v)
{
    return f->io_slot ? f->io_slot[v - f->io_first] - f->io_base : v - f->io_first;
}
/* Address of row i of the caller's tensor. */
static inline float *bound_io_row(const bound_field *f, hga_id i)
{
    return f->io + i * f->io_row + (f->io_fold ? i / f->io_fold * f->io_step : 0);
}
/* Node v's values for head 0: in the workspace, and wherever they are. */
static inline float *bound_ws_row(const bound_field *f, hga_id v)
{
    hga_id i = v - f->ws_first, row = f->ws_slot ? f->ws_slot[i] : i;
    return row < 0 ? f->borrowed[~row].row : f->ws + row * f->ws_row;
}
static inline float *bound_row(const bound_field *f, hga_id v)
{
    return bound_is_io(f, v) ? bound_io_row(f, bound_io_number(f, v)) : bound_ws_row(f, v);
}
static inline float *bound_lse(const bound_field *f, hga_id v)
{
    hga_id i = v - f->lse_first;
    return f->lse + (ptrdiff_t)(f->lse_slot ? f->lse_slot[i] : i) * f->heads;
}
/* Node v's key or value in bfloat16, for head 0; heads are contiguous. */
static inline uint16_t *bound_bf16(const bound_field *f, hga_id v)
{
    hga_id i = v - f->bf16_first;
    return f->bf16 + (f->bf16_slot ? f->bf16_slot[i] : i) * f->bf16_row;
}
static inline ptrdiff_t bound_head(const bound_field *f, hga_id v)
{
    return bound_is_io(f, v) ? f->io_head : f->ws_head;
}

/* bound.c: checks the call and sets the addresses of its fields in `workspace`. */
hga_status fields_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);

#endif
