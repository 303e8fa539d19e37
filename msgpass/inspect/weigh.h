/* weigh.h: the weights of a row's edges in it, in double, as semantics/ defines them. Only the values that a query
   needs are computed, each once. */
#ifndef HGA_WEIGH_H
#define HGA_WEIGH_H

#include "flow.h"
#include "hga_inspect.h"
#include "stage_semantics.h"

/* One query: a program on a graph, with tensors, for one head. */
typedef struct weighing {
    const hga_program *p;
    const hga_graph *g;
    hga_shape shape; /* n_kv_heads is set */
    const hga_io *io;
    hga_id head;
    semantics m;
    double *position;                /* [n], where the call has slopes */
    hga_pos *first_edge;             /* [n + 1], of the stage that edge_bias belongs to; NULL: not yet */
    hga_id *io_row[HGA_FIELD_SLOTS]; /* [n]: the row of the caller's tensor, of input fields that were read */
    double **input[HGA_FIELD_SLOTS]; /* [n]: of input fields, the values that were read; NULL: not yet */
    double **made[HGA_MAX_STAGES];   /* [n]: of stages, the values of out (a state's is its log-sum-exp) */
    struct shelf *shelf;
    struct weighed *at_rest;
    hga_status st; /* the first error while values were computed */
} weighing;

/* Prepares the query of p, g, shape, io and head, the other members zeroed; HGA_EINVAL: shape or head do not fit. Call
   weigh_end whatever the outcome. */
hga_status weigh_begin(weighing *w);
/* Frees what the query has computed. */
void weigh_end(weighing *w);

/* For node v's row that stage i writes, with its edges: out[v] = sum factor[e] source[e] + *own own[v]. score[e] is the
   edge's score where the stage has scores, else 0. */
hga_status weigh_row(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *factor, double *score, double *own);

#endif
