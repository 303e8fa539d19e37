/* score.h: the terms of an edge's score, its adjoint, and the weights of edges in sums. */
#ifndef HGA_SEMANTICS_SCORE_H
#define HGA_SEMANTICS_SCORE_H

#include "call.h"
#include "row_edges.h"
#include "soften.h"

/* Gradients of a call's tables, summed in double; NULL: not requested. */
typedef struct table_sums {
    double *of[HGA_N_TABLES];
} table_sums;

/* An entry of an input that is moved. */
typedef struct nudge {
    hga_gradient_input input;
    int64_t entry;
    double by;
} nudge;

/* A program on a graph with a call's inputs, except rows. */
typedef struct semantics {
    const hga_program *program;
    hga_nodes nodes;
    hga_shape shape;
    const hga_io *io;
    const softening *soften;
    double scale, bias;     /* of products; of the softening */
    double softcap;         /* of contents, 0: none */
    const float *additive;  /* [heads][dim], NULL: ones, or scores are products */
    const float *slopes;    /* [heads], NULL: none */
    const double *position; /* [nodes], hga_graph_positions, for slopes */
    float dropout;
    hga_id biased;             /* the stage that tables of edges belong to, -1: there are none */
    const hga_pos *first_edge; /* [nodes], of its relation: the canonical position of a row's first edge */
    nudge moved;
} semantics;

/* An edge between rows that have a score together. */
typedef struct scored_edge {
    const hga_stage *stage;
    const row_edge *e;
    hga_id v, head;
    const double *q, *k;
    int64_t index; /* in tables of edges, -1: there are none */
} scored_edge;

/* Entry i of an input, x, plus the nudge where it is the moved one. */
static inline double entry_of(const semantics *m, hga_gradient_input input, float x, int64_t i)
{
    return (double)x + (m->moved.input == input && m->moved.entry == i ? m->moved.by : 0);
}
/* entry_of for a table of the call. */
static inline double table_entry(const semantics *m, hga_call_table which, float x, int64_t i)
{
    return entry_of(m, (hga_gradient_input)(HGA_GRADIENT_TABLE + (int)which), x, i);
}

/* The factor of products of queries and keys. */
float semantics_scale(const hga_program *p, const hga_shape *s, const hga_io *io);

/* The semantics of a call on a graph: without positions, dropout, and a stage with tables of edges. */
semantics semantics_of_call(const hga_program *p, hga_nodes nodes, const hga_shape *s, const hga_io *io);

/* Edge i of row v of a stage, between a query and a key. */
scored_edge edge_between(const semantics *m, hga_id stage, hga_id v, hga_id head, const row_edge *e, int64_t i,
                         const double *q, const double *k);
/* s(u, v, e) of hga_program.h. */
double edge_score(const semantics *m, const scored_edge *x);
/* The score's gradient is ds, that of its count's logarithm d_count: adds them to the query, the key, and the tables.
   */
void edge_score_adjoint(const semantics *m, const scored_edge *x, double ds, double d_count, double *dq, double *dk,
                        const table_sums *sums);
/* The number of equal tokens that an edge counts for: its weight, in stages by mass times its source's mass. */
double edge_count(const semantics *m, const hga_stage *s, const row_edge *e);
/* edge_count with the source's log mass moved, as in scores. */
double edge_moved_count(const semantics *m, const hga_stage *s, const row_edge *e);
/* The factor of an edge's source in a mean or a sum, before a mean's division. */
double sum_factor(const semantics *m, const hga_stage *s, const row_edge *e);
/* Dropout's factor of the weight of an attended edge into v: 1, or with dropout 0 or 1 / (1 - p). */
double edge_dropout_factor(float dropout, const hga_io *io, const row_edge *e, hga_id v, hga_id head);

#endif
