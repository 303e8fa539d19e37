/* slow.h: what the files of the oracle share: fields with a value for every node, in-edges, rows. */
#ifndef SLOW_H
#define SLOW_H

#include "testing.h"

/* A field on every node; NaN where nothing was written. */
typedef struct values {
    hga_id heads, columns;
    double *x, *lse; /* [node][head](columns); lse NULL unless a state */
} values;

typedef struct machine {
    const hga_graph *graph;
    const hga_program *program;
    const slow_inputs *in;
    hga_nodes nodes;
    hga_shape shape;
    double *where; /* [nodes]: a token's index, a mean of tokens' above; where slopes are given */
    values field[HGA_FIELD_SLOTS];
} machine;

/* In-edges by destination: those of v are e[ptr[v] .. ptr[v + 1]). */
typedef struct in_edges {
    edge *e;
    int64_t *ptr;
} in_edges;

/* ---- fields ---- */

static inline hga_id heads_of(const hga_shape *s, hga_width width)
{
    return width == HGA_WIDTH_KV_KEY || width == HGA_WIDTH_VALUE ? s->n_kv_heads : s->n_heads;
}

static inline hga_id columns_of(const hga_shape *s, hga_width width)
{
    return width == HGA_WIDTH_SCALAR ? 1 : width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? s->dim : s->dim_v;
}

/* The shape with its defaults filled in. */
static inline hga_shape slow_shape(const hga_shape *input)
{
    hga_shape s = *input;
    if (!s.n_kv_heads) s.n_kv_heads = s.n_heads;
    if (!s.dim_v) s.dim_v = s.dim;
    return s;
}

/* Where node v's values of head h start. */
static inline double *at(const values *f, hga_id v, hga_id h)
{
    return f->x + ((int64_t)v * f->heads + h) * f->columns;
}

static inline double *lse_at(const values *f, hga_id v, hga_id h) { return f->lse + (int64_t)v * f->heads + h; }

/* The head of `f` that head h of n_heads reads. */
static inline hga_id head_for(const values *f, hga_id h, hga_id n_heads) { return h / (n_heads / f->heads); }

/* ---- one row of one head ---- */

/* log(e^a + e^b) without inf - inf. */
double slow_log_add(double a, double b);
/* Add e^weight x to the state (o, *lse), which stays normalised. */
void slow_merge(double *o, double *lse, const double *x, double weight, hga_id columns);
/* Computes row v and head h of stage s, by its message and the program's normaliser; `from` has the values before. */
void slow_row(machine *m, const hga_stage *s, const values *from, const in_edges *in, hga_id v, hga_id h);

#endif
