/* bound.h: where the rows of a field are in this call: in the caller's tensor, in the workspace, or in memory on
   demand. */
#ifndef BOUND_H
#define BOUND_H

#include "hga_program.h"
#include "plan.h"

/* Of plans with on_demand: a node's row in memory outside the workspace. */
typedef struct borrowed_row {
    float *row;
    hga_id owner, next; /* -1 without; the next free one, as row_slots.borrowed_back has it */
} borrowed_row;

/* The caller's tensor; at NULL: the field has none. */
typedef struct bound_io {
    float *at;
    /* [n]: the row of node first + i in the caller's tensor, which begins with row `base`; -1: it has none. NULL: row
       i */
    const hga_id *slot;
    ptrdiff_t row, head, step; /* step: see row_layout.step */
    hga_id fold, first, n, base;
    int streams; /* its rows exceed the caches, and the thread that writes them does not soon read them */
} bound_io;

/* The workspace's rows. */
typedef struct bound_ws {
    float *at;
    const hga_id *slot;           /* NULL: row i; ~x below 0: borrowed[x] */
    const borrowed_row *borrowed; /* of the rows whose slot is below 0 */
    ptrdiff_t row, head;
    hga_id first;
} bound_ws;

/* Log-sum-exps of these rows. */
typedef struct bound_lse_rows {
    float *at;
    const hga_id *slot;
    hga_id first;
} bound_lse_rows;

/* These rows in 16 bits: copies, or the caller's own. */
typedef struct bound_bf16_rows {
    uint16_t *at;
    const hga_id *slot;
    ptrdiff_t row, head, step; /* step: see row_layout.step */
    hga_id fold, first;
    int is_io; /* the caller's: nothing is rounded */
} bound_bf16_rows;

/* A field's storage with this call's addresses. */
typedef struct bound_field {
    bound_io io;
    bound_ws ws;
    bound_lse_rows lse;
    bound_bf16_rows bf16;
    hga_id columns, heads;
} bound_field;

static inline int bound_is_io(const bound_field *f, hga_id v)
{
    return (uint32_t)(v - f->io.first) < (uint32_t)f->io.n && (!f->io.slot || f->io.slot[v - f->io.first] >= 0);
}
/* Index in the caller's tensor of node v's row, which must be in there (bound_is_io). */
static inline hga_id bound_io_number(const bound_field *f, hga_id v)
{
    return f->io.slot ? f->io.slot[v - f->io.first] - f->io.base : v - f->io.first;
}
/* Address of row i of the caller's tensor. */
static inline float *bound_io_row(const bound_field *f, hga_id i)
{
    return f->io.at + i * f->io.row + (f->io.fold ? i / f->io.fold * f->io.step : 0);
}
/* Node v's values for head 0, which are in the workspace. */
static inline float *bound_ws_row(const bound_field *f, hga_id v)
{
    hga_id i = v - f->ws.first, row = f->ws.slot ? f->ws.slot[i] : i;
    return row < 0 ? f->ws.borrowed[~row].row : f->ws.at + row * f->ws.row;
}
/* Node v's values for head 0, in the workspace or the caller's tensor. */
static inline float *bound_row(const bound_field *f, hga_id v)
{
    return bound_is_io(f, v) ? bound_io_row(f, bound_io_number(f, v)) : bound_ws_row(f, v);
}
/* Node v's log-sum-exps, [heads]. */
static inline float *bound_lse(const bound_field *f, hga_id v)
{
    hga_id i = v - f->lse.first;
    return f->lse.at + (ptrdiff_t)(f->lse.slot ? f->lse.slot[i] : i) * f->heads;
}
/* Node v's key or value in bfloat16, for head 0; the next head's are bf16.head numbers after them. */
static inline uint16_t *bound_bf16(const bound_field *f, hga_id v)
{
    hga_id i = v - f->bf16.first;
    return f->bf16.at + (f->bf16.slot ? f->bf16.slot[i] : i) * f->bf16.row +
           (f->bf16.fold ? i / f->bf16.fold * f->bf16.step : 0);
}
/* Head stride of bound_row, in floats. */
static inline ptrdiff_t bound_head(const bound_field *f, hga_id v)
{
    return bound_is_io(f, v) ? f->io.head : f->ws.head;
}

/* ---- bound.c ---- */

/* Checks the call and sets the addresses of its fields in `workspace`. */
hga_status fields_bind(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);

/* ---- addresses.c ---- */

/* Nodes: those of a list, or where that is NULL all from `first` on. */
typedef struct some_nodes {
    hga_id n, first;
    const hga_id *list;
} some_nodes;

static inline hga_id node_of(const some_nodes *x, hga_id i) { return x->list ? x->list[i] : x->first + i; }
/* Nodes of a list; a list of contiguous nodes becomes a range. */
some_nodes nodes_of(hga_id n, const hga_id *list);
static inline some_nodes nodes_from(hga_id n, hga_id first) { return (some_nodes){.n = n, .first = first}; }

/* at[n] = the addresses of these nodes' rows, in the workspace or the caller's tensor, for head 0. */
void find_rows(const bound_field *field, some_nodes of, float **at);
/* at[n] = the addresses of their log-sum-exps, [heads] each. */
void find_lses(const bound_field *field, some_nodes of, float **at);

/* to[nodes][heads] = log-sum-exps. */
void load_lses(const bound_field *field, some_nodes of, float *to);
/* Log-sum-exps = from[nodes][heads]. */
void store_lses(const bound_field *field, some_nodes of, const float *from);
/* to[nodes][heads] = rows of a field of scalars. */
void load_scalars(const bound_field *field, some_nodes of, float *to);
/* Rows of a field of scalars = from[nodes][heads]. */
void store_scalars(const bound_field *field, some_nodes of, const float *from);

enum { CHILDREN_AT_ONCE = 128 };
typedef struct some_families {
    some_nodes parents, children;
    const hga_id *ptr; /* [families + 1]: from ptr[i] - ptr[0] on, children are the i-th parent's */
    const float *mass; /* of the children, maybe in .. */
    float buffer[CHILDREN_AT_ONCE];
} some_families;

/* Finds whole families of the first of n nodes, as long as these are contiguous: each of fewer children than a chunk,
   at most `most` children together. Returns how many; 0: the first has more. */
hga_id take_families(const hga_nodes *nodes, hga_id most, hga_id n, const hga_id *node, some_families *out);

#endif
