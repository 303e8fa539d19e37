/* ordered.h: a graph of the user's renumbered so that neighbours are near each other: a call's tensors are moved to
   that order and its results back, so that all files keep the user's numbers. */
#ifndef CLI_ORDERED_H
#define CLI_ORDERED_H

#include "typed_call.h"

/* Finds that order of m->graph, which m keeps beside it as m->order and m->ordered. 0: leaves it as it is. */
int ordered_find(hga_ordering how, model *m);
/* The graph that runs: in order where there is an order. */
const hga_graph *ordered_graph(const model *m);
/* What the order gains, "edges between two halves 49.8 -> 1.0 %, ..", for free(); NULL where there is no order. */
int ordered_gain(const model *m, char **text);
/* The same on stderr, as a line. */
int ordered_say(const model *m);

enum { MOST_MOVES = 16 + 2 * HGA_N_TABLES };

typedef struct ordered_move ordered_move;

/* A call as the ordered graph takes it. Without an order everything is the caller's. */
typedef struct ordered_call {
    const model *m;
    hga_io io;
    hga_grad_io grad;
    int status, n;         /* arrays that stand for the caller's */
    ordered_move *move;    /* [n] */
    char back[MOST_MOVES]; /* [n]: it is written */
    hga_pos *edge;         /* [edges]: where the caller's order has each */
} ordered_call;

/* Moves io, and grad or NULL, packed and of float32, to the order; release with ordered_close. */
int ordered_open(const model *m, const hga_shape *shape, const hga_io *io, const hga_grad_io *grad, ordered_call *c);
/* Moves what the call has written back to the arrays of io and grad. */
void ordered_return(ordered_call *c);
void ordered_close(ordered_call *c);

#endif
