/* scattered.h: edges listed one by one in the backward pass: what a call has (scattered.c), and passes over the rows at
   one end (scattered_pass.c). */
#ifndef HGA_GRADIENT_SCATTERED_H
#define HGA_GRADIENT_SCATTERED_H

#include "plan.h"
#include "solvers.h"
#include "sorted_edges.h"

enum { BLOCK = 128 }; /* rows that a thread takes at once */

/* Rows of a tensor, and of its gradient; `at` NULL: not required. */
typedef struct wide_rows {
    hga_id heads, columns;
    kernel_wide read;
    kernel_gradient from;
} wide_rows;

/* Edges by the rows at one end: those of row i are at [ptr[i], ptr[i + 1]); nodes at the other end. */
typedef struct edge_list {
    const hga_pos *ptr;
    const hga_id *other;
    const float *weight; /* NULL: 1 */
    const int32_t *type; /* NULL: 0 */
} edge_list;

/* The relation's edges by their sources, those that attention reads. */
typedef struct transposed_edges {
    sorted_edges list; /* columns are nodes */
    float *weight;     /* [list.n]; NULL: 1 */
    int32_t *type;     /* .. where weights are dropped, which depends on it; NULL: 0 */
} transposed_edges;

/* Query heads first .. first + n - 1 run backward here; `share` of them read one key/value head. */
typedef struct scattered_heads {
    hga_id n, share, first;
} scattered_heads;

typedef struct scattered_range {
    hga_id first, n;
} scattered_range;

/* The edges by source, and what the first pass finds of them and the second reads. */
typedef struct scattered_edges {
    transposed_edges transposed;
    hga_pos *index, *cursor;   /* of transposed edges, in tables of edges; and [keys], to find them. NULL: not needed */
    float *weights, *contents; /* [edges][heads] each; NULL: the second pass computes them again */
} scattered_edges;

typedef struct scattered_operands {
    wide_rows q, k, v, o, g;
    kernel_wide edge_out, d_edge_out; /* at NULL: it has no adjoint */
} scattered_operands;

typedef struct scattered_gradients {
    double *d_scale;        /* [blocks][heads / share]; NULL: not required */
    float *d_additive;      /* [blocks][heads][dim]; NULL: not required */
    const table_sums *sums; /* [heads / share], of those that run backward here */
} scattered_gradients;

typedef struct scattered {
    const gradient_call *call;
    const hga_plan *plan;
    const hga_relation *r;
    const hga_stage *stage;
    scattered_heads heads;
    scattered_range rows, keys;
    scattered_edges edges;
    scattered_operands operands;
    float *adjoint;  /* [rows][2][heads]: log-sum-exp, +inf where there is no adjoint; delta */
    float *log_mass; /* [keys]; NULL where scores have none */
    float *additive; /* [heads][dim]; NULL: scores are products */
    scattered_gradients grads;
} scattered;

/* What a thread has, each [KERNEL_CHUNK][heads], padded: of the edges at hand what dropout leaves, gradients of scores,
   and products; NULL: not needed. */
typedef struct scattered_thread {
    float *cached, *slope, *product;
    float *packed, *packed_v; /* see kernel_grad_heads */
} scattered_thread;

/* Whether edges' rows of edge_value have gradients: of edge_out, or of values that they are added to. */
static inline int writes_edge_values(const scattered *x)
{
    return x->operands.d_edge_out.at || call_adds_edge_values(x->call->io);
}

/* The queries' edges, with their sources. */
edge_list scattered_sources(const scattered *x);
/* Gradients of queries, and what the second pass reads: each row sums over its keys and values. */
void scattered_pass_queries(const scattered *x, const scattered_thread *thread);
/* Gradients of keys and values: each row sums over its queries and their gradients. */
void scattered_pass_keys(const scattered *x, const scattered_thread *thread);

#endif
