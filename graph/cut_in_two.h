/* cut_in_two.h: a graph cut in two by METIS. */
#ifndef CUT_IN_TWO_H
#define CUT_IN_TWO_H

#include "hga_base.h"

/* A symmetric graph without loops; vertex i is `name[i]` of the caller's. */
typedef struct subgraph {
    int64_t n, n_adj, capacity;
    int32_t *ptr, *adj, *weight, *adj_weight;
    int64_t *name;
} subgraph;

/* The allocator of subgraphs and sides: `a`, or NULL, the C library's, where the caller may end the call and leave
   METIS running with them. */
const hga_allocator *subgraph_allocator(const hga_allocator *a);
/* Allocates a graph of n vertices and n_adj neighbours, to be filled; to be cleared by subgraph_clear, whatever the
   status. */
hga_status subgraph_create(const hga_allocator *a, int64_t n, int64_t n_adj, subgraph *p);
/* Frees the arrays; the subgraph is zero then. */
void subgraph_clear(const hga_allocator *a, subgraph *p);

/* (*side)[p->n] becomes 0 and 1, for `left` and `right` parts: each side has at least as many vertices as parts. Where
   the call is interrupted, METIS may keep *p and *side, which are then empty. */
hga_status cut_in_two(subgraph *p, int64_t left, int64_t right, int32_t **side);

#endif
